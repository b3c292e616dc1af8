/* app/talk_docs.c - the documents of a conversation (talk.h).
 *
 * Documents stand, quoted and with their names, before the first question, so all of them lie at the start of the
 * sequence, behind the system prompt: the prefix, which a cache may pin.  They are read once.  One that comes in the middle of
 * a talk joins the prefix, and what was said is read again behind it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/app.h"
#include "app/record.h"
#include "app/talk.h"
#include "sessions/sessions.h"
#include "ui/ui.h"

enum { ROOM_MIN = 32 };   /* tokens of a question and its answer that must fit beside the documents */

void document_free(struct document *d)
{
	free(d->name);
	str_free(&d->text);
}

int talk_drop_document(struct talk *t, struct str *name)
{
	struct document *d = t->n_doc ? &t->doc[t->n_doc - 1] : NULL;

	if (!d || d->at < t->n_msg)
		return 0;
	talk_drop(t, t->n_doc - 1, name);
	return 1;
}

void talk_drop(struct talk *t, size_t i, struct str *name)
{
	if (name)
		str_adds(name, t->doc[i].name);
	record_dropped(t->record, t->doc[i].stored);
	t->doc[i].stored = 0;
	talk_keep_document(t, i);
	memmove(t->doc + i, t->doc + i + 1, (t->n_doc - i - 1) * sizeof *t->doc);
	t->n_doc--;
	t->prefix_known = 0;
}

void talk_drop_documents(struct talk *t)
{
	while (t->n_doc)
		document_free(&t->doc[--t->n_doc]);
	free(t->doc);
	t->doc = NULL;
	t->prefix_known = 0;
}

size_t talk_document_tokens(const struct talk *t)
{
	size_t n = 0;

	for (size_t i = 0; i < t->n_doc; i++)
		n += t->doc[i].tokens;
	return n;
}

/* Text that a reader of the file does not see may still steer the model: say that it is there. */
static void document_notices(const struct doc *doc)
{
	struct clean clean;
	struct str text = {0};

	for (const char *p = doc->notices.n ? doc->notices.p : ""; *p; ) {
		size_t n = strcspn(p, "\n");
		say("document '%s': %.*s", doc->name, (int)n, p);
		p += n + (p[n] == '\n');
	}
	clean_init(&clean, 0);
	clean_text(&clean, doc->text.p ? doc->text.p : "", doc->text.n, &text);
	clean_end(&clean, &text);
	str_clear(&text);
	if (clean.found.hidden + clean.found.bidi > 0) {
		struct clean_found found = {.hidden = clean.found.hidden, .bidi = clean.found.bidi};
		if (clean_describe(&found, &text))
			say("document '%s': %s in it", doc->name, text.p);
	}
	str_free(&text);
}

static int does_not_pin(const struct document *d, const struct err *why, struct err *e)
{
	return err_set(e, why->code, "document '%.120s' has %zu tokens: %.240s", d->name, d->tokens, why->msg);
}

/* With its last document the talk must still fit, and a question behind it. */
static int document_fits(struct talk *t, struct err *e)
{
	const struct document *d = &t->doc[t->n_doc - 1];
	struct timeline_stats st;
	struct tokens all = {0};
	struct err why = {0};
	char beyond[64] = "";
	size_t n, rest, wants;
	int32_t trained;
	int rc;

	timeline_stats(t->tl, &st);
	/* Far too long: say so without rendering it all.  What a bounded cache pins must be counted exactly, for the -c that
	 * the refusal names. */
	if (st.endless || d->tokens < (size_t)st.ctx) {
		rc = talk_render(t, 0, &all, e);
		if (!rc && st.endless)
			rc = talk_pin(t, &all, &why) < 0 ? does_not_pin(d, &why, e) : 0;
		n = all.n;
		tokens_free(&all);
		if (rc < 0 || st.endless || n + ROOM_MIN <= (size_t)st.ctx)
			return rc;
	} else {
		n = d->tokens + (size_t)st.n_tokens;
	}
	rest = n - d->tokens + ROOM_MIN;
	wants = (n + 512 + 255) / 256 * 256;
	trained = engine_info(t->engine)->ctx_train;
	if (wants > (size_t)trained)
		snprintf(beyond, sizeof beyond, ", beyond the %d the model was trained with", trained);
	return err_set(e, ERR_FIT, "document '%.120s' has %zu tokens and does not fit the context of %d; there is room for %zu; "
	               "-c %zu would hold it%s", d->name, d->tokens, st.ctx, rest < (size_t)st.ctx ? (size_t)st.ctx - rest : 0,
	               wants, beyond);
}

/* A session that is gone on with has what was named again on the command line. */
static int document_known(const struct talk *t, const struct doc *doc)
{
	struct str name = {0};
	int known = 0;

	clean_line(doc->name, strlen(doc->name), &name);
	for (size_t i = 0; i < t->n_doc && !known; i++) {
		const struct document *d = &t->doc[i];

		known = !strcmp(d->name, name.p ? name.p : "") && d->n_body == doc->text.n &&
		        (!doc->text.n || !memcmp(d->text.p + d->body, doc->text.p, doc->text.n));
	}
	str_free(&name);
	return known;
}

static int document_add(struct talk *t, struct doc *doc, int again, struct err *e)
{
	struct document *d;
	struct str name = {0};
	struct tokens id = {0};
	int rc;

	if (!again && document_known(t, doc)) {
		if (!t->o->quiet)
			say("document '%s' is there already", doc->name);
		doc_free(doc);
		return 0;
	}
	t->doc = xrealloc(t->doc, (t->n_doc + 1) * sizeof *t->doc);
	d = &t->doc[t->n_doc++];
	*d = (struct document){.at = t->n_msg, .bytes = doc->bytes, .n_body = doc->text.n};
	clean_line(doc->name, strlen(doc->name), &name);
	d->name = xstrndup(name.p ? name.p : "", name.n);
	str_addf(&d->text, "Document %s:\n", d->name);
	d->body = d->text.n;
	str_add(&d->text, doc->text.p ? doc->text.p : "", doc->text.n);
	if (doc->text.n && doc->text.p[doc->text.n - 1] != '\n')
		str_adds(&d->text, "\n");
	str_adds(&d->text, "\n");
	rc = engine_tokenize(t->engine, d->text.p, d->text.n, 0, &id, e);
	d->tokens = id.n;
	if (!rc)
		rc = document_fits(t, e);
	if (!rc && !t->o->quiet && !again)
		document_notices(doc);
	t->prefix_known = 0;
	if (rc < 0)
		document_free(&t->doc[--t->n_doc]);
	else if (!again)
		record_document(t->record, t);
	tokens_free(&id);
	str_free(&name);
	doc_free(doc);
	return rc;
}

int talk_document(struct talk *t, const char *path_or_dash, struct err *e)
{
	struct doc doc = {0};

	if (doc_read(path_or_dash, &doc, e) < 0)
		return -1;
	return document_add(t, &doc, 0, e);
}

int talk_document_again(struct talk *t, const char *name, const char *text, size_t n, uint64_t bytes, struct err *e)
{
	struct doc doc = {.name = xstrndup(name, strlen(name)), .encoding = "UTF-8", .bytes = bytes};

	str_add(&doc.text, text, n);
	return document_add(t, &doc, 1, e);
}

int talk_document_bytes(struct talk *t, const char *name, const char *bytes, size_t n, struct err *e)
{
	struct doc doc = {0};

	if (doc_decode(name, bytes, n, &doc, e) < 0)
		return -1;
	return document_add(t, &doc, 0, e);
}

int talk_put_document(struct talk *t, const struct document *d, size_t i, struct err *e)
{
	struct document *last;

	/* Whether it fits is asked of the last one; it moves to its place then. */
	t->doc = xrealloc(t->doc, (t->n_doc + 1) * sizeof *t->doc);
	last = &t->doc[t->n_doc++];
	*last = *d;
	if (last->at > t->n_msg)
		last->at = t->n_msg;
	t->prefix_known = 0;
	if (document_fits(t, e) < 0) {
		t->n_doc--;
		t->prefix_known = 0;
		return -1;
	}
	if (i + 1 < t->n_doc) {
		struct document back = *last;

		memmove(t->doc + i + 1, t->doc + i, (t->n_doc - 1 - i) * sizeof *t->doc);
		t->doc[i] = back;
	} else {
		i = t->n_doc - 1;
	}
	t->prefix_known = 0;
	record_documents_from(t->record, t, i);
	return 0;
}
