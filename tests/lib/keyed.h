/* tests/lib/keyed.h - makes copies of a model file with additional keys in front of the file's own keys. */
#ifndef WEIR_KEYED_H
#define WEIR_KEYED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/mkgguf.h"
#include "tests/lib/test.h"

/* Write a copy of a model file of tests/ to `path`, with the keys of m added; frees m. Tensor offsets stay valid,
 * because a padding key makes the added bytes a multiple of the alignment. */
static inline void keyed_model(const char *rel, struct mk *m, const char *path)
{
	enum { ALIGNMENT = 32, COUNT_AT = 16, KEYS_AT = 24 };
	struct str out = { 0 };
	uint64_t n_kv;
	size_t n, fill;
	char *bytes = test_read(test_file(rel), &n), blank[ALIGNMENT + 1] = "";
	FILE *f;

	CHECK(bytes && n > KEYS_AT);
	mk_string(m, "test.fill", "");
	fill = (ALIGNMENT - m->kv.n % ALIGNMENT) % ALIGNMENT;
	m->kv.n -= 8; /* remove the length of the empty string, to replace the string */
	memset(blank, ' ', fill);
	put_string(&m->kv, blank);
	memcpy(&n_kv, bytes + COUNT_AT, sizeof n_kv);
	n_kv += m->n_kv;
	str_add(&out, bytes, COUNT_AT);
	put_u64(&out, n_kv);
	str_add(&out, m->kv.p, m->kv.n);
	str_add(&out, bytes + KEYS_AT, n - KEYS_AT);
	f = fopen(path, "wb");
	CHECK(f && fwrite(out.p, 1, out.n, f) == out.n && !fclose(f));
	str_free(&out);
	str_free(&m->kv);
	*m = (struct mk){ 0 };
	free(bytes);
}

#endif
