/* app/term/terminal.c - what the terminal behind a descriptor can show: width, colours. */
#include "app/term/term.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

size_t terminal_width(int fd)
{
	struct winsize size;

	/* Asked anew for every piece: the window may change at any time. */
	return ioctl(fd, TIOCGWINSZ, &size) < 0 ? 0 : size.ws_col;
}

void terminal_wrap(int fd, const char *text, size_t n, struct str *out)
{
	struct wrap wrap = {0};

	wrap_text(&wrap, isatty(fd) ? terminal_width(fd) : 0, text, n, out);
	wrap_free(&wrap);
}

int terminal_choose(const char *question, const char *letters)
{
	char line[256];

	for (;;) {
		size_t n = 0;
		char c = 0;

		write_all(2, question, strlen(question));
		/* Byte by byte: what is typed behind the answer belongs to the conversation. */
		while (read(0, &c, 1) == 1 && c != '\n')
			if (n < sizeof line)
				line[n++] = c;
		if (c != '\n')
			return 0;
		if (!n)
			return letters[0];
		if (strchr(letters, line[0] | 32) && (line[0] | 32))
			return line[0] | 32;
	}
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
