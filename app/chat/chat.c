/* app/chat/chat.c - opening, turns and what the user typed (chat.h). */
#include "app/chat/chat_private.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- reasoning ---- */

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
	struct reasoning think = {.first = 0};

	if (!chat_hides(c) || m->role != ROLE_ASSISTANT) {
		str_add(out, text, m->text.n);
		return;
	}
	/* Where the reply's head opened the reasoning, the message has its end mark alone, or no mark while it is unfinished. */
	close = strstr(text, "</think>");
	open = strstr(text, "<think>");
	think.first = engine_info(c->t.engine)->thinks_first && (close ? !open || open > close : !chat_never_thinks(c));
	reasoning_feed(&think, text, m->text.n, out);
	reasoning_end(&think, out);
	if (note)
		reasoning_describe(&think, note);
	reasoning_free(&think);
}

/* ---- an answer ---- */

static int on_text(const char *bytes, size_t n, void *ud, struct err *e)
{
	struct chat *c = ud;

	if (!c->hides)
		return c->front->text(c, bytes, n, e);
	str_clear(&c->shown);
	reasoning_feed(&c->think, bytes, n, &c->shown);
	c->thinking = c->think.at == REASONING_WITHIN;
	return c->front->text(c, c->shown.p ? c->shown.p : "", c->shown.n, e);
}

/* The answer is complete: show the bytes that were held back. */
static void end_text(struct chat *c)
{
	struct err e = {0};

	c->thinking = 0;
	if (!c->hides)
		return;
	str_clear(&c->shown);
	reasoning_end(&c->think, &c->shown);
	if (c->shown.n)
		c->front->text(c, c->shown.p, c->shown.n, &e);
}

void chat_prefill_progress(int32_t done, int32_t total, void *ud)
{
	struct chat *c = ud;

	c->front->progress(c, "reading", done, total);
}

static void after_turn(struct chat *c, const struct turn *turn, int rc, const struct err *e)
{
	struct timeline_stats st;
	struct str s = {0};

	timeline_stats(c->t.tl, &st);
	if (rc < 0 && e->code == ERR_CANCELLED) {
		if (c->interactive)
			notice(c, "%s", turn->answered ? "[stopped]" : "[stopped before the answer began: the question is withdrawn]");
		else
			c->quit = 1, c->rc = 130;
	} else if (rc < 0 && e->code == ERR_FIT) {
		chat_error(c, e);
		if (!c->interactive)
			c->quit = 1;
		else if (turn->answered)
			notice(c, "[what was said is kept; /undo and /new make room]");
		else
			notice(c, "[the question is withdrawn%s]", c->t.n_msg ? "; /undo and /new make room" :
			       c->t.n_doc ? "; /undo drops a document" : "");
		return;
	} else if (rc < 0) {
		chat_error(c, e);
		c->quit |= e->code == ERR_FAIL && !e->msg[0];
	} else if (turn->stop == STOP_LENGTH && c->o.predict < 0) {
		notice(c, c->interactive ? "[cut at %d tokens, the length of the context; /continue goes on]" :
		       "weir: an answer was cut at %d tokens, the length of the context", turn->answer_tokens);
	} else if (turn->stop == STOP_LENGTH && c->interactive) {
		notice(c, "[cut at %d tokens, as -n asks; /continue goes on]", turn->answer_tokens);
	}
	if (turn->outgrown && !c->o.quiet)
		notice(c, "%s", c->interactive ?
		       "[context full: older tokens are evicted from here on; /stats]" :
		       "weir: context full: older tokens are evicted");
	if (!c->interactive || c->o.quiet || !turn->answered)
		return;
	if (turn->recomputed > 1 && st.endless)
		notice(c, "[%d tokens recomputed: evicted tokens cannot be restored]", turn->recomputed);
	if (!turn->answer_tokens && c->goes_on)
		return;
	str_addf(&s, "[%d tokens, %.1f t/s, ", turn->answer_tokens, turn->decode_tps);
	if (!describe_evicted(&st, &s))
		str_addf(&s, "context %d of %d", st.n_tokens, st.ctx);
	notice(c, "%s]", s.p);
	str_free(&s);
}

enum turn_kind { TURN_ASK, TURN_AGAIN, TURN_GO_ON };

static int begin_turn(struct chat *c, enum turn_kind kind, const char *text, size_t n, const struct answer_hooks *hooks,
                      struct turn *turn, struct err *e)
{
	switch (kind) {
	case TURN_ASK:   return conversation_ask(&c->t, text, n, hooks, turn, e);
	case TURN_AGAIN: return conversation_regenerate(&c->t, hooks, turn, e);
	case TURN_GO_ON: break;
	}
	return conversation_continue(&c->t, hooks, turn, e);
}

enum { SOURCES_SHOWN = 3 };

/* '[1] report.pdf, page 12, "Methods": "the sentence"', before the answer begins. */
static void on_sources(struct conversation *t, void *ud)
{
	struct chat *c = ud;
	struct str s = {0};

	if (c->o.quiet || (c->o.sources && !strcmp(c->o.sources, "off")))
		return;
	for (size_t i = 0; i < t->sources.n && i < SOURCES_SHOWN; i++) {
		const struct source *from = &t->sources.at[i];

		str_addf(&s, "%s[%zu] ", i ? "\n" : "", i + 1);
		source_place(t, from->doc, from->quote, from->quote_end, &s);
		str_adds(&s, ": \"");
		source_quote(t, from, &s);
		str_adds(&s, "\"");
	}
	if (s.n)
		notice(c, "%s", s.p);
	str_free(&s);
}

enum { WORDS_SHOWN = 60 };   /* bytes of a recalled turn */

/* '[recalled from turn 12: "first words..."]', before the answer begins. */
static void on_recalled(struct conversation *t, void *ud)
{
	struct chat *c = ud;

	for (size_t i = 0; i < t->n_recalled && !c->o.quiet; i++) {
		const struct recalled *r = &t->recalled[i];
		const struct str *text = r->said.n ? &r->said : &r->answered;
		size_t n = text->n <= WORDS_SHOWN ? text->n : utf8_complete(text->p, WORDS_SHOWN);

		notice(c, c->interactive ? "[recalled from turn %zu: \"%.*s%s\"]" : "weir: recalled from turn %zu: \"%.*s%s\"", r->turn, (int)n, text->p,
		       n < text->n ? "..." : "");
	}
}

/* Nothing in the documents answers the question: say so instead of answering from nothing. */
static void not_found(struct chat *c, const char *text, size_t n)
{
	str_clear(&c->not_found);
	str_add(&c->not_found, text, n);
	notice(c, c->interactive ? "[nothing in the documents answers this; /anyway asks the model without them, /summarize tells the whole]" :
	       "nothing in the documents answers this");
}

static void run_turn(struct chat *c, enum turn_kind kind, const char *text, size_t n)
{
	struct answer_hooks hooks = {
		.text = on_text, .text_ud = c, .progress = chat_prefill_progress, .progress_ud = c, .sources = on_sources, .sources_ud = c,
		.recalled = on_recalled, .recalled_ud = c,
		.without_documents = c->anyway,
	};
	struct turn turn = {.stop = STOP_LENGTH};
	struct err e = {0};
	const struct message *last = kind == TURN_GO_ON ? conversation_answer(&c->t) : NULL;
	int rc, quit;

	c->hides = chat_hides(c);
	reasoning_free(&c->think);
	c->think.first = engine_info(c->t.engine)->thinks_first && !chat_never_thinks(c);
	c->goes_on = last != NULL;
	c->front->turn(c, text, n);
	/* Feed the reasoning filter what the answer has so far. */
	if (last && c->hides) {
		str_clear(&c->shown);
		reasoning_feed(&c->think, last->text.p ? last->text.p : "", last->text.n, &c->shown);
	}
	rc = begin_turn(c, kind, text, n, &hooks, &turn, &e);
	end_text(c);
	c->front->progress(c, "reading", -1, 0);
	rc = c->front->turned(c, &turn, rc, &e);
	if (rc < 0)
		c->streaming.on = 0;   /* whoever stops an answer does not want the text read on, either */
	if (c->interactive)
		signals_take_int();   /* this Ctrl-C has stopped the answer: hide it from the prompt */
	after_turn(c, &turn, rc, &e);
	if (turn.stop == STOP_NOT_FOUND)
		not_found(c, text, n);
	c->goes_on = 0;
	quit = signals_quit();
	/* Standard output is broken: no later answer can be written. */
	if (!c->interactive && rc < 0 && e.code == ERR_FAIL)
		c->quit = 1, c->rc = 1;
	if (quit)
		c->quit = 1, c->rc = 128 + quit;
	if (kind == TURN_GO_ON && turn.answered && !turn.answer_tokens && rc >= 0)
		notice(c, "[the answer was complete: the model adds nothing; ask it to go on]");
}

void chat_turn(struct chat *c, const char *text, size_t n)
{
	chat_look_at_files(c);
	run_turn(c, text ? TURN_ASK : TURN_AGAIN, text, n);
}

void chat_turn_anyway(struct chat *c)
{
	struct str text = c->not_found;

	if (!text.n) {
		notice(c, "[/anyway answers a question that the documents did not answer; there is none]");
		return;
	}
	c->not_found = (struct str){0};
	c->anyway = 1;
	run_turn(c, TURN_ASK, text.p, text.n);
	c->anyway = 0;
	str_free(&text);
}

void chat_continue(struct chat *c)
{
	run_turn(c, TURN_GO_ON, NULL, 0);
}

/* ---- what the user typed ---- */

void chat_take(struct chat *c, struct str *text)
{
	size_t at = 0;

	while (at < text->n && strchr(" \t\r\n", text->p[at]))
		at++;
	if (at == text->n)
		return;
	if (text->p[0] == '/' && text->n > 1 && text->p[1] == '/') {
		chat_turn(c, text->p + 1, text->n - 1);
	} else if (text->p[0] == '/') {
		slash_run(c, text->p);
	} else if (!c->interactive || attach_files(c, text) == 0) {   /* @FILE counts only where a user types */
		chat_turn(c, text->p, text->n);
		offer_summary(c, text->p, text->n);
	}
}

/* ---- opening ---- */

void chat_banner(struct chat *c)
{
	const struct engine_info *i = engine_info(c->t.engine);
	struct timeline_stats st;
	struct str name = {0};

	timeline_stats(c->t.tl, &st);
	clean_line(i->name, strlen(i->name), &name);
	notice(c, "weir %s: %.40s, %s, context of %d tokens", WEIR_VERSION, name.p, i->quant, st.ctx);
	notice(c, "/help lists the commands, Ctrl-C stops an answer, Ctrl-D quits");
	str_free(&name);
}

/* `weir benhc`: the word names no file and is nearly a command. */
static int mistyped_command(const struct options *o, struct err *e)
{
	char name[32];
	struct nearest near;
	const char *word = o->n_file ? o->file[0] : "-";

	if (strchr(word, '/') || !strcmp(word, "-") || access(word, F_OK) == 0)
		return 0;
	nearest_init(&near, word, strlen(word));
	for (const struct command_def *c = command_defs; c->name; c++) {
		snprintf(name, sizeof name, "%.*s", (int)strcspn(c->name, " "), c->name);
		near.best = NULL;
		nearest_try(&near, name);
		if (near.best)
			return err_set(e, ERR_DOCUMENT, "there is no document '%.60s'; is it the command '%s'?", word, name);
	}
	return 0;
}

/* Open the documents.  After `weir -` read its document from standard input, the terminal becomes standard input. */
static int open_documents(struct chat *c, struct err *e)
{
	int dash = 0, fd, reads = c->o.command == CMD_READ;

	if (reads && !c->o.n_file)
		return err_set(e, ERR_USAGE, "'weir read' wants a file, or - for standard input");
	doc_stop_when(signals_stopped);
	for (int i = 0; i < c->o.n_file; i++) {
		dash |= !strcmp(c->o.file[i], "-");
		if (reads ? chat_stream_open(c, c->o.file[i], e) < 0 : chat_documents(c, c->o.file[i], e) < 0) {
			if (e->code == ERR_CANCELLED)
				say("%s", e->msg);
			return -1;
		}
	}
	/* Standard input is the document, unless FILEs are named: a loop that feeds us names must keep its input. */
	if (c->o.prompt)
		return !reads && !c->o.n_file && !isatty(0) ? document_from_stdin(c, e) : 0;
	if (!dash)
		return 0;
	fd = open("/dev/tty", O_RDWR);
	if (fd < 0 || dup2(fd, 0) < 0)
		return err_set(e, ERR_USAGE, "standard input was the text and there is no terminal to ask at; give -p TEXT");
	close(fd);
	return 0;
}

int chat_open(struct chat *c, struct options *o, struct str *note, struct err *e)
{
	c->o = *o;
	if ((o->command == CMD_CHAT && mistyped_command(o, e) < 0) || session_log_open(&c->log, &c->o, e) < 0 || conversation_open(&c->t, &c->o, e) < 0)
		return -1;
	document_search_attach(c);
	message_search_attach(c);
	if (session_log_resume(c->log, &c->t, note, e) < 0 || open_documents(c, e) < 0)
		return -1;
	return 0;
}

void chat_close(struct chat *c, struct options *o)
{
	chat_stream_close(c);
	chat_delete_due(c, 1);
	document_search_close(c);
	summaries_free(c);
	message_search_close(c);
	session_log_close(c->log);
	conversation_close(&c->t);
	reasoning_free(&c->think);
	str_free(&c->shown);
	str_free(&c->not_found);
	options_take_back(o, &c->o);
}
