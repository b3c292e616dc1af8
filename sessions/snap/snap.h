/* sessions/snap/snap.h - kv.db: snapshots of timelines (token sequences with their KV caches).
 *
 * kv.db is large and disposable: without it sessions are prefilled again, and no text is lost. A snapshot consists of
 * a head (the state of a timeline at one message) and the chunks (KV entries of 256 tokens) that the head needs.
 * Functions return 0, or -1 with *err set, unless their comment says otherwise. */
#ifndef WEIR_SNAP_H
#define WEIR_SNAP_H

#include "sessions/store/store.h"

struct timeline;
struct engine;

/* ---- snapshots (opening: snaps.c) ---- */

struct snaps;
struct snaps_options {
	/* size limit of kv.db in bytes; 0 = 8 GiB, or a tenth of the free disk space if that is less */
	uint64_t budget;
	const char *vfs;
};
/* Open kv.db in the store's directory. A damaged or foreign file is renamed, a new one is created, and *notice says
 * so (notice may be NULL). If the store is read only, kv.db is opened read only. Another process may then replace
 * kv.db, so open it anew for each list, which takes a millisecond. */
int snaps_open(struct snaps **out, struct store *, const struct snaps_options *, struct str *notice, struct err *);
void snaps_close(struct snaps *);

/* Hashes of everything that KV entries depend on. all: for any entry of this timeline. entries: for entries of
 * prefilled tokens, which do not depend on the cache policy. snaps_fingerprint() hashes the weights of a file only
 * once. */
struct fingerprint {
	uint8_t all[32], entries[32];
};
int snaps_fingerprint(struct snaps *, const struct engine *, const struct timeline *, struct fingerprint *out,
                      struct err *);

struct snap_saved {
	uint64_t bytes, new_bytes;
	int32_t tokens;
	double seconds;
};
/* Save the timeline as a snapshot of `message`, the message at which the session now ends. Missing chunks are written
 * first, then the snapshot's head. extra: the caller's bytes, which snap_load() returns. ERR_FIT: no room; the
 * session's older snapshot is kept. */
int snap_save(struct snaps *, struct timeline *, const struct fingerprint *, int64_t session, int64_t message,
              const void *extra, size_t n_extra, struct snap_saved *, struct err *);
/* Save the KV entries computed so far in a long prefill, without a head. snap_load_prefix() finds the entries by
 * their tokens. */
int snap_save_entries(struct snaps *, struct timeline *, const struct fingerprint *, struct snap_saved *, struct err *);

struct snap_loaded {
	int32_t tokens;
	uint64_t bytes;
	double seconds;
	char why[200];
	/* names of other kernels that computed the KV entries (equal up to rounding); "" = this program's */
	char by[64];
};
/* Restore the timeline to a message. Returns 1 if it is restored and *extra is set; 0 if not, with the reason in
 * out->why ("" = there is no snapshot); -1. A snapshot of this program's kernels is preferred. Bytes are put into the
 * timeline only after their checksum was verified. */
int snap_load(struct snaps *, struct timeline *, const struct fingerprint *, int64_t message, struct str *extra,
              struct snap_loaded *, struct err *);
/* Restore the longest prefix of the tokens want[n] whose chunks are stored and were computed by this program's
 * kernels. Does nothing if the timeline already shares a prefix of at least that length with want. Returns the number
 * of tokens restored, or -1. */
int32_t snap_load_prefix(struct snaps *, struct timeline *, const struct fingerprint *, const int32_t *want, size_t n,
                         struct snap_loaded *, struct err *);
/* Set *out to the bytes of all snapshots of a session, including chunks that it shares with other sessions. */
int snap_bytes(struct snaps *, int64_t session, uint64_t *out, struct err *);
/* State of a session's snapshots, for snap_states(). The caller sets session, and message: the message at which the
 * session now ends. */
struct snap_state {
	int64_t session, message;
	uint64_t bytes; /* set: as snap_bytes() */
	/* 1: the message has a snapshot, which can be loaded if model and cache settings have not changed */
	int ready;
};
int snap_states(struct snaps *, struct snap_state *, size_t n, struct err *);
struct snap_info {
	int64_t message;
	int32_t tokens;
	int64_t used;   /* seconds since 1970 */
	uint64_t bytes; /* head, tail and chunks */
	/* own: bytes of head and tail; shared: bytes of those chunks that other sessions need, too */
	uint64_t own, shared;
	int head; /* 1 = head and tail are complete and undamaged */
	/* chunks: how many chunks the snapshot needs; bad: how many of them are missing or damaged */
	int32_t chunks, bad;
};
typedef int snap_fn(const struct snap_info *, void *ud);
/* List the snapshots of a session, newest first; nonzero from the callback ends the list. Every byte of the snapshots
 * is read and verified. */
int snap_list(struct snaps *, int64_t session, snap_fn *, void *ud, struct err *);
/* Delete all snapshots of a session, and overwrite their bytes on disk. */
int snap_drop(struct snaps *, int64_t session, struct err *);
/* Delete chunks that no snapshot needs, and the least valuable snapshots if kv.db exceeds its budget. *freed: bytes
 * returned to the file system. */
int snaps_gc(struct snaps *, uint64_t *freed, struct err *);
/* verify every row; report and result as store_check() */
int snaps_check(struct snaps *, struct str *report, struct err *);

#endif
