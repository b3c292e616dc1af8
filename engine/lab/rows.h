/* engine/lab/rows.h (private to engine/lab) - reads the rows of attention that a timeline records
 * (observe_rows.c). */
#ifndef WEIR_ROWS_H
#define WEIR_ROWS_H

#include "engine/timeline/timeline.h"

struct observe_rows;
/* Return the recorder of a timeline; NULL: timeline_rows_begin() was not called. */
const struct observe_rows *timeline_rows(const struct timeline *);
struct rows_shape {
	int32_t block;     /* KV entries of a column */
	int32_t rows;      /* number of rows recorded so far */
	int32_t read;      /* how many rows, at the beginning, are from a prefill */
	int32_t heads;     /* number of KV heads in all recorded layers, numbered layer by layer */
	int32_t per_layer; /* number of KV heads in a layer */
	int32_t first;     /* number of KV entries that row 0 attends to; row i attends to i more */
};
void observe_rows_shape(const struct observe_rows *, struct rows_shape *);
/* Return a row of a KV head: for each block, the largest probability in it. */
const float *observe_rows_top(const struct observe_rows *, int32_t row, int32_t head);
/* Return a row of a KV head: for each block, the sum of the probabilities in it. These sums are not recorded for a
 * prefill. */
const float *observe_rows_mass(const struct observe_rows *, int32_t row, int32_t head);

#endif
