/* ui/transcript/lines.c - lays out text: wraps it into lines, and draws lines.
 *
 * A line consists of runs (pieces with one style), which refer to the text in struct lines. When a text grows, the
 * lines up to some point stay unchanged, and only the lines after it are laid out again (struct growth). In plain text,
 * this point is the last newline. */
#include "ui/text/text.h"
#include "ui/transcript/lines.h"

#include <stdlib.h>
#include <string.h>

#define ZWJ 0x200d

void lines_free(struct lines *l)
{
	str_free(&l->text);
	free(l->run);
	free(l->line);
	free(l->code);
	*l = (struct lines){ .ascii = l->ascii };
}

void lines_clear(struct lines *l)
{
	str_clear(&l->text);
	l->n_run = l->n_line = l->n_code = 0;
}

int lines_room(const struct lines *l, size_t n)
{
	return n < UINT32_MAX / 2 && l->text.n < UINT32_MAX / 2 - n;
}

/* ---- wrapping ---- */

static inline size_t next_char(const char *p, size_t at, size_t end, int32_t *cp, int *width)
{
	size_t len;

	if (p[at] >= 0x20 && p[at] < 0x7f) {
		*cp = p[at];
		*width = 1;
		return 1;
	}
	len = (size_t)utf8_decode(p + at, end - at, cp);
	*width = char_width(*cp);
	if (*width < 0)
		*width = 1; /* a code point without a width is drawn as U+FFFD */
	return len;
}

/* 1 if a line may begin with cp. Closing punctuation of Chinese and Japanese may not begin a line. */
static int may_begin(int32_t cp)
{
	return !(cp == 0x3001 || cp == 0x3002 || cp == 0xff0c || cp == 0xff0e || cp == 0xff1a || cp == 0xff1b ||
	         cp == 0xff01 || cp == 0xff1f || cp == 0xff09 || cp == 0x300d || cp == 0x300f || cp == 0x3011 ||
	         cp == 0x300b || cp == 0x30fc);
}

size_t wrap_next(const char *p, size_t at, size_t end, int width, size_t *stop, int *cols)
{
	/* `best` is the last offset found at which the line can end. best_next is the offset at which the next line
	 * would then begin. If best_next is equal to `at`, no such offset was found yet. */
	size_t i = at, best = at, best_next = at, len;
	int col = 0, best_cols = 0, w, blank = 0, wide = 0, joined = 0;
	int32_t cp;

	for (; i < end && p[i] != '\n'; i += len) {
		len = next_char(p, i, end, &cp, &w);
		if (cp == ' ') {
			if (!blank) {
				best = i;
				best_cols = col;
			}
			best_next = i + 1;
			blank = 1;
			wide = joined = 0;
			col++;
			continue;
		}
		/* A blank with a combining mark is text: the next line begins with this blank and does not skip it. */
		if (!w && blank) {
			best_next = i - 1;
			if (col > width) {
				*stop = best;
				*cols = best_cols;
				return best_next;
			}
		}
		/* a line may also end between wide characters */
		if ((w == 2 || wide) && w && i > at && !blank && !joined && may_begin(cp)) {
			best = best_next = i;
			best_cols = col;
		}
		if (w && col + w > width && i > at) {
			if (best_next == at) {
				best = best_next = i;
				best_cols = col;
			}
			*stop = best;
			*cols = best_cols;
			return best_next;
		}
		col += w;
		blank = 0;
		if (w)
			wide = w == 2;
		joined = cp == ZWJ;
	}
	*stop = blank ? best : i;
	*cols = blank ? best_cols : col;
	return i < end ? i + 1 : end;
}

size_t cut_next(const char *p, size_t at, size_t end, int width, size_t *stop, int *cols)
{
	size_t i = at, len;
	int col = 0, w;
	int32_t cp;

	for (; i < end && p[i] != '\n'; i += len, col += w) {
		len = next_char(p, i, end, &cp, &w);
		if (w && col + w > width && i > at) {
			*stop = i;
			*cols = col;
			return i;
		}
	}
	*stop = i;
	*cols = col;
	return i < end ? i + 1 : end;
}

/* ---- lines of runs ---- */

void spans_add(struct lines *l, struct spans *s, const char *text, size_t n, unsigned style, uint32_t source)
{
	struct span *last = s->n ? &s->p[s->n - 1] : NULL;
	uint32_t from = (uint32_t)l->text.n;

	if (!n || !lines_room(l, n))
		return;
	str_add(&l->text, text, n);
	if (last && last->from + last->n == from && last->style == style &&
	    (source == NO_SOURCE ? last->source == NO_SOURCE
	                         : last->source != NO_SOURCE && last->source + last->n == source)) {
		last->n += (uint32_t)n;
		return;
	}
	GROW(s->p, s->n, s->cap);
	s->p[s->n++] = (struct span){ from, (uint32_t)n, source, (uint16_t)style };
}

void lines_begin(struct lines *l, uint32_t source)
{
	GROW(l->line, l->n_line, l->cap_line);
	l->line[l->n_line++] = (struct text_line){ (uint32_t)l->n_run, 0, source };
}

static void add_run(struct lines *l, size_t from, size_t n, unsigned style, uint32_t source)
{
	size_t cols = 0;

	for (size_t i = 0; i < n;) {
		int32_t cp;
		int w;
		i += next_char(l->text.p, from + i, from + n, &cp, &w);
		cols += (size_t)w;
	}
	GROW(l->run, l->n_run, l->cap_run);
	l->run[l->n_run++] = (struct run){ (uint32_t)from, (uint32_t)n, source, (uint16_t)style, (uint16_t)cols };
	l->line[l->n_line - 1].n_run++;
}

void lines_own(struct lines *l, const char *text, size_t n, unsigned style)
{
	size_t from = l->text.n;

	if (!n || !lines_room(l, n))
		return;
	str_add(&l->text, text, n);
	add_run(l, from, n, style, NO_SOURCE);
}

void lines_put(struct lines *l, const struct spans *spans, size_t *at, size_t from, size_t to)
{
	while (from < to && *at < spans->n) {
		const struct span *s = &spans->p[*at];
		size_t end = (size_t)s->from + s->n;

		if (end <= from) {
			++*at;
			continue;
		}
		if (s->from > from)
			from = s->from;
		if (from >= to)
			break;
		if (end > to)
			end = to;
		add_run(l, from, end - from, s->style,
		        s->source == NO_SOURCE ? NO_SOURCE : s->source + (uint32_t)(from - s->from));
		from = end;
	}
}

void lines_draw(const struct lines *l, size_t line, const struct area *a, int x, int y)
{
	const struct text_line *t;

	if (line >= l->n_line)
		return;
	t = &l->line[line];
	for (size_t i = t->run; i < (size_t)t->run + t->n_run; i++) {
		const struct run *r = &l->run[i];
		area_text(a, x, y, r->style, l->text.p + r->from, r->n);
		x += r->cols;
	}
}

/* ---- growth ---- */

void growth_begin(struct lines *l, struct growth *g)
{
	if (!g->begun) {
		*g = (struct growth){
			.begun = 1, .text = l->text.n, .run = l->n_run, .line = l->n_line, .code = l->n_code
		};
		return;
	}
	l->text.n = g->text;
	l->n_run = g->run;
	l->n_line = g->line;
	l->n_code = g->code;
}

void growth_settle(const struct lines *l, struct growth *g, size_t done)
{
	g->done = done;
	g->text = l->text.n;
	g->run = l->n_run;
	g->line = l->n_line;
	g->code = l->n_code;
}

/* ---- plain text ---- */

int lines_width(int width)
{
	return width < WIDTH_LEAST ? WIDTH_LEAST : MIN(WIDTH_MOST, width);
}

void lines_plain_one(struct lines *l, const char *text, size_t from, size_t to, int width, unsigned style)
{
	size_t base = l->text.n, next;

	if (to == from) {
		lines_begin(l, (uint32_t)from);
		return;
	}
	if (to > UINT32_MAX / 2 || !lines_room(l, to - from))
		return;
	str_add(&l->text, text + from, to - from);
	for (size_t at = base, end = l->text.n; at < end; at = next) {
		size_t stop;
		int cols;

		next = wrap_next(l->text.p, at, end, width, &stop, &cols);
		lines_begin(l, (uint32_t)(from + at - base));
		if (stop > at)
			add_run(l, at, stop - at, style, (uint32_t)(from + at - base));
	}
}

void lines_grow_plain(struct lines *l, struct growth *g, const char *text, size_t n, int width, unsigned style)
{
	size_t at;

	growth_begin(l, g);
	width = lines_width(width);
	at = g->done;
	while (at < n) {
		const char *nl = memchr(text + at, '\n', n - at);
		size_t to = nl ? (size_t)(nl - text) : n;

		lines_plain_one(l, text, at, to, width, style);
		at = nl ? to + 1 : n;
		if (nl)
			growth_settle(l, g, at);
	}
}

void lines_plain(struct lines *l, const char *text, size_t n, int width, unsigned style)
{
	struct growth g = { 0 };

	lines_grow_plain(l, &g, text, n, width, style);
}
