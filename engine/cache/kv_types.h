/* engine/cache/kv_types.h (private to engine/) - the element types of cached keys and values, and their names. */
#ifndef WEIR_KV_TYPES_H
#define WEIR_KV_TYPES_H

#include "engine/base/base.h"
#include "kernels/backend.h"

struct kv_types {
	enum dtype k, v;
};

/* Parse "TYPE", or "k=TYPE,v=TYPE" in any order. If k or v is omitted, it is f16. If text is NULL, both are f16. Return
 * 0, or -1 with an error message. */
int kv_types_parse(struct kv_types *, const char *text, struct err *);
/* Return the name of a KV type: "q8_0". */
const char *kv_type_name(enum dtype);
/* Write the types to out[] in the form that kv_types_parse() reads: "q8_0", or "k=q8_0,v=q4_0" if they differ. */
enum { KV_TYPES_TEXT = 16 };
void kv_types_text(struct kv_types, char out[KV_TYPES_TEXT]);

#endif
