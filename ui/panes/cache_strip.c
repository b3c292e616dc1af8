/* ui/panes/cache_strip.c - draws parts of the cache pane: the strip (one row that shows how much of each token position
 * is kept), and attention over time.
 *
 * Amounts are ASCII or block characters, so that the pane can be read without colours. */
#include "ui/panes/pane_cache.h"

#include <stdio.h>
#include <string.h>

/* ---- amounts as glyphs ---- */

int32_t ladder(const struct cache_pane *p, int v)
{
	static const char plain[] = ".:-=+*#%@";

	if (v <= 0)
		return ' ';
	v = v > 255 ? 254 : v - 1;
	return p->ascii ? plain[v * 9 / 255] : 0x2581 + v * 8 / 255;
}

/* Return the character for a share of kept entries from 0 to 255. A blank means none, a solid block means all. */
static int32_t kept_glyph(const struct cache_pane *p, int v)
{
	static const char plain[] = " .:*#";
	static const int32_t block[] = { ' ', 0x2591, 0x2592, 0x2593, 0x2588 };
	int step = v <= 0 ? 0 : v >= 255 ? 4 : 1 + (v - 1) * 3 / 254;

	return p->ascii ? plain[step] : block[step];
}

unsigned heat_style(int v)
{
	int step = v * HEATS / 256;

	return ST_HEAT + (unsigned)(step < 0 ? 0 : step >= HEATS ? HEATS - 1 : step);
}

/* ---- from cells to columns ---- */

int64_t cache_tokens(const struct cache_pane *p)
{
	int64_t all = (int64_t)p->c.cols * p->c.per_col;

	return p->c.seen > 0 && p->c.seen < all ? p->c.seen : all;
}

void cell_columns(const struct cache_pane *p, int64_t from, int64_t span, int w, int i, int *first, int *end)
{
	int64_t per = p->c.per_col, lo, hi;

	if (span <= 0) {
		from = 0;
		span = cache_tokens(p);
	}
	lo = (from + span * i / w) / per;
	hi = (from + span * (i + 1) / w + per - 1) / per;
	/* a data column covers p->c.per_col tokens: if a screen cell covers no more tokens, it shows one data column */
	if (span * (i + 1) / w - span * i / w <= per)
		hi = lo + 1;
	if (lo >= p->c.cols)
		lo = p->c.cols - 1;
	if (lo < 0)
		lo = 0;
	*first = (int)lo;
	*end = (int)(hi <= lo ? lo + 1 : MIN(p->c.cols, hi));
}

/* ---- the strip ---- */

int strip_rows(const struct cache_pane *p, int axis)
{
	return 1 + !p->color + (axis != 0) + (p->c.n_mark > 0);
}

static void draw_mark_row(const struct cache_pane *p, const struct area *a, int y, int64_t from, int64_t span)
{
	for (int i = 0; i < p->c.n_mark; i++) {
		int64_t first = p->c.mark[i].first;
		int x, end = a->w;

		if (first < from || first >= from + span)
			continue;
		x = (int)((first - from) * a->w / span);
		/* truncate the document's name, so that it ends before the mark (^) of the next document */
		for (int k = 0; k < p->c.n_mark; k++)
			if (p->c.mark[k].first > first && p->c.mark[k].first < from + span) {
				int next = (int)((p->c.mark[k].first - from) * a->w / span);
				if (next > x && next < end)
					end = next;
			}
		area_cell(a, x, y, '^', ST_STRONG, 0);
		if (end - x > 3)
			put_left(a, x + 1, y, end - x - 2, ST_FAINT, p->mark_name[i], strlen(p->mark_name[i]),
			         p->ascii);
	}
}

void strip_draw(const struct cache_pane *p, const struct area *all, int left, int axis, int64_t from, int64_t span)
{
	struct area a = area_part(all, left, 0, all->w - left, all->h);
	int y = axis != 0;

	if (a.w < 1)
		return;
	if (p->c.cols < 1) {
		area_text(&a, 0, y, ST_FAINT, "the cache is empty", 18);
		return;
	}
	if (span <= 0) {
		from = 0;
		span = cache_tokens(p);
	}
	if (axis) {
		put_left(&a, 0, 0, a.w, ST_FAINT, num_count(from).s, strlen(num_count(from).s), 1);
		if (a.w >= 60)
			put_right(&a, a.w / 2 - 16, 0, 16 + (int)strlen(num_count(from + span / 2).s) / 2, ST_FAINT,
			          num_count(from + span / 2).s);
		if (a.w >= 30)
			put_right(&a, a.w - 16, 0, 16, ST_FAINT, num_count(from + span - 1).s);
	}
	for (int x = 0; x < a.w; x++) {
		int first, end, sum = 0, best = -1, most;
		uint8_t where;

		cell_columns(p, from, span, a.w, x, &first, &end);
		for (int i = first; i < end; i++) {
			sum += p->kept[i];
			if (best < 0 || p->kept[i] > p->kept[best])
				best = i;
		}
		/* Round the average down, so that a cell gets the highest glyph only if everything in it is kept. But
		 * round a share above 0 up to 1, so that a cell is blank only if nothing in it is kept. */
		most = sum / (end - first);
		if (sum && !most)
			most = 1;
		where = p->where[best];
		area_cell(&a, x, y, kept_glyph(p, most),
		          p->color && where != 255 ? part_style(p, where) : heat_style(most), 0);
		/* Without colours, letters identify the regions. */
		if (!p->color)
			area_cell(&a, x, y + 1,
			          where == 255            ? ' '
			          : where < p->c.n_region ? p->c.region[where].letter
			                                  : '?',
			          ST_TEXT, 0);
	}
	draw_mark_row(p, &a, y + 1 + !p->color, from, span);
}

/* ---- attention over time ---- */

int history_rows(const struct cache_pane *p)
{
	return 1 + (cache_observed(p) ? p->c.n_region : 1);
}

void history_draw(const struct cache_pane *p, const struct area *a)
{
	int w = a->w - 8;

	area_text(a, 0, 0, ST_TITLE, "attention over time", 19);
	if (!cache_observed(p)) {
		const char *why = p->c.n_region > 1 ? "attention appears with the next answer"
		                                    : "there is one region, which gets all of it";

		put_left(a, 0, 1, a->w, ST_FAINT, why, strlen(why), p->ascii);
		return;
	}
	if (w < 1)
		return;
	w = MIN(HISTORY, w);
	for (int r = 0; r < p->c.n_region; r++) {
		int n = p->n_past < (uint64_t)w ? (int)p->n_past : w, most = 1;

		area_cell(a, 0, 1 + r, !p->full && p->color && !p->ascii ? 0x25a0 : p->c.region[r].letter,
		          p->color ? part_style(p, r) | STYLE_BOLD : ST_STRONG, 0);
		for (int i = 0; i < n; i++) {
			uint16_t v = p->past[(p->n_past - 1 - (uint64_t)i) % HISTORY][r];
			if (v != NOT_OBSERVED && v > most)
				most = v;
		}
		for (int i = 0; i < n; i++) {
			uint16_t v = p->past[(p->n_past - 1 - (uint64_t)i) % HISTORY][r];
			int level = v == NOT_OBSERVED ? 0 : (int)((int64_t)v * 255 / most);

			area_cell(a, 2 + w - 1 - i, 1 + r, v == NOT_OBSERVED ? '-' : ladder(p, level),
			          v == NOT_OBSERVED ? ST_FAINT
			          : p->color        ? part_style(p, r)
			                            : ST_METER,
			          0);
		}
		put_right(a, a->w - 5, 1 + r, 5, ST_TEXT, num_percent((double)p->c.region[r].share).s);
	}
}
