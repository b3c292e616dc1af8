/* engine/jinja/jinja_methods.c - methods of strings and dictionaries, and the functions that every template can call.
 *
 * Methods that change a value in place (append, update, pop, ...) are refused, as in the sandbox of the transformers
 * library. */
#include "engine/jinja/jinja_private.h"
#include "engine/base/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct value text_arg(struct run *r, const struct call *c, size_t at, const char *method)
{
	struct value v = call_arg(c, at, NULL, v_undefined(NULL));

	if (v.kind != V_TEXT)
		jinja_fail(&r->w, "%s() takes a string, not %s", method, kind_name(v));
	return v;
}

/* ---- formatted text ---- */

/* Return v formatted as Python's % operator formats it by "%SPECletter". SPEC is the n bytes `spec`: flags, width and
 * precision. */
static struct value format_value(struct work *w, const char *spec, size_t n, char letter, struct value v)
{
	char format[40], text[420];
	int len;

	if (strchr("srac", letter)) {
		struct value s;

		if (letter == 'r') {
			struct value list = v_list(w, V_LIST, 1);

			list_add(w, list, v);
			s = value_printed(w, list);
			s = text_sub(w, s, 1, s.text->n - 2);
		} else {
			s = value_printed(w, v);
		}
		if (n)
			jinja_fail(w, "a width in a format is not supported for text");
		return s;
	}
	if (!strchr("dixXofFeEgG", letter))
		jinja_fail(w, "the format %%%c is not supported", letter);
	if (!is_number(v))
		jinja_fail(w, "the format %%%c needs a number, not %s", letter, kind_name(v));
	for (size_t i = 0; i < n; i++)
		if (n > 8 || !strchr("+- 0123456789.#", spec[i]))
			jinja_fail(w, "the width of a format is not supported");
	if (strchr("dixXo", letter)) {
		snprintf(format, sizeof format, "%%%.*s%s", (int)n, spec, PRId64);
		format[strlen(format) - 1] = letter == 'i' ? 'd' : letter;
	} else {
		snprintf(format, sizeof format, "%%%.*s%c", (int)n, spec, letter);
	}
	/* The format is not a literal, but it is safe: its characters were checked, and snprintf() limits the length of
	 * the output. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	len = strchr("dixXo", letter) ? snprintf(text, sizeof text, format, v.kind == V_REAL ? (int64_t)v.real : v.i)
	                              : snprintf(text, sizeof text, format, as_number(v));
#pragma GCC diagnostic pop
	if (len < 0 || len >= (int)sizeof text)
		jinja_fail(w, "a formatted number is too long");
	return text_value(w, work_copy(w, text, (size_t)len), (size_t)len, JINJA_TEMPLATE);
}

struct value text_format(struct work *w, struct value format, struct value args)
{
	const char *p = text_flat(w, format), *end = p + format.text->n, *s = p;
	struct pieces o = { .n = 0 };
	size_t next = 0, n = args.kind == V_TUPLE ? args.list->n : 1;

	while (s < end) {
		const char *mark = memchr(s, '%', (size_t)(end - s)), *letter;
		struct value v;

		work_spend(w, 1);
		if (!mark)
			mark = end;
		pieces_text(w, &o, format.text, (size_t)(s - p), (size_t)(mark - s));
		if (mark == end)
			break;
		letter = mark + 1;
		while (letter < end && *letter && strchr("+- 0123456789.#", *letter))
			letter++;
		if (letter == end)
			jinja_fail(w, "a format ends with %%");
		if (*letter == '%') {
			pieces_text(w, &o, format.text, (size_t)(letter - p), 1);
		} else {
			if (next >= n)
				jinja_fail(w, "a format has more places than values");
			v = format_value(w, mark + 1, (size_t)(letter - mark - 1), *letter,
			                 args.kind == V_TUPLE ? args.list->v[next] : args);
			next++;
			pieces_text(w, &o, v.text, 0, v.text->n);
		}
		s = letter + 1;
	}
	if (next < n && args.kind != V_DICT)
		jinja_fail(w, "a format has fewer places than values");
	return text_pieces(w, &o);
}

/* Do what Python's str.format() does: {} becomes the next argument, {0} becomes argument 0, and {name} becomes the
 * argument of that name. */
static struct value m_format(struct run *r, struct value self, struct call *c)
{
	struct work *w = &r->w;
	const char *p = text_flat(w, self), *end = p + self.text->n, *s = p;
	struct pieces o = { .n = 0 };
	size_t next = 0;

	while (s < end) {
		size_t plain = 0;
		const char *close;
		struct value v;

		work_spend(w, 1);
		while (s + plain < end && s[plain] != '{' && s[plain] != '}')
			plain++;
		pieces_text(w, &o, self.text, (size_t)(s - p), plain);
		s += plain;
		if (s == end)
			break;
		if (s + 1 < end && s[1] == *s) {
			pieces_text(w, &o, self.text, (size_t)(s - p), 1);
			s += 2;
			continue;
		}
		close = *s == '{' ? memchr(s, '}', (size_t)(end - s)) : NULL;
		if (!close)
			jinja_fail(w, "a format has a single '%c'", *s);
		if (close == s + 1) {
			v = call_arg(c, next++, NULL, v_undefined(NULL));
		} else {
			char *name = work_copy(w, s + 1, (size_t)(close - s - 1)), *rest;
			unsigned long i = strtoul(name, &rest, 10);

			if (strpbrk(name, ":!.["))
				jinja_fail(w, "a format with more than a name is not supported");
			v = rest > name && !*rest ? call_arg(c, i, NULL, v_undefined(NULL))
			                          : call_arg(c, SIZE_MAX, name, v_undefined(NULL));
		}
		v = value_printed(w, v);
		pieces_text(w, &o, v.text, 0, v.text->n);
		s = close + 1;
	}
	return text_pieces(w, &o);
}

/* ---- strings ---- */

static struct value m_strip(struct run *r, struct value v, struct call *c)
{
	return text_strip(&r->w, v, 3, call_arg(c, 0, NULL, v_none()));
}
static struct value m_lstrip(struct run *r, struct value v, struct call *c)
{
	return text_strip(&r->w, v, 1, call_arg(c, 0, NULL, v_none()));
}
static struct value m_rstrip(struct run *r, struct value v, struct call *c)
{
	return text_strip(&r->w, v, 2, call_arg(c, 0, NULL, v_none()));
}
static struct value m_upper(struct run *r, struct value v, struct call *c)
{
	(void)c;
	return text_case(&r->w, v, 'u');
}
static struct value m_lower(struct run *r, struct value v, struct call *c)
{
	(void)c;
	return text_case(&r->w, v, 'l');
}
static struct value m_title(struct run *r, struct value v, struct call *c)
{
	(void)c;
	return text_case(&r->w, v, 't');
}
static struct value m_capitalize(struct run *r, struct value v, struct call *c)
{
	(void)c;
	return text_case(&r->w, v, 'c');
}

static struct value m_replace(struct run *r, struct value v, struct call *c)
{
	return text_replace(&r->w, v, text_arg(r, c, 0, "replace"), text_arg(r, c, 1, "replace"),
	                    call_int(&r->w, c, 2, "count", -1));
}

/* Split at white space, at most `most` times, or without limit if most < 0. If from_right is 1, make the splits nearest
 * to the end, so that the first `skipped` words stay together. The first pass counts the words, the second one adds
 * them to the list. */
static struct value split_blanks(struct run *r, struct value v, int64_t most, int from_right)
{
	struct work *w = &r->w;
	struct value o = v_list(w, V_LIST, 0);
	const char *p = text_flat(w, v);
	size_t n = v.text->n, at = 0, words = 0, skipped = 0;

	work_spend(w, n / 16);
	for (int pass = 0; pass < 2; pass++) {
		size_t word = 0;

		for (at = 0; at < n;) {
			size_t from, blank;

			while ((blank = blank_at(p + at, n - at)))
				at += blank;
			if (at == n)
				break;
			from = at;
			if (pass && most >= 0 && !from_right && (int64_t)o.list->n == most) {
				list_add(w, o, text_sub(w, v, from, n - from));
				return o;
			}
			while (at < n && !blank_at(p + at, n - at))
				at++;
			word++;
			if (!pass || (skipped && word < skipped))
				continue;
			work_spend(w, 1);
			list_add(w, o,
			         skipped && word == skipped ? text_sub(w, v, 0, at) : text_sub(w, v, from, at - from));
		}
		words = word;
		if (!pass && from_right && most >= 0 && (int64_t)words > most + 1)
			skipped = words - (size_t)most;
	}
	return o;
}

static struct value split_text(struct run *r, struct value v, struct call *c, int from_right)
{
	struct work *w = &r->w;
	struct value by = call_arg(c, 0, "sep", v_none()), o;
	int64_t most = call_int(w, c, 1, "maxsplit", -1);
	size_t at = 0, hit;

	if (by.kind == V_NONE)
		return split_blanks(r, v, most, from_right);
	if (by.kind != V_TEXT || !by.text->n)
		jinja_fail(w, "split_text() needs a separator with at least one character");
	if (from_right && most >= 0) {
		/* Search for the separator from right to left. */
		const char *p = text_flat(w, v), *q = text_flat(w, by);
		struct value back = v_list(w, V_LIST, 0);
		size_t end = v.text->n, k = by.text->n;

		work_spend(w, v.text->n / 8);
		for (size_t i = end; most && i >= k; i--)
			if (!memcmp(p + i - k, q, k)) {
				list_add(w, back, text_sub(w, v, i, end - i));
				end = i - k;
				i = end + 1;
				most--;
			}
		list_add(w, back, text_sub(w, v, 0, end));
		o = v_list(w, V_LIST, back.list->n);
		for (size_t i = back.list->n; i; i--)
			list_add(w, o, back.list->v[i - 1]);
		return o;
	}
	o = v_list(w, V_LIST, 0);
	while (most && (hit = text_find(w, v, by, at)) != SIZE_MAX) {
		work_spend(w, 1);
		list_add(w, o, text_sub(w, v, at, hit - at));
		at = hit + by.text->n;
		most -= most > 0;
	}
	list_add(w, o, text_sub(w, v, at, v.text->n - at));
	return o;
}
static struct value m_split(struct run *r, struct value v, struct call *c)
{
	return split_text(r, v, c, 0);
}
static struct value m_rsplit(struct run *r, struct value v, struct call *c)
{
	return split_text(r, v, c, 1);
}

static struct value m_splitlines(struct run *r, struct value v, struct call *c)
{
	struct value o = v_list(&r->w, V_LIST, 0);
	const char *p = text_flat(&r->w, v);
	int keep = value_truth(call_arg(c, 0, "keepends", v_bool(0)));

	for (size_t at = 0, n = v.text->n; at < n;) {
		size_t end = at, next;

		while (end < n && p[end] != '\n' && p[end] != '\r')
			end++;
		next = end + (end < n) + (end + 1 < n && p[end] == '\r' && p[end + 1] == '\n');
		work_spend(&r->w, 1 + (end - at) / 32);
		list_add(&r->w, o, text_sub(&r->w, v, at, (keep ? next : end) - at));
		at = next;
	}
	return o;
}

static int has_end(struct run *r, struct value v, struct value with, int at_start)
{
	size_t n = v.text->n, k;

	if (with.kind != V_TEXT)
		jinja_fail(&r->w, "%s() takes a string, not %s", at_start ? "startswith" : "endswith", kind_name(with));
	k = with.text->n;
	return k <= n && !memcmp(text_flat(&r->w, v) + (at_start ? 0 : n - k), text_flat(&r->w, with), k);
}

static struct value has_ends(struct run *r, struct value v, struct call *c, int at_start)
{
	struct value with = call_arg(c, 0, NULL, v_undefined(NULL));
	int is = 0;

	if (with.kind != V_TUPLE)
		return v_bool(has_end(r, v, with, at_start));
	for (size_t i = 0; i < with.list->n; i++)
		is |= has_end(r, v, with.list->v[i], at_start);
	return v_bool(is);
}
static struct value m_startswith(struct run *r, struct value v, struct call *c)
{
	return has_ends(r, v, c, 1);
}
static struct value m_endswith(struct run *r, struct value v, struct call *c)
{
	return has_ends(r, v, c, 0);
}

static struct value m_removeprefix(struct run *r, struct value v, struct call *c)
{
	struct value with = text_arg(r, c, 0, "removeprefix");

	return has_end(r, v, with, 1) ? text_sub(&r->w, v, with.text->n, v.text->n - with.text->n) : v;
}

static struct value m_removesuffix(struct run *r, struct value v, struct call *c)
{
	struct value with = text_arg(r, c, 0, "removesuffix");

	return has_end(r, v, with, 0) ? text_sub(&r->w, v, 0, v.text->n - with.text->n) : v;
}

static struct value m_find(struct run *r, struct value v, struct call *c)
{
	size_t at = text_find(&r->w, v, text_arg(r, c, 0, "find"), 0);

	return v_int(at == SIZE_MAX ? -1 : (int64_t)text_length(&r->w, text_sub(&r->w, v, 0, at)));
}

static struct value m_rfind(struct run *r, struct value v, struct call *c)
{
	struct value sub = text_arg(r, c, 0, "rfind");
	size_t last = SIZE_MAX, at = 0, hit;

	while ((hit = text_find(&r->w, v, sub, at)) != SIZE_MAX) {
		work_spend(&r->w, 1);
		last = hit;
		at = hit + 1;
	}
	return v_int(last == SIZE_MAX ? -1 : (int64_t)text_length(&r->w, text_sub(&r->w, v, 0, last)));
}

static struct value m_index(struct run *r, struct value v, struct call *c)
{
	struct value at = m_find(r, v, c);

	if (at.i < 0)
		jinja_fail(&r->w, "index() does not find the string");
	return at;
}

static struct value m_count(struct run *r, struct value v, struct call *c)
{
	struct value sub = text_arg(r, c, 0, "count");
	size_t at = 0, hit;
	int64_t n = 0;

	if (!sub.text->n)
		return v_int((int64_t)text_length(&r->w, v) + 1);
	for (; (hit = text_find(&r->w, v, sub, at)) != SIZE_MAX; n++) {
		work_spend(&r->w, 1);
		at = hit + sub.text->n;
	}
	return v_int(n);
}

static struct value m_join(struct run *r, struct value v, struct call *c)
{
	struct value list = value_sequence(&r->w, call_arg(c, 0, NULL, v_undefined(NULL)));
	struct pieces o = { .n = 0 };

	for (size_t i = 0; i < list.list->n; i++) {
		struct value x = list.list->v[i];

		if (x.kind != V_TEXT)
			jinja_fail(&r->w, "join() takes strings, not %s", kind_name(x));
		if (i)
			pieces_text(&r->w, &o, v.text, 0, v.text->n);
		pieces_text(&r->w, &o, x.text, 0, x.text->n);
	}
	return text_pieces(&r->w, &o);
}

static int text_every(struct run *r, struct value v, int (*is)(char))
{
	const char *p = text_flat(&r->w, v);

	work_spend(&r->w, v.text->n / 32);
	for (size_t i = 0; i < v.text->n; i++)
		if (!is(p[i]))
			return 0;
	return v.text->n > 0;
}
static struct value m_isdigit(struct run *r, struct value v, struct call *c)
{
	(void)c;
	return v_bool(text_every(r, v, byte_is_digit));
}
static struct value m_isalpha(struct run *r, struct value v, struct call *c)
{
	(void)c;
	return v_bool(text_every(r, v, byte_is_letter));
}
static struct value m_isalnum(struct run *r, struct value v, struct call *c)
{
	(void)c;
	return v_bool(text_every(r, v, byte_is_word));
}
static struct value m_isspace(struct run *r, struct value v, struct call *c)
{
	(void)c;
	return v_bool(text_every(r, v, byte_is_python_blank));
}
static struct value m_islower(struct run *r, struct value v, struct call *c)
{
	(void)c;
	return v_bool(text_cased(&r->w, v, 'l'));
}
static struct value m_isupper(struct run *r, struct value v, struct call *c)
{
	(void)c;
	return v_bool(text_cased(&r->w, v, 'u'));
}

/* ---- dictionaries and lists ---- */

static struct value m_get(struct run *r, struct value v, struct call *c)
{
	const struct value *found = dict_find(&r->w, v.dict, call_arg(c, 0, NULL, v_undefined(NULL)));

	return found ? *found : call_arg(c, 1, NULL, v_none());
}
static struct value m_items(struct run *r, struct value v, struct call *c)
{
	(void)c;
	return dict_items(&r->w, v.dict);
}
static struct value m_keys(struct run *r, struct value v, struct call *c)
{
	(void)c;
	return value_sequence(&r->w, v);
}

static struct value m_values(struct run *r, struct value v, struct call *c)
{
	struct value o = v_list(&r->w, V_LIST, v.dict->n);

	(void)c;
	for (size_t i = 0; i < v.dict->n; i++)
		list_add(&r->w, o, v.dict->v[i].value);
	return o;
}

static struct value m_copy(struct run *r, struct value v, struct call *c)
{
	struct value o = v_dict(&r->w, V_DICT);

	(void)c;
	for (size_t i = 0; i < v.dict->n; i++)
		dict_set(&r->w, o.dict, v.dict->v[i].key, v.dict->v[i].value);
	return o;
}

static struct value m_refused(struct run *r, struct value v, struct call *c)
{
	(void)c;
	jinja_fail(&r->w, "a template may not change %s", kind_name(v));
}

typedef struct value method_function(struct run *, struct value, struct call *);
struct method_row {
	enum kind kind;
	const char *name;
	method_function *run;
};
/* clang-format off */
static const struct method_row methods[] = {
	{ V_TEXT, "capitalize", m_capitalize }, { V_TEXT, "count", m_count }, { V_TEXT, "endswith", m_endswith }, { V_TEXT, "find", m_find },
	{ V_TEXT, "format", m_format }, { V_TEXT, "index", m_index }, { V_TEXT, "isalnum", m_isalnum }, { V_TEXT, "isalpha", m_isalpha },
	{ V_TEXT, "isdigit", m_isdigit }, { V_TEXT, "islower", m_islower }, { V_TEXT, "isspace", m_isspace }, { V_TEXT, "isupper", m_isupper },
	{ V_TEXT, "join", m_join }, { V_TEXT, "lower", m_lower }, { V_TEXT, "lstrip", m_lstrip }, { V_TEXT, "removeprefix", m_removeprefix },
	{ V_TEXT, "removesuffix", m_removesuffix }, { V_TEXT, "replace", m_replace }, { V_TEXT, "rfind", m_rfind }, { V_TEXT, "rsplit", m_rsplit },
	{ V_TEXT, "rstrip", m_rstrip }, { V_TEXT, "split", m_split }, { V_TEXT, "splitlines", m_splitlines }, { V_TEXT, "startswith", m_startswith },
	{ V_TEXT, "strip", m_strip }, { V_TEXT, "title", m_title }, { V_TEXT, "upper", m_upper },
	{ V_DICT, "clear", m_refused }, { V_DICT, "copy", m_copy }, { V_DICT, "get", m_get }, { V_DICT, "items", m_items }, { V_DICT, "keys", m_keys },
	{ V_DICT, "pop", m_refused }, { V_DICT, "popitem", m_refused }, { V_DICT, "setdefault", m_refused }, { V_DICT, "update", m_refused },
	{ V_DICT, "values", m_values },
	{ V_LIST, "append", m_refused }, { V_LIST, "clear", m_refused }, { V_LIST, "extend", m_refused }, { V_LIST, "insert", m_refused },
	{ V_LIST, "pop", m_refused }, { V_LIST, "remove", m_refused }, { V_LIST, "reverse", m_refused }, { V_LIST, "sort", m_refused },
};
/* clang-format on */

static const struct method_row *method_row(struct value v, const char *name)
{
	for (size_t i = 0; i < LEN(methods); i++)
		if (methods[i].kind == v.kind && !strcmp(methods[i].name, name))
			return &methods[i];
	return NULL;
}

/* Call the method `name` of a loop: cycle() or changed(). */
static struct value loop_method(struct run *r, struct loop *l, const char *name, struct call *c)
{
	int same = l->changed && l->n_changed == c->n;

	if (!strcmp(name, "cycle")) {
		if (!c->n)
			jinja_fail(&r->w, "cycle() needs something to go through");
		return c->v[l->at % c->n];
	}
	for (size_t i = 0; same && i < c->n; i++)
		same = values_equal(&r->w, l->changed[i], c->v[i]);
	l->changed = c->v;
	l->n_changed = c->n;
	return v_bool(!same);
}

const char *method_find(struct value v, const char *name)
{
	const struct method_row *row = method_row(v, name);

	if (v.kind == V_LOOP)
		return !strcmp(name, "cycle") ? "cycle" : !strcmp(name, "changed") ? "changed" : NULL;
	return row ? row->name : NULL;
}

struct value method_call(struct run *r, const struct method *m, struct call *c)
{
	work_spend(&r->w, 1);
	if (m->self.kind == V_LOOP)
		return loop_method(r, m->self.loop, m->name, c);
	return method_row(m->self, m->name)->run(r, m->self, c);
}

/* ---- functions ---- */

static struct value g_range(struct run *r, struct call *c)
{
	int64_t from = c->n > 1 ? call_int(&r->w, c, 0, "start", 0) : 0, to = call_int(&r->w, c, c->n > 1, "stop", 0);
	int64_t step = call_int(&r->w, c, 2, "step", 1);
	struct value o = v_list(&r->w, V_LIST, 0);

	if (!step)
		jinja_fail(&r->w, "range() cannot go in steps of 0");
	for (int64_t i = from; step > 0 ? i < to : i > to;) {
		work_spend(&r->w, 1);
		list_add(&r->w, o, v_int(i));
		if (__builtin_add_overflow(i, step, &i))
			break;
	}
	return o;
}

static struct value dict_from(struct run *r, struct call *c, enum kind kind)
{
	struct value o = v_dict(&r->w, kind), first = call_arg(c, 0, NULL, v_none());

	if (first.kind == V_DICT)
		for (size_t i = 0; i < first.dict->n; i++)
			dict_set(&r->w, o.dict, first.dict->v[i].key, first.dict->v[i].value);
	else if (first.kind != V_NONE) {
		first = value_sequence(&r->w, first);
		for (size_t i = 0; i < first.list->n; i++) {
			struct value pair = value_sequence(&r->w, first.list->v[i]);

			if (pair.list->n != 2)
				jinja_fail(&r->w, "a dictionary is made of pairs");
			dict_set(&r->w, o.dict, pair.list->v[0], pair.list->v[1]);
		}
	}
	for (size_t i = 0; i < c->n_named; i++)
		dict_set(&r->w, o.dict, text_word(&r->w, c->name[i]), c->named[i]);
	return o;
}
static struct value g_dict(struct run *r, struct call *c)
{
	return dict_from(r, c, V_DICT);
}
static struct value g_namespace(struct run *r, struct call *c)
{
	return dict_from(r, c, V_NAMESPACE);
}

static struct value g_raise(struct run *r, struct call *c)
{
	struct value v = value_printed(&r->w, call_arg(c, 0, "message", v_undefined(NULL)));
	char text[220];

	/* The text may quote a message, so escape it and keep at most 200 bytes. */
	text_escape(text, sizeof text, text_flat(&r->w, v),
	            v.text->n < 200 ? v.text->n : utf8_complete(text_flat(&r->w, v), 200));
	err_set(r->w.err, ERR_USAGE, "the chat template refuses this conversation in line %d: %s", r->w.line, text);
	longjmp(r->w.back, 1);
}

/* Return the local time. If the environment variable WEIR_TODAY is set to a date (YYYY-MM-DD), return midnight of that
 * date. */
static struct tm local_day(void)
{
	const char *env = getenv("WEIR_TODAY"), *end;
	time_t t = time(NULL);
	struct tm tm = { 0 }, day = { 0 };

	if (!localtime_r(&t, &tm))
		tm.tm_year = 70, tm.tm_mday = 1;
	end = env ? strptime(env, "%Y-%m-%d", &day) : NULL;
	return end && !*end ? day : tm;
}

static struct value g_strftime(struct run *r, struct call *c)
{
	static const char *const month[] = { "January", "February", "March",     "April",   "May",      "June",
		                             "July",    "August",   "September", "October", "November", "December" };
	static const char *const weekday[] = { "Sunday",   "Monday", "Tuesday", "Wednesday",
		                               "Thursday", "Friday", "Saturday" };
	struct work *w = &r->w;
	const char *f = text_zero(w, text_arg(r, c, 0, "strftime_now"));
	struct tm t = local_day();
	struct str o = { .n = 0 };
	int hour = t.tm_hour % 12 ? t.tm_hour % 12 : 12;
	char bad = 0;
	struct value v;

	work_spend(w, strlen(f));
	for (; *f && !bad; f++) {
		int short_form = f[0] == '%' && f[1] == '-';

		if (*f != '%') {
			str_add(&o, f, 1);
			continue;
		}
		f += 1 + short_form;
		switch (*f) {
		case 'Y': str_addf(&o, "%d", t.tm_year + 1900); break;
		case 'y': str_addf(&o, "%02d", t.tm_year % 100); break;
		case 'm': str_addf(&o, short_form ? "%d" : "%02d", t.tm_mon + 1); break;
		case 'd': str_addf(&o, short_form ? "%d" : "%02d", t.tm_mday); break;
		case 'e': str_addf(&o, "%2d", t.tm_mday); break;
		case 'j': str_addf(&o, short_form ? "%d" : "%03d", t.tm_yday + 1); break;
		case 'H': str_addf(&o, short_form ? "%d" : "%02d", t.tm_hour); break;
		case 'I': str_addf(&o, short_form ? "%d" : "%02d", hour); break;
		case 'M': str_addf(&o, short_form ? "%d" : "%02d", t.tm_min); break;
		case 'S': str_addf(&o, short_form ? "%d" : "%02d", t.tm_sec); break;
		case 'p': str_adds(&o, t.tm_hour < 12 ? "AM" : "PM"); break;
		case 'B': str_adds(&o, month[t.tm_mon]); break;
		case 'b': str_addf(&o, "%.3s", month[t.tm_mon]); break;
		case 'A': str_adds(&o, weekday[t.tm_wday]); break;
		case 'a': str_addf(&o, "%.3s", weekday[t.tm_wday]); break;
		case 'F': str_addf(&o, "%d-%02d-%02d", t.tm_year + 1900, t.tm_mon + 1, t.tm_mday); break;
		case 'T': str_addf(&o, "%02d:%02d:%02d", t.tm_hour, t.tm_min, t.tm_sec); break;
		case '%': str_adds(&o, "%"); break;
		default: bad = *f ? *f : '%';
		}
	}
	v = text_value(w, work_copy(w, str_text(&o), o.n), o.n, JINJA_TEMPLATE);
	str_free(&o);
	if (bad)
		jinja_fail(w, "the date format %%%c is not supported", bad);
	return v;
}

struct function {
	const char *name;
	struct value (*run)(struct run *, struct call *);
};
static const struct function functions[] = {
	{ "dict", g_dict },   { "namespace", g_namespace },   { "raise_exception", g_raise },
	{ "range", g_range }, { "strftime_now", g_strftime },
};

const struct function *function_find(const char *name)
{
	for (size_t i = 0; i < LEN(functions); i++)
		if (!strcmp(functions[i].name, name))
			return &functions[i];
	return NULL;
}

struct value function_call(struct run *r, const struct function *f, struct call *c)
{
	return f->run(r, c);
}
