/* app/lab/entry_fit.h - for app/lab only: adapts the settings of policies until all read equally many KV entries, so
 * that they can be compared.
 *
 * A policy with k=N reads N entries in most steps, but all n entries of the sequence in some, such as every tenth
 * token or the first two layers. If f is the share of these steps, it reads f n + (1 - f) k entries per token. f is
 * measured: a window of text is run with k=N, then with a corrected k, until the entries read are within 1 % of N. */
#ifndef WEIR_EVAL_ENTRY_FIT_H
#define WEIR_EVAL_ENTRY_FIT_H

#include "app/options/options.h"
#include "engine/engine.h"

enum { FIT_ROUNDS = 4 }; /* most windows that fitting takes */

struct entry_fit {
	/* Entries that each policy should read per token; 0 = leave the settings unchanged. A policy that always
	 * reads more gets k = want. */
	int32_t want;
	struct policy_list asked;
	struct fitted {
		const char *key; /* the setting that is fitted: k, or size */
		struct str kv;   /* the policy with the fitted setting */
		double value;    /* the fitted value */
		/* value of the round before, and the entries read with it; read 0: this is the first round */
		double before, read;
		int done; /* no value comes closer */
		/* > 0 if the policy cannot read so few: the entries per token read by the steps that read
		 * everything */
		double whole;
	} one[LIST_MAX];
};

/* Set every policy of the list to select `want` entries. -1 with ERR_USAGE if a policy has no such setting. */
int entry_fit_begin(struct entry_fit *, struct policy_list *, int32_t want, struct err *);
/* Improve the setting of policy i. read: mean number of entries that it read per token; all: mean number of entries
 * in the cache. Returns 1 if the setting was changed, 0 if it is the best, -1 on error. */
int entry_fit_next(struct entry_fit *, struct policy_list *, int i, double read, double all, struct err *);
void entry_fit_free(struct entry_fit *);

#endif
