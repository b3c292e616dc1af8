/* engine/rings.h (private to engine/) - the cascade's bookkeeping: which token of a stream lies in which row.
 *
 * After `sinks` tokens that stay for good, a stream lives in n rings of w rows.  Every token enters the newest ring.  What
 * falls out of ring i is offered to ring i + 1, which accepts once in f^i tokens; otherwise it is compared with the newest
 * token there and the one with the higher score stays.  What falls out of the last ring is gone.  While everything still
 * fits (eager), the rows simply hold the tokens in order.
 *
 *     row   0 ........ w-1 | ... | .......... size-1 | size ... size+stage-1
 *           oldest ring n-1        newest ring 0       tokens of the call that is running
 *
 * Every head (a pair of layer and KV head, or a layer) decides for itself, but all it decides is who wins a comparison: which
 * rows are written, and the counters, depend on the number of tokens alone.  So there is one path for all heads.
 *
 * Counters: the rows of a ring are numbered in the order in which they were filled, without end; a key is stored rotated by
 * its number.  The ranks that the method gives to tokens differ from these numbers by one constant per ring, which goes
 * into the rotation of the query (rings_query).  The numbers start as positions in the stream, so that nothing turns
 * until something has been dropped.
 *
 * Pure integers and scores: no backend, no model. */
#ifndef WEIR_RINGS_H
#define WEIR_RINGS_H

#include "engine/engine.h"

/* An exponential moving average whose sums never decay: the weights of newer tokens grow instead, and only ratios count.
 * Weights are scaled by powers of two alone, so that scaling changes no comparison. */
struct ema {
	double rate;               /* log2 of 1 / gamma */
	float gain;                /* 1 - gamma */
	int64_t shift;             /* weights are divided by 2^shift */
};
/* gamma = 100^(-1/w): a score counts 1 % after w tokens. */
float ema_gamma(int32_t w);
void  ema_set(struct ema *, float gamma);
/* Make room for the weights of tokens t .. t + n: returns the power of two (0 or less) that older sums must be multiplied with. */
int32_t ema_scale(struct ema *, int32_t t, int32_t n);
/* The same, and what they are. */
int32_t ema_weights(struct ema *, int32_t t, int32_t n, float *weight);
/* The average that a sum stands for, after the last of t tokens. */
float ema_value(const struct ema *, float sum, int32_t t);

struct rings_shape {
	int32_t sinks, n, w, f;    /* n up to RINGS_MOST */
	int32_t stage;             /* tokens of a call at most */
	int no_eager, keep_ties;   /* for tests: fill as the rings would; the older token wins ties */
};

struct rings_event {            /* what a call did to one token, heads together */
	enum row_what what;
	int32_t token, ring, heads;
	double score;              /* sum of their sums */
};

struct rings {
	struct rings_shape s;
	int32_t heads, size, rows; /* size = n * w; rows = size + stage */
	int32_t period[RINGS_MOST];
	int32_t t;                 /* tokens seen, sinks included */
	int64_t next[RINGS_MOST];  /* the number that a ring's next token gets */
	int32_t cnt[RINGS_MOST];
	int32_t *id;               /* [rows][heads] token */
	int64_t *number;           /* [rows] */
	/* Scores; sum is NULL when nothing is compared. */
	struct ema ema;
	float *sum;                /* [rows][heads] */
	float *worth;              /* [mask + 1] by token: a factor on its scores; NULL = 1 */
	/* How many heads hold a token. */
	int32_t *held;             /* [mask + 1] by token */
	int32_t mask, gone, thinned, oldest;
	/* What the last insert did: row row[i] = from[i][head] (its own number where nothing came), turned by turn[i][head]
	 * (an index into turns; -1 = as it is). */
	int32_t n_row, n_turn;
	int32_t *row, *from, *turn;
	int64_t *turns;
	/* Who listens. */
	int listen;
	struct rings_event *note;
	size_t n_note, cap_note;
	int32_t *note_at[3];       /* [mask + 1] by token: index into note, -1 */
	/* While inserting. */
	int32_t *src, *hand;       /* [rows][heads] whose content a row will have; [heads] what is being handed on */
	int64_t *renumber;         /* [rows] */
	int32_t *turn_of;          /* [rows] index into turns by source */
	uint8_t *touched;          /* [rows] */
	int32_t *new_id;
	float *new_sum;
};

/* Rows 0 .. cap of any shape with w or less and f, n alike may be used with these buffers. */
uint64_t rings_bytes(const struct rings_shape *largest, int32_t heads, int scored, int worth);
int  rings_init(struct rings *, const struct rings_shape *largest, int32_t heads, int scored, int worth, struct err *);
void rings_release(struct rings *);
/* Empty, with this shape (nothing larger than at init). */
void rings_reset(struct rings *, const struct rings_shape *);

/* Nothing has been moved or dropped yet: row r holds token sinks + r. */
static inline int rings_filling(const struct rings *r) { return !r->s.no_eager && r->t <= r->s.sinks + r->size; }
/* The row of the next call's first token; negative while sinks are missing. */
int32_t rings_stage(const struct rings *);
/* Tokens in ring i. */
int32_t rings_fill(const struct rings *, int32_t i);
/* The oldest and the newest token that any head holds in ring i; -1 when it is empty. */
void rings_span(const struct rings *, int32_t i, int32_t *first, int32_t *last);
/* What turns the next token's query so that the keys of ring i stand at their ranks. */
int64_t rings_query(const struct rings *, int32_t i);
/* Rank of the next token: sinks and all rings come before it. */
int32_t rings_rank(const struct rings *);

/* The rows whose sums rings_insert() of n tokens looks at: returns how many, and the first `most` of them. */
int32_t rings_rows_read(const struct rings *, int32_t n, int32_t *row, int32_t most);
/* n tokens, whose rows are staged and whose sums are there, join the stream. */
void rings_insert(struct rings *, int32_t n);
/* Forget all but the first n tokens: returns how many are left, n or (when something was dropped) the sinks at most. */
int32_t rings_rewind(struct rings *, int32_t n);
/* After rings_reset(), and with id[] filled in as t tokens left it, more than the sinks and the rings hold: whatever follows
 * from them.  -1 when they cannot have been left there: then rings_reset() again. */
int  rings_restore(struct rings *, int32_t t);

#endif
