/* tests/lib/faultvfs.h - two SQLite VFSs over the default one. The first makes the nth call of chosen kinds fail, or
 * the nth and all later calls. The second follows which changes are not synced yet, and simulates a power failure. */
#ifndef WEIR_FAULTVFS_H
#define WEIR_FAULTVFS_H

#include <stdint.h>

#define FAULT_VFS "fault"

enum fault_kind {
	FAULT_OPEN = 1,
	FAULT_READ = 2,
	FAULT_WRITE = 4,
	FAULT_SYNC = 8,
	FAULT_TRUNCATE = 16,
	FAULT_DELETE = 32,
	FAULT_SHM = 64,
	FAULT_ALL = 127,
};

/* Register the VFS; later calls do nothing. It is not the default VFS: give its name when you open a store. */
void fault_init(void);
/* Make the nth call (1 = the next) of these kinds fail with that kind's SQLite error. sticky: 1 = all later calls fail,
 * too. full: 1 = writes fail as on a full disk. n = 0: nothing fails, calls are only counted. Resets the counts. */
void fault_set(int kinds, int n, int sticky, int full);
/* Return the number of calls of these kinds since fault_set(). */
int fault_calls(int kinds);
/* Return the number of calls that were made to fail since fault_set(). */
int fault_hits(void);

/* ---- power cuts ---- When the power fails, changes since the last sync of a file (names: of the directory) may be on
 * the disk completely, in part, in any order or not at all. A partly lost write loses whole sectors. Bytes beside a
 * write are safe, as SQLite assumes. */

/* Follow the files of this directory from now on; their current contents count as safely on the disk. */
void power_begin(const char *dir);
/* Let the power fail at the `calls`-th next call that changes a file or a name (1 = at the next one). A possible state
 * of the disk is then written to `image`, a new directory, and all later calls fail and change nothing. */
void power_cut(int calls, const char *image, uint64_t seed);
/* 1 if the power has failed. */
int power_off(void);
/* Return the number of writes and truncations that were not synced when the power failed. */
int power_unsynced(void);
/* Stop following files; every file must be closed. */
void power_end(void);

#endif
