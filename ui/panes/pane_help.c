/* ui/panes/pane_help.c - the help pane: lists all keys and commands, from the same tables by which they are run.
 *
 * The text is laid out once per width, with names at the left and wrapped descriptions at the right. In a narrow pane,
 * each description is below its name. */
#include "ui/panes/panes.h"
#include "ui/screen/widgets.h"

#include <stdlib.h>
#include <string.h>

enum { LEFT_MOST = 26, TWO_COLUMNS = 44 };

/* A line of the help: n bytes from `from` on. The first `name` bytes are the name of a key or command. */
struct help_line {
	uint32_t from, n, name;
	int heading;
};

struct help_pane {
	struct pane pane;
	const struct ui_command *commands;
	struct str text;
	struct help_line *line;
	size_t n_line, cap_line;
	int width; /* width in columns of the layout; 0 = there is no layout yet */
	int rows;  /* number of text rows when the pane was last drawn */
	size_t top;
	int asking;  /* 1: the search line is open */
	size_t from; /* the top row at the time when the search line was opened */
	struct edit pattern;
	struct str words; /* the pattern for which the help is searched */
	int fold;         /* 1: ignore case, because the pattern has no capital letter */
};

static struct pane *help_pane_create(const struct ui_options *o)
{
	struct help_pane *p = xcalloc(1, sizeof *p);

	p->pane.ops = &help_pane;
	p->commands = o->commands;
	return &p->pane;
}

static void help_pane_release(struct pane *pane)
{
	struct help_pane *p = (struct help_pane *)pane;

	str_free(&p->text);
	edit_free(&p->pattern);
	str_free(&p->words);
	free(p->line);
	free(p);
}

/* ---- layout ---- */

/* End a line, which consists of the text added since byte `from`. */
static void line_end(struct help_pane *p, size_t from, size_t name, int heading)
{
	GROW(p->line, p->n_line, p->cap_line);
	p->line[p->n_line++] = (struct help_line){
		.from = (uint32_t)from,
		.n = (uint32_t)(p->text.n - from),
		.name = (uint32_t)name,
		.heading = heading,
	};
}

static void add_heading(struct help_pane *p, const char *text)
{
	size_t from = p->text.n;

	if (p->n_line)
		line_end(p, from, 0, 0);
	str_adds(&p->text, text);
	line_end(p, from, 0, 1);
}

static void add_blanks(struct str *s, size_t n)
{
	while (n--)
		str_add(s, " ", 1);
}

/* Add a name and its wrapped description. Both are ASCII, so a byte is a column. */
static void add_row(struct help_pane *p, const char *name, const char *does)
{
	size_t width = (size_t)p->width, two = p->width >= TWO_COLUMNS;
	size_t indent = two ? LEFT_MOST + 2 : 3, from = p->text.n, named;
	size_t n = strlen(does), at = 0, room = width > indent + 4 ? width - indent : 4;

	add_blanks(&p->text, 1);
	str_adds(&p->text, name);
	named = p->text.n - from;
	if (!two || named > LEFT_MOST) {
		line_end(p, from, named, 0);
		from = p->text.n;
		named = 0;
	}
	for (int first = 1; at < n || first; first = 0) {
		size_t take = n - at;
		if (take > room) /* end the line at the last blank that fits, or inside a word */
			for (take = room; take && does[at + take] != ' '; take--)
				;
		if (!take)
			take = room;
		add_blanks(&p->text, indent - named);
		str_add(&p->text, does + at, take);
		line_end(p, from, named, 0);
		from = p->text.n;
		named = 0;
		for (at += take; at < n && does[at] == ' '; at++)
			;
	}
}

static const char *place_name(int bit)
{
	return 1u << bit == IN_INPUT        ? "the input line"
	       : 1u << bit == IN_TRANSCRIPT ? "the transcript"
	                                    : pane_ops[bit - 1]->help_name;
}

static void add_section(struct help_pane *p, unsigned where)
{
	struct str s = { 0 };

	str_adds(&s, where == ANYWHERE  ? "Keys everywhere"
	             : where & BROWSING ? "Keys in browse mode (F6): "
	                                : "Keys in ");
	where &= ~(unsigned)(where == ANYWHERE ? ANYWHERE : BROWSING);
	for (int bit = 0, n = 0; where >> bit; bit++)
		if (where >> bit & 1)
			str_addf(&s, "%s%s", !n++ ? "" : where >> bit > 1 ? ", " : " and ", place_name(bit));
	add_heading(p, s.p);
	str_free(&s);
}

static void add_commands(struct help_pane *p)
{
	struct str name = { 0 }, does = { 0 };

	add_heading(p, "Commands");
	for (const struct ui_command *c = p->commands; c && c->name; c++) {
		str_clear(&name);
		str_clear(&does);
		str_addf(&name, "%s%s%s", c->name, *c->args ? " " : "", c->args);
		str_adds(&does, c->help);
		if (*c->aliases)
			str_addf(&does, " (also %s)", c->aliases);
		if (c->busy == BUSY_QUEUED)
			str_adds(&does, "; queued during an answer");
		else if (c->busy == BUSY_REFUSED)
			str_adds(&does, "; refused during an answer");
		else if (c->busy == BUSY_LOOKS)
			str_adds(&does, "; with words queued during an answer");
		add_row(p, name.p, does.p);
	}
	add_row(p, "//TEXT", "a message that begins with a slash");
	str_free(&name);
	str_free(&does);
}

static void lay_out(struct help_pane *p, int width)
{
	size_t was = p->n_line;

	if (p->width == width)
		return;
	p->width = width;
	str_clear(&p->text);
	p->n_line = 0;
	for (const struct binding *b = bindings; b->keys; b++) {
		if (b == bindings || b->where != b[-1].where)
			add_section(p, b->where);
		add_row(p, b->keys, b->does);
	}
	add_commands(p);
	/* If the width has changed, keep the position approximately. */
	if (was)
		p->top = p->top * p->n_line / was;
}

void ui_help_text(const struct ui_command *commands, struct str *out)
{
	struct help_pane *p = (struct help_pane *)help_pane_create(&(struct ui_options){ .commands = commands });

	lay_out(p, 80);
	for (size_t i = 0; i < p->n_line; i++) {
		str_add(out, p->text.p + p->line[i].from, p->line[i].n);
		str_adds(out, "\n");
	}
	help_pane_release(&p->pane);
}

/* ---- search; it ignores case, unless the pattern has a capital letter ---- */

static void pattern_set(struct help_pane *p)
{
	str_clear(&p->words);
	if (p->pattern.text.n)
		str_add(&p->words, p->pattern.text.p, p->pattern.text.n);
	p->fold = p->words.n && !has_capitals(p->words.p, p->words.n);
}

/* Return the offset of the first match in a line, from byte `from` of the line on. *len receives its length. -1 = there
 * is no match. */
static int match_at(const struct help_pane *p, size_t line, size_t from, size_t *len)
{
	const struct help_line *l = &p->line[line];
	size_t at = SIZE_MAX;

	if (p->words.n)
		at = words_find(p->text.p + l->from, l->n, from, p->words.p, p->words.n, p->fold, len);
	return at == SIZE_MAX ? -1 : (int)at;
}

static int has_match(const struct help_pane *p, size_t line)
{
	size_t len;
	return match_at(p, line, 0, &len) >= 0;
}

/* Return the number of lines with a match. *at receives which of these lines, counted from 1, is the first at or below
 * the top row; 0 = none is. */
static size_t count_matches(const struct help_pane *p, size_t *at)
{
	size_t n = 0;

	*at = 0;
	for (size_t i = 0; i < p->n_line; i++)
		if (has_match(p, i)) {
			n++;
			if (!*at && i >= p->top)
				*at = n;
		}
	return n;
}

/* Scroll to a line with a match: the next one if `step` is positive, else the previous one. The search begins at line
 * `from` and wraps around at the end. */
static void search(struct help_pane *p, size_t from, int step)
{
	for (size_t i = 0; i < p->n_line; i++) {
		size_t at = step > 0 ? (from + i) % p->n_line : (from + p->n_line - i) % p->n_line;
		if (has_match(p, at)) {
			p->top = at;
			return;
		}
	}
}

/* Return the index of the line that begins with the name of a command; 0 = there is none. */
static size_t line_of(const struct help_pane *p, const char *name)
{
	size_t n = strlen(name);

	for (size_t i = 0; i < p->n_line; i++)
		if (p->line[i].name > n && !strncmp(p->text.p + p->line[i].from + 1, name, n) &&
		    (p->line[i].name == n + 1 || p->text.p[p->line[i].from + n + 1] == ' '))
			return i;
	return 0;
}

static int has_word(const char *list, const char *word, size_t n)
{
	for (const char *p = list; *p; p += strcspn(p, " "), p += strspn(p, " ")) {
		p += *p == '/';
		if (strcspn(p, " ") == n && !memcmp(p, word, n))
			return 1;
	}
	return 0;
}

void help_pane_find(struct pane *pane, const char *words)
{
	struct help_pane *p = (struct help_pane *)pane;
	size_t n = strlen(words += *words == '/');

	lay_out(p, p->width ? p->width : 80);
	edit_set(&p->pattern, words, n);
	pattern_set(p);
	p->asking = 0;
	p->top = 0;
	if (!n)
		return;
	search(p, 0, 1);
	for (const struct ui_command *c = p->commands; c && c->name; c++)
		if (!strcmp(c->name + 1, words)) {
			p->top = line_of(p, c->name);
			return;
		} else if (!has_match(p, p->top) && has_word(c->words, words, n)) {
			help_pane_find(pane, c->name); /* the help does not show synonyms: find the command's name */
			return;
		}
}

/* ---- drawing ---- */

static void clamp_top(struct help_pane *p)
{
	size_t most = p->n_line > (size_t)p->rows ? p->n_line - (size_t)p->rows : 0;

	/* During a search, any line may become the top row, so that a match near the end of the text can be shown
	 * there. */
	if (p->words.n && p->n_line)
		most = p->n_line - 1;
	if (p->top > most)
		p->top = most;
}

static void draw_line(const struct help_pane *p, const struct area *a, int y, size_t i)
{
	const struct help_line *l = &p->line[i];
	const char *s = p->text.p + l->from;
	size_t len = 0;
	int x = 0, m = 0;

	if (l->heading) {
		area_text(a, 0, y, ST_HEADING, s, l->n);
	} else {
		x = area_text(a, 0, y, ST_STRONG, s, l->name);
		area_text(a, x, y, ST_TEXT, s + l->name, l->n - l->name);
	}
	for (; (m = match_at(p, i, (size_t)m, &len)) >= 0; m += (int)len)
		area_restyle(a, m, y, (int)len, ST_MATCH);
}

static void help_pane_draw(struct pane *pane, const struct area *a)
{
	struct help_pane *p = (struct help_pane *)pane;
	int foot = p->asking || p->words.n, head = !pane->framed && a->h > 1;
	size_t end;

	area_clear(a, ST_TEXT);
	if (a->w < 1 || a->h < 1)
		return;
	lay_out(p, a->w);
	p->rows = a->h > head + foot ? a->h - head - foot : 1;
	clamp_top(p);
	end = p->top + (size_t)p->rows;
	if (end > p->n_line)
		end = p->n_line;
	if (head) {
		area_fill(a, 0, 0, a->w, ST_TITLE, ' ');
		area_text(a, 1, 0, ST_TITLE, "Help", 4);
		if (a->w >= 40)
			area_putf(a, a->w - 16, 0, ST_TITLE, "%3zu-%zu of %zu", p->top + 1, end, p->n_line);
	}
	for (int y = 0; y < p->rows && p->top + (size_t)y < p->n_line; y++)
		draw_line(p, a, y + head, p->top + (size_t)y);
	if (foot && a->h > 2) {
		size_t at, n = count_matches(p, &at);
		int y = a->h - 1, w = a->w > 30 ? a->w - 14 : a->w, x = area_putf(a, 0, y, ST_PROMPT, "/");
		struct area line = area_part(a, x, y, w - x, 1);

		if (p->asking)
			edit_draw(&p->pattern, &line, 0, 0, line.w, ST_TEXT);
		else
			area_text(&line, 0, 0, ST_TEXT, p->words.p, p->words.n);
		if (p->words.n && n)
			area_putf(a, w + 1, y, ST_FAINT, "%zu of %zu", at, n);
		else if (p->words.n)
			area_putf(a, w + 1, y, ST_FAINT, "not found");
	}
}

static void help_pane_title(const struct pane *pane, struct str *left, struct str *right)
{
	const struct help_pane *p = (const struct help_pane *)pane;
	size_t end = p->top + (size_t)p->rows;

	str_adds(left, "Help");
	str_addf(right, "%zu-%zu of %zu", p->top + 1, MIN(end, p->n_line), p->n_line);
}

/* ---- keys ---- */

static void scroll(struct help_pane *p, long lines)
{
	p->top = lines < 0 && (size_t)-lines > p->top ? 0 : p->top + (size_t)lines;
	clamp_top(p);
}

static void to_end(struct help_pane *p)
{
	p->top = p->n_line > (size_t)p->rows ? p->n_line - (size_t)p->rows : 0;
}

static void forget_pattern(struct help_pane *p)
{
	edit_set(&p->pattern, "", 0);
	pattern_set(p);
}

static enum pane_key ask_key(struct help_pane *p, const struct key *k)
{
	int control = k->code == K_CHAR && k->mods == KEY_CTRL;

	if (k->code == K_ESC || (control && (k->cp == 'c' || k->cp == 'g')) ||
	    (k->code == K_BACKSPACE && !p->pattern.text.n)) {
		p->asking = 0;
		p->top = p->from;
		forget_pattern(p);
	} else if (k->code == K_ENTER) {
		p->asking = 0;
	} else if (edit_key(&p->pattern, k) == 1) {
		pattern_set(p);
		search(p, p->from, 1);
	} else if (k->code == K_F) {
		return PANE_NOT_MINE;
	}
	return PANE_USED;
}

static enum pane_key help_pane_key(struct pane *pane, const struct key *k, struct ui_action *out)
{
	struct help_pane *p = (struct help_pane *)pane;
	int page = MAX(p->rows, 1);

	/* lay the text out here, because a key may come before the first drawing */
	lay_out(p, p->width ? p->width : 80);
	if (p->asking)
		return ask_key(p, k);
	switch (k->code) {
	case K_UP: scroll(p, -1); return PANE_USED;
	case K_DOWN: scroll(p, 1); return PANE_USED;
	case K_PAGE_UP: scroll(p, -page); return PANE_USED;
	case K_PAGE_DOWN: scroll(p, page); return PANE_USED;
	case K_HOME: p->top = 0; return PANE_USED;
	case K_END: to_end(p); return PANE_USED;
	case K_ESC:
		if (!p->words.n)
			return PANE_CLOSE;
		forget_pattern(p);
		return PANE_USED;
	case K_CHAR: break;
	default: return PANE_NOT_MINE;
	}
	if (k->mods & ~(unsigned)(KEY_SHIFT | KEY_CTRL))
		return PANE_NOT_MINE;
	switch (k->mods & KEY_CTRL ? k->cp & 31 : k->cp) {
	case 'k': scroll(p, -1); break;
	case 'j': scroll(p, 1); break;
	case 'u':
	case 'u' & 31: scroll(p, -(page + 1) / 2); break;
	case 'd':
	case 'd' & 31: scroll(p, (page + 1) / 2); break;
	case 'b':
	case 'b' & 31: scroll(p, -page); break;
	case ' ':
	case 'f':
	case 'f' & 31: scroll(p, page); break;
	case 'g': p->top = 0; break;
	case 'G': to_end(p); break;
	case '/':
		p->asking = 1;
		p->from = p->top;
		forget_pattern(p);
		break;
	case 'n': search(p, p->top + 1, 1); break;
	case 'N': search(p, p->top + p->n_line - 1, -1); break;
	case 'q': return PANE_CLOSE;
	default: return PANE_NOT_MINE;
	}
	return PANE_USED;
}

static unsigned help_pane_state(const struct pane *pane)
{
	const struct help_pane *p = (const struct help_pane *)pane;

	return (p->asking ? PANE_FIELD : 0u) | (p->words.n ? PANE_MATCHES : 0u);
}

/* clang-format off */
const struct pane_ops help_pane = {
	.help_name = "this help", .flags = PANE_SEARCHES,
	.hints = (const struct hint[]){
		{"Esc", "Close"}, {"F3", "Find"}, {"PgDn", "Page"}, {"Home", "Top"}, {"End", "End"}, {"F6", "Browse"}, {0},
	},
	.browsing = (const struct hint[]){
		{"Esc", "Write"}, {"j k", "Line"}, {"Space", "Page"}, {"/", "Find"}, {"n", "Next"}, {"g G", "Ends"}, {"q", "Close"}, {0},
	},
	.create = help_pane_create, .release = help_pane_release,
	.draw = help_pane_draw, .title = help_pane_title, .state = help_pane_state, .key = help_pane_key,
};
/* clang-format on */
