/* tests/fuzz/fuzz_clean.c - libFuzzer target for ui/text/clean.c: `make fuzz`, then build/fuzz/fuzz_clean [CORPUS].
 *
 * The first byte chooses the flags and where the text is cut; the rest is the text. */
#include "ui/text/text.h"
#include "ui/ui.h"

#include <stdlib.h>
#include <string.h>

static void must(int ok)
{
	if (!ok)
		abort();
}

/* Check that the output is valid UTF-8 without bytes that could begin a control sequence and without characters of
 * width 0. */
static void check(const struct str *s, unsigned flags)
{
	size_t line = 0;

	for (size_t i = 0; i < s->n;) {
		int32_t cp;
		size_t n = (size_t)utf8_decode(s->p + i, s->n - i, &cp);
		i += n;
		must(cp >= 0);
		if (cp == '\n') {
			must(!(flags & CLEAN_LINE));
			line = 0;
			continue;
		}
		must(char_width(cp) >= 0 && cp >= 0x20 && !(cp >= 0x7f && cp <= 0x9f));
		line += n;
		must(line <= CLEAN_LINE_MAX);
	}
}

static void run(unsigned flags, const char *in, size_t n, size_t step, struct str *out)
{
	struct clean c;

	str_clear(out);
	clean_init(&c, flags);
	for (size_t i = 0; i < n; i += step)
		clean_text(&c, in + i, n - i < step ? n - i : step, out);
	clean_end(&c, out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct str a, b;
	const char *in = (const char *)data + 1;
	unsigned flags;
	size_t n;

	if (!size)
		return 0;
	n = size - 1;
	flags = data[0] & (CLEAN_LINE | CLEAN_SHOW);
	run(flags, in, n, n + 1, &a);
	check(&a, flags);
	run(flags, in, n, 1 + (data[0] >> 2) % 13, &b);
	must(a.n == b.n && (!a.n || !memcmp(a.p, b.p, a.n)));
	run(flags, str_text(&a), a.n, a.n + 1, &b);
	must(a.n == b.n && (!a.n || !memcmp(a.p, b.p, a.n)));
	return 0;
}
