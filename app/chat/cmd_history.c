/* app/chat/cmd_history.c - the commands that remove, repeat or extend messages: /new, /undo, /redo, /edit, /regen,
 * /continue and /anyway. */
#include "app/chat/chat_private.h"

#include <stdlib.h>
#include <string.h>

void slash_new(struct chat *c, char *arg)
{
	(void)arg;
	c->streaming.on = 0;
	conversation_clear(&c->conv);
	notice(c, c->conv.n_doc == 1 ? "[a new conversation; the document stays, /undo drops it]"
	          : c->conv.n_doc    ? "[a new conversation; the documents stay, /undo drops the last]"
	                             : "[a new conversation]");
}

void slash_regen(struct chat *c, char *arg)
{
	(void)arg;
	chat_turn(c, NULL, 0);
}

void slash_anyway(struct chat *c, char *arg)
{
	(void)arg;
	chat_turn_anyway(c);
}

void slash_undo(struct chat *c, char *arg)
{
	char *end;
	long n = *arg ? strtol(arg, &end, 10) : 1;
	struct err e = { 0 };
	struct str name = { 0 };
	size_t done;
	int rc;

	if (*arg && (*end || n < 1 || n > 1000000)) {
		err_set(&e, ERR_USAGE, "/undo wants a number of turns from 1 up, not '%.40s'", arg);
		chat_error(c, &e);
		return;
	}
	if (!*arg && (rc = conversation_undo_replaced(&c->conv, &name, &e))) {
		if (rc < 0)
			chat_error(c, &e);
		else
			notice(c,
			       "[document '%s' is again as it was before it was read anew; /redo restores the new one]",
			       name.p);
		str_free(&name);
		return;
	}
	if (!*arg && conversation_drop_last_document(&c->conv, &name)) {
		notice(c, "[document '%s' is dropped; /redo restores it]", str_text(&name));
		str_free(&name);
		return;
	}
	done = conversation_undo(&c->conv, (size_t)n);
	if (done)
		notice(c, c->conv.n_undone ? "[%zu %s undone; /redo restores]" : "[%zu %s undone]", done,
		       done == 1 ? "turn" : "turns");
	else
		notice(c, "[there is nothing to undo]");
}

void slash_redo(struct chat *c, char *arg)
{
	long n = *arg ? number_of(arg) : 1, turns = 0, documents = 0;
	struct err e = { 0 };
	struct str s = { 0 }, name = { 0 };
	int rc = 1;

	if (!n)
		err_set(&e, ERR_USAGE, "/redo wants a number of turns from 1 up, not '%.40s'", arg);
	for (; n && !e.code && rc > 0; n--) {
		str_clear(&name);
		rc = conversation_redo(&c->conv, &name, &e);
		documents += rc > 0 && name.n;
		turns += rc > 0 && !name.n;
	}
	if (turns)
		str_addf(&s, "[%ld %s there again", turns, turns == 1 ? "turn is" : "turns are");
	if (documents && name.n)
		str_addf(&s, "%sdocument '%s' is there again", turns ? ", " : "[", name.p);
	else if (documents)
		str_addf(&s, "%s%ld %s there again", turns ? ", " : "[", documents,
		         documents == 1 ? "document is" : "documents are");
	if (s.n)
		notice(c, "%s]", s.p);
	else if (!e.code)
		notice(c, "[there is nothing to redo: no /undo or /drop since the last question]");
	if (e.code)
		chat_error(c, &e);
	str_free(&s);
	str_free(&name);
}

void slash_continue(struct chat *c, char *arg)
{
	(void)arg;
	chat_continue(c);
}

/* Undo the last n turns, and put the question of the first of them into the input line. */
static void edit_question(struct chat *c, long n, struct err *e)
{
	struct str text = { 0 };
	size_t i = c->conv.n_msg, from;
	long left = n;

	while (i && left)
		left -= c->conv.msg[--i].role == ROLE_USER;
	if (left) {
		err_set(e, ERR_USAGE,
		        n == 1 ? "there is no question yet to edit" : "there is no question of %ld turns ago", n);
		return;
	}
	from = question_at(&c->conv.msg[i]);
	str_add(&text, str_text(&c->conv.msg[i].text) + from, c->conv.msg[i].text.n - from);
	conversation_undo(&c->conv, (size_t)n);
	if (i < c->n_came_back) {
		untyped_note(text.p, text.n);
		c->n_came_back = i;
	}
	c->front->draft(c, text.p, text.n);
	notice(c,
	       n == 1 ? "[the last question is undone to be asked differently; /redo restores it]"
	              : "[%ld turns are undone; /redo %ld restores them]",
	       n, n);
	str_free(&text);
}

void slash_edit(struct chat *c, char *arg)
{
	struct err e = { 0 };
	char *end = arg;
	long n = *arg ? strtol(arg, &end, 10) : 1;

	if (c->front->draft && (!*arg || (!*end && n >= 1 && n <= 1000000)))
		edit_question(c, n, &e);
	else if (!*arg)
		err_set(&e, ERR_USAGE, "/edit wants the question as it shall be");
	else if (!conversation_undo(&c->conv, 1))
		err_set(&e, ERR_USAGE, "there is no question yet to edit");
	else
		chat_turn(c, arg, strlen(arg));
	if (e.code)
		chat_error(c, &e);
}
