/* app/conversation/cached_tokens.c - counts the conversation's cached tokens and its evicted tokens
 * (conversation.h). */
#include "app/conversation/conversation_private.h"

int32_t tokens_in_cache(const struct timeline_stats *st)
{
	int32_t kept = st->rings.pinned;

	for (int i = 0; i < st->rings.n_ring; i++)
		kept += st->rings.fill[i];
	/* `kept` counts a new token one step late. So while nothing was evicted, n_tokens is more accurate. */
	return !st->endless || kept > st->n_tokens || st->rings.evicted + st->rings.evicted_in_part == 0 ? st->n_tokens
	                                                                                                 : kept;
}

int32_t conversation_cached_tokens(const struct conversation *conv, const struct timeline_stats *st)
{
	int32_t cached = tokens_in_cache(st), undone = undo_cached(conv, st);
	const int32_t *had;
	size_t n, same = 0;

	if (conv->n_msg)
		return undone < cached ? cached - undone : 0;
	/* Without messages, only the system prompt and the documents belong to the conversation. They are never
	 * evicted. */
	if (!conv->tl || !conv->prefix_known)
		return 0;
	had = timeline_tokens(conv->tl, &n);
	while (same < n && same < conv->prefix.n && had[same] == conv->prefix.id[same])
		same++;
	return (int32_t)same;
}

int describe_evicted(const struct timeline_stats *st, struct str *out)
{
	const struct ring_stats *r = &st->rings;

	if (!st->endless || r->evicted + r->evicted_in_part == 0)
		return 0;
	human_count(out, (uint64_t)r->evicted);
	str_adds(out, " of ");
	human_count(out, (uint64_t)r->seen);
	str_adds(out, " tokens evicted");
	if (r->evicted_in_part) {
		str_adds(out, ", ");
		human_count(out, (uint64_t)r->evicted_in_part);
		str_adds(out, " in part");
	}
	return 1;
}
