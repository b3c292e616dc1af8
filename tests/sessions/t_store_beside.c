/* tests/sessions/t_store_beside.c - reading beside a writer of the same process: another thread has its own store, like
 * a screen that lists sessions while an answer is written.
 *
 * What was committed before the read began must be seen, and nothing incomplete. The thread sanitizer checks the
 * rest. */
#include "tests/lib/fake_timeline.h"
#include "tests/lib/storedir.h"

#include "sessions/snap/snap_private.h"

#include <pthread.h>
#include <stdatomic.h>

static const struct fingerprint fp = { { 7 }, { 8 } };

struct both {
	struct place p;
	struct store *store; /* the store of the writer */
	struct snaps *snaps;
	int64_t session;
	_Atomic int64_t message; /* the message committed last */
	_Atomic int64_t saved;   /* the message whose snapshot was saved last */
	_Atomic int n, saves, done;
	_Atomic int reads, answers;
};

static int look_at_row(const struct session *row, void *ud)
{
	struct session *out = ud;

	/* Copy the numbers of the row: its strings are not valid later. */
	if (row->id == 1)
		*out = (struct session){ .id = row->id, .head = row->head, .messages = row->messages };
	return 0;
}

static int count_message(const struct stored_message *m, void *ud)
{
	*(int *)ud += m->n_text > 0;
	return 0;
}

static int count_info(const struct snap_info *info, void *ud)
{
	*(int *)ud += info->head;
	return 0;
}

/* Read what a list of sessions shows. */
static void look(struct both *b, struct store *s, struct snaps *k)
{
	/* Read the count of saves before the number of the last saved message. Then every save that comes later is
	 * counted below. */
	int n = atomic_load(&b->n), saves = atomic_load(&b->saves), seen = 0, found = 0, good = 0;
	struct snap_state state = { .session = b->session, .message = atomic_load(&b->saved) };
	int64_t message = atomic_load(&b->message);
	struct session row = { .id = 0 };
	struct err e = { 0 };

	CHECK_MSG(!session_list(s, look_at_row, &row, &e), "%s", e.msg);
	CHECK(row.head >= message && row.messages >= n);
	CHECK_MSG(!message_path(s, row.head, count_message, &seen, &e), "%s", e.msg);
	CHECK_INT(seen, row.messages);
	CHECK_MSG(!store_search(s, "common", 5, count_found, &found, &e), "%s", e.msg);
	CHECK(found > 0 || !n);
	CHECK_MSG(!snap_states(k, &state, 1, &e), "%s", e.msg);
	/* A session keeps only its HEADS_KEPT newest snapshots, so this snapshot may be gone if as many came after it.
	 * One of them may be committed but not counted yet. */
	CHECK(state.ready || !state.message || atomic_load(&b->saves) + 1 - saves >= HEADS_KEPT);
	CHECK(state.bytes || !state.message);
	atomic_fetch_add(&b->answers, state.ready);
	CHECK_MSG(!snap_list(k, b->session, count_info, &good, &e), "%s", e.msg);
	CHECK(good || !state.message || atomic_load(&b->saves) + 1 - saves >= HEADS_KEPT);
	atomic_fetch_add(&b->reads, 1);
}

static void *reader(void *arg)
{
	struct both *b = arg;
	struct store_options o = { .dir = b->p.dir, .read_only = 1 };
	struct store *s;
	struct snaps *k, *again;
	struct err e = { 0 };

	if (store_open(&s, &o, &e) || snaps_open(&k, s, NULL, NULL, &e)) {
		test_fail(__FILE__, __LINE__, "%s", e.msg);
		return NULL;
	}
	while (!atomic_load(&b->done)) {
		look(b, s, k);
		if (atomic_load(&b->reads) % 8 == 0) {
			CHECK_MSG(!snaps_open(&again, s, NULL, NULL, &e), "%s", e.msg);
			snaps_close(again);
		}
		/* A screen pauses between two reads, too. */
		usleep(500);
	}
	look(b, s, k);
	CHECK_INT(session_new(s, "no", &(int64_t){ 0 }, &e), -1);
	snaps_close(k);
	store_close(s);
	return NULL;
}

TEST(a_thread_reads_what_another_has_committed)
{
	static struct both b;
	struct timeline *tl = fake_open(1, 40, 4000);
	struct err e = { 0 };
	pthread_t other;
	double start = now_seconds(), longest = 0;
	int64_t last = 0, extra;

	b.store = place_make(&b.p);
	b.session = begin(b.store, "read");
	CHECK_MSG(!snaps_open(&b.snaps, b.store, NULL, NULL, &e), "%s", e.msg);
	CHECK_INT(pthread_create(&other, NULL, reader, &b), 0);
	for (int i = 0; i < 120 || (atomic_load(&b.reads) < 20 && i < 1000); i++) {
		double at = now_seconds();

		last = say_message(b.store, b.session, last, 1 + i % 2, "a common word");
		atomic_store(&b.message, last);
		atomic_fetch_add(&b.n, 1);
		if (i % 4 == 3 && tl->tokens.n < 3900) {
			fake_grow(tl, 5, 30);
			CHECK_MSG(!snap_save(b.snaps, tl, &fp, b.session, last, NULL, 0, NULL, &e), "%s", e.msg);
			atomic_store(&b.saved, last);
			atomic_fetch_add(&b.saves, 1);
		}
		if (i % 16 == 0) {
			extra = begin(b.store, NULL);
			CHECK_MSG(!session_delete(b.store, extra, &e), "%s", e.msg);
		}
		if (now_seconds() - at > longest)
			longest = now_seconds() - at;
	}
	atomic_store(&b.done, 1);
	pthread_join(other, NULL);
	check_clean(b.store, __LINE__);
	test_note("%d messages and %d snapshots written in %.1f s, the slowest in %.0f ms; read %d times meanwhile",
	          atomic_load(&b.n), atomic_load(&b.saves), now_seconds() - start, longest * 1e3,
	          atomic_load(&b.reads));
	CHECK(atomic_load(&b.reads) > 5 && atomic_load(&b.answers) > 0);
	snaps_close(b.snaps);
	fake_close(tl);
	place_remove(&b.p);
}

/* The reader may open the store first, and close it after the writer. */
TEST(a_reader_outlives_the_writer)
{
	struct place p;
	struct store *s = place_make(&p), *r;
	struct store_options o = { .dir = p.dir, .read_only = 1 };
	struct snaps *k, *w;
	struct snap_state state = { .session = 1, .message = 1 };
	struct timeline *tl = fake_open(1, 40, 400);
	struct err no = { 0 };

	begin(s, "one");
	say_message(s, 1, 0, 1, "a question");
	OK(store_open(&r, &o, e));
	/* No kv.db yet: no snapshots are found. */
	OK(snaps_open(&k, r, NULL, NULL, e));
	OK(snap_states(k, &state, 1, e));
	CHECK_INT(state.ready, 0);
	CHECK_INT(snap_save(k, tl, &fp, 1, 1, NULL, 0, NULL, &no), -1);
	CHECK(strstr(no.msg, "can only be read"));
	snaps_close(k);
	OK(snaps_open(&w, s, NULL, NULL, e));
	OK(snaps_open(&k, r, NULL, NULL, e));
	fake_grow(tl, 3, 300);
	OK(snap_save(w, tl, &fp, 1, 1, NULL, 0, NULL, e));
	OK(snap_states(k, &state, 1, e));
	CHECK_INT(state.ready, 1);
	CHECK(state.bytes > 300 * fake_row(tl));
	snaps_close(w);
	store_close(s);
	p.store = NULL;
	CHECK_STR(shown(r, 1), "a question");
	OK(snap_states(k, &state, 1, e));
	CHECK_INT(state.ready, 1);
	/* Another writer opens the store. */
	place_reopen(&p, &s);
	say_message(s, 1, 1, 2, "an answer");
	CHECK_STR(shown(r, 1), "a question an answer");
	snaps_close(k);
	store_close(r);
	fake_close(tl);
	place_remove(&p);
}
