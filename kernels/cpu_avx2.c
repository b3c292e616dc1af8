/* kernels/cpu_avx2.c - the AVX2 level (AVX2, FMA, F16C, BMI2): its table.
 *
 * Products are in cpu_avx2_matmul.c; everything else is written once for all vector levels, over the lanes of
 * cpu_lanes.h, and compiled here as this level.  These files are compiled with the level's -m flags and nothing else may
 * be: every function here is static or named avx2_*, so that no AVX2 code can stand in for a baseline function at link
 * time. */
#include "kernels/cpu_fns.h"

#if defined(__x86_64__) && !defined(WEIR_NO_SIMD)
#include <cpuid.h>
#include "kernels/cpu_avx2.h"
#include "kernels/cpu_simd.h"

static const struct cpu_fns fns = {
	SIMD_FNS,
	.name = "avx2",
	.pack_bytes = avx2_pack_bytes,
	.pack = avx2_pack,
	.format = avx2_format,
	.widths = avx2_widths,
	.matmul_panels = avx2_matmul_panels,
	.matmul_rows = avx2_matmul_rows,
	.multiply = avx2_multiply,
};

const struct cpu_fns *cpu_fns_avx2(void)
{
	unsigned a, b, c = 0, d;

	/* F16C by hand: compilers disagree on whether __builtin_cpu_supports knows it. */
	__builtin_cpu_init();
	return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C) && __builtin_cpu_supports("avx2") &&
	       __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2") ? &fns : NULL;
}
#else
const struct cpu_fns *cpu_fns_avx2(void)
{
	return NULL;
}
#endif
