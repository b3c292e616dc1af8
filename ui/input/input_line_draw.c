/* ui/input/input_line_draw.c - draws the input line: its rows, and the prompt of a search. */
#include "ui/input/input_readline.h"
#include "ui/text/text.h"

#include <string.h>

enum { ROWS_MOST = 512 };

/* If a history search is running, append its prompt with the search text. */
static void search_prompt(struct str *out)
{
	if (rl_display_prompt && rl_display_prompt != rl_prompt && *rl_display_prompt)
		clean_line(rl_display_prompt, strlen(rl_display_prompt), out);
}

/* Set *first to the number of columns that are taken before the text in the first row, and *rest to the number in each
 * other row. `prompt` is the number of columns of a search prompt; -1: there is none. */
static void indents(int width, int prompt, int *first, int *rest)
{
	*rest = prompt >= 0 || width - input.mark < 2 ? 0 : input.mark;
	*first = prompt < 0 ? *rest : prompt;
}

/* Leave out the beginning of a long search prompt, so that text fits beside it. Returns the offset of the first byte to
 * show; *cols receives the number of columns of the rest. */
static size_t prompt_cut(const struct str *s, int width, int *cols)
{
	int most = width < 12 ? width / 2 : width - 8, all = (int)text_width(s->p, s->n);
	size_t at = 0;

	*cols = all;
	while (at < s->n) {
		int32_t cp;
		size_t len = (size_t)utf8_decode(s->p + at, s->n - at, &cp);
		int width_cp = char_width(cp);

		if (*cols <= most && (*cols == all || width_cp > 0))
			break;
		*cols -= MAX(width_cp, 0);
		at += len;
	}
	return at;
}

struct wrapped line_lay_out(int width)
{
	struct wrapped w = { .text = rl_line_buffer, .n = (size_t)rl_end };
	struct str prompt = { 0 };
	int first, rest, cols = -1;

	search_prompt(&prompt);
	if (prompt.n)
		prompt_cut(&prompt, width, &cols);
	str_free(&prompt);
	indents(width, cols, &first, &rest);
	w.first = width - first > 1 ? width - first : 1;
	w.cols = width - rest > 1 ? width - rest : 1;
	return w;
}

int input_rows(int width, int most)
{
	struct wrapped w;

	if (!input.open || width < 1)
		return 1;
	input.width = width;
	w = line_lay_out(width);
	return wrap_count(&w, 0, MAX(most, 1));
}

/* Return the offset of the first visible byte. It is input.top, unless the cursor would then be invisible or the area
 * would have empty rows at the bottom. */
static size_t choose_top(const struct wrapped *w, size_t rows)
{
	size_t from[ROWS_MOST], n, top;

	if (rows > ROWS_MOST)
		rows = ROWS_MOST;
	n = wrap_rows_to(w, (size_t)rl_point, from, rows);
	top = from[0];
	for (size_t i = 0; i < n; i++)
		if (from[i] <= input.top)
			top = from[i];
	if (input.top > from[n - 1])
		top = from[n - 1];
	if (wrap_count(w, top, (int)rows) < (int)rows) {
		wrap_rows_to(w, w->n, from, rows);
		if (from[0] < top)
			top = from[0];
	}
	return top;
}

void input_draw(const struct area *a, const char *mark)
{
	struct str prompt = { 0 };
	struct wrapped w;
	struct wrap_row row;
	int first, rest, cols = -1;
	size_t at = 0;

	if (!input.open || a->w < 1 || a->h < 1)
		return;
	area_clear(a, ST_TEXT);
	input.width = a->w;
	input.mark = (int)text_width(mark, strlen(mark));
	search_prompt(&prompt);
	if (prompt.n)
		at = prompt_cut(&prompt, a->w, &cols);
	indents(a->w, cols, &first, &rest);
	w = line_lay_out(a->w);
	input.top = choose_top(&w, (size_t)a->h);
	if (!input.top && prompt.n)
		area_text(a, 0, 0, ST_PROMPT, prompt.p + at, prompt.n - at);
	else if (!input.top && rest)
		area_text(a, 0, 0, ST_PROMPT, mark, strlen(mark));
	row.next = input.top;
	for (int y = 0; y < a->h && row.next != NO_ROW; y++) {
		int x;

		wrap_row_at(&w, row.next, &row);
		x = row.from ? rest : first;
		wrap_draw(&w, &row, a, x, y, ST_TEXT);
		if ((size_t)rl_point >= row.from && ((size_t)rl_point < row.next || row.next == NO_ROW)) {
			x += wrap_col(&w, &row, (size_t)rl_point);
			area_cursor(a, x < a->w ? x : a->w - 1, y);
		}
	}
	str_free(&prompt);
}
