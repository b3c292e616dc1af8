/* tests/cuda/t_cuda_plugin.c - finding and opening weir-cuda.so: the messages if the plugin is missing, broken or from
 * another build, and the effect of the device "auto".
 *
 * The plugin contains the emulated device. The test builds broken plugins and plugins of another build with the compiler.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/engine.h"
#include "kernels/backend.h"
#include "tests/cuda/cuda_test.h"

static char dir[64];

/* Compile this C text into dir/NAME.so, and return its path. Skips the test if there is no compiler. */
static const char *library(const char *name, const char *source, const char *more)
{
	static char path[128];
	char file[128], command[512];
	FILE *f;

	if (!*dir) {
		snprintf(dir, sizeof dir, "/tmp/weir-plugin-XXXXXX");
		if (!mkdtemp(dir))
			SKIP("no directory for files");
	}
	snprintf(file, sizeof file, "%s/%s.c", dir, name);
	snprintf(path, sizeof path, "%s/%s.so", dir, name);
	f = fopen(file, "w");
	if (!f)
		SKIP("no file can be written");
	fprintf(f, "%s\n", source);
	fclose(f);
	snprintf(command, sizeof command, "%s -shared -fPIC -o %s %s %s 2>/dev/null",
	         getenv("CC") ? getenv("CC") : "cc", path, file, more);
	if (system(command))
		SKIP("no compiler");
	return path;
}

__attribute__((destructor)) static void clean_up(void)
{
	char command[128];

	if (!*dir)
		return;
	snprintf(command, sizeof command, "rm -rf %s", dir);
	if (system(command))
		return;
}

static void refused(const char *plugin, const char *why)
{
	struct backend *be = NULL;
	char err[160] = "";

	setenv("WEIR_CUDA", plugin, 1);
	CHECK_INT(backend_open(&be, "cuda", NULL, err), -1);
	CHECK(be == NULL);
	CHECK_MSG(strstr(err, why) != NULL, "'%s' is said of %s, without '%s'", err, plugin, why);
	CHECK(!strchr(err, '\n'));
	/* "auto" falls back to the CPU, whatever is wrong with the plugin. */
	CHECK_INT(backend_open(&be, "auto", NULL, err), 0);
	if (be) {
		CHECK_STR(be->ops->name, "cpu");
		be->ops->close(be);
	}
	unsetenv("WEIR_CUDA");
}

TEST(plugin_missing)
{
	struct backend *be = NULL;
	char err[160];

	unsetenv("WEIR_CUDA");
	CHECK_INT(backend_open(&be, "cuda", NULL, err), -1); /* no plugin is beside this test */
	CHECK_MSG(strstr(err, "built without CUDA") && strstr(err, "make"), "%s", err);
	CHECK(strlen(err) < 159); /* nothing cut off */
	refused("/nonexistent/weir-cuda.so", "cannot read the plugin '/nonexistent/weir-cuda.so'");
	refused("weir-cuda-that-is-not-there.so", "cannot read the plugin");
	setenv("WEIR_CUDA", "", 1);
	CHECK_INT(backend_open(&be, "cuda", NULL, err), -1); /* an empty WEIR_CUDA counts as not set */
	CHECK_MSG(strstr(err, "built without CUDA") != NULL, "%s", err);
	unsetenv("WEIR_CUDA");
}

TEST(plugin_broken)
{
	char path[128];
	FILE *f;

	refused(library("empty", "int nothing;", ""), "no plugin of weir");
	refused(library("unresolved",
	                "int missing_function(void); int weir_cuda_open(void) { return missing_function(); }", ""),
	        "missing_function");
	snprintf(path, sizeof path, "%s/text.so", dir);
	f = fopen(path, "w");
	if (!f)
		SKIP("no file can be written");
	fputs("this is no library\n", f);
	fclose(f);
	refused(path, "cannot load");
}

/* If a library that the plugin needs is missing, the error names it and the package that provides it. */
static void without(const char *soname, const char *why)
{
	char more[256], name[160];

	snprintf(more, sizeof more, "-Wl,-soname,%s", soname);
	library("needed", "int needed(void) { return 1; }", more);
	snprintf(name, sizeof name, "%s/needed.so", dir);
	library("needs", "int needed(void); int weir_cuda_open(void) { return needed(); }", name);
	unlink(name);
	snprintf(name, sizeof name, "%s/needs.so", dir);
	refused(name, soname);
	refused(name, why);
}

TEST(plugin_lacks_a_library)
{
	without("libcublas.so.99", "cuBLAS");
	without("libcublasLt.so.99", "cuBLAS");
	without("libcudart.so.99", "CUDA runtime");
	without("libcuda.so.99", "NVIDIA driver");
	without("libweir-unknown.so.5", "not installed");
}

/* Errors that the plugin itself reports are passed on: another interface version, no driver, no device. */
TEST(plugin_says_why_not)
{
	refused(library("refuses",
	                "#include <stdio.h>\n"
	                "int weir_cuda_open(void **out, const void *options, int abi, char err[160])\n"
	                "{ (void)out, (void)options; snprintf(err, 160, \"no driver %d\", abi); return -1; }",
	                ""),
	        "no driver");
}

TEST(plugin_of_another_build)
{
	struct backend *be = NULL;
	char err[160] = "";

	CHECK_INT(weir_cuda_open(&be, NULL, BACKEND_ABI + 1, err), -1);
	CHECK(be == NULL);
	CHECK_MSG(strstr(err, "version") != NULL, "%s", err);
}

TEST(plugin_opens)
{
	struct backend *be = NULL, *two = NULL;
	char err[160] = "", text[160];
	uint64_t available = 0, total = 0;

	test_cuda_use_plugin();
	CHECK_MSG(!backend_open(&be, "cuda", NULL, err), "%s", err);
	CHECK_INT(backend_open(&two, "auto", NULL, err), 0);
	if (!be || !two)
		return;
	CHECK_STR(be->ops->name, "cuda");
	CHECK_STR(two->ops->name, "cuda");
	be->ops->describe(be, text, sizeof text);
	CHECK(!strncmp(text, "cuda ", 5));
	be->ops->memory(be, &available, &total);
	CHECK(total > 0 && available > 0 && available <= total);
	be->ops->close(be);
	two->ops->close(two);
	unsetenv("WEIR_CUDA");
}

TEST(unknown_devices_are_named)
{
	struct engine *e = NULL;
	struct err err = { 0 };
	struct engine_options o = { .model_path = test_file("tests/vectors/models/llama-block32.gguf"),
		                    .device = "abacus" };

	CHECK_INT(engine_open(&e, &o, &err), -1);
	CHECK_INT(err.code, ERR_USAGE);
	CHECK_MSG(strstr(err.msg, "abacus") && strstr(err.msg, "cuda"), "%s", err.msg);
	o.device = "cuda";
	CHECK_INT(engine_open(&e, &o, &err), -1);
	CHECK_INT(err.code, ERR_MODEL);
	CHECK_MSG(strstr(err.msg, "cannot use device 'cuda'") != NULL, "%s", err.msg);
}
