/* tests/engine/t_select_policies.c - policies that retain every entry and read selected ones, on a tiny random model
 * with peaked attention: results do not depend on threads, failed calls or earlier contents; settings; losses with the
 * default model. Selected entries themselves are tested in t_selectors.c. */
#include "tests/lib/test.h"
#include "engine/policies/policy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/lab/lab.h"
#include "engine/cache/cache.h"
#include "tests/lib/mkgguf.h"
#include "tests/lib/predictor.h"
#include "engine/timeline/timeline.h"

/* ---- a tiny random model ---- */

enum { N_VOCAB = 288, N_LAYER = 4, N_EMBD = 128, N_HEAD = 4, N_KV = 2, CTX = 512 };

/* Add a tensor of pseudo-random weights, which are the same in every test and engine. */
static void put_random(struct mk *m, uint64_t *seed, const char *name, int32_t rows, int32_t cols, float scale)
{
	size_t n = (size_t)rows * (size_t)cols;
	float *v = calloc(n, sizeof *v);

	for (size_t i = 0; i < n; i++) {
		*seed = *seed * 6364136223846793005u + 1442695040888963407u;
		v[i] = scale > 0 ? scale * ((float)(*seed >> 40) / (1 << 23) - 1) / sqrtf((float)cols) : 1;
	}
	mk_tensor(m, name, rows == 1 ? 1 : 2, (int64_t[]){ cols, rows }, 0, v, n * sizeof *v);
	free(v);
}

/* Open a tiny model. Its queries and keys are larger than a trained model's, so that attention is peaked: flat
 * attention would hide which entries are not read. */
static struct engine *open_tiny(int threads)
{
	static const struct {
		const char *name;
		int32_t rows, cols;
		float scale;
	} layer[] = {
		{ "attn_norm", 1, N_EMBD, 0 },           { "attn_q", N_EMBD, N_EMBD, 3.5f },
		{ "attn_k", N_EMBD / 2, N_EMBD, 3.5f },  { "attn_v", N_EMBD / 2, N_EMBD, 1.7f },
		{ "attn_output", N_EMBD, N_EMBD, 1.7f }, { "ffn_norm", 1, N_EMBD, 0 },
		{ "ffn_gate", 64, N_EMBD, 1.7f },        { "ffn_up", 64, N_EMBD, 1.7f },
		{ "ffn_down", N_EMBD, 64, 1.7f },
	};
	const char *dir = getenv("TMPDIR");
	struct engine *e = NULL;
	struct str file = { 0 };
	struct err err = { 0 };
	struct mk m = { 0 };
	uint64_t seed = 1;
	char path[300], name[80];
	int fd, rc;

	mk_string(&m, "general.architecture", "llama");
	mk_u32(&m, "llama.block_count", N_LAYER);
	mk_u32(&m, "llama.context_length", CTX);
	mk_u32(&m, "llama.embedding_length", N_EMBD);
	mk_u32(&m, "llama.feed_forward_length", 64);
	mk_u32(&m, "llama.attention.head_count", N_HEAD);
	mk_u32(&m, "llama.attention.head_count_kv", N_KV);
	mk_f32(&m, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
	mk_vocab(&m, N_VOCAB);
	put_random(&m, &seed, "token_embd.weight", N_VOCAB, N_EMBD, 8);
	put_random(&m, &seed, "output_norm.weight", 1, N_EMBD, 0);
	for (int l = 0; l < N_LAYER; l++)
		for (size_t i = 0; i < LEN(layer); i++) {
			snprintf(name, sizeof name, "blk.%d.%s.weight", l, layer[i].name);
			put_random(&m, &seed, name, layer[i].rows, layer[i].cols, layer[i].scale);
		}
	mk_finish(&m, &file);
	snprintf(path, sizeof path, "%s/weir-select-XXXXXX", dir && strlen(dir) < 200 ? dir : "/tmp");
	if ((fd = mkstemp(path)) < 0 || write(fd, file.p, file.n) != (ssize_t)file.n)
		test_skip("no temporary file");
	close(fd);
	str_free(&file);
	rc = engine_open(&e, &(struct engine_options){ .model_path = path, .threads = threads }, &err);
	unlink(path);
	if (rc)
		test_skip("cannot open the tiny model: %s", err.msg);
	predictor_put_for(e);
	return e;
}

static struct timeline *open_policy(struct engine *e, const char *kv, int32_t batch)
{
	struct timeline *tl = NULL;
	struct err err = { 0 };

	if (timeline_open(&tl, e, &(struct timeline_options){ .ctx = CTX, .kv = kv, .batch = batch }, &err))
		test_skip("%s: %s", kv, err.msg);
	return tl;
}

static void random_ids(int32_t *id, size_t n)
{
	/* Use few different tokens, so that earlier tokens get attention. */
	for (size_t i = 0; i < n; i++)
		id[i] = 3 + (int32_t)(test_rand() % 40);
}

struct kept_logits {
	float *row;
	size_t n;
};
static void keep(int32_t pos, const float *logits, void *ud)
{
	struct kept_logits *k = ud;

	memcpy(k->row + k->n++ * N_VOCAB, logits, N_VOCAB * sizeof *logits);
}

enum { PROMPT = 200, STEPS = 40 };
struct answer {
	float row[STEPS][N_VOCAB];
};

/* Prefill the prompt, and decode the other tokens. */
static void run_on(struct timeline *tl, const int32_t *id, struct answer *out)
{
	struct kept_logits k = { .row = out->row[0] };
	struct err err = { 0 };

	CHECK_MSG(timeline_sync(tl, id, PROMPT, NULL, NULL, &err) >= 0, "%s", err.msg);
	CHECK_MSG(!timeline_extend(tl, id + PROMPT, STEPS, 1, keep, &k, &err), "%s", err.msg);
	CHECK_INT(k.n, STEPS);
}

static void run_policy(struct engine *e, const char *kv, const int32_t *id, struct answer *out)
{
	struct timeline *tl = open_policy(e, kv, 0);

	run_on(tl, id, out);
	timeline_close(tl);
}

static int same(const struct answer *a, const struct answer *b)
{
	return !memcmp(a, b, sizeof *a);
}

static double difference(const struct answer *a, const struct answer *b)
{
	return test_nmse(a->row[0], b->row[0], (size_t)STEPS * N_VOCAB);
}

static struct answer full, got, other;

TEST(enough_entries_are_full_attention_bit_for_bit)
{
	/* clang-format off */
	static const char *const as[] = {
		"sift:k=240", "sift:k=240,bits=8", "sift:k=1/1", "refresh:k=240", "refresh:k=240,scan=kv,qc=3,s=2",
		"recycled:k=240", "streaming++:size=240", "quest:k=240", "quest:k=240,bound=raw", "h2o:k=240", "h2o+:k=240",
		"snapkv:k=240", "snapkv:k=240,window=1", "kvzip:k=240", "predict:k=240", "predict:k=240,block=1,by=mixed",
		/* every step selects a new set, and so reads all entries */
		"recycled:k=16,stride=1", "streaming++:size=16,stride=1", "refresh:k=16,qc=1,s=2,scan=kv",
		/* no layer selects */
		"quest:k=48,dense=4", "h2o+:k=16,dense=4", "predict:k=64,dense=4",
	};
	/* clang-format on */
	struct engine *e = open_tiny(2);
	int32_t id[PROMPT + STEPS];

	random_ids(id, PROMPT + STEPS);
	run_policy(e, "full", id, &full);
	for (size_t i = 0; i < LEN(as); i++) {
		run_policy(e, as[i], id, &got);
		CHECK_MSG(same(&got, &full), "%s differs from full by %g", as[i], difference(&got, &full));
	}
	engine_close(e);
}

/* clang-format off */
static const char *const choosing[] = {
	"sift:k=24", "sift:k=16,sample=12", "sift:k=1/8,bits=4,split=even", "sift:k=24,bits=16", "refresh:k=24",
	"refresh:k=1/8,scan=kv", "refresh:k=24,qc=4,s=2",
	"refresh:k=24,s=-2", "refresh:k=24,update=no", "recycled:k=24,stride=5", "streaming++:size=24,stride=7",
	"quest:k=96", "quest:k=48,bound=raw", "h2o:k=24", "h2o+:k=24", "snapkv:k=40", "snapkv:k=24,window=1",
	"snapkv:k=80,window=64,pool=5", "snapkv:k=40,pool=63", "h2o+:k=24,dense=1",
	"quest:k=96,dense=1", "quest:k=96,page=8", "quest:k=96,page=32,bound=raw",
	"quest:k=128,page=64,bound=raw",
	"predict:k=64,first=16,last=16,dense=0", "predict:k=24,block=1,first=2,last=4,by=mixed,rows=40,calibrate=3,dense=1",
};
/* clang-format on */
enum { N_CHOOSING = LEN(choosing) };

/* A second run, other numbers of threads, and other chunks give the same bits. */
TEST(results_do_not_depend_on_threads_or_chunks)
{
	int32_t id[PROMPT + STEPS];
	struct engine *e[3];

	random_ids(id, PROMPT + STEPS);
	for (int i = 0; i < 3; i++)
		e[i] = open_tiny(i + 1);
	run_policy(e[0], "full", id, &full);
	for (size_t i = 0; i < N_CHOOSING; i++) {
		struct timeline *tl;

		run_policy(e[0], choosing[i], id, &got);
		CHECK_MSG(!same(&got, &full), "%s reads everything", choosing[i]);
		CHECK_MSG(difference(&got, &full) < 1.5, "%s is far off: %g", choosing[i], difference(&got, &full));
		for (int j = 0; j < 3; j++) {
			run_policy(e[j], choosing[i], id, &other);
			CHECK_MSG(same(&got, &other), "%s: %d threads", choosing[i], j + 1);
		}
		/* Chunks of 128 and 72 tokens: the last one has all tokens that a policy observes. h2o is compared
		 * approximately, because it sums in another order. */
		tl = open_policy(e[1], choosing[i], 128);
		run_on(tl, id, &other);
		timeline_close(tl);
		CHECK_MSG(strstr(choosing[i], "h2o:") ? difference(&got, &other) < 1e-3 : same(&got, &other),
		          "%s: chunks", choosing[i]);
	}
	for (int i = 0; i < 3; i++)
		engine_close(e[i]);
}

TEST(a_threshold_above_one_is_a_fixed_stride)
{
	struct engine *e = open_tiny(2);
	int32_t id[PROMPT + STEPS];

	random_ids(id, PROMPT + STEPS);
	run_policy(e, "refresh:k=24,qc=5,s=1.5", id, &got);
	run_policy(e, "recycled:k=24,pool=15,stride=5,scan=k", id, &other);
	CHECK(same(&got, &other));
	/* In the published method, a step that selects reads all entries. */
	run_policy(e, "recycled:k=24,pool=15,stride=5", id, &got);
	CHECK(!same(&got, &other));
	run_policy(e, "refresh:k=24,qc=5,s=1.5,scan=kv", id, &other);
	CHECK(same(&got, &other));
	run_policy(e, "refresh:k=24,qc=5,s=0", id, &other);
	CHECK(!same(&got, &other));
	/* With a threshold below -1 no new set is ever selected. */
	run_policy(e, "refresh:k=24,qc=5,s=-2", id, &got);
	run_policy(e, "refresh:k=24,update=no", id, &other);
	CHECK(same(&got, &other));
	run_policy(e, "recycled:k=24,pool=15,stride=41", id, &other);
	CHECK(same(&got, &other));
	engine_close(e);
}

/* The first generated token reads the same entries under both policies; afterwards snapkv's set grows, while refresh
 * drops its weakest entries. */
TEST(refresh_that_never_comes_begins_as_snapkv)
{
	struct engine *e = open_tiny(2);
	int32_t id[PROMPT + STEPS];
	double first;

	random_ids(id, PROMPT + STEPS);
	run_policy(e, "refresh:k=24,s=-2,pool=1", id, &got);
	run_policy(e, "snapkv:k=24,window=1,pool=1", id, &other);
	first = test_nmse(got.row[0], other.row[0], N_VOCAB);
	CHECK_MSG(first < 1e-9, "the first token differs by %g", first);
	CHECK(difference(&got, &other) > 1e-6);
	engine_close(e);
}

/* After a rollback, results do not depend on the tokens that were rolled back. */
TEST(a_rewound_sequence_is_like_a_fresh_one)
{
	struct engine *e = open_tiny(2);
	int32_t id[PROMPT + STEPS], before[PROMPT + STEPS];
	struct err err = { 0 };

	random_ids(id, PROMPT + STEPS);
	for (size_t i = 0; i < N_CHOOSING; i++)
		/* First compute another sequence: with another end of the prompt (way 0), with another text from the
		 * middle on (1), or with the same prompt (2, 3). In way 3 also roll back the last token of the
		 * prompt. */
		for (int way = 0; way < 4; way++) {
			struct timeline *tl = open_policy(e, choosing[i], 0);
			size_t from = way == 0 ? 190 : way == 1 ? 77 : PROMPT, n = way == 3 ? PROMPT - 1 : PROMPT;

			memcpy(before, id, sizeof id);
			random_ids(before + from, PROMPT + STEPS - from);
			CHECK_MSG(timeline_sync(tl, before, PROMPT, NULL, NULL, &err) >= 0, "%s", err.msg);
			CHECK_MSG(!timeline_extend(tl, before + PROMPT, 9, 1, NULL, NULL, &err), "%s", err.msg);
			if (n < PROMPT)
				CHECK_MSG(timeline_sync(tl, id, n, NULL, NULL, &err) >= 0, "%s", err.msg);
			run_on(tl, id, &other);
			timeline_close(tl);
			if (way == 3) { /* compare with a sequence that also had two prefills */
				tl = open_policy(e, choosing[i], 0);
				CHECK_MSG(timeline_sync(tl, id, n, NULL, NULL, &err) >= 0, "%s", err.msg);
				run_on(tl, id, &got);
				timeline_close(tl);
			} else if (!way) {
				run_policy(e, choosing[i], id, &got);
			}
			CHECK_MSG(same(&got, &other), "%s, way %d: %g", choosing[i], way, difference(&got, &other));
		}
	engine_close(e);
}

/* Turns of a conversation: every prefill reads all entries and selects new sets. */
TEST(several_reads_follow_one_another)
{
	static float a[N_VOCAB], b[N_VOCAB], f[N_VOCAB];
	struct engine *e = open_tiny(2);
	int32_t id[300];
	struct err err = { 0 };

	random_ids(id, 300);
	for (size_t i = 0; i < N_CHOOSING; i++)
		for (int twice = 0; twice < 2; twice++) {
			struct timeline *tl = open_policy(e, choosing[i], 0),
					*whole = twice ? NULL : open_policy(e, "full", 0);
			struct kept_logits k;

			for (size_t at = 0; at < 300; at += 60) {
				CHECK_INT(timeline_sync(tl, id, at + 50, NULL, NULL, &err), at);
				k = (struct kept_logits){ .row = twice ? b : a };
				for (size_t s = 0; s < 10; s++, k.n = 0)
					CHECK_MSG(!timeline_extend(tl, id + at + 50 + s, 1, 1, keep, &k, &err),
					          "%s: %s", choosing[i], err.msg);
			}
			if (whole) {
				CHECK_INT(timeline_sync(whole, id, 299, NULL, NULL, &err), 0);
				k = (struct kept_logits){ .row = f };
				CHECK(!timeline_extend(whole, id + 299, 1, 1, keep, &k, &err));
				CHECK_MSG(test_nmse(a, f, N_VOCAB) < 2, "%s is far off: %g", choosing[i],
				          test_nmse(a, f, N_VOCAB));
			} else {
				CHECK_MSG(!memcmp(a, b, sizeof a), "%s: not the same twice", choosing[i]);
			}
			timeline_close(tl);
			timeline_close(whole);
		}
	engine_close(e);
}

/* A sequence without a prefill, decoded from the first token on, so that no attention was observed. */
TEST(a_sequence_may_begin_with_generated_tokens)
{
	struct engine *e = open_tiny(2);
	int32_t id[PROMPT];
	static float logits[PROMPT * N_VOCAB];

	random_ids(id, PROMPT);
	for (size_t i = 0; i < N_CHOOSING; i++) {
		struct timeline *tl = open_policy(e, choosing[i], 0);
		struct kept_logits k = { .row = logits };
		struct err err = { 0 };

		CHECK_MSG(!timeline_extend(tl, id, PROMPT, 1, keep, &k, &err), "%s: %s", choosing[i], err.msg);
		CHECK_INT(k.n, PROMPT);
		for (size_t j = 0; j < PROMPT * N_VOCAB; j++)
			if (!isfinite(logits[j])) {
				CHECK_MSG(0, "%s: not a number at token %zu", choosing[i], j / N_VOCAB);
				break;
			}
		timeline_close(tl);
	}
	engine_close(e);
}

TEST(no_selection_recovers_more_than_the_oracle)
{
	struct engine *e = open_tiny(2);
	struct timeline *tl = NULL;
	struct recovered r;
	struct err err = { 0 };
	int32_t id[PROMPT + STEPS];
	const char *all[N_CHOOSING + 2];

	random_ids(id, PROMPT + STEPS);
	run_policy(e, "full", id, &full);
	memcpy(all, choosing, sizeof choosing);
	all[N_CHOOSING] = "sift:k=300";
	all[N_CHOOSING + 1] = "sift:k=24,bits=16,split=even";
	tl = open_policy(e, "full", 0);
	CHECK_MSG(!timeline_watch(tl, all, N_CHOOSING + 2, &err), "%s", err.msg);
	run_on(tl, id, &got);
	CHECK_MSG(same(&got, &full), "watching changes the result");
	for (int i = 0; i < N_CHOOSING + 2; i++) {
		CHECK_INT(timeline_recovery(tl, i, &r), 0);
		CHECK_INT(r.steps, STEPS);
		test_note("%-60s %.1f entries of %.1f: %.4f, oracle %.4f, sinks and newest %.4f", all[i],
		          r.selected / STEPS, r.all / STEPS, r.mass / STEPS, r.oracle / STEPS, r.recent / STEPS);
		CHECK_MSG(r.mass <= r.oracle * (1 + 1e-6) && r.mass > 0 && r.recent <= r.oracle * (1 + 1e-6), "%s",
		          all[i]);
		CHECK(r.oracle <= STEPS * 1.0001 && r.selected <= r.all);
	}
	CHECK_INT(timeline_recovery(tl, N_CHOOSING, &r), 0);
	CHECK_MSG(fabs(r.mass / STEPS - 1) < 1e-4 && r.selected == r.all, "everything holds %g", r.mass / STEPS);
	CHECK_INT(timeline_recovery(tl, N_CHOOSING + 2, &r), -1);
	CHECK_INT(timeline_recovery(tl, -1, &r), -1);
	timeline_close(tl);
	tl = open_policy(e, "sift", 0);
	CHECK(timeline_watch(tl, all, 1, &err) < 0 && err.code == ERR_USAGE);
	timeline_close(tl);
	tl = open_policy(e, "full", 0);
	CHECK(timeline_watch(tl, all, WATCH_MAX + 1, &err) < 0 && err.code == ERR_USAGE);
	all[0] = "full";
	CHECK(timeline_watch(tl, all, 1, &err) < 0 && err.code == ERR_USAGE);
	CHECK_INT(timeline_recovery(tl, 0, &r), -1);
	/* After the first token, policies can no longer be watched. */
	CHECK(timeline_sync(tl, id, PROMPT, NULL, NULL, &err) == 0);
	CHECK(timeline_watch(tl, choosing, 1, &err) < 0 && err.code == ERR_USAGE);
	timeline_close(tl);
	engine_close(e);
}

TEST(settings_are_checked_and_named)
{
	static const char *const wrong[] = { "sift:bits=3",         "sift:bits=",      "sift:k=0",
		                             "sift:k=9/8",          "snapkv:window=2", "refresh:pool=4",
		                             "snapkv:pool=65",      "auto:pool=2",     "refresh:s=3",
		                             "recycled:qc=5",       "quest:page=4",    "quest:page=24",
		                             "quest:page=128",      "sink:dense=1",    "streaming++:size=0",
		                             "streaming++:sinks=-1" };
	struct policy par;
	struct err err = { 0 };
	char text[160];

	for (size_t i = 0; i < LEN(wrong); i++)
		CHECK_MSG(kv_policy_check(wrong[i], &err) < 0 && err.code == ERR_USAGE, "%s was taken", wrong[i]);
	for (size_t i = 0; i < N_CHOOSING; i++) {
		char again[160];

		CHECK_MSG(!policy_parse(&par, choosing[i], &err), "%s", err.msg);
		policy_text(&par, text, sizeof text);
		CHECK(!policy_parse(&par, text, &err));
		policy_text(&par, again, sizeof again);
		CHECK_STR(again, text);
	}
	CHECK(!policy_parse(&par, "sift:bits=2,split=need,k=512", &err));
	policy_text(&par, text, sizeof text);
	CHECK_STR(text, "sift");
}

/* ---- the default model ---- */

struct losses {
	const int32_t *id;
	double sum;
	int32_t n_vocab;
	size_t n, at;
};
static void lose(int32_t pos, const float *logits, void *ud)
{
	struct losses *l = ud;

	/* The logits after a token predict the next one. */
	if (++l->at < l->n)
		l->sum -= engine_logprob(logits, l->n_vocab, l->id[l->at]);
}

TEST(sift_keeps_what_the_default_model_knows)
{
	enum { LONG = 1500, SCORED = 64 };
	static const char *const as[] = { "full", "sift:k=512", "sift:k=192" };
	const char *path = test_model();
	size_t n;
	char *book = test_read(test_file("tests/vectors/books/kim.txt"), &n);
	struct engine *e = NULL;
	struct tokens ids = { 0 };
	struct err err = { 0 };
	double loss[3];

	if (!book || engine_open(&e, &(struct engine_options){ .model_path = path, .threads = 2 }, &err))
		test_skip("%s", book ? err.msg : "no book");
	CHECK(!engine_tokenize(e, book, n, 0, &ids, &err));
	CHECK(ids.n >= LONG + SCORED);
	for (size_t i = 0; i < 3 && ids.n >= LONG + SCORED; i++) {
		struct losses l = { .id = ids.id + LONG, .n_vocab = engine_info(e)->n_vocab, .n = SCORED };
		struct timeline *tl = NULL;

		if (timeline_open(&tl, e, &(struct timeline_options){ .ctx = 2048, .kv = as[i] }, &err))
			test_skip("%s", err.msg);
		CHECK(timeline_sync(tl, ids.id, LONG, NULL, NULL, &err) == 0);
		CHECK_MSG(!timeline_extend(tl, ids.id + LONG, SCORED, 1, lose, &l, &err), "%s", err.msg);
		loss[i] = l.sum / (SCORED - 1);
		timeline_close(tl);
		test_note("%-28s nll %.4f, perplexity %+.2f %%", as[i], loss[i], 100 * (exp(loss[i] - loss[0]) - 1));
	}
	/* 63 tokens are too few to compare methods, but enough to detect a broken selection. */
	CHECK(fabs(loss[1] - loss[0]) < 0.05);
	CHECK(fabs(loss[2] - loss[0]) < 0.15);
	tokens_free(&ids);
	free(book);
	engine_close(e);
}

/* With watched policies, each drafted token is measured as if it were decoded alone. */
TEST(drafted_tokens_are_recovered_one_by_one)
{
	struct engine *e = open_tiny(2);
	struct timeline *a = NULL, *b = NULL;
	struct recovered r, s;
	struct err err = { 0 };
	int32_t id[PROMPT + STEPS], at = PROMPT;

	random_ids(id, PROMPT + STEPS);
	a = open_policy(e, "full", 0);
	b = open_policy(e, "full", 0);
	CHECK(!timeline_watch(a, choosing, N_CHOOSING, &err) && !timeline_watch(b, choosing, N_CHOOSING, &err));
	CHECK(timeline_sync(a, id, PROMPT, NULL, NULL, &err) == 0 &&
	      timeline_sync(b, id, PROMPT, NULL, NULL, &err) == 0);
	while (at < PROMPT + STEPS) {
		const float *logits;
		int32_t n =
			timeline_verify(a, id + at, PROMPT + STEPS - at < 3 ? PROMPT + STEPS - at : 3, &logits, &err);

		CHECK_MSG(n > 0 && !timeline_accept(a, n, &err), "%d: %s", n, err.msg);
		CHECK(!timeline_extend(b, id + at, (size_t)n, 1, NULL, NULL, &err));
		at += n;
	}
	for (int i = 0; i < N_CHOOSING; i++) {
		CHECK(!timeline_recovery(a, i, &r) && !timeline_recovery(b, i, &s));
		CHECK_MSG(r.steps == s.steps && r.mass == s.mass && r.oracle == s.oracle && r.recent == s.recent &&
		                  r.selected == s.selected && r.mean_row == s.mean_row && r.last_row == s.last_row &&
		                  r.guesses == s.guesses,
		          "%s: %lld steps and %g, not %lld and %g", choosing[i], (long long)r.steps, r.mass,
		          (long long)s.steps, s.mass);
	}
	timeline_close(a);
	timeline_close(b);
	engine_close(e);
}
