/* app/retrieval/retrieval_private.h - declarations shared by the files of app/retrieval/. */
#ifndef WEIR_RETRIEVAL_PRIVATE_H
#define WEIR_RETRIEVAL_PRIVATE_H

#include "app/conversation/turn_hook.h"
#include "app/retrieval/retrieval.h"
#include "engine/encoder.h"
#include "sessions/store/store.h"

/* ---- turn hooks ---- */

extern const struct turn_hook_ops memory_ops, recall_ops, sources_ops, evidence_ops, unsupported_ops;
/* Create the state of the recall turn hook; recall_ops.free() frees it. */
struct recall *recall_new(void);

/* ---- sources.c ---- */

/* State of the sources turn hook. */
struct source_search {
	struct sources last; /* sources of the last question */
	search_fn *search;
	encoding_fn *encoding;
	void *search_ud;
	/* State of meaning.c. */
	struct meaning {
		/* the encoder, which is opened at the first question; NULL = none */
		struct encoder *encoder;
		/* value of --encoder when the encoder was opened, or could not be opened; NULL = not tried yet */
		const char *tried;
		/* [ENCODER_SIDES][dims]: for each enum encoder_side, the mean vector of usual questions */
		float *centre;
		float *question; /* [2][dims]: vector of the last question, and mean vector of the passages */
		/* buffer for the vectors of one text */
		struct str stored;
	} meaning;
	/* State of rerank.c. */
	struct rerank {
		/* the timeline (a token sequence with its KV cache) on which passages are scored */
		struct timeline *tl;
		/* maximum number of tokens that are computed for one question; 0 = not known yet, or the model is too
		 * large */
		int32_t tokens;
	} rerank;
};
struct source_search *search_of(const struct conversation *);
/* Forget the sources and the evidence of the last question. */
void sources_forget(struct conversation *);

/* Find the page, chapter or section that a question names (named_place.c). Returns 1 if exactly one document has this
 * place: *out is then a passage at the beginning of the place, and *end is the byte at which the place ends. Otherwise
 * returns 0. */
int named_place(const struct conversation *, const char *question, size_t n, struct source *out, size_t *end);
/* Return where to truncate body[from .. to), so that at most `most` bytes remain: after the last sentence that fits,
 * else after the last line, else after the last whole character. */
size_t cut_end(const char *body, size_t from, size_t to, size_t most);
/* Set *out to the beginning of document i. Its quote (out->quote) is the part of the beginning that best answers a
 * question of the given kind (WHOLE_...). Returns 1; 0 if the document is empty. In about_document.c. */
int document_beginning(const struct conversation *, size_t i, enum whole_question, struct source *out);

/* ---- candidates.c ---- */

/* A passage and its scores, all in units of bm25:
 * - `words` is the bm25 of the question's words;
 * - `meaning` is the score for the similarity of the passage's vector to the question's vector;
 * - `lean` is the score for words of the last turn and for the sources of its answer;
 * - `gain` is the score for the log odds that the encoder's reader gives. If there is no reader, it is the score
 *   for the query likelihood that the chat model gives. */
struct passage_candidate {
	/* the passage as the search has found it; found.text is the index of its document */
	struct found_passage found;
	double words, meaning, lean, gain;
	double similar; /* similarity to the question, computed by meaning.c; 0 = there is no encoder */
	double nats;    /* query likelihood, computed by rerank.c; 0 if there is a reader */
	/* log odds that the passage answers the question, computed by reading.c; 0 if there is no reader */
	double answers;
	/* bytes of the document's body that answer the question, found by reading.c; 0, 0 if there is no reader */
	size_t answer, answer_end;
	int judged;
	int contents; /* 1 = the passage is a table of contents (contents.c) */
};
struct candidates {
	struct passage_candidate *at; /* the passages that have a score, the best first */
	size_t n;
	/* number of judged passages, which come first; the reader or the chat model has scored these */
	int n_judged;
	int by_meaning; /* 1 = an encoder has compared the passages with the question */
	/* 1 = a reader has scored the judged passages, and has found the words in them that answer the question */
	int by_reading;
	int by_ranking; /* 1 = a reranker has scored the judged passages */
	/* the reader or reranker for the languages of the question and of the passages */
	enum encoder_reader_for reader;
	int english;   /* 1 = the question and the passages that are read are English */
	int found;     /* 1 = a passage is good enough to answer the question */
	int asks_what; /* 1 = the question asks who or what something is (question_subject) */
	/* for a question like "who is X": additional score of the first passage that has all words of X */
	double introduced;
	double nat; /* score that a passage gets for one nat of query likelihood */
	/* standard deviation of the passages' scores, without the scores of a reader or the chat model */
	double deviation;
};
/* Score the passages of all documents for a question. Returns 0 or -1; the caller frees c->at. */
int candidates_find(struct conversation *, const char *question, size_t n, struct candidates *c, struct err *);
/* Return candidate i as a source. */
struct source candidate_source(const struct candidates *, size_t i);

/* ---- contents.c ---- */

/* 1 if bytes [from, to) of a document's body are a table of contents: most lines are headings of the document. */
int passage_is_contents(const struct document *, size_t from, size_t to);

/* ---- last_turn.c ---- */

/* The texts that are compared with the passages. text[0] is the question. If the question refers to earlier messages
 * ("he", "that"), text[1] is the user's last message followed by the question; otherwise text[1] is empty. Some
 * questions with a pronoun can be understood without text[1], others cannot. So the mean of the vectors of both texts
 * is used. */
struct asked {
	struct str text[2];
};

/* Set the two texts of struct asked. */
void asked_set(const struct conversation *, const char *question, size_t n, struct asked *);
/* Append the question and the beginnings of the last turn's messages to *out. Return 1; 0 if there is no earlier turn. */
int with_last_turn(const struct conversation *, const char *question, size_t n, struct str *out);
/* If the question refers to earlier messages, raise the scores of the passages that the last answer names as its
 * sources, and of those beside them. The candidates must be in the order of the documents, with all scores but `gain`. */
void candidates_stay(const struct conversation *, const char *question, size_t n, struct candidates *);

/* ---- meaning.c ---- */

/* For each passage found[i], set similar[i] to the similarity between its meaning and the meaning of the question, from
 * -1 to 1; 0 means as similar as the average passage. found[0 .. n) must be in the order of the texts. Returns 1; 0 if
 * there is no encoder, if it failed, if there are too many passages, or if encoding was postponed; -1 if the user has
 * stopped (ERR_CANCELLED). */
int meaning_similar(struct conversation *, struct passage_index *, const struct indexed_text *text,
                    const struct asked *, const struct found_passage *found, size_t n, float *similar, struct err *);
/* Set the quote of a passage to the sentence that is closest in meaning to the question of the last call of
 * meaning_similar(). `body` is the text that contains the passage. Returns 0, or -1 if the user has stopped. */
int meaning_quote(struct conversation *, const char *body, struct found_passage *, struct err *);
/* Handle an error of the encoder. If the error is a stop by the user, return -1. Otherwise tell the user, close the
 * encoder and return 0. From then on, documents are searched by words alone. */
int without_meaning(struct conversation *, const struct err *);
/* Close the encoder. */
void meaning_close(struct meaning *);

/* ---- reading.c ---- */

/* Maximum number of passages that are scored for one question. READ_MOST applies to a reader, which takes about 0.04 s
 * of processor time for a passage with AVX-512. RANK_MOST applies to a reranker, which is a larger network. */
enum { READ_MOST = 96, RANK_MOST = SOURCES_MOST };
/* Set c->english, and c->reader to the encoder's reader (a network that reads question and passage) for the languages
 * of the question and of the best passages. Return 1; 0 if the encoder has no such reader. Call after
 * meaning_similar(). */
int reading_open(const struct conversation *, const struct asked *, struct candidates *);
/* Let c->reader score the best passages, with one of the two texts of struct asked as the question. Returns 0, even if
 * the reader failed and nothing is scored; -1 if the user has stopped. */
int candidates_read(struct conversation *, const struct asked *, struct candidates *, struct err *);
/* 1 if the reader can decide whether the documents answer the question. If it can, *found receives the decision, 1 or
 * 0. */
int reading_tells(const struct candidates *, const char *question, size_t n, int *found);
/* Set the quote of a passage that the reader has scored: the sentence in which the reader's answer begins. `body` is
 * the text of the document. */
void answer_quote(const char *body, struct passage_candidate *);

/* ---- answer_sources.c ---- */

/* Add the evidence of the answer to its list of sources. Evidence that is in a listed passage adds to the share of this
 * passage. Other evidence becomes a new source. */
void answer_sources_attended(const struct conversation *, struct answer_sources *);
/* Restore the sources of the last question from the sources that are stored with its answer. Returns 1; 0 if the answer
 * has no sources, or a document is missing. */
int sources_restore(struct conversation *, const struct answer_sources *);

/* ---- unsupported.c ---- */

/* Append the numbers and names of an answer that are in no text given to the model, one a line. */
void unsupported_find(const struct conversation *, const char *answer, size_t n, struct str *out);
/* If the model was asked to cite passages by their numbers, append the wrong citations of the answer, one per line. The
 * line "[7]" means that no passage 7 was sent. The line "1871 [2]" means that the answer cites passage 2 for 1871, and
 * 1871 is not in passage 2 but in other text that was given to the model. 1871 stands for any number or name. `list`
 * has the sources of the answer. */
void marks_find(const struct conversation *, const struct answer_sources *list, const char *answer, size_t n,
                struct str *out);

/* ---- quote.c ---- */

/* Append the best sentence of a source, on one line. */
void source_quote(const struct conversation *, const struct source *, struct str *out);
/* 1 if the model has the source in its context: the whole passage, or its best sentence. */
int source_sent(const struct conversation *, const struct source *);
/* Choose the passages that are sent with the question, and set source.chosen. */
void sources_choose(struct conversation *);
/* Set source.chosen of all sources when a question is asked again. The value is 1 if the prompt has the source's text.
 * The text may be in `context`, which is sent with this question, or in the context of an earlier question. */
void sources_chosen_before(struct conversation *, const struct str *context);
/* Append the text that is sent before the question: the chosen passages, then the best sentence. */
void question_context(struct conversation *, struct str *out);
/* 1 if the model's answers should begin with the quoted best sentence: the model is small, and its template lets an
 * answer begin with any text. */
int quotes_first(const struct conversation *);
/* If quotes_first() returns 1, append the tokens of the quoted best sentence. */
void quotation_given(const struct conversation *, struct tokens *out);
/* 1 if a question's context (the text sent before it) has a passage or a sentence that the search found. */
int context_is_searched(const struct str *context);
/* 1 if a question's context asks the model to mark its sentences with the numbers of passages, "[1]". */
int context_asks_for_marks(const struct str *context);
/* Append JSON member "passages": the sources of the last question. */
void passages_json(const struct conversation *, struct str *out);

/* Append the text on one line: each sequence of white space becomes one blank, and each border of a table, too
 * (box_skip()). */
void text_on_one_line(const char *p, size_t n, struct str *out);
/* A quotation of a source in a question's context. Bytes [at, at + n) of the context are the quotation; it quotes bytes
 * [from, to) of the body of document `doc`. */
struct quoted {
	size_t doc, from, to, at, n;
};
enum { QUOTED_MOST = 2 * SOURCES_MOST };
size_t context_quotes(const struct conversation *, const struct str *context, struct quoted out[QUOTED_MOST]);

/* ---- question.c ---- */

/* 1 if the question refers to earlier messages ("And why did he leave?"). */
int question_refers(const char *question, size_t n);
/* 1 if the question has a word with which users speak of themselves: "my", "we", "mein", "nous". */
int question_is_own(const char *question, size_t n);
/* Return the number of words of a question that are not function words. Example: 0 for "And why did he do it?". */
int question_own_words(const char *question, size_t n);
/* 1 if the question is probably English: it has a frequent English word. */
int question_is_english(const char *question, size_t n);
/* Return the number of frequent English words of a text, and add the number of all its words to *words. */
size_t english_words(const char *text, size_t n, size_t *words);
/* Return the part of a message that asks, which is searched for, and set *n to its length. Of a long message, such as a
 * log that was pasted with a question, it is the last line, or the first one if only that asks: it has a question mark,
 * or question_wants_text(). A shorter message is returned whole. */
const char *question_in_message(const char *message, size_t *n);
/* 1 if the request is for a new text, which no sentence of a document can be: "Please write a poem about plum cake." */
int question_wants_text(const char *question, size_t n);
/* 1 if the text only greets, thanks or agrees ("ok, thanks!"), so that no document is searched for it. */
int question_is_small_talk(const char *question, size_t n);

enum { SUBJECT_WORDS = 3, SUBJECT_BYTES = 40 };
/* What a question like "who is X" asks about: the words of X in lower case, without function words. n = 0: the question
 * asks something else. */
struct subject {
	char word[SUBJECT_WORDS][SUBJECT_BYTES];
	int n;
};
struct subject question_subject(const char *question, size_t n);

/* ---- text_words.c: the words of a text ---- */

struct word {
	const char *p;
	size_t n;
};
/* Set *w to the next word of text[0 .. n) from byte *i on, and set *i to the end of this word. A word consists of
 * letters, digits and bytes beyond ASCII, and of '.', ',' and ':' between two digits. Returns 1; 0 at the end of the
 * text. */
int word_next(const char *text, size_t n, size_t *i, struct word *w);
/* Append the key of a word, which is the same for all its spellings. The key of "12,500" is "12500", that of "2,5" is
 * "2.5", that of "18th" is "18", that of "Seven" is "7", and that of "Smith" is "smith". */
void word_key(struct word, struct str *out);
/* 1 if byte `at` is the beginning of a sentence, of a line, or of a quotation after a colon. */
int sentence_begins(const char *text, size_t at);

/* ---- comparison.c ---- */

/* 1 if the question compares two names ("Is X older than Y?"), some of the best passages have X, some have Y, and no
 * passage has both. */
int comparison_found(const struct conversation *, const struct candidates *, const char *question, size_t n);

/* ---- recall.c ---- */

/* Append JSON member "recalled": the turns recalled for the last question. */
void recalled_json(const struct conversation *, struct str *out);

/* ---- memory.c ---- */

/* State of the memory turn hook. `index` has the words and vectors of the facts, in memory; it is NULL until the first
 * search. */
struct memory_search {
	struct facts last; /* facts that were sent with the last question */
	list_facts_fn *list;
	void *list_ud;
	struct passage_index *index;
};
/* Move the facts that a question asks about from *all to *out, the best first. Returns 0; or -1 with *out empty. */
int memory_find(struct conversation *, struct facts *all, const char *question, size_t n, struct facts *out,
                struct err *);

/* ---- rerank.c: how well passages explain a question ---- */

struct quote {
	const char *p;
	size_t n;
};
/* Score quotes by query likelihood: gain[i] = log p(question | quote i) - log p(question), in nats. *scored receives
 * how many quotes, from the first one on, were scored. With a large model, fewer than `count` quotes are scored; if
 * memory is short, none. Returns 0, or -1 if a signal has stopped the work (ERR_CANCELLED). */
int rerank_gains(struct conversation *, const char *question, size_t n, const struct quote *, int count, double *gain,
                 int *scored, struct err *);
/* Free the timeline of rerank.c. Call before the model is closed. */
void rerank_close(struct rerank *);

#endif
