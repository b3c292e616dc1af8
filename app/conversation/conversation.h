/* app/conversation/conversation.h - a conversation: its messages and the loop that answers.
 *
 * A turn is a question and its answer. Every turn renders the whole conversation to tokens, and timeline_sync()
 * keeps the KV entries of all leading tokens that did not change. So undo, regenerate and a new system prompt only
 * edit the list of messages. Answers keep their sampled token ids, because tokenizing their text again could give
 * other tokens.
 *
 * The system prompt and the whole documents are called the prefix. A growing message is a text that is prefilled
 * while it is read from a stream (a pipe or file); the next question is appended to it. */
#ifndef WEIR_CONVERSATION_H
#define WEIR_CONVERSATION_H

#include "app/options/options.h"
#include "app/term/term.h"
#include "engine/base/json.h"
#include "engine/engine_view.h"

struct remote;

/* Where a text is in the newest rendering of the conversation to tokens. first: index of its first token; -1 = the
 * text is not rendered. byte: offset of its first byte in the rendered text. */
struct text_at {
	int32_t first;
	size_t byte;
};

struct doc; /* an imported file: text, page and heading marks, origin (sessions/import/import.h) */
struct mark;
struct doc_origin;
struct undone; /* an entry of the redo stack: conversation_private.h */

/* A source of an answer: a passage of a document. It is stored with the answer and may outlive the document, so it
 * has copies of all that is displayed. */
struct answer_source {
	char *doc, *page, *heading; /* name of the document; page and heading of the passage, or NULL */
	int recognised;             /* as in struct document_place */
	size_t line, last_line;     /* first and last line of the passage, from 1; 0 for a document with pages */
	size_t from, to;            /* byte range of the passage in the document's body */
	/* byte range of the quote: the best sentence of the passage if found is 1, else the passage's beginning */
	size_t quote, quote_end;
	char *text;            /* the quote on one line */
	size_t mark, mark_end; /* [mark, mark_end): bytes of text that answer the question; 0, 0 = not known */
	int found;             /* 1 = found by the search, before the answer; 0 = only by the answer's attention */
	double score;          /* score of the search */
	int sent;              /* 1 = the passage was in the prompt */
	/* share, 0 .. 1, of the answer's attention on documents that this passage got; < 0 = unknown or not
	 * comparable */
	double share;
};
struct answer_sources {
	struct answer_source *at;
	size_t n;
};

struct message {
	enum chat_role role;
	struct str text;
	struct str context;            /* of a question: quoted passages, rendered before `text` */
	struct tokens id;              /* answer: the sampled tokens */
	struct answer_sources sources; /* answer: its sources (app/retrieval/answer_sources.c) */
	struct text_at place;          /* where `text` is in the rendering */
	struct text_at context_place;
	int64_t stored;  /* row id in the store; 0 = not stored */
	int64_t number;  /* id in the search index of messages; 0 = not indexed yet (app/retrieval/recall_turns.c) */
	int interrupted; /* answer: 1 = cut short by a crash or a signal */
	/* read: in a growing message (a text read from a stream), number of bytes of the stream; in other messages 0.
	 * After a question was appended, `text` consists of `read` bytes of the stream, a blank line, `quoted` bytes of
	 * passages, and the question. */
	size_t read;
	size_t quoted;
};

/* A document of the conversation. text: the document's name, then the file's text (body), as the model reads them. */
struct document {
	char *name; /* name without control characters */
	/* 1 = the whole text is prefilled before the first question; 0 = questions are sent with passages of it */
	int whole;
	struct str text;
	size_t body, n_body; /* offset and number of the file's own bytes in text */
	size_t tokens;       /* number of tokens of text, maybe an estimate */
	struct text_at place;
	size_t at;      /* number of messages when the document was added */
	uint64_t bytes; /* size of the file in bytes */
	int64_t stored; /* row id in the store; 0 = not stored */
	int type;       /* value of enum doc_type */
	struct mark *mark;
	size_t n_mark;             /* number of marks (pages and headings); their byte offsets count from body */
	struct doc_origin *origin; /* the file; never NULL, maybe empty */
	struct document *before;   /* owned: the replaced version, for undo until the next answer; NULL = none */
	size_t replaced;           /* number of messages when `before` was replaced */
	int told;                  /* 1 = the user was told that the file has changed */
	/* 1 = the document is the text of a growing message: it is still being read from a stream. Questions search the
	 * document. The store keeps it only as the message's text */
	int grows;
	size_t skipped, lines; /* if grows: bytes and lines of the stream that precede body and are not searched */
	/* 1 = the documents added at the same time are together too many for the context, so all of them are
	 * searched */
	int many;
	int renewed; /* 1 = row `stored` of the store has an older version */
};

/* Page ("12", "xii") and heading ("Methods") of a passage, as printed in the document; NULL = none. */
struct document_place {
	const char *page, *heading;
	int recognised; /* 1 = the page's text was recognised in a picture, and may hold errors */
};

/* A folder whose files are documents. left: files in the folder and its subfolders, sorted by path, that are not
 * documents. `why` says why not: 'b' = the file could not be read; 's' = a document has the same name and text; 'd' =
 * the user has dropped the document. Exception: 'k' = the file is a document, although the folder's listing leaves it
 * out. */
struct folder_file {
	char *path;
	int64_t size, mtime; /* as in struct doc_origin */
	char why;
};
struct folder {
	char *path; /* absolute path of the folder */
	struct folder_file *left;
	size_t n_left, cap_left;
	int told; /* 1 = the user was told that the folder cannot be listed */
};

enum answer_stop { STOP_EOS, STOP_LENGTH, STOP_CANCEL, STOP_NOT_FOUND, STOP_LOOP };

/* What one turn did. */
struct turn {
	enum answer_stop stop;
	int answered; /* 1 = the prompt was prefilled and there is an answer, maybe an empty one */
	int32_t prompt_tokens, reused_tokens, answer_tokens;
	/* number of cached tokens that were prefilled again, because rollback cannot restore evicted entries */
	int32_t recomputed;
	int outgrown; /* 1 = tokens are evicted now; after the turn before, none were */
	int loop;     /* STOP_LOOP: period of the loop in tokens */
	/* model on a server: number of oldest messages that the request leaves out; 0 if it leaves out no more than the
	 * turn before did */
	size_t left_out;
	int guessed;   /* 1 = left_out rests on an estimate of the tokens */
	int estimated; /* 1 = prompt_tokens is an estimate, because the server did not report it */
	double ttft_s, prefill_tps, decode_tps;
	int32_t drafted, accepted; /* numbers of draft tokens of speculative decoding */
	uint64_t random[4]; /* state of the random generator before the answer; all 0 = an answer was continued */
	struct attention_read read;
};

/* ---- events ----
 *
 * Every change of a conversation emits one event. conversation_emit() calls the observers synchronously, in the order
 * in which they were added, on the thread that runs the conversation. */

enum conversation_event_what {
	EVENT_QUESTION,           /* the last message is a new question: an answer follows */
	EVENT_QUESTION_WITHDRAWN, /* the new question was removed, because no answer to it began */
	EVENT_ANSWER_WITHDRAWN,   /* the last answer was removed, to be regenerated */
	/* the last message is an answer, which is empty or has the text that /continue extends */
	EVENT_ANSWER_BEGAN,
	EVENT_ANSWER_GREW,  /* the answer has one more token */
	EVENT_ANSWER_ENDED, /* the answer is complete; turn: its statistics */
	EVENT_UNDONE,       /* messages at the end were undone; msg[0 .. n_msg) are left */
	EVENT_REDONE,       /* undone messages were restored at the end */
	EVENT_CLEARED,      /* all messages were removed */
	/* message i is the last one again: the turns after it were removed. It is a text read from a stream */
	EVENT_RETURNED,
	EVENT_TEXT_GREW,         /* the last message, a text read from a stream, has new text from byte i on */
	EVENT_DOCUMENT_ADDED,    /* document i, the last one, was added */
	EVENT_DOCUMENT_DROPPED,  /* document i is about to be removed */
	EVENT_DOCUMENT_PUT_BACK, /* document i was restored at its old index, or replaced by another version */
	EVENT_SETTINGS,          /* options, cache policy or system prompt changed */
	EVENT_PREFILL_GREW,      /* a chunk was prefilled */
	/* a prefill has ended without an answer: it was stopped or failed, or no answer was asked for */
	EVENT_PREFILL_ENDED,
	EVENT_NOTICE,   /* text: a sentence for the user */
	EVENT_OPENING,  /* allocation of the KV cache; i: 1 = it begins; 0 = it has ended or failed */
	EVENT_RECALLED, /* evicted turns were found for the question that is asked */
	EVENT_SOURCES,  /* passages of documents were found for the question that is asked */
};
struct conversation_event {
	enum conversation_event_what what;
	size_t i;
	const struct turn *turn;
	const char *text;
};
struct conversation;
typedef void observer_fn(struct conversation *, const struct conversation_event *, void *ud);
struct observer {
	observer_fn *fn;
	void *ud;
};
enum { OBSERVERS_MOST = 4 };

/* Functions that the session log provides; each may be NULL. */
struct conversation_hooks {
	/* Load saved KV entries for the prompt *want into the timeline, before the prompt is prefilled. The timeline
	 * already has the entries of its first `same` tokens. */
	void (*fetch)(struct conversation *, const struct tokens *want, size_t same, void *ud);
	/* Find a turn of an earlier run that followed the last message and was undone in that run. Returns 1: out[0] is
	 * the question and out[1] the answer, and the caller frees both. 0: there is none. -1: error. */
	int (*next_turn)(struct conversation *, struct message out[2], void *ud, struct err *);
	void *ud;
};

struct companion_ops; /* functions that the conversation calls at each question (companion.h) */
struct companion {
	const struct companion_ops *ops;
	void *self;
};

struct answerer; /* functions of a model in this process or on a server (conversation_private.h) */
struct conversation {
	const struct answerer *by;      /* the model's functions; NULL = no model is open */
	const struct engine_info *info; /* properties of the model; a server reports only some of them */
	struct engine *engine;          /* NULL if the model is on a server */
	struct timeline *tl;            /* NULL if the model is on a server */
	struct served {                 /* state of a model on a server (answer_remote.c) */
		struct remote *remote;
		struct engine_info info;
		/* number of oldest messages that are not sent, because they do not fit the context */
		size_t left_out;
		int32_t tokens;         /* tokens of the last prompt and its answer */
		int counted;            /* 1 = the server counted these tokens; 0 = an estimate */
		int32_t reused, answer; /* cached prompt tokens and answer tokens of the last turn */
		double prefill_s, decode_s;
	} served;
	const struct options *o;
	/* sampling settings, and the state of the random generator, which is kept from turn to turn */
	struct sampling sampling;
	struct tokens given;            /* tokens that the answer is forced to begin with */
	int guarded;                    /* 1 = a sentence of the answer is shown only if all companions allow it */
	struct sampling_choice sampled; /* sampling settings in force, and the origin of each */
	struct str system;
	int has_system;
	char *kv; /* cache policy set during the conversation; NULL = as in the options */
	struct message *msg;
	size_t n_msg, cap_msg;
	struct document *doc;
	size_t n_doc;
	struct folder *folder; /* [n_folder] the folders that were opened */
	size_t n_folder;
	int folders_changed;   /* 1 = the store has an older list of the folders */
	const char *docs;      /* the value of --docs when document.whole was set */
	struct undone *undone; /* redo stack, newest entry last */
	size_t n_undone;
	struct rendered rendered; /* the conversation as it was rendered last */
	size_t rendered_msg;      /* number of messages in `rendered` */
	unsigned rendered_flags;  /* enum render_flags with which `rendered` was made */
	struct tokens prefix;     /* tokens before the first question: system prompt and documents */
	int prefix_known;         /* 1 = prefix is up to date */
	int32_t pinned;           /* number of prefix tokens that the cache never evicts; -1 = not pinned yet */
	int grows; /* 1 = the last message is still being read from a stream; the next question is appended to it */
	struct turn last;
	uint64_t total_answer; /* number of tokens of all answers */
	int outgrown;          /* 1 = at the end of the last turn, some tokens were evicted */
	struct companion *companion;
	int n_companion, cap_companion;
	struct observer observer[OBSERVERS_MOST];
	int n_observer;
	struct conversation_hooks hooks;
};

/* Open the model and a timeline for it, or connect to a server. observer: receives all events, from opening on; may be
 * NULL. Returns 0, or -1 with nothing left open. */
int conversation_open(struct conversation *, const struct options *, observer_fn *, void *ud, struct err *);
void conversation_close(struct conversation *);
/* 1 if a model is open, in this process or on a server. */
int conversation_is_open(const struct conversation *);
/* Fill in the numbers of tokens, the context size and the speeds. For a model on a server, members that the server
 * does not report are 0. */
void conversation_stats(const struct conversation *, struct timeline_stats *);
/* Append the names of the server's models, one per line; append nothing if the model is in this process. */
void conversation_server_models(const struct conversation *, struct str *out);
/* Return 0 if the model is in this process. Otherwise return -1, with the error that `what` (such as "/stream") needs a
 * model in this process. */
int conversation_needs_local(const struct conversation *, const char *what, struct err *);
/* Apply the sampling options and the model's recommended settings. reseed: 1 = also seed the random generator. */
void conversation_sampling(struct conversation *, int reseed);
/* Set *out to the sampling settings for this model. Each setting comes from the first source that has it; the sources
 * are the user, the model file, the model family and the defaults. engine NULL: the server chooses the settings that
 * the user has not given. */
void sampling_choose(const struct options *, const struct engine *, struct sampling_choice *out);
/* Append the value of a setting, as "0.6". sampling_show: with its origin, as "0.6 (family: Qwen3)". */
void sampling_value(const struct sampling_choice *, enum sampling_setting, struct str *out);
void sampling_show(const struct sampling_choice *, enum sampling_setting, struct str *out);
/* Append all settings in effect, as "temp 0.5 (yours); top-k 40, top-p 0.9, min-p 0.05 (default)". */
void sampling_line(const struct sampling_choice *, struct str *out);
/* Append all settings as a JSON object. */
void sampling_json(const struct sampling_choice *, const char *key, struct str *out);
/* Read sampling settings from the JSON object that sampling_json() writes. Returns the settings that were read, as bits
 * 1 << enum sampling_setting. */
unsigned sampling_from_json(struct jv, struct sampling *out);
/* Change the cache policy to `text`. Returns the number of tokens to recompute before the next answer, or -1 with the
 * old policy restored. If even the old policy's cache can no longer be allocated, no model is open after -1. where:
 * name of the setting, for error messages. */
int32_t conversation_change_policy(struct conversation *, const char *where, const char *text, struct err *);

/* Change to the model that *next names. Returns the number of tokens to recompute before the next answer, or -1 with
 * the old model open. If even the old model cannot be opened again, no model is open after -1. */
int32_t conversation_change_model(struct conversation *, const struct options *next, struct err *);
/* 1 if the tokens spell exactly text[0 .. n) in the engine's vocabulary, or if engine is NULL. */
int tokens_match_text(const struct engine *, const int32_t *id, size_t n_id, const char *text, size_t n);

/* ---- how an answer was made (answer_record.c) ---- */

struct answer_record {
	uint64_t random[4];       /* state of the random generator before the answer */
	struct sampling sampling; /* values of the settings whose bits sampling_set has */
	unsigned sampling_set;    /* known settings: bits 1 << enum sampling_setting */
	int32_t ctx;              /* context size in tokens */
	/* most tokens of the answer (-n), or the number of its tokens if it was stopped; -1 = no limit */
	int32_t limit;
	struct str sha256, device; /* SHA-256 of the model file; the processor, as "cpu avx512, 2 threads" */
};
/* Append the record of the answer that turn describes, as JSON member "made". sha256: SHA-256 of the model file, 64
 * hexadecimal digits; NULL = unknown. */
void answer_record_json(const struct conversation *, const struct turn *, const char *sha256, struct str *out);
/* Read the record from `stats`, the JSON that is stored with an answer. Returns 0, or -1 if it has no record: an older
 * weir stored the answer, or the answer was continued. Call answer_record_free() in both cases. */
int answer_record_read(const char *stats, struct answer_record *);
void answer_record_free(struct answer_record *);

/* ---- documents (documents.c) ---- */

/* Add a document. --docs decides whether it is prefilled whole before the first question, or searched. Returns 0; 1
 * if the conversation already has the same document; -1 with ERR_FIT if --docs is "whole" and the document does not
 * fit. */
int conversation_add_document(struct conversation *, const struct doc *, struct err *);
/* Add a document that an earlier run stored, without an event. at: number of messages when it was first added. */
int conversation_restore_document(struct conversation *, const struct doc *, size_t at, struct err *);
/* Find the page and the heading above the first byte of [from, to) that is not blank; byte offsets count from the
 * document's body. If no heading is above this byte, take the first heading within the range. */
void document_place(const struct document *, size_t from, size_t to, struct document_place *out);
typedef void recognition_fn(int32_t page, int32_t pages, double left, void *ud);
/* Let the import recognise scanned pages and pictures as the options say, and call progress (may be NULL) before each
 * page. Call it before each import: the options may have changed. In recognition.c. */
void recognition_begin(const struct options *, recognition_fn *progress, void *ud);
/* Append the path of the folder that keeps recognised pages. -1: it is unknown or cannot be made. */
int recognition_folder(struct str *out);
/* Append "recognising page 3 of 22, 40 s left". left: seconds, < 0 = unknown. */
void recognition_text(int32_t page, int32_t pages, double left, struct str *out);
/* Return the index of the document that was imported from file `path`, or SIZE_MAX. */
size_t conversation_document_of(const struct conversation *, const char *path);
/* Replace document i by a newer version. Returns 0, or -1 with no change if the new version does not fit. */
int conversation_replace_document(struct conversation *, size_t i, const struct doc *, struct err *);
/* Like conversation_replace_document(), but undo cannot restore the old version. */
int conversation_renew_document(struct conversation *, size_t i, const struct doc *, struct err *);
/* Remove each document i with gone[i] = 1. Redo cannot restore these documents. If any document is removed, the redo
 * stack is emptied. */
void conversation_forget_documents(struct conversation *, const char *gone);
/* Undo the replacement of a document, if no message has been added since. Returns 1 and appends the document's
 * name; 0 if there is nothing to undo; -1 if the old version does not fit. */
int conversation_undo_replaced(struct conversation *, struct str *name, struct err *);
/* Undo adding the last document, if no message has been added since. Returns 1 and appends its name, or 0 if there
 * is nothing to undo. */
int conversation_drop_last_document(struct conversation *, struct str *name);
/* Move document i to the redo stack, and append its name to *name (may be NULL). The next turn recomputes the tokens
 * after the document. */
void conversation_drop_document(struct conversation *, size_t i, struct str *name);
/* Free all documents, without an event. */
void conversation_drop_documents(struct conversation *);

/* ---- a growing message: a text still being read from a stream (app/reader) ---- */

/* Return the offset of the question in the text of a user's message. In a growing message the question follows the
 * bytes of the stream, a blank line (2 bytes) and the quoted passages; without a question, return the text's length. */
static inline size_t question_at(const struct message *m)
{
	return m->read < m->text.n ? m->read + (m->read ? 2 : 0) + m->quoted : m->text.n;
}
/* Make the text of a growing message searchable, as a document with `grows` set: add this document, or replace the
 * earlier one. NULL removes it. skipped, lines: bytes and lines of the stream before the document's body. */
void conversation_read_document(struct conversation *, const struct doc *, size_t skipped, size_t lines);

/* ---- turns ---- */

typedef int answer_text_fn(const char *bytes, size_t n, void *ud, struct err *); /* Returns 0, or -1 to stop the turn */
struct answer_hooks {
	answer_text_fn *text;
	void *text_ud;
	timeline_progress_fn *progress;
	void *progress_ud;
	int without_documents; /* do not search the documents for this question */
	int stop_loops;        /* stop an answer that repeats itself: STOP_LOOP */
	int evidence;          /* 1 = measure the answer's attention on the documents (app/retrieval/evidence.c) */
};
/* Return the number of tokens in the cache that are not evicted. */
int32_t tokens_in_cache(const struct timeline_stats *);
/* Append what the cache has evicted, as "1,234 of 9,426 tokens evicted, 99 in part" (in part: in some layers or
 * heads). Returns 0 if nothing was evicted. */
int describe_evicted(const struct timeline_stats *, struct str *out);
/* Append the tokens of the whole conversation to *out. reply_head: 1 = append the tokens with which the template
 * begins an answer. */
int conversation_render(struct conversation *, int reply_head, struct tokens *out, struct err *);
/* Prefill documents and messages before the next question is asked. Returns the number of tokens computed, or -1.
 * After ERR_CANCELLED the next turn completes the prefill. */
int32_t conversation_prefill(struct conversation *, timeline_progress_fn *progress, void *ud, struct err *);
/* Append a question and generate the answer. hooks->text gets the answer's text token by token. Returns 0, or -1 with
 * ERR_CANCELLED, ERR_FIT, ...; *turn is set in both cases. If the turn is stopped during prefill, the question is
 * removed. If it is stopped later, the answer so far is kept.
 *
 * Call signals_work(1) before this function and the next two, and signals_work(0) after them. Otherwise a signal that
 * comes while no timeline runs would be lost. */
int conversation_ask(struct conversation *, const char *text, size_t n, const struct answer_hooks *, struct turn *,
                     struct err *);
/* Replace the last answer by a new one. If the user stops before the new answer begins, the old one is kept.
 * ERR_USAGE if there is no question. */
int conversation_regenerate(struct conversation *, const struct answer_hooks *, struct turn *, struct err *);
/* Continue the last answer, which was stopped or cut. turn->answer_tokens: number of new tokens; 0 = nothing was
 * added. */
int conversation_continue(struct conversation *, const struct answer_hooks *, struct turn *, struct err *);
/* Add an observer (at most OBSERVERS_MOST), or remove one (conversation_ignore). */
void conversation_observe(struct conversation *, observer_fn *, void *ud);
void conversation_ignore(struct conversation *, observer_fn *, void *ud);
/* Apply changed options and emit EVENT_SETTINGS. reseed: 1 = also seed the random generator. */
void conversation_options_changed(struct conversation *, int reseed);
/* Append a message of an earlier run, with its token ids, without an event. */
struct message *conversation_message(struct conversation *, enum chat_role, const char *text, size_t n,
                                     const int32_t *id, size_t n_id);
/* Undo the last n turns, and return how many were undone. If the question was appended to a growing message (a text
 * read from a stream), question and answer are removed and the text stays; only the next undo removes the text. */
size_t conversation_undo(struct conversation *, size_t n);
/* Redo the last undone turn or dropped document. If the redo stack is empty, redo the turn that an earlier run has
 * undone. Returns 1 (and appends the name of a restored document), 0 if there is nothing to redo, or -1. */
int conversation_redo(struct conversation *, struct str *name, struct err *);
/* Return how many cached tokens belong to the conversation. Until the next question the cache may also have tokens of
 * undone or cleared messages. */
int32_t conversation_cached_tokens(const struct conversation *, const struct timeline_stats *);
/* Empty the redo stack and free the versions of documents that were replaced. */
void undo_forget(struct conversation *);
/* Remove the messages from index `from` on. No event is sent, and redo cannot restore them. The next question
 * updates the KV cache. */
void conversation_cut(struct conversation *, size_t from);
/* Remove all messages and emit EVENT_CLEARED; documents are kept. conversation_empty: also removes the documents. */
void conversation_clear(struct conversation *);
void conversation_empty(struct conversation *);
void message_free(struct message *);
void answer_source_free(struct answer_source *);
void answer_sources_free(struct answer_sources *);
/* Set the system prompt; NULL = the template's default. */
void conversation_system(struct conversation *, const char *text);
/* Return the last message if it is an answer, else NULL. */
const struct message *conversation_answer(const struct conversation *);

/* Append the turn as the JSON object that -p --json prints, with a newline. session: name of the session, or "". */
void conversation_json(const struct conversation *, const struct turn *, const char *session, struct str *out);

/* ---- reasoning (reasoning.c) ----
 *
 * Models that reason first write the reasoning between marks such as <think> ... </think>, and after it the answer. An
 * opening mark counts only at the beginning of the text; a later opening mark is part of the answer. Some templates end
 * the prompt with the opening mark: the text then has only the closing mark. */

/* State of the parser for an answer that arrives in pieces. Initialize it to zero, then set `first`. */
struct reasoning {
	int first; /* 1 = the prompt ends with the opening mark */
	enum {
		REASONING_BEGIN,
		REASONING_CHANNEL,
		REASONING_WITHIN,
		REASONING_NEXT,
		REASONING_MARGIN,
		REASONING_AFTER
	} at;
	int mark; /* index of the opening mark (reasoning_mark_at()); -1 = none in the text */
	/* bytes not parsed yet: maybe a part of a mark, or blanks at the beginning of the answer */
	struct str held;
	size_t blanks; /* REASONING_BEGIN: number of leading blanks in held */
	size_t words;  /* words of the reasoning so far */
	int in_word;   /* 1 = the last byte of reasoning was part of a word */
};
void reasoning_free(struct reasoning *);
/* Parse the next piece of the answer, which may be cut at any byte. Append the bytes that are not reasoning. */
void reasoning_feed(struct reasoning *, const char *text, size_t n, struct str *out);
/* Finish the text: append the bytes of `held` that belong to the answer. */
void reasoning_end(struct reasoning *, struct str *out);
/* Append "reasoned for 312 words first"; no change if there was no reasoning. */
void reasoning_describe(const struct reasoning *, struct str *out);
/* Return the number of bytes of reasoning, with its marks, at the beginning of a complete answer. Reasoning without
 * an opening mark is found, too. */
size_t reasoning_length(const char *text, size_t n);
/* Find reasoning that has no opening mark, because the server's template has put the mark into the prompt. Returns the
 * length of the text up to the end of the closing mark, or 0 if there is none. A closing mark that is quoted in prose
 * or code does not count. whole: 1 = the text is complete. *seen: state between calls while the text grows; 0 before
 * the first call. */
size_t reasoning_unopened(const char *text, size_t n, int whole, size_t *seen);
/* Tell by its first mark how a text begins. Returns 1 if the first mark is a closing mark; -1 if it is an opening mark
 * and a closing mark follows; 0 if there is no closing mark. */
int reasoning_closed(const char *text);

/* ---- a model on a server (answer_remote.c) ---- */

struct remote_options;
/* Fill in the connection settings of the server, and the server's model if the options name one. */
void model_server_options(const struct options *, struct remote_options *);

#endif
