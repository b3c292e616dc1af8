/* engine/cache/cache.h (private to engine/) - the KV cache of one token sequence.
 *
 * It has these parts. The store (kv_store.c) is the memory of keys and values; recurrent.c has the states of
 * recurrent layers, which have no KV cache. The retention (retain_*.c) decides which tokens keep their KV entries, in
 * which slots and at which positions; for sliding-window layers it is always retain_window.c. The selector (select.c,
 * policies/select_*.c) decides which of the kept entries a decoded token reads. Observers (observer.h) see the
 * attention of each layer and change nothing.
 *
 * Queries and keys are passed to cache_attend() before RoPE, because the retention decides the position of each
 * token.
 *
 * A step (one pass of the model over some tokens) is a transaction: cache_begin(step), cache_attend(layer) for each
 * layer, then cache_commit(n) to keep the first n tokens, or cache_rollback() to keep none. Uncommitted tokens leave
 * no trace. A step that fails or is cancelled is rolled back. */
#ifndef WEIR_CACHE_H
#define WEIR_CACHE_H

#include "engine/cache/kv_store.h"
#include "engine/engine_view.h"
#include "engine/cache/observer.h"
#include "engine/cache/policy_def.h"
#include "engine/cache/recurrent.h"
#include "engine/cache/select.h"

enum step_kind {
	STEP_READ,     /* prefill: the tokens belong to a prompt, and the selector does not apply to them */
	STEP_GENERATE, /* decode: one token; it attends to the KV entries that the selector selects */
	STEP_VERIFY    /* check several drafted tokens; results have the same bits as decoding the tokens one by one */
};
struct step {
	enum step_kind kind;
	int32_t pos, n; /* `pos` is the number of tokens before the step; `n` is the number of tokens of the step */
	int last;       /* 1 in the last step of a prefill; the next token may then be decoded */
	/* number of tokens at the end of a prefill step that repeat earlier tokens, if the step is only for the
	 * selector and is rolled back (selector_ops.repeat); otherwise 0 */
	int32_t repeated;
	/* For a whole step, tried = n and index = 0. In a VERIFY step each drafted token selects its own KV entries, so
	 * some functions get a struct step for a single one of these tokens. Then n is 1, `tried` is the number of
	 * tokens of the whole step, and `index` is the token's index in the step, counted from 0. */
	int32_t tried, index;
};
static inline int step_generates(const struct step *st)
{
	return st->kind != STEP_READ;
}

struct qkv {
	/* f32 [n][heads * head_dim], before RoPE, may be overwritten. k and v are NULL in a layer that reads the
	 * KV entries of another layer. */
	struct tensor *q, *k, *v;
	struct tensor *out;         /* f32 [n][n_head * head_dim]: result of the attention */
	const struct tensor *sinks; /* f32 [1][n_head]: attention sinks of the layer; NULL: none */
};

/* The KV entries that the tokens of a step read in one layer. */
enum { READ_SEGMENTS = SELECT_SEGMENTS + RINGS_MOST };
struct reading {
	struct attn_segment seg[READ_SEGMENTS];
	int n_seg;
	/* the step's queries, rotated (RoPE) to read the region; NULL if there is no region */
	const struct tensor *q;
	/* number of slots of the region. The region is the first n_slots slots, from which the selector selects. It may
	 * include slots of tokens of this step. */
	int32_t n_slots;
	/* number of elements at the start of seg[] that list only slots of the region. It is 0 in a sliding-window
	 * layer, and in a bounded cache whose slots are all read as one segment. */
	int n_region;
	/* number of slots at the beginning of seg[] that the retention's probe (recorder of attention weights) skips.
	 * These are the slots of the region; in a sliding-window layer, all slots. */
	int32_t skip;
};

enum { VERIFY_MOST = 16 }; /* maximum number of tokens of a VERIFY step */
/* Return the bytes of a bit set with one bit for each block of READ_BLOCK slots. */
static inline int32_t cache_block_bytes(int32_t slots)
{
	return (slots - 1) / (8 * READ_BLOCK) + 1;
}

struct cache {
	/* Set by the owner before cache_open(): */
	struct policy policy;
	const struct hparams *hp;    /* the model without its recurrent layers: model_kv() */
	const struct hparams *model; /* the whole model, if some of its layers have a recurrent state; else NULL */
	struct backend *be;
	struct kv_types types; /* element types of the KV planes */
	/* Values that the caller requests: `batch` is the maximum number of tokens of a step, and `ctx` the context in
	 * tokens. */
	int32_t batch, ctx;
	/* 1: do not reserve disk space, because cache_take_store() will replace the store (memory of keys and values)
	 * before it is used */
	int takes_store;
	/* If read_share is above 0, a prompt token reads only those KV entries that are estimated to receive this share
	 * of its attention. If it is 0, prompt tokens read all entries. */
	float read_share;
	/* Memory limit of the whole cache in bytes; 0: no limit. If the cache would exceed it, keys and values are
	 * put in a file (kv_disk.c). With a GPU they are put in host memory instead (kv_host.c), which needs a policy
	 * with cache_listed() > 0. */
	uint64_t memory;
	/* Set by retention and selector when the cache is opened: */
	int32_t limit; /* longest sequence in tokens; may be ENDLESS */
	int32_t chunk; /* maximum number of tokens of a step; not above `batch` */
	/* 1: a commit needs the model's surprise (negative log-likelihood) at each token, so logits are also
	 * computed for prompt tokens */
	int wants_nll;
	/* number of tokens that the last step of a prefill should have, because the selector observes their attention;
	 * 0: any number */
	int32_t tail;
	int32_t pinned; /* number of first tokens that the application pinned; pinned tokens are never evicted */
	/* The next three members tell on what the KV entries of decoded tokens depend besides the preceding tokens (see
	 * timeline_marks()). */
	/* 1: the KV entries of a decoded token differ from those of a prefilled token by more than rounding */
	int marked;
	int steps_matter; /* 1: entries of decoded tokens depend on how the prefill was split into steps */
	/* number of slots among which decoded tokens select, if a different number would change their KV entries; else
	 * -1 */
	int32_t region;

	struct kv_store kv;
	/* states of recurrent layers; recurrent.hp = NULL: the model has no such layers */
	struct recurrent recurrent;
	/* RoPE angles of the step's tokens. Until the first eviction they are computed from the tokens' positions in
	 * the sequence. Later they are computed from positions in the cache, and are used only to rotate the queries
	 * that read the pinned prefix. */
	struct rope rope;
	/* RoPE angles of sliding-window layers; window_rope.be = NULL: these layers use `rope`, too */
	struct rope window_rope;
	/* f32 [chunk][n_head * head_dim]: the step's queries after RoPE. The tensor has no data if nothing reads the
	 * unrotated queries: the queries are then rotated in place. */
	struct tensor q;
	/* u8 [chunk][n_head * cache_block_bytes()]: bit set of the blocks of KV entries that each token reads in a
	 * layer. It has no data if all entries are read. */
	struct tensor blocks;
	void *retained; /* state of the retention, which the cache owns */
	/* policy whose selector is used; selects.def is NULL if decoded tokens read all entries */
	struct policy selects;
	struct selector sel;
	/* 1: decoded tokens select entries. 0: there is no selector, or policy `auto` has too few pinned tokens to
	 * select from. */
	int selecting;
	struct observer *observers; /* linked list of observers, which the cache does not own */
	struct step step;           /* the current step */
	/* `total` is the number of committed tokens; `read_end` was `total` after the last prefill (later tokens were
	 * decoded) */
	int32_t total, read_end;
	/* Buffers for one drafted token of a VERIFY step, each f32 [1][n_head * head_dim], allocated in the first such
	 * step. `raw` is the token's query before RoPE, and `out` its attention output. frame[0] is its query after
	 * RoPE for the pinned prefix, and frame[1 + i] its query after RoPE for ring i. */
	struct one_token {
		struct tensor raw, out, frame[1 + RINGS_MOST];
	} one[VERIFY_MOST];
	int moving; /* 1: a commit has queued moves of KV entries, and no sync has told whether they succeeded */
	timeline_evictions_fn *evictions_fn; /* called after tokens were admitted, moved or evicted; may be NULL */
	void *evictions_ud;
};
#define ENDLESS INT32_MAX

struct rings;
/* What observers may read of a retention's state. */
struct retained_view {
	const struct rings *rings; /* rings of a bounded cache; NULL: nothing is ever evicted */
	int32_t waiting;           /* number of newest tokens that are not in a ring yet */
	int observed;              /* 1: the rings have sums of attention mass */
};

/* Functions of a retention policy. The policy decides which KV entries are kept and which are evicted, except in
 * sliding-window layers, where retain_window.c decides this. */
struct retention_ops {
	int endless;   /* 1: a sequence may be longer than the context */
	int keeps_all; /* 1: nothing is ever evicted, and slot i has the entry of token i */
	/* 1: segments() may overwrite entries that it listed for an earlier token. So the attention of each drafted
	 * token is computed before segments() is called for the next token. */
	int alone;
	/* Return the number of bytes of the retention's own buffers. Also called before the cache is open. */
	uint64_t (*bytes)(const struct cache *);
	int32_t (*cap)(const struct cache *); /* Return the number of slots per KV head that the store needs. */
	/* Return the maximum number of tokens whose entries the cache holds at a time, even if the sequence is longer.
	 * If this function pointer is NULL, the number is ctx. Also called before the cache is open. */
	int32_t (*holds)(const struct cache *);
	/* Return the maximum number of tokens of a step. If this function pointer is NULL, the number is c->batch. */
	int32_t (*chunk)(const struct cache *);
	/* Check the settings, set limits, allocate state. Called before memory for keys and values is allocated. On
	 * failure the caller calls release(). */
	int (*init)(struct cache *, struct err *);
	void (*release)(struct cache *); /* Free what init() allocated; also called after a failed init(). */
	/* Set the members `marked`, `steps_matter`, `region`, `selecting` and `tail` of the cache. Called after the
	 * selector was opened, and also if there is no selector. */
	void (*selector_opened)(struct cache *);
	/* Prepare RoPE tables and slots for a step. The function must not change committed state, because a rollback
	 * does not undo it. */
	void (*begin)(struct cache *, const struct step *);
	/* Apply RoPE to the keys and queries of the step's tokens, and store the keys and values. If the layer reads
	 * another layer's entries, there are only queries. */
	void (*put)(struct cache *, const struct step *, int32_t layer, const struct qkv *);
	/* Return the number of slots of the region: the first slots of the cache, from which a selector may select.
	 * They may include slots of the step's own tokens. */
	int32_t (*region)(const struct cache *, const struct step *);
	/* List the segments (ranges or lists of slots) that the step's tokens read. In a VERIFY step (drafted tokens),
	 * list the segments that token st->index reads; cache_frame() returns the tensor with the query of this
	 * token. */
	void (*segments)(struct cache *, const struct step *, int32_t layer, const struct qkv *, struct reading *);
	/* Return the probe (recorder of attention weights) for this step, or NULL. The probe must skip the first `skip`
	 * slots in reading.seg (see reading.skip). This function pointer may be NULL, too. */
	const struct attn_probe *(*probe)(struct cache *, const struct step *, int32_t layer, int32_t skip);
	/* Called after the attention of each layer, except of the layers with a sliding window. This function pointer
	 * may be NULL. */
	void (*seen)(struct cache *, const struct step *, int32_t layer);
	/* Commit the first st->n tokens of the step. In a VERIFY step, st->n may be smaller than st->tried, the number
	 * of drafted tokens. nll[st->n] is the model's surprise (negative log-likelihood) at each token; it is NULL
	 * unless c->wants_nll is set. A commit is not interrupted if the call is cancelled. */
	void (*commit)(struct cache *, const struct step *, const float *nll);
	/* Return the maximum number of drafted tokens of a VERIFY step after `pos` tokens; at least 1. */
	int32_t (*verify_most)(const struct cache *, int32_t pos);
	/* Roll back to the first n tokens. Return how many tokens remain, at most n. The state then has the same bits
	 * as if only these tokens had ever been computed. */
	int32_t (*rewind)(struct cache *, int32_t n);
	/* Pin the first n tokens: never evict them. Return how many tokens the cache still has, or -1 (ERR_FIT). The
	 * pointer is NULL if the policy never evicts. */
	int32_t (*pin)(struct cache *, int32_t n, struct err *);
	/* Return the number of bytes of KV entries that the token at index `pos` reads, sliding-window layers not
	 * counted. `generated` is 1 for a decoded token. */
	uint64_t (*read_bytes)(const struct cache *, int32_t pos, int generated);
	/* Report which entries are kept and which are evicted. The pointer is NULL if nothing is ever evicted. */
	void (*ring_stats)(const struct cache *, struct ring_stats *);
	/* Set *view to the state that observers may read. The pointer is NULL if nothing is ever evicted, because there
	 * is no such state then. */
	void (*view)(const struct cache *, struct retained_view *);
	/* Return the token whose KV entry is in a slot, in the layer that is being computed. This function pointer is
	 * NULL if view() tells which token it is, or if slot i holds token i. */
	int32_t (*token_at)(const struct cache *, int32_t slot);
	/* Copy the attention mass that view() shows from the backend to the host. The pointer may be NULL. */
	void (*mass_read)(struct cache *);
	/* ---- snapshots (snapshot.c) ---- */
	/* Return the number of tokens that have KV entries in the cache. If this function pointer is NULL, all tokens
	 * have entries. */
	int32_t (*kept)(const struct cache *);
	/* Return how many tokens from the beginning of the sequence are still in their original slots (token i in slot
	 * i). If no token has moved, the result is at least n. */
	int32_t (*ready)(const struct cache *, int32_t n);
	/* Accept the entries of n tokens, which the caller has written into the first slots of an empty cache. Return
	 * how many of these tokens are kept. The next token can then be computed after the kept ones. */
	int32_t (*take)(struct cache *, int32_t n);
	/* Save or load the state after n tokens (serialize.h). The state does not include the KV entries of the tokens
	 * that ready() counts; these are saved as fixed entries (engine_snapshot.h). When the state is loaded, these
	 * entries are in their slots already, and the cache is otherwise empty. If loading fails, the caller calls
	 * rewind(0). */
	void (*archive)(struct cache *, struct serializer *, int32_t n);
	/* Save or load the rollback points: earlier states to which rewind() can return. The pointer may be NULL. */
	void (*points)(struct cache *, struct serializer *);
};
extern const struct retention_ops retain_all, retain_cascade;

/* ---- sizes and life (cache_open.c) ---- */

/* Memory and disk space that a cache takes, in bytes. `memory` is main memory, or GPU memory if a GPU computes. `disk`
 * is the size of a file. `host` is the main memory taken in addition to GPU memory. `disk` and `host` are 0 if the
 * whole cache fits the limit cache.memory. `least` is the smallest value of cache.memory that works. UINT64_MAX means
 * that the number is too large to count, or that no limit is large enough. */
struct cache_size {
	uint64_t memory, disk, host, least;
};
/* Compute how much memory and disk space cache_open() will take. Only the fields set by the owner are read. If
 * c->memory is below `least`, compute as if c->memory were `least`. */
struct cache_size cache_size(const struct cache *);
/* Return the maximum number of entries per KV head that a decoded token selects. Return 0 if the policy does not
 * support keys and values in host memory beside a GPU. */
int32_t cache_listed(const struct cache *);
/* Return an upper limit of the memory that an open cache takes, in bytes. If a GPU computes, only GPU memory counts. */
uint64_t cache_resident_bytes(const struct cache *);
/* Open the cache. c->memory must be 0 or at least cache_size.least. If opening fails, everything is freed again. */
int cache_open(struct cache *, struct err *);
void cache_close(struct cache *);

/* ---- steps and rollbacks ---- */

void cache_begin(struct cache *, const struct step *);
void cache_attend(struct cache *, int32_t layer, const struct qkv *);
/* Commit the first n tokens of the step. n may be smaller than the number of tokens only in a VERIFY step, which checks
 * drafted tokens. nll[n] is the model's surprise at each token, or NaN if it is unknown. nll is NULL unless
 * c->wants_nll is set. */
void cache_commit(struct cache *, int32_t n, const float *nll);
void cache_rollback(struct cache *);
/* Called after a prefill: return how many of the newest tokens must be repeated for the selector, or 0. See
 * selector_ops.repeat. */
int32_t cache_repeat(struct cache *);
void cache_repeated(struct cache *);
/* Return the largest number of drafted tokens that a VERIFY step after pos tokens may have. The number is between 1 and
 * VERIFY_MOST. */
int32_t cache_verify_most(const struct cache *, int32_t pos);

/* Roll back to the first n committed tokens. Return how many tokens remain: fewer than n if the cache cannot return to
 * exactly n. If the caller appends the removed tokens again, the first *replay of them must be decoded one by one
 * (STEP_GENERATE), because they were decoded before and prefilling would give them other entries. All later tokens may
 * be prefilled. `replay` may be NULL. */
int32_t cache_rewind(struct cache *, int32_t n, int32_t *replay);
/* Keep a copy of the current states of recurrent layers, so that a rollback can return to the current length. */
void cache_keep_states(struct cache *);
int32_t cache_pin(struct cache *, int32_t n, struct err *);
uint64_t cache_read_bytes(const struct cache *, int32_t pos, int generated);
static inline int cache_keeps_all(const struct cache *c)
{
	return c->policy.def->retention->keeps_all;
}
/* Take over from `other` the KV entries of n tokens and the states of recurrent layers. The two stores (memory of keys
 * and values) are exchanged, or entries are copied if the stores are in different kinds of memory (disk, host, device).
 * Both caches must have the same model and entry type, and policies that never evict. Call cache_rewind() before the
 * next step, because the selector has not observed these tokens. Returns 0, or -1 if there is no memory for the
 * copy. */
int cache_take_store(struct cache *, struct cache *other, int32_t n);
int32_t cache_ready(const struct cache *, int32_t n);
int32_t cache_take(struct cache *, int32_t n);
void cache_archive(struct cache *, struct serializer *, int32_t n);
/* Save or load the rollback points: earlier states to which a rollback can return. They are not part of
 * cache_archive(), because older snapshots do not have them. */
void cache_points_archive(struct cache *, struct serializer *);

/* Return the size of the KV entries in the cache, in bytes. */
uint64_t cache_used_bytes(const struct cache *);

/* ---- retention of sliding-window layers (retain_window.c), called by cache.c ---- */

uint64_t windows_bytes(const struct cache *);
int windows_open(struct cache *, struct err *);
void windows_close(struct cache *);
void windows_begin(struct cache *, const struct step *);
void windows_put(struct cache *, const struct step *, int32_t layer, const struct qkv *);
void windows_segments(struct cache *, const struct step *, int32_t layer, const struct qkv *, struct reading *);
/* Save or load (serialize.h) the KV entries of sliding-window layers that are read by any token from index n -
 * WINDOW_LEAST to index n. Called only if entries of other layers have moved. If none have moved, a snapshot stores the
 * entries of all layers token by token. */
void windows_archive(struct cache *, struct serializer *, int32_t n);

/* ---- for retentions ---- */

/* Allocate a tensor of the backend. On failure t is zeroed. */
int cache_alloc(struct cache *, struct tensor *t, enum dtype, int64_t rows, int64_t cols, struct err *);
void cache_drop(struct cache *, struct tensor *t);
/* Implement put() for a retention (retention_ops) that stores token i in slot i. Apply `rope` to keys and queries. The
 * rotated queries are written to c->q or, if c->q has no data, back to the tensor x->q. */
void cache_put(struct cache *, const struct step *, int32_t layer, const struct qkv *, const struct rope *);
/* Return the step's queries after RoPE, normally q itself. In a VERIFY step of several tokens, return a copy of row
 * st->index of q, which is the query of one drafted token. The copy is in buffer number `frame`. */
const struct tensor *cache_frame(struct cache *, const struct step *, int frame, const struct tensor *q);
/* Tell the selector that the keys in the first n slots were loaded or copied instead of computed by a step. */
void cache_note(struct cache *, int32_t n);
/* List in seg[] which of the first n_slots slots a token reads. A decoded token reads the slots that it selects, a
 * prompt token reads all slots. Returns the number of segments (ranges or lists of slots). */
int cache_region(struct cache *, const struct step *, int32_t layer, const struct qkv *, const struct tensor *q,
                 int32_t n_slots, struct attn_segment seg[SELECT_SEGMENTS]);

#endif
