/* tests/ui/t_inline.c - the conversation in the terminal's own scrollback: what terminals keep of it, after panes and
 * resizes; how much is written. The text consists of numbered words, so that a lost or repeated one is seen. */
#include "tests/lib/screen_alone.h"
#undef CTRL
#define now pty_now
#include "tests/lib/pty.h" /* last, because terminfo defines short words as macros */
#undef now

static struct pty tty;
static struct vt vt;
static struct display *d;
static int words, bytes, most_bytes;

static void begin(const char *term, int w, int h)
{
	struct err e = { 0 };

	setlocale(LC_CTYPE, "C.UTF-8");
	unsetenv("COLORFGBG");
	unsetenv("TMUX");
	unsetenv("XTERM_VERSION");
	setenv("TERM", term, 1);
	pty_open(&tty, w, h);
	vt = (struct vt){ .keeps = 1 };
	vt_size(&vt, w, h);
	allow_terminfo(&vt, term);
	vt_allow(&vt, "\33[A\33[B\33[C\33[D"); /* without a number: one step */
	vt_feed(&vt, "$ weir --inline\r\n", 17);
	CHECK_MSG(!display_open(&d, tty.fd, &(struct display_options){ .color = 1, .inlined = 1 }, &e), "%s", e.msg);
	CHECK(!ui_open(&u,
	               &(struct ui_options){ .w = w, .h = h, .commands = commands, .settings = settings, .inlined = 1 },
	               &e));
	words = bytes = most_bytes = 0;
	status();
}

/* Show everything that waits. */
static void show(void)
{
	struct str got = { 0 };

	for (int i = 0; i < 100 && ui_dirty(u); i++) {
		const struct grid *g = ui_draw(u, now += 0.03);
		if (display_show(d, g))
			ui_shown(u, display_above(d));
	}
	pty_take(&tty, &got);
	vt_feed(&vt, str_text(&got), got.n);
	bytes += (int)got.n;
	most_bytes = MAX(most_bytes, (int)got.n);
	str_free(&got);
	CHECK_MSG(!vt.bad[0], "%s", vt.bad);
	CHECK(!vt.frame && !vt.held.n);
}

static void end(void)
{
	ui_finish(u);
	show();
	ui_close(u);
	u = NULL;
	display_close(d);
	pty_to_vt(&tty, &vt);
	CHECK(!vt.alternate && !vt.paste && !vt.hidden && !vt.pen.attrs && vt.pen.fg < 0);
	check_modes_restored(&tty);
	pty_close(&tty);
}

/* Append n words to the answer. */
static void stream(int n)
{
	for (int i = 0; i < n; i++) {
		char word[32];
		int k = words++;
		snprintf(word, sizeof word, "%s%05d", k % 60 ? " w" : k ? "\n\nw" : "w", k);
		ui_piece(u, word, strlen(word));
	}
}

static void all_text(struct str *out)
{
	str_clear(out);
	str_add(out, str_text(&vt.scrolled), vt.scrolled.n);
	vt_rows(&vt, out);
}

static int count(const char *text, const char *word)
{
	int n = 0;

	for (; (text = strstr(text, word)); text++)
		n++;
	return n;
}

/* Check that the terminal has all words in order, and rows such as the status once at most. broken: 1 = the terminal
 * has wrapped rows, so that a word may be in two of them. twice: how many words may be there twice. */
static void check_words(int broken, int twice)
{
	struct str s = { 0 };
	int next = 0, repeated = 0;

	all_text(&s);
	if (broken) {
		size_t k = 0;
		for (size_t i = 0; i < s.n; i++)
			if (s.p[i] != '\n' && s.p[i] != ' ')
				s.p[k++] = s.p[i];
		s.p[s.n = k] = 0;
	}
	for (const char *p = s.p; (p = strchr(p, 'w')); p++) {
		char *stop;
		long k = strtol(p + 1, &stop, 10);
		if (stop - p != 6)
			continue;
		CHECK_MSG(k == next || (k < next && twice), "word %d is missing or twice: '%.40s'", next, p);
		repeated += k < next;
		next = MAX(next, (int)k + 1);
	}
	CHECK_INT(next, words);
	CHECK(repeated <= twice);
	if (twice)
		test_note("%d of %d words are there twice", repeated, words);
	CHECK(count(s.p, "lease-review") <= 1);
	str_free(&s);
}

static void check_whole(int broken)
{
	check_words(broken, 0);
}

TEST(each_kind_of_terminal)
{
	static const char *const term[] = { "xterm-256color", "tmux-256color", "screen", "linux", "vt100" };

	for (size_t i = 0; i < LEN(term); i++) {
		struct str s = { 0 };

		begin(term[i], 80, 24);
		question("first");
		work("answering");
		ui_entry(u, UI_ASSISTANT, "", 0);
		for (int k = 0; k < 300; k++) {
			stream(3);
			show();
			if (k % 100 == 40)
				key(F1);
			if (k % 100 == 60)
				key(ESC);
			if (k % 50 == 10)
				type("/s");
			if (k % 50 == 20)
				key("\25"); /* Ctrl-U */
			if (k % 50 == 30)
				key(F2);
		}
		ui_entry_end(u, "[900 tokens]");
		work(NULL);
		if (u->pane)
			key(ESC);
		show();
		CHECK(!vt.alternate);
		check_whole(0);
		all_text(&s);
		CHECK_MSG(strstr(s.p, "> first\n\nw00000 w00001"), "%s: the question is not above the answer", term[i]);
		CHECK_INT(count(s.p, "lease-review"), 1);
		CHECK_INT(count(s.p, "F1 Help"), 1);
		end();
		check_whole(0);
		all_text(&s);
		CHECK_INT(count(s.p, "lease-review"), 0);
		CHECK(strstr(s.p, "[900 tokens]"));
		CHECK(!strstr(s.p, "Keys everywhere"));
		str_free(&s);
		vt_free(&vt);
	}
}

TEST(the_sources_of_the_last_answer)
{
	static const struct ui_source s[] = { { .name = "a.txt", .share = 0.83f },
		                              { .name = "b\33[31m.txt", .share = -1 } };
	struct str text = { 0 };

	begin("xterm-256color", 80, 24);
	question("first");
	answer("An answer.");
	ui_sources(u, SIZE_MAX, s, 2);
	show();
	all_text(&text);
	CHECK_MSG(strstr(text.p, "\n F7 [1] a.txt 83%  [2] b"), "%s", text.p);
	question("second");
	show();
	all_text(&text);
	CHECK(!strstr(text.p, "a.txt"));
	end();
	str_free(&text);
	vt_free(&vt);
}

/* A popup covers rows that the terminal shows. After it closes, the screen and the scrollback are as before. */
static void popup(const char *term, int w, int h)
{
	struct str was = { 0 }, s = { 0 };

	begin(term, w, h);
	question("first");
	ui_entry(u, UI_ASSISTANT, "", 0);
	stream(400);
	ui_entry_end(u, NULL);
	show();
	all_text(&was);
	for (int i = 0; i < 3; i++) {
		type("/");
		show();
		all_text(&s);
		CHECK(strstr(s.p, "/stats"));
		CHECK_INT(count(s.p, "\n"), count(was.p, "\n"));
		type("re");
		show();
		key("\25"); /* Ctrl-U */
		show();
		all_text(&s);
		CHECK_STR(s.p, was.p);
	}
	/* the size changes, or the program ends, while the popup is open */
	type("/");
	show();
	display_hide(d);
	pty_to_vt(&tty, &vt);
	vt_resize(&vt, w, h + 1, VT_CUTS);
	set_size(&tty, w, h + 1);
	ui_resize(u, w, h + 1);
	show();
	check_whole(0);
	key("\25");
	ui_entry(u, UI_ASSISTANT, "", 0);
	for (int k = 0; k < 100; k++) {
		if (k % 40 == 20)
			type("/");
		stream(10);
		show();
		if (k % 40 == 39)
			key("\25");
	}
	type("/");
	show();
	end();
	check_whole(0);
	all_text(&s);
	CHECK(!strstr(s.p, "/stats"));
	str_free(&was);
	str_free(&s);
	vt_free(&vt);
}

TEST(a_popup_leaves_no_trace)
{
	popup("xterm-256color", 80, 24);
	popup("xterm-256color", 120, 40);
	popup("tmux-256color", 40, 16);
	popup("linux", 80, 24);
	popup("vt100", 80, 24);
}

TEST(nothing_is_drawn_twice)
{
	begin("xterm-256color", 80, 24);
	question("first");
	work("answering");
	ui_entry(u, UI_ASSISTANT, "", 0);
	stream(40);
	show();
	bytes = most_bytes = 0;
	for (int k = 0; k < 1000; k++) {
		stream(2);
		show();
	}
	test_note("%.2f bytes a byte of the answer, %d bytes at most in a frame", bytes / 14000.0, most_bytes);
	CHECK(bytes < 3 * 14000);
	CHECK(most_bytes < 400);
	check_whole(0);
	end();
	vt_free(&vt);
}

/* Resize a thousand times. grows: 1 = while the last paragraph is not finished. */
static void storm(enum vt_resize how, const char *term, int least_w, int grows)
{
	unsigned r = 1;

	begin(term, 80, 24);
	question("first");
	ui_entry(u, UI_ASSISTANT, "", 0);
	for (int k = 0; k < 1000; k++) {
		int w = least_w + (int)((r = r * 1103515245 + 12345) >> 16) % 60,
		    h = 20 + (int)((r = r * 1103515245 + 12345) >> 16) % 30;

		if (k % 5 == 0)
			stream(7);
		if (!grows) {
			ui_entry_end(u, NULL);
			ui_entry(u, UI_ASSISTANT, "", 0);
		}
		show();
		set_size(&tty, w, h);
		vt_resize(&vt, w, h, how);
		ui_resize(u, w, h);
		show();
	}
	check_words(1, grows ? words : 0);
	end();
	check_words(1, grows ? words : 0);
	vt_free(&vt);
}

TEST(a_thousand_resizes)
{
	storm(VT_WRAPS, "xterm-256color", 20, 0);
	storm(VT_WRAPS_CUTS, "tmux-256color", 20, 0);
	storm(VT_CUTS, "linux", 80, 0);
}

/* The size changes several times before the program knows of it, as with tmux. The program erases what could be wrapped
 * when it first hears of a change, and writes again at the last size. */
TEST(sizes_that_are_over_at_once)
{
	unsigned r = 7;

	begin("xterm-256color", 80, 24);
	question("first");
	ui_entry(u, UI_ASSISTANT, "", 0);
	for (int k = 0; k < 300; k++) {
		int w = 80, h = 24;

		stream(7);
		ui_entry_end(u, NULL);
		ui_entry(u, UI_ASSISTANT, "", 0);
		show();
		for (int i = 0; i < 5; i++) {
			w = 30 + (int)((r = r * 1103515245 + 12345) >> 16) % 90;
			h = 15 + (int)((r = r * 1103515245 + 12345) >> 16) % 30;
			vt_resize(&vt, w, h, VT_WRAPS);
			set_size(&tty, w, h);
			if (i == 0)
				display_hide(d);
			if (i == 0)
				pty_to_vt(&tty, &vt);
		}
		ui_resize(u, w, h);
		show();
	}
	check_whole(1);
	end();
	check_whole(1);
	vt_free(&vt);
}

/* The size changes and changes back before the program notices. What display_hide() erases is written again. */
TEST(a_size_that_comes_back)
{
	struct str s = { 0 };

	begin("xterm-256color", 80, 24);
	show();
	display_hide(d);
	ui_resize(u, 80, 24);
	show();
	all_text(&s);
	CHECK_INT(count(s.p, "lease-review"), 1);
	str_free(&s);
	end();
	vt_free(&vt);
}

/* Keys that open, close and scroll everything, while an answer comes and the size changes. */
static void random_keys(const char *term, enum vt_resize how)
{
	static const char *const keys[] = {
		F1,  F2,   F2,   F3,   F4,  F5,     F6,     F7,    "/s", "\t", "hello", "q",
		ESC, PGUP, PGDN, HOME, END, CTRL_L, CTRL_P, "\25", "j",  "\r", "\177",  ESC
	};
	unsigned r = 3;

	begin(term, 80, 24);
	question("first");
	work("answering");
	ui_entry(u, UI_ASSISTANT, "", 0);
	for (int k = 0; k < 2000; k++) {
		stream(1);
		key(keys[((r = r * 1103515245 + 12345) >> 16) % LEN(keys)]);
		show();
		if (k % 50 == 49 && !vt.alternate) {
			int h = 15 + (int)((r = r * 1103515245 + 12345) >> 16) % 30;
			vt_resize(&vt, 80, h, how);
			set_size(&tty, 80, h);
			ui_resize(u, 80, h);
			show();
		}
	}
	end();
	check_words(0, words);
	vt_free(&vt);
}

TEST(any_keys)
{
	random_keys("xterm-256color", VT_WRAPS);
	random_keys("linux", VT_CUTS);
	random_keys("vt100", VT_CUTS);
}

/* Rows of unfinished text may scroll away when the terminal becomes smaller: they are then there twice, but never
 * missing. */
TEST(resizes_while_an_answer_comes)
{
	storm(VT_WRAPS, "xterm-256color", 20, 1);
	storm(VT_WRAPS_CUTS, "tmux-256color", 20, 1);
	storm(VT_CUTS, "linux", 100, 1);
}
