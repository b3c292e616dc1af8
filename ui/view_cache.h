/* ui/view_cache.h (private to view_cache*.c and cache_parts.c) - the pane of the cache, as its files share it. */
#ifndef WEIR_VIEW_CACHE_H
#define WEIR_VIEW_CACHE_H

#include "ui/panes.h"

#include "ui/markdown.h"
#include "ui/widgets.h"

enum { LEGEND_PAGE = 6, HISTORY = 256, LAYERS_MOST = 1024, MARKS = 8, KV_MOST = 64 };
#define NOT_WATCHED UINT16_MAX

struct cache_pane {
	int ascii, color;
	int posted;
	struct ui_cache c;            /* what was posted last, its numbers within bounds, its pointers NULL: the copies are below */
	uint8_t kept[UI_COLS], where[UI_COLS], *heat;
	int heat_any;                 /* something is known of it that is not zero */
	/* clean */
	char kv[KV_MOST], name[UI_REGIONS][24], flow_text[UI_FLOWS][160], mark_name[MARKS][64];
	/* one row per post, the newest at (n_past - 1) % HISTORY: share of attention, 65534 = all of it */
	uint16_t past[HISTORY][UI_REGIONS];
	uint64_t n_past;

	int full;                     /* the form that was drawn last is the full one: it has keys of its own */
	int legend;                   /* small forms: shown */
	int legend_full;              /* -1 no, 1 yes, 0 if it fits */
	int legend_seen, legend_more;   /* it was drawn; lines of it that had no room */
	int legend_top;               /* the line it begins with */
	int layer;                    /* the picked one */
	int64_t from, span;           /* tokens that strip and heat of the full form show; span 0 = all */
};

/* ---- cache_parts.c: each draws itself at the top of an area as high as it says, or cut ---- */

/* Is anybody's attention known? */
int  cache_watched(const struct cache_pane *);
int64_t cache_tokens(const struct cache_pane *);          /* that the strip stands for */
int  meters_rows(const struct cache_pane *, int w, int compact);   /* compact: two a row where there is room */
void meters_draw(const struct cache_pane *, const struct area *, int compact);
void numbers_draw(const struct cache_pane *, const struct area *, int y, int most);   /* one row; most: of the memory, too */
enum { NUMBERS_ROWS = 3 };
void numbers_draw_block(const struct cache_pane *, const struct area *);
void kept_by_draw(const struct cache_pane *, const struct area *, int y);    /* one row */
/* Glyphs, letters, and marks where there are documents; before that, an axis.  left: columns kept free for labels. */
int  strip_rows(const struct cache_pane *, int axis);
void strip_draw(const struct cache_pane *, const struct area *, int left, int axis, int64_t from, int64_t span);
int  history_rows(const struct cache_pane *);
void history_draw(const struct cache_pane *, const struct area *);
int  flow_rows(const struct cache_pane *);
void flow_draw(const struct cache_pane *, const struct area *);
void reads_draw(const struct cache_pane *, const struct area *, int y);      /* one row */
void cost_draw(const struct cache_pane *, const struct area *, int y);       /* one row */
/* The ladder of glyphs, for 0 .. 255. */
int32_t ladder(const struct cache_pane *, int v);
/* Data columns [*first, *end) that cell i of w stands for. */
void cell_columns(const struct cache_pane *, int64_t from, int64_t span, int w, int i, int *first, int *end);

/* What the numbers mean: a sentence for each part that is on the screen. */
enum legend_of {
	LEGEND_METERS = 1, LEGEND_NUMBERS = 2, LEGEND_STRIP = 4, LEGEND_HISTORY = 8, LEGEND_FLOW = 16, LEGEND_READS = 32,
	LEGEND_COST = 64, LEGEND_KEPT = 128, LEGEND_HEAT = 256, LEGEND_PEAKS = 512
};
void legend_lay_out(const struct cache_pane *, unsigned of, int w, struct lines *out);
void legend_draw(const struct lines *, const struct area *, size_t top);   /* from line `top` on */

/* ---- view_cache_full.c ---- */
enum pane_key cache_full_key(struct cache_pane *, const struct key *);

#endif
