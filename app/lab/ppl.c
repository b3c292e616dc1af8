/* app/lab/ppl.c - weir eval ppl: perplexity of texts under every policy.
 *
 * Without --window, the whole text is one sequence. With --window, the text is split into windows that do not overlap,
 * and each window begins with an empty cache. The tokens of a window from index --skip on are scored while they are
 * prefilled in chunks. With --last N, only the last N tokens are scored, one at a time, as if they were generated.
 * --resume stores a result for each policy and window. */
#include "app/lab/lab.h"
#include "app/lab/checkpoint.h"
#include "app/lab/policies.h"
#include "app/lab/window.h"
#include "app/models/models.h"

#include <math.h>

#define TEXT_MAX (1u << 30)

/* Sums over the windows of one text, under one policy. */
struct score {
	double nll, seconds; /* sums over all windows */
	/* sum over all windows: number of bytes of the cache that are read for a token generated at the end of the
	 * window */
	double read;
	int windows;
	uint64_t scored;   /* number of scored tokens */
	int32_t curve;     /* number of scored tokens between two points of the curve; 0 = there is no curve */
	struct str points; /* JSON list of the nll at each point of the curve */
};

struct ppl {
	const struct options *o;
	struct engine *engine;
	struct shared_timeline line;
	struct checkpoint checkpoint;
	struct policy_list kvs;
	int order[LIST_MAX];          /* the order in which the policies run */
	struct score score[LIST_MAX]; /* [kvs.n] sums of each policy */
	struct progress progress;
	size_t text_tokens, base; /* number of tokens of the text; index of the current window's first token */
	int nth;                  /* index in order[] of the current policy */
};

static void reading_show(size_t at, void *ud)
{
	struct ppl *p = ud;

	progress_show(&p->progress, (int64_t)(p->text_tokens * (size_t)p->nth + p->base + at),
	              (int64_t)(p->text_tokens * (size_t)p->kvs.n));
}

/* Add a window's result to the sums. */
static void add_window(struct score *s, const struct window *w)
{
	struct jv curve = jv_parse(w->curve.p, w->curve.n), point = { 0 };
	double x;

	while (jv_next(curve, &point, NULL))
		if (jv_number(point, &x) == 0)
			json_real(&s->points, NULL, s->nll + x, "%.6f");
	s->nll += w->nll;
	s->scored += w->scored;
	s->read += w->read;
	s->seconds += w->seconds;
	s->windows++;
}

static int score_text(struct ppl *p, const struct tokens *t, struct err *e)
{
	const struct options *o = p->o;
	size_t n = t->n, window = lab_of(o)->window ? (size_t)lab_of(o)->window : n, from = (size_t)lab_of(o)->skip,
	       ctx = MIN(window, n);
	int rc = 0;

	if (lab_of(o)->last && (size_t)lab_of(o)->last < window && window - (size_t)lab_of(o)->last > from)
		from = window - (size_t)lab_of(o)->last;
	p->text_tokens = n;
	progress_init(&p->progress, o->quiet, o->verbose, "evaluating", "tokens");
	for (size_t base = 0; !rc && n - base >= window && base < n; base += window) {
		shared_timeline_fresh(&p->line);
		for (p->nth = 0; !rc && p->nth < p->kvs.n; p->nth++) {
			int k = p->order[p->nth];
			struct score *s = &p->score[k];
			struct window w = {
				.id = t->id + base,
				.n = window,
				.from = from,
				.stepwise = lab_of(o)->last > 0,
				.every = s->curve,
				.after = s->curve ? (int32_t)(s->scored % (uint64_t)s->curve) : 0,
			};

			p->base = base;
			rc = window_score(&w, p->kvs.v[k], (int32_t)ctx, &p->line, &p->checkpoint, reading_show, p, e);
			if (!rc)
				add_window(s, &w);
			window_free(&w);
		}
	}
	progress_clear(&p->progress);
	if (!rc && !p->score[0].scored)
		rc = err_set(e, ERR_USAGE,
		             "nothing to score: the text has %zu tokens, %s %zu, and scoring starts at token %d", n,
		             lab_of(o)->window ? "the window is" : "one stream of", window, lab_of(o)->skip);
	return rc;
}

/* Return how many bytes of text the tokens have. */
static uint64_t covered_bytes(const struct engine *engine, const struct tokens *t)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < t->n; i++)
		bytes += engine_piece(engine, t->id[i], 0, NULL, 0);
	return bytes;
}

static void report(const struct ppl *p, int k, const struct tokens *t, const char *file, uint64_t bytes,
                   struct str *out)
{
	const struct options *o = p->o;
	const struct score *s = &p->score[k];
	double ppl = exp(s->nll / (double)s->scored);
	int several = o->n_file > 1 || p->kvs.n > 1 || lab_of(o)->offset;

	if (o->json) {
		json_open(out, NULL, '{');
		if (several) {
			json_string(out, "file", file);
			json_int(out, "offset", lab_of(o)->offset);
			json_string(out, "kv", p->kvs.v[k]);
		}
		json_uint(out, "tokens", t->n);
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
		str_addf(out, "%s%s, from token %d, under %s\n", k ? "\n" : "", file, lab_of(o)->offset, p->kvs.v[k]);
	str_addf(out,
	         "tokens      %zu of %llu bytes\nscored      %llu\nnll         %.4f nats, %.6f a token\n"
	         "perplexity  %.6f\nseconds     %.1f\n",
	         t->n, (unsigned long long)bytes, (unsigned long long)s->scored, s->nll, s->nll / (double)s->scored,
	         ppl, s->seconds);
}

static int eval_text(struct ppl *p, const char *file, struct err *e)
{
	const struct options *o = p->o;
	const struct engine_info *info = engine_info(p->engine);
	struct str text = { 0 }, out = { 0 };
	struct tokens t = { 0 }, part;
	uint64_t bytes;
	int rc = read_whole(file, TEXT_MAX, &text, e), cut;

	if (rc < 0) {
		e->code = ERR_DOCUMENT;
		str_free(&text);
		return rc;
	}
	bytes = text.n;
	rc = engine_tokenize(p->engine, str_text(&text), text.n, info->add_bos ? TOKENIZE_BOS : 0, &t, e);
	str_free(&text);
	cut = (size_t)lab_of(o)->offset < t.n ? lab_of(o)->offset : (int)t.n;
	part = (struct tokens){ .id = t.id ? t.id + cut : NULL, .n = t.n - (size_t)cut };
	if (lab_of(o)->tokens && (size_t)lab_of(o)->tokens < part.n)
		part.n = (size_t)lab_of(o)->tokens;
	if (part.n < t.n)
		bytes = covered_bytes(p->engine, &part);
	if (!rc && (part.n < 2 || part.n > INT32_MAX))
		rc = err_set(e, ERR_USAGE, "the text has %zu tokens; 2 to %d can be evaluated", part.n, INT32_MAX);
	for (int k = 0; k < p->kvs.n; k++)
		p->score[k] = (struct score){ .curve = lab_of(o)->curve };
	if (!rc)
		rc = score_text(p, &part, e);
	for (int k = 0; k < p->kvs.n; k++) {
		if (!rc)
			report(p, k, &part, file, bytes, &out);
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
	struct ppl p = { .o = o };
	struct err e = { 0 };
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
	p.line = (struct shared_timeline){ .o = o, .engine = p.engine };
	for (int i = 0; !rc && i < o->n_file; i++)
		rc = eval_text(&p, o->file[i], &e);
	shared_timeline_close(&p.line);
	engine_close(p.engine);
	checkpoint_close(&p.checkpoint);
	return rc < 0 ? fail(&e) : 0;
}
