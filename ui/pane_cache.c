/* ui/pane_cache.c - the pane of the cache: posted figures, and its two small forms.
 *
 *   the bar, above the input line (about six rows)      the side panel, beside the transcript (40 to 48 columns)
 *     meters of the regions, two a row if need be         policy, meters, numbers, entries read, flow,
 *     the strip: all positions and what is kept of them   attention over time, strip, what the panel costs
 *     seen, kept, evicted, memory
 *
 * The full form is in pane_cache_full.c, the parts in cache_*.c.  Posted figures are copied and brought within bounds
 * here: the parts rely on it.  `?` shows the legend. */
#include "ui/pane_cache.h"

#include <stdlib.h>
#include <string.h>

static struct pane *create(const struct ui_options *o)
{
	struct cache_pane *p = xcalloc(1, sizeof *p);

	p->pane.ops = &cache_pane;
	p->ascii = o->ascii;
	p->color = o->color != 0;
	return &p->pane;
}

static void release(struct pane *pane)
{
	struct cache_pane *p = (struct cache_pane *)pane;

	free(p->heat);
	free(p);
}

/* ---- posted figures ---- */

/* One clean line, cut to the capacity. */
static void take_text(char *out, size_t cap, const char *text, size_t most)
{
	struct str s = {0};
	size_t n;

	if (text)
		clean_line(text, strnlen(text, most), &s);
	n = s.n < cap - 1 ? s.n : cap - 1;
	n = utf8_complete(s.p ? s.p : "", n);
	if (n)
		memcpy(out, s.p, n);
	out[n] = 0;
	str_free(&s);
}

static int within(int v, int lo, int hi)
{
	return v < lo ? lo : v > hi ? hi : v;
}

static void take_columns(struct cache_pane *p, const struct ui_cache *c)
{
	p->c.cols = within(c->cols, 0, UI_COLS);
	p->c.per_col = c->per_col > 0 ? c->per_col : 1;
	if (!c->kept_col || !c->where_col)
		p->c.cols = 0;
	if (p->c.cols) {
		memcpy(p->kept, c->kept_col, (size_t)p->c.cols);
		memcpy(p->where, c->where_col, (size_t)p->c.cols);
	}
	p->c.n_layer = within(c->n_layer, 0, LAYERS_MOST);
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
	p->layer = within(p->layer, 0, p->c.n_layer ? p->c.n_layer - 1 : 0);
	if (p->from + p->span > cache_tokens(p))
		p->from = p->span < cache_tokens(p) ? cache_tokens(p) - p->span : 0;
}

/* The history starts again when the regions change. */
static void remember(struct cache_pane *p, const struct ui_cache *was)
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
		row[i] = !(share >= 0) ? NOT_OBSERVED : share >= 1 ? UINT16_MAX - 1 : (uint16_t)(share * (UINT16_MAX - 1));
	}
}

void cache_pane_post(struct pane *pane, const struct ui_cache *c)
{
	struct cache_pane *p = (struct cache_pane *)pane;
	struct ui_cache was = p->c;

	p->c = *c;
	p->c.n_region = within(c->n_region, 0, UI_REGIONS);
	p->c.n_flow = within(c->n_flow, 0, UI_FLOWS);
	p->c.n_mark = within(c->n_mark, 0, MARKS);
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
	p->c.kv = NULL;
	p->c.kept_col = p->c.where_col = p->c.heat = NULL;
	remember(p, &was);
	p->posted = 1;
}

void cache_pick_layer(struct cache_pane *p, int layer)
{
	/* Before the first post the number of layers is unknown. */
	p->layer = within(layer, 0, p->posted && p->c.n_layer ? p->c.n_layer - 1 : LAYERS_MOST - 1);
}

void cache_pane_layer(struct pane *pane, int layer)
{
	cache_pick_layer((struct cache_pane *)pane, layer);
}

void cache_pane_color(struct pane *pane, int on)
{
	((struct cache_pane *)pane)->color = on != 0;
}

static int nothing_yet(const struct cache_pane *p, const struct area *a)
{
	if (!p->posted)
		put_left(a, 0, 0, a->w, ST_FAINT, "no figures of the cache yet", 27, p->ascii);
	return !p->posted;
}

/* The legend, as far as there is room. */
static void small_legend(struct cache_pane *p, unsigned of, const struct area *a)
{
	struct lines legend = {0};

	legend_lay_out(p, of, a->w, &legend);
	p->legend_more = (int)legend.n_line - a->h;
	p->legend_top = within(p->legend_top, 0, p->legend_more > 0 ? p->legend_more : 0);
	legend_draw(&legend, a, (size_t)p->legend_top);
	if (p->legend_top < p->legend_more && a->h > 0)
		put_right(a, a->w - 6, a->h - 1, 6, ST_NOTICE, p->ascii ? " v j k" : " \xe2\x96\xbc j k");
	lines_free(&legend);
}

/* ---- the bar ---- */

#define BAR_LEGEND (LEGEND_METERS | LEGEND_NUMBERS | LEGEND_STRIP)
#define SIDE_LEGEND (BAR_LEGEND | LEGEND_HISTORY | LEGEND_FLOW | LEGEND_READS | LEGEND_COST)

int cache_pane_rows(const struct pane *pane, int w)
{
	const struct cache_pane *p = (const struct cache_pane *)pane;
	struct lines legend = {0};
	int rows;

	if (!p->posted)
		return 1;
	rows = meters_rows(p, w, 1) + strip_rows(p, 0) + 1;
	if (p->legend) {
		legend_lay_out(p, BAR_LEGEND, w, &legend);
		rows += (int)legend.n_line;
		lines_free(&legend);
	}
	return rows;
}

void cache_pane_draw_bar(struct pane *pane, const struct area *a)
{
	struct cache_pane *p = (struct cache_pane *)pane;
	struct area part;
	int y = 0, left = a->h, n;

	if (a->w < 1 || a->h < 1)
		return;
	area_clear(a, ST_TEXT);
	p->full = 0;
	if (nothing_yet(p, a))
		return;
	/* Room goes to the numbers, then meters, then the strip. */
	left--;
	n = meters_rows(p, a->w, 1);
	n = n < left ? n : left;
	part = area_part(a, 0, y, a->w, n);
	meters_draw(p, &part, 1);
	y += n;
	left -= n;
	n = strip_rows(p, 0) < left ? strip_rows(p, 0) : left;
	if (n >= 1) {
		part = area_part(a, 0, y, a->w, n);
		strip_draw(p, &part, 0, 0, 0, 0);
		y += n;
		left -= n;
	}
	numbers_draw(p, a, y++, 0);
	if (p->legend && left > 0) {
		part = area_part(a, 0, y, a->w, left);
		small_legend(p, BAR_LEGEND, &part);
	}
}

/* ---- the side panel ---- */

static int take(const struct area *a, int *y, int rows, int gap, struct area *part)
{
	if (*y + rows > a->h)
		return 0;
	*part = area_part(a, 0, *y, a->w, rows);
	*y += rows + gap;
	return 1;
}

void cache_pane_draw_side(struct pane *pane, const struct area *all)
{
	struct cache_pane *p = (struct cache_pane *)pane;
	struct area a = *all, part;
	int y = 0, gap = all->h >= 30;

	if (a.w < 1 || a.h < 1)
		return;
	area_clear(&a, ST_TEXT);
	p->full = 0;
	if (nothing_yet(p, &a))
		return;
	if (a.h >= 10) {
		int x = area_text(&a, 0, 0, ST_TITLE, "cache ", 6);
		put_left(&a, x, 0, a.w - x, ST_FAINT, p->kv, strlen(p->kv), p->ascii);
		y++;
	}
	/* The cost of the panel is always shown. */
	if (a.h >= 6) {
		cost_draw(p, &a, a.h - 1);
		a.h--;
	}
	if (take(&a, &y, meters_rows(p, a.w, 0), gap, &part))
		meters_draw(p, &part, 0);
	if (a.w >= 36 && take(&a, &y, NUMBERS_ROWS, gap, &part))
		numbers_draw_block(p, &part);
	else if (take(&a, &y, 1, 0, &part))
		numbers_draw(p, &part, 0, 0);
	if (p->legend) {
		part = area_part(&a, 0, y, a.w, a.h - y);
		small_legend(p, SIDE_LEGEND, &part);
		return;
	}
	if (take(&a, &y, strip_rows(p, 0), gap, &part))
		strip_draw(p, &part, 0, 0, 0, 0);
	if (take(&a, &y, history_rows(p), gap, &part))
		history_draw(p, &part);
	if (take(&a, &y, 1, gap, &part))
		reads_draw(p, &part, 0);
	/* Examples, as far as there is room. */
	part = area_part(&a, 0, y, a.w, flow_rows(p));
	flow_draw(p, &part);
}

/* ---- keys ---- */

static enum pane_key small_key(struct cache_pane *p, const struct key *k)
{
	int32_t cp = k->code == K_CHAR && !(k->mods & (KEY_CTRL | KEY_ALT)) ? k->cp : 0;

	if (cp == '?') {
		p->legend = !p->legend;
		p->legend_top = 0;
	} else if (!p->legend) {
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

static enum pane_key key(struct pane *pane, const struct key *k, struct ui_action *out)
{
	struct cache_pane *p = (struct cache_pane *)pane;

	if (k->code == K_ESC || (k->code == K_CHAR && !(k->mods & (KEY_CTRL | KEY_ALT)) && k->cp == 'q')) {
		/* Leaving the small panel closes its legend. */
		if (!p->full)
			p->legend = 0;
		return PANE_CLOSE;
	}
	if (p->full)
		return cache_full_key(p, k);
	return small_key(p, k);
}

static void draw(struct pane *pane, const struct area *a)
{
	cache_full_draw((struct cache_pane *)pane, a);
}

static unsigned state(const struct pane *pane)
{
	(void)pane;
	return 0;
}

const struct pane_ops cache_pane = {
	.place = "the view of the cache", .flags = PANE_IS_CACHE,
	.hints = (const struct hint[]){
		{"F2", "Close"}, {"Up Down", "Layer"}, {"Tab", "Legend"}, {"F6", "Read: zoom and more"}, {"F1", "Help"}, {0},
	},
	.reading = (const struct hint[]){
		{"Esc", "Write"}, {"j k", "Layer"}, {"+ -", "Zoom"}, {"h l", "Move"}, {"c", "Colours"}, {"?", "Legend"}, {"q", "Close"}, {0},
	},
	.create = create, .release = release, .draw = draw, .state = state, .key = key,
};
