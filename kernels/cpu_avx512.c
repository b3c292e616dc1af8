/* kernels/cpu_avx512.c - the AVX-512 level (F, BW, VL, DQ, VNNI): its table.
 *
 * Products are in cpu_avx512_matmul.c; everything else is written once for all vector levels, over the lanes of
 * cpu_lanes.h, and compiled here as this level.  These files are compiled with the level's -m flags and nothing else may
 * be: every function here is static or named avx512_*, so that no AVX-512 code can stand in for a baseline function at link
 * time. */
#include "kernels/cpu_fns.h"

#if defined(__x86_64__) && !defined(WEIR_NO_SIMD)
#include "kernels/cpu_avx512.h"
#include "kernels/cpu_simd_attn.h"
#include "kernels/cpu_simd_choose.h"
#include "kernels/cpu_simd_probe.h"
#include "kernels/cpu_simd_rows.h"

static const struct cpu_fns fns = {
	.name = "avx512",
	.panel = LANES,
	.pack_bytes = avx512_pack_bytes,
	.pack = avx512_pack,
	.wants_q8 = wants_q8,
	.quantize = quantize,
	.format = avx512_format,
	.widths = avx512_widths,
	.matmul_panels = avx512_matmul_panels,
	.matmul_rows = avx512_matmul_rows,
	.rmsnorm = rmsnorm,
	.silu_mul = silu_mul,
	.rope = rope,
	.to_f16 = to_f16,
	.attn_scratch = attn_scratch,
	.attn = attn,
	.attn_merge = attn_merge,
	.probe_mass = probe_mass,
	.probe_share = probe_share,
	.probe_above = probe_above,
	.choose = &choose,
	.read_sum = read_sum,
	.multiply = avx512_multiply,
};

const struct cpu_fns *cpu_fns_avx512(void)
{
	__builtin_cpu_init();
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
	       __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vnni") ? &fns : NULL;
}
#else
const struct cpu_fns *cpu_fns_avx512(void)
{
	return NULL;
}
#endif
