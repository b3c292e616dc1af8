/* app/chat/shell_command.c - shell commands whose output becomes a document: !COMMAND and /run.
 *
 * A command that is not allowed yet is only proposed; /run runs it once. `/run always` runs the command and allows it
 * from now on. If the shell runs a single program for the command, this program is allowed with any arguments.
 * Otherwise exactly this command line is allowed. The file `commands` beside the config file lists the allowed programs
 * and command lines, one per line. */
#include "app/chat/chat_private.h"
#include "engine/base/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ALLOWED_MOST = 1 << 16, SECONDS_MOST = 60, SHOWN = 300 };

/* ---- what is allowed ---- */

/* Return the length of the program's name if the command runs a single program and nothing else; otherwise return 0. */
static size_t program_length(const char *command)
{
	size_t n = 0;

	while (byte_is_alnum(command[n]) || (command[n] && strchr("-_./+", command[n])))
		n++;
	return (command[n] && !strchr(" \t", command[n])) || strpbrk(command, ";&|<>()$`\\\n\r") ? 0 : n;
}

/* 1 if the list of allowed lines has the first n bytes of text as a line. */
static int has_line(const struct str *list, const char *text, size_t n)
{
	for (const char *at = str_text(list); *at; at += strcspn(at, "\n") + (at[strcspn(at, "\n")] != 0))
		if (strcspn(at, "\n") == n && !memcmp(at, text, n))
			return 1;
	return 0;
}

/* Read the file that lists the allowed commands: append its path to `path` and its text to `list`. If the file cannot
 * be read, no command is allowed. */
static void allowed_read(struct str *path, struct str *list)
{
	struct err none = { 0 };

	if (user_path(path, DIR_CONFIG, "commands", NULL) || access(path->p, R_OK) ||
	    read_whole(path->p, ALLOWED_MOST, list, &none) < 0)
		str_clear(list);
}

static int is_allowed(const char *command)
{
	struct str path = { 0 }, list = { 0 };
	size_t program = program_length(command);
	int allowed;

	allowed_read(&path, &list);
	allowed = has_line(&list, command, strlen(command)) || (program && has_line(&list, command, program));
	str_free(&path);
	str_free(&list);
	return allowed;
}

/* Add the command to the list, and tell the user. */
static void allow(struct chat *c, const char *command)
{
	struct str path = { 0 }, list = { 0 };
	size_t program = program_length(command), n = program ? program : strlen(command);
	struct err e = { 0 };
	int fd = -1;

	if (c->o.private_talk)
		err_set(&e, ERR_USAGE, "a private conversation keeps no settings: /run alone runs the command");
	else if (strpbrk(command, "\n\r"))
		err_set(&e, ERR_USAGE, "only a command of one line can be allowed: /run alone runs it");
	else
		allowed_read(&path, &list);
	if (!e.code && !has_line(&list, command, n)) {
		str_clear(&list);
		str_addf(&list, "%.*s\n", (int)n, command);
		if (!path.n || make_parents(path.p) ||
		    (fd = open(path.p, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)) < 0 ||
		    write_all(fd, list.p, list.n))
			err_set(&e, ERR_FAIL, "cannot write '%.200s': %s", str_text(&path), strerror(errno));
	}
	if (fd >= 0)
		close(fd);
	if (e.code)
		chat_error(c, &e);
	else
		notice(c, "[!%.*s%s runs at once from now on: it is a line of %s]", (int)MIN(n, (size_t)SHOWN), command,
		       program ? " ..." : "", path.p);
	str_free(&path);
	str_free(&list);
}

/* ---- running ---- */

/* Run the command; what it prints becomes a document. Returns 0, or -1 if it could not be run. */
static int command_run(struct chat *c, const char *command)
{
	struct str out = { 0 }, name = { 0 };
	struct err e = { 0 };
	size_t before = c->conv.n_doc;
	int status = 0, rc;

	signals_work(1);
	rc = external_run(command, DOC_BYTES_MAX, SECONDS_MOST, &out, &status, &e);
	signals_work(0);
	/* Name the document after the command. Of a name with slashes, only the part after the last slash would be
	 * used. So replace each slash by U+2044, the fraction slash. */
	str_adds(&name, "$ ");
	for (const char *p = command; *p && name.n < 60; p++)
		str_addf(&name, *p == '/' ? "\xe2\x81\x84" : "%c", *p);
	if (rc < 0)
		chat_error(c, &e);
	else if (!out.n)
		notice(c,
		       rc ? "[stopped after %d seconds; it had printed nothing]"
		          : "[it printed nothing; exit status %d]",
		       rc ? SECONDS_MOST : status);
	else if (chat_document_bytes(c, name.p, out.p, out.n, &e) < 0)
		chat_error(c, &e);
	else if (rc)
		notice(c, "[stopped after %d seconds; what it had printed is a document]", SECONDS_MOST);
	else if (status)
		notice(c, "[exit status %d; what it printed is a document]", status);
	documents_prefill(c, before);
	str_free(&out);
	str_free(&name);
	return rc < 0 ? -1 : 0;
}

void command_typed(struct chat *c, const char *command, size_t n)
{
	while (n && strchr(" \t\r\n", command[n - 1]))
		n--;
	while (n && strchr(" \t", *command))
		command++, n--;
	str_clear(&c->proposed);
	str_add(&c->proposed, command, n);
	if (!n) {
		notice(c,
		       "!COMMAND runs a shell command, whose output becomes a document; the first time it asks for /run");
		return;
	}
	if (is_allowed(c->proposed.p)) {
		command_run(c, c->proposed.p);
		str_clear(&c->proposed);
		return;
	}
	n = program_length(c->proposed.p);
	notice(c,
	       "[nothing has run yet: /run runs  %.*s  and adds what it prints as a document; /run always lets  !%.*s%s  run at once from now on]",
	       SHOWN, c->proposed.p, n ? (int)MIN(n, (size_t)SHOWN) : SHOWN, c->proposed.p, n ? " ..." : "");
}

void slash_run_command(struct chat *c, char *arg)
{
	struct err e = { 0 };

	if (!c->proposed.n)
		err_set(&e, ERR_USAGE, "no command was proposed: !COMMAND proposes one");
	else if (*arg && strcmp(arg, "always") != 0)
		err_set(&e, ERR_USAGE, "/run takes the word 'always' or none, not '%.40s'; !COMMAND proposes a command",
		        arg);
	if (e.code) {
		chat_error(c, &e);
		return;
	}
	if (*arg)
		allow(c, c->proposed.p);
	if (command_run(c, c->proposed.p) == 0)
		str_clear(&c->proposed);
}
