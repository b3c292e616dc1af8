/* engine/advice.c - the sampler settings for a model. They have three sources: weir's defaults, the settings that the
 * makers of the model's family publish, and keys in the model file. A later source in this list overrides an earlier
 * one.
 *
 * Repetition penalties come from the file's keys only. The penalties that makers publish would suppress words that an
 * answer from documents has to repeat. */
#include "engine/engine_private.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- families ---- */

enum { ANY = -1, SILENT = -1 }; /* SILENT means that the makers of the model recommend no value */

/* Advice for a family of models. An entry has conditions that a model must meet, and the sampler values that are
 * advised for it. The first entry whose conditions are all met is used. */
struct family_advice {
	const char *family;
	const char *arch; /* condition on general.architecture; NULL = any */
	/* condition on the model's name: a substring of the name as add_letters() simplifies it; NULL = any name */
	const char *word;
	int reasons; /* condition on the answers; 1 = with reasoning; 0 = without reasoning; ANY = both */
	float temperature;
	int32_t top_k;
	float top_p, min_p;
};

static const struct family_advice families[] = {
	/* Model card of DeepSeek-R1, usage recommendations. This entry must precede the entries of Qwen and Llama:
	 * models distilled from R1 have the architectures of these two families. */
	{ "DeepSeek-R1", NULL, "deepseekr1", ANY, 0.6f, SILENT, 0.95f, SILENT },
	/* Model card of QwQ-32B, usage guidelines (top-k between 20 and 40). */
	{ "QwQ", "qwen2", "qwq", ANY, 0.6f, 20, 0.95f, 0 },
	/* generation_config.json of Qwen2.5-7B-Instruct and of the other sizes. */
	{ "Qwen2.5", "qwen2", "qwen25", ANY, 0.7f, 20, 0.8f, SILENT },
	/* Model cards of Qwen3-8B, Qwen3-30B-A3B-Instruct-2507 and -Thinking-2507, best practices. */
	{ "Qwen3", "qwen3", NULL, 1, 0.6f, 20, 0.95f, 0 },
	{ "Qwen3", "qwen3", NULL, 0, 0.7f, 20, 0.8f, 0 },
	{ "Qwen3", "qwen3moe", NULL, 1, 0.6f, 20, 0.95f, 0 },
	{ "Qwen3", "qwen3moe", NULL, 0, 0.7f, 20, 0.8f, 0 },
	/* Model card of Qwen3-Next-80B-A3B-Instruct, best practices. */
	{ "Qwen3-Next", "qwen3next", NULL, 0, 0.7f, 20, 0.8f, 0 },
	/* Model cards of Qwen3.5-27B and Qwen3.6-27B: general tasks. */
	{ "Qwen3.5", "qwen35", NULL, 1, 1, 20, 0.95f, 0 },
	{ "Qwen3.5", "qwen35", NULL, 0, 0.7f, 20, 0.8f, 0 },
	{ "Qwen3.5", "qwen35moe", NULL, 1, 1, 20, 0.95f, 0 },
	{ "Qwen3.5", "qwen35moe", NULL, 0, 0.7f, 20, 0.8f, 0 },
	/* generation_config.json of gemma-3-4b-it. The file has no min-p; 0 is the value that the makers advise for
	 * other programs. */
	{ "Gemma 3", "gemma3", NULL, ANY, 1, 64, 0.95f, 0 },
	/* Model card of Gemma 4: "across all use cases". */
	{ "Gemma 4", "gemma4", NULL, ANY, 1, 64, 0.95f, SILENT },
	/* README of github.com/openai/gpt-oss, "Recommended Sampling Parameters": no truncation. */
	{ "gpt-oss", "gpt-oss", NULL, ANY, 1, 0, 1, 0 },
	/* generation_config.json of Llama-3.1-8B-Instruct; the same in Llama 3, 3.2 and 3.3. */
	{ "Llama 3", "llama", "llama3", ANY, 0.6f, SILENT, 0.9f, SILENT },
	/* Model cards of Mistral-Nemo-Instruct-2407, Magistral-Small-2509, Mistral-Small-24B-Instruct-2501,
	 * -3.1-24B-Instruct-2503 and -3.2-24B-Instruct-2506. */
	{ "Mistral Nemo", "llama", "mistralnemo", ANY, 0.3f, SILENT, SILENT, SILENT },
	{ "Magistral", NULL, "magistral", ANY, 0.7f, SILENT, 0.95f, SILENT },
	{ "Mistral Small 3", NULL, "mistralsmall24b", ANY, 0.15f, SILENT, SILENT, SILENT },
	{ "Mistral Small 3", NULL, "mistralsmall31", ANY, 0.15f, SILENT, SILENT, SILENT },
	{ "Mistral Small 3", NULL, "mistralsmall32", ANY, 0.15f, SILENT, SILENT, SILENT },
	/* Model cards of SmolLM2-1.7B-Instruct (its example code) and SmolLM3-3B. */
	{ "SmolLM2", "llama", "smollm2", ANY, 0.2f, SILENT, 0.9f, SILENT },
	{ "SmolLM3", "smollm3", NULL, ANY, 0.6f, SILENT, 0.95f, SILENT },
	/* Model cards of LFM2.5-8B-A1B, LFM2-1.2B and LFM2-8B-A1B, "Generation parameters". */
	{ "LFM2.5", "lfm2moe", "lfm25", ANY, 0.2f, 80, SILENT, SILENT },
	{ "LFM2", "lfm2", "lfm2", ANY, 0.3f, SILENT, SILENT, 0.15f },
	{ "LFM2", "lfm2moe", "lfm2", ANY, 0.3f, SILENT, SILENT, 0.15f },
	/* Model cards of Phi-4-reasoning and Phi-4-reasoning-plus, which say which values "inference must use". */
	{ "Phi-4-reasoning", "phi3", "phi4reasoning", ANY, 0.8f, 50, 0.95f, SILENT },
	/* Model card of GLM-Z1-32B-0414, sampling parameters. */
	{ "GLM-Z1", "glm4", "glmz1", ANY, 0.6f, 40, 0.95f, SILENT },
	/* Model card of EXAONE-4.0-32B. There is no entry for answers without reasoning: for them the card asks for a
	 * temperature below 0.6, and weir's default is below 0.6. */
	{ "EXAONE 4", "exaone4", NULL, 1, 0.6f, SILENT, 0.95f, SILENT },
	/* Model card of Seed-OSS-36B-Instruct. */
	{ "Seed-OSS", "seed_oss", NULL, ANY, 1.1f, SILENT, 0.95f, SILENT },
};

/* Append the string value of a metadata key, reduced to lower-case ASCII letters and digits, and then "/". The "/"
 * keeps a search for a substring from matching across two values. */
static void add_letters(const struct gguf *g, const char *key, char *out, size_t size)
{
	size_t n = strlen(out);
	struct view v = { 0 };

	if (gguf_string(g, key, &v, NULL) != 1)
		return;
	for (size_t i = 0; i < v.n && n + 2 < size; i++)
		if (isalnum((unsigned char)v.p[i]) && (unsigned char)v.p[i] < 0x80)
			out[n++] = (char)tolower((unsigned char)v.p[i]);
	out[n++] = '/';
	out[n] = 0;
}

/* Return the first entry of families[] whose conditions the model meets. NULL = there is no advice. */
static const struct family_advice *family_of(const struct engine *e, int reasons)
{
	char name[256] = "";

	/* there is no advice for a model without a template, because it is not trained to answer */
	if (!e->info.has_template)
		return NULL;
	add_letters(e->gguf, "general.name", name, sizeof name);
	add_letters(e->gguf, "general.basename", name, sizeof name);
	for (size_t i = 0; i < LEN(families); i++) {
		const struct family_advice *f = &families[i];

		if ((!f->arch || !strcmp(f->arch, e->info.arch)) && (f->reasons == ANY || f->reasons == reasons) &&
		    (!f->word || strstr(name, f->word)))
			return f;
	}
	return NULL;
}

/* ---- the file's keys ---- */

/* Sampler keys that llama.cpp writes to GGUF files. The index of keys[] is an enum sampling_setting. The index LAST_N
 * is for sampling.repeat_last, which is not in that enum. A setting without a key has name = NULL. Keys for samplers
 * that weir lacks (sequence, xtc_*, mirostat*) are ignored. */
enum { LAST_N = SAMPLING_SETTINGS, KEYS };
static const struct {
	const char *name;
	double min, max;
} keys[KEYS] = {
	[SAMPLING_TEMP] = { "general.sampling.temp", 0, 5 },
	[SAMPLING_TOP_K] = { "general.sampling.top_k", -1, INT32_MAX },
	[SAMPLING_TOP_P] = { "general.sampling.top_p", 0, 1 },
	[SAMPLING_MIN_P] = { "general.sampling.min_p", 0, 1 },
	[SAMPLING_REPEAT] = { "general.sampling.penalty_repeat", 0.5, 2 },
	[LAST_N] = { "general.sampling.penalty_last_n", -1, INT32_MAX },
};

/* Read the value of keys[i] to *out and return 1. Return 0 if the file lacks the key, and -1 if the value is not a
 * number or is out of range. After -1, note[size] has a sentence about the first bad value. */
static int file_value(const struct gguf *g, int i, double *out, char *note, size_t size)
{
	const struct gguf_value *v = keys[i].name ? gguf_find(g, keys[i].name) : NULL;
	int64_t whole = 0;
	char is[64];

	if (!v)
		return 0;
	if (gguf_int(g, keys[i].name, INT64_MIN, INT64_MAX, &whole, NULL) == 1)
		*out = (double)whole;
	else if (gguf_float(g, keys[i].name, out, NULL) != 1)
		*out = NAN;
	if (*out >= keys[i].min && *out <= keys[i].max)
		return 1;
	if (v->type == GGUF_F32 || v->type == GGUF_F64 || whole)
		snprintf(is, sizeof is, "%g", *out);
	else
		snprintf(is, sizeof is, "of type %s", gguf_type_name(v->type));
	if (!*note)
		snprintf(note, size,
		         "the model file's '%s' is %s, and should be a number from %g to %g; it is not used",
		         keys[i].name, is, keys[i].min, keys[i].max);
	return -1;
}

/* ---- the settings for a model ---- */

/* Set setting i to a value, and record `from`, the source of the value. */
static void choice_put(struct sampling_choice *c, enum sampling_setting i, double value, enum sampling_source from)
{
	const struct sampling s = {
		.temperature = (float)value,
		.top_k = i == SAMPLING_TOP_K && value > 0 ? (int32_t)value : 0,
		.top_p = (float)value,
		.min_p = (float)value,
		.repeat_penalty = (float)value,
	};

	sampling_take(&c->s, &s, i);
	c->from[i] = (unsigned char)from;
}

void sampling_take(struct sampling *to, const struct sampling *from, enum sampling_setting i)
{
	switch (i) {
	case SAMPLING_TEMP: to->temperature = from->temperature; break;
	case SAMPLING_TOP_K: to->top_k = from->top_k; break;
	case SAMPLING_TOP_P: to->top_p = from->top_p; break;
	case SAMPLING_MIN_P: to->min_p = from->min_p; break;
	case SAMPLING_REPEAT: to->repeat_penalty = from->repeat_penalty; break;
	case SAMPLING_PRESENCE: to->presence_penalty = from->presence_penalty; break;
	case SAMPLING_FREQUENCY: to->frequency_penalty = from->frequency_penalty; break;
	case SAMPLING_SETTINGS: break;
	}
}

void sampling_read(struct engine *e)
{
	char *note = e->info.sampling_note;
	size_t size = sizeof e->info.sampling_note;
	double value;

	for (int reasons = 0; reasons < 2; reasons++) {
		struct sampling_choice *c = &e->sampling[reasons];
		const struct family_advice *f = family_of(e, reasons);

		*c = (struct sampling_choice){ .s = sampling_default };
		if (f) {
			const double says[] = { (double)f->temperature, f->top_k, (double)f->top_p, (double)f->min_p };

			c->family = f->family;
			/* the settings in says[] are in the order of enum sampling_setting */
			for (int i = 0; i < 4; i++)
				if (says[i] >= 0)
					choice_put(c, (enum sampling_setting)i, says[i], SAMPLING_FAMILY);
		}
		for (int i = 0; i < SAMPLING_SETTINGS; i++)
			if (file_value(e->gguf, i, &value, note, size) > 0)
				choice_put(c, (enum sampling_setting)i, value, SAMPLING_FILE);
		if (file_value(e->gguf, LAST_N, &value, note, size) > 0)
			c->s.repeat_last = (int32_t)value;
	}
}

void engine_sampling(const struct engine *e, int reasons, struct sampling_choice *out)
{
	*out = e->sampling[reasons != 0];
}
