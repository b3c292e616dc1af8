/* tests/engine/t_advice.c - where the sampling settings of a model come from: keys of its file, the advice of its
 * family, or the defaults; also values that no sampler accepts. */
#include "tests/lib/test.h"

#include <math.h>

#include "engine/engine.h"
#include "tests/lib/keyed.h"

static char path[64];

/* Open a copy of model file `rel` to which the keys of m are added. base: 0 = with the chat template "chatml", 1 =
 * without a chat template. */
static struct engine *opened(const char *rel, struct mk *m, int base)
{
	struct engine *e = NULL;
	struct err err = { 0 };

	snprintf(path, sizeof path, "/tmp/t_advice_%d.gguf", (int)getpid());
	keyed_model(rel, m, path);
	if (engine_open(&e,
	                &(struct engine_options){
				.model_path = path, .inspect_only = 1, .chat_template = base ? NULL : "chatml" },
	                &err))
		test_fail(__FILE__, __LINE__, "%s: %s", rel, err.msg);
	unlink(path);
	return e;
}

static struct sampling_choice choice(const struct engine *e, int reasons)
{
	struct sampling_choice c;

	engine_sampling(e, reasons, &c);
	return c;
}

static int near(float a, double b)
{
	return fabs((double)a - b) < 1e-6;
}

TEST(a_family_has_its_makers_advice)
{
	struct mk m = { 0 };
	struct engine *e = opened("tests/vectors/models/qwen3.gguf", &m, 0);
	struct sampling_choice plain = choice(e, 0), reasons = choice(e, 1);

	CHECK_STR(plain.family, "Qwen3");
	CHECK(near(plain.s.temperature, 0.7) && plain.s.top_k == 20 && near(plain.s.top_p, 0.8) &&
	      near(plain.s.min_p, 0));
	CHECK(near(reasons.s.temperature, 0.6) && reasons.s.top_k == 20 && near(reasons.s.top_p, 0.95) &&
	      near(reasons.s.min_p, 0));
	for (int i = SAMPLING_TEMP; i <= SAMPLING_MIN_P; i++)
		CHECK_INT(plain.from[i], SAMPLING_FAMILY);
	CHECK_INT(plain.from[SAMPLING_REPEAT], SAMPLING_DEFAULT);
	CHECK(near(plain.s.repeat_penalty, 1) && near(plain.s.presence_penalty, 0));
	CHECK_STR(engine_info(e)->sampling_note, "");
	engine_close(e);
}

/* A base model gets the default settings, because it is not trained to answer. */
TEST(a_base_model_has_the_defaults)
{
	struct mk m = { 0 };
	struct engine *e = opened("tests/vectors/models/qwen3.gguf", &m, 1);
	struct sampling_choice c = choice(e, 0);

	CHECK(!c.family && near(c.s.temperature, (double)sampling_default.temperature) &&
	      c.s.top_k == sampling_default.top_k);
	for (int i = 0; i < SAMPLING_SETTINGS; i++)
		CHECK_INT(c.from[i], SAMPLING_DEFAULT);
	engine_close(e);
}

/* Many families have the architecture "llama". They are distinguished by the name in the file. */
TEST(names_tell_families_apart)
{
	/* clang-format off */
	static const struct { const char *basename, *family; double temperature; } all[] = {
		{ "Llama-3.2", "Llama 3", 0.6 }, { "Meta-Llama-3", "Llama 3", 0.6 }, { "llama 3.1", "Llama 3", 0.6 },
		{ "DeepSeek-R1-Distill-Llama", "DeepSeek-R1", 0.6 }, { "Mistral-Nemo", "Mistral Nemo", 0.3 },
		{ "Mistral-Small-3.2-24B", "Mistral Small 3", 0.15 }, { "Mistral-Small-24B", "Mistral Small 3", 0.15 }, { "Mistral-Small", NULL, 0.3 },
		{ "Magistral-Small-2509", "Magistral", 0.7 }, { "Mistral-7B", NULL, 0.3 }, { "Llama-2", NULL, 0.3 }, { "", NULL, 0.3 },
		{ "\xff\xfe LLAMA\n3", "Llama 3", 0.6 }, { "tinylla\xc3\xa1ma", NULL, 0.3 },
	};
	/* clang-format on */
	char many[4000];

	for (size_t i = 0; i < LEN(all); i++) {
		struct mk m = { 0 };
		struct engine *e;
		struct sampling_choice c;

		mk_string(&m, "general.basename", all[i].basename);
		e = opened("tests/vectors/models/llama-linear.gguf", &m, 0);
		c = choice(e, 0);
		if (all[i].family)
			CHECK_STR(c.family, all[i].family);
		else
			CHECK_MSG(!c.family, "%s: %s", all[i].basename, c.family);
		CHECK_MSG(near(c.s.temperature, all[i].temperature), "%s: %g", all[i].basename,
		          (double)c.s.temperature);
		engine_close(e);
	}
	/* The longest possible name. */
	memset(many, 'a', sizeof many - 1);
	many[sizeof many - 1] = 0;
	{
		struct mk m = { 0 };
		struct engine *e;

		mk_string(&m, "general.basename", many);
		e = opened("tests/vectors/models/llama-linear.gguf", &m, 0);
		CHECK(!choice(e, 0).family);
		engine_close(e);
	}
}

TEST(keys_of_the_file_come_first)
{
	struct mk m = { 0 };
	struct engine *e;
	struct sampling_choice c;

	mk_f32(&m, "general.sampling.temp", 0.25f);
	mk_key(&m, "general.sampling.top_p", GGUF_F64);
	put_f64(&m.kv, 0.5);
	mk_f32(&m, "general.sampling.penalty_repeat", 1.05f);
	mk_key(&m, "general.sampling.penalty_last_n", GGUF_I32);
	put_u32(&m.kv, (uint32_t)-1);
	mk_u32(&m, "general.sampling.mirostat", 2); /* weir does not have this sampler, so the key is ignored */
	e = opened("tests/vectors/models/qwen3.gguf", &m, 0);
	c = choice(e, 1);
	CHECK(near(c.s.temperature, 0.25) && c.from[SAMPLING_TEMP] == SAMPLING_FILE);
	CHECK(near(c.s.top_p, 0.5) && c.from[SAMPLING_TOP_P] == SAMPLING_FILE);
	CHECK(c.s.top_k == 20 && c.from[SAMPLING_TOP_K] == SAMPLING_FAMILY);
	CHECK(near(c.s.repeat_penalty, 1.05) && c.from[SAMPLING_REPEAT] == SAMPLING_FILE);
	CHECK(c.s.repeat_last == -1 && c.from[SAMPLING_PRESENCE] == SAMPLING_DEFAULT);
	CHECK_STR(engine_info(e)->sampling_note, "");
	engine_close(e);
	/* The temperature is an integer. top_k is -1, which means "all tokens" in other programs. */
	mk_u32(&m, "general.sampling.temp", 1);
	mk_key(&m, "general.sampling.top_k", GGUF_I32);
	put_u32(&m.kv, (uint32_t)-1);
	e = opened("tests/vectors/models/qwen3.gguf", &m, 1);
	c = choice(e, 0);
	CHECK(near(c.s.temperature, 1) && c.s.top_k == 0 && c.from[SAMPLING_TOP_K] == SAMPLING_FILE &&
	      c.from[SAMPLING_MIN_P] == SAMPLING_DEFAULT);
	engine_close(e);
}

/* A value out of range is ignored and reported; the other keys are still used. */
TEST(values_out_of_range_are_not_used)
{
	/* clang-format off */
	static const struct { const char *key; float value; const char *told; } bad[] = {
		{ "general.sampling.temp", -0.1f, "'general.sampling.temp' is -0.1" }, { "general.sampling.temp", 1e30f, "is 1e+30" },
		{ "general.sampling.temp", NAN, "nan" }, { "general.sampling.temp", INFINITY, "is inf" }, { "general.sampling.top_p", 1.5f, "a number from 0 to 1" },
		{ "general.sampling.min_p", -1, "min_p" }, { "general.sampling.penalty_repeat", 0, "penalty_repeat" },
		{ "general.sampling.top_k", 3e9f, "top_k" }, { "general.sampling.penalty_last_n", -7, "penalty_last_n" },
	};
	/* clang-format on */
	struct mk m = { 0 };
	struct engine *e;
	struct sampling_choice c;

	for (size_t i = 0; i < LEN(bad); i++) {
		mk_f32(&m, bad[i].key, bad[i].value);
		e = opened("tests/vectors/models/qwen3.gguf", &m, 0);
		c = choice(e, 0);
		CHECK_MSG(strstr(engine_info(e)->sampling_note, bad[i].told), "%s", engine_info(e)->sampling_note);
		CHECK(near(c.s.temperature, 0.7) && c.s.top_k == 20 && near(c.s.top_p, 0.8) && near(c.s.min_p, 0) &&
		      near(c.s.repeat_penalty, 1));
		CHECK_INT(c.s.repeat_last, sampling_default.repeat_last);
		engine_close(e);
	}
	mk_string(&m, "general.sampling.temp", "hot");
	mk_key(&m, "general.sampling.top_k", GGUF_U64);
	put_u64(&m.kv, UINT64_MAX);
	mk_array(&m, "general.sampling.top_p", GGUF_F32, 2);
	put_f32(&m.kv, 0.1f);
	put_f32(&m.kv, 0.2f);
	mk_bool(&m, "general.sampling.min_p", 1);
	mk_f32(&m, "general.sampling.penalty_repeat", 1.25f);
	e = opened("tests/vectors/models/qwen3.gguf", &m, 0);
	c = choice(e, 0);
	CHECK_STR(
		engine_info(e)->sampling_note,
		"the model file's 'general.sampling.temp' is of type string, and should be a number from 0 to 5; it is not used");
	CHECK(near(c.s.temperature, 0.7) && c.s.top_k == 20 && near(c.s.top_p, 0.8) && near(c.s.min_p, 0) &&
	      near(c.s.repeat_penalty, 1.25));
	engine_close(e);
}
