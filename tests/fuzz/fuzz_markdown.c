/* tests/fuzz/fuzz_markdown.c - libFuzzer target for ui/transcript/markdown.c and all below it: `make fuzz`, then
 * build/fuzz/fuzz_markdown [CORPUS].
 *
 * The first byte gives the width, the second the size of the parts in which the text arrives; the rest is the text. */
#include "ui/text/text.h"
#include "ui/transcript/lines.h"

#include <stdlib.h>
#include <string.h>

enum { GROWTHS = 8 }; /* most parts in which a text arrives, because each part lays out the whole text again */

static void must(int ok)
{
	if (!ok)
		abort();
}

/* Check that the lines are in the order of the text, fit the width, and have only characters that a terminal may
 * show. */
static void check(const struct lines *l, const struct str *clean, int width)
{
	uint32_t source = 0;
	size_t run = 0;

	for (size_t i = 0; i < l->n_line; i++) {
		int cols = 0;

		must(l->line[i].run == run && l->line[i].source >= source && l->line[i].source <= clean->n);
		source = l->line[i].source;
		for (; run < (size_t)l->line[i].run + l->line[i].n_run; run++) {
			const struct run *r = &l->run[run];
			const char *p = l->text.p + r->from;

			must((size_t)r->from + r->n <= l->text.n && r->cols == text_width(p, r->n));
			must(r->source == NO_SOURCE || (size_t)r->source + r->n <= clean->n);
			cols += r->cols;
			for (size_t at = 0; at < r->n;) {
				int32_t cp;
				at += (size_t)utf8_decode(p + at, r->n - at, &cp);
				must(cp >= 0x20 && char_width(cp) >= 0);
			}
		}
		must(cols <= width);
	}
	must(run == l->n_run);
	for (size_t i = 0; i < l->n_code; i++)
		must((size_t)l->code[i].from + l->code[i].n <= clean->n + 1);
}

static void same(const struct lines *a, const struct lines *b)
{
	must(a->n_line == b->n_line && a->n_run == b->n_run && a->n_code == b->n_code);
	for (size_t i = 0; i < a->n_run; i++)
		must(a->run[i].n == b->run[i].n && a->run[i].style == b->run[i].style &&
		     !memcmp(a->text.p + a->run[i].from, b->text.p + b->run[i].from, a->run[i].n));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct str text;
	static struct lines l, grown;
	struct growth g = { 0 };
	struct clean c;
	int width;
	size_t step, n_code;

	if (size < 2)
		return 0;
	width = 4 + data[0] % 197;
	step = 1 + data[1] % 64;
	str_clear(&text);
	clean_init(&c, 0);
	clean_text(&c, (const char *)data + 2, size - 2, &text);
	clean_end(&c, &text);
	if (!text.n)
		return 0;

	lines_clear(&l);
	l.ascii = grown.ascii = data[1] >> 7;
	lines_markdown(&l, text.p, text.n, width);
	check(&l, &text, width);

	lines_clear(&grown);
	if (step < text.n / GROWTHS)
		step = text.n / GROWTHS;
	for (size_t at = 0; at < text.n;) {
		at = text.n - at < step ? text.n : at + step;
		lines_grow_markdown(&grown, &g, text.p, at, width);
	}
	same(&l, &grown);

	n_code = markdown_code(text.p, text.n, 0, &text);
	must(n_code == l.n_code);
	return 0;
}
