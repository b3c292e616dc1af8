/* tests/engine/t_amx_models.c - prompts at the CPU level amx: the logits must have the bits of the level avx512. On a
 * processor without AMX, AMX instructions are emulated (tests/lib/amx_emulator.h). */
#include "tests/lib/test.h"
#include "engine/engine_machine.h"

#include <stdio.h>
#include <stdlib.h>

#include "engine/engine.h"
#include "tests/lib/amx_emulator.h"

struct kept {
	float *logits;
	size_t n_vocab;
};

static void keep(int32_t pos, const float *logits, void *ud)
{
	struct kept *k = ud;

	memcpy(k->logits + (size_t)pos * k->n_vocab, logits, k->n_vocab * sizeof *logits);
}

/* Return the logits of all n tokens of a prompt, [n][n_vocab], or NULL. *n_vocab: the size of the vocabulary. */
static float *prompt_logits(const char *path, const char *level, int32_t n, size_t *n_vocab)
{
	struct engine_options opt = { .model_path = path, .device = "cpu", .threads = 2 };
	struct timeline_options topt = { .ctx = n };
	struct timeline *tl = NULL;
	struct engine *e = NULL;
	struct err err = { 0 };
	struct kept k = { 0 };
	int32_t *id = calloc((size_t)n, sizeof *id);

	setenv("WEIR_CPU", level, 1);
	if (engine_open(&e, &opt, &err) || timeline_open(&tl, e, &topt, &err)) {
		test_fail(__FILE__, __LINE__, "%s: %s", path, err.msg);
		goto out;
	}
	*n_vocab = k.n_vocab = (size_t)engine_info(e)->n_vocab;
	k.logits = calloc((size_t)n * k.n_vocab, sizeof *k.logits);
	for (int32_t i = 0; i < n; i++)
		id[i] = (i * 7919 + 5) % (int32_t)k.n_vocab;
	if (timeline_extend(tl, id, (size_t)n, 0, keep, &k, &err))
		test_fail(__FILE__, __LINE__, "%s: %s", path, err.msg);
out:
	timeline_close(tl);
	engine_close(e);
	unsetenv("WEIR_CPU");
	free(id);
	return k.logits;
}

static void compare(const char *path, int32_t n)
{
	unsigned long before;
	size_t n_vocab = 0;
	float *want, *got;

	want = prompt_logits(path, "avx512", n, &n_vocab);
	amx_emulate(AMX_RIGHT);
	if (strncmp(engine_cpu_level(), "amx ", 4)) {
		free(want);
		SKIP("amx: %s", engine_amx() ? engine_amx() : "another processor");
	}
	before = amx_emulated();
	got = prompt_logits(path, "amx", n, &n_vocab);
	CHECK(want && got && !memcmp(want, got, (size_t)n * n_vocab * sizeof *got));
	CHECK(amx_native() || amx_emulated() > before);
	free(want);
	free(got);
}

TEST(quantised_models_have_the_logits_of_avx512)
{
	compare(test_file("tests/vectors/models/llama-block32.gguf"), 61);
	compare(test_file("tests/vectors/models/llama-block256.gguf"), 61);
	compare(test_file("tests/vectors/models/gpt-oss-mxfp4.gguf"), 61);
}

TEST(default_model_has_the_logits_of_avx512)
{
	compare(test_model(), 19);
}
