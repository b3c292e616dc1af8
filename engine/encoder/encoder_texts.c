/* engine/encoder/encoder_texts.c - turns plain texts into vectors: adds the model's prefix, tokenizes, and truncates to
 * the largest number of tokens that the model reads. */
#include <stdlib.h>
#include <string.h>

#include "engine/encoder/encoder.h"

/* Prefixes that models were trained with; model files do not contain them. The first entry whose `part` occurs in
 * general.name is used. Other models get no prefix. Sources: the model cards of intfloat/multilingual-e5-small and
 * multilingual-e5-large-instruct, BAAI/bge-small-en-v1.5, Snowflake/snowflake-arctic-embed-s and -m-v2.0,
 * nomic-ai/nomic-embed-text-v1.5, mixedbread-ai/mxbai-embed-large-v1, MongoDB/mdbr-leaf-ir. */
static const struct {
	/* `part` is a part of general.name, prefix[0] the prefix of a query, prefix[1] the prefix of a passage */
	const char *part, *prefix[2];
} prefixes[] = {
	{ "e5-large-instruct",
	  { "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery: ", "" } },
	{ "e5", { "query: ", "passage: " } },
	{ "arctic-embed-m-v2", { "query: ", "" } },
	{ "arctic-embed-l-v2", { "query: ", "" } },
	{ "arctic-embed", { "Represent this sentence for searching relevant passages: ", "" } },
	{ "bge-small-en", { "Represent this sentence for searching relevant passages: ", "" } },
	{ "bge-base-en", { "Represent this sentence for searching relevant passages: ", "" } },
	{ "bge-large-en", { "Represent this sentence for searching relevant passages: ", "" } },
	{ "mxbai-embed", { "Represent this sentence for searching relevant passages: ", "" } },
	{ "leaf-ir", { "Represent this sentence for searching relevant passages: ", "" } },
	{ "nomic-embed", { "search_query: ", "search_document: " } },
};

static const char *prefix_of(const struct encoder *e, enum encoder_side side)
{
	char name[80];
	size_t n = MIN(e->name.n, sizeof name - 1);

	for (size_t i = 0; i < n; i++)
		name[i] = (char)(e->name.p[i] >= 'A' && e->name.p[i] <= 'Z' ? e->name.p[i] + 32
		                 : e->name.p[i] == ' '                      ? '-'
		                                                            : e->name.p[i]);
	name[n] = 0;
	for (size_t i = 0; i < LEN(prefixes); i++)
		if (strstr(name, prefixes[i].part))
			return prefixes[i].prefix[side == ENCODER_PASSAGE];
	return "";
}

uint64_t encoder_id(const struct encoder *e)
{
	uint64_t id = e->hash;

	for (int side = ENCODER_QUERY; side <= ENCODER_PASSAGE; side++) {
		const char *prefix = prefix_of(e, (enum encoder_side)side);

		id = hash64(id, prefix, strlen(prefix) + 1);
	}
	return id;
}

/* Append the tokens of one text to out, truncated to e->longest tokens. Return how many were appended, or -1. */
static int32_t text_tokens(const struct encoder *e, const char *prefix, struct encoder_string t, struct tokens *out,
                           struct err *err)
{
	const struct vocab_info *v = vocab_info(e->vocab);
	size_t first = out->n, most = (size_t)e->longest - (size_t)v->add_eos;
	struct str text = { 0 };
	int rc;

	/* Tokenize only the first 32 * e->longest bytes of the text. Tokens are rarely longer than 32 bytes, so the
	 * tokens of later bytes would be cut off anyway. */
	str_adds(&text, prefix);
	str_add(&text, t.p, MIN(t.n, (size_t)e->longest * 32));
	if (v->add_bos)
		tokens_add(out, v->bos);
	rc = vocab_encode(e->vocab, text.p, text.n, NULL, 0, out, err);
	str_free(&text);
	if (rc)
		return -1;
	if (out->n - first > most)
		out->n = first + most;
	if (v->add_eos)
		tokens_add(out, v->eos);
	return (int32_t)(out->n - first);
}

int encoder_texts(struct encoder *e, enum encoder_side side, const struct encoder_string *text, int32_t n, float *out,
                  const atomic_int *cancel, struct err *err)
{
	struct encoder_text *ids = xcalloc((size_t)n + 1, sizeof *ids);
	struct tokens all = { 0 };
	const char *prefix = prefix_of(e, side);
	int rc = e->vocab ? 0 : gguf_err(e->gguf, err, "the file has no tokenizer, so it cannot read plain text");

	for (int32_t i = 0; i < n && !rc; i++) {
		ids[i].n = text_tokens(e, prefix, text[i], &all, err);
		rc = ids[i].n < 0 ? -1 : 0;
	}
	for (int32_t i = 0, at = 0; i < n && !rc; at += ids[i++].n)
		ids[i].id = all.id + at;
	if (!rc)
		rc = encoder_embed_adapted(e, ids, n, side == ENCODER_QUERY_ADAPTED ? ADAPT_QUERY : ADAPT_NONE, out,
		                           cancel, err);
	tokens_free(&all);
	free(ids);
	return rc;
}
