/* tests/lib/faultvfs.c - the VFS of faultvfs.h.
 *
 * A file object is a header with our methods, followed by the real file object. A call that must not fail is passed to
 * the real method. A failing call does nothing; only a failing write may do half of its work, as on real disks.
 *
 * For power cuts each file also has a model in memory: the bytes that are safely on the disk, and the writes since the
 * last sync. If SQLite opens the directory during a call, the call has also synced the directory. */
#include "tests/lib/faultvfs.h"

#include <dirent.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/macros.h"

static struct {
	int kinds, n, sticky, full;
	int calls[7], hits, turn;
} fault;

static sqlite3_vfs shim, *real;

struct body;
struct file {
	sqlite3_file base;
	sqlite3_file *under; /* the real file object, which follows this struct in memory */
	struct body *body;   /* contents of the file, for power cuts; NULL: the file is not followed */
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

/* ---- power cuts ---- */

/* A followed file. Its names are in power.name[]. */
struct body {
	struct body *next;
	uint8_t *disk; /* bytes that are safely on the disk */
	size_t size;
	struct change {
		size_t at, n;
		uint8_t *bytes;
	} * change; /* changes since the last sync. bytes NULL = the file was truncated to `at` bytes */
	int n;
};

static struct {
	char dir[400], image[400];
	struct body *bodies;
	struct {
		char text[64];
		struct body *disk, *now;
		/* Names in the directory. disk: the file of that name after a power failure; now: its file at
		 * present. NULL = there is none. */
	} name[32];
	int names, calls, off, unsynced, dir_opened;
	uint64_t dice;
} power;

static int (*real_open_dir)(const char *, int *);

static int watch_open_dir(const char *path, int *fd)
{
	power.dir_opened = 1;
	return real_open_dir(path, fd);
}

static uint64_t toss(void)
{
	power.dice ^= power.dice << 13;
	power.dice ^= power.dice >> 7;
	power.dice ^= power.dice << 17;
	return power.dice * 0x2545f4914f6cdd1dULL >> 16;
}

static void *need(void *p)
{
	if (!p)
		abort();
	return p;
}

static struct body *body_new(void)
{
	struct body *b = need(calloc(1, sizeof *b));

	b->next = power.bodies;
	return power.bodies = b;
}

/* Return the index in power.name[] of a file's name, and add the name if it is new; -1 = the file is not in the
 * followed directory. */
static int name_of(const char *path)
{
	size_t n = strlen(power.dir);
	int i = 0;

	if (!n || !path || strncmp(path, power.dir, n) || path[n] != '/' || strchr(path + n + 1, '/'))
		return -1;
	path += n + 1;
	while (i < power.names && strcmp(power.name[i].text, path))
		i++;
	if (i == power.names) {
		if (i == (int)LEN(power.name) || strlen(path) >= sizeof power.name->text)
			abort();
		memset(&power.name[i], 0, sizeof power.name[i]);
		snprintf(power.name[i].text, sizeof power.name[i].text, "%s", path);
		power.names++;
	}
	return i;
}

/* Apply one change to the bytes of a file. Each sector of a write is applied with a probability of `odds` per cent. */
static void change_apply(const struct change *c, uint8_t **bytes, size_t *size, size_t sector, unsigned odds)
{
	if (!c->bytes) {
		if (*size < c->at) {
			*bytes = need(realloc(*bytes, c->at + 1));
			memset(*bytes + *size, 0, c->at - *size);
		}
		*size = c->at;
		return;
	}
	for (size_t done = 0, n; done < c->n; done += n) {
		size_t at = c->at + done;

		n = sector - at % sector;
		n = n < c->n - done ? n : c->n - done;
		if (odds < 100 && toss() % 100 >= odds)
			continue;
		if (*size < at + n) {
			*bytes = need(realloc(*bytes, at + n + 1));
			/* Fill a gap before the write with zeros or with random bytes, as if from old contents of the
			 * disk. */
			for (size_t i = *size; i < at; i++)
				(*bytes)[i] = odds & 1 ? 0 : (uint8_t)toss();
			*size = at + n;
		}
		memcpy(*bytes + at, c->bytes + done, n);
	}
}

static void body_settle(struct body *b)
{
	for (int i = 0; i < b->n; i++) {
		change_apply(&b->change[i], &b->disk, &b->size, 4096, 100);
		free(b->change[i].bytes);
	}
	b->n = 0;
}

static void body_change(struct body *b, size_t at, const void *bytes, size_t n)
{
	struct change *c;

	if (!(b->n & (b->n - 1)))
		b->change = need(realloc(b->change, (size_t)(b->n ? 2 * b->n : 1) * sizeof *c));
	c = &b->change[b->n++];
	*c = (struct change){ at, n, NULL };
	if (bytes)
		memcpy(c->bytes = need(malloc(n + 1)), bytes, n);
}

/* Write one possible state of a file after a power failure. */
static void body_image(const struct body *b, int fd)
{
	static const unsigned odds[] = { 3, 50, 51, 97 };
	size_t size = b->size, sector = toss() & 1 ? 512 : 4096;
	uint8_t *bytes = need(malloc(size + 1));
	int way = (int)(toss() % 6), upto = (int)(toss() % (unsigned)(b->n + 1));
	unsigned each = odds[toss() % 4];

	if (size)
		memcpy(bytes, b->disk, size);
	for (int i = 0; i < b->n; i++) {
		const struct change *c = &b->change[i];
		int whole = way == 1 || (way == 2 && i < upto) || (way == 3 && i >= upto);

		/* Which changes are on the disk, by `way`: 0: none; 1: all; 2: the first `upto`, and part of the next
		 * one; 3: all but the first `upto`; 4: random sectors of them; 5: random changes. */
		if (whole || (way == 4 && (c->bytes || toss() & 1)) || (way == 5 && toss() & 1) ||
		    (way == 2 && i == upto && c->bytes))
			change_apply(c, &bytes, &size, sector, whole || way == 5 ? 100 : each);
	}
	for (size_t done = 0; done < size;) {
		ssize_t n = write(fd, bytes + done, size - done);
		if (n <= 0)
			abort();
		done += (size_t)n;
	}
	free(bytes);
}

static void power_fail(void)
{
	power.off = 1;
	if (mkdir(power.image, 0700))
		abort();
	for (int i = 0; i < power.names; i++) {
		struct body *b = toss() & 1 ? power.name[i].now : power.name[i].disk;
		char path[500];
		int fd;

		if (!b)
			continue;
		power.unsynced += b->n;
		snprintf(path, sizeof path, "%s/%s", power.image, power.name[i].text);
		fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
		if (fd < 0)
			abort();
		body_image(b, fd);
		close(fd);
	}
}

/* Call this before each call that changes something. It lets the power fail at the chosen call. Returns 1 if the power
 * has failed. */
static int power_fails(void)
{
	if (power.dir[0] && !power.off && power.calls > 0 && --power.calls == 0)
		power_fail();
	return power.off;
}

/* Call this after a sync. If SQLite opened the directory to sync it, the names in it are safely on the disk from now
 * on. */
static void dir_settle(void)
{
	for (int i = 0; power.dir_opened && i < power.names; i++)
		power.name[i].disk = power.name[i].now;
	power.dir_opened = 0;
}

void power_begin(const char *dir)
{
	DIR *d = opendir(dir);

	power_end();
	snprintf(power.dir, sizeof power.dir, "%.390s", dir);
	for (struct dirent *f; d && (f = readdir(d));) {
		char path[700];
		struct stat st;
		struct body *b;
		int i, fd;

		snprintf(path, sizeof path, "%.400s/%.255s", dir, f->d_name);
		/* Skip shared memory: the first process creates it anew. */
		if (f->d_name[0] == '.' || strstr(f->d_name, "-shm") || (i = name_of(path)) < 0)
			continue;
		fd = open(path, O_RDONLY);
		if (fd < 0 || fstat(fd, &st))
			abort();
		b = power.name[i].disk = power.name[i].now = body_new();
		b->size = (size_t)st.st_size;
		b->disk = need(malloc(b->size + 1));
		if (read(fd, b->disk, b->size) != (ssize_t)b->size)
			abort();
		close(fd);
	}
	if (d)
		closedir(d);
	if (!real_open_dir) {
		real_open_dir = (int (*)(const char *, int *))real->xGetSystemCall(real, "openDirectory");
		real->xSetSystemCall(real, "openDirectory", (sqlite3_syscall_ptr)watch_open_dir);
	}
}

void power_cut(int calls, const char *image, uint64_t seed)
{
	power.calls = calls;
	power.dice = seed | 1;
	snprintf(power.image, sizeof power.image, "%.390s", image);
	for (int i = 0; i < 8; i++)
		toss();
}

int power_off(void)
{
	return power.off;
}

int power_unsynced(void)
{
	return power.unsynced;
}

void power_end(void)
{
	for (struct body *b; (b = power.bodies);) {
		power.bodies = b->next;
		body_settle(b);
		free(b->change);
		free(b->disk);
		free(b);
	}
	memset(&power, 0, sizeof power);
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
	struct body *b = ((struct file *)f)->body;

	if (b && power_fails())
		return SQLITE_IOERR_WRITE;
	if (b)
		body_change(b, (size_t)at, from, (size_t)n);
	if (!fails(FAULT_WRITE))
		return UNDER(f)->pMethods->xWrite(UNDER(f), from, n, at);
	if (n > 1)
		UNDER(f)->pMethods->xWrite(UNDER(f), from, n / 2, at);
	return fault.full ? SQLITE_FULL : SQLITE_IOERR_WRITE;
}
static int f_truncate(sqlite3_file *f, sqlite3_int64 size)
{
	struct body *b = ((struct file *)f)->body;

	if (b && power_fails())
		return SQLITE_IOERR_TRUNCATE;
	if (b)
		body_change(b, (size_t)size, NULL, 0);
	return fails(FAULT_TRUNCATE) ? SQLITE_IOERR_TRUNCATE : UNDER(f)->pMethods->xTruncate(UNDER(f), size);
}
static int f_sync(sqlite3_file *f, int flags)
{
	struct body *b = ((struct file *)f)->body;
	int rc;

	if (b && power_fails())
		return SQLITE_IOERR_FSYNC;
	power.dir_opened = 0;
	rc = fails(FAULT_SYNC) ? SQLITE_IOERR_FSYNC : UNDER(f)->pMethods->xSync(UNDER(f), flags);
	if (b && !rc) {
		body_settle(b);
		dir_settle();
	}
	return rc;
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

/* Version 2 of the methods has shared memory, which WAL needs, but no memory maps. */
static const sqlite3_io_methods methods = {
	2,         f_close,  f_read,   f_write,   f_truncate, f_sync,        f_size,      f_lock, f_unlock, f_reserved,
	f_control, f_sector, f_traits, f_shm_map, f_shm_lock, f_shm_barrier, f_shm_unmap, NULL,   NULL,
};

/* ---- the VFS ---- */

static int v_open(sqlite3_vfs *v, const char *name, sqlite3_file *f, int flags, int *out_flags)
{
	struct file *file = (struct file *)f;
	int rc, i = name_of(name);

	(void)v;
	file->base.pMethods = NULL;
	file->body = NULL;
	if (fails(FAULT_OPEN) || (i >= 0 && !power.name[i].now && (flags & SQLITE_OPEN_CREATE) && power_fails()) ||
	    power.off)
		return SQLITE_CANTOPEN;
	file->under = (sqlite3_file *)(file + 1);
	file->under->pMethods = NULL;
	rc = real->xOpen(real, name, file->under, flags, out_flags);
	if (!rc)
		file->base.pMethods = &methods;
	if (!rc && i >= 0) {
		/* The file did not exist before: make an empty model of its contents. */
		if (!power.name[i].now)
			power.name[i].now = body_new();
		file->body = power.name[i].now;
	}
	return rc;
}
static int v_delete(sqlite3_vfs *v, const char *name, int sync)
{
	int rc, i = name_of(name);

	(void)v;
	if (i >= 0 && power_fails())
		return SQLITE_IOERR_DELETE;
	power.dir_opened = 0;
	rc = fails(FAULT_DELETE) ? SQLITE_IOERR_DELETE : real->xDelete(real, name, sync);
	if (i >= 0 && !rc) {
		power.name[i].now = NULL;
		dir_settle();
	}
	return rc;
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
		.iVersion = 2,
		.szOsFile = (int)sizeof(struct file) + real->szOsFile,
		.mxPathname = real->mxPathname,
		.zName = FAULT_VFS,
		.xOpen = v_open,
		.xDelete = v_delete,
		.xAccess = v_access,
		.xFullPathname = v_full,
		.xRandomness = v_random,
		.xSleep = v_sleep,
		.xCurrentTime = v_time,
		.xGetLastError = v_last,
		.xCurrentTimeInt64 = v_time64,
	};
	sqlite3_vfs_register(&shim, 0);
}
