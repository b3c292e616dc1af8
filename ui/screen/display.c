/* ui/screen/display.c - a terminal that shows a grid of cells: opening, closing, modes, clipboard. display_show.c
 * draws.
 *
 * ncurses computes changes and control sequences. It is started by newterm(), because initscr() exits on unsuitable
 * terminals. newterm() installs signal handlers; start_curses() restores the previous handlers. Keypad mode is off and
 * raw mode on, so that ui/screen/keys.c gets all bytes. ncurses gets its screen size from the grid, so that picture and
 * size change together. A character is replaced if the C library and char_width() disagree about its width; otherwise
 * it would shift the rest of the row.
 *
 * After the terminal is lost, all functions do nothing. */
#include "ui/screen/display_private.h"

#include <term.h>

#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* maximum length of the base64 text in bytes, because many terminals limit the length of a control string */
#define COPY_MAX       100000
#define PATIENCE_MS    2000 /* number of milliseconds to wait for a terminal that accepts no bytes */

/* ask for the background colour; if the terminal answers, keys.c reports K_BACKGROUND */
#define ASK_BACKGROUND "\33]11;?\a"
/* make the terminal report mouse buttons, and moves while a button is down */
#define MOUSE_ON       "\33[?1002h\33[?1006h"
#define MOUSE_OFF      "\33[?1006l\33[?1002l\33[?1000l"
#define CURSOR_ON      "\33[?25h"
#define COLOURS_OFF    "\33[m"
#define ALTERNATE_OFF  "\33[?1049l"

/* ---- bytes outside of ncurses ---- */

static void say_bytes(struct display *d, const char *s, size_t n)
{
	while (n && !d->lost) {
		ssize_t k = write(d->fd, s, n);
		if (k > 0) {
			s += k;
			n -= (size_t)k;
		} else if (k < 0 && errno == EAGAIN) {
			struct pollfd wait = { .fd = d->fd, .events = POLLOUT };
			if (poll(&wait, 1, PATIENCE_MS) == 0)
				return;
		} else if (!(k < 0 && errno == EINTR)) {
			d->lost = 1;
		}
	}
}

void display_say(struct display *d, const char *s)
{
	say_bytes(d, s, strlen(s));
}

/* The escape sequences that reset the terminal. display_reset_shows() sets the last one. It leaves the alternate screen
 * or, if the ui is inline, erases from the cursor's row to the end of the screen. */
static char reset[] = FRAME_OFF PASTE_OFF MOUSE_OFF CURSOR_ON COLOURS_OFF ALTERNATE_OFF;
enum { RESET_LAST = sizeof reset - sizeof ALTERNATE_OFF };

const char *display_reset(void)
{
	return reset;
}

void display_reset_shows(int inlined)
{
	const char *last = inlined ? "\r\33[J" : ALTERNATE_OFF;

	reset[RESET_LAST] = 0; /* keep the string valid at each step, because a signal handler may run here */
	memcpy(reset + RESET_LAST + 1, last + 1, strlen(last));
	reset[RESET_LAST] = last[0];
}

/* ---- which terminal ---- */

static int begins_with(const char *s, const char *prefix)
{
	return s && !strncmp(s, prefix, strlen(prefix));
}

/* 1 if the current terminfo entry has the string capability with this name. */
static int has_string(const char *name)
{
	const char *s = tigetstr(name);

	return s && s != (const char *)-1;
}

/* Check whether the terminal can position the cursor and clear the screen. Returns 1 if it can, 0 if it cannot, -1 if
 * terminfo does not know the terminal. */
static int terminal_can(const char *name)
{
	TERMINAL *current = cur_term;
	int status, can = -1;

	if (setupterm(name, -1, &status) == OK) {
		can = has_string("cup") && has_string("clear");
	} else if (status == 1) {
		can = 0; /* terminfo says that the terminal is a hardcopy terminal */
	}
	if (cur_term && cur_term != current) {
		TERMINAL *ours = set_curterm(current);
		del_curterm(ours);
	}
	return can;
}

/* Return the name of the terminfo entry to use for `term`; NULL: no entry is suitable. */
static const char *entry_for(const char *term)
{
	static const char *const hopeless[] = { "", "dumb", "unknown", "emacs", "network", "dialup" };
	const char *const candidate[] = { term, "xterm-256color", "vt100" };

	for (size_t i = 0; term && i < LEN(hopeless); i++)
		if (!strcmp(term, hopeless[i]))
			return NULL;
	for (size_t i = 0; term && i < LEN(candidate); i++) {
		int can = terminal_can(candidate[i]);
		if (can >= 0)
			return can ? candidate[i] : NULL;
	}
	return NULL;
}

int display_usable(const char *term)
{
	return entry_for(term) != NULL;
}

/* ---- opening and closing ---- */

static const int curses_signals[] = { SIGINT, SIGTERM, SIGTSTP, SIGWINCH };
enum { N_SIGNALS = LEN(curses_signals) };

/* Call newterm() and restore the signal handlers. */
static SCREEN *start_curses(const char *entry, FILE *out, FILE *in)
{
	struct sigaction before[N_SIGNALS];
	SCREEN *screen;

	for (int i = 0; i < N_SIGNALS; i++)
		sigaction(curses_signals[i], NULL, &before[i]);
	screen = newterm(entry, out, in);
	for (int i = 0; i < N_SIGNALS; i++)
		sigaction(curses_signals[i], &before[i], NULL);
	return screen;
}

static void start_colours(struct display *d)
{
	d->own_fg = d->own_bg = -1;
	if (!has_colors() || start_color() == ERR)
		return;
	if (use_default_colors() == ERR) {
		d->own_fg = COLOR_WHITE;
		d->own_bg = COLOR_BLACK;
	}
	/* Use 256 colours only if the terminal has exactly 256. If the terminal has more, ncurses takes colour numbers
	 * above 7 for RGB values, and only the first eight colours of the palette have numbers. */
	d->colours = COLORS == 256 ? 256 : COLORS >= 8 ? 8 : 0;
}

static void set_modes(struct display *d)
{
	struct termios t;

	raw();
	nonl();
	noecho();
	leaveok(stdscr, FALSE);
	scrollok(stdscr, FALSE);
	typeahead(-1); /* otherwise ncurses would delay drawing while input waits */
	/* turn off settings that would change the input bytes */
	if (!tcgetattr(d->fd, &t)) {
		t.c_iflag &= ~(tcflag_t)(INLCR | IGNCR | ICRNL | ISTRIP | IXON);
		t.c_cc[VMIN] = 1;
		t.c_cc[VTIME] = 0;
		tcsetattr(d->fd, TCSANOW, &t);
	}
	def_prog_mode();
}

/* Make the terminal blocking. With O_NONBLOCK, ncurses would retry a blocked write forever. */
static void set_blocking(struct display *d)
{
	if (d->flags >= 0 && (d->flags & O_NONBLOCK))
		fcntl(d->fd, F_SETFL, d->flags & ~O_NONBLOCK);
}

static void restore_flags(struct display *d)
{
	if (d->flags >= 0 && (d->flags & O_NONBLOCK))
		fcntl(d->fd, F_SETFL, d->flags);
}

static FILE *stream_of(int fd, const char *mode)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	FILE *f = copy < 0 ? NULL : fdopen(copy, mode);

	if (!f && copy >= 0)
		close(copy);
	return f;
}

static void display_free(struct display *d)
{
	free(d->entry);
	if (d->out)
		fclose(d->out);
	if (d->in)
		fclose(d->in);
	grid_free(&d->shown);
	grid_free(&d->flow.shown);
	grid_free(&d->flow.kept);
	free(d);
}

/* In GNU screen, an alternate screen exists only if the user has configured one: count it as missing. */
int terminal_has_alternate(void)
{
	const char *term = getenv("TERM"), *tmux = getenv("TMUX");

	return has_string("rmcup") && !(begins_with(term, "screen") && !(tmux && *tmux));
}

int display_start(struct display *d)
{
	set_blocking(d);
	d->screen = start_curses(d->entry, d->out, d->in);
	if (!d->screen) {
		restore_flags(d);
		return -1;
	}
	display_reset_shows(0);
	d->has_alternate = terminal_has_alternate();
	d->awkward_corner = tigetflag("am") > 0 && !has_string("rmam");
	d->attrs = term_attrs();
	d->cursor = -1;
	d->all = d->clear = 1;
	memset(d->pair, 0, sizeof d->pair);
	if (d->want_colours)
		start_colours(d);
	set_modes(d);
	resizeterm(d->shown.h, d->shown.w);
	/* Send the bytes that ncurses has buffered, so that they arrive before the bytes that display_say() sends. */
	delay_output(0);
	display_say(d, PASTE_ON);
	if (d->mouse)
		display_say(d, MOUSE_ON);
	return 0;
}

/* Close ncurses rather than suspend it, because resuming would reset the user's colour palette. */
void display_stop(struct display *d)
{
	set_term(d->screen);
	if (d->mouse)
		display_say(d, MOUSE_OFF);
	display_say(d, PASTE_OFF);
	if (!d->has_alternate) { /* if there is no alternate screen, clear the screen */
		erase();
		clearok(stdscr, TRUE);
		refresh();
	}
	curs_set(1);
	endwin();
	delscreen(d->screen);
	d->screen = NULL;
	tcsetattr(d->fd, TCSANOW, &d->before);
	restore_flags(d);
}

const char *display_library(void)
{
	return curses_version();
}

int display_open(struct display **out, int fd, const struct display_options *o, struct err *e)
{
	const char *term = getenv("TERM"), *entry = entry_for(term);
	struct display *d;
	int w, h;

	*out = NULL;
	if (!entry)
		return err_set(e, ERR_FAIL, "the terminal '%s' cannot show a full screen (TERM), use --line",
		               term ? term : "");
	d = xcalloc(1, sizeof *d);
	d->fd = fd;
	d->flags = fcntl(fd, F_GETFL);
	if (tcgetattr(fd, &d->before) || !(d->out = stream_of(fd, "w")) || !(d->in = stream_of(fd, "r"))) {
		display_free(d);
		return err_set(e, ERR_FAIL, "this is no terminal that can be read and written: %s, use --line",
		               strerror(errno));
	}
	d->entry = xstrndup(entry, strlen(entry));
	d->want_colours = o->color;
	d->utf8 = MB_CUR_MAX > 1 && !strcmp(nl_langinfo(CODESET), "UTF-8");
	d->theme = theme_find("", getenv("COLORFGBG"));
	display_size(d, &w, &h);
	grid_resize(&d->shown, w, h);
	flow_look_up(d);
	if (o->inlined && !d->flow.can) {
		display_free(d);
		return err_set(e, ERR_FAIL, "the terminal '%s' cannot move the cursor as --inline needs it (TERM)",
		               term);
	}
	if (o->inlined) {
		set_blocking(d);
		flow_begin(d);
	} else if (display_start(d)) {
		display_free(d);
		return err_set(e, ERR_FAIL, "the terminal '%s' cannot be set up, use --line", term);
	}
	if (o->ask_background && d->colours && strcmp(term, "linux") != 0)
		display_say(d, ASK_BACKGROUND);
	*out = d;
	return 0;
}

/* Restore the terminal for other programs. */
static void leave(struct display *d)
{
	if (d->screen)
		display_stop(d);
	else if (d->flow.on)
		flow_end(d);
	restore_flags(d);
}

void display_close(struct display *d)
{
	if (!d)
		return;
	if (!d->paused)
		leave(d);
	display_free(d);
}

void display_pause(struct display *d)
{
	int covered = d->screen != NULL;

	if (d->paused)
		return;
	leave(d);
	d->paused = covered ? PAUSED_SCREEN : PAUSED;
}

void display_resume(struct display *d)
{
	int w, h, was = d->paused;

	if (!was)
		return;
	d->paused = 0;
	display_size(d, &w, &h);
	grid_resize(&d->shown, w, h);
	if (was == PAUSED)
		set_blocking(d);
	else if (display_start(d))
		d->lost = 1; /* memory is short, or there is no terminfo entry: draw nothing more */
}

/* ---- small things ---- */

static int clamp_side(int v)
{
	return v < 1 ? 1 : MIN(SIDE_MAX, v);
}

void display_size(struct display *d, int *w, int *h)
{
	struct winsize size;

	*w = d->shown.w ? d->shown.w : 80;
	*h = d->shown.h ? d->shown.h : 24;
	if (!ioctl(d->fd, TIOCGWINSZ, &size) && size.ws_col && size.ws_row) {
		*w = clamp_side(size.ws_col);
		*h = clamp_side(size.ws_row);
	}
}

int display_utf8(const struct display *d)
{
	return d->utf8;
}

int display_colors(const struct display *d)
{
	return d->colours;
}

void display_repaint(struct display *d)
{
	d->all = d->clear = 1;
}

void display_mouse(struct display *d, int on)
{
	if (d->mouse == !!on)
		return;
	d->mouse = !!on;
	if (d->screen)
		display_say(d, on ? MOUSE_ON : MOUSE_OFF);
}

int display_theme(struct display *d, const char *name)
{
	const struct theme *t = theme_find(name, getenv("COLORFGBG"));

	if (!t)
		return -1;
	d->theme = t;
	d->all = 1;
	memset(d->pair, 0, sizeof d->pair);
	return 0;
}

/* ---- the clipboard ---- */

static void add_base64(struct str *out, const char *text, size_t n)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	for (size_t i = 0; i < n; i += 3) {
		unsigned v = (unsigned)(unsigned char)text[i] << 16;
		char four[4];

		if (i + 1 < n)
			v |= (unsigned)(unsigned char)text[i + 1] << 8;
		if (i + 2 < n)
			v |= (unsigned char)text[i + 2];
		four[0] = digits[v >> 18];
		four[1] = digits[v >> 12 & 63];
		four[2] = i + 1 < n ? digits[v >> 6 & 63] : '=';
		four[3] = i + 2 < n ? digits[v & 63] : '=';
		str_add(out, four, 4);
	}
}

int display_copy(struct display *d, const char *text, size_t n)
{
	const char *term = getenv("TERM"), *tmux = getenv("TMUX");
	int in_tmux = begins_with(term, "tmux") || (begins_with(term, "screen") && tmux && *tmux);
	struct str code = { 0 }, s = { 0 };

	if (n > COPY_MAX / 4 * 3)
		return -1;
	if (d->paused || d->lost)
		return 0;
	add_base64(&code, text, n);
	str_adds(&code, "");
	if (begins_with(term, "screen") && !in_tmux) {
		/* GNU screen passes on only control strings of at most about 700 bytes, so split the text into several
		 * strings */
		str_adds(&s, "\33P\33]52;c;");
		for (size_t i = 0, part; i < code.n; i += part) {
			part = code.n - i < 500 ? code.n - i : 500;
			if (i)
				str_adds(&s, "\33\\\33P");
			str_add(&s, code.p + i, part);
		}
		str_adds(&s, "\a\33\\");
	} else {
		/* Both control strings set the clipboard to the same text. tmux obeys the first one if "set-clipboard"
		 * is on, and passes on the second one if "allow-passthrough" is on. */
		str_addf(&s, "\33]52;c;%s\a", code.p);
		if (in_tmux)
			str_addf(&s, "\33Ptmux;\33\33]52;c;%s\a\33\\", code.p);
	}
	say_bytes(d, s.p, s.n);
	str_free(&code);
	str_free(&s);
	return 0;
}
