/* kernels/cpu_attn.c - attention: tiles of queries, spans of keys, merging in a fixed order. */
#include <math.h>
#include <string.h>

#include "kernels/cpu.h"

enum {
	SMALL_ATTN = 64 << 10,       /* multiply-adds that one thread does faster than two */
	TILE_QUERIES = 48,           /* (token, head) pairs of one tile */
	STATE_BYTES = 64 << 20,      /* most memory for partial states */
};

/* What attention reads is a row of spans: each part cut by ATTN_SPAN from its own start, the parts one after the other.
 * Units of work: (KV head, tile of tokens), or with few of these (decoding) also one span, whose partial states are
 * merged by whoever finishes the last one.  Both ways do the same merges in the same order. */
struct attn_job {
	struct cpu *c;
	const struct attn_args *a;
	float *out;
	int32_t n, group, tokens, tiles;
	int32_t spans;               /* of all parts */
	int32_t n_q;                 /* most queries of a tile */
	size_t row_bytes;            /* of a K or V row */
	size_t part_bytes;           /* scratch of one thread */
	/* Split over spans: */
	struct attn_state *st;       /* [tile][head][span][n_q] */
	float *acc;                  /* the same x head_dim */
	_Atomic int32_t *left;       /* [tile][head]: spans to go */
};

/* One thread's working memory, cut from its part of the scratch buffer. */
struct attn_mem {
	const float **q;
	int32_t *limit;
	struct attn_state *run, *add;
	float *leaf;
};

static size_t attn_mem_cut(char *base, struct attn_mem *m, const struct cpu_fns *f, int32_t n_q, int32_t dim)
{
	size_t at = 0, n = (size_t)n_q, acc = align64(n * (size_t)dim * sizeof(float));
	size_t q = at, limit = q + align64(n * sizeof *m->q), st = limit + align64(n * sizeof *m->limit);
	size_t sums = st + align64(2 * n * sizeof *m->run), leaf = sums + 2 * acc;

	if (base) {
		m->q = (const float **)(base + q);
		m->limit = (int32_t *)(base + limit);
		m->run = (struct attn_state *)(base + st);
		m->add = m->run + n;
		for (size_t i = 0; i < n; i++) {
			m->run[i].acc = (float *)(base + sums) + i * (size_t)dim;
			m->add[i].acc = (float *)(base + sums + acc) + i * (size_t)dim;
		}
		m->leaf = (float *)(base + leaf);
	}
	return leaf + align64(f->attn_scratch(dim, n_q) * sizeof(float));
}

/* Queries of one tile and head over one part, and how many of its rows they see; returns their number. */
static int32_t attn_queries(const struct attn_job *j, int32_t part, int32_t tile, int32_t head, struct attn_mem *m)
{
	const struct attn_part *p = j->a->part + part;
	int32_t t0 = tile * j->tokens, t1 = min32(t0 + j->tokens, j->n), n_q = 0;
	int32_t last = part == j->a->n_part - 1;
	size_t dim = (size_t)j->a->head_dim;

	for (int32_t i = t0; i < t1; i++)
		for (int32_t g = 0; g < j->group; g++) {
			size_t h = (size_t)head * (size_t)j->group + (size_t)g;

			m->q[n_q] = (const float *)p->q->data + ((size_t)i * (size_t)j->a->n_head + h) * dim;
			m->limit[n_q++] = last ? p->n_rows - (j->n - 1 - i) : p->n_rows;
		}
	return n_q;
}

/* Run one span of a part for the queries that see it; returns the first of them. */
static int32_t attn_span(const struct attn_job *j, int32_t part, int32_t span, int32_t head, const struct attn_mem *m,
                         int32_t n_q, struct attn_state *st)
{
	const struct attn_args *a = j->a;
	size_t plane = ((size_t)head * (size_t)a->cap + (size_t)a->part[part].row0) * j->row_bytes;
	struct attn_tile t = {
		.head_dim = a->head_dim, .kv_type = a->k->type, .scale = a->scale, .scratch = m->leaf,
		.k = (const char *)a->k->data + plane, .v = (const char *)a->v->data + plane,
		.k0 = span * ATTN_SPAN,
	};
	int32_t q0 = 0;

	t.k1 = min32(t.k0 + ATTN_SPAN, m->limit[n_q - 1]);
	while (q0 < n_q && m->limit[q0] <= t.k0)
		q0++;
	for (int32_t r = q0; r < n_q; r++) {
		st[r].m = -INFINITY;
		st[r].l = 0;
		memset(st[r].acc, 0, (size_t)a->head_dim * sizeof(float));
	}
	t.q = m->q + q0;
	t.limit = m->limit + q0;
	t.st = st + q0;
	t.n_q = n_q - q0;
	if (t.n_q > 0)
		j->c->fns->attn(&t);
	return q0;
}

static void attn_finish(const struct attn_job *j, int32_t tile, int32_t head, int32_t query,
                        const struct attn_state *st)
{
	int32_t dim = j->a->head_dim, token = tile * j->tokens + query / j->group;
	size_t h = (size_t)head * (size_t)j->group + (size_t)(query % j->group);
	float *out = j->out + ((size_t)token * (size_t)j->a->n_head + h) * (size_t)dim, inv = 1.0f / st->l;

	for (int32_t d = 0; d < dim; d++)
		out[d] = st->acc[d] * inv;
}

static void attn_tile_task(void *arg, int task, int worker)
{
	const struct attn_job *j = arg;
	/* Late tiles see more keys: start with the longest. */
	int32_t tile = j->tiles - 1 - task / j->a->n_kv_head, head = task % j->a->n_kv_head, n_q = 0, done = 0;
	struct attn_mem m;

	attn_mem_cut((char *)j->c->scratch.p + (size_t)worker * j->part_bytes, &m, j->c->fns, j->n_q,
	             j->a->head_dim);
	for (int32_t p = 0; p < j->a->n_part; p++) {
		int32_t spans;

		n_q = attn_queries(j, p, tile, head, &m);
		spans = ceil_div(m.limit[n_q - 1], ATTN_SPAN);
		for (int32_t s = 0; s < spans; s++) {
			if (cpu_cancelled(j->c))
				return;
			/* Every query sees the first span of all. */
			if (!done++) {
				attn_span(j, p, s, head, &m, n_q, m.run);
				continue;
			}
			for (int32_t r = attn_span(j, p, s, head, &m, n_q, m.add); r < n_q; r++)
				j->c->fns->attn_merge(&m.run[r], &m.add[r], j->a->head_dim);
		}
	}
	for (int32_t r = 0; r < n_q; r++)
		attn_finish(j, tile, head, r, &m.run[r]);
}

static void attn_span_task(void *arg, int task, int worker)
{
	const struct attn_job *j = arg;
	int32_t unit = task / j->spans, span = task % j->spans, part = 0, in = span;
	int32_t tile = unit / j->a->n_kv_head, head = unit % j->a->n_kv_head, n_q, dim = j->a->head_dim;
	size_t first = (size_t)unit * (size_t)j->spans * (size_t)j->n_q;
	struct attn_state *st = j->st + first + (size_t)span * (size_t)j->n_q;
	struct attn_mem m;

	if (cpu_cancelled(j->c))
		return;
	while (in >= ceil_div(j->a->part[part].n_rows, ATTN_SPAN))
		in -= ceil_div(j->a->part[part++].n_rows, ATTN_SPAN);
	attn_mem_cut((char *)j->c->scratch.p + (size_t)worker * j->part_bytes, &m, j->c->fns, j->n_q, dim);
	n_q = attn_queries(j, part, tile, head, &m);
	for (int32_t r = 0; r < n_q; r++)
		st[r].acc = j->acc + (first + (size_t)span * (size_t)j->n_q + (size_t)r) * (size_t)dim;
	if (m.limit[n_q - 1] > in * ATTN_SPAN)
		attn_span(j, part, in, head, &m, n_q, st);
	if (atomic_fetch_sub_explicit(&j->left[unit], 1, memory_order_acq_rel) != 1)
		return;
	n_q = attn_queries(j, j->a->n_part - 1, tile, head, &m);
	in = j->spans - ceil_div(j->a->part[j->a->n_part - 1].n_rows, ATTN_SPAN);
	for (int32_t r = 0; r < n_q; r++) {
		struct attn_state *run = j->st + first + r;
		int32_t spans = in + ceil_div(m.limit[r], ATTN_SPAN);

		for (int32_t s = 1; s < spans; s++)
			j->c->fns->attn_merge(run, run + (size_t)s * (size_t)j->n_q, dim);
		attn_finish(j, tile, head, r, run);
	}
}

/* Room for the partial states; 0 when splitting over spans would take too much. */
static int attn_split(struct attn_job *j)
{
	struct cpu *c = j->c;
	size_t units = (size_t)j->tiles * (size_t)j->a->n_kv_head;
	size_t states = units * (size_t)j->spans * (size_t)j->n_q;
	size_t st = align64(states * sizeof *j->st), left = align64(units * sizeof *j->left);
	size_t acc = align64(states * (size_t)j->a->head_dim * sizeof(float));

	if (c->base.threads == 1 || j->spans == 1 || units >= (size_t)c->base.threads * 2 || st + left + acc > STATE_BYTES)
		return 0;
	if (cpu_buffer_grow(c, &c->state, st + left + acc) < 0)
		return 0;
	j->st = c->state.p;
	j->acc = (float *)((char *)c->state.p + st);
	j->left = (_Atomic int32_t *)((char *)c->state.p + st + acc);
	for (size_t i = 0; i < units; i++)
		atomic_init(&j->left[i], j->spans);
	return 1;
}

static int plane_ok(const struct tensor *t, const struct attn_args *a)
{
	return t && t->data && t->layout == LAYOUT_PLAIN && (t->type == DT_F16 || t->type == DT_F32) &&
	       t->cols == a->head_dim && (int64_t)a->n_kv_head * a->cap <= t->rows;
}

/* The parts' shapes; counts spans and rows. */
static int parts_ok(struct attn_job *j, int64_t *rows)
{
	const struct attn_args *a = j->a;
	int64_t spans = 0;

	*rows = 0;
	for (int32_t i = 0; i < a->n_part; i++) {
		const struct attn_part *p = a->part + i;

		if (p->rows || p->row0 < 0 || p->n_rows < 0 || p->n_rows > a->cap - p->row0)
			return 0;
		*rows += p->n_rows;
		spans += ceil_div(p->n_rows, ATTN_SPAN);
	}
	j->spans = (int32_t)spans;
	return a->n_part > 0 && a->part[a->n_part - 1].n_rows >= j->n && *rows <= INT32_MAX;
}

void cpu_attn(struct backend *be, const struct attn_args *a, int32_t n)
{
	struct cpu *c = cpu_of(be);
	struct attn_job j = { .c = c, .a = a, .n = n };
	struct attn_mem m;
	int64_t width = (int64_t)a->n_head * a->head_dim, units, rows;
	double work;
	int split;

	if (be->failed || n <= 0 || cpu_cancelled(c))
		return;
	if (a->head_dim <= 0 || a->n_kv_head <= 0 || a->n_head % a->n_kv_head || width > INT32_MAX ||
	    !plane_ok(a->k, a) || !plane_ok(a->v, a) || a->k->type != a->v->type || !parts_ok(&j, &rows)) {
		cpu_fail(be, "internal: attention of %d tokens over %d parts got operands of the wrong shape", (int)n,
		         (int)a->n_part);
		return;
	}
	j.out = cpu_rows_of(be, a->out, n, (int32_t)width, "attn");
	for (int32_t i = 0; i < a->n_part; i++)
		cpu_rows_of(be, a->part[i].q, n, (int32_t)width, "attn");
	if (be->failed)
		return;
	j.group = a->n_head / a->n_kv_head;
	j.tokens = j.group < TILE_QUERIES ? TILE_QUERIES / j.group : 1;
	if (j.tokens > n)
		j.tokens = n;
	j.tiles = ceil_div(n, j.tokens);
	j.n_q = j.tokens * j.group;
	j.row_bytes = row_bytes(a->k);
	j.part_bytes = attn_mem_cut(NULL, &m, c->fns, j.n_q, a->head_dim);
	if (cpu_buffer_grow(c, &c->scratch, j.part_bytes * (size_t)c->base.threads) < 0)
		return;
	split = attn_split(&j);
	if (be->failed)
		return;
	units = (int64_t)j.tiles * a->n_kv_head * (split ? j.spans : 1);
	work = (double)n * (double)width * 2 * (double)rows;
	if (work < SMALL_ATTN)
		for (int32_t t = 0; t < (int32_t)units; t++)
			(split ? attn_span_task : attn_tile_task)(&j, t, 0);
	else
		pool_run(c->pool, split ? attn_span_task : attn_tile_task, &j, (int)units);
}
