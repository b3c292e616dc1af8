/* kernels/cuda/cuda_kv_move.cu - kv_move: copies KV entries to other slots of the same plane; keys are rotated to
 * their new positions.
 *
 * The operation takes 1 launch if the moved entries of a KV head fit in shared memory, otherwise 2. Each entry of the
 * plane is read and written once. Consecutive calls for up to MOVE_PLANES planes of the same shape share a launch, if
 * each alone would take 1 launch.
 *
 * The list of moves is in device memory, so the host cannot check it. A move from or to a slot outside of the plane
 * is skipped. */
#include "kernels/cuda/cuda_select.cuh"

enum { MOVE_THREADS = 512, MOVE_SHARED = 96 << 10, MOVE_BLOCK = 64 };

struct move_plane {
	uint8_t *plane;
	const int32_t *move; /* [heads][move_cols] for each move, its source slot, target slot, and row of `shift` */
};
enum { MOVE_PLANES = 56 }; /* maximum number of planes of a launch, because the arguments must fit 1 KiB */

struct move_args {
	uint8_t *stage;     /* memory for copies of the moved entries, [n_kv_head][n], if shared memory is too small */
	const float *shift; /* table of RoPE shifts (kv_moves.shift); NULL: no entry is rotated */
	int64_t row_bytes, move_cols;
	uint64_t shifted; /* if the entries of plane p are rotated, bit p is 1 */
	int32_t type, n, heads, cap, dim, dims, neox, shifts, planes;
	struct move_plane at[MOVE_PLANES];
};

/* The work of one block: one KV head of one plane. */
struct move_view {
	uint8_t *plane; /* slot 0 of the KV head */
	const int32_t *list;
	const float *shift;
	int64_t row_bytes;
	int32_t type, n, cap, dim, dims, neox, shifts;
};

/* Return the work for a KV head of plane number `plane` of the launch. */
static __device__ inline struct move_view move_view_of(const struct move_args &a, int32_t plane, int32_t head)
{
	struct move_view v;

	v.plane = a.at[plane].plane + (int64_t)head * a.cap * a.row_bytes;
	v.list = a.at[plane].move + head * a.move_cols;
	v.shift = a.shifted >> plane & 1 ? a.shift : NULL;
	v.row_bytes = a.row_bytes;
	v.type = a.type;
	v.n = a.n;
	v.cap = a.cap;
	v.dim = a.dim;
	v.dims = a.dims;
	v.neox = a.neox;
	v.shifts = a.shifts;
	return v;
}

struct row_move {
	/* `from` and `to` are slots; `shift` is the row of the table of RoPE shifts, or -1 if the entry is not
	 * rotated */
	int32_t from, to, shift;
};

/* Return move i. Set `from` to -1 if there is nothing to move, if a slot is outside of the plane, or if the shift is
 * outside of its table. */
static __device__ inline struct row_move move_of(const struct move_view &a, int32_t i)
{
	struct row_move m = { a.list[3 * i], a.list[3 * i + 1], a.list[3 * i + 2] };

	if ((uint32_t)m.from >= (uint32_t)a.cap || (uint32_t)m.to >= (uint32_t)a.cap ||
	    (a.shift && m.shift >= a.shifts))
		m.from = -1;
	if (!a.shift)
		m.shift = -1;
	return m;
}

/* Copy an entry of n bytes. Called by all lanes of a warp. */
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

/* Return a b + c d. The error is little more than one rounding error. This is necessary because a key may be rotated
 * many times, and the errors add up. */
static __device__ inline float two_products(float a, float b, float c, float d)
{
	float w = __fmul_rn(c, d), rest = __fmaf_rn(c, d, -w);

	return __fadd_rn(__fmaf_rn(a, b, w), rest);
}

/* Copy a key and rotate it. Called by all lanes of a warp. `shift` has cosine and sine of each pair of dimensions. */
static __device__ inline void row_shift(const struct move_view &a, uint8_t *to, const uint8_t *from, const float *shift)
{
	int32_t lane = (int32_t)threadIdx.x % WARP, half = a.dims / 2;

	for (int32_t i0 = 0; i0 < a.dim; i0 += WARP) {
		int32_t i = i0 + lane, pair = a.neox ? i % half : i / 2,
			mate = a.neox ? i < half ? i + half : i - half : i ^ 1;
		float y = i < a.dim ? row_value(from, a.type, i) : 0;

		if (i < a.dims) {
			float other = row_value(from, a.type, mate), c = shift[2 * pair], s = shift[2 * pair + 1];

			y = two_products(y, c, mate > i ? -other : other, s);
		}
		if (a.type == DT_Q8_0) {
			/* the 32 values of the warp are one block of q8_0 */
			uint8_t *block = to + i / 32 * 34;
			uint16_t d16 = __half_as_ushort(__float2half_rn(__fdiv_rn(warp_max(fabsf(y)), 127.0f)));
			float d = half_of(d16),
			      v = d > 0 ? floorf(__fadd_rn(__fadd_rn(__fdiv_rn(y, d), 127.0f), 0.5f)) : 127;

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

/* Copy the entry of move i to entry i of stage, rotated if the move has a shift. */
static __device__ inline void move_read(const struct move_view &a, int32_t i, uint8_t *stage)
{
	struct row_move m = move_of(a, i);
	const uint8_t *from = a.plane + m.from * a.row_bytes;

	if (m.from < 0)
		return;
	if (m.shift >= 0)
		row_shift(a, stage + i * a.row_bytes, from, a.shift + (int64_t)m.shift * a.dims);
	else
		row_copy(stage + i * a.row_bytes, from, a.row_bytes);
}

/* Write entry i to its target slot, unless a later move has the same target. */
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

/* Move the entries of one KV head of one plane, with a thread block for each KV head. All moved entries are read to
 * shared memory before any of them is written. */
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

/* For entries that do not fit in shared memory, move_out copies the entries to a.stage, and move_in writes them
 * back. */
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

/* 1 if the plane of call `a` can be added to the queued launch `b`. */
static int move_joins(const struct move_args *a, const struct move_args *b)
{
	if (b->planes >= MOVE_PLANES || a->row_bytes != b->row_bytes || a->move_cols != b->move_cols ||
	    a->type != b->type || a->n != b->n || a->heads != b->heads || a->cap != b->cap || a->dim != b->dim ||
	    a->neox != b->neox ||
	    (a->shift && b->shift && (a->shift != b->shift || a->shifts != b->shifts || a->dims != b->dims)))
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

	if (be->failed || kv_move_check(be, plane, m) < 0 || m->n == 0)
		return;
	a.move_cols = m->move->cols;
	a.at[0].plane = (uint8_t *)plane->data;
	a.at[0].move = (const int32_t *)m->move->data + m->move_row * a.move_cols;
	a.planes = 1;
	a.heads = m->n_kv_head;
	a.shift = m->shift ? (const float *)m->shift->data : NULL;
	a.shifted = m->shift != NULL;
	a.shifts = m->shift ? m->shift->rows : 0;
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
		struct move_args *before =
			(struct move_args *)gpu_last(c->gpu, (const void *)move_heads, sizeof a, &blocks);

		if (before && move_joins(&a, before)) {
			if (a.shift) {
				before->shift = a.shift;
				before->shifts = a.shifts;
				before->dims = a.dims;
				before->shifted |= (uint64_t)1 << before->planes;
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
