/* app/chat/current_session.c - the session that stores the conversation: tells the user why there is none, shows the
 * last messages of a resumed session, switches to another session. */
#include "app/chat/chat_private.h"

#include <string.h>

/* SHOWN: number of turns of a resumed session that are shown. SHOWN_LINES: number of lines of each message that are
 * shown. */
enum { SHOWN = 2, SHOWN_LINES = 12 };

int chat_no_sessions(const struct chat *c, struct err *e)
{
	if (c->log && c->log->read_only > 0)
		return err_set(
			e, ERR_USAGE,
			"this session is only read here: another weir (process %ld) writes it; /new begins another",
			c->log->read_only);
	if (c->log)
		return err_set(e, ERR_USAGE, "%s",
		               c->log->read_only
		                       ? "this session is only read here: another weir writes it; /new begins another"
		                       : "this conversation is not saved any more; /log says why");
	return err_set(e, ERR_USAGE, "this conversation is not saved: %s",
	               c->o.private_talk ? "start weir without --private to have sessions"
	               : c->interactive  ? "the sessions were not opened when weir started"
	                                 : "start weir with -s NAME");
}

int chat_unkept(struct chat *c)
{
	struct err e = { 0 };

	if (c->log && !c->log->failed)
		return 0;
	chat_no_sessions(c, &e);
	chat_error(c, &e);
	return 1;
}

int chat_sessionless(struct chat *c)
{
	return !(c->log && c->log->read_only) && chat_unkept(c);
}

/* Append the first SHOWN_LINES lines of a text, and a line that says how many more there are. */
static void add_lines(struct str *out, const char *mark, const struct str *text)
{
	const char *p = str_text(text), *end = p + text->n;
	int left = 0;

	for (int i = 0; p < end; i++) {
		const char *stop = memchr(p, '\n', (size_t)(end - p));
		size_t n = (size_t)((stop ? stop : end) - p);

		if (i < SHOWN_LINES) {
			str_adds(out, i && *mark ? "  " : mark);
			str_add(out, p, n);
			str_adds(out, "\n");
		} else {
			left++;
		}
		p += n + (stop != NULL);
	}
	if (left)
		str_addf(out, "  ... %d more %s\n", left, left == 1 ? "line" : "lines");
}

void chat_cut_note(const struct chat *c, size_t i, struct str *out)
{
	const struct message *m = &c->conv.msg[i];
	int last = i + 1 == c->conv.n_msg;

	if (m->interrupted)
		str_addf(out, "%s[interrupted%s]", out->n ? " " : "", last ? "; /continue goes on" : "");
	else if (last && m->role == ROLE_USER && !m->read)
		str_addf(out, "%s[not answered; /continue answers]", out->n ? " " : "");
}

void chat_tail(const struct chat *c, struct str *out)
{
	const struct conversation *conv = &c->conv;
	size_t from = conv->n_msg > 2 * SHOWN ? conv->n_msg - 2 * SHOWN : 0;

	while (from && conv->msg[from].role != ROLE_USER)
		from--;
	if (from)
		str_addf(out, "... %zu messages before\n", from);
	for (size_t i = from; i < conv->n_msg; i++) {
		struct str text = { 0 }, note = { 0 };

		chat_message(c, &conv->msg[i], &text, &note);
		if (note.n)
			str_addf(out, "(%s)\n", note.p);
		add_lines(out, conv->msg[i].role == ROLE_USER ? "> " : "", &text);
		str_clear(&note);
		chat_source_lines(c, &conv->msg[i], &note);
		if (note.n)
			str_addf(out, "%s\n", note.p);
		str_clear(&note);
		chat_cut_note(c, i, &note);
		if (note.n)
			str_addf(out, "%s\n", note.p);
		str_free(&text);
		str_free(&note);
	}
	while (out->n && out->p[out->n - 1] == '\n')
		out->p[--out->n] = 0;
}

void chat_switch(struct chat *c, int64_t session, int wait)
{
	struct str note = { 0 };
	struct err e = { 0 };
	long by = 0;

	if (chat_sessionless(c))
		return;
	if (session_log_hold(c->log, session, 0, &by, &e) < 0 && by && wait) {
		notice(c, "[%s: waiting until it is; %s ends that]", e.msg, c->front->ask ? "Ctrl-C" : "Esc");
		e = (struct err){ 0 };
		session_log_hold(c->log, session, 1, &by, &e);
	}
	if (e.code && (wait || !by)) {
		chat_error(c, &e);
		return;
	}
	c->streaming.on = 0;
	if (by)
		notice(c, "[%s; it is only read here, and nothing is saved]", e.msg);
	if (session_log_switch(c->log, &c->conv, &c->o, session, by, &note, &e) < 0) {
		chat_error(c, &e);
		c->quit |= !conversation_is_open(&c->conv);
	} else {
		if (note.n && !c->o.quiet)
			notice(c, "[%s]", note.p);
		str_clear(&c->role);
		str_clear(&c->frame);
		c->n_came_back = c->conv.n_msg;
		c->front->came_back(c);
		chat_look_at_files(c);
	}
	str_free(&note);
}

void chat_goodbye(struct chat *c)
{
	struct str title = { 0 };

	if (c->o.quiet || !c->interactive || !c->log || c->log->failed || !c->log->session || !c->conv.n_msg)
		return;
	session_log_title(c->log, &title);
	if (title.n)
		say("kept as '%.80s'; weir --continue goes on with it", title.p);
	str_free(&title);
}
