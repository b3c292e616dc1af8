/* app/chat/cmd_stream.c - a conversation reads a text without an end (chat.h): `weir read`, /stream, /on.
 *
 *     text_source -> piece -> conversation_grow() -> cache
 *
 * In line mode chat_stream() reads until the end, a stop or an error.  On the full screen it returns between two pieces when another
 * job waits, and is called again after that job. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "app/chat/chat_private.h"
#include "app/chat/text_source.h"

enum {
	WAIT_MS = 100,             /* the longest wait for text between two checks of yield() and Ctrl-C */
	SHOWN_LEAST = 4096,        /* a recomputation of fewer tokens shows no progress */
};
#define SHOW_EVERY 0.1
#define RATE_OVER 3.0          /* seconds over which the speed is measured */

static void recompute_progress(int32_t done, int32_t total, void *ud)
{
	struct chat *c = ud;

	/* Called for the first piece of a message and the template's head, too, which are short. */
	if (total > SHOWN_LEAST)
		c->front->progress(c, "reading", done, total);
}

static void show(struct chat *c, int waiting)
{
	struct streaming *s = &c->streaming;
	double now = now_seconds();

	s->reading = (struct reading){
		.tokens = conversation_grown(&c->t), .percent = text_source_percent(s->source), .tps = s->reading.tps, .waiting = waiting,
	};
	if (now - s->since >= RATE_OVER || s->reading.tokens < s->since_tokens) {
		s->since = now;
		s->since_tokens = s->reading.tokens;
	}
	if (now - s->since > 0.5)
		s->reading.tps = (double)(s->reading.tokens - s->since_tokens) / (now - s->since);
	if (now - s->shown < SHOW_EVERY)
		return;
	s->shown = now;
	c->front->reading(c, &s->reading);
}

static void say_end(struct chat *c)
{
	struct str s = {0};

	human_count(&s, conversation_grown(&c->t));
	if (!c->o.quiet && (c->interactive || c->o.verbose))
		notice(c, c->interactive ? "[the end of '%s': %s tokens read; ask, /on looks for more]" :
		       "weir: the end of '%s': %s tokens read", text_source_name(c->streaming.source), s.p);
	str_free(&s);
}

static void say_stop(struct chat *c)
{
	struct str s = {0};

	human_count(&s, conversation_grown(&c->t));
	if (c->interactive)
		notice(c, "[stopped after %s tokens of '%s'; ask, /on reads on]", s.p, text_source_name(c->streaming.source));
	else
		c->quit = 1, c->rc = 130;
	str_free(&s);
}

/* Read one piece: 1 = there may be more, 0 = the end, 2 = another job waits, -1. */
static int read_piece(struct chat *c, struct str *piece, struct err *e)
{
	struct streaming *s = &c->streaming;
	int got, wants = c->front->yield ? c->front->yield(c) : 0;

	if (signals_stopped() || wants > 1)
		return err_set(e, ERR_CANCELLED, "stopped");
	if (wants)
		return 2;
	str_clear(piece);
	got = text_source_next(s->source, WAIT_MS, piece, e);
	if (got < 0)
		return -1;
	/* Where no text follows for a while, prefill all that there is. */
	if (conversation_grow(&c->t, piece->p ? piece->p : "", piece->n, got != SOURCE_TEXT, recompute_progress, c, e) < 0)
		return -1;
	show(c, got == SOURCE_LATER);
	return got != SOURCE_END;
}

void chat_stream(struct chat *c)
{
	struct streaming *s = &c->streaming;
	struct str piece = {0};
	struct err e = {0};
	int rc;

	s->on = 1;
	s->since = now_seconds();
	s->since_tokens = conversation_grown(&c->t);
	timeline_resume(c->t.tl);
	signals_watch(c->t.tl);
	while ((rc = read_piece(c, &piece, &e)) == 1)
		;
	signals_watch(NULL);
	timeline_resume(c->t.tl);
	str_free(&piece);
	if (rc == 2)
		return;
	s->on = 0;
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
		say_stop(c);
	} else {
		chat_error(c, &e);
		c->quit |= !c->interactive;
	}
}

int chat_stream_open(struct chat *c, const char *path, struct err *e)
{
	struct text_source *source;

	if (conversation_may_grow(&c->t, e) < 0 || text_source_open(&source, path, e) < 0)
		return -1;
	text_source_close(c->streaming.source);
	c->streaming = (struct streaming){.source = source, .on = 1};
	c->t.total_grown = 0;
	return 0;
}

void chat_stream_close(struct chat *c)
{
	text_source_close(c->streaming.source);
	c->streaming = (struct streaming){.on = 0};
}

/* Read now, or, where the front end has jobs, when none waits. */
static void go_on(struct chat *c)
{
	c->streaming.on = 1;
	if (!c->front->yield)
		chat_stream(c);
}

void slash_stream(struct chat *c, char *arg)
{
	struct err e = {0};
	struct str path = {0};

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
		go_on(c);
	str_free(&path);
}

void slash_on(struct chat *c, char *arg)
{
	struct err e = {0};

	(void)arg;
	if (!c->streaming.source) {
		err_set(&e, ERR_USAGE, "nothing is being read; /stream FILE begins");
		chat_error(c, &e);
		return;
	}
	go_on(c);
}
