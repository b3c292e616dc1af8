/* kernels/backend.h - tensor operations on the CPU or a GPU behind one table of functions: the only header that engine/
 * includes.
 *
 * A backend is a table of about thirty operations at transformer granularity. No entry is NULL. One thread at a time
 * uses a backend; the CPU backend runs a thread pool of its own.
 *
 * Errors. Operations return nothing. The first failure sets be->failed and be->err; later operations do nothing until
 * sync() reports the failure and clears it. So a forward pass is straight-line code with one check per step. Operands
 * are checked on every call; "internal: ..." in be->err marks a mistake of the caller, anything else is meant for the
 * user.
 *
 * Results. On the CPU an output element is computed by the same sequence of operations whatever the number of threads
 * and the number of tokens in the call: the bits are the same. On a device the same calls give the same bits, but a
 * product of many tokens is summed in another order than a product of one.
 *
 * Words. A plane holds the keys or the values of one layer, [n_kv_head * cap][head_dim], head-major. Slot s of KV head
 * h is row h * cap + s of its planes; a KV entry is the key and the value in one slot. A group is the n_head /
 * n_kv_head query heads that share a KV head. Shapes are [rows][cols]; "host" marks memory of the caller, read before
 * the call returns. */
#ifndef WEIR_BACKEND_H
#define WEIR_BACKEND_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/macros.h"

#ifdef __cplusplus
typedef volatile int backend_flag; /* C++ has no _Atomic: the same bytes, only read there */
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
	DT_COUNT, /* types before this one can be weights */
	DT_I32 = DT_COUNT,
	DT_U8, /* lists of slots; bytes of key sketches */
	DT_TQ1_0,
	DT_TQ2_0, /* of files alone: the engine loads them as Q2_K (dtype_ternary()) */
	DT_ALL
};
struct dtype_info {
	const char *name; /* "Q4_1" */
	int32_t block;    /* values per block */
	int32_t block_bytes;
	int32_t ggml_id; /* the type's number in GGUF files; -1 = not a weight type */
};
const struct dtype_info *dtype_info(enum dtype);
/* The type with this number in GGUF files, or -1 when it is not supported. *name = its usual name, NULL when
 * unknown. */
int dtype_from_ggml(uint32_t ggml_id, const char **name);
/* Bytes of n values (n a multiple of the block). */
uint64_t dtype_bytes(enum dtype, uint64_t n);
/* Reference conversion of n values (a multiple of the block) to f32. */
void dtype_to_f32(enum dtype, float *out, const void *in, int64_t n);

/* Simple quantisers, for files that are written, tests and benchmarks: F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0. Returns
 * 0, or -1 when the type has none. */
int dtype_from_f32(enum dtype, void *out, const float *in, int64_t n);

/* -1, 0 or 1 times the scale of a block: is it such a type?  Q2_K holds its values exactly; dtype_ternary_to_q2_k() converts n of them (a
 * multiple of 256). */
int dtype_ternary(enum dtype);
void dtype_ternary_to_q2_k(enum dtype, void *out, const void *in, int64_t n);

/* Dense, row-major. The caller owns the struct and fills in type, rows and cols; alloc() and load_weight() fill in the
 * rest, and drop() releases the memory. */
struct tensor {
	void *data; /* the backend's memory: only kernels/ dereferences it */
	enum dtype type;
	int32_t rows, cols;
	int32_t layout; /* the backend's: how a weight was repacked; 0 = plain rows */
};

/* ---- arguments of operations ---- */

/* One product of a group that shares its input x [n][w->cols]: out = x W^T (+ bias), or out += the same. */
struct matmul {
	struct tensor *out;        /* f32 [>= n][w->rows] */
	const struct tensor *w;    /* any weight type [rows][cols], from load_weight() */
	const struct tensor *bias; /* f32 [1][w->rows], or NULL */
	int accumulate;            /* add to out (the residual stream) */
};

/* Of gated feed-forwards: act(gate) * up. */
enum activation {
	ACT_SILU,
	ACT_GELU,        /* by the approximation with tanh */
	ACT_SILU_CLAMPED /* g * sigmoid(1.702 g) * (u + 1) for g = gate up to 7 and u = up within -7 .. 7 */
};
#define CLAMP_LIMIT 7.0f /* of ACT_SILU_CLAMPED */
#define CLAMP_SLOPE 1.702f
/* A gated feed-forward up to its last product: weights of the same shape, biases as in struct matmul. */
struct matmul_glu {
	const struct tensor *gate, *up, *gate_bias, *up_bias;
	enum activation act;
};

/* Short convolution of each column over the tokens: sum over k < taps of w[k] u[token - taps + 1 + k], summed in this
 * order. The u before the first token are those of the state. Gated (LFM2): u = B * x, out = C * the sum; else out =
 * silu(the sum). */
struct short_conv {
	struct tensor *out;         /* f32 [>= n][cols] */
	const struct tensor *in;    /* f32 [>= n][3 * cols]: B, C and x of a token, which is gated; [>= n][cols]: u */
	const struct tensor *w;     /* f32 [cols][taps] */
	const struct tensor *bias;  /* f32 [1][cols], added to the sum where that is not gated; NULL = none */
	const struct tensor *state; /* f32 [taps - 1][cols]: u of the tokens before, the oldest first */
	struct tensor *next;        /* the same after the n tokens; not the same tensor as state */
	int32_t taps;               /* 2 or more */
};

/* Predicate evaluated on the device when the operation runs; avoids a host round trip. It holds where the flag's column
 * `col` equals `is`. */
struct predicate {
	const struct tensor *flag; /* i32 [1][> col]; NULL = the predicate always holds */
	int32_t col, is;
};

struct scan_args;
struct topk_args;
/* Selects the slots of a part in the same call that attends to them: key_scan(scan), then topk(topk), which writes the
 * part's `slots`. One hand-over to the threads or the device instead of three. scan->out is topk->score. */
struct attn_selection {
	const struct scan_args *scan;
	const struct topk_args *topk;
};

/* Slots that are attended to with one rotation of the queries. */
struct attn_part {
	const struct tensor *q; /* f32 [>= n][n_head * head_dim], rotated to match the keys in these slots */
	/* i32 [n_kv_head][cols >= n_slots]: the slots of each KV head; NULL = slot0, slot0 + 1, ... */
	const struct tensor *slots;
	const struct attn_selection *selection; /* selects `slots` in this call; NULL = `slots` are given */
	/* f32 [n_kv_head][cols >= n_slots], added to the scores of the slots, for a list: a slot with -log(p) stands
	 * for 1 / p slots like it. NULL = nothing. One list of a call at most has one. */
	const struct tensor *bias;
	/* Planes of the part's own, alike but for their number of slots: its list counts in them. For a list that is
	 * given, on the CPU alone; NULL = the call's. */
	const struct tensor *k, *v;
	int32_t cap;     /* of these */
	int32_t slot0;   /* first slot, when slots is NULL */
	int32_t n_slots; /* of the part */
	int32_t sample;  /* the last so many of a list stand for slots that are not in it (topk_args) */
	/* If false, the part is skipped. One-token calls of at most 16 parts only. The slots of such parts must lie
	 * within the `skip` of a probe, which counts them whether they are skipped or not; one part at least must
	 * remain. */
	struct predicate when;
};

/* Gated delta rule: a value head has a state S [key_dim][value_dim], which each token decays and corrects at its key:
 *
 *     S = exp(decay * softplus(alpha + dt)) S      S += k (sigmoid(beta) (v - S^T k))^T      out = S^T q / sqrt(key_dim)
 *
 * with q and k of length 1. Value head h has the query and the key of head h % n_key_head, or with `grouped` those of
 * head h / (n_value_head / n_key_head). */
struct delta_rule {
	struct tensor *out;                /* f32 [>= n][n_value_head * value_dim] */
	const struct tensor *qkv;          /* f32 [>= n][n_key_head * key_dim, twice, + n_value_head * value_dim] */
	const struct tensor *alpha, *beta; /* f32 [>= n][n_value_head] */
	const struct tensor *decay, *dt;   /* f32 [1][n_value_head]; decay < 0 */
	const struct tensor *state;        /* f32 [n_value_head * key_dim][value_dim] */
	struct tensor *next;               /* the same after the n tokens; not the same tensor as state */
	int32_t n_key_head, n_value_head, key_dim, value_dim; /* key_dim at most DELTA_KEY */
	int grouped;
};
enum { DELTA_KEY = 256 };

/* State space (Mamba-2): a head has a state S [state_dim][head_dim], which each token decays and adds to, with dt =
 * softplus(step + bias):
 *
 *     S = exp(decay * dt) S + b (dt x)^T           out = S^T c + skip * x
 *
 * Head h has the b and the c of group h / (n_head / n_group). */
struct state_space {
	struct tensor *out;                       /* f32 [>= n][n_head * head_dim] */
	const struct tensor *xbc;                 /* f32 [>= n][n_head * head_dim + 2 * n_group * state_dim]: x, b, c */
	const struct tensor *step;                /* f32 [>= n][n_head] */
	const struct tensor *decay, *bias, *skip; /* n_head values of f32 each; decay < 0 */
	const struct tensor *state;               /* f32 [n_head * state_dim][head_dim] */
	struct tensor *next;                      /* the same after the n tokens; not the same tensor as state */
	int32_t n_head, n_group, state_dim, head_dim; /* state_dim at most DELTA_KEY */
};

enum gate_kind { GATE_SILU, GATE_SIGMOID, GATE_GELU };

enum reduce { REDUCE_MAX, REDUCE_MEAN, REDUCE_MEDIAN };

/* Measures attention during attn(): where it went (mass) and how wide it spread. p is the softmax probability of a slot
 * for one token and query head. Column c stands for the c-th slot that the call reads, parts in order, after the `skip`
 * first ones. */
struct attn_probe {
	/* Attention mass: f32 [>= mass_row + n_kv_head, or mass_row + 1 when whole_layer][cols >= slots - skip], or
	 * NULL. Per token the p of a group's heads (or of all heads of the layer) are reduced to one number, which is
	 * added times weight[token], in token order. */
	struct tensor *mass;
	/* Where the sums start, the same shape as mass and not mass; mass is then only written, so a call that fails
	 * spoils nothing. The call's own tokens, the last n columns, start at 0. NULL = sums start from mass itself, in
	 * all columns. */
	const struct tensor *from;
	int32_t mass_row;    /* the first row of mass and from that this call uses */
	const float *weight; /* host [n]: weight of each token; 0 = the token is not measured */
	enum reduce reduce;  /* over at most 256 heads */
	int whole_layer;     /* reduce over all heads of the layer, into one row */
	/* Spread of attention: spread[0][spread_col] += the number of slots that hold `share` of the probability,
	 * summed over measured tokens and query heads (exact to 2 %). f32 [1][> spread_col], or NULL. */
	struct tensor *spread;
	int32_t spread_col;
	float share; /* 0 .. 1 */
	/* leading slots of the call without a column in mass; they still count in spread */
	int32_t skip;
};

struct attn_args {
	struct tensor *out;           /* f32 [>= n][n_head * head_dim] */
	const struct tensor *k, *v;   /* one layer's planes, both f16, f32, bf16 or q8_0 */
	const struct attn_part *part; /* [n_part] */
	int32_t n_part;               /* at least 1 */
	/* The call's own tokens lie in the last n slots of the last part. Causal mask: of these, token i does not see
	 * the last n - 1 - i; every token sees all other slots of all parts. */
	int32_t n_head, n_kv_head, head_dim, cap;
	float scale;   /* of q . k before the softmax, usually 1/sqrt(head_dim) */
	float softcap; /* scores become softcap * tanh(score / softcap); 0 = as they are */
	/* Tokens that a query attends to, its own included: the last so many slots up to its own, those of all parts
	 * counted in order. No lists. 0 = all. */
	int32_t window;
	/* f32 [1][n_head]: one more score per query head that takes its share of the softmax and adds no value; NULL =
	 * none. */
	const struct tensor *sinks;
	const struct attn_probe *probe; /* NULL = none */
	/* The tokens are of a prompt: a backend may multiply in narrower arithmetic, where prompts_apart says that it
	 * does. What a token gets then depends, as without it, neither on the call's other tokens nor on the number of
	 * threads. */
	int prompt;
	/* Which blocks each query reads, as read_blocks() writes it; the first one and that of its own token always.
	 * The keys of the others count as if they were not there. For one part without a list, from slot 0 on, and no
	 * window. NULL = everything. */
	const struct tensor *blocks;
};

/* Selects what each query of a prompt's tokens reads, blocks of READ_BLOCK slots, by an estimate of its attention. A
 * query reads the block that its token is in, the one before and the first one. Of the others it reads those with the
 * largest estimates, as many as bring the estimates of all that it reads to `share` of the sum of all estimates; blocks
 * of one eighth of an octave are read together.
 *
 * Estimates: exp(scale * q . k) for each of the first READ_FIRST slots; for the rest of a block the same for the key
 * that is farthest from their mean, plus n exp(m + v / 2) for the n others, m and v being mean and variance that their
 * scores would have if dimensions were independent and normal. Where v / 2 > log n, no more than n of them decide the
 * sum: exp(m + sqrt(2 v log n)) (Derrida's random energy model, 1981). The token's own block has none. Where an
 * estimate is not finite, a query reads everything. What a query reads depends on itself and on the keys before it, and
 * on nothing else of the call.
 *
 * Published methods estimate blocks of a prefill from pooled keys, too, for blocks of queries: MInference (2024),
 * SeerAttention (2024), XAttention (2025). Here each query has its own set, so that a token's result needs no token
 * behind it. */
struct read_blocks_args {
	/* u8 [>= n][n_head * bytes], bytes the same for each head: bit b % 8 of byte b / 8: block b is read */
	struct tensor *out;
	const struct tensor *q;    /* f32 [>= n][n_head * head_dim], rotated */
	const struct tensor *keys; /* a plane; the n tokens are in the last n of its slots 0 .. n_slots - 1 */
	int32_t n_head, n_kv_head, head_dim, cap, n_slots;
	float scale; /* of q . k */
	float share; /* 0 .. 1 */
};
enum { READ_BLOCK = 64, READ_FIRST = 4 };

/* Scans the keys of one layer for one token, to select slots by. Per query head softmax of scale * q . k over slots 0
 * .. n_slots - 1; a group's probabilities are reduced to one; out = its natural logarithm. page_scan: the same over
 * pages. */
struct scan_args {
	struct tensor *out;        /* f32 [n_kv_head][cols >= n_slots; page_scan: cols >= ceil(n_slots / page)] */
	const struct tensor *q;    /* f32 [>= 1][n_head * head_dim] */
	const struct tensor *keys; /* a plane of keys, its sketch (key_sketch), or page bounds (page_bounds) */
	int32_t n_head, n_kv_head, head_dim, cap, n_slots;
	int32_t bits;       /* keys are a sketch of 2, 4 or 8 bits, or 16 = the plane; page_scan ignores it */
	float scale;        /* >= 0 */
	enum reduce reduce; /* REDUCE_MAX or REDUCE_MEAN */
	int32_t page;       /* page_scan: slots a page */
	/* page_scan: no softmax, out = the largest bound of the group (Quest as published) */
	int raw;
	struct predicate when; /* key_scan: if false, out is left unchanged */
};

/* Brings KV entries from planes in host memory (alloc_host) to rows of smaller planes: row r of KV head h is row h *
 * rows + r of these. An entry that is there already stays in its row. The others go to rows whose entries were not
 * wanted for longest, as a clock tells: rows without an entry and those that neither this call nor the one before
 * wanted come first, from behind the row that was filled last. A call's own rows are not replaced; a call ahead
 * replaces none but those that come first. */
struct fetch_args {
	struct tensor *k, *v;                 /* the rows: [n_kv_head * rows][head_dim] */
	const struct tensor *from_k, *from_v; /* [n_kv_head * cap][head_dim], of the same type */
	/* i32 [n_kv_head][fetch_map_cols(cap, rows)]: which slot is in which row. Zeros: none is. Zeros in columns
	 * FETCH_AT + slot: that slot is not, whatever was. */
	struct tensor *map;
	const struct tensor *slots; /* i32 [n_kv_head][cols >= n]: the wanted entries, each once */
	struct tensor *list;        /* out, i32 [n_kv_head][cols >= n]: their rows; unused with `ahead` */
	/* i32 [>= count_row + n_kv_head][FETCH_COUNTS]: what was wanted and what was brought is added. */
	struct tensor *count;
	int32_t count_row;
	int32_t n_kv_head, cap, rows, n; /* n <= rows */
	/* 1: the entries will be wanted later: as many are brought as there are rows that may be replaced. Operations
	 * that follow do not wait for it, and must use neither k, v, map nor count before fetch_wait(), nor write
	 * `slots`. */
	int ahead;
};
/* wanted and brought by calls that are not ahead; brought ahead */
enum { FETCH_COUNT_WANTED, FETCH_COUNT_BROUGHT, FETCH_COUNT_AHEAD, FETCH_COUNTS };
/* columns of a map: numbers of a KV head, then the row of each slot, from 1 */
enum { FETCH_CALLS, FETCH_HAND, FETCH_MISSED, FETCH_AT };
static inline int64_t fetch_map_cols(int32_t cap, int32_t rows)
{
	/* of each row the slot, from 1, and the call that wanted it; slots and rows of a call */
	return FETCH_AT + (int64_t)cap + 4 * (int64_t)rows;
}

enum topk_order { SLOT_ORDER, BEST_FIRST, FORCED_FIRST };
/* Selects the k slots with the highest scores per KV head. Ties: the higher score before pooling, then the later slot.
 * A NaN ranks lowest. */
struct topk_args {
	struct tensor *slots;       /* out, i32 [n_kv_head][cols >= k + sample] */
	const struct tensor *score; /* f32 [n_kv_head][cols >= n] */
	int32_t n_kv_head, n, k;    /* 0 < k <= n */
	int32_t pool;               /* max-pool scores over this many neighbours (odd) first; 1 = no pooling */
	int32_t first, last;        /* this many first and last slots are forced: always among the k */
	/* SLOT_ORDER: ascending slots. BEST_FIRST: descending scores. FORCED_FIRST: forced slots, then the others, each
	 * by descending score. */
	enum topk_order order;
	struct predicate when; /* if false, slots are left unchanged */
	/* A sample of the slots that are not among the k, behind them: up to `sample` slots, each taken with a
	 * probability in proportion to exp(score) (to 1 in 1,000), 1 at most: an unbiased estimate of what the others
	 * add to attention, without random numbers. bias, f32 [n_kv_head][cols >= k + sample]: 0 for the k,
	 * -log(probability) for a sampled slot, and SAMPLE_NONE where there are fewer. SLOT_ORDER, without pool or
	 * `when`. sample 0: neither. */
	int32_t sample;
	struct tensor *bias;
};
#define SAMPLE_NONE (-1e30f)

/* Moves KV entries inside a plane: for KV head h and i < n, slot `to` = slot `from`. All slots are read before any is
 * written; of two moves to one slot the later one wins. */
struct kv_moves {
	/* i32 [>= move_row + n_kv_head][cols >= 3 * n]: per move `from`, `to` and the row of `shift` to rotate by (-1 =
	 * none); from = -1: no move. The CPU refuses a move out of the plane; a device, which alone can read the list,
	 * leaves it out. kv_move calls that directly follow each other share a launch on a device. */
	const struct tensor *move;
	int32_t move_row; /* row of KV head 0 */
	/* RoPE shifts of keys, f32 [..][dims]: cos, sin per pair, as in rope(); NULL for values */
	const struct tensor *shift;
	int32_t n, n_kv_head, head_dim, dims, cap;
	int neox; /* pairs as in rope() */
};

/* Has a layer's query drifted since its slots were selected (RefreshKV's QC)? The mean over the query heads of row
 * q_row of q is written to row `row` of `now`; cosine[0][col] = its cosine with row `row` of `then`; flag[0][col] =
 * cosine <= least. */
struct query_drift_args {
	struct tensor *now;     /* f32 [> row][head_dim] */
	const struct tensor *q; /* f32 [> q_row][n_head * head_dim] */
	int32_t q_row, row, n_head, head_dim;
	struct tensor *flag;   /* i32 [1][> col]; NULL = only compute the mean */
	struct tensor *cosine; /* f32 [1][> col]; 0 where a mean is zero.  Unused without flag */
	int32_t col;
	const struct tensor *then; /* f32 [> row][head_dim], not `now`: the mean at selection.  Unused without flag */
	double least;              /* cosines up to this one set the flag */
};

/* ---- the table ---- */

/* What a model may ask of a backend and not every backend computes: bits of `lacks`. */
enum {
	LACKS_WINDOW = 1 << 0,  /* attn_args.window */
	LACKS_SOFTCAP = 1 << 1, /* attn_args.softcap */
	LACKS_SINKS = 1 << 2,   /* attn_args.sinks */
	LACKS_CLAMPED = 1 << 3, /* ACT_SILU_CLAMPED, and biases of a matmul_glu */
	LACKS_MXFP4 = 1 << 4,   /* weights of DT_MXFP4 */
	LACKS_BLOCKS = 1 << 5,  /* read_blocks(), attn_args.blocks */
};

struct backend;
struct backend_ops {
	const char *name; /* "cpu", "cuda": the argument of --device */
	unsigned lacks;   /* operations that ask for these fail */
	/* Release the backend; every tensor must have been dropped. */
	void (*close)(struct backend *);
	/* One line for people: "cpu avx512, 2 threads". */
	void (*describe)(const struct backend *, char *out, size_t cap);
	/* Bytes of the device's memory, free now and in total.  Both 0: the backend computes in host memory. */
	void (*memory)(const struct backend *, uint64_t *available, uint64_t *total);

	/* ---- memory ---- */

	/* Allocate t by its type, rows and cols: plain layout, zeroed, pages committed. 0, or -1 with the error set at
	 * once. */
	int (*alloc)(struct backend *, struct tensor *t);
	/* The same in a file's bytes from `off` (a multiple of FILE_ALIGN) on, which are zero and whose disk space is
	 * reserved: a shared mapping, whose pages the system writes to the file. A backend that computes in a device's
	 * memory refuses. */
	int (*alloc_file)(struct backend *, struct tensor *t, int fd, uint64_t off);
	/* Bytes off .. off + n of such a tensor need not be in the process's memory: its resident set shrinks by
	 * their pages, the contents stay, and the next access brings them back from the system's page cache or from
	 * the disk. */
	void (*give_back)(struct backend *, const struct tensor *t, size_t off, size_t n);
	/* Like alloc(), in memory of the host that a device reads and writes: every operation takes such a tensor, and
	 * is slower with it. On the CPU the same as alloc(). */
	int (*alloc_host)(struct backend *, struct tensor *t);
	/* Load a weight whose plain rows lie in host memory, which must stay mapped until drop(). as_table: embed()
	 * can read single rows of t; else t is a `w` of matmul() and may be repacked. 0, or -1 with the error set at
	 * once. */
	int (*load_weight)(struct backend *, struct tensor *t, const void *host, int as_table);
	void (*drop)(struct backend *, struct tensor *t);
	/* Copy n bytes at byte offset off of t from or to host memory; plain layouts only. read waits for earlier
	 * operations; after a failure dst is left unchanged. */
	void (*write)(struct backend *, struct tensor *t, size_t off, const void *src, size_t n);
	void (*read)(struct backend *, const struct tensor *t, size_t off, void *dst, size_t n);
	/* Wait for all operations. 0, or -1 with be->err set; the failure is cleared, the backend can be used again. */
	int (*sync)(struct backend *);

	/* ---- rows ---- */

	/* Rows dst_row .. dst_row + n of dst = rows src_row .. of src: f32, the same cols. dst may be src where the
	 * rows do not overlap. */
	void (*copy)(struct backend *, struct tensor *dst, int32_t dst_row, const struct tensor *src, int32_t src_row,
	             int32_t n);
	/* Row i < n of out f32 [>= n][>= src->rows] = column col[i] of src, f32.  col is host memory, within src. */
	void (*columns)(struct backend *, struct tensor *out, const struct tensor *src, const int32_t *col, int32_t n);

	/* ---- transformer: the first n rows (tokens) of each operand are used; buffers may be larger ---- */

	/* out f32 [n][cols] = rows id[i] of table.  id is host memory; an id outside of the table is an error. */
	void (*embed)(struct backend *, struct tensor *out, const struct tensor *table, const int32_t *id, int32_t n);
	/* out = x / rms(x) * w over groups of `group` values (a whole row, or head_dim for norms per head); w f32
	 * [1][group], or [1][cols] where each group has weights of its own. out may be x. */
	void (*rmsnorm)(struct backend *, struct tensor *out, const struct tensor *x, const struct tensor *w,
	                int32_t group, float eps, int32_t n);
	/* y = a x + b y, f32 of the same cols; x may be y.  b = 0: y is only written. */
	void (*axpby)(struct backend *, struct tensor *y, float a, const struct tensor *x, float b, int32_t n);
	/* n_m products of the same x f32 [n][cols]. */
	void (*matmul)(struct backend *, const struct matmul *m, int32_t n_m, const struct tensor *x, int32_t n);
	/* out f32 [n][gate->rows] = act(x gate^T + bias) * (x up^T + bias). */
	void (*matmul_glu)(struct backend *, struct tensor *out, const struct matmul_glu *, const struct tensor *x,
	                   int32_t n);
	/* Row i of out = row row[i] of x, i < n; f32 of the same cols, not the same tensor. row is host memory, within
	 * x. */
	void (*take_rows)(struct backend *, struct tensor *out, const struct tensor *x, const int32_t *row, int32_t n);
	/* Row row[i] of out += weight[i] * row i of x, for i = 0 .. n - 1 in this order; f32 of the same cols. row and
	 * weight are host memory, row within out. */
	void (*add_rows)(struct backend *, struct tensor *out, const struct tensor *x, const int32_t *row,
	                 const float *weight, int32_t n);
	void (*short_conv)(struct backend *, const struct short_conv *, int32_t n);
	void (*delta_rule)(struct backend *, const struct delta_rule *, int32_t n);
	void (*state_space)(struct backend *, const struct state_space *, int32_t n);
	/* x *= silu(gate), sigmoid(gate) or gelu(gate); f32 of the same cols, not the same tensor. gate may be
	 * overwritten. */
	void (*gate)(struct backend *, struct tensor *x, struct tensor *gate, enum gate_kind, int32_t n);
	/* out = x f32 [n][heads * head_dim] with the first dims of every head rotated; out may be x. table f32
	 * [n][dims]: cos, sin per pair. Pair j is (j, j + dims / 2) when neox, else (2 j, 2 j + 1). */
	void (*rope)(struct backend *, struct tensor *out, const struct tensor *x, const struct tensor *table,
	             int32_t head_dim, int32_t dims, int neox, int32_t n);
	/* Write x f32 [n][n_kv_head * head_dim] to slots slot0 .. slot0 + n of a plane, converted to its type: f16,
	 * f32, bf16 or q8_0 (head_dim a multiple of 32). */
	void (*kv_put)(struct backend *, struct tensor *plane, const struct tensor *x, int32_t n_kv_head, int32_t slot0,
	               int32_t n);
	/* Attention of n tokens. */
	void (*attn)(struct backend *, const struct attn_args *, int32_t n);
	/* n calls of attn() with one token each, over the same planes and with outputs, lists and scores of their own,
	 * in this order and bit for bit. The CPU reads what they share once. */
	void (*attn_each)(struct backend *, const struct attn_args *a, int32_t n);
	/* What n tokens of a prompt read. */
	void (*read_blocks)(struct backend *, const struct read_blocks_args *, int32_t n);

	/* ---- selection and moves: what cache policies are written in ---- */

	/* A key sketch holds a plane's keys with 2, 4 or 8 bits per value and a scale per key (key_sketch.h). What it
	 * has of a slot changes once more when all slots of its block, SKETCH_BLOCK from a multiple of that on, are
	 * there. Bytes of one: the cols of a DT_U8 tensor of one row. 0 = no such sketch. */
	uint64_t (*key_sketch_bytes)(const struct backend *, int32_t n_kv_head, int32_t cap, int32_t head_dim,
	                             int32_t bits);
	/* Slots slot0 .. slot0 + n of the plane, its last ones, were written: bring the sketch up to date. The sketch
	 * depends on the keys up to there alone, not on the steps in which they came. */
	void (*key_sketch)(struct backend *, struct tensor *sketch, const struct tensor *plane, int32_t n_kv_head,
	                   int32_t cap, int32_t bits, int32_t slot0, int32_t n);
	void (*key_scan)(struct backend *, const struct scan_args *);
	void (*topk)(struct backend *, const struct topk_args *);
	void (*kv_move)(struct backend *, struct tensor *plane, const struct kv_moves *);

	/* ---- KV entries in host memory ---- */

	/* Slots slot0 .. slot0 + n of each head of plane `to` = those of `from`, which has the same shape and type. */
	void (*fetch_rows)(struct backend *, struct tensor *to, const struct tensor *from, int32_t n_kv_head,
	                   int32_t cap, int32_t slot0, int32_t n);
	void (*fetch_slots)(struct backend *, const struct fetch_args *);
	/* Later operations come after all that was fetched ahead. */
	void (*fetch_wait)(struct backend *);

	/* ---- for the comparison policies quest and refresh ---- */

	/* Pages are `page` consecutive slots each, a multiple of PAGE_UNIT up to PAGE_MOST. Smallest and largest key
	 * per page and dimension: f32 [n_kv_head * pages][2 * head_dim], minima then maxima, pages = ceil(cap / page).
	 * Updates the pages of slots slot0 .. slot0 + n; the last one may be partly filled. */
	void (*page_bounds)(struct backend *, struct tensor *bounds, const struct tensor *plane, int32_t n_kv_head,
	                    int32_t cap, int32_t page, int32_t slot0, int32_t n);
	/* As key_scan, over pages: a page's score is the most that a key within its bounds can reach. */
	void (*page_scan)(struct backend *, const struct scan_args *);
	/* Slots of selected pages: slots[h][i] = page * pages[h][i / page] + i % page for i < n, so the last page may
	 * be short. Both i32: slots [n_kv_head][cols >= n], pages [n_kv_head][cols >= ceil(n / page)], not the same
	 * tensor. */
	void (*page_slots)(struct backend *, struct tensor *slots, const struct tensor *pages, int32_t n_kv_head,
	                   int32_t page, int32_t n);
	void (*query_drift)(struct backend *, const struct query_drift_args *);
};
enum { PAGE_UNIT = 8, PAGE_MOST = 64 };
enum { SKETCH_BLOCK = 256 };
enum { ATTN_EACH_MOST = 16 }; /* tokens of one attn_each() that go together */
/* of tensors in a file: the largest page of a CPU, and what Linux maps at a time around a page that is read */
enum { FILE_ALIGN = 64 << 10 };

struct backend {
	const struct backend_ops *ops;
	/* Polled inside long operations: once it is not 0 they return early with garbage in their outputs, and the
	 * caller discards the step. The owner sets it; NULL = never cancelled. */
	const backend_flag *cancel;
	/* Called by load_weight(), from any thread, with bytes of `host` that it has read. The owner sets it; NULL =
	 * nobody wants to know. */
	void (*host_read)(const void *p, size_t n, void *ud);
	void *host_read_ud;
	int failed;  /* an operation failed and sync() has not reported it yet */
	int threads; /* CPU threads that compute; 1 on a device */
	/* 1: a row of a product has the bits that it has alone, whatever rows come with it */
	int rows_alone;
	int device;        /* 1: computes in memory of its own, not in the host's */
	int prompts_apart; /* 1: attn_args.prompt changes the bits of results, except with planes of f32 */
	char err[160];     /* the first failure: one sentence */
};

/* ---- opening ---- */

struct backend_options {
	int threads; /* of the CPU backend; 0 = one per available core */
};
/* Open "cpu" or "cuda"; "auto" opens CUDA where it works and the CPU else. 0, or -1 with one sentence in err. opt NULL
 * = defaults. The environment variable WEIR_CPU=c|avx2|avx512 (on ARM c|neon|neon-dot) hides the CPU levels above the
 * named one. "cuda" lives in a plugin, weir-cuda.so (plugin.c). */
int backend_open(struct backend **out, const char *name, const struct backend_options *opt, char err[160]);
/* Version of what a plugin shares with the program: the tables and structs of this header. Changes with any of them. */
enum { BACKEND_ABI = 20 };

/* ---- on the host, whatever a backend computes in: state that never leaves host memory ---- */

/* Run fn(arg, task) once for every task in 0 .. n - 1, on the threads of a CPU backend; for a device, on the calling
 * thread. Results must not depend on which thread runs which task. */
void backend_each(struct backend *, void (*fn)(void *arg, int task), void *arg, int n);

/* One row of a 3 x 3 convolution over an image whose pixels are n_in floats:
 *
 *     out[x][o] = bias[o] + sum over dy, dx, i of in[dy][x + dx][i] * w[dy][dx][i][o]        x < n, o < n_out
 *
 * in[dy]: the rows above, at and below the one that is computed, n + 2 pixels each, from the one left of pixel 0 on;
 * NULL = zeros. n_out is 16 or 32; bias NULL = zeros. An element is summed in this order and has the same bits whatever
 * n is. */
struct conv3_args {
	float *out; /* [n][n_out] */
	const float *in[3], *w, *bias;
	int32_t n_in, n_out, n;
};
void conv_row(struct backend *, const struct conv3_args *);
/* The gradient of a sum of which d[x][o] is the gradient by out[x][o]: dw[dy][dx][i][o] += sum over x of in[dy][x +
 * dx][i] * d[x][o]. */
struct conv3_grad_args {
	float *dw; /* [3][3][n_in][n_out] */
	const float *in[3], *d;
	int32_t n_in, n_out, n;
};
void conv_row_grad(struct backend *, const struct conv3_grad_args *);

/* A product of float matrices for training, c = alpha a b, or c += the same where `accumulate`:
 *
 *     c[i * c_row + j] = alpha * sum over p of a[i * a_row + p * a_col] * b[p * b_row + j * b_col]        i < m, j < n, p < k
 *
 * Either matrix may lie transposed. m, n, k at least 1; c does not overlap a or b. */
struct gemm {
	float *c;
	const float *a, *b;
	int32_t m, n, k;
	size_t a_row, a_col, b_row, b_col, c_row;
	float alpha;
	int accumulate;
};
/* n_g products, none of which needs what another one writes, on all threads of a CPU backend. 0; -1: there is no memory
 * for the copies of blocks (0.5 MB a thread). */
int backend_gemm(struct backend *, const struct gemm *g, int n_g);

/* ---- what the machine can do ---- */

/* The CPU level in use and those available: "avx512 (avx512, avx2, c available)". */
const char *backend_cpu_level(void);
/* Bytes per second at which `threads` threads (0 = all) read a buffer of `bytes`, best of several passes; 0 without
 * memory. */
double backend_bandwidth(int threads, uint64_t bytes);
/* 8-bit multiply-adds per second of `threads` threads (0 = all) in registers, best of several passes; 0 without
 * memory. */
double backend_arithmetic(int threads);

#endif
