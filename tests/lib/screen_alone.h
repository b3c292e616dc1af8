/* tests/lib/screen_alone.h - the full screen without a terminal and without an engine. A test feeds the bytes of
 * keys, posts events, and reads the requests and the screen. The clock is a number that the test sets. */
#ifndef WEIR_SCREEN_ALONE_H
#define WEIR_SCREEN_ALONE_H

#include "tests/lib/test.h"
#include "ui/ui_private.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

/* Suppress reports of memory that readline leaks: arguments of aborted commands, undo data of nested searches. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "fast_unwind_on_malloc=0";
}
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return "leak:_rl_callback_data_alloc\nleak:_rl_scxt_alloc\nleak:rl_initialize\n";
}

static const struct ui_command commands[] = {
	{ "/help", "/?", "", "keys and commands", BUSY_ALLOWED, ARG_NONE, "" },
	{ "/new", "/clear", "", "begin a new conversation", BUSY_REFUSED, ARG_NONE, "" },
	{ "/undo", "", "[N]", "undo the last turn, or N", BUSY_QUEUED, ARG_NONE, "forget" },
	{ "/retry", "/regen /regenerate", "", "answer the last question again", BUSY_QUEUED, ARG_NONE, "" },
	{ "/edit", "", "TEXT", "ask TEXT in place of the last question", BUSY_QUEUED, ARG_NONE, "" },
	{ "/read", "/open /file", "FILE", "read a document", BUSY_QUEUED, ARG_FILE, "" },
	{ "/stats", "/status", "", "tokens, speed and memory", BUSY_ALLOWED, ARG_NONE, "" },
	{ "/set", "", "[KEY [VALUE]]", "show or change a setting", BUSY_QUEUED, ARG_SETTING, "" },
	{ 0 },
};

static const struct ui_setting settings[] = {
	{ "temp", "", "temperature; 0 takes the likeliest token" },
	{ "docs", "auto|whole|passages", "how documents reach the model" },
	{ "mouse", "off|on", "the wheel scrolls" },
	{ 0 },
};

static struct ui *u;
static double now;
static int ascii;

static inline void opened(int w, int h)
{
	struct ui_options o = { .w = w, .h = h, .commands = commands, .settings = settings, .ascii = ascii, .utc = 1 };
	struct err e = { 0 };

	setlocale(LC_ALL, "C.UTF-8");
	setenv("INPUTRC", "/dev/null", 1);
	now = 100;
	CHECK_MSG(!ui_open(&u, &o, &e), "ui_open: %s", e.msg);
}

static inline void closed(void)
{
	ui_close(u);
	u = NULL;
}

/* Return all pending actions, as "SEND hello|STOP|". */
static inline const char *asked(void)
{
	static const char *const name[] = { "SEND",   "STOP",     "QUIT",    "SUSPEND", "REPAINT", "EDITOR",
		                            "COPY",   "LIST",     "PREVIEW", "SWITCH",  "RENAME",  "FORK",
		                            "DELETE", "UNDELETE", "FIND",    "PANEL",   "MOUSE",   "THEME" };
	static struct str s;
	struct ui_action a;

	str_clear(&s);
	str_adds(&s, "");
	while (ui_action(u, &a)) {
		struct str text = { 0 };
		str_add(&text, a.text, a.n);
		str_addf(&s, "%s", name[a.what]);
		if (a.what == UI_SEND && !u->work.verb.n)
			ui_work(u, NULL); /* as if the message needed no work */
		if (text.n)
			str_addf(&s, " %s", text.p);
		str_free(&text);
		if (a.what == UI_PANEL || a.what == UI_MOUSE)
			str_addf(&s, " %d", a.on);
		if (a.id)
			str_addf(&s, " #%d", (int)a.id);
		str_adds(&s, "|");
	}
	return str_text(&s);
}

/* Type a key, given by its bytes, at human speed, and return the actions. */
static inline const char *key(const char *bytes)
{
	ui_feed(u, bytes, strlen(bytes), now += 0.3);
	ui_tick(u, now += 0.1);
	return asked();
}

/* Type the letters one by one, so that they do not count as a paste. */
static inline const char *type(const char *text)
{
	for (; *text; text++)
		ui_feed(u, text, 1, now += 0.1);
	return asked();
}

static inline const char *draft(void)
{
	size_t n;
	return input_text(&n);
}

#define ESC  "\33"
#define F1   "\33OP"
#define F2   "\33OQ"
#define F3   "\33OR"
#define F4   "\33OS"
#define F5   "\33[15~"
#define F6   "\33[17~"
#define F7   "\33[18~"
#define F8   "\33[19~"
#define F10  "\33[21~"
#define UP   "\33[A"
#define DOWN "\33[B"
#define PGUP "\33[5~"
#define PGDN "\33[6~"
#define HOME "\33[H"
#define END  "\33[F"
#define CTRL(c)                                                                                                        \
	(char[])                                                                                                       \
	{                                                                                                              \
		(c) & 31, 0                                                                                            \
	}
#define CTRL_L "\14"
#define CTRL_P "\20"

static inline void work(const char *verb)
{
	struct ui_work w = { .verb = verb, .tps = 24.3, .left = -1 };
	ui_work(u, verb ? &w : NULL);
}

static inline void question(const char *text)
{
	ui_entry(u, UI_USER, text, strlen(text));
}

static inline void answer(const char *text)
{
	ui_entry(u, UI_ASSISTANT, "", 0);
	ui_piece(u, text, strlen(text));
	ui_entry_end(u, NULL);
}

static inline void status(void)
{
	struct ui_status s = { .model = "SmolLM2-135M-Instruct",
		               .session = "lease-review",
		               .kv = "auto",
		               .seen = 18204,
		               .kept = 5410,
		               .ctx = 8192,
		               .evicted = 12794,
		               .memory = 676u << 20 };
	ui_status(u, &s);
}

static inline const char *screen(void)
{
	static struct str s;

	str_clear(&s);
	ui_dump(u, now, 0, &s);
	return s.p;
}

static inline int shows(const char *text)
{
	return strstr(screen(), text) != NULL;
}

/* ---- what screens show ---- */

static inline void some_messages(void)
{
	status();
	question("What does the lease say about the deposit?");
	answer("The **deposit** is two months' rent. It is returned *within 30 days*:\n\n"
	       "- less unpaid rent\n- less repairs\n\n```c\nint deposit(int rent)\n{\n\treturn 2 * rent; /* clause 4 */\n}\n```\n");
	question("And when is it due?");
}

static inline void some_cache(void)
{
	static uint8_t kept[64], where[64];
	/* clang-format off */
	struct ui_cache c = {
		.kv = "auto", .seen = 18204, .kept = 5410, .evicted = 12794, .ctx = 8192, .bytes = 120 << 20,
		.bytes_most = 180 << 20, .n_region = 3,
		.region = {{'s', "sinks", 4, 4, 0, 0, 3, 0.31f}, {'1', "ring 1", 2048, 2048, 1, 16000, 18203, 0.44f},
		           {'2', "ring 2", 1310, 2048, 2, 3100, 16000, 0.25f}},
		.cols = 64, .per_col = 285, .kept_col = kept, .where_col = where, .refreshed = -1, .cosine = -2, .recovered = -1, .estimated = -1,
		.in_rate = 31, .out_rate = 12,
		.seconds = 0.0004, .every = 0.2,
	};
	/* clang-format on */

	for (int i = 0; i < 64; i++) {
		kept[i] = (uint8_t)(i == 0 || i > 55 ? 255 : i * 4);
		where[i] = (uint8_t)(i == 0 ? 0 : i > 55 ? 1 : i > 10 ? 2 : 255);
	}
	ui_cache(u, &c);
}

static inline void scene_bar(void)
{
	some_messages();
	key(F2);
	some_cache();
}

#endif
