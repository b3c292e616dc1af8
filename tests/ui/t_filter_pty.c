/* tests/ui/t_filter_pty.c - the terminal filter, checked at the terminal: hostile strings through every input of the
 * full screen (ui.h), drawn on a pseudo terminal. Whatever goes in, the output has only sequences that terminfo allows,
 * and the terminal shows the grid.
 *
 * WEIR_SOAK=500 means 10^6 random strings. With WEIR_SOAK all attack strings go through all inputs, and all code points
 * are checked.
 *
 * Awaits a terminal: it tests what is shown in time. */
#include "tests/lib/attacks.h"
#include "tests/lib/pane_screens.h"
#include "ui/ui_private.h"
#include "tests/lib/pty.h" /* last, because terminfo defines short words as macros */

static int factor(void)
{
	const char *soak = getenv("WEIR_SOAK");
	long n = soak ? strtol(soak, NULL, 10) : 1;

	return (int)(n < 1 ? 1 : MIN(1000, n));
}

static const struct ui_command commands[] = {
	{ "/help", "/?", "", "keys and commands", BUSY_ALLOWED, ARG_NONE, "" },
	{ "/read", "/open", "FILE", "read a document", BUSY_QUEUED, ARG_FILE, "" },
	{ "/switch", "", "NAME", "go on in another session", BUSY_QUEUED, ARG_SESSION, "" },
	{ 0 },
};

static struct ui *u;
static struct show s;
static double now;
static uint64_t pictures;

static void opened(int w, int h)
{
	struct ui_options o = { .w = w, .h = h, .commands = commands, .utc = 1, .color = 1 };
	struct err e = { 0 };

	setenv("INPUTRC", "/dev/null", 1);
	show_open(&s, "xterm-256color", "xterm-256color", w, h, 1);
	now = 100;
	pictures = 0;
	CHECK_MSG(!ui_open(&u, &o, &e), "ui_open: %s", e.msg);
}

static void closed(void)
{
	ui_close(u);
	u = NULL;
	s.g = (struct grid){ 0 }; /* this grid belonged to the ui */
	grid_resize(&s.g, 1, 1);
	show_close(&s);
}

/* Draw the screen on the terminal, and check that the terminal shows exactly the drawn cells. */
static void shown(const struct str *what)
{
	const struct grid *g = ui_draw(u, now);
	int failed = test_failures();

	pictures++;
	grid_free(&s.g);
	s.g = *g;
	CHECK(sound(g));
	display_show(s.d, g);
	/* All output is checked, but waiting for it after every picture would take long. */
	if (factor() > 1 || pictures % 4 == 0)
		check_screen(&s, "mono", -1);
	s.g = (struct grid){ 0 };
	if (test_failures() > failed && what) {
		struct str text = { 0 };
		for (size_t i = 0; i < what->n && i < 60; i++)
			str_addf(&text, what->p[i] > ' ' && what->p[i] < 127 ? "%c" : "\\x%02x",
			         (unsigned char)what->p[i]);
		test_fail(__FILE__, __LINE__, "at the latest that was %s", text.p);
		str_free(&text);
		s.vt.bad[0] = 0;
	}
}

static void no_actions(void)
{
	struct ui_action a;

	while (ui_action(u, &a)) {
	}
}

static void keys(const char *bytes, size_t n)
{
	ui_feed(u, bytes, n, now += 0.1);
	ui_tick(u, now += 0.1);
}

static void key(const char *bytes)
{
	keys(bytes, strlen(bytes));
}

static void paste(const struct str *a)
{
	key("\033[200~");
	keys(str_text(a), a->n);
	key("\033[201~");
}

/* Close everything and empty the input line, whatever the keys did. */
static void at_rest(void)
{
	key("\033[201~");
	key("\033");
	key("\033");
	if (u->searching)
		ui_search_off(u);
	if (u->pane != NO_PANE)
		pane_close(u);
	u->focus = ON_LINE;
	u->panel = 0;
	ui_work(u, NULL);
	while (u->n_queue)
		queue_remove(u, u->n_queue - 1);
	ui_draft(u, "", 0);
	no_actions();
}

/* ---- doors ---- */

/* Pass the string through the transcript (in every role, and in two pieces cut at every byte), the status row, the
 * queue and the draft. */
static void through_transcript(const struct str *a, int cuts)
{
	struct ui_status st = { .model = a->p,
		                .session = a->p,
		                .kv = a->p,
		                .seen = 1,
		                .kept = 1,
		                .ctx = 100,
		                .tps = 1,
		                .memory = 1 << 20 };
	struct ui_work w = { .verb = a->p, .done = 1, .total = 10, .tps = 1, .left = 5 };

	ui_clear(u);
	ui_status(u, &st);
	for (int role = UI_USER; role <= UI_ERROR; role++) {
		ui_entry(u, (enum ui_role)role, a->p, a->n);
		ui_entry_end(u, role == UI_ASSISTANT ? a->p : NULL);
	}
	ui_entry(u, UI_ASSISTANT, "", 0);
	for (size_t cut = 0; cut <= (cuts ? a->n : 0); cut++) {
		ui_piece(u, "<", 1);
		ui_piece(u, a->p, cut);
		if (cut % 4 == 3)
			ui_draw(u, now); /* draw while only the first part is there */
		ui_piece(u, a->p + cut, a->n - cut);
		ui_piece(u, ">", 1);
	}
	ui_entry_end(u, a->p);
	ui_say(u, a->p);
	shown(a);
	ui_work(u, &w);
	paste(a);
	key("\r");
	for (size_t cut = 0; cut <= (cuts ? a->n : 0); cut++) {
		key("\033[200~");
		keys(a->p, cut);
		keys(a->p + cut, a->n - cut);
		key("\033[201~");
	}
	shown(a);
	at_rest();
	ui_draft(u, a->p, a->n);
	shown(a);
	/* Feed the bytes as keys, whatever the keys do. */
	for (size_t i = 0; i < a->n; i++)
		keys(a->p + i, 1);
	shown(a);
	at_rest();
}

static void through_searches(const struct str *a)
{
	key("\033OR"); /* F3 */
	paste(a);
	shown(a);
	key("\r");
	shown(a);
	at_rest();
	ui_search(u, a->p);
	shown(a);
	at_rest();
	ui_open_help(u, "");
	key("/");
	paste(a);
	shown(a);
	key("\r");
	shown(a);
	at_rest();
	key("\022"); /* the search in the history */
	paste(a);
	shown(a);
	at_rest();
}

static void through_sessions(const struct str *a)
{
	struct str snippet = { 0 };
	struct ui_session row[3];

	str_addf(&snippet, "before \001%s\002 behind", a->p);
	for (int i = 0; i < 3; i++)
		row[i] = (struct ui_session){
			.id = i + 1,
			.name = i < 2 ? a->p : "",
			.title = a->p,
			.model = a->p,
			.snippet = i ? "" : snippet.p,
			.used = NOW - i,
			.messages = i,
			.here = !i,
		};
	ui_open_sessions(u);
	no_actions();
	ui_sessions(u, row, 3, NOW);
	ui_preview(u, 1, a->p, a->n);
	shown(a);
	key("\t");
	ui_preview(u, 1, a->p, a->n);
	shown(a);
	key("\022"); /* rename: a field with the session's name */
	shown(a);
	paste(a);
	shown(a);
	key("\033");
	key("\004"); /* asks whether to delete */
	shown(a);
	key("n");
	paste(a);
	shown(a);
	at_rest();
	/* The popup of completions shows names, too. */
	ui_feed(u, "/switch ", 8, now += 0.1);
	key("\t");
	shown(a);
	at_rest();
	str_free(&snippet);
}

static void through_documents(const struct str *a)
{
	struct ui_document d = { a->p, a->p, a->n, a->n, 1, 0, NULL, 0 };
	struct ui_span span[2] = { { (uint32_t)(a->n / 2), 0, 0 }, { (uint32_t)a->n, 100, 0 } };

	ui_documents(u, &d, 1);
	ui_open_documents(u, "");
	ui_lens(u, -1, span, 2);
	shown(a);
	ui_open_documents(u, a->p);
	shown(a);
	key("o");
	shown(a);
	key("\033");
	key("/");
	paste(a);
	key("\r");
	shown(a);
	at_rest();
	ui_documents(u, NULL, 0);
}

static void through_cache(const struct str *a)
{
	struct ui_cache c;

	sample(&c);
	c.kv = a->p;
	for (int i = 0; i < c.n_region; i++) {
		c.region[i].name = a->p;
		c.region[i].letter = a->p[i < (int)a->n ? i : 0];
	}
	for (int i = 0; i < c.n_flow; i++)
		snprintf(c.flow[i].text, sizeof c.flow[i].text, "%s", a->p);
	c.mark[0].name = c.mark[1].name = a->p;
	ui_open_panel(u, "bar");
	ui_draw(u, now);
	ui_cache(u, &c);
	shown(a);
	ui_open_panel(u, "full");
	ui_cache(u, &c);
	shown(a);
	ui_open_panel(u, a->p);
	shown(a);
	ui_open_panel(u, "off");
	at_rest();
}

/* Pass the string through the transcript in pieces, and through one of the other inputs; with WEIR_SOAK through all of
 * them. */
static void through_doors(const struct str *a, size_t which)
{
	static void (*const door[])(const struct str *) = { through_searches, through_sessions, through_documents,
		                                            through_cache };

	through_transcript(a, 1);
	for (size_t i = 0; i < 4; i++)
		if (factor() > 1 || i == which % 4)
			door[i](a);
}

/* ---- tests ---- */

TEST(attacks_through_every_door)
{
	struct attacks a = { 0 };
	double start = now_seconds();

	attacks_make(&a);
	CHECK_MSG(a.n >= 300, "%zu attack strings", a.n);
	opened(80, 24);
	for (size_t i = 0; i < a.n; i++) {
		str_adds(&a.s[i], ""); /* end with NUL, because some inputs take strings */
		through_doors(&a.s[i], i + i / 4);
	}
	test_note(
		"%zu attack strings cut at every byte, %llu pictures, %llu sequences and %llu characters came out, %.1f s",
		a.n, (unsigned long long)pictures, (unsigned long long)s.vt.sequences,
		(unsigned long long)s.vt.characters, now_seconds() - start);
	closed();
	attacks_free(&a);
}

/* Show all code points, as many in each picture as fit. */
static void code_points(int as_name)
{
	enum { A_LINE = 40, LINES_ = 90 };
	int32_t cp = 0;
	double start = now_seconds();

	opened(170, 100);
	while (cp <= 0x10ffff) {
		struct str line[LINES_] = { { 0 } }, all = { 0 };
		struct ui_session row[LINES_];
		size_t n = 0;

		for (; n < LINES_ && cp <= 0x10ffff; n++) {
			for (int i = 0; i < A_LINE && cp <= 0x10ffff; i++, cp++)
				if (cp || !as_name)
					attack_utf8(&line[n], (uint32_t)cp);
			/* Most of the upper planes are long runs of characters of the same kind, so skip the middle of
			 * each run. */
			if (factor() == 1 && cp > 0x20000 && cp % 0x400 > 2 * A_LINE &&
			    cp % 0x400 < 0x400 - 2 * A_LINE && cp < 0x10ff00 && !(cp >= 0xe0000 && cp < 0xe1000))
				cp = (cp | 0x3ff) - A_LINE;
			if (!line[n].n)
				str_adds(&line[n], " ");
			str_add(&all, line[n].p, line[n].n);
			str_adds(&all, "\n\n");
			row[n] = (struct ui_session){ .id = (int64_t)n + 1,
				                      .name = line[n].p,
				                      .title = "",
				                      .model = "",
				                      .snippet = "",
				                      .used = NOW };
		}
		if (as_name) {
			ui_open_sessions(u);
			no_actions();
			ui_sessions(u, row, n, NOW);
		} else {
			ui_clear(u);
			ui_entry(u, UI_NOTICE, all.p, all.n);
			ui_entry_end(u, NULL);
		}
		shown(NULL);
		for (size_t i = 0; i < n; i++)
			str_free(&line[i]);
		str_free(&all);
	}
	test_note("code points as %s: %llu pictures, %.1f s", as_name ? "names of sessions" : "messages",
	          (unsigned long long)pictures, now_seconds() - start);
	at_rest();
	closed();
}

TEST(all_code_points_as_messages)
{
	code_points(0);
}
TEST(all_code_points_as_names)
{
	code_points(1);
}

/* Random bytes, mostly those that begin a sequence. Never NUL, which would end the string in some inputs. */
static void random_bytes(struct str *a)
{
	static const char likely[] =
		"\033\033\033[]P_^X\\;?0123456789mhlHJKc$\a\b\r\n\t\177"
		"\302\233\235\220\237\342\200\256\213\360\237\230\200\363\240\201\357\277\376\314\201|`*#-> ";
	size_t n = 1 + test_rand() % 40;

	str_clear(a);
	for (size_t i = 0; i < n; i++) {
		char c = test_rand() % 3 ? likely[test_rand() % (sizeof likely - 1)] : (char)(1 + test_rand() % 255);
		str_add(a, &c, 1);
	}
	str_adds(a, "");
}

TEST(random_strings)
{
	enum { TOGETHER = 10 }; /* strings in one picture, if there is room for them */
	int wanted = 2000 * factor(), done = 0;
	struct str a = { 0 };

	opened(100, 40);
	while (done < wanted) {
		switch (test_rand() % 8) {
		case 0:
			random_bytes(&a);
			through_searches(&a);
			done++;
			break;
		case 1:
			random_bytes(&a);
			through_sessions(&a);
			done++;
			break;
		case 2:
			random_bytes(&a);
			through_documents(&a);
			done++;
			break;
		case 3:
			random_bytes(&a);
			through_cache(&a);
			done++;
			break;
		case 4:
			random_bytes(&a);
			through_transcript(&a, 0);
			done++;
			break;
		default:
			/* An answer in pieces, drawn while it grows. */
			ui_clear(u);
			ui_entry(u, UI_ASSISTANT, "", 0);
			for (int i = 0; i < TOGETHER * 4; i++, done++) {
				random_bytes(&a);
				ui_piece(u, a.p, a.n);
				if (i % TOGETHER == 0)
					shown(&a);
			}
			ui_entry_end(u, NULL);
			shown(&a);
		}
	}
	test_note("%d random strings, %llu pictures, %llu sequences and %llu characters came out", done,
	          (unsigned long long)pictures, (unsigned long long)s.vt.sequences,
	          (unsigned long long)s.vt.characters);
	closed();
	str_free(&a);
}
