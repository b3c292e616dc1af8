/* kernels/cuda/cuda.cuh (private to kernels/cuda/) - the CUDA backend: declarations that its files share.
 *
 *     cuda.cu               opening, errors, memory, copies, the table of operations
 *     cuda_heads.cu         rmsnorm, rope, kv_put
 *     cuda_rows.cu          layernorm, gelu, relative, axpby, copy, columns, take_rows, add_rows
 *     cuda_recurrent.cu     short_conv, delta_rule, state_space, gate
 *     cuda_matmul.cu        matmul, matmul_glu: chooses how to compute a product; products of many tokens use cuBLAS
 *     cuda_gemv.cu          products of a few tokens; cuda_gemv_rows.cuh has what a warp computes
 *     cuda_experts.cu       route, expert_table, experts
 *     cuda_weights.cu       load_weight, embed; the device layout of weights; conversion to f16 for cuBLAS
 *     cuda_attn.cu          attn: divides a call into launches and chooses one of the three attention kernels
 *     cuda_attn_decode.cu   attention kernel for few queries
 *     cuda_attn_prefill.cu  attention kernel for many queries
 *     cuda_attn_f32.cu      attention kernel that computes in f32
 *     cuda_probe.cu         attention mass and spread (struct attn_probe)
 *     cuda_key_sketch.cu    key sketches
 *     cuda_scan.cu          scores of keys
 *     cuda_topk*.cu         the k highest scores
 *     cuda_largest.cu       largest
 *     cuda_kv_move.cu       kv_move
 *     cuda_fetch.cu         KV entries in host memory, fetched while other kernels compute
 *     cuda_compare.cu       operations that only the cache policies quest and refresh use
 *     cuda_mma.cuh          tensor core products; asynchronous copies to shared memory
 *     cuda_quant.cuh        device code that reads every weight type
 *     gpu.h                 interface to a GPU (gpu_cuda*.cu) or, for tests, to an emulator (tests/cuda/emulator/)
 *     language.cuh          the dialect of C++ that kernels are written in
 *
 * An operation of kernels/backend.h checks its operands (kernels/common/operands.h) and queues launches. The device
 * starts when the queue is submitted (gpu.h). One thread at a time uses a backend. */
#ifndef WEIR_CUDA_CUH
#define WEIR_CUDA_CUH

#include <string.h>

#include "kernels/common/operands.h"
#include "kernels/cuda/gpu.h"
#include "kernels/cuda/language.cuh"

/* Scratch memory on the device. It grows as needed. Its contents are lost when the operation ends. */
struct cuda_buffer {
	void *p;
	size_t size;
};

struct cuda_weight;
struct cuda {
	struct backend base; /* the first member: cuda_of() casts */
	struct gpu *gpu;
	struct gpu_info info;
	/* Scratch memory of operations. `attn` has partial results of attention, and `probe` has scores. `scan`, `topk`
	 * and `moves` belong to key_scan(), topk() and kv_move(). `acts` has the input x of products, quantised or in
	 * f16. `tile` has weights in the file's layout or in f16. `product` has results of cuBLAS. `experts` has the hidden
	 * vectors and the outputs of experts. */
	struct cuda_buffer attn, probe, scan, topk, moves, acts, tile, product, experts;
	/* for attention kernels: the number of thread blocks of each tile that have finished; 0 before and after each
	 * kernel */
	struct cuda_buffer counters;
	struct cuda_weight *weights; /* weights on the device (cuda_weights.cu) */
	struct cuda_buffer largest;  /* scratch memory of largest(): the reversed rows, and the selected columns */
};

static inline struct cuda *cuda_of(struct backend *be)
{
	return (struct cuda *)be;
}
/* Return the data of an f32 operand with at least n rows and exactly `cols` columns. If `cols` is 0, the operand may
 * have any number of columns. For any other operand, set the error, which has the name of the operation `op`, and
 * return NULL. */
float *cuda_rows_of(struct backend *, const struct tensor *, int32_t n, int32_t cols, const char *op);
/* Grow a buffer to at least n bytes. Its contents are lost. Growing waits for the device. Return 0, or -1 with the
 * error set. */
int cuda_buffer_grow(struct cuda *, struct cuda_buffer *, size_t n);
/* 1 if operations must do nothing, because an earlier operation failed or the step was cancelled. */
static inline int cuda_stopped(const struct backend *be)
{
	return be->failed || (be->cancel && *be->cancel);
}

/* Run a kernel as a plain function. This is gpu_launch.call, for the emulator. */
template <class A> static void cuda_call(const void *fn, const void *args)
{
	((void (*)(A))fn)(*(const A *)args);
}
/* Return a text that contains the name of type A. gpu_launch_name() extracts the name. */
template <class A> static const char *cuda_args_name(void)
{
	return __PRETTY_FUNCTION__;
}
/* Queue kernel<<<(gx, gy, gz), block, shared>>>(args). */
template <class A>
static inline void cuda_launch(struct cuda *c, void (*kernel)(A), unsigned gx, unsigned gy, unsigned gz, unsigned block,
                               unsigned shared, const A &args)
{
	struct gpu_launch l = {
		(const void *)kernel, cuda_call<A>, { gx, gy, gz }, block, shared, cuda_args_name<A>()
	};

	static_assert(sizeof(A) <= 1024, "kernels take at most 1 KiB");
	gpu_enqueue(c->gpu, &l, &args, sizeof args);
}

/* Queue a launch in the second stream (gpu_enqueue_beside()). `writes` has n_writes addresses of memory that no other
 * call may use until gpu_join(). */
template <class A>
static inline void cuda_launch_beside(struct cuda *c, void (*kernel)(A), unsigned gx, unsigned gy, unsigned gz,
                                      unsigned block, unsigned shared, const A &args, const void *const *writes,
                                      int n_writes)
{
	struct gpu_launch l = {
		(const void *)kernel, cuda_call<A>, { gx, gy, gz }, block, shared, cuda_args_name<A>()
	};

	static_assert(sizeof(A) <= 1024, "kernels take at most 1 KiB");
	gpu_enqueue_beside(c->gpu, &l, &args, sizeof args, writes, n_writes);
}

/* Return the number of blocks of `per` elements that n elements take: n / per, rounded up. */
static inline unsigned cuda_blocks(int64_t n, int64_t per)
{
	return (unsigned)((n + per - 1) / per);
}
static inline size_t align256(size_t n)
{
	return (n + 255) & ~(size_t)255;
}
/* Return the smallest power of two >= n. Grid sizes rounded in this way rarely change from token to token, so that
 * the CUDA graph of a decode step can be replayed. */
static inline int32_t cuda_power(int32_t n)
{
	int32_t p = 1;

	while (p < n && p < 1 << 30)
		p *= 2;
	return p;
}

/* The operations of backend.h. */
int cuda_alloc(struct backend *, struct tensor *);
int cuda_alloc_file(struct backend *, struct tensor *, int fd, uint64_t off);
void cuda_give_back(struct backend *, const struct tensor *, size_t off, size_t n);
int cuda_alloc_host(struct backend *, struct tensor *);
/* operations in cuda_weights.cu */
int cuda_load_weight(struct backend *, struct tensor *, const void *host, int as_table);
void cuda_drop(struct backend *, struct tensor *);
void cuda_write(struct backend *, struct tensor *, size_t off, const void *src, size_t n);
void cuda_read(struct backend *, const struct tensor *, size_t off, void *dst, size_t n);
int cuda_sync(struct backend *);
void cuda_embed(struct backend *, struct tensor *out, const struct tensor *table, const int32_t *id, int32_t n);
void cuda_copy(struct backend *, struct tensor *dst, int32_t dst_row, const struct tensor *src, int32_t src_row,
               int32_t n);
void cuda_largest(struct backend *, struct tensor *out, const struct tensor *x, int32_t k, int32_t n);
void cuda_columns(struct backend *, struct tensor *out, const struct tensor *src, const int32_t *col, int32_t n);
void cuda_rmsnorm(struct backend *, struct tensor *out, const struct tensor *x, const struct tensor *w, int32_t group,
                  float eps, int32_t n);
void cuda_layernorm(struct backend *, struct tensor *out, const struct tensor *x, const struct tensor *w,
                    const struct tensor *b, float eps, int32_t n);
void cuda_relative(struct backend *, const struct relative_args *, int32_t n);
void cuda_gelu(struct backend *, struct tensor *x, int32_t n);
void cuda_axpby(struct backend *, struct tensor *y, float a, const struct tensor *x, float b, int32_t n);
void cuda_matmul(struct backend *, const struct matmul *m, int32_t n_m, const struct tensor *x, int32_t n);
void cuda_matmul_glu(struct backend *, struct tensor *out, const struct matmul_glu *, const struct tensor *x,
                     int32_t n);
void cuda_take_rows(struct backend *, struct tensor *out, const struct tensor *x, const int32_t *row, int32_t n);
void cuda_add_rows(struct backend *, struct tensor *out, const struct tensor *x, const int32_t *row,
                   const float *weight, int32_t n);
int cuda_expert_table(struct backend *, struct tensor *t, const struct expert *, int32_t n);
void cuda_route(struct backend *, const struct route_args *, int32_t n);
void cuda_experts(struct backend *, const struct experts_args *, int32_t n);
void cuda_short_conv(struct backend *, const struct short_conv *, int32_t n);
void cuda_delta_rule(struct backend *, const struct delta_rule *, int32_t n);
void cuda_state_space(struct backend *, const struct state_space *, int32_t n);
void cuda_gate(struct backend *, struct tensor *x, struct tensor *gate, enum gate_kind, int32_t n);
void cuda_rope(struct backend *, struct tensor *out, const struct tensor *x, const struct tensor *table,
               int32_t head_dim, int32_t dims, int neox, int32_t n);
void cuda_kv_put(struct backend *, struct tensor *plane, const struct tensor *x, int32_t n_kv_head, int32_t slot0,
                 int32_t n);
void cuda_attn(struct backend *, const struct attn_args *, int32_t n);
uint64_t cuda_key_sketch_bytes(const struct backend *, int32_t n_kv_head, int32_t cap, int32_t head_dim, int32_t bits);
void cuda_key_sketch(struct backend *, struct tensor *sketch, const struct tensor *plane, int32_t n_kv_head,
                     int32_t cap, int32_t bits, int32_t slot0, int32_t n);
void cuda_key_scan(struct backend *, const struct scan_args *);
void cuda_page_bounds(struct backend *, struct tensor *bounds, const struct tensor *plane, int32_t n_kv_head,
                      int32_t cap, int32_t page, int32_t slot0, int32_t n);
void cuda_page_scan(struct backend *, const struct scan_args *);
void cuda_topk(struct backend *, const struct topk_args *);
void cuda_page_slots(struct backend *, struct tensor *slots, const struct tensor *pages, int32_t n_kv_head,
                     int32_t page, int32_t n);
void cuda_kv_move(struct backend *, struct tensor *plane, const struct kv_moves *);
void cuda_fetch_range(struct backend *, struct tensor *to, const struct tensor *from, int32_t n_kv_head, int32_t cap,
                      int32_t slot0, int32_t n);
void cuda_fetch_slots(struct backend *, const struct fetch_args *);
void cuda_fetch_wait(struct backend *);
void cuda_query_drift(struct backend *, const struct query_drift_args *);

/* ---- functions between files ---- */

/* Decrement the reference count of the weight at p. Return 1 if the caller must free p, because no tensor uses the
 * weight any more or p is not a weight. */
int cuda_weight_release(struct cuda *, void *p);
/* Compute attention mass and spread (struct attn_probe) of the tokens from t0 to t1 - 1 of an attn() call from their
 * scores. The call has n tokens and `cols` slots. */
struct attn_seen;
void cuda_probe_run(struct cuda *, const struct attn_args *, int32_t n, int32_t cols, int32_t t0, int32_t t1,
                    const struct attn_seen *);

/* struct predicate in the form that kernels take. The struct has no padding bytes, because arguments are compared byte
 * by byte before a graph is replayed (gpu_queue.h). */
struct cuda_predicate {
	const int32_t *flag;
	int32_t is, none;
};
static inline struct cuda_predicate cuda_predicate_of(const struct predicate *w)
{
	struct cuda_predicate c = { w->flag ? (const int32_t *)w->flag->data + w->col : NULL, w->is, 0 };

	return c;
}
/* 1 if the predicate is true; for device code */
static __device__ inline int predicate_holds(const struct cuda_predicate &w)
{
	return !w.flag || *w.flag == w.is;
}

/* Do what key_scan() and then topk() do, in fewer launches where possible. attn() selects slots by this function (in
 * cuda_topk.cu). */
void cuda_select(struct backend *, const struct attn_selection *);

/* The plugin's only exported function, called by kernels/plugin.c. `abi` is the BACKEND_ABI of the program; the plugin
 * refuses a program whose BACKEND_ABI differs from its own. */
extern "C" int weir_cuda_open(struct backend **out, const struct backend_options *, int abi, char err[160]);

#endif
