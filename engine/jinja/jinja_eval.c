/* engine/jinja/jinja_eval.c - evaluates expressions. */
#include "engine/jinja/jinja_private.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- names and slices ---- */

static struct value variable(struct run *r, const char *name)
{
	const struct function *f;

	for (const struct scope *s = r->scope; s; s = s->parent)
		for (size_t i = 0; i < s->n; i++)
			if (s->v[i].name == name)
				return s->v[i].value;
	f = function_find(name);
	if (f)
		return (struct value){ .kind = V_FUNCTION, .function = f };
	return undefined(r, "'%.60s' is undefined", name);
}

/* A border of a slice as Python limits it. */
static int64_t border(struct run *r, const struct node *n, int64_t other, int64_t low, int64_t high, int64_t len)
{
	struct value v = n ? eval(r, n) : v_none();
	int64_t i;

	if (v.kind == V_NONE)
		return other;
	if (v.kind != V_INT && v.kind != V_BOOL)
		jinja_fail(&r->w, "a slice goes from number to number, not %s", kind_name(v));
	i = v.i < 0 ? v.i + len : v.i;
	return i < low ? low : MIN(high, i);
}

static struct value slice(struct run *r, const struct node *n)
{
	struct value v = eval(r, n->a), step_value = n->kid[2] ? eval(r, n->kid[2]) : v_none(), o;
	struct work *w = &r->w;
	int64_t step = 1, len, from, to;
	int is_text = v.kind == V_TEXT;

	must_be_defined(r, v);
	if (!is_text && v.kind != V_LIST && v.kind != V_TUPLE)
		jinja_fail(w, "%s cannot be sliced", kind_name(v));
	if (step_value.kind == V_INT)
		step = step_value.i;
	if (!step)
		jinja_fail(w, "a slice cannot go in steps of 0");
	len = (int64_t)(is_text ? text_length(w, v) : v.list->n);
	from = border(r, n->kid[0], step > 0 ? 0 : len - 1, step > 0 ? 0 : -1, step > 0 ? len : len - 1, len);
	to = border(r, n->kid[1], step > 0 ? len : -1, step > 0 ? 0 : -1, step > 0 ? len : len - 1, len);
	if (step == 1 && is_text) {
		size_t first = text_byte(w, v, (size_t)from);

		return text_sub(w, v, first, to > from ? text_byte(w, v, (size_t)to) - first : 0);
	}
	if (step == 1) {
		/* a view of the same elements: they do not change */
		struct list *l = work_alloc(w, sizeof *l);

		if (to > from)
			*l = (struct list){ .v = v.list->v + from,
				            .n = (size_t)(to - from),
				            .cap = (size_t)(to - from) };
		return (struct value){ .kind = v.kind, .list = l };
	}
	o = v_list(w, is_text ? V_LIST : v.kind, 0);
	if (is_text)
		v = sequence(w, v);
	for (int64_t i = from; step > 0 ? i < to : i > to;) {
		spend(w, 1);
		list_add(w, o, v.list->v[i]);
		if (__builtin_add_overflow(i, step, &i))
			break;
	}
	if (is_text) {
		struct pieces all = { .n = 0 };

		for (size_t i = 0; i < o.list->n; i++)
			pieces_text(w, &all, o.list->v[i].text, 0, o.list->v[i].text->n);
		return text_pieces(w, &all);
	}
	return o;
}

/* ---- operators ---- */

static struct value joined_lists(struct run *r, struct value a, struct value b)
{
	struct value o = v_list(&r->w, a.kind, a.list->n + b.list->n);

	spend(&r->w, o.list->cap);
	for (size_t i = 0; i < a.list->n; i++)
		list_add(&r->w, o, a.list->v[i]);
	for (size_t i = 0; i < b.list->n; i++)
		list_add(&r->w, o, b.list->v[i]);
	return o;
}

static struct value repeated(struct run *r, struct value v, int64_t times)
{
	struct value o = v.kind == V_TEXT ? text_word(&r->w, "") : v_list(&r->w, v.kind, 0);

	for (int64_t i = 0; i < times; i++) {
		spend(&r->w, 1);
		o = v.kind == V_TEXT ? text_cat(&r->w, o, v) : joined_lists(r, o, v);
	}
	return o;
}

static int64_t floor_div(int64_t a, int64_t b)
{
	return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static struct value power(struct run *r, struct value a, struct value b)
{
	int64_t x = 1;

	if (a.kind == V_REAL || b.kind == V_REAL || b.i < 0)
		return v_real(pow(as_number(a), as_number(b)));
	for (int64_t i = 0; i < b.i; i++) {
		spend(&r->w, 1);
		if (__builtin_mul_overflow(x, a.i, &x))
			jinja_fail(&r->w, "a number is too large");
	}
	return v_int(x);
}

static struct value numbers(struct run *r, enum op op, struct value a, struct value b)
{
	int real = a.kind == V_REAL || b.kind == V_REAL, over = 0;
	double x = as_number(a), y = as_number(b);
	int64_t i = 0;

	if ((op == E_DIV || op == E_FLOOR || op == E_MOD) && !truth(b))
		jinja_fail(&r->w, "a number is divided by zero");
	if (!real && b.i == -1 && (op == E_FLOOR || op == E_MOD))
		return op == E_MOD ? v_int(0) : numbers(r, E_SUB, v_int(0), a);
	switch (op) {
	case E_ADD:
		over = !real && __builtin_add_overflow(a.i, b.i, &i);
		x += y;
		break;
	case E_SUB:
		over = !real && __builtin_sub_overflow(a.i, b.i, &i);
		x -= y;
		break;
	case E_MUL:
		over = !real && __builtin_mul_overflow(a.i, b.i, &i);
		x *= y;
		break;
	case E_DIV:
		real = 1;
		x /= y;
		break;
	case E_FLOOR:
		i = real ? 0 : floor_div(a.i, b.i);
		x = floor(x / y);
		break;
	case E_MOD:
		i = real ? 0 : a.i - b.i * floor_div(a.i, b.i);
		x -= y * floor(x / y);
		break;
	default: return power(r, a, b);
	}
	if (over)
		jinja_fail(&r->w, "a number is too large");
	return real ? v_real(x) : v_int(i);
}

static struct value arithmetic(struct run *r, enum op op, struct value a, struct value b)
{
	static const char *const mark[] = { "+", "-", "*", "/", "//", "%", "**" };

	if (op == E_MOD && a.kind == V_TEXT)
		return text_format(&r->w, a, b);
	must_be_defined(r, a);
	must_be_defined(r, b);
	if (is_number(a) && is_number(b))
		return numbers(r, op, a, b);
	if (op == E_ADD && a.kind == V_TEXT && b.kind == V_TEXT)
		return text_cat(&r->w, a, b);
	if (op == E_ADD && a.kind == b.kind && (a.kind == V_LIST || a.kind == V_TUPLE))
		return joined_lists(r, a, b);
	if (op == E_MUL && (a.kind == V_TEXT || a.kind == V_LIST || a.kind == V_TUPLE) &&
	    (b.kind == V_INT || b.kind == V_BOOL))
		return repeated(r, a, b.i);
	if (op == E_MUL && (b.kind == V_TEXT || b.kind == V_LIST) && (a.kind == V_INT || a.kind == V_BOOL))
		return repeated(r, b, a.i);
	jinja_fail(&r->w, "'%s' does not go with %s and %s", mark[op - E_ADD], kind_name(a), kind_name(b));
}

static int related(struct run *r, enum relation how, struct value a, struct value b)
{
	struct work *w = &r->w;

	switch (how) {
	case R_EQ: return equal(w, a, b);
	case R_NE: return !equal(w, a, b);
	case R_LT: return compare(w, a, b) < 0;
	case R_LE: return compare(w, a, b) <= 0;
	case R_GT: return compare(w, a, b) > 0;
	case R_GE: return compare(w, a, b) >= 0;
	case R_IN: return contains(w, b, a);
	default: return !contains(w, b, a);
	}
}

static struct value comparison(struct run *r, const struct node *n)
{
	struct value left = eval(r, n->a);

	for (size_t i = 0; i < n->n_kid; i++) {
		struct value right = eval(r, n->kid[i]);

		r->w.line = n->line;
		if (!related(r, n->relation[i], left, right))
			return v_bool(0);
		left = right;
	}
	return v_bool(1);
}

/* ---- calls ---- */

void run_call(struct run *r, const struct args *a, struct call *c)
{
	struct work *w = &r->w;
	struct value star = a->star ? sequence(w, eval(r, a->star)) : v_none(),
		     stars = a->stars ? eval(r, a->stars) : v_none();
	size_t more = a->star ? star.list->n : 0, more_named = stars.kind == V_DICT ? stars.dict->n : 0;

	c->v = work_array(w, a->n + more, sizeof *c->v);
	c->name = work_array(w, a->n_named + more_named, sizeof *c->name);
	c->named = work_array(w, a->n_named + more_named, sizeof *c->named);
	for (size_t i = 0; i < a->n; i++)
		c->v[i] = eval(r, a->v[i]);
	for (size_t i = 0; i < more; i++)
		c->v[a->n + i] = star.list->v[i];
	for (size_t i = 0; i < a->n_named; i++) {
		c->name[i] = a->name[i];
		c->named[i] = eval(r, a->named[i]);
	}
	for (size_t i = 0; i < more_named; i++) {
		c->name[a->n_named + i] = text_zero(w, printed(w, stars.dict->v[i].key));
		c->named[a->n_named + i] = stars.dict->v[i].value;
	}
	c->n = a->n + more;
	c->n_named = a->n_named + more_named;
}

struct value call_value(struct run *r, struct value f, struct call *c)
{
	must_be_defined(r, f);
	switch (f.kind) {
	case V_METHOD: return method_call(r, f.method, c);
	case V_FUNCTION: return function_call(r, f.function, c);
	case V_MACRO: return run_macro(r, f.macro, c);
	case V_LOOP: return run_loop(r, f.loop, call_arg(c, 0, NULL, v_undefined(NULL)));
	default: jinja_fail(&r->w, "%s cannot be called", kind_name(f));
	}
}

static struct value call(struct run *r, const struct node *n)
{
	struct value f = eval(r, n->a);
	struct call c = { .n = 0 };

	run_call(r, n->args, &c);
	r->w.line = n->line;
	return call_value(r, f, &c);
}

static struct value filter_or_test(struct run *r, const struct node *n)
{
	struct call c = { .n = 0 };
	struct value v;

	/* An attribute of something undefined may be asked for where the answer is "undefined" anyway: not even Jinja2
	 * does that. */
	v = eval(r, n->a);
	run_call(r, n->args, &c);
	r->w.line = n->line;
	return n->op == E_FILTER ? filter_apply(r, n->name, v, &c) : v_bool(test_apply(r, n->name, v, &c));
}

/* ---- literals ---- */

static struct value list_of(struct run *r, const struct node *n)
{
	struct value o = v_list(&r->w, n->op == E_LIST ? V_LIST : V_TUPLE, n->n_kid);

	for (size_t i = 0; i < n->n_kid; i++)
		list_add(&r->w, o, eval(r, n->kid[i]));
	return o;
}

static struct value dict_of(struct run *r, const struct node *n)
{
	struct value o = v_dict(&r->w, V_DICT);

	for (size_t i = 0; i + 1 < n->n_kid; i += 2) {
		struct value key = eval(r, n->kid[i]);

		dict_set(&r->w, o.dict, key, eval(r, n->kid[i + 1]));
	}
	return o;
}

static struct value concat(struct run *r, const struct node *n)
{
	struct pieces o = { .n = 0 };

	for (size_t i = 0; i < n->n_kid; i++) {
		struct value v = printed(&r->w, eval(r, n->kid[i]));

		pieces_text(&r->w, &o, v.text, 0, v.text->n);
	}
	return text_pieces(&r->w, &o);
}

static struct value fold(struct run *r, const struct node *n)
{
	struct value v = eval(r, n->kid[0]);

	for (size_t i = 1; i < n->n_kid; i++) {
		struct value right = eval(r, n->kid[i]);

		r->w.line = n->line;
		v = arithmetic(r, n->op, v, right);
	}
	return v;
}

static struct value chain(struct run *r, const struct node *n, int stop)
{
	struct value v = v_none();

	for (size_t i = 0; i < n->n_kid; i++) {
		v = eval(r, n->kid[i]);
		if (truth(v) == stop)
			break;
	}
	return v;
}

static struct value sign(struct run *r, enum op op, struct value v)
{
	must_be_defined(r, v);
	if (!is_number(v))
		jinja_fail(&r->w, "%s has no sign", kind_name(v));
	return op == E_NEG ? numbers(r, E_SUB, v_int(0), v) : numbers(r, E_ADD, v_int(0), v);
}

static struct value binary(struct run *r, const struct node *n)
{
	struct value a = eval(r, n->a), b = eval(r, n->b);

	r->w.line = n->line;
	return arithmetic(r, n->op, a, b);
}

static struct value item(struct run *r, const struct node *n)
{
	struct value v = eval(r, n->a), index = eval(r, n->b);

	r->w.line = n->line;
	return get_item(r, v, index);
}

static struct value inline_if(struct run *r, const struct node *n)
{
	if (truth(eval(r, n->a)))
		return eval(r, n->b);
	return n->c ? eval(r, n->c) : v_undefined("an inline if without else is not true");
}

static struct value value_of(struct run *r, const struct node *n)
{
	struct value v;

	switch (n->op) {
	case E_CONST: return n->value;
	case E_NAME: return variable(r, n->name);
	case E_LIST:
	case E_TUPLE: return list_of(r, n);
	case E_DICT: return dict_of(r, n);
	case E_ATTR:
		v = eval(r, n->a);
		r->w.line = n->line;
		return get_attr(r, v, n->name);
	case E_ITEM: return item(r, n);
	case E_SLICE: return slice(r, n);
	case E_CALL: return call(r, n);
	case E_FILTER:
	case E_TEST: return filter_or_test(r, n);
	case E_NOT: return v_bool(!truth(eval(r, n->a)));
	case E_NEG:
	case E_POS: return sign(r, n->op, eval(r, n->a));
	case E_AND: return chain(r, n, 0);
	case E_OR: return chain(r, n, 1);
	case E_COMPARE: return comparison(r, n);
	case E_ADD:
	case E_SUB: return fold(r, n);
	case E_CONCAT: return concat(r, n);
	case E_IF: return inline_if(r, n);
	default: return binary(r, n);
	}
}

struct value eval(struct run *r, const struct node *n)
{
	struct value v;

	spend(&r->w, 1);
	enter(&r->w);
	r->w.line = n->line;
	v = value_of(r, n);
	leave(&r->w);
	return v;
}
