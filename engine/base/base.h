/* engine/base/base.h - what every layer above kernels/ uses: errors, byte strings, token lists, allocation, UTF-8, and
 * the search for the word that a user mistyped.
 *
 * A function that can fail returns -1 (or NULL) and fills a struct err; on success err is unchanged. The message is one
 * sentence in lower case without a full stop. It names what failed, the subject in single quotes, the limit, and what
 * the user can do.
 *
 * Functions here do not print, with one exception: if memory is exhausted, xmalloc() and the functions that allocate
 * with it print a message and end the program. */
#ifndef WEIR_BASE_H
#define WEIR_BASE_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/macros.h"

enum err_code {
	ERR_NONE,
	ERR_FAIL,      /* any other failure;                           exit code 1 */
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

/* Fill *e and return -1, so that a caller can write `return err_set(...)`. `e` may be NULL. */
int err_set(struct err *e, enum err_code code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Copy as much of s[0..n) as fits into out[cap], add a NUL, and return the length without the NUL. Bytes that are
 * unsafe on a terminal (controls, invalid UTF-8, direction overrides, invisible characters) become \xNN. err_set()
 * escapes its whole message, so its arguments need text_escape() only if they may contain NUL bytes. */
size_t text_escape(char *out, size_t cap, const char *s, size_t n);

/* A growing byte string. Member p is NULL until the first addition, and NUL-terminated afterwards. If memory is
 * exhausted, an addition ends the program, as xmalloc() does. */
struct str {
	char *p;
	size_t n, cap;
};
void str_add(struct str *s, const void *bytes, size_t n);
void str_adds(struct str *s, const char *zero_terminated);
void str_addf(struct str *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Append text[0..n) as a JSON string with its quotes. Invalid UTF-8 becomes U+FFFD. */
void str_add_json(struct str *s, const char *text, size_t n);
void str_clear(struct str *s); /* set the length to 0 and keep the memory */
void str_free(struct str *s);
/* Return the string's bytes, NUL-terminated; "" if nothing was added yet. */
static inline const char *str_text(const struct str *s)
{
	return s->p ? s->p : "";
}

/* A growing list of token ids. */
struct tokens {
	int32_t *id;
	size_t n, cap;
};
void tokens_add(struct tokens *t, int32_t id);
void tokens_append(struct tokens *t, const int32_t *id, size_t n);
void tokens_free(struct tokens *t);

/* Allocate n bytes. If memory is exhausted, end the program with exit(). Use it only for sizes that do not depend on
 * input. */
void *xmalloc(size_t n);
void *xcalloc(size_t n, size_t size);
void *xrealloc(void *p, size_t n);
char *xstrndup(const char *s, size_t n);
/* Make room for one more element in `list`, which has n elements and room for cap. A full list doubles its capacity (16
 * at first). */
#define GROW(list, n, cap)                                                                                             \
	do {                                                                                                           \
		if ((n) == (cap)) {                                                                                    \
			(cap) = (cap) ? 2 * (cap) : 16;                                                                \
			(list) = xrealloc(list, (size_t)(cap) * sizeof *(list));                                       \
		}                                                                                                      \
	} while (0)

/* Allocate n * size zeroed bytes, which the caller releases with free(). Use it for sizes that depend on a file, a
 * model or a context. If memory is exhausted, return NULL with an ERR_FIT. `what` says in the error what the memory was
 * for. */
void *try_alloc(size_t n, size_t size, const char *what, struct err *e);

/* Set *out to the product (size_mul) or the sum (size_add) of a and b, and return 0. On overflow return -1 and leave
 * *out unchanged. */
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

/* Decode the first UTF-8 sequence of s[0..n), n > 0. Set *cp to the code point and return the sequence's length (1-4).
 * If the sequence is invalid (overlong, surrogate, > U+10FFFF, truncated), set *cp = -1 and return the number of bytes
 * to skip: all bytes before the first wrong one, but at least 1. */
int utf8_decode(const char *s, size_t n, int32_t *cp);
/* Return the code point of the character that ends directly before s[end]; `begin` must be less than `end`. Set *from
 * to the offset of the character's first byte. If no valid character ends there, set *from to end - 1 and return -1. */
int32_t utf8_before(const char *s, size_t begin, size_t end, size_t *from);
/* Write cp as UTF-8 and return the length (1-4). An invalid cp is written as U+FFFD. */
int utf8_encode(int32_t cp, char out[4]);
/* Return n minus the number of bytes of an incomplete UTF-8 character at the end of s[0..n). Invalid bytes at the end
 * are not subtracted. */
size_t utf8_complete(const char *s, size_t n);

/* A search for the word that the user meant. It is the candidate with the smallest edit distance to the mistyped word.
 * Candidates that differ by too many letters for a typing mistake are ignored. */
struct nearest {
	const char *word; /* the mistyped word */
	size_t len;       /* length of `word` in bytes */
	const char *best; /* the nearest candidate so far; NULL = none was near enough */
	int dist;         /* to become `best`, a candidate must have a smaller edit distance than this */
};
void nearest_init(struct nearest *, const char *word, size_t len);
/* Compare the candidate with the mistyped word. If it is nearer than all earlier candidates, make it `best` and return
 * 1; otherwise return 0. */
int nearest_try(struct nearest *, const char *candidate);

/* Format n with commas: "1,234,567". The returned struct is a temporary: use count_text(n).s within the same
 * statement. */
struct count {
	char s[28];
};
struct count count_text(uint64_t n);

/* Return the next number of the generator splitmix64 (Steele, Lea and Flood 2014) and advance *state. The seed may be
 * any 64 bits. Equal seeds give equal numbers on every machine. */
static inline uint64_t random_next(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

/* The user's XDG base directories: $XDG_CONFIG_HOME, $XDG_STATE_HOME and so on. If a variable is unset or is not an
 * absolute path, the default below the home directory is used, such as ~/.config. The home directory is $HOME. If $HOME
 * is not an absolute path, the home directory comes from the user database. */
enum user_dir { DIR_CONFIG, DIR_STATE, DIR_CACHE, DIR_DATA };
/* Append "DIRECTORY/weir/name", or "DIRECTORY/weir" if name is "". If the user has no home directory, append nothing
 * and return -1 with ERR_FAIL. */
int user_path(struct str *out, enum user_dir, const char *name, struct err *e);

/* Append the path of a data file that is installed with the program. `name` is its path below share/weir, such as
 * "words/nounlist.txt". share/weir is found from the running program's folder: PREFIX/share/weir after `make
 * install`, build/share/weir in the source tree. If the file cannot be read, append nothing and return -1 with
 * ERR_FAIL. */
int data_file(struct str *path, const char *name, struct err *e);

/* Create a nameless temporary file in $XDG_CACHE_HOME/weir and return its file descriptor, open for reading and
 * writing. The kernel deletes the file when its last descriptor is closed. Reserve `bytes` of disk space for the file,
 * which read as zeros (0 = reserve nothing). A full disk, a quota or RLIMIT_FSIZE then causes an error here, instead of
 * a SIGBUS when a mapped page is used. `what` ("the KV cache") names the file in errors. On failure return -1 with
 * ERR_FAIL, the directory and the reason. */
int scratch_file(const char *what, uint64_t bytes, struct err *);

/* Return the time of the monotonic clock in seconds. */
double now_seconds(void);

/* Return a 64-bit checksum of p[0..n), which detects accidental damage. It does not detect forgeries. */
uint64_t hash64(uint64_t seed, const void *p, size_t n);

#endif
