/* tests/sessions/t_store_files.c - chat.db as a file: rights, locks, readers beside a writer, formats, hostile content,
 * speed. */
#include "tests/lib/storedir.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <sys/wait.h>

/* ---- the directory, rights, locks ---- */

static int mode_of(const struct place *p, const char *name)
{
	char path[500];
	struct stat st;

	snprintf(path, sizeof path, "%s/%s", p->dir, name);
	return lstat(path, &st) ? -1 : (int)(st.st_mode & 07777);
}

TEST(files_are_private_whatever_the_umask)
{
	static const mode_t umasks[] = { 0, 022, 077, 0277, 0777 };

	for (size_t i = 0; i < LEN(umasks); i++) {
		struct place p;
		struct store *s;
		mode_t before;

		place_dir(&p);
		before = umask(umasks[i]);
		place_reopen(&p, &s);
		say_message(s, begin(s, NULL), 0, ROLE_USER, "secret");
		umask(before);
		CHECK_INT(mode_of(&p, ""), 0700);
		CHECK_INT(mode_of(&p, "chat.db"), 0600);
		CHECK_INT(mode_of(&p, "chat.db-wal"), 0600);
		CHECK_INT(mode_of(&p, "chat.db-shm"), 0600);
		CHECK_INT(mode_of(&p, "lock"), 0600);
		place_remove(&p);
	}
}

TEST(loose_modes_are_tightened)
{
	struct place p;
	struct store *s = place_make(&p);
	char path[500];

	store_close(s);
	p.store = NULL;
	CHECK_INT(mode_of(&p, "chat.db-wal"), -1);
	snprintf(path, sizeof path, "%s/chat.db", p.dir);
	CHECK(!chmod(path, 0644) && !chmod(p.dir, 0755));
	place_reopen(&p, &s);
	CHECK_INT(mode_of(&p, "chat.db"), 0600);
	CHECK_INT(mode_of(&p, ""), 0700);
	place_remove(&p);
}

static const char *open_error(const char *dir, int read_only)
{
	static struct err err;
	struct store_options o = { .dir = dir, .read_only = read_only };
	struct store *s;

	err = (struct err){ 0 };
	if (store_open(&s, &o, &err)) {
		if (s)
			test_fail(__FILE__, __LINE__, "a store beside an error");
		for (const char *c = err.msg; *c; c++)
			if (*c == '\n')
				test_fail(__FILE__, __LINE__, "more than one line: %s", err.msg);
		return err.msg;
	}
	store_close(s);
	return "";
}
#define OPEN_REFUSED(dir, part)                                                                                        \
	do {                                                                                                           \
		const char *m_ = open_error(dir, 0);                                                                   \
		CHECK_MSG(strstr(m_, part), "'%s' is not in \"%s\"", part, m_);                                        \
	} while (0)

TEST(strange_directories_and_files_are_refused)
{
	struct place p;
	struct store *s = place_make(&p);
	char link[500], other[500], db[500], wal[500];

	store_close(s);
	p.store = NULL;
	snprintf(other, sizeof other, "%s-link", p.dir);
	CHECK(!symlink(p.dir, other));
	OPEN_REFUSED(other, "it is a symbolic link");
	snprintf(link, sizeof link, "%s-link/", p.dir);
	OPEN_REFUSED(link, "it is a symbolic link");
	unlink(other);
	CHECK(!chmod(p.dir, 0770));
	OPEN_REFUSED(p.dir, "others may write there; chmod 700 it");
	CHECK_INT(mode_of(&p, ""), 0770);
	CHECK(!chmod(p.dir, 0700));
	if (!geteuid()) {
		CHECK(!chown(p.dir, 65534, (gid_t)-1));
		OPEN_REFUSED(p.dir, "it belongs to another user (65534)");
		CHECK(!chown(p.dir, 0, (gid_t)-1));
	} else {
		OPEN_REFUSED("/usr", "it belongs to another user (0)");
	}
	/* Refuse a directory with unsafe files. */
	snprintf(db, sizeof db, "%s/chat.db", p.dir);
	snprintf(other, sizeof other, "%s/elsewhere", p.dir);
	CHECK(!rename(db, other) && !symlink("elsewhere", db));
	OPEN_REFUSED(p.dir, "it is a symbolic link");
	CHECK(!unlink(db) && !linkat(AT_FDCWD, other, AT_FDCWD, db, 0));
	OPEN_REFUSED(p.dir, "it has a second name");
	CHECK(!unlink(other));
	CHECK_STR(open_error(p.dir, 0), "");
	snprintf(wal, sizeof wal, "%s/chat.db-wal", p.dir);
	CHECK(!symlink("/etc/passwd", wal));
	OPEN_REFUSED(p.dir, "is not a plain file of yours");
	CHECK(!unlink(wal) && !unlink(db) && !mkfifo(db, 0600));
	OPEN_REFUSED(p.dir, "not a regular file");
	CHECK(!unlink(db) && !mkdir(db, 0700));
	OPEN_REFUSED(p.dir, "not a regular file");
	rmdir(db);
	snprintf(other, sizeof other, "%s/lock", p.dir);
	CHECK(!unlink(other) && !mkfifo(other, 0600));
	OPEN_REFUSED(p.dir, "is not a plain file of yours");
	CHECK(!unlink(other) && !symlink("x", other));
	OPEN_REFUSED(p.dir, "cannot write in");
	unlink(other);
	snprintf(other, sizeof other, "%s/a", p.dir);
	close(open(other, O_CREAT | O_WRONLY, 0600));
	OPEN_REFUSED(other, "it is not a directory");
	snprintf(other, sizeof other, "%s/a/b", p.dir);
	OPEN_REFUSED(other, "cannot");
	place_remove(&p);
}

/* The entry that getpwuid() below returns in place of the C library's. */
static struct passwd *the_user;

struct passwd *getpwuid(uid_t uid)
{
	return the_user;
}

TEST(directory_follows_the_environment)
{
	struct passwd user = { .pw_name = (char *)"user" };
	struct place p;
	struct store *s;
	struct err err = { 0 };
	struct store_options o = { 0 };
	char want[500], *old = getenv("XDG_DATA_HOME"), *home = getenv("HOME");

	place_dir(&p);
	old = old ? xstrndup(old, 4000) : NULL;
	home = home ? xstrndup(home, 4000) : NULL;
	setenv("XDG_DATA_HOME", p.dir, 1);
	CHECK_INT(store_open(&s, &o, &err), 0);
	snprintf(want, sizeof want, "%s/weir", p.dir);
	CHECK_STR(store_dir(s), want);
	store_close(s);
	remove_dir(want);
	setenv("XDG_DATA_HOME", "relative", 1);
	setenv("HOME", p.dir, 1);
	CHECK_INT(store_open(&s, &o, &err), 0);
	snprintf(want, sizeof want, "%s/.local/share/weir", p.dir);
	CHECK_STR(store_dir(s), want);
	store_close(s);
	for (int i = 0; i < 3; i++) {
		remove_dir(want);
		*strrchr(want, '/') = 0;
	}
	/* Without HOME, as in a cron job: the home directory is taken from the user database, as for all other
	 * directories. */
	unsetenv("HOME");
	user.pw_dir = p.dir;
	the_user = &user;
	snprintf(want, sizeof want, "%s/.local/share/weir", p.dir);
	CHECK_INT(store_open(&s, &o, &err), 0);
	CHECK_STR(store_dir(s), want);
	store_close(s);
	for (int i = 0; i < 3; i++) {
		remove_dir(want);
		*strrchr(want, '/') = 0;
	}
	the_user = NULL;
	OPEN_REFUSED(NULL, "neither XDG_DATA_HOME nor HOME is an absolute path, and the user database has none");
	if (old)
		setenv("XDG_DATA_HOME", old, 1);
	else
		unsetenv("XDG_DATA_HOME");
	if (home)
		setenv("HOME", home, 1);
	free(old);
	free(home);
	place_remove(&p);
}

/* Run fn in a child, because SQLite must have no files open at a fork. */
static int in_child(int (*fn)(const char *dir), const char *dir)
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid)
		_exit(fn(dir));
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

TEST(one_process_writes_others_read)
{
	struct place p;
	long by;
	struct store *s, *r[2];
	struct store_options o;
	struct err err = { 0 };
	char want[60];
	int to_child[2], from_child[2], status;
	char c = 0;
	pid_t pid;
	int64_t id = 0, ignored;
	struct stored_message m = { .role = ROLE_USER, .text = "x", .n_text = 1 };

	place_dir(&p);
	CHECK(!pipe(to_child) && !pipe(from_child));
	fflush(stdout);
	pid = fork();
	if (!pid) {
		struct store_options co = { .dir = p.dir };
		struct store *cs;
		int64_t cid, mid;
		if (store_open(&cs, &co, &err) || session_new(cs, "theirs", &cid, &err) ||
		    message_append(cs, cid, &m, &mid, &err))
			_exit(1);
		if (write(from_child[1], "a", 1) != 1 || read(to_child[0], &c, 1) != 1)
			_exit(2);
		if (message_append(cs, cid, &m, &mid, &err) || session_delete(cs, cid, &err) ||
		    session_new(cs, "then", &cid, &err))
			_exit(3);
		if (write(from_child[1], "b", 1) != 1 || read(to_child[0], &c, 1) != 1)
			_exit(4);
		store_close(cs);
		_exit(0);
	}
	CHECK_INT(read(from_child[0], &c, 1), 1);
	/* Other processes may open the store, too, but not write in its session. */
	o = (struct store_options){ .dir = p.dir };
	CHECK_INT(store_open(&s, &o, &err), 0);
	OK(session_find(s, "theirs", &id, e));
	snprintf(want, sizeof want, "another weir (process %ld) has this session open", (long)pid);
	REFUSED(session_hold(s, id, &by, e), ERR_FAIL, want);
	store_close(s);
	o = (struct store_options){ .dir = p.dir, .read_only = 1 };
	for (int i = 0; i < 2; i++) {
		CHECK_INT(store_open(&r[i], &o, &err), 0);
		CHECK_INT(session_find(r[i], "theirs", &id, &err), 0);
		CHECK_STR(shown(r[i], id), "x");
		CHECK_INT(hits(r[i], "x"), 1);
		check_clean(r[i], __LINE__);
	}
	CHECK_INT(write(to_child[1], "a", 1), 1);
	CHECK_INT(read(from_child[0], &c, 1), 1);
	for (int i = 0; i < 2; i++) {
		REFUSED(session_find(r[i], "theirs", &id, e), ERR_USAGE, "is it 'then'?");
		REFUSED(session_new(r[i], "mine", &ignored, e), ERR_FAIL, "opened to be read only");
		REFUSED(message_append(r[i], id, &m, &ignored, e), ERR_FAIL, "opened to be read only");
		REFUSED(session_delete(r[i], id, e), ERR_FAIL, "opened to be read only");
		REFUSED(session_set(r[i], id, "k", "v", 1, e), ERR_FAIL, "opened to be read only");
	}
	CHECK_INT(write(to_child[1], "b", 1), 1);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	CHECK_MSG(WIFEXITED(status) && !WEXITSTATUS(status), "the child ended with %x", (unsigned)status);
	for (int i = 0; i < 2; i++)
		store_close(r[i]);
	close(to_child[0]), close(to_child[1]), close(from_child[0]), close(from_child[1]);
	/* The lock was freed when its process ended; a pid left in the file is not a lock. */
	place_reopen(&p, &s);
	CHECK_INT(session_find(s, "then", &id, &err), 0);
	place_remove(&p);
}

TEST(reading_what_is_not_there_finds_nothing)
{
	struct place p;
	struct store *s;
	struct store_options o;
	struct err err = { 0 };
	struct str out = { 0 };
	int64_t id;
	struct stat st;

	place_dir(&p);
	o = (struct store_options){ .dir = p.dir, .read_only = 1 };
	for (int i = 0; i < 2; i++) {
		CHECK_INT(store_open(&s, &o, &err), 0);
		OK(session_list(s, add_id, &out, e));
		CHECK_INT(out.n, 0);
		CHECK_INT(session_last(s, &id, &err), 0);
		CHECK_INT(hits(s, "x"), 0);
		CHECK_INT(store_check(s, &out, &err), 0);
		REFUSED(session_new(s, "x", &id, e), ERR_FAIL, "read only");
		store_close(s);
		CHECK(i || lstat(p.dir, &st));
		if (!i)
			/* at first there is no directory, the second time one without a file */
			CHECK(!mkdir(p.dir, 0700));
	}
	CHECK_INT(mode_of(&p, "chat.db"), -1);
	str_free(&out);
	place_remove(&p);
}

static int read_as_nobody(const char *dir)
{
	struct store_options o = { .dir = dir };
	struct err err = { 0 };
	struct store *s;
	int64_t id;

	if (setgid(65534) || setuid(65534))
		return 10;
	if (!store_open(&s, &o, &err))
		return 11;
	if (!strstr(err.msg, "cannot write in") || !strstr(err.msg, strerror(EACCES)))
		return 12;
	o.read_only = 1;
	if (store_open(&s, &o, &err)) {
		fprintf(stderr, "    %s\n", err.msg);
		return 13;
	}
	if (session_find(s, "it", &id, &err) || strcmp(shown(s, id), "words"))
		return 14;
	store_close(s);
	return 0;
}

TEST(a_directory_that_is_read_only_can_be_read)
{
	struct place p;
	struct store *s = place_make(&p);
	char path[500];

	say_message(s, begin(s, "it"), 0, ROLE_USER, "words");
	store_close(s);
	p.store = NULL;
	if (geteuid()) {
		place_remove(&p);
		SKIP("needs root, to become a user without rights");
	}
	snprintf(path, sizeof path, "%s", p.dir);
	*strrchr(path, '/') = 0;
	CHECK(!chmod(path, 0755));
	snprintf(path, sizeof path, "%s/lock", p.dir);
	unlink(path);
	snprintf(path, sizeof path, "%s/chat.db", p.dir);
	CHECK(!chmod(path, 0400) && !chown(path, 65534, 65534) && !chmod(p.dir, 0500) && !chown(p.dir, 65534, 65534));
	CHECK_INT(in_child(read_as_nobody, p.dir), 0);
	CHECK_INT(mode_of(&p, "chat.db-shm"), -1);
	CHECK(!chown(p.dir, 0, 0) && !chmod(p.dir, 0700));
	place_remove(&p);
}

/* ---- formats ---- */

/* Return the contents of all files except the lock, to check that a refusal changes nothing. */
static char *snapshot_of(const struct place *p, size_t *n)
{
	char path[500];

	snprintf(path, sizeof path, "%s/chat.db", p->dir);
	return test_read(path, n);
}

static void refused_unchanged(struct place *p, const char *part, int line)
{
	size_t n, n2;
	char *before = snapshot_of(p, &n), *after;
	const char *m = open_error(p->dir, 0);

	if (!strstr(m, part))
		test_fail(__FILE__, line, "'%s' is not in \"%s\"", part, m);
	after = snapshot_of(p, &n2);
	if (!before || !after || n != n2 || memcmp(before, after, n))
		test_fail(__FILE__, line, "the file was changed");
	free(before);
	free(after);
}

TEST(newer_foreign_and_damaged_files_are_left_alone)
{
	struct place p;
	struct store *s = place_make(&p);
	char path[500];
	FILE *f;

	say_message(s, begin(s, "it"), 0, ROLE_USER, "words");
	store_close(s);
	p.store = NULL;
	snprintf(path, sizeof path, "PRAGMA user_version=%d", store_version + 1);
	file_sql(p.dir, path);
	snprintf(path, sizeof path, "of a newer weir (format %d, this one knows up to %d)", store_version + 1,
	         store_version);
	refused_unchanged(&p, path, __LINE__);
	CHECK(strstr(open_error(p.dir, 1), "of a newer weir"));
	file_sql(p.dir, "PRAGMA user_version=-5");
	refused_unchanged(&p, "a database of another program", __LINE__);
	snprintf(path, sizeof path, "PRAGMA user_version=%d; PRAGMA application_id=1", store_version);
	file_sql(p.dir, path);
	refused_unchanged(&p, "a database of another program", __LINE__);
	file_sql(p.dir, "PRAGMA application_id=0");
	refused_unchanged(&p, "a database of another program", __LINE__);
	file_sql(p.dir, "PRAGMA application_id=2003134834; DELETE FROM meta");
	refused_unchanged(&p, "it has lost its identity", __LINE__);
	file_sql(p.dir, "DROP TABLE meta");
	refused_unchanged(&p, "no such table: meta", __LINE__);
	snprintf(path, sizeof path, "%s/chat.db", p.dir);
	CHECK(!truncate(path, 8192));
	refused_unchanged(&p, "damaged", __LINE__);
	CHECK(!truncate(path, 700));
	refused_unchanged(&p, "damaged", __LINE__);
	f = fopen(path, "w");
	fputs("these are notes of mine, not a database at all, and they are longer than a hundred bytes, so that they "
	      "are read",
	      f);
	fclose(f);
	refused_unchanged(&p, "it is damaged, or no database", __LINE__);
	unlink(path);
	/* An empty file is accepted: its making was interrupted. */
	f = fopen(path, "w");
	fclose(f);
	CHECK_STR(open_error(p.dir, 1), "");
	CHECK_STR(open_error(p.dir, 0), "");
	place_remove(&p);
}

static int ignore_session(const struct session *row, void *ud)
{
	(void)row;
	(void)ud;
	return 0;
}

TEST(messages_about_damage_name_the_next_step)
{
	struct place p;
	struct store *s = place_make(&p);
	struct store_options o = { .dir = p.dir, .read_only = 1 };
	struct err err = { 0 };
	const char *why;
	char path[500];
	uint8_t page[4096];
	int64_t root;
	int fd;

	begin(s, "it");
	OK(db_number(&s->db, "SELECT rootpage FROM sqlite_schema WHERE name='session'", &root, e));
	store_close(s);
	p.store = NULL;
	file_sql(p.dir, "PRAGMA wal_checkpoint(TRUNCATE)");
	memset(page, 0xff, sizeof page);
	snprintf(path, sizeof path, "%s/chat.db", p.dir);
	fd = open(path, O_WRONLY);
	CHECK(fd >= 0 && pwrite(fd, page, sizeof page, (root - 1) * (off_t)sizeof page) == sizeof page);
	close(fd);
	why = open_error(p.dir, 0);
	CHECK_MSG(strstr(why, "is damaged (") && strstr(why, "export what can be read, then move it away") &&
	                  !strstr(why, "***"),
	          "%s", why);
	CHECK_INT(store_open(&s, &o, &err), 0);
	CHECK(session_list(s, ignore_session, NULL, &err) < 0);
	CHECK_MSG(strstr(err.msg, "it is damaged (") && strstr(err.msg, "'weir sessions check' says more"), "%s",
	          err.msg);
	store_close(s);
	place_remove(&p);
}

#define OLD_TEXT "# Old\n\nancient page\fand one more\n"

static int add_places(const struct stored_document *d, void *ud)
{
	str_addf(ud, "%s %s: ", d->name, doc_type_name[d->type]);
	for (size_t i = 0; i < d->n_mark; i++)
		str_addf(ud, "%c%d@%zu %s, ", d->mark[i].kind == MARK_PAGE ? 'p' : 'h', d->mark[i].level, d->mark[i].at,
		         d->mark[i].text);
	if (d->origin)
		str_addf(ud, "of %s %lld %lld %02x", d->origin->path, (long long)d->origin->size,
		         (long long)d->origin->mtime, d->origin->hash[31]);
	return 0;
}

/* Make a file of format 1 with everything it can hold. */
static void make_old(struct place *p)
{
	int64_t row[] = { 1, 30, 1, 0 };
	uint8_t hash[32];
	struct db d;
	struct err err = { 0 };
	char path[500];

	CHECK(!mkdir(p->dir, 0700));
	snprintf(path, sizeof path, "%s/chat.db", p->dir);
	CHECK_MSG(!db_open(&d, path, NULL, 0, &err) &&
	                  !db_exec(&d, "PRAGMA auto_vacuum=INCREMENTAL; PRAGMA journal_mode=WAL", &err) &&
	                  !store_migrate(&d, 0, 1, &err),
	          "%s", err.msg);
	CHECK(!text_hash(OLD_TEXT, sizeof OLD_TEXT - 1, hash, &err));
	CHECK_MSG(
		!db_run(&d, &err, "INSERT INTO content(id, hash, text) VALUES(1, ?1, ?2)", "bs", (const void *)hash,
	                sizeof hash, OLD_TEXT, sizeof OLD_TEXT - 1) &&
			!db_run(&d, &err,
	                        "INSERT INTO document(session, content, bytes, at, after, sum, name) VALUES(1, 1, 30, 1, 0, ?1, ?2)",
	                        "ib", pair_sum(row, sizeof row, "old.md", 6), (const void *)"old.md", (size_t)6),
		"%s", err.msg);
	CHECK_MSG(
		!db_exec(
			&d,
			"INSERT INTO session(created, used, turn, head, messages, name) VALUES(1, 1, 1, 2, 2, 'old');"
			"INSERT INTO message(parent, session, depth, role, complete, at, sum, stats, token, text) VALUES"
			"(0, 1, 1, 1, 1, 1, 0, '', x'', 'ancient question'),"
			"(1, 1, 2, 2, 1, 1, 0, '', x'', 'ancient answer')",
			&err),
		"%s", err.msg);
	db_close(&d);
}

TEST(older_files_are_brought_up_to_date)
{
	struct place p;
	struct store *s;
	int64_t id, version;
	struct err err = { 0 };
	struct str places = { 0 };
	char path[500];
	struct db old;

	place_dir(&p);
	make_old(&p);
	CHECK(strstr(open_error(p.dir, 1), "of an older weir (format 1); start weir once"));
	place_reopen(&p, &s);
	OK(session_find(s, "old", &id, e));
	CHECK_STR(shown(s, id), "ancient question ancient answer");
	CHECK_INT(hits(s, "ancient"), 2);
	/* Marks were not stored in format 1; they are computed from the text. */
	OK(session_documents(s, id, add_places, &places, e));
	CHECK_STR(places.p, "old.md markdown: p0@0 1, h1@0 Old, p0@20 2, ");
	str_free(&places);
	/* The copy is whole, private, and of the old format. */
	CHECK_INT(mode_of(&p, "chat.db.v1"), 0600);
	CHECK_INT(mode_of(&p, "chat.db.copy"), -1);
	snprintf(path, sizeof path, "%s/chat.db.v1", p.dir);
	CHECK_INT(db_open(&old, path, NULL, 1, &err), 0);
	OK(db_number(&old, "PRAGMA user_version", &version, e));
	CHECK_INT(version, 1);
	OK(db_number(&old, "SELECT count(*) FROM message", &version, e));
	CHECK_INT(version, 2);
	db_close(&old);
	place_reopen(&p, &s);
	CHECK_INT(hits(s, "ancient"), 2);
	/* Since format 4, documents can be searched. */
	{
		struct indexed_text text = { "An ancient text.", 16 };
		struct passage_index *x;
		struct found_passage hit[2];

		OK(passage_index_open(&x, s, e));
		CHECK_INT(passages_find(x, &text, 1, "ancient", 7, hit, 2, &err), 1);
		passage_index_close(x);
	}
	/* Since format 5, long questions share a common beginning. */
	{
		struct str text = { 0 };
		struct stored_message m = { .role = ROLE_USER };
		int64_t q, of = 0;

		for (int i = 0; i < 500; i++)
			str_adds(&text, "ancient lines ");
		m.text = text.p;
		m.n_text = text.n;
		OK(message_append(s, id, &m, &q, e));
		OK(message_append(s, id, &m, &q, e));
		CHECK(db_find(&s->db, &err, &of, "SELECT beginning FROM message WHERE id=?1", "i", q) == 1 &&
		      of == q - 1);
		str_free(&text);
	}
	/* Since format 6, there is a table for vectors of passages. */
	CHECK_INT(place_count(s, "vectors"), 0);
	/* Since format 8, facts are remembered. */
	OK(fact_add(s, id, "an old fact", 11, &version, e));
	CHECK_INT(place_count(s, "fact"), 1);
	/* Deleting a session also removes its text from the index. */
	OK(session_delete(s, id, e));
	CHECK(!on_disk(p.dir, "ancient"));
	place_remove(&p);
	CHECK_INT(store_version, 8); /* for a new format: extend this test and make_old() */
}

/* Format 6 split words differently in the index of passages, so it is built anew, whether it is whole or damaged. */
TEST(an_index_of_an_older_format_is_made_anew)
{
	static const char text[] = "A light\xc2\xadhouse of old.";
	static const char old[] =
		"DROP TABLE sentence;"
		"CREATE VIRTUAL TABLE sentence USING fts5(text, content='', columnsize=0, detail=none,"
		" tokenize='porter unicode61 remove_diacritics 2');"
		"INSERT INTO sentence(rowid, text) VALUES(1, 'anything')";
	uint8_t hash[32];
	struct err err = { 0 };
	char path[500];

	CHECK(!text_hash(text, sizeof text - 1, hash, &err));
	for (int damaged = 0; damaged < 2; damaged++) {
		struct place p;
		struct store *s;
		struct db d;
		struct passage_index *x;
		struct found_passage hit[2];
		struct indexed_text indexed = { text, sizeof text - 1 };

		place_dir(&p);
		CHECK(!mkdir(p.dir, 0700));
		snprintf(path, sizeof path, "%s/chat.db", p.dir);
		CHECK_MSG(!db_open(&d, path, NULL, 0, &err) &&
		                  !db_exec(&d, "PRAGMA auto_vacuum=INCREMENTAL; PRAGMA journal_mode=WAL", &err) &&
		                  !store_migrate(&d, 0, 6, &err) && !db_exec(&d, old, &err) &&
		                  !db_run(&d, &err,
		                          "INSERT INTO passages(id, n, sum, hash, rows) VALUES(1, 1, 0, ?1, x'00')",
		                          "b", (const void *)hash, sizeof hash),
		          "%s", err.msg);
		if (damaged) {
			sqlite3_db_config(d.h, SQLITE_DBCONFIG_DEFENSIVE, 0, (int *)NULL);
			CHECK_MSG(!db_exec(&d, "UPDATE sentence_data SET block=x'ff'", &err), "%s", err.msg);
		}
		db_close(&d);
		place_reopen(&p, &s);
		CHECK_INT(place_count(s, "passages"), 0);
		OK(passage_index_open(&x, s, e));
		CHECK_INT(passages_find(x, &indexed, 1, "lighthouse", 10, hit, 2, &err), 1);
		CHECK_INT(place_count(s, "passages"), 1);
		passage_index_close(x);
		place_remove(&p);
	}
}

static void kept_make(const struct place *p, char digit, char path[500])
{
	FILE *f;

	snprintf(path, 500, "%s/ab%062d", p->dir, digit - '0');
	path[strlen(path) - 33] = digit;
	f = fopen(path, "w");
	CHECK(f && !fclose(f));
}

/* When a session is deleted, recognised pages are kept for those of its documents that another session also has. */
TEST(recognised_pages_go_with_the_last_document)
{
	struct doc_origin origin[2] = { { .path = (char[]){ "/a" }, .hash = { 0xab, [15] = 1 } },
		                        { .path = (char[]){ "/b" }, .hash = { 0xab, [15] = 2 } } };
	struct stored_document a = { .name = "a", .text = "a", .n_text = 1, .origin = &origin[0] },
			       b = { .name = "b", .text = "b", .n_text = 1, .origin = &origin[1] };
	char path[3][500];
	struct place p;
	struct store *s = place_make(&p);
	int64_t one, two, x;

	store_close(s);
	OK(store_open(&p.store, &(struct store_options){ .dir = p.dir, .recognised = p.dir }, e));
	s = p.store;
	one = begin(s, NULL);
	two = begin(s, NULL);
	OK(session_add_document(s, one, &a, &x, e));
	OK(session_add_document(s, one, &b, &x, e));
	OK(session_add_document(s, two, &b, &x, e));
	for (int i = 0; i < 3; i++)
		kept_make(&p, (char)('1' + i), path[i]);
	OK(session_delete(s, one, e));
	CHECK(access(path[0], F_OK) && !access(path[1], F_OK) && access(path[2], F_OK));
	OK(library_remove(s, 2, e));
	CHECK(access(path[1], F_OK));
	place_remove(&p);
}

TEST(marks_and_files_are_kept_with_documents)
{
	struct place p;
	struct store *s = place_make(&p);
	struct mark mark[] = {
		{ .kind = MARK_PAGE, .text = (char[]){ "xii" } },
		{ .kind = MARK_PARAGRAPH },
		{ .kind = MARK_HEADING, .level = 3, .at = 2, .text = (char[]){ "A b" } },
		{ .kind = MARK_PAGE, .at = 4, .text = (char[]){ "" } },
	};
	struct doc_origin origin = {
		.path = (char[]){ "/tmp/a.pdf" }, .size = 9, .mtime = 12345, .hash = { [31] = 0xab }
	};
	struct stored_document d = { .name = "a.pdf",
		                     .text = "text",
		                     .n_text = 4,
		                     .bytes = 9,
		                     .type = DOC_PDF,
		                     .mark = mark,
		                     .n_mark = 4,
		                     .origin = &origin };
	struct stored_document plain = { .name = "b.txt", .text = "text", .n_text = 4 };
	const char *expected = "a.pdf pdf: p0@0 xii, h3@2 A b, p0@4 , of /tmp/a.pdf 9 12345 ab";
	struct str out = { 0 };
	int64_t id = begin(s, NULL), fork, x;

	/* The first document had no marks. A later document with the same text and with marks adds them. */
	OK(session_add_document(s, id, &plain, &x, e));
	OK(session_add_document(s, id, &d, &x, e));
	OK(session_drop_document(s, id, 1, e));
	OK(session_add_document(s, begin(s, NULL), &plain, &x, e));
	OK(session_fork(s, id, 0, NULL, &fork, e));
	check_clean(s, __LINE__);
	OK(session_documents(s, fork, add_places, &out, e));
	CHECK_STR(out.p, expected);
	place_reopen(&p, &s);
	str_clear(&out);
	OK(session_documents(s, id, add_places, &out, e));
	CHECK_STR(out.p, expected);
	/* Damaged marks are dropped, nothing else. */
	place_sql(&p, &s, "UPDATE outline SET marks=CAST('p9 x' AS BLOB)");
	str_clear(&out);
	OK(session_documents(s, id, add_places, &out, e));
	CHECK_STR(out.p, "a.pdf text: of /tmp/a.pdf 9 12345 ab");
	for (int64_t i = 1; i <= 3; i++)
		OK(session_delete(s, i, e));
	CHECK_INT(place_count(s, "outline"), 0);
	CHECK(!on_disk(p.dir, "A b"));
	str_free(&out);
	place_remove(&p);
}

TEST(hostile_schemas_run_nothing)
{
	struct place p;
	struct store *s = place_make(&p);
	int64_t id = begin(s, "it"), n;

	say_message(s, id, 0, ROLE_USER, "words");
	place_sql(&p, &s,
	          "CREATE TRIGGER t AFTER INSERT ON message BEGIN DELETE FROM session; END;"
	          "CREATE VIEW v AS SELECT load_extension('x')");
	say_message(s, id, 1, ROLE_ASSISTANT, "more");
	CHECK_STR(shown(s, id), "words more");
	{
		struct str report = { 0 };
		struct err err = { 0 };
		CHECK_INT(store_check(s, &report, &err), 1);
		CHECK_STR(report.p, "the tables are not those that weir makes\n");
		str_free(&report);
	}
	{
		struct err err = { 0 };
		CHECK_INT(db_number(&s->db, "SELECT * FROM v", &n, &err), -1);
		CHECK_INT(db_exec(&s->db, "PRAGMA writable_schema=ON; DELETE FROM sqlite_schema", &err), -1);
		CHECK_INT(db_exec(&s->db, "ATTACH '/tmp/x' AS y", &err), -1);
		CHECK_INT(db_exec(&s->db, "DELETE FROM find_data", &err), -1);
	}
	place_remove(&p);
}

/* Numbers that a damaged file may hold, though weir never writes them. */
TEST(hostile_values_are_bounded)
{
	/* clang-format off */
	static const char *const harm[] = {
		"UPDATE message SET parent=id WHERE id=2", "UPDATE message SET parent=99 WHERE id=2",
		"UPDATE message SET parent=-1 WHERE id=2", "UPDATE message SET parent=3 WHERE id=2",
		"UPDATE message SET role=99", "UPDATE message SET role=-9223372036854775808, complete=77",
		"UPDATE message SET token=x'010203'", "UPDATE message SET token=x'ffffffff'", "UPDATE message SET text=''",
		"UPDATE message SET depth=9223372036854775807", "UPDATE message SET depth=-1", "UPDATE message SET session=99",
		"UPDATE message SET at=-9223372036854775808", "UPDATE message SET stats='x'", "DELETE FROM message WHERE id=2",
		"UPDATE session SET head=99", "UPDATE session SET head=-1", "UPDATE session SET base=99", "UPDATE session SET base=3",
		"UPDATE session SET base=-7", "UPDATE session SET messages=-1", "UPDATE session SET messages=9223372036854775807",
		"UPDATE session SET tokens=-9223372036854775808", "UPDATE session SET turn=9223372036854775807",
		"UPDATE session SET created=-9223372036854775808, used=9223372036854775807", "UPDATE session SET parent=1",
		"UPDATE document SET content=99", "UPDATE document SET bytes=-1", "UPDATE document SET after=77",
		"UPDATE content SET hash=x''", "UPDATE content SET text='other'", "DELETE FROM content",
		"DELETE FROM session", "DELETE FROM message", "UPDATE session SET name=char(27)||'[2J' WHERE id=1",
		"UPDATE sqlite_sequence SET seq=9223372036854775807", "DELETE FROM sqlite_sequence", "DROP INDEX message_session",
		"UPDATE session SET title=CAST(zeroblob(1000000) AS TEXT)", "DROP TABLE setting", "DROP TABLE find",
		"UPDATE message SET text=CAST(zeroblob(1000000) AS TEXT)", "INSERT INTO setting VALUES(99, 'k', 0, x'')",
		"UPDATE setting SET value=x'6f'", "UPDATE document SET name=x''",
		"UPDATE document SET path=x'2f78', file=zeroblob(32)", "UPDATE document SET mtime=7", "DELETE FROM outline", "DROP TABLE outline",
		"UPDATE outline SET content=99", "UPDATE outline SET marks=x'ff'", "UPDATE outline SET marks=CAST('p0' AS BLOB)",
		"UPDATE outline SET marks=zeroblob(1000000)", "UPDATE outline SET type=99, bytes=-1", "UPDATE outline SET sum=0",
	};
	/* clang-format on */

	for (size_t i = 0; i < LEN(harm); i++) {
		struct place p;
		struct store *s = place_make(&p);
		int64_t id = begin(s, "it"), m, f, x;
		int32_t token[2] = { 1, 2 };
		struct stored_message a = {
			.role = ROLE_ASSISTANT, .text = "answer", .n_text = 6, .token = token, .n_token = 2
		};
		struct mark mark[] = { { .kind = MARK_PAGE, .text = (char[]){ "1" } },
			               { .kind = MARK_HEADING, .level = 2, .at = 2, .text = (char[]){ "xt" } } };
		struct stored_document d = { .name = "d", .text = "text", .n_text = 4, .mark = mark, .n_mark = 2 };
		struct str report = { 0 }, out = { 0 };
		struct session row;
		struct err err = { 0 };
		int rc;

		a.parent = say_message(s, id, 0, ROLE_USER, "one");
		OK(message_append(s, id, &a, &m, e));
		OK(session_add_document(s, id, &d, &x, e));
		OK(session_set(s, id, "k", "value", 5, e));
		OK(session_fork(s, id, 0, "fork", &f, e));
		say_message(s, f, m, ROLE_USER, "three");
		place_sql(&p, &s, harm[i]);
		rc = store_check(s, &report, &err);
		/* The check notices every damaged value, except those that do no harm. */
		CHECK_MSG(rc >= 0 || strstr(harm[i], "DROP TABLE"), "%s: %s", harm[i], err.msg);
		if ((strstr(harm[i], "message SET") || strstr(harm[i], "setting SET") ||
		     strstr(harm[i], "document SET") || strstr(harm[i], "outline SET")) &&
		    !strstr(harm[i], " at=") && !strstr(harm[i], "stats") && rc != 1)
			test_fail(__FILE__, __LINE__, "%s: not seen", harm[i]);
		/* Each call may succeed or fail, but it must end and do no harm. */
		session_get(s, id, &row, &err);
		session_list(s, add_id, &out, &err);
		message_path(s, 2, add_text, &out, &err);
		message_path(s, 3, add_text, &out, &err);
		message_children(s, f, 1, add_text, &out, &err);
		message_children(s, f, 0, add_text, &out, &err);
		message_visible(s, f, 1, &err);
		session_documents(s, id, add_document, &out, &err);
		CHECK(session_value(s, id, "k", &out, &err) != 1 || !strcmp(out.p, "value"));
		session_export(s, f, EXPORT_JSON, NULL, &out, &err);
		session_export(s, f, EXPORT_MARKDOWN, NULL, &out, &err);
		hits(s, "answer");
		session_fork(s, f, 0, NULL, &x, &err);
		message_append(s, f, &a, &x, &err);
		message_update(s, m, &a, &err);
		session_set_head(s, f, 1, &err);
		session_delete(s, id, &err);
		session_delete(s, f, &err);
		str_free(&report);
		str_free(&out);
		place_remove(&p);
	}
}

/* ---- speed ---- */

static int count_rows(const struct session *row, void *ud)
{
	*(int *)ud += row->messages;
	return 0;
}

TEST(two_thousand_sessions_are_listed_at_once)
{
	struct place p;
	struct store *s = place_make(&p);
	double t, list, search, delete, open_write, open_read;
	struct store_options o;
	struct stat st;
	char path[500];
	int n = 0;

	/* Make 2,000 sessions of 50 messages of about 200 letters. */
	place_sql(
		&p, &s,
		"INSERT INTO session(created, used, turn, head, messages, title) WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL"
		" SELECT i+1 FROM c WHERE i<2000) SELECT i, i, i, i*50, 50, 'question number ' || i FROM c;"
		"INSERT INTO message(parent, session, depth, role, complete, at, sum, stats, token, text) WITH RECURSIVE c(i) AS"
		" (SELECT 0 UNION ALL SELECT i+1 FROM c WHERE i<99999) SELECT CASE WHEN i%50 THEN i ELSE 0 END, i/50+1, i%50+1,"
		" 1+i%2, 1, i, 0, '', zeroblob(200), 'word' || (i%997) || ' says that ' || (i*7%10007) ||"
		" ' the river ' || i || ' runs past the weir, and what it carries is ' || (i*31%4999) || ' leaves and ' ||"
		" (i*17%3001) || ' stones; nobody counts them, for the water goes on, whatever falls into it,"
		" and the dam holds what matters' FROM c;"
		"INSERT INTO find(find) VALUES('rebuild')");
	t = cpu_seconds();
	OK(session_list(s, count_rows, &n, e));
	list = cpu_seconds() - t;
	CHECK_INT(n, 100000);
	t = cpu_seconds();
	CHECK_INT(hits(s, "word5 leaves"), 101);
	search = cpu_seconds() - t;
	t = cpu_seconds();
	OK(session_delete(s, 7, e));
	delete = cpu_seconds() - t;
	store_close(s);
	p.store = NULL;
	snprintf(path, sizeof path, "%s/chat.db", p.dir);
	CHECK(!stat(path, &st));
	o = (struct store_options){ .dir = p.dir, .read_only = 1 };
	t = cpu_seconds();
	OK(store_open(&s, &o, e));
	n = 0;
	OK(session_list(s, count_rows, &n, e));
	open_read = cpu_seconds() - t;
	store_close(s);
	t = cpu_seconds();
	place_reopen(&p, &s);
	open_write = cpu_seconds() - t;
	test_note("chat.db of %.0f MiB: list %.1f ms, open and list %.1f ms, open to write %.0f ms, search %.0f ms, "
	          "delete %.0f ms",
	          (double)st.st_size / 1048576, list * 1e3, open_read * 1e3, open_write * 1e3, search * 1e3,
	          delete *1e3);
	CHECK(list < 0.05 * test_patience());
	CHECK(open_read < 0.05 * test_patience());
	place_remove(&p);
}
