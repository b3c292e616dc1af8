/* app/tools/tools.h - commands beside the conversation: each returns the exit code.
 *
 *     models.c           weir models
 *     inspect.c          weir inspect model, tokens, logits
 *     inspect_session.c  weir inspect session
 *     sessions.c         weir sessions: all its commands
 *     docs.c             weir docs: all its commands
 *     bench.c            weir bench; bench_turns.c: --turns; bench_snapshot.c: saving and loading
 *     doctor.c           weir doctor */
#ifndef WEIR_TOOLS_H
#define WEIR_TOOLS_H

#include "app/conversation/conversation.h"

int cmd_models(const struct options *);
int cmd_inspect_model(const struct options *);
int cmd_inspect_tokens(const struct options *);
int cmd_inspect_logits(const struct options *);
int cmd_inspect_session(const struct options *);
int cmd_inspect_document(const struct options *);
int cmd_inspect_chat(const struct options *);
int cmd_bench(const struct options *);
int cmd_sessions(const struct options *);
int cmd_docs(const struct options *);
int cmd_doctor(const struct options *);

#endif
