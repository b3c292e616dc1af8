/* engine/jinja/jinja_expr.c - parses expressions.
 *
 * The precedence of operators is that of Jinja2. From loosest to tightest: if; or; and; not; comparisons; + and -; ~;
 * *, /, // and %; **; signs. Filters, tests, calls and attributes bind tighter than all operators. */
#include "engine/jinja/jinja_private.h"

#include <string.h>

static struct node *parse_or(struct parser *);
static struct node *parse_sum(struct parser *);
static struct node *parse_unary(struct parser *, int with_filter);

/* ---- tokens ---- */

static void token_describe(const struct token *t, char *out, size_t cap)
{
	if (t->kind == T_END)
		text_escape(out, cap, "the end", 7);
	else if (t->kind == T_TEXT)
		text_escape(out, cap, "text", 4);
	else
		text_escape(out, cap, t->p, MIN(t->n, 40));
}

int token_is(const struct token *t, const char *s)
{
	return (t->kind == T_MARK || t->kind == T_NAME) && t->n == strlen(s) && !memcmp(t->p, s, t->n);
}

static void token_advance(struct parser *p)
{
	if (p->at->kind != T_END)
		p->at++;
	p->w->line = p->at->line;
}

int token_skip(struct parser *p, const char *s)
{
	if (!token_is(p->at, s))
		return 0;
	token_advance(p);
	return 1;
}

void token_expect(struct parser *p, const char *s)
{
	char found[80];

	if (token_skip(p, s))
		return;
	token_describe(p->at, found, sizeof found);
	jinja_fail(p->w, "'%s' is expected where '%s' stands", s, found);
}

const char *token_name(struct parser *p)
{
	const char *name;
	char found[80];

	if (p->at->kind != T_NAME) {
		token_describe(p->at, found, sizeof found);
		jinja_fail(p->w, "a name is expected where '%s' stands", found);
	}
	name = jinja_intern(p->t, p->at->p, p->at->n);
	token_advance(p);
	return name;
}

/* ---- nodes ---- */

/* Make node n higher than its operand `kid`, if `kid` is not NULL. Fail if the tree becomes higher than
 * JINJA_NEST_MAX. */
static void node_raise(struct parser *p, struct node *n, const struct node *kid)
{
	if (kid && kid->height >= n->height)
		n->height = kid->height + 1;
	if (n->height > JINJA_NEST_MAX)
		jinja_fail(p->w, "it is nested more than %d deep", JINJA_NEST_MAX);
}

struct node *node_new(struct parser *p, enum op op, struct node *a, struct node *b, struct node *c)
{
	struct node *n = work_alloc(p->w, sizeof *n);

	*n = (struct node){ .op = op, .line = a ? a->line : p->w->line, .a = a, .b = b, .c = c };
	node_raise(p, n, a);
	node_raise(p, n, b);
	node_raise(p, n, c);
	return n;
}

void node_add(struct parser *p, struct node *n, size_t *cap, struct node *kid)
{
	n->kid = work_grow(p->w, n->kid, n->n_kid, cap, sizeof *n->kid);
	n->kid[n->n_kid++] = kid;
	node_raise(p, n, kid);
}

static struct node *constant_node(struct parser *p, struct value v)
{
	struct node *n = node_new(p, E_CONST, NULL, NULL, NULL);

	n->value = v;
	return n;
}

/* ---- brackets, names, literals ---- */

/* Call `parse` one level deeper. Fail if there are more than JINJA_NEST_MAX levels. This bounds the recursion of the
 * parser, while node_raise() bounds the height of the finished tree. */
static struct node *parse_nested(struct parser *p, struct node *(*parse)(struct parser *))
{
	struct node *n;

	if (++p->w->depth > JINJA_NEST_MAX)
		jinja_fail(p->w, "it is nested more than %d deep", JINJA_NEST_MAX);
	n = parse(p);
	p->w->depth--;
	return n;
}

static struct node *with_if(struct parser *p)
{
	return parse_expression(p, 1);
}

static struct node *list_literal(struct parser *p)
{
	struct node *n = node_new(p, E_LIST, NULL, NULL, NULL);
	size_t cap = 0;

	while (!token_skip(p, "]")) {
		if (n->n_kid)
			token_expect(p, ",");
		if (token_skip(p, "]"))
			break;
		node_add(p, n, &cap, parse_nested(p, with_if));
	}
	return n;
}

static struct node *dict_literal(struct parser *p)
{
	struct node *n = node_new(p, E_DICT, NULL, NULL, NULL);
	size_t cap = 0;

	while (!token_skip(p, "}")) {
		if (n->n_kid)
			token_expect(p, ",");
		if (token_skip(p, "}"))
			break;
		node_add(p, n, &cap, parse_nested(p, with_if));
		token_expect(p, ":");
		node_add(p, n, &cap, parse_nested(p, with_if));
	}
	return n;
}

static struct node *tuple_with_if(struct parser *p)
{
	return parse_tuple(p, 1);
}

static struct node *string_literal(struct parser *p)
{
	struct pieces all = { .n = 0 };

	for (; p->at->kind == T_STRING; token_advance(p))
		pieces_add(p->w, &all, p->at->p, p->at->n, JINJA_TEMPLATE);
	/* Join the pieces of the string now. Otherwise text_flat() would join them at run time, and write to the tree
	 * that threads share. */
	struct value v = text_pieces(p->w, &all);
	const char *flat = text_flat(p->w, v);

	return constant_node(p, text_value(p->w, flat, v.text->n, JINJA_TEMPLATE));
}

static struct node *parse_primary(struct parser *p)
{
	const struct token *t = p->at;
	struct node *n;
	char found[80];

	if (t->kind == T_NAME) {
		token_advance(p);
		if (token_is(t, "true") || token_is(t, "True"))
			return constant_node(p, v_bool(1));
		if (token_is(t, "false") || token_is(t, "False"))
			return constant_node(p, v_bool(0));
		if (token_is(t, "none") || token_is(t, "None"))
			return constant_node(p, v_none());
		n = node_new(p, E_NAME, NULL, NULL, NULL);
		n->line = t->line;
		n->name = jinja_intern(p->t, t->p, t->n);
		return n;
	}
	if (t->kind == T_STRING)
		return string_literal(p);
	if (t->kind == T_INT || t->kind == T_REAL) {
		token_advance(p);
		return constant_node(p, t->kind == T_INT ? v_int(t->i) : v_real(t->real));
	}
	if (token_skip(p, "(")) {
		if (token_skip(p, ")"))
			return node_new(p, E_TUPLE, NULL, NULL, NULL);
		n = parse_nested(p, tuple_with_if);
		token_expect(p, ")");
		return n;
	}
	if (token_skip(p, "["))
		return list_literal(p);
	if (token_skip(p, "{"))
		return dict_literal(p);
	token_describe(t, found, sizeof found);
	jinja_fail(p->w, "an expression is expected where '%s' stands", found);
}

/* ---- attributes, items, calls ---- */

/* Parse the arguments of a call up to and including ")". The "(" has been read. */
static struct args *parse_args(struct parser *p)
{
	struct args *a = work_alloc(p->w, sizeof *a);
	size_t cap = 0, cap_name = 0, cap_named = 0;

	for (int first = 1; !token_skip(p, ")"); first = 0) {
		if (!first)
			token_expect(p, ",");
		if (token_skip(p, ")"))
			break;
		if (token_skip(p, "**")) {
			a->stars = parse_nested(p, with_if);
		} else if (token_skip(p, "*")) {
			a->star = parse_nested(p, with_if);
		} else if (p->at->kind == T_NAME && token_is(p->at + 1, "=")) {
			a->name = work_grow(p->w, a->name, a->n_named, &cap_name, sizeof *a->name);
			a->named = work_grow(p->w, a->named, a->n_named, &cap_named, sizeof *a->named);
			a->name[a->n_named] = token_name(p);
			token_expect(p, "=");
			a->named[a->n_named++] = parse_nested(p, with_if);
		} else {
			if (a->n_named || a->stars)
				jinja_fail(p->w, "an argument without a name stands behind one with a name");
			a->v = work_grow(p->w, a->v, a->n, &cap, sizeof *a->v);
			a->v[a->n++] = parse_nested(p, with_if);
		}
	}
	return a;
}

static void args_raise(struct parser *p, struct node *n)
{
	for (size_t i = 0; n->args && i < n->args->n; i++)
		node_raise(p, n, n->args->v[i]);
	for (size_t i = 0; n->args && i < n->args->n_named; i++)
		node_raise(p, n, n->args->named[i]);
	if (n->args) {
		node_raise(p, n, n->args->star);
		node_raise(p, n, n->args->stars);
	}
}

/* Parse an index or a slice up to and including "]". The "[" has been read. */
static struct node *parse_subscript(struct parser *p, struct node *object)
{
	struct node *part[3] = { NULL, NULL, NULL }, *n;
	size_t cap = 0;
	int k = 0;

	for (;;) {
		if (!token_is(p->at, ":") && !token_is(p->at, "]"))
			part[k] = parse_nested(p, with_if);
		if (k == 2 || !token_skip(p, ":"))
			break;
		k++;
	}
	token_expect(p, "]");
	if (!k) {
		if (!part[0])
			jinja_fail(p->w, "an index is missing");
		return node_new(p, E_ITEM, object, part[0], NULL);
	}
	n = node_new(p, E_SLICE, object, NULL, NULL);
	for (int i = 0; i < 3; i++)
		node_add(p, n, &cap, part[i]);
	return n;
}

/* Parse anything that may directly follow an operand: .name, [index], (arguments). */
static struct node *parse_postfix(struct parser *p, struct node *n)
{
	for (;;) {
		if (token_skip(p, ".")) {
			if (p->at->kind == T_INT) {
				struct node *index = constant_node(p, v_int(p->at->i));

				token_advance(p);
				n = node_new(p, E_ITEM, n, index, NULL);
			} else {
				const char *name = token_name(p);

				n = node_new(p, E_ATTR, n, NULL, NULL);
				n->name = name;
			}
		} else if (token_skip(p, "[")) {
			n = parse_subscript(p, n);
		} else if (token_skip(p, "(")) {
			struct args *args = parse_args(p);

			n = node_new(p, E_CALL, n, NULL, NULL);
			n->args = args;
			args_raise(p, n);
		} else {
			return n;
		}
	}
}

/* ---- filters and tests ---- */

static const char *dotted_name(struct parser *p)
{
	const char *name = token_name(p);

	while (token_is(p->at, ".")) {
		struct pieces all = { .n = 0 };
		struct value v;

		token_advance(p);
		pieces_add(p->w, &all, name, strlen(name), JINJA_TEMPLATE);
		pieces_add(p->w, &all, ".", 1, JINJA_TEMPLATE);
		name = token_name(p);
		pieces_add(p->w, &all, name, strlen(name), JINJA_TEMPLATE);
		v = text_pieces(p->w, &all);
		name = jinja_intern(p->t, text_flat(p->w, v), v.text->n);
	}
	return name;
}

static struct node *parse_filter(struct parser *p, struct node *operand)
{
	struct node *n = node_new(p, E_FILTER, operand, NULL, NULL);

	n->line = p->w->line;
	n->name = dotted_name(p);
	n->args = token_skip(p, "(") ? parse_args(p) : work_alloc(p->w, sizeof *n->args);
	args_raise(p, n);
	return n;
}

struct node *parse_filters(struct parser *p, struct node *operand)
{
	do
		operand = parse_filter(p, operand);
	while (token_skip(p, "|"));
	return operand;
}

static int begins_argument(const struct token *t)
{
	if (t->kind == T_STRING || t->kind == T_INT || t->kind == T_REAL || token_is(t, "[") || token_is(t, "{"))
		return 1;
	return t->kind == T_NAME && !token_is(t, "else") && !token_is(t, "or") && !token_is(t, "and") &&
	       !token_is(t, "is") && !token_is(t, "if") && !token_is(t, "in") && !token_is(t, "not");
}

static struct node *parse_test(struct parser *p, struct node *operand)
{
	int negated = token_skip(p, "not");
	struct node *n = node_new(p, E_TEST, operand, NULL, NULL);

	n->line = p->w->line;
	n->name = dotted_name(p);
	n->args = work_alloc(p->w, sizeof *n->args);
	if (token_skip(p, "(")) {
		n->args = parse_args(p);
	} else if (begins_argument(p->at)) {
		n->args->v = work_array(p->w, 1, sizeof *n->args->v);
		n->args->v[0] = parse_postfix(p, parse_primary(p));
		n->args->n = 1;
	}
	args_raise(p, n);
	return negated ? node_new(p, E_NOT, n, NULL, NULL) : n;
}

static struct node *filters_and_tests(struct parser *p, struct node *n)
{
	for (;;) {
		if (token_skip(p, "|"))
			n = parse_filter(p, n);
		else if (token_skip(p, "is"))
			n = parse_test(p, n);
		else if (token_is(p->at, "("))
			n = parse_postfix(p, n);
		else
			return n;
	}
}

/* ---- operators ---- */

static struct node *unary_inside(struct parser *p)
{
	return parse_unary(p, 0);
}

static struct node *parse_unary(struct parser *p, int with_filter)
{
	struct node *n;

	if (token_skip(p, "-"))
		n = node_new(p, E_NEG, parse_nested(p, unary_inside), NULL, NULL);
	else if (token_skip(p, "+"))
		n = node_new(p, E_POS, parse_nested(p, unary_inside), NULL, NULL);
	else
		n = parse_primary(p);
	n = parse_postfix(p, n);
	return with_filter ? filters_and_tests(p, n) : n;
}

static struct node *parse_power(struct parser *p)
{
	struct node *n = parse_unary(p, 1);

	while (token_skip(p, "**"))
		n = node_new(p, E_POW, n, parse_unary(p, 1), NULL);
	return n;
}

static struct node *parse_product(struct parser *p)
{
	static const struct {
		const char *mark;
		enum op op;
	} ops[] = { { "*", E_MUL }, { "/", E_DIV }, { "//", E_FLOOR }, { "%", E_MOD } };
	struct node *n = parse_power(p);

	for (size_t i = 0; i < 4; i++)
		if (token_skip(p, ops[i].mark)) {
			n = node_new(p, ops[i].op, n, parse_power(p), NULL);
			i = (size_t)-1;
		}
	return n;
}

static struct node *parse_concat(struct parser *p)
{
	struct node *n = parse_product(p), *all;
	size_t cap = 0;

	if (!token_is(p->at, "~"))
		return n;
	all = node_new(p, E_CONCAT, NULL, NULL, NULL);
	node_add(p, all, &cap, n);
	while (token_skip(p, "~"))
		node_add(p, all, &cap, parse_product(p));
	return all;
}

static struct node *parse_sum(struct parser *p)
{
	struct node *n = parse_concat(p);
	size_t cap = 0;

	for (;;) {
		int plus = token_is(p->at, "+");
		struct node *right;

		if (!plus && !token_is(p->at, "-"))
			return n;
		token_advance(p);
		right = parse_concat(p);
		/* Templates have long sums, which would nest deeply as a tree of binary operators. If this loop has
		 * made node `n` as a sum (cap > 0), add the operand to node `n`. A sum in parentheses remains a node of
		 * its own. */
		if (plus && n->op == E_ADD && cap) {
			node_add(p, n, &cap, right);
		} else {
			struct node *left = n;

			n = node_new(p, plus ? E_ADD : E_SUB, NULL, NULL, NULL);
			cap = 0;
			node_add(p, n, &cap, left);
			node_add(p, n, &cap, right);
		}
	}
}

static int parse_relation(struct parser *p, enum relation *out)
{
	static const struct {
		const char *mark;
		enum relation r;
	} marks[] = {
		{ "==", R_EQ }, { "!=", R_NE }, { "<=", R_LE }, { ">=", R_GE },
		{ "<", R_LT },  { ">", R_GT },  { "in", R_IN },
	};

	for (size_t i = 0; i < LEN(marks); i++)
		if (token_skip(p, marks[i].mark)) {
			*out = marks[i].r;
			return 1;
		}
	if (token_is(p->at, "not") && token_is(p->at + 1, "in")) {
		token_advance(p);
		token_advance(p);
		*out = R_NOT_IN;
		return 1;
	}
	return 0;
}

static struct node *parse_comparison(struct parser *p)
{
	struct node *first = parse_sum(p), *n = NULL;
	size_t cap = 0, cap_relation = 0, k = 0;
	enum relation r;

	while (parse_relation(p, &r)) {
		if (!n)
			n = node_new(p, E_COMPARE, first, NULL, NULL);
		n->relation = work_grow(p->w, n->relation, k, &cap_relation, sizeof *n->relation);
		n->relation[k++] = r;
		node_add(p, n, &cap, parse_sum(p));
	}
	return n ? n : first;
}

static struct node *parse_not(struct parser *p)
{
	if (token_skip(p, "not"))
		return node_new(p, E_NOT, parse_nested(p, parse_not), NULL, NULL);
	return parse_comparison(p);
}

/* Parse a chain of `and` or of `or` into one node. */
static struct node *parse_chain(struct parser *p, enum op op, const char *word, struct node *(*part)(struct parser *))
{
	struct node *n = part(p), *all = NULL;
	size_t cap = 0;

	while (token_skip(p, word)) {
		if (!all) {
			all = node_new(p, op, NULL, NULL, NULL);
			node_add(p, all, &cap, n);
		}
		node_add(p, all, &cap, part(p));
	}
	return all ? all : n;
}

static struct node *parse_and(struct parser *p)
{
	return parse_chain(p, E_AND, "and", parse_not);
}
static struct node *parse_or(struct parser *p)
{
	return parse_chain(p, E_OR, "or", parse_and);
}

struct node *parse_expression(struct parser *p, int with_inline_if)
{
	struct node *n = parse_or(p);

	while (with_inline_if && token_skip(p, "if")) {
		struct node *condition = parse_or(p), *other = token_skip(p, "else") ? parse_nested(p, with_if) : NULL;

		n = node_new(p, E_IF, condition, n, other);
	}
	return n;
}

struct node *parse_tuple(struct parser *p, int with_inline_if)
{
	struct node *first = parse_expression(p, with_inline_if), *n;
	size_t cap = 0;

	if (!token_is(p->at, ","))
		return first;
	n = node_new(p, E_TUPLE, NULL, NULL, NULL);
	node_add(p, n, &cap, first);
	while (token_skip(p, ",")) {
		if (p->at->kind == T_PRINT_END || p->at->kind == T_BLOCK_END || token_is(p->at, ")") ||
		    token_is(p->at, "="))
			break;
		node_add(p, n, &cap, parse_expression(p, with_inline_if));
	}
	return n;
}

/* ---- targets of assignments ---- */

struct node *parse_target(struct parser *p, int with_attribute)
{
	struct node *first, *n;
	size_t cap = 0;
	int bracket = token_skip(p, "(");

	first = node_new(p, E_NAME, NULL, NULL, NULL);
	first->name = token_name(p);
	if (with_attribute && !bracket && token_skip(p, ".")) {
		n = node_new(p, E_ATTR, first, NULL, NULL);
		n->name = token_name(p);
		return n;
	}
	if (!token_is(p->at, ",") && !bracket)
		return first;
	n = node_new(p, E_TUPLE, NULL, NULL, NULL);
	node_add(p, n, &cap, first);
	while (token_skip(p, ",")) {
		if (p->at->kind != T_NAME || token_is(p->at, "in"))
			break;
		first = node_new(p, E_NAME, NULL, NULL, NULL);
		first->name = token_name(p);
		node_add(p, n, &cap, first);
	}
	if (bracket)
		token_expect(p, ")");
	return n;
}
