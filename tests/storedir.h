/* tests/storedir.h - a store in a directory of its own, for the tests of sessions/. */
#ifndef WEIR_STOREDIR_H
#define WEIR_STOREDIR_H

#include "sessions/store.h"
#include "tests/test.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

struct place {
	char dir[400];            /* the store's; its parent is made and removed with it */
	struct store *store;
};

__attribute__((unused))
static void place_dir(struct place *p)
{
	struct stat st;
	/* Many thousand fsyncs: in memory where that is to be had. */
	const char *top = getenv("WEIR_TEST_DIR");
	char base[300];

	if (!top)
		top = !stat("/dev/shm", &st) && !access("/dev/shm", W_OK) ? "/dev/shm" : getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp";
	snprintf(base, sizeof base, "%.250s/weir-test-XXXXXX", top);
	if (!mkdtemp(base))
		SKIP("no directory can be made in %s", top);
	snprintf(p->dir, sizeof p->dir, "%s/store", base);
	p->store = NULL;
}

__attribute__((unused))
static void place_reopen(struct place *p, struct store **s)
{
	struct store_options o = {.dir = p->dir};
	struct err e = {0};

	store_close(p->store);
	if (store_open(&p->store, &o, &e)) {
		test_fail(__FILE__, __LINE__, "store_open: %s", e.msg);
		SKIP("no store");
	}
	*s = p->store;
}

__attribute__((unused))
static struct store *place_make(struct place *p)
{
	struct store *s;

	place_dir(p);
	place_reopen(p, &s);
	return s;
}

/* The files of a directory, and it. */
__attribute__((unused))
static void remove_dir(const char *dir)
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

__attribute__((unused))
static void place_remove(struct place *p)
{
	store_close(p->store);
	p->store = NULL;
	remove_dir(p->dir);
	*strrchr(p->dir, '/') = 0;
	remove_dir(p->dir);
}

__attribute__((unused))
static long long place_count(struct store *s, const char *table)
{
	char sql[100];
	int64_t n = -1;
	struct err e = {0};

	snprintf(sql, sizeof sql, "SELECT count(*) FROM %s", table);
	if (db_number(&s->db, sql, &n, &e))
		test_fail(__FILE__, __LINE__, "%s: %s", sql, e.msg);
	return n;
}

/* Change the file as somebody else would, while nobody has it open. */
__attribute__((unused))
static void file_sql(const char *dir, const char *sql)
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

__attribute__((unused))
static void place_sql(struct place *p, struct store **s, const char *sql)
{
	store_close(p->store);
	p->store = NULL;
	file_sql(p->dir, sql);
	place_reopen(p, s);
}

#endif
