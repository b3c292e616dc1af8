/* sessions/snap/snap.h - kv.db: snapshots of timelines (token sequences with their KV caches).
 *
 * kv.db is large and disposable: without it sessions are prefilled again, and no text is lost. A snapshot consists
 * of a head (the state of a timeline at one message) and chunks (KV entries of 256 tokens each). Sessions that
 * begin with the same tokens share chunks. Functions return 0, or -1 with *err set, unless their comment says
 * otherwise. */
#ifndef WEIR_SNAP_H
#define WEIR_SNAP_H

#include "sessions/store/store.h"

struct timeline;
struct engine;

/* ---- snapshots (opening: snaps.c) ---- */

struct snaps;
struct snaps_options {
	/* size limit of kv.db in bytes. 0 means 8 GiB, or a tenth of the free disk space if that is less */
	uint64_t budget;
	const char *vfs;
};
/* Open kv.db in the store's directory; read only if the store is read only. If the file is damaged or not weir's,
 * rename it, create a new one, and say so in *notice (may be NULL). If another process replaces kv.db, a read-only
 * struct snaps still reads the old file: open a new struct snaps for each list. */
int snaps_open(struct snaps **out, struct store *, const struct snaps_options *, struct str *notice, struct err *);
void snaps_close(struct snaps *);

/* Hashes of all properties on which KV entries depend, such as the weights and settings. `all` is the hash for any
 * entry of the timeline. `entries` is the hash for entries of prefilled tokens, which do not depend on the cache
 * policy. Hashing the weights takes seconds, so snaps_fingerprint() stores their hash. */
struct fingerprint {
	uint8_t all[32], entries[32];
};
int snaps_fingerprint(struct snaps *, const struct engine *, const struct timeline *, struct fingerprint *out,
                      struct err *);

/* Append the SHA-256 of the engine's model file, as 64 hexadecimal digits. Hashing takes seconds the first time. Then
 * kv.db stores the hash until the file changes. */
int snaps_weights(struct snaps *, const struct engine *, struct str *out, struct err *);

struct snap_saved {
	uint64_t bytes, new_bytes;
	int32_t tokens;
	double seconds;
};
/* Save the timeline as a snapshot of `message`, the last message that the session shows. `extra` has bytes of the
 * caller, which snap_load() returns. If there is no room (ERR_FIT), the session's older snapshot is kept. */
int snap_save(struct snaps *, struct timeline *, const struct fingerprint *, int64_t session, int64_t message,
              const void *extra, size_t n_extra, struct snap_saved *, struct err *);
/* Save the KV entries that a long prefill has computed so far. If the prefill is interrupted, snap_load_prefix() finds
 * them by their tokens. */
int snap_save_entries(struct snaps *, struct timeline *, const struct fingerprint *, struct snap_saved *, struct err *);

struct snap_loaded {
	int32_t tokens;
	uint64_t bytes;
	double seconds;
	char why[200];
	/* names of other kernels (CPU or GPU code) that computed the KV entries; "" = this program's kernels */
	char by[64];
	int32_t packed; /* number of tokens that were restored from packed copies, or that depend on such tokens */
};
/* Restore the timeline as it was at `message`. Only bytes with right checksums are used. Snapshots of this program's
 * kernels (CPU or GPU code) are preferred. Returns 1 and appends the caller's bytes to *extra. Returns 0 if no snapshot
 * can be restored, with the reason in out->why ("" = the message has no snapshot). Returns -1 on error. */
int snap_load(struct snaps *, struct timeline *, const struct fingerprint *, int64_t message, struct str *extra,
              struct snap_loaded *, struct err *);
/* Load saved KV entries for the tokens want[n], from the first token up to the first chunk that is not stored. Only
 * entries of this program's kernels (CPU or GPU code) are loaded. Nothing is loaded if the timeline already
 * begins with these tokens. Returns the number of tokens restored, or -1. */
int32_t snap_load_prefix(struct snaps *, struct timeline *, const struct fingerprint *, const int32_t *want, size_t n,
                         struct snap_loaded *, struct err *);
/* Sizes of a session's snapshots, for snap_states(). The caller sets `session`, and sets `message` to the last message
 * that the session shows. */
struct snap_state {
	int64_t session, message;
	/* Results. `bytes` is the size of all snapshots of the session, including KV entries that it shares with other
	 * sessions. `packed` is how many of these bytes are packed copies, which take 4 bits a value and are not
	 * bit-equal to the exact entries. */
	uint64_t bytes, packed;
	/* 1: the message has a snapshot, which can be loaded unless the model or the cache settings have changed */
	int ready;
};
int snap_states(struct snaps *, struct snap_state *, size_t n, struct err *);
/* Set *bytes to the size of all data in kv.db, and *packed to the size of the packed copies in it. */
int snaps_bytes(struct snaps *, uint64_t *bytes, uint64_t *packed, struct err *);
struct snap_info {
	int64_t message;
	int32_t tokens;
	int64_t used;   /* time of the last use, in seconds since 1970 */
	uint64_t bytes; /* size in bytes of head, tail and chunks together */
	/* `own` is the size in bytes of head and tail; the tail has the KV entries after the last whole chunk of 256
	 * tokens. `shared` is the size of those chunks of the snapshot that other sessions need, too. */
	uint64_t own, shared;
	int head; /* 1 = head and tail are complete and undamaged */
	/* `chunks` is the number of chunks of KV entries that the snapshot needs. `bad` is the number of these chunks
	 * that are missing or damaged. */
	int32_t chunks, bad;
	/* number of the snapshot's chunks that are stored as packed copies, which have 4 bits a value and are not
	 * exact */
	int32_t packed;
};
typedef int snap_fn(const struct snap_info *, void *ud);
/* List the snapshots of a session, newest first. Every byte of a snapshot is verified before its callback. The list
 * ends early when the callback returns nonzero. */
int snap_list(struct snaps *, int64_t session, snap_fn *, void *ud, struct err *);
/* Delete all snapshots of a session, and overwrite their bytes on disk. */
int snap_drop(struct snaps *, int64_t session, struct err *);
/* Free space in kv.db: delete unfinished snapshots of processes that died, and KV entries that no snapshot needs and
 * that were saved more than a day ago. If kv.db still exceeds its budget, pack chunks and delete snapshots, the least
 * valuable first (snap_budget.c). *freed receives the number of bytes that were returned to the file system. */
int snaps_gc(struct snaps *, uint64_t *freed, struct err *);
/* Verify all snapshots and saved KV entries. For `report` and the result, see store_check(). */
int snaps_check(struct snaps *, struct str *report, struct err *);

#endif
