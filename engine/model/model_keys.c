/* engine/model/model_keys.c - reads keys of a model file and checks their ranges (hparams.h). */
#include <stdarg.h>
#include <stdio.h>

#include "engine/model/hparams.h"

const char *key_name(struct key_reader *r, const char *suffix)
{
	snprintf(r->key, sizeof r->key, "%s.%s", r->arch->name, suffix);
	return r->key;
}

int key_has(struct key_reader *r, const char *suffix)
{
	return gguf_find(r->g, key_name(r, suffix)) != NULL;
}

int key_bad(struct key_reader *r, const char *suffix, const char *rest, ...)
{
	const struct gguf_value *v = gguf_find(r->g, key_name(r, suffix));
	char text[240];
	va_list ap;

	va_start(ap, rest);
	vsnprintf(text, sizeof text, rest, ap);
	va_end(ap);
	if (!v)
		return gguf_err(r->g, r->err, "'%s' %s", r->key, text);
	return gguf_err(r->g, r->err, "byte %llu: '%s' %s", (unsigned long long)v->off, r->key, text);
}

int key_int(struct key_reader *r, const char *suffix, int64_t min, int64_t max, int64_t fallback, int32_t *out)
{
	int64_t v = fallback;
	int got = gguf_int(r->g, key_name(r, suffix), min, max, &v, r->err);

	if (got < 0)
		return -1;
	if (!got && fallback < min)
		return key_bad(r, suffix, "is missing");
	*out = (int32_t)v;
	return 0;
}

int key_int_of(struct key_reader *r, const char *suffix, int32_t layer, int64_t min, int64_t max, int64_t fallback,
               int32_t *out)
{
	const struct gguf_value *v = gguf_find(r->g, key_name(r, suffix));
	int64_t n;

	if (!v || v->type != GGUF_ARRAY)
		return key_int(r, suffix, min, max, fallback, out);
	if (v->elem != GGUF_I32 && v->elem != GGUF_U32)
		return key_bad(r, suffix, "is an array of %s, and must be one of u32 or i32", gguf_type_name(v->elem));
	if (v->n <= (uint64_t)layer)
		return key_bad(r, suffix, "has %llu values, and none for layer %d", (unsigned long long)v->n, layer);
	n = gguf_array_int(v, (uint64_t)layer);
	if (n < min || n > max)
		return key_bad(r, suffix, "holds %lld, and must hold %lld to %lld", (long long)n, (long long)min,
		               (long long)max);
	*out = (int32_t)n;
	return 0;
}

int key_flag(struct key_reader *r, const char *suffix, int fallback, int32_t *out)
{
	const struct gguf_value *v = gguf_find(r->g, key_name(r, suffix));
	int set = fallback;

	if (v && gguf_bool(r->g, r->key, &set, r->err) < 0)
		return -1;
	*out = set != 0;
	return 0;
}

/* Do what key_int() does, for a real number. A NaN is refused, because no range includes it. */
int key_real(struct key_reader *r, const char *suffix, double min, double max, double fallback, double *out)
{
	double v = fallback;
	int got = gguf_float(r->g, key_name(r, suffix), &v, r->err);

	if (got < 0)
		return -1;
	if (!got && fallback < min)
		return key_bad(r, suffix, "is missing");
	if (!(v >= min && v <= max))
		return key_bad(r, suffix, "is %g, and must be %g to %g", v, min, max);
	*out = v;
	return 0;
}
