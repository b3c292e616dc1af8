/* sessions/import/import.c - reads the bytes of a document: a file, a pipe or an address.
 *
 * Paths are untrusted, and only regular files are read. The kind of file is checked before open(), since opening a
 * device can have effects, and once more on the open descriptor. Standard input may be a pipe. Sizes are checked
 * before memory is allocated. */
#include "sessions/import/import_private.h"
#include "sessions/fetch/fetch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/os.h"

#define STDIN_NAME "standard input"

static int refuse_errno(struct err *e, const char *path, const char *what, int code)
{
	return err_set(e, ERR_DOCUMENT, "document '%s' cannot be %s: %s", doc_shown(path), what, strerror(code));
}

/* ---- bytes ---- */

/* Wait until fd can be read without blocking. Returns 0; or -1 if the user has stopped the import. */
static int wait_for_bytes(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	while (!import_stopped())
		if (poll(&p, 1, STOP_EVERY_MS) > 0)
			return 0;
	return -1;
}

/* Read fd to its end. More than DOC_BYTES_MAX bytes are an error. `hint` is the expected number of bytes; 0 =
 * unknown. */
static int read_all(int fd, const char *path, size_t hint, char **out, size_t *out_n, struct err *e)
{
	size_t cap = hint ? hint + 1 : 65536, n = 0;
	char *buf = try_alloc(cap, 1, "a document", e);

	if (!buf)
		return -1;
	for (;;) {
		ssize_t got;
		if (n == cap) {
			size_t more = cap > DOC_BYTES_MAX / 2 ? (size_t)DOC_BYTES_MAX + 1 : cap * 2;
			char *bigger = realloc(buf, more);
			if (!bigger) {
				err_set(e, ERR_FIT, "no memory for document '%s': %zu bytes wanted", doc_shown(path),
				        more);
				break;
			}
			buf = bigger;
			cap = more;
		}
		if (wait_for_bytes(fd)) {
			import_refuse_stopped(doc_shown(path), e);
			break;
		}
		got = read(fd, buf + n, cap - n);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0) {
			refuse_errno(e, path, "read", errno);
			break;
		}
		if (!got) {
			*out = buf;
			*out_n = n;
			return 0;
		}
		n += (size_t)got;
		if (n > DOC_BYTES_MAX) {
			err_set(e, ERR_DOCUMENT, "document '%s' is longer than the limit of %u bytes; split it",
			        doc_shown(path), DOC_BYTES_MAX);
			break;
		}
	}
	free(buf);
	return -1;
}

/* Check that the path is a regular file of an allowed size. Returns 0; or -1, and then *e says what the path is. */
static int check_kind(const char *path, const struct stat *st, struct err *e)
{
	switch (st->st_mode & S_IFMT) {
	case S_IFREG: break;
	case S_IFDIR: return doc_refuse(e, path, "is a directory; name the files in it");
	case S_IFIFO: return doc_refuse(e, path, "is a pipe, not a file; use '-' to read standard input");
	case S_IFCHR:
	case S_IFBLK: return doc_refuse(e, path, "is a device, not a file");
	case S_IFSOCK: return doc_refuse(e, path, "is a socket, not a file");
	default: return doc_refuse(e, path, "is not a regular file");
	}
	if (st->st_size > (off_t)DOC_BYTES_MAX)
		return err_set(e, ERR_DOCUMENT, "document '%s' has %lld bytes, the limit is %u; split it",
		               doc_shown(path), (long long)st->st_size, DOC_BYTES_MAX);
	return 0;
}

/* Refuse /proc and /sys: their files look regular, but reading one can block or reveal secrets. */
static int check_filesystem(const char *path, int fd, struct err *e)
{
	if (os_of_kernel(fd))
		return doc_refuse(e, path, "belongs to the kernel (/proc or /sys), it is not a document");
	return 0;
}

static int read_file(const char *path, char **buf, size_t *n, struct stat *opened, struct err *e)
{
	struct stat st;
	int fd, r = -1;

	if (stat(path, &st))
		return refuse_errno(e, path, "opened", errno);
	if (check_kind(path, &st, e))
		return -1;
	/* O_NONBLOCK: if a FIFO has replaced the file meanwhile, open() must not wait for a writer */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return refuse_errno(e, path, "opened", errno);
	if (fstat(fd, &st))
		refuse_errno(e, path, "examined", errno);
	else if (!check_kind(path, &st, e) && !check_filesystem(path, fd, e))
		r = read_all(fd, path, (size_t)st.st_size, buf, n, e);
	close(fd);
	*opened = st;
	if (!r && *n < (size_t)st.st_size) {
		err_set(e, ERR_DOCUMENT, "document '%s' was cut short while it was read: %zu of %lld bytes came",
		        doc_shown(path), *n, (long long)st.st_size);
		free(*buf);
		return -1;
	}
	return r;
}

static int read_stdin(char **buf, size_t *n, struct err *e)
{
	struct stat st;

	if (fstat(STDIN_FILENO, &st))
		return refuse_errno(e, STDIN_NAME, "examined", errno);
	if (S_ISDIR(st.st_mode) || S_ISBLK(st.st_mode) || (S_ISREG(st.st_mode) && st.st_size > (off_t)DOC_BYTES_MAX))
		return check_kind(STDIN_NAME, &st, e);
	if (isatty(STDIN_FILENO))
		return doc_refuse(e, STDIN_NAME, "is a terminal; pipe a document into it or name a file");
	return read_all(STDIN_FILENO, STDIN_NAME, 0, buf, n, e);
}

int doc_read(const char *path, struct doc *out, struct err *e)
{
	int from_stdin = !strcmp(path, "-");
	char *buf = NULL;
	struct stat st;
	size_t n = 0;
	int r;

	*out = (struct doc){ 0 };
	if (doc_is_address(path))
		return url_document(path, out, e);
	if (from_stdin ? read_stdin(&buf, &n, e) : read_file(path, &buf, &n, &st, e))
		return -1;
	r = doc_decode(from_stdin ? STDIN_NAME : path, buf, n, out, e);
	if (!r && !from_stdin)
		origin_note(&out->origin, path, &st, buf, n);
	free(buf);
	return r;
}
