/* tests/lib/amx_emulator.h - AMX instructions in plain C, for tests on processors that lack them. The kernels' machine
 * code is executed as it is: a handler of SIGILL computes what each AMX instruction does and steps over it. A test that
 * includes this header is linked with the emulator's amx_permit() instead of the kernels'. */
#ifndef WEIR_TEST_AMX_EMULATOR_H
#define WEIR_TEST_AMX_EMULATOR_H

enum amx_kind {
	AMX_AS_IS, /* the level amx is there if the machine has it */
	AMX_RIGHT, /* on a processor without AMX, it is emulated */
	AMX_WRONG, /* the same, with one wrong bit in every product */
	AMX_REFUSED,
};

/* Choose what this process gets; to be called before the first backend is opened. Until then, AMX_AS_IS. */
void amx_emulate(enum amx_kind);
/* Return 1 if the processor has AMX: then nothing is emulated. */
int amx_native(void);
/* Return the number of instructions emulated so far. */
unsigned long amx_emulated(void);

#endif
