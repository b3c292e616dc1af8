/* app/stream/aside.c - questions about a text that is still being read, which leave no trace in the KV cache
 * (stream.h).
 *
 * In a bounded cache, a question and its answer evict entries of the text for good. So a snapshot of the timeline (KV
 * entries, policy state, tokens) is taken before the question. The snapshot is in memory; if --kv-memory puts the cache
 * on disk, most of the snapshot is in a file. conversation_return() loads the snapshot, and reading continues bit for
 * bit as if the question had not been asked. In the stored session, question and answer are a separate branch. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/stream/stream_private.h"
#include "engine/engine_machine.h"
#include "engine/engine_snapshot.h"

void aside_forget(struct aside *a)
{
	free(a->entries);
	if (a->file_bytes)
		close(a->file);
	str_free(&a->head);
	str_free(&a->identity);
	tokens_free(&a->streamed.pending);
	*a = (struct aside){ .wanted = a->wanted };
}

/* If `load` is 0, write the KV entries to the file; if it is 1, read them from the file. PIECE tokens are copied at a
 * time, because a copy of the whole cache does not fit into memory. Returns 0 or -1. */
static int entries_by_file(const struct aside *a, struct timeline *tl, int load, struct err *e)
{
	enum { PIECE = 256 };
	size_t bytes = (size_t)timeline_token_bytes(tl, 1);
	char *p = try_alloc(PIECE, bytes, "a copy of the cache", e);
	int failed = !p;

	for (int32_t at = 0, n; !failed && at < a->n_entries; at += n) {
		off_t off = (off_t)((uint64_t)at * bytes);
		int windows = at >= a->n_full;
		int32_t left = (windows ? a->n_entries : a->n_full) - at;

		n = MIN(left, PIECE);
		failed = !load && timeline_entries_save(tl, at, n, windows, p, e) < 0;
		if (!failed && (load ? pread(a->file, p, bytes * (size_t)n, off)
		                     : pwrite(a->file, p, bytes * (size_t)n, off)) != (ssize_t)(bytes * (size_t)n))
			failed = err_set(e, ERR_FAIL, "the copy of the cache on disk cannot be %s",
			                 load ? "read" : "written");
		failed = failed || (load && timeline_entries_load(tl, at, n, windows, p, e) < 0);
	}
	free(p);
	return failed ? -1 : 0;
}

static int save_to_file(struct aside *a, struct timeline *tl, struct err *e)
{
	uint64_t bytes = timeline_token_bytes(tl, 1) * (uint64_t)a->n_entries;

	a->file = scratch_file("a copy of the cache", bytes, e);
	if (a->file < 0)
		return -1;
	a->file_bytes = bytes;
	return entries_by_file(a, tl, 0, e);
}

/* Save the timeline. KV entries whose slots never change are copied to a->entries or a file. Everything else (tokens,
 * other KV entries, policy state) is copied to a->head. Returns 0 or -1. */
static int take_snapshot(struct aside *a, struct timeline *tl, struct err *e)
{
	struct timeline_stats st;
	uint64_t bytes;
	size_t full;

	timeline_stats(tl, &st);
	/* Upper bound of the snapshot's memory: the cache, and 8 bytes for each token id. If the cache is on disk, only
	 * the entries that the policy moves are copied to memory. */
	bytes = (!st.kv_disk_bytes ? st.kv_bytes + st.kv_host_bytes
	         : st.endless      ? st.kv_used_bytes
	                           : 0) +
	        (uint64_t)st.n_tokens * 8;
	if (bytes > engine_memory_free() / 2)
		return err_set(e, ERR_FIT, "a copy of the cache, %.0f MiB, does not fit into memory",
		               (double)bytes / (1 << 20));
	a->n_entries = timeline_entries_ready(tl);
	while (a->n_full < a->n_entries && !timeline_windows_hold(tl, a->n_full, 1))
		a->n_full++;
	if (a->n_entries && st.kv_disk_bytes) {
		if (save_to_file(a, tl, e) < 0)
			return -1;
	} else if (a->n_entries) {
		full = timeline_token_bytes(tl, 0) * (size_t)a->n_full;
		a->entries = try_alloc(full + timeline_token_bytes(tl, 1) * (size_t)(a->n_entries - a->n_full), 1,
		                       "a copy of the cache", e);
		if (!a->entries || timeline_entries_save(tl, 0, a->n_full, 0, a->entries, e) < 0 ||
		    timeline_entries_save(tl, a->n_full, a->n_entries - a->n_full, 1, a->entries + full, e) < 0)
			return -1;
	}
	timeline_identity(tl, &a->identity);
	return timeline_head_save(tl, &a->head, e);
}

int aside_save(struct growth *g, const struct conversation *conv, struct err *e)
{
	struct aside *a = &g->aside;
	double start = now_seconds();
	int wanted = a->wanted;

	aside_forget(a);
	if (!wanted || !g->text.known)
		return 0;
	if (take_snapshot(a, conv->tl, e) < 0) {
		aside_forget(a);
		return -1;
	}
	a->there = 1;
	a->msg = conv->n_msg - 1;
	a->pinned = conv->pinned;
	streamed_copy(&a->streamed, &g->text);
	a->seconds = now_seconds() - start;
	return 0;
}

static int load_snapshot(const struct aside *a, struct timeline *tl, struct err *e)
{
	size_t full = timeline_token_bytes(tl, 0) * (size_t)a->n_full;

	if (a->file_bytes)
		return entries_by_file(a, tl, 1, e) < 0 ? -1 : timeline_head_load(tl, a->head.p, a->head.n, e);
	if (a->entries && (timeline_entries_load(tl, 0, a->n_full, 0, a->entries, e) < 0 ||
	                   timeline_entries_load(tl, a->n_full, a->n_entries - a->n_full, 1, a->entries + full, e) < 0))
		return -1;
	return timeline_head_load(tl, a->head.p, a->head.n, e);
}

int aside_restore(struct growth *g, struct conversation *conv)
{
	struct aside *a = &g->aside;
	struct str identity = { 0 };
	struct err e = { 0 };
	int same, rc = 0;

	if (!a->there || !conv->tl || a->msg + 1 != conv->n_msg)
		return 0;
	timeline_identity(conv->tl, &identity);
	same = identity.n == a->identity.n && !memcmp(identity.p, a->identity.p, identity.n);
	str_free(&identity);
	if (same && load_snapshot(a, conv->tl, &e) < 0) {
		conversation_notice(conv, "the text that is being read has to be recomputed: %s", e.msg);
	} else if (same) {
		streamed_copy(&g->text, &a->streamed);
		timeline_tokens(conv->tl, &g->text.had);
		conv->pinned = a->pinned;
		rc = 1;
	}
	aside_forget(a);
	return rc;
}

void conversation_beside(struct conversation *conv, int on)
{
	growth_of(conv)->aside.wanted = on;
}

int conversation_is_beside(const struct conversation *conv)
{
	const struct aside *a = &growth_of(conv)->aside;

	return a->there && !conv->grows && a->msg < conv->n_msg;
}
