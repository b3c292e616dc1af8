/* app/retrieval/memory.c - finds the facts that a question asks about (retrieval.h). A fact is a sentence that the user
 * has asked weir to remember, in this or another conversation.
 *
 * The facts are searched as the passages of documents are: by words (an index in memory) and by meaning (meaning.c).
 * The facts that fit are quoted as text before the question. */
#include <stdlib.h>
#include <string.h>

#include "app/retrieval/retrieval_private.h"
#include "engine/encoder.h"

enum { FACTS_MOST = 2 }; /* maximum number of facts that are sent with a question */
/* A fact is sent with a question if its score is at least TOTAL_LEAST. The score is the similarity by meaning, plus OWN
 * if the question has a word with which users speak of themselves ("my"). Without an encoder, the score is the share of
 * the question's words that the fact has, plus OWN_WORDS for a word such as "my"; the limit is then TOTAL_WORDS.
 *
 * Measured with tests/measure/memory.tsv (60 facts): of 60 questions that need a fact, 56 get it; of 60 questions that
 * need no fact, 1 gets one. Without OWN, the numbers are 46 and 1; without an encoder, 44 and 1. For no question would
 * a third fact have been the right one. With facts and questions in five other languages (memory-languages.tsv), the
 * numbers are 44 and 3; an OWN of 0.15 would find 57 and 48, but send 1 and 6 facts where none is needed. */
static const double OWN = 0.12, TOTAL_LEAST = 0.46, OWN_WORDS = 0.2, TOTAL_WORDS = 0.45;

void facts_free(struct facts *f)
{
	while (f->n) {
		str_free(&f->at[--f->n].text);
		str_free(&f->at[f->n].from);
	}
	free(f->at);
	*f = (struct facts){ 0 };
}

/* ---- the search ---- */

/* Set score[i] of each fact from its best passage. `found` has all passages of the facts. Returns 0, or -1 if the user
 * has stopped. */
static int facts_compare(struct conversation *conv, struct memory_search *m, const struct indexed_text *text,
                         const char *question, size_t n_question, const struct found_passage *found, size_t n,
                         double *score, struct err *e)
{
	struct asked asked = { 0 };
	float *similar = xcalloc(n + 1, sizeof *similar);
	int rc, own = question_is_own(question, n_question);

	str_add(&asked.text[0], question, n_question);
	rc = meaning_similar(conv, m->index, text, &asked, found, n, similar, e);
	for (size_t i = 0; i < n && rc >= 0; i++) {
		double fits = rc ? similar[i] + OWN * own : found[i].covered + OWN_WORDS * own;

		score[found[i].text] = MAX(score[found[i].text], fits - (rc ? TOTAL_LEAST : TOTAL_WORDS));
	}
	free(similar);
	str_free(&asked.text[0]);
	return MIN(rc, 0);
}

/* Set score[all->n] to how well each fact fits the question. A fact with a score below 0 fits too badly to be sent.
 * Returns 0; -1 if the user has stopped, or the index failed. */
static int facts_score(struct conversation *conv, const struct facts *all, const char *question, size_t n,
                       double *score, struct err *e)
{
	struct memory_search *m = turn_hook_find(conv, "memory");
	struct indexed_text *text = xcalloc(all->n + 1, sizeof *text);
	struct found_passage *found = NULL;
	size_t n_found = 0;
	int rc = !m->index && passage_index_open(&m->index, NULL, e) < 0 ? -1 : 0;

	for (size_t i = 0; i < all->n; i++) {
		text[i] = (struct indexed_text){ str_text(&all->at[i].text), all->at[i].text.n };
		score[i] = -1;
	}
	if (!rc)
		rc = passages_score(m->index, text, all->n, question, n, &found, &n_found, e);
	if (!rc)
		rc = facts_compare(conv, m, text, question, n, found, n_found, score, e);
	free(found);
	free(text);
	return rc;
}

/* ---- the turn hook ---- */

/* Append a fact in the form in which it is sent with a question. */
static void add_fact(const struct known_fact *f, struct str *out)
{
	size_t from;

	str_adds(out, "Earlier the user said: \"");
	from = out->n;
	str_add(out, str_text(&f->text), f->text.n);
	/* replace double quotes inside the fact, because fact_remove() finds the quotation by its double quotes */
	for (size_t i = from; i < out->n; i++)
		if (out->p[i] == '"')
			out->p[i] = '\'';
	str_adds(out, "\"\n");
}

static void memory_context(void *self, struct conversation *conv, struct str *out)
{
	const struct memory_search *m = self;

	(void)conv;
	/* go through the list backwards, so that the best fact is last, next to the question */
	for (size_t i = m->last.n; i--;)
		add_fact(&m->last.at[i], out);
	if (m->last.n)
		str_adds(out, "\n");
}

int memory_find(struct conversation *conv, struct facts *all, const char *question, size_t n_question,
                struct facts *out, struct err *e)
{
	double *score = xcalloc(all->n + 1, sizeof *score), start = now_seconds();
	int rc = all->n ? facts_score(conv, all, question, n_question, score, e) : 0;

	out->at = xcalloc(FACTS_MOST, sizeof *out->at);
	while (!rc && out->n < FACTS_MOST) {
		size_t best = all->n;

		for (size_t i = 0; i < all->n; i++)
			if (score[i] >= 0 && (best == all->n || score[i] > score[best]))
				best = i;
		if (best == all->n)
			break;
		score[best] = -1;
		out->at[out->n++] = all->at[best];
		all->at[best] = (struct known_fact){ 0 };
	}
	free(score);
	out->seconds = now_seconds() - start;
	return rc;
}

static int memory_before(void *self, struct conversation *conv, const struct question *q, struct err *e)
{
	struct memory_search *m = self;
	struct facts all = { 0 };
	struct err why = { 0 };
	size_t n = q->n;
	const char *asked = question_in_message(q->text, &n);
	int rc;

	facts_free(&m->last);
	if (!m->list || strcmp(conv->o->memory, "on") != 0)
		return 0;
	rc = m->list(&all, m->list_ud, &why);
	if (!rc)
		rc = memory_find(conv, &all, asked, n, &m->last, &why);
	facts_free(&all);
	if (rc < 0 && why.code == ERR_CANCELLED)
		return err_set(e, why.code, "%s", why.msg);
	if (rc < 0)
		conversation_notice(conv, "what is to be remembered cannot be searched: %s", why.msg);
	else if (m->last.n)
		conversation_emit(conv, EVENT_REMEMBERED, 0);
	return 0;
}

static void memory_json(void *self, const struct conversation *conv, struct str *out)
{
	const struct memory_search *m = self;

	(void)conv;
	json_open(out, "facts", '[');
	for (size_t i = 0; i < m->last.n; i++) {
		const struct known_fact *f = &m->last.at[i];

		json_open(out, NULL, '{');
		json_int(out, "id", f->id);
		json_int(out, "at", f->at);
		json_text(out, "from", str_text(&f->from), f->from.n);
		json_text(out, "text", str_text(&f->text), f->text.n);
		json_close(out, '}');
	}
	json_close(out, ']');
	json_real(out, "memory_s", m->last.seconds, "%.4f");
}

static void memory_close(void *self)
{
	struct memory_search *m = self;

	facts_free(&m->last);
	passage_index_close(m->index);
	free(m);
}

const struct turn_hook_ops memory_ops = {
	.name = "memory",
	.before = memory_before,
	.context = memory_context,
	.json = memory_json,
	.free = memory_close,
};

const struct facts *facts_of(const struct conversation *conv)
{
	const struct memory_search *m = turn_hook_find(conv, "memory");

	return &m->last;
}

void memory_list_by(struct conversation *conv, list_facts_fn *list, void *ud)
{
	struct memory_search *m = turn_hook_find(conv, "memory");

	m->list = list;
	m->list_ud = ud;
}
