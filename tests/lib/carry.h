/* tests/lib/carry.h - copies a sequence from one timeline to another, as a session stores it. */
#ifndef WEIR_TEST_CARRY_H
#define WEIR_TEST_CARRY_H

#include <stdlib.h>

#include "engine/timeline/timeline.h"
#include "tests/lib/test.h"
#include "engine/engine_snapshot.h"

/* Save the KV entries and the state of timeline `from` and load them into timeline `to`, which then has all n tokens of
 * id. */
static inline void carry(struct timeline *from, struct timeline *to, const int32_t *id, size_t n, const char *kv)
{
	int32_t ready = timeline_entries_ready(from);
	uint8_t *p = xmalloc((size_t)timeline_token_bytes(from, 1) * (size_t)(ready + 1));
	struct str head = { 0 };
	struct err err = { 0 };

	CHECK_MSG(!timeline_entries_save(from, 0, ready, 1, p, &err) && !timeline_head_save(from, &head, &err),
	          "%s: %s", kv, err.msg);
	CHECK_MSG(!timeline_entries_load(to, 0, ready, 1, p, &err) && !timeline_head_load(to, head.p, head.n, &err),
	          "%s: %s", kv, err.msg);
	CHECK_MSG(timeline_sync(to, id, n, NULL, NULL, &err) >= 0, "%s: %s", kv, err.msg);
	free(p);
	str_free(&head);
}

#endif
