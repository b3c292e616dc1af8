/* sessions/import/charset.c - finds an encoding by name or in an HTML page, and decodes text with iconv().
 *
 * Only the encodings of the table below are passed to iconv(). They are the encodings of the WHATWG Encoding Standard,
 * with the labels that web pages use, and three DOS code pages. As the standard says, the labels of ISO-8859-1 and
 * ASCII mean Windows-1252. */
#include "sessions/import/import_private.h"

#include <errno.h>
#include <iconv.h>
#include <pthread.h>
#include <string.h>

/* Names that iconv() has for Windows' encodings of Thai and Japanese. These extend standard encodings, and musl has
 * only the standard ones. */
#ifdef __GLIBC__
#define THAI     "CP874"
#define JAPANESE "CP932"
#else
#define THAI     "TIS-620"
#define JAPANESE "SHIFT_JIS"
#endif

const struct charset charset_utf16le = { "UTF-16LE", "UTF-16LE" }, charset_utf16be = { "UTF-16BE", "UTF-16BE" };

static const struct {
	struct charset is;
	const char *labels;
} charsets[] = {
	{ { "UTF-8", "UTF-8" }, " utf-8 utf8 unicode-1-1-utf-8 " },
	{ { "Windows-1252", "WINDOWS-1252" },
	  " windows-1252 cp1252 x-cp1252 iso-8859-1 iso8859-1 latin1 l1 ascii us-ascii ansi_x3.4-1968 " },
	{ { "Windows-1250", "WINDOWS-1250" }, " windows-1250 cp1250 x-cp1250 " },
	{ { "Windows-1251", "WINDOWS-1251" }, " windows-1251 cp1251 x-cp1251 " },
	{ { "Windows-1253", "WINDOWS-1253" }, " windows-1253 cp1253 x-cp1253 " },
	{ { "Windows-1254", "WINDOWS-1254" }, " windows-1254 cp1254 iso-8859-9 latin5 l5 " },
	{ { "Windows-1255", "WINDOWS-1255" }, " windows-1255 cp1255 " },
	{ { "Windows-1256", "WINDOWS-1256" }, " windows-1256 cp1256 " },
	{ { "Windows-1257", "WINDOWS-1257" }, " windows-1257 cp1257 " },
	{ { "Windows-1258", "WINDOWS-1258" }, " windows-1258 cp1258 " },
	{ { "ISO-8859-2", "ISO-8859-2" }, " iso-8859-2 iso8859-2 latin2 l2 " },
	{ { "ISO-8859-3", "ISO-8859-3" }, " iso-8859-3 latin3 l3 " },
	{ { "ISO-8859-4", "ISO-8859-4" }, " iso-8859-4 latin4 l4 " },
	{ { "ISO-8859-5", "ISO-8859-5" }, " iso-8859-5 cyrillic " },
	{ { "ISO-8859-6", "ISO-8859-6" }, " iso-8859-6 arabic " },
	{ { "ISO-8859-7", "ISO-8859-7" }, " iso-8859-7 greek " },
	{ { "ISO-8859-8", "ISO-8859-8" }, " iso-8859-8 iso-8859-8-i hebrew " },
	{ { "ISO-8859-10", "ISO-8859-10" }, " iso-8859-10 latin6 l6 " },
	{ { "ISO-8859-13", "ISO-8859-13" }, " iso-8859-13 " },
	{ { "ISO-8859-14", "ISO-8859-14" }, " iso-8859-14 " },
	{ { "ISO-8859-15", "ISO-8859-15" }, " iso-8859-15 latin9 l9 " },
	{ { "ISO-8859-16", "ISO-8859-16" }, " iso-8859-16 " },
	{ { "Windows-874", THAI }, " windows-874 tis-620 iso-8859-11 " },
	{ { "KOI8-R", "KOI8-R" }, " koi8-r koi8 koi " },
	{ { "KOI8-U", "KOI8-U" }, " koi8-u koi8-ru " },
	{ { "IBM866", "CP866" }, " ibm866 cp866 866 " },
	{ { "IBM737", "CP737" }, " ibm737 cp737 " },
	{ { "IBM850", "CP850" }, " ibm850 cp850 " },
	{ { "IBM852", "CP852" }, " ibm852 cp852 " },
	{ { "Macintosh", "MACINTOSH" }, " macintosh mac x-mac-roman " },
	{ { "GB18030", "GB18030" }, " gb18030 gbk gb2312 gb_2312-80 x-gbk chinese " },
	{ { "Big5", "BIG5-HKSCS" }, " big5 big5-hkscs x-x-big5 cn-big5 " },
	{ { "Shift_JIS", JAPANESE }, " shift_jis shift-jis sjis x-sjis windows-31j ms_kanji " },
	{ { "EUC-JP", "EUC-JP" }, " euc-jp x-euc-jp " },
	{ { "ISO-2022-JP", "ISO-2022-JP" }, " iso-2022-jp " },
	{ { "EUC-KR", "CP949" }, " euc-kr ks_c_5601-1987 ksc5601 korean windows-949 " },
};

enum { CHARSETS = LEN(charsets) };

const struct charset *charset_by_label(const char *label, size_t n)
{
	char s[40];

	while (n && strchr(" \t\r\n\f\"'", *label))
		label++, n--;
	while (n && strchr(" \t\r\n\f\"'", label[n - 1]))
		n--;
	if (!n || n > sizeof s - 3)
		return NULL;
	s[0] = ' ';
	for (size_t i = 0; i < n; i++)
		s[i + 1] = label[i] >= 'A' && label[i] <= 'Z' ? (char)(label[i] + 32) : label[i] > ' ' ? label[i] : '?';
	s[n + 1] = ' ';
	s[n + 2] = 0;
	for (size_t i = 0; i < CHARSETS; i++)
		if (strstr(charsets[i].labels, s))
			return &charsets[i].is;
	return NULL;
}

int charset_is_wide(const struct charset *c)
{
	static const char *const wide[] = { "GB18030", "Big5", "Shift_JIS", "EUC-JP", "ISO-2022-JP", "EUC-KR" };

	for (size_t i = 0; i < LEN(wide); i++)
		if (!strcmp(c->name, wide[i]))
			return 1;
	return 0;
}

static const char *find_text(const char *p, size_t n, const char *what)
{
	size_t k = strlen(what);

	for (size_t i = 0; i + k <= n; i++)
		if (!strncasecmp(p + i, what, k))
			return p + i;
	return NULL;
}

/* Parse the text after "charset" or "encoding": '=' and the name of an encoding, with or without quotes. */
static const struct charset *charset_after(const char *p, const char *end)
{
	size_t n = 0;

	while (p < end && strchr(" \t\r\n", *p) && *p)
		p++;
	if (p == end || *p != '=')
		return NULL;
	p++;
	while (p < end && strchr(" \t\r\n\"'", *p) && *p)
		p++;
	while (p + n < end && p[n] && !strchr(" \t\r\n\"'>;/?", p[n]))
		n++;
	return charset_by_label(p, n);
}

const struct charset *charset_declared(const char *p, size_t n)
{
	const char *end = p + MIN(n, 1024), *at, *stop;

	if (n > 5 && !memcmp(p, "<?xml", 5) && (stop = find_text(p, (size_t)(end - p), "?>")) &&
	    (at = find_text(p, (size_t)(stop - p), "encoding")))
		return charset_after(at + 8, stop);
	for (at = p; (at = find_text(at, (size_t)(end - at), "<meta")); at++) {
		const struct charset *c;
		const char *name;
		stop = memchr(at, '>', (size_t)(end - at));
		if (!stop)
			break;
		name = find_text(at, (size_t)(stop - at), "charset");
		if (name && (c = charset_after(name + 7, stop)))
			return c;
	}
	return NULL;
}

static iconv_t loaded[CHARSETS + 2]; /* Conversions that stay open, so that glibc keeps their tables in memory. */

static void load_all(void)
{
	for (size_t i = 0; i < CHARSETS; i++)
		loaded[i] = iconv_open("UTF-8", charsets[i].is.iconv);
	loaded[CHARSETS] = iconv_open("UTF-8", charset_utf16le.iconv);
	loaded[CHARSETS + 1] = iconv_open("UTF-8", charset_utf16be.iconv);
}

void charset_load(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, load_all);
}

/* Convert a byte in Adobe's Symbol encoding to UTF-8. A byte whose sign has no text form, such as a piece of a large
 * bracket, becomes a bullet. */
const char *charset_symbol(unsigned char c)
{
	static const char *const low[] = {    /* low[0] is the character for byte 0x20, low[1] for byte 0x21 */
		" ", "!", "∀", "#", "∃", "%", "&", "∋", "(", ")", "∗", "+", ",", "−", ".", "/", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", ":", ";", "<", "=",
		">", "?", "≅", "Α", "Β", "Χ", "Δ", "Ε", "Φ", "Γ", "Η", "Ι", "ϑ", "Κ", "Λ", "Μ", "Ν", "Ο", "Π", "Θ", "Ρ", "Σ", "Τ", "Υ", "ς", "Ω", "Ξ", "Ψ", "Ζ", "[",
		"∴", "]", "⊥", "_", "‾", "α", "β", "χ", "δ", "ε", "φ", "γ", "η", "ι", "ϕ", "κ", "λ", "μ", "ν", "ο", "π", "θ", "ρ", "σ", "τ", "υ", "ϖ", "ω", "ξ", "ψ",
		"ζ", "{", "|", "}", "∼",
	}, *const high[] = {   /* high[0] is the character for byte 0xa0 */
		"€", "ϒ", "′", "≤", "⁄", "∞", "ƒ", "♣", "♦", "♥", "♠", "↔", "←", "↑", "→", "↓", "°", "±", "″", "≥", "×", "∝", "∂", "•", "÷", "≠", "≡", "≈", "…", "|",
		"—", "↵", "ℵ", "ℑ", "ℜ", "℘", "⊗", "⊕", "∅", "∩", "∪", "⊃", "⊇", "⊄", "⊂", "⊆", "∈", "∉", "∠", "∇", "®", "©", "™", "∏", "√", "⋅", "¬", "∧", "∨", "⇔",
		"⇐", "⇑", "⇒", "⇓", "◊", "〈", "®", "©", "™", "∑",
	};

	if (c >= 0x20 && (size_t)(c - 0x20) < LEN(low))
		return low[c - 0x20];
	if (c >= 0xa0 && (size_t)(c - 0xa0) < LEN(high))
		return high[c - 0xa0];
	return c == 0xf1 ? "〉" : c == 0xf2 ? "∫" : "•";
}

int charset_decode(const struct charset *c, const char *p, size_t n, struct str *out, size_t *replaced)
{
	iconv_t cd = iconv_open("UTF-8", c->iconv);
	char buf[8192], *in = (char *)(uintptr_t)p;
	size_t left = n, skip = c == &charset_utf16le || c == &charset_utf16be ? 2 : 1;

	*replaced = 0;
	if (cd == (iconv_t)-1)
		return -1;
	for (int held = 1; left || held;) {
		char *to = buf;
		size_t room = sizeof buf, r;
		int why;
		/* after all input is read, call iconv() once more: it may still hold back a character */
		held = left > 0;
		r = held ? iconv(cd, &in, &left, &to, &room) : iconv(cd, NULL, NULL, &to, &room);
		why = errno;
		str_add(out, buf, sizeof buf - room);
		if (r != (size_t)-1 || why == E2BIG)
			continue;
		/* the bytes at `in` are invalid, or are the beginning of a character that the end of the text
		 * truncates */
		str_adds(out, "\xef\xbf\xbd");
		++*replaced;
		skip = why == EINVAL || skip > left ? left : skip;
		in += skip;
		left -= skip;
	}
	iconv_close(cd);
	return 0;
}

void charset_decode_page(const char *p, size_t n, struct str *out)
{
	const struct charset *c = charset_declared(p, n);
	struct str decoded = { 0 };
	struct doc text;
	size_t replaced;
	int foreign = c && strcmp(c->name, "UTF-8") != 0 && !charset_decode(c, p, n, &decoded, &replaced);

	if (!text_decode("", foreign && decoded.p ? decoded.p : p, foreign ? decoded.n : n, &text, NULL)) {
		str_add(out, text.text.p, text.text.n);
		doc_free(&text);
	}
	str_free(&decoded);
}
