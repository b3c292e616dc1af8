/* engine/cache/kv_store.h (private to engine/) - stores the keys and values of all layers.
 *
 * Each layer has two planes (arrays), for keys and for values, ordered by KV head. A *slot* is the index of a
 * token's entry in every head of a layer. Keys are stored after RoPE. A layer that reads another layer's entries
 * (layer_entries()) has no planes of its own.
 *
 * A *full layer* attends to all tokens. Its planes are [n_kv_head * cap][head_dim]. The retention (retain_*.c)
 * decides which token is in which slot.
 *
 * A *sliding-window layer* attends to the newest tokens only. Its planes are [n_kv_head * window_cap][head_dim]. Token
 * i is in slot i, which is row i - base of each head. When a plane has no room for a step, kv_slide() moves the newest
 * rows to its front. */
#ifndef WEIR_KV_STORE_H
#define WEIR_KV_STORE_H

#include "engine/cache/kv_types.h"
#include "engine/model/hparams.h"
#include "engine/model/rope.h"

struct kv_store {
	const struct hparams *hp;
	struct backend *be;
	struct tensor *k, *v; /* [n_layer] planes of keys and of values */
	int32_t n_layer, cap; /* `cap` is the number of slots per head in full layers */
	int32_t window_cap;   /* slots per head in sliding-window layers; 0: the model has no such layers */
	/* `ctx` is an upper limit of every window, `step` is the maximum number of tokens of a step */
	int32_t ctx, step;
	int endless;
	int32_t base; /* in sliding-window layers, the number of the slot in row 0 of each head */
	/* in sliding-window layers, the first slot whose entry was not dropped; no later slot was dropped either */
	int32_t held;
	/* `pin` is the length of the pinned prefix in tokens. A rollback to the end of this prefix needs sliding-window
	 * entries that later tokens may have overwritten. So `copy` has a copy of the windows that end before slot
	 * copy_end, in the layout of kv_window_read(). If copy_end is 0, there is no copy. */
	int32_t pin, copy_end;
	uint8_t *copy;
	/* [n_layer] The kind of each layer. A value >= 0 is the index of a full layer in full[]. The value -1 - i
	 * stands for the i-th sliding-window layer, counted from 0. A layer that reads another layer's entries has the
	 * value of that other layer. */
	int32_t *full_index;
	int32_t *full, n_full; /* [n_full] full layers with entries of their own */
	struct kv_types types;
	/* Planes of full layers may be in a file (kv_disk.c). */
	uint64_t disk; /* bytes of the file; 0: no file */
	int fd;
	/* *lost becomes nonzero when a page of the file could not be read (mapped.h). NULL: there is no file. */
	atomic_int *lost;
	uint64_t *at;           /* [n_layer] file offset of a layer's keys; the layer's values follow */
	uint64_t resident;      /* maximum number of bytes of the file that are in memory at a time */
	struct kv_ahead *ahead; /* reads the file's pages ahead of use; NULL: there is no file */
	/* copies in memory of the entries selected most recently from the file (kv_file_cache.h), or NULL */
	struct kv_file_cache *file_cache;
	/* keys and values of full layers, if they are in host memory beside a GPU (kv_host.h); otherwise NULL */
	struct kv_host *host;
	/* used only if keys and values are in a file: the highest slot that was written in full layers since
	 * kv_clear(), plus 1 */
	int32_t written;
	/* kv_put() and kv_attend() add the seconds that they take to *clock; NULL: they do not measure time */
	double *clock;
};

/* Sizes of a store. */
struct kv_shape {
	int32_t cap;  /* slots per head of full layers */
	int32_t ctx;  /* requested context in tokens; no window is larger */
	int32_t step; /* maximum number of tokens of a step */
	int endless;  /* 1: a sequence can be longer than cap */
	/* If keys and values of full layers are in a file, the maximum number of bytes of the file that are in memory
	 * at a time, at least kv_disk_least(). 0 if there is no file. */
	uint64_t resident;
	/* if keys and values are in a file, the number of selected entries per KV head that are cached in memory; 0:
	 * none */
	int32_t lines;
	/* If keys and values of full layers are in host memory, the number of selected entries per KV head that the
	 * device caches, at least kv_host_lines_least(). 0 if keys and values are on the device. */
	int32_t device_lines;
	int32_t listed; /* if device_lines > 0, the maximum number of entries per KV head that a token selects */
	/* 1: do not reserve disk space for the file, because kv_swap() will replace the file before anything is
	 * written */
	int unreserved;
};
/* Planes of sliding-window layers have room for tokens before the window, at least WINDOW_LEAST and at most WINDOW_KEPT
 * tokens. After a rollback by that many tokens the windows are still complete. */
enum { WINDOW_KEPT = 4096, WINDOW_LEAST = 64 };
/* Return the size of one token's KV entries in bytes: in all layers, in full layers, or in sliding-window layers. A
 * layer that reads another layer's entries adds nothing. */
uint64_t kv_token_bytes(const struct hparams *, struct kv_types);
uint64_t kv_full_token_bytes(const struct hparams *, struct kv_types);
uint64_t kv_window_token_bytes(const struct hparams *, struct kv_types);
/* Return how many bytes of one token's entries all full layers together read. An entry that several layers read counts
 * several times. */
uint64_t kv_full_read_bytes(const struct hparams *, struct kv_types);
/* Return the size of all planes and of the copy of pinned windows, in bytes. */
uint64_t kv_bytes(const struct hparams *, struct kv_types, const struct kv_shape *);
/* Return the size of a file with the planes of full layers, in bytes. */
uint64_t kv_disk_bytes(const struct hparams *, struct kv_types, int32_t cap);
/* Return the smallest possible memory limit if keys and values are in a file, in bytes. This is the size of the largest
 * layer, because only one layer at a time must be in memory. */
uint64_t kv_disk_least(const struct hparams *, struct kv_types, int32_t cap);
int kv_init(struct kv_store *, struct backend *, const struct hparams *, struct kv_types, const struct kv_shape *,
            struct err *);
void kv_release(struct kv_store *);
/* Exchange the keys and values of two stores of the same model and type. Each store keeps its own memory limit
 * `resident`. Each store also keeps its own caches of selected entries (file_cache, host), but these are emptied. */
void kv_swap(struct kv_store *, struct kv_store *);
/* Copy the first n slots of `from` to an empty store of the same model, type and capacity. Return 0, or -1 if memory is
 * short. */
int kv_copy(struct kv_store *, const struct kv_store *from, int32_t n);

/* Make room for a step after n tokens, by dropping the oldest slots of the sliding-window layers. */
void kv_slide(struct kv_store *, int32_t n);
/* Copy to kv->copy the KV entries that a token right after the pinned prefix would read in sliding-window layers. Do
 * nothing if these layers have already dropped some of the entries. All slots before kv->pin must be written. */
void kv_keep_pinned(struct kv_store *);
/* Roll back to the first n slots, and return 1. Return 0 if the sliding-window layers no longer have all entries that
 * the next token reads. */
int kv_rollback(struct kv_store *, int32_t n);
/* Return how many tokens a query of this layer attends to, its own token included; 0 means all tokens. */
int32_t kv_window(const struct kv_store *, int32_t layer);
/* Return the largest window of all layers, or 0 if no layer has a window. */
int32_t kv_window_most(const struct kv_store *);
/* Return how many bytes a token at position pos reads in sliding-window layers. */
uint64_t kv_window_read_bytes(const struct kv_store *, int32_t pos);
/* 1 if the sliding-window layers have all entries that the next token after n tokens reads. */
int kv_complete(const struct kv_store *, int32_t n);
/* Return the first slot that a token at position pos reads in a sliding-window layer. The slot depends on pos, not on
 * `base`, so kv_slide() does not change the order in which attention sums. */
int32_t kv_window_first(const struct kv_store *, int32_t layer, int32_t pos);
/* Return the maximum number of slots that one attention call reads. */
static inline int32_t kv_read_most(const struct kv_store *kv)
{
	return MAX(kv->cap, kv->window_cap);
}
/* Remove all entries. */
void kv_clear(struct kv_store *);

/* ---- operations of a step on the planes (kv_attend.c) ---- */

/* Rotate keys x [n][heads * head_dim] by the layer's RoPE table and write the result to out (may be x). If the layer
 * has no RoPE, copy x to out. */
void kv_rotate(const struct kv_store *, int32_t layer, struct tensor *out, const struct tensor *x, const struct rope *,
               int32_t n);
/* Rotate queries x [n][n_head * head_dim] in the way that kv_rotate() rotates keys. */
void kv_rotate_queries(const struct kv_store *, int32_t layer, struct tensor *out, const struct tensor *x,
                       const struct rope *, int32_t n);
/* Write k and v, f32 [n][n_kv_head * head_dim], into n slots of a layer with entries of its own, from slot0 on. */
void kv_put(struct kv_store *, int32_t layer, const struct tensor *k, const struct tensor *v, int32_t slot0, int32_t n);
/* The arguments of attention in one layer (backend.h: struct attn_args). */
struct kv_call {
	struct tensor *out; /* f32 [n][n_head * head_dim]: result of the attention */
	const struct attn_segment *seg;
	int32_t n_seg;
	int prompt;                 /* 1: the tokens belong to a prompt */
	const struct tensor *sinks; /* the layer's attention sinks, or NULL */
	/* blocks of KV entries that each token reads; NULL: each token reads all entries */
	const struct tensor *blocks;
	const struct attn_probe *probe; /* recorder of attention weights, or NULL */
};
/* Compute the attention of n tokens that read the same segments (ranges or lists of slots). If a list of slots is not
 * selected yet, the slots are selected first. */
void kv_attend(struct kv_store *, int32_t layer, const struct kv_call *, int32_t n);
/* Compute the attention of n tokens, with a struct kv_call for each token; n is at most ATTN_EACH_MOST. */
void kv_attend_each(struct kv_store *, int32_t layer, const struct kv_call *, int32_t n);
/* For each segment that has a selection (attn_segment.selection), select the slots now, and set this member to NULL. */
void kv_select(struct kv_store *, struct attn_segment *, int32_t n_seg);
/* Return the number of slots that a segment lists for a KV head (attn_segment.lengths). */
int32_t kv_list_length(const struct kv_store *, const struct attn_segment *, int32_t head);
/* Read the flag of a predicate. The host does not wait for a device if the flag has a copy in host memory and no call
 * of the backend is pending. After a failure of the backend, return a value for which the predicate is true. */
int32_t kv_flag(const struct kv_store *, const struct predicate *);
/* Remove the segments (ranges or lists of slots) whose predicate (attn_segment.when) is false. Return how many segments
 * remain. The flags are read from the backend or, if `flag` is not NULL, taken to have the value *flag. */
int kv_segments_met(const struct kv_store *, struct attn_segment *, int32_t n_seg, const int32_t *flag);

/* ---- the planes of a layer, for kv_*.c ---- */

/* Return the number of KV heads of a layer. */
static inline int32_t kv_layer_heads(const struct hparams *hp, int32_t layer)
{
	return model_layer_spec(hp, layer)->attn.n_kv_head;
}
/* Return the size of one key, or of one value, in one KV head of a layer, in bytes. */
static inline uint64_t kv_layer_row_bytes(const struct hparams *hp, enum dtype type, int32_t layer)
{
	return dtype_bytes(type, (uint64_t)model_layer_spec(hp, layer)->attn.head_dim);
}
/* Return the size of one key and its value in one KV head of a layer, in bytes. */
static inline uint64_t kv_layer_entry_bytes(const struct hparams *hp, struct kv_types types, int32_t layer)
{
	return kv_layer_row_bytes(hp, types.k, layer) + kv_layer_row_bytes(hp, types.v, layer);
}
/* Return the number of slots per head of a layer. */
static inline int32_t kv_layer_slots(const struct kv_store *kv, int32_t layer)
{
	return kv->full_index[layer] < 0 ? kv->window_cap : kv->cap;
}
/* Return the number of the slot in row 0 of each head of a layer. */
static inline int32_t kv_layer_base(const struct kv_store *kv, int32_t layer)
{
	return kv->full_index[layer] < 0 ? kv->base : 0;
}

/* ---- keys and values in a file (kv_disk.c); these functions do nothing if there is no file ---- */

/* Drop a layer's keys and values from memory, unless the layer stays in memory (kv_stays()). Call this after every
 * access to the layer. */
void kv_used(const struct kv_store *, int32_t layer);
/* Return an upper limit of the memory that the file's planes take, in bytes. */
uint64_t kv_disk_resident(const struct kv_store *);
/* Check that all entries on disk could be read back. Returns 0, or -1 with an error message. */
int kv_check_readable(const struct kv_store *, struct err *);
/* ---- functions of kv_disk.c for kv_store.c ---- */
int kv_disk_open(struct kv_store *, int unreserved, struct err *);
int kv_disk_alloc(struct kv_store *, int32_t layer);
void kv_disk_close(struct kv_store *);
/* Unregister the mappings of a layer's planes. Call this before releasing the planes. */
void kv_disk_drop(struct kv_store *, int32_t layer);
void kv_disk_clear(struct kv_store *);
/* Record that slots were written: discard the cached copies of these slots and, if the slots are many, start writing
 * them to disk. */
void kv_written(struct kv_store *, int32_t layer, int32_t slot0, int32_t n);
/* ---- functions of kv_disk.c for kv_ahead.c ---- */
/* 1 if the layer stays in memory. */
int kv_stays(const struct kv_store *, int32_t layer);
/* Return the file offset of the key (plane = 0) or value (plane = 1) in a slot of a head. */
uint64_t kv_file_offset(const struct kv_store *, int32_t layer, int plane, int32_t head, int32_t slot);
typedef void kv_range_fn(int fd, uint64_t off, uint64_t n);
/* Call fn with the file ranges of n slots from slot0 on, for keys and values of each head. */
void kv_file_ranges(const struct kv_store *, int32_t layer, int32_t slot0, int32_t n, kv_range_fn *);

/* ---- reading the file ahead of use (kv_ahead.c) ---- */

/* Which selected slots are prefetched from disk. They are prefetched only if the last step has read from the disk.
 * Contiguous slots of the next layer are always prefetched. */
enum {
	/* prefetch the slots that the next layer selected for the previous token, while this layer computes */
	AHEAD_LAST = 1,
	/* prefetch the slots that a layer has just selected, before its attention starts */
	AHEAD_CHOICE = 2
};
struct kv_ahead {
	int kinds;
	int io;            /* file descriptor of /proc/self/io, which counts bytes read from disks; -1: not available */
	uint64_t had;      /* number of bytes that the process had read from disks before this step */
	int cold;          /* 1: the last step read from the disk */
	int32_t generates; /* number of tokens that this step decodes or verifies; 0: the step is a prefill step */
	struct kv_list {
		int32_t *slot, n, room;
	} * list; /* [n_layer][heads] slots that each layer selected most recently, ascending */
	int32_t n_list, heads;
	/* Sums since the last prefill. `tokens` is the number of decoded tokens, `fetched` the number of bytes read
	 * from disks, `selected` the number of slots that the decoded tokens selected. `again` is how many of these
	 * slots the previous token had also selected, in the same layer and head. */
	uint64_t tokens, fetched, selected, again;
};
struct kv_ahead *kv_ahead_open(const struct kv_store *);
void kv_ahead_close(struct kv_ahead *);
/* Begin a step. `generates` is the number of tokens that the step decodes, or 0 for a prefill step. */
void kv_ahead_step(struct kv_store *, int32_t generates);
/* Set *fetched to the bytes read from disk per decoded token, and *overlap to the share of selected slots that the
 * previous token had also selected. A value that is not known is set to -1. */
void kv_ahead_stats(const struct kv_store *, double *fetched, double *overlap);
/* 1 if a layer must select before it attends, so that the selected entries can be prefetched or copied. */
int kv_ahead_wants(const struct kv_store *, int32_t layer);
/* Request from disk the pages that this layer or the next one will read (kv_ahead.c). The segments (ranges or lists of
 * slots) are those to which the layer is about to attend. */
void kv_ahead_ask(const struct kv_store *, int32_t layer, const struct attn_segment *, int32_t n_seg);
/* Ask the system to read the file pages of these slots of a head before they are needed. */
void kv_ahead_slots(const struct kv_store *, int32_t layer, int32_t head, const int32_t *slot, int32_t n);
/* Record which slots a layer has selected. The segments (ranges or lists of slots) are those to which the layer has
 * just attended. */
void kv_ahead_note(struct kv_store *, int32_t layer, const struct attn_segment *, int32_t n_seg);

/* ---- entries as bytes ---- */

/* Copy n slots of all layers, from slot0 on, to or from a buffer [layers_with_entries()][K, V][n_kv_head][n], which has
 * kv_token_bytes() per token. If a sliding-window layer has dropped an entry, the entry is taken from kv->copy. If the
 * entry is not in kv->copy either, its bytes in the buffer are 0xff, a NaN in every type. */
void kv_entries_read(const struct kv_store *, int32_t slot0, int32_t n, void *out);
void kv_entries_write(struct kv_store *, int32_t slot0, int32_t n, const void *entries);
/* 1 if sliding-window layers have the entry of at least one of the n slots from slot0 on. Also 1 if the model has no
 * sliding-window layer. */
int kv_windows_hold(const struct kv_store *, int32_t slot0, int32_t n);
/* Write n slots of full layers, from slot0 on, from a buffer in the layout of kv_full_read(). After this,
 * sliding-window layers have no entries of these slots and of all slots before them. */
void kv_entries_write_full(struct kv_store *, int32_t slot0, int32_t n, const void *entries);
/* Copy slots of full layers (kv_full_token_bytes() per token), or of sliding-window layers (kv_window_token_bytes() per
 * token), to or from a buffer. For kv_window_read(), all these slots must be present. kv_window_write() first drops all
 * slots before slot0; the layers must have room for n slots. */
void kv_full_read(const struct kv_store *, int32_t slot0, int32_t n, void *out);
void kv_full_write(struct kv_store *, int32_t slot0, int32_t n, const void *entries);
void kv_window_read(const struct kv_store *, int32_t slot0, int32_t n, void *out);
void kv_window_write(struct kv_store *, int32_t slot0, int32_t n, const void *entries);
/* 1 if kv_window_write() has room for n slots from slot0 on. */
int kv_window_fits(const struct kv_store *, int32_t slot0, int32_t n);

#endif
