/* kernels/cpu/avx2.c - the CPU backend's arithmetic for AVX2 (with FMA, F16C, BMI2): the table of leaf functions
 * (fns.h). Only this file is compiled with -mavx2 and similar flags. Every function in this file is static. So the
 * linker cannot use AVX2 code from this file in the rest of the program, which must run without AVX2. */
#include "kernels/cpu/fns.h"

#if defined(__x86_64__) && !defined(WEIR_NO_SIMD)
#include "kernels/cpu/simd.h"

const struct cpu_fns cpu_fns_avx2 = { SIMD_FNS, .name = "avx2" };
#else
typedef int weir_no_avx2; /* ISO C does not allow an empty file, so a build without AVX2 declares this unused type */
#endif
