/* app/models/gpu_checks.c - stores the results of GPU checks in a file (struct gpu_checks). Each line has one result:
 * "passed" or the reason for a failure, a tab, and the GPU's name. If a GPU has several lines, the last one counts. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/models/models.h"

enum { FILE_MOST = 64 << 10 };
#define PASSED "passed"

/* Append the path of the file to *path, and its content to *text. If the file cannot be read, *text becomes empty.
 * Returns 0, or -1 if the user has no home directory. */
static int file_read(struct str *path, struct str *text)
{
	struct err e = { 0 };

	if (user_path(path, DIR_STATE, "gpu-checks", &e) < 0)
		return -1;
	if (read_whole(path->p, FILE_MOST, text, &e) < 0)
		str_clear(text);
	return 0;
}

static int check_find(const char *gpu, char why[160])
{
	struct str path = { 0 }, text = { 0 };
	int found = -1;

	file_read(&path, &text);
	for (char *line = text.p, *end, *tab; line && (end = strchr(line, '\n')); line = end + 1) {
		*end = 0;
		if (!(tab = strchr(line, '\t')) || strcmp(tab + 1, gpu) != 0)
			continue;
		*tab = 0;
		found = !strcmp(line, PASSED);
		snprintf(why, 160, "%s", found ? "" : line);
	}
	str_free(&path);
	str_free(&text);
	return found;
}

/* Store the result of a check. If it cannot be written, the next run repeats the check. */
static void check_keep(const char *gpu, const char *why)
{
	struct str path = { 0 }, text = { 0 }, line = { 0 };
	int fd, anew;

	if (!file_read(&path, &text) && !make_parents(path.p)) {
		clean_line(why ? why : PASSED, strlen(why ? why : PASSED), &line);
		str_addf(&line, "\t%s\n", gpu);
		/* If the file would exceed FILE_MOST or could not be read, begin an empty file. */
		anew = !text.n || text.n + line.n > FILE_MOST ? O_TRUNC : 0;
		fd = open(path.p, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | anew, 0600);
		if (fd >= 0) {
			ssize_t written = write(fd, line.p, line.n);

			(void)written; /* a failure has no effect, because check_find() ignores an incomplete line */
			close(fd);
		}
	}
	str_free(&path);
	str_free(&text);
	str_free(&line);
}

const struct gpu_checks *gpu_checks_for(const struct options *o)
{
	static const struct gpu_checks kept = { check_find, check_keep }, only_read = { check_find, NULL };
	const char *which = getenv("WEIR_GPU_CHECK");

	if (which && !strcmp(which, "off"))
		return NULL;
	return o->private_talk ? &only_read : &kept;
}
