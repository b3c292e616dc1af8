/* engine/base/json.h - reads JSON from other programs, and writes JSON. */
#ifndef WEIR_JSON_H
#define WEIR_JSON_H

#include "engine/base/base.h"

/* ---- reading JSON (json.c) ----
 *
 * Values are pointers into the caller's text; no tree is built. If the text is not valid JSON (json_valid() returns 0),
 * values may be missing, but reads stay inside the text. */

/* A value, given by its text, which is bytes p to end - 1. If p is NULL, there is no value. */
struct jv {
	const char *p, *end;
};

/* 1 if text[0..n) is exactly one JSON value that is nested at most 64 deep. Duplicate keys and invalid UTF-8 are
 * accepted. */
int json_valid(const char *text, size_t n);
/* Return the first value of text[0..n). If the text is blank, there is no value, and p is NULL. */
struct jv jv_parse(const char *text, size_t n);
/* Step through an array or an object; start with *it = {0}. Set *it to the next value and *key to its key, and return
 * 1. Return 0 at the end. `key` may be NULL. */
int jv_next(struct jv container, struct jv *it, struct jv *key);
/* Return the value of `key`. If `object` is not an object or does not have the key, there is no value, and p is
 * NULL. */
struct jv jv_get(struct jv object, const char *key);
/* Append the unescaped text of a string and return 0. Return -1 if the value is not a string. */
int jv_text(struct jv, struct str *out);
/* Set *out to a number and return 0. Return -1 if the value is not a finite number of at most 63 characters. */
int jv_number(struct jv, double *out);
/* 1 if the value is a string equal to `string`. `string` must not contain characters that JSON escapes. */
int jv_is(struct jv, const char *string);

/* ---- writing JSON (json.c) ----
 *
 * Each call except json_close() appends one value. If another value precedes it in its object, list or line, the call
 * appends a comma first. key = NULL: append no key, because the value is an element of a list or a whole line. */

void json_open(struct str *out, const char *key, char bracket); /* '{' or '[' */
void json_close(struct str *out, char bracket);                 /* '}' or ']' */
/* Append `json`, a complete value. */
void json_value(struct str *out, const char *key, const struct str *json);
/* Append a list. `items` is the text of its values, with commas between them. */
void json_list(struct str *out, const char *key, const struct str *items);
void json_text(struct str *out, const char *key, const char *text, size_t n);
/* append a string; if `string` is NULL, append null */
void json_string(struct str *out, const char *key, const char *string);
void json_int(struct str *out, const char *key, int64_t);
void json_uint(struct str *out, const char *key, uint64_t);
void json_hash(struct str *out, const char *key, uint64_t); /* append the hash as a string of 16 hexadecimal digits */
void json_bool(struct str *out, const char *key, int);
void json_null(struct str *out, const char *key);
/* Append a page label. Digits become a number, other labels ("xii") a string; NULL and "" become null. */
void json_page(struct str *out, const char *key, const char *label);
/* Append v in the printf format `fmt`, such as "%.3f". Infinity and NaN become null, because JSON cannot express
 * them. */
void json_real(struct str *out, const char *key, double v, const char *fmt) __attribute__((format(printf, 4, 0)));

#endif
