/* ui/input.c - see input.h.  The only file of the screen that knows readline.
 *
 * readline runs in callback mode and reads from a queue of bytes.  input_key() puts the bytes of one key there,
 * always in the same encoding whatever the terminal sent, and calls readline until the queue is empty: it never
 * waits, and never sees the end of input, which it would take for the end of the line.  A sequence that nothing is
 * bound to is not put there at all, or its tail would be inserted as text.
 *
 * What readline has no function for (paste, line breaks, rows, the rule for Enter) is bound to private sequences
 * instead of being called from outside: so it stands in the order of commands that kill, undo, macros and vi's states
 * look at.
 *
 * readline keeps settings of its own from ~/.inputrc; those that would break the above are overruled in
 * input_open().  As it does not draw, it leaves the terminal library alone, too: the screen may be open already. */
#include "ui/input.h"
#include "ui/input_private.h"

#include <fcntl.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <readline/history.h>
#include <readline/readline.h>

#define BLOCK "\"\"\""
enum {
	ARG_MOST = 9999,            /* Alt-9 Alt-9 ... x inserts so many; a slip of the keys must not fill the memory */
	LINE_MOST = 256 << 20,      /* bytes; readline counts in int */
	SEARCH_PASTE = 256,         /* bytes of a paste that go into a search */
	ROWS_MOST = 512,
};

/* Private sequences: nothing that a terminal sends, and harmless where a vi command takes its ESC for itself. */
#define SEQ_ACCEPT  "\033[<Q"
#define SEQ_NEWLINE "\033[<H"
#define SEQ_PASTE   "\033[<K"
#define SEQ_SET     "\033[<L"
#define SEQ_UP      "\033[<M"
#define SEQ_DOWN    "\033[<V"
#define SEQ_HOME    "\033[<Z"
#define SEQ_END     "\033[<g"
#define SEQ_COMMAND "\033[<q"
#define BYTE_NOTHING "\377"   /* in no UTF-8 */

/* States in which the next key is an argument of the one before. */
#define STATES_ARGUMENT (RL_STATE_MULTIKEY | RL_STATE_CHARSEARCH | RL_STATE_VIMOTION | RL_STATE_NUMERICARG)
#define STATES_OPEN (RL_STATE_ISEARCH | RL_STATE_NSEARCH | STATES_ARGUMENT)

/* readline has one state for the program, so this has one, too. */
static struct {
	int open;
	const struct ui_command *commands;
	char **names; size_t n_names;
	struct str history;             /* path; empty: none */
	FILE *null;
	struct str locale;              /* of the program, while readline begins a line */
	struct str queue; size_t taken; /* bytes on their way to readline */
	const char *arg; size_t n_arg;  /* text for SEQ_PASTE, SEQ_SET */
	struct str back;                /* goes into the next line: the last one was not whole */
	struct str *message; size_t n_message, cap_message;
	int abandon;                    /* what is accepted now is no message */
	int spare_blank;                /* completion has put the blank that one would type */
	int quoting;                    /* the next key goes in as it is; readline does not tell */
	int ask;                        /* one of readline's own completion keys was pressed */
	struct offers offers;
	int width, mark;                /* columns: of the area drawn last, and of the mark in it */
	size_t top;                     /* first byte that is seen */
	int goal;                       /* column that Up and Down keep to; -1 = none */
} p;

/* ---- readline's end of the queue ---- */

static int next_byte(FILE *unused)
{
	(void)unused;
	return p.taken < p.queue.n ? (unsigned char)p.queue.p[p.taken++] : EOF;
}

static int bytes_wait(void)
{
	return p.taken < p.queue.n;
}

static void draw_nothing(void)
{
}

/* Settings that the line would not work with. */
static void overrule(void)
{
	static const char *const settings[][2] = {
		{"enable-bracketed-paste", "off"}, {"bell-style", "none"}, {"show-mode-in-prompt", "off"},
		{"convert-meta", "off"},
		{"input-meta", "on"}, {"output-meta", "on"}, {"isearch-terminators", "\033\012"},
	};

	for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
		rl_variable_bind(settings[i][0], settings[i][1]);
}

/* At the beginning of each line readline turns to the locale of the environment, which may be the one that the
 * program has left for one with UTF-8. */
static void locale_save(void)
{
	const char *now = setlocale(LC_CTYPE, NULL);

	str_clear(&p.locale);
	str_adds(&p.locale, now ? now : "C");
}

static void locale_restore(void)
{
	const char *now = setlocale(LC_CTYPE, NULL);

	if (p.locale.n && now && strcmp(now, p.locale.p)) {
		setlocale(LC_CTYPE, p.locale.p);
		overrule();
	}
	str_clear(&p.locale);
}

/* A mark that text was put in before, and a point that came from it, may be in the middle of a character. */
static void at_boundary(void)
{
	int *at[] = {&rl_point, &rl_mark};

	for (int i = 0; i < 2; i++) {
		if (*at[i] > rl_end)
			*at[i] = rl_end;
		while (*at[i] > 0 && (rl_line_buffer[*at[i]] & 0xc0) == 0x80)
			--*at[i];
	}
}

static void feed_queue(const char *bytes, size_t n)
{
	str_clear(&p.queue);
	str_add(&p.queue, bytes, n);
	p.taken = 0;
	for (int idle = 0; p.taken < p.queue.n && idle < 4;) {
		size_t before = p.taken;

		rl_callback_read_char();
		if (p.locale.n)
			locale_restore();
		idle = p.taken == before ? idle + 1 : 0;   /* it wants nothing: do not turn in circles */
		if (RL_ISSTATE(RL_STATE_NUMERICARG) && rl_numeric_arg > ARG_MOST)
			rl_numeric_arg = ARG_MOST;
	}
	at_boundary();
	str_clear(&p.queue);
	p.taken = 0;
}

/* A line of the history that is being changed.  readline (8.2) writes the change down when it goes to another line,
 * but not if it was typed behind one that is written down, and not when it searches; then the text is lost and its
 * undo list ruins the old one. */
static void keep_change(void)
{
	HIST_ENTRY *entry = RL_ISSTATE(STATES_OPEN) ? NULL : current_history();

	if (!entry || !strcmp(entry->line, rl_line_buffer))
		return;
	entry = replace_history_entry(where_history(), rl_line_buffer, (histdata_t)rl_undo_list);
	if (entry) {
		free(entry->line);
		free(entry->timestamp);
		free(entry);
	}
}

static void feed(const char *bytes, size_t n)
{
	keep_change();
	feed_queue(bytes, n);
	/* Behind a count readline does not look whether the line has ended: one more byte, and it does. */
	if (RL_ISSTATE(RL_STATE_DONE))
		feed_queue(BYTE_NOTHING, 1);
}

static void feeds(const char *seq)
{
	feed(seq, strlen(seq));
}

static int is_vi(void)
{
	return !rl_editing_mode;
}

static int vi_command(void)
{
	return is_vi() && rl_get_keymap() == vi_movement_keymap;
}

/* No search and no half-typed command any more; a search keeps what it found. */
static void settle(void)
{
	if (RL_ISSTATE(RL_STATE_NSEARCH | RL_STATE_MULTIKEY | RL_STATE_NUMERICARG))
		feeds("\007");
	rl_callback_sigcleanup();
	at_boundary();
}

/* ---- Enter ---- */

static int begins_block(const char *text, size_t n)
{
	return n >= 3 && !memcmp(text, BLOCK, 3);
}

/* A line that does not end the message: an open block, or a backslash at the end. */
static int goes_on(const char *text, size_t n)
{
	if (begins_block(text, n))
		return n < 6 || memcmp(text + n - 3, BLOCK, 3);
	return n && text[n - 1] == '\\';
}

static void message_of(const char *text, size_t n, struct str *out)
{
	if (begins_block(text, n)) {
		text += 3;
		n -= 6;
		if (n && *text == '\n')
			text++, n--;
		if (n && text[n - 1] == '\n')
			n--;
	}
	text_fix(text, n, out);   /* a macro of the user's may hold anything */
}

static void history_keep(const char *text, size_t n)
{
	HIST_ENTRY *last = history_length ? history_get(history_base + history_length - 1) : NULL;

	if (!n || (last && !strcmp(last->line, text)))
		return;
	add_history(text);
	if (p.history.n)
		history_append(p.history.p, text, n);
}

static int put_back(void)
{
	rl_startup_hook = NULL;
	rl_insert_text(p.back.p);
	return 0;
}

/* readline's own end of a line; Enter got here through accept(). */
static void on_line(char *line)
{
	struct str *m;
	size_t n;

	locale_save();
	if (!line)
		return;
	n = strlen(line);
	if (p.abandon) {
		history_keep(line, n);
	} else if (goes_on(line, n)) {
		/* By a macro of the user's. */
		str_clear(&p.back);
		str_add(&p.back, line, n - !begins_block(line, n));
		str_adds(&p.back, "\n");
		rl_startup_hook = put_back;
	} else if (n) {
		if (p.n_message == p.cap_message) {
			p.cap_message = p.cap_message ? 2 * p.cap_message : 4;
			p.message = xrealloc(p.message, p.cap_message * sizeof *p.message);
		}
		m = &p.message[p.n_message];
		*m = (struct str){0};
		message_of(line, n, m);
		if (m->n) {
			history_keep(m->p, m->n);
			p.n_message++;
		} else {
			str_free(m);
		}
	}
	free(line);
}

/* ---- what readline has no function for ---- */

static void replace(size_t from, size_t to, const char *text)
{
	rl_begin_undo_group();
	rl_delete_text((int)from, (int)to);
	rl_point = (int)from;
	rl_insert_text(text);
	rl_end_undo_group();
}

static int accept(int count, int key)
{
	size_t n = (size_t)rl_end;

	if (p.abandon || !goes_on(rl_line_buffer, n))
		return rl_newline(count, key);
	if (begins_block(rl_line_buffer, n))
		rl_insert_text("\n");
	else
		replace(n - 1, n, "\n");
	return 0;
}

static int nothing(int count, int key)
{
	(void)count, (void)key;
	return 0;
}

static int insert_newline(int count, int key)
{
	(void)count, (void)key;
	rl_insert_text("\n");
	return 0;
}

static int paste(int count, int key)
{
	(void)count, (void)key;
	if (p.arg) {
		rl_begin_undo_group();
		rl_insert_text(p.arg);
		rl_end_undo_group();
	}
	return 0;
}

static int set_text(int count, int key)
{
	(void)count, (void)key;
	if (p.arg)
		replace(0, (size_t)rl_end, p.arg);
	return 0;
}

static struct wrapped lay_out(int width);

/* To the row above or below; 0 when there is none. */
static int move_row(int step)
{
	struct wrapped w = lay_out(p.width);
	struct wrap_row here, there;
	size_t from[2], n = wrap_rows_to(&w, (size_t)rl_point, from, 2);

	wrap_row_at(&w, from[n - 1], &here);
	if (step < 0 ? n < 2 : here.next == NO_ROW)
		return 0;
	wrap_row_at(&w, step < 0 ? from[0] : here.next, &there);
	if (p.goal < 0)
		p.goal = wrap_col(&w, &here, (size_t)rl_point);
	rl_point = (int)wrap_byte(&w, &there, p.goal);
	return 1;
}

static int row_up(int count, int key)
{
	(void)count, (void)key;
	move_row(-1);
	return 0;
}

static int row_down(int count, int key)
{
	(void)count, (void)key;
	move_row(1);
	return 0;
}

/* To the edge of the line in the draft; from there to that of the draft. */
static int line_home(int count, int key)
{
	int at = rl_point;

	(void)count, (void)key;
	while (at > 0 && rl_line_buffer[at - 1] != '\n')
		at--;
	rl_point = at == rl_point ? 0 : at;
	return 0;
}

static int line_end(int count, int key)
{
	const char *nl = strchr(rl_line_buffer + rl_point, '\n');
	int at = nl ? (int)(nl - rl_line_buffer) : rl_end;

	(void)count, (void)key;
	rl_point = at == rl_point ? rl_end : at;
	return 0;
}

/* Searches that have a line of their own put away the line that was there, but only one: from within the history the
 * draft comes back in its place, and its undo list is freed twice (readline 8.2); in other ways it gets lost.  So
 * what is seen becomes the draft first, one that cannot be undone. */
static int search_by_line(int count, int key, rl_command_func_t *fn)
{
	if (where_history() != history_length) {
		char *text = xstrndup(rl_line_buffer, (size_t)rl_end);
		rl_end_of_history(1, 0);
		replace(0, (size_t)rl_end, text);
		free(text);
	}
	rl_free_undo_list();
	return fn(count, key);
}

static int search_back(int count, int key)
{
	return search_by_line(count, key, rl_noninc_reverse_search);
}

static int search_on(int count, int key)
{
	return search_by_line(count, key, rl_noninc_forward_search);
}

static int search_vi(int count, int key)
{
	return search_by_line(count, key, rl_vi_search);
}

/* readline's own completion stays away; its keys open ours. */
static char **no_completion(const char *text, int start, int end)
{
	(void)text, (void)start, (void)end;
	rl_attempted_completion_over = 1;
	p.ask = 1;
	return NULL;
}

/* ---- life ---- */

static void bind_everywhere(const char *seq, rl_command_func_t *fn, int always)
{
	Keymap maps[] = {emacs_standard_keymap, vi_insertion_keymap, vi_movement_keymap};

	for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
		if (always)
			rl_bind_keyseq_in_map(seq, fn, maps[i]);
		else
			rl_bind_keyseq_if_unbound_in_map(seq, fn, maps[i]);
}

static void bind_instead(rl_command_func_t *old, rl_command_func_t *new)
{
	Keymap maps[] = {emacs_standard_keymap, vi_insertion_keymap, vi_movement_keymap};

	for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) {
		char **seqs = rl_invoking_keyseqs_in_map(old, maps[i]);

		for (size_t k = 0; seqs && seqs[k]; k++) {
			rl_bind_keyseq_in_map(seqs[k], new, maps[i]);
			free(seqs[k]);
		}
		free(seqs);
	}
}

static void bind_keys(void)
{
	static const struct { const char *seq; rl_command_func_t *fn; } ours[] = {
		{SEQ_ACCEPT, accept}, {SEQ_NEWLINE, insert_newline}, {SEQ_PASTE, paste}, {SEQ_SET, set_text},
		{SEQ_UP, row_up},
		{SEQ_DOWN, row_down}, {SEQ_HOME, line_home}, {SEQ_END, line_end}, {SEQ_COMMAND, rl_vi_movement_mode},
	}, usual[] = {
		{"\033[A", rl_get_previous_history}, {"\033[B", rl_get_next_history}, {"\033[C", rl_forward_char},
		{"\033[D", rl_backward_char}, {"\033[H", rl_beg_of_line}, {"\033[F", rl_end_of_line},
		{"\033[3~", rl_delete},
		{"\033[1;5C", rl_forward_word}, {"\033[1;5D", rl_backward_word}, {"\033[1;3C", rl_forward_word},
		{"\033[1;3D", rl_backward_word}, {"\033[3;5~", rl_kill_word}, {"\033[3;3~", rl_kill_word},
		{"\033[1;5H", rl_beg_of_line}, {"\033[1;5F", rl_end_of_line},
	};

	/* The first complains on standard error and undoes overrule(); the others count a macro's keys wrong in callback
	 * mode and may write before its beginning. */
	static rl_command_func_t *const not_here[] = {
		rl_re_read_init_file, rl_start_kbd_macro, rl_end_kbd_macro, rl_call_last_kbd_macro,
	};

	for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
		bind_everywhere(ours[i].seq, ours[i].fn, 1);
	for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
		bind_everywhere(usual[i].seq, usual[i].fn, 0);
	bind_everywhere(BYTE_NOTHING, nothing, 1);
	bind_instead(rl_noninc_reverse_search, search_back);
	bind_instead(rl_noninc_forward_search, search_on);
	bind_instead(rl_vi_search, search_vi);
	for (size_t i = 0; i < sizeof not_here / sizeof *not_here; i++) {
		rl_unbind_function_in_map(not_here[i], emacs_standard_keymap);
		rl_unbind_function_in_map(not_here[i], emacs_ctlx_keymap);
	}
}

static void load_entry(const char *text, size_t n, void *ud)
{
	(void)n, (void)ud;
	add_history(text);
}

void input_open(const char *history, const struct ui_command *commands)
{
	p.open = 1;
	p.commands = commands;
	p.width = 80;
	p.mark = 2;
	p.goal = -1;
	p.offers.chosen = -1;
	p.null = fopen("/dev/null", "r+e");
	rl_readline_name = "weir";
	rl_instream = rl_outstream = p.null;
	rl_getc_function = next_byte;
	rl_input_available_hook = bytes_wait;
	rl_redisplay_function = draw_nothing;
	rl_prep_term_function = NULL;
	rl_deprep_term_function = NULL;
	rl_catch_signals = rl_catch_sigwinch = 0;
	rl_change_environment = 0;
	rl_completion_query_items = 0;
	rl_attempted_completion_function = no_completion;
	/* Lines of the history that were changed and not sent stay what they were, unless the user wants it otherwise. */
	rl_variable_bind("revert-all-at-newline", "on");
	locale_save();
	rl_initialize();
	overrule();
	bind_keys();
	using_history();
	stifle_history(HISTORY_MAX);
	if (history && !history_load(history, load_entry, NULL))
		str_adds(&p.history, history);
	rl_callback_handler_install("", on_line);
	locale_restore();
}

void input_close(void)
{
	if (!p.open)
		return;
	settle();
	rl_free_line_state();
	rl_callback_handler_remove();
	rl_clear_history();
	/* It leaves the entries' pointers where they were, and readline's searches count up to the end mark. */
	if (history_list())
		history_list()[0] = NULL;
	rl_getc_function = rl_getc;
	rl_input_available_hook = NULL;
	rl_redisplay_function = rl_redisplay;
	rl_prep_term_function = rl_prep_terminal;
	rl_deprep_term_function = rl_deprep_terminal;
	rl_attempted_completion_function = NULL;
	rl_startup_hook = NULL;
	rl_instream = stdin;
	rl_outstream = stdout;
	if (p.null)
		fclose(p.null);
	if (p.history.n)
		history_trim(p.history.p);
	input_names(NULL, 0);
	offers_close(&p.offers);
	for (size_t i = 0; i < p.n_message; i++)
		str_free(&p.message[i]);
	free(p.message);
	str_free(&p.history);
	str_free(&p.queue);
	str_free(&p.back);
	str_free(&p.locale);
	memset(&p, 0, sizeof p);
}

void input_names(const char *const *names, size_t n)
{
	for (size_t i = 0; i < p.n_names; i++)
		free(p.names[i]);
	free(p.names);
	p.names = n ? xcalloc(n, sizeof *p.names) : NULL;
	p.n_names = n;
	for (size_t i = 0; i < n; i++) {
		struct str s = {0};
		text_fix(names[i], strlen(names[i]), &s);
		p.names[i] = xstrndup(s.p ? s.p : "", s.n);
		str_free(&s);
	}
}

/* ---- completion ---- */

static enum offer_kind look_for_offers(void)
{
	return offers_find(&p.offers, rl_line_buffer, (size_t)rl_end, (size_t)rl_point, p.commands, p.names, p.n_names);
}

static void take_offer(size_t which)
{
	struct str s = {0};
	size_t to = p.offers.to;
	int again = p.offers.kind == OFFER_PATHS && p.offers.list[which].more;

	offers_text(&p.offers, which, &s);
	/* The blank behind it may be there already. */
	if (s.n && s.p[s.n - 1] == ' ' && rl_line_buffer[to] == ' ')
		to++;
	if (s.n)
		replace(p.offers.from, to, s.p);
	p.spare_blank = s.n && s.p[s.n - 1] == ' ';
	str_free(&s);
	offers_close(&p.offers);
	if (again)
		look_for_offers();
}

static void walk(int step)
{
	long n = (long)p.offers.n, at = p.offers.chosen;

	p.offers.chosen = at < 0 ? (step > 0 ? 0 : n - 1) : (at + step + n) % n;
}

static int complete(int step)
{
	int open = p.offers.n > 0;
	struct str s = {0};

	if (open && p.offers.chosen >= 0) {
		walk(step);
		return 1;
	}
	if (!look_for_offers())
		return 0;
	if (p.offers.n == 1) {
		take_offer(0);
	} else if (offers_common(&p.offers, &s)) {
		replace(p.offers.from, p.offers.to, s.p);
		look_for_offers();
	} else if (open && p.offers.n) {
		walk(step);
	}
	str_free(&s);
	return 1;
}

/* What the popup makes of a key: 1 = all, 0 = nothing: the line gets it. */
static int offers_key(const struct key *k)
{
	switch (k->code) {
	case K_ESC:
		offers_close(&p.offers);
		return 1;
	case K_UP: case K_DOWN:
		if (k->mods)
			return 0;
		walk(k->code == K_UP ? -1 : 1);
		return 1;
	case K_ENTER:
		if (k->mods || p.offers.chosen < 0)
			return 0;
		take_offer((size_t)p.offers.chosen);
		return 1;
	case K_CHAR:
		if (k->mods == KEY_CTRL && k->cp == 'g') {
			offers_close(&p.offers);
			return 1;
		}
		if (k->mods & (KEY_CTRL | KEY_ALT) || p.offers.chosen < 0)
			return 0;
		take_offer((size_t)p.offers.chosen);
		return k->cp == '/' && rl_point && rl_line_buffer[rl_point - 1] == '/';
	default:
		return 0;
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

/* A key that ends with one byte: as it is, behind ESC with Alt. */
static int char_key(const struct key *k)
{
	char s[8];
	size_t n = 0;
	int32_t cp = k->cp > 0 ? k->cp : 0xfffd;

	/* Behind a count of none or less, and behind Ctrl-X, readline takes the first byte alone for a character. */
	if (cp >= 0x80 && RL_ISSTATE(RL_STATE_MULTIKEY)) {
		settle();
		return 1;
	}
	if (cp >= 0x80 && (rl_readline_state & STATES_OPEN) == RL_STATE_NUMERICARG)
		settle();
	if (k->mods & KEY_ALT)
		s[n++] = '\033';
	if (k->mods & KEY_CTRL)
		s[n++] = (char)(k->cp == '?' ? 0x7f : k->cp & 0x1f);
	else if (cp < 0x20 || cp == 0x7f)
		return 0;
	else
		n += (size_t)utf8_encode(cp, s + n);
	if (k->mods & KEY_ALT && !(is_vi() && s[1] != '[' && s[1] != 'O') && !is_bound(s, n))
		return 0;
	feed(s, n);
	return 1;
}

static int ctrl_key(const struct key *k)
{
	char c = (char)(k->cp & 0x1f);

	if (k->cp < '?' || k->cp > '~')
		return 0;
	/* These are the screen's, where no search and no command waits for them. */
	if (strchr("cgzl", (int)k->cp) && !RL_ISSTATE(STATES_OPEN))
		return 0;
	/* To readline it is the end of input. */
	if (k->cp == 'd' && !rl_end)
		return 0;
	if (!RL_ISSTATE(STATES_OPEN) && c) {
		rl_command_func_t *fn = rl_function_of_keyseq_len(&c, 1, rl_get_keymap(), NULL);
		if (!fn)
			return 0;
		p.quoting = fn == rl_quoted_insert;
	}
	return char_key(k);
}

/* Keys without a character, as xterm sends them. */
static int special_key(const struct key *k)
{
	static const struct { enum key_code code; const char *plain; char letter; int number; } table[] = {
		{K_UP, "\033[A", 'A', 1}, {K_DOWN, "\033[B", 'B', 1}, {K_RIGHT, "\033[C", 'C', 1},
		{K_LEFT, "\033[D", 'D', 1},
		{K_HOME, "\033[H", 'H', 1}, {K_END, "\033[F", 'F', 1}, {K_INSERT, "\033[2~", '~', 2},
		{K_DELETE, "\033[3~", '~', 3},
	};
	int lines = memchr(rl_line_buffer, '\n', (size_t)rl_end) != NULL;
	char seq[32];

	/* A count is for the key. */
	if ((rl_readline_state & STATES_OPEN) != RL_STATE_NUMERICARG)
		settle();
	if (!k->mods && (k->code == K_UP || k->code == K_DOWN)) {
		int at = rl_point, goal = p.goal, moves = move_row(k->code == K_UP ? -1 : 1);

		if (moves) {
			rl_point = at;
			p.goal = goal;
			feeds(k->code == K_UP ? SEQ_UP : SEQ_DOWN);
			return 1;
		}
	}
	if (!k->mods && lines && (k->code == K_HOME || k->code == K_END)) {
		feeds(k->code == K_HOME ? SEQ_HOME : SEQ_END);
		return 1;
	}
	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		if (table[i].code != k->code)
			continue;
		if (k->mods)
			snprintf(seq, sizeof seq, "\033[%d;%u%c", table[i].number, 1 + (k->mods & 7), table[i].letter);
		else
			snprintf(seq, sizeof seq, "%s", table[i].plain);
		if (!is_bound(seq, strlen(seq)))
			return 0;
		feeds(seq);
		return 1;
	}
	return 0;
}

static int paste_key(const struct key *k)
{
	struct str s = {0};

	text_fix(k->bytes, k->n, &s);
	if (s.n && RL_ISSTATE(RL_STATE_ISEARCH | RL_STATE_NSEARCH)) {
		/* Into the search: one line of it, as if typed. */
		size_t n = 0;
		while (n < s.n && n < SEARCH_PASTE && (unsigned char)s.p[n] >= 0x20 && s.p[n] != 0x7f)
			n++;
		feed(s.p, utf8_complete(s.p, n));
	} else if (s.n && s.n < LINE_MOST - (size_t)rl_end) {
		settle();
		p.arg = s.p;
		feeds(SEQ_PASTE);
		p.arg = NULL;
	}
	str_free(&s);
	return 1;
}

static int escape_key(void)
{
	if (RL_ISSTATE(RL_STATE_ISEARCH) || (RL_ISSTATE(STATES_OPEN) && !RL_ISSTATE(RL_STATE_VIMOTION)))
		settle();
	else if (RL_ISSTATE(STATES_OPEN))
		rl_callback_sigcleanup();
	else if (is_vi() && !vi_command())
		feeds(SEQ_COMMAND);
	else
		return 0;
	return 1;
}

/* Behind Ctrl-V: as it is, if it has a character. */
static int quoted_key(const struct key *k)
{
	struct key plain = {.cp = k->cp, .mods = k->mods & KEY_CTRL};

	switch (k->code) {
	case K_CHAR:
		if (k->mods & KEY_CTRL && k->cp == '@')
			return 1;
		/* readline would quote its first byte alone. */
		if (k->cp < 0 || k->cp >= 0x80)
			settle();
		return char_key(&plain);
	case K_TAB:       feeds("\t"); return 1;
	case K_ENTER:     feeds("\n"); return 1;
	case K_BACKSPACE: feeds("\177"); return 1;
	case K_ESC:       feeds("\033"); return 1;
	default:          return 0;
	}
}

/* Keys of a search: to be typed into it, or what repeats, shortens and ends it. */
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

/* A key for the line itself. */
static int line_key(const struct key *k)
{
	struct key plain = *k;

	plain.mods &= ~(unsigned)KEY_SHIFT;
	/* All other keys end it, and not by readline's doing: it crashes over Ctrl-X and one more key (8.2). */
	if (RL_ISSTATE(RL_STATE_ISEARCH) && !is_search_key(&plain))
		settle();
	if (p.quoting) {
		p.quoting = 0;
		if (quoted_key(&plain))
			return 1;
	}
	if (k->code == K_CHAR && plain.mods == KEY_CTRL) {
		/* What some terminals send in full is on others what these keys send. */
		switch (k->cp) {
		case 'i': plain = (struct key){.code = K_TAB}; break;
		case 'm': plain = (struct key){.code = K_ENTER}; break;
		case 'j': plain = (struct key){.code = K_ENTER, .mods = KEY_CTRL}; break;
		case '[': plain = (struct key){.code = K_ESC}; break;
		default: return ctrl_key(&plain);
		}
	}
	switch (plain.code) {
	case K_CHAR:
		return char_key(&plain);
	case K_ENTER:
		if (RL_ISSTATE(RL_STATE_NSEARCH)) {
			feeds("\r");   /* look for it */
			return 1;
		}
		settle();
		feeds(k->mods || plain.mods ? SEQ_NEWLINE : SEQ_ACCEPT);
		return 1;
	case K_TAB:
		settle();
		return complete(k->mods & KEY_SHIFT ? -1 : 1);
	case K_BACKSPACE:
		if (RL_ISSTATE(RL_STATE_ISEARCH | RL_STATE_NSEARCH) || !plain.mods)
			feeds("\177");
		else
			feeds(is_vi() ? "\027" : "\033\177");
		return 1;
	case K_ESC:
		return escape_key();
	case K_PASTE:
		return paste_key(k);
	case K_UP: case K_DOWN: case K_LEFT: case K_RIGHT: case K_HOME: case K_END: case K_INSERT: case K_DELETE:
		return special_key(&(struct key){.code = k->code, .mods = k->mods});
	default:
		return 0;
	}
}

int input_key(const struct key *k)
{
	int had = p.offers.n > 0, typing, used, rows;

	if (!p.open)
		return 0;
	if (had && offers_key(k))
		return 1;
	/* Who types the blank himself does not want two. */
	if (p.spare_blank && k->code == K_CHAR && k->cp == ' ' && !(k->mods & (KEY_CTRL | KEY_ALT))) {
		p.spare_blank = 0;
		return 1;
	}
	p.spare_blank = 0;
	rows = k->code == K_UP || k->code == K_DOWN;
	if (!rows)
		p.goal = -1;
	p.ask = 0;
	used = line_key(k);
	if (!used || k->code == K_TAB || (k->code == K_CHAR && k->mods == KEY_CTRL && k->cp == 'i'))
		return used;
	typing = (k->code == K_CHAR && !(k->mods & (KEY_CTRL | KEY_ALT))) || (k->code == K_BACKSPACE && !k->mods);
	if (RL_ISSTATE(STATES_OPEN) || vi_command())
		typing = 0;
	if (p.ask)
		complete(1);
	else if (!typing || !rl_end)
		offers_close(&p.offers);
	/* An open popup follows what is typed; one for commands comes by itself. */
	else if (had || (rl_line_buffer[0] == '/' && (int)strcspn(rl_line_buffer, " \t\n") >= rl_point))
		look_for_offers();
	return 1;
}

int input_take(struct str *out)
{
	str_clear(out);
	if (!p.n_message)
		return 0;
	str_add(out, p.message[0].p, p.message[0].n);
	str_free(&p.message[0]);
	memmove(p.message, p.message + 1, --p.n_message * sizeof *p.message);
	return 1;
}

int input_empty(void)
{
	return !p.open || !rl_end;
}

const char *input_text(size_t *n)
{
	if (n)
		*n = p.open ? (size_t)rl_end : 0;
	return p.open ? rl_line_buffer : "";
}

void input_set(const char *text, size_t n)
{
	struct str s = {0};

	if (!p.open)
		return;
	offers_close(&p.offers);
	settle();
	text_fix(text, n < LINE_MOST ? n : LINE_MOST, &s);
	p.arg = s.p ? s.p : "";
	feeds(SEQ_SET);
	p.arg = NULL;
	p.goal = -1;
	str_free(&s);
}

void input_abandon(void)
{
	if (!p.open)
		return;
	offers_close(&p.offers);
	settle();
	p.abandon = 1;
	feeds(SEQ_ACCEPT);
	p.abandon = 0;
	p.goal = -1;
}

int input_wants_escape(void)
{
	return input_wants_abort() || (p.open && is_vi() && !vi_command());
}

int input_wants_abort(void)
{
	return p.open && (p.offers.n || RL_ISSTATE(STATES_OPEN));
}

int input_commands(void)
{
	return p.open && vi_command();
}

/* ---- drawing ---- */

/* What readline wants to stand before the line: a search and its words. */
static void own_prompt(struct str *out)
{
	if (rl_display_prompt && rl_display_prompt != rl_prompt && *rl_display_prompt)
		clean_line(rl_display_prompt, strlen(rl_display_prompt), out);
}

/* Columns before the first row and before the others. */
static void indents(int width, int prompt, int *first, int *rest)
{
	*rest = prompt >= 0 || width - p.mark < 2 ? 0 : p.mark;
	*first = prompt < 0 ? *rest : prompt;
}

/* The end of a prompt, as much as leaves room for what it is about. */
static size_t prompt_cut(const struct str *s, int width, int *cols)
{
	int most = width < 12 ? width / 2 : width - 8, all = (int)text_width(s->p, s->n);
	size_t at = 0;

	*cols = all;
	while (at < s->n) {
		int32_t cp;
		size_t len = (size_t)utf8_decode(s->p + at, s->n - at, &cp);
		int width_cp = char_width(cp);

		if (*cols <= most && (*cols == all || width_cp > 0))
			break;
		*cols -= width_cp > 0 ? width_cp : 0;
		at += len;
	}
	return at;
}

static struct wrapped lay_out(int width)
{
	struct wrapped w = {.text = rl_line_buffer, .n = (size_t)rl_end};
	struct str prompt = {0};
	int first, rest, cols = -1;

	own_prompt(&prompt);
	if (prompt.n)
		prompt_cut(&prompt, width, &cols);
	str_free(&prompt);
	indents(width, cols, &first, &rest);
	w.first = width - first > 1 ? width - first : 1;
	w.cols = width - rest > 1 ? width - rest : 1;
	return w;
}

int input_rows(int width, int most)
{
	struct wrapped w;

	if (!p.open || width < 1)
		return 1;
	p.width = width;
	w = lay_out(width);
	return wrap_count(&w, 0, most > 1 ? most : 1);
}

/* The first row that is seen: the one of before, if the cursor is seen then and no row at the end stays empty. */
static size_t choose_top(const struct wrapped *w, size_t rows)
{
	size_t from[ROWS_MOST], n, top;

	if (rows > ROWS_MOST)
		rows = ROWS_MOST;
	n = wrap_rows_to(w, (size_t)rl_point, from, rows);
	top = from[0];
	for (size_t i = 0; i < n; i++)
		if (from[i] <= p.top)
			top = from[i];
	if (p.top > from[n - 1])
		top = from[n - 1];
	if (wrap_count(w, top, (int)rows) < (int)rows) {
		wrap_rows_to(w, w->n, from, rows);
		if (from[0] < top)
			top = from[0];
	}
	return top;
}

void input_draw(const struct area *a, const char *mark)
{
	struct str prompt = {0};
	struct wrapped w;
	struct wrap_row row;
	int first, rest, cols = -1;
	size_t at = 0;

	if (!p.open || a->w < 1 || a->h < 1)
		return;
	area_clear(a, ST_TEXT);
	p.width = a->w;
	p.mark = (int)text_width(mark, strlen(mark));
	own_prompt(&prompt);
	if (prompt.n)
		at = prompt_cut(&prompt, a->w, &cols);
	indents(a->w, cols, &first, &rest);
	w = lay_out(a->w);
	p.top = choose_top(&w, (size_t)a->h);
	if (!p.top && prompt.n)
		area_text(a, 0, 0, ST_PROMPT, prompt.p + at, prompt.n - at);
	else if (!p.top && rest)
		area_text(a, 0, 0, ST_PROMPT, mark, strlen(mark));
	row.next = p.top;
	for (int y = 0; y < a->h && row.next != NO_ROW; y++) {
		int x;

		wrap_row_at(&w, row.next, &row);
		x = row.from ? rest : first;
		wrap_draw(&w, &row, a, x, y, ST_TEXT);
		if ((size_t)rl_point >= row.from && ((size_t)rl_point < row.next || row.next == NO_ROW)) {
			x += wrap_col(&w, &row, (size_t)rl_point);
			area_cursor(a, x < a->w ? x : a->w - 1, y);
		}
	}
	str_free(&prompt);
}

int input_offers(void)
{
	return (int)p.offers.n;
}

void input_draw_offers(const struct area *a)
{
	offers_draw(&p.offers, a);
}
