/* kernels/cpu/cpu.h (private to kernels/cpu/) - declarations that the files of the CPU backend share:
 * - cpu.c: opening, errors, the table of operations.
 * - mem.c: memory, weights and their repacking.
 * - rows.c: operations on single rows (embed, norms, rotations, cache writes).
 * - matmul.c: products. cols.c arranges their quantised input. amx.c: leaf functions of the level amx.
 * - attn.c: attention. probe.c also measures the attention that each slot gets.
 * - read_blocks.c: selects the blocks of keys that a prompt's queries read.
 * - key_sketch.c, scan.c, topk.c: selection of slots (select.h). fused_select_attn.c: selection and attention in one
 *   run of the thread pool.
 * - kv_move.c: moves KV entries inside a plane. fetch.c: copies KV entries from host memory.
 * - recurrent.c: short convolutions, gated delta rule, state spaces, gates.
 * - compare.c: operations of the comparison policies.
 * - host.c: tasks and convolutions in host memory, also for device backends. gemm.c: products of float matrices.
 *
 * These files decide which thread computes what; leaf functions (fns.h) do the arithmetic. Work is split by outputs
 * (rows, columns), or into spans of keys of a fixed length, whose results are merged in ascending order. So a result is
 * the same for any number of threads and any number of tokens in a call.
 *
 * Operations that cost less than waking a thread (norms, rotations, cache writes of one token) run on the calling
 * thread; products and long attention run in the thread pool. */
#ifndef WEIR_CPU_H
#define WEIR_CPU_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/backend.h"
#include "kernels/cpu/fns.h"
#include "kernels/cpu/pool.h"
#include "kernels/common/operands.h"

/* Values of tensor.layout. PLAIN: plain rows in memory of the backend. PACKED: panels (pack.h). HOST: plain rows in the
 * mapped model file. */
enum { LAYOUT_PLAIN, LAYOUT_PACKED, LAYOUT_HOST };

struct buffer {
	void *p;
	size_t size;
};

struct cpu {
	struct backend base;
	const struct cpu_fns *fns;
	struct pool *pool;
	/* the chunks of memory from which the next weight and the next large tensor are taken (mem.c) */
	struct cpu_chunk *weights, *planes;
	struct buffer act;     /* quantised inputs of products */
	struct buffer scratch; /* scratch memory; each thread has a part of it */
	struct buffer state;   /* partial states of attention; moments of blocks (read_blocks.c) */
	struct buffer scan;    /* scores of keys (scan.c) */
	/* Buffers of fused_select_attn.c. When several tokens are computed together, scans[t] is the scan buffer of
	 * token t. `tasks` has the list of tasks. `selected` has a flag for each token and KV head, which is set after
	 * the token's slots for this KV head have been selected. */
	struct buffer scans[ATTN_EACH_MOST], tasks, selected;
	struct buffer probe; /* scores of the tokens that a probe measures (probe.c) */
};

extern const struct backend_ops cpu_ops;

static inline struct cpu *cpu_of(struct backend *be)
{
	return (struct cpu *)be; /* base is the first member */
}

static inline int cpu_cancelled(const struct cpu *c)
{
	return c->base.cancel && atomic_load_explicit(c->base.cancel, memory_order_relaxed) != 0;
}

static inline int32_t ceil_div(int32_t a, int32_t b)
{
	return a / b + (a % b != 0);
}

static inline size_t align64(size_t n)
{
	return (n + 63) & ~(size_t)63;
}

static inline size_t row_bytes(const struct tensor *t)
{
	return (size_t)dtype_bytes(t->type, (uint64_t)t->cols);
}

/* Grow a working buffer to at least `size` bytes; its contents are lost. Return 0, or -1 with the error set. */
int cpu_buffer_grow(struct cpu *c, struct buffer *b, size_t size);
void cpu_mem_free(struct cpu *c, void *p);

/* Return the data of an f32 operand with at least n rows and exactly `cols` columns. If cols is 0, the operand may have
 * any number of columns. For any other operand, set the error, which has the name of the operation `op`, and return
 * NULL. */
float *cpu_rows_of(struct backend *be, const struct tensor *t, int32_t n, int32_t cols, const char *op);

/* Return the leaf functions for work in host memory: the functions of the backend if it is a CPU backend, otherwise the
 * functions of the best instruction set. */
const struct cpu_fns *cpu_host_fns(struct backend *);

/* 1 if the predicate is true. A predicate whose `flag` is NULL is always true. */
static inline int predicate_holds(const struct predicate *w)
{
	return !w->flag || ((const int32_t *)w->flag->data)[w->col] == w->is;
}

/* Convert a key or value of n floats to the type of a KV cache, with the same bits for every instruction set. If a
 * block of q8_0 or q4_0 has a NaN, or a magnitude above the largest f16, all values of the block become NaN. `work` is
 * scratch memory of n floats, for the transform of q4_0; it may be x. */
void cpu_kv_row(const struct cpu_fns *, enum dtype, void *out, const float *x, int32_t n, float *work);
/* Convert a stored key or value of a KV cache back to n floats. */
void cpu_kv_floats(const struct select_fns *, enum dtype, float *out, const void *row, int32_t n);

/* A job on n independent rows. Each operation sets only the fields that it needs. */
struct row_job {
	struct cpu *c;
	float *out;
	const float *x, *w, *bias;
	const struct tensor *table;
	const int32_t *id;
	int32_t n, cols, per_task;
	int32_t group, w_cols, heads, head_dim, dims, neox, cap, slot0;
	float eps, a, b;
	void *plane;
	enum dtype type;
	struct act *act;
};

/* Run a job on rows: a small job on the calling thread, any other job as tasks of a few rows each. */
void cpu_run_rows(struct row_job *j, pool_fn *fn);
#define FOR_TASK_ROWS(i, j, task)                                                                                      \
	for (int32_t i = (task) * (j)->per_task, end_ = MIN(i + (j)->per_task, (j)->n); i < end_; i++)

int cpu_alloc(struct backend *, struct tensor *);
int cpu_alloc_file(struct backend *, struct tensor *, int fd, uint64_t off);
void cpu_give_back(struct backend *, const struct tensor *, size_t off, size_t n);
int cpu_load_weight(struct backend *, struct tensor *, const void *host, int as_table);
void cpu_drop(struct backend *, struct tensor *);
void cpu_write(struct backend *, struct tensor *, size_t off, const void *src, size_t n);
void cpu_read(struct backend *, const struct tensor *, size_t off, void *dst, size_t n);
void cpu_query_drift(struct backend *, const struct query_drift_args *);
void cpu_copy(struct backend *, struct tensor *dst, int32_t dst_row, const struct tensor *src, int32_t src_row,
              int32_t n);
void cpu_largest(struct backend *, struct tensor *out, const struct tensor *x, int32_t k, int32_t n);
void cpu_columns(struct backend *, struct tensor *out, const struct tensor *src, const int32_t *col, int32_t n);
void cpu_embed(struct backend *, struct tensor *out, const struct tensor *table, const int32_t *id, int32_t n);
void cpu_rmsnorm(struct backend *, struct tensor *out, const struct tensor *x, const struct tensor *w, int32_t group,
                 float eps, int32_t n);
void cpu_layernorm(struct backend *, struct tensor *out, const struct tensor *x, const struct tensor *w,
                   const struct tensor *b, float eps, int32_t n);
void cpu_gelu(struct backend *, struct tensor *x, int32_t n);
void cpu_axpby(struct backend *, struct tensor *y, float a, const struct tensor *x, float b, int32_t n);
void cpu_short_conv(struct backend *, const struct short_conv *, int32_t n);
void cpu_delta_rule(struct backend *, const struct delta_rule *, int32_t n);
void cpu_state_space(struct backend *, const struct state_space *, int32_t n);
void cpu_gate(struct backend *, struct tensor *x, struct tensor *gate, enum gate_kind, int32_t n);
void cpu_rope(struct backend *, struct tensor *out, const struct tensor *x, const struct tensor *table,
              int32_t head_dim, int32_t dims, int neox, int32_t n);
void cpu_kv_put(struct backend *, struct tensor *plane, const struct tensor *x, int32_t n_kv_head, int32_t slot0,
                int32_t n);
void cpu_matmul(struct backend *, const struct matmul *m, int32_t n_m, const struct tensor *x, int32_t n);
void cpu_matmul_glu(struct backend *, struct tensor *out, const struct matmul_glu *, const struct tensor *x, int32_t n);
int cpu_expert_table(struct backend *, struct tensor *t, const struct expert *, int32_t n);
void cpu_route(struct backend *, const struct route_args *, int32_t n);
void cpu_experts(struct backend *, const struct experts_args *, int32_t n);
void cpu_take_rows(struct backend *, struct tensor *out, const struct tensor *x, const int32_t *row, int32_t n);
void cpu_add_rows(struct backend *, struct tensor *out, const struct tensor *x, const int32_t *row, const float *weight,
                  int32_t n);
void cpu_attn(struct backend *, const struct attn_args *, int32_t n);
void cpu_attn_each(struct backend *, const struct attn_args *, int32_t n);
void cpu_relative(struct backend *, const struct relative_args *, int32_t n);
void cpu_read_blocks(struct backend *, const struct read_blocks_args *, int32_t n);

#endif
