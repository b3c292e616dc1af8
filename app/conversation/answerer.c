/* app/conversation/answerer.c - what is asked of the model that answers, wherever it is (conversation_private.h). */
#include "app/conversation/conversation_private.h"
#include "app/conversation/conversation.h"

int conversation_is_open(const struct conversation *t)
{
	return t->by != NULL;
}

void conversation_stats(const struct conversation *t, struct timeline_stats *out)
{
	t->by->stats(t, out);
}

size_t context_size(const struct conversation *t)
{
	struct timeline_stats st;

	t->by->stats(t, &st);
	return st.ctx > 0 ? (size_t)st.ctx : CTX_ASSUMED;
}

int conversation_needs_local(const struct conversation *t, const char *what, struct err *e)
{
	return t->tl ? 0
	             : err_set(e, ERR_USAGE,
	                       "%.60s needs a model in this process: the one that answers is on a server; /model FILE changes to another one",
	                       what);
}
