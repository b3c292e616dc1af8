/* kernels/cpu/select.h (private to kernels/cpu/) - selection of slots: declarations of operations and leaf functions.
 *
 * These files have the operations: key_sketch.c (key sketches), scan.c (scores of keys), topk.c (the slots with the k
 * highest scores), read_blocks.c (the blocks of keys that a prompt's queries read), fused_select_attn.c (scan, topk and
 * attention in one run of the thread pool), kv_move.c (moves KV entries inside a plane), fetch.c (copies KV entries
 * from host memory), compare.c (operations of the comparison policies quest and refresh).
 *
 * These files have the leaf functions: c_select.c, simd_scan.h, simd_select.h.
 *
 * Key sketches, and scores computed from them, have the same bits in every instruction set: dot products are integers,
 * and the float operations are the same in the same order. Scores of a plane are float sums, in an order that depends
 * on the instruction set. */
#ifndef WEIR_CPU_SELECT_H
#define WEIR_CPU_SELECT_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kernels/common/key_sketch.h"
#include "kernels/cpu/cpu.h"

/* Number of slots in a block when slots are sampled. Probabilities are summed block by block. Single slots are examined
 * only in blocks from which a slot may be taken. */
enum { SAMPLE_BLOCK = 16 };
enum { SCAN_RANGE = 1024 }; /* number of keys for which a scan writes one maximum and one sum */
/* Size in bytes of the lookup tables for SKETCH_GROUP values of a query and a two-bit key sketch. A key has four codes
 * in a byte, so 16 values take four bytes. Each half byte has two codes and a table of its own. The table has 16
 * products of one byte each, one product for each value of the half byte. */
enum { LOOKUP_BYTES = SKETCH_GROUP / 16 * 2 * 4 * 16 };

/* Arguments of a scan. It computes the scores of the keys from k0 to k1 - 1 of one KV head, for the n_q query heads
 * that share this KV head. k0 and ld are multiples of 16. */
struct scan_tile {
	const void *keys; /* the KV head's first block in a key sketch, or the KV head's key in slot 0 */
	enum dtype type;  /* element type of the plane */
	int32_t bits, dim, n_q, k0, k1;
	/* Used only with a key sketch. `hi` and `lo` [n_q][SKETCH_GROUP * groups] have the bytes of the transformed
	 * queries, which are quantised to integers; after `dim` values the bytes are zeros. If `lo` is NULL, the
	 * integers are hi. Otherwise the integers are 256 * hi + lo, and scores are 256 times as large. sum
	 * [n_q][groups] has, for each group of SKETCH_GROUP integers, their sum times the largest code. With a two-bit
	 * sketch, `lo` is NULL. One byte of a key is multiplied with four values of `hi`, whose magnitudes sum to at
	 * most 42. */
	const int8_t *hi, *lo;
	const int32_t *sum;
	/* Used only with a two-bit sketch whose products are looked up in tables. table [n_q][groups][LOOKUP_BYTES] has
	 * the products of query values and codes, for each group of SKETCH_GROUP values. All products are made
	 * positive: for a negative query value, its magnitude is multiplied with (largest code - code). size
	 * [n_q][groups] has the sum of the magnitudes of a group's query values, times the largest code. */
	const uint8_t *table;
	const int32_t *size;
	const float *q;    /* [n_q][dim rounded up to 16] the queries, with zeros after `dim` values */
	const float *unit; /* for a key sketch, [n_q] factor that converts a dot product with codes to a score */
	/* output [n_q][ld]: column k has the score of key k; columns up to the next multiple of 16 may be written */
	float *score;
	size_t ld;
	float *max; /* output [n_q]: the largest score of each query; NaN is ignored */
};

/* One query and the keys and blocks whose attention is estimated (struct read_blocks_args). Each of the first
 * READ_FIRST columns is for one key. Each later column is for one block of keys. The block of the call's last token has
 * no column. The columns left over, up to column ld - 1, are zeros.
 *
 * moments[] has 3 * dim rows. In the column of a block, the first `dim` rows have the mean of the block's keys, the
 * next `dim` rows their variance, and the last `dim` rows the farthest key. The farthest key has the largest distance
 * from the mean of all keys of the block; the mean and variance in moments[] do not include this key. In the column of
 * a single key, the last `dim` rows have this key. */
struct block_query {
	const float *q, *moments; /* q [dim]: the query, without scale; moments [3 * dim][ld] */
	/* [ld] for a block, log2 of the number of keys whose mean is in moments[]; for a single key, 0 */
	const float *logs;
	size_t ld;        /* number of columns, a multiple of 16 */
	int32_t dim, own; /* dim is head_dim. The query's own token is in block number `own`, which is at least 3. */
	float scale, share;
	float *weight, *variance, *key; /* scratch memory, [ld] each */
	/* if the query reads block b, bit b is set to 1; all bits are zero on entry, and the bits from 0 to `own` are
	 * written */
	uint8_t *out;
};
/* A weight is the estimated attention of a block. Weights are divided into BLOCK_LEVELS levels, BLOCK_STEPS levels
 * for each factor of 2. Blocks are selected level by level, the largest weights first. If the blocks of all levels
 * together have too little weight, all blocks are read. */
enum { BLOCK_STEPS = 8, BLOCK_LEVELS = 256 };

/* Return the lower bound of the weights in level number `level`. A weight is the estimated attention of a block. Level
 * 0 has the largest weights; no weight is above 2. */
static inline float block_level(int32_t level)
{
	static const float root[BLOCK_STEPS] = {
		1, 0.917004043f, 0.840896415f, 0.771105413f, 0.707106781f, 0.648419777f, 0.594603558f, 0.545253866f
	};

	return ldexpf(root[level % BLOCK_STEPS], 1 - level / BLOCK_STEPS);
}

struct select_fns {
	/* Convert a row of a plane to floats. */
	void (*row_to_f32)(enum dtype, float *out, const void *in, int32_t n);
	/* Encode SKETCH_PANEL keys into a panel of the key sketch (panel.h). Key i is row i of x [SKETCH_PANEL][ld].
	 * `y` is scratch memory of the size of x. */
	void (*panel)(uint8_t *panel, float scale[SKETCH_PANEL], const float *x, size_t ld, const float *mean, float *y,
	              int32_t dim, int32_t bits);
	int looks_up; /* 1: to scan a key sketch of two bits, scan_sketch() reads products from scan_tile.table */
	void (*scan_sketch)(const struct scan_tile *);
	void (*scan_rows)(const struct scan_tile *);
	/* Sum exp((s - max) * mult) over n scores. n is a multiple of 16, no score is above max, and mult >= 0. A NaN
	 * adds 0. */
	float (*sum_exp)(const float *s, int32_t n, float max, float mult);
	/* Set out[i] to exp(s[i] - max) for n scores, none above max. If s[i] is NaN, set out[i] to 0. Zeros follow up
	 * to the next multiple of SAMPLE_BLOCK. */
	void (*exps)(float *out, const float *s, int32_t n, float max);
	/* Set out[b] to the sum of the SAMPLE_BLOCK floats of x that begin at SAMPLE_BLOCK * b. */
	void (*block_sums)(float *out, const float *x, int32_t blocks);
	/* For each i < n, reduce the log probabilities x[r] = s[r * ld + i] * mult[r] - lse[r] of the n_q heads r to
	 * one number. Set out[i] to the maximum of x[r], or to the log of the mean of exp(x[r]). In each row of s,
	 * values may be read up to the next multiple of 16. */
	void (*reduce)(float *out, const float *s, size_t ld, const float *mult, const float *lse, int32_t n_q,
	               int32_t n, enum reduce);

	void (*block_query)(const struct block_query *);

	/* ---- the k highest scores ---- */
	/* Max pooling: set out[i] to the maximum of the elements of x from i - half to i + half, within 0 to n - 1. NaN
	 * counts as -inf. `tmp` has n + 2 half + 16 floats. */
	void (*pool)(float *out, const float *x, int32_t n, int32_t half, float *tmp);
	/* List the indices i from i0 to i1 - 1 with x[i] >= least: the indices in slot[], in ascending order, and their
	 * x[i] in value[]. Return the number of indices, and set *top to the largest value. NaN counts as -inf. Both
	 * lists need room for 16 elements more than there are indices. */
	int32_t (*pick)(int32_t *slot, float *value, float *top, const float *x, int32_t i0, int32_t i1, float least);
	/* Return the number of values that are at least t. */
	int32_t (*count)(const float *x, int32_t n, float t);
	/* Copy the slots whose value is at least t to `out`, and return their number. A slot with the value NaN is not
	 * copied. No further element of `out` is written. */
	int32_t (*keep)(int32_t *out, const int32_t *slot, const float *value, int32_t n, float t);
};

extern const struct select_fns select_fns_c;

/* ---- arithmetic with the same steps for every instruction set ---- */

/* exp(x) for x <= 0, with a relative error of 7e-4; 0 for very low x and for NaN. Let y = x 2^23 / ln 2 + 127 * 2^23.
 * The bits of the integer y, read as a float, are a first approximation of exp(x). The exponent of this approximation
 * is right, but its mantissa is some m (1 <= m < 2) instead of 2^(m - 1). So the approximation is multiplied with E0 +
 * E1 m + E2 m^2 + E3 m^3, which is about 2^(m - 1) / m. The coefficients E0 to E3 are CHOOSE_EXP_0 to CHOOSE_EXP_3. */
#define CHOOSE_LOG2E 12102203.2f   /* 2^23 / ln 2 */
#define CHOOSE_ONE   1065353216.0f /* 127 * 2^23 */
#define CHOOSE_EXP_0 1.77561472f
#define CHOOSE_EXP_1 (-1.37730759f)
#define CHOOSE_EXP_2 0.707475827f
#define CHOOSE_EXP_3 (-0.106445699f)
/* log2(1 + t) for 0 <= t < 1, with an error of 5e-5, is t + t (1 - t) (L0 + L1 t + L2 t^2 + L3 t^3). The coefficients
 * L0 to L3 are CHOOSE_LOG_0 to CHOOSE_LOG_3. */
#define CHOOSE_LN2   0.693147181f
#define CHOOSE_LOG_0 0.442418579f
#define CHOOSE_LOG_1 (-0.269578015f)
#define CHOOSE_LOG_2 0.150533197f
#define CHOOSE_LOG_3 (-0.0448739553f)

/* Return the sum of 16 lanes, added in the same order for every instruction set. */
static inline float fold16(const float x[16])
{
	float a[8];

	for (int i = 0; i < 8; i++)
		a[i] = x[i] + x[i + 8];
	for (int i = 0; i < 4; i++)
		a[i] += a[i + 4];
	return (a[0] + a[2]) + (a[1] + a[3]);
}

/* Sum a block of scores in the order in which the SIMD code sums eight blocks by vec8_add2, vec8_add4, vec8_add8. */
static inline float sum_of_block(const float x[SAMPLE_BLOCK])
{
	float a[8];

	for (int i = 0; i < 8; i++)
		a[i] = x[i] + x[i + 8];
	return ((a[0] + a[2]) + (a[1] + a[3])) + ((a[4] + a[6]) + (a[5] + a[7]));
}

/* Return 1 / step. The step is the distance between neighbouring codes of a centred and transformed key. `squares` is
 * the sum of the key's squared values. Return 0 if the step is too small or too large. */
static inline float sketch_inverse_step(float squares, int32_t dim, int32_t bits)
{
	float step = sketch_step(bits) * sqrtf(squares / (float)dim);

	return step > 1e-30f && step < 1e30f ? 1.0f / step : 0;
}

/* ---- scan and topk as tasks of a run ---- */

struct scan_job {
	struct scan_tile tile; /* the fields that all tiles share */
	const struct select_fns *fns;
	const char *keys;
	size_t head_bytes; /* size of one KV head's keys in bytes */
	float *out;
	size_t out_cols;
	enum reduce reduce;
	int raw;
	/* A KV head has `group` query heads. The n keys are divided into `ranges` ranges of SCAN_RANGE keys. Each of
	 * the first `whole` KV heads is scanned by one task (a whole head). Each later KV head is scanned by `chunks`
	 * tasks, which have `per_task` ranges each. `tasks` is the total number of tasks. */
	int32_t group, n, ranges, whole, per_task, chunks, tasks;
	/* Arrays in the scan buffer (struct cpu). score [n_head][tile.ld] has raw scores. The scores of a whole head
	 * may be stored in the rows of another KV head: thread number i uses the rows of KV head number i. max and sum
	 * [n_kv_head][ranges][group] have, for each range and query head, the largest score and the sum of
	 * exponentials. mult [n_head] has the factor that turns a raw score into scale * q . k. lse [n_head] has the
	 * log of the sum of the exponentials of all keys. */
	float *score;
	float *max, *sum;
	float *mult, *lse;
	_Atomic int32_t *left; /* [n_kv_head] number of chunks that are not finished yet */
};
/* Check the operands of key_scan() and prepare the job. Return 0. Return 1 if there are no keys to score, or -1 with
 * the error set. */
int scan_plan(struct backend *, const struct scan_args *, struct scan_job *);
/* Prepare a scan of job->n rows at job->keys: allocate queries and working memory. The caller has checked the operands.
 * If `pages` is 0, a row is a key (tile.bits 16) or a key's code in a key sketch. If `pages` is 1, a row has the bounds
 * of a page: the minima, then the maxima. Return 0, or -1 with the error set. */
int scan_prepare(struct backend *, const struct scan_args *, struct scan_job *, int pages);
/* Run all tasks. */
void scan_run(struct backend *, const struct scan_args *, struct scan_job *);
/* Return the number of tasks of a KV head. */
int32_t scan_chunks(const struct scan_job *, int32_t head);
/* Run a task of a KV head. Return 1 if this task finishes the head's row of the output, otherwise 0. */
int scan_part(const struct scan_job *, int32_t head, int32_t chunk, int worker);

struct topk_job {
	const struct select_fns *fns;
	struct cpu *c;
	const struct topk_args *a;
	int32_t half;        /* half width of the pooling window */
	size_t thread_bytes; /* size of one thread's scratch memory in bytes */
};
/* Check the operands of topk() and prepare the job. Set job->thread_bytes to the size of the scratch memory that a
 * thread needs. Return 0, or -1 with the error set. */
int topk_plan(struct backend *, const struct topk_args *, struct topk_job *);
/* Select the slots of one KV head. */
void topk_head(const struct topk_job *, int32_t head, int worker);

/* ---- operations ---- */
uint64_t cpu_key_sketch_bytes(const struct backend *, int32_t n_kv_head, int32_t cap, int32_t head_dim, int32_t bits);
void cpu_key_sketch(struct backend *, struct tensor *sketch, const struct tensor *plane, int32_t n_kv_head, int32_t cap,
                    int32_t bits, int32_t slot0, int32_t n);
void cpu_key_scan(struct backend *, const struct scan_args *);
void cpu_page_bounds(struct backend *, struct tensor *bounds, const struct tensor *plane, int32_t n_kv_head,
                     int32_t cap, int32_t page, int32_t slot0, int32_t n);
void cpu_page_scan(struct backend *, const struct scan_args *);
void cpu_topk(struct backend *, const struct topk_args *);
void cpu_page_slots(struct backend *, struct tensor *slots, const struct tensor *pages, int32_t n_kv_head, int32_t page,
                    int32_t n);
void cpu_kv_move(struct backend *, struct tensor *plane, const struct kv_moves *);
void cpu_fetch_range(struct backend *, struct tensor *to, const struct tensor *from, int32_t n_kv_head, int32_t cap,
                     int32_t slot0, int32_t n);
void cpu_fetch_slots(struct backend *, const struct fetch_args *);
void cpu_fetch_wait(struct backend *);

#endif
