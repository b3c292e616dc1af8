/* app/conversation/events.c - who observes a conversation, and telling them of its changes (conversation.h). */
#include "app/conversation/conversation_private.h"
#include "app/conversation/conversation.h"

#include <string.h>

void conversation_observe(struct conversation *t, observer_fn *fn, void *ud)
{
	if (t->n_observer < OBSERVERS_MOST)
		t->observer[t->n_observer++] = (struct observer){ .fn = fn, .ud = ud };
}

void conversation_ignore(struct conversation *t, observer_fn *fn, void *ud)
{
	for (int i = 0; i < t->n_observer; i++)
		if (t->observer[i].fn == fn && t->observer[i].ud == ud) {
			t->n_observer--;
			memmove(t->observer + i, t->observer + i + 1,
			        (size_t)(t->n_observer - i) * sizeof *t->observer);
			return;
		}
}

void emit(struct conversation *t, enum conversation_event_what what, size_t i)
{
	struct conversation_event event = { .what = what, .i = i, .turn = &t->last };

	for (int k = 0; k < t->n_observer; k++)
		t->observer[k].fn(t, &event, t->observer[k].ud);
}
