/* ui/panes/documents_draw.c - draws the documents pane: the text with evicted words and matches, names, status
 * row, outline. */
#include "ui/panes/pane_documents.h"
#include "ui/text/text.h"

#include <stdio.h>
#include <string.h>

enum { MARKS_SEEN = 2048 };

struct match {
	uint32_t from, end;
};

/* Find the matches that are on the screen. */
static size_t visible_matches(const struct documents_pane *p, const struct doc_text *d, uint32_t from, uint32_t end,
                              struct match *out)
{
	size_t n = 0, len, at = from > 512 ? from - 512 : 0;
	size_t most = d->text.n - end > 4096 ? (size_t)end + 4096 : d->text.n;

	while (p->words.n && n < MARKS_SEEN &&
	       (at = words_find(d->text.p, most, at, p->words.p, p->words.n, p->fold, &len)) < end) {
		if (at + len > from)
			out[n++] = (struct match){ (uint32_t)at, (uint32_t)(at + len) };
		at += len;
	}
	return n;
}

struct shade {
	uint32_t from, end;
	unsigned style;
};
struct marks {
	struct match match[MARKS_SEEN];
	size_t n, at;
	struct shade shade[UI_SOURCES];
	int n_shade;
};

#define SHADED_FROM 0.05f /* minimum share of attention of a source that is shaded */

/* Collect the posted sources that are in this document. A source with a larger share of attention is drawn brighter. */
static void find_shades(const struct documents_pane *p, const struct doc_text *d, struct marks *m)
{
	for (size_t i = 0; i < p->n_source; i++) {
		const struct ui_source *s = &p->source[i];
		/* use only the three brightest heat colours, because text in the darker colours is hard to read */
		unsigned step = s->share < 0   ? HEATS - 3
		                : s->share < 1 ? HEATS - 3 + (unsigned)(s->share * 3)
		                               : HEATS - 1;

		if (s->document == p->at && (s->share < 0 || s->share >= SHADED_FROM))
			m->shade[m->n_shade++] =
				(struct shade){ doc_text_clean(d, s->from), doc_text_clean(d, s->to), ST_HEAT + step };
	}
}

/* Change the style of evicted words, sources and matches in a line that was drawn. Lines must be passed from top to
 * bottom, because m->at only moves forward. */
static void draw_marks(const struct documents_pane *p, const struct lines *l, size_t line, uint32_t base,
                       const struct area *a, int y, struct marks *m)
{
	const struct doc_text *d = documents_current(p);
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
			if (d->n_span && cp != ' ' && doc_text_evicted(d, at))
				style = ST_EVICTED;
			for (int k = 0; k < m->n_shade; k++)
				if (at >= m->shade[k].from && at < m->shade[k].end)
					style = (int)m->shade[k].style;
			while (m->at < m->n && m->match[m->at].end <= at)
				m->at++;
			if (m->at < m->n && m->match[m->at].from <= at)
				style = ST_MATCH;
			if (p->found_n && at >= p->found && at - p->found < p->found_n)
				style = style >= ST_HEAT ? style | STYLE_REVERSE : ST_MATCH | STYLE_BOLD;
			if (style >= 0)
				area_restyle(a, x, y, w, (unsigned)style);
			x += w;
		}
	}
}

static void draw_text(struct documents_pane *p, const struct area *a)
{
	struct doc_text *d = documents_current(p);
	struct marks marks = { .n = 0 };
	struct pos pos, last;

	p->w = a->w;
	p->h = a->h;
	documents_set_top(p, d->top);
	last = pos = documents_pos_of(p, d->top);
	documents_walk(p, &last, a->h - 1);
	if (p->words.n)
		marks.n = visible_matches(p, d, d->top, documents_end_of(p, last), marks.match);
	find_shades(p, d, &marks);
	for (int y = 0; y < a->h; y++) {
		const struct lines *l = documents_lay_out(p, pos.chunk);
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
			if (d->n_span || marks.n || marks.n_shade || p->found_n)
				draw_marks(p, l, pos.line, base, a, y, &marks);
		}
		if (documents_walk(p, &pos, 1))
			break;
	}
}

/* Draw the names of the documents, such as "1 report.pdf 2 notes.md", scrolled so that the current document is
 * visible. */
static void draw_names(struct documents_pane *p, const struct area *a)
{
	size_t from = p->at;
	int x = 0, used = 0;

	area_fill(a, 0, 0, a->w, ST_TITLE, ' ');
	for (; from > 0; from--) {
		used += (int)text_width(str_text(&p->doc[from].name), p->doc[from].name.n) + 6;
		if (used > a->w * 2 / 3)
			break;
	}
	for (size_t i = from; i < p->n_doc && x < a->w; i++) {
		const struct str *name = &p->doc[i].name;
		unsigned style = i == p->at ? ST_SELECTED : ST_TITLE;

		x = area_putf(a, x, 0, style, " %s ", num_count((int64_t)i + 1).s);
		x = area_text(a, x, 0, style, str_text(name), name->n);
		x = area_text(a, x, 0, style, " ", 1);
	}
}

/* Return the offset whose page and heading the status row shows: the place that the user jumped to, if it is visible,
 * else the first visible byte. */
static uint32_t status_byte(struct documents_pane *p)
{
	struct doc_text *d = documents_current(p);
	struct pos last = documents_pos_of(p, d->top);

	if (p->asked_in != p->at + 1 || p->asked < d->top)
		return d->top;
	documents_walk(p, &last, p->h - 1);
	return p->asked < documents_end_of(p, last) ? p->asked : d->top;
}

/* Append which part of the document is visible, as lines, pages and tokens. `w` is the number of columns of the
 * pane. */
static void add_position(struct documents_pane *p, int w, struct str *out)
{
	struct doc_text *d = documents_current(p);
	struct pos last = documents_pos_of(p, d->top);
	uint32_t end, top_line = doc_text_line(d, d->top);
	size_t page = doc_text_page(d, status_byte(p));

	documents_walk(p, &last, p->h - 1);
	end = documents_end_of(p, last);
	if (d->label && w >= 60) {
		struct str label = { 0 };

		clean_line(d->label[page - 1], strnlen(d->label[page - 1], 12), &label);
		str_addf(out, "p. %s (%s/%s)  ", label.n ? label.p : "-", num_count((int64_t)page).s,
		         num_count((int64_t)d->n_page + 1).s);
		str_free(&label);
	} else if (d->n_page && w >= 60)
		str_addf(out, "p. %s/%s  ", num_count((int64_t)page).s, num_count((int64_t)d->n_page + 1).s);
	if (d->tokens > 0 && w >= 90) {
		char about[40];

		/* The number of tokens above the first visible line is estimated from the number of bytes above it. */
		snprintf(about, sizeof about, "~%s",
		         num_count((int64_t)(d->tokens * ((double)d->top / (double)(d->text.n + 1)))).s);
		str_addf(out, "token %s of %s  ", about, num_count(d->tokens).s);
	}
	if (d->first < 0 && w >= 70)
		str_adds(out, d->first == UI_SEARCHED ? "searched for each question  " : "not read yet  ");
	if (d->kept >= 0 && w >= 100)
		str_addf(out, "kept %s  ", num_percent(d->kept).s);
	if (w >= 40)
		str_addf(out, "lines %s-%s of %s", num_count(top_line).s,
		         num_count(doc_text_line(d, end > d->top ? end - 1 : end)).s, num_count(d->n_line).s);
	else
		str_adds(out, num_percent(d->text.n ? (double)end / (double)d->text.n : 1).s);
}

/* Append the beginning of the status row: a number that is being typed, else a message, else the document's name. */
static void add_name(const struct documents_pane *p, struct str *out)
{
	const struct doc_text *d = documents_current(p);

	if (p->count >= 0)
		str_addf(out, "%s", num_count(p->count).s);
	else if (p->say.n)
		str_add(out, p->say.p, p->say.n);
	else
		str_add(out, str_text(&d->name), d->name.n);
}

/* Return the title of the last heading before the text position that the status row shows, and set *n to its length.
 * Set *n to 0 if there is no heading, or if the status row shows a message or a typed number. */
static const char *heading_seen(struct documents_pane *p, size_t *n)
{
	struct doc_text *d = documents_current(p);
	size_t head = doc_text_head(d, status_byte(p));

	*n = 0;
	return head && !p->say.n && p->count < 0 ? doc_text_title(d, &d->head[head - 1], n) : "";
}

void documents_title(struct documents_pane *p, int w, struct str *left, struct str *right)
{
	const char *heading;
	size_t n;

	if (!documents_current(p)) {
		str_adds(left, "Documents");
		return;
	}
	add_name(p, left);
	heading = heading_seen(p, &n);
	if (n)
		str_addf(left, " %s ", p->ascii ? "-" : "\xc2\xb7");
	str_add(left, heading, n);
	add_position(p, w, right);
}

static void draw_status(struct documents_pane *p, const struct area *a, int y)
{
	struct str right = { 0 }, left = { 0 };
	const char *heading;
	size_t n;
	int w, x;

	add_position(p, a->w, &right);
	str_adds(&right, " ");
	str_adds(&left, " ");
	add_name(p, &left);
	area_fill(a, 0, y, a->w, ST_STATUS, ' ');
	w = a->w - (int)right.n - 1;
	put_left(a, 0, y, w, p->say.n ? ST_STATUS_WARNING : ST_STATUS_STRONG, left.p, left.n, p->ascii);
	heading = heading_seen(p, &n);
	x = (int)text_width(left.p, left.n) + 2;
	if (n && x + 10 < w)
		put_left(a, x, y, w - x, ST_STATUS, heading, n, p->ascii);
	put_right(a, w, y, a->w - w, ST_STATUS, right.p);
	str_free(&right);
	str_free(&left);
}

/* Draw the outline: the headings; if there are none, the pages with their first words. */
static void draw_outline(struct documents_pane *p, const struct area *a)
{
	struct doc_text *d = documents_current(p);

	p->heads.n = d->n_head ? d->n_head : d->n_page + 1;
	p->heads_rows = a->h;
	list_show(&p->heads, a->h);
	for (int y = 0; y < a->h && p->heads.top + (size_t)y < p->heads.n; y++) {
		size_t i = p->heads.top + (size_t)y;
		unsigned style = i == p->heads.chosen ? ST_SELECTED : ST_TEXT;
		struct head h = d->n_head ? d->head[i] : (struct head){ i ? d->page[i - 1] : 0, 0, 0 };
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

void documents_draw(struct documents_pane *p, const struct area *a)
{
	struct doc_text *d = documents_current(p);
	struct area text;
	int top = p->n_doc > 1 && a->h >= 6 && a->w >= 20, foot;

	if (a->w < 1 || a->h < 1)
		return;
	area_clear(a, ST_TEXT);
	if (!d) {
		put_left(a, 0, 0, a->w, ST_FAINT, "no documents yet: /open FILE adds one", 37, p->ascii);
		return;
	}
	doc_text_ready(d, p->ascii);
	if (top)
		draw_names(p, a);
	foot = a->h > 1 && (!p->pane.framed || p->asking);
	text = area_part(a, 0, top, a->w, a->h - top - foot);
	/* draw the outline only if the text keeps at least four columns */
	if (text.w >= 4 && text.h > 0 && p->outline)
		draw_outline(p, &text);
	else if (text.w >= 4 && text.h > 0)
		draw_text(p, &text);
	if (!foot || a->w < 4)
		return;
	if (p->asking) {
		int x = area_putf(a, 0, a->h - 1, ST_PROMPT, p->asking == WORDS_UP ? "?" : "/");
		edit_draw(&p->edit, a, x, a->h - 1, a->w - x, ST_TEXT);
	} else {
		draw_status(p, a, a->h - 1);
	}
}
