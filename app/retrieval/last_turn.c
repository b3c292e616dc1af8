/* app/retrieval/last_turn.c - what the search takes from the turn before the question: words, the message that a question
 * refers to, and the passages that the last answer rests on (retrieval_private.h). */
#include <string.h>

#include "app/retrieval/retrieval_private.h"
#include "engine/base/utf8.h"

/* If a question refers to earlier messages, the passages that the last answer names as its sources get additional scores:
 * STAY standard deviations of all scores for the first source, and STAY_LATER times as much for each next one. The passages
 * beside a source get half of its additional score. Measured with 23 such questions: the right passage is among the first
 * ten for 16 of them; without these scores, for 14. */
static const double STAY = 3, STAY_LATER = 0.7;
enum {
	STAY_SOURCES = 3,
	/* maximum number of bytes that are used from the beginning of each message of the last turn */
	BEFORE_MOST = 400,
};

/* Append a blank, and the first bytes of a text: as many whole characters as fit into `most` bytes. */
static void add_beginning(struct str *out, const char *text, size_t n, size_t most)
{
	if (n > most)
		n = utf8_back(text, most);
	str_adds(out, " ");
	str_add(out, text, n);
}

/* Return the number of messages before the question. The last message may already be the one that asks it
 * (question_in_message()). */
static size_t messages_before(const struct conversation *conv, const char *question, size_t n)
{
	size_t i = conv->n_msg;
	const struct message *last = i ? &conv->msg[i - 1] : NULL;
	size_t n_asked = last ? last->text.n : 0;
	const char *asked = last ? question_in_message(str_text(&last->text), &n_asked) : NULL;

	return last && last->role == ROLE_USER && n_asked == n && !memcmp(asked, question, n) ? i - 1 : i;
}

int with_last_turn(const struct conversation *conv, const char *question, size_t n, struct str *out)
{
	size_t i = messages_before(conv, question, n);
	int any = 0;

	str_add(out, question, n);
	for (size_t first = i > 2 ? i - 2 : 0, k = i; k-- > first;)
		/* skip a message with a text that was read from a stream, because it is not a turn */
		if (!conv->msg[k].read) {
			add_beginning(out, str_text(&conv->msg[k].text), conv->msg[k].text.n, BEFORE_MOST);
			any = 1;
		}
	return any;
}

void asked_set(const struct conversation *conv, const char *question, size_t n, struct asked *a)
{
	size_t i = messages_before(conv, question, n);

	str_add(&a->text[0], question, n);
	while (i && conv->msg[i - 1].role != ROLE_USER)
		i--;
	if (!i || conv->msg[i - 1].read || !question_refers(question, n))
		return;
	add_beginning(&a->text[1], str_text(&conv->msg[i - 1].text), conv->msg[i - 1].text.n, BEFORE_MOST);
	str_adds(&a->text[1], " ");
	str_add(&a->text[1], question, n);
}

/* 1 if the candidate is in document `doc` and shares bytes with the source. */
static int is_source(const struct passage_candidate *c, const struct answer_source *s, size_t doc)
{
	return (size_t)c->found.text == doc && c->found.from < s->to && c->found.to > s->from;
}

void candidates_stay(const struct conversation *conv, const char *question, size_t n, struct candidates *c)
{
	size_t before = messages_before(conv, question, n);
	const struct answer_sources *s = before ? &conv->msg[before - 1].sources : NULL;
	double bonus = STAY * c->deviation;

	if (!s || !question_refers(question, n))
		return;
	for (size_t i = 0; i < s->n && i < STAY_SOURCES && s->at[i].found; i++, bonus *= STAY_LATER) {
		size_t doc = answer_source_document(conv, &s->at[i]);

		for (size_t k = 0; k < c->n; k++)
			if (is_source(&c->at[k], &s->at[i], doc))
				c->at[k].lean += bonus;
			else if ((k && is_source(&c->at[k - 1], &s->at[i], doc)) ||
			         (k + 1 < c->n && is_source(&c->at[k + 1], &s->at[i], doc)))
				c->at[k].lean += bonus / 2;
	}
}
