/* app/chat/cmd_stream.c - reads a growing file or a pipe into the KV cache as its text arrives: `weir read`, /stream,
 * /pause, /more.
 *
 * The text arrives in parts of about 2 KiB (text_source.c), and each part is prefilled at once (conversation_grow()).
 * The user may ask questions meanwhile. A question and its answer are undone before more text is read
 * (conversation_beside()). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/chat/chat_private.h"
#include "app/chat/text_source.h"

enum {
	WAIT_MS = 100,      /* milliseconds to wait for text before checking yield() and Ctrl-C again */
	SHOWN_LEAST = 4096, /* minimum number of tokens of a prefill whose progress is shown */
};
#define SHOW_EVERY 0.1 /* seconds between two reports of progress */
#define RATE_OVER  3.0 /* seconds over which the speed is measured */

static void recompute_progress(int32_t done, int32_t total, void *ud)
{
	struct chat *c = ud;

	/* Show nothing for a short prefill, for example of the chat template's tokens. */
	if (total > SHOWN_LEAST)
		c->front->progress(c, "reading", done, total);
}

/* Update the reading speed and the estimated time left, from the last RATE_OVER seconds. */
static void speed_measure(struct streaming *s)
{
	struct reading *r = &s->reading;
	double now = now_seconds(), over, bytes;

	if (now - s->since >= RATE_OVER || r->tokens < s->since_tokens || r->at < s->since_at) {
		s->since = now;
		s->since_tokens = r->tokens;
		s->since_at = r->at;
	}
	over = now - s->since;
	if (over <= 0.5)
		return;
	r->tps = (double)(r->tokens - s->since_tokens) / over;
	bytes = (double)(r->at - s->since_at) / over;
	r->left = r->total && bytes > 0 ? (double)(r->total > r->at ? r->total - r->at : 0) / bytes : -1;
}

static void reading_show(struct chat *c, int waiting)
{
	struct streaming *s = &c->streaming;
	int imports = s->reading.imports;
	struct source_progress progress;

	text_source_progress(s->source, &progress);
	s->reading = (struct reading){
		.tokens = conversation_grown(&c->conv),
		.at = progress.at,
		.total = progress.total,
		.page = progress.page,
		.number = progress.number,
		.pages = progress.pages,
		.tps = s->reading.tps,
		.left = s->reading.left,
		.waiting = waiting,
		.imports = progress.imports,
	};
	speed_measure(s);
	if (now_seconds() - s->shown < SHOW_EVERY && imports == progress.imports)
		return;
	s->shown = now_seconds();
	c->front->reading(c, &s->reading);
	if (imports && !progress.imports && text_source_document(s->source) && !c->o.quiet)
		document_notices(text_source_document(s->source));
}

static void say_end(struct chat *c)
{
	struct str s = { 0 };

	human_count(&s, conversation_grown(&c->conv));
	if (!c->o.quiet && (c->interactive || c->o.verbose))
		notice(c,
		       c->interactive ? "[the end of '%s': %s tokens read]" : "weir: the end of '%s': %s tokens read",
		       text_source_name(c->streaming.source), s.p);
	str_free(&s);
}

static void say_stop(struct chat *c, const struct err *why)
{
	struct str s = { 0 };

	if (why && c->streaming.reading.imports) {
		c->quit |= !c->interactive;
		c->rc = c->interactive ? c->rc : 130;
		notice(c, c->interactive ? "[%s; /more begins again]" : "weir: %s", why->msg);
		return;
	}

	human_count(&s, conversation_grown(&c->conv));
	if (c->interactive)
		notice(c, "[paused after %s tokens of '%s'; questions stand beside it, /more reads on]", s.p,
		       text_source_name(c->streaming.source));
	else
		c->quit = 1, c->rc = 130;
	str_free(&s);
}

/* Read and prefill the next part of the text. Returns 1 if more text may follow, 0 at the end, 2 if another job waits,
 * -1 on error. */
static int read_piece(struct chat *c, struct str *piece, struct err *e)
{
	struct streaming *s = &c->streaming;
	int got, wants = c->front->yield ? c->front->yield(c) : 0;

	if (signals_stopped() || wants > 1)
		return err_set(e, ERR_CANCELLED, "stopped");
	if (wants)
		return 2;
	str_clear(piece);
	/* show progress now, because the next call may import a document, which takes long */
	reading_show(c, s->reading.waiting);
	got = text_source_next(s->source, WAIT_MS, piece, e);
	if (got < 0)
		return -1;
	/* If no text was ready, prefill all text so far, even an incomplete chunk. */
	if (conversation_grow(&c->conv, str_text(piece), piece->n, got != SOURCE_TEXT, recompute_progress, c, e) < 0)
		return -1;
	reading_show(c, got == SOURCE_LATER);
	return got != SOURCE_END;
}

void chat_stream(struct chat *c)
{
	struct streaming *s = &c->streaming;
	struct str piece = { 0 };
	struct err e = { 0 };
	int rc;

	if (conversation_may_grow(&c->conv, &e) < 0) {
		s->on = 0;
		chat_error(c, &e);
		return;
	}
	s->on = 1;
	conversation_beside(&c->conv, !s->ended);
	conversation_return(&c->conv);
	s->since = now_seconds();
	s->since_tokens = conversation_grown(&c->conv);
	s->since_at = s->reading.at;
	s->reading.left = -1;
	timeline_resume(c->conv.tl);
	signals_watch(c->conv.tl);
	document_recognition(c);
	while ((rc = read_piece(c, &piece, &e)) == 1)
		;
	signals_watch(NULL);
	timeline_resume(c->conv.tl);
	str_free(&piece);
	if (rc == 2)
		return;
	s->on = 0;
	s->ended = rc == 0;
	conversation_beside(&c->conv, !s->ended);
	c->front->progress(c, "reading", -1, 0);
	c->front->reading(c, NULL);
	if (c->interactive)
		signals_take_int();
	if (signals_quit()) {
		c->quit = 1;
		c->rc = 128 + signals_quit();
	} else if (rc == 0) {
		say_end(c);
	} else if (e.code == ERR_CANCELLED) {
		say_stop(c, &e);
	} else {
		if (e.code == ERR_DOCUMENT)
			chat_stream_close(c); /* the source failed, so /more cannot continue it */
		chat_error(c, &e);
		c->quit |= !c->interactive;
	}
}

void chat_read_document(struct chat *c)
{
	const struct streaming *s = &c->streaming;
	const struct doc *whole = s->source ? text_source_document(s->source) : NULL;
	const struct message *m = NULL;
	struct doc d = { .name = NULL };
	size_t from = 0, lines = 0;
	const char *name;

	for (size_t i = 0; i < c->conv.n_msg; i++)
		m = c->conv.msg[i].read ? &c->conv.msg[i] : m;
	if (!m)
		conversation_read_document(&c->conv, NULL, 0, 0);
	if (!m || !s->source)
		return;
	name = strrchr(text_source_name(s->source), '/');
	name = name && name[1] ? name + 1 : text_source_name(s->source);
	if (m->read > TEXT_SEARCHED)
		from = text_part_end(m->text.p, m->read, 0, m->read - TEXT_SEARCHED);
	for (const char *p = m->text.p; (p = memchr(p, '\n', (size_t)(m->text.p + from - p))); p++)
		lines++;
	/* d only borrows the text: conversation_read_document() copies it. */
	d.name = xstrndup(name, strlen(name));
	d.text = (struct str){ .p = m->text.p + from, .n = m->read - from };
	d.bytes = d.text.n;
	if (whole) {
		d.type = whole->type;
		d.n_mark = marks_copy(whole->mark, whole->n_mark, &d.mark);
		for (size_t i = 0; i < d.n_mark; i++)
			d.mark[i].at = d.mark[i].at > from ? d.mark[i].at - from : 0;
		while (d.n_mark && d.mark[d.n_mark - 1].at >= d.text.n)
			free(d.mark[--d.n_mark].text);
	} else {
		doc_mark_again(&d);
	}
	conversation_read_document(&c->conv, &d, from, lines);
	marks_free(d.mark, d.n_mark);
	free(d.name);
}

int chat_stream_open(struct chat *c, const char *path, struct err *e)
{
	struct text_source *source;

	if (conversation_may_grow(&c->conv, e) < 0 || text_source_open(&source, path, e) < 0)
		return -1;
	text_source_close(c->streaming.source);
	c->streaming = (struct streaming){ .source = source, .on = 1 };
	conversation_beside(&c->conv, 1);
	streamed_count_anew(&c->conv);
	return 0;
}

void chat_stream_close(struct chat *c)
{
	/* No text is open. Do not use the conversation: at the end of the program it may be closed already. */
	if (!c->streaming.source)
		return;
	text_source_close(c->streaming.source);
	c->streaming = (struct streaming){ .on = 0 };
	conversation_beside(&c->conv, 0);
}

/* Continue reading. Do nothing in a front end with a queue of jobs: it calls chat_stream() itself when no job waits. */
static void reading_continue(struct chat *c)
{
	c->streaming.on = 1;
	if (!c->front->yield)
		chat_stream(c);
}

void slash_stream(struct chat *c, char *arg)
{
	struct err e = { 0 };
	struct str path = { 0 };

	unquote(arg, &path);
	if (!path.n)
		err_set(&e, ERR_USAGE, "/stream wants a file name");
	else if (!strcmp(path.p, "-"))
		err_set(&e, ERR_USAGE, "standard input is the conversation here; /stream wants a file name");
	else
		chat_stream_open(c, access(arg, F_OK) == 0 ? arg : path.p, &e);
	if (e.code)
		chat_error(c, &e);
	else
		reading_continue(c);
	str_free(&path);
}

void slash_pause(struct chat *c, char *arg)
{
	struct err e = { 0 };

	(void)arg;
	if (c->streaming.source && c->streaming.on) {
		c->streaming.on = 0;
		say_stop(c, NULL);
		return;
	}
	err_set(&e, ERR_USAGE,
	        c->streaming.source ? "the reading is paused already; /more reads on"
	                            : "nothing is being read; /stream FILE begins");
	chat_error(c, &e);
}

void slash_on(struct chat *c, char *arg)
{
	struct err e = { 0 };

	(void)arg;
	if (!c->streaming.source) {
		err_set(&e, ERR_USAGE, "nothing is being read; /stream FILE begins");
		chat_error(c, &e);
		return;
	}
	reading_continue(c);
}
