/* ui/keys.c - from the bytes of a terminal to keys.
 *
 * One pass over what came.  In the order of how it is recognised:
 *
 *   paste       ESC[200~ ... ESC[201~: all between them is content, whatever it looks like
 *   CSI         ESC [ parameters final: arrows and named keys with xterm's modifiers (1;5A, 3;2~), F keys of xterm, the
 *               Linux console (ESC[[A) and rxvt (11~, 3^, 3$), any key as 27;MODS;CODE~ or CODE;MODSu, mouse
 *               (<0;1;1M), focus (I, O)
 *   SS3         ESC O final: arrows, F1-F4, the numeric pad
 *   strings     ESC ] P X ^ _ up to BEL or ESC \: answers of the terminal that nobody asked for; swallowed
 *   Alt         ESC and any other character; ESC ESC [ ... as rxvt sends it
 *   the rest    controls, UTF-8
 *
 * What is unknown is swallowed up to where such a sequence ends and becomes one K_UNKNOWN: its letters must not end
 * up in the input line.  A control character in the middle of a sequence ends it and counts: Ctrl-C and Enter always
 * get through.
 *
 * What is not whole is kept in `held` and looked at again with the next bytes; it is short, as longer sequences are
 * skipped as they come.  So the keys do not depend on where the bytes were cut.  Time decides only about what stays
 * unfinished: see wait_of(). */
#include "ui/keys.h"

#include <float.h>
#include <string.h>

#define ESC 0x1b
#define DEL 0x7f
#define REPLACEMENT 0xfffd
#define WAIT_SEQUENCE 0.25   /* for the rest of a sequence: links that cut one in two are slow */
#define WAIT_PASTE 5.0       /* for the end mark of a paste: without it the keyboard would be dead for good */
#define WAIT_BURST 0.05      /* for the rest of a paste without marks */

static const char paste_end[] = "\33[201~";

enum { PASTING_MARKED = 1, PASTING_BURST };
enum { SKIP_CSI = 1, SKIP_STRING, SKIP_STRING_ESC };

void keys_free(struct keys *k)
{
	str_free(&k->held);
	*k = (struct keys){ 0 };
}

static int is_printable(int32_t cp)
{
	return cp >= 0x20 && !(cp >= DEL && cp <= 0x9f);
}

/* ---- characters ---- */

static void set_key(struct key *out, enum key_code code, unsigned mods)
{
	out->code = code;
	out->mods = mods;
}

static void set_char(struct key *out, int32_t cp, unsigned mods)
{
	set_key(out, K_CHAR, mods);
	out->cp = cp;
}

/* One of the 32 control characters, or DEL. */
static void set_control(struct key *out, unsigned char b, unsigned mods)
{
	switch (b) {
	case '\r':        set_key(out, K_ENTER, mods); break;
	case '\n':        set_key(out, K_ENTER, mods | KEY_CTRL); break;
	case '\t':        set_key(out, K_TAB, mods); break;
	case '\b': case DEL: set_key(out, K_BACKSPACE, mods); break;   /* which of them it is depends on the terminal */
	case ESC:         set_key(out, K_ESC, mods); break;
	default:          set_char(out, b >= 1 && b <= 26 ? b + 'a' - 1 : b + '@', mods | KEY_CTRL); break;
	}
}

/* A character that came as a number, with its modifiers: as if it had been typed the old way, where there is one. */
static void set_coded(struct key *out, int32_t cp, unsigned mods)
{
	int32_t lower = cp >= 'A' && cp <= 'Z' ? cp + 'a' - 'A' : cp;

	if (cp < 0x20 || cp == DEL) {
		set_control(out, (unsigned char)cp, mods);
	} else if (!is_printable(cp) || cp > 0x10ffff || (cp >= 0xd800 && cp <= 0xdfff)) {
		set_key(out, K_UNKNOWN, 0);
	} else if (!(mods & KEY_CTRL)) {
		if ((mods & KEY_SHIFT) && cp >= 'a' && cp <= 'z')
			cp += 'A' - 'a';
		set_char(out, cp, mods & ~(unsigned)KEY_SHIFT);
	} else if (lower >= 'a' && lower <= 'z' && !(mods & KEY_SHIFT)) {
		set_control(out, (unsigned char)(lower - 'a' + 1), mods & ~(unsigned)KEY_CTRL);
	} else if (lower >= 'a' && lower <= 'z') {
		set_char(out, lower, mods);
	} else if (cp == ' ' || cp == '@') {
		set_char(out, '@', mods & ~(unsigned)KEY_SHIFT);
	} else if (cp >= '[' && cp <= '_') {
		set_control(out, (unsigned char)(cp - '@'), mods & ~(unsigned)(KEY_CTRL | KEY_SHIFT));
	} else {
		set_key(out, K_UNKNOWN, 0);
	}
}

/* ---- control sequences ---- */

enum { PARAMS = 8, SUBPARAMS = 2, PARAM_MAX = 9999999 };
struct csi {
	char private, intermediate, final;
	int32_t param[PARAMS][SUBPARAMS];   /* -1 = not given */
	int n_param;
};

static int32_t param(const struct csi *c, int i, int32_t otherwise)
{
	return i < c->n_param && c->param[i][0] >= 0 ? c->param[i][0] : otherwise;
}

/* Modifiers as xterm and kitty number them; -1: the key was let go, or with a modifier that means another key. */
static int csi_mods(const struct csi *c, int i)
{
	int32_t bits = param(c, i, 1) - 1, event = i < c->n_param ? c->param[i][1] : -1;
	unsigned mods = (unsigned)bits & (KEY_SHIFT | KEY_ALT | KEY_CTRL);

	if (bits < 0 || bits > 255 || event == 3 || (bits & 16))
		return -1;
	if (bits & (8 | 32))   /* Meta, of xterm and of kitty */
		mods |= KEY_ALT;
	return (int)mods;
}

static const struct { char final; unsigned char code, cp; } letter_keys[] = {
	{ 'A', K_UP, 0 }, { 'B', K_DOWN, 0 }, { 'C', K_RIGHT, 0 }, { 'D', K_LEFT, 0 }, { 'H', K_HOME, 0 }, { 'F', K_END, 0 },
	{ 'P', K_F, 1 }, { 'Q', K_F, 2 }, { 'R', K_F, 3 }, { 'S', K_F, 4 },
};

static int set_letter(struct key *out, char final, unsigned mods)
{
	for (size_t i = 0; i < sizeof letter_keys / sizeof letter_keys[0]; i++) {
		if (letter_keys[i].final == final) {
			set_key(out, (enum key_code)letter_keys[i].code, mods);
			out->cp = letter_keys[i].cp;
			return 1;
		}
	}
	return 0;
}

static int set_numbered(struct key *out, int32_t number, unsigned mods)
{
	static const unsigned char named[] = {
		[1] = K_HOME, [2] = K_INSERT, [3] = K_DELETE, [4] = K_END, [5] = K_PAGE_UP, [6] = K_PAGE_DOWN,
		[7] = K_HOME, [8] = K_END,
	};
	static const unsigned char f[] = {
		[11] = 1, 2, 3, 4, 5, [17] = 6, 7, 8, 9, 10, [23] = 11, 12, 13, 14, [28] = 15, 16, [31] = 17, 18, 19, 20,
	};

	if (number >= 1 && number <= 8) {
		set_key(out, (enum key_code)named[number], mods);
		return 1;
	}
	if (number >= 0 && (size_t)number < sizeof f && f[number]) {
		set_key(out, K_F, mods);
		out->cp = f[number];
		return 1;
	}
	return 0;
}

/* Keys beyond characters in kitty's numbering: the numeric pad, F13 and up. */
static void set_unicode_key(struct key *out, int32_t code, unsigned mods)
{
	static const char pad[] = "0123456789./*-+\r=,";
	static const unsigned char named[] = {
		K_LEFT, K_RIGHT, K_UP, K_DOWN, K_PAGE_UP, K_PAGE_DOWN, K_HOME, K_END, K_INSERT, K_DELETE,
	};

	if (code >= 57376 && code <= 57398) {
		set_key(out, K_F, mods);
		out->cp = code - 57376 + 13;
	} else if (code >= 57399 && code < 57399 + 18) {
		set_coded(out, pad[code - 57399], mods);
	} else if (code >= 57417 && code < 57417 + 10) {
		set_key(out, (enum key_code)named[code - 57417], mods);
	} else if (code >= 57344 && code <= 63743) {
		set_key(out, K_UNKNOWN, 0);
	} else {
		set_coded(out, code, mods);
	}
}

static void set_mouse(struct key *out, int32_t bits, int32_t x, int32_t y, int released)
{
	int button = bits & 3;

	/* Moves, the wheel's sides and buttons beyond the third mean nothing here. */
	if (x < 1 || y < 1 || (bits & 32) || bits >= 128 || ((bits & 64) ? button > 1 : button == 3 && !released)) {
		set_key(out, K_UNKNOWN, 0);
		return;
	}
	set_key(out, K_MOUSE, (bits & 4 ? KEY_SHIFT : 0) | (bits & 8 ? KEY_ALT : 0) | (bits & 16 ? KEY_CTRL : 0));
	out->x = x - 1;
	out->y = y - 1;
	out->cp = released ? 0 : (bits & 64) ? 4 + button : 1 + button;
}

static void decode_csi(const struct csi *c, struct key *out)
{
	int mods = csi_mods(c, 1);

	if (c->private == '<' && !c->intermediate && (c->final == 'M' || c->final == 'm') && c->n_param == 3) {
		set_mouse(out, param(c, 0, 0), param(c, 1, 0), param(c, 2, 0), c->final == 'm');
		return;
	}
	if (c->private || c->intermediate)
		return;
	if (c->final == 'u' && mods >= 0 && c->n_param >= 1) {
		/* With Shift, the second number of the first field is what the key then types. */
		int32_t code = (mods & KEY_SHIFT) && c->param[0][1] > 0 && !(mods & KEY_CTRL) ? c->param[0][1] : param(c, 0, 0);
		set_unicode_key(out, code, (unsigned)mods);
	} else if (c->final == '~' && param(c, 0, 0) == 27 && c->n_param == 3 && mods >= 0) {
		set_coded(out, param(c, 2, 0), (unsigned)mods);
	} else if (c->final == '~' && c->n_param <= 2 && mods >= 0) {
		set_numbered(out, param(c, 0, 0), (unsigned)mods);
	} else if ((c->final == '^' || c->final == '@') && c->n_param == 1) {   /* rxvt */
		set_numbered(out, param(c, 0, 0), KEY_CTRL | (c->final == '@' ? KEY_SHIFT : 0));
	} else if (c->final == '$' && c->n_param == 1) {
		set_numbered(out, param(c, 0, 0), KEY_SHIFT);
	} else if (c->final >= 'a' && c->final <= 'd' && c->n_param == 0) {     /* rxvt, too */
		set_letter(out, (char)(c->final - 'a' + 'A'), KEY_SHIFT);
	} else if (c->final == 'Z' && c->n_param == 0) {
		set_key(out, K_TAB, KEY_SHIFT);
	} else if ((c->final == 'I' || c->final == 'O') && c->n_param == 0) {
		set_key(out, K_FOCUS, 0);
		out->cp = c->final == 'I';
	} else if (mods >= 0 && c->n_param <= 2 && param(c, 0, 1) == 1) {
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

/* What the caller is to do besides handing out the key. */
enum turn { TURN_NONE, TURN_PASTE, TURN_SKIP_CSI, TURN_SKIP_STRING };

/* ESC[M and three bytes: a mouse that speaks the oldest way. */
static size_t old_mouse(const char *s, size_t n, struct key *out)
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

/* s begins with ESC [. */
static size_t take_csi(const char *s, size_t n, struct key *out, enum turn *turn)
{
	struct csi c = { 0 };
	size_t i = 2, from;
	int number;

	if (i < n && s[i] == 'M')
		return old_mouse(s, n, out);
	if (i < n && s[i] == '[') {   /* the Linux console's F1 to F5 */
		if (n < 4)
			return 0;
		if ((unsigned char)s[3] < 0x20 || (unsigned char)s[3] >= DEL)
			return 3;
		if (s[3] >= 'A' && s[3] <= 'E') {
			set_key(out, K_F, 0);
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
	/* '$' is no final byte, except for rxvt. */
	if (i < n && s[i] == '$' && number) {
		struct key probe = { .code = K_UNKNOWN };
		if (set_numbered(&probe, c.param[0][0], 0))
			c.final = s[i++];
	}
	while (!c.final && i < n && i < KEYS_SEQ_MAX && s[i] >= 0x20 && s[i] <= '?') {
		if (s[i] >= '0')        /* a parameter in the wrong place: no known sequence */
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
		if ((unsigned char)s[i] < '@' || (unsigned char)s[i] >= DEL)   /* controls, bytes above 127: it ends before them */
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

/* s begins with ESC O. */
static size_t take_ss3(const char *s, size_t n, struct key *out)
{
	static const char pad[] = "*+,-./0123456789";
	unsigned mods = 0;
	size_t i = 2;
	char b;

	if (n > 2 && s[2] >= '1' && s[2] <= '9') {   /* ESC O 5 P, of old ones */
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
			set_char(out, 'O', KEY_ALT);
		return i;
	}
	if (set_letter(out, b, mods))
		;
	else if (b >= 'a' && b <= 'd')
		set_letter(out, (char)(b - 'a' + 'A'), KEY_CTRL);   /* rxvt */
	else if (b >= 'j' && b <= 'y')
		set_char(out, pad[b - 'j'], mods & KEY_ALT);
	else if (b == 'M')
		set_key(out, K_ENTER, mods);
	else if (b == 'I')
		set_key(out, K_TAB, mods);
	else if (b == 'X')
		set_char(out, '=', mods & KEY_ALT);
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
	if (!utf8_complete(s, n < 4 ? n : 4))
		return 0;
	len = (size_t)utf8_decode(s, n, &cp);
	if (is_printable(cp))
		set_char(out, cp, mods);
	return len;
}

static int begins_string(char b)
{
	return b == ']' || b == 'P' || b == 'X' || b == '^' || b == '_';
}

/* The first key in s[0..n): its length, 0 if more bytes are needed.  *out is K_UNKNOWN with nothing in it. */
static size_t take(const char *s, size_t n, struct key *out, enum turn *turn)
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
	if (begins_string(s[1])) {
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
			*out = (struct key){ .code = K_UNKNOWN };   /* Esc, and then something else */
		}
		set_key(out, K_ESC, 0);
		return 1;
	}
	len = take_char(s + 1, n - 1, KEY_ALT, out);
	return len ? len + 1 : 0;
}

/* ---- pastes ---- */

static void start_paste(struct keys *k, int how)
{
	k->pasting = how;
	k->after_cr = k->matched = 0;
	str_clear(&k->held);
}

static void add_content(struct keys *k, const char *s, size_t n)
{
	size_t room = KEYS_PASTE_MAX - k->held.n;

	str_add(&k->held, s, n < room ? n : room);
}

static void paste_byte(struct keys *k, char b)
{
	int after_cr = k->after_cr;

	k->after_cr = b == '\r';
	if (b == '\r' || (b == '\n' && !after_cr))
		add_content(k, "\n", 1);
	else if (b == '\t' || ((unsigned char)b >= 0x20 && b != DEL))
		add_content(k, &b, 1);
}

/* The paste ends.  Readline takes bytes as they are, so what is handed out is UTF-8. */
static void end_paste(struct keys *k, key_fn *fn, void *ud)
{
	struct str text = { 0 };
	struct key key = { .code = K_PASTE };
	const char *s = k->held.p ? k->held.p : "";
	size_t n = utf8_complete(s, k->held.n);
	char bad[4];
	size_t n_bad = (size_t)utf8_encode(REPLACEMENT, bad);

	if (n != k->held.n && k->held.n < KEYS_PASTE_MAX)
		n = k->held.n;   /* not cut by us */
	for (size_t i = 0, from = 0, len; i <= n; i += len) {
		int32_t cp = -1;
		len = i < n ? (size_t)utf8_decode(s + i, n - i, &cp) : 1;
		if (cp >= 0)
			continue;
		str_add(&text, s + from, i - from);
		if (i < n)
			str_add(&text, bad, n_bad);
		from = i + len;
	}
	if (text.n > KEYS_PASTE_MAX)
		text.n = utf8_complete(text.p, KEYS_PASTE_MAX);
	str_free(&k->held);
	k->pasting = 0;
	key.bytes = text.p;
	key.n = text.n;
	if (key.n)
		fn(&key, ud);
	str_free(&text);
}

/* Content, until its end mark; returns the bytes used. */
static size_t feed_paste(struct keys *k, const char *s, size_t n, key_fn *fn, void *ud)
{
	size_t i = 0;

	while (i < n) {
		size_t run = 0;

		while (!k->matched && i + run < n && (unsigned char)s[i + run] >= 0x20 && s[i + run] != DEL)
			run++;
		if (run) {
			add_content(k, s + i, run);
			k->after_cr = 0;
			i += run;
		} else if (s[i] == paste_end[k->matched]) {
			i++;
			if (paste_end[++k->matched])
				continue;
			end_paste(k, fn, ud);
			return i;
		} else if (k->matched) {   /* it was not the mark: content without its ESC */
			add_content(k, paste_end + 1, k->matched - 1u);
			k->after_cr = k->matched = 0;
		} else {
			paste_byte(k, s[i++]);
		}
	}
	return i;
}

/* Could these bytes come from a paste that nobody marked?  Keys that are no text say no. */
static int is_plain(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (((unsigned char)s[i] < 0x20 && s[i] != '\t' && s[i] != '\r' && s[i] != '\n') || s[i] == DEL)
			return 0;
	return 1;
}

static int is_burst(const struct keys *k, const char *s, size_t n)
{
	if (k->pasting || k->skipping || k->held.n || k->marks_pastes || n < KEYS_BURST || !is_plain(s, n))
		return 0;
	for (size_t i = 0; i + 1 < n; i++)
		if ((s[i] == '\r' || s[i] == '\n') && !(i + 2 == n && s[i] == '\r' && s[i + 1] == '\n'))
			return 1;
	return 0;
}

/* ---- the stream ---- */

/* The rest of a sequence that means nothing; returns the bytes used. */
static size_t feed_skip(struct keys *k, const char *s, size_t n, key_fn *fn, void *ud)
{
	struct key key = { .code = K_UNKNOWN, .bytes = "" };
	size_t i = 0;

	for (; i < n && k->skipping; i++) {
		unsigned char b = (unsigned char)s[i];
		if (k->skipping == SKIP_CSI) {
			if (b >= 0x20 && b < '@')
				continue;
			k->skipping = 0;
			i += b >= '@' && b < DEL;
		} else if (k->skipping == SKIP_STRING_ESC) {
			/* ESC and no backslash: another sequence begins.  The ESC has been taken, so hand it back. */
			k->skipping = 0;
			if (b == '\\')
				i++;
			else
				str_add(&k->held, "\33", 1);
		} else if (b == ESC) {
			k->skipping = SKIP_STRING_ESC;
			continue;
		} else if (b < 0x20) {
			k->skipping = 0;
			i += b == '\a';
		} else {
			continue;
		}
		fn(&key, ud);
		break;
	}
	return i;
}

static double wait_of(const struct keys *k)
{
	if (k->pasting)
		return k->pasting == PASTING_BURST ? WAIT_BURST : WAIT_PASTE;
	if (k->skipping)
		return WAIT_SEQUENCE;
	/* Alt-] and its like are keys that one may bind; "ESC [" alone is none. */
	if (k->held.n && k->held.n <= 2 && k->held.p[0] == ESC &&
	    (k->held.n == 1 || k->held.p[1] == ESC || begins_string(k->held.p[1])))
		return KEYS_ESC;
	return WAIT_SEQUENCE;
}

double keys_wake(const struct keys *k)
{
	return k->since > 0 ? k->since + wait_of(k) : 0;
}

/* What is held will not become whole any more. */
static void give_up(struct keys *k, key_fn *fn, void *ud)
{
	struct str held = k->held;
	struct key key = { .code = K_UNKNOWN };
	size_t i = 0;

	k->held = (struct str){ 0 };
	while (i < held.n) {
		size_t n = held.n - i, used = n;

		key = (struct key){ .code = K_UNKNOWN, .bytes = held.p + i };
		if (held.p[i] == ESC && (n == 1 || held.p[i + 1] == ESC)) {
			set_key(&key, K_ESC, 0);
			used = 1;
		} else if (held.p[i] == ESC && n == 2 && held.p[i + 1] >= 0x20 && held.p[i + 1] < DEL) {
			set_char(&key, held.p[i + 1], KEY_ALT);
		}
		key.n = used;
		i += used;
		fn(&key, ud);
	}
	str_free(&held);
}

void keys_tick(struct keys *k, double now, key_fn *fn, void *ud)
{
	struct key unknown = { .code = K_UNKNOWN, .bytes = "" };

	if (k->since <= 0 || now < keys_wake(k))
		return;
	k->since = 0;
	if (k->pasting) {
		if (k->matched > 1)
			add_content(k, paste_end + 1, k->matched - 1u);
		end_paste(k, fn, ud);
		return;
	}
	if (k->skipping) {
		int esc = k->skipping == SKIP_STRING_ESC;
		k->skipping = 0;
		fn(&unknown, ud);
		if (esc)
			str_add(&k->held, "\33", 1);
	}
	give_up(k, fn, ud);
}

/* Bytes that are no paste; returns those used.  What is left is the beginning of a sequence. */
static size_t feed_keys(struct keys *k, const char *s, size_t n, key_fn *fn, void *ud)
{
	size_t i = 0;

	while (i < n && !k->pasting && !k->skipping) {
		struct key key = { .code = K_UNKNOWN };
		enum turn turn = TURN_NONE;

		key.n = take(s + i, n - i, &key, &turn);
		key.bytes = s + i;
		if (!key.n)
			break;
		i += key.n;
		if (turn == TURN_PASTE) {
			k->marks_pastes = 1;
			start_paste(k, PASTING_MARKED);
		} else if (turn != TURN_NONE) {
			k->skipping = turn == TURN_SKIP_CSI ? SKIP_CSI : SKIP_STRING;
		} else {
			fn(&key, ud);
		}
	}
	return i;
}

void keys_feed(struct keys *k, const char *bytes, size_t n, double now, key_fn *fn, void *ud)
{
	size_t i = 0;

	if (!n)
		return;
	keys_tick(k, now, fn, ud);
	if (k->pasting == PASTING_BURST && !is_plain(bytes, n))
		end_paste(k, fn, ud);
	if (is_burst(k, bytes, n))
		start_paste(k, PASTING_BURST);
	while (i < n) {
		if (k->pasting) {
			i += feed_paste(k, bytes + i, n - i, fn, ud);
		} else if (k->skipping) {
			i += feed_skip(k, bytes + i, n - i, fn, ud);
		} else if (k->held.n) {
			/* The beginning that is held, and as much as can be needed to complete it. */
			struct str whole = k->held;
			size_t n_held = whole.n, more = n - i < KEYS_SEQ_MAX ? n - i : KEYS_SEQ_MAX, used;

			k->held = (struct str){ 0 };
			str_add(&whole, bytes + i, more);
			used = feed_keys(k, whole.p, whole.n, fn, ud);
			if (used >= n_held) {
				i += used - n_held;
			} else if (!k->pasting && !k->skipping) {
				str_clear(&k->held);
				str_add(&k->held, whole.p + used, whole.n - used);
				i += more;
			}
			str_free(&whole);
		} else {
			size_t used = feed_keys(k, bytes + i, n - i, fn, ud);
			i += used;
			if (!k->pasting && !k->skipping && i < n) {
				str_add(&k->held, bytes + i, n - i);
				i = n;
			}
		}
	}
	k->since = k->held.n || k->pasting || k->skipping ? (now > 0 ? now : DBL_MIN) : 0;
}
