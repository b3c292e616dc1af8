/* engine/memory_budget.c - asks the kernel before allocating: overcommit would turn success into the OOM killer.  Of a device's memory its
 * backend knows. */
#include "engine/memory_budget.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define V1 "/sys/fs/cgroup/memory/"
#define V2 "/sys/fs/cgroup/"

/* The number of a file that holds one, or "max"; with a key, of its line "key N".  UINT64_MAX: there is none. */
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

static uint64_t machine_available(void)
{
	uint64_t kib = read_number("/proc/meminfo", "MemAvailable:");
	return kib < UINT64_MAX / 1024 ? kib * 1024 : UINT64_MAX;
}

static uint64_t left(uint64_t limit, uint64_t used)
{
	if (limit == UINT64_MAX)
		return UINT64_MAX;
	return used == UINT64_MAX || used >= limit ? 0 : limit - used;
}

/* Cached file pages count as used, but the kernel gives them back on demand: the model file is among them. */
static uint64_t file_pages(const char *stat, const char *inactive, const char *active)
{
	uint64_t a = read_number(stat, inactive), b = read_number(stat, active);
	return (a == UINT64_MAX ? 0 : a) + (b == UINT64_MAX ? 0 : b);
}

/* Both generations of control groups, as a process inside a container sees them. */
static uint64_t group_available(void)
{
	uint64_t v2_pages = file_pages(V2 "memory.stat", "inactive_file ", "active_file ");
	uint64_t v1_pages = file_pages(V1 "memory.stat", "total_inactive_file ", "total_active_file ");
	uint64_t v2 = left(read_number(V2 "memory.max", NULL),
	                   left(read_number(V2 "memory.current", NULL), v2_pages));
	uint64_t v1 = left(read_number(V1 "memory.limit_in_bytes", NULL),
	                   left(read_number(V1 "memory.usage_in_bytes", NULL), v1_pages));

	return v2 < v1 ? v2 : v1;
}

static uint64_t address_space_left(void)
{
	struct rlimit r;
	uint64_t pages;

	if (getrlimit(RLIMIT_AS, &r) || r.rlim_cur == RLIM_INFINITY)
		return UINT64_MAX;
	pages = read_number("/proc/self/statm", NULL);
	return left(r.rlim_cur, pages == UINT64_MAX ? 0 : pages * (uint64_t)sysconf(_SC_PAGESIZE));
}

uint64_t memory_available(void)
{
	uint64_t free_bytes = machine_available(), group = group_available(), space = address_space_left();

	if (group < free_bytes)
		free_bytes = group;
	return space < free_bytes ? space : free_bytes;
}

#define KEPT_MOST (512u << 20)

struct memory_budget memory_budget_of(const struct backend *be)
{
	struct memory_budget r = { 0, 0, 0 };

	if (be)
		be->ops->memory(be, &r.available, &r.total);
	if (!r.total)
		return (struct memory_budget){ memory_available(), 0, 0 };
	r.kept = r.total / 8 < KEPT_MOST ? r.total / 8 : KEPT_MOST;
	return r;
}

void memory_budget_text(const struct memory_budget *r, struct str *out)
{
	const double mib = 1 << 20;

	if (r->total)
		str_addf(out, "the GPU has %.0f MiB free of %.0f", (double)r->available / mib, (double)r->total / mib);
	else
		str_addf(out, "%.0f MiB are free", (double)r->available / mib);
}
