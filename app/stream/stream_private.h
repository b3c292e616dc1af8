/* app/stream/stream_private.h - declarations shared by the files of app/stream/. */
#ifndef WEIR_STREAM_PRIVATE_H
#define WEIR_STREAM_PRIVATE_H

#include "app/conversation/turn_hook.h"
#include "app/stream/stream.h"

extern const struct turn_hook_ops streamed_ops, surprise_ops;

/* A snapshot of the timeline, taken before a question about a streamed message (a text read from a stream). After the
 * snapshot is loaded, the text continues as if the question had not been asked (aside.c). */
struct aside {
	int wanted;               /* 1 = take snapshots, so that conversation_return() can remove questions */
	int there;                /* 1 = there is a snapshot */
	size_t msg;               /* index of the streamed message */
	struct streamed streamed; /* copy of the streamed message's state */
	int32_t pinned;           /* copy of conversation.pinned */
	/* `entries` has the KV entries of the first n_entries tokens. For the first n_full tokens, entries of
	 * sliding-window layers are missing, because the windows have moved past these tokens. */
	char *entries;
	int32_t n_entries, n_full;
	int file;
	/* 0 = the entries are in memory; otherwise they are in a file of this size, because --kv-memory limits
	 * memory */
	uint64_t file_bytes;
	/* `head` is the rest of the snapshot, written by timeline_head_save(). `identity` is written by
	 * timeline_identity(): the snapshot can be loaded only into a timeline with the same identity. */
	struct str head, identity;
	double seconds; /* number of seconds that taking the snapshot took */
};

/* State of the turn hook streamed_ops. */
struct growth {
	struct streamed text;
	struct aside aside;
};
struct growth *growth_of(const struct conversation *);

/* ---- streamed_message.c ---- */

/* Copy *from to *to, except the member `total`. *to gets its own copy of the pending tokens. */
void streamed_copy(struct streamed *to, const struct streamed *from);

/* ---- aside.c: questions beside a streamed message ---- */

/* If aside.wanted is set, take a snapshot. Call this before a question is appended to the streamed message (a text read
 * from a stream). Returns 0 or -1. */
int aside_save(struct growth *, const struct conversation *, struct err *);
/* Load the snapshot, after the question was removed. Returns 1 if timeline and message are as they were before the
 * question; 0 if there is no snapshot or it cannot be loaded. */
int aside_restore(struct growth *, struct conversation *);
void aside_forget(struct aside *);

/* ---- surprise.c ---- */

/* Prefill id[0 .. n) by timeline_extend(), and record how much these tokens surprise the model. `byte` is the offset of
 * id[0] in the last message. Returns 0 or -1. */
int surprise_extend(struct conversation *, const int32_t *id, size_t n, size_t byte, struct err *);
void surprise_forget(struct surprise *);

#endif
