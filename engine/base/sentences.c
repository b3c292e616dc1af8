/* engine/base/sentences.c - splits a text into sentences, and groups sentences into passages (sentences.h).
 *
 * The text is divided into blocks: paragraphs, headings and pages. Inside a block a sentence ends after a full stop,
 * unless the full stop belongs to an abbreviation, an initial or a number. It also ends before a list item and after
 * SENTENCE_MOST words, and at a line that only consists of borders. A long block becomes several passages of about
 * PASSAGE_WORDS words. A short block, such as a heading, is joined with the next block. The input may be any bytes:
 * malformed UTF-8 is neither a letter nor a full stop. */
#include "engine/base/sentences.h"
#include "engine/base/base.h"
#include "engine/base/utf8.h"

#include <stdlib.h>
#include <string.h>

enum {
	SENTENCE_MOST = 80, /* maximum number of words in a sentence */
	PASSAGE_WORDS = 120,
	PASSAGE_JOIN = 25, /* a block with fewer words is joined with the next block */
	/* Minimum length of a line, in bytes, whose newline ends a sentence. The lines of a wrapped paragraph are
	 * shorter. */
	LINE_LONG = 200,
	/* Minimum number of bytes before a blank that ends a sentence in Thai. An earlier blank may only separate
	 * phrases. */
	THAI_LEAST = 90,
	BORDER_LEAST = 3, /* minimum number of signs in a line without letters or digits that make the line a border */
	/* number of bytes of text that are processed, in a few milliseconds, between two calls of watch() */
	WATCH_BYTES = 1 << 20,
};

struct cutter {
	const char *p;
	size_t n;
	struct sentence *out;
	size_t count, cap;
	size_t first; /* index of the first sentence of the current passage */
	size_t words; /* number of words of the current passage so far */
};

/* ---- characters ---- */

int script_spaceless(int32_t cp)
{
	return (cp >= 0x0e00 && cp <= 0x0eff) || /* Thai, Lao */
	       (cp >= 0x1000 && cp <= 0x109f) || /* Burmese */
	       (cp >= 0x1780 && cp <= 0x17ff) || /* Khmer */
	       (cp >= 0x3005 && cp <= 0x3007) || (cp >= 0x3041 && cp <= 0x30ff && cp != 0x30fb) ||
	       (cp >= 0x3105 && cp <= 0x312f) || (cp >= 0x31f0 && cp <= 0x31ff) || (cp >= 0x3400 && cp <= 0x4dbf) ||
	       (cp >= 0x4e00 && cp <= 0x9fff) ||
	       (cp >= 0xac00 && cp <= 0xd7a3) || /* Korean has blanks, but attaches particles to words */
	       (cp >= 0xf900 && cp <= 0xfaff) || (cp >= 0xff66 && cp <= 0xff9f) || (cp >= 0x20000 && cp <= 0x3ffff);
}

/* 1 if cp is Thai, Lao, Burmese or Khmer: scripts in which a blank may end a sentence. */
static int is_thai(int32_t cp)
{
	return (cp >= 0x0e00 && cp <= 0x0eff) || (cp >= 0x1000 && cp <= 0x109f) || (cp >= 0x1780 && cp <= 0x17ff);
}

/* 1 if cp ends a sentence (full stop, exclamation mark, ...) in a script that writes no blank after it. */
static int is_wide_stop(int32_t cp)
{
	return cp == 0x3002 || cp == 0xff01 || cp == 0xff1f || cp == 0xff61;
}

/* 1 if cp ends a sentence (full stop, exclamation mark, ...) in a script that writes a blank after it: Latin, Arabic,
 * Devanagari, Armenian, Ethiopic, Burmese, Khmer or Tibetan. */
static int is_stop(int32_t cp)
{
	return cp == '.' || cp == '!' || cp == '?' || cp == 0x2026 || cp == 0x203c || cp == 0x2047 || cp == 0x2048 ||
	       cp == 0x2049 || cp == 0x061f || cp == 0x06d4 || cp == 0x0964 || cp == 0x0965 || cp == 0x0589 ||
	       cp == 0x1362 || cp == 0x1367 || cp == 0x104b || cp == 0x17d4 || cp == 0x0f0d;
}

/* 1 if cp is a quotation mark or bracket that may follow a full stop and belong to the same sentence. */
static int is_closer(int32_t cp)
{
	return cp == '"' || cp == '\'' || cp == ')' || cp == ']' || cp == '*' || cp == '_' || cp == 0x2019 ||
	       cp == 0x201d || cp == 0xbb || cp == 0x203a || cp == 0x300d || cp == 0x300f || cp == 0xff09 ||
	       cp == 0x3011;
}

/* ---- sentences ---- */

static const char *const abbreviations[] = {
	"mr",  "mrs",    "ms",   "dr",  "prof", "st",  "sr",   "jr",  "vs",   "no",   "nos",    "fig", "figs",
	"vol", "vols",   "pp",   "ch",  "sec",  "eq",  "ed",   "eds", "cf",   "al",   "gen",    "col", "lt",
	"sgt", "capt",   "maj",  "rev", "hon",  "sen", "rep",  "gov", "pres", "supt", "messrs", "mt",  "ft",
	"ca",  "approx", "dept", "est", "jan",  "feb", "mar",  "apr", "jun",  "jul",  "aug",    "sep", "sept",
	"oct", "nov",    "dec",  "e.g", "i.e",  "viz", "resp", "bzw", "nr",   "hr",   "fr",     "ggf", "vgl",
	"mme", "mlle",   "art",  "sra", "dra",  "z.b", "d.h",  "u.a",
};

/* 1 if the word before the full stop at `dot` is an abbreviation or an initial. */
static int is_abbreviation(const char *p, size_t begin, size_t dot)
{
	size_t from = dot, n, dots = 0;
	char word[8];

	while (from > begin && (byte_is_letter(p[from - 1]) || p[from - 1] == '.') && dot - from < 12)
		dots += p[--from] == '.';
	n = dot - from;
	if (n == 1)
		return byte_is_upper(p[from]); /* an initial: one upper-case letter */
	if (n > 1 && dots && n <= 2 * dots + 1 && byte_is_upper(p[from]))
		return 1; /* letters with full stops between them: U.S., J.R.R. */
	if (!n || n >= sizeof word)
		return 0;
	for (size_t i = 0; i < n; i++)
		word[i] = (char)(byte_is_upper(p[from + i]) ? p[from + i] + 32 : p[from + i]);
	word[n] = 0;
	for (size_t i = 0; i < LEN(abbreviations); i++)
		if (!strcmp(word, abbreviations[i]))
			return 1;
	return 0;
}

/* 1 if p[begin..dot) is a number of at most three digits and nothing else, such as the number of a list item, "3.". */
static int is_item_number(const char *p, size_t begin, size_t dot)
{
	size_t i = dot;

	while (i > begin && byte_is_digit(p[i - 1]))
		i--;
	return i < dot && dot - i <= 3 && i == begin;
}

/* 1 if the sentence p[begin..at) ends at `at`. The bytes from `at` to next - 1 are blanks. `end` is the length of the
 * text. */
static int ends_sentence(const char *p, size_t begin, size_t at, size_t next, size_t end)
{
	size_t from = at, i = at;
	int32_t cp = -1, after = -1;
	int closed = 0;

	while (i > begin) {
		cp = utf8_before(p, begin, i, &from);
		if (!is_closer(cp))
			break;
		closed = 1;
		i = from;
	}
	if (i == begin || !is_stop(cp))
		return 0;
	if (next < end)
		utf8_decode(p + next, end - next, &after);
	if (after >= 'a' && after <= 'z')
		return 0; /* no sentence ends before a lower-case letter: "Yahoo! has", "e.g. here" */
	if (cp != '.')
		return 1;
	/* after a closing bracket or quotation mark, the sentence ends even if an abbreviation is before the mark */
	return closed || !(is_abbreviation(p, begin, from) || is_item_number(p, begin, from));
}

/* 1 if a list item may begin at `at`: there are only blanks between `begin` and `at`, or the last character before `at`
 * that is not a blank is punctuation. */
static int ends_marked(const struct cutter *c, size_t begin, size_t at)
{
	int32_t cp;
	size_t from;

	while (at > begin && byte_is_blank(c->p[at - 1]))
		at--;
	if (at == begin)
		return 1;
	cp = utf8_before(c->p, begin, at, &from);
	return is_stop(cp) || is_wide_stop(cp) || is_closer(cp) || cp == ':' || cp == ';' || cp == ',' ||
	       cp == 0xff1a || cp == 0xff1b;
}

/* 1 if the line at `at` begins a list item, a quotation or a table row. A line that begins with a number such as "4."
 * begins an item only if punctuation precedes the line, or if the number is at most *number + 1. So in "a status
 * of\n127. Otherwise", the second line does not begin an item. *number is the number of the last item; it is set to the
 * number of this item, if it has one. */
static int begins_item(const struct cutter *c, size_t begin, size_t at, size_t end, long *number)
{
	const char *p = c->p;
	long count = 0;
	size_t i = at, line;

	while (i < end && (p[i] == ' ' || p[i] == '\t'))
		i++;
	if (i + 1 >= end)
		return 0;
	if (strchr("-*+|>#", p[i]) && p[i])
		return byte_is_blank(p[i + 1]) || p[i] == '#' || p[i] == '|';
	if (i + 3 < end && (unsigned char)p[i] == 0xe2 && (unsigned char)p[i + 1] == 0x80 &&
	    (unsigned char)p[i + 2] == 0xa2)
		return 1; /* a bullet */
	for (line = i; i < end && byte_is_digit(p[i]) && i - line < 6; i++)
		count = 10 * count + p[i] - '0';
	if (i == line || i + 1 >= end || (p[i] != '.' && p[i] != ')') || !byte_is_blank(p[i + 1]))
		return 0;
	if (count > *number + 1 && !ends_marked(c, begin, at))
		return 0;
	*number = count;
	return 1;
}

static const char BORDERS[] = "-=+|:_~*"; /* signs of which the lines between rows or sections consist */

/* Return the length of the character at s if it draws boxes (U+2500 to U+257F), else 0. */
static size_t box_length(const char *s, size_t n)
{
	return n > 2 && (unsigned char)s[0] == 0xe2 && ((unsigned char)s[1] & 0xfe) == 0x94 ? 3 : 0;
}

size_t box_skip(const char *p, size_t n, size_t at)
{
	size_t i = at, drawn = 0;

	if (!at || p[at - 1] == '\n') {
		for (size_t box; i < n && p[i] != '\n'; i += box ? box : 1) {
			box = box_length(p + i, n - i);
			if (!box && !byte_is_blank(p[i]) && !(p[i] && strchr(BORDERS, p[i])))
				break;
			drawn += box ? BORDER_LEAST : !byte_is_blank(p[i]);
		}
		if (drawn >= BORDER_LEAST && (i == n || p[i] == '\n'))
			return i;
	}
	return at + box_length(p + at, n - at);
}

/* 1 if the line at `at` is a border, or a row of a table between lines that are drawn. */
static int is_boxed(const char *p, size_t at, size_t end)
{
	size_t i = at;

	while (i < end && (p[i] == ' ' || p[i] == '\t'))
		i++;
	return box_length(p + i, end - i) || box_skip(p + at, end - at, 0) > 0;
}

/* Count the separators in the line of CSV or TSV that begins at `at`. A comma or semicolon before a blank is not
 * counted, because it belongs to prose. Set *next to the start of the next line. */
static size_t count_separators(const char *p, size_t at, size_t end, size_t *next)
{
	size_t n = 0;

	for (; at < end && p[at] != '\n'; at++)
		n += p[at] == '\t' || ((p[at] == ',' || p[at] == ';') && at + 1 < end && !byte_is_blank(p[at + 1]));
	*next = at + (at < end);
	return n;
}

/* 1 if the line p[line..at) and the line that begins at `at` are rows of a table: they have the same number (> 1) of
 * separators. */
static int between_rows(const char *p, size_t line, size_t at, size_t end)
{
	size_t next, n = count_separators(p, line, at, &next);

	return n > 1 && n == count_separators(p, at, end, &next);
}

static void add_sentence(struct cutter *c, size_t from, size_t to, size_t words)
{
	while (from < to && byte_is_blank(c->p[from]))
		from++;
	while (to > from && byte_is_blank(c->p[to - 1]))
		to--;
	if (from == to || box_skip(c->p + from, to - from, 0) == to - from)
		return;
	GROW(c->out, c->count, c->cap);
	c->out[c->count++] = (struct sentence){ (uint32_t)from, (uint32_t)to, (uint16_t)(words ? words : 1), 0 };
}

/* The sentence that begins at `begin` is too long at byte `at`. Return where to end it: after the last blank in the
 * second half of p[begin..at), or at `at` if that half has no blank. */
static size_t forced_end(const struct cutter *c, size_t begin, size_t at)
{
	for (size_t i = at; i > begin + (at - begin) / 2; i--)
		if (byte_is_blank(c->p[i - 1]))
			return i;
	return at;
}

/* Split the block of bytes [from, end) into sentences. */
static void cut_block(struct cutter *c, size_t from, size_t end)
{
	size_t begin = from, line = from, words = 0, at = from;
	long number = 0;
	int in_word = 0, boxed = is_boxed(c->p, from, end);

	begins_item(c, from, from, end, &number);
	while (at < end) {
		int32_t cp;
		size_t len = (size_t)utf8_decode(c->p + at, end - at, &cp), next = at;
		int cut = 0;

		if (cp >= 0 && cp < 0x80 && byte_is_blank((char)cp)) {
			in_word = 0;
			for (; next < end && byte_is_blank(c->p[next]); next++)
				if (c->p[next] == '\n') {
					cut |= boxed;
					boxed = is_boxed(c->p, next + 1, end);
					cut |= boxed || next - line >= LINE_LONG ||
					       between_rows(c->p, line, next + 1, end) ||
					       begins_item(c, from, next + 1, end, &number);
					line = next + 1;
				}
			if (!cut && at > begin) {
				size_t ignored;
				cut = ends_sentence(c->p, begin, at, next, end) ||
				      (at - begin >= THAI_LEAST && is_thai(utf8_before(c->p, begin, at, &ignored)));
			}
		} else {
			next = at + len;
			if (script_spaceless(cp)) {
				words++;
				in_word = 0;
			} else if (!in_word) {
				words++;
				in_word = 1;
			}
			if (is_wide_stop(cp)) {
				size_t more;
				/* closing marks and repeated full stops belong to the sentence */
				while (next < end && (more = (size_t)utf8_decode(c->p + next, end - next, &cp),
				                      is_closer(cp) || is_wide_stop(cp)))
					next += more;
				cut = 1;
			}
			if (!cut && (words > SENTENCE_MOST || next - begin > 16 * SENTENCE_MOST)) {
				next = forced_end(c, begin, next);
				cut = 1;
			}
		}
		if (cut) {
			add_sentence(c, begin, next, words);
			begin = next;
			words = 0;
			in_word = 0;
		}
		at = next;
	}
	add_sentence(c, begin, end, words);
}

/* ---- passages ---- */

/* End the current passage, which has the sentences from `first` to count - 1 (members of *c). If it is long, divide it
 * into passages of about PASSAGE_WORDS words. Set SENTENCE_FIRST on the first sentence of each passage. */
static void end_passage(struct cutter *c)
{
	size_t parts = (c->words + PASSAGE_WORDS / 2) / PASSAGE_WORDS, words = 0, cut = 1;

	if (c->first == c->count)
		return;
	c->out[c->first].flags |= SENTENCE_FIRST;
	for (size_t i = c->first; i + 1 < c->count && cut < parts; i++) {
		words += c->out[i].words;
		/* a sentence that crosses the ideal border between two passages goes to the passage that gets more of
		 * its words */
		if (words + c->out[i + 1].words / 2u >= cut * c->words / parts) {
			c->out[i + 1].flags |= SENTENCE_FIRST;
			cut++;
		}
	}
	c->first = c->count;
	c->words = 0;
}

/* 1 if the block looks like a heading: it begins with '#' (Markdown), or is one line of at most 100 bytes that does not
 * end with a full stop, colon, semicolon or comma. */
static int is_heading(const struct cutter *c, size_t from, size_t to)
{
	size_t last;
	int32_t cp;

	if (c->p[from] == '#')
		return 1;
	if (to - from > 100 || memchr(c->p + from, '\n', to - from))
		return 0;
	cp = utf8_before(c->p, from, to, &last);
	return !is_stop(cp) && !is_wide_stop(cp) && cp != ':' && cp != ';' && cp != ',';
}

/* Add the sentences of block [from, to) to the current passage. End the passage if it is long enough. */
static void take_block(struct cutter *c, size_t from, size_t to)
{
	size_t before = c->count;
	int heading;

	while (from < to && byte_is_blank(c->p[from]))
		from++;
	while (to > from && byte_is_blank(c->p[to - 1]))
		to--;
	if (from == to)
		return;
	heading = is_heading(c, from, to);
	if (c->first < before && heading && c->p[from] == '#')
		end_passage(c); /* the text before a heading is not joined with the heading */
	cut_block(c, from, to);
	for (size_t i = before; i < c->count; i++) {
		c->words += c->out[i].words;
		if (heading)
			c->out[i].flags |= SENTENCE_HEADING;
	}
	if (c->words >= PASSAGE_JOIN)
		end_passage(c);
}

/* Offsets of the next '\n' and of the next '\f'; if there is none, the end of the text. Because both offsets are kept,
 * each byte is searched only once. */
struct line_ends {
	size_t newline, page;
};

static size_t next_byte(const struct cutter *c, size_t at, char byte)
{
	const char *p = memchr(c->p + at, byte, c->n - at);

	return p ? (size_t)(p - c->p) : c->n;
}

/* Return the end of the line at `at`: the next '\n' or '\f'. */
static size_t line_stop(const struct cutter *c, size_t at, struct line_ends *next)
{
	if (next->newline < at)
		next->newline = next_byte(c, at, '\n');
	if (next->page < at)
		next->page = next_byte(c, at, '\f');
	return MIN(next->newline, next->page);
}

size_t sentences_cut(const char *text, size_t n, struct sentence **out, sentences_watch_fn *watch, void *ud)
{
	struct cutter c = { .p = text, .n = MIN(n, UINT32_MAX) };
	struct line_ends next = { 0 };
	size_t from = 0, asked = 0;

	if (n)
		next = (struct line_ends){ next_byte(&c, 0, '\n'), next_byte(&c, 0, '\f') };
	for (size_t at = 0, stop; at < c.n; at = stop + 1) {
		size_t words = at;
		int page, heading;

		if (watch && at - asked >= WATCH_BYTES) {
			asked = at;
			if (watch(ud)) {
				free(c.out);
				*out = NULL;
				return SIZE_MAX;
			}
		}
		stop = line_stop(&c, at, &next);
		page = stop < c.n && c.p[stop] == '\f';
		heading = !page && c.p[at] == '#' && stop - at > 1 && strchr("# \t", c.p[at + 1]) && c.p[at + 1];
		while (words < stop && byte_is_blank(c.p[words]))
			words++;
		if (words < stop && !page && !heading)
			continue;
		take_block(&c, from, at);
		if (page || heading)
			take_block(&c, at, stop);
		from = stop + 1;
	}
	if (from < c.n)
		take_block(&c, from, c.n);
	end_passage(&c);
	*out = c.out;
	return c.count;
}

size_t passages_cut(const char *text, size_t n, struct passage **out)
{
	struct sentence *at;
	size_t count = sentences_cut(text, n, &at, NULL, NULL), made = 0;

	*out = xcalloc(count + 1, sizeof **out);
	for (size_t i = 0; i < count; i++) {
		if (!i || at[i].flags & SENTENCE_FIRST)
			(*out)[made++].from = at[i].from;
		(*out)[made - 1].to = at[i].to;
	}
	free(at);
	return made;
}

/* ---- one place in a text ---- */

enum { LINE_BEFORE = 64 }; /* maximum number of bytes that are searched backwards for the beginning of a line */

int sentence_ends(const char *text, size_t n, size_t at)
{
	size_t begin = at > LINE_BEFORE ? at - LINE_BEFORE : 0, end = at, next = at, from;
	int32_t cp = -1;

	if (at > n)
		return 0;
	while (end > begin && is_closer(cp = utf8_before(text, begin, end, &from)))
		end = from;
	if (end > begin && is_wide_stop(cp)) {
		utf8_decode(text + at, n - at, &cp);
		return at == n || !(is_closer(cp) || is_wide_stop(cp));
	}
	if (end == begin || !is_stop(cp) || (at < n && !byte_is_blank(text[at])))
		return 0;
	for (size_t i = end; i > begin; i--)
		if (text[i - 1] == '\n')
			begin = i;
	while (next < n && byte_is_blank(text[next]))
		next++;
	return ends_sentence(text, begin, at, next, n);
}

enum text_break text_break(const char *text, size_t n, size_t at)
{
	size_t end = at;
	int lines = 0;

	if (utf8_continues(text[at]))
		return BREAK_NONE;
	/* return before the loop below: otherwise a caller that asks for each byte of a sequence of blanks would scan
	 * the whole sequence each time */
	if (byte_is_blank(text[at]))
		return BREAK_CHAR;
	while (end && byte_is_blank(text[end - 1]))
		lines += text[--end] == '\n';
	if (lines > 1)
		return BREAK_PARAGRAPH;
	if (sentence_ends(text, n, end))
		return BREAK_SENTENCE;
	return lines ? BREAK_LINE : end < at ? BREAK_WORD : BREAK_CHAR;
}
