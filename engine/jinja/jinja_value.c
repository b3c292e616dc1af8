/* engine/jinja/jinja_value.c - values of the Jinja interpreter: containers, truth, order, str() and JSON, as in
 * Python. */
#include "engine/jinja/jinja_private.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct value v_bool(int b)
{
	return (struct value){ .kind = V_BOOL, .i = b != 0 };
}
struct value v_int(int64_t i)
{
	return (struct value){ .kind = V_INT, .i = i };
}
struct value v_real(double d)
{
	return (struct value){ .kind = V_REAL, .real = d };
}
struct value v_none(void)
{
	return (struct value){ .kind = V_NONE };
}
struct value v_undefined(const char *hint)
{
	return (struct value){ .kind = V_UNDEFINED, .hint = hint };
}

/* ---- containers ---- */

struct value v_list(struct work *w, enum kind kind, size_t cap)
{
	struct list *l = work_alloc(w, sizeof *l);

	l->cap = cap;
	l->v = cap ? work_array(w, cap, sizeof *l->v) : NULL;
	return (struct value){ .kind = kind, .list = l };
}

void list_add(struct work *w, struct value list, struct value v)
{
	struct list *l = (struct list *)(uintptr_t)list.list;

	l->v = work_grow(w, l->v, l->n, &l->cap, sizeof *l->v);
	l->v[l->n++] = v;
}

struct value v_dict(struct work *w, enum kind kind)
{
	return (struct value){ .kind = kind, .dict = work_alloc(w, sizeof(struct dict)) };
}

struct value *dict_find(struct work *w, const struct dict *d, struct value key)
{
	for (size_t i = 0; i < d->n; i++)
		if (values_equal(w, d->v[i].key, key))
			return &d->v[i].value;
	return NULL;
}

void dict_set(struct work *w, struct dict *d, struct value key, struct value v)
{
	struct value *old = dict_find(w, d, key);

	if (key.kind == V_LIST || key.kind == V_DICT)
		jinja_fail(w, "%s cannot be a key", kind_name(key));
	if (old) {
		*old = v;
		return;
	}
	d->v = work_grow(w, d->v, d->n, &d->cap, sizeof *d->v);
	d->v[d->n++] = (struct entry){ key, v };
}

struct value dict_items(struct work *w, const struct dict *d)
{
	struct value o = v_list(w, V_LIST, 0);

	for (size_t i = 0; i < d->n; i++) {
		struct value pair = v_list(w, V_TUPLE, 2);

		list_add(w, pair, d->v[i].key);
		list_add(w, pair, d->v[i].value);
		list_add(w, o, pair);
	}
	return o;
}

const char *kind_name(struct value v)
{
	static const char *const name[] = { "undefined", "None", "bool",      "int",  "float", "str",    "list",
		                            "tuple",     "dict", "namespace", "loop", "macro", "method", "function" };
	return name[v.kind];
}

struct value value_sequence(struct work *w, struct value v)
{
	struct value o;

	switch (v.kind) {
	case V_LIST:
	case V_TUPLE: return v;
	case V_UNDEFINED: return v_list(w, V_LIST, 0);
	case V_DICT:
		o = v_list(w, V_LIST, v.dict->n);
		for (size_t i = 0; i < v.dict->n; i++)
			list_add(w, o, v.dict->v[i].key);
		return o;
	case V_TEXT: {
		const char *p = text_flat(w, v);

		o = v_list(w, V_LIST, 0);
		for (size_t at = 0; at < v.text->n;) {
			int32_t cp;
			size_t n = (size_t)utf8_decode(p + at, v.text->n - at, &cp);

			work_spend(w, 1);
			list_add(w, o, text_sub(w, v, at, n));
			at += n;
		}
		return o;
	}
	default: jinja_fail(w, "%s is not iterable", kind_name(v));
	}
}

/* ---- truth and order ---- */

int value_truth(struct value v)
{
	switch (v.kind) {
	case V_UNDEFINED:
	case V_NONE: return 0;
	case V_BOOL:
	case V_INT: return v.i != 0;
	case V_REAL: return v.real != 0;
	case V_TEXT: return v.text->n != 0;
	case V_LIST:
	case V_TUPLE: return v.list->n != 0;
	case V_DICT: return v.dict->n != 0;
	default: return 1;
	}
}

int is_number(struct value v)
{
	return v.kind == V_INT || v.kind == V_REAL || v.kind == V_BOOL;
}
double as_number(struct value v)
{
	return v.kind == V_REAL ? v.real : (double)v.i;
}

static int equal_dicts(struct work *w, const struct dict *a, const struct dict *b)
{
	if (a->n != b->n)
		return 0;
	for (size_t i = 0; i < a->n; i++) {
		const struct value *other = dict_find(w, b, a->v[i].key);

		if (!other || !values_equal(w, a->v[i].value, *other))
			return 0;
	}
	return 1;
}

int values_equal(struct work *w, struct value a, struct value b)
{
	int same = 1;

	work_spend(w, 1);
	if (is_number(a) && is_number(b))
		return a.kind == V_REAL || b.kind == V_REAL ? as_number(a) == as_number(b) : a.i == b.i;
	if (a.kind != b.kind)
		return 0;
	switch (a.kind) {
	case V_UNDEFINED:
	case V_NONE: return 1;
	case V_TEXT:
		return a.text == b.text ||
		       (a.text->n == b.text->n && !memcmp(text_flat(w, a), text_flat(w, b), a.text->n));
	case V_LIST:
	case V_TUPLE:
		if (a.list->n != b.list->n)
			return 0;
		work_enter(w);
		for (size_t i = 0; same && i < a.list->n; i++)
			same = values_equal(w, a.list->v[i], b.list->v[i]);
		work_leave(w);
		return same;
	case V_DICT:
		work_enter(w);
		same = equal_dicts(w, a.dict, b.dict);
		work_leave(w);
		return same;
	default: return a.dict == b.dict;
	}
}

int values_compare(struct work *w, struct value a, struct value b)
{
	size_t n;
	int c = 0;

	work_spend(w, 1);
	if (is_number(a) && is_number(b)) {
		if (a.kind != V_REAL && b.kind != V_REAL)
			return (a.i > b.i) - (a.i < b.i);
		return (as_number(a) > as_number(b)) - (as_number(a) < as_number(b));
	}
	if (a.kind == V_UNDEFINED || b.kind == V_UNDEFINED) {
		const char *hint = a.kind == V_UNDEFINED ? a.hint : b.hint;

		jinja_fail(w, "%s", hint ? hint : "an undefined value is compared");
	}
	if (a.kind == V_TEXT && b.kind == V_TEXT) {
		n = MIN(a.text->n, b.text->n);
		c = memcmp(text_flat(w, a), text_flat(w, b), n);
		return c ? c : (a.text->n > b.text->n) - (a.text->n < b.text->n);
	}
	if (a.kind != b.kind || (a.kind != V_LIST && a.kind != V_TUPLE))
		jinja_fail(w, "%s and %s have no order", kind_name(a), kind_name(b));
	n = MIN(a.list->n, b.list->n);
	work_enter(w);
	for (size_t i = 0; !c && i < n; i++)
		if (!values_equal(w, a.list->v[i], b.list->v[i]))
			c = values_compare(w, a.list->v[i], b.list->v[i]);
	work_leave(w);
	return c ? c : (a.list->n > b.list->n) - (a.list->n < b.list->n);
}

int value_contains(struct work *w, struct value in, struct value v)
{
	if (in.kind == V_TEXT) {
		if (v.kind != V_TEXT)
			jinja_fail(w, "'in' needs a string on its left, not %s", kind_name(v));
		return text_find(w, in, v, 0) != SIZE_MAX;
	}
	if (in.kind == V_DICT)
		return dict_find(w, in.dict, v) != NULL;
	in = value_sequence(w, in);
	for (size_t i = 0; i < in.list->n; i++)
		if (values_equal(w, in.list->v[i], v))
			return 1;
	return 0;
}

/* Use merge sort: it is stable, and takes O(n log n) steps for any values. */
void sort_values(struct work *w, struct value *v, const struct value *key, size_t n, int reverse)
{
	size_t *from = work_array(w, n, sizeof *from), *to = work_array(w, n, sizeof *to), *swap;
	struct value *sorted = work_array(w, n, sizeof *sorted);

	for (size_t i = 0; i < n; i++)
		from[i] = i;
	for (size_t width = 1; width < n; width *= 2) {
		for (size_t lo = 0; lo < n; lo += 2 * width) {
			size_t mid = lo + width < n ? lo + width : n, hi = lo + 2 * width < n ? lo + 2 * width : n,
			       a = lo, b = mid;

			for (size_t k = lo; k < hi; k++) {
				int right = a == mid;

				if (a < mid && b < hi) {
					int c = values_compare(w, key[from[b]], key[from[a]]);

					right = reverse ? c > 0 : c < 0;
				}
				to[k] = right ? from[b++] : from[a++];
			}
		}
		swap = from, from = to, to = swap;
	}
	for (size_t i = 0; i < n; i++)
		sorted[i] = v[from[i]];
	if (n)
		memcpy(v, sorted, n * sizeof *v);
}

/* ---- as text ---- */

/* Write d with the smallest number of digits that still reads back as d, as Python does. */
static void real_text(double d, char out[40])
{
	char exponent[40], *e;
	int power;

	if (isnan(d) || isinf(d)) {
		snprintf(out, 40, "%s", isnan(d) ? "nan" : d < 0 ? "-inf" : "inf");
		return;
	}
	for (int digits = 1; digits <= 17; digits++) {
		snprintf(exponent, sizeof exponent, "%.*e", digits - 1, d);
		if (strtod(exponent, NULL) != d)
			continue;
		e = strchr(exponent, 'e');
		power = (int)strtol(e + 1, NULL, 10);
		if (power < -4 || power >= 16)
			snprintf(out, 40, "%.*se%+03d", (int)(e - exponent), exponent, power);
		else
			snprintf(out, 40, "%.*f", digits - 1 > power ? digits - 1 - power : 1, d);
		return;
	}
}

static struct value word_of(struct work *w, const char *s)
{
	return text_value(w, work_copy(w, s, strlen(s)), strlen(s), JINJA_TEMPLATE);
}

static void add_word(struct work *w, struct pieces *o, const char *s)
{
	pieces_add(w, o, s, strlen(s), JINJA_TEMPLATE);
}

static void add_number(struct work *w, struct pieces *o, struct value v)
{
	char text[40];

	if (v.kind == V_REAL)
		real_text(v.real, text);
	else
		snprintf(text, sizeof text, "%" PRId64, v.i);
	pieces_add(w, o, work_copy(w, text, strlen(text)), strlen(text), JINJA_TEMPLATE);
}

/* Write the escape sequence for the character cp and return its length, or return 0 if the character needs none. `c` is
 * the first byte of the character, and `quote` the quotation mark around the string. If `json` is 1, escape as in JSON,
 * otherwise as in Python's repr(). If `ascii` is 1, escape all characters that are not ASCII. */
static size_t escape_char(char c, int32_t cp, char quote, int json, int ascii, char out[16])
{
	static const char from[] = "\n\r\t\b\f", to[] = "nrtbf";
	const char *known = c ? strchr(from, c) : NULL;
	int n = 0;

	if (c == quote || c == '\\')
		n = snprintf(out, 16, "\\%c", c);
	else if (known && (json || known - from < 3))
		n = snprintf(out, 16, "\\%c", to[known - from]);
	else if (cp < 32 || (cp == 127 && !json))
		n = json ? snprintf(out, 16, "\\u%04x", (unsigned)cp) : snprintf(out, 16, "\\x%02x", (unsigned)cp);
	else if (ascii && cp > 0xffff)
		n = snprintf(out, 16, "\\u%04x\\u%04x", 0xd7c0u + ((unsigned)cp >> 10),
		             0xdc00u + ((unsigned)cp & 0x3ff));
	else if (ascii && cp > 127)
		n = snprintf(out, 16, "\\u%04x", (unsigned)cp);
	return (size_t)n;
}

static void add_quoted(struct work *w, struct pieces *o, struct value v, char quote, int json, int ascii)
{
	const char *mark = quote == '"' ? "\"" : "'";

	add_word(w, o, mark);
	for (size_t k = 0; k < v.text->n_piece; k++) {
		const struct jinja_piece *x = &v.text->v[k];
		size_t plain = 0;

		work_spend(w, x->n / 32);
		for (size_t i = 0; i < x->n;) {
			char text[16];
			int32_t cp;
			size_t len = (size_t)utf8_decode(x->p + i, x->n - i, &cp),
			       n = cp < 0 ? 0 : escape_char(x->p[i], cp, quote, json, ascii, text);

			if (n) {
				pieces_add(w, o, x->p + plain, i - plain, x->from);
				pieces_add(w, o, work_copy(w, text, n), n, x->from >= 0 ? JINJA_MIXED : x->from);
				plain = i + len;
			}
			i += len;
		}
		pieces_add(w, o, x->p + plain, x->n - plain, x->from);
	}
	add_word(w, o, mark);
}

static void add_repr(struct work *w, struct pieces *o, struct value v);

static void add_pairs(struct work *w, struct pieces *o, const struct dict *d)
{
	add_word(w, o, "{");
	for (size_t i = 0; i < d->n; i++) {
		add_word(w, o, i ? ", " : "");
		add_repr(w, o, d->v[i].key);
		add_word(w, o, ": ");
		add_repr(w, o, d->v[i].value);
	}
	add_word(w, o, "}");
}

static void add_repr(struct work *w, struct pieces *o, struct value v)
{
	char quote;

	work_spend(w, 1);
	work_enter(w);
	switch (v.kind) {
	case V_UNDEFINED: add_word(w, o, "Undefined"); break;
	case V_NONE: add_word(w, o, "None"); break;
	case V_BOOL: add_word(w, o, v.i ? "True" : "False"); break;
	case V_INT:
	case V_REAL: add_number(w, o, v); break;
	case V_TEXT:
		quote = memchr(text_flat(w, v), '\'', v.text->n) && !memchr(text_flat(w, v), '"', v.text->n) ? '"'
		                                                                                             : '\'';
		add_quoted(w, o, v, quote, 0, 0);
		break;
	case V_LIST:
	case V_TUPLE:
		add_word(w, o, v.kind == V_LIST ? "[" : "(");
		for (size_t i = 0; i < v.list->n; i++) {
			add_word(w, o, i ? ", " : "");
			add_repr(w, o, v.list->v[i]);
		}
		add_word(w, o, v.kind == V_LIST ? "]" : v.list->n == 1 ? ",)" : ")");
		break;
	case V_DICT: add_pairs(w, o, v.dict); break;
	default:
		add_word(w, o, "<");
		add_word(w, o, kind_name(v));
		add_word(w, o, ">");
	}
	work_leave(w);
}

struct value value_printed(struct work *w, struct value v)
{
	struct pieces o = { .n = 0 };

	if (v.kind == V_TEXT)
		return v;
	if (v.kind != V_UNDEFINED)
		add_repr(w, &o, v);
	return text_pieces(w, &o);
}

/* ---- JSON, as json.dumps() of Python writes it ---- */

/* Options of json.dumps(). `indent` is the text of one level of indentation, or V_NONE to write everything on one line.
 * `item` is the separator between items, `pair` the separator between key and value. If `ascii` is 1, escape all
 * characters that are not ASCII. If `sort` is 1, sort the keys. */
struct json {
	struct pieces *o;
	struct value indent, item, pair;
	int ascii, sort;
};

static void add_text(struct work *w, struct pieces *o, struct value v)
{
	pieces_text(w, o, v.text, 0, v.text->n);
}

static void new_line(struct work *w, const struct json *j, int level)
{
	if (j->indent.kind == V_NONE)
		return;
	add_word(w, j->o, "\n");
	for (int i = 0; i < level; i++) {
		work_spend(w, 1);
		add_text(w, j->o, j->indent);
	}
}

static void add_json(struct work *w, const struct json *j, struct value v, int level)
{
	struct entry *e;

	work_spend(w, 1);
	work_enter(w);
	switch (v.kind) {
	case V_NONE: add_word(w, j->o, "null"); break;
	case V_BOOL: add_word(w, j->o, v.i ? "true" : "false"); break;
	case V_INT:
	case V_REAL: add_number(w, j->o, v); break;
	case V_TEXT: add_quoted(w, j->o, v, '"', 1, j->ascii); break;
	case V_LIST:
	case V_TUPLE:
		add_word(w, j->o, "[");
		for (size_t i = 0; i < v.list->n; i++) {
			if (i)
				add_text(w, j->o, j->item);
			new_line(w, j, level + 1);
			add_json(w, j, v.list->v[i], level + 1);
		}
		if (v.list->n)
			new_line(w, j, level);
		add_word(w, j->o, "]");
		break;
	case V_DICT:
		e = v.dict->v;
		if (j->sort && v.dict->n) {
			struct value list = v_list(w, V_LIST, v.dict->n), *key = work_array(w, v.dict->n, sizeof *key);

			for (size_t i = 0; i < v.dict->n; i++) {
				list_add(w, list, v_int((int64_t)i));
				key[i] = e[i].key;
			}
			sort_values(w, list.list->v, key, v.dict->n, 0);
			e = work_array(w, v.dict->n, sizeof *e);
			for (size_t i = 0; i < v.dict->n; i++)
				e[i] = v.dict->v[list.list->v[i].i];
		}
		add_word(w, j->o, "{");
		for (size_t i = 0; i < v.dict->n; i++) {
			struct value k = e[i].key;

			if (i)
				add_text(w, j->o, j->item);
			new_line(w, j, level + 1);
			if (k.kind != V_TEXT && k.kind != V_INT && k.kind != V_REAL && k.kind != V_BOOL &&
			    k.kind != V_NONE)
				jinja_fail(w, "%s cannot be a key in JSON", kind_name(k));
			if (k.kind != V_TEXT) {
				struct pieces o = { .n = 0 };
				struct json plain = { .o = &o };

				add_json(w, &plain, k, 0);
				k = text_pieces(w, &o);
			}
			add_json(w, j, k, level + 1);
			add_text(w, j->o, j->pair);
			add_json(w, j, e[i].value, level + 1);
		}
		if (v.dict->n)
			new_line(w, j, level);
		add_word(w, j->o, "}");
		break;
	default: jinja_fail(w, "%s cannot be written as JSON", v.kind == V_UNDEFINED && v.hint ? v.hint : kind_name(v));
	}
	work_leave(w);
}

struct value as_json(struct work *w, struct value v, struct value indent, struct value separators, int ascii, int sort)
{
	struct pieces o = { .n = 0 };
	struct json j = { .o = &o, .indent = v_none(), .ascii = ascii, .sort = sort };

	if (indent.kind == V_INT || indent.kind == V_BOOL) {
		int64_t n = MAX(0, indent.i);
		char *blanks;

		if (n > 64)
			jinja_fail(w, "JSON cannot be indented by %" PRId64 " blanks", n);
		blanks = work_alloc(w, (size_t)n + 1);
		memset(blanks, ' ', (size_t)n);
		j.indent = word_of(w, blanks);
	} else if (indent.kind == V_TEXT) {
		j.indent = indent;
	}
	j.item = text_word(w, j.indent.kind == V_NONE ? ", " : ",");
	j.pair = text_word(w, ": ");
	if ((separators.kind == V_TUPLE || separators.kind == V_LIST) && separators.list->n == 2) {
		j.item = value_printed(w, separators.list->v[0]);
		j.pair = value_printed(w, separators.list->v[1]);
	}
	add_json(w, &j, v, 0);
	return text_pieces(w, &o);
}
