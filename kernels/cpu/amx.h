/* kernels/cpu/amx.h (private to kernels/) - the CPU level amx (amx.c), which uses AMX, the matrix instructions of
 * x86-64 processors. */
#ifndef WEIR_CPU_AMX_H
#define WEIR_CPU_AMX_H

#include "kernels/cpu/fns.h"

/* Return the table of leaf functions of the level amx: that of avx512, except that products of many columns are
 * computed by AMX, with the same bits. Return NULL if this processor, the system or this build does not offer AMX, or
 * if AMX gave wrong sums in a check. Then *why is the reason, as the rest of a sentence after "because". The first call
 * asks the system for permission to use AMX. */
const struct cpu_fns *cpu_fns_amx(const char **why);

/* Check that the processor has AMX, and ask the system for permission, for all threads of this process (amx_permit.c).
 * Return NULL if AMX may be used, else the reason, as for cpu_fns_amx(). Tests that emulate AMX replace this
 * function. */
const char *amx_permit(void);

#endif
