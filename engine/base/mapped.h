/* engine/base/mapped.h (private to engine/) - ranges of memory that are a file's: what becomes of a page that cannot be
 * read any more.
 *
 * A file that another program cuts short, or a disk that fails, shows itself at the next access to the page: the thread
 * gets SIGBUS. The program's handler passes the address on (engine.h: engine_fault()), and a range that is noted here
 * has zeros from that page on. The work goes on with them, and whoever owns the range sees `lost` before results count:
 * steps fail, nothing is saved. */
#ifndef WEIR_MAPPED_H
#define WEIR_MAPPED_H

#include <stdatomic.h>
#include <stddef.h>

/* Note n bytes at p, the beginning of a page. *lost is set at the first page that is gone; it must outlive
 * mapped_remove(), which comes before the memory is given back. Where no place is left, a fault ends the program as if
 * nobody had noted anything. */
void mapped_add(const void *p, size_t n, atomic_int *lost);
void mapped_remove(const void *p);

#endif
