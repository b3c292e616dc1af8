/* engine/base/json.c - reads and writes JSON (json.h). */
#include "engine/base/json.h"
#include "engine/base/utf8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *skip_space(const char *p, const char *end)
{
	while (p < end && byte_is_xml_blank(*p))
		p++;
	return p;
}

/* Return the end of the string whose opening quote is at p, or `end` if the string is not closed. */
static const char *skip_string(const char *p, const char *end)
{
	for (p++; p < end; p++) {
		if (*p == '"')
			return p + 1;
		if (*p == '\\')
			p++;
	}
	return end;
}

/* Return the end of the value that starts at p, or `end` if the value is truncated. */
static const char *skip_value(const char *p, const char *end)
{
	size_t depth = 0;

	do {
		p = skip_space(p, end);
		if (p >= end)
			return end;
		switch (*p) {
		case '"': p = skip_string(p, end); break;
		case '{':
		case '[':
			depth++;
			p++;
			break;
		case '}':
		case ']':
			if (!depth)
				return p;
			depth--;
			p++;
			break;
		case ',':
		case ':': p++; break;
		default:
			while (p < end && !strchr(",:]}[{\" \n\t\r", *p))
				p++;
			/* step over a NUL byte: strchr() above takes it for a delimiter, so the outer loop would never
			 * advance */
			if (p < end && !*p)
				p++;
		}
	} while (depth);
	return p;
}

struct jv jv_parse(const char *text, size_t n)
{
	const char *p = skip_space(text, text + n);

	return p < text + n ? (struct jv){ p, skip_value(p, text + n) } : (struct jv){ NULL, NULL };
}

/* Return the value of the four hexadecimal digits at p, or -1 if they are not hexadecimal. */
static int hex4(const char *p, const char *end)
{
	int v = 0;

	if (end - p < 4)
		return -1;
	for (int i = 0; i < 4; i++) {
		static const char digits[] = "0123456789abcdef";
		const char *d = p[i] ? strchr(digits, p[i] >= 'A' && p[i] <= 'F' ? p[i] + 32 : p[i]) : NULL;
		if (!d)
			return -1;
		v = v * 16 + (int)(d - digits);
	}
	return v;
}

/* ---- validation: each function returns the end of the valid text, or NULL ---- */

enum { DEPTH_MOST = 64 };

/* Return the end of the string whose opening quote is at p, or NULL if the string is invalid. */
static const char *valid_string(const char *p, const char *end)
{
	for (p++; p < end; p++) {
		if (*p == '"')
			return p + 1;
		if ((unsigned char)*p < 0x20)
			return NULL;
		if (*p != '\\')
			continue;
		if (++p >= end || !*p || !strchr("\"\\/bfnrtu", *p) || (*p == 'u' && hex4(p + 1, end) < 0))
			return NULL;
	}
	return NULL;
}

static const char *valid_digits(const char *p, const char *end)
{
	const char *from = p;

	while (p < end && byte_is_digit(*p))
		p++;
	return p > from ? p : NULL;
}

static const char *valid_number(const char *p, const char *end)
{
	p += p < end && *p == '-';
	p = p < end && *p == '0' ? p + 1 : valid_digits(p, end);
	if (p && p < end && *p == '.')
		p = valid_digits(p + 1, end);
	if (p && p < end && (*p == 'e' || *p == 'E')) {
		p++;
		p = valid_digits(p + (p < end && (*p == '+' || *p == '-')), end);
	}
	return p;
}

static const char *valid_value(const char *p, const char *end, int depth);

/* Return the end of the valid object or list at p, or NULL. */
static const char *valid_members(const char *p, const char *end, int depth)
{
	char close = *p == '{' ? '}' : ']';

	p = skip_space(p + 1, end);
	if (p < end && *p == close)
		return p + 1;
	while (p < end) {
		if (close == '}') {
			p = *p == '"' ? valid_string(p, end) : NULL;
			p = p ? skip_space(p, end) : NULL;
			if (!p || p >= end || *p++ != ':')
				return NULL;
			p = skip_space(p, end);
		}
		p = valid_value(p, end, depth);
		p = p ? skip_space(p, end) : NULL;
		if (!p || p >= end)
			return NULL;
		if (*p == close)
			return p + 1;
		if (*p != ',')
			return NULL;
		p = skip_space(p + 1, end);
	}
	return NULL;
}

static const char *valid_value(const char *p, const char *end, int depth)
{
	static const char *const words[] = { "true", "false", "null" };

	if (p >= end)
		return NULL;
	if (*p == '"')
		return valid_string(p, end);
	if (*p == '{' || *p == '[')
		return depth < DEPTH_MOST ? valid_members(p, end, depth + 1) : NULL;
	for (size_t i = 0; i < LEN(words); i++)
		if ((size_t)(end - p) >= strlen(words[i]) && !memcmp(p, words[i], strlen(words[i])))
			return p + strlen(words[i]);
	return valid_number(p, end);
}

int json_valid(const char *text, size_t n)
{
	const char *end = text + n, *p = valid_value(skip_space(text, end), end, 0);

	return p && skip_space(p, end) == end;
}

int jv_next(struct jv c, struct jv *it, struct jv *key)
{
	const char *p;

	if (!c.p || c.end - c.p < 2 || (*c.p != '{' && *c.p != '['))
		return 0;
	p = skip_space(it->p ? it->end : c.p + 1, c.end);
	if (it->p && p < c.end && *p == ',')
		p = skip_space(p + 1, c.end);
	if (p >= c.end - 1)
		return 0;
	if (*c.p == '{') {
		struct jv k = jv_parse(p, (size_t)(c.end - 1 - p));
		if (!k.p)
			return 0;
		if (key)
			*key = k;
		p = skip_space(k.end, c.end - 1);
		if (p >= c.end - 1 || *p != ':')
			return 0;
		p++;
	}
	*it = jv_parse(p, (size_t)(c.end - 1 - p));
	return it->p && it->end > it->p;
}

struct jv jv_get(struct jv object, const char *key)
{
	struct jv it = { 0 }, k = { 0 };

	if (object.p && *object.p == '{')
		while (jv_next(object, &it, &k))
			if (jv_is(k, key))
				return it;
	return (struct jv){ NULL, NULL };
}

int jv_text(struct jv v, struct str *out)
{
	if (!v.p || v.end - v.p < 2 || *v.p != '"' || v.end[-1] != '"')
		return -1;
	str_add(out, "", 0);
	for (const char *p = v.p + 1, *end = v.end - 1; p < end;) {
		static const char from[] = "nrtbf", to[] = "\n\r\t\b\f";
		const char *esc;
		char utf8[4];
		int hi, lo;

		if (*p != '\\' || p + 1 >= end) {
			str_add(out, p++, 1);
			continue;
		}
		p++;
		if (*p == 'u' && (hi = hex4(p + 1, end)) >= 0) {
			p += 5;
			if (hi >= 0xd800 && hi < 0xdc00 && end - p >= 6 && p[0] == '\\' && p[1] == 'u' &&
			    (lo = hex4(p + 2, end)) >= 0xdc00 && lo < 0xe000) {
				hi = 0x10000 + ((hi - 0xd800) << 10) + (lo - 0xdc00);
				p += 6;
			}
			if (hi >= 0xd800 && hi < 0xe000)
				hi = 0xfffd;
			str_add(out, utf8, (size_t)utf8_encode(hi, utf8));
			continue;
		}
		esc = *p ? strchr(from, *p) : NULL;
		str_add(out, esc ? &to[esc - from] : p, 1);
		p++;
	}
	return 0;
}

int jv_number(struct jv v, double *out)
{
	char text[64], *end;
	size_t n = v.p ? (size_t)(v.end - v.p) : 0;
	double x;

	if (!n || n >= sizeof text || !strchr("-0123456789", *v.p))
		return -1;
	memcpy(text, v.p, n);
	text[n] = '\0';
	x = strtod(text, &end);
	if (end != text + n || !isfinite(x))
		return -1;
	*out = x;
	return 0;
}

int jv_is(struct jv v, const char *string)
{
	size_t n = strlen(string);

	return v.p && *v.p == '"' && (size_t)(v.end - v.p) == n + 2 && !memcmp(v.p + 1, string, n);
}

/* ---- writing ---- */

/* If a value precedes this one in its object, list or line, append a comma. Then append the key. */
static void begin_value(struct str *out, const char *key)
{
	if (out->n && !strchr("{[\n", out->p[out->n - 1]))
		str_adds(out, ",");
	if (key) {
		str_add_json(out, key, strlen(key));
		str_adds(out, ":");
	}
}

void json_open(struct str *out, const char *key, char bracket)
{
	begin_value(out, key);
	str_add(out, &bracket, 1);
}

void json_close(struct str *out, char bracket)
{
	str_add(out, &bracket, 1);
}

void json_text(struct str *out, const char *key, const char *text, size_t n)
{
	begin_value(out, key);
	str_add_json(out, n ? text : "", n);
}

void json_string(struct str *out, const char *key, const char *string)
{
	begin_value(out, key);
	if (string)
		str_add_json(out, string, strlen(string));
	else
		str_adds(out, "null");
}

void json_value(struct str *out, const char *key, const struct str *json)
{
	begin_value(out, key);
	str_add(out, json->p, json->n);
}

void json_list(struct str *out, const char *key, const struct str *items)
{
	json_open(out, key, '[');
	str_add(out, str_text(items), items->n);
	json_close(out, ']');
}

void json_int(struct str *out, const char *key, int64_t v)
{
	begin_value(out, key);
	str_addf(out, "%lld", (long long)v);
}

void json_uint(struct str *out, const char *key, uint64_t v)
{
	begin_value(out, key);
	str_addf(out, "%llu", (unsigned long long)v);
}

void json_hash(struct str *out, const char *key, uint64_t v)
{
	begin_value(out, key);
	str_addf(out, "\"%016llx\"", (unsigned long long)v);
}

void json_bool(struct str *out, const char *key, int v)
{
	begin_value(out, key);
	str_adds(out, v ? "true" : "false");
}

void json_null(struct str *out, const char *key)
{
	begin_value(out, key);
	str_adds(out, "null");
}

void json_page(struct str *out, const char *key, const char *label)
{
	size_t n = label ? strlen(label) : 0;

	if (!n)
		json_null(out, key);
	else if (n < 10 && strspn(label, "0123456789") == n && (*label != '0' || n == 1))
		json_int(out, key, strtol(label, NULL, 10));
	else
		json_string(out, key, label);
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
void json_real(struct str *out, const char *key, double v, const char *fmt)
{
	begin_value(out, key);
	if (isfinite(v))
		str_addf(out, fmt, v);
	else
		str_adds(out, "null");
}
#pragma GCC diagnostic pop
