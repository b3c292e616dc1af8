/* tests/cuda/cuda_test.h - opens the device for tests of the CUDA backend: by default the emulated device, which is
 * linked into the test; with WEIR_TEST_CUDA=device a GPU, through the plugin that WEIR_CUDA names. */
#ifndef WEIR_TEST_CUDA_TEST_H
#define WEIR_TEST_CUDA_TEST_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/backend.h"
#include "tests/lib/test.h"

int weir_cuda_open(struct backend **out, const struct backend_options *, int abi, char err[160]);

/* 1 if the tests use a GPU. A test that simulates the CUDA runtime defines TEST_CUDA_PLAYED, and uses no GPU. */
static inline int test_cuda_is_device(void)
{
#ifdef TEST_CUDA_PLAYED
	return 0;
#else
	const char *which = getenv("WEIR_TEST_CUDA");

	return which && !strcmp(which, "device");
#endif
}

/* Open the backend under test. Returns what weir_cuda_open() returns. */
static inline int test_cuda_open(struct backend **out, char err[160])
{
	return test_cuda_is_device() ? backend_open(out, "cuda", NULL, err)
	                             : weir_cuda_open(out, NULL, BACKEND_ABI, err);
}

/* Open the backend under test and return it. If that fails, the test program ends. */
static inline struct backend *open_cuda(void)
{
	struct backend *be = NULL;
	char err[160] = "";

	if (test_cuda_open(&be, err) < 0) {
		test_fail(__FILE__, __LINE__, "test_cuda_open: %s", err);
		abort();
	}
	return be;
}

/* If a GPU is tested, skip this test: it needs counts of launches, guards or the memory of the emulated device. */
#define CUDA_HOST_ONLY()                                                                                               \
	do {                                                                                                           \
		if (test_cuda_is_device())                                                                             \
			SKIP("the device does not tell");                                                              \
	} while (0)

/* Return the path of the plugin with the emulated device, two folders above the folder of this test. */
static inline const char *test_cuda_plugin(void)
{
	static char path[4200];
	char self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
	char *slash;

	self[MAX(n, 0)] = 0;
	for (int i = 0; i < 3; i++) /* build/tests/cuda/TEST */
		if ((slash = strrchr(self, '/')))
			*slash = 0;
	snprintf(path, sizeof path, "%s/weir-cuda-host.so", self);
	CHECK_MSG(!access(path, R_OK), "%s is missing: the build makes it before this test", path);
	return path;
}

/* test_cuda_use_plugin() makes engine_open() and backend_open() use the plugin with the emulated device or, if a GPU is
 * tested, the plugin that WEIR_CUDA named when the test began. */
static char test_cuda_named[4200];
__attribute__((constructor)) static inline void test_cuda_begin(void)
{
	snprintf(test_cuda_named, sizeof test_cuda_named, "%s", getenv("WEIR_CUDA") ? getenv("WEIR_CUDA") : "");
}
static inline void test_cuda_use_plugin(void)
{
	setenv("WEIR_CUDA", test_cuda_is_device() ? test_cuda_named : test_cuda_plugin(), 1);
}

#endif
