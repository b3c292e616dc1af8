/* tests/faultvfs.h - a SQLite VFS over the default one that fails the Nth call of chosen kinds, once or from
 * then on. */
#ifndef WEIR_FAULTVFS_H
#define WEIR_FAULTVFS_H

#define FAULT_VFS "fault"

enum fault_kind {
	FAULT_OPEN = 1, FAULT_READ = 2, FAULT_WRITE = 4, FAULT_SYNC = 8, FAULT_TRUNCATE = 16, FAULT_DELETE = 32,
	FAULT_SHM = 64,
	FAULT_ALL = 127,
};

/* Register it once; later calls do nothing.  Not the default VFS: name it where a store is opened. */
void fault_init(void);
/* The nth call (1 = the next) of these kinds fails with that kind's SQLite error; sticky: all after it too.
 * full: writes fail as on a full disk.  Starts the counts anew.  n 0: nothing fails, calls are counted. */
void fault_set(int kinds, int n, int sticky, int full);
/* Calls of these kinds since fault_set(). */
int  fault_calls(int kinds);
/* Calls that were failed since fault_set(). */
int  fault_hits(void);

#endif
