/* app/chat/deferred_delete.c - deletes sessions late, so that /undelete can restore them for some seconds.
 *
 * A deleted session is no longer listed. It stays on the disk for DELETE_UNDO seconds, or until the program ends
 * normally. If the program is killed before that, the session is not deleted. */
#include <stdlib.h>
#include <string.h>

#include "app/chat/chat_private.h"

int chat_is_deleted(const struct chat *c, int64_t session)
{
	for (size_t i = 0; i < c->n_deleted; i++)
		if (c->deleted[i].session == session)
			return 1;
	return 0;
}

static void deleted_forget(struct chat *c, size_t i)
{
	str_free(&c->deleted[i].name);
	c->n_deleted--;
	memmove(c->deleted + i, c->deleted + i + 1, (c->n_deleted - i) * sizeof *c->deleted);
	if (!c->n_deleted) {
		free(c->deleted);
		c->deleted = NULL;
	}
}

double chat_delete_next(const struct chat *c)
{
	/* deleted[] is in the order of deletion, so the first entry is the first whose time is over */
	return c->n_deleted ? c->deleted[0].until : 0;
}

void chat_delete_due(struct chat *c, int all)
{
	for (size_t i = 0; i < c->n_deleted;) {
		struct err e = { 0 };

		if (!all && c->deleted[i].until > now_seconds())
			break;
		if (c->log && session_log_delete(c->log, &c->conv, c->deleted[i].session, &e) < 0)
			chat_error(c, &e);
		deleted_forget(c, i);
	}
}

/* Append the name of a session in the form in which lists show it. */
static int name_of(struct chat *c, int64_t session, struct str *out, int *messages, struct err *e)
{
	struct session s;

	if (session_get(c->log->store, session, &s, e) < 0)
		return -1;
	if (*s.name || *s.title)
		str_adds(out, *s.name ? s.name : s.title);
	else
		str_addf(out, "session %lld", (long long)s.id);
	*messages = s.messages;
	return 0;
}

void chat_delete(struct chat *c, int64_t session)
{
	struct deleted *d;
	struct str name = { 0 };
	struct err e = { 0 };
	int messages;
	long by;

	if (chat_is_deleted(c, session))
		return;
	/* Lock the session, so that no other weir process starts to write it before it is deleted. */
	if (session_log_hold(c->log, session, 0, &by, &e) < 0 || name_of(c, session, &name, &messages, &e) < 0) {
		chat_error(c, &e);
		str_free(&name);
		return;
	}
	c->deleted = xrealloc(c->deleted, (c->n_deleted + 1) * sizeof *c->deleted);
	d = &c->deleted[c->n_deleted++];
	*d = (struct deleted){ .session = session, .until = now_seconds() + DELETE_UNDO, .name = name };
	d->was_here = session == c->log->session;
	if (d->was_here) {
		c->streaming.on = 0;
		conversation_clear(&c->conv); /* clearing the conversation also leaves the session */
		session_log_hold(c->log, session, 0, &by, &e);
	}
	notice(c, "[session '%s' is deleted; /undelete restores it within %.0f seconds]", name.p, DELETE_UNDO);
}

int chat_undelete(struct chat *c)
{
	struct str name = { 0 };
	struct err e = { 0 };
	int64_t session;
	int here;

	if (!c->n_deleted) {
		err_set(&e, ERR_USAGE, "there is nothing to undelete: after %.0f seconds a session is deleted for good",
		        DELETE_UNDO);
		chat_error(c, &e);
		return -1;
	}
	name = c->deleted[c->n_deleted - 1].name;
	c->deleted[c->n_deleted - 1].name = (struct str){ 0 };
	session = c->deleted[c->n_deleted - 1].session;
	here = c->deleted[c->n_deleted - 1].was_here;
	deleted_forget(c, c->n_deleted - 1);
	session_leave(c->log->store, session);
	notice(c, "[session '%s' is there again]", str_text(&name));
	str_free(&name);
	/* Open the deleted session again if it was the current one, and if no message was added after the deletion. */
	if (here && c->log && !c->log->session && !c->conv.n_msg)
		chat_switch(c, session, 0);
	return 0;
}

/* Set *id to the session that arg names, or to the current session. */
static int session_meant(struct chat *c, const char *arg, int64_t *id, struct err *e)
{
	if (*arg)
		return session_find(c->log->store, arg, id, e);
	*id = c->log->session;
	return *id ? 0 : err_set(e, ERR_USAGE, "there is nothing to delete yet; /delete NAME deletes another session");
}

void slash_delete(struct chat *c, char *arg)
{
	struct str name = { 0 }, question = { 0 };
	struct err e = { 0 };
	int64_t id = 0;
	int messages = 0;

	if (chat_unkept(c))
		return;
	if (session_meant(c, arg, &id, &e) < 0 || name_of(c, id, &name, &messages, &e) < 0)
		;
	else if (chat_is_deleted(c, id))
		err_set(&e, ERR_USAGE, "session '%.60s' is deleted already; /undelete restores it", name.p);
	else if (!c->front->ask)
		err_set(&e, ERR_USAGE, "/delete asks first, and nobody can be asked here; use 'weir sessions rm'");
	if (e.code) {
		chat_error(c, &e);
	} else {
		str_addf(&question, "delete session '%s' (%d %s)? y/n ", name.p, messages,
		         messages == 1 ? "message" : "messages");
		if (c->front->ask(c, question.p))
			chat_delete(c, id);
		else
			notice(c, "[it stays]");
	}
	str_free(&name);
	str_free(&question);
}

void slash_undelete(struct chat *c, char *arg)
{
	(void)arg;
	chat_undelete(c);
}
