/* app/retrieval/retrieval.h - what is found for a question, in documents and in evicted turns, and what an answer rests
 * on. */
#ifndef WEIR_RETRIEVAL_H
#define WEIR_RETRIEVAL_H

#include "app/conversation/conversation.h"
#include "engine/base/json.h"

struct indexed_text; /* a text that is searched, and what was found in it: sessions/store/store.h */
struct found_passage;
struct found_sentence;

/* Add what retrieval has to accompany the questions of a conversation: recall, sources, evidence.  Once, behind
 * conversation_open(). */
void retrieval_join(struct conversation *);

/* ---- a text without an end (sources.c) ---- */

/* Such a text is indexed in parts, so that one that has grown is indexed again in its last part alone: where the part
 * ends that has byte `at` of p[0 .. n), which stands behind `skipped` bytes. */
size_t text_part_end(const char *p, size_t n, size_t skipped, size_t at);

/* ---- sources (sources.c, quote.c): the passages of the documents that answer a question ---- */

enum { SOURCES_MOST = 10 };

/* A passage that answers a question: bytes of the body of document `doc`. */
struct source {
	size_t doc;
	size_t from, to;         /* the passage */
	size_t quote, quote_end; /* its best sentence */
	size_t title, title_end; /* the document's title goes along with the passage; 0 and 0: it does not */
	double score;
	/* far below the best one: not shown to people, and sent to the model only where a number of passages is set */
	int weak;
	/* the passage goes along with the question; where it is 0, the sentence of the first one does */
	int chosen;
};
struct sources {
	struct source *at;
	size_t n; /* distinct passages, the best first; also where none is good enough */
	/* 0: nothing is good enough; those that are nearest stay until the next question */
	int found;
	double seconds;
};

/* The passages of the documents that fit a question, the best first: how many (0 .. most), or -1. */
typedef int search_fn(const struct indexed_text *documents, size_t n_document, const char *question, size_t n,
                      struct found_passage *out, size_t most, void *ud, struct err *);
/* From now on the documents are searched by this function; NULL: they are not. */
void sources_search_by(struct conversation *, search_fn *, void *ud);
/* Find what the documents say about a question, which may lean on the messages so far. No message is added, and the
 * conversation's timeline is not touched. signals_watch() watches nothing afterwards. Without documents, or without an
 * index of them, nothing is found. After -1 (ERR_CANCELLED) *out is empty. */
int conversation_sources(struct conversation *, const char *question, size_t n, struct sources *out, struct err *);
void sources_free(struct sources *);
/* Those of the last question. */
const struct sources *sources_of(const struct conversation *);

/* ---- the sources of an answer (answer_sources.c) ---- */

enum { ANSWER_SOURCES_MOST = SOURCES_MOST + 3 };
/* What people are shown of the sources of the last question: what the model is sent, and of the others the best few that are not far below
 * the first. No sentence twice. The caller frees them with
 * answer_sources_free(). */
void answer_sources_found(const struct conversation *, struct answer_sources *out);
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

/* An evicted turn that was recalled for a question: its number, from 1 on, and what was found in its question and its
 * answer, each on one line; empty: nothing. */
struct recalled {
	size_t turn;
	struct str said, answered;
};
struct recalls {
	struct recalled *at; /* the best first */
	size_t n;
	double seconds; /* that finding them took */
};

/* Index the text of a message; *number: the same text has the same one.  anew: forget all others first. */
typedef int add_message_fn(const char *text, size_t n, int anew, int64_t *number, void *ud, struct err *);
/* The sentences of all indexed texts with a word of the question (free *out). *words: bit i = word i is not too common
 * to be looked for. */
typedef int find_sentences_fn(const char *question, size_t n, struct found_sentence **out, size_t *n_out,
                              uint64_t *words, void *ud, struct err *);
/* From now on the messages are searched by these functions; NULL: they are not. */
void recall_search_by(struct conversation *, add_message_fn *, find_sentences_fn *, void *ud);
/* Those for the last question: none where nothing is evicted, --recall is off or nothing is clearly about it. */
const struct recalls *recalls_of(const struct conversation *);

/* ---- evidence (evidence.c): what an answer rests on ---- */

/* A passage that the last answer attended to: bytes of the body of document `doc`. */
struct evidence {
	size_t doc, from, to;
	double share; /* of the attention mass on all passages of the documents */
};
enum { EVIDENCE_MOST = 5 };
struct evidence_list {
	struct evidence at[EVIDENCE_MOST]; /* the largest share first */
	size_t n;
	int attends;  /* attention is observed */
	int compared; /* the answer could attend to several passages, so their shares say something */
	/* its attention was on the question, hardly on the documents: there is no evidence */
	int unattended;
};
/* That of the last answer, where answer_hooks.evidence asked for it. */
struct evidence_list *evidence_of(const struct conversation *);

#endif
