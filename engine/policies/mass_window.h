/* engine/policies/mass_window.h (private to engine/policies/select_h2o.c) - what each of the last tokens attended to,
 * so that sums of attention mass can cover a window of tokens that moves on: a token that enters is added, the one that
 * leaves is subtracted. */
#ifndef WEIR_MASS_WINDOW_H
#define WEIR_MASS_WINDOW_H

#include "engine/engine.h"

enum { WINDOW_TOKENS = 64 };

struct serializer;
struct mass_window {
	float *row; /* [heads][WINDOW_TOKENS][cap]; NULL: there is no window */
	int32_t heads, cap;
	int32_t slots[WINDOW_TOKENS]; /* columns of each row */
	int32_t n, first;             /* rows in use; the oldest of them */
};

uint64_t mass_window_bytes(uint64_t heads, int32_t cap);
int mass_window_init(struct mass_window *, int32_t heads, int32_t cap, struct err *);
void mass_window_release(struct mass_window *);
static inline void mass_window_clear(struct mass_window *w)
{
	w->n = w->first = 0;
}

/* A token enters that has n_slots columns: call mass_window_enter() for each head that is summed, then
 * mass_window_move(). The row that is returned is 0 everywhere; the token that leaves for it is subtracted from
 * sum[cap]. */
float *mass_window_enter(struct mass_window *, int32_t head, float *sum, int32_t n_slots);
void mass_window_move(struct mass_window *, int32_t n_slots);
/* Heads from `head0` on; n_slots: of the region. */
void mass_window_archive(struct mass_window *, struct serializer *, int32_t head0, int32_t n_slots);

#endif
