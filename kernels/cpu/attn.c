/* kernels/cpu/attn.c - attention. Queries are divided into tiles, keys into consecutive ranges (spans). A task computes
 * one tile, over one span or over all spans. The results of different spans are merged in ascending order of the
 * spans. */
#include <math.h>
#include <string.h>

#include "kernels/cpu/attn.h"
#include "kernels/cpu/select.h"

enum {
	SMALL_ATTN = 64 << 10,  /* up to this number of multiply-adds, one thread is faster than two */
	STATE_BYTES = 64 << 20, /* maximum size of partial states in bytes */
};

/* Working memory of one thread, in the thread's part of the scratch buffer. Each array has one element for each of the
 * tile's n_q queries, as in struct attn_tile. run[] has the softmax states of the queries over all spans so far, add[]
 * their states over the current span. The leaf function uses the floats at `leaf` as scratch memory. */
struct attn_mem {
	const float **q;
	float **score;
	/* [n_q][head_dim] Hadamard transforms of the queries, if keys are stored transformed (kv_transformed());
	 * otherwise NULL */
	float *transformed;
	int32_t *limit, *from;
	uint8_t *blocks;
	struct attn_state *run, *add;
	float *leaf;
};

static size_t attn_mem_cut(char *base, struct attn_mem *m, const struct attn_job *j, int32_t n_q)
{
	int32_t dim = j->a->head_dim;
	size_t n = (size_t)n_q, acc = align64(n * (size_t)dim * sizeof(float));
	size_t q = 0, score = q + align64(n * sizeof *m->q), limit = score + align64(n * sizeof *m->score);
	size_t from = limit + align64(n * sizeof *m->limit), blocks = from + align64(n * sizeof *m->from),
	       st = blocks + align64(n);
	size_t sums = st + align64(2 * n * sizeof *m->run), leaf = sums + 2 * acc;
	int transformed = kv_transformed(j->a->k->type);

	if (base) {
		m->q = (const float **)(base + q);
		m->score = (float **)(base + score);
		m->limit = (int32_t *)(base + limit);
		m->from = (int32_t *)(base + from);
		m->blocks = (uint8_t *)base + blocks;
		m->run = (struct attn_state *)(base + st);
		m->add = m->run + n;
		for (size_t i = 0; i < n; i++) {
			m->run[i].acc = (float *)(base + sums) + i * (size_t)dim;
			m->add[i].acc = (float *)(base + sums + acc) + i * (size_t)dim;
		}
		m->transformed = transformed ? (float *)(base + leaf) : NULL;
		m->leaf = (float *)(base + leaf + (transformed ? acc : 0));
	}
	return leaf + (transformed ? acc : 0) + align64(j->scratch(dim, n_q) * sizeof(float));
}

size_t attn_thread_bytes(const struct attn_job *j, int32_t n_q)
{
	struct attn_mem m;

	return attn_mem_cut(NULL, &m, j, n_q);
}

/* Return the number of slots in a span. Spans of a list are half as long, because a call with lists usually has one
 * token, and longer spans would give too few tasks. */
static int32_t span_slots(const struct attn_segment *p)
{
	return p->slots ? ATTN_SPAN / 2 : ATTN_SPAN;
}

int32_t segment_spans(const struct attn_segment *p)
{
	return ceil_div(p->n_slots, span_slots(p));
}

/* Return the number of slots of a segment in one KV head. */
static int32_t segment_slots(const struct attn_segment *p, int32_t head)
{
	return p->lengths ? ((const int32_t *)p->lengths->data)[head] : p->n_slots;
}

/* Write the Hadamard transform of a query to `to`, and return it. */
static const float *transformed_row(float *to, const float *from, size_t dim)
{
	memcpy(to, from, dim * sizeof *to);
	hadamard(to, (int32_t)dim);
	return to;
}

/* Set m->q to the queries of one tile (some tokens) and KV head. Set m->from and m->limit: query r sees the slots of
 * the segment from m->from[r] to m->limit[r] - 1. Return the number of queries. */
static int32_t attn_queries(const struct attn_job *j, int32_t seg, int32_t tile, int32_t head, struct attn_mem *m)
{
	const struct attn_segment *p = j->a->seg + seg;
	int32_t t0 = j->t0 + tile * j->tokens, t1 = MIN(t0 + j->tokens, j->t1), n_q = 0;
	int32_t last = seg == j->a->n_seg - 1 && !j->a->bidirectional, behind = 0;
	size_t dim = (size_t)j->a->head_dim;

	for (int32_t k = seg + 1; k < j->a->n_seg; k++)
		behind += j->a->seg[k].n_slots;
	for (int32_t i = t0; i < t1; i++)
		for (int32_t g = 0; g < j->group; g++) {
			size_t h = (size_t)head * (size_t)j->group + (size_t)g;

			m->q[n_q] = (const float *)p->q->data + ((size_t)i * (size_t)j->a->n_head + h) * dim;
			if (m->transformed)
				m->q[n_q] = transformed_row(m->transformed + (size_t)n_q * dim, m->q[n_q], dim);
			m->limit[n_q] = last ? p->n_slots - (j->n - 1 - i) : segment_slots(p, head);
			m->from[n_q] = 0;
			/* The window ends with the slot of the query's own token. The segments after this segment have
			 * `behind` slots. The window first covers the slots among these that the query sees. The rest
			 * of the window's length covers the last slots of this segment. */
			if (j->a->window && m->limit[n_q] + behind - (last ? 0 : j->n - 1 - i) > j->a->window)
				m->from[n_q] = MIN(m->limit[n_q] + behind - (last ? 0 : j->n - 1 - i) - j->a->window,
				                   m->limit[n_q]);
			n_q++;
		}
	return n_q;
}

/* Return the index of a query's token and head in the arrays of a probe, [token][n_head]. */
static size_t attn_query_row(const struct attn_job *j, int32_t tile, int32_t head, int32_t query)
{
	return (size_t)(tile * j->tokens + query / j->group) * (size_t)j->a->n_head + (size_t)head * (size_t)j->group +
	       (size_t)(query % j->group);
}

/* Return which blocks of a span (ATTN_SPAN slots) the query reads: bit b is 1 for block b of the span. If the call has
 * no attn_args.blocks, return all bits set. */
static uint8_t span_blocks(const struct attn_job *j, int32_t tile, int32_t head, int32_t query, int32_t span)
{
	const struct tensor *t = j->a->blocks;
	size_t token = (size_t)(j->t0 + tile * j->tokens + query / j->group),
	       of = (size_t)(head * j->group + query % j->group);

	return t ? ((const uint8_t *)
	                    t->data)[token * (size_t)t->cols + of * (size_t)(t->cols / j->a->n_head) + (size_t)span]
	         : 0xff;
}

/* For each query r of `t`, set t->blocks[r] to a bit mask: bit b is 1 if the query reads block b of the span. The
 * queries of `t` are the last t->n_q of the tile's n_q queries. If a probe needs the scores, set the scores of keys
 * that a query does not read to -inf. */
static void attn_blocks(const struct attn_job *j, int32_t span, int32_t tile, int32_t head, const struct attn_mem *m,
                        int32_t n_q, struct attn_tile *t)
{
	int32_t q0 = n_q - t->n_q;

	for (int32_t r = q0; r < n_q; r++)
		m->blocks[r] = span_blocks(j, tile, head, r, span);
	t->blocks = m->blocks + q0;
	for (int32_t r = 0; t->score && r < t->n_q; r++)
		for (int32_t k = t->k0; k < t->k1; k++)
			if (!attn_reads(t, r, k))
				t->score[r][k - t->k0] = -INFINITY;
}

/* Compute one span (ATTN_SPAN slots or fewer) for the queries of the tile that see any of its slots. Return the index
 * of the first of these queries. All later queries see the span, too, because queries are ordered by their limit, the
 * number of keys that they see. */
static int32_t attn_span(const struct attn_job *j, int32_t seg, int32_t span, int32_t tile, int32_t head,
                         const struct attn_mem *m, int32_t n_q, struct attn_state *st)
{
	const struct attn_args *a = j->a;
	const struct attn_segment *p = a->seg + seg;
	const struct tensor *k = p->k ? p->k : a->k, *v = p->k ? p->v : a->v;
	size_t row0 = (size_t)head * (size_t)(p->k ? p->cap : a->cap) + (size_t)(p->slots ? 0 : p->slot0);
	struct attn_tile t = {
		.head_dim = a->head_dim,
		.k_type = a->k->type,
		.v_type = a->v->type,
		.scale = a->scale,
		.softcap = a->softcap,
		.scratch = m->leaf,
		.k = (const char *)k->data + row0 * j->k_bytes,
		.v = (const char *)v->data + row0 * j->v_bytes,
		.rows = p->slots ? (const int32_t *)p->slots->data + (size_t)head * (size_t)p->slots->cols : NULL,
		.bias = p->bias ? (const float *)p->bias->data + (size_t)head * (size_t)p->bias->cols : NULL,
		.k0 = span * span_slots(p),
	};
	int32_t q0 = 0, col = 0;

	t.k1 = MIN(t.k0 + span_slots(p), m->limit[n_q - 1]);
	while (q0 < n_q && m->limit[q0] <= t.k0)
		q0++;
	for (int32_t i = 0; i < seg; i++)
		col += a->seg[i].n_slots;
	if (j->score && col >= j->first) {
		for (int32_t r = q0; r < n_q; r++)
			m->score[r] = j->score + attn_query_row(j, tile, head, r) * j->stride +
			              (size_t)(col - j->first + t.k0);
		t.score = m->score + q0;
	}
	t.q = m->q + q0;
	t.limit = m->limit + q0;
	t.from = a->window ? m->from + q0 : NULL;
	t.st = st + q0;
	t.n_q = n_q - q0;
	if (a->blocks)
		attn_blocks(j, span, tile, head, m, n_q, &t);
	if (t.n_q > 0)
		j->attn(&t);
	return q0;
}

static void attn_finish(const struct attn_job *j, int32_t tile, int32_t head, int32_t query,
                        const struct attn_state *st)
{
	size_t at = attn_query_row(j, tile, head, query), dim = (size_t)j->a->head_dim;
	float *out = j->out + ((size_t)j->t0 * (size_t)j->a->n_head + at) * dim, inv, l = st->l;

	if (j->a->sinks) {
		/* The sink adds to the sum of exponentials. If its score is by far the largest, the sum is
		 * infinite and the output 0. */
		float sink = ((const float *)j->a->sinks->data)[at % (size_t)j->a->n_head],
		      unit = j->c->fns->score_unit;

		l += expf((sink * unit - st->m) / unit);
	}
	inv = 1.0f / l;
	for (size_t d = 0; d < dim; d++)
		out[d] = st->acc[d] * inv;
	if (kv_transformed(j->a->v->type))
		hadamard(out, (int32_t)dim);
	if (j->score) {
		j->m[at] = st->m;
		j->l[at] = l;
	}
}

static void attn_tile_task(void *arg, int task, int worker)
{
	const struct attn_job *j = arg;
	/* Start with the last tiles: their tokens see the most keys, so these tiles take longest. */
	int32_t tile = j->tiles - 1 - task / j->a->n_kv_head, head = task % j->a->n_kv_head, n_q = 0, done = 0;
	struct attn_mem m;

	attn_mem_cut((char *)j->c->scratch.p + (size_t)worker * j->thread_bytes, &m, j, j->n_q);
	for (int32_t p = 0; p < j->a->n_seg; p++) {
		int32_t spans;

		n_q = attn_queries(j, p, tile, head, &m);
		spans = ceil_div(m.limit[n_q - 1], span_slots(j->a->seg + p));
		for (int32_t s = m.from[0] / span_slots(j->a->seg + p); s < spans; s++) {
			if (cpu_cancelled(j->c))
				return;
			/* The first span (range of slots) initialises the states of all queries, even of queries whose
			 * window begins after this span. */
			if (!done++) {
				attn_span(j, p, s, tile, head, &m, n_q, m.run);
				continue;
			}
			for (int32_t r = attn_span(j, p, s, tile, head, &m, n_q, m.add); r < n_q; r++)
				if (span_blocks(j, tile, head, r, s))
					j->c->fns->attn_merge(&m.run[r], &m.add[r], j->a->head_dim);
		}
	}
	for (int32_t r = 0; r < n_q; r++)
		attn_finish(j, tile, head, r, &m.run[r]);
}

/* Set the states of n_q queries to the state of a query that sees no key of the span. */
static void attn_empty(struct attn_state *st, int32_t n_q, int32_t dim)
{
	for (int32_t r = 0; r < n_q; r++) {
		st[r].m = -INFINITY;
		st[r].l = 0;
		memset(st[r].acc, 0, (size_t)dim * sizeof(float));
	}
}

/* Count one finished span (range of slots) of a work item (tile of tokens, KV head). The thread that finishes the last
 * span merges the partial results of all spans and writes the output. */
static void attn_span_done(const struct attn_job *j, int32_t item, struct attn_mem *m)
{
	int32_t tile = item / j->a->n_kv_head, head = item % j->a->n_kv_head, n_q, before;
	const struct attn_segment *last = j->a->seg + j->a->n_seg - 1;

	if (atomic_fetch_sub_explicit(&j->left[item], 1, memory_order_acq_rel) != 1)
		return;
	n_q = attn_queries(j, j->a->n_seg - 1, tile, head, m);
	before = j->spans - segment_spans(last);
	for (int32_t r = 0; r < n_q; r++) {
		struct attn_state *run = j->st + (size_t)item * (size_t)j->spans * (size_t)j->n_q + r;
		int32_t spans = before + ceil_div(m->limit[r], span_slots(last));

		for (int32_t s = 1; s < spans; s++)
			if (span_blocks(j, tile, head, r, s))
				j->c->fns->attn_merge(run, run + (size_t)s * (size_t)j->n_q, j->a->head_dim);
		attn_finish(j, tile, head, r, run);
	}
}

/* Find the segment to which a span of the call belongs, and return the index of the segment. Before the call, *span is
 * the number of the span among the spans of all segments; afterwards it is the number in its segment. */
static int32_t segment_of(const struct attn_job *j, int32_t *span)
{
	int32_t seg = 0;

	while (*span >= segment_spans(j->a->seg + seg))
		*span -= segment_spans(j->a->seg + seg++);
	return seg;
}

/* Return the n_q states of one span of a work item (tile, KV head), after setting their `acc` pointers. */
static struct attn_state *attn_states(const struct attn_job *j, int32_t item, int32_t span, int32_t n_q)
{
	size_t first = ((size_t)item * (size_t)j->spans + (size_t)span) * (size_t)j->n_q;

	for (int32_t r = 0; r < n_q; r++)
		j->st[first + (size_t)r].acc = j->acc + (first + (size_t)r) * (size_t)j->a->head_dim;
	return j->st + first;
}

void attn_span_task(void *arg, int task, int worker)
{
	const struct attn_job *j = arg;
	int32_t item = task / j->spans, in = task % j->spans, seg, n_q;
	int32_t tile = item / j->a->n_kv_head, head = item % j->a->n_kv_head, dim = j->a->head_dim;
	struct attn_state *st;
	struct attn_mem m;

	if (cpu_cancelled(j->c))
		return;
	seg = segment_of(j, &in);
	attn_mem_cut((char *)j->c->scratch.p + (size_t)worker * j->thread_bytes, &m, j, j->n_q);
	n_q = attn_queries(j, seg, tile, head, &m);
	st = attn_states(j, item, task % j->spans, n_q);
	if (m.from[0] >= (in + 1) * span_slots(j->a->seg + seg) ||
	    (j->a->seg[seg].lengths && m.limit[n_q - 1] <= in * span_slots(j->a->seg + seg)))
		attn_empty(st, n_q, dim);
	else if (m.limit[n_q - 1] > in * span_slots(j->a->seg + seg))
		attn_span(j, seg, in, tile, head, &m, n_q, st);
	attn_span_done(j, item, &m);
}

void attn_tokens_span(const struct attn_job *j, int32_t n, int32_t head, int32_t span, int worker)
{
	int32_t in = span, seg, n_q = 0, group = j->group;
	struct attn_mem m;

	if (cpu_cancelled(j->c))
		return;
	seg = segment_of(j, &in);
	attn_mem_cut((char *)j->c->scratch.p + (size_t)worker * j->thread_bytes, &m, j, n * group);
	for (int32_t i = 0; i < n; i++) {
		struct attn_mem own = m;
		struct attn_state *st = attn_states(j + i, head, span, group);

		own.q += n_q;
		own.limit += n_q;
		own.from += n_q;
		own.transformed = m.transformed ? m.transformed + (size_t)n_q * (size_t)j->a->head_dim : NULL;
		attn_queries(j + i, seg, 0, head, &own);
		for (int32_t r = 0; r < group; r++)
			m.run[n_q++] = st[r];
	}
	attn_span(j, seg, in, 0, head, &m, n_q, m.run);
	for (int32_t i = 0; i < n; i++) {
		memcpy(attn_states(j + i, head, span, group), m.run + i * group, (size_t)group * sizeof *m.run);
		attn_span_done(j + i, head, &m);
	}
}

/* Compute the offsets of the arrays `acc` and `left` (struct attn_job) in the memory for partial states. Return the
 * size of this memory. */
static size_t states_cut(const struct attn_job *j, size_t *acc, size_t *left)
{
	size_t items = (size_t)j->tiles * (size_t)j->a->n_kv_head, states = items * (size_t)j->spans * (size_t)j->n_q;

	*acc = align64(states * sizeof *j->st);
	*left = *acc + align64(states * (size_t)j->a->head_dim * sizeof(float));
	return *left + align64(items * sizeof *j->left);
}

int attn_split(struct attn_job *j, int32_t n)
{
	struct cpu *c = j->c;
	size_t all = 0, acc, left;
	char *p;

	for (int32_t t = 0; t < n; t++)
		all += states_cut(j + t, &acc, &left);
	if (all > STATE_BYTES || cpu_buffer_grow(c, &c->state, all) < 0)
		return 0;
	p = c->state.p;
	for (int32_t t = 0; t < n; t++, j++) {
		size_t bytes = states_cut(j, &acc, &left);

		j->st = (struct attn_state *)(void *)p;
		j->acc = (float *)(void *)(p + acc);
		j->left = (_Atomic int32_t *)(void *)(p + left);
		for (int32_t i = 0; i < j->tiles * j->a->n_kv_head; i++)
			atomic_init(&j->left[i], j->spans);
		p += bytes;
	}
	return 1;
}

/* Return how many tokens a tile has if a run of the pool computes n tokens. */
static int32_t tile_tokens(const struct attn_job *j, int32_t n)
{
	int64_t share = (int64_t)n * j->group * j->a->n_kv_head / (PROMPT_TILES * (int64_t)j->c->base.threads);
	int32_t queries = TILE_QUERIES;

	if (j->attn != j->c->fns->attn && share > TILE_QUERIES)
		queries = share < PROMPT_QUERIES ? (int32_t)share : PROMPT_QUERIES;
	return j->group < queries ? MIN(queries / j->group, n) : 1;
}

/* Divide the tokens from t0 to t1 - 1 of a job into tiles. */
static void attn_tiles(struct attn_job *j, int32_t t0, int32_t t1)
{
	j->t0 = t0;
	j->t1 = t1;
	j->tokens = tile_tokens(j, t1 - t0);
	j->tiles = ceil_div(t1 - t0, j->tokens);
	j->n_q = j->tokens * j->group;
	j->thread_bytes = attn_thread_bytes(j, j->n_q);
}

int attn_run(struct attn_job *j, int32_t t0, int32_t t1)
{
	struct cpu *c = j->c;
	int64_t items;
	double work;
	int split;

	attn_tiles(j, t0, t1);
	if (cpu_buffer_grow(c, &c->scratch, j->thread_bytes * (size_t)c->base.threads) < 0)
		return -1;
	if (j->selection)
		return fused_run(j, 1);
	items = (int64_t)j->tiles * j->a->n_kv_head;
	split = c->base.threads > 1 && j->spans > 1 && items < 2 * (int64_t)c->base.threads && attn_split(j, 1);
	if (c->base.failed)
		return -1;
	if (split)
		items *= j->spans;
	work = (double)(t1 - t0) * j->a->n_head * j->a->head_dim * 2 * (double)j->slots;
	if (work < SMALL_ATTN)
		for (int32_t t = 0; t < (int32_t)items; t++)
			(split ? attn_span_task : attn_tile_task)(j, t, 0);
	else
		pool_run(c->pool, split ? attn_span_task : attn_tile_task, j, (int)items);
	return cpu_cancelled(c) ? -1 : 0;
}

/* Return the number of spans of all segments. */
static int32_t count_spans(const struct attn_args *a)
{
	int32_t spans = 0;

	for (int32_t i = 0; i < a->n_seg; i++)
		spans += segment_spans(a->seg + i);
	return spans;
}

/* 1 if the lists of a segment, if it has lists, are within their limits. */
static int lengths_ok(const struct attn_segment *p, int32_t n_kv_head)
{
	int ok = 1;

	for (int32_t h = 0; p->lengths && h < n_kv_head; h++)
		ok &= segment_slots(p, h) >= 0 && segment_slots(p, h) <= p->n_slots;
	return ok;
}

/* 1 if every slot in the lists exists. The lists come from other operations; a wrong slot must not make attention read
 * other memory. */
static int lists_ok(const struct attn_args *a)
{
	for (int32_t i = 0; i < a->n_seg; i++) {
		const struct tensor *t = a->seg[i].slots;
		uint32_t most = 0, cap = (uint32_t)(a->seg[i].k ? a->seg[i].cap : a->cap);

		if (!lengths_ok(a->seg + i, a->n_kv_head))
			return 0;
		for (int32_t h = 0; t && !a->seg[i].selection && h < a->n_kv_head; h++) {
			const uint32_t *slot = (const uint32_t *)t->data + (size_t)h * (size_t)t->cols;

			for (int32_t k = 0; k < segment_slots(a->seg + i, h); k++)
				most = MAX(slot[k], most);
		}
		if (most >= cap)
			return 0;
	}
	return 1;
}

int attn_segments_met(struct attn_met *m, const struct attn_args *a)
{
	int32_t n = 0;

	if (a->n_seg > ATTN_MET_SEGMENTS)
		return -1;
	m->a = *a;
	m->a.seg = m->seg;
	if (a->probe) {
		m->probe = *a->probe;
		m->a.probe = &m->probe;
	}
	for (int32_t i = 0; i < a->n_seg; i++) {
		if (!predicate_ok(&a->seg[i].when))
			return -1;
		if (predicate_holds(&a->seg[i].when)) {
			m->seg[n] = a->seg[i];
			m->seg[n++].when.flag = NULL;
		} else if (a->probe) {
			m->probe.skip -= a->seg[i].n_slots;
		}
	}
	m->a.n_seg = n;
	return a->probe && m->probe.skip < 0 ? -1 : 0;
}

/* Check a call whose segments have no predicates, and fill in its job. Return 0, or -1 with the error set. */
static int attn_job_open(struct attn_job *j, struct cpu *c, const struct attn_args *a, int32_t n)
{
	struct backend *be = &c->base;
	int64_t width = (int64_t)a->n_head * a->head_dim;

	*j = (struct attn_job){ .c = c, .a = a, .n = n, .attn = c->fns->attn, .scratch = c->fns->attn_scratch };
	if (attn_check(be, a, n, &j->slots) < 0)
		return -1;
	if (!lists_ok(a))
		return backend_fail(be, "internal: attention got a list that is not within a cache of %d", (int)a->cap);
	if (a->prompt && c->fns->attn_prompt && a->k->type != DT_F32 && a->v->type != DT_F32) {
		j->attn = c->fns->attn_prompt;
		j->scratch = c->fns->attn_prompt_scratch;
	}
	j->spans = count_spans(a);
	j->out = cpu_rows_of(be, a->out, n, (int32_t)width, "attn");
	for (int32_t i = 0; i < a->n_seg; i++)
		cpu_rows_of(be, a->seg[i].q, n, (int32_t)width, "attn");
	j->group = a->n_head / a->n_kv_head;
	j->k_bytes = row_bytes(a->k);
	j->v_bytes = row_bytes(a->v);
	return be->failed ? -1 : 0;
}

void cpu_attn(struct backend *be, const struct attn_args *a, int32_t n)
{
	struct cpu *c = cpu_of(be);
	struct attn_job j;

	if (be->failed || n <= 0 || cpu_cancelled(c))
		return;
	for (int32_t i = 0; i < a->n_seg; i++)
		if (a->seg[i].when.flag) {
			struct attn_met m;

			if (n == 1 && !attn_segments_met(&m, a))
				cpu_attn(be, &m.a, n);
			else
				backend_fail(
					be,
					"internal: attention of %d tokens over %d parts got conditions that do not fit",
					(int)n, (int)a->n_seg);
			return;
		}
	if (attn_job_open(&j, c, a, n) < 0)
		return;
	for (int32_t i = 0; i < a->n_seg; i++) {
		const struct attn_selection *selection = a->seg[i].selection;

		if (selection && n == 1 && !j.selection) {
			j.selection = selection;
		} else if (selection) {
			cpu_key_scan(be, selection->scan);
			cpu_topk(be, selection->topk);
		}
	}
	if (be->failed)
		return;
	if (!attn_probe_wanted(a->probe, n))
		attn_run(&j, 0, n);
	else if (attn_probe_check(be, a, j.slots) == 0)
		probe_run(&j);
}

/* 1 if the one-token call `a` can be computed together with the call `first`. Also set *selection to the selection of
 * slots in the call `a`, or to NULL. */
static int attn_joins(const struct attn_args *a, const struct attn_args *first, const struct attn_selection **selection)
{
	int32_t selections = 0;

	*selection = NULL;
	for (int32_t i = 0; i < a->n_seg; i++) {
		if (a->seg[i].when.flag || a->seg[i].k)
			return 0;
		if (a->seg[i].selection) {
			*selection = a->seg[i].selection;
			selections++;
		}
	}
	return selections <= 1 && !attn_probe_wanted(a->probe, 1) && !a->blocks && a->n_head == first->n_head &&
	       a->n_kv_head == first->n_kv_head && a->head_dim == first->head_dim && a->prompt == first->prompt &&
	       a->k == first->k && a->v == first->v && a->cap == first->cap;
}

void cpu_attn_each(struct backend *be, const struct attn_args *a, int32_t n)
{
	struct cpu *c = cpu_of(be);
	struct attn_job job[ATTN_EACH_MOST];
	const struct attn_selection *selection[ATTN_EACH_MOST];
	int together = n <= ATTN_EACH_MOST;

	for (int32_t i = 0; i < n && together; i++)
		together = attn_joins(a + i, a, selection + i);
	if (!together || n == 1) {
		for (int32_t i = 0; i < n; i++)
			cpu_attn(be, a + i, 1);
		return;
	}
	if (be->failed || n <= 0 || cpu_cancelled(c))
		return;
	for (int32_t i = 0; i < n; i++) {
		if (attn_job_open(job + i, c, a + i, 1) < 0)
			return;
		job[i].selection = selection[i];
		attn_tiles(job + i, 0, 1);
	}
	fused_run(job, n);
}
