/* app/lab/window.c - see window.h. */
#include "app/lab/window.h"
#include "app/lab/lab.h"

#include <math.h>

#define TEXT_MAX (1u << 30)
enum { SLICE = 512 }; /* approximate number of tokens between two updates of the progress line */

int text_windows(struct text_windows *w, const struct engine *engine, const struct options *o, const char *path,
                 int32_t window, struct err *e)
{
	struct str text = { 0 };
	int rc = read_whole(path, TEXT_MAX, &text, e);
	size_t end, most;

	*w = (struct text_windows){ .first = (size_t)lab_of(o)->offset };
	if (rc < 0 && e)
		e->code = ERR_DOCUMENT;
	if (!rc)
		rc = engine_tokenize(engine, str_text(&text), text.n, engine_info(engine)->add_bos ? TOKENIZE_BOS : 0,
		                     &w->t, e);
	str_free(&text);
	end = lab_of(o)->tokens && w->first < w->t.n && (size_t)lab_of(o)->tokens < w->t.n - w->first
	              ? w->first + (size_t)lab_of(o)->tokens
	              : w->t.n;
	if (!rc && (w->first >= end || end - w->first < (size_t)window))
		rc = err_set(e, ERR_USAGE, "'%.200s' has %zu tokens from %zu on, one window takes %d", path,
		             w->first < end ? end - w->first : 0, w->first, window);
	if (rc)
		return rc;
	most = (end - w->first) / (size_t)window;
	w->n = most < (size_t)lab_of(o)->samples ? (int)most : lab_of(o)->samples;
	w->step = (end - w->first) / (size_t)w->n;
	return 0;
}

/* A window that is being scored. */
struct scoring {
	struct window *w;
	struct timeline *tl;
	int32_t n_vocab;
	int bad;           /* 1 = a probability was not a number */
	struct str points; /* window.curve, while it grows */
	void (*show)(size_t done, void *ud);
	void *ud;
};

/* Score the token at position pos + 1 by the logits at position pos. */
static void score_token(int32_t pos, const float *logits, void *ud)
{
	struct scoring *s = ud;
	struct window *w = s->w;
	size_t next = (size_t)pos + 1;
	double lp;

	if (next < w->from || next >= w->n)
		return;
	lp = engine_logprob(logits, s->n_vocab, w->id[next]);
	if (!isfinite(lp))
		s->bad = 1;
	w->nll -= lp;
	w->scored++;
	if (w->every && ((uint64_t)w->after + w->scored) % (uint64_t)w->every == 0)
		json_real(&s->points, NULL, w->nll, "%.17g");
}

static void show_reading(int32_t done, int32_t total, void *ud)
{
	struct scoring *s = ud;

	(void)total;
	if (s->show)
		s->show((size_t)done, s->ud);
}

static int window_run(struct scoring *s, struct err *e)
{
	struct window *w = s->w;
	struct timeline_stats st;
	size_t at = w->from, slice;

	if (w->from >= w->n)
		return 0;
	timeline_stats(s->tl, &st);
	slice = st.batch > 0 && st.batch < SLICE ? (size_t)(SLICE / st.batch * st.batch)
	        : st.batch > 0                   ? (size_t)st.batch
	                                         : SLICE;
	/* The logits of token i - 1 predict token i. So scoring begins with the chunk that contains the token just
	 * before token number w->from. Earlier chunks are only prefilled. */
	if (!w->stepwise)
		at = (at - 1) / slice * slice;
	if (timeline_sync(s->tl, w->id, at, show_reading, s, e) < 0)
		return -1;
	if (w->stepwise)
		score_token((int32_t)at - 1, timeline_logits(s->tl), s);
	while (at < w->n - 1) { /* the last token is not computed, because no token after it is scored */
		size_t step = w->n - 1 - at < slice ? w->n - 1 - at : slice;

		if (timeline_extend(s->tl, w->id + at, step, w->stepwise, score_token, s, e) < 0)
			return -1;
		at += step;
		if (s->show)
			s->show(at, s->ud);
	}
	if (s->bad)
		return err_set(e, ERR_FAIL,
		               "the model gave probabilities that are no numbers; check the file with --check-tensors");
	return 0;
}

/* Set the window's results from a stored result. Returns 0, or -1 if the stored object is not the result of a
 * window. */
static int result_take(struct window *w, struct jv result)
{
	double nll, scored, read, seconds, x;
	struct jv curve = jv_get(result, "curve"), point = { 0 };

	if (jv_number(jv_get(result, "nll"), &nll) < 0 || jv_number(jv_get(result, "scored"), &scored) < 0 ||
	    jv_number(jv_get(result, "read"), &read) < 0 || jv_number(jv_get(result, "seconds"), &seconds) < 0 ||
	    scored < 0 || scored > INT32_MAX)
		return -1;
	while (jv_next(curve, &point, NULL))
		if (jv_number(point, &x) < 0)
			return -1;
	w->nll = nll;
	w->scored = (uint64_t)scored;
	w->read = read;
	w->seconds = seconds;
	str_clear(&w->curve);
	if (curve.p)
		str_add(&w->curve, curve.p, (size_t)(curve.end - curve.p));
	return 0;
}

int window_score(struct window *w, const char *kv, int32_t ctx, struct shared_timeline *line, struct checkpoint *c,
                 void (*show)(size_t done, void *ud), void *ud, struct err *e)
{
	struct scoring s = { .w = w, .n_vocab = engine_info(line->engine)->n_vocab, .show = show, .ud = ud };
	double start = now_seconds();
	struct str what = { 0 }, result = { 0 };
	struct jv known;
	int rc;

	checkpoint_key(c, "ppl", kv, ctx, &what);
	json_hash(&what, "text", checkpoint_hash(w->id, w->n * sizeof *w->id));
	json_uint(&what, "tokens", w->n);
	json_uint(&what, "from", MIN(w->from, w->n));
	json_int(&what, "stepwise", w->stepwise);
	/* The result also has the points of the loss curve. They depend on `every` and `after`, so the key needs these,
	 * too. */
	if (w->every) {
		json_int(&what, "every", w->every);
		json_int(&what, "after", w->after);
	}
	json_close(&what, '}');
	if (checkpoint_get(c, &what, &known) && !result_take(w, known)) {
		c->taken++;
		str_free(&what);
		return 0;
	}
	w->nll = 0;
	w->scored = 0;
	rc = shared_timeline_use(line, kv, ctx, e);
	s.tl = line->tl;
	if (!rc)
		rc = window_run(&s, e);
	if (!rc) {
		json_open(&result, NULL, '{');
		json_real(&result, "nll", w->nll, "%.17g");
		json_uint(&result, "scored", w->scored);
		json_uint(&result, "read", timeline_read_bytes(line->tl, (int32_t)w->n - 1, 1));
		json_real(&result, "seconds", now_seconds() - start, "%.3f");
		if (w->every)
			json_list(&result, "curve", &s.points);
		json_close(&result, '}');
		rc = checkpoint_put(c, &what, &result, e);
		if (!rc && result_take(w, jv_parse(result.p, result.n)) < 0)
			rc = err_set(
				e, ERR_FAIL,
				"the model gave probabilities that are no numbers; check the file with --check-tensors");
	}
	str_free(&s.points);
	str_free(&what);
	str_free(&result);
	return rc;
}

void window_free(struct window *w)
{
	str_free(&w->curve);
}
