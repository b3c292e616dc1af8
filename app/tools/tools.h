/* app/tools/tools.h - the commands beside the conversation. Each returns the exit code.
 *
 *     models.c            weir models, weir models rm
 *     pull.c              weir pull; its other files: pull.h
 *     inspect.c           weir inspect model, tokens, logits
 *     inspect_chat.c      weir inspect chat
 *     inspect_document.c  weir inspect document
 *     inspect_session.c   weir inspect session
 *     sessions.c          weir sessions; sessions_import.c: import
 *     docs.c              weir docs
 *     stored.c            shared by sessions.c and docs.c
 *     bench.c             weir bench; bench_turns.c: --turns; bench_snapshot.c: saving and loading
 *     doctor.c            weir doctor */
#ifndef WEIR_TOOLS_H
#define WEIR_TOOLS_H

#include "app/conversation/conversation.h"

struct store;
struct snaps;

int cmd_models(const struct options *);
int cmd_models_rm(const struct options *);
int cmd_pull(const struct options *);
/* Fetch a model by a name of the table or of a repository, with the messages and questions of weir pull; append
 * its path. */
int pull_model(const struct options *, const char *name, struct str *path, struct err *);
/* Offer a user at a terminal to fetch a model. 0: fetched, its path is appended; -1: *e. */
int pull_offer(const struct options *, struct str *path, struct err *);
int cmd_inspect_model(const struct options *);
int cmd_inspect_tokens(const struct options *);
int cmd_inspect_logits(const struct options *);
int cmd_inspect_session(const struct options *);
int cmd_inspect_document(const struct options *);
int cmd_inspect_chat(const struct options *);
int cmd_bench(const struct options *);
int cmd_sessions(const struct options *);
int session_import(struct store *, const struct options *, struct err *);
int cmd_docs(const struct options *);

/* Open chat.db and, unless `reads`, kv.db; run the function; close both. Returns the exit code: that of the
 * function, or of its error if it returns -1. snaps is NULL if `reads`. */
typedef int stored_fn(const struct options *, struct store *, struct snaps *, struct err *);
int stored_run(const struct options *, int reads, stored_fn *);
/* Append the words behind the command, blanks between them. ERR_USAGE if there are none: "'weir COMMAND' wants
 * words". */
int stored_words(const struct options *, struct str *out, struct err *);

int cmd_doctor(const struct options *);
/* Append the program's version; verbose: also CPU levels, libraries and compiler, a line each. */
void version_describe(int verbose, struct str *out);

#endif
