/* kernels/cpu_fns.c - detects which CPU levels of leaf functions this machine has, and picks the best one.
 *
 * WEIR_CPU=c|avx2|avx512 hides the levels above the named one, so that tests and users can run each level. */
#include "kernels/cpu_fns.h"

#include <stdlib.h>
#include <string.h>

static const char *const level_name[] = { "c", "avx2", "avx512" };
enum { LEVEL_C, LEVEL_AVX2, LEVEL_AVX512, LEVEL_COUNT };

#if defined(__x86_64__) && !defined(WEIR_NO_SIMD)
#include <cpuid.h>

/* By cpuid: not every compiler knows "f16c" in __builtin_cpu_supports(). */
static int has_f16c(void)
{
	unsigned a, b, c, d;

	return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

static const struct cpu_fns *level_fns(int level)
{
	__builtin_cpu_init();
	if (level >= LEVEL_AVX2 && !(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
	                             __builtin_cpu_supports("bmi2") && has_f16c()))
		return NULL;
	if (level >= LEVEL_AVX512 && !(__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
	                               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
	                               __builtin_cpu_supports("avx512vnni")))
		return NULL;
	return level == LEVEL_C ? &cpu_fns_c : level == LEVEL_AVX2 ? cpu_fns_avx2() : cpu_fns_avx512();
}
#else
static const struct cpu_fns *level_fns(int level)
{
	return level == LEVEL_C ? &cpu_fns_c : NULL;
}
#endif

static int level_highest(void)
{
	int level = LEVEL_COUNT - 1;

	while (level > LEVEL_C && !level_fns(level))
		level--;
	return level;
}

/* An unknown name hides nothing here; cpu_backend_open() refuses it. */
static int level_in_use(void)
{
	const char *env = getenv("WEIR_CPU");
	int level = LEVEL_COUNT - 1;

	if (env && *env)
		for (int i = 0; i < LEVEL_COUNT; i++)
			if (!strcmp(env, level_name[i]))
				level = i;
	while (level > LEVEL_C && !level_fns(level))
		level--;
	return level;
}

const struct cpu_fns *cpu_fns_best(void)
{
	return level_fns(level_in_use());
}

const char *backend_cpu_level(void)
{
	static const char *const text[LEVEL_COUNT][LEVEL_COUNT] = {   /* [highest][chosen] */
		{ "c (c available)" },
		{ "c (avx2, c available)", "avx2 (avx2, c available)" },
		{ "c (avx512, avx2, c available)", "avx2 (avx512, avx2, c available)",
		  "avx512 (avx512, avx2, c available)" },
	};

	return text[level_highest()][level_in_use()];
}
