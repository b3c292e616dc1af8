/* app/lab/policies.c - lists the cache policies to compare, and runs them one after the other on one timeline. */
#include "app/lab/policies.h"
#include "app/models/models.h"
#include "engine/lab/lab.h"

#include <stdlib.h>
#include <string.h>

void policies_compared(const struct options *o, struct policy_list *out)
{
	*out = o->kvs;
	if (!out->n)
		out->v[out->n++] = o->kv ? o->kv : "full";
}

void policies_order(const struct policy_list *l, int order[LIST_MAX])
{
	int n = 0;

	for (int sharing = KV_SHARES_NOTHING; sharing <= KV_SHARES_BOTH; sharing++)
		for (int i = 0; i < l->n; i++)
			if (kv_policy_sharing(l->v[i]) == (enum kv_sharing)sharing)
				order[n++] = i;
}

int32_t policy_entries_read(const char *kv, int32_t len)
{
	for (const char *p = strchr(kv, ':'); p; p = strchr(p, ',')) {
		double a, b = 0;
		char *end;

		if (strncmp(++p, "k=", 2) != 0)
			continue;
		a = strtod(p + 2, &end);
		if (*end == '/')
			b = strtod(end + 1, NULL);
		a = b > 0 ? a / b * len : a;
		return a >= 1 && a < INT32_MAX ? (int32_t)a : 0;
	}
	return 0;
}

int shared_timeline_use(struct shared_timeline *l, const char *kv, int32_t ctx, struct err *e)
{
	struct options o = *l->o;
	const int32_t none = 0;

	ctx = o.ctx ? o.ctx : ctx;
	if (l->tl && l->fresh && timeline_sync(l->tl, &none, 0, NULL, NULL, e) < 0)
		return -1;
	l->fresh = 0;
	if (l->tl && l->ctx == ctx && !strcmp(l->kv, kv))
		return 0;
	if (l->tl && l->ctx == ctx && timeline_switch_kv(l->tl, kv, e) < 0)
		return -1;
	if (!l->tl || l->ctx != ctx) {
		shared_timeline_close(l);
		o.kv = kv;
		if (timeline_open_for(&l->tl, l->engine, &o, ctx, e) < 0)
			return -1;
		signals_watch(l->tl);
	}
	l->ctx = ctx;
	l->kv = kv;
	return 0;
}

void shared_timeline_fresh(struct shared_timeline *l)
{
	l->fresh = 1;
}

void shared_timeline_close(struct shared_timeline *l)
{
	signals_watch(NULL);
	timeline_close(l->tl);
	l->tl = NULL;
}
