/* kernels/cpu/neon_dot.c - NEON with instructions for dot products of bytes: the same level compiled with them.
 *
 * The Makefile gives this file flags that no other has, so every function in it is static. */
#include "kernels/cpu/fns.h"

#if defined(__aarch64__) && defined(__ARM_FEATURE_DOTPROD) && !defined(WEIR_NO_SIMD)
#include "kernels/cpu/simd.h"

const struct cpu_fns cpu_fns_neon_dot = { SIMD_FNS, .name = "neon-dot" };
#else
typedef int weir_no_neon_dot; /* a C file must hold something */
#endif
