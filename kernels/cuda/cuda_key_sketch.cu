/* kernels/cuda/cuda_key_sketch.cu - key_sketch (layout: kernels/key_sketch.h).
 *
 * The bits are those of the CPU backend: sums are taken in the same order, and no multiplication is fused with an addition.
 *
 * 1 launch.  A block takes 16 rows of a KV head: reads the rows, writes 40 bytes for a key of 128 values at 2 bits. */
#include "kernels/cuda/cuda_select.cuh"

enum { SKETCH_THREADS = 128, SKETCH_SHARED = 64 << 10 };

struct key_sketch_args {
	uint8_t *sketch;
	const uint8_t *plane;
	int64_t row_bytes, head_bytes;
	int32_t type, whole, cap, bits, dim, slot0, slot1, ld, panel_bytes;
	int32_t keys;                /* of a block, 16 or fewer; blocks begin at multiples of it */
};

static __device__ inline float quad_sum(float x)
{
	x = __fadd_rn(x, __shfl_xor_sync(FULL_WARP, x, 2));
	return __fadd_rn(x, __shfl_xor_sync(FULL_WARP, x, 1));
}

/* The range of one group of a key, by four threads: thread j has values j, j + 4, ...  With `clip` the range with the least squared
 * error, as sketch_clip() finds it; else, or where that fails, the extremes. */
static __device__ inline void sketch_range(const float *x, int32_t n, int32_t j, int clip, float *least, float *most)
{
	float low = INFINITY, high = -INFINITY, step;
	int on = clip;

	for (int32_t i = j; i < n; i += 4) {
		low = x[i] < low ? x[i] : low;
		high = x[i] > high ? x[i] : high;
	}
	for (int d = 1; d <= 2; d *= 2) {
		low = fminf(low, __shfl_xor_sync(FULL_WARP, low, d));
		high = fmaxf(high, __shfl_xor_sync(FULL_WARP, high, d));
	}
	/* A NaN as the first value stays, as in the CPU's loop, which starts with it. */
	if (!(x[0] == x[0]))
		low = high = x[0];
	*least = low;
	*most = high;
	step = __fdiv_rn(high - low, 3.0f);
	for (int turn = 0; turn < 3; turn++) {
		float inv = __fdiv_rn(1.0f, step), sx = 0, sc = 0, scc = 0, scx = 0, det;

		on = on && step > 1e-30f && step < 1e30f;
		for (int32_t i = j; i < n; i += 4) {
			float v = x[i], c = __fmul_rn(v - low, inv);

			c = c > 0 ? c : 0;
			c = c < 3 ? c : 3;
			c = rintf(c);
			sx = __fadd_rn(sx, v);
			sc = __fadd_rn(sc, c);
			scc = __fadd_rn(scc, __fmul_rn(c, c));
			scx = __fadd_rn(scx, __fmul_rn(c, v));
		}
		sx = quad_sum(sx);
		sc = quad_sum(sc);
		scc = quad_sum(scc);
		scx = quad_sum(scx);
		det = __fsub_rn(__fmul_rn((float)n, scc), __fmul_rn(sc, sc));
		on = on && det > 0;
		step = __fdiv_rn(__fsub_rn(__fmul_rn((float)n, scx), __fmul_rn(sc, sx)), det);
		low = __fdiv_rn(__fsub_rn(sx, __fmul_rn(step, sc)), (float)n);
	}
	if (!on)
		return;
	high = __fadd_rn(low, __fmul_rn(3.0f, step));
	/* The CPU clips the values and codes between their extremes, which these are. */
	*least = *least < low ? low : *least > high ? high : *least;
	*most = *most < low ? low : *most > high ? high : *most;
}

static __global__ void key_sketch(struct key_sketch_args a)
{
	SHARED_DYNAMIC(float, x);    /* [keys][ld] */
	int32_t thread = (int32_t)threadIdx.x, lane = thread % WARP, warp = thread / WARP, head = (int32_t)blockIdx.y;
	int32_t k0 = (a.slot0 / a.keys + (int32_t)blockIdx.x) * a.keys, groups = (a.dim - 1) / SKETCH_GROUP + 1;
	int32_t octets = (a.keys + 7) / 8, quads = 8 / a.bits, top = (1 << a.bits) - 1;
	uint8_t *panel = a.sketch + head * a.head_bytes + (int64_t)(k0 / SKETCH_PANEL) * a.panel_bytes;

	if (k0 >= a.slot1)
		return;
	for (int32_t i = warp; i < a.keys; i += SKETCH_THREADS / WARP) {
		int32_t k = k0 + i;

		if (k < a.slot0 || k >= a.slot1)
			continue;
		for (int32_t d = lane * 8; d < a.dim; d += WARP * 8) {
			float v[8];

			row_eight(v, a.plane + ((int64_t)head * a.cap + k) * a.row_bytes, a.type, d, a.dim, a.whole);
			for (int32_t j = 0; j < 8; j++)
				if (d + j < a.dim)
					x[i * a.ld + d + j] = v[j];
		}
		sketch_hadamard_warp(x + i * a.ld, a.dim);
	}
	__syncthreads();
	/* A warp takes one group of eight keys, four threads each. */
	for (int32_t t = warp; t < groups * octets; t += SKETCH_THREADS / WARP) {
		int32_t g = t / octets, i = t % octets * 8 + lane / 4, j = lane % 4, k = k0 + i;
		int32_t n = min(a.dim - g * SKETCH_GROUP, (int32_t)SKETCH_GROUP), units = (n * a.bits + 31) / 32;
		int there = i < a.keys && k >= a.slot0 && k < a.slot1;
		const float *v = x + (there ? i * a.ld : max(0, a.slot0 - k0) * a.ld) + g * SKETCH_GROUP;
		uint8_t *to = panel + g * (64 + 64 * (SKETCH_GROUP * a.bits / 32));
		float low, high, d, m, inv;
		uint16_t scale, min16;

		sketch_range(v, n, j, a.bits == 2 && n % 4 == 0, &low, &high);
		min16 = __half_as_ushort(__float2half_rn(low));
		scale = __half_as_ushort(__float2half_rn(__fdiv_rn(high - low, (float)top)));
		m = half_of(min16);
		d = half_of(scale);
		inv = d > 0 ? __fdiv_rn(1.0f, d) : 0;
		if (there && j == 0)
			((uint16_t *)to)[k % SKETCH_PANEL] = scale;
		if (there && j == 1)
			((uint16_t *)(to + 32))[k % SKETCH_PANEL] = min16;
		for (int32_t u = 0; u < units; u++) {
			uint32_t w = 0;

			for (int32_t s = 0; s < quads; s++) {
				int32_t at = 4 * (u * quads + s) + j;

				if (at < n) {
					float y = v[at], c;

					y = y < low ? low : y > high ? high : y;   /* no change without clipping */
					c = __fmul_rn(y - m, inv);
					c = c > 0 ? c : 0;
					c = c < (float)top ? c : (float)top;
					w |= (uint32_t)__float2int_rn(c) << (s * a.bits);
				}
			}
			w <<= 8 * j;
			w |= __shfl_xor_sync(FULL_WARP, w, 1);
			w |= __shfl_xor_sync(FULL_WARP, w, 2);
			if (there && u % 4 == j)
				((uint32_t *)(to + 64 + 64 * u))[k % SKETCH_PANEL] = w;
		}
	}
}

uint64_t cuda_key_sketch_bytes(const struct backend *be, int32_t n_kv_head, int32_t cap, int32_t head_dim, int32_t bits)
{
	(void)be;
	return sketch_bytes(n_kv_head, cap, head_dim, bits);
}

void cuda_key_sketch(struct backend *be, struct tensor *sketch, const struct tensor *plane, int32_t n_kv_head, int32_t cap, int32_t bits,
                   int32_t slot0, int32_t n)
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
	a.head_bytes = (int64_t)((cap - 1) / SKETCH_PANEL + 1) * a.panel_bytes;
	a.type = plane->type;
	a.whole = row_whole(plane->type, dim);
	a.cap = cap;
	a.bits = bits;
	a.dim = dim;
	a.slot0 = slot0;
	a.slot1 = slot0 + n;
	a.ld = (dim + 31) / 32 * 32 + 4;        /* eight keys of a warp lie in eight different quarters of the banks */
	for (a.keys = SKETCH_PANEL; a.keys > 1 && a.keys * a.ld * 4 > SKETCH_SHARED; )
		a.keys /= 2;
	cuda_launch(c, key_sketch, (unsigned)cuda_power((a.slot1 - 1) / a.keys - slot0 / a.keys + 1), (unsigned)n_kv_head, 1, SKETCH_THREADS,
	            (unsigned)(a.keys * a.ld * 4), a);
}
