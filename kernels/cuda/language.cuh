/* kernels/cuda/language.cuh (private to kernels/cuda/) - the dialect of C++ that kernels are written in.
 *
 * A kernel file compiles with nvcc for a device, and with any C++17 compiler for the emulator that tests use: the
 * header that the build names in WEIR_CUDA_EMULATOR (tests/cuda/emulator/host.cuh) runs blocks on the processor, one
 * thread of a block after the other up to the next barrier. So index arithmetic, barriers and results are tested where
 * there is no GPU (tests/t_cuda_*.c). Rules that make both work:
 *
 *   - a kernel takes one argument, a plain struct by value, at most 1 KiB: __global__ void name(struct name_args a);
 *   - it is started by cuda_launch() alone (cuda.cuh), never by <<< >>>;
 *   - shared memory: SHARED(type, name, [N]) of a fixed size, and one dynamic piece by SHARED_DYNAMIC(type, name);
 *   - threads of a warp talk by the *_sync operations and by nothing else (full masks where possible); every thread of a block
 *     that is alive reaches the same __syncthreads(), every lane of a mask the same *_sync;
 *   - what only the device has (inline PTX, mma) stands behind a small function with a plain twin under #ifndef __CUDACC__. */
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
