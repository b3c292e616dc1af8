/* tests/sessions/t_store_writers.c - several processes write at once: each session is held by one of them, and all
 * share chat.db and kv.db.
 *
 * Processes are killed at any moment. Afterwards everything acknowledged is there, both files are undamaged, and no
 * timeline has loaded a byte that it would not have computed. */
#include "tests/lib/fake_timeline.h"
#include "tests/lib/storedir.h"

#include "sessions/snap/snap_private.h"

#include <errno.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>

static const struct fingerprint fp = { { 7 }, { 8 } };

static int status_of(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

TEST(one_process_writes_a_session)
{
	struct place p;
	struct store *s = place_make(&p), *other;
	struct store_options o = { .dir = p.dir };
	char want[60];
	int64_t one, two, fork_of;
	long by = 7;

	OK(store_open(&other, &o, e));
	OK(session_new(s, "one", &one, e));
	OK(session_new(other, "two", &two, e));
	snprintf(want, sizeof want, "another weir (process %ld) has this session open", (long)getpid());
	/* A new session is held by its maker. */
	REFUSED(session_hold(other, one, &by, e), ERR_FAIL, want);
	CHECK_INT(by, getpid());
	REFUSED(session_hold(s, two, &by, e), ERR_FAIL, want);
	OK(session_hold(s, one, &by, e)); /* this store holds the session already */
	CHECK_INT(by, 0);
	REFUSED(session_delete(other, one, e), ERR_FAIL, want);
	OK(session_rename(other, one, "uno", e));
	say_message(s, one, 0, ROLE_USER, "mine");
	CHECK_STR(shown(other, one), "mine");
	/* A new fork is held by its maker, too, even if another process holds the original session. */
	OK(session_fork(other, one, 0, "copy", &fork_of, e));
	REFUSED(session_delete(s, fork_of, e), ERR_FAIL, want);
	session_leave(other, fork_of);
	OK(session_delete(s, fork_of, e));
	/* A session is free after session_leave(), or when the process that held it has closed its store. */
	session_leave(s, one);
	OK(session_hold(other, one, &by, e));
	OK(session_delete(other, one, e));
	store_close(other);
	OK(session_hold(s, two, &by, e));
	check_clean(s, __LINE__);
	place_remove(&p);
}

/* Start a process that holds a lock on the file `lock` until it is killed. */
static pid_t keep_lock(const char *dir, int how, const char *text)
{
	int ready[2];
	char path[500], c;
	pid_t pid;

	snprintf(path, sizeof path, "%s/lock", dir);
	CHECK(!pipe(ready));
	fflush(stdout);
	pid = fork();
	if (!pid) {
		int fd = open(path, O_RDWR);

		if (fd < 0 || flock(fd, how) || ftruncate(fd, 0) ||
		    write(fd, text, strlen(text)) != (ssize_t)strlen(text) || write(ready[1], "r", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	CHECK_INT(read(ready[0], &c, 1), 1);
	close(ready[0]), close(ready[1]);
	return pid;
}

/* An older weir uses the store alone; processes on two machines have no common memory and so must not share it. */
TEST(older_weirs_and_other_machines_are_alone)
{
	static const struct {
		int how;
		const char *text;
	} kept[] = {
		{ LOCK_EX, "4711\n" },
		{ LOCK_SH, "4711\n" },
		{ LOCK_SH, "4711\n00000000-0000-0000-0000-000000000000\n" },
	};
	struct place p;
	struct store *s = place_make(&p);

	for (size_t i = 0; i < LEN(kept); i++) {
		struct store_options o = { .dir = p.dir };
		struct err e = { 0 };
		pid_t pid;

		store_close(p.store);
		p.store = NULL;
		pid = keep_lock(p.dir, kept[i].how, kept[i].text);
		CHECK_INT(store_open(&s, &o, &e), -1);
		CHECK_MSG(strstr(e.msg, "in use by another weir (process 4711)"), "%s", e.msg);
		kill(pid, SIGKILL);
		status_of(pid);
		place_reopen(&p, &s);
		CHECK(s->alone);
	}
	place_remove(&p);
}

/* ---- many at once ---- */

enum { PROCESSES = 4, TURNS = 10, SHARED = 700 };
static const uint64_t BUDGET = 6 << 20;

static const char book[] =
	"The lamp of the lighthouse was lit in 1874. The keeper turned its lens for nine hours. Nobody has counted the moths.";

/* Called in a child: if `failed` is set, print why and exit. */
static void must(int failed, const struct err *e, int line)
{
	if (!failed)
		return;
	fprintf(stderr, "    line %d, process %ld: %s\n", line, (long)getpid(), e->msg);
	_exit(9);
}
#define MUST(call) must((call) != 0, &e, __LINE__)

static void search_book(struct store *s)
{
	struct indexed_text text = { book, sizeof book - 1 };
	struct found_passage hit[3];
	struct passage_index *index;
	struct err e = { 0 };
	int n;

	MUST(passage_index_open(&index, s, &e));
	n = passages_find(index, &text, 1, "when was the lamp lit?", 22, hit, 3, &e);
	must(n < 1 || hit[0].quote != 0, &e, __LINE__);
	passage_index_close(index);
}

struct ack {
	int64_t session, message;
	int turn;
};

/* Run as a process with a session of its own, and write to fd what was saved. */
static void one_weir(const char *dir, int number, int turns, int fd)
{
	struct store_options o = { .dir = dir };
	struct store *s;
	struct snaps *k;
	struct timeline *tl = fake_open(1, 64, 4000), *again;
	struct stored_document d = {
		.name = "book", .text = book, .n_text = sizeof book - 1, .bytes = sizeof book - 1
	};
	struct err e = { 0 };
	struct str notice = { 0 };
	struct ack ack = { 0 };
	int64_t id, extra;

	MUST(store_open(&s, &o, &e));
	MUST(snaps_open(&k, s, &(struct snaps_options){ .budget = BUDGET }, &notice, &e));
	if (notice.n) {
		fprintf(stderr, "    %s", notice.p);
		_exit(8);
	}
	MUST(session_new(s, NULL, &ack.session, &e));
	MUST(session_add_document(s, ack.session, &d, &id, &e));
	fake_grow(tl, 5, SHARED); /* tokens that all processes have read */
	for (int i = 0; i < turns; i++) {
		struct stored_message m = {
			.parent = ack.message, .role = 1 + i % 2, .text = "a common word", .n_text = 13, .complete = 1
		};
		struct snap_loaded got;

		MUST(message_append(s, ack.session, &m, &ack.message, &e));
		ack.turn = i + 1;
		if (write(fd, &ack, sizeof ack) != sizeof ack)
			_exit(7);
		fake_grow(tl, (uint64_t)(number + 17 * i), 90);
		/* Another process may drop chunks that this save counts on. The error says so, and the next save
		 * works. */
		if (snap_save(k, tl, &fp, ack.session, ack.message, NULL, 0, NULL, &e) &&
		    !strstr(e.msg, "another weir"))
			must(1, &e, __LINE__);
		e.code = 0;
		again = fake_open(1, 64, 4000);
		must(snap_load(k, again, &fp, ack.message, NULL, &got, &e) < 0, &e, __LINE__);
		must(!fake_right(again), &e, __LINE__);
		fake_cut(again, 0);
		must(snap_load_prefix(k, again, &fp, tl->tokens.id, tl->tokens.n, &got, &e) < 0, &e, __LINE__);
		must(!fake_right(again), &e, __LINE__);
		fake_close(again);
		search_book(s);
		if (i % 4 == number % 4) {
			MUST(session_new(s, NULL, &extra, &e));
			MUST(session_add_document(s, extra, &d, &id, &e));
			MUST(snap_drop(k, extra, &e));
			MUST(session_delete(s, extra, &e));
		}
	}
	snaps_close(k);
	store_close(s);
	fake_close(tl);
	str_free(&notice);
}

/* Check that everything acknowledged is there and the files are undamaged. */
static void check_all(const char *dir, const struct ack *ack, size_t n, int whole)
{
	struct store_options o = { .dir = dir };
	struct str report = { 0 };
	struct store *s;
	struct snaps *k;
	struct err e = { 0 };
	int ready = 0;

	CHECK_MSG(!store_open(&s, &o, &e), "%s", e.msg);
	CHECK(s->alone);
	CHECK_MSG(!snaps_open(&k, s, &(struct snaps_options){ .budget = BUDGET }, &report, &e), "%s", e.msg);
	CHECK_MSG(!report.n, "%s", report.p);
	check_clean(s, __LINE__);
	CHECK_MSG(!snaps_check(k, &report, &e), "%s %s", str_text(&report), e.msg);
	CHECK_INT(place_count(s, "content"), n > 0);
	for (size_t i = 0; i < n; i++) {
		struct session row;
		struct timeline *tl = fake_open(1, 64, 4000);
		struct snap_loaded got;
		long by;

		CHECK_MSG(!session_get(s, ack[i].session, &row, &e), "%s", e.msg);
		CHECK(row.messages >= ack[i].turn && row.head >= ack[i].message);
		CHECK_MSG(!session_hold(s, ack[i].session, &by, &e), "%s", e.msg);
		CHECK_MSG(snap_load(k, tl, &fp, row.head, NULL, &got, &e) >= 0, "%s", e.msg);
		CHECK(fake_right(tl));
		ready += got.tokens > 0;
		fake_close(tl);
	}
	CHECK(!whole || ready);
	snaps_close(k);
	store_close(s);
	str_free(&report);
}

/* Run children that write one session each and are killed after kill_after microseconds (0 = never). out = the last
 * acknowledgment of each. */
static void run_weirs(const char *dir, int turns, unsigned kill_after, struct ack out[PROCESSES], size_t *n_out)
{
	int fd[PROCESSES][2];
	pid_t pid[PROCESSES];

	fflush(stdout);
	for (int i = 0; i < PROCESSES; i++) {
		CHECK(!pipe(fd[i]));
		pid[i] = fork();
		if (!pid[i]) {
			one_weir(dir, i, turns, fd[i][1]);
			_exit(0);
		}
		close(fd[i][1]);
	}
	if (kill_after) {
		usleep(kill_after);
		for (int i = 0; i < PROCESSES - 1; i++)
			kill(pid[i], SIGKILL);
	}
	*n_out = 0;
	for (int i = 0; i < PROCESSES; i++) {
		struct ack a = { 0 }, next;
		int status;

		while (read(fd[i][0], &next, sizeof next) == sizeof next)
			a = next;
		close(fd[i][0]);
		status = status_of(pid[i]);
		CHECK_MSG(!status || (kill_after && status == 1000 + SIGKILL), "process %d ended with %d", i, status);
		CHECK(kill_after || a.turn == turns);
		/* the last process is not killed, and does all its turns */
		CHECK(i < PROCESSES - 1 || a.turn == turns);
		if (a.turn)
			out[(*n_out)++] = a;
	}
}

TEST(many_processes_write_at_once)
{
	struct place p;
	struct ack ack[PROCESSES];
	size_t n;

	/* In the first run, all processes create the files at the same moment. */
	place_dir(&p);
	run_weirs(p.dir, TURNS, 0, ack, &n);
	CHECK_INT(n, PROCESSES);
	check_all(p.dir, ack, n, 1);
	run_weirs(p.dir, TURNS, 0, ack, &n);
	check_all(p.dir, ack, n, 1);
	place_remove(&p);
}

/* With WEIR_SOAK=N, N times as many processes are killed. */
TEST(killed_processes_lose_nothing_and_free_their_locks)
{
	const char *soak = getenv("WEIR_SOAK");
	int rounds = 12 * (soak ? (int)strtol(soak, NULL, 10) : 1), saved = 0;
	struct place p;

	for (int i = 0; i < rounds; i++) {
		struct ack ack[PROCESSES];
		size_t n;

		if (i % 4 == 0)
			place_dir(&p);
		run_weirs(p.dir, 3, 1000 + (unsigned)(fake_mix((uint64_t)i) % 150000), ack, &n);
		check_all(p.dir, ack, n, 0);
		for (size_t k = 0; k < n; k++)
			saved += ack[k].turn;
		if (i % 4 == 3)
			place_remove(&p);
	}
	test_note("%d times three of four processes were killed; %d messages had been acknowledged", rounds, saved);
}

/* If one process finds kv.db damaged and begins a new one, others notice and continue in the new file. */
TEST(a_file_put_aside_by_another_process_is_left)
{
	struct place p;
	struct store *s = place_make(&p), *other;
	struct store_options o = { .dir = p.dir };
	struct snaps *k, *theirs;
	struct timeline *tl = fake_open(1, 64, 2000), *again = fake_open(1, 64, 2000);
	struct snap_loaded got;
	struct err err = { 0 };
	int64_t one = begin(s, "one"), two, first = say_message(s, one, 0, ROLE_USER, "x"), last;

	OK(store_open(&other, &o, e));
	OK(session_new(other, "two", &two, e));
	last = say_message(other, two, 0, ROLE_USER, "y");
	OK(snaps_open(&k, s, NULL, NULL, e));
	OK(snaps_open(&theirs, other, NULL, NULL, e));
	fake_grow(tl, 3, 600);
	OK(snap_save(k, tl, &fp, one, first, NULL, 0, NULL, e));
	OK(snap_save(theirs, tl, &fp, two, last, NULL, 0, NULL, e));
	OK(snaps_renew(k, e));
	CHECK_INT(snap_load(theirs, again, &fp, last, NULL, &got, &err), 0);
	OK(snap_save(theirs, tl, &fp, two, last, NULL, 0, NULL, e));
	CHECK_INT(snap_load(k, again, &fp, last, NULL, &got, &err), 1);
	CHECK(fake_same(tl, again));
	/* If the file is put aside in the middle of a save, that save is refused and begins again in the new file. */
	OK(snaps_begin(theirs, e));
	CHECK_INT(db_end(&theirs->db, 0, &err), 0);
	OK(snaps_renew(k, e));
	REFUSED(snaps_begin(theirs, e), ERR_FAIL, "was put aside by another weir");
	OK(snap_save(theirs, tl, &fp, two, last, NULL, 0, NULL, e));
	CHECK_INT(snap_load(k, again, &fp, last, NULL, &got, &err), 1);
	snaps_close(k);
	snaps_close(theirs);
	store_close(other);
	fake_close(tl);
	fake_close(again);
	place_remove(&p);
}
