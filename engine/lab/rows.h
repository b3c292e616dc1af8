/* engine/lab/rows.h (private to engine/lab) - reads the rows of attention that a timeline records
 * (observe_rows.c). */
#ifndef WEIR_ROWS_H
#define WEIR_ROWS_H

#include "engine/timeline/timeline.h"

struct observe_rows;
/* Return the recorder of a timeline, or NULL if timeline_rows_begin() was not called. */
const struct observe_rows *timeline_rows(const struct timeline *);
struct rows_shape {
	int32_t block;     /* number of KV entries of a column */
	int32_t rows;      /* number of rows recorded so far */
	int32_t read;      /* number of rows that are from a prefill; they are the first rows */
	int32_t heads;     /* number of KV heads in all recorded layers, numbered layer by layer */
	int32_t per_layer; /* number of KV heads in a layer */
	int32_t first;     /* number of KV entries to which row 0 attends; row i attends to i more entries */
};
void observe_rows_shape(const struct observe_rows *, struct rows_shape *);
/* Return a row of a KV head: for each block, the largest probability of an entry of the block. */
const float *observe_rows_top(const struct observe_rows *, int32_t row, int32_t head);
/* Return a row of a KV head: for each block, the sum of the probabilities of the block's entries. These sums are not
 * recorded for a prefill. */
const float *observe_rows_mass(const struct observe_rows *, int32_t row, int32_t head);

#endif
