/* engine/policies/mass_window.c - see mass_window.h. */
#include "engine/policies/mass_window.h"

#include <stdlib.h>
#include <string.h>

#include "engine/cache/serialize.h"

uint64_t mass_window_bytes(uint64_t heads, int32_t cap)
{
	return sizeof(float) * WINDOW_TOKENS * heads * (uint64_t)cap;
}

int mass_window_init(struct mass_window *w, int32_t heads, int32_t cap, struct err *err)
{
	*w = (struct mass_window){ .heads = heads, .cap = cap };
	w->row = try_alloc((size_t)heads * WINDOW_TOKENS * (size_t)cap, sizeof *w->row,
	                   "probabilities of single tokens", err);
	return w->row ? 0 : -1;
}

void mass_window_release(struct mass_window *w)
{
	free(w->row);
	*w = (struct mass_window){ 0 };
}

/* Return the index of the row for the new token: the first unused row or, if all rows are in use, the oldest one. */
static int32_t entering_row(const struct mass_window *w)
{
	return (w->first + w->n) % WINDOW_TOKENS;
}

static float *row_of(const struct mass_window *w, int32_t head, int32_t i)
{
	return w->row + ((size_t)head * WINDOW_TOKENS + (size_t)i) * (size_t)w->cap;
}

float *mass_window_enter(struct mass_window *w, int32_t head, float *sum, int32_t n_slots)
{
	int32_t i = entering_row(w);
	float *row = row_of(w, head, i);

	for (int32_t k = 0; w->n == WINDOW_TOKENS && k < w->slots[i]; k++)
		sum[k] -= row[k];
	memset(row, 0, (size_t)n_slots * sizeof *row);
	return row;
}

void mass_window_move(struct mass_window *w, int32_t n_slots)
{
	w->slots[entering_row(w)] = n_slots;
	if (w->n < WINDOW_TOKENS)
		w->n++;
	else
		w->first = (w->first + 1) % WINDOW_TOKENS;
}

void mass_window_archive(struct mass_window *w, struct serializer *a, int32_t head0, int32_t n_slots)
{
	int32_t n = w->n;

	serialize_i32(a, &n, 0, WINDOW_TOKENS, "the number of tokens whose attention is kept");
	serialize_i32(a, &w->first, 0, WINDOW_TOKENS - 1, "the first of them");
	for (int32_t i = 0; i < n && !a->bad; i++) {
		int32_t at = (w->first + i) % WINDOW_TOKENS;

		serialize_i32(a, &w->slots[at], 0, n_slots, "the slots of a token's attention");
		for (int32_t h = head0; h < w->heads && !a->bad; h++)
			serialize_bytes(a, row_of(w, h, at), (uint64_t)w->slots[at] * sizeof(float));
	}
	w->n = a->bad ? 0 : n;
}
