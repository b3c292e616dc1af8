/* tests/t_cuda_device.c - the device's runtime, gpu_cuda.cu, over a CUDA runtime that is played (cuda_fake.cc).
 *
 * First all tests of t_cuda_ops.c once more, on this runtime: bytes that cross, steps, graphs, refusals.  Then what only a device
 * does: what is said when there is none or it is too old, large copies through small buffers, graphs that cannot be had, an
 * illegal address, and that everything is given back. */
#include "tests/cuda_fake.h"
#include "tests/t_cuda_ops.c"

static void open_says(const char *what)
{
	struct backend *be = NULL;
	char err[160] = "";
	int held = fake_cuda_held();

	CHECK(weir_cuda_open(&be, NULL, BACKEND_ABI, err) < 0);
	CHECK(be == NULL);
	CHECK_STR(err, what);
	CHECK_INT(fake_cuda_held(), held);
	fake_cuda_good();
}

TEST(device_says_what_is_missing)
{
	fake_cuda.driver = 0;
	open_says("there is no NVIDIA driver; install one for CUDA 13.0 or newer, or use --device cpu");
	fake_cuda.driver = 12040;
	open_says("the NVIDIA driver is too old: it knows CUDA 12.4, and 13.0 is needed; update it, or use --device cpu");
	fake_cuda.devices = 0;
	open_says("there is no NVIDIA GPU (or CUDA_VISIBLE_DEVICES hides it); use --device cpu");
	fake_cuda.devices = -1;
	open_says("CUDA does not start (cudaError: a failure); use --device cpu");
	fake_cuda.major = 7;
	open_says("GPU 'host' is too old: compute capability 7.0, and 8.0 is needed; use --device cpu");
	fake_cuda.image = 0;
	open_says("weir-cuda.so has no code for 'host' (sm_90); build it with 'make CUDA_ARCH=native'");
	/* A newer driver than the runtime is fine, and so is an older one of the same major version. */
	for (int v = 13000; v <= 14000; v += 500) {
		struct backend *be;

		fake_cuda.driver = v;
		fake_cuda.runtime = 13020;
		be = open_cuda();
		finish(be);
	}
	fake_cuda_good();
}

TEST(device_first_new_enough_is_taken)
{
	struct backend *be;

	fake_cuda.devices = 3;
	fake_cuda.major = 6;
	be = open_cuda();
	CHECK_INT(fake_cuda_device(), 1);
	finish(be);
	fake_cuda_good();
	be = open_cuda();
	CHECK_INT(fake_cuda_device(), 0);
	finish(be);
}

TEST(device_gives_everything_back)
{
	int held = fake_cuda_held();
	struct backend *be = open_cuda();
	struct tensor t = tensor_new(be, DT_F32, 4, 64, NULL), w = tensor_new(be, DT_F32, 1, 64, NULL);

	for (int i = 0; i < 30; i++) {
		for (int k = 0; k < 5 + i % 3; k++) {
			be->ops->rmsnorm(be, &t, &t, &w, 64, 1e-6f, 1);
			be->ops->copy(be, &t, 2, &t, 0, 1);
		}
		CHECK(be->ops->sync(be) == 0);
	}
	be->ops->drop(be, &t);
	be->ops->drop(be, &w);
	finish(be);
	CHECK_INT(fake_cuda_held(), held);
}

TEST(device_large_copies)
{
	struct backend *be = open_cuda();
	static const size_t sizes[] = { 1, 65535, 65536, 65537, 8 << 20, (8 << 20) + 1, (16 << 20) - 3, 40000001 };

	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
		size_t n = sizes[i];
		struct tensor t = tensor_new(be, DT_U8, 1, (int32_t)n + 7, NULL);
		unsigned char *x = must_alloc(n), *y = must_alloc(n + 7);

		for (size_t k = 0; k < n; k++)
			x[k] = (unsigned char)(k * 2654435761u >> 13);
		be->ops->write(be, &t, 3, x, n);
		memset(x, 0, n);                   /* the caller's to change */
		be->ops->read(be, &t, 0, y, n + 7);
		for (size_t k = 0; k < n + 7; k++) {
			unsigned char want = k < 3 || k >= n + 3 ? 0 : (unsigned char)((k - 3) * 2654435761u >> 13);

			if (y[k] != want) {
				test_fail(__FILE__, __LINE__, "%zu bytes: byte %zu is %d, not %d", n, k, y[k], want);
				break;
			}
		}
		be->ops->drop(be, &t);
		free(x);
		free(y);
	}
	finish(be);
}

/* More small writes than fit the region of one step, between kernels that use them. */
TEST(device_many_writes_in_one_step)
{
	enum { N = 600, COLS = 8192 };
	struct backend *be = open_cuda();
	struct tensor a = tensor_new(be, DT_F32, 1, COLS, NULL), b = tensor_new(be, DT_F32, N, COLS, NULL);
	float *x = must_alloc(COLS * 4), *got = must_alloc(COLS * 4);

	for (int i = 0; i < N; i++) {
		for (int k = 0; k < COLS; k++)
			x[k] = (float)(i * 3 + k);
		be->ops->write(be, &a, 0, x, COLS * 4);
		be->ops->copy(be, &b, i, &a, 0, 1);
	}
	for (int i = 0; i < N; i += 37) {
		be->ops->read(be, &b, (size_t)i * COLS * 4, got, COLS * 4);
		for (int k = 0; k < COLS; k += 11)
			CHECK(got[k] == (float)(i * 3 + k));
	}
	be->ops->drop(be, &a);
	be->ops->drop(be, &b);
	free(x);
	free(got);
	finish(be);
}

/* Without graphs, or with such as cannot be updated, everything is as it was but slower. */
TEST(device_without_graphs)
{
	for (int graphs = 0; graphs <= 2; graphs += 2) {
		int held = fake_cuda_held();

		fake_cuda.graphs = graphs;
		same_step_values();
		CHECK_INT(fake_cuda_held(), held);
	}
	fake_cuda_good();
}

TEST(device_broken_stays_broken)
{
	struct backend *be = open_cuda(), *other = NULL;
	float ones[64];
	struct tensor t, w;
	char err[160];
	int held;

	for (int i = 0; i < 64; i++)
		ones[i] = 1;
	t = tensor_new(be, DT_F32, 1, 64, ones);
	w = tensor_new(be, DT_F32, 1, 64, ones);
	CHECK(be->ops->sync(be) == 0);
	fake_cuda.break_launch = 1;
	be->ops->rmsnorm(be, &t, &t, &w, 64, 1e-6f, 1);
	CHECK(be->ops->sync(be) < 0);
	CHECK_STR(be->err, "the GPU failed (cudaStreamSynchronize: cudaErrorIllegalAddress) and cannot go on; start weir again, or use --device cpu");
	be->ops->rmsnorm(be, &t, &t, &w, 64, 1e-6f, 1);
	be->ops->read(be, &t, 0, ones, sizeof ones);
	CHECK(be->ops->sync(be) < 0);
	CHECK(strstr(be->err, "start weir again") != NULL);
	CHECK(be->ops->alloc(be, &(struct tensor){ .type = DT_F32, .rows = 1, .cols = 1 }) < 0);
	CHECK(be->ops->sync(be) < 0);
	be->ops->drop(be, &t);
	be->ops->drop(be, &w);
	be->ops->close(be);
	held = fake_cuda_held();
	CHECK(weir_cuda_open(&other, NULL, BACKEND_ABI, err) < 0);
	CHECK_INT(fake_cuda_held(), held);
	fake_cuda_good();
}
