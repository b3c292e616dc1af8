/* tests/lib/test.h - what a test file needs: TEST, CHECK..., SKIP. runner.c has main().
 *
 * Each tests/ROOM/t_NAME.c is one program, linked with the libraries. It runs its tests in order, or those whose
 * name contains an argument, prints failures with file and line, and ends with "N passed, M failed, K skipped". */
#ifndef WEIR_TEST_H
#define WEIR_TEST_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void test_add(const char *name, void (*fn)(void));
void test_fail(const char *file, int line, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void test_skip(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
int test_failures(void); /* of this test so far: for one that goes on in a child process */
void test_note(const char *fmt, ...) __attribute__((format(printf, 1, 2))); /* a figure worth printing */

#define TEST(name)                                                                                                     \
	static void test_##name(void);                                                                                 \
	__attribute__((constructor)) static void add_##name(void)                                                      \
	{                                                                                                              \
		test_add(#name, test_##name);                                                                          \
	}                                                                                                              \
	static void test_##name(void)

/* A test that takes minutes: there is one only where WEIR_SOAK is set (`make soak`). */
#define SOAK_TEST(name)                                                                                                \
	static void test_##name(void);                                                                                 \
	__attribute__((constructor)) static void add_##name(void)                                                      \
	{                                                                                                              \
		if (getenv("WEIR_SOAK"))                                                                               \
			test_add(#name, test_##name);                                                                  \
	}                                                                                                              \
	static void test_##name(void)

#define CHECK(cond)                                                                                                    \
	do {                                                                                                           \
		if (!(cond))                                                                                           \
			test_fail(__FILE__, __LINE__, "%s", #cond);                                                    \
	} while (0)
#define CHECK_MSG(cond, ...)                                                                                           \
	do {                                                                                                           \
		if (!(cond))                                                                                           \
			test_fail(__FILE__, __LINE__, __VA_ARGS__);                                                    \
	} while (0)
#define CHECK_INT(a, b)                                                                                                \
	do {                                                                                                           \
		long long a_ = (long long)(a), b_ = (long long)(b);                                                    \
		if (a_ != b_)                                                                                          \
			test_fail(__FILE__, __LINE__, "%s is %lld, expected %lld", #a, a_, b_);                        \
	} while (0)
#define CHECK_STR(a, b)                                                                                                \
	do {                                                                                                           \
		const char *a_ = (a), *b_ = (b);                                                                       \
		if (strcmp(a_, b_))                                                                                    \
			test_fail(__FILE__, __LINE__, "%s is \"%s\", expected \"%s\"", #a, a_, b_);                    \
	} while (0)
#define SKIP(...) test_skip(__VA_ARGS__)

/* Path of a file of the reference data ($WEIR_SHARED, default ../shared): "data/models/x.gguf".  Skips the test
 * where it is absent.  Static buffer, four calls deep. */
const char *test_shared(const char *rel);
/* Path of a committed file, from the top of the checkout ($WEIR_TOP, default "."): "tests/vectors/x". */
const char *test_file(const char *rel);
/* Path of a file in an archive tests/vectors/NAME.tar.xz, which is unpacked until the program ends:
 * test_unpacked("NAME", "x"). Skips the test where there is no xz. Static buffer, four calls deep. */
const char *test_unpacked(const char *archive, const char *rel);
/* The default model's path ($WEIR_TEST_MODEL or the user's cache); skips the test where it is absent. */
const char *test_model(void);
/* Factor on every bound of time: 1, or 20 where the build is slow (a sanitizer). Bounds tell linear from quadratic, not
 * fast from slow. */
double test_patience(void);
/* Rounds of a random comparison: n, or every WEIR_TEST_FEWER-th of them where that is set (an emulated processor). */
int test_rounds(int n);
/* Seconds of processor time that this process has taken, all threads together: what other programs disturb least. */
double cpu_seconds(void);
/* The whole file, NUL-terminated, or NULL; the caller frees. */
char *test_read(const char *path, size_t *n);
/* Deterministic random numbers, seeded per test. */
uint64_t test_rand(void);
float test_randf(float lo, float hi);
/* sum (a-b)^2 / sum b^2, in double. */
double test_nmse(const float *a, const float *b, size_t n);

#endif
