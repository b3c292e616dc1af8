/* engine/gpu.c - describes the GPU, and decides by a check whether its results can be trusted. */
#include <stdio.h>
#include <string.h>

#include "engine/engine_private.h"
#include "engine/engine_machine.h"
#include "kernels/device_check.h"

int gpu_check(struct backend *be, const struct gpu_checks *checks, int again, char why[160])
{
	char gpu[240];
	int rc;

	why[0] = 0;
	if (!checks)
		return 0;
	snprintf(gpu, sizeof gpu, "weir " WEIR_VERSION ", %s", be->identity);
	rc = again ? -1 : checks->find(gpu, why);
	if (rc >= 0)
		return rc ? 0 : -1;
	rc = device_check(be, why);
	/* store the result only if the check was completed; a check that other programs interrupted, for example by
	 * filling the GPU's memory, runs again next time */
	if (rc >= 0 && checks->keep)
		checks->keep(gpu, rc ? why : NULL);
	return rc ? -1 : 0;
}

int engine_gpu(struct engine_gpu *g, const struct gpu_checks *checks)
{
	struct backend *be;

	memset(g, 0, sizeof *g);
	if (backend_open(&be, "cuda", NULL, g->text))
		return -1;
	be->ops->describe(be, g->text, sizeof g->text);
	be->ops->memory(be, &g->available, &g->total);
	gpu_check(be, checks, 1, g->check);
	be->ops->close(be);
	return 0;
}
