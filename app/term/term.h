/* app/term/term.h - the process and its terminal: output, signals, files, other programs.
 *
 *     say.c:      prints errors, notices, output;
 *     format.c:   numbers, ages and table cells for people;
 *     listing.c:  lists as columns or as JSON;
 *     terminal.c: what the terminal can show: width, colours;
 *     answer.c:   writes an answer to standard output;
 *     progress.c: progress on standard error;
 *     log.c:      the messages of this run, for /log;
 *     signals.c:  SIGINT, SIGTERM, SIGHUP, SIGWINCH, SIGTSTP;
 *     paths.c:    whole files, free disk space;
 *     external.c: the user's editor and clipboard, shell commands. */
#ifndef WEIR_TERM_H
#define WEIR_TERM_H

#include "engine/base/base.h"
#include "engine/engine.h"
#include "ui/ui.h"
#include "ui/text/text.h"

#ifndef WEIR_VERSION /* the Makefile defines WEIR_VERSION */
#define WEIR_VERSION "unknown"
#endif

/* ---- messages (say.c) ---- */

int exit_code(enum err_code);
/* Write "weir: TEXT" to standard error, as one line without control characters. */
void say_error(const struct err *);
/* Print *e, and return the exit code for it. Used as `return fail(&e)`. */
int fail(const struct err *);
/* Write a message as one line, without control characters, to standard error or to the function of say_to(). */
void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Do the same as say(), but the line is not repeated by say_again(). */
void say_once(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Call say() for each line of the text. */
void say_lines(const struct str *);
typedef void say_fn(const char *line, size_t n, void *ud);
/* Pass each line of say() to this function, without the newline. NULL: write to standard error again. The function must
 * be thread-safe, because any thread may call say(). Call say_to() itself only while no other thread runs. */
void say_to(say_fn *, void *ud);
/* Call the function with each of the last 20 lines that say() wrote to standard error, then forget these lines. The
 * full screen uses this to show the lines that it has covered. */
void say_again(say_fn *, void *ud);
/* log_add() keeps a message for /log. log_show() appends the newest `last` messages with their times, and returns their
 * number. */
void log_add(const char *text, size_t n);
size_t log_show(size_t last, struct str *out);
/* Write all bytes to standard output. Returns 0, or -1 with ERR_FAIL. */
int print_all(const char *bytes, size_t n, struct err *);
/* Write a line of JSON to standard output. On a terminal, control characters are filtered (clean_text()). */
int print_json(const struct str *line, struct err *);
/* Call write(2) until all bytes are written. Returns 0, or -1 with errno set. */
int write_all(int fd, const char *bytes, size_t n);

/* ---- numbers for people (format.c) ---- */

/* human_count(): append a number such as "1,234,567". human_bytes(): append a size such as "93.8 MiB". */
void human_count(struct str *out, uint64_t n);
void human_bytes(struct str *out, uint64_t n);
/* Append the size of saved snapshots, and how much of this size is near-exact (packed to save room). Example: "6.5 MiB,
 * 6.0 MiB of it near-exact". */
void human_saved(struct str *out, uint64_t bytes, uint64_t packed);
/* Append text in exactly `width` columns: shorter text is padded with blanks, longer text is truncated and ends with
 * three dots. Control characters are filtered. */
void table_cell(struct str *out, const char *text, size_t width);
/* Append the age of a time (seconds since 1970): "now", "5 min ago", "3 h ago", "2 days ago", or the date. */
void human_age(struct str *out, int64_t then);

/* ---- lists (listing.c) ---- */

enum cell_kind {
	CELL_TEXT,
	CELL_NUMBER,
	CELL_COUNT, /* a number; 0 is shown as a blank cell */
	CELL_BYTES,
	CELL_AGE, /* a time in seconds since 1970, which is shown as an age */
};
struct listing_cell {
	const char *key;   /* name of the JSON member; NULL: the cell is shown only in tables */
	const char *title; /* title of the column; NULL: the cell is written only in JSON */
	/* width in columns; if it is negative, the text is untrusted: it is filtered, left-aligned, and truncated to
	 * the width (table_cell()) */
	int width;
	enum cell_kind kind;
	const char *text;
	int64_t number;
};
/* A table that is being built. All rows have the same columns. */
struct listing {
	int json;       /* 1 = each row is written as a JSON object on a line */
	int titles;     /* 1 = write the titles of the columns above the first row */
	int rows;       /* number of rows so far */
	struct str out; /* the lines so far, separated by newlines */
};
void listing_row(struct listing *, const struct listing_cell *, size_t n);
/* Write the table to standard output, and free it. */
int listing_print(struct listing *, struct err *);
/* Append a found passage as one line: newlines and form feeds become blanks. The search encloses each found word in the
 * bytes 1 and 2; each of these bytes is replaced by `mark`. */
void one_line(struct str *out, const char *text, size_t n, const char *mark);

/* ---- files (paths.c) ---- */

/* Create the directories above the last slash of the path, with mode 0700. Returns 0, or -1 with errno set. */
int make_parents(const char *path);
/* returns the free space, in bytes, at the path or at its nearest parent that exists; -1 = unknown */
int64_t disk_free_bytes(const char *path);
/* Append the bytes of a file, or of standard input ("-"), to *out. Returns 0, or -1 with ERR_USAGE if the file cannot
 * be read or has more than `max` bytes. */
int read_whole(const char *path, size_t max, struct str *out, struct err *);

/* ---- signals (signals.c) ---- A handler sets flags, cancels the watched timeline (the running answer) and makes
 * signals_fd() readable. */

void signals_init(void);
/* Let SIGINT, SIGTERM and SIGHUP cancel the work of this timeline. If the timeline is NULL, these signals end the
 * program. But after signals_note(1) they do not end the program: they are recorded for signals_take_int() and
 * signals_quit(). */
void signals_watch(struct timeline *);
/* signals_work(1) begins long work, which must poll signals_stopped(), so that signals can stop it. signals_work(0)
 * ends the work. If a signal has stopped the work before signals_watch() gets a timeline, that timeline is cancelled at
 * once. */
void signals_work(int on);
void signals_note(int on);
/* Call with 1 before waiting for a key, and with 0 after it. Between these two calls, changes of the window's size and
 * Ctrl-Z are recorded, too. */
void signals_prompt(int waiting);
/* Disable core files of this process and of programs that it starts, because its memory contains secrets. */
void signals_leave_no_core(void);
/* Save the terminal's state, which is restored if a signal ends the program. The control sequence `reset` is then
 * written, too; it must be a constant string. */
void signals_save_terminal(int fd, const char *reset);
/* Stop the current answer or work, as SIGINT does. */
void signals_stop(void);
int signals_fd(void);
void signals_drain(void);
int signals_take_int(void); /* returns 1 if SIGINT has come since the last call */
int signals_take_resize(void);
int signals_take_stop(void); /* returns 1 if SIGTSTP has come while a prompt waited for a key */
int signals_quit(void);      /* returns the number of the signal SIGTERM or SIGHUP if one has come; 0 = none has come */
int signals_working(void);   /* returns 1 while work runs, between signals_work(1) and signals_work(0) */
int signals_stopped(void);   /* returns 1 if a signal or signals_stop() has stopped the current answer or work */

/* ---- the answer (answer.c) ---- A model's text may contain control sequences, and arrives in parts that may end
 * inside a UTF-8 character. The filter (clean_text) keeps an incomplete character until the next part. An incomplete
 * character at the end of the answer becomes U+FFFD. */

struct output {
	int filter; /* 1 = pass the text through clean_text() */
	struct clean clean;
	int to_terminal; /* 1 = wrap words */
	struct wrap wrap;
	struct str held;  /* bytes of an incomplete character, if the text is not filtered */
	struct str ready; /* scratch buffer */
	int mid_line;     /* 1 = the text written so far does not end with a newline */
	int broken;       /* 1 = standard output can no longer be written */
};
void output_init(struct output *, int raw);
void output_free(struct output *);
/* Write a part of the answer. Returns 0, or -1 if standard output cannot be written. */
int output_text(struct output *, const char *bytes, size_t n, struct err *);
/* End the answer: write an incomplete character as U+FFFD, and a newline if the last line has none. */
int output_end(struct output *, struct err *);
/* Write a newline if an answer is in the middle of a line, so that a message begins on its own line. */
void output_break(void);

/* ---- the terminal (terminal.c) ---- */

/* Return the width, in columns, of the terminal of this file descriptor. 0 = it is not a terminal, or the width is
 * unknown. */
size_t terminal_width(int fd);
/* Append text, wrapped at the terminal's width. If fd is not a terminal, append the text unchanged. The text must be
 * free of control characters. */
void terminal_wrap(int fd, const char *text, size_t n, struct str *out);
/* 1 if control sequences must not be written, because the environment variable TERM is missing or "dumb". */
int terminal_is_dumb(void);
/* Ask the user on standard error until one of the letters is typed, and return this letter. Enter means the first
 * letter. Returns 0 for Ctrl-D and at the end of the input. */
int terminal_choose(const char *question, const char *letters);
/* 1 if output to this file descriptor should have colours. `when` is "always", "never" or "auto". */
int color_wanted(const char *when, int fd);

/* ---- progress (progress.c) ---- */

/* A progress line on standard error, which is overwritten at each update: "reading 512/4,096 tokens ...". */
struct progress {
	int on;       /* 1 = progress is shown by overwriting one line */
	int lines;    /* 1 = progress is shown by printing new lines, because standard error is not a terminal */
	double every; /* minimum number of seconds between two updates */
	int shown;    /* 1 = the line is on the terminal now */
	const char *verb, *unit;
	double start, last;
	int64_t first; /* value of `done` at the first call; for the speed, only the work after it counts */
	int started;
};
/* 1 while say_to() is in effect: a full screen uses standard error, so no progress line may be written. */
int said_elsewhere(void); /* say.c */
void progress_init(struct progress *, int quiet, int verbose, const char *verb, const char *unit);
void progress_show(struct progress *, int64_t done, int64_t total);
/* Call this after progress_init() for very long work. If standard error is not a terminal, a new line is then printed
 * every five seconds, even without -v. */
void progress_slow(struct progress *, int quiet);
/* Do the same as progress_show(), but show this text instead of the numbers. */
void progress_line(struct progress *, const char *text);
/* Do the same as progress_line(), but show the text at once, because the work that follows may take long. */
void progress_now(struct progress *, const char *text);
/* Show the name of work whose progress is unknown, until progress_clear(). */
void progress_begin(struct progress *, int quiet, const char *text);
/* How much of a streamed text (weir read) was read so far. */
struct reading {
	uint64_t tokens;
	uint64_t at, total; /* number of bytes that were read, and number of all bytes; `total` is 0 if it is unknown */
	/* `page` is the label of the current page, or NULL if the text has no pages; `number` is the number of this
	 * page, from 1 */
	const char *page;
	int32_t number, pages;
	/* `tps` is the speed in tokens per second; `left` is the estimated number of seconds to the end, < 0 =
	 * unknown */
	double tps, left;
	int waiting; /* 1 = the source has no more text at the moment */
	int imports; /* 1 = there is no text yet, because the document is being imported */
};
/* Append how much of a file was read: "reading 123,456 tokens, 24 % of 1.2 MiB, p. 34 of 311, 1,300 t/s, 80 s left". If
 * `brief` is 1, append "reading 123,456 24% of 1.2 MiB p. 34/311". If the label of a page differs from its number, both
 * are appended: "p. xii (12 of 311)". */
void reading_text(const struct reading *, int brief, struct str *out);
void progress_clear(struct progress *);

/* ---- other programs (external.c) ---- */

/* Let the user edit the text in $VISUAL, $EDITOR or vi. The caller must close the screen first. *text becomes the saved
 * text without its last newline. Returns 0; or -1 with *text unchanged. If `in_memory` is 1, create the temporary file
 * only on a file system that is in memory. */
int external_edit(struct str *text, int in_memory, struct err *);
/* Run a shell command with empty input. The command's output is appended to *out, and *status receives its exit status.
 * Returns 0; 1 if the command was killed after `seconds`; -1 if it could not be run, printed more than `most` bytes, or
 * was stopped (signals_stopped()). */
int external_run(const char *command, size_t most, int seconds, struct str *out, int *status, struct err *);
/* Copy the text to the desktop's clipboard by wl-copy, xclip or xsel; inside tmux, also copy it to tmux's buffer. A
 * program that hangs is killed after about a second. Returns the names of the programs that took the text ("xclip and
 * tmux"), or NULL. */
const char *external_copy(const char *text, size_t n);

#endif
