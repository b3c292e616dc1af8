/* app/tui/tui_private.h (private to app/tui/) - the full screen as its files share it.
 *
 *     tui.c              the loop, opening and closing
 *     tui_events.c       from the worker to the ui
 *     tui_actions.c      from the ui to the worker
 *     screen_commands.c  commands that only the screen has
 *     session_lists.c    the lists of sessions
 *     draft_file.c       the draft of a weir that was killed
 *     tour.c             what a newcomer does once */
#ifndef WEIR_TUI_PRIVATE_H
#define WEIR_TUI_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "app/tui/tui.h"
#include "app/tui/worker.h"

enum { MARKS_MOST = 8 }; /* as in struct ui_cache */

struct tui {
	struct chat *chat; /* the worker's from worker_start() to worker_close() */
	struct ui *ui;
	struct display *display; /* NULL: no terminal (tests) */
	struct worker *worker;
	struct store *store; /* main's own connection, which only reads; NULL: nothing is saved */
	struct ui_command *commands;
	char **prompts;
	size_t n_prompt; /* names among them that are the user's prompts */
	struct ui_setting *settings;
	int fd;
	int left;   /* the user quits, or the terminal is lost */
	int signal; /* that ended the program; 0 = none */
	int listed; /* the list of sessions has been shown: it is kept up to date */
	int relist; /* the list has changed */
	int64_t hidden[HIDDEN_MOST];
	int n_hidden; /* deleted sessions whose deletion can still be undone */
	int working;
	int typed;          /* keys have come since the picture was drawn */
	int answer_due;     /* a question was asked, and its answer has no entry yet */
	size_t streams;     /* bytes of the entry that shows a text without an end; 0 = none */
	int still;          /* for tests: no figures that depend on time */
	int64_t session;    /* the session on the screen; 0 = not begun */
	double prefill_tps; /* of the last prefill; 0 = none yet */
	/* documents that are in the cache, for its strip */
	struct {
		int32_t first, n;
		char name[64];
	} mark[MARKS_MOST];
	int n_mark;
	uint64_t memory;
	double memory_at, drawn;
	int served; /* the model is on a server */
	/* The tour: its step, from 1; 0 = there is none. What it waits for, and how often that had happened when the
	 * step began. */
	struct {
		int step, answers, documents, panel, before;
		int64_t session;
	} tour;
	/* A copy on its way to the clipboard, on a thread of its own: a desktop that hangs does not hang the screen. */
	struct {
		pthread_t thread;
		int running;
		atomic_int done;
		struct str text;
		const char *by;
	} copy;
	int keeps_draft;
	struct str saved;
	double saved_at; /* what draft_file.c has written, and when */
};

/* tui.c */
void tui_measure(struct tui *); /* the terminal may have another size */
/* tui_events.c */
void tui_take_events(struct tui *); /* all that wait, the status and the cache */
/* tui_actions.c */
void tui_take_actions(struct tui *);
void tui_copy_end(struct tui *, int wait); /* say how the copy went, once it has; wait: for it */
void tui_suspend(struct tui *);            /* Ctrl-Z: the shell has the terminal until it hands it back */
/* screen_commands.c */
void tui_commands(struct tui *);               /* the table for ui_open() */
void tui_look(struct tui *);                   /* the screen as the options want it: mouse, panel, answers */
void tui_take(struct tui *, struct str *text); /* what the user sent: a command of the screen, or the worker's */
/* draft_file.c */
void draft_restore(struct tui *); /* what a killed weir left becomes the draft */
/* when it has to be called again; 0 = not before something is typed */
double draft_save(struct tui *, double now);
void draft_forget(struct tui *); /* the screen is left in the ordinary way */
/* tour.c */
void tour_begin(struct tui *); /* or end it, where it runs */
void tour_go_on(struct tui *); /* the next step, if this one is done */
/* session_lists.c */
void tui_welcome(struct tui *); /* what one can do first, and the sessions used last */
/* opens main's own connection to the store, if there is one; it only reads */
void tui_store(struct tui *);
/* deleted, but for the seconds in which that can be undone */
int tui_is_hidden(const struct tui *, int64_t session);
void tui_list(struct tui *);
void tui_find(struct tui *, const char *words);
void tui_preview(struct tui *, int64_t session); /* the end of it */

#endif
