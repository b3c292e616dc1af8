/* engine/base/mapped.h (private to engine/) - lets the program survive SIGBUS in mapped files.
 *
 * If another program truncates a mapped file, or the disk fails, the next access to a missing page raises SIGBUS. The
 * program's signal handler passes the address to engine_fault() (engine_machine.h). If the address is in a registered
 * mapping, engine_fault() replaces the mapping by zeros, from that page on, and sets the flag `lost` of the mapping's
 * owner. The interrupted computation continues.
 *
 * The owner tests `lost` before it uses a result. If the flag is set, the running step fails and no snapshot is
 * saved. */
#ifndef WEIR_MAPPED_H
#define WEIR_MAPPED_H

#include <stdatomic.h>
#include <stddef.h>

/* Register the mapping p[0..n), which starts at a page. When a page cannot be read, *lost becomes 1. Call
 * mapped_remove() before munmap(); *lost must exist until then. If the table is full, the mapping is not registered,
 * and a SIGBUS in it ends the program. */
void mapped_add(const void *p, size_t n, atomic_int *lost);
void mapped_remove(const void *p);

#endif
