/* tests/ui/t_display.c - ui/screen/display.c on a pseudo terminal: its output, and the state in which it leaves the
 * terminal.
 *
 * pty.h and vt.h are a small terminal emulator. One test compares with tmux, too: this program draws inside of it (see
 * helper()). */
#include "tests/lib/pty.h"

#include <signal.h>
#include <sys/wait.h>

static int times(int n)
{
	const char *soak = getenv("WEIR_SOAK");
	long factor = soak ? strtol(soak, NULL, 10) : 1;

	return n * (int)(factor < 1 ? 1 : MIN(1000, factor));
}

static int32_t random_cp(void)
{
	static const int32_t likely[] = { 'a',     'z',    ' ',    ' ',   ' ',   0xe9,    0x6f22, 0xac00,
		                          0x1f600, 0x2580, 0x2588, 0x915, 0x627, 0x1fae8, 0x1f6dc };

	return test_rand() % 8 ? likely[test_rand() % 15] : (int32_t)(test_rand() % 0x110000);
}

static void random_change(struct grid *g, int cells)
{
	struct area a = area_of(g);

	for (int i = 0; i < cells; i++) {
		int x = (int)(test_rand() % (unsigned)g->w), y = (int)(test_rand() % (unsigned)g->h);
		unsigned style = (unsigned)(test_rand() % ST_COUNT), run = 1 + (unsigned)(test_rand() % 9);
		if (test_rand() % 4 == 0)
			style |= (unsigned)(test_rand() & 0xf) << 8;
		switch (test_rand() % 4) {
		case 0:
			area_cell(&a, x, y, random_cp(), style,
			          test_rand() % 2 ? (uint8_t)(test_rand() % ST_COUNT) : 0);
			break;
		case 1: area_fill(&a, x, y, (int)run, style, random_cp()); break;
		case 2: area_text(&a, x, y, style, "e\u0301क\u094dषx漢y👍z", 5 + run); break;
		default: area_restyle(&a, x, y, (int)run, style);
		}
	}
	if (test_rand() % 2)
		area_cursor(&a, (int)(test_rand() % (unsigned)g->w), (int)(test_rand() % (unsigned)g->h));
	else
		g->cursor_y = -1;
}

/* ---- tests ---- */

TEST(themes)
{
	CHECK(!theme_find("pink", NULL));
	CHECK(theme_find("", NULL) == theme_find("dusk", NULL));
	CHECK(theme_find("", "15;0") == theme_find("dusk", NULL));
	CHECK(theme_find("", "0;15") == theme_find("paper", NULL));
	CHECK(theme_find("", "0;default;7") == theme_find("paper", NULL));
	CHECK(theme_find("", "0;8") == theme_find("dusk", NULL));
	CHECK(theme_find("", "0;default") == theme_find("dusk", NULL));
	CHECK(theme_find("", "") == theme_find("dusk", NULL));
	CHECK(theme_find("mono", "0;15") == theme_find("mono", NULL));
	for (size_t t = 0; theme_at(t); t++) {
		const struct theme *theme = theme_find(theme_at(t), NULL);
		int fixed = !strcmp(theme_at(t), "dusk") || !strcmp(theme_at(t), "paper");
		for (unsigned style = 0; style <= STYLE_MASK; style++) {
			for (int colours = 0; colours <= 256; colours += 8) {
				struct look look = theme_look(theme, style, (uint8_t)(style * 7), colours);
				CHECK(look.fg >= -1 && look.bg >= -1 && look.fg < (colours ? colours : 1) &&
				      look.bg < (colours ? colours : 1));
				/* All styles except heat use the user's palette, except that themes with fixed colours
				 * use those where there are 256. */
				if (style < ST_HEAT && (!fixed || colours < 256))
					CHECK(look.fg < 8);
				else if (style < ST_HEAT)
					CHECK(look.fg < 0 || look.fg >= 16);
			}
		}
		/* Important styles have attributes, so that they are seen without colours. */
		static const int must[] = { ST_ERROR,    ST_WARNING, ST_HEADING, ST_STATUS,   ST_STATUS_WARNING,
			                    ST_SELECTED, ST_MATCH,   ST_EVICTED, ST_QUESTION, ST_LINK };
		for (size_t i = 0; i < LEN(must); i++)
			CHECK(theme_look(theme, (unsigned)must[i], 0, 0).attrs);
	}
	CHECK(theme_look(theme_find("dark", NULL), ST_STATUS | STYLE_REVERSE, 0, 256).attrs == 0);
	CHECK(theme_look(theme_find("dark", NULL), ST_HEAT, ST_HEAT + 7, 256).bg ==
	      theme_look(theme_find("dark", NULL), ST_HEAT + 7, 0, 256).fg);
}

TEST(terminals_that_will_do)
{
	static const char *const good[] = { "xterm-256color", "tmux-256color", "screen",          "linux",
		                            "vt100",          "xterm-kitty",   "no-such-terminal" };
	static const char *const bad[] = { "", "dumb", "unknown", "emacs" };
	struct display *d = NULL;
	struct err e = { 0 };
	int fd[2];

	for (size_t i = 0; i < LEN(good); i++)
		CHECK_MSG(display_usable(good[i]), "%s", good[i]);
	CHECK(!display_usable(NULL));
	for (size_t i = 0; i < LEN(bad); i++) {
		CHECK_MSG(!display_usable(bad[i]), "%s", bad[i]);
		setenv("TERM", bad[i], 1);
		CHECK(display_open(&d, 0, &(struct display_options){ .color = 1 }, &e) < 0 && e.code == ERR_FAIL && !d);
	}
	unsetenv("TERM");
	CHECK(display_open(&d, 0, &(struct display_options){ .color = 1 }, &e) < 0 && e.code == ERR_FAIL);
	/* A pipe instead of a terminal. */
	setenv("TERM", "vt100", 1);
	CHECK(!pipe(fd));
	CHECK(display_open(&d, fd[0], &(struct display_options){ .color = 1 }, &e) < 0 && e.code == ERR_FAIL && !d);
	close(fd[0]);
	close(fd[1]);
}

/* Draw a picture and change parts of it, on one kind of terminal. */
static void try_terminal(const char *term, const char *entry)
{
	struct show s;
	struct termios now;
	struct area a;

	show_open(&s, term, entry, 40, 10, 1);
	tcgetattr(s.pty.fd, &now);
	CHECK(!(now.c_lflag & (ECHO | ICANON | ISIG | IEXTEN)) && !(now.c_iflag & (ICRNL | IXON)) &&
	      now.c_cc[VMIN] == 1);
	CHECK(display_utf8(s.d));
	a = area_of(&s.g);
	area_text(&a, 0, 0, ST_TEXT, "plain words, wide 漢字, a\u0301 mark",
	          strlen("plain words, wide 漢字, a\u0301 mark"));
	area_fill(&a, 0, 9, 40, ST_STATUS, ' ');
	area_text(&a, 1, 9, ST_STATUS_STRONG, "status in the last row", 22);
	area_cell(&a, 39, 9, 'X', ST_STATUS, 0); /* the last cell of the screen */
	area_cursor(&a, 3, 4);
	display_show(s.d, &s.g);
	check_screen(&s, "dusk", -1);
	CHECK_INT(s.vt.frames, 1);
	display_show(s.d, &s.g); /* nothing has changed, so no frame is sent */
	check_screen(&s, "dusk", -1);
	CHECK_INT(s.vt.frames, 1);
	/* display_usable() also reads terminfo entries; an unknown terminal counts as an xterm */
	CHECK(display_usable("vt100") && !display_usable("dumb") && display_usable("no-such-terminal"));
	for (int i = 0; i < times(60); i++) {
		random_change(&s.g, 1 + (int)(test_rand() % 40));
		if (i % 16 == 7)
			display_repaint(s.d);
		display_show(s.d, &s.g);
		check_screen(&s, "dusk", -1);
	}
	show_close(&s);
}

TEST(each_kind_of_terminal)
{
	static const char *const term[] = { "xterm-256color", "tmux-256color", "screen", "linux", "vt100" };

	for (size_t i = 0; i < LEN(term); i++)
		try_terminal(term[i], term[i]);
	/* A terminal that terminfo lacks is treated as an xterm. */
	int status, has_kitty = setupterm("xterm-kitty", -1, &status) == OK;
	if (has_kitty)
		del_curterm(set_curterm(NULL));
	try_terminal("xterm-kitty", has_kitty ? "xterm-kitty" : "xterm-256color");
	try_terminal("no-such-terminal", "xterm-256color");
}

TEST(looks)
{
	struct show s;

	show_open(&s, "xterm-256color", "xterm-256color", 60, 12, 1);
	for (int i = 0; i < 60; i++) {
		static const char *const names[] = { "dark", "light", "mono" };
		const char *theme = names[i / 20];
		if (i % 20 == 0)
			CHECK(!display_theme(s.d, theme));
		CHECK(display_theme(s.d, "pink") < 0);
		random_change(&s.g, 60);
		display_show(s.d, &s.g);
		check_screen(&s, theme, i < 40 ? 256 : 0);
	}
	show_close(&s);

	/* Without the option `color` no colours are used. */
	show_open(&s, "xterm-256color", "xterm-256color", 60, 12, 0);
	for (int i = 0; i < 10; i++) {
		random_change(&s.g, 60);
		display_show(s.d, &s.g);
		check_screen(&s, "dusk", 0);
	}
	show_close(&s);

	/* A terminal with eight colours. */
	show_open(&s, "screen", "screen", 60, 12, 1);
	struct area a = area_of(&s.g);
	for (unsigned i = 0; i < ST_COUNT; i++)
		area_putf(&a, (int)(i % 5) * 12, (int)(i / 5), i, "style %u", i);
	display_show(s.d, &s.g);
	pty_to_vt(&s.pty, &s.vt);
	for (unsigned i = 0; i < ST_COUNT; i++)
		CHECK_INT(s.vt.cell[(i / 5) * 60 + (i % 5) * 12].pen.fg,
		          theme_look(theme_find("dark", NULL), i, 0, 8).fg);
	show_close(&s);

	/* All pairs of styles make more than 255 pairs of colours, and each must be right. */
	show_open(&s, "xterm-256color", "xterm-256color", ST_COUNT, ST_COUNT, 1);
	a = area_of(&s.g);
	for (int y = 0; y < ST_COUNT; y++)
		for (int x = 0; x < ST_COUNT; x++)
			area_cell(&a, x, y, 0x2580, (unsigned)x, (uint8_t)y);
	display_show(s.d, &s.g);
	check_screen(&s, "dusk", 256);
	show_close(&s);
}

/* Every code point that the grid accepts, in a UTF-8 locale and in another one. */
TEST(all_code_points)
{
	for (int utf8 = 0; utf8 < 2; utf8++) {
		struct show s;
		struct area a;

		show_open(&s, "xterm-256color", "xterm-256color", 100, 50, 0);
		if (!utf8) {
			display_close(s.d);
			pty_to_vt(&s.pty, &s.vt);
			setlocale(LC_CTYPE, "C");
			CHECK(!display_open(&s.d, s.pty.fd, &(struct display_options){ 0 }, NULL));
			s.utf8 = 0;
			CHECK(!display_utf8(s.d));
		}
		a = area_of(&s.g);
		for (int32_t cp = 0; cp <= 0x10ffff;) {
			area_clear(&a, ST_TEXT);
			for (int i = 0; i < 100 * 50 && cp <= 0x10ffff; i += 2)
				area_cell(&a, i % 100, i / 100, cp++, ST_TEXT, 0);
			/* Nearly all of the upper planes becomes U+FFFD, so only a part of them is checked. */
			if (cp > 0x40000 && cp < 0x100000)
				cp += 0x8000;
			display_show(s.d, &s.g);
			check_screen(&s, "mono", 0);
		}
		setlocale(LC_CTYPE, "C.UTF-8");
		show_close(&s);
	}
}

/* Cells with random contents, such as no view should write. */
TEST(hostile_cells)
{
	struct show s;

	show_open(&s, "xterm-256color", "xterm-256color", 30, 6, 1);
	for (int i = 0; i < times(500); i++) {
		for (int k = 0; k < 30 * 6; k++) {
			struct cell *c = &s.g.cell[k];
			for (size_t b = 0; b < sizeof *c; b++)
				((unsigned char *)c)[b] = (unsigned char)test_rand();
			if (test_rand() % 4) {
				c->cp = test_rand() % 2 ? (int32_t)(test_rand() % 0x300)
				                        : (int32_t)(test_rand() % 0x110000);
				c->width = (uint8_t)(test_rand() % 3);
				for (int m = 0; m < CLEAN_MARKS_MAX; m++)
					c->mark[m] = (int32_t)(test_rand() % 0x400);
			}
		}
		s.g.cursor_x = (int)(test_rand() % 100) - 40;
		s.g.cursor_y = (int)(test_rand() % 100) - 40;
		display_show(s.d, &s.g);
		pty_to_vt(&s.pty, &s.vt);
		CHECK_MSG(!s.vt.bad[0], "%s", s.vt.bad);
		CHECK(!s.vt.held.n);
	}
	show_close(&s);
}

/* Text that was not cleaned, written directly into cells. */
TEST(attack_strings)
{
	/* clang-format off */
	static const char *const attack[] = {
		"\33]0;title\a", "\33]52;c;cm0gLXJmIC8=\a", "\33]52;c;?\a", "\33[2J\33[H", "\33[31mred", "\33c", "\33P$q\"p\33\\", "\33]8;;http://x\33\\l\33]8;;\33\\",
		"\33[?1049l", "\33[6n", "\33[c", "\33[>0q", "\33#8", "\33(0lqk", "\16\17", "\233" "31m", "\xc2\x9b" "31m", "\xc2\x90q\xc2\x9c", "\xc2\x85",
		"a\bb", "over\rwritten", "\a\a", "\x7f\x7f", "\u202etxt.exe", "\u2066x\u2069", "\u200bzero", "\ufeff", "\U000e0041\U000e007f", "\u00ad", "\u2028",
		"\xed\xa0\x80", "\xc0\x9b", "\xf4\x90\x80\x80", "\xff\xfe", "\ue000\uf8ff\U00100000", "e\u0301\u0301\u0301\u0301\u0301\u0301\u0301", "\u0301first",
		"\u115f\u1160\u3164\uffa0", "\ufdd0\uffff", "\u0378", "\ufff9a\ufffab\ufffb", "$<500>", "\1\2\3\4", "\33\33\33[A", "\33X\33^\33_x\33\\", "\x9d" "0;x\x9c",
	};
	/* clang-format on */
	struct show s;
	struct area a;

	show_open(&s, "xterm-256color", "xterm-256color", 40, 12, 1);
	a = area_of(&s.g);
	for (size_t i = 0; i < LEN(attack); i++) {
		size_t n = strlen(attack[i]);
		area_clear(&a, ST_TEXT);
		for (size_t cut = 0; cut <= n; cut++) {
			int x = area_text(&a, 30 - (int)(cut % 40), (int)(cut % 12), ST_TEXT, attack[i], cut);
			area_text(&a, x, (int)(cut % 12), ST_ERROR, attack[i] + cut, n - cut);
			display_show(s.d, &s.g);
		}
		check_screen(&s, "dusk", 256);
	}
	show_close(&s);
}

TEST(sizes)
{
	struct show s;
	int w, h;

	setenv("LINES", "7", 1); /* a shell may have set these */
	setenv("COLUMNS", "11", 1);
	show_open(&s, "xterm-256color", "xterm-256color", 80, 24, 1);
	unsetenv("LINES");
	unsetenv("COLUMNS");
	display_size(s.d, &w, &h);
	CHECK(w == 80 && h == 24);
	for (int i = 0; i < times(60); i++) {
		int to_w = 1 + (int)(test_rand() % 120), to_h = 1 + (int)(test_rand() % 40);
		set_size(&s.pty, to_w, to_h);
		display_size(s.d, &w, &h);
		CHECK(w == to_w && h == to_h);
		pty_to_vt(&s.pty, &s.vt);
		vt_size(&s.vt, w, h);
		s.vt.cell[0].cp = '#'; /* as if the terminal had changed the old picture */
		grid_resize(&s.g, w, h);
		random_change(&s.g, 50);
		display_show(s.d, &s.g);
		check_screen(&s, "dusk", 256);
	}
	/* For a moment the picture may have another size than the terminal; that must do no harm. */
	grid_resize(&s.g, 200, 60);
	display_show(s.d, &s.g);
	grid_resize(&s.g, 1, 1);
	display_show(s.d, &s.g);
	set_size(&s.pty, 5000, 3000);
	display_size(s.d, &w, &h);
	CHECK(w == 1000 && h == 1000);
	set_size(&s.pty, 0, 0);
	display_size(s.d, &w, &h);
	CHECK(w >= 1 && h >= 1);
	show_close(&s);
}

static void on_signal(int sig)
{
	(void)sig;
}

TEST(signals_stay_as_they_were)
{
	static const int sigs[] = { SIGINT, SIGTERM, SIGTSTP, SIGWINCH, SIGCONT, SIGHUP };
	struct sigaction before[6], now;
	struct show s;

	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 6; i++) {
			struct sigaction own = { .sa_handler = on_signal };
			if (round)
				sigaction(sigs[i], &own, NULL);
			sigaction(sigs[i], NULL, &before[i]);
		}
		show_open(&s, "xterm-256color", "xterm-256color", 20, 5, 1);
		for (int step = 0; step < 4; step++) {
			if (step == 1)
				display_pause(s.d);
			if (step == 2)
				display_resume(s.d);
			display_show(s.d, &s.g);
			if (step == 3)
				show_close(&s);
			for (int i = 0; i < 6; i++) {
				sigaction(sigs[i], NULL, &now);
				CHECK(now.sa_handler == before[i].sa_handler && now.sa_flags == before[i].sa_flags);
			}
		}
	}
	for (int i = 0; i < 6; i++)
		signal(sigs[i], SIG_DFL);
}

TEST(pause_and_resume)
{
	struct show s;
	struct area a;
	struct termios now;
	char other[] = "another program draws\r\n";

	show_open(&s, "xterm-256color", "xterm-256color", 40, 8, 1);
	a = area_of(&s.g);
	area_text(&a, 2, 2, ST_TEXT, "some text", 9);
	area_cursor(&a, 1, 1);
	display_mouse(s.d, 1);
	display_show(s.d, &s.g);
	check_screen(&s, "dusk", 256);
	CHECK(s.vt.alternate && s.vt.paste && s.vt.mouse);
	for (int i = 0; i < 3; i++) {
		display_pause(s.d);
		display_pause(s.d);
		pty_to_vt(&s.pty, &s.vt);
		CHECK(!s.vt.alternate && !s.vt.paste && !s.vt.mouse && !s.vt.hidden);
		check_modes_restored(&s.pty);
		display_show(s.d, &s.g); /* while paused, nothing may be drawn */
		display_copy(s.d, "x", 1);
		if (i == 1)
			display_mouse(s.d, 0);
		pty_to_vt(&s.pty, &s.vt);
		CHECK(!s.vt.alternate && !s.vt.mouse);
		CHECK(write(s.pty.fd, other, sizeof other - 1) > 0);
		if (i == 2) { /* the window's size changes during the pause */
			set_size(&s.pty, 50, 9);
			pty_to_vt(&s.pty, &s.vt);
			vt_size(&s.vt, 50, 9);
			grid_resize(&s.g, 50, 9);
			random_change(&s.g, 30);
		}
		display_resume(s.d);
		display_resume(s.d);
		display_show(s.d, &s.g);
		check_screen(&s, "dusk", 256);
		tcgetattr(s.pty.fd, &now);
		CHECK(s.vt.alternate && s.vt.paste && s.vt.mouse == (i == 0) &&
		      !(now.c_lflag & (ICANON | ECHO | ISIG)));
	}
	display_pause(s.d);
	show_close(&s);
}

/* With a non-blocking descriptor ncurses would retry without end. */
TEST(a_descriptor_that_does_not_wait)
{
	struct show s;
	struct err e;
	int flags;

	show_open(&s, "xterm-256color", "xterm-256color", 40, 8, 1);
	display_close(s.d);
	flags = fcntl(s.pty.fd, F_GETFL);
	fcntl(s.pty.fd, F_SETFL, flags | O_NONBLOCK);
	CHECK(!display_open(&s.d, s.pty.fd, &(struct display_options){ .color = 1 }, &e));
	CHECK(!(fcntl(s.pty.fd, F_GETFL) & O_NONBLOCK));
	display_pause(s.d);
	CHECK(fcntl(s.pty.fd, F_GETFL) & O_NONBLOCK);
	display_resume(s.d);
	CHECK(!(fcntl(s.pty.fd, F_GETFL) & O_NONBLOCK));
	show_close(&s);
}

static void decode_base64(const char *s, size_t n, struct str *out)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	CHECK_INT(n % 4, 0);
	for (size_t i = 0; i + 3 < n; i += 4) {
		unsigned v = 0, bytes = 3;
		char three[3];
		for (size_t k = 0; k < 4; k++) {
			const char *at = s[i + k] == '=' ? NULL : strchr(digits, s[i + k]);
			CHECK(at || (s[i + k] == '=' && i + 4 == n && k >= 2));
			bytes -= !at;
			v = v << 6 | (unsigned)(at ? at - digits : 0);
		}
		for (size_t k = 0; k < 3; k++)
			three[k] = (char)(v >> (16 - 8 * k));
		str_add(out, three, bytes);
	}
}

TEST(copying)
{
	static const struct {
		const char *term, *tmux;
	} where[] = { { "xterm-256color", NULL }, { "screen", NULL }, { "screen", "/x" }, { "tmux-256color", NULL } };
	char text[75001];

	for (size_t i = 0; i < sizeof text; i++)
		text[i] = (char)test_rand();
	for (size_t i = 0; i < LEN(where); i++) {
		static const size_t sizes[] = { 0, 1, 2, 3, 4, 100, 374, 375, 376, 2000, 75000 };
		struct show s;
		show_open(&s, where[i].term, where[i].term, 20, 4, 1);
		if (where[i].tmux)
			setenv("TMUX", where[i].tmux, 1);
		s.vt.allow_strings = 1;
		CHECK(display_copy(s.d, text, 75001) < 0);
		for (size_t k = 0; k < LEN(sizes); k++) {
			struct str want = { 0 }, got = { 0 };
			char *p, *end;
			CHECK(!display_copy(s.d, text, sizes[k]));
			str_clear(&s.vt.clipboard);
			pty_to_vt(&s.pty, &s.vt);
			str_adds(&s.vt.clipboard, "");
			p = s.vt.clipboard.p;
			CHECK(!strchr(p, '?'));
			if (i == 1) { /* in GNU screen: the text is cut into parts, each in a separate control string */
				CHECK(!strncmp(p, "\33P", 2));
				for (size_t b = 2; b < s.vt.clipboard.n; b++) {
					if (b + 4 <= s.vt.clipboard.n && !memcmp(p + b, "\33\\\33P", 4))
						b += 3;
					else
						str_add(&want, p + b, 1);
				}
				for (char *part = p; part; part = strstr(part + 1, "\33P")) {
					char *stop = strstr(part, "\33\\");
					CHECK(stop && stop - part < 700);
				}
				p = want.p;
				end = strstr(p, "\a\33\\");
			} else {
				end = strchr(p, '\a');
			}
			CHECK(end && !strncmp(p, "\33]52;c;", 7));
			if (!end)
				break;
			decode_base64(p + 7, (size_t)(end - p - 7), &got);
			CHECK(got.n == sizes[k] && (!got.n || !memcmp(got.p, text, got.n)));
			/* In tmux the sequence is sent again, wrapped, for the terminal around it. */
			if (i >= 2) {
				CHECK(!strncmp(end + 1, "\33Ptmux;\33\33]52;c;", 15));
				CHECK(!strncmp(end + 16, p + 7, (size_t)(end - p - 7)));
				CHECK(!strcmp(end + 16 + (end - p - 7), "\a\33\\"));
			} else if (i == 0) {
				CHECK(!end[1]);
			}
			str_free(&want);
			str_free(&got);
		}
		show_close(&s);
	}
	unsetenv("TMUX");
}

TEST(reset_string)
{
	static const char set[] = "\33[?1049h\33[?2004h\33[?1000h\33[?1006h\33[?25l\33[1;31;44m";
	struct vt v = { 0 };

	vt_size(&v, 10, 3);
	allow_terminfo(&v, "xterm-256color");
	vt_feed(&v, set, strlen(set));
	vt_feed(&v, display_reset(), strlen(display_reset()));
	CHECK_MSG(!v.bad[0], "%s", v.bad);
	CHECK(!v.alternate && !v.paste && !v.mouse && !v.hidden && !v.frame && !v.pen.attrs && v.pen.fg == -1 &&
	      v.pen.bg == -1);
	CHECK(strlen(display_reset()) < 100);
	vt_free(&v);
}

/* The terminal was closed: calls fail, but do not retry without end. */
TEST(terminal_gone)
{
	struct show s;
	double start;

	show_open(&s, "xterm-256color", "xterm-256color", 120, 40, 1);
	display_show(s.d, &s.g);
	pty_stop_reader(&s.pty);
	close(s.pty.master);
	start = cpu_seconds();
	for (int i = 0; i < 50; i++) {
		random_change(&s.g, 300);
		display_show(s.d, &s.g);
		display_mouse(s.d, i & 1);
		display_copy(s.d, "text", 4);
		display_repaint(s.d);
	}
	display_pause(s.d);
	display_resume(s.d);
	display_show(s.d, &s.g);
	display_close(s.d);
	CHECK(cpu_seconds() - start < 1 * test_patience());
	close(s.pty.fd);
	str_free(&s.pty.got);
	vt_free(&s.vt);
	grid_free(&s.g);
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

TEST(time_of_a_frame)
{
	enum { N = 101 };
	struct show s;
	double full[N], line[N], same[N];
	struct area a;

	show_open(&s, "xterm-256color", "xterm-256color", 120, 40, 1);
	a = area_of(&s.g);
	for (int i = 0; i < N; i++) {
		double start;
		for (int y = 0; y < 40; y++)
			for (int x = 0; x < 120; x++)
				area_cell(&a, x, y, '!' + (x * 7 + y * 3 + i) % 90, (unsigned)((x / 8 + y) % ST_COUNT),
				          0);
		start = now_seconds();
		display_show(s.d, &s.g);
		full[i] = now_seconds() - start;
		area_putf(&a, 0, 20, ST_TEXT, "%-120d", i);
		start = now_seconds();
		display_show(s.d, &s.g);
		line[i] = now_seconds() - start;
		start = now_seconds();
		display_show(s.d, &s.g);
		same[i] = now_seconds() - start;
	}
	check_screen(&s, "dusk", 256);
	qsort(full, N, sizeof *full, by_size);
	qsort(line, N, sizeof *line, by_size);
	qsort(same, N, sizeof *same, by_size);
	test_note("120x40: all cells %.2f ms, one line %.3f ms, nothing %.4f ms (median of %d)", full[N / 2] * 1e3,
	          line[N / 2] * 1e3, same[N / 2] * 1e3, N);
	CHECK(line[N / 2] < full[N / 2] / 3 && same[N / 2] < full[N / 2] / 3);
	show_close(&s);
}

/* ---- in tmux ---- */

static void draw_for_tmux(struct grid *g, int step)
{
	/* clang-format off */
	static const char *const texts[] = {
		"plain words", "漢字 kanji, 한글 hangul", "emoji 👍 😀 👍🏽 🎉 ❤\ufe0f end", "marks: e\u0301 n\u0303 a\u0301\u0302x", "ไทย ภาษา", "हिन्दी text",
		"box ┌──┐ │▒▓█▀▄│ └──┘", "עברית", "fullwidth ＡＢＣ", "½ ½ ± × ÷ … “x”",
	};
	/* clang-format on */
	struct area a = area_of(g);

	area_clear(&a, ST_TEXT);
	for (int i = 0; i < 10; i++)
		area_text(&a, (i * step) % 7, i, (unsigned)(i % ST_COUNT), texts[(i + step) % 10],
		          strlen(texts[(i + step) % 10]));
	for (int i = 0; i < 10; i++)
		area_text(&a, 28 + (i * 3 + step) % 20, i, ST_CODE, "x漢👍y", strlen("x漢👍y"));
	area_text(&a, 47, 11, ST_TEXT, "漢漢", 6); /* only one of the two fits */
	area_fill(&a, 0, 12, 50, ST_STATUS, ' ');
	area_putf(&a, 1, 12, ST_STATUS_STRONG, "picture %d", step);
	area_cell(&a, 49, 12, '|', ST_STATUS, 0);
}

enum { PICTURES = 6 };

/* This program inside tmux: shows a picture, and the next one for every byte that it reads. */
__attribute__((constructor)) static void helper(void)
{
	struct display *d;
	struct grid g = { 0 };
	struct err e = { 0 };
	char b;

	if (!getenv("WEIR_DISPLAY_HELPER"))
		return;
	setlocale(LC_CTYPE, "C.UTF-8");
	if (display_open(&d, 0, &(struct display_options){ .color = 1 }, &e)) {
		printf("%s\n", e.msg);
		fflush(stdout);
		sleep(600);
		_exit(1);
	}
	grid_resize(&g, 50, 13);
	for (int step = 0; step < PICTURES; step++) {
		draw_for_tmux(&g, step);
		display_show(d, &g);
		if (read(0, &b, 1) != 1)
			break;
	}
	display_close(d);
	grid_free(&g);
	/* The screen from before the program is shown again. */
	printf("left\n");
	fflush(stdout);
	sleep(600); /* until the terminal is closed */
	_exit(0);
}

static void run(struct str *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void run(struct str *out, const char *fmt, ...)
{
	char command[1000], buf[4096];
	va_list ap;
	size_t n;
	FILE *f;

	va_start(ap, fmt);
	vsnprintf(command, sizeof command, fmt, ap);
	va_end(ap);
	if (out) {
		str_clear(out);
		str_adds(out, "");
	}
	f = popen(command, "r");
	CHECK(f != NULL);
	while (f && (n = fread(buf, 1, sizeof buf, f)) > 0)
		if (out)
			str_add(out, buf, n);
	if (f)
		pclose(f);
}

/* Repeat tmux capture-pane until it prints `want` or time is over. */
static void capture(const char *socket, const char *want, struct str *got)
{
	double until = now_seconds() + 120 * test_patience();

	do {
		nanosleep(&(struct timespec){ .tv_nsec = 30000000 }, NULL);
		run(got, "tmux -u -L %s capture-pane -p 2>&1", socket);
	} while (strcmp(got->p, want) && now_seconds() < until);
}

TEST(in_tmux)
{
	char socket[64], self[512];
	struct grid g = { 0 };
	struct str got = { 0 }, want = { 0 };
	ssize_t n;

	run(&got, "tmux -V 2>/dev/null");
	if (strncmp(got.p, "tmux", 4)) {
		str_free(&got);
		SKIP("tmux is not installed");
	}
	n = readlink("/proc/self/exe", self, sizeof self - 1);
	CHECK(n > 0);
	self[MAX(n, 0)] = 0;
	snprintf(socket, sizeof socket, "weir-test-%d", (int)getpid());
	setenv("LC_ALL", "C.UTF-8", 1);
	unsetenv("TMUX");
	run(NULL,
	    "tmux -u -L %s -f /dev/null new-session -d -x 50 -y 13 \"exec env WEIR_DISPLAY_HELPER=1 '%s'\" \\; set -g status off \\; "
	    "resize-window -x 50 -y 13 2>&1",
	    socket, self);
	grid_resize(&g, 50, 13);
	for (int step = 0; step < PICTURES; step++) {
		draw_for_tmux(&g, step);
		str_clear(&want);
		grid_dump(&g, 0, &want);
		capture(socket, want.p, &got);
		CHECK_STR(got.p, want.p);
		run(NULL, "tmux -u -L %s send-keys x 2>&1", socket);
	}
	capture(socket, "left\n\n\n\n\n\n\n\n\n\n\n\n\n", &got);
	CHECK_STR(got.p, "left\n\n\n\n\n\n\n\n\n\n\n\n\n");
	run(NULL, "tmux -u -L %s kill-server 2>&1", socket);
	unsetenv("LC_ALL");
	grid_free(&g);
	str_free(&got);
	str_free(&want);
}
