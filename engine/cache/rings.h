/* engine/cache/rings.h (private to engine/) - bookkeeping of the cascading KV cache: which slot holds which token. This
 * module handles token numbers and attention mass, but no keys or values.
 *
 * The first `sinks` tokens are never evicted. All later tokens enter ring 0, the newest of n ring buffers of w slots
 * each. A token that a ring displaces is offered to the next older ring; ring i accepts one token in f^i. An offered
 * token that is not accepted competes with the newest token of the older ring: of the two, the token with less
 * attention mass is evicted. Tokens that the last ring displaces are evicted.
 *
 * Slots are counted from the end of the sinks. There are w slots for each ring, the oldest ring first, then `stage`
 * slots for new tokens that have not joined the rings (staged tokens). Until the rings are full, tokens are in the
 * slots in order.
 *
 * A *head* is a KV head of one layer, or a whole layer. Each head decides competitions by its own attention mass.
 * Which slots are written depends only on the number of tokens, so it is the same for all heads. */
#ifndef WEIR_RINGS_H
#define WEIR_RINGS_H

#include "engine/cache/ema.h"
#include "engine/engine_view.h"

struct rings_shape {
	/* `sinks` is the number of tokens at the beginning that are never evicted. `n` is the number of rings, 1 to
	 * RINGS_MOST. `w` is the number of slots of each ring. Ring i accepts one of every f^i tokens. */
	int32_t sinks, n, w, f;
	int32_t stage; /* number of staged slots: the maximum number of tokens of one rings_insert() */
	/* For tests. no_eager = 1: ring i accepts one of every f^i tokens even before the rings are full; 0: until
	 * then, every ring accepts every token. keep_ties = 1: if two tokens have equal attention mass, the newer one
	 * is evicted; 0: the older one is evicted. */
	int no_eager, keep_ties;
};

struct rings_event { /* What rings_insert() did to one token. Heads that did the same (`what`) share one struct. */
	enum slot_what what;
	int32_t token, ring;
	int32_t heads; /* number of heads in which the event happened */
	double mass;   /* the token's attention mass, summed over the heads in which the event happened */
};

struct rings {
	struct rings_shape s;
	/* `size` is the number of slots of all rings, n * w. `n_slots` also includes the staged slots. */
	int32_t heads, size, n_slots;
	int32_t period[RINGS_MOST]; /* ring i accepts one of every period[i] = f^i tokens */
	int32_t t;                  /* number of tokens inserted so far, sinks included */
	/* number that ring i will give to its next entry; a ring numbers its entries in the order of arrival */
	int64_t next[RINGS_MOST];
	int32_t cnt[RINGS_MOST]; /* number of slots that ring i has filled, at most w */
	int32_t *id;             /* [n_slots][heads]: number of the token in each slot */
	/* [n_slots] For each slot, the number that its ring has given to the entry (see next[]). It is the position
	 * to which the key is rotated. */
	int64_t *number;
	/* `ema` is the state of the moving average of attention mass, `mass` has the sums. If `mass` is NULL, tokens
	 * are evicted without comparing their attention mass. */
	struct ema ema;
	float *mass; /* [n_slots][heads] sums of EMA weight * attention */
	/* [mask + 1] for each token, the factor by which its mass is multiplied when two tokens are compared and one is
	 * evicted; NULL: there are no factors */
	float *factor;
	/* Arrays [mask + 1] are ring buffers for tokens from `oldest` to t - 1. The element of a token has the index
	 * (token & mask). */
	int32_t *held; /* [mask + 1] for each token, the number of heads that have an entry of it */
	int32_t mask;
	/* `evicted` is the number of tokens of which no head has an entry any more. `evicted_in_part` is the number of
	 * tokens of which only some heads have an entry. */
	int32_t evicted, evicted_in_part;
	int32_t oldest; /* the oldest token, sinks excepted, of which any head still has an entry */
	/* How the last rings_insert() moved entries; the KV cache must repeat these moves. In head h, slot changed[i]
	 * receives the entry of slot from[i][h]; if both are the same slot, nothing moves. Then the key is rotated by
	 * rope_shift[rope_shift_at[i][h]] positions, or not rotated if rope_shift_at[i][h] is -1. */
	int32_t n_changed, n_rope_shift;
	int32_t *changed, *from, *rope_shift_at;
	int64_t *rope_shift;
	/* What the last rings_insert() did to each token: it admitted, moved or evicted the token. Recorded only if
	 * log_events is set. */
	int log_events;
	struct rings_event *event;
	size_t n_event, cap_event;
	/* For each kind of event (enum slot_what), an array [mask + 1]. The element of a token is the index in event[]
	 * of the token's event of this kind, or -1 if the token has no such event. */
	int32_t *event_at[3];
	/* Scratch of rings_insert(). */
	int32_t *src;  /* [n_slots][heads] for each slot: the slot whose entry it will receive */
	int32_t *hand; /* [heads] slot whose entry is offered to the next ring */
	/* [n_slots] for each slot in changed[]: the number that its new entry gets (see number[]) */
	int64_t *renumber;
	/* [n_slots] for each slot: index in rope_shift[] of the rotation that a key gets when it is moved out of the
	 * slot; -1: this rotation is not known yet */
	int32_t *rope_shift_from;
	uint8_t *touched; /* [n_slots] 1: the slot is listed in changed[] */
	int32_t *new_id;  /* [n_changed][heads] token that each changed slot will hold */
	float *new_mass;
};

/* Return the size of all buffers for the shape `largest`, in bytes. */
uint64_t rings_bytes(const struct rings_shape *largest, int32_t heads, int with_mass, int with_factor);
/* Allocate buffers for the shape `largest`. They are also large enough for smaller shapes with the same factor f
 * (struct rings_shape). If with_mass is 1, allocate mass[], so that tokens compete by attention mass. If with_factor is
 * 1, allocate factor[]. Returns 0 or -1. */
int rings_init(struct rings *, const struct rings_shape *largest, int32_t heads, int with_mass, int with_factor,
               struct err *);
void rings_release(struct rings *);
/* Restart the moving average of attention mass with the decay factor of rings of this size. */
void rings_ema_reset(struct rings *);
/* Empty the rings and set their shape. The buffers must be large enough for this shape. */
void rings_reset(struct rings *, const struct rings_shape *);

/* 1 while no token has been moved or evicted. Until then, slot i of the rings has token sinks + i. */
static inline int rings_filling(const struct rings *r)
{
	return !r->s.no_eager && r->t <= r->s.sinks + r->size;
}
/* Return the slot in which the next token is staged, that is, stored until rings_insert(). The result is negative if
 * the next token is one of the sinks, which are not staged. */
int32_t rings_stage(const struct rings *);
/* Return the number of tokens in ring i. */
int32_t rings_fill(const struct rings *, int32_t i);
/* Set *first and *last to the oldest and the newest token of ring i in any head. If the ring is empty, set both to
 * -1. */
void rings_span(const struct rings *, int32_t i, int32_t *first, int32_t *last);
/* Return the position to which the next token's query must be rotated (RoPE) when it attends to the keys of ring i. A
 * key's position is the number that ring i has given to its entry. So the query's position is the number that the
 * ring's next entry will get, plus the number of tokens in all newer rings. */
int64_t rings_query(const struct rings *, int32_t i);
/* Return how many tokens the sinks and the rings have. If no tokens are staged yet, this is also the next token's
 * position in the cache. */
int32_t rings_rank(const struct rings *);

/* Find the slots whose attention mass the next rings_insert() of n tokens will compare. Write at most `most` of them to
 * slot[]. Return their total number, which may be larger than `most`. */
int32_t rings_slots_read(const struct rings *, int32_t n, int32_t *slot, int32_t most);
/* Insert the first n staged tokens into the rings. mass[] must have the attention mass of these tokens. */
void rings_insert(struct rings *, int32_t n);
/* Roll back to the first n tokens. Return the number of tokens that remain. This is n if no entry has moved. Otherwise
 * it is at most the number of sinks, which are never evicted. */
int32_t rings_rewind(struct rings *, int32_t n);
/* Recompute all fields except attention mass and factors from id[]. Call this after rings_reset() and after loading
 * id[] for t tokens. t must be larger than the number of sinks and ring slots. Returns -1 if no sequence of t tokens
 * leads to this id[]; the caller then resets the rings. */
int rings_restore(struct rings *, int32_t t);

#endif
