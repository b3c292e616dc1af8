/* app/retrieval/retrieval.h - finds the passages of documents and the evicted turns that a question asks about, and the
 * passages on which an answer is based. */
#ifndef WEIR_RETRIEVAL_H
#define WEIR_RETRIEVAL_H

#include "app/conversation/conversation.h"
#include "engine/base/json.h"

/* defined in sessions/store/store.h */
struct passage_index;
struct indexed_text;
struct found_passage;
struct found_sentence;

/* Add the turn hooks of this folder (memory, recall, sources, evidence, unsupported) to a conversation. A turn hook is
 * a table of callbacks that the conversation calls before, during and after an answer. Call once, after
 * conversation_open(). */
void retrieval_join(struct conversation *);

/* ---- parts of a text that is still being received (candidates.c) ---- */

/* Return the byte offset at which the part ends that contains byte `at` of p[0 .. n). A text that is still being
 * received is indexed in parts of about 64 KiB, so that new text changes only the last part. `skipped` is the number of
 * bytes of the text that were dropped before p. */
size_t text_part_end(const char *p, size_t n, size_t skipped, size_t at);

/* ---- sources (sources.c, quote.c): the passages of the documents that answer a question ---- */

enum { SOURCES_MOST = 10 };

/* A passage that answers a question. Its byte ranges are offsets in the body of document number `doc`. */
struct source {
	size_t doc;
	size_t from, to;         /* byte range of the passage */
	size_t quote, quote_end; /* byte range of the passage's best sentence */
	/* byte range of the words that answer the question; 0, 0 = unknown */
	size_t answer, answer_end;
	/* 1 = the best sentence probably answers the question without its neighbours, because it has most words of the
	 * question */
	int sure;
	/* byte range of the document's title, which is sent with the passage; 0, 0: no title */
	size_t title, title_end;
	double score;
	/* 1 = the score is far below the best source's score. A weak source is sent to the model only with --passages
	 * N. If it is not sent, it is not in the user's list of sources either. */
	int weak;
	/* 1 = the whole passage is sent with the question. If it is 0, the best sentence of the first source is sent
	 * anyway. */
	int chosen;
};
struct sources {
	/* [n] different passages, the best first; `found` tells whether at least one of them is good enough */
	struct source *at;
	size_t n;
	/* 1 = a passage is good enough to answer the question; 0 = at[] has only the nearest passages */
	int found;
	double seconds;
};

/* Score all passages of the documents for a question, like passages_score() (sessions/store/store.h). *index receives
 * the index that was searched, which also stores the vectors of the passages. Returns 0 or -1. */
typedef int search_fn(const struct indexed_text *documents, size_t n_document, const char *question, size_t n,
                      struct found_passage **out, size_t *n_out, struct passage_index **index, void *ud, struct err *);
enum { ENCODING_ON, ENCODING_STOP, ENCODING_LATER };
/* Report the progress of encoding: `done` of the `total` passages of a text are encoded. In the first call, `done` is
 * 0. Returns ENCODING_ON to continue; ENCODING_STOP if the user has stopped the work; ENCODING_LATER to postpone it:
 * the current question is then searched by words alone. */
typedef int encoding_fn(size_t done, size_t total, void *ud);
/* Set the functions that search the documents and report the progress of encoding. If `search` is NULL, documents are
 * not searched. If `encoding` is NULL, no progress is reported. */
void sources_search_by(struct conversation *, search_fn *search, encoding_fn *encoding, void *ud);
/* Find the passages that answer a question; the question may refer to earlier messages. The messages and the token
 * sequence of the conversation do not change. *out is empty if there are no documents or no search function. Returns 0;
 * or -1 with *out empty (ERR_CANCELLED: stopped by the user). This function may call signals_watch(NULL): signals then
 * no longer stop a timeline. */
int conversation_sources(struct conversation *, const char *question, size_t n, struct sources *out, struct err *);
/* Index the documents and encode their passages before the first question is asked. Returns 0 or -1. After
 * ERR_CANCELLED (stopped by the user) the passages encoded so far are kept. */
int conversation_index(struct conversation *, struct err *);
void sources_free(struct sources *);
/* Return the sources of the last question. */
const struct sources *sources_of(const struct conversation *);

/* ---- the sources of an answer (answer_sources.c) ---- */

enum { ANSWER_SOURCES_MOST = SOURCES_MOST + 3 };
/* List the sources of the last question for the user: all sources that are sent to the model, and up to three more.
 * No sentence is listed twice. The caller frees *out with answer_sources_free(). */
void answer_sources_found(const struct conversation *, struct answer_sources *out);
/* Return the index of the document that contains a source; SIZE_MAX if the document was removed or its text has
 * changed. */
size_t answer_source_document(const struct conversation *, const struct answer_source *);
/* Append the place of a source: 'report.pdf, page 12, "Methods"'. If the text has no pages, the place ends with line
 * numbers: ', lines 148-152'. */
void answer_source_place(const struct answer_source *, struct str *out);
/* Append one line for each source that the search found: '[1] report.pdf, page 12, "Methods": "Its best
 * sentence."'. */
void answer_found_lines(const struct answer_sources *, struct str *out);
/* Append the attention shares of the sources that the search found, as "attention: [1] 62 %, [2] 30 %". Then append a
 * line for each other passage that the answer attended to. */
void answer_attended_lines(const struct answer_sources *, struct str *out);
/* Write the sources as the JSON member "sources". */
void answer_sources_json(const struct answer_sources *, struct str *out);
/* Parse the value of the JSON member "sources". Invalid sources, and sources beyond ANSWER_SOURCES_MOST, are
 * skipped. */
void answer_sources_read(struct jv list, struct answer_sources *out);
/* Parse the JSON object `stats` that the database stores with a message. For a question, set to->context (the text
 * sent before it); for an answer, set to->sources. */
void message_read_stats(int role, const char *stats, struct message *to);
/* Append to an exported message the data that message_read_stats() reads. If `json` is 1, the data become members of a
 * JSON object, else lines of text. This function has the type export_more_fn (sessions/store/store.h). */
void message_export_more(int role, const char *stats, int json, struct str *out);

/* Classify a question about a document as a whole (about_document.c).
 * - WHOLE_TITLE, WHOLE_ABOUT: the beginning of the document becomes the first source.
 * - WHOLE_POINTS: if the search finds nothing, the beginning of the document becomes the first source.
 * - WHOLE_SUMMARY: the question asks for a summary. If the whole document is not in the prompt, its beginning becomes
 *   the first source.
 * *doc receives the index of the document that the question names, or SIZE_MAX. *words receives the wanted length of
 * the summary, or 0 if the question does not give it. */
enum whole_question { WHOLE_NOT, WHOLE_TITLE, WHOLE_ABOUT, WHOLE_POINTS, WHOLE_SUMMARY };
enum whole_question asks_for_whole(const struct conversation *, const char *question, size_t n, size_t *doc,
                                   int32_t *words);

/* ---- recall (recall.c): evicted turns that a question asks about ---- */

/* An evicted turn that a question asks about. `turn` is its number, from 1. `said` and `answered` are sentences quoted
 * from the turn's question and from its answer. Each is on one line, or empty. */
struct recalled {
	size_t turn;
	struct str said, answered;
};
struct recalls {
	struct recalled *at; /* recalled turns, the best first */
	size_t n;
	double seconds; /* seconds that the search took */
};

/* Index the text of a message. *number receives a number for the text; equal texts get equal numbers. If `anew` is 1,
 * empty the index before that. */
typedef int add_message_fn(const char *text, size_t n, int anew, int64_t *number, void *ud, struct err *);
/* Find the sentences of all indexed texts that share a word with the question. The caller frees *out. Bit i of *words
 * is 1 if word i of the question was searched for, and 0 if it is too common. */
typedef int find_sentences_fn(const char *question, size_t n, struct found_sentence **out, size_t *n_out,
                              uint64_t *words, void *ud, struct err *);
/* Set the functions that index and search the messages; If they are NULL, messages are not searched. */
void recall_search_by(struct conversation *, add_message_fn *, find_sentences_fn *, void *ud);
/* Return the turns recalled for the last question. The list is empty if no turn is evicted, if --recall is off, or if
 * no turn clearly matches. */
const struct recalls *recalls_of(const struct conversation *);

/* ---- memory (memory.c): facts that the user asked weir to remember, in any conversation ---- */

/* A fact. `from` is the name or title of the session in which it was told, or empty. `at` is the time in seconds since
 * 1970. */
struct known_fact {
	int64_t id, at;
	struct str text, from;
};
struct facts {
	struct known_fact *at; /* the facts; if they were sent with a question, the best fact comes first */
	size_t n;
	double seconds; /* seconds that the search took */
};
void facts_free(struct facts *);
/* Append all facts to *out. */
typedef int list_facts_fn(struct facts *out, void *ud, struct err *);
/* Set the function that lists the facts; NULL: there are no facts. */
void memory_list_by(struct conversation *, list_facts_fn *, void *ud);
/* Return the facts that were sent with the last question. The list is empty unless --memory is on. */
const struct facts *facts_of(const struct conversation *);

/* ---- evidence (evidence.c): what an answer rests on ---- */

/* A passage that the last answer attended to: bytes [from, to) of the body of document number `doc`. */
struct evidence {
	size_t doc, from, to;
	double share; /* this passage's share of the attention mass on all passages, from 0 to 1 */
};
enum { EVIDENCE_MOST = 5 };
struct evidence_list {
	struct evidence at[EVIDENCE_MOST]; /* passages with the largest shares, in descending order */
	size_t n;
	int attends;  /* 1 = the engine sums the attention of the current answer */
	int compared; /* 1 = at least two passages have attention mass, so their shares can be compared */
	/* 1 = the answer paid hardly any attention to the documents, so at[] is empty */
	int unattended;
};
/* Return the evidence of the last answer. It is empty if answer_hooks.evidence was not set for that answer. */
struct evidence_list *evidence_of(const struct conversation *);

/* ---- numbers and names of an answer that the model was not given (unsupported.c) ---- */

/* Append the words that are underlined in the last answer, each followed by a newline:
 * - numbers and names that occur in no text given to the model;
 * - numbers and names that do not occur in the passages that their sentence cites ("[2]");
 * - citation marks ("[7]") of passages that were not sent. */
void unsupported_words(const struct conversation *, struct str *out);
/* Append a line such as "not in the sources: 1872, Smith" about the last answer. Append nothing if all its numbers and
 * names are in the sources. An entry "1871 [2]" means that the answer cites passage 2 for 1871, but passage 2 does not
 * have 1871. */
void unsupported_line(const struct conversation *, struct str *out);

#endif
