/* app/line/prompt.c - the input line: readline, its history and completion (line.h).
 *
 * readline runs in callback mode: this file waits by poll() for a key or for signals_fd(), which becomes readable at
 * every signal, even if another thread catches the signal. readline installs no signal handlers. */
#include "app/line/line.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <readline/history.h>
#include <readline/readline.h>


#define BLOCK "\"\"\""
enum { BURST = 32 }; /* minimum number of bytes that count as a paste if they arrive at once */

/* The input line. It is global, because readline's state is global too. */
static struct {
	const char *const *names, *const *file_names;
	struct str history; /* path of the history file; empty = none */
	FILE *screen;       /* stream to which prompts are written */
	int color;
	char *line; /* the line that readline's callback received */
	int have_line, eof;
	int draft;         /* 1 = the last Ctrl-C has cleared a line that had text */
	double last_int;   /* time of the last Ctrl-C on an empty line */
	struct str begins; /* text with which the next line begins */
	int edit;          /* 1 = Ctrl-G was pressed: edit the line in the user's editor */
	/* 1 = many bytes arrived at once; they count as a paste, even if the terminal does not mark pastes */
	int burst;
	int marks_pastes; /* 1 = the terminal marks pastes */
	int private_talk;
	struct termios before;
	int quiet;
} p;

/* ---- completion ---- */

/* 1 if the file name has no control or invisible characters. Completion offers no other names. */
static int is_plain(const char *name)
{
	struct str s = { 0 };
	int plain;

	clean_line(name, strlen(name), &s);
	plain = s.n == strlen(name) && !memcmp(str_text(&s), name, s.n);
	str_free(&s);
	return plain;
}

/* Remove names with control or invisible characters from readline's list of completions. list[0] is the common
 * prefix of the names after it, or the only name. */
static int drop_others(char **list)
{
	size_t kept = 1;

	for (size_t i = list[1] ? 1 : 0; list[i]; i++) {
		if (is_plain(list[i])) {
			if (i)
				list[kept++] = list[i];
		} else if (i) {
			free(list[i]);
		} else {
			free(list[0]);
			list[0] = NULL;
			return 0;
		}
	}
	if (list[1] && kept == 1) {
		free(list[0]);
		list[0] = NULL;
	}
	list[kept] = NULL;
	return 0;
}

static char *next_name(const char *text, int state)
{
	static size_t i;
	const char *name;

	if (!state)
		i = 0;
	while ((name = p.names[i])) {
		i++;
		if (!strncmp(name, text, strlen(text)) && is_plain(name))
			return strdup(name);
	}
	return NULL;
}

static char **complete_word(const char *text, int start, int end)
{
	(void)end;
	rl_attempted_completion_over = 1;
	if (!start)
		return *text == '/' ? rl_completion_matches(text, next_name) : NULL;
	for (const char *const *f = p.file_names; *f; f++) {
		size_t n = strlen(*f);
		if (!strncmp(rl_line_buffer, *f, n) && rl_line_buffer[n] == ' ') {
			rl_filename_completion_desired = 1;
			rl_attempted_completion_over = 0;
			return NULL;
		}
	}
	return NULL;
}

/* Alt-Enter: insert a line break. */
static int insert_newline(int count, int key)
{
	(void)key;
	while (count-- > 0)
		rl_insert_text("\n");
	return 0;
}

static int insert_paste(int count, int key)
{
	int from = rl_point, rc = rl_bracketed_paste_begin(count, key);

	p.marks_pastes = 1;
	if (rl_point > from)
		untyped_note(rl_line_buffer + from, (size_t)(rl_point - from));
	return rc;
}

/* Read a key. If many bytes are waiting, the text is pasted, not typed. */
static void read_key(void)
{
	int waits = 0;

	if (ioctl(0, FIONREAD, &waits) < 0)
		waits = 0;
	p.burst |= waits >= BURST;
	rl_callback_read_char();
	p.burst &= !p.marks_pastes;
	if (!p.burst)
		return;
	if (p.have_line && p.line)
		untyped_note(p.line, strlen(p.line));
	else if (waits <= 1 && !p.have_line)
		untyped_note(rl_line_buffer, (size_t)rl_end);
	p.burst = waits > 1;
}

/* Ctrl-G: end the line, so that the user can edit it in the editor. In a history search, Ctrl-G ends the search
 * instead. */
static int to_editor(int count, int key)
{
	(void)count, (void)key;
	p.edit = 1;
	rl_done = 1;
	return 0;
}

/* Begin the line with the draft. But if keys are waiting, the user has already typed the next line, and the draft would
 * become its beginning: so move the draft to the history. */
static int put_begins(void)
{
	int waits = 0;

	rl_startup_hook = NULL;
	if (p.begins.n && !ioctl(0, FIONREAD, &waits) && waits > 0)
		add_history(p.begins.p);
	else if (p.begins.n)
		rl_insert_text(p.begins.p);
	str_clear(&p.begins);
	return 0;
}

void prompt_draft(const char *text, size_t n)
{
	str_clear(&p.begins);
	/* readline ends its line at the first NUL byte, so truncate the text there */
	str_add(&p.begins, text, strnlen(text ? text : "", n));
}

/* ---- history ---- */

static void add_entry(const char *text, size_t n, void *ud)
{
	(void)n, (void)ud;
	add_history(text);
}

static void history_open(void)
{
	str_clear(&p.history);
	using_history();
	stifle_history(HISTORY_MAX);
	if (p.private_talk || user_path(&p.history, DIR_STATE, "history", NULL) || make_parents(p.history.p) < 0 ||
	    history_load(p.history.p, add_entry, NULL) < 0)
		str_clear(&p.history);
}

static void history_keep(const char *text)
{
	HIST_ENTRY *last = history_length ? history_get(history_base + history_length - 1) : NULL;

	if (!*text || (last && !strcmp(last->line, text)))
		return;
	add_history(text);
	if (p.history.n)
		history_append(p.history.p, text, strlen(text));
}

/* ---- opening and closing ---- */

void prompt_open(const char *color, const char *const *names, const char *const *file_names, int private_talk)
{
	p.private_talk = private_talk;
	p.names = names;
	p.file_names = file_names;
	p.screen = !isatty(1) && isatty(2) ? stderr : stdout;
	p.color = color_wanted(color, fileno(p.screen));
	rl_readline_name = "weir";
	rl_outstream = p.screen;
	rl_catch_signals = 0;
	rl_catch_sigwinch = 0;
	rl_change_environment = 0;
	rl_attempted_completion_function = complete_word;
	rl_ignore_some_completions_function = drop_others;
	rl_completer_word_break_characters = " ";
	rl_initialize();
	rl_variable_bind("enable-bracketed-paste", "on");
	rl_variable_bind("bell-style", "none");
	rl_bind_keyseq("\\e\\C-m", insert_newline);
	rl_bind_keyseq_in_map("\\e[200~", insert_paste, emacs_standard_keymap);
	rl_bind_keyseq_in_map("\\e[200~", insert_paste, vi_insertion_keymap);
	rl_bind_keyseq_in_map("\\C-g", to_editor, emacs_standard_keymap);
	rl_bind_keyseq_in_map("\\C-x\\C-e", to_editor, emacs_standard_keymap);
	rl_bind_keyseq_in_map("\\C-g", to_editor, vi_insertion_keymap);
	rl_bind_keyseq_in_map("\\C-g", to_editor, vi_movement_keymap);
	history_open();
	signals_save_terminal(0, "\033[0m\033[?2004l"); /* control sequence that resets colours and bracketed paste */
}

void prompt_close(void)
{
	prompt_quiet_keys(0);
	if (p.history.n)
		history_trim(p.history.p);
	str_free(&p.history);
	str_free(&p.begins);
}

void prompt_quiet_keys(int on)
{
	struct termios t;

	if (on && !p.quiet && !tcgetattr(0, &p.before)) {
		t = p.before;
		t.c_lflag &= ~(tcflag_t)ECHO;
		p.quiet = !tcsetattr(0, TCSANOW, &t);
	} else if (!on && p.quiet) {
		tcsetattr(0, TCSANOW, &p.before);
		p.quiet = 0;
	}
}

/* ---- one line ---- */

static void on_line(char *line)
{
	p.line = line;
	p.have_line = 1;
	p.eof = !line;
	rl_callback_handler_remove();
}

static void prompt_suspend(void)
{
	rl_deprep_terminal();
	signals_prompt(0); /* restore the default action of SIGTSTP, then stop the process */
	raise(SIGTSTP);
	signals_prompt(1);
	rl_prep_terminal(1);
	rl_forced_update_display();
}

enum line_got { LINE_TEXT, LINE_EOF, LINE_INT };

static enum line_got line_read(const char *prompt)
{
	struct pollfd fds[2] = { { .fd = 0, .events = POLLIN }, { .fd = signals_fd(), .events = POLLIN } };
	enum line_got got = LINE_EOF;

	p.have_line = 0;
	p.line = NULL;
	p.edit = 0;
	rl_startup_hook = p.begins.n ? put_begins : NULL;
	signals_prompt(1);
	rl_reset_screen_size(); /* the terminal may have changed its size since the last prompt */
	rl_callback_handler_install(prompt, on_line);
	while (!p.have_line) {
		if (signals_quit())
			break;
		if (signals_take_int()) {
			got = LINE_INT;
			break;
		}
		if (signals_take_stop())
			prompt_suspend();
		if (signals_take_resize()) {
			rl_resize_terminal();
			continue;
		}
		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			break;
		if (fds[1].revents)
			signals_drain();
		if (fds[0].revents & (POLLIN | POLLHUP | POLLERR | POLLNVAL))
			read_key();
		fds[0].revents = fds[1].revents = 0;
	}
	if (p.have_line) {
		got = p.eof ? LINE_EOF : LINE_TEXT;
	} else {
		/* Ctrl-C clears the line. If it has text, add it to the history, so that Up restores it. */
		p.draft = got == LINE_INT && rl_end > 0;
		if (p.draft)
			history_keep(rl_line_buffer);
		rl_free_line_state();
		rl_callback_sigcleanup();
		rl_callback_handler_remove();
	}
	signals_prompt(0);
	if (got != LINE_TEXT) {
		fputs("\n", p.screen);
		fflush(p.screen);
	}
	return got;
}

/* ---- one message ---- */

static const char *prompt_text(int more)
{
	/* \001 and \002 enclose bytes that have no width on the screen. */
	if (!p.color)
		return more ? ". " : "> ";
	return more ? "\001\033[2m\002. \001\033[0m\002" : "\001\033[1m\002> \001\033[0m\002";
}

static int ends_with(const struct str *s, const char *end)
{
	size_t n = strlen(end);

	return s->n >= n && !memcmp(s->p + s->n - n, end, n);
}

/* *s is the text of a message so far. The message has several lines if it begins with three quotation marks, or if a
 * line ends with a backslash. Remove this mark from *s. Returns 0 if the message is complete, 1 if another line
 * follows, and 2 if another line follows and *s had nothing but the mark. */
static int goes_on(struct str *s, int *block)
{
	if (!*block && s->n >= 3 && !memcmp(s->p, BLOCK, 3)) {
		*block = 1;
		memmove(s->p, s->p + 3, s->n - 3 + 1);
		s->n -= 3;
		if (!s->n)
			return 2; /* """ alone on the first line: the text begins on the next line */
	}
	if (*block) {
		if (!ends_with(s, BLOCK))
			return 1;
		s->n -= 3;
		if (s->n && s->p[s->n - 1] == '\n')
			s->n--;
		s->p[s->n] = 0;
		return 0;
	}
	if (ends_with(s, "\\")) {
		s->p[--s->n] = 0;
		return 1;
	}
	return 0;
}

/* Edit the current line in the user's editor. The next input line begins with the result. */
static void edit_line(void)
{
	struct str text = { 0 };
	struct err e = { 0 };

	str_adds(&text, p.line ? p.line : "");
	if (external_edit(&text, p.private_talk, &e) < 0)
		say_error(&e);
	signals_take_int(); /* forget a Ctrl-C that came while the editor ran: it was meant for the editor */
	untyped_note(str_text(&text), text.n);
	prompt_draft(str_text(&text), text.n);
	str_free(&text);
}

int prompt_ask(const char *question)
{
	int yes = line_read(question) == LINE_TEXT && p.line && (p.line[0] == 'y' || p.line[0] == 'Y');

	free(p.line);
	p.line = NULL;
	return yes;
}

enum prompt_got prompt_read(struct str *out)
{
	int more = 0, block = 0;

	str_clear(out);
	for (;;) {
		enum line_got got = line_read(prompt_text(more));

		if (got == LINE_INT && !signals_quit()) {
			double now = now_seconds();
			int empty = !p.draft && !more;
			if (empty && p.last_int > 0 && now - p.last_int < 1.5)
				return PROMPT_QUIT;
			p.last_int = empty ? now : 0;
			if (empty) {
				fputs("Ctrl-C again or Ctrl-D to quit\n", p.screen);
				fflush(p.screen);
			}
			str_clear(out);
			more = block = 0;
			continue;
		}
		if (got != LINE_TEXT)
			return PROMPT_QUIT;
		p.last_int = 0;
		if (p.edit) {
			edit_line();
			free(p.line);
			p.line = NULL;
			continue;
		}
		if (more == 1)
			str_adds(out, "\n");
		str_add(out, p.line, strlen(p.line));
		free(p.line);
		p.line = NULL;
		more = goes_on(out, &block);
		if (!more)
			break;
	}
	if (out->n)
		history_keep(out->p);
	return PROMPT_TEXT;
}
