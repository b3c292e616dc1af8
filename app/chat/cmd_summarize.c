/* app/chat/cmd_summarize.c - /summarize, and questions that mean the same ("Summarize this.").
 *
 * The summary is generated on a separate timeline, so the conversation and its KV cache do not change. It is shown
 * like an answer but is not a message. Partial results are stored in the session, so that an interrupted summary
 * can be resumed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/chat/chat_private.h"

#define PREFIX     "summary/"
#define SHOW_EVERY 0.1

struct run {
	struct chat *c;
	struct str verb; /* the progress line; it must stay valid, because front ends keep the pointer */
	double shown;    /* time at which progress was shown last */
	size_t part;     /* number of the part whose progress was shown last */
	int stored;      /* 1 = results are stored in the session */
};

/* ---- results that are kept ---- */

static void setting_name(const char *key, char name[SUMMARY_KEY + sizeof PREFIX])
{
	snprintf(name, SUMMARY_KEY + sizeof PREFIX, PREFIX "%s", key);
}

static int kept_get(const char *key, struct str *out, void *ud)
{
	struct run *r = ud;
	char name[SUMMARY_KEY + sizeof PREFIX];
	struct err e = { 0 };

	setting_name(key, name);
	/* A damaged result counts as missing. */
	if (r->stored)
		return session_value(r->c->log->store, r->c->log->session, name, out, &e) > 0;
	for (size_t i = 0; i < r->c->n_kept; i++)
		if (!strcmp(r->c->kept[i].key, key)) {
			str_add(out, str_text(&r->c->kept[i].text), r->c->kept[i].text.n);
			return 1;
		}
	return 0;
}

static void kept_put(const char *key, const char *text, size_t n, void *ud)
{
	struct run *r = ud;
	struct chat *c = r->c;
	char name[SUMMARY_KEY + sizeof PREFIX];
	struct err e = { 0 };

	setting_name(key, name);
	if (r->stored && session_set(c->log->store, c->log->session, name, text, n, &e) < 0) {
		say("summaries are not kept: %s", e.msg);
		r->stored = 0;
	}
	if (r->stored)
		return;
	c->kept = xrealloc(c->kept, (c->n_kept + 1) * sizeof *c->kept);
	c->kept[c->n_kept] = (struct kept_summary){ .text = { 0 } };
	snprintf(c->kept[c->n_kept].key, SUMMARY_KEY, "%s", key);
	str_add(&c->kept[c->n_kept++].text, text, n);
}

void summaries_free(struct chat *c)
{
	while (c->n_kept)
		str_free(&c->kept[--c->n_kept].text);
	free(c->kept);
	c->kept = NULL;
}

/* Create the session if it does not exist, because a summary may take minutes and must not be lost. Returns 1 if its
 * results can be stored. */
static int begin_session(struct chat *c)
{
	struct err e = { 0 };

	if (!c->log || c->log->failed)
		return 0;
	if (session_log_begin(c->log, &c->conv, &e) == 0)
		return 1;
	say("summaries are not kept: %s", e.msg);
	return 0;
}

/* ---- progress ---- */

static void add_left(struct str *s, double left)
{
	if (left < 0)
		return;
	if (left < 90)
		str_addf(s, ", %d s left", (int)(left + 0.5));
	else
		str_addf(s, ", %d min left", (int)(left / 60 + 0.5));
}

static int on_progress(const struct summary_progress *p, void *ud)
{
	struct run *r = ud;
	double now = now_seconds();

	if (now - r->shown < SHOW_EVERY && p->part == r->part)
		return 0;
	r->shown = now;
	r->part = p->part;
	str_clear(&r->verb);
	str_addf(&r->verb, "summarizing: %s %zu of %zu", p->joining ? "join" : "section", p->part, p->parts);
	add_left(&r->verb, p->left);
	r->c->front->progress(r->c, r->verb.p, 0, 0);
	return r->c->front->yield && r->c->front->yield(r->c) > 1;
}

/* ---- the command ---- */

static void add_text(const struct document *d, struct summary_text *t)
{
	struct summary_heading *h = xcalloc(d->n_mark + 1, sizeof *h);

	*t = (struct summary_text){ .name = d->name, .text = d->text.p + d->body, .n = d->n_body, .heading = h };
	for (size_t i = 0; i < d->n_mark; i++)
		if (d->mark[i].kind == MARK_HEADING && d->mark[i].text)
			h[t->n_heading++] = (struct summary_heading){ .at = d->mark[i].at,
				                                      .level = d->mark[i].level,
				                                      .text = d->mark[i].text };
}

static void summary_show(struct chat *c, const struct summary *s, const char *of, double seconds)
{
	struct err e = { 0 };

	if (c->front->summary(c, str_text(&s->text), s->text.n, &e) < 0) {
		chat_error(c, &e);
		c->quit = 1, c->rc = 1;
		return;
	}
	if (s->empty.n)
		notice(c, "[nothing in it of %s %s: the model returned no text]",
		       strchr(s->empty.p, ',') ? "sections" : "section", s->empty.p);
	if (c->o.quiet || (!c->interactive && !c->o.verbose))
		return;
	if (s->made)
		notice(c, "[summary of %s, %zu %s, in %.1f s; it is no message of the conversation]", of, s->sections,
		       s->sections == 1 ? "section" : "sections", seconds);
	else
		notice(c, "[summary of %s, made before; it is no message of the conversation]", of);
}

static void say_stopped(struct chat *c, const struct summary *s)
{
	if (!s->sections)
		notice(c, "[stopped]");
	else
		notice(c, "[stopped: %zu of %zu sections are done; the same command goes on there]", s->done,
		       s->sections);
	if (!c->interactive)
		c->quit = 1, c->rc = 130;
}

static void summary_run(struct chat *c, size_t first, size_t n, int32_t words)
{
	struct run r = { .c = c };
	struct summary_hooks hooks = { .get = kept_get, .put = kept_put, .progress = on_progress, .ud = &r };
	struct summary_text *text = xcalloc(n, sizeof *text);
	struct summary s = { .sections = 0 };
	struct str of = { 0 };
	struct err e = { 0 };
	double start = now_seconds();

	for (size_t i = 0; i < n; i++)
		add_text(&c->conv.doc[first + i], &text[i]);
	if (n == 1)
		str_addf(&of, "'%s'", c->conv.doc[first].name);
	else
		str_addf(&of, "%zu documents", n);
	r.stored = begin_session(c);
	summarize(c->conv.engine, &c->o, text, n, words, &hooks, &s, &e);
	c->front->progress(c, "summarizing", -1, 0);
	if (c->interactive)
		signals_take_int();
	if (!e.code)
		summary_show(c, &s, of.p, now_seconds() - start);
	else if (e.code == ERR_CANCELLED)
		say_stopped(c, &s);
	else
		chat_error(c, &e);
	if (signals_quit())
		c->quit = 1, c->rc = 128 + signals_quit();
	for (size_t i = 0; i < n; i++)
		free((void *)(uintptr_t)text[i].heading);
	free(text);
	summary_free(&s);
	str_free(&of);
	str_free(&r.verb);
}

static int words_in_bounds(long n)
{
	return n >= SUMMARY_WORDS_LEAST && n <= SUMMARY_WORDS_MOST;
}

/* Parse the arguments "[DOCUMENT] [WORDS]". A single number means the document of this number; if there is no such
 * document, it means the length of the summary in words. *doc receives the index of the document, or -1 for all
 * documents. */
static int arguments_parse(struct chat *c, char *arg, long *doc, long *words, struct err *e)
{
	char *last = strrchr(arg, ' ');
	struct err no_document = { 0 };

	*doc = -1;
	*words = SUMMARY_WORDS;
	if (!c->conv.n_doc)
		return err_set(e, ERR_USAGE, "there is no document to summarize; /open FILE adds one");
	if (!*arg)
		return 0;
	*doc = document_of(c, arg, &no_document);
	if (*doc >= 0)
		return 0;
	last = last ? last + 1 : arg;
	*words = number_of(last);
	if (!*words)
		return err_set(e, no_document.code, "%s", no_document.msg);
	if (!words_in_bounds(*words))
		return err_set(e, ERR_USAGE, "a summary has %d to %d words, not %ld", SUMMARY_WORDS_LEAST,
		               SUMMARY_WORDS_MOST, *words);
	while (last > arg && last[-1] == ' ')
		*--last = 0;
	if (last == arg)
		return 0;
	*doc = document_of(c, arg, e);
	return *doc < 0 ? -1 : 0;
}

void slash_summarize(struct chat *c, char *arg)
{
	struct err e = { 0 };
	long doc, words;

	if (conversation_needs_local(&c->conv, "/summarize", &e) < 0 || arguments_parse(c, arg, &doc, &words, &e) < 0) {
		chat_error(c, &e);
		return;
	}
	summary_run(c, doc < 0 ? 0 : (size_t)doc, doc < 0 ? c->conv.n_doc : 1, (int32_t)words);
}

/* ---- questions that ask for a summary ---- */

int summary_asked(struct chat *c, const char *question, size_t n)
{
	size_t doc, first, count;
	int32_t words;
	int searched = 0;

	if (!c->conv.tl || asks_for_whole(&c->conv, question, n, &doc, &words) != WHOLE_SUMMARY)
		return 0;
	first = doc < c->conv.n_doc ? doc : 0;
	count = doc < c->conv.n_doc ? 1 : c->conv.n_doc;
	for (size_t i = first; i < first + count; i++)
		searched |= !c->conv.doc[i].whole && !c->conv.doc[i].grows;
	if (!searched) /* the model can answer the question itself, because it reads these documents whole */
		return 0;
	if (c->front->dims) /* full screen: show the question as a notice, because it does not become a message */
		notice(c, "%.*s", (int)n, question);
	summary_run(c, first, count, words_in_bounds(words) ? words : SUMMARY_WORDS);
	return 1;
}

void offer_summary(struct chat *c, const char *question, size_t n)
{
	size_t doc;
	int32_t words;

	if (c->interactive && !c->quit && !c->o.quiet && c->conv.tl && c->conv.n_doc &&
	    asks_for_whole(&c->conv, question, n, &doc, &words) >= WHOLE_ABOUT)
		notice(c, "[/summarize reads all of it]");
}
