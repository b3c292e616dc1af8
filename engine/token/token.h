/* engine/token/token.h (private to engine/) - the tokenizer of a model: text <-> token ids.
 *
 * Two kinds, both loaded from GGUF metadata alone: SentencePiece BPE (tokenizer.ggml.model "llama") and byte-level BPE
 * ("gpt2") with the pre-tokenizer that tokenizer.ggml.pre names. Encoding takes time linear in the text, n log n within
 * one word, and does not recurse. Control tokens are recognised only inside byte ranges that the caller trusts: the
 * chat template's own text, never a user's. */
#ifndef WEIR_TOKEN_H
#define WEIR_TOKEN_H

#include "engine/base/base.h"

struct gguf;
struct vocab;

struct vocab_info {
	int32_t n;                       /* ids are 0..n-1 */
	int32_t bos, eos, eot, unk, pad; /* -1 = none */
	int add_bos, add_eos;            /* the file asks for BOS before, EOS behind raw text */
	char model[16], pre[32];
};

/* Load and check the vocabulary.  pre: name of the pre-tokenizer to use instead of the file's, or NULL.  An unknown
 * tokenizer.ggml.pre is an error that names it and advises --pre. */
int vocab_load(struct vocab **out, const struct gguf *, const char *pre, struct err *);
void vocab_free(struct vocab *);
const struct vocab_info *vocab_info(const struct vocab *);
/* Names of the supported pre-tokenizers, NULL-terminated. */
const char *const *vocab_pre_names(void);

struct span {
	size_t off, len;
};
/* Append the ids of text[0..len). special: ascending, disjoint byte ranges in which the texts of control tokens become
 * their ids; elsewhere such text is encoded as plain text. A range border does not split plain text. User-defined
 * tokens match everywhere. BOS and EOS are not added. */
int vocab_encode(const struct vocab *, const char *text, size_t len, const struct span *special, size_t n_special,
                 struct tokens *out, struct err *);
/* The same, and the byte of the text behind each token, ascending: appended to *ends, which has one entry for each
 * token of *out. Bytes that the vocabulary lacks may belong to no token. continues: the text stands behind other plain
 * text, so SentencePiece puts no space before it. */
struct token_ends {
	uint32_t *at;
	size_t n, cap;
};
int vocab_encode_ends(const struct vocab *, const char *text, size_t len, const struct span *special, size_t n_special,
                      int continues, struct tokens *out, struct token_ends *ends, struct err *);
void token_ends_add(struct token_ends *, size_t at);
/* May a text be cut before byte `at` and its two parts be encoded apart, the second one as a text that continues? 1
 * between a letter and a blank before another letter, where no token of this vocabulary can stand across; else 0. */
int vocab_cuts(const struct vocab *, const char *text, size_t len, size_t at);
/* A token that is recognised by its text and ends the run of plain text before it: a control token. */
int vocab_is_control(const struct vocab *, int32_t id);
/* Bytes of text that this process has encoded so far. */
uint64_t vocab_encoded(void);
/* Write the bytes of one token, at most cap, and return their full number. A token may be part of a UTF-8 character.
 * Control tokens have their text with with_special, else no bytes. */
size_t vocab_piece(const struct vocab *, int32_t id, int with_special, char *buf, size_t cap);
/* Id of the token whose stored text is text[0..len), or -1. */
int32_t vocab_find(const struct vocab *, const char *text, size_t len);
/* 1 when the id ends a turn (EOS, EOT and the like). */
int vocab_is_end(const struct vocab *, int32_t id);

#endif
