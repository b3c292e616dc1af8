/* ui/input/input_history.c - the history file of the input line, shared with line mode and with other weir processes.
 *
 * The format is that of readline with time stamps: an entry is a line "#SECONDS" and then its lines. Only a line of '#'
 * and digits is a stamp, so that a line of text such as "#1 is done" is not mistaken for one. Each entry is appended by
 * one write(). When a program ends, it replaces a file that is too long by a shorter one. Appending and replacing lock
 * the file. A program that has waited for the lock opens the file again, because the file may have been replaced
 * meanwhile. */
#include "ui/input/input_private.h"
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

void text_fix(const char *in, size_t n, struct str *out)
{
	size_t good = 0; /* the bytes of the input before this index have been written */

	for (size_t i = 0, len; i < n; i += len) {
		int32_t cp;
		len = (size_t)utf8_decode(in + i, n - i, &cp);
		if (cp > 0 && !paste_is_mark(cp))
			continue;
		str_add(out, in + good, i - good);
		if (cp)
			str_adds(out, "\xef\xbf\xbd");
		good = i + len;
	}
	str_add(out, in + good, n - good);
}

/* ---- entries in the bytes of a file ---- */

static int is_stamp(const char *line, size_t n)
{
	size_t i = 1;

	while (i < n && byte_is_digit(line[i]))
		i++;
	return n > 1 && line[0] == '#' && i == n;
}

/* Find the next entry at or after *at; its text is bytes [*text, *end). *stamped is 1 if a time stamp was seen before.
 * Each line before the first time stamp is an entry, because older versions of readline wrote no time stamps. Returns
 * 1, or 0 at the end of the file. */
static int next_entry(const char *p, size_t n, size_t *at, int *stamped, size_t *text, size_t *end)
{
	int begun = 0;

	while (*at < n) {
		const char *nl = memchr(p + *at, '\n', n - *at);
		size_t len = nl ? (size_t)(nl - (p + *at)) : n - *at, next = *at + len + (nl != NULL);

		if (is_stamp(p + *at, len)) {
			if (begun)
				return 1;
			*stamped = 1;
		} else {
			if (!begun)
				*text = *at;
			begun = 1;
			*end = *at + len;
			if (!*stamped) {
				*at = next;
				return 1;
			}
		}
		*at = next;
	}
	return begun;
}

/* ---- the file ---- */

/* Open a regular file, without following a symbolic link. Returns -1 on error, and for any other kind of file. */
static int open_regular(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600);
	struct stat st;

	if (fd >= 0 && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* Open the file and lock it. If another process holds the lock for more than about 0.2 s, return the file without a
 * lock (*locked = 0), so that the screen does not freeze. */
static int open_locked(const char *path, int flags, int *locked)
{
	int fd = -1;

	for (int tries = 0; tries < 50; tries++) {
		struct stat mine, named;

		fd = open_regular(path, flags);
		if (fd < 0)
			return -1;
		*locked = flock(fd, LOCK_EX | LOCK_NB) == 0;
		if (*locked && !fstat(fd, &mine) && !stat(path, &named) && mine.st_ino == named.st_ino &&
		    mine.st_dev == named.st_dev)
			return fd;
		if (!*locked && errno != EWOULDBLOCK && errno != EINTR)
			return fd; /* this file system has no locks: use the file without one */
		if (tries < 49) {
			close(fd);
			if (!*locked)
				nanosleep(&(struct timespec){ .tv_nsec = 4000000 }, NULL);
		}
	}
	return fd;
}

/* Read the last HISTORY_BYTES of the file. */
static char *read_tail(int fd, size_t *n)
{
	struct stat st;
	char *p;
	off_t from;

	if (fstat(fd, &st) < 0)
		return NULL;
	from = st.st_size > HISTORY_BYTES ? st.st_size - HISTORY_BYTES : 0;
	p = xmalloc(HISTORY_BYTES < st.st_size ? HISTORY_BYTES : (size_t)st.st_size + 1);
	for (*n = 0; *n < (size_t)(st.st_size - from);) {
		ssize_t got = pread(fd, p + *n, (size_t)(st.st_size - from) - *n, from + (off_t)*n);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		*n += (size_t)got;
	}
	if (from) {
		/* the tail may begin inside an entry: skip to the first stamp */
		size_t at = 0;
		while (at < *n) {
			char *nl = memchr(p + at, '\n', *n - at);
			size_t len = nl ? (size_t)(nl - (p + at)) : *n - at;
			if (at && is_stamp(p + at, len))
				break;
			at += len + (nl != NULL);
		}
		memmove(p, p + at, *n - at);
		*n -= at;
	}
	return p;
}

/* Set *from to the start of the last HISTORY_MAX entries. Returns the number of all entries. */
static size_t find_last_entries(const char *p, size_t n, size_t *from)
{
	size_t ring[HISTORY_MAX], count = 0, at = 0, text, end;
	int stamped = 0;

	*from = 0;
	for (;;) {
		size_t start = at;
		if (!next_entry(p, n, &at, &stamped, &text, &end))
			break;
		ring[count++ % HISTORY_MAX] = start;
	}
	if (count > HISTORY_MAX)
		*from = ring[count % HISTORY_MAX];
	return count;
}

int history_load(const char *path, history_fn *each, void *ud)
{
	int fd = open_regular(path, O_RDWR | O_CREAT), stamped = 0;
	size_t n, at, text, end;
	struct str s = { 0 };
	char *p;

	if (fd < 0)
		return -1;
	fchmod(fd, 0600);
	p = read_tail(fd, &n);
	close(fd);
	if (!p)
		return -1;
	find_last_entries(p, n, &at);
	while (next_entry(p, n, &at, &stamped, &text, &end)) {
		str_clear(&s);
		text_fix(p + text, end - text, &s);
		if (s.n)
			each(s.p, s.n, ud);
	}
	str_free(&s);
	free(p);
	return 0;
}

static int begins_with(const char *text, size_t n, const char *word)
{
	size_t len = strlen(word);

	return n >= len && !memcmp(text, word, len);
}

void history_append(const char *path, const char *text, size_t n)
{
	struct str s = { 0 };
	struct stat st;
	int locked, fd;

	char last;

	/* facts are stored only in chat.db, from which they can be deleted */
	if (n > HISTORY_ENTRY || untyped_names_file(text, n) || begins_with(text, n, "/remember") ||
	    begins_with(text, n, "/memory"))
		return;
	fd = open_locked(path, O_RDWR | O_APPEND | O_CREAT, &locked);
	if (fd < 0)
		return;
	/* if an interrupted writer left a last line without a newline, end that line first */
	if (!fstat(fd, &st) && st.st_size && pread(fd, &last, 1, st.st_size - 1) == 1 && last != '\n')
		str_adds(&s, "\n");
	str_addf(&s, "#%lld\n", (long long)time(NULL));
	str_add(&s, text, n);
	str_adds(&s, "\n");
	/* ignore errors, because on a full disk only this entry is lost */
	if (write(fd, s.p, s.n) < 0)
		errno = 0;
	close(fd);
	str_free(&s);
}

static int write_whole(int fd, const char *p, size_t n)
{
	while (n) {
		ssize_t done = write(fd, p, n);
		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return -1;
		p += done;
		n -= (size_t)done;
	}
	return 0;
}

void history_trim(const char *path)
{
	int locked, fd = open_locked(path, O_RDWR, &locked), copy = -1;
	struct str name = { 0 };
	struct stat st, now;
	size_t n = 0, from = 0;
	char *p = NULL;

	if (fd < 0)
		return;
	if (!locked || fstat(fd, &st) < 0 || !(p = read_tail(fd, &n)))
		goto out;
	if (find_last_entries(p, n, &from) <= HISTORY_MAX && st.st_size <= HISTORY_BYTES)
		goto out;
	str_addf(&name, "%s.XXXXXX", path);
	copy = mkostemp(name.p, O_CLOEXEC); /* creates the file with mode 0600 */
	if (copy < 0)
		goto out;
	/* Replace the file only if it has not grown since it was read. It may grow despite the lock: a process that
	 * waits too long for the lock appends without it. A file that has grown is shortened by the next program that
	 * ends. */
	if (write_whole(copy, p + from, n - from) < 0 || fstat(fd, &now) < 0 || now.st_size != st.st_size ||
	    rename(name.p, path) < 0)
		unlink(name.p);
out:
	if (copy >= 0)
		close(copy);
	close(fd);
	free(p);
	str_free(&name);
}
