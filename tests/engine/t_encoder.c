/* tests/engine/t_encoder.c - the vectors of tiny encoders and the answers of a tiny reader, at every CPU level. They
 * are compared with results that tests/vectors/make_encoder.py computed in double. Also tested: packing of several
 * texts, plain texts, refused files. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/encoder.h"
#include "kernels/cpu/fns.h"
#include "tests/lib/mkgguf.h"
#include "tests/lib/test.h"

#define BERT    "tests/vectors/models/bert.gguf"
#define READER  "tests/vectors/models/bert-reader.gguf"
#define RANKER  "tests/vectors/models/bert-reranker.gguf"
#define PAIRS   "tests/vectors/models/bert-pairs-reranker.gguf"
#define DEBERTA "tests/vectors/models/deberta-reader.gguf"
#define NOMIC   "tests/vectors/models/nomic-bert.gguf"
#define JINA    "tests/vectors/models/jina-bert-v2.gguf"
enum { MOST_TEXTS = 16, MOST_IDS = 400, DIMS = 32, MOST_DIMS = 48 };

static const struct family {
	const char *name;
	int dims, heads;
} families[] = { { "bert", DIMS, 2 }, { "nomic-bert", DIMS, 2 }, { "jina-bert-v2", MOST_DIMS, 3 } };

/* Return the path of a file of the family's model. The path is in a static buffer and stays valid until the next
 * call. */
static const char *family_file(const struct family *f, const char *end)
{
	static char path[100];

	snprintf(path, sizeof path, "tests/vectors/models/%s.%s", f->name, end);
	return path;
}

struct texts {
	struct encoder_text text[MOST_TEXTS];
	int32_t n, id[MOST_IDS];
	float *want; /* expected vectors, [pooling][n][dims] */
};

static void texts_read(struct texts *t, const struct family *f)
{
	char *all = test_read(test_file(family_file(f, "ids")), NULL), *line = all, *end;
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
	t->want = (float *)(void *)test_read(test_file(family_file(f, "vectors.f32")), &bytes);
	CHECK_INT(bytes, 3 * (size_t)t->n * (size_t)f->dims * sizeof(float));
}

/* Copy a file and set the 32 bits that are `at` bytes after the given text to `value`. Returns the copy's path, which
 * the caller unlinks and frees. */
static char *changed_file(const char *file, const char *text, size_t at, uint32_t value)
{
	size_t n, length = strlen(text);
	char *bytes = test_read(test_file(file), &n), *path = strdup("/tmp/t_encoder.XXXXXX");
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

static double cosine(const float *a, const float *b, int dims)
{
	double dot = 0, aa = 0, bb = 0;

	for (int i = 0; i < dims; i++) {
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

/* Compute a family's vectors at a CPU level, and return the smallest cosine between such a vector and the expected
 * one. */
static double vectors_check(const struct family *f, const struct texts *t, const char *level, uint32_t pooling)
{
	struct str key = { 0 };
	char *path;
	float got[MOST_TEXTS * MOST_DIMS], one[MOST_DIMS];
	double worst = 1;
	struct err err = { 0 };
	struct encoder *e;

	str_addf(&key, "%s.pooling_type", f->name);
	path = changed_file(family_file(f, "gguf"), key.p, 4, pooling);
	str_free(&key);
	setenv("WEIR_CPU", level, 1);
	e = open_or_fail(path, 2);
	unsetenv("WEIR_CPU");
	unlink(path);
	free(path);
	if (!e)
		return 0;
	CHECK_INT(encoder_dims(e), f->dims);
	CHECK_INT(encoder_longest(e), 40);
	CHECK_MSG(!encoder_embed(e, t->text, t->n, got, NULL, &err), "%s", err.msg);
	for (int32_t i = 0; i < t->n; i++) {
		const float *want = t->want + ((int32_t)(pooling - 1) * t->n + i) * f->dims, *v = got + i * f->dims;
		double c = cosine(v, want, f->dims), length = 0;

		for (int k = 0; k < f->dims; k++)
			length += (double)v[k] * v[k];
		CHECK_MSG(c > 0.99999, "%s, level %s, pooling %u, text %d: cosine %.8f", f->name, level, pooling,
		          (int)i, c);
		CHECK(fabs(length - 1) < 1e-5);
		worst = fmin(worst, c);
		/* a text that is encoded alone gives the same bits as together with other texts */
		CHECK(!encoder_embed(e, t->text + i, 1, one, NULL, &err));
		CHECK(!memcmp(one, v, (size_t)f->dims * sizeof *one));
	}
	encoder_close(e);
	return worst;
}

TEST(vectors_match_double_at_every_level)
{
	for (size_t k = 0; k < LEN(families); k++) {
		struct texts t;
		double worst = 1;

		texts_read(&t, &families[k]);
		for (int l = 0; l < CPU_LEVELS; l++)
			for (uint32_t pooling = 1; pooling <= 3; pooling++)
				worst = fmin(worst, vectors_check(&families[k], &t, cpu_level_name[l], pooling));
		test_note("%s: least cosine 1 - %.1e", families[k].name, 1 - worst);
		free(t.want);
	}
}

/* Encode more tokens than one batch has, with several numbers of threads. */
static void many_check(const struct family *f)
{
	enum { MANY = 150 };
	struct texts t;
	struct encoder_text *many = calloc(MANY, sizeof *many);
	size_t dims = (size_t)f->dims;
	float *got = calloc(MANY * dims, sizeof *got), *one;
	struct err err = { 0 };

	texts_read(&t, f);
	one = calloc((size_t)t.n * dims, sizeof *one);
	for (int threads = 1; threads <= 3; threads++) {
		struct encoder *e = open_or_fail(test_file(family_file(f, "gguf")), threads);

		if (!e)
			break;
		for (int i = 0; i < MANY; i++)
			many[i] = t.text[i % t.n];
		if (threads == 1)
			CHECK(!encoder_embed(e, t.text, t.n, one, NULL, &err));
		CHECK(!encoder_embed(e, many, MANY, got, NULL, &err));
		for (int i = 0; i < MANY; i++)
			CHECK(!memcmp(got + (size_t)i * dims, one + (size_t)(i % t.n) * dims, dims * sizeof *got));
		encoder_close(e);
	}
	free(many);
	free(got);
	free(one);
	free(t.want);
}

TEST(many_texts_have_the_same_bits)
{
	for (size_t k = 0; k < LEN(families); k++)
		many_check(&families[k]);
}

TEST(refuses_texts_that_it_cannot_read)
{
	struct encoder *e = open_or_fail(test_file(BERT), 1);
	int32_t id[41] = { 0 };
	float out[DIMS];
	struct err err = { 0 };
	atomic_int stop = 1;

	CHECK(encoder_embed(e, &(struct encoder_text){ .id = id, .n = 41 }, 1, out, NULL, &err) < 0);
	CHECK_STR(err.msg, "a text of 41 tokens is longer than the 40 that the encoder reads");
	CHECK(encoder_embed(e, &(struct encoder_text){ .id = id, .n = 0 }, 1, out, NULL, &err) < 0);
	CHECK_STR(err.msg, "a text without tokens has no vector");
	id[3] = 60;
	CHECK(encoder_embed(e, &(struct encoder_text){ .id = id, .n = 5 }, 1, out, NULL, &err) < 0);
	CHECK_STR(err.msg, "token id 60 is not within the encoder's vocabulary of 60");
	id[3] = 59;
	CHECK(encoder_embed(e, &(struct encoder_text){ .id = id, .n = 5 }, 1, out, &stop, &err) < 0);
	CHECK_INT(err.code, ERR_CANCELLED);
	CHECK(!encoder_embed(e, &(struct encoder_text){ .id = id, .n = 5 }, 1, out, NULL, &err));
	CHECK(!encoder_embed(e, NULL, 0, out, NULL, &err));
	encoder_close(e);
}

TEST(refuses_files_that_it_cannot_compute)
{
	static const struct {
		const char *file, *text;
		size_t at;
		uint32_t value;
		const char *why;
	} list[] = {
		{ BERT, "bert.pooling_type", 4, 0, "'bert.pooling_type' is 0, and must be 1 (mean)" },
		{ BERT, "bert.pooling_type", 4, 9, "'bert.pooling_type'" },
		{ BERT, "bert.attention.head_count", 4, 3, "is 3, and must divide the embedding_length, 32" },
		{ BERT, "bert.block_count", 4, 3, "tensor 'blk.2.attn_q.weight' is missing" },
		{ BERT, "bert.block_count", 4, 1, "is not part of a bert model of 1 layers" },
		{ BERT, "bert.context_length", 4, 41,
		  "tensor 'position_embd.weight' has the shape 32 x 40, and must have 32 x 41" },
		{ BERT, "bert.feed_forward_length", 4, 65, "tensor 'blk.0.ffn_up.weight' has the shape" },
		{ BERT, "bert.attention.layer_norm_epsilon", 4, 0x3f800000,
		  "'bert.attention.layer_norm_epsilon' is out of range" },
		{ BERT, "token_types.weight", 12, 0, "is 0, and must be 1" },
		{ NOMIC, "nomic-bert.rope.freq_base", 4, 0, "'nomic-bert.rope.freq_base' is out of range" },
		{ NOMIC, "nomic-bert.attention.head_count", 4, 32,
		  "and must divide the embedding_length, 32, into even" },
		{ NOMIC, "blk.0.attn_qkv.we", 0, 0x7a7a7a7a, "tensor 'blk.0.attn_q.weight' is missing" },
		{ NOMIC, "blk.1.ffn_gate.we", 0, 0x7a7a7a7a, "and must have 32 x 128" },
		{ JINA, "jina-bert-v2.embedding_length", 4, 45, "tensor 'token_embd.weight' has the shape 48 x 60" },
		{ JINA, "jina-bert-v2.feed_forward_length", 4, 128, "tensor 'blk.0.ffn_gate.weight' has the shape" },
		{ JINA, "blk.1.attn_k.", 0, 0x7a7a7a7a, "tensor 'blk.1.attn_k.weight' is missing" },
	};

	for (size_t i = 0; i < LEN(list); i++) {
		char *path = changed_file(list[i].file, list[i].text, list[i].at, list[i].value);
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

/* ---- plain texts ---- */

enum { START, PAD, END, UNKNOWN, SPACE, LETTER_A, COLON = LETTER_A + 26 };

/* Write an encoder file with this model name and a vocabulary of n tokens: <s>, <pad>, </s>, <unk>, the space mark, a
 * to z, a colon, and fillers. Returns the path, which the caller unlinks and frees. */
static char *file_with_tokens(const char *name, int n)
{
	size_t bytes;
	char *file = test_read(test_file(BERT), &bytes), *path = strdup("/tmp/t_encoder.XXXXXX");
	static const char *const first[] = { "<s>", "<pad>", "</s>", "<unk>", "\xe2\x96\x81" };
	int fd = mkstemp(path);
	struct mk m = { 0 };
	uint64_t n_kv;

	mk_string(&m, "general.name", name);
	mk_string(&m, "tokenizer.ggml.model", "t5");
	mk_array(&m, "tokenizer.ggml.tokens", GGUF_STRING, (uint64_t)n);
	for (int i = 0; i < n; i++) {
		char text[8];

		snprintf(text, sizeof text,
		         i < COLON    ? "%c"
		         : i == COLON ? ":"
		                      : "#%d",
		         i < COLON ? 'a' + i - LETTER_A : i);
		put_string(&m.kv, i < LETTER_A ? first[i] : text);
	}
	mk_array(&m, "tokenizer.ggml.scores", GGUF_F32, (uint64_t)n);
	for (int i = 0; i < n; i++)
		put_f32(&m.kv, -1);
	mk_array(&m, "tokenizer.ggml.token_type", GGUF_I32, (uint64_t)n);
	for (int i = 0; i < n; i++)
		put_u32(&m.kv, i == UNKNOWN ? 2 : i < UNKNOWN ? 3 : 1);
	mk_u32(&m, "tokenizer.ggml.bos_token_id", START);
	mk_u32(&m, "tokenizer.ggml.eos_token_id", END);
	mk_u32(&m, "tokenizer.ggml.unknown_token_id", UNKNOWN);
	mk_bool(&m, "tokenizer.ggml.add_bos_token", 1);
	mk_bool(&m, "tokenizer.ggml.add_eos_token", 1);
	/* The last key is padding, so that the tensors after the keys stay aligned. */
	mk_key(&m, "filler", GGUF_STRING);
	put_u64(&m.kv, 31 - (m.kv.n + 8 + 31) % 32);
	put_pad(&m.kv, 32);
	memcpy(&n_kv, file + 16, 8);
	n_kv += m.n_kv;
	memcpy(file + 16, &n_kv, 8);
	CHECK(fd >= 0 && write(fd, file, 24) == 24 && write(fd, m.kv.p, m.kv.n) == (ssize_t)m.kv.n &&
	      write(fd, file + 24, bytes - 24) == (ssize_t)(bytes - 24));
	close(fd);
	str_free(&m.kv);
	free(file);
	return path;
}

/* Set id[] to the tokens of a lower-case text: START, the space mark, ..., END. Returns their number. */
static int32_t ids_of(const char *text, int32_t *id)
{
	int32_t n = 0;

	id[n++] = START;
	id[n++] = SPACE;
	for (; *text && n < 39; text++)
		id[n++] = *text == ' ' ? SPACE : *text == ':' ? COLON : *text == '_' ? UNKNOWN : LETTER_A + *text - 'a';
	id[n++] = END;
	return n;
}

/* A text is encoded with the model's prefix for questions or for passages, and truncated to the model's maximum number
 * of tokens. */
TEST(plain_texts_have_the_prefix_of_their_side)
{
	static const struct {
		const char *name, *query, *passage;
	} list[] = {
		{ "Multilingual E5 Small", "query: ", "passage: " },
		{ "snowflake-arctic-embed-m-v2.0", "query: ", "" },
		{ "nomic-embed-text-v1.5", "search_query: ", "search_document: " },
		{ "some-model", "", "" },
	};
	static const char *const texts[] = { "whale oil", "a",
		                             "a text of more letters than the forty tokens that this model reads" };

	for (size_t i = 0; i < LEN(list); i++)
		for (int side = ENCODER_QUERY; side <= ENCODER_PASSAGE; side++) {
			char *path = file_with_tokens(list[i].name, 60);
			struct encoder *e = open_or_fail(path, 1);
			struct encoder_string text[LEN(texts)];
			float got[LEN(texts) * DIMS], want[DIMS];
			struct err err = { 0 };

			unlink(path);
			free(path);
			for (size_t k = 0; k < LEN(texts); k++)
				text[k] = (struct encoder_string){ texts[k], strlen(texts[k]) };
			if (!e)
				continue;
			CHECK_MSG(!encoder_texts(e, (enum encoder_side)side, text, LEN(texts), got, NULL, &err), "%s",
			          err.msg);
			for (size_t k = 0; k < LEN(texts); k++) {
				struct str all = { 0 };
				int32_t id[64];

				str_adds(&all, side == ENCODER_QUERY ? list[i].query : list[i].passage);
				str_adds(&all, texts[k]);
				CHECK(!encoder_embed(e, &(struct encoder_text){ .id = id, .n = ids_of(all.p, id) }, 1,
				                     want, NULL, &err));
				CHECK_MSG(!memcmp(want, got + k * DIMS, sizeof want), "%s: \"%s\"", list[i].name,
				          all.p);
				str_free(&all);
			}
			CHECK(!encoder_texts(e, (enum encoder_side)side, &(struct encoder_string){ "", 0 }, 1, got,
			                     NULL, &err));
			CHECK(!encoder_texts(e, (enum encoder_side)side, NULL, 0, got, NULL, &err));
			encoder_close(e);
		}
}

TEST(an_encoder_is_known_by_its_file)
{
	uint64_t id[4];

	for (int i = 0; i < 4; i++) {
		char *path = file_with_tokens(i == 2 ? "e6" : "e5", i == 3 ? 59 : 60);
		struct encoder *e = open_or_fail(path, 1);

		unlink(path);
		free(path);
		id[i] = e ? encoder_id(e) : 0;
		encoder_close(e);
	}
	CHECK(id[0] == id[1]);
	CHECK(id[0] != id[2] && id[0] != id[3] && id[2] != id[3]);
}

TEST(refuses_plain_texts_without_a_tokenizer_that_fits)
{
	struct encoder *e = open_or_fail(test_file(BERT), 1);
	char *path = file_with_tokens("e5", 61);
	struct err err = { 0 };
	float out[DIMS];

	CHECK(encoder_texts(e, ENCODER_QUERY, &(struct encoder_string){ "a", 1 }, 1, out, NULL, &err) < 0);
	CHECK(strstr(err.msg, "the file has no tokenizer") != NULL);
	encoder_close(e);
	CHECK(encoder_open(&e, path, "cpu", 1, &err) < 0);
	CHECK_MSG(strstr(err.msg, "61 tokens, and 'token_embd.weight' has 60 rows") != NULL, "%s", err.msg);
	unlink(path);
	free(path);
}

/* ---- a reader ---- */

enum { MOST_PAIRS = 16 };

/* Questions, passages, and the reader's expected answers and scores, computed by tests/vectors/make_encoder.py. */
struct pairs_wanted {
	char *all;
	struct encoder_string question[MOST_PAIRS], passage[MOST_PAIRS], answer[MOST_PAIRS];
	double score[MOST_PAIRS];
	int n;
};

static struct pairs_wanted pairs_read(const char *file)
{
	struct pairs_wanted w = { .all = test_read(test_file(file), NULL) };

	for (char *line = w.all, *end; line && *line && w.n < MOST_PAIRS; line = end + 1, w.n++) {
		char *part[3];

		end = strchr(line, '\n');
		for (int i = 0; i < 3; i++)
			part[i] = strchr(i ? part[i - 1] + 1 : line, '|');
		w.question[w.n] = (struct encoder_string){ line, (size_t)(part[0] - line) };
		w.passage[w.n] = (struct encoder_string){ part[0] + 1, (size_t)(part[1] - part[0] - 1) };
		w.score[w.n] = strtod(part[1] + 1, NULL);
		w.answer[w.n] = (struct encoder_string){ part[2] + 1, (size_t)(end - part[2] - 1) };
	}
	return w;
}

static struct encoder *reading_encoder(void)
{
	char *path = file_with_tokens("e5", 60);
	struct encoder *e = open_or_fail(path, 2);
	struct err err = { 0 };

	unlink(path);
	free(path);
	if (e && encoder_reader_open(e, READER_ANY, test_file(READER), &err))
		test_fail(__FILE__, __LINE__, "encoder_reader_open: %s", err.msg);
	return e;
}

TEST(vectors_of_queries_have_the_second_adapter)
{
	struct pairs_wanted w = pairs_read("tests/vectors/models/bert.answers");
	float *want = (float *)(void *)test_read(test_file("tests/vectors/models/bert.queries.f32"), NULL);
	char *path = file_with_tokens("e5", 60);
	struct encoder *plain = open_or_fail(path, 2);

	unlink(path);
	free(path);
	for (int l = 0; l < CPU_LEVELS; l++) {
		float got[MOST_PAIRS * DIMS], before[MOST_PAIRS * DIMS];
		struct encoder *e;
		struct err err = { 0 };

		setenv("WEIR_CPU", cpu_level_name[l], 1);
		e = reading_encoder();
		unsetenv("WEIR_CPU");
		CHECK_MSG(!encoder_texts(e, ENCODER_QUERY_ADAPTED, w.question, w.n, got, NULL, &err), "%s", err.msg);
		CHECK(!encoder_texts(plain, ENCODER_QUERY_ADAPTED, w.question, w.n, before, NULL, &err));
		for (int i = 0; i < w.n; i++) {
			CHECK_MSG(cosine(got + i * DIMS, want + i * DIMS, DIMS) > 0.99999, "level %s, question %d",
			          cpu_level_name[l], i);
			CHECK(cosine(before + i * DIMS, want + i * DIMS, DIMS) < 0.9);
		}
		/* Passages are encoded without an adapter. */
		CHECK(!encoder_texts(e, ENCODER_PASSAGE, w.passage, w.n, got, NULL, &err));
		CHECK(!encoder_texts(plain, ENCODER_PASSAGE, w.passage, w.n, before, NULL, &err));
		for (int i = 0; i < w.n; i++)
			CHECK(cosine(before + i * DIMS, got + i * DIMS, DIMS) > 0.9999);
		encoder_close(e);
	}
	encoder_close(plain);
	free(want);
	free(w.all);
}

/* Read all pairs, and return the largest difference between a score and the expected one. */
static double answers_check(struct encoder *e, enum encoder_reader_for kind, const struct pairs_wanted *w,
                            const char *level)
{
	struct encoder_answer got;
	struct err err = { 0 };
	double worst = 0;

	CHECK(encoder_reads(e, kind) == READS_ANSWERS);
	for (int i = 0; i < w->n; i++) {
		const char *p = w->passage[i].p;

		CHECK_MSG(!encoder_read(e, kind, w->question[i], &w->passage[i], 1, &got, NULL, &err), "%s", err.msg);
		worst = fmax(worst, fabs(got.score - w->score[i]));
		CHECK_MSG(fabs(got.score - w->score[i]) < 5e-3, "level %s, pair %d: %.6f, not %.6f", level, i,
		          got.score, w->score[i]);
		CHECK(got.from <= got.to && got.to <= w->passage[i].n);
		while (got.from < got.to && p[got.from] == ' ')
			got.from++;
		while (got.to > got.from && p[got.to - 1] == ' ')
			got.to--;
		CHECK_MSG(got.to - got.from == w->answer[i].n && !memcmp(p + got.from, w->answer[i].p, w->answer[i].n),
		          "level %s, pair %d: \"%.*s\"", level, i, (int)(got.to - got.from), p + got.from);
	}
	return worst;
}

/* The reader for English has weights of its own (deberta-v2) and is loaded beside the adapter. */
TEST(answers_match_double_at_every_level)
{
	struct pairs_wanted w[READERS] = { [READER_ANY] = pairs_read("tests/vectors/models/bert.answers"),
		                           [READER_ENGLISH] =
		                                   pairs_read("tests/vectors/models/deberta-reader.answers") };
	double worst[READERS] = { 0 };

	for (int l = 0; l < CPU_LEVELS; l++) {
		struct err err = { 0 };
		struct encoder *e;

		setenv("WEIR_CPU", cpu_level_name[l], 1);
		e = reading_encoder();
		CHECK(encoder_reads(e, READER_ENGLISH) == READS_NOT);
		CHECK_MSG(!encoder_reader_open(e, READER_ENGLISH, test_file(DEBERTA), &err), "%s", err.msg);
		unsetenv("WEIR_CPU");
		for (int kind = READER_ANY; kind < READERS; kind++) {
			CHECK(w[kind].n == 6);
			worst[kind] = fmax(worst[kind], answers_check(e, (enum encoder_reader_for)kind, &w[kind],
			                                              cpu_level_name[l]));
		}
		encoder_close(e);
	}
	test_note("largest difference of the log odds: %.1e, of the reader for English %.1e", worst[READER_ANY],
	          worst[READER_ENGLISH]);
	free(w[READER_ANY].all);
	free(w[READER_ENGLISH].all);
}

/* Compare the scores that the reranker `file` gives the pairs with those of the file `scores`, at every level. */
static void scores_check(const char *file, const char *scores)
{
	struct pairs_wanted w = pairs_read("tests/vectors/models/bert.answers");
	char *all = test_read(test_file(scores), NULL);
	double worst = 0;

	for (int l = 0; l < CPU_LEVELS; l++) {
		struct encoder *e;
		struct err err = { 0 };
		char *end = all;

		setenv("WEIR_CPU", cpu_level_name[l], 1);
		e = open_or_fail(test_file(l % 2 ? JINA : NOMIC), 2);
		CHECK_MSG(!encoder_reader_open(e, READER_ANY, test_file(file), &err), "%s", err.msg);
		unsetenv("WEIR_CPU");
		CHECK(encoder_reads(e, READER_ANY) == READS_SCORES);
		for (int i = 0; i < w.n; i++) {
			double want = strtod(end, &end);
			struct encoder_answer got = { .to = 1 };

			CHECK_MSG(!encoder_read(e, READER_ANY, w.question[i], &w.passage[i], 1, &got, NULL, &err), "%s",
			          err.msg);
			CHECK_MSG(fabs(got.score - want) < 5e-3, "level %s, pair %d: %.6f, not %.6f", cpu_level_name[l],
			          i, got.score, want);
			CHECK(!got.from && !got.to);
			worst = fmax(worst, fabs(got.score - want));
		}
		encoder_close(e);
	}
	test_note("largest difference of the scores: %.1e", worst);
	free(all);
	free(w.all);
}

/* A reranker reads with its own weights and tokenizer, for an encoder of any family. */
TEST(scores_of_a_reranker_match_double_at_every_level)
{
	scores_check(RANKER, "tests/vectors/models/bert-reranker.scores");
}

/* A reranker with a WordPiece tokenizer reads [CLS] question [SEP] passage [SEP], the passage with token type 1. */
TEST(scores_of_a_wordpiece_reranker_match_double_at_every_level)
{
	scores_check(PAIRS, "tests/vectors/models/bert-pairs-reranker.scores");
}

/* The answer in a passage does not depend on the other passages. Loading a reader does not change the encoder's
 * vectors. */
TEST(a_reader_changes_only_what_it_reads)
{
	enum { MANY = 60 };
	struct pairs_wanted w = pairs_read("tests/vectors/models/bert.answers");
	struct encoder_string many[MANY];
	struct encoder_answer all[MANY], one;
	struct encoder *e = reading_encoder();
	float before[DIMS], after[DIMS];
	struct err err = { 0 };
	atomic_int stop = 1;
	char *path = file_with_tokens("e5", 60);
	struct encoder *plain = open_or_fail(path, 2);

	unlink(path);
	free(path);
	for (int i = 0; i < MANY; i++)
		many[i] = w.passage[i % w.n];
	CHECK(!encoder_read(e, READER_ANY, w.question[0], many, MANY, all, NULL, &err));
	for (int i = 0; i < MANY; i++) {
		CHECK(!encoder_read(e, READER_ANY, w.question[0], &many[i], 1, &one, NULL, &err));
		CHECK(!memcmp(&one, &all[i], sizeof one));
	}
	CHECK(!encoder_texts(plain, ENCODER_PASSAGE, many, 1, before, NULL, &err));
	CHECK(!encoder_texts(e, ENCODER_PASSAGE, many, 1, after, NULL, &err));
	CHECK(!memcmp(before, after, sizeof before));
	CHECK(!encoder_reads(plain, READER_ANY));
	CHECK(!encoder_read(e, READER_ANY, (struct encoder_string){ "", 0 }, &(struct encoder_string){ "", 0 }, 1, &one,
	                    NULL, &err));
	CHECK(one.from == 0 && one.to == 0);
	CHECK(!encoder_read(e, READER_ANY, w.question[0], NULL, 0, NULL, NULL, &err));
	CHECK(encoder_read(e, READER_ANY, w.question[0], many, MANY, all, &stop, &err) < 0);
	CHECK_INT(err.code, ERR_CANCELLED);
	encoder_close(plain);
	encoder_close(e);
	free(w.all);
}

/* A change of 32 bits in a file, `at` bytes after the text, and what the error says. */
struct damage {
	const char *text;
	size_t at;
	uint32_t value;
	const char *why;
};

/* Check that the encoder refuses the file as a reader after this change. */
static void refused_check(struct encoder *e, enum encoder_reader_for kind, const char *file, const struct damage *d)
{
	char *changed = changed_file(file, d->text, d->at, d->value);
	struct err err = { 0 };

	CHECK_MSG(encoder_reader_open(e, kind, changed, &err) < 0, "%s", d->text);
	CHECK_MSG(strstr(err.msg, d->why) != NULL, "\"%s\" does not say \"%s\"", err.msg, d->why);
	CHECK(encoder_reads(e, kind) == READS_NOT);
	unlink(changed);
	free(changed);
}

TEST(refuses_rerankers_that_do_not_fit)
{
	static const struct damage list[] = {
		{ "cls.we", 0, 0x7a7a7a7a, "tensor 'cls.weight' is missing" },
		{ "cls.output.we", 0, 0x7a7a7a7a, "is not part of a bert model" },
		{ "bert.context_length", 4, 31, "tensor 'position_embd.weight' has the shape" },
		{ "cls.output.bias", 4, 2, "tensor 'cls.output.bias' has the shape 2 x 1, and must have 1 x 1" },
		{ "tokenizer.ggml.m", 0, 0x7a7a7a7a, "or it has no tokenizer" },
	}, deberta[] = {
		{ "relative_buckets", 4, 3, "'deberta-v2.attention.relative_buckets' is" },
		{ "relative_buckets", 4, 10, "tensor 'relative_embd.weight' has the shape" },
		{ "relative_positions", 4, 8, "'deberta-v2.attention.relative_positions' is" },
		{ "relative_posit", 0, 0x7a7a7a7a, "'deberta-v2.attention.relative_positions' is missing" },
		{ "relative_embd.we", 0, 0x7a7a7a7a, "tensor 'relative_embd.weight' is missing" },
		{ "reader.weight", 4, 31, "" },
		{ "blk.1.attn_k.", 0, 0x7a7a7a7a, "tensor 'blk.1.attn_k.weight' is missing" },
	};
	struct encoder *e = open_or_fail(test_file(BERT), 1), *none = NULL;
	struct err err = { 0 };

	for (size_t i = 0; i < LEN(list); i++)
		refused_check(e, READER_ANY, RANKER, &list[i]);
	for (size_t i = 0; i < LEN(deberta); i++)
		refused_check(e, READER_ENGLISH, DEBERTA, &deberta[i]);
	/* An adapter is for questions in every language. */
	CHECK(encoder_reader_open(e, READER_ENGLISH, test_file(READER), &err) < 0);
	CHECK(encoder_reader_open(e, READER_ANY, test_file(NOMIC), &err) < 0);
	CHECK_MSG(strstr(err.msg, "it is an encoder, and a reader is an adapter or a reranker") != NULL, "%s", err.msg);
	CHECK(encoder_open(&none, test_file(RANKER), "cpu", 1, &err) < 0);
	CHECK_MSG(strstr(err.msg, "it is a reranker: beside an encoder NAME.gguf") != NULL, "%s", err.msg);
	CHECK(!encoder_reader_open(e, READER_ANY, test_file(RANKER), &err));
	encoder_close(e);
}

TEST(refuses_readers_that_do_not_fit)
{
	static const struct damage list[] = {
		{ "general.architecture", 12, 0x41424344, "it is no reader" },
		{ "reader.bias", 4, 0x7f800000, "'reader.bias' is out of range" },
		{ "blk.1.ffn_up.weight.lora_a", 4, 33, "" },
		{ "reader.weight", 4, 33, "" },
		{ "blk.1.attn_q.weight.l", 0, 0x7a7a7a7a, "do not fit each other" },
		{ "blk.", 0, 0x7a7a7a7a, "" },
	};
	char *path = file_with_tokens("e5", 60);
	struct encoder *e = open_or_fail(path, 1), *bare = open_or_fail(test_file(BERT), 1);
	struct err err = { 0 };

	for (size_t i = 0; i < LEN(list); i++)
		refused_check(e, READER_ANY, READER, &list[i]);
	CHECK(encoder_reader_open(bare, READER_ANY, test_file(READER), &err) < 0);
	CHECK(strstr(err.msg, "or it has no tokenizer") != NULL);
	CHECK(!encoder_reader_open(e, READER_ANY, test_file(READER), &err));
	encoder_close(bare);
	encoder_close(e);
	unlink(path);
	free(path);
}

/* The type of a tensor is changed to each other type, so that its bytes have another meaning or length. The file must
 * be loaded or refused without memory errors. */
TEST(weights_of_any_type_are_loaded_or_refused)
{
	static const struct {
		const char *file, *tensor;
		size_t at; /* number of bytes from the end of the tensor's name to its type */
	} list[] = {
		{ BERT, "token_types.weight", 20 },
		{ BERT, "token_embd.weight", 20 },
		{ BERT, "blk.0.attn_q.weight", 20 },
		{ BERT, "blk.0.attn_q.bias", 12 },
		{ READER, "blk.0.attn_q.weight.lora_a", 20 },
		{ READER, "blk.0.attn_q.weight.lora_b", 20 },
		{ RANKER, "cls.weight", 20 },
		{ DEBERTA, "relative_embd.weight", 20 },
		{ DEBERTA, "reader.weight", 20 },
	};
	enum { TYPES_GGML = 48 };
	int loaded = 0, refused = 0;

	for (size_t i = 0; i < LEN(list) * TYPES_GGML; i++) {
		char *path = changed_file(list[i / TYPES_GGML].file, list[i / TYPES_GGML].tensor,
		                          list[i / TYPES_GGML].at, (uint32_t)(i % TYPES_GGML)),
		     *tokens = file_with_tokens("e5", 60);
		int reads = strcmp(list[i / TYPES_GGML].file, BERT) != 0;
		struct encoder *e = NULL;
		struct encoder_answer answer;
		struct err err = { 0 };
		int32_t id[3] = { 0, 1, 2 };
		float out[DIMS];

		if (encoder_open(&e, reads ? tokens : path, "cpu", 1, &err) ||
		    (reads && encoder_reader_open(e, READER_ANY, path, &err))) {
			CHECK(err.msg[0]);
			refused++;
		} else {
			CHECK(!encoder_embed(e, &(struct encoder_text){ .id = id, .n = 3 }, 1, out, NULL, &err));
			if (reads)
				CHECK(!encoder_read(e, READER_ANY, (struct encoder_string){ "ab", 2 },
				                    &(struct encoder_string){ "b a", 3 }, 1, &answer, NULL, &err));
			loaded++;
		}
		encoder_close(e);
		unlink(path);
		unlink(tokens);
		free(path);
		free(tokens);
	}
	printf("%d loaded, %d refused\n", loaded, refused);
	CHECK(loaded >= (int)LEN(list) && refused > 200);
}
