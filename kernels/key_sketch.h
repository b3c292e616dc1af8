/* kernels/key_sketch.h (private to kernels/) - memory layout of a key sketch: keys with 2, 4 or 8 bits per value; the same on every
 * backend.
 *
 * Per KV head, one after the other, panels of 16 keys; per panel the groups of 64 values of head_dim (the last may be shorter),
 * one after the other:
 *
 *     16 scales (f16) | 16 minima (f16) | units of 64 bytes: 16 lanes of 32 bits, lane = key
 *
 * A lane of a unit holds 32 / bits codes: byte j has, from its low bits up, the codes of values j, j + 4, j + 8 ... of
 * the unit, so that a shift and a mask give four consecutive values of each of 16 keys, the operand of a byte product.
 * Value = minimum + scale * code.
 *
 * Keys are coded after a Hadamard transform, and queries are transformed in the same way, which leaves every dot product unchanged.
 * Models have dimensions far from zero, which would otherwise take up the few codes of their group; the transform spreads them.
 * With 2 bits, minimum and scale give the least squared error (sketch_clip), else they span the values. */
#ifndef WEIR_KEY_SKETCH_H
#define WEIR_KEY_SKETCH_H

#include <stddef.h>
#include <stdint.h>

enum { SKETCH_PANEL = 16, SKETCH_GROUP = 64 };

static inline int32_t sketch_groups(int32_t head_dim)
{
	return (head_dim - 1) / SKETCH_GROUP + 1;
}

/* Units that n values of one group take. */
static inline int32_t sketch_units(int32_t n, int32_t bits)
{
	return (n * bits + 31) / 32;
}

/* Values of group g. */
static inline int32_t sketch_values(int32_t head_dim, int32_t g)
{
	return head_dim - g * SKETCH_GROUP < SKETCH_GROUP ? head_dim - g * SKETCH_GROUP : SKETCH_GROUP;
}

static inline size_t sketch_panel_bytes(int32_t head_dim, int32_t bits)
{
	int32_t full = head_dim / SKETCH_GROUP, rest = head_dim % SKETCH_GROUP;

	return 64 * ((size_t)sketch_groups(head_dim) + (size_t)full * (size_t)sketch_units(SKETCH_GROUP, bits) +
	             (size_t)sketch_units(rest, bits));
}

/* Bytes of the sketch of one plane; 0: no such sketch. */
static inline uint64_t sketch_bytes(int32_t n_kv_head, int32_t cap, int32_t head_dim, int32_t bits)
{
	uint64_t panels, bytes;

	if (n_kv_head <= 0 || cap <= 0 || head_dim <= 0 || (bits != 2 && bits != 4 && bits != 8))
		return 0;
	panels = (uint64_t)n_kv_head * (uint64_t)((cap - 1) / SKETCH_PANEL + 1);
	return __builtin_mul_overflow(panels, (uint64_t)sketch_panel_bytes(head_dim, bits), &bytes) ? 0 : bytes;
}

#endif
