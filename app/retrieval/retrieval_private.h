/* app/retrieval/retrieval_private.h - inside app/retrieval/: what its files share. */
#ifndef WEIR_RETRIEVAL_PRIVATE_H
#define WEIR_RETRIEVAL_PRIVATE_H

#include "app/conversation/companion.h"
#include "app/retrieval/retrieval.h"

/* ---- companions ---- */

extern const struct companion_ops recall_ops, sources_ops, evidence_ops;
/* recall.c; its companion frees it. */
struct recall *recall_new(void);

/* ---- sources.c ---- */

/* What the search of documents has besides its result. */
struct source_search {
	struct sources last; /* of the last question */
	search_fn *search;
	void *search_ud;
	/* rerank.c; tokens that it may take for a question: 0 = not known yet, -1 = none */
	struct rerank {
		struct timeline *tl;
		int32_t tokens;
	} rerank;
};
struct source_search *search_of(const struct conversation *);
/* Another question is the last one: there are no sources and no evidence. */
void sources_forget(struct conversation *);

/* The page, chapter or section that a question names, where one document has it: 1 and its beginning, *end: where it
 * ends; or 0 (named_place.c). */
int named_place(const struct conversation *, const char *question, size_t n, struct source *out, size_t *end);
/* Where body[from .. to) ends when it is shortened to `most` bytes: behind its last sentence, else its last line, else
 * its last whole character. */
size_t cut_end(const char *body, size_t from, size_t to, size_t most);
/* The beginning of document i, and in it what answers such a question best: 1; 0: the document is empty
 * (about_document.c). */
int document_beginning(const struct conversation *, size_t i, enum whole_question, struct source *out);

/* ---- answer_sources.c ---- */

/* Evidence counts for the sources of the answer; what it attended to besides becomes another one. */
void answer_sources_attended(const struct conversation *, struct answer_sources *);
/* The sources of the last question again, from those of its answer: 1; 0: its documents are not all there, or it has
 * none. */
int sources_restore(struct conversation *, const struct answer_sources *);

/* ---- quote.c ---- */

/* 'report.pdf, page 12, "Methods"': where bytes [from, to) of document i's body stand; appended. */
void source_place(const struct conversation *, size_t i, size_t from, size_t to, struct str *out);
/* The best sentence of a source, on one line; appended. */
void source_quote(const struct conversation *, const struct source *, struct str *out);
/* The model is sent it: the passage, or at least its sentence. */
int source_sent(const struct conversation *, const struct source *);
/* Choose which passages go along with the question. */
void sources_choose(struct conversation *);
/* They are those that this context has, or that of an earlier question. */
void sources_chosen_before(struct conversation *, const struct str *context);
/* The chosen passages and the best sentence, as they stand in front of the question; appended. */
void question_context(struct conversation *, struct str *out);
/* The tokens that the answer begins with: of a model of few parameters the best sentence, as the question quotes it,
 * else none. */
void quotation_given(const struct conversation *, const char *question, size_t n, struct tokens *out);
/* Was the question sent with what a search of the documents found? */
int context_is_searched(const struct str *context);
/* "passages": the sources of the last question. */
void passages_json(const struct conversation *, struct str *out);

/* Text on one line: a line break in the middle of a sentence is a blank.  Appended. */
void text_on_one_line(const char *p, size_t n, struct str *out);
/* What a question's context quotes of the last question's sources, passages and best sentences: bytes from .. to of the
 * document's body, bytes at .. at + n of the context. Returns how many. */
struct quoted {
	size_t doc, from, to, at, n;
};
enum { QUOTED_MOST = 2 * SOURCES_MOST };
size_t context_quotes(const struct conversation *, const struct str *context, struct quoted out[QUOTED_MOST]);

/* ---- question.c ---- */

/* 1 if the question refers to what was said before. */
int question_refers(const char *question, size_t n);
/* 1 if the text asks for something that a sentence can tell; "Write a poem about plum cake." does not. */
int question_asks(const char *text, size_t n);

/* ---- recall.c ---- */

/* "recalled": the turns that were recalled for the last question. */
void recalled_json(const struct conversation *, struct str *out);

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
/* Before the model is closed. */
void rerank_close(struct rerank *);

#endif
