/* kernels/device_trial.c - operands and results of a trial (device_trial.h). */
#include "kernels/device_trial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/common/quant.h"

/* Return the next random number, from -1 to 1 (xorshift64*). */
static float random_next(struct trial *t)
{
	t->random ^= t->random >> 12;
	t->random ^= t->random << 25;
	t->random ^= t->random >> 27;
	return (float)((t->random * 2685821657736338717u) >> 40) / (float)(1 << 23) - 1;
}

void trial_drop(struct trial *t)
{
	for (int i = 0; i < t->n_held; i++) {
		t->be->ops->drop(t->be, &t->held[i]);
		free(t->bytes[i]);
	}
	t->n_held = 0;
}

struct tensor trial_hold(struct trial *t, struct tensor made, void *bytes)
{
	if (t->n_held == HELD)
		abort(); /* a function of device_check.c makes more than HELD tensors */
	t->bytes[t->n_held] = bytes;
	t->held[t->n_held++] = made;
	return made;
}

/* Return n random values from lo to hi, converted to a type that dtype_from_f32() supports. The caller frees them. */
static void *randoms(struct trial *t, enum dtype type, size_t n, float lo, float hi)
{
	float *x = malloc(n * sizeof *x);
	void *to = malloc((size_t)dtype_bytes(type, n));

	for (size_t i = 0; x && to && i < n; i++)
		x[i] = lo + (hi - lo) * (random_next(t) + 1) / 2;
	if (x && to)
		dtype_from_f32(type, to, x, (int64_t)n);
	free(x);
	return to;
}

struct tensor trial_tensor(struct trial *t, enum dtype type, int32_t rows, int32_t cols, float lo, float hi)
{
	struct tensor made = { .type = type, .rows = rows, .cols = cols };
	size_t n = (size_t)rows * (size_t)cols;
	void *x = type < DT_COUNT ? randoms(t, type, n, lo, hi) : NULL;

	if (!t->be->ops->alloc(t->be, &made) && x)
		t->be->ops->write(t->be, &made, 0, x, (size_t)dtype_bytes(type, n));
	free(x);
	return trial_hold(t, made, NULL);
}

struct tensor trial_floats(struct trial *t, int32_t rows, int32_t cols)
{
	return trial_tensor(t, DT_F32, rows, cols, -1, 1);
}

struct tensor trial_zeros(struct trial *t, enum dtype type, int32_t rows, int32_t cols)
{
	return trial_tensor(t, type, rows, cols, 0, 0);
}

struct tensor trial_numbers(struct trial *t, int32_t rows, int32_t cols, const int32_t *number)
{
	struct tensor made = trial_zeros(t, DT_I32, rows, cols);

	t->be->ops->write(t->be, &made, 0, number, (size_t)rows * (size_t)cols * sizeof *number);
	return made;
}

/* Set the scales of one block of random bytes, so that its values are about as large as those of a model. */
static void block_scale(enum dtype type, uint8_t *block, float scale)
{
	static const struct {
		/* `d` is the byte offset of the scale in the block; `min` is the byte offset of the scale of the
		 * minima, or -1 if the type has no minima */
		int32_t d, min;
	} at[DT_COUNT] = {
		[DT_Q2_K] = { offsetof(struct block_q2_k, d), offsetof(struct block_q2_k, dmin) },
		[DT_Q3_K] = { offsetof(struct block_q3_k, d), -1 },
		[DT_Q4_K] = { offsetof(struct block_q4_k, d), offsetof(struct block_q4_k, dmin) },
		[DT_Q5_K] = { offsetof(struct block_q5_k, d), offsetof(struct block_q5_k, dmin) },
		[DT_Q6_K] = { offsetof(struct block_q6_k, d), -1 },
		[DT_IQ4_NL] = { offsetof(struct block_iq4_nl, d), -1 },
		[DT_IQ4_XS] = { offsetof(struct block_iq4_xs, d), -1 },
	};
	uint16_t d = f32_to_f16(scale);

	if (type == DT_MXFP4) {
		block[0] = (uint8_t)(118 + block[0] % 4);
		return;
	}
	memcpy(block + at[type].d, &d, sizeof d);
	if (at[type].min >= 0)
		memcpy(block + at[type].min, &d, sizeof d);
}

/* Return random weights of a type as a model file stores them. The caller frees them. */
static void *weight_bytes(struct trial *t, enum dtype type, size_t n)
{
	size_t size = (size_t)dtype_bytes(type, n), block = (size_t)dtype_info(type)->block_bytes;
	uint8_t *w;

	if (type <= DT_Q8_0)
		return randoms(t, type, n, -0.1f, 0.1f);
	w = malloc(size);
	for (size_t i = 0; w && i < size; i++)
		w[i] = (uint8_t)(int)(128 + 127 * random_next(t));
	for (size_t i = 0; w && i < size; i += block)
		block_scale(type, w + i, 0.002f + 0.001f * random_next(t));
	return w;
}

struct tensor trial_weight(struct trial *t, enum dtype type, int32_t rows, int32_t cols, int as_table)
{
	struct tensor made = { .type = type, .rows = rows, .cols = cols };
	size_t n = (size_t)rows * (size_t)cols;
	void *w = weight_bytes(t, type, n);

	if (!t->want) {
		float *x = malloc(n * sizeof *x);

		if (x && w)
			dtype_to_f32(type, x, w, (int64_t)n);
		free(w);
		w = x;
		made.type = DT_F32;
	}
	if (w)
		t->be->ops->load_weight(t->be, &made, w, as_table);
	return trial_hold(t, made, w);
}

/* Return the normalised mean square error, or NaN if a result is not a number. */
static double distance(const float *got, const float *want, size_t n)
{
	double error = 0, size = 0;

	for (size_t i = 0; i < n; i++) {
		double d = (double)got[i] - (double)want[i];

		error += d * d;
		size += (double)want[i] * (double)want[i];
	}
	return size > 0 ? error / size : error;
}

static void compare(struct trial *t, const struct result *got)
{
	const struct result *r = &t->want->result[got - t->result];
	double error = distance(t->value + r->at, t->want->value + r->at, r->n);

	if (error <= r->limit)
		return;
	snprintf(t->why, sizeof t->why, "%s differs from the CPU's result (error %.1g)", r->name, error);
	t->rc = 1;
}

void trial_result(struct trial *t, const char *name, const struct tensor *from, int32_t n, double limit)
{
	struct result *r = &t->result[t->n_results];
	size_t count = (size_t)n * (size_t)from->cols;

	if (t->rc)
		return;
	if (t->n_results == RESULTS || t->n_values + count > VALUES) {
		snprintf(t->why, sizeof t->why, "internal: the check has too many results");
		t->rc = -1;
		return;
	}
	snprintf(r->name, sizeof r->name, "%s", name);
	r->at = t->n_values;
	r->n = count;
	r->limit = limit;
	t->be->ops->read(t->be, from, 0, t->value + r->at, count * sizeof *t->value);
	for (size_t i = r->at; from->type == DT_I32 && i < r->at + count; i++) {
		int32_t number;

		memcpy(&number, &t->value[i], sizeof number);
		t->value[i] = (float)number;
	}
	t->n_values += count;
	t->n_results++;
	if (t->be->ops->sync(t->be)) {
		snprintf(t->why, sizeof t->why, "%s failed: %.100s", name, t->be->err);
		t->rc = -1;
	} else if (t->want) {
		compare(t, r);
	}
}
