/* app/retrieval/comparison.c - tells whether passages have the two names that a question compares
 * (retrieval_private.h).
 *
 * The reader scores one passage at a time. For "Which tower is taller, X or Y?" it gives low odds to the passage
 * with the height of X and to the passage with the height of Y, because neither of them answers the question alone.
 * So the reader's odds cannot refuse such a question.
 *
 * A name is a group of words with capitals, and numbers between them. A word that was typed without a capital
 * counts, too, if it is no function word and one of the passages writes it with a capital inside a sentence. */
#include <stdlib.h>
#include <string.h>

#include "app/retrieval/retrieval_private.h"
#include "engine/base/base.h"
#include "engine/base/utf8.h"

enum {
	WORDS_MOST = 64, /* maximum number of words of a question, each of which has one bit in a uint64_t */
	/* maximum number of words between a joining word and the name before or after it, as in "taller than the one at
	 * X" */
	APART_MOST = 3,
	COMPARED_MOST = 32, /* number of passages that are searched for the names, the best first */
};

/* Words that join two names in English, German, French, Spanish, Italian, Portuguese and Dutch. A question that is
 * certainly English has only English ones: "of" and "en" mean something else there. */
static const char joins_english[] = " and or than vs versus ",
		  joins_any[] = " and or than vs versus und oder als et ou que y e o u che ed mas en of dan ";

/* The words of a question. A uint64_t is a set of these words, with one bit for each word. */
struct compared {
	struct str key[WORDS_MOST]; /* see word_key() */
	int n;
	uint64_t joins, names;
	uint64_t letters; /* words that do not begin with a digit */
};

static int has_capital(struct word w)
{
	return byte_is_upper(*w.p) ||
	       /* a capital letter of Latin-1, from A grave to Thorn */
	       (w.n > 1 && (unsigned char)w.p[0] == 0xc3 && (unsigned char)w.p[1] <= 0x9e);
}

static void question_split(const char *question, size_t n, struct compared *c)
{
	const char *joins = question_is_english(question, n) ? joins_english : joins_any;
	struct str padded = { 0 };
	struct word w;

	for (size_t i = 0; c->n < WORDS_MOST && word_next(question, n, &i, &w); c->n++) {
		uint64_t bit = (uint64_t)1 << c->n;

		word_key(w, &c->key[c->n]);
		str_clear(&padded);
		str_addf(&padded, " %s ", str_text(&c->key[c->n]));
		if (strstr(joins, padded.p))
			c->joins |= bit;
		else if (byte_is_digit(*w.p) ||
		         (has_capital(w) && !sentence_begins(question, (size_t)(w.p - question))))
			c->names |= bit;
		if (!byte_is_digit(*w.p))
			c->letters |= bit;
	}
	str_free(&padded);
}

/* Return which words of the question occur in the text, as bits: bit k stands for the word c->key[k]. A word also
 * becomes a name (c->names) if the text writes it with a capital inside a sentence. */
static uint64_t words_of_text(const char *text, size_t n, struct compared *c)
{
	struct str key = { 0 };
	struct word w;
	uint64_t has = 0;

	for (size_t i = 0; word_next(text, n, &i, &w);) {
		str_clear(&key);
		word_key(w, &key);
		for (int k = 0; k < c->n; k++) {
			if (strcmp(str_text(&key), str_text(&c->key[k])))
				continue;
			has |= (uint64_t)1 << k;
			if (has_capital(w) && !sentence_begins(text, (size_t)(w.p - text)) &&
			    question_own_words(key.p, key.n))
				c->names |= (uint64_t)1 << k & ~c->joins;
		}
	}
	str_free(&key);
	return has;
}

/* Return the words of the name that is nearest to word `at`: after the word if `step` is 1, before it if `step` is -1.
 * Return 0 if there is no such name. */
static uint64_t name_beside(const struct compared *c, int at, int step)
{
	uint64_t name = 0;
	int i = at + step;

	for (int apart = 0; i >= 0 && i < c->n && !(c->names >> i & 1) && apart < APART_MOST; apart++)
		i += step;
	for (; i >= 0 && i < c->n && c->names >> i & 1; i += step)
		name |= (uint64_t)1 << i;
	return name & c->letters ? name : 0;
}

/* 1 if some of the texts have name x, some have name y, and none has both. has[i] has the words of text i, as bits. */
static int are_apart(const uint64_t *has, int n, uint64_t x, uint64_t y)
{
	int any_x = 0, any_y = 0;

	for (int i = 0; i < n; i++) {
		int with_x = (has[i] & x) == x, with_y = (has[i] & y) == y;

		if (with_x && with_y)
			return 0;
		any_x |= with_x;
		any_y |= with_y;
	}
	return any_x && any_y;
}

int comparison_found(const struct conversation *conv, const struct candidates *found, const char *question, size_t n)
{
	struct compared c = { .n = 0 };
	uint64_t has[COMPARED_MOST];
	int n_text = (int)MIN(found->n, (size_t)COMPARED_MOST), apart = 0;

	question_split(question, n, &c);
	for (int i = 0; i < n_text && c.joins; i++) {
		const struct found_passage *f = &found->at[i].found;
		const struct document *d = &conv->doc[f->text];

		has[i] = words_of_text(d->text.p + d->body + f->from, f->to - f->from, &c);
	}
	for (int k = 0; k < c.n && !apart; k++) {
		uint64_t x = c.joins >> k & 1 ? name_beside(&c, k, -1) : 0, y = x ? name_beside(&c, k, 1) : 0;

		apart = x && y && are_apart(has, n_text, x, y);
	}
	for (int k = 0; k < c.n; k++)
		str_free(&c.key[k]);
	return apart;
}
