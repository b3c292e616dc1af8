/* ui/screen/keys_decode.c - decodes one key: characters, CSI and SS3 sequences, the mouse. */
#include "ui/screen/keys_private.h"

#include <string.h>

static int is_printable(int32_t cp)
{
	return cp >= 0x20 && !(cp >= DEL && cp <= 0x9f);
}

/* ---- characters ---- */

void key_set(struct key *out, enum key_code code, unsigned mods)
{
	out->code = code;
	out->mods = mods;
}

void key_set_char(struct key *out, int32_t cp, unsigned mods)
{
	key_set(out, K_CHAR, mods);
	out->cp = cp;
}

/* Set the key for a control character (0 to 31) or DEL. */
static void set_control(struct key *out, unsigned char b, unsigned mods)
{
	switch (b) {
	case '\r': key_set(out, K_ENTER, mods); break;
	case '\n': key_set(out, K_ENTER, mods | KEY_CTRL); break;
	case '\t': key_set(out, K_TAB, mods); break;
	case '\b':
	case DEL: key_set(out, K_BACKSPACE, mods); break; /* for Backspace, some terminals send \b and others DEL */
	case ESC: key_set(out, K_ESC, mods); break;
	default: key_set_char(out, b >= 1 && b <= 26 ? b + 'a' - 1 : b + '@', mods | KEY_CTRL); break;
	}
}

/* Set the key for a code point and modifiers of a CSI sequence. Older protocols send some keys as control codes, so
 * that Ctrl-I and Tab are the same code. To be the same with all protocols, Ctrl-I becomes Tab, and likewise for
 * similar keys. */
static void set_coded(struct key *out, int32_t cp, unsigned mods)
{
	int32_t lower = cp >= 'A' && cp <= 'Z' ? cp + 'a' - 'A' : cp;

	if (cp < 0x20 || cp == DEL) {
		set_control(out, (unsigned char)cp, mods);
	} else if (!is_printable(cp) || cp > 0x10ffff || (cp >= 0xd800 && cp <= 0xdfff)) {
		key_set(out, K_UNKNOWN, 0);
	} else if (!(mods & KEY_CTRL)) {
		if ((mods & KEY_SHIFT) && cp >= 'a' && cp <= 'z')
			cp += 'A' - 'a';
		key_set_char(out, cp, mods & ~(unsigned)KEY_SHIFT);
	} else if (lower >= 'a' && lower <= 'z' && !(mods & KEY_SHIFT)) {
		set_control(out, (unsigned char)(lower - 'a' + 1), mods & ~(unsigned)KEY_CTRL);
	} else if (lower >= 'a' && lower <= 'z') {
		key_set_char(out, lower, mods);
	} else if (cp == ' ' || cp == '@') {
		key_set_char(out, '@', mods & ~(unsigned)KEY_SHIFT);
	} else if (cp >= '[' && cp <= '_') {
		set_control(out, (unsigned char)(cp - '@'), mods & ~(unsigned)(KEY_CTRL | KEY_SHIFT));
	} else {
		key_set(out, K_UNKNOWN, 0);
	}
}

/* ---- control sequences ---- */

enum { PARAMS = 8, SUBPARAMS = 2, PARAM_MAX = 9999999 };
struct csi {
	char private, intermediate, final;
	int32_t param[PARAMS][SUBPARAMS]; /* numeric parameters of the sequence; -1 = a number was left out */
	int n_param;
};

static int32_t csi_param(const struct csi *c, int i, int32_t otherwise)
{
	return i < c->n_param && c->param[i][0] >= 0 ? c->param[i][0] : otherwise;
}

/* Decode modifiers (Shift, Alt, Ctrl) from the numbers that xterm and kitty use. Returns -1 for a key release or an
 * unsupported modifier. */
static int csi_mods(const struct csi *c, int i)
{
	int32_t bits = csi_param(c, i, 1) - 1, event = i < c->n_param ? c->param[i][1] : -1;
	unsigned mods = (unsigned)bits & (KEY_SHIFT | KEY_ALT | KEY_CTRL);

	if (bits < 0 || bits > 255 || event == 3 || (bits & 16))
		return -1;
	if (bits & (8 | 32)) /* take Meta for Alt: it is bit 8 of xterm, and bit 32 of kitty */
		mods |= KEY_ALT;
	return (int)mods;
}

static const struct {
	char final;
	unsigned char code, cp;
} letter_keys[] = {
	{ 'A', K_UP, 0 },  { 'B', K_DOWN, 0 }, { 'C', K_RIGHT, 0 }, { 'D', K_LEFT, 0 }, { 'H', K_HOME, 0 },
	{ 'F', K_END, 0 }, { 'P', K_F, 1 },    { 'Q', K_F, 2 },     { 'R', K_F, 3 },    { 'S', K_F, 4 },
};

static int set_letter(struct key *out, char final, unsigned mods)
{
	for (size_t i = 0; i < LEN(letter_keys); i++) {
		if (letter_keys[i].final == final) {
			key_set(out, (enum key_code)letter_keys[i].code, mods);
			out->cp = letter_keys[i].cp;
			return 1;
		}
	}
	return 0;
}

static int set_numbered(struct key *out, int32_t number, unsigned mods)
{
	static const unsigned char named[] = {
		[1] = K_HOME,    [2] = K_INSERT,    [3] = K_DELETE, [4] = K_END,
		[5] = K_PAGE_UP, [6] = K_PAGE_DOWN, [7] = K_HOME,   [8] = K_END,
	};
	static const unsigned char f[] = {
		[11] = 1,  2,  3,  4,  5,         [17] = 6, 7,         8,  9,  10,
		[23] = 11, 12, 13, 14, [28] = 15, 16,       [31] = 17, 18, 19, 20,
	};

	if (number >= 1 && number <= 8) {
		key_set(out, (enum key_code)named[number], mods);
		return 1;
	}
	if (number >= 0 && (size_t)number < sizeof f && f[number]) {
		key_set(out, K_F, mods);
		out->cp = f[number];
		return 1;
	}
	return 0;
}

/* Set a key from the private numbers of the kitty terminal: numeric pad, F13 and up. */
static void set_unicode_key(struct key *out, int32_t code, unsigned mods)
{
	static const char pad[] = "0123456789./*-+\r=,";
	static const unsigned char named[] = {
		K_LEFT, K_RIGHT, K_UP, K_DOWN, K_PAGE_UP, K_PAGE_DOWN, K_HOME, K_END, K_INSERT, K_DELETE,
	};

	if (code >= 57376 && code <= 57398) {
		key_set(out, K_F, mods);
		out->cp = code - 57376 + 13;
	} else if (code >= 57399 && code < 57399 + 18) {
		set_coded(out, pad[code - 57399], mods);
	} else if (code >= 57417 && code < 57417 + 10) {
		key_set(out, (enum key_code)named[code - 57417], mods);
	} else if (code >= 57344 && code <= 63743) {
		key_set(out, K_UNKNOWN, 0);
	} else {
		set_coded(out, code, mods);
	}
}

static void set_mouse(struct key *out, int32_t bits, int32_t x, int32_t y, int released)
{
	int button = bits & 3;

	/* some events are not supported: dragging with another button than the left one, a sideways wheel, more than
	 * three buttons */
	if (x < 1 || y < 1 || ((bits & 32) && (button || (bits & 64))) || bits >= 128 ||
	    ((bits & 64) ? button > 1 : button == 3 && !released)) {
		key_set(out, K_UNKNOWN, 0);
		return;
	}
	key_set(out, K_MOUSE, (bits & 4 ? KEY_SHIFT : 0) | (bits & 8 ? KEY_ALT : 0) | (bits & 16 ? KEY_CTRL : 0));
	out->x = x - 1;
	out->y = y - 1;
	out->cp = released ? 0 : bits & 32 ? 6 : (bits & 64) ? 4 + button : 1 + button;
}

static void decode_csi(const struct csi *c, struct key *out)
{
	int mods = csi_mods(c, 1);

	if (c->private == '<' && !c->intermediate && (c->final == 'M' || c->final == 'm') && c->n_param == 3) {
		set_mouse(out, csi_param(c, 0, 0), csi_param(c, 1, 0), csi_param(c, 2, 0), c->final == 'm');
		return;
	}
	if (c->private || c->intermediate)
		return;
	if (c->final == 'u' && mods >= 0 && c->n_param >= 1) {
		/* with Shift, the second number of the first parameter is the shifted character */
		int32_t code = (mods & KEY_SHIFT) && c->param[0][1] > 0 && !(mods & KEY_CTRL) ? c->param[0][1]
		                                                                              : csi_param(c, 0, 0);
		set_unicode_key(out, code, (unsigned)mods);
	} else if (c->final == '~' && csi_param(c, 0, 0) == 27 && c->n_param == 3 && mods >= 0) {
		set_coded(out, csi_param(c, 2, 0), (unsigned)mods);
	} else if (c->final == '~' && c->n_param <= 2 && mods >= 0) {
		set_numbered(out, csi_param(c, 0, 0), (unsigned)mods);
	} else if ((c->final == '^' || c->final == '@') && c->n_param == 1) { /* a sequence of rxvt */
		set_numbered(out, csi_param(c, 0, 0), KEY_CTRL | (c->final == '@' ? KEY_SHIFT : 0));
	} else if (c->final == '$' && c->n_param == 1) {
		set_numbered(out, csi_param(c, 0, 0), KEY_SHIFT);
	} else if (c->final >= 'a' && c->final <= 'd' && c->n_param == 0) { /* a sequence of rxvt */
		set_letter(out, (char)(c->final - 'a' + 'A'), KEY_SHIFT);
	} else if (c->final == 'Z' && c->n_param == 0) {
		key_set(out, K_TAB, KEY_SHIFT);
	} else if ((c->final == 'I' || c->final == 'O') && c->n_param == 0) {
		key_set(out, K_FOCUS, 0);
		out->cp = c->final == 'I';
	} else if (mods >= 0 && c->n_param <= 2 && csi_param(c, 0, 1) == 1) {
		set_letter(out, c->final, (unsigned)mods);
	}
}

static void read_params(const char *s, size_t n, struct csi *c)
{
	int field = 0, sub = 0;

	memset(c->param, -1, sizeof c->param);
	for (size_t i = 0; i < n; i++) {
		if (s[i] == ';') {
			field++;
			sub = 0;
		} else if (s[i] == ':') {
			sub++;
		} else if (field < PARAMS && sub < SUBPARAMS) {
			int32_t *p = &c->param[field][sub];
			*p = (*p < 0 ? 0 : *p) * 10 + (s[i] - '0');
			if (*p > PARAM_MAX)
				*p = PARAM_MAX;
		}
	}
	c->n_param = !n ? 0 : field < PARAMS ? field + 1 : PARAMS;
}

/* Decode the oldest mouse protocol: ESC[M and three bytes. */
static size_t take_old_mouse(const char *s, size_t n, struct key *out)
{
	for (size_t i = 3; i < 6; i++) {
		if (i == n)
			return 0;
		if ((unsigned char)s[i] < 0x20)
			return i;
	}
	set_mouse(out, (unsigned char)s[3] - 32, (unsigned char)s[4] - 32, (unsigned char)s[5] - 32,
	          (((unsigned char)s[3] - 32) & 67) == 3);
	return 6;
}

/* Decode a CSI sequence; s begins with ESC [. */
static size_t take_csi(const char *s, size_t n, struct key *out, enum turn *turn)
{
	struct csi c = { 0 };
	size_t i = 2, from;
	int number;

	if (i < n && s[i] == 'M')
		return take_old_mouse(s, n, out);
	if (i < n && s[i] == '[') { /* F1 to F5 of the Linux console */
		if (n < 4)
			return 0;
		if ((unsigned char)s[3] < 0x20 || (unsigned char)s[3] >= DEL)
			return 3;
		if (s[3] >= 'A' && s[3] <= 'E') {
			key_set(out, K_F, 0);
			out->cp = s[3] - 'A' + 1;
		}
		return 4;
	}
	if (i < n && s[i] >= '<' && s[i] <= '?')
		c.private = s[i++];
	from = i;
	while (i < n && i < KEYS_SEQ_MAX && ((s[i] >= '0' && s[i] <= ';')))
		i++;
	read_params(s + from, i - from, &c);
	number = !c.private && c.n_param == 1 && c.param[0][0] >= 0 && c.param[0][1] < 0;
	/* '$' is a final byte only in sequences of rxvt, such as ESC [ 7 $ */
	if (i < n && i < KEYS_SEQ_MAX && s[i] == '$' && number) {
		struct key probe = { .code = K_UNKNOWN };
		if (set_numbered(&probe, c.param[0][0], 0))
			c.final = s[i++];
	}
	while (!c.final && i < n && i < KEYS_SEQ_MAX && s[i] >= 0x20 && s[i] <= '?') {
		/* A parameter byte is not valid at this place of the sequence. Setting c.private to '?' makes
		 * decode_csi() treat the sequence as unknown. */
		if (s[i] >= '0')
			c.private = '?';
		else
			c.intermediate = s[i];
		i++;
	}
	if (!c.final) {
		if (i == KEYS_SEQ_MAX) {
			*turn = TURN_SKIP_CSI;
			return i;
		}
		if (i == n)
			return 0;
		/* a control character or a byte above 127 ends the sequence */
		if ((unsigned char)s[i] < '@' || (unsigned char)s[i] >= DEL)
			return i;
		c.final = s[i++];
	}
	if (c.final == '~' && !c.private && !c.intermediate && c.n_param == 1 && c.param[0][0] == 200) {
		*turn = TURN_PASTE;
		return i;
	}
	decode_csi(&c, out);
	return i;
}

/* Decode an SS3 sequence; s begins with ESC O. */
static size_t take_ss3(const char *s, size_t n, struct key *out)
{
	static const char pad[] = "*+,-./0123456789";
	unsigned mods = 0;
	size_t i = 2;
	char b;

	if (n > 2 && s[2] >= '1' && s[2] <= '9') { /* a sequence of old terminals, such as ESC O 5 P */
		int bits = s[2] - '1';
		if (n < 4)
			return 0;
		mods = (unsigned)bits & (KEY_SHIFT | KEY_ALT | KEY_CTRL);
		i = 3;
	}
	if (i >= n)
		return 0;
	b = s[i];
	if ((unsigned char)b < 0x20 || (unsigned char)b >= DEL) {
		if (i == 2)
			key_set_char(out, 'O', KEY_ALT);
		return i;
	}
	if (set_letter(out, b, mods))
		;
	else if (b >= 'a' && b <= 'd')
		set_letter(out, (char)(b - 'a' + 'A'), KEY_CTRL); /* a sequence of rxvt */
	else if (b >= 'j' && b <= 'y')
		key_set_char(out, pad[b - 'j'], mods & KEY_ALT);
	else if (b == 'M')
		key_set(out, K_ENTER, mods);
	else if (b == 'I')
		key_set(out, K_TAB, mods);
	else if (b == 'X')
		key_set_char(out, '=', mods & KEY_ALT);
	return i + 1;
}

static size_t take_char(const char *s, size_t n, unsigned mods, struct key *out)
{
	int32_t cp;
	size_t len;

	if ((unsigned char)s[0] < 0x20 || s[0] == DEL) {
		set_control(out, (unsigned char)s[0], mods);
		return 1;
	}
	if (!utf8_complete(s, MIN(n, 4)))
		return 0;
	len = (size_t)utf8_decode(s, n, &cp);
	if (is_printable(cp))
		key_set_char(out, cp, mods);
	return len;
}

int key_begins_string(char b)
{
	return b == ']' || b == 'P' || b == 'X' || b == '^' || b == '_';
}

size_t key_take(const char *s, size_t n, struct key *out, enum turn *turn)
{
	size_t len;

	if (s[0] != ESC)
		return take_char(s, n, 0, out);
	if (n < 2)
		return 0;
	if (s[1] == '[')
		return take_csi(s, n, out, turn);
	if (s[1] == 'O')
		return take_ss3(s, n, out);
	if (key_begins_string(s[1])) {
		if (n > 2)
			*turn = TURN_SKIP_STRING;
		return n > 2 ? 2 : 0;
	}
	if (s[1] == ESC) {
		if (n < 3)
			return 0;
		if (s[2] == '[' || s[2] == 'O') {
			enum turn inner = TURN_NONE;
			len = s[2] == '[' ? take_csi(s + 1, n - 1, out, &inner) : take_ss3(s + 1, n - 1, out);
			if (!len)
				return 0;
			if (inner == TURN_NONE && out->code >= K_UP && out->code <= K_F) {
				out->mods |= KEY_ALT;
				return len + 1;
			}
			/* report only the Esc key now; the caller decodes the other bytes next */
			*out = (struct key){ .code = K_UNKNOWN };
		}
		key_set(out, K_ESC, 0);
		return 1;
	}
	len = take_char(s + 1, n - 1, KEY_ALT, out);
	return len ? len + 1 : 0;
}
