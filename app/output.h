/* app/output.h (private to app/) - the answer on its way to standard output, and progress on standard error.
 *
 * Model text is hostile to terminals and arrives in pieces that may end inside a character.  The filter
 * (clean_text) holds such a tail back until it is whole; at the end it becomes U+FFFD. */
#ifndef WEIR_OUTPUT_H
#define WEIR_OUTPUT_H

#include "app/options.h"
#include "ui/ui.h"

struct output {
	int filter;              /* through clean_text() */
	struct clean clean;
	int to_terminal;         /* word wrap */
	struct wrap wrap;
	struct str held;         /* unfiltered: a tail that is no whole character yet */
	struct str ready;        /* scratch */
	int mid_line;            /* something was written and it did not end with a newline */
	int broken;              /* standard output cannot be written */
};
void output_init(struct output *, const struct options *);
void output_free(struct output *);
/* -1: standard output cannot be written. */
int  output_text(struct output *, const char *bytes, size_t n, struct err *);
/* The answer is over: what was held back, and a newline if the last line lacks one. */
int  output_end(struct output *, struct err *);

/* Columns of the terminal behind this file descriptor; 0 = no terminal, or it does not say. */
size_t terminal_width(int fd);
/* Clean text, wrapped for that terminal; as it is for anything else.  Appends. */
void terminal_wrap(int fd, const char *text, size_t n, struct str *out);
/* Colours wanted on this file descriptor? */
int  color_wanted(const struct options *, int fd);

/* One line on a terminal's standard error that rewrites itself: "reading 512/4,096 tokens ...". */
struct progress {
	int on;                  /* rewrite one line */
	int lines;               /* or, with -v and no terminal, plain lines */
	int shown;               /* the line is on the screen now */
	const char *verb, *unit;
	double start, last;
	int64_t first;           /* done at the first call: was there before, does not count for the speed */
	int started;
};
/* Nothing is shown while say() gives its lines to a screen (app.h: say_to), which has standard error for itself. */
int  said_elsewhere(void);   /* messages.c */
void progress_init(struct progress *, const struct options *, const char *verb, const char *unit);
void progress_show(struct progress *, int64_t done, int64_t total);
/* The same with other words. */
void progress_line(struct progress *, const char *text);
/* "reading 123,456 tokens, 24 %, 1,300 t/s"; percent < 0: not known. */
void reading_text(uint64_t tokens, int percent, double tps, int waiting, struct str *out);
void progress_clear(struct progress *);
/* As a timeline_progress_fn; ud is the struct progress. */
void progress_tokens(int32_t done, int32_t total, void *ud);

#endif
