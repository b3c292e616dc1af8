/* ui/panes/pane_sessions.h (private to pane_sessions.c and sessions_draw.c) - the state of the sessions pane. */
#ifndef WEIR_PANE_SESSIONS_H
#define WEIR_PANE_SESSIONS_H

#include "ui/transcript/markdown.h"
#include "ui/panes/panes.h"
#include "ui/screen/widgets.h"

#define FOUND_ON  '\x01'
#define FOUND_OFF '\x02'
#define NOBODY    INT64_MIN

struct session_row {
	/* the session as it was posted; the strings in it are NULL, because the members below have copies */
	struct ui_session is;
	/* copies of the posted strings, without control characters; but `snippet` has FOUND_ON and FOUND_OFF around
	 * the matches */
	struct str name, title, model, snippet;
};

/* What the keys do. PICK: choose a session. RENAME: edit the name of the chosen session. DELETE: answer y or n. TAKEN:
 * another process has opened the chosen session; choose to read it or to wait. */
enum mode { PICK, RENAME, DELETE, TAKEN };

struct sessions_pane {
	struct pane pane;
	int ascii;
	enum mode mode;
	int asked_from_outside; /* in mode DELETE: 1 = a command asked the question, 0 = a key of the pane */
	struct session_row *row;
	size_t n_row;
	int64_t now;
	size_t *shown; /* [list.n] indexes of the rows that pass the filter */
	struct list list;
	int64_t chosen_id;
	/* The session that the user renamed; NOBODY = none. It stays listed until the filter changes, even if its new
	 * name does not match. */
	int64_t renamed_id;
	/* While a fork is requested: the largest session id before the request. A session with a larger id is then the
	 * fork. 0 = no request. */
	int64_t forked;
	int opened;  /* 1 = the pane was just opened: when the list is posted, choose the current session */
	int rows;    /* number of sessions that fit in the list as it was last drawn */
	int item;    /* number of screen rows of a session: 2 with the snippet of a search, else 1 */
	int x, y, w; /* position and width of the list that was drawn last, for the mouse */

	struct edit filter, rename;
	struct str asked; /* words of the last UI_FIND */
	/* 1 = a search for the words after "/" was requested: the list shows the results of this search, or will do so
	 * soon */
	int finding;

	int64_t deleted_id; /* id of the session that was deleted last, as long as it can be restored; else NOBODY */
	struct str deleted; /* name of the deleted session */

	int preview; /* 1: the preview is shown */
	/* preview_id is the session to which the preview text belongs; preview_asked is the session of the last
	 * UI_PREVIEW; NOBODY = none */
	int64_t preview_id, preview_asked;
	int preview_there;       /* 1 = the text of session preview_id has arrived */
	struct str preview_text; /* without control characters */
	struct lines lines;
	int lines_w;
	struct str out; /* text of the request that was returned last */
};

/* Return the words after "/" in the filter; NULL = the filter does not begin with "/". */
const char *sessions_find_words(const struct sessions_pane *, size_t *n);
/* Return the chosen session; NULL = no session passes the filter. */
const struct session_row *sessions_chosen(const struct sessions_pane *);
void sessions_draw(struct sessions_pane *, const struct area *);

#endif
