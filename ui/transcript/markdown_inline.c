/* ui/transcript/markdown_inline.c - the text inside a paragraph, heading or table cell: styles, link addresses,
 * entities. The text is collected as spans, which are byte ranges with a style. The lines are made when the block
 * ends. */
#include "ui/transcript/markdown_private.h"
#include "ui/text/text.h"

#include <stdlib.h>
#include <string.h>

uint32_t build_source(const struct build *b, const char *p)
{
	size_t at = piece_source(&b->piece, p);

	return at == SIZE_MAX ? NO_SOURCE : (uint32_t)(b->shift + at);
}

static struct spans *current_spans(struct build *b)
{
	return b->in_table ? &b->table.spans : &b->para;
}

unsigned build_style(const struct build *b)
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

/* Begin a paragraph. A bullet that leaves no room for text beside it becomes the beginning of the paragraph's text. */
void build_paragraph(struct build *b)
{
	b->para_from = b->l->text.n;
	b->line_cols = 0;
	for (int i = 0; i < b->n_level && i < LEVELS; i++)
		if (b->level[i].flat && !b->level[i].used) {
			spans_add(b->l, &b->para, b->level[i].bullet, b->level[i].n, ST_BULLET, NO_SOURCE);
			b->level[i].used = 1;
		}
}

void build_add_as(struct build *b, const char *p, size_t n, unsigned style, uint32_t source)
{
	struct spans *s = current_spans(b);
	const struct span *last;
	int32_t cp;
	size_t from;

	if (!n)
		return;
	if (!b->in_table && !b->para.n)
		build_paragraph(b);
	/* The text may begin with a combining mark whose base character was not shown. Put a dotted circle before it,
	 * so that the mark does not combine with other text. */
	utf8_decode(p, n, &cp);
	last = s->n ? &s->p[s->n - 1] : NULL;
	if (cp >= 0x300 && char_width(cp) == 0 && !(last && source != NO_SOURCE && last->source + last->n == source))
		spans_add(b->l, s, "\u25cc", 3, style, NO_SOURCE);
	from = b->l->text.n;
	spans_add(b->l, s, p, n, style, source);
	piece_unpatch(b->l->text.p + from, b->l->text.n - from);
}

void build_add(struct build *b, const char *p, size_t n, unsigned style)
{
	for (size_t k, skip; n; n -= k + skip, p += k + skip) {
		k = piece_text(&b->piece, p, n, &skip);
		build_add_as(b, p, k, style, build_source(b, p));
	}
}

void build_add_entity(struct build *b, const char *p, size_t n, unsigned style)
{
	static const struct {
		const char *name;
		uint16_t cp;
	} named[] = {
		{ "&amp;", '&' },      { "&lt;", '<' },       { "&gt;", '>' },        { "&quot;", '"' },
		{ "&apos;", '\'' },    { "&nbsp;", ' ' },     { "&copy;", 0xa9 },     { "&reg;", 0xae },
		{ "&deg;", 0xb0 },     { "&plusmn;", 0xb1 },  { "&middot;", 0xb7 },   { "&times;", 0xd7 },
		{ "&laquo;", 0xab },   { "&raquo;", 0xbb },   { "&frac12;", 0xbd },   { "&ndash;", 0x2013 },
		{ "&mdash;", 0x2014 }, { "&lsquo;", 0x2018 }, { "&rsquo;", 0x2019 },  { "&ldquo;", 0x201c },
		{ "&rdquo;", 0x201d }, { "&bull;", 0x2022 },  { "&hellip;", 0x2026 }, { "&euro;", 0x20ac },
		{ "&trade;", 0x2122 }, { "&larr;", 0x2190 },  { "&rarr;", 0x2192 },   { "&ne;", 0x2260 },
		{ "&le;", 0x2264 },    { "&ge;", 0x2265 },    { "&infin;", 0x221e },  { "&check;", 0x2713 },
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
	for (size_t i = 0; i < LEN(named); i++)
		if (strlen(named[i].name) == n && !memcmp(named[i].name, p, n))
			cp = named[i].cp;
	/* an entity for a control character or an invisible character, such as "&#7;", is shown as it is written */
	if (cp < 0x20 || cp > 0x10ffff || char_width(cp) < 1)
		build_add(b, p, n, style);
	else
		build_add_as(b, out, (size_t)utf8_encode(cp, out), style, build_source(b, p));
}

size_t build_attribute(const struct build *b, const MD_ATTRIBUTE *a)
{
	size_t skip;

	return a->size ? piece_text(&b->piece, a->text, a->size, &skip) : 0;
}

static void add_attribute(struct build *b, const MD_ATTRIBUTE *a, unsigned style)
{
	size_t size = build_attribute(b, a);

	for (size_t i = 0; size && a->substr_offsets[i] < size; i++) {
		size_t from = a->substr_offsets[i], to = a->substr_offsets[i + 1], n = MIN(to, size) - from;

		if (a->substr_types[i] == MD_TEXT_ENTITY)
			build_add_entity(b, a->text + from, n, style);
		else if (a->substr_types[i] == MD_TEXT_NORMAL)
			build_add(b, a->text + from, n, style);
	}
}

/* If the address at l->text[from..] has a host with non-ASCII letters, append it again with the host in ASCII
 * (Punycode): letters of other scripts may look like Latin letters. `before` and `behind` are the texts around the
 * appended address. */
static void add_ascii(struct build *b, size_t from, const char *before, const char *behind)
{
	struct str s = { 0 };

	if (from < b->l->text.n && address_in_ascii(b->l->text.p + from, b->l->text.n - from, &s)) {
		build_add_as(b, before, strlen(before), ST_FAINT, NO_SOURCE);
		build_add_as(b, s.p, s.n, ST_LINK | STYLE_FAINT, NO_SOURCE);
		build_add_as(b, behind, strlen(behind), ST_FAINT, NO_SOURCE);
	}
	str_free(&s);
}

/* Append a link's address after the link's text, unless the text is the address itself. */
void build_add_address(struct build *b, const MD_ATTRIBUTE *href, const MD_ATTRIBUTE *title, size_t from)
{
	const char *said = from < b->l->text.n ? b->l->text.p + from : "";
	size_t n = from < b->l->text.n ? b->l->text.n - from : 0, mail = 7;
	size_t size = build_attribute(b, href);

	if (n && size == n && !memcmp(href->text, said, n)) {
		add_ascii(b, from, " (", ")");
		return;
	}
	if (size == n + mail && !memcmp(href->text, "mailto:", mail) && !memcmp(href->text + mail, said, n))
		return;
	build_add_as(b, " (", 2, ST_FAINT, NO_SOURCE);
	from = b->l->text.n;
	add_attribute(b, href, ST_LINK | STYLE_FAINT);
	add_ascii(b, from, ", that is ", "");
	if (build_attribute(b, title)) {
		build_add_as(b, " \"", 2, ST_FAINT, NO_SOURCE);
		add_attribute(b, title, ST_FAINT);
		build_add_as(b, "\"", 1, ST_FAINT, NO_SOURCE);
	}
	build_add_as(b, ")", 1, ST_FAINT, NO_SOURCE);
}

void build_soft_break(struct build *b)
{
	/* if there is no text before the break, line_cols still belongs to an earlier paragraph */
	int joins = b->para.n && b->line_cols >= SHORT_LINE;

	build_add_as(b, joins ? " " : "\n", 1, build_style(b), NO_SOURCE);
	b->line_cols = 0;
}
