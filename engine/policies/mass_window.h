/* engine/policies/mass_window.h (private to engine/policies/select_h2o.c) - sums of the attention that each slot got
 * from the last WINDOW_TOKENS tokens. The attention of each of these tokens is stored, so that it can be subtracted
 * when the token leaves the window. */
#ifndef WEIR_MASS_WINDOW_H
#define WEIR_MASS_WINDOW_H

#include "engine/engine.h"

enum { WINDOW_TOKENS = 64 };

struct serializer;
struct mass_window {
	/* [heads][WINDOW_TOKENS][cap] attention that each token of the window gives to each slot; NULL: there is no
	 * window */
	float *row;
	int32_t heads, cap;
	int32_t slots[WINDOW_TOKENS]; /* [i] number of slots that the token of row i attends to */
	int32_t n, first;             /* n is the number of rows in use, `first` the index of the oldest row */
};

uint64_t mass_window_bytes(uint64_t heads, int32_t cap);
int mass_window_init(struct mass_window *, int32_t heads, int32_t cap, struct err *);
void mass_window_release(struct mass_window *);
static inline void mass_window_clear(struct mass_window *w)
{
	w->n = w->first = 0;
}

/* Add a new token, which attends to n_slots slots, to the window of one head. If another token leaves the window,
 * subtract its attention from sum[cap]. Return a row of zeros, which the caller fills with the new token's attention.
 * Call mass_window_move() after the last head. */
float *mass_window_enter(struct mass_window *, int32_t head, float *sum, int32_t n_slots);
void mass_window_move(struct mass_window *, int32_t n_slots);
/* Save or load the rows of heads head0 and later, for a cache of n_slots slots. */
void mass_window_archive(struct mass_window *, struct serializer *, int32_t head0, int32_t n_slots);

#endif
