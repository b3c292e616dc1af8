/* app/line.h (private to app/) - the line mode as its files share it: line.c (the loop and its commands), line_sessions.c
 * (those about sessions). */
#ifndef WEIR_LINE_H
#define WEIR_LINE_H

#include "app/app.h"
#include "app/output.h"
#include "app/record.h"
#include "app/talk.h"

struct line {
	struct options o;            /* a copy that /set changes */
	struct talk t;
	struct record *record;       /* NULL: nothing is kept */
	struct output out;
	struct progress progress;
	int interactive, color, notice_fd;
	int first_piece;
	int quit, rc;                /* rc: exit code so far; the first failure of a pipe stays */
};

/* A line of our own, where the prompt is or on standard error. */
void notice(struct line *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void line_error(struct line *, const struct err *);
/* A turn: text = a question, NULL = the last one again. */
void turn_run(struct line *, const char *text, size_t n);
/* A file name as completion leaves it: quotes and backslashes removed, ~ is the home directory. */
void unquote(const char *arg, struct str *out);

struct slash {
	const char *name, *aliases;   /* aliases: words with blanks between them */
	const char *args, *help;
	void (*run)(struct line *, char *arg);
};
extern const struct slash session_slashes[];   /* line_sessions.c; ends with name = NULL */

/* The end of what an earlier run said, so that one knows where one is. */
void show_talk(struct line *);

#endif
