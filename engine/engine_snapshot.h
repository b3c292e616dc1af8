/* engine/engine_snapshot.h - the door to a sequence as bytes: saving it, and continuing it bit for bit
 * (timeline/snapshot.c).
 *
 * A snapshot is fixed entries and a head.
 *     fixed entries   the KV entries of tokens 0 .. n that never move: token i stays in slot i until it is evicted.
 *                     Sequences with equal beginnings have equal fixed entries. They may be cut behind any token and
 *                     shared.
 *     head            everything else: token ids, KV entries that move (a bounded stream), the policy's state, the last
 *                     logits. Key sketches are recomputed after loading.
 * A timeline loaded from both has the same logits and generates the same tokens.
 *
 * Entries and heads fit only a timeline of equal identity. Whoever stores them compares the identities. One line may
 * differ, the engine's "kernels": entries of other kernels have the same layout and are equal up to rounding. Then
 * timeline_begun() has to name these kernels. */
#ifndef WEIR_ENGINE_SNAPSHOT_H
#define WEIR_ENGINE_SNAPSHOT_H

#include "engine/engine.h"

/* ---- identities ---- */

/* Append all that decides the bits of entries and logits, except the weights' bytes, as lines of text: format, byte
 * order, architecture, hyperparameters, tensors with types and shapes, tokenizer, instruction set. */
void engine_identity(const struct engine *, struct str *out);
/* Append the timeline's part: cache policy, type, batch, and the context if the policy's shape depends on it. */
void timeline_identity(const struct timeline *, struct str *out);
/* Append the part of timeline_identity() that decides the entries of tokens with MARK_READ. Prefill attends to
 * everything under every policy, so these entries are equal under all policies. */
void timeline_entries_identity(const struct timeline *, struct str *out);
/* State that the entries of the first n tokens were computed by other kernels, named by by[0 .. n_by). While the
 * sequence has such tokens, both identities of the timeline have the line "begun by BY until N", because later
 * entries depend on them. */
void timeline_begun(struct timeline *, const char *by, size_t n_by, int32_t n);

/* ---- saving ---- */

/* Return the bytes of one token's fixed entries, in all layers and KV heads; windows 0: without the layers with a
 * sliding window. */
uint64_t timeline_token_bytes(const struct timeline *, int windows);
/* Return n: timeline_entries_save() can save the fixed entries of tokens 0 .. n - 1. */
int32_t timeline_entries_ready(struct timeline *);
/* How a token was computed. Equal tokens with different marks have different entries. All marks are 0 if entries
 * depend on the tokens alone: under such a policy, or on a backend that computes prompts as it generates
 * (attn_args.prompt). */
enum token_mark {
	MARK_READ = 0,      /* prefilled */
	MARK_GENERATED = 1, /* decoded */
	MARK_READ_END =
		2, /* the last token of a prefill; of each of its steps, if results depend on the cut into steps */
	MARK_STREAM = 4, /* added: the first token behind a pinned prefix that generated tokens read by selection */
	MARK_MOST = MARK_STREAM + MARK_READ_END
};
/* Return the marks of tokens 0 .. *n, one byte each, valid until the next call. */
const uint8_t *timeline_marks(struct timeline *, size_t *n);
/* 1 if layers with a sliding window still hold an entry of tokens first .. first + n, or no layer has a window. */
int timeline_windows_hold(struct timeline *, int32_t first, int32_t n);
/* Write the fixed entries of tokens first .. first + n, timeline_token_bytes() each: [n_layer][K, V][n_kv_head][n].
 * windows 0: without the layers with a sliding window, because they have evicted these entries, or will evict them
 * after loading. */
int timeline_entries_save(struct timeline *, int32_t first, int32_t n, int windows, void *out, struct err *);
/* Append the head to *out. */
int timeline_head_save(struct timeline *, struct str *out, struct err *);

/* ---- loading: entries from token 0 on without gaps, then the head or timeline_adopt() ---- */

/* Load fixed entries. first = 0 empties the timeline, which has no tokens until timeline_head_load() or
 * timeline_adopt(). After -1 the timeline is empty. */
int timeline_entries_load(struct timeline *, int32_t first, int32_t n, int windows, const void *entries, struct err *);
/* Load the head. ERR_FAIL: it is damaged, or of another shape than this timeline and the loaded entries. After -1 the
 * timeline is empty. */
int timeline_head_load(struct timeline *, const void *head, size_t n, struct err *);
/* Continue without a head: the loaded entries are those of id[0 .. n), computed as marks say. Return how many of
 * these tokens the policy can continue from, or -1 and an empty timeline. The next sync prefills the other tokens. */
int32_t timeline_adopt(struct timeline *, const int32_t *id, const uint8_t *marks, size_t n, struct err *);

#endif
