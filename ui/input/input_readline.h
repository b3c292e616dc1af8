/* ui/input/input_readline.h (private to input.c and input_line*.c) - state shared by the files that use readline:
 * input.c (functions for the screen), input_line.c (readline and its queue of bytes), input_line_keys.c (translates
 * keys to bytes) and input_line_draw.c (draws the line). */
#ifndef WEIR_INPUT_READLINE_H
#define WEIR_INPUT_READLINE_H

#include "ui/input/input.h"
#include "ui/input/input_private.h"

#include <stdio.h>

#include <readline/history.h>
#include <readline/readline.h>

/* Key sequences for our own functions in readline; no terminal sends them. A vi command that waits for a character may
 * take the ESC as that character. The other bytes of the sequence then do no harm. */
#define SEQ_ACCEPT      "\033[<Q"
#define SEQ_NEWLINE     "\033[<H"
#define SEQ_PASTE       "\033[<K"
#define SEQ_SET         "\033[<L"
#define SEQ_UP          "\033[<M"
#define SEQ_DOWN        "\033[<V"
#define SEQ_HOME        "\033[<Z"
#define SEQ_END         "\033[<g"
#define SEQ_COMMAND     "\033[<q"
/* a byte that is bound to a command without any effect; the byte does not occur in UTF-8 */
#define BYTE_NOTHING    "\377"

/* readline states in which the next key is an argument of the previous one */
#define STATES_ARGUMENT (RL_STATE_MULTIKEY | RL_STATE_CHARSEARCH | RL_STATE_VIMOTION | RL_STATE_NUMERICARG)
#define STATES_OPEN     (RL_STATE_ISEARCH | RL_STATE_NSEARCH | STATES_ARGUMENT)

enum { LINE_MOST = 256 << 20 }; /* maximum size of a draft in bytes, because readline's counters are int */

struct input {
	int open;
	const struct ui_command *commands;
	const struct ui_setting *settings;
	char **names;
	size_t n_names;
	struct str history; /* path of the history file; empty = there is none */
	FILE *null;
	/* the program's locale; it is set only while readline begins a line, because readline changes the locale
	 * then */
	struct str locale;
	struct str queue;
	size_t taken;    /* number of bytes of `queue` that readline has read */
	const char *arg; /* text that SEQ_PASTE or SEQ_SET inserts */
	/* earlier lines of an unfinished message, which readline inserts into its next line */
	struct str back;
	struct str *message;
	size_t n_message, cap_message;
	int abandon;     /* 1: the line that is ending is a discarded draft, not a message */
	int spare_blank; /* 1: completion has added a blank, so the next blank that is typed is ignored */
	int quoting;     /* 1 after Ctrl-V: the next key is inserted literally */
	int ask;         /* 1: a key that readline binds to completion was pressed */
	struct offers offers;
	/* `width` is the number of columns of the area in which the line was drawn last. `mark` is the number of
	 * columns of the prompt before the first row, such as "> ". */
	int width, mark;
	size_t top; /* offset of the first visible byte */
	int goal;   /* the column to which the cursor returns while Up or Down is repeated; -1 = none */
};
extern struct input input;

/* ---- input_line.c ---- */

int line_next_byte(FILE *); /* the functions through which readline reads the queue */
int line_bytes_wait(void);
void line_draw_nothing(void);
void line_ended(char *);
char **line_no_completion(const char *text, int start, int end);
void line_overrule(void); /* replace settings of the user that break the input line */
void line_bind_keys(void);
/* Call these before and after functions in which readline sets the locale from the environment. */
void line_locale_save(void);
void line_locale_restore(void);
void line_feed(const char *bytes, size_t n);
void line_feeds(const char *seq);
int line_is_vi(void);
int line_vi_command(void);
void line_settle(void); /* end a search, and keep the line that was found; or cancel a half-typed command */
/* replace bytes [from, to) of the line, as one step of undo */
void line_replace(size_t from, size_t to, const char *text);
/* move the cursor one row up or down; returns 0 if there is no such row */
int line_move_row(int step);

/* ---- input_line_keys.c ---- */

int line_key(const struct key *);        /* returns 0 if the input line has no use for the key */
int line_offers_key(const struct key *); /* returns 1 if the popup used the key */
int line_complete(int step);
enum offer_kind line_look_for_offers(void);

/* ---- input_line_draw.c ---- */

struct wrapped line_lay_out(int width);

#endif
