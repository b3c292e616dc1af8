/* engine/base/data_file.c - finds the files that are installed with the program (base.h). With WEIR_STATIC the program
 * contains them. */
#include "engine/base/base.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "kernels/os.h"

#ifdef WEIR_STATIC
/* The data files. The Makefile writes them as a table that ends with a row without a name. `fd` is 0, or the descriptor
 * of a file in memory that has the bytes. */
extern struct data_embedded {
	const char *name;
	const uint8_t *bytes, *end;
	int fd;
} data_embedded[];

/* Return the descriptor of a file in memory that contains the data file, or -1. The descriptor stays open. */
static int memory_file(struct data_embedded *d)
{
	size_t n = (size_t)(d->end - d->bytes);

	if (!d->fd) {
		d->fd = os_memory_file(d->name);
		if (d->fd >= 0 && write(d->fd, d->bytes, n) != (ssize_t)n)
			d->fd = -1;
	}
	return d->fd;
}

/* Append the path of an embedded data file and return 1. Return 0 if there is no data file with this name. */
static int embedded_find(struct str *path, const char *name)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	struct data_embedded *d = data_embedded;
	int fd = -1;

	while (d->name && strcmp(d->name, name) != 0)
		d++;
	pthread_mutex_lock(&lock);
	if (d->name)
		fd = memory_file(d);
	pthread_mutex_unlock(&lock);
	if (fd >= 0)
		str_addf(path, "/proc/self/fd/%d", fd);
	return fd >= 0;
}
#else
static int embedded_find(struct str *path, const char *name)
{
	return 0;
}
#endif

int data_file(struct str *path, const char *name, struct err *e)
{
	/* Paths from the folder of the program to share/weir. They are for a program in one of these folders:
	 * - a build folder;
	 * - PREFIX/bin;
	 * - PREFIX/lib/weir, or a folder below `tests` in a build folder;
	 * - the top of the source tree. */
	static const char *const data[] = { "/share/weir/", "/../share/weir/", "/../../share/weir/",
		                            "/build/share/weir/" };
	char dir[PATH_MAX];
	size_t from = path->n;

	if (embedded_find(path, name))
		return 0;
	os_folder(dir);
	for (size_t i = 0; *dir && i < LEN(data); i++) {
		str_adds(path, dir);
		str_adds(path, data[i]);
		str_adds(path, name);
		if (!access(path->p + from, R_OK))
			return 0;
		path->n = from;
		path->p[from] = 0;
	}
	return err_set(
		e, ERR_FAIL,
		"cannot find the data file '%s', which belongs into '%.200s/../share/weir'; install weir anew, or build it by 'make'",
		name, dir);
}
