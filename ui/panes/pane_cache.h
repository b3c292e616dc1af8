/* ui/panes/pane_cache.h (private to pane_cache*.c and cache_*.c) - the state of the cache pane. */
#ifndef WEIR_VIEW_CACHE_H
#define WEIR_VIEW_CACHE_H

#include "ui/panes/panes.h"

#include "ui/transcript/markdown.h"
#include "ui/screen/widgets.h"

enum { LEGEND_PAGE = 6, HISTORY = 256, LAYERS_MOST = 1024, MARKS = 8, KV_MOST = 64 };
#define NOT_OBSERVED UINT16_MAX

struct cache_pane {
	struct pane pane;
	int ascii, color;
	int posted;
	/* The figures that were posted last, clamped to valid ranges. All pointers in `c` are NULL; the members below
	 * have copies of what the pointers pointed to. */
	struct ui_cache c;
	uint8_t kept[UI_COLS], where[UI_COLS], *heat;
	int heat_any; /* 1: at least one heat value is above zero */
	/* filtered copies of the posted strings */
	char none[256], kv[KV_MOST], name[UI_REGIONS][24], flow_text[UI_FLOWS][160], mark_name[MARKS][64];
	/* Share of attention of each cache region (sinks, prefix, rings), one row for each post. The numbers from 0 to
	 * 65534 stand for the shares from 0 to 1. The newest row is past[(n_past - 1) % HISTORY]. */
	uint16_t past[HISTORY][UI_REGIONS];
	uint64_t n_past;

	int full; /* 1: the pane was drawn last in its full-screen form, and gets the keys */
	/* The legend in the small forms of the pane, which are the bar and the side panel. 1 = shown; -1 = hidden; 0 =
	 * shown in the side panel if it fits. */
	int legend;
	int small_seen;  /* 1: the legend was visible when the bar or side panel was last drawn */
	int legend_full; /* the legend on the full screen: 1 = shown; -1 = hidden; 0 = shown if it fits */
	/* legend_seen is 1 if the legend was visible when the full screen was last drawn. legend_more is the number of
	 * lines of the legend that did not fit. */
	int legend_seen, legend_more;
	int legend_top; /* number of the first visible line of the legend */
	int layer;      /* index of the picked layer, which the full screen shows enlarged */
	/* Column of the heat map under the cursor; -1 = the highest peak of the picked layer. A column stands for
	 * c.per_col tokens. */
	int at;
	char (*text)[UI_COL_TEXT]; /* [cols] text of each column, as it was posted; NULL = unknown */
	/* Which tokens the full screen shows: `span` tokens, beginning with token number `from`. If `span` is 0, it
	 * shows all tokens. */
	int64_t from, span;
};

/* ---- drawing functions (cache_*.c): each draws at the top of its area and is cut if it needs more rows ---- */

/* If there are no cache figures, draw the reason for it and return 1; else return 0. */
int cache_none_draw(const struct cache_pane *, const struct area *);
/* 1 if the attention mass of at least one region is known. */
int cache_observed(const struct cache_pane *);
int64_t cache_tokens(const struct cache_pane *); /* return the number of tokens in the whole strip */
/* if `compact` is 1, two meters share a row if they fit */
int meters_rows(const struct cache_pane *, int w, int compact);
void meters_draw(const struct cache_pane *, const struct area *, int compact);
/* Draw the numbers of the whole cache in one row. If `most` is 1, also draw how many bytes the cache uses when it is
 * full. */
void numbers_draw(const struct cache_pane *, const struct area *, int y, int most);
/* Draw in one row how many tokens are kept by all, some or no KV heads. */
void kept_by_draw(const struct cache_pane *, const struct area *, int y);
/* strip_draw() draws the strip, which shows for each token position how many KV heads keep it. The strip also shows the
 * letters of the cache regions and the beginnings of documents. strip_rows() returns the number of rows of the strip.
 * If `axis` is 1, there is a row of token numbers above the strip. `left` is the number of columns to leave for labels.
 * `from` and `span` tell which tokens to show: `span` tokens from number `from` on; if `span` is 0, all tokens. */
int strip_rows(const struct cache_pane *, int axis);
void strip_draw(const struct cache_pane *, const struct area *, int left, int axis, int64_t from, int64_t span);
int history_rows(const struct cache_pane *);
void history_draw(const struct cache_pane *, const struct area *);
int flow_rows(const struct cache_pane *);
void flow_draw(const struct cache_pane *, const struct area *);
/* reads_draw() draws one row that tells which KV entries were read for the last token. cost_draw() draws one row that
 * tells how long it takes to compute the figures of the cache pane. */
void reads_draw(const struct cache_pane *, const struct area *, int y);
void cost_draw(const struct cache_pane *, const struct area *, int y);
/* Append how long it takes to compute the figures of the cache pane. If `share` is 1, also append this time as a share
 * of the time between two reports. */
void cost_text(const struct cache_pane *, int share, struct str *);
/* 1 if `c` has other figures than `selected` about what the last token read, for example a selection's quality. */
int reads_known(const struct ui_cache *);
/* ---- cache_words.c ---- */
enum { WORDS_ROWS = 4 };
/* Draw four rows: "remembers", "forgot", "looks at" and "memory". */
void words_draw(const struct cache_pane *, const struct area *);
void words_row(const struct cache_pane *, const struct area *, int y); /* draw a summary in one row */
/* Draw the names of the regions in their colours, in one row. */
void parts_draw(const struct cache_pane *, const struct area *, int y);
/* Draw up to three rows with words of three kinds: the words that entered the cache last, those that were last moved to
 * a ring of older tokens, and those that were evicted last. */
int went_rows(const struct cache_pane *);
void went_draw(const struct cache_pane *, const struct area *);
unsigned part_style(const struct cache_pane *, int region);
void legend_plain(const struct cache_pane *, int w, struct lines *out);

/* Both functions take an amount from 0 to 255. ladder() returns a glyph for it, heat_style() a heat colour. */
int32_t ladder(const struct cache_pane *, int v);
unsigned heat_style(int v);
/* Set [*first, *end) to the data columns that cell i shows, if tokens [from, from + span) are drawn in w screen
 * cells. */
void cell_columns(const struct cache_pane *, int64_t from, int64_t span, int w, int i, int *first, int *end);

/* The parts of the pane that the legend explains. */
enum legend_of {
	LEGEND_METERS = 1,
	LEGEND_NUMBERS = 2,
	LEGEND_STRIP = 4,
	LEGEND_HISTORY = 8,
	LEGEND_FLOW = 16,
	LEGEND_READS = 32,
	LEGEND_COST = 64,
	LEGEND_KEPT = 128,
	LEGEND_HEAT = 256,
	LEGEND_PEAKS = 512
};
void legend_lay_out(const struct cache_pane *, unsigned of, int w, struct lines *out);
/* draw the lines of the legend from line `top` on */
void legend_draw(const struct lines *, const struct area *, size_t top);

/* ---- pane_cache_full.c ---- */
void cache_full_draw(struct cache_pane *, const struct area *);
void cache_full_title(const struct cache_pane *, struct str *left, struct str *right);
enum pane_key cache_full_key(struct cache_pane *, const struct key *);
void cache_pick_layer(struct cache_pane *, int layer);

#endif
