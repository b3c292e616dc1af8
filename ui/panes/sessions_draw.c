/* ui/panes/sessions_draw.c - draws the sessions pane: the filter or a question, the rows, the preview. */
#include "ui/panes/pane_sessions.h"
#include "ui/text/text.h"

#include <string.h>

/* Widths of the columns of a row; 0 = there is no room for the column. */
struct columns {
	int name, model, age, tokens, bytes, wait;
};

static struct columns columns_for(int w)
{
	struct columns c = { 0 };

	c.wait = w >= 30 ? 8 : w >= 18 ? 7 : 0;
	if (w >= 36)
		c.age = 11;
	if (w >= 60)
		c.tokens = 8;
	if (w >= 70)
		c.bytes = 8;
	if (w >= 100)
		c.model = 20;
	c.name = w - 2;
	for (int i = 0; i < 5; i++) {
		int n = i == 0 ? c.wait : i == 1 ? c.age : i == 2 ? c.tokens : i == 3 ? c.bytes : c.model;
		c.name -= n ? n + 2 : 0;
	}
	if (c.name < 1)
		c.name = 1;
	return c;
}

static void draw_heads(const struct area *a, int y, const struct columns *c, int ascii)
{
	int x = put_left(a, 2, y, c->name, ST_FAINT, "session", 7, ascii);

	if (c->model)
		x = put_left(a, x + 2, y, c->model, ST_FAINT, "model", 5, ascii);
	if (c->age)
		x = put_right(a, x + 2, y, c->age, ST_FAINT, "last used");
	if (c->tokens)
		x = put_right(a, x + 2, y, c->tokens, ST_FAINT, "tokens");
	if (c->bytes)
		x = put_right(a, x + 2, y, c->bytes, ST_FAINT, "saved KV");
	if (c->wait)
		put_right(a, x + 2, y, c->wait, ST_FAINT, "ready in");
}

/* Draw name and title, or the title alone. */
static void draw_name(const struct sessions_pane *p, const struct area *a, int y, int w, const struct session_row *t,
                      unsigned style)
{
	int x = 2, end = 2 + w, name_w;

	if (t->name.n) {
		name_w = (int)text_width(t->name.p, t->name.n);
		x = put_left(a, x, y, MIN(name_w, w), style, t->name.p, t->name.n, p->ascii);
		if (t->title.n && end - x > 12)
			put_left(a, x + 2, y, end - x - 2, style | STYLE_FAINT, t->title.p, t->title.n, p->ascii);
	} else if (t->title.n) {
		put_left(a, x, y, w, style, t->title.p, t->title.n, p->ascii);
	} else {
		put_left(a, x, y, w, style | STYLE_FAINT, "(no message yet)", 16, p->ascii);
	}
}

/* Draw the bytes of the snapshots. A mark follows if some of the saved KV entries are near copies. */
static int draw_bytes(const struct sessions_pane *p, const struct area *a, int x, int y, int w,
                      const struct session_row *t, unsigned style)
{
	x = put_right(a, x, y, w, style, t->is.kv_bytes ? num_bytes(t->is.kv_bytes).s : "-");
	if (t->is.kv_bytes && t->is.near)
		area_cell(a, x, y, p->ascii ? '~' : 0x2248, style, 0);
	return x;
}

static void draw_snippet(const struct sessions_pane *p, const struct area *a, int x, int y, int w, const struct str *s,
                         unsigned style)
{
	struct area field = area_part(a, x, y, w, 1);
	int at = 0, on = 0;

	for (size_t i = 0, end; i < s->n && at < w; i = end) {
		for (end = i; end < s->n && s->p[end] != FOUND_ON && s->p[end] != FOUND_OFF;)
			end++;
		at = area_text(&field, at, 0, on ? ST_MATCH : style, s->p + i, end - i);
		if (end < s->n)
			on = s->p[end++] == FOUND_ON;
	}
	if (at >= w && w > 1)
		area_cell(&field, w - 1, 0, p->ascii ? '~' : 0x2026, style, 0);
}

static void draw_row(const struct sessions_pane *p, const struct area *a, int y, const struct columns *c, size_t at)
{
	const struct session_row *t = &p->row[p->shown[at]];
	int is_chosen = at == p->list.chosen;
	unsigned style = is_chosen ? ST_SELECTED : ST_TEXT;
	int x = 2 + c->name;

	area_fill(a, 0, y, a->w, style, ' ');
	if (t->is.here)
		area_cell(a, 0, y, '*', is_chosen ? style : ST_STRONG, 0);
	else if (is_chosen)
		area_cell(a, 0, y, '>', style, 0);
	if (is_chosen && p->mode == RENAME)
		edit_draw(&p->rename, a, 2, y, c->name, ST_TEXT);
	else
		draw_name(p, a, y, c->name, t, style);
	if (c->model)
		x = put_left(a, x + 2, y, c->model, is_chosen ? style : ST_FAINT, str_text(&t->model), t->model.n,
		             p->ascii);
	if (c->age)
		x = put_right(a, x + 2, y, c->age, style, t->is.used > 0 ? num_age(t->is.used, p->now).s : "-");
	if (c->tokens)
		x = put_right(a, x + 2, y, c->tokens, style, num_fit(t->is.tokens, c->tokens).s);
	if (c->bytes)
		x = draw_bytes(p, a, x + 2, y, c->bytes, t, style);
	if (c->wait)
		put_right(a, x + 2, y, c->wait, style, t->is.writer ? "in use" : num_wait(t->is.seconds).s);
	if (p->item == 2)
		draw_snippet(p, a, 4, y + 1, a->w - 4, &t->snippet, ST_FAINT);
}

/* Draw the filter, or a question in its place. */
static void draw_top(struct sessions_pane *p, const struct area *a)
{
	const struct session_row *t = sessions_chosen(p);
	size_t n;
	int x, w;

	area_fill(a, 0, 0, a->w, ST_TEXT, ' ');
	if (p->mode == DELETE && t) {
		const struct str *name = t->name.n ? &t->name : &t->title;
		int room = a->w - 8 - 7, cols = (int)text_width(str_text(name), name->n);

		/* if fewer than 3 columns remain for the name, omit it, so that the possible answers are visible */
		if (room < 3 || !cols) {
			put_left(a, 0, 0, a->w, ST_WARNING, "delete it? y/n", 14, p->ascii);
			return;
		}
		x = area_putf(a, 0, 0, ST_WARNING, "delete '");
		x = put_left(a, x, 0, MIN(cols, room), ST_WARNING | STYLE_BOLD, str_text(name), name->n, p->ascii);
		area_putf(a, x, 0, ST_WARNING, "'? y/n");
		return;
	}
	if (p->mode == TAKEN && t) {
		struct str s = { 0 };

		str_adds(&s, "open in another weir");
		if (t->is.writer > 0)
			str_addf(&s, " (process %ld)", t->is.writer);
		str_adds(&s, ": r reads it, w waits");
		put_left(a, 0, 0, a->w, ST_WARNING, a->w < 42 ? "in use: r reads it, w waits" : s.p,
		         a->w < 42 ? 27 : s.n, p->ascii);
		str_free(&s);
		return;
	}
	if (p->mode == PICK && p->deleted_id != NOBODY) {
		int room = a->w - 9 - 21, cols = (int)text_width(str_text(&p->deleted), p->deleted.n);

		if (room < 3 || !cols) {
			put_left(a, 0, 0, a->w, ST_WARNING, "Ctrl-U restores it", 18, p->ascii);
			return;
		}
		x = area_putf(a, 0, 0, ST_WARNING, "deleted '");
		x = put_left(a, x, 0, MIN(cols, room), ST_WARNING | STYLE_BOLD, p->deleted.p, p->deleted.n, p->ascii);
		area_putf(a, x, 0, ST_WARNING, "': Ctrl-U restores it");
		return;
	}
	if (p->mode == RENAME) {
		put_left(a, 0, 0, a->w, ST_HINT, "Enter renames it, Esc keeps the old name", 40, p->ascii);
		return;
	}
	x = area_putf(a, 0, 0, ST_PROMPT, "%s ", a->w < 30 ? ">" : sessions_find_words(p, &n) ? "find" : "filter");
	/* Show the number of sessions at the right, unless the pane's border shows it. */
	w = a->w >= 60 && !p->pane.framed ? 18 : 0;
	if (w) {
		struct str count = { 0 };

		str_addf(&count, "%s of %s", num_count((int64_t)p->list.n).s, num_count((int64_t)p->n_row).s);
		put_right(a, a->w - w, 0, w, ST_FAINT, count.p);
		str_free(&count);
	}
	edit_draw(&p->filter, a, x, 0, a->w - w - x, ST_TEXT);
	if (!p->filter.text.n && a->w - w - x > 30) {
		static const char hint[] = "  type to filter, /words to search messages";
		put_left(a, x + 1, 0, a->w - w - x - 1, ST_FAINT, hint, sizeof hint - 1, p->ascii);
	}
}

static void draw_preview(struct sessions_pane *p, const struct area *a)
{
	const struct session_row *t = sessions_chosen(p);
	size_t from;

	if (a->h < 2 || a->w < 4)
		return;
	area_fill(a, 0, 0, a->w, ST_RULE, p->ascii ? '-' : 0x2500);
	area_text(a, 2, 0, ST_TITLE, " last messages ", 15);
	if (!t || !p->preview_there || p->preview_id != t->is.id) {
		if (t)
			area_text(a, 0, 1, ST_FAINT, "...", 3);
		return;
	}
	if (p->lines_w != a->w) {
		lines_clear(&p->lines);
		lines_plain(&p->lines, str_text(&p->preview_text), p->preview_text.n, a->w, ST_TEXT);
		p->lines_w = a->w;
	}
	if (!p->preview_text.n)
		area_text(a, 0, 1, ST_FAINT, "no message yet", 14);
	from = p->lines.n_line > (size_t)(a->h - 1) ? p->lines.n_line - (size_t)(a->h - 1) : 0;
	for (size_t i = from; i < p->lines.n_line; i++)
		lines_draw(&p->lines, i, a, 0, 1 + (int)(i - from));
}

static void draw_list(struct sessions_pane *p, const struct area *a)
{
	struct columns c = columns_for(a->w);
	int y = 1;

	draw_top(p, a);
	if (a->h >= 8) {
		draw_heads(a, 1, &c, p->ascii);
		y = 2;
	}
	p->item = p->finding && a->h - y >= 4 ? 2 : 1;
	p->rows = (a->h - y) / p->item;
	p->x = a->x;
	p->y = a->y + y;
	p->w = a->w;
	list_show(&p->list, p->rows);
	if (!p->list.n && a->h > y) {
		const char *why = p->finding ? "no session has these words"
		                  : p->n_row ? "no session has that in its name, title or model"
		                             : "no session is saved yet";
		put_left(a, 2, y, a->w - 2, ST_FAINT, why, strlen(why), p->ascii);
	}
	for (int i = 0; i < p->rows && p->list.top + (size_t)i < p->list.n; i++)
		draw_row(p, a, y + i * p->item, &c, p->list.top + (size_t)i);
}

void sessions_draw(struct sessions_pane *p, const struct area *a)
{
	struct area list = *a, below;

	if (a->w < 1 || a->h < 1)
		return;
	area_clear(a, ST_TEXT);
	if (p->preview && a->w >= 100) {
		list = area_part(a, 0, 0, a->w / 2 - 1, a->h);
		below = area_part(a, a->w / 2, 0, a->w - a->w / 2, a->h);
		draw_preview(p, &below);
		for (int y = 0; y < a->h; y++)
			area_cell(a, a->w / 2 - 1, y, p->ascii ? '|' : 0x2502, ST_RULE, 0);
	} else if (p->preview && a->h >= 6) {
		list = area_part(a, 0, 0, a->w, a->h / 3);
		below = area_part(a, 0, a->h / 3, a->w, a->h - a->h / 3);
		draw_preview(p, &below);
	}
	draw_list(p, &list);
}
