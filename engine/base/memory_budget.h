/* engine/base/memory_budget.h (private to engine/) - how much memory may be allocated. */
#ifndef WEIR_MEMORY_BUDGET_H
#define WEIR_MEMORY_BUDGET_H

#include <stdint.h>

#include "engine/base/base.h"
#include "kernels/backend.h"

/* Bytes of host memory that can be allocated without swapping or the OOM killer: the smallest of the kernel's
 * MemAvailable, the rest of the control group's limit and the rest of the address-space limit; UINT64_MAX when none is
 * known. */
uint64_t memory_available(void);

/* Memory of the machine or of a device, in bytes. */
struct memory_budget {
	uint64_t available;
	uint64_t total; /* of a device; 0: host memory, whose size is not asked for */
	/* of a device: part of `available` for the backend's scratch (matmul tiles, attention scores, cuBLAS) */
	uint64_t reserved;
};
/* Memory in which the backend allocates; be = NULL: host memory. */
struct memory_budget memory_budget_of(const struct backend *be);
/* Append a clause for an error message: "12 MiB are free" or "the GPU has 12 MiB free of 80". */
void memory_budget_text(const struct memory_budget *, struct str *out);

#endif
