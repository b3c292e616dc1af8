/* kernels/common/quant.c - weight types: their table, half floats, reference conversions, simple quantisers.
 *
 * quant_unpack32() decodes every quantised type: it unpacks 32 weights to small integers q, with one scale for each 16
 * weights and, for some types, one minimum. From these, dtype_to_f32() computes scale * q (+ min), with each step
 * rounded to f32, as ggml does. Products use the same integers, so they agree with the conversion. */
#include <math.h>
#include "kernels/common/quant.h"

static const struct dtype_info info[DT_ALL] = {
	[DT_F32] = { "F32", 1, 4, 0 },
	[DT_F16] = { "F16", 1, 2, 1 },
	[DT_BF16] = { "BF16", 1, 2, 30 },
	[DT_Q4_0] = { "Q4_0", 32, 18, 2 },
	[DT_Q4_1] = { "Q4_1", 32, 20, 3 },
	[DT_Q5_0] = { "Q5_0", 32, 22, 6 },
	[DT_Q5_1] = { "Q5_1", 32, 24, 7 },
	[DT_Q8_0] = { "Q8_0", 32, 34, 8 },
	[DT_Q2_K] = { "Q2_K", 256, 84, 10 },
	[DT_Q3_K] = { "Q3_K", 256, 110, 11 },
	[DT_Q4_K] = { "Q4_K", 256, 144, 12 },
	[DT_Q5_K] = { "Q5_K", 256, 176, 13 },
	[DT_Q6_K] = { "Q6_K", 256, 210, 14 },
	[DT_IQ4_NL] = { "IQ4_NL", 32, 18, 20 },
	[DT_IQ4_XS] = { "IQ4_XS", 256, 136, 23 },
	[DT_MXFP4] = { "MXFP4", 32, 17, 39 },
	[DT_I32] = { "I32", 1, 4, -1 },
	[DT_U8] = { "U8", 1, 1, -1 },
	[DT_TQ1_0] = { "TQ1_0", 256, 54, 34 },
	[DT_TQ2_0] = { "TQ2_0", 256, 66, 35 },
};

/* The structs must have no padding, because they are read as bytes of the file. */
_Static_assert(sizeof(struct block_q4_0) == 18 && sizeof(struct block_q4_1) == 20, "layout");
_Static_assert(sizeof(struct block_q5_0) == 22 && sizeof(struct block_q5_1) == 24, "layout");
_Static_assert(sizeof(struct block_q8_0) == 34 && sizeof(struct block_q2_k) == 84, "layout");
_Static_assert(sizeof(struct block_q3_k) == 110 && sizeof(struct block_q4_k) == 144, "layout");
_Static_assert(sizeof(struct block_q5_k) == 176 && sizeof(struct block_q6_k) == 210, "layout");
_Static_assert(sizeof(struct block_iq4_nl) == 18 && sizeof(struct block_iq4_xs) == 136, "layout");
_Static_assert(sizeof(struct block_mxfp4) == 17, "layout");
_Static_assert(sizeof(struct block_tq1_0) == 54 && sizeof(struct block_tq2_0) == 66, "layout");

/* Names of all type numbers of GGUF files, including unsupported and withdrawn types, for error messages with the name
 * of the type */
static const char *const ggml_name[] = {
	[0] = "F32",     [1] = "F16",         [2] = "Q4_0",        [3] = "Q4_1",        [4] = "Q4_2",
	[5] = "Q4_3",    [6] = "Q5_0",        [7] = "Q5_1",        [8] = "Q8_0",        [9] = "Q8_1",
	[10] = "Q2_K",   [11] = "Q3_K",       [12] = "Q4_K",       [13] = "Q5_K",       [14] = "Q6_K",
	[15] = "Q8_K",   [16] = "IQ2_XXS",    [17] = "IQ2_XS",     [18] = "IQ3_XXS",    [19] = "IQ1_S",
	[20] = "IQ4_NL", [21] = "IQ3_S",      [22] = "IQ2_S",      [23] = "IQ4_XS",     [24] = "I8",
	[25] = "I16",    [26] = "I32",        [27] = "I64",        [28] = "F64",        [29] = "IQ1_M",
	[30] = "BF16",   [31] = "Q4_0_4_4",   [32] = "Q4_0_4_8",   [33] = "Q4_0_8_8",   [34] = "TQ1_0",
	[35] = "TQ2_0",  [36] = "IQ4_NL_4_4", [37] = "IQ4_NL_4_8", [38] = "IQ4_NL_8_8", [39] = "MXFP4",
	[40] = "NVFP4",  [41] = "Q1_0",
};

const int8_t iq4_values[16] = { -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113 };

const int8_t mxfp4_values[16] = { 0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12 };

const struct dtype_info *dtype_info(enum dtype t)
{
	return &info[t];
}

int dtype_from_ggml(uint32_t ggml_id, const char **name)
{
	*name = ggml_id < LEN(ggml_name) ? ggml_name[ggml_id] : NULL;
	for (int t = 0; t < DT_ALL; t++)
		if (info[t].ggml_id >= 0 && (uint32_t)info[t].ggml_id == ggml_id)
			return t;
	return -1;
}

uint64_t dtype_bytes(enum dtype t, uint64_t n)
{
	return n / (uint64_t)info[t].block * (uint64_t)info[t].block_bytes;
}

/* ---- half floats ---- */

static float float_of(uint32_t u)
{
	float f;
	memcpy(&f, &u, sizeof f);
	return f;
}

static uint32_t bits_of(float f)
{
	uint32_t u;
	memcpy(&u, &f, sizeof u);
	return u;
}

/* Convert f16 to f32 and back. A NaN keeps its sign and payload and becomes quiet, as with the processor's conversion
 * instructions. So every instruction set gives the same bits. All cases are computed, and one is chosen, so that
 * compilers turn loops over values into vector instructions. */
float f16_to_f32(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000) << 16, e = h & 0x7c00, m = h & 0x3ff;
	uint32_t special = 0x7f800000 | (m ? 0x400000 | m << 13 : 0);
	uint32_t subnormal = bits_of((float)(int32_t)m * 0x1p-24f); /* exact in f32 */

	return float_of(sign | (e == 0x7c00 ? special : e ? ((e | m) << 13) + 0x38000000 : subnormal));
}

uint16_t f32_to_f16(float f)
{
	uint32_t u = bits_of(f), a = u & 0x7fffffff;
	/* Below 2^-14, f16 values are multiples of 2^-24. Floats from 0.5 to 1 are multiples of 2^-24, too, so adding
	 * 0.5 rounds to the nearest one. */
	uint32_t subnormal = bits_of(float_of(a) + 0.5f) - 0x3f000000;
	/* Rounding up may carry into the exponent. For values of 65520 or more, this correctly gives infinity. */
	uint32_t normal = (a + 0xfff + (a >> 13 & 1) - 0x38000000) >> 13;
	uint32_t special = 0x7c00 | (a > 0x7f800000 ? 0x200 | (a >> 13 & 0x3ff) : 0);

	return (uint16_t)((u >> 16 & 0x8000) | (a < 0x38800000 ? subnormal : a < 0x47800000 ? normal : special));
}

float bf16_to_f32(uint16_t h)
{
	return float_of((uint32_t)h << 16);
}

static uint16_t f32_to_bf16(float f)
{
	uint32_t u = bits_of(f);

	if ((u & 0x7fffffff) > 0x7f800000)
		return (uint16_t)(u >> 16 | 0x40);
	return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

/* ---- blocks to integers ---- */

/* Unpack 32 nibbles: the low nibbles are values 0 to 15, the high nibbles are values 16 to 31. */
static void unpack_nibbles(int8_t q[32], const uint8_t qs[16], int offset)
{
	for (int j = 0; j < 16; j++) {
		q[j] = (int8_t)((qs[j] & 15) - offset);
		q[j + 16] = (int8_t)((qs[j] >> 4) - offset);
	}
}

/* Unpack 32 values of five bits: the low four bits are the nibbles of qs, the fifth bits are in qh. */
static void unpack_fives(int8_t q[32], const uint8_t qs[16], const uint8_t qh[4], int offset)
{
	for (int j = 0; j < 16; j++) {
		int lo = (qs[j] & 15) | (qh[j / 8] >> j % 8 & 1) << 4;
		int hi = qs[j] >> 4 | (qh[2 + j / 8] >> j % 8 & 1) << 4;
		q[j] = (int8_t)(lo - offset);
		q[j + 16] = (int8_t)(hi - offset);
	}
}

/* Return scale i and minimum i of Q4_K and Q5_K. 8 scales and 8 minima of 6 bits are stored in 12 bytes:
 * - i < 4: the scale is the low six bits of byte i, the minimum the low six bits of byte i + 4.
 * - i >= 4: the low nibble of byte i + 4 has the low four bits of the scale, its high nibble the low four bits of the
 *   minimum. The top two bits of the scale are the top two bits of byte i - 4. The top two bits of the minimum are the
 *   top two bits of byte i. */
static void k_scale_min(const uint8_t s[12], int i, int *scale, int *min)
{
	if (i < 4) {
		*scale = s[i] & 63;
		*min = s[i + 4] & 63;
	} else {
		*scale = (s[i + 4] & 15) | (s[i - 4] >> 6) << 4;
		*min = s[i + 4] >> 4 | (s[i] >> 6) << 4;
	}
}

/* Return scale i of Q3_K. 16 scales of 6 bits are stored in 12 bytes, each increased by 32. The low four bits of scale
 * i are in byte i % 8: in its low nibble if i < 8, otherwise in its high nibble. The top two bits are in byte 8 + i %
 * 4, from bit i / 4 * 2 on. */
static int q3_scale(const uint8_t s[12], int i)
{
	int lo = i < 8 ? s[i] & 15 : s[i - 8] >> 4;
	return (lo | (s[8 + i % 4] >> i / 4 * 2 & 3) << 4) - 32;
}

/* Unpack a block of 32 values. min[] is written only for types with a minimum; for all other types, the caller has set
 * it to 0. */
static void unpack_block(enum dtype t, const void *block, int8_t q[32], float scale[2], float min[2])
{
	switch (t) {
	case DT_Q4_0: {
		const struct block_q4_0 *b = block;
		scale[0] = scale[1] = f16_to_f32(b->d);
		unpack_nibbles(q, b->qs, 8);
		return;
	}
	case DT_Q4_1: {
		const struct block_q4_1 *b = block;
		scale[0] = scale[1] = f16_to_f32(b->d);
		min[0] = min[1] = f16_to_f32(b->m);
		unpack_nibbles(q, b->qs, 0);
		return;
	}
	case DT_Q5_0: {
		const struct block_q5_0 *b = block;
		scale[0] = scale[1] = f16_to_f32(b->d);
		unpack_fives(q, b->qs, b->qh, 16);
		return;
	}
	case DT_Q5_1: {
		const struct block_q5_1 *b = block;
		scale[0] = scale[1] = f16_to_f32(b->d);
		min[0] = min[1] = f16_to_f32(b->m);
		unpack_fives(q, b->qs, b->qh, 0);
		return;
	}
	case DT_Q8_0: {
		const struct block_q8_0 *b = block;
		scale[0] = scale[1] = f16_to_f32(b->d);
		memcpy(q, b->qs, 32);
		return;
	}
	case DT_MXFP4: {
		const struct block_mxfp4 *b = block;
		scale[0] = scale[1] = bf16_to_f32(mxfp4_scale(b->e));
		unpack_nibbles(q, b->qs, 0);
		for (int j = 0; j < 32; j++)
			q[j] = mxfp4_values[q[j]];
		return;
	}
	default: { /* IQ4_NL */
		const struct block_iq4_nl *b = block;
		scale[0] = scale[1] = f16_to_f32(b->d);
		unpack_nibbles(q, b->qs, 0);
		for (int j = 0; j < 32; j++)
			q[j] = iq4_values[q[j]];
		return;
	}
	}
}

/* Return value j (from 0 to 255) of a block of TQ1_0: 0, 1 or 2. A byte holds up to five values. They are the first
 * five digits, in base 3, of the fraction byte / 256. The digits are stored in this order:
 * - Values 0 to 159: the first digits of bytes 0 to 31, then the second digits of these bytes, and so on to the fifth
 *   digits.
 * - Values 160 to 239: in the same way, the digits of bytes 32 to 47.
 * - Values 240 to 255: in the same way, the first four digits of the four bytes of field qh. */
static int tq1_digit(const struct block_tq1_0 *b, int j)
{
	static const uint8_t power[5] = { 1, 3, 9, 27, 81 };
	uint8_t byte, n;

	if (j < 160)
		byte = b->qs[j % 32], n = (uint8_t)(j / 32);
	else if (j < 240)
		byte = b->qs[32 + (j - 160) % 16], n = (uint8_t)((j - 160) / 16);
	else
		byte = b->qh[(j - 240) % 4], n = (uint8_t)((j - 240) / 4);
	return (uint8_t)(byte * power[n]) * 3 >> 8;
}

/* Unpack block i, which has 32 two-bit values. Four blocks share 32 bytes: byte j has value j of each of the four
 * blocks. */
static void unpack_twos(int8_t q[32], const uint8_t *qs, int i, int offset)
{
	for (int j = 0; j < 32; j++)
		q[j] = (int8_t)((qs[i / 4 * 32 + j] >> i % 4 * 2 & 3) - offset);
}

/* Unpack block i, which has 32 four-bit values. Two blocks share 32 bytes: byte j has value j of both blocks. */
static void unpack_fours(int8_t q[32], const uint8_t *qs, int i)
{
	for (int j = 0; j < 32; j++)
		q[j] = (int8_t)(qs[i / 2 * 32 + j] >> i % 2 * 4 & 15);
}

/* Set scale and min of block i (32 values) of Q4_K or Q5_K. */
static void unpack_k_scale(const uint8_t s[12], uint16_t d, uint16_t dmin, int i, float scale[2], float min[2])
{
	int sc, mn;

	k_scale_min(s, i, &sc, &mn);
	scale[0] = scale[1] = f16_to_f32(d) * (float)sc;
	min[0] = min[1] = -(f16_to_f32(dmin) * (float)mn);
}

static void unpack_q2_k(const struct block_q2_k *b, int i, int8_t q[32], float scale[2], float min[2])
{
	float d = f16_to_f32(b->d), dmin = f16_to_f32(b->dmin);

	for (int h = 0; h < 2; h++) {
		scale[h] = d * (float)(b->scales[2 * i + h] & 15);
		min[h] = -(dmin * (float)(b->scales[2 * i + h] >> 4));
	}
	unpack_twos(q, b->qs, i, 0);
}

/* Unpack two-bit values as in Q2_K. Then subtract 4 from value j if bit i of hmask[j] is 0. */
static void unpack_q3_k(const struct block_q3_k *b, int i, int8_t q[32], float scale[2])
{
	for (int h = 0; h < 2; h++)
		scale[h] = f16_to_f32(b->d) * (float)q3_scale(b->scales, 2 * i + h);
	unpack_twos(q, b->qs, i, 0);
	for (int j = 0; j < 32; j++)
		q[j] = (int8_t)(q[j] - (b->hmask[j] >> i & 1 ? 0 : 4));
}

/* Unpack block i of Q6_K. 128 values (four blocks of 32) have 64 bytes of nibbles and 32 bytes of top bits. A low
 * nibble belongs to block 0 or 1, a high nibble to block 2 or 3. */
static void unpack_q6_k(const struct block_q6_k *b, int i, int8_t q[32], float scale[2])
{
	const uint8_t *ql = b->ql + i / 4 * 64 + i % 2 * 32, *qh = b->qh + i / 4 * 32;

	for (int h = 0; h < 2; h++)
		scale[h] = f16_to_f32(b->d) * (float)b->scales[2 * i + h];
	for (int j = 0; j < 32; j++)
		q[j] = (int8_t)(((ql[j] >> i % 4 / 2 * 4 & 15) | (qh[j] >> i % 4 * 2 & 3) << 4) - 32);
}

/* Unpack block i of IQ4_XS. A scale is stored as scale + 32 in 6 bits: the low four bits in scales_l, the top two bits
 * in scales_h. */
static void unpack_iq4_xs(const struct block_iq4_xs *b, int i, int8_t q[32], float scale[2])
{
	int sc = (b->scales_l[i / 2] >> i % 2 * 4 & 15) | (b->scales_h >> 2 * i & 3) << 4;

	scale[0] = scale[1] = f16_to_f32(b->d) * (float)(sc - 32);
	unpack_nibbles(q, b->qs + 16 * i, 0);
	for (int j = 0; j < 32; j++)
		q[j] = iq4_values[q[j]];
}

/* Unpack block i of the eight blocks of 32 values in a super-block. min[] is written only for types with a minimum; for
 * all other types, the caller has set it to 0. */
static void unpack_super(enum dtype t, const void *block, int i, int8_t q[32], float scale[2], float min[2])
{
	const struct block_tq1_0 *tq1 = block;
	const struct block_tq2_0 *tq2 = block;
	const struct block_q4_k *q4 = block;
	const struct block_q5_k *q5 = block;

	switch (t) {
	case DT_Q2_K: unpack_q2_k(block, i, q, scale, min); return;
	case DT_Q3_K: unpack_q3_k(block, i, q, scale); return;
	case DT_TQ1_0:
		scale[0] = scale[1] = f16_to_f32(tq1->d);
		for (int j = 0; j < 32; j++)
			q[j] = (int8_t)(tq1_digit(tq1, 32 * i + j) - 1);
		return;
	case DT_TQ2_0:
		scale[0] = scale[1] = f16_to_f32(tq2->d);
		unpack_twos(q, tq2->qs, i, 1);
		return;
	case DT_Q4_K:
		unpack_k_scale(q4->scales, q4->d, q4->dmin, i, scale, min);
		unpack_fours(q, q4->qs, i);
		return;
	case DT_Q5_K: /* bit i of qh[j] is the fifth bit of value j */
		unpack_k_scale(q5->scales, q5->d, q5->dmin, i, scale, min);
		unpack_fours(q, q5->qs, i);
		for (int j = 0; j < 32; j++)
			q[j] = (int8_t)(q[j] | (q5->qh[j] >> i & 1) << 4);
		return;
	case DT_Q6_K: unpack_q6_k(block, i, q, scale); return;
	default: unpack_iq4_xs(block, i, q, scale); return;
	}
}

void quant_unpack32(enum dtype t, const void *row, int32_t block32, int8_t q[32], float scale[2], float min[2])
{
	int32_t per = info[t].block / 32;
	const void *block = (const uint8_t *)row + (size_t)(block32 / per) * (size_t)info[t].block_bytes;

	min[0] = min[1] = 0;
	if (per > 1)
		unpack_super(t, block, block32 % per, q, scale, min);
	else
		unpack_block(t, block, q, scale, min);
}

/* ---- conversions ---- */

static int has_min(enum dtype t)
{
	return t == DT_Q4_1 || t == DT_Q5_1 || t == DT_Q2_K || t == DT_Q4_K || t == DT_Q5_K;
}

int dtype_ternary(enum dtype t)
{
	return t == DT_TQ1_0 || t == DT_TQ2_0;
}

/* A Q2_K value is d * scale * q - dmin * min. With scale = min = 1 and dmin = d this is d * (q - 1), a ternary
 * value. */
void dtype_ternary_to_q2_k(enum dtype t, void *out, const void *in, int64_t n)
{
	struct block_q2_k *to = out;
	float scale[2], min[2];
	int8_t q[32];

	for (int64_t k = 0; k < n / 256; k++, to++) {
		/* the block is copied, because a file may place it at an odd address */
		union {
			struct block_tq1_0 tq1;
			struct block_tq2_0 tq2;
		} block;

		memcpy(&block, (const uint8_t *)in + k * info[t].block_bytes, (size_t)info[t].block_bytes);
		memset(to, 0, sizeof *to);
		memset(to->scales, 0x11, sizeof to->scales);
		to->d = to->dmin = t == DT_TQ1_0 ? block.tq1.d : block.tq2.d;
		for (int i = 0; i < 8; i++) {
			unpack_super(t, &block, i, q, scale, min);
			for (int j = 0; j < 32; j++)
				to->qs[i / 4 * 32 + j] |= (uint8_t)((q[j] + 1) << i % 4 * 2);
		}
	}
}

void dtype_to_f32(enum dtype t, float *out, const void *in, int64_t n)
{
	const uint16_t *half = in;
	int8_t q[32];
	float scale[2], min[2];

	switch (t) {
	case DT_F32: memcpy(out, in, (size_t)n * sizeof *out); return;
	case DT_F16:
		for (int64_t i = 0; i < n; i++)
			out[i] = f16_to_f32(half[i]);
		return;
	case DT_BF16:
		for (int64_t i = 0; i < n; i++)
			out[i] = bf16_to_f32(half[i]);
		return;
	default: break;
	}
	int64_t per = info[t].block / 32;
	for (int64_t i = 0; i < n / 32; i++, out += 32) {
		const uint8_t *block = (const uint8_t *)in + i / per * info[t].block_bytes;
		quant_unpack32(t, block, (int32_t)(i % per), q, scale, min);
		/* For types without a minimum, do not add 0, because -0 + 0 would lose the sign. */
		if (has_min(t))
			for (int j = 0; j < 32; j++)
				out[j] = scale[j / 16] * (float)q[j] + min[j / 16];
		else
			for (int j = 0; j < 32; j++)
				out[j] = scale[j / 16] * (float)q[j];
	}
}

/* Return the integer from 0 to `top` that is nearest to v, or 0 for NaN. */
static uint8_t level_of(float v, int top)
{
	v = floorf(v + 0.5f);
	if (!(v > 0))
		return 0;
	return (uint8_t)(v < (float)top ? v : (float)top);
}

/* Quantise 32 values to levels from 0 to `top`. With a minimum (m not NULL), level 0 is the smallest value. Without a
 * minimum, level 0 is the value of largest magnitude, because the signed range has one level more on that side; the
 * scale may then be negative. */
static void quantize_levels(uint8_t level[32], uint16_t *d, uint16_t *m, const float *x, int top)
{
	float lo = x[0], hi = x[0];

	for (int j = 1; j < 32; j++) {
		lo = fminf(lo, x[j]);
		hi = fmaxf(hi, x[j]);
	}
	float half = (float)(top + 1) / 2;
	float scale = m ? (hi - lo) / (float)top : (-lo > hi ? lo : hi) / -half;
	*d = f32_to_f16(scale);
	if (m)
		*m = f32_to_f16(lo);
	/* Compute the levels by the stored scale and offset, which are rounded to f16. */
	float s = f16_to_f32(*d), off = m ? f16_to_f32(*m) : -half * s;
	for (int j = 0; j < 32; j++)
		level[j] = s != 0 ? level_of((x[j] - off) / s, top) : m ? 0 : (uint8_t)half;
}

static void pack_nibbles(uint8_t qs[16], const uint8_t level[32])
{
	for (int j = 0; j < 16; j++)
		qs[j] = (uint8_t)((level[j] & 15) | (level[j + 16] & 15) << 4);
}

static void pack_fifth(uint8_t qh[4], const uint8_t level[32])
{
	memset(qh, 0, 4);
	for (int j = 0; j < 32; j++)
		qh[j / 8] |= (uint8_t)((level[j] >> 4) << j % 8);
}

static void quantize_q8_0(struct block_q8_0 *b, const float *x)
{
	float top = 0;

	for (int j = 0; j < 32; j++)
		top = fmaxf(top, fabsf(x[j]));
	b->d = f32_to_f16(top / 127);
	float s = f16_to_f32(b->d);
	for (int j = 0; j < 32; j++)
		b->qs[j] = s > 0 ? (int8_t)(level_of(x[j] / s + 127, 254) - 127) : 0;
}

int dtype_from_f32(enum dtype t, void *out, const float *in, int64_t n)
{
	uint8_t level[32];
	uint16_t *half = out;

	switch (t) {
	case DT_F32: memcpy(out, in, (size_t)n * sizeof *in); return 0;
	case DT_F16:
		for (int64_t i = 0; i < n; i++)
			half[i] = f32_to_f16(in[i]);
		return 0;
	case DT_BF16:
		for (int64_t i = 0; i < n; i++)
			half[i] = f32_to_bf16(in[i]);
		return 0;
	case DT_Q4_0:
		for (struct block_q4_0 *b = out; n > 0; n -= 32, in += 32, b++) {
			quantize_levels(level, &b->d, NULL, in, 15);
			pack_nibbles(b->qs, level);
		}
		return 0;
	case DT_Q4_1:
		for (struct block_q4_1 *b = out; n > 0; n -= 32, in += 32, b++) {
			quantize_levels(level, &b->d, &b->m, in, 15);
			pack_nibbles(b->qs, level);
		}
		return 0;
	case DT_Q5_0:
		for (struct block_q5_0 *b = out; n > 0; n -= 32, in += 32, b++) {
			quantize_levels(level, &b->d, NULL, in, 31);
			pack_nibbles(b->qs, level);
			pack_fifth(b->qh, level);
		}
		return 0;
	case DT_Q5_1:
		for (struct block_q5_1 *b = out; n > 0; n -= 32, in += 32, b++) {
			quantize_levels(level, &b->d, &b->m, in, 31);
			pack_nibbles(b->qs, level);
			pack_fifth(b->qh, level);
		}
		return 0;
	case DT_Q8_0:
		for (struct block_q8_0 *b = out; n > 0; n -= 32, in += 32, b++)
			quantize_q8_0(b, in);
		return 0;
	default: return -1;
	}
}
