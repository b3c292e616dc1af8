/* app/retrieval/recall.c - finds evicted turns of a conversation that a question asks about (retrieval.h).
 *
 * The turns are searched for the question's words by bm25. Sentences that are still in the KV cache are left out. The
 * chat model scores the best sentences: gain = log p(question after the sentence) - log p(question). Accepted
 * sentences are quoted as text before the question; evicted KV entries are not restored. */
#include <stdlib.h>
#include <string.h>

#include "app/retrieval/recall.h"

enum {
	/* maximum number of sentences that the model scores; at most one of them is from the same turn */
	CANDIDATES = 4,
	LOOKED_AT = 40, /* number of best turns that are checked for eviction */
	/* minimum number of words that a candidate must share with the question */
	SHARED_LEAST = 2,
	RECALLED_MOST = 3,
	TOKENS_MOST = 150, /* maximum number of tokens of all recalled turns */
	BEST_BYTES = 500,  /* maximum number of bytes that are quoted from the recalled sentence */
	OTHER_BYTES = RECALL_BEGINNING,
};
/* An evicted sentence is recalled only if its bm25 is at least this share of the best bm25 among the cached sentences.
 * Otherwise the best cached sentence probably has the answer. */
static const double CACHED_SHARE = 0.8;
/* Thresholds that a candidate must reach. The share of the question's words that it has, weighted by idf (`covered`),
 * must reach COVERED_LEAST. Its bm25 must reach SCORE_LEAST. If the model has scored it, gain + NATS_OF_COVERED *
 * covered must also reach ACCEPTED. Here `gain` is the query likelihood in nats (rerank_gains()). Measured with
 * tests/measure/recall.py. */
static const double COVERED_LEAST = 0.25, SCORE_LEAST = 5, ACCEPTED = 14, NATS_OF_COVERED = 10;
/* If the model is too large for this machine to score candidates, `covered` must be at least COVERED_ALONE, and the
 * bm25 at least SCORE_ALONE. */
static const double COVERED_ALONE = 0.5, SCORE_ALONE = 8;
/* A turn is recalled together with the best turn only if its gain (query likelihood) is at least this share of the best
 * turn's gain. */
static const double BESIDE_SHARE = 0.5;

/* ---- the cache ---- */

/* Find the tokens that belong to bytes [from, to) of a message. *first receives the index of the first of these tokens.
 * Returns their number; 0 if the message is not rendered. */
static int32_t tokens_of(const struct conversation *conv, const struct message *m, size_t from, size_t to,
                         int32_t *first)
{
	size_t i = (size_t)m->prompt_at.first, at = 0, n_id = conv->rendered.id.n;
	int32_t n = 0;

	if (m->prompt_at.first < 0)
		return 0;
	/* The lengths of an answer's sampled tokens tell which tokens belong to these bytes. */
	if (m->id.n) {
		for (size_t k = 0; k < m->id.n && at < to; k++, i++) {
			at += engine_piece(conv->engine, m->id.id[k], 0, NULL, 0);
			if (at > from && !n++)
				*first = (int32_t)i;
		}
		return n;
	}
	for (; i < n_id && at < m->prompt_at.byte + to; i++) {
		at = conv->rendered.end[i];
		if (at > m->prompt_at.byte + from && !n++)
			*first = (int32_t)i;
	}
	return n;
}

static int sentence_cached(const struct conversation *conv, const struct best *b)
{
	int32_t first = 0, n = tokens_of(conv, &conv->msg[b->msg], b->from, b->to, &first);

	return tokens_cached(conv, first, n);
}

/* ---- candidates ---- */

struct candidate {
	const struct turn_words *turn;
	double gain;
};

/* Choose the candidates: the best turns whose sentence to recall was evicted and shares enough words with the question.
 * Returns their number. */
static size_t candidates_choose(const struct conversation *conv, const struct memory *m, struct candidate *out)
{
	double cached = 0;
	size_t n = 0;

	for (size_t i = 0; i < m->n_turn && i < LOOKED_AT && n < CANDIDATES && m->turn[i].score > 0; i++) {
		const struct best *b = &m->turn[i].tells;

		if (sentence_cached(conv, b))
			cached = MAX(b->score, cached);
		else if (b->covered >= COVERED_LEAST && b->shared >= SHARED_LEAST && b->score >= SCORE_LEAST &&
		         b->score >= CACHED_SHARE * cached)
			out[n++] = (struct candidate){ .turn = &m->turn[i] };
	}
	return n;
}

static int candidate_accepted_alone(const struct candidate *c)
{
	return c->turn->tells.covered >= COVERED_ALONE && c->turn->tells.score >= SCORE_ALONE;
}

/* Let the model score the first candidates, as many as its speed allows, and set their gain. Returns the number of
 * scored candidates, or -1. */
static int candidates_score(struct conversation *conv, const char *question, size_t n, struct candidate *c, size_t n_c,
                            struct err *e)
{
	struct quote quote[CANDIDATES];
	double gain[CANDIDATES];
	int scored = 0;

	for (size_t i = 0; i < n_c; i++) {
		const struct best *b = &c[i].turn->tells;

		quote[i] = (struct quote){ conv->msg[b->msg].text.p + b->from, b->to - b->from };
	}
	if (rerank_gains(conv, question, n, quote, (int)n_c, gain, &scored, e) < 0)
		return -1;
	for (int i = 0; i < scored; i++)
		c[i].gain = gain[i];
	return scored;
}

static int by_gain(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	return x->gain > y->gain ? -1 : x->gain < y->gain;
}

/* Keep the accepted candidates, the best first. Returns their number, or -1 if the user has stopped (ERR_CANCELLED). */
static int candidates_accept(struct conversation *conv, const char *question, size_t n, struct candidate *c, size_t n_c,
                             struct err *e)
{
	int scored = n_c ? candidates_score(conv, question, n, c, n_c, e) : 0, count = 0;

	if (scored < 0)
		return -1;
	if (scored)
		n_c = (size_t)scored;
	for (size_t i = 0; i < n_c; i++)
		if (scored ? c[i].gain + NATS_OF_COVERED * c[i].turn->tells.covered >= ACCEPTED
		           : candidate_accepted_alone(&c[i]))
			c[count++] = c[i];
	if (scored && count)
		qsort(c, (size_t)count, sizeof *c, by_gain);
	while (scored && count > 1 && c[count - 1].gain < BESIDE_SHARE * c[0].gain)
		count--;
	return count;
}

/* ---- quoting ---- */

/* Append to `out` the bytes of a text from offset `from` up to, but not including, offset `to`, on one line. If there
 * are more than `most` bytes, truncate the text after a word and append " ...". */
static void text_quote(const struct str *text, size_t from, size_t to, size_t most, struct str *out)
{
	size_t end = to;

	if (to - from > most) {
		size_t i = end = from + utf8_complete(text->p + from, most);

		while (i > from + most / 2 && text->p[i] != ' ')
			i--;
		end = text->p[i] == ' ' ? i : end;
	}
	text_on_one_line(text->p + from, end - from, out);
	if (end < to)
		str_adds(out, " ...");
}

/* Quote a turn: the sentence to recall, and then the best sentence of the turn's other message, if that sentence shares
 * words with the question. */
static void quote_turn(const struct conversation *conv, const struct turn_words *turn, struct recalled *out)
{
	const struct best *q = &turn->best[0], *a = &turn->best[1], *tells = &turn->tells;
	int answers = tells->msg != turn->question;

	*out = (struct recalled){ .turn = turn->number };
	if (q->score > 0)
		text_quote(&conv->msg[q->msg].text, q->from, q->to, answers ? OTHER_BYTES : BEST_BYTES, &out->said);
	if (answers)
		text_quote(&conv->msg[tells->msg].text, tells->from, tells->to, BEST_BYTES, &out->answered);
	else if (a->score >= q->score / 2)
		text_quote(&conv->msg[a->msg].text, a->from, a->to, OTHER_BYTES, &out->answered);
}

static void add_quoted(const char *who, const struct str *text, struct str *out)
{
	size_t from;

	str_addf(out, "%s: \"", who);
	from = out->n;
	str_add(out, text->p, text->n);
	for (size_t i = from; i < out->n; i++) /* replace double quotes inside the quotation */
		if (out->p[i] == '"')
			out->p[i] = '\'';
	str_adds(out, "\"");
}

static void add_turn(const struct recalled *r, struct str *out)
{
	str_addf(out, "Earlier in this conversation (turn %zu) ", r->turn);
	if (r->said.n)
		add_quoted("the user said", &r->said, out);
	if (r->answered.n)
		add_quoted(r->said.n ? " and the answer was" : "the answer was", &r->answered, out);
	str_adds(out, "\n");
}

static size_t count_tokens(const struct conversation *conv, const struct recalled *r)
{
	struct str text = { 0 };
	struct tokens id = { 0 };
	struct err none = { 0 };
	size_t n;

	add_turn(r, &text);
	engine_tokenize(conv->engine, text.p, text.n, 0, &id, &none);
	n = id.n;
	tokens_free(&id);
	str_free(&text);
	return n;
}

static void recall_context(void *self, struct conversation *conv, struct str *out)
{
	const struct recall *r = self;

	(void)conv;
	/* go through the list backwards, so that the best turn is last, next to the question */
	for (size_t i = r->last.n; i--;)
		add_turn(&r->last.at[i], out);
	if (r->last.n)
		str_adds(out, "\n");
}

/* ---- recall ---- */

static int conversation_evicted(const struct conversation *conv)
{
	struct timeline_stats st;

	conversation_stats(conv, &st);
	return st.rings.evicted + st.rings.evicted_in_part > 0;
}

/* Search the turns, choose and accept candidates, and store their quotations in r->last. The caller frees *m. Returns 0
 * or -1. */
static int turns_recall(struct recall *r, struct conversation *conv, const struct question *q, struct memory *m,
                        struct err *e)
{
	struct recalls *last = &r->last;
	struct candidate c[CANDIDATES];
	size_t n_c, left = TOKENS_MOST, n = q->n;
	const char *asked = question_in_message(q->text, &n);
	int count;

	if (memory_search(conv, r, asked, n, m, e) < 0)
		return -1;
	n_c = candidates_choose(conv, m, c);
	count = candidates_accept(conv, asked, n, c, n_c, e);
	if (count < 0)
		return -1;
	last->at = xcalloc(RECALLED_MOST + 1, sizeof *last->at);
	for (int i = 0; i < count && last->n < RECALLED_MOST; i++) {
		struct recalled *one = &last->at[last->n];
		size_t tokens;

		quote_turn(conv, c[i].turn, one);
		tokens = count_tokens(conv, one);
		if (last->n && tokens > left) {
			recalled_free(one);
			continue;
		}
		left -= MIN(tokens, left);
		last->n++;
	}
	return 0;
}

/* Find the evicted turns that a question asks about. */
static int recall_before(void *self, struct conversation *conv, const struct question *q, struct err *e)
{
	struct recall *r = self;
	double start = now_seconds();
	struct memory m = { 0 };
	struct err why = { 0 };
	int rc;

	recalls_free(&r->last);
	if ((conv->o->recall && !strcmp(conv->o->recall, "off")) || !r->add_message || !conv->n_msg ||
	    !conversation_evicted(conv))
		return 0;
	rc = turns_recall(r, conv, q, &m, &why);
	memory_free(&m);
	if (rc < 0)
		recalls_free(&r->last);
	r->last.seconds = now_seconds() - start;
	if (rc < 0 && why.code == ERR_CANCELLED)
		return err_set(e, why.code, "%s", why.msg);
	if (rc < 0)
		conversation_notice(conv, "earlier turns cannot be searched: %s", why.msg);
	else if (r->last.n)
		conversation_emit(conv, EVENT_RECALLED, 0);
	return 0;
}

static void recall_close(void *self)
{
	struct recall *r = self;

	recalls_free(&r->last);
	free(r);
}

const struct turn_hook_ops recall_ops = {
	.name = "recall",
	.before = recall_before,
	.context = recall_context,
	.free = recall_close,
};

struct recall *recall_new(void)
{
	return xcalloc(1, sizeof(struct recall));
}

void recalled_json(const struct conversation *conv, struct str *out)
{
	const struct recalls *last = recalls_of(conv);

	json_open(out, "recalled", '[');
	for (size_t i = 0; i < last->n; i++) {
		const struct recalled *r = &last->at[i];

		json_open(out, NULL, '{');
		json_uint(out, "turn", r->turn);
		json_text(out, "question", r->said.p, r->said.n);
		json_text(out, "answer", r->answered.p, r->answered.n);
		json_close(out, '}');
	}
	json_close(out, ']');
	json_real(out, "recall_s", last->seconds, "%.4f");
}
