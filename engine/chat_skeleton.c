/* engine/chat_skeleton.c - reduces a chat template to its skeleton, the form in which families are recognised.
 *
 * Templates that render a plain text conversation alike are spelled in many ways: quotes, white space control, comments,
 * message['role'] or message.role, one long sum or many small outputs, with and without branches for tools.  The
 * skeleton is a canonical spelling of the parts that affect the output:
 *
 *   - comments are removed and white space control has been applied (trim_blocks and lstrip_blocks on, as model
 *     publishers assume); text outside tags is an output like any other;
 *   - outputs are split at top-level + and ~, neighbouring literals are joined:  {'<|im_start|>'}{message.role}{'\n'}
 *   - conditions that are known in a plain text chat are decided: there are no tools and no documents, no optional
 *     variable is set, contents are strings, roles are system, user and assistant.  Branches never taken are gone;
 *   - assignments nobody reads, unused macros, empty loops and empty branches are gone.
 *
 * Nothing is executed: no loop runs, no message is looked at, no value is computed beyond "undefined, none, false, true, empty,
 * a string".  Time is linear in the template but for small factors, nesting is bounded.  Hostile templates end as an
 * error or as a skeleton that no family has. */
#include "engine/chat_tree.h"

#include <stdlib.h>
#include <string.h>

/* ---- canonical text of token ranges ---- */

static void print_string(struct str *o, const char *p, size_t n)
{
	size_t i;
	str_add(o, "'", 1);
	for (i = 0; i < n; i++)
		switch (p[i]) {
		case '\n': str_add(o, "\\n", 2); break;
		case '\t': str_add(o, "\\t", 2); break;
		case '\r': str_add(o, "\\r", 2); break;
		case '\\': str_add(o, "\\\\", 2); break;
		case '\'': str_add(o, "\\'", 2); break;
		default: str_add(o, p + i, 1);
		}
	str_add(o, "'", 1);
}

static void print_tokens(struct skel *s, size_t a, size_t b, struct str *o)
{
	for (; a < b; a++) {
		const struct tok *t = s->tok + a;
		if (t->kind == TOK_STR) {
			print_string(o, at(s, t->off), t->len);
		} else {
			char last = o->n ? o->p[o->n - 1] : 0;
			if (t->kind != TOK_OP && o->n && (is_name((unsigned char)last) || (unsigned char)last >= 0x80 || last == '\''))
				str_add(o, " ", 1);
			str_add(o, at(s, t->off), t->len);
		}
	}
}

/* First token of [a, b) outside brackets that is one of the words (NULL-terminated), or b.  From the right when
 * last is set. */
static size_t find_top(struct skel *s, size_t a, size_t b, const char *const *words, int last)
{
	size_t i, found = b;
	int depth = 0;

	for (i = a; i < b; i++) {
		const struct tok *t = s->tok + i;
		const char *const *w;
		char c;
		if (t->kind == TOK_STR)
			continue;
		c = at(s, t->off)[0];
		if (t->kind == TOK_OP && strchr("([{", c))
			depth++;
		else if (t->kind == TOK_OP && strchr(")]}", c))
			depth--;
		else if (!depth)
			for (w = words; *w; w++)
				if (tok_is(s, i, *w)) {
					if (!last)
						return i;
					found = i;
				}
	}
	return found;
}

/* Drop brackets around the whole range. */
static void unwrap(struct skel *s, size_t *a, size_t *b)
{
	while (*b - *a >= 2 && tok_is(s, *a, "(") && tok_is(s, *b - 1, ")")) {
		int depth = 0;
		size_t i;
		for (i = *a; i < *b - 1; i++) {
			if (s->tok[i].kind != TOK_OP)
				continue;
			if (strchr("([{", at(s, s->tok[i].off)[0]))
				depth++;
			else if (strchr(")]}", at(s, s->tok[i].off)[0]) && !--depth)
				return;
			if (depth == 1 && tok_is(s, i, ","))
				return;         /* a tuple */
		}
		++*a, --*b;
	}
}

/* ---- known values ---- */

static const char *const words_or[] = { "or", NULL }, *const words_and[] = { "and", NULL };
static const char *const words_if[] = { "if", NULL }, *const words_else[] = { "else", NULL };
static const char *const words_plus[] = { "+", "~", NULL }, *const words_pipe[] = { "|", NULL };
static const char *const words_test[] = { "is", "in", "not", "==", "!=", "<", ">", "<=", ">=", NULL };
static const char *const words_low[] = { "or", "and", "not", "if", "is", "in", "==", "!=", "<", ">", "<=", ">=", "-", NULL };

static struct binding *find_binding(struct skel *s, const char *name, size_t n)
{
	size_t i;
	for (i = 0; i < s->n_env; i++)
		if (s->env[i].len == n && !memcmp(at(s, s->env[i].off), name, n))
			return s->env + i;
	return NULL;
}

static int bind(struct skel *s, size_t off, size_t len, enum state state)
{
	struct binding *b = find_binding(s, at(s, off), len);
	if (!b) {
		if (s->n_env == MAX_NAMES)
			return chat_refuse(s, "it defines too many names");
		b = s->env + s->n_env++;
		b->off = off;
		b->len = len;
	}
	b->state = state;
	return 0;
}

/* The state of a name that the template has not assigned. */
static enum state given_state(const char *p, size_t n)
{
	static const struct { const char *name; enum state state; } given[] = {
		{ "messages", S_MESSAGES }, { "none", S_NONE }, { "tools", S_NONE }, { "true", S_TRUE }, { "false", S_FALSE },
		{ "bos_token", S_STRING }, { "eos_token", S_STRING }, { "add_generation_prompt", S_UNKNOWN },
		{ "strftime_now", S_TRUE }, { "raise_exception", S_TRUE }, { "namespace", S_TRUE }, { "range", S_TRUE },
		{ "loop", S_TRUE },
	};
	size_t i;
	for (i = 0; i < sizeof given / sizeof *given; i++)
		if (bytes_are(p, n, given[i].name))
			return given[i].state;
	return S_UNDEF;
}

static enum state name_state(struct skel *s, size_t i)
{
	const char *p = at(s, s->tok[i].off);
	struct binding *b = find_binding(s, p, s->tok[i].len);
	return b ? b->state : given_state(p, s->tok[i].len);
}

/* messages[...], and the like: the state of an element or slice of a list of messages, else S_UNKNOWN. */
static enum state subscript_state(struct skel *s, size_t a, size_t b)
{
	size_t k;

	if (b - a < 4 || s->tok[a].kind != TOK_NAME || !tok_is(s, a + 1, "[") || !tok_is(s, b - 1, "]") ||
	    name_state(s, a) != S_MESSAGES)
		return S_UNKNOWN;
	for (k = a + 2; k < b - 1; k++)
		if (tok_is(s, k, "]"))
			return S_UNKNOWN;
	return find_top(s, a + 2, b - 1, (const char *[]){ ":", NULL }, 0) < b - 1 ? S_MESSAGES : S_MESSAGE;
}

/* Is [a, b) an expression that stands for a message? */
static int is_message(struct skel *s, size_t a, size_t b)
{
	if (b - a == 1 && s->tok[a].kind == TOK_NAME)
		return name_state(s, a) == S_MESSAGE;
	return subscript_state(s, a, b) == S_MESSAGE;
}

static enum state value_state(struct skel *s, size_t a, size_t b);
enum { C_FALSE, C_TRUE, C_OPEN, C_ERROR };
static int condition(struct skel *s, size_t a, size_t b, struct str *o, int *prec);

static int is_falsy(enum state v) { return v == S_UNDEF || v == S_NONE || v == S_FALSE || v == S_EMPTY; }
static int is_truthy(enum state v)
{
	return v == S_TRUE || v == S_TEXT || v == S_ROLE || v == S_MESSAGE;
}
static int is_string(enum state v) { return v == S_STRING || v == S_TEXT || v == S_ROLE; }

/* [a, b) is  X if C else Y  with C known: the branch taken, else 0. */
static int decide_inline(struct skel *s, size_t *a, size_t *b)
{
	size_t i, j;
	struct str o = {0};
	int c, prec;

	unwrap(s, a, b);
	i = find_top(s, *a, *b, words_if, 0);
	if (i == *b)
		return 0;
	j = find_top(s, i + 1, *b, words_else, 0);
	c = condition(s, i + 1, j, &o, &prec);
	str_free(&o);
	if (c == C_TRUE)
		*b = i;
	else if (c == C_FALSE && j < *b)
		*a = j + 1;
	else
		return 0;
	return 1;
}

/* X if C else Y. */
static enum state inline_if_state(struct skel *s, size_t a, size_t b)
{
	size_t i, j;
	enum state x, y;

	if (decide_inline(s, &a, &b))
		return value_state(s, a, b);
	i = find_top(s, a, b, words_if, 0);
	j = find_top(s, i, b, words_else, 0);
	if (j == b)
		return S_UNKNOWN;
	x = value_state(s, a, i);
	y = value_state(s, j + 1, b);
	return x == y ? x : S_UNKNOWN;
}

/* X or Y, with `or` at i. */
static enum state or_state(struct skel *s, size_t a, size_t i, size_t b)
{
	enum state x = value_state(s, a, i), y = value_state(s, i + 1, b);

	if (is_falsy(x))
		return y;
	if (is_truthy(x) || x == S_MESSAGES)
		return x;
	return x == S_STRING && (is_string(y) || (y == S_EMPTY && b - i == 2 &&
	       s->tok[i + 1].kind == TOK_STR)) ? S_STRING : S_UNKNOWN;
}

/* X + Y or X ~ Y, with the operator at i. */
static enum state plus_state(struct skel *s, size_t a, size_t i, size_t b)
{
	enum state x = value_state(s, a, i), y = value_state(s, i + 1, b);

	if (x == S_TEXT || y == S_TEXT || x == S_ROLE || y == S_ROLE)
		return S_TEXT;
	return x == S_STRING || y == S_STRING ? S_STRING : S_UNKNOWN;
}

/* X | FILTER, with the bar at i. */
static enum state filter_state(struct skel *s, size_t a, size_t i, size_t b)
{
	enum state x = value_state(s, a, i);

	if (b - i >= 5 && tok_is(s, i + 1, "default") && tok_is(s, i + 2, "(")) {
		size_t j = find_top(s, i + 3, b - 1, (const char *[]){ ",", NULL }, 0);
		if (x == S_UNDEF || (j < b - 1 && is_falsy(x)))
			return value_state(s, i + 3, j);
		return x;
	}
	if (x == S_ROLE && b - i == 2 && tok_is(s, i + 1, "lower"))
		return S_ROLE;
	if (is_string(x))
		if (tok_is(s, i + 1, "trim") || tok_is(s, i + 1, "string") || tok_is(s, i + 1, "replace"))
			return S_STRING;
	return S_UNKNOWN;
}

/* X.get('key') and X.get('key', default) of a message X. */
static enum state get_state(struct skel *s, size_t a, size_t b)
{
	size_t i;
	const struct tok *t;

	for (i = a; i + 3 < b; i++)
		if (tok_is(s, i, ".") && tok_is(s, i + 1, "get") && tok_is(s, i + 2, "(") && s->tok[i + 3].kind == TOK_STR)
			break;
	if (i + 3 >= b || !tok_is(s, b - 1, ")") || !is_message(s, a, i))
		return S_UNKNOWN;
	t = s->tok + i + 3;
	if (bytes_are(at(s, t->off), t->len, "content"))
		return S_STRING;
	if (bytes_are(at(s, t->off), t->len, "role"))
		return S_ROLE;
	if (i + 4 == b - 1)
		return S_NONE;
	return tok_is(s, i + 4, ",") ? value_state(s, i + 5, b - 1) : S_UNKNOWN;
}

static enum state value_inner(struct skel *s, size_t a, size_t b)
{
	size_t i;

	unwrap(s, &a, &b);
	if (a >= b)
		return S_UNKNOWN;
	if (find_top(s, a, b, words_if, 0) < b)
		return inline_if_state(s, a, b);
	if ((i = find_top(s, a, b, words_or, 0)) < b)
		return or_state(s, a, i, b);
	if (find_top(s, a, b, words_and, 0) < b || find_top(s, a, b, words_test, 0) < b) {
		struct str o = {0};
		int prec, c = condition(s, a, b, &o, &prec);
		str_free(&o);
		return c == C_TRUE ? S_TRUE : c == C_FALSE ? S_FALSE : S_UNKNOWN;
	}
	if ((i = find_top(s, a, b, words_plus, 0)) < b)
		return plus_state(s, a, i, b);
	if ((i = find_top(s, a, b, words_pipe, 1)) < b)
		return filter_state(s, a, i, b);
	if (b - a == 1) {
		if (s->tok[a].kind == TOK_STR)
			return s->tok[a].len ? S_TEXT : S_EMPTY;
		return s->tok[a].kind == TOK_NAME ? name_state(s, a) : S_UNKNOWN;
	}
	if (b - a == 2 && (tok_is(s, a, "[") || tok_is(s, a, "{")))
		return S_EMPTY;
	if (s->tok[a].kind == TOK_NAME && tok_is(s, a + 1, "(") && tok_is(s, b - 1, ")")) {
		struct binding *m = find_binding(s, at(s, s->tok[a].off), s->tok[a].len);
		/* A macro's value is text; macros are bound under their name and "(". */
		return m && m->state == S_TRUE ? S_STRING : S_UNKNOWN;
	}
	if (subscript_state(s, a, b) != S_UNKNOWN)
		return subscript_state(s, a, b);
	if (b - a >= 3 && tok_is(s, b - 2, ".") && is_message(s, a, b - 2))
		return tok_is(s, b - 1, "content") ? S_STRING : tok_is(s, b - 1, "role") ? S_ROLE : S_UNDEF;
	return get_state(s, a, b);
}

static enum state value_state(struct skel *s, size_t a, size_t b)
{
	enum state r;
	if (s->depth >= MAX_DEPTH)
		return S_UNKNOWN;
	s->depth++;
	r = value_inner(s, a, b);
	s->depth--;
	return r;
}

/* One comparison or test, no and/or/not around it. */
static int atom(struct skel *s, size_t a, size_t b)
{
	size_t i = find_top(s, a, b, words_test, 0), j;
	enum state v = value_state(s, a, i);
	int no = 0, r = C_OPEN;

	if (i == b && b - a == 1 && tok_is(s, a, "messages") && !find_binding(s, "messages", 8))
		return C_TRUE;          /* a conversation is never empty */
	if (i == b)
		return is_truthy(v) ? C_TRUE : is_falsy(v) ? C_FALSE : C_OPEN;
	j = i + 1;
	if (tok_is(s, i, "is")) {
		if (j < b && tok_is(s, j, "not"))
			no = 1, j++;
		if (b - j != 1)
			return C_OPEN;
		if (v == S_MESSAGE && tok_is(s, j, "mapping"))
			return C_TRUE ^ no;
		if (tok_is(s, j, "defined") || tok_is(s, j, "undefined")) {
			if (i - a == 1 && tok_is(s, a, "add_generation_prompt"))
				r = C_TRUE;
			else
				r = v == S_UNKNOWN ? C_OPEN : v == S_UNDEF ? C_FALSE : C_TRUE;
			if (tok_is(s, j, "undefined") && r != C_OPEN)
				no = !no;
		} else if (v == S_UNKNOWN) {
			return C_OPEN;
		} else if (tok_is(s, j, "none")) {
			r = v == S_NONE;
		} else if (tok_is(s, j, "string")) {
			r = v == S_EMPTY ? C_OPEN : is_string(v);
		} else if (tok_is(s, j, "mapping")) {
			r = v == S_EMPTY || v == S_MESSAGE ? C_OPEN : C_FALSE;
		} else if (tok_is(s, j, "iterable") || tok_is(s, j, "sequence")) {
			r = is_string(v) || v == S_MESSAGES ? C_TRUE : v == S_NONE || v == S_FALSE ? C_FALSE : C_OPEN;
		} else if (tok_is(s, j, "true")) {
			r = v == S_TRUE;
		} else if (tok_is(s, j, "false")) {
			r = v == S_FALSE;
		}
	} else if ((tok_is(s, i, "==") || tok_is(s, i, "!=")) && b - j == 1 && s->tok[j].kind == TOK_STR) {
		const struct tok *t = s->tok + j;
		no = tok_is(s, i, "!=");
		if (t->len && (is_falsy(v) || v == S_TRUE || v == S_MESSAGE || v == S_MESSAGES))
			r = C_FALSE;
		else if (v == S_ROLE && !bytes_are(at(s, t->off), t->len, "system") && !bytes_are(at(s, t->off), t->len, "user") &&
		         !bytes_are(at(s, t->off), t->len, "assistant"))
			r = C_FALSE;
	} else if ((tok_is(s, i, ">") || tok_is(s, i, "==")) && b - j == 1 && tok_is(s, j, "0") && i - a >= 3 &&
	           tok_is(s, i - 1, "length") && tok_is(s, i - 2, "|")) {
		enum state list = value_state(s, a, i - 2);
		no = tok_is(s, i, "==");
		if (list == S_MESSAGES && i - a == 3 && tok_is(s, a, "messages") && !find_binding(s, "messages", 8))
			r = C_TRUE;
		else if (is_falsy(list) || list == S_TEXT)
			r = list == S_TEXT;
	} else if (tok_is(s, i, "in") || (tok_is(s, i, "not") && j < b && tok_is(s, j, "in"))) {
		if (tok_is(s, i, "not"))
			no = 1, j++;
		if (i - a == 1 && s->tok[a].kind == TOK_STR && is_message(s, j, b))
			r = bytes_are(at(s, s->tok[a].off), s->tok[a].len, "content") ||
			    bytes_are(at(s, s->tok[a].off), s->tok[a].len, "role");
		else if (v == S_UNDEF)
			r = C_FALSE;
	}
	return r == C_OPEN ? C_OPEN : r ^ no;
}

static int condition_inner(struct skel *s, size_t a, size_t b, struct str *o, int *prec)
{
	int is_or, c, parts = 0;
	size_t i;

	unwrap(s, &a, &b);
	*prec = 0;
	if (a >= b)
		return chat_refuse(s, "a condition in it is empty"), C_ERROR;
	if (find_top(s, a, b, words_if, 0) < b) {
		print_tokens(s, a, b, o);
		return *prec = 3, C_OPEN;
	}
	is_or = find_top(s, a, b, words_or, 0) < b;
	if (is_or || find_top(s, a, b, words_and, 0) < b) {
		const char *const *word = is_or ? words_or : words_and;
		int last_prec = 0;
		struct str all = {0};
		for (;; a = i + 1) {
			struct str part = {0};
			i = find_top(s, a, b, word, 0);
			c = condition(s, a, i, &part, &last_prec);
			if (c == C_ERROR || c == (is_or ? C_TRUE : C_FALSE)) {
				str_free(&part);
				str_free(&all);
				return c;
			}
			if (c == C_OPEN) {
				int wrap = last_prec > (is_or ? 2 : 1);
				if (parts++)
					str_adds(&all, is_or ? " or " : " and ");
				str_adds(&all, wrap ? "(" : "");
				str_add(&all, part.p, part.n);
				str_adds(&all, wrap ? ")" : "");
			}
			str_free(&part);
			if (i == b)
				break;
		}
		*prec = parts > 1 ? (is_or ? 2 : 1) : last_prec;
		if (all.n)
			str_add(o, all.p, all.n);
		str_free(&all);
		return parts ? C_OPEN : is_or ? C_FALSE : C_TRUE;
	}
	if (tok_is(s, a, "not")) {
		struct str part = {0};
		int p;
		c = condition(s, a + 1, b, &part, &p);
		if (c == C_OPEN) {
			str_adds(o, p ? "not (" : "not ");
			str_add(o, part.p, part.n);
			str_adds(o, p ? ")" : "");
		}
		str_free(&part);
		return c == C_FALSE ? C_TRUE : c == C_TRUE ? C_FALSE : c;
	}
	c = atom(s, a, b);
	if (c == C_OPEN)
		print_tokens(s, a, b, o);
	return c;
}

/* Decide the condition, or print what is left of it.  *prec: 0 atom or not, 1 and, 2 or, 3 inline if. */
static int condition(struct skel *s, size_t a, size_t b, struct str *o, int *prec)
{
	int c;
	if (s->depth >= MAX_DEPTH)
		return chat_refuse(s, "it is nested too deeply"), C_ERROR;
	s->depth++;
	c = condition_inner(s, a, b, o, prec);
	s->depth--;
	return c;
}

/* ---- pruning ---- */

static void keep_text(struct skel *s, size_t k, struct str *o)
{
	s->node[k - 1].off = s->pool.n;
	s->node[k - 1].len = o->n;
	if (o->n)
		str_add(&s->pool, o->p, o->n);
	str_free(o);
}

struct list { size_t head, tail; };

static void list_add(struct skel *s, struct list *l, size_t k)
{
	s->node[k - 1].next = 0;
	if (l->tail)
		s->node[l->tail - 1].next = k;
	else
		l->head = k;
	l->tail = k;
}

/* Nodes for the output of expression [a, b). */
static int prune_output(struct skel *s, size_t a, size_t b, struct list *l)
{
	size_t i, k;
	struct str o = {0};

	unwrap(s, &a, &b);
	while (decide_inline(s, &a, &b))
		;
	if (a >= b)
		return 0;
	if (find_top(s, a, b, words_low, 0) == b) {
		while ((i = find_top(s, a, b, words_plus, 0)) < b) {
			if (prune_output(s, a, i, l))
				return -1;
			a = i + 1;
			if (find_top(s, a, b, words_plus, 0) == b)
				return prune_output(s, a, b, l);
		}
	}
	if (!(k = chat_node(s, N_OUT)))
		return -1;
	if (b - a == 1 && s->tok[a].kind == TOK_STR) {
		s->node[k - 1].is_text = 1;
		s->node[k - 1].off = s->tok[a].off;
		s->node[k - 1].len = s->tok[a].len;
		if (s->tok[a].len)
			list_add(s, l, k);
		return 0;
	}
	if (tok_is(s, a, "raise_exception"))
		str_adds(&o, "raise_exception()");       /* its message does not matter */
	else
		print_tokens(s, a, b, &o);
	keep_text(s, k, &o);
	list_add(s, l, k);
	return 0;
}

static int prune(struct skel *s, size_t head, struct list *l);

/* The names that are bound at some point, with what is known of their values. */
struct scope { struct binding env[MAX_NAMES]; size_t n; };

static void scope_save(const struct skel *s, struct scope *to)
{
	memcpy(to->env, s->env, s->n_env * sizeof *to->env);
	to->n = s->n_env;
}

static void scope_restore(struct skel *s, const struct scope *from)
{
	memcpy(s->env, from->env, from->n * sizeof *from->env);
	s->n_env = from->n;
}

/* Another branch ended with the names of s: *after keeps what both know.  The first n_before names are older than the branches. */
static void scope_join(struct skel *s, struct scope *after, size_t n_before)
{
	for (size_t i = 0; i < after->n; i++) {
		struct binding *e = find_binding(s, at(s, after->env[i].off), after->env[i].len);
		enum state v = e ? e->state : given_state(at(s, after->env[i].off), after->env[i].len);
		if (v != after->env[i].state)
			after->env[i].state = S_UNKNOWN;
	}
	for (size_t i = n_before; i < s->n_env; i++) {      /* bound here, not in the branches before */
		struct binding *e = s->env + i;
		size_t j;
		for (j = n_before; j < after->n; j++)
			if (after->env[j].len == e->len && !memcmp(at(s, after->env[j].off), at(s, e->off), e->len))
				break;
		if (j < after->n || after->n == MAX_NAMES)
			continue;
		after->env[after->n] = *e;
		if (e->state != given_state(at(s, e->off), e->len))
			after->env[after->n].state = S_UNKNOWN;
		after->n++;
	}
}

/* Perhaps no branch is taken: *after keeps what was known before them, too. */
static void scope_join_before(struct skel *s, struct scope *after, const struct scope *before)
{
	for (size_t i = 0; i < after->n; i++) {
		struct binding *e = &after->env[i];
		if (e->state != (i < before->n ? before->env[i].state : given_state(at(s, e->off), e->len)))
			e->state = S_UNKNOWN;
	}
}

/* Prune branch br of an if: C_TRUE: it is taken whenever it is reached, C_FALSE: never, C_OPEN, C_ERROR. */
static int prune_branch(struct skel *s, size_t br, const struct scope *before)
{
	struct list body = {0};
	struct str o = {0};
	int prec, c = s->node[br - 1].is_else ? C_TRUE : condition(s, s->node[br - 1].a, s->node[br - 1].b, &o, &prec);

	if (c == C_ERROR || c == C_FALSE) {
		str_free(&o);
		return c;
	}
	keep_text(s, br, &o);
	scope_restore(s, before);
	if (prune(s, s->node[br - 1].child, &body))
		return C_ERROR;
	s->node[br - 1].child = body.head;
	s->node[br - 1].is_else = c == C_TRUE;
	return c;
}

static int prune_if(struct skel *s, size_t k, struct list *l)
{
	struct list branches = {0};
	struct scope before, after;
	int c = C_OPEN;

	scope_save(s, &before);
	for (size_t br = s->node[k - 1].child, next; br && c != C_TRUE; br = next) {
		next = s->node[br - 1].next;
		c = prune_branch(s, br, &before);
		if (c == C_ERROR)
			return -1;
		if (c == C_FALSE)
			continue;
		if (branches.head)
			scope_join(s, &after, before.n);
		else
			scope_save(s, &after);
		list_add(s, &branches, br);
	}
	if (!branches.head) {
		scope_restore(s, &before);
		return 0;
	}
	if (c != C_TRUE)
		scope_join_before(s, &after, &before);
	scope_restore(s, &after);
	if (s->node[branches.head - 1].is_else) {       /* always taken: its nodes take the place of the if */
		for (size_t n = s->node[branches.head - 1].child, next; n; n = next) {
			next = s->node[n - 1].next;
			list_add(s, l, n);
		}
		return 0;
	}
	s->node[k - 1].child = branches.head;
	list_add(s, l, k);
	return 0;
}

static int bind_targets(struct skel *s, size_t head)
{
	for (; head; head = s->node[head - 1].next) {
		const struct node *n = &s->node[head - 1];
		if ((n->kind == N_SET || n->kind == N_SETBLOCK) && bind(s, n->name, n->name_len, S_UNKNOWN))
			return -1;
		if (n->kind != N_MACRO && n->child && bind_targets(s, n->child))
			return -1;
	}
	return 0;
}

/* The node's text = its tokens in canonical form. */
static void tokens_as_text(struct skel *s, size_t k)
{
	struct str o = {0};

	print_tokens(s, s->node[k - 1].a, s->node[k - 1].b, &o);
	keep_text(s, k, &o);
}

static int prune_for(struct skel *s, size_t k, struct list *l)
{
	size_t a = s->node[k - 1].a, b = s->node[k - 1].b;
	size_t in = find_top(s, a, b, (const char *[]){ "in", NULL }, 0), filter = find_top(s, in, b, words_if, 0);
	enum state v = in < b ? value_state(s, in + 1, filter) : S_UNKNOWN;
	struct list body = {0};
	struct scope outside;

	if (v == S_UNDEF || v == S_EMPTY || v == S_FALSE)
		return 0;
	scope_save(s, &outside);
	for (size_t i = a; i < in; i++)
		if (s->tok[i].kind == TOK_NAME &&
		    bind(s, s->tok[i].off, s->tok[i].len, v == S_MESSAGES && in - a == 1 ? S_MESSAGE : S_UNKNOWN))
			return -1;
	if (prune(s, s->node[k - 1].child, &body))
		return -1;
	/* Assignments in a loop are local to it. */
	scope_restore(s, &outside);
	s->node[k - 1].child = body.head;
	tokens_as_text(s, k);
	list_add(s, l, k);
	return 0;
}

static int prune_set(struct skel *s, size_t k, struct list *l)
{
	size_t a = s->node[k - 1].a, b = s->node[k - 1].b;
	struct str o = {0};

	while (decide_inline(s, &a, &b))
		;
	if (bind(s, s->node[k - 1].name, s->node[k - 1].name_len, value_state(s, a, b)))
		return -1;
	print_tokens(s, a, b, &o);
	keep_text(s, k, &o);
	list_add(s, l, k);
	return 0;
}

static int prune_setblock(struct skel *s, size_t k, struct list *l)
{
	struct list body = {0};

	if (prune(s, s->node[k - 1].child, &body) || bind(s, s->node[k - 1].name, s->node[k - 1].name_len, S_STRING))
		return -1;
	s->node[k - 1].child = body.head;
	list_add(s, l, k);
	return 0;
}

static int prune_node(struct skel *s, size_t k, struct list *l)
{
	switch (s->node[k - 1].kind) {
	case N_OUT:
		if (!s->node[k - 1].is_text)
			return prune_output(s, s->node[k - 1].a, s->node[k - 1].b, l);
		list_add(s, l, k);
		return 0;
	case N_IF:
		return prune_if(s, k, l);
	case N_FOR:
		return prune_for(s, k, l);
	case N_SET:
		return prune_set(s, k, l);
	case N_SETBLOCK:
		return prune_setblock(s, k, l);
	case N_MACRO:        /* its body: later, when all names are known */
		if (bind(s, s->node[k - 1].name, s->node[k - 1].name_len, S_TRUE))
			return -1;
		list_add(s, l, k);
		return 0;
	case N_JUMP:
		tokens_as_text(s, k);
		list_add(s, l, k);
		return 0;
	case N_BRANCH:
		break;
	}
	return chat_refuse(s, "its blocks are not properly nested");
}

/* Append what is left of the nodes from `head` on. */
static int prune(struct skel *s, size_t head, struct list *l)
{
	for (size_t k = head, next; k; k = next) {
		next = s->node[k - 1].next;
		if (prune_node(s, k, l))
			return -1;
	}
	return 0;
}

static int prune_macros(struct skel *s, size_t root)
{
	size_t k, i;

	for (k = s->node[root - 1].child; k; k = s->node[k - 1].next) {
		struct list body = {0};
		if (s->node[k - 1].kind != N_MACRO)
			continue;
		s->n_env = 0;
		if (bind_targets(s, s->node[root - 1].child))
			return -1;
		for (i = s->node[k - 1].a + 1; i < s->node[k - 1].b; i++)
			if (s->tok[i].kind == TOK_NAME && (tok_is(s, i - 1, "(") || tok_is(s, i - 1, ",")) &&
			    bind(s, s->tok[i].off, s->tok[i].len,
			         tok_is(s, i, "content") || tok_is(s, i, "text") ? S_STRING :
			         tok_is(s, i, "message") || tok_is(s, i, "msg") || tok_is(s, i, "tool_msg") ||
			         tok_is(s, i, "developer_message") ? S_MESSAGE : S_UNKNOWN))
				return -1;
		if (prune(s, s->node[k - 1].child, &body))
			return -1;
		s->node[k - 1].child = body.head;
		tokens_as_text(s, k);
	}
	return 0;
}

/* ---- dead assignments and macros ---- */

struct names { struct { size_t off, len; } *slot; size_t cap; int changed; };

static int names_find(struct skel *s, struct names *t, size_t off, size_t len, int add)
{
	uint64_t h = 1469598103934665603u;
	size_t i;
	for (i = 0; i < len; i++)
		h = (h ^ (unsigned char)at(s, off)[i]) * 1099511628211u;
	for (i = (size_t)(h ^ h >> 29) & (t->cap - 1); t->slot[i].len; i = (i + 1) & (t->cap - 1))
		if (t->slot[i].len == len && !memcmp(at(s, t->slot[i].off), at(s, off), len))
			return 1;
	if (add) {
		t->slot[i].off = off;
		t->slot[i].len = len;
		t->changed = 1;
	}
	return 0;
}

/* Names in canonical text, strings skipped: a and a.b of a.b.c. */
static void names_collect(struct skel *s, struct names *t, size_t off, size_t len)
{
	size_t i = 0, k;
	const char *p = at(s, off);

	while (i < len) {
		if (p[i] == '\'') {
			for (i++; i < len && p[i] != '\''; i++)
				i += p[i] == '\\';
			i++;
			continue;
		}
		if (!is_name((unsigned char)p[i])) {
			i++;
			continue;
		}
		for (k = i; k < len && is_name((unsigned char)p[k]); k++)
			;
		names_find(s, t, off + i, k - i, 1);
		if (k + 1 < len && p[k] == '.' && is_name((unsigned char)p[k + 1])) {
			for (k++; k < len && is_name((unsigned char)p[k]); k++)
				;
			names_find(s, t, off + i, k - i, 1);
		}
		i = k;
	}
}

static int set_is_live(struct skel *s, struct names *t, const struct node *n)
{
	return names_find(s, t, n->name, n->name_len, 0);
}

static void mark(struct skel *s, struct names *t, size_t head)
{
	for (; head; head = s->node[head - 1].next) {
		const struct node *n = &s->node[head - 1];
		if (n->kind == N_SET || n->kind == N_SETBLOCK || n->kind == N_MACRO) {
			size_t i;
			if (!set_is_live(s, t, n))
				continue;
			for (i = 0; i < n->name_len; i++)
				if (at(s, n->name)[i] == '.')
					names_find(s, t, n->name, i, 1);
		}
		if (!n->is_text)
			names_collect(s, t, n->off, n->len);
		if (n->child)
			mark(s, t, n->child);
	}
}

/* Remove dead assignments and empty blocks; returns the new head. */
static size_t sweep(struct skel *s, struct names *t, size_t head, int *removed)
{
	struct list l = {0};
	size_t k, next;

	for (k = head; k; k = next) {
		struct node *n = &s->node[k - 1];
		next = n->next;
		if ((n->kind == N_SET || n->kind == N_SETBLOCK || n->kind == N_MACRO) && !set_is_live(s, t, n)) {
			*removed = 1;
			continue;
		}
		if (n->child)
			n->child = sweep(s, t, n->child, removed);
		if (n->kind == N_IF) {
			size_t br, last = 0;      /* the last branch that does something */
			for (br = n->child; br; br = s->node[br - 1].next)
				if (s->node[br - 1].child)
					last = br;
			if (!last) {
				*removed = 1;
				continue;
			}
			if (s->node[last - 1].next) {
				s->node[last - 1].next = 0;
				*removed = 1;
			}
		}
		if (n->kind == N_FOR && !n->child) {
			*removed = 1;
			continue;
		}
		list_add(s, &l, k);
	}
	return l.head;
}

static void remove_dead(struct skel *s, size_t root)
{
	int round, pass, removed = 1;
	struct names t = {0};

	for (t.cap = 64; t.cap < s->n_tok * 8 + 64; t.cap *= 2)
		;
	t.slot = xcalloc(t.cap, sizeof *t.slot);
	for (round = 0; round < 12 && removed; round++) {
		memset(t.slot, 0, t.cap * sizeof *t.slot);
		for (pass = 0, t.changed = 1; t.changed && pass < 24; pass++) {
			t.changed = 0;
			mark(s, &t, s->node[root - 1].child);
		}
		removed = 0;
		if (!t.changed)
			s->node[root - 1].child = sweep(s, &t, s->node[root - 1].child, &removed);
	}
	free(t.slot);
}

/* ---- printing ---- */

static void print_nodes(struct skel *s, size_t head, struct str *o)
{
	for (; head; head = s->node[head - 1].next) {
		const struct node *n = &s->node[head - 1];
		size_t br;
		switch (n->kind) {
		case N_OUT:
			if (n->is_text) {
				struct str lit = {0};
				while (1) {
					str_add(&lit, at(s, n->off), n->len);
					if (!n->next || s->node[n->next - 1].kind != N_OUT || !s->node[n->next - 1].is_text)
						break;
					head = n->next;
					n = &s->node[head - 1];
				}
				str_adds(o, "{");
				print_string(o, lit.p, lit.n);
				str_adds(o, "}");
				str_free(&lit);
			} else {
				str_adds(o, "{");
				str_add(o, at(s, n->off), n->len);
				str_adds(o, "}");
			}
			break;
		case N_IF:
			for (br = n->child; br; br = s->node[br - 1].next) {
				const struct node *x = &s->node[br - 1];
				str_adds(o, x->is_else ? "{%else" : br == n->child ? "{%if " : "{%elif ");
				str_add(o, at(s, x->off), x->is_else ? 0 : x->len);
				str_adds(o, "%}");
				print_nodes(s, x->child, o);
			}
			str_adds(o, "{%end%}");
			break;
		case N_FOR: case N_MACRO:
			str_adds(o, n->kind == N_FOR ? "{%for " : "{%macro ");
			str_add(o, at(s, n->off), n->len);
			str_adds(o, "%}");
			print_nodes(s, n->child, o);
			str_adds(o, "{%end%}");
			break;
		case N_SET:
			str_adds(o, "{%");
			str_add(o, at(s, n->name), n->name_len);
			str_adds(o, "=");
			str_add(o, at(s, n->off), n->len);
			str_adds(o, "%}");
			break;
		case N_SETBLOCK:
			str_adds(o, "{%set ");
			str_add(o, at(s, n->name), n->name_len);
			str_adds(o, "%}");
			print_nodes(s, n->child, o);
			str_adds(o, "{%end%}");
			break;
		case N_JUMP:
			str_adds(o, "{%");
			str_add(o, at(s, n->off), n->len);
			str_adds(o, "%}");
			break;
		case N_BRANCH:
			break;
		}
	}
}

int chat_skeleton(const char *text, size_t len, struct str *out, struct err *e)
{
	struct skel *s = xcalloc(1, sizeof *s);
	struct list top = {0};
	int r = -1;

	s->e = e;
	if (!chat_parse(s, text, len) && !prune(s, s->node[0].child, &top)) {
		s->node[0].child = top.head;
		if (!prune_macros(s, 1)) {
			remove_dead(s, 1);
			print_nodes(s, s->node[0].child, out);
			r = 0;
		}
	}
	str_free(&s->src);
	str_free(&s->pool);
	free(s->tok);
	free(s->node);
	free(s);
	return r;
}
