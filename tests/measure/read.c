/* tests/measure/read.c - prints the answers that a reader finds in passages.
 *
 *     read ENCODER.gguf READER.gguf THREADS < TEXTS
 *
 * Each text ends with a zero byte. The texts are a question, its passages and an empty text, and so on for the next
 * question. For each passage one line is printed: log odds that the passage answers, first byte and last byte + 1 of
 * the answer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/base.h"
#include "engine/encoder.h"

enum { PASSAGES = 4096 };

int main(int argc, char **argv)
{
	static struct encoder_string text[PASSAGES];
	static struct encoder_answer answer[PASSAGES];
	struct encoder *e;
	struct err err = { 0 };
	struct str all = { 0 };
	char buf[65536];
	size_t n, at = 0;

	if (argc != 4 || encoder_open(&e, argv[1], "cpu", (int)strtol(argv[3], NULL, 10), &err) ||
	    encoder_reader_open(e, READER_ANY, argv[2], &err)) {
		fprintf(stderr, "read: %s\n", argc != 4 ? "ENCODER.gguf READER.gguf THREADS" : err.msg);
		return 1;
	}
	while ((n = fread(buf, 1, sizeof buf, stdin)))
		str_add(&all, buf, n);
	while (at < all.n) {
		struct encoder_string question = { all.p + at, strlen(all.p + at) };
		int32_t k = 0;

		for (at += question.n + 1; at < all.n && all.p[at] && k < PASSAGES; at += text[k++].n + 1)
			text[k] = (struct encoder_string){ all.p + at, strlen(all.p + at) };
		at++;
		if (encoder_read(e, READER_ANY, question, text, k, answer, NULL, &err)) {
			fprintf(stderr, "read: %s\n", err.msg);
			return 1;
		}
		for (int32_t i = 0; i < k; i++)
			printf("%.5f %zu %zu\n", answer[i].score, answer[i].from, answer[i].to);
	}
	encoder_close(e);
	str_free(&all);
	return 0;
}
