/* sessions/store/locks.c - locks between processes: on the store and on each session.
 *
 * File `lock` is locked with flock(). The first process that opens the store locks it exclusively, and checks and
 * migrates the database. It then changes its lock to a shared one, so that later processes can lock the file as well.
 * Older versions of weir keep their lock exclusive. The file contains the boot id of the machine, so that processes on
 * other machines are refused: SQLite's WAL mode needs shared memory.
 *
 * File `writers` has a range of RANGE bytes for each session. The process that writes the session locks the range and
 * stores its pid there. Bytes 0 and 1 are locked while chat.db or kv.db is changed (struct gate, db.h). */
#include "sessions/store/store_private.h"
#include "engine/base/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "kernels/os.h"

#define LOCK_FILE    "lock"
#define WRITERS_FILE "writers"
/* maximum time to wait, in milliseconds, for another process that checks or migrates the database */
#define LOCK_MS      3000

/* number of bytes that file `writers` has for each session; the process that writes the session stores its pid there:
 * "12345\n" */
enum { RANGE = 16 };

static int lock_file(const struct store *s, const char *name, struct err *e)
{
	char *path = store_path(s, name);
	struct stat st;
	int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);

	if (fd < 0) {
		err_set(e, ERR_FAIL, "cannot write in '%s': %s", s->dir, strerror(errno));
	} else if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_uid != geteuid()) {
		close(fd);
		fd = err_set(e, ERR_FAIL, "refused to use '%s': it is not a plain file of yours", path);
	} else if (fchmod(fd, 0600)) {
		/* ignore the error, because some file systems have no modes */
	}
	free(path);
	return fd;
}

/* Read the pid at offset `at`. Returns 0 if there is none. */
static long number_at(int fd, int64_t at)
{
	char text[RANGE + 1] = "";
	ssize_t n = pread(fd, text, RANGE, at);
	long pid = 0;

	for (ssize_t i = 0; i < n && byte_is_digit(text[i]) && pid < 100000000; i++)
		pid = pid * 10 + (text[i] - '0');
	return pid;
}

void lock_look(struct store *s)
{
	char *path = store_path(s, WRITERS_FILE);

	s->writers = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	free(path);
}

/* ---- the store ---- */

/* Copy the kernel's boot id, which identifies this machine until the next reboot, to out[], without a NUL. Returns the
 * length of the id, which is 36, or 0 if it cannot be read. */
static size_t machine_id(char out[40])
{
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, out, 36);

	if (fd >= 0)
		close(fd);
	return n == 36 ? 36 : 0;
}

/* Write pid and boot id to the lock file. Write errors (full disk) are ignored. The pid is only for error messages.
 * Without the boot id, other processes cannot tell that this is their machine, and do not open the store. */
static void lock_note(int fd)
{
	char text[64], id[40];
	int n = snprintf(text, sizeof text, "%ld\n", (long)getpid());

	n += snprintf(text + n, sizeof text - (size_t)n, "%.*s\n", (int)machine_id(id), id);
	if (ftruncate(fd, 0) || pwrite(fd, text, (size_t)n, 0) != n)
		return;
}

static int same_machine(int fd)
{
	char text[64] = "", id[40], *line;
	ssize_t n = pread(fd, text, sizeof text - 1, 0);

	line = n > 0 ? strchr(text, '\n') : NULL;
	return line && machine_id(id) && !strncmp(line + 1, id, 36);
}

/* Returns 1 if the file is locked; 0 if another process has the lock; -1 on error, with errno set. */
static int try_flock(int fd, int how)
{
	return !flock(fd, how | LOCK_NB) ? 1 : errno == EWOULDBLOCK || errno == EINTR ? 0 : -1;
}

static int lock_wait(struct store *s, int alone, struct err *e)
{
	double end = now_seconds() + LOCK_MS / 1000.0;
	long by;

	for (;;) {
		int rc = alone ? try_flock(s->lock, LOCK_EX) : 0;

		s->alone = rc > 0;
		if (!rc)
			rc = try_flock(s->lock, LOCK_SH);
		if (rc < 0)
			return err_set(e, ERR_FAIL, "cannot lock '%s': %s", s->dir, strerror(errno));
		if (s->alone || (rc && same_machine(s->lock)))
			return 0;
		if (rc)
			flock(s->lock, LOCK_UN);
		if (now_seconds() > end)
			break;
		usleep(10000);
	}
	by = number_at(s->lock, 0);
	return by ? err_set(e, ERR_FAIL,
	                    "the sessions in '%s' are in use by another weir (process %ld), an older one or one on another machine; "
	                    "leave it first, or use --private",
	                    s->dir, by)
	          : err_set(e, ERR_FAIL,
	                    "the sessions in '%s' are in use by another weir, an older one or one on another machine; leave it first, or "
	                    "use --private",
	                    s->dir);
}

int lock_store(struct store *s, struct err *e)
{
	s->lock = lock_file(s, LOCK_FILE, e);
	s->writers = s->lock < 0 ? -1 : lock_file(s, WRITERS_FILE, e);
	if (s->writers < 0)
		return -1;
	for (int i = 0; i < 2; i++)
		s->gate[i] = (struct gate){ .fd = s->writers, .at = i };
	if (lock_wait(s, 1, e))
		return -1;
	if (s->alone) {
		struct timespec t;

		lock_note(s->lock);
		clock_gettime(CLOCK_REALTIME, &t);
		s->alone_at = (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
	}
	return 0;
}

int lock_share(struct store *s, struct err *e)
{
	int alone = s->alone;

	if (alone && lock_wait(s, 0, e))
		return -1;
	s->alone = alone;
	return 0;
}

void lock_free(struct store *s)
{
	if (s->writers >= 0)
		close(s->writers);
	if (s->lock >= 0)
		close(s->lock);
	s->lock = s->writers = -1;
}

/* ---- a session ---- */

/* Return the offset, in file `writers`, of the byte range that belongs to a session. Only the low 40 bits of the id are
 * used, so that an id from a damaged database cannot give an invalid offset. */
static int64_t range_of(int64_t session)
{
	return (session & 0xffffffffff) * RANGE;
}

int session_hold(struct store *s, int64_t id, long *by, struct err *e)
{
	char text[RANGE + 1];
	long pid;
	int rc, n;

	*by = 0;
	if (store_writable(s, e))
		return -1;
	rc = range_lock(s->writers, range_of(id), RANGE);
	if (rc < 0)
		return err_set(e, ERR_FAIL, "cannot lock session %lld in '%s': %s", (long long)id, s->dir,
		               strerror(errno));
	if (rc) {
		n = snprintf(text, sizeof text, "%ld\n", (long)getpid());
		/* ignore a failure, because the pid is only for error messages */
		(void)!pwrite(s->writers, text, (size_t)n, range_of(id));
		return 0;
	}
	pid = number_at(s->writers, range_of(id));
	*by = pid ? pid : -1;
	return pid ? err_set(e, ERR_FAIL, "another weir (process %ld) has this session open; leave it there first", pid)
	           : err_set(e, ERR_FAIL, "another weir has this session open; leave it there first");
}

long session_writer(const struct store *s, int64_t id)
{
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = range_of(id), .l_len = RANGE };
	long pid;

	if (s->writers < 0 || fcntl(s->writers, F_OFD_GETLK, &l) || l.l_type == F_UNLCK)
		return 0;
	pid = number_at(s->writers, range_of(id));
	return pid == (long)getpid() ? 0 : pid ? pid : -1;
}

void session_leave(struct store *s, int64_t id)
{
	if (s->writers >= 0 && id)
		range_unlock(s->writers, range_of(id), RANGE);
}
