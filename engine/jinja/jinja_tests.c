/* engine/jinja/jinja_tests.c - the tests of Jinja: {{ value is name }}. */
#include "engine/jinja/jinja_private.h"

#include <string.h>

typedef int test(struct run *, struct value, struct call *);

static struct value first_arg(struct call *c)
{
	return call_arg(c, 0, NULL, v_undefined(NULL));
}

static int t_defined(struct run *r, struct value v, struct call *c)
{
	(void)r, (void)c;
	return v.kind != V_UNDEFINED;
}
static int t_undefined(struct run *r, struct value v, struct call *c)
{
	(void)r, (void)c;
	return v.kind == V_UNDEFINED;
}
static int t_none(struct run *r, struct value v, struct call *c)
{
	(void)r, (void)c;
	return v.kind == V_NONE;
}
static int t_boolean(struct run *r, struct value v, struct call *c)
{
	(void)r, (void)c;
	return v.kind == V_BOOL;
}
static int t_true(struct run *r, struct value v, struct call *c)
{
	(void)r, (void)c;
	return v.kind == V_BOOL && v.i;
}
static int t_false(struct run *r, struct value v, struct call *c)
{
	(void)r, (void)c;
	return v.kind == V_BOOL && !v.i;
}
static int t_integer(struct run *r, struct value v, struct call *c)
{
	(void)r, (void)c;
	return v.kind == V_INT;
}
static int t_float(struct run *r, struct value v, struct call *c)
{
	(void)r, (void)c;
	return v.kind == V_REAL;
}
static int t_number(struct run *r, struct value v, struct call *c)
{
	(void)r, (void)c;
	return is_number(v);
}
static int t_string(struct run *r, struct value v, struct call *c)
{
	(void)r, (void)c;
	return v.kind == V_TEXT;
}
static int t_mapping(struct run *r, struct value v, struct call *c)
{
	(void)r, (void)c;
	return v.kind == V_DICT;
}
static int t_callable(struct run *r, struct value v, struct call *c)
{
	(void)r, (void)c;
	return v.kind == V_MACRO || v.kind == V_METHOD || v.kind == V_FUNCTION || v.kind == V_UNDEFINED;
}
static int t_sequence(struct run *r, struct value v, struct call *c)
{
	(void)r, (void)c;
	return v.kind == V_TEXT || v.kind == V_LIST || v.kind == V_TUPLE || v.kind == V_DICT || v.kind == V_UNDEFINED;
}
static int t_eq(struct run *r, struct value v, struct call *c)
{
	return values_equal(&r->w, v, first_arg(c));
}
static int t_ne(struct run *r, struct value v, struct call *c)
{
	return !values_equal(&r->w, v, first_arg(c));
}
static int t_lt(struct run *r, struct value v, struct call *c)
{
	return values_compare(&r->w, v, first_arg(c)) < 0;
}
static int t_le(struct run *r, struct value v, struct call *c)
{
	return values_compare(&r->w, v, first_arg(c)) <= 0;
}
static int t_gt(struct run *r, struct value v, struct call *c)
{
	return values_compare(&r->w, v, first_arg(c)) > 0;
}
static int t_ge(struct run *r, struct value v, struct call *c)
{
	return values_compare(&r->w, v, first_arg(c)) >= 0;
}
static int t_in(struct run *r, struct value v, struct call *c)
{
	return value_contains(&r->w, first_arg(c), v);
}
static int t_sameas(struct run *r, struct value v, struct call *c)
{
	struct value o = first_arg(c);

	return v.kind == o.kind &&
	       (v.kind == V_TEXT || v.kind == V_LIST || v.kind == V_DICT ? v.dict == o.dict
	                                                                 : values_equal(&r->w, v, o));
}

static int64_t whole_number(struct run *r, struct value v)
{
	if (v.kind != V_INT && v.kind != V_BOOL)
		jinja_fail(&r->w, "%s is not a whole number", kind_name(v));
	return v.i;
}
static int t_even(struct run *r, struct value v, struct call *c)
{
	(void)c;
	return whole_number(r, v) % 2 == 0;
}
static int t_odd(struct run *r, struct value v, struct call *c)
{
	(void)c;
	return whole_number(r, v) % 2 != 0;
}
static int t_divisibleby(struct run *r, struct value v, struct call *c)
{
	int64_t by = whole_number(r, first_arg(c));

	if (!by)
		jinja_fail(&r->w, "a number is divided by zero");
	return by == -1 || whole_number(r, v) % by == 0;
}

static int t_lower(struct run *r, struct value v, struct call *c)
{
	(void)c;
	return text_cased(&r->w, value_printed(&r->w, v), 'l');
}
static int t_upper(struct run *r, struct value v, struct call *c)
{
	(void)c;
	return text_cased(&r->w, value_printed(&r->w, v), 'u');
}

static test *test_find(const char *name);
static int t_filter(struct run *r, struct value v, struct call *c)
{
	(void)c;
	return filter_known(text_zero(&r->w, value_printed(&r->w, v)));
}
static int t_test(struct run *r, struct value v, struct call *c)
{
	(void)c;
	return test_find(text_zero(&r->w, value_printed(&r->w, v))) != NULL;
}

/* clang-format off */
static const struct { const char *name; test *run; } tests[] = {
	{ "!=", t_ne }, { "<", t_lt }, { "<=", t_le }, { "==", t_eq }, { ">", t_gt }, { ">=", t_ge }, { "boolean", t_boolean },
	{ "callable", t_callable }, { "defined", t_defined }, { "divisibleby", t_divisibleby }, { "eq", t_eq }, { "equalto", t_eq },
	{ "even", t_even }, { "false", t_false }, { "filter", t_filter }, { "float", t_float }, { "ge", t_ge }, { "greaterthan", t_gt },
	{ "gt", t_gt }, { "in", t_in }, { "integer", t_integer }, { "iterable", t_sequence }, { "le", t_le }, { "lessthan", t_lt },
	{ "lower", t_lower }, { "lt", t_lt }, { "mapping", t_mapping }, { "ne", t_ne }, { "none", t_none }, { "number", t_number },
	{ "odd", t_odd }, { "sameas", t_sameas }, { "sequence", t_sequence }, { "string", t_string }, { "test", t_test },
	{ "true", t_true }, { "undefined", t_undefined }, { "upper", t_upper },
};
/* clang-format on */

static test *test_find(const char *name)
{
	for (size_t i = 0; i < LEN(tests); i++)
		if (!strcmp(tests[i].name, name))
			return tests[i].run;
	return NULL;
}

int test_apply(struct run *r, const char *name, struct value v, struct call *c)
{
	test *t = test_find(name);
	char shown[80];

	work_spend(&r->w, 1);
	if (t)
		return t(r, v, c);
	text_escape(shown, sizeof shown, name, strlen(name) < 40 ? strlen(name) : 40);
	jinja_fail(&r->w, "the test '%s' is not supported", shown);
}
