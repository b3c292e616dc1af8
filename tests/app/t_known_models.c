/* tests/app/t_known_models.c - app/models/known_models.c: which models are suggested, what a size is good for, and which file a name of
 * the table finds. */
#include "app/models/models.h"
#include "tests/lib/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const uint64_t gib = (uint64_t)1 << 30;

/* Compare the names of the suggested models, with a blank before each, with `want`. device: bytes of the GPU's memory; 0 =
 * no GPU. */
static void check_larger(uint64_t weights, uint64_t memory, uint64_t device, const char *want)
{
	struct engine_info now = { .weight_bytes = weights, .device_total = device };
	struct str said = { 0 }, names = { 0 };

	known_models_larger(&now, memory, &said);
	for (const char *p = str_text(&said); (p = strchr(p, '\n')); p++)
		str_addf(&names, " %.*s", (int)strcspn(p + 4, " "), p + 4);
	CHECK_STR(str_text(&names), want);
	str_free(&said);
	str_free(&names);
}

TEST(suggested_models_are_larger_and_fit)
{
	check_larger(98362432, 16 * gib, 0, " llama-3.2-1b qwen3-8b");
	check_larger(98362432, 32 * gib, 0, " llama-3.2-1b qwen3-30b-a3b");
	check_larger(98362432, 4 * gib, 0, " llama-3.2-1b qwen3-4b");
	check_larger(98362432, 2 * gib, 0, " llama-3.2-1b");
	check_larger(98362432, gib, 0, "");
	check_larger(98362432, 64 * gib, 4 * gib, " llama-3.2-1b qwen3-4b"); /* the GPU's memory counts */
	check_larger(98362432, 64 * gib, gib, "");
	check_larger(2497280256, 4 * gib, 0, ""); /* it is the largest that fits */
}

/* Make a folder with weir/models in it the user's home and cache, and append its path. home_remove() removes it and frees `home`. */
static void home_make(struct str *home)
{
	char folder[] = "/tmp/weir-known-XXXXXX";
	struct str at = { 0 };

	CHECK(mkdtemp(folder) != NULL);
	str_adds(home, folder);
	setenv("HOME", folder, 1);
	setenv("XDG_CACHE_HOME", folder, 1);
	unsetenv("HF_HUB_CACHE");
	unsetenv("HF_HOME");
	unsetenv("LLAMA_CACHE");
	unsetenv("OLLAMA_MODELS");
	for (int i = 0; i < 2; i++) {
		str_clear(&at);
		str_addf(&at, "%s/weir%s", folder, i ? "/models" : "");
		CHECK(!mkdir(at.p, 0700));
	}
	str_free(&at);
}

static void home_remove(struct str *home)
{
	char command[100];

	snprintf(command, sizeof command, "rm -rf %.70s", home->p);
	CHECK(!system(command));
	str_free(home);
}

/* Make an empty file in weir/models, and set its path. */
static void home_file(const struct str *home, const char *name, struct str *path)
{
	int fd;

	str_clear(path);
	str_addf(path, "%s/weir/models/%s", home->p, name);
	fd = open(path->p, O_WRONLY | O_CREAT, 0600);
	CHECK(fd >= 0);
	close(fd);
}

TEST(suggestions_name_size_and_what_is_here)
{
	struct engine_info now = { .weight_bytes = 98362432 };
	struct str s = { 0 }, home = { 0 }, path = { 0 };

	home_make(&home);
	home_file(&home, "Qwen3-4B-Q4_K_M.gguf", &path);
	known_models_larger(&now, 4 * gib, &s);
	CHECK_STR(str_text(&s), "Larger, and within the 4.0 GiB free here; 'weir pull NAME' fetches one:"
	                        "\n   llama-3.2-1b   770 MiB: short answers; eight languages"
	                        "\n   qwen3-4b       2.3 GiB: for 8 GB; reasons; here: /model Qwen3-4B-Q4_K_M");
	str_clear(&s);
	now.device_total = 2 * gib;
	known_models_larger(&now, 4 * gib, &s);
	CHECK(strstr(str_text(&s), "Larger, and within the 2.0 GiB of the GPU; "));
	str_free(&s);
	home_remove(&home);
	str_free(&path);
}

/* Look for a model or an encoder that is not here; the error must contain `want`. */
static void check_missing(int (*find)(const char *, struct str *, struct err *), const char *name, const char *want)
{
	struct str found = { 0 };
	struct err e = { 0 };

	CHECK(find(name, &found, &e) < 0);
	CHECK_MSG(strstr(e.msg, want) != NULL, "%s: %s", name, e.msg);
	str_free(&found);
}

TEST(a_name_of_the_table_finds_its_file)
{
	struct str found = { 0 }, home = { 0 }, path = { 0 };
	struct err e = { 0 };

	home_make(&home);
	check_missing(model_find, "smollm3-3b", "'weir pull smollm3-3b' fetches it");
	check_missing(encoder_find, "nomic-embed", "'weir pull nomic-embed' fetches it");
	check_missing(model_find, "nomic-embed", "no file and no model 'nomic-embed' here");
	check_missing(encoder_find, "qwen3-8b", "no file and no encoder 'qwen3-8b' here");
	home_file(&home, "SmolLM3-Q4_K_M.gguf", &path); /* its name does not begin with smollm3-3b */
	CHECK(!model_find("smollm3-3b", &found, &e));
	CHECK_STR(str_text(&found), path.p);
	home_remove(&home);
	str_free(&found);
	str_free(&path);
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
