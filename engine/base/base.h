/* engine/base/base.h - errors, byte strings, token lists, allocation, UTF-8 and near words, for every layer above
 * kernels/.
 *
 * A function that can fail returns -1 (or NULL) and fills a struct err with one complete sentence: lower case, no full
 * stop, what failed first, the subject in single quotes, the limit, and the next step where there is one. On success
 * err is unchanged. Nothing here prints or exits, except that small allocations end the program when memory is
 * exhausted (xmalloc()). */
#ifndef WEIR_BASE_H
#define WEIR_BASE_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/macros.h"

enum err_code {
	ERR_NONE,
	ERR_FAIL,      /* none of the following;                       exit code 1 */
	ERR_USAGE,     /* the caller asked for something impossible;   exit code 2 */
	ERR_MODEL,     /* the model file is unusable or unsupported;   exit code 3 */
	ERR_DOCUMENT,  /* a document cannot be read;                   exit code 4 */
	ERR_FIT,       /* memory or the context is too small;          exit code 5 */
	ERR_CANCELLED, /* the user stopped the work;                   exit code 130 */
};

struct err {
	enum err_code code;
	char msg[400];
};

/* Fill *e (may be NULL) and return -1, for `return err_set(...)`. */
int err_set(struct err *e, enum err_code code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Copy as much of s[0..n) as fits into out, NUL-terminated, and return the length. Bytes that are unsafe on a terminal
 * (controls, invalid UTF-8, direction overrides, invisible characters) become \xNN. err_set() escapes every message;
 * callers do so only for text that may contain NUL bytes. */
size_t text_escape(char *out, size_t cap, const char *s, size_t n);

/* Growable bytes. p is NULL until the first addition, then always NUL-terminated. Growth never fails: these buffers are
 * small, and exhausted memory ends the program (xmalloc()). */
struct str {
	char *p;
	size_t n, cap;
};
void str_add(struct str *s, const void *bytes, size_t n);
void str_adds(struct str *s, const char *zero_terminated);
void str_addf(struct str *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Append n bytes as a JSON string in quotes; invalid UTF-8 becomes U+FFFD. */
void str_add_json(struct str *s, const char *text, size_t n);
void str_clear(struct str *s); /* length 0; the memory is kept */
void str_free(struct str *s);
/* The bytes, NUL-terminated; "" before the first addition. */
static inline const char *str_text(const struct str *s)
{
	return s->p ? s->p : "";
}

/* Growable list of token ids. */
struct tokens {
	int32_t *id;
	size_t n, cap;
};
void tokens_add(struct tokens *t, int32_t id);
void tokens_append(struct tokens *t, const int32_t *id, size_t n);
void tokens_free(struct tokens *t);

/* For small allocations of the program itself: when memory is exhausted, the program ends through exit(). */
void *xmalloc(size_t n);
void *xcalloc(size_t n, size_t size);
void *xrealloc(void *p, size_t n);
char *xstrndup(const char *s, size_t n);
/* Make room in list[cap] for one element more than its n. */
#define GROW(list, n, cap)                                                                                             \
	do {                                                                                                           \
		if ((n) == (cap)) {                                                                                    \
			(cap) = (cap) ? 2 * (cap) : 16;                                                                \
			(list) = xrealloc(list, (size_t)(cap) * sizeof *(list));                                       \
		}                                                                                                      \
	} while (0)

/* Zeroed memory for anything sized by a file, a model or a context. NULL and *e = ERR_FIT with the byte count when
 * there is none. */
void *try_alloc(size_t n, size_t size, const char *what, struct err *e);

/* *out = a * b or a + b; -1 on overflow, and *out is unchanged. */
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

/* Decode the first UTF-8 sequence of s[0..n), n > 0. Returns its length (1-4) and the code point; for invalid bytes
 * (overlong, surrogate, > U+10FFFF, truncated) *cp = -1 and the length of the maximal invalid subpart (>= 1). */
int utf8_decode(const char *s, size_t n, int32_t *cp);
/* Write cp as UTF-8, an invalid one as U+FFFD; returns the length (1-4). */
int utf8_encode(int32_t cp, char out[4]);
/* Length of s[0..n) without a sequence at its end that is valid so far but incomplete. */
size_t utf8_complete(const char *s, size_t n);

/* The known word with the smallest edit distance to a typed one, where that is small enough to be a typing mistake. */
struct nearest {
	const char *word;
	size_t len;
	const char *best;
	int dist;
}; /* best: NULL, or the candidate */
void nearest_init(struct nearest *, const char *word, size_t len);
/* 1: the nearest so far. */
int nearest_try(struct nearest *, const char *candidate);

/* A count as people read it, "1,234,567".  count_text(n).s lives until the end of the statement. */
struct count {
	char s[28];
};
struct count count_text(uint64_t n);

/* The next number of splitmix64 (Steele, Lea and Flood 2014), whose whole state is *state: any 64 bits, the same
 * numbers everywhere. */
static inline uint64_t random_next(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

/* The directories of this program by the XDG rules: $XDG_CONFIG_HOME (XDG_STATE_HOME ...) where that is an absolute
 * path, else below the home directory, which is $HOME where that is an absolute path, else what the user database
 * says. */
enum user_dir { DIR_CONFIG, DIR_STATE, DIR_CACHE, DIR_DATA };
/* Append "DIRECTORY/weir/name", or "DIRECTORY/weir" for the name "". -1 and ERR_FAIL where there is no home directory:
 * nothing is appended. */
int user_path(struct str *out, enum user_dir, const char *name, struct err *e);

/* Append the path of a data file that is installed with the program. name: its path below share/weir, "words/nounlist.txt".
 * share/weir is searched for from the folder of the running program: after `make install` it is PREFIX/share/weir, in the
 * source build/share/weir. -1 and ERR_FAIL if the file cannot be read: nothing is appended. */
int data_file(struct str *path, const char *name, struct err *e);

/* A file for what memory has no room for, in the user's cache directory ($XDG_CACHE_HOME/weir), with so many bytes of
 * disk space (0: none yet), all zero. It has no name: nobody can remove it, and it is gone with the process, however
 * that ends. The space is reserved: a full disk, a quota or a limit on files is an error now, and never a signal when a
 * page is touched. what: "the KV cache", for errors. Returns a file descriptor for reading and writing, or -1 with
 * ERR_FAIL, the directory and the reason. */
int scratch_file(const char *what, uint64_t bytes, struct err *);

/* Seconds of the monotonic clock. */
double now_seconds(void);

/* A 64-bit hash that finds accidental damage; an attacker can forge it. */
uint64_t hash64(uint64_t seed, const void *p, size_t n);

#endif
