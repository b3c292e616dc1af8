/* app/summary/summary.h - summaries of texts of any length.
 *
 *     texts -> sections (sections.c) -> a summary of each -> summaries of neighbours joined, level by level -> one summary
 *
 * Every prompt has a section's size whatever the texts have. All of it runs on a timeline of its own, which is opened
 * for the work: no conversation takes part. What the model makes of a prompt has a key, the hash of the prompt and of
 * all that decides the result, so a caller that keeps results by key resumes and repeats: a result that it knows costs
 * nothing. */
#ifndef WEIR_SUMMARY_H
#define WEIR_SUMMARY_H

#include "app/conversation/conversation.h"

enum { SUMMARY_WORDS_LEAST = 20, SUMMARY_WORDS_MOST = 1000, SUMMARY_WORDS = 150 };

/* level: 1 to 6; at: the byte of the text where its section begins */
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
	size_t n_heading; /* ascending */
};

struct summary_progress {
	int joining;        /* summaries are joined; 0: sections are summarized */
	size_t part, parts; /* of this level, counted from 1 */
	double left;        /* seconds; < 0: not known yet */
};

enum { SUMMARY_KEY = 33 }; /* 32 hexadecimal digits and a NUL */
struct summary_hooks {
	/* 1: known, maybe as empty text; 0 */
	int (*get)(const char *key, struct str *out, void *ud);
	void (*put)(const char *key, const char *text, size_t n, void *ud);
	int (*progress)(const struct summary_progress *, void *ud); /* often; not 0 = stop */
	void *ud;
};

struct summary {
	struct str text;
	size_t sections;
	size_t done;      /* sections that have a summary, known or new */
	size_t made;      /* prompts that the model answered in this call */
	struct str empty; /* the sections that the model returned nothing for, as a list; empty: none */
};
void summary_free(struct summary *);

/* Summarize all texts in about that many words. -1: ERR_CANCELLED when it was stopped (what was done went to put()),
 * ... */
int summarize(struct engine *, const struct options *, const struct summary_text *, size_t n_text, int32_t words,
              const struct summary_hooks *, struct summary *out, struct err *);

/* A small model may repeat what it was asked: an answer ends before its instruction, or begins behind it. */
void summary_without(struct str *, const char *instruction);

/* ---- sections.c ---- */

/* Where the section that begins at byte `from` ends: at the best place from `least` to `most` bytes behind it, which is
 * the heading of the highest level, else the end of a paragraph, a sentence, a line, a word, a character; of equal
 * places the last. n where the rest has `most` bytes or fewer. */
size_t section_end(const struct summary_text *, size_t from, size_t least, size_t most);

/* heading: the one that its first byte stands under; NULL = none */
struct section {
	size_t text, from, to;
	const char *heading;
};
/* Cut the texts into sections of at most that many tokens, those of blanks alone left out; free *out. */
int sections_cut(const struct engine *, const struct summary_text *, size_t n_text, int32_t tokens,
                 struct section **out, size_t *n, struct err *);

#endif
