/* engine/jinja/jinja_eval.c - evaluates expressions. */
#include "engine/jinja/jinja_private.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- names and slices ---- */

static struct value variable_find(struct run *r, const char *name)
{
	const struct function *f;

	for (const struct scope *s = r->scope; s; s = s->parent)
		for (size_t i = 0; i < s->n; i++)
			if (s->v[i].name == name)
				return s->v[i].value;
	f = function_find(name);
	if (f)
		return (struct value){ .kind = V_FUNCTION, .function = f };
	return undefined_because(r, "'%.60s' is undefined", name);
}

/* Return one border of a slice, as in Python: the value of n, but at least `low` and at most `high`. A negative value
 * counts from the end of the `len` elements. If n is NULL or its value is None, return `other`. */
static int64_t slice_border(struct run *r, const struct node *n, int64_t other, int64_t low, int64_t high, int64_t len)
{
	struct value v = n ? run_eval(r, n) : v_none();
	int64_t i;

	if (v.kind == V_NONE)
		return other;
	if (v.kind != V_INT && v.kind != V_BOOL)
		jinja_fail(&r->w, "a slice goes from number to number, not %s", kind_name(v));
	i = v.i < 0 ? v.i + len : v.i;
	return i < low ? low : MIN(high, i);
}

static struct value slice_value(struct run *r, const struct node *n)
{
	struct value v = run_eval(r, n->a), step_value = n->kid[2] ? run_eval(r, n->kid[2]) : v_none(), o;
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
	from = slice_border(r, n->kid[0], step > 0 ? 0 : len - 1, step > 0 ? 0 : -1, step > 0 ? len : len - 1, len);
	to = slice_border(r, n->kid[1], step > 0 ? len : -1, step > 0 ? 0 : -1, step > 0 ? len : len - 1, len);
	if (step == 1 && is_text) {
		size_t first = text_byte(w, v, (size_t)from);

		return text_sub(w, v, first, to > from ? text_byte(w, v, (size_t)to) - first : 0);
	}
	if (step == 1) {
		/* Use the elements of v instead of a copy, which is safe because a template cannot change a list. */
		struct list *l = work_alloc(w, sizeof *l);

		if (to > from)
			*l = (struct list){ .v = v.list->v + from,
				            .n = (size_t)(to - from),
				            .cap = (size_t)(to - from) };
		return (struct value){ .kind = v.kind, .list = l };
	}
	o = v_list(w, is_text ? V_LIST : v.kind, 0);
	if (is_text)
		v = value_sequence(w, v);
	for (int64_t i = from; step > 0 ? i < to : i > to;) {
		work_spend(w, 1);
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

	work_spend(&r->w, o.list->cap);
	for (size_t i = 0; i < a.list->n; i++)
		list_add(&r->w, o, a.list->v[i]);
	for (size_t i = 0; i < b.list->n; i++)
		list_add(&r->w, o, b.list->v[i]);
	return o;
}

static struct value repeated_value(struct run *r, struct value v, int64_t times)
{
	struct value o = v.kind == V_TEXT ? text_word(&r->w, "") : v_list(&r->w, v.kind, 0);

	for (int64_t i = 0; i < times; i++) {
		work_spend(&r->w, 1);
		o = v.kind == V_TEXT ? text_cat(&r->w, o, v) : joined_lists(r, o, v);
	}
	return o;
}

static int64_t floor_div(int64_t a, int64_t b)
{
	return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static struct value number_power(struct run *r, struct value a, struct value b)
{
	int64_t x = 1;

	if (a.kind == V_REAL || b.kind == V_REAL || b.i < 0)
		return v_real(pow(as_number(a), as_number(b)));
	for (int64_t i = 0; i < b.i; i++) {
		work_spend(&r->w, 1);
		if (__builtin_mul_overflow(x, a.i, &x))
			jinja_fail(&r->w, "a number is too large");
	}
	return v_int(x);
}

static struct value number_arithmetic(struct run *r, enum op op, struct value a, struct value b)
{
	int real = a.kind == V_REAL || b.kind == V_REAL, over = 0;
	double x = as_number(a), y = as_number(b);
	int64_t i = 0;

	if ((op == E_DIV || op == E_FLOOR || op == E_MOD) && !value_truth(b))
		jinja_fail(&r->w, "a number is divided by zero");
	if (!real && b.i == -1 && (op == E_FLOOR || op == E_MOD))
		return op == E_MOD ? v_int(0) : number_arithmetic(r, E_SUB, v_int(0), a);
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
	default: return number_power(r, a, b);
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
		return number_arithmetic(r, op, a, b);
	if (op == E_ADD && a.kind == V_TEXT && b.kind == V_TEXT)
		return text_cat(&r->w, a, b);
	if (op == E_ADD && a.kind == b.kind && (a.kind == V_LIST || a.kind == V_TUPLE))
		return joined_lists(r, a, b);
	if (op == E_MUL && (a.kind == V_TEXT || a.kind == V_LIST || a.kind == V_TUPLE) &&
	    (b.kind == V_INT || b.kind == V_BOOL))
		return repeated_value(r, a, b.i);
	if (op == E_MUL && (b.kind == V_TEXT || b.kind == V_LIST) && (a.kind == V_INT || a.kind == V_BOOL))
		return repeated_value(r, b, a.i);
	jinja_fail(&r->w, "'%s' does not go with %s and %s", mark[op - E_ADD], kind_name(a), kind_name(b));
}

static int values_related(struct run *r, enum relation how, struct value a, struct value b)
{
	struct work *w = &r->w;

	switch (how) {
	case R_EQ: return values_equal(w, a, b);
	case R_NE: return !values_equal(w, a, b);
	case R_LT: return values_compare(w, a, b) < 0;
	case R_LE: return values_compare(w, a, b) <= 0;
	case R_GT: return values_compare(w, a, b) > 0;
	case R_GE: return values_compare(w, a, b) >= 0;
	case R_IN: return value_contains(w, b, a);
	default: return !value_contains(w, b, a);
	}
}

static struct value comparison_value(struct run *r, const struct node *n)
{
	struct value left = run_eval(r, n->a);

	for (size_t i = 0; i < n->n_kid; i++) {
		struct value right = run_eval(r, n->kid[i]);

		r->w.line = n->line;
		if (!values_related(r, n->relation[i], left, right))
			return v_bool(0);
		left = right;
	}
	return v_bool(1);
}

/* ---- calls ---- */

void run_call(struct run *r, const struct args *a, struct call *c)
{
	struct work *w = &r->w;
	struct value star = a->star ? value_sequence(w, run_eval(r, a->star)) : v_none(),
		     stars = a->stars ? run_eval(r, a->stars) : v_none();
	size_t more = a->star ? star.list->n : 0, more_named = stars.kind == V_DICT ? stars.dict->n : 0;

	c->v = work_array(w, a->n + more, sizeof *c->v);
	c->name = work_array(w, a->n_named + more_named, sizeof *c->name);
	c->named = work_array(w, a->n_named + more_named, sizeof *c->named);
	for (size_t i = 0; i < a->n; i++)
		c->v[i] = run_eval(r, a->v[i]);
	for (size_t i = 0; i < more; i++)
		c->v[a->n + i] = star.list->v[i];
	for (size_t i = 0; i < a->n_named; i++) {
		c->name[i] = a->name[i];
		c->named[i] = run_eval(r, a->named[i]);
	}
	for (size_t i = 0; i < more_named; i++) {
		c->name[a->n_named + i] = text_zero(w, value_printed(w, stars.dict->v[i].key));
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

static struct value call_node(struct run *r, const struct node *n)
{
	struct value f = run_eval(r, n->a);
	struct call c = { .n = 0 };

	run_call(r, n->args, &c);
	r->w.line = n->line;
	return call_value(r, f, &c);
}

static struct value filter_or_test(struct run *r, const struct node *n)
{
	struct call c = { .n = 0 };
	struct value v;

	v = run_eval(r, n->a);
	run_call(r, n->args, &c);
	r->w.line = n->line;
	return n->op == E_FILTER ? filter_apply(r, n->name, v, &c) : v_bool(test_apply(r, n->name, v, &c));
}

/* ---- literals ---- */

static struct value list_of(struct run *r, const struct node *n)
{
	struct value o = v_list(&r->w, n->op == E_LIST ? V_LIST : V_TUPLE, n->n_kid);

	for (size_t i = 0; i < n->n_kid; i++)
		list_add(&r->w, o, run_eval(r, n->kid[i]));
	return o;
}

static struct value dict_of(struct run *r, const struct node *n)
{
	struct value o = v_dict(&r->w, V_DICT);

	for (size_t i = 0; i + 1 < n->n_kid; i += 2) {
		struct value key = run_eval(r, n->kid[i]);

		dict_set(&r->w, o.dict, key, run_eval(r, n->kid[i + 1]));
	}
	return o;
}

static struct value concat_value(struct run *r, const struct node *n)
{
	struct pieces o = { .n = 0 };

	for (size_t i = 0; i < n->n_kid; i++) {
		struct value v = value_printed(&r->w, run_eval(r, n->kid[i]));

		pieces_text(&r->w, &o, v.text, 0, v.text->n);
	}
	return text_pieces(&r->w, &o);
}

static struct value sum_value(struct run *r, const struct node *n)
{
	struct value v = run_eval(r, n->kid[0]);

	for (size_t i = 1; i < n->n_kid; i++) {
		struct value right = run_eval(r, n->kid[i]);

		r->w.line = n->line;
		v = arithmetic(r, n->op, v, right);
	}
	return v;
}

static struct value logic_value(struct run *r, const struct node *n, int stop)
{
	struct value v = v_none();

	for (size_t i = 0; i < n->n_kid; i++) {
		v = run_eval(r, n->kid[i]);
		if (value_truth(v) == stop)
			break;
	}
	return v;
}

static struct value signed_number(struct run *r, enum op op, struct value v)
{
	must_be_defined(r, v);
	if (!is_number(v))
		jinja_fail(&r->w, "%s has no sign", kind_name(v));
	return op == E_NEG ? number_arithmetic(r, E_SUB, v_int(0), v) : number_arithmetic(r, E_ADD, v_int(0), v);
}

static struct value binary_value(struct run *r, const struct node *n)
{
	struct value a = run_eval(r, n->a), b = run_eval(r, n->b);

	r->w.line = n->line;
	return arithmetic(r, n->op, a, b);
}

static struct value item_value(struct run *r, const struct node *n)
{
	struct value v = run_eval(r, n->a), index = run_eval(r, n->b);

	r->w.line = n->line;
	return get_item(r, v, index);
}

static struct value inline_if_value(struct run *r, const struct node *n)
{
	if (value_truth(run_eval(r, n->a)))
		return run_eval(r, n->b);
	return n->c ? run_eval(r, n->c) : v_undefined("an inline if without else is not true");
}

static struct value value_of(struct run *r, const struct node *n)
{
	struct value v;

	switch (n->op) {
	case E_CONST: return n->value;
	case E_NAME: return variable_find(r, n->name);
	case E_LIST:
	case E_TUPLE: return list_of(r, n);
	case E_DICT: return dict_of(r, n);
	case E_ATTR:
		v = run_eval(r, n->a);
		r->w.line = n->line;
		return get_attr(r, v, n->name);
	case E_ITEM: return item_value(r, n);
	case E_SLICE: return slice_value(r, n);
	case E_CALL: return call_node(r, n);
	case E_FILTER:
	case E_TEST: return filter_or_test(r, n);
	case E_NOT: return v_bool(!value_truth(run_eval(r, n->a)));
	case E_NEG:
	case E_POS: return signed_number(r, n->op, run_eval(r, n->a));
	case E_AND: return logic_value(r, n, 0);
	case E_OR: return logic_value(r, n, 1);
	case E_COMPARE: return comparison_value(r, n);
	case E_ADD:
	case E_SUB: return sum_value(r, n);
	case E_CONCAT: return concat_value(r, n);
	case E_IF: return inline_if_value(r, n);
	default: return binary_value(r, n);
	}
}

struct value run_eval(struct run *r, const struct node *n)
{
	struct value v;

	work_spend(&r->w, 1);
	work_enter(&r->w);
	r->w.line = n->line;
	v = value_of(r, n);
	work_leave(&r->w);
	return v;
}
