/* tests/sessions/t_snaps_damage.c - kv.db under damage, kill -9, failing calls and full disks.
 *
 * In all cases, either exactly what was saved is loaded, or nothing is loaded and a message gives the reason. The next
 * save works and is found again. Loops are longer under WEIR_SOAK=FACTOR. */
#include "tests/lib/fake_timeline.h"
#include "tests/lib/faultvfs.h"
#include "tests/lib/snaps_help.h"
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

static int soak(int n)
{
	const char *factor = getenv("WEIR_SOAK");
	long f = factor ? strtol(factor, NULL, 10) : 1;

	return n * (int)(f < 1 ? 1 : MIN(100000, f));
}

static void file_write(const char *path, const void *bytes, size_t n)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	if (fd < 0 || write(fd, bytes, n) != (ssize_t)n || close(fd))
		abort();
}

static void path_of(const struct snaps_box *b, const char *suffix, char out[128])
{
	snprintf(out, 128, "%s/kv.db%s", b->dir, suffix);
}

static int exists(const struct snaps_box *b, const char *suffix)
{
	char path[128];
	struct stat st;

	path_of(b, suffix, path);
	return !lstat(path, &st);
}

/* Sessions 1, 2 and 3 have 700, 900 and 1,100 tokens and messages 10, 20 and 30. The last two begin with the same
 * tokens. */
enum { SESSIONS = 3 };
static struct timeline *text_of(int session)
{
	struct timeline *tl = fake_open(1, 24, 1600);

	fake_grow(tl, session == 1 ? 1 : 2, session == 1 ? 700 : 600);
	if (session > 1)
		fake_grow(tl, 1000u * (unsigned)session, session == 2 ? 300 : 500);
	return tl;
}

static void fill(struct snaps_box *b)
{
	struct timeline *tl = text_of(1);

	if (snaps_fingerprint(b->s, &b->engine, tl, &b->fp, NULL))
		abort();
	fake_close(tl);
	for (int i = 1; i <= SESSIONS; i++) {
		tl = text_of(i);
		if (snap_save(b->s, tl, &b->fp, i, i * 10, "extra", 5, NULL, NULL))
			abort();
		fake_close(tl);
	}
}

/* Load the snapshot of a session. 1 = exactly its text was loaded; 0 = it was not loaded, and the timeline has only
 * right rows; -1 = anything else. */
static int recall(struct snaps_box *b, int session, struct snap_loaded *loaded)
{
	struct timeline *want = text_of(session), *got = fake_open(1, 24, 1600);
	struct str extra = { 0 };
	struct err e = { 0 };
	int rc = snap_load(b->s, got, &b->fp, session * 10, &extra, loaded, &e);

	if (rc == 1 && (!fake_same(want, got) || extra.n != 5 || memcmp(extra.p, "extra", 5)))
		rc = -1;
	/* Even if the snapshot was not loaded, its undamaged beginning may have been. */
	if (!rc && (!fake_right(got) || got->tokens.n > want->tokens.n ||
	            (got->tokens.n && memcmp(got->tokens.id, want->tokens.id, got->tokens.n * 4))))
		rc = -1;
	if (!rc && loaded->tokens != (int32_t)got->tokens.n)
		rc = -1;
	if (!rc &&
	    snap_load_prefix(b->s, got, &b->fp, want->tokens.id, want->tokens.n, &(struct snap_loaded){ 0 }, &e) < 0)
		rc = -1;
	if (!fake_right(got))
		rc = -1;
	str_free(&extra);
	fake_close(want);
	fake_close(got);
	return rc;
}

/* Check that a save works, at the second attempt at the latest, and is found. */
static int works_again(struct snaps_box *b)
{
	struct timeline *tl = fake_open(1, 24, 1600);
	struct err e = { 0 };
	int rc = 0;

	fake_grow(tl, 77, 800);
	for (int i = 0; i < 2 && !rc; i++)
		rc = !snap_save(b->s, tl, &b->fp, 9, 90, "extra", 5, NULL, &e) && box_loads(b, tl, 90, 800);
	if (!rc)
		test_note("does not work again: %s", e.msg);
	fake_close(tl);
	return rc;
}

/* ---- the file as a whole ---- */

TEST(a_missing_file_is_no_news)
{
	struct snaps_box b;
	struct snap_loaded loaded;
	char path[128];

	box_open(&b);
	fill(&b);
	snaps_close(b.s);
	path_of(&b, "", path);
	CHECK(!unlink(path));
	CHECK(!box_snaps(&b, NULL));
	CHECK_INT(b.notice.n, 0);
	CHECK_INT(recall(&b, 1, &loaded), 0);
	CHECK_STR(loaded.why, "");
	CHECK(works_again(&b));
	box_close(&b);
}

/* Write other bytes into the file, and open it. The file must be renamed with the suffix `aside`, a new file begun, and
 * a notice given. */
static void replaced(const void *bytes, size_t n, const char *aside, const char *said)
{
	struct snaps_box b;
	struct err e = { 0 };
	char path[128];
	size_t len;
	char *kept;

	box_open(&b);
	fill(&b);
	snaps_close(b.s);
	path_of(&b, "", path);
	file_write(path, bytes, n);
	CHECK_MSG(!box_snaps(&b, &e), "%s", e.msg);
	CHECK_MSG(b.notice.p && strstr(b.notice.p, said), "said '%s'", str_text(&b.notice));
	CHECK(works_again(&b));
	path_of(&b, aside, path);
	kept = test_read(path, &len);
	CHECK(kept && len == n && !memcmp(kept, bytes, n));
	free(kept);
	/* The next start finds nothing to put aside. */
	box_again(&b);
	box_close(&b);
}

TEST(foreign_files_are_put_aside)
{
	static const char text[] = "Dear diary, this is not a database at all, and it is longer than a hundred bytes, "
				   "which is what SQLite would like to see of a header before it says anything.";
	struct snaps_box b;
	char path[128];
	sqlite3 *other;
	size_t n;
	char *bytes;

	replaced(text, sizeof text, ".aside", "is damaged: it was put aside as 'kv.db.aside' and begun anew");
	box_begin(&b);
	path_of(&b, ".other", path);
	if (sqlite3_open(path, &other) || sqlite3_exec(other, "CREATE TABLE recipe(name, steps)", NULL, NULL, NULL))
		abort();
	sqlite3_close(other);
	bytes = test_read(path, &n);
	replaced(bytes, n, ".foreign",
	         "is not a file of snapshots: it was put aside as 'kv.db.foreign' and begun anew");
	/* A second file put aside does not replace the first. */
	path_of(&b, "", path);
	file_write(path, bytes, n);
	CHECK(!box_snaps(&b, NULL));
	snaps_close(b.s);
	path_of(&b, "", path);
	file_write(path, bytes, n);
	CHECK(!box_snaps(&b, NULL));
	CHECK(exists(&b, ".foreign") && exists(&b, ".foreign.1"));
	/* A foreign file is kept when a session is deleted. */
	CHECK_INT(snap_drop(b.s, 1, NULL), 0);
	CHECK(exists(&b, ".foreign"));
	free(bytes);
	box_close(&b);
}

static void with_version(const char *sql, const char *said)
{
	struct snaps_box b;
	struct snap_loaded loaded;
	struct err e = { 0 };

	box_open(&b);
	fill(&b);
	CHECK(!db_exec(&b.s->db, sql, &e));
	snaps_close(b.s);
	CHECK_MSG(!box_snaps(&b, &e), "%s", e.msg);
	CHECK_MSG(b.notice.p && strstr(b.notice.p, said), "said '%s'", str_text(&b.notice));
	CHECK_INT(recall(&b, 1, &loaded), 0);
	CHECK(works_again(&b) && exists(&b, ".aside"));
	/* A deleted session must not survive in the file that was put aside, and gc frees that file's space. */
	if (strstr(sql, "user_version")) {
		uint64_t freed;

		CHECK_INT(snaps_gc(b.s, &freed, NULL), 0);
		CHECK(freed > 300000);
	} else {
		CHECK_INT(snap_drop(b.s, 1, NULL), 0);
	}
	CHECK(!exists(&b, ".aside"));
	box_close(&b);
}

TEST(other_versions_are_put_aside)
{
	with_version("PRAGMA user_version = 9", "was written by a newer weir");
	with_version("PRAGMA user_version = 0", "was written by an older weir");
	with_version("UPDATE about SET value = zeroblob(16)", "belongs to another chat.db");
	with_version("DROP TABLE need", "is damaged");
	with_version("CREATE TABLE more(x)", "is damaged");
	with_version("CREATE INDEX more ON head(session)", "is damaged");
	with_version("INSERT INTO part VALUES(9223372036854775807, 0, x'00')", "is damaged");
}

TEST(cut_files)
{
	struct snaps_box b;
	struct snap_loaded loaded;
	char path[128];
	size_t n;
	char *bytes;
	int anew = 0, steps = soak(24);

	box_open(&b);
	fill(&b);
	snaps_close(b.s);
	path_of(&b, "", path);
	bytes = test_read(path, &n);
	for (int i = 0; i < steps; i++) {
		size_t cut = i < 3 ? (size_t)i * 50 : (size_t)(test_rand() % n);
		struct err e = { 0 };

		file_write(path, bytes, cut);
		CHECK_MSG(!box_snaps(&b, &e), "%zu bytes: %s", cut, e.msg);
		for (int k = 1; k <= SESSIONS; k++)
			/* The missing part of the last page may have been unused. */
			CHECK_MSG(cut > n - PAGE_BYTES ? recall(&b, k, &loaded) >= 0 : !recall(&b, k, &loaded),
			          "%zu bytes", cut);
		anew += b.notice.n > 0 || cut > n - PAGE_BYTES;
		CHECK(works_again(&b));
		snaps_close(b.s);
	}
	/* no notice is needed for the file that was cut to 0 bytes: it counts as new */
	CHECK_MSG(anew >= steps - 1, "%d of %d said", anew, steps);
	free(bytes);
	CHECK(!box_snaps(&b, NULL));
	box_close(&b);
}

TEST(rights_and_places)
{
	struct snaps_box b;
	struct err e = { 0 };
	char path[128], other[128];
	struct stat st;

	box_open(&b);
	fill(&b);
	path_of(&b, "", path);
	CHECK(!stat(path, &st) && (st.st_mode & 07777) == 0600);
	path_of(&b, "-journal", other);
	CHECK(!stat(other, &st) && (st.st_mode & 07777) == 0600);
	snaps_close(b.s);
	/* A kv.db that is a symbolic link or a directory is refused, and nothing is moved. */
	path_of(&b, ".real", other);
	CHECK(!rename(path, other) && !symlink("kv.db.real", path));
	CHECK(box_snaps(&b, &e) && strstr(e.msg, "symbolic link"));
	CHECK(!unlink(path) && !mkdir(path, 0700));
	CHECK(box_snaps(&b, &e) && strstr(e.msg, "not a regular file"));
	CHECK(!rmdir(path) && !rename(other, path));
	/* A file that others may read is made private again. */
	CHECK(!chmod(path, 0644) && !box_snaps(&b, &e));
	CHECK(!stat(path, &st) && (st.st_mode & 07777) == 0600);
	box_close(&b);
}

/* Without the right to write, snapshots can still be loaded. */
TEST(read_only)
{
	struct snaps_box b;
	struct store_options o = { .read_only = 1 };
	struct snap_loaded loaded;
	struct timeline *tl = text_of(1);
	struct err e = { 0 };
	uint64_t freed;

	box_open(&b);
	fill(&b);
	snaps_close(b.s);
	store_close(b.store);
	o.dir = b.dir;
	CHECK(!store_open(&b.store, &o, NULL));
	CHECK_MSG(!box_snaps(&b, &e), "%s", e.msg);
	for (int i = 1; i <= SESSIONS; i++)
		CHECK_INT(recall(&b, i, &loaded), 1);
	CHECK_INT(snap_save(b.s, tl, &b.fp, 1, 11, NULL, 0, NULL, &e), -1);
	CHECK(strstr(e.msg, "can only be read; nothing is saved"));
	CHECK_INT(snaps_gc(b.s, &freed, &e), -1);
	CHECK_INT(snap_drop(b.s, 1, &e), -1);
	CHECK(!box_check(&b));
	CHECK_INT(recall(&b, 1, &loaded), 1);
	fake_close(tl);
	box_close(&b);
}

/* Damage the rows of the file with SQL. */
static void harm(struct snaps_box *b, const char *sql)
{
	struct err e = { 0 };

	if (db_exec(&b->s->db, sql, &e)) {
		fprintf(stderr, "%s: %s\n", sql, e.msg);
		abort();
	}
}

/* A change that a crash interrupted can be undone only by a process that may write. A reader must not use the file in
 * this state. */
TEST(a_reader_waits_for_an_interrupted_change_to_be_undone)
{
	static const char *const part[] = { "chat.db", "chat.db-wal", "kv.db", "kv.db-journal" };
	struct snaps_box b;
	struct store_options o = { .read_only = 1 };
	struct snap_loaded loaded;
	struct err e = { 0 };
	char dir[100], path[700];

	box_open(&b);
	fill(&b);
	harm(&b, "PRAGMA cache_spill=ON; PRAGMA cache_size=1");
	CHECK(!db_begin(&b.s->db, &e));
	/* The changed pages do not fit the cache, so they are written to the file, and the old pages to the journal. */
	harm(&b, "UPDATE part SET data = zeroblob(length(data))");
	snprintf(dir, sizeof dir, "%s/crashed", b.dir);
	CHECK(!mkdir(dir, 0700));
	for (int i = 0; i < 4; i++) {
		size_t n;
		char *bytes;

		snprintf(path, sizeof path, "%s/%s", b.dir, part[i]);
		bytes = test_read(path, &n);
		CHECK(bytes && n > 0);
		snprintf(path, sizeof path, "%s/%s", dir, part[i]);
		file_write(path, bytes, n);
		free(bytes);
	}
	db_end(&b.s->db, -1, NULL);
	snaps_close(b.s);
	store_close(b.store);
	b.s = NULL;
	o.dir = dir;
	CHECK_MSG(!store_open(&b.store, &o, &e), "%s", e.msg);
	CHECK_INT(box_snaps(&b, &e), -1);
	CHECK_MSG(strstr(e.msg, "must be undone first; start weir once"), "%s", e.msg);
	store_close(b.store);
	o.read_only = 0;
	CHECK_MSG(!store_open(&b.store, &o, &e), "%s", e.msg);
	CHECK_MSG(!box_snaps(&b, &e), "%s", e.msg);
	CHECK(!b.notice.n);
	for (int i = 1; i <= SESSIONS; i++)
		CHECK_INT(recall(&b, i, &loaded), 1);
	box_close(&b);
}

/* ---- rows ---- */

TEST(a_bad_chunk_keeps_the_beginning)
{
	struct snaps_box b;
	struct snap_loaded loaded;
	struct timeline *tl;
	struct str report = { 0 };

	box_open(&b);
	fill(&b);
	harm(&b,
	     "UPDATE part SET data = zeroblob(length(data)) WHERE id >> 12 = (SELECT id FROM chunk WHERE depth = 2 AND id "
	     "IN "
	     "(SELECT chunk FROM need, head ON need.head = head.id WHERE message = 30))");
	CHECK_INT(snaps_check(b.s, &report, NULL), 1);
	CHECK_MSG(!strncmp(report.p, "KV entries of 256 tokens are damaged (chunk ", 44) &&
	                  strchr(report.p, '\n') == report.p + report.n - 1,
	          "%s", report.p);
	str_free(&report);
	CHECK_INT(recall(&b, 3, &loaded), 0);
	CHECK_STR(loaded.why,
	          "a part of the snapshot is missing or damaged: 512 tokens restored, 588 will be read again");
	CHECK_INT(recall(&b, 2, &loaded), 1);
	/* The bad chunk was deleted, so the next save writes it again. */
	CHECK_INT(box_check(&b), 0);
	tl = text_of(3);
	CHECK_INT(snap_save(b.s, tl, &b.fp, 3, 30, "extra", 5, NULL, NULL), 0);
	CHECK_INT(recall(&b, 3, &loaded), 1);
	/* A timeline with tokens stays as it is if only a part of a snapshot can be loaded. */
	harm(&b, "UPDATE part SET sum = sum + 1 WHERE id >> 12 = (SELECT max(id) FROM chunk WHERE depth = 2)");
	fake_cut(tl, 300);
	CHECK_INT(snap_load(b.s, tl, &b.fp, 30, NULL, &loaded, NULL), 0);
	CHECK_INT(tl->tokens.n, 300);
	CHECK(fake_right(tl));
	CHECK_STR(loaded.why, "a part of the snapshot is missing or damaged: 1,100 tokens will be read again");
	fake_close(tl);
	box_close(&b);
}

TEST(rows_that_lie)
{
	static const char *const lie[] = {
		"UPDATE head SET message = message % 30 + 10",
		"UPDATE head SET tokens = tokens - 1",
		"UPDATE head SET tokens = -5, chunks = -1, bytes = -1, tail = -1",
		"UPDATE head SET bytes = 9000000000000000000",
		"UPDATE head SET bytes = bytes + 1",
		"UPDATE head SET tail = tail + 144",
		"UPDATE head SET fingerprint = x'00'",
		"UPDATE head SET fingerprint = NULL",
		"UPDATE head SET id = -id",
		"UPDATE head SET id = id + (1 << 50)",
		"UPDATE head SET id = id + 1000",
		"UPDATE chunk SET id = id + 1",
		"UPDATE chunk SET id = 'x'",
		"UPDATE chunk SET id = 1 << 50",
		"UPDATE chunk SET bytes = 7",
		"UPDATE part SET data = 'text'",
		"UPDATE part SET data = NULL",
		"UPDATE part SET data = zeroblob(length(data))",
		"UPDATE part SET data = substr(data, 1, length(data) - 1)",
		"UPDATE part SET data = zeroblob(4194304)",
		"UPDATE part SET sum = NULL",
		"DELETE FROM part WHERE id & 2048",
		"DELETE FROM part",
		"UPDATE part SET id = -id",
	};
	struct snap_loaded loaded;

	for (size_t i = 0; i < LEN(lie); i++) {
		struct snaps_box b;

		box_open(&b);
		fill(&b);
		harm(&b, lie[i]);
		for (int k = 1; k <= SESSIONS; k++)
			CHECK_MSG(recall(&b, k, &loaded) == 0, "%s: session %d, %s", lie[i], k, loaded.why);
		snaps_close(b.s);
		CHECK_MSG(!box_snaps(&b, NULL), "%s", lie[i]);
		for (int k = 1; k <= SESSIONS; k++)
			CHECK_MSG(recall(&b, k, &loaded) == 0, "%s: session %d, %s", lie[i], k, loaded.why);
		CHECK_MSG(works_again(&b), "%s", lie[i]);
		CHECK(snaps_gc(b.s, &(uint64_t){ 0 }, NULL) <= 0);
		CHECK(snap_drop(b.s, 1, NULL) <= 0);
		CHECK_MSG(works_again(&b), "%s", lie[i]);
		box_close(&b);
	}
}

TEST(head_layout_survives_anything)
{
	struct head_layout h = { 3, 30, 144, 1000, 20, 600, 500 }, got;
	uint8_t bytes[HEAD_FIXED];
	uint64_t whole = HEAD_FIXED + 600 * 5 + 1000 + 20;

	head_layout_put(bytes, &h);
	CHECK(!head_layout_get(&got, bytes, whole));
	CHECK(got.session == 3 && got.message == 30 && got.row_bytes == 144 && got.n_head == 1000 &&
	      got.n_extra == 20 && got.tokens == 600 && got.ready == 500);
	CHECK(head_layout_get(&got, bytes, whole - 1) && head_layout_get(&got, bytes, whole + 1) &&
	      head_layout_get(&got, bytes, 10));
	for (int i = 0; i < 20000; i++) {
		uint8_t bad[HEAD_FIXED];
		uint64_t n = test_rand() % 8 ? whole : test_rand() >> (test_rand() % 60);

		memcpy(bad, bytes, sizeof bad);
		for (int k = 0; k < 4; k++)
			bad[24 + test_rand() % 32] =
				(uint8_t)(test_rand() % 3 ? test_rand() : 0xff * (test_rand() & 1));
		if (!head_layout_get(&got, bad, n))
			CHECK(got.tokens >= 0 && got.ready >= 0 && got.ready <= got.tokens &&
			      HEAD_FIXED + 5 * (uint64_t)got.tokens + got.n_head + got.n_extra == n);
	}
}

/* ---- flipped bits ---- */

TEST(flipped_bits)
{
	struct snaps_box b;
	struct snap_loaded loaded;
	char path[128];
	size_t n;
	char *bytes;
	int flips = soak(300), anew = 0, missed = 0, whole = 0, not_opened = 0;

	box_open(&b);
	fill(&b);
	snaps_close(b.s);
	path_of(&b, "", path);
	bytes = test_read(path, &n);
	for (int i = 0; i < flips; i++) {
		/* The first flip is in byte 18, the write version in the head of an SQLite file: SQLite opens such a
		 * file read-only. Every third flip is in the head of a page, where the structure of the trees is. */
		size_t at = !i      ? 18
		            : i % 3 ? (size_t)(test_rand() % n)
		                    : (size_t)(test_rand() % (n / PAGE_BYTES)) * PAGE_BYTES + test_rand() % 120;
		int bit = i ? 1 << (test_rand() & 7) : 8, bad = 0;
		struct err e = { 0 };

		bytes[at] = (char)(bytes[at] ^ bit);
		file_write(path, bytes, n);
		bytes[at] = (char)(bytes[at] ^ bit);
		if (box_snaps(&b, &e)) {
			/* Not expected: a file that cannot be used is put aside, and a new one is opened. */
			CHECK_MSG(0, "byte %zu, bit %d: %s", at, bit, e.msg);
			not_opened++;
			continue;
		}
		for (int k = 1; k <= SESSIONS; k++) {
			int rc = recall(&b, k, &loaded);

			CHECK_MSG(rc >= 0, "byte %zu, bit %d, session %d: %s", at, bit, k, loaded.why);
			bad += rc != 1;
		}
		anew += b.notice.n > 0;
		missed += bad > 0;
		whole += !bad;
		CHECK_MSG(works_again(&b), "byte %zu, bit %d", at, bit);
		if (i % 4 == 0) {
			struct str report = { 0 };
			uint64_t freed;

			snaps_check(b.s, &report, NULL);
			snaps_gc(b.s, &freed, NULL);
			snap_drop(b.s, 1, NULL);
			CHECK_MSG(works_again(&b), "byte %zu, bit %d, after gc and drop", at, bit);
			str_free(&report);
		}
		snaps_close(b.s);
	}
	test_note("%d flips of %zu bytes: %d cost a snapshot (%d the whole file), %d did not matter", flips, n, missed,
	          anew, whole);
	free(bytes);
	CHECK(!box_snaps(&b, NULL));
	box_close(&b);
}

/* Load the snapshot of message 10, of packed copies. 1 = its text came back nearly; 0 = nothing, or the beginning
 * of it, came back nearly; -1 = anything else. */
static int recall_near(struct snaps_box *b, const struct timeline *want)
{
	struct timeline *got = fake_open(1, 64, 1600);
	struct snap_loaded loaded;
	struct err e = { 0 };
	int rc;

	got->dim = 32;
	rc = snap_load(b->s, got, &b->fp, 10, NULL, &loaded, &e);
	if (rc == 1 && got->tokens.n != want->tokens.n)
		rc = -1;
	if (rc >= 0 && (got->tokens.n > want->tokens.n ||
	                (got->tokens.n && memcmp(got->tokens.id, want->tokens.id, got->tokens.n * 4))))
		rc = -1;
	for (size_t i = 0; rc >= 0 && i < got->tokens.n; i++)
		if (fake_error(got, (int32_t)i) > 0.3)
			rc = -1;
	fake_close(got);
	return rc;
}

/* As flipped_bits, of snapshots that were packed. */
TEST(flipped_bits_of_near_copies)
{
	struct snaps_box b;
	struct timeline *tl = fake_open(1, 64, 1600), *other = fake_open(1, 64, 1600);
	char path[128], *bytes;
	size_t n;
	int flips = soak(100), dropped = 0, whole = 0, missed = 0;

	tl->dim = other->dim = 32;
	fake_grow(tl, 1, 1400);
	fake_grow(other, 2, 300);
	box_open(&b);
	CHECK_INT(snaps_fingerprint(b.s, &b.engine, tl, &b.fp, NULL), 0);
	CHECK_INT(snap_save(b.s, tl, &b.fp, 1, 10, NULL, 0, NULL, NULL), 0);
	CHECK_INT(snap_save(b.s, other, &b.fp, 2, 20, NULL, 0, NULL, NULL), 0);
	b.s->budget = 1;
	CHECK(!db_begin(&b.s->db, NULL) && !snaps_read_serial(b.s, NULL) &&
	      !db_end(&b.s->db, snaps_pack_old(b.s, 0, 0, 0, &dropped, NULL) < 0, NULL));
	CHECK_INT(box_number(&b, "SELECT count(*) FROM chunk WHERE length(key) = 33"), 5);
	CHECK_INT(recall_near(&b, tl), 1);
	snaps_close(b.s);
	path_of(&b, "", path);
	bytes = test_read(path, &n);
	for (int i = 0; i < flips; i++) {
		size_t at = i % 3 ? (size_t)(test_rand() % n)
		                  : (size_t)(test_rand() % (n / PAGE_BYTES)) * PAGE_BYTES + test_rand() % 120;
		int bit = 1 << (test_rand() & 7), rc;
		struct err e = { 0 };

		bytes[at] = (char)(bytes[at] ^ bit);
		file_write(path, bytes, n);
		bytes[at] = (char)(bytes[at] ^ bit);
		CHECK_MSG(!box_snaps(&b, &e), "byte %zu, bit %d: %s", at, bit, e.msg);
		rc = recall_near(&b, tl);
		CHECK_MSG(rc >= 0, "byte %zu, bit %d", at, bit);
		whole += rc == 1;
		missed += !rc;
		/* What is left can be packed, checked and deleted. */
		if (i % 4 == 0) {
			struct str report = { 0 };
			uint64_t freed;

			b.s->budget = 1;
			snaps_gc(b.s, &freed, NULL);
			snaps_check(b.s, &report, NULL);
			snap_drop(b.s, 1, NULL);
			str_free(&report);
			b.s->budget = 1 << 30;
			CHECK_MSG(works_again(&b), "byte %zu, bit %d, after gc and drop", at, bit);
		}
		snaps_close(b.s);
	}
	test_note("%d flips of %zu bytes: %d cost the packed snapshot, %d did not matter", flips, n, missed, whole);
	free(bytes);
	CHECK(!box_snaps(&b, NULL));
	fake_close(tl);
	fake_close(other);
	box_close(&b);
}

/* ---- kill -9 ---- */

/* What the child does at step i is a function of the seed, so that the parent can compute it. */
enum what { DO_SAVE, DO_ROWS, DO_GC, DO_DROP };
struct step {
	enum what what;
	int session;
	int32_t tokens;
	uint64_t text;
};
static struct step step_of(uint64_t seed, int i)
{
	uint64_t h = fake_mix(seed * 1000003 + (uint64_t)i);
	struct step s = { .session = 1 + (int)(h % 3),
		          .tokens = 200 + (int32_t)(h >> 8) % 900,
		          .text = 1 + (h >> 40) % 3 };
	int pick = (int)(h >> 48) % 12;

	s.what = pick < 8 ? DO_SAVE : pick < 9 ? DO_ROWS : pick < 11 ? DO_GC : DO_DROP;
	if (s.tokens < 200)
		s.tokens = 200 - s.tokens % 200;
	return s;
}

static int64_t message_of(int round, int i)
{
	return (int64_t)round * 100000 + i;
}

static void child(struct snaps_box *b, int round, uint64_t seed, int pipe_fd)
{
	struct store_options o = { .dir = b->dir };

	if (store_open(&b->store, &o, NULL) || box_snaps(b, NULL) || b->notice.n || write(pipe_fd, "r", 1) != 1)
		_exit(2);
	for (int i = 0;; i++) { /* until it is killed */
		struct step s = step_of(seed, i);
		struct timeline *tl = fake_open(1, 24, 1600);
		uint64_t freed;
		int rc;

		fake_grow(tl, s.text, s.tokens);
		rc = s.what == DO_SAVE
		             ? snap_save(b->s, tl, &b->fp, s.session, message_of(round, i), NULL, 0, NULL, NULL)
		     : s.what == DO_ROWS ? snap_save_entries(b->s, tl, &b->fp, NULL, NULL)
		     : s.what == DO_GC   ? snaps_gc(b->s, &freed, NULL)
		                         : snap_drop(b->s, s.session, NULL);
		fake_close(tl);
		if (rc || write(pipe_fd, "a", 1) != 1)
			_exit(3);
	}
}

TEST(kill_at_any_moment)
{
	struct snaps_box b;
	int rounds = soak(120), acks = 0, loads = 0;

	box_open(&b);
	snaps_close(b.s);
	store_close(b.store);
	for (int round = 1; round <= rounds; round++) {
		uint64_t seed = test_rand();
		int fd[2], status, done = 0, last[4] = { -1, -1, -1, -1 };
		struct store_options o = { .dir = b.dir };
		struct timespec pause = { .tv_nsec = (long)(test_rand() % 30000000) };
		char c;
		pid_t pid;

		if (pipe(fd) || (pid = fork()) < 0)
			abort();
		if (!pid) {
			close(fd[0]);
			child(&b, round, seed, fd[1]);
		}
		close(fd[1]);
		if (read(fd[0], &c, 1) == 1)
			nanosleep(&pause, NULL);
		kill(pid, SIGKILL);
		while (read(fd[0], &c, 1) == 1)
			done++;
		close(fd[0]);
		waitpid(pid, &status, 0);
		CHECK_MSG(WIFSIGNALED(status), "round %d: the child ended with %d", round, WEXITSTATUS(status));
		acks += done;
		/* The last acknowledged snapshot of each session is there, whatever step was interrupted. */
		CHECK(!store_open(&b.store, &o, NULL));
		if (box_snaps(&b, NULL))
			abort();
		CHECK_MSG(!b.notice.n, "round %d: %s", round, b.notice.p);
		for (int i = 0; i < done; i++) {
			struct step s = step_of(seed, i);

			if (s.what == DO_SAVE)
				last[s.session] = i;
			else if (s.what == DO_DROP)
				last[s.session] = -1;
		}
		if (step_of(seed, done).what == DO_DROP)
			/* the interrupted step may have dropped the session's snapshots */
			last[step_of(seed, done).session] = -1;
		for (int k = 1; k <= 3; k++) {
			struct timeline *tl = fake_open(1, 24, 1600);

			if (last[k] >= 0) {
				struct step s = step_of(seed, last[k]);

				fake_grow(tl, s.text, s.tokens);
				CHECK_MSG(box_loads(&b, tl, message_of(round, last[k]), s.tokens),
				          "round %d, step %d of %d is lost", round, last[k], done);
				loads++;
			}
			fake_close(tl);
		}
		CHECK_INT(box_number(&b, "SELECT count(*) FROM head WHERE done = 0"), 0);
		CHECK_INT(box_number(&b, "SELECT count(*) FROM zero"), 0);
		if (round % 8 == 0)
			CHECK_MSG(!box_check(&b), "round %d", round);
		snaps_close(b.s);
		store_close(b.store);
	}
	test_note("%d kills, %d acknowledged changes, %d snapshots found again", rounds, acks, loads);
	b.s = NULL;
	b.store = NULL;
	box_close(&b);
}

/* ---- failing calls ---- */

struct op {
	const char *name;
	int (*run)(struct snaps_box *);
};

static int op_save(struct snaps_box *b)
{
	struct timeline *tl = fake_open(1, 24, 1600);
	int rc;

	fake_grow(tl, 55, 700);
	rc = snap_save(b->s, tl, &b->fp, 1, 11, "extra", 5, NULL, NULL);
	fake_close(tl);
	return rc;
}

static int op_rows(struct snaps_box *b)
{
	struct timeline *tl = fake_open(1, 24, 1600);
	int rc;

	fake_grow(tl, 56, 700);
	rc = snap_save_entries(b->s, tl, &b->fp, NULL, NULL);
	fake_close(tl);
	return rc;
}

static int op_load(struct snaps_box *b)
{
	struct snap_loaded loaded;
	int rc = recall(b, 2, &loaded);

	CHECK(rc >= 0);
	/* If nothing was loaded, a reason is given. */
	CHECK(rc > 0 || loaded.why[0]);
	return rc > 0 ? 0 : -1;
}

static int op_gc(struct snaps_box *b)
{
	uint64_t freed;

	return snaps_gc(b->s, &freed, NULL);
}

static int op_drop(struct snaps_box *b)
{
	return snap_drop(b->s, 3, NULL);
}

static int op_budget(struct snaps_box *b)
{
	struct timeline *tl = fake_open(1, 24, 1600);
	uint64_t used, empty;
	int rc = snaps_space(b->s, &used, &empty, NULL);

	fake_grow(tl, 57, 700);
	if (!rc) {
		b->s->budget = used;
		rc = snap_save(b->s, tl, &b->fp, 4, 40, "extra", 5, NULL, NULL);
	}
	fake_close(tl);
	return rc;
}

static int op_open(struct snaps_box *b)
{
	struct err e = { 0 };
	int rc;

	snaps_close(b->s);
	b->s = NULL;
	rc = box_snaps(b, &e);
	CHECK(!rc || e.msg[0]);
	/* A failing disk is no reason to put the file aside. */
	CHECK_MSG(!b->notice.n, "%s", b->notice.p);
	return rc;
}

static void failing(const struct op *op, const char *bytes, size_t n, struct snaps_box *b, int kinds, int sticky,
                    int full, int step)
{
	char path[128];
	int hits = 1, rc = 0;

	path_of(b, "", path);
	for (int nth = 1; hits; nth += step) {
		struct snap_loaded loaded;
		struct err e = { 0 };

		file_write(path, bytes, n);
		b->vfs = FAULT_VFS;
		fault_set(0, 0, 0, 0);
		if (box_snaps(b, &e)) {
			CHECK_MSG(0, "%s: %s", op->name, e.msg);
			return;
		}
		fault_set(kinds, nth, sticky, full);
		rc = op->run(b);
		hits = fault_hits();
		CHECK_MSG(hits || !rc, "%s fails without a failing call", op->name);
		/* After a single failed call the same connection works again. */
		if (!sticky && b->s)
			CHECK_MSG(works_again(b), "%s, call %d", op->name, nth);
		fault_set(0, 0, 0, 0);
		if (b->s)
			CHECK_MSG(works_again(b), "%s, call %d", op->name, nth);
		snaps_close(b->s);
		b->vfs = NULL;
		CHECK_MSG(!box_snaps(b, &e), "%s, call %d: %s", op->name, nth, e.msg);
		CHECK_MSG(!b->notice.n, "%s, call %d: %s", op->name, nth, b->notice.p);
		/* No operation changes session 2, but one that is over the budget may drop its snapshots. */
		if (op->run != op_budget)
			CHECK_MSG(recall(b, 2, &loaded) == 1, "%s, call %d: %s", op->name, nth, loaded.why);
		if (op->run != op_drop && op->run != op_budget) {
			CHECK_MSG(recall(b, 1, &loaded) == 1, "%s, call %d: %s", op->name, nth, loaded.why);
			CHECK_MSG(recall(b, 3, &loaded) == 1, "%s, call %d: %s", op->name, nth, loaded.why);
		}
		if (op->run == op_drop && !rc) {
			CHECK_INT(recall(b, 3, &loaded), 0);
			CHECK_STR(loaded.why, "");
		}
		if (op->run == op_save && !rc) {
			struct timeline *tl = fake_open(1, 24, 1600);

			fake_grow(tl, 55, 700);
			CHECK_MSG(box_loads(b, tl, 11, 700), "%s, call %d: said to be saved", op->name, nth);
			fake_close(tl);
		}
		if (nth % 5 == 0)
			CHECK_MSG(!box_check(b), "%s, call %d", op->name, nth);
		snaps_close(b->s);
	}
}

TEST(every_call_fails_once)
{
	static const struct op op[] = {
		{ "save", op_save }, { "rows", op_rows },     { "load", op_load }, { "gc", op_gc },
		{ "drop", op_drop }, { "budget", op_budget }, { "open", op_open },
	};
	struct snaps_box b;
	char path[128];
	size_t n;
	char *bytes;
	int step = getenv("WEIR_SOAK") ? 1 : 3;

	fault_init();
	box_open(&b);
	fill(&b);
	/* Store parts without a chunk, which gc must delete. */
	harm(&b, "INSERT INTO part SELECT id + (1 << 30), sum, data FROM part LIMIT 3");
	snaps_close(b.s);
	path_of(&b, "", path);
	bytes = test_read(path, &n);
	for (size_t i = 0; i < LEN(op); i++)
		for (int sticky = 0; sticky < 2; sticky++) {
			failing(&op[i], bytes, n, &b, FAULT_ALL & ~FAULT_WRITE, sticky, 0, 1);
			failing(&op[i], bytes, n, &b, FAULT_WRITE, sticky, sticky, step);
		}
	free(bytes);
	b.vfs = NULL;
	CHECK(!box_snaps(&b, NULL));
	box_close(&b);
}

/* ---- no memory ---- */

TEST(memory_runs_out)
{
	static int (*const op[])(struct snaps_box *) = { op_save, op_rows, op_gc, op_drop };
	struct snaps_box b;
	struct snap_loaded loaded;

	box_open(&b);
	fill(&b);
	for (size_t i = 0; i < LEN(op); i++) {
		int rc = -1, failed = 0;

		/* In each round SQLite gets a little more memory, until it is enough. */
		for (int64_t more = 0; rc; more += 24 << 10) {
			CHECK_MSG(more < (64 << 20), "64 MiB are not enough");
			if (more >= (64 << 20))
				break;
			sqlite3_hard_heap_limit64(sqlite3_memory_used() + more);
			rc = op[i](&b);
			failed += rc != 0;
			sqlite3_hard_heap_limit64(0);
			if (i < 3)
				for (int k = 1; k <= SESSIONS; k++)
					CHECK_MSG(recall(&b, k, &loaded) == 1, "operation %zu with %lld bytes: %s", i,
					          (long long)more, loaded.why);
		}
		CHECK_MSG(failed > 1, "operation %zu failed %d times", i, failed);
	}
	CHECK_INT(recall(&b, 3, &loaded), 0);
	for (int64_t more = 0, rc = -1; rc != 1 && more < (64 << 20); more += 24 << 10) {
		struct timeline *tl = fake_open(1, 24, 1600);
		struct err e = { 0 };

		sqlite3_hard_heap_limit64(sqlite3_memory_used() + more);
		rc = snap_load(b.s, tl, &b.fp, 20, NULL, &loaded, &e);
		sqlite3_hard_heap_limit64(0);
		CHECK(rc != -1 || (e.code == ERR_FIT && strstr(e.msg, "no memory")));
		CHECK(fake_right(tl));
		fake_close(tl);
	}
	CHECK_INT(recall(&b, 2, &loaded), 1);
	CHECK(works_again(&b) && !box_check(&b));
	box_close(&b);
}

/* ---- full disks ---- */

TEST(file_size_limit)
{
	struct snaps_box b;
	struct snap_loaded loaded;
	struct stat st;
	char path[128];
	int status;
	pid_t pid;

	box_open(&b);
	fill(&b);
	snaps_close(b.s);
	store_close(b.store);
	path_of(&b, "", path);
	CHECK(!stat(path, &st));
	for (int extra = 0; extra <= 160; extra += 32) {
		struct store_options o = { .dir = b.dir };

		if ((pid = fork()) < 0)
			abort();
		if (!pid) {
			struct rlimit limit = { (rlim_t)st.st_size + (rlim_t)extra * 1024, RLIM_INFINITY };
			struct timeline *tl = fake_open(1, 24, 1600);
			struct err e = { 0 };
			int rc;

			signal(SIGXFSZ, SIG_IGN);
			if (store_open(&b.store, &o, NULL) || setrlimit(RLIMIT_FSIZE, &limit) || box_snaps(&b, NULL) ||
			    b.notice.n)
				_exit(2);
			fake_grow(tl, 1000u + (unsigned)extra, 1200);
			rc = snap_save(b.s, tl, &b.fp, 5, 50, NULL, 0, NULL, &e);
			_exit(!rc || !e.msg[0] || recall(&b, 1, &loaded) != 1 ? 3 : 0);
		}
		waitpid(pid, &status, 0);
		CHECK_MSG(WIFEXITED(status) && !WEXITSTATUS(status), "%d KiB more: status %d", extra, status);
		CHECK(!store_open(&b.store, &o, NULL) && !box_snaps(&b, NULL));
		CHECK_INT(b.notice.n, 0);
		for (int k = 1; k <= SESSIONS; k++)
			CHECK_INT(recall(&b, k, &loaded), 1);
		CHECK(!box_check(&b));
		snaps_close(b.s);
		store_close(b.store);
	}
	CHECK(!store_open(&b.store, &(struct store_options){ .dir = b.dir }, NULL) && !box_snaps(&b, NULL));
	CHECK(works_again(&b));
	box_close(&b);
}
