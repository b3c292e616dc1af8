/* app/conversation/rerank.c - how well passages explain a question, as the model sees it (conversation_private.h).
 *
 * The query likelihood is the mean log p of the question's tokens behind a passage (Sachan et al. 2022, "Improving passage retrieval with
 * zero-shot question generation").  It is computed on a short timeline of its own, so that the conversation's stays as it is. */
#include <stdlib.h>
#include <string.h>

#include "app/conversation/conversation_private.h"

enum { CTX = 512, QUESTION_TOKENS = 64, QUOTE_TOKENS = 200, RECENT_TOKENS = 4000 };
#define HEAD "Passage:"                /* all of them begin with it: it is computed once */
#define ASK "\n\nQuestion:"

void rerank_close(struct conversation *t)
{
	timeline_close(t->rerank.tl);
	t->rerank.tl = NULL;
}

/* ---- one passage ---- */

struct scoring { const int32_t *id; size_t n, at; int32_t n_vocab; double sum; };

static void on_logits(int32_t pos, const float *logits, void *ud)
{
	struct scoring *s = ud;

	if (s->at < s->n)
		s->sum += engine_logprob(logits, s->n_vocab, s->id[s->at++]);
}

/* Mean log p of the question behind want. */
static int likelihood(struct conversation *t, const struct tokens *want, const struct tokens *question, double *out, struct err *e)
{
	struct scoring s = {.id = question->id, .n = question->n, .n_vocab = engine_info(t->engine)->n_vocab};
	double start = now_seconds();
	int32_t reused = timeline_sync(t->rerank.tl, want->id, want->n, NULL, NULL, e);
	const float *logits;

	if (reused < 0 || !(logits = timeline_logits(t->rerank.tl)))
		return -1;
	on_logits(0, logits, &s);
	if (s.n > 1 && timeline_extend(t->rerank.tl, s.id, s.n - 1, 0, on_logits, &s, e) < 0)
		return -1;
	*out = s.at ? s.sum / (double)s.at : 0;
	/* The speed of late counts more. */
	if (t->rerank.tokens > RECENT_TOKENS) {
		t->rerank.tokens /= 2;
		t->rerank.seconds /= 2;
	}
	t->rerank.tokens += (double)(want->n - (size_t)reused + s.n);
	t->rerank.seconds += now_seconds() - start;
	return 0;
}

static int passage_tokens(struct conversation *t, const struct quote *q, const struct tokens *head, const struct tokens *ask, struct tokens *out,
                          struct err *e)
{
	struct str text = {0};
	int rc = 0;

	out->n = 0;
	tokens_append(out, head->id, head->n);
	if (q) {
		str_adds(&text, " ");
		str_add(&text, q->p, q->n);
		rc = engine_tokenize(t->engine, text.p, text.n, 0, out, e);
		str_free(&text);
		if (out->n > head->n + QUOTE_TOKENS)
			out->n = head->n + QUOTE_TOKENS;
	}
	tokens_append(out, ask->id, ask->n);
	return rc;
}

/* ---- all of them ---- */

/* Will that many tokens take longer than what is left of the time?  Nobody knows before the first ones. */
static int too_slow(const struct conversation *t, size_t tokens, double left)
{
	return t->rerank.tokens > 0 && t->rerank.seconds / t->rerank.tokens * (double)tokens > left;
}

static int gains(struct conversation *t, const struct tokens *question, const struct quote *quote, int count, double seconds, double *gain,
                 int *scored, struct err *e)
{
	struct tokens head = {0}, ask = {0}, want = {0};
	double until = now_seconds() + seconds, none, with;
	int rc = engine_tokenize(t->engine, HEAD, strlen(HEAD), TOKENIZE_BOS, &head, e);

	if (!rc)
		rc = engine_tokenize(t->engine, ASK, strlen(ASK), 0, &ask, e);
	if (!rc)
		rc = passage_tokens(t, NULL, &head, &ask, &want, e);
	if (!rc && !too_slow(t, want.n + question->n, seconds))
		rc = likelihood(t, &want, question, &none, e);
	else
		count = 0;
	/* What was too slow when the machine had other work is tried again after some questions. */
	if (!count)
		t->rerank.seconds *= 0.9;
	for (int i = 0; i < count && !rc; i++) {
		rc = passage_tokens(t, &quote[i], &head, &ask, &want, e);
		if (rc || too_slow(t, want.n - head.n + question->n, until - now_seconds()))
			break;
		rc = likelihood(t, &want, question, &with, e);
		if (!rc)
			gain[(*scored)++] = with - none;
	}
	tokens_free(&head);
	tokens_free(&ask);
	tokens_free(&want);
	return rc;
}

int rerank_gains(struct conversation *t, const char *text, size_t n, const struct quote *quote, int count, double seconds, double *gain,
                 int *scored, struct err *e)
{
	struct timeline_options o = {.ctx = CTX, .kv = "full"};
	struct err why = {0};
	struct tokens question = {0};
	struct str asked = {0};
	int rc;

	*scored = 0;
	/* Without room for it the passages stay in the order of the index. */
	if (!t->rerank.tl && timeline_open(&t->rerank.tl, t->engine, &o, &why) < 0) {
		t->rerank.tl = NULL;
		return 0;
	}
	str_adds(&asked, " ");
	str_add(&asked, text, n);
	rc = engine_tokenize(t->engine, asked.p, asked.n, 0, &question, e);
	str_free(&asked);
	if (question.n > QUESTION_TOKENS)
		question.n = QUESTION_TOKENS;
	if (!rc && question.n) {
		timeline_resume(t->rerank.tl);
		signals_watch(t->rerank.tl);
		rc = gains(t, &question, quote, count, seconds, gain, scored, &why);
		signals_watch(NULL);
		timeline_resume(t->rerank.tl);
		/* What the user stopped is stopped; any other failure costs the model's opinion alone. */
		rc = rc && why.code == ERR_CANCELLED ? err_set(e, why.code, "%s", why.msg) : 0;
	}
	tokens_free(&question);
	return rc;
}
