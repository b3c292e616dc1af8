/* sessions/import/model.c - checks a model file in the jail before this process reads it (import.h).
 *
 * The check takes time, so good files are listed in a file that the caller names. The list has one line for each model
 * file: program version, device, inode, size and times. A model file with an equal line is not checked again. */
#include "sessions/import/import_private.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LIST_MOST = 64 << 10 }; /* maximum size of the list in bytes; a longer list is emptied */

/* Write the line that the list has for a model file. The line is empty if the model is split, because such models are
 * never listed. It is also empty if the file cannot be examined. */
static void line_of(const char *path, struct str *line)
{
	struct stat st;

	str_adds(line, "");
	if (strstr(path, "-of-") || stat(path, &st))
		return;
	str_addf(line, "%s %ju %ju %jd %jd.%09ld %jd.%09ld\n", WEIR_VERSION, (uintmax_t)st.st_dev, (uintmax_t)st.st_ino,
	         (intmax_t)st.st_size, (intmax_t)st.st_mtim.tv_sec, st.st_mtim.tv_nsec, (intmax_t)st.st_ctim.tv_sec,
	         st.st_ctim.tv_nsec);
}

static int is_listed(const char *list, const struct str *line)
{
	char *text = NULL;
	int fd = open(list, O_RDONLY | O_CLOEXEC | O_NOFOLLOW), found = 0;
	ssize_t n = 0;

	if (fd >= 0 && (text = malloc(LIST_MOST)) && (n = read(fd, text, LIST_MOST)) > 0)
		found = memmem(text, (size_t)n, line->p, line->n) != NULL;
	free(text);
	if (fd >= 0)
		close(fd);
	return found;
}

/* Append with one write(), so that lines of two processes do not mix. An error is ignored: the model file is then
 * checked again next time. */
static void add_to_list(const char *list, const struct str *line)
{
	struct stat st;
	int fd = open(list, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600), full;

	if (fd < 0)
		return;
	full = fstat(fd, &st) || st.st_size + (off_t)line->n > LIST_MOST;
	if ((full && ftruncate(fd, 0)) || write(fd, line->p, line->n) < 0) { /* ignore an error */
	}
	close(fd);
}

int model_check(const char *path, const char *list, int remember, struct err *e)
{
	char *whole = realpath(path, NULL);
	struct str line = { 0 };
	int rc = 0;

	if (!whole)
		/* The path cannot be resolved. The caller reports the error when it opens the file. */
		return 0;
	line_of(whole, &line);
	if (!line.n || !list || !is_listed(list, &line)) {
		rc = helper_model(whole, e);
		if (!rc && remember && line.n && list)
			add_to_list(list, &line);
	}
	free(whole);
	str_free(&line);
	return rc < 0 ? -1 : 0;
}
