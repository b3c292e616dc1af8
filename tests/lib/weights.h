/* tests/lib/weights.h - random weights of every type, and results with a guard row at the end, for tests of the CPU
 * backend. */
#ifndef WEIR_TEST_WEIGHTS_H
#define WEIR_TEST_WEIGHTS_H

#include "kernels/common/quant.h"
#include "tests/lib/levels.h"

static inline float *random_floats(size_t n, float lo, float hi)
{
	float *x = must_alloc(n * sizeof *x);

	for (size_t i = 0; i < n; i++)
		x[i] = test_randf(lo, hi);
	return x;
}

static inline struct tensor weight_new(struct backend *be, enum dtype type, int32_t rows, int32_t cols,
                                       const void *data)
{
	struct tensor t = { .type = type, .rows = rows, .cols = cols };

	CHECK_MSG(be->ops->load_weight(be, &t, data, 0) == 0, "%s", be->err);
	return t;
}

/* Return rows of a type as a model file stores them: quantised from floats, or random bits with sane scales. */
static inline void *random_weight(enum dtype type, int32_t rows, int32_t cols)
{
	size_t n = (size_t)rows * (size_t)cols, size = (size_t)dtype_bytes(type, n);
	size_t block = (size_t)dtype_info(type)->block_bytes;
	uint8_t *w = must_alloc(size);
	float *x = random_floats(n, -0.1f, 0.1f);

	if (dtype_from_f32(type, w, x, (int64_t)n) < 0) {
		for (size_t i = 0; i < size; i++)
			w[i] = (uint8_t)test_rand();
		for (size_t i = 0; i < size; i += block) {
			uint16_t d = f32_to_f16(test_randf(0.001f, 0.003f)), m = f32_to_f16(test_randf(0.001f, 0.003f));

			switch (type) {
			case DT_Q2_K:
				memcpy(w + i + offsetof(struct block_q2_k, d), &d, 2);
				memcpy(w + i + offsetof(struct block_q2_k, dmin), &m, 2);
				break;
			case DT_Q3_K: memcpy(w + i + offsetof(struct block_q3_k, d), &d, 2); break;
			case DT_Q4_K:
				memcpy(w + i + offsetof(struct block_q4_k, d), &d, 2);
				memcpy(w + i + offsetof(struct block_q4_k, dmin), &m, 2);
				break;
			case DT_Q5_K:
				memcpy(w + i + offsetof(struct block_q5_k, d), &d, 2);
				memcpy(w + i + offsetof(struct block_q5_k, dmin), &m, 2);
				break;
			case DT_Q6_K: memcpy(w + i + offsetof(struct block_q6_k, d), &d, 2); break;
			case DT_IQ4_NL: memcpy(w + i + offsetof(struct block_iq4_nl, d), &d, 2); break;
			case DT_IQ4_XS: memcpy(w + i + offsetof(struct block_iq4_xs, d), &d, 2); break;
			case DT_MXFP4: w[i] = (uint8_t)(118 + w[i] % 4); break;
			default: test_fail(__FILE__, __LINE__, "no random weights for %s", dtype_info(type)->name);
			}
		}
	}
	free(x);
	return w;
}

#define GUARD 12345.5f

/* Allocate a result of n rows, and one more row as a guard, which must not change. */
static inline struct tensor guarded(struct backend *be, int32_t n, int32_t cols)
{
	struct tensor t = tensor_new(be, DT_F32, n + 1, cols, NULL);
	float *row = must_alloc((size_t)cols * sizeof *row);

	for (int32_t j = 0; j < cols; j++)
		row[j] = GUARD;
	be->ops->write(be, &t, (size_t)n * (size_t)cols * 4, row, (size_t)cols * 4);
	free(row);
	return t;
}

/* Return the first n rows of a result, after a check of its guard row. */
static inline float *result(struct backend *be, struct tensor *t, const char *what)
{
	size_t n = (size_t)(t->rows - 1) * (size_t)t->cols, all = n + (size_t)t->cols;
	float *x = must_alloc(all * sizeof *x);

	be->ops->read(be, t, 0, x, all * 4);
	for (size_t i = n; i < all; i++)
		if (x[i] != GUARD) {
			test_fail(__FILE__, __LINE__, "%s wrote past its last row", what);
			break;
		}
	be->ops->drop(be, t);
	return x;
}

#endif
