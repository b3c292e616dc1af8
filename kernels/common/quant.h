/* kernels/common/quant.h (private to kernels/) - block layouts of the GGUF weight types, and half floats.
 *
 * The structs have the bytes of GGUF files (little endian, blocks contiguous). dtype_to_f32() in quant.c is the
 * reference conversion of every type; all faster conversions are tested against it. */
#ifndef WEIR_QUANT_H
#define WEIR_QUANT_H

#include <stdint.h>
#include <string.h>
#include "kernels/backend.h"

/* A weight w is d * (q - 8). The low nibble of qs[j] is q[j], the high nibble is q[j + 16]. */
struct block_q4_0 {
	uint16_t d;
	uint8_t qs[16];
};
struct block_q4_1 {
	uint16_t d, m;
	uint8_t qs[16];
}; /* a weight is d * q + m */
struct block_q5_0 {
	uint16_t d;
	uint8_t qh[4];
	uint8_t qs[16];
}; /* a weight is d * (q - 16); bit 4 of q[j] is stored in bit j of qh */
struct block_q5_1 {
	uint16_t d, m;
	uint8_t qh[4];
	uint8_t qs[16];
}; /* a weight is d * q + m */
struct block_q8_0 {
	uint16_t d;
	int8_t qs[32];
}; /* a weight is d * q */
struct block_q2_k {
	uint8_t scales[16];
	uint8_t qs[64];
	uint16_t d, dmin;
};
struct block_q3_k {
	uint8_t hmask[32];
	uint8_t qs[64];
	uint8_t scales[12];
	uint16_t d;
};
struct block_q4_k {
	uint16_t d, dmin;
	uint8_t scales[12];
	uint8_t qs[128];
};
struct block_q5_k {
	uint16_t d, dmin;
	uint8_t scales[12];
	uint8_t qh[32];
	uint8_t qs[128];
};
struct block_q6_k {
	uint8_t ql[128];
	uint8_t qh[64];
	int8_t scales[16];
	uint16_t d;
};
struct block_iq4_nl {
	uint16_t d;
	uint8_t qs[16];
};
struct block_iq4_xs {
	uint16_t d, scales_h;
	uint8_t scales_l[4];
	uint8_t qs[128];
};
struct block_tq1_0 {
	uint8_t qs[48];
	uint8_t qh[4];
	uint16_t d;
}; /* a weight is d * (q - 1); a byte of qs stores five values q, a byte of qh stores four */
struct block_tq2_0 {
	uint8_t qs[64];
	uint16_t d;
}; /* a weight is d * (q - 1); the values q are stored as in Q2_K */
struct block_mxfp4 {
	uint8_t e;
	uint8_t qs[16];
}; /* a weight is 2^(e - 128) * mxfp4_values[q] */

/* Convert an IEEE half to float (exactly), and a float to a half (to the nearest value, ties to even), in plain C on
 * any machine. */
float f16_to_f32(uint16_t h);
uint16_t f32_to_f16(float f);
float bf16_to_f32(uint16_t h);

/* The value of each nibble from 0 to 15: iq4_values for the IQ4 types, mxfp4_values for MXFP4 (OCP MX 1.0).
 * mxfp4_values are twice the values of the format, so that they are integers. In return, mxfp4_scale() is half the
 * scale. */
extern const int8_t iq4_values[16], mxfp4_values[16];
/* Return the table of values for a type whose nibbles are indices into a table. */
static inline const int8_t *nibble_values(enum dtype t)
{
	return t == DT_MXFP4 ? mxfp4_values : iq4_values;
}
/* Return the upper 16 bits of the scale 2^(e - 128) as a float; its lower 16 bits are zero. */
static inline uint16_t mxfp4_scale(uint8_t e)
{
	return e < 2 ? (uint16_t)(0x20 << e) : (uint16_t)((e - 1) << 7);
}

/* Unpack 32 weights of any quantised type to integers: w[j] = scale[j / 16] * q[j] + min[j / 16]. Every q fits int8.
 * `block32` is the index in `row` of the block of 32 weights. */
void quant_unpack32(enum dtype, const void *row, int32_t block32, int8_t q[32], float scale[2], float min[2]);

#endif
