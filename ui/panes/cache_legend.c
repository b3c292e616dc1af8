/* ui/panes/cache_legend.c - the legend of the cache pane: explains its numbers, letters and symbols. */
#include "ui/panes/pane_cache.h"
#include "ui/text/text.h"

#include <string.h>

/* Append a sentence as a new line. The sentence begins with the word that it explains, and a colon. */
static void legend_add(struct str *s, const char *text)
{
	str_addf(s, "%s%s", s->n ? "\n" : "", text);
}

static void legend_wrap(const struct str *s, int w, struct str *out)
{
	const char *p = str_text(s);
	int x = 0;

	for (size_t n; *p; p += n) {
		int cols;

		if (*p == '\n') {
			str_adds(out, "\n");
			x = 0;
			n = 1;
			continue;
		}
		n = strspn(p, " ");
		cols = (int)n;
		n += strcspn(p + n, " \n");
		cols = (int)text_width(p, n);
		if (x + cols > w && x > 2) {
			str_adds(out, "\n ");
			x = 1;
		}
		str_add(out, p, n);
		x += cols;
	}
}

static void add_meters(const struct cache_pane *p, struct str *s)
{
	legend_add(s, "letters: the regions of the cache: ");
	for (int i = 0; i < p->c.n_region; i++) {
		char letter = p->c.region[i].letter;
		str_addf(s, "%s%c %s", i ? ", " : "", letter, p->name[i]);
	}
	str_adds(s, ".");
	legend_add(s, "[||||]: tokens in the region, of its capacity.");
	for (int i = 0, told = 0; i < p->c.n_region && !told; i++)
		/* The meter of a region shows "1/N" if only one token in N enters the region. Explain this once. */
		if (p->c.region[i].stride > 1) {
			str_addf(s, "\n1/%d: one token in %d enters the region.", p->c.region[i].stride,
			         p->c.region[i].stride);
			told = 1;
		}
	if (cache_observed(p)) {
		legend_add(
			s,
			"att: the region's share of attention mass now, mean over layers and heads, together 100%; -: not known yet.");
	} else {
		legend_add(s, p->c.n_region > 1
		                      ? "att: the region's share of attention mass, which comes with the next answer."
		                      : "att: all attention is on the one region.");
	}
	legend_add(s, "0-99: oldest and newest token in the region, counted from 0; k: thousand.");
}

static void add_strip(const struct cache_pane *p, struct str *s)
{
	legend_add(s, "strip: the whole sequence, ");
	str_addf(s, "%s token%s a step: %s; letter: the region that holds most of them%s.", num_count(p->c.per_col).s,
	         p->c.per_col == 1 ? "" : "s",
	         p->ascii ? "# all kept, * : . fewer, blank none"
	                  : "\xe2\x96\x88 all kept, \xe2\x96\x93 \xe2\x96\x92 \xe2\x96\x91 fewer, blank none",
	         p->c.n_mark ? "; ^ a document begins" : "");
}

static void add_heat(const struct cache_pane *p, struct str *s)
{
	if (!p->heat_any)
		return;
	legend_add(s, "heat: row L is layer L (or the highest of several), columns as in the strip; ");
	str_addf(s, "%s; %s; > the picked layer.",
	         p->c.heat_is == HEAT_MASS ? "running average of attention mass, log scale, without sinks"
	                                   : "share of the KV heads that selected the tokens",
	         p->ascii   ? ". : - = + * # % @: from little to much"
	         : p->color ? "two layers a row, stronger: more"
	                    : "higher: more");
}

/* Explain which entries were read for the last token. Policies that select anew for every token have no refresh
 * figures. */
static void add_reads(const struct cache_pane *p, struct str *s)
{
	int sets = reads_known(&p->c) && (p->c.refreshed >= 0 || !(p->c.estimated >= 0));

	legend_add(s, "read: KV entries that the last token attended, per head.");
	if (sets) {
		legend_add(s, "refreshed, new: layers that selected again; every: tokens for each selection.");
		legend_add(s, "cosine, cos: similarity of the queries that a refresh compares, 1: same direction.");
	}
	if (sets && !(p->c.estimated >= 0))
		legend_add(
			s,
			"recovered, rec: share of attention that the old selection gets from a token that selects again.");
	if (p->c.estimated >= 0 && reads_known(&p->c))
		legend_add(
			s,
			p->c.spread >= 0
				? "exactly: share of attention on the selected entries, by the scores that select them; a sample stands for the rest."
				: "estimated, est: share of attention on the entries read, by the scores that select them.");
}

void legend_lay_out(const struct cache_pane *p, unsigned of, int w, struct lines *out)
{
	struct str s = { 0 }, wrapped = { 0 };

	if (of & LEGEND_METERS)
		add_meters(p, &s);
	if (of & LEGEND_NUMBERS)
		legend_add(
			&s,
			of & LEGEND_KEPT
				? "seen: tokens that were read or generated; kept: those that any layer and head keeps, and in % of seen; evicted: those that none does."
				: "seen: tokens that were read or generated; kept: those that any layer and head keeps, and in % of seen; "
				  "thinned: those that some keep and some do not; evicted: those that none keeps.");
	if (of & LEGEND_NUMBERS)
		legend_add(&s, "MiB: memory in use, of the memory at capacity.");
	if (of & LEGEND_KEPT)
		legend_add(&s, "kept by: all pairs of layer and KV head, some, none.");
	if (of & LEGEND_READS)
		add_reads(p, &s);
	if (of & LEGEND_FLOW)
		legend_add(
			&s,
			"in, moved, out: tokens a second that entered, moved to an older ring, were evicted; below the newest: ->2 into "
			"ring 2, 3-> out of ring 3, token number, attention mass (running average), text.");
	if (of & LEGEND_HISTORY && cache_observed(p))
		legend_add(
			&s,
			"over time: a column an update, newest right; height: share of attention mass against the line's highest; %: now.");
	if (of & LEGEND_STRIP)
		add_strip(p, &s);
	if (of & LEGEND_HEAT)
		add_heat(p, &s);
	if (of & LEGEND_PEAKS && p->heat_any)
		legend_add(
			&s,
			"peaks: tokens where the picked layer is highest, highest first; below them the words at the cursor.");
	if (of & LEGEND_COST)
		legend_add(&s, "panel: time that these figures took, and its part of the time between two updates.");
	legend_wrap(&s, w, &wrapped);
	lines_clear(out);
	lines_plain(out, str_text(&wrapped), wrapped.n, w, ST_FAINT);
	str_free(&s);
	str_free(&wrapped);
}

void legend_draw(const struct lines *l, const struct area *a, size_t top)
{
	for (size_t i = top; i < l->n_line && i - top < (size_t)a->h; i++) {
		const struct text_line *t = &l->line[i];
		const struct run *r = t->n_run ? &l->run[t->run] : NULL;
		const char *text = r ? l->text.p + r->from : "", *colon = r ? memchr(text, ':', r->n) : NULL;

		lines_draw(l, i, a, 0, (int)(i - top));
		if (colon && *text != ' ') /* highlight the word that is explained */
			area_restyle(a, 0, (int)(i - top), (int)text_width(text, (size_t)(colon - text)), ST_STRONG);
	}
}
