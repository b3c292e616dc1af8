/* app/conversation/sources.c - the passages of the documents that answer a question (conversation.h). */
#include <stdlib.h>
#include <string.h>

#include "app/conversation/conversation_private.h"

static const double COVERED_LEAST = 0.35;   /* of the question's words, by weight: with less a passage is about something else */

void sources_free(struct sources *s)
{
	free(s->at);
	*s = (struct sources){0};
}

int conversation_sources(struct conversation *t, const char *question, size_t n, struct sources *out, struct err *e)
{
	struct found_passage found[SOURCES_MOST];
	double start = now_seconds();
	int count = 0;

	*out = (struct sources){0};
	if (t->n_doc && t->hooks.search)
		count = t->hooks.search(t, question, n, found, SOURCES_MOST, t->hooks.search_ud, e);
	if (count < 0)
		return -1;
	out->at = xcalloc((size_t)count + 1, sizeof *out->at);
	for (int i = 0; i < count; i++)
		out->at[out->n++] = (struct source){
			.doc = found[i].doc, .from = found[i].from, .to = found[i].to, .quote = found[i].quote, .quote_end = found[i].quote_end,
			.score = found[i].score,
		};
	out->found = count > 0 && found[0].covered >= COVERED_LEAST;
	out->seconds = now_seconds() - start;
	return 0;
}
