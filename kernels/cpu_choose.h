/* kernels/cpu_choose.h (private to kernels/cpu*.c) - choosing cached rows: operations, leaf functions.
 *
 *     cpu_choose.c         keys: the low-bit copy, page bounds, rows of pages; moving rows
 *     cpu_scan.c           scores of keys and pages
 *     cpu_topk.c           the k best scores
 *     cpu_chosen.c         both, and attention over what they chose, in one hand-over
 *     cpu_c_choose.c, cpu_simd_choose.h    the leaves of each level
 *
 * Copies of keys (copy_layout.h) are the same at every level, and so are their scores, bit for bit: dots are integers, and the float
 * operations are the same in the same order.  Scores of a plane (no copy) are sums of floats in each level's own order. */
#ifndef WEIR_CPU_CHOOSE_H
#define WEIR_CPU_CHOOSE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kernels/copy_layout.h"
#include "kernels/cpu.h"

enum { SCAN_RANGE = 1024 };

/* Scores of the keys k0 .. k1 of one KV head for its n_q query heads; k0 and ld are multiples of 16. */
struct scan_tile {
	const void *keys;          /* the head's first panel, or row 0 of its plane */
	enum dtype type;           /* of a plane */
	int32_t bits, dim, n_q, k0, k1;
	/* For a copy: query r ~ hi (+ lo / 256), integers; bytes [n_q][COPY_GROUP * groups], zero past dim.  lo = NULL: not used, else
	 * scores come 256 times as large.  sum [n_q][groups]: hi, or 256 hi + lo, summed over each group. */
	const int8_t *hi, *lo;
	const float *sum;
	const float *q;            /* for a plane: [n_q][dim rounded up to 16], zero past dim */
	float *score;              /* [n_q][ld], from key 0; lanes up to the next multiple of 16 may be written */
	size_t ld;
	float *max;                /* out, [n_q]: the largest of these scores, NaN left out */
};

struct choose_fns {
	/* A cached row as floats. */
	void (*row_to_f32)(enum dtype, float *out, const void *in, int32_t n);
	/* A whole panel of keys x [COPY_PANEL][ld] as key_code() takes them: turned and clipped (cpu_panel.h).  y: room for as many. */
	void (*panel)(float *x, size_t ld, float *y, int32_t dim, int32_t bits);
	/* Code one key into its lane of a panel. */
	void (*key_code)(uint8_t *panel, int32_t lane, const float *x, int32_t dim, int32_t bits);
	void (*scan_copy)(const struct scan_tile *);
	void (*scan_rows)(const struct scan_tile *);
	/* Sum of exp((s - max) * mult) over n scores, n a multiple of 16, none above max but NaN, which counts 0; mult >= 0. */
	float (*sum_exp)(const float *s, int32_t n, float max, float mult);
	/* out[i] = max or log of mean over r of s[r * ld + i] * mult[r] - lse[r].  Room for n rounded up to 16 in s alone. */
	void (*reduce)(float *out, const float *s, size_t ld, const float *mult, const float *lse, int32_t n_q, int32_t n,
	               enum reduce);

	/* ---- the k best ---- */
	/* out[i] = max of x over i - half .. i + half, as far as these exist.  NaN counts as -inf.  tmp: n + 2 half + 16. */
	void (*pool)(float *out, const float *x, int32_t n, int32_t half, float *tmp);
	/* Rows i0 .. i1 with x >= least (all of them when it is -inf; NaN counts as that): their numbers and values, ascending.
	 * Both lists need room for i1 - i0 + 16; returns their length; *top = the largest value. */
	int32_t (*pick)(int32_t *row, float *value, float *top, const float *x, int32_t i0, int32_t i1, float least);
	/* How many of n values are >= t. */
	int32_t (*count)(const float *x, int32_t n, float t);
	/* Of n rows keep those with value >= t (a NaN is not), at out.  Returns their number, never writes more than that. */
	int32_t (*keep)(int32_t *out, const int32_t *row, const float *value, int32_t n, float t);
};

extern const struct choose_fns choose_fns_c;

/* ---- shared arithmetic: every level does these steps, vector or not ---- */

/* exp(x) for x <= 0 to 7e-4, 0 far below and of NaN.  y = x 2^23 / ln 2 + 127 * 2^23 as an integer has the bits of a float e
 * whose exponent is right and whose mantissa m, 1 <= m < 2, is a straight line where 2^(m - 1) is wanted: multiplied by
 * E0 + E1 m + E2 m^2 + E3 m^3 ~ 2^(m - 1) / m it is near enough for a sum that all keys of a head share. */
#define CHOOSE_LOG2E 12102203.2f             /* 2^23 / ln 2 */
#define CHOOSE_ONE   1065353216.0f           /* 127 * 2^23 */
#define CHOOSE_EXP_0 1.77561472f
#define CHOOSE_EXP_1 (-1.37730759f)
#define CHOOSE_EXP_2 0.707475827f
#define CHOOSE_EXP_3 (-0.106445699f)
/* log2(1 + t) for 0 <= t < 1 to 5e-5: t + t (1 - t) (L0 + L1 t + L2 t^2 + L3 t^3). */
#define CHOOSE_LN2   0.693147181f
#define CHOOSE_LOG_0 0.442418579f
#define CHOOSE_LOG_1 (-0.269578015f)
#define CHOOSE_LOG_2 0.150533197f
#define CHOOSE_LOG_3 (-0.0448739553f)

/* The order in which 16 lanes are summed. */
static inline float fold16(const float x[16])
{
	float a[8];

	for (int i = 0; i < 8; i++)
		a[i] = x[i] + x[i + 8];
	for (int i = 0; i < 4; i++)
		a[i] += a[i + 4];
	return (a[0] + a[2]) + (a[1] + a[3]);
}

/* Put the codes of one group (zero past n) into the lane; returns the first byte after the group. */
static inline uint8_t *copy_store(uint8_t *group, int32_t lane, uint16_t scale, uint16_t min, const uint8_t code[COPY_GROUP],
                                  int32_t n, int32_t bits)
{
	int32_t units = copy_units(n, bits), quads = 8 / bits;

	memcpy(group + 2 * lane, &scale, 2);
	memcpy(group + 32 + 2 * lane, &min, 2);
	group += 64;
	for (int32_t u = 0; u < units; u++, group += 64) {
		uint32_t w = 0;

		for (int32_t s = 0; s < quads; s++) {
			uint32_t four;

			memcpy(&four, code + 4 * (u * quads + s), 4);
			w |= four << (s * bits);
		}
		memcpy(group + 4 * lane, &w, 4);
	}
	return group;
}

/* A key or query of dim values, turned: Hadamard matrices over the largest power of two, then over what is left.  Twice is
 * nothing. */
void copy_turn(float *x, int32_t dim);
/* A turned key as it is given to key_code(): with 2 bits, clipped to the ranges that fit best (groups of a multiple
 * of 4 values). */
void copy_clip(float *x, int32_t dim, int32_t bits);

/* ---- operands ---- */
int choose_plane_ok(const struct tensor *, int32_t n_kv_head, int32_t cap, int32_t head_dim);
int copy_ok(const struct backend *, const struct tensor *, int32_t n_kv_head, int32_t cap, int32_t head_dim, int32_t bits);
int bounds_ok(const struct tensor *, int32_t n_kv_head, int32_t cap, int32_t head_dim);

/* ---- scans and choices in tasks ---- */

struct scan_job {
	struct scan_tile tile;       /* what all tiles share */
	const struct choose_fns *fns;
	const char *keys;
	size_t head_bytes;           /* of one KV head's keys */
	float *out;
	size_t out_cols;
	enum reduce reduce;
	int raw;
	int32_t group, n, ranges, per_task, chunks, tasks;
	/* In the scan buffer, by query head: */
	float *score;                /* [n_head][tile.ld] */
	float *max, *sum;            /* [n_kv_head][ranges][group] */
	float *mult, *lse;           /* [n_head] */
	_Atomic int32_t *left;       /* [n_kv_head]: chunks to go */
};
/* Check the operands of key_scan() and get everything ready but the scores.  0; -1 with the error set; 1 when there is
 * nothing to score. */
int scan_plan(struct backend *, const struct scan_args *, struct scan_job *);
/* Task t of job->tasks, ordered by KV head.  Returns the KV head whose row of the output it finished, or -1. */
int scan_part(const struct scan_job *, int task);

struct topk_job {
	const struct choose_fns *fns;
	struct cpu *c;
	const struct topk_args *a;
	int32_t half;                /* of the pool's window */
	size_t part_bytes;           /* scratch of one thread */
};
/* Check the operands of topk(), say how much scratch a thread needs.  0, or -1 with the error set. */
int topk_plan(struct backend *, const struct topk_args *, struct topk_job *);
/* One KV head. */
void topk_head(const struct topk_job *, int32_t head, int worker);

/* ---- operations ---- */
uint64_t cpu_key_copy_bytes(const struct backend *, int32_t n_kv_head, int32_t cap, int32_t head_dim, int32_t bits);
void cpu_key_copy(struct backend *, struct tensor *copy, const struct tensor *plane, int32_t n_kv_head, int32_t cap,
                  int32_t bits, int32_t row0, int32_t n);
void cpu_key_scan(struct backend *, const struct scan_args *);
void cpu_page_bounds(struct backend *, struct tensor *bounds, const struct tensor *plane, int32_t n_kv_head, int32_t cap,
                     int32_t row0, int32_t n);
void cpu_page_scan(struct backend *, const struct scan_args *);
void cpu_topk(struct backend *, const struct topk_args *);
void cpu_page_rows(struct backend *, struct tensor *rows, const struct tensor *pages, int32_t n_kv_head, int32_t n);
void cpu_kv_move(struct backend *, struct tensor *plane, const struct kv_moves *);

#endif
