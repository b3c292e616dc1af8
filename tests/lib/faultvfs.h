/* tests/lib/faultvfs.h - two SQLite VFSs over the default one. The first makes the Nth call of chosen kinds fail,
 * once or from then on. The second remembers what is not synced yet, and cuts the power. */
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

/* Register it once; later calls do nothing.  Not the default VFS: name it where a store is opened. */
void fault_init(void);
/* The nth call (1 = the next) of these kinds fails with that kind's SQLite error; sticky: all after it too.
 * full: writes fail as on a full disk.  Starts the counts anew.  n 0: nothing fails, calls are counted. */
void fault_set(int kinds, int n, int sticky, int full);
/* Calls of these kinds since fault_set(). */
int fault_calls(int kinds);
/* Calls that were failed since fault_set(). */
int fault_hits(void);

/* ---- power cuts ----
 * What was written, cut or made since the last sync of its file (names: since the last sync of the directory) may be on
 * the disk wholly, in part, in any order or not at all when the power fails.  A write that was lost in part was lost in
 * whole sectors; what lies beside the bytes of a write is safe, as SQLite takes it to be. */

/* Files of this directory are followed from now on; what they hold now is on the disk. */
void power_begin(const char *dir);
/* After `calls` more calls that change a file or a name (1 = before the next one) the power fails: what the disk may
 * hold then is put into `image`, a new directory, and from then on every call fails and changes nothing. */
void power_cut(int calls, const char *image, uint64_t seed);
/* Did it fail? */
int power_off(void);
/* Writes and cuts of files that were not synced when it failed. */
int power_unsynced(void);
/* Follow nothing any more; every file must be closed. */
void power_end(void);

#endif
