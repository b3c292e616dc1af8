/* engine/timeline/view.h (private to engine/timeline/view*.c) - working state of timeline_view(). The sequence is
 * divided into columns of tokens. For each column timeline_view() counts how many KV entries are kept, and sums the
 * attention that they got.
 *
 * The tier of a token is the place where the cache keeps it. In tier 0, the token is in the pinned prefix, which is
 * never evicted. In tier 1 + i, it is in ring buffer i (rings.h). */
#ifndef WEIR_VIEW_H
#define WEIR_VIEW_H

#include "engine/cache/rings.h"
#include "engine/timeline/timeline.h"

enum { VIEW_SINKS = 4 }; /* number of tokens at the beginning that count as attention sinks */

struct view_work {
	struct cache_view *out;
	const struct cache *p; /* the timeline's cache */
	struct retained_view in;
	/* selector that decides which entries generated tokens read; NULL: they read all entries */
	const struct selector *sel;
	/* observer that records which entries tokens select, or NULL before the first view */
	const struct observe_panel *panel;
	/* Number of heads that keep or evict a token independently. With ring buffers, a head is a pair (layer, KV
	 * head), or a whole layer; layers with a sliding window do not count. Without ring buffers, every pair (layer,
	 * KV head) is a head. */
	int32_t heads;
	/* The first `pinned` tokens are never evicted. The first `past` tokens have KV entries. */
	int32_t pinned, past;
	uint64_t factor; /* a token's column is token * factor >> shift */
	int shift;
	/* Number of pairs (token, head) that the cache keeps. kept[0] is for the pinned prefix, kept[1 + i] for ring
	 * buffer i; the second index is the token's column. */
	int64_t kept[1 + RINGS_MOST][VIEW_COLS];
	double ring[1 + RINGS_MOST]; /* ring[1 + i] is the attention mass of the tokens in ring buffer i */
	/* [n_layer][VIEW_COLS] a sum for each layer and column of the view: in view_rings.c, the sum of attention mass;
	 * in view_selected.c, the number of entries that the layer reads */
	double *heat;
	int32_t *list; /* [cap_list] slots that one KV head has selected */
	int32_t cap_list;
};

/* ---- columns ---- */

static inline int32_t view_column(const struct view_work *w, int32_t token)
{
	return (int32_t)((uint32_t)token * w->factor >> w->shift);
}
/* Return how many of the sequence's first n tokens are in column col. */
int32_t view_column_tokens(const struct cache_view *, int32_t col, int32_t n);
/* An iteration over the tokens from `first` to `end` - 1, column by column. In each round, column `col` contains the n
 * tokens from `at` on. */
struct view_piece {
	int32_t col, n, at, end;
};
struct view_piece view_pieces(const struct view_work *, int32_t first, int32_t end);
int view_piece_next(const struct view_work *, struct view_piece *);
/* Add the tokens from `first` to `end` - 1 to kept[tier], for all heads. The comment at the top of this file defines
 * tiers. */
void view_keep_range(struct view_work *, int tier, int32_t first, int32_t end);
/* Return heat[layer], the sums of a layer. */
double *view_heat_row(struct view_work *, int32_t layer);
/* Convert x to a byte on a logarithmic scale: `most` gives 255, and each halving of x subtracts 32. x > 0 gives at
 * least 1, x = 0 gives 0. */
uint8_t view_heat_byte(double x, double most);

/* ---- rings (view_rings.c) ---- */

/* Count the tokens that the rings keep, and sum their attention mass. */
void view_rings(struct view_work *);
/* Set out->heat to the attention mass that view_rings() summed. */
void view_rings_heat(struct view_work *);
/* If the cache view's observer has measured attention mass, set out->heat to this mass. */
void view_measured_heat(struct view_work *);

/* ---- selected entries (view_selected.c) ---- */

/* Count the entries that generated tokens read. Call this function after view_rings() and view_rings_heat(). */
void view_selected(struct view_work *);
/* Set seg[] to the entries that generated tokens read in a layer, and return the number of segments. A segment is a
 * range of slots, or a list of slots per head. Some policies select once for all tokens until the next prefill. For
 * these policies, the segments are the entries selected among the first `region` slots. For other policies, the
 * segments are the entries that the last generated token read. In a layer with a sliding window, the segment is the
 * range that the next token will read. */
int view_segments(const struct view_work *, int32_t layer, int32_t region, struct attn_segment seg[SELECT_SEGMENTS]);
/* Read the slots that `seg` lists for one KV head, and store them in w->list. Return the number of slots. Return 0 if
 * the segment lists no slots, or if its number of slots is larger than its list. */
int32_t view_list_read(struct view_work *, const struct attn_segment *, int32_t head);

#endif
