/* app/chat/hidden_reasoning.c - decides whether a model's reasoning is shown, and removes it from a message if
 * not. */
#include "app/chat/chat_private.h"

#include <string.h>

int chat_hides(const struct chat *c)
{
	const char *how = c->o.think ? c->o.think : "auto";

	return !strcmp(how, "hide") || (c->interactive && strcmp(how, "show") != 0);
}

/* 1 if the model is asked not to reason. */
static int never_thinks(const struct chat *c)
{
	return c->o.think && !strcmp(c->o.think, "off") && c->conv.info->think_switch;
}

int chat_thinks_at_once(const struct chat *c)
{
	return c->o.think && !strcmp(c->o.think, "on") ? c->conv.info->asked_thinks_first
	                                               : c->conv.info->thinks_first && !never_thinks(c);
}

void chat_message(const struct chat *c, const struct message *m, struct str *out, struct str *note)
{
	const char *text = str_text(&m->text);
	int closed;
	size_t seen = 0;
	struct reasoning think = { .first = 0 };

	if (!chat_hides(c) || m->role != ROLE_ASSISTANT) {
		str_add(out, text, m->text.n);
		return;
	}
	/* Some templates end the prompt with the opening mark of reasoning (<think>). The answer then has no opening
	 * mark. If the answer was stopped early, it has no closing mark either. */
	closed = reasoning_closed(text);
	think.first = closed ? closed > 0 && (c->conv.info->thinks_first || c->conv.info->asked_thinks_first ||
	                                      reasoning_unopened(text, m->text.n, 1, &seen))
	                     : chat_thinks_at_once(c);
	reasoning_feed(&think, text, m->text.n, out);
	reasoning_end(&think, out);
	if (note)
		reasoning_describe(&think, note);
	reasoning_free(&think);
}
