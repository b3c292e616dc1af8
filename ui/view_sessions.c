/* ui/view_sessions.c - the picker: all talks, filtered as one types.
 *
 *   row 0     the filter: words that name, title or model must contain.  "/" and words: those talks in which the words were
 *             said (UI_FIND; what was posted since then is what was found, and is not filtered).  A question takes its place
 *   row 1     what the columns are, where there is room
 *   rows      one a talk: "*" the one on the screen, its name or title, age, tokens, bytes of its cache, until it can go on
 *   below, or at the right: the end of the chosen talk, once Tab has asked for it
 *
 * What is posted is cleaned once, when it comes.  The chosen talk stays chosen by its id, whatever the list or the filter
 * does. */
#include "ui/panes.h"

#include "ui/markdown.h"
#include "ui/widgets.h"

#include <stdlib.h>
#include <string.h>

#define FOUND_ON  '\x01'
#define FOUND_OFF '\x02'
#define NOBODY INT64_MIN
enum { NAME_MOST = 256, SNIPPET_MOST = 1024, PREVIEW_MOST = 64 << 10 };

struct talk {
	struct ui_session is;         /* its texts are NULL: see below */
	struct str name, title, model, snippet;   /* clean; the snippet with its marks */
};

enum mode { PICK, RENAME, DELETE };

struct sessions_pane {
	int ascii;
	enum mode mode;
	int asked_from_outside;       /* DELETE: by a command, not by a key in here */
	struct talk *talk;
	size_t n_talk;
	int64_t now;
	size_t *shown;                /* [list.n] indices of talk: those that pass the filter */
	struct list list;
	int64_t chosen_id;
	int64_t forked;               /* a copy was asked for when this was the newest talk; it will be chosen.  0 = none was */
	int opened;                   /* and nothing was posted since: the talk on the screen will be chosen */
	int rows;                     /* of the list, and of one talk in it, as drawn last */
	int item;
	int x, y, w;                  /* where the list was drawn, for the mouse */

	struct edit filter, rename;
	struct str asked;             /* words of the last UI_FIND */
	int finding;                  /* what was posted last, or comes next, is what was found */

	int64_t gone_id; struct str gone;   /* deleted a moment ago: its name, clean; NOBODY = none, or it cannot be undone any more */

	int preview;                  /* wanted */
	int64_t preview_id, preview_asked;
	int preview_there;            /* preview_id has its text */
	struct str preview_text;      /* clean */
	struct lines lines; int lines_w;
	struct str out;               /* text of an action */
};

/* Clean, one line, at most so many bytes. */
static void take_line(struct str *out, const char *text, size_t most)
{
	str_clear(out);
	if (!text)
		return;
	clean_line(text, strnlen(text, most), out);
}

struct sessions_pane *sessions_pane_new(int ascii)
{
	struct sessions_pane *p = xcalloc(1, sizeof *p);

	p->ascii = ascii;
	p->rows = 10;
	p->item = 1;
	p->opened = 1;
	p->chosen_id = p->preview_asked = p->gone_id = NOBODY;
	return p;
}

static void talks_free(struct sessions_pane *p)
{
	for (size_t i = 0; i < p->n_talk; i++) {
		str_free(&p->talk[i].name);
		str_free(&p->talk[i].title);
		str_free(&p->talk[i].model);
		str_free(&p->talk[i].snippet);
	}
	free(p->talk);
	free(p->shown);
	p->talk = NULL;
	p->shown = NULL;
	p->n_talk = p->list.n = 0;
}

void sessions_pane_free(struct sessions_pane *p)
{
	if (!p)
		return;
	talks_free(p);
	edit_free(&p->filter);
	edit_free(&p->rename);
	str_free(&p->asked);
	str_free(&p->gone);
	str_free(&p->preview_text);
	str_free(&p->out);
	lines_free(&p->lines);
	free(p);
}

/* ---- the filter ---- */

/* The words that are looked for in all talks: NULL when the filter is not of that kind. */
static const char *find_words(const struct sessions_pane *p, size_t *n)
{
	const char *s = p->filter.text.p;
	size_t from = 1, end = p->filter.text.n;

	if (!end || s[0] != '/')
		return NULL;
	while (from < end && s[from] == ' ')
		from++;
	while (end > from && s[end - 1] == ' ')
		end--;
	*n = end - from;
	return s + from;
}

static int contains(const struct str *s, const char *word, size_t n)
{
	size_t len;

	return s->n && words_find(s->p, s->n, 0, word, n, 1, &len) != SIZE_MAX;
}

/* Each word of the filter stands in one of the texts. */
static int passes(const struct talk *t, const char *words, size_t n)
{
	for (size_t i = 0, end; i < n; i = end) {
		while (i < n && words[i] == ' ')
			i++;
		for (end = i; end < n && words[end] != ' ';)
			end++;
		if (end > i && !contains(&t->name, words + i, end - i) && !contains(&t->title, words + i, end - i) &&
		    !contains(&t->model, words + i, end - i))
			return 0;
	}
	return 1;
}

static const struct talk *chosen(const struct sessions_pane *p)
{
	return p->list.chosen < p->list.n ? &p->talk[p->shown[p->list.chosen]] : NULL;
}

/* What passes; the chosen talk stays chosen, or the first one is. */
static void filter(struct sessions_pane *p)
{
	struct str words = {0};
	int found = 0;

	/* The list as it was found is not filtered, and neither is it while the words are being typed. */
	if (!p->finding && !(p->filter.text.n && p->filter.text.p[0] == '/'))
		for (size_t i = 0, len; i < p->filter.text.n; i += len) {
			int32_t cp;
			char out[4];
			len = (size_t)utf8_decode(p->filter.text.p + i, p->filter.text.n - i, &cp);
			str_add(&words, out, (size_t)utf8_encode(fold_case(cp), out));
		}
	p->list.n = 0;
	for (size_t i = 0; i < p->n_talk; i++) {
		if (!passes(&p->talk[i], words.p ? words.p : "", words.n))
			continue;
		if (!found && p->talk[i].is.id == p->chosen_id) {
			p->list.chosen = p->list.n;
			found = 1;
		}
		p->shown[p->list.n++] = i;
	}
	if (!found)
		p->list.chosen = 0;
	list_move(&p->list, 0);
	if (chosen(p))
		p->chosen_id = chosen(p)->is.id;
	str_free(&words);
}

void sessions_pane_open(struct sessions_pane *p)
{
	edit_set(&p->filter, "", 0);
	p->mode = PICK;
	p->finding = p->preview = p->preview_there = 0;
	p->preview_asked = NOBODY;
	p->opened = 1;
	p->list.top = 0;
	p->chosen_id = NOBODY;
	for (size_t i = 0; i < p->n_talk; i++)
		if (p->talk[i].is.here)
			p->chosen_id = p->talk[i].is.id;
	filter(p);
}

/* ---- what is posted ---- */

/* The marks stay, all else is made clean. */
static void take_snippet(struct str *out, const char *text)
{
	size_t n = text ? strnlen(text, SNIPPET_MOST) : 0;

	str_clear(out);
	for (size_t i = 0, end; i < n; i = end) {
		for (end = i; end < n && text[end] != FOUND_ON && text[end] != FOUND_OFF;)
			end++;
		clean_line(text + i, end - i, out);
		if (end < n)
			str_add(out, &text[end++], 1);
	}
}

static void rename_open(struct sessions_pane *p, const struct talk *t)
{
	const struct str *name = t->name.n ? &t->name : &t->title;

	edit_set(&p->rename, name->p ? name->p : "", name->n);
	p->mode = RENAME;
}

/* Numbers of talks only grow. */
static int64_t newest(const struct sessions_pane *p)
{
	int64_t id = 1;

	for (size_t i = 0; i < p->n_talk; i++)
		id = p->talk[i].is.id > id ? p->talk[i].is.id : id;
	return id;
}

void sessions_pane_post(struct sessions_pane *p, const struct ui_session *s, size_t n, int64_t now)
{
	int64_t asked = p->chosen_id;
	int copied;

	talks_free(p);
	p->now = now;
	p->talk = xcalloc(n ? n : 1, sizeof *p->talk);
	p->shown = xcalloc(n ? n : 1, sizeof *p->shown);
	p->n_talk = n;
	for (size_t i = 0; i < n; i++) {
		struct talk *t = &p->talk[i];

		t->is = s[i];
		t->is.name = t->is.title = t->is.model = t->is.snippet = NULL;
		take_line(&t->name, s[i].name, NAME_MOST);
		take_line(&t->title, s[i].title, NAME_MOST);
		take_line(&t->model, s[i].model, NAME_MOST);
		take_snippet(&t->snippet, s[i].snippet);
		if (p->opened && s[i].here)
			p->chosen_id = s[i].id;
	}
	p->opened = 0;
	/* One goes on in the copy, which needs a name: two talks that are called the same are of no use. */
	if ((copied = p->forked && p->mode == PICK && newest(p) > p->forked)) {
		p->chosen_id = newest(p);
		p->forked = 0;
	}
	filter(p);
	if (copied && chosen(p) && chosen(p)->is.id == p->chosen_id) {
		asked = p->chosen_id;
		rename_open(p, chosen(p));
	}
	/* The one that was asked about may be gone. */
	if (p->mode != PICK && (!chosen(p) || chosen(p)->is.id != asked))
		p->mode = PICK;
}

void sessions_pane_preview(struct sessions_pane *p, int64_t id, const char *text, size_t n)
{
	struct clean c;
	size_t from = n > PREVIEW_MOST ? n - PREVIEW_MOST : 0;

	str_clear(&p->preview_text);
	clean_init(&c, 0);
	clean_text(&c, text, 0, &p->preview_text);
	if (n)
		clean_text(&c, text + from, n - from, &p->preview_text);
	clean_end(&c, &p->preview_text);
	p->preview_id = id;
	p->preview_there = 1;
	p->lines_w = 0;
}

/* ---- drawing ---- */

/* Columns of a row, from the right; 0 = no room for it. */
struct columns { int name, model, age, tokens, bytes, wait; };

static struct columns columns_for(int w)
{
	struct columns c = {0};

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
	int x = put_left(a, 2, y, c->name, ST_FAINT, "talk", 4, ascii);

	if (c->model)
		x = put_left(a, x + 2, y, c->model, ST_FAINT, "model", 5, ascii);
	if (c->age)
		x = put_right(a, x + 2, y, c->age, ST_FAINT, "last used");
	if (c->tokens)
		x = put_right(a, x + 2, y, c->tokens, ST_FAINT, "tokens");
	if (c->bytes)
		x = put_right(a, x + 2, y, c->bytes, ST_FAINT, "cache");
	if (c->wait)
		put_right(a, x + 2, y, c->wait, ST_FAINT, "goes on");
}

/* Its name, and its title behind it; or its title alone. */
static void draw_name(const struct sessions_pane *p, const struct area *a, int y, int w, const struct talk *t, unsigned style)
{
	int x = 2, end = 2 + w, name_w;

	if (t->name.n) {
		name_w = (int)text_width(t->name.p, t->name.n);
		x = put_left(a, x, y, name_w < w ? name_w : w, style, t->name.p, t->name.n, p->ascii);
		if (t->title.n && end - x > 12)
			put_left(a, x + 2, y, end - x - 2, style | STYLE_FAINT, t->title.p, t->title.n, p->ascii);
	} else if (t->title.n) {
		put_left(a, x, y, w, style, t->title.p, t->title.n, p->ascii);
	} else {
		put_left(a, x, y, w, style | STYLE_FAINT, "(nothing said yet)", 18, p->ascii);
	}
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

static void draw_talk(const struct sessions_pane *p, const struct area *a, int y, const struct columns *c, size_t at)
{
	const struct talk *t = &p->talk[p->shown[at]];
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
		x = put_left(a, x + 2, y, c->model, is_chosen ? style : ST_FAINT, t->model.p ? t->model.p : "", t->model.n, p->ascii);
	if (c->age)
		x = put_right(a, x + 2, y, c->age, style, t->is.used > 0 ? num_age(t->is.used, p->now).s : "-");
	if (c->tokens)
		x = put_right(a, x + 2, y, c->tokens, style, num_fit(t->is.tokens, c->tokens).s);
	if (c->bytes)
		x = put_right(a, x + 2, y, c->bytes, style, t->is.kv_bytes ? num_bytes(t->is.kv_bytes).s : "-");
	if (c->wait)
		put_right(a, x + 2, y, c->wait, style, num_wait(t->is.seconds).s);
	if (p->item == 2)
		draw_snippet(p, a, 4, y + 1, a->w - 4, &t->snippet, ST_FAINT);
}

/* The filter, or the question in its place. */
static void draw_top(struct sessions_pane *p, const struct area *a)
{
	const struct talk *t = chosen(p);
	size_t n;
	int x, w;

	area_fill(a, 0, 0, a->w, ST_TEXT, ' ');
	if (p->mode == DELETE && t) {
		const struct str *name = t->name.n ? &t->name : &t->title;
		int room = a->w - 8 - 16, cols = (int)text_width(name->p ? name->p : "", name->n);

		/* What may be answered must be seen even where the name has no room. */
		if (room < 3 || !cols) {
			put_left(a, 0, 0, a->w, ST_WARNING, "delete it? y/n", 14, p->ascii);
			return;
		}
		x = area_putf(a, 0, 0, ST_WARNING, "delete '");
		x = put_left(a, x, 0, cols < room ? cols : room, ST_WARNING | STYLE_BOLD, name->p ? name->p : "", name->n, p->ascii);
		area_putf(a, x, 0, ST_WARNING, "' for good? y/n");
		return;
	}
	if (p->mode == PICK && p->gone_id != NOBODY) {
		int room = a->w - 9 - 19, cols = (int)text_width(p->gone.p ? p->gone.p : "", p->gone.n);

		if (room < 3 || !cols) {
			put_left(a, 0, 0, a->w, ST_WARNING, "u undoes it", 11, p->ascii);
			return;
		}
		x = area_putf(a, 0, 0, ST_WARNING, "deleted '");
		x = put_left(a, x, 0, cols < room ? cols : room, ST_WARNING | STYLE_BOLD, p->gone.p, p->gone.n, p->ascii);
		area_putf(a, x, 0, ST_WARNING, "': u brings it back");
		return;
	}
	if (p->mode == RENAME) {
		put_left(a, 0, 0, a->w, ST_HINT, "Enter gives it this name, Esc leaves it as it was", 49, p->ascii);
		return;
	}
	x = area_putf(a, 0, 0, ST_PROMPT, "%s ", a->w < 30 ? ">" : find_words(p, &n) ? "find" : "filter");
	/* How many there are stands at the right, in a field of its own. */
	w = a->w >= 60 ? 18 : 0;
	if (w) {
		struct str count = {0};

		str_addf(&count, "%s of %s", num_count((int64_t)p->list.n).s, num_count((int64_t)p->n_talk).s);
		put_right(a, a->w - w, 0, w, ST_FAINT, count.p);
		str_free(&count);
	}
	edit_draw(&p->filter, a, x, 0, a->w - w - x, ST_TEXT);
	if (!p->filter.text.n && a->w - w - x > 30) {
		static const char hint[] = "  type to filter, /words to search what was said";
		put_left(a, x + 1, 0, a->w - w - x - 1, ST_FAINT, hint, sizeof hint - 1, p->ascii);
	}
}

static void draw_preview(struct sessions_pane *p, const struct area *a)
{
	const struct talk *t = chosen(p);
	size_t from;

	if (a->h < 2 || a->w < 4)
		return;
	area_fill(a, 0, 0, a->w, ST_RULE, p->ascii ? '-' : 0x2500);
	area_text(a, 2, 0, ST_TITLE, " how it ended ", 14);
	if (!t || !p->preview_there || p->preview_id != t->is.id) {
		if (t)
			area_text(a, 0, 1, ST_FAINT, "...", 3);
		return;
	}
	if (p->lines_w != a->w) {
		lines_clear(&p->lines);
		lines_plain(&p->lines, p->preview_text.p ? p->preview_text.p : "", p->preview_text.n, a->w, ST_TEXT);
		p->lines_w = a->w;
	}
	if (!p->preview_text.n)
		area_text(a, 0, 1, ST_FAINT, "nothing was said", 16);
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
		const char *why = p->finding ? "no talk has these words" :
		                  p->n_talk ? "no talk has that in its name, title or model" : "no talk is kept yet";
		put_left(a, 2, y, a->w - 2, ST_FAINT, why, strlen(why), p->ascii);
	}
	for (int i = 0; i < p->rows && p->list.top + (size_t)i < p->list.n; i++)
		draw_talk(p, a, y + i * p->item, &c, p->list.top + (size_t)i);
}

void sessions_pane_draw(struct sessions_pane *p, const struct area *a)
{
	struct area list = *a, below;

	if (a->w < 1 || a->h < 1)
		return;
	area_clear(a, ST_TEXT);
	if (p->preview && a->w >= 100) {
		list = area_part(a, 0, 0, a->w / 2 - 1, a->h);
		below = area_part(a, a->w / 2, 0, a->w - a->w / 2, a->h);
		draw_preview(p, &below);
	} else if (p->preview && a->h >= 6) {
		list = area_part(a, 0, 0, a->w, a->h / 3);
		below = area_part(a, 0, a->h / 3, a->w, a->h - a->h / 3);
		draw_preview(p, &below);
	}
	draw_list(p, &list);
}

/* ---- keys ---- */

static enum pane_key act(const struct sessions_pane *p, struct ui_action *out, enum ui_what what)
{
	memset(out, 0, sizeof *out);
	out->what = what;
	out->id = p->chosen_id;
	out->text = "";
	return PANE_ACTION;
}

/* After whatever may have chosen another talk. */
static enum pane_key want_preview(struct sessions_pane *p, struct ui_action *out)
{
	const struct talk *t = chosen(p);

	if (!p->preview || !t || p->preview_asked == t->is.id)
		return PANE_USED;
	p->preview_asked = t->is.id;
	return act(p, out, UI_PREVIEW);
}

/* The words have changed: what was found for others is of no use. */
static enum pane_key filter_changed(struct sessions_pane *p, struct ui_action *out)
{
	size_t n;

	if (p->finding && !find_words(p, &n)) {
		p->finding = 0;
		str_clear(&p->asked);
		filter(p);
		return act(p, out, UI_LIST);
	}
	filter(p);
	return want_preview(p, out);
}

/* UI_FIND, unless these words were asked for already. */
static enum pane_key find(struct sessions_pane *p, struct ui_action *out)
{
	size_t n;
	const char *words = find_words(p, &n);

	if (!words || !n || (p->finding && p->asked.n == n && !memcmp(p->asked.p, words, n)))
		return PANE_NOT_MINE;
	str_clear(&p->asked);
	str_add(&p->asked, words, n);
	p->finding = 1;
	act(p, out, UI_FIND);
	out->text = p->asked.p;
	out->n = p->asked.n;
	return PANE_ACTION;
}

enum pane_key sessions_pane_pause(struct sessions_pane *p, struct ui_action *out)
{
	enum pane_key did = p->mode == PICK ? find(p, out) : PANE_NOT_MINE;

	/* A list that was posted since may have chosen another talk. */
	if (did == PANE_NOT_MINE && want_preview(p, out) == PANE_ACTION)
		did = PANE_ACTION;
	return did;
}

static enum pane_key rename_key(struct sessions_pane *p, const struct key *k, struct ui_action *out)
{
	size_t from = 0, end = p->rename.text.n;

	if (k->code == K_ESC || (k->code == K_CHAR && (k->mods & KEY_CTRL) && (k->cp == 'c' || k->cp == 'g'))) {
		p->mode = PICK;
		return PANE_USED;
	}
	if (k->code == K_ENTER) {
		const char *s = p->rename.text.p;

		p->mode = PICK;
		while (from < end && s[from] == ' ')
			from++;
		while (end > from && s[end - 1] == ' ')
			end--;
		if (from == end)
			return PANE_USED;
		str_clear(&p->out);
		str_add(&p->out, s + from, end - from);
		act(p, out, UI_RENAME);
		out->text = p->out.p;
		out->n = p->out.n;
		return PANE_ACTION;
	}
	edit_key(&p->rename, k);
	return PANE_USED;
}

static enum pane_key delete_key(struct sessions_pane *p, const struct key *k, struct ui_action *out)
{
	/* Nothing but y deletes, and what looks like an answer of another kind is a no. */
	const struct talk *t = chosen(p);
	const struct str *name = t && t->name.n ? &t->name : t ? &t->title : NULL;

	int was_asked = p->asked_from_outside;

	p->mode = PICK;
	p->asked_from_outside = 0;
	if (k->code != K_CHAR || k->mods & (KEY_CTRL | KEY_ALT) || (k->cp != 'y' && k->cp != 'Y') || !t)
		return was_asked ? PANE_CLOSE : PANE_USED;   /* back to where the question came from */
	p->gone_id = t->is.id;
	str_clear(&p->gone);
	if (name->n)
		str_add(&p->gone, name->p, name->n);
	else
		str_adds(&p->gone, "the empty one");
	return act(p, out, UI_DELETE);
}

void sessions_pane_gone(struct sessions_pane *p)
{
	p->gone_id = NOBODY;
}

void sessions_pane_ask(struct sessions_pane *p, int64_t id)
{
	edit_set(&p->filter, "", 0);
	p->finding = 0;
	p->chosen_id = id;
	filter(p);
	if (chosen(p) && chosen(p)->is.id == id)
		p->mode = DELETE;
	p->asked_from_outside = p->mode == DELETE;
}

/* While a deletion can be undone: 'u' does, whatever else is typed ends the offer. */
static int undo_key(struct sessions_pane *p, const struct key *k, struct ui_action *out)
{
	int letter = k->code == K_CHAR && !(k->mods & (KEY_CTRL | KEY_ALT));

	if (p->gone_id == NOBODY)
		return 0;
	if (letter && k->cp == 'u') {
		act(p, out, UI_UNDELETE);
		out->id = p->gone_id;
		p->chosen_id = p->gone_id;
		p->gone_id = NOBODY;
		return 1;
	}
	if (letter || k->code == K_PASTE || k->code == K_ESC)
		p->gone_id = NOBODY;
	return 0;
}

static enum pane_key mouse(struct sessions_pane *p, const struct key *k, struct ui_action *out)
{
	if (k->cp == 4 || k->cp == 5) {
		list_move(&p->list, k->cp == 4 ? -3 : 3);
	} else if (k->cp == 1 && k->x >= p->x && k->x < p->x + p->w && k->y >= p->y) {
		size_t at = p->list.top + (size_t)((k->y - p->y) / p->item);
		if (at >= p->list.n || (k->y - p->y) / p->item >= p->rows)
			return PANE_USED;
		p->list.chosen = at;
	} else {
		return PANE_USED;
	}
	if (chosen(p))
		p->chosen_id = chosen(p)->is.id;
	return want_preview(p, out);
}

static enum pane_key control_key(struct sessions_pane *p, int32_t cp)
{
	const struct talk *t = chosen(p);

	if (cp == 'r' && t) {
		rename_open(p, t);
	} else if (cp == 'd' && t) {
		p->asked_from_outside = 0;
		p->mode = DELETE;
	} else if (cp != 'r' && cp != 'd') {
		return PANE_NOT_MINE;
	}
	return PANE_USED;
}

enum pane_key sessions_pane_key(struct sessions_pane *p, const struct key *k, struct ui_action *out)
{
	int control = k->code == K_CHAR && (k->mods & KEY_CTRL);
	enum pane_key did;

	if (k->code == K_FOCUS)
		return PANE_NOT_MINE;
	if (p->mode != PICK && k->code == K_MOUSE)
		return PANE_USED;
	if (p->mode == RENAME)
		return rename_key(p, k, out);
	if (p->mode == DELETE)
		return delete_key(p, k, out);
	if (undo_key(p, k, out))
		return PANE_ACTION;
	if (k->code == K_MOUSE)
		return mouse(p, k, out);
	if (k->code == K_ESC && p->filter.text.n) {
		edit_set(&p->filter, "", 0);
		return filter_changed(p, out);
	}
	if (k->code == K_ESC)
		return PANE_CLOSE;
	if (k->code == K_ENTER) {
		if ((did = find(p, out)) == PANE_ACTION)
			return did;
		return chosen(p) ? act(p, out, UI_SWITCH) : PANE_USED;
	}
	if (k->code == K_TAB) {
		p->preview = !p->preview;
		p->preview_asked = NOBODY;
		return want_preview(p, out);
	}
	if (control && k->cp == 'f') {
		p->forked = newest(p);
		return chosen(p) ? act(p, out, UI_FORK) : PANE_USED;
	}
	p->forked = 0;   /* one has gone elsewhere meanwhile */
	if (control && (k->cp == 'r' || k->cp == 'd'))
		return control_key(p, k->cp);
	if (control && (k->cp == 'p' || k->cp == 'n')) {
		struct key arrow = {.code = k->cp == 'p' ? K_UP : K_DOWN};
		return sessions_pane_key(p, &arrow, out);
	}
	/* Home and End go through the list; the filter is short. */
	if (list_key(&p->list, k, p->rows)) {
		if (chosen(p))
			p->chosen_id = chosen(p)->is.id;
		return want_preview(p, out);
	}
	switch (edit_key(&p->filter, k)) {
	case 1: return filter_changed(p, out);
	case 2: return PANE_USED;
	default: return PANE_NOT_MINE;
	}
}
