/* app/chat/chat_private.h - inside app/chat: what its files share. */
#ifndef WEIR_CHAT_PRIVATE_H
#define WEIR_CHAT_PRIVATE_H

#include "app/chat/chat.h"
#include "app/reader/reader.h"
#include "app/retrieval/retrieval.h"

/* ---- commands.c ---- */

/* Run the command that text begins with. */
void slash_run(struct chat *, char *text);

/* ---- notices.c ---- */

/* The progress hook of a prefill (ud: the chat): the front end shows it. */
void chat_prefill_progress(int32_t done, int32_t total, void *ud);

/* ---- arguments.c ---- */

/* The number that the whole text is, from 1 up; 0: it is none. */
long number_of(const char *text);
/* Append a file name as completion leaves it: without quotes and backslashes, ~ replaced by the home directory. */
void unquote(const char *arg, struct str *out);
/* The index of a document given by number, by name or by the beginning of its name; -1 with an error. */
long document_of(struct chat *, const char *arg, struct err *);
/* The end of the word that contains text[at]: the next blank that is neither quoted nor escaped, or n. */
size_t word_end(const char *text, size_t n, size_t at);

/* ---- add_documents.c ---- */

/* Add a document, and free doc. A document that is already there changes nothing; a newer version of its file
 * replaces it. 0 or -1. */
int document_add(struct chat *, struct doc *, struct err *);
/* Prefill the documents from index `from` on, and say how many tokens they have. Does nothing in a pipe, where
 * documents are read with the question. */
void documents_prefill(struct chat *, size_t from);
/* Say what the import has noticed, and that the text has characters that are invisible in the document. */
void document_notices(const struct doc *);
/* Add standard input as a document; an empty input adds none. */
int document_from_stdin(struct chat *, struct err *);
/* "@notes.txt what is in it?": add each file whose name follows an @ as a document. An @ without a readable file
 * stays text. -1: a document could not be added; the user has been told. */
int attach_files(struct chat *, const struct str *text);

/* ---- library.c ---- */

/* Append a list of the documents of other sessions that this conversation lacks. */
void library_others(struct chat *, struct str *out);
/* A document of any session, by number or name, as it was imported. Free it by doc_free(). */
int library_known(struct chat *, const char *what, struct doc *out, struct err *);

/* ---- cmd_summarize.c ---- */

/* If the question asks for a summary ("Summarize this.") of documents that are only searched, summarize them. 0: it
 * is another question. */
int summary_asked(struct chat *, const char *question, size_t n);
/* After the answer to a question about a whole document, say that there is /summarize. */
void offer_summary(struct chat *, const char *question, size_t n);
void summaries_free(struct chat *);

/* ---- turns.c ---- */

/* Show what the conversation tells: the observer of conversation_open(). */
observer_fn chat_on_event;

/* ---- answer_sources.c ---- */

/* 1 if the attention of answers is observed: it is shown or written as JSON. */
int chat_attends(const struct chat *);
/* 1 if the sources of answers are shown. */
int sources_shown(const struct chat *);
/* Show the passages that answer the question or are nearest to it. */
void sources_before(struct chat *);
/* After an answer: show which passages it attended to. */
void sources_below(struct chat *);

/* ---- prompts.c ---- */

/* Run the proposed command; its output becomes a document (/run). */
void slash_run_command(struct chat *, char *arg);
/* Keep a COMMAND that the user typed as !COMMAND for /run, and say what /run does. */
void command_propose(struct chat *, const char *command, size_t n);

/* ---- current_session.c ---- */

/* 1 if the conversation is not stored, after telling the user. */
int chat_unkept(struct chat *);
/* 1 if this chat has no sessions, after telling the user. */
int chat_sessionless(struct chat *);

/* ---- session_log_write.c ---- */

/* session_log_attach(): save every change of the conversation from now on. session_log_detach(): stop. */
void session_log_attach(struct session_log *, struct conversation *);
void session_log_detach(struct session_log *, struct conversation *);
/* Create the session in the store if it does not exist, and store the settings and documents that it lacks. */
int session_log_begin(struct session_log *, struct conversation *, struct err *);
/* Separate the conversation from its session: its next question creates a session. */
void session_log_unbind(struct session_log *, struct conversation *);
/* Stop writing the session. A session without messages and documents is deleted. */
void session_log_leave(struct session_log *);
/* Store the options that a session keeps, the cache policy and the system prompt. */
void session_log_settings(struct session_log *, const struct conversation *);
/* Compute log->fingerprint; call before each use, because it depends on what the timeline holds. */
int session_log_fingerprint(struct session_log *, const struct conversation *, struct err *);
/* The id of the last stored message; 0 = none. */
int64_t session_log_head(const struct conversation *);

/* ---- cmd_stream.c ---- */

enum { TEXT_SEARCHED = 8 << 20 }; /* bytes: questions search this much of the end of a growing text */
/* Before a question: make the text read so far the document that the question searches. */
void chat_read_document(struct chat *);

/* ---- document_search.c ---- */

/* document_search_attach(): let the conversation search its documents. document_search_close(): close the index. */
void document_search_attach(struct chat *);
void document_search_close(struct chat *);

/* ---- message_search.c ---- */

/* message_search_attach(): let the conversation search its messages. message_search_close(): close the index. */
void message_search_attach(struct chat *);
void message_search_close(struct chat *);

/* ---- the commands, each in the file of its subject ---- */

void slash_help(struct chat *, char *arg);
void slash_quit(struct chat *, char *arg);
void slash_new(struct chat *, char *arg);
void slash_system(struct chat *, char *arg);
void slash_set(struct chat *, char *arg);
void slash_regen(struct chat *, char *arg);
void slash_variant(struct chat *, char *arg);
void slash_undo(struct chat *, char *arg);
void slash_edit(struct chat *, char *arg);
void slash_open(struct chat *, char *arg);
void slash_stream(struct chat *, char *arg);
void slash_pause(struct chat *c, char *arg);
void slash_on(struct chat *, char *arg);
void slash_stats(struct chat *, char *arg);
void slash_redo(struct chat *, char *arg);
void slash_continue(struct chat *, char *arg);
void slash_anyway(struct chat *, char *arg);
void slash_docs(struct chat *, char *arg);
void slash_outline(struct chat *, char *arg);
void slash_goto(struct chat *, char *arg);
void slash_source(struct chat *, char *arg);
void slash_drop(struct chat *, char *arg);
void slash_summarize(struct chat *, char *arg);
void slash_pin(struct chat *, char *arg);
void slash_model(struct chat *, char *arg);
void slash_think(struct chat *, char *arg);
void slash_editor(struct chat *, char *arg);
void slash_log(struct chat *, char *arg);
void slash_sessions(struct chat *, char *arg);
void slash_switch(struct chat *, char *arg);
void slash_rename(struct chat *, char *arg);
void slash_fork(struct chat *, char *arg);
void slash_find(struct chat *, char *arg);
void slash_export(struct chat *, char *arg);
void slash_save(struct chat *, char *arg);
void slash_kv(struct chat *, char *arg);
void slash_delete(struct chat *, char *arg);
void slash_undelete(struct chat *, char *arg);

#endif
