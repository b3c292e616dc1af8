/* app/lab/plot.c - weir eval plot: pictures of what a layer attends to, and of what a policy keeps.
 *
 * `matrix` draws the attention matrix of one layer under every policy, side by side in one grey picture. Row t shows
 * the attention that token t pays to each earlier token (after Willette et al., Cascading KV Cache). `span` draws, for
 * each of the last tokens, the share of layers and KV heads that still have its KV entry. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/conversation/conversation.h"
#include "app/lab/lab.h"
#include "app/lab/policies.h"
#include "app/models/models.h"
#include "engine/base/json.h"
#include "engine/engine_view.h"

#define TEXT_MAX ((size_t)64 << 20)
/* TOKENS is the number of tokens in a matrix if --tokens is not given. SQUARE is the maximum width of a matrix in
 * pixels. GAP is the number of pixels between matrices. SPAN_POINTS is the number of token ages in the output of
 * `span`. */
enum { TOKENS = 512, SQUARE = 1024, GAP = 8, SPAN_POINTS = 128 };

struct plot {
	const struct options *o;
	struct engine *engine;
	struct tokens text;
	struct policy_list kvs;
	struct progress progress;
	int32_t cell;    /* number of tokens for which one pixel of a matrix, or one point of a span, stands */
	struct str said; /* lines of output so far */
};

/* Open the model, and tokenize the part of the text given by --offset and --tokens. Without --tokens, the part has n
 * tokens. */
static int plot_open(struct plot *p, const struct options *o, const struct str *text, size_t n, struct err *e)
{
	struct tokens *t = &p->text;
	size_t cut;
	int rc;

	*p = (struct plot){ .o = o };
	policies_compared(o, &p->kvs);
	if (model_open(&p->engine, o, MODEL_RUN, e) < 0)
		return -1;
	rc = engine_tokenize(p->engine, text->p, text->n, engine_info(p->engine)->add_bos ? TOKENIZE_BOS : 0, t, e);
	cut = MIN((size_t)lab_of(o)->offset, t->n);
	t->n -= cut;
	if (t->n)
		memmove(t->id, t->id + cut, t->n * sizeof *t->id);
	t->n = MIN(t->n, lab_of(o)->tokens ? (size_t)lab_of(o)->tokens : n);
	if (!rc && t->n < 2)
		rc = err_set(e, ERR_USAGE, "the text has %zu tokens; 2 and more can be drawn", t->n);
	return rc;
}

static void plot_close(struct plot *p)
{
	progress_clear(&p->progress);
	str_free(&p->said);
	tokens_free(&p->text);
	engine_close(p->engine);
}

/* Open a timeline with policy number k. If the user has not given --ctx, the context size is `ctx` tokens; if `ctx` is
 * 0, it is the policy's default. */
static int plot_timeline(struct timeline **tl, const struct plot *p, int k, int32_t ctx, struct err *e)
{
	const struct options *o = p->o;
	struct timeline_options to = { .kv = p->kvs.v[k],
		                       .kv_type = o->kv_type,
		                       .kv_memory = o->kv_memory,
		                       .read_share = o->read_share,
		                       .batch = o->chunk,
		                       .ctx = o->ctx ? o->ctx : ctx };

	if (timeline_open(tl, p->engine, &to, e) < 0)
		return -1;
	signals_watch(*tl);
	return 0;
}

static void plot_timeline_close(struct timeline *tl)
{
	signals_watch(NULL);
	timeline_close(tl);
}

/* ---- attention ---- */

struct matrix {
	struct plot plot;
	int32_t layer, side, w; /* in pixels: the side of a matrix, and the width of the picture */
	uint8_t *grey;          /* the picture, [side][w]; 0 = no head read the token, or the token comes later */
	float *p;               /* [tokens] shares of attention of the current token; -1 = no head read it */
	/* [side] for each pixel of a row, the largest share of attention; -1 = no head read any of its tokens */
	float *row;
	double seen; /* number of pairs (token, token that it read) in the current matrix */
};

/* Return the grey value of a share of attention: 255 for 1, 1 for 10^-4 and less, logarithmic in between. */
static uint8_t share_grey(float share)
{
	double at = share > 0 ? 1 + log10((double)share) / 4 : 0;

	return (uint8_t)(1 + lround(254 * (at < 0 ? 0 : MIN(1, at))));
}

/* Add the attention of token t to the matrix of policy number k. m->p has the token's attention shares. If one pixel
 * stands for several tokens, it shows the largest share. */
static void matrix_row(struct matrix *m, int k, int32_t t)
{
	int32_t cell = m->plot.cell, y = t / cell;
	uint8_t *grey = m->grey + (size_t)y * (size_t)m->w + k * (m->side + GAP);

	if (t % cell == 0)
		for (int32_t x = 0; x < m->side; x++)
			m->row[x] = -1;
	for (int32_t i = 0; i <= t; i++) {
		m->seen += m->p[i] >= 0;
		m->row[i / cell] = MAX(m->p[i], m->row[i / cell]);
	}
	for (int32_t x = 0; x <= y; x++)
		grey[x] = m->row[x] < 0 ? 0 : share_grey(m->row[x]);
}

/* Append the output line about the matrix of policy number k. */
static void matrix_say(struct matrix *m, int k)
{
	const struct options *o = m->plot.o;
	const char *kv = m->plot.kvs.v[k];
	double n = (double)m->plot.text.n, seen = m->seen / (n * (n + 1) / 2);
	struct str *s = &m->plot.said;

	if (!o->json) {
		str_addf(s, "%s: %.1f %% of the pairs in sight\n", kv, 100 * seen);
		return;
	}
	json_open(s, NULL, '{');
	json_string(s, "task", "plot");
	json_string(s, "draw", "matrix");
	json_string(s, "kv", kv);
	json_int(s, "layer", m->layer);
	json_int(s, "head", lab_of(o)->head);
	json_uint(s, "tokens", m->plot.text.n);
	json_int(s, "tokens_a_pixel", m->plot.cell);
	json_real(s, "seen", seen, "%.6f");
	json_int(s, "x", k * (m->side + GAP));
	json_int(s, "side", m->side);
	json_string(s, "picture", o->out);
	json_close(s, '}');
	str_adds(s, "\n");
}

static int matrix_policy(struct matrix *m, int k, struct err *e)
{
	struct plot *p = &m->plot;
	int32_t n = (int32_t)p->text.n;
	struct timeline *tl;
	int rc = 0;

	if (plot_timeline(&tl, p, k, n + 1, e) < 0)
		return -1;
	m->seen = 0;
	for (int32_t t = 0; !rc && t < n; t++) {
		rc = timeline_attention(tl, p->text.id[t], m->layer, lab_of(p->o)->head, m->p, e);
		if (!rc)
			matrix_row(m, k, t);
		progress_show(&p->progress, (int64_t)k * n + t + 1, (int64_t)p->kvs.n * n);
	}
	plot_timeline_close(tl);
	if (!rc)
		matrix_say(m, k);
	return rc;
}

static int pgm_write(const struct matrix *m, const char *path, struct err *e)
{
	FILE *f = fopen(path, "wbe");
	size_t n = (size_t)m->w * (size_t)m->side;
	int failed = !f || fprintf(f, "P5\n%d %d\n255\n", m->w, m->side) < 0 || fwrite(m->grey, 1, n, f) != n;

	if (f && fclose(f))
		failed = 1;
	return failed ? err_set(e, ERR_FAIL, "cannot write '%s': %s", path, strerror(errno)) : 0;
}

static int plot_matrix(const struct options *o, const struct str *text, struct err *e)
{
	struct matrix m = { .layer = lab_of(o)->layer };
	struct plot *p = &m.plot;
	int rc = o->out ? plot_open(p, o, text, TOKENS, e)
	                : err_set(e, ERR_USAGE, "the attention matrix is a picture: say where by --out PICTURE.pgm");

	if (!rc) {
		m.layer = lab_of(o)->layer >= 0 ? lab_of(o)->layer : engine_info(p->engine)->n_layer / 2;
		p->cell = ((int32_t)p->text.n - 1) / SQUARE + 1;
		m.side = ((int32_t)p->text.n - 1) / p->cell + 1;
		m.w = p->kvs.n * (m.side + GAP) - GAP;
		m.grey = try_alloc((size_t)m.w * (size_t)m.side, 1, "a picture", e);
		m.p = xcalloc(p->text.n + 1, sizeof *m.p);
		m.row = xcalloc((size_t)m.side, sizeof *m.row);
		rc = m.grey ? 0 : -1;
		progress_init(&p->progress, o->quiet, o->verbose, "drawing", "tokens");
	}
	for (int k = 0; !rc && k < p->kvs.n; k++)
		rc = matrix_policy(&m, k, e);
	if (!rc)
		rc = pgm_write(&m, o->out, e);
	if (!rc && !o->json)
		str_addf(
			&p->said,
			"%s: layer %d, %zu tokens, %d a pixel; a row is a token, newer ones further down; black is out of sight, brightness the\n"
			"logarithm of its share of attention, from 0.0001 to 1\n",
			o->out, m.layer, p->text.n, p->cell);
	progress_clear(&p->progress);
	if (!rc)
		rc = print_json(&p->said, e);
	free(m.grey);
	free(m.p);
	free(m.row);
	plot_close(p);
	return rc;
}

/* ---- span ---- */

/* Return the age of the oldest token that at least one KV head has kept. Attention sinks do not count. (They are the
 * tokens at the beginning of the text that all heads have kept.) For kept[n], see span_say(). */
static int32_t span_of(const uint8_t *kept, int32_t n)
{
	int32_t i = 0;

	while (i < n && kept[i] == 255)
		i++;
	if (i == n)
		i = 0; /* all heads have kept all tokens: count the tokens, because they are not attention sinks */
	while (i < n && !kept[i])
		i++;
	return n - i;
}

/* Append the output line of policy number k. kept[i] is the share of layers and KV heads that have kept token i, scaled
 * to a number from 0 to 255. */
static void span_say(struct plot *p, int k, const uint8_t *kept, int32_t n)
{
	const char *kv = p->kvs.v[k];
	struct str *s = &p->said;
	double sum = 0;

	for (int32_t i = 0; i < n; i++)
		sum += kept[i] / 255.0 / n;
	if (!p->o->json) {
		str_addf(s, "%s: of %d tokens read it reaches back %d, and keeps %.1f %%\n", kv, n, span_of(kept, n),
		         100 * sum);
		return;
	}
	json_open(s, NULL, '{');
	json_string(s, "task", "plot");
	json_string(s, "draw", "span");
	json_string(s, "kv", kv);
	json_int(s, "tokens", n);
	json_int(s, "span", span_of(kept, n));
	json_real(s, "kept", sum, "%.6f");
	json_int(s, "every", p->cell);
	json_open(s, "ages", '[');
	for (int32_t age = 0; age < n; age += p->cell) {
		int32_t until = MIN(age + p->cell, n);

		sum = 0;
		for (int32_t i = age; i < until; i++)
			sum += kept[n - 1 - i];
		json_real(s, NULL, sum / 255 / (until - age), "%.5f");
	}
	json_close(s, ']');
	json_close(s, '}');
	str_adds(s, "\n");
}

/* Argument of show_reading(), which updates the progress line while policy k prefills. */
struct span_reading {
	struct plot *plot;
	int k;
};

static void show_reading(int32_t done, int32_t total, void *ud)
{
	struct span_reading *r = ud;

	progress_show(&r->plot->progress, (int64_t)r->k * total + done, (int64_t)r->plot->kvs.n * total);
}

static int span_policy(struct plot *p, int k, struct err *e)
{
	struct span_reading reading = { p, k };
	int32_t n = (int32_t)p->text.n;
	uint8_t *kept;
	struct timeline *tl;
	int rc;

	if (plot_timeline(&tl, p, k, kv_policy_endless(p->kvs.v[k]) ? 0 : n + 1, e) < 0)
		return -1;
	kept = xcalloc((size_t)n, 1);
	rc = timeline_sync(tl, p->text.id, p->text.n, show_reading, &reading, e) < 0 ? -1 : 0;
	if (!rc) {
		timeline_kept(tl, 0, n, kept);
		span_say(p, k, kept, n);
	}
	free(kept);
	plot_timeline_close(tl);
	return rc;
}

static int plot_span(const struct options *o, const struct str *text, struct err *e)
{
	struct plot p = { .o = o };
	int rc = o->out ? err_set(e, ERR_USAGE,
	                          "a span is no picture: write lines by --json, which share/weir/plot.py draws")
	                : plot_open(&p, o, text, SIZE_MAX, e);

	p.cell = (int32_t)(p.text.n / SPAN_POINTS) + 1;
	progress_init(&p.progress, o->quiet, o->verbose, "reading", "tokens");
	for (int k = 0; !rc && k < p.kvs.n; k++)
		rc = span_policy(&p, k, e);
	progress_clear(&p.progress);
	if (!rc)
		rc = print_json(&p.said, e);
	plot_close(&p);
	return rc;
}

int cmd_eval_plot(const struct options *o)
{
	int span = lab_of(o)->draw && !strcmp(lab_of(o)->draw, "span"), rc;
	struct str text = { 0 };
	struct err e = { 0 };

	if (!o->n_file) {
		err_set(&e, ERR_USAGE, "'weir eval plot' wants a text FILE");
		return fail(&e);
	}
	rc = read_whole(o->file[0], TEXT_MAX, &text, &e);
	if (rc < 0)
		e.code = ERR_DOCUMENT;
	else if (text.n && text.p[0] == '{')
		rc = err_set(
			&e, ERR_USAGE,
			"'weir eval plot' wants a text; share/weir/plot.py draws lines that an evaluation wrote by --json");
	else
		rc = (span ? plot_span : plot_matrix)(o, &text, &e);
	str_free(&text);
	return rc < 0 ? fail(&e) : 0;
}
