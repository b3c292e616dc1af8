/* ui/transcript/markdown_blocks.c - lays out Markdown blocks: quote bars and bullets before the text, code,
 * tables, rules. An empty line is drawn before a block if the source has one there. */
#include "ui/transcript/markdown_private.h"
#include "ui/text/text.h"

#include <stdlib.h>
#include <string.h>

/* ---- lines with bars and bullets ---- */

static int before_cols(const struct build *b)
{
	int cols = 0;

	for (int i = 0; i < b->n_level && i < LEVELS; i++)
		cols += b->level[i].cols;
	return cols;
}

/* Return the number of columns that are left for text. */
static int build_room(const struct build *b)
{
	return b->width - before_cols(b);
}

static void put_bullet(struct build *b, struct level *v)
{
	lines_own(b->l, v->bullet, v->n, ST_BULLET);
	v->used = 1;
}

/* Draw what comes before the text of a line: the bars of open quotes and the bullets of open list items. If `all` is 0,
 * stop at the first quote or item that has no text yet. Adjacent bars share one run (text of one style). */
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

/* Begin a line. `source` is the offset of the line's text in the message; NO_SOURCE = the end of the text shown so far.
 * From line to line, these offsets never decrease. */
static void new_line(struct build *b, uint32_t source)
{
	uint32_t least = b->g->any && b->l->n_line ? b->l->line[b->l->n_line - 1].source : 0;

	if (source == NO_SOURCE)
		source = (uint32_t)b->g->shown;
	lines_begin(b->l, MAX(source, least));
}

/* Begin a line with bars and bullets. */
static void build_line(struct build *b, uint32_t source)
{
	new_line(b, source);
	put_before(b, 1);
	b->g->any = 1;
}

static void begin_table_line(void *ud, uint32_t source)
{
	build_line(ud, source);
}

/* 1 if the message has an empty line between the text that was shown last and offset `source`. */
static int blank_before(const struct build *b, uint32_t source)
{
	int fresh = 0; /* 1: the current line is empty so far */

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

void build_block(struct build *b, uint32_t source)
{
	if (blank_before(b, source)) {
		new_line(b, source ? source - 1 : 0);
		put_before(b, 0);
	}
}

void build_shown(struct build *b, size_t end)
{
	if (end > b->g->shown)
		b->g->shown = end;
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
			build_shown(b, (size_t)s->p[i - 1].source + s->p[i - 1].n);
			return;
		}
}

void build_flush(struct build *b)
{
	size_t end = b->l->text.n, span = 0, next, look = 0;

	if (!b->para.n || b->in_code)
		return;
	build_block(b, first_source(&b->para, 0));
	for (size_t at = b->para_from; at < end; at = next) {
		size_t stop;
		int cols;
		uint32_t source = NO_SOURCE;

		next = wrap_next(b->l->text.p, at, end, build_room(b), &stop, &cols);
		for (; look < b->para.n; look++) {
			const struct span *s = &b->para.p[look];
			if (s->source == NO_SOURCE || (size_t)s->from + s->n <= at)
				continue;
			source = s->source + (uint32_t)(at > s->from ? at - s->from : 0);
			break;
		}
		build_line(b, source);
		lines_put(b->l, &b->para, &span, at, stop);
	}
	all_shown(b, &b->para);
	b->para.n = 0;
}

/* Lay out a line of code: colour its tokens first, and then break it at the width. */
void build_code_line(struct build *b, size_t from, size_t to, uint32_t source)
{
	int indent = build_room(b) > CODE_INDENT + 4 ? CODE_INDENT : 0, cont = 0;
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
		GROW(s->p, s->n, s->cap);
		s->p[s->n++] = (struct span){ (uint32_t)at, (uint32_t)(end - at),
			                      source == NO_SOURCE ? NO_SOURCE : source + (uint32_t)(at - from),
			                      (uint16_t)style };
	}
	code_newline(&b->g->colours);
	if (from == to)
		build_line(b, source);
	for (size_t at = from; at < to; at = next) {
		size_t stop;
		int cols;

		next = cut_next(b->l->text.p, at, to, build_room(b) - indent, &stop, &cols);
		build_line(b, source == NO_SOURCE ? NO_SOURCE : source + (uint32_t)(at - from));
		if (indent && cont)
			lines_own(b->l, b->l->ascii ? "> " : "\u203a ", b->l->ascii ? 2 : 4, ST_FAINT);
		else if (indent)
			lines_own(b->l, "  ", CODE_INDENT, ST_CODE);
		lines_put(b->l, s, &span, at, stop);
		cont = 1;
	}
}

void build_code_head(struct build *b, const char *info, size_t n, uint32_t source)
{
	int indent = build_room(b) > CODE_INDENT + 4 ? CODE_INDENT : 0;
	size_t base = b->l->text.n, end, next, span = 0, stop;
	int cols;

	code_start(&b->g->colours, info, n);
	if (!n)
		return;
	b->coded.n = 0;
	spans_add(b->l, &b->coded, info, n, ST_FAINT, source);
	end = b->l->text.n;
	for (size_t at = base; at < end; at = next) {
		next = wrap_next(b->l->text.p, at, end, build_room(b) - indent, &stop, &cols);
		build_line(b, source);
		if (indent)
			lines_own(b->l, "  ", CODE_INDENT, ST_CODE);
		lines_put(b->l, &b->coded, &span, at, stop);
	}
}

void build_note_code(struct lines *l, size_t from, size_t n)
{
	GROW(l->code, l->n_code, l->cap_code);
	l->code[l->n_code++] = (struct code_block){ (uint32_t)from, (uint32_t)n };
}

void build_code(struct build *b)
{
	size_t from = b->para_from, end = b->l->text.n, look = 0;
	uint32_t first = first_source(&b->para, 0), start = first;

	if (!b->para.n)
		from = end;
	if (b->lang.n && b->lang_source != NO_SOURCE)
		start = b->lang_source;
	build_block(b, start);
	build_code_head(b, b->lang.p, b->lang.n, b->lang_source);
	while (from < end) {
		const char *nl = memchr(b->l->text.p + from, '\n', end - from);
		size_t to = nl ? (size_t)(nl - b->l->text.p) : end;
		uint32_t source = NO_SOURCE;

		/* A line may begin with blanks from md4c, which have no offset in the text. So compute the line's
		 * offset from its first bytes that have one. */
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
		build_code_line(b, from, to, source);
		from = to + 1;
	}
	all_shown(b, &b->para);
	if (b->lang.n && b->lang_source != NO_SOURCE)
		build_shown(b, b->lang_source + b->lang.n);
	build_note_code(b->l, first == NO_SOURCE ? b->g->shown : first, first == NO_SOURCE ? 0 : b->g->shown - first);
	b->para.n = 0;
}

void build_rule(struct build *b)
{
	const char *end = b->text + b->end, *p = b->text + b->g->shown;
	uint32_t source = NO_SOURCE;
	int n = build_room(b);

	/* md4c does not report where a horizontal rule is: find the next line of the text that is a rule. */
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
			build_block(b, source);
			build_shown(b, (size_t)(to - b->text));
		}
	}
	build_line(b, source);
	for (; n > 0; n -= 8)
		lines_own(b->l, b->l->ascii ? "--------" : "\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500",
		          (size_t)(MIN(n, 8)) * (b->l->ascii ? 1 : 3), ST_RULE);
}

/* Write all bullets that wait for a paragraph, on a line of their own. A bullet waits if it leaves no room for text
 * beside it: it then becomes the beginning of the item's paragraph, if the item has one. */
void build_bullets(struct build *b)
{
	for (int i = 0; i < b->n_level && i < LEVELS; i++)
		if (b->level[i].flat && !b->level[i].used) {
			build_paragraph(b);
			build_flush(b);
			return;
		}
}

void build_push(struct build *b, const struct level *v)
{
	if (b->n_level < LEVELS) {
		int cols = before_cols(b) + v->cols;

		b->level[b->n_level] = *v;
		/* keep half of the width for the text */
		if (cols > b->width / 2 || cols > BEFORE_MOST) {
			b->level[b->n_level].cols = 0;
			b->level[b->n_level].flat = !v->quote;
		}
	}
	b->n_level++;
}

void build_item(struct build *b, const MD_BLOCK_LI_DETAIL *item)
{
	struct level v = { 0 };
	struct str s = { 0 };
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
	build_push(b, &v);
}

void build_pop(struct build *b)
{
	build_bullets(b);
	if (b->n_level <= LEVELS && !b->level[b->n_level - 1].used && !b->level[b->n_level - 1].quote)
		build_line(b, NO_SOURCE); /* draw the bullet of an item without text */
	b->n_level--;
}

void build_table(struct build *b)
{
	/* md4c fills short rows with empty cells, so a few bytes could become a huge table. Such a table is not drawn
	 * in columns. */
	b->table.sparse = b->table.n_cell > b->piece.n;
	build_block(b, first_source(&b->table.spans, 0));
	table_lay_out(b->l, &b->table, build_room(b), begin_table_line, b);
	all_shown(b, &b->table.spans);
	b->table.spans.n = b->table.n_cell = 0;
	b->in_table = 0;
}

void build_cell(struct build *b, const MD_BLOCK_TD_DETAIL *d)
{
	struct table *t = &b->table;

	GROW(t->cell, t->n_cell, t->cap_cell);
	if (t->n_cell < t->cols)
		t->align[t->n_cell] = d->align == MD_ALIGN_RIGHT    ? ALIGN_RIGHT
		                      : d->align == MD_ALIGN_CENTER ? ALIGN_CENTER
		                                                    : ALIGN_LEFT;
	t->cell[t->n_cell++] = (struct table_cell){ .from = b->l->text.n, .span = t->spans.n };
}

void build_cell_end(struct build *b)
{
	struct table_cell *c = &b->table.cell[b->table.n_cell - 1];

	c->to = b->l->text.n;
	c->n_span = b->table.spans.n - c->span;
}
