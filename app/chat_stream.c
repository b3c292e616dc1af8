/* app/chat_stream.c - a conversation reads a text without an end (chat.h): `weir read`, /stream, /on.
 *
 *     stream (stream.c) -> piece -> talk_stream() -> cache
 *
 * Line mode reads here until the end, a stop or an error.  Where the front has other work (the full screen's worker) it comes back
 * between two pieces when something waits, and is called again. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "app/chat.h"
#include "app/stream.h"

enum {
	WAIT_MS = 100,             /* between two looks at whether the user wants something */
	AGAIN = 4096,              /* tokens that are worth a line of their own when they are read again */
};
#define SHOW_EVERY 0.1
#define RATE_OVER 3.0          /* seconds that the speed is taken over */

static void read_again(int32_t done, int32_t total, void *ud)
{
	struct chat *c = ud;

	/* Where a message begins, a piece and what the template writes are read like this, too. */
	if (total > AGAIN)
		c->front->progress(c, "reading", done, total);
}

static void show(struct chat *c, int waiting)
{
	struct streaming *s = &c->streaming;
	double now = now_seconds();

	s->reading = (struct reading){
		.tokens = talk_streamed(&c->t), .percent = stream_percent(s->source), .tps = s->reading.tps, .waiting = waiting,
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

	human_count(&s, talk_streamed(&c->t));
	if (!c->o.quiet && (c->interactive || c->o.verbose))
		notice(c, c->interactive ? "[the end of '%s': %s tokens read; ask, /on looks for more]" :
		       "weir: the end of '%s': %s tokens read", stream_name(c->streaming.source), s.p);
	str_free(&s);
}

static void say_stop(struct chat *c)
{
	struct str s = {0};

	human_count(&s, talk_streamed(&c->t));
	if (c->interactive)
		notice(c, "[stopped after %s tokens of '%s'; ask, /on reads on]", s.p, stream_name(c->streaming.source));
	else
		c->quit = 1, c->rc = 130;
	str_free(&s);
}

/* One piece: 1 = go on, 0 = the end, 2 = something else waits, -1. */
static int read_piece(struct chat *c, struct str *piece, struct err *e)
{
	struct streaming *s = &c->streaming;
	int got, wants = c->front->yield ? c->front->yield(c) : 0;

	if (signals_stopped() || wants > 1)
		return err_set(e, ERR_CANCELLED, "stopped");
	if (wants)
		return 2;
	str_clear(piece);
	got = stream_next(s->source, WAIT_MS, piece, e);
	if (got < 0)
		return -1;
	/* Nothing comes for a while: what is there is read to its last word. */
	if (talk_stream(&c->t, piece->p ? piece->p : "", piece->n, got != STREAM_TEXT, read_again, c, e) < 0)
		return -1;
	if (piece->n && c->front->streamed)
		c->front->streamed(c, piece->p, piece->n);
	show(c, got == STREAM_LATER);
	return got != STREAM_END;
}

void chat_stream(struct chat *c)
{
	struct streaming *s = &c->streaming;
	struct str piece = {0};
	struct err e = {0};
	int rc;

	s->on = 1;
	s->since = now_seconds();
	s->since_tokens = talk_streamed(&c->t);
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
	struct stream *source;

	if (talk_stream_wanted(&c->t, e) < 0 || stream_open(&source, path, e) < 0)
		return -1;
	stream_close(c->streaming.source);
	c->streaming = (struct streaming){.source = source, .on = 1};
	c->t.total_streamed = 0;
	return 0;
}

void chat_stream_close(struct chat *c)
{
	stream_close(c->streaming.source);
	c->streaming = (struct streaming){.on = 0};
}

/* Now, or when the front comes to it. */
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
