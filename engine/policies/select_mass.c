/* engine/policies/select_mass.c - see select_mass.h. */
#include "engine/policies/select_mass.h"

#include <stdlib.h>

#include "engine/cache/cache.h"
#include "engine/cache/serialize.h"

uint64_t step_mass_bytes(const struct hparams *hp, struct entry_count k, int32_t cap)
{
	return 4 * (uint64_t)hp->n_layer * (uint64_t)hp->n_kv_head * ((uint64_t)cap + (uint64_t)select_most(k, cap));
}

int step_mass_init(struct step_mass *m, const struct selector *s, struct entry_count k, struct err *err)
{
	const struct hparams *hp = s->kv->hp;
	int32_t cap = s->kv->cap;

	m->most = select_most(k, cap);
	m->score = xcalloc((size_t)hp->n_layer, sizeof *m->score);
	m->sums = xcalloc((size_t)hp->n_layer, sizeof *m->sums);
	m->host = xcalloc((size_t)hp->n_layer, sizeof *m->host);
	m->slots = xcalloc((size_t)hp->n_layer, sizeof *m->slots);
	if (!(m->buf = try_alloc((size_t)cap, sizeof *m->buf, "sums of probabilities", err)))
		return -1;
	for (int32_t i = 0; i < hp->n_layer; i++) {
		if (select_alloc(s, &m->score[i], DT_F32, hp->n_kv_head, cap, err) ||
		    select_alloc(s, &m->slots[i], DT_I32, hp->n_kv_head, m->most, err))
			return -1;
		m->sums[i] = m->host[i] = m->score[i];
		m->host[i].data = NULL;
		if (s->kv->be->device && s->kv->be->ops->alloc_host(s->kv->be, &m->host[i]))
			return err_set(err, ERR_FIT, "cannot allocate sums of probabilities: %s", s->kv->be->err);
		m->host[i].cols = 0;
	}
	return 0;
}

void step_mass_release(struct step_mass *m, const struct selector *s)
{
	for (int32_t i = 0; i < s->kv->n_layer; i++) {
		if (m->score)
			select_drop(s, &m->score[i]);
		if (m->slots)
			select_drop(s, &m->slots[i]);
		if (m->host)
			select_drop(s, &m->host[i]);
	}
	free(m->score);
	free(m->sums);
	free(m->host);
	free(m->slots);
	free(m->weight);
	free(m->buf);
	*m = (struct step_mass){ 0 };
}

struct tensor *step_mass_sums(struct step_mass *m, int32_t layer, int32_t cols)
{
	struct tensor *t = &m->sums[layer];

	*t = m->score[layer];
	t->cols = MIN(t->cols, (cols + 3) / 4 * 4);
	m->host[layer].cols = 0;
	return t;
}

const struct attn_probe *step_mass_probe(struct step_mass *m, const struct selector *s, const struct step *st,
                                         int32_t layer, int32_t counted, int32_t cols, enum reduce reduce)
{
	struct tensor *sums;

	if (m->weight_cap < st->n) {
		m->weight = xrealloc(m->weight, (size_t)st->n * sizeof *m->weight);
		m->weight_cap = st->n;
	}
	for (int32_t i = 0; i < st->n; i++)
		m->weight[i] = i >= st->n - counted;
	sums = step_mass_sums(m, layer, cols);
	select_zero(s, sums, 1, sums->rows * sums->cols);
	m->probe = (struct attn_probe){ .mass = &m->sums[layer], .weight = m->weight, .reduce = reduce };
	return &m->probe;
}

void step_mass_show(struct step_mass *m, const struct selector *s, int32_t layer)
{
	if (!m->host[layer].data)
		return;
	m->host[layer].cols = m->sums[layer].cols;
	s->kv->be->ops->copy(s->kv->be, &m->host[layer], 0, &m->sums[layer], 0, s->kv->hp->n_kv_head);
}

const float *step_mass_head(struct step_mass *m, const struct selector *s, int32_t layer, int32_t head, int32_t n)
{
	const struct tensor *t = m->host[layer].cols ? &m->host[layer] : &m->sums[layer];

	s->kv->be->ops->read(s->kv->be, t, 4 * (size_t)head * (size_t)t->cols, m->buf, 4 * (size_t)n);
	return m->buf;
}

void step_mass_set_head(struct step_mass *m, const struct selector *s, int32_t layer, int32_t head, const float *x,
                        int32_t n)
{
	s->kv->be->ops->write(s->kv->be, &m->sums[layer], 4 * (size_t)head * (size_t)m->sums[layer].cols, x,
	                      4 * (size_t)n);
}

void step_mass_select(struct step_mass *m, const struct selector *s, int32_t layer, int32_t columns, int32_t pool)
{
	s->kv->be->ops->topk(s->kv->be, &(struct topk_args){
						.slots = &m->slots[layer],
						.score = &m->sums[layer],
						.n_kv_head = s->kv->hp->n_kv_head,
						.n = columns,
						.k = m->n,
						.pool = pool,
					});
}

void step_mass_archive(struct step_mass *m, const struct selector *s, struct serializer *a, int32_t layer,
                       int32_t n_slots)
{
	for (int32_t h = 0; h < s->kv->hp->n_kv_head; h++)
		serialize_tensor_i32(a, s->kv->be, &m->slots[layer], (uint64_t)h * (uint64_t)m->most, (uint64_t)m->n, 0,
		                     n_slots - 1, "a selected slot");
}
