/* ui/text/clean.c - makes untrusted text safe to show. One pass decodes the bytes to code points and writes the output.
 * Option CLEAN_LINE makes one line of the text; CLEAN_SHOW shows invisible characters.
 *
 *   - U+FFFD replaces noncharacters, private-use characters, and each maximal sequence of bytes that is not UTF-8.
 *   - Unassigned code points (chars.c) and direction controls are shown by their code, such as <U+202E>.
 *   - Line ends (\n, \r, \r\n, U+0085, U+2028, U+2029) become \n. CLEAN_LINE shows them as ^J, ^M, <85>, <U+2028>.
 *   - A tab becomes spaces up to the next multiple of 8 columns. CLEAN_LINE shows it as ^I.
 *   - Other control characters are shown as ^A, ^?, <80>.
 *   - Invisible characters are dropped. CLEAN_SHOW shows their code.
 *   - Joiners (U+200C, U+200D) are kept between letters of scripts that join letters, such as Arabic. U+200D is also
 *     kept between emoji. Elsewhere, joiners are treated as invisible characters.
 *   - Variation selectors are kept after an emoji, before U+20E3, and on Mongolian letters. Elsewhere, they are treated
 *     as invisible characters.
 *   - A character keeps at most four combining marks. A mark without a base character gets a dotted circle, U+25CC.
 *   - A line of more than 64 KiB is broken with \n. With CLEAN_LINE, it is truncated and ends with an ellipsis.
 *
 * Dropped and replaced characters are counted (struct clean_found), so that the program can tell the user.
 *
 * The output does not depend on how the input is split into parts. For this, a joiner is held back until the next
 * character is known. Cleaning the output again does not change it. */
#include "ui/text/text.h"
#include "ui/ui.h"

#include "ui/text/chars.h"

#include <stdio.h>

/* Number of bytes that are reserved at the end of a line for additions to its last character: four marks with joiners,
 * a variation selector, an ellipsis. */
#define LINE_RESERVE 64

enum after { AFTER_NOTHING, AFTER_TEXT, AFTER_KEYCAP, AFTER_JOINING, AFTER_EMOJI, AFTER_EMOJI_VS16 };

#define ZWJ    0x200d
#define VS16   0xfe0f
#define KEYCAP 0x20e3

/* ---- character classes ---- */

enum char_class char_class(int32_t cp)
{
	size_t lo = 0, hi = n_char_run;

	if (cp >= 0x20 && cp < 0x7f)
		return CH_PLAIN;
	while (hi - lo > 1) {
		size_t mid = lo + (hi - lo) / 2;
		if ((int32_t)(char_run[mid] >> 8) <= cp)
			lo = mid;
		else
			hi = mid;
	}
	return (enum char_class)(char_run[lo] & 0xff);
}

int char_width(int32_t cp)
{
	if (cp < 0 || cp > 0x10ffff)
		return -1;
	switch (char_class(cp)) {
	case CH_PLAIN:
	case CH_EMOJI:
	case CH_JOINING: return 1;
	case CH_WIDE:
	case CH_EMOJI_WIDE: return 2;
	case CH_MARK:
	case CH_JOINER:
	case CH_VS16:
	case CH_SELECTOR: return 0;
	default: return -1;
	}
}

size_t text_width(const char *s, size_t n)
{
	size_t width = 0;

	for (size_t i = 0; i < n;) {
		int32_t cp;
		i += (size_t)utf8_decode(s + i, n - i, &cp);
		if (char_width(cp) > 0)
			width += (size_t)char_width(cp);
	}
	return width;
}

/* ---- writing ---- */

static void put_newline(struct clean *c, struct str *out)
{
	str_add(out, "\n", 1);
	c->line = 0;
	c->col = 0;
	c->after = AFTER_NOTHING;
	c->marks = 0;
}

/* Write a mark, joiner or selector, which belongs to the character before it. */
static void put_attached(struct clean *c, int32_t cp, struct str *out)
{
	char s[4];
	int n = utf8_encode(cp, s);

	str_add(out, s, (size_t)n);
	c->line += (size_t)n;
}

static int has_room(const struct clean *c, size_t n)
{
	return c->line + n + LINE_RESERVE <= CLEAN_LINE_MAX;
}

/* Write n bytes that begin a new character. If the line is full, first begin a new line. */
static void put_base(struct clean *c, const char *s, size_t n, unsigned width, enum after after, struct str *out)
{
	if (c->cut)
		return;
	if (!has_room(c, n)) {
		c->found.breaks++;
		if (c->flags & CLEAN_LINE) {
			str_adds(out, "\u2026");
			c->cut = 1;
			return;
		}
		put_newline(c, out);
	}
	str_add(out, s, n);
	c->line += n;
	c->col = (c->col + width) % CLEAN_TAB;
	c->after = (unsigned char)after;
	c->marks = 0;
}

static void put_replacement(struct clean *c, struct str *out)
{
	put_base(c, "\xef\xbf\xbd", 3, 1, AFTER_TEXT, out);
}

static void put_name(struct clean *c, int32_t cp, struct str *out)
{
	char s[16];
	int n = snprintf(s, sizeof s, cp < 0x100 ? "<%02X>" : "<U+%04X>", (unsigned)cp);

	put_base(c, s, (size_t)n, (unsigned)n, AFTER_TEXT, out);
}

static void settle_joiner(struct clean *c, struct str *out);

static void hide(struct clean *c, int32_t cp, struct str *out)
{
	c->found.hidden++;
	if (c->flags & CLEAN_SHOW) {
		settle_joiner(c, out);
		put_name(c, cp, out);
	}
}

/* Treat the joiner that was held back as an invisible character, because it has nothing to join. */
static void settle_joiner(struct clean *c, struct str *out)
{
	int32_t cp = c->joiner;

	c->joiner = 0;
	if (cp)
		hide(c, cp, out);
}

/* ---- one code point ---- */

static void feed_base(struct clean *c, int32_t cp, enum char_class class, struct str *out)
{
	static const struct {
		unsigned char width, after;
	} base[] = {
		[CH_PLAIN] = { 1, AFTER_TEXT },      [CH_WIDE] = { 2, AFTER_TEXT },
		[CH_EMOJI] = { 1, AFTER_EMOJI },     [CH_EMOJI_WIDE] = { 2, AFTER_EMOJI },
		[CH_JOINING] = { 1, AFTER_JOINING },
	};
	enum after after = (enum after)base[class].after;
	char s[4];
	size_t n = (size_t)utf8_encode(cp, s);

	if ((cp >= '0' && cp <= '9') || cp == '#' || cp == '*')
		after = AFTER_KEYCAP;
	if (c->joiner && c->joiner != VS16 && has_room(c, n + 3) &&
	    (after == AFTER_JOINING
	             ? c->after == AFTER_JOINING
	             : after == AFTER_EMOJI && (c->after == AFTER_EMOJI || c->after == AFTER_EMOJI_VS16))) {
		put_attached(c, c->joiner, out);
		c->joiner = 0;
	}
	settle_joiner(c, out);
	put_base(c, s, n, base[class].width, after, out);
}

static void feed_mark(struct clean *c, int32_t cp, struct str *out)
{
	int wanted = c->joiner && (c->joiner == VS16 ? cp == KEYCAP : c->after == AFTER_JOINING);

	if (!wanted)
		settle_joiner(c, out);
	if (c->cut)
		return;
	if (c->after == AFTER_NOTHING)
		put_base(c, "\u25cc", 3, 1, AFTER_TEXT, out);
	if (c->marks == CLEAN_MARKS_MAX) {
		c->found.marks++;
		return;
	}
	if (wanted) {
		put_attached(c, c->joiner, out);
		c->joiner = 0;
	}
	put_attached(c, cp, out);
	c->marks++;
	if (c->after != AFTER_JOINING)
		c->after = AFTER_TEXT;
}

static void feed_joiner(struct clean *c, int32_t cp, struct str *out)
{
	int emoji = c->after == AFTER_EMOJI || c->after == AFTER_EMOJI_VS16;

	if (!c->joiner && !c->cut && (c->after == AFTER_JOINING || (cp == ZWJ && emoji)))
		c->joiner = cp;
	else
		hide(c, cp, out);
}

static void feed_vs16(struct clean *c, struct str *out)
{
	if (!c->joiner && !c->cut && c->after == AFTER_EMOJI) {
		put_attached(c, VS16, out);
		c->after = AFTER_EMOJI_VS16;
	} else if (!c->joiner && !c->cut && c->after == AFTER_KEYCAP) {
		c->joiner = VS16;
	} else {
		hide(c, VS16, out);
	}
}

static void feed_break(struct clean *c, struct str *out)
{
	settle_joiner(c, out);
	put_newline(c, out);
}

static void feed_control(struct clean *c, int32_t cp, struct str *out)
{
	char s[2] = { '^', (char)(cp ^ 0x40) };

	settle_joiner(c, out);
	if (!(c->flags & CLEAN_LINE)) {
		if (cp == '\t') {
			for (unsigned n = CLEAN_TAB - c->col; n; n--)
				put_base(c, " ", 1, 1, AFTER_TEXT, out);
			return;
		}
		if (cp == '\n' || cp == '\r') {
			put_newline(c, out);
			c->swallow_lf = cp == '\r';
			return;
		}
	}
	c->found.controls++;
	if (cp < 0x80)
		put_base(c, s, 2, 2, AFTER_TEXT, out);
	else
		put_name(c, cp, out);
}

static void feed_invalid(struct clean *c, struct str *out)
{
	c->swallow_lf = 0;
	c->found.invalid++;
	settle_joiner(c, out);
	put_replacement(c, out);
}

static void feed(struct clean *c, int32_t cp, struct str *out)
{
	enum char_class class = char_class(cp);
	int after_cr = c->swallow_lf;

	c->swallow_lf = 0;
	switch (class) {
	case CH_PLAIN:
	case CH_WIDE:
	case CH_EMOJI:
	case CH_EMOJI_WIDE:
	case CH_JOINING: feed_base(c, cp, class, out); break;
	case CH_MARK: feed_mark(c, cp, out); break;
	case CH_SELECTOR:
		if (c->after == AFTER_JOINING)
			feed_mark(c, cp, out);
		else
			hide(c, cp, out);
		break;
	case CH_JOINER: feed_joiner(c, cp, out); break;
	case CH_VS16: feed_vs16(c, out); break;
	case CH_HIDDEN: hide(c, cp, out); break;
	case CH_BIDI:
		c->found.bidi++;
		settle_joiner(c, out);
		put_name(c, cp, out);
		break;
	case CH_BREAK:
		if (!(c->flags & CLEAN_LINE)) {
			feed_break(c, out);
			break;
		}
		c->found.controls++;
		settle_joiner(c, out);
		put_name(c, cp, out);
		break;
	case CH_CONTROL:
		if (cp != '\n' || !after_cr)
			feed_control(c, cp, out);
		break;
	case CH_UNASSIGNED:
		c->found.invalid++;
		settle_joiner(c, out);
		put_name(c, cp, out);
		break;
	case CH_PRIVATE:
	case CH_NONE: feed_invalid(c, out); break;
	}
}

/* ---- bytes to code points ---- */

void clean_init(struct clean *c, unsigned flags)
{
	*c = (struct clean){ .flags = flags };
}

/* Read the first byte of a UTF-8 character. It tells how many bytes follow, and the bounds of the second byte. These
 * bounds exclude overlong forms, surrogates and code points above U+10FFFF. */
static void start_char(struct clean *c, unsigned char b, struct str *out)
{
	c->lo = 0x80;
	c->hi = 0xbf;
	if (b < 0x80) {
		feed(c, b, out);
	} else if (b >= 0xc2 && b <= 0xdf) {
		c->need = 1;
		c->cp = b & 0x1f;
	} else if (b >= 0xe0 && b <= 0xef) {
		c->need = 2;
		c->cp = b & 0x0f;
		if (b == 0xe0)
			c->lo = 0xa0;
		else if (b == 0xed)
			c->hi = 0x9f;
	} else if (b >= 0xf0 && b <= 0xf4) {
		c->need = 3;
		c->cp = b & 0x07;
		if (b == 0xf0)
			c->lo = 0x90;
		else if (b == 0xf4)
			c->hi = 0x8f;
	} else {
		feed_invalid(c, out);
	}
}

/* Write a sequence of printable ASCII characters at once, for speed. Returns its length. If it returns 0, the caller
 * must decode the next byte. */
static size_t take_ascii(struct clean *c, const char *s, size_t n, struct str *out)
{
	size_t room = CLEAN_LINE_MAX - LINE_RESERVE, k = 0;

	if (c->joiner || c->cut || c->line >= room)
		return 0;
	room -= c->line;
	while (k < n && k < room && s[k] >= 0x20 && s[k] < 0x7f)
		k++;
	if (k < 2)
		return 0;
	str_add(out, s, k - 1);
	c->line += k - 1;
	c->col = (unsigned)(c->col + k - 1) % CLEAN_TAB;
	feed(c, s[k - 1], out); /* write the last character by feed(), which sets the state of c */
	return k;
}

void clean_text(struct clean *c, const char *in, size_t n, struct str *out)
{
	for (size_t i = 0; i < n;) {
		unsigned char b = (unsigned char)in[i];

		if (!c->need) {
			size_t k = take_ascii(c, in + i, n - i, out);
			if (k) {
				i += k;
				continue;
			}
			start_char(c, b, out);
			i++;
		} else if (b < c->lo || b > c->hi) {
			c->need = 0; /* decode this byte again, because it may start a valid character */
			feed_invalid(c, out);
		} else {
			c->cp = c->cp << 6 | (b & 0x3f);
			c->lo = 0x80;
			c->hi = 0xbf;
			if (!--c->need)
				feed(c, c->cp, out);
			i++;
		}
	}
}

void clean_end(struct clean *c, struct str *out)
{
	struct clean fresh = { .flags = c->flags };

	if (c->need)
		feed_invalid(c, out);
	settle_joiner(c, out);
	fresh.found = c->found;
	*c = fresh;
}

/* ---- whole strings ---- */

void clean_line(const char *in, size_t n, struct str *out)
{
	struct clean c;

	clean_init(&c, CLEAN_LINE);
	clean_text(&c, in, n, out);
	clean_end(&c, out);
}

uint64_t clean_describe(const struct clean_found *f, struct str *out)
{
	const struct {
		uint64_t n;
		const char *one, *many;
	} part[] = {
		{ f->hidden, "hidden character", "hidden characters" },
		{ f->bidi, "direction control", "direction controls" },
		{ f->controls, "control character", "control characters" },
		{ f->invalid, "invalid character", "invalid characters" },
		{ f->marks, "surplus combining mark", "surplus combining marks" },
		{ f->breaks, "over-long line", "over-long lines" },
	};
	uint64_t total = 0;

	for (size_t i = 0; i < LEN(part); i++) {
		if (!part[i].n)
			continue;
		str_addf(out, "%s%llu %s", total ? ", " : "", (unsigned long long)part[i].n,
		         part[i].n == 1 ? part[i].one : part[i].many);
		total += part[i].n;
	}
	return total;
}
