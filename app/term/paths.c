/* app/term/paths.c - reads whole files, creates the directories of a path, finds the free disk space. */
#include "app/term/term.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

int make_parents(const char *path)
{
	char *copy = xstrndup(path, strlen(path));
	int rc = 0;

	for (char *p = copy + 1; !rc && *p; p++) {
		if (*p != '/')
			continue;
		*p = 0;
		if (mkdir(copy, 0700) < 0 && errno != EEXIST)
			rc = -1;
		*p = '/';
	}
	free(copy);
	return rc;
}

int64_t disk_free_bytes(const char *path)
{
	char *copy = xstrndup(path, strlen(path));
	struct statvfs fs;
	int64_t free_bytes = -1;

	for (;;) {
		char *slash;
		if (!statvfs(copy, &fs)) {
			uint64_t bytes;
			if (!size_mul(fs.f_bavail, fs.f_frsize, &bytes) && bytes <= INT64_MAX)
				free_bytes = (int64_t)bytes;
			break;
		}
		slash = strrchr(copy, '/');
		if (!slash || slash == copy)
			break;
		*slash = 0;
	}
	free(copy);
	return free_bytes;
}

int read_whole(const char *path, size_t max, struct str *out, struct err *e)
{
	int is_stdin = !strcmp(path, "-"), fd, rc = 0;
	char buf[65536];
	ssize_t n;

	if (is_stdin)
		path = "standard input";
	fd = is_stdin ? 0 : open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_set(e, ERR_USAGE, "cannot open '%.200s': %s", path, strerror(errno));
	while ((n = read(fd, buf, sizeof buf)) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			rc = err_set(e, ERR_USAGE, "cannot read '%.200s': %s", path, strerror(errno));
			break;
		}
		if (out->n + (size_t)n > max) {
			rc = err_set(e, ERR_USAGE, "'%.200s' is longer than %zu bytes", path, max);
			break;
		}
		str_add(out, buf, (size_t)n);
	}
	if (!is_stdin)
		close(fd);
	return rc;
}
