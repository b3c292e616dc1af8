/* engine/gguf/gguf_get.c - typed reads from a parsed GGUF file, error messages, and the check for finite weights.
 *
 * gguf_parse.c has checked that every value is inside the file, that arrays of strings are complete, and that keys and
 * tensor names are unique. It has also sorted keys and tensors. */
#include "engine/gguf/gguf.h"

#include "engine/gguf/cursor.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const struct {
	const char *name;
	uint8_t bytes;
} type_table[] = {
	[GGUF_U8] = { "u8", 1 },       [GGUF_I8] = { "i8", 1 },     [GGUF_U16] = { "u16", 2 },
	[GGUF_I16] = { "i16", 2 },     [GGUF_U32] = { "u32", 4 },   [GGUF_I32] = { "i32", 4 },
	[GGUF_F32] = { "f32", 4 },     [GGUF_BOOL] = { "bool", 1 }, [GGUF_STRING] = { "string", 0 },
	[GGUF_ARRAY] = { "array", 0 }, [GGUF_U64] = { "u64", 8 },   [GGUF_I64] = { "i64", 8 },
	[GGUF_F64] = { "f64", 8 },
};

const char *gguf_type_name(enum gguf_type t)
{
	return (unsigned)t <= GGUF_F64 ? type_table[t].name : "unknown";
}

unsigned gguf_type_size(enum gguf_type t)
{
	return (unsigned)t <= GGUF_F64 ? type_table[t].bytes : 0;
}

int view_cmp(struct view a, struct view b)
{
	size_t n = MIN(a.n, b.n);
	int c = n ? memcmp(a.p, b.p, n) : 0;
	return c ? c : a.n < b.n ? -1 : a.n > b.n;
}

const char *view_show(struct view v, char out[80])
{
	size_t n = 0;

	for (size_t i = 0; i < v.n; i++) {
		unsigned char c = (unsigned char)v.p[i];
		if (n > 70) {
			memcpy(out + n, "...", 4);
			return out;
		}
		n += (size_t)snprintf(out + n, 80 - n, c >= 0x20 && c <= 0x7e ? "%c" : "\\x%02x", c);
	}
	out[n] = 0;
	return out;
}

int gguf_err(const struct gguf *g, struct err *e, const char *fmt, ...)
{
	char text[sizeof e->msg];
	size_t n = strlen(g->path);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	/* Omit the beginning of a long path, so that the file name and the text of the message still fit. */
	if (n > 120)
		return err_set(e, ERR_MODEL, "file '...%s': %s", g->path + n - 117, text);
	return err_set(e, ERR_MODEL, "file '%s': %s", g->path, text);
}

/* ---- lookup ---- */

const struct gguf_value *gguf_find(const struct gguf *g, const char *key)
{
	struct view want = { key, strlen(key) };
	uint64_t lo = 0, hi = g->n_kv;

	while (lo < hi) {
		uint64_t mid = lo + (hi - lo) / 2;
		int c = view_cmp(g->kv_sorted[mid]->key, want);
		if (!c)
			return g->kv_sorted[mid];
		if (c < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return NULL;
}

static int tensors_by_name(const void *a, const void *b)
{
	const struct gguf_tensor *x = *(const struct gguf_tensor *const *)a;
	const struct gguf_tensor *y = *(const struct gguf_tensor *const *)b;
	int c = view_cmp(x->name, y->name);
	return c ? c : x->off < y->off ? -1 : x->off > y->off;
}

uint64_t gguf_sort_tensors(struct gguf *g)
{
	for (uint64_t i = 0; i < g->n_tensor; i++)
		g->tensor_sorted[i] = &g->tensor[i];
	qsort(g->tensor_sorted, g->n_tensor, sizeof *g->tensor_sorted, tensors_by_name);
	for (uint64_t i = 1; i < g->n_tensor; i++)
		if (!view_cmp(g->tensor_sorted[i - 1]->name, g->tensor_sorted[i]->name))
			return i;
	return 0;
}

const struct gguf_tensor *gguf_tensor_find(const struct gguf *g, const char *name)
{
	struct view want = { name, strlen(name) };
	uint64_t lo = 0, hi = g->n_tensor;

	while (lo < hi) {
		uint64_t mid = lo + (hi - lo) / 2;
		int c = view_cmp(g->tensor_sorted[mid]->name, want);
		if (!c)
			return g->tensor_sorted[mid];
		if (c < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return NULL;
}

/* ---- typed reads ---- */

static int wrong_type(const struct gguf *g, const struct gguf_value *v, const char *want, struct err *e)
{
	char key[120];
	text_escape(key, sizeof key, v->key.p, v->key.n);
	if (v->type == GGUF_ARRAY)
		return gguf_err(g, e, "byte %" PRIu64 ": '%s' is an array of %" PRIu64 " x %s, and must be %s", v->off,
		                key, v->n, gguf_type_name(v->elem), want);
	return gguf_err(g, e, "byte %" PRIu64 ": '%s' is of type %s, and must be %s", v->off, key,
	                gguf_type_name(v->type), want);
}

static int is_int(enum gguf_type t)
{
	return t <= GGUF_I32 || t == GGUF_U64 || t == GGUF_I64;
}

/* Set *out to the integer of type t at p. If the integer exceeds INT64_MAX, set *out to INT64_MAX and return -1. */
static int read_int(enum gguf_type t, const uint8_t *p, int64_t *out)
{
	uint64_t u = bytes_le(p, gguf_type_size(t));

	switch (t) {
	case GGUF_I8: *out = (int8_t)u; return 0;
	case GGUF_I16: *out = (int16_t)u; return 0;
	case GGUF_I32: *out = (int32_t)u; return 0;
	case GGUF_I64: *out = (int64_t)u; return 0;
	default: *out = u > INT64_MAX ? INT64_MAX : (int64_t)u; return u > INT64_MAX ? -1 : 0;
	}
}

int gguf_int(const struct gguf *g, const char *key, int64_t min, int64_t max, int64_t *out, struct err *e)
{
	const struct gguf_value *v = gguf_find(g, key);
	int64_t n;

	if (!v)
		return 0;
	if (!is_int(v->type))
		return wrong_type(g, v, "an integer", e);
	if (read_int(v->type, v->data, &n))
		return gguf_err(g, e, "byte %" PRIu64 ": '%s' is %" PRIu64 ", and must be %" PRId64 " to %" PRId64,
		                v->off, key, bytes_le(v->data, 8), min, max);
	if ((n < min || n > max) && min == max)
		return gguf_err(g, e, "byte %" PRIu64 ": '%s' is %" PRId64 ", and must be %" PRId64, v->off, key, n,
		                min);
	if (n < min || n > max)
		return gguf_err(g, e, "byte %" PRIu64 ": '%s' is %" PRId64 ", and must be %" PRId64 " to %" PRId64,
		                v->off, key, n, min, max);
	*out = n;
	return 1;
}

int gguf_float(const struct gguf *g, const char *key, double *out, struct err *e)
{
	const struct gguf_value *v = gguf_find(g, key);

	if (!v)
		return 0;
	if (v->type == GGUF_F32) {
		uint32_t u = (uint32_t)bytes_le(v->data, 4);
		float f;
		memcpy(&f, &u, 4);
		*out = f;
	} else if (v->type == GGUF_F64) {
		uint64_t u = bytes_le(v->data, 8);
		memcpy(out, &u, 8);
	} else {
		return wrong_type(g, v, "f32 or f64", e);
	}
	return 1;
}

int gguf_bool(const struct gguf *g, const char *key, int *out, struct err *e)
{
	const struct gguf_value *v = gguf_find(g, key);

	if (!v)
		return 0;
	if (v->type != GGUF_BOOL)
		return wrong_type(g, v, "bool", e);
	*out = v->data[0];
	return 1;
}

int gguf_string(const struct gguf *g, const char *key, struct view *out, struct err *e)
{
	const struct gguf_value *v = gguf_find(g, key);

	if (!v)
		return 0;
	if (v->type != GGUF_STRING)
		return wrong_type(g, v, "a string", e);
	out->p = (const char *)v->data;
	out->n = v->bytes;
	return 1;
}

int gguf_array(const struct gguf *g, const char *key, enum gguf_type elem, uint64_t n, const struct gguf_value **out,
               struct err *e)
{
	const struct gguf_value *v = gguf_find(g, key);
	char want[80];

	if (!v)
		return 0;
	if (v->type != GGUF_ARRAY || v->elem != elem || (n != UINT64_MAX && v->n != n)) {
		if (n == UINT64_MAX)
			snprintf(want, sizeof want, "an array of %s", gguf_type_name(elem));
		else
			snprintf(want, sizeof want, "an array of %" PRIu64 " x %s", n, gguf_type_name(elem));
		return wrong_type(g, v, want, e);
	}
	*out = v;
	return 1;
}

int64_t gguf_array_int(const struct gguf_value *v, uint64_t i)
{
	int64_t n = 0;
	read_int(v->elem, v->data + i * gguf_type_size(v->elem), &n);
	return n;
}

int gguf_string_next(const struct gguf_value *v, uint64_t *pos, struct view *out)
{
	uint64_t n;

	if (v->type != GGUF_ARRAY || v->elem != GGUF_STRING || *pos >= v->bytes || v->bytes - *pos < 8)
		return 0;
	n = bytes_le(v->data + *pos, 8);
	if (n > v->bytes - *pos - 8)
		return 0;
	out->p = (const char *)v->data + *pos + 8;
	out->n = n;
	*pos += 8 + n;
	return 1;
}

/* ---- weights ---- */

static int bad_weight(const struct gguf *g, const struct gguf_tensor *t, int64_t i, float value, struct err *e)
{
	int32_t block = dtype_info(t->type)->block;
	uint64_t at = t->at + dtype_bytes(t->type, (uint64_t)(i / block * block));

	return gguf_err(g, e, "byte %" PRIu64 ": tensor '%.*s' is damaged: its value number %" PRId64 " is %s", at,
	                (int)t->name.n, t->name.p, i,
	                isnan(value) ? "NaN"
	                : value > 0  ? "Inf"
	                             : "-Inf");
}

int gguf_check_weights(const struct gguf *g, struct err *e)
{
	enum { PIECE = 2048 }; /* number of values converted at once; a multiple of the block size of every type */
	float buf[PIECE];

	for (uint64_t i = 0; i < g->n_tensor; i++) {
		const struct gguf_tensor *t = &g->tensor[i];
		int64_t n = t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3];
		const uint8_t *p = t->data;

		for (int64_t done = 0; done < n; done += PIECE) {
			int64_t m = n - done < PIECE ? n - done : PIECE;

			dtype_to_f32(t->type, buf, p + dtype_bytes(t->type, (uint64_t)done), m);
			for (int64_t j = 0; j < m; j++)
				if (!isfinite(buf[j]))
					return bad_weight(g, t, done + j, buf[j], e);
		}
	}
	return 0;
}
