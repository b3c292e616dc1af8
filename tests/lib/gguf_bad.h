/* tests/lib/gguf_bad.h - for the GGUF tests: checks that a file is refused properly, or accepted and readable.
 *
 * A bad file must be refused as ERR_MODEL with one printable line that names the byte and the field. Files are
 * copied into blocks of exactly their size, so that a sanitizer sees every read past the end, and the parser's
 * allocations are counted. For one source file per program: it may replace malloc(). */
#ifndef WEIR_GGUF_BAD_H
#define WEIR_GGUF_BAD_H

#include "engine/gguf/gguf.h"
#include "tests/lib/mkgguf.h"
#include "tests/lib/test.h"
#include "tests/lib/walk_gguf.h"

#include <stdlib.h>

static int n_refused; /* number of refused files so far */

/* ---- counting what is allocated ---- */

static size_t alloc_sum, alloc_calls;

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HAVE_ALLOC_HOOKS
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HAVE_ALLOC_HOOKS
#endif

#ifdef HAVE_ALLOC_HOOKS
int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void *, size_t),
                                              void (*on_free)(const volatile void *));
static void on_malloc(const volatile void *p, size_t n)
{
	alloc_sum += n;
	alloc_calls++;
}
static void on_free(const volatile void *p)
{
}
__attribute__((constructor)) static void count_allocations(void)
{
	__sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
}
#elif defined(__GLIBC__)
/* These definitions replace the C library's for all callers. */
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *malloc(size_t n)
{
	alloc_sum += n;
	alloc_calls++;
	return __libc_malloc(n);
}
void *calloc(size_t n, size_t size)
{
	alloc_sum += n * size;
	alloc_calls++;
	return __libc_calloc(n, size);
}
void *realloc(void *p, size_t n)
{
	alloc_sum += n;
	alloc_calls++;
	return __libc_realloc(p, n);
}
#endif

/* The bound is 8 bytes per byte of the file: a metadata record of 14 bytes becomes 72 bytes of table, 8 of index, and 8
 * while sorting. */
static inline int allocated_too_much(size_t file_size)
{
	return alloc_sum > 4096 + 8 * file_size;
}

/* ---- parsing ---- */

/* Parse a copy of exactly n bytes. If that succeeds, read all of it. */
static inline int parse_copy(const void *bytes, size_t n, struct err *e)
{
	char *exact = malloc(n ? n : 1);
	struct gguf *g = NULL;
	int rc;

	memcpy(exact, bytes, n);
	alloc_sum = 0;
	rc = gguf_parse(&g, "test.gguf", exact, n, e);
	CHECK_MSG(!allocated_too_much(n), "%zu bytes allocated for a file of %zu", alloc_sum, n);
	if (!rc)
		walk_gguf(g);
	else
		CHECK(g == NULL);
	gguf_close(g);
	free(exact);
	return rc;
}

static inline void check_message(const struct err *e, const char *field)
{
	const char *p = e->msg, *digits;

	CHECK_INT(e->code, ERR_MODEL);
	CHECK_MSG(!strncmp(p, "file '", 6), "no file in: %s", p);
	CHECK_MSG(strstr(p, field) != NULL, "no \"%s\" in: %s", field, p);
	digits = strstr(p, "': byte ");
	CHECK_MSG(digits && digits[8] >= '0' && digits[8] <= '9', "no byte in: %s", p);
	CHECK_MSG(strlen(p) < 380, "too long: %s", p);
	CHECK_MSG(*p && p[strlen(p) - 1] != '.', "full stop: %s", p);
	for (; *p; p++)
		CHECK_MSG((unsigned char)*p >= 0x20 && (unsigned char)*p < 0x7f, "unprintable byte %02x",
		          (unsigned char)*p);
}

/* Check that the file is refused with an error that contains `field`, and free it. */
static inline void refused(struct str *file, const char *field)
{
	struct err e = { 0 };
	if (!parse_copy(file->n ? file->p : "", file->n, &e))
		test_fail(__FILE__, __LINE__, "case %d (%s) was accepted", n_refused, field);
	else
		check_message(&e, field);
	if (getenv("WEIR_TEST_SHOW"))
		test_note("%s", e.msg);
	n_refused++;
	str_free(file);
}

static inline void accepted(struct str *file)
{
	struct err e = { 0 };
	CHECK_MSG(!parse_copy(file->n ? file->p : "", file->n, &e), "refused: %s", e.msg);
	str_free(file);
}

/* Append bytes after a hostile record. Otherwise the file might be refused only because it is too short. */
static inline void put_room(struct str *f)
{
	put_zeros(f, 4096);
}

/* Make a small complete file with every type of value and three tensors. */
static inline void make_good(struct str *out)
{
	struct mk m = { 0 };
	float w[64];

	for (int i = 0; i < 64; i++)
		w[i] = (float)i / 8;
	mk_string(&m, "general.architecture", "llama");
	mk_u32(&m, "general.alignment", 32);
	mk_key(&m, "t.u8", GGUF_U8);
	put_u8(&m.kv, 200);
	mk_key(&m, "t.i8", GGUF_I8);
	put_u8(&m.kv, 200);
	mk_key(&m, "t.u16", GGUF_U16);
	put_u16(&m.kv, 60000);
	mk_key(&m, "t.i16", GGUF_I16);
	put_u16(&m.kv, 60000);
	mk_key(&m, "t.u32", GGUF_U32);
	put_u32(&m.kv, 4000000000u);
	mk_key(&m, "t.i32", GGUF_I32);
	put_u32(&m.kv, 4000000000u);
	mk_key(&m, "t.u64", GGUF_U64);
	put_u64(&m.kv, UINT64_MAX);
	mk_key(&m, "t.i64", GGUF_I64);
	put_u64(&m.kv, UINT64_MAX);
	mk_f32(&m, "t.f32", 1.5f);
	mk_key(&m, "t.f64", GGUF_F64);
	put_f64(&m.kv, -2.25);
	mk_bool(&m, "t.yes", 1);
	mk_bool(&m, "t.no", 0);
	mk_string(&m, "t.string", "a few words");
	mk_string(&m, "t.empty", "");
	mk_array(&m, "t.strings", GGUF_STRING, 3);
	put_string(&m.kv, "one");
	put_string(&m.kv, "");
	put_bytes(&m.kv, "\0\xff", 2);
	mk_array(&m, "t.i32s", GGUF_I32, 2);
	put_u32(&m.kv, 7);
	put_u32(&m.kv, (uint64_t)-7);
	mk_array(&m, "t.bools", GGUF_BOOL, 2);
	put_u16(&m.kv, 0x0001);
	mk_array(&m, "t.none", GGUF_F32, 0);
	mk_tensor(&m, "a.weight", 2, (int64_t[]){ 32, 2 }, 0, w, sizeof w);
	mk_tensor(&m, "b.weight", 1, (int64_t[]){ 3 }, 0, w, 12);
	mk_tensor(&m, "c.weight", 2, (int64_t[]){ 32, 3 }, 8, NULL, 34 * 3);
	mk_finish(&m, out);
}

#endif
