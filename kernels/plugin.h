/* kernels/plugin.h (private to kernels/) - opens the CUDA backend, which is in a plugin. */
#ifndef WEIR_PLUGIN_H
#define WEIR_PLUGIN_H

#include "kernels/backend.h"

/* Open the CUDA backend. Return 0, or -1 with one sentence in err. Reasons are: the plugin is missing, broken or from
 * another build; there is no driver or no device; the device is too old. */
int plugin_cuda_open(struct backend **out, const struct backend_options *, char err[160]);

#endif
