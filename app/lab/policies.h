/* app/lab/policies.h - for app/lab only: the cache policies to compare, and one timeline that runs them all. */
#ifndef WEIR_EVAL_POLICIES_H
#define WEIR_EVAL_POLICIES_H

#include "app/conversation/conversation.h"

/* List the policies to compare: all that --kv names. Without --kv, take the policy that the environment or the config
 * file sets, else `full`. */
void policies_compared(const struct options *, struct policy_list *out);
/* Set order[] to an order in which one timeline can run the policies with little prefill. Policies that drop KV entries
 * come first, because no other policy can use their prefill. */
void policies_order(const struct policy_list *, int order[LIST_MAX]);
/* Return how many KV entries the policy selects (its setting k) for a generated token if the sequence has len tokens. 0
 * = the policy has no such setting. */
int32_t policy_entries_read(const char *kv, int32_t len);

/* One timeline that runs several policies, one after the other, over the same texts. */
struct shared_timeline {
	const struct options *o;
	struct engine *engine;
	struct timeline *tl;
	const char *kv; /* the current policy */
	int32_t ctx;    /* number of tokens for which tl has room */
	int fresh;      /* 1 = empty the cache before the next text */
};
/* Run this policy from now on, with room for ctx tokens. KV entries that both the old and the new policy store are
 * kept. */
int shared_timeline_use(struct shared_timeline *, const char *kv, int32_t ctx, struct err *);
/* Begin the next text with an empty cache, even if it begins like the previous text. Otherwise the results of a policy
 * that evicts would depend on how many tokens are reused. */
void shared_timeline_fresh(struct shared_timeline *);
void shared_timeline_close(struct shared_timeline *);

#endif
