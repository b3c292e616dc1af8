/* tests/engine/t_windows.c - layers with a sliding window keep only the newest tokens, under every policy.
 *
 * A timeline under `full` whose chunk is as large as its context keeps all tokens; results are compared with such a
 * timeline, bit for bit, or with a timeline that was never saved. */
#include "tests/lib/test.h"

#include <stdio.h>
#include <stdlib.h>

#include "engine/engine_snapshot.h"

enum { LONG = 6500, CTX = 12000, POINTS = 25 };

static const char *const models[] = { "gemma2", "gemma3", "gemma4", "gpt-oss", "olmo3" };
enum { N_MODELS = LEN(models) };

static struct engine *open_model(const char *name, int threads)
{
	struct engine *e = NULL;
	struct err err = { 0 };
	char rel[96];

	snprintf(rel, sizeof rel, "tests/vectors/models/%s.gguf", name);
	if (engine_open(&e,
	                &(struct engine_options){ .model_path = test_file(rel), .device = "cpu", .threads = threads },
	                &err))
		test_skip("%s", err.msg);
	return e;
}

static struct timeline *open_line(struct engine *e, const char *kv, const char *type, int32_t batch)
{
	struct timeline *tl = NULL;
	struct err err = { 0 };

	if (timeline_open(&tl, e, &(struct timeline_options){ .ctx = CTX, .batch = batch, .kv = kv, .kv_type = type },
	                  &err)) {
		fprintf(stderr, "%s\n", err.msg);
		abort();
	}
	return tl;
}

static int32_t id[CTX];

/* Replace tokens from .. n - 1 of id by another text, given by the seed. */
static void text(int32_t from, int32_t n, unsigned seed)
{
	for (int32_t i = from; i < n; i++)
		id[i] = 3 + (int32_t)(((unsigned)i * 37u + (unsigned)(i * (i % 11)) + seed * 101u) % 240u);
}

/* Make the sequence the first n tokens of id.  Returns the tokens that were reused. */
static int32_t sync_to(struct timeline *tl, int32_t n)
{
	struct err err = { 0 };
	int32_t reused = timeline_sync(tl, id, (size_t)n, NULL, NULL, &err);

	if (reused < 0)
		test_fail(__FILE__, __LINE__, "%s", err.msg);
	return reused;
}

static int same(struct engine *e, struct timeline *a, struct timeline *b)
{
	const float *x = timeline_logits(a), *y = timeline_logits(b);

	return x && y && !memcmp(x, y, (size_t)engine_info(e)->n_vocab * sizeof(float));
}

static uint64_t kv_bytes_of(const struct timeline *tl)
{
	struct timeline_stats st = { 0 };

	timeline_stats(tl, &st);
	return st.kv_bytes;
}

/* Save tl and load it into u, in pieces. Pieces that the windowed layers have lost are saved without these layers, or
 * with 0xff bytes in their place. */
static void hand_over(struct timeline *tl, struct timeline *u, const char *model)
{
	int32_t ready = timeline_entries_ready(tl), piece = 1500;
	char *entries = malloc(timeline_token_bytes(tl, 1) * (size_t)(piece + 1));
	struct str head = { 0 };
	struct err err = { 0 };
	int windows;

	for (int32_t at = 0, n; at < ready; at += n) {
		n = ready - at < piece ? ready - at : piece;
		windows = at / piece % 3 == 1 || timeline_windows_hold(tl, at, n);
		if (timeline_entries_save(tl, at, n, windows, entries, &err) ||
		    timeline_entries_load(u, at, n, windows, entries, &err))
			test_fail(__FILE__, __LINE__, "%s: %s", model, err.msg);
	}
	if (timeline_head_save(tl, &head, &err) || timeline_head_load(u, head.p, head.n, &err))
		test_fail(__FILE__, __LINE__, "%s: %s", model, err.msg);
	free(entries);
	str_free(&head);
}

TEST(windows_have_the_bits_of_full_planes)
{
	for (size_t m = 0; m < N_MODELS; m++)
		for (int q8 = 0; q8 < 2; q8++) {
			struct engine *e = open_model(models[m], 2), *one = open_model(models[m], 1);
			const char *type = q8 && engine_info(e)->head_dim % 32 == 0 ? "k=q8_0,v=q4_0"
			                   : q8                                     ? "f16"
			                                                            : "f32";
			struct timeline *full = open_line(e, "full", type, CTX), *t = open_line(e, "full", type, 100),
					*u = open_line(one, "full", type, 512);

			struct timeline_stats st = { 0 };

			text(0, CTX, (unsigned)m);
			CHECK(kv_bytes_of(t) < kv_bytes_of(full));
			for (int32_t n = 4000; n <= LONG; n += 1250) {
				sync_to(full, n);
				sync_to(t, n);
				sync_to(u, n);
				CHECK_MSG(same(e, full, t) && same(e, full, u), "%s, %s: %d tokens have other logits",
				          models[m], type, n);
			}
			timeline_stats(t, &st);
			CHECK(st.kv_used_bytes < st.kv_bytes_per_token * LONG && st.kv_used_bytes <= st.kv_bytes);
			timeline_stats(full, &st);
			CHECK_INT(st.kv_used_bytes, st.kv_bytes_per_token * LONG);
			for (int32_t i = 0; i < 30; i++) {
				struct err err = { 0 };

				timeline_extend(full, id + LONG + i, 1, 1, NULL, NULL, &err);
				timeline_extend(t, id + LONG + i, 1, 1, NULL, NULL, &err);
				CHECK_MSG(same(e, full, t), "%s, %s: token %d has other logits", models[m], type, i);
			}
			timeline_close(full);
			timeline_close(t);
			timeline_close(u);
			engine_close(e);
			engine_close(one);
		}
}

/* A rollback by up to 4,000 tokens recomputes nothing. A longer rollback, to tokens that are no longer kept, recomputes
 * everything, with the same result. The timeline is also saved and loaded at each point. */
TEST(rollbacks_and_snapshots_are_exact)
{
	for (size_t m = 0; m < N_MODELS; m++) {
		struct engine *e = open_model(models[m], 2);
		struct timeline *full = open_line(e, "full", "f16", CTX), *t = open_line(e, "full", "f16", 100),
				*u = open_line(e, "full", "f16", 64);
		unsigned seed = 7;
		int32_t at = LONG;

		text(0, CTX, (unsigned)m);
		sync_to(full, LONG);
		sync_to(t, LONG);
		for (int i = 0; i < POINTS; i++) {
			int32_t back, go, reused;
			struct timeline *was = t;

			seed = seed * 1103515245u + 12345u;
			back = 1 + (int32_t)(seed >> 8) % 400;
			go = 1 + (int32_t)(seed >> 18) % 300;
			back = i % 20 == 19 ? 3000 : back;
			go += at - back + go < LONG ? back : 0;
			text(at - back, CTX, seed % 97u + 100u);
			at += go - back;
			sync_to(full, at);
			reused = sync_to(t, at);
			CHECK_MSG(reused >= at - go - 2, "%s, point %d: %d of %d tokens are reused", models[m], i,
			          reused, at - go);
			hand_over(t, u, models[m]);
			t = u;
			u = was;
			CHECK_MSG(same(e, full, t), "%s: other logits after point %d", models[m], i);
			if (i % 3)
				continue;
			sync_to(full, at + 1);
			sync_to(t, ++at);
			CHECK_MSG(same(e, full, t), "%s: other logits behind point %d", models[m], i);
		}
		/* Load a snapshot with the entries of all tokens, as earlier versions wrote it. */
		hand_over(full, u, models[m]);
		sync_to(full, at + 10);
		sync_to(u, at + 10);
		CHECK_MSG(same(e, full, u), "%s: other logits behind a snapshot of full planes", models[m]);
		text(1000, CTX, 55);
		sync_to(full, 2000);
		CHECK_INT(sync_to(t, 2000), 0);
		CHECK_MSG(same(e, full, t), "%s: other logits behind a rollback beyond the window", models[m]);
		timeline_close(full);
		timeline_close(t);
		timeline_close(u);
		engine_close(e);
	}
}

/* The entries saved from a longer sequence lack those that sliding-window layers have dropped, so the beginning of the
 * sequence cannot be loaded from them. */
TEST(missing_entries_are_noticed)
{
	struct engine *e = open_model("gemma3", 2);
	struct timeline *tl = open_line(e, "full", "f16", 100), *full = open_line(e, "full", "f16", 64);
	size_t row = timeline_token_bytes(tl, 1);
	char *entries = malloc(row * 2000);
	struct err err = { 0 };

	text(0, CTX, 1);
	sync_to(tl, LONG);
	CHECK_INT(timeline_entries_save(tl, 0, 2000, 1, entries, &err), 0);
	CHECK_INT(timeline_entries_load(full, 0, 2000, 1, entries, &err) || timeline_adopt(full, id, NULL, 2000, &err),
	          0);
	CHECK_INT(sync_to(full, 2000), 0);
	sync_to(tl, 2000);
	CHECK(same(e, full, tl));
	free(entries);
	timeline_close(tl);
	timeline_close(full);
	engine_close(e);
}

static const char *const streams[] = { "sink:size=80,stride=20", "cascade:size=60,n=3,stride=20", "auto" };
enum { N_STREAMS = LEN(streams) };

/* If all layers have windows, an evicting policy gives the results of `full`, because no entry inside a window is
 * evicted. */
TEST(a_stream_evicts_nothing_that_a_window_reads)
{
	struct engine *e = open_model("phi3-long", 2);

	for (int k = 0; k < N_STREAMS; k++) {
		struct timeline *full = open_line(e, "full", "f16", CTX), *t = open_line(e, streams[k], "f16", 128);

		text(0, CTX, (unsigned)k);
		for (int32_t n = 200; n <= LONG; n += 1100) {
			sync_to(full, n);
			sync_to(t, n);
			CHECK_MSG(same(e, full, t), "%s: other logits behind %d tokens", streams[k], n);
		}
		for (int32_t n = LONG; n < LONG + 300; n++) {
			sync_to(full, n);
			sync_to(t, n);
			CHECK_MSG(same(e, full, t), "%s: other logits behind %d tokens", streams[k], n);
		}
		timeline_close(full);
		timeline_close(t);
	}
	engine_close(e);
}

/* Until the layers without a window evict, a stream gives the results of `full`. */
TEST(a_stream_that_is_not_full_has_the_bits_of_full_attention)
{
	for (size_t m = 0; m < N_MODELS; m++) {
		struct engine *e = open_model(models[m], 2);
		int32_t most = engine_info(e)->ctx_train * 3 / 4;
		struct timeline *full = open_line(e, "full", "f16", CTX), *t, *u = open_line(e, "auto", "f16", 10);
		char sink[48];

		snprintf(sink, sizeof sink, "sink:size=%d,stride=20", most);
		t = open_line(e, sink, "f16", 50);
		text(0, CTX, (unsigned)m);
		for (int32_t n = most / 8; n <= most; n += most / 8) {
			sync_to(full, n);
			sync_to(t, n);
			sync_to(u, n);
			CHECK_MSG(same(e, full, t) && same(e, full, u), "%s: other logits behind %d tokens", models[m],
			          n);
		}
		timeline_close(full);
		timeline_close(t);
		timeline_close(u);
		engine_close(e);
	}
}

/* The memory of a stream's planes does not grow, and is less than that of full planes with as many slots. */
TEST(streams_take_the_memory_of_windows)
{
	for (size_t m = 0; m < N_MODELS; m++) {
		struct engine *e = open_model(models[m], 2);

		for (int k = 0; k < N_STREAMS; k++) {
			struct timeline *full = open_line(e, "full", "f16", CTX),
					*t = open_line(e, streams[k], "f16", 128);
			struct timeline_stats st = { 0 };
			uint64_t bytes = kv_bytes_of(t);

			text(0, CTX, (unsigned)m);
			CHECK_MSG(bytes < kv_bytes_of(full), "%s, %s: %llu bytes", models[m], streams[k],
			          (unsigned long long)bytes);
			sync_to(t, LONG);
			timeline_stats(t, &st);
			CHECK_MSG(st.kv_bytes == bytes && st.kv_used_bytes <= bytes, "%s, %s: %llu bytes of %llu",
			          models[m], streams[k], (unsigned long long)st.kv_used_bytes,
			          (unsigned long long)bytes);
			timeline_close(full);
			timeline_close(t);
		}
		engine_close(e);
	}
}

/* A stream that is repeatedly saved, loaded and rolled back equals one that never was. */
TEST(streams_go_on_where_they_were_saved)
{
	for (size_t m = 0; m < N_MODELS; m++)
		for (int k = 0; k < N_STREAMS; k++) {
			struct engine *e = open_model(models[m], 2);
			struct timeline *never = open_line(e, streams[k], "f16", 128),
					*t = open_line(e, streams[k], "f16", 128),
					*u = open_line(e, streams[k], "f16", 128);
			unsigned seed = 11;
			int32_t at = 700;

			text(0, CTX, (unsigned)m);
			sync_to(never, at);
			sync_to(t, at);
			for (int i = 0; i < 12; i++) {
				int32_t back, go, reused[2];
				struct timeline *was = t;

				seed = seed * 1103515245u + 12345u;
				back = (int32_t)(seed >> 8) % 200;
				go = 1 + (int32_t)(seed >> 18) % 300;
				hand_over(t, u, models[m]);
				t = u;
				u = was;
				text(at - back, CTX, seed % 97u + 100u);
				at += go - back;
				reused[0] = sync_to(never, at);
				reused[1] = sync_to(t, at);
				CHECK_MSG(reused[0] == reused[1] && same(e, never, t),
				          "%s, %s, point %d: other logits, or %d tokens are reused, not %d", models[m],
				          streams[k], i, reused[1], reused[0]);
			}
			timeline_close(never);
			timeline_close(t);
			timeline_close(u);
			engine_close(e);
		}
}
