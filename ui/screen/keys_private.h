/* ui/screen/keys_private.h (private to keys*.c) - decodes one key. */
#ifndef WEIR_KEYS_PRIVATE_H
#define WEIR_KEYS_PRIVATE_H

#include "ui/screen/keys.h"

enum { ESC = 0x1b, DEL = 0x7f };

/* What comes after the decoded bytes. NONE: the next key. PASTE: the text of a paste. SKIP_CSI: the rest of a CSI
 * sequence, which the caller must skip. SKIP_STRING: the rest of a control string, which the caller must skip. */
enum turn { TURN_NONE, TURN_PASTE, TURN_SKIP_CSI, TURN_SKIP_STRING };
/* Decode the first key in s[n]. Returns the length of the key; 0: more bytes are needed. Before the call *out must be a
 * zeroed K_UNKNOWN. */
size_t key_take(const char *s, size_t n, struct key *out, enum turn *);
/* 1 if ESC and b begin a control string, such as an answer of the terminal. */
int key_begins_string(char b);
void key_set(struct key *, enum key_code, unsigned mods);
void key_set_char(struct key *, int32_t cp, unsigned mods);

#endif
