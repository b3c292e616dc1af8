/* ui/input/input_line_keys.c - translates keys to byte sequences for readline, and handles the keys of completion. */
#include "ui/input/input_readline.h"

#include <string.h>

enum { SEARCH_PASTE = 256 }; /* maximum number of bytes of a paste that are added to a search */

/* ---- completion ---- */

enum offer_kind line_look_for_offers(void)
{
	return offers_find(&input.offers, rl_line_buffer, (size_t)rl_end, (size_t)rl_point, input.commands,
	                   input.settings, input.names, input.n_names);
}

static void take_offer(size_t which)
{
	struct str s = { 0 };
	size_t to = input.offers.to;
	int again = input.offers.kind == OFFER_PATHS && input.offers.list[which].more;

	offers_text(&input.offers, which, &s);
	/* If the completion ends with a blank and the line already has a blank there, replace that blank too. */
	if (s.n && s.p[s.n - 1] == ' ' && rl_line_buffer[to] == ' ')
		to++;
	if (s.n)
		line_replace(input.offers.from, to, s.p);
	input.spare_blank = s.n && s.p[s.n - 1] == ' ';
	str_free(&s);
	offers_close(&input.offers);
	if (again)
		line_look_for_offers();
}

static void offers_walk(int step)
{
	long n = (long)input.offers.n, at = input.offers.chosen;

	input.offers.chosen = at < 0 ? (step > 0 ? 0 : n - 1) : (at + step + n) % n;
}

int line_complete(int step)
{
	int open = input.offers.n > 0;
	struct str s = { 0 };

	if (open && input.offers.chosen >= 0) {
		offers_walk(step);
		return 1;
	}
	if (!line_look_for_offers())
		return 0;
	if (input.offers.n == 1 || input.offers.n_begun == 1) {
		take_offer(0);
	} else if (offers_common(&input.offers, &s)) {
		line_replace(input.offers.from, input.offers.to, s.p);
		line_look_for_offers();
	} else if (open && input.offers.n) {
		offers_walk(step);
	}
	str_free(&s);
	return 1;
}

int line_offers_key(const struct key *k)
{
	switch (k->code) {
	case K_ESC: offers_close(&input.offers); return 1;
	case K_UP:
	case K_DOWN:
		if (k->mods)
			return 0;
		offers_walk(k->code == K_UP ? -1 : 1);
		return 1;
	case K_ENTER:
		if (k->mods || input.offers.chosen < 0)
			return 0;
		take_offer((size_t)input.offers.chosen);
		return 1;
	case K_CHAR:
		if (k->mods == KEY_CTRL && k->cp == 'g') {
			offers_close(&input.offers);
			return 1;
		}
		if (k->mods & (KEY_CTRL | KEY_ALT) || input.offers.chosen < 0)
			return 0;
		take_offer((size_t)input.offers.chosen);
		return k->cp == '/' && rl_point && rl_line_buffer[rl_point - 1] == '/';
	default: return 0;
	}
}

/* ---- keys ---- */

static int is_bound(const char *seq, size_t n)
{
	int type = ISFUNC;
	rl_command_func_t *fn = rl_function_of_keyseq_len(seq, n, rl_get_keymap(), &type);

	return fn && type != ISKMAP && fn != rl_overwrite_mode;
}

static int is_isearch(rl_command_func_t *fn)
{
	return fn == rl_reverse_search_history || fn == rl_forward_search_history;
}

/* Feed a key with a character to readline: ESC if Alt is held, then the bytes of the character. */
static int char_key(const struct key *k)
{
	char s[8];
	size_t n = 0;
	int32_t cp = k->cp > 0 && !paste_is_mark(k->cp) ? k->cp : 0xfffd;

	/* After Ctrl-X, or after a repeat count below 1, readline would use only the first byte of a UTF-8 character.
	 * After Ctrl-X, ignore the character. After a repeat count, insert the character once. */
	if (cp >= 0x80 && RL_ISSTATE(RL_STATE_MULTIKEY)) {
		line_settle();
		return 1;
	}
	if (cp >= 0x80 && (rl_readline_state & STATES_OPEN) == RL_STATE_NUMERICARG)
		line_settle();
	if (k->mods & KEY_ALT)
		s[n++] = '\033';
	if (k->mods & KEY_CTRL)
		s[n++] = (char)(k->cp == '?' ? 0x7f : k->cp & 0x1f);
	else if (cp < 0x20 || cp == 0x7f)
		return 0;
	else
		n += (size_t)utf8_encode(cp, s + n);
	if (k->mods & KEY_ALT && !(line_is_vi() && s[1] != '[' && s[1] != 'O') && !is_bound(s, n))
		return 0;
	line_feed(s, n);
	return 1;
}

static int ctrl_key(const struct key *k)
{
	char c = (char)(k->cp & 0x1f);

	if (k->cp < '?' || k->cp > '~')
		return 0;
	/* Ctrl-C, Ctrl-G, Ctrl-Z and Ctrl-L belong to the screen, unless a search or half-typed command uses them */
	if (strchr("cgzl", (int)k->cp) && !RL_ISSTATE(STATES_OPEN))
		return 0;
	/* on an empty line, readline would take Ctrl-D for the end of the input */
	if (k->cp == 'd' && !rl_end)
		return 0;
	if (!RL_ISSTATE(STATES_OPEN) && c) {
		rl_command_func_t *fn = rl_function_of_keyseq_len(&c, 1, rl_get_keymap(), NULL);
		if (!fn)
			return 0;
		input.quoting = fn == rl_quoted_insert;
	}
	return char_key(k);
}

/* Feed a key without a character to readline, as the sequence that xterm sends. */
static int special_key(const struct key *k)
{
	static const struct {
		enum key_code code;
		const char *plain;
		char letter;
		int number;
	} table[] = {
		{ K_UP, "\033[A", 'A', 1 },      { K_DOWN, "\033[B", 'B', 1 },    { K_RIGHT, "\033[C", 'C', 1 },
		{ K_LEFT, "\033[D", 'D', 1 },    { K_HOME, "\033[H", 'H', 1 },    { K_END, "\033[F", 'F', 1 },
		{ K_INSERT, "\033[2~", '~', 2 }, { K_DELETE, "\033[3~", '~', 3 },
	};
	int lines = memchr(rl_line_buffer, '\n', (size_t)rl_end) != NULL;
	char seq[32];

	/* keep a repeat count, because it applies to this key */
	if ((rl_readline_state & STATES_OPEN) != RL_STATE_NUMERICARG)
		line_settle();
	if (!k->mods && (k->code == K_UP || k->code == K_DOWN)) {
		int at = rl_point, goal = input.goal, moves = line_move_row(k->code == K_UP ? -1 : 1);

		if (moves) {
			rl_point = at;
			input.goal = goal;
			line_feeds(k->code == K_UP ? SEQ_UP : SEQ_DOWN);
			return 1;
		}
	}
	if (!k->mods && lines && (k->code == K_HOME || k->code == K_END)) {
		line_feeds(k->code == K_HOME ? SEQ_HOME : SEQ_END);
		return 1;
	}
	for (size_t i = 0; i < LEN(table); i++) {
		if (table[i].code != k->code)
			continue;
		if (k->mods)
			snprintf(seq, sizeof seq, "\033[%d;%u%c", table[i].number, 1 + (k->mods & 7), table[i].letter);
		else
			snprintf(seq, sizeof seq, "%s", table[i].plain);
		if (!is_bound(seq, strlen(seq)))
			return 0;
		line_feeds(seq);
		return 1;
	}
	return 0;
}

static int paste_key(const struct key *k)
{
	struct str s = { 0 };
	char mark[5];

	text_fix(k->bytes, k->n, &s);
	untyped_note(str_text(&s), s.n);
	if (s.n && RL_ISSTATE(RL_STATE_ISEARCH | RL_STATE_NSEARCH)) {
		/* add the first line of the paste to the search, as if typed */
		size_t n = 0;
		while (n < s.n && n < SEARCH_PASTE && (unsigned char)s.p[n] >= 0x20 && s.p[n] != 0x7f)
			n++;
		line_feed(s.p, utf8_complete(s.p, n));
	} else if (s.n && s.n < LINE_MOST - (size_t)rl_end) {
		line_settle();
		input.arg = paste_is_long(s.p, s.n) && paste_keep(s.p, s.n, mark) ? mark : s.p;
		line_feeds(SEQ_PASTE);
		input.arg = NULL;
	}
	str_free(&s);
	return 1;
}

static int escape_key(void)
{
	if (RL_ISSTATE(RL_STATE_ISEARCH) || (RL_ISSTATE(STATES_OPEN) && !RL_ISSTATE(RL_STATE_VIMOTION)))
		line_settle();
	else if (RL_ISSTATE(STATES_OPEN))
		rl_callback_sigcleanup();
	else if (line_is_vi() && !line_vi_command())
		line_feeds(SEQ_COMMAND);
	else
		return 0;
	return 1;
}

/* Insert a key literally, after Ctrl-V. Returns 0 if the key has no character. */
static int quoted_key(const struct key *k)
{
	struct key plain = { .cp = k->cp, .mods = k->mods & KEY_CTRL };

	switch (k->code) {
	case K_CHAR:
		if (k->mods & KEY_CTRL && k->cp == '@')
			return 1;
		/* after Ctrl-V, readline would insert only the first byte of a non-ASCII character: cancel Ctrl-V
		 * first */
		if (k->cp < 0 || k->cp >= 0x80)
			line_settle();
		return char_key(&plain);
	case K_TAB: line_feeds("\t"); return 1;
	case K_ENTER: line_feeds("\n"); return 1;
	case K_BACKSPACE: line_feeds("\177"); return 1;
	case K_ESC: line_feeds("\033"); return 1;
	default: return 0;
	}
}

/* 1 if an incremental search uses the key, which extends, repeats, shortens or ends the search. */
static int is_search_key(const struct key *k)
{
	char c = (char)(k->cp & 0x1f);
	rl_command_func_t *fn;

	if (k->code == K_BACKSPACE || k->code == K_PASTE || k->code == K_ESC)
		return 1;
	if (k->code != K_CHAR || k->mods & KEY_ALT)
		return 0;
	if (!(k->mods & KEY_CTRL))
		return 1;
	fn = rl_function_of_keyseq_len(&c, 1, rl_get_keymap(), NULL);
	return strchr("rsgh", (int)k->cp) || is_isearch(fn);
}

int line_key(const struct key *k)
{
	struct key plain = *k;

	plain.mods &= ~(unsigned)KEY_SHIFT;
	/* If an incremental search does not use the key, end the search. readline 8.2 would end it by itself, but
	 * crashes if the key is Ctrl-X with another key. */
	if (RL_ISSTATE(RL_STATE_ISEARCH) && !is_search_key(&plain))
		line_settle();
	if (input.quoting) {
		input.quoting = 0;
		if (quoted_key(&plain))
			return 1;
	}
	if (k->code == K_CHAR && plain.mods == KEY_CTRL) {
		/* maximum number of terminals send the same byte for Tab and Ctrl-I, Enter and Ctrl-M, and so on. Treat
		 * such keys alike everywhere. */
		switch (k->cp) {
		case 'i': plain = (struct key){ .code = K_TAB }; break;
		case 'm': plain = (struct key){ .code = K_ENTER }; break;
		case 'j': plain = (struct key){ .code = K_ENTER, .mods = KEY_CTRL }; break;
		case '[': plain = (struct key){ .code = K_ESC }; break;
		default: return ctrl_key(&plain);
		}
	}
	switch (plain.code) {
	case K_CHAR: return char_key(&plain);
	case K_ENTER:
		if (RL_ISSTATE(RL_STATE_NSEARCH)) {
			line_feeds("\r"); /* start the search */
			/* Before the first search there is no pattern to repeat. If none was typed either, readline 8.2
			 * ends the search without restoring the draft. Restore it; in all other cases this does
			 * nothing. */
			rl_maybe_unsave_line();
			return 1;
		}
		line_settle();
		line_feeds(k->mods || plain.mods ? SEQ_NEWLINE : SEQ_ACCEPT);
		return 1;
	case K_TAB: line_settle(); return line_complete(k->mods & KEY_SHIFT ? -1 : 1);
	case K_BACKSPACE:
		if (RL_ISSTATE(RL_STATE_ISEARCH | RL_STATE_NSEARCH) || !plain.mods)
			line_feeds("\177");
		else
			line_feeds(line_is_vi() ? "\027" : "\033\177");
		return 1;
	case K_ESC: return escape_key();
	case K_PASTE: return paste_key(k);
	case K_UP:
	case K_DOWN:
	case K_LEFT:
	case K_RIGHT:
	case K_HOME:
	case K_END:
	case K_INSERT:
	case K_DELETE: return special_key(&(struct key){ .code = k->code, .mods = k->mods });
	default: return 0;
	}
}
