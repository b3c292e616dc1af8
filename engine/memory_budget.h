/* engine/memory_budget.h (private to engine/) - how much memory may still be taken. */
#ifndef WEIR_MEMORY_BUDGET_H
#define WEIR_MEMORY_BUDGET_H

#include <stdint.h>

#include "engine/base.h"
#include "kernels/backend.h"

/* Smallest of what the machine has available, what the control group allows and what the address-space limit
 * leaves; UINT64_MAX when nothing is known. */
uint64_t memory_available(void);

/* Where a backend computes: the system's memory, or a device's own. */
struct memory_budget {
	uint64_t available;
	uint64_t total;      /* 0: the system's memory, of which only what may still be taken is known */
	uint64_t kept;       /* of a device's: what its operations take for themselves (a product's tiles, scores, cuBLAS) */
};
/* be = NULL: the system's. */
struct memory_budget memory_budget_of(const struct backend *be);
/* "12 MiB are free"; "the GPU has 12 MiB free of 80". */
void memory_budget_text(const struct memory_budget *, struct str *out);

#endif
