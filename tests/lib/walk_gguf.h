/* tests/lib/walk_gguf.h - reads every byte of a parsed GGUF file through every getter.
 *
 * For files that were accepted although they are random or damaged: a sanitizer then sees any view that leaves the
 * file. The sum of the bytes keeps the compiler from dropping the reads. */
#ifndef WEIR_WALK_GGUF_H
#define WEIR_WALK_GGUF_H

#include "engine/gguf/gguf.h"

#include <stdlib.h>

static inline uint64_t walk_bytes(const void *p, uint64_t n)
{
	const volatile uint8_t *b = p;
	uint64_t sum = 0;
	for (uint64_t i = 0; i < n; i++)
		sum += b[i];
	return sum;
}

static inline uint64_t walk_value(const struct gguf *g, const struct gguf_value *v)
{
	char *key = xstrndup(v->key.p, v->key.n);
	const struct gguf_value *array;
	uint64_t sum = walk_bytes(v->data, v->bytes), pos = 0, n = 0;
	struct view s;
	int64_t i64;
	double f;
	int b;

	if (gguf_find(g, key) != v)
		abort();
	sum += (uint64_t)gguf_int(g, key, INT64_MIN, INT64_MAX, &i64, NULL);
	sum += (uint64_t)gguf_int(g, key, 3, 4, &i64, NULL);
	sum += (uint64_t)gguf_float(g, key, &f, NULL);
	sum += (uint64_t)gguf_bool(g, key, &b, NULL);
	if (gguf_string(g, key, &s, NULL) == 1)
		sum += walk_bytes(s.p, s.n);
	for (int elem = GGUF_U8; elem <= GGUF_F64; elem++) {
		if (gguf_array(g, key, (enum gguf_type)elem, UINT64_MAX, &array, NULL) != 1)
			continue;
		if (elem <= GGUF_I32 || elem == GGUF_U64 || elem == GGUF_I64)
			for (uint64_t i = 0; i < array->n; i++)
				sum += (uint64_t)gguf_array_int(array, i);
	}
	while (gguf_string_next(v, &pos, &s)) {
		sum += walk_bytes(s.p, s.n);
		n++;
	}
	if (v->type == GGUF_ARRAY && v->elem == GGUF_STRING && n != v->n)
		abort();
	free(key);
	return sum;
}

static inline uint64_t walk_gguf(const struct gguf *g)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < g->n_kv; i++)
		sum += walk_value(g, &g->kv[i]);
	for (uint64_t i = 0; i < g->n_tensor; i++) {
		const struct gguf_tensor *t = &g->tensor[i];
		char *name = xstrndup(t->name.p, t->name.n);
		if (gguf_tensor_find(g, name) != t || t->at + t->bytes > g->size)
			abort();
		sum += walk_bytes(t->data, t->bytes);
		free(name);
	}
	return sum + (uint64_t)gguf_check_weights(g, NULL);
}

#endif
