/* tests/engine/t_endless.c - an endless conversation through a cascade: time per token and memory must not grow.
 *
 * WEIR_SOAK=1: 200,000 tokens of the default model, which takes about a quarter of an hour. The time per token in the
 * second and in the last tenth is printed; it is only meaningful on an idle machine. */
#include "tests/lib/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "engine/engine.h"

struct span {
	double wall, cpu;
};

static struct span now(void)
{
	struct timespec w, c;

	clock_gettime(CLOCK_MONOTONIC, &w);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &c);
	return (struct span){ (double)w.tv_sec + (double)w.tv_nsec * 1e-9,
		              (double)c.tv_sec + (double)c.tv_nsec * 1e-9 };
}

static double resident_mb(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	long total = 0, pages = 0;

	if (f) {
		if (fscanf(f, "%ld %ld", &total, &pages) != 2)
			pages = 0;
		fclose(f);
	}
	return (double)pages * (double)sysconf(_SC_PAGESIZE) / 1e6;
}

static void take(struct timeline *tl, const int32_t *id, size_t n_id, size_t from, size_t n)
{
	struct err err = { 0 };

	for (size_t i = 0; i < n;) {
		size_t at = (from + i) % n_id, some = n_id - at < n - i ? n_id - at : n - i;

		if (timeline_extend(tl, id + at, some, 1, NULL, NULL, &err))
			test_fail(__FILE__, __LINE__, "token %zu: %s", from + i, err.msg);
		i += some;
	}
}

/* Generate `tokens` tokens. Compare time and memory of the second tenth of them, when the cache is full, with those of
 * the last tenth. */
static void talk(const char *model, int32_t ctx, const char *kv, const int32_t *id, size_t n_id, size_t tokens)
{
	struct engine *e = NULL;
	struct timeline *tl = NULL;
	struct err err = { 0 };
	size_t tenth = tokens / 10;
	struct span took[10];
	double mb[10];

	if (engine_open(&e, &(struct engine_options){ .model_path = model, .threads = 2 }, &err))
		test_skip("%s", err.msg);
	if (timeline_open(&tl, e, &(struct timeline_options){ .ctx = ctx, .kv = kv }, &err)) {
		test_fail(__FILE__, __LINE__, "%s", err.msg);
		engine_close(e);
		return;
	}
	for (size_t i = 0; i < 10; i++) {
		struct span a = now(), b;

		take(tl, id, n_id, i * tenth, tenth);
		b = now();
		took[i] = (struct span){ b.wall - a.wall, b.cpu - a.cpu };
		mb[i] = resident_mb();
	}
	printf("    %s, %zu tokens: ms a token in the second and the last tenth %.3f, %.3f (ratio %.3f; CPU %.3f); resident MB %.1f, %.1f\n",
	       kv, tokens, 1e3 * took[1].wall / (double)tenth, 1e3 * took[9].wall / (double)tenth,
	       took[9].wall / took[1].wall, took[9].cpu / took[1].cpu, mb[1], mb[9]);
	/* Some growth is allowed: the list of all tokens takes 4 bytes per token and doubles its capacity from time to
	 * time. */
	CHECK_MSG(mb[9] <= mb[1] * 1.01 + 0.5, "memory grew from %.1f MB to %.1f MB in %zu tokens", mb[1], mb[9],
	          tokens);
	timeline_close(tl);
	engine_close(e);
}

TEST(a_small_model_talks_on)
{
	int32_t id[1000];

	for (size_t i = 0; i < 1000; i++)
		id[i] = 3 + (int32_t)(test_rand() % 200);
	talk("tests/vectors/models/llama-block32.gguf", 256, "cascade:size=128,stride=32", id, 1000, 10000);
	talk("tests/vectors/models/llama-block32.gguf", 256, "auto", id, 1000, 10000);
}

SOAK_TEST(two_hundred_thousand_tokens)
{
	struct engine *e = NULL;
	struct tokens tokens = { 0 };
	struct err err = { 0 };
	char *book;
	size_t n;

	if (!(book = test_read(test_shared("data/books/melville-moby-dick.txt"), &n)))
		SKIP("no book to read");
	if (engine_open(&e, &(struct engine_options){ .model_path = test_model(), .vocab_only = 1 }, &err))
		test_skip("%s", err.msg);
	CHECK(!engine_tokenize(e, book, n, 0, &tokens, &err));
	engine_close(e);
	talk(test_model(), 2048, "cascade:size=1024", tokens.id, tokens.n, 200000);
	tokens_free(&tokens);
	free(book);
}
