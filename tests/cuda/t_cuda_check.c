/* tests/cuda/t_cuda_check.c - the check of a device (kernels/device_check.h): it passes on the emulated device or a GPU,
 * and finds every operation that does nothing; and what the engine makes of its results. */
#include <stddef.h>
#include <time.h>

#include "engine/engine.h"
#include "engine/engine_machine.h"
#include "kernels/device_check.h"
#include "tests/cuda/cuda_test.h"

TEST(check_passes)
{
	struct backend *be = open_cuda();
	char why[160] = "";
	clock_t start = clock();

	CHECK_MSG(device_check(be, why) == 0, "%s", why);
	test_note("%.2f s of processor time", (double)(clock() - start) / CLOCKS_PER_SEC);
	CHECK(be->ops->sync(be) == 0);
	be->ops->close(be);
}

static void nothing(void)
{
}

/* An operation that does nothing leaves another result: each one is named as it is found. */
TEST(check_finds_every_operation)
{
	struct backend *be = open_cuda();
	const struct backend_ops *whole = be->ops;
	size_t first = offsetof(struct backend_ops, copy), left_out = offsetof(struct backend_ops, read_blocks);

	for (size_t at = first; at < sizeof *whole; at += sizeof(void *)) {
		struct backend_ops broken = *whole;
		void (*none)(void) = nothing;
		char why[160] = "";

		if (at == left_out) /* LACKS_BLOCKS */
			continue;
		memcpy((char *)&broken + at, &none, sizeof none);
		/* key_sketch_bytes() returns a number */
		if (at == offsetof(struct backend_ops, key_sketch_bytes))
			continue;
		be->ops = &broken;
		CHECK_MSG(device_check(be, why) != 0, "operation %d does nothing, and the check passes",
		          (int)((at - first) / sizeof(void *)));
		CHECK(why[0]);
		be->ops = whole;
		be->ops->sync(be);
	}
	be->ops->close(be);
}

/* ---- what the engine makes of it ---- */

static struct {
	int known, kept;
	char gpu[240], why[160];
} memory;

static int memory_find(const char *gpu, char why[160])
{
	snprintf(memory.gpu, sizeof memory.gpu, "%s", gpu);
	snprintf(why, 160, "%s", memory.known ? "" : "rope differs");
	return memory.known;
}
static void memory_keep(const char *gpu, const char *why)
{
	CHECK_STR(gpu, memory.gpu);
	memory.kept++;
	snprintf(memory.why, sizeof memory.why, "%s", why ? why : "");
}
static const struct gpu_checks checks = { memory_find, memory_keep };

static void opens(const char *device, int known, const char *on, const char *note)
{
	struct engine *e = NULL;
	struct err err = { 0 };

	memory.known = known;
	memory.kept = 0;
	if (engine_open(&e,
	                &(struct engine_options){ .model_path = test_file("tests/vectors/models/llama-block32.gguf"),
	                                          .device = device,
	                                          .threads = 1,
	                                          .gpu_checks = &checks },
	                &err)) {
		test_fail(__FILE__, __LINE__, "%s", err.msg);
		return;
	}
	CHECK_MSG(!strncmp(engine_info(e)->device, on, strlen(on)), "%s: computes on %s", device,
	          engine_info(e)->device);
	CHECK_STR(engine_info(e)->device_note, note);
	engine_close(e);
}

TEST(engine_trusts_by_the_check)
{
	struct engine_gpu gpu;

	CUDA_HOST_ONLY();
	test_cuda_use_plugin();
	opens("cuda", -1, "cuda", "");
	CHECK_INT(memory.kept, 1);
	CHECK_STR(memory.why, "");
	CHECK_MSG(strstr(memory.gpu, "host, sm_90, driver 13000, runtime 13000, plugin "), "%s", memory.gpu);
	opens("auto", 1, "cuda", "");
	CHECK_INT(memory.kept, 0);
	opens("auto", 0, "cpu", "computing on the CPU: the check of the GPU failed: rope differs");
	opens("cuda", 0, "cpu", "computing on the CPU: the check of the GPU failed: rope differs");
	CHECK_INT(memory.kept, 0);
	setenv("WEIR_CUDA_WRONG", "head_args", 1);
	opens("auto", -1, "cpu",
	      "computing on the CPU: the check of the GPU failed: rmsnorm differs from the CPU's result (error 2)");
	unsetenv("WEIR_CUDA_WRONG");
	CHECK_INT(memory.kept, 1);
	CHECK_STR(memory.why, "rmsnorm differs from the CPU's result (error 2)");
	memory.kept = 0;
	/* engine_gpu() checks again, whatever is known */
	CHECK(engine_gpu(&gpu, &checks) == 0);
	CHECK_STR(gpu.check, "");
	CHECK_INT(memory.kept, 1);
	CHECK(engine_gpu(&gpu, NULL) == 0);
	CHECK_INT(memory.kept, 1);
}
