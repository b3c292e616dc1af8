/* engine/cache/recurrent.c - states of recurrent layers; see recurrent.h. */
#include "engine/cache/recurrent.h"

#include <stdlib.h>
#include <string.h>

#include "engine/cache/cache.h"

/* Limits for the copies of states: for the number of copies, for their bytes in memory, and for their bytes in a
 * snapshot. Two copies are always allowed, even if they exceed the limits in bytes. */
enum { COPIES_MOST = 40, COPIES_BYTES = 256 << 20, SAVED_BYTES = 32 << 20 };

/* Return the shape of state tensor i (state_at()). It has 0 rows if the layer does not have this tensor. */
static struct tensor shape_of(const struct hparams *hp, int32_t i)
{
	int32_t layer = i / STATE_PARTS, cols = layer_conv(hp, layer);
	const struct attn_spec *a = &model_layer_spec(hp, layer)->attn;

	if (i % STATE_PARTS == STATE_CONV)
		return (struct tensor){ .type = DT_F32, .rows = cols ? a->taps - 1 : 0, .cols = cols };
	return (struct tensor){ .type = DT_F32, .rows = a->n_value_head * a->key_dim, .cols = a->value_dim };
}

static int32_t parts_of(const struct hparams *hp)
{
	return hp->n_layer * STATE_PARTS;
}

static size_t values_of(const struct hparams *hp, int32_t i)
{
	struct tensor t = shape_of(hp, i);

	return (size_t)t.rows * (size_t)t.cols;
}

uint64_t recurrent_state_bytes(const struct hparams *hp)
{
	uint64_t sum = 0;

	for (int32_t i = 0; i < parts_of(hp); i++)
		sum += 4 * (uint64_t)values_of(hp, i);
	return sum;
}

/* Return the maximum number of copies of states. At least two are kept: one from before the last question, and one from
 * before the answer to it. */
static int copies_most(const struct hparams *hp)
{
	uint64_t n = COPIES_BYTES / (recurrent_state_bytes(hp) + 1);

	return n < 2 ? 2 : n < COPIES_MOST ? (int)n : COPIES_MOST;
}

uint64_t recurrent_bytes(const struct hparams *hp)
{
	return recurrent_state_bytes(hp) * (2 + (uint64_t)copies_most(hp));
}

int recurrent_open(struct recurrent *r, struct backend *be, const struct hparams *hp, struct err *err)
{
	*r = (struct recurrent){ .be = be, .hp = hp, .most = copies_most(hp), .before = -1 };
	r->now = xcalloc((size_t)parts_of(hp), sizeof *r->now);
	r->next = xcalloc((size_t)parts_of(hp), sizeof *r->next);
	r->copy = xcalloc((size_t)r->most, sizeof *r->copy);
	for (int32_t i = 0; i < parts_of(hp); i++) {
		if (!values_of(hp, i))
			continue;
		r->now[i] = r->next[i] = shape_of(hp, i);
		if (be->ops->alloc(be, &r->now[i]) || be->ops->alloc(be, &r->next[i])) {
			err_set(err, ERR_FIT, "cannot allocate the states of recurrent layers: %s", be->err);
			recurrent_close(r);
			return -1;
		}
	}
	return 0;
}

/* Drop the copies from index `from` on. */
static void copies_cut(struct recurrent *r, int from)
{
	while (r->n_copy > from)
		free(r->copy[--r->n_copy].state);
}

void recurrent_close(struct recurrent *r)
{
	for (int32_t i = 0; r->now && i < parts_of(r->hp); i++) {
		if (r->now[i].data)
			r->be->ops->drop(r->be, &r->now[i]);
		if (r->next[i].data)
			r->be->ops->drop(r->be, &r->next[i]);
	}
	for (int32_t i = 0; r->tried && i < r->hp->n_layer; i++) {
		struct tried *t = &r->tried[i];
		struct tensor *all[] = { &t->in, &t->conv, &t->alpha, &t->beta, &t->out };

		for (size_t k = 0; k < LEN(all); k++)
			if (all[k]->data)
				r->be->ops->drop(r->be, all[k]);
	}
	free(r->tried);
	copies_cut(r, 0);
	free(r->copy);
	free(r->now);
	free(r->next);
	memset(r, 0, sizeof *r);
}

/* ---- a step ---- */

void recurrent_begin(struct recurrent *r, int verifies)
{
	r->before = -1;
	r->verifies = verifies;
}

/* Copy the first n rows of x to t, and return t. The first call allocates t. If the allocation fails, return x, and the
 * backend reports the failure at its next sync(). */
static struct tensor *keep_rows(struct recurrent *r, struct tensor *t, const struct tensor *x, int32_t n)
{
	if (!t->data) {
		*t = (struct tensor){ .type = DT_F32, .rows = VERIFY_MOST, .cols = x->cols };
		if (r->be->ops->alloc(r->be, t)) {
			t->data = NULL;
			return (struct tensor *)(uintptr_t)x;
		}
	}
	r->be->ops->copy(r->be, t, 0, x, 0, n);
	return t;
}

static struct tried *tried_of(struct recurrent *r, int32_t layer)
{
	if (!r->tried)
		r->tried = xcalloc((size_t)r->hp->n_layer, sizeof *r->tried);
	return &r->tried[layer];
}

void recurrent_short_conv(struct recurrent *r, int32_t layer, struct short_conv *a, int32_t n)
{
	int32_t part = state_at(layer, STATE_CONV);

	a->state = &r->now[part];
	a->next = &r->next[part];
	r->be->ops->short_conv(r->be, a, n);
	if (r->verifies) {
		struct tried *t = tried_of(r, layer);

		t->short_conv = *a;
		t->short_conv.in = keep_rows(r, &t->in, a->in, n);
		t->short_conv.out = keep_rows(r, &t->conv, a->out, n);
	}
}

void recurrent_delta_rule(struct recurrent *r, int32_t layer, struct delta_rule *a, int32_t n)
{
	int32_t part = state_at(layer, STATE_DELTA);

	a->state = &r->now[part];
	a->next = &r->next[part];
	r->be->ops->delta_rule(r->be, a, n);
	if (r->verifies) {
		struct tried *t = tried_of(r, layer);

		t->delta_rule = *a;
		t->delta_rule.qkv = &t->conv;
		t->delta_rule.alpha = keep_rows(r, &t->alpha, a->alpha, n);
		t->delta_rule.beta = keep_rows(r, &t->beta, a->beta, n);
		t->delta_rule.out = keep_rows(r, &t->out, a->out, n);
	}
}

void recurrent_state_space(struct recurrent *r, int32_t layer, struct state_space *a, int32_t n)
{
	int32_t part = state_at(layer, STATE_DELTA);

	a->state = &r->now[part];
	a->next = &r->next[part];
	r->be->ops->state_space(r->be, a, n);
	if (r->verifies) {
		struct tried *t = tried_of(r, layer);

		t->state_space = *a;
		t->state_space.xbc = &t->conv;
		t->state_space.step = keep_rows(r, &t->alpha, a->step, n);
		t->state_space.out = keep_rows(r, &t->out, a->out, n);
	}
}

/* Compute the states after the first n drafted tokens of a VERIFY step, from the inputs that were kept. */
static void states_recompute(struct recurrent *r, int32_t n)
{
	for (int32_t i = 0; i < r->hp->n_layer; i++) {
		if (r->now[state_at(i, STATE_CONV)].data)
			r->be->ops->short_conv(r->be, &r->tried[i].short_conv, n);
		if (model_layer_spec(r->hp, i)->attn.kind == ATTN_DELTA)
			r->be->ops->delta_rule(r->be, &r->tried[i].delta_rule, n);
		if (model_layer_spec(r->hp, i)->attn.kind == ATTN_SPACE)
			r->be->ops->state_space(r->be, &r->tried[i].state_space, n);
	}
}

/* Swap the states `now` and `next`; a second call undoes the first. */
static void states_exchange(struct recurrent *r)
{
	struct tensor *was = r->now;

	r->now = r->next;
	r->next = was;
}

void recurrent_commit(struct recurrent *r, int32_t n, int32_t tried)
{
	if (n < tried)
		states_recompute(r, n);
	states_exchange(r);
	r->before = r->at;
	r->at += n;
}

/* Copy the states of all layers to p [recurrent_state_bytes() / 4]. */
static void states_read(const struct recurrent *r, float *p)
{
	for (int32_t i = 0; i < parts_of(r->hp); p += values_of(r->hp, i++))
		if (r->now[i].data)
			r->be->ops->read(r->be, &r->now[i], 0, p, 4 * values_of(r->hp, i));
}

static void states_write(struct recurrent *r, const float *p)
{
	for (int32_t i = 0; i < parts_of(r->hp); p += values_of(r->hp, i++))
		if (r->now[i].data)
			r->be->ops->write(r->be, &r->now[i], 0, p, 4 * values_of(r->hp, i));
}

static float *states_alloc(const struct recurrent *r)
{
	return try_alloc(recurrent_state_bytes(r->hp) / 4 + 1, sizeof(float), "states of recurrent layers", NULL);
}

void recurrent_keep(struct recurrent *r)
{
	float *state;

	if (!r->at || (r->n_copy && r->copy[r->n_copy - 1].at == r->at))
		return;
	if (r->n_copy == r->most) {
		free(r->copy[0].state);
		memmove(r->copy, r->copy + 1, (size_t)--r->n_copy * sizeof *r->copy);
	}
	if (!(state = states_alloc(r)))
		/* There is no memory for a copy. A rollback may then have to return to an older copy, and prefill more
		 * tokens. */
		return;
	states_read(r, state);
	r->copy[r->n_copy++] = (struct state_copy){ .at = r->at, .state = state };
}

int32_t recurrent_rewind(struct recurrent *r, int32_t n)
{
	float *none;

	if (n >= r->at)
		return r->at;
	while (r->n_copy && r->copy[r->n_copy - 1].at > n)
		copies_cut(r, r->n_copy - 1);
	if (r->before >= 0 && r->before <= n && (!r->n_copy || r->before > r->copy[r->n_copy - 1].at)) {
		states_exchange(r);
		r->at = r->before;
		r->before = -1;
		return r->at;
	}
	r->before = -1;
	r->at = r->n_copy ? r->copy[r->n_copy - 1].at : 0;
	if (r->n_copy) {
		states_write(r, r->copy[r->n_copy - 1].state);
		return r->at;
	}
	for (int32_t i = 0; i < parts_of(r->hp); i++) {
		if (!r->now[i].data)
			continue;
		none = xcalloc(values_of(r->hp, i), sizeof *none);
		r->be->ops->write(r->be, &r->now[i], 0, none, 4 * values_of(r->hp, i));
		free(none);
	}
	return 0;
}

/* ---- snapshots ---- */

void recurrent_archive(struct recurrent *r, struct serializer *a, int32_t n)
{
	serialize_expect(a, recurrent_state_bytes(r->hp), "the size of the recurrent states");
	for (int32_t i = 0; i < parts_of(r->hp); i++)
		if (r->now[i].data && !a->bad)
			serialize_tensor_f32(a, r->be, &r->now[i], 0, values_of(r->hp, i));
	if (serialize_loading(a))
		r->before = -1;
	if (serialize_loading(a) && !a->bad)
		r->at = n;
}

void recurrent_copies_archive(struct recurrent *r, struct serializer *a, int32_t total)
{
	uint64_t bytes = recurrent_state_bytes(r->hp);
	int32_t n = r->n_copy, before = 0;

	if (n > 2 && (uint64_t)n * bytes > SAVED_BYTES)
		n = SAVED_BYTES / bytes > 2 ? (int32_t)(SAVED_BYTES / bytes) : 2;
	serialize_i32(a, &n, 0, r->most, "the number of copies of the recurrent states");
	for (int32_t i = 0; i < n && !a->bad; i++) {
		struct state_copy c = { .at = 0 };

		if (!serialize_loading(a))
			c = r->copy[r->n_copy - n + i];
		serialize_i32(a, &c.at, before + 1, total, "the place of a copy of the recurrent states");
		before = c.at;
		if (serialize_loading(a) && (a->bad || bytes > a->left || !(c.state = states_alloc(r)))) {
			serialize_fail(a, "a copy of the recurrent states");
			return;
		}
		serialize_bytes(a, c.state, bytes);
		if (serialize_loading(a))
			r->copy[r->n_copy++] = c;
	}
}
