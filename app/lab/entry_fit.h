/* app/lab/entry_fit.h - inside app/lab: settings under which policies read equally many KV entries.
 *
 * A policy with k=N reads N entries in most steps and layers and all of them in some: at every tenth token, in the
 * first two layers. Where f is the share of the latter and n the length of the sequence, it reads f n + (1 - f) k a
 * token, so k = (N - f n) / (1 - f) reads N. f is measured: a window is run under k=N, and again under what was fitted
 * until what was read is within 1 % of N. */
#ifndef WEIR_EVAL_ENTRY_FIT_H
#define WEIR_EVAL_ENTRY_FIT_H

#include "app/options/options.h"
#include "engine/engine.h"

enum { FIT_ROUNDS = 4 }; /* windows that fitting takes at most */

struct entry_fit {
	/* Entries that each policy shall read for a token; 0 = the policies stay as they were asked for. One that
	 * cannot read so few has k = want. */
	int32_t want;
	struct policy_list asked;
	struct fitted {
		const char *key; /* the setting that is fitted: k, or size */
		struct str kv;   /* the policy with it */
		double value;    /* of the setting */
		/* its value the round before, and what was read then; read 0: this is the first round */
		double before, read;
		int done; /* no value comes closer */
		/* > 0: it cannot read so few, because steps and layers that read everything take so many alone */
		double whole;
	} one[LIST_MAX];
};

/* Set every policy of the list to read `want` entries in a step and layer that selects. ERR_USAGE where one has no such
 * setting. */
int entry_fit_begin(struct entry_fit *, struct policy_list *, int32_t want, struct err *);
/* Policy i has read `read` entries a token, of `all` there were, both means: change it in the list if another setting
 * comes closer. Returns 1 if it changed, 0, -1. */
int entry_fit_next(struct entry_fit *, struct policy_list *, int i, double read, double all, struct err *);
void entry_fit_free(struct entry_fit *);

#endif
