/* engine/jinja/jinja_filters.c - the filters of Jinja: {{ value|name }}. */
#include "engine/jinja/jinja_private.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct value filter(struct run *, struct value, struct call *);


/* ---- text ---- */

static struct value f_trim(struct run *r, struct value v, struct call *c)
{
	return text_strip(&r->w, value_printed(&r->w, v), 3, call_arg(c, 0, "chars", v_none()));
}
static struct value f_upper(struct run *r, struct value v, struct call *c)
{
	(void)c;
	return text_case(&r->w, value_printed(&r->w, v), 'u');
}
static struct value f_lower(struct run *r, struct value v, struct call *c)
{
	(void)c;
	return text_case(&r->w, value_printed(&r->w, v), 'l');
}
static struct value f_title(struct run *r, struct value v, struct call *c)
{
	(void)c;
	return text_case(&r->w, value_printed(&r->w, v), 'T');
}
static struct value f_capitalize(struct run *r, struct value v, struct call *c)
{
	(void)c;
	return text_case(&r->w, value_printed(&r->w, v), 'c');
}
static struct value f_string(struct run *r, struct value v, struct call *c)
{
	(void)c;
	return value_printed(&r->w, v);
}

static struct value f_replace(struct run *r, struct value v, struct call *c)
{
	struct work *w = &r->w;
	struct value old = value_printed(w, call_arg(c, 0, "old", v_undefined(NULL))),
		     new = value_printed(w, call_arg(c, 1, "new", v_undefined(NULL)));

	return text_replace(w, value_printed(w, v), old, new, call_int(w, c, 2, "count", -1));
}

static struct value f_escape(struct run *r, struct value v, struct call *c)
{
	static const char *const pair[][2] = {
		{ "&", "&amp;" }, { ">", "&gt;" }, { "<", "&lt;" }, { "'", "&#39;" }, { "\"", "&#34;" }
	};

	(void)c;
	v = value_printed(&r->w, v);
	for (size_t i = 0; i < LEN(pair); i++)
		v = text_replace(&r->w, v, text_word(&r->w, pair[i][0]), text_word(&r->w, pair[i][1]), -1);
	return v;
}

static struct value f_indent(struct run *r, struct value v, struct call *c)
{
	struct work *w = &r->w;
	struct value width = call_arg(c, 0, "width", v_int(4)), newline = text_word(w, "\n"), blanks;
	int first = value_truth(call_arg(c, 1, "first", v_bool(0))),
	    blank = value_truth(call_arg(c, 2, "blank", v_bool(0)));
	struct pieces o = { .n = 0 };
	size_t at = 0, n;
	int64_t k = width.kind == V_INT ? width.i : 0;

	v = value_printed(w, v);
	n = v.text->n;
	if (k < 0 || k > 1000)
		jinja_fail(w, "text cannot be indented by %" PRId64, k);
	if (width.kind == V_TEXT) {
		blanks = width;
	} else {
		char *s = work_alloc(w, (size_t)k + 1);

		memset(s, ' ', (size_t)k);
		blanks = text_word(w, s);
	}
	for (int line = 0; at <= n; line++) {
		size_t end = text_find(w, v, newline, at);

		work_spend(w, 1);
		end = end == SIZE_MAX ? n : end;
		if (line ? blank || end > at : first)
			pieces_text(w, &o, blanks.text, 0, blanks.text->n);
		pieces_text(w, &o, v.text, at, (end < n ? end + 1 : n) - at);
		at = end + 1;
	}
	return text_pieces(w, &o);
}

static struct value f_format(struct run *r, struct value v, struct call *c)
{
	struct value args = v_list(&r->w, V_TUPLE, c->n);

	for (size_t i = 0; i < c->n; i++)
		list_add(&r->w, args, c->v[i]);
	return text_format(&r->w, value_printed(&r->w, v), args);
}

static struct value f_truncate(struct run *r, struct value v, struct call *c)
{
	struct work *w = &r->w;
	int64_t most = call_int(w, c, 0, "length", 255), leeway = call_int(w, c, 3, "leeway", 5);
	struct value end = value_printed(w, call_arg(c, 2, "end", text_word(w, "...")));
	int64_t n, dots = (int64_t)text_length(w, end);

	v = value_printed(w, v);
	n = (int64_t)text_length(w, v);
	if (n <= most + leeway || most < dots)
		return v;
	v = text_sub(w, v, 0, text_byte(w, v, (size_t)(most - dots)));
	if (!value_truth(call_arg(c, 1, "killwords", v_bool(0)))) {
		const char *p = text_flat(w, v), *blank = memrchr(p, ' ', v.text->n);

		if (blank)
			v = text_sub(w, v, 0, (size_t)(blank - p));
	}
	return text_cat(w, v, end);
}

static struct value f_wordcount(struct run *r, struct value v, struct call *c)
{
	const char *p;
	int64_t n = 0;
	int inside = 0;

	(void)c;
	v = value_printed(&r->w, v);
	p = text_flat(&r->w, v);
	work_spend(&r->w, v.text->n / 32);
	for (size_t i = 0; i < v.text->n; i++) {
		int blank = blank_at(p + i, v.text->n - i) != 0;

		n += !blank && !inside;
		inside = !blank;
	}
	return v_int(n);
}

static struct value f_tojson(struct run *r, struct value v, struct call *c)
{
	return as_json(&r->w, v, call_arg(c, 1, "indent", v_none()), call_arg(c, 2, "separators", v_none()),
	               value_truth(call_arg(c, 0, "ensure_ascii", v_bool(0))),
	               value_truth(call_arg(c, 3, "sort_keys", v_bool(0))));
}

/* ---- numbers ---- */

static struct value f_int(struct run *r, struct value v, struct call *c)
{
	struct value other = call_arg(c, 0, "default", v_int(0));
	char *end, *s;
	long long i;

	if (v.kind == V_INT || v.kind == V_BOOL)
		return v_int(v.i);
	if (v.kind == V_REAL)
		return fabs(v.real) < 9e18 ? v_int((int64_t)v.real) : other;
	if (v.kind != V_TEXT || !v.text->n)
		return other;
	s = text_zero(&r->w, text_strip(&r->w, v, 3, v_none()));
	i = strtoll(s, &end, (int)call_int(&r->w, c, 1, "base", 10) == 16 ? 16 : 10);
	if (end > s && !*end)
		return v_int(i);
	v = v_real(strtod(s, &end));
	return end > s && !*end && fabs(v.real) < 9e18 ? v_int((int64_t)v.real) : other;
}

static struct value f_float(struct run *r, struct value v, struct call *c)
{
	char *end, *s;
	double d;

	if (is_number(v))
		return v_real(as_number(v));
	if (v.kind != V_TEXT || !v.text->n)
		return call_arg(c, 0, "default", v_real(0));
	s = text_zero(&r->w, text_strip(&r->w, v, 3, v_none()));
	d = strtod(s, &end);
	return end > s && !*end ? v_real(d) : call_arg(c, 0, "default", v_real(0));
}

static struct value f_abs(struct run *r, struct value v, struct call *c)
{
	(void)c;
	if (!is_number(v) || (v.kind == V_INT && v.i == INT64_MIN))
		jinja_fail(&r->w, "%s has no magnitude", kind_name(v));
	return v.kind == V_REAL ? v_real(fabs(v.real)) : v_int(v.i < 0 ? -v.i : v.i);
}

static struct value f_round(struct run *r, struct value v, struct call *c)
{
	int64_t digits = call_int(&r->w, c, 0, "precision", 0);
	struct value how = call_arg(c, 1, "method", text_word(&r->w, "common"));
	double scale = pow(10, (double)digits), d;

	if (!is_number(v))
		jinja_fail(&r->w, "%s cannot be rounded", kind_name(v));
	d = as_number(v) * scale;
	d = text_is(&r->w, how, "ceil") ? ceil(d) : text_is(&r->w, how, "floor") ? floor(d) : nearbyint(d);
	return v_real(d / scale);
}

/* ---- sequences ---- */

static struct value f_length(struct run *r, struct value v, struct call *c)
{
	(void)c;
	if (v.kind == V_TEXT)
		return v_int((int64_t)text_length(&r->w, v));
	if (v.kind == V_UNDEFINED)
		return v_int(0);
	if (v.kind == V_DICT)
		return v_int((int64_t)v.dict->n);
	if (v.kind != V_LIST && v.kind != V_TUPLE)
		jinja_fail(&r->w, "%s has no length", kind_name(v));
	return v_int((int64_t)v.list->n);
}

static struct value f_first(struct run *r, struct value v, struct call *c)
{
	(void)c;
	v = value_sequence(&r->w, v);
	return v.list->n ? v.list->v[0] : v_undefined("there is no first item");
}

static struct value f_last(struct run *r, struct value v, struct call *c)
{
	(void)c;
	v = value_sequence(&r->w, v);
	return v.list->n ? v.list->v[v.list->n - 1] : v_undefined("there is no last item");
}

static struct value list_copy(struct run *r, struct value v)
{
	struct value o;

	v = value_sequence(&r->w, v);
	o = v_list(&r->w, V_LIST, v.list->n);
	work_spend(&r->w, v.list->n);
	for (size_t i = 0; i < v.list->n; i++)
		list_add(&r->w, o, v.list->v[i]);
	return o;
}

static struct value f_list(struct run *r, struct value v, struct call *c)
{
	(void)c;
	return list_copy(r, v);
}

static struct value f_reverse(struct run *r, struct value v, struct call *c)
{
	struct value o = list_copy(r, v);

	(void)c;
	for (size_t i = 0, n = o.list->n; i < n / 2; i++) {
		struct value x = o.list->v[i];

		o.list->v[i] = o.list->v[n - 1 - i];
		o.list->v[n - 1 - i] = x;
	}
	if (v.kind == V_TEXT) {
		struct pieces all = { .n = 0 };

		for (size_t i = 0; i < o.list->n; i++)
			pieces_text(&r->w, &all, o.list->v[i].text, 0, o.list->v[i].text->n);
		return text_pieces(&r->w, &all);
	}
	return o;
}

/* Return the attribute or item of v at `path`. `path` is an index, or a sequence of names and indices with dots between
 * them ("a.b"). If `path` is V_NONE, return v itself. */
static struct value attribute_of(struct run *r, struct value v, struct value path)
{
	char *s, *dot;

	if (path.kind == V_NONE)
		return v;
	if (path.kind != V_TEXT)
		return get_item(r, v, path);
	for (s = text_zero(&r->w, path); s; s = dot) {
		char *end;
		long long i = strtoll(s, &end, 10);

		dot = strchr(s, '.');
		if (dot)
			*dot++ = 0;
		v = end > s && !*end ? get_item(r, v, v_int(i)) : get_item(r, v, text_word(&r->w, s));
	}
	return v;
}

static struct value f_join(struct run *r, struct value v, struct call *c)
{
	struct work *w = &r->w;
	struct value by = value_printed(w, call_arg(c, 0, "d", text_word(w, ""))),
		     path = call_arg(c, 1, "attribute", v_none());
	struct pieces o = { .n = 0 };

	v = value_sequence(w, v);
	for (size_t i = 0; i < v.list->n; i++) {
		struct value x = value_printed(w, attribute_of(r, v.list->v[i], path));

		work_spend(w, 1);
		if (i)
			pieces_text(w, &o, by.text, 0, by.text->n);
		pieces_text(w, &o, x.text, 0, x.text->n);
	}
	return text_pieces(w, &o);
}

static struct value sort_key(struct run *r, struct value v, struct value path, int exact)
{
	v = attribute_of(r, v, path);
	return v.kind == V_TEXT && !exact ? text_case(&r->w, v, 'l') : v;
}

static struct value *sort_keys(struct run *r, struct value list, struct value path, int exact)
{
	struct value *key = work_array(&r->w, list.list->n, sizeof *key);

	for (size_t i = 0; i < list.list->n; i++)
		key[i] = sort_key(r, list.list->v[i], path, exact);
	return key;
}

static struct value f_sort(struct run *r, struct value v, struct call *c)
{
	struct value o = list_copy(r, v), path = call_arg(c, 2, "attribute", v_none());
	int exact = value_truth(call_arg(c, 1, "case_sensitive", v_bool(0)));

	sort_values(&r->w, o.list->v, sort_keys(r, o, path, exact), o.list->n,
	            value_truth(call_arg(c, 0, "reverse", v_bool(0))));
	return o;
}

static struct value f_unique(struct run *r, struct value v, struct call *c)
{
	struct value o = v_list(&r->w, V_LIST, 0), seen = v_list(&r->w, V_LIST, 0),
		     path = call_arg(c, 1, "attribute", v_none());
	int exact = value_truth(call_arg(c, 0, "case_sensitive", v_bool(0)));

	v = value_sequence(&r->w, v);
	for (size_t i = 0; i < v.list->n; i++) {
		struct value key = sort_key(r, v.list->v[i], path, exact);

		if (value_contains(&r->w, seen, key))
			continue;
		list_add(&r->w, seen, key);
		list_add(&r->w, o, v.list->v[i]);
	}
	return o;
}

static struct value list_extreme(struct run *r, struct value v, struct call *c, int sign)
{
	struct value path = call_arg(c, 1, "attribute", v_none()), *key;
	size_t best = 0;

	v = value_sequence(&r->w, v);
	if (!v.list->n)
		return v_undefined("there is no item");
	key = sort_keys(r, v, path, value_truth(call_arg(c, 0, "case_sensitive", v_bool(0))));
	for (size_t i = 1; i < v.list->n; i++)
		if (sign * values_compare(&r->w, key[i], key[best]) > 0)
			best = i;
	return v.list->v[best];
}
static struct value f_max(struct run *r, struct value v, struct call *c)
{
	return list_extreme(r, v, c, 1);
}
static struct value f_min(struct run *r, struct value v, struct call *c)
{
	return list_extreme(r, v, c, -1);
}

static struct value f_sum(struct run *r, struct value v, struct call *c)
{
	struct value path = call_arg(c, 0, "attribute", v_none()), start = call_arg(c, 1, "start", v_int(0));
	double d = as_number(start);
	int64_t i = start.kind == V_REAL ? 0 : start.i;
	int real = start.kind == V_REAL;

	v = value_sequence(&r->w, v);
	for (size_t k = 0; k < v.list->n; k++) {
		struct value x = attribute_of(r, v.list->v[k], path);

		if (!is_number(x) || (x.kind != V_REAL && __builtin_add_overflow(i, x.i, &i)))
			jinja_fail(&r->w, "%s cannot be added up", kind_name(x));
		real |= x.kind == V_REAL;
		d += as_number(x);
	}
	return real ? v_real(d) : v_int(i);
}

static struct value f_items(struct run *r, struct value v, struct call *c)
{
	(void)c;
	if (v.kind == V_UNDEFINED)
		return v_list(&r->w, V_LIST, 0);
	if (v.kind != V_DICT)
		jinja_fail(&r->w, "%s has no items", kind_name(v));
	return dict_items(&r->w, v.dict);
}

static struct value f_dictsort(struct run *r, struct value v, struct call *c)
{
	struct value o = f_items(r, v, c), by = call_arg(c, 1, "by", text_word(&r->w, "key"));
	int exact = value_truth(call_arg(c, 0, "case_sensitive", v_bool(0)));

	sort_values(&r->w, o.list->v, sort_keys(r, o, v_int(text_is(&r->w, by, "value")), exact), o.list->n,
	            value_truth(call_arg(c, 2, "reverse", v_bool(0))));
	return o;
}

/* Divide a list into lists of n items. The argument fill_with pads the last list. */
static struct value f_batch(struct run *r, struct value v, struct call *c)
{
	int64_t n = call_int(&r->w, c, 0, "linecount", 0);
	struct value fill = call_arg(c, 1, "fill_with", v_none()), o = v_list(&r->w, V_LIST, 0), part = o;

	v = value_sequence(&r->w, v);
	if (n < 1)
		jinja_fail(&r->w, "a batch needs at least one item");
	for (size_t i = 0; i < v.list->n; i++) {
		if (i % (size_t)n == 0) {
			part = v_list(&r->w, V_LIST, 0);
			list_add(&r->w, o, part);
		}
		list_add(&r->w, part, v.list->v[i]);
	}
	while (v.list->n && fill.kind != V_NONE && (int64_t)part.list->n < n) {
		work_spend(&r->w, 1);
		list_add(&r->w, part, fill);
	}
	return o;
}

static struct value f_groupby(struct run *r, struct value v, struct call *c)
{
	struct value path = call_arg(c, 0, "attribute", v_none()), o = v_list(&r->w, V_LIST, 0), list = list_copy(r, v),
		     group = o, last = v_none();
	int exact = value_truth(call_arg(c, 2, "case_sensitive", v_bool(0)));

	sort_values(&r->w, list.list->v, sort_keys(r, list, path, exact), list.list->n, 0);
	for (size_t i = 0; i < list.list->n; i++) {
		struct value key = attribute_of(r, list.list->v[i], path);

		if (!i || !values_equal(&r->w, key, last)) {
			struct value pair = v_list(&r->w, V_TUPLE, 2);

			group = v_list(&r->w, V_LIST, 0);
			list_add(&r->w, pair, key);
			list_add(&r->w, pair, group);
			list_add(&r->w, o, pair);
			last = key;
		}
		list_add(&r->w, group, list.list->v[i]);
	}
	return o;
}

/* Return the call without its first k arguments. */
static struct call call_rest(const struct call *c, size_t k)
{
	struct call o = *c;

	k = MIN(k, c->n);
	o.v += k;
	o.n -= k;
	return o;
}

/* Return the items that the filters `map` and `select` visit. A value that is false in Python (None, False, 0, an empty
 * string or container) has no items. */
static struct value filter_items(struct run *r, struct value v)
{
	return value_truth(v) ? value_sequence(&r->w, v) : v_list(&r->w, V_LIST, 0);
}

static struct value f_map(struct run *r, struct value v, struct call *c)
{
	struct value o = v_list(&r->w, V_LIST, 0), path = call_arg(c, SIZE_MAX, "attribute", v_none());
	struct value other = call_arg(c, SIZE_MAX, "default", v_undefined(NULL));
	char *name = path.kind == V_NONE && c->n ? text_zero(&r->w, value_printed(&r->w, c->v[0])) : NULL;
	struct call more = call_rest(c, 1);

	v = filter_items(r, v);
	for (size_t i = 0; i < v.list->n; i++) {
		struct value x =
			name ? filter_apply(r, name, v.list->v[i], &more) : attribute_of(r, v.list->v[i], path);

		list_add(&r->w, o, !name && x.kind == V_UNDEFINED && other.kind != V_UNDEFINED ? other : x);
	}
	return o;
}

static struct value select_items(struct run *r, struct value v, struct call *c, int with_attribute, int wanted)
{
	struct value o = v_list(&r->w, V_LIST, 0), path = with_attribute ? call_arg(c, 0, NULL, v_none()) : v_none();
	size_t k = (size_t)with_attribute;
	char *name = k < c->n ? text_zero(&r->w, value_printed(&r->w, c->v[k])) : NULL;
	struct call more = call_rest(c, k + 1);

	v = filter_items(r, v);
	for (size_t i = 0; i < v.list->n; i++) {
		struct value x = attribute_of(r, v.list->v[i], path);

		work_spend(&r->w, 1);
		if ((name ? test_apply(r, name, x, &more) : value_truth(x)) == wanted)
			list_add(&r->w, o, v.list->v[i]);
	}
	return o;
}
static struct value f_select(struct run *r, struct value v, struct call *c)
{
	return select_items(r, v, c, 0, 1);
}
static struct value f_reject(struct run *r, struct value v, struct call *c)
{
	return select_items(r, v, c, 0, 0);
}
static struct value f_selectattr(struct run *r, struct value v, struct call *c)
{
	return select_items(r, v, c, 1, 1);
}
static struct value f_rejectattr(struct run *r, struct value v, struct call *c)
{
	return select_items(r, v, c, 1, 0);
}

/* ---- defaults and attributes ---- */

static struct value f_default(struct run *r, struct value v, struct call *c)
{
	int also_false = value_truth(call_arg(c, 1, "boolean", v_bool(0)));

	return v.kind == V_UNDEFINED || (also_false && !value_truth(v))
	               ? call_arg(c, 0, "default_value", text_word(&r->w, ""))
	               : v;
}

static struct value f_attr(struct run *r, struct value v, struct call *c)
{
	must_be_defined(r, v);
	return get_attr(r, v, text_zero(&r->w, value_printed(&r->w, call_arg(c, 0, "name", v_undefined(NULL)))));
}

/* clang-format off */
static const struct { const char *name; filter *run; } filters[] = {
	{ "abs", f_abs }, { "attr", f_attr }, { "batch", f_batch }, { "capitalize", f_capitalize }, { "count", f_length },
	{ "d", f_default }, { "default", f_default }, { "dictsort", f_dictsort }, { "e", f_escape }, { "escape", f_escape },
	{ "first", f_first }, { "float", f_float }, { "forceescape", f_escape }, { "format", f_format }, { "groupby", f_groupby },
	{ "indent", f_indent }, { "int", f_int }, { "items", f_items }, { "join", f_join }, { "last", f_last }, { "length", f_length },
	{ "list", f_list }, { "lower", f_lower }, { "map", f_map }, { "max", f_max }, { "min", f_min }, { "reject", f_reject },
	{ "rejectattr", f_rejectattr }, { "replace", f_replace }, { "reverse", f_reverse }, { "round", f_round }, { "safe", f_string },
	{ "select", f_select }, { "selectattr", f_selectattr }, { "sort", f_sort }, { "string", f_string }, { "sum", f_sum },
	{ "title", f_title }, { "tojson", f_tojson }, { "trim", f_trim }, { "truncate", f_truncate }, { "unique", f_unique },
	{ "upper", f_upper }, { "wordcount", f_wordcount },
};
/* clang-format on */

static filter *filter_find(const char *name)
{
	for (size_t i = 0; i < LEN(filters); i++)
		if (!strcmp(filters[i].name, name))
			return filters[i].run;
	return NULL;
}

int filter_known(const char *name)
{
	return filter_find(name) != NULL;
}

struct value filter_apply(struct run *r, const char *name, struct value v, struct call *c)
{
	filter *f = filter_find(name);
	char shown[80];

	work_spend(&r->w, 1);
	if (f)
		return f(r, v, c);
	text_escape(shown, sizeof shown, name, strlen(name) < 40 ? strlen(name) : 40);
	jinja_fail(&r->w, "the filter '%s' is not supported", shown);
}
