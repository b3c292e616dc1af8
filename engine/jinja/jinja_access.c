/* engine/jinja/jinja_access.c - attributes and items of values, and the arguments of a call. */
#include "engine/jinja/jinja_private.h"

#include <stdio.h>
#include <string.h>

struct value undefined_because(struct run *r, const char *fmt, ...)
{
	char text[200], hint[220];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	text_escape(hint, sizeof hint, text, strlen(text));
	return v_undefined(work_copy(&r->w, hint, strlen(hint)));
}

void must_be_defined(struct run *r, struct value v)
{
	if (v.kind == V_UNDEFINED)
		jinja_fail(&r->w, "%s", v.hint ? v.hint : "a value is undefined");
}

/* ---- attributes and items ---- */

static struct value loop_attr(struct run *r, struct loop *l, const char *name)
{
	/* clang-format off */
	const struct { const char *name; int64_t number; } numbers[] = {
		{ "index", (int64_t)l->at + 1 }, { "index0", (int64_t)l->at }, { "revindex", (int64_t)(l->n - l->at) },
		{ "revindex0", (int64_t)(l->n - l->at) - 1 }, { "length", (int64_t)l->n }, { "depth", l->depth + 1 }, { "depth0", l->depth },
	};
	/* clang-format on */

	for (size_t i = 0; i < LEN(numbers); i++)
		if (!strcmp(name, numbers[i].name))
			return v_int(numbers[i].number);
	if (!strcmp(name, "first"))
		return v_bool(!l->at);
	if (!strcmp(name, "last"))
		return v_bool(l->at + 1 == l->n);
	if (!strcmp(name, "previtem"))
		return l->at ? l->v[l->at - 1] : undefined_because(r, "there is no previous item");
	if (!strcmp(name, "nextitem"))
		return l->at + 1 < l->n ? l->v[l->at + 1] : undefined_because(r, "there is no next item");
	return undefined_because(r, "a loop has no '%.60s'", name);
}

static struct value bound_method(struct run *r, struct value self, const char *method)
{
	struct method *m = work_alloc(&r->w, sizeof *m);

	*m = (struct method){ self, method };
	return (struct value){ .kind = V_METHOD, .method = m };
}

struct value get_attr(struct run *r, struct value v, const char *name)
{
	const struct value *found;
	const char *method = method_find(v, name);

	must_be_defined(r, v);
	if (method)
		return bound_method(r, v, method);
	if (v.kind == V_DICT || v.kind == V_NAMESPACE) {
		found = dict_find(&r->w, v.dict, text_word(&r->w, name));
		if (found)
			return *found;
	}
	if (v.kind == V_LOOP)
		return loop_attr(r, v.loop, name);
	return undefined_because(r, "'%.60s' is not an attribute of %s", name, kind_name(v));
}

struct value get_item(struct run *r, struct value v, struct value index)
{
	const struct value *found;
	struct work *w = &r->w;

	must_be_defined(r, v);
	if (v.kind == V_DICT && (found = dict_find(w, v.dict, index)))
		return *found;
	if ((v.kind == V_LIST || v.kind == V_TUPLE || v.kind == V_TEXT) &&
	    (index.kind == V_INT || index.kind == V_BOOL)) {
		int64_t n = (int64_t)(v.kind == V_TEXT ? text_length(w, v) : v.list->n),
			i = index.i < 0 ? index.i + n : index.i;

		if (i < 0 || i >= n)
			return undefined_because(r, "the index is out of range");
		if (v.kind == V_TEXT) {
			size_t from = text_byte(w, v, (size_t)i);

			return text_sub(w, v, from, text_byte(w, v, (size_t)i + 1) - from);
		}
		return v.list->v[i];
	}
	if (index.kind == V_TEXT) {
		const char *name = text_zero(w, index), *method = method_find(v, name);

		if (v.kind == V_LOOP)
			return loop_attr(r, v.loop, name);
		return method ? bound_method(r, v, method)
		              : undefined_because(r, "'%.60s' is not an item of %s", name, kind_name(v));
	}
	return undefined_because(r, "%s has no such item", kind_name(v));
}

/* ---- arguments ---- */

struct value call_arg(const struct call *c, size_t at, const char *name, struct value other)
{
	if (at < c->n)
		return c->v[at];
	for (size_t i = 0; name && i < c->n_named; i++)
		if (!strcmp(c->name[i], name))
			return c->named[i];
	return other;
}

int64_t call_int(struct work *w, const struct call *c, size_t at, const char *name, int64_t other)
{
	struct value v = call_arg(c, at, name, v_none());

	if (v.kind == V_NONE)
		return other;
	if (v.kind != V_INT && v.kind != V_BOOL)
		jinja_fail(w, "'%s' is to be a whole number, not %s", name, kind_name(v));
	return v.i;
}
