/* tests/lib/snaps_help.h - a store with a kv.db in a folder of its own, and checks for several tests. */
#ifndef WEIR_SNAPS_HELP_H
#define WEIR_SNAPS_HELP_H

#include "sessions/snap/snap_private.h"
#include "tests/lib/fake_timeline.h"
#include "tests/lib/test.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BOX_WEIGHTS "weights of a model that is none"

struct snaps_box {
	char dir[64], weights[96];
	const char *vfs;
	struct store *store;
	struct snaps *s;
	struct str notice;
	struct engine engine;
	struct fingerprint fp;
};

static inline int box_remove(const char *path, const struct stat *st, int flag, struct FTW *f)
{
	(void)st, (void)flag, (void)f;
	return remove(path);
}

static inline void box_weights(struct snaps_box *b, const char *text)
{
	FILE *f = fopen(b->weights, "wb");

	if (!f || fputs(text, f) < 0 || fclose(f))
		abort();
}

/* Open kv.db. Returns 0 or -1. */
static inline int box_snaps(struct snaps_box *b, struct err *e)
{
	struct snaps_options o = { .budget = (uint64_t)1 << 34, .vfs = b->vfs };

	str_clear(&b->notice);
	return snaps_open(&b->s, b->store, &o, &b->notice, e);
}

/* Make the folder and the store, without opening kv.db. */
static inline void box_begin(struct snaps_box *b)
{
	struct store_options o = { 0 };
	/* Use /dev/shm if possible, because the tests sync often and most do not depend on the disk. */
	const char *tmp = getenv("WEIR_TIME") || access("/dev/shm", W_OK) ? getenv("TMPDIR") : "/dev/shm";
	struct timeline *tl = fake_open(1, 40, 1);
	struct err e = { 0 };
	struct snaps bare = { .path = b->weights };

	memset(b, 0, sizeof *b);
	snprintf(b->dir, sizeof b->dir, "%.40s/snaps.XXXXXX", tmp ? tmp : "/tmp");
	if (!mkdtemp(b->dir))
		abort();
	snprintf(b->weights, sizeof b->weights, "%s/model.gguf", b->dir);
	box_weights(b, BOX_WEIGHTS);
	b->engine.info.path = b->weights;
	o.dir = b->dir;
	if (store_open(&b->store, &o, &e)) {
		fprintf(stderr, "%s\n", e.msg);
		abort();
	}
	if (snaps_fingerprint(&bare, &b->engine, tl, &b->fp, &e))
		abort();
	str_free(&bare.identity);
	str_free(&bare.entries_identity);
	fake_close(tl);
}

static inline void box_open(struct snaps_box *b)
{
	struct err e = { 0 };

	box_begin(b);
	if (box_snaps(b, &e)) {
		fprintf(stderr, "%s\n", e.msg);
		abort();
	}
}

static inline void box_again(struct snaps_box *b)
{
	struct err e = { 0 };

	snaps_close(b->s);
	if (box_snaps(b, &e)) {
		fprintf(stderr, "%s\n", e.msg);
		abort();
	}
	if (b->notice.n)
		test_fail(__FILE__, __LINE__, "opening again: %s", b->notice.p);
}

static inline void box_close(struct snaps_box *b)
{
	snaps_close(b->s);
	store_close(b->store);
	str_free(&b->notice);
	nftw(b->dir, box_remove, 8, FTW_DEPTH | FTW_PHYS);
}

static inline long long box_number(struct snaps_box *b, const char *sql)
{
	int64_t n = -1;

	db_number(&b->s->db, sql, &n, NULL);
	return n;
}

/* 1 if the snapshot of a message restores the first n tokens of `like`. */
static inline int box_loads(struct snaps_box *b, const struct timeline *like, int64_t message, int32_t n)
{
	struct timeline *back = fake_open(like->seed, like->plane_bytes, like->ctx);
	struct snap_loaded loaded;
	int right;

	back->bounded = like->bounded;
	right = snap_load(b->s, back, &b->fp, message, NULL, &loaded, NULL) == 1 && back->tokens.n == (size_t)n &&
	        fake_right(back);
	if (right && like->tokens.n >= (size_t)n && n)
		right = like->tokens.n != (size_t)n || !memcmp(like->tokens.id, back->tokens.id, (size_t)n * 4);
	fake_close(back);
	return right;
}

/* Return the result of snaps_check(); 0 = no damage. */
static inline int box_check(struct snaps_box *b)
{
	struct str report = { 0 };
	int rc = snaps_check(b->s, &report, NULL);

	str_free(&report);
	return rc;
}

static inline int box_in_file(struct snaps_box *b, const char *text)
{
	size_t len;
	char *file = test_read(b->s->path, &len);
	int found = file && memmem(file, len, text, strlen(text)) != NULL;

	free(file);
	return found;
}

#endif
