/* engine/token/pretok.h (private to engine/) - pre-tokenizers: split text into the words that byte-level BPE encodes.
 *
 * In the models' own software each pre-tokenizer is a regular expression. Here each is a hand-written scanner in
 * linear time and without recursion. */
#ifndef WEIR_PRETOK_H
#define WEIR_PRETOK_H

#include <stddef.h>

enum pretok_kind {
	PRETOK_GPT2,   /* contractions, " ?letters", " ?numbers", " ?symbols" */
	PRETOK_LLAMA3, /* a word may begin with one non-letter; newlines join the symbols or spaces before them */
	PRETOK_SEED,   /* as LLAMA3, but newlines do not join the symbols before them */
	PRETOK_QWEN35, /* as LLAMA3, but combining marks count as letters */
	PRETOK_TEKKEN, /* as LLAMA3, but a word ends between a lower-case and an upper-case letter */
};

struct pretok {
	const char *name;
	enum pretok_kind kind;
	int digits;      /* most digits in one word; 0 = no limit */
	int suffix;      /* TEKKEN: 1 = a contraction joins the word before it */
	int whole_words; /* 1 = a word whose text is a token becomes that token without merging */
	int add_bos;     /* default if the file lacks tokenizer.ggml.add_bos_token */
};

/* Return the pre-tokenizer with this name in tokenizer.ggml.pre, or NULL. */
const struct pretok *pretok_find(const char *name, size_t n);
/* Return all names, NULL-terminated. */
const char *const *pretok_names(void);
/* Return the end of the word that begins at s[pos], pos < n. Invalid UTF-8 bytes count as symbols. */
size_t pretok_next(const struct pretok *, const char *s, size_t n, size_t pos);

#endif
