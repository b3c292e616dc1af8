/* app/lab/entry_fit.h - inside app/lab: settings under which all policies read equally many KV entries.
 *
 * A policy with k=N selects N entries in most steps and layers, and reads all entries in the others: at every tenth
 * token, in the first two layers. If f is the share of the others and n the length of the sequence, it reads f n + (1
 * - f) k entries a token; k = (N - f n) / (1 - f) reads N. f is measured: a window is run under k=N, then under the
 * fitted k, until the entries read are within 1 % of N. */
#ifndef WEIR_EVAL_ENTRY_FIT_H
#define WEIR_EVAL_ENTRY_FIT_H

#include "app/options/options.h"
#include "engine/engine.h"

enum { FIT_ROUNDS = 4 }; /* most windows that fitting takes */

struct entry_fit {
	/* Entries that each policy shall read for a token; 0 = the policies keep their settings. A policy that cannot
	 * read so few gets k = want. */
	int32_t want;
	struct policy_list asked;
	struct fitted {
		const char *key; /* the setting that is fitted: k, or size */
		struct str kv;   /* the policy with the fitted setting */
		double value;    /* the fitted value */
		/* The value of the round before, and the entries read under it; read 0: this is the first round. */
		double before, read;
		int done; /* no value comes closer */
		/* > 0: the policy cannot read so few; its steps and layers that read everything take this many
		 * entries alone. */
		double whole;
	} one[LIST_MAX];
};

/* Set every policy of the list to select `want` entries. ERR_USAGE if a policy has no such setting. */
int entry_fit_begin(struct entry_fit *, struct policy_list *, int32_t want, struct err *);
/* Change policy i of the list if another value comes closer to `want`. read, all: means of the entries read for a
 * token and of the entries there were. 1 = changed, 0, -1. */
int entry_fit_next(struct entry_fit *, struct policy_list *, int i, double read, double all, struct err *);
void entry_fit_free(struct entry_fit *);

#endif
