/* engine/token/pretok.c - pre-tokenizers of byte-level BPE: they split text into words. The models' own software uses
 * regular expressions. Here each expression is written as a scanner, which takes linear time.
 *
 * The comment of each scanner quotes its regular expression, with one alternative on each line. The alternatives are
 * tried in order, and the first one that matches gives the next word. The comments use this notation:
 *     L N M S      a letter, a number, a combining mark, a white space character
 *     UPPER        a letter that is not lower case, or a mark: Lu, Lt, Lm, Lo, M (UPPER_PART)
 *     LOWER        a letter that is not upper case, or a mark: Ll, Lm, Lo, M (LOWER_PART)
 *     C            an English contraction: 's 't 're 've 'm 'll 'd
 *     [ ]          a space
 *     [L M]        a character of one of these classes
 *     [^L N]       a character of none of these classes
 *     x?           x, or nothing
 *     x*           x any number of times, as often as possible; also nothing
 *     x+           x at least once, as often as possible
 *     x{1,digits}  x at least once, and at most `digits` times (struct pretok)
 *     (?![^S])     a place where the text ends or white space follows
 * Lu, Lt, Ll, Lm and Lo are Unicode's upper-case, title-case, lower-case, modifier and other letters. */
#include "engine/token/pretok.h"

#include "engine/base/base.h"
#include "engine/token/unicode_data.h"

#include <string.h>

#define ANY_LETTER (CH_UPPER | CH_LOWER | CH_LETTER)
#define UPPER_PART (CH_UPPER | CH_LETTER | CH_MARK)
#define LOWER_PART (CH_LOWER | CH_LETTER | CH_MARK)
#define SYMBOL     (CH_OTHER | CH_MARK)

/* A row has the members of struct pretok, in this order: name, kind, digits, suffix, whole_words, add_bos. */
#define PRETOKS(X)                                                                                                     \
	X("default", PRETOK_GPT2, 0, 0, 0, 0)                                                                          \
	X("gpt-2", PRETOK_GPT2, 0, 0, 0, 0)                                                                            \
	X("phi-2", PRETOK_GPT2, 0, 0, 0, 0)                                                                            \
	X("olmo", PRETOK_GPT2, 0, 0, 0, 0)                                                                             \
	X("smollm", PRETOK_GPT2, 1, 0, 0, 0)                                                                           \
	X("starcoder", PRETOK_GPT2, 1, 0, 0, 0)                                                                        \
	X("command-r", PRETOK_GPT2, 1, 0, 0, 0)                                                                        \
	X("refact", PRETOK_GPT2, 1, 0, 0, 0)                                                                           \
	X("llama-bpe", PRETOK_LLAMA3, 3, 0, 1, 1)                                                                      \
	X("llama3", PRETOK_LLAMA3, 3, 0, 1, 1)                                                                         \
	X("llama-v3", PRETOK_LLAMA3, 3, 0, 1, 1)                                                                       \
	X("falcon3", PRETOK_LLAMA3, 3, 0, 1, 1)                                                                        \
	X("lfm2", PRETOK_LLAMA3, 3, 0, 1, 1)                                                                           \
	X("smaug-bpe", PRETOK_LLAMA3, 3, 0, 0, 0)                                                                      \
	X("dbrx", PRETOK_LLAMA3, 3, 0, 0, 0)                                                                           \
	X("qwen2", PRETOK_LLAMA3, 1, 0, 0, 0)                                                                          \
	X("deepseek-r1-qwen", PRETOK_LLAMA3, 1, 0, 0, 0)                                                               \
	X("stablelm2", PRETOK_LLAMA3, 1, 0, 0, 0)                                                                      \
	X("megrez", PRETOK_LLAMA3, 1, 0, 0, 0)                                                                         \
	X("glm4", PRETOK_LLAMA3, 3, 0, 0, 0)                                                                           \
	X("chatglm-bpe", PRETOK_LLAMA3, 3, 0, 0, 0)                                                                    \
	X("exaone4", PRETOK_GPT2, 0, 0, 0, 0)                                                                          \
	X("seed-coder", PRETOK_SEED, 1, 0, 0, 0)                                                                       \
	X("qwen35", PRETOK_QWEN35, 1, 0, 0, 0)                                                                         \
	X("tekken", PRETOK_TEKKEN, 1, 0, 1, 1)                                                                         \
	X("gpt-4o", PRETOK_TEKKEN, 3, 1, 0, 0)

#define ROW(name, ...) { name, __VA_ARGS__ },
static const struct pretok table[] = { PRETOKS(ROW) };
#define NAME(name, ...) name,
static const char *const names[] = { PRETOKS(NAME) NULL };

const struct pretok *pretok_find(const char *name, size_t n)
{
	for (size_t i = 0; i < LEN(table); i++)
		if (strlen(table[i].name) == n && !memcmp(table[i].name, name, n))
			return &table[i];
	return NULL;
}

const char *const *pretok_names(void)
{
	return names;
}

/* ---- characters ---- */

struct text {
	const char *s;
	size_t n;
};

static int class_of(int32_t cp)
{
	/* binary search for the last range of code points that begins at or before cp */
	uint32_t lo = 0, hi = n_unicode_run;
	if (cp < 0)
		return CH_OTHER;
	while (hi - lo > 1) {
		uint32_t mid = lo + (hi - lo) / 2;
		if (unicode_run[mid] >> 8 <= (uint32_t)cp)
			lo = mid;
		else
			hi = mid;
	}
	return (int)(unicode_run[lo] & 0xff);
}

#define O CH_OTHER
#define S CH_SPACE
#define N CH_NUMBER
#define U CH_UPPER
#define L CH_LOWER
static const uint8_t ascii_class[128] = {
	O, O, O, O, O, O, O, O, O, S, S, S, S, S, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O,
	S, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O, N, N, N, N, N, N, N, N, N, N, O, O, O, O, O, O,
	O, U, U, U, U, U, U, U, U, U, U, U, U, U, U, U, U, U, U, U, U, U, U, U, U, U, U, O, O, O, O, O,
	O, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, O, O, O, O, O,
};
#undef O
#undef S
#undef N
#undef U
#undef L

/* Return the class of the character at byte i, or 0 at the end of the text. Set *next to the offset of the next
 * character. */
static inline int class_at(struct text t, size_t i, size_t *next)
{
	int32_t cp;
	if (i >= t.n) {
		*next = t.n;
		return 0;
	}
	if ((unsigned char)t.s[i] < 0x80) {
		*next = i + 1;
		return ascii_class[(unsigned char)t.s[i]];
	}
	*next = i + (size_t)utf8_decode(t.s + i, t.n - i, &cp);
	return class_of(cp);
}

/* From byte i on, skip characters of these classes. Return the offset of the first character of another class. */
static size_t run_end(struct text t, size_t i, int classes)
{
	size_t next;
	while (class_at(t, i, &next) & classes)
		i = next;
	return i;
}

/* Do what run_end() does, but skip at most `limit` characters. If `limit` is 0, there is no limit. */
static size_t run_end_within(struct text t, size_t i, int classes, int limit)
{
	size_t next;
	for (int k = 0; (!limit || k < limit) && (class_at(t, i, &next) & classes); k++)
		i = next;
	return i;
}

static int is_newline(struct text t, size_t i)
{
	return i < t.n && (t.s[i] == '\n' || t.s[i] == '\r');
}

/* ---- alternatives of the expressions ---- */

/* If an English contraction ('s 't 're 've 'm 'll 'd) begins at byte i, return the offset of its end. Otherwise return
 * i. If `fold` is 1, ignore case; then the long s (U+017F) counts as s. */
static size_t contraction_end(struct text t, size_t i, int fold)
{
	size_t left = t.n - i;
	int a, b;

	if (left < 2 || t.s[i] != '\'')
		return i;
	a = fold && t.s[i + 1] >= 'A' && t.s[i + 1] <= 'Z' ? t.s[i + 1] | 32 : t.s[i + 1];
	if (a == 's' || a == 't' || a == 'm' || a == 'd')
		return i + 2;
	if (left < 3)
		return i;
	if (fold && !memcmp(t.s + i + 1, "\xc5\xbf", 2))
		return i + 3;
	b = fold && t.s[i + 2] >= 'A' && t.s[i + 2] <= 'Z' ? t.s[i + 2] | 32 : t.s[i + 2];
	if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l'))
		return i + 3;
	return i;
}

/* Return the end of the word of white space that begins at byte i. If text follows, and the white space has at least
 * two characters, the last of them is left to the next word. As a regular expression: S+(?![^S])|S+. If `newlines` is 1
 * and the white space has newlines, the word ends after the last newline: S*[\r\n]+. Before a character of the classes
 * `stop`, and at the end of the text, all of the white space is one word. */
static size_t space_end(struct text t, size_t i, int newlines, int stop)
{
	size_t end = i, last = i, next, after_newline = 0;
	int c;

	while ((c = class_at(t, end, &next)) & CH_SPACE) {
		last = end;
		if (newlines && is_newline(t, end))
			after_newline = next;
		end = next;
	}
	if (after_newline)
		return after_newline;
	return !c || (c & stop) || last == i ? end : last;
}

/* Match an optional space and then symbols at byte i. Return the end of the match, or i if there is none. Characters of
 * the classes `classes` count as symbols. If `newlines` is 1, also match the newlines after the symbols and, if `slash`
 * is 1, slashes among them. */
static size_t symbols_end(struct text t, size_t i, int classes, int newlines, int slash)
{
	size_t from = i + (t.s[i] == ' '), end = run_end(t, from, classes);
	if (end == from)
		return i;
	while (newlines && (is_newline(t, end) || (slash && end < t.n && t.s[end] == '/')))
		end++;
	return end;
}

/* Match UPPER*LOWER+ at byte i, and return the end of the match, or i if there is none. First read all characters of
 * UPPER. If a lower-case letter (Ll) follows, LOWER+ begins with this letter. Otherwise the match ends earlier: after
 * the last of the characters read that is also in LOWER (Lm, Lo or M). A backtracking matcher gives the same result. */
static size_t cased_word_end(struct text t, size_t i)
{
	size_t end = i, back = i, next;
	int c;

	while ((c = class_at(t, end, &next)) & UPPER_PART) {
		end = next;
		if (c & LOWER_PART)
			back = end;
	}
	return c & CH_LOWER ? run_end(t, end, LOWER_PART) : back;
}

/* ---- the kinds ---- */

/* Return the end of the next word of the kind GPT2, which is defined by this regular expression (notation: top of this
 * file):
 *     C             in lower case
 *     [ ]?L+        letters
 *     [ ]?N+        numbers
 *     [ ]?[^S L N]+ symbols
 *     S+(?![^S])
 *     S+
 * If `digits` is 1, every digit is a word of its own. Then white space before a digit is matched like white space at
 * the end of the text. */
static size_t next_gpt2(const struct pretok *p, struct text t, size_t i)
{
	size_t next, end = contraction_end(t, i, 0);
	int c;

	if (end > i)
		return end;
	c = class_at(t, i + (t.s[i] == ' '), &next);
	if (c & ANY_LETTER)
		return run_end(t, next, ANY_LETTER);
	if (c & SYMBOL)
		return run_end(t, next, SYMBOL);
	if (c & CH_NUMBER && !p->digits)
		return run_end(t, next, CH_NUMBER);
	if (c & CH_NUMBER && t.s[i] != ' ')
		return run_end_within(t, i, CH_NUMBER, p->digits);
	return space_end(t, i, 0, p->digits ? CH_NUMBER : 0);
}

/* Return the end of the next word of the kind LLAMA3, which is defined by this regular expression (notation: top of
 * this file):
 *     C                      in upper or lower case
 *     [^\r\n L N]?L+         letters, with at most one other character before them
 *     N{1,digits}
 *     [ ]?[^S L N]+[\r\n]*   symbols, and the newlines after them
 *     S*[\r\n]+
 *     S+(?![^S])
 *     S+
 * Two other kinds differ in one point each. SEED: the newlines after symbols are not part of the match. QWEN35: marks
 * count as letters, not as symbols, so [L M]+ replaces L+, and [^S L M N]+ replaces [^S L N]+. */
static size_t next_llama3(const struct pretok *p, struct text t, size_t i)
{
	int marks = p->kind == PRETOK_QWEN35 ? CH_MARK : 0, letters = ANY_LETTER | marks, c;
	size_t next, end = contraction_end(t, i, 1);

	if (end > i)
		return end;
	c = class_at(t, i, &next);
	if (c & letters)
		return run_end(t, next, letters);
	if (c & CH_NUMBER)
		return run_end_within(t, i, CH_NUMBER, p->digits);
	if (!is_newline(t, i) && (end = run_end(t, next, letters)) > next)
		return end;
	end = symbols_end(t, i, SYMBOL & ~marks, p->kind != PRETOK_SEED, 0);
	return end > i ? end : space_end(t, i, 1, 0);
}

/* Return the end of the next word of the kind TEKKEN, which is defined by this regular expression (notation: top of
 * this file). C? is part of it only if `suffix` is set; C may be in upper or lower case.
 *     [^\r\n L N]?UPPER*LOWER+C?  a word that ends in lower case
 *     [^\r\n L N]?UPPER+LOWER*C?  a word in upper case
 *     N{1,digits}
 *     [ ]?[^S L N]+[\r\n/]*       symbols, and the newlines and slashes after them
 *     S*[\r\n]+
 *     S+(?![^S])
 *     S+ */
static size_t next_tekken(const struct pretok *p, struct text t, size_t i)
{
	size_t next, end = i, from;
	int c = class_at(t, i, &next);

	if (c & CH_NUMBER)
		return run_end_within(t, i, CH_NUMBER, p->digits);
	/* A word with letters is UPPER*LOWER+ or UPPER+LOWER*. Before the letters, the word may have one character that
	 * is not a letter. If byte i is such a character, the letters begin at the next character, `from`; otherwise
	 * `from` is i. Try UPPER*LOWER+ first at `from` and then at i. Then try UPPER+ in the same way. No character of
	 * LOWER can follow UPPER+, because otherwise UPPER*LOWER+ would have matched. */
	from = !(c & ANY_LETTER) && !is_newline(t, i) ? next : i;
	if ((end = cased_word_end(t, from)) == from && (from == i || (end = cased_word_end(t, i)) == i) &&
	    (end = run_end(t, from, UPPER_PART)) == from)
		end = run_end(t, i, UPPER_PART);
	if (end > i)
		return p->suffix ? contraction_end(t, end, 1) : end;
	end = symbols_end(t, i, SYMBOL, 1, 1);
	return end > i ? end : space_end(t, i, 1, 0);
}

size_t pretok_next(const struct pretok *p, const char *s, size_t n, size_t pos)
{
	struct text t = { s, n };
	switch (p->kind) {
	case PRETOK_GPT2: return next_gpt2(p, t, pos);
	case PRETOK_LLAMA3:
	case PRETOK_SEED:
	case PRETOK_QWEN35: return next_llama3(p, t, pos);
	default: return next_tekken(p, t, pos);
	}
}
