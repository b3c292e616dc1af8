/* tests/fuzz/fuzz_import.c - libFuzzer target for sessions/import/text.c, marks*.c and man.c: any bytes are plain text
 * or are refused. Headings must lie inside the text, whatever kind of markup the file's name stands for. */
#include "sessions/import/import_private.h"

#include <stdlib.h>
#include <string.h>

static void must(int ok)
{
	if (!ok)
		abort();
}

static void must_be_utf8(const char *s, size_t n)
{
	for (size_t i = 0; i < n;) {
		int32_t cp;
		i += (size_t)utf8_decode(s + i, n - i, &cp);
		must(cp > 0);
	}
}

/* Import the bytes as a text of that name. */
static void import(const char *name, const uint8_t *data, size_t size)
{
	struct doc d;
	struct err e = { 0 };

	if (doc_decode(name, data, size, &d, &e))
		return;
	must_be_utf8(d.text.p, d.text.n);
	for (size_t i = 0; i < d.n_mark; i++) {
		must(d.mark[i].at <= d.text.n && (!i || d.mark[i].at >= d.mark[i - 1].at));
		if (d.mark[i].kind == MARK_HEADING)
			must_be_utf8(d.mark[i].text, strlen(d.mark[i].text));
	}
	doc_free(&d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const names[] = { "x.txt", "x.md", "x.rst", "x.org", "x.adoc", "x.tex", NULL };
	struct doc d;
	struct err e = { 0 };

	if (text_decode("x", (const char *)data, size, &d, &e)) {
		must(e.code == ERR_DOCUMENT && e.msg[0] && !d.text.p && !d.name && !d.notices.p);
		return 0;
	}
	must(!e.code && d.text.n && d.name && d.bytes == size && d.text.p[d.text.n] == 0);
	must_be_utf8(d.text.p, d.text.n);
	if (doc_type_of("x.txt", NULL, (const char *)data, size) == DOC_TEXT)
		for (const char *const *name = names; *name; name++)
			import(*name, data, size);
	doc_free(&d);
	return 0;
}
