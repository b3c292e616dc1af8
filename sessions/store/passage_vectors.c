/* sessions/store/passage_vectors.c - stores the vectors of a text's passages, for search by meaning (store.h).
 *
 * Vectors can be computed again from the text, so a damaged row is deleted and counts as missing. */
#include "sessions/store/passages.h"

#include <string.h>
#include <unistd.h>

/* maximum number of bytes of vectors in the cache file; when it is exceeded, the vectors that were stored first are
 * deleted */
#define CACHED_MOST "67108864"

/* The passage vectors of texts. Columns: hash: SHA-256 of the text; encoder: id of the text encoder; data: the vectors;
 * sum: XXH3 of the other columns. */
const char vector_tables[] = "CREATE TABLE vectors(hash BLOB NOT NULL, encoder INTEGER NOT NULL, sum INTEGER NOT NULL,"
			     " data BLOB NOT NULL, PRIMARY KEY(hash, encoder)) STRICT;";

static int64_t vectors_sum(const uint8_t hash[32], uint64_t encoder, const void *data, size_t bytes)
{
	uint8_t head[40];

	memcpy(head, hash, 32);
	memcpy(head + 32, &encoder, 8);
	return pair_sum(head, sizeof head, data, bytes);
}

int vectors_read(struct passage_index *x, const struct indexed_text *t, uint64_t encoder, struct str *out,
                 struct err *e)
{
	uint8_t hash[32];
	sqlite3_stmt *st;
	int rc, damaged = 0;

	if (text_hash(t->p, t->n, hash, e))
		return -1;
	st = db_query(x->vectors, e, "SELECT sum, data FROM vectors WHERE hash=?1 AND encoder=?2", "bi",
	              (const void *)hash, sizeof hash, (int64_t)encoder);
	rc = st ? db_step(x->vectors, st, e) : -1;
	if (rc > 0) {
		size_t bytes;
		const void *data = db_bytes(st, 1, 1, &bytes);

		damaged = vectors_sum(hash, encoder, data, bytes) != sqlite3_column_int64(st, 0);
		str_clear(out);
		if (!damaged)
			str_add(out, data, bytes);
	}
	db_put(x->vectors, st);
	if (damaged)
		rc = db_run(x->vectors, e, "DELETE FROM vectors WHERE hash=?1 AND encoder=?2", "bi", (const void *)hash,
		            sizeof hash, (int64_t)encoder);
	return rc;
}

int vectors_write(struct passage_index *x, const struct indexed_text *t, uint64_t encoder, const struct str *data,
                  struct err *e)
{
	uint8_t hash[32];

	if (text_hash(t->p, t->n, hash, e))
		return -1;
	if (x->vectors == &x->cache &&
	    db_run(x->vectors, e,
	           "DELETE FROM vectors WHERE rowid IN (SELECT rowid FROM (SELECT rowid, sum(length(data))"
	           " OVER (ORDER BY rowid DESC) AS bytes FROM vectors) WHERE bytes>" CACHED_MOST ")",
	           ""))
		return -1;
	return db_run(x->vectors, e, "INSERT OR REPLACE INTO vectors(hash, encoder, sum, data) VALUES(?1, ?2, ?3, ?4)",
	              "biib", (const void *)hash, sizeof hash, (int64_t)encoder,
	              vectors_sum(hash, encoder, data->p, data->n), (const void *)str_text(data), data->n);
}

/* Open the file in which an in-memory index stores its passage vectors; create its table if it is new. Returns 0,
 * or 1 on error. */
static int cache_open(struct passage_index *x, const char *path)
{
	int64_t tables;

	return db_open(&x->cache, path, NULL, 0, NULL) || db_exec(&x->cache, "PRAGMA synchronous=OFF", NULL) ||
	       db_number(&x->cache, "SELECT count(*) FROM sqlite_schema", &tables, NULL) ||
	       (!tables && db_exec(&x->cache, vector_tables, NULL)) ||
	       db_number(&x->cache, "SELECT count(*) FROM vectors", &tables, NULL);
}

void passage_index_cache(struct passage_index *x, const char *path)
{
	if (x->vectors != &x->memory)
		return;
	if (cache_open(x, path)) {
		int damaged = db_damaged(&x->cache);

		db_close(&x->cache);
		if (damaged)
			unlink(path);
		return;
	}
	x->vectors = &x->cache;
}

int vectors_drop_orphans(struct db *d, struct err *e)
{
	return db_run(d, e,
	              "DELETE FROM vectors WHERE hash NOT IN"
	              " (SELECT c.hash FROM content c JOIN document d ON d.content=c.id)",
	              "");
}
