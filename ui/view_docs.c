/* ui/view_docs.c - the documents: their texts, as in a pager.
 *
 *   row 0      the documents' names, when there are several and there is room
 *   rows       the text, wrapped; words that left the cache are dimmed, found words marked
 *   last row   name, section, line, percent, page, token; or the line that asks for words
 *
 * A document may have many megabytes.  It is cleaned when it is shown for the first time (doc_text.c); wrapped are only those
 * of its chunks that are on the screen, and a few of them kept.  A place in the text is a byte of it, never a number of wrapped
 * lines, so neither opening nor a new width touches the rest. */
#include "ui/panes.h"

#include "ui/doc_text.h"
#include "ui/markdown.h"
#include "ui/widgets.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { LAID = 8, NAME_MOST = 256, MARKS_SEEN = 2048 };

struct laid { size_t doc, chunk; int w; uint64_t used; struct lines lines; };

/* A wrapped line. */
struct pos { size_t chunk, line; };

enum asking { NOTHING, WORDS_DOWN, WORDS_UP };

struct docs_pane {
	int ascii;
	struct doc_text *doc;
	size_t n_doc, at;
	int w, h;                     /* of the text, as drawn last */
	struct laid laid[LAID];
	uint64_t clock;

	enum asking asking;
	struct edit edit;
	struct str words;             /* what is looked for; small letters when fold */
	int fold, back;
	uint32_t found, found_n;      /* the place found last; n = 0: none */
	int64_t count;                /* digits typed before a key; -1: none */
	int outline; struct list heads; int heads_rows;
	struct str say;               /* until the next key */
};

struct docs_pane *docs_pane_new(int ascii)
{
	struct docs_pane *p = xcalloc(1, sizeof *p);

	p->ascii = ascii;
	p->w = 80;
	p->h = 20;
	p->count = -1;
	return p;
}

void docs_pane_free(struct docs_pane *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->n_doc; i++)
		doc_text_free(&p->doc[i]);
	free(p->doc);
	for (int i = 0; i < LAID; i++)
		lines_free(&p->laid[i].lines);
	edit_free(&p->edit);
	str_free(&p->words);
	str_free(&p->say);
	free(p);
}

static struct doc_text *current(const struct docs_pane *p)
{
	return p->at < p->n_doc ? &p->doc[p->at] : NULL;
}

static void say(struct docs_pane *p, const char *what)
{
	str_clear(&p->say);
	str_adds(&p->say, what);
}

static void forget_layouts(struct docs_pane *p)
{
	for (int i = 0; i < LAID; i++)
		p->laid[i].w = 0;
}

static int same_text(const struct doc_text *d, const struct ui_document *in, const struct str *name)
{
	return d->name.n == name->n && (!name->n || !memcmp(d->name.p, name->p, name->n)) && d->n_raw == in->n &&
	       (!in->n || !memcmp(d->raw, in->text, in->n));
}

/* The documents as they are now; those that were there before are not made ready again. */
void docs_pane_post(struct docs_pane *p, const struct ui_document *posted, size_t n)
{
	struct doc_text *old = p->doc;
	size_t n_old = p->n_doc, was = p->at;
	int stays = 0;

	p->doc = n ? xcalloc(n, sizeof *p->doc) : NULL;
	p->n_doc = n;
	p->at = 0;
	for (size_t i = 0; i < n; i++) {
		struct doc_text *d = &p->doc[i];
		struct ui_document in = posted[i];
		struct str name = {0};

		if (in.name)
			clean_line(in.name, strnlen(in.name, NAME_MOST), &name);
		in.n = !in.text ? 0 : in.n < DOC_TEXT_MOST ? in.n : DOC_TEXT_MOST;
		for (size_t k = 0; k < n_old && !d->raw; k++)
			if (old[k].raw && same_text(&old[k], &in, &name)) {
				*d = old[k];
				memset(&old[k], 0, sizeof old[k]);
				if (k == was) {
					p->at = i;
					stays = 1;
				}
			}
		if (!d->raw) {
			d->name = name;
			d->n_raw = in.n;
			/* It may hold zeros. */
			d->raw = xmalloc(in.n + 1);
			memcpy(d->raw, in.n ? in.text : "", in.n);
			d->kept = -1;
		} else {
			str_free(&name);
		}
		d->tokens = in.tokens;
		d->first = in.first;
	}
	for (size_t i = 0; i < n_old; i++)
		doc_text_free(&old[i]);
	free(old);
	forget_layouts(p);
	if (!stays) {
		p->found_n = 0;
		p->outline = 0;
	}
}

void docs_pane_lens(struct docs_pane *p, size_t document, const struct ui_span *span, size_t n)
{
	if (document < p->n_doc)
		doc_text_lens(&p->doc[document], span, n);
}

/* ---- places ---- */

static const struct lines *lay_out(struct docs_pane *p, size_t chunk)
{
	struct doc_text *d = current(p);
	struct laid *l = &p->laid[0];
	size_t from, end;

	for (int i = 0; i < LAID; i++) {
		struct laid *k = &p->laid[i];
		if (k->w == p->w && k->doc == p->at && k->chunk == chunk) {
			k->used = ++p->clock;
			return &k->lines;
		}
		if (k->used < l->used)
			l = k;
	}
	from = d->chunk[chunk].at;
	end = chunk + 1 < d->n_chunk ? d->chunk[chunk + 1].at : d->text.n;
	lines_clear(&l->lines);
	lines_plain(&l->lines, d->text.p + from, end - from, p->w, ST_TEXT);
	l->doc = p->at;
	l->chunk = chunk;
	l->w = p->w;
	l->used = ++p->clock;
	return &l->lines;
}

/* The wrapped line that a byte stands in. */
static struct pos pos_of(struct docs_pane *p, uint32_t at)
{
	struct doc_text *d = current(p);
	struct pos pos = {doc_text_chunk(d, at), 0};
	const struct lines *l = lay_out(p, pos.chunk);
	size_t lo = 0, hi = l->n_line;
	uint32_t rel = at - d->chunk[pos.chunk].at;

	while (hi - lo > 1) {
		size_t mid = lo + (hi - lo) / 2;
		if (l->line[mid].source <= rel)
			lo = mid;
		else
			hi = mid;
	}
	pos.line = lo;
	return pos;
}

static uint32_t byte_of(struct docs_pane *p, struct pos pos)
{
	const struct lines *l = lay_out(p, pos.chunk);
	uint32_t base = current(p)->chunk[pos.chunk].at;

	return pos.line < l->n_line ? base + l->line[pos.line].source : base;
}

/* The byte behind a line. */
static uint32_t end_of(struct docs_pane *p, struct pos pos)
{
	const struct doc_text *d = current(p);
	const struct lines *l = lay_out(p, pos.chunk);

	if (pos.line + 1 < l->n_line)
		return d->chunk[pos.chunk].at + l->line[pos.line + 1].source;
	return pos.chunk + 1 < d->n_chunk ? d->chunk[pos.chunk + 1].at : (uint32_t)d->text.n;
}

/* So many lines further; returns how many it could not go. */
static int64_t walk(struct docs_pane *p, struct pos *pos, int64_t step)
{
	const struct doc_text *d = current(p);

	while (step > 0) {
		size_t n = lay_out(p, pos->chunk)->n_line;
		int64_t here = pos->line + 1 < n ? (int64_t)(n - 1 - pos->line) : 0;

		if (here >= step) {
			pos->line += (size_t)step;
			return 0;
		}
		if (pos->chunk + 1 >= d->n_chunk) {
			pos->line += (size_t)here;
			return step - here;
		}
		step -= here + 1;
		pos->chunk++;
		pos->line = 0;
	}
	while (step < 0) {
		if ((int64_t)pos->line >= -step) {
			pos->line -= (size_t)-step;
			return 0;
		}
		if (!pos->chunk) {
			step += (int64_t)pos->line;
			pos->line = 0;
			return step;
		}
		step += (int64_t)pos->line + 1;
		pos->chunk--;
		pos->line = lay_out(p, pos->chunk)->n_line;
		pos->line -= pos->line > 0;
	}
	return 0;
}

/* No further than that the last line stands in the last row. */
static void set_top(struct docs_pane *p, uint32_t at)
{
	struct doc_text *d = current(p);
	struct pos last = {d->n_chunk - 1, 0};
	uint32_t most;

	last.line = lay_out(p, last.chunk)->n_line;
	last.line -= last.line > 0;
	walk(p, &last, -(int64_t)(p->h > 1 ? p->h - 1 : 0));
	most = byte_of(p, last);
	d->top = at < most ? byte_of(p, pos_of(p, at)) : most;
}

static void scroll(struct docs_pane *p, int64_t lines)
{
	struct pos pos = pos_of(p, current(p)->top);

	walk(p, &pos, lines);
	set_top(p, byte_of(p, pos));
}

static void go_to_line(struct docs_pane *p, int64_t line)
{
	set_top(p, doc_text_line_start(current(p), line));
}

static void go_to_percent(struct docs_pane *p, double percent)
{
	struct doc_text *d = current(p);

	if (!(percent > 0))
		percent = 0;
	set_top(p, (uint32_t)((percent < 100 ? percent / 100 : 1) * (double)d->text.n));
}

static void go_to_page(struct docs_pane *p, int64_t page)
{
	struct doc_text *d = current(p);

	if (!d->n_page) {
		say(p, "this document has no pages");
		return;
	}
	if (page < 1 || page > (int64_t)d->n_page + 1) {
		str_clear(&p->say);
		str_addf(&p->say, "there are pages 1 to %s", num_count((int64_t)d->n_page + 1).s);
		return;
	}
	set_top(p, page == 1 ? 0 : d->page[page - 2]);
}

/* ---- words ---- */

static void set_words(struct docs_pane *p, const char *s, size_t n)
{
	struct str clean = {0};

	clean_line(s, n, &clean);
	str_clear(&p->words);
	p->fold = !has_capitals(clean.p ? clean.p : "", clean.n);
	str_add(&p->words, clean.p ? clean.p : "", clean.n);
	p->found_n = 0;
	str_free(&clean);
}

/* The first place that begins at `from` or later, or the last one that begins before it. */
static size_t look(const struct docs_pane *p, const struct doc_text *d, uint32_t from, int back, size_t *len)
{
	enum { WINDOW = 64 << 10, BEYOND = 4096 };
	const char *s = d->text.p;

	if (!back)
		return words_find(s, d->text.n, from, p->words.p, p->words.n, p->fold, len);
	for (size_t end = from; end > 0;) {
		size_t begin = end > WINDOW ? end - WINDOW : 0, best = SIZE_MAX, best_len = 0, at = begin;
		size_t n = d->text.n - end > BEYOND ? end + BEYOND : d->text.n;

		while ((at = words_find(s, n, at, p->words.p, p->words.n, p->fold, len)) < end) {
			best = at++;
			best_len = *len;
		}
		if (best != SIZE_MAX) {
			*len = best_len;
			return best;
		}
		end = begin;
	}
	return SIZE_MAX;
}

/* The next place, from the one found last if it is on the screen. */
static void find(struct docs_pane *p, int back)
{
	struct doc_text *d = current(p);
	struct pos pos = pos_of(p, d->top), last = pos;
	uint32_t from = d->top, shown_end;
	size_t at, len = 0;

	str_clear(&p->say);
	if (!p->words.n)
		return;
	walk(p, &last, p->h - 1);
	shown_end = end_of(p, last);
	if (p->found_n && p->found >= d->top && p->found < shown_end)
		from = back ? p->found : p->found + 1;
	at = look(p, d, from, back, &len);
	if (at == SIZE_MAX) {
		at = look(p, d, back ? (uint32_t)d->text.n : 0, back, &len);
		if (at == SIZE_MAX) {
			str_adds(&p->say, "not found: ");
			str_add(&p->say, p->words.p, p->words.n);
			p->found_n = 0;
			return;
		}
		say(p, back ? "found from the end" : "found from the beginning");
	}
	p->found = (uint32_t)at;
	p->found_n = (uint32_t)len;
	if (p->found < d->top || p->found >= shown_end) {
		pos = pos_of(p, p->found);
		walk(p, &pos, -(int64_t)(p->h / 3));
		set_top(p, byte_of(p, pos));
	}
}

void docs_pane_goto(struct docs_pane *p, const char *where)
{
	struct doc_text *d = current(p);
	const char *s = where ? where : "";
	char *end;
	double number;

	while (*s == ' ')
		s++;
	str_clear(&p->say);
	if (!d || !*s)
		return;
	doc_text_ready(d, p->ascii);
	p->outline = 0;
	p->asking = NOTHING;
	if (*s >= '0' && *s <= '9' && strlen(s) < 32) {
		number = strtod(s, &end);
		if (end[0] == '%' && !end[1]) {
			go_to_percent(p, number);
			return;
		}
		if (!end[0]) {
			go_to_line(p, number < 1e9 ? (int64_t)number : 1000000000);
			return;
		}
	}
	if (*s == 'p' || *s == 'P') {
		const char *k = s + 1;

		if (!strncasecmp(k, "age", 3))
			k += 3;
		while (*k == '.' || *k == ' ')
			k++;
		number = *k >= '0' && *k <= '9' && strlen(k) < 16 ? strtod(k, &end) : -1;
		if (number >= 0 && !*end) {
			go_to_page(p, number < 1e9 ? (int64_t)number : 1000000000);
			return;
		}
	}
	set_words(p, s, strnlen(s, EDIT_MOST));
	p->back = 0;
	find(p, 0);
}

/* ---- drawing ---- */

struct place { uint32_t from, end; };

/* The found places that can be seen. */
static size_t places(const struct docs_pane *p, const struct doc_text *d, uint32_t from, uint32_t end, struct place *out)
{
	size_t n = 0, len, at = from > 512 ? from - 512 : 0;
	size_t most = d->text.n - end > 4096 ? (size_t)end + 4096 : d->text.n;

	while (p->words.n && n < MARKS_SEEN && (at = words_find(d->text.p, most, at, p->words.p, p->words.n, p->fold, &len)) < end) {
		if (at + len > from)
			out[n++] = (struct place){(uint32_t)at, (uint32_t)(at + len)};
		at += len;
	}
	return n;
}

struct marks { struct place place[MARKS_SEEN]; size_t n, at; };

/* Lens and found places over a line that was drawn; lines come from top to bottom. */
static void draw_marks(const struct docs_pane *p, const struct lines *l, size_t line, uint32_t base, const struct area *a, int y,
                       struct marks *m)
{
	const struct doc_text *d = current(p);
	const struct text_line *t = &l->line[line];
	int x = 0;

	for (size_t r = t->run; r < (size_t)t->run + t->n_run; r++) {
		const char *s = l->text.p + l->run[r].from;
		uint32_t at = base + l->run[r].source;

		for (size_t i = 0, len; i < l->run[r].n; i += len, at += (uint32_t)len) {
			int32_t cp;
			int w, style = -1;

			len = (size_t)utf8_decode(s + i, l->run[r].n - i, &cp);
			w = char_width(cp);
			if (w <= 0)
				continue;
			if (d->n_span && cp != ' ' && doc_text_gone(d, at))
				style = ST_GONE;
			while (m->at < m->n && m->place[m->at].end <= at)
				m->at++;
			if (m->at < m->n && m->place[m->at].from <= at)
				style = ST_MATCH;
			if (p->found_n && at >= p->found && at - p->found < p->found_n)
				style = ST_MATCH | STYLE_BOLD;
			if (style >= 0)
				area_restyle(a, x, y, w, (unsigned)style);
			x += w;
		}
	}
}

static void draw_text(struct docs_pane *p, const struct area *a)
{
	struct doc_text *d = current(p);
	struct marks marks = {.n = 0};
	struct pos pos, last;

	p->w = a->w;
	p->h = a->h;
	set_top(p, d->top);
	last = pos = pos_of(p, d->top);
	walk(p, &last, a->h - 1);
	if (p->words.n)
		marks.n = places(p, d, d->top, end_of(p, last), marks.place);
	for (int y = 0; y < a->h; y++) {
		const struct lines *l = lay_out(p, pos.chunk);
		uint32_t base = d->chunk[pos.chunk].at, at;
		size_t page, head;

		if (pos.line < l->n_line) {
			at = base + l->line[pos.line].source;
			lines_draw(l, pos.line, a, 0, y);
			page = doc_text_page(d, at);
			head = doc_text_head(d, at);
			if (page > 1 && d->page[page - 2] == at)
				area_restyle(a, 0, y, a->w, ST_RULE);
			else if (head && d->head[head - 1].at == at)
				area_restyle(a, 0, y, a->w, ST_HEADING);
			if (d->n_span || marks.n || p->found_n)
				draw_marks(p, l, pos.line, base, a, y, &marks);
		}
		if (walk(p, &pos, 1))
			break;
	}
}

/* "1 report.pdf  2 notes.md": the chosen one is always to be seen. */
static void draw_names(struct docs_pane *p, const struct area *a)
{
	size_t from = p->at;
	int x = 0, used = 0;

	area_fill(a, 0, 0, a->w, ST_TITLE, ' ');
	for (; from > 0; from--) {
		used += (int)text_width(p->doc[from].name.p ? p->doc[from].name.p : "", p->doc[from].name.n) + 6;
		if (used > a->w * 2 / 3)
			break;
	}
	for (size_t i = from; i < p->n_doc && x < a->w; i++) {
		const struct str *name = &p->doc[i].name;
		unsigned style = i == p->at ? ST_SELECTED : ST_TITLE;

		x = area_putf(a, x, 0, style, " %s ", num_count((int64_t)i + 1).s);
		x = area_text(a, x, 0, style, name->p ? name->p : "", name->n);
		x = area_text(a, x, 0, style, " ", 1);
	}
}

static void draw_status(struct docs_pane *p, const struct area *a, int y)
{
	struct doc_text *d = current(p);
	struct str right = {0}, left = {0};
	struct pos last = pos_of(p, d->top);
	uint32_t end, top_line = doc_text_line(d, d->top);
	size_t head = doc_text_head(d, d->top);
	double done;
	int w;

	walk(p, &last, p->h - 1);
	end = end_of(p, last);
	done = d->text.n ? (double)end / (double)d->text.n : 1;
	area_fill(a, 0, y, a->w, ST_STATUS, ' ');
	if (a->w >= 40)
		str_addf(&right, "line %*s/%s  ", (int)strlen(num_count(d->n_line).s), num_count(top_line).s, num_count(d->n_line).s);
	if (d->n_page && a->w >= 60)
		str_addf(&right, "p. %s/%s  ", num_count((int64_t)doc_text_page(d, d->top)).s, num_count((int64_t)d->n_page + 1).s);
	if (d->tokens > 0 && a->w >= 90) {
		char about[40];

		/* By its share of the bytes: tokens are not counted here. */
		snprintf(about, sizeof about, "~%s", num_count((int64_t)(d->tokens * ((double)d->top / (double)(d->text.n + 1)))).s);
		str_addf(&right, "token %*s/%s  ", (int)strlen(num_count(d->tokens).s) + 1, about, num_count(d->tokens).s);
	}
	if (d->first < 0 && a->w >= 70)
		str_adds(&right, "not read yet  ");
	if (d->kept >= 0 && a->w >= 100)
		str_addf(&right, "kept %s  ", num_percent(d->kept).s);
	str_addf(&right, "%4s ", num_percent(done).s);
	w = a->w - (int)right.n - 1;
	if (p->count >= 0) {
		str_addf(&left, " %s", num_count(p->count).s);
	} else if (p->say.n) {
		str_adds(&left, " ");
		str_add(&left, p->say.p, p->say.n);
	} else {
		str_adds(&left, " ");
		str_add(&left, d->name.p ? d->name.p : "", d->name.n);
	}
	put_left(a, 0, y, w, p->say.n ? ST_STATUS_WARNING : ST_STATUS_STRONG, left.p, left.n, p->ascii);
	if (head && !p->say.n && p->count < 0 && (int)text_width(left.p, left.n) + 12 < w) {
		int x = (int)text_width(left.p, left.n) + 2;
		size_t n;
		const char *title = doc_text_title(d, &d->head[head - 1], &n);

		put_left(a, x, y, w - x, ST_STATUS, title, n, p->ascii);
	}
	put_right(a, w, y, a->w - w, ST_STATUS, right.p);
	str_free(&right);
	str_free(&left);
}

/* Headings, or pages with their first words. */
static void draw_outline(struct docs_pane *p, const struct area *a)
{
	struct doc_text *d = current(p);

	p->heads.n = d->n_head ? d->n_head : d->n_page + 1;
	p->heads_rows = a->h;
	list_show(&p->heads, a->h);
	for (int y = 0; y < a->h && p->heads.top + (size_t)y < p->heads.n; y++) {
		size_t i = p->heads.top + (size_t)y;
		unsigned style = i == p->heads.chosen ? ST_SELECTED : ST_TEXT;
		struct head h = d->n_head ? d->head[i] : (struct head){i ? d->page[i - 1] : 0, 0, 0};
		size_t n;
		const char *title = doc_text_title(d, &h, &n);
		int x = 1 + (h.level ? 2 * (h.level - 1) : 0), w = a->w - 7;

		area_fill(a, 0, y, a->w, style, ' ');
		if (!d->n_head)
			x = area_putf(a, x, y, style, "p. %s  ", num_count((int64_t)i + 1).s);
		if (i == p->heads.chosen)
			area_cell(a, 0, y, '>', style, 0);
		put_left(a, x, y, w - x, style, title, n, p->ascii);
		put_right(a, a->w - 5, y, 4, style, num_percent((double)h.at / (double)(d->text.n ? d->text.n : 1)).s);
	}
}

void docs_pane_draw(struct docs_pane *p, const struct area *a)
{
	struct doc_text *d = current(p);
	struct area text;
	int top = p->n_doc > 1 && a->h >= 6 && a->w >= 20;

	if (a->w < 1 || a->h < 1)
		return;
	area_clear(a, ST_TEXT);
	if (!d) {
		put_left(a, 0, 0, a->w, ST_FAINT, "no document is open: /open FILE reads one", 41, p->ascii);
		return;
	}
	doc_text_ready(d, p->ascii);
	if (top)
		draw_names(p, a);
	text = area_part(a, 0, top, a->w, a->h - top - (a->h > 1));
	/* Text is laid out at four columns at least; what does not fit is cut. */
	if (text.w >= 4 && text.h > 0 && p->outline)
		draw_outline(p, &text);
	else if (text.w >= 4 && text.h > 0)
		draw_text(p, &text);
	if (a->h < 2 || a->w < 4)
		return;
	if (p->asking) {
		int x = area_putf(a, 0, a->h - 1, ST_PROMPT, p->asking == WORDS_UP ? "?" : "/");
		edit_draw(&p->edit, a, x, a->h - 1, a->w - x, ST_TEXT);
	} else {
		draw_status(p, a, a->h - 1);
	}
}

/* ---- keys ---- */

static enum pane_key ask_key(struct docs_pane *p, const struct key *k)
{
	int control = k->code == K_CHAR && (k->mods & KEY_CTRL);

	if (k->code == K_ESC || (control && (k->cp == 'c' || k->cp == 'g'))) {
		p->asking = NOTHING;
	} else if (k->code == K_ENTER) {
		p->back = p->asking == WORDS_UP;
		p->asking = NOTHING;
		if (p->edit.text.n)
			set_words(p, p->edit.text.p, p->edit.text.n);
		find(p, p->back);
	} else if (k->code == K_BACKSPACE && !p->edit.text.n) {
		p->asking = NOTHING;
	} else {
		edit_key(&p->edit, k);
	}
	return PANE_USED;
}

static enum pane_key outline_key(struct docs_pane *p, const struct key *k)
{
	struct doc_text *d = current(p);
	struct key arrow = {.code = K_UNKNOWN};

	if (k->code == K_ESC || (k->code == K_CHAR && (k->cp == 'q' || k->cp == 'o'))) {
		p->outline = 0;
		return PANE_USED;
	}
	if (k->code == K_ENTER && p->heads.chosen < (d->n_head ? d->n_head : d->n_page + 1)) {
		p->outline = 0;
		set_top(p, d->n_head ? d->head[p->heads.chosen].at : p->heads.chosen ? d->page[p->heads.chosen - 1] : 0);
		return PANE_USED;
	}
	if (k->code == K_CHAR && !k->mods)
		arrow.code = k->cp == 'j' ? K_DOWN : k->cp == 'k' ? K_UP : k->cp == 'g' ? K_HOME : k->cp == 'G' ? K_END :
		             k->cp == 'b' ? K_PAGE_UP : k->cp == 'f' || k->cp == ' ' ? K_PAGE_DOWN : K_UNKNOWN;
	if (k->code == K_MOUSE && (k->cp == 4 || k->cp == 5))
		list_move(&p->heads, k->cp == 4 ? -3 : 3);
	else
		list_key(&p->heads, arrow.code != K_UNKNOWN ? &arrow : k, p->heads_rows);
	return PANE_USED;
}

static void outline_open(struct docs_pane *p)
{
	struct doc_text *d = current(p);
	size_t head = doc_text_head(d, d->top);

	if (!d->n_head && !d->n_page) {
		say(p, "this document has neither headings nor pages");
		return;
	}
	p->outline = 1;
	p->heads.n = d->n_head ? d->n_head : d->n_page + 1;
	p->heads.top = 0;
	p->heads.chosen = d->n_head ? head - (head > 0) : doc_text_page(d, d->top) - 1;
}

static enum pane_key other_document(struct docs_pane *p, int step)
{
	if (p->n_doc < 2)
		return PANE_NOT_MINE;
	p->at = (p->at + (step > 0 ? 1 : p->n_doc - 1)) % p->n_doc;
	p->found_n = 0;
	doc_text_ready(current(p), p->ascii);
	return PANE_USED;
}

/* A letter; count: what was typed before it, -1 = nothing. */
static enum pane_key letter(struct docs_pane *p, int32_t cp, int64_t count)
{
	int64_t times = count > 0 ? count : 1;
	int page = p->h > 2 ? p->h - 1 : 1, half = p->h > 3 ? p->h / 2 : 1;

	switch (cp) {
	case 'j': scroll(p, times); break;
	case 'k': scroll(p, -times); break;
	case 'd': scroll(p, half); break;
	case 'u': scroll(p, -half); break;
	case 'f': case ' ': scroll(p, page); break;
	case 'b': scroll(p, -page); break;
	case 'g': go_to_line(p, count < 0 ? 1 : count); break;
	case 'G':
		if (count < 0)
			set_top(p, (uint32_t)current(p)->text.n);
		else
			go_to_line(p, count);
		break;
	case '%': go_to_percent(p, count < 0 ? 0 : (double)count); break;
	case 'p': go_to_page(p, count < 0 ? 1 : count); break;
	case '/': case '?':
		p->asking = cp == '/' ? WORDS_DOWN : WORDS_UP;
		edit_set(&p->edit, "", 0);
		break;
	case 'n': find(p, p->back); break;
	case 'N': find(p, !p->back); break;
	case 'o': outline_open(p); break;
	case ']': return other_document(p, 1);
	case '[': return other_document(p, -1);
	case 'q': return PANE_CLOSE;
	default: return PANE_NOT_MINE;
	}
	return PANE_USED;
}

enum pane_key docs_pane_key(struct docs_pane *p, const struct key *k)
{
	struct doc_text *d = current(p);
	int64_t count = p->count;
	int page = p->h > 2 ? p->h - 1 : 1;

	if (!d)
		return k->code == K_ESC || (k->code == K_CHAR && !k->mods && k->cp == 'q') ? PANE_CLOSE : PANE_NOT_MINE;
	if (k->code == K_FOCUS)
		return PANE_NOT_MINE;
	doc_text_ready(d, p->ascii);
	if (p->asking)
		return ask_key(p, k);
	str_clear(&p->say);
	if (p->outline)
		return outline_key(p, k);
	p->count = -1;
	switch (k->code) {
	case K_CHAR:
		if (k->mods & KEY_ALT)
			return PANE_NOT_MINE;
		if (k->mods & KEY_CTRL)
			return strchr("dufb", k->cp > 0 && k->cp < 0x80 ? (int)k->cp : 'x') ? letter(p, k->cp, -1) : PANE_NOT_MINE;
		if (k->cp >= '0' && k->cp <= '9') {
			count = count < 0 ? 0 : count;
			p->count = count > 99999999 ? count : count * 10 + (k->cp - '0');
			return PANE_USED;
		}
		return letter(p, k->cp, count);
	case K_ENTER: scroll(p, 1); break;
	case K_UP: scroll(p, -1); break;
	case K_DOWN: scroll(p, 1); break;
	case K_PAGE_UP: scroll(p, -page); break;
	case K_PAGE_DOWN: scroll(p, page); break;
	case K_HOME: set_top(p, 0); break;
	case K_END: set_top(p, (uint32_t)d->text.n); break;
	case K_TAB: return other_document(p, k->mods & KEY_SHIFT ? -1 : 1);
	case K_ESC:
		/* A number that is not finished, then marks, then the pane. */
		if (count >= 0)
			return PANE_USED;
		if (p->words.n) {
			str_clear(&p->words);
			p->found_n = 0;
			return PANE_USED;
		}
		return PANE_CLOSE;
	case K_MOUSE:
		if (k->cp != 4 && k->cp != 5)
			return PANE_NOT_MINE;
		scroll(p, k->cp == 4 ? -3 : 3);
		break;
	default: return PANE_NOT_MINE;
	}
	return PANE_USED;
}
