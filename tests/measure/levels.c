/* tests/measure/levels.c - which operations give the same bits at every level of the processor: a line for each
 * operation with a hash of its result at each level, equal hashes for equal bits. Inputs are the same on every machine, so
 * that the lines of an x86-64 and of an ARM can be laid side by side.
 *
 *     make build/tests/measure/levels && build/tests/measure/levels */
#include "tests/lib/weights.h"

enum { COLS = 576, KEYS = 200, DIM = 64, HEADS = 3 };

/* Inputs of all operations. */
struct given {
	float *x, *w, *up, *table, *q[HEADS];
	uint8_t *k[DT_COUNT], *v[DT_COUNT];
	void *weight[DT_COUNT];
};

static uint64_t hash_of(const void *p, size_t n)
{
	uint64_t h = 14695981039346656037u;

	for (size_t i = 0; i < n; i++)
		h = (h ^ ((const uint8_t *)p)[i]) * 1099511628211u;
	return h;
}

/* A result: at most this many floats. */
enum { RESULT = 4096 };

static size_t run_rows(const struct cpu_fns *f, const struct given *g, int which, float *out)
{
	memcpy(out, g->x, COLS * sizeof *out);
	switch (which) {
	case 0: f->rmsnorm(out, g->x, g->w, COLS, 1e-5f); break;
	case 1: f->layernorm(out, g->x, g->w, g->up, COLS, 1e-5f); break;
	case 2: f->gelu(out, COLS); break;
	case 3: f->glu(ACT_SILU, out, g->up, COLS); break;
	case 4: f->glu(ACT_GELU, out, g->up, COLS); break;
	case 5: f->glu(ACT_SILU_CLAMPED, out, g->up, COLS); break;
	case 6: f->rope(out, g->table, COLS / DIM, DIM, DIM, 0); break;
	case 7: f->rope(out, g->table, COLS / DIM, DIM, DIM, 1); break;
	case 8: f->to_f16((uint16_t *)out, g->x, COLS); return COLS / 2;
	case 9: f->probe_share(out, g->x, COLS, 3 * f->score_unit, 50); break;
	case 10:
		f->relative(&(struct relative_tile){ .out = out,
		                                     .q = g->up,
		                                     .k = g->x,
		                                     .keys = g->x,
		                                     .queries = g->x + DIM,
		                                     .stride = DIM,
		                                     .row = (int32_t[]){ 0, 0, 1, 1, 2, 2, 3 } + 6,
		                                     .last = 1,
		                                     .n = 7,
		                                     .dim = DIM,
		                                     .scale = 1 });
		return 7;
	}
	return COLS;
}
static const char *const row_name[] = { "rmsnorm", "layernorm",      "gelu",   "glu silu",    "glu gelu", "glu clamped",
	                                "rope",    "rope by halves", "to f16", "probe share", "relative" };

static size_t run_delta(const struct cpu_fns *f, const struct given *g, float *out)
{
	struct delta_tile t = { .state = out,
		                .stride = 32,
		                .key_dim = DIM,
		                .cols = 32,
		                .q = g->x,
		                .k = g->w,
		                .v = g->up,
		                .decay = 0.9f,
		                .beta = 0.5f,
		                .corrects = 1,
		                .out = out + DIM * 32 };

	for (int i = 0; i < DIM * 32; i++)
		out[i] = g->x[i % COLS];
	f->delta(&t);
	return DIM * 32 + 32;
}

/* Attention of HEADS queries over KEYS keys; `merged`: in two parts. The scores' unit is divided out. */
static size_t run_attn(const struct cpu_fns *f, const struct given *g, enum dtype type, int merged, float *out)
{
	int32_t limit[HEADS] = { KEYS, KEYS, KEYS };
	struct attn_state st[2][HEADS];
	float *scratch = must_alloc(f->attn_scratch(DIM, HEADS) * sizeof *scratch), *other = out + HEADS * (DIM + 1);
	struct attn_tile t = { .q = (const float *const *)g->q,
		               .limit = limit,
		               .n_q = HEADS,
		               .head_dim = DIM,
		               .k_type = type,
		               .v_type = type,
		               .k = g->k[type],
		               .v = g->v[type],
		               .scale = 0.125f,
		               .scratch = scratch };

	for (int part = 0; part <= merged; part++) {
		for (int h = 0; h < HEADS; h++)
			st[part][h].acc = (part ? other : out) + h * (DIM + 1);
		t.st = st[part];
		t.k0 = part ? 128 : 0;
		t.k1 = merged && !part ? 128 : KEYS;
		f->attn(&t);
	}
	for (int h = 0; h < HEADS; h++) {
		if (merged)
			f->attn_merge(&st[0][h], &st[1][h], DIM);
		out[h * (DIM + 1) + DIM] = st[0][h].l;
	}
	free(scratch);
	return HEADS * (DIM + 1);
}

static size_t run_matmul(struct backend *be, const struct given *g, enum dtype type, int32_t n, float *out)
{
	int32_t cols = dtype_info(type)->block == 256 ? 512 : COLS, rows = 33;
	struct tensor w = weight_new(be, type, rows, cols, g->weight[type]);
	struct tensor x = tensor_new(be, DT_F32, n, cols, g->x), to = tensor_new(be, DT_F32, n, rows, NULL);

	be->ops->matmul(be, &(struct matmul){ .out = &to, .w = &w }, 1, &x, n);
	be->ops->read(be, &to, 0, out, (size_t)(n * rows) * 4);
	be->ops->drop(be, &w);
	be->ops->drop(be, &x);
	be->ops->drop(be, &to);
	return (size_t)(n * rows);
}

static void given_make(struct given *g)
{
	g->x = random_floats(COLS * 8, -3, 3);
	g->w = random_floats(COLS, 0.5f, 2);
	g->up = random_floats(COLS, -2, 2);
	g->table = random_floats(DIM, -1, 1);
	for (int h = 0; h < HEADS; h++)
		g->q[h] = random_floats(DIM, -3, 3);
	for (int t = 0; t < DT_COUNT; t++) {
		g->weight[t] = random_weight((enum dtype)t, 33, dtype_info((enum dtype)t)->block == 256 ? 512 : COLS);
		if (DIM % dtype_info((enum dtype)t)->block == 0) {
			g->k[t] = random_weight((enum dtype)t, KEYS, DIM);
			g->v[t] = random_weight((enum dtype)t, KEYS, DIM);
		}
	}
}

/* Print one line: a hash for each level. kind 0: rows, 1: delta, 2: attention, 3: attention in parts, 4: products of one
 * column, 5: of 7. */
static void line(struct backend *const *be, const struct cpu_fns *const *fns, const struct given *g, int kind,
                 int which, const char *name)
{
	static float out[RESULT];

	printf("%-24s", name);
	for (int l = 0; l < N_LEVELS; l++) {
		size_t n;

		if (!be[l])
			continue;
		n = kind == 0   ? run_rows(fns[l], g, which, out)
		    : kind == 1 ? run_delta(fns[l], g, out)
		    : kind <= 3 ? run_attn(fns[l], g, (enum dtype)which, kind == 3, out)
		                : run_matmul(be[l], g, (enum dtype)which, kind == 4 ? 1 : 7, out);
		printf(" %08x", (unsigned)(hash_of(out, n * sizeof *out) >> 32));
	}
	printf("\n");
}

TEST(levels)
{
	static const enum dtype kv[] = { DT_F32, DT_F16, DT_BF16, DT_Q8_0, DT_Q4_0 };
	struct backend *be[N_LEVELS];
	const struct cpu_fns *fns[N_LEVELS];
	struct given g = { 0 };
	char name[64];

	given_make(&g);
	printf("%-24s", "");
	for (int l = 0; l < N_LEVELS; l++) {
		be[l] = open_level(levels[l], 1);
		setenv("WEIR_CPU", levels[l], 1);
		fns[l] = cpu_fns_best();
		if (be[l])
			printf(" %-8s", levels[l]);
	}
	printf("\n");
	for (int i = 0; i < (int)LEN(row_name); i++)
		line(be, fns, &g, 0, i, row_name[i]);
	line(be, fns, &g, 1, 0, "delta rule");
	for (size_t i = 0; i < 2 * LEN(kv); i++) {
		snprintf(name, sizeof name, "attention %s%s", dtype_info(kv[i / 2])->name, i % 2 ? " in parts" : "");
		line(be, fns, &g, 2 + (int)(i % 2), (int)kv[i / 2], name);
	}
	for (int t = 0; t < 2 * DT_COUNT; t++) {
		snprintf(name, sizeof name, "product %s%s", dtype_info((enum dtype)(t / 2))->name, t % 2 ? " x 7" : "");
		line(be, fns, &g, 4 + t % 2, t / 2, name);
	}
	for (int l = 0; l < N_LEVELS; l++)
		if (be[l])
			finish(be[l]);
}
