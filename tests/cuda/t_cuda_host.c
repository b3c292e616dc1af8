/* tests/cuda/t_cuda_host.c - tests of the emulated device itself.
 *
 * Each kernel with a mistake must be reported, with the kind of the mistake. Operations of warps and blocks must give
 * the results that CUDA specifies. Repeated launches must run as graphs, with the newest arguments. */
#include <stdio.h>
#include <stdlib.h>

#include "kernels/macros.h"
#include "tests/cuda/emulator/gpu_host.h"
#include "tests/cuda/cuda_wrong.h"
#include "tests/lib/test.h"

#if defined __SANITIZE_ADDRESS__
enum { SANITIZED = 1 };
#elif defined __has_feature
#if __has_feature(address_sanitizer)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif
#else
enum { SANITIZED = 0 };
#endif

static const struct {
	enum wrong w;
	const char *name, *says;
	int touches;
} mistakes[] = {
	{ TWO_BARRIERS, "two barriers", "waits at __syncthreads, cuda_wrong.cc:", 0 },
	{ ENDS_IN_WARP, "a lane that ended", "thread 40 has ended", 0 },
	{ WARP_OR_BLOCK, "a lane at a barrier", "thread 40 waits at __syncthreads, cuda_wrong.cc:", 0 },
	{ LANE_OUTSIDE, "a lane outside of the mask", "reads lane 20, which is not in its mask 0000ffff", 0 },
	{ NOT_ITSELF, "a mask without the caller", "calls __shfl_xor_sync of 0000ffff", 0 },
	{ BEHIND, "a write behind", "something wrote behind a piece of 4 bytes", 1 },
	{ IN_FRONT, "a write in front", "something wrote in front of a piece of 4 bytes", 1 },
	{ FAR_AWAY, "a write far away", "not the device's memory", 1 },
	{ SHARED_BEHIND, "a write behind shared memory", "writes outside its shared memory", 1 },
	{ DYNAMIC_BEHIND, "a write behind dynamic shared memory", "writes outside its shared memory", 1 },
	{ HOST_POINTER, "a pointer of the host", "kernel sum_args: the argument at byte 8 points at memory of the host",
	  0 },
	{ FREED, "memory that was freed",
	  "kernel sum_args: the argument at byte 8 points at device memory that was freed", 0 },
	{ TOO_MANY_THREADS, "too many threads", "1056 threads", 0 },
	{ TOO_MUCH_SHARED, "too much shared memory", "cannot be launched", 0 },
	{ DIVIDES, "a division by zero", "thread 7 divides by zero", 1 },
	{ COPY_ODD, "a copy of 16 bytes from between", "which are not aligned to 16", 0 },
};

TEST(host_tells_mistakes)
{
	char err[160];
	float sum;

	for (unsigned order = 0; order < 5; order++) {
		gpu_host_order(order);
		for (size_t i = 0; i < LEN(mistakes); i++) {
			if (mistakes[i].touches && SANITIZED)
				continue; /* a sanitizer would end the program at the illegal access */
			*err = 0;
			CHECK_MSG(wrong_run(mistakes[i].w, &sum, err) < 0, "order %u: %s was not told", order,
			          mistakes[i].name);
			CHECK_MSG(strstr(err, mistakes[i].says) != NULL, "%s: \"%s\"", mistakes[i].name, err);
		}
		/* After a mistake, the next launch works. */
		CHECK(wrong_run(RIGHT, &sum, err) == 0 && sum == 255 * 128);
	}
	gpu_host_order(2);
}

/* Mistakes that the device cannot detect must give a wrong result in most orders of warps, lanes and blocks. */
TEST(host_shows_missing_barriers_and_garbage)
{
	static const enum wrong w[] = { NO_BARRIER, SHARED_UNSET, STAGED_LATE, NOT_WAITED };
	char err[160];
	float sum;

	for (int i = 0; i < 4; i++) {
		int seen = 0;

		for (unsigned order = 0; order < 6; order++) {
			gpu_host_order(order);
			sum = 0;
			CHECK(wrong_run(w[i], &sum, err) == 0);
			seen += !(sum == 255 * 128);
		}
		CHECK_MSG(seen >= 3, "mistake %d showed in %d of 6 orders", (int)w[i], seen);
	}
	/* A kernel with a mask of half a warp must not be reported, because such a mask is legal, although the sum is
	 * wrong. */
	CHECK(wrong_run(OTHER_MASK, &sum, err) == 0);
	gpu_host_order(2);
}

TEST(host_speaks_cuda)
{
	for (unsigned order = 0; order < 6; order++) {
		gpu_host_order(order);
		CHECK_INT(language_check(), 0);
	}
	gpu_host_order(2);
}

/* ---- steps and graphs ---- */

enum { MADE = 16 };
struct made {
	int kind[MADE];
	unsigned grid[MADE];
	int n;
};

static struct made shape_random(int n)
{
	struct made s = { .n = n };

	for (int i = 0; i < n; i++) {
		s.kind[i] = (int)(test_rand() % 3);
		s.grid[i] = 1 + (unsigned)(test_rand() % 4);
	}
	return s;
}

/* Run one step with its own arguments, and check that its result is that of its launches in order. */
static void step_run(struct wrong_queue *q, const struct made *s, int same_args)
{
	unsigned long long want = 0;

	for (int i = 0; i < s->n; i++) {
		unsigned long long arg = same_args ? (unsigned long long)i : test_rand() % 1000;

		want += (unsigned long long)(i + 1) * (unsigned long long)(s->kind[i] + 1) * s->grid[i] * arg;
		queue_launch(q, s->kind[i], s->grid[i], arg);
	}
	CHECK(queue_sum(q) == want);
}

static struct gpu_host_counts counted(void)
{
	struct gpu_host_counts c;

	gpu_host_stats(&c);
	gpu_host_forget();
	return c;
}

TEST(graphs_seen_built_replayed)
{
	struct wrong_queue *q = queue_open();
	struct made s = shape_random(8), t = s;
	struct gpu_host_counts c;

	counted();
	step_run(q, &s, 1);
	c = counted();
	CHECK(c.plain >= 1 && !c.built && !c.replayed);
	step_run(q, &s, 1);
	c = counted();
	CHECK(c.built == 1 && !c.replayed);
	for (int i = 0; i < 5; i++) {
		step_run(q, &s, 1);
		c = counted();
		CHECK(!c.built && c.replayed == 1);
		CHECK_INT(c.updated, 0);
	}
	step_run(q, &s, 0);
	c = counted();
	CHECK(c.replayed == 1 && c.updated > 4 && c.updated <= 8);
	/* A step with another grid, another kernel or another number of launches is not replayed. */
	t.grid[4]++;
	step_run(q, &t, 1);
	CHECK_INT(counted().replayed, 0);
	t = s;
	t.kind[7] = (t.kind[7] + 1) % 3;
	step_run(q, &t, 1);
	CHECK_INT(counted().replayed, 0);
	t = s;
	t.n--;
	step_run(q, &t, 1);
	CHECK_INT(counted().replayed, 0);
	step_run(q, &s, 0);
	CHECK_INT(counted().replayed, 1);
	queue_close(q);
}

/* A long step is always divided into parts at the same places, and its first parts are short. Equal parts of a step do
 * not share a graph, because each part has other arguments. */
TEST(graphs_of_parts)
{
	enum { PAIRS = (16 + 32 + 64 + 64 + 8) / 2, PARTS = 5 }; /* each queue_launch() makes two launches */
	struct wrong_queue *q = queue_open();
	struct gpu_host_counts c;

	counted();
	for (int round = 0; round < 4; round++) {
		unsigned long long want = 0;

		for (int i = 0; i < PAIRS; i++) {
			unsigned long long arg = (unsigned long long)(i + (i == 50) * round);

			want += (unsigned long long)(i + 1) * 2 * 3 * arg;
			queue_launch(q, 1, 3, arg);
		}
		CHECK(queue_sum(q) == want);
		c = counted();
		CHECK(c.built == (round == 1) * PARTS && c.replayed == (round > 1) * PARTS);
		CHECK_INT(c.updated, round > 1);
	}
	queue_close(q);
}

TEST(graphs_the_least_recently_used_goes)
{
	enum { KINDS = 70 }; /* more than the number of graphs that are kept */
	struct wrong_queue *q = queue_open();
	struct made s[KINDS];
	struct gpu_host_counts c;

	for (int i = 0; i < KINDS; i++) {
		s[i] = shape_random(6);
		s[i].grid[0] = (unsigned)i + 1;
	}
	/* The first graph stays in use while others are replaced. */
	for (int round = 0; round < 3; round++)
		for (int i = 0; i < KINDS; i++) {
			step_run(q, &s[0], 0);
			step_run(q, &s[i], 0);
		}
	counted();
	for (int i = 0; i < 20; i++)
		step_run(q, &s[0], 0);
	c = counted();
	CHECK_INT(c.replayed, 20);
	/* Results are right even if more shapes alternate than there are graphs. */
	for (int i = 0; i < 5 * KINDS; i++)
		step_run(q, &s[i % KINDS], 0);
	queue_close(q);
}

TEST(graphs_random_steps)
{
	struct wrong_queue *q = queue_open();
	struct made s[20];
	struct gpu_host_counts c;

	for (int i = 0; i < 20; i++)
		s[i] = shape_random((int)(test_rand() % 12));
	counted();
	for (int i = 0; i < 400; i++)
		step_run(q, &s[test_rand() % 3 ? test_rand() % 4 : test_rand() % 20], (int)(test_rand() % 2));
	c = counted();
	CHECK(c.replayed > 100 && c.built >= 4);
	test_note("%llu steps: %llu plain, %llu built, %llu replayed", (unsigned long long)c.steps,
	          (unsigned long long)c.plain, (unsigned long long)c.built, (unsigned long long)c.replayed);
	queue_close(q);
}
