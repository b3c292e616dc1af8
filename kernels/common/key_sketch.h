/* kernels/common/key_sketch.h (private to kernels/) - memory layout of a key sketch: a layer's keys in 2, 4 or 8 bits
 * per value, from which scores are estimated. The layout is the same on every backend.
 *
 * A key is about mean + H (scale * (2 code - most)), where most = 2^bits - 1, `mean` is the mean of a block of keys,
 * and H is the Hadamard transform. Subtracting the mean removes the large offset that keys have in some dimensions. H
 * spreads the remaining differences evenly over all dimensions. Queries are transformed, too, which leaves dot
 * products unchanged. The scale is chosen so that dot products are unbiased (RaBitQ, arXiv 2405.12497).
 *
 * A full block is centred by the mean of its own keys. A last block that is not full is centred by the mean of the
 * block before it or, if it is the first block, by 0. So the sketch depends only on the keys, not on how many are added
 * at a time. */

/* Layout: for each KV head, blocks of SKETCH_BLOCK (256) keys. A block consists of:
 * - the mean (f32 [head_dim]) and a flag (f32, 1 if the mean is of this block's own keys), together padded to 64 bytes
 * - the scales of the 256 keys, f16
 * - 16 panels of 16 keys each
 * A panel is a sequence of units of 64 bytes. A unit has a lane of 32 bits for each of the 16 keys. A lane has the
 * codes of 32 / bits consecutive values of a key. Byte j (from 0 to 3) of the lane has the codes of values j, j + 4, j
 * + 8 ... of these, the first in its lowest bits. So a shift and a mask turn a unit into bytes with four consecutive
 * values of each key, as byte products need them. */
#ifndef WEIR_KEY_SKETCH_H
#define WEIR_KEY_SKETCH_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/backend.h"

/* SKETCH_PANEL is the number of keys in a panel (keys side by side). SKETCH_GROUP is the number of values whose
 * products are summed as integers, before the sum is converted to float. */
enum { SKETCH_PANEL = 16, SKETCH_GROUP = 64 };

static inline int32_t sketch_groups(int32_t head_dim)
{
	return (head_dim - 1) / SKETCH_GROUP + 1;
}

/* Return the number of units that n values of a key occupy. A unit has 32 bits of each key of a panel. */
static inline int32_t sketch_units(int32_t n, int32_t bits)
{
	return (int32_t)(((int64_t)n * bits + 31) / 32);
}

/* Return the number of values in group g: SKETCH_GROUP, or fewer in the last group. */
static inline int32_t sketch_values(int32_t head_dim, int32_t g)
{
	return head_dim - g * SKETCH_GROUP < SKETCH_GROUP ? head_dim - g * SKETCH_GROUP : SKETCH_GROUP;
}

/* Return the offset of the scales in a block, in bytes. */
static inline size_t sketch_mean_bytes(int32_t head_dim)
{
	return (4 * ((size_t)head_dim + 1) + 63) / 64 * 64;
}

/* Return the offset of the panels in a block, in bytes. */
static inline size_t sketch_head_bytes(int32_t head_dim)
{
	return sketch_mean_bytes(head_dim) + 2 * SKETCH_BLOCK;
}

static inline size_t sketch_panel_bytes(int32_t head_dim, int32_t bits)
{
	return 64 * (size_t)sketch_units(head_dim, bits);
}

static inline size_t sketch_block_bytes(int32_t head_dim, int32_t bits)
{
	return sketch_head_bytes(head_dim) + SKETCH_BLOCK / SKETCH_PANEL * sketch_panel_bytes(head_dim, bits);
}

static inline int32_t sketch_blocks(int32_t cap)
{
	return (cap - 1) / SKETCH_BLOCK + 1;
}

/* Return the step between two codes, in standard deviations of the transformed values: the best step for a normal
 * distribution. */
static inline float sketch_step(int32_t bits)
{
	return bits == 2 ? 0.9957f : bits == 4 ? 0.3352f : 0.03076f;
}

/* Return the size of the key sketch of one layer in bytes, or 0 if the shape or `bits` is invalid. */
static inline uint64_t sketch_bytes(int32_t n_kv_head, int32_t cap, int32_t head_dim, int32_t bits)
{
	uint64_t blocks, bytes;

	if (n_kv_head <= 0 || cap <= 0 || head_dim <= 0 || (bits != 2 && bits != 4 && bits != 8))
		return 0;
	blocks = (uint64_t)n_kv_head * (uint64_t)sketch_blocks(cap);
	return __builtin_mul_overflow(blocks, (uint64_t)sketch_block_bytes(head_dim, bits), &bytes) ? 0 : bytes;
}

#endif
