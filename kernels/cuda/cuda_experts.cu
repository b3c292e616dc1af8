/* kernels/cuda/cuda_experts.cu - route, expert_table, experts: mixtures of experts whose choice stays on the device.
 *
 * For up to eight tokens, a launch computes the products of all experts that the tokens use. Its thread blocks read the
 * number of the expert from the result of route(), and the addresses of the expert's weights from a table. A block
 * computes rows for one pair of a token and an expert, as cuda_gemv.cu computes rows for one token. Then one kernel sums
 * the outputs of each token's experts in the order of their numbers, so the bits are those of experts_each(), which
 * computes more tokens.
 *
 * Launches: route: 1. experts, for up to eight tokens: 3, and 2 or more for the shared expert. */
#include <stdlib.h>

#include "kernels/cuda/cuda_gemv_rows.cuh"

/* ---- the choice ---- */

struct route_job {
	float *out;
	const float *score, *bias, *scale, *shared;
	int32_t n_expert, n_used, whole, sigmoid;
};

static __device__ inline double sigmoid_of(float x)
{
	return 1 / (1 + exp(-(double)x));
}

/* 1 if an expert with rank a and number i is chosen before one with rank b and number j, or if j is -1. */
static __device__ inline int chosen_before(float a, int i, float b, int j)
{
	if (i < 0 || j < 0)
		return i >= 0;
	if (isnan(b))
		return !isnan(a) || i > j;
	return a > b || (a == b && i < j);
}

/* Return the number of the expert that is not taken and has the highest rank. Called by all lanes of a warp. */
static __device__ int best_rank(const float *rank, const uint8_t *taken, int n_expert)
{
	int best = -1;
	float top = 0;

	for (int e = (int)threadIdx.x; e < n_expert; e += WARP)
		if (!taken[e] && chosen_before(rank[e], e, top, best)) {
			best = e;
			top = rank[e];
		}
	for (int d = WARP / 2; d > 0; d /= 2) {
		int other = __shfl_xor_sync(FULL_WARP, best, d);
		float at = __shfl_xor_sync(FULL_WARP, top, d);

		if (chosen_before(at, other, top, best)) {
			best = other;
			top = at;
		}
	}
	return best;
}

/* A warp chooses the experts of one token. Sums are computed in double and in order by one lane, so that they have the
 * bits of the CPU. */
__global__ void route_kernel(struct route_job a)
{
	SHARED(float, score, [EXPERTS_MAX]);
	SHARED(float, rank, [EXPERTS_MAX]);
	SHARED(double, term, [EXPERTS_MAX]);
	SHARED(int, chosen, [EXPERTS_MAX]);
	SHARED(uint8_t, taken, [EXPERTS_MAX]);
	int lane = (int)threadIdx.x, terms = a.whole ? a.n_expert : a.n_used;
	const float *from = a.score + (size_t)blockIdx.x * (size_t)a.n_expert;
	float *out = a.out + (size_t)blockIdx.x * (size_t)ROUTE_COLS(a.n_used), most = -INFINITY;
	double sum = 0;

	for (int e = lane; e < a.n_expert; e += WARP) {
		score[e] = a.sigmoid ? (float)sigmoid_of(from[e]) : from[e];
		rank[e] = a.bias ? score[e] + a.bias[e] : score[e];
		taken[e] = 0;
	}
	__syncwarp();
	for (int k = 0; k < a.n_used; k++) {
		int best = best_rank(rank, taken, a.n_expert), at = k;

		for (; lane == 0 && at > 0 && chosen[at - 1] > best; at--)
			chosen[at] = chosen[at - 1];
		if (lane == 0) {
			chosen[at] = best;
			taken[best] = 1;
		}
		most = score[best] > most ? score[best] : most;
		__syncwarp();
	}
	for (int i = lane; i < terms; i += WARP) {
		float s = score[a.whole ? i : chosen[i]];

		term[i] = a.sigmoid && !a.whole ? (double)s : exp((double)s - (double)most);
	}
	__syncwarp();
	for (int i = 0; i < terms; i++)
		sum += term[i];
	for (int k = lane; k < a.n_used; k += WARP) {
		double s = (double)score[chosen[k]];
		float share = (float)(a.sigmoid ? s / (sum + 1e-6) : exp(s - (double)most) / sum);

		out[k] = (float)chosen[k];
		out[a.n_used + k] = a.scale ? share * a.scale[chosen[k]] : share;
	}
	if (lane == 0)
		out[2 * a.n_used] = a.shared ? (float)sigmoid_of(a.shared[blockIdx.x]) : 1;
}

static const float *data_of(const struct tensor *t)
{
	return t ? (const float *)t->data : NULL;
}

void cuda_route(struct backend *be, const struct route_args *a, int32_t n)
{
	struct route_job j = {};

	if (cuda_stopped(be) || n < 1 || route_check(be, a, n) < 0)
		return;
	j.out = (float *)a->out->data;
	j.score = data_of(a->score);
	j.bias = data_of(a->bias);
	j.scale = data_of(a->scale);
	j.shared = data_of(a->shared);
	j.n_expert = a->score->cols;
	j.n_used = a->n_used;
	j.whole = a->whole;
	j.sigmoid = a->sigmoid;
	cuda_launch(cuda_of(be), route_kernel, (unsigned)n, 1, 1, WARP, 0, j);
}

/* ---- the table ---- */

enum { GATE, UP, DOWN, MATRICES };
/* Addresses of an expert's weights and biases; NULL: no bias. */
struct expert_entry {
	const uint8_t *w[MATRICES];
	const float *bias[MATRICES];
};

int cuda_expert_table(struct backend *be, struct tensor *t, const struct expert *expert, int32_t n)
{
	struct expert_entry *entry = (struct expert_entry *)calloc((size_t)n, sizeof *entry);

	*t = { NULL, DT_U8, n, (int32_t)sizeof *entry, LAYOUT_PLAIN };
	if (!entry)
		return backend_fail(be, "out of memory");
	for (int32_t i = 0; i < n; i++) {
		const struct expert *e = &expert[i];
		const struct tensor *w[] = { &e->gate, &e->up, &e->down },
				    *bias[] = { &e->gate_bias, &e->up_bias, &e->down_bias };

		for (int m = 0; m < MATRICES; m++) {
			struct weight_rows rows = {};

			cuda_weight_rows(cuda_of(be), w[m], &rows);
			entry[i].w[m] = rows.p;
			entry[i].bias[m] = data_of(bias[m]);
		}
	}
	if (!be->failed && cuda_alloc(be, t) == 0)
		cuda_write(be, t, 0, entry, (size_t)n * sizeof *entry);
	free(entry);
	return be->failed ? -1 : 0;
}

/* ---- products of a few tokens ---- */

/* Arguments of expert_product(). It computes act(gate) * up of token pair / n_used (`glu`), or `down` of the result for
 * a pair. */
struct expert_job {
	struct weight_rows w[2]; /* gate and up, or down alone; their addresses are in the table */
	const struct expert_entry *table;
	const float *route, *x; /* x is f32 [tokens][cols] (glu), or [pairs][cols] */
	float *out;             /* f32 [pairs][rows] */
	int32_t n_expert, n_used, cols, tile, glu, act;
	int32_t per; /* number of groups of rows that a thread block computes */
	int32_t unused;
};

/* What a thread block multiplies: the input of its pair, with the members that rows_times() reads, and the expert's
 * entry. It is in shared memory, because gemv<1>() leaves no registers for it. */
struct expert_block {
	const float *x;
	const uint8_t *acts;
	int32_t n, cols, tile;
	struct expert_entry expert;
};

/* blockIdx.y is the pair. A thread block computes rows as gemv<1>() does. */
__global__ void __launch_bounds__(WARPS *WARP, 2) expert_product(struct expert_job a)
{
	SHARED_DYNAMIC(uint8_t, acts);
	SHARED(struct expert_block, in, [1]);
	int ready = -1, rows = a.w[0].rows;
	int lane = (int)(threadIdx.x % WARP), warp = (int)(threadIdx.x / WARP);

	if (threadIdx.x == 0) {
		int pair = (int)blockIdx.y, token = pair / a.n_used;
		int number = (int)a.route[(size_t)token * (size_t)ROUTE_COLS(a.n_used) + (size_t)(pair % a.n_used)];

		in[0] = { a.x + (size_t)(a.glu ? token : pair) * (size_t)a.cols, NULL, 1, a.cols, a.tile,
			  a.table[min(max(number, 0), a.n_expert - 1)] };
	}
	__syncthreads();
#pragma unroll 1
	for (int g = 0; g < a.per; g++) {
		int64_t top = ((int64_t)blockIdx.x * a.per + g) * GROUP;
		int row0 = (int)top + warp * ROWS, row = row0 + lane, stores = lane < ROWS && row < rows;
		float value = 0, acc[ROWS][1];

		if (top >= rows)
			break;
#pragma unroll 1
		for (int pass = 0; pass <= a.glu; pass++) {
			int m = a.glu ? pass : DOWN;
			float before = value;

			rows_times<1>(in[0], a.w[pass], in[0].expert.w[m], row0, acts, &ready, acc);
#pragma unroll
			for (int r = 0; r < ROWS; r++) {
				float sum = warp_sum(acc[r][0]);

				if (lane == r)
					value = sum;
			}
			if (stores && in[0].expert.bias[m])
				value += in[0].expert.bias[m][row];
			if (pass)
				value = gated(a.act, before, value);
		}
		if (stores)
			a.out[(size_t)blockIdx.y * (size_t)rows + (size_t)row] = value;
	}
}

/* Launch expert_product() for `pairs` pairs. */
static void product_run(struct cuda *c, struct expert_job *a, int32_t pairs)
{
	int64_t groups = (a->w[0].rows + GROUP - 1) / GROUP,
		per = groups * pairs / (4 * (int64_t)c->info.processors + 1);
	unsigned shared = 0;

	a->per = (int32_t)MIN(MAX(per, 1), 4);
	a->tile = MIN(SHARED_BYTES / ACT_BYTES / 32 * 32 * 32, a->cols);
	for (int i = 0; i <= a->glu; i++)
		if (quant_is(a->w[i].type))
			shared = (unsigned)(a->tile / 32 * ACT_BYTES);
	cuda_launch(c, expert_product, cuda_blocks(groups, a->per), (unsigned)pairs, 1, WARPS * WARP, shared, *a);
}

struct sum_job {
	float *out;
	const float *x, *part, *shared, *route;
	int64_t cols;
	int32_t n_used, unused;
};

/* Sum the outputs of a token's experts. blockIdx.y is the token; a thread computes one column. The sum begins with 0 x,
 * as in experts_each(): NaN and infinity in x reach the result. */
__global__ void experts_sum(struct sum_job a)
{
	int64_t c = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, token = blockIdx.y;
	const float *weight = a.route + token * ROUTE_COLS(a.n_used) + a.n_used,
		    *part = a.part + token * a.n_used * a.cols + c;
	float sum;

	if (c >= a.cols)
		return;
	sum = __fmul_rn(0.0f, a.x[token * a.cols + c]);
	for (int k = 0; k < a.n_used; k++)
		sum += weight[k] * part[k * a.cols];
	if (a.shared)
		sum += weight[a.n_used] * a.shared[token * a.cols + c];
	a.out[token * a.cols + c] = sum;
}

/* Compute the shared expert of all tokens to a->part. */
static void shared_run(struct backend *be, const struct experts_args *a, int32_t n)
{
	struct tensor hidden = *a->hidden;
	struct matmul_glu glu = {};
	struct matmul down = {};

	hidden.cols = a->shared->gate.rows;
	glu.gate = &a->shared->gate;
	glu.up = &a->shared->up;
	glu.act = a->act;
	down.out = a->part;
	down.w = &a->shared->down;
	cuda_matmul_glu(be, &hidden, &glu, a->x, n);
	cuda_matmul(be, &down, 1, &hidden, n);
}

static void experts_few(struct cuda *c, const struct experts_args *a, int32_t n)
{
	struct expert_job j = {};
	struct sum_job s = {};
	struct weight_rows down;
	int32_t pairs = n * a->n_used;
	size_t hidden;

	if (cuda_weight_rows(c, &a->expert->gate, &j.w[0]) < 0 || cuda_weight_rows(c, &a->expert->up, &j.w[1]) < 0 ||
	    cuda_weight_rows(c, &a->expert->down, &down) < 0)
		return;
	hidden = align256((size_t)pairs * (size_t)j.w[0].rows * sizeof(float));
	if (cuda_buffer_grow(c, &c->experts, hidden + (size_t)pairs * (size_t)down.rows * sizeof(float)) < 0)
		return;
	if (a->shared)
		shared_run(&c->base, a, n);
	j.table = (const struct expert_entry *)a->table->data;
	j.route = s.route = (const float *)a->route->data;
	j.x = s.x = (const float *)a->x->data;
	j.out = (float *)c->experts.p;
	j.n_expert = a->n_expert;
	j.n_used = s.n_used = a->n_used;
	j.cols = a->x->cols;
	j.glu = 1;
	j.act = a->act;
	product_run(c, &j, pairs);
	j.w[0] = down;
	j.x = j.out;
	j.out = (float *)((char *)c->experts.p + hidden);
	j.cols = down.cols;
	j.glu = 0;
	product_run(c, &j, pairs);
	s.out = (float *)a->out->data;
	s.part = j.out;
	s.shared = a->shared ? (const float *)a->part->data : NULL;
	s.cols = a->out->cols;
	cuda_launch(c, experts_sum, cuda_blocks(s.cols, 128), (unsigned)n, 1, 128, 0, s);
}

void cuda_experts(struct backend *be, const struct experts_args *a, int32_t n)
{
	const struct expert *e = a->expert;

	if (cuda_stopped(be) || n < 1 || experts_check(be, a, n) < 0)
		return;
	if (!a->table->data || e->gate.cols != a->x->cols || e->up.cols != a->x->cols || e->gate.rows != e->up.rows ||
	    e->down.cols != e->gate.rows || e->down.rows != a->out->cols) {
		backend_fail(be, "internal: experts got weights of the wrong shape");
		return;
	}
	if (n > GEMV_TOKENS)
		experts_each(be, a, n);
	else
		experts_few(cuda_of(be), a, n);
}
