/* app/lab/policies.h - inside app/lab: the cache policies that are compared, and one timeline for all of them. */
#ifndef WEIR_EVAL_POLICIES_H
#define WEIR_EVAL_POLICIES_H

#include "app/conversation/conversation.h"

/* The policies to compare: every --kv; without --kv, that of environment and config; else `full`. */
void policies_compared(const struct options *, struct policy_list *out);
/* An order in which one timeline prefills least: policies whose prefill serves no other policy come first. */
void policies_order(const struct policy_list *, int order[LIST_MAX]);
/* KV entries that the policy selects for a generated token in a sequence of len tokens, by its k=; 0 = it has no
 * k. */
int32_t policy_entries_read(const char *kv, int32_t len);

/* One timeline that runs several policies, one after the other, over the same texts. */
struct shared_timeline {
	const struct options *o;
	struct engine *engine;
	struct timeline *tl;
	const char *kv; /* the policy that it runs */
	int32_t ctx;
	int fresh; /* 1 = empty the cache before the next text */
};
/* Run this policy from now on, with room for ctx tokens. KV entries that both policies store are not recomputed. */
int shared_timeline_use(struct shared_timeline *, const char *kv, int32_t ctx, struct err *);
/* Begin the next text with an empty cache. A policy that evicts prefills in strides, and the first stride must not
 * depend on tokens that this text shares with the one before. */
void shared_timeline_fresh(struct shared_timeline *);
void shared_timeline_close(struct shared_timeline *);

#endif
