/* ui/screen/grid.c - the screen as cells: writes text into cells, and dumps them as text.
 *
 * The cells of a grid always satisfy these rules, so that a row can be read from left to right. A cell of width 2 is
 * followed by its right half (width 0, code point 0, same style), and there are no other right halves. Every other cell
 * has one code point of width 1 and at most CLEAN_MARKS_MAX combining marks. The widths are those of char_width(). */
#include "ui/screen/grid.h"
#include "ui/text/text.h"

#include "ui/text/chars.h"

#include <stdio.h>
#include <stdlib.h>

#define GRID_MAX    1000 /* maximum number of columns, and of rows; a terminal may report more */
#define REPLACEMENT 0xfffd
#define VS15        0xfe0e

/* ---- grids ---- */

static struct cell blank_cell(unsigned style)
{
	return (struct cell){ .cp = ' ', .style = (uint16_t)style, .width = 1 };
}

static int clamp(int v, int lo, int hi)
{
	return v < lo ? lo : MIN(hi, v);
}

void grid_clear(struct grid *g)
{
	for (int i = 0; i < g->w * g->h; i++)
		g->cell[i] = blank_cell(ST_TEXT);
	g->cursor_x = 0;
	g->cursor_y = -1;
}

void grid_resize(struct grid *g, int w, int h)
{
	free(g->cell);
	g->w = clamp(w, 1, GRID_MAX);
	g->h = clamp(h, 1, GRID_MAX);
	g->cell = xcalloc((size_t)g->w * (size_t)g->h, sizeof *g->cell);
	grid_clear(g);
}

void grid_free(struct grid *g)
{
	free(g->cell);
	*g = (struct grid){ 0 };
}

/* ---- cells ---- */

/* Before one half of a wide character is overwritten, blank its other half. */
static void blank_other_half(struct cell *row, int w, int x)
{
	if (row[x].width == 0 && x > 0) {
		uint8_t back = row[x - 1].back;
		row[x - 1] = blank_cell(row[x - 1].style);
		row[x - 1].back = back;
	} else if (row[x].width == 2 && x + 1 < w) {
		uint8_t back = row[x].back;
		row[x + 1] = blank_cell(row[x].style);
		row[x + 1].back = back;
	}
}

/* Write one character at (x, y). All its columns must be inside the grid. */
static struct cell *put_cell(struct grid *g, int x, int y, int32_t cp, int width, unsigned style, uint8_t back)
{
	struct cell *row = g->cell + (size_t)y * (size_t)g->w;

	blank_other_half(row, g->w, x);
	if (width == 2)
		blank_other_half(row, g->w, x + 1);
	row[x] = (struct cell){ .cp = cp, .style = (uint16_t)style, .back = back, .width = (uint8_t)width };
	if (width == 2)
		row[x + 1] = (struct cell){ .style = (uint16_t)style, .back = back };
	return row + x;
}

/* Return the width of a character, 1 or 2. A code point without such a width is changed to U+FFFD. */
static int base_width(int32_t *cp)
{
	int width = *cp == '\n' ? -1 : char_width(*cp);

	if (width > 0)
		return width;
	*cp = REPLACEMENT;
	return 1;
}

/* ---- areas ---- */

struct area area_of(struct grid *g)
{
	return (struct area){ g, 0, 0, g->w, g->h };
}

/* Clip the range [*from, *from + n) of an area's columns or rows to the area. `origin` is the first column or row of
 * the area in the grid, and `size` the number of its columns or rows. *from becomes relative to the grid. Returns the
 * new size of the range. */
static int cut_part(int origin, int size, int *from, int n)
{
	long long lo = *from, hi = (long long)*from + MAX(n, 0);

	lo = lo < 0 ? 0 : MIN(size, lo);
	hi = hi < lo ? lo : MIN(size, hi);
	*from = origin + (int)lo;
	return (int)(hi - lo);
}

struct area area_part(const struct area *a, int x, int y, int w, int h)
{
	struct area part = { .grid = a->grid, .x = x, .y = y };

	part.w = cut_part(a->x, a->w, &part.x, w);
	part.h = cut_part(a->y, a->h, &part.y, h);
	return part;
}

static int has_row(const struct area *a, int y)
{
	return y >= 0 && y < a->h;
}

static struct cell *cell_at(const struct area *a, int x, int y)
{
	return a->grid->cell + (size_t)(a->y + y) * (size_t)a->grid->w + (a->x + x);
}

/* Write a character. If the edge of the area splits it, write blanks for the visible half. Returns the character's cell
 * if the whole character is visible, else NULL. */
static struct cell *put_cut(const struct area *a, int x, int y, int32_t cp, int width, unsigned style, uint8_t back)
{
	int whole = x >= 0 && x + width <= a->w;

	if (!has_row(a, y))
		return NULL;
	if (whole)
		return put_cell(a->grid, a->x + x, a->y + y, cp, width, style, back);
	for (int i = x; i < x + width; i++)
		if (i >= 0 && i < a->w)
			put_cell(a->grid, a->x + i, a->y + y, ' ', 1, style, back);
	return NULL;
}

void area_fill(const struct area *a, int x, int y, int n, unsigned style, int32_t cp)
{
	int width = base_width(&cp);
	long long end = (long long)x + n;
	/* if x is left of the area, skip whole characters, so that wide characters keep their columns */
	int from = x < 0 ? x % width : x;

	if (end > a->w)
		end = a->w;
	if (!has_row(a, y))
		return;
	for (; from < end; from += width)
		put_cut(a, from, y, from + width <= end ? cp : ' ', from + width <= end ? width : 1, style, 0);
}

void area_clear(const struct area *a, unsigned style)
{
	for (int y = 0; y < a->h; y++)
		area_fill(a, 0, y, a->w, style, ' ');
}

void area_cell(const struct area *a, int x, int y, int32_t cp, unsigned style, uint8_t back)
{
	int width = base_width(&cp);

	if (x > -width && x < a->w)
		put_cut(a, x, y, cp, width, style, back);
}

void area_frame(const struct area *a, unsigned style, int ascii)
{
	int right = a->w - 1, bottom = a->h - 1;

	area_fill(a, 0, 0, a->w, style, ascii ? '-' : 0x2500);
	area_fill(a, 0, bottom, a->w, style, ascii ? '-' : 0x2500);
	for (int y = 1; y < bottom; y++) {
		area_cell(a, 0, y, ascii ? '|' : 0x2502, style, 0);
		area_cell(a, right, y, ascii ? '|' : 0x2502, style, 0);
	}
	area_cell(a, 0, 0, ascii ? '+' : 0x250c, style, 0);
	area_cell(a, right, 0, ascii ? '+' : 0x2510, style, 0);
	area_cell(a, 0, bottom, ascii ? '+' : 0x2514, style, 0);
	area_cell(a, right, bottom, ascii ? '+' : 0x2518, style, 0);
}

struct area area_inner(const struct area *a)
{
	return area_part(a, 1, 1, a->w - 2, a->h - 2);
}

/* Change the style of n cells: keep only the bits in `keep`, then set the bits in `add`. */
static void change_style(const struct area *a, int x, int y, int n, unsigned keep, unsigned add)
{
	long long end = (long long)x + n;

	if (!has_row(a, y))
		return;
	if (end > a->w)
		end = a->w;
	for (int i = MAX(x, 0); i < end; i++) {
		struct cell *c = cell_at(a, i, y);

		if (!c->width)
			continue;
		for (int k = 0; k < c->width; k++)
			c[k].style = (uint16_t)((c->style & keep) | add);
	}
}

void area_restyle(const struct area *a, int x, int y, int n, unsigned style)
{
	change_style(a, x, y, n, 0, style);
}

void area_add_style(const struct area *a, int x, int y, int n, unsigned flags)
{
	change_style(a, x, y, n, ~0u, flags);
}

void area_cursor(const struct area *a, int x, int y)
{
	int seen = has_row(a, y) && x >= 0 && x < a->w;

	a->grid->cursor_x = seen ? a->x + x : 0;
	a->grid->cursor_y = seen ? a->y + y : -1;
}

/* ---- text ---- */

static void add_mark(struct cell *c, int32_t cp)
{
	for (int i = 0; c && i < CLEAN_MARKS_MAX; i++) {
		if (!c->mark[i]) {
			c->mark[i] = cp;
			return;
		}
	}
}

/* 1 if a mark, joiner or selector is drawn with the cell's character. U+FE0F is never drawn. A joiner is drawn only
 * between letters of scripts that join. Terminals disagree about the width of other sequences. */
static int mark_stays(const struct cell *c, int32_t cp)
{
	enum char_class class = char_class(cp);

	if (class == CH_VS16)
		return 0;
	return class == CH_MARK || (c && char_class(c->cp) == CH_JOINING);
}

/* 1 if cp is a skin colour after an emoji. Terminals disagree whether the emoji and its colour together take two
 * columns or four. */
static int is_modifier(const struct cell *before, int32_t cp)
{
	enum char_class class = before && cp >= 0x1f3fb && cp <= 0x1f3ff ? char_class(before->cp) : CH_PLAIN;

	return class == CH_EMOJI || class == CH_EMOJI_WIDE;
}

int area_text(const struct area *a, int x, int y, unsigned style, const char *text, size_t n)
{
	struct cell *last = NULL; /* the cell to which marks are added */

	if (has_row(a, y) && x > 0 && x <= a->w) {
		last = cell_at(a, x - 1, y);
		if (!last->width)
			last = x > 1 ? last - 1 : NULL;
	}
	for (size_t i = 0, len; i < n && text[i] != '\n'; i += len) {
		int32_t cp;
		int width;

		len = (size_t)utf8_decode(text + i, n - i, &cp);
		if (cp == VS15)
			continue;
		if (cp >= 0 && char_width(cp) == 0) {
			if (last && mark_stays(last, cp))
				add_mark(last, cp);
			continue;
		}
		if (x >= a->w)
			break;
		width = base_width(&cp);
		/* text_width() also counts the columns of a skin colour, so draw blanks there */
		if (is_modifier(last, cp)) {
			for (int k = 0; k < width && x + k < a->w; k++)
				put_cut(a, x + k, y, ' ', 1, style, 0);
			last = NULL;
		} else {
			last = x > -width ? put_cut(a, x, y, cp, width, style, 0) : NULL;
		}
		x = x + width < a->w ? x + width : a->w;
	}
	return x;
}

int area_putf(const struct area *a, int x, int y, unsigned style, const char *fmt, ...)
{
	char small[256], *p = small;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(small, sizeof small, fmt, ap);
	va_end(ap);
	if (n < 0)
		return x;
	if ((size_t)n >= sizeof small) {
		p = xmalloc((size_t)n + 1);
		va_start(ap, fmt);
		n = vsnprintf(p, (size_t)n + 1, fmt, ap);
		va_end(ap);
	}
	x = area_text(a, x, y, style, p, n < 0 ? 0 : (size_t)n);
	if (p != small)
		free(p);
	return x;
}

/* ---- the dump ---- */

/* One letter for each style. Keep the letters as they are: stored test screens contain them. */
/* clang-format off */
static const struct { char letter; const char *name; } style_name[ST_COUNT] = {
	[ST_TEXT] = { '.', "text" },             [ST_FAINT] = { 'f', "faint" },
	[ST_STRONG] = { 's', "strong" },         [ST_EMPH] = { 'e', "emphasis" },
	[ST_QUESTION] = { 'q', "question" },     [ST_NOTICE] = { 'n', "notice" },
	[ST_ERROR] = { 'E', "error" },           [ST_WARNING] = { 'W', "warning" },
	[ST_HEADING] = { 'H', "heading" },       [ST_QUOTE] = { 'Q', "quote" },
	[ST_LINK] = { 'l', "link" },             [ST_RULE] = { 'r', "rule" },
	[ST_BULLET] = { 'b', "bullet" },         [ST_CODE] = { 'c', "code" },
	[ST_CODE_KEYWORD] = { 'k', "keyword" },  [ST_CODE_STRING] = { 'S', "string" },
	[ST_CODE_COMMENT] = { 'C', "comment" },  [ST_CODE_NUMBER] = { 'N', "number" },
	[ST_STATUS] = { 'u', "status" },         [ST_STATUS_STRONG] = { 'U', "status strong" },
	[ST_STATUS_WARNING] = { 'w', "status warning" },
	[ST_HINT] = { 'h', "hint" },             [ST_HINT_KEY] = { 'K', "hint key" },
	[ST_TITLE] = { 'T', "title" },           [ST_SELECTED] = { 'x', "selected" },
	[ST_MATCH] = { 'm', "match" },           [ST_PROMPT] = { 'p', "prompt" },
	[ST_EVICTED] = { 'g', "evicted" },             [ST_METER] = { 'M', "meter" },
	[ST_PART] = { '(', "part 0" },                  [ST_PART + 1] = { ')', "part 1" },
	[ST_PART + 2] = { '[', "part 2" },              [ST_PART + 3] = { ']', "part 3" },
	[ST_HEAT] = { '0', "heat 0" },           [ST_HEAT + 1] = { '1', "heat 1" },
	[ST_HEAT + 2] = { '2', "heat 2" },       [ST_HEAT + 3] = { '3', "heat 3" },
	[ST_HEAT + 4] = { '4', "heat 4" },       [ST_HEAT + 5] = { '5', "heat 5" },
	[ST_HEAT + 6] = { '6', "heat 6" },       [ST_HEAT + 7] = { '7', "heat 7" },
};
/* clang-format on */

/* Letters for styles with flags or a background; each such style gets the next free letter when it first appears. */
static const char spare_letter[] = "ABDFGIJLOPRVXYZadijotvyz89!#$%&*+-/:;<=>@^_~";
struct seen {
	uint16_t style;
	uint8_t back;
	char letter;
};
struct legend {
	struct seen seen[128];
	size_t n, n_spare;
};

static char letter_of(struct legend *l, const struct cell *c)
{
	struct seen *s;
	int plain = !(c->style & ~STYLE_MASK) && !c->back && c->style < ST_COUNT;

	if (plain && c->style == ST_TEXT)
		return ' ';
	for (size_t i = 0; i < l->n; i++)
		if (l->seen[i].style == c->style && l->seen[i].back == c->back)
			return l->seen[i].letter;
	if (l->n == LEN(l->seen) || (!plain && !spare_letter[l->n_spare]))
		return '?';
	s = &l->seen[l->n++];
	*s = (struct seen){ c->style, c->back, plain ? style_name[c->style].letter : spare_letter[l->n_spare++] };
	return s->letter;
}

static const char *name_of(unsigned style)
{
	return style < ST_COUNT ? style_name[style].name : "unknown";
}

static void add_legend(const struct legend *l, const struct grid *g, struct str *out)
{
	static const struct {
		unsigned flag;
		const char *name;
	} flags[] = {
		{ STYLE_REVERSE, "+reverse" },
		{ STYLE_BOLD, "+bold" },
		{ STYLE_FAINT, "+faint" },
		{ STYLE_UNDER, "+underline" },
	};

	for (size_t i = 0; i < l->n; i++) {
		const struct seen *s = &l->seen[i];
		str_addf(out, "%c = %s", s->letter, name_of(s->style & STYLE_MASK));
		for (size_t k = 0; k < LEN(flags); k++)
			if (s->style & flags[k].flag)
				str_adds(out, flags[k].name);
		if (s->back)
			str_addf(out, " on %s", name_of(s->back));
		str_adds(out, "\n");
	}
	if (g->cursor_y >= 0)
		str_addf(out, "cursor %d,%d\n", g->cursor_x, g->cursor_y);
}

static void add_cp(struct str *out, int32_t cp)
{
	char s[4];

	str_add(out, s, (size_t)utf8_encode(cp, s));
}

void grid_dump(const struct grid *g, int with_styles, struct str *out)
{
	struct legend legend = { 0 };
	struct str letters = { 0 };

	for (int y = 0; y < g->h; y++) {
		const struct cell *row = g->cell + (size_t)y * (size_t)g->w;
		int end = g->w, styled = 0;

		while (end > 0 && row[end - 1].cp == ' ' && !row[end - 1].mark[0])
			end--;
		for (int x = 0; x < end; x++) {
			if (!row[x].width)
				continue;
			add_cp(out, row[x].cp);
			for (int i = 0; i < CLEAN_MARKS_MAX && row[x].mark[i]; i++)
				add_cp(out, row[x].mark[i]);
		}
		str_adds(out, "\n");
		str_clear(&letters);
		for (int x = 0; with_styles && x < g->w; x++) {
			char letter = letter_of(&legend, &row[x]);
			str_add(&letters, &letter, 1);
			if (letter != ' ')
				styled = x + 1;
		}
		if (styled) {
			str_add(out, letters.p, (size_t)styled);
			str_adds(out, "\n");
		}
	}
	if (with_styles)
		add_legend(&legend, g, out);
	str_free(&letters);
}
