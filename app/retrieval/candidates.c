/* app/retrieval/candidates.c - scores the passages of the documents for a question and sorts them, the best first
 * (retrieval_private.h).
 *
 * The score is a sum in units of bm25: bm25 of the question's words, from the index; a score for similarity of meaning,
 * if there is a text encoder (meaning.c); a score for the last turn (last_turn.c). The best passages also get points from
 * the encoder's reader (reading.c). If there is no reader, they get points for the query likelihood, which the chat
 * model computes (rerank.c). */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "app/retrieval/retrieval_private.h"
#include "engine/base/base.h"
#include "engine/base/utf8.h"
#include "sessions/store/store.h"

/* The weight of query likelihood. Without an encoder, each nat adds NAT to a passage's score. With an encoder, each nat
 * adds NAT_SIMILAR * worth. Here `worth` is the score for a similarity of one standard deviation above the mean. */
static const double NAT = 1.8, NAT_SIMILAR = 0.2;
/* MEANING sets the weight of the similarity against bm25. If the similarity of a passage is one standard deviation
 * above the mean, MEANING * d / covered^2 is added to its score. Here d is the standard deviation of bm25 over the
 * passages, but at least SPREAD_LEAST. `covered` is the share of the question's words, weighted by idf, that the best
 * passage has, but at least COVERED_FLOOR. So the similarity counts more if the passages have few of the question's
 * words, because bm25 then says little.
 *
 * Measured on 140 questions of tests/measure/questions: the right passage is among the first ten for 98 questions. With
 * a fixed score instead, it is among them for at most 91 questions. */
static const double MEANING = 2.5, COVERED_FLOOR = 0.35;
/* A passage's score for similarity grows by BESIDE times the mean of the scores of the passages before and after it,
 * because the words that tell what a passage is about often stand beside it. Measured with 690 questions that the
 * documents answer: the right passage is among the first 32 for 596 of them; without BESIDE, for 587. */
static const double BESIDE = 0.2;
/* For questions like "who is X": additional score of passages that have all words of X. The unit is one standard
 * deviation of the similarity. The first such passage of the text gets INTRODUCED units; each later one gets
 * INTRODUCED_LATER times the score of the one before it. Measured on 20 such questions: the right passage comes first
 * for 16 of them; without this score, for 12. */
static const double INTRODUCED = 3.3, INTRODUCED_LATER = 0.7;
/* Lower limit of the standard deviation of bm25. Without it, the deviation would be 0 if no passage has a word of the
 * question. */
static const double SPREAD_LEAST = 0.1;
/* Usual standard deviation of the similarity over the passages of a book. With few passages the measured deviation is
 * unreliable. So it is averaged with the usual one, as if there were SIMILAR_FEW more passages. */
static const double SIMILAR_SPREAD = 0.075;
enum { SIMILAR_FEW = 10 };
/* The documents answer the question if one passage reaches one of these limits:
 * - with query likelihood: covered + GAIN_SHARE * gain >= FOUND_LEAST. Here `covered` is the share of the question's
 *   words, weighted by idf, that the passage has, and `gain` is its query likelihood in nats;
 * - without query likelihood: covered >= COVERED_LEAST;
 * - with an encoder: similarity >= SIMILAR_LEAST, if the documents have all names and numbers of the question.
 * SIMILAR_LEAST was measured on 140 questions that the documents answer. With a value of 0.2, no passage reaches a
 * limit for 2 questions. The value 0.18 leaves room for rounding: the similarity of one right passage is 0.2016 with
 * AVX2 and 0.1995 in portable C. */
static const double GAIN_SHARE = 0.02, FOUND_LEAST = 0.64, COVERED_LEAST = 0.4, SIMILAR_LEAST = 0.18;

/* A passage is weak (source.weak) if its score is below this share of the best score. Measured for the second and third
 * passages of SQuAD and HotpotQA: 0 to 3 % of the right passages are weak, and up to 70 % of the wrong passages
 * (tests/results/2026-11-28-answers.md). */
static const double WEAK_BELOW = 0.4;

/* The score of a table of contents is multiplied by CONTENTS, and the reader or the chat model adds nothing to it.
 * Only the best CONTENTS_AMONG passages are checked for tables of contents. */
static const double CONTENTS = 0.25;
enum { CONTENTS_AMONG = 20 };

/* The highest score of a passage for words of the last turn (passage_candidate.lean). It is a multiple of
 * rarest_word(). LEAN_REFERS applies to a question that refers to earlier messages ("he", "that"). LEAN applies to
 * other questions; it is small, so that it only decides between passages of nearly equal score. */
static const double LEAN = 0.15, LEAN_REFERS = 1.5;
/* upper limit of passage_candidate.lean, as a share of the best bm25 that a passage has for the question's words */
static const double LEAN_MOST = 0.75;

/* A source is marked as sure (source.sure) if two conditions hold. The passage has at least the share SURE_COVERED of
 * the question's words. The bm25 of its best sentence is at least SURE_SENTENCE of the bm25 of the whole passage. For
 * "who is X" no source is sure, because every sentence about X has all words of that question. */
static const double SURE_COVERED = 0.6, SURE_SENTENCE = 0.75;

enum {
	INTRODUCTIONS = 6,     /* maximum number of passages that get a score because they introduce X ("who is X") */
	QUOTED_BY_MEANING = 4, /* number of best passages whose quoted sentence is chosen by meaning */
	WINDOW = 300,          /* approximate number of bytes of a passage that the chat model scores */
	SENTENCE_BYTES = 100,  /* usual number of bytes of a sentence */
};

/* ---- the search ---- */

enum { PART = 65536, PART_MORE = 4096 };

size_t text_part_end(const char *p, size_t n, size_t skipped, size_t at)
{
	size_t end = ((skipped + at) / PART + 1) * PART - skipped;

	for (size_t i = end; i < n && i < end + PART_MORE; i++)
		if (p[i] == '\n')
			return i + 1;
	return MIN(utf8_forward(p, n, end), n);
}

/* The texts to index. A document is one text. But a document that is still being read from a stream is split into
 * several texts (text_part_end()). */
struct parts {
	struct indexed_text *text;
	struct {
		size_t doc, at;
	} * of; /* [n] for each text: its document, and the byte at which the text begins in the document's body */
	size_t n;
};

static void parts_free(struct parts *p)
{
	free(p->text);
	free(p->of);
}

static struct parts parts_of(const struct conversation *conv)
{
	struct parts p = { .n = 0 };
	size_t most = conv->n_doc;

	for (size_t i = 0; i < conv->n_doc; i++)
		most += conv->doc[i].grows ? conv->doc[i].n_body / (PART - PART_MORE) + 1 : 0;
	p.text = xcalloc(most + 1, sizeof *p.text);
	p.of = xcalloc(most + 1, sizeof *p.of);
	for (size_t i = 0; i < conv->n_doc; i++) {
		const struct document *d = &conv->doc[i];
		const char *body = d->text.p + d->body;

		for (size_t at = 0, end; (at < d->n_body || !at) && p.n < most; at = end) {
			end = d->grows ? text_part_end(body, d->n_body, d->skipped, at) : d->n_body;
			p.of[p.n].doc = i;
			p.of[p.n].at = at;
			p.text[p.n++] = (struct indexed_text){ body + at, end - at };
			if (end == d->n_body)
				break;
		}
	}
	return p;
}

/* Estimate the bm25 of a word that occurs in only one sentence of the documents. */
static double rarest_word(const struct conversation *conv)
{
	double sentences = 1;

	for (size_t i = 0; i < conv->n_doc; i++)
		sentences += (double)conv->doc[i].n_body / SENTENCE_BYTES;
	return log(1 + sentences);
}

/* mean and standard deviation of some values */
struct spread {
	double mean, deviation;
};

/* Compute mean and standard deviation of one member of all candidates. `member` is the offset of this member in the
 * struct. With few candidates, the measured deviation is unreliable. So the variance is averaged with usual^2, which
 * has the weight of `few` candidates. */
static struct spread spread_of(const struct passage_candidate *c, size_t n, size_t member, double usual, int few)
{
	struct spread s = { .mean = 0 };
	double squares = 0;

	for (size_t i = 0; i < n; i++) {
		double v = *(const double *)((const char *)&c[i] + member);

		s.mean += v / (double)n;
		squares += v * v;
	}
	squares = MAX(squares - (double)n * s.mean * s.mean, 0);
	s.deviation = sqrt((squares + few * usual * usual) / (double)(n + (size_t)few));
	return s;
}

/* Return the similarity of a passage less `mean`, raised by the similarities of the passages beside it (BESIDE). */
static double similar_beside(const struct candidates *c, size_t i, double mean)
{
	double beside = 0;

	if (i && c->at[i - 1].found.text == c->at[i].found.text)
		beside += c->at[i - 1].similar - mean;
	if (i + 1 < c->n && c->at[i + 1].found.text == c->at[i].found.text)
		beside += c->at[i + 1].similar - mean;
	return c->at[i].similar - mean + BESIDE * beside / 2;
}

/* If there is an encoder, set the similarity of all passages, and the scores that they get for their similarity. Always
 * set c->nat. Returns 0 or -1. */
static int candidates_compare(struct conversation *conv, const struct parts *p, struct passage_index *index,
                              const struct asked *asked, const struct found_passage *all, struct candidates *c,
                              struct err *e)
{
	float *similar = xcalloc(c->n + 1, sizeof *similar);
	struct spread words, meaning;
	double covered = COVERED_FLOOR, worth;

	c->nat = NAT;
	c->by_meaning = meaning_similar(conv, index, p->text, asked, all, c->n, similar, e);
	for (size_t i = 0; i < c->n && c->by_meaning > 0; i++) {
		c->at[i].similar = similar[i];
		covered = MAX(covered, all[i].covered);
	}
	free(similar);
	if (c->by_meaning <= 0)
		return c->by_meaning;
	words = spread_of(c->at, c->n, offsetof(struct passage_candidate, words), 0, 0);
	meaning = spread_of(c->at, c->n, offsetof(struct passage_candidate, similar), SIMILAR_SPREAD, SIMILAR_FEW);
	worth = MEANING / (covered * covered) * MAX(words.deviation, SPREAD_LEAST);
	c->nat = NAT_SIMILAR * worth;
	c->introduced = INTRODUCED * worth;
	for (size_t i = 0; i < c->n; i++)
		c->at[i].meaning = worth * similar_beside(c, i, meaning.mean) / meaning.deviation;
	return 0;
}

/* 1 if the text contains the word, ignoring the case of ASCII letters. The word is given in lower case. */
static int text_has(const char *p, size_t n, const char *word)
{
	size_t len = strlen(word);

	for (size_t i = 0; i + len <= n; i++)
		if (tolower((unsigned char)p[i]) == (unsigned char)*word && !strncasecmp(p + i, word, len))
			return 1;
	return 0;
}

/* For a question like "who is X", raise the scores of the first passages that have all words of X, because a text
 * introduces X early. */
static void candidates_introduce(const struct parts *p, const struct subject *x, struct candidates *c)
{
	double bonus = c->introduced;

	for (size_t i = 0, left = INTRODUCTIONS; i < c->n && left && x->n; i++) {
		const struct found_passage *f = &c->at[i].found;
		int has = 1;

		for (int k = 0; k < x->n && has; k++)
			has = text_has(p->text[f->text].p + f->from, f->to - f->from, x->word[k]);
		if (!has)
			continue;
		c->at[i].meaning += bonus;
		bonus *= INTRODUCED_LATER;
		left--;
	}
}

/* Set *c to all passages of the texts. Set two members of each: `words` (bm25 of the question's words) and `meaning`
 * (the score for similarity). `asked` has the texts that asked_set() makes. Returns 0 or -1. */
static int candidates_search(struct conversation *conv, const struct parts *p, const char *question, size_t n,
                             const struct asked *asked, struct candidates *c, struct err *e)
{
	struct source_search *s = search_of(conv);
	struct passage_index *index = NULL;
	struct found_passage *all;
	struct subject x = question_subject(question, n);
	int rc = s->search(p->text, p->n, question, n, &all, &c->n, &index, s->search_ud, e);

	if (rc)
		return -1;
	c->asks_what = x.n > 0;
	c->at = xcalloc(c->n + 1, sizeof *c->at);
	for (size_t i = 0; i < c->n; i++)
		c->at[i] = (struct passage_candidate){ .found = all[i], .words = all[i].score };
	rc = candidates_compare(conv, p, index, asked, all, c, e);
	if (!rc && c->by_meaning)
		candidates_introduce(p, &x, c);
	free(all);
	return rc;
}

/* Set passage_candidate.lean of all candidates: their scores for words of the last turn. The text `words` is made by
 * with_last_turn(). The candidates must still be in the order of the documents. Returns 0 or -1. */
static int candidates_lean(struct conversation *conv, const struct parts *p, const char *question, size_t n,
                           const struct str *words, struct candidates *c, struct err *e)
{
	struct source_search *s = search_of(conv);
	struct passage_index *index;
	struct found_passage *with;
	size_t n_with;
	double own = 0, most = 0, worth = (question_refers(question, n) ? LEAN_REFERS : LEAN) * rarest_word(conv);

	if (s->search(p->text, p->n, words->p, words->n, &with, &n_with, &index, s->search_ud, e))
		return -1;
	for (size_t i = 0; i < c->n && i < n_with; i++) {
		own = MAX(own, c->at[i].words);
		c->at[i].lean = MAX(with[i].score - c->at[i].words, 0);
		most = MAX(most, c->at[i].lean);
	}
	/* A passage that has only words of the last turn must rank below the best passage with words of the question,
	 * unless the question has only function words ("And why?"). */
	if (own > rarest_word(conv) / 2 && worth > LEAN_MOST * own)
		worth = LEAN_MOST * own;
	for (size_t i = 0; i < c->n && most > 0; i++)
		c->at[i].lean *= worth / most;
	free(with);
	return 0;
}

/* ---- the order ---- */

static double candidate_score(const struct passage_candidate *c)
{
	double score = c->words + c->meaning + c->lean;

	return c->contents && score > 0 ? CONTENTS * score : score;
}

static double score_deviation(const struct candidates *c)
{
	double mean = 0, squares = 0;

	for (size_t i = 0; i < c->n; i++) {
		double v = candidate_score(&c->at[i]);

		mean += v / (double)c->n;
		squares += v * v / (double)c->n;
	}
	return sqrt(MAX(squares - mean * mean, 0));
}

static double candidate_total(const struct passage_candidate *c)
{
	return candidate_score(c) + (c->contents ? MIN(c->gain, 0) : c->gain);
}

/* Sort by score, the best first. But judged passages (passages that the reader or the chat model has scored) come
 * before all others. */
static int by_total(const void *a, const void *b)
{
	const struct passage_candidate *x = a, *y = b;

	if (x->judged != y->judged)
		return y->judged - x->judged;
	if (candidate_total(x) != candidate_total(y))
		return candidate_total(x) < candidate_total(y) ? 1 : -1;
	return x->found.text != y->found.text  ? (x->found.text < y->found.text ? -1 : 1)
	       : x->found.from < y->found.from ? -1
	                                       : 1;
}

/* Return the part of a passage that the chat model scores: about WINDOW bytes around the best sentence, or the whole
 * passage if `whole` is 1. */
static struct quote judged_text(const struct document *d, const struct found_passage *f, int whole)
{
	const char *body = d->text.p + d->body;
	size_t n = f->quote_end - f->quote, around = n < WINDOW ? (WINDOW - n) / 2 : 0;
	size_t from = f->quote - f->from < around ? f->from : f->quote - around;
	size_t to = f->to - f->quote_end < around ? f->to : f->quote_end + around;

	if (whole)
		return (struct quote){ body + f->from, f->to - f->from };
	for (; from > f->from && from < f->quote && utf8_continues(body[from]); from++)
		;
	for (; to < f->to && to > f->quote_end && utf8_continues(body[to]); to--)
		;
	return (struct quote){ body + from, to - from };
}

/* Let the reader score the best passages. If there is no reader, the chat model scores them. Returns 0 or -1. */
static int candidates_judge(struct conversation *conv, const char *question, size_t n, const struct asked *asked,
                            struct candidates *c, struct err *e)
{
	struct quote quote[SOURCES_MOST];
	double gain[SOURCES_MOST];
	int count = (int)MIN(c->n, (size_t)SOURCES_MOST);

	if (c->by_meaning && reading_open(conv, asked, c))
		return candidates_read(conv, asked, c, e);
	for (int i = 0; i < count; i++)
		quote[i] = judged_text(&conv->doc[c->at[i].found.text], &c->at[i].found, c->by_meaning);
	if (rerank_gains(conv, question, n, quote, count, gain, &c->n_judged, e) < 0)
		return -1;
	for (int i = 0; i < c->n_judged; i++) {
		c->at[i].nats = gain[i];
		c->at[i].gain = c->nat * gain[i];
		c->at[i].judged = 1;
	}
	return 0;
}

/* 1 if the passages answer the question, according to comparison_found(), reading_tells() or the limits at
 * FOUND_LEAST. */
static int is_found(const struct conversation *conv, const struct candidates *c, const char *question, size_t n)
{
	int found;

	if (!c->at[0].found.unknown && comparison_found(conv, c, question, n))
		return 1;
	if (reading_tells(c, question, n, &found))
		return found;
	for (size_t i = 0; c->by_meaning && i < c->n && i < SOURCES_MOST; i++)
		if (c->at[i].similar >= SIMILAR_LEAST && !c->at[i].found.unknown)
			return 1;
	if (!c->n_judged || c->by_ranking)
		return c->n && c->at[0].found.covered >= COVERED_LEAST;
	for (int i = 0; i < c->n_judged; i++)
		if (c->at[i].found.covered + GAIN_SHARE * c->at[i].nats >= FOUND_LEAST)
			return 1;
	return 0;
}

/* Remove the passages without a score. */
static void candidates_drop(struct candidates *c)
{
	size_t n = 0;

	for (size_t i = 0; i < c->n; i++)
		if (candidate_score(&c->at[i]) > 0)
			c->at[n++] = c->at[i];
	c->n = n;
}

/* Sort the candidates. Then lower the scores of tables of contents among the best candidates. */
static void candidates_sort(const struct conversation *conv, struct candidates *c)
{
	qsort(c->at, c->n, sizeof *c->at, by_total);
	for (size_t i = 0; i < c->n && i < CONTENTS_AMONG; i++) {
		const struct found_passage *f = &c->at[i].found;
		c->at[i].contents = passage_is_contents(&conv->doc[f->text], f->from, f->to);
	}
	qsort(c->at, c->n, sizeof *c->at, by_total);
}

int candidates_find(struct conversation *conv, const char *question, size_t n, struct candidates *c, struct err *e)
{
	struct parts p = parts_of(conv);
	struct str words = { 0 };
	struct asked asked = { 0 };
	int rc;

	*c = (struct candidates){ .at = NULL };
	asked_set(conv, question, n, &asked);
	rc = p.n && search_of(conv)->search ? candidates_search(conv, &p, question, n, &asked, c, e) : 0;
	if (!rc && c->n && with_last_turn(conv, question, n, &words))
		rc = candidates_lean(conv, &p, question, n, &words, c, e);
	for (size_t i = 0; i < c->n && !rc; i++) {
		struct found_passage *f = &c->at[i].found;
		size_t at = p.of[f->text].at;

		f->text = p.of[f->text].doc;
		f->from += at;
		f->to += at;
		f->quote += at;
		f->quote_end += at;
	}
	c->deviation = score_deviation(c);
	candidates_stay(conv, question, n, c);
	candidates_drop(c);
	if (!rc && c->n) {
		candidates_sort(conv, c);
		rc = candidates_judge(conv, question, n, &asked, c, e);
		c->found = is_found(conv, c, question, n);
		qsort(c->at, c->n, sizeof *c->at, by_total);
		for (size_t i = 0; i < c->n && i < QUOTED_BY_MEANING && c->by_meaning && !rc; i++) {
			const struct document *d = &conv->doc[c->at[i].found.text];

			if (c->by_reading && c->at[i].judged)
				answer_quote(d->text.p + d->body, &c->at[i]);
			else
				rc = meaning_quote(conv, d->text.p + d->body, &c->at[i].found, e);
		}
	}
	str_free(&words);
	str_free(&asked.text[0]);
	str_free(&asked.text[1]);
	parts_free(&p);
	return rc;
}

struct source candidate_source(const struct candidates *c, size_t i)
{
	const struct passage_candidate *x = &c->at[i], *best = &c->at[0];
	const struct found_passage *f = &x->found;
	double score = candidate_total(x);

	/* Judged passages rank first, even above passages with a higher score. So limit this passage's score to the
	 * lowest score of the passages that rank above it. */
	for (size_t k = 0; k < i; k++)
		score = MIN(score, candidate_total(&c->at[k]));
	return (struct source){
		.doc = f->text,
		.from = f->from,
		.to = f->to,
		.quote = f->quote,
		.quote_end = f->quote_end,
		.answer = x->answer,
		.answer_end = x->answer_end,
		.sure = !c->asks_what && f->covered >= SURE_COVERED && f->sentence >= SURE_SENTENCE * f->passage,
		.score = score,
		/* A passage that was not judged has no `gain`. So compare it with the best passage's score without the
		 * gain. */
		.weak = i && (x->judged ? candidate_total(x) < WEAK_BELOW * candidate_total(best)
		                        : candidate_score(x) < WEAK_BELOW * candidate_score(best)),
	};
}
