/* ui/ui_private.h (private to ui/) - the full screen as its files share it.
 *
 *     ui.c           life, time, drawing
 *     ui_layout.c    rows and columns of the parts
 *     ui_requests.c  requests to the application
 *     ui_post.c      what the application posts
 *     ui_commands.c  the screen's own commands
 *     ui_mouse.c     the wheel, clicks, selecting text by dragging
 *     ui_keys.c      who gets a key; bindings.c is the table of keys, ui_acts.c carries out its acts
 *     ui_panes.c     the panes and the focus; ui_palette.c does what was chosen in the palette
 *     ui_search.c    the search in the transcript
 *     ui_queue.c     messages that wait
 *     ui_status.c    the status row and the hints
 *
 * All texts here are clean, except queued messages, actions and the last question: they leave as the user typed them. */
#ifndef WEIR_UI_PRIVATE_H
#define WEIR_UI_PRIVATE_H

#include "ui/input/input.h"
#include "ui/panes/panes.h"
#include "ui/transcript/transcript.h"
#include "ui/screen/widgets.h"

#define SAY_SECONDS 4.0
#define QUIT_SECONDS 1.5     /* between the two Ctrl-C that quit */
#define ESC_SECONDS 1.0      /* between the two Esc that edit the last question */
#define TYPED_SECONDS 0.3    /* without a key, until a pane is told so */
#define BEGIN_SECONDS 0.3    /* from sending a message until the application posts what it started */
enum {
	SIDE_FROM = 110,     /* columns: the cache stands beside the transcript, not below it */
	BAR_COLS = 60, BAR_ROWS = 15,   /* a smaller screen has no bar */
	HINTS_FROM = 16,     /* rows: there is a row of hints */
	HINTS_LEAST = 8,     /* rows: there is one while a pane, browse mode, a search or Ctrl-X wait for keys */
	FRAME_COLS = 60, FRAME_ROWS = 10,   /* a smaller pane has no border */
	TRANSCRIPT_LEAST = 3,      /* rows of the transcript that bar and queue leave free */
	QUEUE_ROWS = 3, QUEUE_MOST = 100,
	SCREEN_MOST = 1000,  /* columns, rows */
};

enum { DUSK = 2, PAPER = 3 };   /* theme_at(): the themes for a dark and for a light background */

/* ON_LINE: typed text goes to the input line, or to the field that a pane has open.  The others are browse mode, entered by F6: letters
 * are keys of the transcript, of the open pane, or of the cache beside or below (ON_PANEL). */
enum focus { ON_LINE, ON_TRANSCRIPT, ON_PANE, ON_PANEL };

/* A request that the application has not taken yet. */
struct todo { enum ui_what what; struct str text; int64_t id; int on; };

/* Rows of each part, and columns of the side panel. */
struct layout { int body, queue, bar, status, line, hints, side; };

struct ui {
	int w, h, ascii, color;
	const struct ui_command *commands;
	struct grid grid;
	int dirty;
	double now;                        /* the last clock value that was given */
	struct layout lay;

	struct keys keys;
	int leader;                        /* Ctrl-X was pressed */
	double esc_at, quit_at; int esc_once, quit_once;   /* times of the first of two */

	struct transcript *transcript;
	int chosen;                        /* something was chosen in the palette and is to be done */
	struct pane *panes[N_PANES];       /* [NO_PANE] is NULL */
	enum pane_id pane; enum focus focus;
	int panel;                         /* the bar or side panel is wanted */
	int panel_told;                    /* value of the last UI_PANEL */
	int mouse;
	/* The text that the mouse selects: from where the button was pressed to where it is, within the part of the screen that it was
	 * pressed in.  held: the transcript followed new text before.  body: what of the screen showed text when it was drawn. */
	struct { int pressed, dragged, held, x, y, to_x, to_y; struct area in; } select;
	struct area body;
	int theme, theme_chosen;   /* its number (theme_at()); chosen: by the user, not by the terminal's background */

	struct str last_question;          /* as it was typed */
	uint64_t place; int has_place;     /* the place that m marked */
	size_t below, fresh; int moved;    /* lines below the screen when it was drawn last; how many of them are new; the user has scrolled since */

	int searching;                     /* the search line is open and gets the keys */
	int search_down;                   /* the search runs towards the end */
	struct edit pattern; size_t found, found_at;

	struct str queue[QUEUE_MOST]; size_t n_queue;   /* messages that wait for the end of an answer */
	int begun; double begun_until;     /* a message was sent: the next one waits until the application posts what it started */
	struct todo *todo; size_t n_todo, cap_todo;
	struct str given;                  /* text of the last action */

	size_t source_turn, next_source;   /* the turn whose source F7 has opened (transcript_turn()); its next one */
	double undo_until;                 /* until then the last deletion of a session can be undone; 0 = none */
	int typed; double typed_until;     /* keys went to a pane; when it is told that none came for TYPED_SECONDS */
	struct str say; double say_until; int say_new;     /* new: its time begins when it is drawn */
	int asked;                         /* a command was typed last: what it says is shown, wherever the transcript was scrolled to */
	struct { struct str verb; int64_t done, total, had; double tps, left; int open; } work;
	struct {
		struct str model, session, kv;
		int32_t seen, kept, ctx, evicted, thinned;
		double tps;
		uint64_t memory;           /* MiB */
	} status;
	int has_status;
};

/* ui_requests.c */
void todo_add(struct ui *, enum ui_what, const char *text, size_t n, int64_t id, int on);
int  ui_working(const struct ui *);      /* something runs, or is about to */
int  ui_closed(const struct ui *);       /* and messages wait for its end */
void ui_sayf(struct ui *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* ui_layout.c */
void ui_lay_out(struct ui *);
int  panel_seen(const struct ui *);      /* how much of the cache is on the screen, as in UI_PANEL */
/* ui_panes.c */
void panes_open(struct ui *, const struct ui_options *);
void panes_close(struct ui *);
struct pane *pane_shown(const struct ui *);             /* NULL: the transcript is shown */
int  pane_has(const struct ui *, unsigned flag);        /* of enum pane_flags; 0: no pane is open */
void pane_open(struct ui *, enum pane_id);
void pane_close(struct ui *);
void pane_toggle(struct ui *, enum pane_id);
void pane_act(struct ui *, const struct ui_action *);   /* passes on what a pane asks of the application */
int  pane_state(const struct ui *, unsigned state);     /* of enum pane_state; 0: no pane is open */
int  pane_key(struct ui *, const struct key *);         /* 1: it has used the key */
enum pane_key pane_try(struct ui *, const struct key *);   /* actions are dropped */
void pane_pause(struct ui *);                           /* no key has come for TYPED_SECONDS */
void focus_line(struct ui *);                           /* the input line gets the keys; found words stay marked */
/* ui_palette.c */
void ui_do_chosen(struct ui *);
/* ui_keys.c */
key_fn ui_key;
/* ui_mouse.c */
int  mouse_key(struct ui *, const struct key *, struct key *of_hint);   /* 1: a key of the row of keys was clicked */
void select_draw(struct ui *);                          /* over what is drawn */
void select_end(struct ui *);
/* ui_commands.c */
void ui_source_next(struct ui *);           /* F7: the document, at the next source of the answer that is seen */
void ui_source_open(struct ui *, size_t turn, size_t i);   /* a click: at source i of that turn */
void ui_panel_next(struct ui *);            /* F2 */
void ui_background(struct ui *, int light); /* the terminal's: it chooses a theme where the user has chosen none */
/* ui_acts.c */
int  ui_act(struct ui *, enum act, const struct key *);   /* 0: the act means nothing here, the input line gets the key */
/* ui_search.c */
void ui_search_open(struct ui *, int down);
void ui_search_key(struct ui *, const struct key *);
void ui_search_run(struct ui *, int step);
void ui_search_off(struct ui *);
void search_draw(const struct ui *, const struct area *);
/* ui_queue.c */
void ui_submit(struct ui *, const char *text, size_t n);        /* a complete message or command */
void ui_submit_command(struct ui *, const char *command);       /* and keeps the draft */
void queue_remove(struct ui *, size_t i);
void queue_lines(const struct ui *, struct str *out);            /* the messages that wait, line by line */
void queue_draw(const struct ui *, const struct area *);
/* The command that text begins with, or NULL. */
const struct ui_command *command_of(const struct ui *, const char *text, size_t n);
/* ui_status.c */
void status_draw(const struct ui *, const struct area *);
void status_work(const struct ui *, int form, struct str *out);   /* form 0: everything .. 2: the least */
void hints_draw(const struct ui *, const struct area *);
int  hint_at(const struct ui *, int x, struct key *);             /* the key whose hint stands there: 1; 0: none */

#endif
