/* tests/fuzz/fuzz_import.c - libFuzzer target for sessions/import/text.c: any bytes are plain text or are refused. */
#include "sessions/import/import_private.h"

#include <stdlib.h>
#include <string.h>

static void must(int ok)
{
	if (!ok)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct doc d;
	struct err e = { 0 };

	if (text_decode("x", (const char *)data, size, &d, &e)) {
		must(e.code == ERR_DOCUMENT && e.msg[0] && !d.text.p && !d.name && !d.notices.p);
		return 0;
	}
	must(!e.code && d.text.n && d.name && d.bytes == size && d.text.p[d.text.n] == 0);
	for (size_t i = 0; i < d.text.n;) {
		int32_t cp;
		i += (size_t)utf8_decode(d.text.p + i, d.text.n - i, &cp);
		must(cp > 0);
	}
	doc_free(&d);
	return 0;
}
