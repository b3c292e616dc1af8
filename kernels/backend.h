/* kernels/backend.h - tensor operations on the CPU or a GPU, called through one table of functions. engine/ includes
 * this header, device_check.h and macros.h of kernels/.
 *
 * A backend is a table of about forty operations, each a step of a transformer layer; no entry is NULL. Only one thread
 * at a time may use a backend. The CPU backend has a thread pool of its own.
 *
 * Terms:
 * - Plane: the keys, or the values, of one layer, [n_kv_head * cap][head_dim]. Slot s of KV head h is row h * cap + s.
 * - KV entry: the key and the value in one slot.
 * - Group: the n_head / n_kv_head query heads that share a KV head.
 * - Host memory: the memory of the CPU. An operation reads the caller's lists in host memory (ids, row numbers,
 *   weights) before it returns.
 * - Shapes are [rows][cols].
 *
 * Errors: operations return nothing. The first failure sets be->failed and be->err; later operations do nothing until
 * sync() reports the failure and clears it. So a forward pass is straight-line code with one check per step. Every call
 * checks its operands. An error that begins with "internal:" reports a mistake of the caller; all other errors are
 * meant for the user.
 *
 * Results: on the CPU, the bits of an output element do not depend on the number of threads or on the other tokens of
 * the call. A device gives the same bits for the same call. But for few tokens a device sums products in another order
 * than for many tokens. So a token that is computed alone may get other bits than the same token among many. */
#ifndef WEIR_BACKEND_H
#define WEIR_BACKEND_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/macros.h"

#ifdef __cplusplus
/* C++ has no _Atomic. An int has the same layout, and C++ code only reads the flag. */
typedef volatile int backend_flag;
#else
typedef _Atomic int backend_flag;
#endif

/* ---- types and tensors ---- */

enum dtype {
	DT_F32,
	DT_F16,
	DT_BF16,
	DT_Q4_0,
	DT_Q4_1,
	DT_Q5_0,
	DT_Q5_1,
	DT_Q8_0,
	DT_Q2_K,
	DT_Q3_K,
	DT_Q4_K,
	DT_Q5_K,
	DT_Q6_K,
	DT_IQ4_NL,
	DT_IQ4_XS,
	DT_MXFP4,
	DT_COUNT,          /* weight types come before this value */
	DT_I32 = DT_COUNT, /* for lists of slots, and other whole numbers */
	DT_U8,             /* for bytes, such as key sketches and bit sets of blocks */
	/* The next two types occur in model files only: the engine converts them to Q2_K (dtype_ternary()). */
	DT_TQ1_0,
	DT_TQ2_0,
	DT_ALL
};
struct dtype_info {
	const char *name; /* "Q4_1" */
	int32_t block;    /* number of values in a block */
	int32_t block_bytes;
	int32_t ggml_id; /* the type's number in GGUF files; -1 = not a weight type */
};
const struct dtype_info *dtype_info(enum dtype);
/* Return the type that has number ggml_id in GGUF files, or -1 if it is unsupported. Set *name to the usual name of
 * that type, or to NULL if GGUF does not define the number. */
int dtype_from_ggml(uint32_t ggml_id, const char **name);
/* Return how many bytes n values take; n is a multiple of dtype_info(type)->block. */
uint64_t dtype_bytes(enum dtype, uint64_t n);
/* Convert n values to f32; n is a multiple of the block. Every other conversion is tested against this function. */
void dtype_to_f32(enum dtype, float *out, const void *in, int64_t n);

/* Convert n f32 values to the type, for files, tests and benchmarks. Each value is rounded to the nearest level; the
 * scale is not optimised. Types: F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0. Return 0, or -1 for any other type. */
int dtype_from_f32(enum dtype, void *out, const float *in, int64_t n);

/* Apply the Hadamard transform in place to a vector of dim values, such as a key. If dim is not a power of two, cut the
 * vector into parts whose lengths are powers of two, the longest first, and transform each part. The transform spreads
 * large values over all columns. It is orthogonal and its own inverse. */
void hadamard(float *x, int32_t dim);

/* 1 if the type is ternary: a value is -1, 0 or 1 times the scale of its block. dtype_ternary_to_q2_k() converts n
 * values (a multiple of 256) to Q2_K without loss. */
int dtype_ternary(enum dtype);
void dtype_ternary_to_q2_k(enum dtype, void *out, const void *in, int64_t n);

/* A dense row-major matrix. The caller owns the struct and sets type, rows and cols. alloc() or load_weight() sets
 * the other fields; drop() releases the memory. */
struct tensor {
	void *data; /* memory of the backend; only kernels/ may dereference it */
	enum dtype type;
	int32_t rows, cols;
	int32_t layout; /* how the backend repacked a weight; 0 = plain rows */
};

/* Return a view of the rows of t from row0 on, for use as an operand. t is f32 in plain layout. Do not drop() the
 * view. */
static inline struct tensor tensor_rows(const struct tensor *t, int32_t row0)
{
	struct tensor view = *t;

	view.data = (char *)t->data + (size_t)row0 * (size_t)t->cols * sizeof(float);
	view.rows = t->rows - row0;
	return view;
}

/* ---- arguments of operations ---- */

/* One product: out = x W^T (+ bias), or out += x W^T (+ bias). The products of one call share x [n][w->cols]. */
struct matmul {
	struct tensor *out;        /* f32 [>= n][w->rows] */
	const struct tensor *w;    /* the weight W, [rows][cols] of any weight type, from load_weight() */
	const struct tensor *bias; /* f32 [1][w->rows], or NULL */
	int accumulate;            /* 1: add to out (the residual stream) */
	/* Only for Q8_0 weights on the CPU. 1: activations are rounded to 8 bits, or to 16 bits in blocks with
	 * outliers. 0: all activations are rounded to 16 bits, which takes twice as long. */
	int narrow;
};

/* The activation of a gated feed-forward act(gate) * up. */
enum activation {
	ACT_SILU,
	ACT_GELU,        /* computed by the tanh approximation */
	ACT_SILU_CLAMPED /* g * sigmoid(1.702 g) * (u + 1), where g = min(gate, 7) and u = up clamped to -7 .. 7 */
};
#define CLAMP_LIMIT 7.0f /* bound of the clamping in ACT_SILU_CLAMPED; CLAMP_SLOPE is the factor in its sigmoid */
#define CLAMP_SLOPE 1.702f
/* The first half of a gated feed-forward: out = act(x gate^T + gate_bias) * (x up^T + up_bias). gate and up have the
 * same shape. gate_bias and up_bias are f32 [1][gate->rows], or NULL. */
struct matmul_glu {
	const struct tensor *gate, *up, *gate_bias, *up_bias;
	enum activation act;
	int narrow; /* see matmul.narrow */
};

/* The weights of an expert of a mixture-of-experts layer, a gated feed-forward. A bias whose `data` is NULL is absent. */
struct expert {
	struct tensor gate, up, down; /* [width][cols], [width][cols], [cols][width], from load_weight() */
	struct tensor gate_bias, up_bias, down_bias; /* f32 [1][rows of the matrix] */
};
enum { EXPERTS_MAX = 1024 }; /* maximum number of experts of a layer */
/* Number of columns of the results of route(). */
#define ROUTE_COLS(n_used) (2 * (n_used) + 1)

/* Choose the experts of each token by the scores of the router. A token uses the n_used experts with the highest scores.
 * Of experts with equal scores, those with lower numbers are chosen. Scores that are NaN rank below all numbers. */
struct route_args {
	/* output, f32 [>= n][ROUTE_COLS(n_used)]: for each token, the numbers of its experts in ascending order, then
	 * the weights of these experts, then the weight of the shared expert */
	struct tensor *out;
	const struct tensor *score; /* f32 [>= n][n_expert] */
	/* f32 [1][n_expert], or NULL. `bias` is added to the scores for the choice, but not for the weights. The weights
	 * are multiplied by `scale`. */
	const struct tensor *bias, *scale;
	/* f32 [>= n][1]: the weight of the shared expert is the sigmoid of this score; NULL: the weight is 1 */
	const struct tensor *shared;
	int32_t n_used;
	/* The weights are a softmax over the scores of the n_used experts or, if `whole` is 1, over the scores of all
	 * experts. If `sigmoid` is 1, the sigmoids of the scores replace the scores, and a weight is a sigmoid divided
	 * by (the sum of the n_used sigmoids + 1e-6). */
	int whole, sigmoid;
};

/* Compute the experts that route() has chosen: each row of `out` is the sum of the outputs of the token's experts, times
 * their weights, in the order of the experts' numbers; the shared expert is added last. Row i of `x` is the input of
 * token i. */
struct experts_args {
	struct tensor *out;          /* f32 [>= n][cols]; must not be the tensor `x` */
	const struct tensor *x;      /* f32 [>= n][cols] */
	const struct tensor *route;  /* result of route() */
	const struct expert *expert; /* [n_expert], of which all have the same shapes and types */
	const struct expert *shared; /* the shared expert, which all tokens use and which has no biases; NULL: none */
	const struct tensor *table;  /* result of expert_table() for `expert` */
	int32_t n_expert, n_used;
	enum activation act;
	/* Scratch: f32 [>= n][>= width of every expert], f32 [>= n][cols], f32 [>= n][cols]. */
	struct tensor *hidden, *in, *part;
	/* Scratch in host memory: [n * ROUTE_COLS(n_used)], [n], [n]. */
	float *host, *weight;
	int32_t *token;
};

/* A convolution over time. The last `taps` inputs of a column are multiplied with the column's weights and summed,
 * where u[t] is the input at token t:
 *     sum = w[0] u[t - taps + 1] + ... + w[taps - 1] u[t]
 *
 * The terms are added in this order. The operation has two forms:
 * - Gated form (LFM2): the tensor `in` has three values per token and column: B, C and x. An input u is B * x, and the
 *   output is C * sum.
 * - Plain form: the tensor `in` has the inputs u themselves, and the output is silu(sum + bias). */
struct short_conv {
	struct tensor *out; /* f32 [>= n][cols] */
	/* Gated form: f32 [>= n][3 * cols]; a token's row has the cols values B, then the values C, then the values x.
	 * Plain form: f32 [>= n][cols]; a token's row has the inputs u. */
	const struct tensor *in;
	const struct tensor *w;    /* f32 [cols][taps] */
	const struct tensor *bias; /* f32 [1][cols], for the plain form only; NULL = none */
	/* f32 [taps - 1][cols]: the values u of the last (taps - 1) tokens before the call, the oldest first */
	const struct tensor *state;
	struct tensor *next; /* output: the state after the call's n tokens; must not be the tensor `state` */
	int32_t taps;        /* 2 or more */
};

/* A condition that is evaluated where the operation runs, without a round trip to the host. The predicate is true if
 * the number flag[0][col] is equal to the member `is`. */
struct predicate {
	const struct tensor *flag; /* i32, one row of more than `col` columns; NULL = the predicate is always true */
	int32_t col, is;
	/* a copy of `flag` in host memory (query_drift_args.shown), for the caller alone; NULL = none */
	const struct tensor *shown;
};

struct scan_args;
struct topk_args;
/* A selection of slots that attn() makes itself: it runs key_scan(scan), then topk(topk), which writes the list of
 * slots to attend to. scan->out must be topk->score. One call instead of three saves two waits for threads or the
 * device. */
struct attn_selection {
	const struct scan_args *scan;
	const struct topk_args *topk;
};

/* One segment of the slots that attn() reads: a range or a list of slots. The keys of different segments may be rotated
 * (RoPE) for different positions, so each segment has queries rotated to match its keys. */
struct attn_segment {
	const struct tensor *q; /* f32 [>= n][n_head * head_dim]: queries, rotated for the keys of this segment */
	/* i32 [n_kv_head][cols >= n_slots]: a list of slots for each KV head. NULL = slots slot0 .. slot0 +
	 * n_slots - 1. */
	const struct tensor *slots;
	/* i32 [1][cols >= n_kv_head]: the number of slots in the list of each KV head, 0 .. n_slots, if the lists have
	 * different lengths (CPU only). The rest of a list is not read. A probe sees probability 0 there. NULL = all
	 * lists have n_slots slots. The last segment of a call must not have lengths, and `selection` must be NULL. */
	const struct tensor *lengths;
	/* NULL = the caller filled in `slots`; else attn() computes `slots` by this selection. */
	const struct attn_selection *selection;
	/* f32 [n_kv_head][cols >= n_slots], added to the scores of listed slots; a bias of -log(p) multiplies a slot's
	 * weight in the softmax by 1 / p. NULL = none. Only one segment of a call may have a bias. */
	const struct tensor *bias;
	/* If `k` and `v` are NULL, the segment reads the keys and values of the call. Otherwise they are planes that
	 * only this segment reads, with `cap` slots per KV head (CPU only). Then `slots` must be a list of slots in
	 * these planes, and `selection` must be NULL. */
	const struct tensor *k, *v;
	int32_t cap;     /* number of slots per KV head in k and v */
	int32_t slot0;   /* first slot, if `slots` is NULL */
	int32_t n_slots; /* number of slots of the segment */
	/* the last `sample` slots of the list are a sample (topk_args.sample); attn() ignores this field */
	int32_t sample;
	/* If this predicate is false, the segment is skipped. A call with predicates must have n = 1, no window, at
	 * most 16 segments, and at least one segment that is not skipped. If the call also has a probe, every segment
	 * with a predicate must be inside the call's first attn_probe.skip slots. That number includes the slots of
	 * skipped segments. */
	struct predicate when;
};

/* Gated delta rule. A value head has a state S [key_dim][value_dim]. A token decays S, corrects it at the token's key
 * k, and reads it with the query q: S = exp(decay * softplus(alpha + dt)) S; then S += k (sigmoid(beta) (v - S^T
 * k))^T; then out = S^T q / sqrt(key_dim).
 *
 * q and k are scaled to length 1. Value head h uses the query and key of key head h % n_key_head, or, if `grouped`,
 * of key head h / (n_value_head / n_key_head). */
struct delta_rule {
	struct tensor *out; /* f32 [>= n][n_value_head * value_dim] */
	/* f32 [>= n][2 * n_key_head * key_dim + n_value_head * value_dim]: queries, keys, values */
	const struct tensor *qkv;
	const struct tensor *alpha, *beta; /* f32 [>= n][n_value_head] */
	const struct tensor *decay, *dt;   /* f32 [1][n_value_head]; decay < 0 */
	const struct tensor *state;        /* f32 [n_value_head * key_dim][value_dim] */
	/* output: the state after the call's n tokens; must not be the tensor `state` */
	struct tensor *next;
	int32_t n_key_head, n_value_head, key_dim, value_dim; /* key_dim at most DELTA_KEY */
	int grouped;
};
enum { DELTA_KEY = 256 };

/* State space (Mamba-2). A head has a state S [state_dim][head_dim]. With dt = softplus(step + bias), a token decays
 * S and adds its input x: S = exp(decay * dt) S + b (dt x)^T. Then out = S^T c + skip * x. Head h uses b and c of
 * group h / (n_head / n_group). */
struct state_space {
	struct tensor *out; /* f32 [>= n][n_head * head_dim] */
	/* f32 [>= n][n_head * head_dim + 2 * n_group * state_dim]: x, b, c of a token */
	const struct tensor *xbc;
	const struct tensor *step;                /* f32 [>= n][n_head] */
	const struct tensor *decay, *bias, *skip; /* n_head values of f32 each; decay < 0 */
	const struct tensor *state;               /* f32 [n_head * state_dim][head_dim] */
	/* output: the state after the call's n tokens; must not be the tensor `state` */
	struct tensor *next;
	int32_t n_head, n_group, state_dim, head_dim; /* state_dim at most DELTA_KEY */
};

enum gate_kind { GATE_SILU, GATE_SIGMOID, GATE_GELU };

enum reduce { REDUCE_MAX, REDUCE_MEAN, REDUCE_MEDIAN };

/* Measures attention during attn(): how much attention each slot gets (mass), and over how many slots the attention of
 * a query is spread. Both are computed from the softmax probability of each slot for one token and one query head. The
 * slots of a call are numbered in the order in which attn_args.seg[] lists them. Column c of the tensor `mass` is for
 * the slot with the number c + `skip`. */
struct attn_probe {
	/* Attention mass, f32 [>= mass_row + rows][cols >= slots - skip]; NULL = mass is not measured. `rows` is
	 * n_kv_head, or 1 if whole_layer is set. For each token, in token order, weight[token] * r is added to a slot's
	 * column. Here r is the softmax probability of the slot, reduced over several query heads to one number. These
	 * are the heads that share a KV head or, if whole_layer is set, all heads of the layer. */
	struct tensor *mass;
	/* The sums of attention mass before the call, in a tensor of the same shape as `mass`. NULL = they are in
	 * `mass` itself. The sums of the call's own n tokens begin at 0. The new sums are written to `mass`, so the
	 * tensor `from` still has the old sums if the call fails. */
	const struct tensor *from;
	/* 1: a slot's column is not increased by weight[token] * r, but raised to it if it is smaller (CPU only). `from`
	 * must be NULL. */
	int largest;
	int32_t mass_row;    /* first row of the tensors `mass` and `from` that this call uses */
	const float *weight; /* [n], in host memory: the weight of each token; a token with weight 0 is not measured */
	enum reduce reduce;  /* how the probabilities for several heads are reduced to one; at most 256 heads */
	int whole_layer;     /* 1: reduce over all heads of the layer, into one row */
	/* Spread of attention, f32, one row of more than spread_col columns; NULL = spread is not measured. For a token
	 * and a query head, the spread is the smallest number of slots whose probabilities sum to `share`. It is exact
	 * to 2 %, and is added to spread[0][spread_col] for each measured token and query head. */
	struct tensor *spread;
	int32_t spread_col;
	float share; /* 0 .. 1: sum of the probabilities of the slots that `spread` counts */
	/* The first `skip` slots of the call have no column in `mass`. The tensor `spread` counts them like all other
	 * slots. */
	int32_t skip;
};

struct attn_args {
	struct tensor *out; /* f32 [>= n][n_head * head_dim] */
	/* keys and values of one layer, [n_kv_head * cap][head_dim], each of type f16, f32, bf16, q8_0 or q4_0.
	 * Planes of q4_0 store the Hadamard transform of each key or value. */
	const struct tensor *k, *v;
	/* The call's own n tokens are in the last n slots of the last segment. Causal mask: a token sees all slots
	 * except the slots of later tokens. */
	const struct attn_segment *seg; /* [n_seg] */
	int32_t n_seg;                  /* 1 or more */
	int32_t n_head, n_kv_head, head_dim, cap;
	/* 1: there is no causal mask, and every token sees all slots, as in encoders. Such a call must have no window,
	 * no `blocks` and no probe. */
	int bidirectional;
	/* factor by which dot products q . k are multiplied before the softmax, usually 1 / sqrt(head_dim) */
	float scale;
	float softcap; /* > 0: scores become softcap * tanh(score / softcap); 0 = no cap */
	/* > 0: a token sees its own slot and the window - 1 slots before it, in the order of seg[]. A call with a
	 * window must not have a segment with a list. 0 = no window. */
	int32_t window;
	/* f32 [1][n_head]: score of each query head's attention sink, a term of the softmax that has no value vector.
	 * NULL = no sinks. */
	const struct tensor *sinks;
	const struct attn_probe *probe; /* NULL = no probe */
	/* 1: the tokens are prompt tokens. They attend with less precision if backend.prompts_apart is set. Even then,
	 * the result of a token does not depend on the other tokens in the call or on the number of threads. */
	int prompt;
	/* The blocks of slots that each query reads, from read_blocks(); NULL = all blocks. Every query must read the
	 * first block and the block of its own token. The call must have no window and a single segment, a range from
	 * slot 0 on. */
	const struct tensor *blocks;
};

/* Computes the part of the scores of bidirectional attention that depends on the relative position of query and key
 * (disentangled attention: He et al. 2021, "DeBERTa"). For query i, key j and each head, it is
 *     scale * (q[i] . keys[r] + k[j] . queries[r])  with  r = row[i - j + n - 1]
 * attn_segment.bias adds these numbers to the scores of attention. */
struct relative_args {
	struct tensor *out;         /* f32 [>= n * n_head][>= n]: row i * n_head + h is for query i and head h */
	const struct tensor *q, *k; /* f32 [>= n][n_head * head_dim] */
	const struct tensor *keys, *queries; /* f32 [rows][n_head * head_dim]: vectors of the relative positions */
	const int32_t *row;                  /* [2 * n - 1], in host memory: rows of `keys` and `queries` */
	int32_t n_head, head_dim;
	float scale;
};

/* Selects which blocks of READ_BLOCK slots each query of a prompt reads in attn(), by an estimate of the attention that
 * each block gets. A query always reads the first block, the block of its own token and the block before its own
 * token's block. Then blocks are added in descending order of their estimates, until the estimates of the blocks read
 * sum to the fraction `share` of the sum of all estimates. (Blocks with estimates within a factor of 2^(1/8) may be
 * added together.) A query with an estimate that is not finite reads all blocks.
 *
 * The result for a query depends only on this query and the keys before it. MInference (2024), SeerAttention (2024) and
 * XAttention (2025) select for many queries at once instead. */

/* The estimate of a block is a sum of exp(score), where score = scale * q . k. The term of the key farthest from the
 * block's mean is computed exactly. The sum over the n other keys is estimated as n exp(m + v / 2). Here m and v are
 * the mean and the variance of their scores, computed as if the dimensions of keys were independent and normal. If v /
 * 2 > log n, the largest scores decide the sum, and the estimate is exp(m + sqrt(2 v log n)) (Derrida's random energy
 * model, 1981). The terms of the first READ_FIRST slots of the sequence are computed exactly. */
struct read_blocks_args {
	/* u8 [>= n][n_head * bytes], with the same number of bytes for each head. Bit b % 8 of byte b / 8 is 1 if
	 * the query reads block b. */
	struct tensor *out;
	const struct tensor *q; /* f32 [>= n][n_head * head_dim], rotated like the keys */
	/* the keys of a layer; the call's n tokens are the last n of slots 0 .. n_slots - 1 */
	const struct tensor *keys;
	int32_t n_head, n_kv_head, head_dim, cap, n_slots;
	float scale; /* factor by which dot products q . k are multiplied */
	float share; /* 0 .. 1: a query's blocks are added until they have this share of the sum of all estimates */
};
enum { READ_BLOCK = 64, READ_FIRST = 4 };

/* Scores the keys of one layer for one token, as input of topk(). A score is q . k * scale. For each query head, the
 * softmax of the scores over slots 0 .. n_slots - 1 gives a probability for each slot. The probabilities for the query
 * heads that share a KV head are reduced to one number per slot. `out` receives the logarithm of this number.
 * page_scan() does the same with pages (page_bounds()) in place of slots. */
struct scan_args {
	/* f32 [n_kv_head][cols >= n_slots]. For page_scan(), a column is a page: f32 [n_kv_head][cols >= ceil(n_slots /
	 * page)]. */
	struct tensor *out;
	const struct tensor *q; /* f32 [>= 1][n_head * head_dim] */
	/* the keys of a layer, or a key sketch (key_sketch()), or page bounds (page_bounds()) */
	const struct tensor *keys;
	int32_t n_head, n_kv_head, head_dim, cap, n_slots;
	int32_t bits; /* 2, 4 or 8: `keys` is a key sketch; 16: the keys themselves. Unused by page_scan. */
	float scale;  /* factor by which dot products q . k are multiplied, 0 or more */
	/* how the probabilities of the heads that share a KV head are reduced to one number: REDUCE_MAX or
	 * REDUCE_MEAN */
	enum reduce reduce;
	int32_t page; /* number of slots in a page, for page_scan() */
	/* page_scan only. 1: out = the largest upper bound over the query heads that share a KV head, without
	 * softmax, as in the Quest paper. */
	int raw;
	struct predicate when; /* key_scan() leaves `out` unchanged if this predicate is false */
};

/* Copies KV entries from host memory (alloc_host) into a cache on the device. The cache has `lines` cache lines per KV
 * head; a cache line has room for one entry. Cache line r of KV head h is row h * lines + r of k and v.
 *
 * If a wanted entry is already in the cache, it stays in its line. For every other wanted entry, a cache line is chosen
 * by the clock algorithm: the lines are searched in a circle, from the line after the last one that was filled. The
 * entry replaces the contents of the first line that is free to be overwritten:
 * - In a normal call, a cache line is free if it is empty, or if this call and the previous call do not want its entry.
 *   (Prefetches do not count as calls.) If no line is free, the first line is taken whose entry this call does not
 *   want.
 * - In a prefetch (member `ahead`), a cache line is free if it is empty, or if this prefetch and the last two calls do
 *   not want its entry. If no line is free, the entry is not copied. */
struct fetch_args {
	struct tensor *k, *v; /* the cache, [n_kv_head * lines][head_dim] */
	/* keys and values in host memory, [n_kv_head * cap][head_dim], of the same type as k and v */
	const struct tensor *from_k, *from_v;
	/* i32 [n_kv_head][fetch_map_cols(cap, lines)]: says which entry is in which line; fetch_slots() updates it. A
	 * map of zeros stands for an empty cache. To invalidate slot s, set column FETCH_AT + s to 0. */
	struct tensor *map;
	const struct tensor *slots; /* i32 [n_kv_head][cols >= n]: the wanted slots, without duplicates */
	/* output, i32 [n_kv_head][cols >= n]: the line of each wanted slot; unused in a prefetch */
	struct tensor *list;
	/* i32 [>= count_row + n_kv_head][FETCH_COUNTS]: counters of each KV head, which the call increases */
	struct tensor *count;
	int32_t count_row;
	/* Host memory has `cap` slots per KV head, and the cache has `lines` cache lines per KV head. n is the number
	 * of wanted slots, at most `lines`. */
	int32_t n_kv_head, cap, lines, n;
	/* 1: the call is a prefetch. It copies an entry only if there is a free line for it. Later operations do not
	 * wait for the copies. Until fetch_wait(), later operations may read `slots` but must not change it, and must
	 * not use k, v, map or count at all. */
	int ahead;
};
/* Columns of fetch_args.count. FETCH_COUNT_WANTED: number of entries wanted. FETCH_COUNT_BROUGHT: number of entries
 * copied on demand. FETCH_COUNT_AHEAD: number of entries copied by prefetches. */
enum { FETCH_COUNT_WANTED, FETCH_COUNT_BROUGHT, FETCH_COUNT_AHEAD, FETCH_COUNTS };
/* Columns of fetch_args.map. FETCH_CALLS: number of calls. FETCH_HAND: the clock hand, the line where the next search
 * begins. FETCH_MISSED: number of entries copied by the last call. FETCH_AT and the columns after it: for each slot its
 * line + 1, or 0 if the slot has no line. */
enum { FETCH_CALLS, FETCH_HAND, FETCH_MISSED, FETCH_AT };
static inline int64_t fetch_map_cols(int32_t cap, int32_t lines)
{
	/* After the columns of slots, each line has 4 columns: its slot + 1, the number of the last call that used it,
	 * and two columns of working memory. */
	return FETCH_AT + (int64_t)cap + 4 * (int64_t)lines;
}

enum topk_order { SLOT_ORDER, BEST_FIRST };
/* Selects the k slots with the highest scores in each KV head. Slots with equal scores are compared by their scores
 * before pooling (see `pool`), then by their numbers; the higher value wins. NaN ranks lowest. */
struct topk_args {
	struct tensor *slots;       /* output, i32 [n_kv_head][cols >= k + sample] */
	const struct tensor *score; /* f32 [n_kv_head][cols >= n] */
	/* The scores are for slots 0 .. n - 1. k of these slots are selected, 0 < k <= n. */
	int32_t n_kv_head, n, k;
	/* Before the selection, each score is replaced by the largest of the `pool` scores around it, itself included.
	 * `pool` is odd; 1 = no pooling. */
	int32_t pool;
	int32_t first, last;   /* number of slots at the beginning and at the end that are always selected ("forced") */
	enum topk_order order; /* SLOT_ORDER: ascending slot numbers. BEST_FIRST: descending scores */
	struct predicate when; /* if this predicate is false, the outputs are left unchanged */
	/* > 0: append a sample of up to `sample` slots, taken from the slots that were not selected; 0 = no sample.
	 * With their biases, the sampled slots give an unbiased estimate of the attention to all slots that were not
	 * selected. A slot is taken with a probability p, which is at most 1. Up to an error of 0.1 %, p is
	 * proportional to exp(score). The sample is drawn without random numbers. A sample needs SLOT_ORDER, pool = 1
	 * and no `when`.
	 *
	 * bias, f32 [n_kv_head][cols >= k + sample], is for attn_segment.bias: 0 for the k selected slots, -log(p) for
	 * sampled slots, SAMPLE_NONE in unused columns. Without a sample, bias is unused. */
	int32_t sample;
	struct tensor *bias;
};
#define SAMPLE_NONE (-1e30f)

/* Copies a layer's keys, or its values, from slot to slot. All sources are read before any slot is written. If two
 * moves have the same target, the later move wins. */
struct kv_moves {
	/* i32 [>= move_row + n_kv_head][cols >= 3 * n]. A move is three numbers: source slot (-1 = no move); target
	 * slot; row of `shift` by which the key is rotated (-1 = not rotated). On the CPU, a move to or from a slot
	 * that does not exist is an error. On a device, such a move is skipped, because the host code of the device
	 * cannot read the list. */
	const struct tensor *move;
	int32_t move_row; /* row of `move` for KV head 0; KV head h uses row move_row + h */
	/* f32 [..][dims]: each row is a rotation, stored as the cosine and sine of each pair of dimensions, as in
	 * rope(). NULL if the call moves values, which are never rotated. */
	const struct tensor *shift;
	int32_t n, n_kv_head, head_dim, dims, cap;
	int neox; /* how rope() pairs the dimensions */
};

/* Measures how far the query of a layer has drifted from the query for which slots were last selected, as the test of
 * RefreshKV does. Row q_row of `q` is averaged over the query heads, and the mean is stored in row `row` of the tensor
 * `now`. The cosine of the angle between this row and row `row` of the tensor `then` is stored in cosine[0][col].
 * flag[0][col] becomes 1 if the cosine is at most `least`, else 0. */
struct query_drift_args {
	struct tensor *now;     /* output, f32 [> row][head_dim]: row `row` receives the mean of the queries */
	const struct tensor *q; /* f32 [> q_row][n_head * head_dim]: row q_row has the queries of all heads */
	int32_t q_row, row, n_head, head_dim;
	/* i32, one row with more than `col` columns; NULL = compute only the mean of the queries */
	struct tensor *flag;
	/* NULL, or a tensor like `flag` that receives the same number: a copy in host memory */
	struct tensor *shown;
	/* f32 [1][> col]: column `col` receives the cosine of the angle between the mean in `now` and the mean in
	 * `then`, or 0 if one of these means is zero. Unused if flag is NULL. */
	struct tensor *cosine;
	int32_t col;
	/* f32 [> row][head_dim]: row `row` has the mean of the queries at the last selection. Must not be the tensor
	 * `now`. Unused if flag is NULL. */
	const struct tensor *then;
	double least; /* a cosine of at most `least` counts as drift */
};

/* ---- the table ---- */

/* Bits of `lacks`: features of models that a backend does not compute */
enum {
	LACKS_WINDOW = 1 << 0,  /* attn_args.window */
	LACKS_SOFTCAP = 1 << 1, /* attn_args.softcap */
	LACKS_SINKS = 1 << 2,   /* attn_args.sinks */
	LACKS_CLAMPED = 1 << 3, /* ACT_SILU_CLAMPED, and the biases of matmul_glu */
	LACKS_MXFP4 = 1 << 4,   /* weights of DT_MXFP4 */
	LACKS_BLOCKS = 1 << 5,  /* read_blocks(), attn_args.blocks */
	LACKS_KV_APART = 1 << 6 /* a cache of type q4_0, or a cache whose keys and values have different types */
};

struct backend;
struct backend_ops {
	const char *name; /* "cpu", "cuda": the argument of --device */
	unsigned lacks;   /* LACKS_ bits; operations that need such a feature fail */
	/* Release the backend. The caller must have dropped every tensor. */
	void (*close)(struct backend *);
	/* Write one line for the user: "cpu avx512, 2 threads". */
	void (*describe)(const struct backend *, char *out, size_t cap);
	/* Set *available to the free bytes of device memory, and *total to all bytes of it. A backend that computes in
	 * host memory sets both to 0. */
	void (*memory)(const struct backend *, uint64_t *available, uint64_t *total);

	/* ---- memory ---- */

	/* Allocate t by its type, rows and cols: plain layout, zeroed, pages committed. Return 0, or -1 with
	 * be->err set. */
	int (*alloc)(struct backend *, struct tensor *t);
	/* Allocate t as a shared mapping of file fd from byte `off` on, a multiple of FILE_ALIGN. The caller has
	 * reserved the disk space and filled it with zeros. The system writes changed pages to the file. A backend for
	 * a device returns -1. */
	int (*alloc_file)(struct backend *, struct tensor *t, int fd, uint64_t off);
	/* Drop the pages of bytes off .. off + n - 1 of an alloc_file() tensor from the process's resident set. The
	 * contents stay; the next access faults the pages in again, from the page cache or the disk. */
	void (*give_back)(struct backend *, const struct tensor *t, size_t off, size_t n);
	/* Allocate t in host memory that the device can access. Every operation takes such a tensor, at lower
	 * speed. The CPU backend does the same as in alloc(). */
	int (*alloc_host)(struct backend *, struct tensor *t);
	/* Load a weight from plain rows in host memory, which the caller keeps mapped until drop(). as_table 1: t is a
	 * table for embed(), which reads single rows. as_table 0: t is a weight for matmul(), and the backend may
	 * repack it. Return 0, or -1 with be->err set. */
	int (*load_weight)(struct backend *, struct tensor *t, const void *host, int as_table);
	/* Prepare experts() for the n experts of a layer, whose weights are loaded. A device stores in t where their
	 * weights are; other backends set t->data to NULL. Return 0, or -1 with be->err set. */
	int (*expert_table)(struct backend *, struct tensor *t, const struct expert *expert, int32_t n);
	void (*drop)(struct backend *, struct tensor *t);
	/* Copy n bytes from or to host memory; `off` is the byte offset in t, which has plain layout. read() waits
	 * for earlier operations and leaves dst unchanged after a failure. */
	void (*write)(struct backend *, struct tensor *t, size_t off, const void *src, size_t n);
	void (*read)(struct backend *, const struct tensor *t, size_t off, void *dst, size_t n);
	/* Wait for all operations. Return 0, or -1 with be->err set. The failure is cleared, so the backend can be
	 * used again. */
	int (*sync)(struct backend *);

	/* ---- rows ---- */

	/* Copy n rows of f32: rows src_row .. src_row + n - 1 of src to rows dst_row .. dst_row + n - 1 of dst. src and
	 * dst have the same cols. They may be the same tensor if the rows do not overlap. */
	void (*copy)(struct backend *, struct tensor *dst, int32_t dst_row, const struct tensor *src, int32_t src_row,
	             int32_t n);
	/* Copy column col[i] of src to row i of out, for i < n. out is f32 [>= n][>= src->rows]. The n numbers col[i]
	 * are in host memory and must be columns of src. */
	void (*columns)(struct backend *, struct tensor *out, const struct tensor *src, const int32_t *col, int32_t n);

	/* ---- transformer: operations use rows 0 .. n - 1 (tokens) of their operands, which may have more rows ---- */

	/* out f32 [n][cols] = rows id[i] of table. id [n] is in host memory; an id outside of the table is an error. */
	void (*embed)(struct backend *, struct tensor *out, const struct tensor *table, const int32_t *id, int32_t n);
	/* For each group of `group` values of a row, compute out = x / rms(x) * w. A group is a whole row or, for a
	 * norm per head, has head_dim values. w is f32 [1][group], or [1][cols] if every group has its own weights. out
	 * may be x. */
	void (*rmsnorm)(struct backend *, struct tensor *out, const struct tensor *x, const struct tensor *w,
	                int32_t group, float eps, int32_t n);
	/* Normalise each row (layer norm): out = (x - mean) / sqrt(variance + eps) * w + b. w and b are f32
	 * [1][cols]. out may be x. */
	void (*layernorm)(struct backend *, struct tensor *out, const struct tensor *x, const struct tensor *w,
	                  const struct tensor *b, float eps, int32_t n);
	/* y = a x + b y, f32 of the same cols. x may be y. If b is 0, the old y is not read. */
	void (*axpby)(struct backend *, struct tensor *y, float a, const struct tensor *x, float b, int32_t n);
	/* Compute the products m[0] .. m[n_m - 1] of the same x, f32 [n][cols]. */
	void (*matmul)(struct backend *, const struct matmul *m, int32_t n_m, const struct tensor *x, int32_t n);
	/* out f32 [n][gate->rows] = act(x gate^T + gate_bias) * (x up^T + up_bias). */
	void (*matmul_glu)(struct backend *, struct tensor *out, const struct matmul_glu *, const struct tensor *x,
	                   int32_t n);
	/* Copy row row[i] of x to row i of out, for i < n. out and x are different f32 tensors with the same number of
	 * columns. The n numbers row[i] are in host memory and must be rows of x. */
	void (*take_rows)(struct backend *, struct tensor *out, const struct tensor *x, const int32_t *row, int32_t n);
	/* For i = 0 .. n - 1 in this order, multiply row i of x with weight[i] and add it to row row[i] of out. out and
	 * x are different f32 tensors with the same number of columns. The arrays row[] and weight[] are in host
	 * memory, and each row[i] must be a row of out. */
	void (*add_rows)(struct backend *, struct tensor *out, const struct tensor *x, const int32_t *row,
	                 const float *weight, int32_t n);
	void (*route)(struct backend *, const struct route_args *, int32_t n);
	void (*experts)(struct backend *, const struct experts_args *, int32_t n);
	void (*short_conv)(struct backend *, const struct short_conv *, int32_t n);
	void (*delta_rule)(struct backend *, const struct delta_rule *, int32_t n);
	void (*state_space)(struct backend *, const struct state_space *, int32_t n);
	/* x *= f(gate), where f is silu, sigmoid or gelu. x and gate are different tensors, f32 of the same cols.
	 * gate may be overwritten. */
	void (*gate)(struct backend *, struct tensor *x, struct tensor *gate, enum gate_kind, int32_t n);
	/* x = gelu(x) = x / 2 (1 + erf(x / sqrt(2))), exact (not the tanh approximation); x f32. */
	void (*gelu)(struct backend *, struct tensor *x, int32_t n);
	/* Rotate the first `dims` dimensions of every head (RoPE): out = x rotated, f32 [n][heads * head_dim]. out
	 * may be x. table f32 [n][dims]: cos and sin of each pair. Pair j is dimensions (j, j + dims / 2) if neox,
	 * else (2 j, 2 j + 1). */
	void (*rope)(struct backend *, struct tensor *out, const struct tensor *x, const struct tensor *table,
	             int32_t head_dim, int32_t dims, int neox, int32_t n);
	/* Write x f32 [n][n_kv_head * head_dim] to slots slot0 .. slot0 + n - 1 of a plane (a layer's keys or
	 * values), converted to its type: f16, f32, bf16 or q8_0. For q8_0 head_dim must be a multiple of 32. */
	void (*kv_put)(struct backend *, struct tensor *plane, const struct tensor *x, int32_t n_kv_head, int32_t slot0,
	               int32_t n);
	/* Compute attention of n tokens. */
	void (*attn)(struct backend *, const struct attn_args *, int32_t n);
	/* Do n calls of attn() in one. Each call has one token, and all calls read the same keys and values. a[i] has
	 * the arguments of call i, with its own output, lists of slots and scores. The bits are those of n separate
	 * calls in this order. On the CPU, a slot that several calls share is read once for all of them. */
	void (*attn_each)(struct backend *, const struct attn_args *a, int32_t n);
	/* Compute the scores of relative positions for the n tokens of one text. */
	void (*relative)(struct backend *, const struct relative_args *, int32_t n);
	/* Select the blocks that n tokens of a prompt read. */
	void (*read_blocks)(struct backend *, const struct read_blocks_args *, int32_t n);

	/* ---- selection and moves of KV entries, for cache policies ---- */

	/* A key sketch codes a layer's keys in few bits, for scans: 2, 4 or 8 bits per value and a scale per key
	 * (key_sketch.h). Keys are coded in blocks of SKETCH_BLOCK slots. When a block fills up, all its keys are
	 * coded again. key_sketch_bytes() returns the size of a sketch, which is a DT_U8 tensor of one row and this
	 * many cols; 0 = unsupported shape. */
	uint64_t (*key_sketch_bytes)(const struct backend *, int32_t n_kv_head, int32_t cap, int32_t head_dim,
	                             int32_t bits);
	/* Update the key sketch after keys were written to slots slot0 .. slot0 + n - 1, the last slots that are used.
	 * The sketch depends only on the keys, not on how many keys each call adds. */
	void (*key_sketch)(struct backend *, struct tensor *sketch, const struct tensor *plane, int32_t n_kv_head,
	                   int32_t cap, int32_t bits, int32_t slot0, int32_t n);
	void (*key_scan)(struct backend *, const struct scan_args *);
	void (*topk)(struct backend *, const struct topk_args *);
	void (*kv_move)(struct backend *, struct tensor *plane, const struct kv_moves *);

	/* ---- KV entries in host memory ---- */

	/* Copy slots slot0 .. slot0 + n - 1 of each KV head from one plane (a layer's keys or values) to another of
	 * the same shape and type. */
	void (*fetch_range)(struct backend *, struct tensor *to, const struct tensor *from, int32_t n_kv_head,
	                    int32_t cap, int32_t slot0, int32_t n);
	void (*fetch_slots)(struct backend *, const struct fetch_args *);
	/* Make later operations wait until all prefetches are done. A prefetch is a fetch_slots() with
	 * fetch_args.ahead = 1. */
	void (*fetch_wait)(struct backend *);

	/* ---- for the comparison policies quest and refresh ---- */

	/* Update page bounds after slots slot0 .. slot0 + n - 1 were written. A page is `page` consecutive slots;
	 * `page` is a multiple of PAGE_UNIT, at most PAGE_MOST. The last page may be partly filled. bounds is f32
	 * [n_kv_head * pages][2 * head_dim], pages = ceil(cap / page): head_dim minima over the page's keys, then
	 * head_dim maxima. */
	void (*page_bounds)(struct backend *, struct tensor *bounds, const struct tensor *plane, int32_t n_kv_head,
	                    int32_t cap, int32_t page, int32_t slot0, int32_t n);
	/* Score pages as key_scan scores keys. A page's score is an upper bound of the scores of its keys. */
	void (*page_scan)(struct backend *, const struct scan_args *);
	/* Expand selected pages to their slots: slots[h][i] = page * pages[h][i / page] + i % page for i < n. If n is
	 * not a multiple of `page`, the last page's slots are cut off. slots and pages are different tensors: i32
	 * slots [n_kv_head][cols >= n], pages [n_kv_head][cols >= ceil(n / page)]. */
	void (*page_slots)(struct backend *, struct tensor *slots, const struct tensor *pages, int32_t n_kv_head,
	                   int32_t page, int32_t n);
	void (*query_drift)(struct backend *, const struct query_drift_args *);

	/* ---- sampling ---- */

	/* For each of n rows of x, write the k largest values to out, f32 [>= n][LARGEST_COLS(k)], in descending order,
	 * and after them the columns in which they are. Of equal values, the value in the lower column comes first. NaN
	 * counts as infinity, and is written as infinity. 0 < k <= LARGEST_MOST, and k <= x->cols <= LARGEST_WIDTH. */
	void (*largest)(struct backend *, struct tensor *out, const struct tensor *x, int32_t k, int32_t n);
};
/* Number of columns of the results of largest(). A row of them takes at most 4 KiB. */
#define LARGEST_COLS(k) (2 * (k))
enum { LARGEST_MOST = 511, LARGEST_WIDTH = 1 << 24 };
enum { PAGE_UNIT = 8, PAGE_MOST = 64 };
enum { SKETCH_BLOCK = 256 };
enum { ATTN_EACH_MOST = 16 }; /* maximum number of tokens that attn_each() computes together */
/* Alignment of tensors in a file: 64 KiB, the largest page size of a supported CPU */
enum { FILE_ALIGN = 64 << 10 };

struct backend {
	const struct backend_ops *ops;
	/* Set by the engine; NULL = operations cannot be cancelled. Operations poll the flag. Once the flag is not 0,
	 * they return early with undefined outputs, and the caller discards the step. */
	const backend_flag *cancel;
	/* Set by the engine, or NULL. load_weight() calls this function, from any thread, as soon as it no longer needs
	 * the n bytes at p of the mapped model file. The function may then let the operating system drop the pages of
	 * these bytes. */
	void (*host_read)(const void *p, size_t n, void *ud);
	void *host_read_ud;
	int failed;  /* 1: an operation failed and sync() has not reported it yet */
	int threads; /* number of CPU threads that compute; 1 for a device */
	/* 1: in a product, the bits of an output row do not depend on the other rows of the call */
	int rows_alone;
	int device; /* 1: tensors are in memory of a device, not in host memory */
	/* 1: prompt tokens (attn_args.prompt) attend with less precision than other tokens. With keys and values of
	 * type f32, the precision is the same. */
	int prompts_apart;
	/* Everything that results of a device depend on: "NVIDIA H100 80GB HBM3, sm_90, driver 13000, runtime 12080,
	 * plugin SIZE TIME"; "" for the CPU. SIZE is the size of the plugin's file in bytes, TIME the time of its last
	 * change. */
	char identity[200];
	char err[160]; /* the first failure, one sentence */
};

/* ---- opening ---- */

struct backend_options {
	int threads; /* number of threads of the CPU backend; 0 = one per available core */
};
/* Open a backend. `name` is "cpu"; or "cuda", which is in the plugin weir-cuda.so (plugin.c); or "auto": CUDA if it
 * opens, else the CPU. If `opt` is NULL, defaults are used. Return 0, or -1 with one sentence in err. The environment
 * variable WEIR_CPU=c|avx2|avx512|amx (on ARM: c|neon|neon-dot) limits the CPU's instruction sets to the named one and
 * slower ones. */
int backend_open(struct backend **out, const char *name, const struct backend_options *opt, char err[160]);
/* Version of the structs of this header. The program and a plugin must have the same version. Raise it with every
 * change of these structs. */
enum { BACKEND_ABI = 28 };

/* ---- computations in host memory, for every backend ---- */

/* Run fn(arg, task) once for every task in 0 .. n - 1: on the threads of a CPU backend, or on the calling thread
 * for a device. Results must not depend on which thread runs which task. */
void backend_each(struct backend *, void (*fn)(void *arg, int task), void *arg, int n);

/* One row of a 3 x 3 convolution over an image with n_in floats per pixel. For all x < n and o < n_out: out[x][o] =
 * bias[o] + the sum over dy, dx (0 .. 2) and i (0 .. n_in - 1) of in[dy][x + dx][i] * w[dy][dx][i][o].
 *
 * in[0], in[1], in[2] are the rows above, at and below the output row; NULL = a row of zeros. Each has n + 2 pixels
 * and begins one pixel to the left of the output. n_out is 16 or 32. bias NULL = zeros. The bits of an element do not
 * depend on n. */
struct conv3_args {
	float *out; /* [n][n_out] */
	const float *in[3], *w, *bias;
	int32_t n_in, n_out, n;
};
void conv_row(struct backend *, const struct conv3_args *);
/* Accumulate the gradient of conv_row() with respect to its weights; d[x][o] is the gradient with respect to
 * out[x][o]: dw[dy][dx][i][o] += sum over x of in[dy][x + dx][i] * d[x][o]. */
struct conv3_grad_args {
	float *dw; /* [3][3][n_in][n_out] */
	const float *in[3], *d;
	int32_t n_in, n_out, n;
};
void conv_row_grad(struct backend *, const struct conv3_grad_args *);

/* A product of float matrices for training: c = alpha a b, or c += alpha a b if `accumulate`. a is m x k, b is k x n,
 * c is m x n. Element (i, p) of a is a[i * a_row + p * a_col], element (p, j) of b is b[p * b_row + j * b_col],
 * element (i, j) of c is c[i * c_row + j]; so a and b may be transposed. m, n, k are 1 or more. c does not overlap a
 * or b. */
struct gemm {
	float *c;
	const float *a, *b;
	int32_t m, n, k;
	size_t a_row, a_col, b_row, b_col, c_row;
	float alpha;
	int accumulate;
};
/* Compute n_g independent products on all threads of a CPU backend. Return 0, or -1 if memory for blocks of the
 * matrices (0.5 MB per thread) cannot be allocated. */
int backend_gemm(struct backend *, const struct gemm *g, int n_g);

/* ---- instruction sets and speed of the machine ---- */

/* Return the instruction set level in use and the available ones: "avx512 (avx512, avx2, c available)". */
const char *backend_cpu_level(void);
/* Tell whether the level amx can be used: "yes", or "no, because ...". NULL on other processors than x86-64. */
const char *backend_amx(void);
/* Measure memory bandwidth: bytes per second at which `threads` threads (0 = all) read a buffer of `bytes` bytes,
 * best of several passes. Return 0 if memory cannot be allocated. */
double backend_bandwidth(int threads, uint64_t bytes);
/* Measure arithmetic: 8-bit multiply-adds per second of `threads` threads (0 = all) on registers, best of several
 * passes. Return 0 if memory cannot be allocated. */
double backend_arithmetic(int threads);

#endif
