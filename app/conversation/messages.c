/* app/conversation/messages.c - the list of messages (conversation.h). */
#include "app/conversation/conversation_private.h"

#include <stdlib.h>

struct message *message_add(struct conversation *conv, enum chat_role role)
{
	GROW(conv->msg, conv->n_msg, conv->cap_msg);
	conv->msg[conv->n_msg] = (struct message){ .role = role };
	return &conv->msg[conv->n_msg++];
}

struct message *conversation_message(struct conversation *conv, enum chat_role role, const char *text, size_t n,
                                     const int32_t *id, size_t n_id)
{
	struct message *m = message_add(conv, role);

	str_add(&m->text, text, n);
	tokens_append(&m->id, id, n_id);
	return m;
}

const struct message *conversation_answer(const struct conversation *conv)
{
	return conv->n_msg && conv->msg[conv->n_msg - 1].role == ROLE_ASSISTANT ? &conv->msg[conv->n_msg - 1] : NULL;
}

void message_free(struct message *m)
{
	str_free(&m->text);
	str_free(&m->context);
	tokens_free(&m->id);
	answer_sources_free(&m->sources);
}

void answer_source_free(struct answer_source *s)
{
	free(s->doc);
	free(s->page);
	free(s->heading);
	free(s->text);
}

void answer_sources_free(struct answer_sources *s)
{
	for (size_t i = 0; i < s->n; i++)
		answer_source_free(&s->at[i]);
	free(s->at);
	*s = (struct answer_sources){ 0 };
}
