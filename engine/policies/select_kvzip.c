/* engine/policies/select_kvzip.c - the policy `kvzip`: after a text was read, the model repeats the text, and the
 * entries with the most attention during the repetition are selected. Tokens decoded later read these entries and all
 * entries after the text.
 *
 * An entry's score is the largest probability that any token of the repetition gives it, in any query head of its KV
 * head. One threshold applies to all layers and KV heads, so their lists of slots have different lengths. The score
 * does not depend on a question: the selection is made once, and is used for all later questions.
 *
 * KVzip (Kim et al. 2025, arXiv 2505.23416) evicts the other entries. Here the other entries stay in the cache, and
 * prompt tokens read all entries.
 *
 * A sequence grows: each prefill of at least REPEAT_LEAST tokens ends a section, whose entries are selected among the
 * entries of this section alone. A rollback drops each section of which it removes tokens. */
#include <stdlib.h>
#include <string.h>

#include "engine/cache/cache.h"
#include "engine/cache/select.h"
#include "engine/cache/serialize.h"

enum {
	/* if a prefill has fewer new tokens, they are not repeated, and all their entries are read */
	REPEAT_LEAST = 32,
	FIRST = 4,        /* this many tokens at the beginning of the sequence are always selected (attention sinks) */
	DIGITS = 1 << 16, /* scores are sorted by their upper and then by their lower 16 bits */
};

struct kvzip_params {
	struct entry_count k;
};

struct kvzip {
	/* [n_layer] f32 [n_kv_head][cap]: the largest probability so far of each slot of the section that is being
	 * repeated; column 0 is the section's first slot */
	struct tensor *score;
	/* [n_layer] i32 [n_kv_head][cap]: selected slots, ascending; a head's list that is shorter than the longest
	 * list of the layer is filled up with slot 0 */
	struct tensor *slots;
	struct tensor *length; /* [n_layer] i32 [1][n_kv_head]: number of selected slots */
	int32_t *longest;      /* [n_layer] largest of these lengths */
	int32_t *end;          /* [sections] number of tokens at the end of each section, ascending */
	int32_t sections;
	int32_t seen;     /* number of tokens that the selector has seen in commits and snapshots */
	int32_t to;       /* end of the section that is being repeated, in tokens */
	uint32_t *buf;    /* [cap] scores of a head, as the bits of floats, or slots of a head */
	uint32_t *digits; /* [DIGITS] for each digit, the number of scores that have it */
	struct attn_probe probe;
	float *weight; /* [weight_cap] 1 for the tokens of a step that repeat the text */
	int32_t weight_cap;
};

static const struct kvzip_params *par_of(const struct selector *s)
{
	return s->par;
}

/* Return the end of the last section. All slots after it are read. */
static int32_t sections_end(const struct kvzip *f)
{
	return f->sections ? f->end[f->sections - 1] : 0;
}

static int32_t heads_of(const struct selector *s, int32_t layer)
{
	return kv_layer_heads(s->kv->hp, layer);
}

/* ---- life ---- */

static uint64_t kvzip_bytes(const void *values, const struct hparams *hp, const struct backend *be, int32_t cap)
{
	return (uint64_t)layers_unwindowed(hp) * (uint64_t)hp->n_kv_head * (8 * (uint64_t)cap + 4);
}

static int kvzip_init(struct selector *s, struct err *err)
{
	struct kvzip *f = s->state = xcalloc(1, sizeof *f);
	size_t layers = (size_t)s->kv->n_layer, cap = (size_t)s->kv->cap;
	int32_t heads = s->kv->hp->n_kv_head;

	f->score = xcalloc(layers, sizeof *f->score);
	f->slots = xcalloc(layers, sizeof *f->slots);
	f->length = xcalloc(layers, sizeof *f->length);
	f->longest = xcalloc(layers, sizeof *f->longest);
	f->digits = xcalloc(DIGITS, sizeof *f->digits);
	if (s->kv->be->device)
		return err_set(err, ERR_USAGE, "cache policy '%s' does not run on a GPU; use --device cpu", s->policy);
	if (!(f->buf = try_alloc(cap, sizeof *f->buf, "scores of KV entries", err)) ||
	    !(f->end = try_alloc(cap / REPEAT_LEAST + 1, sizeof *f->end, "sections of a text", err)))
		return -1;
	for (int32_t i = 0; i < s->kv->n_layer; i++)
		if (select_serves(s, i) && (select_alloc(s, &f->score[i], DT_F32, heads, s->kv->cap, err) ||
		                            select_alloc(s, &f->slots[i], DT_I32, heads, s->kv->cap, err) ||
		                            select_alloc(s, &f->length[i], DT_I32, 1, heads, err)))
			return -1;
	return 0;
}

static void kvzip_release(struct selector *s)
{
	struct kvzip *f = s->state;

	for (int32_t i = 0; i < s->kv->n_layer; i++) {
		select_drop(s, &f->score[i]);
		select_drop(s, &f->slots[i]);
		select_drop(s, &f->length[i]);
	}
	free(f->score);
	free(f->slots);
	free(f->length);
	free(f->longest);
	free(f->end);
	free(f->buf);
	free(f->digits);
	free(f->weight);
}

/* ---- lists of slots ---- */

static int32_t list_length(const struct selector *s, int32_t layer, int32_t head)
{
	struct kvzip *f = s->state;
	int32_t n;

	s->kv->be->ops->read(s->kv->be, &f->length[layer], 4 * (size_t)head, &n, sizeof n);
	return n;
}

static void list_set_length(struct selector *s, int32_t layer, int32_t head, int32_t n)
{
	s->kv->be->ops->write(s->kv->be, &((struct kvzip *)s->state)->length[layer], 4 * (size_t)head, &n, sizeof n);
}

/* Read or write n slots of a head's list, from index `at` on. */
static void list_read(struct selector *s, int32_t layer, int32_t head, int32_t at, uint32_t *slot, int32_t n)
{
	const struct tensor *t = &((struct kvzip *)s->state)->slots[layer];

	s->kv->be->ops->read(s->kv->be, t, 4 * ((size_t)head * (size_t)t->cols + (size_t)at), slot, 4 * (size_t)n);
}

static void list_write(struct selector *s, int32_t layer, int32_t head, int32_t at, const uint32_t *slot, int32_t n)
{
	struct tensor *t = &((struct kvzip *)s->state)->slots[layer];

	s->kv->be->ops->write(s->kv->be, t, 4 * ((size_t)head * (size_t)t->cols + (size_t)at), slot, 4 * (size_t)n);
}

/* After lists have changed, find the longest list of each layer, and fill up the other lists with slot 0. */
static void lists_level(struct selector *s)
{
	struct kvzip *f = s->state;

	memset(f->buf, 0, (size_t)s->kv->cap * sizeof *f->buf);
	for (int32_t i = 0; i < s->kv->n_layer; i++) {
		f->longest[i] = 0;
		for (int32_t h = 0; select_serves(s, i) && h < heads_of(s, i); h++)
			f->longest[i] = MAX(f->longest[i], list_length(s, i, h));
		for (int32_t h = 0; select_serves(s, i) && h < heads_of(s, i); h++) {
			int32_t n = list_length(s, i, h);

			list_write(s, i, h, n, f->buf, f->longest[i] - n);
		}
	}
}

/* Shorten all lists to the slots of the first `sections` sections. */
static void sections_cut(struct selector *s, int32_t sections)
{
	struct kvzip *f = s->state;
	int32_t end;

	if (sections == f->sections)
		return;
	f->sections = sections;
	end = sections_end(f);
	for (int32_t i = 0; i < s->kv->n_layer; i++)
		for (int32_t h = 0; select_serves(s, i) && h < heads_of(s, i); h++) {
			int32_t n = list_length(s, i, h), left = 0;

			list_read(s, i, h, 0, f->buf, n);
			while (left < n && f->buf[left] < (uint32_t)end)
				left++;
			list_set_length(s, i, h, left);
		}
	lists_level(s);
}

/* ---- selection ---- */

static int32_t kvzip_repeat(struct selector *s, int32_t n)
{
	struct kvzip *f = s->state;
	int32_t more = n - sections_end(f);

	if (more < REPEAT_LEAST || s->kv->cap - n < REPEAT_LEAST || entry_count_of(par_of(s)->k, more) >= more)
		return 0;
	f->to = n;
	for (int32_t i = 0; i < s->kv->n_layer; i++)
		if (select_serves(s, i))
			select_zero(s, &f->score[i], f->score[i].rows, f->score[i].cols);
	return more;
}

static const struct attn_probe *kvzip_probe(struct selector *s, const struct step *st, int32_t layer, int32_t n_slots)
{
	struct kvzip *f = s->state;

	if (!st->repeated)
		return NULL;
	if (f->weight_cap < st->n) {
		f->weight = xrealloc(f->weight, (size_t)st->n * sizeof *f->weight);
		f->weight_cap = st->n;
	}
	for (int32_t i = 0; i < st->n; i++)
		f->weight[i] = i >= st->n - st->repeated;
	f->probe = (struct attn_probe){ .mass = &f->score[layer],
		                        .weight = f->weight,
		                        .reduce = REDUCE_MAX,
		                        .largest = 1,
		                        .skip = sections_end(f) };
	return &f->probe;
}

/* Read the scores of the section in one head to f->buf, as the bits of floats. The integers with these bits are in the
 * same order as the floats. */
static void scores_read(struct selector *s, int32_t layer, int32_t head)
{
	struct kvzip *f = s->state;
	const struct tensor *t = &f->score[layer];
	int32_t from = sections_end(f);

	s->kv->be->ops->read(s->kv->be, t, 4 * (size_t)head * (size_t)t->cols, f->buf, 4 * (size_t)(f->to - from));
	for (int32_t i = 0; i < f->to - from; i++)
		f->buf[i] = from + i < FIRST ? INT32_MAX : f->buf[i] & INT32_MAX;
}

/* Consider only the scores whose upper 16 bits are `upper`, or all scores if `upper` is -1. In the first case a score's
 * digit is its lower 16 bits, in the second case its upper 16 bits. Return the largest digit d for which at least *keep
 * of these scores have digit d or a larger one. Reduce *keep by the number of scores with a larger digit. */
static uint32_t digit_cut(struct selector *s, int64_t upper, uint64_t *keep)
{
	struct kvzip *f = s->state;
	uint32_t d = DIGITS - 1;

	memset(f->digits, 0, DIGITS * sizeof *f->digits);
	for (int32_t l = 0; l < s->kv->n_layer; l++)
		for (int32_t h = 0; select_serves(s, l) && h < heads_of(s, l); h++) {
			scores_read(s, l, h);
			for (int32_t i = 0; i < f->to - sections_end(f); i++)
				if (upper < 0)
					f->digits[f->buf[i] >> 16]++;
				else if (f->buf[i] >> 16 == (uint32_t)upper)
					f->digits[f->buf[i] & (DIGITS - 1)]++;
		}
	for (; d > 0 && f->digits[d] < *keep; d--)
		*keep -= f->digits[d];
	return d;
}

/* Append the slots of the section whose scores are at least `least` to the lists of selected slots. */
static void lists_extend(struct selector *s, uint32_t least)
{
	struct kvzip *f = s->state;
	int32_t from = sections_end(f);

	for (int32_t l = 0; l < s->kv->n_layer; l++)
		for (int32_t h = 0; select_serves(s, l) && h < heads_of(s, l); h++) {
			int32_t n = f->sections ? list_length(s, l, h) : 0, more = 0;

			scores_read(s, l, h);
			for (int32_t i = 0; i < f->to - from; i++)
				if (f->buf[i] >= least)
					f->buf[more++] = (uint32_t)(from + i);
			list_write(s, l, h, n, f->buf, more);
			list_set_length(s, l, h, n + more);
		}
}

static void kvzip_repeated(struct selector *s)
{
	struct kvzip *f = s->state;
	uint64_t keep = 0;
	uint32_t upper;

	for (int32_t i = 0; i < s->kv->n_layer; i++)
		if (select_serves(s, i))
			keep += (uint64_t)heads_of(s, i) *
			        (uint64_t)entry_count_of(par_of(s)->k, f->to - sections_end(f));
	upper = digit_cut(s, -1, &keep);
	lists_extend(s, upper << 16 | digit_cut(s, upper, &keep));
	f->end[f->sections++] = f->to;
	lists_level(s);
}

/* ---- reading ---- */

/* List in seg[] the slots that a token reads: the selected slots, and all slots after the last section. */
static int kvzip_segments(const struct selector *s, int32_t layer, const struct tensor *q, int32_t n_slots,
                          struct attn_segment seg[SELECT_SEGMENTS])
{
	const struct kvzip *f = s->state;
	int32_t end = sections_end(f);
	int n = 0;

	if (!end)
		return select_whole(q, n_slots, seg);
	if (f->longest[layer])
		seg[n++] = (struct attn_segment){
			.q = q, .slots = &f->slots[layer], .lengths = &f->length[layer], .n_slots = f->longest[layer]
		};
	seg[n++] = (struct attn_segment){ .q = q, .slot0 = end, .n_slots = n_slots - end };
	return n;
}

static int kvzip_select(struct selector *s, const struct step *st, int32_t layer, const struct tensor *q,
                        const struct tensor *raw, int32_t n_slots, struct attn_segment seg[SELECT_SEGMENTS])
{
	return kvzip_segments(s, layer, q, n_slots, seg);
}

static int kvzip_holds(const struct selector *s, int32_t layer, int32_t n_slots,
                       struct attn_segment seg[SELECT_SEGMENTS])
{
	return kvzip_segments(s, layer, NULL, n_slots, seg);
}

static int32_t kvzip_together(const struct selector *s, int32_t n_slots)
{
	return VERIFY_MOST;
}

static int32_t kvzip_entries(const struct selector *s, int32_t n_slots)
{
	const struct kvzip *f = s->state;
	int64_t sum = 0, heads = 0;

	for (int32_t i = 0; f->sections && i < s->kv->n_layer; i++)
		for (int32_t h = 0; select_serves(s, i) && h < heads_of(s, i); h++, heads++)
			sum += list_length(s, i, h);
	return n_slots - sections_end(f) + (int32_t)(sum / MAX(heads, 1));
}

static uint64_t kvzip_read_bytes(const struct selector *s, int32_t n_slots)
{
	return select_entry_bytes(s, kvzip_entries(s, n_slots));
}

/* ---- commits, rollbacks, snapshots ---- */

static void kvzip_end(struct selector *s, const struct step *st, int32_t n_slots)
{
	((struct kvzip *)s->state)->seen = st->pos + st->n;
}

static int32_t kvzip_rewind(struct selector *s, int32_t n)
{
	struct kvzip *f = s->state;
	int32_t sections = f->sections;

	/* The entries of the other tokens come from another policy, so the end of their prefill must be computed
	 * again. */
	if (n > f->seen)
		return n - 1;
	f->seen = n;
	while (sections && f->end[sections - 1] > n)
		sections--;
	sections_cut(s, sections);
	return n;
}

static void kvzip_archive(struct selector *s, struct serializer *a, int32_t n_slots)
{
	struct kvzip *f = s->state;
	int32_t sections = f->sections;

	serialize_i32(a, &sections, 0, n_slots / REPEAT_LEAST, "the number of sections");
	for (int32_t i = 0; i < sections && !a->bad; i++)
		serialize_i32(a, &f->end[i], i ? f->end[i - 1] + 1 : 1, n_slots, "the end of a section");
	if (a->bad)
		return;
	f->sections = sections;
	for (int32_t i = 0; sections && i < s->kv->n_layer; i++)
		for (int32_t h = 0; select_serves(s, i) && h < heads_of(s, i) && !a->bad; h++) {
			int32_t n = serialize_loading(a) ? 0 : list_length(s, i, h);

			serialize_i32(a, &n, 0, sections_end(f), "the number of selected slots");
			serialize_tensor_i32(a, s->kv->be, &f->slots[i], (uint64_t)h * (uint64_t)f->slots[i].cols,
			                     (uint64_t)n, 0, sections_end(f) - 1, "a selected slot");
			if (serialize_loading(a))
				list_set_length(s, i, h, n);
		}
	if (!serialize_loading(a) || a->bad)
		return;
	f->seen = n_slots;
	lists_level(s);
}

/* clang-format off */
static const struct selector_ops kvzip_ops = {
	.bytes = kvzip_bytes, .init = kvzip_init, .release = kvzip_release, .select = kvzip_select, .probe = kvzip_probe,
	.end = kvzip_end, .repeat = kvzip_repeat, .repeated = kvzip_repeated, .rewind = kvzip_rewind, .together = kvzip_together,
	.entries = kvzip_entries, .read_bytes = kvzip_read_bytes, .archive = kvzip_archive, .holds = kvzip_holds,
};
/* clang-format on */

#define PAR struct kvzip_params

static const struct param kvzip_params[] = {
	PARAM_K(PAR, "1/4"),
	{ .key = NULL },
};

const struct policy_def policy_kvzip = {
	.name = "kvzip",
	.help = "KVzip: the model repeats what it has read, which selects entries; later ones are read, too",
	.published = "",
	.params = kvzip_params,
	.retention = &retain_all,
	.selector = &kvzip_ops,
};
