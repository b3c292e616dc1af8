/* app/retrieval/recall_turns.c - searches the turns of a conversation for the words of a question (recall.h).
 *
 * The index has the sentences of all messages; a repeated text is indexed once. The score of a turn is its bm25 plus
 * half the bm25 of its best sentence. The idf of a word is computed from the number of turns that have the word. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/retrieval/recall.h"
#include "engine/base/base.h"
#include "sessions/store/store.h"

/* average number of bytes of a word and the blank after it, for estimating the number of words of a turn */
enum { WORD_BYTES = 6 };
static const double K1 = 1.2, B = 0.6, SENTENCE_WEIGHT = 0.5;

/* ---- messages and turns ---- */

void memory_free(struct memory *m)
{
	free(m->turn);
	free(m->turn_of);
	free(m->numbered);
}

static int by_number(const void *a, const void *b)
{
	const struct numbered *x = a, *y = b;

	if (x->number != y->number)
		return x->number < y->number ? -1 : 1;
	return x->msg < y->msg ? -1 : x->msg > y->msg;
}

static int says_something(const struct str *text)
{
	for (size_t i = 0; i < text->n; i++)
		if ((unsigned char)text->p[i] > ' ')
			return 1;
	return 0;
}

/* Index the messages that are not in the index yet. The last message is left out while it is still being read from a
 * stream. */
static int add_messages(struct conversation *conv, const struct recall *r, struct err *e)
{
	size_t n = conv->n_msg - (size_t)(conv->grows != 0);
	int anew = 1;

	for (size_t i = 0; i < conv->n_msg && anew; i++)
		anew = !conv->msg[i].number;
	for (size_t i = 0; i < n; i++) {
		struct message *m = &conv->msg[i];

		if (m->number || !says_something(&m->text))
			continue;
		if (r->add_message(m->text.p, m->text.n, anew, &m->number, r->search_ud, e) < 0)
			return -1;
		anew = 0;
	}
	return 0;
}

/* Group the messages into turns, each of which begins with a question. */
static void memory_open(const struct conversation *conv, struct memory *m)
{
	size_t n_turn = 0;

	m->turn = xcalloc(conv->n_msg + 1, sizeof *m->turn);
	m->turn_of = xcalloc(conv->n_msg + 1, sizeof *m->turn_of);
	m->numbered = xcalloc(conv->n_msg + 1, sizeof *m->numbered);
	for (size_t i = 0; i < conv->n_msg; i++) {
		const struct message *msg = &conv->msg[i];
		struct turn_words *turn;

		if (msg->role == ROLE_USER)
			m->turn[n_turn++] = (struct turn_words){ .question = i, .answer = SIZE_MAX };
		m->turn_of[i] = n_turn ? n_turn - 1 : SIZE_MAX;
		if (!n_turn)
			continue;
		turn = &m->turn[n_turn - 1];
		turn->number = n_turn;
		turn->words += (double)msg->text.n / WORD_BYTES;
		if (msg->role == ROLE_ASSISTANT)
			turn->answer = i;
		if (msg->number)
			m->numbered[m->n_numbered++] = (struct numbered){ msg->number, i };
	}
	m->n_turn = n_turn;
	qsort(m->numbered, m->n_numbered, sizeof *m->numbered, by_number);
}

/* Return the index of the first element of numbered[] that has this text number; n_numbered if there is none. */
static size_t find_text(const struct memory *m, int64_t number)
{
	size_t lo = 0, hi = m->n_numbered;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (m->numbered[mid].number < number)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < m->n_numbered && m->numbered[lo].number == number ? lo : m->n_numbered;
}

/* ---- bm25 ---- */

/* Return the bm25 of a word, divided by its idf. `count` is how often the word occurs in the text. `words` is the
 * number of words of the text, and `mean` the mean number of words over all texts. */
static double saturate(double count, double words, double mean)
{
	return count * (K1 + 1) / (count + K1 * (1 - B + B * words / (mean > 0 ? mean : 1)));
}

/* For each word of the question, count in each turn the sentences in which the word occurs. Then set the word's weight
 * (idf) from the number of turns in which it occurs. Bit w of `asked` is 1 if word w was searched for. */
static void weigh_words(struct memory *m, const struct found_sentence *s, size_t n, uint64_t asked)
{
	size_t have[RECALL_WORDS] = { 0 };

	for (size_t i = 0; i < n; i++)
		for (size_t k = find_text(m, s[i].text); k < m->n_numbered && m->numbered[k].number == s[i].text; k++) {
			struct turn_words *turn = &m->turn[m->turn_of[m->numbered[k].msg]];

			for (int w = 0; w < RECALL_WORDS; w++)
				if (s[i].has >> w & 1 && turn->count[w] < UINT8_MAX)
					have[w] += !turn->count[w]++;
		}
	for (int w = 0; w < RECALL_WORDS; w++) {
		m->weight[w] = asked >> w & 1
		                       ? log(1 + ((double)m->n_turn - (double)have[w] + 0.5) / ((double)have[w] + 0.5))
		                       : 0;
		m->whole += m->weight[w];
	}
}

/* Set the best sentence of each question and each answer. */
static void score_sentences(struct memory *m, const struct found_sentence *s, size_t n)
{
	double mean = 0;

	for (size_t i = 0; i < n; i++)
		mean += s[i].words / (double)n;
	for (size_t i = 0; i < n; i++) {
		double sum = 0;
		int shared = 0;

		for (int w = 0; w < RECALL_WORDS; w++)
			if (s[i].has >> w & 1) {
				sum += m->weight[w];
				shared++;
			}
		for (size_t k = find_text(m, s[i].text); k < m->n_numbered && m->numbered[k].number == s[i].text; k++) {
			size_t msg = m->numbered[k].msg;
			struct turn_words *turn = &m->turn[m->turn_of[msg]];
			struct best *best = &turn->best[msg != turn->question];
			double score = sum * saturate(1, s[i].words, mean);

			if (score > best->score)
				*best = (struct best){
					msg, s[i].from, s[i].to, score, m->whole > 0 ? sum / m->whole : 0, shared
				};
		}
	}
}

static int is_question(const struct str *text, const struct best *b)
{
	/* question marks: Latin, full-width, Arabic */
	static const char *const mark[] = { "?", "\xef\xbc\x9f", "\xd8\x9f" };

	for (size_t i = 0; i < LEN(mark); i++) {
		size_t n = strlen(mark[i]);
		if (b->to - b->from >= n && !memcmp(text->p + b->to - n, mark[i], n))
			return 1;
	}
	return 0;
}

static double larger(double a, double b)
{
	return MAX(a, b);
}

/* Set turn->tells to the sentence to recall: the best sentence of the turn. If the best sentence is a question, take
 * instead the best sentence of the answer, or the beginning of the answer if none of its sentences has a score. Also
 * halve the turn's score, unless the answer alone gives the turn a higher score. If there is no answer, the turn is not
 * recalled: its score becomes 0. */
static void find_recalled_sentence(const struct conversation *conv, struct turn_words *turn)
{
	const struct best *q = &turn->best[0], *a = &turn->best[1];
	size_t n;

	turn->tells = a->score > q->score ? *a : *q;
	turn->score += SENTENCE_WEIGHT * turn->tells.score;
	if (turn->tells.score <= 0 || turn->tells.msg != turn->question || !is_question(&conv->msg[q->msg].text, q))
		return;
	if (turn->answer == SIZE_MAX || !conv->msg[turn->answer].text.n) {
		turn->tells = (struct best){ 0 };
		turn->score = 0;
		return;
	}
	n = conv->msg[turn->answer].text.n;
	if (a->score > 0)
		turn->tells = *a;
	else
		turn->tells = (struct best){ .msg = turn->answer,
			                     .to = n <= RECALL_BEGINNING ? n
			                                                 : utf8_complete(conv->msg[turn->answer].text.p,
			                                                                 RECALL_BEGINNING) };
	turn->tells.score = larger(a->score, q->score / 2);
	turn->tells.covered = larger(a->covered, q->covered / 2);
	turn->tells.shared = MAX(q->shared, a->shared);
	turn->score = larger((1 + SENTENCE_WEIGHT) * a->score, turn->score / 2);
}

static int by_score(const void *a, const void *b)
{
	const struct turn_words *x = a, *y = b;

	if (x->score != y->score)
		return x->score < y->score ? 1 : -1;
	return x->number < y->number ? 1 : -1; /* of two turns with the same score, the newer one comes first */
}

/* Score the turns and sort them, the best first. */
static void score_turns(const struct conversation *conv, struct memory *m)
{
	double mean = 0;

	for (size_t i = 0; i < m->n_turn; i++)
		mean += m->turn[i].words / (double)m->n_turn;
	for (size_t i = 0; i < m->n_turn; i++) {
		struct turn_words *turn = &m->turn[i];

		for (int w = 0; w < RECALL_WORDS; w++)
			if (turn->count[w])
				turn->score += m->weight[w] * saturate(turn->count[w], turn->words, mean);
		find_recalled_sentence(conv, turn);
	}
	qsort(m->turn, m->n_turn, sizeof *m->turn, by_score);
}

int memory_search(struct conversation *conv, const struct recall *r, const char *question, size_t n, struct memory *m,
                  struct err *e)
{
	struct found_sentence *found = NULL;
	size_t n_found;
	uint64_t words;

	if (add_messages(conv, r, e) < 0 ||
	    r->find_sentences(question, n, &found, &n_found, &words, r->search_ud, e) < 0)
		return -1;
	memory_open(conv, m);
	weigh_words(m, found, n_found, words);
	score_sentences(m, found, n_found);
	score_turns(conv, m);
	free(found);
	return 0;
}
