/* app/chat/cmd_documents.c - the commands about documents: /open, /docs, /drop and /pin. */
#include "app/chat/chat_private.h"
#include "engine/base/utf8.h"

#include <string.h>
#include <unistd.h>

/* Add a document of any session, named by its number or name. Returns 1; 0 if no session has it, or if a file has that
 * name; -1 on error. */
static int read_known(struct chat *c, const char *what, struct err *e)
{
	struct err why = { 0 };
	struct doc doc;

	if (access(what, F_OK) == 0 || library_known(c, what, &doc, &why) < 0)
		return *what == '#' && why.code ? err_set(e, why.code, "%s", why.msg) : 0;
	return document_add(c, &doc, e) < 0 ? -1 : 1;
}

/* 1 if the argument is no file's name, but its first word is. */
static int names_several(const char *arg)
{
	struct str first = { 0 };
	size_t n = strcspn(arg, " \t");
	int yes = 0;

	if (arg[n] && access(arg, F_OK)) {
		str_add(&first, arg, n);
		yes = !access(first.p, F_OK);
	}
	str_free(&first);
	return yes;
}

void slash_open(struct chat *c, char *arg)
{
	struct err e = { 0 };
	struct str path = { 0 };
	size_t before = c->conv.n_doc;

	unquote(arg, &path);
	if (!path.n)
		err_set(&e, ERR_USAGE, "/open wants a file, a folder or a pattern");
	else if (!strcmp(path.p, "-"))
		err_set(&e, ERR_USAGE,
		        "standard input is the conversation here; /open wants a file, a folder or a pattern");
	else if (access(arg, R_OK) == 0)
		/* try the name as it was typed first: a file's name may contain quotes or backslashes */
		chat_documents(c, arg, &e);
	else if (!read_known(c, path.p, &e) && !e.code && chat_documents(c, path.p, &e) < 0 && names_several(path.p))
		err_set(&e, ERR_USAGE, "/open takes one name at a time, or a pattern such as *.pdf");
	if (e.code)
		chat_error(c, &e);
	documents_prefill(c, before);
	str_free(&path);
}

static void list_documents(struct chat *c, int others)
{
	struct str s = { 0 };

	for (size_t i = 0; i < c->conv.n_doc; i++) {
		str_addf(&s, "%s%3zu  ", i ? "\n" : "", i + 1);
		table_cell(&s, c->conv.doc[i].name, 40);
		str_adds(&s, "  ");
		str_adds(&s, c->conv.doc[i].whole ? "" : "about ");
		human_count(&s, c->conv.doc[i].tokens);
		str_adds(&s, " tokens, ");
		human_bytes(&s, c->conv.doc[i].bytes);
		str_adds(&s, c->conv.doc[i].whole ? ", read whole" : ", searched");
	}
	if (s.n && !others)
		str_adds(&s, "\n[/drop N or /drop NAME takes one of them out]");
	if (!s.n)
		str_adds(&s, "[there is no document; /open FILE adds one]");
	if (others)
		library_others(c, &s);
	notice(c, "%s", s.p);
	str_free(&s);
}

void slash_docs(struct chat *c, char *arg)
{
	(void)arg;
	list_documents(c, 1);
}

/* Tell the user that the document was dropped, and how many tokens the next question must recompute because of it. */
static void say_recomputed(struct chat *c, const char *what, const char *name)
{
	struct tokens all = { 0 };
	struct str s = { 0 };
	struct err e = { 0 };

	if (c->conv.n_msg && c->conv.tl && conversation_render(&c->conv, 0, &all, &e) == 0)
		human_count(&s, all.n);
	if (s.n)
		notice(c,
		       "[%s '%s'; the conversation, %s tokens, is recomputed with the next question; /redo restores it]",
		       what, name, s.p);
	else
		notice(c, "[%s '%s'; /redo restores it]", what, name);
	tokens_free(&all);
	str_free(&s);
}

void slash_drop(struct chat *c, char *arg)
{
	struct str name = { 0 };
	struct err e = { 0 };
	long i;

	if (!*arg) {
		list_documents(c, 0);
		return;
	}
	i = document_of(c, arg, &e);
	if (i >= 0) {
		conversation_drop_document(&c->conv, (size_t)i, &name);
		say_recomputed(c, "dropped", str_text(&name));
	} else {
		chat_error(c, &e);
	}
	str_free(&name);
}

/* Say how many tokens are pinned, or why pinning is not needed. */
static void list_pinned(struct chat *c)
{
	struct timeline_stats st;
	struct str s = { 0 };

	conversation_stats(&c->conv, &st);
	if (!c->conv.tl) {
		notice(c,
		       "[documents and the system prompt go with every question to the server; /pin N adds message N to them]");
		return;
	}
	if (!st.endless) {
		notice(c, "[this cache ('%s') evicts nothing: there is no need to pin]", st.kv);
		return;
	}
	str_adds(&s, "[pinned, so that it is never evicted: ");
	human_count(&s, (uint64_t)(MAX(st.rings.pinned, 0)));
	str_addf(&s, " tokens (system prompt and %zu %s)", c->conv.n_doc,
	         c->conv.n_doc == 1 ? "document" : "documents");
	if (c->conv.n_msg)
		str_addf(&s, "; /pin N adds message N, counted as /copy does, 1 to %zu", c->conv.n_msg);
	str_adds(&s, "]");
	notice(c, "%s", s.p);
	str_free(&s);
}

/* Pin a message: add it as a document. A bounded cache evicts old messages but never documents. */
static int pin_message(struct chat *c, size_t i, struct err *e)
{
	const struct message *m = &c->conv.msg[i];
	struct str name = { 0 }, text = { 0 }, note = { 0 };
	int rc;

	str_addf(&name, "message %zu (%s)", i + 1, m->role == ROLE_USER ? "question" : "answer");
	if (m->role == ROLE_ASSISTANT)
		chat_message(c, m, &text, &note);
	else
		str_add(&text, str_text(&m->text), m->text.n);
	rc = text.n ? chat_document_bytes(c, name.p, text.p, text.n, e)
	            : err_set(e, ERR_USAGE, "message %zu is empty", i + 1);
	str_free(&name);
	str_free(&text);
	str_free(&note);
	return rc;
}

void slash_pin(struct chat *c, char *arg)
{
	char *dash = strchr(arg, '-');
	struct err e = { 0 };
	size_t before = c->conv.n_doc;
	long from, to;

	if (!*arg) {
		list_pinned(c);
		return;
	}
	if (dash)
		*dash = 0;
	from = number_of(arg);
	to = dash ? number_of(dash + 1) : from;
	if (dash)
		*dash = '-';
	if (*arg == 'p' && byte_is_digit(arg[1]))
		err_set(&e, ERR_USAGE, "pages of documents are never evicted anyway; /pin N pins message N");
	else if (!c->conv.n_msg)
		err_set(&e, ERR_USAGE, "there is no message to pin yet");
	else if (!from || !to || from > to || (size_t)to > c->conv.n_msg)
		err_set(&e, ERR_USAGE,
		        "/pin wants the number of a message, or two with '-' between them, from 1 to %zu, not '%.40s'",
		        c->conv.n_msg, arg);
	else if (c->conv.grows)
		err_set(&e, ERR_USAGE, "/pin has to wait until a question has followed the text that is being read");
	for (long i = from; !e.code && i <= to; i++)
		pin_message(c, (size_t)i - 1, &e);
	if (e.code)
		chat_error(c, &e);
	if (c->conv.n_doc == before)
		return;
	notice(c, "[pinned: it stands with the documents now; /drop takes it out]");
	documents_prefill(c, before);
}
