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
