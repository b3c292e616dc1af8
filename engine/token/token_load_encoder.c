/* engine/token/token_load_encoder.c - loads the parts of a vocabulary that only encoder models have. A Unigram or
 * WordPiece vocabulary has a prefix tree and flags. A Unigram vocabulary also has a table of texts to replace
 * (charsmap). */
#include "engine/token/token_private.h"
#include "engine/base/utf8.h"

#include <math.h>

static int load_charsmap(struct vocab *v, const struct gguf *g, struct err *err)
{
	static const char key[] = "tokenizer.ggml.precompiled_charsmap";
	const struct gguf_value *a = gguf_find(g, key);
	enum gguf_type elem = a && a->type == GGUF_ARRAY && a->elem == GGUF_I8 ? GGUF_I8 : GGUF_U8;
	const char *wrong;
	uint32_t at;
	int got = gguf_array(g, key, elem, UINT64_MAX, &a, err);

	if (got < 0)
		return -1;
	if (!got || !a->n || !charsmap_load(&v->charsmap, a->data, a->n, &wrong, &at, err))
		return 0;
	if (!wrong)
		return -1;
	return gguf_err(g, err, "byte %llu: '%s': unit %u of %llu bytes %s", (unsigned long long)a->off, key, at,
	                (unsigned long long)a->n, wrong);
}

static int load_unigram(struct vocab *v, const struct gguf *g, struct err *err)
{
	double lowest = INFINITY;

	for (int32_t i = 0; i < v->info.n; i++)
		if (v->type[i] == TOKEN_NORMAL)
			lowest = MIN(lowest, (double)v->score[i]);
	v->unknown_score = lowest - 10;
	v->trim = 1;
	if (gguf_bool(g, "tokenizer.ggml.remove_extra_whitespaces", &v->trim, err) < 0)
		return -1;
	return load_charsmap(v, g, err);
}

/* 1 if no normal token has an upper-case ASCII letter, as in the vocabularies of uncased models. */
static int is_uncased(const struct vocab *v)
{
	for (int32_t i = 0; i < v->info.n; i++)
		for (uint32_t k = v->off[i]; v->type[i] == TOKEN_NORMAL && k < v->off[i + 1]; k++)
			if (byte_is_upper(v->text[k]))
				return 0;
	return 1;
}

static int load_wordpiece(struct vocab *v, const struct gguf *g, struct err *err)
{
	v->lowercase = is_uncased(v);
	if (gguf_bool(g, "tokenizer.ggml.normalizer.lowercase", &v->lowercase, err) < 0)
		return -1;
	v->strip_accents = v->lowercase;
	if (gguf_bool(g, "tokenizer.ggml.normalizer.strip_accents", &v->strip_accents, err) < 0)
		return -1;
	for (int i = 0; i < 3; i++)
		v->word_node = i && !v->word_node ? 0 : trie_step(&v->trie, v->word_node, SPACE_MARK[i]);
	return 0;
}

int load_encoder(struct vocab *v, const struct gguf *g, struct err *err)
{
	if (!v->info.encoder)
		return 0;
	v->cuts = 0;
	for (int32_t i = 0; i < v->info.n; i++)
		if (v->type[i] == TOKEN_NORMAL && v->off[i + 1] - v->off[i] > PIECE_BYTES_MAX)
			return gguf_err(g, err, "token %d has %u bytes, and tokenizer model '%s' allows %d", i,
			                v->off[i + 1] - v->off[i], v->info.model, PIECE_BYTES_MAX);
	if (trie_build(v, err))
		return -1;
	return v->kind == KIND_UNIGRAM ? load_unigram(v, g, err) : load_wordpiece(v, g, err);
}
