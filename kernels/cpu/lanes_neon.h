/* kernels/cpu/lanes_neon.h (private to lanes.h) - the vectors of lanes.h on 64-bit ARM: NEON with 4 lanes, which every
 * such processor has. A product of bytes, four per lane, is one instruction if the file is compiled for processors with
 * dot products (neon_dot.c), and several instructions otherwise. vec_min, vec_max and functions that end in _part
 * behave as in lanes_x86.h. */
#ifndef WEIR_CPU_LANES_NEON_H
#define WEIR_CPU_LANES_NEON_H

#ifdef __aarch64__
#include <arm_neon.h>

#define LANES     4
#define REGISTERS 32
typedef float vec __attribute__((vector_size(16)));
typedef int32_t vec_int __attribute__((vector_size(16)));
typedef vec_int vec_mask; /* a mask: all bits of a lane are equal */
typedef struct {
	vec v[2];
} vec8;
typedef struct {
	int8x16_t v[2];
} bytes32;

/* ---- one instruction each ---- */

#define vec_zero()             ((vec)vdupq_n_f32(0))
#define vec_splat(x)           ((vec)vdupq_n_f32(x))
#define vec_load(p)            ((vec)vld1q_f32(p))
#define vec_store(p, x)        vst1q_f32(p, (float32x4_t)(x))
#define vec_fma(a, b, c)       ((vec)vfmaq_f32((float32x4_t)(c), (float32x4_t)(a), (float32x4_t)(b)))
#define vec_fms(a, b, c)       vec_fma(a, b, -(c))
#define vec_of_int(i)          ((vec)vcvtq_f32_s32((int32x4_t)(i)))
#define vec_int_of(x)          ((vec_int)vcvtnq_s32_f32((float32x4_t)(x)))
#define vec_int_below(x)       ((vec_int)vcvtq_s32_f32((float32x4_t)(x)))
#define vec_int_splat(i)       ((vec_int)vdupq_n_s32(i))
#define vec_int_min(a, b)      ((vec_int)vminq_s32((int32x4_t)(a), (int32x4_t)(b)))
#define vec_int_max(a, b)      ((vec_int)vmaxq_s32((int32x4_t)(a), (int32x4_t)(b)))
#define vec_round(x)           ((vec)vrndnq_f32((float32x4_t)(x)))
#define vec_select(m, yes, no) ((vec)vbslq_f32((uint32x4_t)(m), (float32x4_t)(yes), (float32x4_t)(no)))
#define vec_at_least(x, t)     ((vec_mask)vcgeq_f32((float32x4_t)(x), (float32x4_t)(t)))
#define vec_negative(x)        ((vec_int)(x) >> 31)
#define vec_sum(x)             vaddvq_f32((float32x4_t)(x))
#define vec_largest(x)         vmaxnmvq_f32((float32x4_t)(x))
#define vec_int_sum(x)         vaddvq_s32((int32x4_t)(x))
#define vec_int_largest(x)     vmaxvq_s32((int32x4_t)(x))
#define LANE_NUMBERS           ((vec_int){ 0, 1, 2, 3 })
#define mask_first(n)          ((vec_mask)vcgtq_s32(vdupq_n_s32(n), (int32x4_t)LANE_NUMBERS))
#define mask_bits(m)           vaddvq_u32((uint32x4_t)((m) & (vec_int){ 1, 2, 4, 8 }))
#define mask_count(c, m)       ((c) - (m))

#define line_fetch(p)          __asm__ volatile("prfm pldl1keep, %0" : : "Q"(*(const uint8_t *)(p)))
#define line_fetch_far(p)      __asm__ volatile("prfm pldl2keep, %0" : : "Q"(*(const uint8_t *)(p)))
#define IN_REGISTER(x)         __asm__("" : "+w"(x))

INLINE vec vec_min(vec a, vec b)
{
	return vec_select(vcltq_f32((float32x4_t)a, (float32x4_t)b), a, b);
}

INLINE vec vec_max(vec a, vec b)
{
	return vec_select(vcgtq_f32((float32x4_t)a, (float32x4_t)b), a, b);
}

INLINE vec vec_add_in(vec_mask m, vec a, vec b)
{
	return a + (vec)((vec_int)b & m);
}

/* ---- halves ---- */

INLINE vec vec_of_f16(uint16x4_t h)
{
	return (vec)vcvt_f32_f16(vreinterpret_f16_u16(h));
}

INLINE vec vec_of_bf16(uint16x4_t h)
{
	return (vec)vreinterpretq_f32_u32(vshll_n_u16(h, 16));
}

INLINE float f16_value(uint16_t h)
{
	return vec_of_f16(vdup_n_u16(h))[0];
}

/* ---- parts of vectors ---- */

INLINE vec vec_load_part(const float *p, int32_t n)
{
	float32x4_t x = vdupq_n_f32(0);

	if (n >= 4)
		return vec_load(p);
	if (n >= 2)
		x = vcombine_f32(vld1_f32(p), vdup_n_f32(0));
	if (n == 3)
		x = vld1q_lane_f32(p + 2, x, 2);
	if (n == 1)
		x = vld1q_lane_f32(p, x, 0);
	return (vec)x;
}

INLINE vec vec_load_or(vec other, const float *p, int32_t n)
{
	return n >= 4 ? vec_load(p) : vec_select(mask_first(n), vec_load_part(p, n), other);
}

INLINE void vec_store_part(float *p, int32_t n, vec x)
{
	if (n >= 4) {
		vec_store(p, x);
		return;
	}
	if (n >= 2)
		vst1_f32(p, vget_low_f32((float32x4_t)x));
	if (n == 3)
		vst1q_lane_f32(p + 2, (float32x4_t)x, 2);
	if (n == 1)
		vst1q_lane_f32(p, (float32x4_t)x, 0);
}

INLINE void vec_store_f16_part(uint16_t *p, int32_t n, vec x)
{
	uint16x4_t h = vreinterpret_u16_f16(vcvt_f16_f32((float32x4_t)x));

	if (n >= 4)
		vst1_u16(p, h);
	else
		memcpy(p, &h, (size_t)n * sizeof *p);
}

INLINE uint16x4_t halves_part(const void *p, int32_t n)
{
	uint16_t part[4] = { 0 };

	memcpy(part, p, n >= 4 ? sizeof part : (size_t)n * sizeof *part);
	return vld1_u16(part);
}

/* Load the codes of the values from j to j + 3 of a q4_0 vector as floats from -8 to 7. */
INLINE vec vec_codes(const uint8_t *row, int32_t j)
{
	uint32_t four;
	int8x8_t q;

	memcpy(&four, row + j / 32 * 18 + 2 + j % 16, 4);
	q = vsub_s8(vreinterpret_s8_u32(vdup_n_u32(four >> (j % 32 / 16 * 4) & 0x0f0f0f0f)), vdup_n_s8(8));
	return vec_of_int(vmovl_s16(vget_low_s16(vmovl_s8(q))));
}

/* Load the values from j to j + 3 of a key or value vector as floats. There are n values from j on; lanes after these
 * are zero. q8_0 and q4_0 vectors consist of whole blocks. */
INLINE vec vec_row(enum dtype type, const uint8_t *row, int32_t j, int32_t n)
{
	const void *at = row + 2 * (size_t)j;

	if (type == DT_Q8_0) {
		const uint8_t *block = row + j / 32 * 34;
		uint32_t four;
		uint16_t d;

		memcpy(&d, block, 2);
		memcpy(&four, block + 2 + j % 32, 4);
		return vec_of_int(vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_u32(vdup_n_u32(four)))))) *
		       f16_value(d);
	}
	if (type == DT_Q4_0) {
		uint16_t d;

		memcpy(&d, row + j / 32 * 18, 2);
		return vec_codes(row, j) * f16_value(d);
	}
	if (type == DT_F32)
		return vec_load_part((const float *)(const void *)row + j, n);
	return type == DT_F16 ? vec_of_f16(halves_part(at, n)) : vec_of_bf16(halves_part(at, n));
}

/* ---- eight floats ---- */

INLINE vec8 vec8_splat(float x)
{
	return (vec8){ { vec_splat(x), vec_splat(x) } };
}

INLINE vec8 vec8_zero(void)
{
	return vec8_splat(0);
}

INLINE vec8 vec8_load(const float *p)
{
	return (vec8){ { vec_load(p), vec_load(p + 4) } };
}

INLINE vec8 vec8_load_part(const float *p, int32_t n)
{
	return (vec8){ { vec_load_part(p, n), n > 4 ? vec_load_part(p + 4, n - 4) : vec_zero() } };
}

INLINE void vec8_store(float *p, vec8 x)
{
	vec_store(p, x.v[0]);
	vec_store(p + 4, x.v[1]);
}

INLINE vec8 vec8_mul(vec8 a, vec8 b)
{
	return (vec8){ { a.v[0] * b.v[0], a.v[1] * b.v[1] } };
}

INLINE vec8 vec8_fma(vec8 a, vec8 b, vec8 c)
{
	return (vec8){ { vec_fma(a.v[0], b.v[0], c.v[0]), vec_fma(a.v[1], b.v[1], c.v[1]) } };
}

INLINE vec add2(vec a, vec b)
{
	return (vec)vzip1q_f32((float32x4_t)a, (float32x4_t)b) + (vec)vzip2q_f32((float32x4_t)a, (float32x4_t)b);
}

INLINE vec add4(vec a, vec b)
{
	float64x2_t x = vreinterpretq_f64_f32((float32x4_t)a), y = vreinterpretq_f64_f32((float32x4_t)b);

	return (vec)vreinterpretq_f32_f64(vzip1q_f64(x, y)) + (vec)vreinterpretq_f32_f64(vzip2q_f64(x, y));
}

INLINE vec8 vec8_add2(vec8 a, vec8 b)
{
	return (vec8){ { add2(a.v[0], b.v[0]), add2(a.v[1], b.v[1]) } };
}

INLINE vec8 vec8_add4(vec8 a, vec8 b)
{
	return (vec8){ { add4(a.v[0], b.v[0]), add4(a.v[1], b.v[1]) } };
}

INLINE vec8 vec8_add8(vec8 a, vec8 b)
{
	return (vec8){ { a.v[0] + a.v[1], b.v[0] + b.v[1] } };
}

INLINE vec8 vec8_row(enum dtype type, const uint8_t *row, int32_t j, int32_t n)
{
	vec8 x = { { vec_row(type, row, j, n) } };

	x.v[1] = n > 4 ? vec_row(type, row, j + 4, n - 4) : vec_zero();
	return x;
}

/* ---- bytes ---- */

/* Return s plus the products of signed bytes, four in each lane. Without a dot product instruction, two products are
 * added in 16 bits. So the two factors of a product must not both be -128. */
INLINE vec_int dot4(vec_int s, int8x16_t a, int8x16_t b)
{
#ifdef __ARM_FEATURE_DOTPROD
	return (vec_int)vdotq_s32((int32x4_t)s, a, b);
#else
	int16x8_t pairs = vpaddq_s16(vmull_s8(vget_low_s8(a), vget_low_s8(b)), vmull_high_s8(a, b));

	return (vec_int)vpadalq_s16((int32x4_t)s, pairs);
#endif
}

INLINE vec_int vec_int_load(const void *p)
{
	vec_int x;

	memcpy(&x, p, sizeof x);
	return x;
}

/* Narrow 32 integers to bytes: to signed bytes if is_signed is 1, otherwise to unsigned bytes. The values must fit. */
INLINE bytes32 bytes32_of(const vec_int v[8], int is_signed)
{
	bytes32 out;

	(void)is_signed;
	UNROLL for (int i = 0; i < 2; i++)
	{
		const vec_int *q = v + 4 * i;
		int16x8_t a = vuzp1q_s16((int16x8_t)q[0], (int16x8_t)q[1]),
			  b = vuzp1q_s16((int16x8_t)q[2], (int16x8_t)q[3]);

		out.v[i] = vuzp1q_s8((int8x16_t)a, (int8x16_t)b);
	}
	return out;
}

INLINE void bytes32_store(void *p, bytes32 x)
{
	memcpy(p, &x, sizeof x);
}

INLINE void bytes32_half_sums(int32_t out[2], bytes32 x)
{
	out[0] = vaddlvq_s8(x.v[0]);
	out[1] = vaddlvq_s8(x.v[1]);
}

INLINE int32_t bytes32_sum_of_squares(bytes32 x)
{
	return vec_int_sum(dot4(dot4(vec_int_splat(0), x.v[0], x.v[0]), x.v[1], x.v[1]));
}

/* Dot products of unsigned codes (2, 4 or 8 bits, each in a byte) and signed bytes. dots_add() adds four products to
 * each lane; dots_sum() returns the sums. The instructions multiply signed bytes, so an eight-bit code is split into
 * two four-bit codes. dots_sum() must be called after at most DOTS_MOST units of a key sketch (64 bytes each,
 * key_sketch.h) have been added. These units have SKETCH_GROUP values of each key, and the sums of so many products fit
 * the 32-bit lanes. */
struct dots {
	vec_int low, high;
};
#define DOTS_MOST(bits) (2 * (bits))

INLINE void dots_add(struct dots *s, int bits, vec_int code, vec_int four)
{
	s->low = dot4(s->low, (int8x16_t)(bits == 8 ? code & 0x0f0f0f0f : code), (int8x16_t)four);
	if (bits == 8)
		s->high = dot4(s->high, (int8x16_t)(code >> 4 & 0x0f0f0f0f), (int8x16_t)four);
}

INLINE vec_int dots_sum(const struct dots *s, int bits)
{
	return bits == 8 ? s->low + (s->high << 4) : s->low;
}

/* ---- across lanes ---- */

INLINE vec vec_complex_mul(vec x, vec t)
{
	const vec_int minus = { INT32_MIN, 0, INT32_MIN, 0 };
	float32x4_t tt = (float32x4_t)t;
	vec p = (vec)vrev64q_f32((float32x4_t)x) * (vec)vtrn2q_f32(tt, tt);

	return vec_fma(x, (vec)vtrn1q_f32(tt, tt), (vec)((vec_int)p ^ minus));
}

INLINE void vec_split_pairs(vec t0, vec t1, vec *first, vec *second)
{
	*first = (vec)vuzp1q_f32((float32x4_t)t0, (float32x4_t)t1);
	*second = (vec)vuzp2q_f32((float32x4_t)t0, (float32x4_t)t1);
}

INLINE void vec_transpose(vec out[LANES], const vec x[LANES])
{
	float64x2_t a[4];

	UNROLL for (int i = 0; i < 4; i += 2)
	{
		a[i] = vreinterpretq_f64_f32(vtrn1q_f32((float32x4_t)x[i], (float32x4_t)x[i + 1]));
		a[i + 1] = vreinterpretq_f64_f32(vtrn2q_f32((float32x4_t)x[i], (float32x4_t)x[i + 1]));
	}
	UNROLL for (int i = 0; i < 2; i++)
	{
		out[i] = (vec)vreinterpretq_f32_f64(vzip1q_f64(a[i], a[i + 2]));
		out[i + 2] = (vec)vreinterpretq_f32_f64(vzip2q_f64(a[i], a[i + 2]));
	}
}

INLINE void vec_store_sums(float out[4], const vec x[4])
{
	float32x4_t lo = vpaddq_f32((float32x4_t)x[0], (float32x4_t)x[1]),
		    hi = vpaddq_f32((float32x4_t)x[2], (float32x4_t)x[3]);

	vst1q_f32(out, vpaddq_f32(lo, hi));
}

struct squares {
	float64x2_t lo, hi;
};

INLINE void squares_add(struct squares *s, vec x)
{
	float64x2_t lo = vcvt_f64_f32(vget_low_f32((float32x4_t)x)), hi = vcvt_high_f64_f32((float32x4_t)x);

	s->lo = vfmaq_f64(s->lo, lo, lo);
	s->hi = vfmaq_f64(s->hi, hi, hi);
}

INLINE double squares_sum(const struct squares *s)
{
	return vaddvq_f64(vaddq_f64(s->lo, s->hi));
}
#endif

#endif
