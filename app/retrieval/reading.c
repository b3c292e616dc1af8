/* app/retrieval/reading.c - scores the best passages with the encoder's reader, a network that reads question and
 * passage together. It says whether the passage answers the question, and with which words (engine/encoder.h,
 * encoder_read). There may be a second reader, which is better, but for English questions about English passages alone.
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

/* For each passage, the reader (a trained cross-encoder) gives the odds that the passage answers the question. The odds
 * are multiplied by exp(words * covered). Here `covered` is the share of the question's words, weighted by idf, that the
 * passage has. `weight` * d is added to a passage's score for each unit of its log odds, where d is
 * candidates.deviation.
 *
 * The best `part` passages are read first. As long as none of those read has log odds of at least `sure`, the next
 * `part` are read, up to `passages` in all. So questions in other words than the text's, whose passage the search
 * ranks low, get more passages read than others.
 *
 * Add up the products of the first `part` passages, and the greatest product of the later ones; a sum of all would grow
 * with the number of passages read. If the sum is less than `least`, the question is refused, because the documents do
 * not answer it. If the question has a name or number that no text has, it is refused if the sum is less than `unknown`.
 *
 * The limits of READER_ANY were measured with questions that it was not trained on:
 * - 129 questions of tests/train/questions.jsonl that their document answers: 2 are wrongly refused;
 * - 33 questions of the same file that their document does not answer: 12 are refused;
 * - 80 questions of SQuAD that the documents answer: 4 are wrongly refused;
 * - 40 questions of SQuAD about other articles: 23 are refused.
 * In SQuAD, 14 of 1,234 questions that the documents answer have a name or number that no text has, and so do 591 of
 * 1,364 questions about other articles. Measured with READER_ANY on samples of these questions:
 * - 8 questions that the documents answer: 2 are wrongly refused; the limit `least` would refuse none;
 * - 41 questions about other articles: 39 are refused; the limit `least` would refuse 29.
 *
 * The odds of READER_ENGLISH are lower for questions of SQuAD than for questions as people type them, but the passages
 * that answer SQuAD's questions have most of their words. Measured with questions that this reader was not trained on:
 * - 130 questions of tests/measure/questions that the documents answer: 1 is wrongly refused;
 * - 73 questions of the same kind that the documents do not answer: 31 are refused;
 * - 79 questions of SQuAD that the documents answer: at most 6 are wrongly refused, since the first `part` passages
 *   alone refuse 6 of them.
 * `unknown` is the same as `least`, because a greater limit would refuse few more.
 *
 * Some questions are never refused, because the odds are too low for them:
 * - questions in other languages or about passages in other languages, because the readers were trained on English
 *   paragraphs;
 * - questions about documents whose passages have fewer than PARAGRAPH bytes on average;
 * - questions that refer to earlier messages and have fewer than two words of their own ("And what about the keeper?").
 *
 * A question with at least one word of its own is read without the previous message, even if it refers to that message.
 * The previous message is usually a question, too, and the reader would answer that question. */
static const struct {
	int part, passages;
	double sure, words, least, unknown, weight;
} measured[] = {
	[READER_ANY] = { .part = 24, .passages = 24, .words = 0, .least = 0.6, .unknown = 2, .weight = 0.5 },
	[READER_ENGLISH] = { .part = 32,
	                     .passages = READ_MOST,
	                     .sure = 2,
	                     .words = 4,
	                     .least = 3,
	                     .unknown = 3,
	                     .weight = 0.75 },
};
enum { PARAGRAPH = 200, ENGLISH_OF = 40 };

/* Return the text that the reader reads as the question. */
static const struct str *read_as_question(const struct asked *asked)
{
	return &asked->text[asked->text[1].n && !question_own_words(asked->text[0].p, asked->text[0].n)];
}

/* 1 if the passages that will be read are probably English: of their words, one of ENGLISH_OF is a frequent English one.
 * Samples of 24 passages of 500 bytes had one of 6 to one of 13 in English books, at least one of 30 in manuals, one of
 * 20 to one of 250 in C source, and at most one of 75 in the eleven other languages of XQuAD. */
static int passages_are_english(const struct conversation *conv, const struct candidates *c)
{
	size_t words = 0, english = 0;

	for (size_t i = 0; i < c->n && i < (size_t)measured[READER_ENGLISH].part; i++) {
		const struct found_passage *f = &c->at[i].found;
		const struct document *d = &conv->doc[f->text];

		english += english_words(d->text.p + d->body + f->from, f->to - f->from, &words);
	}
	return english * ENGLISH_OF >= words;
}

int reading_open(const struct conversation *conv, const struct asked *asked, struct candidates *c)
{
	const struct encoder *e = search_of(conv)->meaning.encoder;
	const struct str *question = read_as_question(asked);

	c->english = question_is_english(question->p, question->n) && passages_are_english(conv, c);
	c->reader = c->english && e && encoder_reads(e, READER_ENGLISH) ? READER_ENGLISH : READER_ANY;
	return e && encoder_reads(e, c->reader);
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
	struct encoder_string question = { read_as_question(asked)->p, read_as_question(asked)->n };
	struct encoder *encoder = search_of(conv)->meaning.encoder;
	int answers = encoder_reads(encoder, c->reader) == READS_ANSWERS,
	    most = (int)MIN(c->n, (size_t)(answers ? measured[c->reader].passages : RANK_MOST)), n = 0, sure = 0;

	for (int i = 0; i < most; i++) {
		const struct found_passage *f = &c->at[i].found;
		const struct document *d = &conv->doc[f->text];

		passage[i] = (struct encoder_string){ d->text.p + d->body + f->from, f->to - f->from };
	}
	for (int some; n < most && !sure; n += some) {
		some = MIN(most - n, answers ? measured[c->reader].part : 1);
		if (signals_stopped())
			return err_set(e, ERR_CANCELLED, "stopped");
		if (encoder_read(encoder, c->reader, question, passage + n, some, answer + n, NULL, e))
			return without_meaning(conv, e);
		for (int i = n; i < n + some && answers; i++)
			sure |= answer[i].score >= measured[c->reader].sure;
	}
	for (int i = 0; i < n; i++) {
		const struct document *d = &conv->doc[c->at[i].found.text];

		c->at[i].answers = answer[i].score;
		c->at[i].gain = measured[c->reader].weight * c->deviation * answer[i].score;
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
	double odds = 0, later = 0;
	size_t bytes = 0;
	int tells;

	if (!c->by_reading)
		return 0;
	for (int i = 0; i < c->n_judged; i++) {
		double product;

		bytes += c->at[i].found.to - c->at[i].found.from;
		product = exp(c->at[i].answers + measured[c->reader].words * c->at[i].found.covered);
		if (i < measured[c->reader].part)
			odds += product;
		else
			later = MAX(later, product);
	}
	odds += later;
	tells = bytes >= PARAGRAPH * (size_t)c->n_judged && c->english &&
	        !(question_refers(question, n) && question_own_words(question, n) < 2);
	*found = odds >= (tells && c->at[0].found.unknown ? measured[c->reader].unknown : measured[c->reader].least);
	return *found || tells;
}
