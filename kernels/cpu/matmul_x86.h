/* kernels/cpu/matmul_x86.h (private to simd_blocks.h) - panel vectors and integer products on x86. A panel is a number
 * of rows of the weight side by side: 16 rows for AVX-512, 8 for AVX2.
 *
 * AVX-512: for each row, vpdpbusd multiplies four unsigned stored values with four signed activations and adds the
 * products. For Q4_1 on Zen 4, the multipliers of the processor limit the speed; the code reaches 94 to 96 % of this
 * limit.
 *
 * AVX2: vpmaddubsw adds two products to a 16-bit sum, and vpmaddwd adds two such sums to 32 bits. To save vpmaddwd, the
 * 16-bit sums of several groups of four values are added first, but never so many that a sum could saturate
 * (safe_groups()). Table values are signed, but vpmaddubsw needs an unsigned factor. So the magnitude of a table value
 * is multiplied, and its sign is applied to the activation.
 *
 * For Q8_0, AVX2 multiplies 16-bit words (cols.h) by vpmaddwd: Q8_0 needs 16-bit activations, and products with
 * activations of two bytes per value would take twice as long. */
#ifndef WEIR_CPU_MATMUL_X86_H
#define WEIR_CPU_MATMUL_X86_H

#ifdef __AVX2__
/* Prefetching weights helps for 2 to COLS_AHEAD columns. With AVX-512, on two threads of a Zen 4, four columns of Q4_K
 * take 1.27 times as long as one column; without prefetch they take 1.55 times as long. With more columns the weights
 * are in the L2 cache. The comment of one_column_ahead() is about products with one column. */
enum { PANEL = LANES, UNIT = 4 * LANES, COLS_AHEAD = 16 };

typedef vec panel_vec;
typedef x86_int panel_int, byte_vec;
#define panel_splat        vec_splat
#define panel_load         vec_load
#define panel_store        vec_store
#define panel_fma          vec_fma
#define panel_add(a, b)    ((a) + (b))
#define panel_mul(a, b)    ((a) * (b))
#define panel_minus(a)     (vec_zero() - (a))
#define panel_row(type, p) vec_row(type, p, 0, PANEL)
#define panel_of_int(i)    vec_of_int(i)
#define panel_int_splat    X86(set1_epi32)
#define byte_splat(x)      X86(set1_epi8)((char)(x))

#ifdef __AVX512F__
#include <cpuid.h>
#include <pthread.h>

/* With twelve columns the multipliers are always busy while a block's weights are unpacked. With eight columns they
 * would be idle at times. */
enum { TILE = 12, SIGNED = 0, WORDS = 0 };
#define WIDTHS(X)          X(1) X(2) X(4) X(6) X(8) X(12)
#define BYTE_LANES(p)      _mm_loadu_si128((const void *)(p)) /* load a byte for each row */
#define byte_load(p)       _mm512_loadu_si512(p)
#define or_masked(a, b, m) _mm512_ternarylogic_epi32(a, b, m, 0xf8) /* a | (b & m) */
#else
/* TILE is 6 because AVX2 has only 16 registers. */
enum { TILE = 6, SIGNED = 1, WORDS = 1 };
#define WIDTHS(X)          X(1) X(2) X(4) X(6)
#define BYTE_LANES(p)      _mm_loadl_epi64((const void *)(p))
#define byte_load(p)       _mm256_loadu_si256((const void *)(p))
#define or_masked(a, b, m) ((a) | ((b) & (m)))
#endif

INLINE panel_vec panel_unsigned(const uint8_t *p)
{
	return vec_of_int(X86(cvtepu8_epi32)(BYTE_LANES(p)));
}

INLINE panel_vec panel_signed(const uint8_t *p)
{
	return vec_of_int(X86(cvtepi8_epi32)(BYTE_LANES(p)));
}

INLINE panel_vec panel_nibbles(const uint8_t *p, int upper)
{
	vec_int v = (vec_int)X86(cvtepu8_epi32)(BYTE_LANES(p));

	return vec_of_int(upper ? v >> 4 : v & 15);
}

/* Repeat the 16 values of the table in every 128 bits, as vpshufb requires. For AVX-512, whose dot product takes
 * unsigned weights, add 128 to each value. The caller corrects the sums for this 128. */
INLINE byte_vec byte_table(const int8_t *values)
{
	__m128i v = _mm_loadu_si128((const void *)values);

#ifdef __AVX512F__
	return _mm512_broadcast_i32x4(v) ^ byte_splat(0x80);
#else
	return _mm256_broadcastsi128_si256(v);
#endif
}

/* Return each 16-bit lane of x, shifted right by n bits, or left by -n bits if n < 0. The caller masks out the bits
 * that come from the neighbouring byte. */
INLINE byte_vec byte_shift(byte_vec x, int n)
{
	return n > 0 ? X86(srli_epi16)(x, n) : n < 0 ? X86(slli_epi16)(x, -n) : x;
}

/* Return the stored bytes of the four values from 4 g to 4 g + 3 of each row of a panel. `q` points to the block's
 * quantised values. */
INLINE byte_vec block_group(struct pack_format f, const uint8_t *q, int g, byte_vec table)
{
	byte_vec x = byte_splat(0);
	int at = 0;

	if (f.bytes)
		return byte_load(q + g * UNIT);
	if (f.nibbles) {
		x = byte_shift(byte_load(q + g % 4 * UNIT), g / 4 * 4) & byte_splat(15);
		at = 4;
		q += 4 * UNIT;
	}
	if (f.lookup)
		x = X86(shuffle_epi8)(table, x);
	if (f.twos) {
		x = or_masked(x, byte_shift(byte_load(q + g / 4 * UNIT), g % 4 * 2 - at), byte_splat(3 << at));
		at += 2;
		q += 2 * UNIT;
	}
	if (f.ones)
		x = or_masked(x, byte_shift(byte_load(q), g - at), byte_splat(1 << at));
	return x;
}

INLINE x86_int four(const int8_t *p)
{
	int32_t v;

	memcpy(&v, p, sizeof v);
	return X86(set1_epi32)(v);
}

#ifdef __AVX512F__
static int is_zen4;

static void zen4_detect(void)
{
	unsigned a = 0, b = 0, c = 0, d = 0;

	/* Family 0x19 of "AuthenticAMD" is Zen 3 and Zen 4, and only Zen 4 has AVX-512. */
	if (__get_cpuid(0, &a, &b, &c, &d) && b == 0x68747541 && __get_cpuid(1, &a, &b, &c, &d))
		is_zen4 = (a >> 8 & 15) + (a >> 20 & 255) == 0x19;
}

/* 1 if the weights of a product with one column are prefetched. On Zen 5, prefetch makes products of K types a quarter
 * faster, because these types spend many instructions on small scales. On Zen 4 the hardware prefetcher is sufficient,
 * and explicit prefetch makes decoding with Q4_1 a fifth slower. */
INLINE int one_column_ahead(struct pack_format f)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	if (f.group < 8)
		return 0;
	pthread_once(&once, zen4_detect);
	return !is_zen4;
}

INLINE void half_sums(struct pack_format f, int tile, const uint8_t *quants, int h, byte_vec table, const int8_t *q,
                      panel_int *sum)
{
	const int per = 8 / f.halves; /* number of groups per scale; a group is four values */

	UNROLL for (int g = h * per; g < (h + 1) * per; g++)
	{
		byte_vec v = block_group(f, quants, g, table);

		UNROLL for (int c = 0; c < tile; c++) sum[c] = _mm512_dpbusd_epi32(sum[c], v, four(q + 32 * c + 4 * g));
	}
}

/* Leaf function `multiply` (struct cpu_fns), which measures the speed of multiplication; amx.c has its own. The empty
 * asm statement prevents the compiler from removing the loop: the statement claims to use and change the sums. */
static __attribute__((unused)) uint64_t multiply(int32_t rounds)
{
	__m512i sum[TILE], w = byte_splat(3);

	/* The loop is unrolled so that the sums stay in registers; otherwise the speed of stores would be measured. */
	UNROLL for (int c = 0; c < TILE; c++) sum[c] = byte_splat(0);
	for (int32_t i = 0; i < rounds; i++)
		UNROLL for (int c = 0; c < TILE; c++)
		{
			sum[c] = _mm512_dpbusd_epi32(sum[c], w, w);
			__asm__ volatile("" : "+v"(sum[c]));
		}
	return (uint64_t)rounds * TILE * 64;
}

#else
INLINE int one_column_ahead(struct pack_format f)
{
	return f.group == 8;
}

/* Prevent the compiler from changing a chain of additions to a tree, which needs more registers than there are. */
#define IN_ORDER(v) __asm__("" : "+x"(v))

/* Return how many groups of four values can be added in 16 bits without saturation. */
INLINE int safe_groups(struct pack_format f)
{
	int bits = f.nibbles * 4 + f.twos * 2 + f.ones;

	return f.lookup ? 1 : bits <= 4 ? 8 / f.halves : bits == 5 ? 4 : 2;
}

/* Multiply weights of bytes with columns of 16-bit words. This is exact: the sum of 32 products of 127 and 32,639
 * fits 32 bits. */
INLINE void word_sums(int tile, const uint8_t *quants, const int8_t *q, panel_int *sum)
{
	UNROLL for (int g = 0; g < 8; g++)
	{
		const __m256i v = byte_load(quants + g * UNIT);
		const __m256i odd = _mm256_srai_epi16(v, 8), even = _mm256_srai_epi16(_mm256_slli_epi16(v, 8), 8);

		UNROLL for (int c = 0; c < tile; c++)
		{
			const int8_t *x = q + 64 * c + 8 * g;

			sum[c] = _mm256_add_epi32(sum[c], _mm256_madd_epi16(even, four(x)));
			IN_ORDER(sum[c]);
			sum[c] = _mm256_add_epi32(sum[c], _mm256_madd_epi16(odd, four(x + 4)));
			IN_ORDER(sum[c]);
		}
	}
}

INLINE void half_sums(struct pack_format f, int tile, const uint8_t *quants, int h, byte_vec table, const int8_t *q,
                      panel_int *sum)
{
	const int per = 8 / f.halves, safe = safe_groups(f);
	const __m256i ones = _mm256_set1_epi16(1);
	__m256i pairs[TILE];

	if (f.words) {
		word_sums(tile, quants, q, sum);
		return;
	}
	UNROLL for (int g = h * per; g < (h + 1) * per; g++)
	{
		__m256i v = block_group(f, quants, g, table), size = _mm256_abs_epi8(v);

		UNROLL for (int c = 0; c < tile; c++)
		{
			__m256i a = four(q + 32 * c + 4 * g);

			a = f.lookup ? _mm256_maddubs_epi16(size, _mm256_sign_epi8(a, v)) : _mm256_maddubs_epi16(v, a);
			pairs[c] = g % safe == 0 ? a : _mm256_add_epi16(pairs[c], a);
			IN_ORDER(pairs[c]);
			if (g % safe == safe - 1) {
				sum[c] = _mm256_add_epi32(sum[c], _mm256_madd_epi16(pairs[c], ones));
				IN_ORDER(sum[c]);
			}
		}
	}
}

/* Leaf function `multiply` (struct cpu_fns), which measures the speed of multiplication. It does the operations of a
 * block of four-bit weights: eight products are added as 16-bit pairs, then widened. The empty asm statement prevents
 * the compiler from removing the loop: the statement claims to use and change the sums. */
static uint64_t multiply(int32_t rounds)
{
	const __m256i ones = _mm256_set1_epi16(1);
	__m256i sum[TILE], w = byte_splat(3);

	/* The loop is unrolled so that the sums stay in registers; otherwise the speed of stores would be measured. */
	UNROLL for (int c = 0; c < TILE; c++) sum[c] = byte_splat(0);
	for (int32_t i = 0; i < rounds; i++)
		UNROLL for (int c = 0; c < TILE; c++)
		{
			__m256i pairs = _mm256_maddubs_epi16(w, w);

			UNROLL for (int g = 1; g < 8; g++)
			{
				__asm__ volatile("" : "+x"(pairs), "+x"(w));
				pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(w, w));
			}
			sum[c] = _mm256_add_epi32(sum[c], _mm256_madd_epi16(pairs, ones));
			__asm__ volatile("" : "+x"(sum[c]), "+x"(w));
		}
	return (uint64_t)rounds * TILE * 8 * 32;
}
#endif
#endif

#endif
