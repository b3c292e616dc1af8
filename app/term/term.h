/* app/term/term.h - the process and its terminal: messages, answers and progress on their way out, signals, paths,
 * other programs.
 *
 *     say.c       errors, notices, output
 *     format.c    numbers, ages and table cells for people
 *     listing.c   lists as columns or as JSON
 *     terminal.c  what the terminal can show: width, colours
 *     answer.c    the answer on its way to standard output
 *     progress.c  progress on standard error
 *     log.c       the messages of this run, for /log
 *     signals.c   SIGINT, SIGTERM, SIGHUP, SIGWINCH, SIGTSTP
 *     paths.c     whole files, free disk space
 *     external.c  the user's editor and clipboard, shell commands */
#ifndef WEIR_TERM_H
#define WEIR_TERM_H

#include "engine/base/base.h"
#include "engine/engine.h"
#include "ui/ui.h"
#include "ui/text/text.h"

#ifndef WEIR_VERSION /* from the Makefile */
#define WEIR_VERSION "unknown"
#endif

/* ---- messages (say.c) ---- */

int exit_code(enum err_code);
/* Write "weir: TEXT" as one clean line to standard error. */
void say_error(const struct err *);
/* Print *e and return its exit code: `return fail(&e)`. */
int fail(const struct err *);
/* Write a message as one clean line to standard error, or to the function that say_to() has set. */
void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Like say(), but say_again() does not repeat the line. */
void say_once(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Call say() for each line of the text. */
void say_lines(const struct str *);
/* Send the lines of say() to this function, without the newline; NULL: to standard error again. Any thread may
 * then call say(), so the function must be safe to enter from any thread. Call say_to() before other threads start
 * or after they have ended. */
typedef void say_fn(const char *line, size_t n, void *ud);
void say_to(say_fn *, void *ud);
/* Call the function with the last 20 lines that say() wrote to standard error, then forget the lines: a screen
 * that opens shows them. */
void say_again(say_fn *, void *ud);
/* Remember a message for /log; append the last `last` messages, each with its time, and return how many there are. */
void log_add(const char *text, size_t n);
size_t log_show(size_t last, struct str *out);
/* Write all bytes to standard output. ERR_FAIL if that fails. */
int print_all(const char *bytes, size_t n, struct err *);
/* Like print_all(), for text with foreign bytes: through clean_text() if standard output is a terminal. */
int print_json(const struct str *line, struct err *);
/* Call write(2) until all bytes are written. -1 and errno. */
int write_all(int fd, const char *bytes, size_t n);

/* ---- numbers for people (format.c) ---- */

/* Append 1234567 as "1,234,567"; bytes as "93.8 MiB". */
void human_count(struct str *out, uint64_t n);
void human_bytes(struct str *out, uint64_t n);
/* Append foreign text, cleaned, in exactly `width` columns: padded, or cut and marked with three dots. */
void table_cell(struct str *out, const char *text, size_t width);
/* Append seconds since 1970 as an age: "now", "5 min ago", "3 h ago", "2 days ago" or the day. */
void human_age(struct str *out, int64_t then);

/* ---- lists (listing.c) ---- */

enum cell_kind {
	CELL_TEXT,
	CELL_NUMBER,
	CELL_COUNT, /* a number; blank if 0 */
	CELL_BYTES,
	CELL_AGE, /* seconds since 1970 */
};
struct listing_cell {
	const char *key;   /* member of the JSON object; NULL: shown only as text */
	const char *title; /* head of the column; NULL: written only as JSON */
	int width;         /* columns; negative: foreign text, cleaned, cut and aligned to the left (table_cell) */
	enum cell_kind kind;
	const char *text;
	int64_t number;
};
/* The rows so far. All rows of a list have the same cells. */
struct listing {
	int json;       /* 1 = a JSON object a row */
	int titles;     /* 1 = a line of titles above the first row */
	int rows;       /* rows so far */
	struct str out; /* lines with newlines between, none after the last */
};
void listing_row(struct listing *, const struct listing_cell *, size_t n);
/* Write the rows and a newline to standard output through print_json(); free the rows. */
int listing_print(struct listing *, struct err *);
/* Append a passage as one line: newlines and form feeds become blanks, the bytes 1 and 2 around a word that was found
 * become `mark`. */
void one_line(struct str *out, const char *text, size_t n, const char *mark);

/* ---- files (paths.c) ---- */

/* Make the directories above the last slash of the path, mode 0700. -1 and errno. */
int make_parents(const char *path);
int64_t disk_free_bytes(const char *path); /* free bytes of the nearest directory that exists; -1 = unknown */
/* Append a whole stream ("-" = standard input) or regular file of at most `max` bytes. ERR_USAGE. */
int read_whole(const char *path, size_t max, struct str *out, struct err *);

/* ---- signals (signals.c) ----
 * Handlers set flags, cancel the timeline and write one byte into a pipe, whose reading end is signals_fd(). */

void signals_init(void);
/* Let SIGINT, SIGTERM and SIGHUP cancel this timeline. NULL: the signals end the program, or after signals_note(1)
 * are noted for signals_take_int() and signals_quit(). */
void signals_watch(struct timeline *);
/* 1: work without a timeline begins; the work must poll signals_stopped(). 0: the work has ended. A timeline that is
 * watched between the two belongs to the work: it is cancelled at once if the work was stopped. */
void signals_work(int on);
void signals_note(int on);
/* waiting = 1: note window size changes and Ctrl-Z, too, until signals_prompt(0). */
void signals_prompt(int waiting);
/* Disable core files of this process and of the programs that it starts: its memory holds secrets. */
void signals_leave_no_core(void);
/* Save the terminal state of fd; it is restored if the program dies. reset: a constant string that is written
 * then. */
void signals_save_terminal(int fd, const char *reset);
/* Stop the running answer or work, as SIGINT does. */
void signals_stop(void);
int signals_fd(void);
void signals_drain(void);
int signals_take_int(void); /* 1 if SIGINT came since the last call */
int signals_take_resize(void);
int signals_take_stop(void); /* 1 if SIGTSTP came at a prompt */
int signals_quit(void);      /* number of the SIGTERM or SIGHUP that came; 0 = none */
int signals_working(void);   /* 1 between signals_work(1) and signals_work(0) */
int signals_stopped(void);   /* 1 if a signal or signals_stop() stopped the running answer or work */

/* ---- the answer (answer.c) ----
 * Text of a model may hold control sequences, and arrives in parts that may end inside a character. The filter
 * (clean_text) keeps an incomplete character until the rest arrives; at the end the character becomes U+FFFD. */

struct output {
	int filter; /* 1 = through clean_text() */
	struct clean clean;
	int to_terminal; /* 1 = wrap words */
	struct wrap wrap;
	struct str held;  /* without the filter: bytes of an incomplete character */
	struct str ready; /* scratch */
	int mid_line;     /* 1 = the text written so far does not end with a newline */
	int broken;       /* standard output cannot be written */
};
void output_init(struct output *, int raw);
void output_free(struct output *);
/* Write a part of the answer. -1: standard output cannot be written. */
int output_text(struct output *, const char *bytes, size_t n, struct err *);
/* End the answer: write the incomplete character, and a newline if the last line lacks one. */
int output_end(struct output *, struct err *);
/* Begin a new line on the terminal if an answer's line is open, so that a message gets a line of its own. */
void output_break(void);

/* ---- the terminal (terminal.c) ---- */

/* Columns of the terminal behind this file descriptor; 0 = no terminal, or unknown. */
size_t terminal_width(int fd);
/* Append clean text, wrapped for that terminal; unchanged if the descriptor is no terminal. */
void terminal_wrap(int fd, const char *text, size_t n, struct str *out);
/* 1 if TERM is missing or "dumb": no control sequences. */
int terminal_is_dumb(void);
/* Ask the user on standard error until one of these letters is pressed, and return the letter; Enter stands for
 * the first letter. 0: Ctrl-D or the end of the input. */
int terminal_choose(const char *question, const char *letters);
/* 1 if colours are wanted on this file descriptor. when: "always", "never" or "auto". */
int color_wanted(const char *when, int fd);

/* ---- progress (progress.c) ---- */

/* One line on a terminal's standard error that rewrites itself: "reading 512/4,096 tokens ...". */
struct progress {
	int on;       /* 1 = rewrite one line */
	int lines;    /* 1 = plain lines instead: with -v, if standard error is no terminal */
	double every; /* seconds between them */
	int shown;    /* 1 = the line is on the terminal */
	const char *verb, *unit;
	double start, last;
	int64_t first; /* `done` of the first call: does not count for the speed */
	int started;
};
/* 1 while say_to() is set. The screen then has standard error for itself, and no progress is shown. */
int said_elsewhere(void); /* say.c */
void progress_init(struct progress *, int quiet, int verbose, const char *verb, const char *unit);
void progress_show(struct progress *, int64_t done, int64_t total);
/* Show a plain line each five seconds, also without -v, if standard error is no terminal. */
void progress_slow(struct progress *, int quiet);
/* Like progress_show(), with this text. */
void progress_line(struct progress *, const char *text);
void progress_now(struct progress *, const char *text); /* without delay: the work that follows may take long */
/* Show the name of work that reports no progress, until progress_clear(). */
void progress_begin(struct progress *, int quiet, const char *text);
/* How far a streamed text (weir read) is read. */
struct reading {
	uint64_t tokens;
	uint64_t at, total; /* bytes; total 0 = unknown */
	/* the page's label and its number among all pages; page NULL: the text has no pages */
	const char *page;
	int32_t number, pages;
	double tps, left; /* left: seconds, < 0 = unknown */
	int waiting;      /* 1 = the source has no more text yet */
	int imports;      /* 1 = no text yet: the document is being imported */
};
/* Append "reading 123,456 tokens, 24 % of 1.2 MB, p. 34 of 311, 1,300 t/s, 95 s left"; brief: "reading 123,456,
 * 24% of 1.2 MB, p. 34/311". If the page's label is not its number: "p. xii (12 of 311)", "p. xii (12/311)". */
void reading_text(const struct reading *, int brief, struct str *out);
void progress_clear(struct progress *);

/* ---- other programs (external.c) ---- */

/* Edit the text in $VISUAL or $EDITOR (else vi), which gets the terminal; the screen must be closed. On success
 * text becomes what was saved, without its last newline. -1: the editor could not be run or failed; text is
 * unchanged. The draft is in a folder of its own, which is removed with all files of the editor, also if this
 * program is killed while the editor runs. in_memory: only on a file system in memory. */
int external_edit(struct str *text, int in_memory, struct err *);
/* Run a shell command without input; append at most `most` bytes of its output to *out, and set *status (waitpid).
 * -1: it could not be run, printed more, or was stopped (signals_stopped()). */
int external_run(const char *command, size_t most, struct str *out, int *status, struct err *);
/* Copy the text to the clipboard with wl-copy, xclip or xsel, if one is installed and its desktop runs, and inside
 * tmux to its buffer. Returns the name of the program ("xclip and tmux"), or NULL. A program that hangs is killed
 * after 1.5 s. */
const char *external_copy(const char *text, size_t n);

#endif
