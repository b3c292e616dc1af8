/* ui/ui_private.h (private to ui/) - the full screen as its files share it: ui.c (life, layout, drawing, what is
 * posted), ui_keys.c (what each key does), ui_status.c (the rows of its own: status, hints, what is queued).
 *
 * All texts in here are clean, but for those that the name says came from the user or are on their way out as they are:
 * queued messages, actions, the last question. */
#ifndef WEIR_UI_PRIVATE_H
#define WEIR_UI_PRIVATE_H

#include "ui/input.h"
#include "ui/panes.h"
#include "ui/transcript.h"
#include "ui/widgets.h"

#define SAY_SECONDS 4.0
#define QUIT_SECONDS 1.5     /* the second Ctrl-C must come within */
#define ESC_SECONDS 1.0      /* and the second Esc */
#define TYPED_SECONDS 0.3
#define BEGIN_SECONDS 0.3    /* from handing out a message until it is known what it started */
enum {
	SIDE_FROM = 110,     /* columns: the cache stands beside the talk, not below it */
	BAR_COLS = 60, BAR_ROWS = 15,   /* no bar on a smaller screen */
	HINTS_FROM = 16,     /* rows: the keys are shown at the bottom */
	TALK_LEAST = 3,      /* rows that nothing but the line and the status row may take from the talk */
	QUEUE_ROWS = 3, QUEUE_MOST = 100,
	SCREEN_MOST = 1000,  /* columns, rows */
};

/* What a key does; the table is in bindings.c, the deed in ui_keys.c. */
enum act {
	ACT_NONE,            /* not ours: the input line's or the pane's */
	ACT_HELP, ACT_PANEL, ACT_FIND, ACT_SESSIONS, ACT_DOCUMENTS, ACT_NEXT, ACT_MOUSE, ACT_QUIT, ACT_QUIT_EMPTY,
	ACT_NEW, ACT_THEME, ACT_RAW, ACT_EDITOR, ACT_STOP, ACT_BACK, ACT_SUSPEND, ACT_REPAINT,
	ACT_UP, ACT_DOWN, ACT_HALF_UP, ACT_HALF_DOWN, ACT_PAGE_UP, ACT_PAGE_DOWN, ACT_TOP, ACT_END,
	ACT_END_EMPTY, ACT_TOP_EMPTY, ACT_UNQUEUE, ACT_HELP_EMPTY, ACT_NEXT_EMPTY,
	ACT_FIND_DOWN, ACT_FIND_UP, ACT_AGAIN, ACT_AGAIN_BACK, ACT_QUESTION_UP, ACT_QUESTION_DOWN,
	ACT_COPY, ACT_COPY_CODE, ACT_EDIT, ACT_RETRY, ACT_FOLD, ACT_MARK, ACT_JUMP, ACT_LINE,
};

enum pane { NO_PANE, SESSIONS, DOCUMENTS, HELP, CACHE };
enum focus { ON_LINE, ON_TALK, ON_PANE, ON_PANEL };   /* panel: the cache beside or below what else there is */

/* An action on its way to the application. */
struct todo { enum ui_what what; struct str text; int64_t id; int on; };

/* Rows from top to bottom, and what of the body the side panel takes. */
struct layout { int body, queue, bar, status, line, hints, side; };

struct ui {
	int w, h, ascii, color;
	const struct ui_command *commands;
	struct grid grid;
	int dirty;
	double now;                        /* the last clock value that came in */
	struct layout lay;

	struct keys keys;
	int leader;                        /* Ctrl-X was pressed */
	double esc_at, quit_at; int esc_once, quit_once;   /* when the first of two came */

	struct transcript *talk;
	struct sessions_pane *sessions;
	struct docs_pane *docs;
	struct help_pane *help;
	struct cache_pane *cache;
	enum pane pane; enum focus focus;
	int panel;                         /* the bar or side panel is wanted */
	int panel_told;                    /* what the application heard last of UI_PANEL */
	int mouse;
	int theme;

	struct str last_question;          /* as it came */
	uint64_t place; int has_place;     /* what m marked */
	size_t below, fresh; int moved;    /* lines below the screen when drawn; new ones of them; scrolled since */

	int searching;                     /* the search line is open: its keys */
	int search_down;                   /* towards the end */
	struct edit pattern; size_t found, found_at;

	struct str queue[QUEUE_MOST]; size_t n_queue;   /* messages that wait for the end of an answer, as they came */
	int begun; double begun_until;     /* one was handed out: until something is posted of it, the next one waits */
	struct todo *todo; size_t n_todo, cap_todo;
	struct str given;                  /* text of the action handed out last */

	double gone_until;                 /* the deletion of a session can be undone; 0 = there is none */
	int typed; double typed_until;     /* into the list of sessions: it is told when no key has come for a moment */
	struct str say; double say_until; int say_new;     /* new: its time begins when it is first seen */
	struct { struct str verb; int64_t done, total, had; double tps, left; int open; } work;
	struct {
		struct str model, session, kv;
		int32_t seen, kept, ctx, gone, thinned;
		double tps;
		uint64_t memory;           /* MiB */
	} status;
	int has_status;
};

/* ui.c */
void todo_add(struct ui *, enum ui_what, const char *text, size_t n, int64_t id, int on);
int  ui_working(const struct ui *);      /* or about to */
int  ui_closed(const struct ui *);       /* and messages wait until it is done */
void ui_lay_out(struct ui *);
void pane_open(struct ui *, enum pane);
void pane_close(struct ui *);
void ui_sayf(struct ui *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* ui_keys.c */
key_fn ui_key;
void pane_act(struct ui *, const struct ui_action *);
void ui_search_run(struct ui *, int step);
void ui_search_off(struct ui *);
void ui_panel_next(struct ui *);
void queue_remove(struct ui *, size_t i);
/* The command that text begins with, or NULL. */
const struct ui_command *command_of(const struct ui *, const char *text, size_t n);
/* ui_status.c */
void status_draw(const struct ui *, const struct area *);
void status_work(const struct ui *, int form, struct str *out);   /* form 0: everything .. 2: the least */
void queue_draw(const struct ui *, const struct area *);
void hints_draw(const struct ui *, const struct area *);
void search_draw(const struct ui *, const struct area *);

#endif
