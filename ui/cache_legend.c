/* ui/cache_legend.c - the legend of the cache pane: what its numbers, letters and glyphs mean. */
#include "ui/pane_cache.h"

/* Sentences follow each other on wide screens; on narrow screens each begins a line. */
static void add(struct str *s, int w, const char *text)
{
	if (s->n)
		str_adds(s, w >= 76 ? "  " : "\n");
	str_adds(s, text);
}

static void add_meters(const struct cache_pane *p, struct str *s, int w)
{
	add(s, w, "letters: ");
	for (int i = 0; i < p->c.n_region; i++) {
		char letter = p->c.region[i].letter;
		str_addf(s, "%s%c %s", i ? ", " : "", letter, p->name[i]);
	}
	str_adds(s, ".");
	add(s, w, "bar: tokens in the region / its capacity.");
	add(s, w, "1/4: one token in four enters it.");
	if (cache_observed(p)) {
		add(s, w, "%: its share of attention mass now, mean over layers and heads, together 100%; -: not known yet.");
	} else {
		add(s, w, "");
		if (p->c.n_region > 1)
			str_adds(s, "-: attention appears with the next answer.");
		else
			str_addf(s, "-: attention is not observed under '%s'.", p->kv);
	}
	add(s, w, "a-b: oldest and newest token in it, from 0; k: thousand.");
}

static void add_strip(const struct cache_pane *p, struct str *s, int w)
{
	add(s, w, "strip: the whole sequence, ");
	str_addf(s, "%s token%s a step: %s; letter: the region that holds most of them%s.", num_count(p->c.per_col).s,
	         p->c.per_col == 1 ? "" : "s", p->ascii ? "# all kept, * : . fewer, blank none"
	                  : "\xe2\x96\x88 all kept, \xe2\x96\x93 \xe2\x96\x92 \xe2\x96\x91 fewer, blank none",
	         p->c.n_mark ? "; ^ a document begins" : "");
}

static void add_heat(const struct cache_pane *p, struct str *s, int w)
{
	if (!p->heat_any)
		return;
	add(s, w, "heat: row L is layer L (or the highest of several), columns as in the strip; ");
	str_addf(s, "%s; %s; > the picked layer.",
	         p->c.heat_is == HEAT_MASS ? "running average of attention mass, log scale, without sinks"
	                                    : "share of the KV heads that selected the tokens",
	         p->ascii ? ". : - = + * # % @: from little to much" : p->color ? "two layers a row, stronger: more" : "higher: more");
}

/* Per-token policies have no refresh figures. */
static void add_reads(const struct cache_pane *p, struct str *s, int w)
{
	int sets = reads_known(&p->c) && (p->c.refreshed >= 0 || !(p->c.estimated >= 0));

	add(s, w, "read: KV entries that the last token attended, per head.");
	if (sets) {
		add(s, w, "refreshed, new: layers that selected again for it.");
		add(s, w, "cosine, cos: similarity of the queries that a refresh compares, 1: same direction.");
	}
	if (sets && !(p->c.estimated >= 0))
		add(s, w, "recovered, rec: share of attention that the old selection gets from a token that selects again.");
	if (p->c.estimated >= 0 && reads_known(&p->c))
		add(s, w, p->c.spread >= 0 ? "exactly: share of attention on the selected entries, by the scores that select them; a sample stands for the rest."
		                           : "estimated, est: share of attention on the entries read, by the scores that select them.");
}

void legend_lay_out(const struct cache_pane *p, unsigned of, int w, struct lines *out)
{
	struct str s = {0};

	if (of & LEGEND_METERS)
		add_meters(p, &s, w);
	if (of & LEGEND_NUMBERS)
		add(&s, w, of & LEGEND_KEPT ? "seen: tokens prefilled or decoded.  kept: by any layer and head, and in % of seen.  evicted: kept by none."
		                            : "seen: tokens prefilled or decoded.  kept: by any layer and head, and in % of seen.  "
		                              "thinned: kept by some layers and heads only.  evicted: kept by none.");
	if (of & LEGEND_NUMBERS)
		add(&s, w, "MiB: memory in use, of the memory at capacity.");
	if (of & LEGEND_KEPT)
		add(&s, w, "kept by: all pairs of layer and KV head, some, none.");
	if (of & LEGEND_READS)
		add_reads(p, &s, w);
	if (of & LEGEND_FLOW)
		add(&s, w, "in, moved, out: tokens a second that entered, moved to an older ring, were evicted; below the newest: ->2 into "
		           "ring 2, 3-> out of ring 3, token number, attention mass (running average), text.");
	if (of & LEGEND_HISTORY && cache_observed(p))
		add(&s, w, "over time: a column an update, newest right; height: share of attention mass against the line's highest; %: now.");
	if (of & LEGEND_STRIP)
		add_strip(p, &s, w);
	if (of & LEGEND_HEAT)
		add_heat(p, &s, w);
	if (of & LEGEND_PEAKS && p->heat_any)
		add(&s, w, "peaks: tokens where the picked layer is highest, highest first; below them the words at the cursor.");
	if (of & LEGEND_COST)
		add(&s, w, "panel: time that these figures took, and its part of the time between two updates.");
	lines_clear(out);
	lines_plain(out, s.p ? s.p : "", s.n, w, ST_FAINT);
	str_free(&s);
}

void legend_draw(const struct lines *l, const struct area *a, size_t top)
{
	for (size_t i = top; i < l->n_line && i - top < (size_t)a->h; i++) {
		const struct text_line *t = &l->line[i];
		int x = 0, word = 0, y = (int)(i - top);

		lines_draw(l, i, a, 0, y);
		/* The subject of a sentence ends with a colon. */
		for (size_t r = t->run; r < (size_t)t->run + t->n_run; r++)
			for (size_t k = 0; k < l->run[r].n; k++) {
				char c = l->text.p[l->run[r].from + k];

				if (((unsigned char)c & 0xc0) == 0x80)
					continue;
				if (c == ':')
					area_restyle(a, word, y, x - word, ST_TEXT);
				x++;
				if (c == ' ')
					word = x;
			}
	}
}
