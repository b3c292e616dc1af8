/* tests/sessions/t_killed_step.c - kill -9 in the middle of a VERIFY step: the last snapshot survives. From it the
 * answer continues bit for bit as if every token had been generated alone and without a break.
 *
 * A child generates with drafts, saves every few tokens, mostly while such a step is open, and is killed during the
 * attention of one of its layers. The next child continues from the last snapshot with another number of threads. */
#include "engine/observe/observe.h"
#include "engine/timeline/timeline.h"
#include "sessions/snap/snap_private.h"
#include "tests/lib/storedir.h"
#include "tests/lib/test.h"
#include "tests/lib/tiny.h"
#include "engine/engine_snapshot.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

enum { PROMPT = 200, SAVE_EVERY = 5, ANSWER_MOST = 900, BEHIND = 64, LIVES = 3 };

/* A penalty below zero makes even a random model repeat itself, so that drafts are right. */
static const struct {
	float temperature, frequency;
} how[] = { { 0, -2 }, { 0.5f, -1 }, { 0.8f, -1 } };

struct talk {
	const char *kv;
	int sampler; /* index in how[] */
	int32_t prompt[PROMPT];
};
struct run {
	struct engine *e;
	struct timeline *tl;
	struct sampling s;
	struct store *store;
	struct snaps *snaps;
	struct fingerprint f;
};

static void run_open(struct run *r, const struct talk *k, int threads)
{
	struct err err = { 0 };
	int fd;

	memset(r, 0, sizeof *r);
	r->e = tiny_open(&tiny_families[2], threads, TRAINED, 10000);
	/* The model's file is deleted after it was opened. The file made here takes its place, so that there is
	 * something to hash. */
	fd = open(engine_info(r->e)->path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (fd < 0 || write(fd, "weights", 7) != 7 || close(fd) ||
	    timeline_open(&r->tl, r->e, &(struct timeline_options){ .ctx = 1500, .kv = k->kv, .batch = 128 }, &err)) {
		fprintf(stderr, "%s: %s\n", k->kv, err.msg);
		abort();
	}
	r->s = sampling_default;
	r->s.temperature = how[k->sampler].temperature;
	r->s.frequency_penalty = how[k->sampler].frequency;
	sampling_seed(&r->s, 7);
}

static void run_close(struct run *r)
{
	snaps_close(r->snaps);
	store_close(r->store);
	timeline_close(r->tl);
	unlink(engine_info(r->e)->path);
	engine_close(r->e);
}

/* Start from the prompt or, if message > 0, from the snapshot of that message. The number of a message is the number of
 * tokens that the answer had when it was saved. Returns NULL, or what is wrong. */
static const char *run_start(struct run *r, const struct place *p, const struct talk *k, int64_t message)
{
	static char why[600];
	struct str extra = { 0 }, notice = { 0 };
	struct snap_loaded got = { 0 };
	struct err err = { 0 };
	int rc;

	if (p && (store_open(&r->store, &(struct store_options){ .dir = p->dir }, &err) ||
	          snaps_open(&r->snaps, r->store, &(struct snaps_options){ .budget = 1u << 30 }, &notice, &err) ||
	          notice.n || snaps_fingerprint(r->snaps, r->e, r->tl, &r->f, &err))) {
		snprintf(why, sizeof why, "%.200s%.200s", notice.n ? notice.p : "", err.msg);
		return why;
	}
	if (!message)
		return timeline_sync(r->tl, k->prompt, PROMPT, NULL, NULL, &err) < 0 ? "the prompt was not read" : NULL;
	rc = snap_load(r->snaps, r->tl, &r->f, message, &extra, &got, &err);
	if (rc != 1 || got.tokens != PROMPT + message || extra.n != sizeof r->s) {
		snprintf(why, sizeof why, "message %d: %d, %d tokens, %.200s%.200s", (int)message, rc, got.tokens,
		         got.why, err.msg);
		return why;
	}
	memcpy(&r->s, extra.p, sizeof r->s);
	str_free(&extra);
	return NULL;
}

/* Generate one token, with drafts as long as possible, right or wrong. If the model ends the answer, append token 9
 * instead. Returns < 0 on error. */
static int32_t run_step(struct run *r)
{
	struct step_out out = { .id = 9 };
	struct err err = { 0 };
	int got;

	draft_pace_reset(&r->tl->pace);
	for (int i = 0; i < DRAFT_CLASSES; i++)
		r->tl->pace.right[i] = 0.999;
	got = timeline_step(r->tl, &r->s, &out, &err);
	if (!got) {
		out.id = 9;
		got = timeline_extend(r->tl, &out.id, 1, 1, NULL, NULL, &err) ? -1 : 1;
	}
	return got > 0 ? out.id : -1;
}

/* ---- the child ---- */

struct killer {
	struct observer base;
	int left;
}; /* left: calls for drafted tokens until the process kills itself */

static void killer_attended(struct observer *o, const struct attention *a)
{
	struct killer *k = (struct killer *)o;

	if (a->st->kind == STEP_VERIFY && a->st->tried > 1 && --k->left == 0)
		kill(getpid(), SIGKILL);
}

static void killer_commit(struct observer *o, const struct step *st)
{
	(void)o;
	(void)st;
}

static int32_t killer_rewind(struct observer *o, int32_t n)
{
	(void)o;
	return n;
}

/* Run as the child. Write to the pipe how many tokens of the answer each save has. */
static void child(const struct place *p, const struct talk *k, int64_t message, int threads, int left, int to)
{
	static const struct observer_ops ops = { .attended = killer_attended,
		                                 .commit = killer_commit,
		                                 .rewind = killer_rewind };
	struct killer killer = { { &ops, NULL }, left };
	struct run r;
	const char *wrong;

	run_open(&r, k, threads);
	wrong = run_start(&r, p, k, message);
	unlink(engine_info(r.e)->path);
	if (wrong) {
		fprintf(stderr, "%s, %d threads: %s\n", k->kv, threads, wrong);
		_exit(2);
	}
	timeline_speculate(r.tl, 1);
	observer_add(&r.tl->cache.observers, &killer.base);
	for (int64_t n = message + 1; n <= ANSWER_MOST; n++) {
		if (run_step(&r) < 0)
			_exit(3);
		if (n % SAVE_EVERY == 0 && (snap_save(r.snaps, r.tl, &r.f, 1, n, &r.s, sizeof r.s, NULL, NULL) ||
		                            write(to, &n, sizeof n) != sizeof n))
			_exit(4);
	}
	_exit(0);
}

/* ---- the parent ---- */

static int same_text(const struct timeline *a, const struct timeline *b)
{
	size_t n, m;
	const int32_t *x = timeline_tokens(a, &n), *y = timeline_tokens(b, &m);

	return n == m && !memcmp(x, y, n * sizeof *x);
}

/* Check that run a continues exactly like run b, which generated each token alone. */
static void check_end(struct run *a, struct run *b, const struct talk *k)
{
	struct str x = { 0 }, y = { 0 };
	struct err err = { 0 };
	const float *one, *other;

	timeline_speculate(a->tl, 1);
	for (int i = 0; i < BEHIND; i++) {
		int32_t id = run_step(a), want = run_step(b);

		CHECK_MSG(id == want && !memcmp(a->s.rng, b->s.rng, sizeof a->s.rng), "%s, %d tokens on: %d, not %d",
		          k->kv, i, id, want);
	}
	CHECK_MSG(!timeline_head_save(a->tl, &x, &err) && !timeline_head_save(b->tl, &y, &err), "%s: %s", k->kv,
	          err.msg);
	CHECK_MSG(x.n == y.n && !memcmp(x.p, y.p, x.n), "%s: other snapshots", k->kv);
	CHECK(!timeline_extend(a->tl, k->prompt, 1, 1, NULL, NULL, &err) &&
	      !timeline_extend(b->tl, k->prompt, 1, 1, NULL, NULL, &err));
	one = timeline_logits(a->tl);
	other = timeline_logits(b->tl);
	CHECK_MSG(one && other && !memcmp(one, other, N_VOCAB * sizeof *one), "%s: other logits", k->kv);
	str_free(&x);
	str_free(&y);
}

static int times(void)
{
	const char *s = getenv("WEIR_SOAK");
	long n = s ? strtol(s, NULL, 10) : 1;

	return n > 1 && n < 100000 ? (int)n : 1;
}

/* Let several children generate, each from the last snapshot of the child before, until each is killed. Returns the
 * number of tokens in the last snapshot. */
static int64_t live(const struct talk *k, int first)
{
	struct place p;
	struct run plain, back;
	int64_t message = 0, there = 0;
	const char *wrong;

	place_make(&p);
	store_close(p.store);
	p.store = NULL;
	for (int life = 0; life < LIVES; life++) {
		int fd[2], status, left = 1 + (int)(test_rand() % 300), threads = 1 + (first + life) % 3;
		int64_t saved;
		pid_t pid;

		if (pipe(fd) || (pid = fork()) < 0)
			abort();
		if (!pid) {
			close(fd[0]);
			child(&p, k, message, threads, left, fd[1]);
		}
		close(fd[1]);
		while (read(fd[0], &saved, sizeof saved) == sizeof saved)
			message = saved;
		close(fd[0]);
		waitpid(pid, &status, 0);
		CHECK_MSG(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL,
		          "%s, life %d: the child ended with %d after %d tokens", k->kv, life, WEXITSTATUS(status),
		          (int)message);
	}
	run_open(&plain, k, 2);
	wrong = run_start(&plain, NULL, k, 0);
	CHECK_MSG(!wrong, "%s: %s", k->kv, wrong);
	run_open(&back, k, 1 + first % 3);
	wrong = run_start(&back, &p, k, message);
	CHECK_MSG(!wrong, "%s: %s", k->kv, wrong);
	while (there < message && run_step(&plain) >= 0)
		there++;
	CHECK_MSG(!wrong && same_text(plain.tl, back.tl), "%s: another text of %d tokens", k->kv, (int)message);
	if (!wrong)
		check_end(&back, &plain, k);
	run_close(&plain);
	run_close(&back);
	place_remove(&p);
	return message;
}

/* Kill under all policies except h2o, which generates each token alone. */
TEST(nothing_is_lost)
{
	static const char *const kv[] = {
		"full",
		"sift:k=40",
		"sift:k=24,sample=16",
		"sift:k=1/8,bits=4",
		"refresh:k=40",
		"quest:k=64",
		"snapkv:k=50",
		"kvzip",
		"sink:size=100,stride=32",
		"cascade:size=96,stride=32",
		"auto",
	};
	enum { N = LEN(kv) };
	int64_t saved = 0;

	for (int i = 0; i < N * times(); i++) {
		struct talk k = { .kv = kv[i % N], .sampler = i / 2 % 3 };
		int32_t motif = 3 + (int32_t)(test_rand() % 12);

		for (int32_t j = 0; j < PROMPT; j++)
			k.prompt[j] = j < motif || test_rand() % 16 == 0 ? 3 + (int32_t)(test_rand() % (N_VOCAB - 3))
			                                                 : k.prompt[j - motif];
		saved += live(&k, i);
	}
	test_note("%d kills in VERIFY steps, %lld tokens saved before them", N * LIVES * times(), (long long)saved);
	CHECK(saved > 20 * N * times());
}
