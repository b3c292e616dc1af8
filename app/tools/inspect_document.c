/* app/tools/inspect_document.c - weir inspect document: prints the text that a file is converted to for the model. */
#include <string.h>
#include <unistd.h>

#include "app/conversation/conversation.h"
#include "app/tools/tools.h"
#include "ui/text/text.h"
#include "engine/base/json.h"
#include "app/models/models.h"

/* Return the number of tokens of the text in the model that the options name; -1 if there is no model. */
static int64_t count_tokens(const struct options *o, const struct doc *d)
{
	struct engine *engine;
	struct tokens t = { 0 };
	int64_t n = -1;

	if (model_open(&engine, o, MODEL_VOCAB, NULL) < 0)
		return -1;
	if (!engine_tokenize(engine, d->text.p, d->text.n, 0, &t, NULL))
		n = (int64_t)t.n;
	tokens_free(&t);
	engine_close(engine);
	return n;
}

static void add_marks(const struct doc *d, struct str *s)
{
	json_open(s, "marks", '[');
	for (size_t i = 0; i < d->n_mark; i++) {
		const struct mark *m = &d->mark[i];
		if (m->kind == MARK_PARAGRAPH)
			continue;
		json_open(s, NULL, '{');
		json_string(s, "kind", m->kind == MARK_PAGE ? "page" : "heading");
		json_uint(s, "at", m->at);
		json_string(s, "text", m->text);
		if (m->kind == MARK_HEADING)
			json_int(s, "level", m->level);
		else if (m->level == PAGE_RECOGNISED)
			json_bool(s, "recognised", 1);
		json_close(s, '}');
	}
	json_close(s, ']');
}

static void add_notes(const struct doc *d, struct str *s)
{
	const char *p = str_text(&d->notices);

	json_open(s, "notes", '[');
	for (size_t n; *p; p += n + (p[n] == '\n')) {
		n = strcspn(p, "\n");
		json_text(s, NULL, p, n);
	}
	json_close(s, ']');
}

static void add_left_out(const struct doc *d, struct str *s)
{
	json_open(s, "left_out", '[');
	for (const char *p = str_text(&d->left_out), *tab, *end; (tab = strchr(p, '\t')) && (end = strchr(tab, '\n'));
	     p = end + 1) {
		json_open(s, NULL, '{');
		json_text(s, "page", p, (size_t)(tab - p));
		json_text(s, "text", tab + 1, (size_t)(end - tab) - 1);
		json_close(s, '}');
	}
	json_close(s, ']');
}

static void document_json(const struct options *o, const struct doc *d, struct str *s)
{
	int64_t tokens = count_tokens(o, d);

	json_open(s, NULL, '{');
	json_string(s, "name", d->name);
	json_string(s, "type", doc_type_name[d->type]);
	json_string(s, "encoding", d->encoding);
	json_int(s, "pages", d->pages);
	json_uint(s, "bytes", d->bytes);
	if (tokens < 0)
		json_null(s, "tokens");
	else
		json_int(s, "tokens", tokens);
	json_text(s, "text", d->text.p, d->text.n);
	add_marks(d, s);
	add_notes(d, s);
	add_left_out(d, s);
	json_close(s, '}');
	str_adds(s, "\n");
}

/* Append the text. For a file or pipe it is unchanged; for a terminal, control characters are removed. */
static void document_text(const struct doc *d, struct str *s)
{
	struct clean clean;

	if (isatty(STDOUT_FILENO)) {
		clean_init(&clean, 0);
		clean_text(&clean, d->text.p, d->text.n, s);
		clean_end(&clean, s);
	} else {
		str_add(s, d->text.p, d->text.n);
	}
	if (s->n && s->p[s->n - 1] != '\n')
		str_adds(s, "\n");
}

/* Write the outline of a document to standard error, because standard output has only its text: "a.pdf: PDF, 14 pages,
 * 86 KiB of text", then each page and heading with its byte offset. */
static void say_outline(const struct doc *d)
{
	struct str s = { 0 };
	int said = 0;

	str_addf(&s, "%s: %s, ", d->name, doc_type_name[d->type]);
	if (d->pages)
		str_addf(&s, "%d page%s, ", d->pages, d->pages == 1 ? "" : "s");
	human_bytes(&s, d->text.n);
	str_adds(&s, " of text");
	say("%s", s.p);
	for (size_t i = 0; i < d->n_mark; i++) {
		const struct mark *m = &d->mark[i];

		if (m->kind == MARK_PARAGRAPH)
			continue;
		if (!said++)
			say("%10s", "byte");
		str_clear(&s);
		if (m->kind == MARK_PAGE)
			str_addf(&s, "page %s%s", m->text, m->level == PAGE_RECOGNISED ? " (recognised)" : "");
		else
			str_addf(&s, "%*s%s", 2 * m->level, "", m->text);
		say("%10zu  %s", m->at, s.p);
	}
	str_free(&s);
}

static void on_page(int32_t page, int32_t pages, double left, void *ud)
{
	struct str s = { 0 };

	recognition_text(page, pages, left, &s);
	progress_now(ud, s.p);
	str_free(&s);
}

static int read_file(const struct options *o, struct doc *d, struct err *e)
{
	struct progress progress;
	int rc;

	progress_init(&progress, o->quiet, o->verbose, "", "");
	recognition_begin(o, on_page, &progress);
	rc = doc_read(o->file[0], d, e);
	progress_clear(&progress);
	return rc;
}

int cmd_inspect_document(const struct options *o)
{
	struct doc d;
	struct str s = { 0 };
	struct err e = { 0 };
	int rc;

	if (o->n_file != 1) {
		err_set(&e, ERR_USAGE, "'weir inspect document' wants one FILE, an address, or '-'");
		return fail(&e);
	}
	if (read_file(o, &d, &e) < 0)
		return fail(&e);
	if (o->json)
		document_json(o, &d, &s);
	else
		document_text(&d, &s);
	rc = (o->json ? print_json(&s, &e) : print_all(str_text(&s), s.n, &e)) < 0 ? fail(&e) : 0;
	if (!rc && !o->json && !o->quiet) {
		say_outline(&d);
		say_lines(&d.notices);
	}
	str_free(&s);
	doc_free(&d);
	return rc;
}
