/* app/conversation/conversation.h - a conversation: its messages and the loop that answers.
 *
 * A turn is a question and its answer. Every turn renders the whole conversation to tokens, and timeline_sync()
 * keeps the KV entries of all leading tokens that did not change. So undo, regenerate and a new system prompt only
 * edit the list of messages. Answers keep their sampled token ids, because tokenizing their text again could give
 * other tokens.
 *
 * The prefix consists of the system prompt and the documents that are read whole. A streamed message is a text that is
 * prefilled while it is read from a stream (a pipe or file); the next question is appended to it. */
#ifndef WEIR_CONVERSATION_H
#define WEIR_CONVERSATION_H

#include "app/options/options.h"
#include "app/term/term.h"
#include "engine/base/json.h"
#include "engine/engine_chat.h"
#include "engine/engine_view.h"

struct remote;

/* Position of a text in the newest rendering of the conversation (conversation.rendered). `first` is the index of the
 * text's first token, or -1 if the text is not rendered. `byte` is the offset of the text's first byte in the rendered
 * text. */
struct text_at {
	int32_t first;
	size_t byte;
};

/* defined in sessions/import/import.h: an imported file with its text, page and heading marks, and origin */
struct doc;
struct mark;
struct doc_origin;
struct undone; /* defined in conversation_private.h: an entry of the redo stack */

/* A source of an answer: a passage of a document. A source is stored with the answer and may outlive the document, so
 * it has copies of all that is displayed. */
struct answer_source {
	char *doc, *page, *heading; /* name of the document; page and heading of the passage, or NULL */
	int recognised;             /* 1 = the page's text was recognised in a picture, and may have errors */
	size_t line, last_line;     /* first and last line of the passage, from 1; 0 for a document with pages */
	size_t from, to;            /* byte range of the passage in the document's body */
	/* byte range of the quote: the best sentence of the passage if found is 1, else the passage's beginning */
	size_t quote, quote_end;
	char *text; /* the quote on one line */
	/* bytes [mark, mark_end) of `text` answer the question; both are 0 if these bytes are not known */
	size_t mark, mark_end;
	/* 1 = the search found the passage before the answer; 0 = only listed because the answer attended to it */
	int found;
	double score; /* score of the search */
	int sent;     /* 1 = the passage was in the prompt */
	/* this passage's share of the attention on all documents, from 0 to 1; negative = unknown or not comparable */
	double share;
};
struct answer_sources {
	struct answer_source *at;
	size_t n;
};

struct message {
	enum chat_role role;
	struct str text;
	struct str context;            /* quoted passages of a question, which are rendered before `text` */
	struct tokens id;              /* sampled tokens of an answer */
	struct answer_sources sources; /* sources of an answer (app/retrieval/answer_sources.c) */
	struct text_at prompt_at;      /* where `text` is in the rendering */
	struct text_at context_at;
	int64_t stored;  /* row id in the store; 0 = not stored */
	int64_t number;  /* id in the search index of messages; 0 = not indexed yet (app/retrieval/recall_turns.c) */
	int interrupted; /* 1 = the answer was interrupted by a crash or a signal */
	/* A streamed message begins with `read` bytes of text from a stream. After a question was appended to the
	 * message, these bytes are followed by a blank line, `quoted` bytes of passages, and the question. In all other
	 * messages, `read` is 0. */
	size_t read;
	size_t quoted;
};

/* A document of the conversation. `text` has the document's name, and then the file's text (body), as the model reads
 * them. */
struct document {
	char *name; /* name without control characters */
	/* 1 = the whole text is prefilled before the first question; 0 = the document is searched, and questions are
	 * sent with passages of it */
	int whole;
	struct str text;
	size_t body, n_body; /* offset and number of bytes, within `text`, of the file's own text */
	size_t tokens;       /* number of tokens of `text`, which may be an estimate */
	struct text_at prompt_at;
	size_t at;      /* number of messages when the document was added */
	uint64_t bytes; /* size of the file in bytes */
	int64_t stored; /* row id in the store; 0 = not stored */
	int type;       /* value of enum doc_type */
	struct mark *mark;
	/* number of marks (pages and headings); a mark's byte offset is relative to `body` */
	size_t n_mark;
	struct doc_origin *origin; /* where the document is from; never NULL, but it may name no file */
	/* the version that this version replaced, kept for undo until the next answer; owned by the document; NULL =
	 * none */
	struct document *before;
	size_t replaced; /* number of messages when this version replaced the version in `before` */
	int told;        /* 1 = the user was told that the file has changed */
	/* 1 = the document is the text of a streamed message, which is still being read from a stream. Questions search
	 * the document. The store has the text only as a message, not as a document */
	int grows;
	/* Only for a document with grows = 1: number of bytes, and of lines, of the stream that come before `body`.
	 * They are not searched. */
	size_t skipped, lines;
	/* 1 = this document and those added at the same time are together too large for the context, so all of them are
	 * searched */
	int many;
	int renewed; /* 1 = the store has an older version in row number `stored` */
};

/* Page ("12", "xii") and heading ("Methods") of a passage, as the document prints them; NULL = none. */
struct document_place {
	const char *page, *heading;
	int recognised; /* 1 = the page's text was recognised in a picture, and may hold errors */
};

/* A file below an opened folder whose document does not simply follow the file. The member `why` is the reason:
 * - 'b': the file could not be read, so it is not a document;
 * - 's': a document with the same name and text exists, so the file is not added as another one;
 * - 'd': the user has dropped the document;
 * - 'k' (keep): the file is a document, although the folder's listing leaves it out. */
struct folder_file {
	char *path;
	int64_t size, mtime; /* size in bytes; mtime in nanoseconds since 1970 */
	char why;
};
struct folder {
	char *path; /* absolute path of the folder */
	/* [n_left] files below the folder for which struct folder_file gives a reason, sorted by path */
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
	/* number of cached tokens that had to be prefilled again, because rollback cannot restore evicted entries */
	int32_t recomputed;
	/* 1 = some tokens are evicted now, and none were evicted when the previous turn ended */
	int outgrown;
	int loop; /* if stop is STOP_LOOP: period of the loop in tokens */
	/* for a model on a server: number of oldest messages that the request left out; 0 if there are no more than in
	 * the previous turn */
	size_t left_out;
	int guessed;   /* 1 = left_out follows from an estimate of the number of tokens */
	int estimated; /* 1 = prompt_tokens is an estimate, because the server did not report it */
	double ttft_s, prefill_tps, decode_tps;
	/* speculative decoding: number of draft tokens, and how many of them the model accepted */
	int32_t drafted, accepted;
	uint64_t random[4]; /* state of the random generator before the answer; all 0 = the turn continued an answer */
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
	EVENT_ANSWER_GREW,  /* the answer has grown by one token */
	EVENT_ANSWER_ENDED, /* the answer is complete; `turn` has its statistics */
	EVENT_UNDONE,       /* messages at the end were undone; msg[0 .. n_msg) are left */
	EVENT_REDONE,       /* undone messages were restored at the end */
	EVENT_CLEARED,      /* all messages were removed */
	/* The turns after message i were removed. So message i, a text read from a stream, is the last message
	 * again. */
	EVENT_RETURNED,
	EVENT_TEXT_GREW,         /* the last message, a text read from a stream, has new text from byte i on */
	EVENT_DOCUMENT_ADDED,    /* document i, the last one, was added */
	EVENT_DOCUMENT_DROPPED,  /* document i will be removed next */
	EVENT_DOCUMENT_PUT_BACK, /* document i was restored at its old index, or replaced by another version */
	EVENT_SETTINGS,          /* options, cache policy or system prompt changed */
	EVENT_PREFILL_GREW,      /* a chunk was prefilled */
	/* a prefill has ended and no answer follows, because it was stopped, it failed, or no answer was asked for */
	EVENT_PREFILL_ENDED,
	EVENT_NOTICE,     /* text: a sentence for the user */
	EVENT_OPENING,    /* the KV cache is about to be allocated (i = 1), or this has ended or failed (i = 0) */
	EVENT_RECALLED,   /* evicted turns were found for the current question */
	EVENT_REMEMBERED, /* facts were found for the current question */
	EVENT_SOURCES,    /* passages of documents were found for the current question */
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
	/* Load saved KV entries for the prompt *want into the timeline, before the prompt is prefilled. `same` is the
	 * number of leading tokens of the prompt whose entries the timeline already has. */
	void (*fetch)(struct conversation *, const struct tokens *want, size_t same, void *ud);
	/* Find a turn that followed the last message in an earlier run of weir, and that the user has undone in that
	 * run. Returns 1: out[0] is the question and out[1] the answer; the caller frees both. Returns 0 if there is
	 * none, or -1 on error. */
	int (*next_turn)(struct conversation *, struct message out[2], void *ud, struct err *);
	void *ud;
};

struct turn_hook_ops; /* functions that the conversation calls at each question (turn_hook.h) */
struct turn_hook {
	const struct turn_hook_ops *ops;
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
		int32_t tokens; /* number of tokens of the last prompt together with its answer */
		int counted;    /* 1 = the server counted these tokens; 0 = an estimate */
		/* for the last turn: number of prompt tokens that the server had cached, and number of answer tokens */
		int32_t reused, answer;
		double prefill_s, decode_s;
	} served;
	const struct options *o;
	/* sampling settings, and the random generator, whose state is kept from turn to turn */
	struct sampling sampling;
	struct tokens given; /* tokens with which the answer is forced to begin */
	int guarded;         /* 1 = a sentence of the answer is shown only if all turn hooks allow it */
	/* the current sampling settings, each with the place where its value comes from */
	struct sampling_choice sampled;
	struct str system;
	int has_system;
	char *kv; /* cache policy that was set during the conversation; NULL = the policy of the options */
	struct message *msg;
	size_t n_msg, cap_msg;
	struct document *doc;
	size_t n_doc;
	struct folder *folder; /* [n_folder] the folders that were opened */
	size_t n_folder;
	int folders_changed; /* 1 = the list of folders has changed since it was stored */
	/* value of --docs when document.whole was last computed for all documents */
	const char *docs;
	struct undone *undone; /* redo stack, newest entry last */
	size_t n_undone;
	struct rendered rendered; /* the newest rendering of the conversation */
	size_t rendered_msg;      /* number of messages in `rendered` */
	unsigned rendered_flags;  /* flags (enum render_flags) with which `rendered` was made */
	struct tokens prefix;     /* tokens before the first question: system prompt and documents */
	int prefix_known;         /* 1 = prefix is up to date */
	int32_t pinned;           /* number of prefix tokens that the cache never evicts; -1 = not pinned yet */
	int grows; /* 1 = the last message is still being read from a stream; the next question is appended to it */
	struct turn last;
	uint64_t total_answer; /* number of tokens of all answers */
	int outgrown;          /* 1 = when the last turn ended, some tokens were evicted */
	struct turn_hook *turn_hook;
	int n_turn_hook, cap_turn_hook;
	struct observer observer[OBSERVERS_MOST];
	int n_observer;
	struct conversation_hooks hooks;
};

/* Open the model and a timeline for it, or connect to a server. The observer receives all events, beginning with those
 * of the opening; it may be NULL. Returns 0, or -1 with nothing left open. */
int conversation_open(struct conversation *, const struct options *, observer_fn *, void *ud, struct err *);
void conversation_close(struct conversation *);
/* 1 if a model is open, in this process or on a server. */
int conversation_is_open(const struct conversation *);
/* Fill in the numbers of tokens, the context size and the speeds. For a model on a server, members that the server
 * does not report are 0. */
void conversation_stats(const struct conversation *, struct timeline_stats *);
/* Append the names of the server's models, one per line; append nothing if the model is in this process. */
void conversation_server_models(const struct conversation *, struct str *out);
/* Check that the model is in this process, as the command `what` (such as "/stream") needs it. Returns 0, or -1 with an
 * error that names the command. */
int conversation_needs_local(const struct conversation *, const char *what, struct err *);
/* Apply the sampling options and the model's recommended settings. If `reseed` is 1, also seed the random generator. */
void conversation_sampling(struct conversation *, int reseed);
/* Set *out to the sampling settings for this model. Each setting is taken from the first of these sources that has it:
 * the user, the model file, the model family, the defaults. If `engine` is NULL, the model is on a server, which
 * chooses the settings that the user has not given. */
void sampling_choose(const struct options *, const struct engine *, struct sampling_choice *out);
/* sampling_value(): append the value of a setting, as "0.6". sampling_show(): append it with its origin, as "0.6
 * (family: Qwen3)". */
void sampling_value(const struct sampling_choice *, enum sampling_setting, struct str *out);
void sampling_show(const struct sampling_choice *, enum sampling_setting, struct str *out);
/* Append all settings in effect, as "temp 0.5 (yours); top-k 40, top-p 0.9, min-p 0.05 (default)". */
void sampling_line(const struct sampling_choice *, struct str *out);
/* Append all settings as a JSON object. */
void sampling_json(const struct sampling_choice *, const char *key, struct str *out);
/* Read sampling settings from the JSON object that sampling_json() writes. Returns which settings were read, as bits 1
 * << enum sampling_setting. */
unsigned sampling_from_json(struct jv, struct sampling *out);
/* Change the cache policy to `text`. `where` is the name of the setting, for error messages. Returns the number of
 * tokens to recompute before the next answer, or -1. After -1 the old policy is in force. But if the cache of the old
 * policy can no longer be allocated, no model is open. */
int32_t conversation_change_policy(struct conversation *, const char *where, const char *text, struct err *);

/* Change to the model that *next names. Returns the number of tokens to recompute before the next answer, or -1. After
 * -1 the old model is open. But if the old model can no longer be opened, none is open. */
int32_t conversation_change_model(struct conversation *, const struct options *next, struct err *);
/* 1 if the tokens spell exactly text[0 .. n) in the engine's vocabulary. Also 1 if engine is NULL. */
int tokens_match_text(const struct engine *, const int32_t *id, size_t n_id, const char *text, size_t n);

/* ---- how an answer was made (answer_record.c) ---- */

struct answer_record {
	uint64_t random[4];       /* state of the random generator before the answer */
	struct sampling sampling; /* sampling settings; only those named by sampling_set have a value */
	unsigned sampling_set;    /* which settings are known: bits 1 << enum sampling_setting */
	int32_t ctx;              /* context size in tokens */
	/* If the user stopped the answer, this is the number of its tokens. Otherwise it is the value of -n, the
	 * maximum number of tokens; -1 = no limit. */
	int32_t limit;
	struct str sha256, device; /* SHA-256 of the model file; the processor, as "cpu avx512, 2 threads" */
};
/* Append a record of the answer to which *turn belongs, as JSON member "made". `sha256` is the SHA-256 of the model
 * file in 64 hexadecimal digits, or NULL if it is unknown. */
void answer_record_json(const struct conversation *, const struct turn *, const char *sha256, struct str *out);
/* Read the record from `stats`, the JSON that is stored with an answer. Returns 0, or -1 if there is no record: an
 * older version of weir stored the answer, or the answer was continued. Call answer_record_free() in both cases. */
int answer_record_read(const char *stats, struct answer_record *);
void answer_record_free(struct answer_record *);

/* ---- documents (documents.c) ---- */

/* Add a document. --docs decides whether it is prefilled whole before the first question, or searched. Returns 0; 1
 * if the conversation already has the same document; -1 with ERR_FIT if --docs is "whole" and the document does not
 * fit. */
int conversation_add_document(struct conversation *, const struct doc *, struct err *);
/* Add a document that an earlier run stored, without an event. `at` is the number of messages when the document was
 * first added. */
int conversation_restore_document(struct conversation *, const struct doc *, size_t at, struct err *);
/* Find the page and the heading of bytes [from, to) of the document's body. They are the last page and the last heading
 * that begin at or before the first non-blank byte of the range. If no heading begins there or before, take the first
 * heading within the range. */
void document_place(const struct document *, size_t from, size_t to, struct document_place *out);
typedef void recognition_fn(int32_t page, int32_t pages, double left, void *ud);
/* Set up the import to recognise scanned pages and pictures as the options say. The function `progress` is called
 * before each page; it may be NULL. Call this before each import, because the options may have changed. In
 * recognition.c. */
void recognition_begin(const struct options *, recognition_fn *progress, void *ud);
/* Append the path of the folder where recognised pages are cached. Returns 0, or -1 if the path is unknown or the
 * folder cannot be made. */
int recognition_folder(struct str *out);
/* Append "recognising page 3 of 22, 40 s left". `left` is the number of seconds; < 0 = unknown. */
void recognition_text(int32_t page, int32_t pages, double left, struct str *out);
/* Return the index of the document that was imported from file `path`; SIZE_MAX = none. */
size_t conversation_document_of(const struct conversation *, const char *path);
/* Replace document i by a newer version. Returns 0, or -1 with no change if the new version does not fit. */
int conversation_replace_document(struct conversation *, size_t i, const struct doc *, struct err *);
/* Like conversation_replace_document(), but undo cannot restore the old version. */
int conversation_renew_document(struct conversation *, size_t i, const struct doc *, struct err *);
/* Remove each document i for which gone[i] is 1. Redo cannot restore these documents. If any document is removed, the
 * redo stack is emptied. */
void conversation_forget_documents(struct conversation *, const char *gone);
/* Undo the replacement of a document, if no message has been added since. Returns 1 and appends the document's name; 0
 * if there is no such replacement; -1 if the old version does not fit. */
int conversation_undo_replaced(struct conversation *, struct str *name, struct err *);
/* Remove the document that was added last, if no message has been added since. Returns 1 and appends the document's
 * name; 0 if there is no such document. */
int conversation_drop_last_document(struct conversation *, struct str *name);
/* Move document i to the redo stack, and append its name to *name (may be NULL). The next turn recomputes the tokens
 * after the document. */
void conversation_drop_document(struct conversation *, size_t i, struct str *name);
/* Free all documents, without an event. */
void conversation_drop_documents(struct conversation *);

/* ---- a streamed message: a text still being read from a stream (app/stream) ---- */

/* Return the offset of the question in the text of a user's message. In a streamed message the question follows the
 * bytes of the stream, a blank line (2 bytes) and the quoted passages; without a question, return the text's length. */
static inline size_t question_at(const struct message *m)
{
	return m->read < m->text.n ? m->read + (m->read ? 2 : 0) + m->quoted : m->text.n;
}
/* Make the text of a streamed message searchable. The text `doc` becomes a document with `grows` set, which replaces
 * the document of the previous call. If `doc` is NULL, that document is removed. `skipped` and `lines` are the numbers
 * of bytes and of lines of the stream before the document's body. */
void conversation_read_document(struct conversation *, const struct doc *, size_t skipped, size_t lines);

/* ---- turns ---- */

typedef int answer_text_fn(const char *bytes, size_t n, void *ud, struct err *); /* Returns 0, or -1 to stop the turn */
struct answer_hooks {
	answer_text_fn *text;
	void *text_ud;
	timeline_progress_fn *progress;
	void *progress_ud;
	int without_documents; /* 1 = do not search the documents for this question */
	int stop_loops;        /* 1 = stop an answer that repeats itself (STOP_LOOP) */
	int evidence;          /* 1 = measure the answer's attention on the documents (app/retrieval/evidence.c) */
};
/* Return the number of tokens in the cache that are not evicted. */
int32_t tokens_in_cache(const struct timeline_stats *);
/* Append what the cache has evicted, as "1,234 of 9,426 tokens evicted, 99 in part". "In part" means: in some layers or
 * heads. Returns 1; 0 if nothing was evicted. */
int describe_evicted(const struct timeline_stats *, struct str *out);
/* Append the tokens of the whole conversation to *out. If `reply_head` is 1, also append the tokens with which the
 * template begins an answer. */
int conversation_render(struct conversation *, int reply_head, struct tokens *out, struct err *);
/* Prefill documents and messages now, before the next question is asked. Returns the number of tokens computed, or -1.
 * After ERR_CANCELLED the next turn prefills the rest. */
int32_t conversation_prefill(struct conversation *, timeline_progress_fn *progress, void *ud, struct err *);
/* Append a question and generate the answer. hooks->text receives the answer's text token by token. Returns 0, or -1
 * with ERR_CANCELLED, ERR_FIT, ...; *turn is set in both cases. If the turn is stopped during prefill, the question is
 * removed. If it is stopped later, the answer so far is kept.
 *
 * Call signals_work(1) before this function and the next two, and signals_work(0) after them. Otherwise a signal is
 * lost if it comes while no timeline runs. */
int conversation_ask(struct conversation *, const char *text, size_t n, const struct answer_hooks *, struct turn *,
                     struct err *);
/* Replace the last answer by a new one. If the user stops before the new answer begins, the old one is kept. If there
 * is no question, the error is ERR_USAGE. */
int conversation_regenerate(struct conversation *, const struct answer_hooks *, struct turn *, struct err *);
/* Continue the last answer, which was stopped or interrupted. turn->answer_tokens receives the number of new tokens; 0
 * = nothing was added. */
int conversation_continue(struct conversation *, const struct answer_hooks *, struct turn *, struct err *);
/* conversation_observe(): add an observer; there may be OBSERVERS_MOST. conversation_ignore(): remove it. */
void conversation_observe(struct conversation *, observer_fn *, void *ud);
void conversation_ignore(struct conversation *, observer_fn *, void *ud);
/* Apply changed options and emit EVENT_SETTINGS. If `reseed` is 1, also seed the random generator. */
void conversation_options_changed(struct conversation *, int reseed);
/* Append a message of an earlier run, with its token ids. No event is sent. */
struct message *conversation_message(struct conversation *, enum chat_role, const char *text, size_t n,
                                     const int32_t *id, size_t n_id);
/* Undo the last n turns, and return how many were undone. If the question of a turn was appended to a streamed message
 * (a text read from a stream), only question and answer are removed; the next undo then removes the text. */
size_t conversation_undo(struct conversation *, size_t n);
/* Redo the turn or the dropped document that was undone last. If the redo stack is empty, redo a turn that was undone
 * in an earlier run. Returns 1 (and appends the name of a restored document), 0 if there is nothing to redo, or -1. */
int conversation_redo(struct conversation *, struct str *name, struct err *);
/* Return how many cached tokens belong to the conversation. Until the next question the cache may also have tokens of
 * undone or cleared messages. */
int32_t conversation_cached_tokens(const struct conversation *, const struct timeline_stats *);
/* Empty the redo stack and free the versions of documents that were replaced. */
void undo_forget(struct conversation *);
/* Remove the messages from index `from` on. No event is sent, and redo cannot restore them. The KV cache changes with
 * the next question. */
void conversation_cut(struct conversation *, size_t from);
/* conversation_clear(): remove all messages and emit EVENT_CLEARED; documents are kept. conversation_empty(): remove
 * the documents, too. */
void conversation_clear(struct conversation *);
void conversation_empty(struct conversation *);
void message_free(struct message *);
void answer_source_free(struct answer_source *);
void answer_sources_free(struct answer_sources *);
/* Set the system prompt; NULL = the template's default. */
void conversation_system(struct conversation *, const char *text);
/* Return the last message if it is an answer, else NULL. */
const struct message *conversation_answer(const struct conversation *);

/* Append the turn as the JSON object that -p --json prints, with a newline. `session` is the name of the session, or
 * "". */
void conversation_json(const struct conversation *, const struct turn *, const char *session, struct str *out);

/* ---- reasoning (reasoning.c) ----
 *
 * Models that reason first write the reasoning between marks such as <think> ... </think>, and the answer after it. An
 * opening mark counts only at the beginning of the text; elsewhere it is part of the answer. Some templates end the
 * prompt with the opening mark. The text then has only the closing mark. */

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
	int mark; /* index of the opening mark, for reasoning_mark_at(); -1 = the text has none */
	/* bytes not parsed yet: perhaps part of a mark, or blanks at the beginning of the answer */
	struct str held;
	size_t blanks; /* in state REASONING_BEGIN: number of blanks at the beginning of `held` */
	size_t words;  /* words of the reasoning so far */
	int in_word;   /* 1 = the last byte of reasoning belonged to a word */
};
void reasoning_free(struct reasoning *);
/* Parse the next piece of the answer. Pieces may begin and end at any byte. Append the bytes that are not reasoning. */
void reasoning_feed(struct reasoning *, const char *text, size_t n, struct str *out);
/* Finish the text: append the bytes of `held` that belong to the answer. */
void reasoning_end(struct reasoning *, struct str *out);
/* Append "reasoned for 312 words first"; nothing if there was no reasoning. */
void reasoning_describe(const struct reasoning *, struct str *out);
/* Return how many bytes of a complete answer are reasoning, including its marks. The reasoning is at the beginning of
 * the answer. It is also found without an opening mark. */
size_t reasoning_length(const char *text, size_t n);
/* Find reasoning that has no opening mark, because the server's template has put the mark into the prompt. Returns the
 * number of bytes up to the end of the closing mark; 0 if there is no such reasoning. A closing mark that is quoted in
 * prose or code does not count. `whole` is 1 if the text is complete. *seen is the progress of the search while the
 * text grows; set it to 0 before the first call. */
size_t reasoning_unopened(const char *text, size_t n, int whole, size_t *seen);
/* Classify a text by its first mark of reasoning. Returns 1 if this is a closing mark; -1 if it is an opening mark and
 * a closing mark follows; 0 if the text has no closing mark. */
int reasoning_closed(const char *text);

/* ---- a model on a server (answer_remote.c) ---- */

struct remote_options;
/* Fill in the connection settings of the server, and the server's model if the options name one. */
void model_server_options(const struct options *, struct remote_options *);

#endif
