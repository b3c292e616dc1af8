/* kernels/cpu/avx2.h (private to kernels/cpu/avx2*.c) - products at the AVX2 level. */
#ifndef WEIR_CPU_AVX2_H
#define WEIR_CPU_AVX2_H

#include <stddef.h>
#include <stdint.h>
#include "kernels/cpu/fns.h"

size_t avx2_pack_bytes(enum dtype, int32_t cols);
void avx2_pack(enum dtype, void *panel, const void *rows, size_t row_bytes, int32_t n_rows, int32_t cols);
uint64_t avx2_multiply(int32_t rounds);
extern const uint8_t avx2_widths[];
struct pack_format avx2_format(enum dtype);
void avx2_matmul_panels(enum dtype, const void *panels, int32_t n, const struct cols *, float *out, int32_t ldo);

#endif
