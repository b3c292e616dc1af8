/* app/eval.c - which cache policies are compared, one timeline for all of them; weir eval ppl.
 *
 * ppl: without --window the text is one stream; with it, full windows that do not overlap, each from an empty cache.
 * Tokens with index >= --skip in their window are scored, read in chunks: a policy that bounds its cache reads in its own
 * stride.  With --last N only the last N tokens of the stream are scored, one at a time, as if each had been generated; all
 * before them are read, and the first of them is predicted by what was read.  A window under a policy is a piece that --resume
 * keeps; without --window that is the whole text. */
#include "app/eval.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/app.h"
#include "app/output.h"

#define TEXT_MAX (1u << 30)
#define SLICE 512        /* tokens between two looks at the progress, or a little more or less */

/* ---- policies ---- */

void eval_policies(const struct options *o, struct policy_list *out)
{
	*out = o->kvs;
	if (!out->n)
		out->v[out->n++] = o->kv ? o->kv : "full";
}

int32_t eval_policy_rows(const char *kv, int32_t len)
{
	for (const char *p = strchr(kv, ':'); p; p = strchr(p, ',')) {
		double a, b = 0;
		char *end;

		if (strncmp(++p, "k=", 2) != 0)
			continue;
		a = strtod(p + 2, &end);
		if (*end == '/')
			b = strtod(end + 1, NULL);
		a = b > 0 ? a / b * len : a;
		return a >= 1 && a < INT32_MAX ? (int32_t)a : 0;
	}
	return 0;
}

int eval_line_use(struct eval_line *l, const char *kv, int32_t ctx, struct err *e)
{
	struct options o = *l->o;
	const int32_t none = 0;

	ctx = o.ctx ? o.ctx : ctx;
	if (l->tl && l->fresh && timeline_sync(l->tl, &none, 0, NULL, NULL, e) < 0)
		return -1;
	l->fresh = 0;
	if (l->tl && l->ctx == ctx && !strcmp(l->kv, kv))
		return 0;
	if (l->tl && l->ctx == ctx && timeline_switch_kv(l->tl, kv, e) < 0)
		return -1;
	if (!l->tl || l->ctx != ctx) {
		eval_line_close(l);
		o.kv = kv;
		if (timeline_open_for(&l->tl, l->engine, &o, ctx, e) < 0)
			return -1;
		signals_watch(l->tl);
	}
	l->ctx = ctx;
	l->kv = kv;
	return 0;
}

void eval_line_fresh(struct eval_line *l)
{
	l->fresh = 1;
}

void eval_line_close(struct eval_line *l)
{
	signals_watch(NULL);
	timeline_close(l->tl);
	l->tl = NULL;
}

/* ---- random numbers ---- */

/* splitmix64: short, and the same everywhere. */
uint64_t rng_next(struct rng *r)
{
	uint64_t x = r->state += 0x9e3779b97f4a7c15u;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

uint32_t rng_below(struct rng *r, uint32_t n)
{
	return (uint32_t)((rng_next(r) >> 32) * n >> 32);
}

struct rng rng_for(uint64_t seed, const char *task, int32_t len, int32_t sample)
{
	struct rng r = { seed };

	for (; *task; task++)
		r.state = rng_next(&r) ^ (unsigned char)*task;
	r.state = rng_next(&r) ^ (uint64_t)len;
	r.state = rng_next(&r) ^ (uint64_t)sample;
	return r;
}

/* ---- perplexity ---- */

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
		str_addf(&s->now.points, "%s%.17g", s->now.points.n ? "," : "", s->now.nll);
}

struct ppl {
	const struct options *o;
	struct engine *engine;
	struct eval_line line;
	struct pieces pieces;
	struct policy_list kvs;
	struct score score[LIST_MAX];   /* of the kvs */
	struct progress progress;
	size_t text_tokens;
	int nth;                        /* policy at work */
};

static void show(struct ppl *p, size_t at)
{
	progress_show(&p->progress, (int64_t)(p->text_tokens * (size_t)p->nth + at), (int64_t)(p->text_tokens * (size_t)p->kvs.n));
}

struct reading { struct ppl *p; size_t base; };

static void show_reading(int32_t done, int32_t total, void *ud)
{
	struct reading *r = ud;

	(void)total;
	show(r->p, r->base + (size_t)done);
}

/* One window: stream tokens base .. base + n. */
static int score_window(struct ppl *p, struct score *s, size_t base, size_t n, struct err *e)
{
	const int32_t *id = s->t->id + base;
	struct timeline *tl = p->line.tl;
	struct reading reading = {p, base};
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
		str_adds(&s->points, s->points.n ? "," : "");
		json_number(&s->points, s->nll + x, "%.6f");
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
	const char *kv = p->kvs.v[p->nth];
	double start = now_seconds();
	struct str what = {0}, result = {0};
	struct jv known;
	int rc;

	piece_begin(&p->pieces, "ppl", kv, ctx, &what);
	str_addf(&what, ",\"text\":\"%016llx\",\"tokens\":%zu,\"from\":%zu,\"stepwise\":%d",
	         (unsigned long long)piece_hash(s->t->id + base, n * sizeof *s->t->id), n, s->from < base + n ? s->from - base : n,
	         p->o->last > 0);
	if (s->curve)   /* where its points are: every so many, less those that were scored before */
		str_addf(&what, ",\"every\":%d,\"after\":%llu", s->curve, (unsigned long long)(s->scored % (uint64_t)s->curve));
	str_adds(&what, "}");
	if (pieces_get(&p->pieces, &what, &known) && !take_window(s, known)) {
		p->pieces.taken++;
		str_free(&what);
		return 0;
	}
	s->now = (struct window){ .nll = 0 };
	rc = eval_line_use(&p->line, kv, ctx, e);
	if (!rc)
		rc = score_window(p, s, base, n, e);
	if (!rc && s->now.bad)
		rc = err_set(e, ERR_FAIL, "the model gave probabilities that are no numbers; check the file with --check-tensors");
	if (!rc) {
		str_addf(&result, "{\"nll\":%.17g,\"scored\":%llu,\"read\":%llu,\"seconds\":%.3f", s->now.nll,
		         (unsigned long long)s->now.scored, (unsigned long long)timeline_read_bytes(p->line.tl, (int32_t)n - 1, 1),
		         now_seconds() - start);
		if (s->curve)
			str_addf(&result, ",\"curve\":[%s]", s->now.points.p ? s->now.points.p : "");
		str_adds(&result, "}");
		rc = pieces_put(&p->pieces, &what, &result, e);
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
	progress_init(&p->progress, o, "evaluating", "tokens");
	for (size_t base = 0; !rc && n - base >= window && base < n; base += window) {
		eval_line_fresh(&p->line);
		for (p->nth = 0; !rc && p->nth < p->kvs.n; p->nth++) {
			struct score *s = &p->score[p->nth];

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
		str_adds(out, "{");
		if (several) {
			str_adds(out, "\"file\":");
			str_add_json(out, file, strlen(file));
			str_addf(out, ",\"offset\":%d,\"kv\":", o->offset);
			str_add_json(out, p->kvs.v[k], strlen(p->kvs.v[k]));
			str_adds(out, ",");
		}
		str_addf(out, "\"tokens\":%zu,\"scored\":%llu,\"nll\":", s->t->n, (unsigned long long)s->scored);
		json_number(out, s->nll, "%.9g");
		str_adds(out, ",\"ppl\":");
		json_number(out, ppl, "%.9g");
		str_addf(out, ",\"bytes\":%llu,\"seconds\":", (unsigned long long)bytes);
		json_number(out, s->seconds, "%.3f");
		if (several)
			str_addf(out, ",\"read\":%.0f", s->read / s->windows);
		if (s->curve)
			str_addf(out, ",\"every\":%d,\"curve\":[%s]", s->curve, s->points.p ? s->points.p : "");
		str_adds(out, "}\n");
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
	eval_policies(o, &p.kvs);
	if (pieces_open(&p.pieces, o, &e) < 0)
		return fail(&e);
	rc = model_open(&p.engine, o, MODEL_RUN, &e);
	if (!rc)
		rc = pieces_model(&p.pieces, p.engine, &e);
	p.line = (struct eval_line){.o = o, .engine = p.engine};
	for (int i = 0; !rc && i < o->n_file; i++)
		rc = eval_text(&p, o->file[i], &e);
	eval_line_close(&p.line);
	engine_close(p.engine);
	pieces_close(&p.pieces);
	return rc < 0 ? fail(&e) : 0;
}
