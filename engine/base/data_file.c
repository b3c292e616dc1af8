/* engine/base/data_file.c - finds the files that are installed with the program (base.h). */
#include "engine/base/base.h"

#include <limits.h>
#include <string.h>
#include <unistd.h>

int data_file(struct str *path, const char *name, struct err *e)
{
	/* Paths to share/weir from the program's folder. They are for a program in, in this order: a build folder;
	 * PREFIX/bin; PREFIX/lib/weir or the folder `tests` of a build; the top of the source tree. */
	static const char *const data[] = { "/share/weir/", "/../share/weir/", "/../../share/weir/",
		                            "/build/share/weir/" };
	char dir[PATH_MAX], *slash;
	ssize_t n = readlink("/proc/self/exe", dir, sizeof dir - 1);
	size_t from = path->n;

	dir[MAX(n, 0)] = 0;
	slash = strrchr(dir, '/');
	dir[slash ? slash - dir : 0] = 0;
	for (size_t i = 0; n > 0 && i < LEN(data); i++) {
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
