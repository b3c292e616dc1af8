/* tests/engine/t_reference.c - compares the engine with reference figures: of a story model with 260K parameters in
 * four types (float64 references with the same weights), and of the default model (float32 references). */
#include "tests/lib/json.h"
#include "tests/lib/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <unistd.h>

#include "engine/engine.h"
#include "tests/lib/mkgguf.h"

struct run {
	struct engine *e;
	struct timeline *tl;
	float *logits;
	int32_t n_vocab;
};

static struct run run_open(const char *path, const char *kv_type, int32_t ctx)
{
	struct run r = { 0 };
	struct err err = { 0 };

	if (engine_open(&r.e, &(struct engine_options){ .model_path = path, .threads = 2 }, &err) ||
	    timeline_open(&r.tl, r.e, &(struct timeline_options){ .ctx = ctx, .kv_type = kv_type }, &err)) {
		test_fail(__FILE__, __LINE__, "%s: %s", path, err.msg);
		engine_close(r.e);
		return (struct run){ 0 };
	}
	r.n_vocab = engine_info(r.e)->n_vocab;
	r.logits = calloc((size_t)r.n_vocab, sizeof *r.logits);
	return r;
}

static void run_close(struct run *r)
{
	timeline_close(r->tl);
	engine_close(r->e);
	free(r->logits);
}

static struct tokens ids_of(struct jv array)
{
	struct tokens t = { 0 };
	struct jv it = { 0 };
	while (jv_next(array, &it, NULL))
		tokens_add(&t, (int32_t)jv_num(it));
	return t;
}

static void keep_last(int32_t pos, const float *logits, void *ud)
{
	struct run *r = ud;
	memcpy(r->logits, logits, (size_t)r->n_vocab * sizeof *logits);
}

static void extend(struct run *r, const int32_t *id, size_t n)
{
	struct err err = { 0 };
	if (timeline_extend(r->tl, id, n, 0, keep_last, r, &err))
		test_fail(__FILE__, __LINE__, "timeline_extend: %s", err.msg);
}

static int32_t argmax(const float *x, int32_t n)
{
	int32_t best = 0;
	for (int32_t i = 1; i < n; i++)
		if (x[i] > x[best])
			best = i;
	return best;
}

static void reset(struct run *r)
{
	struct err err = { 0 };
	timeline_sync(r->tl, NULL, 0, NULL, NULL, &err);
}

struct score {
	const int32_t *id;
	size_t n;
	int32_t first;
	int32_t n_vocab;
	double nll;
	int64_t scored;
};

/* The logits after token pos predict token pos + 1. */
static void score(int32_t pos, const float *logits, void *ud)
{
	struct score *s = ud;
	if ((size_t)pos + 1 < s->n && pos + 1 >= s->first) {
		s->nll -= engine_logprob(logits, s->n_vocab, s->id[pos + 1]);
		s->scored++;
	}
}

static void check_story_file(const char *path, struct jv want)
{
	struct run r = run_open(path, "f32", 512);
	struct jv p = { 0 };
	const char *name = strrchr(path, '/') + 1;
	int exact = strstr(name, "f32") || strstr(name, "f16"), q4 = strstr(name, "q4_0") != NULL;
	double worst = 0, tolerance = exact ? 1e-4 : 5e-3, ppl, ref = jv_num(jv_get(jv_get(want, "perplexity"), "ppl"));
	struct tokens ids;
	struct score s = { 0 };
	struct err err = { 0 };

	if (!r.tl)
		return;
	while (jv_next(jv_get(want, "prompts"), &p, NULL)) {
		struct jv top = { 0 };
		struct tokens prompt = ids_of(jv_get(p, "ids")), greedy = ids_of(jv_get(p, "greedy_ids"));

		reset(&r);
		extend(&r, prompt.id, prompt.n);
		while (jv_next(jv_get(p, "top8"), &top, NULL)) {
			double d = fabs(r.logits[(int)jv_num(jv_at(top, 0))] - jv_num(jv_at(top, 1)));
			worst = MAX(d, worst);
		}
		for (size_t i = prompt.n; i < greedy.n && !q4; i++) {
			int32_t id = argmax(r.logits, r.n_vocab);
			CHECK_MSG(id == greedy.id[i], "%s: greedy token %zu is %d, expected %d", name, i, id,
			          greedy.id[i]);
			if (id != greedy.id[i])
				break;
			extend(&r, &id, 1);
		}
		tokens_free(&prompt);
		tokens_free(&greedy);
	}
	if (exact)
		CHECK_MSG(worst <= 1e-3, "%s: worst top-8 logit is off by %g, allowed is 1e-3", name, worst);
	ids = ids_of(jv_get(jv_get(want, "perplexity"), "ids"));
	s = (struct score){ .id = ids.id, .n = ids.n, .first = 1, .n_vocab = r.n_vocab };
	reset(&r);
	CHECK(timeline_extend(r.tl, ids.id, ids.n, 0, score, &s, &err) == 0);
	ppl = exp(s.nll / (double)s.scored);
	test_note("%s: worst top-8 logit off by %.2g, perplexity %.5f (reference %.5f, %+.4f %%)", name, worst, ppl,
	          ref, 100 * (ppl / ref - 1));
	CHECK_MSG(fabs(ppl / ref - 1) <= tolerance, "%s: perplexity %g, reference %g", name, ppl, ref);
	tokens_free(&ids);
	run_close(&r);
}

/* Write a copy of a model with its F16 weights converted exactly to F32. */
static void widen(const char *from, const char *to)
{
	struct mk m = { 0 };
	struct str out = { 0 };
	struct gguf *g;
	struct err err = { 0 };
	FILE *f;

	if (gguf_open(&g, from, &err)) {
		test_fail(__FILE__, __LINE__, "%s", err.msg);
		return;
	}
	m.n_kv = g->n_kv;
	/* copy the keys, which end where the tensor records begin */
	str_add(&m.kv, g->base + 24, g->tensor[0].off - 24);
	for (uint64_t i = 0; i < g->n_tensor; i++) {
		const struct gguf_tensor *t = &g->tensor[i];
		size_t n = (size_t)(t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3]);
		float *v = xcalloc(n, sizeof *v);
		char name[65];

		snprintf(name, sizeof name, "%.*s", (int)t->name.n, t->name.p);
		dtype_to_f32(t->type, v, t->data, (int64_t)n);
		mk_tensor(&m, name, (uint32_t)t->n_dims, t->ne, 0, v, n * sizeof *v);
		free(v);
	}
	mk_finish(&m, &out);
	f = fopen(to, "wb");
	CHECK(f && fwrite(out.p, 1, out.n, f) == out.n && !fclose(f));
	str_free(&out);
	gguf_close(g);
}

TEST(story_models)
{
	char path[256], wide[] = "/tmp/weir-stories-XXXXXX-f32.gguf";
	size_t n;
	char *text = test_read(test_file("tests/vectors/stories260K/expected.json"), &n);
	struct jv files = jv_get(jv_get(jv_get(jv_parse(text, n), "models"), "stories260K"), "files");
	struct jv it = { 0 }, key = { 0 };
	int fd = mkstemps(wide, 9);

	CHECK_INT(jv_len(files), 3);
	while (jv_next(files, &it, &key)) {
		char *name = jv_str(key, NULL);

		snprintf(path, sizeof path, "tests/vectors/stories260K/%s", name);
		check_story_file(test_file(path), it);
		free(name);
	}
	widen(test_file("tests/vectors/stories260K/stories260K-f16.gguf"), wide);
	check_story_file(wide, jv_get(files, "stories260K-f16.gguf"));
	unlink(wide);
	close(fd);
	free(text);
}

TEST(default_model_prompts)
{
	size_t n;
	struct run r = run_open(test_model(), "f16", 1024);
	char *text = test_read(test_file("tests/vectors/smollm2.json"), &n);
	struct jv p = { 0 };
	double nmse = 0;
	int prompts = 0, compared = 0;

	if (!r.tl)
		return;
	while (jv_next(jv_get(jv_parse(text, n), "prompts"), &p, NULL)) {
		struct jv top = { 0 }, margin = jv_get(p, "greedy_margin");
		struct tokens want = ids_of(jv_get(p, "ids")), greedy = ids_of(jv_get(p, "greedy")), got = { 0 };
		double num = 0, den = 0;
		size_t len;
		char *prompt = jv_str(jv_get(p, "text"), &len);
		struct err err = { 0 };

		CHECK(engine_tokenize(r.e, prompt, len, TOKENIZE_SPECIAL, &got, &err) == 0);
		CHECK(got.n == want.n && !memcmp(got.id, want.id, want.n * sizeof *want.id));
		reset(&r);
		extend(&r, want.id, want.n);
		while (jv_next(jv_get(p, "top8"), &top, NULL)) {
			double ref = jv_num(jv_at(top, 1)), d = r.logits[(int)jv_num(jv_at(top, 0))] - ref;
			num += d * d;
			den += ref * ref;
		}
		nmse += num / den;
		prompts++;
		/* Follow the reference's tokens, so that an early difference does not hide later ones. */
		for (size_t i = 0; i < greedy.n; i++) {
			if (jv_num(jv_at(margin, i)) > 0.3) {
				int32_t id = argmax(r.logits, r.n_vocab);
				CHECK_MSG(id == greedy.id[i],
				          "'%.20s': greedy token %zu is %d, expected %d (margin %g)", prompt, i, id,
				          greedy.id[i], jv_num(jv_at(margin, i)));
				compared++;
			}
			extend(&r, &greedy.id[i], 1);
		}
		free(prompt);
		tokens_free(&want);
		tokens_free(&greedy);
		tokens_free(&got);
	}
	test_note("default model: mean NMSE of the top-8 logits %.3g over %d prompts, %d greedy tokens compared",
	          nmse / prompts, prompts, compared);
	CHECK_MSG(nmse / prompts <= 1.3e-3, "mean NMSE %g, allowed is 1.3e-3", nmse / prompts);
	run_close(&r);
	free(text);
}

/* Return the perplexity over windows of `window` tokens, each with an empty cache; tokens from `skip` on are scored. */
static double perplexity(struct run *r, const int32_t *id, size_t n, size_t window, int32_t skip, int64_t *scored)
{
	double nll = 0;

	*scored = 0;
	for (size_t at = 0; at + window <= n; at += window) {
		struct score s = { .id = id + at, .n = window, .first = skip, .n_vocab = r->n_vocab };
		struct err err = { 0 };
		reset(r);
		CHECK_MSG(timeline_extend(r->tl, id + at, window, 0, score, &s, &err) == 0, "%s", err.msg);
		nll += s.nll;
		*scored += s.scored;
	}
	return exp(nll / (double)*scored);
}

static void check_perplexity(const char *what, struct run *r, const char *text, size_t bytes, size_t n_tokens,
                             size_t window, int32_t skip, struct jv want)
{
	struct tokens ids = { 0 };
	struct err err = { 0 };
	double ppl, ref = jv_num(jv_get(want, "ppl"));
	int64_t scored;

	CHECK(engine_tokenize(r->e, text, bytes, 0, &ids, &err) == 0);
	if (n_tokens && ids.n > n_tokens)
		ids.n = n_tokens;
	CHECK_INT(ids.n, jv_num(jv_get(want, "tokens")));
	ppl = perplexity(r, ids.id, ids.n, window, skip, &scored);
	CHECK_INT(scored, jv_num(jv_get(want, "scored")));
	test_note("%s: perplexity %.4f, reference %.4f (%+.3f %%)", what, ppl, ref, 100 * (ppl / ref - 1));
	CHECK_MSG(fabs(ppl / ref - 1) <= 0.003, "%s: perplexity %g, reference %g", what, ppl, ref);
	tokens_free(&ids);
}

TEST(default_model_perplexity)
{
	size_t n, n_book;
	struct run r = run_open(test_model(), "f16", 2048);
	char *text = test_read(test_file("tests/vectors/smollm2.json"), &n);
	char *book = test_read(test_file("tests/vectors/books/treasure-island.txt"), &n_book);

	if (r.tl)
		check_perplexity("Treasure Island, 2,000 tokens", &r, book, n_book, 2000, 2000, 1,
		                 jv_get(jv_parse(text, n), "treasure_2000"));
	run_close(&r);
	free(text);
	free(book);
}

/* Perplexity of whole contexts, and of windows that other programs measure. The texts are not part of the project. */
SOAK_TEST(default_model_perplexity_of_whole_contexts)
{
	size_t n, n_wiki, n_book;
	const char *model = test_model(), *wiki_path = test_shared("data/text/wiki.test.raw");
	const char *book_path = test_shared("data/books/stevenson-treasure-island.txt");
	char *text = test_read(test_file("tests/vectors/smollm2.json"), &n);
	char *wiki = test_read(wiki_path, &n_wiki), *book = test_read(book_path, &n_book);
	struct jv ref = jv_parse(text, n);
	struct run r = run_open(model, "f16", 8192);

	if (r.tl) {
		check_perplexity("wiki, 64 KiB", &r, wiki, 65536, 0, 2048, 1024,
		                 jv_get(ref, "wiki64k_window2048_second_half"));
		check_perplexity("Treasure Island, 8,000 tokens", &r, book, n_book, 8000, 8000, 1,
		                 jv_at(jv_get(ref, "book_8000"), 0));
	}
	run_close(&r);
	free(text);
	free(wiki);
	free(book);
}
