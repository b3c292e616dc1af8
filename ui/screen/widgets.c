/* ui/screen/widgets.c - building blocks of panes, without state of their own.
 *
 * All arguments may come from untrusted data: a count may be negative, a share may be NaN, and a time may be
 * extreme. */
#include "ui/screen/widgets.h"
#include "ui/text/text.h"
#include "engine/base/utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <wctype.h>

/* ---- numbers ---- */

struct num num_count(int64_t n)
{
	struct num out;
	struct count digits = count_text(n < 0 ? -(uint64_t)n : (uint64_t)n);

	snprintf(out.s, sizeof out.s, "%s%s", n < 0 ? "-" : "", digits.s);
	return out;
}

/* Leave out digits instead of rounding, because 99,999 must not become 100.0k. */
struct num num_short(int64_t n)
{
	static const struct {
		uint64_t unit;
		char letter;
	} unit[] = { { 1000000000, 'G' }, { 1000000, 'M' }, { 1000, 'k' } };
	struct num out;
	uint64_t v = n < 0 ? -(uint64_t)n : (uint64_t)n;
	const char *minus = n < 0 ? "-" : "";
	int whole, rest;
	size_t u = 0;

	if (v < 10000)
		return num_count(n);
	while (v < unit[u].unit)
		u++;
	if (v >= 1000000000000) {
		snprintf(out.s, sizeof out.s, "%s>999G", minus);
		return out;
	}
	whole = (int)(v / unit[u].unit);
	rest = (int)(v % unit[u].unit / (unit[u].unit / 100));
	if (whole < 10)
		snprintf(out.s, sizeof out.s, "%s%d.%02d%c", minus, whole, rest, unit[u].letter);
	else if (whole < 100)
		snprintf(out.s, sizeof out.s, "%s%d.%d%c", minus, whole, rest / 10, unit[u].letter);
	else
		snprintf(out.s, sizeof out.s, "%s%d%c", minus, whole, unit[u].letter);
	return out;
}

struct num num_fit(int64_t n, int cols)
{
	struct num full = num_count(n);

	return (int)strlen(full.s) <= cols ? full : num_short(n);
}

struct num num_bytes(uint64_t n)
{
	static const char *unit[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	struct num out;
	double v = (double)n;
	int u = 0;

	while (v >= 1023.5 && u < 6) {
		v /= 1024;
		u++;
	}
	snprintf(out.s, sizeof out.s, u && v < 99.95 ? "%.1f %s" : "%.0f %s", v, unit[u]);
	return out;
}

struct num num_percent(double share)
{
	struct num out;

	if (!(share >= 0) || share > 1e6)
		snprintf(out.s, sizeof out.s, "-");
	else if (share > 0 && share < 0.005)
		snprintf(out.s, sizeof out.s, "<1%%");
	else if (share < 1 && share >= 0.995)
		snprintf(out.s, sizeof out.s, "99%%"); /* a share below 1 is never shown as 100 % */
	else
		snprintf(out.s, sizeof out.s, "%.0f%%", share * 100);
	return out;
}

struct num num_age(int64_t then, int64_t now)
{
	struct num out;
	int64_t ago;
	time_t at = (time_t)then;
	struct tm day;

	if (__builtin_sub_overflow(now, then, &ago))
		ago = then < 0 ? INT64_MAX : 0;
	if (ago < 60)
		snprintf(out.s, sizeof out.s, "now");
	else if (ago < 3600)
		snprintf(out.s, sizeof out.s, "%d min ago", (int)(ago / 60));
	else if (ago < 48 * 3600)
		snprintf(out.s, sizeof out.s, "%d h ago", (int)(ago / 3600));
	else if (ago < 30 * 86400)
		snprintf(out.s, sizeof out.s, "%d days ago", (int)(ago / 86400));
	else if (then >= 0 && localtime_r(&at, &day) && day.tm_year < 8100)
		snprintf(out.s, sizeof out.s, "%04d-%02d-%02d", day.tm_year + 1900, day.tm_mon + 1, day.tm_mday);
	else
		snprintf(out.s, sizeof out.s, "long ago");
	return out;
}

struct num num_wait(double seconds)
{
	struct num out;

	if (!(seconds >= 0))
		snprintf(out.s, sizeof out.s, "?");
	else if (seconds == 0)
		snprintf(out.s, sizeof out.s, "instant");
	else if (seconds < 90)
		snprintf(out.s, sizeof out.s, "~%d s", seconds < 1 ? 1 : (int)(seconds + 0.5));
	else if (seconds < 90 * 60)
		snprintf(out.s, sizeof out.s, "~%d min", (int)(seconds / 60 + 0.5));
	else if (seconds < 999.0 * 3600)
		snprintf(out.s, sizeof out.s, "~%d h", (int)(seconds / 3600 + 0.5));
	else
		snprintf(out.s, sizeof out.s, ">999 h");
	return out;
}

/* ---- fields ---- */

int put_left(const struct area *a, int x, int y, int w, unsigned style, const char *text, size_t n, int ascii)
{
	struct area field;
	size_t keep = 0;
	int cols = 0;

	if (w <= 0)
		return x;
	if (text_width(text, n) > (size_t)w) {
		while (keep < n) {
			int32_t cp;
			size_t len = (size_t)utf8_decode(text + keep, n - keep, &cp);
			int more = char_width(cp);

			if (more < 0)
				more = 1;
			if (cols + more > w - 1)
				break;
			cols += more;
			keep += len;
		}
		n = keep;
	} else {
		cols = w;
	}
	field = area_part(a, x, y, w, 1);
	area_text(&field, 0, 0, style, text, n);
	if (cols < w)
		area_cell(a, x + cols, y, ascii ? '~' : 0x2026, style, 0);
	return x + w;
}

int put_right(const struct area *a, int x, int y, int w, unsigned style, const char *text)
{
	int len = (int)strlen(text);

	if (w <= 0)
		return x;
	if (len > w)
		put_left(a, x, y, w, style, text, (size_t)len, 1);
	else
		area_text(a, x + w - len, y, style, text, (size_t)len);
	return x + w;
}

/* ---- an edited line ---- */

void edit_free(struct edit *e)
{
	str_free(&e->text);
	e->at = 0;
}

/* Insert text at the cursor; the whole text gets at most EDIT_MOST bytes. Control characters become blanks. Returns 1
 * if anything was inserted. */
static int edit_insert(struct edit *e, const char *s, size_t n)
{
	struct str in = { 0 };
	struct str all = { 0 };

	for (size_t i = 0, len; i < n; i += len) {
		int32_t cp;
		char out[4];
		int k;

		len = (size_t)utf8_decode(s + i, n - i, &cp);
		if (cp < 0)
			cp = 0xfffd;
		else if (cp < 0x20 || cp == 0x7f)
			cp = ' ';
		k = utf8_encode(cp, out);
		if (e->text.n + in.n + (size_t)k > EDIT_MOST)
			break;
		str_add(&in, out, (size_t)k);
	}
	str_add(&all, str_text(&e->text), e->at);
	str_add(&all, str_text(&in), in.n);
	str_add(&all, str_text(&e->text) + e->at, e->text.n - e->at);
	str_free(&e->text);
	e->text = all;
	e->at += in.n;
	n = in.n;
	str_free(&in);
	return n > 0;
}

void edit_set(struct edit *e, const char *text, size_t n)
{
	str_clear(&e->text);
	e->at = 0;
	edit_insert(e, text, n);
}

/* Return the offset of the character before `at`, including its combining marks. */
static size_t step_left(const struct edit *e, size_t at)
{
	int32_t cp;

	while (at > 0) {
		at = utf8_back(e->text.p, at - 1);
		utf8_decode(e->text.p + at, e->text.n - at, &cp);
		if (char_width(cp) != 0)
			break;
	}
	return at;
}

static size_t step_right(const struct edit *e, size_t at)
{
	int32_t cp;

	for (int first = 1; at < e->text.n; first = 0) {
		size_t len = (size_t)utf8_decode(e->text.p + at, e->text.n - at, &cp);
		if (!first && char_width(cp) != 0)
			break;
		at += len;
	}
	return at;
}

static size_t word_left(const struct edit *e, size_t at)
{
	while (at > 0 && e->text.p[at - 1] == ' ')
		at--;
	while (at > 0 && e->text.p[at - 1] != ' ')
		at--;
	return at;
}

static int edit_cut(struct edit *e, size_t from, size_t to)
{
	if (from >= to)
		return 2;
	memmove(e->text.p + from, e->text.p + to, e->text.n - to + 1);
	e->text.n -= to - from;
	e->at = from;
	return 1;
}

static int edit_move(struct edit *e, size_t to)
{
	int same = to == e->at;

	e->at = to;
	return same ? 2 : 1;
}

int edit_key(struct edit *e, const struct key *k)
{
	char out[4];

	switch (k->code) {
	case K_CHAR:
		if (k->mods & KEY_CTRL) {
			switch (k->cp) {
			case 'a': return edit_move(e, 0);
			case 'e': return edit_move(e, e->text.n);
			case 'h': return edit_cut(e, step_left(e, e->at), e->at);
			case 'u': return edit_cut(e, 0, e->at);
			case 'w': return edit_cut(e, word_left(e, e->at), e->at);
			case 'k': return edit_cut(e, e->at, e->text.n);
			default: return 0;
			}
		}
		if ((k->mods & KEY_ALT) || k->cp < 0x20 || k->cp > 0x10ffff || (k->cp >= 0xd800 && k->cp < 0xe000) ||
		    k->cp == 0x7f)
			return 0;
		return edit_insert(e, out, (size_t)utf8_encode(k->cp, out)) ? 1 : 2;
	case K_PASTE: return edit_insert(e, k->bytes ? k->bytes : "", k->bytes ? k->n : 0) ? 1 : 2;
	case K_BACKSPACE: return edit_cut(e, k->mods & KEY_ALT ? word_left(e, e->at) : step_left(e, e->at), e->at);
	case K_DELETE: return edit_cut(e, e->at, step_right(e, e->at));
	case K_LEFT: return edit_move(e, step_left(e, e->at));
	case K_RIGHT: return edit_move(e, step_right(e, e->at));
	case K_HOME: return edit_move(e, 0);
	case K_END: return edit_move(e, e->text.n);
	default: return 0;
	}
}

void edit_draw(const struct edit *e, const struct area *a, int x, int y, int w, unsigned style)
{
	struct area field = area_part(a, x, y, w, 1);
	struct str left = { 0 }, right = { 0 };
	size_t from = 0, cols;
	int at;

	if (w <= 0)
		return;
	clean_line(str_text(&e->text), e->at, &left);
	clean_line(str_text(&e->text) + e->at, e->text.n - e->at, &right);
	/* if the text before the cursor is too wide, leave out its beginning */
	for (cols = text_width(str_text(&left), left.n); cols > (size_t)(w - 1) && from < left.n;) {
		int32_t cp;
		size_t len = (size_t)utf8_decode(left.p + from, left.n - from, &cp);
		int gone = char_width(cp);

		cols -= gone > 0 ? (size_t)gone : 0;
		from += len;
	}
	area_fill(&field, 0, 0, w, style, ' ');
	at = area_text(&field, 0, 0, style, str_text(&left) + from, left.n - from);
	area_text(&field, at, 0, style, str_text(&right), right.n);
	area_cursor(&field, at < w ? at : w - 1, 0);
	str_free(&left);
	str_free(&right);
}

/* ---- a list ---- */

void list_move(struct list *l, long step)
{
	if (step < 0)
		l->chosen = (size_t)-step > l->chosen ? 0 : l->chosen - (size_t)-step;
	else
		l->chosen += (size_t)step;
	if (l->chosen >= l->n)
		l->chosen = l->n ? l->n - 1 : 0;
}

void list_show(struct list *l, int rows)
{
	size_t most = rows > 0 ? (size_t)rows : 1;

	list_move(l, 0);
	if (l->top > l->chosen)
		l->top = l->chosen;
	if (l->chosen - l->top >= most)
		l->top = l->chosen - most + 1;
	if (l->top + most > l->n)
		l->top = l->n > most ? l->n - most : 0;
}

int list_key(struct list *l, const struct key *k, int rows)
{
	long page = rows > 1 ? rows - 1 : 1;

	switch (k->code) {
	case K_UP: list_move(l, -1); return 1;
	case K_DOWN: list_move(l, 1); return 1;
	case K_PAGE_UP: list_move(l, -page); return 1;
	case K_PAGE_DOWN: list_move(l, page); return 1;
	case K_HOME: l->chosen = 0; return 1;
	case K_END: l->chosen = l->n ? l->n - 1 : 0; return 1;
	default: return 0;
	}
}

/* ---- search ---- */

int32_t fold_case(int32_t cp)
{
	if (cp < 0x80)
		return cp >= 'A' && cp <= 'Z' ? cp + 32 : cp;
	return (int32_t)towlower((wint_t)cp);
}

int has_capitals(const char *s, size_t n)
{
	for (size_t i = 0, len; i < n; i += len) {
		int32_t cp;
		len = (size_t)utf8_decode(s + i, n - i, &cp);
		if (cp >= 0 && fold_case(cp) != cp)
			return 1;
	}
	return 0;
}

/* 1 if c is a space or a newline. */
static int is_space_or_newline(char c)
{
	return c == ' ' || c == '\n';
}

/* Return the length of the match at the start of s[n]; 0 = there is no match. */
static size_t match_words(const char *s, size_t n, const char *words, size_t n_words, int fold)
{
	size_t i = 0;

	for (size_t j = 0; j < n_words;) {
		int32_t want, have;

		if (is_space_or_newline(words[j])) {
			while (j < n_words && is_space_or_newline(words[j]))
				j++;
			if (i >= n || !is_space_or_newline(s[i]))
				return 0;
			while (i < n && is_space_or_newline(s[i]))
				i++;
			continue;
		}
		if (i >= n)
			return 0;
		j += (size_t)utf8_decode(words + j, n_words - j, &want);
		i += (size_t)utf8_decode(s + i, n - i, &have);
		if (have != want && !(fold && have >= 0 && fold_case(have) == want))
			return 0;
	}
	return i;
}

size_t words_find(const char *s, size_t n, size_t from, const char *words, size_t n_words, int fold, size_t *len)
{
	unsigned char may_begin[256] = { 0 };
	int32_t first;

	while (n_words && is_space_or_newline(words[0])) {
		words++;
		n_words--;
	}
	while (n_words && is_space_or_newline(words[n_words - 1]))
		n_words--;
	if (!n_words)
		return SIZE_MAX;
	/* may_begin[b] is 1 if a match can begin with byte b. If case is ignored (`fold`), a match can begin with any
	 * non-ASCII character. */
	utf8_decode(words, n_words, &first);
	may_begin[(unsigned char)words[0]] = 1;
	if (fold)
		for (int c = 0; c < 256; c++)
			if (c >= 0xc0 || fold_case(MIN(c, 0x80)) == first)
				may_begin[c] = 1;
	for (size_t i = from; i < n; i++) {
		if (!may_begin[(unsigned char)s[i]])
			continue;
		if ((*len = match_words(s + i, n - i, words, n_words, fold)) > 0)
			return i;
	}
	return SIZE_MAX;
}
