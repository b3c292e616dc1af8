/* engine/timeline/timeline_repeat.c - lets the model repeat a text, so that a cache policy can observe to which KV
 * entries it attends (selector_ops.repeat).
 *
 * The text is split into pieces, and each step repeats one piece. A step has a request, a few tokens before the piece
 * and the piece itself, at positions after the sequence. The step is rolled back at once. So it leaves no trace, and
 * cancelling the repetition loses one step. */
#include "engine/timeline/timeline.h"

#include <string.h>

enum {
	LEAD = 16, /* number of tokens before a piece that show the model where to begin */
	/* a step without room for a piece of this size after the request and the tokens before it has neither of the
	 * two */
	PIECE_LEAST = 8,
};

static const char request[] = "\n\nRepeat the text above word for word:\n\n";

/* Compute the tokens of *id, of which the last `repeated` repeat a piece of the text, and roll the step back. */
static int repeat_step(struct timeline *tl, const struct tokens *id, int32_t repeated, struct err *err)
{
	struct step st = { .kind = STEP_READ, .pos = tl->n_past, .n = (int32_t)id->n, .repeated = repeated };
	int failed;

	timeline_backend_take(tl);
	timeline_step_run(tl, id->id, &st, WANT_NONE);
	failed = timeline_backend_give(tl, err);
	cache_rollback(&tl->cache);
	return failed;
}

/* Repeat the tokens from index `from` to n_past - 1. `say` has the tokens of the request. */
static int repeat_from(struct timeline *tl, int32_t from, const struct tokens *say, struct err *err)
{
	int32_t room = tl->cache.limit - tl->n_past, most = MIN(tl->cache.chunk, room), failed = 0;
	struct tokens id = { 0 };

	for (int32_t at = from, n; !failed && at < tl->n_past; at += n) {
		int32_t lead = MIN(at - from, LEAD), talk = (int32_t)say->n + lead;

		id.n = 0;
		if (most - talk < PIECE_LEAST)
			talk = lead = 0;
		else
			tokens_append(&id, say->id, say->n);
		n = MIN(tl->n_past - at, most - talk);
		tokens_append(&id, tl->tokens.id + at - lead, (size_t)(lead + n));
		failed = repeat_step(tl, &id, n, err);
	}
	tokens_free(&id);
	return failed;
}

int timeline_repeat(struct timeline *tl, struct err *err)
{
	int32_t n = cache_repeat(&tl->cache);
	struct tokens say = { 0 };
	int failed;

	if (!n)
		return 0;
	failed = engine_tokenize(tl->e, request, strlen(request), 0, &say, err) < 0 ||
	         repeat_from(tl, tl->n_past - n, &say, err);
	tokens_free(&say);
	if (failed)
		tl->logits_at = -1; /* the next sync computes the last token again, and then tries again */
	else
		cache_repeated(&tl->cache);
	return failed ? -1 : 0;
}
