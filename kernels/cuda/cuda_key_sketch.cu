/* kernels/cuda/cuda_key_sketch.cu - key_sketch (layout: kernels/common/key_sketch.h).
 *
 * A sketch has the same bits as with the CPU backend: sums are added in the same order, and no multiplication is fused
 * with an addition.
 *
 * The operation takes 1 launch. Each thread block codes 256 keys of a KV head. It reads the keys once, or twice if it
 * computes their mean. At 2 bits, the codes and the scale of a key of 128 values take 34 bytes. */
#include "kernels/cuda/cuda_select.cuh"

enum { SKETCH_THREADS = 512, SKETCH_KEYS = 64, SKETCH_SHARED = 64 << 10 };

/* In shared memory, a key takes `ld` floats. `type` and `whole` describe the rows of the plane, as for row_eight(). */
struct key_sketch_args {
	uint8_t *sketch;
	const uint8_t *plane;
	int64_t row_bytes, head_bytes;
	int32_t type, whole, cap, bits, dim, slot0, slot1, ld, panel_bytes, block_bytes, mean_bytes;
	int32_t keys; /* number of keys transformed at a time, at most SKETCH_KEYS */
	float step;   /* the value of sketch_step() */
};

/* Return the sum of x over the four lanes that share a key. */
static __device__ inline float quad_sum(float x)
{
	x = __fadd_rn(x, __shfl_xor_sync(FULL_WARP, x, 2));
	return __fadd_rn(x, __shfl_xor_sync(FULL_WARP, x, 1));
}

/* Compute the mean of 256 keys. Set it to 0 in dimensions with NaN or infinity. Called by all threads of a block. */
static __device__ inline void mean_of(const struct key_sketch_args &a, float *mean, const uint8_t *rows)
{
	for (int32_t d = (int32_t)threadIdx.x; d < a.dim; d += SKETCH_THREADS) {
		float sum = 0;

		for (int32_t k = 0; k < SKETCH_BLOCK; k++)
			sum = __fadd_rn(sum, row_value(rows + k * a.row_bytes, a.type, d));
		mean[d] = fabsf(sum) < INFINITY ? __fdiv_rn(sum, (float)SKETCH_BLOCK) : 0;
	}
}

/* Round one key to codes, in four threads. Thread j has values j, j + 4, ... of the transformed key x. Write the codes
 * to lane `lane` of the key's panel (key_sketch.h), and the key's scale to *scale. If `there` is 0, the key does not
 * exist. The threads then compute, because all lanes of a warp must take part in the shuffles, but write nothing. */
static __device__ inline void key_code(const struct key_sketch_args &a, uint8_t *panel, int32_t lane, uint16_t *scale,
                                       const float *x, int32_t j, int there)
{
	int32_t quads = 8 / a.bits, units = (a.dim * a.bits + 31) / 32;
	float size = 0, product = 0, top = (float)((1 << a.bits) - 1), step, inv;

	for (int32_t i = j; i < a.dim; i += 4)
		size = __fadd_rn(size, __fmul_rn(x[i], x[i]));
	size = quad_sum(size);
	step = __fmul_rn(a.step, __fsqrt_rn(__fdiv_rn(size, (float)a.dim)));
	inv = step > 1e-30f && step < 1e30f ? __fdiv_rn(1.0f, step) : 0;
	for (int32_t u = 0; u < units; u++) {
		uint32_t w = 0;

		for (int32_t s = 0; s < quads; s++) {
			int32_t i = 4 * (u * quads + s) + j;

			if (i < a.dim) {
				float c = __fadd_rn(__fmul_rn(x[i], inv), top / 2);

				c = c > 0 ? c : 0;
				c = c < top ? c : top;
				c = rintf(c);
				product = __fadd_rn(product, __fmul_rn(x[i], 2 * c - top));
				w |= (uint32_t)__float2int_rn(c) << (s * a.bits);
			}
		}
		w <<= 8 * j;
		w |= __shfl_xor_sync(FULL_WARP, w, 1);
		w |= __shfl_xor_sync(FULL_WARP, w, 2);
		if (there && u % 4 == j)
			((uint32_t *)(panel + 64 * u))[lane] = w;
	}
	product = quad_sum(product);
	if (there && j == 0)
		*scale = __half_as_ushort(
			__float2half_rn(product > 0 && size < INFINITY ? __fdiv_rn(size, product) : 0));
}

/* Sketch the keys of the slots from slot0 to slot1 - 1. Each thread block sketches one key block, which has
 * SKETCH_BLOCK keys. The mean of the key block is subtracted from each key. The difference is transformed and rounded
 * to codes.
 *
 * A full key block uses the mean of its own keys. A key block that is not full uses the mean of the key block before
 * it, or 0 if it is the first. If a key block gets a new mean, its keys before slot0 are sketched again. */
static __global__ void key_sketch(struct key_sketch_args a)
{
	SHARED_DYNAMIC(float, x); /* [keys][ld] */
	int32_t thread = (int32_t)threadIdx.x, lane = thread % WARP, warp = thread / WARP, head = (int32_t)blockIdx.y;
	int32_t block = a.slot0 / SKETCH_BLOCK + (int32_t)blockIdx.x, begin = block * SKETCH_BLOCK;
	int32_t k0 = max(a.slot0 - begin, 0), k1 = min(a.slot1 - begin, (int32_t)SKETCH_BLOCK);
	const uint8_t *rows = a.plane + ((int64_t)head * a.cap + begin) * a.row_bytes;
	uint8_t *to = a.sketch + head * a.head_bytes + (int64_t)block * a.block_bytes,
		*panels = to + a.mean_bytes + 2 * SKETCH_BLOCK;
	float *mean = (float *)to, *own = mean + a.dim;
	uint16_t *scales = (uint16_t *)(to + a.mean_bytes);

	if (begin >= a.slot1)
		return;
	/* A new mean changes the codes of all keys of the block. */
	if (k1 == SKETCH_BLOCK || *own != 0)
		k0 = 0;
	if (k1 == SKETCH_BLOCK)
		mean_of(a, mean, rows);
	else if (k0 == 0 && block > 0)
		mean_of(a, mean, rows - SKETCH_BLOCK * a.row_bytes);
	else if (k0 == 0)
		for (int32_t d = thread; d < a.dim; d += SKETCH_THREADS)
			mean[d] = 0;
	__syncthreads();
	if (thread == 0)
		*own = k1 == SKETCH_BLOCK;
	for (int32_t from = k0; from < k1; from += a.keys) {
		int32_t n = min(a.keys, k1 - from);

		for (int32_t i = warp; i < n; i += SKETCH_THREADS / WARP) {
			for (int32_t d = lane * 8; d < a.dim; d += WARP * 8) {
				float v[8];

				row_eight(v, rows + (from + i) * a.row_bytes, a.type, d, a.dim, a.whole);
				for (int32_t j = 0; j < 8; j++)
					if (d + j < a.dim)
						x[i * a.ld + d + j] = __fsub_rn(v[j], mean[d + j]);
			}
			sketch_hadamard_warp(x + i * a.ld, a.dim);
		}
		__syncthreads();
		for (int32_t i0 = 8 * warp; i0 < n; i0 += 8 * (SKETCH_THREADS / WARP)) {
			int32_t i = i0 + lane / 4, k = from + i;

			key_code(a, panels + (int64_t)(k / SKETCH_PANEL) * a.panel_bytes, k % SKETCH_PANEL, scales + k,
			         x + (i < n ? i : i0) * a.ld, lane % 4, i < n);
		}
		__syncthreads();
	}
}

uint64_t cuda_key_sketch_bytes(const struct backend *be, int32_t n_kv_head, int32_t cap, int32_t head_dim, int32_t bits)
{
	(void)be;
	return sketch_bytes(n_kv_head, cap, head_dim, bits);
}

void cuda_key_sketch(struct backend *be, struct tensor *sketch, const struct tensor *plane, int32_t n_kv_head,
                     int32_t cap, int32_t bits, int32_t slot0, int32_t n)
{
	struct cuda *c = cuda_of(be);
	struct key_sketch_args a = {};
	int32_t dim;

	if (be->failed || key_sketch_check(be, sketch, plane, n_kv_head, cap, bits, slot0, n) < 0 || n == 0)
		return;
	dim = plane->cols;
	if (dim > SKETCH_SHARED / 4 - 4) {
		backend_fail(be, "internal: keys of %d values are too long for a sketch", (int)dim);
		return;
	}
	a.sketch = (uint8_t *)sketch->data;
	a.plane = (const uint8_t *)plane->data;
	a.row_bytes = (int64_t)dtype_bytes(plane->type, (uint64_t)dim);
	a.panel_bytes = (int32_t)sketch_panel_bytes(dim, bits);
	a.block_bytes = (int32_t)sketch_block_bytes(dim, bits);
	a.mean_bytes = (int32_t)sketch_mean_bytes(dim);
	a.head_bytes = (int64_t)sketch_blocks(cap) * a.block_bytes;
	a.type = plane->type;
	a.whole = row_whole(plane->type, dim);
	a.cap = cap;
	a.bits = bits;
	a.step = sketch_step(bits);
	a.dim = dim;
	a.slot0 = slot0;
	a.slot1 = slot0 + n;
	a.ld = (dim + 31) / 32 * 32 + 4; /* the padding puts eight keys of a warp into different banks */
	for (a.keys = SKETCH_KEYS; a.keys > 1 && a.keys * a.ld * 4 > SKETCH_SHARED;)
		a.keys /= 2;
	cuda_launch(c, key_sketch, (unsigned)cuda_power((a.slot1 - 1) / SKETCH_BLOCK - slot0 / SKETCH_BLOCK + 1),
	            (unsigned)n_kv_head, 1, SKETCH_THREADS, (unsigned)(a.keys * a.ld * 4), a);
}
