/* tests/measure/cut.c - prints the passages into which the document search cuts a text: cut TEXT. Each passage is a
 * line with its first byte and its last byte + 1. */
#include <stdio.h>
#include <stdlib.h>

#include "engine/base/base.h"
#include "engine/base/sentences.h"

int main(int argc, char **argv)
{
	struct passage *at;
	struct str text = { 0 };
	char buf[65536];
	FILE *f = argc == 2 ? fopen(argv[1], "rb") : NULL;
	size_t n;

	if (!f) {
		fprintf(stderr, "cut: TEXT\n");
		return 1;
	}
	while ((n = fread(buf, 1, sizeof buf, f)))
		str_add(&text, buf, n);
	fclose(f);
	n = passages_cut(str_text(&text), text.n, &at);
	for (size_t i = 0; i < n; i++)
		printf("%zu %zu\n", at[i].from, at[i].to);
	free(at);
	str_free(&text);
	return 0;
}
