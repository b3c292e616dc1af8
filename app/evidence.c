/* app/evidence.c - the passages of the documents that an answer looked at most (talk.h).
 *
 * The engine says how much each token of the sequence was looked at while the answer came.  Documents stand in the prompt as they are
 * (talk_docs.c): they are found again in the bytes of its tokens, which gives the tokens' places in them. */
#include <stdlib.h>
#include <string.h>

#include "app/app.h"
#include "app/passages.h"
#include "app/talk.h"
#include "ui/ui.h"

/* The first tokens of a sequence are looked at whatever they are.  A passage with less than SHARE_LEAST of the looks is no evidence. */
enum { SINKS = 4, BEST = 5, TEXT_MOST = 200, SLIP = 32 };
static const double SHARE_LEAST = 0.01;

struct looked_at { const struct document *d; struct passage p; double weight; };

/* The prompt as bytes, and the one behind each token. */
struct prompt_bytes { struct str text; size_t *end; size_t n; float *weight; };

static void prompt_bytes(const struct talk *t, struct prompt_bytes *b)
{
	size_t n;
	const int32_t *id = timeline_tokens(t->tl, &n);

	/* Documents are part of what is the same whatever is asked, but for an end that a question may grow together with. */
	b->n = n < t->prefix.n + 2 ? n : t->prefix.n + 2;
	b->end = xcalloc(b->n + 1, sizeof *b->end);
	b->weight = xcalloc(b->n + 1, sizeof *b->weight);
	for (size_t i = 0; i < b->n; i++) {
		char small[64], *piece = small;
		size_t len = engine_piece(t->engine, id[i], 0, small, sizeof small);

		if (len > sizeof small) {
			piece = xmalloc(len);
			engine_piece(t->engine, id[i], 0, piece, len);
		}
		str_add(&b->text, piece, len);
		b->end[i] = b->text.n;
		if (piece != small)
			free(piece);
	}
	timeline_evidence(t->tl, 0, (int32_t)b->n, b->weight);
	for (size_t i = 0; i < SINKS && i < b->n; i++)
		b->weight[i] = 0;
}

/* Where a document begins in the prompt, at or behind that byte; SIZE_MAX: nowhere. */
static size_t document_at(const struct prompt_bytes *b, const struct document *d, size_t from)
{
	const char *text = b->text.n ? b->text.p : "", *at;
	size_t n = d->body + d->n_body;

	while (n && d->text.p[n - 1] == '\n')
		n--;
	at = memmem(text + from, b->text.n - from, d->text.p, n);
	/* A vocabulary may lack some of its characters. */
	if (!at)
		at = memmem(text + from, b->text.n - from, d->text.p, d->body);
	return at ? (size_t)(at - text) : SIZE_MAX;
}

/* The byte of the document behind each token from `token` on, which has byte `at` of the prompt, where the document begins.  Tokens that
 * say something else than the document stand at the same place as the one before.  Returns how many there are. */
static size_t tokens_in(const struct prompt_bytes *b, const struct document *d, size_t token, size_t at, size_t *end)
{
	const char *text = d->text.p;
	size_t n = d->body + d->n_body, done = 0, k = 0;

	for (; token < b->n && done < n; token++) {
		size_t len = b->end[token] - at, left = n - done;
		const char *piece = b->text.p + at, *found = NULL;

		at = b->end[token];
		if (len && !memcmp(text + done, piece, len < left ? len : left))
			found = text + done;
		else if (len)
			found = memmem(text + done, left < len + SLIP ? left : len + SLIP, piece, len);
		if (found)
			done = (size_t)(found - text) + len;
		end[k++] = done < n ? done : n;
	}
	return k;
}

static int by_weight(const void *a, const void *b)
{
	const struct looked_at *x = a, *y = b;

	if (x->weight != y->weight)
		return x->weight < y->weight ? 1 : -1;
	return x->d != y->d ? (x->d < y->d ? -1 : 1) : x->p.from < y->p.from ? -1 : 1;
}

/* One document's passages, added to best[], which holds the heaviest ones; returns the weight of them all. */
static double add_document(const struct document *d, const size_t *end, const float *weight, size_t n_token, struct looked_at *best)
{
	size_t *body = xcalloc(n_token + 1, sizeof *body), token = 0, n;
	struct passage *p;
	double all = 0;

	for (size_t i = 0; i < n_token; i++)
		body[i] = end[i] > d->body ? end[i] - d->body : 0;
	n = passages_cut(d->text.p + d->body, d->n_body, body, n_token, headings_expected(d->name), &p);
	for (size_t i = 0; i < n; i++) {
		struct looked_at *last = &best[BEST];

		*last = (struct looked_at){ .d = d, .p = p[i] };
		/* A token belongs where it ends: its blank stands in front. */
		for (; token < n_token && body[token] <= p[i].to; token++)
			if (body[token] > p[i].from)
				last->weight += (double)weight[token];
		all += last->weight;
		qsort(best, BEST + 1, sizeof *best, by_weight);
	}
	free(p);
	free(body);
	return all;
}

static void passage_json(const struct looked_at *l, double share, struct str *out)
{
	const char *text = l->d->text.p + l->d->body;
	size_t n = l->p.to - l->p.from;

	if (n > TEXT_MOST)
		for (n = TEXT_MOST; n && ((unsigned char)text[l->p.from + n] & 0xc0) == 0x80; n--)
			;
	str_adds(out, "{\"doc\":");
	str_add_json(out, l->d->name, strlen(l->d->name));
	str_adds(out, ",\"page\":");
	if (l->p.page)
		str_addf(out, "%d", l->p.page);
	else
		str_adds(out, "null");
	str_adds(out, ",\"heading\":");
	if (l->p.n_heading)
		str_add_json(out, text + l->p.heading, l->p.n_heading);
	else
		str_adds(out, "null");
	str_addf(out, ",\"bytes\":[%zu,%zu],\"share\":", l->p.from, l->p.to);
	json_number(out, share, "%.4f");
	str_adds(out, ",\"text\":");
	str_add_json(out, text + l->p.from, n);
	str_adds(out, "}");
}

void evidence_begin(struct talk *t)
{
	struct err e = {0};

	str_clear(&t->evidence);
	if (t->o->json && t->n_doc && timeline_evidence_begin(t->tl, &e) < 0)
		say("no evidence: %s", e.msg);
}

void evidence_end(struct talk *t)
{
	struct looked_at best[BEST + 1] = {{ .d = NULL }};
	struct prompt_bytes b = {0};
	size_t *end, token = 0, at = 0;
	double all = 0;

	if (!t->o->json || !t->n_doc)
		return;
	prompt_bytes(t, &b);
	timeline_evidence_end(t->tl);
	end = xcalloc(b.n + 1, sizeof *end);
	for (size_t i = 0; i < t->n_doc; i++) {
		size_t found = document_at(&b, &t->doc[i], at), n;

		if (found == SIZE_MAX)
			continue;
		at = found;
		while (token < b.n && b.end[token] <= at)
			token++;
		n = tokens_in(&b, &t->doc[i], token, at, end);
		all += add_document(&t->doc[i], end, b.weight + token, n, best);
		at += t->doc[i].body;
	}
	str_adds(&t->evidence, "[");
	for (size_t i = 0; i < BEST && best[i].weight > 0 && best[i].weight >= SHARE_LEAST * all; i++) {
		str_adds(&t->evidence, i ? "," : "");
		passage_json(&best[i], best[i].weight / all, &t->evidence);
	}
	str_adds(&t->evidence, "]");
	free(end);
	free(b.end);
	free(b.weight);
	str_free(&b.text);
}
