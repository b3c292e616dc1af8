/* ui/panes/pane_cache.c - the cache pane: stores posted figures, and draws its two small forms.
 *
 * The bar, above the input line, has about four rows: a summary, the strip (all token positions, and how much of each
 * is kept), and the names of the cache's regions. The side panel, beside the transcript, has 40 to 48 columns and also
 * shows attention over time and a legend.
 *
 * pane_cache_full.c draws the full-screen form; cache_*.c draw the parts of all forms. This file clamps posted figures
 * to valid ranges, so that the drawing functions need no checks. */
#include "ui/panes/pane_cache.h"
#include "ui/text/text.h"

#include <stdlib.h>
#include <string.h>

static struct pane *cache_pane_create(const struct ui_options *o)
{
	struct cache_pane *p = xcalloc(1, sizeof *p);

	p->pane.ops = &cache_pane;
	p->ascii = o->ascii;
	p->color = o->color != 0;
	p->at = -1;
	return &p->pane;
}

static void cache_pane_release(struct pane *pane)
{
	struct cache_pane *p = (struct cache_pane *)pane;

	free(p->heat);
	free(p->text);
	free(p);
}

/* ---- posted figures ---- */

/* Read at most `most` bytes of a text and write them to out[] as one line without control characters. Truncate the line
 * to fit the `cap` bytes of out[]. */
static void take_text(char *out, size_t cap, const char *text, size_t most)
{
	struct str s = { 0 };
	size_t n;

	if (text)
		clean_line(text, strnlen(text, most), &s);
	n = s.n < cap - 1 ? s.n : cap - 1;
	n = utf8_complete(str_text(&s), n);
	if (n)
		memcpy(out, s.p, n);
	out[n] = 0;
	str_free(&s);
}

static int clamp(int v, int lo, int hi)
{
	return v < lo ? lo : MIN(hi, v);
}

static void take_columns(struct cache_pane *p, const struct ui_cache *c)
{
	p->c.cols = clamp(c->cols, 0, UI_COLS);
	p->c.per_col = c->per_col > 0 ? c->per_col : 1;
	if (!c->kept_col || !c->where_col)
		p->c.cols = 0;
	if (p->c.cols) {
		memcpy(p->kept, c->kept_col, (size_t)p->c.cols);
		memcpy(p->where, c->where_col, (size_t)p->c.cols);
	}
	p->c.n_layer = clamp(c->n_layer, 0, LAYERS_MOST);
	if (!c->heat || !p->c.cols || !p->c.n_layer || c->cols != p->c.cols ||
	    (c->heat_is != HEAT_MASS && c->heat_is != HEAT_SELECTED))
		p->c.heat_is = HEAT_NONE;
	p->heat_any = 0;
	if (p->c.heat_is != HEAT_NONE) {
		size_t n = (size_t)p->c.n_layer * (size_t)p->c.cols;
		p->heat = xrealloc(p->heat, n);
		memcpy(p->heat, c->heat, n);
		for (size_t i = 0; i < n && !p->heat_any; i++)
			p->heat_any = p->heat[i] != 0;
	}
	if (c->text_col && p->c.cols && c->cols == p->c.cols) {
		p->text = xrealloc(p->text, (size_t)p->c.cols * sizeof *p->text);
		memcpy(p->text, c->text_col, (size_t)p->c.cols * sizeof *p->text);
	} else {
		free(p->text);
		p->text = NULL;
	}
	p->at = clamp(p->at, -1, p->c.cols - 1);
	p->layer = clamp(p->layer, 0, p->c.n_layer ? p->c.n_layer - 1 : 0);
	if (p->from + p->span > cache_tokens(p))
		p->from = p->span < cache_tokens(p) ? cache_tokens(p) - p->span : 0;
}

/* Add the shares of attention of all cache regions (sinks, prefix, rings) to the history. If the regions are not the
 * same as before, begin a new history. */
static void history_add(struct cache_pane *p, const struct ui_cache *was)
{
	int same = was->n_region == p->c.n_region;
	uint16_t *row;

	for (int i = 0; same && i < p->c.n_region; i++)
		same = was->region[i].letter == p->c.region[i].letter;
	if (!same)
		p->n_past = 0;
	row = p->past[p->n_past++ % HISTORY];
	for (int i = 0; i < UI_REGIONS; i++) {
		float share = i < p->c.n_region ? p->c.region[i].share : -1;
		row[i] = !(share >= 0) ? NOT_OBSERVED
		         : share >= 1  ? UINT16_MAX - 1
		                       : (uint16_t)(share * (UINT16_MAX - 1));
	}
}

void cache_pane_post(struct pane *pane, const struct ui_cache *c)
{
	struct cache_pane *p = (struct cache_pane *)pane;
	struct ui_cache was = p->c;

	p->c = *c;
	p->c.n_region = clamp(c->n_region, 0, UI_REGIONS);
	p->c.n_flow = clamp(c->n_flow, 0, UI_FLOWS);
	p->c.n_mark = clamp(c->n_mark, 0, MARKS);
	take_text(p->none, sizeof p->none, c->none, 256);
	take_text(p->kv, sizeof p->kv, c->kv, 256);
	for (int i = 0; i < p->c.n_region; i++) {
		struct ui_region *r = &p->c.region[i];

		take_text(p->name[i], sizeof p->name[i], r->name, 64);
		r->name = NULL;
		if (r->letter < 0x21 || r->letter > 0x7e)
			r->letter = '?';
		if (!(r->share >= 0))
			r->share = -1;
	}
	for (int i = 0; i < p->c.n_flow; i++)
		take_text(p->flow_text[i], sizeof p->flow_text[i], p->c.flow[i].text, sizeof p->c.flow[i].text);
	for (int i = 0; i < p->c.n_mark; i++) {
		take_text(p->mark_name[i], sizeof p->mark_name[i], p->c.mark[i].name, 256);
		p->c.mark[i].name = NULL;
	}
	take_columns(p, c);
	p->c.kv = p->c.none = NULL;
	p->c.kept_col = p->c.where_col = p->c.heat = NULL;
	p->c.text_col = NULL;
	history_add(p, &was);
	p->posted = 1;
}

void cache_pick_layer(struct cache_pane *p, int layer)
{
	/* before the first post, the number of layers is unknown */
	p->layer = clamp(layer, 0, p->posted && p->c.n_layer ? p->c.n_layer - 1 : LAYERS_MOST - 1);
}

void cache_pane_layer(struct pane *pane, int layer)
{
	cache_pick_layer((struct cache_pane *)pane, layer);
}

void cache_pane_color(struct pane *pane, int on)
{
	((struct cache_pane *)pane)->color = on != 0;
}

int cache_pane_colored(const struct pane *pane)
{
	const struct cache_pane *p = (const struct cache_pane *)pane;

	return p->color && !p->ascii && p->posted;
}

static void none_lay_out(const struct cache_pane *p, int w, struct lines *out)
{
	const char *why = p->posted ? p->none : "no figures of the cache yet";

	lines_plain(out, why, strlen(why), w, ST_FAINT);
}

int cache_none_draw(const struct cache_pane *p, const struct area *a)
{
	struct lines why = { 0 };
	int is_none = !p->posted || *p->none;

	if (is_none)
		none_lay_out(p, a->w, &why);
	for (size_t i = 0; i < why.n_line && i < (size_t)a->h; i++)
		lines_draw(&why, i, a, 0, (int)i);
	lines_free(&why);
	return is_none;
}

/* Draw as much of the legend as fits. */
static void small_legend(struct cache_pane *p, const struct area *a)
{
	struct lines legend = { 0 };

	legend_plain(p, a->w, &legend);
	p->legend_more = (int)legend.n_line - a->h;
	p->legend_top = clamp(p->legend_top, 0, MAX(p->legend_more, 0));
	for (size_t i = (size_t)p->legend_top; i < legend.n_line && i - (size_t)p->legend_top < (size_t)a->h; i++)
		lines_draw(&legend, i, a, 0, (int)(i - (size_t)p->legend_top));
	if (p->legend_top < p->legend_more && a->h > 0)
		put_right(a, a->w - 6, a->h - 1, 6, ST_NOTICE, p->ascii ? " v j k" : " \xe2\x96\xbc j k");
	lines_free(&legend);
}

/* ---- the bar ---- */

int cache_pane_rows(const struct pane *pane, int w)
{
	const struct cache_pane *p = (const struct cache_pane *)pane;
	struct lines legend = { 0 };
	int rows;

	if (!p->posted || *p->none) {
		none_lay_out(p, w, &legend);
		rows = (int)legend.n_line;
		lines_free(&legend);
		return rows;
	}
	rows = 1 + strip_rows(p, 0) + 1;
	if (p->legend > 0) {
		legend_plain(p, w, &legend);
		rows += (int)legend.n_line;
		lines_free(&legend);
	}
	return rows;
}

void cache_pane_draw_bar(struct pane *pane, const struct area *a)
{
	struct cache_pane *p = (struct cache_pane *)pane;
	struct area part;
	int y = 0, rows;

	if (a->w < 1 || a->h < 1)
		return;
	area_clear(a, ST_TEXT);
	p->full = 0;
	if (cache_none_draw(p, a))
		return;
	part = *a;
	if (a->w >= 60) {
		area_fill(a, 0, 0, a->w, ST_RULE, p->ascii ? '-' : 0x2500);
		part = area_part(a, 2, 0, a->w - 4, 1);
	}
	words_row(p, &part, 0);
	y++;
	rows = strip_rows(p, 0) < a->h - y ? strip_rows(p, 0) : a->h - y;
	if (rows > 0) {
		part = area_part(a, 0, y, a->w, rows);
		strip_draw(p, &part, 0, 0, 0, 0);
		y += rows;
	}
	if (y < a->h)
		parts_draw(p, a, y++);
	p->small_seen = p->legend > 0 && y < a->h;
	if (p->small_seen) {
		part = area_part(a, 0, y, a->w, a->h - y);
		small_legend(p, &part);
	}
}

/* ---- the side panel ---- */

static int take_rows(const struct area *a, int *y, int rows, int gap, struct area *part)
{
	if (*y + rows > a->h)
		return 0;
	*part = area_part(a, 0, *y, a->w, rows);
	*y += rows + gap;
	return 1;
}

/* Draw a thin horizontal line with a title. */
static void box_title(const struct cache_pane *p, const struct area *a, const char *title)
{
	area_fill(a, 0, 0, a->w, ST_RULE, p->ascii ? '-' : 0x2500);
	area_cell(a, 1, 0, ' ', ST_RULE, 0);
	area_cell(a, area_text(a, 2, 0, ST_TITLE, title, strlen(title)), 0, ' ', ST_RULE, 0);
}

/* Draw the title of a box at row *y, and set *part to the `rows` rows below it. Moves *y to the row after the box.
 * Returns 0 if the box does not fit. */
static int take_box(const struct cache_pane *p, const struct area *a, int *y, int rows, const char *title,
                    struct area *part)
{
	struct area head;

	if (*y + 1 + rows > a->h || !take_rows(a, y, 1, 0, &head))
		return 0;
	box_title(p, &head, title);
	return take_rows(a, y, rows, a->h >= 30, part);
}

void cache_pane_draw_side(struct pane *pane, const struct area *all)
{
	struct cache_pane *p = (struct cache_pane *)pane;
	struct area a = *all, part;
	struct lines legend = { 0 };
	int y = 0, rows;

	if (a.w < 1 || a.h < 1)
		return;
	area_clear(&a, ST_TEXT);
	p->full = 0;
	if (cache_none_draw(p, &a))
		return;
	/* Reserve the last row of the panel for the cost of computing the figures, unless the panel is tiny. */
	if (a.h >= 8) {
		cost_draw(p, &a, a.h - 1);
		a.h--;
	}
	if (take_box(p, &a, &y, WORDS_ROWS, "memory of the model", &part))
		words_draw(p, &part);
	else if (take_rows(&a, &y, 1, 0, &part))
		words_row(p, &part, 0);
	p->small_seen = p->legend > 0;
	if (p->small_seen) {
		part = area_part(&a, 0, y, a.w, a.h - y);
		small_legend(p, &part);
		return;
	}
	if (take_box(p, &a, &y, strip_rows(p, 0) + 1, "the conversation, oldest left", &part)) {
		strip_draw(p, &part, 0, 0, 0, 0);
		parts_draw(p, &part, part.h - 1);
	}
	if (cache_observed(p) && take_box(p, &a, &y, history_rows(p) - 1, "where it looks, over time", &part)) {
		part.y--, part.h++; /* the box's title replaces the title row that history_draw() draws */
		history_draw(p, &part);
		part.h = 1;
		box_title(p, &part, "where it looks, over time");
	}
	/* draw recent events and the legend, if they fit */
	if (went_rows(p) && take_box(p, &a, &y, went_rows(p), "last words that", &part))
		went_draw(p, &part);
	legend_plain(p, a.w, &legend);
	rows = (int)legend.n_line;
	p->small_seen = !p->legend && y + rows <= a.h && a.h >= 20;
	if (p->small_seen) {
		part = area_part(&a, 0, a.h - rows, a.w, rows);
		small_legend(p, &part);
	}
	lines_free(&legend);
}

/* ---- keys ---- */

static enum pane_key small_key(struct cache_pane *p, const struct key *k)
{
	int32_t cp = k->code == K_CHAR && !(k->mods & (KEY_CTRL | KEY_ALT)) ? k->cp : 0;

	if (cp == '?') {
		p->legend = p->small_seen ? -1 : 1;
		p->legend_top = 0;
	} else if (p->legend <= 0) {
		return PANE_NOT_MINE;
	} else if (cp == 'j' || k->code == K_DOWN) {
		p->legend_top++;
	} else if (cp == 'k' || k->code == K_UP) {
		p->legend_top--;
	} else if (cp == ' ' || k->code == K_PAGE_DOWN) {
		p->legend_top += LEGEND_PAGE;
	} else if (k->code == K_PAGE_UP) {
		p->legend_top -= LEGEND_PAGE;
	} else {
		return PANE_NOT_MINE;
	}
	return PANE_USED;
}

static enum pane_key cache_pane_key(struct pane *pane, const struct key *k, struct ui_action *out)
{
	struct cache_pane *p = (struct cache_pane *)pane;

	if (k->code == K_ESC || (k->code == K_CHAR && !(k->mods & (KEY_CTRL | KEY_ALT)) && k->cp == 'q')) {
		/* when a small form is left, its legend is closed */
		if (!p->full)
			p->legend = 0;
		return PANE_CLOSE;
	}
	if (p->full)
		return cache_full_key(p, k);
	return small_key(p, k);
}

static void cache_pane_draw(struct pane *pane, const struct area *a)
{
	cache_full_draw((struct cache_pane *)pane, a);
}

static void cache_pane_title(const struct pane *pane, struct str *left, struct str *right)
{
	cache_full_title((const struct cache_pane *)pane, left, right);
}

static unsigned cache_pane_state(const struct pane *pane)
{
	(void)pane;
	return 0;
}

/* clang-format off */
const struct pane_ops cache_pane = {
	.help_name = "the view of the cache", .flags = PANE_IS_CACHE,
	.hints = (const struct hint[]){
		{"F2", "Close"}, {"Up Down", "Layer"}, {"Left Right", "Words"}, {"Tab", "Legend"}, {"F6", "Browse: zoom"}, {"F1", "Help"}, {0},
	},
	.browsing = (const struct hint[]){
		{"Esc", "Write"}, {"j k", "Layer"}, {"h l", "Words"}, {"n N", "Peak"}, {"+ -", "Zoom"}, {"c", "Colours"}, {"?", "Legend"}, {"q", "Close"}, {0},
	},
	.create = cache_pane_create, .release = cache_pane_release,
	.draw = cache_pane_draw, .title = cache_pane_title, .state = cache_pane_state, .key = cache_pane_key,
};
/* clang-format on */
