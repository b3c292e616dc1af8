/* ui/input/input.c - the input line; see input.h. Only this file and input_line*.c use readline.
 *
 * readline runs in callback mode and reads from a queue of bytes, so it never waits. input_key() queues the bytes of
 * one key and calls readline until the queue is empty. Keys without a binding in readline are not queued: readline
 * would insert their last bytes as text.
 *
 * Functions that readline lacks (paste, line breaks, moving by rows, Enter) are not called directly, but bound to
 * private key sequences. So undo, kill, macros and vi mode treat these functions like readline's own commands. */
#include "ui/input/input_readline.h"

#include <stdlib.h>
#include <string.h>

static void load_entry(const char *text, size_t n, void *ud)
{
	(void)n, (void)ud;
	add_history(text);
}

void input_open(const char *history, const struct ui_command *commands, const struct ui_setting *settings)
{
	input.open = 1;
	input.commands = commands;
	input.settings = settings;
	input.width = 80;
	input.mark = 2;
	input.goal = -1;
	input.offers.chosen = -1;
	input.null = fopen("/dev/null", "r+e");
	rl_readline_name = "weir";
	rl_instream = rl_outstream = input.null;
	rl_getc_function = line_next_byte;
	rl_input_available_hook = line_bytes_wait;
	rl_redisplay_function = line_draw_nothing;
	rl_prep_term_function = NULL;
	rl_deprep_term_function = NULL;
	rl_catch_signals = rl_catch_sigwinch = 0;
	rl_change_environment = 0;
	rl_completion_query_items = 0;
	rl_attempted_completion_function = line_no_completion;
	/* at Enter, undo the edits of old history lines; the user's ~/.inputrc may switch this off */
	rl_variable_bind("revert-all-at-newline", "on");
	line_locale_save();
	rl_initialize();
	line_overrule();
	line_bind_keys();
	using_history();
	stifle_history(HISTORY_MAX);
	if (history && !history_load(history, load_entry, NULL))
		str_adds(&input.history, history);
	rl_callback_handler_install("", line_ended);
	line_locale_restore();
}

void input_close(void)
{
	if (!input.open)
		return;
	line_settle();
	rl_free_line_state();
	rl_callback_handler_remove();
	rl_clear_history();
	/* End readline's history list with NULL, which rl_clear_history() omits. Searches after the next input_open()
	 * need it. */
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
	if (input.null)
		fclose(input.null);
	if (input.history.n)
		history_trim(input.history.p);
	input_names(NULL, 0);
	pastes_forget();
	offers_close(&input.offers);
	for (size_t i = 0; i < input.n_message; i++)
		str_free(&input.message[i]);
	free(input.message);
	str_free(&input.history);
	str_free(&input.queue);
	str_free(&input.back);
	str_free(&input.locale);
	memset(&input, 0, sizeof input);
}

void input_names(const char *const *names, size_t n)
{
	for (size_t i = 0; i < input.n_names; i++)
		free(input.names[i]);
	free(input.names);
	input.names = n ? xcalloc(n, sizeof *input.names) : NULL;
	input.n_names = n;
	for (size_t i = 0; i < n; i++) {
		struct str s = { 0 };
		text_fix(names[i], strlen(names[i]), &s);
		input.names[i] = xstrndup(str_text(&s), s.n);
		str_free(&s);
	}
}

int input_key(const struct key *k)
{
	int had = input.offers.n > 0, typing, used, rows;

	if (!input.open)
		return 0;
	if (had && line_offers_key(k))
		return 1;
	/* completion has added a blank, so ignore a blank that the user types after it */
	if (input.spare_blank && k->code == K_CHAR && k->cp == ' ' && !(k->mods & (KEY_CTRL | KEY_ALT))) {
		input.spare_blank = 0;
		return 1;
	}
	input.spare_blank = 0;
	rows = k->code == K_UP || k->code == K_DOWN;
	if (!rows)
		input.goal = -1;
	input.ask = 0;
	used = line_key(k);
	if (!used || k->code == K_TAB || (k->code == K_CHAR && k->mods == KEY_CTRL && k->cp == 'i'))
		return used;
	typing = (k->code == K_CHAR && !(k->mods & (KEY_CTRL | KEY_ALT))) || (k->code == K_BACKSPACE && !k->mods);
	if (RL_ISSTATE(STATES_OPEN) || line_vi_command())
		typing = 0;
	if (input.ask)
		line_complete(1);
	else if (!typing || !rl_end)
		offers_close(&input.offers);
	/* open the popup of completions while the name of a command is typed; update an open popup whenever something
	 * is typed */
	else if (had || (rl_line_buffer[0] == '/' && (int)strcspn(rl_line_buffer, " \t\n") >= rl_point))
		line_look_for_offers();
	return 1;
}

int input_take(struct str *out)
{
	str_clear(out);
	if (!input.n_message)
		return 0;
	str_add(out, input.message[0].p, input.message[0].n);
	str_free(&input.message[0]);
	memmove(input.message, input.message + 1, --input.n_message * sizeof *input.message);
	return 1;
}

int input_empty(void)
{
	return !input.open || !rl_end;
}

const char *input_text(size_t *n)
{
	if (n)
		*n = input.open ? (size_t)rl_end : 0;
	return input.open ? rl_line_buffer : "";
}

void input_whole(struct str *out)
{
	if (input.open)
		pastes_expand(rl_line_buffer, (size_t)rl_end, out);
}

void input_set(const char *text, size_t n)
{
	struct str s = { 0 };

	text_fix(text, MIN(n, LINE_MOST), &s);
	input_restore(str_text(&s));
	str_free(&s);
}

void input_restore(const char *text)
{
	if (!input.open)
		return;
	offers_close(&input.offers);
	line_settle();
	input.arg = text;
	line_feeds(SEQ_SET);
	input.arg = NULL;
	input.goal = -1;
}

void input_abandon(void)
{
	if (!input.open)
		return;
	offers_close(&input.offers);
	line_settle();
	input.abandon = 1;
	line_feeds(SEQ_ACCEPT);
	input.abandon = 0;
	input.goal = -1;
}

int input_wants_escape(void)
{
	return input_wants_abort() || (input.open && line_is_vi() && !line_vi_command());
}

int input_wants_abort(void)
{
	return input.open && (input.offers.n || RL_ISSTATE(STATES_OPEN));
}

int input_commands(void)
{
	return input.open && line_vi_command();
}

int input_offers(void)
{
	return (int)input.offers.n;
}

void input_draw_offers(const struct area *a, int ascii)
{
	offers_draw(&input.offers, a, ascii);
}
