/* engine/policies/select_predict.c - the policy `predict`: each decoded token reads the blocks of KV entries to which a
 * small network expects it to attend (AttentionPredictor, arXiv 2502.04077). The first and the newest entries are
 * always read.
 *
 * The network (predictor.h) sees the history of a KV head: a table with a row for each of the last tokens and a column
 * for each block. An element is the largest probability that the token gave to an entry of the block. The table starts
 * with the last tokens of the prefill. After the attention of a decoded token, its row is added. Entries that the token
 * did not read count as 0 in the row. To correct this error, each `calibrate`-th token scans all keys for its row, but
 * reads no more entries than other tokens.
 *
 * Differences from the published method: query heads that share a KV head have one history, with their largest
 * probabilities. The newest entries, which are always read, begin at a block's border. There may be up to one block
 * more of them than the setting `last` asks for. In the rows of prefill tokens, a token attends only to the tokens
 * before it and to itself.
 *
 * The setting by=mixed replaces the network by a simple guess, for comparison: 0.3 times the last row plus 0.7 times
 * the mean of the rows. */
#include "engine/policies/select_mass.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cache/cache.h"
#include "engine/policies/predictor.h"
#include "engine/cache/serialize.h"

enum { BY_NET, BY_MIXED };
struct predict_params {
	struct entry_count k;
	int32_t block, rows, calibrate, first, last, dense;
	int by;
};

struct predict {
	struct predictor net;
	struct step_mass mass; /* mass.slots has the slots of the selected blocks */
	/* f32 [n_layer * rows][n_head * head_dim]: queries of the last tokens of the current prefill */
	struct tensor query;
	struct tensor one_query; /* f32 [1][n_head * head_dim]: copy of one row of `query` */
	/* [n_layer * n_kv_head] for each KV head, the attention of the last tokens (its history) */
	struct attn_image *image;
	float *a, *r;  /* [n_layer * n_kv_head][rows][cols] memory for the members `a` and `r` of image[] */
	float *score;  /* [n_layer * n_kv_head][cols] predicted attention to each block */
	int32_t *list; /* [n_layer * n_kv_head][mass.most] selected slots on the host */
	int32_t cols;  /* number of blocks in the whole context */
	int32_t n;     /* number of rows (tokens) in use in image[]; 0: no token's attention is known */
	int32_t start; /* length of the sequence at the end of the last prefill */
	/* number of slots from which the slots in mass.slots were selected, for the next token; 0: nothing is selected
	 * for the next token yet */
	int32_t selected_for;
};

/* Which blocks a token reads. */
struct plan {
	/* the token selects among the blocks from index `from` up to, but not including, `to`; it always reads all
	 * other blocks */
	int32_t from, to;
	int32_t n; /* number of blocks to select */
};

static const struct predict_params *par_of(const struct selector *s)
{
	return s->par;
}

static int32_t blocks_of(const struct predict_params *par, int32_t slots)
{
	return slots / par->block + (slots % par->block != 0);
}

/* Decide which of n_slots slots a token reads. Return 0 if the token reads all slots. */
static int plan_of(const struct predict_params *par, int own, int32_t n_slots, struct plan *out)
{
	int32_t k = entry_count_of(par->k, n_slots), last = MAX(par->last, own);

	out->from = blocks_of(par, par->first);
	out->to = n_slots > last ? (n_slots - last) / par->block : 0;
	out->n = (k - out->from * par->block - last) / par->block;
	out->n = MAX(out->n, 1);
	return k < n_slots && out->to - out->from > out->n;
}

static int32_t entries_of(const struct predict_params *par, int own, int32_t n_slots)
{
	struct plan p;

	return plan_of(par, own, n_slots, &p) ? (p.from + p.n) * par->block + n_slots - p.to * par->block : n_slots;
}

/* Return the maximum number of entries that a token selects in a sequence of up to cap tokens. The setting k limits
 * this number, but at least one block can always be selected. */
static struct entry_count most_of(const struct predict_params *par, int32_t cap)
{
	int32_t most = select_most(par->k, cap);

	return (struct entry_count){ .n = MAX(most, par->block) };
}

/* ---- life ---- */

static uint64_t predict_bytes(const void *values, const struct hparams *hp, const struct backend *be, int32_t cap)
{
	const struct predict_params *par = values;
	uint64_t heads = (uint64_t)hp->n_layer * (uint64_t)hp->n_kv_head, cols = (uint64_t)blocks_of(par, cap),
		 rows = (uint64_t)par->rows;
	uint64_t most = (uint64_t)select_most(most_of(par, cap), cap);

	return step_mass_bytes(hp, most_of(par, cap), cap) + 4 * heads * (cols * (2 * rows + 1) + most) +
	       4 * (rows * (uint64_t)hp->n_layer + 1) * (uint64_t)hp->n_head * (uint64_t)hp->head_dim;
}

static int predict_init(struct selector *s, struct err *err)
{
	struct predict *f = s->state = xcalloc(1, sizeof *f);
	const struct hparams *hp = s->kv->hp;
	const struct predict_params *par = par_of(s);
	size_t heads = (size_t)hp->n_layer * (size_t)hp->n_kv_head, rows = (size_t)par->rows, size;
	int64_t width = (int64_t)hp->n_head * hp->head_dim;

	s->tail = par->rows;
	f->cols = blocks_of(par, s->kv->cap);
	size = heads * rows * (size_t)f->cols;
	if ((par->by == BY_NET &&
	     predictor_find(&f->net, &(struct predictor_key){ hp->fingerprint, par->block, par->rows }, err)) ||
	    step_mass_init(&f->mass, s, most_of(par, s->kv->cap), err) ||
	    select_alloc(s, &f->query, DT_F32, (int64_t)hp->n_layer * par->rows, width, err) ||
	    select_alloc(s, &f->one_query, DT_F32, 1, width, err) ||
	    !(f->a = try_alloc(size, sizeof *f->a, "rows of attention", err)) ||
	    !(f->r = try_alloc(size, sizeof *f->r, "rows of attention", err)) ||
	    !(f->score = try_alloc(heads * (size_t)f->cols, sizeof *f->score, "predictions", err)) ||
	    !(f->list = try_alloc(heads * (size_t)f->mass.most, sizeof *f->list, "selected slots", err)))
		return -1;
	f->image = xcalloc(heads, sizeof *f->image);
	for (size_t i = 0; i < heads; i++)
		attn_image_init(&f->image[i], f->a + i * rows * (size_t)f->cols, f->r + i * rows * (size_t)f->cols,
		                par->rows, f->cols);
	return 0;
}

static void predict_release(struct selector *s)
{
	struct predict *f = s->state;

	step_mass_release(&f->mass, s);
	select_drop(s, &f->query);
	select_drop(s, &f->one_query);
	free(f->image);
	free(f->a);
	free(f->r);
	free(f->score);
	free(f->list);
}

/* 1 if decoded tokens select in this layer. Only such layers have histories. */
static int has_history(const struct selector *s, int32_t layer)
{
	return layer >= par_of(s)->dense && select_serves(s, layer);
}

static struct attn_image *image_of(const struct selector *s, int32_t layer, int32_t head)
{
	const struct predict *f = s->state;

	return &f->image[layer * s->kv->hp->n_kv_head + head];
}

/* ---- selection ---- */

/* Map a score to an integer, in the same order: a larger score gets a larger integer. NaN gets 0. */
static uint32_t rank_of(float score)
{
	uint32_t bits;

	if (!(score == score))
		return 0;
	memcpy(&bits, &score, sizeof bits);
	return bits >> 31 ? ~bits : bits | 0x80000000u;
}

/* Write the slots of the n blocks with the highest scores to slots[], in ascending order. score[i] is the score of
 * block `from` + i. If blocks have equal scores, the later blocks are selected. */
static void best_blocks(const float *score, int32_t cols, int32_t n, int32_t from, int32_t block, int32_t *slots)
{
	uint32_t rank = 0, mask = 0;
	int32_t left = n, equal = 0, at = 0;

	/* Find the lowest rank that is selected, byte by byte (radix select). `left` is the number of selected blocks
	 * with exactly this rank. */
	for (int shift = 24; shift >= 0; shift -= 8) {
		int32_t count[256] = { 0 };
		int digit = 255;

		for (int32_t i = 0; i < cols; i++)
			if ((rank_of(score[i]) & mask) == rank)
				count[rank_of(score[i]) >> shift & 255]++;
		for (; digit > 0 && count[digit] < left; digit--)
			left -= count[digit];
		rank |= (uint32_t)digit << shift;
		mask |= 255u << shift;
		equal = count[digit];
	}
	for (int32_t i = 0; i < cols; i++) {
		uint32_t r = rank_of(score[i]);

		if (r < rank || (r == rank && equal-- > left))
			continue;
		for (int32_t k = 0; k < block; k++)
			slots[at++] = (from + i) * block + k;
	}
}

/* Predict the attention to the n blocks from index `from` on, without the network (setting by=mixed). Write the
 * predictions to out[n]. `rows` is the number of rows (tokens) of the history. */
static void row_guess(const struct attn_image *m, int32_t rows, int32_t from, int32_t n, float *out)
{
	const float *last = attn_image_row(m, m->rows - 1) + from;

	for (int32_t x = 0; x < n; x++)
		out[x] = 0;
	for (int32_t t = m->rows - rows; t < m->rows; t++)
		for (int32_t x = 0; x < n; x++)
			out[x] += attn_image_row(m, t)[from + x];
	for (int32_t x = 0; x < n; x++) {
		out[x] /= (float)rows;
		out[x] = 0.3f * last[x] + 0.7f * out[x];
	}
}

struct selecting {
	const struct selector *s;
	struct plan plan;
};

static void select_head(void *arg, int task)
{
	const struct selecting *w = arg;
	const struct predict_params *par = par_of(w->s);
	const struct predict *f = w->s->state;
	int32_t n = w->plan.to - w->plan.from;
	float *score = f->score + (size_t)task * (size_t)f->cols;

	if (!has_history(w->s, task / w->s->kv->hp->n_kv_head))
		return;
	if (par->by == BY_NET)
		predictor_run(&f->net, w->s->kv->be, &f->image[task], w->plan.from, w->plan.to, score);
	else
		row_guess(&f->image[task], f->n, w->plan.from, n, score);
	best_blocks(score, n, w->plan.n, w->plan.from, par->block, f->list + (size_t)task * (size_t)f->mass.most);
}

/* Select in all layers at once. This is possible because the selections depend on earlier tokens only, not on the
 * token's own queries. */
static void select_all(struct selector *s, const struct plan *plan, int32_t n_slots)
{
	struct predict *f = s->state;
	const struct hparams *hp = s->kv->hp;
	struct selecting w = { s, *plan };
	size_t row = (size_t)f->mass.most * sizeof *f->list;

	backend_each(s->kv->be, select_head, &w, hp->n_layer * hp->n_kv_head);
	f->mass.n = plan->n * par_of(s)->block;
	for (int32_t i = 0; i < hp->n_layer * hp->n_kv_head; i++)
		if (has_history(s, i / hp->n_kv_head))
			s->kv->be->ops->write(s->kv->be, &f->mass.slots[i / hp->n_kv_head],
			                      (size_t)(i % hp->n_kv_head) * row,
			                      f->list + (size_t)i * (size_t)f->mass.most,
			                      (size_t)f->mass.n * sizeof *f->list);
	f->selected_for = n_slots;
}

static int predict_select(struct selector *s, const struct step *st, int32_t layer, const struct tensor *q,
                          const struct tensor *raw, int32_t n_slots, struct attn_segment seg[SELECT_SEGMENTS])
{
	struct predict *f = s->state;
	int32_t block = par_of(s)->block;
	struct plan plan;
	int n = 0;

	if (!f->n || layer < par_of(s)->dense || !plan_of(par_of(s), s->own, n_slots, &plan))
		return select_whole(q, n_slots, seg);
	if (f->selected_for != n_slots)
		select_all(s, &plan, n_slots);
	if (plan.from)
		seg[n++] = (struct attn_segment){ .q = q, .n_slots = plan.from * block };
	seg[n++] = (struct attn_segment){ .q = q, .slots = &f->mass.slots[layer], .n_slots = f->mass.n };
	seg[n++] = (struct attn_segment){ .q = q, .slot0 = plan.to * block, .n_slots = n_slots - plan.to * block };
	return n;
}

/* ---- the history ---- */

/* 1 if this token scans all keys (setting calibrate), so that its row shows its attention to all entries. */
static int token_calibrates(const struct selector *s, const struct step *st)
{
	const struct predict *f = s->state;

	return step_generates(st) && (st->pos + 1 - f->start) % par_of(s)->calibrate == 0;
}

static const struct attn_probe *predict_probe(struct selector *s, const struct step *st, int32_t layer, int32_t n_slots)
{
	struct predict *f = s->state;
	int32_t cols = f->n ? entries_of(par_of(s), s->own, n_slots) : n_slots;

	return step_generates(st) && layer >= par_of(s)->dense && !token_calibrates(s, st)
	               ? step_mass_probe(&f->mass, s, st, layer, 1, cols, REDUCE_MAX)
	               : NULL;
}

/* Set mass.sums to the logarithms of a query's probabilities on the first n_slots slots. Query heads that share a KV
 * head have one row together, with their largest probabilities. */
static void keys_scan(struct selector *s, int32_t layer, const struct tensor *q, int32_t n_slots)
{
	struct predict *f = s->state;
	const struct hparams *hp = s->kv->hp;

	s->kv->be->ops->key_scan(s->kv->be, &(struct scan_args){
						    .out = step_mass_sums(&f->mass, layer, n_slots),
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
					    });
}

/* Return how many tokens at the end of a prefill step are observed. */
static int32_t tokens_counted(const struct selector *s, const struct step *st)
{
	return !st->last ? 0 : MIN(st->n, s->tail);
}

static void predict_seen(struct selector *s, const struct step *st, int32_t layer, const struct tensor *q,
                         const struct tensor *raw, int32_t n_slots)
{
	struct predict *f = s->state;
	int32_t n = tokens_counted(s, st);

	if (layer < par_of(s)->dense)
		return;
	if (token_calibrates(s, st))
		keys_scan(s, layer, q, n_slots);
	if (step_generates(st))
		step_mass_show(&f->mass, s, layer);
	else if (!step_generates(st) && n)
		s->kv->be->ops->copy(s->kv->be, &f->query, layer * par_of(s)->rows, q, st->n - n, n);
}

static void keep_largest(const struct predict_params *par, float *row, int32_t slot, float p)
{
	float *at = &row[slot / par->block];

	*at = p > *at ? p : *at;
}

/* Add the last token's row to the history of each KV head of a layer. If `logarithms` is 1, mass.sums has the
 * logarithms of the probabilities on all n_slots slots. Otherwise it has the probabilities on the slots that the
 * token read. */
static void add_rows(struct selector *s, int32_t layer, int32_t n_slots, int logarithms)
{
	struct predict *f = s->state;
	const struct predict_params *par = par_of(s);
	struct plan plan;
	int some = !logarithms && f->n && plan_of(par, s->own, n_slots, &plan);
	int32_t first = some ? plan.from * par->block : n_slots, listed = some ? f->mass.n : 0,
		tail = some ? plan.to * par->block : n_slots;

	for (int32_t h = 0; h < s->kv->hp->n_kv_head; h++) {
		const float *x = step_mass_head(&f->mass, s, layer, h, first + listed + n_slots - tail);
		const int32_t *list =
			f->list + ((size_t)layer * (size_t)s->kv->hp->n_kv_head + (size_t)h) * (size_t)f->mass.most;
		float *row = attn_image_push(image_of(s, layer, h));

		memset(row, 0, (size_t)f->cols * sizeof *row);
		for (int32_t i = 0; i < first; i++)
			keep_largest(par, row, i, logarithms ? expf(x[i]) : x[i]);
		for (int32_t i = 0; i < listed; i++)
			keep_largest(par, row, list[i], x[first + i]);
		for (int32_t i = tail; i < n_slots; i++)
			keep_largest(par, row, i, x[first + listed + i - tail]);
	}
}

static void history_clear(struct selector *s)
{
	struct predict *f = s->state;

	for (int32_t i = 0; i < s->kv->n_layer * s->kv->hp->n_kv_head; i++)
		if (has_history(s, i / s->kv->hp->n_kv_head))
			attn_image_clear(&f->image[i], f->cols);
	f->n = 0;
}

/* Restart the history with the last n tokens of a prefill. */
static void history_begin(struct selector *s, int32_t n, int32_t n_slots)
{
	struct predict *f = s->state;

	history_clear(s);
	for (int32_t layer = 0; layer < s->kv->n_layer; layer++)
		for (int32_t i = 0; has_history(s, layer) && i < n; i++) {
			s->kv->be->ops->copy(s->kv->be, &f->one_query, 0, &f->query, layer * par_of(s)->rows + i, 1);
			keys_scan(s, layer, &f->one_query, n_slots - (n - 1 - i));
			add_rows(s, layer, n_slots - (n - 1 - i), 1);
		}
	f->n = n;
}

static void predict_end(struct selector *s, const struct step *st, int32_t n_slots)
{
	struct predict *f = s->state;

	if (!step_generates(st)) {
		f->start = st->pos + st->n;
		history_begin(s, tokens_counted(s, st), n_slots);
	} else {
		if (!f->n)
			history_clear(s);
		for (int32_t layer = 0; layer < s->kv->n_layer; layer++)
			if (has_history(s, layer))
				add_rows(s, layer, n_slots, token_calibrates(s, st));
		f->n += f->n < par_of(s)->rows;
	}
	f->selected_for = 0;
}

/* Clear the history of all KV heads. The last tokens of the next prefill start a new history. So return n minus the
 * number of these tokens: the caller must prefill them again. */
static int32_t predict_rewind(struct selector *s, int32_t n)
{
	struct predict *f = s->state;

	f->n = f->start = f->selected_for = 0;
	return n < s->tail ? 0 : n - s->tail;
}

/* Return 1: drafted tokens are verified one at a time, because each token may change what the next one reads. */
static int32_t predict_verify_most(const struct selector *s, int32_t pos, int32_t n_slots)
{
	return 1;
}

/* ---- cost and dependencies ---- */

static int32_t predict_entries(const struct selector *s, int32_t n_slots)
{
	return (int32_t)select_mean(s, par_of(s)->dense, entries_of(par_of(s), s->own, n_slots), n_slots);
}

static uint64_t predict_read_bytes(const struct selector *s, int32_t n_slots)
{
	/* Besides the entries that every token reads, count the keys that each `calibrate`-th token scans: all n_slots
	 * keys. The keys are half of the bytes of the entries. */
	double k = entries_of(par_of(s), s->own, n_slots) + n_slots / 2.0 / par_of(s)->calibrate;

	return select_entry_bytes(s, select_mean(s, par_of(s)->dense, k, n_slots));
}

static void predict_archive(struct selector *s, struct serializer *a, int32_t n_slots)
{
	struct predict *f = s->state;
	int32_t n = f->n, rows = par_of(s)->rows;

	if (serialize_loading(a))
		f->selected_for = 0;
	serialize_i32(a, &f->start, 0, INT32_MAX, "the end of the prefill");
	serialize_i32(a, &n, 0, rows, "the number of rows of attention");
	if (serialize_loading(a))
		history_clear(s);
	for (int32_t layer = 0; layer < s->kv->n_layer && !a->bad; layer++)
		for (int32_t h = 0; has_history(s, layer) && h < s->kv->hp->n_kv_head && !a->bad; h++) {
			struct attn_image *m = image_of(s, layer, h);

			for (int32_t i = rows - n; i < rows; i++)
				serialize_bytes(a, attn_image_row(m, i),
				                (uint64_t)blocks_of(par_of(s), n_slots) * sizeof(float));
		}
	if (serialize_loading(a) && !a->bad)
		f->n = n;
}

static void predict_identity(const struct selector *s, struct str *out)
{
	const struct predict *f = s->state;

	if (par_of(s)->by == BY_NET)
		str_addf(out, "predictor %016" PRIx64 "\n", hash64(0, &f->net, sizeof f->net));
}

/* clang-format off */
static const struct selector_ops predict_ops = {
	.bytes = predict_bytes, .init = predict_init, .release = predict_release, .select = predict_select, .probe = predict_probe,
	.seen = predict_seen, .end = predict_end, .rewind = predict_rewind, .verify_most = predict_verify_most, .entries = predict_entries,
	.read_bytes = predict_read_bytes, .archive = predict_archive, .identity = predict_identity,
};
/* clang-format on */

#define AT(field) offsetof(struct predict_params, field)
static const struct param predict_params[] = {
	PARAM_K(struct predict_params, "512"),
	{ "block", PARAM_INT, AT(block), 0, 0, "1|4|8|16|32", "16",
	  "KV entries of a block, which are selected together" },
	{ "rows", PARAM_INT, AT(rows), 2, 256, NULL, "64", "tokens of the history" },
	{ "calibrate", PARAM_INT, AT(calibrate), 1, 1e9, NULL, "5",
	  "tokens between two whose attention to everything enters the history" },
	{ "first", PARAM_INT, AT(first), 0, 1e6, NULL, "64", "first entries that are always read" },
	{ "last", PARAM_INT, AT(last), 0, 1e6, NULL, "64", "newest entries that are always read" },
	PARAM_DENSE(struct predict_params, "2"),
	{ "by", PARAM_CHOICE, AT(by), 0, 0, "net|mixed", "net",
	  "what predicts: the network; to compare with: 0.3 of the last row and 0.7 of the rows' mean" },
	{ .key = NULL },
};
const struct policy_def policy_predict = {
	.name = "predict",
	.help = "every token stays; each generated token reads the blocks that a trained network expects (AttentionPredictor)",
	.params = predict_params,
	.published = "",
	.retention = &retain_all,
	.selector = &predict_ops,
};
