/* app/tools/pull_file.c - fetches one file of a model, and resumes after every interruption (pull.h).
 *
 * The partial file is called NAME.gguf.SUM.part; programs do not take such a file for a model. SUM is the beginning of
 * the SHA-256 of the whole file: so if the server has another version of the file, the download begins again. A
 * complete file with the right checksum is renamed to NAME.gguf. */
#include "app/tools/pull.h"
#include "sessions/store/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEAD_STEP = 1 << 20, SUM_SHOWN = 16 };
static const uint64_t head_most = UINT64_C(256) << 20;

/* ---- what an earlier run has fetched ---- */

static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Add the first `bytes` bytes of file fd to the checksum f->sum. `what` is the verb for the progress line. */
static int sum_bytes(struct fetched *f, int fd, uint64_t bytes, const char *what, struct err *e)
{
	enum { CHUNK = 1 << 20 };
	char *buf = xcalloc(1, CHUNK);
	uint64_t at = 0;
	int rc = 0;

	while (!rc && at < bytes) {
		ssize_t n = pread(fd, buf, bytes - at < CHUNK ? (size_t)(bytes - at) : CHUNK, (off_t)at);

		if (n <= 0) {
			rc = err_set(e, ERR_FAIL, "cannot read '%.160s': %s", f->part,
			             n ? strerror(errno) : "it is shorter than it was");
			break;
		}
		sum_add(f->sum, buf, (size_t)n);
		at += (uint64_t)n;
		if (bytes > (64u << 20)) {
			struct str line = { 0 };

			str_addf(&line, "%s ", what);
			human_bytes(&line, at);
			str_adds(&line, " of ");
			human_bytes(&line, bytes);
			progress_line(f->progress, line.p);
			str_free(&line);
		}
		if (signals_stopped())
			rc = err_set(e, ERR_CANCELLED, "stopped");
	}
	progress_clear(f->progress);
	free(buf);
	return rc;
}

/* Look for a file with the final name. Returns 1 if there is one with the right checksum; 0 if there is none; -1 if
 * there is one with another checksum. */
static int look_for_whole(struct fetched *f, struct err *e)
{
	char hex[65];
	struct stat st;
	int fd = open(f->path, O_RDONLY | O_CLOEXEC), rc;

	if (fd < 0)
		return errno == ENOENT ? 0 : err_set(e, ERR_FAIL, "cannot open '%.200s': %s", f->path, strerror(errno));
	rc = fstat(fd, &st) || (uint64_t)st.st_size != f->file->bytes ? 0
	                                                              : sum_bytes(f, fd, f->file->bytes, "checking", e);
	close(fd);
	if (rc < 0)
		return -1;
	sum_hex(f->sum, hex);
	if ((uint64_t)st.st_size == f->file->bytes && !strcmp(hex, f->file->sum))
		return 1;
	return err_set(e, ERR_FAIL, "another file is called '%.120s' already; 'weir models rm %.80s' deletes it",
	               base_of(f->path), base_of(f->path));
}

/* Delete partial downloads of other versions of the file, which cannot be resumed. */
static void remove_others(const struct fetched *f, const char *folder)
{
	const char *base = base_of(f->path), *mine = base_of(f->part);
	size_t n = strlen(base), all = strlen(mine);
	DIR *dir = opendir(folder);

	for (struct dirent *d; dir && (d = readdir(dir));) {
		int fd;

		if (strlen(d->d_name) != all || strncmp(d->d_name, base, n + 1 <= all ? n : all) != 0 ||
		    strcmp(d->d_name + all - 5, ".part") != 0 || !strcmp(d->d_name, mine))
			continue;
		fd = openat(dirfd(dir), d->d_name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
		if (fd >= 0 && !flock(fd, LOCK_EX | LOCK_NB))
			unlinkat(dirfd(dir), d->d_name, 0);
		if (fd >= 0)
			close(fd);
	}
	if (dir)
		closedir(dir);
}

static int begin_again(struct fetched *f, struct err *e)
{
	char unused[65];

	f->at = f->head = 0;
	sum_hex(f->sum, unused);
	if (ftruncate(f->fd, 0))
		return err_set(e, ERR_FAIL, "cannot empty '%.200s': %s", f->part, strerror(errno));
	return 0;
}

/* Open and lock the partial file. Returns 1; -1 if another process is fetching the file, or if the partial file cannot
 * be written; 0 if another process has just finished or deleted it, so that the caller must look again. */
static int open_part(struct fetched *f, struct stat *st, struct err *e)
{
	struct stat there;
	int fd = open(f->part, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return err_set(e, ERR_FAIL, "cannot write '%.200s': %s", f->part, strerror(errno));
	if (flock(fd, LOCK_EX | LOCK_NB)) {
		close(fd);
		return err_set(e, ERR_FAIL, "another process fetches '%.120s' just now", base_of(f->path));
	}
	if (fstat(fd, st) || stat(f->part, &there) || there.st_ino != st->st_ino || there.st_dev != st->st_dev) {
		close(fd);
		return 0;
	}
	f->fd = fd;
	return 1;
}

int fetched_open(struct fetched *f, const struct hub_repo *r, const struct hub_file *file, const char *folder,
                 struct progress *progress, struct err *e)
{
	struct str path = { 0 }, part = { 0 };
	struct stat st;
	int rc;

	*f = (struct fetched){ .repo = r, .file = file, .fd = -1, .sum = sum_open(), .progress = progress };
	str_addf(&path, "%s/%s", folder, base_of(file->path));
	str_addf(&part, "%s.%.*s.part", path.p, SUM_SHOWN, file->sum);
	f->path = path.p;
	f->part = part.p;
	if (!f->sum)
		return err_set(e, ERR_FAIL, "cannot compute a checksum: libcrypto refuses SHA-256");
	if (make_parents(f->path))
		return err_set(e, ERR_FAIL, "cannot make the directory of '%.200s': %s", f->path, strerror(errno));
	do {
		rc = look_for_whole(f, e);
		if (rc) {
			f->whole = rc > 0;
			f->at = f->file->bytes;
			return rc > 0 ? 0 : -1;
		}
		rc = open_part(f, &st, e);
	} while (!rc);
	if (rc < 0)
		return -1;
	remove_others(f, folder);
	if ((uint64_t)st.st_size > file->bytes)
		return begin_again(f, e);
	if (sum_bytes(f, f->fd, (uint64_t)st.st_size, "checking what is here:", e))
		return -1;
	f->at = (uint64_t)st.st_size;
	return 0;
}

void fetched_close(struct fetched *f)
{
	struct stat st;

	/* delete a partial file that is empty */
	if (f->fd >= 0 && !fstat(f->fd, &st) && !st.st_size)
		unlink(f->part);
	if (f->fd >= 0)
		close(f->fd);
	sum_close(f->sum);
	free(f->path);
	free(f->part);
	*f = (struct fetched){ .fd = -1 };
}

/* ---- a transfer ---- */

static void show_progress(void *ud)
{
	struct fetched *f = ud;
	double seconds = now_seconds() - f->started;
	uint64_t done = f->before + f->at;
	struct str s = { 0 };

	if (f->limit < f->file->bytes) { /* only the header is being fetched */
		str_adds(&s, "looking at its header: ");
		human_bytes(&s, f->at);
		progress_line(f->progress, s.p);
		str_free(&s);
		return;
	}
	str_adds(&s, "fetching ");
	human_bytes(&s, done);
	str_adds(&s, " of ");
	human_bytes(&s, f->all);
	str_addf(&s, "  %d%%", (int)(done * 100 / (f->all ? f->all : 1)));
	if (seconds > 1 && f->at > f->from) {
		double rate = (double)(f->at - f->from) / seconds, left = (double)(f->all - done) / rate;

		str_adds(&s, "  ");
		human_bytes(&s, (uint64_t)rate);
		str_adds(&s, "/s");
		if (left < 90)
			str_addf(&s, "  %.0f s left", left);
		else if (left < 5400)
			str_addf(&s, "  %.0f min left", left / 60);
		else
			str_addf(&s, "  %.1f h left", left / 3600);
	}
	progress_line(f->progress, s.p);
	str_free(&s);
}

/* Check the header of the reply. Returns 0; -1 if the reply is about another file than the listed one, or if it begins
 * at another byte than the request asked for. */
static int on_begin(const struct http_reply *r, void *ud, struct err *e)
{
	struct fetched *f = ud;
	uint64_t size = f->file->bytes;

	if ((r->linked_sum[0] && strcmp(r->linked_sum, f->file->sum) != 0) ||
	    (r->linked_size >= 0 && r->linked_size != (int64_t)size))
		return err_set(
			e, ERR_FAIL,
			"'%.100s' is another file than its list says, so it has just been changed: run the same command again",
			base_of(f->path));
	if (r->status == 206 && (r->first != (int64_t)f->at || (r->total >= 0 && r->total != (int64_t)size))) {
		if (r->first == (int64_t)f->at)
			return err_set(
				e, ERR_FAIL,
				"'%.100s' has another size than its list says, so it has just been changed: run the same command again",
				base_of(f->path));
		return err_set(
			e, ERR_FAIL,
			"the server sends other bytes of '%.100s' than were asked for: run the same command again, or try another HF_ENDPOINT",
			base_of(f->path));
	}
	if (r->status == 200 && r->length >= 0 && r->length != (int64_t)size)
		return err_set(
			e, ERR_FAIL,
			"'%.100s' has another size than its list says, so it has just been changed: run the same command again",
			base_of(f->path));
	/* the server does not support byte ranges, and sends the file from its beginning */
	if (r->status == 200 && f->at) {
		if (f->at > HEAD_STEP && !f->said_restart++) {
			progress_clear(f->progress);
			say("the server cannot continue a file: it begins again");
		}
		return begin_again(f, e);
	}
	return 0;
}

static int on_bytes(const void *p, size_t n, void *ud, struct err *e)
{
	struct fetched *f = ud;
	const char *from = p;

	if (n > f->file->bytes - f->at)
		return err_set(e, ERR_FAIL,
		               "the server sends more of '%.100s' than the file has: run the same command again",
		               base_of(f->path));
	for (size_t done = 0; done < n;) {
		ssize_t put = pwrite(f->fd, from + done, n - done, (off_t)(f->at + done));

		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0)
			return err_set(e, ERR_FAIL, "cannot write '%.160s': %s", f->part, strerror(errno));
		done += (size_t)put;
	}
	sum_add(f->sum, p, n);
	f->at += n;
	show_progress(f);
	/* A server that ignores byte ranges sends the whole file, so stop at the limit. */
	return f->at >= f->limit && f->limit < f->file->bytes ? -1 : 0;
}

/* Fetch until `limit` bytes are on disk. */
static int fetch_to(struct fetched *f, uint64_t limit, struct err *e)
{
	struct str url = { 0 };
	int tries = 0, rc = 0;

	f->limit = MIN(limit, f->file->bytes);
	hub_file_address(f->repo, f->file, &url);
	while (!rc && f->at < f->limit) {
		struct http_request q = { .url = url.p,
			                  .token = f->repo->token,
			                  .first = (int64_t)f->at,
			                  .last = f->limit < f->file->bytes ? (int64_t)f->limit - 1 : -1,
			                  .begin = on_begin,
			                  .bytes = on_bytes,
			                  .stopped = signals_stopped,
			                  .waiting = show_progress,
			                  .ud = f };
		struct http_reply reply;
		uint64_t at = f->at;
		struct err why = { 0 };

		rc = http_get(&q, &reply, &why);
		if (f->at >= f->limit) {
			rc = 0;
			break;
		}
		if (!rc && reply.status != 200 && reply.status != 206) {
			rc = hub_refused(f->repo, f->file->path, &reply, &why);
			/* the partial download has more bytes than the server's file, so it belongs to another version:
			 * begin again */
			if (reply.status == 416 && f->at && !f->restarts++) {
				rc = begin_again(f, e);
				continue;
			}
		} else if (!rc) {
			reply.broken = 1; /* the reply did not announce its length, and its body has ended too early */
			rc = err_set(&why, ERR_FAIL, "the connection ends too soon");
		}
		if (why.code == ERR_CANCELLED) {
			*e = why;
			break;
		}
		tries = f->at > at ? 1 : tries + 1;
		if (tries > 1)
			progress_clear(f->progress); /* hub_wait() may print a message: clear the progress line */
		if (hub_wait(&reply, tries, &why)) {
			*e = why;
			if (reply.broken && why.code != ERR_CANCELLED)
				err_set(e, ERR_FAIL,
				        "%.200s: the network fails; run the same command later, it continues where it was",
				        why.msg);
			else if (e->code == ERR_DOCUMENT)
				e->code = ERR_FAIL;
			break;
		}
		rc = 0;
	}
	str_free(&url);
	return rc;
}

int fetched_head(struct fetched *f, struct err *e)
{
	int fd = f->whole ? open(f->path, O_RDONLY | O_CLOEXEC) : f->fd, rc = 0;

	f->started = now_seconds();
	f->from = f->at;
	for (uint64_t want = HEAD_STEP; !rc && !f->head; want *= 2) {
		uint64_t n = MIN(want, f->file->bytes);
		char *p;

		if (!f->whole && fetch_to(f, n, e)) {
			rc = -1;
			break;
		}
		p = try_alloc(n, 1, "the header of a model file", e);
		if (!p || fd < 0 || pread(fd, p, n, 0) != (ssize_t)n)
			rc = p ? err_set(e, ERR_FAIL, "cannot read '%.200s' again: %s", f->part, strerror(errno)) : -1;
		else
			f->head = engine_head_bytes(p, n);
		free(p);
		if (!rc && !f->head && (n == f->file->bytes || n >= head_most))
			f->head = n; /* no header was found; when the file is opened, an error will tell why */
	}
	if (f->whole && fd >= 0)
		close(fd);
	progress_clear(f->progress);
	return rc;
}

int fetched_rest(struct fetched *f, struct err *e)
{
	char hex[65];

	if (f->whole)
		return 0;
	f->started = now_seconds();
	f->from = f->at;
	if (fetch_to(f, f->file->bytes, e)) {
		progress_clear(f->progress);
		return -1;
	}
	progress_clear(f->progress);
	sum_hex(f->sum, hex);
	if (strcmp(hex, f->file->sum) != 0) {
		unlink(f->part);
		return err_set(e, ERR_FAIL,
		               "'%.100s' came with a wrong checksum and was deleted: run the same command again",
		               base_of(f->path));
	}
	if (fsync(f->fd))
		return err_set(e, ERR_FAIL, "cannot write '%.160s': %s", f->part, strerror(errno));
	return 0;
}

int fetched_name(struct fetched *f, struct err *e)
{
	char *folder;
	int fd;

	if (f->whole)
		return 0;
	if (fchmod(f->fd, 0644) || rename(f->part, f->path))
		return err_set(e, ERR_FAIL, "cannot rename '%.200s': %s", f->part, strerror(errno));
	folder = xstrndup(f->path, (size_t)(base_of(f->path) - f->path));
	fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0) {
		fsync(fd);
		close(fd);
	}
	free(folder);
	f->whole = 1;
	return 0;
}
