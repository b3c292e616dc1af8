/* tests/lib/storedir.h - a store in a folder of its own, for the tests of sessions/. */
#ifndef WEIR_STOREDIR_H
#define WEIR_STOREDIR_H

#include "sessions/store/store_private.h"
#include "tests/lib/test.h"

#include "engine/engine_chat.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

struct place {
	char dir[400]; /* folder of the store; its parent folder is made and removed with it */
	struct store *store;
};

__attribute__((unused)) static void place_dir(struct place *p)
{
	struct stat st;
	/* Use /dev/shm if possible, because the tests make many thousand fsync calls. */
	const char *top = getenv("WEIR_TEST_DIR");
	char base[300];

	if (!top)
		top = !stat("/dev/shm", &st) && !access("/dev/shm", W_OK) ? "/dev/shm"
		      : getenv("TMPDIR")                                  ? getenv("TMPDIR")
		                                                          : "/tmp";
	snprintf(base, sizeof base, "%.250s/weir-test-XXXXXX", top);
	if (!mkdtemp(base))
		SKIP("no directory can be made in %s", top);
	snprintf(p->dir, sizeof p->dir, "%s/store", base);
	p->store = NULL;
}

__attribute__((unused)) static void place_reopen(struct place *p, struct store **s)
{
	struct store_options o = { .dir = p->dir };
	struct err e = { 0 };

	store_close(p->store);
	if (store_open(&p->store, &o, &e)) {
		test_fail(__FILE__, __LINE__, "store_open: %s", e.msg);
		SKIP("no store");
	}
	*s = p->store;
}

__attribute__((unused)) static struct store *place_make(struct place *p)
{
	struct store *s;

	place_dir(p);
	place_reopen(p, &s);
	return s;
}

/* Remove a directory and its files. */
__attribute__((unused)) static void remove_dir(const char *dir)
{
	DIR *d = opendir(dir);

	for (struct dirent *f; d && (f = readdir(d));) {
		char path[700];
		snprintf(path, sizeof path, "%.420s/%.255s", dir, f->d_name);
		unlink(path);
	}
	if (d)
		closedir(d);
	rmdir(dir);
}

__attribute__((unused)) static void place_remove(struct place *p)
{
	store_close(p->store);
	p->store = NULL;
	remove_dir(p->dir);
	*strrchr(p->dir, '/') = 0;
	remove_dir(p->dir);
}

__attribute__((unused)) static long long place_count(struct store *s, const char *table)
{
	char sql[100];
	int64_t n = -1;
	struct err e = { 0 };

	snprintf(sql, sizeof sql, "SELECT count(*) FROM %s", table);
	if (db_number(&s->db, sql, &n, &e))
		test_fail(__FILE__, __LINE__, "%s: %s", sql, e.msg);
	return n;
}

/* Change chat.db by SQL, as another program would, while it is closed. */
__attribute__((unused)) static void file_sql(const char *dir, const char *sql)
{
	char path[500];
	char *why = NULL;
	sqlite3 *h;

	snprintf(path, sizeof path, "%s/chat.db", dir);
	if (sqlite3_open(path, &h) || sqlite3_exec(h, sql, NULL, NULL, &why))
		test_fail(__FILE__, __LINE__, "%s: %s", sql, why ? why : "not opened");
	sqlite3_free(why);
	sqlite3_close(h);
}

__attribute__((unused)) static void place_sql(struct place *p, struct store **s, const char *sql)
{
	store_close(p->store);
	p->store = NULL;
	file_sql(p->dir, sql);
	place_reopen(p, s);
}

/* ---- what a session shows, as a line of text ---- */

__attribute__((unused)) static int add_text(const struct stored_message *m, void *ud)
{
	struct str *out = ud;

	str_addf(out, "%s%.*s", out->n ? " " : "", (int)m->n_text, m->text);
	return 0;
}

/* Return the texts of the shown messages, as "a b c". */
__attribute__((unused)) static const char *shown(struct store *s, int64_t session)
{
	static struct str out[4];
	static int turn;
	struct str *o = &out[turn++ & 3];
	struct session row;
	struct err e = { 0 };

	str_clear(o);
	if (session_get(s, session, &row, &e) || message_path(s, row.head, add_text, o, &e)) {
		str_clear(o);
		str_adds(o, e.msg);
	}
	return o->n ? o->p : "";
}

__attribute__((unused)) static const char *children(struct store *s, int64_t session, int64_t message)
{
	static struct str out;
	struct err e = { 0 };

	str_clear(&out);
	if (message_children(s, session, message, add_text, &out, &e)) {
		str_clear(&out);
		str_adds(&out, e.msg);
	}
	return out.n ? out.p : "";
}

__attribute__((unused)) static int64_t say_message(struct store *s, int64_t session, int64_t parent, int role,
                                                   const char *text)
{
	struct stored_message m = {
		.parent = parent, .role = role, .text = text, .n_text = strlen(text), .complete = 1
	};
	struct err e = { 0 };
	int64_t id = 0;

	if (message_append(s, session, &m, &id, &e))
		test_fail(__FILE__, __LINE__, "message_append: %s", e.msg);
	return id;
}

__attribute__((unused)) static int64_t begin(struct store *s, const char *name)
{
	struct err e = { 0 };
	int64_t id = 0;

	if (session_new(s, name, &id, &e))
		test_fail(__FILE__, __LINE__, "session_new: %s", e.msg);
	return id;
}

__attribute__((unused)) static void check_clean(struct store *s, int line)
{
	struct str report = { 0 };
	struct err e = { 0 };
	int rc = store_check(s, &report, &e);

	if (rc)
		test_fail(__FILE__, line, "store_check says %d: %s%s", rc, report.n ? report.p : "", e.msg);
	str_free(&report);
}

#define REFUSED(call, err_code, part)                                                                                  \
	do {                                                                                                           \
		struct err e_ = { 0 };                                                                                 \
		struct err *e = &e_;                                                                                   \
		CHECK_INT(call, -1);                                                                                   \
		CHECK_INT(e_.code, err_code);                                                                          \
		CHECK_MSG(strstr(e_.msg, part), "'%s' is not in \"%s\"", part, e_.msg);                                \
	} while (0)
#define OK(call)                                                                                                       \
	do {                                                                                                           \
		struct err e_ = { 0 };                                                                                 \
		struct err *e = &e_;                                                                                   \
		if ((call) != 0)                                                                                       \
			test_fail(__FILE__, __LINE__, "%s: %s", #call, e_.msg);                                        \
	} while (0)

/* 1 if any file of the directory contains these bytes. */
__attribute__((unused)) static int on_disk(const char *dir, const char *word)
{
	DIR *d = opendir(dir);
	int found = 0;

	for (struct dirent *f; d && (f = readdir(d));) {
		char path[2000];
		size_t n;
		char *bytes;
		snprintf(path, sizeof path, "%s/%s", dir, f->d_name);
		bytes = f->d_name[0] == '.' ? NULL : test_read(path, &n);
		if (bytes && memmem(bytes, n, word, strlen(word)))
			found = 1;
		free(bytes);
	}
	if (d)
		closedir(d);
	return found;
}

__attribute__((unused)) static int count_found(const struct found *f, void *ud)
{
	(void)f;
	++*(int *)ud;
	return 0;
}

__attribute__((unused)) static int hits(struct store *s, const char *words)
{
	int n = 0;
	struct err e = { 0 };

	return store_search(s, words, 1000, count_found, &n, &e) ? -1 : n;
}

__attribute__((unused)) static int add_id(const struct session *row, void *ud)
{
	str_addf(ud, "%lld ", (long long)row->id);
	return 0;
}

__attribute__((unused)) static int add_document(const struct stored_document *d, void *ud)
{
	str_addf(ud, "%s=%.*s@%lld ", d->name, (int)d->n_text, d->text, (long long)d->after);
	return 0;
}

#endif
