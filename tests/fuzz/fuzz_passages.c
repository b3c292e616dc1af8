/* tests/fuzz/fuzz_passages.c - libFuzzer target for the cutter and the search of passages: `make fuzz`, then
 * build/fuzz/fuzz_passages [CORPUS].
 *
 * The first line is the question, the rest the text. */
#include "sessions/store/passages.h"
#include "engine/base/utf8.h"

#include <stdlib.h>
#include <string.h>

static void must(int ok)
{
	if (!ok)
		abort();
}

/* Each byte is in a sentence, other than blanks and borders. */
static void check_cut(const char *text, size_t n)
{
	struct sentence *at;
	size_t count = sentences_cut(text, n, &at, NULL, NULL), end = 0;

	for (size_t i = 0; i <= count; i++) {
		size_t from = i < count ? at[i].from : n;

		must(from >= end);
		for (; end < from; end++)
			must(byte_is_blank(text[end]) || strchr("-=+|:_~*", text[end]) || text[end] & 0x80);
		if (i == count)
			break;
		must(at[i].to > at[i].from && at[i].to <= n && at[i].words);
		must(i || at[i].flags & SENTENCE_FIRST);
		end = at[i].to;
	}
	free(at);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *in = (const char *)data, *line = memchr(in, '\n', size);
	size_t n = line ? (size_t)(line - in) : size;
	struct indexed_text text = { in + n, size - n };
	struct found_passage hit[8];
	static struct passage_index *x;
	struct err e = { 0 };
	int count;

	if (size > 20000)
		return 0;
	check_cut(text.p, text.n);
	if (!x)
		must(!passage_index_open(&x, NULL, &e));
	count = passages_find(x, &text, 1, in, n, hit, 8, &e);
	must(count >= 0);
	for (int i = 0; i < count; i++)
		must(hit[i].from <= hit[i].quote && hit[i].quote < hit[i].quote_end && hit[i].quote_end <= hit[i].to &&
		     hit[i].to <= text.n && hit[i].covered >= 0 && hit[i].covered <= 1.000001);
	must(passages_find(x, &text, 1, in, n, hit, 8, &e) == count);
	/* Empty the index instead of opening a new one, which would take longer than the search. */
	must(!passages_empty(x->db, &e));
	return 0;
}
