/* kernels/cpu/avx512.c - the CPU backend's arithmetic for AVX-512 (F, BW, VL, DQ, VNNI): the table of leaf functions
 * (fns.h). Only this file is compiled with -mavx512f and similar flags. Every function in this file is static. So the
 * linker cannot use AVX-512 code from this file in the rest of the program, which must run without AVX-512. */
#include "kernels/cpu/fns.h"

#if defined(__x86_64__) && !defined(WEIR_NO_SIMD)
#include "kernels/cpu/simd.h"

const struct cpu_fns cpu_fns_avx512 = { SIMD_FNS, .name = "avx512" };
#else
/* ISO C does not allow an empty file, so a build without AVX-512 declares this unused type */
typedef int weir_no_avx512;
#endif
