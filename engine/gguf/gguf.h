/* engine/gguf/gguf.h (private to engine/) - opens, checks and reads model files in the GGUF format.
 *
 * A file begins with its head: header, metadata (keys and values) and the directory of tensors. The tensors' data
 * follows. The file is mapped, and another program may write to it at any time. The parser relies on the lengths and
 * counts in the head, so the head is copied before it is parsed. Tensor data is read from the mapping.
 *
 * Files may be hostile, so all reads are bounded (cursor.h). Strings are views into the copy: any bytes, not
 * NUL-terminated. If a mapped file is truncated, the missing pages read as zeros, and struct gguf.lost becomes 1
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

/* A string that the view does not own: any bytes, not NUL-terminated. */
struct view {
	const char *p;
	size_t n;
};

struct gguf_value {
	struct view key;
	enum gguf_type type;
	enum gguf_type elem; /* type of an array's elements */
	uint64_t n;          /* number of elements of an array; 1 for other values */
	const uint8_t *data; /* the value, the text of a string, or the first element of an array */
	uint64_t bytes;      /* size of the value, or of all elements of an array, in bytes */
	uint64_t off;        /* file offset of the key's record, for messages */
};

struct gguf_tensor {
	struct view name;
	enum dtype type;
	int32_t n_dims;
	int64_t ne[4];    /* sizes of the dimensions; ne[0] is the length of a row; unused dimensions have size 1 */
	const void *data; /* the tensor's values, in the mapped file or in the caller's bytes */
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
	const uint8_t *base; /* address of the mapped file, or of the caller's bytes */
	uint64_t size;       /* size of the file in bytes */
	uint8_t *head;       /* copy of the head; NULL: the caller's bytes are parsed in place */
	uint64_t n_head;     /* size of `head` in bytes */
	int mapped;          /* 1: `base` is a mapping, to be unmapped on close */
	/* 1: some pages of the mapping became unreadable and were replaced by zeros */
	atomic_int lost;
	uint64_t ahead; /* file offset up to which gguf_read_ahead() has asked for pages */
	/* the other files of a split model, each with its own tensor directory */
	struct gguf **part;
	size_t n_part;                            /* number of files in part[] */
	const struct gguf_value **kv_sorted;      /* all values in the order of their keys, for gguf_find() */
	const struct gguf_tensor **tensor_sorted; /* all tensors in the order of their names, for gguf_tensor_find() */
};

/* Compare like memcmp(). If one text is the beginning of the other, the shorter text is less. */
int view_cmp(struct view a, struct view b);
/* Write a key or name to out for an error message and return out. Bytes other than printable ASCII are escaped. A text
 * longer than about 70 characters is truncated. */
const char *view_show(struct view, char out[80]);
static inline int view_is(struct view v, const char *text)
{
	return v.n == strlen(text) && !memcmp(v.p, text, v.n);
}
/* return the name of a type, such as "u32", or "unknown" if the number is no type */
const char *gguf_type_name(enum gguf_type);
/* return the size of one value of a type in bytes, or 0 for strings and arrays */
unsigned gguf_type_size(enum gguf_type);

/* Map and check a model file. If the model is split into several files, open all of them (gguf_split.c). */
int gguf_open(struct gguf **out, const char *path, struct err *);
/* Map and check one file, even if it is a part of a split model. */
int gguf_open_file(struct gguf **out, const char *path, struct err *);
/* Add `part`, another file of a split model, and its tensors to the first file. Return -1 if both files have a tensor
 * of the same name. From then on the first file owns `part`, even after an error. */
int gguf_join(struct gguf *, struct gguf *part, struct err *);
/* Parse a file of n bytes in memory, for tests and fuzzing. The bytes must stay valid as long as *out is used. `name`
 * is for error messages. */
int gguf_parse(struct gguf **out, const char *name, const void *bytes, size_t n, struct err *);
void gguf_close(struct gguf *);
/* Parse header, metadata and tensor directory of the file whose bytes are in *g, and fill in the rest of *g
 * (gguf_parse.c). Called by gguf.c only. */
int gguf_parse_all(struct gguf *, struct err *);
/* The n bytes at p are the beginning of a file that is not GGUF. Return what kind of file they look like, for an error
 * message ("a zip archive ..."), or NULL if this is unknown (gguf_foreign.c). */
const char *gguf_looks_like(const uint8_t *p, uint64_t n);
/* Fill tensor_sorted with the tensors in order of their names, and return 0 (gguf_get.c). If two tensors have the
 * same name, return the index of the second one in tensor_sorted, which is at least 1. */
uint64_t gguf_sort_tensors(struct gguf *);

/* Return -1 with an error if a file of the model was truncated or became unreadable while it was open. */
int gguf_check_there(const struct gguf *, struct err *);
/* Return the size of a file's head (everything before the tensor data). The n bytes at p are the beginning of the file.
 * The rest of the file may be missing, for example during a download (gguf_head.c). Return 0 if the head is longer than
 * n bytes, and n if the bytes are not valid GGUF. */
uint64_t gguf_head_bytes(const void *p, uint64_t n);
/* Return how many of the n bytes of a file at p must be copied for gguf_parse_all(). These are all bytes before the
 * tensor data, and some more bytes, which error messages may quote. If a record is invalid, the head is taken to end
 * there. */
uint64_t gguf_head_reach(const void *p, uint64_t n);
/* Free the physical memory of the n bytes at p; the next access reads the file again. If these bytes are not in the
 * mapping of `gguf` (a struct gguf), do nothing. */
void gguf_drop_pages(const void *p, size_t n, void *gguf);

/* return the value of a key, or NULL if there is no such key */
const struct gguf_value *gguf_find(const struct gguf *, const char *key);
/* return the tensor with a name, or NULL if there is no such tensor */
const struct gguf_tensor *gguf_tensor_find(const struct gguf *, const char *name);

/* Start reading the n bytes at p and the next 128 MiB from disk, without waiting for the disk. (Weights are used mostly
 * in the order of the file.) */
void gguf_read_ahead(struct gguf *, const void *p, size_t n);

/* Read the value of a key into *out and return 1. If the key is absent, return 0 and leave *out unchanged. If the
 * value has a wrong type or is out of range, return -1. gguf_int() accepts all integer types. gguf_float() accepts
 * F32 and F64, also infinities and NaN. */
int gguf_int(const struct gguf *, const char *key, int64_t min, int64_t max, int64_t *out, struct err *);
int gguf_float(const struct gguf *, const char *key, double *out, struct err *);
int gguf_bool(const struct gguf *, const char *key, int *out, struct err *);
int gguf_string(const struct gguf *, const char *key, struct view *out, struct err *);
/* Find an array of n elements of type `elem`. If n is UINT64_MAX, any number of elements is accepted. The return value
 * 1, 0 or -1 means the same as for gguf_int(). */
int gguf_array(const struct gguf *, const char *key, enum gguf_type elem, uint64_t n, const struct gguf_value **out,
               struct err *);
/* Return element i of an array of integers; i < v->n. */
int64_t gguf_array_int(const struct gguf_value *v, uint64_t i);

/* Step through an array of strings; start with *pos = 0. Set *out to the next string, advance *pos and return 1.
 * Return 0 at the end. */
int gguf_string_next(const struct gguf_value *v, uint64_t *pos, struct view *out);

/* Check that every weight is finite (the option --check-tensors). If one is not, return -1 with an error that names the
 * tensor, and the index and byte offset of the first such weight. */
int gguf_check_weights(const struct gguf *, struct err *);

/* Set the error "file 'PATH': TEXT" of the kind ERR_MODEL and return -1. TEXT is the formatted text. */
int gguf_err(const struct gguf *, struct err *, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif
