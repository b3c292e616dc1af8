/* engine/jinja/jinja_run.c - runs the statements of a Jinja template.
 *
 * Scopes are the same as in Jinja2. The body of a loop, a macro, {% with %}, {% call %} and a captured block each have
 * a scope; {% if %} has none. A variable disappears at the end of its scope, but attributes of a namespace keep their
 * values. */
#include "engine/jinja/jinja_private.h"

#include <string.h>

/* What ended a statement or body: its own end (GO_ON), {% break %} (BREAK) or {% continue %} (CONTINUE). */
enum { GO_ON, BREAK, CONTINUE };

/* ---- scopes and output ---- */

void scope_set(struct run *r, struct scope *s, const char *name, struct value v)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->v[i].name == name) {
			s->v[i].value = v;
			return;
		}
	s->v = work_grow(&r->w, s->v, s->n, &s->cap, sizeof *s->v);
	s->v[s->n++] = (struct variable){ name, v };
}

/* Return a new scope inside `parent`. It stays valid until the end of the run, because a macro defined in it may be
 * called later. */
static struct scope *scope_new(struct run *r, const struct scope *parent)
{
	struct scope *s = work_alloc(&r->w, sizeof *s);

	s->parent = parent;
	return s;
}

static void run_assign(struct run *r, const struct node *target, struct value v)
{
	struct value object;

	if (target->op == E_NAME) {
		scope_set(r, r->scope, target->name, v);
	} else if (target->op == E_ATTR) {
		object = run_eval(r, target->a);
		if (object.kind != V_NAMESPACE)
			jinja_fail(&r->w, "only attributes of a namespace can be set, not of %s", kind_name(object));
		dict_set(&r->w, object.dict, text_word(&r->w, target->name), v);
	} else {
		v = value_sequence(&r->w, v);
		if (v.list->n != target->n_kid)
			jinja_fail(&r->w, "%zu values are assigned to %zu names", v.list->n, target->n_kid);
		for (size_t i = 0; i < target->n_kid; i++)
			scope_set(r, r->scope, target->kid[i]->name, v.list->v[i]);
	}
}

static void run_print(struct run *r, struct value v)
{
	v = value_printed(&r->w, v);
	if (v.text->n > r->bytes_max - r->bytes)
		jinja_fail(&r->w, "it writes more than %s bytes", count_text(r->bytes_max).s);
	r->bytes += v.text->n;
	if (r->out) {
		pieces_text(&r->w, r->out, v.text, 0, v.text->n);
		return;
	}
	for (size_t i = 0; i < v.text->n_piece; i++)
		r->write(r->ud, &v.text->v[i]);
}

/* Run a body and return its output as a string. */
static struct value run_capture(struct run *r, const struct node *body)
{
	struct pieces o = { .n = 0 }, *before = r->out;

	r->out = &o;
	run_body(r, body);
	r->out = before;
	return text_pieces(&r->w, &o);
}

/* ---- loops ---- */

/* Return the elements of `list` for which the condition of {% for ... if ... %} is true. */
static struct value filtered_list(struct run *r, const struct node *n, struct value list)
{
	struct value o = v_list(&r->w, V_LIST, 0);
	struct scope *outer = r->scope;

	for (size_t i = 0; i < list.list->n; i++) {
		r->scope = scope_new(r, outer);
		run_assign(r, n->a, list.list->v[i]);
		if (value_truth(run_eval(r, n->kid[0])))
			list_add(&r->w, o, list.list->v[i]);
	}
	r->scope = outer;
	return o;
}

static int run_loop_over(struct run *r, const struct node *n, struct value list, int depth)
{
	struct scope *outer = r->scope;
	struct loop *l = work_alloc(&r->w, sizeof *l);
	const char *name = jinja_name(r->t, "loop");

	list = value_sequence(&r->w, list);
	if (n->kid[0])
		list = filtered_list(r, n, list);
	*l = (struct loop){ .node = n, .scope = outer, .v = list.list->v, .n = list.list->n, .depth = depth };
	for (; l->at < l->n; l->at++) {
		int what;

		work_spend(&r->w, 1);
		r->scope = scope_new(r, outer);
		if (name)
			scope_set(r, r->scope, name, (struct value){ .kind = V_LOOP, .loop = l });
		r->w.line = n->line;
		run_assign(r, n->a, l->v[l->at]);
		what = run_body(r, n->c);
		if (what == BREAK)
			break;
	}
	r->scope = outer;
	if (!l->n && n->kid[1]) {
		int what;

		r->scope = scope_new(r, outer);
		what = run_body(r, n->kid[1]);
		r->scope = outer;
		return what;
	}
	return GO_ON;
}

struct value run_loop(struct run *r, struct loop *l, struct value list)
{
	struct pieces o = { .n = 0 }, *before = r->out;
	struct scope *scope = r->scope;

	if (!l->node->recursive)
		jinja_fail(&r->w, "loop() needs a loop that is declared as recursive");
	work_enter(&r->w);
	r->out = &o;
	r->scope = l->scope;
	run_loop_over(r, l->node, list, l->depth + 1);
	r->scope = scope;
	r->out = before;
	work_leave(&r->w);
	return text_pieces(&r->w, &o);
}

/* ---- macros ---- */

static int is_parameter(const struct node *n, const char *name)
{
	for (size_t i = 0; i < n->n_kid; i++)
		if (!strcmp(n->kid[i]->name, name))
			return 1;
	return 0;
}

/* Set `varargs` and `kwargs` to the arguments that match no parameter, and `caller` to the block of {% call %}. If
 * there are surplus arguments but the template nowhere uses the name `varargs` (or `kwargs`), fail. */
static void set_surplus(struct run *r, const struct macro *m, const struct call *c)
{
	const struct node *n = m->node;
	const char *varargs = jinja_name(r->t, "varargs"), *kwargs = jinja_name(r->t, "kwargs"),
		   *caller = jinja_name(r->t, "caller");
	struct value list = v_list(&r->w, V_TUPLE, 0), dict = v_dict(&r->w, V_DICT);

	for (size_t i = n->n_kid; i < c->n; i++)
		list_add(&r->w, list, c->v[i]);
	for (size_t i = 0; i < c->n_named; i++) {
		if (is_parameter(n, c->name[i]))
			continue;
		if (caller && !strcmp(c->name[i], "caller"))
			scope_set(r, r->scope, caller, c->named[i]);
		else
			dict_set(&r->w, dict.dict, text_word(&r->w, c->name[i]), c->named[i]);
	}
	if (varargs)
		scope_set(r, r->scope, varargs, list);
	else if (list.list->n)
		jinja_fail(&r->w, "the macro '%s' takes %zu arguments, not %zu", n->name, n->n_kid, c->n);
	if (kwargs)
		scope_set(r, r->scope, kwargs, dict);
	else if (dict.dict->n)
		jinja_fail(&r->w, "the macro '%s' has no parameter '%s'", n->name,
		           text_flat(&r->w, dict.dict->v[0].key));
}

struct value run_macro(struct run *r, const struct macro *m, struct call *c)
{
	const struct node *n = m->node;
	struct scope *scope = r->scope;
	struct value v;
	size_t required = n->n_kid - n->args->n;

	work_enter(&r->w);
	r->scope = scope_new(r, m->scope);
	for (size_t i = 0; i < n->n_kid; i++) {
		v = call_arg(c, i, n->kid[i]->name, v_undefined(NULL));
		if (v.kind == V_UNDEFINED && i >= c->n && i >= required) {
			size_t k = 0;

			while (k < c->n_named && strcmp(c->name[k], n->kid[i]->name) != 0)
				k++;
			if (k == c->n_named)
				v = run_eval(r, n->args->v[i - required]);
		}
		scope_set(r, r->scope, n->kid[i]->name, v);
	}
	set_surplus(r, m, c);
	v = run_capture(r, n->c);
	r->scope = scope;
	work_leave(&r->w);
	return v;
}

static struct value macro_of(struct run *r, const struct node *n)
{
	struct macro *m = work_alloc(&r->w, sizeof *m);

	*m = (struct macro){ n, r->scope };
	return (struct value){ .kind = V_MACRO, .macro = m };
}

/* Run {% call(...) f(...) %}. Call f with one more argument, `caller`: a macro whose body is the block. */
static void call_block(struct run *r, const struct node *n)
{
	struct value f = run_eval(r, n->a->a);
	struct call c = { .n = 0 };
	const char **name;
	struct value *named;

	run_call(r, n->a->args, &c);
	name = work_array(&r->w, c.n_named + 1, sizeof *name);
	named = work_array(&r->w, c.n_named + 1, sizeof *named);
	for (size_t i = 0; i < c.n_named; i++) {
		name[i] = c.name[i];
		named[i] = c.named[i];
	}
	name[c.n_named] = n->name;
	named[c.n_named++] = macro_of(r, n);
	c.name = name;
	c.named = named;
	r->w.line = n->line;
	run_print(r, call_value(r, f, &c));
}

/* ---- statements ---- */

/* Apply the filters of a block to v, the innermost filter first. */
static struct value run_filters(struct run *r, const struct node *filter, struct value v)
{
	struct call c = { .n = 0 };

	if (!filter)
		return v;
	v = run_filters(r, filter->a, v);
	run_call(r, filter->args, &c);
	r->w.line = filter->line;
	return filter_apply(r, filter->name, v, &c);
}

static int run_if(struct run *r, const struct node *n)
{
	for (size_t i = 0; i + 1 < n->n_kid; i += 2)
		if (value_truth(run_eval(r, n->kid[i])))
			return run_body(r, n->kid[i + 1]);
	return n->n_kid % 2 ? run_body(r, n->kid[n->n_kid - 1]) : GO_ON;
}

/* Run a block in a scope of its own. If `captured` is not NULL, set *captured to the output, as a string; otherwise
 * print the output. */
static int run_inside(struct run *r, const struct node *n, struct value *captured)
{
	struct scope *outer = r->scope, *s = scope_new(r, outer);
	int what = GO_ON;

	for (size_t i = 0; n->op == S_WITH && i + 1 < n->n_kid; i += 2) {
		/* The values of {% with %} are evaluated in the outer scope. */
		struct value v = run_eval(r, n->kid[i + 1]);

		r->scope = s;
		run_assign(r, n->kid[i], v);
		r->scope = outer;
	}
	r->scope = s;
	if (captured)
		*captured = run_capture(r, n->c);
	else
		what = run_body(r, n->c);
	r->scope = outer;
	return what;
}

static int run_statement(struct run *r, const struct node *n)
{
	struct value v;

	work_spend(&r->w, 1);
	r->w.line = n->line;
	switch (n->op) {
	case S_TEXT: run_print(r, n->value); break;
	case S_PRINT: run_print(r, run_eval(r, n->a)); break;
	case S_IF: return run_if(r, n);
	case S_FOR: return run_loop_over(r, n, run_eval(r, n->b), 0);
	case S_SET: run_assign(r, n->a, run_eval(r, n->b)); break;
	case S_SET_BLOCK:
		run_inside(r, n, &v);
		run_assign(r, n->a, run_filters(r, n->b, v));
		break;
	case S_MACRO: scope_set(r, r->scope, n->name, macro_of(r, n)); break;
	case S_CALL: call_block(r, n); break;
	case S_FILTER:
		run_inside(r, n, &v);
		run_print(r, run_filters(r, n->a, v));
		break;
	case S_BREAK: return BREAK;
	case S_CONTINUE: return CONTINUE;
	default: return run_inside(r, n, NULL); /* S_WITH or S_SCOPE: run the body in a new scope */
	}
	return GO_ON;
}

int run_body(struct run *r, const struct node *body)
{
	int what = GO_ON;

	work_enter(&r->w);
	for (size_t i = 0; what == GO_ON && i < body->n_kid; i++)
		what = run_statement(r, body->kid[i]);
	work_leave(&r->w);
	return what;
}
