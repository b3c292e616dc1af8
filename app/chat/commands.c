/* app/chat/commands.c - the table of commands, and how a typed command is found in it. */
#include "app/chat/chat_private.h"

#include <stdio.h>
#include <string.h>

/* Ordered by frequency of use, because lists and completion show this order. */
/* clang-format off */
static const struct slash commands[] = {
	{"/open", "/file /load /add", "FILE", "add a document, or those of a folder or pattern, to ask about", BUSY_QUEUED, ARG_FILE, slash_open},
	{"/docs", "/documents", "[all]", "the documents, numbered, and what other sessions have read", BUSY_QUEUED, ARG_NONE, slash_docs},
	{"/source", "", "[N]", "show source N of the last answer: the passage in its document", BUSY_QUEUED, ARG_NONE, slash_source},
	{"/summarize", "/summarise /summary", "[DOCUMENT] [WORDS]", "summarize a document of any length, or all; it becomes no message", BUSY_QUEUED, ARG_WORD, slash_summarize},
	{"/new", "/clear", "", "start anew without the messages; documents stay", BUSY_QUEUED, ARG_NONE, slash_new},
	{"/sessions", "/list", "", "the sessions, the one used last first", BUSY_QUEUED, ARG_NONE, slash_sessions},
	{"/regen", "/retry /regenerate", "", "answer the last question again", BUSY_QUEUED, ARG_NONE, slash_regen},
	{"/help", "/?", "[WORD]", "this list, or what in it has the word", BUSY_ALLOWED, ARG_NONE, slash_help},
	{"/continue", "/go", "", "continue an answer that was stopped or cut", BUSY_QUEUED, ARG_NONE, slash_continue},
	{"/edit", "", "[TEXT|N]", "ask TEXT in place of the last question, or edit that of N turns ago", BUSY_QUEUED, ARG_NONE, slash_edit},
	{"/undo", "", "[N]", "undo the last turn, or the last N", BUSY_QUEUED, ARG_NONE, slash_undo},
	{"/redo", "", "[N]", "restore what /undo or /drop undid", BUSY_QUEUED, ARG_NONE, slash_redo},
	{"/anyway", "", "", "answer the last question although nothing in the documents answers it", BUSY_QUEUED, ARG_NONE, slash_anyway},
	{"/variant", "/variants", "[N|next|previous]", "show another answer to that question, or what was asked in its place", BUSY_QUEUED, ARG_NONE, slash_variant},
	{"/outline", "", "[DOCUMENT]", "the headings of the documents, numbered, with their pages", BUSY_QUEUED, ARG_WORD, slash_outline},
	{"/goto", "", "[DOCUMENT] PLACE", "show a document at a page, a heading or its number, 40% or words", BUSY_QUEUED, ARG_WORD, slash_goto},
	{"/drop", "", "[N|NAME]", "take document N out of the conversation", BUSY_QUEUED, ARG_WORD, slash_drop},
	{"/pin", "", "[N|N-M]", "never evict message N: it joins the documents", BUSY_QUEUED, ARG_WORD, slash_pin},
	{"/set", "", "[KEY [VALUE]] [--save]", "show or change a setting; --save: in the config file, too", BUSY_LOOKS, ARG_WORD, slash_set},
	{"/system", "", "[TEXT]", "show or set the system prompt (\"\": the template's own)", BUSY_LOOKS, ARG_NONE, slash_system},
	{"/role", "/roles", "[NAME [WORDS]|off]", "the roles, or take one: its system prompt and settings, from a file", BUSY_QUEUED, ARG_WORD, slash_role},
	{"/model", "", "[FILE|URL]", "show the model, or change it; a server's by its address", BUSY_REFUSED, ARG_FILE, slash_model},
	{"/think", "", "[on|off|show|hide]", "whether the model reasons first, and whether its reasoning is shown", BUSY_LOOKS, ARG_WORD, slash_think},
	{"/stats", "/status /tokens /context", "", "tokens, context, speed and memory", BUSY_ALLOWED, ARG_NONE, slash_stats},
	{"/find", "/search", "WORDS", "find words in everything that was said", BUSY_ALLOWED, ARG_NONE, slash_find},
	{"/export", "", "[md|json|txt] [FILE]", "this session as Markdown, JSON or text, by the file's ending", BUSY_QUEUED, ARG_FILE, slash_export},
	{"/switch", "/resume", "NAME", "continue in another session; this one is saved", BUSY_QUEUED, ARG_SESSION, slash_switch},
	{"/rename", "/name", "NAME", "give this session a name", BUSY_QUEUED, ARG_NONE, slash_rename},
	{"/fork", "/branch", "[NAME]", "continue in a second session with what was said so far", BUSY_QUEUED, ARG_NONE, slash_fork},
	{"/save", "", "[NAME]", "show saved state; NAME renames", BUSY_LOOKS, ARG_NONE, slash_save},
	{"/remember", "", "[TEXT]", "remember TEXT, or what you said last, in all conversations", BUSY_QUEUED, ARG_NONE, slash_remember},
	{"/memory", "/facts", "[on|off|edit N|forget N]", "what is remembered: list, change or forget it, or switch it off", BUSY_QUEUED, ARG_WORD, slash_memory},
	{"/stream", "", "FILE", "read a text of any length and format; questions stand beside it until it ends", BUSY_QUEUED, ARG_FILE, slash_stream},
	{"/pause", "", "", "pause the reading, as Esc and Ctrl-C do", BUSY_QUEUED, ARG_NONE, slash_pause},
	{"/more", "/on", "", "read on where it was paused, as if nothing had been asked", BUSY_QUEUED, ARG_NONE, slash_on},
	{"/run", "", "[always]", "run the shell command that !COMMAND proposed; always: that program at once from now on", BUSY_QUEUED, ARG_WORD, slash_run_command},
	{"/editor", "", "[TEXT]", "write the message in $VISUAL or $EDITOR", BUSY_QUEUED, ARG_NONE, slash_editor},
	{"/kv", "/cache", "[size|drop|dump FILE]", "what the saved cache of this session takes; drop it; the live one as JSON", BUSY_QUEUED, ARG_WORD, slash_kv},
	{"/log", "", "[N]", "what weir itself has said, with the time", BUSY_ALLOWED, ARG_NONE, slash_log},
	{"/delete", "", "[NAME]", "delete a session, or this one; asks first, and can be undone for 10 seconds", BUSY_QUEUED, ARG_SESSION, slash_delete},
	{"/undelete", "", "", "restore the session that was deleted last, within 10 seconds", BUSY_ALLOWED, ARG_NONE, slash_undelete},
	{"/quit", "/exit /bye /q", "", "end", BUSY_QUEUED, ARG_NONE, slash_quit},
};
/* clang-format on */

/* Synonyms of the commands: completion, the palette and /help find a command by them. A synonym that begins with a
 * slash also runs the command, so it must belong to one command only. */
static const struct {
	const char *name, *words;
} synonyms[] = {
	{ "/open", "/read /attach /upload /import pdf document folder insert" },
	{ "/source", "/sources citation cite evidence reference where" },
	{ "/summarize", "abstract overview" },
	{ "/new", "reset restart forget" },
	{ "/sessions", "/history chats conversations old previous" },
	{ "/regen", "again another" },
	{ "/undo", "forget back remove" },
	{ "/drop", "remove forget close detach" },
	{ "/delete", "remove forget erase" },
	{ "/set", "/settings options config preferences temperature" },
	{ "/model", "/models llm download pull" },
	{ "/role", "persona template prompts agent" },
	{ "/run", "shell allow always" },
	{ "/think", "thinking reasoning" },
	{ "/stats", "gpu device usage" },
	{ "/kv", "forgot context" },
	{ "/remember", "keep note fact learn" },
	{ "/memory", "remembered forget notes profile" },
	{ "/switch", "old previous" },
	{ "/export", "save download write print share" },
	{ "/help", "keys shortcuts manual" },
	{ "/quit", "leave close" },
	{ "/copy", "clipboard" },
	{ "/theme", "/color /colors /colour /colours dark light" },
	{ "/grep", "search" },
	{ "/mouse", "click select" },
	{ "/tour", "tutorial introduction" },
	{ "/inline", "scrollback screen select" },
	{ "/fullscreen", "screen alternate" },
	{ "/stop", "/cancel interrupt abort" },
};

const char *slash_words(const char *name)
{
	for (size_t i = 0; i < LEN(synonyms); i++)
		if (!strcmp(synonyms[i].name, name))
			return synonyms[i].words;
	return "";
}

const struct slash *slash_at(size_t i)
{
	return i < LEN(commands) ? &commands[i] : NULL;
}

/* 1 if `word`, the argument of /help, is empty or occurs in the command's help line or its synonyms. */
static int has_word(const char *line, const char *words, const char *word)
{
	return !*word || strcasestr(line, word) || strcasestr(words, word);
}

static void help_line(struct str *out, const char *line, const char *words, const char *word)
{
	if (has_word(line, words, word))
		str_addf(out, "%s%s", out->n ? "\n" : "", line);
}

void slash_help(struct chat *c, char *arg)
{
	static const char *const more[] = {
		"!COMMAND           run a shell command, the first time after /run; what it prints becomes a document",
		"//TEXT             a message that begins with a slash",
		"@FILE in a message: that file becomes a document first",
		"TEXT\\              a backslash at the end: the message continues in the next line; Alt-Enter breaks the line",
		"\"\"\"TEXT\"\"\"         everything up to the closing quotes is one message",
		"Keys: Ctrl-C stops the answer and keeps it; at the prompt it clears the line. Ctrl-D quits. Ctrl-G: the line in $EDITOR.",
	};
	const char *word = arg + (*arg == '/');
	struct str s = { 0 }, line = { 0 };
	size_t i = 0, n;
	char **name;

	for (const struct slash *d; (d = slash_at(i)); i++) {
		char head[60];

		snprintf(head, sizeof head, "%s%s%s", d->name, *d->args ? " " : "", d->args);
		str_clear(&line);
		str_addf(&line, "%-18s %s", head, d->help);
		if (*d->aliases)
			str_addf(&line, " (also %s)", d->aliases);
		help_line(&s, line.p, slash_words(d->name), word);
	}
	n = user_prompts(&name);
	for (i = 0; i < n; i++) {
		str_clear(&line);
		str_addf(&line, "%-18s a prompt of yours, from the folder prompts beside the config file", name[i]);
		help_line(&s, line.p, "", word);
	}
	user_prompts_free(name, n);
	for (i = 0; i < LEN(more); i++)
		help_line(&s, more[i], "", word);
	if (s.n)
		notice(c, "%s", s.p);
	else
		notice(c, "[no command and no key has '%.60s'; /help lists all, 'man weir' says more]", word);
	str_free(&s);
	str_free(&line);
}

int slash_is(const char *name, const char *aliases, const char *word, size_t len)
{
	if (strlen(name) == len && !memcmp(name, word, len))
		return 1;
	for (const char *p = aliases; *p; p += strspn(p, " ")) {
		size_t n = strcspn(p, " ");
		if (n == len && !memcmp(p, word, n))
			return 1;
		p += n;
	}
	return 0;
}

int slash_named(const char *name, const char *aliases, const char *word, size_t n)
{
	return n > 1 && word[0] == '/' && word[1] != '/' &&
	       (slash_is(name, aliases, word, n) ||
	        (slash_is("", slash_words(name), word, n) && !user_prompt_is(word, n)));
}

void slash_near_init(struct nearest *near, const char *word, size_t n)
{
	nearest_init(near, word, n);
	near->dist = (int)n / 4 + 2; /* with a larger maximum distance, any word would be similar to many commands */
}

/* Compare a command with the typed word. The distance is 0 if the command's name begins with the word. It is also 0 if
 * the word is one of the command's synonyms (`words`). If several commands have distance 0, append the names of all of
 * them but the last to `others`. */
void slash_near(struct nearest *near, const char *name, const char *words, struct str *others)
{
	if ((near->len > 2 && !strncmp(near->word, name, near->len)) ||
	    (near->len > 1 && slash_is("", words, near->word + 1, near->len - 1))) {
		if (near->best && !near->dist)
			str_addf(others, "%s%s", others->n ? ", " : "", near->best);
		near->best = name;
		near->dist = 0;
	} else {
		nearest_try(near, name);
	}
}

int slash_unknown(const struct nearest *near, struct str *others, struct err *e)
{
	if (others->n)
		err_set(e, ERR_USAGE, "unknown command '%.*s'; is it %s or %s? /help lists them",
		        (int)MIN(near->len, 40), near->word, others->p, near->best);
	else if (near->best)
		err_set(e, ERR_USAGE, "unknown command '%.*s'; is it %s?", (int)MIN(near->len, 40), near->word,
		        near->best);
	else
		err_set(e, ERR_USAGE, "unknown command '%.*s'; /help lists them, //TEXT sends a slash",
		        (int)MIN(near->len, 40), near->word);
	str_free(others);
	return -1;
}

/* Commands that exist only on the full screen, which runs them itself (app/tui/screen_commands.c). */
static const char of_screen[] = "/grep /copy /yank /theme /raw /mouse /inline /fullscreen /tour /stop";

void slash_run(struct chat *c, char *text)
{
	size_t n = strcspn(text, " \t\n");
	char *arg = text + n + strspn(text + n, " \t\n");
	struct nearest near;
	struct str others = { 0 };
	struct err e = { 0 };
	size_t i = 0;

	for (size_t end = strlen(arg); end && strchr(" \t\r\n", arg[end - 1]);)
		arg[--end] = 0;
	for (const struct slash *d; (d = slash_at(i)); i++)
		if (slash_named(d->name, d->aliases, text, n)) {
			/* A command without arguments must not ignore them: `/new idea for a story` is meant as a
			 * message and must not clear the conversation. */
			if (*arg && !*d->args)
				err_set(&e, ERR_USAGE, "%s takes no words after it; //TEXT sends a slash", d->name);
			else
				d->run(c, arg);
			if (e.code)
				chat_error(c, &e);
			return;
		}
	if (user_prompt_is(text, n)) {
		struct str message = { 0 };

		if (user_prompt_text(text, n, arg, &message, &e) < 0)
			chat_error(c, &e);
		else
			chat_turn(c, message.p, message.n);
		str_free(&message);
		return;
	}
	text[n] = 0;
	if (slash_is("", of_screen, text, n)) {
		err_set(&e, ERR_USAGE,
		        "%s is a command of the full screen, which weir shows at a terminal without --line", text);
		chat_error(c, &e);
		return;
	}
	slash_near_init(&near, text, n);
	i = 0;
	for (const struct slash *d; (d = slash_at(i)); i++)
		slash_near(&near, d->name, slash_words(d->name), &others);
	slash_unknown(&near, &others, &e);
	chat_error(c, &e);
}
