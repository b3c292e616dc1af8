/* app/lab/plot.c - weir eval plot: pictures of a text.
 *
 * matrix: the attention matrix of one layer under every policy, put together token by token as Willette et al.
 * (Cascading KV Cache) do: row t is what token t could see and how much of its attention fell there. A policy's squares
 * stand side by side. span: how far back each policy reaches at the end of the text: the share of layers and KV heads
 * that keep a token, by its age. Of lines that other evaluations wrote, curves.c draws curves. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/lab/lab.h"
#include "app/lab/plot.h"
#include "app/lab/policies.h"
#include "engine/base/json.h"
#include "app/models/models.h"

#define TEXT_MAX ((size_t)64 << 20)
/* by default; pixels of a square at most; between squares */
enum { TOKENS = 512, SQUARE = 1024, GAP = 8, SPAN_POINTS = 128 };

/* ---- attention ---- */

/* A share of 1 is the brightest, one of 10^-4 or less the darkest. */
static uint8_t share_colour(float share)
{
	double at = share > 0 ? 1 + log10((double)share) / 4 : 0;

	return (uint8_t)(COLOUR_RAMP + lround((255 - COLOUR_RAMP) * (at < 0 ? 0 : MIN(1, at))));
}

struct matrix {
	const struct options *o;
	struct engine *engine;
	struct tokens text;
	struct policy_list kvs;
	struct picture picture;
	struct progress progress;
	int32_t layer, cell, side; /* tokens a pixel, pixels a square */
	float *p, *row;            /* [tokens]; [side] the brightest of a pixel's, -1 = nothing in sight */
	double seen[LIST_MAX];     /* pairs of tokens */
};

static void matrix_row(struct matrix *m, int k, int32_t t)
{
	int32_t y = t / m->cell, x0 = k * (m->side + GAP);

	if (t % m->cell == 0)
		for (int32_t x = 0; x < m->side; x++)
			m->row[x] = -1;
	for (int32_t i = 0; i <= t; i++) {
		float *cell = &m->row[i / m->cell];

		m->seen[k] += m->p[i] >= 0;
		*cell = m->p[i] > *cell ? m->p[i] : *cell;
	}
	for (int32_t x = 0; x < m->side; x++)
		picture_put(&m->picture, x0 + x, TOP + y,
		            x > y           ? COLOUR_LATER
		            : m->row[x] < 0 ? COLOUR_UNSEEN
		                            : share_colour(m->row[x]));
}

static int matrix_policy(struct matrix *m, int k, struct err *e)
{
	const struct options *o = m->o;
	struct timeline_options to = { .kv = m->kvs.v[k],
		                       .kv_type = o->kv_type,
		                       .kv_memory = o->kv_memory,
		                       .read_share = o->read_share,
		                       .batch = o->chunk,
		                       .ctx = o->ctx ? o->ctx : (int32_t)m->text.n + 1 };
	struct timeline *tl;
	int rc;

	if (timeline_open(&tl, m->engine, &to, e) < 0)
		return -1;
	signals_watch(tl);
	rc = 0;
	for (int32_t t = 0; !rc && t < (int32_t)m->text.n; t++) {
		rc = timeline_attention(tl, m->text.id[t], m->layer, o->head, m->p, e);
		if (!rc)
			matrix_row(m, k, t);
		progress_show(&m->progress, (int64_t)k * (int64_t)m->text.n + t + 1,
		              (int64_t)m->kvs.n * (int64_t)m->text.n);
	}
	signals_watch(NULL);
	timeline_close(tl);
	picture_text(&m->picture, k * (m->side + GAP), 2, m->side >= 256 ? 2 : 1, COLOUR_TEXT, m->kvs.v[k]);
	return rc;
}

static int matrix_report(struct matrix *m, struct err *e)
{
	double pairs = (double)m->text.n * ((double)m->text.n + 1) / 2;
	struct str s = { 0 };
	int rc;

	for (int k = 0; k < m->kvs.n; k++) {
		if (m->o->json) {
			json_open(&s, NULL, '{');
			json_string(&s, "task", "plot");
			json_string(&s, "kv", m->kvs.v[k]);
			json_int(&s, "layer", m->layer);
			json_int(&s, "head", m->o->head);
			json_uint(&s, "tokens", m->text.n);
			json_int(&s, "tokens_a_pixel", m->cell);
			json_real(&s, "seen", m->seen[k] / pairs, "%.6f");
			json_int(&s, "x", k * (m->side + GAP));
			json_int(&s, "y", TOP);
			json_int(&s, "side", m->side);
			json_string(&s, "picture", m->o->out);
			json_close(&s, '}');
			str_adds(&s, "\n");
		} else {
			str_addf(&s, "%s: %.1f %% of the pairs in sight\n", m->kvs.v[k], 100 * m->seen[k] / pairs);
		}
	}
	if (!m->o->json)
		str_addf(
			&s,
			"%s: layer %d, %zu tokens, %d a pixel; a row is a token, newer ones further down; black is out of sight, brightness the\n"
			"logarithm of its share of attention, from 0.0001 to 1\n",
			m->o->out, m->layer, m->text.n, m->cell);
	progress_clear(&m->progress);
	rc = print_json(&s, e);
	str_free(&s);
	return rc;
}

/* The model, and the part of the text that --offset and --tokens say: at most n tokens without the latter. */
static int drawn_text(struct engine **engine, const struct options *o, const struct str *text, size_t n,
                      struct tokens *t, struct err *e)
{
	size_t cut;
	int rc;

	if (model_open(engine, o, MODEL_RUN, e) < 0)
		return -1;
	rc = engine_tokenize(*engine, text->p, text->n, engine_info(*engine)->add_bos ? TOKENIZE_BOS : 0, t, e);
	cut = (size_t)o->offset < t->n ? (size_t)o->offset : t->n;
	n = o->tokens ? (size_t)o->tokens : n;
	t->n -= cut;
	if (t->n)
		memmove(t->id, t->id + cut, t->n * sizeof *t->id);
	t->n = MIN(t->n, n);
	if (!rc && t->n < 2)
		rc = err_set(e, ERR_USAGE, "the text has %zu tokens; 2 and more can be drawn", t->n);
	return rc;
}

static int plot_matrix(const struct options *o, const struct str *text, struct err *e)
{
	struct matrix m = { .o = o };
	int rc = drawn_text(&m.engine, o, text, TOKENS, &m.text, e);

	policies_compared(o, &m.kvs);
	m.layer = o->layer >= 0 || !m.engine ? o->layer : engine_info(m.engine)->n_layer / 2;
	m.cell = ((int32_t)m.text.n - 1) / SQUARE + 1;
	m.side = ((int32_t)m.text.n - 1) / m.cell + 1;
	if (!rc)
		rc = picture_init(&m.picture, m.kvs.n * (m.side + GAP) - GAP, TOP + m.side, e);
	if (!rc) {
		m.p = xcalloc(m.text.n + 1, sizeof *m.p);
		m.row = xcalloc((size_t)m.side, sizeof *m.row);
		colour_set(&m.picture, COLOUR_LATER, 48, 48, 48);
		colour_set(&m.picture, COLOUR_TEXT, 230, 230, 230);
		colour_ramp(&m.picture);
		progress_init(&m.progress, o->quiet, o->verbose, "drawing", "tokens");
	}
	for (int k = 0; !rc && k < m.kvs.n; k++)
		rc = matrix_policy(&m, k, e);
	if (!rc)
		rc = picture_write(&m.picture, o->out, e);
	if (!rc)
		rc = matrix_report(&m, e);
	progress_clear(&m.progress);
	picture_free(&m.picture);
	free(m.p);
	free(m.row);
	tokens_free(&m.text);
	engine_close(m.engine);
	return rc;
}

/* ---- span ---- */

/* How far back a policy reaches once the text was read. */
struct reach {
	double kept; /* mean share of a token */
	/* age of the oldest token that some head keeps, the first tokens of the text that all keep apart */
	int32_t span;
};

static struct reach reach_of(const uint8_t *kept, int32_t n)
{
	struct reach r = { .kept = 0 };
	int32_t i = 0;

	for (int32_t k = 0; k < n; k++)
		r.kept += kept[k] / 255.0 / n;
	while (i < n && kept[i] == 255)
		i++;
	if (i == n)
		i = 0; /* all are kept */
	while (i < n && !kept[i])
		i++;
	r.span = n - i;
	return r;
}

struct span_reading {
	struct matrix *m;
	int k;
};

static void show_reading(int32_t done, int32_t total, void *ud)
{
	struct span_reading *r = ud;

	progress_show(&r->m->progress, (int64_t)r->k * total + done, (int64_t)r->m->kvs.n * total);
}

/* Read the text under policy k, and ask which tokens are kept. */
static int span_policy(struct matrix *m, int k, struct curves *all, struct reach *reach, struct err *e)
{
	const char *kv = m->kvs.v[k];
	struct span_reading reading = { m, k };
	struct timeline_options to = { .kv = kv,
		                       .kv_type = m->o->kv_type,
		                       .kv_memory = m->o->kv_memory,
		                       .read_share = m->o->read_share,
		                       .batch = m->o->chunk,
		                       .ctx = m->o->ctx };
	int32_t n = (int32_t)m->text.n;
	uint8_t *kept;
	struct timeline *tl;
	struct curve *c;
	int rc;

	if (!to.ctx && !kv_policy_endless(kv))
		to.ctx = n + 1;
	if (timeline_open(&tl, m->engine, &to, e) < 0)
		return -1;
	signals_watch(tl);
	kept = xcalloc((size_t)n, 1);
	rc = timeline_sync(tl, m->text.id, m->text.n, show_reading, &reading, e) < 0 ? -1 : 0;
	if (!rc) {
		timeline_kept(tl, 0, n, kept);
		*reach = reach_of(kept, n);
		c = curves_new(all, kv, strlen(kv), m->cell, 0);
		for (int32_t age = 0; c && age < n; age += m->cell) {
			int32_t until = age + m->cell < n ? age + m->cell : n;
			double sum = 0;

			for (int32_t i = age; i < until; i++)
				sum += kept[n - 1 - i];
			curve_point(c, sum / 255 / (until - age));
		}
		if (c)
			curves_keep(all, 0);
	}
	free(kept);
	signals_watch(NULL);
	timeline_close(tl);
	return rc;
}

static int plot_span(const struct options *o, const struct str *text, struct err *e)
{
	struct matrix m = { .o = o };
	struct reach reach[LIST_MAX];
	struct curves all;
	struct str s = { 0 };
	int rc = drawn_text(&m.engine, o, text, SIZE_MAX, &m.text, e);

	policies_compared(o, &m.kvs);
	curves_init(&all);
	m.cell = (int32_t)(m.text.n / SPAN_POINTS) + 1;
	progress_init(&m.progress, o->quiet, o->verbose, "reading", "tokens");
	for (int k = 0; !rc && k < m.kvs.n; k++)
		rc = span_policy(&m, k, &all, &reach[k], e);
	progress_clear(&m.progress);
	if (!rc)
		rc = curves_write(&all, o->out, e);
	for (int k = 0; !rc && k < m.kvs.n; k++)
		if (o->json) {
			json_open(&s, NULL, '{');
			json_string(&s, "task", "plot");
			json_string(&s, "draw", "span");
			json_string(&s, "kv", m.kvs.v[k]);
			json_uint(&s, "tokens", m.text.n);
			json_int(&s, "span", reach[k].span);
			json_real(&s, "kept", reach[k].kept, "%.6f");
			json_close(&s, '}');
			str_adds(&s, "\n");
		} else {
			str_addf(&s, "%s: of %zu tokens read it reaches back %d, and keeps %.1f %%\n", m.kvs.v[k],
			         m.text.n, reach[k].span, 100 * reach[k].kept);
		}
	if (!rc)
		rc = print_json(&s, e);
	str_free(&s);
	curves_free(&all);
	tokens_free(&m.text);
	engine_close(m.engine);
	return rc;
}

int cmd_eval_plot(const struct options *o)
{
	struct str text = { 0 };
	struct err e = { 0 };
	int lines, of_text = o->draw && (!strcmp(o->draw, "matrix") || !strcmp(o->draw, "span")), rc;

	if (!o->n_file || !o->out) {
		err_set(&e, ERR_USAGE,
		        "'weir eval plot' wants a text FILE, or lines that an evaluation wrote with --json, and --out PICTURE.png");
		return fail(&e);
	}
	rc = read_whole(o->file[0], TEXT_MAX, &text, &e);
	lines = text.n && text.p[0] == '{';
	if (rc < 0)
		e.code = ERR_DOCUMENT;
	else if (o->draw && of_text == lines)
		rc = err_set(&e, ERR_USAGE, "--draw %s wants %s", o->draw,
		             of_text ? "a text" : "lines that an evaluation wrote with --json");
	else if (lines)
		rc = plot_lines(o, &text, &e);
	else
		rc = (o->draw && !strcmp(o->draw, "span") ? plot_span : plot_matrix)(o, &text, &e);
	str_free(&text);
	return rc < 0 ? fail(&e) : 0;
}
