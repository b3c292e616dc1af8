/* app/retrieval/retrieval.h - finds passages of documents and evicted turns for a question, and the passages that an
 * answer rests on. */
#ifndef WEIR_RETRIEVAL_H
#define WEIR_RETRIEVAL_H

#include "app/conversation/conversation.h"
#include "engine/base/json.h"

struct indexed_text; /* a text to search, and the passages and sentences found in it: sessions/store/store.h */
struct found_passage;
struct found_sentence;

/* Add the companions of retrieval to a conversation: recall, sources, evidence. Call once, after
 * conversation_open(). */
void retrieval_join(struct conversation *);

/* ---- parts of a growing text (sources.c) ---- */

/* A growing text is indexed in parts of about 64 KiB, so that new text changes only the last part. Return the end of
 * the part that contains byte `at` of p[0 .. n). skipped: bytes of the text before p. */
size_t text_part_end(const char *p, size_t n, size_t skipped, size_t at);

/* ---- sources (sources.c, quote.c): the passages of the documents that answer a question ---- */

enum { SOURCES_MOST = 10 };

/* A passage that answers a question: bytes from .. to of the body of document `doc`. */
struct source {
	size_t doc;
	size_t from, to;         /* byte range of the passage */
	size_t quote, quote_end; /* byte range of its best sentence */
	size_t title, title_end; /* byte range of the document's title, sent with the passage; 0, 0: no title */
	double score;
	/* score far below the best source's: not shown to the user, and sent to the model only with --passages N */
	int weak;
	/* 1: the passage is sent with the question (the first source sends its best sentence in any case) */
	int chosen;
};
struct sources {
	struct source *at;
	size_t n; /* distinct passages, the best first; filled even if found is 0 */
	/* 1: a passage is good enough; 0: at[] has only the nearest passages, kept until the next question */
	int found;
	double seconds;
};

/* Find the passages of the documents that fit a question, the best first, into out[most]. Returns their number, or
 * -1. */
typedef int search_fn(const struct indexed_text *documents, size_t n_document, const char *question, size_t n,
                      struct found_passage *out, size_t most, void *ud, struct err *);
/* Set the function that searches the documents; NULL: documents are not searched. */
void sources_search_by(struct conversation *, search_fn *, void *ud);
/* Find the passages that answer a question, which may refer to earlier messages. Adds no message and leaves the
 * conversation's timeline unchanged. signals_watch() has no timeline afterwards. Without documents or without a
 * search function, *out is empty. Returns 0 or -1 (ERR_CANCELLED: stopped by the user); after -1 *out is empty. */
int conversation_sources(struct conversation *, const char *question, size_t n, struct sources *out, struct err *);
void sources_free(struct sources *);
/* Sources of the last question. */
const struct sources *sources_of(const struct conversation *);

/* ---- the sources of an answer (answer_sources.c) ---- */

enum { ANSWER_SOURCES_MOST = SOURCES_MOST + 3 };
/* List the sources of the last question for the user: all that are sent to the model, and the best few of the rest.
 * No sentence is listed twice. The caller frees *out with answer_sources_free(). */
void answer_sources_found(const struct conversation *, struct answer_sources *out);
/* Return the index of the document that contains a source. SIZE_MAX: the document is gone or its text has changed. */
size_t answer_source_document(const struct conversation *, const struct answer_source *);
/* Append the place of a source: 'report.pdf, page 12, "Methods"'; for a text without pages with its lines: ', lines
 * 148-152'. */
void answer_source_place(const struct answer_source *, struct str *out);
/* Append one line for each source found by search: '[1] report.pdf, page 12, "Methods": "Its best sentence."'. */
void answer_found_lines(const struct answer_sources *, struct str *out);
/* Append the attention shares of the sources found by search, "attention: [1] 62 %, [2] 30 %", and one line for each
 * source with attention that the search did not find. */
void answer_attended_lines(const struct answer_sources *, struct str *out);
/* Append the sources as JSON member "sources" (answer_sources_json), and read such a list back
 * (answer_sources_read): invalid sources, and more than ANSWER_SOURCES_MOST, are skipped. */
void answer_sources_json(const struct answer_sources *, struct str *out);
void answer_sources_read(struct jv list, struct answer_sources *out);
/* Read the JSON object `stats` stored with a message into *to: the context of a question, or the sources of an
 * answer. */
void message_read_stats(int role, const char *stats, struct message *to);
/* Append the data of message_read_stats() to an export: as members of a JSON object (json = 1), or as lines of text.
 * An export_more_fn (sessions/store/store.h). */
void message_export_more(int role, const char *stats, int json, struct str *out);

/* Tell if a question asks about a document as a whole (about_document.c). WHOLE_TITLE, WHOLE_ABOUT: the beginning of
 * the document becomes the first source. WHOLE_POINTS: only if the search finds nothing. *doc: the document that the
 * question names, or SIZE_MAX. *words: the length of the summary that it asks for, or 0. */
enum whole_question { WHOLE_NOT, WHOLE_TITLE, WHOLE_ABOUT, WHOLE_POINTS, WHOLE_SUMMARY };
enum whole_question asks_for_whole(const struct conversation *, const char *question, size_t n, size_t *doc,
                                   int32_t *words);

/* ---- recall (recall.c): evicted turns that a question asks about ---- */

/* An evicted turn recalled for a question. turn: its number, from 1; said, answered: sentences quoted from its
 * question and its answer, each on one line, or empty. */
struct recalled {
	size_t turn;
	struct str said, answered;
};
struct recalls {
	struct recalled *at; /* recalled turns, the best first */
	size_t n;
	double seconds; /* seconds the search took */
};

/* Index the text of a message. *number identifies the text: equal texts get equal numbers. anew: first empty the
 * index. */
typedef int add_message_fn(const char *text, size_t n, int anew, int64_t *number, void *ud, struct err *);
/* Find the sentences of all indexed texts that share a word with the question; the caller frees *out. Bit i of
 * *words: word i of the question was searched for; 0: it is too common. */
typedef int find_sentences_fn(const char *question, size_t n, struct found_sentence **out, size_t *n_out,
                              uint64_t *words, void *ud, struct err *);
/* Set the functions that index and search the messages; NULL: messages are not searched. */
void recall_search_by(struct conversation *, add_message_fn *, find_sentences_fn *, void *ud);
/* Turns recalled for the last question. Empty if nothing is evicted, --recall is off or no turn clearly fits. */
const struct recalls *recalls_of(const struct conversation *);

/* ---- evidence (evidence.c): what an answer rests on ---- */

/* A passage that the last answer attended to: bytes from .. to of the body of document `doc`. */
struct evidence {
	size_t doc, from, to;
	double share; /* share of the attention mass on all passages of the documents, 0 .. 1 */
};
enum { EVIDENCE_MOST = 5 };
struct evidence_list {
	struct evidence at[EVIDENCE_MOST]; /* passages with the largest shares, in descending order */
	size_t n;
	int attends;  /* 1: the engine sums attention for the current answer */
	int compared; /* 1: several passages have attention mass, so their shares are comparable */
	/* 1: hardly any attention mass is on the documents, so there is no evidence */
	int unattended;
};
/* Evidence of the last answer; empty unless answer_hooks.evidence was set. */
struct evidence_list *evidence_of(const struct conversation *);

#endif
