/* app/eval/ppl.c - weir eval ppl: perplexity of texts under every policy.
 *
 * Without --window the text is one stream; with it, full windows that do not overlap, each from an empty cache.
 * Tokens with index >= --skip in their window are scored, read in chunks: a policy that bounds its cache reads in its own
 * stride.  With --last N only the last N tokens of the stream are scored, one at a time, as if each had been generated; all
 * before them are read, and the first of them is predicted by what was read.  A window under a policy is a result that --resume
 * stores; without --window that is the whole text. */
#include "app/eval/eval.h"
#include "app/eval/checkpoint.h"
#include "app/eval/policies.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX (1u << 30)
#define SLICE 512        /* tokens between two looks at the progress, or a little more or less */

/* What one policy got in one text. */
struct score {
	const struct tokens *t;
	int32_t n_vocab;
	size_t base;             /* stream index of the window's first token */
	size_t from, to;         /* stream indices to score: from <= i < to */
	double nll, seconds;     /* of the windows that are done */
	double read;             /* bytes of the cache that a generated token reads at the end of a window, summed over windows */
	int windows;
	uint64_t scored;
	int32_t curve;           /* every so many tokens scored the sum is noted; 0 = never */
	struct str points;
	struct window {          /* the one at work */
		double nll;
		uint64_t scored;
		int bad;             /* a probability that is no number */
		struct str points;   /* sums of this window alone */
	} now;
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
		s->now.bad = 1;
	s->now.nll -= lp;
	s->now.scored++;
	if (s->curve && (s->scored + s->now.scored) % (uint64_t)s->curve == 0)
		json_real(&s->now.points, NULL, s->now.nll, "%.17g");
}

struct ppl {
	const struct options *o;
	struct engine *engine;
	struct shared_timeline line;
	struct checkpoint checkpoint;
	struct policy_list kvs;
	int order[LIST_MAX];            /* in which the kvs run */
	struct score score[LIST_MAX];   /* of the kvs */
	struct progress progress;
	size_t text_tokens;
	int nth, kv;                    /* policy at work: its place in the order, and which it is */
};

static void show(struct ppl *p, size_t at)
{
	progress_show(&p->progress, (int64_t)(p->text_tokens * (size_t)p->nth + at), (int64_t)(p->text_tokens * (size_t)p->kvs.n));
}

struct pass { struct ppl *p; size_t base; };

static void show_reading(int32_t done, int32_t total, void *ud)
{
	struct pass *r = ud;

	(void)total;
	show(r->p, r->base + (size_t)done);
}

/* One window: stream tokens base .. base + n. */
static int score_window(struct ppl *p, struct score *s, size_t base, size_t n, struct err *e)
{
	const int32_t *id = s->t->id + base;
	struct timeline *tl = p->line.tl;
	struct pass reading = {p, base};
	int stepwise = p->o->last > 0;
	struct timeline_stats st;
	size_t at, slice;

	s->base = base;
	s->to = base + n;
	if (s->from >= base + n)
		return 0;
	timeline_stats(tl, &st);
	slice = st.batch > 0 && st.batch < SLICE ? (size_t)(SLICE / st.batch * st.batch) : st.batch > 0 ? (size_t)st.batch : SLICE;
	/* Token i is predicted by the logits of i - 1: whole chunks before that only fill the cache. */
	at = s->from - base;
	if (!stepwise)
		at = (at - 1) / slice * slice;
	if (timeline_sync(tl, id, at, show_reading, &reading, e) < 0)
		return -1;
	if (stepwise)
		score_token((int32_t)at - 1, timeline_logits(tl), s);
	while (at < n - 1) {   /* the last token predicts nothing that is scored */
		size_t step = n - 1 - at < slice ? n - 1 - at : slice;
		if (timeline_extend(tl, id + at, step, stepwise, score_token, s, e) < 0)
			return -1;
		at += step;
		show(p, base + at);
	}
	return 0;
}

/* What a window gave.  -1: this is no such result. */
static int take_window(struct score *s, struct jv result)
{
	double nll, scored, read, seconds, x;
	struct jv curve = jv_get(result, "curve"), point = {0};

	if (jv_number(jv_get(result, "nll"), &nll) < 0 || jv_number(jv_get(result, "scored"), &scored) < 0 ||
	    jv_number(jv_get(result, "read"), &read) < 0 || jv_number(jv_get(result, "seconds"), &seconds) < 0 || scored < 0 ||
	    scored > INT32_MAX)
		return -1;
	while (jv_next(curve, &point, NULL))
		if (jv_number(point, &x) < 0)
			return -1;
	for (point = (struct jv){0}; jv_next(curve, &point, NULL); ) {
		jv_number(point, &x);
		json_real(&s->points, NULL, s->nll + x, "%.6f");
	}
	s->nll += nll;
	s->scored += (uint64_t)scored;
	s->read += read;
	s->seconds += seconds;
	s->windows++;
	return 0;
}

/* One window under the policy at work, or what is known of it. */
static int do_window(struct ppl *p, struct score *s, size_t base, size_t n, int32_t ctx, struct err *e)
{
	const char *kv = p->kvs.v[p->kv];
	double start = now_seconds();
	struct str what = {0}, result = {0};
	struct jv known;
	int rc;

	checkpoint_key(&p->checkpoint, "ppl", kv, ctx, &what);
	json_hash(&what, "text", checkpoint_hash(s->t->id + base, n * sizeof *s->t->id));
	json_uint(&what, "tokens", n);
	json_uint(&what, "from", s->from < base + n ? s->from - base : n);
	json_int(&what, "stepwise", p->o->last > 0);
	if (s->curve) {   /* where its points are: every so many, less those that were scored before */
		json_int(&what, "every", s->curve);
		json_uint(&what, "after", s->scored % (uint64_t)s->curve);
	}
	json_close(&what, '}');
	if (checkpoint_get(&p->checkpoint, &what, &known) && !take_window(s, known)) {
		p->checkpoint.taken++;
		str_free(&what);
		return 0;
	}
	s->now = (struct window){ .nll = 0 };
	rc = shared_timeline_use(&p->line, kv, ctx, e);
	if (!rc)
		rc = score_window(p, s, base, n, e);
	if (!rc && s->now.bad)
		rc = err_set(e, ERR_FAIL, "the model gave probabilities that are no numbers; check the file with --check-tensors");
	if (!rc) {
		json_open(&result, NULL, '{');
		json_real(&result, "nll", s->now.nll, "%.17g");
		json_uint(&result, "scored", s->now.scored);
		json_uint(&result, "read", timeline_read_bytes(p->line.tl, (int32_t)n - 1, 1));
		json_real(&result, "seconds", now_seconds() - start, "%.3f");
		if (s->curve)
			json_list(&result, "curve", &s->now.points);
		json_close(&result, '}');
		rc = checkpoint_put(&p->checkpoint, &what, &result, e);
		take_window(s, jv_parse(result.p, result.n));
	}
	str_free(&s->now.points);
	str_free(&what);
	str_free(&result);
	return rc;
}

static int score_text(struct ppl *p, const struct tokens *t, struct err *e)
{
	const struct options *o = p->o;
	size_t n = t->n, window = o->window ? (size_t)o->window : n, tail = 0, ctx = window < n ? window : n;
	int rc = 0;

	if (o->last)
		tail = (size_t)o->last < n ? n - (size_t)o->last : 0;
	p->text_tokens = n;
	progress_init(&p->progress, o->quiet, o->verbose, "evaluating", "tokens");
	for (size_t base = 0; !rc && n - base >= window && base < n; base += window) {
		shared_timeline_fresh(&p->line);
		for (p->nth = 0; !rc && p->nth < p->kvs.n; p->nth++) {
			struct score *s = &p->score[p->kv = p->order[p->nth]];

			s->t = t;
			s->from = base + (size_t)o->skip;
			if (s->from < tail)
				s->from = tail;
			rc = do_window(p, s, base, window, (int32_t)ctx, e);
		}
	}
	progress_clear(&p->progress);
	if (!rc && !p->score[0].scored)
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

static void report(const struct ppl *p, int k, const char *file, uint64_t bytes, struct str *out)
{
	const struct options *o = p->o;
	const struct score *s = &p->score[k];
	double ppl = exp(s->nll / (double)s->scored);
	int several = o->n_file > 1 || p->kvs.n > 1 || o->offset;

	if (o->json) {
		json_open(out, NULL, '{');
		if (several) {
			json_string(out, "file", file);
			json_int(out, "offset", o->offset);
			json_string(out, "kv", p->kvs.v[k]);
		}
		json_uint(out, "tokens", s->t->n);
		json_uint(out, "scored", s->scored);
		json_real(out, "nll", s->nll, "%.9g");
		json_real(out, "ppl", ppl, "%.9g");
		json_uint(out, "bytes", bytes);
		json_real(out, "seconds", s->seconds, "%.3f");
		if (several)
			json_real(out, "read", s->read / s->windows, "%.0f");
		if (s->curve) {
			json_int(out, "every", s->curve);
			json_list(out, "curve", &s->points);
		}
		json_close(out, '}');
		str_adds(out, "\n");
		return;
	}
	if (several)
		str_addf(out, "%s%s, from token %d, under %s\n", k ? "\n" : "", file, o->offset, p->kvs.v[k]);
	str_addf(out, "tokens      %zu of %llu bytes\nscored      %llu\nnll         %.4f nats, %.6f a token\n"
	         "perplexity  %.6f\nseconds     %.1f\n", s->t->n, (unsigned long long)bytes,
	         (unsigned long long)s->scored, s->nll, s->nll / (double)s->scored, ppl, s->seconds);
}

static int eval_text(struct ppl *p, const char *file, struct err *e)
{
	const struct options *o = p->o;
	const struct engine_info *info = engine_info(p->engine);
	struct str text = {0}, out = {0};
	struct tokens t = {0}, part;
	uint64_t bytes;
	int rc = read_whole(file, TEXT_MAX, &text, e), cut;

	if (rc < 0) {
		e->code = ERR_DOCUMENT;
		str_free(&text);
		return rc;
	}
	bytes = text.n;
	rc = engine_tokenize(p->engine, text.p ? text.p : "", text.n, info->add_bos ? TOKENIZE_BOS : 0, &t, e);
	str_free(&text);
	cut = (size_t)o->offset < t.n ? o->offset : (int)t.n;
	part = (struct tokens){ .id = t.id ? t.id + cut : NULL, .n = t.n - (size_t)cut };
	if (o->tokens && (size_t)o->tokens < part.n)
		part.n = (size_t)o->tokens;
	if (part.n < t.n)
		bytes = covered_bytes(p->engine, &part);
	if (!rc && (part.n < 2 || part.n > INT32_MAX))
		rc = err_set(e, ERR_USAGE, "the text has %zu tokens; 2 to %d can be evaluated", part.n, INT32_MAX);
	for (int k = 0; k < p->kvs.n; k++)
		p->score[k] = (struct score){ .n_vocab = info->n_vocab, .curve = o->curve };
	if (!rc)
		rc = score_text(p, &part, e);
	for (int k = 0; k < p->kvs.n; k++) {
		if (!rc)
			report(p, k, file, bytes, &out);
		str_free(&p->score[k].points);
	}
	if (!rc)
		rc = print_json(&out, e);
	tokens_free(&t);
	str_free(&out);
	return rc;
}

int cmd_eval_ppl(const struct options *o)
{
	struct ppl p = {.o = o};
	struct err e = {0};
	int rc = 0;

	if (!o->n_file) {
		err_set(&e, ERR_USAGE, "'weir eval ppl' wants a text FILE (-: standard input)");
		return fail(&e);
	}
	policies_compared(o, &p.kvs);
	policies_order(&p.kvs, p.order);
	if (checkpoint_open(&p.checkpoint, o, &e) < 0)
		return fail(&e);
	rc = model_open(&p.engine, o, MODEL_RUN, &e);
	if (!rc)
		rc = checkpoint_model(&p.checkpoint, p.engine, &e);
	p.line = (struct shared_timeline){.o = o, .engine = p.engine};
	for (int i = 0; !rc && i < o->n_file; i++)
		rc = eval_text(&p, o->file[i], &e);
	shared_timeline_close(&p.line);
	engine_close(p.engine);
	checkpoint_close(&p.checkpoint);
	return rc < 0 ? fail(&e) : 0;
}
