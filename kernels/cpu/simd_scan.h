/* kernels/cpu/simd_scan.h (private to the SIMD code) - scores of keys, from a key sketch or from the keys themselves;
 * compiled once for each instruction set.
 *
 * Key sketch (key_sketch.h): a panel is sixteen keys, one per lane. A byte product multiplies four values of each of
 * LANES keys for one query head; codes are unpacked once for up to HEADS heads. AVX2 has no instruction that adds
 * four byte products. There, the products of two-bit codes are looked up in tables.
 *
 * Keys themselves are read in place, ROWS at a time, and summed across lanes at the end. */
#ifndef WEIR_CPU_SIMD_SCAN_H
#define WEIR_CPU_SIMD_SCAN_H

#include "kernels/cpu/select.h"
#include "kernels/cpu/lanes.h"

#ifdef LANES
#define PANEL_LANES LANES
#include "kernels/cpu/panel.h"

enum {
	HEADS = 4,
	ROWS = 4,
	AHEAD = 5 << 10,
	PANELS = REGISTERS > 16 ? 2 : 1,    /* maximum number of panels scanned together */
	ROW_HEADS = REGISTERS > 16 ? 4 : 2, /* number of query heads by which each row is multiplied at a time */
};

/* ---- rows as floats ---- */

INLINE void row_to_f32_as(enum dtype type, float *out, const void *in, int32_t n)
{
	int32_t j = 0;

	for (; j + LANES <= n; j += LANES)
		vec_store(out + j, vec_row(type, in, j, LANES));
	if (j < n)
		vec_store_part(out + j, n - j, vec_row(type, in, j, n - j));
}

static void row_to_f32(enum dtype type, float *out, const void *in, int32_t n)
{
	switch (type) {
	case DT_F16: row_to_f32_as(DT_F16, out, in, n); break;
	case DT_BF16: row_to_f32_as(DT_BF16, out, in, n); break;
	case DT_Q8_0: row_to_f32_as(DT_Q8_0, out, in, n); break;
	case DT_Q4_0: row_to_f32_as(DT_Q4_0, out, in, n); break;
	default: row_to_f32_as(DT_F32, out, in, n); break;
	}
}

/* ---- the key sketch ---- */

INLINE vec_int four_bytes(const int8_t *q)
{
	int32_t w;

	memcpy(&w, q, 4);
	return vec_int_splat(w);
}

/* Prefetch keys that are AHEAD bytes after p. Keys are read once, in order, but the hardware prefetcher stops at the
 * end of a page. Without explicit prefetch a scan takes 1.5 times as long. */
INLINE void keys_fetch(const uint8_t *p, size_t bytes)
{
	for (size_t i = 0; i < bytes; i += 64)
		line_fetch(p + AHEAD + i);
}

/* Values that a scan needs for nr query heads from head r0 on. They are the same for every panel (16 keys side by side)
 * of a tile of keys. */
struct scan_heads {
	size_t panel_bytes, stride;
	/* A key has `dim` values in `groups` groups. The last group has `last` units. A unit is 64 bytes of codes. */
	int32_t dim, groups, last;
	const int8_t *hi, *lo;
	const int32_t *sum, *size;
	const uint8_t *table;
	float *score;
	size_t ld;
	float base[HEADS]; /* for each head, the score of the current block's mean */
};

/* Add the products of one unit (64 bytes of codes of 16 keys) to `dot`. Codes are unpacked four values at a time; each
 * part of the query is read once for all np panels. */
INLINE void unit_dots(int np, int nr, int bits, int wide, const struct scan_heads *h, const uint8_t *unit,
                      const int8_t *hi, const int8_t *lo, struct dots dot[PANELS][HEADS],
                      struct dots low[PANELS][HEADS])
{
	vec_int c[PANELS];

	UNROLL for (int p = 0; p < np; p++)
	{
		c[p] = vec_int_load(unit + (size_t)p * h->panel_bytes);
		IN_REGISTER(c[p]);
	}
	UNROLL for (int s = 0; s < 8 / bits; s++)
	{
		vec_int code[PANELS];

		UNROLL for (int p = 0; p < np; p++) code[p] =
			bits == 8 ? c[p] : c[p] >> s * bits & 0x01010101 * ((1 << bits) - 1);
		UNROLL for (int r = 0; r < nr; r++)
		{
			vec_int q = four_bytes(hi + (size_t)r * h->stride + 4 * s);

			UNROLL for (int p = 0; p < np; p++) dots_add(&dot[p][r], bits, code[p], q);
			if (wide) {
				q = four_bytes(lo + (size_t)r * h->stride + 4 * s);
				UNROLL for (int p = 0; p < np; p++) dots_add(&low[p][r], bits, code[p], q);
			}
		}
	}
}

/* Add the dot products to `total`. If `wide` is 1, a query value has two bytes, and its dot product is 256 dot + low.
 * If `wide` is 0, its dot product is `dot`. Then set `dot` and `low` to 0. */
INLINE void dots_total(int np, int nr, int bits, int wide, struct dots dot[PANELS][HEADS],
                       struct dots low[PANELS][HEADS], vec_int total[PANELS][HEADS])
{
	UNROLL for (int p = 0; p < np; p++) UNROLL for (int r = 0; r < nr; r++)
	{
		vec_int sum = dots_sum(&dot[p][r], bits);

		total[p][r] += wide ? (sum << 8) + dots_sum(&low[p][r], bits) : sum;
		dot[p][r] = low[p][r] = (struct dots){ 0 };
	}
}

/* Set `total` to the dot products of queries and keys over group g of their values. `unit` is the first unit of the
 * group. Return the address after the group's last unit. */
INLINE const uint8_t *group_dots(int np, int nr, int bits, int wide, const struct scan_heads *h, int32_t g,
                                 const uint8_t *unit, vec_int total[PANELS][HEADS])
{
	const int whole = SKETCH_GROUP / 32 * bits, most = DOTS_MOST(bits);
	const int8_t *hi = h->hi + (size_t)g * SKETCH_GROUP, *lo = h->lo + (size_t)g * SKETCH_GROUP;
	struct dots dot[PANELS][HEADS], low[PANELS][HEADS];

	UNROLL for (int p = 0; p < np; p++) UNROLL for (int r = 0; r < nr; r++)
	{
		dot[p][r] = low[p][r] = (struct dots){ 0 };
		total[p][r] = vec_int_splat(0);
	}
	if (REGISTERS > 16 && (g + 1 < h->groups || h->last == whole)) {
		UNROLL for (int u = 0; u < whole; u++) unit_dots(np, nr, bits, wide, h, unit + 64 * u,
		                                                 hi + 32 / bits * u, lo + 32 / bits * u, dot, low);
		unit += 64 * whole;
	} else {
		int32_t units = REGISTERS > 16 ? h->last : sketch_units(sketch_values(h->dim, g), bits);

		for (int32_t u = 0, to; u < units;) {
			to = u + most < units ? u + most : units;
			for (; u < to; u++, unit += 64, hi += 32 / bits, lo += 32 / bits)
				unit_dots(np, nr, bits, wide, h, unit, hi, lo, dot, low);
			if (u < units)
				dots_total(np, nr, bits, wide, dot, low, total);
		}
	}
	dots_total(np, nr, bits, wide, dot, low, total);
	return unit;
}

/* Compute the scores of LANES keys in each of np panels. A panel has 16 keys, and the first key to compute in each
 * panel is number LANES * part. `k` is the number, among all keys, of the first key that is computed in the first
 * panel. */
INLINE void scan_some(int np, int nr, int bits, int wide, const struct scan_heads *h, const uint8_t *panel,
                      const uint8_t *scales, int part, int32_t k, int32_t k1, vec max[HEADS])
{
	const uint8_t *at = panel + 4 * LANES * part;
	vec s[PANELS][HEADS], scale[PANELS];

	UNROLL for (int p = 0; p < np; p++)
	{
		scale[p] = vec_row(DT_F16, scales + 2 * SKETCH_PANEL * p, LANES * part, LANES);
		UNROLL for (int r = 0; r < nr; r++) s[p][r] = vec_splat(h->base[r]);
	}
	for (int32_t g = 0; g < h->groups; g++) {
		vec_int total[PANELS][HEADS];

		at = group_dots(np, nr, bits, wide, h, g, at, total);
		UNROLL for (int r = 0; r < nr; r++)
		{
			vec_int sum = vec_int_splat(h->sum[r * h->groups + g]);

			UNROLL for (int p = 0; p < np; p++) s[p][r] =
				vec_fma(scale[p], vec_of_int((total[p][r] << 1) - sum), s[p][r]);
		}
	}
	UNROLL for (int p = 0; p < np; p++, k += SKETCH_PANEL)
	{
		vec_mask seen = mask_first(k1 - k);

		UNROLL for (int r = 0; r < nr; r++)
		{
			vec_store(h->score + (size_t)r * h->ld + (size_t)k, s[p][r]);
			max[r] = vec_select(seen, vec_max(s[p][r], max[r]), max[r]);
		}
	}
}

#ifdef LOOKS_UP
/* Compute scores from two-bit codes for the panel (16 keys) that begins at key k. If the next panel begins before k1,
 * compute its scores, too. One table lookup gives the sum of two products of codes and query values, for all keys of
 * LANES / 4 panels. */
INLINE void scan_codes(int nr, const struct scan_heads *h, const uint8_t *panel, const uint8_t *scales, int32_t k,
                       int32_t k1, vec max[HEADS])
{
	/* If there is no next panel, compute the same panel twice; both results are written to the same memory. */
	const int more = LANES > 4 && k + SKETCH_PANEL < k1;
	const uint8_t *other = panel + (more ? h->panel_bytes : 0),
		      *other_scales = scales + (more ? 2 * SKETCH_PANEL : 0);
	const size_t to = more ? SKETCH_PANEL : 0;
	vec s[HEADS][4];

	UNROLL for (int r = 0; r < nr; r++) UNROLL for (int i = 0; i < 4; i++) s[r][i] = vec_splat(h->base[r]);
	for (int32_t g = 0; g < h->groups; g++) {
		const uint8_t *table = h->table + (size_t)g * LOOKUP_BYTES;
		int32_t units = g + 1 < h->groups ? SKETCH_GROUP / 16 : h->last;
		struct lookups sum[HEADS];

		UNROLL for (int r = 0; r < nr; r++) sum[r] = (struct lookups){ 0 };
		for (int32_t u = 0; u < units; u++, panel += 64, other += 64, table += 128) {
			vec_int row[4];

			unit_rows(row, panel, other);
			UNROLL for (int i = 0; i < 4; i += 2)
			{
				vec_int code[4] = { row[i] & 0x0f0f0f0f, row[i] >> 4 & 0x0f0f0f0f,
					            row[i + 1] & 0x0f0f0f0f, row[i + 1] >> 4 & 0x0f0f0f0f };

				UNROLL for (int j = 0; j < 4; j++) IN_REGISTER(code[j]);
				UNROLL for (int r = 0; r < nr; r++)
				{
					const uint8_t *t = table + (size_t)(r * h->groups) * LOOKUP_BYTES + 16 * i;

					lookups_add(&sum[r], bytes_add(bytes_add(looked_up(t, code[0]),
					                                         looked_up(t + 64, code[1])),
					                               bytes_add(looked_up(t + 16, code[2]),
					                                         looked_up(t + 80, code[3]))));
					IN_REGISTER(sum[r].all);
					IN_REGISTER(sum[r].odd);
				}
			}
		}
		UNROLL for (int r = 0; r < nr; r++)
		{
			vec_int total[4], size = vec_int_splat(h->size[r * h->groups + g]);

			lookups_sum(total, &sum[r]);
			UNROLL for (int i = 0; i < 4; i++) s[r][i] =
				vec_fma(vec_both(scales + 8 * i, other_scales + 8 * i),
			                vec_of_int((total[i] << 1) - size), s[r][i]);
		}
	}
	UNROLL for (int r = 0; r < nr; r++)
	{
		float *out = h->score + (size_t)r * h->ld + (size_t)k;

		UNROLL for (int i = 0; i < 4; i++) vec_store_both(out + 4 * i, out + to + 4 * i, s[r][i]);
		if (k + 4 * LANES <= k1)
			UNROLL for (int i = 0; i < 4; i++) max[r] = vec_max(s[r][i], max[r]);
		else
			for (int32_t i = 0; i < k1 - k; i += LANES)
				max[r] = vec_select(mask_first(k1 - k - i),
				                    vec_max(vec_load_part(out + i, k1 - k - i), max[r]), max[r]);
	}
}
#endif

/* Compute the scores of the keys in np panels (16 keys each), of which the first key is number k. Each pass of the loop
 * computes LANES keys of every panel. */
INLINE void scan_vectors(int np, int nr, int bits, int wide, const struct scan_heads *h, const uint8_t *panel,
                         const uint8_t *scales, int32_t k, int32_t k1, vec max[HEADS])
{
	keys_fetch(panel, (size_t)np * h->panel_bytes);
	for (int part = 0; part < SKETCH_PANEL / LANES && k + LANES * part < k1; part++)
		scan_some(np, nr, bits, wide, h, panel, scales, part, k + LANES * part, k1, max);
}

/* Return the score of a block's mean key, summed in the same order for every instruction set. */
INLINE float mean_score(const float *q, const float *mean, int32_t dim, float unit)
{
	vec l[16 / LANES];
	float lane[16];

	UNROLL for (int k = 0; k < 16 / LANES; k++) l[k] = vec_zero();
	for (int32_t i = 0; i < dim; i += 16)
		UNROLL for (int k = 0; k < 16; k += LANES) l[k / LANES] =
			vec_fma(vec_load(q + i + k), vec_load_part(mean + i + k, dim - i - k < 0 ? 0 : dim - i - k),
		                l[k / LANES]);
	UNROLL for (int k = 0; k < 16 / LANES; k++) vec_store(lane + LANES * k, l[k]);
	return fold16(lane) * unit;
}

/* Compute the scores of a tile's panels (16 keys side by side) for nr query heads from head r0 on, block by block. */
INLINE void scan_panels(int nr, int bits, int wide, const struct scan_tile *t, int32_t r0)
{
	const int np = wide && nr > 2 ? 1 : PANELS; /* as many panels as the registers have room for */
	int32_t groups = sketch_groups(t->dim);
	size_t stride = (size_t)groups * SKETCH_GROUP, from = (size_t)r0 * stride,
	       width = ((size_t)t->dim + 15) & ~(size_t)15;
	size_t block_bytes = sketch_block_bytes(t->dim, bits);
	struct scan_heads h = {
		.panel_bytes = sketch_panel_bytes(t->dim, bits),
		.stride = stride,
		.dim = t->dim,
		.groups = groups,
		.last = sketch_units(sketch_values(t->dim, groups - 1), bits),
		.hi = t->hi + from,
		.lo = wide ? t->lo + from : t->hi + from,
		.table = t->table ? t->table + (size_t)r0 * (size_t)groups * LOOKUP_BYTES : NULL,
		.size = t->table ? t->size + (size_t)r0 * (size_t)groups : NULL,
		.sum = t->sum + (size_t)r0 * (size_t)groups,
		.score = t->score + (size_t)r0 * t->ld,
		.ld = t->ld,
	};
	vec max[HEADS];

	UNROLL for (int r = 0; r < nr; r++) max[r] = vec_splat(-INFINITY);
	for (int32_t k = t->k0, end; k < t->k1;) {
		const uint8_t *block = (const uint8_t *)t->keys + (size_t)(k / SKETCH_BLOCK) * block_bytes;
		const uint8_t *scales = block + sketch_mean_bytes(t->dim), *panel = block + sketch_head_bytes(t->dim);

		end = k + SKETCH_BLOCK < t->k1 ? k + SKETCH_BLOCK : t->k1;
		UNROLL for (int r = 0; r < nr; r++) h.base[r] =
			mean_score(t->q + (size_t)(r0 + r) * width, (const float *)(const void *)block, t->dim,
		                   t->unit[r0 + r]);
#ifdef LOOKS_UP
		if (bits == 2) {
			for (; k < end; k += 4 * LANES, panel += LANES / 4 * h.panel_bytes, scales += 8 * LANES) {
				keys_fetch(panel, LANES / 4 * h.panel_bytes);
				scan_codes(nr, &h, panel, scales, k, end, max);
			}
			k = end;
			continue;
		}
#endif
		for (; k + (np - 1) * SKETCH_PANEL < end;
		     k += np * SKETCH_PANEL, panel += (size_t)np * h.panel_bytes, scales += 2 * np * SKETCH_PANEL)
			scan_vectors(np, nr, bits, wide, &h, panel, scales, k, end, max);
		for (; np > 1 && k < end; k += SKETCH_PANEL, panel += h.panel_bytes, scales += 2 * SKETCH_PANEL)
			scan_vectors(1, nr, bits, wide, &h, panel, scales, k, end, max);
	}
	UNROLL for (int r = 0; r < nr; r++) t->max[r0 + r] = vec_largest(max[r]);
}

#define PANELS_FN(nr, bits, wide)                                                                                      \
	static void panels_##nr##_##bits##_##wide(const struct scan_tile *t, int32_t r0)                               \
	{                                                                                                              \
		scan_panels(nr, bits, wide, t, r0);                                                                    \
	}
#define PANELS4(bits, wide)                                                                                            \
	PANELS_FN(1, bits, wide) PANELS_FN(2, bits, wide) PANELS_FN(3, bits, wide) PANELS_FN(4, bits, wide)
PANELS4(2, 0)
PANELS4(4, 1)
PANELS4(8, 1)

typedef void panels_fn(const struct scan_tile *, int32_t);
#define ROW4(bits, wide)                                                                                               \
	{                                                                                                              \
		panels_1_##bits##_##wide, panels_2_##bits##_##wide, panels_3_##bits##_##wide, panels_4_##bits##_##wide \
	}
static panels_fn *const panels[3][HEADS] = { ROW4(2, 0), ROW4(4, 1), ROW4(8, 1) };

static void scan_sketch(const struct scan_tile *t)
{
	panels_fn *const *fn = panels[t->bits == 2 ? 0 : t->bits == 4 ? 1 : 2];

	for (int32_t r = 0; r < t->n_q; r += HEADS)
		fn[t->n_q - r < HEADS ? t->n_q - r - 1 : HEADS - 1](t, r);
}

/* ---- rows of a plane ---- */

/* Multiply the LANES values from value j on of nr queries with the same values of ROWS rows, and add the products to
 * s[r][i], for query r and row i. If the rows end earlier, they have only n of these values. */
INLINE void rows_step(int nr, enum dtype type, const uint8_t *const row[ROWS], const float *q, size_t stride, int32_t j,
                      int32_t n, vec s[ROW_HEADS][ROWS])
{
	vec x[ROWS];

	UNROLL for (int i = 0; i < ROWS; i++)
	{
		x[i] = vec_row(type, row[i], j, n);
		IN_REGISTER(x[i]);
	}
	UNROLL for (int r = 0; r < nr; r++)
	{
		vec v = vec_load(q + (size_t)r * stride + j);

		UNROLL for (int i = 0; i < ROWS; i++) s[r][i] = vec_fma(v, x[i], s[r][i]);
	}
}

INLINE void rows_dot(int nr, enum dtype type, const struct scan_tile *t, int32_t r0)
{
	size_t bytes = kv_row_bytes(type, t->dim), stride = ((size_t)t->dim + 15) & ~(size_t)15;
	const float *q = t->q + (size_t)r0 * stride;
	float *score = t->score + (size_t)r0 * t->ld;

	for (int32_t k = t->k0; k < t->k1; k += ROWS) {
		const uint8_t *row[ROWS];
		vec s[ROW_HEADS][ROWS];
		int32_t j = 0;

		UNROLL for (int i = 0; i < ROWS; i++) row[i] =
			(const uint8_t *)t->keys + (size_t)(k + i < t->k1 ? k + i : t->k1 - 1) * bytes;
		keys_fetch(row[0], ROWS * bytes);
		UNROLL for (int r = 0; r < nr; r++) UNROLL for (int i = 0; i < ROWS; i++) s[r][i] = vec_zero();
		for (; j + LANES <= t->dim; j += LANES)
			rows_step(nr, type, row, q, stride, j, LANES, s);
		if (j < t->dim)
			rows_step(nr, type, row, q, stride, j, t->dim - j, s);
		UNROLL for (int r = 0; r < nr; r++) vec_store_sums(score + (size_t)r * t->ld + (size_t)k, s[r]);
	}
}

#define DOTS_FN(nr, type)                                                                                              \
	static void dots_##nr##_##type(const struct scan_tile *t, int32_t r0)                                          \
	{                                                                                                              \
		if (nr <= ROW_HEADS)                                                                                   \
			rows_dot(nr, DT_##type, t, r0);                                                                \
	}
#define DOTS4(type) DOTS_FN(1, type) DOTS_FN(2, type) DOTS_FN(3, type) DOTS_FN(4, type)
DOTS4(F32)
DOTS4(F16)
DOTS4(BF16)
DOTS4(Q8_0)
DOTS4(Q4_0)
#define TYPE4(type)                                                                                                    \
	{                                                                                                              \
		dots_1_##type, dots_2_##type, dots_3_##type, dots_4_##type                                             \
	}
static panels_fn *const dots[5][4] = { TYPE4(F32), TYPE4(F16), TYPE4(BF16), TYPE4(Q8_0), TYPE4(Q4_0) };

static void scan_rows(const struct scan_tile *t)
{
	panels_fn *const *fn = dots[t->type == DT_F32    ? 0
	                            : t->type == DT_F16  ? 1
	                            : t->type == DT_BF16 ? 2
	                            : t->type == DT_Q8_0 ? 3
	                                                 : 4];

	for (int32_t r = 0; r < t->n_q; r += ROW_HEADS)
		fn[t->n_q - r < ROW_HEADS ? t->n_q - r - 1 : ROW_HEADS - 1](t, r);
	for (int32_t r = 0; r < t->n_q; r++) {
		const float *s = t->score + (size_t)r * t->ld;
		vec max = vec_splat(-INFINITY);

		for (int32_t k = t->k0; k < t->k1; k += LANES)
			max = vec_select(mask_first(t->k1 - k), vec_max(vec_load_part(s + k, t->k1 - k), max), max);
		t->max[r] = vec_largest(max);
	}
}
#endif

#endif
