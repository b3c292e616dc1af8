/* tests/fuzz/fuzz_http.c - libFuzzer target for the header lines of web servers' answers, sessions/fetch/http.c: `make
 * fuzz`, then build/fuzz/fuzz_http [CORPUS].
 *
 * Each line of the input is a header line. Whatever the lines say, the reply's numbers must be in range and its strings
 * must end inside their buffers. */
#include "sessions/fetch/curl.h"
#include "sessions/fetch/fetch.h"

#include <stdlib.h>
#include <string.h>

static void must(int ok)
{
	if (!ok)
		abort();
}

static void check_text(const char *text, size_t room)
{
	const char *end = memchr(text, 0, room);

	must(end && !memchr(text, '\n', (size_t)(end - text)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct http_reply r = { .length = -1, .first = -1, .total = -1, .linked_size = -1 };

	for (size_t at = 0; at < size;) {
		const uint8_t *nl = memchr(data + at, '\n', size - at);
		size_t n = nl ? (size_t)(nl - (data + at)) + 1 : size - at;
		char *line = malloc(n); /* an exact allocation, so that a sanitizer detects a read past its end */

		memcpy(line, data + at, n);
		http_head_line(&r, line, n);
		free(line);
		must(r.length >= -1 && r.first >= -1 && r.linked_size >= -1 && r.retry_after >= 0);
		check_text(r.type, sizeof r.type);
		check_text(r.next, sizeof r.next);
		check_text(r.code, sizeof r.code);
		check_text(r.message, sizeof r.message);
		must(!r.linked_sum[0] || strlen(r.linked_sum) == 64);
		at += n;
	}
	return 0;
}
