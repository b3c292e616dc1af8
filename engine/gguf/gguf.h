/* engine/gguf/gguf.h (private to engine/) - the GGUF container: header, metadata, tensor directory.
 *
 * The file is mapped read-only, and another program may write to it at any time. Its header, with the vocabulary and
 * everything else that has lengths, is therefore copied before it is read; of the mapping only the tensors' data is
 * used, where any bytes are numbers. The content is hostile: all reads go through one bounded cursor (cursor.h), counts
 * are capped before memory is allocated for them, and an error is one sentence that names file, byte offset, field,
 * value and limit. Strings are views into the copy: any bytes, not NUL-terminated. Model hyper-parameters and weights
 * are model.h's concern.
 *
 * If another program truncates the file while it is mapped, it has zeros from there on and is lost (mapped.h). */
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
	uint64_t bytes;      /* size of data: the value, the text, all elements */
	uint64_t off;        /* file offset of the key's record, for messages */
};

struct gguf_tensor {
	struct view name;
	enum dtype type;
	int32_t n_dims;
	int64_t ne[4]; /* ne[0] = row length; unused dimensions are 1 */
	const void *data;
	uint64_t bytes; /* size of data */
	uint64_t off;   /* file offset of the directory record, for messages */
	uint64_t at;    /* file offset of data */
};

struct gguf {
	char *path; /* the caller's path, escaped for messages */
	uint32_t version, alignment;
	struct gguf_value *kv;
	uint64_t n_kv;
	struct gguf_tensor *tensor;
	uint64_t n_tensor;
	const uint8_t *base;
	uint64_t size; /* the whole file */
	/* the copy of its first bytes; NULL: the caller's bytes do not change, and are read themselves */
	uint8_t *head;
	uint64_t n_head;
	int mapped;      /* base is a mapping to be unmapped */
	atomic_int lost; /* pages of it cannot be read any more */
	uint64_t ahead;  /* gguf_read_ahead(): where what it has asked for ends */
	struct gguf **part;
	size_t n_part;                       /* the other files of a model in several, which hold some of the tensors */
	const struct gguf_value **kv_sorted; /* by key, for gguf_find() */
	const struct gguf_tensor **tensor_sorted; /* by name, for gguf_tensor_find() */
};

/* Compare like memcmp(); a prefix comes before the longer text. */
int view_cmp(struct view a, struct view b);
/* A key or name for a message: all but printable ASCII escaped, at most about 70 characters. */
const char *view_show(struct view, char out[80]);
static inline int view_is(struct view v, const char *text)
{
	return v.n == strlen(text) && !memcmp(v.p, text, v.n);
}
const char *gguf_type_name(enum gguf_type); /* e.g. "u32" */
unsigned gguf_type_size(enum gguf_type);    /* bytes of one value; 0 for strings and arrays */

/* Map and check a model: a regular file, or all files of one in several (gguf_split.c). */
int gguf_open(struct gguf **out, const char *path, struct err *);
/* One file alone. */
int gguf_open_file(struct gguf **out, const char *path, struct err *);
/* Take over another part and its tensors.  -1: both have a tensor of the same name. */
int gguf_join(struct gguf *, struct gguf *part, struct err *);
/* The same for bytes in memory, which must outlive the result; name is for messages (tests, fuzzing). */
int gguf_parse(struct gguf **out, const char *name, const void *bytes, size_t n, struct err *);
void gguf_close(struct gguf *);
/* ---- for gguf.c, which has the bytes: check them and fill the rest (gguf_parse.c) ---- */
int gguf_parse_all(struct gguf *, struct err *);
/* What bytes that are no GGUF look like (gguf_foreign.c), "a zip archive ..."; NULL when unknown. */
const char *gguf_looks_like(const uint8_t *p, uint64_t n);
/* Fill tensor_sorted (gguf_get.c).  Returns the place in it of a tensor with the name of the one before it, or 0. */
uint64_t gguf_sort_tensors(struct gguf *);

/* -1 and a sentence where a file of the model was cut short, or could not be read any more, after it was opened. */
int gguf_check_there(const struct gguf *, struct err *);
/* How many of a file's first bytes its header takes, up to the tensors' data (gguf_head.c): 0 while p[0 .. n) is not
 * yet all of it; n where the bytes are no GGUF, which more of them would not change. */
uint64_t gguf_head_bytes(const void *p, uint64_t n);
/* How many of a file's first bytes gguf_parse_all() reads at most: the header, or what comes before the record that is
 * damaged, and some more. */
uint64_t gguf_head_reach(const void *p, uint64_t n);
/* Drop the pages that hold these n bytes of a file from the process's memory; the next access reads them from the file
 * again. Bytes that are not of the file, or not mapped, stay. */
void gguf_drop_pages(const void *p, size_t n, void *gguf);

const struct gguf_value *gguf_find(const struct gguf *, const char *key);          /* or NULL */
const struct gguf_tensor *gguf_tensor_find(const struct gguf *, const char *name); /* or NULL */

/* Weights are read from here on, mostly in the order of the file: have the disk read these n bytes and those behind
 * them while the processor works on the first of them. */
void gguf_read_ahead(struct gguf *, const void *p, size_t n);

/* Typed reads.  1: the key is present and its value in *out; 0: absent, *out unchanged; -1: wrong type or out of range.
 * gguf_int() accepts any integer type, gguf_float() F32 and F64, infinities and NaN included. */
int gguf_int(const struct gguf *, const char *key, int64_t min, int64_t max, int64_t *out, struct err *);
int gguf_float(const struct gguf *, const char *key, double *out, struct err *);
int gguf_bool(const struct gguf *, const char *key, int *out, struct err *);
int gguf_string(const struct gguf *, const char *key, struct view *out, struct err *);
/* An array of n elements of type elem (n = UINT64_MAX: of any number). */
int gguf_array(const struct gguf *, const char *key, enum gguf_type elem, uint64_t n, const struct gguf_value **out,
               struct err *);
/* Element i < v->n of an array of integers. */
int64_t gguf_array_int(const struct gguf_value *v, uint64_t i);

/* Iterate over an array of strings, from *pos = 0.  1: *out is the next string and *pos is advanced; 0: end. */
int gguf_string_next(const struct gguf_value *v, uint64_t *pos, struct view *out);

/* Check that every weight is finite (--check-tensors). -1: the error names tensor, index and byte offset of the first
 * that is not. */
int gguf_check_weights(const struct gguf *, struct err *);

/* Set the error "file 'PATH': <formatted text>", ERR_MODEL, and return -1. */
int gguf_err(const struct gguf *, struct err *, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif
