/* sessions/import/list.c - lists the documents that an argument names: a file, a folder, a pattern. */
#include "sessions/import/import_private.h"
#include "sessions/fetch/fetch.h"

#include <errno.h>
#include <fts.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PATHS_MAX 1000
#define DEPTH_MAX 16

static int add_path(struct doc_paths *list, const char *path, struct err *e)
{
	if (list->n == PATHS_MAX)
		return err_set(e, ERR_DOCUMENT, "more than %d documents at once: name a smaller folder", PATHS_MAX);
	list->path = xrealloc(list->path, (list->n + 1) * sizeof *list->path);
	list->path[list->n++] = xstrndup(path, strlen(path));
	return 0;
}

static void leave_out(struct doc_paths *list, const char *path)
{
	const char *slash = strrchr(path, '/');

	if (!list->n_other++)
		list->other = xstrndup(slash ? slash + 1 : path, strlen(slash ? slash + 1 : path));
}

/* 1 if the ending of the name shows a file that is not a document: pictures, archives, programs. No file is
 * opened. */
static int is_other(const char *name)
{
	static const char *const endings[] = {
		"jpg", "jpeg",   "png", "gif",   "svg",  "webp",  "bmp",  "ico",  "tif",         "tiff",
		"mp3", "mp4",    "m4a", "ogg",   "wav",  "flac",  "avi",  "mkv",  "mov",         "webm",
		"zip", "tar",    "tgz", "bz2",   "xz",   "zst",   "7z",   "rar",  "o",           "a",
		"so",  "exe",    "dll", "class", "pyc",  "jar",   "wasm", "gguf", "safetensors", "bin",
		"db",  "sqlite", "ttf", "otf",   "woff", "woff2", "iso",  "img",  "deb",         "rpm",
	};
	const char *dot = strrchr(name, '.');

	for (size_t i = 0; dot && i < LEN(endings); i++)
		if (!strcasecmp(dot + 1, endings[i]))
			return 1;
	return 0;
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
	return strcmp((*a)->fts_name, (*b)->fts_name);
}

/* Add the regular files below a folder, sorted by name, without links and hidden files. path itself may be a link. */
static int add_folder(struct doc_paths *list, const char *path, struct err *e)
{
	char *roots[] = { (char *)(uintptr_t)path, NULL };
	FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, by_name);
	FTSENT *f;
	int rc = 0;

	if (!tree)
		return err_set(e, ERR_DOCUMENT, "folder '%s' cannot be opened: %s", doc_shown(path), strerror(errno));
	while (!rc && (f = fts_read(tree))) {
		if (f->fts_level > 0 && (f->fts_name[0] == '.' || f->fts_level > DEPTH_MAX))
			fts_set(tree, f, FTS_SKIP);
		else if (f->fts_info == FTS_F && is_other(f->fts_name))
			leave_out(list, f->fts_path);
		else if (f->fts_info == FTS_F)
			rc = add_path(list, f->fts_path, e);
		else if (f->fts_info == FTS_DNR && f->fts_level == 0)
			rc = err_set(e, ERR_DOCUMENT, "folder '%s' cannot be opened: %s", doc_shown(path),
			             strerror(f->fts_errno));
	}
	fts_close(tree);
	if (!rc && !list->n)
		rc = err_set(e, ERR_DOCUMENT, "folder '%s' holds no documents", doc_shown(path));
	return rc;
}

static int add_pattern(struct doc_paths *list, const char *pattern, struct err *e)
{
	glob_t g;
	int rc = glob(pattern, GLOB_MARK, NULL, &g);

	if (rc == GLOB_NOMATCH)
		return err_set(e, ERR_DOCUMENT, "no file is named like '%s'", doc_shown(pattern));
	if (rc)
		return err_set(e, ERR_DOCUMENT, "pattern '%s' cannot be matched", doc_shown(pattern));
	for (size_t i = 0; !rc && i < g.gl_pathc; i++) {
		const char *path = g.gl_pathv[i];
		size_t n = strlen(path);
		/* Skip folders that match. */
		if (n && path[n - 1] == '/')
			continue;
		if (is_other(path))
			leave_out(list, path);
		else
			rc = add_path(list, path, e);
	}
	globfree(&g);
	if (!rc && !list->n)
		rc = err_set(e, ERR_DOCUMENT, "no document is named like '%s'", doc_shown(pattern));
	return rc;
}

int doc_find(const char *what, struct doc_paths *out, struct err *e)
{
	struct stat st;
	int rc;

	*out = (struct doc_paths){ 0 };
	if (!strcmp(what, "-") || doc_is_address(what))
		rc = add_path(out, what, e);
	else if (!stat(what, &st))
		rc = S_ISDIR(st.st_mode) ? add_folder(out, what, e) : add_path(out, what, e);
	else
		/* a missing file is listed, too: doc_read() reports it */
		rc = strpbrk(what, "*?[") ? add_pattern(out, what, e) : add_path(out, what, e);
	if (rc)
		doc_paths_free(out);
	return rc;
}

void doc_paths_free(struct doc_paths *list)
{
	for (size_t i = 0; i < list->n; i++)
		free(list->path[i]);
	free(list->path);
	free(list->other);
	*list = (struct doc_paths){ 0 };
}
