/* kernels/cpu/read_blocks.c - selects the blocks of keys that each query of a prompt reads.
 *
 * A first run of tasks computes means and variances of blocks of keys, with a task for each KV head and block. A
 * second run selects blocks, with a task for each KV head and some tokens.
 *
 * Means and variances are computed again in every call. With 512 tokens that takes less than a hundredth of the time
 * of attention, and nothing has to be cached, rolled back or saved. */
#include <math.h>
#include <string.h>

#include "kernels/cpu/select.h"

enum { TOKENS = 8 }; /* number of tokens in a task */

struct blocks_job {
	struct cpu *c;
	const struct read_blocks_args *a;
	int32_t n, group, chunks; /* number of tokens, of query heads per KV head, and of tasks per KV head */
	int32_t blocks;           /* number of blocks before the block of the last token */
	/* moments[] and logs[] have `ld` columns. The bit set of a query has `bytes` bytes. */
	size_t ld, bytes;
	/* Arrays for struct block_query: `moments` is [n_kv_head][3 * head_dim][ld], `logs` is [ld]. */
	float *moments, *logs;
	size_t part; /* number of floats in a thread's scratch memory */
};

/* Return the square of the distance between two rows, added up in eight partial sums. */
static float distance(const float *x, const float *y, int32_t dim)
{
	float sum[8] = { 0 };
	int32_t d = 0;

	for (; d + 8 <= dim; d += 8)
		for (int i = 0; i < 8; i++)
			sum[i] += (x[d + i] - y[d + i]) * (x[d + i] - y[d + i]);
	for (; d < dim; d++)
		sum[d % 8] += (x[d] - y[d]) * (x[d] - y[d]);
	return ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
}

/* Return the row with the largest distance from the mean of n rows. Set mean[] and variance[] to the mean and the
 * variance of each dimension over the other n - 1 rows. */
static const float *moments_of(const float *x, size_t row, int32_t n, int32_t dim, float *mean, float *variance)
{
	const float *far = x;
	float most = 0;

	memset(mean, 0, (size_t)dim * sizeof *mean);
	memset(variance, 0, (size_t)dim * sizeof *variance);
	for (int32_t i = 0; i < n; i++)
		for (int32_t d = 0; d < dim; d++)
			mean[d] += x[(size_t)i * row + (size_t)d];
	for (int32_t d = 0; d < dim; d++)
		mean[d] /= (float)n;
	for (int32_t i = 0; i < n; i++) {
		float y = distance(x + (size_t)i * row, mean, dim);

		far = y > most ? x + (size_t)i * row : far;
		most = MAX(y, most);
	}
	for (int32_t d = 0; d < dim; d++)
		mean[d] += (mean[d] - far[d]) / (float)(n - 1);
	for (const float *at = x; at < x + (size_t)n * row; at += row)
		for (int32_t d = 0; at != far && d < dim; d++)
			variance[d] += (at[d] - mean[d]) * (at[d] - mean[d]);
	for (int32_t d = 0; d < dim; d++)
		variance[d] /= (float)(n - 1);
	return far;
}

static void moments_task(void *arg, int task, int worker)
{
	const struct blocks_job *j = arg;
	const struct tensor *k = j->a->keys;
	int32_t head = task / j->blocks, block = task % j->blocks, first = block ? 0 : READ_FIRST;
	size_t dim = (size_t)j->a->head_dim, row = dim + 16, bytes = row_bytes(k);
	float *x = (float *)j->c->scratch.p + (size_t)worker * j->part, *mean = x + READ_BLOCK * row,
	      *variance = mean + dim;
	float *out = j->moments + (size_t)head * 3 * dim * j->ld, *column = out + READ_FIRST + block;
	const char *rows =
		(const char *)k->data + ((size_t)head * (size_t)j->a->cap + (size_t)block * READ_BLOCK) * bytes;
	const float *far;

	for (size_t i = 0; i < READ_BLOCK; i++)
		cpu_kv_floats(j->c->fns->select, k->type, x + i * row, rows + i * bytes, (int32_t)dim);
	far = moments_of(x + (size_t)first * row, row, READ_BLOCK - first, (int32_t)dim, mean, variance);
	for (size_t d = 0; d < dim; d++) {
		column[d * j->ld] = mean[d];
		column[(dim + d) * j->ld] = variance[d];
		column[(2 * dim + d) * j->ld] = far[d];
		for (size_t i = 0; i < (size_t)first; i++)
			out[(2 * dim + d) * j->ld + i] = x[i * row + d];
	}
}

static void blocks_task(void *arg, int task, int worker)
{
	const struct blocks_job *j = arg;
	const struct read_blocks_args *a = j->a;
	int32_t head = task / j->chunks, t0 = task % j->chunks * TOKENS;
	float *scratch = (float *)j->c->scratch.p + (size_t)worker * j->part;
	struct block_query b = {
		.moments = j->moments + (size_t)head * 3 * (size_t)a->head_dim * j->ld,
		.logs = j->logs,
		.ld = j->ld,
		.dim = a->head_dim,
		.scale = a->scale,
		.share = a->share,
		.weight = scratch,
		.variance = scratch + j->ld,
		.key = scratch + 2 * j->ld,
	};

	if (cpu_cancelled(j->c))
		return;
	for (int32_t t = t0; t < MIN(t0 + TOKENS, j->n); t++)
		for (int32_t g = 0; g < j->group; g++) {
			size_t h = (size_t)(head * j->group + g);

			b.own = (a->n_slots - j->n + t) / READ_BLOCK;
			b.q = (const float *)a->q->data + ((size_t)t * (size_t)a->n_head + h) * (size_t)a->head_dim;
			b.out = (uint8_t *)a->out->data + (size_t)t * (size_t)a->out->cols + h * j->bytes;
			memset(b.out, 0, j->bytes);
			if (b.own < 3)
				b.out[0] = (uint8_t)((2 << b.own) - 1);
			else
				j->c->fns->select->block_query(&b);
		}
}

void cpu_read_blocks(struct backend *be, const struct read_blocks_args *a, int32_t n)
{
	struct cpu *c = cpu_of(be);
	struct blocks_job j = { .c = c, .a = a, .n = n };
	size_t rows, x;

	if (be->failed || n <= 0 || cpu_cancelled(c) || read_blocks_check(be, a, n) < 0)
		return;
	cpu_rows_of(be, a->q, n, a->n_head * a->head_dim, "read_blocks");
	j.group = a->n_head / a->n_kv_head;
	j.chunks = ceil_div(n, TOKENS);
	j.blocks = (a->n_slots - 1) / READ_BLOCK;
	j.bytes = (size_t)(a->out->cols / a->n_head);
	j.ld = ((size_t)(j.blocks + READ_FIRST) + 15) & ~(size_t)15;
	rows = (size_t)a->n_kv_head * 3 * (size_t)a->head_dim * j.ld;
	x = READ_BLOCK * ((size_t)a->head_dim + 16) + 2 * (size_t)a->head_dim;
	j.part = align64((x > 3 * j.ld ? x : 3 * j.ld) * sizeof(float)) / sizeof(float);
	if (be->failed || cpu_buffer_grow(c, &c->state, (rows + j.ld) * sizeof(float)) < 0 ||
	    cpu_buffer_grow(c, &c->scratch, j.part * sizeof(float) * (size_t)c->base.threads) < 0)
		return;
	j.moments = c->state.p;
	j.logs = j.moments + rows;
	memset(j.moments, 0, rows * sizeof(float));
	for (size_t i = 0; i < j.ld; i++)
		j.logs[i] = i < READ_FIRST ? 0 : log2f(READ_BLOCK - 1 - (i == READ_FIRST ? READ_FIRST : 0));
	if (j.blocks > 2)
		pool_run(c->pool, moments_task, &j, a->n_kv_head * j.blocks);
	pool_run(c->pool, blocks_task, &j, a->n_kv_head * j.chunks);
}
