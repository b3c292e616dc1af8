/* tests/fuzz/fuzz_reasoning.c - libFuzzer target for the marks around a model's reasoning,
 * app/conversation/reasoning.c: `make fuzz`, then build/fuzz/fuzz_reasoning [CORPUS].
 *
 * The first byte says how the answer is cut and whether the prompt has opened the reasoning; the cut answer must give
 * the same result as the whole one. */
#include "app/conversation/conversation.h"

#include <stdlib.h>
#include <string.h>

static void must(int ok)
{
	if (!ok)
		abort();
}

static void answer_of(const char *text, size_t n, size_t step, int first, struct str *out, size_t *words)
{
	struct reasoning r = { .first = first };

	for (size_t i = 0; i < n; i += step)
		reasoning_feed(&r, text + i, n - i < step ? n - i : step, out);
	reasoning_end(&r, out);
	*words = (size_t)r.words;
	reasoning_free(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str whole = { 0 }, cut = { 0 };
	size_t n = size - 1, words[2], seen = 0;
	char *text;

	if (!size)
		return 0;
	text = malloc(n + 1); /* an exact allocation with a NUL, so that a sanitizer detects a read past its end */
	memcpy(text, data + 1, n);
	text[n] = 0;
	answer_of(text, n, n + 1, data[0] >> 7, &whole, &words[0]);
	answer_of(text, n, 1 + data[0] % 16, data[0] >> 7, &cut, &words[1]);
	must(whole.n == cut.n && (!whole.n || !memcmp(whole.p, cut.p, whole.n)) && words[0] == words[1]);
	must(reasoning_length(text, n) <= n);
	reasoning_closed(text);
	for (size_t i = 0; i < n; i += 1 + data[0] % 16)
		must(reasoning_unopened(text, i, 0, &seen) <= i);
	must(reasoning_unopened(text, n, 1, &seen) <= n);
	seen = 0;
	must(reasoning_unopened(text, n, 1, &seen) <= n);
	free(text);
	str_free(&whole);
	str_free(&cut);
	return 0;
}
