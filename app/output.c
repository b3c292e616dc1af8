/* app/output.c - see output.h. */
#include "app/output.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "app/app.h"

void output_init(struct output *out, const struct options *o)
{
	*out = (struct output){.filter = !o->raw || isatty(1), .to_terminal = isatty(1)};
	clean_init(&out->clean, 0);
}

void output_free(struct output *out)
{
	str_free(&out->held);
	str_free(&out->ready);
	wrap_free(&out->wrap);
}

static int output_ready(struct output *out, struct err *e)
{
	int rc;

	if (!out->ready.n)
		return 0;
	out->mid_line = out->ready.p[out->ready.n - 1] != '\n';
	if (out->to_terminal) {
		struct str wrapped = {0};
		wrap_text(&out->wrap, terminal_width(1), out->ready.p, out->ready.n, &wrapped);
		rc = wrapped.n ? print_all(wrapped.p, wrapped.n, e) : 0;
		str_free(&wrapped);
	} else {
		rc = print_all(out->ready.p, out->ready.n, e);
	}
	str_clear(&out->ready);
	out->broken |= rc < 0;
	return rc;
}

int output_text(struct output *out, const char *bytes, size_t n, struct err *e)
{
	if (out->filter) {
		clean_text(&out->clean, bytes, n, &out->ready);
	} else {
		size_t whole;
		str_add(&out->held, bytes, n);
		whole = out->held.n ? utf8_complete(out->held.p, out->held.n) : 0;
		str_add(&out->ready, out->held.p, whole);
		if (whole) {
			memmove(out->held.p, out->held.p + whole, out->held.n - whole);
			out->held.n -= whole;
		}
	}
	return output_ready(out, e);
}

int output_end(struct output *out, struct err *e)
{
	if (out->filter) {
		clean_end(&out->clean, &out->ready);
	} else if (out->held.n) {
		str_adds(&out->ready, "\xef\xbf\xbd");
		str_clear(&out->held);
	}
	if (out->ready.n ? out->ready.p[out->ready.n - 1] != '\n' : out->mid_line)
		str_adds(&out->ready, "\n");
	if (output_ready(out, e) < 0)
		return -1;
	out->mid_line = 0;
	return 0;
}

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

static int terminal_is_dumb(void)
{
	const char *term = getenv("TERM");

	return !term || !*term || !strcmp(term, "dumb");
}

int color_wanted(const struct options *o, int fd)
{
	const char *no_color = getenv("NO_COLOR");

	if (!strcmp(o->color, "always"))
		return 1;
	if (!strcmp(o->color, "never"))
		return 0;
	return isatty(fd) && !terminal_is_dumb() && !(no_color && *no_color);
}

/* ---- progress ---- */

void progress_init(struct progress *p, const struct options *o, const char *verb, const char *unit)
{
	*p = (struct progress){.verb = verb, .unit = unit};
	p->on = !o->quiet && isatty(2) && !said_elsewhere();
	p->lines = !o->quiet && !p->on && o->verbose && !said_elsewhere();
}

static void add_time(struct str *s, double seconds)
{
	if (seconds < 90)
		str_addf(s, "%.0f s", seconds);
	else
		str_addf(s, "%d min %d s", (int)(seconds / 60), (int)seconds % 60);
}

void progress_show(struct progress *p, int64_t done, int64_t total)
{
	double now = now_seconds(), rate;
	struct str s = {0};

	if (!p->on && !p->lines)
		return;
	if (!p->started) {
		p->started = 1;
		p->start = now;
		p->first = done;
	}
	/* What is over in a moment needs no line, and ten lines a second are enough. */
	if (now - p->start < 0.25 || now - p->last < (p->on ? 0.1 : 1.0) || total <= 0)
		return;
	p->last = now;
	if (p->on)
		str_adds(&s, terminal_is_dumb() ? "\r" : "\r\033[K");
	str_addf(&s, "%s ", p->verb);
	human_count(&s, (uint64_t)done);
	str_adds(&s, "/");
	human_count(&s, (uint64_t)total);
	str_addf(&s, " %s  %d%%", p->unit, (int)(100 * done / total));
	rate = (double)(done - p->first) / (now - p->start);
	if (rate > 0) {
		if (!strcmp(p->unit, "tokens"))
			str_addf(&s, "  %.0f t/s", rate);
		str_adds(&s, "  ");
		add_time(&s, (double)(total - done) / rate);
		str_adds(&s, " left");
	}
	/* A dumb terminal cannot erase: blanks over what a longer line left. */
	str_adds(&s, !p->on ? "\n" : terminal_is_dumb() ? "      " : "");
	write_all(2, s.p, s.n);
	p->shown = p->on;
	str_free(&s);
}

void reading_text(uint64_t tokens, int percent, double tps, int waiting, struct str *out)
{
	str_adds(out, waiting ? "waiting for more, " : "reading ");
	human_count(out, tokens);
	str_adds(out, " tokens");
	if (percent >= 0)
		str_addf(out, ", %d %%", percent);
	if (tps >= 1 && !waiting) {
		str_adds(out, ", ");
		human_count(out, (uint64_t)(tps + 0.5));
		str_adds(out, " t/s");
	}
}

void progress_line(struct progress *p, const char *text)
{
	double now = now_seconds();
	struct str s = {0};

	if (!p->started) {
		p->started = 1;
		p->start = now;
	}
	if ((!p->on && !p->lines) || now - p->start < 0.25 || now - p->last < (p->on ? 0.1 : 1.0))
		return;
	p->last = now;
	if (p->on)
		str_adds(&s, terminal_is_dumb() ? "\r" : "\r\033[K");
	str_adds(&s, text);
	str_adds(&s, !p->on ? "\n" : terminal_is_dumb() ? "      " : "");
	write_all(2, s.p, s.n);
	p->shown = p->on;
	str_free(&s);
}

void progress_clear(struct progress *p)
{
	static const char blank[] = "\r                                                                        \r";

	if (p->shown)
		write_all(2, terminal_is_dumb() ? blank : "\r\033[K", terminal_is_dumb() ? sizeof blank - 1 : 4);
	p->shown = p->started = 0;
	p->last = 0;
}

void progress_tokens(int32_t done, int32_t total, void *ud)
{
	progress_show(ud, done, total);
}
