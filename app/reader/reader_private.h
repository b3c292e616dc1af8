/* app/reader/reader_private.h - inside app/reader/: what its files share. */
#ifndef WEIR_READER_PRIVATE_H
#define WEIR_READER_PRIVATE_H

#include "app/conversation/conversation_private.h"
#include "app/reader/reader.h"

/* ---- aside.c: questions beside a growing message ---- */

/* The last message grows again: load its snapshot, if there is one.  1: timeline and message are as they were. */
int aside_restore(struct conversation *);

/* ---- surprise.c ---- */

/* timeline_extend() with the surprise of id[0 .. n), which begin at byte `byte` of the last message. */
int surprise_extend(struct conversation *, const int32_t *id, size_t n, size_t byte, struct err *);

#endif
