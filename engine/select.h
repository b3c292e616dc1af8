/* engine/select.h (private to engine/) - choosing which cached rows one generated token reads.
 *
 * A selector looks at a region of a kv's planes, rows 0 .. n of every KV head, where row r holds token r, rotated at
 * position r, and nothing is ever removed.  Before a generated token attends, choose() names the rows it reads.  Tokens
 * that are read (not generated) attend everything; a selector may look at that through its probe.
 * policy_list.c uses a selector over the whole cache (the token's own row is the region's last), policy_stream.c over the
 * pinned prefix (own = 0: the token itself is elsewhere), policy_watch.c beside full attention.
 *
 *     select_sift.c      at every step, through a low-bit copy of the keys
 *     select_refresh.c   now and then, by the probabilities of one token; streaming++
 *     select_quest.c     at every step, pages by their bounds
 *     select_kept.c      once, at the end of what was read: h2o, h2o+, snapkv
 *
 * A call that fails or is cancelled never reaches end(), and must leave no trace in what later calls choose: what choose()
 * and seen() decide counts for their own call, and for others from end() on. */
#ifndef WEIR_SELECT_H
#define WEIR_SELECT_H

#include "engine/policy.h"

enum { SELECT_PARTS = 3 };

struct selector {
	const struct selector_ops *ops;
	const struct kv_params *par;
	struct kv *kv;             /* borrowed */
	int own;                   /* the region's last row is the token that chooses: always chosen */
	/* Set by init: so many tokens at the end of what is read are looked at.  A call that ends a read should carry as
	 * many, and rewind() goes back far enough that it does. */
	int32_t tail;
	void *state;
	struct looks *looks;       /* NULL: nobody looks */
};

struct selector_ops {
	uint64_t (*bytes)(const struct kv_params *, const struct hparams *, const struct backend *, int32_t cap);
	int  (*init)(struct selector *, struct err *);
	void (*release)(struct selector *);   /* also after a failed init */
	/* Rows row0 .. row0 + n of this layer were put: bring copies and bounds up to date.  May be NULL. */
	void (*note)(struct selector *, int32_t layer, int32_t row0, int32_t n);
	/* A generated token with rotated query q (raw: not rotated) is about to attend a region of n_rows: describe what it
	 * reads in part[] and return the number of parts, each with q as its queries.  A part's choice, if it has one, is the
	 * selector's until the next call of choose(), and is made by kv_attend() or kv_choose(). */
	int  (*choose)(struct selector *, const struct step *, int32_t layer, const struct tensor *q, const struct tensor *raw,
	               int32_t n_rows, struct attn_part part[SELECT_PARTS]);
	/* What to watch while the tokens of this call attend the region (reading: all of it; generating: what was chosen), or
	 * NULL.  It may be NULL itself. */
	const struct attn_probe *(*probe)(struct selector *, const struct step *, int32_t layer, int32_t n_rows);
	/* The tokens of this call have attended; q and raw have st->n rows.  May be NULL. */
	void (*seen)(struct selector *, const struct step *, int32_t layer, const struct tensor *q, const struct tensor *raw,
	             int32_t n_rows);
	/* The call succeeded and the region has n_rows now.  May be NULL. */
	void (*end)(struct selector *, const struct step *, int32_t n_rows);
	/* Only the first n rows are left; returns how many of them it can go on from (n, or fewer: read again from there). */
	int32_t (*rewind)(struct selector *, int32_t n);
	/* Bytes of rows, copies and bounds that a generated token reads of a region of n_rows, on average. */
	uint64_t (*read_bytes)(const struct selector *, int32_t n_rows);
	/* What it knows of a region of n_rows beside copies and bounds (archive.h).  Loading: rewind() comes after a failure.
	 * NULL: nothing. */
	void (*archive)(struct selector *, struct archive *, int32_t n_rows);
	/* For those who look (view.c).  The most rows of a list that choose() makes where all layers share one, so that it is
	 * gone when the next layer has chosen.  0 or NULL: each has its own, or there are none. */
	int32_t (*shared)(const struct selector *);
	/* Rows of a region of n_rows that will be read, until something is read again; as choose(), without queries.  NULL: any
	 * may be. */
	int  (*holds)(const struct selector *, int32_t layer, int32_t n_rows, struct attn_part part[SELECT_PARTS]);
	/* The attention that each row received, if that is known of the layer. */
	const float *(*sums)(const struct selector *, int32_t layer, int32_t head);
	/* How it would look for rows of a region of n_rows: the same scan once more tells what share of attention those that it
	 * chose have got, as far as the scan knows.  out is scratch.  NULL: its scan tells of no probabilities. */
	struct scan_args (*scan)(const struct selector *, int32_t layer, const struct tensor *q, int32_t n_rows);
};

extern const struct selector_ops select_sift, select_refresh, select_streaming, select_quest;
extern const struct selector_ops select_kept;   /* h2o, h2o+, snapkv: by par->kept */

int  select_open(struct selector *, const struct selector_ops *, const struct kv_params *, struct kv *, int own, struct err *);
void select_close(struct selector *);

/* ---- what the last generated token read, remembered while someone looks ---- */

struct look {
	struct attn_part part[SELECT_PARTS];   /* what it chose; queries and choices in there are old */
	int n_part;
	int fresh;                 /* a set was chosen anew; -1: there are no sets that serve several tokens */
	double cosine;             /* of its query with that of the last choice; -2: that was not looked at */
	/* Share of the attention of a generated token on what it read, or would have read; -1: not known. */
	double now, share;         /* of the call that runs; as it was measured last */
	int n_rows, wanted;        /* it has chosen among so many rows in the call that runs; its share is to be measured */
};
struct looks {
	struct look *layer;        /* [n_layer] of the call that runs */
	struct tensor *list;       /* [n_layer] i32 [n_kv_head][..], in place of a list that all layers share; NULL: there is none */
	int32_t at;                /* layer[] is what a generated token chose in a region of so many rows; 0: it is not */
	int32_t refreshed;         /* layers that chose a set anew for it; -1: there are no sets */
	double cosine;             /* mean over layers when queries were compared last; -2: never */
	/* Shares are measured in a few layers for each look, one after the other: that costs a scan of each. */
	int32_t next;              /* the first layer that is to be measured for the next one */
	float *score;              /* scores and a list of one KV head */
	int32_t *rows;
	int32_t cap;               /* of them */
};

/* choose(), noted. */
int  select_choose(struct selector *, const struct step *, int32_t layer, const struct tensor *q, const struct tensor *raw,
                   int32_t n_rows, struct attn_part part[SELECT_PARTS]);
/* The tokens of this call have attended. */
void select_seen(struct selector *, const struct step *, int32_t layer, const struct tensor *q, const struct tensor *raw,
                 int32_t n_rows);
/* A call succeeded that chose among n_rows rows in each layer; 0: that chose nothing, or rows were forgotten. */
void select_looked(struct selector *, int32_t n_rows);
/* Someone looks, now and from now on.  Without memory for it nobody does. */
void select_look(struct selector *);
/* Mean over the layers in which it was measured since something was read; -1 = in none. */
double select_shares(const struct selector *);

/* ---- for selectors ---- */

/* A layer kept its set, or chose it anew. */
static inline void select_fresh(struct selector *s, int32_t layer, int fresh)
{
	if (s->looks)
		s->looks->layer[layer].fresh = fresh;
}
/* Someone wants to know what share of this layer's attention its rows get. */
static inline int select_wants_share(const struct selector *s, int32_t layer)
{
	return s->looks && s->looks->layer[layer].wanted;
}
/* The mean over the query heads of what a scan finds on these rows, noted. */
void select_share(struct selector *, int32_t layer, struct scan_args scan, const struct attn_part *part, int n_part);
/* Where to put the list of a layer: own is shared. */
static inline struct tensor *select_list(const struct selector *s, int32_t layer, struct tensor *own)
{
	return s->looks && s->looks->list ? &s->looks->list[layer] : own;
}

/* Which of the parts are read where the backend decides (struct predicate): the others are taken out.  Asks the backend.  Returns
 * how many are left. */
int  select_settle(const struct selector *, struct attn_part *part, int n_part);
/* A tensor of the backend; t is zeroed memory before and after. */
int  select_alloc(const struct selector *, struct tensor *t, enum dtype, int64_t rows, int64_t cols, struct err *);
void select_drop(const struct selector *, struct tensor *t);
/* The first n columns of the first `rows` rows of an f32 tensor become 0. */
void select_zero(const struct selector *, struct tensor *t, int32_t rows, int32_t n);
/* Everything, contiguously: the same bits as `full`. */
int  select_whole(const struct tensor *q, int32_t n_rows, struct attn_part part[SELECT_PARTS]);
/* Bytes of so many rows, which need not be whole, in all layers. */
uint64_t select_row_bytes(const struct selector *, double rows);
/* The most rows that k can come to in a region of cap. */
int32_t select_most(struct kv_rows k, int32_t cap);
/* Share n_layer * mean rows among layers in proportion to need[], each within mean / 4 .. 3 * mean and at most `most` (the
 * region).  need NULL: evenly. */
void select_split(int32_t *k, const double *need, int32_t n_layer, int32_t mean, int32_t most);

/* Row sets that serve several steps, one per layer.  A new one serves its own call, and is kept by picks_commit(). */
struct pick {
	struct tensor rows;        /* i32 [n_kv_head][most] */
	int32_t at, k;             /* the region's rows when it was chosen (0: there is none), rows in it */
};
struct picks {
	struct pick (*slot)[2];    /* [n_layer]: cur[layer] is in use, the other one is being chosen */
	uint8_t *cur, *fresh;      /* [n_layer]; fresh: the other one replaces it at the end of the call */
	int32_t n_layer;
};
uint64_t picks_bytes(const struct hparams *, int32_t most);
int  picks_init(struct picks *, const struct selector *, int32_t most, struct err *);
void picks_release(struct picks *, const struct selector *);
/* A call comes to a layer: nothing is fresh. */
static inline void picks_enter(struct picks *p, int32_t layer) { p->fresh[layer] = 0; }
/* The set in use, maybe without rows. */
static inline struct pick *picks_get(struct picks *p, int32_t layer) { return &p->slot[layer][p->cur[layer] ^ p->fresh[layer]]; }
/* Room for another. */
struct pick *picks_new(struct picks *, int32_t layer, int32_t at, int32_t k);
/* The same, but whether it serves is not known yet: fresh[layer] is the caller's to set before picks_commit(). */
struct pick *picks_spare(struct picks *, int32_t layer, int32_t at, int32_t k);
void picks_commit(struct picks *);
/* Forget the sets chosen over more than n rows (0: all). */
void picks_forget(struct picks *, int32_t n);
void picks_archive(struct picks *, const struct selector *, struct archive *);

#endif
