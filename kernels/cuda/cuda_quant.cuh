/* kernels/cuda/cuda_quant.cuh (private to kernels/cuda/) - the device layout of weights, and device code that reads it.
 *
 * Blocks in model files have odd sizes (18, 34, 110, 210 bytes), but memory is read fastest in 16 aligned bytes. So a
 * row of a quantised weight is stored as planes, each aligned to 16 bytes:
 * - `main` has the low 8, 4 or 2 bits of every weight. A block of 32 weights takes 32, 16 or 8 bytes.
 * - `extra` has the bits above these, for types of 3, 5 and 6 bits. A block takes 4 or 8 bytes.
 * - `head` has scales and minimums: 2 or 4 bytes for a block, or 8 or 16 bytes for 256 weights, as in the file.
 * - `head2` has the factors that all scales of 256 weights share, unless `head` has them.
 *
 * Nothing is rounded. Apart from the alignment, a row has the same size as in the file, with two exceptions. For 3
 * bits, the scales are unpacked to bytes. For MXFP4, the scales, powers of two, are stored as upper halves of floats.
 *
 * The integer stored for a weight is its level: weight = scale * (level - offset), or scale * level + minimum, with one
 * scale and minimum per 32 or per 16 weights. __dp4a() multiplies words of four levels. A block of 32 has eight such
 * words: level word k has levels 4k .. 4k + 3, one in each byte. Their bits are stored in words of the planes:
 * - With 8 bits in `main`, main word k is level word k.
 * - With 4 bits in `main`, main word m has level word m in its low nibbles and level word m + 4 in its high nibbles.
 * - For IQ4 and MXFP4, main word m has level word m in its low half and level word m + 4 in its high half. A half has
 *   four nibbles, which select the four levels from a table.
 * - With 2 bits in `main`, main word m has level words 4m .. 4m + 3. Every byte has the first of them in its two lowest
 *   bits, and the last in its two highest bits.
 * - With 1 bit in `extra`, the only extra word has level word k in bit k of every byte.
 * - With 2 bits in `extra`, extra word m has level words 4m .. 4m + 3, in the same order as main words of 2 bits.
 *
 * Float weights keep their values; rows are padded to 16 bytes. */
#ifndef WEIR_CUDA_QUANT_CUH
#define WEIR_CUDA_QUANT_CUH

#include "kernels/cuda/cuda.cuh"

/* Values of tensor.layout. LAYOUT_PLAIN means rows as in the file. LAYOUT_WEIGHT means a struct weight_head, which rows
 * of planes or padded rows of floats follow. */
enum { LAYOUT_PLAIN, LAYOUT_WEIGHT };

/* Header in front of the rows of a weight. */
struct weight_head {
	uint32_t largest; /* the largest magnitude of the matrix, as the bits of a float; not set for f16 weights */
	uint32_t unused[63];
};

/* A weight as an argument of kernels. */
struct weight_rows {
	const uint8_t *p; /* address of the first row */
	uint64_t stride;  /* number of bytes from one row to the next */
	/* byte offsets of the planes `extra`, `head` and `head2` in a row; the plane `main` begins at offset 0 */
	uint32_t extra, head, head2;
	int32_t rows, cols, type;
};

/* Set *out to the address and layout of weight t. Return 0, or -1 with the error set if t is not a weight.
 * (cuda_weights.cu) */
int cuda_weight_rows(struct cuda *, const struct tensor *t, struct weight_rows *out);
/* Return the device address of t's weight_head, which decides how a conversion to f16 is scaled, or NULL if it is not
 * scaled. */
const struct weight_head *cuda_weight_head(const struct tensor *t);
/* Convert n rows of a weight, from row0 on, to f16 [n][cols]. If a struct weight_head is given, scale the rows by
 * 2^half_exponent(weight_head.largest). */
void cuda_weight_half(struct cuda *, const struct weight_rows *, const struct weight_head *, int32_t row0, int32_t n,
                      void *out);

/* ---- properties of the types ---- */

__host__ __device__ constexpr bool quant_is(int t)
{
	return t > DT_BF16 && t <= DT_MXFP4;
}
__host__ __device__ constexpr int quant_main_bits(int t)
{
	return t == DT_Q8_0 ? 8 : t == DT_Q2_K || t == DT_Q3_K ? 2 : 4;
}
__host__ __device__ constexpr int quant_extra_bits(int t)
{
	return t == DT_Q5_0 || t == DT_Q5_1 || t == DT_Q5_K || t == DT_Q3_K ? 1 : t == DT_Q6_K ? 2 : 0;
}
__host__ __device__ constexpr int quant_offset(int t)
{
	return t == DT_Q4_0 ? 8 : t == DT_Q5_0 ? 16 : t == DT_Q3_K ? 4 : t == DT_Q6_K ? 32 : 0;
}
__host__ __device__ constexpr bool quant_has_min(int t)
{
	return t == DT_Q4_1 || t == DT_Q5_1 || t == DT_Q2_K || t == DT_Q4_K || t == DT_Q5_K;
}
/* Return the number of scales per block of 32 weights. */
__host__ __device__ constexpr int quant_scales(int t)
{
	return t == DT_Q2_K || t == DT_Q3_K || t == DT_Q6_K ? 2 : 1;
}
__host__ __device__ constexpr bool quant_table(int t)
{
	return t == DT_IQ4_NL || t == DT_IQ4_XS || t == DT_MXFP4;
}

/* ---- levels ---- */

/* Return four of the 16 values in type T's table (nibble_values() on the CPU), selected by the four low nibbles of
 * `sel`. The low three bits of a nibble select one value in each half of the table. The high bit of the nibble selects
 * the half. */
template <int T> static __device__ __forceinline__ uint32_t nibble_lookup(uint32_t sel)
{
	uint32_t low = sel & 0x7777u;
	uint32_t a =
		T == DT_MXFP4 ? __byte_perm(0x03020100u, 0x0c080604u, low) : __byte_perm(0xbfad9881u, 0xf6eaddcfu, low);
	uint32_t b =
		T == DT_MXFP4 ? __byte_perm(0xfdfeff00u, 0xf4f8fafcu, low) : __byte_perm(0x26190d01u, 0x71594535u, low);

	return __byte_perm(a, b, 0x3210u | (sel & 0x8888u) >> 1);
}

/* Return the levels from 4 k to 4 k + 3 of a block as the bytes of a word. `m` is the main word that quant_main_word()
 * selects for k, and `e` is the extra word that quant_extra_word() selects. */
template <int T> static __device__ __forceinline__ uint32_t quant_levels(uint32_t m, uint32_t e, int k)
{
	uint32_t q;

	if (quant_table(T))
		return nibble_lookup<T>(k < 4 ? m : m >> 16);
	if (quant_main_bits(T) == 8)
		return m;
	if (quant_main_bits(T) == 4)
		q = (k < 4 ? m : m >> 4) & 0x0f0f0f0fu;
	else
		q = m >> 2 * (k & 3) & 0x03030303u;
	if (quant_extra_bits(T) == 2)
		q |= ((k & 3) < 2 ? e << (4 - 2 * (k & 3)) : e >> (2 * (k & 3) - 4)) & 0x30303030u;
	else if (quant_extra_bits(T) == 1 && quant_main_bits(T) == 4)
		q |= (k < 4 ? e << (4 - k) : e >> (k - 4)) & 0x10101010u;
	else if (quant_extra_bits(T) == 1)
		q |= (k < 2 ? e << (2 - k) : e >> (k - 2)) & 0x04040404u;
	return q;
}

template <int T> static __device__ __forceinline__ int quant_main_word(int block, int k)
{
	return quant_main_bits(T) == 8   ? 8 * block + k
	       : quant_main_bits(T) == 4 ? 4 * block + (k & 3)
	                                 : 2 * block + (k >> 2);
}
template <int T> static __device__ __forceinline__ int quant_extra_word(int block, int k)
{
	return quant_extra_bits(T) == 2 ? 2 * block + (k >> 2) : block;
}

/* ---- scales ---- */

/* Convert the bits of an f16 to a float. */
static __device__ __forceinline__ float half_bits(uint32_t h)
{
	return __half2float(__ushort_as_half((unsigned short)h));
}
static __device__ __forceinline__ uint32_t load_u16(const uint8_t *p)
{
	return __ldg((const unsigned short *)p);
}
static __device__ __forceinline__ uint32_t load_u32(const uint8_t *p)
{
	return __ldg((const unsigned *)p);
}

/* Load the words with a block's scales and minimums. The words may also have scales of other blocks; quant_scale()
 * selects the scales of the wanted block. */
template <int T>
static __device__ __forceinline__ uint4 quant_head(const uint8_t *row, uint32_t head, uint32_t head2, int block)
{
	uint4 h = make_uint4(0, 0, 0, 0);

	switch (T) {
	case DT_Q4_1:
	case DT_Q5_1: h.x = load_u32(row + head + 4 * (size_t)block); break;
	case DT_Q4_K:
	case DT_Q5_K: h = __ldg((const uint4 *)(row + head + 16 * (size_t)(block >> 3))); break;
	case DT_IQ4_XS: {
		uint2 v = __ldg((const uint2 *)(row + head + 8 * (size_t)(block >> 3)));

		h.x = v.x;
		h.y = v.y;
		break;
	}
	case DT_Q6_K:
		h.x = load_u16(row + head + 2 * (size_t)block);
		h.y = load_u16(row + head2 + 2 * (size_t)(block >> 3));
		break;
	case DT_Q2_K:
		h.x = load_u32(row + head + 4 * (size_t)(block >> 1));
		h.y = load_u32(row + head2 + 4 * (size_t)(block >> 3));
		break;
	case DT_Q3_K:
		h.x = load_u32(row + head + 4 * (size_t)(block >> 1));
		h.y = load_u16(row + head2 + 2 * (size_t)(block >> 3));
		break;
	default: h.x = load_u16(row + head + 2 * (size_t)block);
	}
	return h;
}

/* Convert an integer below 2^23 to float: put the integer into the low bits of the float 2^23, then subtract 2^23. The
 * conversion instruction has only a quarter of the throughput of this subtraction. */
static __device__ __forceinline__ float small_float(uint32_t x)
{
	return __uint_as_float(0x4b000000u | x) - 8388608.0f;
}

/* Compute scale s and minimum m of half i of a block. Every operation is rounded as in dtype_to_f32(). */
template <int T>
static __device__ __forceinline__ void quant_scale(const uint4 &h, int block, int i, float *s, float *m)
{
	uint32_t two;

	*m = 0;
	switch (T) {
	case DT_Q4_1:
	case DT_Q5_1:
		*s = half_bits(h.x);
		*m = half_bits(h.x >> 16);
		break;
	case DT_Q4_K:
	case DT_Q5_K: {
		/* There are eight scales and eight minimums of 6 bits. The first four scales and the first four
		 * minimums have a byte each; the others are split over two bytes. */
		int by = 8 * (block & 3);
		uint32_t a = h.y >> by, b = h.z >> by, c = h.w >> by;
		bool late = block & 4;
		uint32_t sc = late ? (c & 15) | (a >> 2 & 0x30) : a & 63,
			 mn = late ? (c >> 4 & 15) | (b >> 2 & 0x30) : b & 63;

		*s = __fmul_rn(half_bits(h.x), small_float(sc));
		*m = -__fmul_rn(half_bits(h.x >> 16), small_float(mn));
		break;
	}
	case DT_IQ4_XS: {
		int j = block & 7;
		uint32_t sc = (h.y >> 4 * j & 15) | (h.x >> (16 + 2 * j) & 3) << 4;

		*s = __fmul_rn(half_bits(h.x), small_float(sc) - 32.0f);
		break;
	}
	case DT_Q2_K:
		two = h.x >> (16 * (block & 1) + 8 * i);
		*s = __fmul_rn(half_bits(h.y), small_float(two & 15));
		*m = -__fmul_rn(half_bits(h.y >> 16), small_float(two >> 4 & 15));
		break;
	case DT_Q3_K:
		two = h.x >> (16 * (block & 1) + 8 * i);
		*s = __fmul_rn(half_bits(h.y), (float)(int8_t)two);
		break;
	case DT_Q6_K: *s = __fmul_rn(half_bits(h.y), (float)(int8_t)(h.x >> 8 * i)); break;
	case DT_MXFP4: *s = __uint_as_float(h.x << 16); break;
	default: *s = half_bits(h.x);
	}
}

/* ---- weights as floats, where speed does not matter ---- */

/* Convert the weights from 8j to 8j + 7 of a row, with the same bits as dtype_to_f32(). */
template <int T>
static __device__ __forceinline__ void quant_eight(const weight_rows &w, const uint8_t *row, int j, float v[8])
{
	int block = j >> 2;
	uint4 h = quant_head<T>(row, w.head, w.head2, block);
	float s, m;

	quant_scale<T>(h, block, (j & 3) >> 1, &s, &m);
	for (int i = 0; i < 2; i++) {
		int k = 2 * (j & 3) + i;
		uint32_t e =
			quant_extra_bits(T) ? load_u32(row + w.extra + 4 * (size_t)quant_extra_word<T>(block, k)) : 0;
		uint32_t q = quant_levels<T>(load_u32(row + 4 * (size_t)quant_main_word<T>(block, k)), e, k);

		for (int b = 0; b < 4; b++) {
			float x = __fmul_rn(s, (float)((int)(int8_t)(q >> 8 * b) - quant_offset(T)));

			v[4 * i + b] = quant_has_min(T) ? __fadd_rn(x, m) : x;
		}
	}
}

static __device__ __forceinline__ float weight_float(int type, const uint8_t *row, int64_t col)
{
	if (type == DT_F32)
		return ((const float *)row)[col];
	uint32_t h = ((const unsigned short *)row)[col];

	return type == DT_F16 ? half_bits(h) : __uint_as_float(h << 16);
}

/* Convert the weights from 8j to 8j + 7 of row `at`, for any type. The row has n of these weights; the others become
 * 0. */
static __device__ inline void weight_eight(const weight_rows &w, int64_t at, int j, int n, float v[8])
{
	const uint8_t *row = w.p + (size_t)at * w.stride;

	switch (w.type) {
	case DT_Q4_0: quant_eight<DT_Q4_0>(w, row, j, v); return;
	case DT_Q4_1: quant_eight<DT_Q4_1>(w, row, j, v); return;
	case DT_Q5_0: quant_eight<DT_Q5_0>(w, row, j, v); return;
	case DT_Q5_1: quant_eight<DT_Q5_1>(w, row, j, v); return;
	case DT_Q8_0: quant_eight<DT_Q8_0>(w, row, j, v); return;
	case DT_Q2_K: quant_eight<DT_Q2_K>(w, row, j, v); return;
	case DT_Q3_K: quant_eight<DT_Q3_K>(w, row, j, v); return;
	case DT_Q4_K: quant_eight<DT_Q4_K>(w, row, j, v); return;
	case DT_Q5_K: quant_eight<DT_Q5_K>(w, row, j, v); return;
	case DT_Q6_K: quant_eight<DT_Q6_K>(w, row, j, v); return;
	case DT_IQ4_NL: quant_eight<DT_IQ4_NL>(w, row, j, v); return;
	case DT_IQ4_XS: quant_eight<DT_IQ4_XS>(w, row, j, v); return;
	case DT_MXFP4: quant_eight<DT_MXFP4>(w, row, j, v); return;
	default:
		for (int i = 0; i < 8; i++)
			v[i] = i < n ? weight_float(w.type, row, 8 * (int64_t)j + i) : 0;
	}
}

/* ---- range of f16 ---- */

/* Return an exponent e: values up to `largest` (the bits of a float), multiplied by 2^e, are in the range of f16. If
 * `largest` is already between 2^-6 and 2^15, or if it is 0, infinity or NaN, return 0. */
static __host__ __device__ inline int half_exponent(uint32_t largest)
{
	int e = (int)(largest >> 23) - 127;

	if (e == 128 || !largest || (e >= -6 && e < 15))
		return 0;
	return e < -107 ? 120 : 13 - e;
}

/* Return x * 2^e, in two steps so that no intermediate result overflows. */
static __device__ __forceinline__ float times_power(float x, int e)
{
	int a = e / 2, b = e - a;

	return x * __uint_as_float((uint32_t)(127 + a) << 23) * __uint_as_float((uint32_t)(127 + b) << 23);
}

#endif
