/* kernels/cpu/fns.h (private to kernels/) - the leaf functions of the CPU backend. There is a table of them for each
 * level (set of instructions): plain C (c.c, the reference, sums in double), AVX2 and AVX-512 on x86-64, NEON with
 * and without dot products on 64-bit ARM. The operations (*.c) check shapes and split work over threads; a leaf
 * function computes on one thread.
 *
 * Weights: a level may repack a weight into panels, which have `panel` rows side by side. The last panel is padded
 * with zero rows. If pack_bytes() is 0 for a type, the weight stays plain rows, which matmul_rows() reads.
 *
 * Inputs of quantised products are int8 in blocks of 32 with an f32 scale; some blocks have a second int8 per value
 * (struct act). Integer dot products are exact, and block results are added in f32 in ascending block order. So the
 * bits of an output element do not depend on the number of columns or threads. */
#ifndef WEIR_CPU_FNS_H
#define WEIR_CPU_FNS_H

#include <stddef.h>
#include <stdint.h>
#include "kernels/backend.h"
#include "kernels/common/operands.h"

/* n quantised input rows, in blocks of 32 values. In a normal block, a value is coded in 8 bits: x is about d * q. In a
 * wide block, it is coded in 16 bits: x is about d * (q + lo / 256). A block is wide if its largest value is far above
 * its other values. The scale of a block is chosen for its largest value, so 8 bits would leave few levels for the
 * other values. Wide blocks are few, but in 8 bits they would cause most of a model's rounding error. In normal blocks
 * lo is zero, so including lo does not change a result. */
struct act {
	int8_t *q, *lo; /* [n][cols]: values and their residuals, both in -127 .. 127 */
	uint8_t *wide;  /* [n][cols / 32]: 1 = the block is wide, and its values are coded in q and lo */
	float *d;       /* [n][cols / 32]: scales */
	/* [n][cols / 16]: sums of q and of lo for each half of a block (16 values); used for weight types with an
	 * offset or a minimum */
	int32_t *sum, *lo_sum;
	const float *x; /* [n][cols]: the f32 rows, for products with float weights */
	int32_t n, cols;
	int all_wide; /* 1 = 16-bit activations in every block, for Q8_0 weights */
};

/* A block is wide if its largest |x| is more than 4.75 times its root mean square. The scale maps the largest |x| to
 * the code q = 127. So for a wide block, the sum of q^2 over the 32 codes is below this number, which is 32 * 127^2 /
 * 4.75^2. */
enum { ACT_WIDE_BELOW = 22875 };

struct cols; /* quantised input rows arranged for the kernels: cols.h */
struct pack_format;

/* Running softmax of one (token, query head): m = largest score, l = sum exp(score - m), acc = sum exp(score - m) * v.
 * Some tables of leaf functions store every score as score * log2(e) (see score_unit). So m and attn_tile.score must be
 * written and read by functions of the same table. */
struct attn_state {
	float m, l;
	float *acc; /* [head_dim] */
};

enum { ATTN_BLOCK = 64, ATTN_SPAN = 512 };
/* Attention of n_q queries of one KV head over keys k0 .. k1 - 1 (k1 - k0 <= ATTN_SPAN, k0 a multiple of ATTN_BLOCK).
 * Keys are processed in blocks of ATTN_BLOCK. The queries are ordered by token, then by query head. Query r sees keys
 * k < limit[r]; limits ascend. The function initialises the states (m = -inf, l = 0, acc = 0). The state of a query
 * depends only on this query and its limit. */
struct attn_tile {
	/* [n_q] pointers to queries of head_dim values; not multiplied by `scale`; Hadamard transforms if
	 * kv_transformed(k_type) */
	const float *const *q;
	const int32_t *limit;  /* [n_q] */
	struct attn_state *st; /* [n_q] */
	int32_t n_q, head_dim, k0, k1;
	enum dtype k_type, v_type; /* F16, F32, BF16, Q8_0 or Q4_0 */
	const void *k, *v;         /* row 0 (slot 0) of the KV head's planes; a row has head_dim values */
	const int32_t *rows;       /* key k is in slot rows[k]; NULL = key k is in slot k */
	float scale, softcap;      /* softcap 0 = no cap */
	const float *bias;         /* bias[k] is added to the score of key k; NULL = none */
	const int32_t *from;       /* [n_q], ascending: the first key that each query sees; NULL = key 0 */
	/* [n_q]: bit i is 1 if the query reads the i-th block of ATTN_BLOCK keys from k0 on. NULL = all queries read
	 * all blocks. At most one of the arrays `blocks` and `from` is given. */
	const uint8_t *blocks;
	/* [n_q] arrays for the scores, or NULL: score[r][k - k0] is set to the scaled score of each key k that query r
	 * sees and reads */
	float *const *score;
	float *scratch; /* per thread, attn_scratch(head_dim, n_q) floats */
};

_Static_assert((int)ATTN_BLOCK == (int)READ_BLOCK && (int)ATTN_SPAN == 8 * (int)READ_BLOCK,
               "a span's blocks are the bits of a byte");

/* 1 if query r reads the block that begins with key k. */
static inline int attn_reads(const struct attn_tile *t, int32_t r, int32_t k)
{
	return !t->blocks || t->blocks[r] >> ((k - t->k0) / ATTN_BLOCK) & 1;
}

/* Return the slot of key k. */
static inline size_t attn_row(const struct attn_tile *t, int32_t k)
{
	return (size_t)(t->rows ? t->rows[k] : k);
}

/* The scores of relative positions (struct relative_args) of one head, for queries first .. last - 1 and keys 0 .. n - 1.
 * Query i and key j have row[i - j] of keys and queries. Consecutive rows of q, k, keys and queries are `stride` floats
 * apart. */
struct relative_tile {
	float *out;                          /* score of query i and key j: out[i * out_stride + j] */
	const float *q, *k, *keys, *queries; /* rows of dim values */
	size_t out_stride, stride;
	const int32_t *row;
	int32_t first, last, n, dim;
	float scale;
};

/* Adds one token's attention mass to n columns, one for each slot: out[c] += weight * r. Here r is the softmax
 * probability of slot c, reduced over `heads` query heads to one number, as `reduce` says. There are at most
 * PROBE_HEADS heads. */
struct probe_tile {
	const float *score; /* [heads][stride], written by attn */
	const float *m, *l; /* [heads]: members m and l of the finished softmax states (struct attn_state) */
	float *out;
	size_t stride;
	int32_t n, heads;
	enum reduce reduce;
	int largest; /* 1: keep the largest instead of the sum */
	float weight;
};

/* One token's update of `cols` columns of one head's state: struct delta_rule of backend.h, or struct state_space if
 * the field `corrects` is 0 */
struct delta_tile {
	float *state; /* [key_dim][stride]: the first `cols` of each row are updated */
	size_t stride;
	int32_t key_dim, cols;
	const float *q, *k, *v; /* q and k are [key_dim], with q already scaled; v is [cols] */
	/* the state is multiplied with `decay`; the values that are added are multiplied with `beta` */
	float decay, beta;
	/* 1: delta rule, which adds v minus the values that the state gives for key k. 0: add v. */
	int corrects;
	float *out; /* [cols] */
};

/* Products with packed weights. */
struct packed_fns {
	/* For cols_prepare(). format() says how a weight type is packed. widths[] has the numbers of columns that a
	 * product can take at a time, in ascending order, then 0. */
	struct pack_format (*format)(enum dtype);
	const uint8_t *widths;
	/* For all columns c and all rows r of n packed panels, set out[c * ldo + r] to the dot product of row r of the
	 * weight with column c of the input. The panels are contiguous. */
	void (*matmul_panels)(enum dtype, const void *panels, int32_t n, const struct cols *, float *out, int32_t ldo);
};

struct select_fns;
struct cpu_fns {
	/* Name of the level, one of cpu_level_name[]. At level amx the name is "avx512, amx", because the results are
	 * those of avx512. */
	const char *name;
	int32_t panel; /* number of rows in a panel of packed weights */

	/* Return the bytes of one packed panel, or 0 if this instruction set keeps weights of the type as plain
	 * rows. */
	size_t (*pack_bytes)(enum dtype, int32_t cols);
	/* Pack at most `panel` plain rows into one panel, in which rows are side by side. n_rows is the number of rows;
	 * a plain row begins row_bytes after the row before it. */
	void (*pack)(enum dtype, void *panel, const void *rows, size_t row_bytes, int32_t n_rows, int32_t cols);

	/* 1: products with this weight type read quantised activations (act.q). 0: they read floats (act.x). */
	int (*wants_q8)(enum dtype);
	/* Quantise one row of a->x; cols is a multiple of 32. The bits are the same for every instruction set. */
	void (*quantize)(const struct act *a, int32_t row);

	struct packed_fns packed;
	/* Functions for products with many columns: `many_columns` or more. They give the same results as `packed`.
	 * NULL = `packed` is for all products. */
	const struct packed_fns *many;
	int32_t many_columns;
	/* Compute out[c * ldo + r] for plain rows w[0 .. n_rows - 1], row_bytes apart, and columns c0 .. c1 - 1 of
	 * x. */
	void (*matmul_rows)(enum dtype, const void *w, size_t row_bytes, int32_t n_rows, const struct act *x,
	                    int32_t c0, int32_t c1, float *out, int32_t ldo);

	void (*rmsnorm)(float *out, const float *x, const float *w, int32_t n, float eps);
	void (*layernorm)(float *out, const float *x, const float *w, const float *b, int32_t n, float eps);
	void (*gelu)(float *x, int32_t n);
	/* gate = act(gate) * up (enum activation) */
	void (*glu)(enum activation act, float *gate, const float *up, int32_t n);
	void (*rope)(float *x, const float *table, int32_t heads, int32_t head_dim, int32_t dims, int neox);
	void (*delta)(const struct delta_tile *);
	void (*to_f16)(uint16_t *out, const float *x, int32_t n);
	/* unit of the scores in struct attn_state: 1, or log2(e) if the scores are exponents of 2 */
	float score_unit;
	size_t (*attn_scratch)(int32_t head_dim, int32_t n_q); /* Return the size of attn_tile.scratch in floats. */
	void (*attn)(const struct attn_tile *);
	/* Attention of a prompt's tokens, with less precision than attn(); not for f32 keys or values. NULL = use
	 * attn(). The states may differ from those of attn(). The state of a query depends only on this query and its
	 * limit. */
	size_t (*attn_prompt_scratch)(int32_t head_dim, int32_t n_q);
	void (*attn_prompt)(const struct attn_tile *);
	/* Merge state b into state a: a becomes the running softmax over the keys of both. */
	void (*attn_merge)(struct attn_state *a, const struct attn_state *b, int32_t head_dim);
	void (*relative)(const struct relative_tile *);
	void (*probe_mass)(const struct probe_tile *);
	/* out[i] = softmax probability of score[i], from maximum m and sum l. out may be score. */
	void (*probe_share)(float *out, const float *score, int32_t n, float m, float l);
	/* Set *sum to the sum of all p[i] that are at least `least`, and *count to their number. */
	void (*probe_above)(const float *p, int32_t n, float least, float *sum, int32_t *count);
	void (*conv)(const struct conv3_args *);
	void (*conv_grad)(const struct conv3_grad_args *);
	/* Compute one tile of C (struct gemm), which has gemm_rows x gemm_cols elements. `a` has k columns of A,
	 * [k][gemm_rows]. `b` has k rows of B, [k][gemm_cols]. */
	void (*gemm_tile)(int32_t k, const float *a, const float *b, float *c, size_t c_row, float alpha,
	                  int accumulate);
	int32_t gemm_rows, gemm_cols;
	const struct select_fns *select; /* functions for the selection of slots (select.h) */
	/* Sum a buffer as fast as memory can be read, for backend_bandwidth(). */
	uint64_t (*read_sum)(const void *p, size_t n);
	/* Multiply bytes in registers with the instructions of quantised products, for backend_arithmetic().
	 * Return the number of multiply-adds. */
	uint64_t (*multiply)(int32_t rounds);
};

/* One table for each instruction set: c for every processor, avx2, avx512 and amx (amx.h) for x86-64, neon and neon_dot
 * for 64-bit ARM. Every processor can run c, but it may lack the instructions of any other table. cpu_fns_best() finds
 * the best table that it can run. */
extern const struct cpu_fns cpu_fns_c, cpu_fns_avx2, cpu_fns_avx512, cpu_fns_neon, cpu_fns_neon_dot;
/* Names of the instruction sets of this kind of processor, the slowest first: c, avx2, avx512, amx; on 64-bit ARM c,
 * neon, neon-dot. cpu_level_names: the same names as part of a sentence, such as "c, neon or neon-dot". */
#ifdef __aarch64__
enum { CPU_LEVELS = 3 };
#else
enum { CPU_LEVELS = 4 };
#endif
extern const char *const cpu_level_name[CPU_LEVELS];
extern const char cpu_level_names[];
/* Return the best of the tables that this processor can run and that WEIR_CPU does not hide. */
const struct cpu_fns *cpu_fns_best(void);

/* backend_open() for "cpu" (cpu.c). */
int cpu_backend_open(struct backend **out, const struct backend_options *, char err[160]);

#endif
