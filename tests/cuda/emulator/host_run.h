/* tests/cuda/emulator/host_run.h (private to tests/) - runs one launch on the host (host_run.cc), for gpu_host.cc. */
#ifndef WEIR_CUDA_HOST_RUN_H
#define WEIR_CUDA_HOST_RUN_H

#include "kernels/cuda/gpu.h"

enum { HOST_SHARED_MAX = 227 << 10, HOST_SHARED_STATIC = 48 << 10, HOST_THREADS_MAX = 1024 };

/* Run every block of a launch. order: as in gpu_host_order(). Returns 0, or -1 with the error and the source line in
 * err. */
int host_run(const struct gpu_launch *, const void *args, unsigned order, char err[160]);

#endif
