/* tests/cuda/t_cuda_device.c - gpu_cuda*.cu over a simulated CUDA runtime (cuda_fake.cc).
 *
 * All tests of t_cuda_ops.c and t_cuda_fetch.c run on this runtime: copied bytes, steps, graphs, refusals. More tests
 * cover what only a GPU does: messages without a device or with a device that is too old, graphs that CUDA refuses, an
 * illegal address, and that everything is freed. This suite never uses a real device, whatever WEIR_TEST_CUDA is;
 * t_cuda_ops can use one. */
#define TEST_CUDA_PLAYED 1
#include "tests/cuda/cuda_fake.h"
#include "tests/cuda/t_cuda_fetch.c"
#include "tests/cuda/t_cuda_ops.c"

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
	open_says(
		"the NVIDIA driver is too old: it knows CUDA 12.4, and 13.0 is needed; update it, or use --device cpu");
	fake_cuda.devices = 0;
	open_says("there is no NVIDIA GPU (or CUDA_VISIBLE_DEVICES hides it); use --device cpu");
	fake_cuda.devices = -1;
	open_says("CUDA does not start (cudaError: a failure); use --device cpu");
	fake_cuda.major = 7;
	open_says("GPU 'host' is too old: compute capability 7.0, and 8.0 is needed; use --device cpu");
	for (int words = 0; words <= 2; words += 2) {
		fake_cuda.image = words;
		open_says("weir-cuda.so has no code for 'host' (sm_90); build it with 'make CUDA_ARCH=native'");
	}
	/* A driver that is newer than the runtime works, and so does an older driver of the same major version. */
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

/* Without graphs, or with graphs that cannot be updated, results are the same. */
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

/* A lack of memory for cuBLAS is reported once. When there is memory again, the next product is computed. */
TEST(device_product_after_no_memory)
{
	enum { N = 12, N_ROWS = 5, COLS = 32 };
	struct backend *be = open_cuda();
	struct tensor w = { .type = DT_F16, .rows = N_ROWS, .cols = COLS }, x = tensor_new(be, DT_F32, N, COLS, NULL);
	struct tensor out = tensor_new(be, DT_F32, N, N_ROWS, NULL);
	float ones[N_ROWS * COLS], xs[N * COLS], got[N * N_ROWS];
	uint16_t halves[N_ROWS * COLS];
	int held;

	for (int i = 0; i < N_ROWS * COLS; i++)
		ones[i] = 1;
	for (int i = 0; i < N * COLS; i++)
		xs[i] = (float)(i / COLS);
	dtype_from_f32(DT_F16, halves, ones, N_ROWS * COLS);
	CHECK(be->ops->load_weight(be, &w, halves, 0) == 0);
	be->ops->matmul(be, &(struct matmul){ .out = &out, .w = &w }, 1, &x, 1);
	CHECK(be->ops->sync(be) == 0);
	for (int i = 0; i < 2; i++) {
		held = fake_cuda_held();
		fake_cuda.workspace = 0;
		be->ops->matmul(be, &(struct matmul){ .out = &out, .w = &w }, 1, &x, N);
		CHECK(be->ops->sync(be) < 0);
		CHECK_MSG(strstr(be->err, "out of GPU memory (cuBLAS's workspace)") != NULL, "%s", be->err);
		CHECK_INT(fake_cuda_held(), held + !i); /* the buffer for activations stays allocated */
	}
	fake_cuda.workspace = 1;
	be->ops->write(be, &x, 0, xs, sizeof xs);
	be->ops->matmul(be, &(struct matmul){ .out = &out, .w = &w }, 1, &x, N);
	be->ops->read(be, &out, 0, got, sizeof got);
	CHECK(be->ops->sync(be) == 0);
	for (int i = 0; i < N * N_ROWS; i++)
		CHECK_MSG(got[i] == (float)(i / N_ROWS * COLS), "value %d is %g", i, (double)got[i]);
	be->ops->drop(be, &w);
	be->ops->drop(be, &x);
	be->ops->drop(be, &out);
	finish(be);
	fake_cuda_good();
}

/* A second wait without new work must not call CUDA: a wait takes microseconds, and a whole token of a small model
 * takes only a few hundred microseconds. */
TEST(device_waits_once)
{
	struct backend *be = open_cuda();
	float x[64] = { 1 };
	struct tensor t = tensor_new(be, DT_F32, 1, 64, x), w = tensor_new(be, DT_F32, 1, 64, x);
	int waits;

	CHECK(be->ops->sync(be) == 0);
	waits = fake_cuda.waits;
	for (int i = 1; i < 6; i++) {
		for (int k = 0; k < i; k++)
			be->ops->rmsnorm(be, &t, &t, &w, 64, 1e-6f, 1);
		if (i & 1)
			be->ops->read(be, &t, 0, x, sizeof x); /* a read waits for its own bytes only */
		CHECK(be->ops->sync(be) == 0);
		CHECK(be->ops->sync(be) == 0);
		waits += !(i & 1);
		CHECK_INT(fake_cuda.waits, waits);
	}
	be->ops->drop(be, &t);
	be->ops->drop(be, &w);
	finish(be);
}

/* The device already runs parts of a step while the host still collects launches of this step. */
TEST(device_begins_early)
{
	struct backend *be = open_cuda();
	float x[64] = { 1 };
	struct tensor t = tensor_new(be, DT_F32, 1, 64, x), w = tensor_new(be, DT_F32, 1, 64, x);
	struct gpu_host_counts before, c;

	CHECK(be->ops->sync(be) == 0);
	for (int round = 0; round < 5; round++) {
		gpu_host_stats(&before);
		for (int i = 0; i < 16 + 32 + 64 + 3; i++)
			be->ops->rmsnorm(be, &t, &t, &w, 64, 1e-6f, 1);
		gpu_host_stats(&c);
		CHECK_INT(c.replayed - before.replayed, round > 1 ? 3 : 0);
		CHECK(be->ops->sync(be) == 0);
	}
	be->ops->drop(be, &t);
	be->ops->drop(be, &w);
	finish(be);
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
	CHECK_STR(
		be->err,
		"the GPU failed (cudaStreamSynchronize: cudaErrorIllegalAddress) and cannot continue; restart weir, or use --device cpu");
	be->ops->rmsnorm(be, &t, &t, &w, 64, 1e-6f, 1);
	be->ops->read(be, &t, 0, ones, sizeof ones);
	CHECK(be->ops->sync(be) < 0);
	CHECK(strstr(be->err, "restart weir") != NULL);
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
