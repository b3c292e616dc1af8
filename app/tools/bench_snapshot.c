/* app/tools/bench_snapshot.c - weir bench: measures saving and loading a snapshot of the KV cache, as sessions do
 * it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/tools/bench.h"
#include "sessions/store/store.h"
#include "sessions/snap/snap.h"

/* A temporary store with a session of one message. */
struct scratch {
	char dir[200];
	struct store *store;
	struct snaps *snaps;
	int64_t session, message;
	struct fingerprint print;
};

static void scratch_close(struct scratch *x)
{
	static const char *const names[] = {
		"chat.db",     "chat.db-wal",
		"chat.db-shm", "chat.db-journal",
		"kv.db",       "kv.db-journal",
		"kv.db-wal",   "kv.db-shm",
		"lock",        "",
	};

	if (x->snaps)
		snaps_close(x->snaps);
	if (x->store)
		store_close(x->store);
	for (size_t i = 0; i < LEN(names); i++) {
		char path[260];

		snprintf(path, sizeof path, "%s/%s", x->dir, names[i]);
		if (*names[i])
			unlink(path);
		else
			rmdir(path);
	}
}

static int scratch_open(struct scratch *x, struct bench *b, struct err *e)
{
	const char *tmp = getenv("TMPDIR");
	struct stored_message m = { .role = ROLE_USER, .text = "bench", .n_text = 5, .stats = "", .complete = 1 };

	*x = (struct scratch){ .store = NULL };
	snprintf(x->dir, sizeof x->dir, "%s/weir-bench-XXXXXX", tmp && *tmp && strlen(tmp) < 150 ? tmp : "/tmp");
	if (!mkdtemp(x->dir))
		return err_set(e, ERR_FAIL, "cannot make a directory like '%s': %s", x->dir, strerror(errno));
	if (store_open(&x->store, &(struct store_options){ .dir = x->dir }, e) < 0 ||
	    snaps_open(&x->snaps, x->store, &(struct snaps_options){ .budget = 0 }, NULL, e) < 0 ||
	    snaps_fingerprint(x->snaps, b->engine, b->tl, &x->print, e) < 0 ||
	    session_new(x->store, "bench", &x->session, e) < 0 ||
	    message_append(x->store, x->session, &m, &x->message, e) < 0) {
		scratch_close(x);
		return -1;
	}
	return 0;
}

/* Save and load the first `depth` tokens once. *save and *load receive the speeds in tokens per second. */
static int snapshot_once(struct bench *b, struct scratch *x, int32_t depth, double *save, double *load, struct err *e)
{
	struct snap_saved saved;
	struct snap_loaded loaded;
	struct str extra = { 0 };
	double start;
	int got;

	if (timeline_sync(b->tl, b->text.id, (size_t)depth, NULL, NULL, e) < 0)
		return -1;
	start = now_seconds();
	if (snap_save(x->snaps, b->tl, &x->print, x->session, x->message, NULL, 0, &saved, e) < 0)
		return -1;
	*save = depth / (now_seconds() - start);
	if (timeline_sync(b->tl, NULL, 0, NULL, NULL, e) < 0)
		return -1;
	start = now_seconds();
	got = snap_load(x->snaps, b->tl, &x->print, x->message, &extra, &loaded, e);
	*load = depth / (now_seconds() - start);
	str_free(&extra);
	return got > 0 ? 0 : got < 0 ? -1 : err_set(e, ERR_FAIL, "what was saved did not come back: %s", loaded.why);
}

/* Measure how fast a session's snapshot is saved and loaded. The snapshot's file was just written, so it is loaded from
 * the page cache. */
int bench_snapshot(struct bench *b, int32_t depth, struct err *e)
{
	struct timings save = { .n = 0 }, load = { .n = 0 };
	struct timeline_stats st;
	int rc = 0;

	if (!depth)
		return 0;
	for (int i = 0; !rc && i < b->o->reps && i < 5; i++) {
		struct scratch x;

		if (scratch_open(&x, b, e) < 0)
			return -1;
		rc = snapshot_once(b, &x, depth, &save.v[save.n], &load.v[load.n], e);
		save.n++;
		load.n++;
		scratch_close(&x);
	}
	timeline_stats(b->tl, &st);
	if (!rc)
		rc = bench_report(b, "save", depth, depth, &save, (double)st.kv_bytes_per_token, 0, e);
	return rc ? rc : bench_report(b, "resume", depth, depth, &load, (double)st.kv_bytes_per_token, 0, e);
}
