/* engine/jinja/jinja_parse.c - parses the statements of a Jinja template. */
#include "engine/jinja/jinja_private.h"

#include <string.h>

static void end_of_tag(struct parser *p)
{
	char found[80];

	if (p->at->kind == T_BLOCK_END) {
		p->at++;
		p->w->line = p->at->line;
		return;
	}
	text_escape(found, sizeof found, p->at->p, MIN(p->at->n, 40));
	jinja_fail(p->w, "the tag should end where '%s' stands", found);
}

/* 1 if the next tag is called `name`. */
static int tag_is(const struct parser *p, const char *name)
{
	return p->at->kind == T_BLOCK && token_is(p->at + 1, name);
}

static struct node *parse_statement(struct parser *p);

/* Parse statements up to a tag whose name is in `until`, but do not read that tag. If `until` is NULL, parse to the end
 * of the template. */
static struct node *parse_body(struct parser *p, const char *const *until)
{
	struct node *n = node_new(p, S_BODY, NULL, NULL, NULL);
	size_t cap = 0;

	if (++p->w->depth > JINJA_NEST_MAX)
		jinja_fail(p->w, "blocks are nested more than %d deep", JINJA_NEST_MAX);
	for (;;) {
		for (size_t i = 0; until && until[i]; i++)
			if (tag_is(p, until[i])) {
				p->w->depth--;
				return n;
			}
		if (p->at->kind == T_END) {
			if (until)
				jinja_fail(p->w, "{%% %s %%} is missing, for the block of line %d", until[0], n->line);
			p->w->depth--;
			return n;
		}
		node_add(p, n, &cap, parse_statement(p));
	}
}

/* Parse the body of a block, and read its end tag up to and including the tag's name. The caller reads the rest of the
 * tag. */
static struct node *parse_body_to(struct parser *p, const char *end)
{
	const char *const until[] = { end, NULL };
	struct node *n = parse_body(p, until);

	p->at += 2;
	return n;
}

static struct node *if_statement(struct parser *p)
{
	static const char *const until[] = { "endif", "elif", "else", NULL };
	struct node *n = node_new(p, S_IF, NULL, NULL, NULL);
	size_t cap = 0;

	for (;;) {
		node_add(p, n, &cap, parse_tuple(p, 0));
		end_of_tag(p);
		node_add(p, n, &cap, parse_body(p, until));
		p->at++;
		if (token_skip(p, "elif"))
			continue;
		if (token_skip(p, "else")) {
			end_of_tag(p);
			node_add(p, n, &cap, parse_body_to(p, "endif"));
		} else {
			token_expect(p, "endif");
		}
		return n;
	}
}

static struct node *for_statement(struct parser *p)
{
	static const char *const until[] = { "endfor", "else", NULL };
	struct node *target = parse_target(p, 0), *list, *n, *filter = NULL, *other = NULL;
	size_t cap = 0;
	int recursive;

	token_expect(p, "in");
	list = parse_tuple(p, 0);
	if (token_skip(p, "if"))
		filter = parse_expression(p, 1);
	recursive = token_skip(p, "recursive");
	end_of_tag(p);
	p->loops++;
	n = node_new(p, S_FOR, target, list, parse_body(p, until));
	p->loops--;
	p->at++;
	if (token_skip(p, "else")) {
		end_of_tag(p);
		other = parse_body_to(p, "endfor");
	} else {
		token_expect(p, "endfor");
	}
	n->recursive = recursive;
	node_add(p, n, &cap, filter);
	node_add(p, n, &cap, other);
	return n;
}

static struct node *set_statement(struct parser *p)
{
	struct node *target = parse_target(p, 1), *filter = NULL;

	if (token_skip(p, "="))
		return node_new(p, S_SET, target, parse_tuple(p, 1), NULL);
	if (token_skip(p, "|"))
		filter = parse_filters(p, NULL);
	end_of_tag(p);
	return node_new(p, S_SET_BLOCK, target, filter, parse_body_to(p, "endset"));
}

/* Parse a macro's parameters up to and including ")". Put the names into n->kid and the default values into n->args.
 * The "(" has been read. */
static void parse_parameters(struct parser *p, struct node *n)
{
	size_t cap = 0, cap_default = 0;

	n->args = work_alloc(p->w, sizeof *n->args);
	for (int first = 1; !token_skip(p, ")"); first = 0) {
		struct node *name;

		if (!first)
			token_expect(p, ",");
		if (token_skip(p, ")"))
			break;
		name = node_new(p, E_NAME, NULL, NULL, NULL);
		name->name = token_name(p);
		node_add(p, n, &cap, name);
		if (token_skip(p, "=")) {
			n->args->v = work_grow(p->w, n->args->v, n->args->n, &cap_default, sizeof *n->args->v);
			n->args->v[n->args->n++] = parse_expression(p, 1);
		} else if (n->args->n) {
			jinja_fail(p->w, "a parameter without a default stands behind one with a default");
		}
	}
}

static struct node *macro_statement(struct parser *p)
{
	struct node *n = node_new(p, S_MACRO, NULL, NULL, NULL);
	int loops = p->loops;

	n->name = token_name(p);
	token_expect(p, "(");
	parse_parameters(p, n);
	end_of_tag(p);
	p->loops = 0;
	n->c = parse_body_to(p, "endmacro");
	p->loops = loops;
	return n;
}

static struct node *call_statement(struct parser *p)
{
	struct node *n = node_new(p, S_CALL, NULL, NULL, NULL);
	int loops = p->loops;

	n->name = jinja_intern(p->t, "caller", 6);
	n->args = work_alloc(p->w, sizeof *n->args);
	if (token_skip(p, "("))
		parse_parameters(p, n);
	n->a = parse_expression(p, 1);
	if (n->a->op != E_CALL)
		jinja_fail(p->w, "{%% call %%} needs a call");
	end_of_tag(p);
	p->loops = 0;
	n->c = parse_body_to(p, "endcall");
	p->loops = loops;
	return n;
}

static struct node *filter_statement(struct parser *p)
{
	struct node *filter = parse_filters(p, NULL);

	end_of_tag(p);
	return node_new(p, S_FILTER, filter, NULL, parse_body_to(p, "endfilter"));
}

static struct node *with_statement(struct parser *p)
{
	struct node *n = node_new(p, S_WITH, NULL, NULL, NULL);
	size_t cap = 0;

	while (p->at->kind != T_BLOCK_END) {
		if (n->n_kid)
			token_expect(p, ",");
		node_add(p, n, &cap, parse_target(p, 0));
		token_expect(p, "=");
		node_add(p, n, &cap, parse_expression(p, 1));
	}
	end_of_tag(p);
	n->c = parse_body_to(p, "endwith");
	return n;
}

static struct node *generation_statement(struct parser *p)
{
	end_of_tag(p);
	return node_new(p, S_SCOPE, NULL, NULL, parse_body_to(p, "endgeneration"));
}

static struct node *jump_statement(struct parser *p, enum op op)
{
	if (!p->loops)
		jinja_fail(p->w, "{%% %s %%} stands outside of a loop", op == S_BREAK ? "break" : "continue");
	return node_new(p, op, NULL, NULL, NULL);
}
static struct node *break_statement(struct parser *p)
{
	return jump_statement(p, S_BREAK);
}
static struct node *continue_statement(struct parser *p)
{
	return jump_statement(p, S_CONTINUE);
}

static struct node *parse_block(struct parser *p)
{
	static const struct {
		const char *name;
		struct node *(*parse)(struct parser *);
	} tags[] = {
		{ "if", if_statement },       { "for", for_statement },
		{ "set", set_statement },     { "macro", macro_statement },
		{ "call", call_statement },   { "filter", filter_statement },
		{ "with", with_statement },   { "generation", generation_statement },
		{ "break", break_statement }, { "continue", continue_statement },
	};
	char found[80];

	for (size_t i = 0; i < LEN(tags); i++)
		if (token_skip(p, tags[i].name)) {
			struct node *n = tags[i].parse(p);

			end_of_tag(p);
			return n;
		}
	text_escape(found, sizeof found, p->at->p, MIN(p->at->n, 40));
	jinja_fail(p->w, "the statement '%s' is not supported", found);
}

static struct node *parse_statement(struct parser *p)
{
	const struct token *t = p->at++;
	struct node *n;

	p->w->line = t->line;
	if (t->kind == T_TEXT) {
		n = node_new(p, S_TEXT, NULL, NULL, NULL);
		n->value = text_value(p->w, t->p, t->n, JINJA_TEMPLATE);
		return n;
	}
	if (t->kind == T_BLOCK)
		return parse_block(p);
	n = node_new(p, S_PRINT, parse_tuple(p, 1), NULL, NULL);
	if (p->at->kind != T_PRINT_END) {
		char found[80];

		text_escape(found, sizeof found, p->at->p, MIN(p->at->n, 40));
		jinja_fail(p->w, "'}}' is expected where '%s' stands", found);
	}
	p->at++;
	return n;
}

struct node *parse_template(struct parser *p)
{
	return parse_body(p, NULL);
}
