/* app/chat/read_files.c - reads many files as documents, with progress (chat_private.h). Files that cannot be read are
 * skipped. */
#include "app/chat/chat_private.h"

#include <string.h>
#include <unistd.h>

enum {
	FAILURES_SAID = 3, /* maximum number of unreadable files that a notice names */
	NOTICES_SAID = 10, /* maximum number of documents whose notices are shown */
};
#define STORE_EVERY 2.0 /* the documents that were read are stored each time this number of seconds has passed */

/* Show the notices of the import. Also warn of invisible characters, because hidden text may steer the model. */
int document_notices(const struct doc *doc)
{
	struct clean clean;
	struct str text = { 0 };
	int any = doc->notices.n > 0;

	for (const char *p = str_text(&doc->notices); *p;) {
		size_t n = strcspn(p, "\n");
		say("document '%s': %.*s", doc->name, (int)n, p);
		p += n + (p[n] == '\n');
	}
	clean_init(&clean, 0);
	clean_text(&clean, str_text(&doc->text), doc->text.n, &text);
	clean_end(&clean, &text);
	str_clear(&text);
	if (clean.found.hidden + clean.found.bidi > 0) {
		struct clean_found found = { .hidden = clean.found.hidden, .bidi = clean.found.bidi };
		if (clean_describe(&found, &text))
			say("document '%s': %s in it", doc->name, text.p);
		any = 1;
	}
	str_free(&text);
	return any;
}

static void file_failed(struct files_read *out, const struct err *why)
{
	if (out->n_failed++ < FAILURES_SAID)
		str_addf(&out->failed, "%s%s", out->failed.n ? "; " : "", why->msg);
}

/* Add a document that was read from a file. If the file already has a document, replace that document. Returns the
 * value for file_todo.became. */
static char doc_take(struct chat *c, struct file_todo *t, const struct doc *doc, struct err *e)
{
	size_t i = t->doc;
	struct document *d;
	int rc;

	if (i == SIZE_MAX && doc->origin.path)
		i = conversation_document_of(&c->conv, doc->origin.path);
	if (i == SIZE_MAX) {
		rc = conversation_add_document(&c->conv, doc, e);
		return rc < 0 ? 'b' : rc ? 's' : 'n';
	}
	d = &c->conv.doc[i];
	if (d->n_body == doc->text.n && (!doc->text.n || !memcmp(d->text.p + d->body, doc->text.p, doc->text.n))) {
		/* the text is unchanged; only the file's time or formatting differs */
		origin_free(d->origin);
		origin_copy(d->origin, &doc->origin);
		d->told = 0;
		d->renewed = d->stored != 0;
		return 's';
	}
	return conversation_renew_document(&c->conv, i, doc, e) < 0 ? 'b' : 'c';
}

static void file_read(struct chat *c, struct file_todo *t, struct files_read *out, struct err *e)
{
	struct doc doc = { 0 };
	int read = doc_read(t->file->path, &doc, e) == 0;

	if (!read && e->code == ERR_CANCELLED)
		return;
	t->became = read ? doc_take(c, t, &doc, e) : 'b';
	switch (t->became) {
	case 'n': out->n_new++; break;
	case 'c': out->n_changed++; break;
	case 's': out->n_same++; break;
	default: file_failed(out, e);
	}
	if ((t->became == 'n' || t->became == 'c') && !c->o.quiet && c->n_noticed < NOTICES_SAID)
		c->n_noticed += document_notices(&doc);
	*e = (struct err){ 0 };
	doc_free(&doc);
}

int may_stay(const struct chat *c)
{
	return !signals_quit() && (c->interactive || (!c->o.prompt && isatty(0)));
}

static void show_files(struct chat *c, struct progress *p, size_t done, size_t total)
{
	if (c->front)
		chat_work_progress(c, p->verb, done, total);
	else
		progress_show(p, (int64_t)done, (int64_t)total);
}

int files_read(struct chat *c, const char *what, struct file_todo *todo, size_t n, struct files_read *out,
               struct err *e)
{
	double stored = now_seconds();
	struct progress progress;
	struct str verb = { 0 };

	*out = (struct files_read){ 0 };
	str_addf(&verb, "reading '%.40s'", what);
	progress_init(&progress, c->o.quiet, 0, verb.p, "files");
	c->n_noticed = 0;
	session_log_defer(c->log, &c->conv, 1);
	progress_init(&c->importing, c->o.quiet, 0, "", ""); /* progress line for the pages that are recognised */
	document_recognition(c);
	signals_work(1);
	for (size_t i = 0; i < n && !e->code; i++) {
		if (signals_stopped()) {
			err_set(e, ERR_CANCELLED, "stopped after %zu of %zu files", i, n);
			break;
		}
		show_files(c, &progress, i, n);
		file_read(c, &todo[i], out, e);
		if (now_seconds() - stored > STORE_EVERY) {
			session_log_defer(c->log, &c->conv, 0);
			session_log_defer(c->log, &c->conv, 1);
			stored = now_seconds();
		}
	}
	signals_work(0);
	if (may_stay(c))
		signals_take_int(); /* forget the Ctrl-C that stopped the reading: it is not meant for the prompt */
	session_log_defer(c->log, &c->conv, 0);
	if (c->front)
		c->front->progress(c, "reading", -1, 0);
	progress_clear(&progress);
	progress_clear(&c->importing);
	c->importing.on = 0;
	str_free(&c->recognising);
	if (out->n_failed > FAILURES_SAID)
		str_addf(&out->failed, "; and %zu more", out->n_failed - FAILURES_SAID);
	str_free(&verb);
	return e->code ? -1 : 0;
}

void files_say(const char *what, const struct files_read *r, const struct doc_paths *list)
{
	size_t n = r->n_new + r->n_changed + r->n_same;
	struct str s = { 0 };

	if (r->n_failed)
		str_addf(&s, "%zu of %zu files of '%.100s' are documents now, %zu could not be read", n,
		         n + r->n_failed, what, r->n_failed);
	else
		str_addf(&s, "%zu %s of '%.100s'", n, n == 1 ? "document" : "documents", what);
	if (r->n_same)
		str_addf(&s, ", %zu of them there already", r->n_same);
	if (list->n_other)
		str_addf(&s, "; left out for %s: '%.60s'%s", list->n_other == 1 ? "its name" : "their names",
		         list->other, list->n_other == 1 ? "" : " and others");
	if (r->n_failed)
		str_addf(&s, " (%s)", r->failed.p);
	say("%s", s.p);
	str_free(&s);
}
