/* kernels/cpu/fetch.c - fetch_range and fetch_slots: copy KV entries from host memory to a smaller cache. On the CPU
 * all memory is host memory, so the copy gains nothing. This code is the reference, with which device kernels are
 * compared bit by bit. All work runs on the calling thread; a prefetch is complete when the call returns. */
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/select.h"

/* The data of a call for one KV head. */
struct fetch_head {
	const struct fetch_args *a;
	int32_t head, call;
	/* `map` points to this KV head's part of fetch_args.map. The other four pointers point into this part. In the
	 * list below, a row is a row of fetch_args.k and v:
	 * - at[s] is 1 + the line that has a copy of slot s, or 0 if there is no copy in the cache.
	 * - slot[r] is 1 + the slot whose entry is in line r, or 0 if line r is empty.
	 * - used[r] is the number of the call that last used line r.
	 * - pair[] lists the wanted slots that have no copy: two numbers for each, the slot and its index in want[].
	 *   line_give() replaces the index by the line that the slot gets. */
	int32_t *map, *at, *slot, *used, *pair;
	const int32_t *want;
	int32_t *list;
};

static struct fetch_head head_of(const struct fetch_args *a, int32_t head)
{
	int32_t *map = (int32_t *)a->map->data + (size_t)head * (size_t)a->map->cols, *at = map + FETCH_AT,
		*slot = at + a->cap;

	return (struct fetch_head){
		.a = a,
		.head = head,
		.map = map,
		.at = at,
		.slot = slot,
		.used = slot + a->lines,
		.pair = slot + 2 * (size_t)a->lines,
		.want = (const int32_t *)a->slots->data + (size_t)head * (size_t)a->slots->cols,
		.list = a->ahead ? NULL : (int32_t *)a->list->data + (size_t)head * (size_t)a->list->cols,
	};
}

/* Find the wanted slots that have no copy in the cache (missing slots). List each of them in f->pair, with its index in
 * f->want, and return their number. For a wanted slot that has a copy, write its line to f->list, and mark the line as
 * used by this call. */
static int32_t find_missing(struct fetch_head *f)
{
	int32_t n = 0;

	for (int32_t i = 0; i < f->a->n; i++) {
		int32_t s = f->want[i], line = (uint32_t)s < (uint32_t)f->a->cap ? f->at[s] : -1;

		if (line == 0) {
			f->pair[2 * n] = s;
			f->pair[2 * n++ + 1] = i;
			continue;
		}
		if (line > 0)
			f->used[line - 1] = f->call;
		if (f->list)
			f->list[i] = line > 0 ? line - 1 : 0;
	}
	return n;
}

/* 1 if line `line` has an entry that is still valid. This is so if at[] maps the entry's slot to this line. */
static int line_has(const struct fetch_head *f, int32_t line)
{
	return f->slot[line] && f->at[f->slot[line] - 1] == line + 1;
}

static void line_give(struct fetch_head *f, int32_t line, int32_t *pair)
{
	if (line_has(f, line))
		f->at[f->slot[line] - 1] = 0;
	f->slot[line] = pair[0] + 1;
	f->at[pair[0]] = line + 1;
	f->used[line] = f->call;
	if (f->list)
		f->list[pair[1]] = line;
	pair[1] = line;
}

/* Give lines to n missing slots. Return the number of slots that got a line. The first pass takes lines that are empty,
 * or whose entry was not used by this call and the previous call. The second pass takes any line that this call does
 * not use. A prefetch has no second pass. */
static int32_t give_lines(struct fetch_head *f, int32_t n)
{
	int32_t lines = f->a->lines, hand = f->map[FETCH_HAND], given = 0;

	for (int pass = 0; pass < 2 - f->a->ahead; pass++)
		for (int32_t i = 0; i < lines && given < n; i++) {
			int32_t line = hand + i < lines ? hand + i : hand + i - lines;

			if (pass ? f->used[line] >= f->call : line_has(f, line) && f->used[line] >= f->call - 1)
				continue;
			line_give(f, line, f->pair + 2 * given++);
			f->map[FETCH_HAND] = line + 1 < lines ? line + 1 : 0;
		}
	return given;
}

static void lines_copy(const struct fetch_head *f, struct tensor *to, const struct tensor *from, int32_t n)
{
	size_t row = (size_t)dtype_bytes(to->type, (uint64_t)to->cols), head = (size_t)f->head;

	for (int32_t i = 0; i < n; i++)
		memcpy((char *)to->data + row * (head * (size_t)f->a->lines + (size_t)f->pair[2 * i + 1]),
		       (const char *)from->data + row * (head * (size_t)f->a->cap + (size_t)f->pair[2 * i]), row);
}

void cpu_fetch_slots(struct backend *be, const struct fetch_args *a)
{
	if (be->failed || fetch_check(be, a) < 0 || !a->n)
		return;
	for (int32_t h = 0; h < a->n_kv_head; h++) {
		struct fetch_head f = head_of(a, h);
		int32_t *count = (int32_t *)a->count->data + (size_t)(a->count_row + h) * FETCH_COUNTS, n;

		f.call = f.map[FETCH_CALLS] += !a->ahead;
		n = give_lines(&f, find_missing(&f));
		f.map[FETCH_MISSED] = n;
		count[FETCH_COUNT_WANTED] += a->ahead ? 0 : a->n;
		count[a->ahead ? FETCH_COUNT_AHEAD : FETCH_COUNT_BROUGHT] += n;
		lines_copy(&f, a->k, a->from_k, n);
		lines_copy(&f, a->v, a->from_v, n);
	}
}

void cpu_fetch_range(struct backend *be, struct tensor *to, const struct tensor *from, int32_t n_kv_head, int32_t cap,
                     int32_t slot0, int32_t n)
{
	size_t row;

	if (be->failed || fetch_range_check(be, to, from, n_kv_head, cap, slot0, n) < 0)
		return;
	row = (size_t)dtype_bytes(to->type, (uint64_t)to->cols);
	for (int32_t h = 0; h < n_kv_head; h++) {
		size_t at = row * ((size_t)h * (size_t)cap + (size_t)slot0);

		memcpy((char *)to->data + at, (const char *)from->data + at, row * (size_t)n);
	}
}

void cpu_fetch_wait(struct backend *be)
{
	(void)be;
}
