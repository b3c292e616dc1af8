/* app/conversation/events.c - calls observers and companions when a conversation changes (conversation.h,
 * companion.h). */
#include "app/conversation/conversation_private.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- observers ---- */

void conversation_observe(struct conversation *conv, observer_fn *fn, void *ud)
{
	if (conv->n_observer < OBSERVERS_MOST)
		conv->observer[conv->n_observer++] = (struct observer){ .fn = fn, .ud = ud };
}

void conversation_ignore(struct conversation *conv, observer_fn *fn, void *ud)
{
	for (int i = 0; i < conv->n_observer; i++)
		if (conv->observer[i].fn == fn && conv->observer[i].ud == ud) {
			conv->n_observer--;
			memmove(conv->observer + i, conv->observer + i + 1,
			        (size_t)(conv->n_observer - i) * sizeof *conv->observer);
			return;
		}
}

static void observers_call(struct conversation *conv, const struct conversation_event *event)
{
	for (int k = 0; k < conv->n_observer; k++)
		conv->observer[k].fn(conv, event, conv->observer[k].ud);
}

void conversation_emit(struct conversation *conv, enum conversation_event_what what, size_t i)
{
	observers_call(conv, &(struct conversation_event){ .what = what, .i = i, .turn = &conv->last });
}

void conversation_notice(struct conversation *conv, const char *fmt, ...)
{
	char *text = NULL;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	observers_call(conv, &(struct conversation_event){ .what = EVENT_NOTICE, .turn = &conv->last, .text = text });
	free(text);
}

/* ---- companions ---- */

void companion_add(struct conversation *conv, const struct companion_ops *ops, void *self)
{
	GROW(conv->companion, conv->n_companion, conv->cap_companion);
	conv->companion[conv->n_companion++] = (struct companion){ .ops = ops, .self = self };
}

void *companion_find(const struct conversation *conv, const char *name)
{
	for (int i = 0; i < conv->n_companion; i++)
		if (!strcmp(conv->companion[i].ops->name, name))
			return conv->companion[i].self;
	return NULL;
}

void companions_changed(struct conversation *conv, enum companion_change what)
{
	EACH_COMPANION(conv, k, changed)
		k->ops->changed(k->self, conv, what);
}

void companions_free(struct conversation *conv)
{
	EACH_COMPANION(conv, k, free)
		k->ops->free(k->self);
	free(conv->companion);
	conv->companion = NULL;
	conv->n_companion = conv->cap_companion = 0;
}
