/* engine/cache/rings.h (private to engine/) - bookkeeping of the cascading KV cache: which token of a stream lies in
 * which slot.
 *
 * The first `sinks` tokens stay for good. The rest of the stream lives in n rings of w slots of the KV cache, counted
 * from the first slot behind the sinks. Every token enters the newest ring, ring 0. The token that a ring displaces is
 * offered to the next one, which accepts once in f^i tokens; at other times the offered token competes with that ring's
 * newest token, the one with more attention mass stays and the other is evicted. The last ring evicts what it
 * displaces. Until the rings are full, the slots hold the tokens in order ("filling").
 *
 *     slot  0 ........ w-1 | ... | .......... size-1 | size ... size+stage-1
 *           oldest ring n-1        newest ring 0       staged: tokens that have not joined the rings
 *
 * Every head (a pair of layer and KV head, or a whole layer) decides competitions by its own attention mass. All else
 * depends on the number of tokens alone: which slots are written, and the counters. So one path serves all heads.
 *
 * Positions: a ring numbers its entries in the order in which it fills slots, without end, and a key is stored rotated
 * (RoPE) by its entry's number. The position that the method gives a token differs from that number by one constant per
 * ring, which the query's rotation includes (rings_query). Numbers start as positions in the stream, so keys keep their
 * rotation until the first token is evicted.
 *
 * Only integers and attention mass: no backend, no model. */
#ifndef WEIR_RINGS_H
#define WEIR_RINGS_H

#include "engine/cache/ema.h"
#include "engine/engine.h"

struct rings_shape {
	int32_t sinks, n, w, f; /* n: 1 to RINGS_MOST */
	int32_t stage;          /* staged slots: the most tokens of a rings_insert() call */
	double gamma;           /* of the moving average; 0 = ema_gamma(w) */
	/* for tests: accept at each ring's rate from the start; the older token wins a tie */
	int no_eager, keep_ties;
};

struct rings_event { /* what one call did to one token */
	enum slot_what what;
	int32_t token, ring;
	int32_t heads; /* heads in which it happened */
	double mass;   /* sum of the token's attention mass over these heads */
};

struct rings {
	struct rings_shape s;
	int32_t heads, size, n_slots; /* size = n * w; n_slots = size + stage */
	int32_t period[RINGS_MOST];   /* ring i accepts once in period[i] = f^i tokens */
	int32_t t;                    /* tokens seen, sinks included */
	int64_t next[RINGS_MOST];     /* number of the next slot that ring i fills */
	int32_t cnt[RINGS_MOST];      /* slots that ring i has filled, w at most */
	int32_t *id;                  /* [n_slots][heads] token */
	int64_t *number;              /* [n_slots] position by which the slot's keys are rotated */
	/* Attention mass, NULL when tokens never compete. */
	struct ema ema;
	float *mass;   /* [n_slots][heads] sums of ema weight * attention */
	float *factor; /* [mask + 1] by token: multiplies its mass in a competition; NULL = 1 */
	/* How many heads hold a token. Arrays by token are indexed by token & mask: they cover the span from the oldest
	 * to t. */
	int32_t *held; /* [mask + 1] by token */
	int32_t mask;
	int32_t evicted, evicted_in_part; /* tokens that no head holds; that some heads hold */
	int32_t oldest;                   /* no head holds a token before this one, sinks apart */
	/* The moves of the last rings_insert(), for the KV cache to repeat: in head h, slot changed[i] receives the
	 * entry of slot from[i][h] (changed[i] itself: it stays), its key rotated on by rope_shift[rope_shift_at[i][h]]
	 * positions (-1: not rotated). */
	int32_t n_changed, n_rope_shift;
	int32_t *changed, *from, *rope_shift_at;
	int64_t *rope_shift;
	/* What the last rings_insert() did to each token; recorded only while log_events is set. */
	int log_events;
	struct rings_event *event;
	size_t n_event, cap_event;
	int32_t *event_at[3]; /* by enum slot_what: [mask + 1] by token, index into event, -1 = none */
	/* Scratch of rings_insert(). */
	int32_t *src;             /* [n_slots][heads] slot whose entry this slot will receive */
	int32_t *hand;            /* [heads] slot whose entry is offered to the next ring */
	int64_t *renumber;        /* [n_slots] number that a touched slot will have */
	int32_t *rope_shift_from; /* [n_slots] by source slot: index into rope_shift, -1 = none yet */
	uint8_t *touched;         /* [n_slots] the slot is in changed[] */
	int32_t *new_id;          /* [n_changed][heads] */
	float *new_mass;
};

/* Buffers for every shape with the same f, no more rings, no more slots in them and no larger stage. with_mass: tokens
 * compete; with_factor: factor[] is there. */
uint64_t rings_bytes(const struct rings_shape *largest, int32_t heads, int with_mass, int with_factor);
int rings_init(struct rings *, const struct rings_shape *largest, int32_t heads, int with_mass, int with_factor,
               struct err *);
void rings_release(struct rings *);
/* The moving average starts anew, by the shape's gamma. */
void rings_ema_reset(struct rings *);
/* Empty the rings and give them this shape, which fits the buffers. */
void rings_reset(struct rings *, const struct rings_shape *);

/* 1 while nothing has been moved or evicted: slot r holds token sinks + r. */
static inline int rings_filling(const struct rings *r)
{
	return !r->s.no_eager && r->t <= r->s.sinks + r->size;
}
/* The slot in which the next call's first token is staged; negative while sinks are missing. */
int32_t rings_stage(const struct rings *);
/* Number of tokens in ring i. */
int32_t rings_fill(const struct rings *, int32_t i);
/* The oldest and the newest token that any head holds in ring i; -1 when the ring is empty. */
void rings_span(const struct rings *, int32_t i, int32_t *first, int32_t *last);
/* The position by which the next token's query is rotated to attend to the keys of ring i. */
int64_t rings_query(const struct rings *, int32_t i);
/* Position of the next token within the cache: the number of sinks and of tokens in all rings. */
int32_t rings_rank(const struct rings *);

/* The slots whose mass rings_insert() of n tokens reads: writes the first `most` of them, returns the number of all. */
int32_t rings_slots_read(const struct rings *, int32_t n, int32_t *slot, int32_t most);
/* Insert n tokens that lie in the staged slots, with their mass in mass[]. */
void rings_insert(struct rings *, int32_t n);
/* Roll back to the first n tokens. Returns how many are left: n, or the sinks at most when tokens have been evicted. */
int32_t rings_rewind(struct rings *, int32_t n);
/* After rings_reset() and with id[] loaded: recompute all other fields for t tokens, more than the sinks and rings
 * hold. -1 when no stream of t tokens leaves this id[]; the caller then resets the rings. */
int rings_restore(struct rings *, int32_t t);

#endif
