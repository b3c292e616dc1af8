/* tests/lib/pty.h - a pseudo terminal with a reader, a display on it, and the expected screen.
 *
 * A thread reads what the display writes. A small terminal emulator (vt.h) executes it: it accepts only the sequences
 * of the terminfo entry. The emulator's screen is compared with the grid. */
#ifndef WEIR_TEST_PTY_H
#define WEIR_TEST_PTY_H

#include "tests/lib/test.h"
#include "tests/lib/vt.h"
#include "ui/screen/grid.h"
#include "ui/screen/theme.h"

#include <curses.h>
#include <term.h>

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

/* ---- a pseudo terminal and a thread that reads its output ---- */

static const char mark[] = "\1here\1";

struct pty {
	int master, fd;
	pthread_t reader;
	pthread_mutex_t lock;
	struct str got; /* output since the last pty_take() */
	int stop[2];
	struct termios before;
};

static inline void *read_master(void *ud)
{
	struct pty *p = ud;
	struct pollfd wait[] = { { .fd = p->master, .events = POLLIN }, { .fd = p->stop[0], .events = POLLIN } };
	char buf[65536];

	while (poll(wait, 2, -1) > 0 && !wait[1].revents) {
		ssize_t n = read(p->master, buf, sizeof buf);
		if (n <= 0)
			break;
		pthread_mutex_lock(&p->lock);
		str_add(&p->got, buf, (size_t)n);
		pthread_mutex_unlock(&p->lock);
	}
	return NULL;
}

static inline void set_size(struct pty *p, int w, int h)
{
	struct winsize ws = { .ws_col = (unsigned short)w, .ws_row = (unsigned short)h };

	CHECK(!ioctl(p->fd, TIOCSWINSZ, &ws));
}

static inline void pty_open(struct pty *p, int w, int h)
{
	*p = (struct pty){ .lock = PTHREAD_MUTEX_INITIALIZER };
	p->master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (p->master < 0 || grantpt(p->master) || unlockpt(p->master))
		SKIP("no pseudo terminals here: %s", strerror(errno));
	p->fd = open(ptsname(p->master), O_RDWR | O_NOCTTY | O_CLOEXEC);
	CHECK(p->fd >= 0);
	CHECK(!pipe(p->stop));
	set_size(p, w, h);
	tcgetattr(p->fd, &p->before);
	pthread_create(&p->reader, NULL, read_master, p);
}

static inline void pty_stop_reader(struct pty *p)
{
	CHECK(write(p->stop[1], "", 1) == 1);
	pthread_join(p->reader, NULL);
	close(p->stop[0]);
	close(p->stop[1]);
}

static inline void pty_close(struct pty *p)
{
	pty_stop_reader(p);
	close(p->fd);
	close(p->master);
	str_free(&p->got);
}

/* Append all output so far to *out. */
static inline void pty_take(struct pty *p, struct str *out)
{
	double until = now_seconds() + 120 * test_patience();
	int done = 0;

	CHECK(write(p->fd, mark, sizeof mark - 1) == sizeof mark - 1);
	while (!done && now_seconds() < until) {
		pthread_mutex_lock(&p->lock);
		if (p->got.n >= sizeof mark - 1 &&
		    !memcmp(p->got.p + p->got.n - (sizeof mark - 1), mark, sizeof mark - 1)) {
			str_add(out, p->got.p, p->got.n - (sizeof mark - 1));
			str_clear(&p->got);
			done = 1;
		}
		pthread_mutex_unlock(&p->lock);
		if (!done)
			nanosleep(&(struct timespec){ .tv_nsec = 200000 }, NULL);
	}
	CHECK_MSG(done, "what was written did not arrive");
}

static inline void pty_to_vt(struct pty *p, struct vt *v)
{
	struct str got = { 0 };

	pty_take(p, &got);
	vt_feed(v, str_text(&got), got.n);
	str_free(&got);
}

static inline int same_modes(const struct termios *a, const struct termios *b)
{
	return a->c_iflag == b->c_iflag && a->c_oflag == b->c_oflag && a->c_cflag == b->c_cflag &&
	       a->c_lflag == b->c_lflag && !memcmp(a->c_cc, b->c_cc, sizeof a->c_cc);
}

static inline void check_modes_restored(struct pty *p)
{
	struct termios now;

	tcgetattr(p->fd, &now);
	CHECK(same_modes(&now, &p->before));
}

/* ---- the allowed control sequences ---- */

static const char *cap(const char *name)
{
	const char *s = tigetstr(name);

	return s == (const char *)-1 ? NULL : s;
}

/* Allow the sequences of a terminfo entry. Returns 1 if automatic margins can be switched off. */
static inline int allow_terminfo(struct vt *v, const char *entry)
{
	static const char *const plain[] = {
		"cuu1", "cud1", "cuf1", "cub1",  "home",  "clear", "ed",    "el",    "el1",  "ich1", "dch1", "il1",
		"dl1",  "ind",  "ri",   "smcup", "rmcup", "civis", "cnorm", "cvvis", "sgr0", "op",   "bold", "dim",
		"rev",  "smul", "rmul", "sitm",  "ritm",  "smso",  "rmso",  "smam",  "rmam", "sc",   "rc",   "smir",
		"rmir", "ht",   "cbt",  "cr",    "nel",   "enacs", "rmacs", "smacs", "rmkx",
	};
	static const char *const with_numbers[] = {
		"cup", "hpa", "vpa", "cuu", "cud",  "cuf", "cub",   "ech",   "ich",
		"dch", "il",  "dl",  "csr", "indn", "rin", "setaf", "setab", "rep",
	};
	TERMINAL *before = cur_term;
	int status, margins;

	CHECK(setupterm(entry, -1, &status) == OK);
	margins = cap("rmam") != NULL;
	v->bce = tigetflag("bce") > 0;
	for (size_t i = 0; i < LEN(plain); i++)
		vt_allow(v, cap(plain[i]));
	for (size_t i = 0; i < LEN(with_numbers); i++)
		if (cap(with_numbers[i]))
			vt_allow(v, tparm(cap(with_numbers[i]), 65L, 66L, 0L, 0L, 0L, 0L, 0L, 0L, 0L));
	for (int bits = 0; cap("sgr") && bits < 64; bits++)
		vt_allow(v, tparm(cap("sgr"), 0L, (long)(bits & 1), (long)(bits >> 1 & 1), 0L, (long)(bits >> 2 & 1),
		                  (long)(bits >> 3 & 1), 0L, 0L, 0L));
	del_curterm(set_curterm(before));
	/* Allow the modes that display.c sets itself. */
	vt_allow(v, "\33[?0h\33[?0l");
	return margins;
}

/* ---- a display on it ---- */

struct show {
	struct pty pty;
	struct vt vt;
	struct display *d;
	struct grid g;
	int utf8, awkward_corner; /* as in struct display */
	/* hides_cursor: 1 = the terminfo entry can hide the cursor; alternates: 1 = it can switch to the alternate
	 * screen */
	int hides_cursor, alternates;
};

static inline void show_open(struct show *s, const char *term, const char *entry, int w, int h, int color)
{
	struct err e = { 0 };

	*s = (struct show){ .utf8 = 1 };
	setlocale(LC_CTYPE, "C.UTF-8");
	unsetenv("COLORFGBG");
	unsetenv("TMUX");
	setenv("TERM", term, 1);
	pty_open(&s->pty, w, h);
	vt_size(&s->vt, w, h);
	s->awkward_corner = !allow_terminfo(&s->vt, entry);
	s->hides_cursor = strcmp(entry, "vt100") != 0;
	s->alternates = strcmp(entry, "vt100") && strcmp(entry, "linux");
	CHECK_MSG(!display_open(&s->d, s->pty.fd, &(struct display_options){ .color = color }, &e), "%s", e.msg);
	grid_resize(&s->g, w, h);
}

static inline void show_close(struct show *s)
{
	display_close(s->d);
	pty_to_vt(&s->pty, &s->vt);
	CHECK_MSG(!s->vt.bad[0], "%s", s->vt.bad);
	CHECK(!s->vt.alternate && !s->vt.paste && !s->vt.mouse && !s->vt.frame && !s->vt.hidden && !s->vt.insert &&
	      !s->vt.no_margin);
	CHECK(s->vt.pen.fg == -1 && s->vt.pen.bg == -1 && !s->vt.pen.attrs);
	for (int i = 0; !s->alternates && i < s->vt.w * s->vt.h; i++)
		CHECK(s->vt.cell[i].cp == ' ' && s->vt.cell[i].pen.bg == -1 && !s->vt.cell[i].pen.attrs);
	check_modes_restored(&s->pty);
	pty_close(&s->pty);
	vt_free(&s->vt);
	grid_free(&s->g);
}

static inline void describe_cell(char *out, size_t cap_out, const struct vt_cell *c)
{
	snprintf(out, cap_out, "U+%04X+%X (%d columns, %d on %d, attributes %d)", (unsigned)c->cp, (unsigned)c->mark[0],
	         c->width, c->pen.fg, c->pen.bg, c->pen.attrs);
}

/* Return how the terminal must show a cell of the grid. */
static inline struct vt_cell expected(const struct show *s, const struct cell *c, const struct theme *theme,
                                      int colours)
{
	int corner = s->awkward_corner && c->width == 2 && c == s->g.cell + s->g.w * s->g.h - 3;
	struct look look = theme_look(theme, c->style, c->back, colours);
	struct vt_cell want = { .cp = c->cp, .width = c->width, .pen = { look.fg, look.bg, look.attrs } };
	int n = 0,
	    known = !corner && c->cp >= 0x20 && (c->cp < 0x7f || (s->utf8 && wcwidth((wchar_t)c->cp) == c->width));

	if (!known) {
		want.cp = s->utf8 ? 0xfffd : '?';
		want.width = 1;
	}
	for (int i = 0; known && s->utf8 && i < CLEAN_MARKS_MAX && c->mark[i]; i++)
		if (!wcwidth((wchar_t)c->mark[i]))
			want.mark[n++] = c->mark[i];
	return want;
}

/* Check that the terminal shows the grid. colours < 0: compare only the text. */
static inline void check_screen(struct show *s, const char *theme_name_, int colours)
{
	const struct theme *theme = theme_find(theme_name_, NULL);
	int bad = 0;

	pty_to_vt(&s->pty, &s->vt);
	CHECK_MSG(!s->vt.bad[0], "%s", s->vt.bad);
	CHECK(!s->vt.frame && !s->vt.held.n);
	CHECK_INT(s->vt.hidden, s->hides_cursor && s->g.cursor_y < 0);
	if (s->g.cursor_y >= 0)
		CHECK_MSG(s->vt.x == s->g.cursor_x && s->vt.y == s->g.cursor_y, "the cursor is at %d,%d", s->vt.x,
		          s->vt.y);
	for (int y = 0; y < s->g.h; y++) {
		for (int x = 0; x < s->g.w && bad < 4; x++) {
			const struct cell *c = &s->g.cell[y * s->g.w + x];
			const struct vt_cell *got = &s->vt.cell[y * s->vt.w + x];
			struct vt_cell want;
			char a[100], b[100];
			int right_half = !c->width && x;

			want = expected(s, right_half ? c - 1 : c, theme, MAX(0, colours));
			if (right_half) {
				want.cp = want.width == 2 ? 0 : ' ';
				want.width = want.cp ? 1 : 0;
				memset(want.mark, 0, sizeof want.mark);
			}
			if (got->cp == want.cp && got->width == want.width &&
			    !memcmp(got->mark, want.mark, sizeof got->mark)) {
				uint8_t attrs = colours < 0 ? 0 : got->pen.attrs ^ want.pen.attrs;
				int fg = colours >= 0 && got->pen.fg != want.pen.fg,
				    bg = colours >= 0 && got->pen.bg != want.pen.bg;
				if (want.cp == ' ') { /* the text attributes and colour of a blank are invisible */
					attrs &= VT_UNDER | VT_REVERSE;
					fg = fg && (want.pen.attrs & VT_REVERSE);
				}
				if (!attrs && !fg && !bg)
					continue;
			}
			bad++;
			describe_cell(a, sizeof a, got);
			describe_cell(b, sizeof b, &want);
			test_fail(__FILE__, __LINE__, "at %d,%d of %dx%d: %s, expected %s", x, y, s->g.w, s->g.h, a, b);
		}
	}
}

#endif
