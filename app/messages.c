/* app/messages.c - errors, notices and output: every foreign byte leaves through clean_*(). */
#include "app/app.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "app/output.h"
#include "ui/ui.h"

int exit_code(enum err_code code)
{
	switch (code) {
	case ERR_NONE:
	case ERR_FAIL:      return 1;
	case ERR_USAGE:     return 2;
	case ERR_MODEL:     return 3;
	case ERR_DOCUMENT:  return 4;
	case ERR_FIT:       return 5;
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
	struct str line = {0}, wrapped = {0};

	/* The reader of our output has gone: there is no one left to tell. */
	if (e->code == ERR_FAIL && !e->msg[0])
		return;
	str_adds(&line, "weir: ");
	clean_line(e->msg, strlen(e->msg), &line);
	str_adds(&line, "\n");
	terminal_wrap(2, line.p, line.n, &wrapped);
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

int said_elsewhere(void)
{
	return sink != NULL;
}

void say(const char *fmt, ...)
{
	struct str line = {0}, wrapped = {0};
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
		free(text);
		return;
	}
	clean_line(text, (size_t)n, &line);
	str_adds(&line, "\n");
	terminal_wrap(2, line.p, line.n, &wrapped);
	write_all(2, wrapped.p, wrapped.n);
	free(text);
	str_free(&line);
	str_free(&wrapped);
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
		/* `weir ... | head`: not worth a message */
		if (e)
			*e = (struct err){.code = ERR_FAIL};
		return -1;
	}
	return err_set(e, ERR_FAIL, "cannot write to standard output: %s", strerror(errno));
}

int print_json(const struct str *line, struct err *e)
{
	struct clean clean;
	struct str out = {0};
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

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
void json_number(struct str *out, double v, const char *fmt)
{
	if (isfinite(v))
		str_addf(out, fmt, v);
	else
		str_adds(out, "null");
}
#pragma GCC diagnostic pop

void human_count(struct str *out, uint64_t n)
{
	char digits[24];
	int len = snprintf(digits, sizeof digits, "%llu", (unsigned long long)n);

	for (int i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			str_adds(out, ",");
		str_add(out, digits + i, 1);
	}
}

void human_bytes(struct str *out, uint64_t n)
{
	static const char *unit[] = {"B", "KiB", "MiB", "GiB", "TiB"};
	double v = (double)n;
	int u = 0;

	while (v >= 1024 && u < 4) {
		v /= 1024;
		u++;
	}
	str_addf(out, u && v < 100 ? "%.1f %s" : "%.0f %s", v, unit[u]);
}

/* Bytes of the character at p, which has been cleaned: valid UTF-8. */
static size_t char_bytes(const char *p)
{
	size_t n = 1;

	while (((unsigned char)p[n] & 0xc0) == 0x80)
		n++;
	return n;
}

void table_cell(struct str *out, const char *text, size_t width)
{
	struct str clean = {0};
	const char *p;
	size_t used = 0, all;

	clean_line(text, strlen(text), &clean);
	p = clean.p ? clean.p : "";
	all = text_width(p, clean.n);
	for (size_t n, w; *p; p += n, used += w) {
		n = char_bytes(p);
		w = text_width(p, n);
		if (used + w > (all > width && width > 3 ? width - 3 : width))
			break;
		str_add(out, p, n);
	}
	if (all > width && width > 3) {
		str_adds(out, "...");
		used += 3;
	}
	for (; used < width; used++)
		str_adds(out, " ");
	str_free(&clean);
}

void human_age(struct str *out, int64_t then)
{
	int64_t ago = (int64_t)time(NULL) - then;
	time_t at = (time_t)then;
	struct tm day;

	if (ago < 60)
		str_adds(out, "now");
	else if (ago < 3600)
		str_addf(out, "%d min ago", (int)(ago / 60));
	else if (ago < 48 * 3600)
		str_addf(out, "%d h ago", (int)(ago / 3600));
	else if (ago < 30 * 86400)
		str_addf(out, "%d days ago", (int)(ago / 86400));
	else if (localtime_r(&at, &day))
		str_addf(out, "%04d-%02d-%02d", day.tm_year + 1900, day.tm_mon + 1, day.tm_mday);
}
