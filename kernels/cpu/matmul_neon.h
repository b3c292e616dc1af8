/* kernels/cpu/matmul_neon.h (private to simd_blocks.h) - panel vectors and integer products on 64-bit ARM. A panel is
 * 8 rows of the weight, in two vectors. NEON multiplies signed bytes. So weights of 8 bits and table values are
 * stored as signed bytes; all other stored values are at most 63. */
#ifndef WEIR_CPU_MATMUL_NEON_H
#define WEIR_CPU_MATMUL_NEON_H

#ifdef __aarch64__
enum { PANEL = 8, UNIT = 32, TILE = 4, COLS_AHEAD = 0, SIGNED = 1, WORDS = 0 };
#define WIDTHS(X) X(1) X(2) X(4)

typedef vec8 panel_vec;
typedef struct {
	vec_int v[2];
} panel_int;
typedef int8x16_t byte_vec; /* stored bytes of half of the rows of a panel */
#define panel_splat        vec8_splat
#define panel_load         vec8_load
#define panel_store        vec8_store
#define panel_fma          vec8_fma
#define panel_mul          vec8_mul
#define panel_row(type, p) vec8_row(type, p, 0, PANEL)
#define byte_splat         vdupq_n_s8
#define byte_table         vld1q_s8

INLINE panel_vec panel_add(panel_vec a, panel_vec b)
{
	return (panel_vec){ { a.v[0] + b.v[0], a.v[1] + b.v[1] } };
}

INLINE panel_vec panel_minus(panel_vec x)
{
	return (panel_vec){ { -x.v[0], -x.v[1] } };
}

INLINE panel_int panel_int_splat(int32_t i)
{
	return (panel_int){ { vec_int_splat(i), vec_int_splat(i) } };
}

INLINE panel_vec panel_of_int(panel_int i)
{
	return (panel_vec){ { vec_of_int(i.v[0]), vec_of_int(i.v[1]) } };
}

INLINE panel_vec panel_of_words(int16x8_t v)
{
	return (panel_vec){ { vec_of_int(vmovl_s16(vget_low_s16(v))), vec_of_int(vmovl_high_s16(v)) } };
}

INLINE panel_vec panel_signed(const uint8_t *p)
{
	return panel_of_words(vmovl_s8(vld1_s8((const int8_t *)p)));
}

INLINE panel_vec panel_unsigned(const uint8_t *p)
{
	return panel_of_words(vreinterpretq_s16_u16(vmovl_u8(vld1_u8(p))));
}

INLINE panel_vec panel_nibbles(const uint8_t *p, int upper)
{
	uint8x8_t v = vld1_u8(p);

	return panel_of_words(vreinterpretq_s16_u16(vmovl_u8(upper ? v >> 4 : v & 15)));
}

INLINE int one_column_ahead(struct pack_format f)
{
	(void)f;
	return 0;
}

/* Return each byte of x, shifted right by n bits, or left by -n bits if n < 0. */
INLINE uint8x16_t byte_shift(uint8x16_t x, int n)
{
	return n < 0 ? x << -n : x >> n;
}

/* Return the stored bytes of the values from 4 g to 4 g + 3 of four rows. `q` has the block's values, beginning at the
 * first of these rows. */
INLINE byte_vec block_group(struct pack_format f, const uint8_t *q, int g, byte_vec table)
{
	uint8x16_t x = vdupq_n_u8(0);
	int at = 0;

	if (f.bytes)
		return vreinterpretq_s8_u8(vld1q_u8(q + g * UNIT));
	if (f.nibbles) {
		x = vld1q_u8(q + g % 4 * UNIT);
		x = g < 4 ? x & 15 : x >> 4;
		at = 4;
		q += 4 * UNIT;
	}
	if (f.lookup)
		return vqtbl1q_s8(table, x);
	if (f.twos) {
		x |= byte_shift(vld1q_u8(q + g / 4 * UNIT), g % 4 * 2 - at) & (uint8_t)(3 << at);
		at += 2;
		q += 2 * UNIT;
	}
	if (f.ones)
		x |= byte_shift(vld1q_u8(q), g - at) & (uint8_t)(1 << at);
	return vreinterpretq_s8_u8(x);
}

/* For each of four rows, add to the row's lane of s the dot product of the row's four bytes of w with the bytes from 4
 * lane to 4 lane + 3 of x. Return the new s. */
INLINE vec_int dot4_lane(vec_int s, byte_vec w, int8x16_t x, int lane)
{
	return dot4(s, w, (int8x16_t)vdupq_n_s32(((int32x4_t)x)[lane]));
}

INLINE void half_sums(struct pack_format f, int tile, const uint8_t *quants, int h, byte_vec table, const int8_t *q,
                      panel_int *sum)
{
	const int per = 8 / f.halves; /* number of groups per scale; a group is four values */
	int8x16_t x[TILE];

	UNROLL for (int g = h * per; g < (h + 1) * per; g++)
	{
		if (g % 4 == 0)
			UNROLL for (int c = 0; c < tile; c++) x[c] = vld1q_s8(q + 32 * c + 4 * g);
		UNROLL for (int i = 0; i < 2; i++)
		{
			byte_vec v = block_group(f, quants + UNIT / 2 * i, g, table);

			UNROLL for (int c = 0; c < tile; c++) sum[c].v[i] = dot4_lane(sum[c].v[i], v, x[c], g % 4);
		}
	}
}

/* Leaf function `multiply` (struct cpu_fns), which measures the speed of multiplication. The empty asm statement
 * prevents the compiler from removing the loop: the statement claims to use and change the sums. */
static uint64_t multiply(int32_t rounds)
{
	vec_int sum[4 * TILE];
	int8x16_t w = vdupq_n_s8(3);

	UNROLL for (int c = 0; c < 4 * TILE; c++) sum[c] = vec_int_splat(0);
	for (int32_t i = 0; i < rounds; i++)
		UNROLL for (int c = 0; c < 4 * TILE; c++)
		{
			sum[c] = dot4(sum[c], w, w);
			__asm__ volatile("" : "+w"(sum[c]), "+w"(w));
		}
	return (uint64_t)rounds * 4 * TILE * 16;
}
#endif

#endif
