/* engine/lab/rows.h (private to engine/lab) - rows of attention that a timeline keeps (observe_rows.c). */
#ifndef WEIR_ROWS_H
#define WEIR_ROWS_H

#include "engine/timeline/timeline.h"

struct observe_rows;
/* NULL: timeline_rows_begin() was not called. */
const struct observe_rows *timeline_rows(const struct timeline *);
struct rows_shape {
	int32_t block;     /* KV entries of a column */
	int32_t rows;      /* committed rows */
	int32_t read;      /* the first of them, which are of a prefill */
	int32_t heads;     /* KV heads of all observed layers, in the order of the layers */
	int32_t per_layer; /* KV heads of one layer */
	int32_t first;     /* KV entries that row 0 attended to; each later row attended to one more */
};
void observe_rows_shape(const struct observe_rows *, struct rows_shape *);
/* Return a row's columns: the largest probability of each block. */
const float *observe_rows_top(const struct observe_rows *, int32_t row, int32_t head);
/* Return a row's columns: the sum of the probabilities of each block. Rows of a prefill have none. */
const float *observe_rows_mass(const struct observe_rows *, int32_t row, int32_t head);

#endif
