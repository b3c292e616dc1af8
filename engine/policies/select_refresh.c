/* engine/policies/select_refresh.c - the policies `refresh` and `recycled`. A set of k entries per KV head is selected
 * from the whole cache, and many decoded tokens read this set before a new one is selected.
 *
 * A token that selects takes the entries with the largest attention probabilities, max-pooled over neighbours. Of the
 * query heads that share a KV head, the largest probability counts. Later tokens read the set and the tokens since the
 * selection. The first of them reads k + 1 entries. Each token after it drops the entry with the lowest score from the
 * set, so that it reads k + 1 entries, too. A set is stored in descending order of scores, so that entries are dropped
 * by shortening the list. After more than k + 1 tokens without a selection, only the newest k + 1 tokens are read.
 *
 * `recycled` selects a new set every `stride` tokens. `refresh` decides in each layer separately: every few tokens
 * (setting `qc`) it compares the query, averaged over the heads, with the query of the layer's last selection. If their
 * cosine is at most setting `s`, the layer selects a new set.
 *
 * With scan=kv a token that selects attends to all entries, as published. With scan=k it scans all keys, but attends
 * only to the new set. */
#include "engine/cache/select.h"
#include "engine/policies/policy.h"

#include <stdlib.h>
#include <string.h>

#include "engine/cache/serialize.h"
#include "engine/cache/cache.h"

enum { SCAN_K, SCAN_KV };
enum { UPDATE_YES, UPDATE_NO };
struct refresh_params {
	struct entry_count k;
	double s;
	int32_t qc, stride, pool;
	int scan, update;
};
_Static_assert(sizeof(struct refresh_params) <= POLICY_VALUES, "settings do not fit");

struct refresh {
	struct tensor score; /* f32 [n_kv_head][cap]: scores of a scan */
	struct tensor q;     /* f32 [1][n_head * head_dim]: one token's query */
	struct picks picks;
	/* f32 [n_layer][head_dim] each. Row l of mean[i] is the query, averaged over the query heads, of the token that
	 * selected the set picks.slot[l][i]. */
	struct tensor mean[2];
	/* i32 [1][n_layer] 1: the last comparison of queries found a cosine of at most the setting s, so the layer
	 * selects a new set */
	struct tensor turned;
	/* Results of the last comparisons of queries, in host memory, where the host reads them without waiting for a
	 * device. `shown` i32 [1][n_layer] is a copy of `turned`. `cosine` f32 [1][n_layer] has the cosines. */
	struct tensor shown, cosine;
	int32_t *flag; /* [n_layer]: numbers read from `shown` */
	float *same;   /* [n_layer]: numbers read from `cosine` */
	/* [n_layer] 1: in the current step, the backend compares queries to decide whether the layer selects a new
	 * set */
	uint8_t *compared;
	uint8_t *due;   /* [n_layer] 1: the current step may replace the layer's set */
	uint8_t *knows; /* [n_layer] 1: same[] has the cosine that the last step found */
	/* Length of the sequence after the last prefill. Counting from this point, a layer may select a new set every
	 * qc tokens or, under `recycled`, where qc is 0, every `stride` tokens. */
	int32_t start;
	/* Counts of pairs (token, layer). `asked` counts the pairs in which the token read a set of selected slots,
	 * `chose` those in which the token selected a new set. */
	int64_t asked, chose;
	/* Counts since init(). `tokens` is the number of generated tokens that read sets of selected slots.
	 * selections[n_layer] is the number of new sets that each layer has selected. */
	int64_t tokens, *selections;
};

static const struct refresh_params *par_of(const struct selector *s)
{
	return s->par;
}

static uint64_t refresh_bytes(const void *values, const struct hparams *hp, const struct backend *be, int32_t cap)
{
	const struct refresh_params *par = values;

	return 4 * (uint64_t)hp->n_kv_head * (uint64_t)cap + 8 * (uint64_t)hp->n_layer * (uint64_t)hp->head_dim +
	       picks_bytes(hp, select_most(par->k, cap));
}

static int refresh_init(struct selector *s, struct err *err)
{
	struct refresh *r = s->state = xcalloc(1, sizeof *r);
	const struct hparams *hp = s->kv->hp;
	int32_t width = hp->n_head * hp->head_dim;

	r->flag = xcalloc((size_t)hp->n_layer, sizeof *r->flag);
	r->same = xcalloc((size_t)hp->n_layer, sizeof *r->same);
	r->compared = xcalloc((size_t)hp->n_layer, 1);
	r->due = xcalloc((size_t)hp->n_layer, 1);
	r->knows = xcalloc((size_t)hp->n_layer, 1);
	r->selections = xcalloc((size_t)hp->n_layer, sizeof *r->selections);
	return select_alloc(s, &r->score, DT_F32, hp->n_kv_head, s->kv->cap, err) ||
	                       select_alloc(s, &r->mean[0], DT_F32, hp->n_layer, hp->head_dim, err) ||
	                       select_alloc(s, &r->mean[1], DT_F32, hp->n_layer, hp->head_dim, err) ||
	                       select_alloc(s, &r->turned, DT_I32, 1, hp->n_layer, err) ||
	                       select_alloc_host(s, &r->shown, DT_I32, 1, hp->n_layer, err) ||
	                       select_alloc_host(s, &r->cosine, DT_F32, 1, hp->n_layer, err) ||
	                       select_alloc(s, &r->q, DT_F32, 1, width, err) ||
	                       picks_init(&r->picks, s, select_most(par_of(s)->k, s->kv->cap), err)
	               ? -1
	               : 0;
}

static void refresh_release(struct selector *s)
{
	struct refresh *r = s->state;

	select_drop(s, &r->score);
	select_drop(s, &r->q);
	select_drop(s, &r->mean[0]);
	select_drop(s, &r->mean[1]);
	select_drop(s, &r->turned);
	select_drop(s, &r->shown);
	select_drop(s, &r->cosine);
	picks_release(&r->picks, s);
	free(r->flag);
	free(r->same);
	free(r->compared);
	free(r->due);
	free(r->knows);
	free(r->selections);
}

/* ---- comparing queries ---- */

/* Average row i of `raw` (the step's unrotated queries) over the heads. Store the result as the query of the set that
 * is being selected. If `compare` is 1, also compare the result with the query of the layer's current set, and set the
 * layer's flag if the cosine is at most the setting s. */
static void query_drift(struct selector *s, int32_t layer, const struct tensor *raw, int32_t i, int compare)
{
	struct refresh *r = s->state;
	const struct hparams *hp = s->kv->hp;
	int cur = r->picks.cur[layer];

	s->kv->be->ops->query_drift(s->kv->be, &(struct query_drift_args){
						       .now = &r->mean[!cur],
						       .then = &r->mean[cur],
						       .q = raw,
						       .q_row = i,
						       .row = layer,
						       .n_head = hp->n_head,
						       .head_dim = hp->head_dim,
						       .flag = compare ? &r->turned : NULL,
						       .shown = &r->shown,
						       .cosine = &r->cosine,
						       .col = layer,
						       .least = par_of(s)->s,
					       });
}

/* ---- selection ---- */

/* Return the arguments of a scan that compares all keys with the queries q of all heads. */
static struct scan_args region_scan(const struct selector *s, int32_t layer, const struct tensor *q, int32_t n_slots)
{
	struct refresh *r = s->state;
	const struct hparams *hp = s->kv->hp;

	return (struct scan_args){
		.out = &r->score,
		.q = q,
		.keys = &s->kv->k[layer],
		.n_head = hp->n_head,
		.n_kv_head = hp->n_kv_head,
		.head_dim = hp->head_dim,
		.cap = s->kv->cap,
		.n_slots = n_slots,
		.bits = 16,
		.scale = model_layer_spec(hp, layer)->attn.scale,
		.reduce = REDUCE_MAX,
	};
}

/* Select the new->k slots with the largest attention probabilities among the first new->at slots, and write them to
 * new->slots. The probabilities are for query i of the n_q queries in q. If the predicate `when` is false, the backend
 * selects nothing. */
static void set_pick(struct selector *s, struct pick *new, int32_t layer, const struct tensor *q, int32_t i,
                     int32_t n_q, struct predicate when)
{
	struct refresh *r = s->state;
	struct backend *be = s->kv->be;
	const struct hparams *hp = s->kv->hp;
	struct scan_args scan;

	if (n_q > 1)
		be->ops->copy(be, &r->q, 0, q, i, 1);
	scan = region_scan(s, layer, n_q > 1 ? &r->q : q, new->at);
	scan.when = when;
	be->ops->key_scan(be, &scan);
	be->ops->topk(be, &(struct topk_args){
				  .slots = &new->slots,
				  .score = &r->score,
				  .n_kv_head = hp->n_kv_head,
				  .n = new->at,
				  .k = new->k,
				  .pool = par_of(s)->pool,
				  .last = s->own,
				  .order = BEST_FIRST,
				  .when = when,
			  });
}

/* Select a new set for this layer from the first n_slots slots, and return it. Token i of the step is the token that
 * selects. */
static struct pick *pick_now(struct selector *s, int32_t layer, const struct tensor *q, const struct tensor *raw,
                             int32_t i, int32_t n_q, int32_t n_slots)
{
	struct refresh *r = s->state;
	struct pick *new = picks_new(&r->picks, layer, n_slots, entry_count_of(par_of(s)->k, n_slots));

	if (par_of(s)->qc)
		query_drift(s, layer, raw, i, 0);
	set_pick(s, new, layer, q, i, n_q, (struct predicate){ 0 });
	return new;
}

/* List in seg[] the slots that a token reads: the selected set, and the tokens after its selection. For each of these
 * tokens except the first, the set drops the entry with the lowest score. When all set->k entries have been dropped,
 * the token reads only the newest set->k + 1 tokens. */
static int set_segments(const struct pick *set, const struct tensor *q, int32_t n_slots, struct attn_segment *seg)
{
	int32_t since = n_slots - set->at, left = since > 1 ? since - 1 : 0, n = 0;

	if (left < set->k)
		seg[n++] = (struct attn_segment){ .q = q, .slots = &set->slots, .n_slots = set->k - left };
	if (since > set->k + 1)
		since = set->k + 1;
	if (since > 0)
		seg[n++] = (struct attn_segment){ .q = q, .slot0 = n_slots - since, .n_slots = since };
	return n;
}

/* List in seg[] the slots that a token reads, for both outcomes of the comparison of queries: the layer selects a new
 * set, or it keeps the old set. The backend compares the queries and sets a flag, and the host does not wait for the
 * flag. The segments of each outcome have the flag as their predicate, so the backend reads the segments of one
 * outcome. With the settings update=no and scan=k, a token reads the old set in both outcomes, so the segments have no
 * predicate. */
static int either_segments(struct selector *s, const struct pick *set, int32_t layer, const struct tensor *q,
                           const struct tensor *raw, int32_t n_slots, struct attn_segment seg[SELECT_SEGMENTS])
{
	struct refresh *r = s->state;
	struct predicate turned = { &r->turned, layer, 1, &r->shown };
	int n, scan_kv = par_of(s)->scan == SCAN_KV;

	query_drift(s, layer, raw, 0, 1);
	r->compared[layer] = 1;
	if (par_of(s)->update == UPDATE_YES) {
		struct pick *new = picks_spare(&r->picks, layer, n_slots, entry_count_of(par_of(s)->k, n_slots));

		set_pick(s, new, layer, q, 0, 1, turned);
		n = scan_kv ? select_whole(q, n_slots, seg) : set_segments(new, q, n_slots, seg);
	} else if (scan_kv) {
		n = select_whole(q, n_slots, seg);
	} else {
		return set_segments(set, q, n_slots, seg);
	}
	seg[0].when = turned;
	turned.is = 0;
	for (int i = n, end = n += set_segments(set, q, n_slots, seg + n); i < end; i++)
		seg[i].when = turned;
	return n;
}

static int refresh_select(struct selector *s, const struct step *st, int32_t layer, const struct tensor *q,
                          const struct tensor *raw, int32_t n_slots, struct attn_segment seg[SELECT_SEGMENTS])
{
	struct refresh *r = s->state;
	int32_t every = par_of(s)->qc ? par_of(s)->qc : par_of(s)->stride;
	const struct pick *set;

	picks_enter(&r->picks, st, layer);
	r->compared[layer] = 0;
	r->due[layer] = 0;
	if (entry_count_of(par_of(s)->k, n_slots) >= n_slots)
		return select_whole(q, n_slots, seg);
	set = picks_get(&r->picks, layer);
	if (!set->at || set->at > n_slots)
		return set_segments(pick_now(s, layer, q, raw, 0, 1, n_slots), q, n_slots, seg);
	if (every < 1 || (st->pos + 1 - r->start) % every)
		return set_segments(set, q, n_slots, seg);
	r->due[layer] = 1;
	if (par_of(s)->qc)
		return either_segments(s, set, layer, q, raw, n_slots, seg);
	if (par_of(s)->update == UPDATE_YES)
		set = pick_now(s, layer, q, raw, 0, 1, n_slots);
	return par_of(s)->scan == SCAN_KV ? select_whole(q, n_slots, seg) : set_segments(set, q, n_slots, seg);
}

static void refresh_seen(struct selector *s, const struct step *st, int32_t layer, const struct tensor *q,
                         const struct tensor *raw, int32_t n_slots)
{
	struct refresh *r = s->state;

	if (step_generates(st))
		return;
	picks_enter(&r->picks, st, layer);
	r->compared[layer] = 0;
	if (st->last && entry_count_of(par_of(s)->k, n_slots) < n_slots)
		pick_now(s, layer, q, raw, st->n - 1, st->n, n_slots);
}

/* Return the number of layers that select sets of slots. */
static int32_t choosing_layers(const struct selector *s)
{
	int32_t n = 0;

	for (int32_t i = 0; i < s->kv->n_layer; i++)
		n += select_serves(s, i);
	return n;
}

/* Read from the backend which layers have selected a new set in this step, and mark these sets as fresh. */
static void fresh_sets_read(struct selector *s)
{
	struct refresh *r = s->state;
	struct backend *be = s->kv->be;
	size_t n = (size_t)r->picks.n_layer;

	memcpy(r->knows, r->compared, n);
	if (!memchr(r->compared, 1, n))
		return;
	be->ops->read(be, &r->shown, 0, r->flag, n * sizeof *r->flag);
	be->ops->read(be, &r->cosine, 0, r->same, n * sizeof *r->same);
	for (size_t i = 0; i < n && !be->failed; i++) {
		if (!r->compared[i])
			continue;
		r->compared[i] = 0;
		if (!r->flag[i] || par_of(s)->update != UPDATE_YES)
			continue;
		r->picks.fresh[i] = 1;
	}
}

static void refresh_end(struct selector *s, const struct step *st, int32_t n_slots)
{
	struct refresh *r = s->state;

	if (st->n == st->tried)
		fresh_sets_read(s);
	for (int32_t i = 0; step_generates(st) && i < st->n; i++) {
		int32_t slots = s->own ? n_slots - st->n + 1 + i : n_slots;

		if (entry_count_of(par_of(s)->k, slots) >= slots)
			continue;
		r->asked += choosing_layers(s);
		r->tokens++;
	}
	for (int32_t i = 0; step_generates(st) && i < r->picks.n_layer; i++) {
		int chose = st->n == st->tried && r->picks.fresh[i];

		r->chose += chose;
		r->selections[i] += chose;
	}
	if (!step_generates(st)) {
		r->start = st->pos + st->n;
		for (int32_t i = 0; i < r->picks.n_layer; i++)
			if (!r->picks.fresh[i])
				picks_get(&r->picks, i)->at = 0;
	}
	picks_commit(&r->picks, st);
}

/* Discard all sets. Return n if the next decoded token can select new sets. Return n - 1 if the last token must be
 * prefilled again, so that it selects them: the last token of every prefill selects sets. */
static int32_t refresh_rewind(struct selector *s, int32_t n)
{
	struct refresh *r = s->state;

	int again = s->own || n < r->start;

	picks_forget(&r->picks, 0);
	if (n < r->start)
		r->start = 0;
	return again && n > 0 ? n - 1 : n;
}

/* Return how many drafted tokens a VERIFY step may have. A token that selects or may select must be the last token of
 * the step, because later tokens would read its set. */
static int32_t refresh_verify_most(const struct selector *s, int32_t pos, int32_t n_slots)
{
	const struct refresh *r = s->state;

	for (int32_t i = 0; i < r->picks.n_layer; i++)
		if (!select_serves(s, i))
			continue;
		else if (!picks_old(&r->picks, i)->at || picks_old(&r->picks, i)->at > n_slots)
			return 1;
	return select_until(pos, r->start, par_of(s)->qc ? par_of(s)->qc : par_of(s)->stride);
}

static int refresh_replaced(const struct selector *s, int32_t layer, const struct tensor *q, int32_t n_slots,
                            struct attn_segment seg[SELECT_SEGMENTS])
{
	const struct refresh *r = s->state;

	return r->due[layer] ? set_segments(picks_old(&r->picks, layer), q, n_slots, seg) : 0;
}

static struct select_status refresh_status(const struct selector *s, int32_t layer)
{
	const struct refresh *r = s->state;

	return (struct select_status){ r->picks.was_fresh[layer], r->knows[layer] ? (double)r->same[layer] : -2,
		                       r->tokens, r->selections[layer] };
}

static int32_t refresh_entries(const struct selector *s, int32_t n_slots)
{
	return entry_count_of(par_of(s)->k, n_slots);
}

static uint64_t refresh_read_bytes(const struct selector *s, int32_t n_slots)
{
	const struct refresh *r = s->state;
	double k = entry_count_of(par_of(s)->k, n_slots), often = r->asked ? (double)r->chose / (double)r->asked : 0;

	if (!par_of(s)->qc)
		often = 1.0 / par_of(s)->stride;
	if (k >= n_slots)
		return select_entry_bytes(s, n_slots);
	/* The variable `often` is the share of tokens that select a new set. Such a token first scans all keys, which
	 * take half of the bytes of all entries. It then attends to the new set or, with scan=kv, to all entries. */
	k += often * (n_slots / 2.0 + (par_of(s)->scan == SCAN_KV ? n_slots - k : 0));
	return select_entry_bytes(s, k);
}

static void refresh_archive(struct selector *s, struct serializer *a, int32_t n_slots)
{
	struct refresh *r = s->state;
	uint64_t dim = (uint64_t)s->kv->hp->head_dim;

	(void)n_slots;
	serialize_i32(a, &r->start, 0, INT32_MAX, "the end of the prefill");
	serialize_i64(a, &r->asked, 0, INT64_MAX, "how often sets were used");
	serialize_i64(a, &r->chose, 0, INT64_MAX, "how often sets were selected");
	picks_archive(&r->picks, s, a);
	for (int32_t i = 0; i < r->picks.n_layer; i++)
		serialize_tensor_f32(a, s->kv->be, &r->mean[r->picks.cur[i]], (uint64_t)i * dim, dim);
}

/* clang-format off */
static const struct selector_ops refresh_ops = {
	.bytes = refresh_bytes, .init = refresh_init, .release = refresh_release, .select = refresh_select, .seen = refresh_seen,
	.end = refresh_end, .rewind = refresh_rewind, .verify_most = refresh_verify_most, .entries = refresh_entries,
	.read_bytes = refresh_read_bytes, .archive = refresh_archive, .scan = region_scan, .replaced = refresh_replaced,
	.status = refresh_status,
};
/* clang-format on */

#define AT(field) offsetof(struct refresh_params, field)
#define REFRESH(pool_preset, scan_preset)                                                                              \
	PARAM_POOL(struct refresh_params, pool_preset, "neighbours pooled before selecting"),                          \
		REMOVED("group", "max", 0),                                                                            \
		{ "scan",      PARAM_CHOICE,                                                                           \
		  AT(scan),    0,                                                                                      \
		  0,           "k|kv",                                                                                 \
		  scan_preset, "what a selecting step reads: all keys, or everything (as published)" },                \
		REMOVED("dense", "0", 0), REMOVED("sinks", "0", 0), REMOVED("recent", "0", 0),                         \
	{                                                                                                              \
		"update", PARAM_CHOICE, AT(update), 0, 0, "yes|no", "yes",                                             \
			"no: the set of the last prefill serves for ever (an ablation)"                                \
	}

static const struct param refresh_params[] = {
	PARAM_K(struct refresh_params, "512"),
	{ "qc", PARAM_INT, AT(qc), 1, 1e9, NULL, "5", "compare queries every so many tokens" },
	{ "s", PARAM_REAL, AT(s), -2, 2, NULL, "0.85", "select anew at this cosine and below" },
	REMOVED("stride", "10", 10),
	REFRESH("15", "k"),
	REMOVED("query", "pre", 0),
	{ .key = NULL },
};
const struct policy_def policy_refresh = {
	.name = "refresh",
	.help = "every token stays; k entries are read, selected anew when the query has drifted away (RefreshKV)",
	.params = refresh_params,
	.published = "k=1/8,pool=7,scan=kv",
	.gone = "qc=0",
	.retention = &retain_all,
	.selector = &refresh_ops,
};

static const struct param recycled_params[] = {
	PARAM_K(struct refresh_params, "512"),
	PARAM_STRIDE(struct refresh_params, "10"),
	REFRESH("7", "kv"),
	{ .key = NULL },
};
static void recycled_preset(void *values)
{
	struct refresh_params *p = values;

	p->qc = 0;
}
const struct policy_def policy_recycled = {
	.name = "recycled",
	.help = "refresh at a fixed stride (Recycled Attention)",
	.params = recycled_params,
	.published = "k=1/8",
	.preset = recycled_preset,
	.retention = &retain_all,
	.selector = &refresh_ops,
};
