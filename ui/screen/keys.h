/* ui/screen/keys.h (private to ui/) - from the bytes of a terminal to keys. */
#ifndef WEIR_KEYS_H
#define WEIR_KEYS_H

#include "engine/base/base.h"

enum key_code {
	K_CHAR,                          /* cp; with KEY_CTRL a letter 'a'..'z' or one of [\]^_@ */
	K_ENTER, K_TAB, K_BACKSPACE, K_ESC,
	K_UP, K_DOWN, K_LEFT, K_RIGHT, K_HOME, K_END, K_PAGE_UP, K_PAGE_DOWN, K_INSERT, K_DELETE,
	K_F,                             /* cp: its number */
	K_MOUSE,                         /* x, y from 0; cp: 1 left, 2 middle, 3 right, 4 wheel up, 5 wheel down; 0 released;
	                                  * 6 moved with the left button down */
	K_PASTE,                         /* bytes: what was pasted, with \n line ends and without escapes */
	K_FOCUS,                         /* cp: 1 in, 0 out */
	K_BACKGROUND,                    /* the terminal's answer to OSC 11; cp: 1 its background is light, 0 dark */
	K_UNKNOWN                        /* a sequence that means nothing here: never shown as text */
};
enum key_mods { KEY_SHIFT = 1, KEY_ALT = 2, KEY_CTRL = 4 };

struct key {
	enum key_code code;
	unsigned mods;
	int32_t cp;
	int x, y;
	const char *bytes; size_t n;     /* as they came (K_PASTE: see there); valid during the call */
};
typedef void key_fn(const struct key *, void *ud);

/* Bytes may be cut anywhere.  A lone ESC waits KEYS_ESC seconds for more.  Many bytes with line breaks among them in one
 * go, from a terminal that does not mark pastes, count as a paste, too (KEYS_BURST bytes at once; one break at their very
 * end is Enter).  Ctrl-J is K_ENTER with KEY_CTRL, Alt-Enter K_ENTER with KEY_ALT. */
#define KEYS_ESC 0.025
enum { KEYS_BURST = 32, KEYS_PASTE_MAX = 16 << 20, KEYS_SEQ_MAX = 64 };
struct keys {
	struct str held;                 /* a sequence or a paste that is not whole yet */
	int pasting;
	double since;                    /* when the last byte came of what is not whole; 0 = nothing waits */
	/* private */
	unsigned char skipping;          /* inside of a sequence that means nothing, or is too long */
	unsigned char marks_pastes;      /* this terminal does */
	char string[32]; unsigned char n_string;   /* the beginning of a control string */
	unsigned char after_cr, matched; /* in a paste: a line feed to swallow; bytes of the end mark seen */
};
void keys_free(struct keys *);
void keys_feed(struct keys *, const char *bytes, size_t n, double now, key_fn *, void *ud);
/* Time passes: a lone ESC becomes Esc. */
void keys_tick(struct keys *, double now, key_fn *, void *ud);
/* When keys_tick() has something to do; 0 = never. */
double keys_wake(const struct keys *);

#endif
