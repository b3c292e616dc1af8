/* kernels/cpu/fns.c - detects which CPU levels (instruction sets that have a table of leaf functions) this machine
 * supports, and picks the best one. The environment variable WEIR_CPU=c|avx2|avx512 (on ARM: c|neon|neon-dot) hides the
 * levels that are faster than the named level, so that every level can be tested. */
#include "kernels/cpu/fns.h"

#include <stdlib.h>
#include <string.h>

#ifdef __aarch64__
#define LEVEL_1 "neon"
#define LEVEL_2 "neon-dot"
#else
#define LEVEL_1 "avx2"
#define LEVEL_2 "avx512"
#endif
const char *const cpu_level_name[CPU_LEVELS] = { "c", LEVEL_1, LEVEL_2 };

#if defined(__x86_64__) && !defined(WEIR_NO_SIMD)
#include <cpuid.h>

/* Use cpuid, because not every compiler accepts "f16c" in __builtin_cpu_supports(). */
static int has_f16c(void)
{
	unsigned a, b, c, d;

	return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

static const struct cpu_fns *level_fns(int level)
{
	static const struct cpu_fns *const fns[] = { &cpu_fns_c, &cpu_fns_avx2, &cpu_fns_avx512 };

	__builtin_cpu_init();
	if (level >= 1 && !(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
	                    __builtin_cpu_supports("bmi2") && has_f16c()))
		return NULL;
	if (level >= 2 && !(__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
	                    __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
	                    __builtin_cpu_supports("avx512vnni")))
		return NULL;
	return fns[level];
}
#elif defined(__aarch64__) && !defined(WEIR_NO_SIMD)
#include <sys/auxv.h>
#include <asm/hwcap.h>

static const struct cpu_fns *level_fns(int level)
{
	static const struct cpu_fns *const fns[] = { &cpu_fns_c, &cpu_fns_neon, &cpu_fns_neon_dot };

	return level == 2 && !(getauxval(AT_HWCAP) & HWCAP_ASIMDDP) ? NULL : fns[level];
}
#else
static const struct cpu_fns *level_fns(int level)
{
	return level == 0 ? &cpu_fns_c : NULL;
}
#endif

static int level_highest(void)
{
	int level = CPU_LEVELS - 1;

	while (level > 0 && !level_fns(level))
		level--;
	return level;
}

/* Return the level (instruction set) to use. If WEIR_CPU has an unknown name, this function hides no level;
 * cpu_backend_open() reports the name as an error. */
static int level_in_use(void)
{
	const char *env = getenv("WEIR_CPU");
	int level = level_highest();

	for (int i = 0; env && i < level; i++)
		if (!strcmp(env, cpu_level_name[i]))
			level = i;
	return level;
}

const struct cpu_fns *cpu_fns_best(void)
{
	return level_fns(level_in_use());
}

const char *backend_cpu_level(void)
{
	static const char *const text[CPU_LEVELS][CPU_LEVELS] = {
		/* [highest][chosen] */
		{ "c (c available)" },
		{ "c (" LEVEL_1 ", c available)", LEVEL_1 " (" LEVEL_1 ", c available)" },
		{ "c (" LEVEL_2 ", " LEVEL_1 ", c available)", LEVEL_1 " (" LEVEL_2 ", " LEVEL_1 ", c available)",
		  LEVEL_2 " (" LEVEL_2 ", " LEVEL_1 ", c available)" },
	};

	return text[level_highest()][level_in_use()];
}
