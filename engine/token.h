/* engine/token.h (private to engine/) - the tokenizer of a model: text <-> token ids.
 *
 * Two kinds, both loaded from GGUF metadata alone: SentencePiece BPE (tokenizer.ggml.model "llama") and byte-level BPE ("gpt2")
 * with the pre-tokenizer that tokenizer.ggml.pre names.  Encoding takes time linear in the text, n log n within one word, and
 * does not recurse.  Control tokens are recognised only inside byte ranges that the caller trusts: the chat template's own
 * text, never a user's. */
#ifndef WEIR_TOKEN_H
#define WEIR_TOKEN_H

#include "engine/base.h"

struct gguf;
struct vocab;

struct vocab_info {
	int32_t n;                         /* ids are 0..n-1 */
	int32_t bos, eos, eot, unk, pad;   /* -1 = none */
	int add_bos, add_eos;              /* the file asks for BOS before, EOS behind raw text */
	char model[16], pre[32];
};

/* Load and check the vocabulary.  pre: name of the pre-tokenizer to use instead of the file's, or NULL.  An unknown
 * tokenizer.ggml.pre is an error that names it and advises --pre. */
int  vocab_load(struct vocab **out, const struct gguf *, const char *pre, struct err *);
void vocab_free(struct vocab *);
const struct vocab_info *vocab_info(const struct vocab *);
/* Names of the supported pre-tokenizers, NULL-terminated. */
const char *const *vocab_pre_names(void);

struct span { size_t off, len; };
/* Append the ids of text[0..len).  special: ascending, disjoint byte ranges in which the texts of control tokens become their
 * ids; elsewhere such text is encoded as plain text.  A range border does not split plain text.  User-defined tokens match
 * everywhere.  BOS and EOS are not added. */
int  vocab_encode(const struct vocab *, const char *text, size_t len,
                  const struct span *special, size_t n_special, struct tokens *out, struct err *);
/* Write the bytes of one token, at most cap, and return their full number.  A token may be part of a UTF-8 character.  Control
 * tokens have their text with with_special, else no bytes. */
size_t vocab_piece(const struct vocab *, int32_t id, int with_special, char *buf, size_t cap);
/* Id of the token whose stored text is text[0..len), or -1. */
int32_t vocab_find(const struct vocab *, const char *text, size_t len);
/* 1 when the id ends a turn (EOS, EOT and the like). */
int  vocab_is_end(const struct vocab *, int32_t id);

#endif
