/* app/conversation/events.c - tells observers and companions of the changes of a conversation (conversation.h,
 * companion.h). */
#include "app/conversation/conversation_private.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- observers ---- */

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

static void tell(struct conversation *t, const struct conversation_event *event)
{
	for (int k = 0; k < t->n_observer; k++)
		t->observer[k].fn(t, event, t->observer[k].ud);
}

void conversation_emit(struct conversation *t, enum conversation_event_what what, size_t i)
{
	tell(t, &(struct conversation_event){ .what = what, .i = i, .turn = &t->last });
}

void conversation_notice(struct conversation *t, const char *fmt, ...)
{
	char *text = NULL;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	tell(t, &(struct conversation_event){ .what = EVENT_NOTICE, .turn = &t->last, .text = text });
	free(text);
}

/* ---- companions ---- */

void companion_add(struct conversation *t, const struct companion_ops *ops, void *self)
{
	if (t->n_companion < COMPANIONS_MOST)
		t->companion[t->n_companion++] = (struct companion){ .ops = ops, .self = self };
}

void *companion_find(const struct conversation *t, const char *name)
{
	for (int i = 0; i < t->n_companion; i++)
		if (!strcmp(t->companion[i].ops->name, name))
			return t->companion[i].self;
	return NULL;
}

void companions_changed(struct conversation *t, enum companion_change what)
{
	EACH_COMPANION(t, k, changed)
	k->ops->changed(k->self, t, what);
}

void companions_free(struct conversation *t)
{
	EACH_COMPANION(t, k, free)
	k->ops->free(k->self);
	t->n_companion = 0;
}
