/* engine/token/pretok.h (private to engine/) - pre-tokenizers: they cut text into the words that byte-level BPE
 * encodes.
 *
 * In the models' own software each is a regular expression. Here they are hand-written scanners that look ahead within
 * one run of characters only: linear time, no recursion. */
#ifndef WEIR_PRETOK_H
#define WEIR_PRETOK_H

#include <stddef.h>

enum pretok_kind {
	PRETOK_GPT2, /* contractions, " ?letters", " ?numbers", " ?others" */
	/* a word may begin with one non-letter; newlines belong to the symbols or spaces before them */
	PRETOK_LLAMA3,
	PRETOK_SEED,   /* as LLAMA3, but newlines do not belong to the symbols before them */
	PRETOK_QWEN35, /* as LLAMA3, but marks are letters */
	PRETOK_TEKKEN, /* as LLAMA3, but a word ends where an upper-case letter follows a lower-case one */
};

struct pretok {
	const char *name;
	enum pretok_kind kind;
	int digits;      /* longest run of digits in one word; 0 = any */
	int suffix;      /* TEKKEN: a contraction belongs to the word before it */
	int whole_words; /* a word whose text is a token becomes that token without merging */
	int add_bos;     /* default where the file lacks tokenizer.ggml.add_bos_token */
};

/* By the name in tokenizer.ggml.pre, or NULL. */
const struct pretok *pretok_find(const char *name, size_t n);
/* All names, NULL-terminated. */
const char *const *pretok_names(void);
/* End of the word that begins at s[pos], pos < n.  Bytes that are not valid UTF-8 count as symbols. */
size_t pretok_next(const struct pretok *, const char *s, size_t n, size_t pos);

#endif
