/* ui/ui.h - the interface of the full screen. The application passes in keys and what to show; the ui draws a grid of
 * cells and returns the user's requests. Also declared here: the terminal that shows the grid (screen/display.c), and
 * the input history, which line mode shares (input/input_history.c). */
#ifndef WEIR_UI_H
#define WEIR_UI_H

#include "sessions/import/import.h"

enum clean_flags {
	CLEAN_LINE = 1, /* treat the text as one line: show newlines and tabs as ^J and ^I */
	CLEAN_SHOW = 2, /* show invisible characters as <U+200B>; without this flag they are dropped */
};
#define CLEAN_MARKS_MAX 4 /* maximum number of combining marks on one base character */

/* ---- words that were not typed (untyped.c) ---- */

/* Remember the words after an @ in a text that was not typed, but pasted or read from an editor or a file. If a message
 * then has such a word, @FILE stays text and the file is not read. Thread-safe. */
void untyped_note(const char *text, size_t n);
/* 1 if the word, without its @, was remembered. */
int untyped_has(const char *word, size_t n);
/* 1 if the text contains a word that may name a file and was not typed (untyped_note()). Such a text is not saved in
 * the history: a later run of weir would not know that the word was pasted, and would read the file. */
int untyped_names_file(const char *text, size_t n);

/* ---- the input history (input_history.c): one file, shared by all running weir processes ---- */

enum { HISTORY_MAX = 2000 };
typedef void history_fn(const char *text, size_t n, void *ud);
/* Call the function for the last HISTORY_MAX entries, oldest first. If the file does not exist, create it with mode
 * 0600. Returns -1 if the file cannot be used. */
int history_load(const char *path, history_fn *, void *ud);
/* Append an entry. Errors are ignored. Some entries are not saved: entries of more than 1 MiB, entries with pasted file
 * names (untyped_names_file()), and the commands /remember and /memory. */
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

/* What happens to a command that the user sends during other work, such as an answer. ALLOWED: it runs at once; LOOKS:
 * it runs at once if it has no argument, else it is queued; QUEUED: it is queued; REFUSED: an error is shown. */
enum ui_busy { BUSY_ALLOWED, BUSY_LOOKS, BUSY_QUEUED, BUSY_REFUSED };
struct ui_command {
	/* `name` is the command, such as "/undo"; `aliases` has its other names, separated by blanks */
	const char *name, *aliases;
	const char *args, *help;
	enum ui_busy busy;
	/* what completion offers as the argument of the command */
	enum ui_arg { ARG_NONE, ARG_FILE, ARG_SESSION, ARG_WORD, ARG_SETTING } arg;
	/* synonyms for the search in the palette; a synonym that begins with a slash is also a hidden alias of the
	 * command */
	const char *words;
};
/* A setting that completion offers as an argument of kind ARG_SETTING. `name` is the name of the setting, such as
 * "docs". `values` lists its values, such as "auto|whole|passages"; "" = any value. `help` is a description of one
 * line. */
struct ui_setting {
	const char *name, *values, *help;
};

struct ui_options {
	int w, h;
	const struct ui_command *commands; /* the last one has name = NULL; they must outlive the ui */
	/* the last one has name = NULL; they must outlive the ui; NULL: there are no settings */
	const struct ui_setting *settings;
	const char *history; /* path of the history file, or NULL */
	int ascii;           /* 1: draw with ASCII characters only */
	int color;           /* 1: the terminal has colours */
	int utc;             /* 1: show times of day in UTC (for tests) */
	int inlined;         /* 1: begin in the inline form, as after ui_inline() */
};
int ui_open(struct ui **, const struct ui_options *, struct err *);
void ui_close(struct ui *);

/* Handle bytes from the terminal. `now` is the time of the monotonic clock in seconds. */
void ui_feed(struct ui *, const char *bytes, size_t n, double now); /* bytes from the terminal */
void ui_resize(struct ui *, int w, int h); /* makes the screen dirty, even if the size is the same */
void ui_tick(struct ui *, double now);
/* returns the time at which ui_tick() must be called next; 0 = there is no such time */
double ui_wake(const struct ui *);
int ui_dirty(const struct ui *); /* 1 if ui_draw() may draw something else than at its last call */
const struct grid *ui_draw(struct ui *, double now);
/* Set whether the ui is inline (on = 1) or uses the whole screen (on = 0). In an inline ui, the conversation scrolls
 * into the terminal's own scrollback. Only the rows below it are redrawn: unfinished text, the input line, status,
 * cache, keys. A pane or a scrolled transcript still takes the whole screen. */
void ui_inline(struct ui *, int on);
int ui_is_inline(const struct ui *);
/* Tell the ui that the terminal has shown the grid of the last ui_draw(). The final rows of this grid are then not
 * drawn again. `above` is what display_above() returns, or 0 without a display. */
void ui_shown(struct ui *, int above);
/* Call this before an inline ui is closed. Closes panes, the search and the popup and empties the input line, so that
 * the next ui_draw() has the whole conversation. */
void ui_finish(struct ui *);
/* Append the screen as text, one line per row. For with_styles, see grid_dump(). */
void ui_dump(struct ui *, double now, int with_styles, struct str *out);

/* Requests to the application. */
enum ui_what {
	UI_SEND, /* run `text`, a message or /command from the user */
	UI_STOP, /* stop the current answer, or stop reading a document */
	UI_QUIT,
	UI_SUSPEND, /* Ctrl-Z */
	UI_REPAINT, /* the user pressed Ctrl-L: redraw everything */
	UI_EDITOR,  /* let the user edit the draft `text` in an editor, and post the result with ui_draft() */
	UI_COPY,    /* copy `text` to the clipboard */
	/* the user opened the list of sessions, or cleared its filter: call ui_sessions() with all sessions */
	UI_LIST,
	UI_PREVIEW, /* post the last messages of session `id` */
	/* continue session `id`; if `text` is not empty, first wait until no other process writes the session */
	UI_SWITCH,
	UI_RENAME, /* rename session `id` to `text` */
	UI_FORK,   /* copy session `id` */
	/* delete session `id`; the user has confirmed it, but UI_UNDELETE can restore the session for DELETE_UNDO
	 * seconds */
	UI_DELETE,
	UI_UNDELETE, /* restore session `id`, which was deleted last */
	UI_FIND,     /* search all sessions for the words in `text`, and call ui_sessions() with the matches */
	/* post cache figures; on = 0: none; on = 1: the figures of the bar or side panel; on = 2: all figures */
	UI_PANEL,
	/* use the mouse (`on` is 1) or leave it to the terminal (`on` is 0); if `id` is 1, also save this as the user's
	 * setting */
	UI_MOUSE,
	UI_THEME, /* use the theme whose name is `text` */
};
struct ui_action {
	enum ui_what what;
	const char *text;
	size_t n;
	int64_t id;
	int on;
};
/* Take the next request. Returns 1, or 0 if no request is left. out->text is valid until the next call of any ui
 * function. */
int ui_action(struct ui *, struct ui_action *out);

/* ---- what the application posts ---- */

/* UI_TEXT is for a part of the text of a growing file, see ui_text() */
enum ui_role { UI_USER, UI_ASSISTANT, UI_NOTICE, UI_ERROR, UI_TEXT };
void ui_clear(struct ui *); /* empty the transcript, before the entries of another one are posted */
size_t ui_entry(struct ui *, enum ui_role, const char *text, size_t n); /* append an entry; returns its index */
/* append bytes to the last entry; a character may be split between two calls */
void ui_piece(struct ui *, const char *bytes, size_t n);
/* Complete the last entry. `note` is a line to show below the entry, such as "[120 tokens, 90 t/s]", or NULL. */
void ui_entry_end(struct ui *, const char *note);

/* Append an entry for the text of a growing file, from byte `at` of the file's text on. If `begins` is 1, the text does
 * not continue the text of earlier entries. */
void ui_text(struct ui *, size_t at, int begins);
void ui_cut(struct ui *, size_t n); /* remove all entries after the first n messages, including notices */
/* Tell that only the first n messages still belong to the conversation. Later messages stay visible but are no longer
 * counted. */
void ui_messages_end(struct ui *, size_t n);

/* Report the work in progress, after each change. `verb` names the work, such as "reading", "answering" or "saving". If
 * `verb` is NULL, there is no work, so the next queued message is sent. */
struct ui_work {
	/* The work has `total` tokens, of which `done` are finished. `had` of the finished tokens were in the KV cache
	 * before the work began. `left` is the estimated number of seconds until the work ends; < 0 = unknown. */
	const char *verb;
	int64_t done, total, had;
	double tps, left;
	int open; /* 1: a message that the user enters during this work is sent at once, not queued */
};
void ui_work(struct ui *, const struct ui_work *);

struct ui_status {
	/* `session` is the name of the session; "" = there is no session yet; NULL = the conversation is private and
	 * not saved */
	const char *model, *session, *kv;
	/* Numbers of tokens: `seen` in the sequence, `kept` in the cache. `ctx` is the capacity of the cache. */
	int32_t seen, kept, ctx;
	/* `evicted` counts the tokens evicted in all layers and KV heads. `thinned` counts those evicted in only some
	 * of them. */
	int32_t evicted, thinned;
	double tps; /* decode speed of the last or current answer; 0 = none yet */
	/* kv_bytes is the size of the KV cache, and `memory` the memory of the process, both in bytes */
	uint64_t kv_bytes, memory;
};
void ui_status(struct ui *, const struct ui_status *);

enum { UI_SEARCHED = -2 }; /* a value for ui_document.first */
struct ui_document {
	const char *name, *text;
	size_t n;
	uint64_t bytes;
	/* `first` is the index of the document's first token; -1 = the document is not prefilled yet; UI_SEARCHED =
	 * only passages that a search finds are prefilled */
	int32_t tokens, first;
	const struct mark *mark;
	/* mark[n_mark] has the page and heading marks; if n_mark is 0, form feeds separate pages and '#' begins
	 * headings */
	size_t n_mark;
};
void ui_documents(struct ui *, const struct ui_document *, size_t n);

/* Post the sources of an answer, at most UI_SOURCES. They are numbered as in the answer: a click on "[1]" opens source
 * 1, F7 opens the next source. `question` is the number of the message that was answered; SIZE_MAX = the last question.
 * `share` is the source's share of the answer's attention, by which the documents pane shades the source; < 0 =
 * unknown. */
enum { UI_SOURCES = 13, UI_SOURCE_NAME = 64 };
#define SOURCE_GONE "source [%zu]: '%.60s' is not among the documents any more, or has another text"
struct ui_source {
	/* The source is bytes [from, to) of the posted text of the document with index `document`. If `document` is
	 * SIZE_MAX, the document was removed, and only its name is known. */
	size_t document, from, to;
	char name[UI_SOURCE_NAME]; /* name of the document */
	int sent;                  /* 1: the source was sent to the model */
	float share;
};
void ui_sources(struct ui *, size_t question, const struct ui_source *, size_t n);

struct ui_session {
	/* `snippet` is, for a match of UI_FIND, the text around the match, with \x01 and \x02 around the found words;
	 * else "" */
	int64_t id;
	const char *name, *title, *model, *snippet;
	int64_t used;
	int32_t messages, tokens;
	uint64_t kv_bytes;
	/* number of seconds of prefill before the session can continue; 0 = none are needed, < 0 = unknown */
	double seconds;
	int here; /* 1: this is the session on the screen */
	/* pid of another process that writes the session; -1 = its pid is unknown; 0 = no other process writes it */
	long writer;
	int near; /* 1: some of the session's saved KV entries are near copies (4 bits a value), which are not exact */
};
/* `now` is the time in seconds since 1970 */
void ui_sessions(struct ui *, const struct ui_session *, size_t n, int64_t now);
void ui_preview(struct ui *, int64_t id, const char *text, size_t n);
/* append the queued messages and the draft, line by line */
void ui_unsent(const struct ui *, struct str *out);
/* Replace the text of the input line. The old text of the line moves to the history. */
void ui_draft(struct ui *, const char *text, size_t n);
/* Show a text over the transcript until the user presses Esc. */
void ui_open_text(struct ui *, const char *title, const char *text, size_t n);
/* show a message such as "copied 34 bytes" in the status row for some seconds */
void ui_say(struct ui *, const char *text);

/* Functions for commands of the user. Their text parameter is the argument of the command. */
/* open the help pane, and scroll to the first place with these words */
void ui_open_help(struct ui *, const char *words);
/* Append the text of the help pane, in lines of at most 80 columns. */
void ui_help_text(const struct ui_command *, struct str *out);
void ui_open_sessions(struct ui *);
#define DELETE_UNDO 10.0
/* ask whether to delete this session, in the list of sessions */
void ui_ask_delete(struct ui *, int64_t session);
void ui_edit(struct ui *, const char *text); /* request UI_EDITOR for a text; "" = for the draft in the input line */
/* Open the documents pane. If `where` is "", it shows the place that it showed last. Otherwise `where` is a place such
 * as "p12" or "40%", or words to find. */
void ui_open_documents(struct ui *, const char *where);
/* Open the documents pane at bytes [from, to) of a document's posted text, which are highlighted like a match. */
void ui_show_document(struct ui *, size_t document, size_t from, size_t to);
void ui_open_panel(struct ui *, const char *how); /* `how` is "", "off", "bar", "full" or "layer 12" */
/* search the transcript; returns the number of matches */
int ui_search(struct ui *, const char *words);
/* Request UI_COPY for the text that `what` names: "" = the last message, "3" = message 3, "code" = the last
 * code block, "code 2" = the code block before it, "all" = all messages. */
int ui_copy(struct ui *, const char *what, struct err *);
int ui_theme(struct ui *, const char *name, struct err *); /* use the theme with this name; "" = the next theme */
/* `on` is 1 to show answers as received, 0 to show them as Markdown, and < 0 to toggle */
void ui_raw(struct ui *, int on);
void ui_mouse(struct ui *, int on); /* `on` is 1 to use the mouse, 0 to leave it to the terminal, and < 0 to toggle */

/* ---- the figures of the cache (pane_cache.c) ---- */

enum { UI_COLS = 256, UI_LAYERS = 128, UI_COL_TEXT = 96, UI_REGIONS = 12, UI_FLOWS = 8 };
struct ui_region {
	char letter;      /* 's' for sinks, 'p' for the pinned prefix, '1', '2', ... for rings */
	const char *name; /* name of the region: "sinks", "prefix", "ring 1" */
	/* `fill` is the number of tokens in the region; `slots` is the region's capacity, 0 = it is limited only by the
	 * size of the cache */
	int32_t fill, slots;
	int32_t stride;      /* one token in `stride` enters the region, or all if `stride` is 0 */
	int32_t first, last; /* index of the oldest token in the region, and of the newest; -1 = the region is empty */
	float share;         /* the region's current share of the attention mass; < 0 = not observed */
};
/* One recent event of a token: the token entered a ring (a queue of cache slots), moved on to the ring of older tokens,
 * or was evicted. `mass` is a running average of the attention to the token; 0 = not observed. */
struct ui_flow {
	enum ui_flow_what { FLOW_IN, FLOW_MOVED, FLOW_OUT } what;
	int ring;
	int32_t token;
	float mass;
	char text[48];
};
struct ui_cache {
	/* a text that says why there are no figures; NULL = there are figures */
	const char *none;
	const char *kv;
	int32_t seen, kept, evicted, thinned, ctx;
	/* `bytes` is the number of bytes of the cache that are used now; bytes_most is the number that is used when the
	 * cache is full */
	uint64_t bytes, bytes_most;
	/* `fetched` is the number of bytes that generating a token reads from disk. `overlap` is the share of the
	 * token's selected entries that the previous token had selected, too. < 0 = unknown */
	double fetched;
	float overlap;
	/* if the cache is a file on disk: how many of its bytes are in memory; 0 = the whole cache is in memory */
	uint64_t resident;
	struct ui_region region[UI_REGIONS];
	int n_region;
	int cols;                /* number of columns of the arrays below */
	int32_t per_col;         /* number of tokens of the sequence for each column */
	const uint8_t *kept_col; /* [cols] share of the KV entries that are kept; 255 = all, 0 = none */
	/* [cols] index into region[]: the region that has the majority of the column's tokens; 255 = the tokens are
	 * evicted */
	const uint8_t *where_col;
	/* what the values of heat[] are. MASS: a running average of attention mass; SELECTED: the share of KV heads
	 * that selected the token */
	enum ui_heat { HEAT_NONE, HEAT_MASS, HEAT_SELECTED } heat_is;
	int n_layer;
	const uint8_t *heat;                 /* [n_layer][cols] values of the heat map, 0 to 255 */
	const char (*text_col)[UI_COL_TEXT]; /* [cols] the words of each column, truncated to fit; NULL = unknown */
	/* number of entries per KV head that were read for the last token; 0 = all entries, < 0 = unknown */
	int32_t selected;
	/* number of layers that made a new selection for the last token; < 0 = this policy never reuses a
	 * selection */
	int32_t refreshed;
	/* For how many generated tokens one selection is used. `stride` is the mean over the layers, and stride_of[i]
	 * the number for layer i. 0 = no selection was made, or the policy makes a new selection for each token. */
	float stride, stride_of[UI_LAYERS];
	/* cosine similarity of the current query and the query that made the selection; < -1 = unknown */
	float cosine;
	/* share of the attention that is still on the old selection of a layer when the layer replaces it; < 0 =
	 * unknown */
	float recovered;
	/* estimated share of the last token's attention that is on the selected entries; < 0 = unknown */
	float estimated;
	/* `sampled` is the number of entries per KV head that were read as a random sample of the entries that were not
	 * selected; 0 = there is no sample. `spread` is the standard error of `estimated`; < 0 = unknown. */
	int32_t sampled;
	float spread;
	struct ui_flow flow[UI_FLOWS];
	int n_flow;                          /* flow[n_flow] has the events, the oldest first */
	float in_rate, moved_rate, out_rate; /* numbers of tokens per second */
	/* The documents in the cache. `first` is the index of the document's first token, and `n` the number of its
	 * tokens. */
	struct {
		int32_t first, n;
		const char *name;
	} mark[8];
	int n_mark;
	double seconds; /* number of seconds that computing these figures took */
	double every;   /* number of seconds between two reports; 0 = unknown */
};
/* Post the cache figures, a few times a second while UI_PANEL asks for them. */
void ui_cache(struct ui *, const struct ui_cache *);
/* Post which ranges of a text are in the KV cache. The ranges are adjacent. A range begins where the previous one ends,
 * and ends before byte `end`. `kept` is the share of the KV heads that keep the range: 255 = all; 0 = none, so the
 * range is evicted. `part` is 1 + index in ui_cache.region of the region that has the largest part of the range; 0 =
 * unknown. */
struct ui_span {
	uint32_t end;
	uint8_t kept, part;
};
/* For the text of message i, `which` is i. For the text of document i, `which` is -1 - i. */
void ui_lens(struct ui *, int which, const struct ui_span *, size_t n);
/* Post which ranges of a growing file's text are in the KV cache. The first range begins at byte `from`; the text
 * before it is evicted. */
void ui_text_lens(struct ui *, size_t from, const struct ui_span *, size_t n);
/* Post how surprising the sentences of a growing file's text are to the model. The first range begins at byte `from`;
 * the levels of the text before it do not change. In these ranges, ui_span.kept is the level of surprise, from 0
 * (usual) to 3. */
void ui_text_heat(struct ui *, size_t from, const struct ui_span *, size_t n);

/* Underline words of the last answer: its numbers and names that its sources do not have. In the string `words`, a
 * newline follows each word. */
void ui_underline(struct ui *, const char *words);

/* ---- a terminal (display.c) ---- */

struct display;
/* If `color` is 1, use colours. If ask_background is 1, ask the terminal for its background colour; the answer arrives
 * as the key K_BACKGROUND. */
struct display_options {
	int color;
	int ask_background;
	/* 1: begin in the inline form, on the normal screen. display_open() returns ERR_FAIL if the terminal cannot
	 * show inline grids. */
	int inlined;
};
const char *display_library(void); /* returns the version of the curses library in use: "ncurses 6.4.20221231" */
/* Open the terminal fd. Returns ERR_FAIL if it cannot show a full screen (TERM is dumb or unknown). */
int display_open(struct display **, int fd, const struct display_options *, struct err *);
/* Restore the terminal's previous state. */
void display_close(struct display *);
void display_size(struct display *, int *w, int *h); /* get the terminal's size */
/* Write the changed cells. An inline grid (grid.flows) is written on the normal screen, below the earlier grids. Any
 * other grid is written on the alternate screen. Returns 1. Returns 0 if nothing was written, because the terminal now
 * has another size. */
int display_show(struct display *, const struct grid *);
void display_repaint(struct display *); /* make the next display_show() draw everything */
/* restore the terminal while the process is stopped (Ctrl-Z), or while an editor runs */
void display_pause(struct display *);
void display_resume(struct display *);
void display_mouse(struct display *, int on);
int display_theme(struct display *, const char *name); /* returns -1 if there is no theme with this name */
/* Copy text to the clipboard by the control sequence OSC 52. Returns -1 if the text has more than 100 KB as base64. */
int display_copy(struct display *, const char *text, size_t n);
/* 1 if the terminal shows UTF-8; 0 if it shows only ASCII */
int display_utf8(const struct display *);
int display_colors(const struct display *); /* returns the number of colours that can be used; 0 = none */
/* For an inline ui: erase the rows that the terminal would wrap again when its size changes. The next display_show()
 * writes these rows again. */
void display_hide(struct display *);
/* For an inline ui: return the number of rows above those of the last grid that the next grid may cover (grid.over). */
int display_above(const struct display *);
int display_can_flow(const struct display *); /* 1 if the terminal can show inline grids */
/* Return the escape sequences that reset the terminal. The string stays valid until the program ends; signal handlers
 * may write it to the terminal. */
const char *display_reset(void);
/* 1 if the terminal type with this name can show the full screen. */
int display_usable(const char *term);

#endif
