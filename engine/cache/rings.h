/* engine/cache/rings.h (private to engine/) - bookkeeping of the cascading KV cache: which slot holds which token of
 * a stream.
 *
 * The first `sinks` tokens are never evicted. The rest of the stream is held in n rings of w slots each, counted from
 * the first slot behind the sinks. Every token enters the newest ring, ring 0. The token that a ring displaces is
 * offered to the next ring, which accepts once in f^i tokens. At other times the offered token competes with that
 * ring's newest token: the one with more attention mass stays, the other is evicted. The last ring evicts what it
 * displaces. Until the rings are full, the slots hold the tokens in order ("filling").
 *
 *     slot  0 ........ w-1 | ... | .......... size-1 | size ... size+stage-1
 *           oldest ring n-1        newest ring 0       staged: tokens that have not joined the rings
 *
 * A *head* (a pair of layer and KV head, or a whole layer) decides competitions by its own attention mass. Everything
 * else depends only on the number of tokens: which slots are written, and the counters. So one path serves all
 * heads.
 *
 * Positions: a ring numbers its entries without end, in the order in which it fills slots, and a key is stored
 * rotated (RoPE) by its entry's number. The published position of a token differs from that number by one constant
 * per ring, which the query's rotation includes (rings_query). Numbers start as positions in the stream, so keys keep
 * their rotation until the first token is evicted.
 *
 * This file knows only integers and attention mass: no backend, no model. */
#ifndef WEIR_RINGS_H
#define WEIR_RINGS_H

#include "engine/cache/ema.h"
#include "engine/engine_view.h"

struct rings_shape {
	int32_t sinks, n, w, f; /* n: 1 to RINGS_MOST */
	int32_t stage;          /* staged slots: most tokens of one rings_insert() */
	double gamma;           /* EMA factor of attention mass; 0 = ema_gamma(w) */
	/* For tests. no_eager: rings accept at their own rates from the start. keep_ties: the older token wins a
	 * tie. */
	int no_eager, keep_ties;
};

struct rings_event { /* what one call did to one token */
	enum slot_what what;
	int32_t token, ring;
	int32_t heads; /* heads in which it happened */
	double mass;   /* the token's attention mass, summed over these heads */
};

struct rings {
	struct rings_shape s;
	int32_t heads, size, n_slots; /* size: n * w; n_slots: size + stage */
	int32_t period[RINGS_MOST];   /* ring i accepts once in period[i] = f^i tokens */
	int32_t t;                    /* tokens inserted, sinks included */
	int64_t next[RINGS_MOST];     /* number of the next slot that ring i fills */
	int32_t cnt[RINGS_MOST];      /* slots that ring i has filled, at most w */
	int32_t *id;                  /* [n_slots][heads] token in each slot */
	int64_t *number;              /* [n_slots] position by which the keys of a slot are rotated */
	/* Attention mass. NULL if tokens never compete. */
	struct ema ema;
	float *mass;   /* [n_slots][heads] sums of EMA weight * attention */
	float *factor; /* [mask + 1] by token: multiplies the token's mass in a competition; NULL = 1 */
	/* How many heads hold a token. Arrays by token are indexed by token & mask; they cover the span from `oldest`
	 * to t. */
	int32_t *held; /* [mask + 1] by token */
	int32_t mask;
	int32_t evicted, evicted_in_part; /* tokens that no head holds; tokens that only some heads hold */
	int32_t oldest;                   /* no head holds a token before this one, except the sinks */
	/* The moves of the last rings_insert(), which the KV cache repeats: in head h, slot changed[i] receives the
	 * entry of slot from[i][h] (changed[i] itself: the entry stays). Its key is rotated by
	 * rope_shift[rope_shift_at[i][h]] further positions (-1: not rotated). */
	int32_t n_changed, n_rope_shift;
	int32_t *changed, *from, *rope_shift_at;
	int64_t *rope_shift;
	/* What the last rings_insert() did to each token; recorded only if log_events is set. */
	int log_events;
	struct rings_event *event;
	size_t n_event, cap_event;
	int32_t *event_at[3]; /* by enum slot_what: [mask + 1] by token, index into event; -1 = none */
	/* Scratch of rings_insert(). */
	int32_t *src;             /* [n_slots][heads] slot whose entry this slot will receive */
	int32_t *hand;            /* [heads] slot whose entry is offered to the next ring */
	int64_t *renumber;        /* [n_slots] new number of a touched slot */
	int32_t *rope_shift_from; /* [n_slots] by source slot: index into rope_shift; -1 = none yet */
	uint8_t *touched;         /* [n_slots] 1: the slot is in changed[] */
	int32_t *new_id;          /* [n_changed][heads] token of each changed slot, before it is stored */
	float *new_mass;
};

/* Bytes of all buffers for the shape `largest`. */
uint64_t rings_bytes(const struct rings_shape *largest, int32_t heads, int with_mass, int with_factor);
/* Allocate buffers for `largest`. They serve every shape with the same f, and at most as many rings, slots in rings and
 * staged slots. with_mass: tokens compete; with_factor: allocate factor[]. */
int rings_init(struct rings *, const struct rings_shape *largest, int32_t heads, int with_mass, int with_factor,
               struct err *);
void rings_release(struct rings *);
/* Restart the moving average with the shape's gamma. */
void rings_ema_reset(struct rings *);
/* Empty the rings and give them this shape, which must fit the buffers. */
void rings_reset(struct rings *, const struct rings_shape *);

/* 1 while no token was moved or evicted. Slot i of the rings then holds token sinks + i. */
static inline int rings_filling(const struct rings *r)
{
	return !r->s.no_eager && r->t <= r->s.sinks + r->size;
}
/* The slot in which the first token of the next rings_insert() is staged; negative while sinks are missing. */
int32_t rings_stage(const struct rings *);
/* Number of tokens in ring i. */
int32_t rings_fill(const struct rings *, int32_t i);
/* *first, *last: the oldest and the newest token that any head holds in ring i; -1 if the ring is empty. */
void rings_span(const struct rings *, int32_t i, int32_t *first, int32_t *last);
/* Return the position at which to rotate the next token's query for attention to the keys of ring i. */
int64_t rings_query(const struct rings *, int32_t i);
/* The position of the next token within the cache: sinks and tokens in all rings. */
int32_t rings_rank(const struct rings *);

/* Find the slots whose attention mass rings_insert() of n tokens will compare. Write at most `most` of them to
 * slot[]; return the total number, which may be larger. */
int32_t rings_slots_read(const struct rings *, int32_t n, int32_t *slot, int32_t most);
/* Insert the n tokens in the staged slots, whose mass is in mass[]. */
void rings_insert(struct rings *, int32_t n);
/* Roll back to the first n tokens. Return how many remain: n, or after an eviction at most the number of sinks. */
int32_t rings_rewind(struct rings *, int32_t n);
/* Recompute all fields for t tokens from id[], after rings_reset() and loading id[]. t exceeds the sinks and the
 * rings' slots. Returns -1 if no stream of t tokens leaves this id[]; the caller then resets the rings. */
int rings_restore(struct rings *, int32_t t);

#endif
