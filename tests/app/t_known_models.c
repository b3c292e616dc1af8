/* tests/app/t_known_models.c - app/models/known_models.c: which models are suggested, and what a size is good for. */
#include "app/models/models.h"
#include "tests/lib/test.h"

#include <string.h>

static const uint64_t gib = (uint64_t)1 << 30;

/* Compare the names of the suggested models, with a blank before each, with `want`. */
static void check_better(uint64_t weights, uint64_t memory, double bandwidth, const char *want)
{
	struct engine_info now = { .weight_bytes = weights };
	struct str said = { 0 }, names = { 0 };

	known_models_better(&now, memory, bandwidth, &said);
	for (const char *p = str_text(&said); (p = strchr(p, '\n')); p++)
		str_addf(&names, " %.*s", (int)strcspn(p + 4, " "), p + 4);
	CHECK_STR(str_text(&names), want);
	str_free(&said);
	str_free(&names);
}

TEST(suggested_models_fit_and_are_as_fast_as_one_reads)
{
	check_better(98362432, 16 * gib, 20e9, " llama-3.2-1b qwen3-4b");
	check_better(98362432, 16 * gib, 60e9, " llama-3.2-1b qwen3-8b");
	check_better(98362432, 32 * gib, 20e9,
	             " llama-3.2-1b qwen3-30b-a3b"); /* a token reads a tenth of its weights */
	check_better(98362432, 2 * gib, 20e9, " llama-3.2-1b");
	check_better(98362432, gib, 20e9, "");
	check_better(98362432, 16 * gib, 3e9, " llama-3.2-1b");        /* on a slow machine, too */
	check_better(98362432, 16 * gib, 0, " llama-3.2-1b qwen3-8b"); /* a GPU, whose speed is unknown */
	check_better(2497280256, 4 * gib, 20e9, "");                   /* it is the best that fits */
}

TEST(suggestions_name_size_and_speed)
{
	struct engine_info now = { .weight_bytes = 98362432 };
	struct str s = { 0 };

	known_models_better(&now, 4 * gib, 20e9, &s);
	CHECK(strstr(str_text(&s), "Better, and within the 4.0 GiB free here; 'weir pull NAME' fetches one:\n"));
	CHECK(strstr(str_text(&s), "\n   llama-3.2-1b   770 MiB, about 22 t/s: "));
	CHECK(strstr(str_text(&s), "\n   qwen3-4b       2.3 GiB, about 7.2 t/s: "));
	str_free(&s);
}

TEST(a_size_is_good_for_something)
{
	struct engine_info small = { .n_params = 134515008, .has_template = 1 }, large = small, plain = small;

	large.n_params = 4022468096;
	plain.has_template = 0;
	CHECK(strstr(model_good_for(&small), "quoting the sentence that answers"));
	CHECK(strstr(model_good_for(&large), "summaries"));
	CHECK(strstr(model_good_for(&plain), "continuing texts"));
}
