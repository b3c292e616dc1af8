/* engine/token/token_trie.c - the prefix tree of a vocabulary. With this tree, encoders find all tokens that begin at
 * an offset in the text.
 *
 * Nodes are numbered level by level, so the children of a node have consecutive numbers. While the tree is built, the
 * tokens below each node are a range of one list. Sorting this range by the next byte gives the node's children. */
#include "engine/token/token_private.h"

#include <stdlib.h>
#include <string.h>

/* Return byte number d of a token's text, plus 1. Return 0 if the text has no byte d. */
static unsigned key_at(const struct vocab *v, int32_t id, uint32_t d)
{
	return d < v->off[id + 1] - v->off[id] ? (unsigned char)v->text[v->off[id] + d] + 1u : 0;
}

/* Sort the n ids list[] by key_at() of byte d. Ids with equal keys keep their order. spare[n] is working memory. */
static void sort_by_byte(const struct vocab *v, int32_t *list, int32_t *spare, uint32_t n, uint32_t d)
{
	uint32_t at[258] = { 0 };

	if (n <= 16) {
		for (uint32_t i = 1, k; i < n; i++) {
			int32_t id = list[i];
			unsigned key = key_at(v, id, d);

			for (k = i; k && key_at(v, list[k - 1], d) > key; k--)
				list[k] = list[k - 1];
			list[k] = id;
		}
		return;
	}
	for (uint32_t i = 0; i < n; i++)
		at[key_at(v, list[i], d) + 1]++;
	for (int b = 1; b < 258; b++)
		at[b] += at[b - 1];
	for (uint32_t i = 0; i < n; i++)
		spare[at[key_at(v, list[i], d)]++] = list[i];
	memcpy(list, spare, n * sizeof *list);
}

int trie_build(struct vocab *v, struct err *err)
{
	struct trie *t = &v->trie;
	uint32_t n_list = 0, most = 2, depth = 0, level_end = 1, n = 1;
	int32_t *list, *spare;
	/* Indexed by node: the tokens whose texts begin with the bytes of the node are list[from] to list[to - 1]. */
	struct {
		uint32_t from, to;
	} * below;

	for (int32_t i = 0; i < v->info.n; i++)
		if (v->type[i] == TOKEN_NORMAL && v->off[i + 1] > v->off[i]) {
			n_list++;
			most += v->off[i + 1] - v->off[i];
		}
	list = try_alloc(2 * (size_t)n_list, sizeof *list, "the index of the vocabulary", err);
	below = try_alloc(most, sizeof *below, "the index of the vocabulary", err);
	if (!list || !below || !(t->kid = try_alloc(most, sizeof *t->kid, "the index of the vocabulary", err)) ||
	    !(t->id = try_alloc(most, sizeof *t->id, "the index of the vocabulary", err)) ||
	    !(t->label = try_alloc(most, 1, "the index of the vocabulary", err))) {
		free(list);
		free(below);
		return -1;
	}
	spare = list + n_list;
	n_list = 0;
	for (int32_t i = 0; i < v->info.n; i++)
		if (v->type[i] == TOKEN_NORMAL && v->off[i + 1] > v->off[i])
			list[n_list++] = i;
	below[0].to = n_list;
	for (uint32_t node = 0; node < n; node++) {
		uint32_t i = below[node].from, to = below[node].to;

		if (node == level_end) {
			level_end = n;
			depth++;
		}
		sort_by_byte(v, list + i, spare, to - i, depth);
		t->id[node] = i < to && !key_at(v, list[i], depth) ? list[i] : -1;
		while (i < to && !key_at(v, list[i], depth))
			i++;
		t->kid[node] = n;
		while (i < to) {
			unsigned key = key_at(v, list[i], depth);

			t->label[n] = (uint8_t)(key - 1);
			below[n].from = i;
			while (i < to && key_at(v, list[i], depth) == key)
				i++;
			below[n++].to = i;
		}
	}
	t->kid[n] = n;
	free(list);
	free(below);
	t->kid = xrealloc(t->kid, ((size_t)n + 1) * sizeof *t->kid);
	t->id = xrealloc(t->id, n * sizeof *t->id);
	t->label = xrealloc(t->label, n);
	return 0;
}

uint32_t trie_step(const struct trie *t, uint32_t node, char byte)
{
	uint32_t lo = t->kid[node], end = t->kid[node + 1], hi = end;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (t->label[mid] < (unsigned char)byte)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < end && t->label[lo] == (unsigned char)byte ? lo : 0;
}
