/* ui/screen/keys.c - splits the bytes of a terminal into keys and pastes, and skips unknown sequences. keys_decode.c
 * decodes single keys.
 *
 * An unknown sequence is skipped to its end and reported as K_UNKNOWN, so that none of its letters gets into the input
 * line. Answers of the terminal (ESC ] ... BEL and similar strings) are dropped. A control character inside a sequence
 * ends it and is a key itself, so Ctrl-C and Enter always work.
 *
 * An incomplete sequence is kept in `held` and decoded together with the next bytes, so it does not matter how reads
 * split the bytes. If no byte comes for a while (wait_of()), the sequence is decoded as it is. */
#include "ui/screen/keys_private.h"

#include <float.h>
#include <string.h>

#define REPLACEMENT   0xfffd
/* number of seconds to wait for the rest of a sequence, because slow links split sequences */
#define WAIT_SEQUENCE 0.25
/* number of seconds to wait for the next byte of a paste: if its end mark is lost, keys must work again */
#define WAIT_PASTE    5.0
#define WAIT_BURST    0.05 /* number of seconds to wait for the end of a paste that the terminal has not marked */

static const char paste_end[] = "\33[201~";

enum { PASTING_MARKED = 1, PASTING_BURST };
enum { SKIP_CSI = 1, SKIP_STRING, SKIP_STRING_ESC };

void keys_free(struct keys *k)
{
	str_free(&k->held);
	*k = (struct keys){ 0 };
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

	str_add(&k->held, s, MIN(n, room));
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

/* End the paste and report it as valid UTF-8, because readline does not check its input. */
static void end_paste(struct keys *k, key_fn *fn, void *ud)
{
	struct str text = { 0 };
	struct key key = { .code = K_PASTE };
	const char *s = str_text(&k->held);
	size_t n = utf8_complete(s, k->held.n);
	char bad[4];
	size_t n_bad = (size_t)utf8_encode(REPLACEMENT, bad);

	if (n != k->held.n && k->held.n < KEYS_PASTE_MAX)
		/* the paste was not truncated at KEYS_PASTE_MAX, but it ends inside a character, which becomes
		 * U+FFFD */
		n = k->held.n;
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

/* Read pasted text up to the end mark. Returns the number of bytes used. */
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
		} else if (k->matched) { /* the bytes were no end mark: add them to the paste, without the ESC */
			add_content(k, paste_end + 1, k->matched - 1u);
			k->after_cr = k->matched = 0;
		} else {
			paste_byte(k, s[i++]);
		}
	}
	return i;
}

/* 1 if the bytes can be a paste that the terminal has not marked: their only control characters are tabs and line
 * ends. */
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

/* Parse the terminal's answer "11;rgb:ffff/eeee/dddd" (one to four digits each). Returns 1 for a light colour, 0
 * for a dark one (by the weights of Rec. 709), -1 if the answer is malformed. */
static int background_of(const char *s, size_t n)
{
	static const double weight[3] = { 0.2126, 0.7152, 0.0722 };
	double light = 0;
	size_t i = 7;

	if (n < 8 || memcmp(s, "11;rgb:", 7))
		return -1;
	for (int k = 0; k < 3; k++) {
		unsigned value = 0, most = 0;

		for (; i < n && s[i] != '/' && most < 0xffff; i++) {
			int digit = s[i] >= '0' && s[i] <= '9'   ? s[i] - '0'
			            : s[i] >= 'a' && s[i] <= 'f' ? s[i] - 'a' + 10
			            : s[i] >= 'A' && s[i] <= 'F' ? s[i] - 'A' + 10
			                                         : -1;
			if (digit < 0)
				return -1;
			value = value * 16 + (unsigned)digit;
			most = most * 16 + 15;
		}
		if (!most || (k < 2 ? i >= n || s[i++] != '/' : i < n))
			return -1;
		light += weight[k] * value / most;
	}
	return light > 0.5;
}

/* Skip to the end of a sequence. An answer about the background colour is reported as K_BACKGROUND. Returns the
 * number of bytes used. */
static size_t feed_skip(struct keys *k, const char *s, size_t n, key_fn *fn, void *ud)
{
	struct key key = { .code = K_UNKNOWN, .bytes = "" };
	size_t i = 0;
	int whole = 0, light;

	for (; i < n && k->skipping; i++) {
		unsigned char b = (unsigned char)s[i];
		if (k->skipping == SKIP_CSI) {
			if (b >= 0x20 && b < '@')
				continue;
			k->skipping = 0;
			i += b >= '@' && b < DEL;
		} else if (k->skipping == SKIP_STRING_ESC) {
			/* an ESC without a backslash after it begins another sequence: keep it for decoding */
			k->skipping = 0;
			if (b == '\\')
				i++;
			else
				str_add(&k->held, "\33", 1);
			whole = b == '\\';
		} else if (b == ESC) {
			k->skipping = SKIP_STRING_ESC;
			continue;
		} else if (b < 0x20) {
			k->skipping = 0;
			i += b == '\a';
			whole = b == '\a';
		} else {
			if (k->n_string < sizeof k->string)
				k->string[k->n_string++] = (char)b;
			continue;
		}
		light = whole ? background_of(k->string, k->n_string) : -1;
		if (light >= 0) {
			key.code = K_BACKGROUND;
			key.cp = light;
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
	/* ESC [ is nearly always the beginning of a sequence, so wait long for the rest; ESC ] and similar pairs may
	 * also be a key such as Alt-], so wait only briefly */
	if (k->held.n && k->held.n <= 2 && k->held.p[0] == ESC &&
	    (k->held.n == 1 || k->held.p[1] == ESC || key_begins_string(k->held.p[1])))
		return KEYS_ESC;
	return WAIT_SEQUENCE;
}

double keys_wake(const struct keys *k)
{
	return k->since > 0 ? k->since + wait_of(k) : 0;
}

/* Report the held bytes as keys, because no more bytes will complete them. */
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
			key_set(&key, K_ESC, 0);
			used = 1;
		} else if (held.p[i] == ESC && n == 2 && held.p[i + 1] >= 0x20 && held.p[i + 1] < DEL) {
			key_set_char(&key, held.p[i + 1], KEY_ALT);
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

/* Decode keys outside of pastes. Returns the number of bytes used; the bytes after them are an incomplete sequence, a
 * paste or a sequence to skip. */
static size_t feed_keys(struct keys *k, const char *s, size_t n, key_fn *fn, void *ud)
{
	size_t i = 0;

	while (i < n && !k->pasting && !k->skipping) {
		struct key key = { .code = K_UNKNOWN };
		enum turn turn = TURN_NONE;

		key.n = key_take(s + i, n - i, &key, &turn);
		key.bytes = s + i;
		if (!key.n)
			break;
		i += key.n;
		if (turn == TURN_PASTE) {
			k->marks_pastes = 1;
			start_paste(k, PASTING_MARKED);
		} else if (turn != TURN_NONE) {
			k->skipping = turn == TURN_SKIP_CSI ? SKIP_CSI : SKIP_STRING;
			k->n_string = 0;
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
			/* decode the held bytes together with as many new bytes as may complete them */
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
