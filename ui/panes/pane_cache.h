/* ui/panes/pane_cache.h (private to pane_cache*.c and cache_*.c) - the pane of the cache, as its files share it. */
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
	struct ui_cache c;            /* the last post: numbers within bounds, pointers NULL (the copies are below) */
	uint8_t kept[UI_COLS], where[UI_COLS], *heat;
	int heat_any;                 /* the heat has a value above zero */
	/* clean */
	char none[256], kv[KV_MOST], name[UI_REGIONS][24], flow_text[UI_FLOWS][160], mark_name[MARKS][64];
	/* one row per post, the newest at (n_past - 1) % HISTORY: share of attention mass, 65534 = all */
	uint16_t past[HISTORY][UI_REGIONS];
	uint64_t n_past;

	int full;                     /* the full form was drawn last: it gets the keys */
	int legend;                   /* in the small forms: 1 shown, -1 not, 0 beside the transcript if it fits */
	int small_seen;               /* it was drawn there */
	int legend_full;              /* in the full form: -1 no, 1 yes, 0 if it fits */
	int legend_seen, legend_more;   /* the legend was drawn; its lines that had no room */
	int legend_top;               /* its first line on the screen */
	int layer;                    /* the picked layer */
	int at;                       /* the column under the cursor; -1: the highest peak of that layer */
	char (*text)[UI_COL_TEXT];    /* [cols] as it was posted; NULL = not known */
	int64_t from, span;           /* tokens that strip and heat of the full form show; span 0 = all */
};

/* ---- the parts (cache_*.c): each draws at the top of an area of as many rows as it asks for, or is cut ---- */

/* Says in the place of figures why there are none; 0: there are. */
int  cache_none_draw(const struct cache_pane *, const struct area *);
/* Is the attention mass of any region known? */
int  cache_observed(const struct cache_pane *);
int64_t cache_tokens(const struct cache_pane *);          /* tokens in the whole strip */
int  meters_rows(const struct cache_pane *, int w, int compact);   /* compact: two a row where there is room */
void meters_draw(const struct cache_pane *, const struct area *, int compact);
void numbers_draw(const struct cache_pane *, const struct area *, int y, int most);   /* one row; most: with the memory at capacity */
void kept_by_draw(const struct cache_pane *, const struct area *, int y);    /* one row */
/* An axis, glyphs, letters, and marks where documents begin.  left: columns kept free for labels. */
int  strip_rows(const struct cache_pane *, int axis);
void strip_draw(const struct cache_pane *, const struct area *, int left, int axis, int64_t from, int64_t span);
int  history_rows(const struct cache_pane *);
void history_draw(const struct cache_pane *, const struct area *);
int  flow_rows(const struct cache_pane *);
void flow_draw(const struct cache_pane *, const struct area *);
void reads_draw(const struct cache_pane *, const struct area *, int y);      /* one row */
void cost_draw(const struct cache_pane *, const struct area *, int y);       /* one row */
void cost_text(const struct cache_pane *, int share, struct str *);          /* share: also of the time between two reports */
/* Is more known of the last token than the number of entries that it read? */
int  reads_known(const struct ui_cache *);
/* ---- cache_words.c ---- */
enum { WORDS_ROWS = 4 };
void words_draw(const struct cache_pane *, const struct area *);             /* remembers, forgot, looks at, memory */
void words_row(const struct cache_pane *, const struct area *, int y);       /* the same in one row */
void parts_draw(const struct cache_pane *, const struct area *, int y);      /* the colours of the parts and their names; one row */
/* Words that entered the cache last, moved to an older part, were evicted: a row each. */
int  went_rows(const struct cache_pane *);
void went_draw(const struct cache_pane *, const struct area *);
unsigned part_style(const struct cache_pane *, int region);
void legend_plain(const struct cache_pane *, int w, struct lines *out);

/* The ladder of glyphs and the colours of the heat, for 0 .. 255. */
int32_t ladder(const struct cache_pane *, int v);
unsigned heat_style(int v);
/* Data columns [*first, *end) that cell i of w stands for. */
void cell_columns(const struct cache_pane *, int64_t from, int64_t span, int w, int i, int *first, int *end);

/* The legend: sentences for each part on the screen. */
enum legend_of {
	LEGEND_METERS = 1, LEGEND_NUMBERS = 2, LEGEND_STRIP = 4, LEGEND_HISTORY = 8, LEGEND_FLOW = 16, LEGEND_READS = 32,
	LEGEND_COST = 64, LEGEND_KEPT = 128, LEGEND_HEAT = 256, LEGEND_PEAKS = 512
};
void legend_lay_out(const struct cache_pane *, unsigned of, int w, struct lines *out);
void legend_draw(const struct lines *, const struct area *, size_t top);   /* from line `top` on */

/* ---- pane_cache_full.c ---- */
void cache_full_draw(struct cache_pane *, const struct area *);
void cache_full_title(const struct cache_pane *, struct str *left, struct str *right);
enum pane_key cache_full_key(struct cache_pane *, const struct key *);
void cache_pick_layer(struct cache_pane *, int layer);

#endif
