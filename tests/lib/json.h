/* tests/lib/json.h - the program's JSON reader (engine/base/json.h), and functions for JSON that only tests need. An
 * absent value counts as 0 or NULL, because the reference files are trusted. */
#ifndef WEIR_TESTS_JSON_H
#define WEIR_TESTS_JSON_H

#include "engine/base/json.h"

struct jv jv_at(struct jv array, size_t i);
size_t jv_len(struct jv array);
double jv_num(struct jv);
/* Return the decoded string, which the caller frees. n may be NULL. */
char *jv_str(struct jv, size_t *n);

#endif
