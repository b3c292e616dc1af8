/* tests/measure/kv_disk.c - the time of a token whose KV entries are on disk, for each way to read them ahead. The ways
 * take turns within one run.
 *
 *     make build/tests/measure/kv_disk && build/tests/measure/kv_disk MODEL.gguf TOKENS STEPS [TEXT [POLICY]]
 *
 * The cache of TOKENS tokens may use a quarter of its size. With TEXT its tokens are read; without, their entries are
 * random, which is the worst case: neither neighbouring slots nor neighbouring tokens are similar. Then STEPS tokens
 * are generated under sift (k=512), or under POLICY. The second half of them is timed, warm (the file is in the
 * system's page cache) and cold (before every token the page cache drops all of the file except what is mapped).
 * `pages`: attention reads the planes in the file, and memory holds as many layers as are allowed. `cached`, as weir
 * does it: memory holds what was selected last. Three rounds of all ways; medians. `moved` is what was read from the
 * file into memory, `from the disk` what the disk delivered according to the system. If the ways have different logits,
 * the program stops. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/cache/kv_file_cache.h"
#include "engine/timeline/timeline.h"
#include "engine/engine_snapshot.h"

enum { KINDS = 5, ROUNDS = 3, MOST = 4096, PIECE = 256 };

static const struct kind {
	int cached, ahead;
	const char *name;
} kinds[KINDS] = {
	{ 0, 0, "pages, when they are touched" },          { 0, AHEAD_LAST, "pages, last selection ahead" },
	{ 0, AHEAD_CHOICE, "pages, selection at once" },   { 1, 0, "cached, one after the other" },
	{ 1, AHEAD_CHOICE, "cached, what lacks at once" },
};
struct timings {
	double ms[MOST], disk[MOST], moved[MOST];
	int n;
};
static struct timings timings[2][KINDS];

static void stop(const char *what)
{
	fprintf(stderr, "kv_disk: %s\n", what);
	exit(1);
}

static void random_entries(struct timeline *tl, int32_t n, const int32_t *id)
{
	uint64_t bytes = timeline_token_bytes(tl, 1) * PIECE, x = 88172645463325252u;
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
		if (timeline_entries_load(tl, at, m, 1, p, &err))
			stop(err.msg);
	}
	free(p);
	if (timeline_adopt(tl, id, NULL, (size_t)n, &err) < 0)
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

static uint64_t disk_bytes(void)
{
	FILE *f = fopen("/proc/self/io", "r");
	char line[80];
	uint64_t n = 0;

	while (f && fgets(line, sizeof line, f))
		if (!strncmp(line, "read_bytes: ", 12))
			n = strtoull(line + 12, NULL, 10);
	if (f)
		fclose(f);
	return n;
}

static void go_cold(const struct timeline *tl)
{
	fdatasync(tl->cache.kv.fd);
	posix_fadvise(tl->cache.kv.fd, 0, 0, POSIX_FADV_DONTNEED);
}

/* Compute `steps` tokens after the first n. Returns the hash of their logits. */
static uint64_t run(struct timeline *tl, const int32_t *id, int32_t n, int steps, const struct kind *kind, int cold,
                    struct timings *out)
{
	struct kv_store *kv = &tl->cache.kv;
	struct kv_file_cache *cache = kv->file_cache;
	uint64_t hash = 0, resident = kv->resident,
		 beside = kv_file_cache_bytes(kv->hp, kv->types, kv->cap, cache->lines), disk, moved;
	int32_t vocab = engine_info(tl->e)->n_vocab;
	struct err err;

	if (timeline_sync(tl, id, (size_t)n, NULL, NULL, &err) < 0)
		stop(err.msg);
	kv_file_cache_clear(kv);
	kv->file_cache = kind->cached ? cache : NULL;
	kv->resident += kind->cached ? 0 : beside;
	kv->ahead->kinds = kind->ahead;
	for (int i = 0; i < steps; i++) {
		int timed = i >= steps / 2;
		double start;

		/* begin one token before the timed ones, because a step looks at what the previous one read */
		if (cold && i >= steps / 2 - 1)
			go_cold(tl);
		disk = disk_bytes();
		moved = cache->moved;
		start = now_seconds();
		if (timeline_extend(tl, id + n + i, 1, 1, NULL, NULL, &err))
			stop(err.msg);
		start = now_seconds() - start;
		hash = hash64(hash, timeline_logits(tl), (size_t)vocab * sizeof(float));
		if (!timed)
			continue;
		out->ms[out->n] = 1000 * start;
		out->disk[out->n] = (double)(disk_bytes() - disk) / (1 << 20);
		out->moved[out->n++] = (double)(cache->moved - moved) / (1 << 20);
	}
	kv->file_cache = cache;
	kv->resident = resident;
	return hash;
}

int main(int argc, char **argv)
{
	static double plain[MOST];
	int steps = argc > 3 ? (int)strtol(argv[3], NULL, 10) : 0, n_plain = 0;
	int32_t n = argc > 2 ? (int32_t)strtol(argv[2], NULL, 10) : 0, *id;
	struct timeline_options o = { .ctx = n + steps + 1, .kv = argc > 5 ? argv[5] : "sift:k=512" };
	struct timeline_need need;
	struct engine *e;
	struct timeline *tl;
	struct err err;
	struct timeline_stats st;
	uint64_t want = 0, got;

	if (n < 1024 || steps < 2 || steps * ROUNDS > MOST)
		stop("MODEL.gguf TOKENS STEPS [TEXT [POLICY]]");
	id = xcalloc((size_t)(n + steps + 1), sizeof *id);
	if (engine_open(&e, &(struct engine_options){ .model_path = argv[1], .device = "cpu" }, &err) ||
	    timeline_need(e, &o, &need, &err))
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
	if (timeline_open(&tl, e, &o, &err))
		stop(err.msg);
	if (argc < 5)
		random_entries(tl, n, id);
	if (!tl->cache.kv.file_cache)
		stop("a quarter of the memory has no room for cached entries");
	for (int i = 0; i < 2 * ROUNDS; i++)
		for (size_t k = 0; k < KINDS; k++) {
			int cold = i % 2;

			got = run(tl, id, n, steps, &kinds[k], cold, &timings[cold][k]);
			if (want && got != want)
				stop("other logits");
			want = got;
		}
	timeline_stats(tl, &st);
	printf("%d tokens, %.0f MiB on disk, %.0f MiB of %.0f in memory with %d cached entries a head; %.1f %% of what a token selects the token before selected\n",
	       n, (double)st.kv_disk_bytes / (1 << 20), (double)st.kv_bytes / (1 << 20),
	       (double)need.kv_bytes / (1 << 20), tl->cache.kv.file_cache->lines, 100 * st.kv_overlap);
	for (int cold = 0; cold < 2; cold++)
		for (size_t k = 0; k < KINDS; k++) {
			struct timings *s = &timings[cold][k];

			printf("%-5s %-28s %8.1f ms a token, moved %6.2f MiB, from the disk %7.2f\n",
			       cold ? "cold" : "warm", kinds[k].name, median(s->ms, s->n),
			       kinds[k].cached ? median(s->moved, s->n) : median(s->disk, s->n), median(s->disk, s->n));
		}
	timeline_close(tl);
	/* Measure the same without --kv-memory, with all KV entries in memory. */
	o.kv_memory = 0;
	if (timeline_open(&tl, e, &o, &err))
		stop(err.msg);
	if (argc < 5)
		random_entries(tl, n, id);
	if (timeline_sync(tl, id, (size_t)n, NULL, NULL, &err) < 0)
		stop(err.msg);
	for (int i = 0; i < steps; i++) {
		double start = now_seconds();

		if (timeline_extend(tl, id + n + i, 1, 1, NULL, NULL, &err))
			stop(err.msg);
		if (i >= steps / 2)
			plain[n_plain++] = 1000 * (now_seconds() - start);
	}
	printf("without a limit %33.1f ms a token\n", median(plain, n_plain));
	timeline_close(tl);
	engine_close(e);
	free(id);
	return 0;
}
