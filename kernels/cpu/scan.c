/* kernels/cpu/scan.c - key_scan: scores of all keys of a layer for one token.
 *
 * A scan reads every key, or its code in the key sketch, once per KV head, for all query heads that share this KV head.
 * A task computes the scores of some ranges of SCAN_RANGE keys and, for each range and query head, the maximum and the
 * sum of exponentials. The thread that finishes a KV head's last range merges maxima and sums in ascending order and
 * writes the head's row of the output. So the result does not depend on the threads.
 *
 * If possible, a task is a whole KV head, whose scores only one thread writes and reads. If the heads cannot be divided
 * evenly among the threads, the keys of the remaining heads are divided into chunks. If the keys of all heads were
 * divided into chunks, cache lines would move between processors; without a shared cache, this would take more time
 * than the scan itself. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/select.h"

enum { SMALL_SCAN = 128 << 10 }; /* up to this number of multiply-adds, one thread is faster than two */

/* Return the largest magnitude of q[i] * scale, as the bits of a float. If `fours` is 1, return instead the largest sum
 * of four such magnitudes, for a two-bit key sketch: the magnitudes of the four values that are multiplied with the
 * codes of the same byte. NaN and infinity give at least the bits of infinity. */
static uint32_t largest_bits(const float *q, float scale, int32_t dim, int fours)
{
	uint32_t bits = 0;

	for (int32_t i = 0; i < dim; i++) {
		float size = fabsf(q[i] * scale);
		uint32_t u;

		for (int32_t k = i + 4; fours && i % 16 < 4 && k < i + 16 && k < dim; k += 4)
			size += fabsf(q[k] * scale);
		memcpy(&u, &size, 4);
		bits = MAX(u, bits);
	}
	return bits;
}

/* Quantise a query q to signed bytes. If `lo` is NULL, q * scale is about mult * hi; otherwise it is about mult * (256
 * hi + lo). Set sum[g] to the sum of the quantised values of group g. */
static void query_bytes(int8_t *hi, int8_t *lo, int32_t *sum, float *mult, const float *q, float scale, int32_t dim)
{
	/* 1.5 * 2^23: adding this number and subtracting it again rounds to the nearest integer */
	const float round = 12582912.0f;
	float top = 0, inv, d;
	uint32_t bits = largest_bits(q, scale, dim, !lo);

	memcpy(&top, &bits, 4);
	if (bits >= 0x7f800000) {
		/* Bytes cannot represent NaN or infinity. The factor NaN makes all scores NaN. */
		*mult = NAN;
		return;
	}
	/* If `lo` is NULL, the query is for a two-bit key sketch. The four codes in a byte of the sketch are multiplied
	 * with four query values, and the sum of the products must fit in a byte. Codes are at most 3. So the
	 * magnitudes of the four values must not sum to more than 42: 3 * 42 = 126. Rounding may add 1/2 to each
	 * magnitude, so the largest sum is scaled to 40. */
	d = top / (lo ? 127.0f : 40.0f);
	/* For a subnormal d, 1 / d would overflow, so treat the query as zeros. */
	if (d < 1.17549435e-38f)
		d = 0;
	inv = d > 0 ? 1.0f / d : 0;
	*mult = lo ? d / 256 : d;
	for (int32_t g = 0; g < sketch_groups(dim); g++) {
		int32_t at = g * SKETCH_GROUP, n = sketch_values(dim, g), whole = 0, rest = 0;

		for (int32_t i = at; i < at + n; i++) {
			float v = q[i] * scale * inv, r = (v + round) - round;

			hi[i] = (int8_t)(int32_t)r;
			whole += (int32_t)r;
			if (lo) {
				float low = ((v - r) * 256 + round) - round;

				low = MIN(127, low);
				lo[i] = (int8_t)(int32_t)low;
				rest += (int32_t)low;
			}
		}
		sum[g] = lo ? 256 * whole + rest : whole;
	}
}

/* Write the lookup tables of a group of 64 query values (scan_tile.table). Half a byte of a key sketch has two codes,
 * and has a table of its own. The table has an entry for each of the 16 values of the half byte: the sum of the
 * products of both codes. No entry is above 126. */
static void lookup_tables(uint8_t *table, const int8_t *hi)
{
	for (int32_t i = 0; i < SKETCH_GROUP; i += 8)
		for (int32_t j = i; j < i + 4; j++, table += 16) {
			int32_t a = hi[j], b = hi[j + 4];
			uint32_t first = (uint32_t)abs(a) * (a < 0 ? 0x00010203u : 0x03020100u);

			for (int32_t c = 0; c < 4; c++) {
				uint32_t word = first + (uint32_t)(abs(b) * (b < 0 ? 3 - c : c)) * 0x01010101u;

				memcpy(table + 4 * c, &word, 4);
			}
		}
}

/* Write the row of the output for one KV head. score [group][ld] has the scores of the head's queries. */
static void scan_finish(const struct scan_job *j, int32_t head, const float *score)
{
	size_t first = (size_t)head * (size_t)j->group;

	for (int32_t r = 0; r < j->group; r++) {
		const float *max = j->max + first * (size_t)j->ranges + r, *sum = j->sum + (max - j->max);
		double mult = j->mult[first + (size_t)r], l = 0;
		float top = -INFINITY;

		j->lse[first + (size_t)r] = 0;
		if (j->raw)
			continue;
		for (int32_t i = 0; i < j->ranges * j->group; i += j->group)
			top = MAX(max[i], top);
		for (int32_t i = 0; i < j->ranges * j->group; i += j->group)
			l += sum[i] * exp(((double)max[i] - top) * mult);
		j->lse[first + (size_t)r] = (float)(top * mult + log(l));
	}
	j->fns->reduce(j->out + (size_t)head * j->out_cols, score, j->tile.ld, j->mult + first, j->lse + first,
	               j->group, j->n, j->reduce);
}

int scan_part(const struct scan_job *j, int32_t head, int32_t chunk, int worker)
{
	int32_t whole = head < j->whole, r0 = whole ? 0 : chunk * j->per_task,
		r1 = whole ? j->ranges : MIN(r0 + j->per_task, j->ranges);
	size_t first = (size_t)head * (size_t)j->group;
	struct scan_tile t = j->tile;

	t.keys = j->keys + (size_t)head * j->head_bytes;
	/* A KV head that is scanned by one task is called a whole head. Its scores are needed only until the task ends.
	 * So thread number `worker` stores the scores of all its whole heads in the same rows of score[], those of KV
	 * head number `worker`. No other thread uses these rows: if there are whole heads, there are at least as many
	 * as threads, so KV head number `worker` is also a whole head. */
	t.score = j->score + (size_t)(whole ? worker : head) * (size_t)j->group * t.ld;
	t.q += first * (((size_t)t.dim + 15) & ~(size_t)15);
	if (t.hi) {
		size_t groups = (size_t)sketch_groups(t.dim);

		t.hi += first * groups * SKETCH_GROUP;
		t.lo = t.lo ? t.lo + first * groups * SKETCH_GROUP : NULL;
		t.sum += first * groups;
		t.table = t.table ? t.table + first * groups * LOOKUP_BYTES : NULL;
		t.size = t.table ? t.size + first * groups : NULL;
		t.unit += first;
	}
	for (int32_t i = r0; i < r1; i++) {
		int32_t end;

		t.k0 = i * SCAN_RANGE;
		t.k1 = MIN(t.k0 + SCAN_RANGE, j->n);
		t.max = j->max + (first * (size_t)j->ranges + (size_t)i * (size_t)j->group);
		end = ceil_div(t.k1, SKETCH_PANEL) * SKETCH_PANEL;
		if (t.hi)
			j->fns->scan_sketch(&t);
		else
			j->fns->scan_rows(&t);
		for (int32_t r = 0; r < j->group; r++) {
			float *s = t.score + (size_t)r * t.ld;

			for (int32_t k = t.k1; k < end; k++)
				s[k] = -INFINITY;
			if (!j->raw)
				j->sum[t.max + r - j->max] =
					j->fns->sum_exp(s + t.k0, end - t.k0, t.max[r], j->mult[first + (size_t)r]);
		}
	}
	if (!whole && atomic_fetch_sub_explicit(&j->left[head], 1, memory_order_acq_rel) != 1)
		return 0;
	scan_finish(j, head, t.score);
	return 1;
}

int32_t scan_chunks(const struct scan_job *j, int32_t head)
{
	return head < j->whole ? 1 : j->chunks;
}

static void scan_task(void *arg, int task, int worker)
{
	const struct scan_job *j = arg;
	int32_t rest = task - j->whole;

	if (rest < 0)
		scan_part(j, task, 0, worker);
	else
		scan_part(j, j->whole + rest / j->chunks, rest % j->chunks, worker);
}

/* The memory of a scan, which is divided into arrays. If `base` is NULL, only add up the sizes of the arrays. */
struct scratch {
	char *base;
	size_t at;
};

static void *scratch_cut(struct scratch *s, size_t n, size_t size)
{
	void *p = s->base ? s->base + s->at : NULL;

	s->at += align64(n * size);
	return p;
}

/* Writable pointers to the arrays of queries to which struct scan_tile has const pointers. */
struct queries {
	float *rows;
	int8_t *hi, *lo;
	int32_t *sum;
	/* `unit` is described in struct scan_tile. transformed [dim] has one query after the Hadamard transform. */
	float *unit, *transformed;
	int32_t *size;
	uint8_t *table;
};

/* Set the array pointers of a job and of its queries to the memory that begins at `base`. Return the size of the arrays
 * in bytes. */
static size_t scan_layout(struct scan_job *j, struct queries *q, const struct scan_args *a, char *base)
{
	struct scratch s = { base, 0 };
	size_t heads = (size_t)a->n_head, dim = (size_t)j->tile.dim,
	       groups = heads * (size_t)sketch_groups(j->tile.dim);
	int sketch = j->tile.bits != 16, wide = sketch && j->tile.bits != 2,
	    looks_up = sketch && !wide && j->fns->looks_up;

	j->score = scratch_cut(&s, heads * j->tile.ld, sizeof(float));
	j->max = scratch_cut(&s, heads * (size_t)j->ranges, sizeof(float));
	j->sum = scratch_cut(&s, heads * (size_t)j->ranges, sizeof(float));
	j->mult = scratch_cut(&s, heads, sizeof(float));
	j->lse = scratch_cut(&s, heads, sizeof(float));
	j->left = scratch_cut(&s, (size_t)a->n_kv_head, sizeof *j->left);
	q->rows = scratch_cut(&s, heads * ((dim + 15) & ~(size_t)15), sizeof(float));
	if (sketch) {
		q->hi = scratch_cut(&s, groups * SKETCH_GROUP, 1);
		q->lo = wide ? scratch_cut(&s, groups * SKETCH_GROUP, 1) : NULL;
		q->sum = scratch_cut(&s, groups, sizeof(int32_t));
		q->unit = scratch_cut(&s, heads, sizeof(float));
		q->transformed = scratch_cut(&s, dim, sizeof(float));
		q->size = looks_up ? scratch_cut(&s, groups, sizeof(int32_t)) : NULL;
		q->table = looks_up ? scratch_cut(&s, groups * LOOKUP_BYTES, 1) : NULL;
	}
	return s.at;
}

/* Quantise head h's query for a scan of a key sketch, and build its lookup tables if the scan uses them. */
static void sketch_query(struct scan_job *j, struct queries *q, size_t h, const float *query, float scale)
{
	int32_t dim = j->tile.dim, groups = sketch_groups(dim), top = (1 << j->tile.bits) - 1;
	size_t first = h * (size_t)groups;
	int8_t *hi = q->hi + first * SKETCH_GROUP;
	int32_t *sum = q->sum + first;

	memcpy(q->transformed, query, (size_t)dim * sizeof *query);
	hadamard(q->transformed, dim);
	query_bytes(hi, q->lo ? q->lo + first * SKETCH_GROUP : NULL, sum, &j->mult[h], q->transformed, scale, dim);
	q->unit[h] = j->mult[h] > 0 ? scale / j->mult[h] : 0;
	for (int32_t g = 0; g < groups; g++, hi += SKETCH_GROUP) {
		int32_t size = 0;

		sum[g] *= top;
		if (!q->table)
			continue;
		for (int32_t i = 0; i < SKETCH_GROUP; i++)
			size += abs(hi[i]);
		q->size[first + (size_t)g] = size * top;
		lookup_tables(q->table + (first + (size_t)g) * LOOKUP_BYTES, hi);
	}
}

/* Scale a query for a scan of rows. If `pages` is 1, a row has the bounds of a page: the minima, then the maxima.
 * Negative query values are placed at the minima, positive query values at the maxima. So the dot product is an upper
 * bound for the products with the page's keys. */
static void row_query(float *row, const float *query, int32_t dim, float scale, int pages)
{
	for (int32_t i = 0; i < dim; i++) {
		float x = query[i] * scale;

		row[i] = pages && x > 0 ? 0 : x;
		if (pages)
			row[dim + i] = MAX(x, 0);
	}
}

int scan_prepare(struct backend *be, const struct scan_args *a, struct scan_job *j, int pages)
{
	struct cpu *c = cpu_of(be);
	size_t width = ((size_t)j->tile.dim + 15) & ~(size_t)15, bytes;
	const float *query = cpu_rows_of(be, a->q, 1, a->n_head * a->head_dim, "a scan of keys");
	struct queries q = { 0 };

	if (!query)
		return -1;
	j->fns = c->fns->select;
	j->out_cols = (size_t)a->out->cols;
	j->reduce = a->reduce;
	j->group = a->n_head / a->n_kv_head;
	j->tile.n_q = j->group;
	j->tile.ld = (size_t)ceil_div(j->n, SKETCH_PANEL) * SKETCH_PANEL;
	j->ranges = ceil_div(j->n, SCAN_RANGE);
	j->whole = a->n_kv_head - a->n_kv_head % c->base.threads;
	j->per_task = ceil_div(j->ranges, ceil_div(c->base.threads * 4, a->n_kv_head));
	j->chunks = ceil_div(j->ranges, j->per_task);
	j->tasks = j->whole + (a->n_kv_head - j->whole) * j->chunks;
	bytes = scan_layout(j, &q, a, NULL);
	if (cpu_buffer_grow(c, &c->scan, bytes) < 0)
		return -1;
	scan_layout(j, &q, a, c->scan.p);
	for (int32_t i = 0; i < a->n_kv_head; i++)
		atomic_init(&j->left[i], j->chunks);
	/* the values from index `dim` on are zeros */
	memset(q.rows, 0, bytes - (size_t)((char *)q.rows - (char *)c->scan.p));
	for (int32_t h = 0; h < a->n_head; h++, query += a->head_dim) {
		float *row = q.rows + (size_t)h * width;

		j->mult[h] = 1;
		if (!q.hi) {
			row_query(row, query, a->head_dim, a->scale, pages);
			if (kv_transformed(j->tile.type) && !pages)
				hadamard(row, a->head_dim);
			continue;
		}
		memcpy(row, query, (size_t)a->head_dim * sizeof *row);
		sketch_query(j, &q, (size_t)h, query, a->scale);
	}
	j->tile.q = q.rows;
	j->tile.hi = q.hi;
	j->tile.lo = q.lo;
	j->tile.sum = q.sum;
	j->tile.unit = q.unit;
	j->tile.table = q.table;
	j->tile.size = q.size;
	return 0;
}

void scan_run(struct backend *be, const struct scan_args *a, struct scan_job *j)
{
	if ((int64_t)j->n * a->n_head * j->tile.dim <= SMALL_SCAN)
		for (int32_t t = 0; t < j->tasks; t++)
			scan_task(j, t, 0);
	else
		pool_run(cpu_of(be)->pool, scan_task, j, j->tasks);
}

int scan_plan(struct backend *be, const struct scan_args *a, struct scan_job *j)
{
	*j = (struct scan_job){ .n = a->n_slots, .tile = { .bits = a->bits, .dim = a->head_dim } };
	if (be->failed || key_scan_check(be, a) < 0)
		return -1;
	if (j->n == 0)
		return 1;
	j->keys = a->keys->data;
	j->tile.type = a->keys->type;
	j->head_bytes = a->bits == 16 ? (size_t)a->cap * row_bytes(a->keys)
	                              : (size_t)sketch_blocks(a->cap) * sketch_block_bytes(a->head_dim, a->bits);
	j->out = a->out->data;
	return scan_prepare(be, a, j, 0);
}

void cpu_key_scan(struct backend *be, const struct scan_args *a)
{
	struct scan_job j;

	if (scan_plan(be, a, &j) == 0 && predicate_holds(&a->when))
		scan_run(be, a, &j);
}
