/* kernels/plugin.h (private to kernels/) - opening the CUDA backend, which lives in a library of its own. */
#ifndef WEIR_PLUGIN_H
#define WEIR_PLUGIN_H

#include "kernels/backend.h"

/* 0, or -1 with one sentence in err: the plugin is missing, broken or of another build, or the plugin's own reason (no
 * driver, no device, a device too old). */
int plugin_cuda_open(struct backend **out, const struct backend_options *, char err[160]);

#endif
