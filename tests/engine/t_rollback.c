/* tests/engine/t_rollback.c - transactions: tokens that were drafted or committed and then rolled back leave no trace,
 * under every policy. Compared is the complete state of a sequence: logits, kept tokens, and the bytes of a snapshot
 * (KV entries, attention mass, selected sets, rings). */
#include "tests/lib/test.h"

#include <stdlib.h>
#include <string.h>

#include "engine/engine_view.h"
#include "engine/timeline/timeline.h"
#include "tests/lib/predictor.h"
#include "tests/lib/tiny.h"
#include "engine/engine_snapshot.h"

static const struct {
	const char *kv;
	int32_t ctx, batch, pin;
	int family;
} all[] = {
	{ "full", 1600, 64, 0, 0 },
	{ "sift:k=40", 1600, 64, 0, 0 },
	{ "sift:k=24,sample=16", 1600, 64, 0, 0 },
	{ "sift:k=1/8,bits=4", 1600, 64, 0, 0 },
	{ "sift:k=32,split=even,bits=16", 1600, 100, 0, 0 },
	{ "refresh:k=40", 1600, 64, 0, 0 },
	{ "refresh:k=40,qc=1,s=0.2", 1600, 64, 0, 0 },
	{ "refresh:k=1/16,scan=kv,qc=2,s=0.99", 1600, 64, 0, 0 },
	{ "recycled:k=30,stride=4", 1600, 64, 0, 0 },
	{ "streaming++:size=50,stride=6", 1600, 64, 0, 0 },
	{ "quest:k=64", 1600, 64, 0, 0 },
	{ "quest:k=64,bound=raw", 1600, 64, 0, 0 },
	{ "quest:k=96,page=32", 1600, 64, 0, 0 },
	{ "quest:k=72,page=8", 1600, 64, 0, WINDOWED },
	{ "h2o:k=40", 1600, 64, 0, 0 },
	{ "h2o+:k=40,dense=1", 1600, 200, 0, 0 },
	{ "snapkv:k=50", 1600, 64, 0, 0 },
	{ "kvzip", 1600, 64, 0, 0 },
	{ "kvzip:k=20", 1600, 150, 0, 0 },
	{ "kvzip:k=1/8", 1600, 16, 0, WINDOWED },
	{ "predict:k=60,block=4,first=8,last=16,rows=16,dense=1", 1600, 64, 0, 0 },
	{ "predict:k=64,first=16,last=16,calibrate=3", 1600, 200, 0, 0 },
	{ "predict:k=48,block=1,first=4,last=16,by=mixed,rows=40", 1600, 64, 0, 0 },
	{ "sink:size=100,stride=32", 1600, 64, 0, 0 },
	{ "cascade:size=96,stride=32", 1600, 64, 0, 0 },
	{ "cascade:size=96,n=3,f=3,heads=layer,sinks=0,stride=64", 1600, 64, 0, 0 },
	{ "cascade:size=120,n=4,score=surprise,stride=30", 1600, 64, 0, 0 },
	{ "cascade:size=64,n=2,select=0,stride=16", 1600, 64, 0, 0 },
	{ "cascade:size=800,stride=64", 1600, 64, 0, 0 },
	{ "reattention:local=272,k=40,pool=3", 1600, 64, 0, 0 },
	{ "reattention:local=50,k=12,pool=1,sinks=0", 1600, 64, 0, 0 },
	{ "auto", 300, 64, 0, 0 },
	{ "auto", 1600, 64, 0, 0 },
	{ "auto:k=20,sample=10", 400, 64, 150, 0 },
	{ "auto:k=20,sample=0,size=64", 600, 64, 200, 0 },
	{ "auto:prefix=refresh,k=30,size=80", 600, 64, 200, 0 },
	{ "auto:prefix=full", 400, 64, 120, 0 },
	{ "full", 1600, 64, 0, WINDOWED },
	{ "sift:k=40", 1600, 64, 0, WINDOWED },
	{ "streaming++:size=50,stride=6", 1600, 64, 0, WINDOWED },
	{ "quest:k=64", 1600, 64, 0, WINDOWED },
	{ "predict:k=48,block=4,first=8,last=16,rows=16,dense=0", 1600, 64, 0, WINDOWED },
	{ "sink:size=100,stride=32", 1600, 64, 0, WINDOWED },
	{ "cascade:size=96,stride=32", 1600, 64, 0, WINDOWED },
	{ "cascade:size=96,n=3,f=3,heads=layer,sinks=0,stride=64", 1600, 64, 0, WINDOWED },
	{ "cascade:size=64,n=2,select=0,stride=16", 1600, 64, 0, WINDOWED },
	{ "auto", 300, 64, 0, WINDOWED },
	{ "auto:k=20,sample=0,size=64", 600, 64, 200, WINDOWED },
	{ "auto:prefix=full", 400, 64, 120, WINDOWED },
};
enum { ALL = LEN(all), PROMPT = 330, BEHIND = 600 };

static struct engine *engine(int family, int threads)
{
	static struct engine *e[FAMILIES][4];

	if (!e[family][threads]) {
		e[family][threads] = tiny_open(&tiny_families[family], threads, TRAINED, 10000);
		predictor_put_for(e[family][threads]);
	}
	return e[family][threads];
}

static struct timeline *open_with(int i, int threads)
{
	static const char *const types[] = { "f16", "q4_0", "k=q8_0,v=q4_0", "q8_0" };
	struct timeline *tl = NULL;
	struct err err = { 0 };

	CHECK_MSG(!timeline_open(&tl, engine(all[i].family, threads),
	                         &(struct timeline_options){ .ctx = all[i].ctx,
	                                                     .kv = all[i].kv,
	                                                     .kv_type = types[i % LEN(types)],
	                                                     .batch = all[i].batch },
	                         &err),
	          "%s: %s", all[i].kv, err.msg);
	CHECK_MSG(!timeline_pin(tl, all[i].pin, &err), "%s", err.msg);
	return tl;
}

static struct timeline *open_at(int i)
{
	return open_with(i, 2);
}

static int32_t some_token(void)
{
	return 3 + (int32_t)(test_rand() % (N_VOCAB - 3));
}

static void extend(struct timeline *tl, const int32_t *id, int32_t n, int stepwise, const char *at)
{
	struct err err = { 0 };

	CHECK_MSG(!timeline_extend(tl, id, (size_t)n, stepwise, NULL, NULL, &err), "%s: %s", at, err.msg);
}

/* Check that the complete states of two sequences are equal. */
static void check_same(struct timeline *a, struct timeline *b, const char *at)
{
	struct str x = { 0 }, y = { 0 };
	struct err err = { 0 };
	size_t n, m;
	const int32_t *id = timeline_tokens(a, &n), *jd = timeline_tokens(b, &m);
	uint8_t *kept = malloc(2 * n + 2);

	CHECK_MSG(n == m && !memcmp(id, jd, n * sizeof *id), "%s: other tokens", at);
	CHECK_MSG((timeline_logits(a) != NULL) == (timeline_logits(b) != NULL), "%s: logits are missing", at);
	if (timeline_logits(a) && timeline_logits(b))
		CHECK_MSG(!memcmp(timeline_logits(a), timeline_logits(b), N_VOCAB * sizeof(float)), "%s: other logits",
		          at);
	timeline_kept(a, 0, (int32_t)n, kept);
	timeline_kept(b, 0, (int32_t)n, kept + n);
	CHECK_MSG(!memcmp(kept, kept + n, n), "%s: other tokens are kept", at);
	CHECK_MSG(!timeline_head_save(a, &x, &err) && !timeline_head_save(b, &y, &err), "%s: %s", at, err.msg);
	CHECK_MSG(x.n == y.n && !memcmp(x.p, y.p, x.n), "%s: other snapshots (%zu and %zu bytes)", at, x.n, y.n);
	free(kept);
	str_free(&x);
	str_free(&y);
}

/* Append n tokens to both, by prefill or decode, and check that the logits after each are equal. */
static void go_on(struct timeline *a, struct timeline *b, int32_t n, const char *at)
{
	for (int32_t done = 0; done < n;) {
		int32_t id[40], m = test_rand() % 4 ? 1 : 1 + (int32_t)(test_rand() % 40),
				step = m == 1 || test_rand() % 2;

		m = m < n - done ? m : n - done;
		for (int32_t i = 0; i < m; i++)
			id[i] = some_token();
		extend(a, id, m, step, at);
		extend(b, id, m, step, at);
		CHECK_MSG(!memcmp(timeline_logits(a) ? timeline_logits(a) : (const float *)id,
		                  timeline_logits(b) ? timeline_logits(b) : (const float *)id,
		                  sizeof id < N_VOCAB * sizeof(float) ? sizeof id : 4),
		          "%s: other logits, %d tokens on", at, done);
		done += m;
	}
}

/* Return how many tokens to append after the test of policy i, so that they fit its context. */
static int32_t behind(int i)
{
	return all[i].ctx < 1600 || kv_policy_endless(all[i].kv) ? BEHIND : 300;
}

/* Draft tokens and accept some. The state must be as if only the accepted tokens had been decoded, one by one. */
TEST(what_was_tried_leaves_no_trace)
{
	int64_t tried = 0, accepted = 0, steps = 0;

	for (int i = 0; i < ALL; i++) {
		struct timeline *a = open_at(i), *b = open_at(i);
		int32_t id[PROMPT], prompt = 50 + (int32_t)(test_rand() % (PROMPT - 50));
		char at[160];

		if (all[i].pin)
			prompt = all[i].pin + 60;
		for (int32_t k = 0; k < prompt; k++)
			id[k] = some_token();
		extend(a, id, prompt, 0, all[i].kv);
		extend(b, id, prompt, 0, all[i].kv);
		for (int round = 0; round < 60; round++) {
			const float *logits = NULL;
			struct err err = { 0 };
			int32_t draft[20], n = 1 + (int32_t)(test_rand() % 20), got, keep;

			snprintf(at, sizeof at, "%s, %d tokens, round %d", all[i].kv, prompt, round);
			for (int32_t k = 0; k < n; k++)
				draft[k] = some_token();
			got = timeline_verify(a, draft, n, &logits, &err);
			CHECK_MSG(got >= 0 && got <= n, "%s: %d: %s", at, got, err.msg);
			keep = got > 0 ? (int32_t)(test_rand() % (uint64_t)(got + 1)) : 0;
			if (round % 5 == 4)
				keep = 0;
			CHECK_MSG(timeline_logits(b) && !memcmp(logits, timeline_logits(b), N_VOCAB * sizeof *logits),
			          "%s: before the draft", at);
			for (int32_t k = 0; k < keep; k++) {
				extend(b, draft + k, 1, 1, at);
				CHECK_MSG(!memcmp(logits + (size_t)(k + 1) * N_VOCAB, timeline_logits(b),
				                  N_VOCAB * sizeof *logits),
				          "%s: logits after token %d of %d", at, k, got);
			}
			/* Sometimes do not call timeline_accept(): the next call then rolls back all drafted tokens. */
			if (keep || test_rand() % 2)
				CHECK_MSG(!timeline_accept(a, keep, &err), "%s: %s", at, err.msg);
			check_same(a, b, at);
			tried += got;
			accepted += keep;
			steps++;
			if (round % 20 == 19)
				go_on(a, b, 30, at);
		}
		go_on(a, b, behind(i), at);
		check_same(a, b, at);
		timeline_close(a);
		timeline_close(b);
	}
	test_note("%lld tokens tried in %lld steps, %lld accepted", (long long)tried, (long long)steps,
	          (long long)accepted);
	CHECK(tried > 3 * steps);
}

/* The same for a VERIFY step that begins with a sampled token without a KV entry (the pending token). */
TEST(the_pending_token_comes_first)
{
	for (int i = 0; i < ALL; i++) {
		struct timeline *a = open_at(i), *b = open_at(i);
		struct sampling s = sampling_default, u;
		int32_t id[PROMPT];
		struct step_out out;
		struct err err = { 0 };

		s.temperature = 1;
		sampling_seed(&s, (uint64_t)i);
		u = s;
		for (int32_t k = 0; k < PROMPT; k++)
			id[k] = some_token();
		extend(a, id, PROMPT, 0, all[i].kv);
		extend(b, id, PROMPT, 0, all[i].kv);
		for (int round = 0; round < 20; round++) {
			const float *logits = NULL;
			int32_t draft[5], got, keep;

			if (timeline_step(a, &s, &out, &err) < 1 || timeline_step(b, &u, &out, &err) < 1)
				break;
			for (int k = 0; k < 5; k++)
				draft[k] = some_token();
			got = timeline_verify(a, draft, 5, &logits, &err);
			CHECK_MSG(got >= 0, "%s: %s", all[i].kv, err.msg);
			keep = got > 2 ? 2 : 0;
			CHECK_MSG(!timeline_accept(a, keep, &err), "%s: %s", all[i].kv, err.msg);
			extend(b, draft, keep, 1, all[i].kv);
			check_same(a, b, all[i].kv);
		}
		timeline_close(a);
		timeline_close(b);
	}
}

/* With a large vocabulary, a step returns fewer rows of logits. */
TEST(wide_steps_fit_large_vocabularies)
{
	enum { LARGE = 140000, STEP = 16 };
	struct engine *large;
	struct timeline *a, *b;
	const float *logits;
	int32_t id[STEP];
	struct err err;

	tiny_vocab = LARGE;
	large = tiny_open(&tiny_families[0], 2, TRAINED, 10000);
	tiny_vocab = N_VOCAB;
	if (timeline_open(&a, large, &(struct timeline_options){ .ctx = 64, .kv = "full" }, &err) ||
	    timeline_open(&b, large, &(struct timeline_options){ .ctx = 64, .kv = "full" }, &err))
		test_skip("%s", err.msg);
	for (int i = 0; i < STEP; i++)
		id[i] = some_token();
	CHECK_INT(timeline_sync(a, id, 8, NULL, NULL, &err), 0);
	CHECK_INT(timeline_sync(b, id, 8, NULL, NULL, &err), 0);
	CHECK_MSG(timeline_verify(a, id, STEP, &logits, &err) == STEP, "%s", err.msg);
	for (int i = 0; i < STEP; i++) {
		extend(b, id + i, 1, 1, "large");
		CHECK_MSG(!memcmp(logits + (size_t)(i + 1) * LARGE, timeline_logits(b), LARGE * sizeof *logits),
		          "other logits after %d tokens", i + 1);
	}
	CHECK_INT(timeline_accept(a, 0, &err), 0);
	timeline_close(a);
	timeline_close(b);
	engine_close(large);
}

/* WEIR_SOAK=N: N times as many tokens, with other random sequences. */
static int times(void)
{
	const char *s = getenv("WEIR_SOAK");
	long n = s ? strtol(s, NULL, 10) : 1;

	return n > 1 && n < 100000 ? (int)n : 1;
}

/* Make all drafts as long as possible, right or wrong. */
static void draft_always(struct timeline *tl)
{
	draft_pace_reset(&tl->pace);
	for (int i = 0; i < DRAFT_CLASSES; i++)
		tl->pace.right[i] = 0.999;
}

/* Generation with drafts, by one to three threads, gives the same tokens, random numbers, logits, kept tokens and
 * snapshots as generation without drafts, whatever reads the sequence in between. */
TEST(drafts_leave_no_trace)
{
	/* A negative penalty makes a random model repeat itself, so that drafts are accepted. */
	static const struct {
		float temperature;
		int32_t top_k;
		float repeat, frequency;
	} how[] = {
		{ 0, 0, 1, 0 }, { 0, 0, 1, -2 }, { 0.5f, 0, 1, -1 }, { 1, 3, 1, -1 }, { 0.7f, 8, 1.1f, -0.5f },
	};
	struct timeline_stats st;
	int64_t drafted = 0, accepted = 0, sampled = 0;

	for (int life = 0; life < ALL * times(); life++)
		for (size_t h = 0; h < LEN(how); h++) {
			int i = life % ALL, threads = 1 + (life + (int)h) % 3;
			struct timeline *a = open_with(i, threads), *b = open_at(i);
			struct sampling s = sampling_default, u;
			int32_t id[PROMPT],
				prompt = all[i].pin ? all[i].pin + 60 : 40 + (int32_t)(test_rand() % (PROMPT - 40)),
				motif = 3 + (int32_t)h * 5;
			char at[160];
			struct err err = { 0 };

			s.temperature = how[h].temperature;
			s.top_k = how[h].top_k ? how[h].top_k : s.top_k;
			s.repeat_penalty = how[h].repeat;
			s.frequency_penalty = how[h].frequency;
			s.answer = life % 2 ? prompt : 0;
			sampling_seed(&s, (uint64_t)life);
			u = s;
			for (int32_t k = 0; k < prompt; k++)
				id[k] = k < motif || test_rand() % 16 == 0 ? some_token() : id[k - motif];
			CHECK(timeline_sync(a, id, (size_t)prompt, NULL, NULL, &err) == 0 &&
			      timeline_sync(b, id, (size_t)prompt, NULL, NULL, &err) == 0);
			timeline_speculate(a, 1);
			for (int round = 0; round < 120; round++) {
				struct step_out x, y;
				int what = (int)(test_rand() % 16), one, two;

				snprintf(at, sizeof at, "%s, sampler %zu, %d threads, round %d", all[i].kv, h, threads,
				         round);
				draft_always(a);
				one = timeline_step(a, &s, &x, &err);
				two = timeline_step(b, &u, &y, &err);
				CHECK_MSG(one == two && x.id == y.id && !memcmp(s.rng, u.rng, sizeof s.rng),
				          "%s: %d and %d, tokens %d and %d: %s", at, one, two, x.id, y.id, err.msg);
				if (one < 0)
					break;
				if (!one || what == 0)
					check_same(a, b, at);
				if (!one)
					break;
				sampled++;
				if (what == 1) {
					int32_t more = some_token(), stepwise = test_rand() % 2 == 0;
					extend(a, &more, 1, stepwise, at);
					extend(b, &more, 1, stepwise, at);
				} else if (what == 2) {
					struct cache_view v;
					timeline_view(a, 16, &v);
				}
			}
			check_same(a, b, at);
			timeline_stats(a, &st);
			drafted += st.drafted;
			accepted += st.accepted;
			go_on(a, b, behind(i) < 60 ? behind(i) : 60, at);
			check_same(a, b, at);
			timeline_close(a);
			timeline_close(b);
		}
	test_note("%lld tokens sampled, %lld drafted, %lld of them accepted", (long long)sampled, (long long)drafted,
	          (long long)accepted);
	CHECK(accepted > 500 * times());
}

static const int32_t *tokens_copy(struct timeline *tl, int32_t *out, size_t *n)
{
	const int32_t *id = timeline_tokens(tl, n);

	memcpy(out, id, *n * sizeof *id);
	return out;
}

/* Roll back an answer, as /regen does: nothing is recomputed, and later tokens are those after the prompt alone. (An
 * early version of the cascade kept the attention of rolled-back tokens in its mass.) */
TEST(an_answer_that_is_rolled_back_leaves_no_trace)
{
	static int32_t id[PROMPT], buf[4096];

	for (int i = 0; i < ALL; i++)
		for (int answer = 1; answer <= 31; answer += 10) {
			struct timeline *a = open_at(i), *b = open_at(i);
			struct sampling s = sampling_default;
			struct step_out out;
			struct err err = { 0 };
			int32_t prompt = all[i].pin ? all[i].pin + 60 : PROMPT, reused;
			char at[160];
			size_t n;

			snprintf(at, sizeof at, "%s, an answer of %d tokens", all[i].kv, answer);
			for (int32_t k = 0; k < prompt; k++)
				id[k] = some_token();
			CHECK(timeline_sync(a, id, (size_t)prompt, NULL, NULL, &err) == 0);
			CHECK(timeline_sync(b, id, (size_t)prompt, NULL, NULL, &err) == 0);
			for (int k = 0; k < answer; k++)
				if (timeline_step(a, &s, &out, &err) < 1)
					break;
			tokens_copy(a, buf, &n);
			reused = timeline_sync(a, id, (size_t)prompt, NULL, NULL, &err);
			CHECK_MSG(reused >= 0, "%s: %s", at, err.msg);
			/* Do not compare if slots have moved: the stream is then prefilled again in other steps. Do not
			 * compare under prefix=refresh either: a new set is selected after the rollback. */
			if ((reused < prompt && reused > 0) || strstr(all[i].kv, "prefix=refresh")) {
				timeline_close(a);
				timeline_close(b);
				continue;
			}
			check_same(a, b, at);
			go_on(a, b, behind(i) < 300 ? behind(i) : 300, at);
			check_same(a, b, at);
			timeline_close(a);
			timeline_close(b);
		}
}

/* Return the index of a policy and a family in the table. */
static int place_of(const char *kv, int family)
{
	int i = 0;

	while (i < ALL - 1 && (strcmp(all[i].kv, kv) || all[i].family != family))
		i++;
	CHECK_MSG(!strcmp(all[i].kv, kv) && all[i].family == family, "%s is not in the table", kv);
	return i;
}

TEST(the_newest_tokens_of_a_cascade_are_rolled_back)
{
	static int32_t id[PROMPT + 64];
	/* clang-format off */
	static const struct { const char *kv; int family; } which[] = {
		{ "cascade:size=96,stride=32", 0 }, { "cascade:size=96,n=3,f=3,heads=layer,sinks=0,stride=64", 0 },
		{ "cascade:size=120,n=4,score=surprise,stride=30", 0 }, { "cascade:size=64,n=2,select=0,stride=16", 0 },
		{ "cascade:size=800,stride=64", 0 }, { "auto", 0 }, { "auto:prefix=full", 0 },
		{ "cascade:size=96,stride=32", WINDOWED }, { "cascade:size=64,n=2,select=0,stride=16", WINDOWED }, { "auto", WINDOWED },
	};
	/* clang-format on */
	int exact = 0;

	for (size_t w = 0; w < LEN(which); w++)
		for (int round = 0; round < 12; round++) {
			int i = place_of(which[w].kv, which[w].family);
			struct timeline *a = open_at(i), *b = open_at(i);
			struct err err = { 0 };
			int32_t stay = 1 + (int32_t)(test_rand() % 20), go = 1 + (int32_t)(test_rand() % 6), reused;

			for (int32_t k = 0; k < PROMPT + 64; k++)
				id[k] = some_token();
			extend(a, id, PROMPT, 0, all[i].kv);
			extend(b, id, PROMPT, 0, all[i].kv);
			extend(a, id + PROMPT, stay + go, 1, all[i].kv);
			extend(b, id + PROMPT, stay, 1, all[i].kv);
			reused = timeline_sync(a, id, (size_t)(PROMPT + stay), NULL, NULL, &err);
			CHECK_MSG(reused >= 0, "%s: %s", all[i].kv, err.msg);
			if (reused >= PROMPT) {
				check_same(a, b, all[i].kv);
				go_on(a, b, 200, all[i].kv);
				check_same(a, b, all[i].kv);
				exact++;
			}
			timeline_close(a);
			timeline_close(b);
		}
	test_note("%d of 120 without reading again", exact);
	CHECK(exact > 45);
}
