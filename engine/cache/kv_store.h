/* engine/cache/kv_store.h (private to engine/) - the planes that hold keys and values, and the operations on them.
 *
 * Terms: a *full layer* attends to all tokens; a *sliding-window layer* attends to the newest tokens only. A *slot*
 * is the place of one token's KV entry in every head of a layer.
 *
 * Each layer has one K plane and one V plane, head-major, so that attention streams the slots of one head. Keys are
 * stored rotated. A layer that borrows entries (layer_entries()) uses the planes of the layer that it borrows
 * from.
 *
 *     full layers            [n_kv_head * cap][head_dim]; the retention (retain_*.c) decides which token's entry a slot
 *                            holds
 *     sliding-window layers  [n_kv_head * window_cap][head_dim]; slot i is token i under every policy; the newest tokens
 *                            are present; slot s is row s - base of its head. When a plane has no room for a step,
 *                            kv_slide() moves the newest rows to its front. */
#ifndef WEIR_KV_STORE_H
#define WEIR_KV_STORE_H

#include "engine/model/hparams.h"
#include "engine/model/rope.h"

struct kv_store {
	const struct hparams *hp;
	struct backend *be;
	struct tensor *k, *v; /* [n_layer] planes of keys and of values */
	int32_t n_layer, cap; /* cap: slots per head in full layers */
	int32_t window_cap;   /* slots per head in sliding-window layers; 0: the model has none */
	int32_t ctx, step;    /* ctx: upper limit of every window; step: most tokens of a step */
	int endless;
	int32_t base; /* sliding-window layers: the slot in row 0 of each head */
	int32_t held; /* sliding-window layers lack the entries of slots before this one */
	/* pin: length of the pinned prefix. A rollback to its end needs its windows, which the planes may have
	 * overwritten: `copy` keeps the windows before slot copy_end (0: no copy), laid out as by
	 * kv_window_read(). */
	int32_t pin, copy_end;
	uint8_t *copy;
	/* [n_layer] index among the full layers; -1 - index among the others for a sliding-window layer; a borrowing
	 * layer has that of its lender */
	int32_t *place;
	int32_t *full, n_full; /* [n_full] full layers with entries of their own */
	enum dtype type;
	/* Planes of full layers may be in a file (kv_disk.c). */
	uint64_t disk; /* bytes of the file; 0: no file */
	int fd;
	atomic_int *lost;       /* set when pages of the file cannot be read (mapped.h); NULL without a file */
	uint64_t *at;           /* [n_layer] file offset of a layer's keys, which its values follow */
	uint64_t resident;      /* most bytes of the file's planes in memory at a time */
	struct kv_ahead *ahead; /* reads the file's pages ahead of use; NULL without a file */
	struct kv_rows *rows;   /* copies in memory of the entries last selected from the file (kv_rows.h), or NULL */
	/* state for full layers' planes in host memory, with a GPU (kv_host.h); NULL if they are on the GPU */
	struct kv_host *host;
	int32_t written; /* slots written since kv_clear(), counted from slot 0 */
	double *clock;   /* time spent in kv_put() and kv_attend() is added here, in seconds; NULL disables timing */
};

/* Sizes of a store. */
struct kv_shape {
	int32_t cap;  /* slots per head of full layers */
	int32_t ctx;  /* requested context in tokens; no window is larger */
	int32_t step; /* most tokens of a step */
	int endless;  /* 1: a sequence can be longer than cap */
	/* Most bytes of full layers in memory, the rest being in a file; at least kv_disk_least(). 0: no file. */
	uint64_t resident;
	/* with a file: how many selected entries per KV head are cached in memory; 0 disables it */
	int32_t rows;
	/* Selected entries per KV head on the device, the planes of full layers being in host memory; at least
	 * kv_host_rows_least(). 0: all planes are on the device. */
	int32_t device_rows;
	int32_t listed; /* with device_rows: most entries that a token selects */
	/* 1: reserve no disk space, because the store only takes over another store's file and is never written */
	int unreserved;
};
/* WINDOW_KEPT: tokens that a rollback can go back with complete windows, if the cache keeps as many. WINDOW_LEAST:
 * tokens that it can go back in any case. */
enum { WINDOW_KEPT = 4096, WINDOW_LEAST = 64 };
/* Bytes of one token's KV entries: in all layers, in full layers, in sliding-window layers. Borrowed entries do not
 * count. */
uint64_t kv_token_bytes(const struct hparams *, enum dtype);
uint64_t kv_full_token_bytes(const struct hparams *, enum dtype);
uint64_t kv_window_token_bytes(const struct hparams *, enum dtype);
/* Bytes of one token's entries that full layers read, borrowing layers included. */
uint64_t kv_full_read_bytes(const struct hparams *, enum dtype);
/* Bytes of all planes and of the copy of pinned windows. */
uint64_t kv_bytes(const struct hparams *, enum dtype, const struct kv_shape *);
/* Bytes of a file with the planes of full layers. */
uint64_t kv_disk_bytes(const struct hparams *, enum dtype, int32_t cap);
/* Return the memory in bytes that is needed while one layer of a cache file is in use. */
uint64_t kv_disk_least(const struct hparams *, enum dtype, int32_t cap);
int kv_init(struct kv_store *, struct backend *, const struct hparams *, enum dtype, const struct kv_shape *,
            struct err *);
void kv_release(struct kv_store *);
/* Exchange the planes of two stores of the same model and type. Each store keeps its own limit of memory, rows and
 * host planes. */
void kv_swap(struct kv_store *, struct kv_store *);
/* Copy the first n slots of `from` to an empty store of the same model, type and capacity. 0, or -1 without
 * memory. */
int kv_copy(struct kv_store *, const struct kv_store *from, int32_t n);

/* Make room for a step behind n slots in the sliding-window layers, dropping their oldest slots. */
void kv_slide(struct kv_store *, int32_t n);
/* Copy the windows before slot `pin`, if the planes have them. All slots before it must be written. */
void kv_keep_pinned(struct kv_store *);
/* Truncate to the first n slots. Return 1, or 0 if sliding-window layers lack entries that the next token would
 * read. */
int kv_return(struct kv_store *, int32_t n);
/* Return how many tokens a query of this layer attends to, itself included; 0 means all tokens. */
int32_t kv_window(const struct kv_store *, int32_t layer);
/* The largest window of all layers, or 0. */
int32_t kv_window_most(const struct kv_store *);
/* Bytes that a token at position pos reads in sliding-window layers. */
uint64_t kv_window_read_bytes(const struct kv_store *, int32_t pos);
/* 1 if the windows of a token behind n tokens are complete. */
int kv_complete(const struct kv_store *, int32_t n);
/* The first slot of the part that a token at position pos reads in a sliding-window layer. It depends on pos alone,
 * so results do not depend on `base`. */
int32_t kv_window_first(const struct kv_store *, int32_t layer, int32_t pos);
/* Most slots that one call of attention reads. */
static inline int32_t kv_read_most(const struct kv_store *kv)
{
	return MAX(kv->cap, kv->window_cap);
}
/* Forget all entries. */
void kv_clear(struct kv_store *);

/* ---- what a step does with the planes (kv_attend.c) ---- */

/* Rotate keys x [n][heads * head_dim] by the layer's RoPE table into out, which may be x. A layer without RoPE copies
 * x. */
void kv_rotate(const struct kv_store *, int32_t layer, struct tensor *out, const struct tensor *x, const struct rope *,
               int32_t n);
/* Rotate queries, as kv_rotate() does keys. */
void kv_rotate_queries(const struct kv_store *, int32_t layer, struct tensor *out, const struct tensor *x,
                       const struct rope *, int32_t n);
/* Write k and v, f32 [n][n_kv_head * head_dim], into slots slot0 .. slot0 + n of a layer with entries of its own. */
void kv_put(struct kv_store *, int32_t layer, const struct tensor *k, const struct tensor *v, int32_t slot0, int32_t n);
/* The arguments of attention in one layer (backend.h: struct attn_args). */
struct kv_call {
	struct tensor *out; /* f32 [n][n_head * head_dim] */
	const struct attn_part *part;
	int32_t n_part;
	int prompt;                     /* 1: the tokens are of a prompt */
	const struct tensor *sinks;     /* the layer's attention sinks; NULL: none */
	const struct tensor *blocks;    /* blocks of KV entries that each token reads; NULL: all */
	const struct attn_probe *probe; /* may be NULL */
};
/* Compute the attention of n tokens that read the same parts. Parts with a selection get their slots in the same
 * pass. */
void kv_attend(struct kv_store *, int32_t layer, const struct kv_call *, int32_t n);
/* Compute the attention of n tokens, each with a call of its own; n is at most ATTN_EACH_MOST. */
void kv_attend_each(struct kv_store *, int32_t layer, const struct kv_call *, int32_t n);
/* Run the selections of the parts now and clear them. */
void kv_select(struct kv_store *, struct attn_part *, int32_t n_part);
/* Remove the parts whose predicate (attn_part.when) is false. Reads the predicates from the backend. Returns how many
 * parts are left. */
int kv_parts_met(const struct kv_store *, struct attn_part *, int32_t n_part);

/* ---- the planes of a layer, for kv_*.c ---- */

/* KV heads of a layer. */
static inline int32_t kv_layer_heads(const struct hparams *hp, int32_t layer)
{
	return model_layer_spec(hp, layer)->attn.n_kv_head;
}
/* Bytes of one key, or of one value, in one KV head of a layer. */
static inline uint64_t kv_layer_row_bytes(const struct hparams *hp, enum dtype type, int32_t layer)
{
	return dtype_bytes(type, (uint64_t)model_layer_spec(hp, layer)->attn.head_dim);
}
/* Slots per head of a layer. */
static inline int32_t kv_layer_slots(const struct kv_store *kv, int32_t layer)
{
	return kv->place[layer] < 0 ? kv->window_cap : kv->cap;
}
/* The slot in row 0 of each head of a layer. */
static inline int32_t kv_layer_base(const struct kv_store *kv, int32_t layer)
{
	return kv->place[layer] < 0 ? kv->base : 0;
}

/* ---- planes in a file (kv_disk.c); without one these do nothing ---- */

/* Note that the planes of a layer were read or written, and drop their pages from memory unless the layer stays
 * there. Call it after every access to planes. */
void kv_used(const struct kv_store *, int32_t layer);
/* Most bytes of the file's planes in memory. */
uint64_t kv_disk_resident(const struct kv_store *);
/* Return 0, or -1 with an error sentence if entries on disk are lost. */
int kv_check_there(const struct kv_store *, struct err *);
/* ---- for kv_store.c ---- */
int kv_disk_open(struct kv_store *, int unreserved, struct err *);
int kv_disk_alloc(struct kv_store *, int32_t layer);
void kv_disk_close(struct kv_store *);
/* Call before the planes of a layer are released. */
void kv_disk_drop(struct kv_store *, int32_t layer);
void kv_disk_clear(struct kv_store *);
void kv_written(struct kv_store *, int32_t layer, int32_t slot0, int32_t n);
/* ---- for kv_ahead.c ---- */
/* 1 if the layer stays in memory. */
int kv_stays(const struct kv_store *, int32_t layer);
/* File offset of a slot of a head; plane: 0 keys, 1 values. */
uint64_t kv_file_row(const struct kv_store *, int32_t layer, int plane, int32_t head, int32_t slot);
typedef void kv_range_fn(int fd, uint64_t off, uint64_t n);
/* Call fn for slots slot0 .. slot0 + n of each head, keys and values. */
void kv_file_rows(const struct kv_store *, int32_t layer, int32_t slot0, int32_t n, kv_range_fn *);

/* ---- reading planes in a file ahead (kv_ahead.c) ---- */

/* Which selected slots are requested from disk, if the last step had to wait for the disk. Contiguous slots of the
 * next layer are always requested. */
enum {
	AHEAD_LAST =
		1, /* prefetch the slots that the next layer selected for the previous token, while this layer computes */
	AHEAD_CHOICE = 2 /* prefetch the slots that a layer has just selected, before its attention starts */
};
struct kv_ahead {
	int kinds;
	int io;            /* file descriptor of /proc/self/io, which counts bytes read from disks; -1: not available */
	uint64_t had;      /* bytes read before this step */
	int cold;          /* 1: the last step read from the disk */
	int32_t generates; /* tokens that this step decodes or tries; 0: it prefills */
	struct kv_list {
		int32_t *slot, n, room;
	} * list; /* [n_full][n_kv_head] last selected slots, ascending */
	int32_t n_list, heads;
	/* Sums over the tokens decoded since the last prefill. tokens: their number; fetched: bytes read from disks;
	 * selected: selected slots; again: those that the previous token had selected in the same layer and head. */
	uint64_t tokens, fetched, selected, again;
};
struct kv_ahead *kv_ahead_open(const struct kv_store *);
void kv_ahead_close(struct kv_ahead *);
/* Begin a step that decodes `generates` tokens; 0: it prefills. */
void kv_ahead_step(struct kv_store *, int32_t generates);
/* Bytes fetched per token and overlap of selections (struct timeline_stats); -1: unknown. */
void kv_ahead_stats(const struct kv_store *, double *fetched, double *overlap);
/* 1 if a layer must select before it attends, so that the selected entries can be prefetched or copied. */
int kv_ahead_wants(const struct kv_store *, int32_t layer);
/* Request pages before a layer attends to these parts. */
void kv_ahead_ask(const struct kv_store *, int32_t layer, const struct attn_part *, int32_t n_part);
/* Ask the system to read the file pages of these slots of a head, before they are accessed. */
void kv_ahead_rows(const struct kv_store *, int32_t layer, int32_t head, const int32_t *slot, int32_t n);
/* Remember the selection of a layer that has attended to these parts. */
void kv_ahead_note(struct kv_store *, int32_t layer, const struct attn_part *, int32_t n_part);

/* ---- entries as bytes ---- */

/* Copy slots slot0 .. slot0 + n of all planes to or from bytes [layers_with_entries()][K, V][n_kv_head][n],
 * kv_token_bytes() a token. Entries that a sliding-window layer lacks are written as bytes 0xff, a NaN in every
 * type. */
void kv_entries_read(const struct kv_store *, int32_t slot0, int32_t n, void *out);
void kv_entries_write(struct kv_store *, int32_t slot0, int32_t n, const void *entries);
/* 1 if sliding-window layers have an entry of slots slot0 .. slot0 + n, or the model has no such layer. */
int kv_windows_hold(const struct kv_store *, int32_t slot0, int32_t n);
/* Write slots of full layers from bytes laid out as by kv_full_read(). Sliding-window layers lack the entries of
 * these slots. */
void kv_entries_write_full(struct kv_store *, int32_t slot0, int32_t n, const void *entries);
/* Copy slots of full layers (kv_full_token_bytes() a token), or of sliding-window layers (kv_window_token_bytes() a
 * token), which must have all these slots. kv_window_write() forgets slots before slot0; the n slots must fit. */
void kv_full_read(const struct kv_store *, int32_t slot0, int32_t n, void *out);
void kv_full_write(struct kv_store *, int32_t slot0, int32_t n, const void *entries);
void kv_window_read(const struct kv_store *, int32_t slot0, int32_t n, void *out);
void kv_window_write(struct kv_store *, int32_t slot0, int32_t n, const void *entries);
/* 1 if slots slot0 .. slot0 + n fit kv_window_write(). */
int kv_window_fits(const struct kv_store *, int32_t slot0, int32_t n);

#endif
