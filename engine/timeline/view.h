/* engine/timeline/view.h (private to engine/timeline/view*.c) - working state of timeline_view(), which sums for each
 * column of tokens how many are kept and how much attention they got (engine_view.h).
 *
 * `place` says where the cache keeps a token: 0 = in the pinned prefix, which is never evicted; i = in its ring
 * buffer i. */
#ifndef WEIR_VIEW_H
#define WEIR_VIEW_H

#include "engine/cache/rings.h"
#include "engine/timeline/timeline.h"

enum { VIEW_SINKS = 4 }; /* first tokens, left out of the largest attention mass */

struct view_work {
	struct cache_view *out;
	const struct cache *p; /* the timeline's cache */
	struct retained_view in;
	const struct selector *sel;        /* selects entries for generated tokens; NULL = they read all entries */
	const struct observe_panel *panel; /* observes which entries tokens select; NULL before the first view */
	/* number of heads that evict independently: pairs (layer, KV head), or whole layers. Layers with a window do
	 * not count. */
	int32_t heads;
	int32_t pinned, past; /* tokens that are never evicted; all tokens with KV entries */
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
/* Iterate over tokens first..end column by column: tokens at..at + n are in column col. */
struct view_piece {
	int32_t col, n, at, end;
};
struct view_piece view_pieces(const struct view_work *, int32_t first, int32_t end);
int view_piece_next(const struct view_work *, struct view_piece *);
/* Count tokens first..end as kept at this place by all heads. */
void view_keep_range(struct view_work *, int place, int32_t first, int32_t end);
/* Return the row [VIEW_COLS] of a layer. */
double *view_heat_row(struct view_work *, int32_t layer);
/* Map x to a byte: 0 = nothing; 255 = `most`; 32 less for each halving, but at least 1. */
uint8_t view_heat_byte(double x, double most);

/* ---- rings (view_rings.c) ---- */

/* Add what the rings keep, and their attention mass. */
void view_rings(struct view_work *);
/* Set heat to the attention mass that view_rings() summed. */
void view_rings_heat(struct view_work *);
/* If the panel's observer has measured attention mass, copy it to heat[]. */
void view_measured_heat(struct view_work *);

/* ---- selected entries (view_selected.c) ---- */

/* Add the entries that generated tokens read. Call it after view_rings(), whose attention mass must already be in
 * w->out. */
void view_selected(struct view_work *);
/* Get which entries of a layer generated tokens read: up to SELECT_PARTS ranges or lists of slots. Return their
 * number. If the policy fixes these entries until the next prefill, return those; otherwise return what the last
 * generated token read. */
int view_parts(const struct view_work *, int32_t layer, int32_t region, struct attn_part part[SELECT_PARTS]);
/* Copy the list of slots that a part has for one KV head to w->list. Return the number of slots, or 0 if the stored
 * list is too short. */
int32_t view_list_read(struct view_work *, const struct attn_part *, int32_t head);

#endif
