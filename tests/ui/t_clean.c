/* tests/ui/t_clean.c - ui/text/clean.c: whatever goes in, only printable text and line ends come out.
 *
 * Three checks: allowed() has its own list of the forbidden ranges; slow_clean() is a second implementation without
 * shared code, which sees the whole text at once; and the cleaner must give the same result for any cuts of the input
 * and when it is run twice. WEIR_CLEAN_STRINGS scales the random part. */
#include "tests/lib/test.h"
#include "ui/text/chars.h"
#include "ui/text/text.h"
#include "ui/ui.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <wchar.h>

/* ---- the judges ---- */

static void once(unsigned flags, const char *in, size_t n, struct str *out)
{
	struct clean c;

	str_clear(out);
	clean_init(&c, flags);
	clean_text(&c, in, n, out);
	clean_end(&c, out);
}

static int same(const struct str *a, const struct str *b)
{
	return a->n == b->n && (!a->n || !memcmp(a->p, b->p, a->n));
}

static const char *dump(const char *s, size_t n)
{
	static char buf[4][400];
	static int turn;
	char *p = buf[turn++ & 3];
	size_t used = 0;

	p[0] = 0;
	for (size_t i = 0; i < n && used + 8 < sizeof buf[0]; i++) {
		unsigned char c = (unsigned char)s[i];
		if (c >= 0x20 && c < 0x7f && c != '\\')
			p[used++] = (char)c, p[used] = 0;
		else
			used += (size_t)snprintf(p + used, sizeof buf[0] - used, "\\x%02x", c);
	}
	return p;
}

static int in_ranges(int32_t cp, const int32_t (*r)[2], size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (cp >= r[i][0] && cp <= r[i][1])
			return 1;
	return 0;
}

/* Returns 1 if this code point may be in clean text. */
static int allowed(int32_t cp)
{
	/* clang-format off */
	static const int32_t bad[][2] = {
		{ 0, 9 }, { 11, 0x1f }, { 0x7f, 0x9f }, { 0xad, 0xad }, { 0x34f, 0x34f }, { 0x61c, 0x61c }, { 0x115f, 0x1160 },
		{ 0x17b4, 0x17b5 }, { 0x180e, 0x180e }, { 0x200b, 0x200b }, { 0x200e, 0x200f }, { 0x2028, 0x202e },
		{ 0x2060, 0x206f }, { 0x3164, 0x3164 }, { 0xd800, 0xf8ff }, { 0xfdd0, 0xfdef }, { 0xfe00, 0xfe0e },
		{ 0xfeff, 0xfeff }, { 0xffa0, 0xffa0 }, { 0xfff0, 0xfffb }, { 0x1bca0, 0x1bca3 }, { 0x1d173, 0x1d17a },
		{ 0xe0000, 0x10ffff },
	};
	/* clang-format on */
	return cp >= 0 && (cp & 0xfffe) != 0xfffe && !in_ranges(cp, bad, LEN(bad));
}

/* 1 if the character is in a block of a script that joins letters: a joiner may stand beside such a character. */
static int joins(int32_t cp)
{
	static const int32_t blocks[][2] = {
		{ 0x300, 0x36f },     { 0x600, 0x8ff },     { 0x900, 0xdff },     { 0xf00, 0x109f },
		{ 0x1780, 0x18af },   { 0x1900, 0x194f },   { 0x1a20, 0x1cff },   { 0x1dc0, 0x1dff },
		{ 0x20d0, 0x20f0 },   { 0xa840, 0xa8ff },   { 0xa960, 0xaaff },   { 0xabc0, 0xabff },
		{ 0xfb50, 0xfdff },   { 0xfe20, 0xfe2f },   { 0xfe70, 0xfefe },   { 0x10a00, 0x10fff },
		{ 0x11000, 0x11fff }, { 0x1e900, 0x1e95f }, { 0x1ee00, 0x1eeff },
	};
	return in_ranges(cp, blocks, LEN(blocks));
}

static int is_emoji(int32_t cp)
{
	return cp == 0xa9 || cp == 0xae || cp == 0xfe0f || (cp >= 0x203c && cp <= 0x3299) ||
	       (cp >= 0x1f000 && cp <= 0x1faff);
}

/* Return NULL if s[0 .. n) is clean text, else what is wrong with it. */
static const char *fault(const char *s, size_t n, unsigned flags)
{
	int32_t cp, before = '\n', base = '\n', next;
	size_t line = 0, zero = 0;
	int joined;

	for (size_t i = 0; i < n;) {
		size_t len = (size_t)utf8_decode(s + i, n - i, &cp), at = i;
		i += len;
		if (cp < 0)
			return "not UTF-8";
		if (!allowed(cp))
			return "forbidden code point";
		if (cp == '\n') {
			if (flags & CLEAN_LINE)
				return "newline in a line";
			line = zero = 0;
			before = base = cp;
			continue;
		}
		if ((line += len) > CLEAN_LINE_MAX)
			return "line too long";
		if (char_width(cp) < 0)
			return "code point without a width";
		next = -1;
		if (i < n)
			utf8_decode(s + i, n - i, &next);
		joined = joins(base) && (joins(next) || char_width(next) == 0);
		if (cp == 0x200c && !joined)
			return "U+200C out of place";
		if (cp == 0x200d && !joined && !(is_emoji(before) && is_emoji(next)))
			return "U+200D out of place";
		if (cp == 0xfe0f && !is_emoji(before) &&
		    !(at && next == 0x20e3 && before < 0x7f && strchr("0123456789#*", (int)before)))
			return "U+FE0F out of place";
		zero = char_width(cp) ? 0 : zero + 1;
		if (before == '\n' && zero)
			return "mark at a line start";
		/* at most four marks, each with a joiner before it, and one selector */
		if (zero > 9)
			return "too many marks";
		before = cp;
		if (char_width(cp))
			base = cp;
	}
	return NULL;
}

/* ---- a slow second implementation ---- */

struct cps {
	int32_t *p;
	size_t n, cap;
};

static void cps_add(struct cps *a, int32_t cp)
{
	if (a->n == a->cap)
		a->p = xrealloc(a->p, (a->cap = a->cap ? 2 * a->cap : 64) * sizeof *a->p);
	a->p[a->n++] = cp;
}

/* Decode UTF-8. A bad part is as long as possible: the longest prefix of any valid character, else one byte. */
static void slow_decode(const unsigned char *s, size_t n, struct cps *out)
{
	for (size_t i = 0; i < n;) {
		unsigned char b = s[i];
		size_t want = b < 0x80                ? 1
		              : b >= 0xc2 && b < 0xe0 ? 2
		              : b >= 0xe0 && b < 0xf0 ? 3
		              : b >= 0xf0 && b < 0xf5 ? 4
		                                      : 0;
		int32_t cp = want == 1 ? b : want == 2 ? b & 31 : want == 3 ? b & 15 : b & 7;
		size_t k = 1;
		if (!want) {
			cps_add(out, -1);
			i++;
			continue;
		}
		while (k < want && i + k < n && (s[i + k] & 0xc0) == 0x80) {
			/* the smallest and the greatest character that begins with these bytes */
			int32_t c2 = cp << 6 | (s[i + k] & 63);
			int shift = 6 * (int)(want - k - 1);
			int32_t lo = c2 << shift, hi = lo | ((1 << shift) - 1);
			int32_t least = want == 2 ? 0x80 : want == 3 ? 0x800 : 0x10000;
			if (hi < least || lo > 0x10ffff || (lo >= 0xd800 && hi <= 0xdfff))
				break;
			cp = c2;
			k++;
		}
		cps_add(out, k == want ? cp : -1);
		i += k;
	}
}

struct slow {
	struct str *out;
	unsigned flags;
	size_t line, col;
	int marks, cut;
	int kind; /* kind of the last base character */
};
enum { K_START, K_TEXT, K_KEY, K_JOIN, K_EMOJI, K_EMOJI16 };

static int slow_room(struct slow *w, size_t len)
{
	return w->line + len + 64 <= 65536;
}

static void slow_put(struct slow *w, const char *s, size_t len, size_t width, int kind)
{
	if (w->cut)
		return;
	if (!slow_room(w, len)) {
		if (w->flags & CLEAN_LINE) {
			str_adds(w->out, "\xe2\x80\xa6");
			w->cut = 1;
			return;
		}
		str_adds(w->out, "\n");
		w->line = w->col = 0;
	}
	str_add(w->out, s, len);
	w->line += len;
	w->col += width;
	w->marks = 0;
	w->kind = kind;
}

static void slow_raw(struct slow *w, int32_t cp)
{
	char s[4];
	int len = utf8_encode(cp, s);
	str_add(w->out, s, (size_t)len);
	w->line += (size_t)len;
}

static void slow_name(struct slow *w, int32_t cp)
{
	char s[16];
	int len = snprintf(s, sizeof s, cp < 256 ? "<%02X>" : "<U+%04X>", (unsigned)cp);
	slow_put(w, s, (size_t)len, (size_t)len, K_TEXT);
}

/* Return 1 if cp, the character after a joiner, is dropped. w: the state after the text before the joiner. */
static int slow_dropped(const struct slow *w, int32_t cp)
{
	enum char_class k = cp < 0 ? CH_NONE : char_class(cp);
	return k == CH_HIDDEN || k == CH_JOINER || k == CH_VS16 ||
	       (k == CH_SELECTOR && (w->kind != K_JOIN || w->marks >= 4)) ||
	       (k == CH_MARK && w->marks >= 4 && w->kind == K_JOIN);
}

static void slow_clean(unsigned flags, const char *in, size_t n, struct str *out)
{
	struct cps t = { 0 };
	struct slow w = { .out = out, .flags = flags };
	size_t joiner_for = SIZE_MAX; /* a joiner was already written for the character at this index */

	slow_decode((const unsigned char *)in, n, &t);
	for (size_t i = 0; i < t.n; i++) {
		int32_t cp = t.p[i], next;
		enum char_class k = cp < 0 ? CH_NONE : char_class(cp);
		char s[4];
		size_t len = cp < 0 ? 0 : (size_t)utf8_encode(cp, s), j;
		int kind;

		if (cp == '\n' && i && t.p[i - 1] == '\r' && !(flags & CLEAN_LINE))
			continue;
		switch (k) {
		case CH_PLAIN:
		case CH_WIDE:
		case CH_EMOJI:
		case CH_EMOJI_WIDE:
		case CH_JOINING:
			kind = k == CH_JOINING                                ? K_JOIN
			       : k == CH_EMOJI || k == CH_EMOJI_WIDE          ? K_EMOJI
			       : cp < 0x7f && strchr("#*0123456789", (int)cp) ? K_KEY
			                                                      : K_TEXT;
			slow_put(&w, s, len, k == CH_WIDE || k == CH_EMOJI_WIDE ? 2 : 1, kind);
			break;
		case CH_SELECTOR:
			if (w.kind != K_JOIN)
				break;
			/* fall through */
		case CH_MARK:
			if (w.cut)
				break;
			if (w.kind == K_START || (w.line == 0 && !(flags & CLEAN_LINE)))
				slow_put(&w, "\xe2\x97\x8c", 3, 1, K_TEXT);
			if (w.marks >= 4)
				break;
			slow_raw(&w, cp);
			w.marks++;
			if (w.kind != K_JOIN)
				w.kind = K_TEXT;
			break;
		case CH_JOINER:
		case CH_VS16:
			if (w.cut)
				break;
			if (k == CH_VS16 && w.kind == K_EMOJI && (joiner_for == SIZE_MAX || joiner_for <= i)) {
				slow_raw(&w, cp);
				w.kind = K_EMOJI16;
				break;
			}
			if (joiner_for != SIZE_MAX && joiner_for > i)
				break;
			if (k == CH_VS16 ? w.kind == K_KEY : w.kind == K_JOIN || (cp == 0x200d && w.kind >= K_EMOJI))
				/* this joiner is held back, so further joiners are treated as invisible even if nothing
				 * is joined */
				joiner_for = t.n;
			else
				break;
			/* find the next character that is not dropped */
			for (j = i + 1; j < t.n && slow_dropped(&w, t.p[j]); j++)
				;
			if (j == t.n || t.p[j] < 0)
				break;
			next = t.p[j];
			len = (size_t)utf8_encode(next, s);
			k = char_class(next);
			if (cp == 0xfe0f ? w.kind == K_KEY && next == 0x20e3
			                 : (w.kind == K_JOIN && (k == CH_MARK || k == CH_SELECTOR ||
			                                         (k == CH_JOINING && slow_room(&w, len + 3)))) ||
			                           (cp == 0x200d && (w.kind == K_EMOJI || w.kind == K_EMOJI16) &&
			                            (k == CH_EMOJI || k == CH_EMOJI_WIDE) && slow_room(&w, len + 3))) {
				slow_raw(&w, cp);
			}
			joiner_for = j;
			break;
		case CH_BIDI:
		case CH_UNASSIGNED: slow_name(&w, cp); break;
		case CH_BREAK:
		case CH_CONTROL:
			if (!(flags & CLEAN_LINE) && (k == CH_BREAK || cp == '\n' || cp == '\r')) {
				str_adds(out, "\n");
				w.line = w.col = 0;
				w.kind = K_START;
			} else if (!(flags & CLEAN_LINE) && cp == '\t') {
				for (size_t spaces = 8 - w.col % 8; spaces; spaces--)
					slow_put(&w, " ", 1, 1, K_TEXT);
			} else if (cp < 0x80) {
				char caret[2] = { '^', (char)(cp ^ 64) };
				slow_put(&w, caret, 2, 2, K_TEXT);
			} else {
				slow_name(&w, cp);
			}
			break;
		case CH_HIDDEN: break;
		case CH_PRIVATE:
		case CH_NONE: slow_put(&w, "\xef\xbf\xbd", 3, 1, K_TEXT); break;
		}
	}
	free(t.p);
}

/* Check all properties for one input. cuts: how many times it is cut at random; -1 = cut in two at every byte. */
static int check_input(const char *in, size_t n, unsigned flags, int cuts)
{
	static struct str a, b;
	const char *why;
	int ok = 1;

	once(flags, in, n, &a);
	why = fault(a.p, a.n, flags);
	if (why) {
		test_fail(__FILE__, __LINE__, "%s: %s -> %s", why, dump(in, n), dump(a.p, a.n));
		return 0;
	}
	once(flags, a.p, a.n, &b);
	if (!same(&a, &b)) {
		test_fail(__FILE__, __LINE__, "not idempotent: %s -> %s -> %s", dump(in, n), dump(a.p, a.n),
		          dump(b.p, b.n));
		ok = 0;
	}
	str_clear(&b);
	if (!(flags & CLEAN_SHOW))
		slow_clean(flags, in, n, &b);
	else
		once(flags, in, n, &b);
	if (!same(&a, &b)) {
		test_fail(__FILE__, __LINE__, "%s -> %s, the slow way %s", dump(in, n), dump(a.p, a.n), dump(b.p, b.n));
		ok = 0;
	}
	for (int k = 0; cuts < 0 ? (size_t)k <= n + 1 : k < cuts; k++) {
		struct clean c;
		str_clear(&b);
		clean_init(&c, flags);
		for (size_t i = 0; i < n;) {
			size_t len = cuts < 0 ? ((size_t)k > n   ? 1
			                         : i < (size_t)k ? (size_t)k - i
			                                         : n - i)
			                      : 1 + test_rand() % 7;
			if (len > n - i)
				len = n - i;
			clean_text(&c, in + i, len, &b);
			i += len;
		}
		clean_end(&c, &b);
		if (!same(&a, &b)) {
			test_fail(__FILE__, __LINE__, "cut %d: %s -> %s, uncut %s", k, dump(in, n), dump(b.p, b.n),
			          dump(a.p, a.n));
			ok = 0;
			break;
		}
	}
	return ok;
}

static void expect(const char *in, size_t n, unsigned flags, const char *want)
{
	struct str got = { 0 };

	check_input(in, n, flags, -1);
	once(flags, in, n, &got);
	CHECK_MSG(got.n == strlen(want) && (!got.n || !memcmp(got.p, want, got.n)), "%s -> %s, expected %s",
	          dump(in, n), dump(got.p, got.n), dump(want, strlen(want)));
	str_free(&got);
}
#define EXPECT(in, want)      expect(in, sizeof in - 1, 0, want)
#define EXPECT_LINE(in, want) expect(in, sizeof in - 1, CLEAN_LINE, want)

#define FFFD                  "\xef\xbf\xbd"

/* ---- the decided table, row by row ---- */

TEST(table)
{
	EXPECT("plain text, nothing else\n", "plain text, nothing else\n");
	EXPECT("a\r\nb\rc\n\rd\r\r\ne", "a\nb\nc\n\nd\n\ne");
	EXPECT("\t|a\t|1234567\t|12345678\t|", "        |a      |1234567        |12345678       |");
	EXPECT("\xe6\xbc\xa2\t|", "\xe6\xbc\xa2      |"); /* a wide character takes two columns */
	EXPECT("e\xcc\x81\t|", "e\xcc\x81       |");
	EXPECT("a\0b\x01\x1b[31m\x7f", "a^@b^A^[[31m^?");
	EXPECT("\xc2\x9b"
	       "31m\xc2\x85x\xe2\x80\xa8y\xe2\x80\xa9z",
	       "<9B>31m\nx\ny\nz");
	EXPECT("\x9b"
	       "31m",
	       FFFD "31m");
	EXPECT("\xe2\x80\xae"
	       "evil\xe2\x81\xa6\xd8\x9c",
	       "<U+202E>evil<U+2066><U+061C>");
	EXPECT("a\xe2\x80\x8b"
	       "b\xef\xbb\xbf\xc2\xad\xf3\xa0\x81\x81"
	       "c",
	       "abc");
	EXPECT("\xee\x80\x80\xf3\xb0\x80\x80\xf4\x80\x80\x80", FFFD FFFD FFFD);
	EXPECT("\xef\xbf\xbe\xef\xb7\x90\xf4\x8f\xbf\xbf", FFFD FFFD FFFD);
	EXPECT("\xcd\xb8", "<U+0378>");
	EXPECT("\xc0\x9b\xe0\x80\x9b\xed\xa0\x80\xf4\x90\x80\x80\xf8",
	       FFFD FFFD FFFD FFFD FFFD FFFD FFFD FFFD FFFD FFFD FFFD FFFD FFFD);
	EXPECT("\xe2\x82", FFFD);
	EXPECT("\xe2\x82(\xf0\x9f\x92\xa9", FFFD "(\xf0\x9f\x92\xa9");
	EXPECT("", "");
	/* marks */
	EXPECT("a\xcc\x81\xcc\x81\xcc\x81\xcc\x81\xcc\x81\xcc\x81z", "a\xcc\x81\xcc\x81\xcc\x81\xcc\x81z");
	EXPECT("\xcc\x81x", "\xe2\x97\x8c\xcc\x81x");
	EXPECT("x\n\xcc\x81", "x\n\xe2\x97\x8c\xcc\x81");
	/* vowels of decomposed Hangul have no width either */
	EXPECT("\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8", "\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8");
}

TEST(joiners)
{
	/* emoji: family, pirate flag, rainbow flag, skin tone */
	EXPECT("\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x91\xa7", "\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x91\xa7");
	EXPECT("\xf0\x9f\x8f\xb3\xef\xb8\x8f\xe2\x80\x8d\xf0\x9f\x8c\x88",
	       "\xf0\x9f\x8f\xb3\xef\xb8\x8f\xe2\x80\x8d\xf0\x9f\x8c\x88");
	EXPECT("\xf0\x9f\x8f\xb4\xe2\x80\x8d\xe2\x98\xa0\xef\xb8\x8f",
	       "\xf0\x9f\x8f\xb4\xe2\x80\x8d\xe2\x98\xa0\xef\xb8\x8f");
	EXPECT("\xf0\x9f\x91\x8d\xf0\x9f\x8f\xbd", "\xf0\x9f\x91\x8d\xf0\x9f\x8f\xbd");
	EXPECT("1\xef\xb8\x8f\xe2\x83\xa3 #\xe2\x83\xa3", "1\xef\xb8\x8f\xe2\x83\xa3 #\xe2\x83\xa3");
	EXPECT("\xe2\x9d\xa4\xef\xb8\x8f", "\xe2\x9d\xa4\xef\xb8\x8f");
	/* Persian, Devanagari, Bengali */
	EXPECT("\xd9\x85\xdb\x8c\xe2\x80\x8c\xd8\xb1\xd9\x88\xd9\x85",
	       "\xd9\x85\xdb\x8c\xe2\x80\x8c\xd8\xb1\xd9\x88\xd9\x85");
	EXPECT("\xe0\xa4\x95\xe0\xa5\x8d\xe2\x80\x8d\xe0\xa4\xb7", "\xe0\xa4\x95\xe0\xa5\x8d\xe2\x80\x8d\xe0\xa4\xb7");
	EXPECT("\xe0\xa6\xb0\xe2\x80\x8d\xe0\xa7\x8d\xe0\xa6\xaf", "\xe0\xa6\xb0\xe2\x80\x8d\xe0\xa7\x8d\xe0\xa6\xaf");
	/* joiners and selectors in wrong places */
	EXPECT("a\xe2\x80\x8d"
	       "b\xe2\x80\x8c"
	       "c\xef\xb8\x8f"
	       "d1\xef\xb8\x8f"
	       "2",
	       "abcd12");
	EXPECT("\xf0\x9f\x91\xa9\xe2\x80\x8d"
	       "a",
	       "\xf0\x9f\x91\xa9"
	       "a");
	EXPECT("\xf0\x9f\x91\xa9\xe2\x80\x8d", "\xf0\x9f\x91\xa9");
	EXPECT("\xf0\x9f\x91\xa9\xe2\x80\x8d\xe2\x80\x8d\xe2\x80\x8b\xf0\x9f\x91\xa7",
	       "\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x91\xa7");
	EXPECT("\xd9\x85\xe2\x80\x8c", "\xd9\x85");
	EXPECT("\xe2\x9d\xa4\xef\xb8\x8f\xef\xb8\x8f\xef\xb8\x8e\xf3\xa0\x84\x80", "\xe2\x9d\xa4\xef\xb8\x8f");
	EXPECT("\xe1\xa0\xa0\xe1\xa0\x8b"
	       "a\xe1\xa0\x8b",
	       "\xe1\xa0\xa0\xe1\xa0\x8b"
	       "a");
}

TEST(line)
{
	struct str s = { 0 };

	EXPECT_LINE("a\nb\tc\r\n\xc2\x85\xe2\x80\xa8", "a^Jb^Ic^M^J<85><U+2028>");
	EXPECT_LINE("/home/x/evil\x1b]0;title\x07.txt", "/home/x/evil^[]0;title^G.txt");
	clean_line("a\nb", 3, &s);
	CHECK_STR(s.p, "a^Jb");
	str_free(&s);
}

TEST(counters)
{
	static const char in[] = "a\x1b[0m\xe2\x80\xae\xe2\x80\x8b\xe2\x80\x8b\xff"
				 "e\xcc\x81\xcc\x81\xcc\x81\xcc\x81\xcc\x81";
	static const char fine[] = "\xd9\x85\xdb\x8c\xe2\x80\x8c\xd8\xb1 1\xef\xb8\x8f\xe2\x83\xa3\r\n\t\n";
	struct clean c;
	struct str out = { 0 }, note = { 0 };

	clean_init(&c, 0);
	CHECK_INT(clean_describe(&c.found, &note), 0);
	CHECK_INT(note.n, 0);
	clean_text(&c, in, sizeof in - 1, &out);
	clean_end(&c, &out);
	CHECK_INT(c.found.controls, 1);
	CHECK_INT(c.found.bidi, 1);
	CHECK_INT(c.found.hidden, 2);
	CHECK_INT(c.found.invalid, 1);
	CHECK_INT(c.found.marks, 1);
	CHECK_INT(clean_describe(&c.found, &note), 6);
	CHECK_STR(note.p, "2 hidden characters, 1 direction control, 1 control character, 1 invalid character, "
	                  "1 surplus combining mark");
	/* ordinary text in many scripts gives no warning */
	clean_init(&c, 0);
	clean_text(&c, fine, sizeof fine - 1, &out);
	clean_end(&c, &out);
	str_clear(&note);
	CHECK_INT(clean_describe(&c.found, &note), 0);
	/* with CLEAN_SHOW characters are shown instead of dropped */
	once(CLEAN_SHOW,
	     "a\xe2\x80\x8b"
	     "b\xf0\x9f\x91\xa9\xe2\x80\x8d"
	     "c\xe2\x80\x8d\xf3\xa0\x81\x81",
	     20, &out);
	CHECK_STR(out.p, "a<U+200B>b\xf0\x9f\x91\xa9<U+200D>c<U+200D><U+E0041>");
	str_free(&out);
	str_free(&note);
}

/* ---- every code point ---- */

TEST(all_code_points)
{
	struct str out = { 0 };
	size_t kept = 0, counts[CH_NONE + 1] = { 0 };

	for (int32_t cp = 0; cp <= 0x10ffff; cp++) {
		char in[16], s[4];
		int len = utf8_encode(cp, s);
		if (cp >= 0xd800 && cp <= 0xdfff) {
			/* a surrogate is not a character: its encoding is three bad bytes */
			char raw[3] = { (char)(0xe0 | cp >> 12), (char)(0x80 | (cp >> 6 & 63)),
				        (char)(0x80 | (cp & 63)) };
			once(0, raw, 3, &out);
			CHECK_MSG(out.n == 9 && !memcmp(out.p, FFFD FFFD FFFD, 9), "U+%04X gives %s", (unsigned)cp,
			          dump(out.p, out.n));
			continue;
		}
		counts[char_class(cp)]++;
		memcpy(in, "a", 1);
		memcpy(in + 1, s, (size_t)len);
		memcpy(in + 1 + len, "b", 1);
		once(0, in, (size_t)len + 2, &out);
		if (fault(out.p, out.n, 0))
			test_fail(__FILE__, __LINE__, "a U+%04X b: %s", (unsigned)cp, fault(out.p, out.n, 0));
		if (out.n == (size_t)len + 2 && !memcmp(out.p, in, out.n)) {
			kept++;
			CHECK_MSG(cp == '\n' || char_width(cp) >= 0, "U+%04X is kept and has no width", (unsigned)cp);
		} else {
			CHECK_MSG(char_width(cp) <= 0, "U+%04X has a width and is not kept", (unsigned)cp);
		}
		check_input(s, (size_t)len, 0, cp < 0x3000 || cp % 17 == 0 ? -1 : 0);
		check_input(s, (size_t)len, CLEAN_LINE, 0);
	}
	test_note(
		"of 1,112,064 characters %zu pass unchanged; %zu marks, %zu hidden, %zu direction, %zu control, %zu private, "
		"%zu unassigned",
		kept, counts[CH_MARK], counts[CH_HIDDEN], counts[CH_BIDI], counts[CH_CONTROL], counts[CH_PRIVATE],
		counts[CH_UNASSIGNED]);
	str_free(&out);
}

/* Every pair and triple of characters from all classes: the contexts on which joiners and marks depend. */
TEST(neighbours)
{
	static const int32_t sample[] = {
		'a',    '1',     '*',    ' ',     '\n',    '\r',    '\t',   0x1b,   0x9b,   0x85,   0x2028,
		0xe9,   0x6f22,  0x2764, 0x1f469, 0x1f3fd, 0x1f1e6, 0xa9,   0x645,  0x64b,  0x915,  0x93e,
		0x94d,  0x1820,  0x301,  0x20e3,  0x1161,  0x200c,  0x200d, 0xfe0f, 0xfe0e, 0x180b, 0x200b,
		0xfeff, 0xe0041, 0x202e, 0xe000,  0x378,   0xfffe,  0xfffd, 0x25cc,
	};
	enum { N = LEN(sample) };

	for (size_t i = 0; i < (size_t)N * N * N; i++) {
		char in[16];
		size_t n = 0;
		n += (size_t)utf8_encode(sample[i % N], in + n);
		n += (size_t)utf8_encode(sample[i / N % N], in + n);
		n += (size_t)utf8_encode(sample[i / N / N], in + n);
		check_input(in, n, 0, 1);
		if (i % 5 == 0)
			check_input(in, n, CLEAN_LINE, -1);
	}
}

TEST(widths_against_libc)
{
	size_t both = 0, differ = 0, unknown = 0;

	if (!setlocale(LC_CTYPE, "C.UTF-8"))
		SKIP("no locale C.UTF-8");
	for (int32_t cp = 0x20; cp <= 0x10ffff; cp++) {
		int mine = char_width(cp), libc = wcwidth((wchar_t)cp);
		if (mine < 0)
			continue;
		if (libc < 0)
			unknown++;
		else if (both++, mine != libc)
			differ++;
	}
	test_note("%zu code points: %zu widths differ from libc's, which does not know %zu more", both, differ,
	          unknown);
	CHECK(both > 100000 && differ < both / 200);
}

/* ---- attacks ---- */

static size_t attacks;

static void attack(const char *s, size_t n)
{
	static struct str padded;

	attacks++;
	check_input(s, n, 0, -1);
	check_input(s, n, CLEAN_LINE, -1);
	check_input(s, n, CLEAN_SHOW, -1);
	/* the same string in the middle of good text */
	str_clear(&padded);
	str_adds(&padded, "before ");
	str_add(&padded, s, n);
	str_adds(&padded, " after\n");
	check_input(padded.p, padded.n, 0, -1);
}

static void attackf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void attackf(const char *fmt, ...)
{
	char buf[512];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(buf, sizeof buf, fmt, ap);
	va_end(ap);
	attack(buf, (size_t)n);
}

TEST(attack_strings)
{
	static const char *const csi[] = { "\x1b[",        "\xc2\x9b",         "\x9b", "\xc0\x9b", "\x1b\x1b[",
		                           "\xe0\x82\x9b", "\x1b\xe2\x80\x8b[" };
	static const char *const osc[] = { "\x1b]", "\xc2\x9d", "\x9d" };
	static const char *const end[] = { "\x07", "\x1b\\", "\xc2\x9c", "\x9c", "" };
	/* clang-format off */
	static const char *const fixed[] = {
		"\x1bPq#0;2;0;0;0~-\x1b\\", "\x1bP+q544e\x1b\\", "\x1bP$qm\x1b\\", "\x1b_Gf=24;AAAA\x1b\\", "\x1b^pm\x1b\\", "\x1bXsos\x1b\\",
		"\x1b#8", "\x1b(0lqqk\x1b(B", "\x1b%G", "\x1b%@", "\x1b" "c", "\x1b[!p", "\x1b[?1049h", "\x1b[?2004l", "\x1b[?1000h", "\x1b[6n",
		"\x1b[c", "\x1b[>c", "\x1b[21t", "\x1b[20t", "\x1b[2;5$y", "\x1b]50;?\x07", "\x1b[201~rm -rf\r", "\x1b[200~x", "\x1bZ", "\x05",
		"\x0e\x0f", "\x08\x08\x08", "good\revil", "good\x08\x08\x08\x08" "evil", "safe\x1b[2K\rhurt", "a\x0b" "b\x0c" "c", "\x00", "\x7f\x7f",
		"user\xe2\x80\xae" "txt.exe", "\xe2\x81\xa6// \xe2\x81\xa9 if", "\xe2\x80\xaa\xe2\x80\xab\xe2\x80\xac\xe2\x80\xad",
		"if (admin\xe2\x80\x8b)", "pass\xc2\xadword", "\xef\xbb\xbfhidden", "\xe3\x85\xa4", "\xef\xbe\xa0", "\xe1\x85\x9f\xe1\x85\xa0",
		"\xf3\xa0\x81\x89\xf3\xa0\x81\xa7\xf3\xa0\x81\xae", "\xf0\x9f\x98\x80\xf3\xa0\x84\x80\xf3\xa0\x84\x91", "\xef\xb8\x80\xef\xb8\x81",
		"Z\xcc\xb5\xcc\xb6\xcd\x9c\xcd\x9d\xcd\x9e\xcd\x9f\xcd\xa0\xcd\xa1\xcc\x80\xcc\x81", "\xcc\x81\xcc\x81\xcc\x81", "\n\xcc\x81\n\xe2\x83\x9d",
		"\xe2\x80\xa8\xe2\x80\xa9\xc2\x85", "\xef\xbf\xb9" "a\xef\xbf\xba" "b\xef\xbf\xbb", "\xf0\x9d\x85\xb3\xf0\x9d\x85\xba",
		"\xe0\xb8\x81\xe0\xb9\x89\xe0\xb9\x89\xe0\xb9\x89\xe0\xb9\x89\xe0\xb9\x89\xe0\xb9\x89", "\xef\xb7\xbd", "\xf0\x92\x90\xab",
		"\x1b]8;;http://evil\x07good\x1b]8;;\x07", "\x1b]52;c;cm0gLXJmIC8=\x07", "\x1b]0;rm\x07\x1b[21t", "\x1b]1337;File=:AA\x07",
		"\x1b]9;notify\x07", "\x1b]777;notify;a;b\x07", "\x1b]4;0;?\x07", "\x1b]10;?\x07", "\x1b]133;A\x07", "\x1b[?2026h", "\x1b[5i", "\x1b[4i",
		"\x1b[1;1Hfake$ ", "\x1b[3J", "\x1b[8m secret \x1b[0m", "\xc2\x90q\xc2\x9c", "\xc2\x9e" "apc\xc2\x9c", "\xc2\x9fpm\xc2\x9c", "\x90q\x9c",
		"\xe2\x80\x8e\xe2\x80\x8f", "\xd8\x9c" "1-2", "\xef\xbf\xbf\xef\xbf\xbe", "\xed\xa0\x80\xed\xb0\x80", "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80",
		"\xfc\x84\x80\x80\x80\x80", "\xfe\xff", "\xf0\x9f", "\xf0\x9f\x98", "\xe2", "\xc2", "\xc2\x1b[0m", "\xe2\x80\x1b[0m", "\xf0\x9f\x98\x1b]0;x\x07",
		"\xc1\x9b\x30m", "\xe0\x80\x9b", "\xf0\x80\x80\x9b", "\xf8\x80\x80\x80\x9b", "\xc0\x80", "\xc0\x8a", "\xe0\x81\x9b[0m",
	};
	/* clang-format on */

	attacks = 0;
	for (size_t i = 0; i < LEN(csi); i++)
		for (int final = 0x40; final < 0x7f; final++)
			attackf("%s%s%c", csi[i], (const char *const[]){ "", "1;31", "?25", ">0;1" }[final & 3], final);
	for (int c = 0x20; c < 0x7f; c++)
		attackf("\x1b%c", c);
	for (int c = 0; c < 0x20; c++)
		attackf("x%cy\x1b%c", c, c);
	for (int c = 0x80; c < 0xa0; c++) {
		attackf("\xc2%cz", c);
		attackf("%cz", c);
	}
	for (size_t i = 0; i < LEN(osc); i++)
		for (size_t j = 0; j < LEN(end); j++)
			for (int k = 0; k < 6; k++)
				attackf("%s%s%s", osc[i],
				        (const char *const[]){ "0;owned", "2;owned", "8;;http://e/", "52;c;QUFB",
				                               "52;c;?", "1337;SetMark" }[k],
				        end[j]);
	for (size_t i = 0; i < LEN(fixed); i++)
		attack(fixed[i], strlen(fixed[i]));
	attack("a\0b\0\x1b", 5);
	test_note("%zu attack strings, each alone and inside text, cut in two at every byte", attacks);
	CHECK(attacks >= 300);
}

TEST(long_lines)
{
	/* clang-format off */
	static const struct { const char *name, *unit; } what[] = {
		{ "letters", "a" }, { "marks", "\xcc\x81" }, { "emoji and joiners", "\xf0\x9f\x91\xa9\xe2\x80\x8d" }, { "escapes", "\x1b[31m" },
		{ "hidden", "\xe2\x80\x8b" }, { "Arabic and joiners", "\xd9\x85\xe2\x80\x8c" }, { "bad bytes", "\xff" }, { "tabs", "\t" },
		{ "letters with marks", "x\xcc\x81\xcc\x82\xcc\x83\xcc\x84\xcc\x85" },
	};
	/* clang-format on */
	size_t size = 10u << 20;

	for (size_t k = 0; k < LEN(what); k++) {
		size_t unit = strlen(what[k].unit), n = (k ? size / 16 : size) / unit * unit;
		char *in = xmalloc(n);
		struct str a = { 0 }, b = { 0 };
		double t = now_seconds();
		for (size_t i = 0; i < n; i += unit)
			memcpy(in + i, what[k].unit, unit);
		once(0, in, n, &a);
		t = now_seconds() - t;
		CHECK_MSG(!fault(a.p, a.n, 0), "%s: %s", what[k].name, fault(a.p, a.n, 0));
		once(0, a.p, a.n, &b);
		CHECK_MSG(same(&a, &b), "%s: not idempotent", what[k].name);
		str_clear(&b);
		slow_clean(0, in, n, &b);
		CHECK_MSG(same(&a, &b), "%s: the slow way gives something else", what[k].name);
		once(CLEAN_LINE, in, n, &a);
		CHECK_MSG(!fault(a.p, a.n, CLEAN_LINE), "%s: %s in a line", what[k].name, fault(a.p, a.n, CLEAN_LINE));
		once(CLEAN_LINE, a.p, a.n, &b);
		CHECK_MSG(same(&a, &b), "%s: a line is not idempotent", what[k].name);
		if (!k)
			test_note("a line of 10 MiB takes %.0f ms", 1e3 * t);
		free(in);
		str_free(&a);
		str_free(&b);
	}
	/* lines around the greatest length, followed by characters that attach to the last character */
	for (size_t head = CLEAN_LINE_MAX - 90; head < CLEAN_LINE_MAX + 4; head++) {
		static const char tail[] =
			"\xf0\x9f\x91\xa9\xef\xb8\x8f\xe2\x80\x8d\xf0\x9f\x91\xa7\xcc\x81\xcc\x81\xcc\x81\xcc\x81"
			"\xd9\x85\xe2\x80\x8c\xd8\xb1\xe2\x80\x8d\xd9\x8b\xe2\x80\xae"
			"1\xef\xb8\x8f\xe2\x83\xa3\x1b\t\xff";
		char *in = xmalloc(head + sizeof tail - 1);
		memset(in, 'x', head);
		memcpy(in + head, tail, sizeof tail - 1);
		check_input(in, head + sizeof tail - 1, 0, 0);
		check_input(in, head + sizeof tail - 1, CLEAN_LINE, 0);
		free(in);
	}
}

/* ---- random strings ---- */

static const int32_t spice[] = {
	'\n',    '\r',    '\t',    0x1b,    '[',     ']',     ';',      'm',    7,      8,      0,       0x7f,
	0x80,    0x85,    0x9b,    0x9c,    0xad,    0xa9,    '1',      '#',    0x301,  0x308,  0x34f,   0x61c,
	0x645,   0x628,   0x64b,   0x915,   0x937,   0x94d,   0x93f,    0x1100, 0x1161, 0x11a8, 0x1160,  0x1820,
	0x180b,  0x180e,  0x200b,  0x200c,  0x200d,  0x200e,  0x2028,   0x202e, 0x2066, 0x20e3, 0x2764,  0x3042,
	0x3164,  0xac00,  0xd7ff,  0xe000,  0xfdd0,  0xfe0e,  0xfe0f,   0xfeff, 0xfffd, 0xfffe, 0x1f1e9, 0x1f3fb,
	0x1f468, 0x1f600, 0x2a6d6, 0xe0041, 0xe0100, 0xf0000, 0x10ffff, 0x378,
};

static size_t random_text(char *s, size_t max)
{
	uint64_t r = test_rand();
	size_t n = 0, want = r % max;
	int kind = (int)(r >> 32 & 3);

	while (n < want) {
		r = test_rand();
		if (kind == 0) { /* raw bytes */
			s[n++] = (char)r;
		} else if (kind == 1 || (r >> 40) % 4) { /* a character for which clean.c has a rule */
			n += (size_t)utf8_encode(spice[r % LEN(spice)], s + n);
		} else if (kind == 2) { /* any code point, including surrogates */
			n += (size_t)utf8_encode((int32_t)(r % 0x110000), s + n);
		} else {
			s[n++] = (char)(0x80 | (r & 0x7f));
		}
	}
	return n;
}

TEST(random_strings)
{
	const char *scale = getenv("WEIR_CLEAN_STRINGS");
	long want = scale ? strtol(scale, NULL, 10) : 1000000;
	char in[64];
	double t = now_seconds();
	long i;

	for (i = 0; i < want; i++) {
		size_t n = random_text(in, 28);
		if (!check_input(in, n,
		                 (const unsigned[]){ CLEAN_LINE, CLEAN_SHOW, CLEAN_LINE | CLEAN_SHOW, 0, 0, 0, 0,
		                                     0 }[i % 8],
		                 1))
			break;
	}
	test_note("%ld strings in %.1f s", i, now_seconds() - t);
}

/* ---- files with known answers ---- */

TEST(utf8_torture)
{
	size_t n, m, i = 0, j = 0, lines = 0;
	char *bin = test_read(test_file("tests/vectors/utf8.bin"), &n);
	char *ref = test_read(test_file("tests/vectors/utf8.ref"), &m);

	CHECK(bin && ref);
	while (bin && ref && i < n && j < m) {
		char *a = memchr(bin + i, '\n', n - i), *b = memchr(ref + j, '\n', m - j);
		size_t an = a ? (size_t)(a - bin) - i : n - i, bn = b ? (size_t)(b - ref) - j : m - j;
		struct str x = { 0 }, y = { 0 };
		/* the reference keeps all valid characters, so clean both to remove unwanted ones */
		once(CLEAN_LINE, bin + i, an, &x);
		once(CLEAN_LINE, ref + j, bn, &y);
		CHECK_MSG(same(&x, &y), "%s -> %s, expected %s", dump(bin + i, an), dump(x.p, x.n), dump(y.p, y.n));
		check_input(bin + i, an, 0, -1);
		str_free(&x);
		str_free(&y);
		i += an + 1;
		j += bn + 1;
		lines++;
	}
	CHECK(i >= n && j >= m);
	test_note("%zu lines", lines);
	free(bin);
	free(ref);
}

TEST(documents_pass)
{
	static const char *const name[] = { "tests/vectors/scripts.txt", "tests/vectors/books/kim.txt", "HACKING.md",
		                            "ui/transcript/transcript.c", "tests/pictures/cache.svg" };

	for (size_t k = 0; k < LEN(name); k++) {
		size_t n;
		char *in = test_read(test_file(name[k]), &n);
		struct str want = { 0 }, got = { 0 };
		struct clean c;

		CHECK(in);
		/* unchanged except for tabs, carriage returns and the byte order mark */
		for (size_t i = 0, col = 0; i < n;) {
			int32_t cp;
			size_t len = (size_t)utf8_decode(in + i, n - i, &cp);
			if (cp == '\t') {
				do
					str_adds(&want, " ");
				while (++col % 8);
			} else if (cp != '\r' && cp != 0xfeff) {
				str_add(&want, in + i, len);
				col = cp == '\n' ? 0 : col + (size_t)char_width(cp);
			}
			i += len;
		}
		clean_init(&c, 0);
		clean_text(&c, in, n, &got);
		clean_end(&c, &got);
		CHECK_MSG(same(&want, &got), "%s is changed", name[k]);
		for (size_t i = 0; i < want.n && i < got.n; i++)
			if (want.p[i] != got.p[i]) {
				CHECK_MSG(0, "byte %zu: %s became %s", i, dump(want.p + i, 20), dump(got.p + i, 20));
				break;
			}
		str_free(&want);
		str_free(&got);
		free(in);
	}
}
