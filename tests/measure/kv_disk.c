/* tests/measure/kv_disk.c - what a token costs whose KV entries lie on disk, for each way to read them ahead, in turns within one run.
 *
 *     make build/tests/measure/kv_disk && build/tests/measure/kv_disk MODEL.gguf TOKENS STEPS [TEXT]
 *
 * The cache of TOKENS tokens is allowed a quarter of its size.  With TEXT its tokens are read; without, their entries are random, the worst case:
 * selections then have nothing in common.  Then STEPS tokens are generated under sift (k=512), warm (the file is in the system's page cache)
 * and cold (before every token the page cache drops what is not mapped), by every kind, twice.  Medians; bytes are what the system says it
 * read from the disk.  `selected` is what attention reads of the planes. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/timeline.h"

enum { ROUNDS = 2, MOST = 4096, PIECE = 256 };

static void stop(const char *what)
{
	fprintf(stderr, "kv_disk: %s\n", what);
	exit(1);
}

static void random_entries(struct timeline *t, int32_t n, const int32_t *id)
{
	uint64_t bytes = timeline_token_bytes(t, 1) * PIECE, x = 88172645463325252u;
	uint16_t *p = xmalloc((size_t)bytes);
	struct err err;

	for (int32_t at = 0, m; at < n; at += m) {
		m = n - at < PIECE ? n - at : PIECE;
		for (uint64_t i = 0; i < bytes / 2; i++) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			p[i] = (uint16_t)((x & 0x83ff) | 0x3800);
		}
		if (timeline_entries_load(t, at, m, 1, p, &err))
			stop(err.msg);
	}
	free(p);
	if (timeline_adopt(t, id, NULL, (size_t)n, &err) < 0)
		stop(err.msg);
}

static int by_value(const void *a, const void *b)
{
	return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

static double median(double *v, int n)
{
	qsort(v, (size_t)n, sizeof *v, by_value);
	return n ? v[n / 2] : 0;
}

static void go_cold(const struct timeline *t)
{
	fdatasync(t->cache.kv.fd);
	posix_fadvise(t->cache.kv.fd, 0, 0, POSIX_FADV_DONTNEED);
}

/* STEPS tokens behind the first n by one kind; the first is not timed, because there is no selection before it. */
static uint64_t run(struct timeline *t, const int32_t *id, int32_t n, int steps, int kind, int cold, double *ms, double *bytes, int *n_timed)
{
	int32_t vocab = engine_info(t->e)->n_vocab;
	uint64_t hash = 0, before;
	struct err err;

	if (timeline_sync(t, id, (size_t)n, NULL, NULL, &err) < 0)
		stop(err.msg);
	for (int i = 0; i < steps; i++) {
		double start;

		if (cold)
			go_cold(t);
		t->cache.kv.ahead->kinds = kind;
		before = t->cache.kv.ahead->fetched;
		start = now_seconds();
		if (timeline_extend(t, id + n + i, 1, 1, NULL, NULL, &err))
			stop(err.msg);
		start = now_seconds() - start;
		kv_ahead_step(&t->cache.kv, 1);   /* counts what the step read */
		t->cache.kv.ahead->cold = cold;
		hash = hash64(hash, timeline_logits(t), (size_t)vocab * sizeof(float));
		if (!i)
			continue;
		ms[*n_timed] = 1000 * start;
		bytes[(*n_timed)++] = (double)(t->cache.kv.ahead->fetched - before);
	}
	return hash;
}

int main(int argc, char **argv)
{
	static const struct { int kind; const char *name; } kinds[] = {
		{ 0, "when attention touches them" }, { AHEAD_LAST, "last selection ahead" }, { AHEAD_CHOICE, "own selection at once" },
		{ AHEAD_LAST | AHEAD_CHOICE, "both" },
	};
	static double ms[2][4][MOST], bytes[2][4][MOST], plain[MOST];
	int timed[2][4] = { { 0 } }, steps = argc > 3 ? (int)strtol(argv[3], NULL, 10) : 0, n_plain = 0;
	int32_t n = argc > 2 ? (int32_t)strtol(argv[2], NULL, 10) : 0, *id;
	struct timeline_options o = { .ctx = n + steps + 1, .kv = "sift:k=512" };
	struct timeline_need need;
	struct engine *e;
	struct timeline *t;
	struct err err;
	struct timeline_stats st;
	uint64_t want = 0, got;

	if (n < 1024 || steps < 2 || (steps - 1) * ROUNDS > MOST)
		stop("MODEL.gguf TOKENS STEPS [TEXT]");
	id = xcalloc((size_t)(n + steps + 1), sizeof *id);
	if (engine_open(&e, &(struct engine_options){ .model_path = argv[1], .device = "cpu" }, &err) || timeline_need(e, &o, &need, &err))
		stop(err.msg);
	for (int32_t i = 0; i < n + steps; i++)
		id[i] = (int32_t)(hash64(5, &i, sizeof i) % (uint64_t)engine_info(e)->n_vocab);
	if (argc > 4) {
		FILE *f = fopen(argv[4], "r");
		char *text = xcalloc((size_t)n * 16, 1);
		struct tokens read = { 0 };
		size_t len = f ? fread(text, 1, (size_t)n * 16 - 1, f) : 0;

		if (engine_tokenize(e, text, len, 0, &read, &err) || (int32_t)read.n < n + steps)
			stop("the text is too short");
		memcpy(id, read.id, (size_t)(n + steps) * sizeof *id);
	}
	o.kv_memory = need.kv_bytes / 4;
	if (timeline_open(&t, e, &o, &err))
		stop(err.msg);
	if (argc < 5)
		random_entries(t, n, id);
	for (int r = 0; r < ROUNDS; r++)
		for (int cold = 0; cold < 2; cold++)
			for (size_t k = 0; k < 4; k++) {
				got = run(t, id, n, steps, kinds[k].kind, cold, ms[cold][k], bytes[cold][k], &timed[cold][k]);
				if (want && got != want)
					stop("other logits");
				want = got;
			}
	timeline_stats(t, &st);
	printf("%d tokens, %.0f MiB on disk, %.0f of %.0f MiB in memory; selected %.2f MiB a token, %.1f %% of it by the token before\n", n,
	       (double)st.kv_disk_bytes / (1 << 20), (double)st.kv_bytes / (1 << 20), (double)need.kv_bytes / (1 << 20),
	       512.0 * (double)timeline_token_bytes(t, 1) / (1 << 20), 100 * st.kv_overlap);
	for (int cold = 0; cold < 2; cold++)
		for (size_t k = 0; k < 4; k++)
			printf("%-5s %-28s %8.1f ms a token, %7.2f MiB from the disk\n", cold ? "cold" : "warm", kinds[k].name,
			       median(ms[cold][k], timed[cold][k]), median(bytes[cold][k], timed[cold][k]) / (1 << 20));
	timeline_close(t);
	/* The same without a limit. */
	o.kv_memory = 0;
	if (timeline_open(&t, e, &o, &err))
		stop(err.msg);
	if (argc < 5)
		random_entries(t, n, id);
	if (timeline_sync(t, id, (size_t)n, NULL, NULL, &err) < 0)
		stop(err.msg);
	for (int i = 0; i < steps; i++) {
		double start = now_seconds();

		if (timeline_extend(t, id + n + i, 1, 1, NULL, NULL, &err))
			stop(err.msg);
		if (i)
			plain[n_plain++] = 1000 * (now_seconds() - start);
	}
	printf("without a limit %33.1f ms a token\n", median(plain, n_plain));
	timeline_close(t);
	engine_close(e);
	free(id);
	return 0;
}
