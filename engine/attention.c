/* engine/attention.c - where one layer of a policy looks, token by token, for pictures and tests.
 *
 * The layer attends once more, with a probe, before the policy does; what it looked at is then told by tokens instead of rows.
 * A cache that keeps all rows has token r in row r; in a bounded stream the rings know. */
#include <stdlib.h>
#include <string.h>

#include "engine/kv.h"
#include "engine/rings.h"
#include "engine/select.h"
#include "engine/timeline.h"

enum { PARTS_MOST = SELECT_PARTS + RINGS_MOST };

struct glance {
	struct kv_tap tap;            /* first: kv_attend() hands this back */
	const struct timeline *t;
	struct policy_inside in;
	int32_t head;                 /* KV head; -1: all */
	float *p;                     /* [n_past + 1] by token */
	float *share;                 /* [cap] of one head's columns */
	int32_t *row;                 /* [cap] of one part */
	struct err *err;
	int failed;
};

/* The token in that row, as things are before the call's own tokens join the stream; -1 = none. */
static int32_t token_of(const struct glance *l, int32_t layer, int32_t head, int32_t row)
{
	const struct rings *r = l->in.rings;
	int32_t n_kv_head = l->t->policy.hp->n_kv_head, place, stage;

	if (!r || row < r->s.sinks || rings_filling(r))
		return row;
	place = row - r->s.sinks;
	stage = rings_stage(r);
	if (place >= stage)           /* waiting behind the rings; the last one is the token itself */
		return r->t + place - stage;
	return r->id[(int64_t)place * r->heads + (r->heads == l->t->policy.hp->n_layer ? layer : layer * n_kv_head + head)];
}

static int is_met(struct kv *kv, const struct when *w)
{
	int32_t flag;

	if (!w->flag)
		return 1;
	kv->be->ops->read(kv->be, w->flag, 4 * (size_t)w->col, &flag, sizeof flag);
	return flag == w->is;
}

/* One part's columns of one head, from column `at` on. */
static void look_part(struct glance *l, struct kv *kv, int32_t layer, int32_t head, const struct attn_part *part, int32_t at)
{
	int32_t heads = l->head < 0 ? kv->hp->n_kv_head : 1;

	if (part->rows)
		kv->be->ops->read(kv->be, part->rows, 4 * (size_t)head * (size_t)part->rows->cols, l->row, 4 * (size_t)part->n_rows);
	for (int32_t i = 0; i < part->n_rows; i++) {
		int32_t token = token_of(l, layer, head, part->rows ? l->row[i] : part->row0 + i);

		if (token < 0 || token > l->t->n_past)
			continue;
		l->p[token] = (l->p[token] < 0 ? 0 : l->p[token]) + l->share[at + i] / (float)heads;
	}
}

/* Attend, and tell what was looked at. */
static void look_parts(struct glance *l, struct kv *kv, int32_t layer, struct tensor *out, struct attn_part *part, int32_t n_part,
                       struct tensor *mass)
{
	struct backend *be = kv->be;
	size_t bytes = 4 * (size_t)kv->cap;
	float one = 1;

	memset(l->share, 0, bytes);
	for (int32_t h = 0; h < kv->hp->n_kv_head; h++)
		be->ops->write(be, mass, (size_t)h * bytes, l->share, bytes);
	kv_attend(kv, layer, out, part, n_part, 1, &(struct attn_probe){ .mass = mass, .weight = &one, .reduce = REDUCE_MEAN });
	for (int32_t h = l->head < 0 ? 0 : l->head; h < (l->head < 0 ? kv->hp->n_kv_head : l->head + 1); h++) {
		int32_t at = 0;

		be->ops->read(be, mass, (size_t)h * bytes, l->share, bytes);
		for (int32_t i = 0; i < n_part; at += part[i++].n_rows)
			look_part(l, kv, layer, h, &part[i], at);
	}
}

static void look_attended(struct kv_tap *tap, struct kv *kv, int32_t layer, struct tensor *out, struct attn_part *part, int32_t n_part)
{
	struct glance *l = (struct glance *)tap;
	struct tensor mass = { .type = DT_F32, .rows = kv->hp->n_kv_head, .cols = kv->cap };
	struct attn_part met[PARTS_MOST];
	int32_t n = 0;

	l->share = try_alloc((size_t)kv->cap, sizeof *l->share, "shares of attention", l->err);
	l->row = l->share ? try_alloc((size_t)kv->cap, sizeof *l->row, "rows", l->err) : NULL;
	l->failed = !l->row;
	kv_choose(kv, part, n_part);
	for (int32_t i = 0; i < n_part && n < PARTS_MOST; i++)
		if (is_met(kv, &part[i].when)) {
			met[n] = part[i];
			met[n++].when.flag = NULL;
		}
	if (!l->failed && !kv->be->ops->alloc(kv->be, &mass)) {
		look_parts(l, kv, layer, out, met, n, &mass);
		kv->be->ops->drop(kv->be, &mass);
	}
	free(l->share);
	free(l->row);
}

int timeline_attention(struct timeline *t, int32_t id, int32_t layer, int32_t head, float *p, struct err *err)
{
	const struct hparams *hp = t->policy.hp;
	struct glance l = { .tap = { .layer = layer, .fn = look_attended }, .t = t, .head = head, .p = p, .err = err };
	int rc;

	if (layer < 0 || layer >= hp->n_layer || head < -1 || head >= hp->n_kv_head)
		return err_set(err, ERR_USAGE, "there is no layer %d with a KV head %d: the model has layers 0 to %d with heads 0 to %d", layer, head,
		               hp->n_layer - 1, hp->n_kv_head - 1);
	for (int32_t i = 0; i <= t->n_past; i++)
		p[i] = -1;
	if (t->policy.def->inside)
		t->policy.def->inside(&t->policy, &l.in);
	kv_tap_set(&l.tap);
	rc = timeline_extend(t, &id, 1, 1, NULL, NULL, err);
	kv_tap_set(NULL);
	return l.failed ? -1 : rc;
}
