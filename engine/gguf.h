/* engine/gguf.h (private to engine/) - the GGUF container: header, metadata, tensor directory.
 *
 * Read-only and memory-mapped; knows nothing about models.  Every length in the file is hostile:
 * all reads go through one bounded cursor (cursor.h), counts are capped before anything is
 * allocated, and every error is one sentence naming file, byte offset, field, value and limit.
 * Strings are views into the mapping: not NUL-terminated, any bytes.
 *
 * A file that another program cuts short while it is mapped raises SIGBUS on a read inside
 * [base, base + size): whoever installs that handler finds the range here. */
#ifndef WEIR_GGUF_H
#define WEIR_GGUF_H

#include <string.h>

#include "engine/base.h"
#include "kernels/backend.h"

enum gguf_type {
	GGUF_U8, GGUF_I8, GGUF_U16, GGUF_I16, GGUF_U32, GGUF_I32, GGUF_F32, GGUF_BOOL,
	GGUF_STRING, GGUF_ARRAY, GGUF_U64, GGUF_I64, GGUF_F64,
};

struct view { const char *p; size_t n; };

struct gguf_value {
	struct view key;
	enum gguf_type type;
	enum gguf_type elem;     /* of an array */
	uint64_t n;              /* elements of an array; 1 otherwise */
	const uint8_t *data;     /* first byte of the value, of a string's text, of an array's first element */
	uint64_t bytes;          /* length of data (a string: its length; an array: all elements) */
	uint64_t off;            /* file offset of the key's record: for error messages */
};

struct gguf_tensor {
	struct view name;
	enum dtype type;
	int32_t n_dims;
	int64_t ne[4];           /* ne[0] = row length; unused dimensions are 1 */
	const void *data;
	uint64_t bytes, off;     /* off: file offset of its directory record */
	uint64_t at;             /* file offset of data */
};

struct gguf {
	char *path;              /* as given: for error messages (unprintable bytes escaped) */
	uint32_t version, alignment;
	struct gguf_value *kv;      uint64_t n_kv;
	struct gguf_tensor *tensor; uint64_t n_tensor;
	const uint8_t *base;     uint64_t size;   /* the whole file */
	int mapped;
	const struct gguf_value **kv_sorted;          /* by key: for gguf_find */
	const struct gguf_tensor **tensor_sorted;     /* by name */
};

/* Order of bytes, the shorter first: 0 when equal. */
int view_cmp(struct view a, struct view b);
static inline int view_is(struct view v, const char *text)
{
	return v.n == strlen(text) && !memcmp(v.p, text, v.n);
}
const char *gguf_type_name(enum gguf_type);      /* "u32" */
unsigned gguf_type_size(enum gguf_type);         /* bytes of one value; 0 for strings and arrays */

/* Open and check a file.  Only regular files; the mapping is read-only and private. */
int  gguf_open(struct gguf **out, const char *path, struct err *);
/* The same over bytes in memory, which must outlive the result (tests, fuzzing). */
int  gguf_parse(struct gguf **out, const char *name, const void *bytes, size_t n, struct err *);
void gguf_close(struct gguf *);
/* Stop counting the pages read so far as ours; touching them brings them back from the file. */
void gguf_drop_pages(const struct gguf *);

const struct gguf_value  *gguf_find(const struct gguf *, const char *key);       /* or NULL */
const struct gguf_tensor *gguf_tensor_find(const struct gguf *, const char *name);  /* or NULL */

/* Typed reads: 1 = present and in *out, 0 = absent (*out untouched), -1 = wrong type or out of range.
 * gguf_int takes any integer type, gguf_float F32 or F64 (finite or not: the caller checks). */
int gguf_int(const struct gguf *, const char *key, int64_t min, int64_t max, int64_t *out, struct err *);
int gguf_float(const struct gguf *, const char *key, double *out, struct err *);
int gguf_bool(const struct gguf *, const char *key, int *out, struct err *);
int gguf_string(const struct gguf *, const char *key, struct view *out, struct err *);
/* An array of the given element type with exactly n elements (n = UINT64_MAX: any number). */
int gguf_array(const struct gguf *, const char *key, enum gguf_type elem, uint64_t n,
               const struct gguf_value **out, struct err *);
/* Integer array element i as int64 (elem must be an integer type; i < v->n). */
int64_t gguf_array_int(const struct gguf_value *v, uint64_t i);

/* Walk an array of strings: start with pos = 0; 1 = *out set and pos advanced, 0 = end. */
int gguf_string_next(const struct gguf_value *v, uint64_t *pos, struct view *out);

/* Read every weight: 0, or -1 and the first NaN or infinite value's tensor, index and byte (--check-tensors). */
int gguf_check_weights(const struct gguf *, struct err *);

/* "file 'x.gguf': <sentence>", ERR_MODEL; returns -1. */
int gguf_err(const struct gguf *, struct err *, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif
