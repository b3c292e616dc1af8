/* ui/input/input_readline.h (private to input.c and input_line*.c) - the input line's state, and readline's, as its files share them.
 *
 *     input.c             what the screen calls; life
 *     input_line.c        readline: the queue that it reads, and functions that it lacks
 *     input_line_keys.c   a key as the bytes that readline knows
 *     input_line_draw.c   the line on the screen */
#ifndef WEIR_INPUT_READLINE_H
#define WEIR_INPUT_READLINE_H

#include "ui/input/input.h"
#include "ui/input/input_private.h"

#include <stdio.h>

#include <readline/history.h>
#include <readline/readline.h>

/* Private sequences: nothing that a terminal sends, and harmless where a vi command takes its ESC for itself. */
#define SEQ_ACCEPT  "\033[<Q"
#define SEQ_NEWLINE "\033[<H"
#define SEQ_PASTE   "\033[<K"
#define SEQ_SET     "\033[<L"
#define SEQ_UP      "\033[<M"
#define SEQ_DOWN    "\033[<V"
#define SEQ_HOME    "\033[<Z"
#define SEQ_END     "\033[<g"
#define SEQ_COMMAND "\033[<q"
#define BYTE_NOTHING "\377"   /* in no UTF-8 */

/* States in which the next key is an argument of the one before. */
#define STATES_ARGUMENT (RL_STATE_MULTIKEY | RL_STATE_CHARSEARCH | RL_STATE_VIMOTION | RL_STATE_NUMERICARG)
#define STATES_OPEN (RL_STATE_ISEARCH | RL_STATE_NSEARCH | STATES_ARGUMENT)

enum { LINE_MOST = 256 << 20 };  /* bytes of a draft; readline counts in int */

struct input {
	int open;
	const struct ui_command *commands;
	const struct ui_setting *settings;
	char **names; size_t n_names;
	struct str history;             /* path; empty: none */
	FILE *null;
	struct str locale;              /* of the program, while readline begins a line */
	struct str queue; size_t taken; /* bytes on their way to readline */
	const char *arg; size_t n_arg;  /* text for SEQ_PASTE, SEQ_SET */
	struct str back;                /* an incomplete message: the next line begins with it */
	struct str *message; size_t n_message, cap_message;
	int abandon;                    /* Enter now ends a dropped draft, not a message */
	int spare_blank;                /* completion has added a blank: a typed one is ignored */
	int quoting;                    /* behind Ctrl-V: the next key is inserted literally */
	int ask;                        /* one of readline's own completion keys was pressed */
	struct offers offers;
	int width, mark;                /* columns: of the area drawn last, and of the mark in it */
	size_t top;                     /* first byte that is seen */
	int goal;                       /* column that Up and Down keep to; -1 = none */
};
extern struct input input;

/* ---- input_line.c ---- */

int  line_next_byte(FILE *);            /* readline's ends of the queue */
int  line_bytes_wait(void);
void line_draw_nothing(void);
void line_ended(char *);
char **line_no_completion(const char *text, int start, int end);
void line_overrule(void);               /* settings of the user's that the line would not work with */
void line_bind_keys(void);
/* Around calls in which readline takes over the locale of the environment. */
void line_locale_save(void);
void line_locale_restore(void);
void line_feed(const char *bytes, size_t n);
void line_feeds(const char *seq);
int  line_is_vi(void);
int  line_vi_command(void);
void line_settle(void);                 /* ends a search, keeping its match, and a half-typed command */
void line_replace(size_t from, size_t to, const char *text);   /* as one step of undo */
int  line_move_row(int step);           /* to the row above or below; 0: there is none */

/* ---- input_line_keys.c ---- */

int  line_key(const struct key *);      /* 0: it means nothing to the line */
int  line_offers_key(const struct key *);   /* 1: the popup has used it; 0: the line gets it */
int  line_complete(int step);
enum offer_kind line_look_for_offers(void);

/* ---- input_line_draw.c ---- */

struct wrapped line_lay_out(int width);

#endif
