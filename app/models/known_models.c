/* app/models/known_models.c - the built-in table of models and text encoders from which users choose, ordered by size.
 * It also tells what models of a size are good for, and which larger models of the table fit into this machine's
 * memory.
 *
 * All models are of families that weir runs. Files published by a model's makers are preferred to other conversions.
 * The sizes of the encoders are rounded. */
#include "app/models/models.h"
#include "engine/engine_machine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* clang-format off */
const struct known_model known_models[] = {
	{"smollm2-360m", "HuggingFaceTB/SmolLM2-360M-Instruct-GGUF", "smollm2-360m-instruct-q8_0.gguf", 386404992, "quick and simple; English", 0, 0},
	{"qwen3-0.6b", "Qwen/Qwen3-0.6B-GGUF", "Qwen3-0.6B-Q8_0.gguf", 639446688, "smallest that reasons; many languages", 0, 0},
	{"gemma-3-1b", "ggml-org/gemma-3-1b-it-GGUF", "gemma-3-1b-it-Q4_K_M.gguf", 806058240, "small, many languages", 0, 0},
	{"llama-3.2-1b", "bartowski/Llama-3.2-1B-Instruct-GGUF", "Llama-3.2-1B-Instruct-Q4_K_M.gguf", 807694464, "short answers; eight languages", 0, 1},
	{"granite-3.3-2b", "ibm-granite/granite-3.3-2b-instruct-GGUF", "granite-3.3-2b-instruct-Q4_K_M.gguf", 1545000000, "questions about documents", 0, 0},
	{"smollm3-3b", "ggml-org/SmolLM3-3B-GGUF", "SmolLM3-Q4_K_M.gguf", 1915305312, "open data; reasons; long texts", 0, 0},
	{"llama-3.2-3b", "bartowski/Llama-3.2-3B-Instruct-GGUF", "Llama-3.2-3B-Instruct-Q4_K_M.gguf", 2019377696, "all-round; long texts", 0, 0},
	{"gemma-3-4b", "ggml-org/gemma-3-4b-it-GGUF", "gemma-3-4b-it-Q4_K_M.gguf", 2489757856, "many languages; long texts in little memory", 0, 0},
	{"qwen3-4b", "Qwen/Qwen3-4B-GGUF", "Qwen3-4B-Q4_K_M.gguf", 2497280256, "for 8 GB; reasons", 0, 1},
	{"mistral-7b", "bartowski/Mistral-7B-Instruct-v0.3-GGUF", "Mistral-7B-Instruct-v0.3-Q4_K_M.gguf", 4372812000, "plain and fast for its size", 0, 0},
	{"qwen3-8b", "Qwen/Qwen3-8B-GGUF", "Qwen3-8B-Q4_K_M.gguf", 5027783488, "for 16 GB; reasons", 0, 1},
	{"qwen3-14b", "Qwen/Qwen3-14B-GGUF", "Qwen3-14B-Q4_K_M.gguf", 9001752960, "knows more, slower; reasons", 0, 0},
	{"gpt-oss-20b", "ggml-org/gpt-oss-20b-GGUF", "gpt-oss-20b-mxfp4.gguf", 12109566560, "experts: large and fast; reasons", 0, 0},
	{"qwen3-30b-a3b", "Qwen/Qwen3-30B-A3B-GGUF", "Qwen3-30B-A3B-Q4_K_M.gguf", 18556685824, "experts: for 32 GB; reasons", 0, 1},
	{"bge-small-en", "ChristianAzinn/bge-small-en-v1.5-gguf", "bge-small-en-v1.5.Q8_0.gguf", 36700000, "English; 33 million weights, quick", 1, 0},
	{"nomic-embed", "nomic-ai/nomic-embed-text-v1.5-GGUF", "nomic-embed-text-v1.5.Q8_0.gguf", 146000000, "English; 137 million weights", 1, 0},
	{"bge-m3", "gpustack/bge-m3-GGUF", "bge-m3-Q4_K_M.gguf", 438000000, "a hundred languages; 568 million weights, slow", 1, 0},
	{NULL, NULL, NULL, 0, NULL, 0, 0},
};
/* clang-format on */

const struct known_model *known_model(const char *name, struct err *e)
{
	const struct known_model *found = NULL;
	struct nearest near;
	struct str several = { 0 };
	int n = 0;

	nearest_init(&near, name, strlen(name));
	for (const struct known_model *k = known_models; k->name; k++) {
		if (!strcasecmp(k->name, name)) {
			str_free(&several);
			return k;
		}
		nearest_try(&near, k->name);
		if (*name && !strncasecmp(k->name, name, strlen(name))) {
			str_addf(&several, "%s%s", n++ ? ", " : "", k->name);
			found = k;
		}
	}
	if (n > 1)
		err_set(e, ERR_USAGE, "'%.60s' is the beginning of several models: %s", name, several.p);
	else if (!n && near.best)
		err_set(e, ERR_USAGE, "there is no model '%.60s' in the list of 'weir pull'; is it '%s'?", name,
		        near.best);
	else if (!n)
		err_set(e, ERR_USAGE,
		        "there is no model '%.60s' in the list of 'weir pull'; others are named by their repository, ORG/NAME",
		        name);
	str_free(&several);
	return n == 1 ? found : NULL;
}

const struct known_model *known_model_of(const char *file)
{
	for (const struct known_model *k = known_models; k->name; k++)
		if (strlen(file) == strlen(k->file) - 5 && !strncasecmp(file, k->file, strlen(file)))
			return k;
	return NULL;
}

/* 1 if the model fits into `memory` bytes: the KV cache and the computation need at least 512 MiB in addition to the
 * weights. */
static int known_model_fits(const struct known_model *k, uint64_t memory)
{
	return k->bytes + (512u << 20) <= memory;
}

const struct model_file *known_model_file(const struct known_model *k, const struct model_file *file, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (known_model_of(file[i].name) == k)
			return &file[i];
	return NULL;
}

void known_models_show(struct str *out, int encoders, int here, int numbered)
{
	uint64_t memory = engine_memory_free();
	struct model_file *file = NULL;
	size_t n = !here ? 0 : encoders ? encoder_files(&file) : model_files(&file);
	int i = 0;

	for (const struct known_model *k = known_models; k->name; k++) {
		struct str size = { 0 };

		if (k->encoder != encoders)
			continue;
		i++;
		if (known_model_file(k, file, n))
			continue;
		human_bytes(&size, k->bytes);
		if (numbered)
			str_addf(out, "%3d", i);
		str_addf(out, "  %-14s  %8s  %s%s\n", k->name, size.p, k->what,
		         known_model_fits(k, memory) ? "" : " (too large for this machine now)");
		str_free(&size);
	}
	model_files_free(file, n);
}

/* ---- what is good for what ---- */

const char *model_good_for(const struct engine_info *i)
{
	/* What a model of each size can do. For the default model (135 million weights), this was measured. For the
	 * others, it is what the makers claim: SmolLM2 (arXiv 2502.02737), the card of Llama 3.2 (1B and 3B).
	 * tests/results/2026-11-29-discovery.md has the figures. */
	static const struct {
		double below;
		const char *what;
	} by_size[] = {
		{ 0.3e9, "finding passages and quoting the sentence that answers; little else" },
		{ 0.9e9, "simple talk and short answers; check them by the sources" },
		{ 2.5e9, "short answers about documents, simple talk" },
		{ INFINITY, "questions about documents, summaries" },
	};
	size_t k = 0;

	if (!i->has_template)
		return "continuing texts; it was not trained to answer";
	while ((double)i->n_params >= by_size[k].below)
		k++;
	return by_size[k].what;
}

/* Append a line about a larger model. `file` is the list of model files on this machine. */
static void larger_line(const struct known_model *k, const struct model_file *file, size_t n, struct str *out)
{
	const struct model_file *here = known_model_file(k, file, n);

	str_addf(out, "\n   %-13s  ", k->name);
	human_bytes(out, k->bytes);
	str_addf(out, ": %s", k->what);
	if (here)
		str_addf(out, "; here: /model %s", here->name);
}

void known_models_larger(const struct engine_info *now, uint64_t free_memory, struct str *out)
{
	enum { MOST = 2 };
	uint64_t memory = now->device_total ? now->device_total : free_memory;
	const struct known_model *larger[MOST];
	struct model_file *file;
	size_t n_files;
	int n = 0;

	for (const struct known_model *k = known_models; k->name; k++) {
		if (!k->step || (double)k->bytes < 1.5 * (double)now->weight_bytes || !known_model_fits(k, memory))
			continue;
		n = MIN(n + 1, MOST);
		larger[n - 1] = k;
	}
	if (!n)
		return;
	str_adds(out, "Larger, and within the ");
	human_bytes(out, memory);
	str_addf(out, " %s; 'weir pull NAME' fetches one:", now->device_total ? "of the GPU" : "free here");
	n_files = model_files(&file);
	for (int i = 0; i < n; i++)
		larger_line(larger[i], file, n_files, out);
	model_files_free(file, n_files);
}
