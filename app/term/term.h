/* app/term/term.h - the process and its terminal: messages, answers and progress on their way out, signals, paths,
 * other programs.
 *
 *     say.c       errors, notices, output
 *     format.c    numbers, times and table cells as people read them
 *     listing.c   lists as columns or as JSON
 *     terminal.c  what the terminal can show: width, colours
 *     answer.c    the answer on its way to standard output
 *     progress.c  progress on standard error
 *     log.c       what was said so far
 *     signals.c   SIGINT, SIGTERM, SIGHUP, SIGWINCH, SIGTSTP
 *     paths.c     whole files, free disk space
 *     external.c  the user's editor and clipboard */
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
/* "weir: TEXT" as one clean line on standard error. */
void say_error(const struct err *);
/* Print *e and return its exit code: `return fail(&e)`. */
int fail(const struct err *);
/* A line of our own on standard error, cleaned; for -v and notices. */
void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* A line on standard error that the screen of a chat that opens next does not show again. */
void say_once(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Each line of a notice as say() does. */
void say_lines(const struct str *);
/* From now on say() gives its lines, without the newline, to this function instead, which any thread may enter; NULL:
 * standard error again. */
typedef void say_fn(const char *line, size_t n, void *ud);
void say_to(say_fn *, void *ud);
/* Gives the last 20 lines that went to standard error once more, to this function, and forgets them: for a screen that
 * opens now. */
void say_again(say_fn *, void *ud);
/* What was said to the user so far (log.c): remember it; the last lines of it, each with its time. Returns how many
 * there are. */
void log_add(const char *text, size_t n);
size_t log_show(size_t last, struct str *out);
/* Everything to standard output, ERR_FAIL when it cannot be written. */
int print_all(const char *bytes, size_t n, struct err *);
/* The same for text that may hold foreign bytes: through clean_text() when standard output is a terminal. */
int print_json(const struct str *line, struct err *);
/* write(2) until all is out; -1 and errno. */
int write_all(int fd, const char *bytes, size_t n);

/* ---- as people read it (format.c) ---- */

/* 1234567 as "1,234,567"; "93.8 MiB".  Appended. */
void human_count(struct str *out, uint64_t n);
void human_bytes(struct str *out, uint64_t n);
/* Foreign text, cleaned, in exactly `width` columns of a table: padded, or cut and marked with three dots. */
void table_cell(struct str *out, const char *text, size_t width);
/* Seconds since 1970 as "now", "5 min ago", "3 h ago", "2 days ago" or the day. */
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
/* Rows in the making. The rows of a list have the same cells. */
struct listing {
	int json;       /* 1 = a JSON object a row */
	int titles;     /* 1 = a line of titles above the first row */
	int rows;       /* rows so far */
	struct str out; /* lines with newlines between, none after the last */
};
void listing_row(struct listing *, const struct listing_cell *, size_t n);
/* Write the rows and a newline to standard output, through print_json(), and free them. */
int listing_print(struct listing *, struct err *);
/* Append a passage as one line: newlines and form feeds become blanks, the bytes 1 and 2 around a word that was found
 * become `mark`. */
void one_line(struct str *out, const char *text, size_t n, const char *mark);

/* ---- files (paths.c) ---- */

/* Make the directories above the last slash, mode 0700. */
int make_parents(const char *path);
int64_t disk_free_bytes(const char *path); /* of the nearest directory that exists; -1 = unknown */
/* A whole stream ("-" = standard input) or regular file, with a size limit; ERR_USAGE. */
int read_whole(const char *path, size_t max, struct str *out, struct err *);

/* ---- signals (signals.c) ----
 * Handlers only set flags, ask the timeline to stop and write one byte into a pipe; who waits polls signals_fd(). */

void signals_init(void);
/* From now on SIGINT, SIGTERM and SIGHUP stop this timeline. NULL: they end the program, unless signals_note(1) asks
 * that they are only noted, for signals_take_int() and signals_quit(). */
void signals_watch(struct timeline *);
/* The same for work without a timeline, which asks signals_stopped() now and then, until signals_work(0). A timeline
 * that is watched meanwhile is part of the work: it is cancelled at once where the work was stopped before. */
void signals_work(int on);
void signals_note(int on);
/* Window size changes and Ctrl-Z are noted, too, while someone waits at a prompt. */
void signals_prompt(int waiting);
/* Remember how the terminal of fd was, to restore it when the program dies; reset: a constant string that is sent to it
 * then. */
/* No core file of this process, nor of a program that it starts: there are secrets in its memory. */
void signals_leave_no_core(void);
void signals_save_terminal(int fd, const char *reset);
/* As SIGINT: stop the running answer or work. */
void signals_stop(void);
int signals_fd(void);
void signals_drain(void);
int signals_take_int(void); /* SIGINT came since the last call */
int signals_take_resize(void);
int signals_take_stop(void); /* SIGTSTP at a prompt */
int signals_quit(void);      /* SIGTERM or SIGHUP came: its number; 0 = no */
int signals_working(void);   /* between signals_work(1) and (0) */
int signals_stopped(void);   /* any of them asked the running answer to stop */

/* ---- the answer (answer.c) ----
 * Model text is hostile to terminals and arrives in pieces that may end inside a character.  The filter
 * (clean_text) holds such a tail back until it is whole; at the end it becomes U+FFFD. */

struct output {
	int filter; /* through clean_text() */
	struct clean clean;
	int to_terminal; /* word wrap */
	struct wrap wrap;
	struct str held;  /* unfiltered: a tail that is no whole character yet */
	struct str ready; /* scratch */
	int mid_line;     /* something was written and it did not end with a newline */
	int broken;       /* standard output cannot be written */
};
void output_init(struct output *, int raw);
void output_free(struct output *);
/* -1: standard output cannot be written. */
int output_text(struct output *, const char *bytes, size_t n, struct err *);
/* The answer is over: what was held back, and a newline if the last line lacks one. */
int output_end(struct output *, struct err *);
/* Before a message on the terminal: it begins a line of its own, also in the middle of an answer. */
void output_break(void);

/* ---- the terminal (terminal.c) ---- */

/* Columns of the terminal behind this file descriptor; 0 = no terminal, or it does not say. */
size_t terminal_width(int fd);
/* Clean text, wrapped for that terminal; as it is for anything else.  Appends. */
void terminal_wrap(int fd, const char *text, size_t n, struct str *out);
/* TERM is missing or says "dumb": no control sequences. */
int terminal_is_dumb(void);
/* Ask the user at the terminal, on standard error, until one of these letters is pressed: that letter; Enter is the
 * first. 0: Ctrl-D, or the input has ended. */
int terminal_choose(const char *question, const char *letters);
/* Colours wanted on this file descriptor?  when: "always", "never" or "auto". */
int color_wanted(const char *when, int fd);

/* ---- progress (progress.c) ---- */

/* One line on a terminal's standard error that rewrites itself: "reading 512/4,096 tokens ...". */
struct progress {
	int on;       /* rewrite one line */
	int lines;    /* or, with -v and no terminal, plain lines */
	double every; /* seconds between them */
	int shown;    /* the line is on the screen now */
	const char *verb, *unit;
	double start, last;
	int64_t first; /* done at the first call: was there before, does not count for the speed */
	int started;
};
/* Nothing is shown while say() gives its lines to a screen (say_to), which has standard error for itself. */
int said_elsewhere(void); /* say.c */
void progress_init(struct progress *, int quiet, int verbose, const char *verb, const char *unit);
void progress_show(struct progress *, int64_t done, int64_t total);
/* Where no line can be rewritten there are plain ones, without -v, too: one each five seconds. */
void progress_slow(struct progress *, int quiet);
/* The same with other words. */
void progress_line(struct progress *, const char *text);
void progress_now(struct progress *, const char *text); /* at once: what follows may take long */
/* What begins now says nothing until it is over: its name stands there meanwhile, until progress_clear(). */
void progress_begin(struct progress *, int quiet, const char *text);
/* How far a text without an end is read. */
struct reading {
	uint64_t tokens;
	uint64_t at, total; /* bytes; total 0: nobody knows */
	/* the page's label, its number among all pages; NULL: the text has none */
	const char *page;
	int32_t number, pages;
	double tps, left; /* left: seconds, < 0 = nobody knows */
	int waiting;      /* there is no more just now */
	int imports;      /* no text yet: a document of another format is read and converted */
};
/* "reading 123,456 tokens, 24 % of 1.2 MB, p. 34 of 311, 1,300 t/s, 95 s left"; brief: "reading 123,456, 24% of 1.2 MB,
 * p. 34/311". A page whose label is not its number: "p. xii (12 of 311)", "p. xii (12/311)". */
void reading_text(const struct reading *, int brief, struct str *out);
void progress_clear(struct progress *);

/* ---- other programs (external.c) ---- */

/* The text in $VISUAL or $EDITOR (else vi), on the terminal, which must be free; text becomes what was saved, without
 * its last newline. The draft lies in a folder of its own, which is removed with all that the editor leaves there, also
 * where this program is killed meanwhile and the editor ends later. in_memory: on a file system in memory, or nowhere.
 * -1: it could not be run, or failed; the text is as it was. */
int external_edit(struct str *text, int in_memory, struct err *);
/* Run a shell command without input; out = what it prints, at most `most` bytes; *status = how it ended. -1: it could
 * not be run, printed more, or was stopped (signals_stopped()). */
int external_run(const char *command, size_t most, struct str *out, int *status, struct err *);
/* To wl-copy, xclip or xsel, where one is installed and its desktop is there, and inside tmux to its buffer. Returns
 * who has it ("xclip and tmux"), or NULL. Takes a second or two where a program hangs. */
const char *external_copy(const char *text, size_t n);

#endif
