/* app/chat/turns.c - asks the model a question, shows the answer, and shows the notices that belong to the turn. */
#include "app/chat/chat_private.h"

#include <string.h>

/* 1 if the text so far is reasoning without an opening mark, and its closing mark has just come: some servers leave out
 * the opening mark. c->shown then gets only the text after the closing mark. `whole` is 1 if the answer is complete. */
static int closes_now(struct chat *c, int whole)
{
	const struct message *m = conversation_answer(&c->conv);
	struct reasoning again = { .first = 1 };

	if (!m || c->think.at != REASONING_AFTER || c->think.mark >= 0 || c->think.first || !m->text.n || c->conv.tl ||
	    !reasoning_unopened(m->text.p, m->text.n, whole, &c->close_seen))
		return 0;
	reasoning_free(&c->think);
	c->think = again;
	str_clear(&c->shown);
	reasoning_feed(&c->think, m->text.p, m->text.n, &c->shown);
	return 1;
}

/* 1 if the answer must be held back until its end, because its beginning may turn out to be reasoning. This happens in
 * scripts with a model on a server: a script reads the text at once, so it cannot be hidden later. */
static int waits_for_close(const struct chat *c)
{
	return !c->interactive && !c->goes_on && !c->conv.tl && c->think.at == REASONING_AFTER && c->think.mark < 0 &&
	       !c->think.first;
}

static int on_text(const char *bytes, size_t n, void *ud, struct err *e)
{
	struct chat *c = ud;

	if (!c->hides)
		return c->front->text(c, bytes, n, e);
	str_clear(&c->shown);
	reasoning_feed(&c->think, bytes, n, &c->shown);
	c->thinking = c->think.at == REASONING_WITHIN;
	if (waits_for_close(c))
		return 0;
	if (closes_now(c, 0) && c->front->was_reasoning)
		c->front->was_reasoning(c);
	return c->front->text(c, str_text(&c->shown), c->shown.n, e);
}

/* Show the bytes that were held back, after the answer is complete. */
static void end_text(struct chat *c)
{
	struct err e = { 0 };

	c->thinking = 0;
	if (!c->hides)
		return;
	str_clear(&c->shown);
	if (waits_for_close(c)) {
		const struct message *m = conversation_answer(&c->conv);

		if (m && !closes_now(c, 1))
			str_add(&c->shown, str_text(&m->text), m->text.n);
	} else if (closes_now(c, 1) && c->front->was_reasoning) {
		c->front->was_reasoning(c);
	}
	reasoning_end(&c->think, &c->shown);
	if (c->shown.n)
		c->front->text(c, c->shown.p, c->shown.n, &e);
}

/* Tell the user that the oldest messages no longer fit the server's context and are not sent. */
static void say_left_out(struct chat *c, const struct turn *turn)
{
	struct timeline_stats st;

	if (!turn->left_out || c->o.quiet)
		return;
	conversation_stats(&c->conv, &st);
	notice(c,
	       c->interactive
	               ? "[the context of %s tokens is full: the first %zu messages are not sent any more%s%s]"
	               : "weir: the context of %s tokens is full: the first %zu messages are not sent any more%s%s",
	       count_text((uint64_t)st.ctx).s, turn->left_out, c->front->dims ? "; F2 dims them" : "",
	       turn->guessed ? "; tokens are estimated, because the server does not count them" : "");
}

enum turn_kind { TURN_ASK, TURN_AGAIN, TURN_GO_ON };

/* Return a sentence for the user after a turn that was stopped before its answer began. It tells the user whether the
 * question was kept. */
static const char *left_behind(const struct chat *c, enum turn_kind kind)
{
	if (kind == TURN_ASK)
		return "the question is withdrawn; Up brings it back";
	return conversation_answer(&c->conv) ? "the answer stays as it was" : "the question stays; /regen answers it";
}

/* Tell the user why a turn failed or was stopped, and what is kept of it. */
static void say_failure(struct chat *c, enum turn_kind kind, const struct turn *turn, const struct err *e)
{
	if (e->code == ERR_CANCELLED) {
		if (!c->interactive)
			c->quit = 1, c->rc = 130;
		else if (turn->answered)
			notice(c, "[stopped]");
		else
			notice(c, "[stopped before the answer began: %s]", left_behind(c, kind));
		return;
	}
	chat_error(c, e);
	if (e->code != ERR_FIT) {
		c->quit |= e->code == ERR_FAIL && !e->msg[0];
		if (c->interactive && !turn->answered && (kind == TURN_ASK || e->code != ERR_USAGE))
			notice(c, "[%s]", left_behind(c, kind));
	} else if (!c->interactive) {
		c->quit = 1;
	} else if (turn->answered) {
		notice(c, "[what was said is kept; /undo and /new make room]");
	} else {
		notice(c, "[the question is withdrawn%s]",
		       c->conv.n_msg   ? "; /undo and /new make room"
		       : c->conv.n_doc ? "; /undo drops a document"
		                       : "");
	}
}

/* Tell the user if the answer was stopped before the model ended it. */
static void say_stop(struct chat *c, const struct turn *turn)
{
	if (turn->stop == STOP_LOOP)
		notice(c,
		       c->interactive
		               ? "[stopped: it repeats the same %d tokens, which are kept once; /regen answers anew, /continue goes on]"
		               : "weir: an answer was stopped: it repeats the same %d tokens, which are kept once",
		       turn->loop);
	else if (turn->stop == STOP_LENGTH && c->o.predict < 0)
		notice(c,
		       c->interactive ? "[cut at %s tokens, the length of the context; /continue goes on]"
		                      : "weir: an answer was cut at %s tokens, the length of the context",
		       count_text(turn->answer_tokens).s);
	else if (turn->stop == STOP_LENGTH && c->interactive)
		notice(c, "[cut at %s tokens, as -n asks; /continue goes on]", count_text(turn->answer_tokens).s);
}

/* Tell the user the length and speed of the answer, and how full the context is. */
static void say_summary(struct chat *c, const struct turn *turn, const struct timeline_stats *st)
{
	struct str s = { 0 };
	size_t number, count;

	str_addf(&s, "[%s tokens, %.1f t/s, ", count_text(turn->answer_tokens).s, turn->decode_tps);
	if (!describe_evicted(st, &s))
		str_addf(&s, "context %s%s%s%s", turn->estimated ? "about " : "", count_text((uint64_t)st->n_tokens).s,
		         st->ctx ? " of " : "", st->ctx ? count_text((uint64_t)st->ctx).s : "");
	if (!c->conv.tl && turn->reused_tokens)
		str_addf(&s, ", %s cached", count_text((uint64_t)turn->reused_tokens).s);
	if (chat_variants(c, c->conv.n_msg - 1, &number, &count))
		str_addf(&s, ", variant %zu of %zu", number, count);
	notice(c, "%s]", s.p);
	str_free(&s);
}

static void after_turn(struct chat *c, enum turn_kind kind, const struct turn *turn, int rc, const struct err *e)
{
	struct timeline_stats st;

	conversation_stats(&c->conv, &st);
	if (rc < 0)
		say_failure(c, kind, turn, e);
	else
		say_stop(c, turn);
	if (rc < 0 && e->code == ERR_FIT)
		return;
	if (turn->outgrown && !c->o.quiet)
		notice(c, "%s",
		       c->front->dims
		               ? "[context full: older tokens are evicted from here on. Dimmed words are evicted: the model does not see them any more; F2 shows the cache]"
		       : c->interactive ? "[context full: older tokens are evicted from here on; /stats]"
		                        : "weir: context full: older tokens are evicted");
	say_left_out(c, turn);
	if (!c->interactive || c->o.quiet || !turn->answered)
		return;
	if (turn->recomputed > 1 && st.endless)
		notice(c, "[%s tokens recomputed: evicted tokens cannot be restored]", count_text(turn->recomputed).s);
	if (turn->answer_tokens || !c->goes_on)
		say_summary(c, turn, &st);
}

static int begin_turn(struct chat *c, enum turn_kind kind, const char *text, size_t n, const struct answer_hooks *hooks,
                      struct turn *turn, struct err *e)
{
	switch (kind) {
	case TURN_ASK: return conversation_ask(&c->conv, text, n, hooks, turn, e);
	case TURN_AGAIN: return conversation_regenerate(&c->conv, hooks, turn, e);
	case TURN_GO_ON: break;
	}
	return conversation_continue(&c->conv, hooks, turn, e);
}

enum { WORDS_SHOWN = 60 }; /* maximum number of bytes that are shown of a recalled turn */

/* Show the facts that were added to the prompt for this question: '[from 'garden', 12 May: "The soil is heavy."]'. */
static void show_facts(struct chat *c)
{
	const struct facts *list = facts_of(&c->conv);
	struct str s = { 0 };

	for (size_t i = 0; i < list->n && !c->o.quiet; i++) {
		str_clear(&s);
		fact_origin(list->at[i].from.p, list->at[i].at, &s);
		notice(c, c->interactive ? "[%s: \"%s\"]" : "weir: %s: \"%s\"", s.p, str_text(&list->at[i].text));
	}
	str_free(&s);
}

/* Show the evicted turns that were added to the prompt for this question: '[recalled from turn 12: "first
 * words..."]'. */
static void show_recalled(struct chat *c)
{
	const struct recalls *list = recalls_of(&c->conv);

	for (size_t i = 0; i < list->n && !c->o.quiet; i++) {
		const struct recalled *r = &list->at[i];
		const struct str *text = r->said.n ? &r->said : &r->answered;
		size_t n = text->n <= WORDS_SHOWN ? text->n : utf8_complete(text->p, WORDS_SHOWN);

		notice(c,
		       c->interactive ? "[recalled from turn %zu: \"%.*s%s\"]"
		                      : "weir: recalled from turn %zu: \"%.*s%s\"",
		       r->turn, (int)n, text->p, n < text->n ? "..." : "");
	}
}

void chat_on_event(struct conversation *conv, const struct conversation_event *event, void *ud)
{
	struct chat *c = ud;

	if (event->what == EVENT_NOTICE)
		say("%s", event->text);
	else if (event->what == EVENT_OPENING && event->i)
		progress_begin(&c->opening, c->o.quiet, "making room for the KV cache");
	else if (event->what == EVENT_OPENING)
		progress_clear(&c->opening);
	else if (event->what == EVENT_RECALLED)
		show_recalled(c);
	else if (event->what == EVENT_REMEMBERED)
		show_facts(c);
	else if (event->what == EVENT_SOURCES)
		sources_before(c);
	else if (event->what == EVENT_DOCUMENT_DROPPED && !c->forgetting)
		folder_note(conv, &conv->doc[event->i], 'd');
}

/* Tell the user that no document answers the question, and show the nearest passages. The model was not asked. In a
 * script the exit code is 1, as with grep. */
static void not_found(struct chat *c, const char *text, size_t n)
{
	str_clear(&c->not_found);
	str_add(&c->not_found, text, n);
	if (!c->rc && !c->interactive)
		c->rc = 1;
	notice(c,
	       c->interactive ? "[nothing in the documents clearly answers this%s]"
	                      : "nothing in the documents clearly answers this%s",
	       sources_of(&c->conv)->n && sources_shown(c) ? "; nearest:" : "");
	sources_before(c);
	if (c->interactive)
		notice(c, "[/anyway asks the model without them, /summarize tells the whole]");
}

static void run_turn(struct chat *c, enum turn_kind kind, const char *text, size_t n)
{
	struct answer_hooks hooks = {
		.text = on_text,
		.text_ud = c,
		.progress = chat_prefill_progress,
		.progress_ud = c,
		.stop_loops = strcmp(c->o.loops, "go") != 0,
		.without_documents = c->anyway,
		.evidence = chat_attends(c),
	};
	struct turn turn = { .stop = STOP_LENGTH };
	struct err e = { 0 };
	const struct message *last = kind == TURN_GO_ON ? conversation_answer(&c->conv) : NULL;
	int rc, quit;

	c->hides = chat_hides(c);
	reasoning_free(&c->think);
	c->think.first = chat_thinks_at_once(c);
	c->close_seen = 0;
	c->goes_on = last != NULL;
	c->front->turn(c, text, n);
	/* First pass the old text of the continued answer through the reasoning filter, because it may end inside
	 * reasoning. */
	if (last && c->hides) {
		str_clear(&c->shown);
		reasoning_feed(&c->think, str_text(&last->text), last->text.n, &c->shown);
	}
	signals_work(1); /* from here on Ctrl-C stops the turn, even during the search */
	/* A signal after the last import of a document stops the turn, too. */
	if (!c->interactive && (signals_take_int() || signals_quit()))
		signals_stop();
	rc = begin_turn(c, kind, text, n, &hooks, &turn, &e);
	signals_work(0);
	end_text(c);
	c->front->progress(c, "reading", -1, 0);
	rc = c->front->turned(c, &turn, rc, &e);
	if (rc < 0)
		c->streaming.on = 0; /* a user who stops an answer wants to stop the reading, too */
	if (c->interactive)
		signals_take_int(); /* forget the Ctrl-C that stopped the answer: it is not meant for the prompt */
	if (turn.answered)
		sources_below(c);
	after_turn(c, kind, &turn, rc, &e);
	if (turn.stop == STOP_NOT_FOUND)
		not_found(c, text, n);
	c->goes_on = 0;
	quit = signals_quit();
	/* Standard output is broken. End the program, because no later answer can be written. */
	if (!c->interactive && rc < 0 && e.code == ERR_FAIL)
		c->quit = 1, c->rc = 1;
	if (quit)
		c->quit = 1, c->rc = 128 + quit;
	if (kind == TURN_GO_ON && turn.answered && !turn.answer_tokens && rc >= 0)
		notice(c, "[the answer was complete: the model adds nothing; ask it to go on]");
}

/* Handle a stop by the user while files are read before a question. */
static void stopped_looking(struct chat *c)
{
	if (!may_stay(c))
		c->quit = 1, c->rc = signals_quit() ? 128 + signals_quit() : 130;
}

/* Ask a question, after looking at the files of the documents. */
static void turn_whole(struct chat *c, const char *text, size_t n)
{
	if (folders_look(c) < 0) {
		stopped_looking(c);
		return;
	}
	chat_look_at_files(c);
	if (text && summary_asked(c, text, n))
		return;
	if (text)
		chat_read_document(c);
	run_turn(c, text ? TURN_ASK : TURN_AGAIN, text, n);
	if (text)
		offer_summary(c, text, n);
}

void chat_turn(struct chat *c, const char *text, size_t n)
{
	struct str framed = { 0 };

	if (text && c->frame.n) {
		role_frame(c, text, n, &framed);
		turn_whole(c, framed.p, framed.n);
	} else {
		turn_whole(c, text, n);
	}
	str_free(&framed);
}

void chat_turn_anyway(struct chat *c)
{
	struct str text = c->not_found;

	if (!text.n) {
		notice(c, "[/anyway answers a question that the documents did not answer; there is none]");
		return;
	}
	c->not_found = (struct str){ 0 };
	c->anyway = 1;
	run_turn(c, TURN_ASK, text.p, text.n);
	c->anyway = 0;
	str_free(&text);
}

void chat_continue(struct chat *c)
{
	run_turn(c, TURN_GO_ON, NULL, 0);
}
