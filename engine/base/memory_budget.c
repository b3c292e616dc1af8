/* engine/base/memory_budget.c - how much memory can be allocated; used before large allocations.
 *
 * Linux overcommits: malloc() succeeds, and the OOM killer ends the program later, when it touches the pages. So the
 * free host memory is computed from /proc, the control group and the rlimits. A device's backend reports the device's
 * free memory. */
#include "engine/base/memory_budget.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "kernels/os.h"

#define CGROUP_V1 "/sys/fs/cgroup/memory/"
#define CGROUP_V2 "/sys/fs/cgroup/"

/* Return a number from a file. If `key` is NULL, it is the number at the start of the file; otherwise it is the number
 * after `key` in the first line that begins with `key`. Return UINT64_MAX if the number is missing, or is the word
 * "max" (no limit). */
static uint64_t read_number(const char *path, const char *key)
{
	FILE *f = fopen(path, "re");
	char line[128], *end;
	uint64_t v = UINT64_MAX;
	size_t n = key ? strlen(key) : 0;

	if (!f)
		return UINT64_MAX;
	while (fgets(line, sizeof line, f)) {
		if (n && strncmp(line, key, n))
			continue;
		v = strtoull(line + n, &end, 10);
		if (end == line + n)
			v = UINT64_MAX;
		break;
	}
	fclose(f);
	return v;
}

static uint64_t meminfo_available(void)
{
	uint64_t kib = read_number("/proc/meminfo", "MemAvailable:");

	if (kib < UINT64_MAX / 1024)
		return kib * 1024;
	/* without /proc, the size of the reclaimable page cache is unknown, so count only free memory and buffers */
	return os_memory_free();
}

/* Return limit - used, or 0 if `used` is larger than `limit` or unknown (UINT64_MAX). If there is no limit, return
 * UINT64_MAX. */
static uint64_t left_of(uint64_t limit, uint64_t used)
{
	/* control groups of version 1 write "no limit" as a very large number */
	if (limit >= (uint64_t)INT64_MAX / 4096 * 4096)
		return UINT64_MAX;
	return used == UINT64_MAX || used >= limit ? 0 : limit - used;
}

/* Return the bytes of page cache that a memory.stat file reports. The control group counts page cache (such as a mapped
 * model file) as used, but the kernel reclaims it on demand. `inactive` and `active` are the two keys in the file whose
 * values are added. */
static uint64_t page_cache(const char *stat, const char *inactive, const char *active)
{
	uint64_t a = read_number(stat, inactive), b = read_number(stat, active);
	return (a == UINT64_MAX ? 0 : a) + (b == UINT64_MAX ? 0 : b);
}

/* Return the free memory of the root control group (v1 or v2), which is limit - (used memory - page cache). In a
 * container the root is the container's own group. */
static uint64_t cgroup_available(void)
{
	uint64_t v2_cache = page_cache(CGROUP_V2 "memory.stat", "inactive_file ", "active_file ");
	uint64_t v1_cache = page_cache(CGROUP_V1 "memory.stat", "total_inactive_file ", "total_active_file ");
	uint64_t v2 = left_of(read_number(CGROUP_V2 "memory.max", NULL),
	                      left_of(read_number(CGROUP_V2 "memory.current", NULL), v2_cache));
	uint64_t v1 = left_of(read_number(CGROUP_V1 "memory.limit_in_bytes", NULL),
	                      left_of(read_number(CGROUP_V1 "memory.usage_in_bytes", NULL), v1_cache));

	return MIN(v2, v1);
}

static uint64_t rlimit_available(void)
{
	struct rlimit r;
	uint64_t pages;

	if (getrlimit(RLIMIT_AS, &r) || r.rlim_cur == RLIM_INFINITY)
		return UINT64_MAX;
	pages = read_number("/proc/self/statm", NULL);
	return left_of(r.rlim_cur, pages == UINT64_MAX ? 0 : pages * (uint64_t)sysconf(_SC_PAGESIZE));
}

uint64_t memory_available(void)
{
	uint64_t free_bytes = meminfo_available(), group = cgroup_available(), space = rlimit_available();

	if (group < free_bytes)
		free_bytes = group;
	return MIN(space, free_bytes);
}

/* Maximum of memory_budget.reserved, in bytes. */
#define RESERVED_MAX (512u << 20)

struct memory_budget memory_budget_of(const struct backend *be)
{
	struct memory_budget b = { 0, 0, 0 };

	if (be)
		be->ops->memory(be, &b.available, &b.total);
	if (!b.total)
		return (struct memory_budget){ memory_available(), 0, 0 };
	b.reserved = b.total / 8 < RESERVED_MAX ? b.total / 8 : RESERVED_MAX;
	return b;
}

void memory_budget_text(const struct memory_budget *b, struct str *out)
{
	const double mib = 1 << 20;

	if (b->total)
		str_addf(out, "the GPU has %.0f MiB free of %.0f", (double)b->available / mib, (double)b->total / mib);
	else
		str_addf(out, "%.0f MiB are free", (double)b->available / mib);
}
