/* app/conversation/answerer.c - what is asked of the model that answers, wherever it is (conversation_private.h). */
#include "app/conversation/conversation_private.h"

int conversation_is_open(const struct conversation *t)
{
	return t->by != NULL;
}

void conversation_stats(const struct conversation *t, struct timeline_stats *out)
{
	t->by->stats(t, out);
}

enum { CTX_ASSUMED = 4096 }; /* tokens of a server that does not say how many it has */

size_t conversation_context_size(const struct conversation *t)
{
	struct timeline_stats st;

	t->by->stats(t, &st);
	return st.ctx > 0 ? (size_t)st.ctx : CTX_ASSUMED;
}

size_t conversation_count(const struct conversation *t, const char *text, size_t n)
{
	return t->by->count(t, text, n);
}

int conversation_needs_local(const struct conversation *t, const char *what, struct err *e)
{
	return t->tl ? 0
	             : err_set(e, ERR_USAGE,
	                       "%.60s needs a model in this process: the one that answers is on a server; /model FILE changes to another one",
	                       what);
}
