/* engine/policy.h (private to engine/) - what a KV cache policy is, and when it is asked.
 *
 * A policy owns the cached rows of one timeline: it puts keys and values somewhere, says which rows the queries
 * read, and decides afterwards which rows stay.  It works in backend operations alone.  The forward pass
 * (forward.c) hands it unrotated queries and keys, because where a token stands is the policy's business too.
 *
 *     policy.c         this table of policies, "NAME:key=value,..." in and out, help
 *     policy_full.c    everything stays and is read
 *     policy_list.c    everything stays, a chosen list is read (select.h: sift, refresh, quest, h2o, snapkv ...)
 *     policy_watch.c   everything stays and is read, while selectors say what they would have read
 *     policy_stream.c  bounded: sinks and cascading rings (rings.h); auto: a pinned prefix read through a list before them */
#ifndef WEIR_POLICY_H
#define WEIR_POLICY_H

#include "engine/engine.h"
#include "engine/kv.h"
#include "engine/rope.h"

/* ---- settings ---- */

enum param_type { PARAM_INT, PARAM_REAL, PARAM_ROWS, PARAM_CHOICE };
struct param {
	const char *key;
	enum param_type type;
	size_t off;               /* into struct kv_params; PARAM_ROWS: of a struct kv_rows; PARAM_CHOICE: of an int */
	double min, max;          /* of a number of any type */
	const char *choices;      /* "kv|layer": the index is stored; of a PARAM_INT "2|4|8": the numbers it can be */
	const char *preset;       /* as text; the first choice of a PARAM_CHOICE by habit */
	const char *help;
};

/* A number of rows: fixed, or a share of the sequence's length. */
struct kv_rows { int32_t n; double share; };   /* share > 0: n unused */
/* Rows of a sequence of that length, at least 1. */
int32_t kv_rows_of(struct kv_rows, int32_t length);

enum { HEADS_KV, HEADS_LAYER };
enum { SCORE_ATTN, SCORE_SURPRISE };
enum { SPLIT_NEED, SPLIT_EVEN };
enum { SCAN_K, SCAN_KV };
enum { BOUND_SOFT, BOUND_RAW };
enum { PREFIX_SIFT, PREFIX_REFRESH, PREFIX_FULL };
enum { GROUP_MAX, GROUP_MEAN, GROUP_FIRST };
enum { QUERY_PRE, QUERY_POST };
enum { KIND_MAX, KIND_AVG };
enum { UPDATE_YES, UPDATE_NO };
enum { KEPT_H2O, KEPT_H2O_PLUS, KEPT_SNAPKV };

struct archive;
struct attended;
struct policy_def;
struct rings;
struct selector;
struct selector_ops;
struct kv_params {
	const struct policy_def *def;
	struct kv_rows k;             /* rows read per KV head */
	int32_t size, sinks, recent;  /* rows that stay */
	int32_t n, f, stride, every, bits, dense, qc, pool, window, page;
	double s;
	int heads, reduce, select, score, split, scan, bound, prefix;   /* choices; reduce is an enum reduce */
	int group, query, pool_kind, kept, update;
};

/* ---- a policy at work ---- */

/* One call of the forward pass. */
struct step {
	int32_t pos, n;      /* tokens before, tokens in this call */
	int decode;          /* the token was generated (or is to be treated so): n == 1 */
	int last;            /* the end of what was asked to be read: the next call may be a decode */
	const float *nll;    /* [n] what the model's surprise at each token was, in nats; NULL when not asked for */
};

struct qkv {
	struct tensor *q, *k, *v;   /* f32 [n][heads * head_dim], not rotated; may be overwritten */
	struct tensor *out;         /* f32 [n][n_head * head_dim] */
};

/* What there is to look at, for a panel (view.c). */
struct policy_inside {
	const struct rings *rings;   /* of a bounded stream; NULL: nothing ever leaves */
	int32_t waiting;             /* tokens behind the rings that have not joined them */
	int observed;                /* the rings' sums hold attention */
	struct attended *attended;   /* what measures attention by region, when it is asked; NULL: nothing does */
	struct kv *kv;               /* and where, of */
	int32_t rows, chunk;         /* so many rows that a token reads at most, and tokens of a call */
	struct selector *sel;        /* rows are chosen, of the pinned ones where there are rings; NULL: all are read */
};

enum { WATCH_MAX = 32 };
struct policy {
	const struct policy_def *def;
	struct kv_params par;
	const struct hparams *hp;
	struct backend *be;
	enum dtype type;          /* of the planes */
	int32_t batch;            /* tokens of a call at most, as asked */
	int32_t ctx;              /* rows (tokens) asked for */
	/* Set by init: */
	int32_t limit;            /* longest sequence in tokens; ENDLESS */
	int32_t chunk;            /* tokens of a call at most: batch or less */
	int wants_nll;            /* step.nll is needed: costs the head over every token read */
	int32_t tail;             /* tokens a call that ends a read should carry, where as many are read; 0 = it does not matter */
	int32_t pinned;           /* tokens at the start that are the prefix region (documents) */
	/* What decides the rows of generated tokens beyond the tokens themselves (timeline_marks): */
	int marked;               /* they read other rows than tokens that are read would */
	int calls_matter;         /* and depend on how what was read was cut into calls */
	int32_t region;           /* tokens before the stream when generated ones choose among those; -1 = no matter */
	void *state;
	timeline_rows_fn *rows_fn;   /* who listens to what end() did to the rows; NULL = nobody */
	void *rows_ud;
	/* Policies whose choice is watched while everything is attended (policy_watch.c). */
	struct kv_params watch[WATCH_MAX];
	int n_watch;
};
#define ENDLESS INT32_MAX

struct policy_def {
	const char *name, *help;      /* "cascade", one line */
	const struct param *params;   /* ends with key = NULL */
	/* Fix what the text cannot express (recycled is refresh with some settings); may be NULL. */
	void (*preset)(struct kv_params *);
	const struct selector_ops *select;   /* how it chooses rows of a cache that keeps all of them (select.h); else NULL */
	/* Memory that init() will take with these p->par, hp, type, batch and ctx; grows with ctx or is constant. */
	uint64_t (*bytes)(const struct policy *);
	/* Allocate; p is filled in but for what init sets.  On failure everything is released. */
	int  (*init)(struct policy *, struct err *);
	void (*release)(struct policy *);   /* also of a policy whose init failed half way; state may be NULL */
	/* A call follows: rotary tables, places.  Nothing that a failed call may not leave behind. */
	void (*begin)(struct policy *, const struct step *);
	/* One layer: rotate, store, attend.  Errors stick in the backend. */
	void (*attend)(struct policy *, const struct step *, int32_t layer, const struct qkv *);
	/* The call succeeded: score, move, drop.  Not interrupted by cancel.  May be NULL. */
	void (*end)(struct policy *, const struct step *);
	/* Forget all but the first n tokens; returns how many it still has, n or less (0: read all again). */
	int32_t (*rewind)(struct policy *, int32_t n);
	/* Planes in which row r is token r, rotated at position r, as long as tokens are only read; NULL: there are none. */
	struct kv *(*planes)(struct policy *);
	/* Swap planes with those of another policy, which hold n tokens.  rewind() comes before the next call, because what these
	 * tokens looked at was not seen.  There where planes is. */
	void (*adopt)(struct policy *, struct kv *other, int32_t n);
	/* The first n tokens are pinned from now on: returns how many tokens it still has, or -1 (ERR_FIT).  May be NULL. */
	int32_t (*pin)(struct policy *, int32_t n, struct err *);
	/* Bytes of cached rows, and of copies that are scanned, that one token reads with pos tokens before it; decode: it is
	 * generated.  NULL: all rows before it. */
	uint64_t (*read_bytes)(const struct policy *, int32_t pos, int decode);
	/* What a bounded policy keeps (pinned, rings, gone); the rest is filled in.  May be NULL. */
	void (*rows)(const struct policy *, struct timeline_rows *);
	/* NULL: everything stays and is read. */
	void (*inside)(const struct policy *, struct policy_inside *);
	/* Bring the scores of what is inside to the host; may be NULL. */
	void (*scores)(struct policy *);
	/* Saving and going on (snapshot.c).  The planes, in which row r is token r for the first ready() of n tokens; these rows
	 * stay as they are.  NULL: it cannot be saved. */
	struct kv *(*kv)(struct policy *);
	int32_t (*ready)(const struct policy *, int32_t n);   /* NULL: all n */
	/* Empty, and the rows of n tokens (as many as the planes hold, or fewer) have been put there: returns how many of them it
	 * can go on from, as after rewind().  NULL: all. */
	int32_t (*take)(struct policy *, int32_t n);
	/* All else that it knows of n tokens (archive.h).  Loading: it is empty, the ready rows are there; copies are made anew.
	 * Where that fails a rewind() to 0 follows, which must make it whole.  NULL: nothing. */
	void (*archive)(struct policy *, struct archive *, int32_t n);
};
extern const struct policy_def *const policies[];   /* ends with NULL; the default first */
extern const struct policy_def policy_full;
extern const struct policy_def policy_sift, policy_refresh, policy_recycled, policy_streaming, policy_quest, policy_h2o,
                               policy_h2o_plus, policy_snapkv;
extern const struct policy_def policy_sink, policy_cascade, policy_auto;
extern const struct policy_def policy_watch;   /* full attention, others watched; not in the table */

/* "NAME[:key=value,...]"; NULL or "" = the default.  ERR_USAGE with the nearest name or key. */
int  policy_parse(struct kv_params *, const char *text, struct err *);
/* The canonical text: name and every setting that differs from its preset. */
void policy_text(const struct kv_params *, char *out, size_t cap);
/* Name and all settings, whatever their presets are: what is kept for later. */
void policy_whole(const struct kv_params *, struct str *out);
/* The same in numbers, as snapshots carry it: equal for equal settings only.  Another form of it would have all of them read again. */
void policy_identity(const struct kv_params *, struct str *out);

/* What a watched policy has recovered; -1 when there is none of that number. */
int  watch_recovered(const struct policy *, int i, struct recovered *);

/* p->par, hp, be, type, batch, ctx and watch are set. */
int  policy_open(struct policy *, struct err *);
void policy_close(struct policy *);

#endif
