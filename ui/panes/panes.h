/* ui/panes/panes.h (private to ui/) - panes: what stands over the transcript while it is open, and the table of keys.
 *
 * A pane is a file pane_NAME.c with a struct pane_ops, and an entry in PANES.  It draws into an area and gets some keys first (see key
 * below); keys that it does not use keep their general meaning.  A row in bindings.c with ACT_PANE + NAME opens and closes it. */
#ifndef WEIR_PANES_H
#define WEIR_PANES_H

#include "ui/screen/grid.h"
#include "ui/screen/keys.h"

#define PANES(X) X(SESSIONS, sessions_pane) X(DOCUMENTS, documents_pane) X(HELP, help_pane) X(CACHE, cache_pane) \
	X(PALETTE, palette_pane) X(TEXT, text_pane)

#define PANE_ID(name, ops) name,
enum pane_id { NO_PANE, PANES(PANE_ID) N_PANES };
#undef PANE_ID

/* What a pane did with a key.  PANE_ACTION: *out is for the application; its text is valid until the pane's next call.  PANE_CHOSEN: the
 * palette closes, and what was chosen is done then. */
enum pane_key { PANE_NOT_MINE, PANE_USED, PANE_CLOSE, PANE_ACTION, PANE_CHOSEN };
struct hint { const char *key, *does; };

/* What of a pane is open now. */
enum pane_state {
	PANE_FIELD = 1,       /* a field or a question: it gets typed text, and all keys first */
	PANE_MATCHES = 2,     /* found words are marked: F3 goes to the next one */
};

enum pane_flags {
	PANE_SEARCHES = 1,    /* '/' searches in it, and so does F3 */
	PANE_SHARES = 2,      /* on wide screens it leaves room for the cache at its side */
	PANE_IS_CACHE = 4,    /* the cache on the whole screen: no bar, and all figures are computed */
};

/* The first member of every pane's own struct. */
struct pane {
	const struct pane_ops *ops;
	int framed;                       /* it is drawn within a border that has its title: it needs no row for that */
};
struct pane_ops {
	const char *place;                /* "the list of sessions": where its keys hold, for the help */
	unsigned flags;
	const struct hint *hints;         /* the row of keys while the pane is open; ends with key = NULL */
	const struct hint *(*asks)(const struct pane *);   /* the keys of a question that is open in it, NULL = none is.  NULL: it never asks */
	const struct hint *browsing;       /* the same in browse mode */
	struct pane *(*create)(const struct ui_options *);   /* uses ascii, color, commands; the pane is empty */
	void (*release)(struct pane *);
	enum pane_key (*open)(struct pane *, struct ui_action *out);    /* PANE_USED or PANE_ACTION.  NULL: a pane opens as it was closed */
	void (*draw)(struct pane *, const struct area *);
	/* Clean text at the left and at the right of the upper border, of what was drawn last. */
	void (*title)(const struct pane *, struct str *left, struct str *right);
	unsigned (*state)(const struct pane *);                         /* of enum pane_state */
	/* Letters come in browse mode and for a field, other keys also while the input line is empty, PgUp, PgDn and Esc always. */
	enum pane_key (*key)(struct pane *, const struct key *, struct ui_action *out);
	/* No key has come for TYPED_SECONDS: PANE_ACTION or PANE_NOT_MINE.  NULL: not wanted. */
	enum pane_key (*pause)(struct pane *, struct ui_action *out);
};
#define PANE_OPS(name, ops) extern const struct pane_ops ops;
PANES(PANE_OPS)
#undef PANE_OPS
extern const struct pane_ops *const pane_ops[N_PANES];   /* [NO_PANE] is NULL; in panes.c */

/* ---- the table of keys (bindings.c): ui_keys.c acts on it, help and manual print it ---- */

/* What a key does: bindings.c names the act, ui_acts.c carries it out. */
enum act {
	ACT_NONE,            /* the input line or the pane handles the key */
	ACT_PANEL, ACT_SOURCE, ACT_FIND, ACT_NEXT, ACT_MOUSE, ACT_QUIT, ACT_QUIT_EMPTY,
	ACT_NEW, ACT_THEME, ACT_RAW, ACT_EDITOR, ACT_STOP, ACT_BACK, ACT_SUSPEND, ACT_REPAINT,
	ACT_FIND_BACK, ACT_RETRY, ACT_COPY_LAST, ACT_COPY_CODE,
	ACT_UP, ACT_DOWN, ACT_HALF_UP, ACT_HALF_DOWN, ACT_PAGE_UP, ACT_PAGE_DOWN, ACT_TOP, ACT_END,
	ACT_END_EMPTY, ACT_TOP_EMPTY, ACT_UNQUEUE, ACT_VARIANT, ACT_VARIANT_BACK,
	ACT_FIND_DOWN, ACT_FIND_UP, ACT_AGAIN, ACT_AGAIN_BACK, ACT_QUESTION_UP, ACT_QUESTION_DOWN,
	ACT_COPY, ACT_FOLD, ACT_MARK, ACT_JUMP, ACT_LINE,
	ACT_PANE,            /* + enum pane_id: open or close that pane */
};

#define PANE_PLACE(name, ops) IN_##name = 2 << name,
enum where {
	IN_INPUT = 1, IN_TRANSCRIPT = 2, PANES(PANE_PLACE)
	ANYWHERE = (2 << N_PANES) - 1,
	BROWSING = 2 << N_PANES,           /* the row holds there in browse mode alone */
};
#undef PANE_PLACE
struct binding {
	unsigned where;                   /* of enum where */
	const char *keys, *does;          /* "Alt-Enter, Ctrl-J"; "break the line" */
	int act;                          /* of enum act; 0: the input line or the pane handles the key itself */
};
extern const struct binding bindings[];   /* ends with keys = NULL */

/* ---- what is posted to each pane ---- */

/* The list of sessions (pane_sessions.c). */
void sessions_pane_post(struct pane *, const struct ui_session *, size_t n, int64_t now);
void sessions_pane_preview(struct pane *, int64_t id, const char *text, size_t n);
/* Ask whether that session is to be deleted, as Ctrl-D does. */
void sessions_pane_ask(struct pane *, int64_t id);
/* The last deletion cannot be undone any more. */
void sessions_pane_undo_over(struct pane *);

/* Documents (pane_documents.c); evicted words are dimmed. */
void documents_pane_post(struct pane *, const struct ui_document *, size_t n);
void documents_pane_goto(struct pane *, const char *where);
void documents_pane_show(struct pane *, size_t document, size_t from, size_t to);
/* They are shaded by share. */
void documents_pane_sources(struct pane *, const struct ui_source *, size_t n);
void documents_pane_lens(struct pane *, size_t document, const struct ui_span *, size_t n);

/* Help (pane_help.c): show what has the words, a command of that name before others; "": everything. */
void help_pane_find(struct pane *, const char *words);

/* What a command says (pane_text.c). */
void text_pane_post(struct pane *, const char *title, const char *text, size_t n);

/* The palette (pane_palette.c). */
enum palette_kind { PALETTE_TEXT, PALETTE_ACT, PALETTE_DOCUMENT, PALETTE_SESSION };
struct palette_choice {
	enum palette_kind what;
	const char *text;                 /* a command; one that ends with a blank waits for more in the input line */
	int draft;                        /* it goes into the input line in any case */
	int act;                          /* of enum act */
	int64_t id;                       /* of the session; the number of the document, from 0 */
};
void palette_pane_documents(struct pane *, const struct ui_document *, size_t n);
void palette_pane_sessions(struct pane *, const struct ui_session *, size_t n);
const struct palette_choice *palette_pane_chosen(const struct pane *);   /* after PANE_CHOSEN; until the pane's next call */

/* The cache (pane_cache.c): the pane is its full form; bar and side panel stand beside other things. */
void cache_pane_post(struct pane *, const struct ui_cache *);
int  cache_pane_rows(const struct pane *, int width);              /* rows that the bar above the input line wants */
void cache_pane_draw_bar(struct pane *, const struct area *);      /* meters and the strip of the whole sequence */
void cache_pane_draw_side(struct pane *, const struct area *);     /* beside the transcript, 40-48 columns */
void cache_pane_layer(struct pane *, int layer);
/* on: the heat shows two layers a row, told apart by colour alone. */
void cache_pane_color(struct pane *, int on);
int  cache_pane_colored(const struct pane *);

#endif
