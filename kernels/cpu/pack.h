/* kernels/cpu/pack.h (private to kernels/) - layout of quantised weights that are rearranged for vector units.
 *
 * A panel is P rows side by side, each row in one 32-bit vector lane: P = 16 for AVX-512, 8 for AVX2 and NEON. So one
 * vector instruction multiplies four values of each of P rows with the same four values of the input. The last panel
 * is padded with rows of zeros.
 *
 * A panel is a sequence of groups, each for 1, 2 or 8 blocks of 32 columns. A group begins with its `head`, a unit (4 *
 * P bytes) with two half floats for each row: the scales of two blocks; or the scale and minimum of one block; or, for
 * K types, d and dmin of the group. In K types the head is followed by `sub`, small scales and minima of P bytes for
 * every block or half block. The quantised values follow, block by block. */
#ifndef WEIR_CPU_PACK_H
#define WEIR_CPU_PACK_H

#include <stddef.h>
#include <stdint.h>
#include "kernels/backend.h"

/* The 32 quantised values of a block are stored in one or more of four planes. In each unit (4 * P bytes) of a plane
 * a row has four bytes. Byte j (0 .. 3) is for values j, j + 4, j + 8 ... of the block:
 * - bytes, 8 units: one value in a byte; unit g has values 4 g + j. For AVX-512, 128 is added to each value; otherwise
 *   the byte is signed.
 * - nibbles, 4 units: two values in a byte; unit i has value 4 i + j in the low nibble, value 4 i + 16 + j in the
 *   high one.
 * - twos, 2 units: two bits of each of four values in a byte; unit z has the bits of value 16 z + 4 t + j in bits 2 t
 *   and 2 t + 1.
 * - ones, 1 unit: one bit of each of eight values in a byte; bit g is the bit of value 4 g + j. */
struct pack_format {
	uint8_t group;                      /* number of blocks of 32 values in a group */
	uint8_t sub;                        /* number of units of small scales in a group */
	uint8_t bytes, nibbles, twos, ones; /* 1 if the plane is present; the planes of a block have this order */
	uint8_t halves;                     /* number of scales per block of 32 values */
	uint8_t has_min;
	uint8_t offset; /* the stored value is q + offset */
	uint8_t lookup; /* the nibble is an index into nibble_values() */
	/* 1: the scales in the head of a group are bf16, not f16: for MXFP4, whose scales are powers of two that may
	 * exceed the range of f16 */
	uint8_t bf16;
	/* 1: products use columns of 16-bit words (cols.h), in which q and lo of struct act are one integer; on AVX2,
	 * for weights that are stored as bytes */
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
	default: return (struct pack_format){ 0 }; /* weights of floats are not packed */
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

/* Return the bytes of a packed panel of `panel` rows, or 0 for types that stay plain rows. */
size_t cpu_pack_bytes(enum dtype, int32_t panel, int32_t cols);
/* Pack n_rows plain rows, row_bytes apart, into a panel. sign_bit 0x80 stores Q8_0 values as q + 128; 0 stores
 * them as signed bytes. */
void cpu_pack(enum dtype, int32_t panel, uint8_t sign_bit, void *out, const void *rows, size_t row_bytes,
              int32_t n_rows, int32_t cols);

#endif
