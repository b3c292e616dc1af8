/* sessions/snap/snap_private.h - kv.db: declarations shared by the files of sessions/snap.
 *
 *     snaps.c        opens kv.db, creates its schema, renames a useless file
 *     snap_chunks.c  keys of chunks, checksummed parts
 *     snap_head.c    byte layout of a head
 *     snap_save.c    saves a timeline;  snap_load.c  loads a timeline
 *     snap_budget.c  keeps the budget, deletes, erases, checks
 *     snap_info.c    lists snapshots
 *     fingerprint.c  identifies models and settings
 *
 * A chunk is the KV entries of 256 tokens. Its key depends on all tokens up to its end, so sessions with the same
 * prefix share chunks. A head is the record of a timeline at one message: tokens, state, and the KV entries after the
 * last whole chunk (the tail). Chunks and heads are numbered in one series. Their bytes are in table `part`, at most
 * PART_BYTES a row, each row with a checksum over key, part number and bytes.
 *
 * A save first inserts its head unfinished (done = 0). From then on the chunks that the head needs are not deleted.
 * The last transaction of the save sets done = 1. So a finished head never refers to a missing chunk.
 *
 * Any number of processes may save and load. Between two transactions of a process, other processes may add and
 * delete anything. So each transaction looks up again the rows that it relies on. A lost row costs time only, since
 * bytes with a wrong checksum are never used. */
#ifndef WEIR_SNAP_PRIVATE_H
#define WEIR_SNAP_PRIVATE_H

#include "sessions/store/store_private.h"
#include "sessions/snap/snap.h"

#include <sys/types.h>

#define SNAPS_APPLICATION 0x77656b76 /* "wekv" */
#define SNAPS_VERSION     1          /* version of the schema and of heads */
#define SNAPS_FILE        "kv.db"
/* maximum number of bytes that one transaction writes, to bound journal and memory */
#define SNAPS_TX_BYTES    (64u << 20)

enum {
	CHUNK_TOKENS = 256,
	PART_BYTES = 4 << 20,
	PART_BITS = 12,     /* low bits of a part's id: the part's number; high bits: number of its owner */
	PART_TAIL = 2048,   /* a head's parts from this number on are its tail */
	HEADS_KEPT = 4,     /* newest heads kept for each session, so that undo and fork find one */
	PREFIX_LEAST = 512, /* shortest prefix that is loaded without a head, in tokens */
	PAGE_BYTES = 8192,
	KEY_BYTES = 32,
};

struct snaps {
	struct db db;
	struct store *store;
	char *path, *vfs;
	uint64_t budget;
	dev_t device; /* device and inode of the open file, to notice that it was replaced */
	ino_t inode;
	int64_t serial;   /* number for the next chunk or head; valid inside a transaction */
	uint8_t *staging; /* buffer for KV entries between SQLite and the timeline */
	uint64_t staging_cap;
	int ruined; /* 1: SQLite's B-trees are damaged; the next write starts a new file */
	struct {
		int64_t head, at;
	} used[16]; /* times at which heads were loaded, stored later because a load must not wait for a write */
	int n_used;
	struct fingerprint mine; /* the last fingerprint, and the texts of its two hashes */
	struct str identity, entries_identity;
	uint64_t (*disk_free)(const char *dir); /* free bytes of the disk; tests replace it */
};

/* ---- snaps.c ---- */

int64_t snaps_now(void); /* milliseconds since 1970 */
int snaps_writable(const struct snaps *, struct err *);
/* Call after a database error, outside of a transaction. If the file is damaged, rename it, start a new one, and say
 * so in *e. Returns -1. */
int snaps_failed(struct snaps *, struct err *);
/* Put a damaged file aside and continue with a new one. */
int snaps_renew(struct snaps *, struct err *);
/* Call before each operation. Clears the last error code, and reopens kv.db if another process has renamed the
 * file. */
void snaps_start(struct snaps *);
/* Begin a transaction and read s->serial; end the transaction with db_end(). If another process has replaced kv.db,
 * the new file is opened first. */
int snaps_begin(struct snaps *, struct err *);
/* Set s->serial above every number in the file. */
int snaps_read_serial(struct snaps *, struct err *);
#define SERIAL_MOST ((int64_t)1 << 40) /* larger numbers come from damage */
/* Make s->staging at least n bytes large. */
int snaps_stage(struct snaps *, uint64_t n, struct err *);

/* ---- snap_chunks.c ---- */

/* Compute the key of a chunk of n tokens. before: key of the previous chunk, all zero for the first chunk. marks: a
 * byte for each token, 0 = prefilled; NULL = all are prefilled. */
void chunk_key(uint8_t key[KEY_BYTES], const uint8_t before[KEY_BYTES], const struct fingerprint *, const int32_t *id,
               const uint8_t *marks, int32_t n);
/* A chunk has one of two sizes. all: KV entries of all layers. full: without entries of sliding-window layers, which
 * may have been overwritten before the save. The two sizes are equal in models without such layers. */
struct chunk_bytes {
	uint64_t all, full;
};
struct found_chunk {
	int64_t number;
	uint64_t bytes; /* one of the two sizes */
	int windows;    /* 1: sliding-window layers included */
};
/* Find a chunk by its key; the chunk's size must be `all` or `full` of chunk_bytes. Returns 1; 0 if it is missing;
 * -1. */
int chunk_find(struct snaps *, const uint8_t key[KEY_BYTES], struct chunk_bytes, struct found_chunk *, struct err *);
/* Find a chunk and read its verified KV entries. Returns 1; 0 if it is missing or damaged; -1. A damaged chunk is
 * deleted, so that the next save writes it again. */
int chunk_read(struct snaps *, const uint8_t key[KEY_BYTES], struct chunk_bytes, struct found_chunk *, void *out,
               struct err *);
int chunk_write(struct snaps *, const uint8_t key[KEY_BYTES], int32_t depth, const void *, uint64_t bytes,
                int64_t *number, struct err *);
/* Replace chunk `old` by chunk `number`, which has the same key: heads that need `old` now need `number`, and the
 * parts of `old` are deleted. */
int chunk_replace(struct snaps *, int64_t old, int64_t number, struct err *);
int chunk_delete(struct snaps *, int64_t number, struct err *);
/* Call after deleting a row that a query returned. Returns -1 if SQLite deleted nothing: then the file is damaged,
 * and a loop over such rows would never end. */
int snaps_deleted(struct snaps *, struct err *);

void put_le32(uint8_t *p, uint32_t v); /* little-endian, like all numbers in kv.db */
int64_t part_id(int64_t owner, int part);
/* Write n bytes of `owner` as parts first, first + 1, ... */
int parts_write(struct snaps *, int64_t owner, int first, const uint8_t key[KEY_BYTES], const void *, uint64_t n,
                struct err *);
/* Read and verify n bytes. Returns 1; 0 if they are missing or damaged; -1 on a read error. Unless it returns 1, the
 * contents of out are undefined. */
int parts_read(struct snaps *, int64_t owner, int first, const uint8_t key[KEY_BYTES], void *out, uint64_t n,
               struct err *);
int parts_delete(struct snaps *, int64_t owner, struct err *);

/* ---- snap_head.c ---- */

/* The fixed-size beginning of a head, little-endian. Behind it are the token ids (4 bytes each), the tokens' marks (1
 * byte each), n_head bytes of timeline state, and n_extra bytes of the caller. */
struct head_layout {
	int64_t session, message;
	uint64_t row_bytes, n_head, n_extra;
	int32_t tokens, ready; /* ready: number of tokens with KV entries, in chunks and tail */
};
enum { HEAD_FIXED = 64 };
void head_layout_put(uint8_t out[HEAD_FIXED], const struct head_layout *);
/* -1: the n bytes are not a head. */
int head_layout_get(struct head_layout *, const uint8_t *bytes, uint64_t n);

/* ---- snap_budget.c ---- */

int head_delete(struct snaps *, int64_t number, struct err *); /* keeps its chunks */
/* Verify a head and its tail against the values in its row. Returns 1 if they are intact, 0 if damaged, -1. */
int head_check(struct snaps *, int64_t number, int64_t message, int64_t bytes, int64_t tail,
               const uint8_t key[KEY_BYTES], struct err *);
/* Bytes of used pages, and of empty pages, of the file. */
int snaps_space(struct snaps *, uint64_t *used, uint64_t *empty, struct err *);
/* Delete the least valuable chunks and heads until `more` bytes fit the budget. Head `keep` and the newest head of
 * session keep_session (0: none) are kept. *dropped = 1 if something was deleted. Call inside a transaction. */
int snaps_make_room(struct snaps *, uint64_t more, int64_t keep, int64_t keep_session, int *dropped, struct err *);
/* Delete unfinished heads of processes that died, and chunks that no head needs. all = 0: of these chunks, only those
 * that were unused for a day. Call inside a transaction. */
int snaps_sweep(struct snaps *, int all, struct err *);
/* Overwrite free pages with zeros. This also completes, at the next start, an erasure that a crash interrupted. */
int snaps_scrub(struct snaps *, struct err *);

/* ---- fingerprint.c ---- */

/* Which kernels computed saved KV entries. If a timeline continues entries of other kernels, all its entries are
 * saved under a fingerprint of their own. So no other session takes them for entries of our kernels, and this session
 * is restored bit for bit. */
struct origin {
	struct fingerprint fp; /* fingerprint for the keys of the entries */
	char by[64];           /* kernels of the newest entries, for messages; "" = this program's */
	struct str begun;      /* names of other kernels that computed the first entries, for timeline_begun() */
	int32_t begun_n;
};
/* 1 if this program can continue KV entries saved under the fingerprint saved[]. out->by is "" if this program would
 * compute the same bits. Else out->by names the kernels, and the entries are equal to ours up to rounding. Zero *out
 * before the first call; the caller frees out->begun. */
int fingerprint_fits(struct snaps *, const uint8_t *saved, size_t n_saved, const struct fingerprint *mine,
                     struct origin *out);
/* Set *out to the fingerprint that the timeline would have if this program's kernels had computed all its entries. */
int fingerprint_pure(struct snaps *, const struct fingerprint *mine, struct fingerprint *out);
/* Write why KV entries saved under the fingerprint saved[] cannot be used under `mine`, as the beginning of a
 * sentence. */
void fingerprint_differs(struct snaps *, const uint8_t *saved, size_t n_saved, const struct fingerprint *mine,
                         char *out, size_t cap);

#endif
