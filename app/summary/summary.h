/* app/summary/summary.h - summaries of texts of any length.
 *
 * Texts are cut into sections (sections.c). Each section is summarized; then neighbouring summaries are joined,
 * level by level, until one is left. So each prompt is about as long as one section. Prompts run on a timeline of
 * their own.
 *
 * The result of a prompt has a key: the hash of the prompt, the model and the settings. A caller that stores
 * results by key can resume a stopped summary. */
#ifndef WEIR_SUMMARY_H
#define WEIR_SUMMARY_H

#include "app/conversation/conversation.h"

enum { SUMMARY_WORDS_LEAST = 20, SUMMARY_WORDS_MOST = 1000, SUMMARY_WORDS = 150 };

/* A heading of a text. at: byte of the text at which its section begins. level: 1 (highest) to 6. */
struct summary_heading {
	size_t at;
	int level;
	const char *text;
};
struct summary_text {
	const char *name;
	const char *text;
	size_t n;
	const struct summary_heading *heading;
	size_t n_heading; /* number of headings, which are in ascending order of `at` */
};

struct summary_progress {
	int joining; /* 1 = joining summaries; 0 = summarizing sections */
	/* part: number of the current prompt of this level, from 1; parts: number of prompts of this level */
	size_t part, parts;
	double left; /* estimated seconds left; < 0 = not known yet */
};

enum { SUMMARY_KEY = 33 }; /* 32 hexadecimal digits and a NUL */
struct summary_hooks {
	/* Append the result stored under `key` to *out; it may be empty. Returns 1 if found, else 0. May be NULL. */
	int (*get)(const char *key, struct str *out, void *ud);
	/* Store a new result under `key`. May be NULL. */
	void (*put)(const char *key, const char *text, size_t n, void *ud);
	/* Report progress: called before each prompt, during its prefill and before each token. A return value other
	 * than 0 stops the summary. May be NULL. */
	int (*progress)(const struct summary_progress *, void *ud);
	void *ud;
};

struct summary {
	struct str text;
	size_t sections;
	size_t done;      /* sections that have a summary, stored or new */
	size_t made;      /* prompts that the model answered in this call */
	struct str empty; /* numbers and headings of sections for which the model gave no text, as "2, 4 to 5" */
};
void summary_free(struct summary *);

/* Summarize all texts together in about `words` words. Returns 0, or -1 with ERR_CANCELLED (stopped), ERR_FIT,
 * ERR_DOCUMENT (no text), .... After an error, put() has stored the results that were completed before. Release *out
 * with summary_free() in both cases. */
int summarize(struct engine *, const struct options *, const struct summary_text *, size_t n_text, int32_t words,
              const struct summary_hooks *, struct summary *out, struct err *);

/* Remove the prompt's instruction from an answer: small models repeat the instruction. If the answer begins with the
 * instruction, keep the text after it; if the instruction comes later, keep the text before it. Blanks at both ends are
 * removed. */
void summary_without(struct str *, const char *instruction);

/* ---- sections.c ---- */

/* Return the end (byte offset) of the section that begins at byte `from`. The section has `least` to `most` bytes. It
 * ends at the best break in this range: before the highest heading, else after a paragraph, sentence, line, word or
 * character. If several breaks are equally good, the last one is taken. If at most `most` bytes remain, they are one
 * section. */
size_t section_end(const struct summary_text *, size_t from, size_t least, size_t most);

/* A section: bytes [from, to) of text number `text`. heading: the heading above its first word, or NULL. */
struct section {
	size_t text, from, to;
	const char *heading;
};
/* Cut the texts into sections of at most `tokens` tokens. Sections without text are left out. Returns 0 or -1. The
 * caller frees *out. The headings of the sections point into the texts. */
int sections_cut(const struct engine *, const struct summary_text *, size_t n_text, int32_t tokens,
                 struct section **out, size_t *n, struct err *);

#endif
