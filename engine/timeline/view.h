/* engine/timeline/view.h (private to engine/timeline/view*.c) - a view of a cache in the making: what its parts add to
 * the columns. */
#ifndef WEIR_VIEW_H
#define WEIR_VIEW_H

#include "engine/cache/rings.h"
#include "engine/timeline/timeline.h"

enum { VIEW_SINKS = 4 }; /* tokens that are left out where the largest attention mass is looked for */

struct view_work {
	struct cache_view *out;
	const struct cache *p;
	struct retained_view in;
	const struct selector *sel;        /* of generated tokens; NULL: they read everything that is kept */
	const struct observe_panel *panel; /* what the last generated token selected; NULL before the first view */
	/* that evict by themselves: pairs of layer and KV head, or layers, all without a window */
	int32_t heads;
	int32_t pinned, past; /* tokens with KV entries: pinned ones, all */
	uint64_t factor;      /* token * factor >> shift = its column */
	int shift;
	int64_t kept[1 + RINGS_MOST][VIEW_COLS]; /* tokens that the heads together keep, by place */
	double ring[1 + RINGS_MOST];             /* attention mass by place */
	double *heat;                            /* [n_layer][VIEW_COLS]: attention mass, or entries read */
	int32_t *list;                           /* [cap_list] slots of one KV head */
	int32_t cap_list;
};

/* ---- columns ---- */

static inline int32_t view_column(const struct view_work *w, int32_t token)
{
	return (int32_t)((uint32_t)token * w->factor >> w->shift);
}
/* How many of the first n tokens are in a column. */
int32_t view_column_tokens(const struct cache_view *, int32_t col, int32_t n);
/* An iterator over tokens first .. end by columns: tokens at .. at + n are in column col. */
struct view_piece {
	int32_t col, n, at, end;
};
struct view_piece view_pieces(const struct view_work *, int32_t first, int32_t end);
int view_piece_next(const struct view_work *, struct view_piece *);
/* Count tokens first .. end as kept by all heads at that place. */
void view_keep_range(struct view_work *, int place, int32_t first, int32_t end);
/* [VIEW_COLS] of a layer. */
double *view_heat_row(struct view_work *, int32_t layer);
/* 0 for nothing, 255 for the whole, 1 .. 254 for a part. */
uint8_t view_part_byte(int64_t part, int64_t whole);
/* 0 for nothing, 255 for the most; 32 less for half of it, 1 at least. */
uint8_t view_heat_byte(double x, double most);

/* ---- rings (view_rings.c) ---- */

void view_rings(struct view_work *);
/* The attention mass that view_rings() added up, as heat. */
void view_rings_heat(struct view_work *);
/* The same of the mass that the panel's observer has measured; nothing before it has. */
void view_measured_heat(struct view_work *);

/* ---- selected entries (view_selected.c) ---- */

/* Comes after view_rings(), whose heat is there already where it shows attention mass. */
void view_selected(struct view_work *);
/* What generated tokens will read of a layer until the next prefill, where the policy fixes that; else what the last
 * one read. Returns the number of parts. */
int view_parts(const struct view_work *, int32_t layer, int32_t region, struct attn_part part[SELECT_PARTS]);
/* w->list = the slots that a part lists for one KV head. Returns their number; 0 where the list does not have as
 * many. */
int32_t view_list_read(struct view_work *, const struct attn_part *, int32_t head);

#endif
