/* app/summary/summary.h - summaries of texts of any length.
 *
 * Texts are split into sections (sections.c). Each section is summarized. Then neighbouring summaries are joined, level
 * by level, until only one is left. So each prompt is about as long as one section. Prompts run on a separate timeline.
 *
 * The result of a prompt has a key: a hash of the prompt, the model and the settings. A caller that stores results by
 * key can resume a summary that was stopped. */
#ifndef WEIR_SUMMARY_H
#define WEIR_SUMMARY_H

#include "app/conversation/conversation.h"

enum { SUMMARY_WORDS_LEAST = 20, SUMMARY_WORDS_MOST = 1000, SUMMARY_WORDS = 150 };

/* A heading of a text. Its section begins at byte `at` of the text. `level` is between 1 (highest) and 6. */
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
	int joining; /* 1 = summaries are being joined; 0 = sections are being summarized */
	/* `part` is the number of the current prompt on this level, from 1; `parts` is the number of all prompts on
	 * this level */
	size_t part, parts;
	double left; /* estimated time in seconds until the summary is complete; < 0 = not known yet */
};

enum { SUMMARY_KEY = 33 }; /* 32 hexadecimal digits and a NUL */
struct summary_hooks {
	/* Append the result that is stored under `key` to *out; this result may be empty. Returns 1 if found, else 0.
	 * The function pointer may be NULL. */
	int (*get)(const char *key, struct str *out, void *ud);
	/* Store a new result under `key`. The function pointer may be NULL. */
	void (*put)(const char *key, const char *text, size_t n, void *ud);
	/* Report progress. Called before each prompt, during its prefill, and before each token. A return value other
	 * than 0 stops the summary. The function pointer may be NULL. */
	int (*progress)(const struct summary_progress *, void *ud);
	void *ud;
};

struct summary {
	struct str text;
	size_t sections;
	size_t done;      /* number of sections that have a summary, stored or new */
	size_t made;      /* number of prompts that the model answered in this call */
	struct str empty; /* numbers and headings of sections for which the model gave no text, as "2, 4 to 5" */
};
void summary_free(struct summary *);

/* Summarize all texts together in about `words` words. Returns 0; or -1 with ERR_CANCELLED (stopped), ERR_FIT,
 * ERR_DOCUMENT (no text), .... Even after an error, put() has stored the results completed so far. Release *out with
 * summary_free() in both cases. */
int summarize(struct engine *, const struct options *, const struct summary_text *, size_t n_text, int32_t words,
              const struct summary_hooks *, struct summary *out, struct err *);

/* Remove the prompt's instruction from an answer, because small models repeat it. If the answer begins with the
 * instruction, the text after it is kept. If the instruction comes later, the text before it is kept. Blanks at both
 * ends are removed. */
void summary_without(struct str *, const char *instruction);

/* ---- sections.c ---- */

/* Return the byte offset at which the section ends that begins at byte `from`. The section has `least` to `most` bytes,
 * and ends at the best break in this range. The order of breaks is: before a heading (a higher heading is better),
 * after a paragraph, sentence, line, word, character. Of equally good breaks, the last one is taken. If at most `most`
 * bytes are left, they are one section. */
size_t section_end(const struct summary_text *, size_t from, size_t least, size_t most);

/* A section: bytes [from, to) of text number `text`. `heading` is the heading above the section's first word, or
 * NULL. */
struct section {
	size_t text, from, to;
	const char *heading;
};
/* Split the texts into sections of at most `tokens` tokens. Sections without text are left out. Returns 0 or -1. The
 * caller frees *out. The headings of the sections point into the texts. */
int sections_cut(const struct engine *, const struct summary_text *, size_t n_text, int32_t tokens,
                 struct section **out, size_t *n, struct err *);

#endif
