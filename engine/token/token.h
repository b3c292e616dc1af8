/* engine/token/token.h (private to engine/) - the tokenizer of a model: text <-> token ids.
 *
 * Four kinds, all loaded from GGUF metadata: SentencePiece BPE (tokenizer.ggml.model "llama" or "gemma4"), byte-level
 * BPE ("gpt2") with the pre-tokenizer named by tokenizer.ggml.pre, and for encoders SentencePiece Unigram ("t5") and
 * WordPiece ("bert"). Encoding takes time linear in the text, O(n log n) within one word, and does not recurse. Control tokens are recognised only inside byte ranges that the
 * caller trusts: the chat template's own text, never the text of a message. */
#ifndef WEIR_TOKEN_H
#define WEIR_TOKEN_H

#include "engine/base/base.h"

struct gguf;
struct vocab;

struct vocab_info {
	int32_t n;                       /* number of tokens; ids are 0..n-1 */
	int32_t bos, eos, eot, unk, pad; /* ids of these tokens; -1 = none */
	int add_bos, add_eos;            /* 1 = raw text needs BOS at its start, EOS at its end */
	int encoder;             /* 1 = Unigram or WordPiece, whose models are encoders; [CLS] is BOS, [SEP] EOS */
	char model[16], pre[32]; /* names of the tokenizer and of the pre-tokenizer */
};

/* Load and check the vocabulary. The file may be closed afterwards. pre: name of the pre-tokenizer, NULL = the one
 * that the file names. An unknown name is an error that lists the known ones. */
int vocab_load(struct vocab **out, const struct gguf *, const char *pre, struct err *);
void vocab_free(struct vocab *);
const struct vocab_info *vocab_info(const struct vocab *);
/* Return the names of all pre-tokenizers, NULL-terminated. */
const char *const *vocab_pre_names(void);

/* A range of bytes in a text. */
struct span {
	size_t off, len;
};
/* Append the ids of text[0..len) to out. special: trusted byte ranges, ascending and disjoint. Inside them the texts
 * of control tokens become control tokens; elsewhere the same texts are plain text. Plain text is not split at the
 * border of a range. User-defined tokens match everywhere. BOS and EOS are not added. */
int vocab_encode(const struct vocab *, const char *text, size_t len, const struct span *special, size_t n_special,
                 struct tokens *out, struct err *);
/* As vocab_encode(), and append to *ends the offset in the text at which each token ends, ascending, one entry per
 * token of *out. ends may be NULL. Bytes that the vocabulary lacks may belong to no token. An encoder's tokenizer
 * normalises the text: two tokens may end at the same character, and spaces may belong to no token. continues = 1: the
 * text follows other plain text, so SentencePiece adds no space before it. */
struct token_ends {
	uint32_t *at;
	size_t n, cap;
};
int vocab_encode_ends(const struct vocab *, const char *text, size_t len, const struct span *special, size_t n_special,
                      int continues, struct tokens *out, struct token_ends *ends, struct err *);
void token_ends_add(struct token_ends *, size_t at);
/* 1 if text[0..at) and text[at..len) can be encoded separately, the second part with continues = 1, with the same ids
 * as the whole. True only if text[at] is a blank between two letters, and no token of the vocabulary can contain a
 * letter and a blank after it. */
int vocab_cuts(const struct vocab *, const char *text, size_t len, size_t at);
/* 1 if the id is a control token. A control token is recognised in trusted ranges only, and the plain text before it
 * is encoded separately from the plain text after it. */
int vocab_is_control(const struct vocab *, int32_t id);
/* Return how many bytes of text this process has encoded so far. */
uint64_t vocab_encoded(void);
/* Write the bytes of one token to buf, at most cap, and return their full number. The bytes may be a part of a UTF-8
 * character. The text of a control token is written only if with_special is set or the token is a reasoning mark. */
size_t vocab_piece(const struct vocab *, int32_t id, int with_special, char *buf, size_t cap);
/* Return the id of the token whose stored text is text[0..len), or -1. */
int32_t vocab_find(const struct vocab *, const char *text, size_t len);
/* 1 if the id ends a turn: EOS, EOT or a similar token. */
int vocab_is_end(const struct vocab *, int32_t id);

#endif
