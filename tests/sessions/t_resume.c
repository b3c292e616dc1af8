/* tests/sessions/t_resume.c - a real engine with a real kv.db: a timeline that was saved, closed and loaded again
 * continues bit for bit.
 *
 * t_snapshot.c checks the bytes of a timeline, t_snaps.c checks files with fake timelines; here both work together,
 * under policies that keep all rows, move them, or select some. */
#include "kernels/cpu/fns.h"
#include "sessions/snap/snap_private.h"
#include "tests/lib/resume_help.h"
#include "tests/lib/storedir.h"
#include "tests/lib/test.h"
#include "tests/lib/tiny.h"
#include "engine/engine_snapshot.h"

#include <fcntl.h>

/* The model's file is deleted after it was opened. The file made here takes its place, so that there is something to
 * hash. */
static void stand_in(const struct engine *e, const char *text)
{
	int fd = open(engine_info(e)->path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text) || close(fd))
		abort();
}

static struct timeline *open_timeline(struct engine *e, const char *kv)
{
	struct timeline_options o = { .ctx = 1500, .kv = kv, .batch = 128 };
	struct timeline *tl = NULL;
	struct err err = { 0 };

	if (timeline_open(&tl, e, &o, &err)) {
		test_fail(__FILE__, __LINE__, "%s: %s", kv, err.msg);
		SKIP("no timeline");
	}
	return tl;
}

static void text_of(int32_t *id, int32_t n, uint64_t what)
{
	for (int32_t i = 0; i < n; i++)
		id[i] = (int32_t)((what * 31 + (uint64_t)i * 7 + (uint64_t)i * (uint64_t)i / 3) % 250) + 3;
}

static int logits_same(struct timeline *a, struct timeline *b)
{
	const float *x = timeline_logits(a), *y = timeline_logits(b);

	return x && y && !memcmp(x, y, N_VOCAB * sizeof *x);
}

static void keep_logits(int32_t pos, const float *logits, void *ud)
{
	(void)pos;
	memcpy(ud, logits, N_VOCAB * sizeof *logits);
}

static void open_again(struct place *p, struct snaps **s)
{
	struct str notice = { 0 };
	struct err e = { 0 };

	snaps_close(*s);
	if (snaps_open(s, p->store, &(struct snaps_options){ .budget = 1u << 30 }, &notice, &e) || notice.n)
		test_fail(__FILE__, __LINE__, "%s%s", e.msg, notice.n ? notice.p : "");
	str_free(&notice);
}

static void resume(struct place *p, struct engine *e, const char *kv, int32_t n, int sampled)
{
	struct timeline *tl = open_timeline(e, kv), *back = open_timeline(e, kv);
	struct sampling s = sampling_default, again;
	struct snaps *snaps = NULL;
	struct fingerprint f, g;
	struct snap_loaded got;
	struct str extra = { 0 };
	struct err err = { 0 };
	float one[N_VOCAB], other[N_VOCAB];
	int32_t id[1400];
	int same = 0;

	text_of(id, n, (uint64_t)n);
	open_again(p, &snaps);
	sampling_seed(&s, (uint64_t)n);
	s.temperature = sampled ? 0.9f : 0;
	CHECK_MSG(timeline_sync(tl, id, (size_t)n, NULL, NULL, &err) >= 0, "%s: %s", kv, err.msg);
	for (int i = 0; i < 40; i++)
		CHECK(timeline_step(tl, &s, &(struct step_out){ 0 }, &err) >= 0);
	CHECK_MSG(!snaps_fingerprint(snaps, e, tl, &f, &err) &&
	                  !snap_save(snaps, tl, &f, 1, n, &s, sizeof s, NULL, &err),
	          "%s: %s", kv, err.msg);
	open_again(p, &snaps);
	CHECK(!snaps_fingerprint(snaps, e, back, &g, &err) && !memcmp(&f, &g, sizeof f));
	CHECK_MSG(snap_load(snaps, back, &g, n, &extra, &got, &err) == 1, "%s: %s%s", kv, got.why, err.msg);
	CHECK_INT(extra.n, sizeof s);
	if (extra.n == sizeof s)
		memcpy(&again, extra.p, sizeof again);
	else
		again = s;
	for (int i = 0; i < 64; i++) {
		struct step_out a = { -1 }, b = { -2 };

		CHECK(timeline_step(tl, &s, &a, &err) >= 0 && timeline_step(back, &again, &b, &err) >= 0);
		same += a.id == b.id;
	}
	CHECK_MSG(same == 64, "%s after %d tokens: %d of 64 steps are the same", kv, n, same);
	CHECK(timeline_extend(tl, id, 1, 1, keep_logits, one, &err) == 0 &&
	      timeline_extend(back, id, 1, 1, keep_logits, other, &err) == 0);
	CHECK_MSG(!memcmp(one, other, sizeof one), "%s after %d tokens: other logits", kv, n);
	snaps_close(snaps);
	str_free(&extra);
	timeline_close(tl);
	timeline_close(back);
}

TEST(goes_on_bit_for_bit)
{
	static const char *const kv[] = { "full",          "auto",      "auto:size=200",
		                          "sink:size=120", "sift:k=40", "cascade:size=160",
		                          "h2o:k=100" };
	struct engine *e = tiny_open(&tiny_families[2], 2, TRAINED, 10000);
	struct place p;

	place_make(&p);
	stand_in(e, "weights");
	for (size_t i = 0; i < LEN(kv); i++) {
		struct err err = { 0 };

		if (kv_policy_check(kv[i], &err)) {
			test_fail(__FILE__, __LINE__, "%s", err.msg);
			continue;
		}
		resume(&p, e, kv[i], 90, 0);
		resume(&p, e, kv[i], 700, 1);
	}
	unlink(engine_info(e)->path);
	engine_close(e);
	place_remove(&p);
}

static void keep_logits_of(struct timeline *tl, int32_t id, float *out)
{
	struct err err = { 0 };

	CHECK_MSG(timeline_extend(tl, &id, 1, 0, keep_logits, out, &err) == 0, "%s", err.msg);
}

/* A session whose snapshot was packed goes on nearly as before. What follows is stored apart from exact entries. */
static void resume_near(struct place *p, struct engine *e, const char *kv)
{
	struct timeline *tl = open_timeline(e, kv), *back = open_timeline(e, kv);
	struct snaps *snaps = NULL;
	struct fingerprint f, g;
	struct snap_loaded got;
	struct err err = { 0 };
	uint64_t freed, used, empty;
	float one[N_VOCAB], other[N_VOCAB];
	double error = 0, size = 0;
	int32_t id[700], more[300];

	text_of(id, 700, 1);
	text_of(more, 300, 2);
	open_again(p, &snaps);
	CHECK(timeline_sync(tl, id, 700, NULL, NULL, &err) >= 0);
	save_on(snaps, e, tl, 1);
	CHECK(timeline_sync(back, more, 300, NULL, NULL, &err) >= 0);
	CHECK(!snaps_fingerprint(snaps, e, back, &f, &err) && !snap_save(snaps, back, &f, 2, 2, NULL, 0, NULL, &err));
	/* Packing the two chunks of session 1 gives room enough, so that nothing is deleted. */
	CHECK_INT(snaps_space(snaps, &used, &empty, NULL), 0);
	snaps->budget = used - 200000;
	CHECK_INT(snaps_gc(snaps, &freed, &err), 0);
	CHECK(timeline_sync(back, NULL, 0, NULL, NULL, &err) >= 0);
	CHECK(!snaps_fingerprint(snaps, e, back, &g, &err));
	CHECK_MSG(snap_load(snaps, back, &g, 1, NULL, &got, &err) == 1, "%s: %s%s", kv, got.why, err.msg);
	CHECK_INT(got.packed, 512);
	CHECK_INT(got.tokens, 700);
	keep_logits_of(tl, 9, one);
	keep_logits_of(back, 9, other);
	for (int i = 0; i < N_VOCAB; i++) {
		error += (one[i] - other[i]) * (double)(one[i] - other[i]);
		size += one[i] * (double)one[i];
	}
	CHECK_MSG(error > 0 && error < 0.03 * size, "%s: error %g of %g", kv, error, size);
	CHECK(!snaps_fingerprint(snaps, e, tl, &f, &err) && !snaps_fingerprint(snaps, e, back, &g, &err));
	CHECK(memcmp(f.all, g.all, 32) && memcmp(f.entries, g.entries, 32));
	CHECK_MSG(!snap_save(snaps, back, &g, 1, 3, NULL, 0, NULL, &err), "%s", err.msg);
	CHECK(timeline_sync(back, NULL, 0, NULL, NULL, &err) >= 0);
	CHECK(!snaps_fingerprint(snaps, e, back, &g, &err) && !memcmp(f.all, g.all, 32));
	CHECK_INT(snap_load_prefix(snaps, back, &g, id, 700, &got, &err), 0);
	CHECK_INT(snap_load(snaps, back, &g, 3, NULL, &got, &err), 1);
	CHECK_INT(got.packed, 512);
	CHECK_INT(got.tokens, 701);
	CHECK_INT(snap_drop(snaps, 1, NULL), 0);
	CHECK_INT(snap_drop(snaps, 2, NULL), 0);
	snaps_close(snaps);
	timeline_close(tl);
	timeline_close(back);
}

TEST(packed_snapshots_go_on_nearly)
{
	struct engine *e = tiny_open(&tiny_families[2], 2, TRAINED, 10000);
	struct place p;

	place_make(&p);
	stand_in(e, "weights");
	resume_near(&p, e, "full");
	resume_near(&p, e, "auto");
	unlink(engine_info(e)->path);
	engine_close(e);
	place_remove(&p);
}

/* If only the end of a text is new, only the end is computed, and the result is that of a fresh start. */
TEST(a_known_beginning_is_not_read_again)
{
	struct engine *e = tiny_open(&tiny_families[0], 2, TRAINED, 10000);
	struct timeline *tl = open_timeline(e, "full"), *fresh = open_timeline(e, "full"),
			*back = open_timeline(e, "full");
	struct place p;
	struct snaps *snaps = NULL;
	struct fingerprint f;
	struct snap_loaded got;
	struct err err = { 0 };
	int32_t id[1000];

	place_make(&p);
	stand_in(e, "weights");
	open_again(&p, &snaps);
	text_of(id, 1000, 5);
	CHECK(timeline_sync(tl, id, 1000, NULL, NULL, &err) == 0);
	CHECK(!snaps_fingerprint(snaps, e, tl, &f, &err) && !snap_save_entries(snaps, tl, &f, NULL, &err));
	text_of(id + 900, 100, 6);
	CHECK_INT(snap_load_prefix(snaps, back, &f, id, 1000, &got, &err), 768);
	CHECK_INT(timeline_sync(back, id, 1000, NULL, NULL, &err), 768);
	CHECK_INT(timeline_sync(fresh, id, 1000, NULL, NULL, &err), 0);
	CHECK(logits_same(back, fresh));
	/* One changed byte of the weights makes another model. */
	stand_in(e, "Weights");
	timeline_close(back);
	back = open_timeline(e, "full");
	CHECK(!snap_save(snaps, tl, &f, 1, 10, NULL, 0, NULL, &err) && !snaps_fingerprint(snaps, e, back, &f, &err));
	CHECK_INT(snap_load_prefix(snaps, back, &f, id, 1000, &got, &err), 0);
	CHECK_INT(snap_load(snaps, back, &f, 10, NULL, &got, &err), 0);
	CHECK_STR(got.why, "the model file changed: 1,000 tokens will be read again");
	unlink(engine_info(e)->path);
	snaps_close(snaps);
	timeline_close(tl);
	timeline_close(fresh);
	timeline_close(back);
	engine_close(e);
	place_remove(&p);
}

/* Another policy has another fingerprint, and the reason says so. */
TEST(another_policy_misses)
{
	static const struct {
		const char *kv, *type, *why;
	} other[] = {
		{ "sift:k=40", NULL, "cache policy was 'full" },
		{ "auto", NULL, "cache policy was 'full" },
		{ "full", "q8_0", "cache type was 'F16', is 'Q8_0'" },
		{ "full", "f32", "cache type was 'F16', is 'F32'" },
		{ "full", "k=q8_0,v=q4_0", "cache type was 'F16', is 'k=Q8_0,v=Q4_0'" },
	};
	struct engine *e = tiny_open(&tiny_families[1], 1, TRAINED, 10000);
	struct timeline *tl = open_timeline(e, "full");
	struct place p;
	struct snaps *snaps = NULL;
	struct fingerprint f, g;
	struct snap_loaded got;
	struct err err = { 0 };
	int32_t id[300];

	place_make(&p);
	stand_in(e, "weights");
	open_again(&p, &snaps);
	text_of(id, 300, 5);
	CHECK(timeline_sync(tl, id, 300, NULL, NULL, &err) == 0);
	CHECK(!snaps_fingerprint(snaps, e, tl, &f, &err) && !snap_save(snaps, tl, &f, 1, 10, NULL, 0, NULL, &err));
	for (size_t i = 0; i < LEN(other); i++) {
		struct timeline_options o = { .ctx = 1500, .kv = other[i].kv, .kv_type = other[i].type, .batch = 128 };
		struct timeline *u = NULL;

		CHECK_MSG(!timeline_open(&u, e, &o, &err), "%s", err.msg);
		CHECK(!snaps_fingerprint(snaps, e, u, &g, &err) && memcmp(&f, &g, sizeof f));
		CHECK_INT(snap_load(snaps, u, &g, 10, NULL, &got, &err), 0);
		CHECK_MSG(!strncmp(got.why, other[i].why, strlen(other[i].why)) &&
		                  strstr(got.why, ": 300 tokens will be"),
		          "%s", got.why);
		timeline_close(u);
	}
	/* Under `full` a snapshot fits timelines with another chunk size or a larger context. */
	{
		struct timeline_options o = { .ctx = 400, .kv = "full", .batch = 32 };
		struct timeline *u = NULL;

		CHECK(!timeline_open(&u, e, &o, &err) && !snaps_fingerprint(snaps, e, u, &g, &err));
		CHECK_MSG(snap_load(snaps, u, &g, 10, NULL, &got, &err) == 1, "%s", got.why);
		CHECK(logits_same(tl, u));
		timeline_close(u);
	}
	unlink(engine_info(e)->path);
	snaps_close(snaps);
	timeline_close(tl);
	engine_close(e);
	place_remove(&p);
}

/* ---- other kernels ---- */

/* Open the same model on one CPU level; NULL if this machine lacks it. */
static struct engine *open_level(const char *level)
{
	struct engine *e;
	struct str text = { 0 };
	char want[40];

	setenv("WEIR_CPU", level, 1);
	e = tiny_open(&tiny_families[2], 2, TRAINED, 10000);
	unsetenv("WEIR_CPU");
	stand_in(e, "weights");
	engine_identity(e, &text);
	snprintf(want, sizeof want, "\nkernels cpu %s\n", level);
	if (!strstr(text.p, want)) {
		unlink(engine_info(e)->path);
		engine_close(e);
		e = NULL;
	}
	str_free(&text);
	return e;
}

/* Start a new run from what was saved under a message, without reading any token again. */
static struct timeline *back_on(struct place *p, struct snaps **s, struct engine *e, const char *kv, int64_t message,
                                const char *by)
{
	struct timeline *tl = open_timeline(e, kv);
	struct fingerprint f;
	struct snap_loaded got = { 0 };
	struct timeline_stats st;
	struct err err = { 0 };

	open_again(p, s);
	CHECK(!snaps_fingerprint(*s, e, tl, &f, &err));
	CHECK_MSG(snap_load(*s, tl, &f, message, NULL, &got, &err) == 1, "%s: %s%s", kv, got.why, err.msg);
	CHECK_STR(got.by, by);
	timeline_stats(tl, &st);
	CHECK_INT(got.tokens, st.n_tokens);
	return tl;
}

enum { ANSWER = 40 };
static void across(struct place *p, struct engine *here, struct engine *there, const char *kv, const char *by,
                   const char *back_by)
{
	struct timeline *tl = open_timeline(here, kv), *u, *v;
	struct snaps *s = NULL;
	int32_t id[700], a[ANSWER], b[ANSWER];
	float one[N_VOCAB], other[N_VOCAB];
	struct err err = { 0 };

	open_again(p, &s);
	text_of(id, 700, 77);
	CHECK_MSG(timeline_sync(tl, id, 700, NULL, NULL, &err) == 0, "%s", err.msg);
	save_on(s, here, tl, 1);
	/* Continued by the kernels of `there`, the answer has the same tokens. */
	u = back_on(p, &s, there, kv, 1, by);
	answer(tl, a, ANSWER);
	answer(u, b, ANSWER);
	CHECK_MSG(!memcmp(a, b, sizeof a), "%s: another answer there", kv);
	save_on(s, there, u, 2);
	/* Loaded again by `there`: the result is bit for bit that without the break. */
	v = back_on(p, &s, there, kv, 2, "");
	asks(u, 9);
	asks(v, 9);
	answer(u, a, ANSWER);
	answer(v, b, ANSWER);
	CHECK_MSG(!memcmp(a, b, sizeof a), "%s: another answer after a break", kv);
	CHECK(!timeline_extend(u, id, 1, 1, keep_logits, one, &err) &&
	      !timeline_extend(v, id, 1, 1, keep_logits, other, &err));
	CHECK_MSG(!memcmp(one, other, sizeof one), "%s: other bits after a break", kv);
	timeline_close(v);
	/* Loaded again by `here`: the answer is the one that `there` gives. */
	timeline_close(tl);
	tl = back_on(p, &s, here, kv, 2, back_by);
	v = back_on(p, &s, there, kv, 2, "");
	answer(tl, a, ANSWER);
	answer(v, b, ANSWER);
	CHECK_MSG(!memcmp(a, b, sizeof a), "%s: another answer back here", kv);
	timeline_close(tl);
	/* The snapshot by `here` still exists and is preferred. */
	tl = back_on(p, &s, here, kv, 1, "");
	timeline_close(tl);
	timeline_close(u);
	timeline_close(v);
	snaps_close(s);
}

TEST(goes_on_with_other_kernels_without_reading)
{
	static const char *const kv[] = { "full", "auto", "sift:k=40", "cascade:size=160", "refresh:k=40,qc=3" };
	struct engine *plain = open_level(cpu_level_name[0]), *fast = open_level(cpu_level_name[1]);
	char name[32];

	if (!plain || !fast)
		SKIP("one level only");
	snprintf(name, sizeof name, "cpu %s", cpu_level_name[1]);
	for (size_t i = 0; i < LEN(kv); i++) {
		struct place p;

		place_make(&p);
		across(&p, plain, fast, kv[i], "cpu c", name);
		place_remove(&p);
	}
	unlink(engine_info(plain)->path);
	unlink(engine_info(fast)->path);
	engine_close(plain);
	engine_close(fast);
}
