/* engine/token/token.h (private to engine/) - a model's tokenizer: text to token ids and back.
 *
 * The key tokenizer.ggml.model of the GGUF file gives its kind: SentencePiece BPE ("llama", "gemma4"), byte-level BPE
 * ("gpt2") or, for encoder models, SentencePiece Unigram ("t5") or WordPiece ("bert"). Encoding takes linear time in
 * the length of the text, and O(n log n) within one word. It does not recurse.
 *
 * Control tokens are recognised only in byte ranges that the caller trusts: text of the chat template, not of
 * messages. */
#ifndef WEIR_TOKEN_H
#define WEIR_TOKEN_H

#include "engine/base/base.h"

struct gguf;
struct vocab;

struct vocab_info {
	int32_t n;                       /* number of tokens; ids are 0 to n - 1 */
	int32_t bos, eos, eot, unk, pad; /* ids of these special tokens; -1: the vocabulary does not have the token */
	/* 1: text without a template needs a BOS at its start (add_bos), an EOS at its end (add_eos) */
	int add_bos, add_eos;
	/* 1: Unigram or WordPiece, the tokenizers of encoders; `bos` is [CLS], `eos` is [SEP] */
	int encoder;
	char model[16], pre[32]; /* names of the tokenizer and of the pre-tokenizer */
};

/* Load and check the vocabulary. The GGUF file may be closed afterwards. `pre` is the name of the pre-tokenizer, or
 * NULL for the name in the file. If the name is unknown, the error lists the known names. */
int vocab_load(struct vocab **out, const struct gguf *, const char *pre, struct err *);
void vocab_free(struct vocab *);
const struct vocab_info *vocab_info(const struct vocab *);
/* Return the names of all pre-tokenizers, NULL-terminated. */
const char *const *vocab_pre_names(void);

/* A range of bytes in a text. */
struct span {
	size_t off, len;
};
/* Append the token ids of the `len` bytes of text to `out`, without BOS and EOS. `special` has the trusted byte ranges,
 * ascending and disjoint. In a trusted range the text of a control token becomes that token; elsewhere it is plain
 * text. User-defined tokens match everywhere. The border of a range does not split plain text. */
int vocab_encode(const struct vocab *, const char *text, size_t len, const struct span *special, size_t n_special,
                 struct tokens *out, struct err *);
/* Encode as vocab_encode() does. Also append to *ends, for each token, the offset in the text at which it ends; the
 * offsets are ascending. `ends` may be NULL. Bytes that are not in the vocabulary may belong to no token. An encoder's
 * tokenizer normalises the text, so two tokens may end at the same character, and spaces may belong to no token. If
 * `continues` is 1, the text follows other plain text, so SentencePiece adds no space before it. */
struct token_ends {
	uint32_t *at;
	size_t n, cap;
};
int vocab_encode_ends(const struct vocab *, const char *text, size_t len, const struct span *special, size_t n_special,
                      int continues, struct tokens *out, struct token_ends *ends, struct err *);
void token_ends_add(struct token_ends *, size_t at);
/* 1 if the text may be split at byte `at`: encoding the bytes before `at`, and then the bytes from `at` on with
 * continues = 1, gives the ids of the whole text. The result is 1 only in a simple case: text[at] is a blank between
 * two letters, and no token has a blank after a letter. In all other cases the result is 0, even if the text could be
 * split. */
int vocab_cuts(const struct vocab *, const char *text, size_t len, size_t at);
/* 1 if the id is a control token. Control tokens are recognised in trusted ranges only. They split the text: the plain
 * text before a control token and after it are encoded separately. */
int vocab_is_control(const struct vocab *, int32_t id);
/* Return how many bytes of text this process has encoded so far. Tests use this number to check that no text is encoded
 * twice. */
uint64_t vocab_encoded(void);
/* Write the bytes of a token to buf, at most cap bytes. Return the number of bytes of the token, which may end within a
 * UTF-8 character. A control token has bytes only if with_special is set, or if the token is a mark around the model's
 * reasoning. */
size_t vocab_piece(const struct vocab *, int32_t id, int with_special, char *buf, size_t cap);
/* Return the id of the token whose stored text in the vocabulary is the `len` bytes of text, or -1. */
int32_t vocab_find(const struct vocab *, const char *text, size_t len);
/* 1 if the id ends a turn: EOS, EOT or a similar token. */
int vocab_is_end(const struct vocab *, int32_t id);

#endif
