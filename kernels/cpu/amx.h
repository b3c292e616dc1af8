/* kernels/cpu/amx.h (private to kernels/) - the level of AMX (amx.c): matrix instructions of x86-64 processors. */
#ifndef WEIR_CPU_AMX_H
#define WEIR_CPU_AMX_H

#include "kernels/cpu/fns.h"

/* Return the table of leaf functions: that of AVX-512, with products of many columns by AMX, which have the same bits.
 * Return NULL if this processor, the system or this build does not offer AMX, or if its sums were wrong in a check. *why
 * is then the reason, the rest of a sentence that begins with "because". The first call asks the system for AMX. */
const struct cpu_fns *cpu_fns_amx(const char **why);

/* Ask the processor and the system for AMX, for all threads of this process (amx_permit.c). Return NULL if AMX may be
 * used, else the reason as above. Tests that emulate AMX have a function of the same name. */
const char *amx_permit(void);

#endif
