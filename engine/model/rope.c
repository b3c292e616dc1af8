/* engine/model/rope.c - computes RoPE angles, once per step for all layers, and writes them to the backend. */
#include "engine/model/rope.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

uint64_t rope_bytes(const struct hparams *hp, int32_t rows)
{
	uint64_t sum = 0;

	for (int32_t i = 0; i < hp->n_rope; i++)
		sum += (hp->temperature != 0 ? 12 : 8) * (uint64_t)rows * (uint64_t)hp->rope[i].dims;
	return sum;
}

static int table_init(struct rope *r, int32_t i, int32_t rows, struct err *err)
{
	int32_t dims = r->hp->rope[i].dims;

	r->table[i] = (struct tensor){ .type = DT_F32, .rows = rows, .cols = dims };
	if (!(r->host[i] = try_alloc((size_t)rows * (size_t)dims, sizeof *r->host[i], "rotary angles", err)))
		return -1;
	r->query[i] = r->hp->temperature != 0 ? r->table[i] : (struct tensor){ .data = NULL };
	if (r->be->ops->alloc(r->be, &r->table[i]) ||
	    (r->hp->temperature != 0 && r->be->ops->alloc(r->be, &r->query[i])))
		return err_set(err, ERR_FIT, "cannot allocate rotary angles: %s", r->be->err);
	return 0;
}

int rope_init(struct rope *r, const struct hparams *hp, struct backend *be, int32_t rows, int32_t positions,
              struct err *err)
{
	*r = (struct rope){ .hp = hp, .be = be, .positions = positions };
	for (int32_t i = 0; i < hp->n_rope; i++)
		if (table_init(r, i, rows, err)) {
			rope_release(r);
			return -1;
		}
	return 0;
}

void rope_release(struct rope *r)
{
	for (int32_t i = 0; i < ROPE_TABLES_MAX; i++) {
		if (r->table[i].data)
			r->be->ops->drop(r->be, &r->table[i]);
		if (r->query[i].data)
			r->be->ops->drop(r->be, &r->query[i]);
		free(r->host[i]);
	}
	memset(r, 0, sizeof *r);
}

/* 1 if LongRoPE's frequencies for long contexts are used. This depends on the number of positions that can occur, not
 * on the positions of a step. */
static int is_long(const struct rope *r, const struct rope_freqs *f)
{
	return f->freq_long && r->positions > f->short_most;
}

int rope_is_long(const struct rope *r)
{
	int any = 0;

	for (int32_t i = 0; i < r->hp->n_rope; i++)
		any |= is_long(r, &r->hp->rope[i]);
	return any;
}

/* Fill row `row` of host table i with the cos and sin of position pos, multiplied by `scale`. */
static void angles_fill(struct rope *r, int32_t i, int32_t row, double pos, double scale)
{
	const struct rope_freqs *f = &r->hp->rope[i];
	const double *freq = is_long(r, f) ? f->freq_long : f->freq;
	float *cs = r->host[i] + (size_t)row * (size_t)f->dims;

	for (int32_t j = 0; j < f->dims / 2; j++) {
		double angle = pos * freq[j];

		cs[2 * j] = (float)(cos(angle) * scale);
		cs[2 * j + 1] = (float)(sin(angle) * scale);
	}
}

static void table_upload(struct rope *r, struct tensor *to, int32_t i, int32_t n)
{
	r->be->ops->write(r->be, to, 0, r->host[i], (size_t)n * (size_t)to->cols * sizeof *r->host[i]);
}

static double query_scale(const struct hparams *hp, int64_t rank)
{
	return 1 + hp->temperature * log(1 + floor((double)rank / hp->temperature_length));
}

void rope_set(struct rope *r, int64_t pos, int64_t rank, int32_t n)
{
	for (int32_t i = 0; i < r->hp->n_rope; i++) {
		for (int32_t row = 0; row < n; row++)
			angles_fill(r, i, row, (double)(pos + row), r->hp->rope[i].mscale);
		table_upload(r, &r->table[i], i, n);
		if (!r->query[i].data)
			continue;
		for (int32_t row = 0; row < n; row++)
			angles_fill(r, i, row, (double)(pos + row),
			            r->hp->rope[i].mscale * query_scale(r->hp, rank + row));
		table_upload(r, &r->query[i], i, n);
	}
}

void rope_set_shifts(struct rope *r, const int64_t *pos, int32_t n)
{
	for (int32_t i = 0; i < r->hp->n_rope; i++) {
		for (int32_t row = 0; row < n; row++)
			angles_fill(r, i, row, (double)pos[row], 1);
		table_upload(r, &r->table[i], i, n);
	}
}

const struct tensor *rope_table(const struct rope *r, int32_t layer)
{
	int32_t id = model_layer_spec(r->hp, layer)->attn.rope;

	return id == ROPE_NONE ? NULL : &r->table[id];
}

const struct tensor *rope_query_table(const struct rope *r, int32_t layer)
{
	int32_t id = model_layer_spec(r->hp, layer)->attn.rope;

	return id == ROPE_NONE ? NULL : r->query[id].data ? &r->query[id] : &r->table[id];
}
