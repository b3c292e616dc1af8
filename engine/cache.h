/* engine/cache.h (private to engine/) - the KV cache of one timeline: store x retention x selection x observers.
 *
 *     kv_store.c    planes of keys and values
 *     retain_*.c    retention: which tokens' entries stay, in which slots, at which positions
 *     select_*.c    selection: which of the entries that stay for good a generated token reads (select.h)
 *     observe_*.c   observers: called after attention, change nothing (observe.h)
 *     policy.c      the names of combinations, with their settings
 *
 * The forward pass hands unrotated queries and keys to cache_attend(), because where a token stands is decided here, too.
 *
 * Every step is a transaction:
 *
 *     cache_begin(step)   cache_attend(layer) for each layer   cache_commit(n): the step's first n tokens stay
 *                                                         or   cache_rollback(): none stays
 *
 * After a rollback, and after a commit of fewer tokens than were tried (VERIFY alone), the cache is bit for bit what it would be had it
 * never seen the others: entries, attention mass, sets of slots, what a snapshot holds.  A step that fails or is cancelled is rolled
 * back. */
#ifndef WEIR_CACHE_H
#define WEIR_CACHE_H

#include "engine/kv_store.h"
#include "engine/observe.h"
#include "engine/policy.h"
#include "engine/select.h"

enum step_kind {
	STEP_READ,       /* prefill: tokens of a prompt, all attending everything that is kept */
	STEP_GENERATE,   /* decode: one token, reading what the selector chooses */
	STEP_VERIFY      /* several drafted tokens, each treated as if it had been generated alone after those before it */
};
struct step {
	enum step_kind kind;
	int32_t pos, n;      /* tokens before the step, tokens of the step */
	int last;            /* READ: the end of the prefill; a generated token may come next */
	/* VERIFY: tokens that the whole step tries, and which of them this one is, where cache.c hands tokens on one by one. */
	int32_t tried, index;
};
static inline int step_generates(const struct step *st) { return st->kind != STEP_READ; }

struct qkv {
	struct tensor *q, *k, *v;   /* f32 [n][heads * head_dim], unrotated; may be overwritten */
	struct tensor *out;         /* f32 [n][n_head * head_dim] */
};

/* What the tokens of a step read in one layer. */
enum { READ_PARTS = SELECT_PARTS + RINGS_MOST };
struct reading {
	struct attn_part part[READ_PARTS];
	int n_part;
	const struct tensor *q;     /* the queries in the frame of the region, rotated */
	int32_t n_slots;            /* of the region a selector works on, this step's tokens included where they belong to it */
	int n_region;               /* the first so many parts belong to the region; 0 where one part covers the region and the rest */
	int32_t skip;               /* slots among all those read that belong to the region */
};

enum { VERIFY_MOST = 16 };      /* tokens of a VERIFY step */

struct cache {
	/* Set by the owner before cache_open(): */
	struct policy policy;
	const struct hparams *hp;
	struct backend *be;
	enum dtype type;            /* of the planes */
	int32_t batch, ctx;         /* tokens of a step, and of the context, as asked for */
	int unrotated;              /* observers will ask for unrotated queries */
	/* Set by retention and selector when the cache is opened: */
	int32_t limit;              /* longest sequence in tokens; ENDLESS */
	int32_t chunk;              /* tokens of a step at most: batch or fewer */
	int wants_nll;              /* commit needs the model's surprise at each token: costs the logits of every token read */
	int32_t tail;               /* tokens the step that ends a prefill should carry; 0 = any number */
	int32_t pinned;             /* tokens at the start that stay for good because the application said so */
	/* What decides the KV entries of generated tokens beyond the tokens themselves (timeline_marks): */
	int marked;                 /* they differ from those of tokens that are read */
	int steps_matter;           /* and depend on how the prefill was cut into steps */
	int32_t region;             /* tokens before the stream when generated ones select among those; -1 = does not matter */

	struct kv_store kv;
	struct rope rope;           /* the region's frame: a token stands at its index */
	/* f32 [chunk][n_head * head_dim]: the step's queries in the region's frame; without data where nobody needs the unrotated ones, which
	 * are then rotated in place. */
	struct tensor q;
	void *retained;             /* the retention's own */
	struct policy selects;      /* the policy whose selector is used; def NULL: everything is read */
	struct selector sel;
	int selecting;              /* generated tokens select; a cascade whose pinned prefix is short has a selector at rest */
	struct observer *observers; /* list; borrowed */
	struct step step;           /* the one that runs */
	int32_t total, read_end;    /* committed tokens; those of them up to the end of the last prefill: the others were generated */
	struct { struct tensor q, raw, k, v, out, frame[1 + RINGS_MOST]; } one;   /* one token of a VERIFY step; allocated by the first */
	timeline_evictions_fn *evictions_fn;  /* told what a commit evicted and moved; NULL = nobody */
	void *evictions_ud;
};
#define ENDLESS INT32_MAX

struct rings;
/* What a retention has that observers read. */
struct retained_view {
	const struct rings *rings;   /* of a bounded stream; NULL: nothing is ever evicted */
	int32_t waiting;             /* tokens behind the rings that have not joined them */
	int observed;                /* the rings' sums hold attention mass */
};

struct retention_ops {
	int endless;                  /* a sequence may be longer than its context */
	/* Bytes of store and bookkeeping; c is described, not opened.  Grows with ctx or is constant. */
	uint64_t (*bytes)(const struct cache *);
	int32_t (*cap)(const struct cache *);    /* slots of the store */
	/* Check the settings, set limits, allocate its own.  The store comes after.  On failure release() follows. */
	int  (*init)(struct cache *, struct err *);
	void (*release)(struct cache *);         /* also after a failed init; retained may be NULL */
	/* The selector is open, or there is none: set marked, steps_matter, region, selecting. */
	void (*selector_opened)(struct cache *);
	/* A step follows: rope tables, places.  Leaves nothing behind that a rollback would have to undo. */
	void (*begin)(struct cache *, const struct step *);
	/* Rotate and store the keys and values of all tokens of the step; rotate their queries. */
	void (*put)(struct cache *, const struct step *, int32_t layer, const struct qkv *);
	/* Slots of the region after the step's tokens, st->n of them from st->pos on. */
	int32_t (*region)(const struct cache *, const struct step *);
	/* What the step's tokens read; VERIFY: the one token st->index, its queries in row 0 of what cache_frame() returns. */
	void (*parts)(struct cache *, const struct step *, int32_t layer, const struct qkv *, struct reading *);
	/* What attention shall sum for the retention itself; NULL: nothing.  May be NULL. */
	const struct attn_probe *(*probe)(struct cache *, const struct step *, int32_t layer, int32_t skip);
	/* The step's first st->n tokens stay (VERIFY: of st->tried); nll [st->n] where the cache wants it.  Not interrupted by cancel. */
	void (*commit)(struct cache *, const struct step *, const float *nll);
	/* VERIFY: tokens that one step can try when pos tokens are there; 1 or more. */
	int32_t (*verify_most)(const struct cache *, int32_t pos);
	/* Forget all but the first n tokens; returns how many are left: n, or fewer, which are exactly as they were then. */
	int32_t (*rewind)(struct cache *, int32_t n);
	/* The first n tokens are pinned from now on: returns how many tokens it still has, or -1 (ERR_FIT).  NULL: pins nothing. */
	int32_t (*pin)(struct cache *, int32_t n, struct err *);
	/* Bytes of entries that one token reads with pos tokens before it. */
	uint64_t (*read_bytes)(const struct cache *, int32_t pos, int generated);
	/* What a bounded retention keeps and has evicted; NULL: everything stays. */
	void (*rows)(const struct cache *, struct timeline_rows *);
	void (*view)(const struct cache *, struct retained_view *);   /* NULL: nothing is ever evicted */
	/* Bring the attention mass that view() shows to the host.  May be NULL. */
	void (*mass_read)(struct cache *);
	/* ---- snapshots (snapshot.c) ---- */
	/* Of n tokens so many from the first have entries in slots of their own index, which stay as they are. */
	int32_t (*ready)(const struct cache *, int32_t n);
	/* The cache is empty, and the entries of n tokens have been put into the slots: returns from how many of them it can continue. */
	int32_t (*take)(struct cache *, int32_t n);
	/* All else known of n tokens (serialize.h).  Loading: the cache is empty, the ready entries are there.  After a failure a rewind() to
	 * 0 follows. */
	void (*archive)(struct cache *, struct serializer *, int32_t n);
	/* How far committed tokens can be taken back.  May be NULL. */
	void (*points)(struct cache *, struct serializer *);
};
extern const struct retention_ops retain_all, retain_cascade;

/* The settings text as struct policy, then bytes before opening: hp, be, type, batch, ctx and policy are set. */
uint64_t cache_bytes(const struct cache *);
int  cache_open(struct cache *, struct err *);
void cache_close(struct cache *);

void cache_begin(struct cache *, const struct step *);
void cache_attend(struct cache *, int32_t layer, const struct qkv *);
/* The first n tokens of the step stay; n < step.n for VERIFY alone.  nll [n]: the model's surprise at
 * each, NaN = not known, where wants_nll; else NULL. */
void cache_commit(struct cache *, int32_t n, const float *nll);
void cache_rollback(struct cache *);
/* Tokens that a VERIFY step can try now, after pos tokens: 1 .. VERIFY_MOST. */
int32_t cache_verify_most(const struct cache *, int32_t pos);

/* Forget committed tokens: all but the first n.  Returns how many are left: fewer where the cache cannot go back to n.  *replay (may be
 * NULL): so many tokens that follow those had been generated; computed again by GENERATE steps, one by one, they make the cache what it
 * was.  0: they are to be read. */
int32_t cache_rewind(struct cache *, int32_t n, int32_t *replay);
int32_t cache_pin(struct cache *, int32_t n, struct err *);
uint64_t cache_read_bytes(const struct cache *, int32_t pos, int generated);
/* Nothing is ever evicted: slot i holds token i. */
static inline int cache_keeps_all(const struct cache *c) { return c->policy.def->retention == &retain_all; }
/* Take over the store of another cache of the same model and type that keeps all, with the entries of n tokens; the other one gets this
 * cache's empty store.  rewind() comes before the next step, because the selector did not observe how these tokens were read. */
void cache_take_store(struct cache *, struct cache *other, int32_t n);
int32_t cache_ready(const struct cache *, int32_t n);
int32_t cache_take(struct cache *, int32_t n);
void cache_archive(struct cache *, struct serializer *, int32_t n);
/* How far committed tokens can be taken back: by itself, because older snapshots lack it. */
void cache_points_archive(struct cache *, struct serializer *);

/* ---- for retentions ---- */

/* A tensor of the backend; t is zeroed memory before and after. */
int  cache_alloc(struct cache *, struct tensor *t, enum dtype, int64_t rows, int64_t cols, struct err *);
void cache_drop(struct cache *, struct tensor *t);
/* Queries that put() rotated, as the step's tokens use them: the tensor itself, or for one token of a VERIFY step a copy of its row. */
const struct tensor *cache_frame(struct cache *, const struct step *, int frame, const struct tensor *q);
/* The parts of the region of n_slots: what the selector chooses for a generated token, or all of it. */
int  cache_region(struct cache *, const struct step *, int32_t layer, const struct qkv *, const struct tensor *q, int32_t n_slots,
                  struct attn_part part[SELECT_PARTS]);

#endif
