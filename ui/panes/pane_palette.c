/* ui/panes/pane_palette.c - the palette: a list of commands, keys, settings, documents and sessions, filtered while
 * typing.
 *
 * The first row is the filter. A word of the filter matches an entry in one of these ways: the entry's name contains
 * the word, or contains its letters in the same order; a word of the description, or a synonym, begins with the word.
 * Each matching word adds the square of its length to the entry's sum. Only the entries with the greatest sum are
 * shown. So words that match no entry are ignored ("how do i quit"). Entries that match with whole words rank before
 * those with scattered letters, and matches in names before matches in descriptions.
 *
 * Enter runs the entry. A command that needs arguments is put into the input line instead; Tab does so for every
 * command. */
#include "ui/panes/panes.h"
#include "ui/screen/widgets.h"
#include "ui/text/text.h"

#include <stdlib.h>
#include <string.h>

enum { NAME_COLS = 26, KIND_COLS = 10, TEXT_MOST = 256 };

struct item {
	struct palette_choice is; /* the item owns the string is.text */
	const char *kind;
	struct str name, does; /* name and description: one line each, without control characters */
	const char *words;     /* synonyms that the filter also searches; they are not shown */
	int score, fits;       /* results of score_item() for the current filter */
};
struct items {
	struct item *item;
	size_t n, cap;
};

struct palette_pane {
	struct pane pane;
	/* `rows` is the number of rows of the list that was drawn last; `y` is the screen row of its first row */
	int ascii, rows, y;
	struct items fixed; /* commands, keys and settings */
	struct items documents, sessions;
	struct edit filter;
	struct item **shown; /* [list.n] items that pass the filter, best first */
	struct list list;
	struct palette_choice chosen;
};

static void items_clear(struct items *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free((char *)l->item[i].is.text);
		str_free(&l->item[i].name);
		str_free(&l->item[i].does);
	}
	l->n = 0;
}

static struct item *items_add(struct items *l, const char *kind, enum palette_kind what, const char *name,
                              const char *does)
{
	struct item *x;

	GROW(l->item, l->n, l->cap);
	x = &l->item[l->n++];
	*x = (struct item){ .is.what = what, .kind = kind, .words = "" };
	clean_line(name, strnlen(name, TEXT_MOST), &x->name);
	clean_line(does, strnlen(does, TEXT_MOST), &x->does);
	return x;
}

static char *join_strings(const char *a, const char *b)
{
	struct str s = { 0 };

	str_addf(&s, "%s%s", a, b);
	return s.p;
}

static struct pane *palette_pane_create(const struct ui_options *o)
{
	struct palette_pane *p = xcalloc(1, sizeof *p);

	p->pane.ops = &palette_pane;
	p->ascii = o->ascii;
	p->rows = 10;
	for (const struct ui_command *c = o->commands; c && c->name; c++) {
		struct str name = { 0 }, does = { 0 };
		struct item *x;
		/* arguments in brackets are optional */
		int needs = *c->args && *c->args != '[';

		str_addf(&name, "%s%s%s", c->name, *c->args ? " " : "", c->args);
		str_addf(&does, "%s%s%s%s", c->help, *c->aliases ? " (also " : "", c->aliases, *c->aliases ? ")" : "");
		x = items_add(&p->fixed, "command", PALETTE_TEXT, name.p, does.p);
		x->is.text = join_strings(c->name, needs ? " " : "");
		x->words = c->words;
		str_free(&name);
		str_free(&does);
	}
	for (const struct binding *b = bindings; b->keys; b++)
		if (b->where == ANYWHERE && b->act)
			items_add(&p->fixed, "key", PALETTE_ACT, b->keys, b->does)->is.act = b->act;
	for (const struct ui_setting *s = o->settings; s && s->name; s++) {
		struct str does = { 0 }, text = { 0 };

		str_addf(&does, "%s%s%s%s", s->help, *s->values ? " (" : "", s->values, *s->values ? ")" : "");
		str_addf(&text, "/set %s ", s->name);
		items_add(&p->fixed, "setting", PALETTE_TEXT, s->name, does.p)->is.text = text.p;
		str_free(&does);
	}
	return &p->pane;
}

static void palette_pane_release(struct pane *pane)
{
	struct palette_pane *p = (struct palette_pane *)pane;

	items_clear(&p->fixed);
	items_clear(&p->documents);
	items_clear(&p->sessions);
	free(p->fixed.item);
	free(p->documents.item);
	free(p->sessions.item);
	free(p->shown);
	edit_free(&p->filter);
	free(p);
}

/* ---- the filter ---- */

static int is_word_start(const char *s, size_t at)
{
	return !at || strchr(" -/,.|[_", s[at - 1]);
}

/* Rate how well the name contains the letters of a word in the same order. The word is in lower case. 0 = a letter is
 * missing. */
static int letters_score(const struct str *name, const char *word, size_t n)
{
	size_t at = 0;
	int score = 0, run = 0;

	for (size_t i = 0; i < n;) {
		int32_t want, is;
		size_t step = (size_t)utf8_decode(word + i, n - i, &want), len = 0;

		for (run = 0; at < name->n; at += len, run = 1) {
			len = (size_t)utf8_decode(name->p + at, name->n - at, &is);
			if (fold_case(is) == want)
				break;
		}
		if (at >= name->n)
			return 0;
		/* a letter scores 3 if it is the first of the word, or if it directly follows the letter that matched
		 * before it; otherwise it scores 1 */
		score += run && i ? 1 : 3;
		score += is_word_start(name->p, at) ? 3 : 0;
		at += len;
		i += step;
	}
	return score;
}

/* Return the offset of the first word in the text that begins with `word`; SIZE_MAX = there is none. */
static size_t word_begins(const char *text, size_t n_text, const char *word, size_t n)
{
	size_t at = 0, len;

	while (n_text && (at = words_find(text, n_text, at, word, n, 1, &len)) != SIZE_MAX && !is_word_start(text, at))
		at++;
	return n_text ? at : SIZE_MAX;
}

/* Return how well a word of the filter matches an entry; 0 = not at all. */
static int word_score(const struct item *x, const char *word, size_t n)
{
	size_t len, at = x->name.n ? words_find(x->name.p, x->name.n, 0, word, n, 1, &len) : SIZE_MAX;
	int score = 0, does = 0;

	if (at != SIZE_MAX && (n > 2 || is_word_start(x->name.p, at)))
		score = 1000 + (is_word_start(x->name.p, at) ? 500 : 0) - (int)(MIN(at, 200));
	else if (n > 2)
		score = letters_score(&x->name, word, n);
	if (n > 2 && word_begins(x->words, strlen(x->words), word, n) != SIZE_MAX)
		does = 800;
	else if ((at = word_begins(x->does.p, x->does.n, word, n)) != SIZE_MAX)
		does = 500 - (int)(at < 200 ? at / 4 : 50);
	else if (n > 2 && !strncmp(x->kind, word, n))
		does = 300;
	return MAX(score, does);
}

/* Compute the entry's score and its `fits`. `fits` is the sum of the squared lengths of those words of the filter that
 * match the entry. */
static void score_item(struct item *x, const char *words, size_t n)
{
	x->score = 1;
	x->fits = 0;
	for (size_t i = 0, end; i < n; i = end) {
		int one;

		while (i < n && words[i] == ' ')
			i++;
		for (end = i; end < n && words[end] != ' ';)
			end++;
		if (end > i && (one = word_score(x, words + i, end - i)) > 0) {
			x->score += one;
			x->fits += (int)((end - i) * (end - i));
		}
	}
}

static int score_items(struct items *l, const char *words, size_t n, int best)
{
	for (size_t i = 0; i < l->n; i++) {
		score_item(&l->item[i], words, n);
		best = l->item[i].fits > best ? l->item[i].fits : best;
	}
	return best;
}

static void show_items(struct palette_pane *p, struct items *l, int fits)
{
	for (size_t i = 0; i < l->n; i++) {
		struct item *x = &l->item[i];
		size_t at;

		if (x->fits < fits)
			continue;
		/* sort by score; entries with equal scores keep their order */
		for (at = p->list.n++; at > 0 && p->shown[at - 1]->score < x->score; at--)
			p->shown[at] = p->shown[at - 1];
		p->shown[at] = x;
	}
}

static void palette_filter(struct palette_pane *p)
{
	struct str words = { 0 };
	const char *s;
	int best = 0;

	for (size_t i = 0, len; i < p->filter.text.n; i += len) {
		int32_t cp;
		char out[4];
		len = (size_t)utf8_decode(p->filter.text.p + i, p->filter.text.n - i, &cp);
		str_add(&words, out, (size_t)utf8_encode(fold_case(cp), out));
	}
	p->shown = xrealloc(p->shown, (p->fixed.n + p->documents.n + p->sessions.n + 1) * sizeof *p->shown);
	p->list = (struct list){ 0 };
	s = str_text(&words);
	best = score_items(&p->fixed, s, words.n, best);
	best = score_items(&p->documents, s, words.n, best);
	best = score_items(&p->sessions, s, words.n, best);
	if (best || strspn(s, " ") == words.n) {
		show_items(p, &p->fixed, best);
		show_items(p, &p->documents, best);
		show_items(p, &p->sessions, best);
	}
	str_free(&words);
}

static enum pane_key palette_pane_open(struct pane *pane, struct ui_action *out)
{
	struct palette_pane *p = (struct palette_pane *)pane;

	edit_set(&p->filter, "", 0);
	palette_filter(p);
	out->what = UI_LIST; /* request the list of the current sessions */
	return PANE_ACTION;
}

/* ---- posted contents ---- */

void palette_pane_documents(struct pane *pane, const struct ui_document *d, size_t n)
{
	struct palette_pane *p = (struct palette_pane *)pane;
	size_t chosen = p->list.chosen;

	items_clear(&p->documents);
	for (size_t i = 0; i < n; i++)
		items_add(&p->documents, "document", PALETTE_DOCUMENT, d[i].name ? d[i].name : "", "open it")->is.id =
			(int64_t)i;
	palette_filter(p);
	list_move(&p->list, (long)chosen);
}

void palette_pane_sessions(struct pane *pane, const struct ui_session *s, size_t n)
{
	struct palette_pane *p = (struct palette_pane *)pane;
	size_t chosen = p->list.chosen;

	items_clear(&p->sessions);
	for (size_t i = 0; i < n; i++)
		if (!s[i].here) {
			int named = s[i].name && *s[i].name;
			const char *title = s[i].title ? s[i].title : "";
			items_add(&p->sessions, "session", PALETTE_SESSION, named ? s[i].name : title,
			          named ? title : "continue in it")
				->is.id = s[i].id;
		}
	palette_filter(p);
	list_move(&p->list, (long)chosen);
}

/* ---- drawing ---- */

static void palette_pane_draw(struct pane *pane, const struct area *a)
{
	struct palette_pane *p = (struct palette_pane *)pane;
	int names = a->w >= 70 ? NAME_COLS : a->w >= 44 ? 18 : a->w - 1, kinds = a->w >= 44 ? KIND_COLS : 0, x, w;

	area_clear(a, ST_TEXT);
	if (a->w < 1 || a->h < 1)
		return;
	x = area_putf(a, 0, 0, ST_PROMPT, a->w < 30 ? ">" : "do ");
	w = a->w >= 40 && !pane->framed ? 14 : 0;
	if (w) {
		struct str count = { 0 };

		str_addf(&count, "%zu of %zu", p->list.n, p->fixed.n + p->documents.n + p->sessions.n);
		put_right(a, a->w - w, 0, w, ST_FAINT, count.p);
		str_free(&count);
	}
	edit_draw(&p->filter, a, x, 0, a->w - w - x, ST_TEXT);
	if (!p->filter.text.n && a->w - w - x > 56) {
		static const char hint[] = "  type what to do: commands, keys, settings, sessions";
		put_left(a, x + 1, 0, a->w - w - x - 1, ST_FAINT, hint, sizeof hint - 1, p->ascii);
	}
	p->y = a->y + 1;
	p->rows = a->h > 1 ? a->h - 1 : 0;
	list_show(&p->list, p->rows ? p->rows : 1);
	if (!p->list.n && p->rows)
		put_left(a, 2, 1, a->w - 2, ST_FAINT, "nothing is called that", 22, p->ascii);
	for (int i = 0; i < p->rows && p->list.top + (size_t)i < p->list.n; i++) {
		const struct item *it = p->shown[p->list.top + (size_t)i];
		int on = p->list.top + (size_t)i == p->list.chosen, y = 1 + i;
		unsigned text = on ? ST_SELECTED : ST_TEXT, faint = on ? ST_SELECTED : ST_FAINT;

		area_fill(a, 0, y, a->w, text, ' ');
		if (kinds)
			put_left(a, 1, y, kinds - 1, faint, it->kind, strlen(it->kind), p->ascii);
		put_left(a, kinds + !kinds, y, names - !kinds, on ? text : ST_STRONG, str_text(&it->name), it->name.n,
		         p->ascii);
		if (kinds && a->w > kinds + names + 2)
			put_left(a, kinds + names + 1, y, a->w - kinds - names - 1, text, str_text(&it->does),
			         it->does.n, p->ascii);
	}
}

static void palette_pane_title(const struct pane *pane, struct str *left, struct str *right)
{
	const struct palette_pane *p = (const struct palette_pane *)pane;

	str_adds(left, "Palette");
	str_addf(right, "%zu of %zu", p->list.n, p->fixed.n + p->documents.n + p->sessions.n);
}

/* ---- keys ---- */

static enum pane_key palette_choose(struct palette_pane *p, int draft)
{
	const struct item *x = p->list.chosen < p->list.n ? p->shown[p->list.chosen] : NULL;

	if (!x)
		return PANE_USED;
	p->chosen = x->is;
	p->chosen.draft = draft && x->is.what == PALETTE_TEXT;
	return PANE_CHOSEN;
}

const struct palette_choice *palette_pane_chosen(const struct pane *pane)
{
	return &((const struct palette_pane *)pane)->chosen;
}

static enum pane_key palette_pane_key(struct pane *pane, const struct key *k, struct ui_action *out)
{
	struct palette_pane *p = (struct palette_pane *)pane;
	size_t at = p->list.top + (size_t)(k->y - p->y);

	(void)out;
	switch (k->code) {
	case K_ESC: return PANE_CLOSE;
	case K_ENTER: return palette_choose(p, 0);
	case K_TAB: return palette_choose(p, 1);
	case K_MOUSE:
		if (k->cp == 4 || k->cp == 5)
			list_move(&p->list, k->cp == 4 ? -3 : 3);
		if (k->cp != 1 || k->y < p->y || at >= p->list.n)
			return PANE_USED;
		p->list.chosen = at;
		return palette_choose(p, 0);
	default: break;
	}
	if (k->code == K_CHAR && k->mods == KEY_CTRL && (k->cp == 'p' || k->cp == 'n')) {
		list_move(&p->list, k->cp == 'p' ? -1 : 1);
		return PANE_USED;
	}
	if (list_key(&p->list, k, p->rows ? p->rows : 1))
		return PANE_USED;
	switch (edit_key(&p->filter, k)) {
	case 1: palette_filter(p); return PANE_USED;
	case 2: return PANE_USED;
	default: return PANE_NOT_MINE;
	}
}

static unsigned palette_pane_state(const struct pane *pane)
{
	(void)pane;
	return PANE_FIELD;
}

/* clang-format off */
const struct pane_ops palette_pane = {
	.help_name = "the palette",
	.hints = (const struct hint[]){{"Enter", "Do it"}, {"Esc", "Close"}, {"Tab", "Into the input line"}, {"Up Down", "Choose"}, {0}},
	.browsing = (const struct hint[]){{"Esc", "Write"}, {0}},
	.create = palette_pane_create, .release = palette_pane_release, .open = palette_pane_open,
	.draw = palette_pane_draw, .title = palette_pane_title, .state = palette_pane_state, .key = palette_pane_key,
};
/* clang-format on */
