/* app/chat/add_documents.c - adds documents to a conversation: files, standard input, and files named as @FILE in
 * a message. They are prefilled when they are added, not with the next question. */
#include "app/chat/chat_private.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Add a document, or replace the document that came from the same file. Returns 0 if it was added or replaced, 1 if the
 * text is unchanged, -1 on error. */
static int add_or_replace(struct chat *c, const struct doc *doc, struct err *e)
{
	size_t i = doc->origin.path ? conversation_document_of(&c->conv, doc->origin.path) : SIZE_MAX;
	struct document *d = i == SIZE_MAX ? NULL : &c->conv.doc[i];
	int same = d && d->n_body == doc->text.n &&
	           (!doc->text.n || !memcmp(d->text.p + d->body, doc->text.p, doc->text.n));

	if (!d)
		return conversation_add_document(&c->conv, doc, e);
	if (same) {
		/* The document's text is the same as before; only the file's time or its formatting has changed. */
		origin_free(d->origin);
		origin_copy(d->origin, &doc->origin);
		d->told = 0;
		return 1;
	}
	if (conversation_replace_document(&c->conv, i, doc, e) < 0)
		return -1;
	c->replaced++;
	if (!c->o.quiet)
		say("document '%s' is read anew and takes the place of what was read before; /undo", doc->name);
	return 0;
}

/* Tell the user which of the documents from index `from` on are searched for each question instead of being read whole.
 * All names go into one line, because a folder may have hundreds of files. */
static void say_searched(struct chat *c, size_t from)
{
	struct timeline_stats st;
	struct str s = { 0 };
	size_t n = 0, tokens = 0, last = from;

	for (size_t i = from; i < c->conv.n_doc; i++)
		if (!c->conv.doc[i].whole)
			n++, tokens += c->conv.doc[i].tokens, last = i;
	if (!n || c->o.quiet)
		return;
	conversation_stats(&c->conv, &st);
	if (n == 1)
		str_addf(&s, "document '%s': about ", c->conv.doc[last].name);
	else
		str_addf(&s, "%zu documents: about ", n);
	human_count(&s, tokens);
	str_adds(&s, " tokens");
	if (strcmp(c->o.docs, "passages") != 0) {
		str_addf(&s, ", more than %sfit the context of ", n < c->conv.n_doc ? "still " : "");
		human_count(&s, (size_t)st.ctx);
		str_adds(&s, " beside a question and its answer");
	}
	str_addf(&s, "; questions search %s best passages", n == 1 ? "it and bring its" : "them and bring their");
	say("%s", s.p);
	str_free(&s);
}

/* 1 if notices about documents can be shown at once. While the files of the command line are added, there is no screen
 * and no prompt yet: chat_read() shows the notices later. */
static int tells_at_once(const struct chat *c)
{
	return c->front || c->o.prompt || !isatty(0);
}

static size_t count_whole(const struct chat *c)
{
	size_t n = 0;

	for (size_t i = 0; i < c->conv.n_doc; i++)
		n += c->conv.doc[i].whole != 0;
	return n;
}

int document_add(struct chat *c, struct doc *doc, struct err *e)
{
	size_t whole = count_whole(c), before = c->conv.n_doc;
	int rc = add_or_replace(c, doc, e);

	if (rc > 0 && !c->o.quiet)
		say("document '%s' is there already", doc->name);
	else if (!rc && !c->o.quiet)
		document_notices(doc);
	/* If the new document used up the free context, earlier documents are now searched instead of read whole: name
	 * all searched documents. Otherwise name only the new document, if it is searched. */
	if (!rc && tells_at_once(c))
		say_searched(c, count_whole(c) < whole ? 0 : c->conv.n_doc - 1);
	if (c->conv.n_doc > before)
		folder_note(&c->conv, &c->conv.doc[before], 'k');
	doc_free(doc);
	return rc < 0 ? -1 : 0;
}

/* Show which page is being recognised, on the progress line of the import. If that line is not in use, the front end
 * shows the page. */
static void on_page(int32_t page, int32_t pages, double left, void *ud)
{
	struct chat *c = ud;

	str_clear(&c->recognising);
	recognition_text(page, pages, left, &c->recognising);
	if (c->importing.on)
		progress_now(&c->importing, c->recognising.p);
	else if (c->front)
		c->front->progress(c, c->recognising.p, 0, 0);
	else
		progress_line(&c->importing, c->recognising.p);
}

void document_recognition(struct chat *c)
{
	recognition_begin(&c->o, on_page, c);
}

static void import_begin(struct chat *c)
{
	progress_begin(&c->importing, c->o.quiet, "importing the document");
	progress_slow(&c->importing, c->o.quiet);
	document_recognition(c);
	signals_work(1);
}

static void import_end(struct chat *c)
{
	signals_work(0);
	progress_clear(&c->importing);
	c->importing.on = 0;
	if (c->recognising.n && c->front)
		c->front->progress(c, "reading", -1, 0);
	str_free(&c->recognising);
	if (c->interactive)
		signals_take_int(); /* forget the Ctrl-C that stopped the import: it is not meant for the prompt */
}

static int path_add(struct chat *c, const char *path_or_dash, struct err *e)
{
	struct doc doc = { 0 };
	int rc;

	import_begin(c);
	rc = doc_read(path_or_dash, &doc, e);
	import_end(c);
	return rc < 0 ? -1 : document_add(c, &doc, e);
}

int chat_document_bytes(struct chat *c, const char *name, const char *bytes, size_t n, struct err *e)
{
	struct doc doc = { 0 };
	int rc;

	import_begin(c);
	rc = doc_decode(name, bytes, n, &doc, e);
	import_end(c);
	return rc < 0 ? -1 : document_add(c, &doc, e);
}

/* Tell the user how many tokens a document has. Used when several documents were added together. */
static void say_added(struct chat *c, const struct document *d)
{
	struct str s = { 0 };

	human_count(&s, d->tokens);
	if (!c->o.quiet && d->whole) /* leave out searched documents: say_searched() names them */
		say("document '%s': %s tokens", d->name, s.p);
	str_free(&s);
}

/* Add the files that match a pattern. Files that cannot be read are left out. Returns 0 or -1. */
static int pattern_add(struct chat *c, const char *what, const struct doc_paths *list, struct err *e)
{
	struct file_todo *todo = xcalloc(list->n, sizeof *todo);
	struct files_read read;
	int rc;

	for (size_t i = 0; i < list->n; i++)
		todo[i] = (struct file_todo){ .file = &list->at[i], .doc = SIZE_MAX };
	rc = files_read(c, what, todo, list->n, &read, e);
	if (!rc && read.n_failed == list->n)
		rc = err_set(e, ERR_DOCUMENT, "none of the %zu files of '%.100s' could be read: %s", list->n, what,
		             read.failed.p);
	else if (!rc && !c->o.quiet)
		files_say(what, &read, list);
	free(todo);
	str_free(&read.failed);
	return rc;
}

int chat_documents(struct chat *c, const char *what, struct err *e)
{
	size_t first = c->conv.n_doc;
	struct doc_paths list;
	struct stat st;
	int rc, several;

	if (stat(what, &st) == 0 && S_ISDIR(st.st_mode)) {
		rc = folder_open(c, what, e);
		several = 1;
	} else {
		if (doc_find(what, &list, e) < 0)
			return -1;
		several = list.n > 1;
		rc = several ? pattern_add(c, what, &list, e) : path_add(c, list.at[0].path, e);
		doc_paths_free(&list);
	}
	for (size_t i = first; !rc && several && i < c->conv.n_doc; i++)
		say_added(c, &c->conv.doc[i]);
	if (!rc && several && tells_at_once(c))
		say_searched(c, first);
	return rc;
}

/* Add standard input as a document, unless it is a terminal or empty. If no bytes come within a second, there are two
 * cases. If the command line names files, the pipe is skipped, because perhaps no process will ever write to it. If it
 * names none, weir tells the user that it waits for input. */
int document_from_stdin(struct chat *c, struct err *e)
{
	struct pollfd wait = { .fd = 0, .events = POLLIN };
	struct stat st;
	struct str bytes = { 0 };
	int rc, silent;

	if (fstat(0, &st) < 0 || S_ISCHR(st.st_mode))
		return 0;
	silent = (c->o.n_file || (!c->o.quiet && isatty(2))) && !poll(&wait, 1, 1000);
	if (silent && c->o.n_file) {
		if (!c->o.quiet)
			say("standard input is open and silent: not read; name - among the files to wait for it");
		return 0;
	}
	if (silent)
		say("waiting for a document on standard input; </dev/null says that there is none");
	rc = read_whole("-", DOC_BYTES_MAX, &bytes, e);
	if (rc < 0)
		e->code = ERR_DOCUMENT;
	else if (bytes.n)
		rc = chat_document_bytes(c, "standard input", bytes.p, bytes.n, e);
	str_free(&bytes);
	return rc;
}

void chat_index(struct chat *c, size_t from)
{
	struct err e = { 0 };
	int searched = 0, rc;

	for (size_t i = from; i < c->conv.n_doc; i++)
		searched |= !c->conv.doc[i].whole && !c->conv.doc[i].grows;
	c->indexing.due = 0;
	if (!searched)
		return;
	c->indexing.ahead = 1;
	rc = conversation_index(&c->conv, &e);
	c->indexing.ahead = 0;
	signals_take_int();
	if (signals_quit())
		c->quit = 1, c->rc = 128 + signals_quit();
	if (rc < 0 && e.code == ERR_CANCELLED && !c->indexing.due)
		notice(c,
		       "[stopped: the rest is encoded with the next question; /set encoder off searches by words alone]");
	else if (rc < 0 && e.code != ERR_CANCELLED)
		chat_error(c, &e);
}

void documents_prefill(struct chat *c, size_t from)
{
	struct timeline_stats st;
	struct err e = { 0 };
	struct str s = { 0 };
	size_t tokens = 0, whole = 0, first = 0, replaced = c->replaced;
	int32_t n;

	c->replaced = 0;
	for (size_t i = c->conv.n_doc; i-- > from;)
		if (c->conv.doc[i].whole) {
			tokens += c->conv.doc[i].tokens;
			whole++;
			first = i;
		}
	if (c->interactive)
		chat_index(c, from);
	if (!c->interactive || (!whole && !replaced))
		return;
	if (!c->conv.tl) { /* without a timeline the model is on a server, and each request contains the documents */
		for (size_t i = from; i < c->conv.n_doc && !c->o.quiet; i++)
			if (c->conv.doc[i].whole)
				notice(c,
				       "[document '%s': about %s tokens, which go to the server with every question]",
				       c->conv.doc[i].name, count_text(c->conv.doc[i].tokens).s);
		return;
	}
	n = conversation_prefill(&c->conv, chat_prefill_progress, c, &e);
	c->front->progress(c, "reading", -1, 0);
	signals_take_int();
	if (signals_quit())
		c->quit = 1, c->rc = 128 + signals_quit();
	conversation_stats(&c->conv, &st);
	if (!whole)
		str_addf(&s, "%zu document%s anew", replaced, replaced == 1 ? "" : "s");
	else if (whole == 1)
		str_addf(&s, "document '%s'", c->conv.doc[first].name);
	else
		str_addf(&s, "%zu documents", whole);
	if (!whole)
		tokens = (size_t)st.prefill_tokens;
	if (n < 0 && e.code == ERR_CANCELLED) {
		notice(c, "[%s: stopped after %d tokens; the rest is read before the next answer, /undo drops it]", s.p,
		       st.prefill_tokens);
	} else if (n < 0) {
		chat_error(c, &e);
	} else if (!c->o.quiet) {
		str_adds(&s, ": ");
		human_count(&s, from || c->conv.n_msg ? tokens : (uint64_t)st.prefill_tokens);
		str_adds(&s, " tokens");
		if (c->conv.n_msg) {
			str_adds(&s, "; with the messages, which are recomputed behind it, ");
			human_count(&s, (uint64_t)st.prefill_tokens);
		}
		notice(c, "[%s read in %.1f s]", s.p, st.prefill_seconds);
	}
	str_free(&s);
}

void chat_read(struct chat *c)
{
	if (c->interactive)
		say_searched(c, 0);
	documents_prefill(c, 0);
}

/* 1 if the user typed this @FILE. A pasted @FILE stays text, so that pasted text cannot make weir send a file to a
 * server. */
static int may_attach(struct chat *c, const struct str *word)
{
	if (!untyped_has(word->p, word->n))
		return 1;
	if (!c->told_untyped++)
		notice(c, "[@%.*s was pasted, not typed, and stays text; /open %.*s adds the document]",
		       (int)(MIN(word->n, 200)), word->p, (int)(MIN(word->n, 200)), word->p);
	return 0;
}

int attach_files(struct chat *c, const struct str *text)
{
	struct str word = { 0 }, path = { 0 };
	struct err e = { 0 };
	size_t before = c->conv.n_doc;

	for (size_t at = 0; at < text->n && !e.code; at++) {
		size_t end;
		struct stat st;

		if (text->p[at] != '@' || (at && !strchr(" \t\n", text->p[at - 1])))
			continue;
		end = word_end(text->p, text->n, at + 1);
		str_clear(&word);
		str_clear(&path);
		str_add(&word, text->p + at + 1, end - at - 1);
		if (word.n)
			unquote(word.p, &path);
		if (path.n && stat(path.p, &st) == 0 && S_ISREG(st.st_mode) && may_attach(c, &word))
			path_add(c, path.p, &e);
		at = end;
	}
	str_free(&word);
	str_free(&path);
	if (e.code)
		chat_error(c, &e);
	else
		documents_prefill(c, before);
	return e.code ? -1 : 0;
}

void chat_look_at_files(struct chat *c)
{
	for (size_t i = 0; i < c->conv.n_doc; i++) {
		struct document *d = &c->conv.doc[i];

		if (d->told || folder_has(&c->conv, d) || doc_changed(d->origin) != DOC_CHANGED)
			continue;
		d->told = 1;
		if (!c->o.quiet)
			notice(c, "[the file of document '%s' has changed since it was read; /open %s reads it anew]",
			       d->name, d->origin->path);
	}
}
