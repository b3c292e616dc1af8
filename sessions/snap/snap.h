/* sessions/snap/snap.h - kv.db: snapshots of timelines.  Large and disposable: without it sessions are prefilled again, no text is lost. */
#ifndef WEIR_SNAP_H
#define WEIR_SNAP_H

#include "sessions/store/store.h"

struct timeline;
struct engine;

/* ---- snapshots (snaps.c: chunks, heads, budget; fingerprint.c) ---- */

struct snaps;
struct snaps_options {
	uint64_t budget;         /* bytes of kv.db; 0 = 8 GiB or a tenth of the free disk, whatever is less */
	const char *vfs;
};
/* kv.db in the store's directory.  A damaged or foreign one is renamed and a new one begun: *notice says so (may be NULL).
 * Of a store that is only read kv.db is only read, too, beside a weir that writes; it is opened in a millisecond, so open
 * it anew for each list. */
int  snaps_open(struct snaps **out, struct store *, const struct snaps_options *, struct str *notice, struct err *);
void snaps_close(struct snaps *);

/* What a snapshot was computed with; computing it hashes the weights once per file (device, inode, size, time of change).
 * entries: of KV entries of prefilled tokens, which do not depend on the cache policy. */
struct fingerprint { uint8_t all[32], entries[32]; };
int  snaps_fingerprint(struct snaps *, const struct engine *, const struct timeline *, struct fingerprint *out, struct err *);

struct snap_saved { uint64_t bytes, new_bytes; int32_t tokens; double seconds; };
/* Save the timeline as it is under a message (the session's head).  Only chunks that are not there are written, then the head
 * is flipped.  extra: the caller's own bytes.  ERR_FIT: no room; the older snapshot stays. */
int  snap_save(struct snaps *, struct timeline *, const struct fingerprint *, int64_t session, int64_t message,
               const void *extra, size_t n_extra, struct snap_saved *, struct err *);
/* During the prefill of a long text: the chunks so far, without a head. */
int  snap_save_entries(struct snaps *, struct timeline *, const struct fingerprint *, struct snap_saved *, struct err *);

struct snap_loaded {
	int32_t tokens;
	uint64_t bytes;
	double seconds;
	char why[200];
	char by[64];                    /* other kernels that computed the KV entries, which are right to rounding; "" = ours */
};
/* Restore a timeline to that message: 1 and extra, or 0 and why not ("" = there is none).  A snapshot of these very
 * kernels goes before one that the same model and settings gave with others.  Nothing reaches the timeline before its checksum was
 * right. */
int  snap_load(struct snaps *, struct timeline *, const struct fingerprint *, int64_t message, struct str *extra,
               struct snap_loaded *, struct err *);
/* The longest beginning of want[0 .. n) whose chunks these kernels have computed and which is longer than what the timeline has:
 * tokens it can continue from; 0 = none. */
int32_t snap_load_prefix(struct snaps *, struct timeline *, const struct fingerprint *, const int32_t *want, size_t n,
                         struct snap_loaded *, struct err *);
/* Bytes that snapshots of a session hold, those shared included. */
int  snap_bytes(struct snaps *, int64_t session, uint64_t *out, struct err *);
/* The same for a list of sessions, in one go: of each its number and its head are given, and of the snapshots: */
struct snap_state {
	int64_t session, message;
	uint64_t bytes;                 /* as snap_bytes() */
	int ready;                      /* there is one of that message: it opens at once, if model and cache are what they were */
};
int  snap_states(struct snaps *, struct snap_state *, size_t n, struct err *);
/* One snapshot. */
struct snap_info {
	int64_t message;
	int32_t tokens;
	int64_t used;                   /* seconds since 1970 */
	uint64_t bytes;                 /* all that it needs */
	uint64_t own, shared;           /* of these: its head and last KV entries; chunks that other sessions need, too */
	int head;                       /* 1 = head and last KV entries are there and undamaged, 0 = not */
	int32_t chunks, bad;            /* bad: missing or damaged */
};
typedef int snap_fn(const struct snap_info *, void *ud);
/* The snapshots of a session, the newest first; every byte of them is read and verified. */
int  snap_list(struct snaps *, int64_t session, snap_fn *, void *ud, struct err *);
int  snap_drop(struct snaps *, int64_t session, struct err *);         /* all of a session; overwritten */
/* Delete chunks that no snapshot needs, and snapshots beyond the budget.  Bytes freed. */
int  snaps_gc(struct snaps *, uint64_t *freed, struct err *);
int  snaps_check(struct snaps *, struct str *report, struct err *);    /* reads and verifies every row; as store_check() */

#endif
