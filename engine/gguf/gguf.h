/* engine/gguf/gguf.h (private to engine/) - the GGUF container: header, metadata, tensor directory.
 *
 * The file is mapped read-only, and another program may write to it at any time. The head, which is everything before
 * the tensor data, contains lengths and counts; so the head is copied before it is parsed. Only tensor data is read
 * from the mapping: there any bytes are valid numbers.
 *
 * The content may be hostile. All reads use one bounded cursor (cursor.h), and counts are capped before memory is
 * allocated for them. An error is one sentence that names file, byte offset, field, value and limit. Strings are
 * views into the copy: any bytes, not NUL-terminated. engine/model/ reads hyper-parameters and weights.
 *
 * If another program truncates the mapped file, the missing pages read as zeros, and struct gguf.lost is set
 * (mapped.h). */
#ifndef WEIR_GGUF_H
#define WEIR_GGUF_H

#include <stdatomic.h>
#include <string.h>

#include "engine/base/base.h"
#include "kernels/backend.h"

enum gguf_type {
	GGUF_U8,
	GGUF_I8,
	GGUF_U16,
	GGUF_I16,
	GGUF_U32,
	GGUF_I32,
	GGUF_F32,
	GGUF_BOOL,
	GGUF_STRING,
	GGUF_ARRAY,
	GGUF_U64,
	GGUF_I64,
	GGUF_F64,
};

/* Bytes owned by somebody else, not NUL-terminated. */
struct view {
	const char *p;
	size_t n;
};

struct gguf_value {
	struct view key;
	enum gguf_type type;
	enum gguf_type elem; /* type of an array's elements */
	uint64_t n;          /* elements of an array; 1 otherwise */
	const uint8_t *data; /* the value; a string's text; an array's first element */
	uint64_t bytes;      /* size of data, for an array of all elements */
	uint64_t off;        /* file offset of the key's record, for messages */
};

struct gguf_tensor {
	struct view name;
	enum dtype type;
	int32_t n_dims;
	int64_t ne[4];    /* values per dimension: ne[0] = row length; unused dimensions are 1 */
	const void *data; /* the values, in the mapping */
	uint64_t bytes;   /* size of data */
	uint64_t off;     /* file offset of the directory record, for messages */
	uint64_t at;      /* file offset of data */
};

struct gguf {
	char *path; /* the caller's path, escaped for messages */
	uint32_t version, alignment;
	struct gguf_value *kv;
	uint64_t n_kv;
	struct gguf_tensor *tensor;
	uint64_t n_tensor;
	const uint8_t *base;                      /* the mapped file, or the caller's bytes */
	uint64_t size;                            /* bytes of the file */
	uint8_t *head;                            /* copy of the head; NULL = parse the caller's bytes in place */
	uint64_t n_head;                          /* bytes of that copy */
	int mapped;                               /* 1 = base is a mapping, to be unmapped on close */
	atomic_int lost;                          /* 1 = pages of the mapping can no longer be read */
	uint64_t ahead;                           /* file offset up to which gguf_read_ahead() has read */
	struct gguf **part;                       /* the other files of a split model, each with its own tensors */
	size_t n_part;                            /* number of those files */
	const struct gguf_value **kv_sorted;      /* all values by key, for gguf_find() */
	const struct gguf_tensor **tensor_sorted; /* all tensors by name, for gguf_tensor_find() */
};

/* Compare bytes like memcmp(); a prefix is less than the longer text. */
int view_cmp(struct view a, struct view b);
/* Write a key or name to out for a message and return out: everything but printable ASCII is escaped, long text is
 * cut after about 70 characters. */
const char *view_show(struct view, char out[80]);
static inline int view_is(struct view v, const char *text)
{
	return v.n == strlen(text) && !memcmp(v.p, text, v.n);
}
const char *gguf_type_name(enum gguf_type); /* "u32"; "unknown" for other numbers */
unsigned gguf_type_size(enum gguf_type);    /* bytes of one value; 0 for strings and arrays */

/* Map and check a model. If the file is part of a split model, open all parts (gguf_split.c). */
int gguf_open(struct gguf **out, const char *path, struct err *);
/* Map and check one file, without its other parts. */
int gguf_open_file(struct gguf **out, const char *path, struct err *);
/* Add another part and its tensors; the first struct owns the part from then on, also after an error. Return -1 if a
 * tensor name is in both. */
int gguf_join(struct gguf *, struct gguf *part, struct err *);
/* Check n bytes in memory, which must outlive the result; name is for messages. For tests and fuzzing. */
int gguf_parse(struct gguf **out, const char *name, const void *bytes, size_t n, struct err *);
void gguf_close(struct gguf *);
/* For gguf.c: check the bytes at head (or base) and fill the other members (gguf_parse.c). */
int gguf_parse_all(struct gguf *, struct err *);
/* Return what p[0..n), which is no GGUF, looks like: "a zip archive ..."; NULL if unknown (gguf_foreign.c). */
const char *gguf_looks_like(const uint8_t *p, uint64_t n);
/* Fill tensor_sorted and return 0 (gguf_get.c). If a name occurs twice, return the index of its second occurrence in
 * tensor_sorted. */
uint64_t gguf_sort_tensors(struct gguf *);

/* Return -1 with an error if a file of the model was truncated, or became unreadable, after it was opened. */
int gguf_check_there(const struct gguf *, struct err *);
/* Return the size of the head, of which p[0..n) is the beginning (gguf_head.c). Return 0 if more bytes are needed,
 * and n if the bytes are no valid GGUF. */
uint64_t gguf_head_bytes(const void *p, uint64_t n);
/* Return how many bytes of the file p[0..n) gguf_parse_all() may read: the head, or the head up to the first damaged
 * record, plus some bytes for a message to quote. */
uint64_t gguf_head_reach(const void *p, uint64_t n);
/* Drop the pages of p[0..n) from the process's memory; the next access reads the file again. Does nothing if p[0..n)
 * is not in a mapping of `gguf`, a struct gguf. */
void gguf_drop_pages(const void *p, size_t n, void *gguf);

const struct gguf_value *gguf_find(const struct gguf *, const char *key);          /* NULL = no such key */
const struct gguf_tensor *gguf_tensor_find(const struct gguf *, const char *name); /* NULL = no such tensor */

/* Start reading p[0..n) and the 128 MiB after it from disk, without waiting. For weights, which are used mostly in
 * the order of the file. */
void gguf_read_ahead(struct gguf *, const void *p, size_t n);

/* Typed reads. Return 1 with the value in *out; 0 if the key is absent, *out unchanged; -1 if the type is wrong or
 * the value out of range. gguf_int() accepts any integer type; gguf_float() accepts F32 and F64, infinities and NaN
 * too. */
int gguf_int(const struct gguf *, const char *key, int64_t min, int64_t max, int64_t *out, struct err *);
int gguf_float(const struct gguf *, const char *key, double *out, struct err *);
int gguf_bool(const struct gguf *, const char *key, int *out, struct err *);
int gguf_string(const struct gguf *, const char *key, struct view *out, struct err *);
/* Typed read of an array of n elements of type elem; n = UINT64_MAX: any number of elements. */
int gguf_array(const struct gguf *, const char *key, enum gguf_type elem, uint64_t n, const struct gguf_value **out,
               struct err *);
/* Return element i < v->n of an array of integers. */
int64_t gguf_array_int(const struct gguf_value *v, uint64_t i);

/* Step through an array of strings, starting with *pos = 0. Set *out to the next string, advance *pos and return 1;
 * at the end return 0. */
int gguf_string_next(const struct gguf_value *v, uint64_t *pos, struct view *out);

/* Return 0 if every weight is finite (--check-tensors). Otherwise return -1; the error names tensor, index and byte
 * offset of the first weight that is not. */
int gguf_check_weights(const struct gguf *, struct err *);

/* Set the error "file 'PATH': <formatted text>", ERR_MODEL, and return -1. */
int gguf_err(const struct gguf *, struct err *, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif
