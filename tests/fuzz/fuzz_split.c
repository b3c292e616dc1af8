/* tests/fuzz/fuzz_split.c - libFuzzer target: any bytes as a model in several files (engine/gguf/gguf_split.c).
 *
 * 	make fuzz
 * 	mkdir -p corpus && build/fuzz/fuzz_split -max_len=4096 corpus build/fuzz/seeds/split
 *
 * Input: how many files there are (1 to 4), which one is opened, the length of each file but the last (two bytes each,
 * little-endian), then the files' bytes. Bit 7 of the first byte leaves the last file out. */
#include "tests/lib/walk_gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 4 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static char folder[] = "/dev/shm/weir-fuzz-split-XXXXXX";

static void remove_folder(void)
{
	char path[80];

	for (int count = 1; count <= MOST; count++) {
		for (int i = 1; i <= count; i++) {
			snprintf(path, sizeof path, "%s/m-%05d-of-%05d.gguf", folder, i, count);
			unlink(path);
		}
	}
	rmdir(folder);
}

static void write_file(const char *path, const uint8_t *p, size_t n)
{
	FILE *f = fopen(path, "wb");

	if (!f || (n && fwrite(p, 1, n, f) != n) || fclose(f))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static volatile uint64_t sink;
	static int ready;
	struct err e = { 0 };
	struct gguf *g = NULL;
	char path[80];
	size_t len[MOST], at, left;
	int count, named, lost;

	if (!ready) {
		if (!mkdtemp(folder))
			abort();
		atexit(remove_folder);
		ready = 1;
	}
	if (n < 2 + 2 * (MOST - 1))
		return 0;
	count = 1 + data[0] % MOST;
	named = 1 + data[1] % count;
	lost = data[0] & 0x80;
	at = 2 + 2 * (size_t)(count - 1);
	left = n - at;
	for (int i = 0; i < count; i++) {
		size_t want = i + 1 < count ? (size_t)data[2 + 2 * i] | (size_t)data[3 + 2 * i] << 8 : left;

		len[i] = MIN(want, left);
		left -= len[i];
	}
	for (int i = 0; i < count; i++) {
		snprintf(path, sizeof path, "%s/m-%05d-of-%05d.gguf", folder, i + 1, count);
		if (i + 1 == count && lost)
			unlink(path);
		else
			write_file(path, data + at, len[i]);
		at += len[i];
	}
	snprintf(path, sizeof path, "%s/m-%05d-of-%05d.gguf", folder, named, count);
	if (gguf_open(&g, path, &e)) {
		/* A refusal must leave g at NULL, and set an error with one printable sentence. */
		if (g || !e.code || !*e.msg)
			abort();
		for (const char *p = e.msg; *p; p++)
			if ((unsigned char)*p < 0x20 || (unsigned char)*p > 0x7e)
				abort();
		return 0;
	}
	/* The tensors of all parts are in one directory, the metadata is the first part's. */
	for (uint64_t i = 0; i < g->n_tensor; i++) {
		char *name = xstrndup(g->tensor[i].name.p, g->tensor[i].name.n);

		if (strlen(name) == g->tensor[i].name.n && gguf_tensor_find(g, name) != &g->tensor[i])
			abort();
		/* volatile: the walk must not be optimised away */
		sink += walk_bytes(g->tensor[i].data, g->tensor[i].bytes);
		free(name);
	}
	for (uint64_t i = 0; i < g->n_kv; i++)
		sink += walk_value(g, &g->kv[i]);
	(void)sink;
	gguf_close(g);
	return 0;
}
