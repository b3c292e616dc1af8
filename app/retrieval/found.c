/* app/retrieval/found.c - returns the sources, the evidence and the recalled turns of the last question, which are
 * stored in the states of the turn hooks (retrieval.h). */
#include <stdlib.h>

#include "app/retrieval/recall.h"

/* ---- sources ---- */

struct source_search *search_of(const struct conversation *conv)
{
	return turn_hook_find(conv, "sources");
}

const struct sources *sources_of(const struct conversation *conv)
{
	return &search_of(conv)->last;
}

void sources_search_by(struct conversation *conv, search_fn *search, encoding_fn *encoding, void *ud)
{
	struct source_search *s = search_of(conv);

	s->search = search;
	s->encoding = encoding;
	s->search_ud = ud;
}

void sources_free(struct sources *s)
{
	free(s->at);
	*s = (struct sources){ 0 };
}

void sources_forget(struct conversation *conv)
{
	sources_free(&search_of(conv)->last);
	*evidence_of(conv) = (struct evidence_list){ .n = 0 };
}

/* ---- evidence ---- */

struct evidence_list *evidence_of(const struct conversation *conv)
{
	return turn_hook_find(conv, "evidence");
}

/* ---- recall ---- */

const struct recalls *recalls_of(const struct conversation *conv)
{
	const struct recall *r = turn_hook_find(conv, "recall");

	return &r->last;
}

void recall_search_by(struct conversation *conv, add_message_fn *add, find_sentences_fn *find, void *ud)
{
	struct recall *r = turn_hook_find(conv, "recall");

	r->add_message = add;
	r->find_sentences = find;
	r->search_ud = ud;
}

void recalled_free(struct recalled *r)
{
	str_free(&r->said);
	str_free(&r->answered);
}

void recalls_free(struct recalls *r)
{
	while (r->n)
		recalled_free(&r->at[--r->n]);
	free(r->at);
	*r = (struct recalls){ 0 };
}
