/* ui/ui.h - the interface of the full screen. The application passes in keys and what to show; the ui draws a grid of
 * cells and returns the user's requests. Also declared here: the terminal that shows the grid (screen/display.c), and
 * the input history, which line mode shares (input/input_history.c). */
#ifndef WEIR_UI_H
#define WEIR_UI_H

#include "sessions/import/import.h"

enum clean_flags {
	CLEAN_LINE = 1, /* one line: show newlines and tabs as ^J and ^I */
	CLEAN_SHOW = 2, /* show invisible characters as <U+200B>; default: drop them */
};
#define CLEAN_MARKS_MAX 4 /* maximum number of combining marks on one base character */

/* ---- words that were not typed (untyped.c) ---- */

/* Remember the words after an @ in text that was not typed, but pasted or read from an editor or a file. For such a
 * word, @FILE stays text and the file is not read. Thread-safe. */
void untyped_note(const char *text, size_t n);
/* 1 if word, given without its @, was remembered. */
int untyped_has(const char *word, size_t n);
/* 1 if the text contains a word that may name a file and was not typed (untyped_note()). Such text is not saved in the
 * history. A later run would not know that the word was pasted, and would read the file. */
int untyped_names_file(const char *text, size_t n);

/* ---- the input history (input_history.c): one file, shared by all running weir processes ---- */

enum { HISTORY_MAX = 2000 };
typedef void history_fn(const char *text, size_t n, void *ud);
/* Call the function for the last HISTORY_MAX entries, oldest first. If the file does not exist, create it with mode
 * 0600. Returns -1 if the file cannot be used. */
int history_load(const char *path, history_fn *, void *ud);
/* Append an entry. Errors are ignored. Not saved are entries longer than 1 MiB, entries with pasted file names
 * (untyped_names_file()), and the commands /remember and /memory. */
void history_append(const char *path, const char *text, size_t n);
/* If the file has more than HISTORY_MAX entries or 16 MiB, delete its oldest entries. */
void history_trim(const char *path);

/* ---- the full screen (ui.c) ----
 *
 * The application posts messages, figures and lists, feeds bytes from the terminal, and takes requests until there are
 * none. Nothing here blocks, starts threads or uses the engine. Posted text may contain control sequences. They are
 * filtered out for display and for the clipboard. A process can have only one ui, because readline's state is global.
 * Only one thread may use the ui. */

struct ui;
struct grid;

/* What happens to a command that is sent during other work, such as an answer. ALLOWED: it runs at once; LOOKS: it runs
 * at once if it has no argument, else it is queued; QUEUED: it is queued; REFUSED: an error is shown. */
enum ui_busy { BUSY_ALLOWED, BUSY_LOOKS, BUSY_QUEUED, BUSY_REFUSED };
struct ui_command {
	const char *name, *aliases; /* "/undo"; aliases: separated by blanks */
	const char *args, *help;
	enum ui_busy busy;
	/* what completion offers as the argument */
	enum ui_arg { ARG_NONE, ARG_FILE, ARG_SESSION, ARG_WORD, ARG_SETTING } arg;
	/* synonyms for the palette's search; a synonym that begins with a slash is a hidden alias of the command */
	const char *words;
};
/* A setting that completion of ARG_SETTING offers. `name` is the name of the setting, such as "docs". `values` lists
 * its values, such as "auto|whole|passages"; "" = any value. `help` is a description of one line. */
struct ui_setting {
	const char *name, *values, *help;
};

struct ui_options {
	int w, h;
	const struct ui_command *commands; /* ends with name = NULL; must outlive the ui */
	const struct ui_setting *settings; /* ends with name = NULL; must outlive the ui; NULL: no settings */
	const char *history;               /* path of the history file, or NULL */
	int ascii;                         /* 1: draw with ASCII only */
	int color;                         /* 1: the terminal has colours */
	int utc;                           /* 1: show times of day in UTC (tests) */
	int inlined;                       /* 1: begin inline, as after ui_inline() */
};
int ui_open(struct ui **, const struct ui_options *, struct err *);
void ui_close(struct ui *);

/* now: seconds of the monotonic clock. */
void ui_feed(struct ui *, const char *bytes, size_t n, double now); /* bytes from the terminal */
void ui_resize(struct ui *, int w, int h); /* makes the screen dirty, even if the size is the same */
void ui_tick(struct ui *, double now);
double ui_wake(const struct ui *); /* returns the time of the next ui_tick(); 0 = none */
int ui_dirty(const struct ui *);   /* 1 if ui_draw() may draw something else than last time */
const struct grid *ui_draw(struct ui *, double now);
/* Set whether the ui is inline (on = 1) or uses the whole screen (on = 0). In an inline ui, the conversation scrolls
 * into the terminal's own scrollback. Only the rows below it are redrawn: unfinished text, the input line, status,
 * cache, keys. A pane or a scrolled transcript still takes the whole screen. */
void ui_inline(struct ui *, int on);
int ui_is_inline(const struct ui *);
/* Tell the ui that the grid of the last ui_draw() was shown. Its final rows are then not drawn again. */
void ui_shown(struct ui *);
/* Call before an inline ui is closed. Closes panes and the search, so that the next ui_draw() has the whole
 * conversation. */
void ui_finish(struct ui *);
/* Append the screen as text, one line per row. with_styles: as in grid_dump(). */
void ui_dump(struct ui *, double now, int with_styles, struct str *out);

/* Requests to the application. */
enum ui_what {
	UI_SEND, /* text: a message or /command from the user, which the application may run now */
	UI_STOP, /* stop answering, or reading a document */
	UI_QUIT,
	UI_SUSPEND, /* Ctrl-Z */
	UI_REPAINT, /* Ctrl-L: redraw everything */
	UI_EDITOR,  /* text: the draft to edit; post the result with ui_draft() */
	UI_COPY,    /* text: what to copy to the clipboard */
	/* the user opened the list of sessions, or cleared its filter: call ui_sessions() with all sessions */
	UI_LIST,
	UI_PREVIEW, /* id: the session whose last messages to post */
	/* id: the session to continue. text: if not empty, first wait until no other process writes the session */
	UI_SWITCH,
	UI_RENAME, /* id: the session to rename; text: its new name */
	UI_FORK,   /* id: the session to copy */
	/* id: the session to delete (the user has confirmed it). UI_UNDELETE restores it for DELETE_UNDO seconds */
	UI_DELETE,
	UI_UNDELETE, /* id: the session to restore, which was deleted last */
	UI_FIND,     /* text: words to search in all sessions; call ui_sessions() with the matches */
	UI_PANEL,    /* post cache figures: none (on = 0), those of the bar or side panel (on = 1), or all (on = 2) */
	UI_MOUSE,    /* use the mouse (on = 1) or not (on = 0); if `id` is 1, also save this as the user's setting */
	UI_THEME,    /* text: the theme's name */
};
struct ui_action {
	enum ui_what what;
	const char *text;
	size_t n;
	int64_t id;
	int on;
};
/* Take the next request. Returns 1; 0 = no request is left. out->text is valid until the next call of any ui
 * function. */
int ui_action(struct ui *, struct ui_action *out);

/* ---- what the application posts ---- */

/* UI_TEXT: part of the text of a growing file, see ui_text() */
enum ui_role { UI_USER, UI_ASSISTANT, UI_NOTICE, UI_ERROR, UI_TEXT };
void ui_clear(struct ui *); /* empty the transcript before another one is posted */
size_t ui_entry(struct ui *, enum ui_role, const char *text, size_t n); /* append an entry; returns its index */
/* append bytes to the last entry; a character may be split between two calls */
void ui_piece(struct ui *, const char *bytes, size_t n);
/* Complete the last entry. `note` is a line to show below it, such as "[120 tokens, 90 t/s]", or NULL. */
void ui_entry_end(struct ui *, const char *note);

/* Append an entry for the text of a growing file, from its byte `at` on. begins: 1 = the text does not continue that of
 * earlier entries. */
void ui_text(struct ui *, size_t at, int begins);
void ui_cut(struct ui *, size_t n); /* remove all entries, also notices, after the first n messages */
/* Tell that only the first n messages still belong to the conversation. Later messages stay visible but are no longer
 * counted. */
void ui_messages_end(struct ui *, size_t n);

/* Report the work in progress, after each change. `verb` names the work, such as "reading", "answering" or "saving". If
 * `verb` is NULL, there is no work, so the next queued message is sent. */
struct ui_work {
	/* The work has `total` tokens, of which `done` are finished. Of the finished tokens, `had` were in the KV cache
	 * before the work began. `left` is the estimated number of seconds until the work ends; < 0 = unknown. */
	const char *verb;
	int64_t done, total, had;
	double tps, left;
	int open; /* 1: a message that the user enters during this work is sent at once, not queued */
};
void ui_work(struct ui *, const struct ui_work *);

struct ui_status {
	const char *model, *session, *kv; /* session: its name; "" = not started; NULL = private, not saved */
	/* Numbers of tokens: `seen` in the sequence, `kept` in the cache. `ctx` is the capacity of the cache. */
	int32_t seen, kept, ctx;
	/* `evicted` counts the tokens evicted in all layers and KV heads. `thinned` counts those evicted in only some
	 * of them. */
	int32_t evicted, thinned;
	double tps;                /* decode speed of the last or running answer; 0 = none yet */
	uint64_t kv_bytes, memory; /* kv_bytes: size of the KV cache. memory: memory of the process, in bytes */
};
void ui_status(struct ui *, const struct ui_status *);

enum { UI_SEARCHED = -2 }; /* value of ui_document.first */
struct ui_document {
	const char *name, *text;
	size_t n;
	uint64_t bytes;
	/* first: index of the document's first token; -1 = not prefilled yet; UI_SEARCHED = only passages that a
	 * search finds are prefilled */
	int32_t tokens, first;
	const struct mark *mark;
	/* mark[n_mark]: page and heading marks; if n_mark is 0, form feeds separate pages and '#' begins headings */
	size_t n_mark;
};
void ui_documents(struct ui *, const struct ui_document *, size_t n);

/* Post the sources of an answer, at most UI_SOURCES. They are numbered as in the answer: a click on "[1]" opens source
 * 1, F7 opens the next source. question: number of the answered message; SIZE_MAX = the last question. share: the
 * source's share of the answer's attention; the documents pane shades it accordingly; < 0 = unknown. */
enum { UI_SOURCES = 13, UI_SOURCE_NAME = 64 };
#define SOURCE_GONE "source [%zu]: '%.60s' is not among the documents any more, or has another text"
struct ui_source {
	/* bytes [from, to) of the posted text of `document`, an index. document = SIZE_MAX: the document was removed;
	 * only its name is known */
	size_t document, from, to;
	char name[UI_SOURCE_NAME]; /* name of the document */
	int sent;                  /* 1: the source was sent to the model */
	float share;
};
void ui_sources(struct ui *, size_t question, const struct ui_source *, size_t n);

struct ui_session {
	/* snippet: for a match of UI_FIND, the text around it, with \x01 and \x02 around found words; else "" */
	int64_t id;
	const char *name, *title, *model, *snippet;
	int64_t used;
	int32_t messages, tokens;
	uint64_t kv_bytes;
	double seconds; /* seconds of prefill before the session can continue: 0 = none; < 0 = unknown */
	int here;       /* 1: the session on the screen */
	/* pid of another process that writes the session; -1 = its pid is unknown; 0 = no other process writes it */
	long writer;
	int near; /* 1: some of the session's saved KV entries are near copies (4 bits a value), which are not exact */
};
void ui_sessions(struct ui *, const struct ui_session *, size_t n, int64_t now); /* now: seconds since 1970 */
void ui_preview(struct ui *, int64_t id, const char *text, size_t n);
/* append the queued messages and the draft, line by line */
void ui_unsent(const struct ui *, struct str *out);
/* Replace the text of the input line; what was typed there moves to the history. */
void ui_draft(struct ui *, const char *text, size_t n);
/* Show a text over the transcript until Esc. */
void ui_open_text(struct ui *, const char *title, const char *text, size_t n);
/* show a message such as "copied 34 bytes" in the status row for some seconds */
void ui_say(struct ui *, const char *text);

/* Functions for commands of the user. Their text parameter is the argument of the command. */
void ui_open_help(struct ui *, const char *words); /* scroll to the first place with these words */
/* Append the text of the help pane, in lines of at most 80 columns. */
void ui_help_text(const struct ui_command *, struct str *out);
void ui_open_sessions(struct ui *);
#define DELETE_UNDO 10.0
/* ask for confirmation in the open list of sessions */
void ui_ask_delete(struct ui *, int64_t session);
void ui_edit(struct ui *, const char *text); /* request UI_EDITOR for a text; "" = for the draft in the input line */
/* Open the documents pane. where: "" = at the place shown last; else "p12", "40%" or words to find. */
void ui_open_documents(struct ui *, const char *where);
/* Open the documents pane at bytes [from, to) of a document's posted text, which are highlighted like a match. */
void ui_show_document(struct ui *, size_t document, size_t from, size_t to);
void ui_open_panel(struct ui *, const char *how); /* how: "", "off", "bar", "full", "layer 12" */
/* search the transcript; returns the number of matches */
int ui_search(struct ui *, const char *words);
/* Copy what `what` names, by requesting UI_COPY: "" = the last message, "3" = message 3, "code" = the last
 * code block, "code 2" = the code block before it, "all" = all messages. */
int ui_copy(struct ui *, const char *what, struct err *);
int ui_theme(struct ui *, const char *name, struct err *); /* name: "" = the next theme */
void ui_raw(struct ui *, int on);   /* on: 1 = show answers as received, 0 = as Markdown; < 0: toggle */
void ui_mouse(struct ui *, int on); /* on: 1 = use the mouse, 0 = leave it to the terminal; < 0: toggle */

/* ---- the figures of the cache (pane_cache.c) ---- */

enum { UI_COLS = 256, UI_LAYERS = 128, UI_COL_TEXT = 96, UI_REGIONS = 12, UI_FLOWS = 8 };
struct ui_region {
	char letter;      /* 's' sinks, 'p' pinned prefix, '1', '2', ... rings */
	const char *name; /* "sinks", "prefix", "ring 1" */
	/* fill: tokens in the region. slots: its capacity; 0 = the region is limited only by the cache */
	int32_t fill, slots;
	int32_t stride;      /* one token in `stride` enters the region, or all if `stride` is 0 */
	int32_t first, last; /* index of the oldest and of the newest token in the region; -1 = empty */
	float share;         /* current share of the attention mass; < 0 = not observed */
};
/* One recent event of a token: the token entered a ring (a queue of cache slots), moved on to the ring of older tokens,
 * or was evicted. mass: running average of the attention to the token; 0 = not observed. */
struct ui_flow {
	enum ui_flow_what { FLOW_IN, FLOW_MOVED, FLOW_OUT } what;
	int ring;
	int32_t token;
	float mass;
	char text[48];
};
struct ui_cache {
	/* NULL, or a text that says why there are no figures */
	const char *none;
	const char *kv;
	int32_t seen, kept, evicted, thinned, ctx;
	uint64_t bytes, bytes_most; /* bytes of the cache. bytes: used now. bytes_most: used when the cache is full */
	/* fetched: bytes that generating a token reads from disk. overlap: share of the token's selected entries
	 * that the previous token had selected, too. < 0 = unknown */
	double fetched;
	float overlap;
	/* if the cache is a file on disk: how many of its bytes are in memory; 0 = the whole cache is in memory */
	uint64_t resident;
	struct ui_region region[UI_REGIONS];
	int n_region;
	int cols;                /* number of columns of the arrays below */
	int32_t per_col;         /* tokens of the sequence per column */
	const uint8_t *kept_col; /* [cols] share of KV entries kept; 255 = all, 0 = none */
	/* [cols] index into region[]: the region that has the majority of the column's tokens; 255 = the tokens are
	 * evicted */
	const uint8_t *where_col;
	/* what heat[] shows. MASS: a running average of attention mass; SELECTED: the share of KV heads that selected
	 * the token */
	enum ui_heat { HEAT_NONE, HEAT_MASS, HEAT_SELECTED } heat_is;
	int n_layer;
	const uint8_t *heat;                 /* [n_layer][cols] values of the heat map, 0 to 255 */
	const char (*text_col)[UI_COL_TEXT]; /* [cols] words of each column, cut to fit; NULL = unknown */
	/* entries per KV head that were read for the last token; 0 = all, < 0 = unknown */
	int32_t selected;
	/* number of layers that made a new selection for the last token; < 0 = this policy never reuses a
	 * selection */
	int32_t refreshed;
	/* How many tokens are generated with one selection. stride: mean over the layers. stride_of[i]: for layer i. 0
	 * = no selection was made, or the policy makes a new one for each token. */
	float stride, stride_of[UI_LAYERS];
	/* cosine similarity of the current query and the query that made the selection; < -1 = unknown */
	float cosine;
	/* share of the attention that is still on the old selection when a layer replaces it; < 0 = unknown */
	float recovered;
	/* estimated share of the last token's attention that is on the selected entries; < 0 = unknown */
	float estimated;
	/* sampled: number of entries per KV head that were read as a random sample of the entries not selected; 0 = no
	 * sample. spread: standard error of `estimated`; < 0 = unknown */
	int32_t sampled;
	float spread;
	struct ui_flow flow[UI_FLOWS];
	int n_flow;                          /* flow[n_flow]: oldest first */
	float in_rate, moved_rate, out_rate; /* tokens a second */
	/* documents in the cache. first: index of the document's first token. n: number of its tokens */
	struct {
		int32_t first, n;
		const char *name;
	} mark[8];
	int n_mark;
	double seconds; /* seconds that computing these figures took */
	double every;   /* seconds between two reports; 0 = unknown */
};
/* Post the cache figures, a few times a second while UI_PANEL asks for them. */
void ui_cache(struct ui *, const struct ui_cache *);
/* Post which parts of a text are in the KV cache, as adjacent byte ranges. A range begins where the previous one ends,
 * and ends before byte `end`. `kept` is the share of the KV heads that keep the range: 255 = all; 0 = none, so the
 * range is evicted. `part` is 1 + index in ui_cache.region of the region that has the largest part of the range; 0 =
 * unknown. */
struct ui_span {
	uint32_t end;
	uint8_t kept, part;
};
/* For the text of message i, `which` is i. For the text of document i, `which` is -1 - i. */
void ui_lens(struct ui *, int which, const struct ui_span *, size_t n);
/* Post which parts of a growing file's text are in the KV cache. The first range begins at byte `from`; earlier
 * text is evicted. */
void ui_text_lens(struct ui *, size_t from, const struct ui_span *, size_t n);
/* Post how surprising the sentences of a growing file's text are to the model. The first range begins at byte `from`;
 * the levels of earlier text do not change. In these ranges, ui_span.kept is the level of surprise, from 0 (usual) to
 * 3. */
void ui_text_heat(struct ui *, size_t from, const struct ui_span *, size_t n);

/* Underline those words of the last answer that are numbers or names missing in its sources. In the string `words`, a
 * newline follows each word. */
void ui_underline(struct ui *, const char *words);

/* ---- a terminal (display.c) ---- */

struct display;
/* If `color` is 1, use colours. If ask_background is 1, ask the terminal for its background colour; the answer arrives
 * as the key K_BACKGROUND. */
struct display_options {
	int color;
	int ask_background;
	/* 1: begin inline, on the normal screen. display_open() returns ERR_FAIL if the terminal cannot show inline
	 * grids. */
	int inlined;
};
const char *display_library(void); /* returns the version in use: "ncurses 6.4.20221231" */
/* Open the terminal fd. Returns ERR_FAIL if it cannot show a full screen (TERM is dumb or unknown). */
int display_open(struct display **, int fd, const struct display_options *, struct err *);
/* Restore the terminal's previous state. */
void display_close(struct display *);
void display_size(struct display *, int *w, int *h); /* get the terminal's size */
/* Write the changed cells. An inline grid (grid.flows) is written on the normal screen, below the earlier grids. Any
 * other grid is written on the alternate screen. Returns 1; 0 = nothing was written, because the terminal now has
 * another size. */
int display_show(struct display *, const struct grid *);
void display_repaint(struct display *); /* the next display_show() draws everything */
void display_pause(struct display *);   /* restore the terminal for Ctrl-Z and editors */
void display_resume(struct display *);
void display_mouse(struct display *, int on);
int display_theme(struct display *, const char *name); /* returns -1: no such theme */
/* Copy text to the clipboard by the control sequence OSC 52. Returns -1 if the text has more than 100 KB as base64. */
int display_copy(struct display *, const char *text, size_t n);
/* 1 if the terminal shows UTF-8, 0 if only ASCII works */
int display_utf8(const struct display *);
int display_colors(const struct display *); /* returns the number of usable colours; 0 = none */
/* For an inline ui: erase the rows that the terminal would wrap again when its size changes. The next display_show()
 * writes them again. */
void display_hide(struct display *);
int display_can_flow(const struct display *); /* 1 if the terminal can show inline grids */
/* Return the escape sequences that reset the terminal. The string stays valid until the program ends; signal handlers
 * may write it to the terminal. */
const char *display_reset(void);
/* 1 if a terminal of that name can show the full screen. */
int display_usable(const char *term);

#endif
