/* tests/faultvfs.c - the VFS of faultvfs.h.
 *
 * Every file object is the real one with a head before it that holds our own methods; calls go on to the real
 * methods unless it is their turn to fail.  A call that fails does nothing at all, but for a write, which may
 * have done half its work: that is what disks do. */
#include "tests/faultvfs.h"

#include <sqlite3.h>
#include <string.h>

static struct {
	int kinds, n, sticky, full;
	int calls[7], hits, turn;
} fault;

static sqlite3_vfs shim, *real;

struct file {
	sqlite3_file base;
	sqlite3_file *under;      /* lies behind this struct */
};

#define UNDER(f) (((struct file *)(f))->under)

static int fails(int kind)
{
	int at = 0;

	while (1 << at != kind)
		at++;
	fault.calls[at]++;
	if (!(fault.kinds & kind) || !fault.n)
		return 0;
	fault.turn++;
	if (fault.turn != fault.n && !(fault.sticky && fault.turn > fault.n))
		return 0;
	fault.hits++;
	return 1;
}

void fault_set(int kinds, int n, int sticky, int full)
{
	memset(&fault, 0, sizeof fault);
	fault.kinds = kinds;
	fault.n = n;
	fault.sticky = sticky;
	fault.full = full;
}

int fault_calls(int kinds)
{
	int sum = 0;

	for (int i = 0; i < 7; i++)
		if (kinds & (1 << i))
			sum += fault.calls[i];
	return sum;
}

int fault_hits(void)
{
	return fault.hits;
}

/* ---- files ---- */

static int f_close(sqlite3_file *f)
{
	return UNDER(f)->pMethods ? UNDER(f)->pMethods->xClose(UNDER(f)) : SQLITE_OK;
}
static int f_read(sqlite3_file *f, void *to, int n, sqlite3_int64 at)
{
	return fails(FAULT_READ) ? SQLITE_IOERR_READ : UNDER(f)->pMethods->xRead(UNDER(f), to, n, at);
}
static int f_write(sqlite3_file *f, const void *from, int n, sqlite3_int64 at)
{
	if (!fails(FAULT_WRITE))
		return UNDER(f)->pMethods->xWrite(UNDER(f), from, n, at);
	if (n > 1)
		UNDER(f)->pMethods->xWrite(UNDER(f), from, n / 2, at);
	return fault.full ? SQLITE_FULL : SQLITE_IOERR_WRITE;
}
static int f_truncate(sqlite3_file *f, sqlite3_int64 size)
{
	return fails(FAULT_TRUNCATE) ? SQLITE_IOERR_TRUNCATE : UNDER(f)->pMethods->xTruncate(UNDER(f), size);
}
static int f_sync(sqlite3_file *f, int flags)
{
	return fails(FAULT_SYNC) ? SQLITE_IOERR_FSYNC : UNDER(f)->pMethods->xSync(UNDER(f), flags);
}
static int f_size(sqlite3_file *f, sqlite3_int64 *out)
{
	return UNDER(f)->pMethods->xFileSize(UNDER(f), out);
}
static int f_lock(sqlite3_file *f, int level)
{
	return UNDER(f)->pMethods->xLock(UNDER(f), level);
}
static int f_unlock(sqlite3_file *f, int level)
{
	return UNDER(f)->pMethods->xUnlock(UNDER(f), level);
}
static int f_reserved(sqlite3_file *f, int *out)
{
	return UNDER(f)->pMethods->xCheckReservedLock(UNDER(f), out);
}
static int f_control(sqlite3_file *f, int op, void *arg)
{
	return UNDER(f)->pMethods->xFileControl(UNDER(f), op, arg);
}
static int f_sector(sqlite3_file *f)
{
	return UNDER(f)->pMethods->xSectorSize(UNDER(f));
}
static int f_traits(sqlite3_file *f)
{
	return UNDER(f)->pMethods->xDeviceCharacteristics(UNDER(f));
}
static int f_shm_map(sqlite3_file *f, int page, int size, int extend, void volatile **out)
{
	if (fails(FAULT_SHM)) {
		*out = NULL;
		return SQLITE_IOERR_SHMMAP;
	}
	return UNDER(f)->pMethods->xShmMap(UNDER(f), page, size, extend, out);
}
static int f_shm_lock(sqlite3_file *f, int offset, int n, int flags)
{
	return UNDER(f)->pMethods->xShmLock(UNDER(f), offset, n, flags);
}
static void f_shm_barrier(sqlite3_file *f)
{
	UNDER(f)->pMethods->xShmBarrier(UNDER(f));
}
static int f_shm_unmap(sqlite3_file *f, int drop)
{
	return UNDER(f)->pMethods->xShmUnmap(UNDER(f), drop);
}

/* Version 2: shared memory, for WAL; no memory map. */
static const sqlite3_io_methods methods = {
	2, f_close, f_read, f_write, f_truncate, f_sync, f_size, f_lock, f_unlock, f_reserved, f_control, f_sector, f_traits,
	f_shm_map, f_shm_lock, f_shm_barrier, f_shm_unmap, NULL, NULL,
};

/* ---- the VFS ---- */

static int v_open(sqlite3_vfs *v, const char *name, sqlite3_file *f, int flags, int *out_flags)
{
	struct file *file = (struct file *)f;
	int rc;

	(void)v;
	file->base.pMethods = NULL;
	if (fails(FAULT_OPEN))
		return SQLITE_CANTOPEN;
	file->under = (sqlite3_file *)(file + 1);
	file->under->pMethods = NULL;
	rc = real->xOpen(real, name, file->under, flags, out_flags);
	if (!rc)
		file->base.pMethods = &methods;
	return rc;
}
static int v_delete(sqlite3_vfs *v, const char *name, int sync)
{
	(void)v;
	return fails(FAULT_DELETE) ? SQLITE_IOERR_DELETE : real->xDelete(real, name, sync);
}
static int v_access(sqlite3_vfs *v, const char *name, int flags, int *out)
{
	(void)v;
	return real->xAccess(real, name, flags, out);
}
static int v_full(sqlite3_vfs *v, const char *name, int n, char *out)
{
	(void)v;
	return real->xFullPathname(real, name, n, out);
}
static int v_random(sqlite3_vfs *v, int n, char *out)
{
	(void)v;
	return real->xRandomness(real, n, out);
}
static int v_sleep(sqlite3_vfs *v, int us)
{
	(void)v;
	return real->xSleep(real, us);
}
static int v_time(sqlite3_vfs *v, double *out)
{
	(void)v;
	return real->xCurrentTime(real, out);
}
static int v_last(sqlite3_vfs *v, int n, char *out)
{
	(void)v;
	return real->xGetLastError(real, n, out);
}
static int v_time64(sqlite3_vfs *v, sqlite3_int64 *out)
{
	(void)v;
	return real->xCurrentTimeInt64(real, out);
}

void fault_init(void)
{
	if (real)
		return;
	real = sqlite3_vfs_find(NULL);
	shim = (sqlite3_vfs){
		.iVersion = 2, .szOsFile = (int)sizeof(struct file) + real->szOsFile, .mxPathname = real->mxPathname,
		.zName = FAULT_VFS, .xOpen = v_open, .xDelete = v_delete, .xAccess = v_access, .xFullPathname = v_full,
		.xRandomness = v_random, .xSleep = v_sleep, .xCurrentTime = v_time, .xGetLastError = v_last,
		.xCurrentTimeInt64 = v_time64,
	};
	sqlite3_vfs_register(&shim, 0);
}
