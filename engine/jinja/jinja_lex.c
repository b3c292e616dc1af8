/* engine/jinja/jinja_lex.c - splits a Jinja template into tokens: text between tags, and names, literals and operators
 * inside tags.
 *
 * White space is removed as with the options trim_blocks and lstrip_blocks: a newline after a block tag, and blanks
 * between the start of a line and a block tag. A "-" in a tag removes all white space on its side of the tag; a "+"
 * keeps it. One newline at the end of the template is removed. */
#include "engine/jinja/jinja_private.h"
#include "engine/base/utf8.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct lexer {
	struct work *w;
	const char *p, *end; /* rest of the text */
	int line;
	int line_start; /* 1: the lexer is at the start of the template or right after a newline */
	struct lexed *out;
};

static struct token *token_add(struct lexer *x, enum token_kind kind, const char *p, size_t n)
{
	struct lexed *o = x->out;

	o->v = work_grow(x->w, o->v, o->n, &o->cap, sizeof *o->v);
	o->v[o->n] = (struct token){ .kind = kind, .line = x->line, .p = p, .n = n };
	return &o->v[o->n++];
}

static void lexer_skip(struct lexer *x, size_t n)
{
	for (; n; n--)
		x->line += *x->p++ == '\n';
	x->w->line = x->line;
	x->line_start = x->p[-1] == '\n';
}

static int lexer_starts(const struct lexer *x, const char *mark)
{
	size_t n = strlen(mark);

	return (size_t)(x->end - x->p) >= n && !memcmp(x->p, mark, n);
}

/* Return the number of white space bytes at the beginning of p. */
static size_t count_blanks(const char *p, const char *end)
{
	const char *s = p;
	size_t n;

	while (s < end && (n = blank_at(s, (size_t)(end - s))))
		s += n;
	return (size_t)(s - p);
}

static void skip_blanks(struct lexer *x)
{
	size_t n = count_blanks(x->p, x->end);

	if (n)
		lexer_skip(x, n);
}

/* Return the length of the n bytes at p without the white space at their end. */
static size_t without_blanks(const char *p, size_t n)
{
	size_t kept = 0, i = 0;

	while (i < n) {
		size_t b = blank_at(p + i, n - i);

		i += b ? b : 1;
		kept = b ? kept : i;
	}
	return kept;
}

/* Add the n bytes of text at p, which are before a tag, without the white space that the tag removes. `sign` is the
 * character after the tag's opening mark, such as '-' or '+'. is_print is 1 if the opening mark is "{{", and 0 if it is
 * "{%" or "{#". */
static void add_text(struct lexer *x, const char *p, size_t n, char sign, int is_print)
{
	if (sign == '-') {
		n = without_blanks(p, n);
	} else if (sign != '+' && !is_print) {
		const char *newline = memrchr(p, '\n', n);
		size_t line = newline ? (size_t)(newline + 1 - p) : 0;

		if ((line || x->line_start) && count_blanks(p + line, p + n) == n - line)
			n = line;
	}
	if (n)
		token_add(x, T_TEXT, p, n);
}

/* Skip the closing mark "%}" or "#}", which has `mark` bytes, and the white space after it that the tag removes. `sign`
 * is the character before the closing mark. */
static void close_tag(struct lexer *x, size_t mark, char sign)
{
	lexer_skip(x, mark);
	if (sign == '-')
		skip_blanks(x);
	else if (sign != '+' && x->p < x->end && *x->p == '\n')
		lexer_skip(x, 1);
}

static void skip_comment(struct lexer *x)
{
	const char *close = memmem(x->p + 2, (size_t)(x->end - x->p - 2), "#}", 2);
	char sign;

	if (!close)
		jinja_fail(x->w, "a comment is not closed");
	sign = close > x->p + 2 ? close[-1] : 0;
	/* In "{#-#}" the sign belongs to the opening mark. */
	if (close == x->p + 3 && (sign == '-' || sign == '+'))
		sign = 0;
	lexer_skip(x, (size_t)(close - x->p));
	close_tag(x, 2, sign);
}

/* If {% raw %} begins at x->p, add the unparsed text up to {% endraw %} and return 1. Otherwise return 0. */
static int lex_raw(struct lexer *x)
{
	const char *s = x->p + 2, *close;
	size_t body;

	s += s < x->end && (*s == '-' || *s == '+');
	s += count_blanks(s, x->end);
	if (x->end - s < 3 || memcmp(s, "raw", 3) != 0)
		return 0;
	s += 3;
	s += count_blanks(s, x->end);
	if (x->end - s >= 3 && !memcmp(s, "-%}", 3))
		s += 3, s += count_blanks(s, x->end);
	else if (x->end - s >= 2 && !memcmp(s, "%}", 2))
		s += 2;
	else
		return 0;
	lexer_skip(x, (size_t)(s - x->p));
	for (close = x->p; (close = memmem(close, (size_t)(x->end - close), "{%", 2)); close += 2) {
		char sign = close + 2 < x->end ? close[2] : 0, after;
		const char *e = close + 2 + (sign == '-' || sign == '+');

		e += count_blanks(e, x->end);
		if (x->end - e < 6 || memcmp(e, "endraw", 6) != 0)
			continue;
		e += 6;
		e += count_blanks(e, x->end);
		after = e < x->end ? *e : 0;
		e += after == '-' || after == '+';
		if (x->end - e < 2 || memcmp(e, "%}", 2) != 0)
			continue;
		body = (size_t)(close - x->p);
		add_text(x, x->p, body, sign, 0);
		lexer_skip(x, (size_t)(e - x->p));
		close_tag(x, 2, after);
		return 1;
	}
	jinja_fail(x->w, "{%% raw %%} is not closed");
}

/* ---- inside of tags ---- */

/* 1 if a name may begin with byte c: a letter or '_'. */
static int is_name_start(char c)
{
	return byte_is_letter(c) || c == '_';
}

static int hex_digits(const char *p, const char *end, int n, uint32_t *out)
{
	*out = 0;
	for (int i = 0; i < n; i++) {
		const char *digits = "0123456789abcdef", *d;

		if (p + i >= end || !p[i] || !(d = strchr(digits, p[i] | 32)))
			return 0;
		*out = *out * 16 + (uint32_t)(d - digits);
	}
	return 1;
}

/* Add a string literal, with its escapes decoded. */
static void add_string(struct lexer *x, const char *p, const char *end)
{
	static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
	char *s = work_alloc(x->w, (size_t)(end - p) + 1), *o = s;

	while (p < end) {
		const char *known;
		uint32_t cp;

		if (*p != '\\' || p + 1 == end) {
			*o++ = *p++;
			continue;
		}
		p++;
		known = *p ? strchr(from, *p) : NULL;
		if (known) {
			*o++ = to[known - from];
			p++;
		} else if (*p == '\n') {
			p++;
		} else if (*p >= '0' && *p <= '7') {
			cp = 0;
			for (int i = 0; i < 3 && p < end && *p >= '0' && *p <= '7'; i++)
				cp = cp * 8 + (uint32_t)(*p++ - '0');
			o += utf8_encode((int32_t)cp, o);
		} else if (*p == 'x' || *p == 'u' || *p == 'U') {
			int n = *p == 'x' ? 2 : *p == 'u' ? 4 : 8;

			if (!hex_digits(p + 1, end, n, &cp) || cp > 0x10ffff)
				jinja_fail(x->w, "a string has a broken escape '\\%c'", *p);
			o += utf8_encode((int32_t)cp, o);
			p += 1 + n;
		} else {
			*o++ = '\\';
		}
	}
	token_add(x, T_STRING, s, (size_t)(o - s));
}

static void lex_string(struct lexer *x)
{
	const char *s = x->p + 1;

	while (s < x->end && *s != *x->p)
		s += *s == '\\' && s + 1 < x->end ? 2 : 1;
	if (s >= x->end)
		jinja_fail(x->w, "a string is not closed");
	add_string(x, x->p + 1, s);
	lexer_skip(x, (size_t)(s + 1 - x->p));
}

static size_t count_digits(const char *p, const char *end)
{
	const char *s = p;

	while (s < end && (byte_is_digit(*s) || (*s == '_' && s > p && s + 1 < end && byte_is_digit(s[1]))))
		s++;
	return (size_t)(s - p);
}

static void lex_number(struct lexer *x)
{
	const char *s = x->p + count_digits(x->p, x->end), *real = s;
	char text[64];
	size_t n = 0;
	struct token *t;

	if (real + 1 < x->end && *real == '.' && byte_is_digit(real[1]))
		real += 1 + count_digits(real + 1, x->end);
	if (real + 1 < x->end && (*real | 32) == 'e') {
		const char *e = real + 1 + (real[1] == '+' || real[1] == '-');

		if (e < x->end && byte_is_digit(*e))
			real = e + count_digits(e, x->end);
	}
	for (const char *c = x->p; c < real; c++) {
		if (n == sizeof text - 1)
			jinja_fail(x->w, "a number is too long");
		if (*c != '_')
			text[n++] = *c;
	}
	text[n] = 0;
	t = token_add(x, real > s ? T_REAL : T_INT, x->p, (size_t)(real - x->p));
	errno = 0;
	if (real > s)
		t->real = strtod(text, NULL);
	else
		t->i = strtoll(text, NULL, 10);
	if (errno == ERANGE && real == s)
		jinja_fail(x->w, "the number %s is too large", text);
	lexer_skip(x, (size_t)(real - x->p));
}

static void lex_mark(struct lexer *x)
{
	static const char *const two[] = { "//", "**", "==", "!=", ">=", "<=" };
	size_t n = 1;

	for (size_t i = 0; i < LEN(two); i++)
		if (lexer_starts(x, two[i]))
			n = 2;
	if (n == 1 && !strchr("+-/*%~[](){}<>=.:|,;", *x->p)) {
		int32_t cp;
		int len = utf8_decode(x->p, (size_t)(x->end - x->p), &cp);

		jinja_fail(x->w, "'%.*s' has no meaning in a tag", len, x->p);
	}
	token_add(x, T_MARK, x->p, n);
	lexer_skip(x, n);
}

/* Add the tokens of a tag, up to its closing mark. */
static void lex_tag(struct lexer *x, const char *end_mark, enum token_kind end_kind)
{
	char open[JINJA_NEST_MAX];
	int depth = 0;

	for (;;) {
		char c;

		skip_blanks(x);
		if (x->p == x->end)
			jinja_fail(x->w, "a tag is not closed");
		c = *x->p;
		if (!depth) {
			char sign = c == '-' || (c == '+' && *end_mark == '%') ? c : 0;
			const char *s = x->p + (sign != 0);

			if (x->end - s >= 2 && !memcmp(s, end_mark, 2)) {
				token_add(x, end_kind, s, 2);
				lexer_skip(x, sign != 0);
				if (*end_mark == '%') {
					close_tag(x, 2, sign);
				} else {
					lexer_skip(x, 2);
					if (sign)
						skip_blanks(x);
				}
				return;
			}
		}
		if (c && strchr("([{", c)) {
			if (depth == JINJA_NEST_MAX)
				jinja_fail(x->w, "brackets are nested more than %d deep", JINJA_NEST_MAX);
			open[depth++] = c == '(' ? ')' : (char)(c + 2);
		} else if (c && strchr(")]}", c) && (!depth || open[--depth] != c)) {
			jinja_fail(x->w, "'%c' closes nothing", c);
		}
		if (c == '\'' || c == '"') {
			lex_string(x);
		} else if (byte_is_digit(c)) {
			lex_number(x);
		} else if (is_name_start(c)) {
			const char *s = x->p;

			while (s < x->end && (is_name_start(*s) || byte_is_digit(*s)))
				s++;
			token_add(x, T_NAME, x->p, (size_t)(s - x->p));
			lexer_skip(x, (size_t)(s - x->p));
		} else {
			if (!c)
				jinja_fail(x->w, "a zero byte stands in a tag");
			lex_mark(x);
		}
	}
}

/* Return a copy of the text in which every "\r\n" and "\r" is "\n". One newline at the end is removed. */
static char *plain_newlines(struct work *w, const char *text, size_t n, size_t *out)
{
	char *s = work_alloc(w, n + 1), *o = s;

	for (size_t i = 0; i < n; i++) {
		if (text[i] == '\r' && i + 1 < n && text[i + 1] == '\n')
			i++;
		*o++ = text[i] == '\r' ? '\n' : text[i];
	}
	if (o > s && o[-1] == '\n')
		o--;
	*out = (size_t)(o - s);
	return s;
}

void jinja_lex(struct work *w, const char *text, size_t n, struct lexed *out)
{
	struct lexer x = { .w = w, .line = 1, .line_start = 1, .out = out };

	x.p = plain_newlines(w, text, n, &n);
	x.end = x.p + n;
	while (x.p < x.end) {
		const char *tag = x.p;
		char sign, kind;

		while ((tag = memchr(tag, '{', (size_t)(x.end - tag))) &&
		       (tag + 1 == x.end || !strchr("{%#", tag[1]) || !tag[1]))
			tag++;
		if (!tag) {
			token_add(&x, T_TEXT, x.p, (size_t)(x.end - x.p));
			lexer_skip(&x, (size_t)(x.end - x.p));
			break;
		}
		kind = tag[1];
		sign = tag + 2 < x.end ? tag[2] : 0;
		add_text(&x, x.p, (size_t)(tag - x.p), sign, kind == '{');
		if (tag > x.p)
			lexer_skip(&x, (size_t)(tag - x.p));
		if (kind == '#') {
			skip_comment(&x);
		} else if (kind == '{') {
			token_add(&x, T_PRINT, x.p, 2);
			lexer_skip(&x, 2 + (sign == '-' || sign == '+'));
			lex_tag(&x, "}}", T_PRINT_END);
		} else if (!lex_raw(&x)) {
			token_add(&x, T_BLOCK, x.p, 2);
			lexer_skip(&x, 2 + (sign == '-' || sign == '+'));
			lex_tag(&x, "%}", T_BLOCK_END);
		}
	}
	token_add(&x, T_END, x.p, 0);
}
