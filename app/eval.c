/* app/eval.c - weir eval ppl: how well the model predicts a text.
 *
 * Without --window the text is one stream; with it, full windows that do not overlap, each from an empty
 * cache.  Only tokens with index >= --skip in their window and (--last) at the end of the stream are scored.
 * What comes before the first scored token is read with timeline_sync(), which is faster than
 * timeline_extend() and needs no logits; the sum is the same. */
#include <math.h>
#include <string.h>

#include "app/app.h"
#include "app/output.h"

#define TEXT_MAX (1u << 30)
#define SLICE 512        /* tokens between two looks at the progress */

struct score {
	const struct tokens *t;
	int32_t n_vocab;
	size_t base;             /* stream index of the window's first token */
	size_t from, to;         /* stream indices to score: from <= i < to */
	double nll;
	uint64_t scored;
	int bad;                 /* a probability that is no number */
};

static void score_token(int32_t pos, const float *logits, void *ud)
{
	struct score *s = ud;
	size_t next = s->base + (size_t)pos + 1;
	double lp;

	if (next < s->from || next >= s->to)
		return;
	lp = engine_logprob(logits, s->n_vocab, s->t->id[next]);
	if (!isfinite(lp))
		s->bad = 1;
	s->nll -= lp;
	s->scored++;
}

/* One window: stream tokens base .. base + n. */
static int score_window(struct timeline *tl, struct score *s, size_t base, size_t n, struct progress *p,
                        struct err *e)
{
	const int32_t *id = s->t->id + base;
	/* Token i is predicted by the logits of i - 1: everything before that only fills the cache. */
	size_t fill = s->from > base + 1 ? s->from - base - 1 : 0;
	size_t at;

	s->base = base;
	s->to = base + n;
	if (fill >= n)
		return 0;
	if (timeline_sync(tl, NULL, 0, NULL, NULL, e) < 0)
		return -1;
	for (at = 0; at < fill; ) {
		size_t step = fill - at < SLICE ? fill - at : SLICE;
		if (timeline_sync(tl, id, at + step, NULL, NULL, e) < 0)
			return -1;
		at += step;
		progress_show(p, (int64_t)(base + at), (int64_t)s->t->n);
	}
	while (at < n - 1) {   /* the last token predicts nothing that is scored */
		size_t step = n - 1 - at < SLICE ? n - 1 - at : SLICE;
		if (timeline_extend(tl, id + at, step, 0, score_token, s, e) < 0)
			return -1;
		at += step;
		progress_show(p, (int64_t)(base + at), (int64_t)s->t->n);
	}
	return 0;
}

static int score_all(const struct options *o, struct timeline *tl, struct score *s, struct err *e)
{
	size_t n = s->t->n, window = o->window ? (size_t)o->window : n, tail = 0;
	struct progress p;
	int rc = 0;

	if (o->last)
		tail = (size_t)o->last < n ? n - (size_t)o->last : 0;
	progress_init(&p, o, "evaluating", "tokens");
	for (size_t base = 0; !rc && n - base >= window && base < n; base += window) {
		s->from = base + (size_t)o->skip;
		if (s->from < tail)
			s->from = tail;
		rc = score_window(tl, s, base, window, &p, e);
	}
	progress_clear(&p);
	if (!rc && !s->scored)
		rc = err_set(e, ERR_USAGE, "nothing to score: the text has %zu tokens, %s %zu, and scoring starts at token %d", n,
		             o->window ? "the window is" : "one stream of", window, o->skip);
	return rc;
}

/* Bytes that the tokens stand for. */
static uint64_t covered_bytes(const struct engine *engine, const struct tokens *t)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < t->n; i++)
		bytes += engine_piece(engine, t->id[i], 0, NULL, 0);
	return bytes;
}

static void report(const struct options *o, const struct score *s, uint64_t bytes, double seconds, struct str *out)
{
	double ppl = exp(s->nll / (double)s->scored);

	if (o->json) {
		str_addf(out, "{\"tokens\":%zu,\"scored\":%llu,\"nll\":", s->t->n, (unsigned long long)s->scored);
		json_number(out, s->nll, "%.9g");
		str_adds(out, ",\"ppl\":");
		json_number(out, ppl, "%.9g");
		str_addf(out, ",\"bytes\":%llu,\"seconds\":", (unsigned long long)bytes);
		json_number(out, seconds, "%.3f");
		str_adds(out, "}\n");
		return;
	}
	str_addf(out, "tokens      %zu of %llu bytes\nscored      %llu\nnll         %.4f nats, %.6f a token\n"
	         "perplexity  %.6f\nseconds     %.1f\n", s->t->n, (unsigned long long)bytes,
	         (unsigned long long)s->scored, s->nll, s->nll / (double)s->scored, ppl, seconds);
}

static int eval_text(const struct options *o, struct engine *engine, struct str *text, struct err *e)
{
	struct tokens t = {0};
	struct score s = {.t = &t, .n_vocab = engine_info(engine)->n_vocab};
	struct timeline *tl = NULL;
	struct str out = {0};
	double start = now_seconds();
	uint64_t bytes = text->n;
	int32_t ctx;
	int rc = engine_tokenize(engine, text->p ? text->p : "", text->n,
	                         engine_info(engine)->add_bos ? TOKENIZE_BOS : 0, &t, e);

	if (!rc && o->tokens && (size_t)o->tokens < t.n) {
		t.n = (size_t)o->tokens;
		bytes = covered_bytes(engine, &t);
	}
	if (!rc && (t.n < 2 || t.n > INT32_MAX))
		rc = err_set(e, ERR_USAGE, "the text has %zu tokens; 2 to %d can be evaluated", t.n, INT32_MAX);
	ctx = o->ctx ? o->ctx : o->window && (size_t)o->window < t.n ? o->window : (int32_t)t.n;
	if (!rc)
		rc = timeline_open_for(&tl, engine, o, ctx, e);
	if (!rc) {
		signals_watch(tl);
		rc = score_all(o, tl, &s, e);
		signals_watch(NULL);
	}
	if (!rc && s.bad)
		rc = err_set(e, ERR_FAIL, "the model gave probabilities that are no numbers; check the file with --check-tensors");
	if (!rc) {
		report(o, &s, bytes, now_seconds() - start, &out);
		rc = print_all(out.p, out.n, e);
	}
	timeline_close(tl);
	tokens_free(&t);
	str_free(&out);
	return rc;
}

int cmd_eval_ppl(const struct options *o)
{
	struct engine *engine;
	struct str text = {0};
	struct err e = {0};
	int rc;

	if (!o->n_file) {
		err_set(&e, ERR_USAGE, "'weir eval ppl' wants a text FILE (-: standard input)");
		return fail(&e);
	}
	if (model_open(&engine, o, MODEL_RUN, &e) < 0)
		return fail(&e);
	rc = read_whole(o->file[0], TEXT_MAX, &text, &e);
	if (rc)
		e.code = ERR_DOCUMENT;
	if (!rc)
		rc = eval_text(o, engine, &text, &e);
	str_free(&text);
	engine_close(engine);
	return rc < 0 ? fail(&e) : 0;
}
