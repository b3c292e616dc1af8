/* ui/panes/cache_flow.c - draws parts of the cache pane: which tokens entered the cache or were evicted, which entries
 * were read for the last token, and how long it takes to compute the figures. */
#include "ui/panes/pane_cache.h"

#include <stdio.h>
#include <string.h>

/* ---- flow ---- */

int flow_rows(const struct cache_pane *p)
{
	return 1 + (p->c.n_flow ? p->c.n_flow : 1);
}

static struct num rate_text(float v)
{
	struct num out;

	if (!(v >= 0))
		snprintf(out.s, sizeof out.s, "-");
	else if (v < 999.95f)
		snprintf(out.s, sizeof out.s, "%.1f", (double)v);
	else
		out = num_short(v < 1e12f ? (int64_t)v : 1000000000000);
	return out;
}

/* Format an attention mass. The value 0 means "not observed", and is shown as "-". */
static struct num mass_text(float v)
{
	struct num out;
	float size = v < 0 ? -v : v;

	if (!(size > 0) || size > 1e30f)
		snprintf(out.s, sizeof out.s, "-");
	else if (size < 0.001f)
		snprintf(out.s, sizeof out.s, "%.0e", (double)v);
	else if (size < 10)
		snprintf(out.s, sizeof out.s, "%.4f", (double)v);
	else
		snprintf(out.s, sizeof out.s, "%.1e", (double)v);
	return out;
}

/* Draw the newest events, the newest first: tokens that entered, moved to another ring or were evicted. */
static void flow_draw_examples(const struct cache_pane *p, const struct area *a)
{
	const struct ui_cache *c = &p->c;

	for (int i = 0; i < c->n_flow; i++) {
		const struct ui_flow *f = &c->flow[c->n_flow - 1 - i];
		const char *text = p->flow_text[c->n_flow - 1 - i];
		char ring[40];
		int x;

		if (f->what == FLOW_OUT)
			snprintf(ring, sizeof ring, "%s->", f->ring > 0 ? num_short(f->ring).s : "");
		else
			snprintf(ring, sizeof ring, "->%s", f->ring > 0 ? num_short(f->ring).s : "");
		area_putf(a, 0, i, f->what == FLOW_OUT ? ST_EVICTED : ST_FAINT, "%s",
		          f->what == FLOW_IN      ? "in"
		          : f->what == FLOW_MOVED ? "moved"
		                                  : "out");
		x = put_right(a, 6, i, 4, ST_FAINT, ring);
		x = put_right(a, x + 1, i, a->w >= 60 ? 13 : 9, ST_TEXT, num_fit(f->token, a->w >= 60 ? 13 : 9).s);
		x = put_right(a, x + 1, i, 7, ST_TEXT, mass_text(f->mass).s);
		put_left(a, x + 1, i, a->w - x - 1, f->what == FLOW_OUT ? ST_EVICTED : ST_TEXT, text, strlen(text),
		         p->ascii);
	}
}

void flow_draw(const struct cache_pane *p, const struct area *a)
{
	const struct ui_cache *c = &p->c;
	struct area rest;

	if (a->w >= 39)
		area_putf(a, 0, 0, ST_TEXT, "in %5s/s  moved %5s/s  out %5s/s", rate_text(c->in_rate).s,
		          rate_text(c->moved_rate).s, rate_text(c->out_rate).s);
	else
		area_putf(a, 0, 0, ST_TEXT, "in %5s out %5s/s", rate_text(c->in_rate).s, rate_text(c->out_rate).s);
	if (!c->n_flow && c->evicted <= 0 && c->thinned <= 0)
		put_left(a, 0, 1, a->w, ST_FAINT, "nothing is evicted so far", 25, p->ascii);
	rest = area_part(a, 0, 1, a->w, a->h - 1);
	flow_draw_examples(p, &rest);
}

/* ---- reads of the last token, cost of the pane ---- */

int reads_known(const struct ui_cache *c)
{
	/* `estimated` counts only if some entries are not read: if all are read (selected = 0), it is always 1. */
	return c->refreshed >= 0 || c->cosine >= -1 || c->recovered >= 0 || (c->estimated >= 0 && c->selected > 0);
}

void reads_draw(const struct cache_pane *p, const struct area *a, int y)
{
	const struct ui_cache *c = &p->c;
	char cosine[16] = "-";
	struct num entries = num_short(c->selected), refreshed = num_short(c->refreshed);
	const char *read = c->selected > 0   ? entries.s
	                   : c->selected < 0 ? "-"
	                                     : "all",
		   *layers = c->refreshed >= 0 ? refreshed.s : "-";
	/* Policies that select once for several tokens report `recovered`; policies that select for each token report
	 * `estimated`. */
	int estimated = c->estimated >= 0 && !(c->recovered >= 0);
	struct num share = num_percent((double)(estimated ? c->estimated : c->recovered));

	if (c->cosine >= -1 && c->cosine <= 1.001f)
		snprintf(cosine, sizeof cosine, "%.3f", (double)c->cosine);
	if (!reads_known(c))
		area_putf(a, 0, y, ST_TEXT, "read %5s entries per KV head", read);
	else if (estimated && c->spread >= 0 && a->w >= 60)
		area_putf(a, 0, y, ST_TEXT, "read %5s  exactly %4s, the rest by sample, error %.1f%%", read, share.s,
		          100 * (double)c->spread);
	else if (estimated && c->refreshed < 0 && a->w >= 60)
		area_putf(a, 0, y, ST_TEXT, "read %5s entries per head  estimated share of attention %4s", read,
		          share.s);
	else if (estimated && c->refreshed < 0)
		area_putf(a, 0, y, ST_TEXT, "read %5s  estimated %4s", read, share.s);
	else if (a->w >= 76 && c->stride > 0)
		area_putf(a, 0, y, ST_TEXT, "read %5s  refreshed %3s, every %4s tokens  cosine %6s  %s %4s", read,
		          layers, num_short((int64_t)(c->stride + .5f)).s, cosine,
		          estimated ? "estimated" : "recovered", share.s);
	else if (a->w >= 76)
		area_putf(a, 0, y, ST_TEXT, "read %5s entries  refreshed %5s layers  cosine %6s  %s %4s", read, layers,
		          cosine, estimated ? "estimated" : "recovered", share.s);
	else if (a->w >= 60)
		area_putf(a, 0, y, ST_TEXT, "read %5s  refreshed %3s  cosine %6s  %s %4s", read, layers, cosine,
		          estimated ? "estimated" : "recovered", share.s);
	else if (a->w >= 40)
		area_putf(a, 0, y, ST_TEXT, "read %5s new %3s cos %6s %s %4s", read, layers, cosine,
		          estimated ? "est" : "rec", share.s);
	else
		area_putf(a, 0, y, ST_TEXT, "read %5s new %5s", read, layers);
}

void cost_text(const struct cache_pane *p, int share, struct str *out)
{
	double ms = p->c.seconds * 1000, part = p->c.seconds / p->c.every;

	if (!(ms >= 0 && ms < 1e6))
		str_adds(out, "panel - ms");
	else if (share && p->c.every > 0 && part < 1e4)
		str_addf(out, "panel %.1f ms, %.1f%% of the time", ms, part * 100);
	else
		str_addf(out, "panel %.1f ms", ms);
}

void cost_draw(const struct cache_pane *p, const struct area *a, int y)
{
	struct str s = { 0 };

	cost_text(p, a->w >= 32, &s);
	area_text(a, 0, y, ST_FAINT, s.p, s.n);
	str_free(&s);
}
