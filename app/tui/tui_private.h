/* app/tui/tui_private.h (private to app/tui/) - the state of the full screen.
 *
 *     tui.c:             event loop, opening and closing;
 *     tui_events.c:      shows events of the worker;
 *     tui_actions.c:     carries out requests of the user;
 *     screen_commands.c: commands that only the screen has;
 *     session_lists.c:   the lists of sessions;
 *     draft_file.c:      saves unsent text against a crash;
 *     tour.c:            the tour for new users. */
#ifndef WEIR_TUI_PRIVATE_H
#define WEIR_TUI_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "app/tui/tui.h"
#include "app/tui/worker.h"

enum { MARKS_MOST = 8 }; /* length of the array mark[] in struct ui_cache */

struct tui {
	struct chat *chat; /* from worker_start() to worker_close(), only the worker may use it */
	struct ui *ui;
	struct display *display; /* NULL in tests, which have no terminal */
	struct worker *worker;
	struct store *store; /* read-only connection of the main thread; NULL = sessions are not stored */
	struct ui_command *commands;
	char **prompts;
	/* prompts[n_prompt] has the names of the user's prompt files. The commands of these files are the last rows of
	 * `commands`. */
	size_t n_prompt;
	struct ui_setting *settings;
	struct str roles;    /* arguments of /role: "[off|NAME|...]" */
	struct str encoders; /* values of the setting `encoder`, with '|' between them */
	int fd;
	int left;   /* 1 = the user quits, or the terminal does not exist any more */
	int signal; /* signal that ended the program; 0 = none */
	int listed; /* 1 = the list of sessions was opened at least once, so it must be kept up to date */
	int relist; /* 1 = the list of sessions has changed */
	int64_t hidden[HIDDEN_MOST];
	int n_hidden; /* number of ids in `hidden`: deleted sessions that can still be restored */
	int working;
	int typed;      /* 1 = a key was typed after the last drawing */
	int answer_due; /* 1 = the last question's answer has no entry in the transcript yet */
	/* number of bytes in the transcript entry that shows a streamed text; 0 = there is no such entry */
	size_t streams;
	int still;          /* 1 = show no figures that depend on time (for tests) */
	int64_t session;    /* session on the screen; 0 = not stored yet */
	double prefill_tps; /* tokens per second of the last prefill; 0 = none yet */
	/* The documents that are marked on the strip of the cache panel: for each, its first token, number of tokens,
	 * and name. */
	struct {
		int32_t first, n;
		char name[64];
	} mark[MARKS_MOST];
	int n_mark;
	uint64_t memory;
	double memory_at, drawn, resized; /* `resized` is the time at which the terminal's size changed last */
	int served;                       /* 1 = the model is on a server */
	/* State of the tour. `step` is the number of the current step, from 1; 0 = no tour. `before` is the number of
	 * answers or documents at the beginning of the step. A step that waits for an answer or a document is done when
	 * this number has grown. */
	struct {
		int step, answers, documents, panel, before;
		int64_t session;
	} tour;
	/* The copy to the clipboard that is in progress. It has its own thread, because the external clipboard program
	 * may hang. */
	struct {
		pthread_t thread;
		int running;
		atomic_int done;
		struct str text;
		const char *by;
	} copy;
	int keeps_draft;
	struct str saved;
	double saved_at; /* `saved` is the text in the draft file; `saved_at` is the time at which it was written */
};

/* tui.c */
void tui_show(struct tui *);    /* draw and show the screen */
void tui_measure(struct tui *); /* set the screen to the terminal's size */
/* Write every cell with the next frame, at the terminal's size. After SIGWINCH this is needed even if the size is the
 * old one: the terminal may have become smaller and then larger again, which has truncated its text. */
void tui_repaint(struct tui *);
/* tui_events.c */
void tui_take_events(struct tui *); /* handle all waiting events, and show the newest status and cache figures */
/* tui_actions.c */
void tui_take_actions(struct tui *);
/* tell the user about a copy to the clipboard that has ended; if `wait` is 1, first wait until the current copy ends */
void tui_copy_end(struct tui *, int wait);
void tui_suspend(struct tui *); /* handle Ctrl-Z: stop the process until the shell continues it */
/* screen_commands.c */
void tui_commands(struct tui *); /* make the table for ui_open() */
void tui_look(struct tui *);     /* apply the options of the screen: mouse, panel, answers */
/* run a text that the user has sent: the screen runs its own commands, the worker all other text */
void tui_take(struct tui *, struct str *text);
/* draft_file.c */
/* put the saved text into the input line, if an earlier weir process was killed and has left one */
void draft_restore(struct tui *);
/* save the unsent text if a save is due; returns the time at which this must be called again, 0 = after the next key */
double draft_save(struct tui *, double now);
void draft_forget(struct tui *); /* delete the draft file; called when the screen is closed normally */
/* tour.c */
void tour_begin(struct tui *); /* begin the tour; end it if it already runs */
void tour_go_on(struct tui *); /* go to the next step of the tour if the current one is done */
/* session_lists.c */
void tui_welcome(struct tui *); /* show hints for a new user, and the sessions that were used last */
/* open the main thread's connection to the store, if sessions are stored */
void tui_store(struct tui *);
/* 1 if the session was deleted and can still be restored */
int tui_is_hidden(const struct tui *, int64_t session);
void tui_list(struct tui *);
void tui_find(struct tui *, const char *words);
void tui_preview(struct tui *, int64_t session); /* show the last messages of a session */

#endif
