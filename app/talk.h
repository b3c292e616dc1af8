/* app/talk.h (private to app/) - a conversation: its messages and the loop that answers.
 *
 * Every turn renders the whole conversation and lets timeline_sync() find what is already computed, so
 * undo, regenerate and a new system prompt are only edits of the message list.  Answers keep their sampled
 * ids, which go back verbatim: re-tokenising the text could differ and would cost the cache. */
#ifndef WEIR_TALK_H
#define WEIR_TALK_H

#include "app/options.h"

struct message {
	enum chat_role role;
	struct str text;
	struct tokens id;         /* of an answer */
	int64_t stored;           /* its number in the store; 0 = not kept */
	size_t read;              /* bytes of the text that talk_stream() brought; the question stands behind them */
};

/* A file that is asked about, quoted and with its name, as it stands before the first question. */
struct document {
	char *name;               /* clean */
	struct str text;
	size_t body, n_body;      /* what was in the file: part of the text */
	size_t tokens;            /* on its own */
	size_t at;                /* messages that there were when it came */
	uint64_t bytes;           /* of the file */
	int64_t stored;           /* its number in the store; 0 = not kept */
};

/* What was taken back, to be brought back (talk_back.c): messages from a question on, or one document and its place. */
struct taken {
	struct message *msg; size_t n_msg;
	struct document doc; size_t doc_at;   /* where n_msg is 0 */
};

enum talk_stop { STOP_EOS, STOP_LENGTH, STOP_CANCEL };

/* What one turn did. */
struct turn {
	enum talk_stop stop;
	int answered;             /* the prompt was read: there is an answer, maybe empty */
	int32_t prompt_tokens, reused_tokens, answer_tokens;
	int32_t again;            /* tokens read again that the cache had before: it could not go back */
	int outgrown;             /* for the first time tokens have left the cache */
	double ttft_s, prefill_tps, decode_tps;
};

/* The last message grows (talk_stream.c). */
struct streamed {
	int open;
	int known;                /* the cache has what was cut, but for the tokens that wait */
	size_t at;                /* bytes of its text that are cut and tokenised */
	struct tokens pending;    /* those that wait until a chunk is full */
	size_t had;               /* tokens of the sequence then */
};

struct talk {
	struct engine *engine;
	struct timeline *tl;
	const struct options *o;
	struct sampling sampling;     /* its rng runs on from turn to turn; the rest comes from the options */
	struct str system; int has_system;
	char *kv;                     /* cache policy chosen while talking; NULL = the one of the options */
	struct message *msg; size_t n_msg, cap_msg;
	struct document *doc; size_t n_doc;
	struct taken *taken; size_t n_taken;      /* the newest last */
	struct tokens prefix; int prefix_known;   /* what stands before every first question: system prompt and documents */
	int32_t pinned;               /* tokens that the cache was told are the prefix; -1 = none yet */
	struct streamed streamed;
	uint64_t total_streamed;      /* tokens cut by talk_stream() since the caller set it to 0 */
	struct turn last;
	uint64_t total_answer;        /* tokens of all answers */
	int outgrown;                 /* tokens have left the cache, and a turn said so */
	struct str evidence;          /* of the last answer, as a JSON list (evidence.c) */
	struct record *record;        /* where it is kept (record.h); NULL = nowhere.  The caller's */
};

/* Opens the model and a timeline for it.  On failure nothing is left open. */
int  talk_open(struct talk *, const struct options *, struct err *);
void talk_close(struct talk *);
/* Take over changed sampling options; a seed only when reseed. */
void talk_sampling(struct talk *, int reseed);
/* Go on with another cache policy.  Returns how many tokens must be read again before the next answer, or -1 and
 * all is as it was.  where: for messages. */
int32_t talk_policy(struct talk *, const char *where, const char *text, struct err *);

/* Go on with the model that these options name; the rest of them is as in talk_open().  Returns how many tokens must be read again
 * before the next answer, or -1 and all is as it was (or, when the old model cannot be opened again either, nothing is open). */
int32_t talk_model(struct talk *, const struct options *next, struct err *);
/* Are these the tokens of that text?  Of another vocabulary they are other words. */
int  tokens_spell(const struct engine *, const int32_t *id, size_t n_id, const char *text, size_t n);

/* ---- documents (talk_docs.c) ---- */

/* A document as quoted data, before the first question.  One that does not fit is refused with the numbers (ERR_FIT).
 * Notices go to standard error. */
int  talk_document(struct talk *, const char *path_or_dash, struct err *e);
/* The same for bytes in memory. */
int  talk_document_bytes(struct talk *, const char *name, const char *bytes, size_t n, struct err *e);
/* One that an earlier run has read: as it was, and without notices. */
int  talk_document_again(struct talk *, const char *name, const char *text, size_t n, uint64_t bytes, struct err *e);
/* Take back the last document, if nothing was said since it came: 1, with its name. */
int  talk_drop_document(struct talk *, struct str *name);
/* Take back document i; what was said is read again behind those that are left. */
void talk_drop(struct talk *, size_t i, struct str *name);
void talk_drop_documents(struct talk *);
size_t talk_document_tokens(const struct talk *);

/* ---- a text without an end (talk_stream.c) ---- */

/* Append a piece (whole characters) to the message that grows, or begin one, and read what is there in whole chunks; all: the rest,
 * too, because nothing follows for a while.  A few words at the end, where it cannot be cut yet, wait in any case.  After -1
 * (ERR_CANCELLED) nothing is lost: the next call goes on.  talk_ask() closes the message with the question. */
int  talk_stream(struct talk *, const char *piece, size_t n, int all, timeline_progress_fn *progress, void *ud, struct err *);
/* ERR_USAGE where the cache has an end. */
int  talk_stream_wanted(const struct talk *, struct err *);
/* Those that are read of total_streamed. */
uint64_t talk_streamed(const struct talk *);
/* The last place in p[from .. n) where such a text may be cut; from = there is none. */
size_t text_cut(const char *p, size_t from, size_t n);
/* Tokens of a text that stands behind a letter. */
int  text_tokens_behind(const struct engine *, const char *text, size_t n, struct tokens *out, struct err *);
/* The last message grows no more; it does again, without its question.  For talk.c. */
void talk_stream_close(struct talk *);
void talk_stream_open(struct talk *);

/* ---- turns ---- */

typedef int talk_text_fn(const char *bytes, size_t n, void *ud, struct err *);   /* -1 ends the turn */
struct talk_hooks {
	talk_text_fn *text; void *text_ud;
	timeline_progress_fn *progress; void *progress_ud;
};
/* Tokens that are in the cache. */
int32_t talk_kept(const struct timeline_stats *);
/* What has left a bounded cache, as "1,234 of 9,426 tokens have left the cache, 99 in part"; 0: nothing has. */
int  talk_left(const struct timeline_stats *, struct str *out);
/* Everything as the model gets it; reply_head: up to where its answer begins. */
int  talk_render(const struct talk *, int reply_head, struct tokens *out, struct err *);
/* Read now what the next answer would have to read first: documents, and what was said, behind them.  Returns the tokens
 * computed, or -1 (ERR_CANCELLED: the rest is read later). */
int32_t talk_read(struct talk *, timeline_progress_fn *progress, void *ud, struct err *);
/* Ask.  The answer is passed piece by piece to hooks->text and kept, also when the
 * turn ends early; when it ends before the prompt was read the question is taken back.  0, or -1 with
 * ERR_CANCELLED, ERR_FIT, ...; *turn says how far it came. */
int  talk_ask(struct talk *, const char *text, size_t n, const struct talk_hooks *, struct turn *, struct err *);
/* Answer the last question anew; ERR_USAGE when there is none. */
int  talk_again(struct talk *, const struct talk_hooks *, struct turn *, struct err *);
/* Go on with the last answer, which was stopped or cut: what comes is added to it.  turn->answer_tokens: the new ones; 0 when the
 * model has nothing to add, and the answer is as it was. */
int  talk_continue(struct talk *, const struct talk_hooks *, struct turn *, struct err *);
/* A message of an earlier run: appended as it was. */
struct message *talk_message(struct talk *, enum chat_role, const char *text, size_t n, const int32_t *id, size_t n_id);
/* Forget the last n exchanges; how many there were.  Of one that closed a stream the question alone goes first. */
size_t talk_undo(struct talk *, size_t n);
/* Bring back what talk_undo() and talk_drop() took, the newest first: 1, and the name of a document (else nothing is added), or 0:
 * there is nothing.  After a new question there is nothing to bring back; what an earlier run took back is looked for in the
 * session. */
int  talk_redo(struct talk *, struct str *name, struct err *);
/* Nothing is to be brought back any more. */
void talk_forget_taken(struct talk *);
/* Forget what was said; documents stay.  talk_empty: they do not, and it is no new conversation. */
void talk_new(struct talk *);
void talk_empty(struct talk *);
/* For talk*.c. */
void message_free(struct message *);
void document_free(struct document *);
void talk_keep_exchange(struct talk *, size_t from);     /* messages from there on go to what was taken back */
void talk_keep_document(struct talk *, size_t i);        /* and so does a document */
int  talk_put_document(struct talk *, const struct document *, size_t i, struct err *);
/* Tell the cache which tokens are the prefix.  ERR_FIT when it has no room for them. */
int  talk_pin(struct talk *, const struct tokens *want, struct err *);
/* NULL: back to what the template says. */
void talk_system(struct talk *, const char *text);
/* The last answer, or NULL. */
const struct message *talk_answer(const struct talk *);

/* What an answer rests on (evidence.c): watch where it looks while it comes; then name the passages of the documents. */
void evidence_begin(struct talk *);
void evidence_end(struct talk *);

/* The answer as the JSON object of -p --json, with a newline. */
void talk_json(const struct talk *, const struct turn *, struct str *out);

#endif
