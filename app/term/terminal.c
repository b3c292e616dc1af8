/* app/term/terminal.c - finds the terminal's width and colours, and asks questions that one key answers. */
#include "app/term/term.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

size_t terminal_width(int fd)
{
	struct winsize size;

	/* do not cache the width: the window's size may change at any time */
	return ioctl(fd, TIOCGWINSZ, &size) < 0 ? 0 : size.ws_col;
}

void terminal_wrap(int fd, const char *text, size_t n, struct str *out)
{
	struct wrap wrap = { 0 };

	wrap_text(&wrap, isatty(fd) ? terminal_width(fd) : 0, text, n, out);
	wrap_free(&wrap);
}

int terminal_choose(const char *question, const char *letters)
{
	struct str wrapped = { 0 };
	struct termios was, keys;
	int terminal = !tcgetattr(0, &was), answer = 0;
	char c;

	terminal_wrap(2, question, strlen(question), &wrapped);
	str_adds(&wrapped, " "); /* the wrap drops the blank that ends the question */
	write_all(2, str_text(&wrapped), wrapped.n);
	str_free(&wrapped);
	if (terminal) {
		signals_save_terminal(0, "");
		keys = was;
		keys.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
		keys.c_cc[VMIN] = 1;
		keys.c_cc[VTIME] = 0;
		tcsetattr(0, TCSANOW, &keys);
	}
	/* read one byte at a time: the bytes after the answer are meant for the chat */
	while (!answer && read(0, &c, 1) == 1 && c != 4) {
		if (c == '\n' || c == '\r')
			answer = letters[0];
		else if (c && strchr(letters, c | 32))
			answer = c | 32;
	}
	if (terminal)
		tcsetattr(0, TCSANOW, &was);
	write_all(2, (char[]){ (char)(answer ? answer : ' '), '\n' }, 2);
	return answer;
}

int terminal_is_dumb(void)
{
	const char *term = getenv("TERM");

	return !term || !*term || !strcmp(term, "dumb");
}

int color_wanted(const char *when, int fd)
{
	const char *no_color = getenv("NO_COLOR");

	if (!strcmp(when, "always"))
		return 1;
	if (!strcmp(when, "never"))
		return 0;
	return isatty(fd) && !terminal_is_dumb() && !(no_color && *no_color);
}
