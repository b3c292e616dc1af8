/* engine/timeline/view.h (private to engine/timeline/view*.c) - working state of timeline_view(): counts and sums for
 * each column of the picture (engine_view.h). A place says where a token is kept: 0 = in the pinned prefix, i = in
 * ring buffer i of the cache. */
#ifndef WEIR_VIEW_H
#define WEIR_VIEW_H

#include "engine/cache/rings.h"
#include "engine/timeline/timeline.h"

enum { VIEW_SINKS = 4 }; /* first tokens, left out of the largest attention mass */

struct view_work {
	struct cache_view *out;
	const struct cache *p; /* the timeline's cache */
	struct retained_view in;
	const struct selector *sel;        /* selector of generated tokens; NULL = they read all that is kept */
	const struct observe_panel *panel; /* observer of what tokens select; NULL before the first view */
	/* units that evict by themselves: pairs of layer and KV head, or layers; without layers with a window */
	int32_t heads;
	int32_t pinned, past; /* tokens with KV entries: pinned tokens, all tokens */
	uint64_t factor;      /* token * factor >> shift = its column */
	int shift;
	int64_t kept[1 + RINGS_MOST][VIEW_COLS]; /* pairs of token and head that are kept, by place */
	double ring[1 + RINGS_MOST];             /* attention mass by place */
	double *heat;                            /* [n_layer][VIEW_COLS] attention mass, or entries read */
	int32_t *list;                           /* [cap_list] slots of one KV head */
	int32_t cap_list;
};

/* ---- columns ---- */

static inline int32_t view_column(const struct view_work *w, int32_t token)
{
	return (int32_t)((uint32_t)token * w->factor >> w->shift);
}
/* Return how many of the first n tokens are in a column. */
int32_t view_column_tokens(const struct cache_view *, int32_t col, int32_t n);
/* Iterate over tokens first .. end by column: tokens at .. at + n are in column col. */
struct view_piece {
	int32_t col, n, at, end;
};
struct view_piece view_pieces(const struct view_work *, int32_t first, int32_t end);
int view_piece_next(const struct view_work *, struct view_piece *);
/* Count tokens first .. end as kept by all heads at this place. */
void view_keep_range(struct view_work *, int place, int32_t first, int32_t end);
/* Return the row [VIEW_COLS] of a layer. */
double *view_heat_row(struct view_work *, int32_t layer);
/* Map x to a byte: 0 = nothing, 255 = most, 32 less for each halving, 1 at least. */
uint8_t view_heat_byte(double x, double most);

/* ---- rings (view_rings.c) ---- */

/* Add what the rings keep, and their attention mass. */
void view_rings(struct view_work *);
/* Set heat to the attention mass that view_rings() summed. */
void view_rings_heat(struct view_work *);
/* Set heat to the attention mass that the panel's observer measured, if it has. */
void view_measured_heat(struct view_work *);

/* ---- selected entries (view_selected.c) ---- */

/* Add the entries that generated tokens read. Call it after view_rings(), whose heat of attention mass is kept. */
void view_selected(struct view_work *);
/* Get what generated tokens read of a layer until the next prefill, if the policy fixes that; else what the last
 * generated token read. Return the number of parts. */
int view_parts(const struct view_work *, int32_t layer, int32_t region, struct attn_part part[SELECT_PARTS]);
/* Read the slots that a part lists for one KV head into w->list; return their number, 0 if the list is shorter than
 * that. */
int32_t view_list_read(struct view_work *, const struct attn_part *, int32_t head);

#endif
