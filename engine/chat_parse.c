/* engine/chat_parse.c - read a chat template's text into a tree of blocks and tokens.
 *
 * White space control is applied the way the publishers' own tools do (trim_blocks and lstrip_blocks on, one newline at
 * the end dropped), so that what is left of the text outside tags is output.  Strings are decoded, x['name'] becomes
 * x.name, None and True are written none and true.  Tags that are not among if, for, set, macro, break and continue
 * refuse the template by name: nothing is skipped that might print. */
#include "engine/chat_tree.h"

#include <stdlib.h>
#include <string.h>

/* ---- characters ---- */

static int is_white(int32_t c)
{
	return (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
	       (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

const char *chat_strip(const char *p, size_t *n, int sides)
{
	size_t i = 0, end = *n;
	int32_t c;

	while ((sides & STRIP_LEFT) && i < end) {
		int k = utf8_decode(p + i, end - i, &c);
		if (!is_white(c))
			break;
		i += (size_t)k;
	}
	while ((sides & STRIP_RIGHT) && end > i) {
		size_t j = end - 1;
		while (j > i && end - j < 4 && ((unsigned char)p[j] & 0xc0) == 0x80)
			j--;
		if (utf8_decode(p + j, end - j, &c) != (int)(end - j) || !is_white(c))
			break;
		end = j;
	}
	*n = end - i;
	return p + i;
}

/* ---- building blocks ---- */

int chat_refuse(struct skel *s, const char *why)
{
	return err_set(s->e, ERR_MODEL, "%s", why);
}

static int tok_add(struct skel *s, enum tok_kind kind, size_t off, size_t len)
{
	if (s->n_tok >= MAX_TOKENS)
		return chat_refuse(s, "it is too long");
	if (s->n_tok == s->cap_tok) {
		s->cap_tok = s->cap_tok ? s->cap_tok * 2 : 256;
		s->tok = xrealloc(s->tok, s->cap_tok * sizeof *s->tok);
	}
	s->tok[s->n_tok++] = (struct tok){ kind, off, len };
	return 0;
}

size_t chat_node(struct skel *s, enum node_kind kind)
{
	if (s->n_node >= MAX_NODES)
		return chat_refuse(s, "it is too long"), (size_t)0;
	if (s->n_node == s->cap_node) {
		s->cap_node = s->cap_node ? s->cap_node * 2 : 128;
		s->node = xrealloc(s->node, s->cap_node * sizeof *s->node);
	}
	s->node[s->n_node] = (struct node){ .kind = kind };
	return ++s->n_node;
}

/* ---- reading tags ---- */

/* Decode the string literal whose opening quote is src[i]; *i ends behind the closing quote. */
static int read_string(struct skel *s, size_t *i)
{
	const char *p = s->src.p;
	size_t n = s->src.n, k = *i + 1, start = s->pool.n;
	char quote = p[*i];

	for (; k < n && p[k] != quote; k++) {
		char c = p[k], u[4];
		if (c != '\\' || k + 1 >= n) {
			str_add(&s->pool, &c, 1);
			continue;
		}
		c = p[++k];
		switch (c) {
		case 'n': str_add(&s->pool, "\n", 1); break;
		case 't': str_add(&s->pool, "\t", 1); break;
		case 'r': str_add(&s->pool, "\r", 1); break;
		case '\n': break;
		case '\\': case '\'': case '"': str_add(&s->pool, &c, 1); break;
		case 'u': case 'x': {
			int digits = c == 'u' ? 4 : 2, j;
			int32_t v = 0;
			for (j = 0; j < digits; j++) {
				const char *hex = "0123456789abcdef";
				char d = k + 1 + (size_t)j < n ? (char)(p[k + 1 + (size_t)j] | 0x20) : '?';
				const char *q = d ? strchr(hex, d) : NULL;
				if (!q)
					return chat_refuse(s, "a string in it cannot be read");
				v = v * 16 + (int32_t)(q - hex);
			}
			if (v >= 0xd800 && v < 0xe000)
				return chat_refuse(s, "a string in it cannot be read");
			str_add(&s->pool, u, (size_t)utf8_encode(v, u));
			k += (size_t)digits;
			break;
		}
		case 'N': case 'U': case 'a': case 'b': case 'f': case 'v':
		case '0': case '1': case '2': case '3': case '4': case '5': case '6': case '7':
			return chat_refuse(s, "a string in it cannot be read");
		default:        /* as Python does: not an escape */
			str_add(&s->pool, "\\", 1);
			str_add(&s->pool, &c, 1);
		}
	}
	if (k >= n)
		return chat_refuse(s, "a string in it does not end");
	*i = k + 1;
	return tok_add(s, TOK_STR, start, s->pool.n - start);
}

/* Tokens of one tag from src[*i] up to its end mark ("}}" or "%}"), which is consumed with what white space
 * control takes after it.  *line: did that end with a newline? */
static int read_tag(struct skel *s, size_t *pos, const char *end, int *line)
{
	const char *p = s->src.p;
	size_t n = s->src.n, i = *pos, depth = 0;

	for (;;) {
		size_t start;
		while (i < n && strchr(" \t\n\r\f\v", p[i]))
			i++;
		if (i >= n)
			return chat_refuse(s, "a tag in it does not end");
		if (!depth && i + 2 < n && (p[i] == '-' || (p[i] == '+' && *end == '%')) && !memcmp(p + i + 1, end, 2)) {
			size_t after = i + 3, left = n - after;
			if (p[i] == '-')
				after = (size_t)(chat_strip(p + after, &left, STRIP_LEFT) - p);
			*line = after > i + 3 && p[after - 1] == '\n';
			*pos = after;
			return 0;
		}
		if (!depth && i + 1 < n && !memcmp(p + i, end, 2)) {
			i += 2;
			*line = *end == '%' && i < n && p[i] == '\n';
			*pos = i + (size_t)*line;
			return 0;
		}
		start = s->pool.n;
		if (p[i] == '\'' || p[i] == '"') {
			if (read_string(s, &i))
				return -1;
		} else if (is_name((unsigned char)p[i]) || (unsigned char)p[i] >= 0x80) {
			size_t k = i;
			while (k < n && (is_name((unsigned char)p[k]) || (unsigned char)p[k] >= 0x80))
				k++;
			str_add(&s->pool, p + i, k - i);
			/* Python's spellings */
			if (bytes_are(p + i, k - i, "None") || bytes_are(p + i, k - i, "True") || bytes_are(p + i, k - i, "False"))
				s->pool.p[start] |= 0x20;
			if (tok_add(s, p[i] >= '0' && p[i] <= '9' ? TOK_NUM : TOK_NAME, start, k - i))
				return -1;
			i = k;
		} else {
			size_t k = i + 1 < n && ((p[i + 1] == '=' && strchr("=!<>", p[i])) ||
			                         (p[i] == p[i + 1] && strchr("/*", p[i]))) ? 2 : 1;
			if (strchr("([{", p[i])) {
				if (++depth > MAX_DEPTH)
					return chat_refuse(s, "it is nested too deeply");
			} else if (strchr(")]}", p[i]) && depth) {
				depth--;
			} else if (!strchr("=!<>+-*/%~|.,:)]}", p[i])) {
				return chat_refuse(s, "a tag in it cannot be read");
			}
			str_add(&s->pool, p + i, k);
			if (tok_add(s, TOK_OP, start, k))
				return -1;
			i += k;
		}
		/* x['name'] is x.name */
		if (s->n_tok >= 4 && tok_is(s, s->n_tok - 1, "]") && s->tok[s->n_tok - 2].kind == TOK_STR &&
		    tok_is(s, s->n_tok - 3, "[") && (s->tok[s->n_tok - 4].kind == TOK_NAME ||
		    tok_is(s, s->n_tok - 4, "]") || tok_is(s, s->n_tok - 4, ")")) &&
		    !tok_is(s, s->n_tok - 4, "in") && !tok_is(s, s->n_tok - 4, "or") && !tok_is(s, s->n_tok - 4, "and") &&
		    !tok_is(s, s->n_tok - 4, "if") && !tok_is(s, s->n_tok - 4, "else") && !tok_is(s, s->n_tok - 4, "not")) {
			struct tok t = s->tok[s->n_tok - 2];
			size_t j = 0;
			while (j < t.len && is_name((unsigned char)at(s, t.off)[j]))
				j++;
			if (t.len && j == t.len && !(at(s, t.off)[0] >= '0' && at(s, t.off)[0] <= '9')) {
				s->n_tok -= 3;
				start = s->pool.n;
				str_add(&s->pool, ".", 1);
				if (tok_add(s, TOK_OP, start, 1) || tok_add(s, TOK_NAME, t.off, t.len))
					return -1;
			}
		}
	}
}

/* Append node k to the list under construction. */
static void link_node(struct skel *s, size_t parent, size_t *tail, size_t k)
{
	if (*tail)
		s->node[*tail - 1].next = k;
	else
		s->node[parent - 1].child = k;
	*tail = k;
}

static int add_text(struct skel *s, size_t parent, size_t *tail, const char *p, size_t n)
{
	size_t k;
	if (!n)
		return 0;
	if (!(k = chat_node(s, N_OUT)))
		return -1;
	s->node[k - 1].is_text = 1;
	s->node[k - 1].off = s->pool.n;
	s->node[k - 1].len = n;
	str_add(&s->pool, p, n);
	link_node(s, parent, tail, k);
	return 0;
}

static int parse(struct skel *s)
{
	struct { size_t node, tail, close; const char *end; } st[MAX_DEPTH];
	const char *p = s->src.p;
	size_t n = s->src.n, i = 0, top = 0;
	int line = 1;

	st[0].node = chat_node(s, N_BRANCH);
	st[0].tail = 0;
	st[0].end = NULL;
	for (;;) {
		size_t k = i, text_end, a;
		while (k < n) {      /* the next tag */
			const char *q = memchr(p + k, '{', n - k);
			k = q ? (size_t)(q - p) : n;
			if (k + 1 < n && strchr("{%#", p[k + 1]) && p[k + 1])
				break;
			k = k < n ? k + 1 : n;
		}
		text_end = k < n ? k : n;
		if (k < n) {
			size_t m = text_end - i;
			char sign = k + 2 < n ? p[k + 2] : 0;
			if (sign == '-') {
				chat_strip(p + i, &m, STRIP_RIGHT);
			} else if (sign != '+' && p[k + 1] != '{') {
				size_t l = m, w;
				while (l && p[i + l - 1] != '\n')
					l--;
				w = m - l;
				if (l || line) {
					chat_strip(p + i + l, &w, STRIP_RIGHT);
					if (!w)
						m = l;
				}
			}
			if (add_text(s, st[top].node, &st[top].tail, p + i, m))
				return -1;
		} else {
			if (add_text(s, st[top].node, &st[top].tail, p + i, n - i))
				return -1;
			break;
		}
		i = k + 2;
		if (p[k + 1] == '#') {
			const char *q = memmem(p + i, n - i, "#}", 2);
			size_t e;
			if (!q)
				return chat_refuse(s, "a comment in it does not end");
			e = (size_t)(q - p);
			i = e + 2;
			line = 0;
			if (e > k + 2 && p[e - 1] == '-') {
				size_t left = n - i, was = i;
				i = (size_t)(chat_strip(p + i, &left, STRIP_LEFT) - p);
				line = i > was && p[i - 1] == '\n';
			} else if (!(e > k + 2 && p[e - 1] == '+') && i < n && p[i] == '\n') {
				i++;
				line = 1;
			}
			continue;
		}
		if (i < n && (p[i] == '-' || p[i] == '+'))
			i++;
		a = s->n_tok;
		if (read_tag(s, &i, p[k + 1] == '{' ? "}}" : "%}", &line))
			return -1;
		if (p[k + 1] == '{') {
			size_t o = chat_node(s, N_OUT);
			if (!o)
				return -1;
			s->node[o - 1].a = a;
			s->node[o - 1].b = s->n_tok;
			link_node(s, st[top].node, &st[top].tail, o);
			continue;
		}
		if (a == s->n_tok)
			return chat_refuse(s, "a tag in it is empty");
		{
			size_t b = s->n_tok, o;
			struct tok *t = s->tok + a;
			int is_if = tok_is(s, a, "if"), is_for = tok_is(s, a, "for"), is_macro = tok_is(s, a, "macro");
			int is_set = tok_is(s, a, "set"), jump = tok_is(s, a, "break") || tok_is(s, a, "continue");

			if (is_if || is_for || is_macro || is_set || jump) {
				int has_value = 0;
				size_t j;
				for (j = a; is_set && j < b && !has_value; j++)
					has_value = tok_is(s, j, "=");
				if (!(o = chat_node(s, is_if ? N_IF : is_for ? N_FOR : is_macro ? N_MACRO : jump ? N_JUMP :
				                   has_value ? N_SET : N_SETBLOCK)))
					return -1;
				s->node[o - 1].a = jump ? a : a + 1;
				s->node[o - 1].b = b;
				link_node(s, st[top].node, &st[top].tail, o);
				if (is_set) {      /* x or ns.x */
					if (b - a < 2 || t[1].kind != TOK_NAME)
						return chat_refuse(s, "an assignment in it cannot be read");
					s->node[o - 1].name = s->pool.n;
					for (j = a + 1; j < b && !tok_is(s, j, "=") && !tok_is(s, j, "|"); j++) {
						size_t off = s->tok[j].off, len = s->tok[j].len;
						if (tok_is(s, j, ",") || s->tok[j].kind == TOK_STR)
							return chat_refuse(s, "an assignment in it cannot be read");
						while (len--) {
							char c = s->pool.p[off++];
							str_add(&s->pool, &c, 1);
						}
					}
					if (!has_value && j < b)
						return chat_refuse(s, "it uses a filtered 'set' block");
					s->node[o - 1].name_len = s->pool.n - s->node[o - 1].name;
					s->node[o - 1].a = has_value ? j + 1 : b;
				} else if (is_macro) {
					if (b - a < 2 || t[1].kind != TOK_NAME)
						return chat_refuse(s, "a macro in it cannot be read");
					s->node[o - 1].name = t[1].off;
					s->node[o - 1].name_len = t[1].len;
				}
				if (is_if || is_for || is_macro || (is_set && !has_value)) {
					size_t body = o;
					if (top + 1 >= MAX_DEPTH)
						return chat_refuse(s, "it is nested too deeply");
					top++;
					st[top].close = o;
					st[top].end = is_if ? "endif" : is_for ? "endfor" : is_macro ? "endmacro" : "endset";
					if (is_if) {
						if (!(body = chat_node(s, N_BRANCH)))
							return -1;
						s->node[body - 1].a = a + 1;
						s->node[body - 1].b = b;
						s->node[o - 1].child = body;
					}
					st[top].node = body;
					st[top].tail = 0;
				}
			} else if (tok_is(s, a, "elif") || tok_is(s, a, "else")) {
				if (!top || strcmp(st[top].end, "endif") || s->node[st[top].node - 1].is_else)
					return chat_refuse(s, "its blocks do not fit together");
				if (!(o = chat_node(s, N_BRANCH)))
					return -1;
				s->node[o - 1].a = a + 1;
				s->node[o - 1].b = b;
				s->node[o - 1].is_else = tok_is(s, a, "else");
				s->node[st[top].node - 1].next = o;
				st[top].node = o;
				st[top].tail = 0;
			} else if (top && tok_is(s, a, st[top].end)) {
				top--;
			} else {
				char name[24] = "";
				size_t len = s->tok[a].len < sizeof name - 1 ? s->tok[a].len : sizeof name - 1, j;
				memcpy(name, at(s, s->tok[a].off), len);
				for (j = 0; j < len; j++)
					if (!is_name((unsigned char)name[j]))
						name[j] = '?';
				return err_set(s->e, ERR_MODEL, "it uses the tag '%s'", name);
			}
		}
	}
	return top ? chat_refuse(s, "its blocks do not fit together") : 0;
}

static void normalise_newlines(struct str *o, const char *text, size_t len)
{
	size_t i, from = 0;
	for (i = 0; i < len; i++)
		if (text[i] == '\r') {
			str_add(o, text + from, i - from);
			str_add(o, "\n", 1);
			if (i + 1 < len && text[i + 1] == '\n')
				i++;
			from = i + 1;
		}
	str_add(o, text + from, len - from);
	if (o->n && o->p[o->n - 1] == '\n')
		o->n--;          /* one newline at the end is not part of a template */
}

int chat_parse(struct skel *s, const char *text, size_t len)
{
	if (len > CHAT_TEMPLATE_MAX)
		return err_set(s->e, ERR_MODEL, "it has %zu bytes, the limit is %d", len, CHAT_TEMPLATE_MAX);
	if (!len || memchr(text, 0, len))
		return chat_refuse(s, len ? "it contains a zero byte" : "it is empty");
	normalise_newlines(&s->src, text, len);
	str_add(&s->pool, "", 0);
	return s->src.n ? parse(s) : chat_refuse(s, "it is empty");
}
