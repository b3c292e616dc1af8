/* tests/lib/json.c - the small JSON reader of test.h.  Trusts its input: the reference files are ours. */
#include "tests/lib/test.h"

#include <stdlib.h>

static const char *space(const char *p, const char *end)
{
	while (p < end && (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r'))
		p++;
	return p;
}

/* The value that starts at p: returns where it ends. */
static const char *skip_value(const char *p, const char *end)
{
	int depth = 0;
	do {
		p = space(p, end);
		if (p >= end)
			return end;
		if (*p == '"') {
			for (p++; p < end && *p != '"'; p++)
				p += *p == '\\';
			p++;
		} else if (*p == '{' || *p == '[') {
			depth++, p++;
		} else if (*p == '}' || *p == ']') {
			depth--, p++;
		} else if (*p == ',' || *p == ':') {
			p++;
		} else {
			while (p < end && !strchr(",:]} \n\t\r", *p))
				p++;
		}
	} while (depth > 0 && p < end);
	return p;
}

struct json json_parse(const char *text, size_t n)
{
	struct json j = { space(text, text + n), NULL };
	j.end = skip_value(j.p, text + n);
	return j;
}

int json_next(struct json c, struct json *it, struct json *key)
{
	const char *p;
	int object;

	if (!c.p || (*c.p != '{' && *c.p != '['))
		return 0;
	object = *c.p == '{';
	p = space(it->p ? it->end : c.p + 1, c.end);
	if (p < c.end && *p == ',')
		p = space(p + 1, c.end);
	if (p >= c.end - 1)
		return 0;
	if (object) {
		struct json k = json_parse(p, (size_t)(c.end - p));
		if (key)
			*key = k;
		p = space(k.end, c.end) + 1;
	}
	*it = json_parse(p, (size_t)(c.end - p));
	return 1;
}

struct json json_get(struct json object, const char *key)
{
	struct json it = {0}, k = {0};
	while (json_next(object, &it, &k))
		if (json_is(k, key))
			return it;
	return (struct json){0};
}

struct json json_at(struct json array, size_t i)
{
	struct json it = {0};
	while (json_next(array, &it, NULL))
		if (!i--)
			return it;
	return (struct json){0};
}

size_t json_len(struct json array)
{
	struct json it = {0};
	size_t n = 0;
	while (json_next(array, &it, NULL))
		n++;
	return n;
}

double json_num(struct json j)
{
	return j.p ? strtod(j.p, NULL) : 0;
}

static int hex4(const char *p)
{
	char t[5] = { p[0], p[1], p[2], p[3], 0 };
	return (int)strtol(t, NULL, 16);
}

char *json_str(struct json j, size_t *n)
{
	char *out, *o;
	const char *p;

	if (!j.p || *j.p != '"')
		return NULL;
	o = out = malloc((size_t)(j.end - j.p) + 1);
	for (p = j.p + 1; p < j.end - 1; p++) {
		int c;
		if (*p != '\\') {
			*o++ = *p;
			continue;
		}
		switch (*++p) {
		case 'n': *o++ = '\n'; break;
		case 't': *o++ = '\t'; break;
		case 'r': *o++ = '\r'; break;
		case 'b': *o++ = '\b'; break;
		case 'f': *o++ = '\f'; break;
		case 'u':
			c = hex4(p + 1);
			p += 4;
			if (c >= 0xd800 && c < 0xdc00 && p[1] == '\\' && p[2] == 'u') {
				c = 0x10000 + ((c - 0xd800) << 10) + (hex4(p + 3) - 0xdc00);
				p += 6;
			}
			if (c < 0x80) {
				*o++ = (char)c;
			} else if (c < 0x800) {
				*o++ = (char)(0xc0 | c >> 6), *o++ = (char)(0x80 | (c & 63));
			} else if (c < 0x10000) {
				*o++ = (char)(0xe0 | c >> 12), *o++ = (char)(0x80 | (c >> 6 & 63));
				*o++ = (char)(0x80 | (c & 63));
			} else {
				*o++ = (char)(0xf0 | c >> 18), *o++ = (char)(0x80 | (c >> 12 & 63));
				*o++ = (char)(0x80 | (c >> 6 & 63)), *o++ = (char)(0x80 | (c & 63));
			}
			break;
		default: *o++ = *p;
		}
	}
	*o = 0;
	if (n)
		*n = (size_t)(o - out);
	return out;
}

int json_is(struct json j, const char *s)
{
	char *t = json_str(j, NULL);
	int same = t && !strcmp(t, s);
	free(t);
	return same;
}
