/* kernels/cpu/amx.h (private to kernels/) - the CPU level amx (amx.c), which uses AMX, the matrix instructions of
 * x86-64 processors. */
#ifndef WEIR_CPU_AMX_H
#define WEIR_CPU_AMX_H

#include "kernels/cpu/fns.h"

/* Return the table of leaf functions of the level amx. It is the table of avx512, except that AMX computes products of
 * many columns and the attention of prompts, with the same bits. Return NULL if this processor, the system or this
 * build does not offer AMX, or if AMX gave wrong sums in a check. In these cases set *why to the reason, as the rest of
 * a sentence after "because". The first call asks the system for permission to use AMX. */
const struct cpu_fns *cpu_fns_amx(const char **why);

/* Attention of prompts by AMX (amx_attn.c). `scratch` and `attn` are the leaf functions attn_prompt_scratch and
 * attn_prompt of struct cpu_fns. The function `right` multiplies pseudo-random integers. It returns 1 if the sums equal
 * sums computed in plain C. */
struct amx_attn {
	size_t (*scratch)(int32_t head_dim, int32_t n_q);
	void (*attn)(const struct attn_tile *);
	int (*right)(void);
};
extern const struct amx_attn amx_attn;

/* Check that the processor has AMX, and ask the system for permission, for all threads of this process (amx_permit.c).
 * Return NULL if AMX may be used; otherwise return the reason, as for cpu_fns_amx(). Tests that emulate AMX replace
 * this function. */
const char *amx_permit(void);

#endif
