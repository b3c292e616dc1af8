/* app/eval/plot.c - weir eval plot: pictures.
 *
 * Of a text: the attention matrix of one layer under every policy, put together token by token as Willette et al. (Cascading KV
 * Cache) do: row t is what token t could see and how much of its attention fell there.  A policy's squares stand side by side.
 * Of lines that `eval ppl --curve --json` wrote: the running mean of the perplexity over the tokens, a curve a line. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/eval/eval.h"
#include "app/eval/picture.h"
#include "app/eval/policies.h"

#define TEXT_MAX ((size_t)64 << 20)
enum {
	TOKENS = 512, SQUARE = 1024,        /* by default; pixels of a square at most */
	GAP = 8, TOP = 14,
	COLOUR_UNSEEN = 0, COLOUR_LATER, COLOUR_TEXT, COLOUR_FRAME, COLOUR_CURVE, COLOUR_CURVES = 8, COLOUR_RAMP = 16,   /* .. 255 */
	WIDE = 960, HIGH = 600, LEFT = 64, BELOW = 32, RIGHT = 16,
};

/* ---- colours ---- */

static void colour_set(struct picture *p, int i, int r, int g, int b)
{
	p->rgb[i][0] = (uint8_t)r;
	p->rgb[i][1] = (uint8_t)g;
	p->rgb[i][2] = (uint8_t)b;
}

/* Black, blue, red, yellow, white: brighter all the way, so that it can be read without its colours, too. */
static void colour_ramp(struct picture *p)
{
	static const uint8_t stop[][3] = { { 20, 12, 70 }, { 90, 20, 130 }, { 190, 50, 90 }, { 245, 140, 40 }, { 250, 225, 110 }, { 255, 255, 255 } };
	enum { STOPS = sizeof stop / sizeof *stop - 1 };

	for (int i = COLOUR_RAMP; i < 256; i++) {
		double at = (double)(i - COLOUR_RAMP) * STOPS / (255 - COLOUR_RAMP), part;
		int k = at >= STOPS ? STOPS - 1 : (int)at;

		part = at - k;
		for (int c = 0; c < 3; c++)
			p->rgb[i][c] = (uint8_t)lround(stop[k][c] + part * (stop[k + 1][c] - stop[k][c]));
	}
}

/* A share of 1 is the brightest, one of 10^-4 or less the darkest. */
static uint8_t share_colour(float share)
{
	double at = share > 0 ? 1 + log10((double)share) / 4 : 0;

	return (uint8_t)(COLOUR_RAMP + lround((255 - COLOUR_RAMP) * (at < 0 ? 0 : at > 1 ? 1 : at)));
}

/* ---- attention ---- */

struct matrix {
	const struct options *o;
	struct engine *engine;
	struct tokens text;
	struct policy_list kvs;
	struct picture picture;
	struct progress progress;
	int32_t layer, cell, side;          /* tokens a pixel, pixels a square */
	float *p, *row;                     /* [tokens]; [side] the brightest of a pixel's, -1 = nothing in sight */
	double seen[LIST_MAX];              /* pairs of tokens */
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
		picture_put(&m->picture, x0 + x, TOP + y, x > y ? COLOUR_LATER : m->row[x] < 0 ? COLOUR_UNSEEN : share_colour(m->row[x]));
}

static int matrix_policy(struct matrix *m, int k, struct err *e)
{
	const struct options *o = m->o;
	struct timeline_options to = { .kv = m->kvs.v[k], .kv_type = o->kv_type, .kv_memory = o->kv_memory, .batch = o->chunk, .ctx = o->ctx ? o->ctx : (int32_t)m->text.n + 1 };
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
		progress_show(&m->progress, (int64_t)k * (int64_t)m->text.n + t + 1, (int64_t)m->kvs.n * (int64_t)m->text.n);
	}
	signals_watch(NULL);
	timeline_close(tl);
	picture_text(&m->picture, k * (m->side + GAP), 2, m->side >= 256 ? 2 : 1, COLOUR_TEXT, m->kvs.v[k]);
	return rc;
}

static int matrix_report(struct matrix *m, struct err *e)
{
	double pairs = (double)m->text.n * ((double)m->text.n + 1) / 2;
	struct str s = {0};
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
		str_addf(&s, "%s: layer %d, %zu tokens, %d a pixel; a row is a token, newer ones further down; black is out of sight, brightness the\n"
		         "logarithm of its share of attention, from 0.0001 to 1\n", m->o->out, m->layer, m->text.n, m->cell);
	progress_clear(&m->progress);
	rc = print_json(&s, e);
	str_free(&s);
	return rc;
}

static int plot_matrix(const struct options *o, const struct str *text, struct err *e)
{
	struct matrix m = { .o = o };
	size_t cut, n;
	int rc;

	policies_compared(o, &m.kvs);
	if (model_open(&m.engine, o, MODEL_RUN, e) < 0)
		return -1;
	m.layer = o->layer >= 0 ? o->layer : engine_info(m.engine)->n_layer / 2;
	rc = engine_tokenize(m.engine, text->p, text->n, engine_info(m.engine)->add_bos ? TOKENIZE_BOS : 0, &m.text, e);
	cut = (size_t)o->offset < m.text.n ? (size_t)o->offset : m.text.n;
	n = o->tokens ? (size_t)o->tokens : TOKENS;
	m.text.n -= cut;
	if (m.text.n)
		memmove(m.text.id, m.text.id + cut, m.text.n * sizeof *m.text.id);
	m.text.n = m.text.n < n ? m.text.n : n;
	if (!rc && m.text.n < 2)
		rc = err_set(e, ERR_USAGE, "the text has %zu tokens; 2 and more can be drawn", m.text.n);
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

/* ---- curves ---- */

struct curve { struct str name; double *y; int32_t n, every; };
struct curves { struct curve c[COLOUR_CURVES]; int n, more; double low, high, right; };

/* One line of `eval ppl --curve --json`; others have no curve. */
static void curve_add(struct curves *all, struct jv line, const char *file)
{
	struct jv list = jv_get(line, "curve"), it = {0};
	struct curve *c = &all->c[all->n];
	double every = 0;

	if (!list.p || jv_number(jv_get(line, "every"), &every) < 0 || !(every >= 1 && every <= INT32_MAX))
		return;
	if (all->n == COLOUR_CURVES) {
		all->more++;
		return;
	}
	*c = (struct curve){ .every = (int32_t)every };
	while (jv_next(list, &it, NULL)) {
		double sum, mean;

		if (jv_number(it, &sum) < 0)
			break;
		if (c->n % 256 == 0)
			c->y = xrealloc(c->y, ((size_t)c->n + 256) * sizeof *c->y);
		mean = exp(sum / ((c->n + 1) * every));
		c->y[c->n++] = mean;
	}
	/* The beginning of a running mean says little and goes far: it does not set the scale, unless there is nothing else. */
	for (int32_t i = c->n > 3 ? 2 : 0; i < c->n; i++)
		if (isfinite(c->y[i])) {
			all->low = c->y[i] < all->low ? c->y[i] : all->low;
			all->high = c->y[i] > all->high ? c->y[i] : all->high;
		}
	if (jv_text(jv_get(line, "kv"), &c->name) < 0)
		str_adds(&c->name, file);
	if (c->n * every > all->right)
		all->right = c->n * every;
	all->n += c->n > 1;
	if (c->n < 2) {
		free(c->y);
		str_free(&c->name);
	}
}

static int32_t place(double v, double from, double to, int32_t p0, int32_t p1)
{
	double at = to > from ? (v - from) / (to - from) : 0.5;

	at = at < 0 ? 0 : at > 1 ? 1 : at;
	return (int32_t)lround(p0 + at * (p1 - p0));
}

static void curves_draw(const struct curves *all, struct picture *p)
{
	static const uint8_t rgb[COLOUR_CURVES][3] = { { 80, 160, 255 }, { 255, 150, 50 }, { 90, 210, 110 }, { 240, 90, 110 }, { 190, 130, 250 },
	                                               { 230, 220, 90 }, { 110, 220, 220 }, { 200, 200, 200 } };
	int32_t x1 = WIDE - RIGHT, y0 = HIGH - BELOW;
	char text[40];

	colour_set(p, COLOUR_TEXT, 230, 230, 230);
	colour_set(p, COLOUR_FRAME, 90, 90, 90);
	for (int i = 0; i < all->n; i++)
		colour_set(p, COLOUR_CURVE + i, rgb[i][0], rgb[i][1], rgb[i][2]);
	for (int i = 0; i <= 4; i++) {
		int32_t y = y0 + (TOP - y0) * i / 4, x = LEFT + (x1 - LEFT) * i / 4;

		picture_line(p, LEFT, y, x1, y, COLOUR_FRAME);
		snprintf(text, sizeof text, "%.2f", all->low + (all->high - all->low) * i / 4);
		picture_text(p, 4, y - 4, 2, COLOUR_TEXT, text);
		snprintf(text, sizeof text, "%.0f", all->right * i / 4);
		picture_text(p, x - (i < 4 ? 0 : 8 * (int32_t)strlen(text)), y0 + 8, 2, COLOUR_TEXT, text);
	}
	picture_line(p, LEFT, TOP, LEFT, y0, COLOUR_FRAME);
	for (int i = 0; i < all->n; i++) {
		const struct curve *c = &all->c[i];

		for (int32_t k = 1; k < c->n; k++)
			picture_line(p, place(k * (double)c->every, 0, all->right, LEFT, x1), place(c->y[k - 1], all->low, all->high, y0, TOP),
			             place((k + 1) * (double)c->every, 0, all->right, LEFT, x1), place(c->y[k], all->low, all->high, y0, TOP),
			             (uint8_t)(COLOUR_CURVE + i));
		picture_text(p, x1 - 8 * 44, TOP + 8 + 14 * i, 2, (uint8_t)(COLOUR_CURVE + i), c->name.p ? c->name.p : "");
	}
}

static int plot_curves(const struct options *o, const struct str *text, struct err *e)
{
	struct curves all = { .low = INFINITY, .high = -INFINITY };
	struct picture p = { .at = NULL };
	struct str s = {0};
	int rc;

	for (const char *at = text->p, *end = at + text->n, *nl; at < end; at = nl + 1) {
		nl = memchr(at, '\n', (size_t)(end - at));
		nl = nl ? nl : end;
		curve_add(&all, jv_parse(at, (size_t)(nl - at)), o->file[0]);
	}
	if (!all.n || all.low > all.high)
		rc = err_set(e, ERR_DOCUMENT, "'%s' holds no curves; they come from 'weir eval ppl --curve N --json'", o->file[0]);
	else
		rc = picture_init(&p, WIDE, HIGH, e);
	if (!rc) {
		curves_draw(&all, &p);
		rc = picture_write(&p, o->out, e);
	}
	for (int i = 0; i < all.n; i++) {
		if (o->json) {
			json_open(&s, NULL, '{');
			json_string(&s, "task", "plot");
			json_text(&s, "curve", all.c[i].name.p, all.c[i].name.n);
			json_int(&s, "points", all.c[i].n);
			json_real(&s, "ppl", all.c[i].y[all.c[i].n - 1], "%.6f");
			json_close(&s, '}');
			str_adds(&s, "\n");
		} else {
			str_addf(&s, "%.*s: %.4f after %.0f tokens\n", (int)all.c[i].name.n, all.c[i].name.p, all.c[i].y[all.c[i].n - 1],
			         all.c[i].n * (double)all.c[i].every);
		}
		free(all.c[i].y);
		str_free(&all.c[i].name);
	}
	if (!rc)
		rc = print_json(&s, e);
	if (!rc && all.more)
		say("a picture holds %d curves; %d more of '%s' are left out", COLOUR_CURVES, all.more, o->file[0]);
	str_free(&s);
	picture_free(&p);
	return rc;
}

int cmd_eval_plot(const struct options *o)
{
	struct str text = {0};
	struct err e = {0};
	int rc;

	if (!o->n_file || !o->out) {
		err_set(&e, ERR_USAGE, "'weir eval plot' wants a text FILE, or one that 'eval ppl --curve N --json' wrote, and --out PICTURE.png");
		return fail(&e);
	}
	rc = read_whole(o->file[0], TEXT_MAX, &text, &e);
	if (rc < 0)
		e.code = ERR_DOCUMENT;
	else
		rc = text.n && text.p[0] == '{' ? plot_curves(o, &text, &e) : plot_matrix(o, &text, &e);
	str_free(&text);
	return rc < 0 ? fail(&e) : 0;
}
