/* app/chat/arguments.c - parses the words after a command: numbers, file names, documents. */
#include "app/chat/chat_private.h"

#include <stdlib.h>
#include <string.h>

enum { NUMBER_MOST = 1000000 };

long number_of(const char *text)
{
	char *end;
	long n = strtol(text, &end, 10);

	return end == text || *end || n < 1 || n > NUMBER_MOST ? 0 : n;
}

void unquote(const char *arg, struct str *out)
{
	char quote = 0;

	if (arg[0] == '~' && arg[1] == '/' && getenv("HOME")) {
		str_adds(out, getenv("HOME"));
		arg++;
	}
	for (; *arg; arg++) {
		if (quote ? *arg == quote : *arg == '"' || *arg == '\'')
			quote = quote ? 0 : *arg;
		else if (*arg == '\\' && arg[1] && quote != '\'')
			str_add(out, ++arg, 1);
		else
			str_add(out, arg, 1);
	}
}

size_t word_end(const char *text, size_t n, size_t at)
{
	char quote = 0;

	for (; at < n; at++) {
		char ch = text[at];

		if (quote ? ch == quote : ch == '"' || ch == '\'')
			quote = quote ? 0 : ch;
		else if (ch == '\\' && quote != '\'' && at + 1 < n)
			at++;
		else if (!quote && strchr(" \t\n", ch))
			break;
	}
	return at;
}

long document_of(struct chat *c, const char *arg, struct err *e)
{
	long n = number_of(arg), found = -1;
	size_t len = strlen(arg);

	if (!c->conv.n_doc)
		return err_set(e, ERR_USAGE, "there is no document; /open FILE adds one");
	if (n && (size_t)n <= c->conv.n_doc)
		return n - 1;
	for (size_t i = 0; i < c->conv.n_doc; i++) {
		if (!strcmp(c->conv.doc[i].name, arg))
			return (long)i;
		if (!strncmp(c->conv.doc[i].name, arg, len)) {
			if (found >= 0)
				return err_set(e, ERR_USAGE, "several documents begin with '%.60s'; /docs numbers them",
				               arg);
			found = (long)i;
		}
	}
	if (found < 0)
		err_set(e, ERR_USAGE, "there is no document '%.60s'; /docs numbers them, 1 to %zu", arg, c->conv.n_doc);
	return found;
}
