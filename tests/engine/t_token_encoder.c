/* tests/engine/t_token_encoder.c - compares the tokenizers of encoders, Unigram and WordPiece, with reference vectors
 * (vectors/make_encoder_tokens.py), and tests hostile charsmaps and giant words. */
#include "engine/gguf/gguf.h"
#include "engine/token/token.h"
#include "engine/token/token_private.h"
#include "tests/lib/json.h"
#include "tests/lib/mkgguf.h"
#include "tests/lib/test.h"

#include <math.h>
#include <stdlib.h>

static struct vocab *load(struct mk *m, struct err *e)
{
	struct str file = { 0 };
	struct gguf *g = NULL;
	struct vocab *v = NULL;

	mk_finish(m, &file);
	CHECK_MSG(!gguf_parse(&g, "made", file.p, file.n, e), "%s", e->msg);
	if (vocab_load(&v, g, NULL, e))
		CHECK(!v);
	gguf_close(g);
	str_free(&file);
	return v;
}

/* ---- reference vectors ---- */

static const char *const four[] = { "unigram", "unigram_bytes", "uncased", "cased" };

static struct jv vectors(void)
{
	static char *text;
	size_t n;

	if (!text)
		text = test_read(test_file("tests/vectors/tokenizers/encoder.json"), &n);
	return jv_parse(text, strlen(text));
}

static void put_charsmap(struct mk *m, const uint8_t *p, size_t n)
{
	mk_array(m, "tokenizer.ggml.precompiled_charsmap", GGUF_U8, n);
	str_add(&m->kv, (const char *)p, n);
}

/* Write the vocabulary `name` of the vectors; its charsmap too if `map`. */
static void write_vocab(struct mk *m, const char *name, int map)
{
	struct jv all = jv_get(vectors(), name), s;
	size_t n = jv_len(jv_get(all, "tokens")), len;
	char *model = jv_str(jv_get(all, "model"), NULL), *hex = jv_str(jv_get(all, "charsmap"), &len);

	mk_string(m, "general.architecture", "bert");
	mk_string(m, "tokenizer.ggml.model", model);
	mk_array(m, "tokenizer.ggml.tokens", GGUF_STRING, n);
	for (s = (struct jv){ 0 }; jv_next(jv_get(all, "tokens"), &s, NULL);) {
		char *p = jv_str(s, NULL);

		put_string(&m->kv, p);
		free(p);
	}
	mk_array(m, "tokenizer.ggml.token_type", GGUF_I32, n);
	for (s = (struct jv){ 0 }; jv_next(jv_get(all, "types"), &s, NULL);)
		put_u32(&m->kv, (uint64_t)jv_num(s));
	if (!strcmp(model, "t5")) {
		mk_array(m, "tokenizer.ggml.scores", GGUF_F32, n);
		for (s = (struct jv){ 0 }; jv_next(jv_get(all, "scores"), &s, NULL);)
			put_f32(&m->kv, (float)jv_num(s));
	}
	if (map && hex && len) {
		uint8_t *bytes = xmalloc(len / 2);

		for (size_t i = 0; i < len / 2; i++)
			bytes[i] = (uint8_t)strtoul((char[]){ hex[2 * i], hex[2 * i + 1], 0 }, NULL, 16);
		put_charsmap(m, bytes, len / 2);
		free(bytes);
	}
	free(model);
	free(hex);
}

static struct vocab *open_vocab(const char *name)
{
	struct mk m = { 0 };
	struct err e = { 0 };
	struct vocab *v;

	write_vocab(&m, name, 1);
	v = load(&m, &e);
	CHECK_MSG(v, "%s: %s", name, e.msg);
	return v;
}

static struct tokens encode(const struct vocab *v, const char *s, size_t n)
{
	struct tokens t = { 0 };
	struct err e = { 0 };

	CHECK_MSG(!vocab_encode(v, s, n, NULL, 0, &t, &e), "encode: %s", e.msg);
	return t;
}

/* Check that the text becomes the pieces, which are written with a '|' after each. */
static void check_pieces(const struct vocab *v, const char *text, const char *pieces)
{
	struct tokens t = encode(v, text, strlen(text));
	struct str got = { 0 };

	for (size_t i = 0; i < t.n; i++) {
		char buf[300];

		str_add(&got, buf, vocab_piece(v, t.id[i], 1, buf, sizeof buf));
		str_adds(&got, "|");
	}
	CHECK_STR(str_text(&got), pieces);
	str_free(&got);
	tokens_free(&t);
}

TEST(ids_of_the_vectors)
{
	for (size_t k = 0; k < LEN(four); k++) {
		struct vocab *v = open_vocab(four[k]);
		int done = 0;

		for (struct jv c = { 0 }; v && jv_next(jv_get(jv_get(vectors(), four[k]), "cases"), &c, NULL); done++) {
			struct tokens want = { 0 }, got, again = { 0 };
			struct token_ends ends = { 0 };
			struct err e = { 0 };
			size_t n;
			char *s = jv_str(jv_get(c, "text"), &n);

			for (struct jv id = { 0 }; jv_next(jv_get(c, "ids"), &id, NULL);)
				tokens_add(&want, (int32_t)jv_num(id));
			got = encode(v, s, n);
			CHECK_MSG(got.n == want.n && (!got.n || !memcmp(got.id, want.id, got.n * sizeof *got.id)),
			          "%s: %s", four[k], s);
			CHECK(!vocab_encode_ends(v, s, n, NULL, 0, 0, &again, &ends, &e));
			CHECK(again.n == got.n && ends.n == got.n);
			for (size_t i = 0; i < again.n && i < got.n; i++)
				CHECK(again.id[i] == got.id[i] && ends.at[i] <= n &&
				      (!i || ends.at[i] >= ends.at[i - 1]));
			free(ends.at);
			free(s);
			tokens_free(&want);
			tokens_free(&got);
			tokens_free(&again);
		}
		CHECK(done >= 90);
		test_note("%s: %d strings", four[k], done);
		vocab_free(v);
	}
}

TEST(ends_in_the_text)
{
	static const char text[] = "  running \xef\xac\x81n  ca\x66\x65\xcc\x81!";
	struct vocab *v = open_vocab("unigram");
	struct tokens t = { 0 };
	struct token_ends ends = { 0 };
	struct err e = { 0 };
	int words = 0;

	CHECK(!vocab_encode_ends(v, text, sizeof text - 1, NULL, 0, 0, &t, &ends, &e));
	for (size_t i = 0; i < t.n; i++) {
		char buf[64];
		size_t n = vocab_piece(v, t.id[i], 0, buf, sizeof buf);

		/* At a space mark, the end of the previous token must be the end of a word. */
		if (n && buf[0] == ' ' && i) {
			size_t at = ends.at[i - 1];

			CHECK_MSG(at == 9 || at == 14, "a word ends at %zu", at);
			words++;
		}
	}
	CHECK_INT(words, 2);
	CHECK(t.n && ends.at[t.n - 1] == sizeof text - 1);
	free(ends.at);
	tokens_free(&t);
	vocab_free(v);
}

/* ---- made vocabularies ---- */

#define SP "\xe2\x96\x81"

struct made {
	const char *model;
	const char *tok[12];
	int type[12];
	float score[12];
	int no_scores;
};

static void made_write(struct mk *m, struct made d)
{
	uint64_t n = 0;

	while (n < LEN(d.tok) && d.tok[n])
		n++;
	mk_string(m, "general.architecture", "bert");
	mk_string(m, "tokenizer.ggml.model", d.model);
	mk_array(m, "tokenizer.ggml.tokens", GGUF_STRING, n);
	for (uint64_t i = 0; i < n; i++)
		put_string(&m->kv, d.tok[i]);
	mk_array(m, "tokenizer.ggml.token_type", GGUF_I32, n);
	for (uint64_t i = 0; i < n; i++)
		put_u32(&m->kv, (uint64_t)(d.type[i] ? d.type[i] : TOKEN_NORMAL));
	if (d.no_scores)
		return;
	mk_array(m, "tokenizer.ggml.scores", GGUF_F32, n);
	for (uint64_t i = 0; i < n; i++)
		put_f32(&m->kv, d.score[i]);
}

static const struct made small_unigram = {
	.model = "t5",
	.tok = { "<s>", "</s>", "<unk>", SP, "a", "b", SP "a", "ab", "<x>" },
	.type = { 3, 3, 2, 1, 1, 1, 1, 1, 4 },
	.score = { 0, 0, 0, -3, -4, -4, -6, -7.5f, 0 },
};
static const struct made small_wordpiece = {
	.model = "bert",
	.tok = { "[PAD]", "[UNK]", "[CLS]", "[SEP]", SP "un", "able", "ab", SP "!", "le", SP "e", SP "<x>" },
	.type = { 3, 3, 3, 3, 1, 1, 1, 1, 1, 1, 4 },
	.no_scores = 1,
};

TEST(best_cut)
{
	struct mk m = { 0 };
	struct err e = { 0 };
	struct vocab *v;

	made_write(&m, small_unigram);
	v = load(&m, &e);
	CHECK(v && vocab_info(v)->encoder && vocab_info(v)->add_eos && !vocab_info(v)->add_bos);
	check_pieces(v, "a ab", " a| a|b|");     /* score -6 - 4; the alternative has -3 - 7.5, which is lower */
	check_pieces(v, "bab", " |b|ab|");       /* score -7.5; the alternative has -4 - 4, which is lower */
	check_pieces(v, "  b  b  ", " |b| |b|"); /* spaces at both ends and double ones are dropped */
	check_pieces(v, "", "");
	check_pieces(v, " \xe2\x96\x81 ", ""); /* the space mark itself is a space */
	check_pieces(v, "xyzb", " |<unk>|b|"); /* consecutive unknown characters become one token */
	check_pieces(v,
	             "\xff\xfe"
	             "b",
	             " |<unk>|b|");
	check_pieces(v, "<s>a<x>b", " |<unk>|a|<x>|b|"); /* control tokens are text, user-defined tokens are not */
	vocab_free(v);

	m = (struct mk){ 0 };
	made_write(&m, small_unigram);
	mk_bool(&m, "tokenizer.ggml.remove_extra_whitespaces", 0);
	mk_bool(&m, "tokenizer.ggml.add_space_prefix", 0);
	mk_bool(&m, "tokenizer.ggml.add_bos_token", 1);
	v = load(&m, &e);
	CHECK(vocab_info(v)->add_bos);
	check_pieces(v, "b  b ", "b| | |b| |");
	vocab_free(v);
}

TEST(longest_match)
{
	struct mk m = { 0 };
	struct err e = { 0 };
	struct vocab *v;

	made_write(&m, small_wordpiece);
	v = load(&m, &e);
	CHECK(v && vocab_info(v)->encoder && vocab_info(v)->add_bos && vocab_info(v)->add_eos);
	CHECK_INT(vocab_info(v)->bos, 2);
	CHECK_INT(vocab_info(v)->eos, 3);
	CHECK_INT(vocab_info(v)->unk, 1);
	check_pieces(v, "UNABLE!unab", " un|able| !| un|ab|");
	/* no token begins a word with "able"; capital E with acute accent */
	check_pieces(v, "able unx \xc3\x89", "[UNK]|[UNK]| e|");
	check_pieces(v, "u\xffn\x01!", " un| !|"); /* invalid bytes and controls are dropped */
	check_pieces(v, "un<x>e", " un| <x>| e|");
	vocab_free(v);

	/* A key of the file overrides the rule derived from the vocabulary's letters. */
	m = (struct mk){ 0 };
	made_write(&m, small_wordpiece);
	mk_bool(&m, "tokenizer.ggml.normalizer.lowercase", 0);
	v = load(&m, &e);
	check_pieces(v, "UN un", "[UNK]| un|");
	vocab_free(v);
	m = (struct mk){ 0 };
	made_write(&m, small_wordpiece);
	mk_bool(&m, "tokenizer.ggml.normalizer.strip_accents", 0);
	v = load(&m, &e);
	check_pieces(v, "UN \xc3\xa9", " un|[UNK]|");
	vocab_free(v);

	/* Without an unknown token, encoding fails with an error. */
	m = (struct mk){ 0 };
	made_write(&m, (struct made){ .model = "bert", .tok = { SP "un" }, .no_scores = 1 });
	v = load(&m, &e);
	for (int i = 0; v && i < 1; i++) {
		struct tokens t = { 0 };

		CHECK_INT(vocab_encode(v, "un x", 4, NULL, 0, &t, &e), -1);
		CHECK_MSG(strstr(e.msg, "no unknown token"), "%s", e.msg);
		CHECK_INT(t.n, 0);
		tokens_free(&t);
	}
	vocab_free(v);
}

/* ---- bad files ---- */

static void refuse(struct mk *m, const char *words)
{
	struct err e = { 0 };
	struct vocab *v = load(m, &e);

	CHECK_MSG(!v, "accepted; expected: %s", words);
	CHECK_INT(e.code, ERR_MODEL);
	CHECK_MSG(strstr(e.msg, words) && !strncmp(e.msg, "file 'made': ", 13), "'%s' does not say '%s'", e.msg, words);
	vocab_free(v);
}

TEST(refuses_bad_scores)
{
	struct made d = small_unigram;
	struct mk m = { 0 };
	char *big = xcalloc(1, PIECE_BYTES_MAX + 2);

	d.no_scores = 1;
	made_write(&m, d);
	refuse(&m, "there is no 'tokenizer.ggml.scores', which tokenizer model 't5' needs");
	for (int i = 0; i < 3; i++) {
		d = small_unigram;
		d.score[5] = i == 0 ? NAN : i == 1 ? INFINITY : -INFINITY;
		m = (struct mk){ 0 };
		made_write(&m, d);
		refuse(&m, i ? "the score of token 5 is infinite" : "the score of token 5 is not a number");
	}
	/* The largest scores must not overflow. */
	d = small_unigram;
	for (int i = 0; i < 8; i++)
		d.score[i] = i % 2 ? -3e38f : 3e38f;
	m = (struct mk){ 0 };
	made_write(&m, d);
	struct err e = { 0 };
	struct vocab *v = load(&m, &e);
	struct tokens t = encode(v, "abab ab x", 9);
	CHECK(t.n);
	tokens_free(&t);
	vocab_free(v);

	memset(big, 'x', PIECE_BYTES_MAX + 1);
	d = small_wordpiece;
	d.tok[5] = big;
	m = (struct mk){ 0 };
	made_write(&m, d);
	refuse(&m, "token 5 has 257 bytes, and tokenizer model 'bert' allows 256");
	free(big);
}

struct map {
	uint32_t unit[1024];
	uint32_t n;
	const char *text;
	uint32_t n_text;
};

enum { END = 1 << 8 };

/* Unit i is reached by byte b, and its children begin at `base`. */
static void set_unit(struct map *x, uint32_t i, unsigned b, uint32_t base, uint32_t end)
{
	x->unit[i] = (base ^ i) << 10 | b | end;
}

static void add_map(struct mk *m, const struct map *x)
{
	struct str s = { 0 };

	put_u32(&s, 4 * x->n);
	for (uint32_t i = 0; i < x->n; i++)
		put_u32(&s, x->unit[i]);
	str_add(&s, x->text, x->n_text);
	put_charsmap(m, (const uint8_t *)s.p, s.n);
	str_free(&s);
}

static void refuse_map(const struct map *x, const char *words)
{
	struct mk m = { 0 };

	made_write(&m, small_unigram);
	add_map(&m, x);
	refuse(&m, words);
}

TEST(refuses_bad_charsmaps)
{
	struct map good = { .n = 512, .text = "b\0", .n_text = 2 }, x;
	struct mk m = { 0 };
	struct err e = { 0 };
	struct vocab *v;
	char *big;

	set_unit(&good, 0, 0, 256, 0);
	set_unit(&good, 256 ^ 'x', 'x', 300, END);
	good.unit[300] = 1u << 31;
	made_write(&m, small_unigram);
	add_map(&m, &good);
	v = load(&m, &e);
	CHECK_MSG(v, "%s", e.msg);
	check_pieces(v, "axb", " a|b|b|");
	vocab_free(v);

	for (size_t n = 0; n < 12; n++) { /* charsmaps of 0 to 11 bytes, which are zero except the first */
		m = (struct mk){ 0 };
		made_write(&m, small_unigram);
		put_charsmap(&m, (const uint8_t[12]){ (uint8_t)n }, n);
		if (n && (n < 9 || n % 4))
			refuse(&m, "'tokenizer.ggml.precompiled_charsmap': unit 0 of");
		else
			vocab_free(load(&m, &e));
	}
	x = good, x.n_text = 1;
	refuse_map(&x, "has replacements that do not end in a zero byte");
	x = good, x.n_text = 0;
	refuse_map(&x, "has replacements that do not end in a zero byte");
	x = good, x.unit[300] = 1u << 31 | 2;
	refuse_map(&x, "has a replacement outside of the table");
	x = good, x.unit[300] = UINT32_MAX;
	refuse_map(&x, "has a replacement outside of the table");
	x = good, set_unit(&x, 256 ^ 'x', 'x', 512, END);
	refuse_map(&x, "points outside of the trie");
	x = good, set_unit(&x, 0, 0, 1 << 20, 0);
	refuse_map(&x, "unit 0 of 2054 bytes points outside of the trie");
	x = good, x.unit[0] |= 1u << 9; /* 256 << 8 */
	refuse_map(&x, "points outside of the trie");
	x = good, set_unit(&x, 256 ^ 'x', 'x', 256, END);
	refuse_map(&x, "is part of a cycle");
	/* unit x leads to y, and y leads back to x */
	x = good, set_unit(&x, 256 ^ 'x', 'x', 0, 0), set_unit(&x, 'y', 'y', 256, 0);
	refuse_map(&x, "is part of a cycle");

	big = xcalloc(1, 300);
	memset(big, 'b', 257);
	x = good, x.text = big, x.n_text = 258;
	refuse_map(&x, "has a replacement of over 256 bytes");
	/* Chains of k units, each reached by byte 1. */
	for (uint32_t k = 256; k <= 258; k++) {
		x = (struct map){ .n = 1024, .text = "b\0", .n_text = 2 };
		set_unit(&x, 0, 0, 1 ^ 1, 0);
		for (uint32_t i = 1; i <= k && i < 1024; i++) {
			/* The base of unit 2i - 1 is 2i, so that its child by byte 1 is unit 2i + 1. */
			uint32_t at = 2 * i - 1;

			set_unit(&x, at, 1, i < k ? 2 * i : 900, i < k ? 0 : END);
		}
		x.unit[900] = 1u << 31;
		m = (struct mk){ 0 };
		made_write(&m, small_unigram);
		add_map(&m, &x);
		if (k > 256) {
			refuse(&m, "has a source of over 256 bytes");
			continue;
		}
		v = load(&m, &e);
		CHECK_MSG(v, "%s", e.msg);
		vocab_free(v);
	}
	free(big);
	m = (struct mk){ 0 };
	made_write(&m, small_unigram);
	mk_string(&m, "tokenizer.ggml.precompiled_charsmap", "x");
	refuse(&m, "tokenizer.ggml.precompiled_charsmap");
}

/* A randomly damaged charsmap is refused, or loads and does no harm. */
TEST(damaged_charsmaps)
{
	size_t len;
	char *hex = jv_str(jv_get(jv_get(vectors(), "unigram"), "charsmap"), &len);
	uint8_t *bytes = xmalloc(len / 2), *bad = xmalloc(len / 2);
	int n_loaded = 0;

	for (size_t i = 0; i < len / 2; i++)
		bytes[i] = (uint8_t)strtoul((char[]){ hex[2 * i], hex[2 * i + 1], 0 }, NULL, 16);
	for (int k = 0; k < 1000; k++) {
		struct charsmap map = { 0 };
		struct err e = { 0 };
		const char *wrong = NULL, *to;
		char text[300];
		uint32_t at;
		size_t n = k % 3 ? len / 2 : test_rand() % (len / 2);

		memcpy(bad, bytes, len / 2);
		for (int i = 0; i <= k % 5; i++)
			bad[test_rand() % (len / 2)] = (uint8_t)test_rand();
		for (size_t i = 0; i < sizeof text; i++)
			text[i] = (char)test_rand();
		if (charsmap_load(&map, bad, n, &wrong, &at, &e)) {
			CHECK(wrong && *wrong);
		} else {
			n_loaded++;
			for (size_t i = 0; i < sizeof text; i++) {
				size_t used = charsmap_match(&map, text + i, sizeof text - i, &to);

				CHECK(used <= sizeof text - i && (!used || strlen(to) <= 256));
			}
		}
		free(map.unit);
		free(map.text);
	}
	test_note("%d of 1000 loaded", n_loaded);
	CHECK(n_loaded > 50 && n_loaded < 950);
	free(hex);
	free(bytes);
	free(bad);
}

/* ---- time ---- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SLOWER 8.0
#else
#define SLOWER 1.0
#endif

static double seconds(const struct vocab *v, const char *unit, size_t most)
{
	size_t len = strlen(unit), n = most / len * len;
	char *s = xmalloc(n);
	struct tokens t;
	double start;

	for (size_t i = 0; i < n; i++)
		s[i] = unit[i % len];
	start = cpu_seconds();
	t = encode(v, s, n);
	start = cpu_seconds() - start;
	tokens_free(&t);
	free(s);
	return start;
}

TEST(giant_words)
{
	static const char *const unit[] = {
		"a",        " ",   "\n", "the ",      "\xe4\xbd\xa0", "\xf0\x9f\x98\x80", "!",
		"\xff",     "ing", "A",  "e\xcc\x81", "\xef\xb7\xba", "\xea\xb0\x80",     SP,
		"\xcc\x81", "1"
	};
	size_t most = getenv("WEIR_SOAK") ? 1 << 20 : 1 << 17;
	double share = (double)most / (1 << 20), worst = 0;

	for (size_t k = 0; k < LEN(four); k++) {
		struct vocab *v = open_vocab(four[k]);

		for (size_t u = 0; u < LEN(unit); u++) {
			double took = seconds(v, unit[u], most);

			worst = MAX(worst, took);
			CHECK_MSG(took < 1.5 * share * SLOWER, "%s: %zu bytes of unit %zu took %.2f s", four[k], most,
			          u, took);
		}
		vocab_free(v);
	}
	test_note("slowest: %zu bytes in %.3f s", most, worst);
}

/* The longest allowed tokens: 256 bytes are compared at every place of the text. */
TEST(giant_tokens)
{
	char *text[2] = { xcalloc(1, PIECE_BYTES_MAX + 1), xcalloc(1, PIECE_BYTES_MAX + 1) };
	struct mk m = { 0 };
	struct err e = { 0 };
	struct vocab *v;
	double took;

	memset(text[0], 'a', PIECE_BYTES_MAX);
	memset(text[1], 'a', PIECE_BYTES_MAX);
	text[1][PIECE_BYTES_MAX - 1] = 'b';
	made_write(&m, (struct made){ .model = "t5",
	                              .tok = { "<unk>", text[0], text[1], "a", "aa" },
	                              .type = { 2 },
	                              .score = { 0, -1, -1, -1, -1 } });
	v = load(&m, &e);
	CHECK_MSG(v, "%s", e.msg);
	took = seconds(v, "a", 1 << 18);
	test_note("256 KiB of one letter in %.2f s", took);
	CHECK_MSG(took < 2 * SLOWER, "%.2f s", took);
	vocab_free(v);
	free(text[0]);
	free(text[1]);
}
