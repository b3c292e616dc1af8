/* app/chat/folder_list.c - lists the folders of a conversation, and the files in them that are not documents; reads and
 * writes this list as text for the session (chat_private.h). */
#include "app/chat/chat_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- which files belong to a folder ---- */

static int is_below(const char *path, const char *folder)
{
	size_t n = strlen(folder);

	return !strncmp(path, folder, n) && (path[n] == '/' || (n && folder[n - 1] == '/'));
}

struct folder *folder_of(const struct conversation *conv, const char *path)
{
	struct folder *best = NULL;

	for (size_t i = 0; i < conv->n_folder; i++)
		if (is_below(path, conv->folder[i].path) &&
		    (!best || strlen(best->path) < strlen(conv->folder[i].path)))
			best = &conv->folder[i];
	return best;
}

int folder_has(const struct conversation *conv, const struct document *d)
{
	return d->origin->path && folder_of(conv, d->origin->path);
}

/* ---- files that are left out ---- */

static int by_left_path(const void *a, const void *b)
{
	return strcmp(((const struct folder_file *)a)->path, ((const struct folder_file *)b)->path);
}

struct folder_file *left_find(const struct folder *f, const char *path)
{
	struct folder_file key = { .path = (char *)(uintptr_t)path };

	return f->n_left ? bsearch(&key, f->left, f->n_left, sizeof key, by_left_path) : NULL;
}

void left_put(struct folder *f, const char *path, int64_t size, int64_t mtime, char why)
{
	GROW(f->left, f->n_left, f->cap_left);
	f->left[f->n_left++] = (struct folder_file){ xstrndup(path, strlen(path)), size, mtime, why };
}

void left_sort(struct folder *f)
{
	size_t n = 0;

	for (size_t i = 0; i < f->n_left; i++)
		if (f->left[i].why)
			f->left[n++] = f->left[i];
		else
			free(f->left[i].path);
	f->n_left = n;
	if (n)
		qsort(f->left, n, sizeof *f->left, by_left_path);
}

int left_drop(struct folder *f, char why)
{
	size_t before = f->n_left;

	for (size_t i = 0; i < f->n_left; i++)
		if (!why || f->left[i].why == why)
			f->left[i].why = 0;
	left_sort(f);
	return f->n_left < before;
}

void folder_note(struct conversation *conv, const struct document *d, char why)
{
	struct folder *f = d->origin->path ? folder_of(conv, d->origin->path) : NULL;
	struct folder_file *known = f ? left_find(f, d->origin->path) : NULL;

	if (!f)
		return;
	if (known)
		known->why = 0;
	left_put(f, d->origin->path, d->origin->size, d->origin->mtime, why);
	left_sort(f);
	conv->folders_changed = 1;
}

struct folder *folder_add(struct conversation *conv, char *path)
{
	for (size_t i = 0; i < conv->n_folder; i++)
		if (!strcmp(conv->folder[i].path, path)) {
			free(path);
			return &conv->folder[i];
		}
	conv->folder = xrealloc(conv->folder, (conv->n_folder + 1) * sizeof *conv->folder);
	conv->folder[conv->n_folder] = (struct folder){ .path = path };
	conv->folders_changed = 1;
	return &conv->folder[conv->n_folder++];
}

void folder_remove(struct conversation *conv, struct folder *f)
{
	left_drop(f, 0);
	free(f->left);
	free(f->path);
	*f = conv->folder[--conv->n_folder];
	conv->folders_changed = 1;
}

/* ---- the session's text ----
 *
 * Each folder has a line "folder PATH". A line "WHY SIZE MTIME PATH" follows for each file of the folder that is left
 * out. Paths that contain a newline are not written. */

void folders_write(const struct conversation *conv, struct str *out)
{
	for (size_t i = 0; i < conv->n_folder; i++) {
		const struct folder *f = &conv->folder[i];

		if (strchr(f->path, '\n'))
			continue;
		str_addf(out, "folder %s\n", f->path);
		for (size_t k = 0; k < f->n_left; k++)
			if (!strchr(f->left[k].path, '\n'))
				str_addf(out, "%c %" PRId64 " %" PRId64 " %s\n", f->left[k].why, f->left[k].size,
				         f->left[k].mtime, f->left[k].path);
	}
}

static void read_line(struct conversation *conv, const char *line, struct folder **f)
{
	int64_t size, mtime;
	int at = 0;
	char why;

	if (!strncmp(line, "folder /", 8))
		*f = folder_add(conv, xstrndup(line + 7, strlen(line + 7)));
	else if (*f && sscanf(line, "%c %" SCNd64 " %" SCNd64 " %n", &why, &size, &mtime, &at) == 3 && at &&
	         line[at] == '/' && strchr("bsdk", why))
		left_put(*f, line + at, size, mtime, why);
}

void folders_read(struct conversation *conv, const char *text, size_t n)
{
	struct folder *f = NULL;
	struct str line = { 0 };

	for (const char *p = text, *end = text + n, *nl; p < end && (nl = memchr(p, '\n', (size_t)(end - p)));
	     p = nl + 1) {
		str_clear(&line);
		str_add(&line, p, (size_t)(nl - p));
		read_line(conv, str_text(&line), &f);
	}
	str_free(&line);
	for (size_t i = 0; i < conv->n_folder; i++)
		left_sort(&conv->folder[i]);
	conv->folders_changed = 0;
}
