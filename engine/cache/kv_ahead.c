/* engine/cache/kv_ahead.c - requests KV entries from disk before attention needs them. A disk serves many requests at
 * once in little more time than one request. Without this file, attention would request one page after the other, and
 * wait for each.
 *
 * While a layer computes, these slots are requested:
 * - contiguous slots that the next layer will read;
 * - slots that this layer has just selected; if memory caches selected entries (kv_file_cache.h), only slots that are
 *   not cached;
 * - if memory does not cache selected entries: slots that the next layer selected for the previous token, because it
 *   selects most of them again.
 *
 * Requests for selected slots cost a system call per page. So they are made only while the process reads from disk. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/cache/kv_file_cache.h"

/* Requests for two ranges of the file are merged if at most this many bytes lie between them: one larger read is faster
 * than two reads. */
enum { GAP = 32 << 10 };

/* Return the bytes that this process has read from disks so far, or 0 if the system does not report them. */
static uint64_t bytes_read(const struct kv_ahead *a)
{
	char text[512], *at;
	ssize_t n = a->io < 0 ? -1 : pread(a->io, text, sizeof text - 1, 0);

	text[MAX(n, 0)] = 0;
	at = strstr(text, "\nread_bytes: ");
	return at ? strtoull(at + 13, NULL, 10) : 0;
}

struct kv_ahead *kv_ahead_open(const struct kv_store *kv)
{
	struct kv_ahead *a = xcalloc(1, sizeof *a);

	for (int32_t i = 0; i < kv->hp->n_layer; i++) {
		int32_t heads = model_layer_spec(kv->hp, i)->attn.n_kv_head;

		a->heads = MAX(heads, a->heads);
	}
	a->kinds = AHEAD_LAST | AHEAD_CHOICE;
	a->n_list = kv->hp->n_layer * a->heads;
	a->list = xcalloc((size_t)a->n_list, sizeof *a->list);
	a->io = open("/proc/self/io", O_RDONLY | O_CLOEXEC);
	a->had = bytes_read(a);
	return a;
}

void kv_ahead_close(struct kv_ahead *a)
{
	if (!a)
		return;
	if (a->io >= 0)
		close(a->io);
	for (int32_t i = 0; i < a->n_list; i++)
		free(a->list[i].slot);
	free(a->list);
	free(a);
}

void kv_ahead_step(struct kv_store *kv, int32_t generates)
{
	struct kv_ahead *a = kv->ahead;
	uint64_t now;

	if (!a)
		return;
	now = bytes_read(a);
	a->cold = now > a->had;
	if (a->generates) {
		a->fetched += now - a->had;
		a->tokens += (uint64_t)a->generates;
	}
	a->had = now;
	a->generates = generates;
	if (!generates)
		a->tokens = a->fetched = a->selected = a->again = 0;
}

static void read_early(int fd, uint64_t off, uint64_t n)
{
	posix_fadvise(fd, (off_t)off, (off_t)n, POSIX_FADV_WILLNEED);
}

/* 1 if the slots that a layer selects must be requested from disk before the layer computes attention. */
static int asks_choice(const struct kv_store *kv, int32_t layer)
{
	return kv->ahead->cold && kv->ahead->kinds & AHEAD_CHOICE && !kv_stays(kv, layer);
}

int kv_ahead_wants(const struct kv_store *kv, int32_t layer)
{
	return kv->ahead && kv->full_index[layer] >= 0 && (kv->file_cache || asks_choice(kv, layer));
}

/* Ask the system to read the file pages with keys and values of these slots of one head. slot[] is ascending. Requests
 * for neighbouring pages are merged. */
static void ask_for(const struct kv_store *kv, int32_t layer, int32_t head, const int32_t *slot, int32_t n)
{
	uint64_t row = kv_file_offset(kv, layer, 0, 0, 1) - kv_file_offset(kv, layer, 0, 0, 0),
		 page = (uint64_t)sysconf(_SC_PAGESIZE);

	for (int plane = 0; plane < 2; plane++) {
		uint64_t from = 0, to = 0;

		for (int32_t i = 0; i < n; i++) {
			uint64_t first = kv_file_offset(kv, layer, plane, head, slot[i]),
				 end = (first + row + page - 1) / page * page;

			first = first / page * page;
			if (to && first > to + GAP) {
				read_early(kv->fd, from, to - from);
				to = 0;
			}
			from = to ? from : first;
			to = MAX(end, to);
		}
		if (to)
			read_early(kv->fd, from, to - from);
	}
}

void kv_ahead_slots(const struct kv_store *kv, int32_t layer, int32_t head, const int32_t *slot, int32_t n)
{
	if (kv->ahead->cold && kv->ahead->kinds & AHEAD_CHOICE)
		ask_for(kv, layer, head, slot, n);
}

static int slot_order(const void *a, const void *b)
{
	const int32_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* Copy the list of selected slots of a head to the host and sort it in ascending order. */
static void list_read(const struct kv_store *kv, const struct attn_segment *p, int32_t head, struct kv_list *to)
{
	if (to->room < p->n_slots) {
		to->room = p->n_slots + p->n_slots / 4;
		to->slot = xrealloc(to->slot, (size_t)to->room * sizeof *to->slot);
	}
	to->n = p->n_slots;
	kv->be->ops->read(kv->be, p->slots, 4 * (size_t)head * (size_t)p->slots->cols, to->slot, 4 * (size_t)to->n);
	for (int32_t i = 1; i < to->n; i++)
		if (to->slot[i] < to->slot[i - 1]) {
			qsort(to->slot, (size_t)to->n, sizeof *to->slot, slot_order);
			return;
		}
}

void kv_ahead_ask(const struct kv_store *kv, int32_t layer, const struct attn_segment *seg, int32_t n_seg)
{
	const struct kv_ahead *a = kv->ahead;
	struct kv_list chosen = { 0 };
	int32_t next;

	if (!a || kv->full_index[layer] < 0)
		return;
	next = kv->full[(kv->full_index[layer] + 1) % kv->n_full];
	for (int32_t i = 0; i < n_seg; i++) {
		if (!seg[i].slots && !kv_stays(kv, next))
			kv_file_ranges(kv, next, seg[i].slot0, seg[i].n_slots, read_early);
		for (int32_t h = 0; seg[i].slots && !seg[i].selection && !kv->file_cache && asks_choice(kv, layer) &&
		                    h < model_layer_spec(kv->hp, layer)->attn.n_kv_head;
		     h++) {
			list_read(kv, &seg[i], h, &chosen);
			ask_for(kv, layer, h, chosen.slot, chosen.n);
		}
	}
	free(chosen.slot);
	for (int32_t h = 0;
	     a->cold && a->generates && a->kinds & AHEAD_LAST && !kv->file_cache && h < a->heads && !kv_stays(kv, next);
	     h++)
		ask_for(kv, next, h, a->list[next * a->heads + h].slot, a->list[next * a->heads + h].n);
}

/* Return how many slots are in both lists. Both lists must be in ascending order. */
static int32_t in_both(const struct kv_list *a, const struct kv_list *b)
{
	int32_t n = 0;

	for (int32_t i = 0, j = 0; i < a->n && j < b->n;) {
		int32_t x = a->slot[i], y = b->slot[j];

		n += x == y;
		i += x <= y;
		j += y <= x;
	}
	return n;
}

void kv_ahead_note(struct kv_store *kv, int32_t layer, const struct attn_segment *seg, int32_t n_seg)
{
	struct kv_ahead *a = kv->ahead;
	struct kv_list chosen = { 0 };

	if (!a || kv->full_index[layer] < 0 || kv->be->failed)
		return;
	for (int32_t i = 0; i < n_seg; i++) {
		if (!seg[i].slots)
			continue;
		for (int32_t h = 0; h < model_layer_spec(kv->hp, layer)->attn.n_kv_head; h++) {
			struct kv_list *last = &a->list[layer * a->heads + h], was = *last;

			list_read(kv, &seg[i], h, &chosen);
			a->selected += was.n ? (uint64_t)chosen.n : 0;
			a->again += (uint64_t)in_both(&chosen, last);
			*last = chosen;
			chosen = was;
		}
		break; /* seg[] lists the newest selection first; ignore older lists */
	}
	free(chosen.slot);
}

void kv_ahead_stats(const struct kv_store *kv, double *fetched, double *overlap)
{
	const struct kv_ahead *a = kv->ahead;

	*fetched = a && a->tokens && a->io >= 0 ? (double)a->fetched / (double)a->tokens : -1;
	*overlap = a && a->selected ? (double)a->again / (double)a->selected : -1;
}
