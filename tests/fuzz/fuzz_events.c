/* tests/fuzz/fuzz_events.c - libFuzzer target for the answers of servers, app/remote/events.c and chunk.c: `make fuzz`,
 * then build/fuzz/fuzz_events [CORPUS].
 *
 * The first byte says how the stream is cut; the cut stream must give the same events as the whole one. */
#include "app/remote/remote.h"

#include <stdlib.h>
#include <string.h>

static int add_event(const char *data, size_t n, void *ud, struct err *e)
{
	struct str *out = ud;
	struct chunk c = { .fault = 0 };

	(void)e;
	str_add(out, data, n);
	str_adds(out, "\x1e");
	chunk_clear(&c);
	if (chunk_parse(&c, data, n) == 0 && (c.done > c.total || (c.text.n && memchr(c.text.p, 0, c.text.n))))
		abort();
	chunk_free(&c);
	return 0;
}

static void events_of(const char *text, size_t n, size_t step, struct str *out)
{
	struct sse s = { 0 };
	struct err e = { 0 };

	for (size_t i = 0; i < n; i += step)
		if (sse_feed(&s, text + i, n - i < step ? n - i : step, add_event, out, &e) < 0)
			abort();
	if (sse_end(&s, add_event, out, &e) < 0)
		abort();
	sse_free(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str whole = { 0 }, cut = { 0 };

	if (size < 2)
		return 0;
	events_of((const char *)data + 1, size - 1, size, &whole);
	events_of((const char *)data + 1, size - 1, 1 + data[0] % 16, &cut);
	if (whole.n != cut.n || (whole.n && memcmp(whole.p, cut.p, whole.n)))
		abort();
	str_free(&whole);
	str_free(&cut);
	return 0;
}
