/* kernels/cpu/cpu.c - the CPU backend: opening, errors, the table of operations. cpu.h describes the other files. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/select.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int cpu_sync(struct backend *be)
{
	int failed = be->failed;

	be->failed = 0;
	return failed ? -1 : 0;
}

static void cpu_close(struct backend *be)
{
	struct cpu *c = cpu_of(be);

	if (!be)
		return;
	pool_close(c->pool);
	cpu_mem_free(c, c->act.p);
	cpu_mem_free(c, c->scratch.p);
	cpu_mem_free(c, c->state.p);
	cpu_mem_free(c, c->scan.p);
	for (int i = 0; i < ATTN_EACH_MOST; i++)
		cpu_mem_free(c, c->scans[i].p);
	cpu_mem_free(c, c->tasks.p);
	cpu_mem_free(c, c->selected.p);
	cpu_mem_free(c, c->probe.p);
	free(c);
}

static void cpu_describe(const struct backend *be, char *out, size_t cap)
{
	const struct cpu *c = (const struct cpu *)be;

	snprintf(out, cap, "cpu %s, %d thread%s", c->fns->name, c->base.threads, c->base.threads == 1 ? "" : "s");
}

static void cpu_memory(const struct backend *be, uint64_t *available, uint64_t *total)
{
	(void)be;
	*available = *total = 0;
}

const struct backend_ops cpu_ops = {
	.name = "cpu",
	.close = cpu_close,
	.describe = cpu_describe,
	.memory = cpu_memory,
	.alloc = cpu_alloc,
	.alloc_file = cpu_alloc_file,
	.give_back = cpu_give_back,
	.alloc_host = cpu_alloc,
	.load_weight = cpu_load_weight,
	.expert_table = cpu_expert_table,
	.drop = cpu_drop,
	.write = cpu_write,
	.read = cpu_read,
	.sync = cpu_sync,
	.copy = cpu_copy,
	.columns = cpu_columns,
	.embed = cpu_embed,
	.rmsnorm = cpu_rmsnorm,
	.layernorm = cpu_layernorm,
	.axpby = cpu_axpby,
	.matmul = cpu_matmul,
	.matmul_glu = cpu_matmul_glu,
	.take_rows = cpu_take_rows,
	.add_rows = cpu_add_rows,
	.route = cpu_route,
	.experts = cpu_experts,
	.short_conv = cpu_short_conv,
	.delta_rule = cpu_delta_rule,
	.state_space = cpu_state_space,
	.gate = cpu_gate,
	.gelu = cpu_gelu,
	.rope = cpu_rope,
	.kv_put = cpu_kv_put,
	.attn = cpu_attn,
	.attn_each = cpu_attn_each,
	.relative = cpu_relative,
	.read_blocks = cpu_read_blocks,
	.key_sketch_bytes = cpu_key_sketch_bytes,
	.key_sketch = cpu_key_sketch,
	.key_scan = cpu_key_scan,
	.topk = cpu_topk,
	.kv_move = cpu_kv_move,
	.fetch_range = cpu_fetch_range,
	.fetch_slots = cpu_fetch_slots,
	.fetch_wait = cpu_fetch_wait,
	.page_bounds = cpu_page_bounds,
	.page_scan = cpu_page_scan,
	.page_slots = cpu_page_slots,
	.query_drift = cpu_query_drift,
	.largest = cpu_largest,
};

int cpu_backend_open(struct backend **out, const struct backend_options *opt, char err[160])
{
	const char *level = getenv("WEIR_CPU");
	struct cpu *c;

	for (int i = 0; level && *level && strcmp(level, cpu_level_name[i]);)
		if (++i == CPU_LEVELS) {
			snprintf(err, 160, "unknown CPU level '%.40s' in WEIR_CPU; use %s", level, cpu_level_names);
			return -1;
		}
	c = calloc(1, sizeof *c);
	if (!c) {
		snprintf(err, 160, "out of memory");
		return -1;
	}
	c->base.ops = &cpu_ops;
	c->fns = cpu_fns_best();
	c->base.rows_alone = 1;
	c->base.prompts_apart = c->fns->attn_prompt != NULL;
	c->base.threads = opt->threads > 0 ? opt->threads : pool_cpus();
	if (c->base.threads > POOL_MAX_THREADS)
		c->base.threads = POOL_MAX_THREADS;
	c->pool = pool_open(c->base.threads);
	if (!c->pool) {
		snprintf(err, 160, "cannot start %d threads: %s; ask for fewer", c->base.threads, strerror(errno));
		free(c);
		return -1;
	}
	*out = &c->base;
	return 0;
}
