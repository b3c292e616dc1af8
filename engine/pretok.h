/* engine/pretok.h (private to engine/) - pre-tokenizers: where byte-level BPE cuts text into words.
 *
 * Each is a fixed regular expression in the model's own software; here they are hand-written scanners
 * that look ahead within one run of characters only, so they are linear and need no stack. */
#ifndef WEIR_PRETOK_H
#define WEIR_PRETOK_H

#include <stddef.h>

enum pretok_kind {
	PRETOK_GPT2,     /* contractions, " ?letters", " ?numbers", " ?others" */
	PRETOK_LLAMA3,   /* one leading non-letter joins a word; newlines join what precedes them */
	PRETOK_TEKKEN,   /* as LLAMA3, and words are cut at lower-to-upper changes of case */
};

struct pretok {
	const char *name;
	enum pretok_kind kind;
	int digits;          /* longest run of numbers; 0 = any */
	int suffix;          /* TEKKEN: contractions stay with their word */
	int whole_words;     /* a word that is itself a token is taken as it is, whatever the merges say */
	int add_bos;         /* what to assume where the file does not say */
};

/* By the name in tokenizer.ggml.pre, or NULL. */
const struct pretok *pretok_find(const char *name, size_t n);
/* All names, NULL-terminated. */
const char *const *pretok_names(void);
/* End of the word that begins at s[pos]; pos < n.  Bytes that are not UTF-8 count as symbols. */
size_t pretok_next(const struct pretok *, const char *s, size_t n, size_t pos);

#endif
