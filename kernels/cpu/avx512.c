/* kernels/cpu/avx512.c - the AVX-512 level (F, BW, VL, DQ, VNNI): its table.
 *
 * Products with packed weights are in avx512_matmul.c; everything else is written once for all vector levels, over the
 * lanes of lanes.h, and compiled here as this level. These files are compiled with the level's -m flags and nothing
 * else may be: every function here is static or named avx512_*, so that no AVX-512 code can stand in for a baseline
 * function at link time. */
#include "kernels/cpu/fns.h"

#if defined(__x86_64__) && !defined(WEIR_NO_SIMD)
#include "kernels/cpu/avx512.h"
#include "kernels/cpu/simd.h"

const struct cpu_fns cpu_fns_avx512 = {
	SIMD_FNS,
	.name = "avx512",
	.panel = LANES,
	.pack_bytes = avx512_pack_bytes,
	.pack = avx512_pack,
	.format = avx512_format,
	.widths = avx512_widths,
	.matmul_panels = avx512_matmul_panels,
	.multiply = avx512_multiply,
};
#else
typedef int weir_no_avx512; /* a C file must hold something */
#endif
