/* engine/base/json.h - JSON: reading what another program wrote, and writing it. */
#ifndef WEIR_JSON_H
#define WEIR_JSON_H

#include "engine/base/base.h"

/* ---- reading JSON (json.c) ----
 * Views into the text, no tree.  Text that is no JSON gives absent values, never a read outside of it. */

struct jv {
	const char *p, *end;
}; /* one value; p = NULL when absent */

/* Is the text one value, and nothing else?  Nested 64 deep at most; duplicate keys and invalid UTF-8 pass. */
int json_valid(const char *text, size_t n);
struct jv jv_parse(const char *text, size_t n);
/* Walk an array or an object: start with it = {0}; 0 at the end.  key may be NULL. */
int jv_next(struct jv container, struct jv *it, struct jv *key);
struct jv jv_get(struct jv object, const char *key);
/* A string's text, appended; -1: it is no string. */
int jv_text(struct jv, struct str *out);
/* A finite number, with nothing behind it; -1: it is none. */
int jv_number(struct jv, double *out);
/* Equal to this string, which has nothing to escape? */
int jv_is(struct jv, const char *string);

/* ---- writing JSON (json.c) ----
 * Each call appends one value, with a comma before it unless it is the first of its object, list or line. key: NULL in
 * a list and for a value by itself. */

void json_open(struct str *out, const char *key, char bracket); /* '{' or '[' */
void json_close(struct str *out, char bracket);                 /* '}' or ']' */
/* A value that was written before. */
void json_value(struct str *out, const char *key, const struct str *json);
/* [ITEMS]: values that were written one after the other. */
void json_list(struct str *out, const char *key, const struct str *items);
void json_text(struct str *out, const char *key, const char *text, size_t n);
void json_string(struct str *out, const char *key, const char *string); /* NULL: null */
void json_int(struct str *out, const char *key, int64_t);
void json_uint(struct str *out, const char *key, uint64_t);
void json_hash(struct str *out, const char *key, uint64_t); /* "16 hexadecimal digits" */
void json_bool(struct str *out, const char *key, int);
void json_null(struct str *out, const char *key);
/* The label of a page: a number as a number, others ("xii") as they are, none (NULL or "") as null. */
void json_page(struct str *out, const char *key, const char *label);
/* fmt: "%.3f" and the like; infinity and NaN, which JSON lacks, become null. */
void json_real(struct str *out, const char *key, double v, const char *fmt) __attribute__((format(printf, 4, 0)));

#endif
