/* kernels/cpu_avx512.c - the AVX-512 level (F, BW, VL, DQ, VNNI): its table and the small leaves.
 *
 * Products are in cpu_avx512_matmul.c, attention in cpu_avx512_attn.c.  These files are compiled with the level's
 * -m flags and nothing else may be: every function here is static or named avx512_*, so that no AVX-512 code can
 * stand in for a baseline function at link time. */
#include "kernels/cpu_fns.h"

#if defined(__x86_64__) && !defined(WEIR_NO_SIMD)
#include <math.h>
#include "kernels/cpu_avx512.h"
#include "kernels/cpu_choose.h"

static __mmask16 lanes(int32_t n)
{
	return n >= 16 ? 0xffff : (__mmask16)((1u << n) - 1);
}

static int wants_q8(enum dtype type)
{
	return type != DT_F32 && type != DT_F16 && type != DT_BF16;
}

/* Sums of 16 signed bytes each. */
static void half_sums(int32_t out[2], __m256i v)
{
	__m256i s = _mm256_sad_epu8(_mm256_xor_si256(v, _mm256_set1_epi8((char)0x80)), _mm256_setzero_si256());

	s = _mm256_add_epi64(s, _mm256_shuffle_epi32(s, 0x4e));
	out[0] = _mm_cvtsi128_si32(_mm256_castsi256_si128(s)) - 16 * 128;
	out[1] = _mm_cvtsi128_si32(_mm256_extracti128_si256(s, 1)) - 16 * 128;
}

static int32_t sum_of_squares(__m256i v)
{
	__m256i size = _mm256_abs_epi8(v), s = _mm256_dpbusd_epi32(_mm256_setzero_si256(), size, size);
	__m128i t = _mm_add_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));

	t = _mm_add_epi32(t, _mm_shuffle_epi32(t, 0x4e));
	return _mm_cvtsi128_si32(_mm_add_epi32(t, _mm_shuffle_epi32(t, 0xb1)));
}

static __m256i bytes32(__m512i a, __m512i b)
{
	return _mm256_set_m128i(_mm512_cvtepi32_epi8(b), _mm512_cvtepi32_epi8(a));
}

/* Same bits as the C level.  The largest magnitude is found on the bit patterns, where infinities and NaNs are
 * the largest of all: such a block gets the scale NaN and zeros. */
static void quantize(const struct act *a, int32_t row)
{
	const __m512i magnitude = _mm512_set1_epi32(0x7fffffff), most = _mm512_set1_epi32(127);
	size_t blocks = (size_t)a->cols / 32;

	for (size_t b = (size_t)row * blocks, end = b + blocks; b < end; b++) {
		__m512 x[2] = { _mm512_loadu_ps(a->x + b * 32), _mm512_loadu_ps(a->x + b * 32 + 16) };
		uint32_t top = _mm512_reduce_max_epu32(_mm512_max_epu32(_mm512_and_si512(_mm512_castps_si512(x[0]), magnitude),
		                                                        _mm512_and_si512(_mm512_castps_si512(x[1]), magnitude)));
		float scale = _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128((int)top))) / 127.0f, inv;
		__m256i q8, lo8 = _mm256_setzero_si256();
		__m512i q[2];
		int32_t squares;

		/* Below the normal range 1 / scale overflows; such a block is nothing but zeros to any sum. */
		if (scale < 1.17549435e-38f)
			scale = 0;
		inv = scale > 0 ? 1.0f / scale : 0;
		for (int h = 0; h < 2; h++) {
			x[h] = _mm512_mul_ps(x[h], _mm512_set1_ps(inv));
			q[h] = _mm512_cvtps_epi32(x[h]);
		}
		if (top >= 0x7f800000) {
			scale = NAN;
			q[0] = q[1] = _mm512_setzero_si512();
		}
		q8 = bytes32(q[0], q[1]);
		half_sums(a->sum + 2 * b, q8);
		squares = sum_of_squares(q8);
		a->d[b] = scale;
		a->wide[b] = squares > 0 && (a->all_wide || squares < ACT_WIDE_BELOW);
		a->lo_sum[2 * b] = a->lo_sum[2 * b + 1] = 0;
		if (a->wide[b]) {
			__m512i lo[2];

			for (int h = 0; h < 2; h++) {
				__m512 rest = _mm512_sub_ps(x[h], _mm512_cvtepi32_ps(q[h]));

				lo[h] = _mm512_cvtps_epi32(_mm512_mul_ps(rest, _mm512_set1_ps(256)));
				lo[h] = _mm512_max_epi32(_mm512_min_epi32(lo[h], most), _mm512_sub_epi32(_mm512_setzero_si512(), most));
			}
			lo8 = bytes32(lo[0], lo[1]);
			half_sums(a->lo_sum + 2 * b, lo8);
		}
		_mm256_storeu_si256((void *)(a->q + b * 32), q8);
		_mm256_storeu_si256((void *)(a->lo + b * 32), lo8);
	}
}

/* The sum of squares in double: it cannot overflow, and the order of a sum hardly matters there. */
static void rmsnorm(float *out, const float *x, const float *w, int32_t n, float eps)
{
	__m512d s0 = _mm512_setzero_pd(), s1 = s0;
	__m512 scale;

	for (int32_t i = 0; i < n; i += 16) {
		__m512 v = _mm512_maskz_loadu_ps(lanes(n - i), x + i);
		__m512d a = _mm512_cvtps_pd(_mm512_castps512_ps256(v)), b = _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1));

		s0 = _mm512_fmadd_pd(a, a, s0);
		s1 = _mm512_fmadd_pd(b, b, s1);
	}
	scale = _mm512_set1_ps((float)(1.0 / sqrt(_mm512_reduce_add_pd(_mm512_add_pd(s0, s1)) / n + eps)));
	for (int32_t i = 0; i < n; i += 16) {
		__mmask16 mask = lanes(n - i);
		__m512 v = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, x + i), scale);

		_mm512_mask_storeu_ps(out + i, mask, _mm512_mul_ps(v, _mm512_maskz_loadu_ps(mask, w + i)));
	}
}

/* silu(g) = g / (1 + exp(-g)), with exp of negative numbers only: it cannot overflow, so large negative g fade out
 * through the small numbers as they should. */
static void silu_mul(float *gate, const float *up, int32_t n)
{
	for (int32_t i = 0; i < n; i += 16) {
		__mmask16 mask = lanes(n - i);
		__m512 g = _mm512_maskz_loadu_ps(mask, gate + i);
		__m512 one = _mm512_set1_ps(1.0f), e = avx512_exp(_mm512_or_ps(g, _mm512_set1_ps(-0.0f)));
		__m512 num = _mm512_mask_mul_ps(g, _mm512_movepi32_mask(_mm512_castps_si512(g)), g, e);
		__m512 s = _mm512_div_ps(num, _mm512_add_ps(one, e));

		_mm512_mask_storeu_ps(gate + i, mask, _mm512_mul_ps(s, _mm512_maskz_loadu_ps(mask, up + i)));
	}
}

/* Pairs (2 j, 2 j + 1) lie side by side: swap them for the sine's part. */
static void rope_adjacent(float *x, const float *table, int32_t dims)
{
	for (int32_t i = 0; i < dims; i += 16) {
		__mmask16 mask = lanes(dims - i);
		__m512 v = _mm512_maskz_loadu_ps(mask, x + i), t = _mm512_maskz_loadu_ps(mask, table + i);
		__m512 swapped = _mm512_permute_ps(v, 0xb1);

		v = _mm512_fmaddsub_ps(v, _mm512_moveldup_ps(t), _mm512_mul_ps(swapped, _mm512_movehdup_ps(t)));
		_mm512_mask_storeu_ps(x + i, mask, v);
	}
}

static void rope_halves(float *x, const float *table, int32_t half)
{
	const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
	const __m512i odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);

	for (int32_t j = 0; j < half; j += 16) {
		__mmask16 mask = lanes(half - j);
		__m512 t0 = _mm512_maskz_loadu_ps(lanes(2 * (half - j)), table + 2 * j);
		__m512 t1 = half - j > 8 ? _mm512_maskz_loadu_ps(lanes(2 * (half - j) - 16), table + 2 * j + 16) : t0;
		__m512 c = _mm512_permutex2var_ps(t0, even, t1), s = _mm512_permutex2var_ps(t0, odd, t1);
		__m512 a = _mm512_maskz_loadu_ps(mask, x + j), b = _mm512_maskz_loadu_ps(mask, x + half + j);

		_mm512_mask_storeu_ps(x + j, mask, _mm512_fmsub_ps(a, c, _mm512_mul_ps(b, s)));
		_mm512_mask_storeu_ps(x + half + j, mask, _mm512_fmadd_ps(b, c, _mm512_mul_ps(a, s)));
	}
}

static void rope(float *x, const float *table, int32_t heads, int32_t head_dim, int32_t dims, int neox)
{
	for (int32_t h = 0; h < heads; h++, x += head_dim)
		if (neox)
			rope_halves(x, table, dims / 2);
		else
			rope_adjacent(x, table, dims);
}

static void to_f16(uint16_t *out, const float *x, int32_t n)
{
	for (int32_t i = 0; i < n; i += 16) {
		__mmask16 mask = lanes(n - i);

		_mm256_mask_storeu_epi16(out + i, mask, _mm512_cvtps_ph(_mm512_maskz_loadu_ps(mask, x + i),
		                                                        _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
	}
}

static uint64_t read_sum(const void *p, size_t n)
{
	const uint64_t *w = p;
	size_t words = n / 8, i = 0;
	__m512i s0 = _mm512_setzero_si512(), s1 = s0, s2 = s0, s3 = s0;
	uint64_t s[8], sum = 0;

	for (; i + 32 <= words; i += 32) {
		s0 = _mm512_add_epi64(s0, _mm512_loadu_si512(w + i));
		s1 = _mm512_add_epi64(s1, _mm512_loadu_si512(w + i + 8));
		s2 = _mm512_add_epi64(s2, _mm512_loadu_si512(w + i + 16));
		s3 = _mm512_add_epi64(s3, _mm512_loadu_si512(w + i + 24));
	}
	s0 = _mm512_add_epi64(_mm512_add_epi64(s0, s1), _mm512_add_epi64(s2, s3));
	/* By hand: the compiler's own reduction adds as signed numbers, which may not overflow. */
	_mm512_storeu_si512(s, s0);
	for (int k = 0; k < 8; k++)
		sum += s[k];
	for (; i < words; i++)
		sum += w[i];
	return sum;
}

static const struct cpu_fns fns = {
	.name = "avx512",
	.panel = 16,
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
	.attn_scratch = avx512_attn_scratch,
	.attn = avx512_attn,
	.attn_merge = avx512_attn_merge,
	.probe_mass = avx512_probe_mass,
	.probe_share = avx512_probe_share,
	.probe_above = avx512_probe_above,
	.choose = &choose_fns_avx512,
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
