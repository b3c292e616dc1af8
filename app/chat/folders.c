/* app/chat/folders.c - folders whose files are documents: finds which files are new, changed or gone (chat_private.h).
 *
 * The session remembers the folders. Before each question their files are listed, and compared with the documents by
 * path, size and time. This takes some hundredths of a second for 10,000 files, so watching the file system is not
 * necessary. Only files that differ are read. */
#include "app/chat/chat_private.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- comparing a folder with the documents ---- */

static const char *folder_name(const struct folder *f)
{
	const char *slash = strrchr(f->path, '/');

	return slash && slash[1] ? slash + 1 : f->path;
}

/* A document whose file is in the folder or its subfolders. */
struct tracked {
	const char *path;
	size_t doc;
};
struct look {
	struct chat *c;
	struct folder *f;
	int opened; /* 1 = the user opens the folder now */
	struct doc_paths list;
	struct tracked *tracked; /* [n_tracked] documents with files of the folder, sorted by path */
	size_t n_tracked;
	struct file_todo *todo; /* [n_todo] files to read */
	size_t n_todo, n_changed;
	char *gone; /* [conv.n_doc] 1 = the document must be dropped */
	size_t n_gone;
	struct files_read read;
};

static int by_tracked_path(const void *a, const void *b)
{
	return strcmp(((const struct tracked *)a)->path, ((const struct tracked *)b)->path);
}

static int by_file_path(const void *a, const void *b)
{
	return strcmp(((const struct doc_path *)a)->path, ((const struct doc_path *)b)->path);
}

static void look_track(struct look *l)
{
	const struct conversation *conv = &l->c->conv;

	l->tracked = xcalloc(conv->n_doc + 1, sizeof *l->tracked);
	for (size_t i = 0; i < conv->n_doc; i++) {
		const char *path = conv->doc[i].origin->path;

		if (path && folder_of(conv, path) == l->f)
			l->tracked[l->n_tracked++] = (struct tracked){ path, i };
	}
	if (l->n_tracked)
		qsort(l->tracked, l->n_tracked, sizeof *l->tracked, by_tracked_path);
	if (l->list.n)
		qsort(l->list.at, l->list.n, sizeof *l->list.at, by_file_path);
	l->todo = xcalloc(l->list.n + 1, sizeof *l->todo);
	l->gone = xcalloc(conv->n_doc + 1, 1);
}

static void look_todo(struct look *l, const struct doc_path *file, size_t doc)
{
	struct folder_file *left = left_find(l->f, file->path);

	if (left && left->why != 'k' && left->size == file->size && left->mtime == file->mtime)
		return;
	if (left && left->why != 'k')
		left->why = 0;
	l->n_changed += doc != SIZE_MAX;
	l->todo[l->n_todo++] = (struct file_todo){ .file = file, .doc = doc };
}

/* Compare a listed file with its document. If the file has changed, add the file to the list of files to read. */
static void look_known(struct look *l, const struct doc_path *file, size_t doc)
{
	struct document *d = &l->c->conv.doc[doc];

	if (d->origin->size == file->size && d->origin->mtime == file->mtime)
		return;
	if (doc_changed(d->origin) == DOC_CHANGED)
		look_todo(l, file, doc);
	else
		d->renewed = d->stored != 0; /* store the file's new time */
}

/* Handle a document whose file is not listed: the file was deleted, or git ignores it now. If the file still exists,
 * two kinds of documents are kept: one that the user has added by name, and all documents if the user is opening the
 * folder now. Otherwise it is marked as gone. */
static void look_missing(struct look *l, const struct tracked *t)
{
	const struct folder_file *left = left_find(l->f, t->path);
	int there = !access(t->path, F_OK);

	if (there && left && left->why == 'k')
		return;
	if (there && l->opened) {
		folder_note(&l->c->conv, &l->c->conv.doc[t->doc], 'k');
		return;
	}
	l->gone[t->doc] = 1;
	l->n_gone++;
}

static void look_compare(struct look *l)
{
	size_t i = 0, k = 0;

	l->n_todo = l->n_changed = l->n_gone = 0;
	memset(l->gone, 0, l->c->conv.n_doc);
	while (i < l->list.n || k < l->n_tracked) {
		int order = i == l->list.n      ? 1
		            : k == l->n_tracked ? -1
		                                : strcmp(l->list.at[i].path, l->tracked[k].path);

		if (order > 0)
			look_missing(l, &l->tracked[k++]);
		else if (!order)
			look_known(l, &l->list.at[i++], l->tracked[k++].doc);
		else if (folder_of(&l->c->conv, l->list.at[i].path) != l->f)
			i++; /* skip it: it belongs to a subfolder that was opened separately */
		else
			look_todo(l, &l->list.at[i++], SIZE_MAX);
	}
	left_sort(l->f);
}

/* Drop the documents whose files are gone, and read new and changed files. Returns 0 or -1. */
static int look_act(struct look *l, struct err *e)
{
	struct chat *c = l->c;
	size_t *now = xcalloc(c->conv.n_doc + 1, sizeof *now);
	int rc;

	for (size_t i = 0, n = 0; i < c->conv.n_doc; i++)
		now[i] = l->gone[i] ? SIZE_MAX : n++;
	for (size_t i = 0; i < l->n_todo; i++)
		if (l->todo[i].doc != SIZE_MAX)
			l->todo[i].doc = now[l->todo[i].doc];
	free(now);
	session_log_defer(c->log, &c->conv, 1);
	c->forgetting = 1;
	conversation_forget_documents(&c->conv, l->gone);
	c->forgetting = 0;
	rc = files_read(c, folder_name(l->f), l->todo, l->n_todo, &l->read, e);
	for (size_t i = 0; i < l->n_todo; i++)
		if (l->todo[i].became == 'b' || (l->todo[i].became == 's' && l->todo[i].doc == SIZE_MAX)) {
			const struct doc_path *file = l->todo[i].file;

			left_put(l->f, file->path, file->size, file->mtime, l->todo[i].became);
			c->conv.folders_changed = 1;
		}
	left_sort(l->f);
	session_log_defer(c->log, &c->conv, 0);
	return rc;
}

static int look_open(struct look *l, struct err *e)
{
	if (doc_list(l->f->path, &l->list, e) < 0)
		return -1;
	look_track(l);
	look_compare(l);
	/* A document will be dropped or replaced. If the name and text of a skipped file equal those of this document,
	 * the file must be compared again. */
	if (l->n_gone + l->n_changed && left_drop(l->f, 's'))
		look_compare(l);
	return 0;
}

static void look_close(struct look *l)
{
	doc_paths_free(&l->list);
	str_free(&l->read.failed);
	free(l->tracked);
	free(l->todo);
	free(l->gone);
}

/* Append what has changed: "folder 'notes': 2 changed, 1 new, 1 gone: read again". Appends nothing if the folder is
 * unchanged. */
static void look_describe(const struct look *l, struct str *out)
{
	const struct {
		size_t n;
		const char *what;
	} part[] = { { l->read.n_changed, "changed" },
		     { l->read.n_new, "new" },
		     { l->n_gone, "gone" },
		     { l->read.n_failed, "not readable" } };
	size_t n = 0;

	for (size_t i = 0; i < LEN(part); i++) {
		if (!part[i].n)
			continue;
		if (!n++)
			str_addf(out, "folder '%.60s': ", folder_name(l->f));
		str_addf(out, "%s%zu %s", n > 1 ? ", " : "", part[i].n, part[i].what);
	}
	if (l->read.n_changed + l->read.n_new)
		str_adds(out, ": read anew");
	if (l->read.n_failed)
		str_addf(out, " (%s)", l->read.failed.p);
}

/* ---- looking before a question ---- */

/* Tell the user, once, that a folder cannot be listed; its documents stay. */
static void tell_unlisted(struct chat *c, struct folder *f, const struct err *why)
{
	if (!f->told && !c->o.quiet)
		notice(c,
		       c->interactive ? "[%s; its documents stay as they were read]"
		                      : "weir: %s; its documents stay as they were read",
		       why->msg);
	f->told = 1;
}

static int folder_look(struct chat *c, size_t i, struct err *e)
{
	struct look l = { .c = c, .f = &c->conv.folder[i] };
	struct str s = { 0 };
	int rc = look_open(&l, e);

	if (rc < 0) {
		tell_unlisted(c, l.f, e);
		*e = (struct err){ 0 };
		return 0;
	}
	l.f->told = 0;
	rc = look_act(&l, e);
	look_describe(&l, &s);
	if (s.n && !c->o.quiet)
		notice(c, c->interactive ? "[%s]" : "weir: %s", s.p);
	str_free(&s);
	look_close(&l);
	return rc;
}

int folders_look(struct chat *c)
{
	struct err e = { 0 };
	int rc = 0;

	for (size_t i = 0; i < c->conv.n_folder && !rc; i++)
		rc = folder_look(c, i, &e);
	if (rc < 0)
		notice(c,
		       c->interactive ? "[%s: the question is withdrawn; the rest is read before the next one]"
		                      : "weir: %s",
		       e.msg);
	return rc;
}

/* ---- opening ---- */

static void say_opened(struct chat *c, const struct look *l, const char *what)
{
	struct str s = { 0 };

	if (c->o.quiet)
		return;
	look_describe(l, &s);
	if (!l->n_tracked)
		files_say(what, &l->read, &l->list);
	else if (s.n)
		say("%s", s.p);
	else
		say("folder '%.60s': its %zu documents are there already", folder_name(l->f), l->n_tracked);
	str_free(&s);
}

/* Check the result of reading a folder that is being opened. Returns 0 = the folder is open; 1 = the user stopped the
 * reading, and the documents read so far stay; -1 = error. */
static int check_opened(struct chat *c, const struct look *l, const char *what, int rc, struct err *e)
{
	if (rc < 0 && may_stay(c)) {
		say("%s; /open %.100s reads the rest", e->msg, what);
		*e = (struct err){ 0 };
		return 1;
	}
	if (!rc && !l->n_tracked && !l->read.n_new && !l->read.n_same)
		return err_set(e, ERR_DOCUMENT, "none of the %zu files of '%.100s' could be read: %s", l->n_todo, what,
		               str_text(&l->read.failed));
	return rc;
}

int folder_open(struct chat *c, const char *path, struct err *e)
{
	char *real = realpath(path, NULL);
	struct look l = { .c = c, .opened = 1 };
	int rc;

	if (!real)
		return err_set(e, ERR_DOCUMENT, "folder '%.100s' cannot be opened", path);
	l.f = folder_add(&c->conv, real);
	left_drop(l.f, 0);
	rc = look_open(&l, e);
	if (!rc && !l.list.n && !l.n_tracked)
		rc = err_set(e, ERR_DOCUMENT, "folder '%.100s' holds no documents", path);
	if (!rc) {
		rc = look_act(&l, e);
		rc = check_opened(c, &l, path, rc, e);
	}
	if (!rc)
		say_opened(c, &l, path);
	else
		folder_remove(&c->conv, l.f);
	look_close(&l);
	return rc < 0 ? -1 : 0;
}
