/* app/app.h (private to app/) - what the commands share: paths, messages, signals, opening the model. */
#ifndef WEIR_APP_H
#define WEIR_APP_H

#include "app/options.h"
#include "engine/base.h"
#include "engine/engine.h"

#ifndef WEIR_VERSION   /* from the Makefile */
#define WEIR_VERSION "unknown"
#endif
#define DEFAULT_MODEL "SmolLM2-135M-Instruct.Q4_1.gguf"

/* ---- commands: each returns the exit code ---- */

int cmd_chat(struct options *);            /* line.c, tui.c: interactive, or one question a line from a pipe */
int cmd_oneshot(struct options *);         /* oneshot.c: -p */
int cmd_models(const struct options *);
int cmd_inspect_model(const struct options *);
int cmd_inspect_tokens(const struct options *);
int cmd_inspect_logits(const struct options *);
int cmd_inspect_session(const struct options *);   /* inspect_session.c */
int cmd_eval_ppl(const struct options *);
int cmd_eval_recovery(const struct options *);
int cmd_eval_plot(const struct options *);
int cmd_eval_tasks(const struct options *);   /* eval_tasks.c: ruler, passkey, chain, needle */
int cmd_bench(const struct options *);
int cmd_sessions(const struct options *);     /* sessions.c: all commands that begin with "sessions" */
int cmd_doctor(const struct options *);
int cmd_completion(const struct options *);

/* ---- messages (messages.c) ---- */

int  exit_code(enum err_code);
/* "weir: TEXT" as one clean line on standard error. */
void say_error(const struct err *);
/* Print *e and return its exit code: `return fail(&e)`. */
int  fail(const struct err *);
/* A line of our own on standard error, cleaned; for -v and notices. */
void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Each line of a notice as say() does. */
void say_lines(const struct str *);
/* From now on say() gives its lines, without the newline, to this function instead, which any thread may enter; NULL: standard error
 * again. */
typedef void say_fn(const char *line, size_t n, void *ud);
void say_to(say_fn *, void *ud);
/* What was said to the user so far (log.c): remember it; the last lines of it, each with its time.  Returns how many there are. */
void log_add(const char *text, size_t n);
size_t log_show(size_t last, struct str *out);
/* Everything to standard output, ERR_FAIL when it cannot be written. */
int  print_all(const char *bytes, size_t n, struct err *);
/* The same for text that may hold foreign bytes: through clean_text() when standard output is a terminal. */
int  print_json(const struct str *line, struct err *);
/* write(2) until all is out; -1 and errno. */
int  write_all(int fd, const char *bytes, size_t n);
/* A number JSON can hold: null for infinity and NaN. */
void json_number(struct str *out, double v, const char *fmt) __attribute__((format(printf, 3, 0)));
/* 1234567 as "1,234,567"; "93.8 MiB".  Appended. */
void human_count(struct str *out, uint64_t n);
void human_bytes(struct str *out, uint64_t n);
/* Foreign text, cleaned, in exactly `width` columns of a table: padded, or cut and marked with three dots. */
void table_cell(struct str *out, const char *text, size_t width);
/* Seconds since 1970 as "now", "5 min ago", "3 h ago", "2 days ago" or the day. */
void human_age(struct str *out, int64_t then);

/* ---- files (files.c) ---- */

/* XDG directories of this program, with name appended; that of the sessions is store_place(). */
void path_config(struct str *out, const char *name);
void path_state(struct str *out, const char *name);
void path_cache(struct str *out, const char *name);
/* Make the directories above the last slash, mode 0700. */
int  make_parents(const char *path);
int64_t  disk_free_bytes(const char *path);   /* of the nearest directory that exists; -1 = unknown */
/* A whole stream ("-" = standard input) or regular file, with a size limit; ERR_USAGE. */
int  read_whole(const char *path, size_t max, struct str *out, struct err *);

/* ---- the model ---- */

/* -m, WEIR_MODEL and config are in the options; then the cache.  ERR_MODEL when there is none. */
int model_path(const struct options *, struct str *out, struct err *);
enum model_use { MODEL_RUN, MODEL_LOOK, MODEL_VOCAB };   /* all; all but the weights, checked; the vocabulary alone */
int model_open(struct engine **, const struct options *, enum model_use, struct err *);
int timeline_open_for(struct timeline **, struct engine *, const struct options *, int32_t ctx, struct err *);

/* ---- signals (signals.c) ----
 * Handlers only set flags, ask the timeline to stop and write one byte into a pipe; who waits polls signals_fd(). */

void signals_init(void);
/* From now on SIGINT, SIGTERM and SIGHUP stop this timeline.  NULL: they end the program, unless signals_note(1) asks that
 * they are only noted, for signals_take_int() and signals_quit(). */
void signals_watch(struct timeline *);
void signals_note(int on);
/* Window size changes and Ctrl-Z are noted, too, while someone waits at a prompt. */
void signals_prompt(int waiting);
/* Remember how the terminal of fd was, to restore it when the program dies; reset: a constant string that is sent to it then. */
void signals_save_terminal(int fd, const char *reset);
/* As SIGINT: stop the running answer. */
void signals_stop(void);
int  signals_fd(void);
void signals_drain(void);
int  signals_take_int(void);        /* SIGINT came since the last call */
int  signals_take_resize(void);
int  signals_take_stop(void);       /* SIGTSTP at a prompt */
int  signals_quit(void);            /* SIGTERM or SIGHUP came: its number; 0 = no */
int  signals_stopped(void);         /* any of them asked the running answer to stop */

#endif
