/* kernels/cpu/fused_select_attn.c - selects slots (scan, topk) and computes attention over them in one run of the
 * thread pool: for one token, or for several tokens that read the same planes, each with its own lists of slots.
 *
 * The thread that finishes the scan of a KV head selects its slots. Meanwhile other threads scan the next head or
 * already compute attention. With a run for each operation, all threads would wait for the slowest task at the end of
 * each run. With few heads, this waiting would take half as long as the work.
 *
 * With several tokens, scans of the same head follow each other, so all scans except the first find the key sketch in
 * the processor's caches. Segments without a list of slots are computed for all tokens together. */
#include "kernels/cpu/attn.h"
#include "kernels/cpu/select.h"

/* Up to SMALL_SELECTION multiply-adds, one thread is faster than two. Up to WHOLE_KEYS keys, each KV head is scanned by
 * one thread. Threads that have no KV head to scan start to compute attention. */
enum { SMALL_SELECTION = 128 << 10, WHOLE_KEYS = 8 << 10 };

/* A kind of task. SCAN computes scores of a chunk of keys. SPAN computes the attention of one token over one span of
 * slots. SPANS computes the attention of several tokens over the same span. */
enum fused_kind { FUSED_SCAN, FUSED_SPAN, FUSED_SPANS };
struct fused_task {
	enum fused_kind kind;
	/* in FUSED_SPANS, the task computes `tokens` tokens, from token number `token` on */
	int32_t token, tokens, head;
	/* in FUSED_SCAN, the index of the chunk of keys; in FUSED_SPAN and FUSED_SPANS, the index of the span of
	 * slots */
	int32_t at;
};

struct fused_job {
	struct attn_job *attn; /* [n] */
	int32_t n, heads, n_task;
	struct scan_job scan[ATTN_EACH_MOST];
	struct topk_job topk[ATTN_EACH_MOST];
	struct fused_task *task;
	_Atomic int32_t *selected; /* [n][heads] 1: the slots of this token and KV head have been selected */
};

static void fused_task(void *arg, int at, int worker)
{
	struct fused_job *j = arg;
	const struct fused_task *t = j->task + at;
	struct attn_job *a = j->attn + t->token;
	_Atomic int32_t *selected = j->selected + t->token * j->heads + t->head;

	switch (t->kind) {
	case FUSED_SCAN:
		if (!scan_part(&j->scan[t->token], t->head, t->at, worker))
			return;
		topk_head(&j->topk[t->token], t->head, worker);
		atomic_store_explicit(selected, 1, memory_order_release);
		return;
	case FUSED_SPAN:
		if (a->selection)
			pool_await(selected);
		attn_span_task(a, t->head * a->spans + t->at, worker);
		return;
	case FUSED_SPANS: attn_tokens_span(a, t->tokens, t->head, t->at, worker); return;
	}
}

/* 1 if there are several jobs, and if one task can compute a span of slots for all of them. (Only segments that are a
 * range of slots are computed in this way.) The arguments of the jobs must be the same, with two exceptions. Lists of
 * slots may differ. If the last segment is a range, it may be longer in later jobs. */
static int spans_alike(const struct attn_job *j, int32_t n)
{
	for (int32_t t = 1; t < n; t++) {
		const struct attn_args *a = j[t].a, *b = j[t - 1].a;

		if (a->n_seg != b->n_seg || a->window != b->window || a->scale != b->scale || a->softcap != b->softcap)
			return 0;
		for (int32_t p = 0; p < a->n_seg; p++) {
			const struct attn_segment *x = a->seg + p, *y = b->seg + p;
			int last = p == a->n_seg - 1 && !x->slots;

			if (!x->slots != !y->slots || x->slot0 != y->slot0 || x->n_slots < y->n_slots ||
			    (!last && segment_spans(x) != segment_spans(y)) ||
			    (!last && !x->slots && x->n_slots != y->n_slots))
				return 0;
		}
	}
	return n > 1;
}

/* Return the index of a segment's first span among the spans of all segments. */
static int32_t first_span(const struct attn_args *a, int32_t seg)
{
	int32_t at = 0;

	for (int32_t p = 0; p < seg; p++)
		at += segment_spans(a->seg + p);
	return at;
}

static void task_add(struct fused_job *j, enum fused_kind kind, int32_t token, int32_t tokens, int32_t head, int32_t at)
{
	if (j->task)
		j->task[j->n_task] =
			(struct fused_task){ .kind = kind, .token = token, .tokens = tokens, .head = head, .at = at };
	j->n_task++;
}

/* Add the tasks for the spans (ATTN_SPAN slots) of a segment and KV head. A task computes one span for several tokens,
 * which have up to TILE_QUERIES queries together. If the segment is longer for later tokens, its last spans are
 * computed for these tokens only. */
static void spans_together(struct fused_job *j, int32_t seg, int32_t head)
{
	int32_t most = TILE_QUERIES / j->attn->group, at = first_span(j->attn->a, seg), token = 0;

	for (int32_t i = 0; i < segment_spans(j->attn[j->n - 1].a->seg + seg); i++) {
		while (segment_spans(j->attn[token].a->seg + seg) <= i)
			token++;
		for (int32_t t = token, n; t < j->n; t += n) {
			n = MIN(MAX(most, 1), j->n - t);
			task_add(j, n > 1 ? FUSED_SPANS : FUSED_SPAN, t, n, head, at + i);
		}
	}
}

/* List the tasks; while j->task is NULL, only count them. In the list, a task comes after the tasks whose results it
 * needs. */
static void tasks_list(struct fused_job *j)
{
	int alike = spans_alike(j->attn, j->n);

	j->n_task = 0;
	for (int32_t h = 0; h < j->heads; h++)
		for (int32_t t = 0; t < j->n; t++)
			for (int32_t i = 0; j->attn[t].selection && i < scan_chunks(&j->scan[t], h); i++)
				task_add(j, FUSED_SCAN, t, 1, h, i);
	for (int32_t h = 0; alike && h < j->heads; h++)
		for (int32_t p = 0; p < j->attn->a->n_seg; p++)
			if (!j->attn->a->seg[p].slots)
				spans_together(j, p, h);
	for (int32_t h = 0; h < j->heads; h++)
		for (int32_t t = 0; t < j->n; t++)
			for (int32_t p = 0, at = 0, end; p < j->attn[t].a->n_seg; p++)
				for (end = at + segment_spans(j->attn[t].a->seg + p); at < end; at++)
					if (!alike || j->attn[t].a->seg[p].slots)
						task_add(j, FUSED_SPAN, t, 1, h, at);
}

/* Check and prepare the selections of all tokens. Raise *thread_bytes to the size of the scratch memory that topk needs
 * per thread. Add the number of multiply-adds of the scans to *work. Return 0, or -1 if a selection cannot run. */
static int selections_plan(struct fused_job *j, size_t *thread_bytes, int64_t *work)
{
	struct cpu *c = j->attn->c;

	for (int32_t t = 0; t < j->n; t++) {
		const struct attn_selection *s = j->attn[t].selection;
		struct buffer used;

		if (!s)
			continue;
		if (attn_selection_check(&c->base, s, j->heads) < 0 || scan_plan(&c->base, s->scan, &j->scan[t]) ||
		    topk_plan(&c->base, s->topk, &j->topk[t]))
			return -1;
		if (j->scan[t].n <= WHOLE_KEYS && j->heads >= c->base.threads)
			j->scan[t].whole = j->heads;
		/* Each token's scan needs its own buffer. c->scan is the buffer of this token. Move it to c->scans[t],
		 * and use the buffer that was in c->scans[t] as the c->scan of the next token. */
		used = c->scan;
		if (t < j->n - 1) {
			c->scan = c->scans[t];
			c->scans[t] = used;
		}
		*thread_bytes = *thread_bytes < j->topk[t].thread_bytes ? j->topk[t].thread_bytes : *thread_bytes;
		*work += (int64_t)j->scan[t].n * s->scan->n_head * s->scan->head_dim;
	}
	return 0;
}

/* Compute one token after the other, each operation as a separate run of the pool. */
static int run_alone(struct attn_job *a, int32_t n)
{
	struct backend *be = &a->c->base;

	for (int32_t t = 0; t < n; t++, a++) {
		if (a->selection) {
			cpu_key_scan(be, a->selection->scan);
			cpu_topk(be, a->selection->topk);
		}
		a->selection = NULL;
		if (be->failed || attn_run(a, a->t0, a->t1))
			return -1;
	}
	return 0;
}

int fused_run(struct attn_job *a, int32_t n)
{
	struct cpu *c = a->c;
	struct fused_job j = { .attn = a, .n = n, .heads = a->a->n_kv_head };
	int32_t tokens = a->group < TILE_QUERIES ? MIN(TILE_QUERIES / a->group, n) : 1;
	size_t thread_bytes = attn_thread_bytes(a, tokens * a->group), flags = (size_t)n * (size_t)j.heads;
	int64_t work = 0;

	if (selections_plan(&j, &thread_bytes, &work) < 0)
		return -1;
	for (int32_t t = 0; t < n; t++) {
		const struct attn_args *args = a[t].a;

		/* A thread uses the same scratch memory for selection and for attention, one after the other. */
		a[t].thread_bytes = j.topk[t].thread_bytes = thread_bytes;
		for (int32_t p = 0; p < args->n_seg; p++)
			work += args->seg[p].slots ? 0
			                           : 2 * (int64_t)args->seg[p].n_slots * args->n_head * args->head_dim;
	}
	tasks_list(&j);
	if (cpu_buffer_grow(c, &c->scratch, thread_bytes * (size_t)c->base.threads) < 0 ||
	    cpu_buffer_grow(c, &c->tasks, (size_t)j.n_task * sizeof *j.task) < 0 ||
	    cpu_buffer_grow(c, &c->selected, flags * sizeof *j.selected) < 0)
		return -1;
	if (!attn_split(a, n))
		return run_alone(a, n);
	j.task = c->tasks.p;
	tasks_list(&j);
	j.selected = c->selected.p;
	for (size_t i = 0; i < flags; i++)
		atomic_init(&j.selected[i], 0);
	if (work <= SMALL_SELECTION)
		for (int32_t t = 0; t < j.n_task; t++)
			fused_task(&j, t, 0);
	else
		pool_run(c->pool, fused_task, &j, j.n_task);
	return cpu_cancelled(c) ? -1 : 0;
}
