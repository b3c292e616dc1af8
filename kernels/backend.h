/* kernels/backend.h - the one door between the engine and the hardware.
 *
 * A backend is a table of about twenty operations at transformer granularity.  Compute calls return nothing;
 * the first failure sticks: later calls do nothing until sync() reports it, so the forward pass is a
 * straight line with one check per step.  No entry is NULL.  One thread at a time uses a backend; the
 * CPU backend has its own thread pool inside.
 *
 * Results do not depend on the number of threads, nor on how many rows (tokens) one call carries: every
 * output element is computed by the same sequence of operations whatever its neighbours are. */
#ifndef WEIR_BACKEND_H
#define WEIR_BACKEND_H

#include <stddef.h>
#include <stdint.h>

enum dtype {
	DT_F32, DT_F16, DT_BF16,
	DT_Q4_0, DT_Q4_1, DT_Q5_0, DT_Q5_1, DT_Q8_0,
	DT_Q2_K, DT_Q3_K, DT_Q4_K, DT_Q5_K, DT_Q6_K,
	DT_IQ4_NL, DT_IQ4_XS,
	DT_COUNT
};
struct dtype_info {
	const char *name;      /* "Q4_1" */
	int32_t block;         /* values per block */
	int32_t block_bytes;
	int32_t ggml_id;       /* number of the type in GGUF files */
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

struct attn_args {
	struct tensor *out;          /* f32 [n][n_head * head_dim] */
	const struct tensor *q;      /* f32 [n][n_head * head_dim], rotated */
	const struct tensor *k, *v;  /* one layer's planes, f16 or f32: [n_kv_head * cap][head_dim], head-major */
	int32_t n_head, n_kv_head, head_dim, cap;
	int32_t n_past;              /* rows before this call's tokens; token i reads rows 0 .. n_past + i */
	float scale;                 /* on the scores, usually 1/sqrt(head_dim) */
};

struct backend;
struct backend_ops {
	const char *name;            /* "cpu": also the --device argument */
	void (*close)(struct backend *);
	/* One line for people: "cpu avx512, 2 threads". */
	void (*describe)(const struct backend *, char *out, size_t cap);

	/* Memory.  These can fail at once: 0, or -1 with be->err set (and sticking).  The caller has filled in
	 * type, rows and cols.  alloc zeroes and commits the pages.  adopt takes a weight whose plain rows lie at host
	 * (which must stay mapped until drop): as_table keeps it readable by row for embed(), otherwise it becomes the w of
	 * matmul() and may be repacked. */
	int  (*alloc)(struct backend *, struct tensor *);
	int  (*adopt)(struct backend *, struct tensor *, const void *host, int as_table);
	void (*drop)(struct backend *, struct tensor *);
	/* Move n bytes at byte offset off; plain layouts only. */
	void (*write)(struct backend *, struct tensor *, size_t off, const void *src, size_t n);
	void (*read)(struct backend *, const struct tensor *, size_t off, void *dst, size_t n);
	/* Wait for everything enqueued: 0, or -1 with be->err set.  A failure that was reported is over: a caller for
	 * whom there was no memory does not end the others. */
	int  (*sync)(struct backend *);

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
	/* Rotate the first dims of every head of x [n][heads * head_dim] in place.  table f32 [n][dims]: cos, sin
	 * alternating per pair.  Pair j is (j, j + dims/2) when neox, else (2j, 2j + 1). */
	void (*rope)(struct backend *, struct tensor *x, const struct tensor *table, int32_t head_dim, int32_t dims,
	             int neox, int32_t n);
	/* Rows row0.. of a plane [n_kv_head * cap][head_dim] = x f32 [n][n_kv_head * head_dim], converted. */
	void (*kv_put)(struct backend *, struct tensor *plane, const struct tensor *x, int32_t n_kv_head,
	               int32_t row0, int32_t n);
	void (*attn)(struct backend *, const struct attn_args *, int32_t n);
};

struct backend {
	const struct backend_ops *ops;
	/* Polled inside long operations; when non-zero they return early with garbage in their outputs, and the
	 * caller discards the step.  Set by the owner; NULL = never. */
	const _Atomic int *cancel;
	int failed;
	int threads;                 /* CPU threads it computes with */
	char err[160];
};

struct backend_options {
	int threads;               /* 0 = one per available core */
};
/* Open "cpu".  The environment variable WEIR_CPU=c|avx2|avx512 hides CPU levels above the named one. */
int backend_open(struct backend **out, const char *name, const struct backend_options *, char err[160]);
/* "avx512 (avx512, avx2, c available)". */
const char *backend_cpu_level(void);
/* Bytes per second `threads` threads read from a buffer of that size, best of a few passes. */
double backend_bandwidth(int threads, uint64_t bytes);

#endif
