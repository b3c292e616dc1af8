/* engine/memory.h (private to engine/) - how much memory may still be taken. */
#ifndef WEIR_MEMORY_H
#define WEIR_MEMORY_H

#include <stdint.h>

/* Smallest of what the machine has available, what the control group allows and what the address-space limit
 * leaves; UINT64_MAX when nothing is known. */
uint64_t memory_free(void);

#endif
