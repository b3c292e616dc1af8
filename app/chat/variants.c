/* app/chat/variants.c - /variant: shows another answer to an earlier question, or another wording of the question.
 *
 * A session is a tree of messages: /regen adds an answer to a question, /edit adds a second question after the
 * same message. The variants of a turn are all answers to all of these questions, oldest first. */
#include "app/chat/chat_private.h"

#include <stdlib.h>
#include <string.h>

enum {
	TURNS_SEARCHED = 200, /* number of newest turns that are searched for variants */
	DEPTH_MOST = 100000,  /* maximum number of messages of a branch */
};

struct variant {
	int64_t question, answer;
};
/* The n variants of a turn. `now` is the index of the variant on the screen, or n if none is on the screen. */
struct variants {
	struct variant *at;
	size_t n, now;
};

/* Messages that directly follow one message in the tree and have the same role. */
struct children {
	struct stored_message *m;
	size_t n;
	int role;
};

static int add_child(const struct stored_message *m, void *ud)
{
	struct children *f = ud;
	char *text;

	if (m->role != f->role)
		return 0;
	text = xmalloc(m->n_text); /* the text may contain NUL bytes */
	memcpy(text, m->text, m->n_text);
	f->m = xrealloc(f->m, (f->n + 1) * sizeof *f->m);
	f->m[f->n] = *m;
	f->m[f->n].text = text;
	f->n++;
	return 0;
}

static void children_free(struct children *f)
{
	for (size_t i = 0; i < f->n; i++)
		free((char *)(uintptr_t)f->m[i].text);
	free(f->m);
	*f = (struct children){ 0 };
}

static int find_behind(const struct chat *c, int64_t message, int role, struct children *out, struct err *e)
{
	*out = (struct children){ .role = role };
	if (!message_children(c->log->store, c->log->session, message, add_child, out, e))
		return 0;
	children_free(out);
	return -1;
}

/* Find the variants of the turn whose question is message q. The caller frees out->at. */
static int find_variants(const struct chat *c, size_t q, struct variants *out, struct err *e)
{
	const struct message *m = &c->conv.msg[q];
	int64_t shown = q + 1 < c->conv.n_msg ? m[1].stored : 0;
	struct children questions, answers;
	int rc = find_behind(c, q ? m[-1].stored : 0, ROLE_USER, &questions, e);

	*out = (struct variants){ .n = 0 };
	for (size_t i = 0; !rc && i < questions.n; i++) {
		rc = find_behind(c, questions.m[i].id, ROLE_ASSISTANT, &answers, e);
		for (size_t k = 0; !rc && k < answers.n; k++) {
			const struct stored_message *a = &answers.m[k], *b = a + 1;

			/* Skip an answer that is only the beginning of the next one: /continue has stored the
			 * longer answer as a new message. */
			if (k + 1 < answers.n && a->id != shown && a->n_text <= b->n_text &&
			    !memcmp(a->text, b->text, a->n_text))
				continue;
			if (a->id == shown)
				out->now = out->n;
			out->at = xrealloc(out->at, (out->n + 1) * sizeof *out->at);
			out->at[out->n++] = (struct variant){ questions.m[i].id, a->id };
		}
		if (!rc)
			children_free(&answers);
	}
	if (!shown)
		out->now = out->n;
	if (rc >= 0)
		children_free(&questions);
	return rc;
}

static int is_kept(const struct chat *c)
{
	return c->log && !c->log->failed && c->log->session && !c->conv.grows;
}

int chat_variants(const struct chat *c, size_t answer, size_t *number, size_t *count)
{
	struct variants v;
	struct err e = { 0 };

	if (!is_kept(c) || !answer || c->conv.msg[answer].role != ROLE_ASSISTANT || !c->conv.msg[answer].stored ||
	    find_variants(c, answer - 1, &v, &e) < 0)
		return 0;
	*number = v.now + 1;
	*count = v.n;
	free(v.at);
	return v.n > 1 && *number <= *count;
}

/* ---- showing another variant ---- */

/* Of the branches that begin with the message `answer`, take the newest, and set *end to its last message. Returns 0 or
 * -1. */
static int newest_end(const struct chat *c, int64_t answer, int64_t *end, struct err *e)
{
	*end = answer;
	for (int i = 0; i < DEPTH_MOST; i++) {
		struct children questions, answers = { 0 };
		int64_t next = 0;

		if (find_behind(c, *end, ROLE_USER, &questions, e) < 0)
			return -1;
		/* Skip a question that was stopped before its answer began: it has no answer to show. */
		for (size_t k = questions.n; k-- && !next;) {
			if (find_behind(c, questions.m[k].id, ROLE_ASSISTANT, &answers, e) < 0) {
				children_free(&questions);
				return -1;
			}
			if (answers.n)
				next = answers.m[answers.n - 1].id;
			children_free(&answers);
		}
		children_free(&questions);
		if (!next)
			return 0;
		*end = next;
	}
	return 0;
}

/* Find the last turn that has variants. Returns the index of the turn's question, or -1. The caller frees v->at. */
static long last_with_variants(const struct chat *c, struct variants *v, struct err *e)
{
	int left = TURNS_SEARCHED;

	for (size_t i = c->conv.n_msg; i-- && left;) {
		if (c->conv.msg[i].role != ROLE_USER)
			continue;
		left--;
		if (find_variants(c, i, v, e) < 0)
			return -1;
		if (v->n > 1 || (v->n && v->now == v->n))
			return (long)i;
		free(v->at);
	}
	return -1;
}

void slash_variant(struct chat *c, char *arg)
{
	long n = *arg ? number_of(arg) : 0, q, to = 0;
	int step = !*arg || !strcmp(arg, "next") ? 1 : !strcmp(arg, "previous") ? -1 : 0;
	struct variants v = { 0 };
	struct err e = { 0 };
	int64_t end;

	if (!step && !n) {
		err_set(&e, ERR_USAGE, "/variant wants a number, 'next' or 'previous', not '%.40s'", arg);
		chat_error(c, &e);
		return;
	}
	if (chat_unkept(c))
		return;
	q = is_kept(c) ? last_with_variants(c, &v, &e) : -1;
	if (q < 0 && !e.code) {
		notice(c, "[there is one answer to each question; /regen and /edit make variants]");
	} else if (q >= 0 && n > (long)v.n) {
		err_set(&e, ERR_USAGE, "there are %zu variants of that turn", v.n);
	} else if (q >= 0) {
		to = n ? n - 1 : (long)v.now + step;
		/* If the screen shows none of the variants, `next` and `previous` both show the last variant. */
		if (!n && v.now == v.n)
			to = (long)v.n - 1;
		if (to < 0 || to >= (long)v.n)
			notice(c, to < 0 ? "[this is the first of %zu variants]" : "[this is the last of %zu variants]",
			       v.n);
		else if (!newest_end(c, v.at[to].answer, &end, &e) &&
		         !session_log_show(c->log, &c->conv, (size_t)q, end, &e)) {
			c->front->came_back(c);
			if (!c->front->notes)
				notice(c, "[variant %ld of %zu]", to + 1, v.n);
		}
	}
	if (e.code)
		chat_error(c, &e);
	if (q >= 0)
		free(v.at);
}
