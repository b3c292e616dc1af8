/* ui/markdown.c - Markdown laid out in lines: pieces of text (pieces.c), each through md4c, what md4c says as lines.
 *
 * Not as CommonMark has it, on purpose: link definitions are text like any other (they would reach over pieces, hide text, and let a
 * few bytes grow into many), blank lines are where the text has them (so lists are never loose or tight as a whole), a line break
 * after a short line stays one (answers mean it), and HTML is text. */
#include "ui/lines.h"

#include <md4c.h>
#include <stdlib.h>
#include <string.h>

enum {
	LEVELS = 128,            /* quotes and items inside of each other, beyond which they are not shown as such */
	LISTS = 64,
	BEFORE_MOST = 32,        /* columns of bars and bullets before the text */
	SHORT_LINE = 56,         /* columns; the break after such a line is meant */
	CODE_INDENT = 2,
};

/* A quote or list item that we are in. */
struct level {
	unsigned char quote, used, flat;   /* used: its bullet is drawn; flat: there is no room to indent it */
	unsigned char cols, n;
	char bullet[24];
};

struct build {
	struct lines *l;
	struct growth *g;
	const char *text;                  /* all of it */
	struct piece piece; size_t shift, end;      /* what md4c sees, and which part of the text that is */
	int width;

	struct level level[LEVELS]; int n_level;    /* n_level may be more: those are not shown */
	struct { unsigned ordered, next; char mark; } list[LISTS]; int n_list;

	struct spans para; size_t para_from;        /* inline text that waits for its block to end */
	struct spans coded;
	struct table table;
	int in_cell, in_head, in_table;
	int heading, quotes, strong, em, del, code, link;
	size_t link_from;
	int line_cols;                              /* of the source line so far, for soft breaks */

	int in_code;
	struct str lang; uint32_t lang_source;
};

/* ---- lines with what stands before them ---- */

static int before_cols(const struct build *b)
{
	int cols = 0;

	for (int i = 0; i < b->n_level && i < LEVELS; i++)
		cols += b->level[i].cols;
	return cols;
}

static int room(const struct build *b)
{
	return b->width - before_cols(b);
}

static void put_bullet(struct build *b, struct level *v)
{
	lines_own(b->l, v->bullet, v->n, ST_BULLET);
	v->used = 1;
}

/* all: bullets, too; else only the bars of quotes that have begun.  Bars next to each other are one run. */
static void put_before(struct build *b, int all)
{
	const char *bar = b->l->ascii ? "| " : "\u2502 ";
	size_t n_bar = b->l->ascii ? 2 : 4;
	char same[BEFORE_MOST * 2 + 8];
	size_t n = 0;
	int quote = 0;

	for (int i = 0; i < b->n_level && i < LEVELS; i++) {
		struct level *v = &b->level[i];

		if (!v->used && !all)
			break;
		if (n && (quote != v->quote || (!v->quote && !v->used))) {
			lines_own(b->l, same, n, quote ? ST_QUOTE : ST_TEXT);
			n = 0;
		}
		quote = v->quote;
		if (v->quote && v->cols) {
			memcpy(same + n, bar, n_bar);
			n += n_bar;
			v->used |= all;
		} else if (v->quote) {
			v->used |= all;
		} else if (!v->used) {
			put_bullet(b, v);
		} else {
			memset(same + n, ' ', v->cols);
			n += v->cols;
		}
	}
	lines_own(b->l, same, n, quote ? ST_QUOTE : ST_TEXT);
}

/* An empty line.  Lines of ours stand with the text before them: sources never go back. */
static void new_line(struct build *b, uint32_t source)
{
	uint32_t least = b->g->any && b->l->n_line ? b->l->line[b->l->n_line - 1].source : 0;

	if (source == NO_SOURCE)
		source = (uint32_t)b->g->shown;
	lines_begin(b->l, source > least ? source : least);
}

static void begin_line(struct build *b, uint32_t source)
{
	new_line(b, source);
	put_before(b, 1);
	b->g->any = 1;
}

static void begin_table_line(void *ud, uint32_t source)
{
	begin_line(ud, source);
}

/* Is there an empty line in the text between what was shown last and `source`? */
static int blank_before(const struct build *b, uint32_t source)
{
	int fresh = 0;   /* so far nothing stands in this line */

	if (!b->g->any || source == NO_SOURCE)
		return 0;
	for (size_t i = b->g->shown; i < source; i++) {
		if (b->text[i] == '\n') {
			if (fresh)
				return 1;
			fresh = 1;
		} else if (b->text[i] != ' ' && b->text[i] != '>') {
			fresh = 0;
		}
	}
	return 0;
}

/* A block begins that was written at `source`. */
static void begin_block(struct build *b, uint32_t source)
{
	if (blank_before(b, source)) {
		new_line(b, source ? source - 1 : 0);
		put_before(b, 0);
	}
}

static void shown_to(struct build *b, size_t end)
{
	if (end > b->g->shown)
		b->g->shown = end;
}

/* ---- inline text ---- */

static uint32_t source_of(const struct build *b, const char *p)
{
	size_t at = piece_source(&b->piece, p);

	return at == SIZE_MAX ? NO_SOURCE : (uint32_t)(b->shift + at);
}

static struct spans *here(struct build *b)
{
	return b->in_table ? &b->table.spans : &b->para;
}

static unsigned style_now(const struct build *b)
{
	unsigned style = b->heading ? ST_HEADING : b->in_head ? ST_STRONG : b->quotes ? ST_QUOTE : ST_TEXT;

	if (b->code)
		style = ST_CODE | (b->heading ? STYLE_BOLD : 0);
	else if (b->link)
		style = ST_LINK;
	else if (b->em && !b->heading)
		style = b->strong ? ST_EMPH | STYLE_BOLD : ST_EMPH;
	else if (b->strong && !b->heading)
		style = ST_STRONG;
	if (b->heading == 1 && !b->code)
		style |= STYLE_UNDER;
	return b->del ? style | STYLE_FAINT : style;
}

/* A paragraph begins: the bullets that have no room of their own become part of it. */
static void begin_paragraph(struct build *b)
{
	b->para_from = b->l->text.n;
	b->line_cols = 0;
	for (int i = 0; i < b->n_level && i < LEVELS; i++)
		if (b->level[i].flat && !b->level[i].used) {
			spans_add(b->l, &b->para, b->level[i].bullet, b->level[i].n, ST_BULLET, NO_SOURCE);
			b->level[i].used = 1;
		}
}

static void add_as(struct build *b, const char *p, size_t n, unsigned style, uint32_t source)
{
	struct spans *s = here(b);
	const struct span *last;
	int32_t cp;
	size_t from;

	if (!n)
		return;
	if (!b->in_table && !b->para.n)
		begin_paragraph(b);
	/* A mark must not move from a character that is not shown to the one before. */
	utf8_decode(p, n, &cp);
	last = s->n ? &s->p[s->n - 1] : NULL;
	if (cp >= 0x300 && char_width(cp) == 0 && !(last && source != NO_SOURCE && last->source + last->n == source))
		spans_add(b->l, s, "\u25cc", 3, style, NO_SOURCE);
	from = b->l->text.n;
	spans_add(b->l, s, p, n, style, source);
	piece_unpatch(b->l->text.p + from, b->l->text.n - from);
}

static void add(struct build *b, const char *p, size_t n, unsigned style)
{
	for (size_t k, skip; n; n -= k + skip, p += k + skip) {
		k = piece_text(&b->piece, p, n, &skip);
		add_as(b, p, k, style, source_of(b, p));
	}
}

static void add_entity(struct build *b, const char *p, size_t n, unsigned style)
{
	static const struct { const char *name; uint16_t cp; } named[] = {
		{ "&amp;", '&' }, { "&lt;", '<' }, { "&gt;", '>' }, { "&quot;", '"' }, { "&apos;", '\'' }, { "&nbsp;", ' ' },
		{ "&copy;", 0xa9 }, { "&reg;", 0xae }, { "&deg;", 0xb0 }, { "&plusmn;", 0xb1 }, { "&middot;", 0xb7 }, { "&times;", 0xd7 },
		{ "&laquo;", 0xab }, { "&raquo;", 0xbb }, { "&frac12;", 0xbd }, { "&ndash;", 0x2013 }, { "&mdash;", 0x2014 },
		{ "&lsquo;", 0x2018 }, { "&rsquo;", 0x2019 }, { "&ldquo;", 0x201c }, { "&rdquo;", 0x201d }, { "&bull;", 0x2022 },
		{ "&hellip;", 0x2026 }, { "&euro;", 0x20ac }, { "&trade;", 0x2122 }, { "&larr;", 0x2190 }, { "&rarr;", 0x2192 },
		{ "&ne;", 0x2260 }, { "&le;", 0x2264 }, { "&ge;", 0x2265 }, { "&infin;", 0x221e }, { "&check;", 0x2713 },
	};
	int32_t cp = -1;
	char out[4];
	size_t skip;

	n = piece_text(&b->piece, p, n, &skip);
	if (n > 3 && p[1] == '#') {
		size_t i = p[2] == 'x' || p[2] == 'X' ? 3 : 2;
		int base = i == 3 ? 16 : 10;

		for (cp = 0; i + 1 < n && cp < 0x110000; i++)
			cp = cp * base + (p[i] <= '9' ? p[i] - '0' : (p[i] | 32) - 'a' + 10);
		if (cp == 0xa0)
			cp = ' ';
	}
	for (size_t i = 0; i < sizeof named / sizeof *named; i++)
		if (strlen(named[i].name) == n && !memcmp(named[i].name, p, n))
			cp = named[i].cp;
	/* What clean text could not contain stays as it is written. */
	if (cp < 0x20 || cp > 0x10ffff || char_width(cp) < 1)
		add(b, p, n, style);
	else
		add_as(b, out, (size_t)utf8_encode(cp, out), style, source_of(b, p));
}

static size_t attribute_size(const struct build *b, const MD_ATTRIBUTE *a)
{
	size_t skip;

	return a->size ? piece_text(&b->piece, a->text, a->size, &skip) : 0;
}

static void add_attribute(struct build *b, const MD_ATTRIBUTE *a, unsigned style)
{
	size_t size = attribute_size(b, a);

	for (size_t i = 0; size && a->substr_offsets[i] < size; i++) {
		size_t from = a->substr_offsets[i], to = a->substr_offsets[i + 1], n = (to < size ? to : size) - from;

		if (a->substr_types[i] == MD_TEXT_ENTITY)
			add_entity(b, a->text + from, n, style);
		else if (a->substr_types[i] == MD_TEXT_NORMAL)
			add(b, a->text + from, n, style);
	}
}

/* Letters of other scripts may look like the host that one knows: what the lines' text has from `from` on, in ASCII. */
static void add_ascii(struct build *b, size_t from, const char *before, const char *behind)
{
	struct str s = {0};

	if (from < b->l->text.n && address_in_ascii(b->l->text.p + from, b->l->text.n - from, &s)) {
		add_as(b, before, strlen(before), ST_FAINT, NO_SOURCE);
		add_as(b, s.p, s.n, ST_LINK | STYLE_FAINT, NO_SOURCE);
		add_as(b, behind, strlen(behind), ST_FAINT, NO_SOURCE);
	}
	str_free(&s);
}

/* The address in full behind the text, unless the text is the address. */
static void add_address(struct build *b, const MD_ATTRIBUTE *href, const MD_ATTRIBUTE *title, size_t from)
{
	const char *said = from < b->l->text.n ? b->l->text.p + from : "";
	size_t n = from < b->l->text.n ? b->l->text.n - from : 0, mail = 7;
	size_t size = attribute_size(b, href);

	if (n && size == n && !memcmp(href->text, said, n)) {
		add_ascii(b, from, " (", ")");
		return;
	}
	if (size == n + mail && !memcmp(href->text, "mailto:", mail) && !memcmp(href->text + mail, said, n))
		return;
	add_as(b, " (", 2, ST_FAINT, NO_SOURCE);
	from = b->l->text.n;
	add_attribute(b, href, ST_LINK | STYLE_FAINT);
	add_ascii(b, from, ", that is ", "");
	if (attribute_size(b, title)) {
		add_as(b, " \"", 2, ST_FAINT, NO_SOURCE);
		add_attribute(b, title, ST_FAINT);
		add_as(b, "\"", 1, ST_FAINT, NO_SOURCE);
	}
	add_as(b, ")", 1, ST_FAINT, NO_SOURCE);
}

/* The end of a source line inside of a paragraph. */
static void soft_break(struct build *b)
{
	int joins = b->line_cols >= SHORT_LINE;

	add_as(b, joins ? " " : "\n", 1, style_now(b), NO_SOURCE);
	b->line_cols = 0;
}

/* ---- blocks ---- */

static uint32_t first_source(const struct spans *s, size_t from)
{
	for (size_t i = from; i < s->n; i++)
		if (s->p[i].source != NO_SOURCE)
			return s->p[i].source;
	return NO_SOURCE;
}

static void all_shown(struct build *b, const struct spans *s)
{
	for (size_t i = s->n; i; i--)
		if (s->p[i - 1].source != NO_SOURCE) {
			shown_to(b, (size_t)s->p[i - 1].source + s->p[i - 1].n);
			return;
		}
}

/* The inline text so far as lines. */
static void end_paragraph(struct build *b)
{
	size_t end = b->l->text.n, span = 0, next, look = 0;

	if (!b->para.n || b->in_code)
		return;
	begin_block(b, first_source(&b->para, 0));
	for (size_t at = b->para_from; at < end; at = next) {
		size_t stop;
		int cols;
		uint32_t source = NO_SOURCE;

		next = wrap_next(b->l->text.p, at, end, room(b), &stop, &cols);
		for (; look < b->para.n; look++) {
			const struct span *s = &b->para.p[look];
			if (s->source == NO_SOURCE || (size_t)s->from + s->n <= at)
				continue;
			source = s->source + (uint32_t)(at > s->from ? at - s->from : 0);
			break;
		}
		begin_line(b, source);
		lines_put(b->l, &b->para, &span, at, stop);
	}
	all_shown(b, &b->para);
	b->para.n = 0;
}

/* One line of code, bytes [from, to) of the lines' text, coloured and cut where it must be. */
static void code_line(struct build *b, size_t from, size_t to, uint32_t source)
{
	int indent = room(b) > CODE_INDENT + 4 ? CODE_INDENT : 0, cont = 0;
	size_t next, span = 0;
	struct spans *s = &b->coded;

	s->n = 0;
	for (size_t at = from, end; at < to; at = end) {
		unsigned style;
		struct span *last = s->n ? &s->p[s->n - 1] : NULL;

		end = from + code_token(&b->g->colours, b->l->text.p + from, to - from, at - from, &style);
		if (last && last->style == style) {
			last->n += (uint32_t)(end - at);
			continue;
		}
		if (s->n == s->cap) {
			s->cap = s->cap ? s->cap * 2 : 64;
			s->p = xrealloc(s->p, s->cap * sizeof *s->p);
		}
		s->p[s->n++] = (struct span){ (uint32_t)at, (uint32_t)(end - at),
		                              source == NO_SOURCE ? NO_SOURCE : source + (uint32_t)(at - from), (uint16_t)style };
	}
	code_newline(&b->g->colours);
	if (from == to)
		begin_line(b, source);
	for (size_t at = from; at < to; at = next) {
		size_t stop;
		int cols;

		next = cut_next(b->l->text.p, at, to, room(b) - indent, &stop, &cols);
		begin_line(b, source == NO_SOURCE ? NO_SOURCE : source + (uint32_t)(at - from));
		if (indent && cont)
			lines_own(b->l, b->l->ascii ? "> " : "\u203a ", b->l->ascii ? 2 : 4, ST_FAINT);
		else if (indent)
			lines_own(b->l, "  ", CODE_INDENT, ST_CODE);
		lines_put(b->l, s, &span, at, stop);
		cont = 1;
	}
}

/* What stands behind a fence. */
static void code_head(struct build *b, const char *info, size_t n, uint32_t source)
{
	int indent = room(b) > CODE_INDENT + 4 ? CODE_INDENT : 0;
	size_t base = b->l->text.n, end, next, span = 0, stop;
	int cols;

	code_start(&b->g->colours, info, n);
	if (!n)
		return;
	b->coded.n = 0;
	spans_add(b->l, &b->coded, info, n, ST_FAINT, source);
	end = b->l->text.n;
	for (size_t at = base; at < end; at = next) {
		next = wrap_next(b->l->text.p, at, end, room(b) - indent, &stop, &cols);
		begin_line(b, source);
		if (indent)
			lines_own(b->l, "  ", CODE_INDENT, ST_CODE);
		lines_put(b->l, &b->coded, &span, at, stop);
	}
}

static void note_code(struct lines *l, size_t from, size_t n)
{
	if (l->n_code == l->cap_code) {
		l->cap_code = l->cap_code ? l->cap_code * 2 : 8;
		l->code = xrealloc(l->code, l->cap_code * sizeof *l->code);
	}
	l->code[l->n_code++] = (struct code_block){ (uint32_t)from, (uint32_t)n };
}

/* Code inside of a list or quote, collected in para. */
static void end_code(struct build *b)
{
	size_t from = b->para_from, end = b->l->text.n, look = 0;
	uint32_t first = first_source(&b->para, 0), start = first;

	if (!b->para.n)
		from = end;
	if (b->lang.n && b->lang_source != NO_SOURCE)
		start = b->lang_source;
	begin_block(b, start);
	code_head(b, b->lang.p, b->lang.n, b->lang_source);
	while (from < end) {
		const char *nl = memchr(b->l->text.p + from, '\n', end - from);
		size_t to = nl ? (size_t)(nl - b->l->text.p) : end;
		uint32_t source = NO_SOURCE;

		/* The line's blanks may be md4c's own; the first byte that is the text's tells where it stands. */
		for (; look < b->para.n && (size_t)b->para.p[look].from + b->para.p[look].n <= from; look++)
			;
		for (size_t k = look; k < b->para.n && b->para.p[k].from < to; k++) {
			const struct span *s = &b->para.p[k];
			if (s->source == NO_SOURCE)
				continue;
			if (s->from >= from && s->source >= s->from - from)
				source = s->source - (uint32_t)(s->from - from);
			else if (s->from < from)
				source = s->source + (uint32_t)(from - s->from);
			break;
		}
		code_line(b, from, to, source);
		from = to + 1;
	}
	all_shown(b, &b->para);
	if (b->lang.n && b->lang_source != NO_SOURCE)
		shown_to(b, b->lang_source + b->lang.n);
	note_code(b->l, first == NO_SOURCE ? b->g->shown : first, first == NO_SOURCE ? 0 : b->g->shown - first);
	b->para.n = 0;
}

static void rule(struct build *b)
{
	const char *end = b->text + b->end, *p = b->text + b->g->shown;
	uint32_t source = NO_SOURCE;
	int n = room(b);

	/* md4c does not say where it stood: the next line of nothing else. */
	if (b->g->shown < b->shift)
		p = b->text + b->shift;
	while (p < end && source == NO_SOURCE) {
		const char *nl = memchr(p, '\n', (size_t)(end - p)), *to = nl ? nl : end, *q = p;
		int marks = 0;
		for (; q < to && strchr(" >*_-", *q); q++)
			marks += *q != ' ' && *q != '>';
		if (q == to && marks >= 3)
			source = (uint32_t)(p - b->text);
		p = to + 1;
		if (source != NO_SOURCE) {
			begin_block(b, source);
			shown_to(b, (size_t)(to - b->text));
		}
	}
	begin_line(b, source);
	for (; n > 0; n -= 8)
		lines_own(b->l, b->l->ascii ? "--------" : "\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500",
		          (size_t)(n < 8 ? n : 8) * (b->l->ascii ? 1 : 3), ST_RULE);
}

/* Bullets without room stand in a line of their own where no paragraph takes them in. */
static void flush_bullets(struct build *b)
{
	for (int i = 0; i < b->n_level && i < LEVELS; i++)
		if (b->level[i].flat && !b->level[i].used) {
			begin_paragraph(b);
			end_paragraph(b);
			return;
		}
}

static void push_level(struct build *b, const struct level *v)
{
	if (b->n_level < LEVELS) {
		int cols = before_cols(b) + v->cols;

		b->level[b->n_level] = *v;
		/* Half of the width stays for text. */
		if (cols > b->width / 2 || cols > BEFORE_MOST) {
			b->level[b->n_level].cols = 0;
			b->level[b->n_level].flat = !v->quote;
		}
	}
	b->n_level++;
}

static void push_item(struct build *b, const MD_BLOCK_LI_DETAIL *item)
{
	struct level v = {0};
	struct str s = {0};
	int k = b->n_list - 1;

	if (k >= 0 && k < LISTS && b->list[k].ordered)
		str_addf(&s, "%u%c ", b->list[k].next++, b->list[k].mark);
	else if (!item->is_task)
		str_adds(&s, b->l->ascii ? "- " : "\u2022 ");
	if (item->is_task)
		str_addf(&s, "[%c] ", item->task_mark == ' ' ? ' ' : 'x');
	v.n = (unsigned char)(s.n < sizeof v.bullet ? s.n : sizeof v.bullet);
	memcpy(v.bullet, s.p, v.n);
	v.cols = (unsigned char)text_width(v.bullet, v.n);
	str_free(&s);
	push_level(b, &v);
}

static void pop_level(struct build *b)
{
	flush_bullets(b);
	if (b->n_level <= LEVELS && !b->level[b->n_level - 1].used && !b->level[b->n_level - 1].quote)
		begin_line(b, NO_SOURCE);   /* an item without text */
	b->n_level--;
}

static void end_table(struct build *b)
{
	/* md4c fills rows up: a few bytes would become much more. */
	b->table.sparse = b->table.n_cell > b->piece.n;
	begin_block(b, first_source(&b->table.spans, 0));
	table_lay_out(b->l, &b->table, room(b), begin_table_line, b);
	all_shown(b, &b->table.spans);
	b->table.spans.n = b->table.n_cell = 0;
	b->in_table = 0;
}

static void begin_cell(struct build *b, const MD_BLOCK_TD_DETAIL *d)
{
	struct table *t = &b->table;

	if (t->n_cell == t->cap_cell) {
		t->cap_cell = t->cap_cell ? t->cap_cell * 2 : 64;
		t->cell = xrealloc(t->cell, t->cap_cell * sizeof *t->cell);
	}
	if (t->n_cell < t->cols)
		t->align[t->n_cell] = d->align == MD_ALIGN_RIGHT ? ALIGN_RIGHT : d->align == MD_ALIGN_CENTER ? ALIGN_CENTER : ALIGN_LEFT;
	t->cell[t->n_cell++] = (struct table_cell){ .from = b->l->text.n, .span = t->spans.n };
}

static void end_cell(struct build *b)
{
	struct table_cell *c = &b->table.cell[b->table.n_cell - 1];

	c->to = b->l->text.n;
	c->n_span = b->table.spans.n - c->span;
}

/* ---- what md4c says ---- */

static int enter_block(MD_BLOCKTYPE type, void *detail, void *ud)
{
	struct build *b = ud;

	end_paragraph(b);
	switch (type) {
	case MD_BLOCK_QUOTE:
		b->quotes++;
		push_level(b, &(struct level){ .quote = 1, .cols = 2 });
		break;
	case MD_BLOCK_UL:
		if (b->n_list++ < LISTS)
			b->list[b->n_list - 1].ordered = 0;
		break;
	case MD_BLOCK_OL:
		if (b->n_list++ < LISTS) {
			b->list[b->n_list - 1].ordered = 1;
			b->list[b->n_list - 1].next = ((MD_BLOCK_OL_DETAIL *)detail)->start;
			b->list[b->n_list - 1].mark = ((MD_BLOCK_OL_DETAIL *)detail)->mark_delimiter;
		}
		break;
	case MD_BLOCK_LI:
		push_item(b, detail);
		break;
	case MD_BLOCK_HR:
		flush_bullets(b);
		rule(b);
		break;
	case MD_BLOCK_H:
		b->heading = (int)((MD_BLOCK_H_DETAIL *)detail)->level;
		break;
	case MD_BLOCK_CODE: {
		const MD_ATTRIBUTE *info = &((MD_BLOCK_CODE_DETAIL *)detail)->info;

		flush_bullets(b);
		b->in_code = 1;
		b->para_from = b->l->text.n;
		str_clear(&b->lang);
		str_add(&b->lang, info->size ? info->text : "", attribute_size(b, info));
		piece_unpatch(b->lang.p, b->lang.n);
		b->lang_source = info->size ? source_of(b, info->text) : NO_SOURCE;
		break;
	}
	case MD_BLOCK_TABLE:
		flush_bullets(b);
		b->in_table = 1;
		b->table.cols = ((MD_BLOCK_TABLE_DETAIL *)detail)->col_count;
		if (b->table.cols > TABLE_COLUMNS)
			b->table.cols = TABLE_COLUMNS;   /* piece_is_hostile() lets none in that has more */
		b->table.n_cell = b->table.spans.n = 0;
		break;
	case MD_BLOCK_TH:
		b->in_head = 1;
		begin_cell(b, detail);
		break;
	case MD_BLOCK_TD:
		begin_cell(b, detail);
		break;
	default:
		break;
	}
	return 0;
}

static int leave_block(MD_BLOCKTYPE type, void *detail, void *ud)
{
	struct build *b = ud;

	switch (type) {
	case MD_BLOCK_CODE:
		end_code(b);
		b->in_code = 0;
		return 0;
	case MD_BLOCK_TH: case MD_BLOCK_TD:
		b->in_head = 0;
		end_cell(b);
		return 0;
	case MD_BLOCK_TABLE:
		end_table(b);
		return 0;
	default:
		break;
	}
	end_paragraph(b);
	switch (type) {
	case MD_BLOCK_H:
		b->heading = 0;
		break;
	case MD_BLOCK_QUOTE:
		b->quotes--;
		b->n_level--;
		break;
	case MD_BLOCK_LI:
		pop_level(b);
		break;
	case MD_BLOCK_UL: case MD_BLOCK_OL:
		b->n_list--;
		break;
	default:
		break;
	}
	return 0;
}

static int enter_span(MD_SPANTYPE type, void *detail, void *ud)
{
	struct build *b = ud;

	switch (type) {
	case MD_SPAN_EM:     b->em++; break;
	case MD_SPAN_STRONG: b->strong++; break;
	case MD_SPAN_DEL:    b->del++; add_as(b, "~", 1, style_now(b), NO_SOURCE); break;
	case MD_SPAN_CODE:   b->code++; break;
	case MD_SPAN_A:
		b->link_from = b->link++ ? SIZE_MAX : b->l->text.n;
		break;
	case MD_SPAN_IMG:
		b->link_from = SIZE_MAX;
		b->link++;
		add_as(b, "image: ", 7, ST_FAINT, NO_SOURCE);
		break;
	default: break;
	}
	return 0;
}

static int leave_span(MD_SPANTYPE type, void *detail, void *ud)
{
	struct build *b = ud;

	switch (type) {
	case MD_SPAN_EM:     b->em--; break;
	case MD_SPAN_STRONG: b->strong--; break;
	case MD_SPAN_DEL:    add_as(b, "~", 1, style_now(b), NO_SOURCE); b->del--; break;
	case MD_SPAN_CODE:   b->code--; break;
	case MD_SPAN_A:
		b->link--;
		add_address(b, &((MD_SPAN_A_DETAIL *)detail)->href, &((MD_SPAN_A_DETAIL *)detail)->title, b->link_from);
		b->link_from = SIZE_MAX;
		break;
	case MD_SPAN_IMG:
		b->link--;
		add_address(b, &((MD_SPAN_IMG_DETAIL *)detail)->src, &((MD_SPAN_IMG_DETAIL *)detail)->title, SIZE_MAX);
		break;
	default: break;
	}
	return 0;
}

static int on_text(MD_TEXTTYPE type, const MD_CHAR *p, MD_SIZE n, void *ud)
{
	struct build *b = ud;
	size_t skip;

	if (!n && type != MD_TEXT_BR && type != MD_TEXT_SOFTBR)
		return 0;
	if (b->in_code) {
		size_t from = b->l->text.n;

		for (size_t left = n, k; left; left -= k + skip, p += k + skip) {
			k = piece_text(&b->piece, p, left, &skip);
			spans_add(b->l, &b->para, p, k, ST_CODE, source_of(b, p));
		}
		if (b->l->text.n > from)
			piece_unpatch(b->l->text.p + from, b->l->text.n - from);
		return 0;
	}
	switch (type) {
	case MD_TEXT_BR:
		add_as(b, "\n", 1, style_now(b), NO_SOURCE);
		b->line_cols = 0;
		break;
	case MD_TEXT_SOFTBR:
		soft_break(b);
		break;
	case MD_TEXT_ENTITY:
		add_entity(b, p, n, style_now(b));
		break;
	default:
		add(b, p, n, style_now(b));
		n = (MD_SIZE)piece_text(&b->piece, p, n, &skip);
		b->line_cols += n < SHORT_LINE ? (int)text_width(p, n) : SHORT_LINE;
		break;
	}
	return 0;
}

static const MD_PARSER parser = {
	.flags = PARSER_FLAGS,
	.enter_block = enter_block, .leave_block = leave_block,
	.enter_span = enter_span, .leave_span = leave_span, .text = on_text,
};

/* ---- pieces ---- */

static void plain_piece(struct build *b, size_t from, size_t to)
{
	while (to > from && (b->text[to - 1] == '\n' || b->text[to - 1] == ' '))
		to--;
	for (size_t at = from; at < to;) {
		size_t end = line_end(b->text, to, at);

		if (end > at || at > from) {
			if (at == from)
				begin_block(b, (uint32_t)at);
			lines_plain_one(b->l, b->text, at, end, b->width, ST_TEXT);
			b->g->any = 1;
		} else {
			from = at + 1;   /* blank lines at its beginning are begin_block()'s */
		}
		at = end + 1;
	}
	shown_to(b, to);
}

static void markdown_piece(struct build *b, size_t from, size_t to)
{
	if (to > UINT32_MAX / 2 || !lines_room(b->l, (to - from) * 8))
		return;
	if (piece_is_hostile(b->text + from, to - from)) {
		plain_piece(b, from, to);
		return;
	}
	b->shift = from;
	b->end = to;
	piece_copy(&b->piece, b->text + from, to - from);
	b->n_level = b->n_list = b->in_table = b->in_head = b->in_code = 0;
	b->heading = b->quotes = b->strong = b->em = b->del = b->code = b->link = 0;
	b->para.n = 0;
	md_parse(b->piece.p, (MD_SIZE)b->piece.n, &parser, b);
	piece_free(&b->piece);
}

/* ---- fences ---- */

static void open_fence(struct build *b, size_t at, size_t end)
{
	struct growth *g = b->g;
	size_t info, n;

	fence_open(&g->fence, b->text, at, end, &info, &n);
	begin_block(b, (uint32_t)at);
	code_head(b, b->text + info, n, (uint32_t)info);
	shown_to(b, end);
	g->body = (uint32_t)end + 1;
	note_code(b->l, g->body, 0);
}

static void fence_line(struct build *b, size_t at, size_t end)
{
	size_t base = b->l->text.n;

	for (int i = 0; i < b->g->fence.indent && at < end && b->text[at] == ' '; i++)
		at++;
	if (end > UINT32_MAX / 2 || !lines_room(b->l, end - at))
		return;
	str_add(&b->l->text, b->text + at, end - at);
	code_line(b, base, base + (end - at), (uint32_t)at);
	shown_to(b, end);
}

static void code_until(struct build *b, size_t at)
{
	if (b->l->n_code)
		b->l->code[b->l->n_code - 1].n = (uint32_t)(at - b->g->body);
}

/* From g->done on: up to the closing fence, or all there is, with a last line that may still grow. */
static void fence_body(struct build *b, size_t n)
{
	struct growth *g = b->g;

	while (g->done < n && g->fence.mark) {
		const char *nl = memchr(b->text + g->done, '\n', n - g->done);
		size_t end = nl ? (size_t)(nl - b->text) : n, next = nl ? end + 1 : n;
		struct growth rest = *g;

		if (!nl)
			b->g = &rest;
		if (fence_closes(&g->fence, b->text + g->done, b->text + end)) {
			code_until(b, g->done);
			shown_to(b, end);
			b->g->fence.mark = 0;
		} else {
			fence_line(b, g->done, end);
			code_until(b, next);
		}
		if (!nl)
			break;
		growth_settle(b->l, g, next);
	}
	b->g = g;
}

void lines_grow_markdown(struct lines *l, struct growth *g, const char *text, size_t n, int width)
{
	struct build b = { .l = l, .g = g, .text = text, .width = lines_width(width) };

	growth_begin(l, g);
	while (g->done < n) {
		struct growth rest;
		int whole, fence;
		size_t end;

		if (g->fence.mark) {
			size_t was = g->done;
			b.n_level = 0;
			fence_body(&b, n);
			if (g->fence.mark || g->done == was)
				break;
			continue;
		}
		end = piece_end(text, n, g->done, &whole, &fence);
		if (fence) {
			end = line_end(text, n, g->done);
			b.n_level = 0;
			open_fence(&b, g->done, end);
			growth_settle(l, g, end + 1);
			continue;
		}
		rest = *g;
		if (!whole)
			b.g = &rest;
		markdown_piece(&b, g->done, end);
		b.g = g;
		if (!whole)
			break;
		growth_settle(l, g, end);
	}
	free(b.para.p);
	free(b.coded.p);
	table_free(&b.table);
	str_free(&b.lang);
}

void lines_markdown(struct lines *l, const char *text, size_t n, int width)
{
	struct growth g = {0};

	lines_grow_markdown(l, &g, text, n, width);
}
