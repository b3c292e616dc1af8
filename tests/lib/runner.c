/* tests/lib/runner.c - main() of every test program: runs the tests in order, prints what failed and why. */
#include "tests/lib/test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "kernels/macros.h"

/* The second process that parses documents (sessions/import/import.h); weak, because only programs that import
 * documents have it. */
int doc_helper(int argc, char **argv) __attribute__((weak));

static struct {
	const char *name;
	void (*fn)(void);
} test[512];
static int n_test, fails_here;
static jmp_buf leave;
static char skip_reason[256];
static uint64_t rng;

void test_add(const char *name, void (*fn)(void))
{
	if (n_test == (int)LEN(test))
		abort();
	test[n_test].name = name;
	test[n_test++].fn = fn;
}

void test_fail(const char *file, int line, const char *fmt, ...)
{
	va_list ap;
	/* Print at most 20 failures per test, so that a loop does not print a million lines. */
	if (++fails_here > 20)
		return;
	fprintf(stderr, "    %s:%d: ", file, line);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
}

int test_failures(void)
{
	return fails_here;
}

void test_skip(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(skip_reason, sizeof skip_reason, fmt, ap);
	va_end(ap);
	longjmp(leave, 1);
}

void test_note(const char *fmt, ...)
{
	va_list ap;
	printf("    ");
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
}

const char *test_shared(const char *rel)
{
	static char path[4][1024];
	static int turn;
	const char *top = getenv("WEIR_SHARED");
	char *p = path[turn++ & 3];
	struct stat st;

	snprintf(p, sizeof path[0], "%s/%s", top ? top : "../shared", rel);
	if (stat(p, &st))
		test_skip("reference file %s is not there", p);
	return p;
}

const char *test_file(const char *rel)
{
	static char path[4][1024];
	static int turn;
	const char *top = getenv("WEIR_TOP");
	char *p = path[turn++ & 3];

	snprintf(p, sizeof path[0], "%s/%s", top ? top : ".", rel);
	return p;
}

static char unpacked[64];
static pid_t unpacked_by;

static void remove_unpacked(void)
{
	char command[100];

	snprintf(command, sizeof command, "rm -rf '%s'", unpacked);
	if (getpid() == unpacked_by && system(command))
		fprintf(stderr, "cannot remove '%s'\n", unpacked);
}

const char *test_unpacked(const char *archive, const char *rel)
{
	static char path[4][1024];
	static int turn;
	char *p = path[turn++ & 3], command[1400], name[200];
	struct stat st;

	if (!*unpacked) {
		snprintf(unpacked, sizeof unpacked, "/tmp/weir-unpacked-XXXXXX");
		if (!mkdtemp(unpacked)) {
			*unpacked = 0;
			test_skip("no directory can be made in /tmp");
		}
		unpacked_by = getpid();
		atexit(remove_unpacked);
	}
	snprintf(p, sizeof path[0], "%s/%s", unpacked, archive);
	if (stat(p, &st)) {
		snprintf(name, sizeof name, "tests/vectors/%s.tar.xz", archive);
		snprintf(command, sizeof command, "xz -dc '%s' | tar -xf - -C '%s'", test_file(name), unpacked);
		if (system(command) || stat(p, &st))
			test_skip("'%s' cannot be unpacked: is xz installed?", name);
	}
	snprintf(p, sizeof path[0], "%s/%s/%s", unpacked, archive, rel);
	return p;
}

static char model_path[1024];

/* Find the default model, before any test changes the environment. */
static void find_model(void)
{
	const char *own = getenv("WEIR_TEST_MODEL"), *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");

	if (own)
		snprintf(model_path, sizeof model_path, "%s", own);
	else if (cache && *cache)
		snprintf(model_path, sizeof model_path, "%s/weir/models/SmolLM2-135M-Instruct.Q4_1.gguf", cache);
	else
		snprintf(model_path, sizeof model_path, "%s/.cache/weir/models/SmolLM2-135M-Instruct.Q4_1.gguf",
		         home ? home : "");
}

const char *test_model(void)
{
	struct stat st;

	if (stat(model_path, &st))
		test_skip("the default model is not at %s (make model fetches it)", model_path);
	return model_path;
}

double cpu_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

double test_patience(void)
{
	return getenv("WEIR_TEST_SLOW_BUILD") ? 20 : 1;
}

int test_rounds(int n)
{
	const char *fewer = getenv("WEIR_TEST_FEWER");
	int part = fewer ? (int)strtol(fewer, NULL, 10) : 1;

	return part > 1 ? (n + part - 1) / part : n;
}

char *test_read(const char *path, size_t *n)
{
	FILE *f = fopen(path, "rb");
	char *buf = NULL;
	size_t len = 0, cap = 0, got;

	if (!f)
		return NULL;
	do {
		if (cap - len < 65537)
			buf = realloc(buf, cap = cap * 2 + 65537);
		got = fread(buf + len, 1, cap - len - 1, f);
		len += got;
	} while (got);
	fclose(f);
	buf[len] = 0;
	if (n)
		*n = len;
	return buf;
}

uint64_t test_rand(void)
{
	uint64_t z = (rng += 0x9e3779b97f4a7c15u); /* splitmix64 */
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

float test_randf(float lo, float hi)
{
	return lo + (hi - lo) * (float)((double)(test_rand() >> 11) / 9007199254740992.0);
}

double test_nmse(const float *a, const float *b, size_t n)
{
	double num = 0, den = 0;
	for (size_t i = 0; i < n; i++) {
		double d = (double)a[i] - b[i];
		num += d * d;
		den += (double)b[i] * b[i];
	}
	return den > 0 ? num / den : num;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
	static double start;
	static int passed, failed, skipped; /* static, so that longjmp() does not restore old values */
	int helper = doc_helper ? doc_helper(argc, argv) : -1;

	if (helper >= 0)
		return helper;
	/* off by default, because encoding takes seconds; tests of the encoder switch it on */
	setenv("WEIR_ENCODER", "off", 0);
	/* Refuse unknown options. A test may start its own program again with an option, as a helper process. If main()
	 * does not handle the option, the tests would run again, endlessly. */
	if (argc > 1 && argv[1][0] == '-' && strcmp(argv[1], "--list")) {
		fprintf(stderr, "unknown option '%s': --list, or parts of the names of tests\n", argv[1]);
		return 2;
	}
	find_model();
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc > 1 && !strcmp(argv[1], "--list")) {
		for (int i = 0; i < n_test; i++)
			puts(test[i].name);
		return 0;
	}
	for (int i = 0; i < n_test; i++) {
		int wanted = argc < 2;
		for (int a = 1; a < argc; a++)
			wanted |= strstr(test[i].name, argv[a]) != NULL;
		if (!wanted)
			continue;
		fails_here = 0;
		rng = 0x5eed0000u + (uint64_t)i;
		if (setjmp(leave)) {
			printf("  skip  %s: %s\n", test[i].name, skip_reason);
			skipped++;
			continue;
		}
		start = now();
		test[i].fn();
		if (fails_here > 20)
			fprintf(stderr, "    ... and %d more\n", fails_here - 20);
		if (!fails_here && now() - start >= 0.5)
			/* tests/run.sh reads the seconds, to list the slowest tests */
			printf("  ok    %s (%.1f s)\n", test[i].name, now() - start);
		else
			printf("  %s  %s\n", fails_here ? "FAIL" : "ok  ", test[i].name);
		*(fails_here ? &failed : &passed) += 1;
	}
	printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
	return failed != 0;
}
