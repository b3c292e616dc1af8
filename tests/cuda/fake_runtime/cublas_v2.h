/* tests/cuda/fake_runtime/cublas_v2.h - the part of cuBLAS that kernels/cuda/gpu_cuda.cu uses (cuda_fake.cc). */
#ifndef WEIR_FAKE_CUBLAS_V2_H
#define WEIR_FAKE_CUBLAS_V2_H

#include <cuda_runtime.h>

enum cublasStatus_t { CUBLAS_STATUS_SUCCESS, CUBLAS_STATUS_ALLOC_FAILED = 3, CUBLAS_STATUS_INVALID_VALUE = 7 };
enum cublasOperation_t { CUBLAS_OP_N, CUBLAS_OP_T };
enum cublasMath_t { CUBLAS_DEFAULT_MATH = 0, CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION = 16 };
enum cudaDataType { CUDA_R_32F = 0, CUDA_R_16F = 2 };
enum cublasComputeType_t { CUBLAS_COMPUTE_32F = 68 };
enum cublasGemmAlgo_t { CUBLAS_GEMM_DEFAULT = -1 };
typedef struct fake_blas *cublasHandle_t;

cublasStatus_t cublasCreate(cublasHandle_t *);
cublasStatus_t cublasDestroy(cublasHandle_t);
cublasStatus_t cublasSetStream(cublasHandle_t, cudaStream_t);
cublasStatus_t cublasSetWorkspace(cublasHandle_t, void *, size_t);
cublasStatus_t cublasSetMathMode(cublasHandle_t, enum cublasMath_t);
const char *cublasGetStatusName(cublasStatus_t);
cublasStatus_t cublasGemmEx(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n, int k,
                            const void *alpha, const void *a, cudaDataType, int lda, const void *b, cudaDataType,
                            int ldb, const void *beta, void *c, cudaDataType, int ldc, cublasComputeType_t,
                            cublasGemmAlgo_t);

#endif
