/* app/conversation/document.c - one document: makes its text for the model, and finds pages and headings
 * (conversation.h). */
#include <stdlib.h>
#include <string.h>

#include "app/conversation/conversation_private.h"
#include "ui/text/text.h"
#include "engine/base/json.h"

/* Return a copy of the document's name without control characters. The caller frees it. */
static char *clean_name(const struct doc *in)
{
	const char *name = in->name ? in->name : "";
	struct str clean = { 0 };

	clean_line(name, strlen(name), &clean);
	if (!clean.p)
		str_adds(&clean, "");
	return clean.p;
}

struct document document_make(const struct doc *in, size_t at)
{
	struct document d = {
		.name = clean_name(in), .at = at, .bytes = in->bytes, .n_body = in->text.n, .type = (int)in->type
	};

	d.n_mark = marks_copy(in->mark, in->n_mark, &d.mark);
	d.origin = xcalloc(1, sizeof *d.origin);
	origin_copy(d.origin, &in->origin);
	str_addf(&d.text, "Document %s:\n", d.name);
	d.body = d.text.n;
	str_add(&d.text, str_text(&in->text), in->text.n);
	if (in->text.n && in->text.p[in->text.n - 1] != '\n')
		str_adds(&d.text, "\n");
	str_adds(&d.text, "\n");
	return d;
}

void document_free(struct document *d)
{
	free(d->name);
	str_free(&d->text);
	marks_free(d->mark, d->n_mark);
	if (d->origin)
		origin_free(d->origin);
	free(d->origin);
	document_forget_before(d);
}

void document_forget_before(struct document *d)
{
	if (d->before)
		document_free(d->before);
	free(d->before);
	d->before = NULL;
}

void document_place(const struct document *d, size_t from, size_t to, struct document_place *out)
{
	const char *body = d->text.p + d->body;
	const struct mark *page, *heading;

	while (from < to && from < d->n_body && (unsigned char)body[from] <= ' ')
		from++;
	page = marks_at(d->mark, d->n_mark, MARK_PAGE, from);
	heading = marks_at(d->mark, d->n_mark, MARK_HEADING, from);
	for (size_t i = 0; !heading && i < d->n_mark && d->mark[i].at < to; i++)
		if (d->mark[i].kind == MARK_HEADING)
			heading = &d->mark[i];
	*out = (struct document_place){ .page = page && *page->text ? page->text : NULL,
		                        .heading = heading && *heading->text ? heading->text : NULL,
		                        .recognised = page && page->level == PAGE_RECOGNISED };
}

void document_place_json(const struct document_place *place, struct str *out)
{
	json_page(out, "page", place->page);
	if (place->recognised)
		json_bool(out, "recognised", 1);
	if (place->heading)
		json_string(out, "heading", place->heading);
	else
		json_null(out, "heading");
}
