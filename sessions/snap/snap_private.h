/* sessions/snap/snap_private.h - kv.db: declarations shared by the files of sessions/snap.
 *
 * A chunk is the KV entries of 256 tokens; sessions that begin with the same tokens share chunks. A head is the
 * record of a timeline at one message: tokens, state, and the tail (KV entries after the last whole chunk). Table
 * `part` stores the bytes of both, at most PART_BYTES a row.
 *
 *     snaps.c: opens kv.db, creates its schema; renames a file that is damaged or of another version, and starts a
 *     new one; snap_chunks.c: keys of chunks, checksums; snap_head.c: byte layout of a head;
 *     snap_save.c: saves a timeline; snap_load.c: loads a timeline;
 *     snap_budget.c: keeps kv.db within its size limit, packs and deletes snapshots, overwrites their bytes;
 *     snap_check.c: verifies the file; snap_info.c: lists snapshots;
 *     fingerprint.c: identifies models and settings.
 *
 * A save first inserts its head as unfinished (done = 0), which protects its chunks from deletion. The last
 * transaction of the save sets done = 1. So a finished head never needs a chunk that was not saved.
 *
 * Any number of processes may save and load. Other processes may delete rows between two transactions, so each
 * transaction looks up its rows again. A lost or damaged row only causes a prefill. */
#ifndef WEIR_SNAP_PRIVATE_H
#define WEIR_SNAP_PRIVATE_H

#include "sessions/store/store_private.h"
#include "sessions/snap/snap.h"
#include "engine/engine_snapshot.h"

#include <sys/types.h>

#define SNAPS_APPLICATION 0x77656b76 /* application_id of kv.db: the letters "wekv" */
#define SNAPS_VERSION     1          /* version of the schema and of the byte layout of heads (records of snapshots) */
#define SNAPS_FILE        "kv.db"
/* maximum number of bytes that one transaction writes, which bounds the journal and SQLite's memory */
#define SNAPS_TX_BYTES    (64u << 20)

enum {
	CHUNK_TOKENS = 256,
	PART_BYTES = 4 << 20,
	/* The id of a row in table `part` is OWNER << PART_BITS | PART. OWNER is the number of the row of table chunk
	 * or head to which the bytes belong; PART is the number of the part. */
	PART_BITS = 12,
	/* In table `part`, the parts of a snapshot's head from number PART_TAIL on contain the head's tail: the KV
	 * entries after the last whole chunk. */
	PART_TAIL = 2048,
	/* Number of newest snapshots that are kept for each session. Undo and fork may need an older one. */
	HEADS_KEPT = 4,
	PREFIX_LEAST = 512, /* minimum number of tokens that snap_load_prefix() loads */
	PAGE_BYTES = 8192,
	KEY_BYTES = 32,
	PACKED_KEY_BYTES = 33, /* size in bytes of the key of a packed copy (snap_chunks.c) */
};

struct snaps {
	struct db db;
	struct store *store;
	char *path, *vfs;
	uint64_t budget;
	/* device and inode of the file that is open; they tell whether another process has replaced kv.db */
	dev_t device;
	ino_t inode;
	int64_t serial;   /* number of the next row of table chunk or head; valid only inside a transaction */
	uint8_t *staging; /* buffer for KV entries on their way between SQLite and the timeline */
	uint64_t staging_cap;
	uint8_t *packed; /* buffer for a packed copy of a chunk */
	uint64_t packed_cap;
	int ruined; /* 1: a B-tree of the file is damaged; the next write starts a new file */
	struct {
		int64_t head, at;
		/* Snapshots that were loaded, and the times of loading. A load must not wait for a write, so these
		 * times are stored by the next save, or when kv.db is closed. */
	} used[16];
	int n_used;
	/* `mine` is the fingerprint computed last. It consists of two hashes: mine.all is the hash of the text
	 * `identity`, and mine.entries is the hash of the text `entries_identity`. */
	struct fingerprint mine;
	struct str identity, entries_identity;
	/* returns the free space of the disk in bytes; tests replace this function */
	uint64_t (*disk_free)(const char *dir);
};

/* ---- snaps.c ---- */

int64_t snaps_now(void); /* return the time in milliseconds since 1970 */
int snaps_writable(const struct snaps *, struct err *);
/* Call after a database error, outside a transaction. If the disk is full, *e says so. If kv.db is damaged, it is
 * renamed and a new file is begun; *e says so, too. Returns -1. */
int snaps_failed(struct snaps *, struct err *);
/* Rename a damaged kv.db and begin a new one. If another process has already begun a new one, use that file. */
int snaps_renew(struct snaps *, struct err *);
/* Call before each operation. Clears the last error code. Reopens kv.db if another process has renamed the file. */
void snaps_start(struct snaps *);
/* Begin a transaction and read s->serial; end the transaction with db_end(). Fails if another process has replaced
 * kv.db. */
int snaps_begin(struct snaps *, struct err *);
/* Set s->serial to a number that is larger than all row numbers in the file. */
int snaps_read_serial(struct snaps *, struct err *);
#define SERIAL_MOST ((int64_t)1 << 40) /* a larger row number means that the file is damaged */
/* Enlarge s->staging to at least n bytes. */
int snaps_stage(struct snaps *, uint64_t n, struct err *);

/* ---- snap_chunks.c ---- */

/* Compute the key under which KV entries of n tokens (a chunk) are stored. `before` is the key of the previous chunk,
 * or all zero for the first chunk. `marks` has one byte for each token. The byte says how the token was computed (enum
 * token_mark). If `marks` is NULL, all tokens were prefilled. */
void chunk_key(uint8_t key[KEY_BYTES], const uint8_t before[KEY_BYTES], const struct fingerprint *, const int32_t *id,
               const uint8_t *marks, int32_t n);
/* Sizes by which a chunk (the KV entries of 256 tokens) is found in kv.db. `all` is its size in bytes with the entries
 * of all layers. `full` is its size without sliding-window layers, whose entries may have been overwritten before the
 * save. If the model has no sliding windows, the two sizes are equal. If packed_dim is 0, only the exact chunk is
 * found. Otherwise a packed copy (4 bits a value) may replace a missing exact chunk, and packed_dim is the head
 * dimension. `depth` is the number of the chunk in its sequence, from 0. */
struct chunk_bytes {
	uint64_t all, full;
	int32_t packed_dim, depth;
};
struct found_chunk {
	int64_t number;
	uint64_t bytes;   /* size of the chunk in kv.db, in bytes */
	uint64_t entries; /* size of the KV entries in bytes: one of the two sizes in struct chunk_bytes */
	int windows;      /* 1: the chunk contains the entries of sliding-window layers, too */
	int packed;       /* 1: the chunk is a packed copy */
};
/* Find stored KV entries (a chunk) by their key: the exact entries, else a packed copy of them. A row with a wrong size
 * counts as missing. Returns 1; 0 if they are missing; -1 on error. */
int chunk_find(struct snaps *, const uint8_t key[KEY_BYTES], struct chunk_bytes, struct found_chunk *, struct err *);
/* Find stored KV entries (a chunk) by their key, read and verify them; unpack a packed copy. Returns 1; 0 if they are
 * missing or damaged; -1 on error. Damaged entries are deleted, so that the next save writes them again. */
int chunk_read(struct snaps *, const uint8_t key[KEY_BYTES], struct chunk_bytes, struct found_chunk *, void *out,
               struct err *);
/* Write a chunk (KV entries of 256 tokens) of n bytes. If `packed` is 1, the bytes are a packed copy. *number receives
 * the number of the new row. */
int chunk_write(struct snaps *, const uint8_t key[KEY_BYTES], int packed, int32_t depth, const void *, uint64_t n,
                int64_t *number, struct err *);
/* Replace chunk number `old` (KV entries of 256 tokens) by chunk number `number` in all snapshots that need it. Both
 * chunks have the same key. Deletes the stored bytes of the replaced chunk. */
int chunk_replace(struct snaps *, int64_t old, int64_t number, struct err *);
int chunk_delete(struct snaps *, int64_t number, struct err *);
/* Call after deleting a row that a query has found. Returns -1 if SQLite deleted nothing: in a damaged file, a loop of
 * such queries would never end. */
int snaps_deleted(struct snaps *, struct err *);

void put_le32(uint8_t *p, uint32_t v); /* write v as 4 bytes, little-endian; all numbers in heads and keys are */
int64_t part_id(int64_t owner, int part);
/* Write n bytes as rows of table `part`. The rows get the numbers `first`, `first` + 1, and so on. `owner` is the
 * number of the row of table chunk or head to which the bytes belong. */
int parts_write(struct snaps *, int64_t owner, int first, const uint8_t key[KEY_BYTES], const void *, uint64_t n,
                struct err *);
/* Read and verify n bytes that parts_write() wrote. Returns 1; 0 if they are missing or damaged; -1 on a read
 * error. After 0 or -1 the contents of `out` are undefined. */
int parts_read(struct snaps *, int64_t owner, int first, const uint8_t key[KEY_BYTES], void *out, uint64_t n,
               struct err *);
int parts_delete(struct snaps *, int64_t owner, struct err *);

/* ---- packed copies (snap_chunks.c) ---- */

/* Return how chunk number `depth` (from 0) of a sequence is packed. `dim` is the head dimension of the chunk's KV
 * entries. */
struct entries_packing chunk_packing(int32_t dim, int64_t depth);
void packed_key(uint8_t out[PACKED_KEY_BYTES], const uint8_t key[KEY_BYTES]);
/* Enlarge s->packed to at least n bytes. */
int packed_stage(struct snaps *, uint64_t n, struct err *);

/* ---- snap_head.c ---- */

/* The first HEAD_FIXED bytes of a head, which is the record of a snapshot in kv.db; numbers are little-endian. After
 * them come the token ids (4 bytes each), how each token was computed (1 byte each), n_head bytes of timeline state,
 * and n_extra bytes of the caller. */
struct head_layout {
	int64_t session, message;
	uint64_t row_bytes, n_head, n_extra;
	int32_t tokens, ready; /* `ready` is the number of tokens whose KV entries are in chunks and tail */
};
enum { HEAD_FIXED = 64 };
void head_layout_put(uint8_t out[HEAD_FIXED], const struct head_layout *);
/* Parse a head of n bytes. Returns 0, or -1 if the bytes are not a head. */
int head_layout_get(struct head_layout *, const uint8_t *bytes, uint64_t n);

/* ---- snap_budget.c ---- */

int head_delete(struct snaps *, int64_t number, struct err *); /* delete a head, but not its chunks */
/* Set *used to the number of bytes in used pages of the file, and *empty to the number of bytes in empty pages. */
int snaps_space(struct snaps *, uint64_t *used, uint64_t *empty, struct err *);
/* Store the head dimension of KV entries, which packing needs, for snapshots with this fingerprint. If `dim` is 0, the
 * entries cannot be packed, and nothing is stored. */
int packed_dim_save(struct snaps *, const uint8_t fingerprint[KEY_BYTES], int32_t dim, struct err *);
/* Make room until kv.db can grow by `more` bytes within its budget: delete saved KV entries that no snapshot needs,
 * then replace chunks by packed copies, then delete snapshots, the least valuable first. Two snapshots are never
 * deleted: the snapshot with number `keep`, and the newest of the other snapshots of session keep_session (0: no
 * session). *dropped = 1 if something was deleted or packed. Call inside a transaction. */
int snaps_make_room(struct snaps *, uint64_t more, int64_t keep, int64_t keep_session, int *dropped, struct err *);
/* Replace exact chunks by packed copies, the least recently used first, until kv.db can grow by `more` bytes within its
 * budget. These chunks stay exact: the chunks of snapshot number `keep`, of session keep_session, of the newest
 * snapshot, and of saves in progress. Returns 1 if kv.db can grow; 0 if no other chunk can be packed, or if this call
 * has packed as many bytes as it may; -1 on error. *dropped = 1 if a chunk was replaced. Call inside a transaction. */
int snaps_pack_old(struct snaps *, uint64_t more, int64_t keep, int64_t keep_session, int *dropped, struct err *);
/* Delete unfinished snapshots of processes that died, and KV entries that no snapshot needs. If `all` is 0, keep KV
 * entries that were saved within the last day. Call inside a transaction. */
int snaps_sweep(struct snaps *, int all, struct err *);
/* Overwrite free pages with zeros. After a crash, the next start completes this. */
int snaps_scrub(struct snaps *, struct err *);

/* ---- snap_check.c ---- */

/* Verify a snapshot's head (its record) and tail (its KV entries after the last whole chunk) against their checksums
 * and the row of table head. `key` is the fingerprint of the snapshot. Returns 1 if both are intact, 0 if one is
 * damaged, -1 on error. */
int head_check(struct snaps *, int64_t number, int64_t message, int64_t bytes, int64_t tail,
               const uint8_t key[KEY_BYTES], struct err *);

/* ---- fingerprint.c ---- */

/* The beginning of a timeline, whose KV entries may come from packed copies of chunks, which are not exact. `tokens` is
 * the number of tokens up to the end of the last packed copy; 0 = there is none. After packed copies, a timeline's
 * fingerprint contains NEAR_NAME, because later entries depend on the first ones and must never be mistaken for exact
 * entries. `exact` is the fingerprint without NEAR_NAME. The keys of the first chunks are computed from `exact`,
 * because a packed copy has the key of the exact chunk and one more byte. */
#define NEAR_NAME "near copies"
struct packed_begun {
	int32_t tokens;
	struct fingerprint exact;
};
/* Find out if the timeline with the fingerprint `mine` begins with packed copies, and set *out. */
void fingerprint_packed(struct snaps *, const struct fingerprint *mine, struct packed_begun *out);
/* Return the fingerprint from which the key of chunk i is computed. */
static inline const struct fingerprint *chunk_fingerprint(const struct fingerprint *fp,
                                                          const struct packed_begun *packed, int32_t i)
{
	return i < packed->tokens / CHUNK_TOKENS ? &packed->exact : fp;
}
/* Which kernels (CPU or GPU code) computed saved KV entries. If other kernels than this program's computed the first
 * entries of a timeline, the timeline's fingerprint names these kernels. So its entries have other keys than entries of
 * a timeline that only this program's kernels have computed. */
struct origin {
	struct fingerprint fp; /* fingerprint from which the keys of the entries are computed */
	struct packed_begun packed;
	/* names of the kernels (CPU or GPU code) that computed the newest KV entries, for messages to the user; "" =
	 * this program's kernels */
	char by[64];
	/* names of the other kernels (CPU or GPU code) that computed the first begun_n entries; argument of
	 * timeline_begun() */
	struct str begun;
	int32_t begun_n;
};
/* 1 if this program can continue from KV entries that were saved under the fingerprint saved[]. If this program would
 * compute the same bits, out->by is "". Otherwise the entries are equal only up to rounding, and out->by names the
 * kernels (CPU or GPU code) that computed them. Zero *out before the first call; the caller frees out->begun. */
int fingerprint_fits(struct snaps *, const uint8_t *saved, size_t n_saved, const struct fingerprint *mine,
                     struct origin *out);
/* Set *out to the fingerprint that the timeline would have if this program's kernels (CPU or GPU code) had computed all
 * its entries. Returns 0, or -1 if memory is short. */
int fingerprint_pure(struct snaps *, const struct fingerprint *mine, struct fingerprint *out);
/* Write to out[] why KV entries that were saved under the fingerprint saved[] cannot be used with the fingerprint
 * `mine`. The text is the beginning of a sentence. */
void fingerprint_differs(struct snaps *, const uint8_t *saved, size_t n_saved, const struct fingerprint *mine,
                         char *out, size_t cap);

#endif
