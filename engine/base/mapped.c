/* engine/base/mapped.c - ranges of memory that are a file's; see mapped.h.
 *
 * The handler may run in any thread while another one notes a range: it takes no lock, and a range counts while `at` is
 * not 0. */
#include "engine/base/mapped.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/engine.h"

enum { RANGES = 4096 }; /* two planes of a layer of each sequence whose cache lies on disk, and model files */

static struct range {
	_Atomic uintptr_t at;
	size_t n;
	atomic_int *lost;
} ranges[RANGES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void mapped_add(const void *p, size_t n, atomic_int *lost)
{
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < RANGES; i++)
		if (!atomic_load(&ranges[i].at)) {
			ranges[i].n = n;
			ranges[i].lost = lost;
			atomic_store(&ranges[i].at, (uintptr_t)p);
			break;
		}
	pthread_mutex_unlock(&lock);
}

void mapped_remove(const void *p)
{
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < RANGES; i++)
		if (atomic_load(&ranges[i].at) == (uintptr_t)p)
			atomic_store(&ranges[i].at, 0);
	pthread_mutex_unlock(&lock);
}

/* From the page on, since what is behind it is gone as well where the file was cut: one mapping, however large that
 * is. */
int engine_fault(const void *address)
{
	uintptr_t page = (uintptr_t)address & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
	int error = errno, caught = 0;

	for (size_t i = 0; i < RANGES && !caught; i++) {
		uintptr_t at = atomic_load(&ranges[i].at);

		if (!at || page < at || page - at >= ranges[i].n)
			continue;
		atomic_store(ranges[i].lost, 1);
		caught = mmap((void *)page, ranges[i].n - (page - at), PROT_READ | PROT_WRITE,
		              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
	}
	errno = error;
	return caught;
}
