/* tests/lib/predictor.h - random networks for `predict`, stored where the policy looks for a model's network. */
#ifndef WEIR_TEST_PREDICTOR_H
#define WEIR_TEST_PREDICTOR_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/engine_private.h"
#include "engine/policies/predictor.h"
#include "tests/lib/test.h"

static char predictor_dir[] = "/tmp/weir-predict-XXXXXX";

static inline void predictor_dir_remove(void)
{
	char cmd[80];

	snprintf(cmd, sizeof cmd, "rm -rf %s", predictor_dir);
	if (system(cmd))
		fprintf(stderr, "%s was not removed\n", predictor_dir);
}

/* Let the policy look for networks in a temporary folder, which is removed when the program ends. */
static inline void predictor_home(void)
{
	static int made;

	if (made)
		return;
	made = 1;
	if (!mkdtemp(predictor_dir))
		abort();
	setenv("XDG_DATA_HOME", predictor_dir, 1);
	atexit(predictor_dir_remove);
}

/* Fill in random weights. They are small and mostly positive, so that predictions depend on the whole image. */
static inline void predictor_random(struct predictor *p, unsigned seed)
{
	float *w = (float *)p;
	uint64_t x = 88172645463325252u + seed;

	for (int i = 0; i < PREDICTOR_WEIGHTS; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		w[i] = ((float)(x >> 40) / (float)(1 << 24) - 0.3f) * 0.2f;
	}
}

static inline void predictor_put(uint64_t fingerprint, int32_t block, int32_t rows, unsigned seed)
{
	struct str path = { 0 };
	struct predictor p;
	struct err err = { 0 };

	predictor_home();
	predictor_random(&p, seed);
	if (predictor_save(&p, &(struct predictor_key){ fingerprint, block, rows }, &path, &err))
		test_skip("%s", err.msg);
	str_free(&path);
}

/* Compute in double the prediction for n columns of an image. The image has `rows` rows, oldest first, `stride` numbers
 * apart. */
static inline void predictor_double(const struct predictor *p, const double *image, int32_t rows, size_t stride,
                                    int32_t n, double *out)
{
	/* The first layer, with a border of zeros. */
	double *inner = xcalloc((size_t)(rows + 2) * (size_t)(n + 2) * PREDICTOR_INNER, sizeof *inner);

	for (int32_t t = 0; t < rows; t++)
		for (int32_t x = 0; x < n; x++)
			for (int c = 0; c < PREDICTOR_INNER; c++) {
				double sum = (double)p->b1[c];

				for (int k = 0; k < 9; k++) {
					int32_t y = t + k / 3 - 1, at = x + k % 3 - 1;

					sum += y >= 0 && y < rows && at >= 0 && at < n
					               ? image[(size_t)y * stride + (size_t)at] *
					                         (double)p->w1[k * PREDICTOR_INNER + c]
					               : 0;
				}
				inner[((t + 1) * (n + 2) + x + 1) * PREDICTOR_INNER + c] = MAX(sum, 0);
			}
	for (int32_t x = 0; x < n; x++) {
		out[x] = 0;
		for (int32_t t = 0; t < rows; t++)
			for (int o = 0; o < PREDICTOR_OUTER; o++) {
				double sum = (double)p->b2[o];

				for (int k = 0; k < 9; k++)
					for (int c = 0; c < PREDICTOR_INNER; c++)
						sum += inner[((t + k / 3) * (n + 2) + x + k % 3) * PREDICTOR_INNER +
						             c] *
						       (double)p->w2[(k * PREDICTOR_INNER + c) * PREDICTOR_OUTER + o];
				out[x] += (double)p->w3[o] * MAX(sum, 0);
			}
	}
	free(inner);
}

/* Store networks for every block size that tests use. */
static inline void predictor_put_for(const struct engine *e)
{
	static const int32_t block[] = { 1, 4, 8, 16, 32 };

	for (size_t i = 0; i < LEN(block); i++) {
		predictor_put(e->model.hp.fingerprint, block[i], 64, (unsigned)i);
		predictor_put(e->model.hp.fingerprint, block[i], 16, (unsigned)i);
	}
}

#endif
