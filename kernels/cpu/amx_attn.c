/* kernels/cpu/amx_attn.c - attention of prompts at the CPU level amx. It is the attention of avx512
 * (simd_attn_prompt.h), except that AMX computes the products of 16-bit integers, each as four products of bytes. The
 * sums are exact, so results have the same bits. */
#include "kernels/cpu/amx.h"

#if defined(WEIR_AMX) && !defined(WEIR_NO_SIMD)
#define PLANES 1
#include "kernels/cpu/simd_attn_prompt.h"

/* Return the size of the scratch memory in floats. The memory has N_RUN spare rows, because AMX reads N_RUN rows of
 * queries at a time, even if fewer are left. The sums of spare rows are not used. */
static size_t planes_scratch(int32_t head_dim, int32_t n_q)
{
	return attn_prompt_scratch(head_dim, n_q) + N_RUN * prompt_dim(head_dim) / 2;
}

static void planes_attn(const struct attn_tile *t)
{
	/* AMX computes N_RUN queries and 2 * PLANE_PAIRS dimensions at a time. If there are fewer queries, or head_dim
	 * is not a multiple, compute without AMX. */
	if (t->n_q < N_RUN || t->head_dim % (2 * PLANE_PAIRS)) {
		cpu_fns_avx512.attn_prompt(t);
		return;
	}
	planes_begin();
	attn_prompt(t);
	tiles_end();
}

/* Multiply pseudo-random pairs. Return 1 if all sums equal sums computed in plain C. */
static int planes_right(void)
{
	int32_t a[N_RUN][PLANE_PAIRS], b[PLANE_PAIRS][LANES], want[N_RUN][LANES] = { 0 };
	vec_int sum[N_RUN][8];
	uint32_t x = 1;
	int right = 1;

	for (int j = 0; j < PLANE_PAIRS; j++) {
		for (int r = 0; r < N_RUN; r++)
			a[r][j] = (int32_t)(x = x * 1664525 + 1013904223);
		for (int c = 0; c < LANES; c++)
			b[j][c] = (int32_t)(x = x * 1664525 + 1013904223);
		for (int r = 0; r < N_RUN; r++)
			for (int c = 0; c < LANES; c++)
				want[r][c] = (int32_t)((uint32_t)want[r][c] +
				                       (uint32_t)((int16_t)a[r][j] * (int16_t)b[j][c]) +
				                       (uint32_t)((a[r][j] >> 16) * (b[j][c] >> 16)));
	}
	planes_begin();
	for (int r = 0; r < N_RUN; r++)
		planes_of_row((float *)a[r], PLANE_PAIRS);
	planes_of_columns((float *)b[0], PLANE_PAIRS, LANES);
	pairs_times(N_RUN, 1, PLANE_PAIRS, a[0], PLANE_PAIRS, (const float *)b[0], LANES, sum);
	tiles_end();
	for (int r = 0; r < N_RUN; r++)
		right &= !memcmp(&sum[r][0], want[r], sizeof want[r]);
	return right;
}

const struct amx_attn amx_attn = { planes_scratch, planes_attn, planes_right };
#else
typedef int weir_no_amx_attn; /* ISO C does not allow an empty file, so a build without AMX declares this unused type */
#endif
