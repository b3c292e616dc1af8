/* engine/engine_machine.h - what the machine can do: its processor, memory and GPU, and how fast they are. */
#ifndef WEIR_ENGINE_MACHINE_H
#define WEIR_ENGINE_MACHINE_H

#include "engine/engine.h"

/* Return the name of the CPU kernels in use and, in parentheses, the names of all kernels that this CPU can run:
 * "avx512 (avx512, avx2, c available)". */
const char *engine_cpu_level(void);
/* Tell whether AMX (matrix instructions of x86-64) can be used: "yes" or "no, because ..."; NULL on other
 * processors. */
const char *engine_amx(void);
/* Measure the memory bandwidth, which is the number of bytes per second that `threads` threads read. The result is the
 * best of a few passes over `bytes` bytes. */
double engine_bandwidth(int threads, uint64_t bytes);
/* Measure how many 8-bit multiply-adds per second `threads` threads compute. */
double engine_arithmetic(int threads);
/* Measure the speed of copying within the memory of the engine's device: number of bytes read and bytes written per
 * second. `bytes` is the size of the buffer. The result is the best of a few passes, or 0 if there is no device or no
 * memory for the buffer. */
double engine_copy_bandwidth(struct engine *, uint64_t bytes);
/* Return how many more bytes of memory this process can get, under the limits of the machine, the container and the
 * process. */
uint64_t engine_memory_free(void);
/* Called by a SIGBUS handler: return 1 if the address is in a mapped model file or cache file, else 0. If it is, the
 * file was truncated, or its disk has failed. When the handler returns, the interrupted call continues, and fails with
 * an error. */
int engine_fault(const void *address);
struct engine_gpu {
	char text[160];            /* description of the device, or the reason why there is none */
	uint64_t available, total; /* numbers of free bytes and of all bytes of the GPU's memory */
	char check[160];           /* why the GPU has failed the check; "" = it has passed, or was not checked */
};
/* Describe the GPU that the device "cuda" would use. Return -1 if there is none; `text` then says why. If `checks` is
 * not NULL, check the GPU now, even if a result of an earlier check is stored, and store the new result. */
int engine_gpu(struct engine_gpu *, const struct gpu_checks *checks);

#endif
