/* engine/select.h (private to engine/) - choosing which cached rows one generated token reads.
 *
 * A selector looks at a region of a kv's planes, rows 0 .. n of every KV head, where row r holds token r, rotated at
 * position r, and nothing is ever removed.  Before a generated token attends, choose() names the rows it reads.  Tokens
 * that are read (not generated) attend everything; a selector may look at that through its probe.
 * policy_list.c uses a selector over the whole cache (the token's own row is the region's last), policy_stream.c over the
 * pinned prefix (own = 0: the token itself is elsewhere). */
#ifndef WEIR_SELECT_H
#define WEIR_SELECT_H

#include "engine/policy.h"

enum { SELECT_PARTS = 2 };

struct selector {
	const struct selector_ops *ops;
	const struct kv_params *par;
	struct kv *kv;             /* borrowed */
	int own;                   /* the region's last row is the token that chooses: always chosen */
	void *state;
};

struct selector_ops {
	uint64_t (*bytes)(const struct kv_params *, const struct hparams *, int32_t cap);
	int  (*init)(struct selector *, struct err *);
	void (*release)(struct selector *);
	/* Rows row0 .. row0 + n of this layer were put: bring copies and bounds up to date.  May be NULL. */
	void (*note)(struct selector *, int32_t layer, int32_t row0, int32_t n);
	/* A generated token with query x->q (not rotated) and rotated query q is about to attend a region of n_rows:
	 * describe what it reads in part[] and return the number of parts.  raw: the unrotated query. */
	int  (*choose)(struct selector *, const struct step *, int32_t layer, const struct tensor *q, const struct tensor *raw,
	               int32_t n_rows, struct attn_part part[SELECT_PARTS]);
	/* What to watch while the tokens of this call attend the region (reading: all of it; generating: what was chosen), or
	 * NULL; and, after that, what to make of it.  May be NULL. */
	const struct attn_probe *(*probe)(struct selector *, const struct step *, int32_t layer, int32_t n_rows);
	void (*seen)(struct selector *, const struct step *, int32_t layer, const struct tensor *raw, int32_t n_rows);
	/* The call succeeded.  May be NULL. */
	void (*end)(struct selector *, const struct step *);
	/* Only the first n rows are left; returns how many of them it can go on from (n, or fewer: read again from there). */
	int32_t (*rewind)(struct selector *, int32_t n);
};

extern const struct selector_ops select_sift, select_refresh, select_quest, select_kept;   /* kept: h2o, h2o+, snapkv */

#endif
