/* engine/base.h - errors, byte strings, token lists and checked sizes: what every layer above
 * kernels/ shares.
 *
 * Nothing here prints or exits.  A function that can fail returns -1 (or NULL) and fills a
 * struct err with one complete sentence: lower case, no full stop, what failed first, the subject
 * in single quotes, the limit, and the next step where there is one.  On success err is untouched. */
#ifndef WEIR_BASE_H
#define WEIR_BASE_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

enum err_code {
	ERR_NONE,
	ERR_FAIL,        /* anything else;                               exit code 1 */
	ERR_USAGE,       /* the caller asked for something impossible;   exit code 2 */
	ERR_MODEL,       /* the model file is unusable or unsupported;   exit code 3 */
	ERR_DOCUMENT,    /* a document cannot be read;                   exit code 4 */
	ERR_FIT,         /* memory or context is too small for it;       exit code 5 */
	ERR_CANCELLED,   /* the user stopped it;                         exit code 130 */
};

struct err {
	enum err_code code;
	char msg[400];
};

/* Fill *e (may be NULL) and return -1, so that `return err_set(...)` reads naturally. */
int err_set(struct err *e, enum err_code code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Copy s[0..n) into out as far as it fits, NUL-terminated; what must not reach a terminal as it is
 * (controls, invalid UTF-8, direction overrides, invisible characters) becomes \xNN.  Returns the length.
 * err_set() does this to every message; needed where text may hold NUL bytes. */
size_t text_escape(char *out, size_t cap, const char *s, size_t n);

/* Growable bytes.  p is always NUL-terminated once anything was added; NULL while empty.
 * Growth of these small buffers never fails: out of memory ends the program (see xmalloc). */
struct str {
	char *p;
	size_t n, cap;
};
void str_add(struct str *s, const void *bytes, size_t n);
void str_adds(struct str *s, const char *zero_terminated);
void str_addf(struct str *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* n bytes as a JSON string with its quotes; invalid UTF-8 becomes U+FFFD. */
void str_add_json(struct str *s, const char *text, size_t n);
void str_clear(struct str *s);   /* empty, keep the memory */
void str_free(struct str *s);

/* Growable list of token ids. */
struct tokens {
	int32_t *id;
	size_t n, cap;
};
void tokens_add(struct tokens *t, int32_t id);
void tokens_append(struct tokens *t, const int32_t *id, size_t n);
void tokens_free(struct tokens *t);

/* Small, fixed-size needs of the program itself: end it cleanly when memory is gone. */
void *xmalloc(size_t n);
void *xcalloc(size_t n, size_t size);
void *xrealloc(void *p, size_t n);
char *xstrndup(const char *s, size_t n);

/* Anything sized by a file, a model or a context length: NULL and *e = ERR_FIT with the byte count. */
void *try_alloc(size_t n, size_t size, const char *what, struct err *e);

/* a * b and a + b, or -1 when they do not fit; *out is written only on success. */
static inline int size_mul(uint64_t a, uint64_t b, uint64_t *out)
{
	uint64_t r;
	return __builtin_mul_overflow(a, b, &r) ? -1 : (*out = r, 0);
}
static inline int size_add(uint64_t a, uint64_t b, uint64_t *out)
{
	uint64_t r;
	return __builtin_add_overflow(a, b, &r) ? -1 : (*out = r, 0);
}

/* Decode one UTF-8 sequence of s[0..n).  Returns its length (1-4) and the code point; for bytes that
 * are not valid UTF-8 (overlong, surrogate, > U+10FFFF, truncated) returns the length of the maximal
 * invalid subpart (>= 1) and *cp = -1.  n must be > 0. */
int utf8_decode(const char *s, size_t n, int32_t *cp);
/* Write cp as UTF-8; returns 1-4. */
int utf8_encode(int32_t cp, char out[4]);
/* Length of the longest prefix of s[0..n) that does not end inside a (so far valid) sequence. */
size_t utf8_complete(const char *s, size_t n);

/* Seconds of the monotonic clock. */
double now_seconds(void);

#endif
