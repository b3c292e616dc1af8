/* tests/engine/t_encoder.c - the vectors of a tiny encoder against those computed in double by
 * tests/vectors/make_encoder.py, at every CPU level; packing; files and texts that are refused. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/encoder.h"
#include "kernels/cpu/fns.h"
#include "tests/lib/test.h"

enum { MOST_TEXTS = 16, MOST_IDS = 400, DIMS = 32 };

struct texts {
	struct encoder_text text[MOST_TEXTS];
	int32_t n, id[MOST_IDS];
	float *want; /* [3][n][DIMS], by pooling */
};

static void texts_read(struct texts *t)
{
	char *all = test_read(test_file("tests/vectors/models/bert.ids"), NULL), *line = all, *end;
	int32_t used = 0;
	size_t bytes = 0;

	*t = (struct texts){ .n = 0 };
	for (; line && *line && t->n < MOST_TEXTS; line = strchr(line, '\n') + 1, t->n++) {
		t->text[t->n].id = t->id + used;
		for (char *p = line; *p != '\n'; p = end) {
			t->id[used++] = (int32_t)strtol(p, &end, 10);
			t->text[t->n].n++;
		}
	}
	free(all);
	t->want = (float *)(void *)test_read(test_file("tests/vectors/models/bert.vectors.f32"), &bytes);
	CHECK_INT(bytes, 3 * (size_t)t->n * DIMS * sizeof(float));
}

/* The encoder's file with 32 bits changed `at` bytes behind a text in it; the path, which the caller unlinks and frees. */
static char *changed_file(const char *text, size_t at, uint32_t value)
{
	size_t n, length = strlen(text);
	char *bytes = test_read(test_file("tests/vectors/models/bert.gguf"), &n),
	     *path = strdup("/tmp/t_encoder.XXXXXX");
	int fd = mkstemp(path);

	for (size_t i = 0; i + length + at + 4 <= n; i++)
		if (!memcmp(bytes + i, text, length)) {
			memcpy(bytes + i + length + at, &value, 4);
			break;
		}
	CHECK(fd >= 0 && write(fd, bytes, n) == (ssize_t)n);
	close(fd);
	free(bytes);
	return path;
}

static double cosine(const float *a, const float *b)
{
	double dot = 0, aa = 0, bb = 0;

	for (int i = 0; i < DIMS; i++) {
		dot += (double)a[i] * b[i];
		aa += (double)a[i] * a[i];
		bb += (double)b[i] * b[i];
	}
	return dot / sqrt(aa * bb);
}

static struct encoder *open_or_fail(const char *path, int threads)
{
	struct encoder *e = NULL;
	struct err err = { 0 };

	if (encoder_open(&e, path, "cpu", threads, &err))
		test_fail(__FILE__, __LINE__, "encoder_open: %s", err.msg);
	return e;
}

TEST(vectors_match_double_at_every_level)
{
	struct texts t;
	double worst = 1;

	texts_read(&t);
	for (int l = 0; l < CPU_LEVELS; l++)
		for (uint32_t pooling = 1; pooling <= 3; pooling++) {
			char *path = changed_file("bert.pooling_type", 4, pooling);
			float got[MOST_TEXTS * DIMS], one[DIMS];
			struct err err = { 0 };
			struct encoder *e;

			setenv("WEIR_CPU", cpu_level_name[l], 1);
			e = open_or_fail(path, 2);
			unsetenv("WEIR_CPU");
			unlink(path);
			free(path);
			if (!e)
				continue;
			CHECK_INT(encoder_dims(e), DIMS);
			CHECK_INT(encoder_longest(e), 40);
			CHECK_MSG(!encoder_embed(e, t.text, t.n, got, NULL, &err), "%s", err.msg);
			for (int32_t i = 0; i < t.n; i++) {
				const float *want = t.want + ((int32_t)(pooling - 1) * t.n + i) * DIMS;
				double c = cosine(got + i * DIMS, want), length = 0;

				for (int k = 0; k < DIMS; k++)
					length += (double)got[i * DIMS + k] * got[i * DIMS + k];
				CHECK_MSG(c > 0.99999, "level %s, pooling %u, text %d: cosine %.8f", cpu_level_name[l],
				          pooling, (int)i, c);
				CHECK(fabs(length - 1) < 1e-5);
				worst = fmin(worst, c);
				/* alone the same bits as with others */
				CHECK(!encoder_embed(e, t.text + i, 1, one, NULL, &err));
				CHECK(!memcmp(one, got + i * DIMS, sizeof one));
			}
			encoder_close(e);
		}
	test_note("least cosine: 1 - %.1e", 1 - worst);
	free(t.want);
}

/* More tokens than one batch has, with any number of threads. */
TEST(many_texts_have_the_same_bits)
{
	enum { MANY = 150 };
	struct texts t;
	struct encoder_text *many = calloc(MANY, sizeof *many);
	float *got = calloc(MANY * DIMS, sizeof *got), *one;
	struct err err = { 0 };

	texts_read(&t);
	one = calloc((size_t)t.n * DIMS, sizeof *one);
	for (int threads = 1; threads <= 3; threads++) {
		struct encoder *e = open_or_fail(test_file("tests/vectors/models/bert.gguf"), threads);

		if (!e)
			break;
		for (int i = 0; i < MANY; i++)
			many[i] = t.text[i % t.n];
		if (threads == 1)
			CHECK(!encoder_embed(e, t.text, t.n, one, NULL, &err));
		CHECK(!encoder_embed(e, many, MANY, got, NULL, &err));
		for (int i = 0; i < MANY; i++)
			CHECK(!memcmp(got + i * DIMS, one + i % t.n * DIMS, DIMS * sizeof *got));
		encoder_close(e);
	}
	free(many);
	free(got);
	free(one);
	free(t.want);
}

TEST(refuses_texts_that_it_cannot_read)
{
	struct encoder *e = open_or_fail(test_file("tests/vectors/models/bert.gguf"), 1);
	int32_t id[41] = { 0 };
	float out[DIMS];
	struct err err = { 0 };
	atomic_int stop = 1;

	CHECK(encoder_embed(e, &(struct encoder_text){ id, 41 }, 1, out, NULL, &err) < 0);
	CHECK_STR(err.msg, "a text of 41 tokens is longer than the 40 that the encoder reads");
	CHECK(encoder_embed(e, &(struct encoder_text){ id, 0 }, 1, out, NULL, &err) < 0);
	CHECK_STR(err.msg, "a text without tokens has no vector");
	id[3] = 60;
	CHECK(encoder_embed(e, &(struct encoder_text){ id, 5 }, 1, out, NULL, &err) < 0);
	CHECK_STR(err.msg, "token id 60 is not within the encoder's vocabulary of 60");
	id[3] = 59;
	CHECK(encoder_embed(e, &(struct encoder_text){ id, 5 }, 1, out, &stop, &err) < 0);
	CHECK_INT(err.code, ERR_CANCELLED);
	CHECK(!encoder_embed(e, &(struct encoder_text){ id, 5 }, 1, out, NULL, &err));
	CHECK(!encoder_embed(e, NULL, 0, out, NULL, &err));
	encoder_close(e);
}

TEST(refuses_files_that_it_cannot_compute)
{
	static const struct {
		const char *text;
		size_t at;
		uint32_t value;
		const char *why;
	} list[] = {
		{ "bert.pooling_type", 4, 0, "'bert.pooling_type' is 0, and must be 1 (mean)" },
		{ "bert.pooling_type", 4, 9, "'bert.pooling_type'" },
		{ "bert.attention.head_count", 4, 3, "is 3, and must divide the embedding_length, 32" },
		{ "bert.block_count", 4, 3, "tensor 'blk.2.attn_q.weight' is missing" },
		{ "bert.block_count", 4, 1, "is not part of a bert model of 1 layers" },
		{ "bert.context_length", 4, 41,
		  "tensor 'position_embd.weight' has the shape 32 x 40, and must have 32 x 41" },
		{ "bert.feed_forward_length", 4, 65, "tensor 'blk.0.ffn_up.weight' has the shape" },
		{ "bert.attention.layer_norm_epsilon", 4, 0x3f800000,
		  "'bert.attention.layer_norm_epsilon' is out of range" },
	};

	for (size_t i = 0; i < LEN(list); i++) {
		char *path = changed_file(list[i].text, list[i].at, list[i].value);
		struct encoder *e = NULL;
		struct err err = { 0 };

		CHECK(encoder_open(&e, path, "cpu", 1, &err) < 0);
		CHECK(!e);
		CHECK_MSG(strstr(err.msg, list[i].why) != NULL, "\"%s\" does not say \"%s\"", err.msg, list[i].why);
		unlink(path);
		free(path);
	}
}

TEST(refuses_models_of_other_families)
{
	struct encoder *e = NULL;
	struct err err = { 0 };

	CHECK(encoder_open(&e, test_file("tests/vectors/models/qwen3.gguf"), "cpu", 1, &err) < 0);
	CHECK(strstr(err.msg, "'qwen3' is not a family of encoders that is supported") != NULL);
	CHECK(encoder_open(&e, "/nowhere/at/all.gguf", "cpu", 1, &err) < 0);
}
