/* kernels/cpu/simd.h (private to the SIMD code) - includes the code that all SIMD instruction sets share, which uses
 * the vectors of lanes.h. This code is compiled once for each instruction set, with the compiler flags of that set. */
#ifndef WEIR_CPU_SIMD_H
#define WEIR_CPU_SIMD_H

#include "kernels/cpu/simd_attn.h"
#include "kernels/cpu/simd_attn_prompt.h"
#include "kernels/cpu/simd_select.h"
#include "kernels/cpu/simd_probe.h"
#include "kernels/cpu/simd_rows.h"
#include "kernels/cpu/simd_conv.h"
#include "kernels/cpu/simd_gemm.h"
#include "kernels/cpu/simd_float.h"
#include "kernels/cpu/simd_matmul.h"

/* All entries of struct cpu_fns except the name. */
#define SIMD_FNS                                                                                                       \
	.matmul_rows = matmul_rows, .wants_q8 = wants_q8, .quantize = quantize, .rmsnorm = rmsnorm, .glu = glu,        \
	.layernorm = layernorm, .gelu = gelu, .delta = delta, .rope = rope, .score_unit = SCORE_UNIT,                  \
	.to_f16 = to_f16, .attn_scratch = attn_scratch, .attn = attn, .attn_merge = attn_merge, .relative = relative,  \
	.probe_mass = probe_mass, .probe_share = probe_share, .probe_above = probe_above, .select = &select_fns,       \
	.read_sum = read_sum, .conv = conv, .conv_grad = conv_grad, .gemm_tile = gemm_tile, .gemm_rows = GEMM_ROWS,    \
	.gemm_cols = GEMM_COLS, MATMUL_FNS ATTN_PROMPT_FNS
#if PAIRS
#define ATTN_PROMPT_FNS , .attn_prompt = attn_prompt, .attn_prompt_scratch = attn_prompt_scratch
#else
#define ATTN_PROMPT_FNS
#endif

#endif
