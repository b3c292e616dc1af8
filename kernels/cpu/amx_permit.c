/* kernels/cpu/amx_permit.c - asks for permission to use AMX. The function has a file of its own, so that a test that
 * emulates AMX can link another function in its place. */
#include "kernels/cpu/amx.h"

#if defined(__x86_64__) && defined(__linux__) && !defined(WEIR_NO_SIMD)
#include <cpuid.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Bits of cpuid leaf 7 (EDX) and of XCR0, and arguments of arch_prctl(). Older headers have no names for them. */
enum {
	HAS_TILE = 1 << 24,
	HAS_INT8 = 1 << 25,
	SAVES_TILES = 3 << 17, /* XCR0: configuration and data of the tile registers */
	REQUEST_PERMISSION = 0x1023,
	TILE_DATA = 18,
};

/* Return the low half of XCR0, whose bits stand for the registers that the system saves when it switches threads. */
static unsigned saved_registers(void)
{
	unsigned low, high;

	__asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	return low;
}

const char *amx_permit(void)
{
	static char refused[96];
	unsigned a, b, c, d;

	if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & (HAS_TILE | HAS_INT8)) != (HAS_TILE | HAS_INT8))
		return "this processor has no AMX";
	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE) || (saved_registers() & SAVES_TILES) != SAVES_TILES)
		return "the system does not save the registers of AMX";
	if (!syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA))
		return NULL;
	snprintf(refused, sizeof refused, "the system refuses permission: %s", strerror(errno));
	return refused;
}
#else
const char *amx_permit(void)
{
	return "this processor has no AMX";
}
#endif
