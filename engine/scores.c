/* engine/scores.c - see scores.h. */
#include "engine/scores.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/serialize.h"

/* ---- life ---- */

uint64_t scores_bytes(int32_t heads, uint64_t rows)
{
	return 4 * (uint64_t)heads * (3 * rows + 7 * (uint64_t)SCORES_FEW);
}

static int tensor_init(struct scores *f, struct tensor *t, enum dtype type, int32_t rows, int32_t cols, struct err *err)
{
	*t = (struct tensor){ .type = type, .rows = rows, .cols = cols };
	if (!f->be->ops->alloc(f->be, t))
		return 0;
	t->data = NULL;
	return err_set(err, ERR_FIT, "cannot allocate the scores of a bounded cache: %s", f->be->err);
}

int scores_init(struct scores *f, struct backend *be, struct rings *r, struct err *err)
{
	size_t heads = (size_t)r->heads;

	*f = (struct scores){ .be = be, .rings = r };
	if (tensor_init(f, &f->mass[0], DT_F32, r->heads, r->rows, err) || tensor_init(f, &f->mass[1], DT_F32, r->heads, r->rows, err) ||
	    tensor_init(f, &f->few, DT_F32, SCORES_FEW, r->heads, err) ||
	    tensor_init(f, &f->move, DT_I32, r->heads, 3 * SCORES_FEW, err) ||
	    !(f->swap = try_alloc(heads * (size_t)r->rows, sizeof *f->swap, "scores", err)) ||
	    !(f->list = try_alloc(heads * 3 * SCORES_FEW, sizeof *f->list, "moves of scores", err)))
		return -1;
	scores_reset(f);
	return 0;
}

void scores_release(struct scores *f)
{
	struct tensor *t[] = { &f->mass[0], &f->mass[1], &f->few, &f->move };

	for (size_t i = 0; i < sizeof t / sizeof *t; i++)
		if (t[i]->data)
			f->be->ops->drop(f->be, t[i]);
	free(f->swap);
	free(f->list);
}

void scores_reset(struct scores *f)
{
	if (!f->be)
		return;
	f->mass[0].cols = f->mass[1].cols = f->rings->rows;
	f->mass_stale = 1;
	f->sum_stale = 0;
}

/* ---- to the host and back ---- */

static size_t plane_bytes(const struct scores *f)
{
	return (size_t)f->rings->heads * (size_t)f->rings->rows * sizeof *f->swap;
}

static void transpose(float *out, const float *in, int32_t rows, int32_t cols)
{
	enum { TILE = 16 };

	for (int32_t r0 = 0; r0 < rows; r0 += TILE)
		for (int32_t c = 0; c < cols; c++)
			for (int32_t r = r0; r < rows && r < r0 + TILE; r++)
				out[(size_t)c * (size_t)rows + (size_t)r] = in[(size_t)r * (size_t)cols + (size_t)c];
}

/* Something failed, or the call is being stopped: what was asked of the backend was not done. */
static int stopped(const struct backend *be)
{
	return be->failed || (be->cancel && *be->cancel);
}

int scores_read(struct scores *f)
{
	if (!f->sum_stale)
		return 0;
	f->be->ops->read(f->be, &f->mass[f->now], 0, f->swap, plane_bytes(f));
	if (stopped(f->be))
		return -1;
	transpose(f->rings->mass, f->swap, f->rings->heads, f->rings->rows);
	f->sum_stale = 0;
	return 0;
}

static void write_all(struct scores *f)
{
	transpose(f->swap, f->rings->mass, f->rings->rows, f->rings->heads);
	f->be->ops->write(f->be, &f->mass[f->now], 0, f->swap, plane_bytes(f));
}

/* The others stay as old as they are. */
static void read_few(struct scores *f, const int32_t *row, int32_t n)
{
	size_t heads = (size_t)f->rings->heads;

	f->be->ops->columns(f->be, &f->few, &f->mass[f->now], row, n);
	f->be->ops->read(f->be, &f->few, 0, f->swap, (size_t)n * heads * sizeof *f->swap);
	if (stopped(f->be))
		return;
	for (int32_t i = 0; i < n; i++)
		memcpy(f->rings->mass + (size_t)row[i] * heads, f->swap + (size_t)i * heads, heads * sizeof *f->swap);
}

/* ---- a call ---- */

int scores_scale(struct scores *f, int32_t pos, int32_t n)
{
	struct rings *r = f->rings;
	struct ema next = r->ema;
	float by = ldexpf(1, ema_scale(&next, pos, n));

	if (next.shift == r->ema.shift)
		return 0;
	if (scores_read(f))
		return -1;
	for (size_t i = 0; i < (size_t)r->heads * (size_t)r->rows; i++)
		r->mass[i] *= by;
	r->ema = next;
	f->mass_stale = 1;
	return 0;
}

int scores_begin(struct scores *f, int32_t pos, int32_t n, float *weight)
{
	if (scores_scale(f, pos, n))
		return -1;
	if (f->mass_stale)
		write_all(f);              /* and stale until the end: when the call is being stopped nothing is written */
	ema_weights(&f->rings->ema, pos, n, weight);
	return 0;
}

void scores_end(struct scores *f)
{
	f->now = !f->now;
	f->mass_stale = 0;
	f->sum_stale = 1;
}

/* ---- tokens join ---- */

void scores_join(struct scores *f, int32_t n)
{
	int32_t row[SCORES_FEW], looks;

	if (!f->be || !f->sum_stale)
		return;
	looks = rings_rows_read(f->rings, n, row, SCORES_FEW);
	if (looks > SCORES_FEW)
		scores_read(f);
	else if (looks)
		read_few(f, row, looks);
}

void scores_follow(struct scores *f)
{
	const struct rings *r = f->rings;
	struct tensor plane = f->mass[f->now];

	if (!f->be || !r->n_row || f->mass_stale)
		return;
	if (r->n_row > SCORES_FEW) {
		f->mass_stale = 1;         /* all of them, with the next call */
		return;
	}
	for (int32_t h = 0; h < r->heads; h++) {
		int32_t *out = f->list + (size_t)h * 3 * SCORES_FEW;

		for (int32_t i = 0; i < r->n_row; i++, out += 3) {
			int32_t from = r->from[(size_t)i * (size_t)r->heads + (size_t)h];

			out[0] = from == r->row[i] ? -1 : from;
			out[1] = r->row[i];
			out[2] = -1;
		}
	}
	f->be->ops->write(f->be, &f->move, 0, f->list, (size_t)r->heads * 3 * SCORES_FEW * sizeof *f->list);
	plane.rows = r->heads * r->rows;
	plane.cols = 1;
	f->be->ops->kv_move(f->be, &plane, &(struct kv_moves){ .move = &f->move, .n = r->n_row, .n_kv_head = r->heads,
	                                                       .head_dim = 1, .cap = r->rows });
}

/* ---- saving ---- */

/* Head by head, as they lie on the backend. */
void scores_archive(struct scores *f, struct serializer *a, int32_t rows)
{
	const struct rings *r = f->rings;
	size_t heads = f->be ? (size_t)r->heads : 0;

	for (size_t h = 0; h < heads; h++) {
		float *sum = r->mass + h;

		for (int32_t i = 0; i < rows; i++)
			f->swap[i] = sum[(size_t)i * heads];
		serialize_bytes(a, f->swap, (uint64_t)rows * sizeof *f->swap);
		for (int32_t i = 0; serialize_loading(a) && !a->bad && i < rows; i++)
			sum[(size_t)i * heads] = f->swap[i];
	}
}
