/* kernels/cpu/neon.c - the table of leaf functions (fns.h) for NEON, which every 64-bit ARM processor has. */
#include "kernels/cpu/fns.h"

#if defined(__aarch64__) && !defined(WEIR_NO_SIMD)
#include "kernels/cpu/simd.h"

const struct cpu_fns cpu_fns_neon = { SIMD_FNS, .name = "neon" };
#else
typedef int weir_no_neon; /* ISO C does not allow an empty file, so a build without NEON declares this unused type */
#endif
