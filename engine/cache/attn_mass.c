/* engine/cache/attn_mass.c - see attn_mass.h. */
#include "engine/cache/attn_mass.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cache/serialize.h"

/* ---- life ---- */

uint64_t mass_bytes(int32_t heads, uint64_t slots)
{
	return 4 * (uint64_t)heads * ((MASS_POINTS + 3) * slots + 7 * (uint64_t)MASS_FEW);
}

/* Allocate a tensor, in host memory if `host` is 1. */
static int tensor_init(struct attn_mass *f, struct tensor *t, enum dtype type, int32_t rows, int32_t cols, int host,
                       struct err *err)
{
	*t = (struct tensor){ .type = type, .rows = rows, .cols = cols };
	if (!(host ? f->be->ops->alloc_host : f->be->ops->alloc)(f->be, t))
		return 0;
	t->data = NULL;
	return err_set(err, ERR_FIT, "cannot allocate the attention mass of a bounded cache: %s", f->be->err);
}

/* Allocate arrays until n of them are allocated. Return 0 or -1. */
static int arrays_grow(struct attn_mass *f, int32_t n, struct err *err)
{
	for (; f->n_array < n; f->n_array++) {
		if (tensor_init(f, &f->array[f->n_array], DT_F32, f->rings->heads, f->cap, 0, err))
			return -1;
		f->array[f->n_array].cols = f->rings->n_slots;
	}
	return 0;
}

int mass_init(struct attn_mass *f, struct backend *be, struct rings *r, struct err *err)
{
	size_t heads = (size_t)r->heads;

	*f = (struct attn_mass){ .be = be, .rings = r, .cap = r->n_slots };
	if (arrays_grow(f, MASS_POINTS + 2, err) || tensor_init(f, &f->few, DT_F32, MASS_FEW, r->heads, 1, err) ||
	    tensor_init(f, &f->move, DT_I32, r->heads, 3 * MASS_FEW, 0, err) ||
	    !(f->swap = try_alloc(heads * (size_t)r->n_slots, sizeof *f->swap, "attention mass", err)) ||
	    !(f->list = try_alloc(heads * 3 * MASS_FEW, sizeof *f->list, "moves of attention mass", err)))
		return -1;
	mass_reset(f);
	return 0;
}

void mass_release(struct attn_mass *f)
{
	struct tensor *t[MASS_ARRAYS + 2] = { &f->few, &f->move };

	for (int32_t i = 0; i < MASS_ARRAYS; i++)
		t[2 + i] = &f->array[i];
	for (size_t i = 0; i < LEN(t); i++)
		if (t[i]->data)
			f->be->ops->drop(f->be, t[i]);
	free(f->swap);
	free(f->list);
}

void mass_reset(struct attn_mass *f)
{
	if (!f->be)
		return;
	for (int32_t i = 0; i < f->n_array; i++)
		f->array[i].cols = f->rings->n_slots;
	mass_forget(f, -1);
	f->array_stale = 1;
	f->sum_stale = 0;
}

static int is_kept(const struct attn_mass *f, int32_t array)
{
	for (int i = 0; i < MASS_POINTS; i++)
		if (f->point[i].t >= 0 && f->point[i].array == array)
			return 1;
	return 0;
}

/* Return the index of the first array of sums, after the array with index `array`, that may be overwritten. The current
 * array and arrays kept for rollbacks may not be overwritten. */
static int32_t free_array(const struct attn_mass *f, int32_t array)
{
	for (array++; array < f->n_array && (array == f->now || is_kept(f, array)); array++)
		;
	return array;
}

/* ---- copies between host and backend ---- */

static size_t array_bytes(const struct attn_mass *f)
{
	return (size_t)f->rings->heads * (size_t)f->rings->n_slots * sizeof *f->swap;
}

static void matrix_transpose(float *out, const float *in, int32_t rows, int32_t cols)
{
	enum { TILE = 16 };

	for (int32_t r0 = 0; r0 < rows; r0 += TILE)
		for (int32_t c = 0; c < cols; c++)
			for (int32_t r = r0; r < rows && r < r0 + TILE; r++)
				out[(size_t)c * (size_t)rows + (size_t)r] = in[(size_t)r * (size_t)cols + (size_t)c];
}

/* 1 if the backend has failed, or if the call that is running is being cancelled. In both cases the backend may not
 * have carried out the last reads and writes. */
static int backend_stopped(const struct backend *be)
{
	return be->failed || (be->cancel && *be->cancel);
}

int mass_read(struct attn_mass *f)
{
	if (!f->sum_stale)
		return 0;
	f->be->ops->read(f->be, &f->array[f->now], 0, f->swap, array_bytes(f));
	if (backend_stopped(f->be))
		return -1;
	matrix_transpose(f->rings->mass, f->swap, f->rings->heads, f->rings->n_slots);
	f->sum_stale = 0;
	return 0;
}

/* Write the host's sums to the current array. If a rollback point keeps the current array, first make a free array the
 * current one. */
static void write_all(struct attn_mass *f)
{
	if (is_kept(f, f->now))
		f->now = free_array(f, -1);
	matrix_transpose(f->swap, f->rings->mass, f->rings->n_slots, f->rings->heads);
	f->be->ops->write(f->be, &f->array[f->now], 0, f->swap, array_bytes(f));
}

/* Copy the sums of n slots from the current array to the host; if `shown` is 1, they are in f->few already. The host's
 * sums of all other slots stay out of date. */
static void read_few(struct attn_mass *f, const int32_t *slot, int32_t n, int shown)
{
	size_t heads = (size_t)f->rings->heads;

	if (!shown)
		f->be->ops->columns(f->be, &f->few, &f->array[f->now], slot, n);
	f->be->ops->read(f->be, &f->few, 0, f->swap, (size_t)n * heads * sizeof *f->swap);
	if (backend_stopped(f->be))
		return;
	for (int32_t i = 0; i < n; i++)
		memcpy(f->rings->mass + (size_t)slot[i] * heads, f->swap + (size_t)i * heads, heads * sizeof *f->swap);
}

/* ---- a step ---- */

int mass_must_scale(const struct attn_mass *f, int32_t pos, int32_t n)
{
	struct ema next = f->rings->ema;

	ema_scale(&next, pos, n);
	return next.shift != f->rings->ema.shift;
}

int mass_scale(struct attn_mass *f, int32_t pos, int32_t n)
{
	struct rings *r = f->rings;
	struct ema next = r->ema;
	float by = ldexpf(1, ema_scale(&next, pos, n));

	if (next.shift == r->ema.shift)
		return 0;
	if (mass_read(f))
		return -1;
	for (size_t i = 0; i < (size_t)r->heads * (size_t)r->n_slots; i++)
		r->mass[i] *= by;
	r->ema = next;
	f->array_stale = 1;
	return 0;
}

int mass_begin(struct attn_mass *f, int32_t pos, int32_t n, int32_t arrays, float *weight)
{
	int32_t array = -1;

	f->shown = 0;
	/* A step that fails may still write to its arrays of sums. So choose these arrays before the first call that
	 * can fail. They never include the current array, so its sums survive. */
	for (int32_t i = 0; i < arrays; i++)
		f->next[i] = free_array(f, -1);
	if (mass_scale(f, pos, n) || arrays_grow(f, 1 + MASS_POINTS + arrays, NULL))
		return -1;
	if (f->array_stale)
		/* if the step is cancelled, write_all() writes nothing, so array_stale stays set until the commit */
		write_all(f);
	for (int32_t i = 0; i < arrays; i++)
		f->next[i] = array = free_array(f, array);
	ema_weights(&f->rings->ema, pos, n, weight);
	return 0;
}

struct tensor *mass_from(struct attn_mass *f, int32_t index)
{
	return &f->array[index ? f->next[index - 1] : f->now];
}

struct tensor *mass_to(struct attn_mass *f, int32_t index)
{
	return &f->array[f->next[index]];
}

void mass_commit(struct attn_mass *f, int32_t arrays)
{
	f->now = f->next[arrays - 1];
	f->array_stale = 0;
	f->sum_stale = 1;
}

/* ---- rollback ---- */

void mass_keep(struct attn_mass *f, int i, int32_t t, float nll)
{
	f->point[i].t = -1;
	if (backend_stopped(f->be))
		return;
	if (f->array_stale)
		write_all(f);
	f->array_stale = 0;
	f->point[i] = (struct mass_point){ .t = t, .array = f->now, .ema = f->rings->ema, .nll = nll };
}

void mass_keep_inner(struct attn_mass *f, int i, int32_t t, float nll, int32_t index)
{
	f->point[i] = (struct mass_point){ .t = t, .array = f->next[index], .ema = f->rings->ema, .nll = nll };
}

void mass_restore(struct attn_mass *f, int i)
{
	f->now = f->point[i].array;
	f->rings->ema = f->point[i].ema;
	f->array_stale = 0;
	f->sum_stale = 1;
}

void mass_forget(struct attn_mass *f, int32_t t)
{
	for (int i = 0; i < MASS_POINTS; i++)
		if (f->point[i].t > t)
			f->point[i].t = -1;
}

/* ---- insertion into the rings ---- */

void mass_show(struct attn_mass *f, int32_t n)
{
	int32_t slot[MASS_FEW], n_read = rings_slots_read(f->rings, n, slot, MASS_FEW);

	if (n_read < 1 || n_read > MASS_FEW)
		return;
	f->be->ops->columns(f->be, &f->few, mass_to(f, 0), slot, n_read);
	f->shown = n;
}

void mass_read_back(struct attn_mass *f, int32_t n)
{
	int32_t slot[MASS_FEW], n_read, shown = f->shown == n;

	f->shown = 0;
	if (!f->be || !f->sum_stale)
		return;
	n_read = rings_slots_read(f->rings, n, slot, MASS_FEW);
	if (n_read > MASS_FEW)
		mass_read(f);
	else if (n_read)
		read_few(f, slot, n_read, shown);
}

void mass_follow(struct attn_mass *f)
{
	const struct rings *r = f->rings;
	struct tensor array = f->array[f->now];

	if (!f->be || !r->n_changed || f->array_stale)
		return;
	if (r->n_changed > MASS_FEW) {
		f->array_stale = 1; /* make the next write_all() send all sums */
		return;
	}
	for (int32_t h = 0; h < r->heads; h++) {
		int32_t *out = f->list + (size_t)h * 3 * MASS_FEW;

		for (int32_t i = 0; i < r->n_changed; i++, out += 3) {
			int32_t from = r->from[(size_t)i * (size_t)r->heads + (size_t)h];

			out[0] = from == r->changed[i] ? -1 : from;
			out[1] = r->changed[i];
			out[2] = -1;
		}
	}
	f->be->ops->write(f->be, &f->move, 0, f->list, (size_t)r->heads * 3 * MASS_FEW * sizeof *f->list);
	array.rows = r->heads * r->n_slots;
	array.cols = 1;
	f->be->ops->kv_move(
		f->be, &array,
		&(struct kv_moves){
			.move = &f->move, .n = r->n_changed, .n_kv_head = r->heads, .head_dim = 1, .cap = r->n_slots });
}

/* ---- saving ---- */

/* Save or load the host's sums of the first `slots` slots. The bytes are ordered by head, like the backend's arrays,
 * although the host's own sums are ordered by slot. */
void mass_archive(struct attn_mass *f, struct serializer *a, int32_t slots)
{
	const struct rings *r = f->rings;
	size_t heads = f->be ? (size_t)r->heads : 0;

	for (size_t h = 0; h < heads; h++) {
		float *sum = r->mass + h;

		for (int32_t i = 0; i < slots; i++)
			f->swap[i] = sum[(size_t)i * heads];
		serialize_bytes(a, f->swap, (uint64_t)slots * sizeof *f->swap);
		for (int32_t i = 0; serialize_loading(a) && !a->bad && i < slots; i++)
			sum[(size_t)i * heads] = f->swap[i];
	}
}

/* Save or load one array of the backend through the buffer f->swap. */
static void array_archive(struct attn_mass *f, struct serializer *a, struct tensor *array, int32_t slots)
{
	size_t cols = (size_t)f->rings->n_slots;

	if (a->mode == SERIALIZE_SAVE)
		f->be->ops->read(f->be, array, 0, f->swap, array_bytes(f));
	else if (serialize_loading(a))
		memset(f->swap, 0, array_bytes(f));
	for (size_t h = 0; h < (size_t)f->rings->heads; h++)
		serialize_bytes(a, f->swap + h * cols, (uint64_t)slots * sizeof *f->swap);
	if (serialize_loading(a) && !a->bad)
		f->be->ops->write(f->be, array, 0, f->swap, array_bytes(f));
}

void mass_points_archive(struct attn_mass *f, struct serializer *a, const int32_t slots[MASS_POINTS])
{
	for (int i = 0; i < MASS_POINTS && !a->bad; i++) {
		struct mass_point *p = &f->point[i];

		if (p->t < 0)
			continue;
		if (serialize_loading(a)) {
			/* load the sums of rollback point i into a free array; the array that the point had before
			 * counts as free */
			p->array = f->now;
			p->array = free_array(f, -1);
			p->ema = f->rings->ema;
		}
		serialize_i64(a, &p->ema.shift, 0, INT64_MAX / 2, "the weight of attention mass");
		serialize_bytes(a, &p->nll, sizeof p->nll);
		array_archive(f, a, &f->array[p->array], slots[i]);
	}
}
