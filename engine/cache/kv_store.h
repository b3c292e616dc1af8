/* engine/cache/kv_store.h (private to engine/) - the planes that hold keys and values, and the operations on them.
 *
 * One K and one V plane a layer, head-major: the slots of one head lie together and attention streams them. Keys are
 * stored rotated. A layer that borrows entries (layer_entries()) has the planes of the layer that it borrows from.
 *
 *     layers that attend to all tokens   [n_kv_head * cap][head_dim]; the retention (retain_*.c) decides which token's entry a slot holds
 *     layers with a sliding window       [n_kv_head * window_cap][head_dim]; slot i is token i, under every policy, and the newest tokens
 *                                        are there: slot s is row s - base of its head.  When the plane has no room for a step,
 *                                        kv_slide() moves the newest rows to its front. */
#ifndef WEIR_KV_STORE_H
#define WEIR_KV_STORE_H

#include "engine/model/hparams.h"
#include "engine/model/rope.h"

struct kv_store {
	const struct hparams *hp;
	struct backend *be;
	struct tensor *k, *v; /* [n_layer] */
	int32_t n_layer, cap; /* cap: slots of a head in layers without a window */
	int32_t window_cap;   /* the same with a window; 0: no layer has one */
	int32_t ctx, step;    /* windows are cut to the first; tokens of a step at most */
	int endless;
	int32_t base; /* layers with a window: the slot in row 0 of each head */
	int32_t held; /* these layers lack the entries of slots before it */
	/* So many slots at the start are pinned: a rollback can come back to their end, although their windows are gone
	 * from the planes. So a copy is kept of these, as kv_window_read() has them: the windows before slot copy_end
	 * (0: there is none). */
	int32_t pin, copy_end;
	uint8_t *copy;
	int32_t *place; /* [n_layer] the layer's number among those without a window; -1 - its number among the others;
	                            * that of the layer whose entries it borrows */
	int32_t *full, n_full; /* [n_full] the layers without a window that have entries of their own */
	enum dtype type;
	/* Where memory has no room for them, planes of layers without a window lie in a file (kv_disk.c). */
	uint64_t disk; /* bytes of that file; 0: there is none */
	int fd;
	atomic_int *lost;       /* pages of that file cannot be read any more (mapped.h); NULL without a file */
	uint64_t *at;           /* [n_layer] the file's byte where the keys of a layer begin; its values follow */
	uint64_t resident;      /* most bytes of these planes that are in memory at a time */
	struct kv_ahead *ahead; /* reads them before they are needed; NULL without a file */
	struct kv_rows *rows;   /* of them in memory, one by one, what was selected last (kv_rows.h); NULL: none */
	struct kv_host *host;   /* they lie in host memory beside a device (kv_host.h); NULL: they do not */
	int32_t written;        /* slots that have been written since kv_clear(), from the first on */
	double *clock;          /* seconds spent in kv_put() and kv_attend() are added here; NULL: not measured */
};

/* Sizes of a store. */
struct kv_shape {
	int32_t cap;  /* slots of layers without a window */
	int32_t ctx;  /* the context asked for: no window is larger */
	int32_t step; /* tokens of a step at most */
	int endless;  /* a sequence can be longer than cap */
	/* Layers without a window lie in a file, and at most so many bytes of them in memory: kv_disk_least() or more.
	 * 0: all in memory. */
	uint64_t resident;
	/* then: of each KV head so many selected entries are in memory beside them; 0: none */
	int32_t rows;
	/* Layers without a window lie in host memory, and of each KV head so many selected entries on the device:
	 * kv_host_rows_least() or more. 0: all of them on the device. */
	int32_t device_rows;
	int32_t listed; /* then: entries that a token selects at most */
	int unreserved; /* the file takes no space on the disk before it is written, which nobody does */
};
/* WINDOW_KEPT: tokens that a rollback can go back by with windows complete, where the cache holds as many;
 * WINDOW_LEAST: in any case. */
enum { WINDOW_KEPT = 4096, WINDOW_LEAST = 64 };
/* Bytes of one token's KV entries in all layers that have their own; in those without a window; in the others. */
uint64_t kv_token_bytes(const struct hparams *, enum dtype);
uint64_t kv_full_token_bytes(const struct hparams *, enum dtype);
uint64_t kv_window_token_bytes(const struct hparams *, enum dtype);
/* Bytes that layers without a window read of one token, also those that borrow entries. */
uint64_t kv_full_read_bytes(const struct hparams *, enum dtype);
/* Bytes of all planes. */
uint64_t kv_bytes(const struct hparams *, enum dtype, const struct kv_shape *);
/* Bytes of the file that layers without a window would take; of memory, while one of them is used. */
uint64_t kv_disk_bytes(const struct hparams *, enum dtype, int32_t cap);
uint64_t kv_disk_least(const struct hparams *, enum dtype, int32_t cap);
int kv_init(struct kv_store *, struct backend *, const struct hparams *, enum dtype, const struct kv_shape *,
            struct err *);
void kv_release(struct kv_store *);
/* Exchange the planes of two stores of the same model and type; what either may have in memory stays its own. */
void kv_swap(struct kv_store *, struct kv_store *);
/* The first n slots of `from` to an empty store of the same model, type and capacity. */
int kv_copy(struct kv_store *, const struct kv_store *from, int32_t n);

/* n slots are there: make room for a step behind them in the layers with a window, whose oldest slots go. */
void kv_slide(struct kv_store *, int32_t n);
/* Copy the windows before slot `pin`, if the planes hold them; all slots before it are written. */
void kv_keep_pinned(struct kv_store *);
/* Only the first n slots count from now on.  1; 0 where not all is there that a token behind them reads. */
int kv_return(struct kv_store *, int32_t n);
/* Tokens that a query of a layer attends to, its own included; 0 = all. */
int32_t kv_window(const struct kv_store *, int32_t layer);
/* Of all layers the most, or 0. */
int32_t kv_window_most(const struct kv_store *);
/* Bytes that a token behind `pos` others reads in layers with a window. */
uint64_t kv_window_read_bytes(const struct kv_store *, int32_t pos);
/* Is all there that a token behind n others reads? */
int kv_complete(const struct kv_store *, int32_t n);
/* The first slot that a part of a layer with a window begins with, for a token behind `pos` others. It depends on the
 * token alone, so results do not depend on `base`. */
int32_t kv_window_first(const struct kv_store *, int32_t layer, int32_t pos);
/* Slots that one call of attention reads at most. */
static inline int32_t kv_read_most(const struct kv_store *kv)
{
	return MAX(kv->cap, kv->window_cap);
}
/* All entries are forgotten. */
void kv_clear(struct kv_store *);

/* ---- what a step does with the planes (kv_attend.c) ---- */

/* Keys, and queries: out = x [n][heads * head_dim] rotated by the rows of the layer's table, or x itself where the
 * layer does not rotate; out may be x. */
void kv_rotate(const struct kv_store *, int32_t layer, struct tensor *out, const struct tensor *x, const struct rope *,
               int32_t n);
void kv_rotate_queries(const struct kv_store *, int32_t layer, struct tensor *out, const struct tensor *x,
                       const struct rope *, int32_t n);
/* Slots slot0 .. slot0 + n of a layer that has entries of its own = k, v f32 [n][n_kv_head * head_dim]. */
void kv_put(struct kv_store *, int32_t layer, const struct tensor *k, const struct tensor *v, int32_t slot0, int32_t n);
/* What tokens attend to in one layer, and where the result goes (backend.h: struct attn_args). */
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
/* Run the selections of parts now, which clears them. */
void kv_select(struct kv_store *, struct attn_part *, int32_t n_part);
/* Remove the parts whose predicate (attn_part.when) is false. Reads the predicates from the backend. Returns how many
 * parts are left. */
int kv_parts_met(const struct kv_store *, struct attn_part *, int32_t n_part);

/* ---- the planes of a layer, for kv_*.c ---- */

/* KV heads; bytes of one token's key, or value, in one of them. */
static inline int32_t kv_layer_heads(const struct hparams *hp, int32_t layer)
{
	return model_layer_spec(hp, layer)->attn.n_kv_head;
}
static inline uint64_t kv_layer_row_bytes(const struct hparams *hp, enum dtype type, int32_t layer)
{
	return dtype_bytes(type, (uint64_t)model_layer_spec(hp, layer)->attn.head_dim);
}
/* Slots of a head, and the slot in its row 0. */
static inline int32_t kv_layer_slots(const struct kv_store *kv, int32_t layer)
{
	return kv->place[layer] < 0 ? kv->window_cap : kv->cap;
}
static inline int32_t kv_layer_base(const struct kv_store *kv, int32_t layer)
{
	return kv->place[layer] < 0 ? kv->base : 0;
}

/* ---- planes in a file (kv_disk.c); without one these do nothing ---- */

/* The planes of a layer were read or written: what may not stay in memory leaves it. Whoever touches planes calls
 * it. */
void kv_used(const struct kv_store *, int32_t layer);
/* Bytes of them in memory, at most. */
uint64_t kv_disk_resident(const struct kv_store *);
/* -1 and a sentence where entries on disk are lost. */
int kv_check_there(const struct kv_store *, struct err *);
/* ---- for kv_store.c ---- */
int kv_disk_open(struct kv_store *, int unreserved, struct err *);
int kv_disk_alloc(struct kv_store *, int32_t layer);
void kv_disk_close(struct kv_store *);
/* Before the planes of a layer are given back. */
void kv_disk_drop(struct kv_store *, int32_t layer);
void kv_disk_clear(struct kv_store *);
void kv_written(struct kv_store *, int32_t layer, int32_t slot0, int32_t n);
/* ---- for kv_ahead.c ---- */
/* Does the layer stay in memory? */
int kv_stays(const struct kv_store *, int32_t layer);
/* The file's byte where a slot of a head begins; plane: 0 keys, 1 values. */
uint64_t kv_file_row(const struct kv_store *, int32_t layer, int plane, int32_t head, int32_t slot);
typedef void kv_range_fn(int fd, uint64_t off, uint64_t n);
/* Slots slot0 .. slot0 + n of each head, keys and values. */
void kv_file_rows(const struct kv_store *, int32_t layer, int32_t slot0, int32_t n, kv_range_fn *);

/* ---- reading planes in a file ahead (kv_ahead.c) ---- */

/* What is asked for: slots of the next layer that stand one after the other, always; while the last step had to wait
 * for the disk, also */
enum {
	AHEAD_LAST = 1,  /* the next layer's last selection, while this one computes */
	AHEAD_CHOICE = 2 /* a layer's own selection, all of it at once, before attention starts */
};
struct kv_ahead {
	int kinds;
	int io;            /* /proc/self/io, where the system counts what is read from disks; -1 */
	uint64_t had;      /* bytes read before this step */
	int cold;          /* the last step read from the disk */
	int32_t generates; /* tokens that this step generates, or tries to */
	struct kv_list {
		int32_t *slot, n, room;
	} * list; /* [n_full][n_kv_head] selected last, ascending */
	int32_t n_list, heads;
	/* Of the generated tokens since the last prefill: how many there were, bytes that they read from disks, slots
	 * that they selected, and those of them that the token before had selected in the same layer and head. */
	uint64_t tokens, fetched, selected, again;
};
struct kv_ahead *kv_ahead_open(const struct kv_store *);
void kv_ahead_close(struct kv_ahead *);
/* A step begins, which generates so many tokens; 0: it prefills. */
void kv_ahead_step(struct kv_store *, int32_t generates);
/* See struct timeline_stats. */
void kv_ahead_stats(const struct kv_store *, double *fetched, double *overlap);
/* Should selections be made before a layer attends, because its entries are to be brought or asked for? */
int kv_ahead_wants(const struct kv_store *, int32_t layer);
/* A layer is about to attend to these parts; it has attended to them. */
void kv_ahead_ask(const struct kv_store *, int32_t layer, const struct attn_part *, int32_t n_part);
/* Slots of a head are about to be read from the file. */
void kv_ahead_rows(const struct kv_store *, int32_t layer, int32_t head, const int32_t *slot, int32_t n);
void kv_ahead_note(struct kv_store *, int32_t layer, const struct attn_part *, int32_t n_part);

/* ---- entries as bytes ---- */

/* Slots slot0 .. slot0 + n of all planes as bytes [layers_with_entries()][K, V][n_kv_head][n], kv_token_bytes() a
 * token, and back. What a layer with a window no longer holds is written as bytes 0xff, which no entry consists of
 * (they are NaN in every type). */
void kv_entries_read(const struct kv_store *, int32_t slot0, int32_t n, void *out);
void kv_entries_write(struct kv_store *, int32_t slot0, int32_t n, const void *entries);
/* Do layers with a window hold an entry of slots slot0 .. slot0 + n?  1 also where no layer has a window. */
int kv_windows_hold(const struct kv_store *, int32_t slot0, int32_t n);
/* kv_entries_write() of the layers without a window alone, as kv_full_read() has them: the others lack the entries of
 * these slots. */
void kv_entries_write_full(struct kv_store *, int32_t slot0, int32_t n, const void *entries);
/* The same for the layers without a window alone (kv_full_token_bytes() a token), and for those with one, which hold
 * all these slots (kv_window_token_bytes()). kv_window_write(): the slots before slot0 are gone, and n slots fit. */
void kv_full_read(const struct kv_store *, int32_t slot0, int32_t n, void *out);
void kv_full_write(struct kv_store *, int32_t slot0, int32_t n, const void *entries);
void kv_window_read(const struct kv_store *, int32_t slot0, int32_t n, void *out);
void kv_window_write(struct kv_store *, int32_t slot0, int32_t n, const void *entries);
/* Do slots slot0 .. slot0 + n fit kv_window_write()? */
int kv_window_fits(const struct kv_store *, int32_t slot0, int32_t n);

#endif
