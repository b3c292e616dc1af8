/* ui/panes/cache_words.c - describes the cache in plain words: what it remembers, what it has forgotten, and which of
 * its regions get the attention. */
#include "ui/panes/pane_cache.h"

#include <stdio.h>
#include <string.h>

/* Return a plain name for a region of the KV cache (sinks, prefix, ring), by the age of its tokens. */
static const char *part_of(const struct ui_region *r)
{
	return r->letter == 's'   ? "start"
	       : r->letter == 'p' ? "pinned"
	       : r->letter == '1' ? "newest"
	       : r->stride > 1    ? "older"
	                          : "all";
}

unsigned part_style(const struct cache_pane *p, int region)
{
	return p->color ? ST_PART + (unsigned)(region < 0                ? 0
	                                       : region < PARTS_OF_CACHE ? region
	                                                                 : PARTS_OF_CACHE - 1)
	                : ST_TEXT;
}

static int draw_label(const struct area *a, int y, const char *label)
{
	area_text(a, 0, y, ST_FAINT, label, strlen(label));
	return 11;
}

/* Return the number of tokens that at least one head keeps. */
static int64_t tokens_held(const struct ui_cache *c)
{
	int64_t n = (int64_t)c->seen - MAX(c->evicted, 0);

	return MAX(n, 0);
}

static void draw_remembers(const struct cache_pane *p, const struct area *a, int y)
{
	const struct ui_cache *c = &p->c;
	int x = draw_label(a, y, "remembers");

	if (c->seen < 1)
		area_putf(a, x, y, ST_TEXT, "nothing yet");
	else if (c->evicted < 1)
		area_putf(a, x, y, ST_STRONG, "all %s tokens", num_count(c->seen).s);
	else
		area_putf(a, x, y, ST_STRONG, "%s of %s tokens (%s)", num_count(tokens_held(c)).s, num_count(c->seen).s,
		          num_percent((double)tokens_held(c) / c->seen).s);
}

static void draw_forgot(const struct cache_pane *p, const struct area *a, int y)
{
	const struct ui_cache *c = &p->c;
	int x = draw_label(a, y, "forgot");

	x = c->evicted > 0 ? area_putf(a, x, y, ST_TEXT, "%s tokens", num_count(c->evicted).s)
	                   : area_putf(a, x, y, ST_TEXT, "nothing");
	if (c->thinned > 0)
		area_putf(a, x, y, ST_TEXT, "%s %s in part", c->evicted > 0 ? " and" : ", but",
		          num_short(c->thinned).s);
}

/* Draw the regions' shares of attention, beginning with the largest. */
static void draw_looks(const struct cache_pane *p, const struct area *a, int y)
{
	int x = draw_label(a, y, "looks at"), said = 0;
	unsigned done = 0;

	if (!cache_observed(p)) {
		put_left(a, x, y, a->w - x, ST_FAINT, p->c.n_region > 1 ? "appears with the next answer" : "all of it",
		         p->c.n_region > 1 ? 28 : 9, p->ascii);
		return;
	}
	for (int n = 0; n < p->c.n_region; n++) {
		int best = -1;
		char text[48];

		for (int i = 0; i < p->c.n_region; i++)
			if (!(done >> i & 1) && p->c.region[i].share >= 0 &&
			    (best < 0 || p->c.region[i].share > p->c.region[best].share))
				best = i;
		if (best < 0)
			return;
		done |= 1u << best;
		snprintf(text, sizeof text, "%s%s %s", said ? ", " : "", part_of(&p->c.region[best]),
		         num_percent((double)p->c.region[best].share).s);
		if (x + (int)strlen(text) > a->w || (said && p->c.region[best].share <= 0))
			return;
		x = area_text(a, x, y, part_style(p, best), text, strlen(text));
		said = 1;
	}
}

void words_draw(const struct cache_pane *p, const struct area *a)
{
	const struct ui_cache *c = &p->c;

	draw_remembers(p, a, 0);
	draw_forgot(p, a, 1);
	draw_looks(p, a, 2);
	if (c->resident)
		area_putf(a, draw_label(a, 3, "memory"), 3, ST_TEXT, "%s, of %s on disk", num_bytes(c->resident).s,
		          num_bytes(c->bytes).s);
	else
		area_putf(a, draw_label(a, 3, "memory"), 3, ST_TEXT, "%s of %s", num_bytes(c->bytes).s,
		          num_bytes(c->bytes_most).s);
}

void words_row(const struct cache_pane *p, const struct area *a, int y)
{
	const struct ui_cache *c = &p->c;
	int x;

	/* Every number has a fixed width, so that nothing moves when it changes. */
	if (a->w < 40)
		area_putf(a, 0, y, ST_TEXT, "remembers %5s forgot %5s", num_short(tokens_held(c)).s,
		          num_short(c->evicted).s);
	if (a->w < 40)
		return;
	x = area_putf(a, 0, y, ST_TEXT, " remembers %7s of %7s ", num_fit(tokens_held(c), 7).s, num_fit(c->seen, 7).s);
	x = area_putf(a, x + 1, y, ST_TEXT, " forgot %7s ", num_fit(c->evicted, 7).s);
	if (x + 18 <= a->w)
		x = area_putf(a, x + 1, y, ST_TEXT, " in part %7s ", num_fit(c->thinned, 7).s);
	if (x + 11 <= a->w)
		area_putf(a, a->w - 11, y, ST_FAINT, " %9s ", num_bytes(c->bytes).s);
}

/* ---- the names of the parts ---- */

void parts_draw(const struct cache_pane *p, const struct area *a, int y)
{
	int x = 0;

	for (int i = 0; i < p->c.n_region; i++) {
		const struct ui_region *r = &p->c.region[i];
		char text[64];

		if (r->fill < 1)
			continue;
		if (r->stride > 1)
			snprintf(text, sizeof text, "%s, one in %s", part_of(r), num_short(r->stride).s);
		else
			snprintf(text, sizeof text, "%s", part_of(r));
		if (x + 2 + (int)strlen(text) > a->w)
			return;
		area_cell(a, x, y, p->color && !p->ascii ? 0x25a0 : r->letter, part_style(p, i), 0);
		x = area_text(a, x + 2, y, ST_FAINT, text, strlen(text)) + 2;
	}
}

/* ---- recent events in words ---- */

static const struct {
	enum ui_flow_what what;
	const char *label;
} moves[] = { { FLOW_IN, "came" }, { FLOW_MOVED, "older now" }, { FLOW_OUT, "forgotten" } };
enum { MOVES = 3 };

static int has_flow(const struct cache_pane *p, enum ui_flow_what what)
{
	for (int i = 0; i < p->c.n_flow; i++)
		if (p->c.flow[i].what == what)
			return 1;
	return 0;
}

int went_rows(const struct cache_pane *p)
{
	int rows = 0;

	for (int m = 0; m < MOVES; m++)
		rows += has_flow(p, moves[m].what);
	return rows;
}

void went_draw(const struct cache_pane *p, const struct area *a)
{
	int y = 0;

	for (int m = 0; m < MOVES; m++) {
		struct str s = { 0 };
		int x;

		if (!has_flow(p, moves[m].what))
			continue;
		for (int i = p->c.n_flow; i-- > 0;)
			if (p->c.flow[i].what == moves[m].what && *p->flow_text[i])
				str_addf(&s, "%s%s", s.n ? p->ascii ? " | " : " \xc2\xb7 " : "",
				         p->flow_text[i] + strspn(p->flow_text[i], " "));
		x = draw_label(a, y, moves[m].label);
		put_left(a, x, y++, a->w - x, moves[m].what == FLOW_OUT ? ST_FAINT : ST_TEXT, str_text(&s), s.n,
		         p->ascii);
		str_free(&s);
	}
}

/* ---- the plain legend ---- */

void legend_plain(const struct cache_pane *p, int w, struct lines *out)
{
	struct str s = { 0 };

	str_addf(&s, "The strip is the whole conversation, the oldest at the left: %s.\n",
	         p->ascii
	                 ? "# cached, * : . cached in part, blank evicted"
	                 : "\xe2\x96\x88 cached, \xe2\x96\x93 \xe2\x96\x92 \xe2\x96\x91 cached in part, blank evicted");
	str_adds(&s,
	         p->color ? "Its colour is the part of the cache that holds it; the parts are named below it.\n"
	                  : "The letter below it is the part of the cache that holds it; the parts are named below.\n");
	str_adds(&s, "Looks at: where the attention of the last token goes.\n"
	             "Words that are dimmed in the conversation are evicted: the model does not see them any more.\n"
	             "F2 again: every figure, layer by layer.");
	lines_clear(out);
	lines_plain(out, s.p, s.n, w, ST_FAINT);
	str_free(&s);
}
