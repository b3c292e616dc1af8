/* ui/transcript/markdown_pieces.c - splits Markdown into pieces that can be parsed separately, and finds fenced code.
 *
 * A piece ends at a blank line before an unindented line, and where fenced code begins or ends; md4c does not see the
 * code. If a text grows, only its last piece is parsed again. Pieces have at most PIECE_MOST bytes, because parts of
 * md4c take more than linear time. For the same reason, a piece that is full of marks is shown as plain text. The
 * pieces depend on whole lines only, and not on how much text arrives at a time. */
#include "ui/transcript/lines.h"
#include "engine/base/utf8.h"

#include <md4c.h>
#include <stdlib.h>
#include <string.h>

enum {
	PIECE_MOST = 16384, /* maximum number of bytes of a piece */
	MARKS_MOST = 2000,  /* maximum number of characters with a Markdown meaning in a piece */
	NESTED_MOST = 24,   /* maximum number of quotes and list items that one line may open */
};

/* ---- kinds of lines ---- */

/* Return the length of the mark at p that begins a list item ("-", "12."), or 0. *number receives the number of the
 * item, or -1 for a bullet. */
static size_t item_mark(const char *p, const char *end, long *number)
{
	size_t n = 0;

	*number = -1;
	if (p < end && strchr("-*+", *p)) {
		n = 1;
	} else {
		long v = 0;
		for (; p + n < end && n < 9 && byte_is_digit(p[n]); n++)
			v = v * 10 + (p[n] - '0');
		if (!n || p + n == end || (p[n] != '.' && p[n] != ')'))
			return 0;
		n++;
		*number = v;
	}
	return p + n == end || p[n] == ' ' || p[n] == '\t' ? n : 0;
}

static int is_rule(const char *p, const char *end)
{
	int marks = 0;

	if (p == end || !strchr("-*_", *p))
		return 0;
	for (const char *q = p; q < end; q++) {
		if (*q == *p)
			marks++;
		else if (*q != ' ' && *q != '\t')
			return 0;
	}
	return marks >= 3;
}

/* Return the length of the fence that p[0..end) opens, or 0. */
static size_t fence_mark(const char *p, const char *end)
{
	size_t n = 0;

	if (p == end || (*p != '`' && *p != '~'))
		return 0;
	while (p + n < end && p[n] == *p)
		n++;
	return n >= 3 && !(*p == '`' && memchr(p + n, '`', (size_t)(end - p) - n)) ? n : 0;
}

int fence_closes(const struct fence *f, const char *p, const char *end)
{
	size_t n = 0;
	int indent = 0;

	for (; p < end && *p == ' '; p++)
		if (++indent > 3)
			return 0;
	for (; p < end && *p == f->mark; p++)
		n++;
	for (; p < end && (*p == ' ' || *p == '\t'); p++)
		;
	return p == end && n >= f->n;
}

void fence_open(struct fence *f, const char *text, size_t at, size_t end, size_t *info, size_t *n)
{
	for (f->indent = 0; text[at] == ' ' || text[at] == '\t'; at++)
		f->indent++;
	f->mark = text[at];
	f->n = (uint32_t)fence_mark(text + at, text + end);
	for (at += f->n; at < end && text[at] == ' '; at++)
		;
	while (end > at && text[end - 1] == ' ')
		end--;
	*info = at;
	*n = end - at;
}

size_t line_end(const char *text, size_t n, size_t at)
{
	const char *nl = memchr(text + at, '\n', n - at);

	return nl ? (size_t)(nl - text) : n;
}

/* ---- pieces ---- */

size_t piece_end(const char *text, size_t n, size_t from, struct piece_scan *scan, int *whole, int *fence)
{
	int goes_on = scan && scan->from == from && scan->at > from && scan->at <= n;
	/* column in which the text of the outermost open list item begins; -1 = no list is open */
	int list = goes_on ? scan->list : -1;
	int after_blank = goes_on && scan->after_blank;
	size_t at = goes_on ? scan->at : from;

	*whole = 1;
	*fence = 0;
	while (at < n) {
		const char *end = text + line_end(text, n, at), *p = text + at;
		int indent = 0;
		long number = -1;
		size_t mark;

		/* The last line is incomplete, so it is not known yet whether the Markdown can be split before it.
		 * Split it there only if the piece is too long. */
		if (end == text + n && at > from && n - from > PIECE_MOST)
			return at;
		if (end == text + n)
			break;
		for (; p < end && (*p == ' ' || *p == '\t'); p++)
			indent += *p == ' ' ? 1 : 4 - indent % 4;
		if (p == end) {
			if (at > from && (size_t)(end - text) - from > PIECE_MOST)
				return at;
			after_blank = 1;
			at = (size_t)(end - text) + 1;
			continue;
		}
		mark = is_rule(p, end) ? 0 : item_mark(p, end, &number);
		if (indent < 4 && (list < 0 || indent < list) && fence_mark(p, end)) {
			*fence = at == from;
			return at;
		}
		if (at > from && ((after_blank && !indent && !(list >= 0 && mark && number == 1)) ||
		                  (size_t)(end - text) - from > PIECE_MOST))
			return at;
		if (mark && (indent < 4 || list >= 0) && (number <= 1 || after_blank || list >= 0)) {
			if (list < 0 || indent < list) {
				int blanks = 0;
				while (p + mark + blanks < end && p[mark + (size_t)blanks] == ' ')
					blanks++;
				list = indent + (int)mark +
				       (blanks > 4 || p + mark + blanks == end || !blanks ? 1 : blanks);
			}
		} else if (list >= 0 && indent < list && (after_blank || is_rule(p, end) || *p == '#' || *p == '>')) {
			list = -1;
		}
		after_blank = 0;
		at = (size_t)(end - text) + 1;
	}
	if (scan)
		*scan = (struct piece_scan){ from, at, list, after_blank };
	*whole = 0;
	return n;
}

int piece_is_hostile(const char *p, size_t n)
{
	static const unsigned char may_mean[256] = {
		['*'] = 1, ['&'] = 1, ['!'] = 1, ['~'] = 1, ['|'] = 1, ['_'] = 1,
		['['] = 1, [']'] = 1, ['<'] = 1, ['>'] = 1, ['`'] = 1, ['\\'] = 1,
	};
	size_t marks = 0, bars = 0, nested = 0, rows = 0, most = 0;
	int head = 1;

	if (n > PIECE_MOST)
		return 1;
	for (size_t i = 0; i < n; i++) {
		char c = p[i];

		if (c == '\n') {
			bars = nested = 0;
			head = 1;
			continue;
		}
		if (head && c != ' ') {
			if (c == '>' || (i + 1 < n && p[i + 1] == ' ' && strchr("-+*.)", c)))
				nested++;
			else if (!byte_is_digit(c))
				head = 0;
		}
		marks += may_mean[(unsigned char)c];
		if (c == '|') {
			rows += !bars++;
			most = MAX(bars, most);
		}
		if (bars >= TABLE_COLUMNS || nested > NESTED_MOST || marks > MARKS_MOST)
			return 1;
	}
	/* A wide table with short rows is hostile, too: md4c fills each row with cells up to the widest row. */
	return rows * most > 2 * n;
}

/* Return how many dashes must be added to a cell in the delimiter row of a table; -1 = the text is not a cell of such a
 * row. md4c needs three characters ("---"), GitHub's Markdown only one. */
static int cell_lacks(const char *p, const char *end)
{
	const char *from;
	int dashes = 0;

	while (p < end && *p == ' ')
		p++;
	while (end > p && end[-1] == ' ')
		end--;
	from = p;
	p += p < end && *p == ':';
	for (; p < end && *p == '-'; p++)
		dashes++;
	p += p < end && *p == ':';
	if (p < end || !dashes)
		return -1;
	return p - from < 3 ? 3 - (int)(p - from) : 0;
}

/* Return how many dashes must be added to the row p[0..end) so that md4c takes it for the delimiter row of a table.
 * Returns 0 if the row is not such a delimiter row. */
static size_t row_lacks(const char *p, const char *end)
{
	size_t sum = 0;

	while (p < end && (*p == ' ' || *p == '>'))
		p++;
	while (end > p && end[-1] == ' ')
		end--;
	if (p == end || !memchr(p, '|', (size_t)(end - p)))
		return 0;
	for (p += *p == '|'; p < end;) {
		const char *bar = memchr(p, '|', (size_t)(end - p));
		int lacks = cell_lacks(p, bar ? bar : end);

		if (lacks < 0)
			return 0;
		sum += (size_t)lacks;
		p = bar ? bar + 1 : end;
	}
	return sum;
}

static void copy_row(struct piece *c, const char *p, const char *end)
{
	int dashed = 0; /* 1 = this cell already has a dash */

	for (const char *cell = p; p < end; p++) {
		if (*p == '|') {
			cell = p + 1;
			dashed = 0;
		}
		c->p[c->n++] = *p;
		if (*p == '-' && !dashed) {
			const char *bar = memchr(p, '|', (size_t)(end - p));
			int lacks;

			while (cell < end && (*cell == '>' || *cell == ' '))
				cell++;
			lacks = cell_lacks(cell, bar ? bar : end);
			dashed = 1;
			if (lacks <= 0)
				continue;
			memset(c->p + c->n, '-', (size_t)lacks);
			c->more = xrealloc(c->more, (c->n_more + 1) * sizeof *c->more);
			c->more[c->n_more].at = c->n;
			c->more[c->n_more].n = (size_t)lacks;
			c->more[c->n_more].sum = (size_t)lacks + (c->n_more ? c->more[c->n_more - 1].sum : 0);
			c->n_more++;
			c->n += (size_t)lacks;
		}
	}
}

void piece_copy(struct piece *c, const char *p, size_t n)
{
	size_t lacks = 0;

	*c = (struct piece){ 0 };
	for (size_t at = 0, end; at < n; at = end + 1) {
		end = line_end(p, n, at);
		lacks += at ? row_lacks(p + at, p + end) : 0;
	}
	c->p = xcalloc(n + lacks + PIECE_BEHIND, 1);
	for (size_t at = 0, end; lacks && at < n; at = end + 1) {
		end = line_end(p, n, at);
		if (at && row_lacks(p + at, p + end)) {
			copy_row(c, p + at, p + end);
		} else {
			memcpy(c->p + c->n, p + at, end - at);
			c->n += end - at;
		}
		if (end < n)
			c->p[c->n++] = '\n';
	}
	if (!lacks) {
		memcpy(c->p, p, n);
		c->n = n;
	}
	for (size_t i = 1; i < c->n; i++) {
		if (c->p[i] == ':' && c->p[i - 1] == ']')
			c->p[i] = PATCH_COLON;
		else if (c->p[i] == '*' && i + 1 < c->n && byte_is_alnum(c->p[i - 1]) && byte_is_alnum(c->p[i + 1]))
			c->p[i] = PATCH_STAR;
	}
}

void piece_free(struct piece *c)
{
	free(c->p);
	free(c->more);
	*c = (struct piece){ 0 };
}

static int is_within(const struct piece *c, const char *p)
{
	return p >= c->p && p <= c->p + c->n + PIECE_BEHIND;
}

/* Return the index in c->more of the first sequence of added dashes that begins at or after byte `at` of the copy. */
static size_t more_at(const struct piece *c, size_t at)
{
	size_t lo = 0, hi = c->n_more;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (c->more[mid].at < at)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

size_t piece_source(const struct piece *c, const char *p)
{
	size_t at = (size_t)(p - c->p), i;

	if (!is_within(c, p) || at >= c->n)
		return SIZE_MAX;
	i = more_at(c, at);
	return i ? at - c->more[i - 1].sum : at;
}

size_t piece_text(const struct piece *c, const char *p, size_t n, size_t *skip)
{
	size_t at = (size_t)(p - c->p), i;

	*skip = 0;
	if (!is_within(c, p))
		return n; /* a blank or newline that md4c has made itself */
	if (at >= c->n || n > c->n - at) {
		size_t left = at < c->n ? c->n - at : 0;
		*skip = n - left;
		n = left;
	}
	i = more_at(c, at);
	if (i < c->n_more && c->more[i].at < at + n) {
		*skip += n - (c->more[i].at - at);
		n = c->more[i].at - at;
		if (*skip > c->more[i].n)
			*skip = c->more[i].n;
	}
	return n;
}

void piece_unpatch(char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] == PATCH_COLON || p[i] == PATCH_STAR)
			p[i] = p[i] == PATCH_COLON ? ':' : '*';
}

/* ---- code for copying ---- */

struct codes {
	size_t n, which;
	int inside;
	struct str *out;
	struct piece piece;
};

static int codes_enter_block(MD_BLOCKTYPE type, void *detail, void *ud)
{
	struct codes *c = ud;

	if (type == MD_BLOCK_CODE) {
		c->n++;
		c->inside = 1;
	}
	return 0;
}

static int codes_leave_block(MD_BLOCKTYPE type, void *detail, void *ud)
{
	((struct codes *)ud)->inside = 0;
	return 0;
}

static int codes_no_span(MD_SPANTYPE type, void *detail, void *ud)
{
	return 0;
}

static int codes_on_text(MD_TEXTTYPE type, const MD_CHAR *p, MD_SIZE n, void *ud)
{
	struct codes *c = ud;

	for (size_t left = c->inside && c->n == c->which ? n : 0, k, skip; left; left -= k + skip, p += k + skip) {
		k = piece_text(&c->piece, p, left, &skip);
		str_add(c->out, p, k);
	}
	return 0;
}

static const MD_PARSER parser = {
	.flags = PARSER_FLAGS,
	.enter_block = codes_enter_block,
	.leave_block = codes_leave_block,
	.enter_span = codes_no_span,
	.leave_span = codes_no_span,
	.text = codes_on_text,
};

static void piece_codes(struct codes *c, const char *p, size_t n)
{
	size_t from = c->out->n;

	if (piece_is_hostile(p, n))
		return;
	piece_copy(&c->piece, p, n);
	md_parse(c->piece.p, (MD_SIZE)c->piece.n, &parser, c);
	piece_free(&c->piece);
	if (c->out->n > from)
		piece_unpatch(c->out->p + from, c->out->n - from);
}

/* Count the fenced code block that begins at `at`, and append its content if it is the block that is wanted. Returns
 * the offset after it. */
static size_t fence_codes(struct codes *c, const char *text, size_t n, size_t at)
{
	struct fence f;
	size_t end = line_end(text, n, at), info, n_info;

	fence_open(&f, text, at, end, &info, &n_info);
	c->n++;
	for (at = end + 1; at < n; at = end + 1) {
		end = line_end(text, n, at);
		if (fence_closes(&f, text + at, text + end))
			return end < n ? end + 1 : n;
		for (int i = 0; i < f.indent && at < end && text[at] == ' '; i++)
			at++;
		if (c->n == c->which) {
			str_add(c->out, text + at, end - at);
			str_add(c->out, "\n", 1);
		}
	}
	return n;
}

size_t markdown_code(const char *text, size_t n, size_t which, struct str *out)
{
	struct codes c = { .which = which, .out = out };
	size_t from = out->n;

	for (size_t at = 0; at < n;) {
		int whole, fence;
		size_t end = piece_end(text, n, at, NULL, &whole, &fence);

		if (fence) {
			at = fence_codes(&c, text, n, at);
		} else {
			piece_codes(&c, text + at, end - at);
			at = end;
		}
	}
	if (out->n > from && out->p[out->n - 1] == '\n')
		out->p[--out->n] = 0;
	return c.n;
}
