/* kernels/backend.c - opens a backend by its name. */
#include "kernels/backend.h"

#include <stdio.h>
#include <string.h>

#include "kernels/cpu/fns.h"
#include "kernels/plugin.h"

static const struct {
	const char *name;
	int (*open)(struct backend **, const struct backend_options *, char err[160]);
} backends[] = {
	{ "cpu", cpu_backend_open },
	{ "cuda", plugin_cuda_open },
};
enum { N_BACKENDS = LEN(backends) };

int backend_open(struct backend **out, const char *name, const struct backend_options *opt, char err[160])
{
	static const struct backend_options defaults;
	char names[64] = "";

	*out = NULL;
	err[0] = 0;
	/* With "auto", the reason why CUDA did not open is lost. A caller that must report the reason opens "cuda". */
	if (!strcmp(name, "auto"))
		return plugin_cuda_open(out, opt ? opt : &defaults, err) ? backend_open(out, "cpu", opt, err) : 0;
	for (int i = 0; i < N_BACKENDS; i++) {
		if (!strcmp(name, backends[i].name))
			return backends[i].open(out, opt ? opt : &defaults, err);
		snprintf(names + strlen(names), sizeof names - strlen(names), "%s'%s'", i ? ", " : "",
		         backends[i].name);
	}
	snprintf(err, 160, "unknown device '%.40s'; there are 'auto', %s", name, names);
	return -1;
}
