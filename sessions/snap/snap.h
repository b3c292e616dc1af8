/* sessions/snap/snap.h - kv.db: snapshots of timelines. Large and disposable: without it sessions are prefilled again,
 * and no text is lost.
 *
 * A snapshot is a head (one timeline at one message) and the chunks of KV entries that it needs. Functions return 0, or
 * -1 with *err set, unless their comment says otherwise. */
#ifndef WEIR_SNAP_H
#define WEIR_SNAP_H

#include "sessions/store/store.h"

struct timeline;
struct engine;

/* ---- snapshots (snaps.c opens kv.db; snap_chunks.c, snap_head.c, snap_budget.c; fingerprint.c) ---- */

struct snaps;
struct snaps_options {
	uint64_t budget; /* most bytes of kv.db; 0 = 8 GiB or a tenth of the free disk, whichever is less */
	const char *vfs;
};
/* Open kv.db in the store's directory.  A damaged or foreign file is renamed and a new one created: *notice says
 * so (may be NULL). kv.db of a read-only store is read only, too; opening takes a millisecond, so open it again
 * for each list. */
int snaps_open(struct snaps **out, struct store *, const struct snaps_options *, struct str *notice, struct err *);
void snaps_close(struct snaps *);

/* Hash of everything that KV entries depend on.  all: of the whole timeline; entries: of prefilled tokens, which
 * do not depend on the cache policy.  snaps_fingerprint() hashes the weights once per file (device, inode, size,
 * times). */
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
/* Save the timeline under a message (the session's head).  Writes missing chunks first, then the head; extra:
 * bytes of the caller, returned by snap_load().  ERR_FIT: no room; the older snapshot stays. */
int snap_save(struct snaps *, struct timeline *, const struct fingerprint *, int64_t session, int64_t message,
              const void *extra, size_t n_extra, struct snap_saved *, struct err *);
/* Save the KV entries computed so far, in the middle of a long prefill.  No message refers to them until snap_save() is
 * called; a later load finds them by their tokens. */
int snap_save_entries(struct snaps *, struct timeline *, const struct fingerprint *, struct snap_saved *, struct err *);

struct snap_loaded {
	int32_t tokens;
	uint64_t bytes;
	double seconds;
	char why[200];
	/* other kernels that computed the KV entries (equal up to rounding); "" = this program's */
	char by[64];
};
/* Restore the timeline to a message.  1 = restored, *extra is set; 0 = not, out->why says why ("" = no snapshot);
 * -1.  A snapshot of the same kernels is preferred to one of other kernels.  Bytes reach the timeline only after
 * their checksum was verified. */
int snap_load(struct snaps *, struct timeline *, const struct fingerprint *, int64_t message, struct str *extra,
              struct snap_loaded *, struct err *);
/* Restore the longest prefix of want[n] whose chunks were computed by these kernels, if it is longer than what the
 * timeline shares with want.  Returns the tokens restored, 0 = none, -1. */
int32_t snap_load_prefix(struct snaps *, struct timeline *, const struct fingerprint *, const int32_t *want, size_t n,
                         struct snap_loaded *, struct err *);
/* *out = bytes of all snapshots of a session, shared chunks included. */
int snap_bytes(struct snaps *, int64_t session, uint64_t *out, struct err *);
/* Look up the snapshots of n sessions with three queries.  The caller sets session and message (the session's
 * head). */
struct snap_state {
	int64_t session, message;
	uint64_t bytes; /* set: as snap_bytes() */
	/* set: 1 = the message has a snapshot; it loads if model and cache settings are unchanged */
	int ready;
};
int snap_states(struct snaps *, struct snap_state *, size_t n, struct err *);
struct snap_info {
	int64_t message;
	int32_t tokens;
	int64_t used;         /* seconds since 1970 */
	uint64_t bytes;       /* head, tail and chunks */
	uint64_t own, shared; /* parts of `bytes`: head and tail; chunks that other sessions need, too */
	int head;             /* 1 = head and tail are complete and undamaged */
	int32_t chunks, bad;  /* chunks it needs; bad: of these, missing or damaged */
};
typedef int snap_fn(const struct snap_info *, void *ud);
/* List the snapshots of a session, newest first; nonzero from the callback ends the list.  Reads and verifies
 * every byte of them. */
int snap_list(struct snaps *, int64_t session, snap_fn *, void *ud, struct err *);
/* delete all snapshots of a session, and overwrite their bytes */
int snap_drop(struct snaps *, int64_t session, struct err *);
/* Delete chunks that no snapshot needs, and snapshots beyond the budget.  *freed = bytes returned to the disk. */
int snaps_gc(struct snaps *, uint64_t *freed, struct err *);
/* verify every row; report and result as store_check() */
int snaps_check(struct snaps *, struct str *report, struct err *);

#endif
