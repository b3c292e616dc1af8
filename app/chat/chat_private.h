/* app/chat/chat_private.h - inside app/chat/: what its files share. */
#ifndef WEIR_CHAT_PRIVATE_H
#define WEIR_CHAT_PRIVATE_H

#include "app/chat/chat.h"

/* ---- commands.c ---- */

/* Run the command that begins text. */
void slash_run(struct chat *, char *text);

/* ---- notices.c ---- */

/* For a prefill (ud: the chat): shown by the front end. */
void chat_prefill_progress(int32_t done, int32_t total, void *ud);

/* ---- arguments.c ---- */

/* A number from 1 up that is all of the text, or 0. */
long number_of(const char *text);
/* A file name as completion leaves it: quotes and backslashes removed, ~ is the home directory. */
void unquote(const char *arg, struct str *out);
/* A document by number, or by its name or the beginning of one: its index, or -1. */
long document_of(struct chat *, const char *arg, struct err *);
/* The end of the word at text[at]: a blank that is neither quoted nor behind a backslash, or n. */
size_t word_end(const char *text, size_t n, size_t at);

/* ---- add_documents.c ---- */

/* Add a document, which is freed; the same one again changes nothing, and a newer version of its file takes its place.
 * 0 or -1. */
int document_add(struct chat *, struct doc *, struct err *);
/* Prefill the documents from index `from` on, which are new, and say how many tokens they have. In a pipe they are read
 * with the question. */
void documents_prefill(struct chat *, size_t from);
/* Say what the import has noticed, and text that is hidden from who looks at the document. */
void document_notices(const struct doc *);
/* Standard input as a document; an empty one is none. */
int document_from_stdin(struct chat *, struct err *);
/* "@notes.txt what is in it?": words behind an @ that name a readable file become documents; others are only words. -1:
 * one could not be added, which has been said. */
int attach_files(struct chat *, const struct str *text);

/* ---- library.c ---- */

/* List the documents of other sessions that this conversation has not; appended. */
void library_others(struct chat *, struct str *out);
/* A document of any session, by number or name, as it was imported: doc_free() it. */
int library_known(struct chat *, const char *what, struct doc *out, struct err *);

/* ---- cmd_summarize.c ---- */

/* "Summarize this.", of documents that are only searched: summarize them.  0: it is another question. */
int summary_asked(struct chat *, const char *question, size_t n);
/* Say behind the answer to a question for the whole of a document that there is /summarize. */
void offer_summary(struct chat *, const char *question, size_t n);
void summaries_free(struct chat *);

/* ---- answer_sources.c ---- */

/* Is the attention of the answers observed?  It is not where nobody sees what it says. */
int chat_attends(const struct chat *);
/* Are the sources of answers shown? */
int sources_shown(const struct chat *);
/* Show the passages that answer the question, or are nearest to it: a hook for conversation_ask(). */
void sources_before(struct conversation *, void *chat);
/* The answer has ended: show which passages it attended to. */
void sources_below(struct chat *);

/* ---- prompts.c ---- */

/* The output of the command that was proposed becomes a document (/run). */
void slash_run_command(struct chat *, char *arg);
/* The user typed !COMMAND: keep it for /run, and say what that does. */
void command_propose(struct chat *, const char *command, size_t n);

/* ---- current_session.c ---- */

/* The conversation is not stored: 1, and the user has been told. */
int chat_unkept(struct chat *);
/* There are no sessions to look at: say so, 1. */
int chat_sessionless(struct chat *);

/* ---- session_log_write.c ---- */

/* Save every change of the conversation from now on, or save no more. */
void session_log_attach(struct session_log *, struct conversation *);
void session_log_detach(struct session_log *, struct conversation *);
/* Create the session in the store, where it is not there yet, and store settings and documents that it lacks. */
int session_log_begin(struct session_log *, struct conversation *, struct err *);
/* The conversation belongs to no session any more: its next question begins one. */
void session_log_unbind(struct session_log *, struct conversation *);
/* The session is no longer written here; one without a message and a document is deleted. */
void session_log_leave(struct session_log *);
/* Store the options that a session keeps, the cache policy and the system prompt. */
void session_log_settings(struct session_log *, const struct conversation *);
/* Compute log->fingerprint before each use: it depends on what the timeline holds. */
int session_log_fingerprint(struct session_log *, const struct conversation *, struct err *);
/* The number of the last message that is stored; 0 = none. */
int64_t session_log_head(const struct conversation *);

/* ---- cmd_stream.c ---- */

enum { TEXT_SEARCHED = 8 << 20 }; /* bytes of a text without an end, from its newest on, that questions search */
/* Before a question: what was read so far becomes the document that it searches. */
void chat_read_document(struct chat *);

/* ---- document_search.c ---- */

/* Let the conversation search its documents, and close the index again. */
void document_search_attach(struct chat *);
void document_search_close(struct chat *);

/* ---- message_search.c ---- */

/* Let the conversation search its messages, and close the index again. */
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
