/* ui/ui_private.h (private to ui/) - the state of the full screen, shared by its files.
 *
 *     ui.c:          open and close, time, drawing;
 *     ui_layout.c:   rows and columns of the parts;
 *     ui_flow.c:     the conversation in the terminal's own scrollback (inline);
 *     ui_requests.c: requests to the application;
 *     ui_post.c:     takes what the application posts;
 *     ui_commands.c: the screen's own commands;
 *     ui_mouse.c:    wheel, clicks, selecting text by dragging;
 *     ui_keys.c:     routes keys; bindings.c is the table of keys, ui_acts.c carries out its actions;
 *     ui_panes.c:    panes and focus; ui_palette.c runs what was chosen in the palette;
 *     ui_search.c:   search in the transcript;
 *     ui_queue.c:    queued messages;
 *     ui_status.c:   status row and hints.
 *
 * The texts have no control characters. But queued messages, requests and the last question are stored as the user
 * typed them. */
#ifndef WEIR_UI_PRIVATE_H
#define WEIR_UI_PRIVATE_H

#include "ui/input/input.h"
#include "ui/panes/panes.h"
#include "ui/transcript/transcript.h"
#include "ui/screen/widgets.h"

#define SAY_SECONDS   4.0
#define QUIT_SECONDS  1.5 /* maximum time between the two Ctrl-C keys that quit */
#define ESC_SECONDS   1.0 /* maximum time between the two Esc keys that edit the last question */
#define TYPED_SECONDS 0.3 /* pause in typing, in seconds, after which pause() of the pane is called */
/* number of seconds after which the next message is sent, even if the application has not yet reported work on the last
 * one */
#define BEGIN_SECONDS 0.3
enum {
	/* minimum width of a screen that shows the cache panel beside the transcript; narrower screens show a bar below
	 * it */
	SIDE_FROM = 110,
	BAR_COLS = 60,
	BAR_ROWS = 15,   /* a screen with fewer rows than this has no bar */
	HINTS_FROM = 16, /* a screen with at least this number of rows always shows hints */
	/* a screen with fewer rows than this shows no key hints in a pane, in browse mode (F6), in a search or after
	 * Ctrl-X */
	HINTS_LEAST = 8,
	FRAME_COLS = 60,
	FRAME_ROWS = 10,      /* a pane with fewer rows than this has no border */
	TRANSCRIPT_LEAST = 3, /* minimum number of rows of the transcript; bar and queue get rows only beyond these */
	QUEUE_ROWS = 3,
	POPUP_ROWS = 8, /* maximum number of completions that the popup shows at once */
	QUEUE_MOST = 100,
	SCREEN_MOST = 1000, /* maximum number of columns, and of rows */
};

/* Numbers of themes, as arguments of theme_at(). DUSK is for dark backgrounds, PAPER for light ones. */
enum { DUSK = 2, PAPER = 3 };

/* Which part of the screen gets the keys. ON_LINE: the input line, or an open text field of the pane. F6 (browse mode)
 * gives the keys to the transcript, the open pane or the cache panel (ON_PANEL); letters are then commands. */
enum focus { ON_LINE, ON_TRANSCRIPT, ON_PANE, ON_PANEL };

/* A pending request to the application. */
struct todo {
	enum ui_what what;
	struct str text;
	int64_t id;
	int on;
};

/* Number of rows of each part of the screen. `side` is the number of columns of the side panel. */
struct layout {
	int body, queue, bar, status, sources, line, hints, side; /* `sources` is 0 unless the ui is inline */
};

struct ui {
	int w, h, ascii, color;
	int inlined;    /* 1: the conversation goes to the terminal's own scrollback, see ui_inline() */
	int flow_note;  /* 1: the first row on the screen is a note that earlier messages are not repeated */
	int flow_above; /* number of rows above those of the last grid that the next grid may cover */
	const struct ui_command *commands;
	struct grid grid;
	int dirty;
	double now; /* the time that was last passed to the ui */
	struct layout lay;

	struct keys keys;
	int leader; /* 1: the last key was Ctrl-X, so the next key completes a command */
	double esc_at, quit_at;
	/* 1 = the first Esc or Ctrl-C of a pair was pressed; esc_at and quit_at are the times */
	int esc_once, quit_once;

	struct transcript *transcript;
	int chosen;                  /* 1: the user has chosen an entry of the palette, which must now be run */
	struct pane *panes[N_PANES]; /* panes[NO_PANE] is NULL */
	enum pane_id pane;
	enum focus focus;
	int panel;      /* 1: the bar or side panel is switched on */
	int panel_told; /* ui_action.on of the last UI_PANEL request */
	int mouse;
	/* The mouse selection: from (x, y), where the button was pressed, to (to_x, to_y), inside the area `in`. `held`
	 * is 1 if the transcript followed new text before the drag; it will follow it again afterwards. `body` is the
	 * area in which the transcript or the pane was drawn last. */
	struct {
		int pressed, dragged, held, x, y, to_x, to_y;
		struct area in;
	} select;
	struct area body;
	/* `theme` is the number of the theme, as argument of theme_at(). theme_chosen is 1 if the user has chosen it,
	 * and 0 if it follows the terminal's background colour. */
	int theme, theme_chosen;

	size_t n_document;        /* number of the conversation's documents */
	struct str last_question; /* the last question, as the user typed it */
	/* `mark` is the transcript_position() that the user has marked by the key m. has_mark is 1 if a position is
	 * marked. */
	uint64_t mark;
	int has_mark;
	/* `below` is the number of transcript lines below the visible ones; `fresh` is how many of these are new.
	 * `moved` is 1 if the user has scrolled since the last drawing. */
	size_t below, fresh;
	int moved;

	int searching;   /* 1: the search line is open and gets the keys */
	int search_down; /* 1: the search goes downwards; 0: it goes upwards */
	struct edit pattern;
	size_t found, found_at;

	struct str queue[QUEUE_MOST];
	size_t n_queue; /* queue[n_queue] has the messages and commands that wait for the current work */
	/* `begun` is 1 if a message was sent, and the application has not yet reported work on it. From begun_until on,
	 * the next message is sent in any case. */
	int begun;
	double begun_until;
	struct todo *todo;
	size_t n_todo, cap_todo;
	struct str given; /* text of the request that ui_action() has returned last */

	/* F7 opens the sources of an answer, one after the other. source_turn is the turn whose source was opened last.
	 * next_source is the index of that turn's source to open next. */
	size_t source_turn, next_source;
	double undo_until; /* time until which the session that was deleted last can be restored; 0 = there is none */
	/* `typed` is 1 if a pane with a pause() function got keys. At the time typed_until, pause() is called if no
	 * other key has come. */
	int typed;
	double typed_until;
	struct str say;
	double say_until;
	int say_new; /* 1 = the message in `say` was not drawn yet; drawing the message sets say_until */
	/* 1 = the user typed a command: scroll down to its output */
	int asked;
	struct {
		struct str verb;
		int64_t done, total, had;
		double tps, left;
		int open;
	} work;
	struct {
		struct str model, session, kv;
		int32_t seen, kept, ctx, evicted, thinned;
		double tps;
		uint64_t memory; /* memory of the process, in MiB */
	} status;
	int has_status;
};

/* ---- ui_requests.c ---- */
void todo_add(struct ui *, enum ui_what, const char *text, size_t n, int64_t id, int on);
int ui_working(const struct ui *); /* 1 if work is running or is about to begin */
int ui_closed(const struct ui *);  /* 1 if work is running, and the next message must wait for its end */
void ui_sayf(struct ui *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* ---- ui.c ---- */
void ui_draw_line(struct ui *, const struct area *); /* draw the input line or the search line, and set the cursor */
/* ---- ui_flow.c ---- */
void ui_flow_draw(struct ui *);
/* ---- ui_layout.c ---- */
void ui_lay_out(struct ui *);
/* 1 if the conversation is drawn inline: the ui is inline, and nothing open needs the whole screen */
int ui_flows(const struct ui *);
int panel_seen(const struct ui *); /* returns which cache figures are visible: 0 to 2, see UI_PANEL */
/* ---- ui_panes.c ---- */
void panes_open(struct ui *, const struct ui_options *);
void panes_close(struct ui *);
struct pane *pane_shown(const struct ui *);     /* returns the pane that is shown; NULL if the transcript is shown */
int pane_has(const struct ui *, unsigned flag); /* 1 if the open pane has a flag of enum pane_flags */
void pane_open(struct ui *, enum pane_id);
void pane_close(struct ui *);
void pane_toggle(struct ui *, enum pane_id);
void pane_act(struct ui *, const struct ui_action *); /* pass the request of a pane to the application */
/* 1 if this flag of enum pane_state is set for the open pane */
int pane_state(const struct ui *, unsigned state);
/* pass a key to the open pane; returns 1 if the pane used it */
int pane_key(struct ui *, const struct key *);
/* pass a key to the open pane like pane_key(), but drop the pane's request */
enum pane_key pane_try(struct ui *, const struct key *);
void pane_pause(struct ui *); /* tell the pane that no key came for TYPED_SECONDS */
void focus_line(struct ui *); /* give keys to the input line; matches stay marked */
/* ---- ui_palette.c ---- */
void ui_do_chosen(struct ui *);
/* ---- ui_keys.c ---- */
key_fn ui_key;
/* ---- ui_mouse.c ---- */
/* 1 if the user has clicked a key in the row of hints */
int mouse_key(struct ui *, const struct key *, struct key *of_hint);
/* show the selected cells in the style ST_SELECTED */
void select_draw(struct ui *);
void select_end(struct ui *);
/* ---- ui_commands.c ---- */
void ui_source_next(struct ui *);                        /* open the next source of the visible answer (F7) */
void ui_source_open(struct ui *, size_t turn, size_t i); /* open source i of this turn, because it was clicked */
void ui_panel_next(struct ui *);                         /* F2: show the next form of the cache panel */
/* Choose a theme for a light or dark background of the terminal, unless the user has chosen a theme. */
void ui_background(struct ui *, int light);
/* ---- ui_acts.c ---- */
/* carry out an action; returns 0 if the action does not apply here, so that the input line gets the key */
int ui_act(struct ui *, enum act, const struct key *);
/* ---- ui_search.c ---- */
void ui_search_open(struct ui *, int down);
void ui_search_key(struct ui *, const struct key *);
void ui_search_run(struct ui *, int step);
void ui_search_off(struct ui *);
void search_draw(const struct ui *, const struct area *);
/* ---- ui_queue.c ---- */
void ui_submit(struct ui *, const char *text, size_t n);  /* send or queue a complete message or command */
void ui_submit_command(struct ui *, const char *command); /* send or queue a command, and keep the draft */
void queue_remove(struct ui *, size_t i);
void queue_lines(const struct ui *, struct str *out); /* append the queued messages, line by line */
void queue_draw(const struct ui *, const struct area *);
/* Find the command that the first word of the text names. The word may be a name or alias (also of a prompt of the
 * user), or else a synonym. NULL: the text is a message, or its command is unknown. */
const struct ui_command *command_of(const struct ui *, const char *text, size_t n);
/* ---- ui_status.c ---- */
void status_draw(const struct ui *, const struct area *);
/* Append what the work is doing. `form` is 0 for the longest form, and 2 for the shortest. */
void status_work(const struct ui *, int form, struct str *out);
void hints_draw(const struct ui *, const struct area *);
/* 1 if there is a hint at column x of the row of hints. *key receives the key of the hint. */
int hint_at(const struct ui *, int x, struct key *);

#endif
