/* app/retrieval/found.c - the states of the companions of this room: what was found for the last question
 * (retrieval.h). */
#include <stdlib.h>

#include "app/retrieval/recall.h"

/* ---- sources ---- */

struct source_search *search_of(const struct conversation *t)
{
	return companion_find(t, "sources");
}

const struct sources *sources_of(const struct conversation *t)
{
	return &search_of(t)->last;
}

void sources_search_by(struct conversation *t, search_fn *search, void *ud)
{
	struct source_search *s = search_of(t);

	s->search = search;
	s->search_ud = ud;
}

void sources_free(struct sources *s)
{
	free(s->at);
	*s = (struct sources){ 0 };
}

void sources_forget(struct conversation *t)
{
	sources_free(&search_of(t)->last);
	*evidence_of(t) = (struct evidence_list){ .n = 0 };
}

/* ---- evidence ---- */

struct evidence_list *evidence_of(const struct conversation *t)
{
	return companion_find(t, "evidence");
}

/* ---- recall ---- */

const struct recalls *recalls_of(const struct conversation *t)
{
	const struct recall *r = companion_find(t, "recall");

	return &r->last;
}

void recall_search_by(struct conversation *t, add_message_fn *add, find_sentences_fn *find, void *ud)
{
	struct recall *r = companion_find(t, "recall");

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
