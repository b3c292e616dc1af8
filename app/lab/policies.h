/* app/lab/policies.h - inside app/lab: the cache policies that are compared, and one timeline for all of them. */
#ifndef WEIR_EVAL_POLICIES_H
#define WEIR_EVAL_POLICIES_H

#include "app/conversation/conversation.h"

/* The policies to compare: every --kv, or else the one of environment and config, or else `full`. */
void policies_compared(const struct options *, struct policy_list *out);
/* An order in which one timeline runs them with the least to read: first those whose reading serves no other. */
void policies_order(const struct policy_list *, int order[LIST_MAX]);
/* KV entries that this policy selects for a generated token in a sequence of len tokens, by its k=; 0 = it has no k. */
int32_t policy_entries_read(const char *kv, int32_t len);

/* One timeline that runs one policy after another over the same texts. */
struct shared_timeline {
	const struct options *o;
	struct engine *engine;
	struct timeline *tl;
	const char *kv; /* what it runs */
	int32_t ctx;
	int fresh; /* empty the cache before the next text */
};
/* From now on this policy, with room for ctx tokens.  KV entries that both policies store are not computed again. */
int shared_timeline_use(struct shared_timeline *, const char *kv, int32_t ctx, struct err *);
/* The next text begins with an empty cache: a policy that evicts prefills in strides, and where these begin must not
 * depend on the tokens that this text happens to share with the one before. */
void shared_timeline_fresh(struct shared_timeline *);
void shared_timeline_close(struct shared_timeline *);

#endif
