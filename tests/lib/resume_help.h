/* tests/lib/resume_help.h - for tests that save and resume conversations. */
#ifndef WEIR_RESUME_HELP_H
#define WEIR_RESUME_HELP_H

#include "engine/engine.h"
#include "sessions/snap/snap_private.h"
#include "tests/lib/test.h"

static inline void save_on(struct snaps *s, struct engine *e, struct timeline *tl, int64_t message)
{
	struct fingerprint f;
	struct err err = { 0 };

	CHECK_MSG(!snaps_fingerprint(s, e, tl, &f, &err) && !snap_save(s, tl, &f, 1, message, NULL, 0, NULL, &err),
	          "%s", err.msg);
}

/* Generate n tokens greedily into out[]. */
static inline void answer(struct timeline *tl, int32_t *out, int n)
{
	struct sampling greedy = sampling_default;
	struct err err = { 0 };

	greedy.temperature = 0;
	for (int i = 0; i < n; i++) {
		struct step_out step = { .id = -1 };

		CHECK_MSG(timeline_step(tl, &greedy, &step, &err) >= 0, "%s", err.msg);
		out[i] = step.id;
	}
}

/* Append one token to the sequence and prefill it. Checks that all earlier tokens are reused. */
static inline void asks(struct timeline *tl, int32_t id)
{
	struct tokens want = { 0 };
	struct timeline_stats st;
	struct err err = { 0 };
	size_t n;
	const int32_t *have = timeline_tokens(tl, &n);

	tokens_append(&want, have, n);
	tokens_add(&want, id);
	CHECK_MSG(timeline_sync(tl, want.id, want.n, NULL, NULL, &err) >= 0, "%s", err.msg);
	timeline_stats(tl, &st);
	/* Two tokens may be computed: the new one, and the last sampled token, which has no KV entry yet. */
	CHECK_MSG(st.prefill_tokens <= 2, "%d tokens were read", st.prefill_tokens);
	tokens_free(&want);
}

#endif
