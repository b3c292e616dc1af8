/* engine/rope.c - tables of rotary angles: computed in double, written to the backend once per call, used by all layers. */
#include "engine/rope.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

uint64_t rope_bytes(const struct hparams *hp, int32_t rows)
{
	return 8 * (uint64_t)rows * (uint64_t)hp->rope_dims;
}

int rope_init(struct rope *r, const struct hparams *hp, struct backend *be, int32_t rows, struct err *err)
{
	*r = (struct rope){ .hp = hp, .be = be, .table = { .type = DT_F32, .rows = rows, .cols = hp->rope_dims } };
	if (!(r->host = try_alloc((size_t)rows * (size_t)hp->rope_dims, sizeof *r->host, "the table of rotary angles", err)))
		return -1;
	if (be->ops->alloc(be, &r->table)) {
		err_set(err, ERR_FIT, "cannot allocate the table of rotary angles: %s", be->err);
		rope_release(r);
		return -1;
	}
	return 0;
}

void rope_release(struct rope *r)
{
	if (r->table.data)
		r->be->ops->drop(r->be, &r->table);
	free(r->host);
	memset(r, 0, sizeof *r);
}

static void angles(struct rope *r, int32_t row, double pos, double scale)
{
	float *cs = r->host + (size_t)row * (size_t)r->hp->rope_dims;

	for (int32_t j = 0; j < r->hp->rope_dims / 2; j++) {
		double angle = pos * r->hp->rope_freq[j];

		cs[2 * j] = (float)(cos(angle) * scale);
		cs[2 * j + 1] = (float)(sin(angle) * scale);
	}
}

static void upload(struct rope *r, int32_t n)
{
	r->be->ops->write(r->be, &r->table, 0, r->host, (size_t)n * (size_t)r->hp->rope_dims * sizeof *r->host);
}

void rope_set(struct rope *r, int64_t pos, int32_t n)
{
	for (int32_t i = 0; i < n; i++)
		angles(r, i, (double)(pos + i), r->hp->rope_mscale);
	upload(r, n);
}

void rope_set_shifts(struct rope *r, const int64_t *shift, int32_t n)
{
	for (int32_t i = 0; i < n; i++)
		angles(r, i, (double)shift[i], 1);
	upload(r, n);
}
