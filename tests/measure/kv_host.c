/* tests/measure/kv_host.c - the time of a token whose KV entries are in the machine's memory and not on the GPU:
 * fetched ahead, fetched when they are selected, and with all of them on the GPU. The ways take turns within one run.
 *
 *     make build/tests/measure/kv_host && build/tests/measure/kv_host MODEL.gguf TOKENS STEPS [TEXT [POLICY [SHARE]]]
 *
 * The cache of TOKENS tokens may use the least GPU memory that it needs, and SHARE per cent (default 10) of what it
 * needs beyond that. With TEXT its tokens are read; without, random ones. Then STEPS tokens are generated under sift
 * (k=512), or under POLICY, and the second half of them is timed: three rounds, medians. `waited for` are the selected
 * entries that were not on the GPU, `ahead` those that were fetched for the next token. If the ways have different
 * logits, the program stops. On the emulated device (WEIR_CUDA=build/weir-cuda-host.so) the counts are right, but times
 * mean nothing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cache/kv_host.h"
#include "engine/timeline/timeline.h"

enum { WAYS = 3, ROUNDS = 3, MOST = 4096 };
static const char *const names[WAYS] = { "all on the GPU", "when they are selected", "ahead" };
struct timings {
	double ms[MOST];
	int n;
	struct kv_fetched sum;
};
static struct timings timings[WAYS];

static void stop(const char *what)
{
	fprintf(stderr, "kv_host: %s\n", what);
	exit(1);
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

/* Compute `steps` tokens after the first n. Returns the hash of their logits. */
static uint64_t run(struct timeline *tl, const int32_t *id, int32_t n, int steps, struct timings *out)
{
	struct kv_fetched before = { 0 }, after;
	uint64_t hash = 0;
	struct err err;

	if (timeline_sync(tl, id, (size_t)n, NULL, NULL, &err) < 0)
		stop(err.msg);
	kv_host_clear(&tl->cache.kv);
	for (int i = 0; i < steps; i++) {
		double start;

		if (i == steps / 2)
			kv_host_count(&tl->cache.kv, &before);
		start = now_seconds();
		if (timeline_extend(tl, id + n + i, 1, 1, NULL, NULL, &err))
			stop(err.msg);
		if (i >= steps / 2)
			out->ms[out->n++] = 1000 * (now_seconds() - start);
		hash = hash64(hash, timeline_logits(tl), (size_t)engine_info(tl->e)->n_vocab * sizeof(float));
	}
	kv_host_count(&tl->cache.kv, &after);
	out->sum.wanted += after.wanted - before.wanted;
	out->sum.waited += after.waited - before.waited;
	out->sum.ahead += after.ahead - before.ahead;
	out->sum.bytes += after.bytes - before.bytes;
	return hash;
}

static void text_read(const struct engine *e, const char *path, int32_t *id, int32_t n)
{
	FILE *f = fopen(path, "r");
	char *text = xcalloc((size_t)n * 16, 1);
	struct tokens read = { 0 };
	size_t len = f ? fread(text, 1, (size_t)n * 16 - 1, f) : 0;
	struct err err;

	if (engine_tokenize(e, text, len, 0, &read, &err) || (int32_t)read.n < n)
		stop("the text is too short");
	memcpy(id, read.id, (size_t)n * sizeof *id);
	if (f)
		fclose(f);
	tokens_free(&read);
	free(text);
}

int main(int argc, char **argv)
{
	int steps = argc > 3 ? (int)strtol(argv[3], NULL, 10) : 0;
	int32_t n = argc > 2 ? (int32_t)strtol(argv[2], NULL, 10) : 0, *id;
	uint64_t share = argc > 6 ? strtoull(argv[6], NULL, 10) : 10, all, want = 0;
	struct timeline_options o = { .ctx = n + steps + 1, .kv = argc > 5 ? argv[5] : "sift:k=512", .kv_memory = 1 };
	struct timeline_need need;
	struct timeline *tl[WAYS];
	struct engine *e;
	struct err err;

	if (n < 1 || steps < 2 || steps * ROUNDS > MOST)
		stop("MODEL.gguf TOKENS STEPS [TEXT [POLICY [SHARE]]]");
	id = xcalloc((size_t)(n + steps), sizeof *id);
	if (engine_open(&e, &(struct engine_options){ .model_path = argv[1], .device = "cuda" }, &err) ||
	    timeline_need(e, &o, &need, &err))
		stop(err.msg);
	for (int32_t i = 0; i < n + steps; i++)
		id[i] = (int32_t)(hash64(5, &i, sizeof i) % (uint64_t)engine_info(e)->n_vocab);
	if (argc > 4 && *argv[4])
		text_read(e, argv[4], id, n + steps);
	o.kv_memory = 0;
	all = need.least_bytes;
	if (timeline_need(e, &o, &need, &err))
		stop(err.msg);
	if (need.kv_bytes <= all)
		stop("so few tokens take no less of the GPU with their entries elsewhere");
	for (int w = 0; w < WAYS; w++) {
		o.kv_memory = w ? all + (need.kv_bytes - all) * share / 100 : 0;
		if (timeline_open(&tl[w], e, &o, &err))
			stop(err.msg);
		if (w && !tl[w]->cache.kv.host)
			stop("all of it fits");
		if (w)
			tl[w]->cache.kv.host->ahead = w > 1;
	}
	for (int round = 0; round < ROUNDS; round++)
		for (int w = 0; w < WAYS; w++) {
			uint64_t got = run(tl[w], id, n, steps, &timings[w]);

			if (want && got != want)
				stop("other logits");
			want = got;
		}
	printf("%s, %d tokens: %.1f MiB on the GPU of %.1f, %d rows a head\n", o.kv, n, (double)o.kv_memory / (1 << 20),
	       (double)need.kv_bytes / (1 << 20), tl[1]->cache.kv.host->lines);
	for (int w = 0; w < WAYS; w++) {
		const struct kv_fetched *s = &timings[w].sum;
		double tokens = timings[w].n, wanted = s->wanted ? (double)s->wanted : 1;

		printf("%-24s %8.2f ms a token", names[w], median(timings[w].ms, timings[w].n));
		if (w)
			printf(", waited for %5.1f %% of the selected, ahead %5.1f %%, %.3f MiB a token",
			       100 * (double)s->waited / wanted, 100 * (double)s->ahead / wanted,
			       (double)s->bytes / tokens / (1 << 20));
		printf("\n");
		timeline_close(tl[w]);
	}
	engine_close(e);
	free(id);
	return 0;
}
