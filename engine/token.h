/* engine/token.h (private to engine/) - the vocabulary of a model: text <-> token ids.
 *
 * Two tokenizers, both from GGUF metadata alone: SentencePiece BPE (tokenizer.ggml.model "llama")
 * and byte-level BPE ("gpt2") with a pre-tokenizer named by tokenizer.ggml.pre.  Linear time in the
 * text, no recursion.  Special (control) tokens are recognised only inside byte ranges the caller
 * vouches for: the template's own text, never the user's. */
#ifndef WEIR_TOKEN_H
#define WEIR_TOKEN_H

#include "engine/base.h"

struct gguf;
struct vocab;

struct vocab_info {
	int32_t n;                         /* ids are 0..n-1 */
	int32_t bos, eos, eot, unk, pad;   /* -1 = none */
	int add_bos, add_eos;              /* what the file asks for around raw text */
	char model[16], pre[32];
};

/* Load and check the vocabulary.  pre: pre-tokenizer to use instead of the file's, or NULL.
 * An unknown tokenizer.ggml.pre is refused by name with the advice to pass --pre. */
int  vocab_load(struct vocab **out, const struct gguf *, const char *pre, struct err *);
void vocab_free(struct vocab *);
const struct vocab_info *vocab_info(const struct vocab *);
/* Names of the pre-tokenizers known, NULL-terminated. */
const char *const *vocab_pre_names(void);

struct span { size_t off, len; };
/* Append the ids of text[0..len).  special: ascending, disjoint byte ranges in which control tokens
 * written out in the text become their ids; everywhere else they stay plain text.  Runs of plain text
 * are tokenised whole, across range borders.  User-defined tokens match everywhere.  No BOS, no EOS. */
int  vocab_encode(const struct vocab *, const char *text, size_t len,
                  const struct span *special, size_t n_special, struct tokens *out, struct err *);
/* Bytes of one token (maybe half a UTF-8 character), at most cap; returns the full length.
 * Control tokens give their text when with_special, nothing otherwise. */
size_t vocab_piece(const struct vocab *, int32_t id, int with_special, char *buf, size_t cap);
/* Id of the token whose stored text is exactly this, or -1. */
int32_t vocab_find(const struct vocab *, const char *text, size_t len);
/* Does this id end a turn (eos, eot and their like)? */
int  vocab_is_end(const struct vocab *, int32_t id);

#endif
