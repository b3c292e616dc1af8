/* ui/panes/pane_cache_full.c - the cache pane on the whole screen.
 *
 * Its parts, from top to bottom: the policy; figures (how full each region is, what was kept, read and evicted) and
 * attention over time; the strip (how much of each token position is kept, and where documents begin); a heat map of
 * attention, layers x token positions; the picked layer, enlarged, with a cursor and the words under it; the legend.
 *
 * The table `wanted` says which parts get rows first; most of the remaining rows go to the heat map. If the legend does
 * not fit, the key `?` makes room for it: other parts are dropped, the heat map first. */
#include "ui/panes/pane_cache.h"
#include "ui/text/text.h"

#include <stdio.h>
#include <string.h>

enum { WIDE = 110, LABEL = 5, HEAT_LEAST = 3, LEGEND_LEAST = 8, PEAKS_MOST = 8, HISTORY_COLS = 44 };

enum part { TITLE, METERS, NUMBERS, KEPT, READS, FLOW, HISTORY_PART, STRIP, HEAT, PICKED, LEGEND, PARTS };

/* ---- heat ---- */

/* Screen cell x of w cells stands for one or more columns of the heat map. Return the highest heat value in these
 * columns, among n_layer layers from `layer` on. */
static int heat_of(const struct cache_pane *p, int layer, int n_layer, int w, int x)
{
	int first, end, most = 0;

	cell_columns(p, p->from, p->span, w, x, &first, &end);
	for (int l = layer; l < layer + n_layer && l < p->c.n_layer; l++)
		for (int i = first; i < end; i++) {
			int v = p->heat[(size_t)l * (size_t)p->c.cols + (size_t)i];
			most = MAX(v, most);
		}
	return most;
}

static int halves_per_row(const struct cache_pane *p)
{
	return p->color && !p->ascii ? 2 : 1;
}

/* Return how many layers share one row of the heat map. With colours, a row has two halves; then return how many layers
 * share one half. */
static int layers_each(const struct cache_pane *p, int rows)
{
	int slots = rows * halves_per_row(p);

	return slots > 0 ? (p->c.n_layer + slots - 1) / slots : p->c.n_layer;
}

static void draw_heat(const struct cache_pane *p, const struct area *a)
{
	int each, per_row, w = a->w - LABEL;

	if (!p->heat_any) {
		static const char why[] =
			"the attention of the layers has not been measured yet: the next answer shows it";
		put_left(a, 0, 0, a->w, ST_FAINT, why, sizeof why - 1, p->ascii);
		return;
	}
	if (w < 1)
		return;
	each = layers_each(p, a->h);
	per_row = each * halves_per_row(p);
	for (int y = 0; y < a->h && y * per_row < p->c.n_layer; y++) {
		int layer = y * per_row, picked = p->layer >= layer && p->layer < layer + per_row;

		area_putf(a, 0, y, picked ? ST_STRONG : ST_FAINT, "L%02d", layer);
		if (picked)
			area_cell(a, LABEL - 1, y, '>', ST_STRONG, 0);
		for (int x = 0; x < w; x++) {
			int up = heat_of(p, layer, each, w, x), down;

			if (halves_per_row(p) == 1) {
				area_cell(a, LABEL + x, y, ladder(p, up), heat_style(up), 0);
				continue;
			}
			down = layer + each < p->c.n_layer ? heat_of(p, layer + each, each, w, x) : -1;
			area_cell(a, LABEL + x, y, 0x2580, heat_style(up), down < 0 ? 0 : (uint8_t)heat_style(down));
		}
	}
}

/* ---- the picked layer ---- */

/* Find the peaks of the picked layer, beginning with the highest. */
static int find_peaks(const struct cache_pane *p, int out[PEAKS_MOST])
{
	const uint8_t *row = p->heat + (size_t)p->layer * (size_t)p->c.cols;
	uint8_t taken[UI_COLS] = { 0 };
	int n = 0;

	while (n < PEAKS_MOST) {
		int best = -1;

		for (int i = 0; i < p->c.cols; i++)
			if (!taken[i] && row[i] && (best < 0 || row[i] > row[best]))
				best = i;
		if (best < 0)
			break;
		/* exclude the slopes of the peak, which are the columns at its left and right up to where the values
		 * rise again */
		for (int i = best; i < p->c.cols && (i == best || (!taken[i] && row[i] <= row[i - 1])); i++)
			taken[i] = 1;
		for (int i = best - 1; i >= 0 && !taken[i] && row[i] <= row[i + 1]; i--)
			taken[i] = 1;
		out[n++] = best;
	}
	return n;
}

/* Return the data column under the cursor; -1 = there is none. */
static int cursor_column(const struct cache_pane *p)
{
	int at[PEAKS_MOST];

	return p->at >= 0 ? p->at : p->heat_any && find_peaks(p, at) ? at[0] : -1;
}

/* Return which of the w screen cells shows data column `col`; -1 = the column is not visible. */
static int cell_of(const struct cache_pane *p, int w, int col)
{
	for (int i = 0, first, end; col >= 0 && i < w; i++) {
		cell_columns(p, p->from, p->span, w, i, &first, &end);
		if (col >= first && col < end)
			return i;
	}
	return -1;
}

/* Append the numbers of the tokens in a column, "124-127". */
static void add_tokens(const struct cache_pane *p, int col, struct str *out)
{
	int64_t first = (int64_t)col * p->c.per_col, last = first + p->c.per_col - 1, all = cache_tokens(p) - 1;

	last = last > all && all >= first ? all : last;
	str_adds(out, num_count(first).s);
	if (p->c.per_col > 1)
		str_addf(out, "-%s", num_count(last).s);
}

/* Write the words of a column, beginning at x. Return the x after them. */
static int put_column(const struct cache_pane *p, const struct area *a, int x, int y, unsigned style, int col)
{
	struct str s = { 0 };

	if (col >= 0 && col < p->c.cols) {
		clean_line(p->text[col], strnlen(p->text[col], UI_COL_TEXT), &s);
		x = area_text(a, x, y, style, str_text(&s), s.n);
	}
	str_free(&s);
	return x;
}

/* Draw the words under the cursor, with the neighbouring words in a fainter style. */
static void draw_words(const struct cache_pane *p, const struct area *a, int y, int col)
{
	struct str s = { 0 };
	int x;

	if (col < 0)
		return;
	add_tokens(p, col, &s);
	x = area_text(a, LABEL, y, ST_SELECTED, s.p, s.n) + 1;
	str_free(&s);
	if (!p->text) {
		put_left(a, x, y, a->w - x, ST_FAINT, "its words are not known", 23, p->ascii);
		return;
	}
	for (int i = col - 1; i <= col + 1; i++)
		x = put_column(p, a, x, y, i == col ? ST_STRONG : ST_FAINT, i);
}

/* Draw the attention in the picked layer as bars with a cursor, its peaks, and the words under the cursor. */
static void draw_picked(const struct cache_pane *p, const struct area *a)
{
	int w = a->w - LABEL, rows = a->h - 2, x, n, at[PEAKS_MOST], col = cursor_column(p), cell;

	if (!p->heat_any || w < 1 || rows < 1)
		return;
	for (int i = 0; i < w; i++) {
		int level = (heat_of(p, p->layer, 1, w, i) * rows * 8 + 254) / 255;

		for (int y = rows - 1; y >= 0 && level > 0; y--, level -= 8)
			area_cell(a, LABEL + i, y,
			          level >= 8 && p->ascii ? '#' : ladder(p, level >= 8 ? 255 : level * 32 - 1), ST_METER,
			          0);
	}
	if ((cell = cell_of(p, w, col)) >= 0)
		area_cell(a, LABEL + cell, rows - 1, p->ascii ? '^' : 0x25b2, ST_SELECTED, 0);
	x = area_putf(a, 0, rows, ST_STRONG, "L%02d", p->layer) + 1;
	if (p->c.stride_of[p->layer] > 0)
		x = area_putf(a, x, rows, ST_FAINT, "every %.0f", (double)p->c.stride_of[p->layer]) + 1;
	x = area_text(a, x, rows, ST_FAINT, "peaks", 5);
	n = find_peaks(p, at);
	if (!n)
		area_text(a, x + 1, rows, ST_FAINT, "none", 4);
	for (int i = 0; i < n; i++) {
		struct str s = { 0 };

		add_tokens(p, at[i], &s);
		if (x + 2 + (int)s.n <= a->w)
			x = area_text(a, x + 2, rows, at[i] == col ? ST_SELECTED : ST_TEXT, s.p, s.n);
		else
			n = i;
		str_free(&s);
	}
	draw_words(p, a, rows + 1, col);
}

/* ---- layout ---- */

/* Return the legend entries for everything that a screen of this size can show. */
static unsigned legend_of(const struct area *a)
{
	return LEGEND_METERS | LEGEND_NUMBERS | LEGEND_KEPT | LEGEND_READS | LEGEND_FLOW | LEGEND_HISTORY |
	       LEGEND_STRIP | LEGEND_HEAT | LEGEND_PEAKS | (a->w >= 60 ? LEGEND_COST : 0);
}

/* Decide how many rows each part of the pane gets. If `beside` is 1, attention over time is drawn at the right of other
 * parts and needs no rows. */
static void share_out(const struct cache_pane *p, const struct area *a, int beside, int rows[PARTS],
                      struct lines *legend)
{
	int heat_known = p->heat_any, left = a->h, tall = a->h >= 30;
	const struct {
		enum part part;
		int rows;
	} wanted[] = {
		{ NUMBERS, 1 },
		{ METERS, meters_rows(p, beside ? a->w - HISTORY_COLS : a->w, !tall) },
		{ STRIP, strip_rows(p, 1) },
		{ HEAT, heat_known ? HEAT_LEAST : 1 },
		{ TITLE, !p->pane.framed },
		{ READS, 1 },
		{ PICKED, heat_known ? 3 : 0 },
		{ KEPT, 1 },
		{ FLOW, tall ? 4 : 2 },
	};
	int legend_rows;

	memset(rows, 0, PARTS * sizeof *rows);
	rows[HISTORY_PART] = beside;
	for (size_t i = 0; i < LEN(wanted); i++)
		if (wanted[i].rows <= left) {
			rows[wanted[i].part] = wanted[i].rows;
			left -= wanted[i].rows;
		}
	legend_lay_out(p, legend_of(a), a->w, legend);
	legend_rows = (int)legend->n_line;
	if (p->legend_full > 0 && legend_rows > left) {
		/* The user has asked for the legend: drop these parts to make room. If that is not enough, drop all
		 * parts. */
		static const enum part less[] = { HEAT, PICKED, FLOW, KEPT, READS };

		for (size_t i = 0; i < LEN(less); i++) {
			left += rows[less[i]];
			rows[less[i]] = 0;
		}
		if (left < LEGEND_LEAST) {
			memset(rows, 0, PARTS * sizeof *rows);
			left = a->h;
		}
		rows[LEGEND] = MIN(legend_rows, left);
	} else if (p->legend_full >= 0 && legend_rows + (heat_known ? 4 : 0) <= left) {
		rows[LEGEND] = legend_rows;
	}
	left -= rows[LEGEND];
	/* Give the remaining rows to the picked layer, the heat map, the list of recent events, and attention over
	 * time, in this order. */
	if (rows[HEAT] && heat_known) {
		int most = (p->c.n_layer + halves_per_row(p) - 1) / halves_per_row(p), more = most - rows[HEAT];

		if (tall && left > 8) {
			rows[PICKED] += 2;
			left -= 2;
		}
		more = MIN(more, left);
		rows[HEAT] += MAX(more, 0);
		left -= MAX(more, 0);
		/* drop rows of the heat map that would be empty */
		while (rows[HEAT] > 1 &&
		       (rows[HEAT] - 1) * halves_per_row(p) * layers_each(p, rows[HEAT]) >= p->c.n_layer) {
			rows[HEAT]--;
			left++;
		}
	}
	if (rows[FLOW] && flow_rows(p) > rows[FLOW]) {
		int more = flow_rows(p) - rows[FLOW] < left ? flow_rows(p) - rows[FLOW] : left;
		rows[FLOW] += more;
		left -= more;
	}
	if (!beside && left >= history_rows(p))
		rows[HISTORY_PART] = history_rows(p);
}

static void draw_title(const struct cache_pane *p, const struct area *a, int legend_seen)
{
	const char *hint = p->legend_more ? "PgDn more" : legend_seen ? "" : "Tab legend";
	int hint_w = !*hint || a->w < 60 ? 0 : (int)strlen(hint) + 1, cost_w = a->w >= 60 ? 32 : 0, x;
	struct area cost = area_part(a, a->w - hint_w - cost_w, 0, cost_w, 1);

	area_fill(a, 0, 0, a->w, ST_TITLE, ' ');
	x = area_text(a, 0, 0, ST_TITLE, "cache ", 6);
	put_left(a, x, 0, a->w - x - hint_w - cost_w - 1, ST_TITLE, p->kv, strlen(p->kv), p->ascii);
	if (cost_w)
		cost_draw(p, &cost, 0);
	if (hint_w)
		area_text(a, a->w - hint_w + 1, 0, ST_FAINT, hint, strlen(hint));
}

void cache_full_title(const struct cache_pane *p, struct str *left, struct str *right)
{
	str_adds(left, "KV cache");
	if (*p->kv)
		str_addf(left, ", policy %s", p->kv);
	if (!p->posted || *p->none)
		return;
	cost_text(p, 1, right);
	str_adds(right, p->legend_more ? "  PgDn: more" : p->legend_seen ? "" : "  Tab: legend");
}

static void draw_part(const struct cache_pane *p, enum part part, const struct area *a, const struct lines *legend)
{
	switch (part) {
	case TITLE: draw_title(p, a, legend != NULL); break;
	case METERS: meters_draw(p, a, a->h < p->c.n_region); break;
	case NUMBERS: numbers_draw(p, a, 0, 1); break;
	case KEPT: kept_by_draw(p, a, 0); break;
	case READS: reads_draw(p, a, 0); break;
	case FLOW: flow_draw(p, a); break;
	case HISTORY_PART: history_draw(p, a); break;
	case STRIP: strip_draw(p, a, LABEL, 1, p->from, p->span); break;
	case HEAT: draw_heat(p, a); break;
	case PICKED: draw_picked(p, a); break;
	case LEGEND: legend_draw(legend, a, (size_t)p->legend_top); break;
	case PARTS: break;
	}
}

void cache_full_draw(struct cache_pane *p, const struct area *a)
{
	struct lines legend = { 0 };
	int rows[PARTS], y = 0, beside, top;

	if (a->w < 1 || a->h < 1)
		return;
	area_clear(a, ST_TEXT);
	p->full = 1;
	if (cache_none_draw(p, a))
		return;
	beside = a->w >= WIDE - 2 && a->h >= 16;
	share_out(p, a, beside, rows, &legend);
	p->legend_seen = rows[LEGEND] > 0;
	p->legend_more = rows[LEGEND] ? (int)legend.n_line - rows[LEGEND] : 0;
	if (p->legend_top > p->legend_more)
		p->legend_top = p->legend_more;
	top = rows[TITLE];
	for (enum part i = TITLE; i < PARTS; i++) {
		/* If the history is drawn at the right, the pane's parts from METERS to FLOW are beside it, so make
		 * them narrower. */
		int w = beside && i >= METERS && i <= FLOW ? a->w - HISTORY_COLS : a->w;
		struct area part = area_part(a, 0, y, w, rows[i]);

		if (i == HISTORY_PART && beside) {
			part = area_part(a, a->w - HISTORY_COLS + 2, top, HISTORY_COLS - 2, y - top);
			history_draw(p, &part);
			continue;
		}
		if (rows[i] < 1)
			continue;
		draw_part(p, i, &part, rows[LEGEND] ? &legend : NULL);
		y += rows[i];
	}
	lines_free(&legend);
}

/* ---- keys ---- */

/* Zoom in or out by a factor of two, around the cursor or the middle. */
static void zoom(struct cache_pane *p, int closer)
{
	int64_t all = cache_tokens(p), span = p->span > 0 ? p->span : all,
		middle = p->at >= 0 ? (int64_t)p->at * p->c.per_col : p->from + span / 2;
	int64_t least = 8 * (int64_t)p->c.per_col;

	span = closer ? span / 2 : span * 2;
	if (closer && span < least)
		span = least;
	if (span >= all) {
		p->from = p->span = 0;
		return;
	}
	p->span = span;
	p->from = middle - span / 2;
	if (p->from + span > all)
		p->from = all - span;
	if (p->from < 0)
		p->from = 0;
}

/* Move the cursor by `way` columns, and keep it visible. */
static void move_cursor(struct cache_pane *p, int way)
{
	int col = cursor_column(p) + way;
	int64_t all = cache_tokens(p), token;

	p->at = col < 0 ? 0 : col >= p->c.cols ? p->c.cols - 1 : col;
	if (!p->span)
		return;
	token = (int64_t)p->at * p->c.per_col;
	if (token < p->from || token >= p->from + p->span)
		p->from = token - p->span / 2;
	if (p->from + p->span > all)
		p->from = all - p->span;
	if (p->from < 0)
		p->from = 0;
}

/* Move the cursor to the next lower (way = 1) or next higher (way = -1) peak of the picked layer. */
static void move_peak(struct cache_pane *p, int way)
{
	int at[PEAKS_MOST], n = find_peaks(p, at), i = 0, col = cursor_column(p);

	while (i < n && at[i] != col)
		i++;
	if (!n)
		return;
	p->at = i == n ? at[0] : at[(i + n + way) % n];
	move_cursor(p, 0);
}

enum pane_key cache_full_key(struct cache_pane *p, const struct key *k)
{
	int32_t cp = k->code == K_CHAR && !(k->mods & (KEY_CTRL | KEY_ALT)) ? k->cp : 0;

	/* if the legend does not fit as a whole, the paging keys scroll it */
	if (p->legend_more > 0 && (k->code == K_PAGE_DOWN || k->code == K_PAGE_UP || cp == ' ')) {
		p->legend_top += k->code == K_PAGE_UP ? -LEGEND_PAGE : LEGEND_PAGE;
		if (p->legend_top > p->legend_more)
			p->legend_top = p->legend_more;
		if (p->legend_top < 0)
			p->legend_top = 0;
		return PANE_USED;
	}
	if (cp == 'j' || k->code == K_DOWN)
		cache_pick_layer(p, p->layer + 1);
	else if (cp == 'k' || k->code == K_UP)
		cache_pick_layer(p, p->layer - 1);
	else if (k->code == K_PAGE_DOWN || cp == ' ')
		cache_pick_layer(p, p->layer + 8);
	else if (k->code == K_PAGE_UP)
		cache_pick_layer(p, p->layer - 8);
	else if (cp == 'g' || k->code == K_HOME)
		cache_pick_layer(p, 0);
	else if (cp == 'G' || k->code == K_END)
		cache_pick_layer(p, LAYERS_MOST);
	else if (cp == '+' || cp == '=')
		zoom(p, 1);
	else if (cp == '-')
		zoom(p, 0);
	else if (cp == 'h' || k->code == K_LEFT)
		move_cursor(p, -1);
	else if (cp == 'l' || k->code == K_RIGHT)
		move_cursor(p, 1);
	else if (p->heat_any && (cp == 'n' || cp == 'N'))
		move_peak(p, cp == 'n' ? 1 : -1);
	else if (cp == 'c')
		p->color = !p->color;
	else if (cp == '?' || k->code == K_TAB)
		p->legend_full = p->legend_seen ? -1 : 1;
	else
		return PANE_NOT_MINE;
	return PANE_USED;
}
