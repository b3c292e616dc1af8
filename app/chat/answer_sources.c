/* app/chat/answer_sources.c - the numbered sources of an answer: shown before and below it, opened by /source.
 *
 *     before   the passages that answer the question, with their best sentence (t->sources)
 *     below    the passages that the answer attended to, with their share of its attention (t->evidence)
 *
 * Both are one list.  A passage that stands above the answer keeps its number, and below the answer only its share is told; others get the
 * next numbers. */
#include "app/chat/chat_private.h"

#include <string.h>

enum { BEFORE_MOST = 3, BELOW_MOST = 3, PLACE_MOST = BEFORE_MOST + BELOW_MOST };
static const double BELOW_LEAST = 0.05;   /* of the attention: a smaller share says nothing */

/* The list is computed anew where it is needed: what it is made of is forgotten when the documents or the last question change. */
struct place { struct answer_source s; size_t quote, quote_end; };   /* quote_end = 0: it stands below the answer alone */

/* Do two passages have half of the shorter one in common? */
static int same_passage(const struct answer_source *a, const struct evidence *b)
{
	size_t from = a->from > b->from ? a->from : b->from, to = a->to < b->to ? a->to : b->to;
	size_t n = a->to - a->from < b->to - b->from ? a->to - a->from : b->to - b->from;

	return a->doc == b->doc && to > from && 2 * (to - from) >= n;
}

static size_t places(const struct conversation *t, struct place out[PLACE_MOST])
{
	size_t n = 0;

	for (; t->sources.found && n < t->sources.n && n < BEFORE_MOST; n++) {
		const struct source *s = &t->sources.at[n];

		out[n] = (struct place){{.doc = s->doc, .from = s->from, .to = s->to, .share = t->n_evidence ? 0 : -1}, s->quote, s->quote_end};
	}
	for (size_t i = 0; i < t->n_evidence && i < BELOW_MOST && t->evidence[i].share >= BELOW_LEAST; i++) {
		const struct evidence *v = &t->evidence[i];
		size_t k;

		for (k = 0; k < n && !same_passage(&out[k].s, v); k++)
			;
		if (k < n)
			out[k].s.share += v->share;
		else
			out[n++] = (struct place){.s = {.doc = v->doc, .from = v->from, .to = v->to, .share = v->share}};
	}
	return n;
}

static int are_shown(const struct chat *c)
{
	return !c->o.quiet && (!c->o.sources || strcmp(c->o.sources, "off") != 0);
}

int chat_attends(const struct chat *c)
{
	return c->o.json || are_shown(c);
}

/* 'report.pdf, page 12, "Methods"', and for a text without pages its lines: ', lines 148-152'. */
static void add_place(const struct conversation *t, size_t i, size_t from, size_t to, struct str *out)
{
	const struct document *d = &t->doc[i];
	const char *p = d->text.p + d->body, *end = p + from;
	struct document_place at;
	size_t first = d->lines + 1, last;

	source_place(t, i, from, to, out);
	document_place(d, from, to, &at);
	if (at.page || d->type > DOC_SOURCE)
		return;
	for (; (p = memchr(p, '\n', (size_t)(end - p))); p++)
		first++;
	last = first;
	for (p = end, end += to - from; (p = memchr(p, '\n', (size_t)(end - p))); p++)
		last++;
	str_addf(out, last > first ? ", lines %zu-%zu" : ", line %zu", first, last);
}

static void post(struct chat *c, const struct place *at, size_t n)
{
	struct answer_source s[PLACE_MOST];

	for (size_t i = 0; i < n; i++)
		s[i] = at[i].s;
	if (c->front->sources)
		c->front->sources(c, s, n);
}

void sources_before(struct conversation *t, void *ud)
{
	struct chat *c = ud;
	struct place at[PLACE_MOST];
	struct str s = {0};
	size_t n;

	t->n_evidence = 0;   /* of an answer before this one */
	n = places(t, at);
	if (!are_shown(c) || !n)
		return;
	for (size_t i = 0; i < n; i++) {
		str_addf(&s, "%s[%zu] ", i ? "\n" : "", i + 1);
		add_place(t, at[i].s.doc, at[i].quote, at[i].quote_end, &s);
		str_adds(&s, ": \"");
		source_quote(t, &t->sources.at[i], &s);
		str_adds(&s, "\"");
	}
	notice(c, "%s", s.p);
	post(c, at, n);
	str_free(&s);
}

void sources_below(struct chat *c)
{
	const struct conversation *t = &c->t;
	struct place at[PLACE_MOST];
	struct str s = {0}, known = {0};
	size_t n = places(t, at);

	if (are_shown(c) && n && t->unattended && !c->o.json)
		notice(c, "attention: hardly on the documents; the answer may be the model's own");
	if (!are_shown(c) || !t->n_evidence)
		return;
	for (size_t i = 0; i < n; i++) {
		if (at[i].quote_end) {
			if (at[i].s.share > 0)
				str_addf(&known, "%s [%zu] %.0f %%", known.n ? "," : "attention:", i + 1, 100 * at[i].s.share);
			continue;
		}
		str_addf(&s, "%s[%zu] ", s.n ? "\n" : "", i + 1);
		add_place(t, at[i].s.doc, at[i].s.from, at[i].s.to, &s);
		str_addf(&s, ": %.0f %% of the attention", 100 * at[i].s.share);
	}
	if (known.n)
		str_addf(&known, "%s%s", s.n ? "\n" : "", s.n ? s.p : "");
	if (!c->o.json && (known.n || s.n))
		notice(c, "%s", known.n ? known.p : s.p);
	post(c, at, n);
	str_free(&s);
	str_free(&known);
}

/* ---- /source ---- */

void slash_source(struct chat *c, char *arg)
{
	const struct conversation *t = &c->t;
	struct place at[PLACE_MOST];
	size_t n = places(t, at);
	long i = *arg ? number_of(arg) : 1;
	struct str s = {0};
	struct err e = {0};

	if (!n)
		err_set(&e, ERR_USAGE, t->n_doc ? "the last answer has no sources in the documents" : "there is no document; /open FILE adds one");
	else if (i < 1 || (size_t)i > n)
		err_set(&e, ERR_USAGE, n > 1 ? "/source wants a number from 1 to %zu" : "the last answer has one source: /source %zu", n);
	if (e.code) {
		chat_error(c, &e);
		return;
	}
	if (c->front->document) {
		c->front->document(c, at[i - 1].s.doc, at[i - 1].s.from, at[i - 1].s.to);
		return;
	}
	str_addf(&s, "[%ld] ", i);
	add_place(t, at[i - 1].s.doc, at[i - 1].s.from, at[i - 1].s.to, &s);
	if (at[i - 1].s.share > 0)
		str_addf(&s, ": %.0f %% of the attention", 100 * at[i - 1].s.share);
	str_adds(&s, "\n");
	str_add(&s, t->doc[at[i - 1].s.doc].text.p + t->doc[at[i - 1].s.doc].body + at[i - 1].s.from, at[i - 1].s.to - at[i - 1].s.from);
	notice(c, "%s", s.p);
	str_free(&s);
}
