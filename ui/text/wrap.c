/* ui/text/wrap.c - word wrap for text that arrives in parts.
 *
 * Letters are written when they arrive. But near the end of a line, a word is held back until it is known to fit. A
 * word that does not fit begins a new line. Written text is never changed and the cursor is never moved, so this works
 * on any terminal.
 *
 * Words longer than WORD_MAX (web addresses), code and tables are not wrapped. The terminal breaks them without a
 * newline, so that text copied from the screen is the original text. */
#include "ui/text/text.h"

#include <string.h>

#define WORD_MAX 24
#define JOINER   0x200d /* U+200D joins the characters before and after it */

void wrap_free(struct wrap *w)
{
	str_free(&w->word);
}

/* Write characters and count their columns. If they go beyond `width`, the terminal continues on its next row: count
 * from the start of that row. */
static void put_columns(struct wrap *w, size_t width, const char *s, size_t n, size_t cols, struct str *out)
{
	str_add(out, s, n);
	w->col = w->col + cols <= width ? w->col + cols : cols <= width ? cols : width;
}

/* Write the word that was held back, on this line or on the next one. */
static void put_word(struct wrap *w, size_t width, struct str *out)
{
	if (!w->word.n)
		return;
	if (w->col && w->col + w->gap + w->word_cols > width) {
		str_adds(out, "\n");
		w->col = w->gap = 0;
	}
	for (; w->gap; w->gap--)
		put_columns(w, width, " ", 1, 1, out);
	put_columns(w, width, w->word.p, w->word.n, w->word_cols, out);
	str_clear(&w->word);
	w->word_cols = 0;
}

/* Look at one of the first characters of a line, to recognise code and tables, which are not wrapped. */
static void look_at_head(struct wrap *w, int32_t cp)
{
	if (w->head == WRAP_INDENT && cp == ' ') {
		w->indent++;
	} else if (w->head == WRAP_INDENT) {
		w->fence = w->indent < 4 && (cp == '`' || cp == '~') ? cp : 0;
		w->n_fence = 1;
		w->head = w->fence ? WRAP_FENCE : WRAP_BODY;
		/* a list item is not code, even if it is deeply indented */
		if (cp == '|' || (w->indent >= 4 && !(cp < 0x80 && strchr("-*+0123456789", cp))))
			w->as_is = 1;
	} else if (w->head == WRAP_FENCE) {
		if (cp != w->fence) {
			w->head = WRAP_BODY;
		} else if (++w->n_fence == 3) {
			w->code = !w->code;
			w->as_is = 1;
			w->head = WRAP_BODY;
		}
	}
}

static void wrap_char(struct wrap *w, size_t width, int32_t cp, const char *s, size_t n, struct str *out)
{
	size_t limit = width / 2 < WORD_MAX ? width / 2 : WORD_MAX;
	int cols = char_width(cp);

	if (cols < 0)
		cols = 1;
	if (cp == ' ') {
		put_word(w, width, out);
		w->flows = 0;
		w->gap++;
	} else if (w->flows || (!w->word.n && (!cols || w->joined))) {
		put_columns(w, width, s, n, (size_t)cols, out);
	} else if (cols == 2 && !w->joined) {
		/* scripts with wide characters have no blanks, so a line may end after each character */
		put_word(w, width, out);
		str_add(&w->word, s, n);
		w->word_cols = 2;
		put_word(w, width, out);
	} else {
		str_add(&w->word, s, n);
		w->word_cols += (size_t)cols;
		if (w->word_cols > limit || w->col + w->gap + limit <= width) {
			put_word(w, width, out);
			w->flows = 1;
		}
	}
	w->joined = cp == JOINER;
}

void wrap_text(struct wrap *w, size_t width, const char *in, size_t n, struct str *out)
{
	/* the window may have become narrower since the last call */
	if (width && w->col > width)
		w->col %= width;
	for (size_t i = 0, len; i < n; i += len) {
		int32_t cp;

		len = (size_t)utf8_decode(in + i, n - i, &cp);
		if (cp == '\n') {
			put_word(w, width ? width : SIZE_MAX, out);
			str_adds(out, "\n");
			w->col = w->gap = w->indent = 0;
			w->flows = w->joined = 0;
			w->head = WRAP_INDENT;
			w->as_is = w->code;
			continue;
		}
		if (w->head != WRAP_BODY)
			look_at_head(w, cp);
		if (!width || w->as_is) {
			put_word(w, width ? width : SIZE_MAX, out);
			for (; w->gap; w->gap--)
				str_adds(out, " ");
			str_add(out, in + i, len);
		} else {
			wrap_char(w, width, cp, in + i, len, out);
		}
	}
}
