/* app/chat/chat_private.h - functions that the files of app/chat share. */
#ifndef WEIR_CHAT_PRIVATE_H
#define WEIR_CHAT_PRIVATE_H

#include "app/chat/chat.h"
#include "app/stream/stream.h"
#include "app/retrieval/retrieval.h"

/* ---- commands.c ---- */

/* Run the command that text begins with. */
void slash_run(struct chat *, char *text);

/* ---- notices.c ---- */

/* Show the progress of a prefill, in tokens. This is a callback for the engine, and `ud` is the struct chat. */
void chat_prefill_progress(int32_t done, int32_t total, void *ud);

/* ---- arguments.c ---- */

/* Parse a number from 1 to 1000000. Returns 0 if the text is anything else. */
long number_of(const char *text);
/* Append a file name, without the quotes and backslashes that completion has added. A leading ~ becomes the home
 * directory. */
void unquote(const char *arg, struct str *out);
/* Find a document by its number, its name or the beginning of its name. Returns its index, or -1. */
long document_of(struct chat *, const char *arg, struct err *);
/* Return the end of the word that begins at text[at]: the next blank that is not quoted or escaped, or n. */
size_t word_end(const char *text, size_t n, size_t at);

/* ---- add_documents.c ---- */

/* Add a document to the conversation, and free the struct doc. If the conversation has a document of the same file, the new one replaces it,
 * unless both texts are equal. Returns 0 or -1. */
int document_add(struct chat *, struct doc *, struct err *);
/* Set up later imports: they recognise scanned pages as the options say, and show their progress. */
void document_recognition(struct chat *);
/* Prefill the documents from index `from` on, and tell the user how many tokens they have. Does nothing if questions
 * come from a pipe: then the first question prefills them. */
void documents_prefill(struct chat *, size_t from);
/* Add standard input as a document; an empty input adds none. */
int document_from_stdin(struct chat *, struct err *);
/* Add as documents all files that a message names as @FILE ("@notes.txt what is in it?"). An @ that names no readable
 * file stays text. Returns 0, or -1 if a document could not be added; the user is then told. */
int attach_files(struct chat *, const struct str *text);

/* ---- read_files.c ---- */

/* A file to read as a document. `doc` is the index of the document that the file replaces; if it is SIZE_MAX, the file
 * becomes a new document. */
struct file_todo {
	const struct doc_path *file;
	size_t doc;
	/* what files_read() did: 0 = it did not read the file; 'n' = added a new document; 'c' = replaced a document;
	 * 's' = found a document with the same text; 'b' = could not read the file */
	char became;
};
/* Result of files_read(): the numbers of new, changed, unchanged and unreadable files, and text about the first
 * failures. */
struct files_read {
	size_t n_new, n_changed, n_same, n_failed;
	struct str failed;
};
/* Read files as documents, and show progress. A file that cannot be read is counted and skipped. `what` is the name of
 * the folder or pattern. Returns 0, or -1 with ERR_CANCELLED if the user stops the work; documents added before that
 * stay. The caller frees out->failed. */
int files_read(struct chat *, const char *what, struct file_todo *, size_t n, struct files_read *out, struct err *);

/* Warn of problems that the import found, and of invisible characters in the text. Returns 1 if there were any. */
int document_notices(const struct doc *);
/* 1 if weir continues after Ctrl-C has stopped some work, because it runs at a terminal. 0 if weir must end, because a
 * script runs it or a signal asks it to quit. */
int may_stay(const struct chat *);
/* Tell the user how many files of a folder or pattern became documents, and which files could not be read. Also name
 * the first file that `list`, the listing of the folder or pattern, has left out because of its name. */
void files_say(const char *what, const struct files_read *, const struct doc_paths *list);

/* ---- folders.c ---- */

/* Open a folder: add its files as documents, and look at them again before each question. Returns 0 or -1. */
int folder_open(struct chat *, const char *path, struct err *);
/* Compare all opened folders with the documents: read new and changed files, drop the documents of files that no longer
 * exist, and tell the user in one line for each folder. Returns 0, or -1 if the user stopped it. */
int folders_look(struct chat *);

/* ---- folder_list.c ---- */

/* Add a folder to the list of opened folders, unless it is there already. `path` is absolute. The function takes
 * ownership of `path`, even if the folder is not added. */
struct folder *folder_add(struct conversation *, char *path);
/* Remove a folder; its documents stay. */
void folder_remove(struct conversation *, struct folder *);
/* Return the innermost opened folder that contains a file, or NULL. */
struct folder *folder_of(const struct conversation *, const char *path);
/* Find a file in f->left, the sorted list of files that are treated specially (struct folder_file). Returns NULL if the
 * list does not have it. */
struct folder_file *left_find(const struct folder *, const char *path);
/* Append a file to f->left. Call left_sort() after the last call. */
void left_put(struct folder *, const char *path, int64_t size, int64_t mtime, char why);
/* Sort the list f->left by path. Entries whose reason (folder_file.why) is 0 are removed first. */
void left_sort(struct folder *);
/* Remove the entries of f->left whose reason (folder_file.why) equals `why`. If `why` is 0, remove all entries. Returns
 * 1 if an entry was removed, else 0. */
int left_drop(struct folder *, char why);
/* 1 if the document is from a file below a folder that was opened. */
int folder_has(const struct conversation *, const struct document *);
/* Record that the user drops (why = 'd') or adds (why = 'k') a document, so that folders_look() respects the user's
 * choice. */
void folder_note(struct conversation *, const struct document *, char why);
/* Write the list of opened folders as text for the session, or read the list from this text. */
void folders_write(const struct conversation *, struct str *out);
void folders_read(struct conversation *, const char *text, size_t n);

/* ---- library.c ---- */

/* Append a list of documents that other sessions have and this conversation does not. */
void library_others(struct chat *, struct str *out);
/* Load a document of any session by its number or name, with the text as it was imported. Free it by doc_free(). */
int library_known(struct chat *, const char *what, struct doc *out, struct err *);

/* ---- cmd_summarize.c ---- */

/* If the question is one like "Summarize this." and the documents are too long to be read whole, run /summarize
 * instead. Returns 1 if it did; 0 if the question must be asked. */
int summary_asked(struct chat *, const char *question, size_t n);
/* Tell the user that /summarize exists, if the question is about a whole document. */
void offer_summary(struct chat *, const char *question, size_t n);
void summaries_free(struct chat *);

/* ---- turns.c ---- */

/* Show events of the conversation to the user; the callback for conversation_open(). */
observer_fn chat_on_event;

/* ---- answer_sources.c ---- */

/* 1 if answers must measure their attention to the documents, because sources are shown or JSON is written. */
int chat_attends(const struct chat *);
/* 1 if the sources of answers are shown. */
int sources_shown(const struct chat *);
/* Show, before the answer, the passages that the search found for the question. */
void sources_before(struct chat *);
/* Show, below the answer, which share of its attention each passage got. */
void sources_below(struct chat *);

/* ---- prompts.c ---- */

enum { PROMPT_MOST = 1 << 20 }; /* maximum number of bytes of a prompt file */
/* Append the path of a folder such as "weir/prompts", below the user's config folder. Returns 0 or -1. */
int prompt_folder(const char *folder, struct str *path);
/* Set *path to the path of the file NAME.md in a folder. Returns 1 if the file can be read, else 0. */
int prompt_file(const char *folder, const char *name, size_t n, struct str *path);
/* Append the name of each prompt file in the folder, with `head` before it, to the list (*name)[count]. Skip names that
 * the list already has. Returns the list's new length; the list is sorted. */
size_t prompt_names(const char *folder, const char *head, char ***name, size_t count);
/* Append the text with its placeholders filled by the words of args: {{1}} by the first word, {{name}} by VALUE of the
 * word name=VALUE, and {} by all words. Returns 1; 0 if the text has no placeholders; -1 with ERR_USAGE if a word is
 * missing. */
int prompt_fill(const char *text, const char *args, struct str *out, struct err *);

/* ---- roles.c ---- */

/* Apply a role to the chat: set c->o and c->frame. `words` has the role's name or path, and the words that fill the
 * placeholders of its text. If `starting` is 1, the model is not open yet: the role may choose the model, and settings
 * given on the command line stay unchanged. *note receives the settings that were made and those that were left out.
 * Returns 0, or -1 with nothing changed. */
int role_apply(struct chat *, const char *words, int starting, struct str *note, struct err *);
/* Append the role's text with the message in the place of __INPUT__. */
void role_frame(const struct chat *, const char *text, size_t n, struct str *out);

/* ---- cmd_settings.c ---- */

/* Find the option that a key of /set names; NULL = none. The key may be a name that other programs use for the option,
 * such as "top_p". */
const struct option_def *setting_find(const char *key);

/* ---- shell_command.c ---- */

/* Run the shell command that was typed last as !COMMAND; its output becomes a document (/run). */
void slash_run_command(struct chat *, char *arg);
/* Run a shell command that the user typed as !COMMAND, if it is allowed; else say that /run would run it. */
void command_typed(struct chat *, const char *command, size_t n);

/* ---- current_session.c ---- */

/* If no session stores the conversation, tell the user why and return 1; else return 0. */
int chat_unkept(struct chat *);
/* If sessions cannot be listed or switched, because the conversation is not saved or saving has failed, tell the user
 * why and return 1. Otherwise return 0, even if this process may only read the session. */
int chat_sessionless(struct chat *);

/* ---- session_log_write.c ---- */

/* Save every change of the conversation from now on, until session_log_detach(). */
void session_log_attach(struct session_log *, struct conversation *);
void session_log_detach(struct session_log *, struct conversation *);
/* Create the session in the store, unless it exists. Then store those settings and documents that the session does not
 * have yet. */
int session_log_begin(struct session_log *, struct conversation *, struct err *);
/* Leave the session: the next question creates a new one. */
void session_log_unbind(struct session_log *, struct conversation *);
/* Stop writing to the session, and delete it if it has neither messages nor documents. */
void session_log_leave(struct session_log *);
/* Store the settings of the session: its options, its cache policy and its system prompt. */
void session_log_settings(struct session_log *, const struct conversation *);
/* Compute log->fingerprint (a hash of the model and all other properties on which a KV snapshot depends). Call this
 * function before each use, because the timeline may have changed. */
int session_log_fingerprint(struct session_log *, const struct conversation *, struct err *);
/* Return the id of the last stored message; 0 = none. */
int64_t session_log_head(const struct conversation *);

/* If `on` is 1, changes of documents are no longer stored at once: the session log only records which documents have
 * changed. If `on` is 0, it stores all recorded changes together. The session log may be NULL. */
void session_log_defer(struct session_log *, struct conversation *, int on);

/* ---- session_log_documents.c ---- */

/* Store the recorded changes of documents and folders in the session, which must exist. Returns 0 or -1. */
int session_log_documents(struct session_log *, struct conversation *, struct err *);
/* Record that the document must be removed from the session. */
void document_row_drop(struct session_log *, struct document *);
/* Record that document i was replaced by another version, or inserted before others. */
void document_rows_from(struct session_log *, struct conversation *, size_t i);
/* After a fork, set document.stored of each document to the id of its copy in the new session. Returns 0 or -1. */
int session_log_adopt(struct session_log *, struct conversation *, struct err *);
/* Mark all documents as not stored in any session. */
void session_log_no_documents(struct session_log *, struct conversation *);

/* ---- cmd_stream.c ---- */

enum { TEXT_SEARCHED = 8 << 20 }; /* bytes at the end of a growing file that a question searches */
/* Make a document from the text of the growing file, as far as it was read, so that the next question can search it. */
void chat_read_document(struct chat *);

/* ---- document_search.c ---- */

/* Let the conversation search its documents, until document_search_close(). */
void document_search_attach(struct chat *);
void document_search_close(struct chat *);
/* Show the progress of work other than a prefill, with the time left. Work that takes only a moment shows no progress.
 * At the end of the work, the caller passes `done` equal to `total`. Returns 1 if the user has stopped the work, else
 * 0. */
int chat_work_progress(struct chat *, const char *verb, size_t done, size_t total);

/* ---- message_search.c ---- */

/* Let the conversation search its messages, until message_search_close(). */
void message_search_attach(struct chat *);
void message_search_close(struct chat *);

/* ---- cmd_memory.c ---- */

/* Let the conversation search the facts that /remember has kept. */
void memory_attach(struct chat *);
/* Append where a fact was told: "from 'garden', 12 May". `from` is the name or title of the session; NULL or "" = none.
 * `at` is the time in seconds since 1970. */
void fact_origin(const char *from, int64_t at, struct str *out);

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
void slash_role(struct chat *, char *arg);
void slash_remember(struct chat *, char *arg);
void slash_memory(struct chat *, char *arg);
void slash_delete(struct chat *, char *arg);
void slash_undelete(struct chat *, char *arg);

#endif
