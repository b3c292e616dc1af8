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

/* The tensor's bytes. */
void *tensor_read(struct backend *be, const struct tensor *t);

/* What stands where nothing may be written: in results of floats and of integers. */
#define GUARD     12345.5f
#define GUARD_ROW 987654321

/* A result [rows][cols] with a column and a row too many, all filled with guards. */
struct tensor guarded(struct backend *be, enum dtype type, int32_t rows, int32_t cols);

/* Its contents [rows][cols]; checks the guards and drops the tensor. */
void *unguarded(struct backend *be, struct tensor *t);

/* A normal variable, near enough. */
float bell(void);

/* Keys as models make them: each channel with an offset and a spread of its own, a few far from zero. */
float *random_keys(int32_t heads, int32_t cap, int32_t dim);

/* A query of n numbers; some are far from zero. */
float *random_query(int32_t n, int outliers);

/* A plane of that type and what it holds as floats. */
struct tensor plane_new(struct backend *be, enum dtype type, int32_t heads, int32_t cap, int32_t dim, const float *x,
                        float *held);

/* Keys [heads][cap][dim] as a sketch of the first n slots of each head holds them: centred, turned and coded, and with
 * `back` turned back; the mean is added. The nearest codes, with single precision deciding which of two is nearer when
 * it is close. */
void round_keys(float *out, const float *x, int32_t heads, int32_t cap, int32_t n, int32_t dim, int32_t bits, int back);

/* What a scan should give, from keys [n_kv_head][cap][dim]; slack[h] = the most that rounding a query to steps of
 * 1/`steps` of its largest value moves a score of KV head h. */
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

/* Are the first n keys of every head the same in two sketches? The bytes of slots that no key was written to may
 * differ. */
int sketches_equal(const uint8_t *a, const uint8_t *b, int32_t heads, int32_t cap, int32_t n, int32_t dim,
                   int32_t bits);

/* A key sketch of the first n slots, filled in ragged calls. */
struct tensor sketch_new(struct backend *be, const struct tensor *plane, const struct shape *s, int32_t bits,
                         int ragged);

/* How many numbers of two ascending lists of n are the same. */
int32_t overlap(const int32_t *a, const int32_t *b, int32_t n);

/* ---- the top k ---- */

struct ranked {
	float pooled, raw;
	int32_t row;
};

/* For qsort() of struct ranked: best first; equal ones by their slot. */
int better(const void *pa, const void *pb);

/* The top k by sorting everything. */
/* A sample behind the k of n scores: the k as without it, and every property that backend.h promises of the others. */
void sample_holds(struct backend *be, const char *name, int32_t n, int32_t k, int32_t sample, int kind);
void topk_plain(int32_t *out, const float *x, int32_t n, int32_t k, int32_t pool, int32_t first, int32_t last,
                int best_first);

/* Scores of several kinds: smooth, tied, flat, with infinities and NaN. */
void random_scores(float *x, int32_t n, int kind);

/* Slots of pages in any order, ragged and not, against the definition. */
void page_rows_agree(struct backend *be);

/* The last call has failed, with a reason that names `what`. */
void must_fail(struct backend *be, const char *what);

/* Operands of the wrong shape, for every operation of selection. */
void refuses_bad_operands(struct backend *be);

#endif
