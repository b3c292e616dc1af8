/* kernels/cpu/pack.c - rearranges plain rows of quantised weights into panels (layout: pack.h). This is done once per
 * weight while a model is loaded, and must be as fast as the disk. So bits are written four bytes at a time, with
 * shifts of whole words instead of loops over bits. */
#include "kernels/cpu/pack.h"
#include "kernels/common/quant.h"

size_t cpu_pack_bytes(enum dtype type, int32_t panel, int32_t cols)
{
	struct pack_format f = pack_format_of(type);
	int32_t blocks = cols / 32;

	if (!f.group)
		return 0;
	return (size_t)((blocks + f.group - 1) / f.group) * (size_t)pack_group_units(f) * 4 * (size_t)panel;
}

static uint32_t load32(const void *p)
{
	uint32_t u;

	memcpy(&u, p, sizeof u);
	return u;
}

static void store32(uint8_t *p, uint32_t u)
{
	memcpy(p, &u, sizeof u);
}

/* Write the stored values of 32 weights to w[]: q + offset, or indices into a table of values. These are the weights
 * from 32 * b to 32 * b + 31 of `row`. In `block`, the block of the model file that contains them, they begin at weight
 * 32 * i. */
static void block_values(enum dtype type, struct pack_format f, const uint8_t *block, int32_t i, const void *row,
                         int32_t b, uint8_t sign_bit, uint8_t w[32])
{
	const uint8_t *qs = NULL;
	float scale[2], min[2];
	int8_t q[32];

	switch (type) {
	case DT_Q4_0: qs = ((const struct block_q4_0 *)block)->qs; break;
	case DT_Q4_1: qs = ((const struct block_q4_1 *)block)->qs; break;
	case DT_IQ4_NL: qs = ((const struct block_iq4_nl *)block)->qs; break;
	case DT_IQ4_XS: qs = ((const struct block_iq4_xs *)block)->qs + 16 * i; break;
	case DT_MXFP4: qs = ((const struct block_mxfp4 *)block)->qs; break;
	case DT_Q8_0:
		for (int j = 0; j < 32; j++)
			w[j] = (uint8_t)((const struct block_q8_0 *)block)->qs[j] ^ sign_bit;
		return;
	/* Write four values at a time. A shift of a whole word moves bits into the neighbouring byte; the mask removes
	 * these bits. */
	case DT_Q4_K:
		qs = ((const struct block_q4_k *)block)->qs + 32 * (i / 2);
		for (int j = 0; j < 32; j += 4)
			store32(w + j, load32(qs + j) >> 4 * (i % 2) & 0x0f0f0f0f);
		return;
	case DT_Q5_K: {
		const uint8_t *high = ((const struct block_q5_k *)block)->qh;

		qs = ((const struct block_q5_k *)block)->qs + 32 * (i / 2);
		for (int j = 0; j < 32; j += 4)
			store32(w + j, (load32(qs + j) >> 4 * (i % 2) & 0x0f0f0f0f) |
			                       (load32(high + j) >> i & 0x01010101) << 4);
		return;
	}
	/* Each half of the block has 128 values. A value has its low four bits in ql and its top two bits in qh. */
	case DT_Q6_K: {
		const uint8_t *high = ((const struct block_q6_k *)block)->qh + 32 * (i / 4);

		qs = ((const struct block_q6_k *)block)->ql + 64 * (i / 4) + 32 * (i % 2);
		for (int j = 0; j < 32; j += 4)
			store32(w + j, (load32(qs + j) >> i % 4 / 2 * 4 & 0x0f0f0f0f) |
			                       (load32(high + j) >> i % 4 * 2 & 0x03030303) << 4);
		return;
	}
	default:
		quant_unpack32(type, row, b, q, scale, min);
		for (int j = 0; j < 32; j++)
			w[j] = (uint8_t)(q[j] + f.offset);
		return;
	}
	for (int j = 0; j < 16; j++) {
		w[j] = qs[j] & 15;
		w[j + 16] = qs[j] >> 4;
	}
}

/* Write the values w of a block of one row to the planes of the panel (pack.h). `out` is the address of the row's 4
 * bytes in the first unit of the block. */
static void put_planes(struct pack_format f, uint8_t *out, size_t unit, const uint8_t w[32])
{
	uint32_t v[8];

	for (int g = 0; g < 8; g++)
		v[g] = load32(w + 4 * g);
	if (f.bytes)
		for (int g = 0; g < 8; g++, out += unit)
			store32(out, v[g]);
	if (f.nibbles)
		for (int i = 0; i < 4; i++, out += unit) {
			store32(out, (v[i] & 0x0f0f0f0f) | (v[i + 4] & 0x0f0f0f0f) << 4);
			v[i] >>= 4;
			v[i + 4] >>= 4;
		}
	if (f.twos)
		for (int z = 0; z < 8; z += 4, out += unit) {
			store32(out, (v[z] & 0x03030303) | (v[z + 1] & 0x03030303) << 2 | (v[z + 2] & 0x03030303) << 4 |
			                     (v[z + 3] & 0x03030303) << 6);
			for (int t = z; t < z + 4; t++)
				v[t] >>= 2;
		}
	if (f.ones) {
		uint32_t bits = 0;

		for (int g = 0; g < 8; g++)
			bits |= (v[g] & 0x01010101) << g;
		store32(out, bits);
	}
}

static void put_half(uint8_t *unit, int32_t at, uint16_t h)
{
	memcpy(unit + 2 * (size_t)at, &h, sizeof h);
}

/* Write d and the minimum of row r to the head of a group. The head has P half floats for d, then P half floats for the
 * minimum. P is the number of rows of a panel. */
static void put_halves(uint8_t *head, int32_t panel, int32_t r, uint16_t d, uint16_t min)
{
	put_half(head, r, d);
	put_half(head, panel + r, min);
}

/* Write the six-bit scales and minima of Q4_K and Q5_K, a byte each. `s` has their packed form, which the comment of
 * k_scale_min() in quant.c describes. */
static void put_k_scales(uint8_t *sub, int32_t panel, const uint8_t s[12])
{
	for (int i = 0; i < 8; i++) {
		sub[(2 * i) * panel] = i < 4 ? s[i] & 63 : (uint8_t)((s[i + 4] & 15) | (s[i - 4] >> 6) << 4);
		sub[(2 * i + 1) * panel] = i < 4 ? s[i + 4] & 63 : (uint8_t)(s[i + 4] >> 4 | (s[i] >> 6) << 4);
	}
}

/* Write the 16 scales of Q3_K, a signed byte each. `s` has their packed form, which the comment of q3_scale() in
 * quant.c describes. */
static void put_q3_scales(uint8_t *sub, int32_t panel, const uint8_t s[12])
{
	for (int i = 0; i < 16; i++) {
		int lo = i < 8 ? s[i] & 15 : s[i - 8] >> 4;

		sub[i * panel] = (uint8_t)((lo | (s[8 + i % 4] >> i / 4 * 2 & 3) << 4) - 32);
	}
}

/* Write the 8 scales of IQ4_XS, a signed byte each. */
static void put_iq4_scales(uint8_t *sub, int32_t panel, const struct block_iq4_xs *b)
{
	for (int i = 0; i < 8; i++)
		sub[i * panel] =
			(uint8_t)(((b->scales_l[i / 2] >> i % 2 * 4 & 15) | (b->scales_h >> 2 * i & 3) << 4) - 32);
}

static void put_bytes(uint8_t *sub, int32_t panel, const uint8_t scale[16])
{
	for (int i = 0; i < 16; i++)
		sub[i * panel] = scale[i];
}

/* Write the scales of row r to the head of a group, and its small scales to `sub` (pack.h). `block` is the row's block
 * in the model file. `sub` consists of arrays with one byte for each row of the panel. The number and contents of these
 * arrays depend on the type:
 * - Q4_K and Q5_K have two arrays for each block: its scale and its minimum.
 * - Q2_K has one array for each half block. The low four bits of a byte are the scale, and the high four bits the
 *   minimum.
 * - Q3_K and Q6_K have one array for each half block: its signed scale.
 * - IQ4_XS has one array for each block: its signed scale. */
static void put_scales(enum dtype type, uint8_t *head, uint8_t *sub, int32_t panel, int32_t r, int32_t in_group,
                       const void *block)
{
	union {
		const void *p;
		const struct block_q4_0 *q4_0;
		const struct block_q4_1 *q4_1;
		const struct block_q5_0 *q5_0;
		const struct block_q5_1 *q5_1;
		const struct block_q8_0 *q8_0;
		const struct block_q2_k *q2_k;
		const struct block_q3_k *q3_k;
		const struct block_q4_k *q4_k;
		const struct block_q5_k *q5_k;
		const struct block_q6_k *q6_k;
		const struct block_iq4_nl *iq4_nl;
		const struct block_iq4_xs *iq4_xs;
		const struct block_mxfp4 *mxfp4;
	} b = { block };
	const int32_t at = in_group * panel + r;

	sub += r;
	switch (type) {
	case DT_Q4_0: put_half(head, at, b.q4_0->d); break;
	case DT_Q5_0: put_half(head, at, b.q5_0->d); break;
	case DT_Q8_0: put_half(head, at, b.q8_0->d); break;
	case DT_IQ4_NL: put_half(head, at, b.iq4_nl->d); break;
	case DT_MXFP4: put_half(head, at, mxfp4_scale(b.mxfp4->e)); break;
	case DT_Q4_1: put_halves(head, panel, r, b.q4_1->d, b.q4_1->m); break;
	case DT_Q5_1: put_halves(head, panel, r, b.q5_1->d, b.q5_1->m); break;
	case DT_Q2_K:
		put_halves(head, panel, r, b.q2_k->d, b.q2_k->dmin);
		put_bytes(sub, panel, b.q2_k->scales);
		break;
	case DT_Q3_K:
		put_half(head, r, b.q3_k->d);
		put_q3_scales(sub, panel, b.q3_k->scales);
		break;
	case DT_Q4_K:
		put_halves(head, panel, r, b.q4_k->d, b.q4_k->dmin);
		put_k_scales(sub, panel, b.q4_k->scales);
		break;
	case DT_Q5_K:
		put_halves(head, panel, r, b.q5_k->d, b.q5_k->dmin);
		put_k_scales(sub, panel, b.q5_k->scales);
		break;
	case DT_Q6_K:
		put_half(head, r, b.q6_k->d);
		put_bytes(sub, panel, (const uint8_t *)b.q6_k->scales);
		break;
	case DT_IQ4_XS:
		put_half(head, r, b.iq4_xs->d);
		put_iq4_scales(sub, panel, b.iq4_xs);
		break;
	default: break;
	}
}

void cpu_pack(enum dtype type, int32_t panel, uint8_t sign_bit, void *out, const void *rows, size_t row_bytes,
              int32_t n_rows, int32_t cols)
{
	struct pack_format f = pack_format_of(type);
	const struct dtype_info *info = dtype_info(type);
	int32_t per = info->block / 32; /* number of blocks of 32 weights in one block of the file */
	size_t unit = 4 * (size_t)panel, group_bytes = (size_t)pack_group_units(f) * unit;
	size_t block_bytes = (size_t)pack_block_units(f) * unit;

	memset(out, 0, cpu_pack_bytes(type, panel, cols));
	for (int32_t b = 0; b < cols / 32; b++) {
		uint8_t *head = (uint8_t *)out + (size_t)(b / f.group) * group_bytes, *sub = head + unit;
		uint8_t *quants = sub + f.sub * unit + (size_t)(b % f.group) * block_bytes;

		for (int32_t r = 0; r < n_rows; r++) {
			const uint8_t *row = (const uint8_t *)rows + (size_t)r * row_bytes;
			const uint8_t *block = row + (size_t)(b / per) * (size_t)info->block_bytes;
			uint8_t w[32];

			if (b % per == 0)
				put_scales(type, head, sub, panel, r, b % f.group, block);
			block_values(type, f, block, b % per, row, b, sign_bit, w);
			put_planes(f, quants + 4 * (size_t)r, unit, w);
		}
	}
}
