/* tests/lib/recite.h - a tiny llama that answers in whole sentences, for tests whose screens people read.
 *
 * Every token of an answer is in the vocabulary once, and the output matrix says which token follows it, so the
 * model recites an answer to its end. The last byte of the prompt, a question mark or another one, selects the
 * answer. Attention is computed from random keys and queries, but its output is multiplied by zero. So the KV
 * cache, its policies and its views have real figures, and no policy changes the answer. */
#ifndef WEIR_TEST_RECITE_H
#define WEIR_TEST_RECITE_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/lib/mkgguf.h"

enum {
	RECITE_WIDTH = 128,
	RECITE_FF = 32,
	RECITE_LAYERS = 4,
	RECITE_HEADS = 4,
	RECITE_KV_HEADS = 2,
	RECITE_HEAD = 32,
	RECITE_TRAINED = 8192,
	RECITE_TOKENS = 512,
	RECITE_BYTES = 3,
	RECITE_WORDS = RECITE_BYTES + 256,
	RECITE_END = 2,
};

/* The two answers. Blanks separate tokens; a word that occurs again is joined with the next one, because each token
 * must be unique. */
static const char *const recite_text[2] = {
	"A weir is a low wall across a river. It raises the water a little and lets the rest flow over its crest.\n\n"
	"People build weirs\n\n"
	"- to turn a mill,\n- to measure how much water comes,\n- to keep boats afloat in summer.\n\n"
	"**Fish** need a ladder beside it: they cannot jump that high.",

	"Water that reaches the weir first fills the pool behind it. Once this pool is full, each new bucket pushes an older one over the edge. "
	"What is evicted is lost for good; what is kept is what one can still draw from.\n\n"
	"A second pool, further up, may keep one bucket in four. It holds less, yet looks back much longer.",
};

/* The tokens, in the order of the vocabulary: special tokens, bytes, words. */
struct recite {
	char text[RECITE_TOKENS][160];
	int next[RECITE_TOKENS], n, first[2];
};

static inline int recite_known(const struct recite *r, const char *text)
{
	for (int i = RECITE_WORDS; i < r->n; i++)
		if (!strcmp(r->text[i], text))
			return 1;
	return 0;
}

/* Add the words of an answer as SentencePiece writes them, with U+2581 for a blank. */
static inline void recite_words(struct recite *r, int which)
{
	const char *s = recite_text[which];
	int before = 0;

	r->first[which] = r->n;
	while (*s) {
		char *out = r->text[r->n];
		size_t n = 0;

		do {
			size_t len = strcspn(s, " ");
			n += (size_t)snprintf(out + n, sizeof r->text[0] - n, "%s%.*s",
			                      s == recite_text[which] ? "" : "\xe2\x96\x81", (int)len, s);
			s += len + (s[len] == ' ');
		} while (*s && recite_known(r, out));
		if (before)
			r->next[before] = r->n;
		before = r->n++;
	}
	r->next[before] = RECITE_END;
}

static inline void recite_plan(struct recite *r)
{
	memset(r, 0, sizeof *r);
	r->n = RECITE_WORDS;
	recite_words(r, 0);
	recite_words(r, 1);
	for (int i = 0; i < RECITE_WORDS; i++)
		r->next[i] = r->first[i - RECITE_BYTES != '?'];
}

/* Return -1 or 1, a pseudo-random function of the two numbers. */
static inline float recite_sign(int code, int i)
{
	uint64_t x = (uint64_t)code * 0x9e3779b97f4a7c15u + (uint64_t)i * 0xd1342543de82ef95u;

	x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 32) * 0x94d049bb133111ebu;
	return x >> 40 & 1 ? 1 : -1;
}

/* Add the embedding and output matrices. The embedding of a token is close to the output row of the token that comes
 * next in the answer. */
static inline void recite_matrices(struct mk *m, const struct recite *r)
{
	size_t n = (size_t)r->n * RECITE_WIDTH;
	float *embd = xcalloc(n, sizeof *embd), *out = xcalloc(n, sizeof *out);

	for (int t = 0; t < r->n; t++)
		for (int i = 0; i < RECITE_WIDTH; i++) {
			embd[t * RECITE_WIDTH + i] = recite_sign(r->next[t], i) + 0.2f * recite_sign(1000 + t, i);
			out[t * RECITE_WIDTH + i] = recite_sign(t, i);
		}
	mk_tensor(m, "token_embd.weight", 2, (int64_t[]){ RECITE_WIDTH, r->n }, 0, embd, n * sizeof *embd);
	mk_tensor(m, "output.weight", 2, (int64_t[]){ RECITE_WIDTH, r->n }, 0, out, n * sizeof *out);
	free(embd);
	free(out);
}

static inline void recite_tensor(struct mk *m, int layer, const char *name, int rows, int cols, float scale)
{
	size_t n = (size_t)rows * (size_t)cols;
	float *v = xcalloc(n, sizeof *v);
	char full[64];

	snprintf(full, sizeof full, layer < 0 ? "%.0d%s" : "blk.%d.%s", MAX(0, layer), name);
	for (size_t i = 0; i < n; i++)
		v[i] = strstr(name, "norm") ? 1 : scale * recite_sign(layer * 64 + rows + name[5], (int)i);
	mk_tensor(m, full, rows == 1 ? 1 : 2, (int64_t[]){ cols, rows }, 0, v, n * sizeof *v);
	free(v);
}

static inline void recite_vocab(struct mk *m, const struct recite *r)
{
	mk_string(m, "tokenizer.ggml.model", "llama");
	mk_array(m, "tokenizer.ggml.tokens", GGUF_STRING, (uint64_t)r->n);
	for (int i = 0; i < r->n; i++) {
		char byte[16];

		snprintf(byte, sizeof byte, "<0x%02X>", (unsigned)(i - RECITE_BYTES) & 255);
		put_string(&m->kv, i == 0             ? "<unk>"
		                   : i == 1           ? "<s>"
		                   : i == RECITE_END  ? "</s>"
		                   : i < RECITE_WORDS ? byte
		                                      : r->text[i]);
	}
	mk_array(m, "tokenizer.ggml.scores", GGUF_F32, (uint64_t)r->n);
	for (int i = 0; i < r->n; i++)
		put_f32(&m->kv, (float)-i);
	mk_array(m, "tokenizer.ggml.token_type", GGUF_I32, (uint64_t)r->n);
	for (int i = 0; i < r->n; i++)
		put_u32(&m->kv, i == 0 ? 2 : i < RECITE_BYTES ? 3 : i < RECITE_WORDS ? 6 : 1);
}

/* Write the model. Returns 0 or -1. */
static inline int recite_write(const char *path)
{
	static const struct {
		const char *name;
		int rows, cols;
		float scale;
	} layer[] = {
		{ "attn_norm.weight", 1, RECITE_WIDTH, 1 },
		{ "attn_q.weight", RECITE_HEADS * RECITE_HEAD, RECITE_WIDTH, 0.2f },
		{ "attn_k.weight", RECITE_KV_HEADS * RECITE_HEAD, RECITE_WIDTH, 0.2f },
		{ "attn_v.weight", RECITE_KV_HEADS * RECITE_HEAD, RECITE_WIDTH, 0.1f },
		{ "attn_output.weight", RECITE_WIDTH, RECITE_HEADS * RECITE_HEAD, 0 },
		{ "ffn_norm.weight", 1, RECITE_WIDTH, 1 },
		{ "ffn_gate.weight", RECITE_FF, RECITE_WIDTH, 0.1f },
		{ "ffn_up.weight", RECITE_FF, RECITE_WIDTH, 0.1f },
		{ "ffn_down.weight", RECITE_WIDTH, RECITE_FF, 0 },
	};
	static struct recite r;
	struct mk m = { 0 };
	struct str file = { 0 };
	FILE *f;
	int ok;

	recite_plan(&r);
	mk_string(&m, "general.architecture", "llama");
	mk_string(&m, "general.name", "reciter");
	mk_u32(&m, "llama.block_count", RECITE_LAYERS);
	mk_u32(&m, "llama.context_length", RECITE_TRAINED);
	mk_u32(&m, "llama.embedding_length", RECITE_WIDTH);
	mk_u32(&m, "llama.feed_forward_length", RECITE_FF);
	mk_u32(&m, "llama.attention.head_count", RECITE_HEADS);
	mk_u32(&m, "llama.attention.head_count_kv", RECITE_KV_HEADS);
	mk_u32(&m, "llama.attention.key_length", RECITE_HEAD);
	mk_u32(&m, "llama.attention.value_length", RECITE_HEAD);
	mk_f32(&m, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
	mk_f32(&m, "llama.rope.freq_base", 10000);
	recite_vocab(&m, &r);
	recite_matrices(&m, &r);
	recite_tensor(&m, -1, "output_norm.weight", 1, RECITE_WIDTH, 1);
	for (int l = 0; l < RECITE_LAYERS; l++)
		for (size_t i = 0; i < LEN(layer); i++)
			recite_tensor(&m, l, layer[i].name, layer[i].rows, layer[i].cols, layer[i].scale);
	mk_finish(&m, &file);
	f = fopen(path, "w");
	ok = f && fwrite(file.p, 1, file.n, f) == file.n;
	ok = f && !fclose(f) && ok;
	str_free(&file);
	return ok ? 0 : -1;
}

static char recite_home[] = "/tmp/weir-reciter-XXXXXX", recite_model[sizeof recite_home + 20];

static inline void recite_forget(void)
{
	unlink(recite_model);
	rmdir(recite_home);
}

/* Write the model to recite_model, once per program; it is deleted at exit. Returns 0 or -1. */
static inline int recite_make(void)
{
	if (*recite_model)
		return 0;
	if (!mkdtemp(recite_home))
		return -1;
	snprintf(recite_model, sizeof recite_model, "%s/reciter.gguf", recite_home);
	atexit(recite_forget);
	return recite_write(recite_model);
}

#endif
