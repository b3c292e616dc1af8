/* engine/cache/cache.h (private to engine/) - the KV cache of one timeline: store x retention x selection x
 * observers.
 *
 *    kv_store.c      planes of keys and values
 *    recurrent.c     states of layers that have a state of fixed size instead of a KV cache
 *    retain_*.c      retention: which tokens keep their KV entries, in which slots, at which positions
 *    retain_window.c retention of layers with a sliding window, under every policy
 *    select.c, policies/select_*.c   selection: which of the kept entries a decoded token reads (select.h)
 *    observer.h      observers: called after the attention of a layer, change nothing (engine/observe/)
 *    policy_def.h    what a policy is; engine/policies/ has the policies by name
 *
 * The cache numbers only the layers that have a KV cache. The policy's retention serves layers without a window.
 *
 * The forward pass passes unrotated queries and keys to cache_attend(), because the retention decides the position of
 * each token.
 *
 * Every step is a transaction:
 *
 *     cache_begin(step)   cache_attend(layer) for each layer   cache_commit(n): the step's first n tokens stay
 *                                                         or   cache_rollback(): no token of the step stays
 *
 * Uncommitted tokens leave no trace. After a rollback the cache is bit for bit what it was before the step: entries,
 * attention mass, selected sets, the content of a snapshot. The same holds for the tokens of a VERIFY step that are
 * not committed. A step that fails or is cancelled is rolled back. */
#ifndef WEIR_CACHE_H
#define WEIR_CACHE_H

#include "engine/cache/kv_store.h"
#include "engine/engine_view.h"
#include "engine/cache/observer.h"
#include "engine/cache/policy_def.h"
#include "engine/cache/recurrent.h"
#include "engine/cache/select.h"

enum step_kind {
	STEP_READ,     /* prefill: tokens of a prompt, each attending to all retained entries */
	STEP_GENERATE, /* decode: one token, attending to the entries that the selector selects */
	STEP_VERIFY    /* several drafted tokens; each gets the bits that decoding it alone would give */
};
struct step {
	enum step_kind kind;
	int32_t pos, n; /* tokens before the step; tokens of the step */
	int last;       /* READ: 1 in the last step of a prefill, after which a token may be decoded */
	/* VERIFY: cache.c passes the tokens on one by one. tried: tokens of the whole step; index: index of this
	 * token in it. */
	int32_t tried, index;
};
static inline int step_generates(const struct step *st)
{
	return st->kind != STEP_READ;
}

struct qkv {
	/* f32 [n][heads * head_dim], unrotated, may be overwritten. k and v are NULL in a layer that borrows KV
	 * entries. */
	struct tensor *q, *k, *v;
	struct tensor *out;         /* f32 [n][n_head * head_dim] */
	const struct tensor *sinks; /* f32 [1][n_head]: attention sinks of the layer; NULL: none */
};

/* The KV entries that the tokens of a step read in one layer. */
enum { READ_PARTS = SELECT_PARTS + RINGS_MOST };
struct reading {
	struct attn_part part[READ_PARTS];
	int n_part;
	const struct tensor *q; /* queries rotated at their positions in the region */
	/* slots of the region, those of this step's tokens included. The region is what a selector works on. */
	int32_t n_slots;
	/* number of leading parts that belong to the region; 0: one part covers region and stream */
	int n_region;
	int32_t skip; /* slots of the region that are read */
};

enum { VERIFY_MOST = 16 }; /* most tokens of a VERIFY step */
/* Bytes of a bit set with one bit for each block of READ_BLOCK slots. */
static inline int32_t cache_block_bytes(int32_t slots)
{
	return (slots - 1) / (8 * READ_BLOCK) + 1;
}

struct cache {
	/* Set by the owner before cache_open(): */
	struct policy policy;
	const struct hparams *hp;    /* layers with a KV cache: model_kv() */
	const struct hparams *model; /* all layers, if some have a recurrent state; else NULL */
	struct backend *be;
	enum dtype type;    /* type of the KV planes */
	int32_t batch, ctx; /* most tokens of a step; tokens of the context; both as requested */
	/* 1: cache_take_store() will replace this cache's store before it is used, so reserve no disk space for the
	 * store */
	int takes_store;
	float read_share; /* share of attention that prompt tokens read, by an estimate; 0: all */
	/* Bytes of memory that the whole cache may take; 0: no limit. Planes beyond the limit are on disk
	 * (kv_disk.c), or beside a device in host memory (kv_host.c) if cache_listed() is not 0. */
	uint64_t memory;
	/* Set by retention and selector when the cache is opened: */
	int32_t limit; /* longest sequence in tokens; may be ENDLESS */
	int32_t chunk; /* most tokens of a step, at most batch */
	/* 1: commit needs the model's surprise at each token, which costs computing logits for every prefilled
	 * token */
	int wants_nll;
	int32_t tail;   /* tokens that the last step of a prefill should have; 0: any number */
	int32_t pinned; /* tokens at the start that the application pinned: never evicted */
	/* KV entries of decoded tokens may depend on more than the tokens before them (timeline_marks): */
	/* 1: entries of decoded tokens differ from prefilled ones of the same tokens, by more than rounding */
	int marked;
	int steps_matter; /* 1: entries of decoded tokens depend on how the prefill was cut into steps */
	/* Number of tokens of the region. Decoded tokens select among these tokens, so their entries depend on the
	 * region's size. -1: they do not. */
	int32_t region;

	struct kv_store kv;
	struct recurrent
		recurrent; /* states of recurrent layers, which have no KV cache; hp is NULL if the model has none */
	struct rope rope;  /* RoPE angles of the region: a token's position is its index */
	struct rope window_rope; /* RoPE angles of sliding-window layers; if be is NULL, these layers use `rope` */
	/* f32 [chunk][n_head * head_dim]: the step's queries, rotated by `rope`. Without data if no unrotated queries
	 * are needed: then queries are rotated in place. */
	struct tensor q;
	/* u8 [chunk][n_head * cache_block_bytes()]: blocks that each token of the step reads in a layer. Without data
	 * if all entries are read. */
	struct tensor blocks;
	void *retained;        /* state of the retention; owned */
	struct policy selects; /* policy whose selector is used; def NULL: everything is read */
	struct selector sel;
	/* 1: decoded tokens select. 0: no selector, or the pinned prefix of `auto` is too short for the selector. */
	int selecting;
	struct observer *observers; /* linked list; borrowed */
	struct step step;           /* the running step */
	/* committed tokens; length at the end of the last prefill (all tokens after it were decoded) */
	int32_t total, read_end;
	/* buffers for one token of a VERIFY step, allocated by the first such step */
	struct one_token {
		struct tensor raw, out, frame[1 + RINGS_MOST];
	} one[VERIFY_MOST];
	timeline_evictions_fn *evictions_fn; /* called with what a commit admitted, moved and evicted; may be NULL */
	void *evictions_ud;
};
#define ENDLESS INT32_MAX

struct rings;
/* What observers may read of a retention's state. */
struct retained_view {
	const struct rings *rings; /* rings of a bounded stream; NULL: nothing is ever evicted */
	int32_t waiting;           /* tokens behind the rings that have not joined the rings */
	int observed;              /* 1: the rings have sums of attention mass */
};

/* The functions of a retention policy, which decides which KV entries are stored and which are evicted. They are not
 * called for layers with a sliding window. */
struct retention_ops {
	int endless;   /* 1: a sequence may be longer than the context */
	int keeps_all; /* 1: nothing is ever evicted, slot i holds token i */
	/* Bytes of store and bookkeeping, constant or growing with ctx. c has its owner's settings and need not be
	 * open. */
	uint64_t (*bytes)(const struct cache *);
	int32_t (*cap)(const struct cache *); /* slots of the store per KV head */
	/* Most tokens that the cache keeps, for any length of the sequence. NULL: ctx. c need not be open. */
	int32_t (*holds)(const struct cache *);
	int32_t (*chunk)(const struct cache *); /* most tokens of a step; NULL: batch */
	/* Check the settings, set limits, allocate state. The store is opened afterwards. On failure the caller calls
	 * release(). */
	int (*init)(struct cache *, struct err *);
	void (*release)(struct cache *); /* also called after a failed init; retained may be NULL */
	/* Set marked, steps_matter, region and selecting. Called once the selector is open, or if the policy has
	 * none. */
	void (*selector_opened)(struct cache *);
	/* Prepare RoPE tables and slots for a step. Writes only state that a rollback may leave as it is. */
	void (*begin)(struct cache *, const struct step *);
	/* Rotate and store the keys and values of all tokens of the step, unless the layer borrows entries. Rotate
	 * their queries. */
	void (*put)(struct cache *, const struct step *, int32_t layer, const struct qkv *);
	/* Slots of the region after tokens st->pos .. st->pos + st->n. */
	int32_t (*region)(const struct cache *, const struct step *);
	/* Describe what the step's tokens read. VERIFY: the one token st->index, with its queries in row 0 of
	 * cache_frame(). */
	void (*parts)(struct cache *, const struct step *, int32_t layer, const struct qkv *, struct reading *);
	/* The probe for this step's attention; NULL: none. The hook itself may be NULL. */
	const struct attn_probe *(*probe)(struct cache *, const struct step *, int32_t layer, int32_t skip);
	/* Commit the step's first st->n tokens (VERIFY: of st->tried). nll [st->n] if the cache has wants_nll.
	 * Cancelling does not interrupt a commit. */
	void (*commit)(struct cache *, const struct step *, const float *nll);
	/* Most tokens of a VERIFY step that begins after pos tokens; at least 1. */
	int32_t (*verify_most)(const struct cache *, int32_t pos);
	/* Roll back to the first n tokens. Returns how many are left, n or fewer. Their state is bit for bit what it
	 * was when they were the whole sequence. */
	int32_t (*rewind)(struct cache *, int32_t n);
	/* Pin the first n tokens. Returns how many tokens are left, or -1 (ERR_FIT). NULL: no pinned prefix. */
	int32_t (*pin)(struct cache *, int32_t n, struct err *);
	/* Bytes of KV entries that one token reads after pos tokens, in the layers without a window. */
	uint64_t (*read_bytes)(const struct cache *, int32_t pos, int generated);
	/* Report which entries are kept and which are evicted. NULL: nothing is ever evicted. */
	void (*ring_stats)(const struct cache *, struct ring_stats *);
	void (*view)(const struct cache *, struct retained_view *); /* NULL: nothing is ever evicted */
	/* Copy the attention mass of view() to the host. May be NULL. */
	void (*mass_read)(struct cache *);
	/* ---- snapshots (snapshot.c) ---- */
	/* Tokens in the cache. NULL: the whole sequence. */
	int32_t (*kept)(const struct cache *);
	/* How many of the first n tokens have entries in slots of their own index, which never move. */
	int32_t (*ready)(const struct cache *, int32_t n);
	/* Accept the entries of n tokens that were written into the slots of an empty cache. Returns how many of
	 * these tokens the cache can continue from. */
	int32_t (*take)(struct cache *, int32_t n);
	/* Pass all other state for n tokens to the serializer (serialize.h). When loading, the cache is empty and the
	 * entries of ready() tokens are in their slots. After a failure the caller calls rewind(0). */
	void (*archive)(struct cache *, struct serializer *, int32_t n);
	/* Pass to the serializer the states that committed tokens can be rolled back to. May be NULL. */
	void (*points)(struct cache *, struct serializer *);
};
extern const struct retention_ops retain_all, retain_cascade;

/* ---- sizes and life (cache_open.c) ---- */

/* Bytes that a cache takes: of memory (on a device: of its memory), of disk, and of host memory beside a device. disk
 * and host are 0 if everything is in `memory`. least: the smallest cache.memory that works. UINT64_MAX: too large to
 * count. */
struct cache_size {
	uint64_t memory, disk, host, least;
};
/* Compute what cache_open() will take. c has its owner's settings. A c->memory below the least counts as the
 * least. */
struct cache_size cache_size(const struct cache *);
/* Most entries per KV head that a decoded token reads, if the planes can be in host memory beside a device; else
 * 0. */
int32_t cache_listed(const struct cache *);
/* Most bytes of memory, on a device of its memory, that an open cache takes. */
uint64_t cache_resident_bytes(const struct cache *);
/* Open the cache. c->memory must be 0 or at least cache_size.least. On failure nothing stays allocated. */
int cache_open(struct cache *, struct err *);
void cache_close(struct cache *);

/* ---- steps and rollbacks ---- */

void cache_begin(struct cache *, const struct step *);
void cache_attend(struct cache *, int32_t layer, const struct qkv *);
/* Commit the first n tokens of the step; only a VERIFY step may commit fewer than step.n. nll [n] if wants_nll, else
 * NULL: the model's surprise at each token, NaN = unknown. */
void cache_commit(struct cache *, int32_t n, const float *nll);
void cache_rollback(struct cache *);
/* Return the largest number of tokens, 1 .. VERIFY_MOST, that a VERIFY step after pos tokens may have. */
int32_t cache_verify_most(const struct cache *, int32_t pos);

/* Roll committed tokens back: forget all but the first n. Returns how many are left, fewer if the cache cannot go
 * back to exactly n. *replay (may be NULL): how many of the tokens after those left were decoded and restore the
 * cache if decoded again one by one (GENERATE); 0: prefill all of them. */
int32_t cache_rewind(struct cache *, int32_t n, int32_t *replay);
/* Copy the current states of recurrent layers, so that a rollback can return to this length. */
void cache_keep_states(struct cache *);
int32_t cache_pin(struct cache *, int32_t n, struct err *);
uint64_t cache_read_bytes(const struct cache *, int32_t pos, int generated);
static inline int cache_keeps_all(const struct cache *c)
{
	return c->policy.def->retention->keeps_all;
}
/* Take over the store of another cache of the same model and type that keeps all, with the entries of n tokens. The
 * other cache gets this cache's empty store. If only one of the stores is on disk, or only one in host memory,
 * entries are copied; returns -1 without memory for the copy. Call cache_rewind() before the next step, because the
 * selector did not observe the prefill of these tokens. */
int cache_take_store(struct cache *, struct cache *other, int32_t n);
int32_t cache_ready(const struct cache *, int32_t n);
int32_t cache_take(struct cache *, int32_t n);
void cache_archive(struct cache *, struct serializer *, int32_t n);
/* Pass the points of a rollback to the serializer. A function of its own, not a part of cache_archive(), because older
 * snapshots lack the points. */
void cache_points_archive(struct cache *, struct serializer *);

/* Bytes of the KV entries in the cache. */
uint64_t cache_used_bytes(const struct cache *);

/* ---- retention of the layers with a window (retain_window.c), called by cache.c ---- */

uint64_t windows_bytes(const struct cache *);
int windows_open(struct cache *, struct err *);
void windows_close(struct cache *);
void windows_begin(struct cache *, const struct step *);
void windows_put(struct cache *, const struct step *, int32_t layer, const struct qkv *);
void windows_parts(struct cache *, const struct step *, int32_t layer, const struct qkv *, struct reading *);
/* Pass the windows behind n tokens to the serializer, if not all n tokens are ready(). */
void windows_archive(struct cache *, struct serializer *, int32_t n);

/* ---- for retentions ---- */

/* Allocate a tensor of the backend. On failure t is zeroed. */
int cache_alloc(struct cache *, struct tensor *t, enum dtype, int64_t rows, int64_t cols, struct err *);
void cache_drop(struct cache *, struct tensor *t);
/* Implement put() for a retention in which slot i holds token i. `rope` rotates keys and queries. Rotated queries go
 * to c->q, or stay in place if c->q has no data. */
void cache_put(struct cache *, const struct step *, int32_t layer, const struct qkv *, const struct rope *);
/* Return the queries that put() rotated, for the step's tokens: q itself, or for one token of a VERIFY step a copy of
 * its row. */
const struct tensor *cache_frame(struct cache *, const struct step *, int frame, const struct tensor *q);
/* Update the selector's key sketches and bounds for the first n slots, which were written from outside of a step. */
void cache_note(struct cache *, int32_t n);
/* Return the number of parts of a region of n_slots: what the selector selects for a decoded token, else the whole
 * region. */
int cache_region(struct cache *, const struct step *, int32_t layer, const struct qkv *, const struct tensor *q,
                 int32_t n_slots, struct attn_part part[SELECT_PARTS]);

#endif
