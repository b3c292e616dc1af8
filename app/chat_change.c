/* app/chat_change.c - commands that change the talk: bringing back what was taken, going on with an answer, documents and messages one
 * by one, another model, thoughts; and what weir itself has said. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/chat.h"
#include "app/external.h"

enum { LOG_SHOWN = 20, LISTED = 20, NUMBER_MOST = 1000000 };

/* A number from 1 up that is all of the text, or 0. */
static long number_of(const char *text)
{
	char *end;
	long n = strtol(text, &end, 10);

	return end == text || *end || n < 1 || n > NUMBER_MOST ? 0 : n;
}

/* ---- back and on ---- */

static void slash_redo(struct chat *c, char *arg)
{
	long n = *arg ? number_of(arg) : 1, exchanges = 0, documents = 0;
	struct err e = {0};
	struct str s = {0}, name = {0};
	int rc = 1;

	if (!n)
		err_set(&e, ERR_USAGE, "/redo wants a number of exchanges from 1 up, not '%.40s'", arg);
	for (; n && !e.code && rc > 0; n--) {
		str_clear(&name);
		rc = talk_redo(&c->t, &name, &e);
		documents += rc > 0 && name.n;
		exchanges += rc > 0 && !name.n;
	}
	if (exchanges)
		str_addf(&s, "[%ld %s there again", exchanges, exchanges == 1 ? "exchange is" : "exchanges are");
	if (documents && name.n)
		str_addf(&s, "%sdocument '%s' is there again", exchanges ? ", " : "[", name.p);
	else if (documents)
		str_addf(&s, "%s%ld %s there again", exchanges ? ", " : "[", documents, documents == 1 ? "document is" : "documents are");
	if (s.n)
		notice(c, "%s]", s.p);
	else if (!e.code)
		notice(c, "[there is nothing to bring back: /undo and /drop took nothing since the last question]");
	if (e.code)
		chat_error(c, &e);
	str_free(&s);
	str_free(&name);
}

static void slash_continue(struct chat *c, char *arg)
{
	(void)arg;
	chat_continue(c);
}

/* ---- documents and messages ---- */

static void list_documents(struct chat *c)
{
	struct str s = {0};

	for (size_t i = 0; i < c->t.n_doc; i++) {
		str_addf(&s, "%s%3zu  ", i ? "\n" : "", i + 1);
		table_cell(&s, c->t.doc[i].name, 40);
		str_adds(&s, "  ");
		human_count(&s, c->t.doc[i].tokens);
		str_adds(&s, " tokens, ");
		human_bytes(&s, c->t.doc[i].bytes);
	}
	notice(c, "%s", s.n ? s.p : "[there is no document; /read FILE adds one]");
	str_free(&s);
}

static void slash_docs(struct chat *c, char *arg)
{
	(void)arg;
	list_documents(c);
}

/* What a change of the prefix costs. */
static void say_read_again(struct chat *c, const char *what, const char *name)
{
	struct tokens all = {0};
	struct str s = {0};
	struct err e = {0};

	if (c->t.n_msg && talk_render(&c->t, 0, &all, &e) == 0)
		human_count(&s, all.n);
	if (s.n)
		notice(c, "[%s '%s'; the talk, %s tokens, is read again with the next question; /redo]", what, name, s.p);
	else
		notice(c, "[%s '%s'; /redo brings it back]", what, name);
	tokens_free(&all);
	str_free(&s);
}

/* By number, or by a name or the beginning of one: its index, or -1. */
static long document_of(struct chat *c, const char *arg, struct err *e)
{
	long n = number_of(arg), found = -1;
	size_t len = strlen(arg);

	if (!c->t.n_doc)
		return err_set(e, ERR_USAGE, "there is no document");
	if (n && (size_t)n <= c->t.n_doc)
		return n - 1;
	for (size_t i = 0; i < c->t.n_doc; i++) {
		if (!strcmp(c->t.doc[i].name, arg))
			return (long)i;
		if (!strncmp(c->t.doc[i].name, arg, len)) {
			if (found >= 0)
				return err_set(e, ERR_USAGE, "several documents begin with '%.60s'; /drop alone numbers them", arg);
			found = (long)i;
		}
	}
	if (found < 0)
		err_set(e, ERR_USAGE, "there is no document '%.60s'; /drop alone numbers them, 1 to %zu", arg, c->t.n_doc);
	return found;
}

static void slash_drop(struct chat *c, char *arg)
{
	struct str name = {0};
	struct err e = {0};
	long i;

	if (!*arg) {
		list_documents(c);
		return;
	}
	i = document_of(c, arg, &e);
	if (i >= 0) {
		talk_drop(&c->t, (size_t)i, &name);
		say_read_again(c, "dropped", name.p ? name.p : "");
	} else {
		chat_error(c, &e);
	}
	str_free(&name);
}

/* What can never leave the cache. */
static void list_pinned(struct chat *c)
{
	struct timeline_stats st;
	struct str s = {0};

	timeline_stats(c->t.tl, &st);
	if (!st.endless) {
		notice(c, "[nothing ever leaves this cache ('%s'): there is no need to pin]", st.kv);
		return;
	}
	str_adds(&s, "[pinned, so that it never leaves the cache: ");
	human_count(&s, (uint64_t)(st.rows.pinned > 0 ? st.rows.pinned : 0));
	str_addf(&s, " tokens (system prompt and %zu %s); /pin N adds message N, counted as /copy does, 1 to %zu]", c->t.n_doc,
	         c->t.n_doc == 1 ? "document" : "documents", c->t.n_msg);
	notice(c, "%s", s.p);
	str_free(&s);
}

/* Messages leave a bounded cache, the prefix does not: what is pinned joins the documents. */
static int pin_message(struct chat *c, size_t i, struct err *e)
{
	const struct message *m = &c->t.msg[i];
	struct str name = {0}, text = {0}, note = {0};
	int rc;

	str_addf(&name, "message %zu of this talk (%s)", i + 1, m->role == ROLE_USER ? "question" : "answer");
	if (m->role == ROLE_ASSISTANT)
		chat_message(c, m, &text, &note);
	else
		str_add(&text, m->text.p ? m->text.p : "", m->text.n);
	rc = text.n ? talk_document_bytes(&c->t, name.p, text.p, text.n, e) : err_set(e, ERR_USAGE, "message %zu is empty", i + 1);
	str_free(&name);
	str_free(&text);
	str_free(&note);
	return rc;
}

static void slash_pin(struct chat *c, char *arg)
{
	char *dash = strchr(arg, '-');
	struct err e = {0};
	size_t before = c->t.n_doc;
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
	if (*arg == 'p' && arg[1] >= '0' && arg[1] <= '9')
		err_set(&e, ERR_USAGE, "pages of documents never leave the cache anyway; /pin N pins message N");
	else if (!from || !to || from > to || (size_t)to > c->t.n_msg)
		err_set(&e, ERR_USAGE, "/pin wants the number of a message, or two with '-' between them, from 1 to %zu, not '%.40s'",
		        c->t.n_msg, arg);
	else if (c->t.streamed.open)
		err_set(&e, ERR_USAGE, "/pin has to wait until a question has followed the text that is being read");
	for (long i = from; !e.code && i <= to; i++)
		pin_message(c, (size_t)i - 1, &e);
	if (e.code)
		chat_error(c, &e);
	if (c->t.n_doc == before)
		return;
	notice(c, "[pinned: it stands with the documents now; /drop takes it out]");
	chat_read(c);
}

/* ---- another model ---- */

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* What lies in the cache of models. */
static void list_models(struct str *out)
{
	char *name[LISTED];
	struct str dir = {0};
	struct dirent *entry;
	size_t n = 0, more = 0;
	DIR *d;

	path_cache(&dir, "models");
	d = opendir(dir.p);
	while (d && (entry = readdir(d))) {
		size_t len = strlen(entry->d_name);

		if (len < 6 || strcmp(entry->d_name + len - 5, ".gguf") != 0)
			continue;
		if (n == LISTED)
			more++;
		else
			name[n++] = xstrndup(entry->d_name, len);
	}
	if (d)
		closedir(d);
	qsort(name, n, sizeof *name, by_text);
	for (size_t i = 0; i < n; i++) {
		str_addf(out, "%s%s", i ? ", " : "", name[i]);
		free(name[i]);
	}
	if (more)
		str_addf(out, " and %zu more", more);
	str_free(&dir);
}

static void show_model(struct chat *c)
{
	const struct engine_info *i = engine_info(c->t.engine);
	struct str s = {0}, others = {0};

	str_addf(&s, "model      %s, %s, %s, %.0f million weights, trained with %d tokens\nfile       %s", i->name, i->quant, i->arch,
	         (double)i->n_params / 1e6, i->ctx_train, i->path);
	list_models(&others);
	if (others.n)
		str_addf(&s, "\nthere are  %s", others.p);
	notice(c, "%s", s.p);
	str_free(&s);
	str_free(&others);
}

/* A path, or the name of one in the cache of models, with or without its ending. */
static char *find_model(struct chat *c, const char *arg)
{
	struct str path = {0}, cached = {0};
	char *found = NULL;

	unquote(arg, &path);
	for (int i = 0; i < 4 && !found; i++) {
		str_clear(&cached);
		if (i == 0)
			str_adds(&cached, arg);
		else if (i == 1)
			str_adds(&cached, path.p ? path.p : "");
		else if (path.n && !strchr(path.p, '/'))
			path_cache(&cached, "models/");
		if (i > 1 && cached.n)
			str_addf(&cached, "%s%s", path.p, i == 3 ? ".gguf" : "");
		if (cached.n && access(cached.p, F_OK) == 0)
			found = options_own(&c->o, cached.p, cached.n);
	}
	if (!found)
		found = options_own(&c->o, path.p ? path.p : "", path.n);
	str_free(&path);
	str_free(&cached);
	return found;
}

static void slash_model(struct chat *c, char *arg)
{
	struct options next = c->o;
	struct str s = {0};
	struct err e = {0};
	int32_t again;

	if (!*arg) {
		show_model(c);
		return;
	}
	if (c->t.streamed.open) {
		err_set(&e, ERR_USAGE, "/model has to wait until a question has followed the text that is being read");
		chat_error(c, &e);
		return;
	}
	next.model = find_model(c, arg);
	c->front->progress(c, "loading the model", 0, 0);
	again = talk_model(&c->t, &next, &e);
	c->front->progress(c, "loading the model", -1, 0);
	if (again < 0) {
		chat_error(c, &e);
		if (c->t.tl)
			notice(c, "[the model is as before: %s]", engine_info(c->t.engine)->name);
		c->quit |= !c->t.tl;
		return;
	}
	c->o.model = next.model;
	if (again)
		human_count(&s, (uint64_t)again);
	notice(c, again ? "[model %s; the cache of another one is of no use to it: %s tokens are read again before the next answer]" :
	       "[model %s]", engine_info(c->t.engine)->name, s.p);
	str_free(&s);
}

/* ---- thoughts ---- */

int chat_hides(const struct chat *c)
{
	const char *how = c->o.think ? c->o.think : "auto";

	return !strcmp(how, "hide") || (c->interactive && strcmp(how, "show") != 0);
}

int chat_never_thinks(const struct chat *c)
{
	return c->o.think && !strcmp(c->o.think, "off") && engine_info(c->t.engine)->think_switch;
}

void chat_message(const struct chat *c, const struct message *m, struct str *out, struct str *note)
{
	const char *text = m->text.p ? m->text.p : "", *close, *open;
	struct think think = {.first = 0};

	if (!chat_hides(c) || m->role != ROLE_ASSISTANT) {
		str_add(out, text, m->text.n);
		return;
	}
	/* One whose head opened the thought has an end of it without a beginning; an unfinished one not even that. */
	close = strstr(text, "</think>");
	open = strstr(text, "<think>");
	think.first = engine_info(c->t.engine)->thinks_first && (close ? !open || open > close : !chat_never_thinks(c));
	think_feed(&think, text, m->text.n, out);
	think_end(&think, out);
	if (note)
		think_describe(&think, note);
	think_free(&think);
}

static int any_thoughts(const struct chat *c)
{
	if (c->t.n_msg && engine_info(c->t.engine)->thinks_first)
		return 1;
	for (size_t i = 0; i < c->t.n_msg; i++)
		if (c->t.msg[i].role == ROLE_ASSISTANT && c->t.msg[i].text.n && strstr(c->t.msg[i].text.p, "think>"))
			return 1;
	return 0;
}

static void say_thinking(struct chat *c)
{
	const struct engine_info *i = engine_info(c->t.engine);
	const char *how = c->o.think ? c->o.think : "auto";

	if (!strcmp(how, "off") && !i->think_switch)
		notice(c, "[thoughts: off; but this model's template has no way to ask for that: if it thinks, that is folded]");
	else if (!strcmp(how, "off"))
		notice(c, "[thoughts: off, the model is asked to answer at once]");
	else
		notice(c, "[thoughts: %s; /think show, hide or off]", chat_hides(c) ? "folded" : "shown");
}

static void slash_think(struct chat *c, char *arg)
{
	static const struct { const char *word, *value; } words[] = {
		{"on", "auto"}, {"off", "off"}, {"show", "show"}, {"hide", "hide"}, {"auto", "auto"},
	};
	const char *value = NULL;
	struct err e = {0};
	int hid = chat_hides(c);

	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (!strcmp(arg, words[i].word))
			value = words[i].value;
	if (*arg && !value) {
		err_set(&e, ERR_USAGE, "/think wants on, off, show or hide, not '%.40s'", arg);
		chat_error(c, &e);
		return;
	}
	if (value) {
		/* `on` takes back `off`, and leaves what is shown. */
		if (strcmp(arg, "on") != 0 || (c->o.think && !strcmp(c->o.think, "off")))
			c->o.think = value;
		c->t.prefix_known = 0;
		record_settings(c->record, &c->t);
		if (hid != chat_hides(c) && any_thoughts(c))
			c->front->came_back(c);
	}
	say_thinking(c);
}

/* ---- weir itself ---- */

static void slash_log(struct chat *c, char *arg)
{
	long n = *arg ? number_of(arg) : LOG_SHOWN;
	struct err e = {0};
	struct str s = {0};

	if (!n) {
		err_set(&e, ERR_USAGE, "/log wants a number of lines from 1 up, not '%.40s'", arg);
		chat_error(c, &e);
		return;
	}
	log_show((size_t)n, &s);
	/* Not in turn into the log. */
	if (!s.n)
		str_adds(&s, "[nothing was said yet]");
	c->front->notice(c, s.p, s.n);
	str_free(&s);
}

static void slash_editor(struct chat *c, char *arg)
{
	struct str text = {0};
	struct err e = {0};

	str_adds(&text, arg);
	if (!c->front->draft || !c->interactive)
		err_set(&e, ERR_USAGE, "/editor wants a terminal");
	else if (external_edit(&text, &e) == 0)
		c->front->draft(c, text.p ? text.p : "", text.n);
	signals_take_int();   /* it was the editor's */
	if (e.code)
		chat_error(c, &e);
	str_free(&text);
}

const struct slash change_slashes[] = {
	{"/redo", "", "[N]", "bring back what /undo or /drop took", BUSY_QUEUED, ARG_NONE, slash_redo},
	{"/continue", "/go", "", "go on with an answer that was stopped or cut", BUSY_QUEUED, ARG_NONE, slash_continue},
	{"/docs", "/documents", "", "the documents, numbered", BUSY_QUEUED, ARG_NONE, slash_docs},
	{"/drop", "", "[N|NAME]", "take document N out of the talk", BUSY_QUEUED, ARG_WORD, slash_drop},
	{"/pin", "", "[N|N-M]", "let message N never leave the cache: it joins the documents", BUSY_QUEUED, ARG_WORD, slash_pin},
	{"/model", "", "[FILE]", "show the model, or go on with another one: the talk is read again", BUSY_REFUSED, ARG_FILE, slash_model},
	{"/think", "", "[on|off|show|hide]", "whether the model thinks first, and whether that is shown", BUSY_QUEUED, ARG_WORD, slash_think},
	{"/editor", "", "[TEXT]", "write the message in $VISUAL or $EDITOR", BUSY_QUEUED, ARG_NONE, slash_editor},
	{"/log", "", "[N]", "what weir itself has said, with the time", BUSY_QUEUED, ARG_NONE, slash_log},
	{NULL, NULL, NULL, NULL, BUSY_ALLOWED, ARG_NONE, NULL},
};
