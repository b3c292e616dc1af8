/* app/retrieval/retrieval_private.h - inside app/retrieval/: what its files share. */
#ifndef WEIR_RETRIEVAL_PRIVATE_H
#define WEIR_RETRIEVAL_PRIVATE_H

#include "app/conversation/conversation_private.h"
#include "app/retrieval/retrieval.h"

/* ---- sources.c ---- */

/* The page, chapter or section that a question names, where one document has it: 1 and its beginning, *end: where it
 * ends; or 0 (named_place.c). */
int named_place(const struct conversation *, const char *question, size_t n, struct source *out, size_t *end);
/* Where body[from .. to) ends when it is shortened to `most` bytes: behind its last sentence, else its last line, else
 * its last whole character. */
size_t cut_end(const char *body, size_t from, size_t to, size_t most);
/* The beginning of document i, and in it what answers such a question best: 1; 0: the document is empty
 * (about_document.c). */
int document_beginning(const struct conversation *, size_t i, enum whole_question, struct source *out);

/* ---- quote.c ---- */

/* Text on one line: a line break in the middle of a sentence is a blank.  Appended. */
void text_on_one_line(const char *p, size_t n, struct str *out);
/* What a question's context quotes of the last question's sources, passages and best sentences: bytes from .. to of the
 * document's body, bytes at .. at + n of the context. Returns how many. */
struct quoted {
	size_t doc, from, to, at, n;
};
enum { QUOTED_MOST = 2 * SOURCES_MOST };
size_t context_quotes(const struct conversation *, const struct str *context, struct quoted out[QUOTED_MOST]);
/* 1 if the text has one of the words, which stand between blanks and in lower case, or begins with one of first (NULL:
 * none). sources.c */
int text_has_word(const char *text, size_t n, const char *words, const char *first);

/* ---- rerank.c: how well passages explain a question ---- */

struct quote {
	const char *p;
	size_t n;
};
/* How much likelier the question is behind each of the quotes than behind nothing, in nats: gain[0 .. *scored), of as
 * many of the first ones as the model's size allows; 0 of them where the model is too large or there is no room.
 * Signals stop it: -1, ERR_CANCELLED. */
int rerank_gains(struct conversation *, const char *question, size_t n, const struct quote *, int count, double *gain,
                 int *scored, struct err *);

#endif
