/* tests/lib/select_ref.h - the reference for selection in kernels, in plain double arithmetic: keys and scores to
 * try, the contents of key sketches, the results of scans and of topk. The caller frees every returned pointer. */
#ifndef WEIR_TEST_SELECT_REF_H
#define WEIR_TEST_SELECT_REF_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/backend.h"
#include "kernels/cpu/select.h"
#include "kernels/common/quant.h"
#include "tests/lib/levels.h"

/* Return the tensor's bytes. */
void *tensor_read(struct backend *be, const struct tensor *t);

/* Values of guards, which surround a result and must not be overwritten. GUARD: in float results; GUARD_ROW: in integer
 * results. */
#define GUARD     12345.5f
#define GUARD_ROW 987654321

/* Make a tensor for a result [rows][cols]. It has one more column and one more row, and is filled with guards. */
struct tensor guarded(struct backend *be, enum dtype type, int32_t rows, int32_t cols);

/* Check the guards of a result, drop its tensor, and return the result [rows][cols]. */
void *unguarded(struct backend *be, struct tensor *t);

/* Return a random number with an approximately normal distribution. */
float bell(void);

/* Return random keys [heads][cap][dim] like those of models: each channel has its own mean and deviation, and a few are
 * far from zero. */
float *random_keys(int32_t heads, int32_t cap, int32_t dim);

/* Return a random query of n numbers. outliers: 1 = some are far from zero. */
float *random_query(int32_t n, int outliers);

/* Make a plane of the type from x. Sets held to the values that the plane stores, as floats. */
struct tensor plane_new(struct backend *be, enum dtype type, int32_t heads, int32_t cap, int32_t dim, const float *x,
                        float *held);

/* Set out to the keys [heads][cap][dim] as a key sketch of the first n slots stores them: centred, transformed and
 * rounded to the nearest codes. The mean is added again. back: 1 = also transform back. Decisions between two close
 * codes are made in single precision, as in the kernel. */
void round_keys(float *out, const float *x, int32_t heads, int32_t cap, int32_t n, int32_t dim, int32_t bits, int back);

/* Compute the scores of a scan in double, from keys [n_kv_head][cap][dim]. slack[h]: largest change of a score of KV
 * head h if the query is rounded to steps of 1/`steps` of its largest value. */
void scan_plain(double *out, double *slack, const float *keys, const float *q, int32_t n_head, int32_t n_kv,
                int32_t dim, int32_t cap, int32_t n, float scale, enum reduce how, double steps);

/* ---- key sketches and scans ---- */

struct shape {
	int32_t dim, group, n_kv, n, cap;
};
static const struct shape select_shapes[] = {
	{ 64, 3, 3, 1, 40 },      { 64, 3, 3, 500, 512 },    { 32, 1, 2, 17, 17 },     { 40, 2, 1, 33, 50 },
	{ 80, 4, 2, 1025, 1040 }, { 128, 8, 1, 2100, 2100 }, { 64, 5, 2, 1040, 1041 }, { 96, 7, 1, 64, 64 },
	{ 6, 2, 2, 31, 33 },      { 1, 1, 1, 16, 16 },       { 64, 6, 1, 3000, 3333 }, { 33, 3, 1, 100, 100 },
};
enum { N_SHAPES = LEN(select_shapes) };

/* 1 if the first n keys of every head are equal in two sketches. Bytes of slots without a key may differ. */
int sketches_equal(const uint8_t *a, const uint8_t *b, int32_t heads, int32_t cap, int32_t n, int32_t dim,
                   int32_t bits);

/* Make a key sketch of the first n slots. ragged: 1 = filled in calls of different sizes. */
struct tensor sketch_new(struct backend *be, const struct tensor *plane, const struct shape *s, int32_t bits,
                         int ragged);

/* Return how many numbers two ascending lists of n have in common. */
int32_t overlap(const int32_t *a, const int32_t *b, int32_t n);

/* ---- the top k ---- */

struct ranked {
	float pooled, raw;
	int32_t row;
};

/* For qsort() of struct ranked: the best first; equal scores in the order of their slots. */
int better(const void *pa, const void *pb);

/* sample_holds(): check a top k with a sample. The k slots must be the same as without a sample, and the sample must
 * have the properties that backend.h promises. */
/* topk_plain(): compute the top k by sorting all scores. */
void sample_holds(struct backend *be, const char *name, int32_t n, int32_t k, int32_t sample, int kind);
void topk_plain(int32_t *out, const float *x, int32_t n, int32_t k, int32_t pool, int32_t first, int32_t last,
                int best_first);

/* Fill x with random scores of a kind: smooth, tied, flat, with infinities or NaN. */
void random_scores(float *x, int32_t n, int kind);

/* Check the expansion of pages to slots, in any order and with a partial last page, by its definition. */
void page_rows_agree(struct backend *be);

/* Check that the last call has failed with an error that contains `what`. */
void must_fail(struct backend *be, const char *what);

/* Check that every operation of selection refuses operands of the wrong shape. */
void refuses_bad_operands(struct backend *be);

#endif
