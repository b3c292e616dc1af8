/* tests/cuda/fake_runtime/cuda_runtime.h - the part of the CUDA runtime that kernels/cuda/gpu_cuda*.cu use,
 * simulated by tests/cuda/cuda_fake.cc.
 *
 * The work of a stream is done as late as the runtime allows, which is when the host waits for it. */
#ifndef WEIR_FAKE_CUDA_RUNTIME_H
#define WEIR_FAKE_CUDA_RUNTIME_H

#include "tests/cuda/emulator/host.cuh"

#define CUDART_VERSION 13000
enum cudaError_t {
	cudaSuccess = 0,
	cudaErrorInvalidValue = 1,
	cudaErrorMemoryAllocation = 2,
	cudaErrorInsufficientDriver = 35,
	cudaErrorNoDevice = 100,
	cudaErrorInvalidDeviceFunction = 98,
	cudaErrorNoKernelImageForDevice = 209,
	cudaErrorInvalidPtx = 218,
	cudaErrorUnsupportedPtxVersion = 222,
	cudaErrorNotReady = 600,
	cudaErrorIllegalAddress = 700
};
enum { cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2 };
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDefault = 4 };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
struct cudaDeviceProp {
	char name[256];
	int major, minor, multiProcessorCount;
	size_t sharedMemPerBlockOptin, totalGlobalMem;
};
struct cudaFuncAttributes {
	int numRegs;
};
struct cudaKernelNodeParams {
	void *func;
	dim3 gridDim, blockDim;
	unsigned sharedMemBytes;
	void **kernelParams, **extra;
};
typedef struct fake_stream *cudaStream_t;
typedef struct fake_event *cudaEvent_t;
typedef struct fake_graph *cudaGraph_t;
typedef struct fake_exec *cudaGraphExec_t;
typedef struct fake_node *cudaGraphNode_t;

cudaError_t cudaGetLastError(void);
const char *cudaGetErrorName(cudaError_t);
const char *cudaGetErrorString(cudaError_t);
cudaError_t cudaDriverGetVersion(int *);
cudaError_t cudaRuntimeGetVersion(int *);
cudaError_t cudaGetDeviceCount(int *);
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *, int);
cudaError_t cudaSetDevice(int);
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *, const void *fn);
cudaError_t cudaFuncSetAttribute(const void *fn, enum cudaFuncAttribute, int);
cudaError_t cudaMalloc(void **, size_t);
cudaError_t cudaFree(void *);
cudaError_t cudaMallocHost(void **, size_t);
cudaError_t cudaFreeHost(void *);
cudaError_t cudaMemGetInfo(size_t *available, size_t *total);
cudaError_t cudaMemsetAsync(void *, int, size_t, cudaStream_t);
cudaError_t cudaMemcpyAsync(void *, const void *, size_t, enum cudaMemcpyKind, cudaStream_t);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *, unsigned);
cudaError_t cudaStreamDestroy(cudaStream_t);
cudaError_t cudaStreamQuery(cudaStream_t);
cudaError_t cudaStreamSynchronize(cudaStream_t);
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *, unsigned);
cudaError_t cudaEventDestroy(cudaEvent_t);
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t);
cudaError_t cudaEventSynchronize(cudaEvent_t);
cudaError_t cudaLaunchKernel(const void *fn, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t);
cudaError_t cudaGraphCreate(cudaGraph_t *, unsigned);
cudaError_t cudaGraphDestroy(cudaGraph_t);
cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *after, size_t n,
                                   const struct cudaKernelNodeParams *);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *, cudaGraph_t, unsigned long long);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t);
cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t, cudaGraphNode_t, const struct cudaKernelNodeParams *);
cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t);

#endif
