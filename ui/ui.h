/* ui/ui.h - the full screen, as app/ sees it.
 *
 *     ui        keys go in, actions come out, what happens is posted, the picture is a grid of cells (ui.c)
 *     display   a terminal that shows such a grid (screen/display.c)
 *     history   the input history, one file for the screen and line mode (input/input_history.c) */
#ifndef WEIR_UI_H
#define WEIR_UI_H

#include "sessions/import/import.h"

enum clean_flags {
	CLEAN_LINE = 1,    /* one line: newlines and tabs are shown (^J ^I), not kept */
	CLEAN_SHOW = 2,    /* hidden characters are shown as <U+200B> instead of dropped */
};
#define CLEAN_MARKS_MAX 4      /* combining marks on one base character */

/* Does '#' at the start of a line begin a heading in a file of that name, and not a comment?  The level of the heading (1 to 6) that
 * a line is, and where its words are; 0: it is none. */
int headings_expected(const char *name);
int heading_line(const char *line, size_t n, size_t *from, size_t *len);

/* ---- words that were not typed (untyped.c) ---- */

/* Remember the words behind an @ in a text that gets into the input line by a paste, an editor or a file.  Any thread. */
void untyped_note(const char *text, size_t n);
/* Is this such a word, without its @? */
int  untyped_has(const char *word, size_t n);
/* Is there such a word in a text that may name a file?  Then it is not kept for another run, which would take it for typed. */
int  untyped_names_file(const char *text, size_t n);

/* ---- the input history (input_history.c): one file for the screen, line mode and other running weirs ---- */

enum { HISTORY_MAX = 2000 };
typedef void history_fn(const char *text, size_t n, void *ud);
/* Calls back with the last HISTORY_MAX entries, oldest first; creates the file, mode 0600, in an existing directory.  -1: unusable. */
int  history_load(const char *path, history_fn *, void *ud);
void history_append(const char *path, const char *text, size_t n);
/* Shrink the file to HISTORY_MAX entries and some MiB, if it is larger. */
void history_trim(const char *path);

/* ---- the full screen (ui.c) ----
 *
 * The application posts messages, figures and lists, feeds the terminal's bytes, and takes actions until there are none.  Nothing here
 * blocks, starts threads or knows the engine.  Posted texts may be hostile: they are copied, cleaned before they are shown, and kept
 * as they came for the clipboard.  One ui a process (readline is global); one thread. */

struct ui;
struct grid;

/* A command while an answer is generated or a document is read: run at once, run at once without words behind it and queued with them,
 * queued, or refused. */
enum ui_busy { BUSY_ALLOWED, BUSY_LOOKS, BUSY_QUEUED, BUSY_REFUSED };
struct ui_command {
	const char *name, *aliases;       /* "/undo"; words with blanks between them */
	const char *args, *help;
	enum ui_busy busy;
	enum ui_arg { ARG_NONE, ARG_FILE, ARG_SESSION, ARG_WORD, ARG_SETTING } arg;   /* what completion offers for the argument */
	const char *words;                /* other words for it: the palette finds it by them; one with a slash is a name that no list shows */
};
/* What ARG_SETTING completes: a name, then one of its values. */
struct ui_setting {
	const char *name, *values, *help;   /* "docs"; "auto|whole|passages", or "" where any value may stand; one line */
};

struct ui_options {
	int w, h;
	const struct ui_command *commands;   /* ends with name = NULL; outlives the ui */
	const struct ui_setting *settings;   /* the same; or NULL */
	const char *history;              /* file of the input line, or NULL */
	int ascii;                        /* draw with ASCII only */
	int color;                        /* the terminal has colours */
	int utc;                          /* times of day as UTC (tests) */
};
int  ui_open(struct ui **, const struct ui_options *, struct err *);
void ui_close(struct ui *);

/* now: seconds of the monotonic clock. */
void ui_feed(struct ui *, const char *bytes, size_t n, double now);   /* bytes from the terminal */
void ui_resize(struct ui *, int w, int h);
void ui_tick(struct ui *, double now);
double ui_wake(const struct ui *);        /* time of the next ui_tick(); 0 = none needed */
int  ui_dirty(const struct ui *);         /* ui_draw() would draw another picture */
const struct grid *ui_draw(struct ui *, double now);
/* The picture as text, h lines. */
void ui_dump(struct ui *, double now, int with_styles, struct str *out);

/* Requests to the application. */
enum ui_what {
	UI_SEND,            /* text: a message or a /command; while busy only commands that are BUSY_ALLOWED */
	UI_STOP,            /* stop the answer, or reading */
	UI_QUIT,
	UI_SUSPEND,         /* Ctrl-Z */
	UI_REPAINT,         /* Ctrl-L: redraw everything */
	UI_EDITOR,          /* text: the draft; ui_draft() returns the edited one */
	UI_COPY,            /* text: to the clipboard */
	UI_LIST,            /* the list of sessions opens or its filter was cleared: post the sessions */
	UI_PREVIEW,         /* id: post that session's last messages */
	UI_SWITCH,          /* id: continue in that session; text: not empty = wait until no other process has it open */
	UI_RENAME,          /* id, text */
	UI_FORK,            /* id */
	UI_DELETE,          /* id: confirmed; it can be undone for DELETE_UNDO seconds */
	UI_UNDELETE,        /* id: the one deleted last */
	UI_FIND,            /* text: words to search in all sessions; post the matches with ui_sessions() */
	UI_PANEL,           /* on: which figures of the cache are shown, so have to be computed: 0 none, 1 those of the bar, 2 all */
	UI_MOUSE,           /* on; id: 1 = the user wants it so from now on */
	UI_THEME,           /* text: its name */
};
struct ui_action { enum ui_what what; const char *text; size_t n; int64_t id; int on; };
/* The next request: 1 (text is valid until the next call of any ui function), or 0: none. */
int  ui_action(struct ui *, struct ui_action *out);

/* ---- what the application posts ---- */

enum ui_role { UI_USER, UI_ASSISTANT, UI_NOTICE, UI_ERROR, UI_TEXT };   /* UI_TEXT: of a text that is read, see ui_text() */
void ui_clear(struct ui *);                                   /* empties the transcript: another one follows */
size_t ui_entry(struct ui *, enum ui_role, const char *text, size_t n);   /* a new last entry: a message or a notice */
void ui_piece(struct ui *, const char *bytes, size_t n);           /* appends to the last entry; may be cut between any two bytes */
void ui_entry_end(struct ui *, const char *note);                  /* the last entry is complete; note: "[120 tokens, 90 t/s]", or NULL */

/* A new last entry: the text that is read, from its byte `at` on; begins: another text than before, or not behind its last entry. */
void ui_text(struct ui *, size_t at, int begins);
void ui_cut(struct ui *, size_t n);                                /* drops what stands behind the n-th message, notices too */
void ui_messages_end(struct ui *, size_t n);                       /* only the first n messages are numbered from now on; the others stay */

/* What runs now: verb "reading", "answering", "saving", ...; NULL: nothing, and queued messages are sent.  Post every change. */
struct ui_work {
	const char *verb; int64_t done, total, had; double tps, left;   /* had: tokens of done that were cached; left: seconds, < 0 = unknown */
	int open;                         /* messages interrupt it: they are sent at once, not queued */
};
void ui_work(struct ui *, const struct ui_work *);

struct ui_status {
	const char *model, *session, *kv; /* session: "" = not begun; NULL = private, nothing is saved */
	int32_t seen, kept, ctx;          /* tokens; ctx: capacity of the cache */
	int32_t evicted, thinned;
	double tps;                       /* decode speed of the last or running answer; 0 = none yet */
	uint64_t kv_bytes, memory;        /* memory: of the process */
};
void ui_status(struct ui *, const struct ui_status *);

enum { UI_SEARCHED = -2 };                      /* passages of it are read, never the whole */
struct ui_document {
	const char *name, *text; size_t n; uint64_t bytes;
	int32_t tokens, first;                  /* first: index of its first token; -1 = not read yet, or UI_SEARCHED */
	const struct mark *mark; size_t n_mark; /* pages and headings; none: form feeds and '#' show them */
};
void ui_documents(struct ui *, const struct ui_document *, size_t n);

/* The sources of an answer as its lines number them, at most UI_SOURCES; question: the number of that message, SIZE_MAX: the last question.
 * F7 opens those of the answer that is seen, one after the other, a click on "[1]" that one.  The text of the documents is shaded by share, the
 * part of the answer's attention; < 0: not known. */
enum { UI_SOURCES = 13, UI_SOURCE_NAME = 64 };
#define SOURCE_GONE "source [%zu]: '%.60s' is not among the documents any more, or has another text"
struct ui_source {
	size_t document, from, to;              /* bytes of the document's text as it was posted; document SIZE_MAX: it is not there any more, */
	char name[UI_SOURCE_NAME];              /* only its name is known */
	int sent;                               /* the model was sent it */
	float share;
};
void ui_sources(struct ui *, size_t question, const struct ui_source *, size_t n);

struct ui_session {
	int64_t id; const char *name, *title, *model, *snippet;   /* snippet: after UI_FIND the match, \x01 and \x02 around its words; else "" */
	int64_t used; int32_t messages, tokens;
	uint64_t kv_bytes; double seconds;   /* seconds of prefill before it can continue: 0 = instant; < 0 = unknown */
	int here;                            /* the session on the screen */
	long writer;                         /* another process that has it open, -1 = which is not known; 0 = none */
};
void ui_sessions(struct ui *, const struct ui_session *, size_t n, int64_t now);   /* now: seconds since 1970 */
void ui_preview(struct ui *, int64_t id, const char *text, size_t n);
void ui_unsent(const struct ui *, struct str *out);                  /* the queued messages and the draft, line by line */
void ui_draft(struct ui *, const char *text, size_t n);             /* replaces the text of the input line */
void ui_open_text(struct ui *, const char *title, const char *text, size_t n);   /* over the transcript, until Esc */
void ui_say(struct ui *, const char *text);                          /* one line in the status row for some seconds: "copied 34 bytes" */

/* The screen's own commands; the text is the command's argument. */
void ui_open_help(struct ui *, const char *words);                  /* at the first place that has the words */
/* The text of the help pane, as lines of at most 80 columns. */
void ui_help_text(const struct ui_command *, struct str *out);
void ui_open_sessions(struct ui *);
#define DELETE_UNDO 10.0
void ui_ask_delete(struct ui *, int64_t session);                    /* in the list of sessions, which is open */
void ui_edit(struct ui *, const char *text);                         /* becomes a UI_EDITOR */
void ui_open_documents(struct ui *, const char *where);              /* "", "p12", "40%" or words to find */
/* The documents, at bytes [from, to) of one's text as it was posted; they are marked as a match is. */
void ui_show_document(struct ui *, size_t document, size_t from, size_t to);
void ui_open_panel(struct ui *, const char *how);                    /* "", "off", "bar", "full", "layer 12" */
int  ui_search(struct ui *, const char *words);                      /* in the transcript; returns the number of matches */
int  ui_copy(struct ui *, const char *what, struct err *);           /* "", "3", "code", "code 2", "all": becomes a UI_COPY */
int  ui_theme(struct ui *, const char *name, struct err *);          /* "": the next one */
void ui_raw(struct ui *, int on);                                    /* on < 0: toggle */
void ui_mouse(struct ui *, int on);                                  /* on < 0: toggle */

/* ---- the figures of the cache (pane_cache.c) ---- */

enum { UI_COLS = 256, UI_COL_TEXT = 96, UI_REGIONS = 12, UI_FLOWS = 8 };
struct ui_region {
	char letter;                      /* 's' sinks, 'p' pinned prefix, '1' .. the rings */
	const char *name;                 /* "sinks", "prefix", "ring 1" */
	int32_t fill, slots;              /* tokens in the region; its capacity, 0 = no limit of its own */
	int32_t stride;                   /* one token in so many enters the region; 0 = all */
	int32_t first, last;              /* oldest and newest token in it; -1 = empty */
	float share;                      /* of the attention mass now; < 0 = not observed */
};
/* A token entered a ring, moved to a larger ring, or was evicted from one.  mass: running average of its attention; 0 = not observed. */
struct ui_flow { enum ui_flow_what { FLOW_IN, FLOW_MOVED, FLOW_OUT } what; int ring; int32_t token; float mass; char text[48]; };
struct ui_cache {
	const char *none;                 /* why there are no figures, sentences that stand in their place; NULL: what follows are figures */
	const char *kv;
	int32_t seen, kept, evicted, thinned, ctx;
	uint64_t bytes, bytes_most;       /* of the cache: in use; at capacity */
	double fetched; float overlap;    /* bytes that a token reads from disk; share of its selection that the token before had; < 0 = not known */
	uint64_t resident;                /* of those in use, in memory now where the others lie on disk; 0 = all are in memory */
	struct ui_region region[UI_REGIONS]; int n_region;
	int cols; int32_t per_col;        /* columns of the strips below, and tokens in each */
	const uint8_t *kept_col;          /* [cols] share of the KV entries that are kept; 255 = all, 0 = none */
	const uint8_t *where_col;         /* [cols] index of the region that holds most of it; 255 = evicted */
	enum ui_heat { HEAT_NONE, HEAT_MASS, HEAT_SELECTED } heat_is;   /* not observed; running average of attention mass; share of KV heads that selected the token */
	int n_layer; const uint8_t *heat; /* [n_layer][cols] */
	const char (*text_col)[UI_COL_TEXT];   /* [cols] the words of the column, as far as they fit; NULL = not known */
	int32_t selected;                 /* entries per KV head that the last token read; 0 = all, < 0 = not known */
	int32_t refreshed;                /* layers that selected again for the last token; < 0 = the policy reuses no selection */
	float cosine;                     /* cosine similarity of the queries that a refresh compares; < -1 = not known */
	float recovered;                  /* share of attention on the old selection where a layer selected again; < 0 = not known */
	float estimated;                  /* share of attention on the entries that were read, by the key sketch; < 0 = not known */
	int32_t sampled; float spread;    /* entries per KV head that stand for all others, 0 = none; standard error of the others' share, < 0 = not known */
	struct ui_flow flow[UI_FLOWS]; int n_flow;   /* the newest last */
	float in_rate, moved_rate, out_rate;         /* tokens a second */
	struct { int32_t first, n; const char *name; } mark[8]; int n_mark;   /* documents: their tokens */
	double seconds;                   /* that computing these figures took */
	double every;                     /* seconds between two of these reports; 0 = not known */
};
/* Post them some times a second while UI_PANEL asks for them. */
void ui_cache(struct ui *, const struct ui_cache *);
/* Which parts of a text are in the cache, as adjacent spans.  end: byte behind the span; kept: 255 = by all heads, 0 = evicted; part:
 * index of the region that holds most of it, from 1; 0 = not known.
 * which >= 0: message; < 0: document -1 - which. */
struct ui_span { uint32_t end; uint8_t kept, part; };
void ui_lens(struct ui *, int which, const struct ui_span *, size_t n);
/* The same of the text that is read, from its byte `from` on, where the first span begins; what stands before it is evicted. */
void ui_text_lens(struct ui *, size_t from, const struct ui_span *, size_t n);
/* Surprise of the text that is read, from its byte `from` on: kept is a level, 0 = none to 3.  Spans that were posted before stay. */
void ui_text_heat(struct ui *, size_t from, const struct ui_span *, size_t n);

/* ---- a terminal (display.c) ---- */

struct display;
struct display_options { int color; int ask_background; };   /* colours may be used; ask the terminal for its background, which comes as a key */
/* fd: the terminal, for reading and writing.  ERR_FAIL: it cannot show a full screen (TERM=dumb, unknown): use line mode. */
const char *display_library(void);   /* "ncurses 6.4.20221231": as it runs */
int  display_open(struct display **, int fd, const struct display_options *, struct err *);
/* The terminal is as it was before. */
void display_close(struct display *);
void display_size(struct display *, int *w, int *h);        /* asks the terminal */
void display_show(struct display *, const struct grid *);   /* writes the cells that changed */
void display_repaint(struct display *);                     /* the next show draws everything */
void display_pause(struct display *);                       /* for Ctrl-Z and editors: the terminal as it was before */
void display_resume(struct display *);
void display_mouse(struct display *, int on);
int  display_theme(struct display *, const char *name);     /* 0, or -1: no such theme */
int  display_copy(struct display *, const char *text, size_t n);   /* OSC 52; -1: too long (100 KB of base64) */
int  display_utf8(const struct display *);                  /* 0: only ASCII can be shown */
int  display_colors(const struct display *);                /* that it has and may use; 0 = none */
/* What puts any terminal back, for signal handlers: a constant string. */
const char *display_reset(void);
/* A terminal of that name can be used as a full screen? */
int  display_usable(const char *term);

#endif
