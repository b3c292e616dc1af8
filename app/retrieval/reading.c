/* app/retrieval/reading.c - lets the encoder's reader read the best passages together with the question: whether a
 * passage answers it, and with which words (engine/encoder.h, encoder_read). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/retrieval/retrieval_private.h"
#include "engine/base/sentences.h"
#include "engine/base/utf8.h"
#include "engine/encoder.h"

/* The documents answer if the odds of the passages that were read sum up to at least this. Of 129 questions that were left
 * out of the reader's training 2 are lost, of 33 that their document does not answer 12 are refused; of 80 of SQuAD 4 are
 * lost. The reader is trained on English paragraphs: for questions in other languages, and for documents whose passages
 * have fewer than PARAGRAPH bytes on average, its odds are too low to refuse by. */
static const double ODDS_LEAST = 0.6;
enum { PARAGRAPH = 200 };

int reading_open(const struct conversation *conv)
{
	const struct encoder *e = search_of(conv)->meaning.encoder;

	return e && encoder_reads(e);
}

/* Set the range of the answer, which is answer->from .. to of the passage: without white space at its ends, in whole
 * characters. */
static void answer_place(const char *body, const struct encoder_answer *answer, struct passage_candidate *c)
{
	size_t from = c->found.from + answer->from, to = c->found.from + answer->to;

	while (from < to && ((unsigned char)body[from] <= ' ' || utf8_continues(body[from])))
		from++;
	while (to > from && (unsigned char)body[to - 1] <= ' ')
		to--;
	while (to < c->found.to && to > from && utf8_continues(body[to]))
		to++;
	c->answer = from;
	c->answer_end = to;
}

int candidates_read(struct conversation *conv, const struct str *asked, struct candidates *c, struct err *e)
{
	struct encoder_string passage[READ_MOST];
	struct encoder_answer answer[READ_MOST];
	struct encoder_string question = { asked->p, asked->n };
	int n = (int)MIN(c->n, (size_t)READ_MOST);

	for (int i = 0; i < n; i++) {
		const struct found_passage *f = &c->at[i].found;
		const struct document *d = &conv->doc[f->text];

		passage[i] = (struct encoder_string){ d->text.p + d->body + f->from, f->to - f->from };
	}
	if (encoder_read(search_of(conv)->meaning.encoder, question, passage, n, answer, NULL, e))
		return without_meaning(conv, e);
	for (int i = 0; i < n; i++) {
		const struct document *d = &conv->doc[c->at[i].found.text];

		c->at[i].answers = answer[i].score;
		c->at[i].gain = c->read * answer[i].score;
		c->at[i].judged = 1;
		answer_place(d->text.p + d->body, &answer[i], &c->at[i]);
	}
	c->n_judged = n;
	c->by_reading = 1;
	return 0;
}

void answer_quote(const char *body, struct passage_candidate *c)
{
	struct found_passage *f = &c->found;
	struct sentence *at;
	size_t n = sentences_cut(body + f->from, f->to - f->from, &at, NULL, NULL), i = 0;

	while (i < n && f->from + at[i].to <= c->answer)
		i++;
	if (i < n && !(at[i].flags & SENTENCE_HEADING)) {
		if (f->from + at[i].from != f->quote)
			f->sentence = 0; /* another sentence than the one with the words */
		f->quote = f->from + at[i].from;
		f->quote_end = f->from + at[i].to;
	}
	free(at);
}

int reading_tells(const struct candidates *c, const char *question, size_t n, int *found)
{
	size_t bytes = 0;
	double odds = 0;

	for (int i = 0; i < c->n_judged; i++) {
		bytes += c->at[i].found.to - c->at[i].found.from;
		odds += exp(c->at[i].answers);
	}
	*found = odds >= ODDS_LEAST;
	return c->by_reading && bytes >= PARAGRAPH * (size_t)c->n_judged && question_is_english(question, n);
}
