/* app/conversation/events.c - calls observers and turn hooks when a conversation changes (conversation.h,
 * turn_hook.h). */
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

/* ---- turn hooks ---- */

void turn_hook_add(struct conversation *conv, const struct turn_hook_ops *ops, void *self)
{
	GROW(conv->turn_hook, conv->n_turn_hook, conv->cap_turn_hook);
	conv->turn_hook[conv->n_turn_hook++] = (struct turn_hook){ .ops = ops, .self = self };
}

void *turn_hook_find(const struct conversation *conv, const char *name)
{
	for (int i = 0; i < conv->n_turn_hook; i++)
		if (!strcmp(conv->turn_hook[i].ops->name, name))
			return conv->turn_hook[i].self;
	return NULL;
}

void turn_hooks_changed(struct conversation *conv, enum turn_hook_change what)
{
	EACH_TURN_HOOK(conv, k, changed)
		k->ops->changed(k->self, conv, what);
}

void turn_hooks_free(struct conversation *conv)
{
	EACH_TURN_HOOK(conv, k, free)
		k->ops->free(k->self);
	free(conv->turn_hook);
	conv->turn_hook = NULL;
	conv->n_turn_hook = conv->cap_turn_hook = 0;
}
