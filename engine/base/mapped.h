/* engine/base/mapped.h (private to engine/) - survives SIGBUS in mapped files.
 *
 * If another program truncates a mapped file, or the disk fails, the next access to a missing page raises SIGBUS. The
 * program's signal handler passes the address to engine_fault() (engine.h). If the address is in a registered range,
 * engine_fault() replaces the range by zeros from that page on and sets the owner's `lost` flag; the interrupted
 * computation continues. The owner tests `lost` before a result counts: steps fail, and no snapshot is saved. */
#ifndef WEIR_MAPPED_H
#define WEIR_MAPPED_H

#include <stdatomic.h>
#include <stddef.h>

/* Register the mapping p[0..n); p is the start of a page. *lost becomes 1 at the first page that cannot be read. Call
 * mapped_remove() before munmap(); *lost must exist until then. If the table is full, the range is not registered,
 * and SIGBUS ends the program. */
void mapped_add(const void *p, size_t n, atomic_int *lost);
void mapped_remove(const void *p);

#endif
