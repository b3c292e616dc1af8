/* engine/memory.c - asks the kernel before allocating: overcommit would turn success into the OOM killer. */
#include "engine/memory.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* One number from a file of numbers or "max"; UINT64_MAX when there is none. */
static uint64_t read_number(const char *path)
{
	FILE *f = fopen(path, "re");
	unsigned long long v;
	int got;

	if (!f)
		return UINT64_MAX;
	got = fscanf(f, "%llu", &v);
	fclose(f);
	return got == 1 ? v : UINT64_MAX;
}

static uint64_t machine_available(void)
{
	FILE *f = fopen("/proc/meminfo", "re");
	unsigned long long kib = 0;
	char line[128];

	if (!f)
		return UINT64_MAX;
	while (fgets(line, sizeof line, f))
		if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
			break;
	fclose(f);
	return kib ? kib * 1024 : UINT64_MAX;
}

static uint64_t left(uint64_t limit, uint64_t used)
{
	if (limit == UINT64_MAX)
		return UINT64_MAX;
	return used == UINT64_MAX || used >= limit ? 0 : limit - used;
}

/* Both generations of control groups, as a process inside a container sees them. */
static uint64_t group_available(void)
{
	uint64_t v2 = left(read_number("/sys/fs/cgroup/memory.max"), read_number("/sys/fs/cgroup/memory.current"));
	uint64_t v1 = left(read_number("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
	                   read_number("/sys/fs/cgroup/memory/memory.usage_in_bytes"));
	return v2 < v1 ? v2 : v1;
}

static uint64_t address_space_left(void)
{
	struct rlimit r;
	unsigned long long pages = 0;
	FILE *f;

	if (getrlimit(RLIMIT_AS, &r) || r.rlim_cur == RLIM_INFINITY)
		return UINT64_MAX;
	if ((f = fopen("/proc/self/statm", "re"))) {
		if (fscanf(f, "%llu", &pages) != 1)
			pages = 0;
		fclose(f);
	}
	return left(r.rlim_cur, pages * (uint64_t)sysconf(_SC_PAGESIZE));
}

uint64_t memory_free(void)
{
	uint64_t free_bytes = machine_available(), group = group_available(), space = address_space_left();

	if (group < free_bytes)
		free_bytes = group;
	return space < free_bytes ? space : free_bytes;
}
