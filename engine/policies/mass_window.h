/* engine/policies/mass_window.h (private to engine/policies/select_h2o.c) - what each of the last WINDOW_TOKENS
 * tokens attended to, so that sums of attention mass can cover a moving window: a token that enters is added, the
 * token that leaves is subtracted. */
#ifndef WEIR_MASS_WINDOW_H
#define WEIR_MASS_WINDOW_H

#include "engine/engine.h"

enum { WINDOW_TOKENS = 64 };

struct serializer;
struct mass_window {
	float *row; /* [heads][WINDOW_TOKENS][cap]; NULL: no window */
	int32_t heads, cap;
	int32_t slots[WINDOW_TOKENS]; /* columns in use of each row */
	int32_t n, first;             /* rows in use; index of the oldest row */
};

uint64_t mass_window_bytes(uint64_t heads, int32_t cap);
int mass_window_init(struct mass_window *, int32_t heads, int32_t cap, struct err *);
void mass_window_release(struct mass_window *);
static inline void mass_window_clear(struct mass_window *w)
{
	w->n = w->first = 0;
}

/* Begin a token with n_slots columns in one head: subtract the row of the token that leaves from sum[cap], and return
 * a row of zeros that the caller fills. Call it for each head, then mass_window_move(). */
float *mass_window_enter(struct mass_window *, int32_t head, float *sum, int32_t n_slots);
void mass_window_move(struct mass_window *, int32_t n_slots);
/* Pass the heads from head0 on, in a region of n_slots, to the serializer. */
void mass_window_archive(struct mass_window *, struct serializer *, int32_t head0, int32_t n_slots);

#endif
