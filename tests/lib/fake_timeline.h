/* tests/lib/fake_timeline.h - an engine and a timeline that compute nothing, for tests of sessions/.
 *
 * Rows are a function of the fake model's seed, the tokens up to the row and their marks. So restored rows are
 * compared with computed ones; the saved timeline is not needed. This file defines the functions of engine/engine.h
 * that sessions/ calls; the linker of a test takes these and leaves the engine's own in the archive. */
#ifndef WEIR_FAKE_TIMELINE_H
#define WEIR_FAKE_TIMELINE_H

#include "engine/engine_snapshot.h"

#include <stdlib.h>
#include <string.h>

enum { FAKE_PLANES = 6 };

struct engine {
	struct engine_info info;
	const char *kernels;
};

struct timeline {
	uint64_t seed;
	int32_t plane_bytes; /* of one token in one plane: FAKE_PLANES of them are its rows */
	int32_t ctx;
	int32_t window_planes; /* of its planes, those that have forgotten the tokens before `held` */
	int32_t held;          /* these tokens lack the rows of the last planes */
	int32_t bounded;       /* tokens from here on have no rows; 0 = all have */
	size_t head_bytes;     /* of state in the head */
	const char *policy;
	int fail_after; /* timeline_entries_save() fails after so many calls; 0 = never */
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
	struct timeline *t = xcalloc(1, sizeof *t);

	t->seed = seed;
	t->plane_bytes = plane_bytes;
	t->ctx = ctx;
	t->policy = "full";
	t->head_bytes = 500;
	t->rows = xcalloc((size_t)ctx, (size_t)plane_bytes * FAKE_PLANES);
	return t;
}

static inline void fake_close(struct timeline *t)
{
	tokens_free(&t->tokens);
	str_free(&t->marks);
	str_free(&t->begun);
	free(t->rows);
	free(t);
}

static inline size_t fake_row(const struct timeline *t)
{
	return (size_t)t->plane_bytes * FAKE_PLANES;
}

uint64_t timeline_token_bytes(const struct timeline *, int windows);

/* What all tokens 0 .. n with their marks come to. */
static inline uint64_t fake_state(const struct timeline *t, size_t n)
{
	uint64_t h = t->seed;

	for (size_t i = 0; i < n; i++)
		h = fake_mix(h + ((uint64_t)(uint32_t)t->tokens.id[i] << 8) + (uint8_t)t->marks.p[i] + 1);
	return h;
}

static inline void fake_fill(void *out, size_t n, uint64_t h)
{
	uint8_t *p = out;

	for (size_t i = 0; i < n; i += 8) {
		uint64_t v = fake_mix(h + i * 0x9e3779b97f4a7c15u);
		memcpy(p + i, &v, n - i < 8 ? n - i : 8);
	}
}

static inline int32_t fake_ready(const struct timeline *t, size_t n)
{
	return t->bounded && (int32_t)n > t->bounded ? t->bounded : (int32_t)n;
}

static inline void fake_add(struct timeline *t, int32_t id, int mark)
{
	size_t at = t->tokens.n;
	char m = (char)mark;

	if (at >= (size_t)t->ctx)
		abort();
	tokens_add(&t->tokens, id);
	str_add(&t->marks, &m, 1);
	if (fake_ready(t, at + 1) > (int32_t)at)
		fake_fill(t->rows + at * fake_row(t), fake_row(t), fake_state(t, at + 1));
}

/* n tokens that depend on what and where. */
static inline void fake_grow(struct timeline *t, uint64_t what, int32_t n)
{
	uint64_t h = fake_state(t, t->tokens.n);

	while (n-- > 0) {
		size_t at = t->tokens.n;
		char m = 0;

		tokens_add(&t->tokens, (int32_t)(fake_mix(what + at) % 50000));
		str_add(&t->marks, &m, 1);
		h = fake_mix(h + ((uint64_t)(uint32_t)t->tokens.id[at] << 8) + 1);
		if (fake_ready(t, at + 1) > (int32_t)at)
			fake_fill(t->rows + at * fake_row(t), fake_row(t), h);
	}
}

static inline void fake_cut(struct timeline *t, size_t n)
{
	t->tokens.n = t->marks.n = n;
	if (t->begun_n > (int32_t)n)
		t->begun_n = (int32_t)n;
}

/* Does it hold what its tokens say? */
static inline int fake_right(const struct timeline *t)
{
	size_t n = fake_row(t);
	uint8_t *want = xmalloc(n);
	uint64_t h = t->seed;
	int right = t->marks.n == t->tokens.n;

	for (int32_t i = 0; right && i < fake_ready(t, t->tokens.n); i++) {
		h = fake_mix(h + ((uint64_t)(uint32_t)t->tokens.id[i] << 8) + (uint8_t)t->marks.p[i] + 1);
		fake_fill(want, n, h);
		right = !memcmp(want, t->rows + (size_t)i * n, timeline_token_bytes(t, i >= t->held));
	}
	free(want);
	return right;
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

void timeline_entries_identity(const struct timeline *t, struct str *out)
{
	str_addf(out, "rows %d\n", t->plane_bytes);
	if (t->begun_n)
		str_addf(out, "begun by %s until %d\n", t->begun.p, t->begun_n);
}

void timeline_begun(struct timeline *t, const char *by, size_t n_by, int32_t n)
{
	str_clear(&t->begun);
	str_add(&t->begun, by, n_by);
	t->begun_n = n < (int32_t)t->tokens.n ? n : (int32_t)t->tokens.n;
}

void timeline_identity(const struct timeline *t, struct str *out)
{
	str_addf(out, "cache %s\n", t->policy);
	timeline_entries_identity(t, out);
}

const int32_t *timeline_tokens(const struct timeline *t, size_t *n)
{
	*n = t->tokens.n;
	return t->tokens.id;
}

const uint8_t *timeline_marks(struct timeline *t, size_t *n)
{
	*n = t->marks.n;
	return (const uint8_t *)t->marks.p;
}

uint64_t timeline_token_bytes(const struct timeline *t, int windows)
{
	return (size_t)t->plane_bytes * (windows ? FAKE_PLANES : FAKE_PLANES - t->window_planes);
}

int32_t timeline_entries_ready(struct timeline *t)
{
	return fake_ready(t, t->tokens.n);
}

void timeline_stats(const struct timeline *t, struct timeline_stats *out)
{
	memset(out, 0, sizeof *out);
	out->ctx = t->ctx;
	out->n_tokens = (int32_t)t->tokens.n;
}

static inline void fake_transpose(struct timeline *t, int32_t first, int32_t n, int windows, uint8_t *planes, int load)
{
	size_t pb = (size_t)t->plane_bytes, count = FAKE_PLANES - (windows ? 0 : (size_t)t->window_planes);

	for (size_t p = 0; p < count; p++)
		for (size_t i = 0; i < (size_t)n; i++) {
			uint8_t *a = t->rows + ((size_t)first + i) * fake_row(t) + p * pb,
				*b = planes + (p * (size_t)n + i) * pb;
			memcpy(load ? a : b, load ? b : a, pb);
		}
}

/* The last planes are those of layers with a window. */
int timeline_windows_hold(struct timeline *t, int32_t first, int32_t n)
{
	return !t->window_planes || first + n > t->held;
}

int timeline_entries_save(struct timeline *t, int32_t first, int32_t n, int windows, void *out, struct err *e)
{
	if (t->fail_after && --t->fail_after == 0)
		return err_set(e, ERR_FAIL, "rows cannot be read back");
	if (first < 0 || n < 0 || first + n > fake_ready(t, t->tokens.n))
		return err_set(e, ERR_USAGE, "there are no such rows");
	fake_transpose(t, first, n, windows, out, 0);
	return 0;
}

int timeline_entries_load(struct timeline *t, int32_t first, int32_t n, int windows, const void *rows, struct err *e)
{
	if (!first) {
		fake_cut(t, 0);
		t->loaded = t->held = 0;
		t->restoring = 1;
	}
	if (!t->restoring || first != t->loaded || n > t->ctx - first) {
		t->loaded = t->restoring = 0;
		return err_set(e, ERR_FAIL, "rows do not follow each other");
	}
	fake_transpose(t, first, n, windows, (uint8_t *)(uintptr_t)rows, 1);
	if (!windows)
		t->held = first + n;
	t->loaded += n;
	return 0;
}

int timeline_head_save(struct timeline *t, struct str *out, struct err *e)
{
	uint64_t fixed[3] = { t->tokens.n, (uint64_t)fake_ready(t, t->tokens.n), t->head_bytes };
	char *state = xcalloc(1, t->head_bytes + 8);

	(void)e;
	str_add(out, fixed, sizeof fixed);
	str_add(out, t->tokens.id, t->tokens.n * 4);
	str_add(out, t->marks.p, t->tokens.n);
	fake_fill(state, t->head_bytes, fake_state(t, t->tokens.n));
	str_add(out, state, t->head_bytes);
	free(state);
	return 0;
}

int timeline_head_load(struct timeline *t, const void *head, size_t n, struct err *e)
{
	const char *p = (const char *)head + 24;
	uint64_t fixed[3];
	char *state;
	int bad;

	if (n < sizeof fixed)
		return err_set(e, ERR_FAIL, "no head");
	memcpy(fixed, head, sizeof fixed);
	if (!t->restoring || n != 24 + fixed[0] * 5 + fixed[2] || fixed[1] != (uint64_t)t->loaded ||
	    fixed[0] > (uint64_t)t->ctx) {
		t->restoring = 0;
		return err_set(e, ERR_FAIL, "head of another shape");
	}
	t->restoring = 0;
	for (size_t i = 0; i < fixed[0]; i++) {
		int32_t id;
		memcpy(&id, p + 4 * i, 4);
		tokens_add(&t->tokens, id);
		str_add(&t->marks, p + 4 * fixed[0] + i, 1);
	}
	state = xcalloc(1, fixed[2] + 8);
	fake_fill(state, fixed[2], fake_state(t, fixed[0]));
	bad = memcmp(state, p + 5 * fixed[0], fixed[2]) != 0;
	free(state);
	if (bad) {
		fake_cut(t, 0);
		return err_set(e, ERR_FAIL, "the state in the head is wrong");
	}
	return 0;
}

int32_t timeline_adopt(struct timeline *t, const int32_t *id, const uint8_t *marks, size_t n, struct err *e)
{
	if (!t->restoring || n != (size_t)t->loaded)
		return err_set(e, ERR_USAGE, "not the rows that were loaded");
	t->restoring = 0;
	tokens_append(&t->tokens, id, n);
	for (size_t i = 0; i < n; i++)
		str_add(&t->marks, marks ? (const char *)marks + i : "", 1);
	return (int32_t)n;
}

#endif
