/* app/tools/tools.h - the commands other than the conversation. Each returns the exit code.
 *
 *     models.c:           weir models, weir models rm;
 *     pull.c, pull_*.c:   weir pull (pull.h);
 *     inspect.c:          weir inspect model, tokens, logits;
 *     inspect_chat.c:     weir inspect chat;
 *     inspect_document.c: weir inspect document;
 *     inspect_session.c:  weir inspect session;
 *     sessions.c:         weir sessions; import: sessions_import.c;
 *     docs.c:             weir docs;
 *     stored.c:           shared by sessions.c and docs.c;
 *     bench.c:            weir bench; --turns: bench_turns.c; snapshots: bench_snapshot.c;
 *     doctor.c:           weir doctor. */
#ifndef WEIR_TOOLS_H
#define WEIR_TOOLS_H

#include "app/conversation/conversation.h"

struct store;
struct snaps;

int cmd_models(const struct options *);
int cmd_models_rm(const struct options *);
int cmd_pull(const struct options *);
/* If the user is at a terminal, offer to fetch a model. Returns 0 if a model was fetched, and appends its path to
 * *path; otherwise returns -1. */
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

/* Open chat.db and kv.db, call the function, and close both. If `reads` is 1, open only chat.db, read-only, and pass
 * NULL as snaps. If the function returns -1, return the exit code of its error; otherwise return its result as the exit
 * code. */
typedef int stored_fn(const struct options *, struct store *, struct snaps *, struct err *);
int stored_run(const struct options *, int reads, stored_fn *);
/* Append the words that follow the command on the command line, with blanks between them. Returns 0, or -1 with
 * ERR_USAGE if there are no such words. */
int stored_words(const struct options *, struct str *out, struct err *);

int cmd_doctor(const struct options *);
/* Append the program's version. If `verbose` is 1, also append CPU levels, libraries and compiler, one per line. */
void version_describe(int verbose, struct str *out);

#endif
