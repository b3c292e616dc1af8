/* tests/engine/t_read_share.c - prompts whose tokens read only a share of the attention (--read-share). The logits do
 * not depend on how the prompt is cut into steps, on rollbacks, on the policy (among those that keep everything) or on
 * the number of threads. Entries computed with different shares have different identities. Unsupported combinations are
 * refused. */
#include "tests/lib/test.h"

#include <string.h>

#include "engine/timeline/timeline.h"
#include "tests/lib/tiny.h"
#include "engine/engine_snapshot.h"

enum { TOKENS = 900 };

static int32_t token[TOKENS];

static struct timeline *open_share(struct engine *e, const char *kv, int32_t batch, float share)
{
	struct timeline *tl = NULL;
	struct err err = { 0 };

	CHECK_MSG(!timeline_open(&tl, e,
	                         &(struct timeline_options){
					 .kv = kv, .ctx = 1024, .batch = batch, .read_share = share },
	                         &err),
	          "%s: %s", kv, err.msg);
	return tl;
}

static void read_to(struct timeline *tl, size_t n)
{
	struct err err = { 0 };

	CHECK_MSG(timeline_sync(tl, token, n, NULL, NULL, &err) >= 0, "%s", err.msg);
}

static size_t logits_bytes(const struct engine *e)
{
	return (size_t)engine_info(e)->n_vocab * sizeof(float);
}

static struct engine *open_tiny(int threads)
{
	struct engine *e = tiny_open(&tiny_families[0], threads, TRAINED, 10000);

	for (int i = 0; i < TOKENS; i++)
		token[i] = (int32_t)(test_rand() % (uint64_t)engine_info(e)->n_vocab);
	return e;
}

TEST(cuts_policies_and_rollbacks_do_not_matter)
{
	static const struct {
		const char *kv;
		int32_t batch;
	} all[] = {
		{ "full", 512 },      { "full", 64 },      { "full", 7 },   { "sift:k=64", 512 },
		{ "sift:k=64", 100 }, { "h2o:k=64", 512 }, { "auto", 512 },
	};
	struct engine *e = open_tiny(2);
	float *want = xmalloc(logits_bytes(e)), *full = xmalloc(logits_bytes(e));
	struct timeline *tl = open_share(e, "full", 512, 1);

	read_to(tl, TOKENS);
	memcpy(full, timeline_logits(tl), logits_bytes(e));
	timeline_close(tl);
	for (size_t i = 0; i < LEN(all); i++) {
		tl = open_share(e, all[i].kv, all[i].batch, 0.6f);
		read_to(tl, TOKENS);
		if (!i)
			memcpy(want, timeline_logits(tl), logits_bytes(e));
		CHECK_MSG(!memcmp(want, timeline_logits(tl), logits_bytes(e)), "%s in steps of %d", all[i].kv,
		          (int)all[i].batch);
		if (strcmp(all[i].kv, "auto")) {
			read_to(tl, 700);
			read_to(tl, 710);
			read_to(tl, TOKENS);
			CHECK_MSG(!memcmp(want, timeline_logits(tl), logits_bytes(e)),
			          "%s in steps of %d, after a rollback", all[i].kv, (int)all[i].batch);
		}
		timeline_close(tl);
	}
	CHECK(memcmp(want, full, logits_bytes(e)));
	free(want);
	free(full);
	engine_close(e);
}

TEST(threads_do_not_matter)
{
	float *want = NULL;

	for (int threads = 1; threads <= 3; threads++) {
		struct engine *e = tiny_open(&tiny_families[0], threads, TRAINED, 10000);
		struct timeline *tl;

		for (int i = 0; i < TOKENS; i++)
			token[i] = (i * 37 + i / 7) % engine_info(e)->n_vocab;
		tl = open_share(e, "full", 512, 0.5f);
		read_to(tl, TOKENS);
		if (!want) {
			want = xmalloc(logits_bytes(e));
			memcpy(want, timeline_logits(tl), logits_bytes(e));
		}
		CHECK_MSG(!memcmp(want, timeline_logits(tl), logits_bytes(e)), "%d threads", threads);
		timeline_close(tl);
		engine_close(e);
	}
	free(want);
}

/* Both identities (of the timeline and of its entries) depend on the share; with a share of 1 they are the same as in
 * older versions. */
TEST(identities_tell_shares_apart)
{
	static const float shares[] = { 0, 1, 0.9f, 0.95f };
	struct str text[4] = { { 0 } }, entries[4] = { { 0 } };
	struct engine *e = open_tiny(1);

	for (int i = 0; i < 4; i++) {
		struct timeline *tl = open_share(e, "full", 512, shares[i]);

		timeline_identity(tl, &text[i]);
		timeline_entries_identity(tl, &entries[i]);
		timeline_close(tl);
	}
	for (int i = 0; i < 4; i++)
		for (int k = 0; k < i; k++) {
			int same = i == 1;

			CHECK_MSG((strcmp(text[i].p, text[k].p) == 0) == same, "%g and %g: %s", (double)shares[i],
			          (double)shares[k], text[i].p);
			CHECK_MSG((strcmp(entries[i].p, entries[k].p) == 0) == same, "%g and %g: %s", (double)shares[i],
			          (double)shares[k], entries[i].p);
		}
	for (int i = 0; i < 4; i++) {
		str_free(&text[i]);
		str_free(&entries[i]);
	}
	engine_close(e);
}

TEST(refused_where_entries_are_evicted)
{
	struct engine *e = open_tiny(1);
	struct timeline *tl = NULL;
	struct err err = { 0 };

	CHECK_INT(timeline_open(&tl, e, &(struct timeline_options){ .kv = "cascade", .ctx = 1024, .read_share = 0.9f },
	                        &err),
	          -1);
	CHECK_MSG(err.code == ERR_USAGE &&
	                  strstr(err.msg, "needs a cache policy that keeps everything, or auto, not 'cascade'"),
	          "%s", err.msg);
	tl = open_share(e, "full", 512, 0.9f);
	read_to(tl, 300);
	CHECK_INT(timeline_switch_kv(tl, "sink", &err), -1);
	CHECK_INT(timeline_switch_kv(tl, "sift:k=64", &err), 0);
	read_to(tl, TOKENS);
	timeline_close(tl);
	engine_close(e);
}
