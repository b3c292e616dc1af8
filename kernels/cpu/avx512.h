/* kernels/cpu/avx512.h (private to kernels/cpu/avx512*.c) - products at the AVX-512 level. */
#ifndef WEIR_CPU_AVX512_H
#define WEIR_CPU_AVX512_H

#include <stddef.h>
#include <stdint.h>
#include "kernels/cpu/fns.h"

size_t avx512_pack_bytes(enum dtype, int32_t cols);
void avx512_pack(enum dtype, void *panel, const void *rows, size_t row_bytes, int32_t n_rows, int32_t cols);
uint64_t avx512_multiply(int32_t rounds);
extern const uint8_t avx512_widths[];
struct pack_format avx512_format(enum dtype);
void avx512_matmul_panels(enum dtype, const void *panels, int32_t n, const struct cols *, float *out, int32_t ldo);

#endif
