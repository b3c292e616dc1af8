/* kernels/cpu/select.h (private to kernels/cpu/) - selection of slots: declarations of operations and leaf functions.
 *
 * Operations: key_sketch.c (key sketches), scan.c (scores of keys), topk.c (the slots with the k highest scores),
 * read_blocks.c (the blocks of keys that a prompt's queries read), fused_select_attn.c (scan, topk and attention in
 * one run of the thread pool), kv_move.c (moves KV entries inside a plane), fetch.c (copies KV entries from host
 * memory), compare.c (operations of the comparison policies quest and refresh). Leaf functions: c_select.c,
 * simd_scan.h, simd_select.h.
 *
 * Key sketches, and scores computed from them, have the same bits in every instruction set: dot products are
 * integers, and the float operations are the same in the same order. Scores of a plane are float sums, in an order
 * that depends on the instruction set. */
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
/* Bytes of the lookup tables for a group of 64 query values (two-bit sketch). A byte of a key has four codes, two in
 * each half of the byte. Each half has a table of 16 products, one for each value of its two codes. A key has four
 * bytes for every 16 values. */
enum { LOOKUP_BYTES = SKETCH_GROUP / 16 * 2 * 4 * 16 };

/* Arguments of a scan: it computes the scores of keys k0 .. k1 - 1 of one KV head for the n_q query heads that share
 * this KV head. k0 and ld are multiples of 16. */
struct scan_tile {
	const void *keys; /* the KV head's first block in a key sketch, or the KV head's key in slot 0 */
	enum dtype type;  /* element type of the plane */
	int32_t bits, dim, n_q, k0, k1;
	/* Only for a key sketch. hi, lo: the transformed queries as bytes, [n_q][SKETCH_GROUP * groups], zero past dim.
	 * Without lo, a query is about hi. With lo, a query is about 256 hi + lo, and scores are 256 times as large.
	 * sum [n_q][groups]: the sum of these integers in a group, times the largest code.
	 *
	 * A two-bit sketch has no lo. There, the four values of hi that are multiplied with one byte of a key have
	 * magnitudes that sum to at most 42. */
	const int8_t *hi, *lo;
	const int32_t *sum;
	/* Only for a two-bit sketch whose products are looked up in tables. table [n_q][groups][LOOKUP_BYTES]: the
	 * products. To keep the products positive, a negative query value is multiplied with the largest code minus the
	 * key's code. size [n_q][groups]: the sum of the magnitudes of a group's query values, times the largest
	 * code. */
	const uint8_t *table;
	const int32_t *size;
	const float *q;    /* [n_q][dim rounded up to 16], zero past dim */
	const float *unit; /* for a key sketch, [n_q]: factor that turns a dot product with codes into a score */
	float *score; /* output, [n_q][ld], column = key number; columns up to the next multiple of 16 may be written */
	size_t ld;
	float *max; /* output, [n_q]: the largest of these scores; NaN is ignored */
};

/* One query and the columns whose attention is estimated (struct read_blocks_args). Each of the first READ_FIRST
 * columns is one key. Each later column is one block of keys; there is one for every block before the block of the
 * call's last token. The columns after these, up to column ld - 1, are zeros.
 *
 * moments[d][c], d < dim: the mean of a block's keys without the farthest key; moments[dim + d][c]: their variance;
 * moments[2 * dim + d][c]: the farthest key. The farthest key is the key with the largest distance from the mean of all
 * keys of the block. If column c is a single key, moments[2 * dim + d][c] is that key. */
struct block_query {
	const float *q, *moments; /* q [dim], without scale; moments [3 * dim][ld] */
	/* [ld]: log2 of the number of keys in a block without the farthest key; 0 in the first READ_FIRST columns,
	 * which are single keys */
	const float *logs;
	size_t ld;        /* a multiple of 16 */
	int32_t dim, own; /* dim: head_dim; own: number of the block of the query's token, at least 3 */
	float scale, share;
	float *weight, *variance, *key; /* scratch, [ld] each */
	uint8_t *out; /* bit b = 1: the query reads block b. Zeros on entry; bits 0 .. own are written. */
};
/* A weight is the estimated attention of a block. Weights are divided into BLOCK_LEVELS levels, BLOCK_STEPS levels
 * for each factor of 2. Blocks are selected level by level, the largest weights first. If the blocks of all levels
 * together have too little weight, all blocks are read. */
enum { BLOCK_STEPS = 8, BLOCK_LEVELS = 256 };

/* Return the smallest weight (estimated attention of a block) in a level. The largest possible weight is 2. */
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
	/* Code the sixteen keys x [SKETCH_PANEL][ld] for a panel of the key sketch (panel.h). y: scratch of the size
	 * of x. */
	void (*panel)(uint8_t *panel, float scale[SKETCH_PANEL], const float *x, size_t ld, const float *mean, float *y,
	              int32_t dim, int32_t bits);
	int looks_up; /* 1 = scan_sketch reads lookup tables for two bits */
	void (*scan_sketch)(const struct scan_tile *);
	void (*scan_rows)(const struct scan_tile *);
	/* Sum exp((s - max) * mult) over n scores. n is a multiple of 16, no score is above max, mult >= 0. A NaN
	 * adds 0. */
	float (*sum_exp)(const float *s, int32_t n, float max, float mult);
	/* out[i] = exp(s[i] - max) for n scores, none above max; 0 if s[i] is NaN. Zeros follow up to the next
	 * multiple of SAMPLE_BLOCK. */
	void (*exps)(float *out, const float *s, int32_t n, float max);
	/* out[b] = sum of the SAMPLE_BLOCK floats of x that begin at SAMPLE_BLOCK * b */
	void (*block_sums)(float *out, const float *x, int32_t blocks);
	/* For each i < n, reduce the log probabilities x[r] = s[r * ld + i] * mult[r] - lse[r] of heads r < n_q to one
	 * number: out[i] = the maximum of x[r], or the log of the mean of exp(x[r]). In each row of s, values may be
	 * read up to the next multiple of 16. */
	void (*reduce)(float *out, const float *s, size_t ld, const float *mult, const float *lse, int32_t n_q,
	               int32_t n, enum reduce);

	void (*block_query)(const struct block_query *);

	/* ---- the k highest scores ---- */
	/* Max pooling: out[i] = max of x over i - half .. i + half, within 0 .. n - 1. NaN counts as -inf. tmp: n
	 * + 2 half + 16 floats. */
	void (*pool)(float *out, const float *x, int32_t n, int32_t half, float *tmp);
	/* List the indices i of i0 .. i1 - 1 with x[i] >= least: i in slot[], in ascending order, and x[i] in value[].
	 * Return the number of indices; *top = the largest value. NaN counts as -inf. Both lists need room for 16
	 * elements more than there are indices. */
	int32_t (*pick)(int32_t *slot, float *value, float *top, const float *x, int32_t i0, int32_t i1, float least);
	/* Return the number of values >= t. */
	int32_t (*count)(const float *x, int32_t n, float t);
	/* Copy the slots with value >= t to out; return their number. A slot with the value NaN is not copied. No
	 * further element of out is written. */
	int32_t (*keep)(int32_t *out, const int32_t *slot, const float *value, int32_t n, float t);
};

extern const struct select_fns select_fns_c;

/* ---- arithmetic with the same steps for every instruction set ---- */

/* exp(x) for x <= 0, relative error 7e-4; 0 for very low x and for NaN. Let y = x 2^23 / ln 2 + 127 * 2^23. The integer
 * y, read as the bits of a float, has the right exponent. But its mantissa is m (1 <= m < 2) where 2^(m - 1) would be
 * right. The factor E0 + E1 m + E2 m^2 + E3 m^3 ~ 2^(m - 1) / m corrects the mantissa; E0 is CHOOSE_EXP_0, and so
 * on. */
#define CHOOSE_LOG2E 12102203.2f   /* 2^23 / ln 2 */
#define CHOOSE_ONE   1065353216.0f /* 127 * 2^23 */
#define CHOOSE_EXP_0 1.77561472f
#define CHOOSE_EXP_1 (-1.37730759f)
#define CHOOSE_EXP_2 0.707475827f
#define CHOOSE_EXP_3 (-0.106445699f)
/* log2(1 + t) for 0 <= t < 1, error 5e-5: t + t (1 - t) (L0 + L1 t + L2 t^2 + L3 t^3); L0 is CHOOSE_LOG_0, and so
 * on. */
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

/* Return 1 / step. The step is the distance between neighbouring codes of a centred and transformed key. squares: sum
 * of the key's squared values. Return 0 if the step is too small or too large. */
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
	size_t head_bytes; /* bytes of one KV head's keys */
	float *out;
	size_t out_cols;
	enum reduce reduce;
	int raw;
	/* group: query heads per KV head; n: keys; ranges: ranges of SCAN_RANGE keys; whole: KV heads 0 .. whole - 1
	 * are one task each; per_task: ranges in a task of any other head; chunks: tasks of any other head; tasks:
	 * tasks of all KV heads */
	int32_t group, n, ranges, whole, per_task, chunks, tasks;
	/* Arrays in the scan buffer (struct cpu). score [n_head][tile.ld]: stored scores; a whole head's scores are in
	 * the rows of the KV head that has the thread's number. max, sum [n_kv_head][ranges][group]: maximum and sum of
	 * exponentials of a range. mult [n_head]: factor from a stored score to scale * q . k. lse [n_head]: log of the
	 * sum of all exponentials. */
	float *score;
	float *max, *sum;
	float *mult, *lse;
	_Atomic int32_t *left; /* [n_kv_head]: number of chunks not yet finished */
};
/* Check the operands of key_scan() and prepare the job. Return 0; or 1 if there are no keys to score; or -1 with
 * the error set. */
int scan_plan(struct backend *, const struct scan_args *, struct scan_job *);
/* Prepare a scan of job->n rows at job->keys: allocate queries and working memory. The caller has checked the
 * operands. pages 0: a row is a key (tile.bits 16) or its code in a key sketch. pages 1: a row is the bounds of a
 * page, minima before maxima. Return 0, or -1 with the error set. */
int scan_prepare(struct backend *, const struct scan_args *, struct scan_job *, int pages);
/* Run all tasks. */
void scan_run(struct backend *, const struct scan_args *, struct scan_job *);
/* Return the number of tasks of a KV head. */
int32_t scan_chunks(const struct scan_job *, int32_t head);
/* Run a task of a KV head. Return 1 if it finishes the head's row of the output, else 0. */
int scan_part(const struct scan_job *, int32_t head, int32_t chunk, int worker);

struct topk_job {
	const struct select_fns *fns;
	struct cpu *c;
	const struct topk_args *a;
	int32_t half;      /* half width of the pooling window */
	size_t part_bytes; /* bytes of scratch of one thread */
};
/* Check the operands of topk() and prepare the job; job->part_bytes = scratch that a thread needs. Return 0, or -1
 * with the error set. */
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
void cpu_fetch_rows(struct backend *, struct tensor *to, const struct tensor *from, int32_t n_kv_head, int32_t cap,
                    int32_t slot0, int32_t n);
void cpu_fetch_slots(struct backend *, const struct fetch_args *);
void cpu_fetch_wait(struct backend *);

#endif
