/* engine/policy_list.c - policies that keep every row and read a chosen list: one shape, and the selector that the name
 * says.  Row r of the cache holds token r at position r.  What is read attends everything; a generated token attends
 * the rows that the selector chooses. */
#include "engine/policy.h"

#include <stdlib.h>

#include "engine/archive.h"
#include "engine/select.h"

struct list {
	struct kv kv;
	struct rope rope;
	struct selector sel;
	struct tensor q;           /* f32 [chunk][n_head * head_dim]: rotated, because selectors look at the query before, too */
};

static uint64_t list_bytes(const struct policy *p)
{
	return kv_bytes(p->hp, p->type, p->ctx) + rope_bytes(p->hp, p->batch) +
	       4 * (uint64_t)p->batch * (uint64_t)p->hp->n_head * (uint64_t)p->hp->head_dim +
	       p->def->select->bytes(&p->par, p->hp, p->be, p->ctx);
}

static int list_init(struct policy *p, struct err *err)
{
	struct list *f = p->state = xcalloc(1, sizeof *f);

	p->limit = p->ctx;
	p->chunk = p->batch;
	if (kv_init(&f->kv, p->be, p->hp, p->type, p->ctx, err) || rope_init(&f->rope, p->hp, p->be, p->chunk, err) ||
	    select_open(&f->sel, p->def->select, &p->par, &f->kv, 1, err) ||
	    select_alloc(&f->sel, &f->q, DT_F32, p->chunk, p->hp->n_head * p->hp->head_dim, err))
		return -1;
	p->tail = f->sel.tail;
	p->marked = 1;
	/* h2o adds up call by call; elsewhere calls only matter where the last one cannot carry all that is looked at. */
	p->calls_matter = (p->def->select == &select_kept && p->par.kept == KEPT_H2O) || (p->tail > 1 && p->tail > p->chunk / 2);
	return 0;
}

static void list_release(struct policy *p)
{
	struct list *f = p->state;

	if (f->sel.kv)
		select_drop(&f->sel, &f->q);
	select_close(&f->sel);
	kv_release(&f->kv);
	rope_release(&f->rope);
	free(f);
}

static void list_begin(struct policy *p, const struct step *st)
{
	struct list *f = p->state;

	rope_set(&f->rope, st->pos, st->n);
}

static void list_attend(struct policy *p, const struct step *st, int32_t layer, const struct qkv *x)
{
	struct list *f = p->state;
	struct selector *s = &f->sel;
	struct attn_part part[SELECT_PARTS];
	int32_t n_rows = st->pos + st->n;
	int n_part;

	kv_rotate(&f->kv, layer, &f->q, x->q, &f->rope, st->n);
	kv_rotate(&f->kv, layer, x->k, x->k, &f->rope, st->n);
	kv_put(&f->kv, layer, x->k, x->v, st->pos, st->n);
	if (s->ops->note)
		s->ops->note(s, layer, st->pos, st->n);
	n_part = st->decode ? select_choose(s, st, layer, &f->q, x->q, n_rows, part) : select_whole(&f->q, n_rows, part);
	kv_attend(&f->kv, layer, x->out, part, n_part, st->n, s->ops->probe ? s->ops->probe(s, st, layer, n_rows) : NULL);
	select_seen(s, st, layer, &f->q, x->q, n_rows);
}

static void list_end(struct policy *p, const struct step *st)
{
	struct list *f = p->state;

	if (f->sel.ops->end)
		f->sel.ops->end(&f->sel, st, st->pos + st->n);
	select_looked(&f->sel, st->decode ? st->pos + st->n : 0);
}

static int32_t list_rewind(struct policy *p, int32_t n)
{
	struct list *f = p->state;

	select_looked(&f->sel, 0);
	return f->sel.ops->rewind(&f->sel, n);
}

static uint64_t list_read_bytes(const struct policy *p, int32_t pos, int decode)
{
	const struct list *f = p->state;

	return decode ? f->sel.ops->read_bytes(&f->sel, pos + 1) : kv_token_bytes(p->hp, p->type) * (uint64_t)pos;
}

static void list_inside(const struct policy *p, struct policy_inside *out)
{
	struct list *f = p->state;

	out->sel = &f->sel;
}

static struct kv *list_planes(struct policy *p)
{
	struct list *f = p->state;

	return &f->kv;
}

static void list_adopt(struct policy *p, struct kv *other, int32_t n)
{
	struct list *f = p->state;
	struct kv mine = f->kv;

	f->kv = *other;
	*other = mine;
	/* As if they were read now, but for what their queries would have looked at. */
	for (int32_t row = 0, m; row < n && f->sel.ops->note; row += m) {
		m = n - row < p->chunk ? n - row : p->chunk;
		for (int32_t layer = 0; layer < f->kv.n_layer; layer++)
			f->sel.ops->note(&f->sel, layer, row, m);
	}
}

/* Copies and bounds of rows that were put there from outside. */
static void note_rows(struct list *f, int32_t n)
{
	for (int32_t layer = 0; n > 0 && f->sel.ops->note && layer < f->kv.n_layer; layer++)
		f->sel.ops->note(&f->sel, layer, 0, n);
}

static int32_t list_take(struct policy *p, int32_t n)
{
	struct list *f = p->state;

	note_rows(f, n);
	return f->sel.ops->rewind(&f->sel, n);
}

static void list_archive(struct policy *p, struct archive *a, int32_t n)
{
	struct list *f = p->state;

	if (archive_loads(a))
		note_rows(f, n);
	if (f->sel.ops->archive)
		f->sel.ops->archive(&f->sel, a, n);
}

/* ---- the names and their settings ---- */

#define AT(field) offsetof(struct kv_params, field)
#define ROWS_MAX 1e9
#define K(preset_) { "k", PARAM_ROWS, AT(k), 1, ROWS_MAX, NULL, preset_, "rows that a generated token reads per KV head" }
#define POOLS "1|3|5|7|9|11|13|15|31|63"

#define LIST(name_, help_, params_, select_, ...) { \
	.name = name_, .help = help_, .params = params_, .select = &select_, .bytes = list_bytes, .init = list_init, \
	.release = list_release, .begin = list_begin, .attend = list_attend, .end = list_end, .rewind = list_rewind, \
	.planes = list_planes, .adopt = list_adopt, .read_bytes = list_read_bytes, .kv = list_planes, .take = list_take, \
	.archive = list_archive, .inside = list_inside, __VA_ARGS__ }

static const struct param sift_params[] = {
	K("512"),
	{ "bits", PARAM_INT, AT(bits), 0, 0, "2|4|8|16", "2", "bits a value of the keys' copy; 16 reads the keys themselves" },
	{ "every", PARAM_INT, AT(every), 1, 1000, NULL, "1", "steps that a chosen set serves" },
	{ "split", PARAM_CHOICE, AT(split), 0, 0, "need|even", "need",
	  "k is the mean over the layers: shared by how widely they look, or evenly" },
	{ "dense", PARAM_INT, AT(dense), 0, 1000, NULL, "0", "first layers that read everything" },
	{ "pool", PARAM_INT, AT(pool), 0, 0, POOLS, "7", "neighbours pooled when a set serves several steps" },
	{ .key = NULL },
};
const struct policy_def policy_sift =
	LIST("sift", "every token stays; each generated token reads its k best, found through a low-bit copy of the keys",
	     sift_params, select_sift);

#define STRIDE(preset_) { "stride", PARAM_INT, AT(stride), 1, 1e9, NULL, preset_, "tokens between two choices" }
#define REFRESH \
	{ "pool", PARAM_INT, AT(pool), 0, 0, POOLS, "7", "neighbours pooled before choosing" }, \
	{ "group", PARAM_CHOICE, AT(group), 0, 0, "max|mean|first", "max", "how the query heads of a KV head are reduced" }, \
	{ "scan", PARAM_CHOICE, AT(scan), 0, 0, "k|kv", "k", "what a choosing step reads: all keys, or everything (as published)" }, \
	{ "sinks", PARAM_INT, AT(sinks), 0, 1000, NULL, "0", "first rows that are always chosen" }, \
	{ "recent", PARAM_INT, AT(recent), 0, 1e6, NULL, "0", "newest rows that are always chosen" }, \
	{ "update", PARAM_CHOICE, AT(update), 0, 0, "yes|no", "yes", "no: the set of the last read serves for ever (an ablation)" }

static const struct param refresh_params[] = {
	K("512"),
	{ "qc", PARAM_INT, AT(qc), 0, 1e9, NULL, "5", "compare queries every so many tokens; 0 = fixed stride" },
	{ "s", PARAM_REAL, AT(s), -2, 2, NULL, "0.85", "choose anew at this cosine and below" },
	{ "stride", PARAM_INT, AT(stride), 1, 1e9, NULL, "10", "with qc=0: tokens between two choices" },
	REFRESH,
	{ "query", PARAM_CHOICE, AT(query), 0, 0, "pre|post", "pre", "compare queries before or after rotation" },
	{ .key = NULL },
};
const struct policy_def policy_refresh =
	LIST("refresh", "every token stays; k rows are read, chosen anew when the query has turned away (RefreshKV)",
	     refresh_params, select_refresh);

static const struct param recycled_params[] = { K("512"), STRIDE("10"), REFRESH, { .key = NULL } };
static void recycled_preset(struct kv_params *par)
{
	par->qc = 0;
	par->query = QUERY_PRE;
}
const struct policy_def policy_recycled =
	LIST("recycled", "refresh at a fixed stride (Recycled Attention)", recycled_params, select_refresh,
	     .preset = recycled_preset);

static const struct param streaming_params[] = {
	{ "size", PARAM_INT, AT(size), 1, 1e9, NULL, "512", "newest rows that are read" },
	STRIDE("10"),
	{ "sinks", PARAM_INT, AT(sinks), 0, 1000, NULL, "4", "first rows that are read" },
	{ .key = NULL },
};
const struct policy_def policy_streaming =
	LIST("streaming++", "every token stays; first and newest rows are read, everything at every stride-th token",
	     streaming_params, select_streaming);

static const struct param quest_params[] = {
	K("512"),
	{ "bound", PARAM_CHOICE, AT(bound), 0, 0, "soft|raw", "soft",
	  "soft: bounds soft-maxed, outer pages forced; raw: as published" },
	{ "page", PARAM_INT, AT(page), 0, 0, "16", "16", "rows of a page" },
	{ .key = NULL },
};
const struct policy_def policy_quest =
	LIST("quest", "every token stays; each generated token reads the pages whose bounds promise most (Quest)",
	     quest_params, select_quest);

static const struct param h2o_params[] = { K("512"), { .key = NULL } };
static const struct param h2o_plus_params[] = {
	K("512"),
	{ "dense", PARAM_INT, AT(dense), 0, 1000, NULL, "2", "first layers that read everything" },
	{ .key = NULL },
};
static void h2o_preset(struct kv_params *par) { par->kept = KEPT_H2O; }
static void h2o_plus_preset(struct kv_params *par) { par->kept = KEPT_H2O_PLUS; }
const struct policy_def policy_h2o =
	LIST("h2o", "k rows are read: half most looked at so far, half newest; the others stay unread (H2O)", h2o_params,
	     select_kept, .preset = h2o_preset);
const struct policy_def policy_h2o_plus =
	LIST("h2o+", "h2o over the last 64 tokens of what was read", h2o_plus_params, select_kept, .preset = h2o_plus_preset);

static const struct param snapkv_params[] = {
	K("512"),
	{ "window", PARAM_INT, AT(window), 0, 0, "1|32|64", "32",
	  "last tokens whose attention chooses; 1: largest of a group, else the mean" },
	{ "pool", PARAM_INT, AT(pool), 0, 0, "1|5|7", "7", "neighbours pooled before choosing" },
	{ "kind", PARAM_CHOICE, AT(pool_kind), 0, 0, "max|avg", "max", "how they are pooled" },
	{ .key = NULL },
};
static void snapkv_preset(struct kv_params *par) { par->kept = KEPT_SNAPKV; }
const struct policy_def policy_snapkv =
	LIST("snapkv", "k rows chosen once at the end of what is read, and all that comes later; the others stay unread (SnapKV)",
	     snapkv_params, select_kept, .preset = snapkv_preset);
