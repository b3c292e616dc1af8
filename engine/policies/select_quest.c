/* engine/policies/select_quest.c - the policy `quest`: each decoded token reads the pages of KV entries whose keys
 * could have the highest scores.
 *
 * A page is `page` consecutive slots. The smallest and the largest key value of each page are stored, per KV head and
 * channel. With a query these values give an upper bound of the scores of the page's keys. The k / page pages with the
 * largest bounds are read whole. The last page is always one of them.
 *
 * bound=raw is the published method. If several query heads share a KV head, the bound of a page is the largest of
 * their bounds. By default the first two layers read all entries. bound=soft compares the softmax of each query head's
 * bounds, because otherwise heads with large scores would dominate the selection. The first page and the newest
 * SOFT_RECENT slots are always read.
 *
 * The backend converts pages to slots (page_slots), so that the host does not wait during a step. */
#include "engine/cache/select.h"

#include <stdlib.h>

#include "engine/cache/cache.h"

/* With setting bound=raw a token reads at least MIN_PAGES pages. With bound=soft a token always reads the newest
 * SOFT_RECENT slots. The setting `dense` is the number of layers, from the first one on, that read all entries. Its
 * value DENSE_PUBLISHED stands for RAW_DENSE layers with bound=raw, and for no layers with bound=soft. */
enum { MIN_PAGES = 3, SOFT_RECENT = 49, RAW_DENSE = 2, DENSE_PUBLISHED = -1 };

enum { BOUND_SOFT, BOUND_RAW };
struct quest_params {
	struct entry_count k;
	int32_t page, dense;
	int bound;
};

struct quest {
	/* [n_layer] f32 [n_kv_head * pages][2 * head_dim]: smallest and largest key values of each page; no data for
	 * sliding-window layers */
	struct tensor *bounds;
	struct tensor score; /* f32 [n_kv_head][pages]: upper bound of the scores in each page */
	struct tensor page;  /* i32 [n_kv_head][pages]: selected pages */
	struct tensor slots; /* i32 [n_kv_head][pages * page]: slots of the selected pages */
	int32_t pages;
};

static const struct quest_params *par_of(const struct selector *s)
{
	return s->par;
}

static int32_t dense_of(const struct quest_params *par)
{
	return par->dense != DENSE_PUBLISHED ? par->dense : par->bound == BOUND_RAW ? RAW_DENSE : 0;
}

static int32_t pages_of(const struct quest_params *par, int32_t slots)
{
	return slots / par->page + (slots % par->page != 0);
}

/* Return how many of the last pages are always read with bound=soft. These pages contain the newest SOFT_RECENT slots,
 * even if the last page has only one slot. */
static int32_t soft_last(const struct quest_params *par)
{
	return 1 + pages_of(par, SOFT_RECENT - 1);
}

/* Return the number of pages that a token reads if it does not read all pages. With setting bound=soft some pages are
 * always read. Then at least one more page is selected. */
static int32_t quest_most(const struct quest_params *par, int32_t n_slots)
{
	int32_t n = entry_count_of(par->k, n_slots) / par->page,
		least = par->bound == BOUND_SOFT ? soft_last(par) + 2 : MIN_PAGES;

	return MAX(n, least);
}

static uint64_t quest_bytes(const void *values, const struct hparams *hp, const struct backend *be, int32_t cap)
{
	const struct quest_params *par = values;
	uint64_t pages = (uint64_t)pages_of(par, cap) * (uint64_t)hp->n_kv_head;

	return pages * ((uint64_t)layers_unwindowed(hp) * 8 * (uint64_t)hp->head_dim + 4 + 4 + 4 * (uint64_t)par->page);
}

static int quest_init(struct selector *s, struct err *err)
{
	struct quest *f = s->state = xcalloc(1, sizeof *f);
	const struct hparams *hp = s->kv->hp;

	f->pages = pages_of(par_of(s), s->kv->cap);
	f->bounds = xcalloc((size_t)hp->n_layer, sizeof *f->bounds);
	if (select_alloc(s, &f->score, DT_F32, hp->n_kv_head, f->pages, err) ||
	    select_alloc(s, &f->page, DT_I32, hp->n_kv_head, f->pages, err) ||
	    select_alloc(s, &f->slots, DT_I32, hp->n_kv_head, (int64_t)f->pages * par_of(s)->page, err))
		return -1;
	for (int32_t i = 0; i < hp->n_layer; i++)
		if (select_serves(s, i) && select_alloc(s, &f->bounds[i], DT_F32, (int64_t)hp->n_kv_head * f->pages,
		                                        2 * (int64_t)hp->head_dim, err))
			return -1;
	return 0;
}

static void quest_release(struct selector *s)
{
	struct quest *f = s->state;

	for (int32_t i = 0; f->bounds && i < s->kv->n_layer; i++)
		select_drop(s, &f->bounds[i]);
	select_drop(s, &f->score);
	select_drop(s, &f->page);
	select_drop(s, &f->slots);
	free(f->bounds);
}

static void quest_note(struct selector *s, int32_t layer, int32_t slot0, int32_t n)
{
	struct quest *f = s->state;
	struct kv_store *kv = s->kv;

	kv->be->ops->page_bounds(kv->be, &f->bounds[layer], &kv->k[layer], kv->hp->n_kv_head, kv->cap, par_of(s)->page,
	                         slot0, n);
}

static int quest_select(struct selector *s, const struct step *st, int32_t layer, const struct tensor *q,
                        const struct tensor *raw, int32_t n_slots, struct attn_segment seg[SELECT_SEGMENTS])
{
	struct quest *f = s->state;
	struct backend *be = s->kv->be;
	const struct hparams *hp = s->kv->hp;
	int32_t page = par_of(s)->page, k = quest_most(par_of(s), n_slots), pages = pages_of(par_of(s), n_slots), n;
	int soft = par_of(s)->bound == BOUND_SOFT;

	if (k >= pages || entry_count_of(par_of(s)->k, n_slots) >= n_slots || layer < dense_of(par_of(s)))
		return select_whole(q, n_slots, seg);
	be->ops->page_scan(be, &(struct scan_args){
				       .out = &f->score,
				       .q = q,
				       .keys = &f->bounds[layer],
				       .n_head = hp->n_head,
				       .n_kv_head = hp->n_kv_head,
				       .head_dim = hp->head_dim,
				       .cap = s->kv->cap,
				       .n_slots = n_slots,
				       .scale = model_layer_spec(hp, layer)->attn.scale,
				       .reduce = REDUCE_MAX,
				       .page = page,
				       .raw = !soft,
			       });
	be->ops->topk(be, &(struct topk_args){
				  .slots = &f->page,
				  .score = &f->score,
				  .n_kv_head = hp->n_kv_head,
				  .n = pages,
				  .k = k,
				  .pool = 1,
				  .first = soft,
				  .last = soft ? soft_last(par_of(s)) : 1,
			  });
	/* Compute the number of slots in the selected pages. The list of pages is in ascending order, and the newest
	 * page is always selected, so it is the last page in the list. Only the newest page may be partly filled. */
	n = (k - 1) * page + n_slots - (pages - 1) * page;
	be->ops->page_slots(be, &f->slots, &f->page, hp->n_kv_head, page, n);
	seg[0] = (struct attn_segment){ .q = q, .slots = &f->slots, .n_slots = n };
	return 1;
}

/* Roll back to the first n tokens. If keys were removed from the last page, recompute its bounds from the keys that
 * remain. */
static int32_t quest_rewind(struct selector *s, int32_t n)
{
	int32_t rest = n % par_of(s)->page;

	for (int32_t i = 0; rest && i < s->kv->n_layer; i++)
		if (select_serves(s, i))
			quest_note(s, i, n - rest, rest);
	return n;
}

static int32_t quest_entries(const struct selector *s, int32_t n_slots)
{
	return (int32_t)select_mean(s, dense_of(par_of(s)), (double)quest_most(par_of(s), n_slots) * par_of(s)->page,
	                            n_slots);
}

static uint64_t quest_read_bytes(const struct selector *s, int32_t n_slots)
{
	const struct hparams *hp = s->kv->hp;
	double k = (double)quest_most(par_of(s), n_slots) * par_of(s)->page, dense = dense_of(par_of(s));

	if (k >= n_slots)
		return select_entry_bytes(s, n_slots);
	dense = dense < hp->n_layer ? dense / hp->n_layer : 1;
	return select_entry_bytes(s, select_mean(s, dense_of(par_of(s)), k, n_slots)) +
	       (uint64_t)((1 - dense) * 8 * hp->head_dim * pages_of(par_of(s), n_slots) * hp->n_kv_head *
	                  layers_unwindowed(hp));
}

static const struct selector_ops quest_ops = {
	.bytes = quest_bytes,
	.init = quest_init,
	.release = quest_release,
	.note = quest_note,
	.select = quest_select,
	.rewind = quest_rewind,
	.entries = quest_entries,
	.read_bytes = quest_read_bytes,
};

static const struct param quest_params[] = {
	PARAM_K(struct quest_params, "512"),
	{ "bound", PARAM_CHOICE, offsetof(struct quest_params, bound), 0, 0, "soft|raw", "soft",
	  "soft: bounds soft-maxed, outer pages forced; raw: as published" },
	{ "dense", PARAM_INT, offsetof(struct quest_params, dense), -1, 1000, NULL, "-1",
	  "first layers that read everything; -1: two with bound=raw, else none" },
	{ "page", PARAM_INT, offsetof(struct quest_params, page), 0, 0, "8|16|32|64", "16", "entries of a page" },
	{ .key = NULL },
};
const struct policy_def policy_quest = {
	.name = "quest",
	.help = "every token stays; each generated token reads the pages whose bounds promise most (Quest)",
	.params = quest_params,
	.published = "bound=raw",
	.retention = &retain_all,
	.selector = &quest_ops,
};
