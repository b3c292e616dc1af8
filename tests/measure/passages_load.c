/* tests/measure/passages_load.c - computes passages alone, loads their KV entries into a prompt, and recomputes some of
 * their tokens (passages_load.h). */
#include "tests/measure/passages_load.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/common/quant.h"

struct engine *engine;
struct timeline *tl;
static struct rope shift;
static struct tensor moves; /* list of kv_move() */

void stop(const char *what)
{
	fprintf(stderr, "passages: %s\n", what);
	exit(1);
}

void need(int ok, const struct err *e)
{
	if (!ok)
		stop(e->msg);
}

void passages_open(const char *model, int threads)
{
	struct engine_options eo = { .model_path = model, .device = "cpu", .threads = threads };
	struct timeline_options to = { .ctx = PASSAGES_CTX, .kv = "full" };
	struct err e = { 0 };

	need(!engine_open(&engine, &eo, &e) && !timeline_open(&tl, engine, &to, &e), &e);
	need(!rope_init(&shift, tl->cache.hp, tl->cache.be, 1, PASSAGES_CTX, &e) &&
	             !cache_alloc(&tl->cache, &moves, DT_I32, tl->cache.hp->n_kv_head, 3 * PASSAGES_CTX, &e),
	     &e);
}

void passages_close(void)
{
	cache_drop(&tl->cache, &moves);
	rope_release(&shift);
	timeline_close(tl);
	engine_close(engine);
}

void prompt_free(struct prompt *p)
{
	for (int i = 0; i < p->n; i++)
		for (int k = 0; k < 2; k++)
			free(p->block[i].kv[k]);
	for (size_t i = 0; i < LEN(p->deviation); i++)
		free(p->deviation[i]);
	tokens_free(&p->id);
}

/* ---- the cache ---- */

void sync_to(const int32_t *id, int32_t n)
{
	struct err e = { 0 };

	need(timeline_sync(tl, id, (size_t)n, NULL, NULL, &e) >= 0, &e);
}

static void extend_by(const int32_t *id, int32_t n)
{
	struct err e = { 0 };

	need(!n || !timeline_extend(tl, id, (size_t)n, 0, NULL, NULL, &e), &e);
}

static uint8_t *entries_of(int32_t from, int32_t n)
{
	uint8_t *out = xmalloc(timeline_token_bytes(tl, 1) * (size_t)n);
	struct err e = { 0 };

	need(!timeline_entries_save(tl, from, n, 1, out, &e), &e);
	return out;
}

/* Rotate the keys of slots from .. from + n - 1 by `by` positions. */
static void keys_rotate(int32_t from, int32_t n, int64_t by)
{
	struct kv_store *kv = &tl->cache.kv;
	int32_t heads = kv->hp->n_kv_head, *list = xmalloc(sizeof *list * 3 * (size_t)n * (size_t)heads), *out = list;

	for (int32_t h = 0; h < heads; h++)
		for (int32_t i = 0; i < n; i++, out += 3)
			out[0] = out[1] = from + i, out[2] = 0;
	moves.cols = 3 * n;
	kv->be->ops->write(kv->be, &moves, 0, list, sizeof *list * (size_t)(out - list));
	rope_set_shifts(&shift, &by, 1);
	for (int32_t layer = 0; layer < kv->n_layer; layer++) {
		const struct rope_freqs *f = model_rope(kv->hp, layer);
		struct kv_moves m = { .move = &moves,
			              .shift = rope_table(&shift, layer),
			              .n = n,
			              .n_kv_head = heads,
			              .head_dim = kv->hp->head_dim,
			              .dims = f->dims,
			              .cap = kv->cap,
			              .neox = f->neox };

		kv->be->ops->kv_move(kv->be, &kv->k[layer], &m);
	}
	free(list);
}

/* Append tokens at .. at + n - 1 of a passage from its saved entries. */
static void append_loaded(const struct prompt *p, const struct block *b, int alone, int32_t at, int32_t n)
{
	size_t rows = 2 * (size_t)tl->cache.kv.n_layer * (size_t)tl->cache.hp->n_kv_head,
	       row = timeline_token_bytes(tl, 1) / rows;
	uint8_t *part = xmalloc(rows * row * (size_t)n);
	int64_t by = b->from - b->at[alone];
	struct err e = { 0 };

	for (size_t i = 0; i < rows; i++)
		memcpy(part + i * row * (size_t)n, b->kv[alone] + (i * (size_t)b->n + (size_t)at) * row,
		       row * (size_t)n);
	timeline_backend_take(tl);
	kv_entries_write(&tl->cache.kv, b->from + at, n, part);
	if (by)
		keys_rotate(b->from + at, n, by);
	need(!timeline_backend_give(tl, &e), &e);
	free(part);
	tokens_append(&tl->tokens, p->id.id + b->from + at, (size_t)n);
	for (int32_t i = 0; i < n; i++)
		str_add(&tl->marks, "", 1);
	tl->n_past += n;
	tl->cache.total = tl->cache.read_end = tl->n_past;
	tl->logits_at = tl->read_end = -1;
}

static int32_t passages_end(const struct prompt *p)
{
	return p->block[p->n - 1].from + p->block[p->n - 1].n;
}

/* Compute the prompt up to the end of the passages: read tokens with again[i] = 1, and load the others. */
static void assemble(const struct prompt *p, const uint8_t *again, int alone)
{
	sync_to(p->id.id, p->block[0].from);
	for (const struct block *b = p->block; b < p->block + p->n; b++)
		for (int32_t i = 0, run; i < b->n; i += run) {
			const uint8_t *a = again + b->from + i;

			for (run = 1; i + run < b->n && a[run] == *a; run++)
				;
			if (*a)
				extend_by(p->id.id + b->from + i, run);
			else
				append_loaded(p, b, alone, i, run);
		}
}

void passages_isolate(struct prompt *p, int alone)
{
	int32_t head = alone ? 0 : p->block[0].from;

	for (int i = 0; i < p->n; i++) {
		struct block *b = &p->block[i];
		struct tokens t = { 0 };

		tokens_append(&t, p->id.id, (size_t)head);
		tokens_append(&t, p->id.id + b->from, (size_t)b->n);
		sync_to(t.id, (int32_t)t.n);
		b->at[alone] = head;
		b->kv[alone] = entries_of(head, b->n);
		tokens_free(&t);
	}
}

/* ---- which tokens are computed again ---- */

/* Return how far entries of n tokens are from others, for each token: squared, values of layer 1 or keys and values of
 * all layers. */
static double *deviation_of(const uint8_t *x, const uint8_t *y, int32_t n, enum choice by)
{
	const struct hparams *hp = tl->cache.hp;
	double *out = xcalloc((size_t)n, sizeof *out);
	int32_t planes = 2 * tl->cache.kv.n_layer, dim = hp->head_dim;

	for (int32_t plane = 0; plane < planes; plane++)
		for (int32_t i = 0; i < n * hp->n_kv_head && (by == ALL_LAYERS || plane == 3); i++)
			for (int32_t d = 0; d < dim; d++) {
				size_t at = ((size_t)plane * (size_t)(n * hp->n_kv_head) + (size_t)i) * (size_t)dim +
				            (size_t)d;
				double diff =
					f16_to_f32(((const uint16_t *)x)[at]) - f16_to_f32(((const uint16_t *)y)[at]);

				out[i % n] += diff * diff;
			}
	return out;
}

static const double *sorted_by;
static int by_deviation(const void *a, const void *b)
{
	double x = sorted_by[*(const int32_t *)a], y = sorted_by[*(const int32_t *)b];

	return x < y ? 1 : x > y ? -1 : 0;
}

/* Return again[id.n] of assemble(). Entries of the first passage that are exact are not computed again. */
static uint8_t *tokens_again(const struct prompt *p, const struct plan *plan)
{
	uint8_t *again = xcalloc(p->id.n, 1);
	int32_t first = p->block[0].from, n = passages_end(p) - first, *order = xmalloc(sizeof *order * (size_t)n);

	for (int i = !plan->alone && plan->share < 1; i < p->n && plan->by == FIRST; i++)
		memset(again + p->block[i].from, 1, (size_t)ceil(MIN(plan->share, 1) * p->block[i].n));
	for (int32_t i = 0; i < n; i++)
		order[i] = i;
	sorted_by = p->deviation[plan->by];
	if (plan->by != FIRST)
		qsort(order, (size_t)n, sizeof *order, by_deviation);
	for (int32_t i = 0; i < (int32_t)(plan->share * n) && plan->by != FIRST; i++)
		again[first + order[i]] = 1;
	free(order);
	return again;
}

/* Check that the keys of layer 0, which depend on a token and its position alone, are equal up to rounding. */
static void check_rotation(const uint8_t *read, const uint8_t *loaded, int32_t n)
{
	size_t values = (size_t)n * (size_t)(tl->cache.hp->n_kv_head * tl->cache.hp->head_dim);
	double diff = 0, sum = 0;

	for (size_t i = 0; i < values; i++) {
		double x = f16_to_f32(((const uint16_t *)read)[i]), y = f16_to_f32(((const uint16_t *)loaded)[i]);

		sum += x * x;
		diff += (x - y) * (x - y);
	}
	if (diff > 1e-6 * sum)
		stop("loaded keys are rotated wrongly");
}

void passages_compare(struct prompt *p)
{
	int32_t from = p->block[0].from, n = passages_end(p) - from;
	uint8_t *none = xcalloc(p->id.n, 1), *read = entries_of(from, n), *loaded;

	assemble(p, none, 0);
	loaded = entries_of(from, n);
	check_rotation(read, loaded, n);
	p->deviation[LAYER_1] = deviation_of(read, loaded, n, LAYER_1);
	p->deviation[ALL_LAYERS] = deviation_of(read, loaded, n, ALL_LAYERS);
	free(none);
	free(read);
	free(loaded);
}

struct done passages_compute(const struct prompt *p, const struct plan *plan)
{
	struct done d = { .all = (size_t)(passages_end(p) - p->block[0].from) };
	uint8_t *again = tokens_again(p, plan);
	double start;

	for (int32_t i = p->block[0].from; i < passages_end(p); i++)
		d.again += again[i];
	sync_to(p->id.id, p->block[0].from);
	start = now_seconds();
	if (plan->share > 1)
		extend_by(p->id.id + p->block[0].from, (int32_t)d.all);
	else
		assemble(p, again, plan->alone);
	d.seconds = now_seconds() - start;
	free(again);
	return d;
}
