/* kernels/cpu_avx2.c - the AVX2 level (AVX2, FMA, F16C, BMI2): its table and the small leaves.
 *
 * Products are in cpu_avx2_matmul.c, attention in cpu_avx2_attn.c.  These files are compiled with the level's -m
 * flags and nothing else may be: every function here is static or named avx2_*, so that no AVX2 code can stand in
 * for a baseline function at link time. */
#include "kernels/cpu_fns.h"

#if defined(__x86_64__) && !defined(WEIR_NO_SIMD)
#include <cpuid.h>
#include <math.h>
#include "kernels/cpu_avx2.h"
#include "kernels/cpu_choose.h"
#include "kernels/quant.h"

static int wants_q8(enum dtype type)
{
	return type != DT_F32 && type != DT_F16 && type != DT_BF16;
}

static uint32_t max_u32(__m256i x)
{
	__m128i m = _mm_max_epu32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));

	m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0x4e));
	return (uint32_t)_mm_cvtsi128_si32(_mm_max_epu32(m, _mm_shuffle_epi32(m, 0xb1)));
}

static int32_t sum_i32(__m256i x)
{
	__m128i s = _mm_add_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));

	s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
	return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
}

/* Same bits as the C level.  The largest magnitude is found on the bit patterns, where infinities and NaNs are
 * the largest of all: such a block gets the scale NaN and zeros. */
static void quantize(const struct act *a, int32_t row)
{
	const __m256i magnitude = _mm256_set1_epi32(0x7fffffff), most = _mm256_set1_epi32(127);
	const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
	size_t blocks = (size_t)a->cols / 32;

	for (size_t b = (size_t)row * blocks, end = b + blocks; b < end; b++) {
		const float *x = a->x + b * 32;
		__m256i top4 = _mm256_setzero_si256(), squares4 = top4, q[4], lo[4];
		__m256 v[4];
		uint32_t top;
		int32_t squares;
		float scale, inv;

		for (int i = 0; i < 4; i++)
			top4 = _mm256_max_epu32(top4, _mm256_and_si256(_mm256_castps_si256(_mm256_loadu_ps(x + 8 * i)),
			                                               magnitude));
		top = max_u32(top4);
		scale = _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128((int)top))) / 127.0f;
		/* Below the normal range 1 / scale overflows; such a block is nothing but zeros to any sum. */
		if (scale < 1.17549435e-38f)
			scale = 0;
		inv = scale > 0 ? 1.0f / scale : 0;
		for (int i = 0; i < 4; i++) {
			v[i] = _mm256_mul_ps(_mm256_loadu_ps(x + 8 * i), _mm256_set1_ps(inv));
			q[i] = top < 0x7f800000 ? _mm256_cvtps_epi32(v[i]) : _mm256_setzero_si256();
			lo[i] = _mm256_setzero_si256();
			squares4 = _mm256_add_epi32(squares4, _mm256_mullo_epi32(q[i], q[i]));
		}
		squares = sum_i32(squares4);
		a->wide[b] = squares > 0 && (a->all_wide || squares < ACT_WIDE_BELOW);
		for (int i = 0; i < 4 && a->wide[b]; i++) {
			__m256 rest = _mm256_sub_ps(v[i], _mm256_cvtepi32_ps(q[i]));

			lo[i] = _mm256_cvtps_epi32(_mm256_mul_ps(rest, _mm256_set1_ps(256)));
			lo[i] = _mm256_max_epi32(_mm256_min_epi32(lo[i], most), _mm256_sub_epi32(_mm256_setzero_si256(), most));
		}
		a->d[b] = top < 0x7f800000 ? scale : NAN;
		for (size_t h = 0; h < 2; h++) {
			a->sum[2 * b + h] = sum_i32(_mm256_add_epi32(q[2 * h], q[2 * h + 1]));
			a->lo_sum[2 * b + h] = sum_i32(_mm256_add_epi32(lo[2 * h], lo[2 * h + 1]));
		}
		q[0] = _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
		lo[0] = _mm256_packs_epi16(_mm256_packs_epi32(lo[0], lo[1]), _mm256_packs_epi32(lo[2], lo[3]));
		_mm256_storeu_si256((void *)(a->q + b * 32), _mm256_permutevar8x32_epi32(q[0], order));
		_mm256_storeu_si256((void *)(a->lo + b * 32), _mm256_permutevar8x32_epi32(lo[0], order));
	}
}

/* The sum of squares in double: it cannot overflow, and the order of a sum hardly matters there. */
static void rmsnorm(float *out, const float *x, const float *w, int32_t n, float eps)
{
	__m256d s0 = _mm256_setzero_pd(), s1 = s0;
	__m256 scale;
	double s[4];

	for (int32_t i = 0; i < n; i += 8) {
		__m256 v = _mm256_maskload_ps(x + i, avx2_lanes(n - i));
		__m256d a = _mm256_cvtps_pd(_mm256_castps256_ps128(v)), b = _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1));

		s0 = _mm256_fmadd_pd(a, a, s0);
		s1 = _mm256_fmadd_pd(b, b, s1);
	}
	_mm256_storeu_pd(s, _mm256_add_pd(s0, s1));
	scale = _mm256_set1_ps((float)(1.0 / sqrt(((s[0] + s[1]) + (s[2] + s[3])) / n + eps)));
	for (int32_t i = 0; i < n; i += 8) {
		__m256i mask = avx2_lanes(n - i);
		__m256 v = _mm256_mul_ps(_mm256_maskload_ps(x + i, mask), scale);

		_mm256_maskstore_ps(out + i, mask, _mm256_mul_ps(v, _mm256_maskload_ps(w + i, mask)));
	}
}

/* silu(g) = g / (1 + exp(-g)), with exp of negative numbers only: it cannot overflow, so large negative g fade out
 * through the small numbers as they should. */
static void silu_mul(float *gate, const float *up, int32_t n)
{
	for (int32_t i = 0; i < n; i += 8) {
		__m256i mask = avx2_lanes(n - i);
		__m256 g = _mm256_maskload_ps(gate + i, mask), one = _mm256_set1_ps(1.0f);
		__m256 e = avx2_exp(_mm256_or_ps(g, _mm256_set1_ps(-0.0f)));
		__m256 s = _mm256_div_ps(_mm256_blendv_ps(g, _mm256_mul_ps(g, e), g), _mm256_add_ps(one, e));

		_mm256_maskstore_ps(gate + i, mask, _mm256_mul_ps(s, _mm256_maskload_ps(up + i, mask)));
	}
}

/* Pairs (2 j, 2 j + 1) lie side by side: swap them for the sine's part. */
static void rope_adjacent(float *x, const float *table, int32_t dims)
{
	for (int32_t i = 0; i < dims; i += 8) {
		__m256i mask = avx2_lanes(dims - i);
		__m256 v = _mm256_maskload_ps(x + i, mask), t = _mm256_maskload_ps(table + i, mask);
		__m256 swapped = _mm256_permute_ps(v, 0xb1);

		v = _mm256_fmaddsub_ps(v, _mm256_moveldup_ps(t), _mm256_mul_ps(swapped, _mm256_movehdup_ps(t)));
		_mm256_maskstore_ps(x + i, mask, v);
	}
}

/* Every second float of t0, t1 from the first (which = 0x88) or the second (0xdd). */
#define SECOND(t0, t1, which) _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(_mm256_shuffle_ps(t0, t1, which)), 0xd8))

static void rope_halves(float *x, const float *table, int32_t half)
{
	for (int32_t j = 0; j < half; j += 8) {
		__m256i mask = avx2_lanes(half - j);
		__m256 t0 = _mm256_maskload_ps(table + 2 * j, avx2_lanes(2 * (half - j)));
		__m256 t1 = half - j > 4 ? _mm256_maskload_ps(table + 2 * j + 8, avx2_lanes(2 * (half - j) - 8)) : t0;
		__m256 c = SECOND(t0, t1, 0x88), s = SECOND(t0, t1, 0xdd);
		__m256 a = _mm256_maskload_ps(x + j, mask), b = _mm256_maskload_ps(x + half + j, mask);

		_mm256_maskstore_ps(x + j, mask, _mm256_fmsub_ps(a, c, _mm256_mul_ps(b, s)));
		_mm256_maskstore_ps(x + half + j, mask, _mm256_fmadd_ps(b, c, _mm256_mul_ps(a, s)));
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
	int32_t i = 0;

	for (; i + 8 <= n; i += 8)
		_mm_storeu_si128((void *)(out + i), _mm256_cvtps_ph(_mm256_loadu_ps(x + i),
		                                                    _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
	for (; i < n; i++)
		out[i] = f32_to_f16(x[i]);
}

static uint64_t read_sum(const void *p, size_t n)
{
	const uint64_t *w = p;
	size_t words = n / 8, i = 0;
	__m256i s0 = _mm256_setzero_si256(), s1 = s0, s2 = s0, s3 = s0;
	uint64_t s[4], sum;

	for (; i + 16 <= words; i += 16) {
		s0 = _mm256_add_epi64(s0, _mm256_loadu_si256((const void *)(w + i)));
		s1 = _mm256_add_epi64(s1, _mm256_loadu_si256((const void *)(w + i + 4)));
		s2 = _mm256_add_epi64(s2, _mm256_loadu_si256((const void *)(w + i + 8)));
		s3 = _mm256_add_epi64(s3, _mm256_loadu_si256((const void *)(w + i + 12)));
	}
	_mm256_storeu_si256((void *)s, _mm256_add_epi64(_mm256_add_epi64(s0, s1), _mm256_add_epi64(s2, s3)));
	sum = s[0] + s[1] + s[2] + s[3];
	for (; i < words; i++)
		sum += w[i];
	return sum;
}

static const struct cpu_fns fns = {
	.name = "avx2",
	.panel = 8,
	.pack_bytes = avx2_pack_bytes,
	.pack = avx2_pack,
	.wants_q8 = wants_q8,
	.quantize = quantize,
	.format = avx2_format,
	.widths = avx2_widths,
	.matmul_panels = avx2_matmul_panels,
	.matmul_rows = avx2_matmul_rows,
	.rmsnorm = rmsnorm,
	.silu_mul = silu_mul,
	.rope = rope,
	.to_f16 = to_f16,
	.attn_scratch = avx2_attn_scratch,
	.attn = avx2_attn,
	.attn_merge = avx2_attn_merge,
	.probe_mass = avx2_probe_mass,
	.probe_share = avx2_probe_share,
	.probe_above = avx2_probe_above,
	.choose = &choose_fns_avx2,
	.read_sum = read_sum,
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
