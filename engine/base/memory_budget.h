/* engine/base/memory_budget.h (private to engine/) - how much memory may be allocated. */
#ifndef WEIR_MEMORY_BUDGET_H
#define WEIR_MEMORY_BUDGET_H

#include <stdint.h>

#include "engine/base/base.h"
#include "kernels/backend.h"

/* Return the bytes of host memory that can be allocated without swapping or the OOM killer; UINT64_MAX if unknown. The
 * result is the smallest of three numbers: the kernel's MemAvailable, the memory that is free below the control group's
 * limit, and the memory that is free below the address-space limit. */
uint64_t memory_available(void);

/* Memory of the host or of a device, in bytes. */
struct memory_budget {
	uint64_t available; /* free bytes */
	uint64_t total;     /* size of the device's memory in bytes; 0 = the budget is for host memory */
	/* part of `available` that a device needs for temporary buffers: matmul tiles, attention scores */
	uint64_t reserved;
};
/* Return the budget of the memory in which the backend allocates. If `be` is NULL, this is host memory. */
struct memory_budget memory_budget_of(const struct backend *be);
/* Append a clause for error messages, such as "12 MiB are free" or "the GPU has 12 MiB free of 80". */
void memory_budget_text(const struct memory_budget *, struct str *out);

#endif
