/* engine/base/scratch_file.c - a nameless temporary file with reserved disk space (base.h). */
#include "engine/base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* Create the directory `path` and its parents. The call writes into `path`. */
static int make_directory(char *path, struct err *err)
{
	for (char *p = path + 1;; p++) {
		char was = *p;

		if (was && was != '/')
			continue;
		*p = 0;
		if (mkdir(path, 0700) && errno != EEXIST)
			return err_set(err, ERR_FAIL,
			               "cannot make the directory '%s' to keep what memory has no room for: %s", path,
			               strerror(errno));
		*p = was;
		if (!was)
			return 0;
	}
}

static int open_nameless(const char *dir)
{
	struct str path = { 0 };
	int fd = -1;

#ifdef O_TMPFILE
	fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT && errno != EINVAL))
		return fd;
#endif
	str_addf(&path, "%s/scratch-XXXXXX", dir);
	fd = mkostemp(path.p, O_CLOEXEC);
	if (fd >= 0)
		unlink(path.p);
	str_free(&path);
	return fd;
}

/* Reserve disk space for the first `bytes` bytes of fd. Return 0 or an errno. Test the limits first, because exceeding
 * RLIMIT_FSIZE raises SIGXFSZ, and a reservation that does not fit would fill the disk before it fails. */
static int reserve_space(int fd, uint64_t bytes)
{
	struct rlimit most;
	struct statvfs disk;
	int failed;

	if (!bytes)
		return 0;
	if (bytes > INT64_MAX ||
	    (!getrlimit(RLIMIT_FSIZE, &most) && most.rlim_cur != RLIM_INFINITY && bytes > most.rlim_cur))
		return EFBIG;
	if (!fstatvfs(fd, &disk) && disk.f_frsize && bytes / disk.f_frsize >= disk.f_bavail)
		return ENOSPC;
	do
		failed = posix_fallocate(fd, 0, (off_t)bytes);
	while (failed == EINTR);
	return failed;
}

int scratch_file(const char *what, uint64_t bytes, struct err *err)
{
	struct str dir = { 0 };
	int fd, failed;

	if (user_path(&dir, DIR_CACHE, "", err) || make_directory(dir.p, err)) {
		str_free(&dir);
		return -1;
	}
	fd = open_nameless(dir.p);
	failed = fd < 0 ? errno : reserve_space(fd, bytes);
	if (fd < 0)
		err_set(err, ERR_FAIL, "cannot make a file for %s in '%s': %s", what, dir.p, strerror(failed));
	else if (failed)
		err_set(err, ERR_FAIL,
		        "cannot reserve %.0f MiB for %s in '%s': %s; use a smaller -c, or set XDG_CACHE_HOME to a disk with room",
		        (double)bytes / (1 << 20), what, dir.p, strerror(failed));
	str_free(&dir);
	if (failed && fd >= 0)
		close(fd);
	return failed ? -1 : fd;
}
