/* engine/timeline/timeline_observe.c - observers of a timeline's attention: of one token, and the evidence of an
 * answer. */
#include "engine/engine_view.h"
#include "engine/timeline/timeline.h"
#include "engine/observe/observe.h"

#include <stdlib.h>

int timeline_attention(struct timeline *t, int32_t id, int32_t layer, int32_t head, float *p, struct err *err)
{
	const struct hparams *hp = t->cache.hp;
	struct observe_token *o;
	int failed;

	if (layer < 0 || layer >= hp->n_layer)
		return err_set(err, ERR_USAGE, "there is no layer %d: the model has layers 0 to %d", layer,
		               hp->n_layer - 1);
	if (head < -1 || head >= hp->n_kv_head)
		return err_set(err, ERR_USAGE, "there is no KV head %d: a layer has heads 0 to %d", head,
		               hp->n_kv_head - 1);
	if (timeline_decode_pending(t, err)) /* before the observer is opened */
		return -1;
	pthread_mutex_lock(&t->e->lock);
	failed = observe_token_open(&o, &t->cache, layer, head, p, t->n_past + 1, err);
	t->e->be->ops->sync(t->e->be);
	pthread_mutex_unlock(&t->e->lock);
	if (failed)
		return -1;
	failed = timeline_extend(t, &id, 1, 1, NULL, NULL, err);
	pthread_mutex_lock(&t->e->lock);
	observe_token_close(o);
	pthread_mutex_unlock(&t->e->lock);
	return failed;
}

int timeline_evidence_begin(struct timeline *t, struct err *err)
{
	int failed;

	timeline_evidence_end(t);
	if (timeline_settle(t, err))
		return -1;
	if (t->lab)
		return err_set(err, ERR_USAGE, "evidence cannot be summed while selection policies are watched");
	pthread_mutex_lock(&t->e->lock);
	failed = observe_evidence_open(&t->evidence, &t->cache, err);
	t->e->be->ops->sync(t->e->be); /* clears a failure, which is in err */
	pthread_mutex_unlock(&t->e->lock);
	return failed;
}

void timeline_evidence_end(struct timeline *t)
{
	timeline_settle(t, &(struct err){ 0 });
	pthread_mutex_lock(&t->e->lock);
	observe_evidence_close(t->evidence);
	t->evidence = NULL;
	pthread_mutex_unlock(&t->e->lock);
}

void timeline_evidence(struct timeline *t, int32_t first, int32_t n, float *out)
{
	timeline_settle(t, &(struct err){ 0 });
	if (t->evidence)
		observe_evidence_sums(t->evidence, first, n, out);
	else
		memset(out, 0, (size_t)(MAX(n, 0)) * sizeof *out);
}
