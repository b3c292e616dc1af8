/* kernels/cuda/cuda_choose.cu - choosing cached rows: the low-bit copy of the keys, page bounds, rows of pages, and moving rows.
 *
 * The copy lies as the CPU's does and holds the same codes (copy_layout.h): what is summed is summed in the same order, and no
 * multiplication is fused with an addition.
 *
 *     key_copy      1 launch; a block takes 16 rows of a KV head: reads the rows, writes 40 bytes for a key of 128 at 2 bits
 *     page_bounds   1 launch; reads whole pages of 16 rows
 *     page_rows     1 launch; a thread writes one number
 *     kv_move       1 launch where a head's rows fit in shared memory, else 2; each row is read and written once.  Of calls that
 *                   follow each other up to MOVE_PLANES planes join in one launch: a cache's step is 2 launches for 28 layers and more
 *
 * A move that leads outside of the plane is left out: only the device knows the list. */
#include "kernels/cuda/cuda_choose.cuh"

/* ---- operands ---- */

int choose_plane_ok(const struct tensor *t, int32_t n_kv_head, int32_t cap, int32_t head_dim)
{
	if (!t || !t->data || t->layout != 0 || n_kv_head <= 0 || cap <= 0 || head_dim <= 0 || t->cols != head_dim ||
	    (int64_t)n_kv_head * cap > t->rows)
		return 0;
	return t->type == DT_F32 || t->type == DT_F16 || t->type == DT_BF16 || (t->type == DT_Q8_0 && head_dim % 32 == 0);
}

int choose_copy_ok(const struct tensor *t, int32_t n_kv_head, int32_t cap, int32_t head_dim, int32_t bits)
{
	uint64_t need = copy_bytes(n_kv_head, cap, head_dim, bits);

	return need && t && t->data && t->type == DT_U8 && t->rows > 0 && t->cols > 0 &&
	       (uint64_t)t->rows * (uint64_t)t->cols >= need;
}

int choose_bounds_ok(const struct tensor *t, int32_t n_kv_head, int32_t cap, int32_t head_dim)
{
	return t && t->data && t->type == DT_F32 && n_kv_head > 0 && cap > 0 && head_dim > 0 && head_dim <= INT32_MAX / 2 &&
	       t->cols == 2 * head_dim && (int64_t)n_kv_head * ((cap - 1) / PAGE_ROWS + 1) <= t->rows;
}

/* ---- the copy ---- */

enum { COPY_THREADS = 128, COPY_SHARED = 64 << 10 };

struct key_copy_args {
	uint8_t *copy;
	const uint8_t *plane;
	int64_t row_bytes, head_bytes;
	int32_t type, whole, cap, bits, dim, row0, row1, ld, panel_bytes;
	int32_t keys;                /* of a block, 16 or fewer; blocks begin at multiples of it */
};

static __device__ inline float quad_sum(float x)
{
	x = __fadd_rn(x, __shfl_xor_sync(FULL_WARP, x, 2));
	return __fadd_rn(x, __shfl_xor_sync(FULL_WARP, x, 1));
}

/* Four threads at one group of one key: thread j has its values j, j + 4, ...  Returns the range that fits them best, or the
 * extremes where copy_clip() leaves them. */
static __device__ inline void copy_range(const float *x, int32_t n, int32_t j, int clip, float *least, float *most)
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
	/* As if it had begun with the first value. */
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
	/* The values are clipped, and the extremes of what is left are the range. */
	*least = *least < low ? low : *least > high ? high : *least;
	*most = *most < low ? low : *most > high ? high : *most;
}

static __global__ void key_copy(struct key_copy_args a)
{
	SHARED_DYNAMIC(float, x);    /* [keys][ld] */
	int32_t thread = (int32_t)threadIdx.x, lane = thread % WARP, warp = thread / WARP, head = (int32_t)blockIdx.y;
	int32_t k0 = (a.row0 / a.keys + (int32_t)blockIdx.x) * a.keys, groups = (a.dim - 1) / COPY_GROUP + 1;
	int32_t octets = (a.keys + 7) / 8, quads = 8 / a.bits, top = (1 << a.bits) - 1;
	uint8_t *panel = a.copy + head * a.head_bytes + (int64_t)(k0 / COPY_PANEL) * a.panel_bytes;

	if (k0 >= a.row1)
		return;
	for (int32_t i = warp; i < a.keys; i += COPY_THREADS / WARP) {
		int32_t k = k0 + i;

		if (k < a.row0 || k >= a.row1)
			continue;
		for (int32_t d = lane * 8; d < a.dim; d += WARP * 8) {
			float v[8];

			row_eight(v, a.plane + ((int64_t)head * a.cap + k) * a.row_bytes, a.type, d, a.dim, a.whole);
			for (int32_t j = 0; j < 8; j++)
				if (d + j < a.dim)
					x[i * a.ld + d + j] = v[j];
		}
		copy_turn_warp(x + i * a.ld, a.dim);
	}
	__syncthreads();
	/* A warp takes one group of eight keys, four threads each. */
	for (int32_t t = warp; t < groups * octets; t += COPY_THREADS / WARP) {
		int32_t g = t / octets, i = t % octets * 8 + lane / 4, j = lane % 4, k = k0 + i;
		int32_t n = min(a.dim - g * COPY_GROUP, (int32_t)COPY_GROUP), units = (n * a.bits + 31) / 32;
		int there = i < a.keys && k >= a.row0 && k < a.row1;
		const float *v = x + (there ? i * a.ld : max(0, a.row0 - k0) * a.ld) + g * COPY_GROUP;
		uint8_t *to = panel + g * (64 + 64 * (COPY_GROUP * a.bits / 32));
		float low, high, d, m, inv;
		uint16_t scale, min16;

		copy_range(v, n, j, a.bits == 2 && n % 4 == 0, &low, &high);
		min16 = __half_as_ushort(__float2half_rn(low));
		scale = __half_as_ushort(__float2half_rn(__fdiv_rn(high - low, (float)top)));
		m = half_of(min16);
		d = half_of(scale);
		inv = d > 0 ? __fdiv_rn(1.0f, d) : 0;
		if (there && j == 0)
			((uint16_t *)to)[k % COPY_PANEL] = scale;
		if (there && j == 1)
			((uint16_t *)(to + 32))[k % COPY_PANEL] = min16;
		for (int32_t u = 0; u < units; u++) {
			uint32_t w = 0;

			for (int32_t s = 0; s < quads; s++) {
				int32_t at = 4 * (u * quads + s) + j;

				if (at < n) {
					float y = v[at], c;

					y = y < low ? low : y > high ? high : y;   /* where nothing is clipped, none is outside */
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
				((uint32_t *)(to + 64 + 64 * u))[k % COPY_PANEL] = w;
		}
	}
}

uint64_t cuda_key_copy_bytes(const struct backend *be, int32_t n_kv_head, int32_t cap, int32_t head_dim, int32_t bits)
{
	(void)be;
	return copy_bytes(n_kv_head, cap, head_dim, bits);
}

void cuda_key_copy(struct backend *be, struct tensor *copy, const struct tensor *plane, int32_t n_kv_head, int32_t cap, int32_t bits,
                   int32_t row0, int32_t n)
{
	struct cuda *c = cuda_of(be);
	struct key_copy_args a = {};
	int32_t dim = plane ? plane->cols : 0;

	if (be->failed)
		return;
	if (!choose_plane_ok(plane, n_kv_head, cap, dim) || !choose_copy_ok(copy, n_kv_head, cap, dim, bits) || n < 0 || row0 < 0 ||
	    n > cap - row0 || dim > COPY_SHARED / 4 - 4) {
		cuda_fail(be, "internal: key_copy of rows %d + %d with %d bits got operands of the wrong shape", (int)row0, (int)n, (int)bits);
		return;
	}
	if (n == 0)
		return;
	a.copy = (uint8_t *)copy->data;
	a.plane = (const uint8_t *)plane->data;
	a.row_bytes = (int64_t)dtype_bytes(plane->type, (uint64_t)dim);
	a.panel_bytes = (int32_t)copy_panel_bytes(dim, bits);
	a.head_bytes = (int64_t)((cap - 1) / COPY_PANEL + 1) * a.panel_bytes;
	a.type = plane->type;
	a.whole = row_whole(plane->type, dim);
	a.cap = cap;
	a.bits = bits;
	a.dim = dim;
	a.row0 = row0;
	a.row1 = row0 + n;
	a.ld = (dim + 31) / 32 * 32 + 4;        /* eight keys of a warp lie in eight different quarters of the banks */
	for (a.keys = COPY_PANEL; a.keys > 1 && a.keys * a.ld * 4 > COPY_SHARED; )
		a.keys /= 2;
	cuda_launch(c, key_copy, (unsigned)cuda_power((a.row1 - 1) / a.keys - row0 / a.keys + 1), (unsigned)n_kv_head, 1, COPY_THREADS,
	            (unsigned)(a.keys * a.ld * 4), a);
}

/* ---- pages ---- */

enum { BOUNDS_THREADS = 128 };

struct page_bounds_args {
	float *bounds;
	const uint8_t *plane;
	int64_t row_bytes;
	int32_t type, cap, dim, first, pages, all_pages, row1;
};

static __global__ void page_bounds(struct page_bounds_args a)
{
	int32_t page = a.first + (int32_t)blockIdx.x, head = (int32_t)blockIdx.y, k0 = page * PAGE_ROWS;
	int32_t rows = min(PAGE_ROWS, a.row1 - k0);
	const uint8_t *row = a.plane + ((int64_t)head * a.cap + k0) * a.row_bytes;
	float *least = a.bounds + ((int64_t)head * a.all_pages + page) * 2 * a.dim;

	if ((int32_t)blockIdx.x >= a.pages)
		return;
	for (int32_t i = (int32_t)threadIdx.x; i < a.dim; i += BOUNDS_THREADS) {
		float v[PAGE_ROWS], low, high;

		for (int32_t k = 0; k < PAGE_ROWS; k++)
			v[k] = row_value(row + min(k, rows - 1) * a.row_bytes, a.type, i);
		low = high = v[0];
		for (int32_t k = 1; k < PAGE_ROWS; k++) {
			low = v[k] < low ? v[k] : low;
			high = v[k] > high ? v[k] : high;
		}
		least[i] = low;
		least[a.dim + i] = high;
	}
}

void cuda_page_bounds(struct backend *be, struct tensor *bounds, const struct tensor *plane, int32_t n_kv_head, int32_t cap, int32_t row0,
                      int32_t n)
{
	struct cuda *c = cuda_of(be);
	struct page_bounds_args a = {};
	int32_t dim = plane ? plane->cols : 0;

	if (be->failed)
		return;
	if (!choose_plane_ok(plane, n_kv_head, cap, dim) || !choose_bounds_ok(bounds, n_kv_head, cap, dim) || n < 0 || row0 < 0 ||
	    n > cap - row0) {
		cuda_fail(be, "internal: page_bounds of rows %d + %d got operands of the wrong shape", (int)row0, (int)n);
		return;
	}
	if (n == 0)
		return;
	a.bounds = (float *)bounds->data;
	a.plane = (const uint8_t *)plane->data;
	a.row_bytes = (int64_t)dtype_bytes(plane->type, (uint64_t)dim);
	a.type = plane->type;
	a.cap = cap;
	a.dim = dim;
	a.row1 = row0 + n;
	a.first = row0 / PAGE_ROWS;
	a.pages = (a.row1 - 1) / PAGE_ROWS + 1 - a.first;
	a.all_pages = (cap - 1) / PAGE_ROWS + 1;
	cuda_launch(c, page_bounds, (unsigned)cuda_power(a.pages), (unsigned)n_kv_head, 1, BOUNDS_THREADS, 0, a);
}

enum { PAGES_THREADS = 256 };

struct page_rows_args {
	int32_t *rows;
	const int32_t *pages;
	int64_t rows_cols, pages_cols;
	int32_t n;
};

static __global__ void page_rows(struct page_rows_args a)
{
	int32_t i = (int32_t)(blockIdx.x * PAGES_THREADS + threadIdx.x), head = (int32_t)blockIdx.y;

	if (i < a.n)
		a.rows[head * a.rows_cols + i] = a.pages[head * a.pages_cols + i / PAGE_ROWS] * PAGE_ROWS + i % PAGE_ROWS;
}

static int page_rows_ok(const struct tensor *rows, const struct tensor *pages, int32_t n_kv_head, int32_t n)
{
	return rows && rows->data && rows->type == DT_I32 && pages && pages->data && pages->type == DT_I32 && rows->data != pages->data &&
	       n_kv_head > 0 && rows->rows >= n_kv_head && pages->rows >= n_kv_head && n >= 0 && n <= INT32_MAX / 4 && rows->cols >= n &&
	       pages->cols >= n / PAGE_ROWS + (n % PAGE_ROWS != 0);
}

void cuda_page_rows(struct backend *be, struct tensor *rows, const struct tensor *pages, int32_t n_kv_head, int32_t n)
{
	struct page_rows_args a = {};

	if (cuda_stopped(be))
		return;
	if (!page_rows_ok(rows, pages, n_kv_head, n)) {
		cuda_fail(be, "internal: page_rows of %d rows got operands of the wrong shape", (int)n);
		return;
	}
	if (n == 0)
		return;
	a.rows = (int32_t *)rows->data;
	a.pages = (const int32_t *)pages->data;
	a.rows_cols = rows->cols;
	a.pages_cols = pages->cols;
	a.n = n;
	cuda_launch(cuda_of(be), page_rows, cuda_blocks(cuda_power(n), PAGES_THREADS), (unsigned)n_kv_head, 1, PAGES_THREADS, 0, a);
}

/* ---- moving rows ---- */

enum { MOVE_THREADS = 512, MOVE_SHARED = 96 << 10, MOVE_BLOCK = 64 };

struct move_plane { uint8_t *plane; const int32_t *move; };
enum { MOVE_PLANES = 56 };       /* as many as fit in a kernel's argument */

struct move_args {
	uint8_t *stage;              /* device memory [n_kv_head][n] rows, where shared memory is too small */
	const float *turn;           /* NULL: rows as they are */
	int64_t row_bytes, move_cols;
	uint64_t turned;             /* planes whose rows are turned */
	int32_t type, n, heads, cap, dim, dims, neox, turns, planes;
	struct move_plane at[MOVE_PLANES];
};

/* What a block of one launch sees: a KV head of a plane. */
struct move_view {
	uint8_t *plane;              /* the head's first row */
	const int32_t *list;
	const float *turn;
	int64_t row_bytes;
	int32_t type, n, cap, dim, dims, neox, turns;
};

static __device__ inline struct move_view move_view_of(const struct move_args &a, int32_t plane, int32_t head)
{
	struct move_view v;

	v.plane = a.at[plane].plane + (int64_t)head * a.cap * a.row_bytes;
	v.list = a.at[plane].move + head * a.move_cols;
	v.turn = a.turned >> plane & 1 ? a.turn : NULL;
	v.row_bytes = a.row_bytes;
	v.type = a.type;
	v.n = a.n;
	v.cap = a.cap;
	v.dim = a.dim;
	v.dims = a.dims;
	v.neox = a.neox;
	v.turns = a.turns;
	return v;
}

struct row_move { int32_t from, to, turn; };

/* from = -1: none. */
static __device__ inline struct row_move move_of(const struct move_view &a, int32_t i)
{
	struct row_move m = { a.list[3 * i], a.list[3 * i + 1], a.list[3 * i + 2] };

	if ((uint32_t)m.from >= (uint32_t)a.cap || (uint32_t)m.to >= (uint32_t)a.cap || (a.turn && m.turn >= a.turns))
		m.from = -1;
	if (!a.turn)
		m.turn = -1;
	return m;
}

/* A warp copies a row. */
static __device__ inline void row_copy(uint8_t *to, const uint8_t *from, int64_t n)
{
	int32_t lane = (int32_t)threadIdx.x % WARP;

	if (n % 16 == 0)
		for (int64_t i = lane; i < n / 16; i += WARP)
			((uint4 *)to)[i] = ((const uint4 *)from)[i];
	else if (n % 4 == 0)
		for (int64_t i = lane; i < n / 4; i += WARP)
			((uint32_t *)to)[i] = ((const uint32_t *)from)[i];
	else
		for (int64_t i = lane; i < n / 2; i += WARP)
			((uint16_t *)to)[i] = ((const uint16_t *)from)[i];
}

/* a b + c d (or - c d) with one rounding, nearly: a key may be turned many times in its life. */
static __device__ inline float two_products(float a, float b, float c, float d)
{
	float w = __fmul_rn(c, d), rest = __fmaf_rn(c, d, -w);

	return __fadd_rn(__fmaf_rn(a, b, w), rest);
}

/* A warp turns a row on its way. */
static __device__ inline void row_turn(const struct move_view &a, uint8_t *to, const uint8_t *from, const float *turn)
{
	int32_t lane = (int32_t)threadIdx.x % WARP, half = a.dims / 2;

	for (int32_t i0 = 0; i0 < a.dim; i0 += WARP) {
		int32_t i = i0 + lane, pair = a.neox ? i % half : i / 2, mate = a.neox ? i < half ? i + half : i - half : i ^ 1;
		float y = i < a.dim ? row_value(from, a.type, i) : 0;

		if (i < a.dims) {
			float other = row_value(from, a.type, mate), c = turn[2 * pair], s = turn[2 * pair + 1];

			y = two_products(y, c, mate > i ? -other : other, s);
		}
		if (a.type == DT_Q8_0) {
			/* A warp has just a block of 32. */
			uint8_t *block = to + i / 32 * 34;
			uint16_t d16 = __half_as_ushort(__float2half_rn(__fdiv_rn(warp_max(fabsf(y)), 127.0f)));
			float d = half_of(d16), v = d > 0 ? floorf(__fadd_rn(__fadd_rn(__fdiv_rn(y, d), 127.0f), 0.5f)) : 127;

			v = v > 0 ? v : 0;
			v = v < 254 ? v : 254;
			if (lane == 0)
				*(uint16_t *)block = d16;
			block[2 + lane] = (uint8_t)(int8_t)((int)v - 127);
		} else if (i < a.dim) {
			if (a.type == DT_F32)
				((float *)to)[i] = y;
			else if (a.type == DT_F16)
				((uint16_t *)to)[i] = __half_as_ushort(__float2half_rn(y));
			else
				((uint16_t *)to)[i] = __bfloat16_as_ushort(__float2bfloat16_rn(y));
		}
	}
}

static __device__ inline void move_read(const struct move_view &a, int32_t i, uint8_t *stage)
{
	struct row_move m = move_of(a, i);
	const uint8_t *from = a.plane + m.from * a.row_bytes;

	if (m.from < 0)
		return;
	if (m.turn >= 0)
		row_turn(a, stage + i * a.row_bytes, from, a.turn + (int64_t)m.turn * a.dims);
	else
		row_copy(stage + i * a.row_bytes, from, a.row_bytes);
}

/* Should two moves meet in one row, the later one wins. */
static __device__ inline void move_write(const struct move_view &a, int32_t i, const uint8_t *stage)
{
	struct row_move m = move_of(a, i);
	int later = 0;

	if (m.from < 0)
		return;
	for (int32_t j = i + 1 + (int32_t)threadIdx.x % WARP; j < a.n; j += WARP)
		later |= a.list[3 * j + 1] == m.to && move_of(a, j).from >= 0;
	if (__any_sync(FULL_WARP, later))
		return;
	row_copy(a.plane + m.to * a.row_bytes, stage + i * a.row_bytes, a.row_bytes);
}

/* A block takes a head of a plane: everything is read into shared memory before anything is written. */
static __global__ void __launch_bounds__(MOVE_THREADS, 2) move_heads(struct move_args a)
{
	SHARED_DYNAMIC(uint8_t, stage);
	struct move_view v = move_view_of(a, (int32_t)blockIdx.x / a.heads, (int32_t)blockIdx.x % a.heads);
	int32_t warp = (int32_t)threadIdx.x / WARP;

	for (int32_t i = warp; i < v.n; i += MOVE_THREADS / WARP)
		move_read(v, i, stage);
	__syncthreads();
	for (int32_t i = warp; i < v.n; i += MOVE_THREADS / WARP)
		move_write(v, i, stage);
}

static __global__ void __launch_bounds__(MOVE_THREADS, 2) move_out(struct move_args a)
{
	int32_t head = (int32_t)blockIdx.y, i0 = (int32_t)blockIdx.x * MOVE_BLOCK, i1 = min(i0 + MOVE_BLOCK, a.n);
	struct move_view v = move_view_of(a, 0, head);

	for (int32_t i = i0 + (int32_t)threadIdx.x / WARP; i < i1; i += MOVE_THREADS / WARP)
		move_read(v, i, a.stage + (int64_t)head * a.n * a.row_bytes);
}

static __global__ void __launch_bounds__(MOVE_THREADS, 2) move_in(struct move_args a)
{
	int32_t head = (int32_t)blockIdx.y, i0 = (int32_t)blockIdx.x * MOVE_BLOCK, i1 = min(i0 + MOVE_BLOCK, a.n);
	struct move_view v = move_view_of(a, 0, head);

	for (int32_t i = i0 + (int32_t)threadIdx.x / WARP; i < i1; i += MOVE_THREADS / WARP)
		move_write(v, i, a.stage + (int64_t)head * a.n * a.row_bytes);
}

/* May the moves of a (one plane) be done by the launch that does those of b? */
static int move_joins(const struct move_args *a, const struct move_args *b)
{
	if (b->planes >= MOVE_PLANES || a->row_bytes != b->row_bytes || a->move_cols != b->move_cols || a->type != b->type || a->n != b->n ||
	    a->heads != b->heads || a->cap != b->cap || a->dim != b->dim || a->neox != b->neox ||
	    (a->turn && b->turn && (a->turn != b->turn || a->turns != b->turns || a->dims != b->dims)))
		return 0;
	for (int32_t i = 0; i < b->planes; i++)
		if (b->at[i].plane == a->at[0].plane)
			return 0;
	return 1;
}

void cuda_kv_move(struct backend *be, struct tensor *plane, const struct kv_moves *m)
{
	struct cuda *c = cuda_of(be);
	struct move_args a = {};
	int64_t bytes;

	if (be->failed)
		return;
	if (!choose_plane_ok(plane, m->n_kv_head, m->cap, m->head_dim) || m->n < 0 || m->n > INT32_MAX / 3 || !m->move || !m->move->data ||
	    m->move->type != DT_I32 || m->move_row < 0 || m->move->rows - m->move_row < m->n_kv_head || m->move->cols < 3 * m->n) {
		cuda_fail(be, "internal: %d moves of rows got operands of the wrong shape", (int)m->n);
		return;
	}
	if (m->turn && (!m->turn->data || m->turn->type != DT_F32 || m->turn->cols != m->dims || m->dims <= 0 || m->dims % 2 ||
	                m->dims > m->head_dim)) {
		cuda_fail(be, "internal: moves of rows got a table of turns of the wrong shape");
		return;
	}
	if (m->n == 0)
		return;
	a.move_cols = m->move->cols;
	a.at[0].plane = (uint8_t *)plane->data;
	a.at[0].move = (const int32_t *)m->move->data + m->move_row * a.move_cols;
	a.planes = 1;
	a.heads = m->n_kv_head;
	a.turn = m->turn ? (const float *)m->turn->data : NULL;
	a.turned = m->turn != NULL;
	a.turns = m->turn ? m->turn->rows : 0;
	a.row_bytes = (int64_t)dtype_bytes(plane->type, (uint64_t)m->head_dim);
	a.type = plane->type;
	a.n = m->n;
	a.cap = m->cap;
	a.dim = m->head_dim;
	a.dims = m->dims;
	a.neox = m->neox;
	bytes = a.n * a.row_bytes;
	if (bytes <= MOVE_SHARED) {
		unsigned *blocks;
		struct move_args *before = (struct move_args *)gpu_last(c->gpu, (const void *)move_heads, sizeof a, &blocks);

		if (before && move_joins(&a, before)) {
			if (a.turn) {
				before->turn = a.turn;
				before->turns = a.turns;
				before->dims = a.dims;
				before->turned |= (uint64_t)1 << before->planes;
			}
			before->at[before->planes++] = a.at[0];
			*blocks = (unsigned)(before->planes * a.heads);
			return;
		}
		bytes = bytes <= 4096 ? 4096 : bytes <= 32768 ? 32768 : MOVE_SHARED;
		cuda_launch(c, move_heads, (unsigned)a.heads, 1, 1, MOVE_THREADS, (unsigned)bytes, a);
		return;
	}
	if (cuda_buffer_grow(c, &c->moves, (size_t)m->n_kv_head * (size_t)bytes) < 0)
		return;
	a.stage = (uint8_t *)c->moves.p;
	cuda_launch(c, move_out, cuda_blocks(a.n, MOVE_BLOCK), (unsigned)m->n_kv_head, 1, MOVE_THREADS, 0, a);
	cuda_launch(c, move_in, cuda_blocks(a.n, MOVE_BLOCK), (unsigned)m->n_kv_head, 1, MOVE_THREADS, 0, a);
}
