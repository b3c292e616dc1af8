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
int test_failures(void); /* failed checks of this test so far; for tests that continue in a child process */
/* print a figure, such as a measured time */
void test_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#define TEST(name)                                                                                                     \
	static void test_##name(void);                                                                                 \
	__attribute__((constructor)) static void add_##name(void)                                                      \
	{                                                                                                              \
		test_add(#name, test_##name);                                                                          \
	}                                                                                                              \
	static void test_##name(void)

/* A test that takes minutes; it exists only if WEIR_SOAK is set (`make soak`). */
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

/* Return the path of a file of the reference data ($WEIR_SHARED, default ../shared), such as "data/models/x.gguf".
 * Skips the test if the file does not exist. The path is in a static buffer and stays valid for four calls. */
const char *test_shared(const char *rel);
/* Return the path of a committed file, given from the top of the checkout ($WEIR_TOP, default "."), such as
 * "tests/vectors/x". */
const char *test_file(const char *rel);
/* Return the path of a file in the archive tests/vectors/NAME.tar.xz, which is unpacked until the program ends:
 * test_unpacked("NAME", "x"). Skips the test if xz is not installed. The path is in a static buffer and stays valid for
 * four calls. */
const char *test_unpacked(const char *archive, const char *rel);
/* Return the path of the default model ($WEIR_TEST_MODEL, else the model in the user's cache). Skips the test if the
 * file does not exist. */
const char *test_model(void);
/* Return the factor on every time limit: 1, or 20 for a slow build (a sanitizer). Limits distinguish linear from
 * quadratic time, not fast from slow code. */
double test_patience(void);
/* Return the rounds of a random comparison: n, or n / WEIR_TEST_FEWER if that is set (for an emulated processor). */
int test_rounds(int n);
/* Return the processor time of this process in seconds, all threads together. Other programs disturb it less than wall
 * time. */
double cpu_seconds(void);
/* Return the whole file, NUL-terminated, which the caller frees; or NULL. */
char *test_read(const char *path, size_t *n);
/* Return pseudo-random numbers, the same in every run of a test. */
uint64_t test_rand(void);
float test_randf(float lo, float hi);
/* Return sum (a - b)^2 / sum b^2, computed in double. */
double test_nmse(const float *a, const float *b, size_t n);

#endif
