/* ui/panes/cache_meters.c - draws parts of the cache pane: how full each region of the cache is (sinks, pinned prefix,
 * rings), and the numbers of the whole cache.
 *
 * Each number has a fixed width, so that nothing moves when it changes. Values that are not observed are "-", never
 * zero. Regions have letters, so that the pane can be read without colours. */
#include "ui/panes/pane_cache.h"

#include <stdio.h>
#include <string.h>

/* ---- meters ---- */

int cache_observed(const struct cache_pane *p)
{
	for (int i = 0; i < p->c.n_region; i++)
		if (p->c.region[i].share >= 0)
			return 1;
	return 0;
}

/* Widths, in columns, of the fields of a meter other than its bar. */
struct meter_form {
	int name, stride, att, span, labels;
};

static struct meter_form meter_form(int w)
{
	if (w >= 64)
		return (struct meter_form){ 9, 6, 4, 12, 1 };
	if (w >= 36)
		return (struct meter_form){ 0, 5, 4, 11, 0 };
	return (struct meter_form){ 0, 0, w >= 18 ? 4 : 0, 0, 0 };
}

static void draw_bar(const struct area *a, int x, int y, int w, unsigned style, const struct ui_region *r, int32_t ctx)
{
	struct str text = { 0 };
	int64_t most = r->slots > 0 ? r->slots : ctx, fill = MAX(r->fill, 0);
	int inner = w - 2, full = 0, at;

	if (inner < 1)
		return;
	if (most > 0) {
		full = fill >= most ? inner : (int)(fill * inner / most);
		if (fill && !full)
			full = 1;
	}
	area_cell(a, x, y, '[', ST_FAINT, 0);
	area_cell(a, x + w - 1, y, ']', ST_FAINT, 0);
	area_fill(a, x + 1, y, full, style, '|');
	if (r->slots > 0)
		str_addf(&text, "%s/%s", num_count(r->fill).s, num_count(r->slots).s);
	else
		str_adds(&text, num_count(r->fill).s);
	if ((int)text.n > inner) {
		str_clear(&text);
		str_adds(&text, num_short(r->fill).s);
		if (r->slots > 0)
			str_addf(&text, "/%s", num_short(r->slots).s);
	}
	if ((int)text.n > inner) {
		str_clear(&text);
		str_adds(&text, num_short(r->fill).s);
	}
	if ((int)text.n <= inner) {
		at = inner - (int)text.n;
		area_text(a, x + 1 + at, y, ST_TEXT, text.p, text.n);
		if (full > at)
			area_restyle(a, x + 1 + at, y, full - at, style | STYLE_BOLD);
	}
	str_free(&text);
}

static void draw_meter(const struct cache_pane *p, const struct area *a, int x, int y, int w, int i)
{
	const struct ui_region *r = &p->c.region[i];
	struct meter_form f = meter_form(w);
	int rest = (f.stride ? f.stride + 1 : 0) + (f.att ? f.att + 1 + 4 * f.labels : 0) + (f.span ? f.span + 1 : 0),
	    bar;
	char text[64];

	area_cell(a, x, y, r->letter, p->color ? part_style(p, i) | STYLE_BOLD : ST_STRONG, 0);
	x += 2;
	if (f.name)
		x = put_left(a, x, y, f.name, ST_TEXT, p->name[i], strlen(p->name[i]), p->ascii);
	bar = w - 2 - f.name - rest;
	draw_bar(a, x, y, bar, p->color ? part_style(p, i) : ST_METER, r, p->c.ctx);
	x += MAX(bar, 0);
	if (f.stride) {
		if (r->stride > 1)
			snprintf(text, sizeof text, "1/%s", num_short(r->stride).s);
		else
			snprintf(text, sizeof text, "all");
		x = put_right(a, x + 1, y, f.stride, ST_TEXT, text);
	}
	if (f.att) {
		if (f.labels)
			x = area_text(a, x + 1, y, ST_FAINT, "att", 3);
		x = put_right(a, x + 1, y, f.att, ST_TEXT, num_percent((double)r->share).s);
	}
	if (f.span) {
		if (r->first < 0 || r->last < r->first)
			snprintf(text, sizeof text, "empty");
		else
			snprintf(text, sizeof text, "%s-%s", num_short(r->first).s, num_short(r->last).s);
		put_right(a, x + 1, y, f.span, ST_TEXT, text);
	}
}

static int meters_a_row(const struct cache_pane *p, int w, int compact)
{
	return compact && w >= 76 && p->c.n_region > 3 ? 2 : 1;
}

int meters_rows(const struct cache_pane *p, int w, int compact)
{
	int n = meters_a_row(p, w, compact);

	return (p->c.n_region + n - 1) / n;
}

void meters_draw(const struct cache_pane *p, const struct area *a, int compact)
{
	int n = meters_a_row(p, a->w, compact), w = n == 1 ? a->w : (a->w - 2) / 2;

	for (int i = 0; i < p->c.n_region; i++)
		draw_meter(p, a, n == 1 ? 0 : i % 2 * (a->w - w), i / n, w, i);
}

/* ---- numbers ---- */

static double share_of_seen(const struct cache_pane *p, int64_t n)
{
	return p->c.seen > 0 && n >= 0 ? (double)n / p->c.seen : -1;
}

void numbers_draw(const struct cache_pane *p, const struct area *a, int y, int most)
{
	const struct ui_cache *c = &p->c;
	struct num kept = num_percent(share_of_seen(p, c->kept));

	if (a->w >= 73 && most)
		area_putf(a, 0, y, ST_TEXT, "seen %7s  kept %7s (%4s)  evicted %7s  %9s of %9s", num_fit(c->seen, 7).s,
		          num_fit(c->kept, 7).s, kept.s, num_fit(c->evicted, 7).s, num_bytes(c->bytes).s,
		          num_bytes(c->bytes_most).s);
	else if (a->w >= 79)
		area_putf(a, 0, y, ST_TEXT, "seen %7s  kept %7s (%4s)  thinned %7s  evicted %7s  %9s",
		          num_fit(c->seen, 7).s, num_fit(c->kept, 7).s, kept.s, num_fit(c->thinned, 7).s,
		          num_fit(c->evicted, 7).s, num_bytes(c->bytes).s);
	else if (a->w >= 60)
		area_putf(a, 0, y, ST_TEXT, "seen %7s  kept %7s (%4s)  evicted %7s  %9s", num_fit(c->seen, 7).s,
		          num_fit(c->kept, 7).s, kept.s, num_fit(c->evicted, 7).s, num_bytes(c->bytes).s);
	else if (a->w >= 49)
		area_putf(a, 0, y, ST_TEXT, "seen %7s  kept %7s (%4s)  evicted %5s", num_fit(c->seen, 7).s,
		          num_fit(c->kept, 7).s, kept.s, num_short(c->evicted).s);
	else
		area_putf(a, 0, y, ST_TEXT, "seen %5s kept %4s", num_short(c->seen).s, kept.s);
}

void kept_by_draw(const struct cache_pane *p, const struct area *a, int y)
{
	const struct ui_cache *c = &p->c;
	int64_t some = MAX(c->thinned, 0), none = MAX(c->evicted, 0), all = (int64_t)c->kept - some;
	int x, w, n_some, n_none;

	if (all < 0)
		all = 0;
	if (a->w < 70) {
		area_putf(a, 0, y, ST_TEXT, "by all %5s some %5s none %5s", num_short(all).s, num_short(some).s,
		          num_short(none).s);
		return;
	}
	x = area_putf(a, 0, y, ST_TEXT, "kept by all %9s (%4s)  by some %7s (%4s)  by none %9s", num_fit(all, 9).s,
	              num_percent(share_of_seen(p, all)).s, num_fit(some, 7).s, num_percent(share_of_seen(p, some)).s,
	              num_fit(none, 9).s) +
	    2;
	/* If there is room, also draw a bar: the shares of tokens that are kept by all KV heads, by some, and by
	 * none. */
	if ((w = a->w - x - 2) < 8 || all + some + none <= 0)
		return;
	n_some = (int)(some * w / (all + some + none));
	n_none = (int)(none * w / (all + some + none));
	n_some += some > 0 && !n_some;
	n_none += none > 0 && !n_none;
	area_cell(a, x, y, '[', ST_FAINT, 0);
	area_fill(a, x + 1, y, w, ST_METER, '|');
	area_fill(a, x + 1 + w - n_none - n_some, y, n_some, ST_FAINT, '+');
	area_fill(a, x + 1 + w - n_none, y, n_none, ST_EVICTED, '.');
	area_cell(a, x + 1 + w, y, ']', ST_FAINT, 0);
}
