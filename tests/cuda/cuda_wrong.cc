/* tests/cuda/cuda_wrong.cc - kernels with one mistake each (cuda_wrong.h). */
#include "tests/cuda/cuda_wrong.h"

#include <stdio.h>
#include <stdlib.h>

#include "kernels/cuda/cuda.cuh"
#include "kernels/cuda/cuda_mma.cuh"

/* ---- mistakes ---- */

struct sum_args { float *out; const float *x; int n, wrong; };

__global__ void sum_kernel(struct sum_args a)
{
	SHARED(float, part, [8]);
	SHARED_DYNAMIC(float, all);
	int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP, zero = a.n - 256;
	float s = a.x[threadIdx.x];

	/* Copy x to shared memory in one group of asynchronous copies. COPY_ODD: from an odd address. NOT_WAITED: do
	 * not wait for the group. */
	if (a.wrong == RIGHT || a.wrong == NOT_WAITED || a.wrong == COPY_ODD) {
		if (threadIdx.x < 64)
			copy16(all + 4 * threadIdx.x, a.x + 4 * threadIdx.x + (a.wrong == COPY_ODD), 1);
		copies_end();
		if (a.wrong == NOT_WAITED)
			copies_wait<1>();
		else
			copies_wait<0>();
		__syncthreads();
		s = all[threadIdx.x];
		__syncthreads();
	}
	if (a.wrong == SHARED_UNSET)
		s += part[warp];
	if (a.wrong == DIVIDES && threadIdx.x == 7)
		s += (float)(a.n / zero);
	if (a.wrong == ENDS_IN_WARP && threadIdx.x == 40)
		return;
	if (a.wrong == WARP_OR_BLOCK && threadIdx.x == 40)
		__syncthreads();
	if (a.wrong == OTHER_MASK && lane < 16)
		s = __shfl_xor_sync(0x0000ffffu, s, 1);
	if (a.wrong == LANE_OUTSIDE && lane < 16)
		s = __shfl_sync(0x0000ffffu, s, 20);
	if (a.wrong == NOT_ITSELF)
		s = __shfl_xor_sync(0x0000ffffu, s, 1);
	s = warp_sum(s);
	all[threadIdx.x] = s;
	if (lane == 0)
		part[warp] = s;
	if (a.wrong == TWO_BARRIERS && warp == 3)
		__syncthreads();
	else if (a.wrong != NO_BARRIER)
		__syncthreads();
	s = warp_sum(lane < 8 ? part[lane] : 0.0f);
	if (threadIdx.x)
		return;
	if (a.wrong == SHARED_BEHIND)
		(&part[0])[8 + zero] = 1;
	if (a.wrong == DYNAMIC_BEHIND)
		all[256] = 1;
	a.out[a.wrong == BEHIND ? 1 : a.wrong == IN_FRONT ? -1 : a.wrong == FAR_AWAY ? 100 << 20 : 0] = s;
}

extern "C" int wrong_run(enum wrong w, float *sum, char err[160])
{
	struct cuda c = {};
	struct sum_args a = {};
	float x[256];
	int r;

	if (gpu_open(&c.gpu, &c.info, err) < 0)
		return -1;
	for (int i = 0; i < 256; i++)
		x[i] = (float)i;
	a.x = (const float *)(w == HOST_POINTER ? x : gpu_stage(c.gpu, x, sizeof x));
	a.out = (float *)gpu_alloc(c.gpu, 4);
	a.n = 256;
	a.wrong = w;
	if (w == STAGED_LATE && gpu_sync(c.gpu, err) < 0)
		return -1;
	if (w == FREED) {
		float *p = (float *)gpu_alloc(c.gpu, 4096);

		gpu_free(c.gpu, p);
		a.x = p;
	}
	cuda_launch(&c, sum_kernel, 3, 1, 1, w == TOO_MANY_THREADS ? 1056 : 256, w == TOO_MUCH_SHARED ? 228 << 10 : 1024, a);
	gpu_read(c.gpu, sum, a.out, 4);
	r = gpu_sync(c.gpu, err);
	gpu_free(c.gpu, a.out);
	if (r == 0)
		r = gpu_sync(c.gpu, err);
	gpu_close(c.gpu);
	return r;
}

/* ---- the language ---- */

enum { CHECKS = 24 };
struct language_args { uint64_t *out; };

/* Each lane of a warp writes its result of each operation to the output. */
__global__ void language_kernel(struct language_args a)
{
	unsigned lane = threadIdx.x, x = lane * 2654435761u;
	uint64_t *out = a.out + lane * CHECKS;
	int i = 0;

	out[i++] = __shfl_sync(FULL_WARP, x, 5);
	out[i++] = __shfl_sync(FULL_WARP, x, (int)lane + 3, 8);
	out[i++] = __shfl_xor_sync(FULL_WARP, x, 9);
	out[i++] = __shfl_xor_sync(FULL_WARP, x, 9, 8);
	out[i++] = __shfl_up_sync(FULL_WARP, x, 3);
	out[i++] = __shfl_up_sync(FULL_WARP, x, 3, 4);
	out[i++] = __shfl_down_sync(FULL_WARP, x, 7);
	out[i++] = __shfl_down_sync(FULL_WARP, x, 7, 16);
	out[i++] = (uint64_t)__shfl_sync(FULL_WARP, (long long)x << 20, 31);
	out[i++] = __ballot_sync(FULL_WARP, lane % 3 == 0);
	out[i++] = (uint64_t)__any_sync(FULL_WARP, lane == 9);
	out[i++] = (uint64_t)__all_sync(FULL_WARP, lane != 9);
	out[i++] = __match_any_sync(FULL_WARP, lane % 5);
	out[i++] = __reduce_add_sync(FULL_WARP, x);
	out[i++] = (uint64_t)(int64_t)__reduce_min_sync(FULL_WARP, (int)x);
	out[i++] = __reduce_max_sync(FULL_WARP, x);
	out[i++] = __reduce_or_sync(FULL_WARP, 1u << lane % 7);
	out[i++] = lane % 2 ? __ballot_sync(0xaaaaaaaau, lane > 15) : __ballot_sync(0x55555555u, lane < 8);
	out[i++] = (uint64_t)__syncthreads_count(lane % 4 == 1);
	out[i++] = (uint64_t)__syncthreads_or(lane == 31);
	out[i++] = (uint64_t)__syncthreads_and(lane != 31);
	out[i++] = __byte_perm(0x33221100u, 0x77665544u, 0x7531u + lane);
	out[i++] = (uint64_t)(int64_t)__dp4a((int)x, 0x01ff7f80, 7);
	out[i++] = __popc(x) + 100 * __clz((int)x) + 10000 * __ffs((int)x);
}

#define LANGUAGE_CHECK(at, value) if (got[lane * CHECKS + (at)] != (uint64_t)(value)) return __LINE__
extern "C" int language_check(void)
{
	struct cuda c = {};
	struct language_args a = {};
	uint64_t got[32 * CHECKS];
	char err[160];
	unsigned sum = 0, top = 0;
	int least = 0;

	if (gpu_open(&c.gpu, &c.info, err) < 0)
		return __LINE__;
	a.out = (uint64_t *)gpu_alloc(c.gpu, sizeof got);
	cuda_launch(&c, language_kernel, 1, 1, 1, 32, 0, a);
	gpu_read(c.gpu, got, a.out, sizeof got);
	if (gpu_sync(c.gpu, err) < 0) {
		fprintf(stderr, "    %s\n", err);
		return __LINE__;
	}
	gpu_free(c.gpu, a.out);
	gpu_close(c.gpu);
	for (unsigned lane = 0; lane < 32; lane++) {
		unsigned x = lane * 2654435761u;

		sum += x;
		top = x > top ? x : top;
		least = (int)x < least ? (int)x : least;
	}
	for (unsigned lane = 0; lane < 32; lane++) {
		unsigned x = lane * 2654435761u, k = 2654435761u, bytes = 0, match = 0, sel = 0x7531u + lane;
		int dot = 7;

		LANGUAGE_CHECK(0, 5 * k);
		LANGUAGE_CHECK(1, ((lane & ~7u) + ((lane + 3) & 7)) * k);
		LANGUAGE_CHECK(2, (lane ^ 9) * k);
		/* A lane that names a lane of a later segment reads its own value; a lane that names a lane of an
		 * earlier segment reads that lane's value. */
		LANGUAGE_CHECK(3, (lane & 8 ? lane ^ 9 : lane) * k);
		LANGUAGE_CHECK(4, (lane < 3 ? lane : lane - 3) * k);
		LANGUAGE_CHECK(5, (lane % 4 < 3 ? lane : lane - 3) * k);
		LANGUAGE_CHECK(6, (lane > 24 ? lane : lane + 7) * k);
		LANGUAGE_CHECK(7, (lane % 16 > 8 ? lane : lane + 7) * k);
		LANGUAGE_CHECK(8, (uint64_t)(31 * k) << 20);
		LANGUAGE_CHECK(9, 0x49249249u);
		LANGUAGE_CHECK(10, 1);
		LANGUAGE_CHECK(11, 0);
		for (unsigned j = lane % 5; j < 32; j += 5)
			match |= 1u << j;
		LANGUAGE_CHECK(12, match);
		LANGUAGE_CHECK(13, sum);
		LANGUAGE_CHECK(14, (int64_t)least);
		LANGUAGE_CHECK(15, top);
		LANGUAGE_CHECK(16, 127);
		LANGUAGE_CHECK(17, lane % 2 ? 0xaaaa0000u : 0x55u);
		LANGUAGE_CHECK(18, 8);
		LANGUAGE_CHECK(19, 1);
		LANGUAGE_CHECK(20, 0);
		for (int i = 0; i < 4; i++) {
			unsigned n = sel >> (4 * i) & 15, byte = 0x11 * (n & 7);

			bytes |= (n & 8 ? byte & 0x80 ? 0xffu : 0u : byte) << (8 * i);
			dot += (int8_t)(x >> 8 * i) * (int8_t)(0x01ff7f80u >> 8 * i);
		}
		LANGUAGE_CHECK(21, bytes);
		LANGUAGE_CHECK(22, (int64_t)dot);
		LANGUAGE_CHECK(23, __builtin_popcount(x) + 100 * (x ? __builtin_clz(x) : 32) + 10000 * __builtin_ffs((int)x));
	}
	return 0;
}

/* ---- launches ---- */

struct add_args { unsigned long long *sum; unsigned long long *n; unsigned long long arg; };

template<int KIND> static void add(const struct add_args &a)
{
	if (blockIdx.x == 0 && threadIdx.x == 0)
		atomicAdd(a.n, 1ull);
	__syncthreads();
	if (threadIdx.x == 0)
		atomicAdd(a.sum, (KIND + 1) * a.arg);
}
__global__ void add_0(struct add_args a) { add<0>(a); }
__global__ void add_1(struct add_args a) { add<1>(a); }
__global__ void add_2(struct add_args a) { add<2>(a); }

/* total += n * sum, where `sum` is what was added since the last call. Then set sum to 0. So the total depends on the
 * order of the launches. */
struct weigh_args { unsigned long long *sum, *n, *total; };
__global__ void weigh(struct weigh_args a)
{
	if (threadIdx.x)
		return;
	*a.total += *a.n * *a.sum;
	*a.sum = 0;
}

struct wrong_queue { struct cuda c; unsigned long long *cell; };

extern "C" struct wrong_queue *queue_open(void)
{
	struct wrong_queue *q = (struct wrong_queue *)calloc(1, sizeof *q);
	char err[160];

	if (!q || gpu_open(&q->c.gpu, &q->c.info, err) < 0)
		abort();
	q->cell = (unsigned long long *)gpu_alloc(q->c.gpu, 3 * sizeof *q->cell);
	return q;
}

extern "C" void queue_close(struct wrong_queue *q)
{
	gpu_free(q->c.gpu, q->cell);
	gpu_close(q->c.gpu);
	free(q);
}

extern "C" void queue_launch(struct wrong_queue *q, int kind, unsigned grid, unsigned long long arg)
{
	struct add_args a = {};
	struct weigh_args w = {};

	a.sum = w.sum = q->cell;
	a.n = w.n = q->cell + 1;
	a.arg = arg;
	w.total = q->cell + 2;
	cuda_launch(&q->c, kind == 0 ? add_0 : kind == 1 ? add_1 : add_2, grid, 1, 1, 32, 0, a);
	cuda_launch(&q->c, weigh, 1, 1, 1, 32, 0, w);
}

extern "C" unsigned long long queue_sum(struct wrong_queue *q)
{
	static const unsigned long long zero[3] = {};
	unsigned long long cell[3];
	char err[160];

	gpu_read(q->c.gpu, cell, q->cell, sizeof cell);
	gpu_write(q->c.gpu, q->cell, zero, sizeof zero);
	if (gpu_sync(q->c.gpu, err) < 0) {
		fprintf(stderr, "    %s\n", err);
		return 0;
	}
	return cell[2];
}
