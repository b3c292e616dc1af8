/* ui/ui.h - the interface of the full screen.
 *
 *     ui        takes keys, returns actions, shows what is posted; draws into a grid of cells (ui.c)
 *     display   a terminal that shows such a grid (screen/display.c)
 *     history   the input history, one file for the screen and line mode (input/input_history.c) */
#ifndef WEIR_UI_H
#define WEIR_UI_H

#include "sessions/import/import.h"

enum clean_flags {
	CLEAN_LINE = 1, /* one line: show newlines and tabs (^J ^I) instead of keeping them */
	CLEAN_SHOW = 2, /* show hidden characters as <U+200B> instead of dropping them */
};
#define CLEAN_MARKS_MAX 4 /* most combining marks on one base character */

/* ---- words that were not typed (untyped.c) ---- */

/* Remember the words after an @ in text that enters the input line by a paste, an editor or a file.  Any thread. */
void untyped_note(const char *text, size_t n);
/* 1 if word, given without its @, was remembered. */
int untyped_has(const char *word, size_t n);
/* 1 if text contains a remembered word that may name a file. Such text is not saved in the history, because a later
 * run would take the word for typed. */
int untyped_names_file(const char *text, size_t n);

/* ---- the input history (input_history.c): one file for the screen, line mode and other running weirs ---- */

enum { HISTORY_MAX = 2000 };
typedef void history_fn(const char *text, size_t n, void *ud);
/* Call back for the last HISTORY_MAX entries, oldest first.  Creates the file with mode 0600 in an existing
 * directory.  -1: file unusable. */
int history_load(const char *path, history_fn *, void *ud);
/* Append an entry, unless it is longer than 1 MiB or untyped_names_file(text, n).  Errors are ignored. */
void history_append(const char *path, const char *text, size_t n);
/* Shrink a larger file to HISTORY_MAX entries and at most 16 MiB. */
void history_trim(const char *path);

/* ---- the full screen (ui.c) ----
 *
 * The application posts messages, figures and lists, feeds bytes from the terminal, and takes actions until none is
 * left. Nothing here blocks, starts threads or uses the engine. Posted text may be hostile: it is copied, cleaned for
 * display, and kept unchanged for the clipboard. One ui per process, because readline's state is global; one thread. */

struct ui;
struct grid;

/* What happens to a command while an answer is generated or a document is read: run at once; run at once if it has
 * no argument, else queued; queued; refused. */
enum ui_busy { BUSY_ALLOWED, BUSY_LOOKS, BUSY_QUEUED, BUSY_REFUSED };
struct ui_command {
	const char *name, *aliases; /* "/undo"; aliases: separated by blanks */
	const char *args, *help;
	enum ui_busy busy;
	/* what completion offers as the argument */
	enum ui_arg { ARG_NONE, ARG_FILE, ARG_SESSION, ARG_WORD, ARG_SETTING } arg;
	const char *words; /* search words for the palette; a word with a slash is an unlisted alias */
};
/* Completion of ARG_SETTING: a name, then one of its values. */
struct ui_setting {
	const char *name, *values, *help; /* "docs"; "auto|whole|passages", or "" = any value; one line */
};

struct ui_options {
	int w, h;
	const struct ui_command *commands; /* ends with name = NULL; must outlive the ui */
	const struct ui_setting *settings; /* likewise, or NULL */
	const char *history;               /* path of the history file, or NULL */
	int ascii;                         /* 1: draw with ASCII only */
	int color;                         /* 1: the terminal has colours */
	int utc;                           /* 1: show times of day in UTC (tests) */
};
int ui_open(struct ui **, const struct ui_options *, struct err *);
void ui_close(struct ui *);

/* now: seconds of the monotonic clock. */
void ui_feed(struct ui *, const char *bytes, size_t n, double now); /* bytes from the terminal */
void ui_resize(struct ui *, int w, int h);
void ui_tick(struct ui *, double now);
double ui_wake(const struct ui *); /* time of the next ui_tick(); 0 = none needed */
int ui_dirty(const struct ui *);   /* 1 if ui_draw() would draw something else than last time */
const struct grid *ui_draw(struct ui *, double now);
/* Append the screen as text, h lines. */
void ui_dump(struct ui *, double now, int with_styles, struct str *out);

/* Requests to the application. */
enum ui_what {
	UI_SEND, /* text: a message or a /command; while work runs only commands that may run now */
	UI_STOP, /* stop the answer, or reading */
	UI_QUIT,
	UI_SUSPEND,  /* Ctrl-Z */
	UI_REPAINT,  /* Ctrl-L: redraw everything */
	UI_EDITOR,   /* text: the draft to edit; post the result with ui_draft() */
	UI_COPY,     /* text: to the clipboard */
	UI_LIST,     /* the list of sessions opened or its filter was cleared: post the sessions */
	UI_PREVIEW,  /* id: post that session's last messages */
	UI_SWITCH,   /* id: continue in that session; text not empty: wait until no other process has it open */
	UI_RENAME,   /* id, text */
	UI_FORK,     /* id */
	UI_DELETE,   /* id: the user confirmed; can be undone for DELETE_UNDO seconds */
	UI_UNDELETE, /* id: the one deleted last */
	UI_FIND,     /* text: words to search in all sessions; post the matches with ui_sessions() */
	UI_PANEL,    /* on: figures of the cache to compute: 0 none, 1 those of the bar, 2 all */
	UI_MOUSE,    /* on; id: 1 = make it the user's setting */
	UI_THEME,    /* text: its name */
};
struct ui_action {
	enum ui_what what;
	const char *text;
	size_t n;
	int64_t id;
	int on;
};
/* Take the next request: 1, or 0 = none.  out->text is valid until the next call of any ui function. */
int ui_action(struct ui *, struct ui_action *out);

/* ---- what the application posts ---- */

/* UI_TEXT: part of a text that is read, see ui_text() */
enum ui_role { UI_USER, UI_ASSISTANT, UI_NOTICE, UI_ERROR, UI_TEXT };
void ui_clear(struct ui *); /* empty the transcript before another is posted */
size_t ui_entry(struct ui *, enum ui_role, const char *text, size_t n); /* append an entry: a message or a notice */
/* append to the last entry; may be cut between any two bytes */
void ui_piece(struct ui *, const char *bytes, size_t n);
/* the last entry is complete; note: "[120 tokens, 90 t/s]", or NULL */
void ui_entry_end(struct ui *, const char *note);

/* Append an entry for the text that is read, from its byte `at` on.  begins: 1 if it does not continue the last
 * such entry. */
void ui_text(struct ui *, size_t at, int begins);
void ui_cut(struct ui *, size_t n); /* remove everything after message n, notices too */
/* number only the first n messages from now on; the others stay */
void ui_messages_end(struct ui *, size_t n);

/* Work in progress.  verb: "reading", "answering", "saving", ...; NULL = none, so queued messages are sent.  Post
 * every change. */
struct ui_work {
	/* had: tokens of done that were cached; left: seconds, < 0 = unknown */
	const char *verb;
	int64_t done, total, had;
	double tps, left;
	int open; /* 1: messages interrupt the work; they are sent at once, not queued */
};
void ui_work(struct ui *, const struct ui_work *);

struct ui_status {
	const char *model, *session, *kv; /* session: "" = not started; NULL = private, not saved */
	int32_t seen, kept, ctx;          /* tokens; ctx: the cache's capacity */
	int32_t evicted, thinned;
	double tps;                /* decode speed of the last or running answer; 0 = none yet */
	uint64_t kv_bytes, memory; /* bytes; memory: of the process */
};
void ui_status(struct ui *, const struct ui_status *);

enum { UI_SEARCHED = -2 }; /* only passages of it are read */
struct ui_document {
	const char *name, *text;
	size_t n;
	uint64_t bytes;
	int32_t tokens, first; /* first: index of its first token; -1 = not read yet, or UI_SEARCHED */
	const struct mark *mark;
	size_t n_mark; /* pages and headings; if none, form feeds and '#' mark them */
};
void ui_documents(struct ui *, const struct ui_document *, size_t n);

/* Post the sources of an answer, numbered as in its text, at most UI_SOURCES.  question: number of the message
 * that it answers, SIZE_MAX = the last question.  F7 opens the sources of the visible answer one after another; a
 * click on "[1]" opens that one.  The documents' text is shaded by share: the source's share of the answer's
 * attention, < 0 = unknown. */
enum { UI_SOURCES = 13, UI_SOURCE_NAME = 64 };
#define SOURCE_GONE "source [%zu]: '%.60s' is not among the documents any more, or has another text"
struct ui_source {
	size_t document, from, to; /* bytes [from, to) of the posted text; document SIZE_MAX = removed, */
	char name[UI_SOURCE_NAME]; /* so only the name is known */
	int sent;                  /* 1: it was sent to the model */
	float share;
};
void ui_sources(struct ui *, size_t question, const struct ui_source *, size_t n);

struct ui_session {
	/* snippet: the match of UI_FIND, \x01 and \x02 around its words; else "" */
	int64_t id;
	const char *name, *title, *model, *snippet;
	int64_t used;
	int32_t messages, tokens;
	uint64_t kv_bytes;
	double seconds; /* seconds of prefill before it can continue: 0 = instant; < 0 = unknown */
	int here;       /* 1: the session on the screen */
	long writer;    /* pid of another process that has it open; -1 = pid unknown, 0 = none */
};
void ui_sessions(struct ui *, const struct ui_session *, size_t n, int64_t now); /* now: seconds since 1970 */
void ui_preview(struct ui *, int64_t id, const char *text, size_t n);
/* append the queued messages and the draft, line by line */
void ui_unsent(const struct ui *, struct str *out);
void ui_draft(struct ui *, const char *text, size_t n); /* replace the text of the input line */
/* show a text over the transcript until Esc */
void ui_open_text(struct ui *, const char *title, const char *text, size_t n);
/* show "copied 34 bytes" in the status row for some seconds */
void ui_say(struct ui *, const char *text);

/* The screen's own commands.  The text is the command's argument. */
void ui_open_help(struct ui *, const char *words); /* at the first place with these words */
/* Append the text of the help pane in lines of at most 80 columns. */
void ui_help_text(const struct ui_command *, struct str *out);
void ui_open_sessions(struct ui *);
#define DELETE_UNDO 10.0
/* ask for confirmation in the open list of sessions */
void ui_ask_delete(struct ui *, int64_t session);
void ui_edit(struct ui *, const char *text);            /* requests UI_EDITOR */
void ui_open_documents(struct ui *, const char *where); /* where: "", "p12", "40%" or words to find */
/* Open the documents pane at bytes [from, to) of a document's posted text, marked like a match. */
void ui_show_document(struct ui *, size_t document, size_t from, size_t to);
void ui_open_panel(struct ui *, const char *how); /* how: "", "off", "bar", "full", "layer 12" */
/* search the transcript; returns the number of matches */
int ui_search(struct ui *, const char *words);
/* what: "", "3", "code", "code 2", "all"; requests UI_COPY */
int ui_copy(struct ui *, const char *what, struct err *);
int ui_theme(struct ui *, const char *name, struct err *); /* "" = the next one */
void ui_raw(struct ui *, int on);                          /* on < 0: toggle */
void ui_mouse(struct ui *, int on);                        /* on < 0: toggle */

/* ---- the figures of the cache (pane_cache.c) ---- */

enum { UI_COLS = 256, UI_COL_TEXT = 96, UI_REGIONS = 12, UI_FLOWS = 8 };
struct ui_region {
	char letter;         /* 's' sinks, 'p' pinned prefix, '1' .. the rings */
	const char *name;    /* "sinks", "prefix", "ring 1" */
	int32_t fill, slots; /* tokens in the region; its capacity, 0 = no limit of its own */
	int32_t stride;      /* one of `stride` tokens enters the region; 0 = all */
	int32_t first, last; /* oldest and newest token in it; -1 = empty */
	float share;         /* share of attention mass now; < 0 = not observed */
};
/* A token entered a ring, moved to a larger ring, or was evicted from one. mass: running average of its attention; 0 =
 * not observed. */
struct ui_flow {
	enum ui_flow_what { FLOW_IN, FLOW_MOVED, FLOW_OUT } what;
	int ring;
	int32_t token;
	float mass;
	char text[48];
};
struct ui_cache {
	/* sentences shown instead of figures: why there are none; NULL = figures follow */
	const char *none;
	const char *kv;
	int32_t seen, kept, evicted, thinned, ctx;
	uint64_t bytes, bytes_most; /* bytes of the cache: in use, at capacity */
	/* bytes a token reads from disk; share of its selection that the token before had selected, too; < 0 =
	 * unknown */
	double fetched;
	float overlap;
	uint64_t resident; /* part of bytes_most in memory while the rest is on disk; 0 = all in memory */
	struct ui_region region[UI_REGIONS];
	int n_region;
	int cols;
	int32_t per_col;          /* columns of the strips below; tokens per column */
	const uint8_t *kept_col;  /* [cols] share of KV entries kept; 255 = all, 0 = none */
	const uint8_t *where_col; /* [cols] index of the region that holds most of the column; 255 = evicted */
	/* not observed; running average of attention mass; share of KV heads that selected the token */
	enum ui_heat { HEAT_NONE, HEAT_MASS, HEAT_SELECTED } heat_is;
	int n_layer;
	const uint8_t *heat;                 /* [n_layer][cols] */
	const char (*text_col)[UI_COL_TEXT]; /* [cols] words of each column, cut to fit; NULL = unknown */
	int32_t selected;                    /* entries per KV head that the last token read; 0 = all, < 0 = unknown */
	/* layers that selected again for the last token; < 0 = this policy never reuses a selection */
	int32_t refreshed;
	float cosine; /* cosine similarity of the queries that a refresh compares; < -1 = unknown */
	/* share of attention on the old selection where a layer selected again; < 0 = unknown */
	float recovered;
	/* share of attention on the entries that were read, estimated by the key sketch; < 0 = unknown */
	float estimated;
	/* entries per KV head sampled for the others, 0 = none; std. error of their share, < 0 = unknown */
	int32_t sampled;
	float spread;
	struct ui_flow flow[UI_FLOWS];
	int n_flow;                          /* oldest first */
	float in_rate, moved_rate, out_rate; /* tokens a second */
	/* documents: first token, number of tokens */
	struct {
		int32_t first, n;
		const char *name;
	} mark[8];
	int n_mark;
	double seconds; /* time to compute these figures */
	double every;   /* seconds between two reports; 0 = unknown */
};
/* Post figures a few times a second while UI_PANEL asks for them. */
void ui_cache(struct ui *, const struct ui_cache *);
/* Post which parts of a text are in the cache, as adjacent spans.  end: byte after the span.  kept: 255 = by all
 * heads, 0 = evicted.  part: index, from 1, of the region that holds most of it; 0 = unknown.  which: number of a
 * message; if < 0, document -1 - which. */
struct ui_span {
	uint32_t end;
	uint8_t kept, part;
};
void ui_lens(struct ui *, int which, const struct ui_span *, size_t n);
/* Post which parts of the text that is read are in the cache. The first span begins at byte `from`; all before it is
 * evicted. */
void ui_text_lens(struct ui *, size_t from, const struct ui_span *, size_t n);
/* Post the surprise of the text that is read, from byte `from` on.  kept is a level: 0 = none, to 3.  Spans posted
 * before stay. */
void ui_text_heat(struct ui *, size_t from, const struct ui_span *, size_t n);

/* ---- a terminal (display.c) ---- */

struct display;
/* color: may be used; ask_background: the terminal's answer comes as a key */
struct display_options {
	int color;
	int ask_background;
};
/* Open the terminal fd, for reading and writing.  ERR_FAIL: it cannot show a full screen (TERM is dumb or
 * unknown); use line mode. */
const char *display_library(void); /* version in use: "ncurses 6.4.20221231" */
int display_open(struct display **, int fd, const struct display_options *, struct err *);
/* Restore the terminal's previous state. */
void display_close(struct display *);
void display_size(struct display *, int *w, int *h);      /* ask the terminal */
void display_show(struct display *, const struct grid *); /* write the changed cells */
void display_repaint(struct display *);                   /* draw everything at the next show */
void display_pause(struct display *);                     /* restore the terminal for Ctrl-Z and editors */
void display_resume(struct display *);
void display_mouse(struct display *, int on);
int display_theme(struct display *, const char *name);          /* -1: no such theme */
int display_copy(struct display *, const char *text, size_t n); /* OSC 52; -1: too long (100 KB of base64) */
int display_utf8(const struct display *);                       /* 0: only ASCII works */
int display_colors(const struct display *);                     /* number of usable colours; 0 = none */
/* Escape sequences that reset any terminal; a constant string, for signal handlers. */
const char *display_reset(void);
/* 1 if a terminal of that name can show the full screen. */
int display_usable(const char *term);

#endif
