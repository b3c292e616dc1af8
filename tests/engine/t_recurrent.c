/* tests/engine/t_recurrent.c - conversations with models whose layers keep recurrent states. Undo, fork and resume at
 * the last messages prefill nothing again, and give the bits of a sequence that was computed without going back.
 *
 * Logits of these models are compared in t_models; policies and snapshots at single tokens in t_families. */
#include "tests/lib/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine_snapshot.h"
#include "engine/model/hparams.h"

/* ASKED, ANSWERED: tokens of a question and of an answer; few enough that `auto` evicts none */
enum { TURNS = 20, ASKED = 5, ANSWERED = 6, CTX = 640, SHORT = 7 };

static struct engine *open_model(const char *name)
{
	struct engine *e = NULL;
	struct err err = { 0 };
	char rel[96];

	snprintf(rel, sizeof rel, "tests/vectors/models/%s.gguf", name);
	if (engine_open(&e, &(struct engine_options){ .model_path = test_file(rel), .device = "cpu", .threads = 2 },
	                &err))
		test_skip("%s", err.msg);
	return e;
}

static struct timeline *open_batch(struct engine *e, const char *kv, int32_t batch)
{
	struct timeline *tl = NULL;
	struct err err = { 0 };

	if (timeline_open(&tl, e, &(struct timeline_options){ .ctx = CTX, .batch = batch, .kv = kv, .kv_type = "f32" },
	                  &err))
		test_fail(__FILE__, __LINE__, "%s: %s", kv, err.msg);
	return tl;
}

static struct timeline *open_line(struct engine *e, const char *kv)
{
	return open_batch(e, kv, 16);
}

static int32_t id_at(int32_t i)
{
	return 3 + (i * 37 + i * i % 11) % 240;
}

/* Set id[] to the tokens of the turns before `turn` and the first `asked` tokens of its question. other: 1 = another
 * question. Returns their number. */
static size_t tokens_of(int32_t turn, int32_t asked, int other, int32_t *id)
{
	size_t n = 0;

	for (int32_t i = 0; i < turn * (ASKED + ANSWERED); i++)
		id[n++] = id_at(i);
	for (int32_t i = 0; i < asked; i++)
		id[n++] = id_at(turn * (ASKED + ANSWERED) + i + (other ? 1000 : 0));
	return n;
}

/* Ask the question of a turn and answer it. Returns the number of reused tokens. */
static int32_t turn_run(struct timeline *tl, int32_t turn, int other)
{
	int32_t id[TURNS * (ASKED + ANSWERED) + ASKED], had;
	size_t n = tokens_of(turn, ASKED, other, id);
	struct err err = { 0 };

	had = timeline_sync(tl, id, n, NULL, NULL, &err);
	CHECK_MSG(had >= 0, "%s", err.msg);
	for (int32_t i = 0; i < ANSWERED; i++) {
		int32_t next = id_at(turn * (ASKED + ANSWERED) + ASKED + i);

		CHECK_MSG(!timeline_extend(tl, &next, 1, 1, NULL, NULL, &err), "%s", err.msg);
	}
	return had;
}

static int same_logits(struct engine *e, struct timeline *a, struct timeline *b)
{
	return !memcmp(timeline_logits(a), timeline_logits(b), (size_t)engine_info(e)->n_vocab * sizeof(float));
}

static struct timeline *saved_and_loaded(struct engine *e, struct timeline *tl, const char *kv)
{
	struct timeline *u = open_line(e, kv);
	int32_t ready = timeline_entries_ready(tl);
	char *entries = malloc(timeline_token_bytes(tl, 1) * (size_t)(ready + 1));
	struct str head = { 0 };
	struct err err = { 0 };

	CHECK_MSG(!timeline_entries_save(tl, 0, ready, 1, entries, &err) && !timeline_head_save(tl, &head, &err) &&
	                  !timeline_entries_load(u, 0, ready, 1, entries, &err) &&
	                  !timeline_head_load(u, head.p, head.n, &err),
	          "%s", err.msg);
	free(entries);
	str_free(&head);
	return u;
}

/* Run TURNS turns, save and resume if `resumed` is 1, then go back to turn `back` and ask another question there. */
static void goes_back(struct engine *e, const char *model, const char *kv, int32_t back, int resumed)
{
	struct timeline *tl = open_line(e, kv), *straight = open_line(e, kv);
	int32_t had, least;

	for (int32_t i = 0; i < TURNS; i++)
		turn_run(tl, i, 0);
	if (resumed) {
		struct timeline *u = saved_and_loaded(e, tl, kv);

		timeline_close(tl);
		tl = u;
	}
	had = turn_run(tl, back, 1);
	/* `sift` observes the last tokens of a prefill. So some tokens before the place are prefilled again, starting
	 * from the previous copy of the states. */
	least = back * (ASKED + ANSWERED) - (strcmp(kv, "sift:k=512") ? 0 : 3 * (ASKED + ANSWERED));
	CHECK_MSG(had >= least && had <= back * (ASKED + ANSWERED),
	          "%s, %s: back at turn %d %d tokens are reused, expected %d", model, kv, back, had, least);
	for (int32_t i = 0; i <= back; i++)
		turn_run(straight, i, i == back);
	CHECK_MSG(same_logits(e, tl, straight), "%s, %s: back at turn %d%s: other logits", model, kv, back,
	          resumed ? " after a resume" : "");
	timeline_close(tl);
	timeline_close(straight);
}

TEST(the_last_sixteen_messages_are_undone_without_prefill)
{
	static const char *const model[] = { "lfm2",      "lfm2moe",       "qwen35",          "qwen35moe",
		                             "qwen3next", "granitehybrid", "granitehybridmoe" },
				 *const kv[] = { "full", "auto", "sift:k=512" };

	for (size_t m = 0; m < LEN(model); m++) {
		struct engine *e = open_model(model[m]);

		for (size_t p = 0; p < LEN(kv); p++)
			for (int32_t back = TURNS - 16; back < TURNS; back += m ? 5 : 1)
				goes_back(e, model[m], kv[p], back, back % 2);
		engine_close(e);
	}
}

/* Regenerating an answer starts from a copy of the states. Going back to a place between two copies prefills the tokens
 * after the earlier copy. */
TEST(other_places_prefill_from_the_copy_before_them)
{
	struct engine *e = open_model("lfm2");
	struct timeline *tl = open_line(e, "full"), *straight = open_line(e, "full");
	int32_t id[TURNS * (ASKED + ANSWERED) + ASKED];
	struct err err = { 0 };
	size_t n;

	for (int32_t i = 0; i < 3; i++)
		turn_run(tl, i, 0);
	n = tokens_of(2, ASKED, 0, id);
	CHECK_INT(timeline_sync(tl, id, n, NULL, NULL, &err), (int32_t)n);
	for (int32_t i = 0; i < 2; i++)
		turn_run(straight, i, 0);
	CHECK(timeline_sync(straight, id, n, NULL, NULL, &err) >= 0 && same_logits(e, tl, straight));
	/* Go back to the middle of the second answer. */
	n = tokens_of(1, ASKED, 0, id) + 3;
	tokens_of(2, 0, 0, id);
	CHECK_INT(timeline_sync(tl, id, n, NULL, NULL, &err), (int32_t)n - 3);
	timeline_close(straight);
	straight = open_line(e, "full");
	CHECK(timeline_sync(straight, id, n, NULL, NULL, &err) == 0 && same_logits(e, tl, straight));
	/* Replace only the last token: only the new token is prefilled. */
	timeline_close(straight);
	straight = open_line(e, "full");
	for (int i = 0; i < 2; i++) {
		int32_t next = id[n - 1] + 1 + i;

		CHECK_MSG(!timeline_extend(tl, &next, 1, 1, NULL, NULL, &err), "%s", err.msg);
		id[n] = next + 2;
		CHECK_INT(timeline_sync(tl, id, n + 1, NULL, NULL, &err), (int32_t)n);
		CHECK(timeline_sync(straight, id, n + 1, NULL, NULL, &err) >= 0 && same_logits(e, tl, straight));
		n++;
	}
	/* Roll back everything. */
	CHECK_INT(timeline_sync(tl, id + 1, SHORT, NULL, NULL, &err), 0);
	CHECK_INT(timeline_sync(straight, id + 1, SHORT, NULL, NULL, &err), 0);
	CHECK(same_logits(e, tl, straight));
	timeline_close(tl);
	timeline_close(straight);
	engine_close(e);
}

/* Several messages in one prefill, each with its end token. */
TEST(messages_within_a_prefill_are_undone_without_prefill)
{
	static const char *const model[] = { "lfm2", "qwen35", "granitehybrid" }, *const kv[] = { "full",
		                                                                                  "sift:k=512" };
	enum { MESSAGES = 20, LONG = 23, END = 263 };
	int32_t id[MESSAGES * LONG + 1];
	struct err err = { 0 };

	for (int32_t i = 0; i < MESSAGES * LONG; i++)
		id[i] = i % LONG == LONG - 1 ? END : id_at(i);
	for (size_t m = 0; m < LEN(model); m++) {
		struct engine *e = open_model(model[m]);

		for (int32_t p = 0; p < 2; p++)
			for (int32_t back = MESSAGES - 15; back < MESSAGES; back += 1 + p) {
				struct timeline *tl = open_batch(e, kv[p], 128), *straight = open_batch(e, kv[p], 128);
				int32_t n = back * LONG, had, was = id[n];

				CHECK(timeline_sync(tl, id, MESSAGES * LONG, NULL, NULL, &err) == 0);
				id[n] = id_at(n + 1000);
				had = timeline_sync(tl, id, (size_t)n + 1, NULL, NULL, &err);
				/* `sift` observes the end of a prefill, so these tokens are prefilled again. */
				CHECK_MSG(p ? had >= n - 3 * LONG : had == n,
				          "%s, %s: back at message %d %d tokens are reused, expected %d", model[m],
				          kv[p], back, had, n);
				CHECK(timeline_sync(straight, id, (size_t)n + 1, NULL, NULL, &err) == 0 &&
				      same_logits(e, tl, straight));
				id[n] = was;
				timeline_close(tl);
				timeline_close(straight);
			}
		engine_close(e);
	}
}

/* States are recomputed after a stopped prefill, and for KV entries that were loaded without states. */
TEST(what_is_not_known_is_computed)
{
	struct engine *e = open_model("lfm2");
	struct timeline *tl = open_line(e, "full"), *u = open_line(e, "full");
	int32_t id[64], ready;
	struct err err = { 0 };
	char *entries;

	for (int32_t i = 0; i < 64; i++)
		id[i] = id_at(i);
	CHECK(timeline_sync(tl, id, 64, NULL, NULL, &err) == 0);
	timeline_cancel(u);
	CHECK(timeline_sync(u, id, 64, NULL, NULL, &err) < 0 && err.code == ERR_CANCELLED);
	timeline_resume(u);
	CHECK(timeline_sync(u, id, 64, NULL, NULL, &err) >= 0 && same_logits(e, tl, u));
	ready = timeline_entries_ready(tl);
	entries = malloc(timeline_token_bytes(tl, 1) * (size_t)ready);
	CHECK(!timeline_entries_save(tl, 0, ready, 1, entries, &err) &&
	      !timeline_entries_load(u, 0, ready, 1, entries, &err));
	CHECK_INT(timeline_adopt(u, id, NULL, (size_t)ready, &err), 0);
	CHECK(timeline_sync(u, id, 64, NULL, NULL, &err) == 0 && same_logits(e, tl, u));
	free(entries);
	timeline_close(tl);
	timeline_close(u);
	engine_close(e);
}

/* If a change of policy keeps the KV entries, it keeps the states, too; otherwise everything is prefilled again. */
TEST(states_survive_a_change_of_policy)
{
	static const char *const model[] = { "lfm2", "qwen35", "granitehybrid" };
	static const struct {
		const char *before, *after;
		int kept;
	} change[] = {
		{ "full", "quest:k=512", 1 },
		{ "quest:k=512", "full", 1 },
		{ "full", "sift:k=512", 0 },
		/* sift observes the last tokens of a prefill, here all of them */
		{ "full", "sink:size=320,sinks=4", 0 },
		{ "sink:size=320,sinks=4", "full", 0 },
	};

	for (size_t m = 0; m < LEN(model); m++) {
		struct engine *e = open_model(model[m]);

		for (size_t i = 0; i < LEN(change); i++) {
			struct timeline *tl = open_line(e, change[i].before), *straight = open_line(e, change[i].after);
			struct err err = { 0 };

			turn_run(tl, 0, 0);
			CHECK_MSG(!timeline_switch_kv(tl, change[i].after, &err), "%s, %s: %s", model[m],
			          change[i].after, err.msg);
			turn_run(straight, 0, 0);
			CHECK_INT(turn_run(tl, 1, 0), change[i].kept ? ASKED + ANSWERED : 0);
			turn_run(straight, 1, 0);
			CHECK_MSG(same_logits(e, tl, straight), "%s: other logits behind a change from %s to %s",
			          model[m], change[i].before, change[i].after);
			timeline_close(tl);
			timeline_close(straight);
		}
		engine_close(e);
	}
}

/* ---- files ---- */

/* Check the error for a model file in which a key has another value, or (rename) another name of the same length. */
static void refused(const char *model, const char *key, uint32_t value, const char *rename, const char *words)
{
	char rel[96];
	size_t n, at = 0, length = strlen(key);
	struct gguf *g = NULL;
	struct hparams hp = { .arch = NULL };
	struct err err = { 0 };
	char *file;

	snprintf(rel, sizeof rel, "tests/vectors/models/%s.gguf", model);
	file = test_read(test_file(rel), &n);
	while (at + length + 8 < n && memcmp(file + at, key, length))
		at++;
	CHECK_MSG(at + length + 8 < n, "no %s in %s", key, model);
	if (rename)
		memcpy(file + at, rename, length);
	else
		memcpy(file + at + length + 4, &value, 4);
	if (gguf_parse(&g, model, file, n, &err) || hparams_read(&hp, g, &err))
		CHECK_MSG(err.code == ERR_MODEL && strstr(err.msg, words), "no \"%s\" in: %s", words, err.msg);
	else
		test_fail(__FILE__, __LINE__, "%s with %s = %u was accepted", model, key, (unsigned)value);
	hparams_free(&hp);
	gguf_close(g);
	free(file);
}

TEST(wrong_shapes_of_states_are_refused)
{
	refused("qwen35", "qwen35.ssm.time_step_rank", 3, NULL,
	        "'qwen35.ssm.time_step_rank' is 3, and must be a multiple of the ssm.group_count, 2");
	refused("qwen35", "qwen35.ssm.inner_size", 33, NULL,
	        "'qwen35.ssm.inner_size' is 33, and must be a multiple of the ssm.time_step_rank, 4");
	refused("qwen35", "qwen35.ssm.state_size", 257, NULL, "'qwen35.ssm.state_size' is 257, and must be 1 to 256");
	refused("qwen35", "qwen35.ssm.conv_kernel", 1, NULL, "'qwen35.ssm.conv_kernel' is 1, and must be 2 to 64");
	refused("qwen35", "qwen35.ssm.conv_kernel", 0, "qwen35.ssm.conv_kerne_", "'qwen35.ssm.conv_kernel' is missing");
	refused("qwen35", "qwen35.full_attention_interval", 1, NULL,
	        "'qwen35.full_attention_interval' is 1, and must be 2 to 1024");
	refused("qwen35", "qwen35.full_attention_interval", 4, NULL,
	        "'qwen35.full_attention_interval' is 4 for 3 layers: none has attention");
	refused("qwen35moe", "qwen35moe.expert_shared_feed_forward_length", 0, NULL,
	        "'qwen35moe.expert_shared_feed_forward_length' is 0");
	refused("granitehybrid", "granitehybrid.ssm.group_count", 3, NULL,
	        "and must be a multiple of the ssm.group_count, 3");
	refused("granitehybrid", "granitehybrid.ssm.inner_size", 63, NULL,
	        "'granitehybrid.ssm.inner_size' is 63, and must be a multiple");
	refused("lfm2", "lfm2.shortconv.l_cache", 65, NULL, "'lfm2.shortconv.l_cache' is 65, and must be 2 to 64");
}
