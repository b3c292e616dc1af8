/* kernels/cpu/pack.h (private to kernels/) - layout of quantised weights that are rearranged for vector units.
 *
 * A panel is P rows side by side, each row in one 32-bit vector lane: P = 16 for AVX-512, 8 for AVX2 and NEON. So one
 * vector instruction multiplies four values of each of P rows with the same four values of the input. The last panel is
 * padded with rows of zeros.
 *
 * A panel is a sequence of groups. A group has 1, 2 or 8 blocks of 32 columns. It begins with a `head` of 4 * P bytes,
 * which has two half floats for each row:
 * - In a group of 2 blocks, these are the scales of the two blocks.
 * - In a group of 1 block, these are the scale and the minimum of the block.
 * - In a group of 8 blocks (K types and IQ4_XS), these are d and dmin. After the head comes `sub`: the small scales and
 *   minima of the blocks or half blocks, one byte each for every row.
 *
 * Last come the quantised values, block by block. */
#ifndef WEIR_CPU_PACK_H
#define WEIR_CPU_PACK_H

#include <stddef.h>
#include <stdint.h>
#include "kernels/backend.h"

/* The 32 quantised values of a block are stored in one or more of four planes: bytes, nibbles, twos and ones. A plane
 * is a sequence of units of 4 * P bytes, in which each row has four bytes. Byte j (0 .. 3) of a unit belongs to values
 * j, j + 4, j + 8 ... of the block:
 * - `bytes` has 8 units, with one value in each byte. Byte j of unit g is value 4 g + j. For AVX-512, 128 is added to
 *   each value; otherwise the byte is signed.
 * - `nibbles` has 4 units, with four bits of two values in each byte. Byte j of unit i has value 4 i + j in its low
 *   nibble and value 16 + 4 i + j in its high nibble.
 * - `twos` has 2 units, with two bits of four values in each byte. From the lowest bits to the highest, byte j of unit
 *   z has values 16 z + j, 16 z + 4 + j, 16 z + 8 + j and 16 z + 12 + j.
 * - `ones` has 1 unit, with one bit of eight values in each byte. Bit g of byte j belongs to value 4 g + j. */
struct pack_format {
	uint8_t group; /* number of blocks of 32 values in a group */
	uint8_t sub;   /* number of units in a group that contain small scales and minima */
	/* Each of these fields is 1 if a block has the plane of that name. The planes of a block are stored in the
	 * order of the fields. */
	uint8_t bytes, nibbles, twos, ones;
	uint8_t halves; /* number of scales per block of 32 values */
	uint8_t has_min;
	uint8_t offset; /* the stored value is q + offset */
	uint8_t lookup; /* the nibble is an index into nibble_values() */
	/* 1: the scales in the head of a group are bf16, not f16. This is for MXFP4, whose scales are powers of two
	 * that may exceed the range of f16. */
	uint8_t bf16;
	/* 1: products read columns of 16-bit words (cols.h), in which q and lo of struct act are one integer. This is
	 * used on AVX2 for weights that are stored as bytes. */
	uint8_t words;
};

/* The function is inline and is called with a constant type, so that every field becomes a constant. */
static inline struct pack_format pack_format_of(enum dtype type)
{
	switch (type) {
	case DT_Q4_0: return (struct pack_format){ .group = 2, .nibbles = 1, .halves = 1, .offset = 8 };
	case DT_Q4_1: return (struct pack_format){ .group = 1, .nibbles = 1, .halves = 1, .has_min = 1 };
	case DT_Q5_0: return (struct pack_format){ .group = 2, .nibbles = 1, .ones = 1, .halves = 1, .offset = 16 };
	case DT_Q5_1: return (struct pack_format){ .group = 1, .nibbles = 1, .ones = 1, .halves = 1, .has_min = 1 };
	case DT_Q8_0: return (struct pack_format){ .group = 2, .bytes = 1, .halves = 1, .offset = 128 };
	case DT_Q2_K: return (struct pack_format){ .group = 8, .sub = 4, .twos = 1, .halves = 2, .has_min = 1 };
	case DT_Q3_K:
		return (struct pack_format){ .group = 8, .sub = 4, .twos = 1, .ones = 1, .halves = 2, .offset = 4 };
	case DT_Q4_K: return (struct pack_format){ .group = 8, .sub = 4, .nibbles = 1, .halves = 1, .has_min = 1 };
	case DT_Q5_K:
		return (struct pack_format){ .group = 8, .sub = 4, .nibbles = 1, .ones = 1, .halves = 1, .has_min = 1 };
	case DT_Q6_K:
		return (struct pack_format){ .group = 8, .sub = 4, .nibbles = 1, .twos = 1, .halves = 2, .offset = 32 };
	case DT_IQ4_NL:
		return (struct pack_format){ .group = 2, .nibbles = 1, .halves = 1, .offset = 128, .lookup = 1 };
	case DT_IQ4_XS:
		return (struct pack_format){
			.group = 8, .sub = 2, .nibbles = 1, .halves = 1, .offset = 128, .lookup = 1
		};
	case DT_MXFP4:
		return (struct pack_format){
			.group = 2, .nibbles = 1, .halves = 1, .offset = 128, .lookup = 1, .bf16 = 1
		};
	default: return (struct pack_format){ 0 }; /* F32, F16 and BF16 weights are not packed */
	}
}

/* Return the number of units of one block's quantised values. */
static inline int32_t pack_block_units(struct pack_format f)
{
	return f.bytes * 8 + f.nibbles * 4 + f.twos * 2 + f.ones;
}

static inline int32_t pack_group_units(struct pack_format f)
{
	return 1 + f.sub + f.group * pack_block_units(f);
}

/* Return the size of a packed panel of `panel` rows in bytes, or 0 for types that are not packed. */
size_t cpu_pack_bytes(enum dtype, int32_t panel, int32_t cols);
/* Pack n_rows plain rows, row_bytes apart, into a panel. If sign_bit is 0x80, store Q8_0 values as q + 128; if it is 0,
 * store them as signed bytes. */
void cpu_pack(enum dtype, int32_t panel, uint8_t sign_bit, void *out, const void *rows, size_t row_bytes,
              int32_t n_rows, int32_t cols);

#endif
