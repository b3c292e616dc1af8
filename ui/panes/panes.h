/* ui/panes/panes.h (private to ui/) - panes, which cover the transcript while they are open, and the table of keys.
 *
 * A pane is a file pane_NAME.c with a struct pane_ops, and an entry in PANES. It draws into an area of the screen. A
 * pane gets the majority of the keys first (see `key` below); keys that it does not use keep their usual meaning. A row
 * of bindings.c with action ACT_PANE + NAME assigns the key that opens and closes the pane. */
#ifndef WEIR_PANES_H
#define WEIR_PANES_H

#include "ui/screen/grid.h"
#include "ui/screen/keys.h"

/* clang-format off */
#define PANES(X) \
	X(SESSIONS, sessions_pane) X(DOCUMENTS, documents_pane) X(HELP, help_pane) X(CACHE, cache_pane) \
	X(PALETTE, palette_pane) X(TEXT, text_pane)
/* clang-format on */

#define PANE_ID(name, ops) name,
enum pane_id { NO_PANE, PANES(PANE_ID) N_PANES };
#undef PANE_ID

/* What a pane did with a key. PANE_NOT_MINE: it did not use the key. PANE_CLOSE: it wants to be closed. PANE_ACTION: it
 * put a request to the application into *out, whose text is valid until the pane's next call. PANE_CHOSEN: close the
 * palette and run what the user chose in it. */
enum pane_key { PANE_NOT_MINE, PANE_USED, PANE_CLOSE, PANE_ACTION, PANE_CHOSEN };
struct hint {
	const char *key, *does;
};

/* Flags that describe the state of a pane. */
enum pane_state {
	PANE_FIELD = 1,   /* a text field or question is open: the pane gets all keys first, even letters */
	PANE_MATCHES = 2, /* search matches are marked: F3 goes to the next one */
};

enum pane_flags {
	PANE_SEARCHES = 1, /* '/' and F3 search in the pane */
	PANE_SHARES = 2,   /* on wide screens, the cache panel is still shown beside the pane */
	/* the pane is the full-screen cache pane: the bar is not shown, and all figures are computed */
	PANE_IS_CACHE = 4,
};

/* The members that all panes have. This struct is the first member of each pane's struct. */
struct pane {
	const struct pane_ops *ops;
	int framed; /* 1 = the pane is inside a border that shows its title, so the pane draws no title itself */
	/* what the last key did, or why it did nothing, for the status row; NULL = nothing to say */
	const char *say;
};
struct pane_ops {
	const char *help_name; /* name for the help: "the list of sessions" */
	unsigned flags;
	/* hints about keys, which are shown while the pane is open; the list ends with key = NULL */
	const struct hint *hints;
	/* Return the keys that answer the open question; NULL = no question is open. The pointer itself is NULL for a
	 * pane that never asks. */
	const struct hint *(*asks)(const struct pane *);
	/* hints about keys in browse mode; NULL = the same as `hints` */
	const struct hint *browsing;
	/* Create the pane. Only the options ascii, color, commands and settings are used. */
	struct pane *(*create)(const struct ui_options *);
	void (*release)(struct pane *);
	/* Called when the pane is opened. Returns PANE_USED or PANE_ACTION. If the pointer is NULL, the pane shows what
	 * it showed before it was closed. */
	enum pane_key (*open)(struct pane *, struct ui_action *out);
	void (*draw)(struct pane *, const struct area *);
	/* Append the titles at the left and right of the upper border. They describe what was drawn last and contain no
	 * control characters. */
	void (*title)(const struct pane *, struct str *left, struct str *right);
	unsigned (*state)(const struct pane *); /* flags of enum pane_state */
	/* Handle a key. A pane always gets PgUp, PgDn and Esc. While the input line is empty, it also gets arrows, Tab,
	 * Enter and similar keys. In browse mode (F6) or while its field is open, it gets all keys. */
	enum pane_key (*key)(struct pane *, const struct key *, struct ui_action *out);
	/* Called when no key has come for TYPED_SECONDS. Returns PANE_ACTION or PANE_NOT_MINE. May be NULL. */
	enum pane_key (*pause)(struct pane *, struct ui_action *out);
};
#define PANE_OPS(name, ops) extern const struct pane_ops ops;
PANES(PANE_OPS)
#undef PANE_OPS
extern const struct pane_ops *const pane_ops[N_PANES]; /* defined in panes.c; pane_ops[NO_PANE] is NULL */

/* ---- the table of keys (bindings.c): ui_acts.c runs its actions, help and manual print it ---- */

/* What a key does: bindings.c assigns these actions to keys, ui_acts.c runs them. */
enum act {
	ACT_NONE, /* the input line or the pane handles the key */
	ACT_PANEL,
	ACT_SOURCE,
	ACT_FIND,
	ACT_NEXT,
	ACT_MOUSE,
	ACT_QUIT,
	ACT_QUIT_EMPTY,
	ACT_NEW,
	ACT_THEME,
	ACT_RAW,
	ACT_EDITOR,
	ACT_STOP,
	ACT_BACK,
	ACT_SUSPEND,
	ACT_REPAINT,
	ACT_FIND_BACK,
	ACT_RETRY,
	ACT_COPY_LAST,
	ACT_COPY_CODE,
	ACT_UP,
	ACT_DOWN,
	ACT_HALF_UP,
	ACT_HALF_DOWN,
	ACT_PAGE_UP,
	ACT_PAGE_DOWN,
	ACT_TOP,
	ACT_END,
	ACT_END_EMPTY,
	ACT_TOP_EMPTY,
	ACT_UNQUEUE,
	ACT_VARIANT,
	ACT_VARIANT_BACK,
	ACT_FIND_DOWN,
	ACT_FIND_UP,
	ACT_AGAIN,
	ACT_AGAIN_BACK,
	ACT_QUESTION_UP,
	ACT_QUESTION_DOWN,
	ACT_COPY,
	ACT_FOLD,
	ACT_MARK,
	ACT_JUMP,
	ACT_LINE,
	ACT_PANE, /* ACT_PANE + a value of enum pane_id: open or close this pane */
};

#define PANE_PLACE(name, ops) IN_##name = 2 << name,
enum where {
	IN_INPUT = 1,
	IN_TRANSCRIPT = 2,
	PANES(PANE_PLACE) ANYWHERE = (2 << N_PANES) - 1,
	BROWSING = 2 << N_PANES, /* the binding is valid only in browse mode */
};
#undef PANE_PLACE
struct binding {
	unsigned where; /* flags of enum where */
	/* keys and description of a binding, such as "Alt-Enter, Ctrl-J" and "break the line" */
	const char *keys, *does;
	int act; /* value of enum act; 0: the input line or the pane handles the key */
};
extern const struct binding bindings[]; /* the last element has keys = NULL */

/* ---- contents posted to each pane ---- */

/* Functions of the list of sessions (pane_sessions.c). */
void sessions_pane_post(struct pane *, const struct ui_session *, size_t n, int64_t now);
void sessions_pane_preview(struct pane *, int64_t id, const char *text, size_t n);
/* Ask whether to delete a session, as Ctrl-D does. */
void sessions_pane_ask(struct pane *, int64_t id);
/* Tell the pane that the last deletion can no longer be undone. */
void sessions_pane_undo_over(struct pane *);

/* Functions of the documents pane (pane_documents.c). */
void documents_pane_post(struct pane *, const struct ui_document *, size_t n);
void documents_pane_goto(struct pane *, const char *where);
void documents_pane_show(struct pane *, size_t document, size_t from, size_t to);
/* Set the sources of an answer. In the text, the pane shades each source by its share of the answer's attention. */
void documents_pane_sources(struct pane *, const struct ui_source *, size_t n);
void documents_pane_lens(struct pane *, size_t document, const struct ui_span *, size_t n);

/* Scroll the help (pane_help.c) to the command with this name, or to the first match of the words. If `words` is "",
 * scroll to the beginning. */
void help_pane_find(struct pane *, const char *words);

/* Show the output of a command (pane_text.c). */
void text_pane_post(struct pane *, const char *title, const char *text, size_t n);

/* What the user can choose in the palette (pane_palette.c). */
enum palette_kind { PALETTE_TEXT, PALETTE_ACT, PALETTE_DOCUMENT, PALETTE_SESSION };
struct palette_choice {
	enum palette_kind what;
	/* A command. A blank at its end means that the command needs arguments: it is put into the input line, and not
	 * run. */
	const char *text;
	int draft;  /* 1: put `text` into the input line, even if the command needs no arguments */
	int act;    /* enum act */
	int64_t id; /* id of the session, or index of the document */
};
void palette_pane_documents(struct pane *, const struct ui_document *, size_t n);
void palette_pane_sessions(struct pane *, const struct ui_session *, size_t n);
/* Return what was chosen; call after PANE_CHOSEN. The result is valid until the next call on the pane. */
const struct palette_choice *palette_pane_chosen(const struct pane *);

/* Functions of the cache pane (pane_cache.c). As a pane, the cache covers the screen; bar and side panel are its small
 * forms. */
void cache_pane_post(struct pane *, const struct ui_cache *);
int cache_pane_rows(const struct pane *, int width); /* returns the number of rows of the bar above the input line */
void cache_pane_draw_bar(struct pane *, const struct area *);  /* draw the bar, which has the summary and the strip */
void cache_pane_draw_side(struct pane *, const struct area *); /* draw the side panel, which is 40 to 48 columns wide */
void cache_pane_layer(struct pane *, int layer);
/* Set whether the heat map uses two colours per cell (`on` is 1), so that two layers fit into one row. */
void cache_pane_color(struct pane *, int on);
int cache_pane_colored(const struct pane *);

#endif
