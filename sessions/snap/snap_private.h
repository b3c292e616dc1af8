/* sessions/snap/snap_private.h - inside sessions/: kv.db, the disposable cache of timelines.
 *
 *     snaps.c        opening, schema, putting a useless file aside
 *     snap_chunks.c  keys of chunks, checksummed KV entries
 *     snap_head.c    layout of a head
 *     snap_save.c    saving a timeline
 *     snap_load.c    loading one
 *     snap_budget.c  budget, sweeping, dropping, checking
 *     snap_info.c    what is there, for lists and inspection
 *     fingerprint.c  what KV entries were computed with
 *
 * A chunk is the KV entries of 256 tokens.  Its key chains the tokens before it, so equal beginnings share chunks and a key
 * says all about the bytes.  A head is everything else of one timeline at one message; it owns the KV entries after its
 * last whole chunk (the tail).  Chunks and heads draw their numbers from one series; bytes of both lie in table part,
 * at most PART_BYTES a row, each with a checksum over the key, the part's number and the bytes.
 *
 * Nothing refers to what is not yet there: a head is reserved first (done = 0), which keeps its chunks from being
 * swept, and flipped to done = 1 by the last transaction.
 *
 * Any number of processes save and load.  Between two transactions of one, others may add, drop and evict anything: what was found before
 * is looked up again in the transaction that relies on it.  What is gone costs time alone, and no bytes are used whose checksum over
 * their key is wrong. */
#ifndef WEIR_SNAP_PRIVATE_H
#define WEIR_SNAP_PRIVATE_H

#include "sessions/store/store_private.h"
#include "sessions/snap/snap.h"

#include <sys/types.h>

#define SNAPS_APPLICATION 0x77656b76   /* "wekv" */
#define SNAPS_VERSION 1                /* of the schema and of heads */
#define SNAPS_FILE "kv.db"
#define SNAPS_TX_BYTES (64u << 20)     /* a transaction ends before it would write more: bounds journal and memory */

enum {
	CHUNK_TOKENS = 256,
	PART_BYTES = 4 << 20,
	PART_BITS = 12,                /* part number within id */
	PART_TAIL = 2048,              /* parts of a head from here on are its tail */
	HEADS_KEPT = 4,                /* of a session: the newest, and what undo and fork want next */
	PREFIX_LEAST = 512,            /* tokens worth a load without a head */
	PAGE_BYTES = 8192,
	KEY_BYTES = 32,
};

struct snaps {
	struct db db;
	struct store *store;
	char *path, *vfs;
	uint64_t budget;
	dev_t device;                  /* the open file: another weir may have put it aside */
	ino_t inode;
	int64_t serial;                /* the next number of a chunk or a head, as of the transaction that is open */
	uint8_t *staging;              /* KV entries on their way between SQLite and the timeline */
	uint64_t staging_cap;
	int ruined;                    /* the trees are damaged: whatever writes next begins anew */
	struct { int64_t head, at; } used[16];   /* heads loaded, not yet noted: loading must not wait for a disk */
	int n_used;
	struct fingerprint mine;       /* computed last, and the texts of both its hashes */
	struct str identity, entries_identity;
	uint64_t (*disk_free)(const char *dir);   /* bytes; tests put their own */
};

/* ---- snaps.c ---- */

int64_t snaps_now(void);               /* milliseconds since 1970 */
int  snaps_writable(const struct snaps *, struct err *);
/* After a database error, outside of a transaction: a damaged file is put aside and begun anew, and *e says so.
 * Returns -1. */
int  snaps_failed(struct snaps *, struct err *);
/* Rename a damaged file and continue with a new one. */
int  snaps_renew(struct snaps *, struct err *);
/* Before a snapshot is looked for, saved or dropped: no error is known, and the file is the one that has the name. */
void snaps_start(struct snaps *);
/* A transaction beside other processes: on the file that has the name, with the number that is free now.  Ended by db_end(). */
int  snaps_begin(struct snaps *, struct err *);
/* s->serial from what the file holds. */
int  snaps_read_serial(struct snaps *, struct err *);
#define SERIAL_MOST ((int64_t)1 << 40)   /* a number above comes from damage */
/* At least n bytes at s->staging. */
int  snaps_stage(struct snaps *, uint64_t n, struct err *);

/* ---- snap_chunks.c ---- */

/* Key of the chunk of n tokens that follows the chunk `before` (all zero: none); marks NULL: all 0. */
void chunk_key(uint8_t key[KEY_BYTES], const uint8_t before[KEY_BYTES], const struct fingerprint *, const int32_t *id,
               const uint8_t *marks, int32_t n);
/* Bytes of a chunk's KV entries in all layers, and without the layers that have a sliding window, where these have lost the entries of its
 * tokens.  Both are the same where no layer has a window. */
struct chunk_bytes { uint64_t all, full; };
struct found_chunk {
	int64_t number;
	uint64_t bytes;                /* one of the two */
	int windows;                   /* all layers are there */
};
/* The chunk with that key and one of the two sizes: 1, 0 = not there, -1. */
int  chunk_find(struct snaps *, const uint8_t key[KEY_BYTES], struct chunk_bytes, struct found_chunk *, struct err *);
/* Its verified KV entries: 1, 0 = not there or damaged (then the chunk is deleted, and the next save writes it again), -1. */
int  chunk_read(struct snaps *, const uint8_t key[KEY_BYTES], struct chunk_bytes, struct found_chunk *, void *out, struct err *);
int chunk_write(struct snaps *, const uint8_t key[KEY_BYTES], int32_t depth, const void *, uint64_t bytes,
                int64_t *number, struct err *);
/* Who needs chunk `old` needs `number`, which has taken its key. */
int  chunk_replace(struct snaps *, int64_t old, int64_t number, struct err *);
int  chunk_delete(struct snaps *, int64_t number, struct err *);
/* After deleting a row that exists: -1 when none was deleted, because the file is damaged. */
int  snaps_deleted(struct snaps *, struct err *);

void put_le32(uint8_t *p, uint32_t v);   /* little-endian, as everything in kv.db */
int64_t part_id(int64_t owner, int part);
/* Bytes of `owner` as parts first, first + 1, ... */
int parts_write(struct snaps *, int64_t owner, int first, const uint8_t key[KEY_BYTES], const void *, uint64_t n,
                struct err *);
/* 1 = all n bytes are there and right, 0 = not, -1 = cannot be read.  What is in out after 0 or -1 must not be used. */
int parts_read(struct snaps *, int64_t owner, int first, const uint8_t key[KEY_BYTES], void *out, uint64_t n,
               struct err *);
int  parts_delete(struct snaps *, int64_t owner, struct err *);

/* ---- snap_head.c ---- */

/* What stands before a head's bytes, as stored: little-endian.  Then: token ids (LE32), marks, the timeline's head,
 * extra. */
struct head_layout {
	int64_t session, message;
	uint64_t row_bytes, n_head, n_extra;
	int32_t tokens, ready;         /* ready: tokens with KV entries in chunks and tail */
};
enum { HEAD_FIXED = 64 };
void head_layout_put(uint8_t out[HEAD_FIXED], const struct head_layout *);
/* -1: these n bytes cannot be a head. */
int  head_layout_get(struct head_layout *, const uint8_t *bytes, uint64_t n);

/* ---- snap_budget.c ---- */

int  head_delete(struct snaps *, int64_t number, struct err *);          /* not its chunks */
/* A head with its tail, as table head describes it: 1 = right, 0, -1. */
int  head_check(struct snaps *, int64_t number, int64_t message, int64_t bytes, int64_t tail, const uint8_t key[KEY_BYTES],
                struct err *);
/* Bytes of the file that hold something, and those that hold nothing. */
int  snaps_space(struct snaps *, uint64_t *used, uint64_t *empty, struct err *);
/* Inside a transaction: drop the least valuable until `more` bytes fit the budget or nothing is left to drop.  Retained:
 * head `keep`, and with keep_newest the newest head of its session.  *dropped tells whether anything went. */
int  snaps_make_room(struct snaps *, uint64_t more, int64_t keep, int64_t keep_session, int *dropped, struct err *);
/* Inside a transaction: heads that were never finished; chunks no head needs, with all = 0 only those not used for a
 * day. */
int  snaps_sweep(struct snaps *, int all, struct err *);
/* Overwrite pages that hold nothing; finishes what a crash interrupted. */
int  snaps_scrub(struct snaps *, struct err *);

/* ---- fingerprint.c ---- */

/* Which kernels computed the KV entries that were saved under a fingerprint.  A timeline that continues KV entries of other kernels
 * is saved under a fingerprint of its own, its first entries included: no other session takes them for the own kernels', and this
 * session is restored bit for bit. */
struct origin {
	struct fingerprint fp;         /* for their keys */
	char by[64];                   /* the kernels that computed the newest of them, for a sentence; "" = ours */
	struct str begun;              /* for timeline_begun() of a timeline with them */
	int32_t begun_n;
};
/* Can a timeline continue KV entries of a saved fingerprint?  1 = they are what the own kernels would compute: to the bit, or to
 * rounding where out->by names other kernels.  *out is zeroed before the first call; its begun is the caller's to free. */
int  fingerprint_fits(struct snaps *, const uint8_t *saved, size_t n_saved, const struct fingerprint *mine,
                      struct origin *out);
/* The fingerprint of a timeline without KV entries of other kernels; 0 or -1. */
int  fingerprint_pure(struct snaps *, const struct fingerprint *mine, struct fingerprint *out);
/* Why KV entries of one fingerprint are no use under another, as the beginning of a sentence. */
void fingerprint_differs(struct snaps *, const uint8_t *saved, size_t n_saved, const struct fingerprint *mine,
                         char *out, size_t cap);

#endif
