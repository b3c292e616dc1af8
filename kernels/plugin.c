/* kernels/plugin.c - finds weir-cuda.so and opens the CUDA backend in it. The program does not link to CUDA, so it
 * also runs on machines without CUDA. The plugin is loaded when the user asks for a GPU.
 *
 * If the environment variable WEIR_CUDA is set (for tests), it is the path of the plugin. Otherwise the plugin is
 * searched in the folder of the program (`make`), then in ../lib/weir relative to this folder (`make install`).
 *
 * A loaded plugin is never unloaded: the CUDA runtime and cuBLAS start threads and register handlers, whose code must
 * stay mapped.
 *
 * With WEIR_STATIC there are no plugins: a static program has no dynamic linker. */
#include "kernels/plugin.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/os.h"

#ifdef WEIR_STATIC
int plugin_cuda_open(struct backend **out, const struct backend_options *opt, char err[160])
{
	*out = NULL;
	snprintf(err, 160,
	         "this weir is one static file, which cannot load CUDA; build weir from its source by 'make cuda'");
	return -1;
}
#else

#define PLUGIN "weir-cuda.so"

typedef int open_fn(struct backend **out, const struct backend_options *, int abi, char err[160]);

static int path_readable(const char *path)
{
	return !access(path, R_OK);
}

static int plugin_is_named(void)
{
	const char *named = getenv("WEIR_CUDA");

	return named && *named;
}

/* Return the last n bytes of a path, or the whole path if it is shorter. An error message has no room for long
 * paths. */
static const char *path_tail(const char *path, size_t n)
{
	size_t len = strlen(path);

	return len > n ? path + len - n : path;
}

/* Find the plugin. Return 0 with its path, or -1 with the reason in err. */
static int plugin_find(char path[PATH_MAX], char err[160])
{
	const char *named = getenv("WEIR_CUDA");
	char dir[PATH_MAX];

	if (plugin_is_named()) {
		/* Without a slash in the name, dlopen() would search the system's library folders. */
		if (snprintf(path, PATH_MAX, "%s%s", strchr(named, '/') ? "" : "./", named) < PATH_MAX &&
		    path_readable(path))
			return 0;
		snprintf(err, 160, "cannot read the plugin '%.80s' that WEIR_CUDA names", path_tail(named, 80));
		return -1;
	}
	os_folder(dir);
	if (*dir) {
		if (snprintf(path, PATH_MAX, "%s/" PLUGIN, dir) < PATH_MAX && path_readable(path))
			return 0;
		if (snprintf(path, PATH_MAX, "%s/../lib/weir/" PLUGIN, dir) < PATH_MAX && path_readable(path))
			return 0;
	}
	snprintf(err, 160,
	         "this weir was built without CUDA: there is no " PLUGIN " beside it; 'make cuda' builds it, "
	         "'make setup-cuda' fetches nvcc");
	return -1;
}

/* Convert dlerror()'s text `what` to a sentence for the user. If a library is missing, its name is before the first
 * colon: "libcublas.so.13: cannot open shared object file". */
static void load_error_explain(const char *path, const char *what, char err[160])
{
	size_t n = what ? strcspn(what, ":") : 0;
	const char *of = NULL;

	if (!what || n > 60 || strncmp(what, "lib", 3) || !strstr(what, "cannot open")) {
		snprintf(err, 160, "cannot load '%.50s': %.90s", path_tail(path, 50),
		         what ? path_tail(what, 90) : "no reason given");
		return;
	}
	if (!strncmp(what, "libcublas", 9))
		of = "cuBLAS";
	else if (!strncmp(what, "libcudart", 9))
		of = "the CUDA runtime";
	else if (!strncmp(what, "libcuda.", 8))
		of = "the NVIDIA driver";
	if (of)
		snprintf(err, 160, PLUGIN " needs '%.*s', which is not installed: it comes with %s%s", (int)n, what, of,
		         strncmp(what, "libcuda.", 8) ? " of CUDA, or by 'make setup-cuda'" : "");
	else
		snprintf(err, 160, PLUGIN " needs '%.*s', which is not installed", (int)n, what);
}

/* 1 if the NVIDIA driver is installed; otherwise 0, with a sentence in err. Without this check, a machine without a
 * driver would load hundreds of megabytes of cuBLAS. */
static int driver_is_there(char err[160])
{
	if (dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL))
		return 1;
	snprintf(err, 160,
	         "there is no NVIDIA driver (libcuda.so.1) on this machine; install one, or use --device cpu");
	return 0;
}

/* Append size and modification time of the plugin's file to the identity of its backend. */
static void identity_add(struct backend *be, const char *path)
{
	size_t n = strlen(be->identity);
	struct stat st;

	if (!stat(path, &st))
		snprintf(be->identity + n, sizeof be->identity - n, ", plugin %lld %lld", (long long)st.st_size,
		         (long long)st.st_mtime);
}

int plugin_cuda_open(struct backend **out, const struct backend_options *opt, char err[160])
{
	char path[PATH_MAX];
	void *lib;
	union {
		void *sym;
		open_fn *fn;
		/* convert the pointer of dlsym(): ISO C has no cast from an object pointer to a function pointer */
	} door;

	*out = NULL;
	err[0] = 0;
	if (plugin_find(path, err) || (!plugin_is_named() && !driver_is_there(err)))
		return -1;
	lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!lib) {
		load_error_explain(path, dlerror(), err);
		return -1;
	}
	door.sym = dlsym(lib, "weir_cuda_open");
	if (!door.sym) {
		snprintf(err, 160, "'%.90s' is no plugin of weir: it has no weir_cuda_open", path_tail(path, 90));
		return -1;
	}
	if (door.fn(out, opt, BACKEND_ABI, err) < 0)
		return -1;
	identity_add(*out, path);
	return 0;
}
#endif
