/* sessions/import/list.c - lists the documents that an argument names: a file, a folder, a pattern. */
#include "sessions/import/import_private.h"
#include "sessions/fetch/fetch.h"

#include <errno.h>
#include <fts.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define DEPTH_MAX 16

/* Add a path to the list. `st` is the status of the file, or NULL if the file was not examined. */
static int add_path(struct doc_paths *list, const char *path, const struct stat *st, struct err *e)
{
	if (list->n == DOC_PATHS_MAX)
		return err_set(e, ERR_DOCUMENT, "more than %d documents at once: name a smaller folder", DOC_PATHS_MAX);
	GROW(list->at, list->n, list->cap);
	list->at[list->n++] = (struct doc_path){
		.path = xstrndup(path, strlen(path)),
		.size = st ? (int64_t)st->st_size : 0,
		.mtime = st ? origin_mtime(st) : 0,
	};
	return 0;
}

static void leave_out(struct doc_paths *list, const char *path)
{
	const char *slash = strrchr(path, '/');

	if (!list->n_other++)
		list->other = xstrndup(slash ? slash + 1 : path, strlen(slash ? slash + 1 : path));
}

/* 1 if the ending of the name shows that the file is not a document, but a picture, an archive or a program. The file
 * is not opened. */
static int is_other(const char *name)
{
	static const char *const endings[] = {
		"jpg",  "jpeg", "png",         "gif",  "svg", "webp",   "bmp", "ico",  "tif",  "tiff",  "mp3",  "mp4",
		"m4a",  "ogg",  "wav",         "flac", "avi", "mkv",    "mov", "webm", "zip",  "tar",   "tgz",  "bz2",
		"xz",   "zst",  "7z",          "rar",  "o",   "a",      "so",  "exe",  "dll",  "class", "pyc",  "jar",
		"wasm", "gguf", "safetensors", "bin",  "db",  "sqlite", "ttf", "otf",  "woff", "woff2", "iso",  "img",
		"deb",  "rpm",  "opus",        "aac",  "wma", "m4v",    "mpg", "mpeg", "wmv",  "flv",   "heic", "avif",
	};
	const char *dot = strrchr(name, '.');
	size_t n = strlen(name);

	if (n > 8 && !strcasecmp(name + n - 8, ".fb2.zip")) /* a FictionBook, not an archive */
		return 0;
	for (size_t i = 0; dot && i < LEN(endings); i++)
		if (!strcasecmp(dot + 1, endings[i]))
			return 1;
	return 0;
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
	return strcmp((*a)->fts_name, (*b)->fts_name);
}

/* A folder that is being listed. `root` is its path as the user gave it, and `real` its absolute path. `path` is the
 * absolute path of the last file or folder that was found in it. */
struct walk {
	FTS *tree;
	const char *root;
	char *real;
	struct ignores ignores;
	struct str path;
};

/* 1 if the file or folder f is not listed: it is hidden, too deep, or ignored by git. Sets w->path. */
static int is_skipped(struct walk *w, const FTSENT *f)
{
	const char *below = f->fts_path + strlen(w->root);

	str_clear(&w->path);
	str_adds(&w->path, w->real);
	if (f->fts_level > 0)
		str_addf(&w->path, "/%s", below + strspn(below, "/"));
	ignores_leave(&w->ignores, f->fts_level);
	return f->fts_level > 0 && (f->fts_name[0] == '.' || f->fts_level > DEPTH_MAX ||
	                            ignores_tell(&w->ignores, w->path.p, f->fts_info == FTS_D));
}

static int add_found(struct walk *w, FTSENT *f, struct doc_paths *list, struct err *e)
{
	if (f->fts_info == FTS_DP)
		return 0;
	if (is_skipped(w, f))
		fts_set(w->tree, f, FTS_SKIP);
	else if (f->fts_info == FTS_D)
		ignores_enter(&w->ignores, w->path.p, f->fts_level);
	else if (f->fts_info == FTS_F && is_other(f->fts_name))
		leave_out(list, f->fts_path);
	else if (f->fts_info == FTS_F)
		return add_path(list, f->fts_path, f->fts_statp, e);
	else if (f->fts_info == FTS_DNR && f->fts_level == 0)
		return err_set(e, ERR_DOCUMENT, "folder '%s' cannot be opened: %s", doc_shown(w->root),
		               strerror(f->fts_errno));
	return 0;
}

int doc_list(const char *folder, struct doc_paths *out, struct err *e)
{
	char *roots[] = { (char *)(uintptr_t)folder, NULL };
	struct walk w = { .root = folder, .real = realpath(folder, NULL) };
	FTSENT *f;
	int rc = 0;

	*out = (struct doc_paths){ 0 };
	w.tree = w.real ? fts_open(roots, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, by_name) : NULL;
	if (w.tree) {
		ignores_above(&w.ignores, w.real);
		while (!rc && (f = fts_read(w.tree)))
			rc = add_found(&w, f, out, e);
		fts_close(w.tree);
	} else {
		rc = err_set(e, ERR_DOCUMENT, "folder '%s' cannot be opened: %s", doc_shown(folder), strerror(errno));
	}
	ignores_free(&w.ignores);
	str_free(&w.path);
	free(w.real);
	if (rc)
		doc_paths_free(out);
	return rc;
}

static int add_folder(struct doc_paths *list, const char *path, struct err *e)
{
	if (doc_list(path, list, e))
		return -1;
	return list->n ? 0 : err_set(e, ERR_DOCUMENT, "folder '%s' holds no documents", doc_shown(path));
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
		if (is_other(path) && !is_other(pattern)) /* but a pattern such as "*.png" asks for pictures */
			leave_out(list, path);
		else
			rc = add_path(list, path, NULL, e);
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
		rc = add_path(out, what, NULL, e);
	else if (!stat(what, &st))
		rc = S_ISDIR(st.st_mode) ? add_folder(out, what, e) : add_path(out, what, NULL, e);
	else
		/* a missing file is listed as well, and doc_read() reports the error */
		rc = strpbrk(what, "*?[") ? add_pattern(out, what, e) : add_path(out, what, NULL, e);
	if (rc)
		doc_paths_free(out);
	return rc;
}

void doc_paths_free(struct doc_paths *list)
{
	for (size_t i = 0; i < list->n; i++)
		free(list->at[i].path);
	free(list->at);
	free(list->other);
	*list = (struct doc_paths){ 0 };
}
