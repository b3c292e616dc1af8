/* kernels/cpu_fused_select_attn.c - one token's scan, topk and attention over the selected slots, in one hand-over to the threads.
 *
 * The run's tasks are the scans of all KV heads, then the attention spans of all KV heads.  The thread that finishes the scan of a
 * head selects its slots, while other threads scan the next head or already attend to the slots of the head before.  Three
 * hand-overs, each waiting for its slowest task, would cost half as much as the work itself where there are few heads. */
#include "kernels/cpu_attn.h"
#include "kernels/cpu_select.h"

enum { SMALL_SELECTION = 128 << 10 };   /* multiply-adds of the scan up to which one thread is faster than two */

struct fused_job {
	struct attn_job *attn;
	struct scan_job scan;
	struct topk_job topk;
	_Atomic int32_t *selected;         /* [n_kv_head]: 1 = the head's slots are selected */
};

static void fused_task(void *arg, int task, int worker)
{
	struct fused_job *j = arg;
	int32_t head;

	if (task >= j->scan.tasks) {
		task -= j->scan.tasks;
		pool_await(&j->selected[task / j->attn->spans]);
		attn_span_task(j->attn, task, worker);
		return;
	}
	head = scan_part(&j->scan, task);
	if (head < 0)
		return;
	topk_head(&j->topk, head, worker);
	atomic_store_explicit(&j->selected[head], 1, memory_order_release);
}

int fused_run(struct attn_job *a)
{
	struct cpu *c = a->c;
	const struct attn_selection *selection = a->selection;
	int32_t heads = a->a->n_kv_head, tasks;
	struct fused_job j = { .attn = a };

	if (attn_selection_check(&c->base, selection, heads) < 0)
		return -1;
	if (scan_plan(&c->base, selection->scan, &j.scan) || topk_plan(&c->base, selection->topk, &j.topk))
		return -1;
	/* Selection and attention use a thread's scratch one after the other. */
	if (a->part_bytes < j.topk.part_bytes)
		a->part_bytes = j.topk.part_bytes;
	j.topk.part_bytes = a->part_bytes;
	if (cpu_buffer_grow(c, &c->scratch, a->part_bytes * (size_t)c->base.threads) < 0 ||
	    cpu_buffer_grow(c, &c->selected, (size_t)heads * sizeof *j.selected) < 0)
		return -1;
	if (!attn_split(a)) {
		a->selection = NULL;
		cpu_key_scan(&c->base, selection->scan);
		cpu_topk(&c->base, selection->topk);
		return attn_run(a, a->t0, a->t1);
	}
	j.selected = c->selected.p;
	for (int32_t h = 0; h < heads; h++)
		atomic_init(&j.selected[h], 0);
	tasks = j.scan.tasks + heads * a->spans;
	if ((int64_t)j.scan.n * selection->scan->n_head * selection->scan->head_dim <= SMALL_SELECTION)
		for (int32_t t = 0; t < tasks; t++)
			fused_task(&j, t, 0);
	else
		pool_run(c->pool, fused_task, &j, tasks);
	return cpu_cancelled(c) ? -1 : 0;
}
