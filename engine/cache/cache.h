/* engine/cache/cache.h (private to engine/) - the KV cache of one timeline: store x retention x selection x observers.
 *
 *     kv_store.c    planes of keys and values
 *     recurrent.c   the states of layers that have no KV cache; all that follows is of the others, numbered without them
 *     retain_*.c    retention: which tokens' entries stay, in which slots, at which positions; layers with a sliding window
 *                   have one of their own (retain_window.c), the policy's is of the others
 *     select.c, policies/select_*.c   selection: which of the entries that stay for good a generated token reads (select.h)
 *     observer.h    observers: called after attention, change nothing (engine/observe/)
 *     policy_def.h  what a policy is; engine/policies/ has the names of combinations
 *
 * The forward pass hands unrotated queries and keys to cache_attend(), because the retention decides at which position
 * a token stands.
 *
 * Every step is a transaction:
 *
 *     cache_begin(step)   cache_attend(layer) for each layer   cache_commit(n): the step's first n tokens stay
 *                                                         or   cache_rollback(): none stays
 *
 * Uncommitted tokens leave no trace: after a rollback, or a commit of fewer tokens than were tried (VERIFY alone), the
 * cache is bit for bit what it would be without them: entries, attention mass, selected sets, what a snapshot holds. A
 * step that fails or is cancelled is rolled back. */
#ifndef WEIR_CACHE_H
#define WEIR_CACHE_H

#include "engine/cache/kv_store.h"
#include "engine/cache/observer.h"
#include "engine/cache/policy_def.h"
#include "engine/cache/recurrent.h"
#include "engine/cache/select.h"

enum step_kind {
	STEP_READ,     /* prefill: tokens of a prompt, each attending everything that is retained */
	STEP_GENERATE, /* decode: one token, reading what the selector selects */
	STEP_VERIFY    /* several drafted tokens, each as if decoded alone after those before it */
};
struct step {
	enum step_kind kind;
	int32_t pos, n; /* tokens before the step, tokens of the step */
	int last;       /* READ: the end of the prefill; a generated token may come next */
	/* VERIFY: cache.c passes the tokens on one by one: tokens of the whole step, and the index of this one among
	 * them. */
	int32_t tried, index;
};
static inline int step_generates(const struct step *st)
{
	return st->kind != STEP_READ;
}

struct qkv {
	/* f32 [n][heads * head_dim], unrotated; may be overwritten; k and v NULL where the layer borrows entries */
	struct tensor *q, *k, *v;
	struct tensor *out;         /* f32 [n][n_head * head_dim] */
	const struct tensor *sinks; /* f32 [1][n_head] where the layer has attention sinks */
};

/* What the tokens of a step read in one layer. */
enum { READ_PARTS = SELECT_PARTS + RINGS_MOST };
struct reading {
	struct attn_part part[READ_PARTS];
	int n_part;
	const struct tensor *q; /* the queries in the frame of the region, rotated */
	/* slots of the region a selector works on, with those of this step's tokens that belong to it */
	int32_t n_slots;
	/* the first so many parts are the region's; 0 where one part covers the region and the stream */
	int n_region;
	int32_t skip; /* slots of the region among all that are read */
};

enum { VERIFY_MOST = 16 }; /* tokens of a VERIFY step */
/* Bytes of the bits that say which blocks of so many slots a query reads. */
static inline int32_t cache_block_bytes(int32_t slots)
{
	return (slots - 1) / (8 * READ_BLOCK) + 1;
}

struct cache {
	/* Set by the owner before cache_open(): */
	struct policy policy;
	const struct hparams *hp;    /* the layers with a KV cache: model_kv() */
	const struct hparams *model; /* where others have a recurrent state: all layers; else NULL */
	struct backend *be;
	enum dtype type;    /* of the planes */
	int32_t batch, ctx; /* tokens of a step, and of the context, as asked for */
	int unrotated;      /* keep unrotated queries, because observers will need them */
	/* before it is used, cache_take_store() brings a store on disk: this one's own reserves no space there */
	int takes_store;
	float read_share; /* of attention that tokens of a prompt read, by an estimate; 0: all is read */
	/* Bytes of memory for all of the cache, 0: as many as it takes. What exceeds it lies on disk (kv_disk.c), or
	 * beside a device in host memory (kv_host.c), if cache_listed(). */
	uint64_t memory;
	/* Set by retention and selector when the cache is opened: */
	int32_t limit; /* longest sequence in tokens; ENDLESS */
	int32_t chunk; /* tokens of a step at most: batch or fewer */
	/* commit needs the model's surprise at each token, which costs the logits of every prefilled token */
	int wants_nll;
	int32_t tail;   /* tokens that the last step of a prefill should carry; 0 = any number */
	int32_t pinned; /* tokens at the start that stay for good because the application said so */
	/* What the KV entries of generated tokens depend on beside the tokens themselves (timeline_marks): */
	/* they differ from entries of the same tokens in a prefill by more than the arithmetic of prompts */
	int marked;
	int steps_matter; /* they depend on how the prefill was cut into steps */
	/* they depend on this number of tokens before the stream, which they select among; -1 = they do not */
	int32_t region;

	struct kv_store kv;
	struct recurrent recurrent; /* the other layers' states; hp NULL: there are none */
	struct rope rope;           /* the region's frame: a token stands at its index */
	struct rope window_rope;    /* that of layers with a window; be NULL: the region's serves */
	/* f32 [chunk][n_head * head_dim]: the step's queries in the region's frame. Without data where the unrotated
	 * queries are not needed: they are rotated in place. */
	struct tensor q;
	/* u8 [chunk][bits of all heads]: blocks that the step's tokens read in a layer; without data where all is
	 * read */
	struct tensor blocks;
	void *retained;        /* state of the retention */
	struct policy selects; /* the policy whose selector is used; def NULL: everything is read */
	struct selector sel;
	/* generated tokens select; 0 also while the pinned prefix of `auto` is too short for its selector */
	int selecting;
	struct observer *observers; /* list; borrowed */
	struct step step;           /* the running step */
	/* committed tokens; those up to the end of the last prefill, after which all were generated */
	int32_t total, read_end;
	/* tokens of a VERIFY step; allocated by the first */
	struct one_token {
		struct tensor raw, out, frame[1 + RINGS_MOST];
	} one[VERIFY_MOST];
	timeline_evictions_fn *evictions_fn; /* called with what a commit admitted, moved and evicted; may be NULL */
	void *evictions_ud;
};
#define ENDLESS INT32_MAX

struct rings;
/* State of a retention that observers read. */
struct retained_view {
	const struct rings *rings; /* of a bounded stream; NULL: nothing is ever evicted */
	int32_t waiting;           /* tokens behind the rings that have not joined them */
	int observed;              /* the rings' sums hold attention mass */
};

/* Layers with a window are none of its business: no hook is called for them. */
struct retention_ops {
	int endless;   /* a sequence may be longer than its context */
	int keeps_all; /* nothing is ever evicted: slot i holds token i */
	/* Bytes of store and bookkeeping; c is described, not opened.  Grows with ctx or is constant. */
	uint64_t (*bytes)(const struct cache *);
	int32_t (*cap)(const struct cache *); /* slots of the store */
	/* most tokens that the cache keeps, however long the sequence; NULL: ctx.  c is not opened yet */
	int32_t (*holds)(const struct cache *);
	int32_t (*chunk)(const struct cache *); /* tokens of a step at most; NULL: batch */
	/* Check the settings, set limits, allocate state. The store is opened afterwards. On failure release()
	 * follows. */
	int (*init)(struct cache *, struct err *);
	void (*release)(struct cache *); /* also after a failed init; retained may be NULL */
	/* The selector is open, or there is none: set marked, steps_matter, region, selecting. */
	void (*selector_opened)(struct cache *);
	/* Prepare rope tables and slots for a step, in state that a rollback can leave as it is. */
	void (*begin)(struct cache *, const struct step *);
	/* Rotate and store the keys and values of all tokens of the step, where the layer has its own; rotate their
	 * queries. */
	void (*put)(struct cache *, const struct step *, int32_t layer, const struct qkv *);
	/* Slots of the region after tokens st->pos .. st->pos + st->n. */
	int32_t (*region)(const struct cache *, const struct step *);
	/* What the step's tokens read; VERIFY: the one token st->index, its queries in row 0 of what cache_frame()
	 * returns. */
	void (*parts)(struct cache *, const struct step *, int32_t layer, const struct qkv *, struct reading *);
	/* What to observe while this step attends, or NULL.  The hook may be NULL itself. */
	const struct attn_probe *(*probe)(struct cache *, const struct step *, int32_t layer, int32_t skip);
	/* The step's first st->n tokens stay (VERIFY: of st->tried); nll [st->n] where the cache wants it. Not
	 * interrupted by cancel. */
	void (*commit)(struct cache *, const struct step *, const float *nll);
	/* Tokens that one VERIFY step can try after pos tokens; 1 or more. */
	int32_t (*verify_most)(const struct cache *, int32_t pos);
	/* Forget all but the first n tokens. Returns how many are left, n or fewer; these are bit for bit as they were
	 * then. */
	int32_t (*rewind)(struct cache *, int32_t n);
	/* Pin the first n tokens from now on. Returns how many tokens are left, or -1 (ERR_FIT). NULL: no pinned
	 * prefix. */
	int32_t (*pin)(struct cache *, int32_t n, struct err *);
	/* Bytes of entries that one token reads with pos tokens before it, in the layers without a window. */
	uint64_t (*read_bytes)(const struct cache *, int32_t pos, int generated);
	/* What a bounded retention keeps and has evicted; NULL: nothing is ever evicted. */
	void (*ring_stats)(const struct cache *, struct ring_stats *);
	void (*view)(const struct cache *, struct retained_view *); /* NULL: nothing is ever evicted */
	/* Bring the attention mass that view() shows to the host.  May be NULL. */
	void (*mass_read)(struct cache *);
	/* ---- snapshots (snapshot.c) ---- */
	/* Tokens in the cache; NULL: all of the sequence. */
	int32_t (*kept)(const struct cache *);
	/* How many of n tokens, from the first on, have entries in slots of their own index that never move. */
	int32_t (*ready)(const struct cache *, int32_t n);
	/* The entries of n tokens have been written into the slots of an empty cache. Returns from how many of them it
	 * can continue. */
	int32_t (*take)(struct cache *, int32_t n);
	/* All other state for n tokens (serialize.h). Loading: the cache is empty, the ready entries are in their
	 * slots. A rewind() to 0 follows a failure. */
	void (*archive)(struct cache *, struct serializer *, int32_t n);
	/* The points to which committed tokens can be rolled back.  May be NULL. */
	void (*points)(struct cache *, struct serializer *);
};
extern const struct retention_ops retain_all, retain_cascade;

/* ---- sizes and life (cache_open.c) ---- */

/* Bytes that a cache takes: of memory, on a device of its memory; of disk, or beside a device of host memory, 0 where
 * all is in memory; and how many `memory` has to allow at least. UINT64_MAX: more than can be counted. */
struct cache_size {
	uint64_t memory, disk, host, least;
};
/* What cache_open() will take; c has what its owner sets before it. A memory that allows too little counts as the
 * least. */
struct cache_size cache_size(const struct cache *);
/* Entries of a KV head that a generated token reads at most, where its planes can lie in host memory beside a device;
 * else 0. */
int32_t cache_listed(const struct cache *);
/* Of an open cache, at most. */
uint64_t cache_resident_bytes(const struct cache *);
/* `memory` has to allow the least. */
int cache_open(struct cache *, struct err *);
void cache_close(struct cache *);

/* ---- steps and rollbacks ---- */

void cache_begin(struct cache *, const struct step *);
void cache_attend(struct cache *, int32_t layer, const struct qkv *);
/* The first n tokens of the step stay; n < step.n for VERIFY alone.  nll [n]: the model's surprise at
 * each, NaN = not known, where wants_nll; else NULL. */
void cache_commit(struct cache *, int32_t n, const float *nll);
void cache_rollback(struct cache *);
/* Tokens that a VERIFY step can try after pos tokens: 1 .. VERIFY_MOST. */
int32_t cache_verify_most(const struct cache *, int32_t pos);

/* Roll committed tokens back: forget all but the first n. Returns how many are left, fewer where the cache cannot go
 * back to n.
 * *replay (may be NULL): how many of the tokens after those were generated; decoded again one by one (GENERATE) they restore the cache.
 * 0: prefill them. */
int32_t cache_rewind(struct cache *, int32_t n, int32_t *replay);
/* Keep the states of recurrent layers as they are now, for a rollback to here. */
void cache_keep_states(struct cache *);
int32_t cache_pin(struct cache *, int32_t n, struct err *);
uint64_t cache_read_bytes(const struct cache *, int32_t pos, int generated);
static inline int cache_keeps_all(const struct cache *c)
{
	return c->policy.def->retention->keeps_all;
}
/* Take over the store of another cache of the same model and type that keeps all, with the entries of n tokens; the
 * other one gets this cache's empty store. Where one store lies on disk and the other does not, the entries are copied;
 * -1 without memory for that. A rewind() comes before the next step, because the selector did not observe the prefill
 * of these tokens. */
int cache_take_store(struct cache *, struct cache *other, int32_t n);
int32_t cache_ready(const struct cache *, int32_t n);
int32_t cache_take(struct cache *, int32_t n);
void cache_archive(struct cache *, struct serializer *, int32_t n);
/* The points of a rollback: apart from cache_archive(), because older snapshots end before them. */
void cache_points_archive(struct cache *, struct serializer *);

/* Bytes of entries that are in the cache. */
uint64_t cache_used_bytes(const struct cache *);

/* ---- layers with a window (retain_window.c), called by cache.c as a retention is for the others ---- */

uint64_t windows_bytes(const struct cache *);
int windows_open(struct cache *, struct err *);
void windows_close(struct cache *);
void windows_begin(struct cache *, const struct step *);
void windows_put(struct cache *, const struct step *, int32_t layer, const struct qkv *);
void windows_parts(struct cache *, const struct step *, int32_t layer, const struct qkv *, struct reading *);
/* The windows behind n tokens, where not all entries of these are ready(). */
void windows_archive(struct cache *, struct serializer *, int32_t n);

/* ---- for retentions ---- */

/* A tensor of the backend; t is zeroed memory before and after. */
int cache_alloc(struct cache *, struct tensor *t, enum dtype, int64_t rows, int64_t cols, struct err *);
void cache_drop(struct cache *, struct tensor *t);
/* A put() by which slot i holds token i, rotated by this frame; the queries are rotated into c->q, or in place where it
 * has no data. */
void cache_put(struct cache *, const struct step *, int32_t layer, const struct qkv *, const struct rope *);
/* Queries that put() rotated, as the step's tokens use them: the tensor itself, or for one token of a VERIFY step a
 * copy of its row. */
const struct tensor *cache_frame(struct cache *, const struct step *, int frame, const struct tensor *q);
/* Bring the selector's sketches and bounds of the first n slots up to date, after these were written from outside. */
void cache_note(struct cache *, int32_t n);
/* The parts of a region of n_slots: what the selector selects for a generated token; else all of it. */
int cache_region(struct cache *, const struct step *, int32_t layer, const struct qkv *, const struct tensor *q,
                 int32_t n_slots, struct attn_part part[SELECT_PARTS]);

#endif
