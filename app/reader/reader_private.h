/* app/reader/reader_private.h - declarations shared by the files of app/reader/. */
#ifndef WEIR_READER_PRIVATE_H
#define WEIR_READER_PRIVATE_H

#include "app/conversation/companion.h"
#include "app/reader/reader.h"

extern const struct companion_ops growing_ops, surprise_ops;

/* A snapshot of the timeline, taken before a question about a growing message (a text read from a stream). With it the
 * text continues as if the question had not been asked (aside.c). */
struct aside {
	int wanted;             /* 1 = take snapshots, so that conversation_return() can remove questions */
	int there;              /* 1: a snapshot exists */
	size_t msg;             /* index of the growing message */
	struct growing growing; /* copy of the growing message's state */
	int32_t pinned;         /* copy of conversation.pinned */
	/* entries: KV entries of the first n_entries tokens. The first n_full tokens have no entries in sliding-window
	 * layers, because the windows have passed them. */
	char *entries;
	int32_t n_entries, n_full;
	int file;
	uint64_t file_bytes; /* > 0: the entries are in a file, because --kv-memory limits memory */
	/* head: the rest of the snapshot, from timeline_head_save(). identity: from timeline_identity(); the snapshot
	 * can be loaded only into a timeline with an equal identity. */
	struct str head, identity;
	double seconds; /* seconds that the snapshot took */
};

/* State of the companion growing_ops. */
struct growth {
	struct growing text;
	struct aside aside;
};
struct growth *growth_of(const struct conversation *);

/* ---- growing_message.c ---- */

/* Copy *from to *to, except `total`. The tokens of `pending` are copied into memory of *to. */
void growing_copy(struct growing *to, const struct growing *from);

/* ---- aside.c: questions beside a growing message ---- */

/* Take a snapshot before a question ends the growing message (a text read from a stream), if aside.wanted is set.
 * Returns 0, or -1 if it failed. */
int aside_save(struct growth *, const struct conversation *, struct err *);
/* Load the snapshot, after the question was removed. Returns 1 if timeline and message are as before the question; 0
 * if there is no snapshot, or it cannot be loaded. */
int aside_restore(struct growth *, struct conversation *);
void aside_forget(struct aside *);

/* ---- surprise.c ---- */

/* Prefill id[0 .. n) by timeline_extend() and record the surprise of these tokens. byte: offset of id[0] in the last
 * message. Returns 0 or -1. */
int surprise_extend(struct conversation *, const int32_t *id, size_t n, size_t byte, struct err *);
void surprise_forget(struct surprise *);

#endif
