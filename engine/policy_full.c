/* engine/policy_full.c - `full`: every token stays and every token is read.  Row r of the cache holds token r. */
#include "engine/policy.h"

#include <math.h>
#include <stdlib.h>

struct full {
	struct kv kv;
	struct rope rope;
};

static uint64_t full_bytes(const struct policy *p)
{
	return kv_bytes(p->hp, p->type, p->ctx) + rope_bytes(p->hp, p->batch);
}

static int full_init(struct policy *p, struct err *err)
{
	struct full *f = p->state = xcalloc(1, sizeof *f);

	p->limit = p->ctx;
	p->chunk = p->batch;
	return kv_init(&f->kv, p->be, p->hp, p->type, p->ctx, err) || rope_init(&f->rope, p->hp, p->be, p->chunk, err) ? -1 : 0;
}

static void full_release(struct policy *p)
{
	struct full *f = p->state;

	kv_release(&f->kv);
	rope_release(&f->rope);
	free(f);
}

static void full_begin(struct policy *p, const struct step *st)
{
	struct full *f = p->state;

	rope_set(&f->rope, st->pos, st->n);
}

static void full_attend(struct policy *p, const struct step *st, int32_t layer, const struct qkv *x)
{
	struct full *f = p->state;

	kv_rotate(&f->kv, layer, x->q, x->q, &f->rope, st->n);
	kv_rotate(&f->kv, layer, x->k, x->k, &f->rope, st->n);
	kv_put(&f->kv, layer, x->k, x->v, st->pos, st->n);
	kv_attend(&f->kv, layer, x->out, &(struct attn_part){ .q = x->q, .n_rows = st->pos + st->n }, 1, st->n, NULL);
}

static int32_t full_rewind(struct policy *p, int32_t n)
{
	(void)p;
	return n;
}

static struct kv *full_planes(struct policy *p)
{
	struct full *f = p->state;

	return &f->kv;
}

static void full_adopt(struct policy *p, struct kv *other, int32_t n)
{
	struct full *f = p->state;
	struct kv mine = f->kv;

	f->kv = *other;
	*other = mine;
}

static const struct param full_params[] = { { .key = NULL } };

const struct policy_def policy_full = {
	.name = "full", .help = "every token stays and is read; the length is limited by -c",
	.params = full_params, .bytes = full_bytes, .init = full_init, .release = full_release,
	.begin = full_begin, .attend = full_attend, .rewind = full_rewind,
	.planes = full_planes, .adopt = full_adopt, .kv = full_planes,
};
