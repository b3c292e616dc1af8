/* tests/lib/attacks.h - strings that attack terminals: they take over the terminal, hide text or break the screen.
 * Control sequences are combined from three lists: beginnings, contents and ends. Other strings are invisible
 * characters, and bytes that are not characters. */
#ifndef WEIR_TEST_ATTACKS_H
#define WEIR_TEST_ATTACKS_H

#include "engine/base/base.h"

#include <stdlib.h>
#include <string.h>

struct attacks {
	struct str *s;
	size_t n, cap;
};

static inline struct str *attack_new(struct attacks *a)
{
	GROW(a->s, a->n, a->cap);
	a->s[a->n] = (struct str){ 0 };
	return &a->s[a->n++];
}

static inline void attack_add(struct attacks *a, const char *begin, const char *middle, const char *end)
{
	struct str *s = attack_new(a);

	str_adds(s, begin);
	str_adds(s, middle);
	str_adds(s, end);
}

/* Append a code point in UTF-8, even a surrogate or a number above U+10FFFF, which UTF-8 forbids. */
static inline void attack_utf8(struct str *s, uint32_t cp)
{
	char b[4];

	if (cp < 0x80) {
		b[0] = (char)cp;
		str_add(s, b, 1);
	} else if (cp < 0x800) {
		b[0] = (char)(0xc0 | cp >> 6);
		b[1] = (char)(0x80 | (cp & 63));
		str_add(s, b, 2);
	} else if (cp < 0x10000) {
		b[0] = (char)(0xe0 | cp >> 12);
		b[1] = (char)(0x80 | (cp >> 6 & 63));
		b[2] = (char)(0x80 | (cp & 63));
		str_add(s, b, 3);
	} else {
		b[0] = (char)(0xf0 | cp >> 18);
		b[1] = (char)(0x80 | (cp >> 12 & 63));
		b[2] = (char)(0x80 | (cp >> 6 & 63));
		b[3] = (char)(0x80 | (cp & 63));
		str_add(s, b, 4);
	}
}

/* Add CSI sequences: one for every final byte, and those in harm[], which are known to do harm. */
static inline void attacks_csi(struct attacks *a)
{
	/* clang-format off */
	static const char *const harm[] = {
		"?1049h", "?1049l", "?47h", "?25l", "?5h", "?6h", "?7l", "?3h", "?1000h", "?1002h", "?1003h", "?1006h",
		"?1004h", "?2004l", "?2004h", "?2026h", "?2026l",
		"?69h", "?1l", "?66h", "?8452h", "?2027h", "4h", "20h", "2J", "3J", "1J", "H", "999;999H", "5;10r", "6n",
		"5n", "?6n", "?15n", "?26n", "c", ">c", "=c", ">0q",
		"0x", "8;1;1t", "14t", "18t", "20t", "21t", "22;0t", "23;0t", "2t", "1t", "9;1t", "3;0;0t", "!p", "\"p",
		"61\"p", "0\"q", "2 q", " q", "?1$p", "1$}", "4$r",
		"1;1;9;9$z", "1;1;9;9${", "1;1;9;9;1;1;1$v", "33;1;1;9;9$x", "1;2*x", "1;1;1;1;9;9*y", "2i", "4i", "5i",
		"?5i", "?1i", "0;8m", "8m", "38;5;0;48;5;0m", "38:2::1:2:3m",
		">4;2m", ">1u", "=1u", "<u", "?u", "?7727h", "99999999999999999999C", ";;;;;;;;;;;;;;;;;;;;;m",
		"1;2;3;4;5;6;7;8;9;10;11;12;13;14;15;16;17;18;19;20H", "999999b",
		"201~", "200~", "I", "O", "\n2J", "\0332J", "31\xc2\x9bm", "\x18m", "2\xc3\xa9J",
	};
	/* clang-format on */
	static const char *const begin[] = { "\033[", "\233", "\302\233" };

	for (size_t b = 0; b < 3; b++) {
		for (char last = '@'; last < 127; last++)
			attack_add(a, begin[b], b ? "" : "3;2", (char[]){ last, 0 });
		for (size_t i = 0; i < LEN(harm); i++)
			if (!b || i % 4 == b)
				attack_add(a, begin[b], harm[i], "x");
	}
}

/* Add control strings for the terminal: title, clipboard, links, colours, files, programs. Some have no end or another
 * end; some are nested. */
static inline void attacks_strings(struct attacks *a)
{
	/* clang-format off */
	static const char *const osc[] = {
		"0;title", "0;two\nlines", "1;icon", "2;title\rx", "4;1;?", "4;1;rgb:00/00/00", "7;file:///etc",
		"8;;http://example.org/", "8;id=1;file:///x", "9;note", "9;4;1;50",
		"10;?", "11;#000000", "12;red", "17;blue", "50;font", "52;c;cm0gLXJmIH4=", "52;c;?", "52;p;!", "104", "104;1",
		"110", "111", "133;A", "633;E;ls", "777;notify;a;b",
		"1337;File=inline=1:AAAA", "1337;SetUserVar=a=b", "1337;CursorShape=1", "3008;start=x", "5522;type=read", "",
		";", "99999999999;x", "L;x", "l;x", "I/icon", "lname",
	};
	/* clang-format on */
	static const char *const begin[] = { "\033]", "\235", "\302\235" }, *const end[] = {
		"\a", "\033\\", "\234", "\302\234", "", "\030", "\033"
	};
	/* clang-format off */
	static const char *const other[] = {
		"P$qm", "P+q544e", "P1$r0m", "Pq#0;2;0;0;0#0~~@@vv", "P0;1|17/17", "Ptmux;\033\033]52;c;QQ==\a", "P=1s",
		"P\033[2J", "_Ga=T,f=24;AAAA", "_x", "^private", "Xstring",
		"kscreen title", "_Ga=q,i=31;AAAA", "P>|x", "PzX",
	};
	/* clang-format on */
	static const char *const c1[] = { "\220$qm", "\302\220$qm", "\237Gx", "\302\237Gx",
		                          "\236x",   "\302\236x",   "\230x",  "\302\230x" };
	/* clang-format off */
	static const char *const single[] = {
		"c", "7", "8", "D", "E", "H", "M", "N", "O", "Z", "=", ">", "#8", "#3", "#6", "(0lqk", ")0", "*B", "+A", "-A",
		"%@", "%G", " F", " G", "l", "m", "n", "o", "|", "}", "~", "V", "W",
		"6", "9", "\033\033[2J", "\033", "[", "", "\xc3", "\xf0\x9f\x98\x80",
	};
	/* clang-format on */

	for (size_t i = 0; i < LEN(osc); i++)
		for (size_t e = 0; e < 7; e++)
			if (e < 2 || (i + e) % 5 == 0)
				attack_add(a, begin[(i + e) % 4 % 3], osc[i], end[e]);
	for (size_t i = 0; i < LEN(other); i++)
		for (size_t e = 0; e < 7; e++)
			if (e == 1 || (i + e) % 4 == 0)
				attack_add(a, "\033", other[i], end[e]);
	for (size_t i = 0; i < LEN(c1); i++)
		attack_add(a, c1[i], "", end[i % 7]);
	for (size_t i = 0; i < LEN(single); i++)
		attack_add(a, "\033", single[i], "x");
	attack_add(a, "\033]8;;http://good.example\033\\", "http://bad.example", "\033]8;;\033\\");
	attack_add(a, "pasted\033[201~", "\003\032\004\r", "\033[200~");
	attack_add(a, "\033[200~", "\033[200~ \033[201~", "\033[201~\r/quit\r");
}

/* Add characters that overwrite, hide or reorder text. */
static inline void attacks_characters(struct attacks *a)
{
	/* clang-format off */
	static const char *const over[] = {
		"good\rbad!", "bad\b\b\bgood", "a\vb", "a\fb", "\t\t\t\tx", "a\0161\017b", "\a\a\a", "\177\177", "\r\n\r\r\n",
		"x\033[1Dy", "password: \r          ", "\x01\x02\x03\x04\x05\x06",
		"\x1c\x1d\x1e\x1f", "\x18\x1a", "rm\xc2\xa0-rf", "a\xc2\x85" "b", "a\xc2\x8d" "b", "\xc2\x84\xc2\x88",
		"$<500/>", "%s%n%d", "`reboot`", "<b>&lt;", "![x](javascript:x)", "\\x1b[2J",
	};
	/* clang-format on */
	/* clang-format off */
	static const char *const no_utf8[] = {
		"\xc0\x9b[2J", "\xe0\x80\x9b[2J", "\xf0\x80\x80\x9b[2J", "\xc1\xbf", "\xf4\x90\x80\x80",
		"\xf8\x88\x80\x80\x80", "\xfc\x84\x80\x80\x80\x80", "\xfe\xff", "\x80", "\xbf\xbf", "\xc3",
		"\xe2\x82", "\xf0\x9f\x98", "\xc3\x28", "\xe2\x28\xa1", "\xe2\x82\x28", "\xf0\x28\x8c\xbc",
		"\xf0\x90\x28\xbc", "\xed\xa0\x80\xed\xb0\x80", "\xc2\x1b[2J", "\xe2\x80\x1b[2J", "\xff\x1b\xff[2J",
	};
	/* clang-format on */
	static const uint32_t hidden[] = {
		0xad,     0x34f,   0x61c,  0x115f, 0x1160,  0x17b4,   0x17b5,   0x180b,  0x180e,  0x180f,  0x200b,
		0x200c,   0x200d,  0x200e, 0x200f, 0x2028,  0x2029,   0x202a,   0x202b,  0x202c,  0x202d,  0x202e,
		0x2060,   0x2061,  0x2064, 0x2065, 0x2066,  0x2067,   0x2068,   0x2069,  0x206a,  0x206f,  0x2800,
		0x3164,   0xfe00,  0xfe0e, 0xfe0f, 0xfeff,  0xffa0,   0xfff0,   0xfff9,  0xfffa,  0xfffb,  0xfffc,
		0xfffe,   0xffff,  0xfdd0, 0xfdef, 0x1bca0, 0x1d173,  0x1d17a,  0xe0001, 0xe0020, 0xe0041, 0xe007f,
		0xe0100,  0xe01ef, 0xe000, 0xf8ff, 0xf0000, 0x10fffd, 0x10ffff, 0x1ffff, 0xd800,  0xdfff,  0x378,
		0x110000, 0x5bf,   0x488,  0x20dd, 0x20e3,  0x1ab0,   0x1f3fb,  0x1f1e6, 0x9be,   0xb4d,   0x1039,
		0x302a,   0x3099,  0x1100, 0x11a8, 0xd7b0,  0xfdfa,   0x2e3a,   0x12031, 0xa9c1,  0xf3e,   0xe33,
	};

	for (size_t i = 0; i < LEN(over); i++)
		attack_add(a, over[i], "", "");
	for (size_t i = 0; i < LEN(no_utf8); i++)
		attack_add(a, "<", no_utf8[i], ">");
	for (size_t i = 0; i < LEN(hidden); i++) {
		struct str *s = attack_new(a);
		if (i % 3)
			str_adds(s, "ab");
		attack_utf8(s, hidden[i]);
		str_adds(s, i % 2 ? "[2J" : "cd");
		if (i % 5 == 0)
			attack_utf8(s, hidden[i]);
	}
	/* Stacks of combining marks on a letter, on nothing, on a wide character; long chains of joined emoji; text
	 * hidden in tag characters. */
	for (int kind = 0; kind < 8; kind++) {
		static const uint32_t base[] = { 'a', 0, 0x6f22, 0x1f600, ' ', 0x5e9, 0xe01, 0x1f1e9 },
				      mark[] = { 0x301, 0x489, 0x5b8, 0x200d, 0xfe0f, 0xe0061, 0x334, 0x1f3ff };
		struct str *s = attack_new(a);
		if (base[kind])
			attack_utf8(s, base[kind]);
		for (int k = 0; k < 60; k++) {
			attack_utf8(s, mark[(kind + k / 20) % 8]);
			if (kind > 5)
				attack_utf8(s, base[kind]);
		}
	}
	attack_add(a, "access\xe2\x80\xae", "gpj.exe", "\xe2\x80\xac");
	attack_add(a, "/* \xe2\x81\xa6 */ \xe2\x81\xa7", "if (admin)", "\xe2\x81\xa9");
}

static inline void attacks_make(struct attacks *a)
{
	attacks_csi(a);
	attacks_strings(a);
	attacks_characters(a);
}

static inline void attacks_free(struct attacks *a)
{
	for (size_t i = 0; i < a->n; i++)
		str_free(&a->s[i]);
	free(a->s);
	*a = (struct attacks){ 0 };
}

#endif
