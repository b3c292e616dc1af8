/* app/chat/chat.c - opens and closes a chat, and runs what the user typed (chat.h). */
#include "app/chat/chat_private.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- what the user typed ---- */

/* Append the line without the blanks at its ends. Many terminals write a blank behind the path of a dragged file. */
static void add_bare(struct str *out, const char *text)
{
	size_t n;

	text += strspn(text, " \t\r\n");
	for (n = strlen(text); n && strchr(" \t\r\n", text[n - 1]);)
		n--;
	str_add(out, text, n);
}

int chat_is_path(const char *text)
{
	struct str bare = { 0 }, path = { 0 };
	int is = 0;

	add_bare(&bare, text);
	if (bare.n && strchr("/~'\"", bare.p[0])) {
		unquote(bare.p, &path);
		is = path.n && path.p[0] == '/' && strchr(path.p + 1, '/') && !access(path.p, F_OK);
	}
	str_free(&bare);
	str_free(&path);
	return is;
}

/* If the line was probably meant as a command, put this command into the input line, so that Enter runs it, and return
 * 1. There are two such cases: the path of a file, which a terminal writes when the file is dragged into it; and words
 * like "exit" and "help", which are commands of other programs. */
static int draft_meant(struct chat *c, const char *text)
{
	static const char *const meant[][2] = {
		{ "?", "/help" }, { "help", "/help" }, { "quit", "/quit" }, { "exit", "/quit" }
	};
	struct str draft = { 0 }, bare = { 0 };
	int is;

	if (!c->interactive || !c->front->draft)
		return 0;
	add_bare(&bare, text);
	if (chat_is_path(text)) {
		str_addf(&draft, "/open %s", bare.p);
		notice(c, "[this is a file or folder: Enter opens it]");
	}
	for (size_t i = 0; i < LEN(meant); i++)
		if (!strcmp(str_text(&bare), meant[i][0])) {
			str_adds(&draft, meant[i][1]);
			notice(c, "[Enter runs %s; with a full stop '%s.' is a message]", draft.p, bare.p);
		}
	is = draft.n > 0;
	if (is)
		c->front->draft(c, draft.p, draft.n);
	str_free(&bare);
	str_free(&draft);
	return is;
}

void chat_take(struct chat *c, struct str *text)
{
	size_t at = 0;

	while (at < text->n && strchr(" \t\r\n", text->p[at]))
		at++;
	if (at == text->n)
		return;
	if (text->p[0] == '/' && text->n > 1 && text->p[1] == '/') {
		chat_turn(c, text->p + 1, text->n - 1);
	} else if (draft_meant(c, text->p)) {
		return;
	} else if (text->p[0] == '/') {
		slash_run(c, text->p);
	} else if (text->p[0] == '!' && c->interactive) {
		command_typed(c, text->p + 1, text->n - 1);
	} else if (!c->interactive || attach_files(c, text) == 0) { /* only a user's @FILE is read, not a script's */
		chat_turn(c, text->p, text->n);
	}
}

/* ---- opening ---- */

void chat_banner(struct chat *c)
{
	struct timeline_stats st;
	struct str name = { 0 };

	conversation_stats(&c->conv, &st);
	chat_model_name(c, &name);
	if (st.ctx)
		notice(c, "weir %s: %.140s, context of %s tokens", WEIR_VERSION, str_text(&name),
		       count_text((uint64_t)st.ctx).s);
	else
		notice(c, "weir %s: %.140s", WEIR_VERSION, str_text(&name));
	str_free(&name);
}

/* Refuse a command line whose first word was not meant as a file. Examples: `weir benhc` is a mistyped command; `weir
 * why is it so` is a question without --prompt. Returns 0 if the first word may be a file, else -1. */
static int mistyped_command(const struct options *o, struct err *e)
{
	char name[32];
	struct nearest near;
	const char *word = o->n_file ? o->file[0] : "-";
	int words = 0;

	if (strchr(word, '/') || !strcmp(word, "-") || access(word, F_OK) == 0)
		return 0;
	for (int i = 0; i < o->n_file && !strpbrk(o->file[i], "./*[") && access(o->file[i], F_OK); i++)
		words = i + 1;
	if ((strchr(word, ' ') && words == o->n_file) || words > 2)
		return err_set(e, ERR_DOCUMENT, "there is no document '%.60s'; to ask a question: weir -p '%.60s%s'",
		               word, word, words > 1 ? " ..." : "");
	nearest_init(&near, word, strlen(word));
	for (const struct command_def *c = command_defs; c->name; c++) {
		snprintf(name, sizeof name, "%.*s", (int)strcspn(c->name, " "), c->name);
		near.best = NULL;
		nearest_try(&near, name);
		if (near.best)
			return err_set(e, ERR_DOCUMENT, "there is no document '%.60s'; is it the command '%s'?", word,
			               name);
	}
	return 0;
}

/* Open the documents of the command line. With `weir -`, standard input is a document. After it is read, standard input
 * becomes the terminal, so that the user can type. */
static int open_documents(struct chat *c, struct err *e)
{
	int dash = 0, fd, reads = c->o.command == CMD_READ;

	if (reads && !c->o.n_file)
		return err_set(e, ERR_USAGE, "'weir read' wants a file, or - for standard input");
	doc_stop_when(signals_stopped);
	for (int i = 0; i < c->o.n_file; i++) {
		dash |= !strcmp(c->o.file[i], "-");
		if (reads ? chat_stream_open(c, c->o.file[i], e) < 0 : chat_documents(c, c->o.file[i], e) < 0) {
			if (e->code == ERR_CANCELLED)
				say("%s", e->msg);
			return -1;
		}
	}
	if (c->o.prompt)
		return !reads && !dash && !isatty(0) ? document_from_stdin(c, e) : 0;
	if (!dash)
		return 0;
	fd = open("/dev/tty", O_RDWR);
	if (fd < 0 || dup2(fd, 0) < 0)
		return err_set(e, ERR_USAGE,
		               "standard input was the text and there is no terminal to ask at; give -p TEXT");
	close(fd);
	return 0;
}

int chat_open(struct chat *c, struct options *o, struct str *note, struct err *e)
{
	struct progress progress;
	struct str role = { 0 };
	int rc;

	c->o = *o;
	if ((o->command == CMD_CHAT && mistyped_command(o, e) < 0) || session_log_open(&c->log, &c->o, e) < 0 ||
	    (o->role && role_apply(c, o->role, 1, &role, e) < 0) ||
	    conversation_open(&c->conv, &c->o, chat_on_event, c, e) < 0) {
		str_free(&role);
		return -1;
	}
	retrieval_join(&c->conv);
	stream_join(&c->conv);
	document_search_attach(c);
	message_search_attach(c);
	memory_attach(c);
	progress_begin(&progress, c->o.quiet || !c->log || !c->log->session, "restoring the session");
	rc = session_log_resume(c->log, &c->conv, note, e);
	progress_clear(&progress);
	if (rc >= 0 && o->role) {
		/* these settings come from the role, so store them in the session */
		conversation_options_changed(&c->conv, 0);
		if (!o->quiet)
			say("%s", str_text(&role));
	}
	str_free(&role);
	if (rc < 0)
		return -1;
	c->n_came_back = c->conv.n_msg;
	if (open_documents(c, e) < 0)
		return -1;
	return 0;
}

void chat_close(struct chat *c, struct options *o)
{
	chat_stream_close(c);
	chat_delete_due(c, 1);
	document_search_close(c);
	summaries_free(c);
	message_search_close(c);
	session_log_close(c->log);
	conversation_close(&c->conv);
	reasoning_free(&c->think);
	str_free(&c->recognising);
	str_free(&c->shown);
	str_free(&c->not_found);
	str_free(&c->proposed);
	str_free(&c->role);
	str_free(&c->frame);
	options_take_back(o, &c->o);
}
