/* tests/cuda/t_cuda_fetch.c - fetch_slots and fetch_range of the CUDA backend, on the emulated device
 * (tests/cuda/emulator/host.cuh) or on a GPU.
 *
 * Rows, maps and counts must have the bits of the CPU backend, whether entries are fetched on demand or by a prefetch.
 * If entries of a prefetch are used before fetch_wait(), this must be reported. t_cuda_device.c runs the same tests on
 * a simulated CUDA runtime. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/cuda/cuda_test.h"
#include "tests/cuda/emulator/gpu_host.h"
#include "tests/lib/levels.h"

struct fetch_shape {
	int32_t dim, heads, cap, lines, n;
	enum dtype type;
};
static const struct fetch_shape fetch_shapes[] = {
	{ 64, 3, 900, 150, 100, DT_F16 }, { 32, 1, 40, 10, 10, DT_Q8_0 },       { 33, 2, 70, 70, 9, DT_F32 },
	{ 40, 2, 300, 20, 16, DT_BF16 },  { 64, 1, 3000, 1300, 1100, DT_Q8_0 }, { 6, 2, 33, 1, 1, DT_F16 },
};

/* The tensors of one backend: planes in host memory, fetched entries, and the map from slots to cache lines. */
struct fetch_set {
	struct backend *be;
	struct tensor k, v, from_k, from_v, map, list, slots, next, count, count_ahead;
};

static struct tensor host_plane(struct backend *be, const struct fetch_shape *s, const void *data)
{
	struct tensor t = { .type = s->type, .rows = s->heads * s->cap, .cols = s->dim };

	CHECK_MSG(be->ops->alloc_host(be, &t) == 0, "%s", be->err);
	be->ops->write(be, &t, 0, data, (size_t)dtype_bytes(t.type, (uint64_t)t.cols) * (size_t)t.rows);
	return t;
}

static struct fetch_set set_open(struct backend *be, const struct fetch_shape *s, const void *k, const void *v)
{
	return (struct fetch_set){
		.be = be,
		.k = tensor_new(be, s->type, s->heads * s->lines, s->dim, NULL),
		.v = tensor_new(be, s->type, s->heads * s->lines, s->dim, NULL),
		.from_k = host_plane(be, s, k),
		.from_v = host_plane(be, s, v),
		.map = tensor_new(be, DT_I32, s->heads, (int32_t)fetch_map_cols(s->cap, s->lines) + 1, NULL),
		.list = tensor_new(be, DT_I32, s->heads, s->n, NULL),
		.slots = tensor_new(be, DT_I32, s->heads, s->n + 2, NULL),
		.next = tensor_new(be, DT_I32, s->heads, s->lines, NULL),
		.count = tensor_new(be, DT_I32, s->heads + 1, FETCH_COUNTS, NULL),
		.count_ahead = tensor_new(be, DT_I32, s->heads + 1, FETCH_COUNTS, NULL),
	};
}

static void set_close(struct fetch_set *f)
{
	struct tensor *all[] = { &f->k,    &f->v,     &f->from_k, &f->from_v, &f->map,
		                 &f->list, &f->slots, &f->next,   &f->count,  &f->count_ahead };

	for (size_t i = 0; i < LEN(all); i++)
		f->be->ops->drop(f->be, all[i]);
	finish(f->be);
}

static void set_fetch(struct fetch_set *f, const struct fetch_shape *s, const int32_t *want, int32_t n, int ahead)
{
	struct tensor *slots = ahead ? &f->next : &f->slots;

	for (int32_t h = 0; h < s->heads; h++)
		f->be->ops->write(f->be, slots, 4 * (size_t)h * (size_t)slots->cols, want + h * s->cap, 4 * (size_t)n);
	f->be->ops->fetch_slots(f->be, &(struct fetch_args){
					       .k = &f->k,
					       .v = &f->v,
					       .from_k = &f->from_k,
					       .from_v = &f->from_v,
					       .map = &f->map,
					       .slots = slots,
					       .list = ahead ? NULL : &f->list,
					       .count = ahead ? &f->count_ahead : &f->count,
					       .count_row = 1,
					       .n_kv_head = s->heads,
					       .cap = s->cap,
					       .lines = s->lines,
					       .n = n,
					       .ahead = ahead,
				       });
}

/* Mark n slots from `from` on as not fetched, as the engine does when their entries are written again. */
static void set_forget(struct fetch_set *f, const struct fetch_shape *s, int32_t from, int32_t n)
{
	int32_t *none = must_alloc(4 * (size_t)n);

	for (int32_t h = 0; h < s->heads; h++)
		f->be->ops->write(f->be, &f->map, 4 * ((size_t)h * (size_t)f->map.cols + FETCH_AT + (size_t)from), none,
		                  4 * (size_t)n);
	free(none);
}

static void *bytes_of(struct backend *be, const struct tensor *t)
{
	size_t n = (size_t)dtype_bytes(t->type, (uint64_t)t->cols) * (size_t)t->rows;
	void *p = must_alloc(n);

	be->ops->read(be, t, 0, p, n);
	return p;
}

static void same_tensor(const struct fetch_set *a, const struct fetch_set *b, const struct tensor *x,
                        const struct tensor *y, const char *what, int round)
{
	void *p = bytes_of(a->be, x), *q = bytes_of(b->be, y);

	CHECK_MSG(!memcmp(p, q, (size_t)dtype_bytes(x->type, (uint64_t)x->cols) * (size_t)x->rows),
	          "round %d: another %s", round, what);
	free(p);
	free(q);
}

/* Check that the cache lines in the list hold the wanted entries, and that no line is used twice. */
static void holds(const struct fetch_set *f, const struct fetch_shape *s, const int32_t *want, int32_t n,
                  const uint8_t *from, const struct tensor *to)
{
	size_t row = (size_t)dtype_bytes(s->type, (uint64_t)s->dim);
	uint8_t *got = bytes_of(f->be, to), *taken = must_alloc((size_t)s->lines);
	int32_t *list = bytes_of(f->be, &f->list);
	int wrong = 0;

	for (int32_t h = 0; h < s->heads; h++) {
		memset(taken, 0, (size_t)s->lines);
		for (int32_t i = 0; i < n; i++) {
			int32_t r = list[h * f->list.cols + i], slot = want[h * s->cap + i];

			wrong += r < 0 || r >= s->lines || taken[r] ||
			         memcmp(got + row * (size_t)(h * s->lines + r),
			                from + row * (size_t)(h * s->cap + slot), row);
			if (r >= 0 && r < s->lines)
				taken[r] = 1;
		}
	}
	CHECK_INT(wrong, 0);
	free(got);
	free(list);
	free(taken);
}

/* Shuffle the wanted slots of each head; all = 0: shuffle only a third of them. */
static void shuffle(int32_t *want, const struct fetch_shape *s, int all)
{
	for (int32_t h = 0; h < s->heads; h++)
		for (int32_t i = 0; i < s->cap; i++) {
			int32_t *a = want + h * s->cap + i,
				*b = want + h * s->cap + (int32_t)(test_rand() % (uint64_t)s->cap), was = *a;

			if (!all && i % 3)
				continue;
			*a = *b;
			*b = was;
		}
}

static void fetch_rounds(const struct fetch_shape *s)
{
	size_t bytes = (size_t)dtype_bytes(s->type, (uint64_t)s->dim) * (size_t)s->heads * (size_t)s->cap;
	uint8_t *k = must_alloc(bytes), *v = must_alloc(bytes);
	int32_t *want = must_alloc(4 * (size_t)s->heads * (size_t)s->cap);
	struct fetch_set a, b;
	struct backend *gpu = NULL;
	char err[160] = "";

	for (size_t i = 0; i < bytes; i++) {
		k[i] = (uint8_t)test_rand();
		v[i] = (uint8_t)test_rand();
	}
	for (int32_t i = 0; i < s->heads * s->cap; i++)
		want[i] = i % s->cap;
	CHECK_MSG(test_cuda_open(&gpu, err) == 0, "%s", err);
	CHECK(gpu->device == 1);
	a = set_open(open_level("c", 1), s, k, v);
	b = set_open(gpu, s, k, v);
	shuffle(want, s, 1);
	for (int round = 0; round < 12; round++) {
		int32_t n = round % 4 == 3 ? s->n / 2 + 1 : s->n,
			ahead = s->n + s->n / 4 < s->lines ? s->n + s->n / 4 : s->lines;

		ahead = MIN(ahead, s->cap);
		for (int i = 0; i < 2; i++)
			set_fetch(i ? &b : &a, s, want, n, 0);
		holds(&b, s, want, n, k, &b.k);
		holds(&b, s, want, n, v, &b.v);
		if (round % 3)
			for (int i = 0; i < 2; i++)
				set_fetch(i ? &b : &a, s, want, ahead, 1);
		gpu->ops->fetch_wait(gpu);
		same_tensor(&a, &b, &a.map, &b.map, "map", round);
		same_tensor(&a, &b, &a.k, &b.k, "row of keys", round);
		same_tensor(&a, &b, &a.v, &b.v, "row of values", round);
		same_tensor(&a, &b, &a.list, &b.list, "list", round);
		same_tensor(&a, &b, &a.count, &b.count, "count", round);
		same_tensor(&a, &b, &a.count_ahead, &b.count_ahead, "count of what came ahead", round);
		if (round % 5 == 4)
			for (int i = 0; i < 2; i++)
				set_forget(i ? &b : &a, s, s->cap / 3, s->cap / 2);
		shuffle(want, s, round == 6);
	}
	set_close(&a);
	set_close(&b);
	free(k);
	free(v);
	free(want);
}

TEST(cuda_fetch_slots_as_the_cpu)
{
	for (size_t i = 0; i < LEN(fetch_shapes); i++)
		for (unsigned order = 0; order < (i ? 2 : 3); order++) {
			gpu_host_order(order);
			fetch_rounds(&fetch_shapes[i]);
		}
	gpu_host_order(2);
}

TEST(cuda_fetch_range)
{
	for (size_t i = 0; i < LEN(fetch_shapes); i++) {
		const struct fetch_shape *s = &fetch_shapes[i];
		size_t row = (size_t)dtype_bytes(s->type, (uint64_t)s->dim),
		       bytes = row * (size_t)s->heads * (size_t)s->cap;
		uint8_t *from = must_alloc(bytes), *want = must_alloc(bytes), *got;
		struct backend *be = NULL;
		struct tensor t, host;
		char err[160] = "";

		for (size_t j = 0; j < bytes; j++)
			from[j] = (uint8_t)test_rand();
		CHECK_MSG(test_cuda_open(&be, err) == 0, "%s", err);
		host = host_plane(be, s, from);
		t = tensor_new(be, s->type, s->heads * s->cap, s->dim, NULL);
		for (int32_t slot = s->cap / 5, n = s->cap / 2, round = 0; round < 2; round++, slot = 1, n = 3) {
			be->ops->fetch_range(be, &t, &host, s->heads, s->cap, slot, n);
			for (int32_t h = 0; h < s->heads; h++)
				memcpy(want + row * (size_t)(h * s->cap + slot),
				       from + row * (size_t)(h * s->cap + slot), row * (size_t)n);
		}
		got = bytes_of(be, &t);
		CHECK_MSG(!memcmp(got, want, bytes), "shape %zu: other rows", i);
		be->ops->drop(be, &t);
		be->ops->drop(be, &host);
		finish(be);
		free(from);
		free(want);
		free(got);
	}
}

TEST(cuda_fetch_refuses)
{
	const struct fetch_shape *s = &fetch_shapes[0];
	uint8_t *p = must_alloc((size_t)dtype_bytes(s->type, (uint64_t)s->dim) * (size_t)s->heads * (size_t)s->cap);
	struct fetch_shape wrong[] = { *s, *s, *s };
	int32_t *want = must_alloc(4 * (size_t)s->heads * (size_t)s->cap);
	struct backend *be = NULL;
	struct fetch_set f;
	char err[160] = "";

	CHECK_MSG(test_cuda_open(&be, err) == 0, "%s", err);
	f = set_open(be, s, p, p);
	wrong[0].lines++; /* more lines than there are */
	wrong[1].cap++;
	wrong[2].heads++;
	for (int i = 0; i < 3; i++) {
		be->ops->fetch_slots(be, &(struct fetch_args){
						 .k = &f.k,
						 .v = &f.v,
						 .from_k = &f.from_k,
						 .from_v = &f.from_v,
						 .map = &f.map,
						 .slots = &f.slots,
						 .list = &f.list,
						 .count = &f.count,
						 .n_kv_head = wrong[i].heads,
						 .cap = wrong[i].cap,
						 .lines = wrong[i].lines,
						 .n = 1,
					 });
		CHECK(be->ops->sync(be) < 0 && strstr(be->err, "internal: fetch_slots of 1 entries"));
	}
	be->ops->fetch_range(be, &f.from_v, &f.from_k, s->heads, s->cap, s->cap - 1, 2);
	CHECK(be->ops->sync(be) < 0 && strstr(be->err, "internal: fetch_range of slots"));
	set_close(&f);
	free(p);
	free(want);
}

#ifndef TEST_CUDA_PLAYED
TEST(cuda_fetch_without_a_wait_is_told)
{
	const struct fetch_shape *s = &fetch_shapes[3];
	uint8_t *p = must_alloc((size_t)dtype_bytes(s->type, (uint64_t)s->dim) * (size_t)s->heads * (size_t)s->cap);
	int32_t *want = must_alloc(4 * (size_t)s->heads * (size_t)s->cap), n;

	CUDA_HOST_ONLY();
	for (int32_t i = 0; i < s->heads * s->cap; i++)
		want[i] = i % s->cap;
	for (int mistake = 0; mistake < 4; mistake++) {
		struct backend *be = NULL;
		struct fetch_set f;
		char err[160] = "";

		CHECK_MSG(test_cuda_open(&be, err) == 0, "%s", err);
		f = set_open(be, s, p, p);
		set_fetch(&f, s, want, s->n, 1);
		if (mistake == 1)
			set_fetch(&f, s, want, s->n, 0);
		else if (mistake == 2)
			be->ops->read(be, &f.k, 0, &n, sizeof n);
		else if (mistake == 3)
			be->ops->write(be, &f.map, 0, &n, sizeof n);
		CHECK_INT(be->ops->sync(be), mistake ? -1 : 0);
		CHECK_MSG(!mistake || strstr(be->err, "launches beside may still be writing"), "mistake %d: %s",
		          mistake, be->err);
		CHECK_MSG(mistake != 1 || strstr(be->err, "kernel fetch_launch"), "%s", be->err);
		set_close(&f);
	}
	free(p);
	free(want);
}
#endif
