/* sessions/store/passage_search.c - finds the passages of texts that answer a question (store.h).
 *
 * Passages and sentences are scored by bm25 (Robertson and Zaragoza 2009). The index tells which sentences contain a
 * word, but not how often. So the term frequency in a passage is the number of its sentences with the word. The words
 * of the question are quoted in the FTS5 query, so that words such as OR are not operators. */
#include "sessions/store/passages.h"
#include "engine/base/utf8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
	/* minimum length in characters of the common prefix of two related words ("religious", "religion") */
	PREFIX_LEAST = 5,
	/* the common prefix of related words is the stem of a word without its last characters; it lacks at most
	 * PREFIX_LESS of them */
	PREFIX_LESS = 2,
	/* two texts are searched by one query if at most GAP rows of other texts are between their rows */
	GAP = 1000,
	TRIES = 5, /* maximum number of retries while another process changes the index */
	/* if the searched texts have at most this many sentences in all, no word is skipped as too common */
	COMMON_ABOVE = 400,
};
/* If the searched texts have more than COMMON_ABOVE sentences, a word that occurs in more than this share of the
 * sentences is skipped as too common. */
static const double COMMON_SHARE = 0.12;
/* Weight of question words ("what", "who"). It is above 0, so that a question of only such words finds passages. */
static const double ASKING_WEIGHT = 0.1;
static const double NAME_WEIGHT = 1.3; /* weight of a capitalised word, unless it is the first word of the question */
/* Weight of a related word, which shares a prefix with a word of the question ("religious" for "religion"). */
static const double RELATED_WEIGHT = 0.5;
/* parameters of bm25: k1 (saturation) and b (length normalisation) */
static const double K1 = 0.6, B_PASSAGE = 0.6, B_SENTENCE = 0.2;
static const double SENTENCE_WEIGHT = 0.75; /* weight of the best sentence in the passage's score */
static const double HEADING_WEIGHT = 0.3;   /* weight of a word that is only in the heading of the passage */

/* ---- the question ---- */

/* Question and function words in English, German, French and Spanish, without accents, in the form that words_fold()
 * writes. They are rarer in documents than in questions, so idf would give them too much weight. */
/* clang-format off */
static const char *const asking[] = {
	"a", "about", "an", "and", "any", "are", "as", "at", "be", "been", "besides", "by", "can", "could", "did", "do", "does", "for", "from", "get", "give",
	"had", "has", "have", "he", "her", "his", "how", "i", "if", "in", "is", "it", "its", "kind", "many", "may", "me", "might", "much", "name", "of", "on",
	"or", "say", "says", "she", "should", "so", "tell", "that", "the", "their", "them", "there", "these", "they", "this", "those", "to", "type", "was",
	"please", "explain", "describe", "define", "briefly", "mean", "means", "meant", "meaning", "show", "know", "like", "understand", "want",
	"were", "what", "when", "where", "which", "who", "whom", "whose", "why", "will", "with", "would", "you", "according", "called", "document", "text",
	"bitte", "erklare", "erklar", "mir", "sag", "kannst", "konnen", "bedeutet", "heisst",
	"wer", "wie", "was", "wann", "wo", "warum", "welche", "welcher", "welches", "der", "die", "das", "ist", "sind", "hat", "wurde", "und", "von", "ein", "eine",
	"expliquez", "explique", "plait", "dis", "dites", "moi", "peux", "pouvez", "signifie",
	"qui", "que", "quoi", "quand", "comment", "pourquoi", "quel", "quelle", "quels", "quelles", "est", "sont", "le", "la", "les", "des", "du", "et", "un", "une",
	"quien", "cuando", "donde", "como", "cual", "cuantos", "el", "los", "las", "es", "fue", "de", "en", "y",
	"favor", "explica", "explicame", "dime", "puedes", "significa",
};
/* clang-format on */

/* Chinese and Korean question words, as pairs of characters: words_fold() splits texts in these scripts into pairs. */
static const char *const asking_pairs[] = {
	"什么", "甚麼", "什麼", "怎么", "怎麼", "怎样", "怎樣", "如何", "哪个", "哪個", "哪里", "哪些",
	"哪儿", "多少", "为什", "為什", "是什", "为何", "무엇", "어디", "언제", "누구", "어떻", "떻게",
	"얼마", "엇입", "마입", "입니", "니까", "합니", "습니", "됩니", "나요", "까요",
};

/* 1 if w is two Hiragana letters. They are nearly always a verb ending or a particle, so they count as a question
 * word. */
static int is_hiragana_pair(const struct question_word *w)
{
	int32_t first, second;
	size_t k = (size_t)utf8_decode(w->text, w->n, &first);

	return w->n == 6 && k == 3 && utf8_decode(w->text + 3, 3, &second) == 3 && first >= 0x3041 && first <= 0x309f &&
	       second >= 0x3041 && second <= 0x309f;
}

static int is_asking(const struct question_word *w)
{
	char low[12];

	if (w->n >= sizeof low)
		return 0;
	if ((unsigned char)*w->text >= 0xe3) {
		for (size_t i = 0; i < LEN(asking_pairs); i++)
			if (w->n == 6 && !memcmp(w->text, asking_pairs[i], 6))
				return 1;
		return is_hiragana_pair(w);
	}
	for (size_t i = 0; i <= w->n; i++)
		low[i] = (char)(w->text[i] >= 'A' && w->text[i] <= 'Z' ? w->text[i] + 32 : w->text[i]);
	for (size_t i = 0; i < LEN(asking); i++)
		if (!strcmp(low, asking[i]))
			return 1;
	return 0;
}

/* 1 if w looks like a number or a name. It begins with a digit, or with a capital although it is not the question's
 * first word. A question word such as "What" is not a name. */
static int is_name(const struct question_word *w, int first)
{
	return !is_asking(w) && (byte_is_digit(*w->text) || (!first && *w->text >= 'A' && *w->text <= 'Z'));
}

/* Return the factor by which a word's weight is multiplied. `first` is 1 if the word is the first word of the question,
 * whose capital letter means nothing. */
static double word_factor(const struct question_word *w, int first)
{
	return is_asking(w) ? ASKING_WEIGHT : !first && *w->text >= 'A' && *w->text <= 'Z' ? NAME_WEIGHT : 1;
}

/* Write the FTS5 query for word w. If `related` is 1, the query is for words that share a prefix with w's stem; *out is
 * then empty if the stem is too short. */
static void word_query(const struct question_word *w, int related, struct str *out)
{
	size_t n = w->n_stem, n_char = utf8_characters(w->stem, n);

	str_clear(out);
	if (!related) {
		str_addf(out, "\"%s\"", w->text);
		return;
	}
	if (n_char < PREFIX_LEAST || is_asking(w) || strpbrk(w->stem, "\"0123456789"))
		return;
	for (int less = 0; less < PREFIX_LESS && n_char > PREFIX_LEAST; less++, n_char--)
		n = n ? utf8_back(w->stem, n - 1) : 0;
	str_adds(out, "\"");
	str_add(out, w->stem, n);
	str_adds(out, "\" *");
}

/* ---- the texts ---- */

/* A passage and its score so far. `text` is the index of the passage's text. [from, to) is the range of its sentences,
 * as indexes into the sentences of all texts. `words` is the number of its words. `covered` is the sum of the weights
 * of those words of the question that the passage contains. */
struct scored_passage {
	size_t text, from, to;
	uint32_t words;
	double score, covered;
	/* Number (from 1; 0 = none) of the last question word that was counted for the passage: `has` for its text,
	 * `headed` for its heading. They keep a word from being counted twice. */
	uint32_t has, headed;
};
/* The rows `first` to `last` of the index. They contain the rows of the texts order[from .. to). */
struct row_range {
	int64_t first, last;
	size_t from, to;
};
struct search {
	struct passage_index *x;
	const struct indexed_text *text;
	size_t n_text;
	struct passage_rows *rows; /* [n_text] the sentences of each text */
	uint32_t *order;           /* [n_text] indexes of the texts, sorted by the rows of the texts */
	/* [n_range] ranges of rows in ascending order; each range is searched by one query */
	struct row_range *range;
	size_t n_range;
	size_t *base; /* [n_text + 1] for each text, the number of sentences in the texts before it */
	struct scored_passage *passage;
	size_t n_passage, cap;
	uint32_t *passage_of; /* [n_sentence] for each sentence, the index in passage[] of its passage */
	/* [n_passage] for each passage, the index of the passage that contains the heading above it; its own index if
	 * there is no heading */
	uint32_t *under;
	double *score; /* [n_sentence] bm25 of each sentence */
	/* [n_sentence] for each sentence, the number (from 1) of the last question word that was found in it */
	uint32_t *has;
	size_t n_sentence;
	int unknown; /* 1: a name or number of the question is in no sentence */
	double mean_sentence, mean_passage;
};

static void search_free(struct search *s)
{
	free(s->rows);
	free(s->order);
	free(s->range);
	free(s->base);
	free(s->passage);
	free(s->passage_of);
	free(s->under);
	free(s->score);
	free(s->has);
}

/* Entry of a list that is sorted by the rows of the texts. `id` is the number of a text's first row, and `text` the
 * index of the text. */
struct text_order {
	int64_t id;
	uint32_t text;
};

static int by_id(const void *a, const void *b)
{
	const struct text_order *x = a, *y = b;

	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return x->text < y->text ? -1 : x->text > y->text;
}

/* Set the ranges of rows of all texts. Each range is searched by one query, so neighbouring ranges are joined if at
 * most GAP rows of other texts are between them. */
static void search_ranges(struct search *s)
{
	struct text_order *o = xcalloc(s->n_text + 1, sizeof *o);

	for (size_t i = 0; i < s->n_text; i++)
		o[i] = (struct text_order){ s->rows[i].id, (uint32_t)i };
	qsort(o, s->n_text, sizeof *o, by_id);
	s->order = xcalloc(s->n_text + 1, sizeof *s->order);
	s->range = xcalloc(s->n_text + 1, sizeof *s->range);
	for (size_t i = 0; i < s->n_text; i++) {
		struct row_range *r = s->n_range ? &s->range[s->n_range - 1] : NULL;
		int64_t last = o[i].id + (int64_t)s->rows[o[i].text].n - 1;

		s->order[i] = o[i].text;
		if (!r || o[i].id - r->last > GAP) {
			r = &s->range[s->n_range++];
			*r = (struct row_range){ .first = o[i].id, .last = last, .from = i };
		}
		r->last = MAX(r->last, last);
		r->to = i + 1;
	}
	free(o);
}

/* Load the sentences of all texts and group them into passages. Returns 0 or -1. */
static int search_open(struct search *s, struct err *e)
{
	uint64_t words = 0;

	s->rows = xcalloc(s->n_text + 1, sizeof *s->rows);
	s->base = xcalloc(s->n_text + 1, sizeof *s->base);
	if (passage_rows_all(s->x, s->text, s->n_text, s->rows, e))
		return -1;
	for (size_t i = 0; i < s->n_text; i++)
		s->base[i + 1] = s->base[i] + s->rows[i].n;
	search_ranges(s);
	s->n_sentence = s->base[s->n_text];
	s->passage_of = xcalloc(s->n_sentence + 1, sizeof *s->passage_of);
	s->score = xcalloc(s->n_sentence + 1, sizeof *s->score);
	s->has = xcalloc(s->n_sentence + 1, sizeof *s->has);
	for (size_t i = 0; i < s->n_text; i++)
		for (size_t k = 0; k < s->rows[i].n; k++) {
			const struct sentence *at = &s->rows[i].at[k];
			if (!k || at->flags & SENTENCE_FIRST) {
				GROW(s->passage, s->n_passage, s->cap);
				s->passage[s->n_passage++] =
					(struct scored_passage){ .text = i, .from = s->base[i] + k };
			}
			s->passage_of[s->base[i] + k] = (uint32_t)(s->n_passage - 1);
			s->passage[s->n_passage - 1].to = s->base[i] + k + 1;
			s->passage[s->n_passage - 1].words += at->words;
			words += at->words;
		}
	s->under = xcalloc(s->n_passage + 1, sizeof *s->under);
	for (size_t i = 0; i < s->n_passage; i++) {
		const struct scored_passage *p = &s->passage[i];
		int heading = s->rows[p->text].at[p->from - s->base[p->text]].flags & SENTENCE_HEADING;
		s->under[i] = heading || !i || s->passage[i - 1].text != p->text ? (uint32_t)i : s->under[i - 1];
	}
	s->mean_sentence = s->n_sentence ? (double)words / (double)s->n_sentence : 1;
	s->mean_passage = s->n_passage ? (double)words / (double)s->n_passage : 1;
	return 0;
}

static const struct sentence *sentence_at(const struct search *s, size_t text, size_t i)
{
	return &s->rows[text].at[i - s->base[text]];
}

/* ---- bm25 ---- */

static double idf(size_t n, size_t have)
{
	return log(1 + ((double)n - (double)have + 0.5) / ((double)have + 0.5));
}

/* Return bm25's factor for a word that occurs `count` times in a passage or sentence. The parameter b is bm25's length
 * normalisation, `words` is the length of the passage or sentence, and `mean` the mean length. */
static double saturate(double count, double b, double words, double mean)
{
	return count * (K1 + 1) / (count + K1 * (1 - b + b * words / mean));
}

/* Sentences that were found. at[n] has their indexes among the sentences of all texts. `sorted` is 1 if the indexes
 * ascend. */
struct found_rows {
	uint32_t *at;
	size_t n, most;
	int sorted;
};

/* Append the sentence in row `row` of the index to *found. Equal texts share their rows, so the sentence is appended
 * once for each text that has this row. *k is the index in s->order of the first text that may have the row. `row` must
 * ascend from call to call. */
static void note_row(const struct search *s, const struct row_range *range, int64_t row, size_t *k,
                     struct found_rows *found)
{
	const struct passage_rows *r;

	for (; *k < range->to; ++*k) {
		r = &s->rows[s->order[*k]];
		if (row < r->id + (int64_t)r->n)
			break;
	}
	for (size_t j = *k; j < range->to && found->n < found->most; j++) {
		uint32_t text = s->order[j], i;

		r = &s->rows[text];
		if (row < r->id || row >= r->id + (int64_t)r->n)
			break;
		i = (uint32_t)(s->base[text] + (size_t)(row - r->id));
		found->sorted &= !found->n || found->at[found->n - 1] < i;
		found->at[found->n++] = i;
	}
}

static int by_number(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

/* Find at most `most` sentences that match the query. found[] receives their indexes among the sentences of all texts,
 * in ascending order. Returns the number of sentences found, or -1. */
static int64_t match_sentences(struct search *s, const struct str *query, size_t most, uint32_t *found, struct err *e)
{
	struct found_rows f = { .at = found, .most = most, .sorted = 1 };
	int rc = 0;

	for (size_t i = 0; i < s->n_range && f.n < most && rc >= 0; i++) {
		const struct row_range *r = &s->range[i];
		size_t k = r->from;
		sqlite3_stmt *st =
			db_query(s->x->db, e,
		                 "SELECT rowid FROM sentence WHERE sentence MATCH ?1 AND rowid BETWEEN ?2 AND ?3"
		                 " ORDER BY rowid",
		                 "sii", query->p, query->n, r->first, r->last);
		rc = st ? 1 : -1;
		while (rc > 0 && f.n < most && (rc = db_step(s->x->db, st, e)) > 0)
			note_row(s, r, sqlite3_column_int64(st, 0), &k, &f);
		db_put(s->x->db, st);
	}
	if (!f.sorted)
		qsort(found, f.n, sizeof *found, by_number);
	return rc < 0 ? -1 : (int64_t)f.n;
}

/* A word of the question: its weight and its number (from 1). */
struct word {
	double weight;
	uint32_t number;
};

/* Add a word's bm25 score to the n sentences in found[] and to the passages that contain them. */
static void add_word(struct search *s, struct word w, const uint32_t *found, size_t n)
{
	for (size_t i = 0; i < n;) {
		struct scored_passage *p = &s->passage[s->passage_of[found[i]]];
		size_t first = i;

		for (; i < n && found[i] < p->to; i++) {
			const struct sentence *at = sentence_at(s, p->text, found[i]);
			s->has[found[i]] = w.number;
			s->score[found[i]] += w.weight * saturate(1, B_SENTENCE, at->words, s->mean_sentence);
			if (at->flags & SENTENCE_HEADING)
				p->headed = w.number;
		}
		p->has = w.number;
		p->score += w.weight * saturate((double)(i - first), B_PASSAGE, p->words, s->mean_passage);
		p->covered += w.weight;
		if (i == first)
			i++;
	}
}

/* Add the score of words related to w. found[n] has the sentences with such words. Sentences and passages that contain
 * w itself get no score. A passage gets the weight only once. */
static void add_related(struct search *s, struct word w, const uint32_t *found, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct scored_passage *p = &s->passage[s->passage_of[found[i]]];

		if (s->has[found[i]] == w.number)
			continue;
		s->score[found[i]] += w.weight;
		if (p->has == w.number)
			continue;
		p->has = w.number;
		p->score += w.weight;
		p->covered += w.weight;
	}
}

/* Add a part of word w's weight to the passages that contain w only in the heading above them. */
static void add_heading(struct search *s, struct word w)
{
	for (size_t k = 0; k < s->n_passage; k++) {
		struct scored_passage *p = &s->passage[k];
		if (p->has != w.number && s->passage[s->under[k]].headed == w.number) {
			p->score += HEADING_WEIGHT * w.weight;
			p->covered += w.weight;
		}
	}
}

/* Score word i of the question, and its related words. Returns the weight of the word; 0 if the word is skipped,
 * because more than `most` sentences contain it; -1 on error. found[] is a buffer for most + 1 sentences. */
static double score_word(struct search *s, const struct question_words *q, size_t i, size_t most, uint32_t *found,
                         struct err *e)
{
	struct word w = { .number = (uint32_t)i + 1 }, related = w;
	struct str query = { 0 };
	int64_t n, n_like = 0;

	word_query(&q->at[i], 0, &query);
	n = match_sentences(s, &query, most + 1, found, e);
	if (n >= 0 && (size_t)n <= most) {
		w.weight = idf(s->n_sentence, (size_t)n) * word_factor(&q->at[i], !i);
		add_word(s, w, found, (size_t)n);
		word_query(&q->at[i], 1, &query);
		n_like = query.n ? match_sentences(s, &query, most + 1, found, e) : 0;
		if (n_like > n && (size_t)n_like <= most) {
			related.weight = idf(s->n_sentence, (size_t)(n_like - n));
			related.weight = RELATED_WEIGHT * (MIN(related.weight, w.weight));
			add_related(s, related, found, (size_t)n_like);
		}
		add_heading(s, w);
		s->unknown |= !n && !n_like && is_name(&q->at[i], !i);
	}
	str_free(&query);
	return n < 0 || n_like < 0 ? -1 : w.weight;
}

static int score_all(struct search *s, const struct question_words *q, double *whole, struct err *e)
{
	size_t most = s->n_sentence > COMMON_ABOVE ? (size_t)((double)s->n_sentence * COMMON_SHARE) : s->n_sentence;
	uint32_t *found = xcalloc(s->n_sentence + 1, sizeof *found);
	double weight = 0;

	*whole = 0;
	for (size_t i = 0; i < q->n && weight >= 0; i++) {
		weight = score_word(s, q, i, most, found, e);
		*whole += weight;
	}
	free(found);
	return weight < 0 ? -1 : 0;
}

/* ---- the best passages ---- */

static size_t best_sentence(const struct search *s, const struct scored_passage *p)
{
	size_t best = p->from;

	/* Choose a heading as the best sentence only if the passage has no other sentences. */
	for (size_t i = p->from; i < p->to; i++) {
		int heading = sentence_at(s, p->text, i)->flags & SENTENCE_HEADING,
		    before = sentence_at(s, p->text, best)->flags & SENTENCE_HEADING;
		if (heading == before ? s->score[i] > s->score[best] : before)
			best = i;
	}
	return best;
}

/* Convert passage p to the public struct. `whole` is the sum of the weights of all words of the question. */
static struct found_passage passage_found(const struct search *s, const struct scored_passage *p, double whole)
{
	size_t best = best_sentence(s, p);
	const struct sentence *quote = sentence_at(s, p->text, best);

	return (struct found_passage){
		.text = p->text,
		.from = sentence_at(s, p->text, p->from)->from,
		.to = sentence_at(s, p->text, p->to - 1)->to,
		.quote = quote->from,
		.quote_end = quote->to,
		.passage = p->score,
		.sentence = s->score[best],
		.score = p->score + SENTENCE_WEIGHT * s->score[best],
		.covered = whole > 0 ? p->covered / whole : 0,
		.unknown = s->unknown,
	};
}

/* Load the sentences and begin a read transaction. If the index changes between these two steps, try again. Returns 0
 * or -1. */
static int search_begin(struct search *s, struct err *e)
{
	for (int tries = 0;; tries++) {
		struct search again = { .x = s->x, .text = s->text, .n_text = s->n_text };
		int64_t ignored;
		int rc = search_open(s, e) || db_exec(s->x->db, "BEGIN", e) ? -1 : 1;

		for (size_t i = 0; i < s->n_text && rc > 0; i++)
			rc = db_find(s->x->db, e, &ignored, "SELECT 1 FROM passages WHERE id=?1 AND hash=?2", "ib",
			             s->rows[i].id, (const void *)s->rows[i].hash, sizeof s->rows[i].hash);
		if (rc || tries == TRIES)
			return rc > 0 ? 0
			       : rc   ? -1
			              : err_set(e, ERR_FAIL,
			                        "cannot search: another weir deletes what is indexed; try again");
		db_exec(s->x->db, "COMMIT", NULL);
		search_free(s);
		passage_rows_forget(s->x);
		*s = again;
	}
}

static int score_passages(struct passage_index *x, const struct indexed_text *text, size_t n_text, const char *question,
                          size_t n, struct found_passage **out, size_t *n_out, struct err *e)
{
	struct search s = { .x = x, .text = text, .n_text = n_text };
	struct question_words q = { .n = 0 };
	double whole = 0;
	int rc = search_begin(&s, e);

	*out = NULL;
	*n_out = 0;
	if (!rc && question_words(x->words, question, n, &q))
		rc = err_set(e, ERR_FIT, "cannot search: no memory");
	if (!rc)
		rc = score_all(&s, &q, &whole, e);
	if (!rc) {
		*out = xcalloc(s.n_passage + 1, sizeof **out);
		for (; *n_out < s.n_passage; ++*n_out)
			(*out)[*n_out] = passage_found(&s, &s.passage[*n_out], whole);
	}
	if (!sqlite3_get_autocommit(x->db->h))
		sqlite3_exec(x->db->h, "COMMIT", NULL, NULL, NULL);
	question_words_free(&q);
	search_free(&s);
	return rc;
}

int passages_score(struct passage_index *x, const struct indexed_text *text, size_t n_text, const char *question,
                   size_t n, struct found_passage **out, size_t *n_out, struct err *e)
{
	struct err first = { 0 };

	x->db->code = 0;
	if (!score_passages(x, text, n_text, question, n, out, n_out, &first))
		return 0;
	if (!db_index_damaged(x->db))
		return err_set(e, first.code, "%s", first.msg);
	if (db_begin(x->db, e) || db_end(x->db, passages_empty(x->db, e), e))
		return -1;
	passage_rows_forget(x);
	return score_passages(x, text, n_text, question, n, out, n_out, e);
}

/* Sort by descending score. Passages of equal score are sorted by text and offset. */
static int by_score(const void *a, const void *b)
{
	const struct found_passage *x = a, *y = b;

	if (x->score != y->score)
		return x->score < y->score ? 1 : -1;
	if (x->text != y->text)
		return x->text < y->text ? -1 : 1;
	return x->from < y->from ? -1 : 1;
}

int passages_find(struct passage_index *x, const struct indexed_text *text, size_t n_text, const char *question,
                  size_t n, struct found_passage *out, size_t most, struct err *e)
{
	struct found_passage *all;
	size_t n_all, count = 0;

	if (passages_score(x, text, n_text, question, n, &all, &n_all, e))
		return -1;
	qsort(all, n_all, sizeof *all, by_score);
	for (; count < n_all && count < most && all[count].score > 0; count++)
		out[count] = all[count];
	free(all);
	return (int)count;
}
