/* engine/chat_parse.c - parses the text of a chat template (Jinja) into a tree of blocks and tokens.
 *
 * White space is controlled as in the publishers' own tools (trim_blocks and lstrip_blocks on, one newline at the end dropped);
 * the text that remains outside tags is output.  Strings are decoded, x['name'] becomes x.name, None, True and False become
 * none, true and false.  Statements are if, for, set, macro, break and continue; another tag is an error that names it, since
 * skipping it could lose output. */
#include "engine/chat_tree.h"

#include <stdlib.h>
#include <string.h>

/* ---- characters ---- */

/* White space of Python's str.strip(). */
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
		return chat_refuse(s, "it has too many tags and words");
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
		return chat_refuse(s, "it has too many tags and words"), (size_t)0;
	if (s->n_node == s->cap_node) {
		s->cap_node = s->cap_node ? s->cap_node * 2 : 128;
		s->node = xrealloc(s->node, s->cap_node * sizeof *s->node);
	}
	s->node[s->n_node] = (struct node){ .kind = kind };
	return ++s->n_node;
}

/* ---- tags ---- */

/* Decode the string literal whose opening quote is src[*i]; *i ends behind the closing quote. */
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
					return chat_refuse(s, "a string in it has an escape that is not supported");
				v = v * 16 + (int32_t)(q - hex);
			}
			if (v >= 0xd800 && v < 0xe000)
				return chat_refuse(s, "a string in it has an escape that is not supported");
			str_add(&s->pool, u, (size_t)utf8_encode(v, u));
			k += (size_t)digits;
			break;
		}
		case 'N': case 'U': case 'a': case 'b': case 'f': case 'v':
		case '0': case '1': case '2': case '3': case '4': case '5': case '6': case '7':
			return chat_refuse(s, "a string in it has an escape that is not supported");
		default:        /* as in Python: the backslash stays */
			str_add(&s->pool, "\\", 1);
			str_add(&s->pool, &c, 1);
		}
	}
	if (k >= n)
		return chat_refuse(s, "a string in it does not end");
	*i = k + 1;
	return tok_add(s, TOK_STR, start, s->pool.n - start);
}

/* If the last tokens are x['name'], replace them by x.name. */
static int subscript_to_attribute(struct skel *s)
{
	static const char *const operators[] = { "in", "or", "and", "if", "else", "not" };
	size_t n = s->n_tok, j = 0, start = s->pool.n;
	struct tok t;

	if (n < 4 || !tok_is(s, n - 1, "]") || s->tok[n - 2].kind != TOK_STR || !tok_is(s, n - 3, "[") ||
	    (s->tok[n - 4].kind != TOK_NAME && !tok_is(s, n - 4, "]") && !tok_is(s, n - 4, ")")))
		return 0;
	for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
		if (tok_is(s, n - 4, operators[i]))   /* a list follows, not a subscript */
			return 0;
	t = s->tok[n - 2];
	while (j < t.len && is_name((unsigned char)at(s, t.off)[j]))
		j++;
	if (!t.len || j < t.len || (at(s, t.off)[0] >= '0' && at(s, t.off)[0] <= '9'))
		return 0;
	s->n_tok -= 3;
	str_add(&s->pool, ".", 1);
	return tok_add(s, TOK_OP, start, 1) || tok_add(s, TOK_NAME, t.off, t.len) ? -1 : 0;
}

/* Read the tokens of one tag from src[*pos] on.  *pos ends behind its end mark ("}}" or "%}") and behind the white space that the
 * mark strips; *line: the text from there on begins a line. */
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
			/* Python's None, True, False are Jinja's none, true, false. */
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
				return chat_refuse(s, "a tag in it has a character that is not supported");
			}
			str_add(&s->pool, p + i, k);
			if (tok_add(s, TOK_OP, start, k))
				return -1;
			i += k;
		}
		if (subscript_to_attribute(s))
			return -1;
	}
}

/* ---- the tree ---- */

struct block {               /* a block whose end tag has not been read yet */
	size_t node, tail;       /* the node that receives children, and its last child (0: none) */
	const char *end;         /* name of the end tag; NULL: the template itself */
};

struct parser {
	struct skel *s;
	size_t i;                /* offset in src */
	int line;                /* the text at i begins a line */
	struct block open[MAX_DEPTH];
	size_t top;              /* index of the innermost open block */
};

/* Append node k to the innermost open block. */
static void link_node(struct parser *ps, size_t k)
{
	struct block *b = &ps->open[ps->top];

	if (b->tail)
		ps->s->node[b->tail - 1].next = k;
	else
		ps->s->node[b->node - 1].child = k;
	b->tail = k;
}

static int add_text(struct parser *ps, const char *p, size_t n)
{
	struct skel *s = ps->s;
	size_t k;

	if (!n)
		return 0;
	if (!(k = chat_node(s, N_OUT)))
		return -1;
	s->node[k - 1].is_text = 1;
	s->node[k - 1].off = s->pool.n;
	s->node[k - 1].len = n;
	str_add(&s->pool, p, n);
	link_node(ps, k);
	return 0;
}

/* Offset of the next "{{", "{%" or "{#" from i on, or the end of the template. */
static size_t next_tag(const struct skel *s, size_t i)
{
	const char *p = s->src.p;
	size_t n = s->src.n;

	for (; i < n; i++) {
		const char *q = memchr(p + i, '{', n - i);

		i = q ? (size_t)(q - p) : n;
		if (i + 1 < n && (p[i + 1] == '{' || p[i + 1] == '%' || p[i + 1] == '#'))
			break;
	}
	return i < n ? i : n;
}

/* Add the text from i to the tag at `tag`, without the white space that the tag strips: all of it before "{%-"; otherwise, before
 * statements and comments without "+", the indentation of a tag that begins its line. */
static int text_before(struct parser *ps, size_t tag)
{
	const char *p = ps->s->src.p, *text = p + ps->i;
	size_t n = tag - ps->i;
	char sign = tag + 2 < ps->s->src.n ? p[tag + 2] : 0;

	if (sign == '-') {
		chat_strip(text, &n, STRIP_RIGHT);
	} else if (sign != '+' && p[tag + 1] != '{') {
		size_t start = n, indent;

		while (start && text[start - 1] != '\n')
			start--;
		indent = n - start;
		if (start || ps->line) {
			chat_strip(text + start, &indent, STRIP_RIGHT);
			if (!indent)
				n = start;
		}
	}
	return add_text(ps, text, n);
}

/* Skip the comment whose "{#" is at `tag`, and the white space that it strips after it. */
static int skip_comment(struct parser *ps, size_t tag)
{
	const char *p = ps->s->src.p, *q;
	size_t n = ps->s->src.n, from = tag + 2, end;
	char sign;

	if (!(q = memmem(p + from, n - from, "#}", 2)))
		return chat_refuse(ps->s, "a comment in it does not end");
	end = (size_t)(q - p);
	sign = end > from ? p[end - 1] : 0;
	ps->i = end + 2;
	ps->line = 0;
	if (sign == '-') {
		size_t left = n - ps->i, was = ps->i;

		ps->i = (size_t)(chat_strip(p + ps->i, &left, STRIP_LEFT) - p);
		ps->line = ps->i > was && p[ps->i - 1] == '\n';
	} else if (sign != '+' && ps->i < n && p[ps->i] == '\n') {
		ps->i++;
		ps->line = 1;
	}
	return 0;
}

/* Add a node for the tokens a .. b. */
static size_t add_node(struct parser *ps, enum node_kind kind, size_t a, size_t b)
{
	size_t k = chat_node(ps->s, kind);

	if (k) {
		ps->s->node[k - 1].a = a;
		ps->s->node[k - 1].b = b;
	}
	return k;
}

/* What follows belongs to node `body`, until the tag `end`. */
static int open_block(struct parser *ps, size_t body, const char *end)
{
	if (ps->top + 1 >= MAX_DEPTH)
		return chat_refuse(ps->s, "it is nested too deeply");
	ps->open[++ps->top] = (struct block){ .node = body, .end = end };
	return 0;
}

static int read_if(struct parser *ps, size_t a, size_t b)
{
	size_t k = add_node(ps, N_IF, a + 1, b), branch;

	if (!k)
		return -1;
	link_node(ps, k);
	if (!(branch = add_node(ps, N_BRANCH, a + 1, b)))
		return -1;
	ps->s->node[k - 1].child = branch;
	return open_block(ps, branch, "endif");
}

/* elif and else. */
static int read_branch(struct parser *ps, size_t a, size_t b)
{
	struct block *open = &ps->open[ps->top];
	struct skel *s = ps->s;
	size_t k;

	if (!ps->top || strcmp(open->end, "endif") || s->node[open->node - 1].is_else)
		return chat_refuse(s, "its blocks are not properly nested");
	if (!(k = add_node(ps, N_BRANCH, a + 1, b)))
		return -1;
	s->node[k - 1].is_else = tok_is(s, a, "else");
	s->node[open->node - 1].next = k;
	open->node = k;
	open->tail = 0;
	return 0;
}

static int read_for(struct parser *ps, size_t a, size_t b)
{
	size_t k = add_node(ps, N_FOR, a + 1, b);

	if (!k)
		return -1;
	link_node(ps, k);
	return open_block(ps, k, "endfor");
}

/* "set x = value", "set ns.x = value", or "set x" with a block up to endset. */
static int read_set(struct parser *ps, size_t a, size_t b)
{
	struct skel *s = ps->s;
	struct node *node;
	int has_value = 0;
	size_t k, j;

	for (j = a; j < b && !has_value; j++)
		has_value = tok_is(s, j, "=");
	if (!(k = add_node(ps, has_value ? N_SET : N_SETBLOCK, a + 1, b)))
		return -1;
	link_node(ps, k);
	if (b - a < 2 || s->tok[a + 1].kind != TOK_NAME)
		return chat_refuse(s, "a 'set' in it has a form that is not supported");
	node = &s->node[k - 1];
	node->name = s->pool.n;
	for (j = a + 1; j < b && !tok_is(s, j, "=") && !tok_is(s, j, "|"); j++) {
		if (tok_is(s, j, ",") || s->tok[j].kind == TOK_STR)
			return chat_refuse(s, "a 'set' in it has a form that is not supported");
		/* One byte at a time: the source is in the pool as well, which moves when it grows. */
		for (size_t at = 0; at < s->tok[j].len; at++) {
			char c = s->pool.p[s->tok[j].off + at];
			str_add(&s->pool, &c, 1);
		}
	}
	if (!has_value && j < b)
		return chat_refuse(s, "it uses a 'set' block with a filter, which is not supported");
	node->name_len = s->pool.n - node->name;
	node->a = has_value ? j + 1 : b;
	return has_value ? 0 : open_block(ps, k, "endset");
}

static int read_macro(struct parser *ps, size_t a, size_t b)
{
	struct skel *s = ps->s;
	size_t k = add_node(ps, N_MACRO, a + 1, b);

	if (!k)
		return -1;
	link_node(ps, k);
	if (b - a < 2 || s->tok[a + 1].kind != TOK_NAME)
		return chat_refuse(s, "a macro in it has no name");
	s->node[k - 1].name = s->tok[a + 1].off;
	s->node[k - 1].name_len = s->tok[a + 1].len;
	return open_block(ps, k, "endmacro");
}

static int refuse_tag(struct skel *s, const struct tok *t)
{
	char name[24] = "";
	size_t len = t->len < sizeof name - 1 ? t->len : sizeof name - 1;

	memcpy(name, at(s, t->off), len);
	for (size_t j = 0; j < len; j++)
		if (!is_name((unsigned char)name[j]))
			name[j] = '?';
	return err_set(s->e, ERR_MODEL, "it uses the tag '%s', which is not supported", name);
}

/* A statement tag whose tokens are a .. b. */
static int read_statement(struct parser *ps, size_t a, size_t b)
{
	struct skel *s = ps->s;
	size_t k;

	if (a == b)
		return chat_refuse(s, "a tag in it is empty");
	if (tok_is(s, a, "if"))
		return read_if(ps, a, b);
	if (tok_is(s, a, "for"))
		return read_for(ps, a, b);
	if (tok_is(s, a, "set"))
		return read_set(ps, a, b);
	if (tok_is(s, a, "macro"))
		return read_macro(ps, a, b);
	if (tok_is(s, a, "elif") || tok_is(s, a, "else"))
		return read_branch(ps, a, b);
	if (tok_is(s, a, "break") || tok_is(s, a, "continue")) {
		if (!(k = add_node(ps, N_JUMP, a, b)))
			return -1;
		link_node(ps, k);
		return 0;
	}
	if (ps->top && tok_is(s, a, ps->open[ps->top].end)) {
		ps->top--;
		return 0;
	}
	return refuse_tag(s, &s->tok[a]);
}

static int parse(struct skel *s)
{
	struct parser ps = { .s = s, .line = 1 };
	const char *p = s->src.p;

	ps.open[0].node = chat_node(s, N_BRANCH);
	for (;;) {
		size_t tag = next_tag(s, ps.i), a = s->n_tok, k;

		if (tag == s->src.n) {
			if (add_text(&ps, p + ps.i, tag - ps.i))
				return -1;
			break;
		}
		if (text_before(&ps, tag))
			return -1;
		if (p[tag + 1] == '#') {
			if (skip_comment(&ps, tag))
				return -1;
			continue;
		}
		ps.i = tag + 2;
		if (ps.i < s->src.n && (p[ps.i] == '-' || p[ps.i] == '+'))
			ps.i++;
		if (read_tag(s, &ps.i, p[tag + 1] == '{' ? "}}" : "%}", &ps.line))
			return -1;
		if (p[tag + 1] == '{') {
			if (!(k = add_node(&ps, N_OUT, a, s->n_tok)))
				return -1;
			link_node(&ps, k);
		} else if (read_statement(&ps, a, s->n_tok)) {
			return -1;
		}
	}
	return ps.top ? chat_refuse(s, "its blocks are not properly nested") : 0;
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
