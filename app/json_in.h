/* app/json_in.h (private to app/) - reading JSON that someone else wrote: views into the text, no tree.
 *
 * Text that is no JSON gives absent values, never a read outside of it. */
#ifndef WEIR_JSON_IN_H
#define WEIR_JSON_IN_H

#include "engine/base.h"

struct jv { const char *p, *end; };   /* one value; p = NULL when absent */

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

#endif
