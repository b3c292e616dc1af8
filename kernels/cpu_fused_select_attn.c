/* kernels/cpu_fused_select_attn.c - one token's attention over rows that are chosen just before.
 *
 * Scores, choice and attention are tasks of one run: those of all scans first, by KV head, then the spans of all heads.
 * Whoever finishes a head's scores chooses its rows, while others are at the next head's scores or already read what
 * was chosen for the one before.  Three hand-overs, each of which waits for its slowest task, would cost as much as
 * half of the work itself where it is split among few heads. */
#include "kernels/cpu_attn.h"
#include "kernels/cpu_choose.h"

enum { SMALL_CHOICE = 128 << 10 };   /* products of scores that one thread does faster than two */

struct chosen_job {
	struct attn_job *attn;
	struct scan_job scan;
	struct topk_job topk;
	_Atomic int32_t *chosen;         /* [n_kv_head] */
};

static void chosen_task(void *arg, int task, int worker)
{
	struct chosen_job *j = arg;
	int32_t head;

	if (task >= j->scan.tasks) {
		task -= j->scan.tasks;
		pool_await(&j->chosen[task / j->attn->spans]);
		attn_span_task(j->attn, task, worker);
		return;
	}
	head = scan_part(&j->scan, task);
	if (head < 0)
		return;
	topk_head(&j->topk, head, worker);
	atomic_store_explicit(&j->chosen[head], 1, memory_order_release);
}

int chosen_run(struct attn_job *a)
{
	struct cpu *c = a->c;
	const struct attn_choice *choice = a->choice;
	int32_t heads = a->a->n_kv_head, tasks;
	struct chosen_job j = { .attn = a };

	if (attn_choice_check(&c->base, choice, heads) < 0)
		return -1;
	if (scan_plan(&c->base, choice->scan, &j.scan) || topk_plan(&c->base, choice->topk, &j.topk))
		return -1;
	/* A thread's scratch serves both, one after the other. */
	if (a->part_bytes < j.topk.part_bytes)
		a->part_bytes = j.topk.part_bytes;
	j.topk.part_bytes = a->part_bytes;
	if (cpu_buffer_grow(c, &c->scratch, a->part_bytes * (size_t)c->base.threads) < 0 ||
	    cpu_buffer_grow(c, &c->chosen, (size_t)heads * sizeof *j.chosen) < 0)
		return -1;
	if (!attn_split(a)) {
		a->choice = NULL;
		cpu_key_scan(&c->base, choice->scan);
		cpu_topk(&c->base, choice->topk);
		return attn_run(a, a->t0, a->t1);
	}
	j.chosen = c->chosen.p;
	for (int32_t h = 0; h < heads; h++)
		atomic_init(&j.chosen[h], 0);
	tasks = j.scan.tasks + heads * a->spans;
	if ((int64_t)j.scan.n * choice->scan->n_head * choice->scan->head_dim <= SMALL_CHOICE)
		for (int32_t t = 0; t < tasks; t++)
			chosen_task(&j, t, 0);
	else
		pool_run(c->pool, chosen_task, &j, tasks);
	return cpu_cancelled(c) ? -1 : 0;
}
