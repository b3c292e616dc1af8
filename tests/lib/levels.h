/* tests/lib/levels.h - opens the CPU backend at each level and makes tensors on it, for tests of its operations. */
#ifndef WEIR_TEST_LEVELS_H
#define WEIR_TEST_LEVELS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/backend.h"
#include "kernels/cpu/fns.h"
#include "tests/lib/test.h"

#define levels cpu_level_name
enum { N_LEVELS = CPU_LEVELS };

/* Open the CPU backend at one level. NULL: this machine lacks the level. */
static inline struct backend *open_level(const char *level, int threads)
{
	struct backend *be = NULL;
	char err[160] = "", want[32], text[64];
	/* for amx, describe() names avx512 first, because their results are equal */
	const char *avx512 = strcmp(level, "amx") ? "" : "avx512, ";

	setenv("WEIR_CPU", level, 1);
	if (backend_open(&be, "cpu", &(struct backend_options){ .threads = threads }, err) < 0) {
		test_fail(__FILE__, __LINE__, "backend_open: %s", err);
		unsetenv("WEIR_CPU");
		return NULL;
	}
	unsetenv("WEIR_CPU");
	snprintf(want, sizeof want, "cpu %s%s,", avx512, level);
	be->ops->describe(be, text, sizeof text);
	if (strncmp(text, want, strlen(want))) {
		be->ops->close(be);
		return NULL;
	}
	return be;
}

static inline void finish(struct backend *be)
{
	CHECK_MSG(be->ops->sync(be) == 0, "%s", be->err);
	be->ops->close(be);
}

static inline void *must_alloc(size_t n)
{
	void *p = calloc(1, n ? n : 1);

	if (!p)
		abort();
	return p;
}

static inline struct tensor tensor_new(struct backend *be, enum dtype type, int32_t rows, int32_t cols,
                                       const void *data)
{
	struct tensor t = { .type = type, .rows = rows, .cols = cols };

	CHECK_MSG(be->ops->alloc(be, &t) == 0, "%s", be->err);
	if (data && t.data)
		be->ops->write(be, &t, 0, data, (size_t)dtype_bytes(type, (uint64_t)rows * (uint64_t)cols));
	return t;
}

#endif
