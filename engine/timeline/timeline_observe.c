/* engine/timeline/timeline_observe.c - starts and stops the observer of a single token's attention, and the observer of
 * the attention of an answer's tokens (evidence). */
#include "engine/engine_view.h"
#include "engine/timeline/timeline.h"
#include "engine/observe/observe.h"

#include <stdlib.h>

int timeline_attention(struct timeline *tl, int32_t id, int32_t layer, int32_t head, float *p, struct err *err)
{
	const struct hparams *hp = tl->cache.hp;
	struct observe_token *o;
	int failed;

	if (layer < 0 || layer >= hp->n_layer)
		return err_set(err, ERR_USAGE, "there is no layer %d: the model has layers 0 to %d", layer,
		               hp->n_layer - 1);
	if (head < -1 || head >= hp->n_kv_head)
		return err_set(err, ERR_USAGE, "there is no KV head %d: a layer has heads 0 to %d", head,
		               hp->n_kv_head - 1);
	/* compute the pending token first, so that the observer does not observe this token */
	if (timeline_decode_pending(tl, err))
		return -1;
	pthread_mutex_lock(&tl->e->lock);
	failed = observe_token_open(&o, &tl->cache, layer, head, p, tl->n_past + 1, err);
	tl->e->be->ops->sync(tl->e->be);
	pthread_mutex_unlock(&tl->e->lock);
	if (failed)
		return -1;
	failed = timeline_extend(tl, &id, 1, 1, NULL, NULL, err);
	pthread_mutex_lock(&tl->e->lock);
	observe_token_close(o);
	pthread_mutex_unlock(&tl->e->lock);
	return failed;
}

int timeline_evidence_begin(struct timeline *tl, struct err *err)
{
	int failed;

	timeline_evidence_end(tl);
	if (timeline_settle(tl, err))
		return -1;
	if (tl->lab)
		return err_set(err, ERR_USAGE, "evidence cannot be summed while selection policies are watched");
	pthread_mutex_lock(&tl->e->lock);
	failed = observe_evidence_open(&tl->evidence, &tl->cache, err);
	tl->e->be->ops->sync(tl->e->be); /* clear the backend's failure; err already describes it */
	pthread_mutex_unlock(&tl->e->lock);
	return failed;
}

void timeline_evidence_end(struct timeline *tl)
{
	timeline_settle(tl, &(struct err){ 0 });
	pthread_mutex_lock(&tl->e->lock);
	observe_evidence_close(tl->evidence);
	tl->evidence = NULL;
	pthread_mutex_unlock(&tl->e->lock);
}

void timeline_evidence(struct timeline *tl, int32_t first, int32_t n, float *out)
{
	timeline_settle(tl, &(struct err){ 0 });
	if (tl->evidence)
		observe_evidence_sums(tl->evidence, first, n, out);
	else
		memset(out, 0, (size_t)(MAX(n, 0)) * sizeof *out);
}
