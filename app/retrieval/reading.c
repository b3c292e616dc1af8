/* app/retrieval/reading.c - scores the best passages with the encoder's reader, a network that reads question and
 * passage together. It says whether the passage answers the question, and with which words (engine/encoder.h,
 * encoder_read).
 *
 * The reader may be a reranker. Its scores only order the passages, and it marks no words. Its scores never cause a
 * question to be refused, because their scale differs from model to model. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/retrieval/retrieval_private.h"
#include "engine/base/sentences.h"
#include "engine/base/utf8.h"
#include "engine/encoder.h"

/* For each passage, the reader (a trained cross-encoder) gives the odds that the passage answers the question. If the
 * sum of these odds is less than ODDS_LEAST, the question is refused, because the documents do not answer it. Measured
 * with questions that the reader was not trained on:
 * - 129 questions of tests/train/questions.jsonl that their document answers: 2 are wrongly refused;
 * - 33 questions of the same file that their document does not answer: 12 are refused;
 * - 80 questions of SQuAD that the documents answer: 4 are wrongly refused;
 * - 40 questions of SQuAD about other articles: 23 are refused.
 *
 * If the question has a name or number that no text has, it is refused if the sum is less than ODDS_UNKNOWN. In SQuAD,
 * 14 of 1,234 questions that the documents answer have such a name or number, and so do 591 of 1,364 questions about
 * other articles. Measured on samples of these questions:
 * - 8 questions that the documents answer: 2 are wrongly refused; the limit ODDS_LEAST would refuse none;
 * - 41 questions about other articles: 39 are refused; the limit ODDS_LEAST would refuse 29.
 *
 * Some questions are never refused, because the odds are too low for them:
 * - questions in other languages, because the reader was trained on English paragraphs;
 * - questions about documents whose passages have fewer than PARAGRAPH bytes on average;
 * - questions that refer to earlier messages and have fewer than two words of their own ("And what about the keeper?").
 *
 * A question with at least one word of its own is read without the previous message, even if it refers to that message.
 * The previous message is usually a question, too, and the reader would answer that question. */
static const double ODDS_LEAST = 0.6, ODDS_UNKNOWN = 2;
enum { PARAGRAPH = 200 };

int reading_open(const struct conversation *conv)
{
	const struct encoder *e = search_of(conv)->meaning.encoder;

	return e && encoder_reads(e, READER_ANY);
}

/* Set [c->answer, c->answer_end) to the bytes of the body that answer the question, in whole characters and without
 * white space at the ends. The reader has found bytes [answer->from, answer->to) of the passage. */
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

int candidates_read(struct conversation *conv, const struct asked *asked, struct candidates *c, struct err *e)
{
	struct encoder_string passage[READ_MOST];
	struct encoder_answer answer[READ_MOST];
	const struct str *text =
		&asked->text[asked->text[1].n && !question_own_words(asked->text[0].p, asked->text[0].n)];
	struct encoder_string question = { text->p, text->n };
	struct encoder *encoder = search_of(conv)->meaning.encoder;
	int answers = encoder_reads(encoder, READER_ANY) == READS_ANSWERS,
	    n = (int)MIN(c->n, (size_t)(answers ? READ_MOST : RANK_MOST));

	for (int i = 0; i < n; i++) {
		const struct found_passage *f = &c->at[i].found;
		const struct document *d = &conv->doc[f->text];

		passage[i] = (struct encoder_string){ d->text.p + d->body + f->from, f->to - f->from };
	}
	for (int i = 0, some = answers ? n : 1; i < n; i += some) {
		if (!answers && signals_stopped())
			return err_set(e, ERR_CANCELLED, "stopped");
		if (encoder_read(encoder, READER_ANY, question, passage + i, some, answer + i, NULL, e))
			return without_meaning(conv, e);
	}
	for (int i = 0; i < n; i++) {
		const struct document *d = &conv->doc[c->at[i].found.text];

		c->at[i].answers = answer[i].score;
		c->at[i].gain = c->read * answer[i].score;
		c->at[i].judged = 1;
		if (answers)
			answer_place(d->text.p + d->body, &answer[i], &c->at[i]);
	}
	c->n_judged = n;
	c->by_reading = answers;
	c->by_ranking = !answers;
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
			f->sentence = 0; /* the quote is no longer the sentence that the search by words chose */
		f->quote = f->from + at[i].from;
		f->quote_end = f->from + at[i].to;
	}
	free(at);
}

int reading_tells(const struct candidates *c, const char *question, size_t n, int *found)
{
	size_t bytes = 0;
	double odds = 0;
	int tells;

	if (!c->by_reading)
		return 0;
	for (int i = 0; i < c->n_judged; i++) {
		bytes += c->at[i].found.to - c->at[i].found.from;
		odds += exp(c->at[i].answers);
	}
	tells = bytes >= PARAGRAPH * (size_t)c->n_judged && question_is_english(question, n) &&
	        !(question_refers(question, n) && question_own_words(question, n) < 2);
	*found = odds >= (tells && c->at[0].found.unknown ? ODDS_UNKNOWN : ODDS_LEAST);
	return *found || tells;
}
