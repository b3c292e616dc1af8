/* tests/measure/embed.c - computes the vectors of texts: embed [-q] MODEL.gguf THREADS < TEXTS > VECTORS
 *
 * Texts end with a zero byte; vectors are f32. -q: texts are questions, not passages. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/base.h"
#include "engine/encoder.h"

enum { AT_ONCE = 256 };

int main(int argc, char **argv)
{
	int query = argc > 1 && !strcmp(argv[1], "-q");
	struct encoder_string text[AT_ONCE];
	struct encoder *e;
	struct err err = { 0 };
	struct str all = { 0 };
	char buf[65536];
	size_t n, at = 0;
	float *out;

	if (argc - query != 3 ||
	    encoder_open(&e, argv[1 + query], "cpu", (int)strtol(argv[2 + query], NULL, 10), &err)) {
		fprintf(stderr, "embed: %s\n", argc - query != 3 ? "[-q] MODEL.gguf THREADS" : err.msg);
		return 1;
	}
	while ((n = fread(buf, 1, sizeof buf, stdin)))
		str_add(&all, buf, n);
	out = xcalloc((size_t)AT_ONCE * (size_t)encoder_dims(e), sizeof *out);
	while (at < all.n) {
		int32_t k = 0;

		for (; k < AT_ONCE && at < all.n; k++, at += text[k - 1].n + 1)
			text[k] = (struct encoder_string){ all.p + at, strlen(all.p + at) };
		if (encoder_texts(e, query ? ENCODER_QUERY : ENCODER_PASSAGE, text, k, out, NULL, &err)) {
			fprintf(stderr, "embed: %s\n", err.msg);
			return 1;
		}
		fwrite(out, (size_t)encoder_dims(e) * sizeof *out, (size_t)k, stdout);
	}
	free(out);
	str_free(&all);
	encoder_close(e);
	return 0;
}
