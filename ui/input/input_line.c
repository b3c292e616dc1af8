/* ui/input/input_line.c - readline's side of the input line: the queue of bytes that readline reads, and commands that
 * it lacks. readline reads the user's settings from ~/.inputrc; settings that would break the input line are
 * overridden. */
#include "ui/input/input_readline.h"
#include "engine/base/utf8.h"

#include <locale.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK "\"\"\""
/* maximum repeat count; Alt-9 Alt-9 ... x inserts x that many times, which without a limit could fill the memory */
enum { ARG_MOST = 9999 };

struct input input;

/* ---- readline's end of the queue ---- */

int line_next_byte(FILE *unused)
{
	(void)unused;
	return input.taken < input.queue.n ? (unsigned char)input.queue.p[input.taken++] : EOF;
}

int line_bytes_wait(void)
{
	return input.taken < input.queue.n;
}

void line_draw_nothing(void)
{
}

void line_overrule(void)
{
	static const char *const settings[][2] = {
		{ "enable-bracketed-paste", "off" },
		{ "bell-style", "none" },
		{ "show-mode-in-prompt", "off" },
		{ "convert-meta", "off" },
		{ "input-meta", "on" },
		{ "output-meta", "on" },
		{ "isearch-terminators", "\033\012" },
	};

	for (size_t i = 0; i < LEN(settings); i++)
		rl_variable_bind(settings[i][0], settings[i][1]);
}

/* Save the program's locale, because readline sets the locale from the environment at the start of each line.
 * line_locale_restore() restores it. */
void line_locale_save(void)
{
	const char *now = setlocale(LC_CTYPE, NULL);

	str_clear(&input.locale);
	str_adds(&input.locale, now ? now : "C");
}

void line_locale_restore(void)
{
	const char *now = setlocale(LC_CTYPE, NULL);

	if (input.locale.n && now && strcmp(now, input.locale.p)) {
		setlocale(LC_CTYPE, input.locale.p);
		line_overrule();
	}
	str_clear(&input.locale);
}

/* Move cursor (rl_point) and mark to character boundaries. Text inserted before the mark may leave the mark inside a
 * UTF-8 character, and a command may move the cursor to the mark. */
static void at_boundary(void)
{
	int *at[] = { &rl_point, &rl_mark };

	for (int i = 0; i < 2; i++) {
		if (*at[i] > rl_end)
			*at[i] = rl_end;
		while (*at[i] > 0 && utf8_continues(rl_line_buffer[*at[i]]))
			--*at[i];
	}
}

static void feed_queue(const char *bytes, size_t n)
{
	str_clear(&input.queue);
	str_add(&input.queue, bytes, n);
	input.taken = 0;
	for (int idle = 0; input.taken < input.queue.n && idle < 4;) {
		size_t before = input.taken;

		/* When a non-incremental search ends, readline 8.2 leaks the undo list of the pattern. Nothing undoes
		 * edits of the pattern, so free the list. */
		if (RL_ISSTATE(RL_STATE_NSEARCH))
			rl_free_undo_list();
		rl_callback_read_char();
		if (input.locale.n)
			line_locale_restore();
		/* end the loop after 4 successive calls of readline that have read no byte */
		idle = input.taken == before ? idle + 1 : 0;
		if (RL_ISSTATE(RL_STATE_NUMERICARG) && rl_numeric_arg > ARG_MOST)
			rl_numeric_arg = ARG_MOST;
	}
	at_boundary();
	str_clear(&input.queue);
	input.taken = 0;
}

/* Copy an edited history line into the history. readline 8.2 sometimes omits this. The edit is then lost, and a later
 * undo damages the old text. */
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

void line_feed(const char *bytes, size_t n)
{
	keep_change();
	feed_queue(bytes, n);
	/* If the key that ended the line came after a repeat count, readline calls line_ended() only when it reads
	 * another byte. So feed it a byte that does nothing. */
	if (RL_ISSTATE(RL_STATE_DONE))
		feed_queue(BYTE_NOTHING, 1);
}

void line_feeds(const char *seq)
{
	line_feed(seq, strlen(seq));
}

int line_is_vi(void)
{
	return !rl_editing_mode;
}

int line_vi_command(void)
{
	return line_is_vi() && rl_get_keymap() == vi_movement_keymap;
}

void line_settle(void)
{
	if (RL_ISSTATE(RL_STATE_NSEARCH | RL_STATE_MULTIKEY | RL_STATE_NUMERICARG))
		line_feeds("\007");
	rl_callback_sigcleanup();
	at_boundary();
}

/* ---- Enter ---- */

static int begins_block(const char *text, size_t n)
{
	return n >= 3 && !memcmp(text, BLOCK, 3);
}

/* 1 if the message continues after this line: a """ block is open, or a backslash ends the line. */
static int goes_on(const char *text, size_t n)
{
	if (begins_block(text, n))
		return n < 6 || memcmp(text + n - 3, BLOCK, 3);
	return n && text[n - 1] == '\\';
}

static void message_of(const char *text, size_t n, struct str *out)
{
	struct str whole = { 0 };

	if (begins_block(text, n)) {
		text += 3;
		n -= 6;
		if (n && *text == '\n')
			text++, n--;
		if (n && text[n - 1] == '\n')
			n--;
	}
	pastes_expand(text, n, &whole);
	text_fix(str_text(&whole), whole.n, out); /* a macro may have inserted invalid UTF-8 */
	str_free(&whole);
}

static void line_history_keep(const char *text, size_t n)
{
	HIST_ENTRY *last = history_length ? history_get(history_base + history_length - 1) : NULL;

	if (!n || (last && !strcmp(last->line, text)))
		return;
	add_history(text);
	if (input.history.n)
		history_append(input.history.p, text, n);
}

static int put_back(void)
{
	rl_startup_hook = NULL;
	rl_insert_text(input.back.p);
	return 0;
}

/* Handle the end of a line; called by readline. For Enter, accept_line() has checked that the message is complete. */
void line_ended(char *line)
{
	struct str *m;
	size_t n;

	line_locale_save();
	if (!line)
		return;
	n = strlen(line);
	if (input.abandon) {
		struct str whole = { 0 };

		pastes_expand(line, n, &whole);
		str_adds(&whole, "");
		line_history_keep(whole.p, whole.n);
		str_free(&whole);
	} else if (goes_on(line, n)) {
		/* A macro may end the line before the message is complete. readline then begins a new line. Insert the
		 * text of the ended line and a line break into it, so that the message can continue. */
		str_clear(&input.back);
		str_add(&input.back, line, n - !begins_block(line, n));
		str_adds(&input.back, "\n");
		rl_startup_hook = put_back;
	} else if (n) {
		GROW(input.message, input.n_message, input.cap_message);
		m = &input.message[input.n_message];
		*m = (struct str){ 0 };
		message_of(line, n, m);
		if (m->n) {
			line_history_keep(m->p, m->n);
			input.n_message++;
		} else {
			str_free(m);
		}
	}
	free(line);
}

/* ---- functions that readline lacks ---- */

void line_replace(size_t from, size_t to, const char *text)
{
	rl_begin_undo_group();
	rl_delete_text((int)from, (int)to);
	rl_point = (int)from;
	rl_insert_text(text);
	rl_end_undo_group();
}

static int accept_line(int count, int key)
{
	size_t n = (size_t)rl_end;

	if (input.abandon || !goes_on(rl_line_buffer, n))
		return rl_newline(count, key);
	if (begins_block(rl_line_buffer, n))
		rl_insert_text("\n");
	else
		line_replace(n - 1, n, "\n");
	return 0;
}

static int ignore_key(int count, int key)
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

static int insert_arg(int count, int key)
{
	(void)count, (void)key;
	if (input.arg) {
		rl_begin_undo_group();
		rl_insert_text(input.arg);
		rl_end_undo_group();
	}
	return 0;
}

static int replace_by_arg(int count, int key)
{
	(void)count, (void)key;
	if (input.arg)
		line_replace(0, (size_t)rl_end, input.arg);
	return 0;
}

int line_move_row(int step)
{
	struct wrapped w = line_lay_out(input.width);
	struct wrap_row here, there;
	size_t from[2], n = wrap_rows_to(&w, (size_t)rl_point, from, 2);

	wrap_row_at(&w, from[n - 1], &here);
	if (step < 0 ? n < 2 : here.next == NO_ROW)
		return 0;
	wrap_row_at(&w, step < 0 ? from[0] : here.next, &there);
	if (input.goal < 0)
		input.goal = wrap_col(&w, &here, (size_t)rl_point);
	rl_point = (int)wrap_byte(&w, &there, input.goal);
	return 1;
}

static int row_up(int count, int key)
{
	(void)count, (void)key;
	line_move_row(-1);
	return 0;
}

static int row_down(int count, int key)
{
	(void)count, (void)key;
	line_move_row(1);
	return 0;
}

/* Move to the start of the current line of the text. If the cursor is there already, move to the start of the whole
 * text. line_end() does the same towards the end. */
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

/* Run a non-incremental search of readline. Before the search, make the visible text the draft (the line being written)
 * and discard its undo list. Otherwise readline 8.2 would lose the draft, or put it into another line of the
 * history. */
static int search_by_line(int count, int key, rl_command_func_t *fn)
{
	if (where_history() != history_length) {
		char *text = xstrndup(rl_line_buffer, (size_t)rl_end);
		rl_end_of_history(1, 0);
		line_replace(0, (size_t)rl_end, text);
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

/* Disable readline's own completion. The keys for it open the popup of completions instead. */
char **line_no_completion(const char *text, int start, int end)
{
	(void)text, (void)start, (void)end;
	rl_attempted_completion_over = 1;
	input.ask = 1;
	return NULL;
}

/* ---- bindings ---- */

static void bind_everywhere(const char *seq, rl_command_func_t *fn, int always)
{
	Keymap maps[] = { emacs_standard_keymap, vi_insertion_keymap, vi_movement_keymap };

	for (size_t i = 0; i < LEN(maps); i++)
		if (always)
			rl_bind_keyseq_in_map(seq, fn, maps[i]);
		else
			rl_bind_keyseq_if_unbound_in_map(seq, fn, maps[i]);
}

static void bind_instead(rl_command_func_t *old, rl_command_func_t *new)
{
	Keymap maps[] = { emacs_standard_keymap, vi_insertion_keymap, vi_movement_keymap };

	for (size_t i = 0; i < LEN(maps); i++) {
		char **seqs = rl_invoking_keyseqs_in_map(old, maps[i]);

		for (size_t k = 0; seqs && seqs[k]; k++) {
			rl_bind_keyseq_in_map(seqs[k], new, maps[i]);
			free(seqs[k]);
		}
		free(seqs);
	}
}

void line_bind_keys(void)
{
	static const struct {
		const char *seq;
		rl_command_func_t *fn;
	} ours[] = {
		{SEQ_ACCEPT, accept_line}, {SEQ_NEWLINE, insert_newline}, {SEQ_PASTE, insert_arg}, {SEQ_SET, replace_by_arg},
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

	/* readline commands that are unbound. rl_re_read_init_file() writes to standard error and undoes
	 * line_overrule(). In callback mode, keyboard macros miscount their keys and may write before their buffer. */
	static rl_command_func_t *const unbound[] = {
		rl_re_read_init_file,
		rl_start_kbd_macro,
		rl_end_kbd_macro,
		rl_call_last_kbd_macro,
	};

	for (size_t i = 0; i < LEN(ours); i++)
		bind_everywhere(ours[i].seq, ours[i].fn, 1);
	for (size_t i = 0; i < LEN(usual); i++)
		bind_everywhere(usual[i].seq, usual[i].fn, 0);
	bind_everywhere(BYTE_NOTHING, ignore_key, 1);
	bind_instead(rl_noninc_reverse_search, search_back);
	bind_instead(rl_noninc_forward_search, search_on);
	bind_instead(rl_vi_search, search_vi);
	for (size_t i = 0; i < LEN(unbound); i++) {
		rl_unbind_function_in_map(unbound[i], emacs_standard_keymap);
		rl_unbind_function_in_map(unbound[i], emacs_ctlx_keymap);
	}
}
