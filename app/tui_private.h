/* app/tui_private.h (private to app/tui*.c) - what the files of the full screen share: tui.c (the loop), tui_commands.c (commands of
 * the screen, lists of sessions). */
#ifndef WEIR_TUI_PRIVATE_H
#define WEIR_TUI_PRIVATE_H

#include "app/tui.h"
#include "app/worker.h"

enum { MARKS_MOST = 8 };          /* as in struct ui_cache */

struct tui {
	struct chat *chat;           /* the worker's, once that runs */
	struct ui *ui;
	struct display *display;     /* NULL: no terminal (tests) */
	struct worker *worker;
	struct store *store;         /* for reading, beside the worker's; NULL: nothing is kept */
	struct ui_command *commands;
	int fd;
	int left;                    /* the user wants to go, or the terminal has gone */
	int listed;                  /* the list of sessions was asked for: it is kept true */
	int relist;                  /* it has changed */
	int64_t hidden[HIDDEN_MOST]; int n_hidden;   /* sessions that are as good as deleted */
	int working;
	int typed;                   /* keys came since the picture was drawn */
	size_t streams;              /* bytes of the entry that a text without an end grows in; 0 = there is none */
	int still;                   /* tests: no numbers that differ from run to run */
	int64_t session;             /* the one on the screen; 0 = none yet */
	double prefill_tps;          /* of the last read; 0 = none yet */
	struct { int32_t first, n; char name[64]; } mark[MARKS_MOST]; int n_mark;   /* documents that have been read, for the panel */
	uint64_t memory;
	double memory_at, drawn;
};

/* The table for ui_open(). */
void tui_commands(struct tui *);
/* What the user sent: a command of the screen, or the worker's. */
void tui_take(struct tui *, struct str *text);
/* A reading connection to the store, if there is one. */
void tui_store(struct tui *);
void tui_list(struct tui *);
void tui_find(struct tui *, const char *words);
void tui_preview(struct tui *, int64_t session);
/* The terminal may have another size. */
void tui_measure(struct tui *);

#endif
