/* app/conversation/conversation.h - a conversation: its messages and the loop that answers.
 *
 * Every turn renders the whole conversation and lets timeline_sync() find what is already computed, so
 * undo, regenerate and a new system prompt are only edits of the message list.  Answers keep their sampled
 * ids, which are rendered verbatim: re-tokenising the text could give other tokens, and the cache would not match. */
#ifndef WEIR_CONVERSATION_H
#define WEIR_CONVERSATION_H

#include "app/options/options.h"
#include "app/term/term.h"
#include "engine/engine_view.h"

struct remote;

/* Where a text stood in the sequence when the conversation was rendered last: its first token (-1 = nowhere) and its
 * first byte in the rendered text. */
struct text_at {
	int32_t first;
	size_t byte;
};

struct doc; /* a document as it was read, its marks and its file: sessions/import/import.h */
struct mark;
struct doc_origin;
struct undone; /* what can be redone: conversation_private.h */

/* A source of an answer, as its line numbers it. It is kept with the answer and outlives its document, so it has all
 * that is shown of it. */
struct answer_source {
	char *doc, *page, *heading; /* the document's name; page, heading NULL: none */
	size_t line, last_line;     /* of a text without pages; 0: there are none */
	size_t from, to;            /* the passage: bytes of the document's text */
	size_t quote, quote_end;    /* its best sentence; where found is 0, its beginning */
	char *text;                 /* that, on one line */
	/* by the search: its line stands above the answer.  0: the answer attended to it */
	int found;
	double score; /* of the search */
	int sent;     /* the model was sent it */
	/* of the answer's attention on the documents; < 0: not measured, or there was no other passage */
	double share;
};
struct answer_sources {
	struct answer_source *at;
	size_t n;
};

struct message {
	enum chat_role role;
	struct str text;
	struct str context;            /* of a question: passages of documents, quoted; rendered in front of the text */
	struct tokens id;              /* of an answer: the sampled tokens */
	struct answer_sources sources; /* of an answer (answer_sources.c) */
	struct text_at place;          /* of text */
	struct text_at context_place;
	int64_t stored;  /* its number in the store; 0 = not kept */
	int64_t number;  /* of the text in the index of messages; 0 = it is not indexed yet (recall_turns.c) */
	int interrupted; /* an answer that a crash or a signal cut short */
	/* bytes of the text that conversation_grow() appended; the question stands behind them, */
	size_t read;
	size_t quoted; /* a blank line and so many bytes of passages */
};

/* A file to ask about; text is what stands before the first question: the file, quoted, with its name. */
struct document {
	char *name; /* clean */
	/* 1: its text is prefilled before the first question; 0: questions bring passages of it */
	int whole;
	struct str text;
	size_t body, n_body; /* the file's own bytes within text */
	size_t tokens;       /* of its text; an estimate where it is much too long to be read whole */
	struct text_at place;
	size_t at;      /* messages that there were when it was added */
	uint64_t bytes; /* of the file */
	int64_t stored; /* its number in the store; 0 = not kept */
	int type;       /* enum doc_type */
	struct mark *mark;
	size_t n_mark;             /* its pages and headings; their places count from body */
	struct doc_origin *origin; /* its file; never NULL, but maybe empty */
	/* what it replaced, until the next answer, and messages there were then */
	struct document *before;
	size_t replaced;
	int told; /* the user knows that its file has changed */
	/* it is the text that a growing message has so far: searched in parts, stored with the message alone */
	int grows;
	size_t skipped, lines; /* of such a text: bytes and lines before its body, which are searched no more */
};

/* Where a passage of a document stands, as its reader sees it: "12", "xii"; "Methods".  NULL: none. */
struct document_place {
	const char *page, *heading;
};

enum answer_stop { STOP_EOS, STOP_LENGTH, STOP_CANCEL, STOP_NOT_FOUND, STOP_LOOP };

/* What one turn did. */
struct turn {
	enum answer_stop stop;
	int answered; /* the prompt was read: there is an answer, maybe empty */
	int32_t prompt_tokens, reused_tokens, answer_tokens;
	/* tokens prefilled that the cache had before: it could not roll back over evicted tokens */
	int32_t recomputed;
	int outgrown; /* tokens were evicted for the first time */
	int loop;     /* STOP_LOOP: tokens that the answer repeated */
	/* messages at the beginning that a server was not sent, where there are more of them than before; else 0 */
	size_t left_out;
	int guessed;   /* ... by an estimate of their tokens */
	int estimated; /* the figures of tokens below are not the server's */
	double ttft_s, prefill_tps, decode_tps;
	int32_t drafted, accepted; /* tokens computed on a guess; those of them that were sampled */
	struct attention_read read;
};

/* ---- events ----
 *
 * Every change of a conversation is one event; observers hear of it at once, in the order in which they were added, in
 * the thread that runs the conversation. */

enum conversation_event_what {
	EVENT_QUESTION,           /* the last message is a new question: an answer follows */
	EVENT_QUESTION_WITHDRAWN, /* ... which was not answered: it is no message any more */
	EVENT_ANSWER_WITHDRAWN,   /* the last answer is no message any more: another one follows */
	EVENT_ANSWER_BEGAN,       /* the last message is an answer: empty, or the beginning that /continue extends */
	EVENT_ANSWER_GREW,        /* by a token */
	EVENT_ANSWER_ENDED,       /* turn */
	EVENT_UNDONE,             /* messages were undone: those that are left are msg[0 .. n_msg) */
	EVENT_REDONE,             /* undone messages were restored at the end */
	EVENT_CLEARED,            /* no message is left */
	EVENT_RETURNED,           /* the growing message i goes on: what was asked beside it is no message any more */
	EVENT_TEXT_GREW,          /* the last message, a growing one, has new text from byte i on */
	EVENT_DOCUMENT_ADDED,     /* document i, the last one */
	EVENT_DOCUMENT_DROPPED,   /* document i is about to be removed: it is still there */
	/* document i was restored in front of later ones, or has taken the place of another version */
	EVENT_DOCUMENT_PUT_BACK,
	EVENT_SETTINGS,      /* options, cache policy or system prompt */
	EVENT_PREFILL_GREW,  /* a chunk is prefilled */
	EVENT_PREFILL_ENDED, /* a prefill was stopped, or no answer follows it */
	EVENT_NOTICE,        /* text: a sentence for the user */
	EVENT_OPENING,       /* room is being made for the KV cache; i = 0: it is made, or there is none */
	EVENT_RECALLED,      /* evicted turns were found for the question that is asked */
	EVENT_SOURCES,       /* so were passages of the documents */
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

/* What the conversation asks of the session log and the indexes; each may be NULL. */
struct conversation_hooks {
	/* Before want[0 .. n) is prefilled, of which the timeline has the first `same` tokens: load more of its KV
	 * entries, if they are saved. */
	void (*fetch)(struct conversation *, const struct tokens *want, size_t same, void *ud);
	/* The question that was undone last behind the last message, and its answer: 1 and out[2], the caller's; 0 =
	 * there is none; -1. */
	int (*next_turn)(struct conversation *, struct message out[2], void *ud, struct err *);
	void *ud;
};

struct companion_ops; /* what accompanies the questions of a conversation: companion.h */
struct companion {
	const struct companion_ops *ops;
	void *self;
};
enum { COMPANIONS_MOST = 8 };

struct answerer; /* conversation_private.h */
struct conversation {
	const struct answerer *by;      /* the model in this process or one on a server; NULL: nothing is open */
	const struct engine_info *info; /* of the model: a server's has what the server says */
	struct engine *engine;          /* NULL with a server, as tl: what needs them is refused then */
	struct timeline *tl;
	struct served { /* of a server (answer_remote.c) */
		struct remote *remote;
		struct engine_info info;
		size_t left_out;        /* messages at the beginning that do not fit its context any more */
		int32_t tokens;         /* of the last prompt and its answer */
		int counted;            /* the server has counted them */
		int32_t reused, answer; /* of the last turn */
		double prefill_s, decode_s;
	} served;
	const struct options *o;
	struct sampling sampling;       /* rng continues from turn to turn; the rest is sampled.s */
	struct tokens given;            /* the tokens that the answer to the question must begin with */
	struct sampling_choice sampled; /* the settings in force, and where each comes from */
	struct str system;
	int has_system;
	char *kv; /* cache policy set during the conversation; NULL = the one of the options */
	struct message *msg;
	size_t n_msg, cap_msg;
	struct document *doc;
	size_t n_doc;
	const char *docs; /* --docs as the documents follow it */
	struct undone *undone;
	size_t n_undone; /* the newest last */
	/* the newest rendering: of rendered_msg messages, maybe with the head of an answer */
	struct rendered rendered;
	size_t rendered_msg;
	unsigned rendered_flags;
	/* what stands before every first question: system prompt and documents */
	struct tokens prefix;
	int prefix_known;
	int32_t pinned; /* tokens that the cache was told are the prefix; -1 = none yet */
	int grows;      /* the last message is a text that grows: a question joins it */
	struct turn last;
	uint64_t total_answer; /* tokens of all answers */
	int outgrown;          /* tokens were evicted, and a turn said so */
	struct companion companion[COMPANIONS_MOST];
	int n_companion;
	struct observer observer[OBSERVERS_MOST];
	int n_observer;
	struct conversation_hooks hooks;
};

/* Open the model and a timeline for it, or a server's model. The observer, which may be NULL, is the first one: opening
 * has notices. On failure nothing is left open. */
int conversation_open(struct conversation *, const struct options *, observer_fn *, void *ud, struct err *);
void conversation_close(struct conversation *);
/* Is there a model that answers? */
int conversation_is_open(const struct conversation *);
/* Tokens, context and speeds; of a server what is known.  ctx 0: it does not say. */
void conversation_stats(const struct conversation *, struct timeline_stats *);
/* The names of the models that the server has, one a line; appended.  Nothing for a model in this process. */
void conversation_server_models(const struct conversation *, struct str *out);
/* -1 with a sentence, where the model is on a server: what begins the sentence ("/stream") needs a model in this process. */
int conversation_needs_local(const struct conversation *, const char *what, struct err *);
/* Take over changed sampling options, and what a changed model asks for; a seed only when reseed. */
void conversation_sampling(struct conversation *, int reseed);
/* The settings of the sampler for answers of this model: what the user has set, else what the model's file or its
 * makers ask for, else the defaults (sampling.c). engine NULL: a server decides what the user has not set. */
void sampling_choose(const struct options *, const struct engine *, struct sampling_choice *out);
/* One setting, as "0.6", and as "0.6 (family: Qwen3)"; all that matter, as "temp 0.5 (yours); top-k 40, top-p 0.9,
 * min-p 0.05 (default)"; all, as a JSON object. */
void sampling_value(const struct sampling_choice *, enum sampling_setting, struct str *out);
void sampling_show(const struct sampling_choice *, enum sampling_setting, struct str *out);
void sampling_line(const struct sampling_choice *, struct str *out);
void sampling_json(const struct sampling_choice *, const char *key, struct str *out);
/* Change the cache policy. Returns how many tokens are recomputed before the next answer, or -1 and nothing has
 * changed. where: names the setting in messages. */
int32_t conversation_change_policy(struct conversation *, const char *where, const char *text, struct err *);

/* Change to the model that these options name; the other options are those of conversation_open(). Returns how many
 * tokens are recomputed before the next answer, or -1 and nothing has changed (or, when the old model cannot be opened
 * again either, nothing is open). */
int32_t conversation_change_model(struct conversation *, const struct options *next, struct err *);
/* Are these the tokens of that text in this engine's vocabulary? Without an engine (NULL) they are taken as they
 * are. */
int tokens_match_text(const struct engine *, const int32_t *id, size_t n_id, const char *text, size_t n);

/* ---- documents (documents.c) ---- */

/* Add a document: whole, as quoted data before the first question, or searched for passages, as --docs says. 0; 1 where
 * the same document is there already; -1 with ERR_FIT and the numbers where --docs whole was asked for and it does not
 * fit. */
int conversation_add_document(struct conversation *, const struct doc *, struct err *);
/* The same for a document of an earlier run, which was added behind `at` messages, without an event: it is stored
 * already. */
int conversation_restore_document(struct conversation *, const struct doc *, size_t at, struct err *);
/* The page and heading of bytes [from, to) of its body: those at the beginning; a heading that only follows within
 * them, where none stands before. */
void document_place(const struct document *, size_t from, size_t to, struct document_place *out);
/* The document of that file, or SIZE_MAX. */
size_t conversation_document_of(const struct conversation *, const char *path);
/* A newer version of document i takes its place.  -1: it does not fit, and the old one is there as before. */
int conversation_replace_document(struct conversation *, size_t i, const struct doc *, struct err *);
/* Undo replacing a document, if no message has followed: 1, with its name. */
int conversation_undo_replaced(struct conversation *, struct str *name, struct err *);
/* Undo adding the last document, if no message has followed it: 1, with its name. */
int conversation_drop_last_document(struct conversation *, struct str *name);
/* Drop document i; the messages are recomputed behind the other documents. */
void conversation_drop_document(struct conversation *, size_t i, struct str *name);
void conversation_drop_documents(struct conversation *);

/* ---- a text without an end (app/reader) ---- */

/* Where the question begins in a message of the user. */
static inline size_t question_at(const struct message *m)
{
	return m->read < m->text.n ? m->read + (m->read ? 2 : 0) + m->quoted : m->text.n;
}
/* What was read so far, as the document that questions search; in place of that before. skipped, lines: what of it is
 * left out. NULL: there is none any more. */
void conversation_read_document(struct conversation *, const struct doc *, size_t skipped, size_t lines);

/* ---- turns ---- */

typedef int answer_text_fn(const char *bytes, size_t n, void *ud, struct err *); /* -1 ends the turn */
struct answer_hooks {
	answer_text_fn *text;
	void *text_ud;
	timeline_progress_fn *progress;
	void *progress_ud;
	int without_documents; /* do not search the documents for this question */
	int stop_loops;        /* an answer that only repeats itself ends: STOP_LOOP */
	int evidence;          /* observe the attention of the answer (app/retrieval/evidence.c) */
};
/* Tokens that the cache still holds. */
int32_t tokens_in_cache(const struct timeline_stats *);
/* What a bounded cache has evicted, as "1,234 of 9,426 tokens evicted, 99 in part"; 0: nothing. */
int describe_evicted(const struct timeline_stats *, struct str *out);
/* The tokens of the whole conversation as the model gets them; reply_head: with the head of its answer. */
int conversation_render(struct conversation *, int reply_head, struct tokens *out, struct err *);
/* Prefill now what the next answer needs: documents and messages. Returns the tokens computed, or -1 (ERR_CANCELLED:
 * the rest is prefilled later). */
int32_t conversation_prefill(struct conversation *, timeline_progress_fn *progress, void *ud, struct err *);
/* Call these within signals_work(1) .. (0), so that a stop counts that comes while no timeline runs.
 * Ask.  The answer is passed piece by piece to hooks->text and kept, also when the
 * turn ends early; when it ends before the prompt is prefilled the question is withdrawn.  0, or -1 with
 * ERR_CANCELLED, ERR_FIT, ...; *turn says how far it came. */
int conversation_ask(struct conversation *, const char *text, size_t n, const struct answer_hooks *, struct turn *,
                     struct err *);
/* Answer the last question anew; ERR_USAGE when there is none. */
int conversation_regenerate(struct conversation *, const struct answer_hooks *, struct turn *, struct err *);
/* Continue the last answer, which was stopped or cut. turn->answer_tokens: the new tokens; 0 when the model adds
 * nothing and the answer is unchanged. */
int conversation_continue(struct conversation *, const struct answer_hooks *, struct turn *, struct err *);
/* Add an observer, or remove it. */
void conversation_observe(struct conversation *, observer_fn *, void *ud);
void conversation_ignore(struct conversation *, observer_fn *, void *ud);
/* Tell the conversation that the options have changed: EVENT_SETTINGS. */
void conversation_options_changed(struct conversation *, int reseed);
/* A message of an earlier run: appended as it was. */
struct message *conversation_message(struct conversation *, enum chat_role, const char *text, size_t n,
                                     const int32_t *id, size_t n_id);
/* Undo the last n turns; returns how many were undone. Of a turn that closed a growing message only the question is
 * undone at first. */
size_t conversation_undo(struct conversation *, size_t n);
/* Redo what conversation_undo() or conversation_drop_document() undid last: 1, with the name of a document (nothing is
 * added for a turn), or 0: there is nothing to redo, as after a new question. Turns that an earlier run undid come from
 * the session. */
int conversation_redo(struct conversation *, struct str *name, struct err *);
/* Tokens of the cache that the next question continues. The cache may hold more: those of undone turns, or of messages
 * before conversation_clear(), which the next question replaces. */
int32_t conversation_cached_tokens(const struct conversation *, const struct timeline_stats *);
/* Empty the stack of what can be redone. */
void undo_forget(struct conversation *);
/* Remove the messages from index `from` on, for good and without an event; the cache follows with the next question. */
void conversation_cut(struct conversation *, size_t from);
/* Remove all messages and keep the documents; conversation_empty: remove both, without an event. */
void conversation_clear(struct conversation *);
void conversation_empty(struct conversation *);
void message_free(struct message *);
void answer_source_free(struct answer_source *);
void answer_sources_free(struct answer_sources *);
/* NULL: the template's own. */
void conversation_system(struct conversation *, const char *text);
/* The last answer, or NULL. */
const struct message *conversation_answer(const struct conversation *);

/* The answer as the JSON object of -p --json, with a newline.  session: its name; "" = none. */
void conversation_json(const struct conversation *, const struct turn *, const char *session, struct str *out);

/* ---- reasoning (reasoning.c) ----
 *
 * Models that reason first write marks around that (reasoning_mark_at()), as <think> ... </think>, before their answer.
 * Only marks at the beginning count; later ones are part of the answer, but for reasoning_unopened(). */

/* A text that arrives in pieces; all zero and `first` to begin with. */
struct reasoning {
	int first; /* the reply's head has opened the reasoning */
	enum {
		REASONING_BEGIN,
		REASONING_CHANNEL,
		REASONING_WITHIN,
		REASONING_NEXT,
		REASONING_MARGIN,
		REASONING_AFTER
	} at;
	int mark;        /* the number of the mark that opened it; -1: the reply's head did */
	struct str held; /* bytes that may be a mark, or blanks before one */
	size_t blanks;   /* how many of held's first bytes are known to be blanks, at the beginning */
	size_t words;
	int in_word; /* of the reasoning */
};
void reasoning_free(struct reasoning *);
/* Append the answer's bytes to *out, without the reasoning.  The pieces may be cut anywhere. */
void reasoning_feed(struct reasoning *, const char *text, size_t n, struct str *out);
/* The text is complete: append the bytes that were held back. */
void reasoning_end(struct reasoning *, struct str *out);
/* "reasoned for 312 words first", or nothing where there was no reasoning; appended. */
void reasoning_describe(const struct reasoning *, struct str *out);
/* Bytes of the reasoning in front of a whole answer, with its marks, also where it was not opened. */
size_t reasoning_length(const char *text, size_t n);
/* The template of a model on a server may open the reasoning in the prompt, so that the answer has the closing mark
 * alone. Bytes up to that mark's end; 0: none closes reasoning; one that is only mentioned, as in code, does not.
 * whole: no more text comes. *seen, 0 at first, is what is known of a text that grows. */
size_t reasoning_unopened(const char *text, size_t n, int whole, size_t *seen);
/* 1: the text closes reasoning that it has not opened; -1: it opens reasoning, and closes that; 0: it closes none. */
int reasoning_closed(const char *text);

/* ---- the model (open_model.c) ---- */

/* How that server is asked, as the options say; with its model, where they name one. */
struct remote_options;
void model_server_options(const struct options *, struct remote_options *);

#endif
