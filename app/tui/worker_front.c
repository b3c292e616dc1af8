/* app/tui/worker_front.c - the chat's front end in the worker thread: each call of one of its callbacks becomes an
 * event for the main thread. */
#include "app/tui/worker_private.h"
#include "app/stream/stream.h"
#include "app/retrieval/retrieval.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Post a message. But if it comes from a command that runs between two tokens of an answer, collect it: the transcript
 * must continue with the answer. */
static void post_said(struct worker *w, enum event_what what, const char *text, size_t n)
{
	if (!w->said) {
		worker_post_text(w, what, text, n);
		return;
	}
	if (w->said->n)
		str_adds(w->said, "\n");
	str_add(w->said, text, n);
}

static void on_notice(struct chat *c, const char *text, size_t n)
{
	post_said(c->ud, EV_NOTICE, text, n);
}

static void on_error(struct chat *c, const struct err *e)
{
	post_said(c->ud, EV_ERROR, e->msg, strlen(e->msg));
}

void worker_say(const char *text, size_t n, void *ud)
{
	worker_post_text(ud, EV_NOTICE, text, n);
}

static void on_progress(struct chat *c, const char *verb, int32_t done, int32_t total)
{
	struct worker *w = c->ud;

	w->reading = -1;
	if (total > 0) { /* if `total` is 0, the work is not a prefill of the conversation */
		struct timeline_stats st = { 0 };

		if (c->conv.tl)
			timeline_stats(c->conv.tl, &st);
		w->reading = st.reused_tokens + done; /* `done` is the number of tokens after those that were reused */
	}
	if (done < 0) {
		w->reading_since = 0;
		return;
	}
	if (w->reading_since == 0) {
		w->reading_since = now_seconds();
		w->had = done;
	}
	if (c->indexing.ahead) {
		w->open = !c->indexing.on;
		w->open_tps = 0;
		w->open_left = -1;
	}
	/* Run no jobs during indexing. A transaction of the store is open, and a job that writes to the store would
	 * wait for the end of this transaction. */
	if (!c->indexing.on)
		worker_between(w);
	worker_report(w, WORKER_BUSY, verb, done, total);
}

/* Post the last STREAM_SHOWN bytes of a growing file's text. Returns the offset in m->text at which the question after
 * this text begins. */
static size_t send_streamed(struct worker *w, const struct message *m)
{
	size_t from = m->read > STREAM_SHOWN ? m->read - STREAM_SHOWN : 0;
	struct event *e;

	while (from && from < m->read && m->text.p[from - 1] != '\n' && m->text.p[from - 1] != ' ')
		from++;
	e = event_new(EV_STREAM, m->text.p + from, m->read - from);
	e->begins = 1;
	e->at = from;
	worker_post(w, e);
	return question_at(m);
}

/* Turn "reasoned for 312 words first" into the note that is shown below an answer. */
static void reasoning_note(struct str *note)
{
	struct str s = { 0 };

	if (!note->n)
		return;
	str_addf(&s, "[it %s; /think show]", note->p);
	str_free(note);
	*note = s;
}

enum { VARIANTS_NOTED = 100 }; /* number of newest messages whose variants are counted */

/* Append a note such as "[variant 2 of 3]" if the answer has other variants. */
static void variants_note(const struct worker *w, size_t i, struct str *note)
{
	size_t number, count;

	if (i + VARIANTS_NOTED >= w->c->conv.n_msg && chat_variants(w->c, i, &number, &count))
		str_addf(note, "%s[variant %zu of %zu]", note->n ? " " : "", number, count);
}

/* Post the sources of an answer. `question` is the number, on the screen, of the question that was answered; SIZE_MAX =
 * the last one. */
static void send_sources(struct worker *w, size_t question, const struct answer_sources *list)
{
	struct event *e = event_new(EV_SOURCES, "", 0);

	e->at = question;
	e->source = xcalloc(UI_SOURCES, sizeof *e->source);
	for (; e->n_source < list->n && e->n_source < UI_SOURCES; e->n_source++) {
		const struct answer_source *from = &list->at[e->n_source];
		struct ui_source *s = &e->source[e->n_source];

		*s = (struct ui_source){
			.document = answer_source_document(&w->c->conv, from),
			.from = from->from,
			.to = from->to,
			.sent = from->sent,
			.share = (float)from->share,
		};
		snprintf(s->name, sizeof s->name, "%.*s",
		         (int)utf8_complete(from->doc, strnlen(from->doc, sizeof s->name - 1)), from->doc);
	}
	worker_post(w, e);
}

/* Post the sources of a stored answer, also as lines of text. */
static void send_source_lines(struct worker *w, const struct message *m)
{
	struct str lines = { 0 };

	if (!m->sources.n)
		return;
	chat_source_lines(w->c, m, &lines);
	if (lines.n)
		worker_post(w, event_new(EV_NOTICE, lines.p, lines.n));
	send_sources(w, SIZE_MAX, &m->sources);
	str_free(&lines);
}

/* Post all sources again, because their positions have changed with the documents. */
static void send_all_sources(struct worker *w)
{
	const struct conversation *conv = &w->c->conv;

	for (size_t i = 1; i < conv->n_msg; i++)
		if (conv->msg[i].role == ROLE_ASSISTANT && conv->msg[i].sources.n)
			send_sources(w, i - 1, &conv->msg[i].sources);
}

/* Post the first n messages. If `resting` is 1, no turn is about to begin. Then a note is added if the last answer is
 * incomplete or missing. */
static void send_messages(struct worker *w, size_t n, int resting)
{
	const struct conversation *conv = &w->c->conv;

	worker_post(w, event_new(EV_MESSAGES, "", 0));
	w->streamed = 0;
	w->surprises = 0;
	w->messages_stale = 0;
	w->n_sent = n;
	for (size_t i = 0; i < n; i++) {
		const struct message *m = &conv->msg[i];
		size_t from = m->read ? send_streamed(w, m) : 0;
		struct event *e;

		if (m->read && from == m->text.n)
			continue; /* no question follows the streamed text yet */
		if (m->role == ROLE_ASSISTANT) {
			e = event_new(EV_MESSAGE, "", 0);
			chat_message(w->c, m, &e->text, &e->note);
		} else {
			e = event_new(EV_MESSAGE, str_text(&m->text) + from, m->text.n - from);
		}
		reasoning_note(&e->note);
		if (resting || i + 1 < conv->n_msg)
			chat_cut_note(w->c, i, &e->note);
		if (m->role == ROLE_ASSISTANT)
			variants_note(w, i, &e->note);
		e->role = conv->msg[i].role;
		worker_post(w, e);
		if (m->role == ROLE_ASSISTANT)
			send_source_lines(w, m);
	}
}

/* Post the growing file's text from byte `from` on. If the transcript has too much of this text, shorten it: send all
 * messages again, with only the end of the text. */
static void text_grew(struct worker *w, size_t from)
{
	const struct message *m = &w->c->conv.msg[w->c->conv.n_msg - 1];

	w->streamed += m->read - from;
	if (w->streamed > STREAM_MOST)
		send_messages(w, w->c->conv.n_msg, 1);
	else
		worker_post_piece(w, EV_STREAM, m->text.p + from, m->read - from, from);
}

/* Post that only the first `messages` messages belong to the conversation. The later ones are questions about the file
 * that is being read, with their answers: they are undone, but stay on the screen. */
static void post_returned(struct worker *w, size_t messages)
{
	struct event *e = event_new(EV_RETURNED, "", 0);

	e->messages = messages;
	worker_post(w, e);
}

/* Record which part of the conversation has changed, so that it is sent later. Handles only changes that no callback of
 * struct front reports. */
static void on_event(struct conversation *conv, const struct conversation_event *event, void *ud)
{
	struct worker *w = ud;

	switch (event->what) {
	case EVENT_UNDONE:
	case EVENT_REDONE:
	case EVENT_ANSWER_WITHDRAWN: w->messages_stale = 1; break;
	case EVENT_CLEARED:
		w->messages_stale |= w->n_sent > 0;
		w->documents_stale |= w->n_first != conv->n_doc;
		break;
	case EVENT_DOCUMENT_ADDED:
	case EVENT_DOCUMENT_DROPPED:
	case EVENT_DOCUMENT_PUT_BACK: w->documents_stale = 1; break;
	case EVENT_RETURNED:
		w->n_sent = conv->n_msg;
		post_returned(w, event->i);
		break;
	case EVENT_TEXT_GREW: text_grew(w, event->i); break;
	case EVENT_QUESTION:
	case EVENT_QUESTION_WITHDRAWN:
	case EVENT_ANSWER_BEGAN:
	case EVENT_ANSWER_GREW:
	case EVENT_ANSWER_ENDED:
	case EVENT_SETTINGS:
	case EVENT_PREFILL_GREW:
	case EVENT_PREFILL_ENDED:
	case EVENT_NOTICE:
	case EVENT_OPENING:
	case EVENT_RECALLED:
	case EVENT_REMEMBERED:
	case EVENT_SOURCES: break;
	}
}

void worker_observe(struct worker *w)
{
	w->messages_stale = w->documents_stale = 1;
	conversation_observe(&w->c->conv, on_event, w);
}

void worker_ignore(struct worker *w)
{
	conversation_ignore(&w->c->conv, on_event, w);
}

void worker_sent_all(struct worker *w)
{
	w->messages_stale = 0;
	w->n_sent = w->c->conv.n_msg;
}

/* Remove the last answer, and the notices below its question, from the screen. Notices of earlier turns stay. */
static void withdraw_answer(struct worker *w)
{
	const struct conversation *conv = &w->c->conv;
	struct event *e;
	int streamed = 0;

	for (size_t i = 0; i < conv->n_msg; i++)
		/* The screen counts a streamed text as a message only after a question was asked about this text. So
		 * the screen's message numbers may differ from those of the conversation. */
		streamed |= conv->msg[i].read > 0;
	if (w->messages_stale || streamed || w->c->goes_on) {
		send_messages(w, conv->n_msg - 1, 0);
		return;
	}
	e = event_new(EV_CUT, "", 0);
	e->messages = w->n_sent = conv->n_msg - 1;
	worker_post(w, e);
}

static void on_turn(struct chat *c, const char *question, size_t n)
{
	struct worker *w = c->ud;
	const struct conversation *conv = &c->conv;

	/* If there is no question, the last answer is generated again: remove it from the screen. If the question was
	 * edited, the screen still shows the old question: send all messages again. */
	if (!question && conv->n_msg && conv->msg[conv->n_msg - 1].role == ROLE_ASSISTANT)
		withdraw_answer(w);
	else if (w->messages_stale || !question)
		send_messages(w, conv->n_msg, 0);
	if (!question)
		/* drop the command's notices, so that the new answer comes right below its question */
		worker_drop_held(w);
	if (!question && !c->goes_on)
		send_sources(w, SIZE_MAX, &(struct answer_sources){ 0 });
	worker_release_held(w);
	worker_post_text(w, EV_QUESTION, question, question ? n : 0);
	if (c->goes_on) {
		struct str begun = { 0 };

		chat_message(c, conversation_answer(conv), &begun, NULL);
		worker_post_text(w, EV_PIECE, begun.p, begun.n);
		str_free(&begun);
	}
	w->open = 0;
	w->reading_since = 0;
	worker_report(w, WORKER_BUSY, "reading", 0, 0);
	w->title_stale = 1; /* the first question is stored now, and the session's title is made from it */
}

static int on_text(struct chat *c, const char *bytes, size_t n, struct err *e)
{
	struct worker *w = c->ud;

	(void)e;
	w->reading = -1;
	if (n)
		worker_post_piece(w, EV_PIECE, bytes, n, 0);
	worker_between(w);
	if (now_seconds() - w->reported >= REPORT_EVERY)
		worker_report(w, WORKER_DECODES, c->thinking ? "reasoning" : "answering", 0, 0);
	return 0;
}

static void on_was_reasoning(struct chat *c)
{
	struct worker *w = c->ud;

	withdraw_answer(w);
	worker_post_text(w, EV_QUESTION, NULL, 0);
}

static int on_turned(struct chat *c, const struct turn *turn, int rc, struct err *e)
{
	struct event *ev = event_new(EV_TURNED, NULL, 0);
	struct worker *w = c->ud;

	(void)e;
	/* The screen already shows this turn. Sending the messages again would remove notices, so record that they are
	 * sent. */
	if (turn->answered)
		worker_sent_all(w);
	else if (w->messages_stale)
		/* hold the notices back: the old answer is sent again, and the notices must come below it */
		w->holding = 1;
	if (c->hides)
		reasoning_describe(&c->think, &ev->note);
	reasoning_note(&ev->note);
	worker_post(w, ev);
	return rc;
}

static void send_documents(struct worker *);

static void on_sources(struct chat *c, const struct answer_sources *list)
{
	/* If a document is a growing text, send the documents again, because the text has grown since. */
	for (size_t i = 0; i < c->conv.n_doc; i++)
		if (c->conv.doc[i].grows)
			send_documents(c->ud);
	send_sources(c->ud, SIZE_MAX, list);
}

static void on_unsupported(struct chat *c, const char *words)
{
	worker_post_text(c->ud, EV_UNSUPPORTED, words, strlen(words));
}

static int on_summary(struct chat *c, const char *text, size_t n, struct err *e)
{
	(void)e;
	worker_post_text(c->ud, EV_NOTICE, text, n);
	return 0;
}

static void on_draft(struct chat *c, const char *text, size_t n)
{
	worker_post_text(c->ud, EV_DRAFT, text, n);
}

/* Record that all messages and documents must be sent again. This is the callback front->came_back(). */
static void on_came_back(struct chat *c)
{
	struct worker *w = c->ud;

	w->messages_stale = w->documents_stale = 1;
}

/* Post how much the sentences that were read since the last call surprise the model. */
static void send_surprise(struct worker *w)
{
	const struct surprise *s = surprise_of(&w->c->conv);
	uint64_t end = s->first + s->n, from = w->surprises > end ? 0 : w->surprises;
	size_t i = from > s->first ? (size_t)(from - s->first) : 0;
	struct event *e;

	w->surprises = end;
	if (!i)
		i = 1; /* skip the first sentence: the worker does not know where it begins */
	if (i >= s->n)
		return;
	e = event_new(EV_SURPRISE, "", 0);
	e->at = s->at[i - 1].end;
	e->span = xcalloc(s->n - i, sizeof *e->span);
	for (; i < s->n; i++)
		e->span[e->n_span++] =
			(struct ui_span){ .end = (uint32_t)(s->at[i].end - e->at), .kept = s->at[i].level };
	worker_post(w, e);
}

static void on_reading(struct chat *c, const struct reading *r)
{
	struct worker *w = c->ud;
	struct str s = { 0 };

	w->reading = -1;
	if (!r)
		return;
	send_surprise(w);
	reading_text(r, 1, &s);
	w->open_tps = r->waiting ? 0 : r->tps;
	w->open_left = r->waiting ? -1 : r->left;
	worker_report(w, WORKER_BUSY, s.p, 0, 0);
	str_free(&s);
}

static int on_yield(struct chat *c)
{
	struct worker *w = c->ud;
	int waits;

	worker_between(w);
	if (atomic_load(&w->stop))
		return 2;
	pthread_mutex_lock(&w->lock);
	waits = w->job || w->closing;
	pthread_mutex_unlock(&w->lock);
	return waits;
}

static void on_document(struct chat *c, size_t i, size_t from, size_t to)
{
	struct event *e = event_new(EV_PLACE, "", 0);

	e->place.doc = i;
	e->place.from = from;
	e->place.to = to;
	worker_post(c->ud, e);
}

static void send_documents(struct worker *w)
{
	const struct conversation *conv = &w->c->conv;
	struct event *e = event_new(EV_DOCUMENTS, "", 0);

	w->documents_stale = 0;
	w->n_first = conv->n_doc;
	w->first = xrealloc(w->first, (conv->n_doc + 1) * sizeof *w->first);
	cache_report_documents(conv, w->first);

	e->n_doc = conv->n_doc;
	e->doc = xcalloc(conv->n_doc + 1, sizeof *e->doc);
	for (size_t i = 0; i < conv->n_doc; i++) {
		e->doc[i] = (struct event_doc){
			.name = xstrndup(conv->doc[i].name, strlen(conv->doc[i].name)),
			.bytes = conv->doc[i].bytes,
			.tokens = (int32_t)conv->doc[i].tokens,
			.first = w->first[i] < 0 && !conv->doc[i].whole ? UI_SEARCHED : w->first[i],
		};
		str_add(&e->doc[i].text, conv->doc[i].text.p + conv->doc[i].body, conv->doc[i].n_body);
		e->doc[i].n_mark = marks_copy(conv->doc[i].mark, conv->doc[i].n_mark, &e->doc[i].mark);
	}
	worker_post(w, e);
}

void worker_send_changes(struct worker *w)
{
	const struct conversation *conv = &w->c->conv;
	int unread = 0, changed;

	/* `unread` is 1 if a document was sent before its prefill, so that the index of its first token was not
	 * known. */
	for (size_t i = 0; i < w->n_first; i++)
		unread |= i < conv->n_doc && conv->doc[i].whole && w->first[i] < 0;
	changed = w->documents_stale;
	if (w->documents_stale || unread)
		send_documents(w);
	if (w->messages_stale)
		send_messages(w, conv->n_msg, 1);
	else if (changed)
		send_all_sources(w);
}

/* clang-format off */
const struct front worker_front = {
	.notice = on_notice, .error = on_error, .progress = on_progress, .turn = on_turn, .text = on_text, .was_reasoning = on_was_reasoning, .turned = on_turned,
	.draft = on_draft, .came_back = on_came_back, .reading = on_reading, .yield = on_yield, .document = on_document,
	.summary = on_summary, .sources = on_sources, .unsupported = on_unsupported,
	.dims = 1, .notes = 1,
};
/* clang-format on */
