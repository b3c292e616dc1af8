/* tests/sessions/t_store_harm.c - chat.db with kill -9, a failure of each single disk call, full disks and flipped
 * bits.
 *
 * Acknowledged changes must be there in full; others must be there in full or not at all; and the store must work or
 * report in one line what is wrong. WEIR_SOAK=N makes the random parts N times as long. */
#include "tests/lib/faultvfs.h"
#include "tests/lib/store_life.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

static int soak(void)
{
	const char *s = getenv("WEIR_SOAK");
	long n = s ? strtol(s, NULL, 10) : 1;

	return n < 1 ? 1 : n > 100000 ? 100000 : (int)n;
}

/* Return how many of n rounds are done: in slow builds only a part. */
static int rounds(int n)
{
	return test_patience() > 1 ? n / 4 : n;
}

static int wait_for(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/* ---- kill -9 ---- */

static void tell(int fd, struct entry *y, int ack)
{
	y->ack = ack;
	if (write(fd, y, sizeof *y) != (ssize_t)sizeof *y)
		_exit(9);
}

/* Change the store until killed. */
static _Noreturn void live_in_child(const char *dir, int fd, struct life *l)
{
	struct store_options o = { .dir = dir };
	struct store *s;
	struct err e = { 0 };

	if (store_open(&s, &o, &e)) {
		fprintf(stderr, "    child: %s\n", e.msg);
		_exit(2);
	}
	for (;;) {
		struct entry y;
		struct stored_message m;

		life_choose(l, &y, &m);
		tell(fd, &y, 0);
		if (life_step(s, l, &y, &m, &e)) {
			fprintf(stderr, "    child: operation %d: %s\n", y.op, e.msg);
			_exit(3);
		}
		tell(fd, &y, 1);
		live(l, &y);
	}
}

TEST(kill_at_any_moment_loses_nothing)
{
	struct place p;
	static struct life l, with, now;
	int n = rounds(220), acks = 0, bad = 0, kept = 0;
	double t = now_seconds();
	struct store *s;
	struct err e = { 0 };
	struct str report = { 0 };

	n *= soak();
	place_dir(&p);
	l.n = 0;
	fflush(stdout);
	for (int round = 0; round < n && bad < 5; round++) {
		struct store_options o = { .dir = p.dir };
		struct entry y, pending = { .ack = 1 };
		struct timespec pause = { 0, 1000000 + (long)(test_rand() % 19000000) };
		int tube[2], status, matches;
		pid_t pid;

		CHECK(!pipe(tube));
		dice = test_rand();
		pid = fork();
		if (!pid) {
			close(tube[0]);
			live_in_child(p.dir, tube[1], &l);
		}
		close(tube[1]);
		/* Kill at any moment; in three of four rounds only after a change was acknowledged, however slow the
		 * child is. */
		for (int begun = round % 4 == 0, killed = 0;;) {
			if (begun && !killed) {
				nanosleep(&pause, NULL);
				kill(pid, SIGKILL);
				killed = 1;
			}
			if (read(tube[0], &y, sizeof y) != (ssize_t)sizeof y)
				break;
			pending = y;
			if (y.ack) {
				live(&l, &y);
				acks++;
				begun = 1;
			}
		}
		kill(pid, SIGKILL);
		status = wait_for(pid);
		if (status != 1000 + SIGKILL) {
			test_fail(__FILE__, __LINE__, "round %d: the child ended with %d", round, status);
			bad++;
		}
		close(tube[0]);
		with = l;
		if (!pending.ack)
			live(&with, &pending);
		if (store_open(&s, &o, &e)) {
			test_fail(__FILE__, __LINE__, "round %d: %s", round, e.msg);
			bad++;
			break;
		}
		if (store_check(s, &report, &e)) {
			test_fail(__FILE__, __LINE__, "round %d: %s%s", round, report.n ? report.p : "", e.msg);
			bad++;
		}
		if (read_life(s, &now, &e)) {
			test_fail(__FILE__, __LINE__, "round %d: %s", round, e.msg);
			bad++;
		}
		matches = same_life(&l, &now) ? 1 : same_life(&with, &now) ? 2 : 0;
		kept += matches == 2;
		if (!matches) {
			test_fail(__FILE__, __LINE__,
			          "round %d: the store is neither what was acknowledged nor one change (%d) further",
			          round, pending.ack ? -1 : pending.op);
			bad++;
		}
		l = now;
		store_close(s);
	}
	test_note("%d kills, %d acknowledged changes, %d changes that were there unacknowledged, %.1f s", n, acks, kept,
	          now_seconds() - t);
	CHECK(acks >= n * 3 / 4);
	str_free(&report);
	place_remove(&p);
}

/* ---- every call fails once ---- */

static int state_message(const struct stored_message *m, void *ud)
{
	str_addf(ud, " %lld:%d:%d:%.*s:%zu", (long long)m->id, m->role, m->complete, (int)m->n_text, m->text,
	         m->n_token);
	return 0;
}

static int state_session(const struct session *row, void *ud)
{
	str_addf(ud, "%lld ", (long long)row->id);
	return 0;
}

/* Append everything that a store returns about its contents, except times. */
static int state_of(struct store *s, struct str *out, struct err *e)
{
	struct str ids = { 0 }, value = { 0 };
	int rc;

	str_clear(out);
	rc = session_list(s, state_session, &ids, e);
	for (char *p = ids.p, *end; !rc && p && *p && *p != ' '; p = end + 1) {
		int64_t id = strtoll(p, &end, 10);
		struct session row;
		rc = session_get(s, id, &row, e);
		if (rc)
			break;
		str_addf(out, "[%lld %s/%s/%s/%s %lld %d %d %lld", (long long)id, row.name, row.title, row.model,
		         row.kv, (long long)row.head, row.messages, row.tokens, (long long)row.parent);
		rc = message_path(s, row.head, state_message, out, e);
		if (!rc)
			rc = message_children(s, id, 0, state_message, out, e);
		if (!rc)
			rc = session_documents(s, id, add_document, out, e);
		if (!rc && (rc = session_value(s, id, "k", &value, e)) > 0) {
			str_addf(out, " k=%s", value.p);
			rc = 0;
		}
		str_adds(out, "]\n");
	}
	str_free(&ids);
	str_free(&value);
	return rc;
}

/* Make a small store. Run in a child that ends without closing, so that the last changes are in the log only. */
static int make_world(const char *dir)
{
	struct store_options o = { .dir = dir };
	struct store *s;
	struct err e = { 0 };
	int64_t id, m = 0, f;
	char text[3000];
	struct stored_document d = { .name = "paper", .text = text, .n_text = sizeof text, .bytes = 9 };

	if (store_open(&s, &o, &e) || session_new(s, "one", &id, &e))
		return 1;
	memset(text, 'd', sizeof text);
	if (session_add_document(s, id, &d, &f, &e))
		return 1;
	for (int i = 0; i < 12; i++) {
		int32_t token[3] = { i, 2, 3 };
		struct stored_message x = { .parent = m,
			                    .role = 1 + i % 2,
			                    .text = text,
			                    .token = token,
			                    .n_token = (size_t)i % 2 * 3,
			                    .complete = i != 11 };
		x.n_text = (size_t)snprintf(text, sizeof text, "message %d with words %0*d", i, 1 + i * 50, i);
		if (message_append(s, id, &x, &m, &e))
			return 1;
		if (i == 5 && session_fork(s, id, 0, "two", &f, &e))
			return 1;
	}
	if (session_set(s, id, "k", "v", 1, &e) || session_new(s, NULL, &id, &e))
		return 1;
	return 0;
}

static int close_world(const char *dir)
{
	struct store_options o = { .dir = dir };
	struct store *s;
	struct err e = { 0 };

	if (store_open(&s, &o, &e))
		return 1;
	store_close(s);
	return 0;
}

/* Make a store of format 1 and close it. */
static int make_old_world(const char *dir)
{
	struct db d;
	struct err e = { 0 };
	char path[500];

	snprintf(path, sizeof path, "%s/chat.db", dir);
	if (mkdir(dir, 0700) || db_open(&d, path, NULL, 0, &e) || db_exec(&d, "PRAGMA journal_mode=WAL", &e) ||
	    store_migrate(&d, 0, 1, &e) ||
	    db_exec(&d, "INSERT INTO session(created, used, turn, name) VALUES(1, 1, 1, 'old')", &e))
		return 1;
	db_close(&d);
	return 0;
}

static int in_child(int (*fn)(const char *), const char *dir)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid)
		_exit(fn(dir));
	return wait_for(pid);
}

static void copy_dir(const char *from, const char *to)
{
	DIR *d = opendir(from);

	remove_dir(to);
	mkdir(to, 0700);
	for (struct dirent *f; d && (f = readdir(d));) {
		char path[700];
		size_t n;
		char *bytes;
		int fd;
		/* Leave out shared memory, which a crash does not leave either. */
		if (strncmp(f->d_name, "chat.db", 7) || strstr(f->d_name, "-shm"))
			continue;
		snprintf(path, sizeof path, "%.400s/%.250s", from, f->d_name);
		bytes = test_read(path, &n);
		snprintf(path, sizeof path, "%.400s/%.250s", to, f->d_name);
		fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
		if (fd < 0 || !bytes || write(fd, bytes, n) != (ssize_t)n)
			test_fail(__FILE__, __LINE__, "%s was not copied", path);
		close(fd);
		free(bytes);
	}
	if (d)
		closedir(d);
}

typedef int work(struct store *, struct err *);

static int w_nothing(struct store *s, struct err *e)
{
	(void)s, (void)e;
	return 0;
}
static int w_append(struct store *s, struct err *e)
{
	struct stored_message m = { .parent = 12, .role = ROLE_USER, .text = "one more", .n_text = 8, .complete = 1 };
	int64_t id;
	return message_append(s, 1, &m, &id, e);
}
static int w_update(struct store *s, struct err *e)
{
	struct stored_message m = { .role = ROLE_ASSISTANT, .text = "grown", .n_text = 5, .complete = 1 };
	return message_update(s, 12, &m, e);
}
static int w_fork(struct store *s, struct err *e)
{
	int64_t id;
	return session_fork(s, 1, 8, "three", &id, e);
}
static int w_delete(struct store *s, struct err *e)
{
	return session_delete(s, 1, e);
}
static int w_new(struct store *s, struct err *e)
{
	int64_t id;
	return session_new(s, "new", &id, e);
}
static int w_set(struct store *s, struct err *e)
{
	return session_set(s, 1, "k", "other", 5, e);
}
static int w_document(struct store *s, struct err *e)
{
	static char text[40000];
	struct stored_document d = { .name = "long", .text = text, .n_text = sizeof text, .after = 3 };
	int64_t id;
	memset(text, 'y', sizeof text);
	return session_add_document(s, 1, &d, &id, e);
}
static int w_search(struct store *s, struct err *e)
{
	int n = 0;
	return store_search(s, "words", 100, count_found, &n, e);
}
static int w_check(struct store *s, struct err *e)
{
	struct str report = { 0 };
	int rc = store_check(s, &report, e);
	/* A failed read may be reported as damage; that is accepted. */
	str_free(&report);
	return rc < 0 ? -1 : 0;
}

struct failing {
	const char *name;
	int (*make)(const char *dir); /* makes the store first; NULL = none */
	int closed;                   /* 1: the store is closed after it was made, so that nothing is in the log only */
	work *fn;
	int from_open; /* 1: calls during opening fail, too */
	struct place p;
	char base[440];
	struct str old, new, now, report;
	int runs, survived;
};

/* Run f with failing calls. way 0: the nth call fails; 1: the nth and all later calls fail; 2: the same, with the error
 * of a full disk. Returns 1 if there are fewer than n calls. */
static int fail_nth(struct failing *f, int n, int way)
{
	struct store_options o = { .dir = f->p.dir, .vfs = FAULT_VFS };
	struct store *s = NULL;
	struct err e = { 0 }, after = { 0 };
	struct str *now = &f->now;
	int rc, done, is_old, is_new;

	if (f->make)
		copy_dir(f->base, f->p.dir);
	fault_set(0, 0, 0, 0);
	if (f->from_open)
		fault_set(FAULT_ALL, n, way > 0, way == 2);
	rc = store_open(&s, &o, &e);
	if (!rc && !f->from_open)
		fault_set(FAULT_ALL, n, way > 0, way == 2);
	if (!rc)
		rc = f->fn(s, &e);
	/* After a single failure the store still works. */
	if (s && way == 0 && rc && fault_hits()) {
		int64_t id;
		if (session_new(s, "after", &id, &after) || session_delete(s, id, &after))
			test_fail(__FILE__, __LINE__, "%s: after call %d failed (%s): %s", f->name, n, e.msg,
			          after.msg);
	}
	store_close(s);
	done = !fault_hits();
	f->survived += !rc && !done;
	f->runs++;
	if (rc && (done || !e.msg[0]))
		test_fail(__FILE__, __LINE__, "%s: call %d, way %d: failed without a failure or a sentence: %s",
		          f->name, n, way, e.msg);
	fault_set(0, 0, 0, 0);
	o.vfs = NULL;
	if (store_open(&s, &o, &e)) {
		test_fail(__FILE__, __LINE__, "%s: call %d, way %d: not opened afterwards: %s", f->name, n, way, e.msg);
	} else {
		if (store_check(s, &f->report, &e) || state_of(s, now, &e))
			test_fail(__FILE__, __LINE__, "%s: call %d, way %d: %s%s", f->name, n, way,
			          f->report.n ? f->report.p : "", e.msg);
		is_old = now->n == f->old.n && !memcmp(now->n ? now->p : "", now->n ? f->old.p : "", now->n);
		is_new = now->n == f->new.n && !memcmp(now->n ? now->p : "", now->n ? f->new.p : "", now->n);
		if (!is_new && (!rc || !is_old))
			test_fail(__FILE__, __LINE__, "%s: call %d, way %d, which said %d: neither old nor new:\n%s",
			          f->name, n, way, rc, now->n ? now->p : "");
		store_close(s);
	}
	remove_dir(f->p.dir);
	return done;
}

static void fail_each(const char *name, int (*make)(const char *), int closed, work *fn, int from_open)
{
	struct failing f = { .name = name, .make = make, .closed = closed, .fn = fn, .from_open = from_open };

	fault_init();
	place_dir(&f.p);
	snprintf(f.base, sizeof f.base, "%s-base", f.p.dir);
	if (make)
		CHECK_INT(in_child(make, f.base), 0);
	if (closed)
		CHECK_INT(in_child(close_world, f.base), 0);
	for (int pass = 0; pass < 2; pass++) {
		struct store_options o = { .dir = f.p.dir };
		struct store *s;
		struct err e = { 0 };
		if (make)
			copy_dir(f.base, f.p.dir);
		if (store_open(&s, &o, &e) || (pass && fn(s, &e)) || state_of(s, pass ? &f.new : &f.old, &e))
			test_fail(__FILE__, __LINE__, "%s: %s", name, e.msg);
		store_close(s);
		remove_dir(f.p.dir);
	}
	/* Way 2 is way 1 with another error, so every third call is enough. In a slow build fewer are enough. */
	for (int way = 0; way < 3; way++) {
		int step = (way == 2 ? 3 : 1) * (test_patience() > 1 ? 4 : 1);
		for (int n = 1; n < 5000 && !fail_nth(&f, n, way); n += step)
			;
	}
	test_note("%s: %d runs, %d of them succeeded in spite of a failed call", name, f.runs, f.survived);
	remove_dir(f.base);
	str_free(&f.old);
	str_free(&f.new);
	str_free(&f.now);
	str_free(&f.report);
	place_remove(&f.p);
}

TEST(every_call_may_fail_in_opening)
{
	fail_each("open, nothing there", NULL, 0, w_nothing, 1);
	fail_each("open", make_world, 1, w_nothing, 1);
	fail_each("open after a crash", make_world, 0, w_nothing, 1);
	fail_each("open an older format", make_old_world, 0, w_nothing, 1);
}

TEST(every_call_may_fail_in_changing)
{
	fail_each("append", make_world, 1, w_append, 0);
	fail_each("append after a crash", make_world, 0, w_append, 0);
	fail_each("update", make_world, 1, w_update, 0);
	fail_each("fork", make_world, 1, w_fork, 0);
	fail_each("delete", make_world, 1, w_delete, 0);
	fail_each("new", make_world, 1, w_new, 0);
	fail_each("set", make_world, 1, w_set, 0);
	fail_each("document", make_world, 1, w_document, 0);
	fail_each("search", make_world, 1, w_search, 0);
	fail_each("check", make_world, 1, w_check, 0);
}

TEST(appending_syncs_once)
{
	struct place p;
	struct store *s;
	struct store_options o;
	struct err e = { 0 };
	int most = 0, sum = 0;

	fault_init();
	place_dir(&p);
	o = (struct store_options){ .dir = p.dir, .vfs = FAULT_VFS };
	CHECK_INT(store_open(&p.store, &o, &e), 0);
	s = p.store;
	begin(s, NULL);
	for (int i = 0; i < 50; i++) {
		int n;
		fault_set(0, 0, 0, 0);
		say_message(s, 1, i, 1 + i % 2, "a question or an answer");
		n = fault_calls(FAULT_SYNC);
		sum += n;
		if (n > most)
			most = n;
	}
	CHECK_INT(most, 1);
	CHECK_INT(sum, 50);
	place_remove(&p);
}

/* ---- no room ---- */

/* Append until it fails. Then, with room again, everything acknowledged must be there, and appending must work. 0 = all
 * well. */
static int fill_up(const char *dir, void (*room)(int))
{
	struct store_options o = { .dir = dir };
	struct store *s = NULL;
	struct err e = { 0 };
	struct str report = { 0 };
	struct session row;
	static char text[5000];
	struct stored_message m = { .role = ROLE_USER, .text = text, .n_text = sizeof text, .complete = 1 };
	int64_t id = 0, last = 0;
	int n = 0, rc = 0;

	memset(text, 'z', sizeof text);
	room(0);
	if (!store_open(&s, &o, &e) && !session_new(s, "full", &id, &e))
		while (n < 2000 && !message_append(s, id, &m, &last, &e)) {
			m.parent = last;
			n++;
		}
	if (!e.msg[0] || strchr(e.msg, '\n'))
		rc = 20;
	/* The message must say that writing failed, also if that was noticed at COMMIT. */
	if (strstr(e.msg, "the disk is full") && strstr(e.msg, "cannot read"))
		rc = 25;
	/* After the failure smaller changes may still work, or fail with a message. */
	if (s && id)
		session_touch(s, id, "m", "k", 1, &e);
	store_close(s);
	room(1);
	if (store_open(&s, &o, &e) || store_check(s, &report, &e)) {
		fprintf(stderr, "    afterwards: %s%s\n", report.n ? report.p : "", e.msg);
		return 21;
	}
	if (id && (session_get(s, id, &row, &e) || row.messages != n))
		return 22;
	if (!id && session_new(s, "full", &id, &e))
		return 23;
	if (message_append(s, id, &m, &last, &e) || session_get(s, id, &row, &e) || row.messages != n + 1)
		return 24;
	store_close(s);
	str_free(&report);
	return rc;
}

static rlim_t file_limit;
static void limit_files(int lift)
{
	struct rlimit r;

	getrlimit(RLIMIT_FSIZE, &r);
	r.rlim_cur = lift ? r.rlim_max : file_limit;
	setrlimit(RLIMIT_FSIZE, &r);
}

static int fill_to_limit(const char *dir)
{
	signal(SIGXFSZ, SIG_IGN);
	return fill_up(dir, limit_files);
}

TEST(limits_on_file_size_are_survived)
{
	struct place p;

	place_dir(&p);
	for (file_limit = 0; file_limit < 400000; file_limit += file_limit < 60000 ? 4000 : 37000) {
		int rc = in_child(fill_to_limit, p.dir);
		CHECK_MSG(!rc, "limit %lld: the child ended with %d", (long long)file_limit, rc);
		remove_dir(p.dir);
	}
	place_remove(&p);
}

static int look(const char *dir, int messages, struct err *e)
{
	struct store_options looks = { .dir = dir, .read_only = 1 };
	struct session row;
	struct store *s;
	int64_t id;
	int bad = store_open(&s, &looks, e) || session_last(s, &id, e) < 1 || session_get(s, id, &row, e)
	                  ? -1
	                  : row.messages != messages;

	store_close(s);
	return bad;
}

/* Store a question. If closed is 0, the store is not closed, and the question is left in the log. */
static int store_question(const char *dir, int closed)
{
	struct store_options o = { .dir = dir };
	struct stored_message m = { .role = ROLE_USER, .text = "kept", .n_text = 4, .complete = 1 };
	struct store *s;
	struct err e = { 0 };
	int64_t id = 0, last = 0;

	if (store_open(&s, &o, &e) || session_new(s, NULL, &id, &e) || message_append(s, id, &m, &last, &e))
		return 20;
	if (closed)
		store_close(s);
	return 0;
}

static int store_and_close(const char *dir)
{
	return store_question(dir, 1);
}

static int store_and_die(const char *dir)
{
	return store_question(dir, 0);
}

static int read_without_room(const char *dir)
{
	struct err e = { 0 };

	signal(SIGXFSZ, SIG_IGN);
	file_limit = 2000;
	limit_files(0);
	if (look(dir, 1, &e)) {
		fprintf(stderr, "    %s\n", e.msg);
		return 21;
	}
	return 0;
}

static int read_log_without_room(const char *dir)
{
	char path[500];
	struct err e = { 0 };

	snprintf(path, sizeof path, "%s/chat.db-shm", dir);
	unlink(path);
	signal(SIGXFSZ, SIG_IGN);
	file_limit = 2000;
	limit_files(0);
	if (look(dir, 1, &e) >= 0 || !e.msg[0] || strchr(e.msg, '\n'))
		return 22;
	limit_files(1);
	return look(dir, 1, &e) ? 23 : 0;
}

/* No byte can be written, not even SQLite's shared memory: what is stored can still be read. If the last changes are in
 * a log that a crash has left, a message says that they cannot be read yet. */
TEST(without_room_everything_can_still_be_read)
{
	struct place p;

	place_dir(&p);
	CHECK_INT(in_child(store_and_close, p.dir), 0);
	CHECK_INT(in_child(read_without_room, p.dir), 0);
	CHECK_INT(in_child(store_and_die, p.dir), 0);
	CHECK_INT(in_child(read_log_without_room, p.dir), 0);
	place_remove(&p);
}

static char small_disk[400];
static void make_room(int lift)
{
	char path[500];

	/* This file fills the disk. Deleting it makes room. */
	snprintf(path, sizeof path, "%s/ballast", small_disk);
	if (lift)
		unlink(path);
}

static int fill_small_disk(const char *dir)
{
	char path[500], block[4096] = "";
	int rc;

	snprintf(small_disk, sizeof small_disk, "%.390s", dir);
	if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) || mkdir(dir, 0700) ||
	    mount("tmpfs", dir, "tmpfs", 0, "size=1m"))
		return 99;
	for (int ballast = 500; ballast < 1024; ballast += 60) {
		FILE *f;
		snprintf(path, sizeof path, "%s/ballast", dir);
		f = fopen(path, "w");
		for (int i = 0; i < ballast / 4; i++)
			fwrite(block, 1, sizeof block, f);
		fclose(f);
		snprintf(path, sizeof path, "%s/store", dir);
		rc = fill_up(path, make_room);
		if (rc)
			return rc;
		remove_dir(path);
	}
	return 0;
}

TEST(full_disks_are_survived)
{
	struct place p;
	int rc;

	place_dir(&p);
	rc = in_child(fill_small_disk, p.dir);
	place_remove(&p);
	if (rc == 99)
		SKIP("a small file system cannot be mounted here");
	CHECK_INT(rc, 0);
}

/* ---- no memory ---- */

/* SQLite gets a limited amount of memory, and what it then cannot do is reported. */
TEST(little_memory_is_survived)
{
	static work *const all[] = { w_append, w_update, w_fork, w_delete, w_document, w_search, w_check };
	struct place p;
	char base[440];
	int failed = 0, done = 0;
	struct str old = { 0 }, new = { 0 }, now = { 0 }, report = { 0 };
	struct store *s;
	struct err e = { 0 };

	place_dir(&p);
	snprintf(base, sizeof base, "%s-base", p.dir);
	CHECK_INT(in_child(make_world, base), 0);
	for (size_t w = 0; w < LEN(all); w++)
		for (int kib = -2; kib < 1000; kib += kib < 0 ? 1 : kib < 300 ? 300 / rounds(30) : 100) {
			struct store_options o = { .dir = p.dir };
			int rc;

			e = (struct err){ 0 };
			copy_dir(base, p.dir);
			/* kib -2 and -1: without a limit, to learn the state before and after the change. */
			sqlite3_hard_heap_limit64(kib < 0 ? 0 : sqlite3_memory_used() + (kib + 1) * 1024);
			rc = store_open(&s, &o, &e);
			if (!rc && kib != -2)
				rc = all[w](s, &e);
			if (kib < 0) {
				CHECK_MSG(!rc && !state_of(s, kib == -2 ? &old : &new, &e), "%s", e.msg);
				store_close(s);
				continue;
			}
			store_close(s);
			sqlite3_hard_heap_limit64(0);
			CHECK(!rc || e.msg[0]);
			*(rc ? &failed : &done) += 1;
			if (store_open(&s, &o, &e) || store_check(s, &report, &e) || state_of(s, &now, &e)) {
				test_fail(__FILE__, __LINE__, "work %zu, %d KiB: %s%s", w, kib,
				          report.n ? report.p : "", e.msg);
				store_close(s);
				continue;
			}
			if ((now.n != new.n || memcmp(now.p, new.p, now.n)) &&
			    (!rc || now.n != old.n || memcmp(now.p, old.p, now.n)))
				test_fail(__FILE__, __LINE__, "work %zu, %d KiB: neither old nor new", w, kib);
			store_close(s);
		}
	test_note("%d failures for want of memory, %d successes", failed, done);
	CHECK(failed > 0 && done > 0);
	str_free(&old);
	str_free(&new);
	str_free(&now);
	str_free(&report);
	remove_dir(base);
	place_remove(&p);
}

/* ---- flipped bits ---- */

struct kept {
	struct str text;
	int n, wrong, odd;
};

/* Collect messages in order, to compare them with what was saved: "id:complete:text:tokens". */
static int keep_message(const struct stored_message *m, void *ud)
{
	struct kept *k = ud;

	str_addf(&k->text, "%lld:%d:%.*s:", (long long)m->id, m->complete, (int)m->n_text, m->text);
	for (size_t i = 0; i < m->n_token; i++)
		str_addf(&k->text, "%d,", (int)m->token[i]);
	str_adds(&k->text, "\n");
	return 0;
}

static int use_everything(struct store *s, struct str *out)
{
	struct err e = { 0 };
	struct kept k = { 0 };
	int rc = 0, n = 0;
	int64_t id = 0;
	struct stored_message m = { .role = ROLE_USER, .text = "new words", .n_text = 9, .complete = 1 };

	for (int64_t i = 1; i <= 2; i++) {
		struct session row;
		if (session_get(s, i, &row, &e) || message_path(s, row.head, keep_message, &k, &e))
			rc = -1;
		if (session_documents(s, i, add_document, &k.text, &e))
			rc = -1;
	}
	str_clear(out);
	str_add(out, str_text(&k.text), k.text.n);
	session_export(s, 1, EXPORT_JSON, NULL, &k.text, &e);
	store_search(s, "words", 100, count_found, &n, &e);
	message_append(s, 2, &m, &id, &e);
	session_fork(s, 1, 0, NULL, &id, &e);
	session_delete(s, 1, &e);
	str_free(&k.text);
	return rc;
}

TEST(flipped_bits_are_seen_or_do_not_matter)
{
	struct place p;
	char base[440], path[500];
	int n = rounds(400) * soak(), at_open = 0, at_check = 0, equal = 0, names = 0;
	struct str good = { 0 }, now = { 0 }, report = { 0 };
	struct store_options o;
	struct store *s;
	struct err e = { 0 };
	size_t size = 0;
	char *bytes;

	place_dir(&p);
	o = (struct store_options){ .dir = p.dir };
	snprintf(base, sizeof base, "%s-base", p.dir);
	CHECK_INT(in_child(make_world, base), 0);
	CHECK_INT(in_child(close_world, base), 0);
	copy_dir(base, p.dir);
	CHECK_INT(store_open(&s, &o, &e), 0);
	CHECK_INT(use_everything(s, &good), 0);
	store_close(s);
	snprintf(path, sizeof path, "%s/chat.db", base);
	bytes = test_read(path, &size);
	CHECK(bytes && size > 20000);
	snprintf(path, sizeof path, "%s/chat.db", p.dir);
	for (int i = 0; i < n; i++) {
		size_t where = test_rand() % size;
		char bit = (char)(1 << test_rand() % 8);
		int fd, seen;

		remove_dir(p.dir);
		mkdir(p.dir, 0700);
		fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
		bytes[where] = (char)(bytes[where] ^ bit);
		CHECK(write(fd, bytes, size) == (ssize_t)size);
		bytes[where] = (char)(bytes[where] ^ bit);
		close(fd);
		e = (struct err){ 0 };
		if (store_open(&s, &o, &e)) {
			CHECK(e.msg[0]);
			at_open++;
			continue;
		}
		seen = store_check(s, &report, &e);
		if (use_everything(s, &now))
			seen = seen ? seen : -2;
		store_close(s);
		if (seen)
			at_check++;
		else if (now.n == good.n && !memcmp(now.p, good.p, now.n))
			equal++;
		else
			names++;
		/* Texts and tokens of messages, and documents, have checksums, so no changed words go unnoticed. */
		if (!seen && (now.n != good.n || memcmp(now.p, good.p, now.n)))
			test_fail(__FILE__, __LINE__, "bit %d of byte %zu: not seen, and the messages differ", bit,
			          where);
	}
	test_note("%d flips: %d seen when opening, %d by the check, %d changed nothing", n, at_open, at_check, equal);
	CHECK(at_check > 0 && names == 0);
	free(bytes);
	str_free(&good);
	str_free(&now);
	str_free(&report);
	remove_dir(base);
	place_remove(&p);
}

/* Return the offset at which the last transaction of a log begins, complete or not. *before: number of transactions
 * that end before it. */
static size_t last_transaction(const char *bytes, size_t size, int *before)
{
	size_t at = 32, last = 32, end = 32;

	for (*before = -1; at + 24 + 4096 <= size; at += 24 + 4096)
		if (memcmp(bytes + at + 4, "\0\0\0", 4) != 0 && !memcmp(bytes + at + 8, bytes + 16, 8)) {
			last = end;
			end = at + 24 + 4096;
			++*before;
		}
	*before += end < size;
	return end < size ? end : last;
}

/* SQLite drops what follows the first damage in a log that is not yet copied into the file. If that is more than the
 * last transaction, which a crash may also have cut, a notice is given, and the log is kept. */
TEST(flipped_bits_in_the_log_leave_a_whole_store)
{
	struct place p;
	char base[440], path[500];
	int n = rounds(150) * soak(), shorter = 0, refused = 0, said = 0, before;
	struct str good = { 0 }, now = { 0 }, report = { 0 }, notice = { 0 };
	struct store_options o;
	struct store *s;
	struct err e = { 0 };
	size_t size = 0, last;
	char *bytes;

	place_dir(&p);
	o = (struct store_options){ .dir = p.dir, .notice = &notice };
	snprintf(base, sizeof base, "%s-base", p.dir);
	CHECK_INT(in_child(make_world, base), 0);
	copy_dir(base, p.dir);
	CHECK(!store_open(&s, &o, &e) && !state_of(s, &good, &e));
	CHECK_INT(notice.n, 0);
	store_close(s);
	snprintf(path, sizeof path, "%s/chat.db-wal", base);
	bytes = test_read(path, &size);
	CHECK(bytes && size > 20000);
	last = last_transaction(bytes, size, &before);
	CHECK(before > 10);
	for (int i = 0; i < n; i++) {
		/* Flip bits in each byte of the log's header and of the first frame's header, then at random places. */
		size_t where = i < 56 ? (size_t)i : test_rand() % size;
		int fd, rc, may_say;

		copy_dir(base, p.dir);
		snprintf(path, sizeof path, "%s/chat.db-wal", p.dir);
		fd = open(path, O_WRONLY);
		bytes[where] = (char)(bytes[where] ^ 1 << test_rand() % 8);
		CHECK(pwrite(fd, bytes + where, 1, (off_t)where) == 1);
		close(fd);
		snprintf(path, sizeof path, "%s/chat.db-wal", base);
		free(bytes);
		bytes = test_read(path, &size);
		e = (struct err){ 0 };
		str_clear(&notice);
		if (store_open(&s, &o, &e)) {
			CHECK(e.msg[0]);
			refused++;
			continue;
		}
		/* Four bytes of each frame mark the end of a transaction. If they are damaged in the last transaction,
		 * the log looks as if it had two transactions there, so a notice may be given or not. */
		may_say = where >= last && (where - last) % (24 + 4096) >= 4 && (where - last) % (24 + 4096) < 8;
		CHECK_MSG(may_say || (where < last) == (notice.n > 0), "byte %zu of %zu, the last change at %zu: %s",
		          where, size, last, notice.n ? notice.p : "nothing was said");
		said += notice.n > 0;
		if (notice.n) {
			char kept[500];
			size_t n_kept = 0;
			char *copy;
			snprintf(kept, sizeof kept, "%s/chat.db-wal.damaged", p.dir);
			copy = test_read(kept, &n_kept);
			CHECK(copy && n_kept == size && memcmp(copy, bytes, size) != 0);
			free(copy);
		}
		rc = store_check(s, &report, &e);
		CHECK_MSG(!rc, "byte %zu: %s%s", where, report.n ? report.p : "", e.msg);
		CHECK(!state_of(s, &now, &e));
		shorter += now.n != good.n;
		store_close(s);
	}
	test_note(
		"%d flips in the log: %d times changes were lost, %d times more than the last one and said so, %d times it was "
		"refused",
		n, shorter, said, refused);
	CHECK(said > n / 2);
	free(bytes);
	str_free(&good);
	str_free(&now);
	str_free(&report);
	str_free(&notice);
	remove_dir(base);
	place_remove(&p);
}

/* A crash leaves a log of any length, with a part of the last transaction. No notice is given for it. */
TEST(torn_logs_raise_no_alarm)
{
	struct place p;
	char base[440], path[500];
	struct str notice = { 0 };
	struct store_options o;
	struct store *s;
	struct err e = { 0 };
	size_t size = 0;
	char *bytes;
	int alarms = 0, n = rounds(120) * soak();

	place_dir(&p);
	o = (struct store_options){ .dir = p.dir, .notice = &notice };
	snprintf(base, sizeof base, "%s-base", p.dir);
	CHECK_INT(in_child(make_world, base), 0);
	snprintf(path, sizeof path, "%s/chat.db-wal", base);
	bytes = test_read(path, &size);
	CHECK(bytes && size > 20000);
	for (int i = 0; i < n; i++) {
		size_t cut = test_rand() % (size + 1), last;
		int before, fd;

		/* Behind the last synced transaction, let some sectors be written and others not. */
		last = last_transaction(bytes, cut, &before);
		copy_dir(base, p.dir);
		snprintf(path, sizeof path, "%s/chat.db-wal", p.dir);
		fd = open(path, O_WRONLY);
		CHECK(!ftruncate(fd, (off_t)cut));
		for (size_t at = last; at < cut && last > 32; at += 512) {
			char sector[512];
			size_t len = cut - at < sizeof sector ? cut - at : sizeof sector;
			memset(sector, 0, sizeof sector);
			for (size_t k = 0; k < len && i % 3 == 0; k++)
				sector[k] = (char)test_rand();
			if (test_rand() % 3 == 0)
				CHECK(pwrite(fd, sector, len, (off_t)at) == (ssize_t)len);
		}
		close(fd);
		str_clear(&notice);
		if (store_open(&s, &o, &e)) {
			test_fail(__FILE__, __LINE__, "cut at %zu: %s", cut, e.msg);
			continue;
		}
		alarms += notice.n > 0;
		store_close(s);
	}
	CHECK_INT(alarms, 0);
	test_note("%d logs with a torn end: no alarm", n);
	free(bytes);
	str_free(&notice);
	remove_dir(base);
	place_remove(&p);
}
