/* app/reader/reader_private.h - inside app/reader/: what its files share. */
#ifndef WEIR_READER_PRIVATE_H
#define WEIR_READER_PRIVATE_H

#include "app/conversation/companion.h"
#include "app/reader/reader.h"

extern const struct companion_ops growing_ops, surprise_ops;

/* A snapshot of the timeline while a growing message is closed by questions that stand beside it (aside.c). */
struct aside {
	int wanted;             /* questions about the growing message stand beside it */
	int there;              /* the snapshot is taken */
	size_t msg;             /* the growing message */
	struct growing growing; /* as it was */
	int32_t pinned;
	/* Fixed entries, and how many tokens have them; of the first n_full the layers with a window have none. */
	char *entries;
	int32_t n_entries, n_full;
	int file;
	uint64_t file_bytes; /* where --kv-memory is given, they lie in a file (> 0 bytes) instead */
	struct str head, identity;
	double seconds; /* that taking it took */
};

/* The state of growing_ops. */
struct growth {
	struct growing text;
	struct aside aside;
};
struct growth *growth_of(const struct conversation *);

/* ---- growing_message.c ---- */

/* *to becomes *from, but keeps its memory, and its total. */
void growing_copy(struct growing *to, const struct growing *from);

/* ---- aside.c: questions beside a growing message ---- */

/* Before a question closes the growing message: take a snapshot, if that is wanted.  -1: there is none, and why. */
int aside_save(struct growth *, const struct conversation *, struct err *);
/* The last message grows again: load its snapshot, if there is one.  1: timeline and message are as they were. */
int aside_restore(struct growth *, struct conversation *);
void aside_forget(struct aside *);

/* ---- surprise.c ---- */

/* timeline_extend() with the surprise of id[0 .. n), which begin at byte `byte` of the last message. */
int surprise_extend(struct conversation *, const int32_t *id, size_t n, size_t byte, struct err *);
void surprise_forget(struct surprise *);

#endif
