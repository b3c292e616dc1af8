/* app/conversation/answerer.c - functions for both a model in this process and a model on a server
 * (conversation_private.h). */
#include "app/conversation/conversation_private.h"

int conversation_is_open(const struct conversation *conv)
{
	return conv->by != NULL;
}

void conversation_stats(const struct conversation *conv, struct timeline_stats *out)
{
	conv->by->stats(conv, out);
}

enum { CTX_ASSUMED = 4096 }; /* assumed context size, in tokens, of a server that does not report it */

size_t conversation_context_size(const struct conversation *conv)
{
	struct timeline_stats st;

	conv->by->stats(conv, &st);
	return st.ctx > 0 ? (size_t)st.ctx : CTX_ASSUMED;
}

size_t conversation_count(const struct conversation *conv, const char *text, size_t n)
{
	return conv->by->count(conv, text, n);
}

int conversation_needs_local(const struct conversation *conv, const char *what, struct err *e)
{
	return conv->tl
	               ? 0
	               : err_set(e, ERR_USAGE,
	                         "%.60s needs a model in this process: the one that answers is on a server; /model FILE changes to another one",
	                         what);
}
