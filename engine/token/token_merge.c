/* engine/token/token_merge.c - merges the symbols of one word, for both kinds of BPE; caches encoded words.
 *
 * A symbol is at first a byte or a character. The symbols of a word form a doubly linked list. Each symbol has the rank
 * of its merge with the next symbol, and the merge with the lowest rank is done first. In a short word a linear search
 * finds this merge. A long word (a megabyte of one letter is possible) uses a heap of entries (rank, index), which
 * takes O(n log n) in all. When the rank of a symbol changes, its old entry stays in the heap. Such an entry is
 * recognised, and skipped, because its rank differs from the symbol's. */
#include "engine/token/token_private.h"

#include <stdlib.h>
#include <string.h>

/* SHORT_WORD is the maximum number of symbols of a word for the linear search. SEEN_SLOTS is the number of entries of
 * the cache of encoded words, and SEEN_BYTES the maximum length in bytes of a word in this cache. The cache is used for
 * texts of at least SEEN_TEXT bytes. */
enum { SHORT_WORD = 24, SEEN_SLOTS = 4096, SEEN_BYTES = 32, SEEN_TEXT = 2048 };

int merge_reserve(struct encoder *e, size_t n)
{
	e->n_sym = 0;
	if (n > e->cap_sym) {
		size_t cap = MAX(256, n);
		free(e->sym);
		e->cap_sym = 0;
		e->sym = try_alloc(cap, sizeof *e->sym, "the symbols of a word", e->err);
		if (!e->sym)
			return -1;
		e->cap_sym = cap;
	}
	return 0;
}

int run_reserve(struct encoder *e, size_t n)
{
	if (n > e->cap_run) {
		size_t cap = MAX(256, n);
		free(e->run);
		e->cap_run = 0;
		e->run = try_alloc(cap, 1, "the text to encode", e->err);
		if (!e->run)
			return -1;
		e->cap_run = cap;
	}
	return 0;
}

int run_grow(struct encoder *e, size_t n)
{
	size_t cap = MAX(2 * n, 256);
	uint32_t *end = NULL;
	char *run;

	if (n <= e->cap_run)
		return 0;
	if (n > NORMAL_BYTES_MAX)
		return err_set(e->err, ERR_FIT,
		               "a text of over %d bytes after normalising is too long to encode at once",
		               NORMAL_BYTES_MAX);
	if (!(run = try_alloc(cap, 1, "the text to encode", e->err)) ||
	    (e->ends && !(end = try_alloc(cap, sizeof *end, "the ends of tokens", e->err)))) {
		free(run);
		return -1;
	}
	if (e->cap_run)
		memcpy(run, e->run, e->cap_run);
	if (e->cap_run && e->ends)
		memcpy(end, e->run_end, e->cap_run * sizeof *end);
	free(e->run);
	free(e->run_end);
	e->run = run;
	e->run_end = end;
	e->cap_run = cap;
	return 0;
}

static void rank_pair(struct encoder *e, const char *word, int32_t i, pair_fn *pair)
{
	struct symbol *a = &e->sym[i];
	a->rank = NO_RANK;
	if (a->next >= 0)
		pair(e->v, word, a, &e->sym[a->next]);
}

/* Merge symbol i with the next symbol. Then look up the ranks of the new symbol's merges with its two neighbours. */
static void merge_at(struct encoder *e, const char *word, int32_t i, pair_fn *pair)
{
	struct symbol *a = &e->sym[i], *b = &e->sym[a->next];

	a->id = a->to;
	a->len += b->len;
	a->next = b->next;
	b->rank = NO_RANK; /* with this rank, entries for b in the heap are skipped */
	if (a->next >= 0)
		e->sym[a->next].prev = i;
	rank_pair(e, word, i, pair);
	if (a->prev >= 0)
		rank_pair(e, word, a->prev, pair);
}

static void merge_short(struct encoder *e, const char *word, pair_fn *pair)
{
	for (;;) {
		uint32_t best = NO_RANK;
		int32_t at = -1;
		for (int32_t i = 0; i >= 0; i = e->sym[i].next)
			if (e->sym[i].rank < best) {
				best = e->sym[i].rank;
				at = i;
			}
		if (at < 0)
			return;
		merge_at(e, word, at, pair);
	}
}

static void heap_sink(uint64_t *h, size_t n, size_t i, uint64_t x)
{
	for (;;) {
		size_t kid = 2 * i + 1;
		if (kid >= n)
			break;
		if (kid + 1 < n && h[kid + 1] < h[kid])
			kid++;
		if (h[kid] >= x)
			break;
		h[i] = h[kid];
		i = kid;
	}
	h[i] = x;
}

static void heap_rise(uint64_t *h, size_t i, uint64_t x)
{
	while (i && h[(i - 1) / 2] > x) {
		h[i] = h[(i - 1) / 2];
		i = (i - 1) / 2;
	}
	h[i] = x;
}

static int merge_long(struct encoder *e, const char *word, pair_fn *pair)
{
	size_t n = 0, need = 2 * e->n_sym; /* room for all entries: each merge removes one entry and adds at most two */
	uint64_t *h;

	if (need > e->cap_heap) {
		free(e->heap);
		e->cap_heap = 0;
		e->heap = try_alloc(need, sizeof *e->heap, "the merges of a word", e->err);
		if (!e->heap)
			return -1;
		e->cap_heap = need;
	}
	h = e->heap;
	for (size_t i = 0; i < e->n_sym; i++)
		if (e->sym[i].rank != NO_RANK)
			h[n++] = (uint64_t)e->sym[i].rank << 32 | i;
	for (size_t i = n / 2; i-- > 0;)
		heap_sink(h, n, i, h[i]);
	while (n) {
		uint64_t top = h[0];
		int32_t i = (int32_t)(uint32_t)top, prev;

		n--;
		if (n)
			heap_sink(h, n, 0, h[n]);
		if (e->sym[i].rank != top >> 32)
			continue;
		merge_at(e, word, i, pair);
		prev = e->sym[i].prev;
		if (e->sym[i].rank != NO_RANK)
			heap_rise(h, n++, (uint64_t)e->sym[i].rank << 32 | (uint32_t)i);
		if (prev >= 0 && e->sym[prev].rank != NO_RANK)
			heap_rise(h, n++, (uint64_t)e->sym[prev].rank << 32 | (uint32_t)prev);
	}
	return 0;
}

int merge_symbols(struct encoder *e, const char *word, pair_fn *pair)
{
	size_t n = e->n_sym;

	for (size_t i = 0; i < n; i++) {
		e->sym[i].prev = (int32_t)i - 1;
		e->sym[i].next = i + 1 < n ? (int32_t)i + 1 : -1;
	}
	for (size_t i = 0; i < n; i++)
		rank_pair(e, word, (int32_t)i, pair);
	if (n > SHORT_WORD)
		return merge_long(e, word, pair);
	if (n)
		merge_short(e, word, pair);
	return 0;
}

int has_unknown(const struct vocab *v)
{
	return v->info.unk >= 0 && (v->marks || v->type[v->info.unk] == TOKEN_UNKNOWN);
}

int encode_unknown(struct encoder *e, unsigned char byte)
{
	const struct vocab *v = e->v;

	if (has_unknown(v)) {
		tokens_add(e->out, v->info.unk);
		return 0;
	}
	if (v->marks || (byte >= ' ' && byte <= '~'))
		return err_set(e->err, ERR_MODEL, "the vocabulary has no token for byte 0x%02x and no unknown token",
		               byte);
	return 0;
}

/* ---- the cache of words ---- */

void seen_start(struct encoder *e, size_t n)
{
	e->use_seen = n >= SEEN_TEXT;
	if (!e->use_seen)
		return;
	if (!e->seen)
		e->seen = xmalloc(SEEN_SLOTS * sizeof *e->seen);
	memset(e->seen, 0, SEEN_SLOTS * sizeof *e->seen);
}

int seen_again(struct encoder *e, const char *base, size_t at, size_t len, struct word_seen **slot)
{
	struct word_seen *w;

	*slot = NULL;
	if (!e->use_seen || len > SEEN_BYTES)
		return 0;
	w = &e->seen[hash_bytes(e->v->seed, base + at, len) % SEEN_SLOTS];
	if (w->len != len || memcmp(base + w->at, base + at, len)) {
		*slot = w;
		return 0;
	}
	for (uint32_t i = 0; i < w->out_n; i++)
		tokens_add(e->out, e->out->id[w->out_at + i]);
	return 1;
}

void seen_keep(struct encoder *e, struct word_seen *slot, size_t at, size_t len, size_t out_at)
{
	uint32_t n = (uint32_t)(e->out->n - out_at);
	if (slot)
		*slot = (struct word_seen){ .at = (uint32_t)at, .len = (uint32_t)len, .out_at = out_at, .out_n = n };
}
