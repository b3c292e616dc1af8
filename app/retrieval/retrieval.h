/* app/retrieval/retrieval.h - what is found for a question, in documents and in evicted turns, and what an answer rests
 * on. */
#ifndef WEIR_RETRIEVAL_H
#define WEIR_RETRIEVAL_H

#include "app/conversation/conversation.h"
#include "engine/base/json.h"

enum { SOURCES_MOST = 10 };

/* ---- a text without an end (sources.c) ---- */

/* Such a text is indexed in parts, so that one that has grown is indexed again in its last part alone: where the part
 * ends that has byte `at` of p[0 .. n), which stands behind `skipped` bytes. */
size_t text_part_end(const char *p, size_t n, size_t skipped, size_t at);

/* ---- sources (sources.c, quote.c): the passages of the documents that answer a question ---- */

/* Find what the documents say about a question, which may lean on the messages so far. No message is added, and the
 * conversation's timeline is not touched. signals_watch() watches nothing afterwards. Without documents, or without an
 * index of them (hooks.search), nothing is found. After -1 (ERR_CANCELLED) *out is empty. */
int conversation_sources(struct conversation *, const char *question, size_t n, struct sources *out, struct err *);
void sources_free(struct sources *);
/* 'report.pdf, page 12, "Methods"': where bytes [from, to) of document i's body stand; appended. */
void source_place(const struct conversation *, size_t i, size_t from, size_t to, struct str *out);
/* The best sentence of a source, on one line; appended. */
void source_quote(const struct conversation *, const struct source *, struct str *out);
/* The model is sent it: the passage, or at least its sentence. */
int source_sent(const struct conversation *, const struct source *);

/* ---- the sources of an answer (answer_sources.c) ---- */

enum { ANSWER_SOURCES_MOST = SOURCES_MOST + 3 };
/* What people are shown of t->sources: what the model is sent, and of the others the best few that are not far below
 * the first. No sentence twice. Freed by answer_sources_free(). */
void answer_sources_found(const struct conversation *, struct answer_sources *out);
void answer_sources_free(struct answer_sources *);
/* The document that a source is in: its index, or SIZE_MAX: it is none of the conversation's any more, or has another
 * text. */
size_t answer_source_document(const struct conversation *, const struct answer_source *);
/* 'report.pdf, page 12, "Methods"', and for a text without pages its lines: ', lines 148-152'; appended. */
void answer_source_place(const struct answer_source *, struct str *out);
/* '[1] report.pdf, page 12, "Methods": "Its best sentence."', a line each; appended. */
void answer_found_lines(const struct answer_sources *, struct str *out);
/* "attention: [1] 62 %, [2] 30 %", and what was not found, a line each; appended. */
void answer_attended_lines(const struct answer_sources *, struct str *out);
/* "sources", a list in JSON, and back; what is none, or is more than a few, is left out. */
void answer_sources_json(const struct answer_sources *, struct str *out);
void answer_sources_read(struct jv list, struct answer_sources *out);
/* From what a session keeps beside a message, a JSON object: the context of a question, the sources of an answer. */
void message_read_stats(int role, const char *stats, struct message *to);
/* The same for an export: members of a JSON object, or the lines of an answer's sources (export_more_fn in
 * sessions/store/store.h). */
void message_export_more(int role, const char *stats, int json, struct str *out);

/* Does a question ask for a document as a whole, or what its beginning tells (about_document.c)? TITLE, ABOUT: the
 * beginning comes first among the sources; POINTS: where the search finds nothing. *doc: the document that it names, or
 * SIZE_MAX; *words: the words of a summary that it names, or 0. */
enum whole_question { WHOLE_NOT, WHOLE_TITLE, WHOLE_ABOUT, WHOLE_POINTS, WHOLE_SUMMARY };
enum whole_question asks_for_whole(const struct conversation *, const char *question, size_t n, size_t *doc,
                                   int32_t *words);

/* ---- recall (recall.c): evicted turns that a question asks about ---- */

/* Find them: t->recalled, which is empty where nothing is evicted, --recall is off or nothing is clearly about the
 * question. Needs hooks.add_message and hooks.find_sentences. 0, or -1 with ERR_CANCELLED. */
int conversation_recall(struct conversation *, const char *question, size_t n, struct err *);

/* ---- passages (passages.c): a document cut into passages that can be quoted ---- */

struct passage {
	size_t from, to;
}; /* bytes of the text; no white space at its ends */

/* Tokens of a passage. It ends with a paragraph once it has PASSAGE_LEAST, with a sentence once it has PASSAGE_GOOD,
 * and where else it can at PASSAGE_MOST; where a page or a section begins in any case. */
enum { PASSAGE_LEAST = 40, PASSAGE_GOOD = 80, PASSAGE_MOST = 120 };

/* The passages of a text in UTF-8, in order; free *out. end[n_token]: the byte behind each of its tokens, ascending. */
size_t passages_cut(const char *text, size_t n, const size_t *end, size_t n_token, const struct mark *, size_t n_mark,
                    struct passage **out);

/* ---- sources.c ---- */

/* The documents are numbered anew, or another question is the last one: t->sources and t->evidence are empty. */
void sources_forget(struct conversation *);

/* ---- answer_sources.c ---- */

/* t->evidence counts for the sources of the answer; what it attended to besides becomes another one. */
void answer_sources_attended(const struct conversation *, struct answer_sources *);
/* t->sources again, from those of an answer: 1; 0: its documents are not all there, or it has none. */
int sources_restore(struct conversation *, const struct answer_sources *);

/* ---- quote.c ---- */

/* Choose which passages of t->sources go along with the question. */
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

/* ---- evidence.c: what an answer rests on ---- */

/* Observe attention while the answer is generated: 1; 0 where there are no documents, or it cannot be observed.
 * evidence_end() then fills t->evidence. */
int evidence_begin(struct conversation *);
void evidence_end(struct conversation *);
/* "evidence": t->evidence. */
void evidence_json(const struct conversation *, struct str *out);

/* ---- recall.c ---- */

/* t->recalled as it stands in front of the question; appended. */
void recall_context(const struct conversation *, struct str *out);
void recall_forget(struct conversation *);
/* "recalled": the turns that were recalled for the last question. */
void recalled_json(const struct conversation *, struct str *out);

/* ---- rerank.c: how well passages explain a question ---- */

/* Before the model is closed. */
void rerank_close(struct conversation *);

#endif
