/* ui/screen/keys.h (private to ui/) - decodes a terminal's bytes to keys. */
#ifndef WEIR_KEYS_H
#define WEIR_KEYS_H

#include "engine/base/base.h"

enum key_code {
	K_CHAR, /* `cp` is the character; with KEY_CTRL, it is a letter 'a'..'z' or one of [\]^_@ */
	K_ENTER,
	K_TAB,
	K_BACKSPACE,
	K_ESC,
	K_UP,
	K_DOWN,
	K_LEFT,
	K_RIGHT,
	K_HOME,
	K_END,
	K_PAGE_UP,
	K_PAGE_DOWN,
	K_INSERT,
	K_DELETE,
	K_F, /* `cp` is the number of the F key */
	/* x and y are the cell, from 0. cp = 1, 2, 3: the left, middle or right button was pressed. cp = 4, 5: the
	 * wheel was turned up or down. cp = 0: the button was released. cp = 6: the mouse was moved while the left
	 * button was pressed. */
	K_MOUSE,
	/* `bytes` is the pasted text, with \n line ends; it has no other ASCII control characters except tab */
	K_PASTE,
	K_FOCUS,      /* the terminal window got the focus (cp is 1) or lost it (cp is 0) */
	K_BACKGROUND, /* the terminal's answer about its background: cp is 1 if it is light, 0 if it is dark */
	K_UNKNOWN     /* an unknown sequence, which is never shown as text */
};
enum key_mods { KEY_SHIFT = 1, KEY_ALT = 2, KEY_CTRL = 4 };

struct key {
	enum key_code code;
	unsigned mods;
	int32_t cp;
	int x, y;
	const char *bytes;
	size_t n; /* bytes[n] has the input bytes of the key; for K_PASTE, the text. They are valid during the call. */
};
typedef void key_fn(const struct key *, void *ud);

/* Limits of decoding. A lone ESC becomes the Esc key after KEYS_ESC seconds. If the terminal does not mark pastes,
 * KEYS_BURST or more bytes at once count as a paste if a line break is among them. */
#define KEYS_ESC 0.025
enum { KEYS_BURST = 32, KEYS_PASTE_MAX = 16 << 20, KEYS_SEQ_MAX = 64 };
struct keys {
	struct str held; /* incomplete sequence or paste */
	int pasting;
	/* time of the last byte of an incomplete sequence or paste; 0: no sequence or paste is incomplete */
	double since;
	/* the members below are for keys.c only, except marks_pastes, which ui.c reads */
	unsigned char skipping;     /* 1: inside a sequence that is skipped */
	unsigned char marks_pastes; /* 1: the terminal marks pastes, because an earlier paste was marked */
	char string[32];
	unsigned char n_string; /* string[n_string] has the first bytes of a control string */
	/* State inside a paste. after_cr is 1 if the last byte was a CR, so that a line feed now is skipped. `matched`
	 * is the number of bytes of the end mark that were read so far. */
	unsigned char after_cr, matched;
};
void keys_free(struct keys *);
void keys_feed(struct keys *, const char *bytes, size_t n, double now, key_fn *, void *ud);
/* Handle timeouts. For example, an ESC byte that no other byte has followed is reported as the key Esc. */
void keys_tick(struct keys *, double now, key_fn *, void *ud);
/* Return the time at which keys_tick() must be called; 0: no timeout is running. */
double keys_wake(const struct keys *);

#endif
