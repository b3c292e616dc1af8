/* kernels/cpu/fns.c - detects which CPU levels (instruction sets that have a table of leaf functions) this machine
 * supports, and selects the best level. The environment variable WEIR_CPU=c|avx2|avx512|amx (on ARM: c|neon|neon-dot)
 * hides the levels that are faster than the named level, so that every level can be tested. */
#include "kernels/cpu/fns.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __aarch64__
const char *const cpu_level_name[] = { "c", "neon", "neon-dot" };
const char cpu_level_names[] = "c, neon or neon-dot";
#else
const char *const cpu_level_name[] = { "c", "avx2", "avx512", "amx" };
const char cpu_level_names[] = "c, avx2, avx512 or amx";
#endif

/* Return the level named by WEIR_CPU, or the last level if WEIR_CPU is not set. An unknown name counts as the last
 * level, because cpu_backend_open() reports it as an error. */
static int level_named(void)
{
	const char *env = getenv("WEIR_CPU");
	int level = CPU_LEVELS - 1;

	for (int i = 0; env && i < level; i++)
		if (!strcmp(env, cpu_level_name[i]))
			level = i;
	return level;
}

#if defined(__x86_64__) && !defined(WEIR_NO_SIMD)
#include <cpuid.h>

#include "kernels/cpu/amx.h"

enum { LEVEL_AVX512 = 2, LEVEL_AMX = 3 };

/* Use cpuid, because not every compiler accepts "f16c" in __builtin_cpu_supports(). */
static int has_f16c(void)
{
	unsigned a, b, c, d;

	return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

/* Return the functions of a level below amx, or NULL if the processor does not have the level's instructions. */
static const struct cpu_fns *vector_fns(int level)
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

/* Return the functions of the level amx, or NULL with the reason in *why. If WEIR_CPU is a lower level, the system is
 * not asked for AMX, and AMX is not checked. */
static const struct cpu_fns *amx_fns(const char **why)
{
	static const char *const hidden[] = { "WEIR_CPU=c turns it off", "WEIR_CPU=avx2 turns it off",
		                              "WEIR_CPU=avx512 turns it off" };

	if (level_named() < LEVEL_AMX)
		*why = hidden[level_named()];
	else if (!vector_fns(LEVEL_AVX512))
		*why = "the processor has no AVX-512, which weir needs beside it";
	else
		return cpu_fns_amx(why);
	return NULL;
}

static const struct cpu_fns *level_fns(int level)
{
	const char *why;

	return level == LEVEL_AMX ? amx_fns(&why) : vector_fns(level);
}

const char *backend_amx(void)
{
	static __thread char text[160];
	const char *why;

	if (amx_fns(&why))
		return "yes";
	snprintf(text, sizeof text, "no, because %s", why);
	return text;
}
#elif defined(__aarch64__) && !defined(WEIR_NO_SIMD)
#include "kernels/os.h"

static const struct cpu_fns *level_fns(int level)
{
	static const struct cpu_fns *const fns[] = { &cpu_fns_c, &cpu_fns_neon, &cpu_fns_neon_dot };

	return level == 2 && !os_arm_dot() ? NULL : fns[level];
}
#else
static const struct cpu_fns *level_fns(int level)
{
	return level == 0 ? &cpu_fns_c : NULL;
}
#endif

#if !defined(__x86_64__) || defined(WEIR_NO_SIMD)
const char *backend_amx(void)
{
	return NULL;
}
#endif

static int level_highest(void)
{
	int level = CPU_LEVELS - 1;

	while (level > 0 && !level_fns(level))
		level--;
	return level;
}

static int level_in_use(void)
{
	return MIN(level_named(), level_highest());
}

const struct cpu_fns *cpu_fns_best(void)
{
	return level_fns(level_in_use());
}

const char *backend_cpu_level(void)
{
	static __thread char text[64];
	int n = snprintf(text, sizeof text, "%s (", cpu_level_name[level_in_use()]);

	for (int l = level_highest(); l >= 0; l--)
		n += snprintf(text + n, sizeof text - (size_t)n, "%s%s", cpu_level_name[l], l ? ", " : " available)");
	return text;
}
