/* engine/token/pretok.h (private to engine/) - pre-tokenizers: they cut text into the words that byte-level BPE
 * encodes.
 *
 * The models' own software uses a regular expression for each pre-tokenizer. Here hand-written scanners do the same
 * in linear time and without recursion. */
#ifndef WEIR_PRETOK_H
#define WEIR_PRETOK_H

#include <stddef.h>

enum pretok_kind {
	PRETOK_GPT2, /* a word is a contraction ('s), or letters, numbers or symbols after at most one space */
	/* a word is letters after at most one other character, or digits, or symbols; newlines belong to the symbols or
	 * blanks before them */
	PRETOK_LLAMA3,
	PRETOK_SEED,   /* as LLAMA3, but newlines do not join the symbols before them */
	PRETOK_QWEN35, /* as LLAMA3, but combining marks count as letters */
	PRETOK_TEKKEN, /* as LLAMA3, but a word also ends between a lower-case and an upper-case letter */
};

struct pretok {
	const char *name;
	enum pretok_kind kind;
	int digits;      /* maximum number of digits in one word; 0 = no limit */
	int suffix;      /* TEKKEN: 1 = a contraction joins the word before it */
	int whole_words; /* 1 = a word that is in the vocabulary as one token becomes that token, without merging */
	int add_bos;     /* default if the file lacks tokenizer.ggml.add_bos_token */
};

/* Return the pre-tokenizer that tokenizer.ggml.pre calls name[0..n), or NULL if no pre-tokenizer has this name. */
const struct pretok *pretok_find(const char *name, size_t n);
/* Return the names of all pre-tokenizers, NULL-terminated. */
const char *const *pretok_names(void);
/* Return the end of the word that begins at s[pos], pos < n. Invalid UTF-8 bytes count as symbols. */
size_t pretok_next(const struct pretok *, const char *s, size_t n, size_t pos);

#endif
