/* engine/policies/select_sift.c - the policy `sift`: each decoded token selects the entries that it reads, by a scan of
 * low-bit keys.
 *
 * The "key sketch" stores each key value in 2, 4 or 8 bits. Each decoded token scores all entries with its own query
 * and the key sketch. Then it attends to the k entries per KV head with the highest scores, in full precision. In small
 * models attention changes from token to token. So an imprecise selection for each token recovers more attention than a
 * precise selection every few tokens.
 *
 * With split=need, layers get different numbers of entries, because attention is spread over more entries in some
 * layers than in others. The last tokens of a prefill show how many entries have 95 % of the probability in each layer.
 * The n_layer * k entries are divided among the layers in this proportion. */
#include "engine/cache/select.h"
#include "engine/policies/policy.h"

#include <stdlib.h>
#include <string.h>

#include "engine/cache/serialize.h"
#include "engine/cache/cache.h"

enum { SPREAD_TOKENS = 16 };
#define SPREAD_SHARE 0.95f

enum { SPLIT_NEED, SPLIT_EVEN };
struct sift_params {
	struct entry_count k;
	int32_t bits, sample;
	int split;
};
_Static_assert(sizeof(struct sift_params) <= POLICY_VALUES, "settings do not fit");

struct sift {
	/* [n_layer] the key sketch of each layer, u8; layers with a sliding window have no key sketch, and with bits=16
	 * no layer has one */
	struct tensor *sketch;
	/* Scores and selected slots of one token. In a step that verifies drafted tokens, each token has its own
	 * element of choice[]. The first element is always allocated, the others on first use. */
	struct choice {
		struct tensor score; /* f32 [n_kv_head][cap]: scores of a scan */
		struct tensor slots; /* i32 [n_kv_head][most + sample]: selected slots */
		/* f32 [n_kv_head][most + sample]: log weights of sampled entries; no data if there is no sample */
		struct tensor bias;
		struct scan_args scan;
		struct topk_args topk;
		struct attn_selection selection;
	} choice[VERIFY_MOST];
	int32_t start;            /* length of the sequence at the end of the last prefill */
	struct tensor spread_sum; /* f32 [1][n_layer]: sums of `spread` over observed tokens and query heads */
	struct attn_probe probe;
	float *weight; /* [weight_cap] for each token of the step, 1 if its attention is observed, otherwise 0 */
	int32_t weight_cap;
	/* [n_layer] number of entries that together get 95 % (SPREAD_SHARE) of the attention probability */
	double *spread;
	int has_spread;
	/* [n_layer] scratch memory. split_layer[] lists the layers that select. split_k[] has the number of entries of
	 * each of these layers. */
	int32_t *split_layer, *split_k;
	/* [n_layer] scratch memory; for each layer in split_layer[], the number of entries that together get 95 %
	 * (SPREAD_SHARE) of the attention probability */
	double *split_spread;
	/* k[l] is the number of entries that a token reads in layer l when k_slots slots of the cache are in use;
	 * INT32_MAX stands for all entries. If k_slots is 0, k[] has not been computed yet. */
	int32_t *k, k_slots;
};

static const struct sift_params *par_of(const struct selector *s)
{
	return s->par;
}

static int32_t sift_bits(const struct sift_params *par)
{
	return par->bits ? par->bits : 2;
}

/* Return the largest number of entries that a layer may read from a cache with room for `cap` slots. */
static int32_t sift_most(const struct sift_params *par, int32_t cap)
{
	int64_t n = (par->split == SPLIT_NEED ? 3 : 1) * (int64_t)select_most(par->k, cap);

	return n < cap ? (int32_t)n : cap;
}

static int32_t sift_listed(const void *values, int32_t cap)
{
	const struct sift_params *par = values;

	return sift_bits(par) >= 16 ? 0 : sift_most(par, cap) + par->sample;
}

static uint64_t sketch_bytes(const struct sift_params *par, const struct hparams *hp, const struct backend *be,
                             int32_t cap)
{
	return sift_bits(par) >= 16 ? 0
	                            : be->ops->key_sketch_bytes(be, hp->n_kv_head, cap, hp->head_dim, sift_bits(par));
}

static uint64_t sift_bytes(const void *values, const struct hparams *hp, const struct backend *be, int32_t cap)
{
	const struct sift_params *par = values;
	uint64_t most = (uint64_t)sift_most(par, cap), heads = (uint64_t)hp->n_kv_head;

	return (uint64_t)layers_unwindowed(hp) * sketch_bytes(par, hp, be, cap) + 4 * heads * (uint64_t)cap +
	       (par->sample ? 8 : 4) * heads * (most + (uint64_t)par->sample);
}

/* Allocate the tensors of a choice if this is its first use. If this fails, return -1; the backend's next sync() then
 * fails as well. */
static int choice_ready(struct selector *s, struct choice *c, struct err *err)
{
	const struct sift_params *par = s->par;
	int32_t heads = s->kv->hp->n_kv_head, listed = sift_most(par, s->kv->cap) + par->sample;

	if (c->score.data)
		return 0;
	if (select_alloc(s, &c->score, DT_F32, heads, s->kv->cap, err) ||
	    select_alloc(s, &c->slots, DT_I32, heads, listed, err))
		return -1;
	return par->sample ? select_alloc(s, &c->bias, DT_F32, heads, listed, err) : 0;
}

static int sift_init(struct selector *s, struct err *err)
{
	struct sift *f = s->state = xcalloc(1, sizeof *f);
	const struct sift_params *par = s->par;
	const struct hparams *hp = s->kv->hp;

	s->tail = par->split == SPLIT_NEED ? SPREAD_TOKENS : 1;
	f->sketch = xcalloc((size_t)hp->n_layer, sizeof *f->sketch);
	f->spread = xcalloc((size_t)hp->n_layer, sizeof *f->spread);
	f->k = xcalloc((size_t)hp->n_layer, sizeof *f->k);
	f->split_layer = xcalloc((size_t)hp->n_layer, sizeof *f->split_layer);
	f->split_k = xcalloc((size_t)hp->n_layer, sizeof *f->split_k);
	f->split_spread = xcalloc((size_t)hp->n_layer, sizeof *f->split_spread);
	if (choice_ready(s, f->choice, err) || select_alloc(s, &f->spread_sum, DT_F32, 1, hp->n_layer, err))
		return -1;
	for (int32_t i = 0; sift_bits(par) < 16 && i < hp->n_layer; i++) {
		uint64_t bytes = sketch_bytes(par, hp, s->kv->be, s->kv->cap);

		if (select_serves(s, i) &&
		    select_alloc(s, &f->sketch[i], DT_U8, 1, bytes > INT32_MAX ? -1 : (int64_t)bytes, err))
			return -1;
	}
	return 0;
}

static void sift_release(struct selector *s)
{
	struct sift *f = s->state;

	for (int32_t i = 0; f->sketch && i < s->kv->n_layer; i++)
		select_drop(s, &f->sketch[i]);
	for (struct choice *c = f->choice; c < f->choice + VERIFY_MOST; c++) {
		select_drop(s, &c->score);
		select_drop(s, &c->slots);
		select_drop(s, &c->bias);
	}
	select_drop(s, &f->spread_sum);
	free(f->sketch);
	free(f->spread);
	free(f->k);
	free(f->split_layer);
	free(f->split_k);
	free(f->split_spread);
	free(f->weight);
}

static void sift_note(struct selector *s, int32_t layer, int32_t slot0, int32_t n)
{
	struct sift *f = s->state;
	struct kv_store *kv = s->kv;

	if (sift_bits(par_of(s)) < 16)
		kv->be->ops->key_sketch(kv->be, &f->sketch[layer], &kv->k[layer], kv->hp->n_kv_head, kv->cap,
		                        sift_bits(par_of(s)), slot0, n);
}

/* ---- selection ---- */

/* Compute f->k, the number of entries that each layer reads if there are n_slots slots. */
static void split_entries(struct selector *s, int32_t n_slots)
{
	struct sift *f = s->state;
	int32_t n_layer = s->kv->n_layer, n = 0;
	int32_t mean = entry_count_of(par_of(s)->k, n_slots), before = f->k_slots;
	int by_spread = par_of(s)->split == SPLIT_NEED && f->has_spread;

	/* select_split() limits a layer to 3 * mean entries and to n_slots entries. If n_slots is larger than 3 * mean,
	 * only the limit 3 * mean matters, and the result does not depend on n_slots. So f->k stays valid if n_slots
	 * was larger than 3 * mean at the last call, too, and if `mean` is still the same. */
	if (before == n_slots ||
	    (before > 3 * (int64_t)mean && n_slots > 3 * (int64_t)mean && mean == entry_count_of(par_of(s)->k, before)))
		return;
	f->k_slots = n_slots;
	for (int32_t i = 0; i < n_layer; i++) {
		f->k[i] = INT32_MAX;
		if (!select_serves(s, i))
			continue;
		f->split_spread[n] = f->spread[i];
		f->split_layer[n++] = i;
	}
	if (n > 0)
		select_split(f->split_k, by_spread ? f->split_spread : NULL, n, mean, n_slots);
	for (int32_t i = 0; i < n; i++)
		f->k[f->split_layer[i]] = f->split_k[i];
}

static struct scan_args sift_scan(const struct selector *s, int32_t layer, const struct tensor *q, int32_t n_slots)
{
	struct sift *f = s->state;
	const struct hparams *hp = s->kv->hp;
	int32_t bits = sift_bits(par_of(s));

	return (struct scan_args){
		.out = &f->choice->score,
		.q = q,
		.keys = bits >= 16 ? &s->kv->k[layer] : &f->sketch[layer],
		.n_head = hp->n_head,
		.n_kv_head = hp->n_kv_head,
		.head_dim = hp->head_dim,
		.cap = s->kv->cap,
		.n_slots = n_slots,
		.bits = bits,
		.scale = model_layer_spec(hp, layer)->attn.scale,
		.reduce = REDUCE_MAX,
	};
}

/* Return an attention segment with the k highest-scoring of n_slots entries. Its list of slots is filled in during
 * attention: the backend then scores the entries with the query q and writes the selected slots to c->slots. */
static struct attn_segment best_entries(struct selector *s, struct choice *c, int32_t layer, const struct tensor *q,
                                        int32_t n_slots, int32_t k)
{
	c->scan = sift_scan(s, layer, q, n_slots);
	c->scan.out = &c->score;
	c->topk = (struct topk_args){
		.slots = &c->slots,
		.score = &c->score,
		.n_kv_head = s->kv->hp->n_kv_head,
		.n = n_slots,
		.k = k,
		.pool = 1,
		.last = s->own,
	};
	if (par_of(s)->sample) {
		c->topk.sample = par_of(s)->sample;
		c->topk.bias = &c->bias;
	}
	c->selection = (struct attn_selection){ .scan = &c->scan, .topk = &c->topk };
	return (struct attn_segment){ .q = q,
		                      .slots = &c->slots,
		                      .n_slots = k + c->topk.sample,
		                      .selection = &c->selection,
		                      .bias = c->topk.bias,
		                      .sample = c->topk.sample };
}

static int sift_select(struct selector *s, const struct step *st, int32_t layer, const struct tensor *q,
                       const struct tensor *raw, int32_t n_slots, struct attn_segment seg[SELECT_SEGMENTS])
{
	struct sift *f = s->state;
	struct choice *c = f->choice + (st->kind == STEP_VERIFY ? st->index : 0);
	int32_t k;

	split_entries(s, n_slots);
	k = f->k[layer];
	if (k >= n_slots - par_of(s)->sample || choice_ready(s, c, NULL))
		return select_whole(q, n_slots, seg);
	seg[0] = best_entries(s, c, layer, q, n_slots, k);
	return 1;
}

/* ---- how widely attention spreads ---- */

static int32_t spread_tokens(const struct step *st)
{
	return MIN(st->n, SPREAD_TOKENS);
}

static int32_t first_serving(const struct selector *s)
{
	int32_t i = 0;

	while (i < s->kv->n_layer && !select_serves(s, i))
		i++;
	return i;
}

static const struct attn_probe *sift_probe(struct selector *s, const struct step *st, int32_t layer, int32_t n_slots)
{
	struct sift *f = s->state;

	if (step_generates(st) || !st->last || par_of(s)->split != SPLIT_NEED)
		return NULL;
	if (layer == first_serving(s)) {
		if (f->weight_cap < st->n) {
			f->weight = xrealloc(f->weight, (size_t)st->n * sizeof *f->weight);
			f->weight_cap = st->n;
		}
		for (int32_t i = 0; i < st->n; i++)
			f->weight[i] = i >= st->n - spread_tokens(st);
		select_zero(s, &f->spread_sum, 1, s->kv->n_layer);
	}
	f->probe = (struct attn_probe){
		.weight = f->weight, .spread = &f->spread_sum, .spread_col = layer, .share = SPREAD_SHARE
	};
	return &f->probe;
}

static void sift_end(struct selector *s, const struct step *st, int32_t n_slots)
{
	struct sift *f = s->state;
	struct kv_store *kv = s->kv;

	if (step_generates(st))
		return;
	f->start = st->pos + st->n;
	f->k_slots = 0;
	if (!st->last || par_of(s)->split != SPLIT_NEED)
		return;
	for (int32_t i = 0; i < kv->n_layer; i++) {
		float sum;

		kv->be->ops->read(kv->be, &f->spread_sum, 4 * (size_t)i, &sum, sizeof sum);
		f->spread[i] = (double)sum / (spread_tokens(st) * (double)kv->hp->n_head);
	}
	f->has_spread = 1;
}

/* Roll back to the first n tokens. If these include the whole last prefill, return n: the spread of attention was
 * measured at the end of the prefill. Otherwise return n - s->tail: the last s->tail tokens must be prefilled again, to
 * measure the spread. */
static int32_t sift_rewind(struct selector *s, int32_t n)
{
	struct sift *f = s->state;

	f->k_slots = 0;
	if (f->start > 0 && n >= f->start)
		return n;
	f->start = 0;
	return n >= s->tail ? n - s->tail : 0;
}

/* Return for how many tokens attention can be computed together: for as many as fit the current block of the key
 * sketch. The keys of all these tokens are added to the sketch before the first token scans it. If a key fills a block,
 * the sketch of the block's older keys changes, so the token with this key must be the last one. */
static int32_t sift_together(const struct selector *s, int32_t n_slots)
{
	return s->own && sift_bits(par_of(s)) < 16 ? SKETCH_BLOCK - n_slots % SKETCH_BLOCK : VERIFY_MOST;
}

static int32_t sift_entries(const struct selector *s, int32_t n_slots)
{
	return entry_count_of(par_of(s)->k, n_slots) + par_of(s)->sample;
}

static uint64_t sift_read_bytes(const struct selector *s, int32_t n_slots)
{
	const struct hparams *hp = s->kv->hp;
	double k = entry_count_of(par_of(s)->k, n_slots) + par_of(s)->sample, scan;

	if (k >= n_slots)
		return select_entry_bytes(s, n_slots);
	scan = sift_bits(par_of(s)) >= 16
	               ? (double)select_entry_bytes(s, n_slots) / 2
	               : (double)sketch_bytes(par_of(s), hp, s->kv->be, n_slots) * layers_unwindowed(hp);
	return select_entry_bytes(s, k) + (uint64_t)scan;
}

static void sift_archive(struct selector *s, struct serializer *a, int32_t n_slots)
{
	struct sift *f = s->state;

	(void)n_slots;
	serialize_i32(a, &f->start, 0, INT32_MAX, "the end of the prefill");
	if (par_of(s)->split == SPLIT_NEED) {
		serialize_i32(a, &f->has_spread, 0, 1, "the spread of layers");
		serialize_bytes(a, f->spread, (uint64_t)s->kv->n_layer * sizeof *f->spread);
	}
	if (serialize_loading(a))
		f->k_slots = 0;
}

/* clang-format off */
static const struct selector_ops sift_ops = {
	.bytes = sift_bytes, .listed = sift_listed, .init = sift_init, .release = sift_release, .note = sift_note, .select = sift_select,
	.probe = sift_probe, .end = sift_end, .rewind = sift_rewind, .together = sift_together, .entries = sift_entries,
	.read_bytes = sift_read_bytes, .archive = sift_archive, .scan = sift_scan,
};
/* clang-format on */

#define AT(field) offsetof(struct sift_params, field)
static const struct param sift_params[] = {
	PARAM_K(struct sift_params, "512"),
	{ "bits", PARAM_INT, AT(bits), 0, 0, "2|4|8|16", "2",
	  "bits a value of the key sketch; 16 scans the keys themselves" },
	REMOVED("every", "1", 1),
	{ "split", PARAM_CHOICE, AT(split), 0, 0, "need|even", "need",
	  "k is the mean over the layers: shared by how widely their attention spreads, or evenly" },
	REMOVED("dense", "0", 0),
	{ "sample", PARAM_INT, AT(sample), 0, 4096, NULL, "0",
	  "entries beside the k that stand for all others: an unbiased sample, weighted by what each stands for" },
	REMOVED("pool", "7", 7),
	{ .key = NULL },
};
const struct policy_def policy_sift = {
	.name = "sift",
	.help = "every token stays; each generated token reads k entries, which a scan of a low-bit key sketch scores highest",
	.params = sift_params,
	.retention = &retain_all,
	.selector = &sift_ops,
};
