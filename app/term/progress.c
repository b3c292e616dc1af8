/* app/term/progress.c - shows the progress of work in one line on standard error, which is overwritten each time. */
#include "app/term/term.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

void progress_init(struct progress *p, int quiet, int verbose, const char *verb, const char *unit)
{
	*p = (struct progress){ .verb = verb, .unit = unit };
	p->on = !quiet && isatty(2) && !said_elsewhere();
	p->lines = !quiet && !p->on && verbose && !said_elsewhere();
	p->every = p->on ? 0.1 : 1.0;
}

void progress_slow(struct progress *p, int quiet)
{
	if (p->on || p->lines || quiet || said_elsewhere())
		return;
	p->lines = 1;
	p->every = 5;
}

static void add_time(struct str *s, double seconds)
{
	if (seconds < 90)
		str_addf(s, "%.0f s", seconds);
	else
		str_addf(s, "%d min %d s", (int)(seconds / 60), (int)seconds % 60);
}

/* 1 if progress should be shown now. It is shown first after a quarter of a second, and then every p->every seconds. */
static int line_due(struct progress *p)
{
	double now = now_seconds();

	if (!p->started) {
		p->started = 1;
		p->start = now;
	}
	if ((!p->on && !p->lines) || now - p->start < 0.25 || now - p->last < p->every)
		return 0;
	p->last = now;
	return 1;
}

static void draw_line(struct progress *p, const char *text)
{
	struct str s = { 0 };

	if (p->on)
		str_adds(&s, terminal_is_dumb() ? "\r" : "\r\033[K");
	str_adds(&s, text);
	/* a dumb terminal cannot erase the end of the old line, so write blanks over it */
	str_adds(&s, !p->on ? "\n" : terminal_is_dumb() ? "      " : "");
	write_all(2, s.p, s.n);
	p->shown = p->on;
	str_free(&s);
}

void progress_show(struct progress *p, int64_t done, int64_t total)
{
	struct str s = { 0 };
	double rate;

	if (!p->started)
		p->first = done;
	if (!line_due(p) || total <= 0)
		return;
	str_addf(&s, "%s %s/%s %s  %d%%", p->verb, count_text((uint64_t)done).s, count_text((uint64_t)total).s, p->unit,
	         (int)(100 * done / total));
	rate = (double)(done - p->first) / (p->last - p->start);
	if (rate > 0) {
		if (!strcmp(p->unit, "tokens"))
			str_addf(&s, "  %.0f t/s", rate);
		str_adds(&s, "  ");
		add_time(&s, (double)(total - done) / rate);
		str_adds(&s, " left");
	}
	draw_line(p, s.p);
	str_free(&s);
}

void progress_line(struct progress *p, const char *text)
{
	if (line_due(p))
		draw_line(p, text);
}

void progress_now(struct progress *p, const char *text)
{
	if (p->on || p->lines)
		draw_line(p, text);
}

void progress_begin(struct progress *p, int quiet, const char *text)
{
	progress_init(p, quiet, 0, "", "");
	progress_now(p, text);
}

static void add_page(struct str *out, const struct reading *r, int brief)
{
	char number[16];

	snprintf(number, sizeof number, "%d", r->number);
	str_addf(out, brief ? " p. " : ", p. ");
	if (strcmp(number, r->page) != 0)
		str_addf(out, brief ? "%.8s (%d/%d)" : "%.8s (%d of %d)", r->page, r->number, r->pages);
	else
		str_addf(out, brief ? "%d/%d" : "%d of %d", r->number, r->pages);
}

void reading_text(const struct reading *r, int brief, struct str *out)
{
	int percent = r->at >= r->total ? 100 : (int)(r->at * 100 / r->total);

	if (r->imports) {
		str_adds(out, "importing the document");
		return;
	}
	str_adds(out, !r->waiting ? "reading " : brief ? "waiting " : "waiting for more, ");
	human_count(out, r->tokens);
	if (!brief)
		str_adds(out, " tokens");
	if (r->total) {
		str_addf(out, brief ? " %d%% of " : ", %d %% of ", percent);
		human_bytes(out, r->total);
	}
	if (r->page && *r->page && r->pages > 1)
		add_page(out, r, brief);
	if (brief || r->waiting)
		return;
	if (r->tps >= 1) {
		str_adds(out, ", ");
		human_count(out, (uint64_t)(r->tps + 0.5));
		str_adds(out, " t/s");
	}
	if (r->left >= 0.5) {
		str_adds(out, ", ");
		add_time(out, r->left);
		str_adds(out, " left");
	}
}

void progress_clear(struct progress *p)
{
	static const char blank[] = "\r                                                                        \r";

	if (p->shown)
		write_all(2, terminal_is_dumb() ? blank : "\r\033[K", terminal_is_dumb() ? sizeof blank - 1 : 4);
	p->shown = p->started = 0;
	p->last = 0;
}
