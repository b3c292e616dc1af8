/* kernels/cpu/neon_dot.c - the table of leaf functions (fns.h) for NEON with dot products of bytes. Only this file is
 * compiled with the flags for dot products. Every function in this file is static. So the linker cannot use code from
 * this file in the rest of the program, which must run without these instructions. */
#include "kernels/cpu/fns.h"

#if defined(__aarch64__) && defined(__ARM_FEATURE_DOTPROD) && !defined(WEIR_NO_SIMD)
#include "kernels/cpu/simd.h"

const struct cpu_fns cpu_fns_neon_dot = { SIMD_FNS, .name = "neon-dot" };
#else
/* ISO C does not allow an empty file, so a build without dot products declares this unused type */
typedef int weir_no_neon_dot;
#endif
