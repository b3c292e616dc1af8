/* engine/cache/serialize.c - see serialize.h. Tensors and KV entries are copied directly between the backend and the
 * saved bytes. */
#include "engine/cache/serialize.h"

#include <string.h>

void serialize_fail(struct serializer *a, const char *what)
{
	if (!a->bad)
		a->bad = what;
}

/* Advance a->at by n bytes, and return where these bytes begin. In mode MEASURE or after a failure, return NULL: there
 * is nothing to copy. */
static uint8_t *field_advance(struct serializer *a, uint64_t n)
{
	uint8_t *p = a->at;

	if (a->bad)
		return NULL;
	if (a->mode == SERIALIZE_MEASURE) {
		if (size_add(a->bytes, n, &a->bytes))
			serialize_fail(a, "its size");
		return NULL;
	}
	if (n > a->left) {
		serialize_fail(a, "its length");
		return NULL;
	}
	a->at += n;
	a->left -= n;
	return p;
}

void serialize_bytes(struct serializer *a, void *p, uint64_t n)
{
	uint8_t *at = field_advance(a, n);

	if (!at || !n)
		return;
	if (serialize_loading(a))
		memcpy(p, at, n);
	else
		memcpy(at, p, n);
}

void serialize_i64(struct serializer *a, int64_t *x, int64_t lo, int64_t hi, const char *what)
{
	int64_t v = *x;

	serialize_bytes(a, &v, sizeof v);
	if (a->bad || !serialize_loading(a))
		return;
	if (v < lo || v > hi)
		serialize_fail(a, what);
	else
		*x = v;
}

/* 1 if all n numbers at p are at least lo and at most hi. p need not be aligned. */
static int all_within(const uint8_t *p, uint64_t n, int32_t lo, int32_t hi)
{
	int bad = 0;

	for (uint64_t i = 0; i < n; i++) {
		int32_t v;

		memcpy(&v, p + 4 * i, sizeof v);
		bad |= v < lo || v > hi;
	}
	return !bad;
}

void serialize_i32s(struct serializer *a, int32_t *x, uint64_t n, int32_t lo, int32_t hi, const char *what)
{
	uint64_t bytes;
	uint8_t *at;

	if (size_mul(n, sizeof *x, &bytes)) {
		serialize_fail(a, what);
		return;
	}
	if (!(at = field_advance(a, bytes)) || !n)
		return;
	if (!serialize_loading(a))
		memcpy(at, x, bytes);
	else if (all_within(at, n, lo, hi))
		memcpy(x, at, bytes);
	else
		serialize_fail(a, what);
}

void serialize_i32(struct serializer *a, int32_t *x, int32_t lo, int32_t hi, const char *what)
{
	serialize_i32s(a, x, 1, lo, hi, what);
}

void serialize_expect(struct serializer *a, uint64_t x, const char *what)
{
	uint64_t v = x;

	serialize_bytes(a, &v, sizeof v);
	if (serialize_loading(a) && v != x)
		serialize_fail(a, what);
}

void serialize_tensor_i32(struct serializer *a, struct backend *be, struct tensor *t, uint64_t first, uint64_t n,
                          int32_t lo, int32_t hi, const char *what)
{
	uint8_t *at = field_advance(a, 4 * n);

	if (!at || !n)
		return;
	if (!serialize_loading(a))
		be->ops->read(be, t, 4 * first, at, 4 * n);
	else if (all_within(at, n, lo, hi))
		be->ops->write(be, t, 4 * first, at, 4 * n);
	else
		serialize_fail(a, what);
}

void serialize_tensor_f32(struct serializer *a, struct backend *be, struct tensor *t, uint64_t first, uint64_t n)
{
	uint8_t *at = field_advance(a, 4 * n);

	if (!at || !n)
		return;
	if (serialize_loading(a))
		be->ops->write(be, t, 4 * first, at, 4 * n);
	else
		be->ops->read(be, t, 4 * first, at, 4 * n);
}

void serialize_kv(struct serializer *a, struct kv_store *kv, int windowed, int32_t slot0, int32_t n)
{
	uint8_t *at = field_advance(a, (windowed ? kv_window_token_bytes : kv_full_token_bytes)(kv->hp, kv->types) *
	                                       (uint64_t)n);

	if (!at)
		return;
	if (serialize_loading(a))
		(windowed ? kv_window_write : kv_full_write)(kv, slot0, n, at);
	else
		(windowed ? kv_window_read : kv_full_read)(kv, slot0, n, at);
}
