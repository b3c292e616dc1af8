/* kernels/backend.h - the one door between the engine and the hardware.
 *
 * A backend is a table of about thirty operations at transformer granularity.  Compute calls return nothing;
 * the first failure sticks: later calls do nothing until sync() reports it, so the forward pass is a
 * straight line with one check per step.  No entry is NULL.  One thread at a time uses a backend; the
 * CPU backend has its own thread pool inside.
 *
 * On the CPU results do not depend on the number of threads, nor on how many rows (tokens) one call carries: every
 * output element is computed by the same sequence of operations whatever its neighbours are.  On a device the same calls give
 * the same bits, but a product of many tokens sums in another order than that of one. */
#ifndef WEIR_BACKEND_H
#define WEIR_BACKEND_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
typedef volatile int backend_flag;       /* C++ has no _Atomic: the same bytes, read only */
#else
typedef _Atomic int backend_flag;
#endif

enum dtype {
	DT_F32, DT_F16, DT_BF16,
	DT_Q4_0, DT_Q4_1, DT_Q5_0, DT_Q5_1, DT_Q8_0,
	DT_Q2_K, DT_Q3_K, DT_Q4_K, DT_Q5_K, DT_Q6_K,
	DT_IQ4_NL, DT_IQ4_XS,
	DT_COUNT,
	DT_I32 = DT_COUNT, DT_U8,      /* row lists and packed copies: no type of weights */
	DT_ALL
};
struct dtype_info {
	const char *name;      /* "Q4_1" */
	int32_t block;         /* values per block */
	int32_t block_bytes;
	int32_t ggml_id;       /* number of the type in GGUF files; -1 = not a type of weights */
};
const struct dtype_info *dtype_info(enum dtype);
/* Type of a GGUF number, or -1 when it is not supported; *name is its usual name, or NULL when unknown. */
int dtype_from_ggml(uint32_t ggml_id, const char **name);
/* Bytes of n values (n a multiple of the block). */
uint64_t dtype_bytes(enum dtype, uint64_t n);
/* Reference conversion of n values (a multiple of the block) to f32. */
void dtype_to_f32(enum dtype, float *out, const void *in, int64_t n);

struct tensor {            /* dense, row-major [rows][cols] */
	void *data;            /* the backend's: nobody outside kernels/ dereferences it */
	enum dtype type;
	int32_t rows, cols;
	int32_t layout;        /* the backend's: how a weight was repacked; 0 = plain rows */
};

/* One product of a group that shares its input: out = x W^T (+ bias) or out += that. */
struct matmul {
	struct tensor *out;          /* f32 [n][w->rows] */
	const struct tensor *w;      /* any type [rows][cols] */
	const struct tensor *bias;   /* f32 [1][w->rows], or NULL */
	int accumulate;              /* add to out: the residual stream */
};

/* A condition that the backend looks at by itself, when the operation's turn has come: the flag's column `col` is `is`.  So a
 * decision that the model's values make needs no answer from the device in the middle of a step. */
struct predicate {
	const struct tensor *flag;   /* i32 [1][> col]; NULL = always */
	int32_t col, is;
};

struct scan_args;
struct topk_args;
/* Rows that are found in the same call, before they are read: key_scan(), then topk(), whose rows are the part's.  Nothing
 * but one hand-over to the threads or the device instead of three. */
struct attn_choice {
	const struct scan_args *scan;
	const struct topk_args *topk;
};
/* A stretch of cached rows that is read under one rotation of the queries. */
struct attn_part {
	const struct tensor *q;      /* f32 [n][n_head * head_dim], rotated to fit these rows' keys */
	const struct tensor *rows;   /* i32 [n_kv_head][cols >= n_rows]: the rows each KV head reads; NULL = row0, row0 + 1, ... */
	const struct attn_choice *choice;   /* what fills `rows`; NULL = they are there */
	int32_t row0, n_rows;
	/* Not so: the part has no rows.  For calls of one token; such parts are not the last one only if another is there, and they
	 * lie within a probe's `skip`, which counts their rows either way. */
	struct predicate when;
};

enum reduce { REDUCE_MAX, REDUCE_MEAN, REDUCE_MEDIAN };
/* What a call's tokens looked at.  p = softmax probability of a key for one token and query head; the heads of a group (or
 * all heads of the layer) are reduced to one number, the tokens summed with their weights, in token order.
 * Column c is the c-th row that attn reads, parts one after the other. */
struct attn_probe {
	struct tensor *mass;         /* f32 [>= row + n_kv_head, or row + 1 when whole_layer][cols]: added to; or NULL */
	/* Of the same shape: what is added to is read there, and mass is only written, so that a call that fails spoils nothing.  The
	 * call's own tokens, the last n columns, begin with 0.  For calls that look; NULL = mass itself, all columns. */
	const struct tensor *from;
	int32_t mass_row;            /* the first row of both that this call takes */
	const float *weight;         /* host [n]: of each token; 0 = not looked at */
	enum reduce reduce;
	int whole_layer;
	/* How wide attention spreads: adds, over the tokens with a weight and all query heads, the number of rows that hold
	 * `share` of the probability (counted to within 2 %). */
	struct tensor *spread;         /* f32 [1][cols], or NULL */
	int32_t spread_col;
	float share;
	/* The first rows that attn reads, of which no mass is taken: column 0 is the row after them. */
	int32_t skip;
};

struct attn_args {
	struct tensor *out;          /* f32 [n][n_head * head_dim] */
	const struct tensor *k, *v;  /* one layer's planes, [n_kv_head * cap][head_dim], head-major: f16, f32, bf16 or q8_0 */
	const struct attn_part *part;
	int32_t n_part;              /* at least 1 */
	/* Every token reads all rows of all parts, but of the last part token i leaves out the last n - 1 - i: the calls' own
	 * tokens stand there. */
	int32_t n_head, n_kv_head, head_dim, cap;
	float scale;                 /* on the scores, usually 1/sqrt(head_dim) */
	const struct attn_probe *probe;   /* NULL = none */
};

/* Scores of cached keys for one token, to choose rows by.  Per query head the scores over rows 0 .. n_rows - 1 are
 * soft-maxed; the heads of a group are reduced (max or mean); the result is the natural logarithm. */
struct scan_args {
	struct tensor *out;          /* f32 [n_kv_head][cols >= n_rows (pages: >= their number)] */
	const struct tensor *q;      /* f32 [1][n_head * head_dim] */
	const struct tensor *keys;   /* a plane of keys; or its copy (key_sketch); or page bounds (page_bounds) */
	int32_t n_head, n_kv_head, head_dim, cap, n_rows;
	int32_t bits;                /* 2, 4, 8: of the copy; 16 = keys is the plane itself */
	float scale;
	enum reduce reduce;          /* REDUCE_MAX or REDUCE_MEAN */
	int raw;                     /* pages only: the largest bound of the group as it is, as Quest was published */
	struct predicate when;            /* key_scan only.  Not so: out stays as it is */
};

enum topk_order { ROW_ORDER, BEST_FIRST, FORCED_FIRST };
/* The k best of n scores per KV head.  Ties: the higher score before pooling, then the later row. */
struct topk_args {
	struct tensor *rows;         /* out, i32 [n_kv_head][cols >= k] */
	const struct tensor *score;  /* f32 [n_kv_head][cols >= n] */
	int32_t n_kv_head, n, k;     /* 0 < k <= n */
	int32_t pool;                /* max-pool over this many neighbours (odd) before choosing; 1 = none */
	int32_t first, last;         /* so many first and last rows are always among the k */
	/* BEST_FIRST: rows in descending order of score instead of ascending order of row.  FORCED_FIRST: so too, but those that are
	 * always among the k come before all others. */
	enum topk_order order;
	struct predicate when;            /* not so: rows stay as they are */
};

/* Has a layer's query turned away from the one that rows were chosen by (RefreshKV's QC)?  The mean over the query heads of row
 * q_row of q becomes row `row` of now; flag[0][col] = is its cosine with row `row` of `then` at most `least`; cosine[0][col] = that. */
struct query_drift_args {
	struct tensor *now;          /* f32 [> row][head_dim] */
	const struct tensor *q;      /* f32 [> q_row][n_head * head_dim] */
	int32_t q_row, row, n_head, head_dim;
	struct tensor *flag;         /* i32 [1][> col]; NULL = the mean is all that is asked for */
	struct tensor *cosine;       /* f32 [1][> col]; 0 where a mean is 0 */
	int32_t col;
	const struct tensor *then;   /* f32 [> row][head_dim], not now */
	double least;
};

/* Rows to copy inside a plane: for KV head h and i < n, row to = row from, its key rotated further by turn.  All are read
 * before any is written. */
struct kv_moves {
	/* i32 [>= move_row + n_kv_head][cols >= 3 * n]: from, to, turn (row of `turn`, -1 = as it is); from = -1: nothing.  Calls that
	 * follow each other, with nothing between them, are one launch on a device. */
	const struct tensor *move;
	int32_t move_row;            /* of head 0 */
	const struct tensor *shift;   /* f32 [..][dims]: cos, sin alternating per pair, as in rope(); NULL for values */
	int32_t n, n_kv_head, head_dim, dims, cap;
	int neox;
};

struct backend;
struct backend_ops {
	const char *name;            /* "cpu": also the --device argument */
	void (*close)(struct backend *);
	/* One line for people: "cpu avx512, 2 threads". */
	void (*describe)(const struct backend *, char *out, size_t cap);
	/* Bytes of its own memory that are free and that there are, at this moment; 0 and 0: it computes in the system's memory. */
	void (*memory)(const struct backend *, uint64_t *available, uint64_t *total);

	/* Memory.  These can fail at once: 0, or -1 with be->err set (and sticking).  The caller has filled in
	 * type, rows and cols.  alloc zeroes and commits the pages.  load_weight takes a weight whose plain rows lie at host
	 * (which must stay mapped until drop): as_table keeps it readable by row for embed(), otherwise it becomes the w of
	 * matmul() and may be repacked. */
	int  (*alloc)(struct backend *, struct tensor *);
	int  (*load_weight)(struct backend *, struct tensor *, const void *host, int as_table);
	void (*drop)(struct backend *, struct tensor *);
	/* Move n bytes at byte offset off; plain layouts only. */
	void (*write)(struct backend *, struct tensor *, size_t off, const void *src, size_t n);
	void (*read)(struct backend *, const struct tensor *, size_t off, void *dst, size_t n);
	/* Wait for everything enqueued: 0, or -1 with be->err set.  A failure that was reported is over: a caller for
	 * whom there was no memory does not end the others. */
	int  (*sync)(struct backend *);

	/* Rows dst_row .. of dst = rows src_row .. of src, n of them: f32, the same cols.  dst may be src; the rows do not overlap. */
	void (*copy)(struct backend *, struct tensor *dst, int32_t dst_row, const struct tensor *src, int32_t src_row, int32_t n);
	/* Rows 0 .. n of out [>= n][>= src's rows] = columns col[i] of src: f32; col is host memory, in range. */
	void (*columns)(struct backend *, struct tensor *out, const struct tensor *src, const int32_t *col, int32_t n);

	/* Transformer.  n rows (tokens) of each operand are used, from row 0; buffers may be larger. */
	/* out f32 [n][cols] = rows id[i] of table; ids are host memory, in range. */
	void (*embed)(struct backend *, struct tensor *out, const struct tensor *table, const int32_t *id, int32_t n);
	/* out = x / rms(x) * w over groups of `group` values (the whole row, or head_dim for per-head norms);
	 * w f32 [1][group].  out may be x. */
	void (*rmsnorm)(struct backend *, struct tensor *out, const struct tensor *x, const struct tensor *w,
	                int32_t group, float eps, int32_t n);
	/* n_m products of the same x f32 [n][cols]. */
	void (*matmul)(struct backend *, const struct matmul *m, int32_t n_m, const struct tensor *x, int32_t n);
	/* out[n][rows] = silu(x gate^T) * (x up^T). */
	void (*matmul_glu)(struct backend *, struct tensor *out, const struct tensor *gate, const struct tensor *up,
	                   const struct tensor *x, int32_t n);
	/* out = x [n][heads * head_dim] with the first dims of every head rotated; out may be x.  table f32 [n][dims]: cos,
	 * sin alternating per pair.  Pair j is (j, j + dims/2) when neox, else (2j, 2j + 1). */
	void (*rope)(struct backend *, struct tensor *out, const struct tensor *x, const struct tensor *table,
	             int32_t head_dim, int32_t dims, int neox, int32_t n);
	/* Rows row0.. of a plane [n_kv_head * cap][head_dim] = x f32 [n][n_kv_head * head_dim], converted to f16, f32, bf16
	 * or q8_0 (where head_dim is a multiple of 32). */
	void (*kv_put)(struct backend *, struct tensor *plane, const struct tensor *x, int32_t n_kv_head,
	               int32_t row0, int32_t n);
	void (*attn)(struct backend *, const struct attn_args *, int32_t n);

	/* Choosing rows: what the cache policies are written in. */
	/* Bytes of a copy of a plane's keys with 2, 4 or 8 bits (groups of 64 values with minimum and scale), the cols of a
	 * DT_U8 tensor of one row. */
	uint64_t (*key_sketch_bytes)(const struct backend *, int32_t n_kv_head, int32_t cap, int32_t head_dim, int32_t bits);
	/* Bring rows row0 .. row0 + n of the copy up to the plane. */
	void (*key_sketch)(struct backend *, struct tensor *copy, const struct tensor *plane, int32_t n_kv_head, int32_t cap,
	                 int32_t bits, int32_t row0, int32_t n);
	void (*key_scan)(struct backend *, const struct scan_args *);
	void (*topk)(struct backend *, const struct topk_args *);
	void (*kv_move)(struct backend *, struct tensor *plane, const struct kv_moves *);

	/* For the comparison policies quest and refresh alone. */
	/* Smallest and largest key per page of 16 rows and channel (Quest): f32 [n_kv_head * pages][2 * head_dim], pages =
	 * ceil(cap / 16).  Brings the pages of rows row0 .. row0 + n up to the plane; the last one may be partly filled. */
	void (*page_bounds)(struct backend *, struct tensor *bounds, const struct tensor *plane, int32_t n_kv_head, int32_t cap,
	                    int32_t row0, int32_t n);
	/* The same as key_scan over pages: a page's score is the most that any key inside its bounds could reach. */
	void (*page_scan)(struct backend *, const struct scan_args *);
	/* The rows of chosen pages: rows[h][i] = 16 * page[h][i / 16] + i % 16 for i < n, so the last page may be short.  i32 both;
	 * rows [n_kv_head][cols >= n], pages [n_kv_head][cols >= ceil(n / 16)], another tensor. */
	void (*page_rows)(struct backend *, struct tensor *rows, const struct tensor *pages, int32_t n_kv_head, int32_t n);
	void (*query_drift)(struct backend *, const struct query_drift_args *);
};
enum { PAGE_ROWS = 16 };

struct backend {
	const struct backend_ops *ops;
	/* Polled inside long operations; when non-zero they return early with garbage in their outputs, and the
	 * caller discards the step.  Set by the owner; NULL = never. */
	const backend_flag *cancel;
	int failed;
	int threads;                 /* CPU threads it computes with */
	char err[160];
};

struct backend_options {
	int threads;               /* 0 = one per available core */
};
/* Open "cpu" or "cuda", or by "auto" the latter where there is a device for it and else the former.  The environment variable
 * WEIR_CPU=c|avx2|avx512 hides CPU levels above the named one.  "cuda" is a plugin, weir-cuda.so (plugin.c). */
int backend_open(struct backend **out, const char *name, const struct backend_options *, char err[160]);
/* Changes with anything a plugin shares with the program: this header's tables and structs. */
enum { BACKEND_ABI = 3 };
/* "avx512 (avx512, avx2, c available)". */
const char *backend_cpu_level(void);
/* Bytes per second `threads` threads read from a buffer of that size, best of a few passes. */
double backend_bandwidth(int threads, uint64_t bytes);
/* 8-bit multiply-adds per second of `threads` threads in registers, best of a few passes. */
double backend_arithmetic(int threads);

#endif
