/* app/lab/entry_fit.h - adapts the settings of policies so that all read the same number of KV entries and can be
 * compared. For app/lab only.
 *
 * With k=N a policy reads N entries in most steps. In some steps, for example at every tenth token, or in the first two
 * layers, it reads all entries. So on average it reads more than N. To correct this, the policy is run over a window of
 * text with k=N, and the entries that it reads are counted. Then k is corrected and the window is run again, until the
 * average is within 1 % of N. */
#ifndef WEIR_EVAL_ENTRY_FIT_H
#define WEIR_EVAL_ENTRY_FIT_H

#include "app/options/options.h"
#include "engine/engine.h"

enum { FIT_ROUNDS = 4 }; /* maximum number of times that one window of text is computed */

struct entry_fit {
	/* KV entries that each policy should read per token; 0 = leave the settings unchanged */
	int32_t want;
	struct policy_list asked; /* the policies as the user gave them */
	struct fitted {
		const char *key; /* the setting that is fitted: k, or size */
		struct str kv;   /* the policy with the fitted setting */
		double value;    /* the fitted value */
		/* In the previous round, the setting had the value `before`, and the policy read `read` entries per
		 * token. In the first round both are 0. */
		double before, read;
		int done; /* 1 = no other value of the setting comes closer to `want` */
		/* the smallest number of entries per token that the policy can read, if it is larger than `want`;
		 * otherwise 0 */
		double whole;
	} one[LIST_MAX];
};

/* Set the setting k of every policy in the list to `want`. If a policy has no setting k, set its setting `size`
 * instead. Returns 0, or -1 with ERR_USAGE if a policy has neither of them. */
int entry_fit_begin(struct entry_fit *, struct policy_list *, int32_t want, struct err *);
/* Adapt the setting of policy number i after a run. `read` is the mean number of entries that the policy has read per
 * token, and `all` is the mean number of entries in the cache. Returns 1 if the setting was changed, 0 if no better
 * value is known, -1 on error. */
int entry_fit_next(struct entry_fit *, struct policy_list *, int i, double read, double all, struct err *);
void entry_fit_free(struct entry_fit *);

#endif
