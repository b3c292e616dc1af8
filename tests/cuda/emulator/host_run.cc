/* tests/cuda/emulator/host_run.cc - runs blocks on the processor: fibers, barriers, warps, shared memory
 * (host.cuh).
 *
 * A thread of a block is a fiber with its own stack. The lanes of a warp run until no lane can continue; then the lanes
 * of the next warp run. So warps get as far apart as barriers allow. When no warp can continue, either all threads are
 * at the same barrier, and continue, or the kernel is wrong. The fibers of a wrong block do not run again. They have
 * nothing to release, because kernels own no resources. */
#include "tests/cuda/emulator/host_run.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernels/cuda/gpu_queue.h"
#include "tests/cuda/emulator/host.cuh"

#if defined __has_feature
#if __has_feature(address_sanitizer)
#define HOST_ASAN 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#define HOST_ASAN 1
#endif
#ifdef HOST_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

/* ---- switching fibers ---- */

/* Save the callee-saved registers and the stack pointer in *from; continue where `to` was saved. On x86-64 the function
 * ends with a jump, because the processor would predict that `ret` returns to the caller, which is wrong every time. */
extern "C" void host_switch(void **from, void *to);
#if defined __x86_64__
__asm__(".text\n.p2align 4\n.globl host_switch\n.hidden host_switch\n.type host_switch, @function\nhost_switch:\n"
        "\tpushq %rbp\n\tpushq %rbx\n\tpushq %r12\n\tpushq %r13\n\tpushq %r14\n\tpushq %r15\n"
        "\tmovq %rsp, (%rdi)\n\tmovq %rsi, %rsp\n"
        "\tpopq %r15\n\tpopq %r14\n\tpopq %r13\n\tpopq %r12\n\tpopq %rbx\n\tpopq %rbp\n\tpopq %rcx\n\tjmp *%rcx\n"
        ".size host_switch, . - host_switch\n");
/* six registers, the return address, and 0 as return address of the entry function, which never returns */
enum { SAVED_WORDS = 8, SAVED_RETURN = 6 };
#elif defined __aarch64__
__asm__(".text\n.p2align 4\n.globl host_switch\n.hidden host_switch\n.type host_switch, %function\nhost_switch:\n"
        "\tsub sp, sp, #160\n"
        "\tstp x19, x20, [sp]\n\tstp x21, x22, [sp, #16]\n\tstp x23, x24, [sp, #32]\n\tstp x25, x26, [sp, #48]\n"
        "\tstp x27, x28, [sp, #64]\n\tstp x29, x30, [sp, #80]\n"
        "\tstp d8, d9, [sp, #96]\n\tstp d10, d11, [sp, #112]\n\tstp d12, d13, [sp, #128]\n\tstp d14, d15, [sp, #144]\n"
        "\tmov x9, sp\n\tstr x9, [x0]\n\tmov sp, x1\n"
        "\tldp x19, x20, [sp]\n\tldp x21, x22, [sp, #16]\n\tldp x23, x24, [sp, #32]\n\tldp x25, x26, [sp, #48]\n"
        "\tldp x27, x28, [sp, #64]\n\tldp x29, x30, [sp, #80]\n"
        "\tldp d8, d9, [sp, #96]\n\tldp d10, d11, [sp, #112]\n\tldp d12, d13, [sp, #128]\n\tldp d14, d15, [sp, #144]\n"
        "\tadd sp, sp, #160\n\tret\n"
        ".size host_switch, . - host_switch\n");
enum { SAVED_WORDS = 20, SAVED_RETURN = 11 };      /* the slot of x30 */
#else
#error "kernels on the host need host_switch() for this processor"
#endif

/* ---- threads ---- */

#ifdef HOST_ASAN
enum { STACK_BYTES = 1 << 20 };
#else
enum { STACK_BYTES = 256 << 10 };
#endif
enum { WARP_LANES = 32, SHARED_VARIABLES = 64, SHARED_GUARD = 64, GARBAGE = 0x7f };

enum thread_state { READY, AT_WARP, AT_BLOCK, ENDED };
/* An asynchronous copy of 16 bytes to shared memory that is not complete. */
struct late_copy {
	void *to;
	unsigned char bytes[16];
	unsigned group;
};
struct thread {
	void *sp;
	char *stack;
	enum thread_state state;
	/* the operation at which a thread in state AT_WARP or AT_BLOCK waits */
	enum host_op op;
	unsigned mask;
	int arg, width, line;
	const char *file;
	uint64_t value, result;
	struct late_copy *late;    /* copies in the order of the calls; the memory is kept for the next launch */
	unsigned n_late, late_room, group;
};
struct shared_variable { const void *key; size_t at, size; };

/* The running launch. A thread of the program runs one launch at a time. */
static HOST_THREAD struct run {
	const struct gpu_launch *launch;
	const void *args;
	struct thread *thread;     /* [HOST_THREADS_MAX] */
	int n, now, inside;        /* inside: 1 = a thread of the block is running */
	unsigned char waiting[HOST_THREADS_MAX / 32];      /* lanes of a warp that are AT_WARP */
	void *scheduler;           /* stack pointer of the scheduler */
	const void *bottom;        /* stack of the scheduler, for the sanitizer */
	size_t stack_size;
	int failed;
	char *err;
	int barrier_all, barrier_true;
	unsigned char *shared;
	struct shared_variable *variable;  /* [SHARED_VARIABLES] */
	int n_variables;
	size_t shared_used;
} run;

HOST_THREAD uint3 threadIdx, blockIdx, blockDim, gridDim;

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static const char *op_name(const struct thread *t)
{
	static const char *const name[] = { "__syncwarp", "__shfl_sync", "__shfl_xor_sync", "__shfl_up_sync", "__shfl_down_sync",
	                                    "__ballot_sync", "__match_any_sync", "__reduce_add_sync", "__reduce_min_sync",
	                                    "__reduce_max_sync", "__reduce_min_sync", "__reduce_max_sync", "__reduce_and_sync",
	                                    "__reduce_or_sync", "__reduce_xor_sync" };

	return t->state == AT_BLOCK ? "__syncthreads" : name[t->op];
}

/* Write the place of a thread to out: "thread 5 waits at __shfl_sync, cuda_topk.cu:12". */
static void say_thread(char *out, size_t cap, int i)
{
	const struct thread *t = &run.thread[i];

	if (t->state == ENDED)
		snprintf(out, cap, "thread %d has ended", i);
	else if (t->state == READY)
		snprintf(out, cap, "thread %d runs", i);
	else
		snprintf(out, cap, "thread %d waits at %s, %s:%d", i, op_name(t), base_name(t->file), t->line);
}

static void fail(const char *why)
{
	char name[48];

	if (run.failed)
		return;
	run.failed = 1;
	gpu_launch_name(run.launch, name, sizeof name);
	snprintf(run.err, 160, "kernel %s, block %u,%u,%u: %s", name, blockIdx.x, blockIdx.y, blockIdx.z, why);
}

static void fail_two(int a, int b)
{
	char x[80], y[80], why[170];

	say_thread(x, sizeof x, a);
	say_thread(y, sizeof y, b);
	snprintf(why, sizeof why, "%s; %s", x, y);
	fail(why);
}

/* ---- fibers ---- */

static void to_scheduler(struct thread *t)
{
#ifdef HOST_ASAN
	void *fake = NULL;

	__sanitizer_start_switch_fiber(t->state == ENDED ? NULL : &fake, run.bottom, run.stack_size);
#endif
	host_switch(&t->sp, run.scheduler);
#ifdef HOST_ASAN
	__sanitizer_finish_switch_fiber(fake, NULL, NULL);
#endif
}

static void to_thread(int i)
{
	struct thread *t = &run.thread[i];

	run.now = i;
	threadIdx.x = (unsigned)i;
#ifdef HOST_ASAN
	void *fake = NULL;

	__sanitizer_start_switch_fiber(&fake, t->stack, STACK_BYTES);
#endif
	run.inside = 1;
	host_switch(&run.scheduler, t->sp);
	run.inside = 0;
#ifdef HOST_ASAN
	__sanitizer_finish_switch_fiber(fake, NULL, NULL);
#endif
}

static void thread_main(void)
{
	struct thread *t = &run.thread[run.now];

#ifdef HOST_ASAN
	__sanitizer_finish_switch_fiber(NULL, &run.bottom, &run.stack_size);
#endif
	run.launch->call(run.launch->fn, run.args);
	t->state = ENDED;
	to_scheduler(t);
	abort();
}

static void thread_start(struct thread *t)
{
	void **sp = (void **)(t->stack + STACK_BYTES) - SAVED_WORDS;

	memset(sp, 0, SAVED_WORDS * sizeof *sp);
	sp[SAVED_RETURN] = (void *)thread_main;
	t->sp = sp;
	t->state = READY;
	t->n_late = t->group = 0;
}

/* Make stacks for n threads, and keep them for the next launch. Below each stack is an inaccessible page. */
static int threads_need(int n)
{
	static __thread struct thread *threads;
	static __thread int have;
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	if (!threads && !(threads = (struct thread *)calloc(HOST_THREADS_MAX, sizeof *threads)))
		return -1;
	for (; have < n; have++) {
		char *p = (char *)mmap(NULL, STACK_BYTES + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		if (p == MAP_FAILED)
			return -1;
		mprotect(p, page, PROT_NONE);
		threads[have].stack = p + page;
	}
	run.thread = threads;
	return 0;
}

/* ---- warps ---- */

/* Return the lane that `lane` reads in a shuffle, as the instruction specifies. A lane whose source is outside of its
 * segment reads its own value. */
static int source_lane(const struct thread *t, int lane)
{
	int first = lane & ~(t->width - 1), last = first + t->width - 1, from;

	switch (t->op) {
	case HOST_SHFL:
		return first + (t->arg & (t->width - 1));
	case HOST_SHFL_XOR:
		from = lane ^ (t->arg & 31);
		return from <= last ? from : lane;
	case HOST_SHFL_UP:
		from = lane - t->arg;
		return from >= first && t->arg < 32 ? from : lane;
	case HOST_SHFL_DOWN:
		from = lane + t->arg;
		return from <= last && t->arg < 32 ? from : lane;
	default:
		return lane;
	}
}

static uint64_t reduce(const struct thread *warp, unsigned mask, enum host_op op)
{
	uint64_t r = 0;
	int first = 1;

	for (int i = 0; i < WARP_LANES; i++) {
		uint64_t x;

		if (!(mask >> i & 1))
			continue;
		x = warp[i].value;
		switch (op) {
		case HOST_REDUCE_ADD:
			r = (uint32_t)(r + x);
			break;
		case HOST_REDUCE_MIN:
			r = first || (int32_t)x < (int32_t)r ? x : r;
			break;
		case HOST_REDUCE_MAX:
			r = first || (int32_t)x > (int32_t)r ? x : r;
			break;
		case HOST_REDUCE_UMIN:
			r = first || x < r ? x : r;
			break;
		case HOST_REDUCE_UMAX:
			r = first || x > r ? x : r;
			break;
		case HOST_REDUCE_AND:
			r = first ? x : r & x;
			break;
		case HOST_REDUCE_OR:
			r |= x;
			break;
		default:
			r ^= x;
			break;
		}
		first = 0;
	}
	return r;
}

/* 1 if both threads wait at the same operation of a warp. */
static int same_call(const struct thread *a, const struct thread *b)
{
	return a->state == AT_WARP && b->state == AT_WARP && a->op == b->op && a->mask == b->mask && a->line == b->line &&
	       (a->file == b->file || !strcmp(a->file, b->file));
}

/* Compute the result of every lane, after all lanes of the mask have arrived. */
static void warp_results(struct thread *warp, int warp0, unsigned mask)
{
	enum host_op op = warp[__builtin_ctz(mask)].op;
	uint64_t one = 0;

	if (op == HOST_BALLOT) {
		for (int i = 0; i < WARP_LANES; i++)
			one |= mask >> i & 1 && warp[i].value ? 1ull << i : 0;
	} else if (op >= HOST_REDUCE_ADD) {
		one = reduce(warp, mask, op);
	}
	for (int i = 0; i < WARP_LANES; i++) {
		struct thread *t = &warp[i];

		if (!(mask >> i & 1))
			continue;
		if (op == HOST_SYNCWARP || op == HOST_BALLOT || op >= HOST_REDUCE_ADD) {
			t->result = one;
		} else if (op == HOST_MATCH_ANY) {
			t->result = 0;
			for (int j = 0; j < WARP_LANES; j++)
				t->result |= mask >> j & 1 && warp[j].value == t->value ? 1ull << j : 0;
		} else {
			int from = source_lane(t, i);

			if (!(mask >> from & 1)) {
				char why[120];

				snprintf(why, sizeof why, "thread %d reads lane %d, which is not in its mask %08x, at %s:%d", warp0 + i, from, mask,
				         base_name(t->file), t->line);
				fail(why);
				return;
			}
			t->result = warp[from].value;
		}
	}
	for (int i = 0; i < WARP_LANES; i++)
		if (mask >> i & 1)
			warp[i].state = READY;
	run.waiting[warp0 / WARP_LANES] -= (unsigned char)__builtin_popcount(mask);
}

/* Stop a thread that has made a mistake, so that it never runs again. */
static void give_up(struct thread *t)
{
	t->state = AT_BLOCK;
	for (;;)
		to_scheduler(t);
}

uint64_t host_warp(enum host_op op, unsigned mask, uint64_t value, int arg, int width, const char *file, int line)
{
	int me = run.now, warp0 = me / WARP_LANES * WARP_LANES, lane = me - warp0, all;
	struct thread *warp = run.thread + warp0, *t = warp + lane;

	t->op = op;
	t->mask = mask;
	t->value = value;
	t->arg = arg;
	t->width = width;
	t->file = file;
	t->line = line;
	t->state = AT_WARP;
	if (!(mask >> lane & 1) || width < 1 || width > WARP_LANES || width & (width - 1) ||
	    (run.n - warp0 < WARP_LANES && mask >> (run.n - warp0))) {
		char why[120];

		snprintf(why, sizeof why, "thread %d calls %s of %08x, width %d, at %s:%d: not itself, or lanes that are not there", me,
		         op_name(t), mask, width, base_name(file), line);
		fail(why);
		give_up(t);
	}
	all = ++run.waiting[warp0 / WARP_LANES] >= __builtin_popcount(mask);
	for (int i = 0; i < WARP_LANES && all; i++)
		if (mask >> i & 1)
			all = same_call(&warp[i], t);
	if (all)
		warp_results(warp, warp0, mask);
	if (t->state != READY)
		to_scheduler(t);
	if (run.failed)
		give_up(t);
	return t->result;
}

/* ---- the block ---- */

int host_barrier(int p, int *all, const char *file, int line)
{
	struct thread *t = &run.thread[run.now];

	t->file = file;
	t->line = line;
	t->value = p != 0;
	t->state = AT_BLOCK;
	to_scheduler(t);
	if (all)
		*all = run.barrier_all;
	return run.barrier_true;
}

void *host_shared(const void *key, size_t size, size_t align)
{
	struct shared_variable *v;
	size_t at;

	for (int i = 0; i < run.n_variables; i++)
		if (run.variable[i].key == key)
			return run.shared + run.variable[i].at;
	/* Use exactly the requested alignment and no larger one, as a device may do. */
	at = (run.shared_used + SHARED_GUARD + 2 * align - 1) / (2 * align) * (2 * align) + (align < 16 ? align : 0);
	if (run.n_variables == SHARED_VARIABLES || at + size + SHARED_GUARD > (size_t)HOST_SHARED_STATIC + SHARED_VARIABLES * 128) {
		fail("more than 48 KiB of shared variables, or more than 64 of them");
		give_up(&run.thread[run.now]);
	}
	v = &run.variable[run.n_variables++];
	v->key = key;
	v->at = at;
	v->size = size;
	run.shared_used = at + size;
	ASAN_UNPOISON_MEMORY_REGION(run.shared + at, size);
	return run.shared + at;
}

/* Layout of shared memory: the variables, then the dynamic memory. All of it contains garbage when a block begins. */
enum { DYNAMIC_AT = HOST_SHARED_STATIC + SHARED_VARIABLES * 128 + 256,
       SHARED_BYTES = DYNAMIC_AT + HOST_SHARED_MAX + 256 };

void *host_shared_dynamic(void)
{
	return run.shared + DYNAMIC_AT;
}

static int garbage(const unsigned char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] != GARBAGE)
			return 0;
	return 1;
}

/* The array is on the heap, because a library that is loaded late has little room for thread-local data. */
uint32_t (*host_lanes(void))[6]
{
	static __thread uint32_t (*lanes)[WARP_LANES][6];

	if (!lanes && !(lanes = (uint32_t (*)[WARP_LANES][6])calloc(HOST_THREADS_MAX / WARP_LANES, sizeof *lanes)))
		abort();
	return lanes[threadIdx.x / WARP_LANES];
}

/* ---- asynchronous copies ---- */

void host_copy(void *shared, const void *from, int there)
{
	struct thread *t = &run.thread[run.now];
	struct late_copy *c;

	if (((uintptr_t)shared | (uintptr_t)from) % 16) {
		char why[120];

		snprintf(why, sizeof why, "thread %d copies 16 bytes between %p and %p, which are not aligned to 16", run.now, from, shared);
		fail(why);
		give_up(t);
	}
	if (t->n_late == t->late_room) {
		t->late_room = t->late_room ? 2 * t->late_room : 16;
		if (!(t->late = (struct late_copy *)realloc(t->late, t->late_room * sizeof *t->late)))
			abort();
	}
	c = &t->late[t->n_late++];
	c->to = shared;
	c->group = t->group;
	/* Read the source here, so that a wrong address is reported at the call that has it. */
	if (there)
		memcpy(c->bytes, from, sizeof c->bytes);
	else
		memset(c->bytes, 0, sizeof c->bytes);
}

void host_copies_end(void)
{
	run.thread[run.now].group++;
}

void host_copies_wait(unsigned left)
{
	struct thread *t = &run.thread[run.now];
	unsigned n = 0;

	while (n < t->n_late && t->late[n].group + left < t->group) {
		memcpy(t->late[n].to, t->late[n].bytes, sizeof t->late[n].bytes);
		n++;
	}
	if (!n)
		return;
	t->n_late -= n;
	memmove(t->late, t->late + n, t->n_late * sizeof *t->late);
}

static int shared_need(void)
{
	static __thread unsigned char *memory;
	static __thread struct shared_variable *variables;

	if (!memory && !(memory = (unsigned char *)aligned_alloc(256, (SHARED_BYTES + 255) / 256 * 256)))
		return -1;
	if (!variables && !(variables = (struct shared_variable *)calloc(SHARED_VARIABLES, sizeof *variables)))
		return -1;
	if (!run.shared) {
		run.shared = memory;
		run.variable = variables;
		ASAN_UNPOISON_MEMORY_REGION(memory, SHARED_BYTES);
		memset(memory, GARBAGE, SHARED_BYTES);
	}
	return 0;
}

static void shared_begin(size_t used)
{
	memset(run.shared, GARBAGE, used + SHARED_GUARD);
	memset(run.shared + DYNAMIC_AT, GARBAGE, run.launch->shared + 256);
	run.n_variables = 0;
	run.shared_used = 0;
	ASAN_POISON_MEMORY_REGION(run.shared, SHARED_BYTES);
	ASAN_UNPOISON_MEMORY_REGION(run.shared + DYNAMIC_AT, run.launch->shared);
}

/* Report writes between the shared variables or behind the dynamic memory. */
static void shared_end(void)
{
	size_t at = 0, all = run.launch->shared;
	int ok;

	ASAN_UNPOISON_MEMORY_REGION(run.shared, SHARED_BYTES);
	for (int i = 0; i < run.n_variables; i++)
		all += run.variable[i].size;
	ok = garbage(run.shared + DYNAMIC_AT + run.launch->shared, 256);
	for (int i = 0; i < run.n_variables; i++) {
		ok &= garbage(run.shared + at, run.variable[i].at - at);
		at = run.variable[i].at + run.variable[i].size;
	}
	ok &= garbage(run.shared + at, SHARED_GUARD);
	if (!ok)
		fail("writes outside its shared memory");
	if (all > (size_t)HOST_SHARED_MAX)
		fail("more than 227 KiB of shared memory");
}

/* Called when no warp can continue. Release the barrier, or report why it cannot be released. Return 0 if no thread is
 * left. */
static int let_through(void)
{
	int first = -1, n = 0, yes = 0;

	for (int i = 0; i < run.n; i++) {
		struct thread *t = &run.thread[i];

		if (t->state != AT_WARP)
			continue;
		for (int j = 0; j < WARP_LANES; j++) {
			int k = i / WARP_LANES * WARP_LANES + j;
			struct thread *u = &run.thread[k];

			if (t->mask >> j & 1 && !same_call(u, t)) {
				fail_two(i, k);
				return 0;
			}
		}
	}
	for (int i = 0; i < run.n; i++) {
		struct thread *t = &run.thread[i];

		if (t->state != AT_BLOCK)
			continue;
		if (first < 0)
			first = i;
		if (t->line != run.thread[first].line || strcmp(t->file, run.thread[first].file)) {
			fail_two(first, i);
			return 0;
		}
		n++;
		yes += t->value != 0;
	}
	run.barrier_all = n;
	run.barrier_true = yes;
	for (int i = 0; i < run.n; i++)
		if (run.thread[i].state == AT_BLOCK)
			run.thread[i].state = READY;
	return n > 0;
}

/* An order of the numbers 0 .. n - 1: rotated by `start`, and reversed if `back` is 1. */
struct order { unsigned start; int back; };
static struct order order_draw(unsigned *seed, unsigned n)
{
	struct order o = { 0, 0 };

	if (*seed == 1)
		o.back = 1;
	if (*seed < 2)
		return o;
	*seed = *seed * 1664525u + 1013904223u;
	o.start = (*seed >> 8) % n;
	o.back = (int)(*seed >> 31);
	if (*seed < 2)
		*seed += 2;
	return o;
}
static inline unsigned order_at(struct order o, unsigned i, unsigned n)
{
	i += o.start;
	if (i >= n)
		i -= n;
	return o.back ? n - 1 - i : i;
}

static void run_block(unsigned *seed)
{
	unsigned warps = ((unsigned)run.n + WARP_LANES - 1) / WARP_LANES;
	struct order by_warp = order_draw(seed, warps), by_lane = order_draw(seed, WARP_LANES);

	for (int i = 0; i < run.n; i++)
		thread_start(&run.thread[i]);
	memset(run.waiting, 0, sizeof run.waiting);
	do {
		for (unsigned w = 0; w < warps; w++) {
			unsigned warp0 = order_at(by_warp, w, warps) * WARP_LANES;
			int moved;

			do {
				moved = 0;
				for (unsigned l = 0; l < WARP_LANES; l++) {
					unsigned i = warp0 + order_at(by_lane, l, WARP_LANES);

					if (i >= (unsigned)run.n || run.thread[i].state != READY)
						continue;
					to_thread((int)i);
					if (run.failed)
						return;
					moved = 1;
				}
			} while (moved);
		}
	} while (let_through());
}

/* ---- faults: reported, not fatal; the address sanitizer reports its own ---- */

#ifndef HOST_ASAN
static const int fault_signals[] = { SIGSEGV, SIGBUS, SIGFPE };
enum { N_FAULTS = 3, FAULT_STACK = 64 << 10 };

static void on_fault(int sig, siginfo_t *info, void *context)
{
	char why[120];
	void *lost;

	(void)context;
	if (!run.inside) {
		signal(sig, SIG_DFL);
		return;                    /* the fault happens again and is fatal */
	}
	if (sig == SIGFPE)
		snprintf(why, sizeof why, "thread %d divides by zero", run.now);
	else
		snprintf(why, sizeof why, "thread %d touches %p: not the device's memory, or not aligned", run.now, info->si_addr);
	fail(why);
	host_switch(&lost, run.scheduler);
}

static void faults_catch(struct sigaction old[N_FAULTS])
{
	static __thread void *stack;
	struct sigaction act;
	stack_t alt = {};

	if (!stack && (stack = malloc(FAULT_STACK))) {
		alt.ss_sp = stack;
		alt.ss_size = FAULT_STACK;
		sigaltstack(&alt, NULL);
	}
	memset(&act, 0, sizeof act);
	act.sa_sigaction = on_fault;
	act.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
	for (int i = 0; i < N_FAULTS; i++)
		sigaction(fault_signals[i], &act, &old[i]);
}

static void faults_leave(const struct sigaction old[N_FAULTS])
{
	for (int i = 0; i < N_FAULTS; i++)
		sigaction(fault_signals[i], &old[i], NULL);
}
#else
enum { N_FAULTS = 1 };
static void faults_catch(struct sigaction *) {}
static void faults_leave(const struct sigaction *) {}
#endif

int host_run(const struct gpu_launch *l, const void *args, unsigned order, char err[160])
{
	unsigned gx = l->grid[0], gy = l->grid[1], gz = l->grid[2], blocks = gx * gy * gz;
	struct order by_block;
	size_t used = run.shared_used;   /* bytes that the last block, of this or an earlier kernel, may have used */
	struct sigaction old[N_FAULTS];

	run.launch = l;
	run.args = args;
	run.err = err;
	run.failed = 0;
	run.n = (int)l->block;
	threadIdx = blockIdx = make_uint3(0, 0, 0);
	if (!gx || !gy || !gz || gy > 65535 || gz > 65535 || gx > 0x7fffffff || (uint64_t)gx * gy * gz > 0x7fffffff || !l->block ||
	    l->block > HOST_THREADS_MAX || l->shared > HOST_SHARED_MAX) {
		char why[120];

		snprintf(why, sizeof why, "cannot be launched: grid %u,%u,%u, %u threads, %u bytes shared", gx, gy, gz, l->block, l->shared);
		fail(why);
		return -1;
	}
	if (threads_need(run.n) < 0 || shared_need() < 0) {
		fail("no memory for its threads");
		return -1;
	}
	blockDim = make_uint3(l->block, 1, 1);
	gridDim = make_uint3(gx, gy, gz);
	by_block = order_draw(&order, blocks);
	faults_catch(old);
	for (unsigned b = 0; b < blocks && !run.failed; b++) {
		unsigned at = order_at(by_block, b, blocks);

		blockIdx.x = at % gx;
		blockIdx.y = at / gx % gy;
		blockIdx.z = at / gx / gy;
		shared_begin(used);
		run_block(&order);
		shared_end();
		used = run.shared_used;
	}
	faults_leave(old);
	if (run.failed) {
		run.shared = NULL;       /* the next launch then fills all shared memory with garbage */
#ifdef HOST_ASAN
		for (int i = 0; i < run.n; i++)
			ASAN_UNPOISON_MEMORY_REGION(run.thread[i].stack, STACK_BYTES);
#endif
	}
	return run.failed ? -1 : 0;
}
