/* ui/input/input_offers.c - completions of the input line: commands, their arguments, paths, session names.
 *
 * Paths may be typed with quotes and backslashes as in a shell. An inserted path is quoted so that the program reads
 * exactly that path. Names are shown without control characters but inserted unchanged. Names that are not UTF-8 are
 * not offered. */
#include "ui/input/input_private.h"
#include "ui/screen/widgets.h"
#include "ui/text/text.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_MOST = 4096 };

void offers_close(struct offers *o)
{
	for (size_t i = 0; i < o->n; i++) {
		free(o->list[i].name);
		free(o->list[i].shown);
		free(o->list[i].help);
	}
	free(o->list);
	str_free(&o->head);
	*o = (struct offers){ .chosen = -1 };
}

static void offers_add(struct offers *o, const char *name, size_t n, const char *help, int more)
{
	struct str shown = { 0 }, clean = { 0 };
	struct offer *x;

	if (o->n == OFFER_MOST) {
		o->cut = 1;
		return;
	}
	GROW(o->list, o->n, o->cap);
	x = &o->list[o->n++];
	clean_line(name, n, &shown);
	if (o->kind == OFFER_PATHS && more)
		str_adds(&shown, "/");
	clean_line(help, strlen(help), &clean);
	*x = (struct offer){ .name = xstrndup(name, n), .more = more };
	x->shown = xstrndup(str_text(&shown), shown.n);
	x->help = xstrndup(str_text(&clean), clean.n);
	str_free(&shown);
	str_free(&clean);
}

static int by_name(const void *a, const void *b)
{
	const struct offer *x = a, *y = b;

	return strcmp(x->name, y->name);
}

static int is_input_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n';
}

static int begins(const char *s, const char *with, size_t n)
{
	return !strncmp(s, with, n);
}

/* ---- commands ---- */

/* Find the first word that begins with text[0..n) in a list of words that are separated by blanks. *len receives the
 * length of the word. Returns NULL if there is no such word. */
static const char *alias_with(const char *list, const char *text, size_t n, size_t *len)
{
	for (const char *p = list; *p; p += strspn(p, " ")) {
		*len = strcspn(p, " ");
		if (*len >= n && !memcmp(p, text, n))
			return p;
		p += *len;
	}
	return NULL;
}

/* 1 if text[0..n), which begins with a slash, is the beginning of one of the command's synonyms. A slash with one
 * letter does not count. */
static int has_synonym(const struct ui_command *c, const char *text, size_t n)
{
	size_t len;

	return n > 2 && (alias_with(c->words, text, n, &len) || alias_with(c->words, text + 1, n - 1, &len));
}

/* Offer commands in this order: commands whose names begin with the typed text; commands with other names that begin
 * with it, under these names; commands of which only a synonym begins with it. */
static void find_commands(struct offers *o, const char *text, size_t at, const struct ui_command *commands)
{
	o->typed = at;
	for (const struct ui_command *c = commands; c->name; c++)
		if (begins(c->name, text, at))
			offers_add(o, c->name, strlen(c->name), c->help, *c->args != 0);
	for (const struct ui_command *c = commands; c->name; c++) {
		size_t len;
		const char *alias = begins(c->name, text, at) ? NULL : alias_with(c->aliases, text, at, &len);
		if (alias)
			offers_add(o, alias, len, c->help, *c->args != 0);
	}
	o->n_begun = o->n;
	for (const struct ui_command *c = commands; c->name; c++) {
		size_t len;
		if (!begins(c->name, text, at) && !alias_with(c->aliases, text, at, &len) && has_synonym(c, text, at))
			offers_add(o, c->name, strlen(c->name), c->help, *c->args != 0);
	}
}

static const struct ui_command *command_of(const struct ui_command *commands, const char *text, size_t n)
{
	size_t len;
	const char *alias;

	/* a command with exactly this name, which may be a prompt of the user, has precedence over a command that has
	 * it as a synonym */
	for (int silent = 0; silent < 2; silent++)
		for (const struct ui_command *c = commands; c->name; c++) {
			if (strlen(c->name) == n && !memcmp(c->name, text, n))
				return c;
			for (const char *list = silent ? c->words : c->aliases;
			     (alias = alias_with(list, text, n, &len)); list = alias + len)
				if (len == n)
					return c;
		}
	return NULL;
}

/* Offer the words in the usage text of an argument, for example "[off|bar|layer N|dump FILE]". Only words of
 * lower-case letters are offered. */
static void find_words(struct offers *o, const char *forms, const char *typed, size_t n)
{
	o->typed = n;
	for (const char *p = forms; *p; p += *p == '|') {
		size_t len, form = strcspn(p, "|");
		const char *end = p + form;

		p += strspn(p, "[ ");
		for (len = 0; p + len < end && p[len] >= 'a' && p[len] <= 'z'; len++)
			;
		if (len && len >= n && !memcmp(p, typed, n) && (p + len == end || strchr(" ]", p[len])))
			offers_add(o, p, len, "", p[len] == ' ');
		p = end;
	}
}

static void find_names(struct offers *o, char *const *names, size_t n_names, const char *typed, size_t n)
{
	o->typed = n;
	for (size_t i = 0; i < n_names; i++)
		if (*names[i] && begins(names[i], typed, n))
			offers_add(o, names[i], strlen(names[i]), "", 0);
}

/* Offer names of settings. If a name was typed already, offer the values of this setting. */
static void find_settings(struct offers *o, const struct ui_setting *settings, const char *text, size_t arg, size_t at)
{
	size_t name = strcspn(text + arg, " \t="), value = arg + name;

	if (value >= at) {
		o->typed = at - arg;
		for (const struct ui_setting *s = settings; s && s->name; s++)
			if (begins(s->name, text + arg, o->typed))
				offers_add(o, s->name, strlen(s->name), s->help, 1);
		return;
	}
	while (value < at && strchr(" \t=", text[value]))
		value++;
	o->from = value;
	for (const struct ui_setting *s = settings; s && s->name; s++)
		if (strlen(s->name) == name && begins(s->name, text + arg, name))
			find_words(o, s->values, text + value, at - value);
}

/* ---- paths ---- */

/* A path that the user typed, after its quotes and backslashes are removed. */
struct word {
	struct str path;
	char quote; /* the quote character that is open at the end of the path, or 0 */
	/* slash_raw is the offset in `path` of the byte after the last slash. slash_typed is the offset of the same
	 * byte in the text that the user typed. */
	size_t slash_raw, slash_typed;
	char slash_quote; /* the quote character that is open directly after the last slash, or 0 */
	int blank;        /* 1: word_read() has stopped at a blank */
};

static void word_free(struct word *w)
{
	str_free(&w->path);
	*w = (struct word){ 0 };
}

/* Remove the quoting of s[0..n). If stop_blank is 1, stop at the first blank outside quotes and set w->blank. */
static void word_read(struct word *w, const char *s, size_t n, int stop_blank)
{
	*w = (struct word){ 0 };
	for (size_t i = 0; i < n; i++) {
		char c = s[i];

		if (w->quote ? c == w->quote : c == '"' || c == '\'') {
			w->quote = w->quote ? 0 : c;
			continue;
		}
		if (c == '\\' && w->quote != '\'' && i + 1 < n) {
			c = s[++i];
		} else if (!w->quote && stop_blank && is_input_blank(c)) {
			w->blank = 1;
			return;
		}
		str_add(&w->path, &c, 1);
		if (c == '/') {
			w->slash_raw = w->path.n;
			w->slash_typed = i + 1;
			w->slash_quote = w->quote;
		}
	}
}

/* Append s[0..n), quoted so that the program reads the same bytes. `q` is the quote character that is open already, or
 * 0. */
static void quote(struct str *out, const char *s, size_t n, char q)
{
	for (size_t i = 0; i < n; i++) {
		if (q == '\'' && s[i] == '\'')
			/* close the quote and write an escaped quote; the quote that is appended below opens it
			 * again */
			str_adds(out, "'\\'");
		else if ((!q && strchr(" \t\n\"'\\", s[i])) || (q == '"' && strchr("\"\\", s[i])))
			str_adds(out, "\\");
		str_add(out, s + i, 1);
	}
}

static int is_utf8(const char *s)
{
	size_t n = strlen(s);

	for (size_t i = 0; i < n;) {
		int32_t cp;
		i += (size_t)utf8_decode(s + i, n - i, &cp);
		if (cp < 0)
			return 0;
	}
	return 1;
}

static int is_directory(int dir, const struct dirent *e)
{
	struct stat st;

	if (e->d_type == DT_DIR)
		return 1;
	return (e->d_type == DT_LNK || e->d_type == DT_UNKNOWN) && !fstatat(dir, e->d_name, &st, 0) &&
	       S_ISDIR(st.st_mode);
}

/* Offer the paths that begin with the typed text s[0..n), which is at byte `from` of the line. */
static void find_paths(struct offers *o, const char *s, size_t n, size_t from, int stop_blank)
{
	const char *home = getenv("HOME"), *last;
	struct str where = { 0 };
	struct dirent *e;
	struct word w;
	DIR *dir;

	word_read(&w, s, n, stop_blank);
	o->from = from;
	o->to = from + n;
	o->quote = w.quote;
	last = str_text(&w.path) + w.slash_raw;
	o->typed = w.path.n - w.slash_raw;
	if (n >= 2 && s[0] == '~' && s[1] == '/' && home) {
		str_adds(&where, home);
		str_add(&where, w.path.p + 1, w.slash_raw - 1);
	} else if (w.slash_raw) {
		str_add(&where, w.path.p, w.slash_raw);
	} else {
		str_adds(&where, ".");
	}
	/* Keep the directory as typed. But if a quote opens or closes after the last slash, change the quoting of the
	 * directory so that it fits the quoting of the completed name. */
	if (w.slash_quote == w.quote) {
		str_add(&o->head, s, w.slash_typed);
		if (!w.slash_typed && w.quote)
			str_add(&o->head, &w.quote, 1);
	} else if (!w.slash_quote) {
		str_add(&o->head, s, w.slash_typed);
		str_add(&o->head, &w.quote, 1);
	} else {
		o->quote = 0;
		quote(&o->head, str_text(&w.path), w.slash_raw, 0);
	}
	dir = where.n < PATH_MOST ? opendir(where.p) : NULL;
	for (int seen = 0; dir && (e = readdir(dir)); seen++) {
		if (seen == OFFER_MOST) {
			o->cut = 1;
			break;
		}
		if (!begins(e->d_name, last, o->typed) || (*e->d_name == '.' && *last != '.') ||
		    !strcmp(e->d_name, ".") || (!strcmp(e->d_name, "..") && strcmp(last, "..")) || !is_utf8(e->d_name))
			continue;
		offers_add(o, e->d_name, strlen(e->d_name), "", is_directory(dirfd(dir), e));
	}
	if (dir)
		closedir(dir);
	if (o->n)
		qsort(o->list, o->n, sizeof *o->list, by_name);
	str_free(&where);
	word_free(&w);
}

/* If a word "@path" ends at byte `at`, return the offset of the path; else return SIZE_MAX. */
static size_t at_word(const char *text, size_t at)
{
	for (size_t i = at, steps = 0; i > 0 && text[i - 1] != '\n' && steps < PATH_MOST; i--, steps++) {
		struct word w;
		int blank;

		if (text[i - 1] != '@' || (i > 1 && !is_input_blank(text[i - 2])))
			continue;
		word_read(&w, text + i, at - i, 1);
		blank = w.blank;
		word_free(&w);
		return blank ? SIZE_MAX : i;
	}
	return SIZE_MAX;
}

/* Offer paths for a command's argument. First take the whole argument for the path, which may contain blanks. If no
 * path matches, take the last word of the argument. */
static void find_file(struct offers *o, const char *text, size_t arg, size_t at)
{
	size_t word = arg;
	char q = 0;

	find_paths(o, text + arg, at - arg, arg, 0);
	if (o->n)
		return;
	for (size_t i = arg; i < at; i++) {
		if (q ? text[i] == q : text[i] == '"' || text[i] == '\'')
			q = q ? 0 : text[i];
		else if (text[i] == '\\' && q != '\'')
			i++;
		else if (!q && is_input_blank(text[i]))
			word = i + 1;
	}
	if (word == arg || word > at)
		return;
	offers_close(o);
	o->kind = OFFER_PATHS;
	find_paths(o, text + word, at - word, word, 1);
}

/* ---- the list ---- */

enum offer_kind offers_find(struct offers *o, const char *text, size_t n, size_t at, const struct ui_command *commands,
                            const struct ui_setting *settings, char *const *names, size_t n_names)
{
	const struct ui_command *c;
	size_t name = 0, arg;

	offers_close(o);
	o->to = at;
	while (name < n && !is_input_blank(text[name]))
		name++;
	if (commands && text[0] == '/' && at && at <= name && !(n > 1 && text[1] == '/')) {
		o->kind = OFFER_COMMANDS;
		o->to = name;
		find_commands(o, text, at, commands);
		return o->kind;
	}
	arg = at_word(text, at);
	if (arg != SIZE_MAX) {
		o->kind = OFFER_PATHS;
		find_paths(o, text + arg, at - arg, arg, 1);
		return o->kind;
	}
	if (!commands || !n || text[0] != '/' || at <= name || !(c = command_of(commands, text, name)))
		return OFFER_NOTHING;
	for (arg = name; arg < at && is_input_blank(text[arg]); arg++)
		;
	o->from = arg;
	switch (c->arg) {
	case ARG_FILE:
		o->kind = OFFER_PATHS;
		find_file(o, text, arg, at);
		break;
	case ARG_SESSION:
		o->kind = OFFER_NAMES;
		find_names(o, names, n_names, text + arg, at - arg);
		break;
	case ARG_SETTING:
		o->kind = OFFER_WORDS;
		find_settings(o, settings, text, arg, at);
		break;
	case ARG_WORD:
		o->kind = OFFER_WORDS;
		find_words(o, c->args, text + arg, at - arg);
		break;
	default: break;
	}
	return o->kind;
}

static void append_offer(const struct offers *o, const char *name, size_t n, struct str *out)
{
	str_add(out, str_text(&o->head), o->head.n);
	if (o->kind != OFFER_PATHS) {
		str_add(out, name, n);
		return;
	}
	if (!o->head.n && *name == '~' && n)
		/* the name of the file begins with "~", so it must not be taken for the home directory */
		str_adds(out, "\\");
	quote(out, name, n, o->quote);
}

void offers_text(const struct offers *o, size_t which, struct str *out)
{
	const struct offer *x = &o->list[which];

	append_offer(o, x->name, strlen(x->name), out);
	if (o->kind == OFFER_PATHS) {
		if (x->more)
			str_adds(out, "/");
		else if (o->quote)
			str_add(out, &o->quote, 1);
	}
	if (o->kind == OFFER_PATHS ? !x->more : x->more)
		str_adds(out, " ");
}

int offers_common(const struct offers *o, struct str *out)
{
	size_t n, among = o->n_begun ? o->n_begun : o->n;

	if (!o->n)
		return 0;
	n = strlen(o->list[0].name);
	for (size_t i = 1; i < among; i++) {
		const char *a = o->list[0].name, *b = o->list[i].name;
		size_t same = 0;
		while (same < n && a[same] == b[same])
			same++;
		n = same;
	}
	n = utf8_complete(o->list[0].name, n);
	if (n <= o->typed)
		return 0;
	append_offer(o, o->list[0].name, n, out);
	return 1;
}

/* Draw the popup over the end of the transcript, with a bar at its left to separate the two. Only the chosen row is
 * reversed, because a reversed popup would look like the status row. */
void offers_draw(const struct offers *o, const struct area *a, int ascii)
{
	long rows = (long)(MIN(o->n, OFFER_ROWS)), top = 0;
	int names = 0, w = a->w - 2, counted;
	struct str count = { 0 }; /* text such as " 3 of 40", if not all offers are visible */

	if (rows > a->h)
		rows = a->h;
	if (rows < 1 || w < 1)
		return;
	if ((size_t)rows < o->n || o->cut) {
		if (o->chosen >= 0)
			str_addf(&count, " %ld of", o->chosen + 1);
		str_addf(&count, " %zu%s", o->n, o->cut ? "+" : "");
	}
	if (o->chosen >= rows)
		top = o->chosen - rows + 1;
	for (size_t i = 0; i < o->n; i++) {
		int name = (int)text_width(o->list[i].shown, strlen(o->list[i].shown));
		names = MAX(name, names);
	}
	names = MIN(names, w);
	for (long i = 0; i < rows; i++) {
		const struct offer *x = &o->list[top + i];
		int on = top + i == o->chosen, y = (int)(a->h - rows + i);
		struct area row = area_part(a, 2, y, w, 1);

		counted = count.n && i == rows - 1 && (int)count.n + names + 2 <= w ? (int)count.n : 0;
		area_fill(a, 0, y, a->w, ST_TEXT, ' ');
		area_cell(a, 0, y, ascii ? '|' : 0x2502, ST_RULE, 0);
		area_fill(&row, 0, 0, w - counted, on ? ST_SELECTED : ST_TEXT, ' ');
		put_left(&row, 0, 0, names, on ? ST_SELECTED : ST_STRONG, x->shown, strlen(x->shown), ascii);
		if (w - counted > names + 2)
			put_left(&row, names + 2, 0, w - counted - names - 2, on ? ST_SELECTED : ST_FAINT, x->help,
			         strlen(x->help), ascii);
		if (counted)
			area_text(&row, w - counted, 0, ST_FAINT, count.p, count.n);
	}
	str_free(&count);
}
