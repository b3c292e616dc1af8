/* ui/panes.h (private to ui/) - the panes beside the transcript: what ui.c knows of each.
 *
 * A pane draws into an area and is asked about keys; what it does not use goes back to ui.c. */
#ifndef WEIR_PANES_H
#define WEIR_PANES_H

#include "ui/grid.h"
#include "ui/keys.h"

/* ---- sessions (view_sessions.c): filter as one types, rename, fork and delete in place ---- */
struct sessions_pane;
struct sessions_pane *sessions_pane_new(int ascii);
void sessions_pane_free(struct sessions_pane *);
void sessions_pane_open(struct sessions_pane *);
void sessions_pane_post(struct sessions_pane *, const struct ui_session *, size_t n, int64_t now);
void sessions_pane_preview(struct sessions_pane *, int64_t id, const char *text, size_t n);
void sessions_pane_draw(struct sessions_pane *, const struct area *);
/* PANE_ACTION: *out is what is to be done (text valid until the next call). */
enum pane_key { PANE_NOT_MINE, PANE_USED, PANE_CLOSE, PANE_ACTION };
enum pane_key sessions_pane_key(struct sessions_pane *, const struct key *, struct ui_action *out);
/* Ask whether that one is to be deleted, as Ctrl-D does. */
void sessions_pane_ask(struct sessions_pane *, int64_t id);
/* The time in which the last deletion could be undone is over. */
void sessions_pane_gone(struct sessions_pane *);
/* No key has come for a moment (0.3 s): what was typed behind "/" may be looked for.  PANE_ACTION, or PANE_NOT_MINE. */
enum pane_key sessions_pane_pause(struct sessions_pane *, struct ui_action *out);

/* ---- documents (view_docs.c): text with headings, search, percent; words that left the cache are dimmed ---- */
struct docs_pane;
struct docs_pane *docs_pane_new(int ascii);
void docs_pane_free(struct docs_pane *);
void docs_pane_post(struct docs_pane *, const struct ui_document *, size_t n);
void docs_pane_goto(struct docs_pane *, const char *where);
void docs_pane_lens(struct docs_pane *, size_t document, const struct ui_span *, size_t n);
void docs_pane_draw(struct docs_pane *, const struct area *);
enum pane_key docs_pane_key(struct docs_pane *, const struct key *);

/* ---- help (view_help.c): from the tables of keys and commands ---- */
struct help_pane;
struct help_pane *help_pane_new(const struct ui_command *, int ascii);
void help_pane_free(struct help_pane *);
void help_pane_draw(struct help_pane *, const struct area *);
enum pane_key help_pane_key(struct help_pane *, const struct key *);
/* The table of keys (bindings.c): where a key holds, what it is called, what it does.  ui.c acts on it, help and manual print it. */
enum where { IN_INPUT = 1, IN_TALK = 2, IN_SESSIONS = 4, IN_DOCS = 8, IN_CACHE = 16, IN_HELP = 32, ANYWHERE = 63 };
struct binding {
	unsigned where;
	const char *keys, *does;          /* "Alt-Enter, Ctrl-J"; "break the line" */
	int act;                          /* what ui_keys.c does (ui_private.h); 0: the line or the pane itself deals with it */
};
extern const struct binding bindings[];   /* ends with keys = NULL */

/* ---- the cache (view_cache.c) ---- */
struct cache_pane;
struct cache_pane *cache_pane_new(int ascii);
void cache_pane_free(struct cache_pane *);
void cache_pane_post(struct cache_pane *, const struct ui_cache *);
int  cache_pane_rows(const struct cache_pane *, int width);              /* rows that the bar above the input wants */
void cache_pane_draw_bar(struct cache_pane *, const struct area *);      /* meters and the strip of the whole text */
void cache_pane_draw_side(struct cache_pane *, const struct area *);     /* beside the transcript, 40-48 columns */
void cache_pane_draw(struct cache_pane *, const struct area *);          /* full screen: everything, with its legend */
enum pane_key cache_pane_key(struct cache_pane *, const struct key *);
void cache_pane_layer(struct cache_pane *, int layer);
/* The terminal has colours: two layers a row of the heat, told apart by colour alone.  Off until it is called (c toggles). */
void cache_pane_color(struct cache_pane *, int on);

#endif
