/* app/remote/answer.c - sends a request, retries it, and returns the text of the answer piece by piece (remote.h). */
#include "app/remote/remote_private.h"

#include <string.h>
#include <time.h>

/* ERROR_MOST: maximum number of bytes of an error page that are read. FAILED_MOST: maximum number of tries if the
 * server answers with status 500. */
enum { ERROR_MOST = 64 << 10, FAILED_MOST = 3 };
static const double RETRY_SECONDS = 30, FIRST_WAIT = 0.25, WAIT_MOST = 8;
/* after the text is complete, number of seconds to wait for the usage figures and the end of the stream */
static const double AFTERWARDS = 2;

/* ---- the reply's body ---- */

/* Append text of the answer to a->ready. When llama-server continues an answer, it may first send the old text
 * (a->echo) again; this repetition is dropped. If the new text turns out to differ from the old text, all of the new
 * text is appended. */
static void add_text(struct answer *a, const char *p, size_t n)
{
	struct str *echo = &a->echo;

	while (n && a->echoed < echo->n && *p == echo->p[a->echoed]) {
		a->echoed++;
		p++;
		n--;
	}
	if (!n)
		return;
	if (a->echoed < echo->n) {
		str_add(&a->ready, str_text(echo), a->echoed);
		str_clear(echo);
		a->echoed = 0;
	}
	str_add(&a->ready, p, n);
}

static void take_usage(struct remote_usage *u, const struct remote_usage *new)
{
	if (new->prompt >= 0)
		u->prompt = new->prompt;
	if (new->cached >= 0)
		u->cached = new->cached;
	if (new->answer >= 0)
		u->answer = new->answer;
	if (new->prefill_tps >= 0)
		u->prefill_tps = new->prefill_tps;
	if (new->decode_tps >= 0)
		u->decode_tps = new->decode_tps;
}

static void take_finish(struct remote *r, const struct chunk *c)
{
	struct answer *a = &r->answer;

	if (c->finish == CHUNK_GOES_ON)
		return;
	a->finished = 1;
	a->stop = c->finish == CHUNK_LENGTH ? REMOTE_LENGTH : REMOTE_STOP;
	if (c->finish == CHUNK_REFUSED)
		str_add(&a->refused, c->why.p, c->why.n);
	if (a->streams)
		http_patience(r->client, AFTERWARDS);
}

/* Handle a->chunk: one event of a stream, or a whole answer. */
static int take_chunk(struct remote *r, struct err *e)
{
	struct answer *a = &r->answer;
	const struct chunk *c = &a->chunk;
	int goes_on = c->text.n || c->thought.n || c->done > a->read;

	if (c->fault)
		return server_fault(r, c, e);
	take_usage(&a->usage, &c->usage);
	if (c->total > 0) {
		a->read = c->done;
		if (a->waiting)
			a->waiting(c->done, c->total, NULL, a->waiting_ud);
	}
	a->bytes += c->text.n + c->thought.n;
	if (a->bytes > ANSWER_MOST)
		return err_set(e, ERR_FAIL, "%.100s: the answer is longer than 16 MiB", r->at.server.p);
	if (c->thought.n) {
		str_adds(&a->ready, a->thinking ? "" : "<think>\n");
		a->thinking = 1;
		str_add(&a->ready, c->thought.p, c->thought.n);
	}
	if (c->text.n) {
		str_adds(&a->ready, a->thinking ? "\n</think>\n\n" : "");
		a->thinking = 0;
		add_text(a, c->text.p, c->text.n);
	}
	if (goes_on && !a->finished)
		http_patience(r->client, r->timeout);
	take_finish(r, c);
	return 0;
}

static int on_event(const char *data, size_t n, void *ud, struct err *e)
{
	struct remote *r = ud;
	struct answer *a = &r->answer;

	a->any = 1;
	if (a->done)
		return 0;
	while (n && (data[n - 1] == ' ' || data[n - 1] == '\n'))
		n--;
	if (n == 6 && !memcmp(data, "[DONE]", 6)) {
		a->done = a->finished = 1;
		return 0;
	}
	if (!n)
		return 0;
	chunk_clear(&a->chunk);
	if (chunk_parse(&a->chunk, data, n) < 0)
		return err_set(e, ERR_FAIL, "%.100s: an event of the answer is no JSON", r->at.server.p);
	return take_chunk(r, e);
}

/* Handle the end of the body. Returns 0, or -1 if the answer is incomplete. */
static int body_end(struct remote *r, struct err *e)
{
	struct answer *a = &r->answer;

	if (a->streams && sse_end(&a->sse, on_event, r, e) < 0)
		return -1;
	if (!a->streams) {
		chunk_clear(&a->chunk);
		if (chunk_parse(&a->chunk, str_text(&a->in), a->in.n) < 0)
			return err_set(e, ERR_FAIL, "%.100s: the answer is no JSON", r->at.server.p);
		a->any = 1;
		if (take_chunk(r, e) < 0)
			return -1;
	}
	a->done = 1;
	if (a->finished)
		return 0;
	a->broken = 1;
	return err_set(e, ERR_FAIL,
	               a->any ? "%.100s: the connection ended before the answer did"
	                      : "%.100s: the answer is empty: it has no event",
	               r->at.server.p);
}

/* Read and parse more of the body. */
static int read_body(struct remote *r, struct err *e)
{
	struct answer *a = &r->answer;
	struct err why = { 0 };
	int rc;

	if (a->streams)
		str_clear(&a->in);
	rc = http_read(r->client, &a->in, &a->broken, &why);
	/* After the text is complete, a connection that breaks or stays open is not an error. */
	if (rc < 0 && a->finished && why.code != ERR_CANCELLED) {
		a->done = 1;
		return 0;
	}
	if (rc < 0)
		return err_set(e, why.code, "%s", why.msg);
	if (!rc)
		return body_end(r, e);
	if (!a->streams && a->in.n > BODY_MOST)
		return err_set(e, ERR_FAIL, "%.100s: the answer is longer than 16 MiB", r->at.server.p);
	return a->streams && sse_feed(&a->sse, a->in.p, a->in.n, on_event, r, e) < 0 ? -1 : 0;
}

/* Read more of the body. If an error comes while text is ready, the error is kept in a->late until remote_next() has
 * returned the text. Returns 0, or -1; then a->broken is 1 if the connection failed. */
static int answer_read(struct remote *r, struct err *e)
{
	struct answer *a = &r->answer;
	struct err why = { 0 };

	if (read_body(r, &why) == 0)
		return 0;
	if (!a->ready.n)
		return err_set(e, why.code, "%s", why.msg);
	a->late = why;
	a->done = 1;
	return 0;
}

/* ---- asking ---- */

/* Read the body of a reply with an error status, and set *e to its message. Always returns -1. */
static int answer_refused(struct remote *r, const struct http_reply *reply, struct err *e)
{
	struct answer *a = &r->answer;
	struct err none = { 0 };

	str_clear(&a->in);
	if (r->timeout > 10)
		http_patience(r->client, 10);
	while (a->in.n <= ERROR_MOST && http_read(r->client, &a->in, NULL, &none) > 0)
		;
	http_end(r->client);
	if (none.code == ERR_CANCELLED)
		return err_set(e, none.code, "%s", none.msg);
	chunk_clear(&a->chunk);
	if (a->in.n && a->in.n <= ERROR_MOST)
		chunk_parse(&a->chunk, a->in.p, a->in.n);
	return server_refuses(r, reply->status, &a->chunk, &a->in, e);
}

static void answer_begin(struct remote *r, const struct remote_request *q)
{
	struct answer *a = &r->answer;

	remote_end(r);
	a->usage =
		(struct remote_usage){ .prompt = -1, .cached = -1, .answer = -1, .prefill_tps = -1, .decode_tps = -1 };
	a->finished = a->done = a->any = a->thinking = a->broken = 0;
	a->bytes = a->echoed = 0;
	a->late = (struct err){ 0 };
	a->read = 0;
	a->stop = REMOTE_STOP;
	a->waiting = q->waiting;
	a->waiting_ud = q->ud;
	chunk_clear(&a->chunk);
	str_clear(&a->refused);
	str_clear(&a->ready);
	str_clear(&a->echo);
	if (q->extends && q->n_msg && r->info.kind == REMOTE_LLAMA)
		str_add(&a->echo, q->msg[q->n_msg - 1].text, q->msg[q->n_msg - 1].n);
	a->sent = 0;
	for (size_t i = 0; i < q->n_msg; i++)
		a->sent += q->msg[i].n;
}

/* Send the request once, and read until text is ready or the answer ends. *again is set to 1 if another try may
 * succeed. Returns 0 or -1. */
static int answer_try(struct remote *r, const struct remote_request *q, const struct str *json,
                      struct http_reply *reply, int *again, struct err *e)
{
	struct answer *a = &r->answer;
	int rc;

	answer_begin(r, q);
	*again = 0;
	if (server_send(r, &r->at.api, "/chat/completions", json, reply, e) < 0) {
		*again = reply->broken;
		return -1;
	}
	a->open = 1;
	if (reply->status != 200) {
		int s = reply->status;

		*again = s == 429 || s == 500 || s == 502 || s == 503 || s == 504 || s == 529;
		return answer_refused(r, reply, e);
	}
	a->streams = !http_type_is(reply, "application/json");
	if (http_type_is(reply, "text/html"))
		return err_set(e, ERR_FAIL, "%.100s answers with a page for people; is it a server of models?",
		               r->at.server.p);
	do
		rc = answer_read(r, e);
	while (!rc && !a->ready.n && !a->done);
	*again = rc < 0 && a->broken;
	return rc;
}

/* Wait before the next try: for the time that the server asks for, else twice as long as before the previous try, but
 * no longer than WAIT_MOST. Returns 0 if there is another try. Returns -1 with *e unchanged if there is none, or with
 * ERR_CANCELLED if the user has stopped. */
static int wait_to_retry(struct remote *r, const struct remote_request *q, const struct http_reply *reply, int tries,
                         double until, struct err *e)
{
	double wait = FIRST_WAIT * (double)(1 << (MIN(tries, 6))), end;

	if (wait > WAIT_MOST)
		wait = WAIT_MOST;
	if (reply->retry_after > 0)
		wait = reply->retry_after;
	if (now_seconds() + wait > until || (reply->status == 500 && tries + 1 >= FAILED_MOST))
		return -1;
	if (q->waiting)
		q->waiting(0, 0, e->msg, q->ud);
	for (end = now_seconds() + wait; now_seconds() < end;) {
		if (r->stopped && r->stopped())
			return err_set(e, ERR_CANCELLED, "stopped");
		nanosleep(&(struct timespec){ .tv_nsec = 40000000 }, NULL);
	}
	*e = (struct err){ 0 };
	return 0;
}

/* Return the field (enum request_field) that the server refused, if the request can be repeated without it; else 0.
 * Also return 0 if r->lacks has the field, because this request was already sent without it. */
static unsigned refused_field(const struct remote *r, const struct remote_request *q, const struct http_reply *reply)
{
	const struct chunk *c = &r->answer.chunk;
	const char *text = str_text(&c->error);
	unsigned lacks = 0;

	if (!c->fault || (reply->status != 400 && reply->status != 422 && reply->status != 500 && reply->status != 200))
		return 0;
	if (strstr(text, "stream_options"))
		lacks = FIELD_USAGE;
	else if (q->most >= 0 && c->overflow)
		lacks = FIELD_LIMIT;
	else if (q->most >= 0 && strstr(text, "max_completion_tokens"))
		lacks = FIELD_MAX_TOKENS;
	else if (q->n_msg > 1 && q->msg[0].role == ROLE_SYSTEM && strcasestr(text, "system") &&
	         strcasestr(text, "role"))
		lacks = FIELD_SYSTEM; /* the model's template refuses a system message */
	return lacks & ~r->lacks;
}

/* Compute bytes_per_token from the last prompt, which the server has counted as `tokens` tokens. */
static void learn_bytes(struct remote *r, double tokens)
{
	double per = (double)r->answer.sent / tokens;

	r->bytes_per_token = per < 1 ? 1 : MIN(8, per);
}

int remote_ask(struct remote *r, const struct remote_request *q, struct err *e)
{
	struct str json = { 0 };
	struct http_reply reply;
	double until = now_seconds() + RETRY_SECONDS;
	unsigned lacks;
	int rc, again;

	/* send the limit again even if the server has refused it before: with this prompt it may fit into the
	 * context */
	r->lacks &= ~(unsigned)FIELD_LIMIT;
	request_json(r, q, &json);
	for (int tries = 0;; tries++) {
		rc = answer_try(r, q, &json, &reply, &again, e);
		if (rc < 0 && (lacks = refused_field(r, q, &reply))) {
			r->lacks |= lacks;
			*e = (struct err){ 0 };
			str_clear(&json);
			request_json(r, q, &json);
			continue;
		}
		if (!rc || !again || e->code == ERR_CANCELLED || wait_to_retry(r, q, &reply, tries, until, e) < 0)
			break;
	}
	str_free(&json);
	/* The server says that the prompt exceeds the context, although it fits by our estimate: correct the
	 * estimate. */
	if (rc < 0 && e->code == ERR_FIT && r->info.ctx > 0 &&
	    (double)r->answer.sent / r->info.ctx < r->bytes_per_token)
		learn_bytes(r, r->info.ctx);
	if (rc < 0)
		remote_end(r);
	return rc;
}

/* Close the answer. Returns 0, or -1 if it ended with an error. */
static int answer_finish(struct remote *r, struct err *e)
{
	struct answer *a = &r->answer;

	if (a->usage.prompt > 16 && a->sent > 64)
		learn_bytes(r, a->usage.prompt);
	remote_end(r);
	server_ask_context(r);
	if (a->late.code)
		return err_set(e, a->late.code, "%s", a->late.msg);
	if (a->refused.n)
		return err_set(e, ERR_FAIL, "%.100s cut the answer: %.60s", r->at.server.p, a->refused.p);
	return 0;
}

int remote_next(struct remote *r, struct str *out, enum remote_stop *stop, struct err *e)
{
	struct answer *a = &r->answer;

	while (!a->ready.n && !a->done && a->open)
		if (answer_read(r, e) < 0) {
			remote_end(r);
			return -1;
		}
	*stop = a->stop;
	/* When a server is asked to continue a text, it may repeat this text first. So bytes that are equal to the text
	 * are held back. This answer has ended before it repeated the whole text: so the held bytes are new text. */
	if (!a->ready.n && a->echoed < a->echo.n) {
		str_add(&a->ready, a->echo.p, a->echoed);
		a->echoed = a->echo.n;
	}
	if (!a->ready.n)
		return answer_finish(r, e);
	str_add(out, a->ready.p, a->ready.n);
	str_clear(&a->ready);
	return 1;
}

void remote_end(struct remote *r)
{
	struct answer *a = &r->answer;

	if (r->client)
		http_end(r->client);
	a->open = 0;
	sse_free(&a->sse);
	str_clear(&a->in);
}

const struct remote_usage *remote_usage(const struct remote *r)
{
	return &r->answer.usage;
}
