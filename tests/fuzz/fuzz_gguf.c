/* tests/fuzz/fuzz_gguf.c - libFuzzer target: any bytes as a model file.
 *
 *	make fuzz
 *	mkdir -p corpus && build/fuzz/fuzz_gguf -max_len=4096 corpus build/fuzz/seeds/gguf
 *
 * The seeds are small files, good and bad; there are more in tests/vectors/malformed-gguf.tar.xz. */
#include "tests/lib/walk_gguf.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static volatile uint64_t sink;
	struct err e = { 0 };
	struct gguf *g = NULL;

	if (gguf_parse(&g, "fuzz", data, n, &e)) {
		/* A refusal must leave g at NULL, and set ERR_MODEL and one printable sentence. */
		if (g || e.code != ERR_MODEL || strncmp(e.msg, "file 'fuzz': byte ", 18))
			abort();
		for (const char *p = e.msg; *p; p++)
			if ((unsigned char)*p < 0x20 || (unsigned char)*p > 0x7e)
				abort();
		return 0;
	}
	sink += walk_gguf(g); /* volatile: the walk must not be optimised away */
	(void)sink;
	gguf_close(g);
	return 0;
}
