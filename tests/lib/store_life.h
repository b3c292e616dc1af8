/* tests/lib/store_life.h - random sequences of changes to a store (lives): sessions grow, fork and are deleted.
 *
 * Each step is written to a diary before it is made, and again after the store has acknowledged it. However a life
 * ends, the store must be the result of the acknowledged steps, or of one more step. */
#ifndef WEIR_STORE_LIFE_H
#define WEIR_STORE_LIFE_H

#include "tests/lib/storedir.h"

#include <xxhash.h>

enum { CHATS = 10, PATH = 40 };
struct chat {
	int64_t id;
	int n;
	int64_t message[PATH];
	uint64_t hash[PATH];
};
struct life {
	struct chat chat[CHATS + 2];
	int n;
};

/* One line of the diary. ack 0: written before a change; ack 1: written after it. */
struct entry {
	int ack, op, at, to;
	int64_t session, message;
	uint64_t hash;
};
enum { NEW, APPEND, UPDATE, SET_HEAD, FORK, DELETE, OPS };

__attribute__((unused)) static struct chat *chat_of(struct life *l, int64_t id)
{
	for (int i = 0; i < l->n; i++)
		if (l->chat[i].id == id)
			return &l->chat[i];
	return NULL;
}

/* Apply an entry of the diary to the model. Ids that the store has not assigned yet are 0. */
__attribute__((unused)) static void live(struct life *l, const struct entry *y)
{
	struct chat *c = y->op == NEW ? NULL : chat_of(l, y->session), *d;

	if ((!c && y->op != NEW) || l->n > CHATS + 1)
		return;
	switch (y->op) {
	case NEW: l->chat[l->n++] = (struct chat){ .id = y->session }; break;
	case APPEND:
		c->message[c->n] = y->message;
		c->hash[c->n++] = y->hash;
		break;
	case UPDATE:
		/* Forks share the message: change it in all of them. */
		for (int i = 0; i < l->n; i++)
			for (int k = 0; k < l->chat[i].n; k++)
				if (l->chat[i].message[k] == y->message)
					l->chat[i].hash[k] = y->hash;
		break;
	case SET_HEAD: c->n = y->at; break;
	case FORK:
		d = &l->chat[l->n++];
		*d = *c;
		d->id = y->message;
		d->n = y->at;
		break;
	case DELETE: *c = l->chat[--l->n]; break;
	}
}

static int read_message(const struct stored_message *m, void *ud)
{
	struct chat *c = ud;

	if (c->n < PATH) {
		c->message[c->n] = m->id;
		c->hash[c->n++] = XXH3_64bits(m->text, m->n_text) + XXH3_64bits(m->token, m->n_token * 4);
	}
	return 0;
}

static int read_chat(const struct session *row, void *ud)
{
	struct life *l = ud;

	if (l->n < CHATS + 2)
		l->chat[l->n++] = (struct chat){ .id = row->id, .n = 0, .message = { row->head } };
	return 0;
}

__attribute__((unused)) static int read_life(struct store *s, struct life *l, struct err *e)
{
	l->n = 0;
	if (session_list(s, read_chat, l, e))
		return -1;
	for (int i = 0; i < l->n; i++)
		if (message_path(s, l->chat[i].message[0], read_message, &l->chat[i], e))
			return -1;
	return 0;
}

__attribute__((unused)) static int same_life(const struct life *a, const struct life *b)
{
	if (a->n != b->n)
		return 0;
	for (int i = 0; i < a->n; i++) {
		const struct chat *c = &a->chat[i], *d = NULL;
		for (int k = 0; k < b->n; k++)
			if (b->chat[k].id == c->id || (!c->id && !chat_of((struct life *)a, b->chat[k].id)))
				d = &b->chat[k];
		if (!d || c->n != d->n || memcmp(c->hash, d->hash, (size_t)c->n * sizeof *c->hash))
			return 0;
	}
	return 1;
}

static uint64_t dice;
__attribute__((unused)) static int roll(int n)
{
	dice = dice * 6364136223846793005u + 1442695040888963407u;
	return (int)((dice >> 33) % (uint64_t)n);
}

/* Choose the next step at random. *m points to static bytes. */
__attribute__((unused)) static void life_choose(const struct life *l, struct entry *y, struct stored_message *m)
{
	static char text[6000];
	static int32_t token[64];
	const struct chat *c = l->n ? &l->chat[roll(l->n)] : NULL;

	*y = (struct entry){ .op = roll(10) < 6 ? APPEND : roll(OPS) };
	*m = (struct stored_message){ .role = ROLE_ASSISTANT, .complete = roll(2), .text = text, .token = token };
	if (!c)
		y->op = NEW;
	else if (l->n >= CHATS && (y->op == NEW || y->op == FORK))
		y->op = DELETE;
	else if (c->n >= PATH - 1 && y->op == APPEND)
		y->op = SET_HEAD;
	if (y->op == UPDATE && !c->n)
		y->op = APPEND;
	y->session = c && y->op != NEW ? c->id : 0;
	if (y->op == APPEND || y->op == UPDATE) {
		m->n_text = (size_t)snprintf(text, sizeof text, "%d %d %0*d", roll(1000), roll(1000),
		                             1 + roll(roll(8) ? 300 : 5000), 7);
		m->n_token = (size_t)roll(64);
		for (size_t i = 0; i < m->n_token; i++)
			token[i] = roll(50000);
		y->hash = XXH3_64bits(text, m->n_text) + XXH3_64bits(token, m->n_token * 4);
	}
	if (y->op == APPEND)
		m->parent = c->n ? c->message[c->n - 1] : 0;
	if (y->op == SET_HEAD || y->op == FORK)
		y->at = roll(c->n + 1);
	if (y->op == FORK && !y->at)
		y->at = c->n; /* in session_fork(), 0 means the head */
	if (y->op == UPDATE)
		y->message = c->message[roll(c->n)];
}

/* Make the step in the store, and set in *y the ids that the store assigns. */
__attribute__((unused)) static int life_step(struct store *s, struct life *l, struct entry *y,
                                             const struct stored_message *m, struct err *e)
{
	const struct chat *c = chat_of(l, y->session);
	int64_t at = y->at ? c->message[y->at - 1] : 0;

	switch (y->op) {
	case NEW: return session_new(s, NULL, &y->session, e);
	case APPEND: return message_append(s, c->id, m, &y->message, e);
	case UPDATE: return message_update(s, y->message, m, e);
	case SET_HEAD: return session_set_head(s, c->id, at, e);
	case FORK: return session_fork(s, c->id, at, NULL, &y->message, e);
	default: return session_delete(s, c->id, e);
	}
}

#endif
