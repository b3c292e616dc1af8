/* ui/panes/pane_sessions.h (private to pane_sessions.c and sessions_draw.c) - the list of sessions, as its files share it. */
#ifndef WEIR_PANE_SESSIONS_H
#define WEIR_PANE_SESSIONS_H

#include "ui/transcript/markdown.h"
#include "ui/panes/panes.h"
#include "ui/screen/widgets.h"

#define FOUND_ON  '\x01'
#define FOUND_OFF '\x02'
#define NOBODY INT64_MIN

struct session_row {
	struct ui_session is;         /* with its texts NULL: they are below */
	struct str name, title, model, snippet;   /* clean; the snippet with marks around found words */
};

enum mode { PICK, RENAME, DELETE, TAKEN };   /* TAKEN: another process has the chosen session open */

struct sessions_pane {
	struct pane pane;
	int ascii;
	enum mode mode;
	int asked_from_outside;       /* DELETE: a command asked, not a key of the pane */
	struct session_row *row;
	size_t n_row;
	int64_t now;
	size_t *shown;                /* [list.n] indices of the rows that pass the filter */
	struct list list;
	int64_t chosen_id;
	int64_t renamed_id;           /* stays in the list until the filter is changed, whatever its new name is; else NOBODY */
	int64_t forked;               /* a fork was asked for when this was the newest id: a newer session will be chosen.  0 = none */
	int opened;                   /* opened, and no list posted since: the session on the screen will be chosen */
	int rows;                     /* rows of the list, and of one session, when they were drawn last */
	int item;
	int x, y, w;                  /* where the list was drawn, for the mouse */

	struct edit filter, rename;
	struct str asked;             /* words of the last UI_FIND */
	int finding;                  /* the list, or the next one posted, are matches of a search */

	int64_t deleted_id; struct str deleted;   /* the last deletion, while it can be undone; else NOBODY */

	int preview;                  /* wanted */
	int64_t preview_id, preview_asked;
	int preview_there;            /* preview_id has its text */
	struct str preview_text;      /* clean */
	struct lines lines; int lines_w;
	struct str out;               /* text of an action */
};

/* The words behind "/" in the filter; NULL: it has none. */
const char *sessions_find_words(const struct sessions_pane *, size_t *n);
/* NULL: nothing passes the filter. */
const struct session_row *sessions_chosen(const struct sessions_pane *);
void sessions_draw(struct sessions_pane *, const struct area *);

#endif
