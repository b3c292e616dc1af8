/* engine/token/pretok.h (private to engine/) - pre-tokenizers: they split text into the words that byte-level BPE
 * encodes.
 *
 * The models' own software uses a regular expression for each pre-tokenizer. Here hand-written scanners do the same in
 * linear time and without recursion. */
#ifndef WEIR_PRETOK_H
#define WEIR_PRETOK_H

#include <stddef.h>

enum pretok_kind {
	/* a word is a contraction ('s), or letters, numbers or symbols with at most one space before them */
	PRETOK_GPT2,
	/* A word has only letters, only digits, or only symbols. A word of letters may begin with one other character.
	 * Newlines belong to the word of symbols or blanks before them. */
	PRETOK_LLAMA3,
	PRETOK_SEED,   /* like PRETOK_LLAMA3, but newlines do not belong to the symbols before them */
	PRETOK_QWEN35, /* like PRETOK_LLAMA3, but combining marks count as letters */
	PRETOK_TEKKEN, /* like PRETOK_LLAMA3, but a word also ends between a lower-case and an upper-case letter */
};

struct pretok {
	const char *name;
	enum pretok_kind kind;
	int digits;      /* maximum number of digits in one word; 0: no limit */
	int suffix;      /* for PRETOK_TEKKEN, 1: a contraction is part of the word before it */
	int whole_words; /* 1: a word that equals a token of the vocabulary becomes that token without merging */
	int add_bos;     /* 1: a BOS is needed, unless the file's key tokenizer.ggml.add_bos_token decides otherwise */
};

/* Return the pre-tokenizer whose name in tokenizer.ggml.pre is the n bytes `name`, or NULL if there is none. */
const struct pretok *pretok_find(const char *name, size_t n);
/* Return the names of all pre-tokenizers, NULL-terminated. */
const char *const *pretok_names(void);
/* Return the end of the word that begins at s[pos], pos < n. Invalid UTF-8 bytes count as symbols. */
size_t pretok_next(const struct pretok *, const char *s, size_t n, size_t pos);

#endif
