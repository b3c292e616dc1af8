/* kernels/cpu/amx.c - the CPU level amx: products of packed weights with many columns. amx_attn.c has the attention of
 * prompts. All other leaf functions are those of the level avx512.
 *
 * AMX has eight tile registers of up to 16 rows of 64 bytes. One instruction (tdpbssd) multiplies registers A and B and
 * adds the products to register C. A row of A is a column of the product's input: the activations of a token (cols.h).
 * B has 16 rows of the weight side by side. C has the sums, [column][row of the weight]. The layout of B is that of a
 * panel of bytes (pack.h): row g of B has values 4 g .. 4 g + 3 of each row of the weight. So the levels amx and avx512
 * read the same packed weights.
 *
 * Blocks of a panel are unpacked to signed bytes, SLAB blocks at a time, and multiplied with all columns of the task. A
 * step computes the sums of one block of 32 values or, if each half of a block has its own scale, of one half. These
 * sums are exact. They are scaled and added by the float operations of simd_matmul.h, in the same order. So results
 * have the bits of the level avx512.
 *
 * Only this file and amx_attn.c are compiled with -mamx-int8 and similar flags. Every function except cpu_fns_amx() is
 * static. So the linker cannot use AMX code from this file in the rest of the program, which must run without AMX. The
 * instructions are written in assembly, because the intrinsics of some compilers do not say that a load of a tile
 * register reads memory. */
#include "kernels/cpu/amx.h"

#if defined(WEIR_AMX) && !defined(WEIR_NO_SIMD)
#include <pthread.h>

#include "kernels/cpu/amx_tiles.h"
#include "kernels/cpu/cols.h"
#include "kernels/cpu/simd_blocks.h"

enum {
	SLAB = 16, /* number of blocks that are unpacked at a time; a multiple of pack_format.group for every type */
	/* AMX is used for at least this number of columns. The number is estimated, not measured. For a block of Q4_0
	 * and a panel, AMX stores 9 vectors (unpacked weights, scale) and 16 vectors (register C), one per cycle. For n
	 * columns, AVX-512 executes 14 + 11 n vector instructions, two per cycle. So for 8 columns AMX takes about half
	 * the time. */
	LEAST = 8,
	WIDE = 16,  /* number of columns in a wide register A */
	NARROW = 4, /* number of columns in a narrow register A, which takes fewer cycles */
	/* A step stores its sums from register C to memory. They are loaded into vector registers AHEAD steps later.
	 * The memory has room for the sums of RING steps. */
	AHEAD = 2,
	RING = 4,
};
#define AMX_WIDTHS(X) X(4) X(8) X(12) X(16)

/* Unpacked blocks of a panel (12 KB), and the sums of the last steps (4 KB). */
struct slab {
	int8_t q[SLAB][8][64]; /* [block][row of register B][byte] */
	/* [block][half]: a block with one scale uses only half 0 */
	float scale[SLAB][2][PANEL], min[SLAB][2][PANEL];
	int32_t sum[RING][WIDE][PANEL];
} __attribute__((aligned(64)));

/* ---- tile registers ---- */

/* Set the shapes of this thread's tile registers, for weights with `halves` scales per block. A wide product has up to
 * WIDE columns. Its registers C, A and B are tmm0, tmm2 and tmm4 in even steps, and tmm1, tmm3 and tmm5 in odd steps. A
 * narrow product has up to NARROW columns. Its register A is tmm6 and its register C is tmm7. Its register B is the
 * same as in a wide product. */
static void shapes_begin(int halves)
{
	const uint8_t k = (uint8_t)(32 / halves);
	const struct tile_config t = {
		.palette = 1,
		.bytes = { 64, 64, k, k, 64, 64, k, 64 },
		.rows = { WIDE, WIDE, WIDE, WIDE, k / 4, k / 4, NARROW, NARROW },
	};

	tiles_begin(&t);
}

/* Load register a from x and register b from w, set register c to their product, and store c at `sum`. The macro is one
 * statement, so that its instructions are contiguous: the emulator of the tests executes contiguous AMX instructions
 * with a single signal. */
#define TILE_SUMS(c, a, b)                                                                                             \
	__asm__ volatile("tilezero %%" c "\n\t"                                                                        \
	                 "tileloadd (%0,%3,1), %%" a "\n\t"                                                            \
	                 "tileloadd (%1,%4,1), %%" b "\n\t"                                                            \
	                 "tdpbssd %%" b ", %%" a ", %%" c "\n\t"                                                       \
	                 "tilestored %%" c ", (%2,%4,1)"                                                               \
	                 :                                                                                             \
	                 : "r"(x), "r"(w), "r"(sum), "r"((size_t)32), "r"((size_t)64)                                  \
	                 : "memory")

/* Set sum[c][r] to the dot product of column c and row r of the weight. `x` points to the columns, 32 bytes apart. `w`
 * points to the contents of register B, which are rows of the weight. There are WIDE columns, or NARROW columns if
 * `wide` is 0. If the caller has fewer columns, the bytes after the last column are read, too, and give sums that are
 * not used. `odd` is 1 in every second step, which uses other registers. */
INLINE void sums_start(int wide, int odd, const int8_t *x, const int8_t *w, int32_t (*sum)[PANEL])
{
	if (wide && odd)
		TILE_SUMS("tmm1", "tmm3", "tmm5");
	else if (wide)
		TILE_SUMS("tmm0", "tmm2", "tmm4");
	else if (odd)
		TILE_SUMS("tmm7", "tmm6", "tmm5");
	else
		TILE_SUMS("tmm7", "tmm6", "tmm4");
}

/* ---- unpacking ---- */

INLINE void block_unpack(enum dtype type, const uint8_t *panel, byte_vec table, int32_t b, struct slab *s, int32_t at)
{
	const struct pack_format f = pack_format_of(type);
	const size_t group_bytes = (size_t)pack_group_units(f) * UNIT, block_bytes = (size_t)pack_block_units(f) * UNIT;
	const uint8_t *head = panel + (size_t)(b / f.group) * group_bytes, *sub = head + UNIT;
	const uint8_t *quants = sub + f.sub * UNIT + (size_t)(b % f.group) * block_bytes;
	panel_vec dw[2], mw[2];
	byte_vec v[8];

	UNROLL for (int i = 0; i < pack_block_units(f); i++)
		line_fetch(quants + SLAB * (size_t)pack_block_units(f) * UNIT + (size_t)i * UNIT);
	block_scales(type, f, head, sub, b % f.group, dw, mw);
	UNROLL for (int g = 0; g < 8; g++)
	{
		v[g] = block_group(f, quants, g, table);
		if (f.offset)
			v[g] = _mm512_sub_epi8(v[g], byte_splat(f.offset));
	}
	UNROLL for (int g = 0; g < 8; g++) _mm512_store_si512(s->q[at][g], v[g]);
	UNROLL for (int h = 0; h < f.halves; h++)
	{
		panel_store(s->scale[at][h], dw[h]);
		if (f.has_min)
			panel_store(s->min[at][h], mw[h]);
	}
}

INLINE void unpack_type(enum dtype type, const uint8_t *panel, int32_t first, int32_t n, struct slab *s)
{
	byte_vec table = byte_splat(0);

	if (pack_format_of(type).lookup)
		table = byte_table(nibble_values(type));
	ROLLED for (int32_t b = 0; b < n; b++) block_unpack(type, panel, table, first + b, s, b);
}

/* Unpack n blocks of a panel from block `first` on. */
static void slab_unpack(enum dtype type, const uint8_t *panel, int32_t first, int32_t n, struct slab *s)
{
	switch (type) {
	case DT_Q4_0: unpack_type(DT_Q4_0, panel, first, n, s); break;
	case DT_Q4_1: unpack_type(DT_Q4_1, panel, first, n, s); break;
	case DT_Q5_0: unpack_type(DT_Q5_0, panel, first, n, s); break;
	case DT_Q5_1: unpack_type(DT_Q5_1, panel, first, n, s); break;
	case DT_Q8_0: unpack_type(DT_Q8_0, panel, first, n, s); break;
	case DT_Q2_K: unpack_type(DT_Q2_K, panel, first, n, s); break;
	case DT_Q3_K: unpack_type(DT_Q3_K, panel, first, n, s); break;
	case DT_Q4_K: unpack_type(DT_Q4_K, panel, first, n, s); break;
	case DT_Q5_K: unpack_type(DT_Q5_K, panel, first, n, s); break;
	case DT_Q6_K: unpack_type(DT_Q6_K, panel, first, n, s); break;
	case DT_IQ4_NL: unpack_type(DT_IQ4_NL, panel, first, n, s); break;
	case DT_IQ4_XS: unpack_type(DT_IQ4_XS, panel, first, n, s); break;
	case DT_MXFP4: unpack_type(DT_MXFP4, panel, first, n, s); break;
	default: break; /* float weights are not packed; simd_float.h multiplies them */
	}
}

/* ---- products ---- */

/* Return the format in which columns are arranged (cols.h). The format has no correction for an offset, because
 * unpacking subtracts the offset. */
static struct pack_format amx_format(enum dtype type)
{
	struct pack_format f = pack_format_of(type);

	f.offset = 0;
	return f;
}

/* Start step i, which computes the sums of block b of the slab. If a block has two scales, even steps are for the first
 * half of a block and odd steps for the second half. */
INLINE void step_start(struct pack_format f, int width, int odd, struct slab *s, int32_t i, int32_t b,
                       const uint8_t *cols)
{
	const int32_t h = f.halves == 2 ? i & 1 : 0;

	sums_start(width > NARROW, odd, (const int8_t *)cols + 16 * h, s->q[b][4 * h], s->sum[i % RING]);
}

/* Add the scaled sums of step i to acc[c], for `width` columns. The float operations are the same as in block_times()
 * (simd_matmul.h). */
INLINE void step_add(struct pack_format f, int width, const struct slab *s, int32_t i, int32_t b, const uint8_t *cols,
                     panel_vec *acc)
{
	const int32_t h = f.halves == 2 ? i & 1 : 0;
	const struct cols_block k = cols_block_at(f, cols, width);
	const panel_vec dw = panel_load(s->scale[b][h]), mw = panel_load(s->min[b][h]);

	UNROLL for (int c = 0; c < width; c++)
	{
		const panel_int sum = _mm512_load_si512(s->sum[i % RING][c]);

		acc[c] = panel_fma(panel_of_int(sum), panel_mul(dw, panel_splat(k.d[c])), acc[c]);
		if (f.has_min)
			acc[c] = panel_fma(mw, panel_splat(((const float *)k.by)[h * width + c]), acc[c]);
	}
}

/* For each column c of a tile (cols.h), multiply the column with n blocks of a panel and add the product to the PANEL
 * floats from out[PANEL * c] on. If `first` is 1, the blocks are the first of the panel, and the product is stored
 * instead. `cols` has the tile's columns in these blocks. */
INLINE void tile_times(struct pack_format f, int width, struct slab *s, int32_t n, const uint8_t *cols, int first,
                       float *out)
{
	const int32_t steps = n * f.halves;
	const size_t block = cols_block_bytes(f, width);
	panel_vec acc[WIDE];

	UNROLL for (int c = 0; c < width; c++) acc[c] = _mm512_maskz_loadu_ps(first ? 0 : 0xffff, out + PANEL * c);
	UNROLL for (int i = 0; i < AHEAD; i++) if (i < steps)
		step_start(f, width, i, s, i, i / f.halves, cols + (size_t)(i / f.halves) * block);
	ROLLED for (int32_t pair = 0; pair < steps; pair += 2) UNROLL for (int odd = 0; odd < 2; odd++)
	{
		const int32_t i = pair + odd, next = i + AHEAD, b = i / f.halves, nb = next / f.halves;

		if (next < steps)
			step_start(f, width, odd, s, next, nb, cols + (size_t)nb * block);
		if (i < steps)
			step_add(f, width, s, i, b, cols + (size_t)b * block, acc);
	}
	UNROLL for (int c = 0; c < width; c++) panel_store(out + PANEL * c, acc[c]);
}

/* Add the scaled sums of step i to results at `lo`. A unit has the residuals of some columns in one block (cols.h). For
 * the residuals with index c in unit u, the results are the PANEL floats from lo[PANEL * u->col[c]] on. */
INLINE void unit_add(struct pack_format f, int width, const struct slab *s, int32_t i, int32_t b,
                     const struct cols_unit *u, float *lo)
{
	panel_vec acc[WIDE];

	UNROLL for (int c = 0; c < width; c++) acc[c] = panel_load(lo + PANEL * u->col[c]);
	step_add(f, width, s, i, b, u->p, acc);
	UNROLL for (int c = 0; c < width; c++) panel_store(lo + PANEL * u->col[c], acc[c]);
}

INLINE void unit_start(struct pack_format f, struct slab *s, int32_t i, int32_t first, const struct cols_unit *u)
{
	const int32_t b = u->block - first;

	if (u->width > NARROW && i % 2)
		step_start(f, WIDE, 1, s, i, b, u->p);
	else if (u->width > NARROW)
		step_start(f, WIDE, 0, s, i, b, u->p);
	else
		step_start(f, NARROW, 0, s, i, b, u->p);
}

/* Multiply n_units units of residuals u[] with the blocks of a slab, and add the products to lo. `first` is the number
 * of the slab's first block. */
INLINE void units_times(struct pack_format f, struct slab *s, int32_t first, const struct cols_unit *u, int32_t n_units,
                        float *lo)
{
	const int32_t steps = n_units * f.halves;

	for (int32_t i = 0; i < AHEAD && i < steps; i++)
		unit_start(f, s, i, first, u + i / f.halves);
	for (int32_t i = 0; i < steps; i++) {
		const struct cols_unit *at = u + i / f.halves;
		const int32_t b = at->block - first, next = i + AHEAD;

		if (next < steps)
			unit_start(f, s, next, first, u + next / f.halves);
		switch (at->width) {
#define TIMES(n)                                                                                                       \
	case n: unit_add(f, n, s, i, b, at, lo); break;
			AMX_WIDTHS(TIMES)
#undef TIMES
		}
	}
}

/* Multiply a slab with the columns and add the products to the results. The slab has n blocks, beginning with block
 * `first` of the panel. *unit is the number of units multiplied so far, and is increased. */
INLINE void slab_times(struct pack_format f, struct slab *s, int32_t first, int32_t n, const struct cols *k,
                       int32_t *unit, float *result)
{
	const struct cols_unit *u = k->unit + *unit;
	int32_t units = 0;

	for (int32_t t = 0; t < k->n_tiles; t++) {
		const uint8_t *cols = k->tile[t].p + (size_t)first * cols_block_bytes(f, k->tile[t].width);
		float *r = result + PANEL * k->tile[t].at;

		switch (k->tile[t].width) {
#define TIMES(w)                                                                                                       \
	case w: tile_times(f, w, s, n, cols, !first, r); break;
			AMX_WIDTHS(TIMES)
#undef TIMES
		}
	}
	while (*unit + units < k->n_units && u[units].block < first + n)
		units++;
	if (units)
		units_times(f, s, first, u, units, result + PANEL * k->lo_at);
	*unit += units;
}

#define SLAB_TIMES(h, m)                                                                                               \
	static void slab_times_##h##m(struct slab *s, int32_t first, int32_t n, const struct cols *k, int32_t *unit,   \
	                              float *result)                                                                   \
	{                                                                                                              \
		slab_times((struct pack_format){ .halves = h, .has_min = m }, s, first, n, k, unit, result);           \
	}
SLAB_TIMES(1, 0)
SLAB_TIMES(1, 1)
SLAB_TIMES(2, 0)
SLAB_TIMES(2, 1)

static void amx_panels(enum dtype type, const void *packed, int32_t n, const struct cols *k, float *out, int32_t ldo)
{
	static void (*const times[2][2])(struct slab *, int32_t, int32_t, const struct cols *, int32_t *, float *) = {
		{ slab_times_10, slab_times_11 },
		{ slab_times_20, slab_times_21 },
	};
	_Alignas(64) float result[COLS_RESULTS * PANEL];
	const struct pack_format f = amx_format(type);
	const uint8_t *panel = packed;
	float *lo = result + PANEL * k->lo_at;
	struct slab s;

	shapes_begin(f.halves);
	for (int32_t i = 0; i < n; i++, panel += cpu_pack_bytes(type, PANEL, k->blocks * 32), out += PANEL) {
		int32_t unit = 0;

		for (int32_t c = 0; c <= k->n && !k->lo_tiled; c++)
			panel_store(lo + PANEL * c, panel_splat(0));
		for (int32_t b = 0; b < k->blocks; b += SLAB) {
			int32_t blocks = MIN(SLAB, k->blocks - b);

			slab_unpack(type, panel, b, blocks, &s);
			times[f.halves - 1][f.has_min](&s, b, blocks, k, &unit, result);
		}
		for (int32_t c = 0; c < k->n; c++)
			panel_store(out + (size_t)c * (size_t)ldo,
			            panel_add(panel_load(result + PANEL * c), panel_load(lo + PANEL * c)));
	}
	tiles_end();
}

/* Leaf function `multiply` (struct cpu_fns), which measures the speed of multiplication. */
static uint64_t amx_multiply(int32_t rounds)
{
	shapes_begin(1);
	for (int32_t i = 0; i < rounds; i++) {
		__asm__ volatile("tilezero %tmm0\n\ttdpbssd %tmm4, %tmm2, %tmm0");
		__asm__ volatile("tilezero %tmm1\n\ttdpbssd %tmm5, %tmm3, %tmm1");
	}
	tiles_end();
	return (uint64_t)rounds * 2 * WIDE * PANEL * 32;
}

/* ---- the check at start ---- */

/* 1 if the sums of one step equal sums computed in plain C. The operands are x [WIDE][32] and w [8][64]. */
static int sums_right(int halves, int wide, int odd, const int8_t *x, const int8_t *w)
{
	int32_t sum[WIDE][PANEL];

	shapes_begin(halves);
	sums_start(wide, odd, x, w, sum);
	tiles_end();
	for (int c = 0; c < (wide ? WIDE : NARROW); c++)
		for (int r = 0; r < PANEL; r++) {
			for (int j = 0; j < 32 / halves; j++)
				sum[c][r] -= x[32 * c + j] * w[j / 4 * 64 + 4 * r + j % 4];
			if (sum[c][r])
				return 0;
		}
	return 1;
}

/* Multiply pseudo-random bytes by all variants of sums_start(), which together use every tile register. Return 1 if all
 * sums are right. */
static int amx_right(void)
{
	int8_t x[WIDE * 32], w[8 * 64];
	uint32_t r = 1;

	for (size_t i = 0; i < sizeof x; i++) {
		x[i] = (int8_t)((r = r * 1664525 + 1013904223) >> 24);
		w[i] = (int8_t)((r = r * 1664525 + 1013904223) >> 24);
	}
	for (int i = 0; i < 8; i++)
		if (!sums_right(1 + (i & 1), i >> 1 & 1, i >> 2, x, w))
			return 0;
	return 1;
}

/* ---- the table ---- */

static struct cpu_fns table;
static const char *reason; /* reason why the table cannot be used, or NULL if it can be used */

static void table_init(void)
{
#define NUMBER(n) n,
	static const uint8_t widths[] = { AMX_WIDTHS(NUMBER) 0 };
#undef NUMBER
	static const struct packed_fns many = { amx_format, widths, amx_panels };

	table = cpu_fns_avx512;
	table.name = "avx512, amx";
	table.many = &many;
	table.many_columns = LEAST;
	table.attn_prompt_scratch = amx_attn.scratch;
	table.attn_prompt = amx_attn.attn;
	table.multiply = amx_multiply;
	reason = amx_permit();
	if (!reason && !(amx_right() && amx_attn.right()))
		reason = "its sums were wrong when weir checked them";
}

const struct cpu_fns *cpu_fns_amx(const char **why)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, table_init);
	*why = reason;
	return reason ? NULL : &table;
}
#else
const struct cpu_fns *cpu_fns_amx(const char **why)
{
	*why = "the compiler of this build has no AMX";
	return NULL;
}
#endif
