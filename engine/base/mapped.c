/* engine/base/mapped.c - the table of mapped files, and what the SIGBUS handler does with it (mapped.h).
 *
 * The handler takes no lock, although another thread may be changing the table. So mapped_add() sets an entry's field
 * `at` last, and the handler ignores entries whose `at` is 0. */
#include "engine/base/mapped.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/engine_machine.h"
#include "kernels/os.h"

/* maximum number of mappings: enough for model files and for two mappings per layer of each KV cache on disk */
enum { RANGES = 4096 };

static struct range {
	_Atomic uintptr_t at; /* address of the range; 0 = a free entry */
	size_t n;             /* length of the range in bytes */
	atomic_int *lost;     /* the owner's flag, which is set when a page cannot be read */
} ranges[RANGES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* serializes mapped_add() and mapped_remove() */

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

/* If the address is in a registered mapping, set its flag *lost, map zeros from the faulting page to the end of that
 * mapping, and return 1. Otherwise return 0. (If the file was truncated, the pages after the faulting page are missing,
 * too.) */
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
