/* engine/gguf/gguf_split.c - opens a model that is split into files NAME-00001-of-0000N.gguf and so on (gguf.h).
 *
 * Only the first file has the metadata; every file has some of the tensors. The key split.count is the number of files,
 * split.no the index of a file, from 0. The user may name any of the files. All of them are then opened and checked,
 * and their tensors are joined. */
#include "engine/gguf/gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PARTS_MOST = 999, TAIL = sizeof "-00001-of-00002.gguf" - 1 };

/* Return the number of files of a split model according to a path, such as 5 for "NAME-00002-of-00005.gguf". Return 0
 * if the path does not end like this. */
static int parts_by_name(const char *path)
{
	size_t n = strlen(path);
	const char *tail = path + n - TAIL;
	int no, count, end = 0;

	if (n <= TAIL || sscanf(tail, "-%5d-of-%5d.gguf%n", &no, &count, &end) != 2 || end != TAIL || no < 1 ||
	    no > count)
		return 0;
	return count;
}

/* Read split.no and split.count. Return 1 if the file is one of several, 0 if it is a whole model, and -1 on error. */
static int split_of(const struct gguf *g, int64_t *no, int64_t *count, struct err *e)
{
	*no = *count = 0;
	if (gguf_int(g, "split.count", 0, PARTS_MOST, count, e) < 0 ||
	    gguf_int(g, "split.no", 0, PARTS_MOST, no, e) < 0)
		return -1;
	return *count > 1;
}

/* Open file i (from 0) of a model of `count` files and check its split keys. `path` is the path of any of the
 * files. */
static int open_part(struct gguf **out, const char *path, int64_t i, int64_t count, struct err *e)
{
	struct str name = { 0 };
	int64_t no, of;
	int rc;

	str_add(&name, path, strlen(path) - TAIL);
	str_addf(&name, "-%05d-of-%05d.gguf", (int)i + 1, (int)count);
	rc = gguf_open_file(out, name.p, e);
	if (!rc && split_of(*out, &no, &of, e) < 0)
		rc = -1;
	else if (!rc && (no != i || of != count))
		rc = gguf_err(*out, e, "this says that it is part %d of %d, and must be part %d of %d", (int)no + 1,
		              (int)of, (int)i + 1, (int)count);
	if (rc && *out) {
		gguf_close(*out);
		*out = NULL;
	}
	str_free(&name);
	return rc;
}

int gguf_open(struct gguf **out, const char *path, struct err *e)
{
	struct gguf *g;
	int64_t no, count;
	int split;

	if (gguf_open_file(out, path, e))
		return -1;
	g = *out;
	split = split_of(g, &no, &count, e);
	if (!split)
		return 0;
	if (split > 0 && parts_by_name(path) != count)
		split = gguf_err(g, e,
		                 "this is part %d of %d; the parts' names must end with -00001-of-%05d.gguf and so on",
		                 (int)no + 1, (int)count, (int)count);
	if (split > 0 && no > 0) { /* the metadata is in the first file */
		gguf_close(g);
		*out = NULL;
		if (open_part(out, path, 0, count, e))
			return -1;
		g = *out;
	}
	for (int64_t i = 1; split > 0 && i < count; i++) {
		struct gguf *part;

		if (open_part(&part, path, i, count, e) || gguf_join(g, part, e))
			split = -1;
	}
	if (split > 0)
		return 0;
	gguf_close(g);
	*out = NULL;
	return -1;
}
