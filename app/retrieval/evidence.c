/* app/retrieval/evidence.c - finds the passages of the documents that an answer attended to most (retrieval.h).
 *
 * The engine sums the attention mass on each prompt token while the answer is generated. conv->rendered has the byte
 * position of each token, so the mass can be summed over the tokens of a passage. */
#include <stdlib.h>
#include <string.h>

#include "app/retrieval/retrieval_private.h"
#include "engine/base/sentences.h"
#include "engine/engine_view.h"

/* SINKS: number of tokens at the beginning of the prompt that are skipped. They get much attention, whatever text they
 * have (attention sinks).
 *
 * BEST: number of passages that are kept. TEXT_MOST: maximum number of bytes of a passage's text in JSON.
 *
 * SHARE_LEAST: minimum share of the documents' attention mass that makes a passage evidence.
 *
 * BESIDE_LEAST: minimum of (mass on the documents) / (mass on the documents and the question). Below it nothing is
 * evidence, because every answer attends to the documents a little. Measured: 0.3 or more for right answers about SQuAD
 * paragraphs; below 0.19 for "What is the capital of France?" asked beside a document. */
enum { SINKS = 4, BEST = EVIDENCE_MOST, TEXT_MOST = 200 };
static const double SHARE_LEAST = 0.01, BESIDE_LEAST = 0.2;

struct looked_at {
	const struct document *d;
	struct passage p;
	double weight;
};

/* Set end[k] to the byte of d->text at which the document's k-th token in the prompt ends. Returns the number of the
 * document's tokens. */
static size_t tokens_in(const struct conversation *conv, const struct document *d, size_t n_token, size_t *end)
{
	size_t n = d->body + d->n_body, done = 0, k = 0;

	for (size_t i = (size_t)d->prompt_at.first; i < n_token && done < n; i++) {
		done = conv->rendered.end[i] - d->prompt_at.byte;
		end[k++] = done = MIN(done, n);
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

/* Remove the white space at both ends of a passage. */
static void passage_trim(const char *text, struct passage *p)
{
	while (p->from < p->to && (unsigned char)text[p->from] <= ' ')
		p->from++;
	while (p->to > p->from && (unsigned char)text[p->to - 1] <= ' ')
		p->to--;
}

/* Split a document into the passages that the search indexes. Also split them at page boundaries, because evidence is
 * shown with one page number. Returns the number of passages; the caller frees *out. */
static size_t page_passages(const struct document *d, struct passage **out)
{
	struct passage *whole, *part;
	size_t n = passages_cut(d->text.p + d->body, d->n_body, &whole), made = 0, k = 0;

	part = xcalloc(n + d->n_mark + 1, sizeof *part);
	for (size_t i = 0; i < n; i++) {
		part[made++] = whole[i];
		for (; k < d->n_mark && d->mark[k].at < whole[i].to; k++)
			if (d->mark[k].kind == MARK_PAGE && d->mark[k].at > part[made - 1].from) {
				part[made - 1].to = d->mark[k].at;
				part[made++] = (struct passage){ d->mark[k].at, whole[i].to };
			}
	}
	free(whole);
	for (size_t i = 0; i < made; i++)
		passage_trim(d->text.p + d->body, &part[i]);
	*out = part;
	return made;
}

/* Sum the attention mass on each passage of document d, and keep the BEST passages with the most mass in best[].
 * best[BEST] is scratch space. tokens_in() has set end[n_token]. Returns the mass on all passages of d. */
static double add_document(const struct document *d, const size_t *end, const float *weight, size_t n_token,
                           struct looked_at *best)
{
	size_t *body = xcalloc(n_token + 1, sizeof *body), token = 0, n;
	struct passage *p;
	double all = 0;

	for (size_t i = 0; i < n_token; i++)
		body[i] = end[i] > d->body ? end[i] - d->body : 0;
	n = page_passages(d, &p);
	for (size_t i = 0; i < n; i++) {
		struct looked_at *last = &best[BEST];

		*last = (struct looked_at){ .d = d, .p = p[i] };
		/* A token belongs to the passage in which it ends, because a token may begin with the blank before its
		 * passage. */
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

/* Return the passage in best[] that overlaps the quotation. If none overlaps it, return best[BEST], set to a new
 * passage with mass 0. */
static struct looked_at *quoted_passage(const struct document *d, const struct quoted *q, struct looked_at *best)
{
	for (int i = 0; i < BEST; i++)
		if (best[i].d == d && best[i].p.from < q->to && q->from < best[i].p.to)
			return &best[i];
	best[BEST] = (struct looked_at){ .d = d, .p = { .from = q->from, .to = q->to } };
	return &best[BEST];
}

/* Message m may quote passages in its context. Add the attention mass on each quotation to the passage in best[] that
 * is quoted. Returns the sum of the mass over all quotations. A document that is not prefilled whole (document.whole =
 * 0) is in the prompt only in the form of quotations. */
static double add_quoted(const struct conversation *conv, const struct message *m, const float *weight, size_t n_token,
                         struct looked_at *best)
{
	struct quoted q[QUOTED_MOST];
	size_t n = m->context_at.first < 0 ? 0 : context_quotes(conv, &m->context, q);
	double all = 0;

	for (size_t i = 0; i < n; i++) {
		size_t from = m->context_at.byte + q[i].at, to = from + q[i].n;
		struct looked_at *p = quoted_passage(&conv->doc[q[i].doc], &q[i], best);

		for (size_t k = (size_t)m->context_at.first; k < n_token && conv->rendered.end[k] <= to; k++)
			if (conv->rendered.end[k] > from) {
				p->weight += (double)weight[k];
				all += (double)weight[k];
			}
		qsort(best, BEST + 1, sizeof *best, by_weight);
	}
	return all;
}

/* Return the attention mass on the words of the last question, as the user typed them. */
static double mass_of_question(const struct conversation *conv, const float *weight, size_t n_token)
{
	const struct message *m;
	size_t i = conv->n_msg, from, to;
	double all = 0;

	while (i && conv->msg[i - 1].role != ROLE_USER)
		i--;
	m = i ? &conv->msg[i - 1] : NULL;
	if (!m || m->prompt_at.first < 0)
		return 0;
	from = m->prompt_at.byte + question_at(m);
	to = m->prompt_at.byte + m->text.n;
	for (size_t k = (size_t)m->prompt_at.first; k < n_token && conv->rendered.end[k] <= to; k++)
		if (conv->rendered.end[k] > from)
			all += (double)weight[k];
	return all;
}

/* Start summing the answer's attention, if there are documents and the engine supports it. */
static void evidence_begin(void *self, struct conversation *conv, const struct answer_hooks *h)
{
	struct evidence_list *list = self;
	struct err e = { 0 };
	int there = 0;

	*list = (struct evidence_list){ .n = 0 };
	for (size_t i = 0; i < conv->n_doc; i++)
		/* leave out a growing document, because its text is also the text of a message */
		there |= !conv->doc[i].grows;
	if (!h->evidence || !there)
		return;
	if (!conv->tl)
		err_set(&e, ERR_USAGE, "a server does not show its attention");
	else if (timeline_evidence_begin(conv->tl, &e) == 0)
		list->attends = 1;
	if (!list->attends && conv->o->json)
		conversation_notice(conv, "no evidence: %s", e.msg);
}

static void evidence_take(const struct conversation *conv, struct evidence_list *list)
{
	struct looked_at best[BEST + 1] = { { .d = NULL } };
	size_t n = conv->rendered.id.n, *end = xcalloc(n + 1, sizeof *end);
	float *weight = xcalloc(n + 1, sizeof *weight);
	double all = 0, beside;

	timeline_evidence(conv->tl, 0, (int32_t)n, weight);
	timeline_evidence_end(conv->tl);
	for (size_t i = 0; i < SINKS && i < n; i++)
		weight[i] = 0;
	for (size_t i = 0; i < conv->n_doc; i++) {
		const struct document *d = &conv->doc[i];

		if (d->prompt_at.first >= 0)
			all += add_document(d, end, weight + d->prompt_at.first, tokens_in(conv, d, n, end), best);
	}
	for (size_t i = 0; i < conv->n_msg; i++)
		if (conv->msg[i].context.n)
			all += add_quoted(conv, &conv->msg[i], weight, n, best);
	beside = all + mass_of_question(conv, weight, n);
	list->unattended = all < BESIDE_LEAST * beside;
	list->compared = best[1].weight > 0;
	for (int i = 0;
	     i < BEST && all >= BESIDE_LEAST * beside && best[i].weight > 0 && best[i].weight >= SHARE_LEAST * all; i++)
		list->at[list->n++] = (struct evidence){
			.doc = (size_t)(best[i].d - conv->doc),
			.from = best[i].p.from,
			.to = best[i].p.to,
			.share = best[i].weight / all,
		};
	free(end);
	free(weight);
}

static void evidence_ended(void *self, struct conversation *conv, struct message *answer)
{
	struct evidence_list *list = self;

	if (list->attends)
		evidence_take(conv, list);
	list->attends = 0;
	if (answer)
		answer_sources_attended(conv, &answer->sources);
}

/* ---- JSON ---- */

static void evidence_json(void *self, const struct conversation *conv, struct str *out)
{
	const struct evidence_list *list = self;

	json_open(out, "evidence", '[');
	for (size_t i = 0; i < list->n; i++) {
		const struct evidence *v = &list->at[i];
		const struct document *d = &conv->doc[v->doc];
		const char *text = d->text.p + d->body + v->from;
		size_t n = v->to - v->from;
		struct document_place place;

		json_open(out, NULL, '{');
		json_string(out, "doc", d->name);
		document_place(d, v->from, v->to, &place);
		document_place_json(&place, out);
		json_open(out, "bytes", '[');
		json_uint(out, NULL, v->from);
		json_uint(out, NULL, v->to);
		json_close(out, ']');
		json_real(out, "share", v->share, "%.4f");
		json_text(out, "text", text, n > TEXT_MOST ? utf8_complete(text, TEXT_MOST) : n);
		json_close(out, '}');
	}
	json_close(out, ']');
}

const struct turn_hook_ops evidence_ops = {
	.name = "evidence",
	.begin = evidence_begin,
	.ended = evidence_ended,
	.json = evidence_json,
	.free = free,
};
