/* tests/lib/amx_emulator.h - AMX instructions in plain C, for tests on processors that lack them. The kernels' machine
 * code is executed as it is: a handler of SIGILL computes what each AMX instruction does and steps over it. A test that
 * includes this header is linked with the emulator's amx_permit() instead of the kernels'. */
#ifndef WEIR_TEST_AMX_EMULATOR_H
#define WEIR_TEST_AMX_EMULATOR_H

enum amx_kind {
	AMX_AS_IS, /* use AMX only if the processor has it */
	AMX_RIGHT, /* if the processor lacks AMX, emulate it */
	AMX_WRONG, /* like AMX_RIGHT, but one bit of every product is wrong */
	AMX_REFUSED,
};

/* Set which kind of AMX this process gets; the default is AMX_AS_IS. Call it before the first backend is opened. */
void amx_emulate(enum amx_kind);
/* 1 if the processor has AMX; nothing is emulated then. */
int amx_native(void);
/* Return the number of instructions emulated so far. */
unsigned long amx_emulated(void);

#endif
