/* ui/panes/pane_text.c - shows the output of a command that runs during an answer; the command is the title.
 *
 * In the transcript, the output would interrupt the answer. */
#include "ui/text/text.h"
#include "ui/transcript/lines.h"
#include "ui/panes/panes.h"
#include "ui/screen/widgets.h"

#include <stdlib.h>
#include <string.h>

struct text_pane {
	struct pane pane;
	int ascii;
	struct str title, text; /* without control characters */
	struct lines lines;
	int lines_w; /* width of the wrapped lines; 0 = the text is not wrapped yet */
	size_t top;
	int rows; /* number of text rows when the pane was last drawn */
};

static struct pane *text_pane_create(const struct ui_options *o)
{
	struct text_pane *p = xcalloc(1, sizeof *p);

	p->pane.ops = &text_pane;
	p->ascii = o->ascii;
	p->rows = 10;
	return &p->pane;
}

static void text_pane_release(struct pane *pane)
{
	struct text_pane *p = (struct text_pane *)pane;

	str_free(&p->title);
	str_free(&p->text);
	lines_free(&p->lines);
	free(p);
}

void text_pane_post(struct pane *pane, const char *title, const char *text, size_t n)
{
	struct text_pane *p = (struct text_pane *)pane;
	struct clean c;

	str_clear(&p->title);
	str_clear(&p->text);
	clean_line(title, strnlen(title, 256), &p->title);
	clean_init(&c, 0);
	clean_text(&c, text, n, &p->text);
	clean_end(&c, &p->text);
	p->lines_w = 0;
	p->top = 0;
}

static size_t last_top(const struct text_pane *p)
{
	return p->lines.n_line > (size_t)p->rows ? p->lines.n_line - (size_t)p->rows : 0;
}

static void text_pane_draw(struct pane *pane, const struct area *a)
{
	struct text_pane *p = (struct text_pane *)pane;
	size_t end;
	int head;

	area_clear(a, ST_TEXT);
	if (a->w < 1 || a->h < 1)
		return;
	if (p->lines_w != a->w) {
		lines_clear(&p->lines);
		lines_plain(&p->lines, str_text(&p->text), p->text.n, a->w, ST_TEXT);
		p->lines_w = a->w;
	}
	head = !p->pane.framed && a->h > 1;
	p->rows = a->h - head;
	p->top = p->top < last_top(p) ? p->top : last_top(p);
	end = p->top + (size_t)p->rows < p->lines.n_line ? p->top + (size_t)p->rows : p->lines.n_line;
	if (head) {
		area_fill(a, 0, 0, a->w, ST_TITLE, ' ');
		put_left(a, 1, 0, a->w - 1, ST_TITLE, str_text(&p->title), p->title.n, p->ascii);
		if (a->w >= 40 && p->lines.n_line > (size_t)p->rows)
			area_putf(a, a->w - 16, 0, ST_TITLE, "%3zu-%zu of %zu", p->top + 1, end, p->lines.n_line);
	}
	for (size_t i = p->top; i < end; i++)
		lines_draw(&p->lines, i, a, 0, head + (int)(i - p->top));
}

static void text_pane_title(const struct pane *pane, struct str *left, struct str *right)
{
	const struct text_pane *p = (const struct text_pane *)pane;

	if (p->title.n)
		str_add(left, p->title.p, p->title.n);
	if (p->lines.n_line > (size_t)p->rows)
		str_addf(right, "%zu-%zu of %zu", p->top + 1, p->top + (size_t)p->rows, p->lines.n_line);
}

static enum pane_key scroll(struct text_pane *p, long lines)
{
	if (lines < 0 && (size_t)-lines > p->top)
		p->top = 0;
	else
		p->top += (size_t)lines;
	p->top = p->top < last_top(p) ? p->top : last_top(p);
	return PANE_USED;
}

static enum pane_key text_pane_key(struct pane *pane, const struct key *k, struct ui_action *out)
{
	struct text_pane *p = (struct text_pane *)pane;
	int32_t cp = k->code == K_CHAR && !(k->mods & (KEY_CTRL | KEY_ALT)) ? k->cp : 0;

	(void)out;
	if (k->code == K_ESC || k->code == K_ENTER || cp == 'q')
		return PANE_CLOSE;
	if (k->code == K_UP || cp == 'k')
		return scroll(p, -1);
	if (k->code == K_DOWN || cp == 'j')
		return scroll(p, 1);
	if (k->code == K_PAGE_UP || cp == 'b')
		return scroll(p, -p->rows);
	if (k->code == K_PAGE_DOWN || cp == 'f' || cp == ' ')
		return scroll(p, p->rows);
	if (k->code == K_HOME || cp == 'g')
		return scroll(p, -(long)p->top);
	if (k->code == K_END || cp == 'G')
		return scroll(p, (long)p->lines.n_line);
	if (k->code == K_MOUSE && (k->cp == 4 || k->cp == 5))
		return scroll(p, k->cp == 4 ? -3 : 3);
	return PANE_NOT_MINE;
}

static unsigned text_pane_state(const struct pane *pane)
{
	(void)pane;
	return 0;
}

const struct pane_ops text_pane = {
	.help_name = "what a command says",
	.flags = PANE_SHARES,
	.hints = (const struct hint[]){ { "Esc", "Close" }, { "Up Down", "Scroll" }, { "PgDn", "Page" }, { 0 } },
	.browsing =
		(const struct hint[]){
			{ "Esc", "Write" }, { "j k", "Line" }, { "Space", "Page" }, { "q", "Close" }, { 0 } },
	.create = text_pane_create,
	.release = text_pane_release,
	.draw = text_pane_draw,
	.title = text_pane_title,
	.state = text_pane_state,
	.key = text_pane_key,
};
