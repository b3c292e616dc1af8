/* tests/lib/cut_short.h - converts the first k bytes of a document, for every k. */
#ifndef WEIR_TEST_CUT_SHORT_H
#define WEIR_TEST_CUT_SHORT_H

#include "sessions/import/import.h"
#include "tests/lib/test.h"

#include <stdlib.h>
#include <string.h>

/* Check that each beginning of p[n] is refused with a message or gives some text. */
static inline void check_cut_short(int convert(const char *, size_t, struct doc *, struct err *), const char *p,
                                   size_t n)
{
	for (size_t k = 0; k < n; k++) {
		struct doc d = { 0 };
		struct err e = { 0 };
		char *copy = xmalloc(k + 1);

		memcpy(copy, p, k); /* a document may contain NULs */
		copy[k] = 0;
		CHECK(convert(copy, k, &d, &e) ? *e.msg : d.text.n > 0);
		free(copy);
		doc_free(&d);
	}
}

#endif
