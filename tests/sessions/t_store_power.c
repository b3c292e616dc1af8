/* tests/sessions/t_store_power.c - chat.db and kv.db when the power fails.
 *
 * Random changes of sessions and snapshots run on a VFS that knows what was synced (faultvfs.h). At some call the power
 * fails, and the disk is left in a possible state. From it the store must open, undamaged and with every acknowledged
 * change; kv.db must be undamaged, too, and have the snapshots it was given. The next round begins with that disk, so
 * that power can also fail during the repair after a failure. WEIR_SOAK=N: N times as many. */
#include "tests/lib/fake_timeline.h"
#include "tests/lib/faultvfs.h"
#include "tests/lib/store_life.h"

#include "sessions/snap/snap_private.h"

#include <fcntl.h>

static const struct fingerprint fp = { { 1, 2, 3 }, { 4, 5, 6 } };

/* The snapshot that a session must have. world.pending: the snapshot that the interrupted step may have left instead;
 * dropped: 1 = the step may have left none. */
struct snapshot {
	int64_t session, message;
	int32_t tokens;
	int dropped;
};
enum { SNAPS = CHATS + 2, TOKENS = 800 };

struct world {
	char dir[440], image[440], copy[440];
	struct store *store;
	struct snaps *snaps;
	struct life life, with; /* life: the acknowledged state; with: the state if the interrupted step was done */
	struct snapshot snap[SNAPS], pending;
	int snaps_n;
	int no_sync; /* leave out syncs, to check that this test notices: 1 = of chat.db, 2 = of kv.db */
	int steps, saves, cuts, unsynced, kept, lost, aside;
};

static int soak(void)
{
	const char *s = getenv("WEIR_SOAK");
	long n = s ? strtol(s, NULL, 10) : 1;

	return n < 1 ? 1 : n > 100000 ? 100000 : (int)n;
}

static void copy_file(const char *from, const char *to)
{
	size_t n;
	char *bytes = test_read(from, &n);
	int fd = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	if (fd < 0 || !bytes || write(fd, bytes, n) != (ssize_t)n)
		test_fail(__FILE__, __LINE__, "%s was not copied", to);
	close(fd);
	free(bytes);
}

static void copy_all(const char *from, const char *to)
{
	DIR *d = opendir(from);

	remove_dir(to);
	mkdir(to, 0700);
	for (struct dirent *f; d && (f = readdir(d));) {
		char a[900], b[900];
		if (f->d_name[0] == '.')
			continue;
		snprintf(a, sizeof a, "%s/%s", from, f->d_name);
		snprintf(b, sizeof b, "%s/%s", to, f->d_name);
		copy_file(a, b);
	}
	if (d)
		closedir(d);
}

/* ---- snapshots ---- */

static struct snapshot *snapshot_of(struct world *w, int64_t session)
{
	for (int i = 0; i < w->snaps_n; i++)
		if (w->snap[i].session == session)
			return &w->snap[i];
	return NULL;
}

/* Return a session's text. Each session always has the same text, and all sessions begin alike. */
static struct timeline *text_of(int64_t session, int32_t n)
{
	struct timeline *tl = fake_open(1, 8, TOKENS + 8);

	fake_grow(tl, 1, MIN(n, 300));
	if (n > 300)
		fake_grow(tl, 1000u + (unsigned)session, n - 300);
	return tl;
}

static int save_step(struct world *w, const struct chat *c, struct err *e)
{
	struct snapshot *old = snapshot_of(w, c->id);
	int32_t n = (old ? old->tokens : 200) + 1 + roll(150);
	struct timeline *tl = text_of(c->id, MIN(n, TOKENS));
	int rc;

	w->pending = (struct snapshot){ c->id, ++w->saves, (int32_t)tl->tokens.n, 0 };
	rc = snap_save(w->snaps, tl, &fp, c->id, w->pending.message, NULL, 0, NULL, e);
	fake_close(tl);
	return rc;
}

static void acknowledge(struct world *w)
{
	struct snapshot *s = snapshot_of(w, w->pending.session);

	if (w->pending.dropped && s)
		*s = w->snap[--w->snaps_n];
	else if (!w->pending.dropped && s)
		*s = w->pending;
	else if (!w->pending.dropped && w->snaps_n < SNAPS)
		w->snap[w->snaps_n++] = w->pending;
	w->pending.session = 0;
}

static int loads(struct snaps *s, const struct snapshot *want)
{
	struct timeline *tl = fake_open(1, 8, TOKENS + 8), *like = text_of(want->session, want->tokens);
	struct snap_loaded loaded;
	int rc = snap_load(s, tl, &fp, want->message, NULL, &loaded, NULL) == 1 && fake_same(tl, like);

	fake_close(tl);
	fake_close(like);
	return rc;
}

/* ---- living ---- */

static int world_open(struct world *w, struct err *e)
{
	struct str notice = { 0 };
	struct store_options o = { .dir = w->dir, .vfs = FAULT_VFS, .notice = &notice };
	int rc = store_open(&w->store, &o, e);

	w->snaps = NULL;
	if (rc)
		w->store = NULL;
	if (!rc)
		rc = snaps_open(&w->snaps, w->store, &(struct snaps_options){ 1u << 30, FAULT_VFS }, &notice, e);
	if (rc)
		w->snaps = NULL;
	if (!rc && notice.n && !w->no_sync)
		test_fail(__FILE__, __LINE__, "%s", notice.p);
	str_free(&notice);
	/* In half of the rounds the log is copied into the file often. */
	if (!rc && roll(2))
		rc = db_exec(&w->store->db, "PRAGMA wal_autocheckpoint=8", e);
	if (!rc && w->no_sync)
		rc = db_exec(w->no_sync == 1 ? &w->store->db : &w->snaps->db, "PRAGMA synchronous=OFF", e);
	return rc;
}

static void world_close(struct world *w)
{
	snaps_close(w->snaps);
	store_close(w->store);
	w->snaps = NULL;
	w->store = NULL;
}

static int live_on(struct world *w, struct err *e)
{
	struct entry y;
	struct stored_message m;
	int what = roll(10), rc;

	w->steps++;
	if (what == 0) {
		world_close(w);
		return power_off() ? -1 : world_open(w, e);
	}
	if (what < 4 && w->life.n) {
		const struct chat *c = &w->life.chat[roll(w->life.n)];
		if (what == 3 && !roll(3)) {
			w->pending = (struct snapshot){ .session = c->id, .dropped = 1 };
			rc = snap_drop(w->snaps, c->id, e);
		} else {
			rc = save_step(w, c, e);
		}
		if (!rc && !power_off())
			acknowledge(w);
		return rc;
	}
	life_choose(&w->life, &y, &m);
	rc = life_step(w->store, &w->life, &y, &m, e);
	w->with = w->life;
	live(&w->with, &y);
	if (!rc && !power_off())
		w->life = w->with;
	return rc;
}

/* ---- what is left ---- */

static int fault(struct world *w, int line, const char *what, const char *more)
{
	if (!w->no_sync)
		test_fail(__FILE__, line, "cut %d: %s%s%s", w->cuts, what, *more ? ": " : "", more);
	w->lost++;
	return -1;
}

static int check_chats(struct world *w, struct store *s)
{
	static struct life now;
	struct str report = { 0 };
	struct err e = { 0 };
	int rc = 0;

	if (store_check(s, &report, &e))
		rc = fault(w, __LINE__, "chat.db is damaged", report.n ? report.p : e.msg);
	else if (read_life(s, &now, &e))
		rc = fault(w, __LINE__, "chat.db cannot be read", e.msg);
	else if (!same_life(&w->life, &now) && !same_life(&w->with, &now))
		rc = fault(w, __LINE__, "chat.db is not what was acknowledged, nor one step further", "");
	else
		w->kept += !same_life(&w->life, &now);
	w->life = w->with = now;
	str_free(&report);
	return rc;
}

static int check_snaps(struct world *w, struct store *s)
{
	struct snaps_options o = { 1u << 30, NULL };
	struct snaps *snaps;
	struct str notice = { 0 }, report = { 0 };
	struct err e = { 0 };
	int rc = 0;

	if (snaps_open(&snaps, s, &o, &notice, &e)) {
		rc = fault(w, __LINE__, "kv.db", e.msg);
		goto out;
	}
	if (notice.n)
		rc = fault(w, __LINE__, "kv.db was put aside", notice.p);
	if (snaps_check(snaps, &report, &e))
		rc = fault(w, __LINE__, "kv.db is damaged", report.n ? report.p : e.msg);
	/* The session of the interrupted step may have its old or its new snapshot: the old one is dropped only after
	 * the new one is saved. */
	if (w->pending.session && w->pending.dropped) {
		struct snapshot *old = snapshot_of(w, w->pending.session);
		if (old && !loads(snaps, old))
			acknowledge(w);
	} else if (w->pending.session && loads(snaps, &w->pending)) {
		acknowledge(w);
	}
	w->pending.session = 0;
	for (int i = 0; i < w->snaps_n && !rc; i++)
		if (!loads(snaps, &w->snap[i])) {
			char text[60];
			snprintf(text, sizeof text, "message %lld", (long long)w->snap[i].message);
			rc = fault(w, __LINE__, "a snapshot that was taken does not load", text);
		}
	snaps_close(snaps);
out:
	str_free(&notice);
	str_free(&report);
	return rc;
}

/* Run until a power failure, and check what is left. -1: something is lost. */
static int one_cut(struct world *w)
{
	struct str notice = { 0 };
	struct store_options o = { .dir = w->copy, .notice = &notice };
	struct store *s;
	struct err e = { 0 };
	char path[500];
	uint64_t seed;
	int rc;

	w->cuts++;
	dice = test_rand();
	seed = test_rand();
	w->with = w->life;
	w->pending.session = 0;
	remove_dir(w->image);
	power_begin(w->dir);
	/* Let the power fail early in half of the rounds, because opening the files repairs the damage of the failure
	 * before. */
	power_cut(1 + roll(roll(2) ? 30 : 300), w->image, seed);
	rc = world_open(w, &e);
	while (!rc && !power_off())
		rc = live_on(w, &e);
	if (!power_off())
		fault(w, __LINE__, "a step failed before the power did", e.msg);
	world_close(w);
	w->unsynced += power_unsynced();
	power_end();
	remove_dir(w->dir);
	/* After a failure the shared memory can have any contents. */
	if (roll(2)) {
		char noise[4096];
		int fd;
		for (size_t i = 0; i < sizeof noise; i++)
			noise[i] = (char)roll(256);
		snprintf(path, sizeof path, "%s/chat.db-shm", w->image);
		fd = open(path, O_WRONLY | O_CREAT, 0600);
		CHECK(fd >= 0 && write(fd, noise, sizeof noise) == (ssize_t)sizeof noise);
		close(fd);
	}
	copy_all(w->image, w->copy);
	e = (struct err){ 0 };
	if (store_open(&s, &o, &e))
		return fault(w, __LINE__, "chat.db does not open", e.msg);
	/* The remains of the log after a power failure must not be reported as damage. */
	if (notice.n)
		rc = fault(w, __LINE__, "an alarm", notice.p);
	str_free(&notice);
	rc = check_chats(w, s);
	if (check_snaps(w, s))
		rc = -1;
	store_close(s);
	remove_dir(w->copy);
	/* The next round begins with the disk before any repair. */
	if (rename(w->image, w->dir))
		test_fail(__FILE__, __LINE__, "%s cannot be renamed", w->image);
	return rc;
}

static void many_cuts(struct world *w, int n)
{
	struct place p;
	double t = now_seconds();

	fault_init();
	place_dir(&p);
	snprintf(w->dir, sizeof w->dir, "%s", p.dir);
	snprintf(w->image, sizeof w->image, "%s-image", p.dir);
	snprintf(w->copy, sizeof w->copy, "%s-copy", p.dir);
	for (int i = 0; i < n && (w->no_sync || !w->lost); i++) {
		/* Begin without files now and then, because creating them is the most delicate step. */
		if (i % 12 == 0) {
			remove_dir(w->dir);
			mkdir(w->dir, 0700);
			w->life.n = 0;
			w->snaps_n = 0;
		}
		if (one_cut(w) && w->no_sync) {
			remove_dir(w->dir);
			mkdir(w->dir, 0700);
			w->life.n = w->snaps_n = 0;
		}
	}
	test_note("%d cuts%s, %d steps, %d changes unsynced, %d steps there unacknowledged, %d with a loss, %.1f s",
	          w->cuts, w->no_sync ? w->no_sync == 1 ? " without syncs of chat.db" : " without syncs of kv.db" : "",
	          w->steps, w->unsynced, w->kept, w->lost, now_seconds() - t);
	remove_dir(w->dir);
	remove_dir(w->image);
	remove_dir(w->copy);
	place_remove(&p);
}

TEST(power_may_fail_at_any_moment)
{
	static struct world w;

	many_cuts(&w, (test_patience() > 1 ? 60 : 300) * soak());
	CHECK(w.unsynced > w.cuts);
	CHECK(w.lost == 0);
}

/* Check the test itself: without syncs much is lost, and the test must report it. */
TEST(without_syncs_power_failures_are_seen)
{
	static struct world w[2] = { { .no_sync = 1 }, { .no_sync = 2 } };

	for (int i = 0; i < 2; i++) {
		many_cuts(&w[i], 30 + 60 * i);
		CHECK(w[i].lost > 3);
	}
}
