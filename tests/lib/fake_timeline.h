/* tests/lib/fake_timeline.h - an engine and a timeline that compute nothing, for tests of sessions/.
 *
 * The entries of a token are computed from the fake model's seed, the tokens up to it and their marks. So restored
 * entries can be compared with computed ones, without the saved timeline. This file defines the functions of
 * engine/engine.h that sessions/ calls. The linker takes these definitions, and does not need the engine's own ones
 * from the archive. */
#ifndef WEIR_FAKE_TIMELINE_H
#define WEIR_FAKE_TIMELINE_H

#include "engine/engine_snapshot.h"
#include "kernels/common/quant.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FAKE_PLANES = 6 };

struct engine {
	struct engine_info info;
	const char *kernels;
};

struct timeline {
	uint64_t seed;
	int32_t plane_bytes; /* bytes of one token in one plane; a token has FAKE_PLANES of them */
	int32_t ctx;
	int32_t window_planes; /* number of planes of layers with a window; these planes lack the first `held` tokens */
	int32_t held;          /* number of first tokens that have no entries in the windowed planes */
	int32_t dim;           /* head dimension of the rows, if packed copies may be made of them; else 0 */
	int32_t bounded;       /* only the first `bounded` tokens have entries; 0 = all tokens have entries */
	size_t head_bytes;     /* bytes of the state in a snapshot's head */
	const char *policy;
	int fail_after; /* which call of timeline_entries_save() fails, counted from now: 1 = the next; 0 = none */
	struct tokens tokens;
	struct str marks;
	uint8_t *rows; /* [ctx][FAKE_PLANES][plane_bytes] */
	int32_t loaded;
	int restoring;
	struct str begun;
	int32_t begun_n;
};

static inline uint64_t fake_mix(uint64_t z)
{
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static inline struct timeline *fake_open(uint64_t seed, int32_t plane_bytes, int32_t ctx)
{
	struct timeline *tl = xcalloc(1, sizeof *tl);

	tl->seed = seed;
	tl->plane_bytes = plane_bytes;
	tl->ctx = ctx;
	tl->policy = "full";
	tl->head_bytes = 500;
	tl->rows = xcalloc((size_t)ctx, (size_t)plane_bytes * FAKE_PLANES);
	return tl;
}

static inline void fake_close(struct timeline *tl)
{
	tokens_free(&tl->tokens);
	str_free(&tl->marks);
	str_free(&tl->begun);
	free(tl->rows);
	free(tl);
}

static inline size_t fake_row(const struct timeline *tl)
{
	return (size_t)tl->plane_bytes * FAKE_PLANES;
}

uint64_t timeline_token_bytes(const struct timeline *, int windows);

/* Return a hash of the first n tokens and their marks. */
static inline uint64_t fake_state(const struct timeline *tl, size_t n)
{
	uint64_t h = tl->seed;

	for (size_t i = 0; i < n; i++)
		h = fake_mix(h + ((uint64_t)(uint32_t)tl->tokens.id[i] << 8) + (uint8_t)tl->marks.p[i] + 1);
	return h;
}

static inline void fake_fill(void *out, size_t n, uint64_t h)
{
	uint8_t *p = out;

	for (size_t i = 0; i < n; i += 8) {
		/* clear the top exponent bit of each f16, so that it is finite and packed copies can be made */
		uint64_t v = fake_mix(h + i * 0x9e3779b97f4a7c15u) & 0xbfffbfffbfffbfffu;
		memcpy(p + i, &v, n - i < 8 ? n - i : 8);
	}
}

static inline int32_t fake_ready(const struct timeline *tl, size_t n)
{
	return tl->bounded && (int32_t)n > tl->bounded ? tl->bounded : (int32_t)n;
}

static inline void fake_add(struct timeline *tl, int32_t id, int mark)
{
	size_t at = tl->tokens.n;
	char m = (char)mark;

	if (at >= (size_t)tl->ctx)
		abort();
	tokens_add(&tl->tokens, id);
	str_add(&tl->marks, &m, 1);
	if (fake_ready(tl, at + 1) > (int32_t)at)
		fake_fill(tl->rows + at * fake_row(tl), fake_row(tl), fake_state(tl, at + 1));
}

/* Append n tokens that depend on `what` and on their positions. */
static inline void fake_grow(struct timeline *tl, uint64_t what, int32_t n)
{
	uint64_t h = fake_state(tl, tl->tokens.n);

	while (n-- > 0) {
		size_t at = tl->tokens.n;
		char m = 0;

		tokens_add(&tl->tokens, (int32_t)(fake_mix(what + at) % 50000));
		str_add(&tl->marks, &m, 1);
		h = fake_mix(h + ((uint64_t)(uint32_t)tl->tokens.id[at] << 8) + 1);
		if (fake_ready(tl, at + 1) > (int32_t)at)
			fake_fill(tl->rows + at * fake_row(tl), fake_row(tl), h);
	}
}

static inline void fake_cut(struct timeline *tl, size_t n)
{
	tl->tokens.n = tl->marks.n = n;
	if (tl->begun_n > (int32_t)n)
		tl->begun_n = (int32_t)n;
}

/* 1 if all entries are equal to those computed from the tokens. */
static inline int fake_right(const struct timeline *tl)
{
	size_t n = fake_row(tl);
	uint8_t *want = xmalloc(n);
	uint64_t h = tl->seed;
	int right = tl->marks.n == tl->tokens.n;

	for (int32_t i = 0; right && i < fake_ready(tl, tl->tokens.n); i++) {
		h = fake_mix(h + ((uint64_t)(uint32_t)tl->tokens.id[i] << 8) + (uint8_t)tl->marks.p[i] + 1);
		fake_fill(want, n, h);
		right = !memcmp(want, tl->rows + (size_t)i * n, timeline_token_bytes(tl, i >= tl->held));
	}
	free(want);
	return right;
}

/* Return the root of the mean squared difference between the entries of row i and those computed from the tokens. Both
 * are compared as f16 values, which are below 2. */
static inline double fake_error(const struct timeline *tl, int32_t i)
{
	size_t n = fake_row(tl);
	uint16_t *want = xmalloc(n), *got = xmalloc(n);
	double sum = 0;

	fake_fill(want, n, fake_state(tl, (size_t)i + 1));
	memcpy(got, tl->rows + (size_t)i * n, n);
	for (size_t k = 0; k < n / 2; k++) {
		double d = (double)f16_to_f32(want[k]) - (double)f16_to_f32(got[k]);

		sum += d * d;
	}
	free(want);
	free(got);
	return sqrt(sum / (double)(n / 2));
}

static inline int fake_same(const struct timeline *a, const struct timeline *b)
{
	return a->tokens.n == b->tokens.n && a->marks.n == b->marks.n &&
	       (!a->tokens.n || (!memcmp(a->tokens.id, b->tokens.id, a->tokens.n * 4) &&
	                         !memcmp(a->marks.p, b->marks.p, a->marks.n))) &&
	       fake_right(a) && fake_right(b);
}

/* ---- engine/engine.h ---- */

const struct engine_info *engine_info(const struct engine *e)
{
	return &e->info;
}

void engine_identity(const struct engine *e, struct str *out)
{
	str_addf(out, "format 1 bits 1\nkernels %s\ntensor a f16 3\ntensor b f16 4\n",
	         e->kernels ? e->kernels : "cpu avx2");
}

void timeline_entries_identity(const struct timeline *tl, struct str *out)
{
	str_addf(out, "rows %d\n", tl->plane_bytes);
	if (tl->begun_n)
		str_addf(out, "begun by %s until %d\n", tl->begun.p, tl->begun_n);
}

void timeline_begun(struct timeline *tl, const char *by, size_t n_by, int32_t n)
{
	str_clear(&tl->begun);
	str_add(&tl->begun, by, n_by);
	tl->begun_n = n < (int32_t)tl->tokens.n ? n : (int32_t)tl->tokens.n;
}

void timeline_identity(const struct timeline *tl, struct str *out)
{
	str_addf(out, "cache %s\n", tl->policy);
	timeline_entries_identity(tl, out);
}

const int32_t *timeline_tokens(const struct timeline *tl, size_t *n)
{
	*n = tl->tokens.n;
	return tl->tokens.id;
}

const uint8_t *timeline_marks(struct timeline *tl, size_t *n)
{
	*n = tl->marks.n;
	return (const uint8_t *)tl->marks.p;
}

int32_t timeline_entries_dim(const struct timeline *tl)
{
	return tl->dim;
}

uint64_t timeline_token_bytes(const struct timeline *tl, int windows)
{
	return (size_t)tl->plane_bytes * (windows ? FAKE_PLANES : FAKE_PLANES - tl->window_planes);
}

int32_t timeline_entries_ready(struct timeline *tl)
{
	return fake_ready(tl, tl->tokens.n);
}

void timeline_stats(const struct timeline *tl, struct timeline_stats *out)
{
	memset(out, 0, sizeof *out);
	out->ctx = tl->ctx;
	out->n_tokens = (int32_t)tl->tokens.n;
}

static inline void fake_transpose(struct timeline *tl, int32_t first, int32_t n, int windows, uint8_t *planes, int load)
{
	size_t pb = (size_t)tl->plane_bytes, count = FAKE_PLANES - (windows ? 0 : (size_t)tl->window_planes);

	for (size_t p = 0; p < count; p++)
		for (size_t i = 0; i < (size_t)n; i++) {
			uint8_t *a = tl->rows + ((size_t)first + i) * fake_row(tl) + p * pb,
				*b = planes + (p * (size_t)n + i) * pb;
			memcpy(load ? a : b, load ? b : a, pb);
		}
}

/* 1 if the windowed planes, which are the last ones, have an entry of any of these tokens. */
int timeline_windows_hold(struct timeline *tl, int32_t first, int32_t n)
{
	return !tl->window_planes || first + n > tl->held;
}

int timeline_entries_save(struct timeline *tl, int32_t first, int32_t n, int windows, void *out, struct err *e)
{
	if (tl->fail_after && --tl->fail_after == 0)
		return err_set(e, ERR_FAIL, "rows cannot be read back");
	if (first < 0 || n < 0 || first + n > fake_ready(tl, tl->tokens.n))
		return err_set(e, ERR_USAGE, "there are no such rows");
	fake_transpose(tl, first, n, windows, out, 0);
	return 0;
}

int timeline_entries_load(struct timeline *tl, int32_t first, int32_t n, int windows, const void *rows, struct err *e)
{
	if (!first) {
		fake_cut(tl, 0);
		tl->loaded = tl->held = 0;
		tl->restoring = 1;
	}
	if (!tl->restoring || first != tl->loaded || n > tl->ctx - first) {
		tl->loaded = tl->restoring = 0;
		return err_set(e, ERR_FAIL, "rows do not follow each other");
	}
	fake_transpose(tl, first, n, windows, (uint8_t *)(uintptr_t)rows, 1);
	if (!windows)
		tl->held = first + n;
	tl->loaded += n;
	return 0;
}

int timeline_head_save(struct timeline *tl, struct str *out, struct err *e)
{
	uint64_t fixed[3] = { tl->tokens.n, (uint64_t)fake_ready(tl, tl->tokens.n), tl->head_bytes };
	char *state = xcalloc(1, tl->head_bytes + 8);

	(void)e;
	str_add(out, fixed, sizeof fixed);
	str_add(out, tl->tokens.id, tl->tokens.n * 4);
	str_add(out, tl->marks.p, tl->tokens.n);
	fake_fill(state, tl->head_bytes, fake_state(tl, tl->tokens.n));
	str_add(out, state, tl->head_bytes);
	free(state);
	return 0;
}

int timeline_head_load(struct timeline *tl, const void *head, size_t n, struct err *e)
{
	const char *p = (const char *)head + 24;
	uint64_t fixed[3];
	char *state;
	int bad;

	if (n < sizeof fixed)
		return err_set(e, ERR_FAIL, "no head");
	memcpy(fixed, head, sizeof fixed);
	if (!tl->restoring || n != 24 + fixed[0] * 5 + fixed[2] || fixed[1] != (uint64_t)tl->loaded ||
	    fixed[0] > (uint64_t)tl->ctx) {
		tl->restoring = 0;
		return err_set(e, ERR_FAIL, "head of another shape");
	}
	tl->restoring = 0;
	for (size_t i = 0; i < fixed[0]; i++) {
		int32_t id;
		memcpy(&id, p + 4 * i, 4);
		tokens_add(&tl->tokens, id);
		str_add(&tl->marks, p + 4 * fixed[0] + i, 1);
	}
	state = xcalloc(1, fixed[2] + 8);
	fake_fill(state, fixed[2], fake_state(tl, fixed[0]));
	bad = memcmp(state, p + 5 * fixed[0], fixed[2]) != 0;
	free(state);
	if (bad) {
		fake_cut(tl, 0);
		return err_set(e, ERR_FAIL, "the state in the head is wrong");
	}
	return 0;
}

int32_t timeline_adopt(struct timeline *tl, const int32_t *id, const uint8_t *marks, size_t n, struct err *e)
{
	if (!tl->restoring || n != (size_t)tl->loaded)
		return err_set(e, ERR_USAGE, "not the rows that were loaded");
	tl->restoring = 0;
	tokens_append(&tl->tokens, id, n);
	for (size_t i = 0; i < n; i++)
		str_add(&tl->marks, marks ? (const char *)marks + i : "", 1);
	return (int32_t)n;
}

#endif
