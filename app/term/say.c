/* app/term/say.c - prints errors, notices and output. Control characters are removed from text that is not weir's own
 * (clean_*). */
#include "app/term/term.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int exit_code(enum err_code code)
{
	switch (code) {
	case ERR_NONE:
	case ERR_FAIL: return 1;
	case ERR_USAGE: return 2;
	case ERR_MODEL: return 3;
	case ERR_DOCUMENT: return 4;
	case ERR_FIT: return 5;
	case ERR_CANCELLED: return 130;
	}
	return 1;
}

int write_all(int fd, const char *bytes, size_t n)
{
	while (n) {
		ssize_t got = write(fd, bytes, n);
		if (got < 0) {
			if (errno == EINTR && !signals_stopped())
				continue;
			return -1;
		}
		bytes += got;
		n -= (size_t)got;
	}
	return 0;
}

void say_error(const struct err *e)
{
	struct str line = { 0 }, wrapped = { 0 };

	/* An error without a text means that nobody reads standard output any more (`weir | head`): print nothing. */
	if (e->code == ERR_FAIL && !e->msg[0])
		return;
	str_adds(&line, "weir: ");
	clean_line(e->msg, strlen(e->msg), &line);
	str_adds(&line, "\n");
	terminal_wrap(2, line.p, line.n, &wrapped);
	output_break();
	write_all(2, wrapped.p, wrapped.n);
	str_free(&line);
	str_free(&wrapped);
}

int fail(const struct err *e)
{
	say_error(e);
	return exit_code(e->code);
}

static say_fn *sink;
static void *sink_ud;

void say_to(say_fn *fn, void *ud)
{
	sink = fn;
	sink_ud = ud;
}

/* The last lines that say() wrote to standard error. When the full screen opens, it covers these lines; so it shows
 * them again itself. No lock is needed, because only the main thread calls say() before a screen opens. */
enum { AGAIN_MOST = 20 };
static struct {
	char *line[AGAIN_MOST];
	size_t n;
} again;

static void again_add(const char *text, size_t n)
{
	size_t at = again.n++ % AGAIN_MOST;

	free(again.line[at]);
	again.line[at] = xstrndup(text, n);
}

void say_again(say_fn *fn, void *ud)
{
	for (size_t i = again.n > AGAIN_MOST ? again.n - AGAIN_MOST : 0; i < again.n; i++)
		fn(again.line[i % AGAIN_MOST], strlen(again.line[i % AGAIN_MOST]), ud);
	for (size_t i = 0; i < AGAIN_MOST; i++) {
		free(again.line[i]);
		again.line[i] = NULL;
	}
	again.n = 0;
}

int said_elsewhere(void)
{
	return sink != NULL;
}

static void write_line(const char *text, size_t n)
{
	struct str line = { 0 }, wrapped = { 0 };

	clean_line(text, n, &line);
	str_adds(&line, "\n");
	terminal_wrap(2, line.p, line.n, &wrapped);
	output_break();
	write_all(2, wrapped.p, wrapped.n);
	str_free(&line);
	str_free(&wrapped);
}

void say(const char *fmt, ...)
{
	char *text = NULL;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	if (sink) {
		sink(text, (size_t)n, sink_ud);
	} else {
		again_add(text, (size_t)n);
		write_line(text, (size_t)n);
	}
	free(text);
}

void say_once(const char *fmt, ...)
{
	char *text = NULL;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	write_line(text, (size_t)n);
	free(text);
}

void say_lines(const struct str *lines)
{
	const char *p = lines->p;

	for (const char *end; p && *p; p = *end ? end + 1 : end) {
		end = strchrnul(p, '\n');
		say("%.*s", (int)(end - p), p);
	}
}

int print_all(const char *bytes, size_t n, struct err *e)
{
	if (!write_all(1, bytes, n))
		return 0;
	if (errno == EINTR)
		return err_set(e, ERR_CANCELLED, "stopped");
	if (errno == EPIPE) {
		/* nobody reads standard output any more: return no message (see say_error()) */
		if (e)
			*e = (struct err){ .code = ERR_FAIL };
		return -1;
	}
	return err_set(e, ERR_FAIL, "cannot write to standard output: %s", strerror(errno));
}

int print_json(const struct str *line, struct err *e)
{
	struct clean clean;
	struct str out = { 0 };
	int rc;

	if (!isatty(1))
		return print_all(line->p, line->n, e);
	clean_init(&clean, 0);
	clean_text(&clean, line->p, line->n, &out);
	clean_end(&clean, &out);
	rc = print_all(out.p, out.n, e);
	str_free(&out);
	return rc;
}
