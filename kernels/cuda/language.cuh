/* kernels/cuda/language.cuh (private to kernels/cuda/) - the dialect of C++ that kernels are written in.
 *
 * A kernel file compiles with nvcc for a device, and with any C++17 compiler for the emulator of the tests. The build
 * names the emulator's header in WEIR_CUDA_EMULATOR (tests/cuda/emulator/host.cuh). The emulator runs blocks on the
 * processor. It runs one thread of a block after another, each until the next barrier. So index arithmetic, barriers
 * and results are tested without a GPU (tests/cuda/t_cuda_*.c). Rules that make both work:
 *
 * - A kernel takes one argument, a plain struct by value of at most 1 KiB: __global__ void name(struct name_args
 *   a).
 * - Only cuda_launch() (cuda.cuh) starts a kernel, never <<< >>>.
 * - Shared memory of a fixed size: SHARED(type, name, [N]). Dynamic shared memory, once per kernel:
 *   SHARED_DYNAMIC(type, name).
 * - Threads of a warp communicate by *_sync operations only, with full masks where possible.
 * - Every live thread of a block reaches the same __syncthreads(); every lane of a mask reaches the same *_sync.
 * - Code for the device only (inline PTX, mma) is in a small function, and an equivalent in plain C++ is under #ifndef
 *   __CUDACC__. */
#ifndef WEIR_CUDA_LANGUAGE_CUH
#define WEIR_CUDA_LANGUAGE_CUH

#ifdef __CUDACC__
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#define SHARED(type, name, size) __shared__ type name size
#define SHARED_DYNAMIC(type, name)                                                                                     \
	extern __shared__ __align__(16) unsigned char shared_bytes[];                                                  \
	type *name = (type *)shared_bytes
#elif defined(WEIR_CUDA_EMULATOR)
#include WEIR_CUDA_EMULATOR
#else
#error "compile with nvcc, or name the emulator's header in WEIR_CUDA_EMULATOR"
#endif

enum { WARP = 32 };
#define FULL_WARP 0xffffffffu

static __device__ inline float warp_sum(float x)
{
	for (int d = WARP / 2; d > 0; d /= 2)
		x += __shfl_xor_sync(FULL_WARP, x, d);
	return x;
}

static __device__ inline float warp_max(float x)
{
	for (int d = WARP / 2; d > 0; d /= 2)
		x = fmaxf(x, __shfl_xor_sync(FULL_WARP, x, d));
	return x;
}

#endif
