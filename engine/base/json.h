/* engine/base/json.h - reading JSON of other programs, and writing JSON. */
#ifndef WEIR_JSON_H
#define WEIR_JSON_H

#include "engine/base/base.h"

/* ---- reading JSON (json.c) ----
 * Values are views into the caller's text; no tree is built. Invalid JSON gives absent values; reads never leave the
 * text. */

/* A value: its text, p to end. p = NULL: absent. */
struct jv {
	const char *p, *end;
};

/* 1 if text[0..n) is exactly one JSON value, nested at most 64 deep. Duplicate keys and invalid UTF-8 are
 * accepted. */
int json_valid(const char *text, size_t n);
/* Return the first value of text[0..n); absent if the text is blank. */
struct jv jv_parse(const char *text, size_t n);
/* Step through an array or an object: start with *it = {0}. Set *it to the next value and *key (may be NULL) to its
 * key, a string, and return 1. Return 0 at the end. */
int jv_next(struct jv container, struct jv *it, struct jv *key);
/* Return the value of `key`; absent if object is no object or lacks the key. */
struct jv jv_get(struct jv object, const char *key);
/* Append the text of a string, unescaped, and return 0. Return -1 for any other value. */
int jv_text(struct jv, struct str *out);
/* Set *out to a finite number of at most 63 characters and return 0. Return -1 for any other value. */
int jv_number(struct jv, double *out);
/* 1 if the value is a string equal to `string`, which must not need escapes. */
int jv_is(struct jv, const char *string);

/* ---- writing JSON (json.c) ----
 * Each call appends one value, preceded by a comma unless the value is the first of its object, list or line. key =
 * NULL: an element of a list, or a value outside of objects. */

void json_open(struct str *out, const char *key, char bracket); /* '{' or '[' */
void json_close(struct str *out, char bracket);                 /* '}' or ']' */
/* Append `json`, a complete value. */
void json_value(struct str *out, const char *key, const struct str *json);
/* Append [ITEMS]; `items` are complete values with commas between them. */
void json_list(struct str *out, const char *key, const struct str *items);
void json_text(struct str *out, const char *key, const char *text, size_t n);
void json_string(struct str *out, const char *key, const char *string); /* NULL: null */
void json_int(struct str *out, const char *key, int64_t);
void json_uint(struct str *out, const char *key, uint64_t);
void json_hash(struct str *out, const char *key, uint64_t); /* "16 hexadecimal digits" */
void json_bool(struct str *out, const char *key, int);
void json_null(struct str *out, const char *key);
/* Append a page label: digits become a number, other labels ("xii") a string, NULL and "" null. */
void json_page(struct str *out, const char *key, const char *label);
/* Append v, formatted by fmt ("%.3f"). Infinity and NaN, which JSON lacks, become null. */
void json_real(struct str *out, const char *key, double v, const char *fmt) __attribute__((format(printf, 4, 0)));

#endif
