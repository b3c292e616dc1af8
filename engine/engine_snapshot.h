/* engine/engine_snapshot.h - interface to save a token sequence with its KV cache, and to continue it later bit for
 * bit (timeline/snapshot.c).
 *
 * A snapshot has two parts. Fixed entries are KV entries that are still in the slot in which they were computed: the
 * entry of token i is in slot i. They can be loaded up to any token, and sequences that begin with equal tokens can
 * share them. The head is all other state: token ids, KV entries that have moved because the policy evicts, the
 * policy's state, the last logits. Key sketches are not saved but recomputed.
 *
 * With a snapshot the caller stores the identities of engine and timeline (text lines, see below). The caller loads the
 * snapshot only into a timeline with equal identities. Only the engine's line "kernels" may differ, because KV entries
 * of other CPU kernels are equal up to rounding. In that case the caller names the other kernels with
 * timeline_begun(). */
#ifndef WEIR_ENGINE_SNAPSHOT_H
#define WEIR_ENGINE_SNAPSHOT_H

#include "engine/engine.h"

/* ---- identities ---- */

/* Append lines of text with everything, except the weights' values, that decides the bits of KV entries and logits:
 * format, byte order, architecture, hyperparameters, types and shapes of tensors, tokenizer, CPU kernels. */
void engine_identity(const struct engine *, struct str *out);
/* Append lines of text with the timeline's settings that decide the bits of KV entries: cache policy, entry type,
 * step size, and the context if the policy depends on it. */
void timeline_identity(const struct timeline *, struct str *out);
/* Append those lines of timeline_identity() on which the KV entries of prefilled tokens (MARK_READ) depend. The cache
 * policy is left out: prefilled tokens attend to all entries under every policy. */
void timeline_entries_identity(const struct timeline *, struct str *out);
/* Declare that other CPU kernels have computed the entries of the first n tokens. by[0 .. n_by) is the name of these
 * kernels. While the sequence has such tokens, the timeline's identities have the line "begun by BY until N", because
 * later entries depend on earlier ones. */
void timeline_begun(struct timeline *, const char *by, size_t n_by, int32_t n);

/* ---- saving ---- */

/* Return the size in bytes of one token's fixed entries (KV entries that have not moved) in all layers and KV heads. If
 * `windows` is 0, do not count layers with a sliding window. */
uint64_t timeline_token_bytes(const struct timeline *, int windows);
/* Return how many tokens at the beginning of the sequence have fixed entries, so that timeline_entries_save() can save
 * them. */
int32_t timeline_entries_ready(struct timeline *);
/* How a token was computed. Equal tokens with different marks have different KV entries. If entries depend only on the
 * tokens, all marks are 0. This requires that the policy reads all entries, and that the backend rounds in the same way
 * in prefill and decode. */
enum token_mark {
	MARK_READ = 0,      /* prefilled */
	MARK_GENERATED = 1, /* decoded */
	/* the last token of a prefill; if results depend on the size of prefill steps, also the last token of each
	 * step */
	MARK_READ_END = 2,
	/* flag in the mark of the first token after a pinned prefix: generated tokens select entries of this prefix */
	MARK_STREAM = 4,
	MARK_MOST = MARK_STREAM + MARK_READ_END
};
/* Return the marks of the tokens, one byte each, which are valid until the next call. *n receives their number. */
const uint8_t *timeline_marks(struct timeline *, size_t *n);
/* 1 if the layers with a sliding window still have an entry of at least one of the n tokens from index `first` on. Also
 * 1 if no layer has a window. */
int timeline_windows_hold(struct timeline *, int32_t first, int32_t n);
/* Write the fixed entries (KV entries that have not moved) of n tokens, from index `first` on, to `out`. The layout is
 * [n_layer][K, V][n_kv_head][n], with timeline_token_bytes() bytes for each token. If `windows` is 0, leave out layers
 * with a sliding window. This is necessary if these layers have evicted the entries, or would evict them after
 * loading. */
int timeline_entries_save(struct timeline *, int32_t first, int32_t n, int windows, void *out, struct err *);
/* Append the snapshot's head (all state except the fixed entries) to *out. */
int timeline_head_save(struct timeline *, struct str *out, struct err *);

/* ---- loading: first all fixed entries from token 0 on, then timeline_head_load() or timeline_adopt() ---- */

/* Load the fixed entries of n tokens, from index `first` on. If `first` is 0, empty the timeline before loading. The
 * timeline has no tokens until timeline_head_load() or timeline_adopt() is called. On error return -1 and empty the
 * timeline. */
int timeline_entries_load(struct timeline *, int32_t first, int32_t n, int windows, const void *entries, struct err *);
/* Load the head (the part of a snapshot without the fixed entries). The error is ERR_FAIL if the head is damaged, or
 * does not fit this timeline and the loaded entries. After -1 the timeline is empty. */
int timeline_head_load(struct timeline *, const void *head, size_t n, struct err *);
/* Continue without the head of a snapshot: declare that the loaded KV entries belong to tokens id[0 .. n). marks[n]
 * tells how each token was computed (enum token_mark). Return the number of tokens that the sequence then has: the
 * policy may accept fewer than n, and the next timeline_sync() prefills the others. On error return -1 and empty the
 * timeline. */
int32_t timeline_adopt(struct timeline *, const int32_t *id, const uint8_t *marks, size_t n, struct err *);

/* ---- packed entries (packed.c): fixed entries in 4 bits a value, near the exact ones but not bit-equal ---- */

/* Return the head dimension if the fixed entries of this timeline can be packed, else 0. They can be packed if they are
 * f16 and if all layers have the same head dimension, which must be a multiple of 32 and at most 512. */
int32_t timeline_entries_dim(const struct timeline *);
/* How to pack the fixed entries of n tokens. (A fixed entry is a KV entry that is still in the slot in which it was
 * computed.) `dim` is the head dimension. `exact` is the number of tokens at the beginning whose entries are stored
 * unpacked. */
struct entries_packing {
	int32_t dim, n, exact;
};
/* Return the packed size, in bytes, of `bytes` bytes of fixed entries; 0: these entries cannot be packed. */
uint64_t entries_packed_bytes(struct entries_packing, uint64_t bytes);
/* Pack `bytes` bytes of fixed entries that timeline_entries_save() wrote. Entries that sliding-window layers lack are
 * packed as missing. `out` must have room for entries_packed_bytes() bytes, and the caller must check that this number
 * is not 0. Return 0, or -1 if a value is not finite. */
int entries_pack(struct entries_packing, const void *entries, uint64_t bytes, void *out);
/* Unpack to `bytes` bytes of entries. Even if the packed bytes are corrupt, each entry of a packed token is finite or
 * missing. The first `exact` tokens are not packed, so corrupt bytes can give them any values. */
void entries_unpack(struct entries_packing, const void *packed, void *entries, uint64_t bytes);

#endif
