/* kernels/cuda/cuda_heads.cu - rmsnorm, rope, kv_put: operations on heads of queries, keys and values.
 *
 * Between the products of a layer there are up to six such calls: norms and rotations of query and key heads, and two
 * writes to the KV cache. Each call moves only a few KiB, so most of its time is the launch. To save launches,
 * consecutive calls share one launch of the kernel head_rows, which executes a list of jobs with a warp per head. If
 * the launch at the end of the queue (gpu_last()) has room, a call becomes an additional job of this launch. If the
 * call reads what a job writes, the call becomes an additional step of that job. A job has these steps, all optional
 * except the first:
 *
 *     read a head; norm it, and write the result; rotate it by up to three RoPE tables, each into an output of its own;
 *     write it to the KV cache.
 *
 * Results have the same bits with and without sharing.
 *
 * Launches: 1 for all calls on the heads of a layer; 1 for rmsnorm of whole rows. */
#include "kernels/cuda/cuda_quant.cuh"

extern "C" {
#include "kernels/common/quant.h"
}

/* ---- heads ---- */

enum {
	HEAD_JOBS = 5,    /* maximum number of jobs of a launch */
	HEAD_TURNS = 3,   /* maximum number of rotations of a job */
	HEAD_WARPS = 4,   /* maximum number of warps of a block */
	HEAD_MOST = 12288 /* maximum number of values of a head: they must fit 48 KiB of shared memory */
};

/* A rotation of a head by RoPE. The output `out` is [n][heads * dim], and the table is [n][dims]. */
struct head_turn {
	float *out;
	const float *table;
};
struct head_job {
	const float *x;      /* [n][heads * dim] the heads that the job reads */
	const float *weight; /* [dim] weights of the norm; NULL: no norm */
	float *normed;       /* destination of the normed head, or NULL */
	struct head_turn turn[HEAD_TURNS];
	void *plane;           /* plane of the KV cache to which the job writes the head, or NULL */
	int32_t heads, block0; /* number of heads per token, and number of the job's first block */
	/* `turns` is the number of rotations. If `in_place` is 1, the job has one rotation, which overwrites the head;
	 * if the job also writes the head to the KV cache, it writes the rotated head. */
	int32_t turns, in_place;
	/* the plane's element type, the plane's number of slots, and the slot of the first token */
	int32_t type, cap, slot0;
	float eps;
};
struct head_args {
	struct head_job job[HEAD_JOBS];
	int32_t jobs, n, dim;
	/* `dims` is the number of dimensions that a rotation changes, or 0 if no job has a rotation yet. `neox` defines
	 * which two dimensions are rotated together: i and i + dims / 2 if it is 1, otherwise 2 i and 2 i + 1. Both are
	 * the same for all jobs. */
	int32_t dims, neox;
	int32_t warps; /* number of warps of a block */
};

/* Write a head to the KV cache at `to`, converted to the plane's type. Called by all lanes of a warp. */
static __device__ void head_put(void *to, int type, const float *row, int dim, int lane)
{
	if (type == DT_F32) {
		for (int i = lane; i < dim; i += WARP)
			((float *)to)[i] = row[i];
	} else if (type == DT_F16) {
		for (int i = lane; i < dim; i += WARP)
			((__half *)to)[i] = __float2half_rn(row[i]);
	} else if (type == DT_BF16) {
		for (int i = lane; i < dim; i += WARP) {
			unsigned u = __float_as_uint(row[i]);

			((unsigned short *)to)[i] = (unsigned short)((u & 0x7fffffffu) > 0x7f800000u
			                                                     ? u >> 16 | 64
			                                                     : (u + 0x7fffu + (u >> 16 & 1u)) >> 16);
		}
	} else {
		/* Quantise 32 values per pass, as kernels/common/quant.c does. A block with NaN, infinity or a value
		 * beyond the range of f16 becomes NaN. */
		for (int b = 0; b < dim / 32; b++) {
			struct block_q8_0 *block = (struct block_q8_0 *)to + b;
			float x = row[32 * b + lane], top = warp_max(fabsf(x)), d, q;
			int finite = __all_sync(FULL_WARP, fabsf(x) <= 65504.0f);
			__half h = __float2half_rn(__fdiv_rn(top, 127.0f));

			d = __half2float(h);
			q = d > 0 && finite
			            ? fminf(fmaxf(floorf(__fadd_rn(__fadd_rn(__fdiv_rn(x, d), 127.0f), 0.5f)), 0.0f),
			                    254.0f) -
			                      127.0f
			            : 0.0f;
			block->qs[lane] = (int8_t)(int)q;
			if (lane == 0)
				block->d = finite ? __half_as_ushort(h) : 0x7e00;
		}
	}
}

/* Do the steps of the jobs, with a warp for each head. Between the steps, the head is in shared memory (`row`). */
__global__ void __launch_bounds__(WARP *HEAD_WARPS) head_rows(struct head_args a)
{
	SHARED_DYNAMIC(float, rows);
	int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP, at = 0;
	float *row = rows + warp * a.dim;

	while (at + 1 < a.jobs && (int)blockIdx.x >= a.job[at + 1].block0)
		at++;
	const struct head_job &j = a.job[at];
	int64_t unit = (int64_t)((int)blockIdx.x - j.block0) * a.warps + warp;
	float sum = 0;

	if (unit >= (int64_t)a.n * j.heads)
		return;
	int32_t token = (int32_t)(unit / j.heads), head = (int32_t)(unit % j.heads);
	size_t from = (size_t)unit * (size_t)a.dim;

	for (int i = lane; i < a.dim; i += WARP) {
		float x = j.x[from + i];

		row[i] = x;
		sum += x * x;
	}
	if (j.weight) {
		float scale = __fdiv_rn(1.0f, __fsqrt_rn(warp_sum(sum) / (float)a.dim + j.eps));

		for (int i = lane; i < a.dim; i += WARP) {
			float x = row[i] * scale * j.weight[i];

			row[i] = x;
			if (j.normed)
				j.normed[from + i] = x;
		}
	}
	__syncwarp();
	for (int t = 0; t < j.turns; t++) {
		const float *table = j.turn[t].table + (size_t)token * (size_t)a.dims;
		float *out = j.turn[t].out + from;
		int half = a.dims / 2;

		for (int i = lane; i < half; i += WARP) {
			int p = a.neox ? i : 2 * i, q = a.neox ? i + half : 2 * i + 1;
			float c = table[2 * i], s = table[2 * i + 1], x = row[p], y = row[q];
			float u = __fsub_rn(__fmul_rn(x, c), __fmul_rn(y, s)),
			      v = __fadd_rn(__fmul_rn(x, s), __fmul_rn(y, c));

			out[p] = u;
			out[q] = v;
			if (j.in_place) { /* no other lane reads this pair, so it may be overwritten */
				row[p] = u;
				row[q] = v;
			}
		}
		for (int i = a.dims + lane; i < a.dim; i += WARP)
			out[i] = row[i];
	}
	__syncwarp();
	if (j.plane) {
		size_t bytes = j.type == DT_F32    ? 4 * (size_t)a.dim
		               : j.type == DT_Q8_0 ? (size_t)a.dim / 32 * 34
		                                   : 2 * (size_t)a.dim;

		head_put((char *)j.plane + ((size_t)head * (size_t)j.cap + (size_t)j.slot0 + (size_t)token) * bytes,
		         j.type, row, a.dim, lane);
	}
}

/* A range of bytes. */
struct span {
	const char *p;
	size_t n;
};

static struct span span_of(const void *p, size_t n)
{
	struct span s = { (const char *)p, p ? n : 0 };

	return s;
}
/* 1 if the ranges overlap. */
static int spans_meet(struct span a, struct span b)
{
	return a.n && b.n && a.p < b.p + b.n && b.p < a.p + a.n;
}

enum { READS = 2 + HEAD_TURNS, WRITES = 2 + HEAD_TURNS };
/* List the ranges of memory that a job reads and writes. A range is empty if the job does not use it. */
static void job_spans(const struct head_args *a, const struct head_job *j, struct span reads[READS],
                      struct span writes[WRITES])
{
	size_t all = (size_t)a->n * (size_t)j->heads * (size_t)a->dim * 4;

	reads[0] = span_of(j->x, all);
	reads[1] = span_of(j->weight, (size_t)a->dim * 4);
	writes[0] = span_of(j->normed, all);
	writes[1] = span_of(j->plane, (size_t)j->heads * (size_t)j->cap *
	                                      (size_t)dtype_bytes((enum dtype)j->type, (uint64_t)a->dim));
	for (int t = 0; t < HEAD_TURNS; t++) {
		int is = t < j->turns;

		reads[2 + t] = span_of(is ? j->turn[t].table : NULL, (size_t)a->n * (size_t)a->dims * 4);
		writes[2 + t] = span_of(is ? j->turn[t].out : NULL, all);
	}
}

/* 1 if the jobs can run at the same time: neither job writes memory that the other job reads or writes. */
static int jobs_apart(const struct head_args *a, const struct head_job *j, const struct head_job *k)
{
	struct span rj[READS], wj[WRITES], rk[READS], wk[WRITES];

	job_spans(a, j, rj, wj);
	job_spans(a, k, rk, wk);
	for (int i = 0; i < WRITES; i++)
		for (int m = 0; m < WRITES; m++)
			if (spans_meet(wj[i], wk[m]) || spans_meet(wj[i], rk[m]) || spans_meet(rj[i], wk[m]))
				return 0;
	return 1;
}

/* 1 if a rotation to `out` can be added to job j. `out` may be the job's own input x, because a warp reads a whole head
 * before it writes. */
static int turn_fits(const struct head_args *a, const struct head_job *j, const float *out, const float *table)
{
	struct span reads[READS], writes[WRITES],
		o = span_of(out, (size_t)a->n * (size_t)j->heads * (size_t)a->dim * 4);
	struct span t = span_of(table, (size_t)a->n * (size_t)a->dims * 4);

	job_spans(a, j, reads, writes);
	if (spans_meet(t, o) || (spans_meet(reads[0], o) && out != j->x))
		return 0;
	for (int i = 1; i < READS; i++)
		if (spans_meet(reads[i], o))
			return 0;
	for (int i = 0; i < WRITES; i++)
		if (spans_meet(writes[i], t) || spans_meet(writes[i], o))
			return 0;
	return 1;
}

/* 1 if job `to` conflicts with no job of the queued launch (jobs_apart()), so that it can be added. If `at` is not -1,
 * `to` replaces job number `at` and is not compared with it. */
static int job_may_become(const struct head_args *a, const struct head_job *to, int at)
{
	for (int i = 0; i < a->jobs; i++)
		if (i != at && !jobs_apart(a, &a->job[i], to))
			return 0;
	return 1;
}

/* Return the queued launch of head_rows that a call for n tokens and heads of `dim` values may join, or NULL if there
 * is none. */
static struct head_args *heads_waiting(struct cuda *c, int32_t n, int32_t dim, unsigned **grid)
{
	struct head_args *a = (struct head_args *)gpu_last(c->gpu, (const void *)(void (*)(struct head_args))head_rows,
	                                                   sizeof *a, grid);

	return a && a->n == n && a->dim == dim ? a : NULL;
}

/* Add a job to the queued launch, or start a launch with it. */
static void heads_add(struct cuda *c, int32_t n, int32_t dim, int32_t dims, int neox, const struct head_job *job)
{
	unsigned *grid, blocks;
	struct head_args *w = heads_waiting(c, n, dim, &grid), a = {};

	if (w && w->jobs < HEAD_JOBS && (!dims || !w->dims || (w->dims == dims && w->neox == neox))) {
		int32_t before = w->dims;

		if (dims) {
			w->dims = dims;
			w->neox = neox;
		}
		if (job_may_become(w, job, -1)) {
			blocks = cuda_blocks((int64_t)n * job->heads, w->warps);
			w->job[w->jobs] = *job;
			w->job[w->jobs++].block0 = (int32_t)*grid;
			*grid += blocks;
			return;
		}
		w->dims = before;
	}
	a.job[0] = *job;
	a.jobs = 1;
	a.n = n;
	a.dim = dim;
	a.dims = dims;
	a.neox = neox;
	a.warps = HEAD_WARPS;
	while (a.warps > 1 && a.warps * dim > HEAD_MOST)
		a.warps /= 2;
	cuda_launch(c, head_rows, cuda_blocks((int64_t)n * job->heads, a.warps), 1, 1, (unsigned)(WARP * a.warps),
	            (unsigned)(a.warps * dim) * 4, a);
}

/* ---- operands ---- */

/* 1 if a head fits in shared memory. Otherwise set the error and return 0. */
static int head_fits(struct backend *be, int32_t dim)
{
	if (dim <= HEAD_MOST)
		return 1;
	backend_fail(be, "heads of %d values are more than a GPU's %d; use --device cpu", (int)dim, (int)HEAD_MOST);
	return 0;
}

/* ---- norms ---- */

/* Groups of up to NORM_HEAD values are normalised by head_rows, with a warp for each group. Larger groups, and groups
 * with different weights, are normalised by norm_rows, with a block of up to NORM_THREADS threads for each group. */
enum { NORM_HEAD = 512, NORM_THREADS = 1024 };

/* A group has `group` values, which are normalised together. If `wide` is 1, a thread reads four values at once. There
 * are `apart` sets of weights. Group i has set number i % apart. */
struct norm_args {
	float *out;
	const float *x, *weight;
	int32_t group, wide, apart;
	float eps;
};

/* Normalise groups of values, with a thread block for each group. */
__global__ void __launch_bounds__(NORM_THREADS) norm_rows(struct norm_args a)
{
	SHARED(float, part, [WARP]);
	const float *x = a.x + (size_t)blockIdx.x * (size_t)a.group;
	const float *weight = a.weight + (size_t)(blockIdx.x % (unsigned)a.apart) * (size_t)a.group;
	float *out = a.out + (size_t)blockIdx.x * (size_t)a.group, sum = 0, scale;
	int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP, step = (int)blockDim.x, most = a.group / 4;
	float4 kept[4]; /* the first 16,384 values of the group, kept in registers so that they are read only once */

	if (a.wide) {
#pragma unroll
		for (int k = 0; k < 4; k++) {
			int i = (int)threadIdx.x + k * step;

			kept[k] = i < most ? ((const float4 *)x)[i] : make_float4(0, 0, 0, 0);
			sum += kept[k].x * kept[k].x + kept[k].y * kept[k].y + kept[k].z * kept[k].z +
			       kept[k].w * kept[k].w;
		}
		for (int i = (int)threadIdx.x + 4 * step; i < most; i += step) {
			float4 v = ((const float4 *)x)[i];

			sum += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
		}
	} else {
		for (int i = (int)threadIdx.x; i < a.group; i += step)
			sum += x[i] * x[i];
	}
	sum = warp_sum(sum);
	if (lane == 0)
		part[warp] = sum;
	__syncthreads();
	sum = warp_sum(lane < step / WARP ? part[lane] : 0.0f);
	scale = __fdiv_rn(1.0f, __fsqrt_rn(sum / (float)a.group + a.eps));
	if (a.wide) {
#pragma unroll
		for (int k = 0; k < 4; k++) {
			int i = (int)threadIdx.x + k * step;

			if (i < most) {
				float4 w = ((const float4 *)weight)[i], v = kept[k];

				((float4 *)out)[i] = make_float4(v.x * scale * w.x, v.y * scale * w.y,
				                                 v.z * scale * w.z, v.w * scale * w.w);
			}
		}
		for (int i = (int)threadIdx.x + 4 * step; i < most; i += step) {
			float4 w = ((const float4 *)weight)[i], v = ((const float4 *)x)[i];

			((float4 *)out)[i] =
				make_float4(v.x * scale * w.x, v.y * scale * w.y, v.z * scale * w.z, v.w * scale * w.w);
		}
	} else {
		for (int i = (int)threadIdx.x; i < a.group; i += step)
			out[i] = x[i] * scale * weight[i];
	}
}

void cuda_rmsnorm(struct backend *be, struct tensor *out, const struct tensor *x, const struct tensor *w, int32_t group,
                  float eps, int32_t n)
{
	struct norm_args a = {};
	int32_t threads;

	if (cuda_stopped(be) || !(a.x = cuda_rows_of(be, x, n, 0, "rmsnorm")) ||
	    !(a.out = cuda_rows_of(be, out, n, x->cols, "rmsnorm")) ||
	    !(a.weight = cuda_rows_of(be, w, 1, w->cols == x->cols ? x->cols : group, "rmsnorm")))
		return;
	if (group <= 0 || x->cols % group) {
		backend_fail(be, "internal: rmsnorm got %d columns in groups of %d", (int)x->cols, (int)group);
		return;
	}
	if (n < 1)
		return;
	a.apart = w->cols / group;
	if (group <= NORM_HEAD && a.apart == 1) {
		struct head_job job = {};

		job.x = a.x;
		job.weight = a.weight;
		job.normed = a.out;
		job.heads = x->cols / group;
		job.eps = eps;
		heads_add(cuda_of(be), n, group, 0, 0, &job);
		return;
	}
	a.group = group;
	a.eps = eps;
	a.wide = group % 4 == 0 && ((uintptr_t)a.x | (uintptr_t)a.out | (uintptr_t)a.weight) % 16 == 0;
	threads = (a.wide ? group / 4 : group) + WARP - 1;
	threads = threads > NORM_THREADS ? NORM_THREADS : threads / WARP * WARP;
	cuda_launch(cuda_of(be), norm_rows, (unsigned)n * (unsigned)(x->cols / group), 1, 1, (unsigned)threads, 0, a);
}

/* ---- rotations ---- */

/* Add the rotation of x to a queued job: to the job whose normed result is x, or to a job without a norm that reads x.
 * Return 1, or 0 if no queued job can rotate x. */
static int rope_joins(struct cuda *c, float *out, const float *x, const float *table, int32_t heads, int32_t dim,
                      int32_t dims, int neox, int32_t n)
{
	unsigned *grid;
	struct head_args *w = heads_waiting(c, n, dim, &grid);

	if (!w || (w->dims && (w->dims != dims || w->neox != neox)))
		return 0;
	for (int i = 0; i < w->jobs; i++) {
		struct head_job *j = &w->job[i], to = *j;
		int32_t before = w->dims;
		int ok;

		if ((j->normed ? j->normed : j->x) != x || j->heads != heads || j->plane || j->in_place ||
		    j->turns == HEAD_TURNS)
			continue;
		if (out == x) {
			if (j->turns)
				/* x cannot be overwritten, because earlier rotations of this job also read it */
				continue;
			to.in_place = 1;
			to.normed = NULL; /* the rotation overwrites the normed head */
		}
		w->dims = dims;
		w->neox = neox;
		ok = turn_fits(w, &to, out, table);
		to.turn[to.turns].out = out;
		to.turn[to.turns++].table = table;
		if (ok && job_may_become(w, &to, i)) {
			*j = to;
			return 1;
		}
		w->dims = before;
	}
	return 0;
}

void cuda_rope(struct backend *be, struct tensor *out, const struct tensor *x, const struct tensor *table,
               int32_t head_dim, int32_t dims, int neox, int32_t n)
{
	struct cuda *c = cuda_of(be);
	struct head_job job = {};
	const float *from, *turns;
	float *to;

	if (cuda_stopped(be) || !(to = cuda_rows_of(be, out, n, x->cols, "rope")) ||
	    !(from = cuda_rows_of(be, x, n, 0, "rope")) || !(turns = cuda_rows_of(be, table, n, dims, "rope")))
		return;
	if (head_dim <= 0 || x->cols % head_dim || dims > head_dim || dims < 0 || dims % 2) {
		backend_fail(be, "internal: rope got %d columns, heads of %d, %d of them rotated", (int)x->cols,
		             (int)head_dim, (int)dims);
		return;
	}
	if (n < 1)
		return;
	if (!dims) {
		cuda_copy(be, out, 0, x, 0, n);
		return;
	}
	if (!head_fits(be, head_dim) ||
	    rope_joins(c, to, from, turns, x->cols / head_dim, head_dim, dims, neox != 0, n))
		return;
	job.x = from;
	job.heads = x->cols / head_dim;
	job.turns = 1;
	job.turn[0].out = to;
	job.turn[0].table = turns;
	job.in_place = to == from;
	heads_add(c, n, head_dim, dims, neox != 0, &job);
}

/* ---- the cache ---- */

/* Let a queued job that computes x also write x to the KV cache. Return 1, or 0 if there is no such job. */
static int put_joins(struct cuda *c, const float *x, const struct head_job *put, int32_t n, int32_t dim)
{
	unsigned *grid;
	struct head_args *w = heads_waiting(c, n, dim, &grid);

	for (int i = 0; w && i < w->jobs; i++) {
		struct head_job *j = &w->job[i], to = *j;
		const float *made = j->in_place ? j->turn[0].out : j->normed;

		if (made != x || j->heads != put->heads || j->plane)
			continue;
		to.plane = put->plane;
		to.type = put->type;
		to.cap = put->cap;
		to.slot0 = put->slot0;
		if (job_may_become(w, &to, i)) {
			*j = to;
			return 1;
		}
	}
	return 0;
}

void cuda_kv_put(struct backend *be, struct tensor *plane, const struct tensor *x, int32_t n_kv_head, int32_t slot0,
                 int32_t n)
{
	struct cuda *c = cuda_of(be);
	struct head_job job = {};
	enum dtype t = plane->type;

	if (cuda_stopped(be) || !(job.x = cuda_rows_of(be, x, n, 0, "kv_put")))
		return;
	if (t == DT_Q8_0 && plane->cols % 32) {
		backend_fail(be, "a q8_0 cache needs heads of a multiple of 32 values, not %d; use --kv-type f16",
		             (int)plane->cols);
		return;
	}
	if (!plane->data || plane->layout != LAYOUT_PLAIN || !kv_type_ok(t) || kv_transformed(t) || n_kv_head <= 0 ||
	    plane->rows % n_kv_head || (int64_t)n_kv_head * plane->cols != x->cols) {
		backend_fail(be, "internal: kv_put got a plane of the wrong shape");
		return;
	}
	job.cap = plane->rows / n_kv_head;
	if (slot0 < 0 || n > job.cap - slot0) {
		backend_fail(be, "internal: slots %d + %d do not fit a cache of %d", (int)slot0, (int)n, (int)job.cap);
		return;
	}
	job.plane = plane->data;
	job.heads = n_kv_head;
	job.type = t;
	job.slot0 = slot0;
	if (n < 1 || !head_fits(be, plane->cols) || put_joins(c, job.x, &job, n, plane->cols))
		return;
	heads_add(c, n, plane->cols, 0, 0, &job);
}
