/* sessions/snap/snap_private.h - kv.db, for the files of this room.
 *
 *     snaps.c        opens kv.db, creates its schema, puts a useless file aside
 *     snap_chunks.c  keys of chunks, checksummed parts
 *     snap_head.c    byte layout of a head
 *     snap_save.c    saves a timeline
 *     snap_load.c    loads a timeline
 *     snap_budget.c  budget, sweeping, deleting, checking
 *     snap_info.c    lists snapshots
 *     fingerprint.c  fingerprints of models and settings
 *
 * A chunk is the KV entries of 256 tokens. Its key chains the tokens before it, so sessions with the same prefix share
 * chunks. A head is everything else of one timeline at one message; it owns the KV entries after its last whole chunk
 * (the tail). Chunks and heads draw their numbers from one series. The bytes of both lie in table part, at most
 * PART_BYTES a row, each row with a checksum over the key, the part's number and the bytes.
 *
 * A head is reserved first (done = 0), which protects its chunks from being swept; the last transaction of a save sets
 * done = 1. So a finished head never refers to a missing chunk.
 *
 * Any number of processes may save and load. Between two transactions of one process others may add, delete and evict
 * anything, so a row that was found before is looked up again in the transaction that relies on it. A lost row costs
 * time only: bytes are used only if their checksum over their key is right. */
#ifndef WEIR_SNAP_PRIVATE_H
#define WEIR_SNAP_PRIVATE_H

#include "sessions/store/store_private.h"
#include "sessions/snap/snap.h"

#include <sys/types.h>

#define SNAPS_APPLICATION 0x77656b76 /* "wekv" */
#define SNAPS_VERSION     1          /* version of the schema and of heads */
#define SNAPS_FILE        "kv.db"
#define SNAPS_TX_BYTES    (64u << 20) /* most bytes written by one transaction: bounds journal and memory */

enum {
	CHUNK_TOKENS = 256,
	PART_BYTES = 4 << 20,
	PART_BITS = 12,     /* low bits of a part's id: its number; the others: its owner */
	PART_TAIL = 2048,   /* a head's parts from this number on are its tail */
	HEADS_KEPT = 4,     /* newest heads kept for each session; undo and fork use the older ones */
	PREFIX_LEAST = 512, /* shortest prefix that is loaded without a head, in tokens */
	PAGE_BYTES = 8192,
	KEY_BYTES = 32,
};

struct snaps {
	struct db db;
	struct store *store;
	char *path, *vfs;
	uint64_t budget;
	dev_t device; /* identity of the open file: another process may have renamed it */
	ino_t inode;
	int64_t serial;   /* next free number of a chunk or head; valid inside a transaction */
	uint8_t *staging; /* buffer for KV entries between SQLite and the timeline */
	uint64_t staging_cap;
	int ruined; /* 1: SQLite's trees are damaged; the next writer starts a new file */
	struct {
		int64_t head, at;
	} used[16]; /* times of use not stored yet: loading must not wait for a write */
	int n_used;
	struct fingerprint mine; /* the last fingerprint, and the texts of its two hashes */
	struct str identity, entries_identity;
	uint64_t (*disk_free)(const char *dir); /* free bytes of the disk; tests replace it */
};

/* ---- snaps.c ---- */

int64_t snaps_now(void); /* milliseconds since 1970 */
int snaps_writable(const struct snaps *, struct err *);
/* Call after a database error, outside of a transaction.  If the file is damaged, put it aside, start a new one,
 * and say so in *e. Returns -1. */
int snaps_failed(struct snaps *, struct err *);
/* Put a damaged file aside and continue with a new one. */
int snaps_renew(struct snaps *, struct err *);
/* Call before each operation: clear the last error code, and reopen kv.db if another process has put the file
 * aside. */
void snaps_start(struct snaps *);
/* Begin a transaction on kv.db, which is opened anew first if the file was replaced, and read s->serial. End it with
 * db_end(). */
int snaps_begin(struct snaps *, struct err *);
/* Set s->serial above every number in the file. */
int snaps_read_serial(struct snaps *, struct err *);
#define SERIAL_MOST ((int64_t)1 << 40) /* larger numbers come from damage */
/* Make s->staging at least n bytes large. */
int snaps_stage(struct snaps *, uint64_t n, struct err *);

/* ---- snap_chunks.c ---- */

/* Compute the key of a chunk of n tokens.  before: key of the previous chunk (all zero: none); marks NULL: all 0. */
void chunk_key(uint8_t key[KEY_BYTES], const uint8_t before[KEY_BYTES], const struct fingerprint *, const int32_t *id,
               const uint8_t *marks, int32_t n);
/* Two possible sizes of a chunk: all = KV entries of all layers; full = without sliding-window layers, whose
 * entries of these tokens may be overwritten already.  Equal for models without windows. */
struct chunk_bytes {
	uint64_t all, full;
};
struct found_chunk {
	int64_t number;
	uint64_t bytes; /* one of the two sizes */
	int windows;    /* 1: sliding-window layers included */
};
/* Find a chunk by its key; its size must be one of the two.  1, 0 = missing, -1. */
int chunk_find(struct snaps *, const uint8_t key[KEY_BYTES], struct chunk_bytes, struct found_chunk *, struct err *);
/* Find a chunk and read its verified KV entries.  1; 0 = missing or damaged (a damaged chunk is deleted, so that
 * the next save writes it again); -1. */
int chunk_read(struct snaps *, const uint8_t key[KEY_BYTES], struct chunk_bytes, struct found_chunk *, void *out,
               struct err *);
int chunk_write(struct snaps *, const uint8_t key[KEY_BYTES], int32_t depth, const void *, uint64_t bytes,
                int64_t *number, struct err *);
/* Make heads that need chunk `old` need chunk `number`, which has its key now, and delete the parts of `old`. */
int chunk_replace(struct snaps *, int64_t old, int64_t number, struct err *);
int chunk_delete(struct snaps *, int64_t number, struct err *);
/* Call after deleting a row that was seen.  -1 if SQLite deleted none: the file is damaged, and loops over such
 * rows would not end. */
int snaps_deleted(struct snaps *, struct err *);

void put_le32(uint8_t *p, uint32_t v); /* little-endian, like all numbers in kv.db */
int64_t part_id(int64_t owner, int part);
/* Write n bytes of `owner` as parts first, first + 1, ... */
int parts_write(struct snaps *, int64_t owner, int first, const uint8_t key[KEY_BYTES], const void *, uint64_t n,
                struct err *);
/* Read and verify n bytes.  1 = good, 0 = missing or damaged, -1 = read error.  After 0 or -1 the contents of out
 * are undefined. */
int parts_read(struct snaps *, int64_t owner, int first, const uint8_t key[KEY_BYTES], void *out, uint64_t n,
               struct err *);
int parts_delete(struct snaps *, int64_t owner, struct err *);

/* ---- snap_head.c ---- */

/* The fixed beginning of a head, little-endian.  After it: token ids (LE32), marks (1 byte each), the timeline's
 * head (n_head), extra. */
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
/* Verify a head and its tail against its row in table head.  1 = good, 0 = damaged, -1. */
int head_check(struct snaps *, int64_t number, int64_t message, int64_t bytes, int64_t tail,
               const uint8_t key[KEY_BYTES], struct err *);
/* Bytes of used pages, and of empty pages, of the file. */
int snaps_space(struct snaps *, uint64_t *used, uint64_t *empty, struct err *);
/* Delete the least valuable chunks and heads until `more` bytes fit the budget.  Kept: head `keep`, and the newest
 * head of keep_session (0: none).  *dropped = 1 if something was deleted.  Call inside a transaction. */
int snaps_make_room(struct snaps *, uint64_t more, int64_t keep, int64_t keep_session, int *dropped, struct err *);
/* Delete heads whose save was never finished, and chunks that no head needs: all of them, or (all = 0) those
 * unused for a day.  Call inside a transaction. */
int snaps_sweep(struct snaps *, int all, struct err *);
/* Overwrite empty pages with zeros; also completes what a crash interrupted. */
int snaps_scrub(struct snaps *, struct err *);

/* ---- fingerprint.c ---- */

/* Which kernels computed saved KV entries.  A timeline that continues KV entries of other kernels is saved under a
 * fingerprint of its own, first entries included.  So no other session takes these entries for ours, and this
 * session is restored bit for bit. */
struct origin {
	struct fingerprint fp; /* fingerprint for the keys of the entries */
	char by[64];           /* kernels of the newest entries, for messages; "" = this program's */
	struct str begun;      /* argument of timeline_begun() for a timeline with these entries */
	int32_t begun_n;
};
/* 1 if a timeline can continue KV entries saved under a fingerprint: bit-equal to ours, or equal up to rounding if
 * out->by names other kernels.  Zero *out before the first call; the caller frees out->begun. */
int fingerprint_fits(struct snaps *, const uint8_t *saved, size_t n_saved, const struct fingerprint *mine,
                     struct origin *out);
/* *out = the fingerprint that this timeline would have if no other kernels had computed its first entries. */
int fingerprint_pure(struct snaps *, const struct fingerprint *mine, struct fingerprint *out);
/* Write why KV entries of one fingerprint cannot be used under another, as the beginning of a sentence. */
void fingerprint_differs(struct snaps *, const uint8_t *saved, size_t n_saved, const struct fingerprint *mine,
                         char *out, size_t cap);

#endif
