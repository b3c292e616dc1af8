/* kernels/cpu/avx2.c - the AVX2 level (AVX2, FMA, F16C, BMI2): its table.
 *
 * Products with packed weights are in avx2_matmul.c; everything else is written once for all vector levels, over the
 * lanes of lanes.h, and compiled here as this level. These files are compiled with the level's -m flags and nothing
 * else may be: every function here is static or named avx2_*, so that no AVX2 code can stand in for a baseline function
 * at link time. */
#include "kernels/cpu/fns.h"

#if defined(__x86_64__) && !defined(WEIR_NO_SIMD)
#include "kernels/cpu/avx2.h"
#include "kernels/cpu/simd.h"

const struct cpu_fns cpu_fns_avx2 = {
	SIMD_FNS,
	.name = "avx2",
	.panel = LANES,
	.pack_bytes = avx2_pack_bytes,
	.pack = avx2_pack,
	.format = avx2_format,
	.widths = avx2_widths,
	.matmul_panels = avx2_matmul_panels,
	.multiply = avx2_multiply,
};
#else
typedef int weir_no_avx2; /* a C file must hold something */
#endif
