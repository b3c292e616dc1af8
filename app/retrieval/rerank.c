/* app/retrieval/rerank.c - scores passages by query likelihood (retrieval_private.h).
 *
 * Query likelihood is log p of the question after a passage (Sachan et al. 2022, "Improving passage retrieval with
 * zero-shot question generation"). It is computed on a separate short timeline (a token sequence with its KV cache), so
 * the conversation's timeline stays unchanged.
 *
 * The number of scored passages depends on the model's size and the processor, but not on the clock, so a busy machine
 * gives the same result. SECONDS_MOST is only a safety limit. */
#include <stdlib.h>
#include <string.h>

#include "app/retrieval/retrieval_private.h"

enum { CTX = 512, QUESTION_TOKENS = 64, QUOTE_TOKENS = 200 };
/* Maximum number of multiply-adds to score the passages for one question. MACS applies to a CPU with SIMD: about 0.4 s
 * on two cores with AVX-512. MACS_DEVICE applies to a GPU, and MACS_C to portable C. */
static const double MACS = 75e9, MACS_DEVICE = 3e12, MACS_C = 0.5e9;
/* maximum time for one question in seconds, about 20 times as long as expected */
static const double SECONDS_MOST = 10;
#define HEAD "Passage:" /* text with which all prompts begin; its KV entries are reused */
#define ASK  "\n\nQuestion:"

void rerank_close(struct rerank *r)
{
	timeline_close(r->tl);
	r->tl = NULL;
	r->tokens = 0; /* 0 = compute the number again at the next use, because the next model may have another size */
}

/* ---- one passage ---- */

struct scoring {
	const int32_t *id;
	size_t n, at;
	int32_t n_vocab;
	double sum;
};

static void on_logits(int32_t pos, const float *logits, void *ud)
{
	struct scoring *s = ud;

	if (s->at < s->n)
		s->sum += engine_logprob(logits, s->n_vocab, s->id[s->at++]);
}

/* Set *out to the log probability that the model gives to the tokens of *question when they follow the prompt *want.
 * Returns 0 or -1. */
static int likelihood(struct conversation *conv, const struct tokens *want, const struct tokens *question, double *out,
                      struct err *e)
{
	struct timeline *tl = search_of(conv)->rerank.tl;
	struct scoring s = { .id = question->id, .n = question->n, .n_vocab = engine_info(conv->engine)->n_vocab };
	int32_t reused = timeline_sync(tl, want->id, want->n, NULL, NULL, e);
	const float *logits;

	if (reused < 0 || !(logits = timeline_logits(tl)))
		return -1;
	on_logits(0, logits, &s);
	if (s.n > 1 && timeline_extend(tl, s.id, s.n - 1, 0, on_logits, &s, e) < 0)
		return -1;
	*out = s.sum;
	return 0;
}

/* Set *out to the tokens of a prompt: `head`, then at most QUOTE_TOKENS tokens of *q, then `ask`. If `q` is NULL, there
 * is no quote. Returns 0 or -1. */
static int passage_tokens(struct conversation *conv, const struct quote *q, const struct tokens *head,
                          const struct tokens *ask, struct tokens *out, struct err *e)
{
	struct str text = { 0 };
	int rc = 0;

	out->n = 0;
	tokens_append(out, head->id, head->n);
	if (q) {
		str_adds(&text, " ");
		str_add(&text, q->p, q->n);
		rc = engine_tokenize(conv->engine, text.p, text.n, 0, out, e);
		str_free(&text);
		if (out->n > head->n + QUOTE_TOKENS)
			out->n = head->n + QUOTE_TOKENS;
	}
	tokens_append(out, ask->id, ask->n);
	return rc;
}

/* ---- all passages ---- */

/* Return how many tokens may be computed for a question at most, with this model on this processor. */
static int32_t tokens_affordable(const struct conversation *conv)
{
	const struct engine_info *i = engine_info(conv->engine);
	double macs = strncmp(i->device, "cpu", 3) ? MACS_DEVICE : strncmp(i->device, "cpu c,", 6) ? MACS : MACS_C;
	double n = i->n_params ? macs / (double)i->n_params : 0;

	return n < INT32_MAX ? (int32_t)n : INT32_MAX;
}

/* Score the quotes as rerank_gains() does. `question` has the tokens of the question. */
static int passage_gains(struct conversation *conv, const struct tokens *question, const struct quote *quote, int count,
                         double *gain, int *scored, struct err *e)
{
	struct tokens head = { 0 }, ask = { 0 }, want = { 0 };
	double until = now_seconds() + SECONDS_MOST, none, with;
	int32_t most = search_of(conv)->rerank.tokens;
	size_t left = most > 0 ? (size_t)most : 0;
	int rc = engine_tokenize(conv->engine, HEAD, strlen(HEAD), TOKENIZE_BOS, &head, e);

	if (!rc)
		rc = engine_tokenize(conv->engine, ASK, strlen(ASK), 0, &ask, e);
	if (!rc)
		rc = passage_tokens(conv, NULL, &head, &ask, &want, e);
	if (!rc && want.n + question->n <= left)
		rc = likelihood(conv, &want, question, &none, e);
	else
		count = 0;
	left -= count ? want.n + question->n : 0;
	for (int i = 0; i < count && !rc; i++) {
		size_t cost;

		rc = passage_tokens(conv, &quote[i], &head, &ask, &want, e);
		cost = want.n - head.n + question->n;
		if (rc || cost > left || now_seconds() > until)
			break;
		left -= cost;
		rc = likelihood(conv, &want, question, &with, e);
		if (!rc)
			gain[(*scored)++] = with - none;
	}
	tokens_free(&head);
	tokens_free(&ask);
	tokens_free(&want);
	return rc;
}

int rerank_gains(struct conversation *conv, const char *text, size_t n, const struct quote *quote, int count,
                 double *gain, int *scored, struct err *e)
{
	struct rerank *r = &search_of(conv)->rerank;
	struct timeline_options o = { .ctx = CTX, .kv = "full" };
	struct err why = { 0 };
	struct tokens question = { 0 };
	struct str asked = { 0 };
	int rc;

	*scored = 0;
	if (!conv->engine) /* a server does not report the log probabilities of a prompt's tokens */
		return 0;
	if (!r->tokens)
		r->tokens = tokens_affordable(conv);
	if (r->tokens <= 0)
		return 0;
	/* If there is no memory for the timeline, no passage is scored: the passages keep their order. */
	if (!r->tl && timeline_open(&r->tl, conv->engine, &o, &why) < 0) {
		r->tl = NULL;
		return 0;
	}
	str_adds(&asked, " ");
	str_add(&asked, text, n);
	rc = engine_tokenize(conv->engine, asked.p, asked.n, 0, &question, e);
	str_free(&asked);
	if (question.n > QUESTION_TOKENS)
		question.n = QUESTION_TOKENS;
	if (!rc && question.n) {
		timeline_resume(r->tl);
		signals_watch(r->tl);
		rc = passage_gains(conv, &question, quote, count, gain, scored, &why);
		signals_watch(NULL);
		timeline_resume(r->tl);
		/* Only a stop by the user is an error. After any other failure, the passages that were not scored keep
		 * their order. */
		rc = rc && why.code == ERR_CANCELLED ? err_set(e, why.code, "%s", why.msg) : 0;
	}
	tokens_free(&question);
	return rc;
}
