/* app/chat/document_search.c - opens the search index of a conversation's documents, and shows the progress of
 * indexing.
 *
 * The index is stored in the session's database (sessions/store/store.h). It is in memory instead if there is no
 * session, if a document grows, or if the session cannot be written. */
#include "app/chat/chat_private.h"

/* 1 if the index can be stored in the session's database. The index refers to the session's documents, so all documents
 * must be stored in the session. */
static int in_store(struct chat *c)
{
	struct err e = { 0 };

	for (size_t i = 0; i < c->conv.n_doc; i++)
		if (c->conv.doc[i].grows)
			return 0; /* a growing text is not stored as a document */
	return c->log && !c->log->failed && session_log_begin(c->log, &c->conv, &e) == 0;
}

/* Return how many bytes at the beginning of growing files are no longer searched. */
static size_t text_skipped(const struct chat *c)
{
	size_t n = 0;

	for (size_t i = 0; i < c->conv.n_doc; i++)
		n += c->conv.doc[i].skipped;
	return n;
}

/* Cache the vectors of passages in the user's cache folder, so that later runs need not encode them again. */
static void cache_vectors(struct passage_index *index)
{
	struct str path = { 0 };

	if (!user_path(&path, DIR_CACHE, "vectors.db", NULL) && !make_parents(path.p))
		passage_index_cache(index, path.p);
	str_free(&path);
}

/* Open the index, if it is not open yet. Open it again in two cases:
 * - The result of in_store() has changed: the index moves between the store and memory.
 * - TEXT_SEARCHED more bytes of growing files are no longer searched: the new index is built without these bytes, which
 *   frees memory. */
static int open_index(struct chat *c, struct err *e)
{
	int kept = in_store(c);

	if (c->index && c->index_kept == kept && c->index_from + TEXT_SEARCHED > text_skipped(c))
		return 0;
	document_search_close(c);
	c->index_kept = kept;
	c->index_from = text_skipped(c);
	if (passage_index_open(&c->index, kept ? c->log->store : NULL, e))
		return -1;
	if (!kept && !c->o.private_talk)
		cache_vectors(c->index);
	return 0;
}

/* In milliseconds. SHOW_FIRST: time after which progress is shown first. SHOW_EVERY: time between two updates of the
 * progress. */
enum { SHOW_FIRST = 300, SHOW_EVERY = 100 };
#define WAIT_MOST 15 /* maximum number of seconds that a question waits while passages are encoded */

/* Show the progress of indexing or encoding. Returns 1 if the user has stopped it. */
static int show_progress(struct chat *c, const char *verb, size_t done, size_t total)
{
	double now = now_seconds(), spent = now - c->indexing.since, part = total ? (double)done / (double)total : 1;

	if (!done || !c->indexing.since)
		c->indexing.since = c->indexing.shown = now, spent = 0;
	if (c->front && spent * 1000 >= SHOW_FIRST && (now - c->indexing.shown) * 1000 >= SHOW_EVERY) {
		double left = spent / part - spent;

		c->indexing.shown = now;
		str_clear(&c->indexing.verb);
		str_addf(&c->indexing.verb, "%s %d%%", verb, (int)(part * 100));
		if (left >= 1)
			str_addf(&c->indexing.verb, c->indexing.awaited ? ", your message in %.0f s" : ", %.0f s left",
			         left);
		c->front->progress(c, c->indexing.verb.p, 0, 0);
	}
	return signals_stopped();
}

static void end_progress(struct chat *c)
{
	if (c->indexing.verb.n)
		c->front->progress(c, "reading", -1, 0);
	str_free(&c->indexing.verb);
	c->indexing.since = 0;
	c->indexing.awaited = 0;
}

static int on_indexing(size_t done, size_t total, void *ud)
{
	return show_progress(ud, "indexing", done, total);
}

int chat_work_progress(struct chat *c, const char *verb, size_t done, size_t total)
{
	int stop = show_progress(c, verb, done, total);

	if (done == total || stop)
		end_progress(c);
	return stop;
}

/* In a front end with a queue of jobs, decide whether the remaining passages are encoded now or later. Returns
 * ENCODING_ON, ENCODING_STOP or ENCODING_LATER. */
static int encoding_goes_on(struct chat *c, size_t done, size_t total)
{
	double rest = c->indexing.each * (double)(total - done);
	int wants = c->indexing.ahead ? c->front->yield(c) : 0;

	c->indexing.awaited = wants == 1;
	if (wants > 1)
		return ENCODING_STOP;
	if (rest <= WAIT_MOST || (c->indexing.ahead ? !wants : done > 0))
		return ENCODING_ON;
	c->indexing.due = 1;
	if (c->indexing.ahead)
		return ENCODING_STOP;
	notice(c,
	       "[searched by words alone, because encoding the passages takes %.0f s more; it goes on now, and "
	       "questions after it find more]",
	       rest);
	return ENCODING_LATER;
}

static int on_encoding(size_t done, size_t total, void *ud)
{
	struct chat *c = ud;
	double spent = done ? now_seconds() - c->indexing.since : 0;
	int stop = chat_work_progress(c, "encoding passages", done, total);

	if (spent * 1000 >= SHOW_FIRST)
		c->indexing.each = spent / (double)done;
	if (!stop && done < total && c->front && c->front->yield)
		stop = encoding_goes_on(c, done, total);
	if (stop)
		end_progress(c);
	return stop;
}

static int documents_search(const struct indexed_text *text, size_t n_text, const char *question, size_t n,
                            struct found_passage **out, size_t *n_out, struct passage_index **index, void *ud,
                            struct err *e)
{
	struct chat *c = ud;
	int rc;

	if (open_index(c, e) < 0)
		return -1;
	passage_index_watch(c->index, on_indexing, c);
	c->indexing.on = 1;
	rc = passages_score(c->index, text, n_text, question, n, out, n_out, e);
	c->indexing.on = 0;
	end_progress(c);
	*index = c->index;
	return rc;
}

void document_search_attach(struct chat *c)
{
	sources_search_by(&c->conv, documents_search, on_encoding, c);
}

void document_search_close(struct chat *c)
{
	passage_index_close(c->index);
	c->index = NULL;
}
