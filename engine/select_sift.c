/* engine/select_sift.c - `sift`: look at every step, through a low-bit copy of the keys.
 *
 * Beside the planes lies a copy of the keys with a few bits a value.  Every generated token scans the copy with its own
 * query, and attends the exact rows of the K keys that score best, per KV head.  Attention of small models jumps from token to
 * token, so a set that is chosen anew each time is worth more than precise scores.
 *
 * split=need: layers differ in how widely their attention spreads.  The last tokens of what is read say how many rows hold
 * 95 % of the probability, and K is shared among the layers in proportion.
 * every=n: a set serves n steps, together with the tokens since; then it is chosen through a max-pool, because the next
 * token looks near, not at, the same places. */
#include "engine/select.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/archive.h"

enum { NEED_TOKENS = 16, POOL_REUSED = 7 };
#define NEED_SHARE 0.95f

struct sift {
	struct tensor *copy;       /* [n_layer], U8; none with 16 bits */
	struct tensor score;       /* f32 [n_kv_head][cap] */
	struct tensor rows;        /* i32 [n_kv_head][most]: every=1 */
	/* The choice that a part asks for; the query is its own. */
	struct scan_args scan;
	struct topk_args topk;
	struct attn_choice choice;
	struct picks picks;        /* every > 1 */
	int32_t start;             /* tokens of the sequence when the last read ended: steps count from there */
	struct tensor need_sum;    /* f32 [1][n_layer] */
	struct attn_probe probe;
	float *weight;             /* [weight_cap] */
	int32_t weight_cap;
	double *need;              /* [n_layer] rows that hold NEED_SHARE */
	int has_need;
	int32_t *k, k_rows;        /* [n_layer] rows to read of a region of k_rows; 0 = to be computed */
};

static int32_t sift_every(const struct kv_params *par)
{
	return par->every > 1 ? par->every : 1;
}

static int32_t sift_bits(const struct kv_params *par)
{
	return par->bits ? par->bits : 2;
}

/* The most rows one layer may get. */
static int32_t sift_most(const struct kv_params *par, int32_t cap)
{
	int64_t n = (par->split == SPLIT_NEED ? 3 : 1) * (int64_t)select_most(par->k, cap);

	return n < cap ? (int32_t)n : cap;
}

static uint64_t copy_bytes(const struct kv_params *par, const struct hparams *hp, const struct backend *be, int32_t cap)
{
	return sift_bits(par) >= 16 ? 0 : be->ops->key_sketch_bytes(be, hp->n_kv_head, cap, hp->head_dim, sift_bits(par));
}

static uint64_t sift_bytes(const struct kv_params *par, const struct hparams *hp, const struct backend *be, int32_t cap)
{
	uint64_t most = (uint64_t)sift_most(par, cap), heads = (uint64_t)hp->n_kv_head;

	return (uint64_t)hp->n_layer * copy_bytes(par, hp, be, cap) + 4 * heads * (uint64_t)cap +
	       (sift_every(par) > 1 ? picks_bytes(hp, (int32_t)most) : 4 * heads * most);
}

static int sift_init(struct selector *s, struct err *err)
{
	struct sift *f = s->state = xcalloc(1, sizeof *f);
	const struct kv_params *par = s->par;
	const struct hparams *hp = s->kv->hp;
	int32_t most = sift_most(par, s->kv->cap);

	s->tail = par->split == SPLIT_NEED ? NEED_TOKENS : 1;
	f->copy = xcalloc((size_t)hp->n_layer, sizeof *f->copy);
	f->need = xcalloc((size_t)hp->n_layer, sizeof *f->need);
	f->k = xcalloc((size_t)hp->n_layer, sizeof *f->k);
	if (select_alloc(s, &f->score, DT_F32, hp->n_kv_head, s->kv->cap, err) ||
	    select_alloc(s, &f->need_sum, DT_F32, 1, hp->n_layer, err))
		return -1;
	if (sift_every(par) > 1 ? picks_init(&f->picks, s, most, err)
	                        : select_alloc(s, &f->rows, DT_I32, hp->n_kv_head, most, err))
		return -1;
	for (int32_t i = 0; sift_bits(par) < 16 && i < hp->n_layer; i++) {
		uint64_t bytes = copy_bytes(par, hp, s->kv->be, s->kv->cap);

		if (select_alloc(s, &f->copy[i], DT_U8, 1, bytes > INT32_MAX ? -1 : (int64_t)bytes, err))
			return -1;
	}
	return 0;
}

static void sift_release(struct selector *s)
{
	struct sift *f = s->state;

	for (int32_t i = 0; f->copy && i < s->kv->n_layer; i++)
		select_drop(s, &f->copy[i]);
	select_drop(s, &f->score);
	select_drop(s, &f->need_sum);
	select_drop(s, &f->rows);
	picks_release(&f->picks, s);
	free(f->copy);
	free(f->need);
	free(f->k);
	free(f->weight);
}

static void sift_note(struct selector *s, int32_t layer, int32_t row0, int32_t n)
{
	struct sift *f = s->state;
	struct kv *kv = s->kv;

	if (sift_bits(s->par) < 16)
		kv->be->ops->key_sketch(kv->be, &f->copy[layer], &kv->k[layer], kv->hp->n_kv_head, kv->cap, sift_bits(s->par), row0, n);
}

/* ---- which rows ---- */

static void share_rows(struct selector *s, int32_t n_rows)
{
	struct sift *f = s->state;
	int32_t n_layer = s->kv->n_layer, dense = s->par->dense < n_layer ? s->par->dense : n_layer;
	int by_need = s->par->split == SPLIT_NEED && f->has_need;

	if (f->k_rows == n_rows)
		return;
	f->k_rows = n_rows;
	for (int32_t i = 0; i < dense; i++)
		f->k[i] = n_rows;
	if (dense < n_layer)
		select_split(f->k + dense, by_need ? f->need + dense : NULL, n_layer - dense, kv_rows_of(s->par->k, n_rows), n_rows);
}

/* Sets that serve several steps are each layer's own. */
static int32_t sift_shared(const struct selector *s)
{
	const struct sift *f = s->state;

	return f->rows.cols;
}

static struct scan_args sift_scan(const struct selector *s, int32_t layer, const struct tensor *q, int32_t n_rows)
{
	struct sift *f = s->state;
	const struct hparams *hp = s->kv->hp;
	int32_t bits = sift_bits(s->par);

	return (struct scan_args){
		.out = &f->score, .q = q, .keys = bits >= 16 ? &s->kv->k[layer] : &f->copy[layer], .n_head = hp->n_head,
		.n_kv_head = hp->n_kv_head, .head_dim = hp->head_dim, .cap = s->kv->cap, .n_rows = n_rows,
		.bits = bits, .scale = (float)(1.0 / sqrt((double)hp->head_dim)), .reduce = REDUCE_MAX,
	};
}

/* A part of k rows of n_rows, which attention is to find by the part's query. */
static struct attn_part best_rows(struct selector *s, int32_t layer, const struct tensor *q, int32_t n_rows,
                                  struct tensor *rows, int32_t k, int32_t pool)
{
	struct sift *f = s->state;

	f->scan = sift_scan(s, layer, q, n_rows);
	f->topk = (struct topk_args){
		.rows = rows, .score = &f->score, .n_kv_head = s->kv->hp->n_kv_head, .n = n_rows, .k = k, .pool = pool,
		.last = s->own,
	};
	f->choice = (struct attn_choice){ .scan = &f->scan, .topk = &f->topk };
	return (struct attn_part){ .q = q, .rows = rows, .n_rows = k, .choice = &f->choice };
}

static int sift_choose(struct selector *s, const struct step *st, int32_t layer, const struct tensor *q,
                       const struct tensor *raw, int32_t n_rows, struct attn_part part[SELECT_PARTS])
{
	struct sift *f = s->state;
	int32_t every = sift_every(s->par), k;
	struct pick *set;

	share_rows(s, n_rows);
	k = f->k[layer];
	if (every > 1)
		picks_enter(&f->picks, layer);
	if (k >= n_rows)
		return select_whole(q, n_rows, part);
	if (every == 1) {
		part[0] = best_rows(s, layer, q, n_rows, select_list(s, layer, &f->rows), k, 1);
		return 1;
	}
	set = picks_get(&f->picks, layer);
	select_fresh(s, layer, 0);
	if (!set->at || set->at > n_rows || (st->pos + 1 - f->start) % every == 0) {
		set = picks_new(&f->picks, layer, n_rows, k);
		select_fresh(s, layer, 1);
		part[0] = best_rows(s, layer, q, n_rows, &set->rows, k, s->par->pool > 0 ? s->par->pool : POOL_REUSED);
	} else {
		part[0] = (struct attn_part){ .q = q, .rows = &set->rows, .n_rows = set->k };
	}
	part[1] = (struct attn_part){ .q = q, .row0 = set->at, .n_rows = n_rows - set->at };
	return set->at < n_rows ? 2 : 1;
}

/* ---- how widely layers look ---- */

static int32_t need_tokens(const struct step *st)
{
	return st->n < NEED_TOKENS ? st->n : NEED_TOKENS;
}

static const struct attn_probe *sift_probe(struct selector *s, const struct step *st, int32_t layer, int32_t n_rows)
{
	struct sift *f = s->state;

	if (st->decode || !st->last || s->par->split != SPLIT_NEED)
		return NULL;
	if (layer == 0) {
		if (f->weight_cap < st->n) {
			f->weight = xrealloc(f->weight, (size_t)st->n * sizeof *f->weight);
			f->weight_cap = st->n;
		}
		for (int32_t i = 0; i < st->n; i++)
			f->weight[i] = i >= st->n - need_tokens(st);
		select_zero(s, &f->need_sum, 1, s->kv->n_layer);
	}
	f->probe = (struct attn_probe){ .weight = f->weight, .spread = &f->need_sum, .spread_col = layer, .share = NEED_SHARE };
	return &f->probe;
}

static void sift_end(struct selector *s, const struct step *st, int32_t n_rows)
{
	struct sift *f = s->state;
	struct kv *kv = s->kv;

	if (sift_every(s->par) > 1) {
		picks_commit(&f->picks);
		if (!st->decode)
			picks_forget(&f->picks, 0);
	}
	if (st->decode)
		return;
	f->start = st->pos + st->n;
	f->k_rows = 0;
	if (!st->last || s->par->split != SPLIT_NEED)
		return;
	for (int32_t i = 0; i < kv->n_layer; i++) {
		float sum;

		kv->be->ops->read(kv->be, &f->need_sum, 4 * (size_t)i, &sum, sizeof sum);
		f->need[i] = (double)sum / (need_tokens(st) * (double)kv->hp->n_head);
	}
	f->has_need = 1;
}

static int32_t sift_rewind(struct selector *s, int32_t n)
{
	struct sift *f = s->state;

	if (sift_every(s->par) > 1)
		picks_forget(&f->picks, 0);
	f->k_rows = 0;
	return n >= s->tail ? n - s->tail + 1 : 0;
}

static uint64_t sift_read_bytes(const struct selector *s, int32_t n_rows)
{
	const struct hparams *hp = s->kv->hp;
	double k = kv_rows_of(s->par->k, n_rows), dense = s->par->dense < hp->n_layer ? s->par->dense : hp->n_layer, scan;

	if (k >= n_rows)
		return select_row_bytes(s, n_rows);
	scan = sift_bits(s->par) >= 16 ? (double)select_row_bytes(s, n_rows) / 2
	                               : (double)copy_bytes(s->par, hp, s->kv->be, n_rows) * hp->n_layer;
	dense /= hp->n_layer;
	return select_row_bytes(s, dense * n_rows + (1 - dense) * k) + (uint64_t)(scan * (1 - dense) / sift_every(s->par));
}

static void sift_archive(struct selector *s, struct archive *a, int32_t n_rows)
{
	struct sift *f = s->state;

	(void)n_rows;
	archive_i32(a, &f->start, 0, INT32_MAX, "the end of what was read");
	if (s->par->split == SPLIT_NEED) {
		archive_i32(a, &f->has_need, 0, 1, "what layers need");
		archive_bytes(a, f->need, (uint64_t)s->kv->n_layer * sizeof *f->need);
	}
	if (sift_every(s->par) > 1)
		picks_archive(&f->picks, s, a);
	if (archive_loads(a))
		f->k_rows = 0;
}

const struct selector_ops select_sift = {
	.bytes = sift_bytes, .init = sift_init, .release = sift_release, .note = sift_note, .choose = sift_choose,
	.probe = sift_probe, .end = sift_end, .rewind = sift_rewind, .read_bytes = sift_read_bytes,
	.archive = sift_archive, .shared = sift_shared, .scan = sift_scan,
};
