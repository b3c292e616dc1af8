/* engine/cache/kv_types.c - names of the element types of cached keys and values. */
#include "engine/cache/kv_types.h"

#include <stdio.h>
#include <string.h>

#include "engine/engine.h"

#define KV_TYPE_NAMES "f16, f32, bf16, q8_0, q4_0"
static const struct {
	const char *name;
	enum dtype type;
} types[] = { { "f16", DT_F16 }, { "f32", DT_F32 }, { "bf16", DT_BF16 }, { "q8_0", DT_Q8_0 }, { "q4_0", DT_Q4_0 } };

const char *kv_type_name(enum dtype type)
{
	for (size_t i = 0; i < LEN(types); i++)
		if (types[i].type == type)
			return types[i].name;
	return "?";
}

static int type_parse(enum dtype *out, const char *name, size_t n, struct err *err)
{
	for (size_t i = 0; i < LEN(types); i++)
		if (strlen(types[i].name) == n && !memcmp(types[i].name, name, n)) {
			*out = types[i].type;
			return 0;
		}
	return err_set(err, ERR_USAGE,
	               "unknown KV type '%.*s' (" KV_TYPE_NAMES "; or keys and values apart: k=q8_0,v=q4_0)",
	               (int)(MIN(n, 40)), name);
}

int kv_types_parse(struct kv_types *out, const char *text, struct err *err)
{
	*out = (struct kv_types){ DT_F16, DT_F16 };
	if (!text)
		return 0;
	if (!strchr(text, '=')) {
		if (type_parse(&out->k, text, strlen(text), err))
			return -1;
		out->v = out->k;
		return 0;
	}
	while (*text) {
		size_t n = strcspn(text, ",");

		if (n < 2 || (*text != 'k' && *text != 'v') || text[1] != '=')
			return err_set(err, ERR_USAGE, "KV types are k=TYPE,v=TYPE, or one TYPE for both, not '%.40s'",
			               text);
		if (type_parse(*text == 'k' ? &out->k : &out->v, text + 2, n - 2, err))
			return -1;
		text += n + (text[n] == ',');
	}
	return 0;
}

int kv_type_check(const char *text, struct err *err)
{
	struct kv_types t;

	return kv_types_parse(&t, text, err);
}

void kv_types_text(struct kv_types t, char out[KV_TYPES_TEXT])
{
	if (t.k == t.v)
		snprintf(out, KV_TYPES_TEXT, "%s", kv_type_name(t.k));
	else
		snprintf(out, KV_TYPES_TEXT, "k=%s,v=%s", kv_type_name(t.k), kv_type_name(t.v));
}
