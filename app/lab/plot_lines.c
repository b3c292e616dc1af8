/* app/lab/plot_lines.c - weir eval plot: pictures of lines that other evaluations wrote with --json.
 *
 *     ppl       of eval ppl --curve: the running mean of the perplexity over the tokens
 *     ratio     of the same: the perplexity of every stretch of N tokens, in % of that under `full` (or the first policy) in the same text
 *     age       of eval recovery: the share recovered by the tokens since the set that was read was selected
 *     stride    of the same: tokens between two selections, by layer
 *     queries   of the same: how alike the queries of consecutive tokens are, a row a layer, a column a query head */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/lab/plot.h"
#include "engine/base/json.h"

enum { CELL = 24, HEADS_MOST = 256, LAYERS_MOST = 1024 }; /* pixels of a head's square */

struct lines {
	const struct options *o;
	const char *draw, *file;
	struct curves all;
	struct jv whole; /* the text of the whole file */
};

/* The line at *at, which moves on; 0: there is none. */
static int next_line(const char **at, const char *end, struct jv *line)
{
	const char *nl;

	if (*at >= end)
		return 0;
	nl = memchr(*at, '\n', (size_t)(end - *at));
	nl = nl ? nl : end;
	*line = jv_parse(*at, (size_t)(nl - *at));
	*at = nl + 1;
	return 1;
}

static int is_text(struct jv line, const char *key, const char *text)
{
	struct str s = { 0 };
	int yes = jv_text(jv_get(line, key), &s) == 0 && s.p && !strcmp(s.p, text);

	str_free(&s);
	return yes;
}

/* A curve that has the line's policy for a name, or else the file. */
static struct curve *curve_named(struct lines *l, struct jv line, int32_t every, int32_t first)
{
	struct str name = { 0 };
	struct curve *c;

	if (jv_text(jv_get(line, jv_get(line, "fitted").p ? "fitted" : "kv"), &name) < 0)
		str_adds(&name, l->file);
	c = curves_new(&l->all, str_text(&name), name.n, every, first);
	str_free(&name);
	return c;
}

/* ---- perplexity ---- */

/* The list of sums of nll, and after how many tokens they were noted; 0: the line has none. */
static int32_t line_sums(struct jv line, struct jv *list)
{
	double every;

	*list = jv_get(line, "curve");
	return list->p && !jv_number(jv_get(line, "every"), &every) && every >= 1 && every <= INT32_MAX ? (int32_t)every
	                                                                                                : 0;
}

static void add_ppl(struct lines *l, struct jv line)
{
	struct jv list, it = { 0 };
	int32_t every = line_sums(line, &list);
	struct curve *c = every ? curve_named(l, line, every, 1) : NULL;

	if (!c)
		return;
	for (double sum; jv_next(list, &it, NULL) && jv_number(it, &sum) == 0;)
		curve_point(c, exp(sum / ((c->n + 1) * (double)every)));
	/* The beginning of a running mean says little and goes far: it does not set the scale, unless there is nothing
	 * else. */
	curves_keep(&l->all, c->n > 3 ? 2 : 0);
}

/* The line of the same text that others are compared with: that of `full`, or else the first. */
static struct jv line_compared(const struct lines *l, struct jv of)
{
	struct str file = { 0 };
	struct jv line, first = { 0 }, list;
	int named = jv_text(jv_get(of, "file"), &file) == 0 && file.p;

	for (const char *at = l->whole.p; next_line(&at, l->whole.end, &line);) {
		if (line_sums(line, &list) != line_sums(of, &list) || (named && !is_text(line, "file", file.p)))
			continue;
		if (!first.p || is_text(line, "kv", "full"))
			first = line;
		if (is_text(line, "kv", "full"))
			break;
	}
	str_free(&file);
	return first;
}

static void add_ratio(struct lines *l, struct jv line)
{
	struct jv list, base, it = { 0 }, other = { 0 }, with = line_compared(l, line);
	int32_t every = line_sums(line, &list);
	double sum, than, before = 0, than_before = 0;
	struct curve *c;

	if (!every || with.p == line.p || !line_sums(with, &base) || !(c = curve_named(l, line, every, 1)))
		return;
	while (jv_next(list, &it, NULL) && jv_next(base, &other, NULL) && !jv_number(it, &sum) &&
	       !jv_number(other, &than)) {
		curve_point(c, 100 * exp((sum - before - (than - than_before)) / every));
		before = sum;
		than_before = than;
	}
	curves_keep(&l->all, 0);
}

/* ---- recovery ---- */

/* A list of numbers, as they are times `scale`; null is a gap. */
static void add_list(struct lines *l, struct jv line, const char *key, double scale)
{
	struct jv list = jv_get(line, key), it = { 0 };
	struct curve *c = list.p ? curve_named(l, line, 1, 0) : NULL;
	double y;
	int32_t known = 0;

	if (!c)
		return;
	while (jv_next(list, &it, NULL)) {
		curve_point(c, jv_number(it, &y) < 0 ? (double)NAN : scale * y);
		known = isfinite(c->y[c->n - 1]) ? c->n : known;
	}
	c->n = known; /* a tail of gaps would set the width */
	curves_keep(&l->all, 0);
}

/* The rows are layers, the columns heads; from the lowest cosine to 1. */
static int draw_queries(const struct lines *l, struct str *s, struct err *e)
{
	struct jv line, list, it = { 0 };
	struct picture p = { .at = NULL };
	double layers = 0, heads = 0, *x, low = 1;
	int rc = 0, n = 0;
	char text[80];

	for (const char *at = l->whole.p;;)
		if (!next_line(&at, l->whole.end, &line))
			return err_set(e, ERR_DOCUMENT,
			               "'%s' holds no queries; they come from 'weir eval recovery --json'", l->file);
		else if (is_text(line, "task", "queries") && (list = jv_get(line, "cosine")).p)
			break;
	if (jv_number(jv_get(line, "layers"), &layers) < 0 || jv_number(jv_get(line, "heads"), &heads) < 0 ||
	    !(layers >= 1 && layers <= LAYERS_MOST) || !(heads >= 1 && heads <= HEADS_MOST) ||
	    layers != floor(layers) || heads != floor(heads))
		return err_set(e, ERR_DOCUMENT, "the line of queries in '%s' has no layers and heads", l->file);
	x = xcalloc((size_t)(layers * heads), sizeof *x);
	for (; n < layers * heads && jv_next(list, &it, NULL); n++) {
		if (jv_number(it, &x[n]) < 0)
			x[n] = (double)NAN;
		low = fmin(low, x[n]);
	}
	if (n < layers * heads)
		rc = err_set(e, ERR_DOCUMENT,
		             "the line of queries in '%s' has %d numbers, not one for each of %.0f heads", l->file, n,
		             layers * heads);
	else
		rc = picture_init(&p, (int32_t)heads * CELL < 480 ? 480 : (int32_t)heads * CELL,
		                  TOP + (int32_t)layers * CELL, e);
	if (!rc) {
		colour_ramp(&p);
		colour_set(&p, COLOUR_TEXT, 230, 230, 230);
		for (int32_t y = 0; y < (int32_t)layers * CELL; y++)
			for (int32_t c = 0; c < (int32_t)heads * CELL; c++) {
				double v = x[y / CELL * (int32_t)heads + c / CELL];

				if (isfinite(v) && low < 1)
					picture_put(&p, c, TOP + y,
					            (uint8_t)(COLOUR_RAMP +
					                      lround((255 - COLOUR_RAMP) * (v - low) / (1 - low))));
			}
		snprintf(text, sizeof text, "layers down, heads across; %.2f dark, 1 bright", low);
		picture_text(&p, 0, 2, 2, COLOUR_TEXT, text);
		rc = picture_write(&p, l->o->out, e);
	}
	for (int32_t i = 0; !rc && i < (int32_t)layers; i++) {
		double sum = 0;

		for (int32_t h = 0; h < (int32_t)heads; h++)
			sum += x[i * (int32_t)heads + h] / heads;
		if (l->o->json) {
			json_open(s, NULL, '{');
			json_string(s, "task", "plot");
			json_string(s, "draw", l->draw);
			json_int(s, "layer", i);
			json_real(s, "cosine", sum, "%.4f");
			json_close(s, '}');
			str_adds(s, "\n");
		} else {
			str_addf(s, "layer %d: %.3f\n", (int)i, sum);
		}
	}
	picture_free(&p);
	free(x);
	return rc;
}

/* ---- all ---- */

static void add_line(struct lines *l, struct jv line)
{
	if (!strcmp(l->draw, "ppl"))
		add_ppl(l, line);
	else if (!strcmp(l->draw, "ratio"))
		add_ratio(l, line);
	else if (!strcmp(l->draw, "age"))
		add_list(l, line, "ages", 100);
	else
		add_list(l, line, "strides", 1);
}

static void report_curves(const struct lines *l, struct str *s)
{
	int ppl = !strcmp(l->draw, "ppl");

	for (int i = 0; i < l->all.n; i++) {
		const struct curve *c = &l->all.c[i];
		double last = c->y[c->n - 1], at = (c->n - 1 + c->first) * (double)c->every;
		int32_t k = 0;

		while (k < c->n - 1 && !isfinite(c->y[k]))
			k++;

		if (l->o->json) {
			json_open(s, NULL, '{');
			json_string(s, "task", "plot");
			json_text(s, "curve", c->name.p, c->name.n);
			json_int(s, "points", c->n);
			if (!ppl)
				json_string(s, "draw", l->draw);
			json_real(s, ppl ? "ppl" : "last", last, "%.6f");
			json_close(s, '}');
			str_adds(s, "\n");
		} else if (ppl) {
			str_addf(s, "%.*s: %.4f after %.0f tokens\n", (int)c->name.n, c->name.p, last, at);
		} else {
			str_addf(s, "%.*s: %.2f at %.0f, %.2f at %.0f\n", (int)c->name.n, c->name.p, c->y[k],
			         (k + c->first) * (double)c->every, last, at);
		}
	}
	if (l->all.more)
		say("a picture holds %d curves; %d more of '%s' are left out", COLOUR_CURVES, l->all.more, l->file);
}

int plot_lines(const struct options *o, const struct str *text, struct err *e)
{
	struct lines l = { .o = o, .draw = o->draw, .file = o->file[0], .whole = { text->p, text->p + text->n } };
	struct jv line;
	struct str s = { 0 };
	int rc = 0;

	if (!l.draw)
		l.draw = is_text(jv_parse(text->p, strcspn(text->p, "\n")), "task", "recovery") ? "age" : "ppl";
	curves_init(&l.all);
	if (!strcmp(l.draw, "queries")) {
		rc = draw_queries(&l, &s, e);
	} else {
		for (const char *at = text->p; next_line(&at, l.whole.end, &line);)
			add_line(&l, line);
		if (!l.all.n || l.all.low > l.all.high)
			rc = err_set(e, ERR_DOCUMENT, "'%s' holds no curves; they come from 'weir eval %s --json'",
			             l.file,
			             strcmp(l.draw, "age") && strcmp(l.draw, "stride") ? "ppl --curve N" : "recovery");
		else
			rc = curves_write(&l.all, o->out, e);
		if (!rc)
			report_curves(&l, &s);
	}
	if (!rc)
		rc = print_json(&s, e);
	curves_free(&l.all);
	str_free(&s);
	return rc;
}
