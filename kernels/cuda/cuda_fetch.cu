/* kernels/cuda/cuda_fetch.cu - fetch_range, fetch_slots, fetch_wait: copy KV entries from host memory to the device.
 *
 * Kernels read host memory over the bus, so the host need not know which entries a token selects. fetch_slots keeps
 * entries in a small cache on the device (struct fetch_args) and takes 2 launches. fetch_find, with a block per KV
 * head, looks up the wanted slots in this cache and assigns lines to the missing entries; a prefetch assigns only
 * unused lines, so some entries may get no cache line. fetch_copy, with a warp per assigned cache line, copies the key
 * and the value. For a prefetch, both kernels run in the second stream (gpu_enqueue_beside()) while other kernels
 * compute. */
#include "kernels/cuda/cuda_topk.cuh"

enum { FIND_THREADS = 512, COPY_THREADS = 256, COPY_BLOCK = COPY_THREADS / WARP, RANGE_BLOCKS = 256 };

/* Arguments of both kernels, as in struct fetch_args. `ahead` is 1 if the call is a prefetch. */
struct fetch_launch {
	uint8_t *k, *v;
	const uint8_t *from_k, *from_v;
	int32_t *map, *list, *count;
	const int32_t *slots;
	int64_t map_cols, list_cols, slots_cols, line_bytes;
	int32_t cap, lines, n, ahead;
};

/* Arrays in one KV head's part of fetch_args.map. A cache line is room for one KV entry in the device's cache.
 * - at[slot] is 1 + the cache line that holds the slot's entry. It is 0 if no cache line holds the entry.
 * - slot[line] is 1 + the slot whose entry the cache line holds. It is 0 if the cache line is empty.
 * - used[line] is the number of the last call that used the cache line.
 * - `pair` has two numbers for each missing slot of this call: the slot, and its index in the list. The index is later
 *   replaced by the slot's cache line. */
struct fetch_head {
	int32_t *map, *at, *slot, *used, *pair;
};

static __device__ inline struct fetch_head fetch_head_of(const struct fetch_launch &a, int32_t head)
{
	struct fetch_head f;

	f.map = a.map + head * a.map_cols;
	f.at = f.map + FETCH_AT;
	f.slot = f.at + a.cap;
	f.used = f.slot + a.lines;
	f.pair = f.used + a.lines;
	return f;
}

/* Look up the wanted slots on the device. If the entry of a slot is in a cache line, write the number of the cache line
 * to the list, unless the call is a prefetch. Collect all other slots in order, each with its index in the list, and
 * return the number of these slots. A slot number outside of the plane gets cache line 0. */
static __device__ inline int32_t find_missing(const struct fetch_launch &a, const struct fetch_head &f, int32_t head,
                                              int32_t call)
{
	const int32_t *want = a.slots + head * a.slots_cols;
	int32_t n = 0;

	for (int32_t i0 = 0; i0 < a.n; i0 += FIND_THREADS) {
		int32_t i = i0 + (int32_t)threadIdx.x, s = i < a.n ? want[i] : -1,
			line = (uint32_t)s < (uint32_t)a.cap ? f.at[s] : -1, all, at;

		at = block_rank(line == 0, &all);
		if (line == 0) {
			f.pair[2 * (n + at)] = s;
			f.pair[2 * (n + at) + 1] = i;
		}
		if (line > 0)
			f.used[line - 1] = call;
		if (line && i < a.n && !a.ahead)
			a.list[head * a.list_cols + i] = line > 0 ? line - 1 : 0;
		n += all;
	}
	return n;
}

/* 1 if the cache line holds the entry of a slot, and the element of at[] for this slot is this cache line. */
static __device__ inline int line_has(const struct fetch_head &f, int32_t line)
{
	return f.slot[line] && f.at[f.slot[line] - 1] == line + 1;
}

/* Assign a cache line to the missing slot pair[0], and set pair[1] to this cache line. */
static __device__ inline void line_give(const struct fetch_launch &a, const struct fetch_head &f, int32_t head,
                                        int32_t call, int32_t line, int32_t *pair)
{
	if (line_has(f, line))
		f.at[f.slot[line] - 1] = 0;
	f.slot[line] = pair[0] + 1;
	f.at[pair[0]] = line + 1;
	f.used[line] = call;
	if (!a.ahead)
		a.list[head * a.list_cols + pair[1]] = line;
	pair[1] = line;
}

/* Assign lines to the missing slots, in the order that struct fetch_args describes. Pass 0 takes empty lines, and lines
 * whose last use is two or more calls ago. Pass 1 takes any cache line that this call does not use; a prefetch has no
 * pass 1. */
static __global__ void __launch_bounds__(FIND_THREADS) fetch_find(struct fetch_launch a)
{
	int32_t head = (int32_t)blockIdx.x, thread = (int32_t)threadIdx.x, given = 0, missing;
	struct fetch_head f = fetch_head_of(a, head);
	int32_t call = f.map[FETCH_CALLS] + !a.ahead, hand = f.map[FETCH_HAND];

	missing = find_missing(a, f, head, call);
	__syncthreads();
	for (int pass = 0; pass < 2 - a.ahead; pass++)
		for (int32_t i0 = 0; i0 < a.lines && given < missing; i0 += FIND_THREADS) {
			int32_t i = i0 + thread, line = hand + i < a.lines ? hand + i : hand + i - a.lines, gets = 0,
				all, at;

			if (i < a.lines)
				gets = pass ? f.used[line] < call : !line_has(f, line) || f.used[line] < call - 1;
			at = given + block_rank(gets, &all);
			all = min(given + all, missing);
			if (gets && at < all)
				line_give(a, f, head, call, line, f.pair + 2 * at);
			if (gets && at == all - 1)
				f.map[FETCH_HAND] = line + 1 < a.lines ? line + 1 : 0;
			given = all;
			__syncthreads();
		}
	if (thread == 0) {
		int32_t *count = a.count + head * FETCH_COUNTS;

		f.map[FETCH_CALLS] = call;
		f.map[FETCH_MISSED] = given;
		if (!a.ahead)
			count[FETCH_COUNT_WANTED] += a.n;
		count[a.ahead ? FETCH_COUNT_AHEAD : FETCH_COUNT_BROUGHT] += given;
	}
}

/* Copy n bytes. `step` threads call this function together, and `i` is the number of the calling thread. */
template <class T>
static __device__ inline void bytes_as(uint8_t *to, const uint8_t *from, int64_t n, int64_t i, int64_t step)
{
	for (; i < n / (int64_t)sizeof(T); i += step)
		((T *)to)[i] = ((const T *)from)[i];
}

/* Do what bytes_as() does, in the largest words that the alignment allows. */
static __device__ inline void bytes_copy(uint8_t *to, const uint8_t *from, int64_t n, int64_t i, int64_t step)
{
	int64_t all = (int64_t)(uintptr_t)to | (int64_t)(uintptr_t)from | n;

	if (all % 16 == 0)
		bytes_as<uint4>(to, from, n, i, step);
	else if (all % 4 == 0)
		bytes_as<uint32_t>(to, from, n, i, step);
	else
		bytes_as<uint16_t>(to, from, n, i, step);
}

/* Copy the entries of the slots that got a cache line. Each warp copies one entry. */
static __global__ void __launch_bounds__(COPY_THREADS) fetch_copy(struct fetch_launch a)
{
	int32_t head = (int32_t)blockIdx.y, i = (int32_t)blockIdx.x * COPY_BLOCK + (int32_t)threadIdx.x / WARP;
	struct fetch_head f = fetch_head_of(a, head);
	int64_t from, to;

	if (i >= f.map[FETCH_MISSED])
		return;
	from = ((int64_t)head * a.cap + f.pair[2 * i]) * a.line_bytes;
	to = ((int64_t)head * a.lines + f.pair[2 * i + 1]) * a.line_bytes;
	bytes_copy(a.k + to, a.from_k + from, a.line_bytes, (int64_t)threadIdx.x % WARP, WARP);
	bytes_copy(a.v + to, a.from_v + from, a.line_bytes, (int64_t)threadIdx.x % WARP, WARP);
}

void cuda_fetch_slots(struct backend *be, const struct fetch_args *s)
{
	struct cuda *c = cuda_of(be);
	struct fetch_launch a = {};
	unsigned heads = (unsigned)s->n_kv_head, blocks;

	if (be->failed || fetch_check(be, s) < 0 || !s->n)
		return;
	a.k = (uint8_t *)s->k->data;
	a.v = (uint8_t *)s->v->data;
	a.from_k = (const uint8_t *)s->from_k->data;
	a.from_v = (const uint8_t *)s->from_v->data;
	a.map = (int32_t *)s->map->data;
	a.slots = (const int32_t *)s->slots->data;
	a.list = s->ahead ? NULL : (int32_t *)s->list->data;
	a.count = (int32_t *)s->count->data + (int64_t)s->count_row * FETCH_COUNTS;
	a.map_cols = s->map->cols;
	a.slots_cols = s->slots->cols;
	a.list_cols = s->ahead ? 0 : s->list->cols;
	a.line_bytes = (int64_t)dtype_bytes(s->k->type, (uint64_t)s->k->cols);
	a.cap = s->cap;
	a.lines = s->lines;
	a.n = s->n;
	a.ahead = s->ahead;
	blocks = cuda_blocks(cuda_power(s->n), COPY_BLOCK);
	if (s->ahead) {
		const void *writes[] = { a.k, a.v, a.map, a.count, a.slots };

		cuda_launch_beside(c, fetch_find, heads, 1, 1, FIND_THREADS, 0, a, writes, 5);
		cuda_launch_beside(c, fetch_copy, blocks, heads, 1, COPY_THREADS, 0, a, writes, 5);
	} else {
		cuda_launch(c, fetch_find, heads, 1, 1, FIND_THREADS, 0, a);
		cuda_launch(c, fetch_copy, blocks, heads, 1, COPY_THREADS, 0, a);
	}
}

void cuda_fetch_wait(struct backend *be)
{
	gpu_join(cuda_of(be)->gpu);
}

/* ---- ranges of planes ---- */

struct range_launch {
	uint8_t *to;
	const uint8_t *from;
	int64_t head_bytes, bytes;
};

static __global__ void __launch_bounds__(COPY_THREADS) fetch_range_copy(struct range_launch a)
{
	int64_t at = blockIdx.y * a.head_bytes;

	bytes_copy(a.to + at, a.from + at, a.bytes, (int64_t)blockIdx.x * COPY_THREADS + threadIdx.x,
	           (int64_t)gridDim.x * COPY_THREADS);
}

void cuda_fetch_range(struct backend *be, struct tensor *to, const struct tensor *from, int32_t n_kv_head, int32_t cap,
                      int32_t slot0, int32_t n)
{
	struct range_launch a = {};
	int64_t row;
	int32_t blocks;

	if (be->failed || fetch_range_check(be, to, from, n_kv_head, cap, slot0, n) < 0 || !n)
		return;
	row = (int64_t)dtype_bytes(to->type, (uint64_t)to->cols);
	a.to = (uint8_t *)to->data + slot0 * row;
	a.from = (const uint8_t *)from->data + slot0 * row;
	a.head_bytes = cap * row;
	a.bytes = n * row;
	blocks = cuda_power(
		(int32_t)min((a.bytes + 16 * COPY_THREADS - 1) / (16 * COPY_THREADS), (int64_t)RANGE_BLOCKS));
	cuda_launch(cuda_of(be), fetch_range_copy, (unsigned)blocks, (unsigned)n_kv_head, 1, COPY_THREADS, 0, a);
}
