/* app/chat/prompts.c - the user's prompt files, and shell commands whose output becomes a document.
 *
 * The file ~/.config/weir/prompts/NAME.md defines the command /NAME, which sends the file's text as a message. The
 * words after the command replace each {} in the text; a text without {} gets them at its end. */
#include "app/chat/chat_private.h"
#include "engine/base/utf8.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PROMPT_MOST = 1 << 20, NAME_MOST = 40 };
static const char ending[] = ".md";

/* 1 if the name has only ASCII letters, digits, - and _. Such a name cannot lead to another folder. */
static int name_ok(const char *name, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!byte_is_alnum(name[i]) && !strchr("-_", name[i]))
			return 0;
	return n > 0 && n <= NAME_MOST;
}

/* Append the path of the prompt file NAME.md. Returns 1 if it can be read, else 0. */
static int prompt_path(const char *name, size_t n, struct str *path)
{
	char file[NAME_MOST + 20];

	if (!name_ok(name, n))
		return 0;
	snprintf(file, sizeof file, "prompts/%.*s%s", (int)n, name, ending);
	return !user_path(path, DIR_CONFIG, file, NULL) && !access(path->p, R_OK);
}

int user_prompt_is(const char *word, size_t n)
{
	struct str path = { 0 };
	int there = n > 1 && word[0] == '/' && prompt_path(word + 1, n - 1, &path);

	str_free(&path);
	return there;
}

int user_prompt_text(const char *word, size_t n, const char *arg, struct str *out, struct err *e)
{
	struct str path = { 0 }, text = { 0 };
	const char *at, *hole;
	int rc = 0;

	if (n < 2 || !prompt_path(word + 1, n - 1, &path) || read_whole(path.p, PROMPT_MOST, &text, e) < 0) {
		rc = -1;
	} else {
		while (text.n && strchr(" \t\r\n", text.p[text.n - 1]))
			text.p[--text.n] = 0;
		for (at = str_text(&text); (hole = strstr(at, "{}")); at = hole + 2) {
			str_add(out, at, (size_t)(hole - at));
			str_adds(out, arg);
		}
		str_adds(out, at);
		if (text.n && at == text.p && *arg)
			str_addf(out, "\n\n%s", arg);
		if (!out->n)
			rc = err_set(e, ERR_USAGE, "the prompt '%.200s' is empty", path.p);
	}
	str_free(&path);
	str_free(&text);
	return rc;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

size_t user_prompts(char ***out)
{
	struct str path = { 0 };
	DIR *d = user_path(&path, DIR_CONFIG, "prompts", NULL) ? NULL : opendir(path.p);
	char **name = NULL;
	size_t count = 0;

	for (struct dirent *f; d && (f = readdir(d));) {
		size_t n = strlen(f->d_name), end = sizeof ending - 1;

		if (n <= end || strcmp(f->d_name + n - end, ending) != 0 || !name_ok(f->d_name, n - end))
			continue;
		name = xrealloc(name, (count + 1) * sizeof *name);
		name[count] = xcalloc(n - end + 2, 1);
		name[count][0] = '/';
		memcpy(name[count++] + 1, f->d_name, n - end);
	}
	if (d)
		closedir(d);
	if (count)
		qsort(name, count, sizeof *name, by_name);
	str_free(&path);
	*out = name;
	return count;
}

void user_prompts_free(char **name, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(name[i]);
	free(name);
}

/* ---- the output of a shell command ---- */

void command_propose(struct chat *c, const char *command, size_t n)
{
	while (n && strchr(" \t\r\n", command[n - 1]))
		n--;
	while (n && strchr(" \t", *command))
		command++, n--;
	str_clear(&c->proposed);
	str_add(&c->proposed, command, n);
	if (!n)
		notice(c, "!COMMAND proposes a shell command, whose output becomes a document");
	else
		notice(c, "[nothing has run yet: /run runs  %.*s  and adds what it prints as a document]",
		       n < 300 ? (int)n : 300, command);
}

void slash_run_command(struct chat *c, char *arg)
{
	struct str out = { 0 }, name = { 0 };
	struct err e = { 0 };
	size_t before = c->conv.n_doc;
	int status = 0, rc;

	(void)arg;
	if (!c->proposed.n) {
		err_set(&e, ERR_USAGE, "no command was proposed: !COMMAND proposes one");
		chat_error(c, &e);
		return;
	}
	signals_work(1);
	rc = external_run(c->proposed.p, DOC_BYTES_MAX, &out, &status, &e);
	signals_work(0);
	/* Name the document after the command. A document's name is the last part of a path, so a slash in the command
	 * would cut the name: replace each slash by U+2044, the fraction slash. */
	str_adds(&name, "$ ");
	for (const char *p = c->proposed.p; *p && name.n < 60; p++)
		str_addf(&name, *p == '/' ? "\xe2\x81\x84" : "%c", *p);
	if (rc < 0)
		chat_error(c, &e);
	else if (!out.n)
		notice(c, "[it printed nothing; exit status %d]", status);
	else if (chat_document_bytes(c, name.p, out.p, out.n, &e) < 0)
		chat_error(c, &e);
	else if (status)
		notice(c, "[exit status %d; what it printed is a document]", status);
	if (rc >= 0)
		str_clear(&c->proposed);
	documents_prefill(c, before);
	str_free(&out);
	str_free(&name);
}
