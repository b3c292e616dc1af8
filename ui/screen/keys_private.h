/* ui/screen/keys_private.h (private to keys*.c) - one key of the stream. */
#ifndef WEIR_KEYS_PRIVATE_H
#define WEIR_KEYS_PRIVATE_H

#include "ui/screen/keys.h"

enum { ESC = 0x1b, DEL = 0x7f };

/* What follows the key: nothing, the content of a paste, or bytes to skip. */
enum turn { TURN_NONE, TURN_PASTE, TURN_SKIP_CSI, TURN_SKIP_STRING };
/* The first key in s[0..n): its length, 0 if more bytes are needed.  *out is K_UNKNOWN with nothing in it. */
size_t key_take(const char *s, size_t n, struct key *out, enum turn *);
/* ESC and this byte begin a string: an answer of the terminal. */
int  key_begins_string(char b);
void key_set(struct key *, enum key_code, unsigned mods);
void key_set_char(struct key *, int32_t cp, unsigned mods);

#endif
