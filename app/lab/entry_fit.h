/* app/lab/entry_fit.h - adapts the settings of policies so that all read equally many KV entries and can be compared.
 * For app/lab only.
 *
 * With k=N a policy reads N entries in most steps, but all entries in some, for example for every tenth token or in the
 * first two layers. So it reads more than N on average. The policy is run over a window of text with k=N, and its reads
 * are counted. Then k is corrected and the policy is run over the window again, until the average is within 1 % of
 * N. */
#ifndef WEIR_EVAL_ENTRY_FIT_H
#define WEIR_EVAL_ENTRY_FIT_H

#include "app/options/options.h"
#include "engine/engine.h"

enum { FIT_ROUNDS = 4 }; /* runs of the window, at most */

struct entry_fit {
	/* KV entries that each policy should read per token; 0 = leave the settings unchanged */
	int32_t want;
	struct policy_list asked; /* the policies as the user gave them */
	struct fitted {
		const char *key; /* the setting that is fitted: k, or size */
		struct str kv;   /* the policy with the fitted setting */
		double value;    /* the fitted value */
		/* the value tried before, and the entries per token read with it; read 0 = no value was tried yet */
		double before, read;
		int done; /* 1: no value comes closer to `want` */
		/* Number of entries per token that the policy reads with any value, if this number exceeds `want`; else
		 * 0. */
		double whole;
	} one[LIST_MAX];
};

/* Set k, or size, of every policy of the list to `want`. Returns 0, or -1 with ERR_USAGE if a policy has neither. */
int entry_fit_begin(struct entry_fit *, struct policy_list *, int32_t want, struct err *);
/* Adapt the setting of policy i after a run. read: how many entries it read per token, on average; all: how many
 * were in the cache. Returns 1 if the setting was changed, 0 if it cannot become better, -1 on error. */
int entry_fit_next(struct entry_fit *, struct policy_list *, int i, double read, double all, struct err *);
void entry_fit_free(struct entry_fit *);

#endif
