/* app/tui/screen_commands.c - the commands that the screen runs itself, such as /theme and /copy.
 *
 * A command of the screen takes precedence over the chat's command of the same name: /sessions opens a pane instead of
 * printing a list. All other commands go to the worker (the thread that runs the chat). */
#include <stdlib.h>
#include <string.h>

#include "app/models/models.h"
#include "app/tui/tui_private.h"

#include <stdio.h>
#include "app/tui/worker.h"

struct screen_slash {
	const char *name, *aliases, *args, *help;
	enum ui_busy busy;
	enum ui_arg arg;
	/* returns 1 if the worker must run the command afterwards, else 0 */
	int (*run)(struct tui *, const char *arg, struct err *);
};

static int run_help(struct tui *t, const char *arg, struct err *e)
{
	(void)e;
	ui_open_help(t->ui, arg);
	return 0;
}

static int run_quit(struct tui *t, const char *arg, struct err *e)
{
	(void)arg, (void)e;
	t->left = 1;
	return 0;
}

static int run_sessions(struct tui *t, const char *arg, struct err *e)
{
	(void)arg;
	if (!t->store)
		return chat_no_sessions(t->chat, e);
	ui_open_sessions(t->ui);
	return 0;
}

static int run_switch(struct tui *t, const char *arg, struct err *e)
{
	return *arg ? 1 : run_sessions(t, arg, e);
}

static int run_docs(struct tui *t, const char *arg, struct err *e)
{
	(void)e;
	if (!strcmp(arg, "all"))
		return 1;
	ui_open_documents(t->ui, arg);
	return 0;
}

static int run_search(struct tui *t, const char *arg, struct err *e)
{
	if (!*arg)
		return err_set(e, ERR_USAGE, "/grep wants words; /find searches all sessions");
	if (!ui_search(t->ui, arg))
		ui_say(t->ui, "no match in this conversation; /find searches all sessions");
	return 0;
}

static int run_copy(struct tui *t, const char *arg, struct err *e)
{
	return ui_copy(t->ui, arg, e);
}

static int run_kv(struct tui *t, const char *arg, struct err *e)
{
	if (!strncmp(arg, "layer", 5) && strchr(" ", arg[5]) &&
	    (!arg[5] || strspn(arg + 6, "0123456789") != strlen(arg + 6) || !arg[6]))
		return err_set(e, ERR_USAGE, "/kv layer wants the number of a layer, from 0 on");
	if (*arg && strcmp(arg, "off") != 0 && strcmp(arg, "bar") != 0 && strcmp(arg, "full") != 0 &&
	    strncmp(arg, "layer ", 6) != 0)
		return 1;
	ui_open_panel(t->ui, arg);
	return 0;
}

/* Open the list of sessions, and ask whether to delete a session. `arg` is the name of the session; "" = the session on
 * the screen. */
static int run_delete(struct tui *t, const char *arg, struct err *e)
{
	int64_t id = t->session;

	if (!t->store)
		return chat_no_sessions(t->chat, e);
	if (*arg && session_find(t->store, arg, &id, e) < 0)
		return -1;
	if (!id)
		return err_set(e, ERR_USAGE, "this session has not begun yet; /delete NAME deletes another one");
	if (tui_is_hidden(t, id))
		return err_set(e, ERR_USAGE, "session '%.60s' is deleted already; /undelete restores it", arg);
	t->listed = 1;
	ui_open_sessions(t->ui);
	tui_list(t);
	ui_ask_delete(t->ui, id);
	return 0;
}

static int run_undelete(struct tui *t, const char *arg, struct err *e)
{
	(void)arg, (void)e;
	worker_do(t->worker, JOB_UNDELETE, 0, NULL, 0);
	return 0;
}

static int run_editor(struct tui *t, const char *arg, struct err *e)
{
	(void)e;
	ui_edit(t->ui, arg);
	return 0;
}

static int run_theme(struct tui *t, const char *arg, struct err *e)
{
	return ui_theme(t->ui, arg, e);
}

static int run_raw(struct tui *t, const char *arg, struct err *e)
{
	(void)arg, (void)e;
	ui_raw(t->ui, -1);
	return 0;
}

static int run_mouse(struct tui *t, const char *arg, struct err *e)
{
	(void)arg, (void)e;
	ui_mouse(t->ui, -1);
	return 0;
}

/* Run /set. A setting of the screen takes effect at once; the worker then stores and reports it. */
static int run_set(struct tui *t, const char *arg, struct err *e)
{
	static const struct {
		const char *name, *value;
	} off[] = { { "mouse", "off" }, { "answers", "formatted" }, { "panel", "off" } },
	  on[] = { { "mouse", "on" }, { "answers", "raw" }, { "panel", "on" } };
	size_t name = strcspn(arg, " \t="), value = name + strspn(arg + name, " \t="), n = strcspn(arg + value, " \t");
	char theme[12];

	(void)e;
	if (name == 5 && !strncmp(arg, "theme", 5) && n && n < sizeof theme) {
		snprintf(theme, sizeof theme, "%.*s", (int)n, arg + value);
		ui_theme(t->ui, theme, &(struct err){ 0 }); /* "auto" takes effect at the next start */
	}
	for (size_t i = 0; i < 3; i++) {
		int is_on = strlen(on[i].value) == n && !strncmp(arg + value, on[i].value, n);
		int is_off = strlen(off[i].value) == n && !strncmp(arg + value, off[i].value, n);

		if (strlen(on[i].name) != name || strncmp(arg, on[i].name, name) || (!is_on && !is_off))
			continue;
		if (i == 0)
			ui_mouse(t->ui, is_on);
		else if (i == 1)
			ui_raw(t->ui, is_on);
		else
			ui_open_panel(t->ui, is_on ? "bar" : "off");
	}
	return 1;
}

static int go_inline(struct tui *t, int on, struct err *e)
{
	if (on && t->display && !display_can_flow(t->display))
		return err_set(e, ERR_FAIL, "this terminal cannot move the cursor as inline needs it (TERM)");
	if (ui_is_inline(t->ui) == on)
		ui_say(t->ui, on ? "the conversation is inline already" : "the full screen is open already");
	ui_inline(t->ui, on);
	return 0;
}

static int run_inline(struct tui *t, const char *arg, struct err *e)
{
	(void)arg;
	return go_inline(t, 1, e);
}

static int run_fullscreen(struct tui *t, const char *arg, struct err *e)
{
	(void)arg;
	return go_inline(t, 0, e);
}

static int run_stop(struct tui *t, const char *arg, struct err *e)
{
	(void)arg;
	if (!t->working)
		return err_set(e, ERR_USAGE, "nothing runs that could be stopped; Esc stops an answer");
	/* press Ctrl-C for the user, which also makes queued messages the draft again */
	ui_feed(t->ui, "\003", 1, now_seconds());
	return 0;
}

static int run_tour(struct tui *t, const char *arg, struct err *e)
{
	(void)arg, (void)e;
	tour_begin(t);
	return 0;
}

/* clang-format off */
static const struct screen_slash screen_slashes[] = {
	{"/help", "/?", "[WORD]", "keys and commands, or what of them has the word", BUSY_ALLOWED, ARG_NONE, run_help},
	{"/quit", "/exit /bye /q", "", "end; everything is saved", BUSY_ALLOWED, ARG_NONE, run_quit},
	{"/sessions", "/list", "", "list sessions: switch, rename, fork, delete", BUSY_ALLOWED, ARG_NONE, run_sessions},
	{"/delete", "", "[NAME]", "delete a session, or this one; asks first; /undelete undoes it", BUSY_ALLOWED, ARG_SESSION, run_delete},
	{"/undelete", "", "", "restore the session deleted last, within 10 seconds", BUSY_ALLOWED, ARG_NONE, run_undelete},
	{"/switch", "/resume", "NAME", "continue in another session; this one is saved", BUSY_QUEUED, ARG_SESSION, run_switch},
	{"/docs", "/documents", "[WHERE|all]", "the documents, at 40%, p12 or a word; all: of every session", BUSY_ALLOWED, ARG_WORD, run_docs},
	{"/grep", "", "WORDS", "find words in this conversation", BUSY_ALLOWED, ARG_WORD, run_search},
	{"/copy", "/yank", "[N|code [N]|all]", "copy an answer, a message or a block of code", BUSY_ALLOWED, ARG_WORD, run_copy},
	{"/kv", "/cache", "[off|bar|full|layer N|size|drop|dump FILE]", "show the KV cache; size of the saved KV, or drop it; dump as JSON", BUSY_ALLOWED, ARG_WORD, run_kv},
	{"/editor", "", "[TEXT]", "write the message in $VISUAL or $EDITOR", BUSY_ALLOWED, ARG_NONE, run_editor},
	{"/theme", "", "[dark|light|dusk|paper|mono]", "another colour theme", BUSY_ALLOWED, ARG_WORD, run_theme},
	{"/raw", "", "", "toggle formatted and raw answers", BUSY_ALLOWED, ARG_NONE, run_raw},
	{"/mouse", "", "", "whether weir has the mouse, or the terminal; remembered", BUSY_ALLOWED, ARG_NONE, run_mouse},
	{"/inline", "", "", "the conversation in the terminal's own scrollback", BUSY_ALLOWED, ARG_NONE, run_inline},
	{"/fullscreen", "", "", "the full screen again, after /inline", BUSY_ALLOWED, ARG_NONE, run_fullscreen},
	{"/tour", "", "", "what there is, in five steps; again: end it", BUSY_REFUSED, ARG_NONE, run_tour},
	{"/stop", "", "", "stop the answer and keep it, as Esc does", BUSY_ALLOWED, ARG_NONE, run_stop},
	{"/set", "", "[KEY [VALUE]] [--save]", "show or change a setting; --save: in the config file, too", BUSY_LOOKS, ARG_SETTING, run_set},
	{NULL, NULL, NULL, NULL, BUSY_ALLOWED, ARG_NONE, NULL},
};
/* clang-format on */

static const struct screen_slash *screen_find(const char *word, size_t n)
{
	for (const struct screen_slash *s = screen_slashes; s->name; s++)
		if (slash_named(s->name, s->aliases, word, n))
			return s;
	return NULL;
}

/* The commands that are listed first, the most usual one first. */
static const char *const usual[] = { "/open", "/new",  "/sessions", "/copy",   "/regen", "/model", "/export",
	                             "/help", "/docs", "/drop",     "/source", "/theme", "/stop",  "/quit" };

static void usual_first(struct ui_command *table, size_t n)
{
	for (size_t u = 0; u < LEN(usual); u++)
		for (size_t i = u; i < n; i++)
			if (!strcmp(table[i].name, usual[u])) {
				struct ui_command c = table[i];

				memmove(&table[u + 1], &table[u], (i - u) * sizeof c);
				table[u] = c;
			}
}

static struct ui_command of_screen(const struct screen_slash *s)
{
	return (struct ui_command){
		.name = s->name,
		.aliases = s->aliases,
		.args = s->args,
		.help = s->help,
		.busy = s->busy,
		.arg = s->arg,
		.words = slash_words(s->name),
	};
}

static int is_chats(const char *name)
{
	size_t i = 0;

	for (const struct slash *s; (s = slash_at(i)); i++)
		if (!strcmp(s->name, name))
			return 1;
	return 0;
}

/* Make the table of all commands. `own` has the names of the user's prompt files, which come last; it may be NULL. */
static struct ui_command *command_table(char **own, size_t n_own, const char *roles)
{
	struct ui_command *table;
	size_t n = 0, k = 0;

	while (slash_at(n))
		n++;
	table = xcalloc(n + n_own + LEN(screen_slashes) + 1, sizeof *table);
	for (size_t i = 0; i < n; i++) {
		const struct slash *s = slash_at(i);
		const struct screen_slash *own_of_screen = screen_find(s->name, strlen(s->name));

		table[k++] = own_of_screen ? of_screen(own_of_screen)
		                           : (struct ui_command){
						     .name = s->name,
						     .aliases = s->aliases,
						     .args = s->args,
						     .help = s->help,
						     .busy = s->busy,
						     .arg = s->arg,
						     .words = slash_words(s->name),
					     };
	}
	for (const struct screen_slash *x = screen_slashes; x->name; x++)
		if (!is_chats(x->name))
			table[k++] = of_screen(x);
	usual_first(table, k);
	for (size_t i = 0; i < k && roles; i++)
		if (!strcmp(table[i].name, "/role"))
			table[i].args = roles;
	for (size_t i = 0; i < n_own; i++)
		table[k++] = (struct ui_command){
			.name = own[i],
			.aliases = "",
			.args = "[WORDS]",
			.help = "a prompt of yours",
			.busy = BUSY_QUEUED,
			.arg = ARG_NONE,
			.words = "",
		};
	return table;
}

/* Append the arguments of /role, with '|' between them. */
static void role_values(struct str *out)
{
	char **name;
	size_t n = role_names(&name);

	str_adds(out, "[off");
	for (size_t i = 0; i < n; i++)
		str_addf(out, "|%s", name[i]);
	str_adds(out, "]");
	user_prompts_free(name, n);
}

/* Append the values of /set encoder, with '|' between them. */
static void encoder_values(struct str *out)
{
	struct model_file *file;
	size_t n = encoder_files(&file);

	str_adds(out, "auto|off");
	for (size_t i = 0; i < n; i++)
		str_addf(out, "|%s", file[i].name);
	model_files_free(file, n);
}

/* Make the table of the options that /set accepts. `encoders` has the values of the setting `encoder`. */
static struct ui_setting *setting_table(const char *encoders)
{
	struct ui_setting *table;
	size_t n = 0, k = 0;

	while (option_defs[n].name)
		n++;
	table = xcalloc(n + 1, sizeof *table);
	for (const struct option_def *d = option_defs; d->name; d++)
		if (d->flags & OPT_SET)
			table[k++] = (struct ui_setting){
				.name = !strcmp(d->name, "predict") ? "n" : d->name,
				.values = d->type == OPT_CHOICE         ? d->arg
				          : !strcmp(d->name, "encoder") ? encoders
				                                        : "",
				.help = d->help,
			};
	return table;
}

void tui_commands(struct tui *t)
{
	t->n_prompt = user_prompts(&t->prompts);
	role_values(&t->roles);
	t->commands = command_table(t->prompts, t->n_prompt, t->roles.p);
	encoder_values(&t->encoders);
	t->settings = setting_table(t->encoders.p);
}

void tui_look(struct tui *t)
{
	const struct options *o = &t->chat->o;

	if (strcmp(o->theme, "auto") != 0)
		ui_theme(t->ui, o->theme, &(struct err){ 0 });
	if (!strcmp(o->mouse, "on"))
		ui_mouse(t->ui, 1);
	if (!strcmp(o->answers, "raw"))
		ui_raw(t->ui, 1);
	if (!strcmp(o->panel, "on"))
		ui_open_panel(t->ui, "bar");
}

void tui_help(struct str *out)
{
	struct ui_command *table = command_table(NULL, 0, NULL);

	ui_help_text(table, out);
	free(table);
}

static int is_unknown(const struct tui *t, const char *word, size_t n, struct err *e)
{
	struct nearest near;
	struct str others = { 0 };

	if (user_prompt_is(word, n))
		return 0;
	slash_near_init(&near, word, n);
	for (const struct ui_command *c = t->commands; c->name; c++) {
		if (slash_is(c->name, c->aliases, word, n) || slash_is("", c->words, word, n)) {
			str_free(&others);
			return 0;
		}
		slash_near(&near, c->name, c->words, &others);
	}
	slash_unknown(&near, &others, e);
	return 1;
}

/* 1 if the text is a command that shows something and changes nothing. */
static int only_looks(const struct tui *t, const struct str *text)
{
	size_t word = strcspn(text->p, " \t\r\n"), words = word + strspn(text->p + word, " \t\r\n");

	for (const struct ui_command *c = t->commands; c->name; c++)
		if (slash_named(c->name, c->aliases, text->p, word))
			return c->busy == BUSY_ALLOWED || (c->busy == BUSY_LOOKS && words == text->n);
	return 0;
}

void tui_take(struct tui *t, struct str *text)
{
	size_t n = text->n ? strcspn(text->p, " \t\n") : 0;
	const struct screen_slash *s = n && text->p[0] == '/' && text->p[1] != '/' ? screen_find(text->p, n) : NULL;
	struct err e = { 0 };
	char *arg;

	/* Report an unknown command here, not in the worker: the worker does not know the screen's commands, so it
	 * would suggest a wrong command. */
	if (n && !s && text->p[0] == '/' && text->p[1] != '/' && !chat_is_path(text->p) &&
	    is_unknown(t, text->p, n, &e))
		;
	else if (s) {
		arg = text->p + n + strspn(text->p + n, " \t\n");
		for (size_t end = strlen(arg); end && strchr(" \t\r\n", arg[end - 1]);)
			arg[--end] = 0;
		if (*arg && !*s->args)
			err_set(&e, ERR_USAGE, "%s takes no words after it; //TEXT sends a slash", s->name);
		else if (s->run(t, arg, &e) == 1)
			s = NULL;
	}
	if (!e.code && !s) {
		/* A command that only shows something becomes a JOB_LOOK, so that it need not wait for the end of the
		 * current answer. */
		worker_do(t->worker, t->working && only_looks(t, text) ? JOB_LOOK : JOB_LINE, 0, text->p, text->n);
		return;
	}
	if (e.code && t->working) {
		log_add(e.msg, strlen(e.msg));
		/* the current answer must stay at the end of the transcript, so show the error in the status row
		 * instead */
		ui_say(t->ui, e.msg);
	} else if (e.code) {
		log_add(e.msg, strlen(e.msg));
		ui_entry(t->ui, UI_ERROR, e.msg, strlen(e.msg));
		ui_entry_end(t->ui, NULL);
	}
	if (!t->working)
		ui_work(t->ui, NULL); /* nothing runs, so the next message is sent at once */
}
