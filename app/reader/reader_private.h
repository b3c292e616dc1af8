/* app/reader/reader_private.h - declarations shared by the files of app/reader/. */
#ifndef WEIR_READER_PRIVATE_H
#define WEIR_READER_PRIVATE_H

#include "app/conversation/companion.h"
#include "app/reader/reader.h"

extern const struct companion_ops growing_ops, surprise_ops;

/* State of questions beside a growing message: a snapshot of the timeline, taken when a question closes the message
 * (aside.c). */
struct aside {
	int wanted;             /* 1: questions stay beside the growing message */
	int there;              /* 1: a snapshot exists */
	size_t msg;             /* index of the growing message */
	struct growing growing; /* copy of the growing message's state */
	int32_t pinned;
	/* KV entries of the snapshot: n_entries tokens; in layers with a window only tokens n_full and later. */
	char *entries;
	int32_t n_entries, n_full;
	int file;
	uint64_t file_bytes; /* entries in a file instead (file_bytes > 0), if --kv-memory bounds memory */
	struct str head, identity;
	double seconds; /* seconds that the snapshot took */
};

/* State of growing_ops. */
struct growth {
	struct growing text;
	struct aside aside;
};
struct growth *growth_of(const struct conversation *);

/* ---- growing_message.c ---- */

/* Copy *from to *to. *to keeps its own allocation and its total. */
void growing_copy(struct growing *to, const struct growing *from);

/* ---- aside.c: questions beside a growing message ---- */

/* Take a snapshot before a question closes the growing message, if aside.wanted is set. 0, or -1: the snapshot
 * failed, see err. */
int aside_save(struct growth *, const struct conversation *, struct err *);
/* Load the snapshot, if there is one, after the last message was reopened. 1 = timeline and message are as they
 * were; 0 = no snapshot, or it does not load. */
int aside_restore(struct growth *, struct conversation *);
void aside_forget(struct aside *);

/* ---- surprise.c ---- */

/* Prefill id[0 .. n) by timeline_extend() and record the surprise of these tokens. byte: offset of id[0] in the last
 * message. Returns 0 or -1. */
int surprise_extend(struct conversation *, const int32_t *id, size_t n, size_t byte, struct err *);
void surprise_forget(struct surprise *);

#endif
