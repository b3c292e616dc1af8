/* tests/sessions/t_sentences.c - finds sentences with words of a question in all texts of an index
 * (sessions/store/sentence_search.c). */
#include "tests/lib/storedir.h"

#include <stdlib.h>

struct result {
	struct found_sentence *at;
	size_t n;
	uint64_t words;
};

static int64_t add(struct passage_index *x, const char *text)
{
	struct err e = { 0 };
	int64_t number = 0;

	CHECK_MSG(sentences_add(x, text, strlen(text), &number, &e) == 0, "%s", e.msg);
	return number;
}

static struct result find(struct passage_index *x, const char *question)
{
	struct result f;
	struct err e = { 0 };

	CHECK_MSG(sentences_find(x, question, strlen(question), &f.at, &f.n, &f.words, &e) == 0, "%s", e.msg);
	return f;
}

TEST(sentences_of_all_texts_are_found_with_their_words)
{
	static const char first[] = "My sister lives in Oslo. The boat is red.",
			  second[] = "Sisters and brothers! Boats sail.";
	struct passage_index *x;
	struct err e = { 0 };
	int64_t a, b;
	struct result f;

	CHECK(passage_index_open(&x, NULL, &e) == 0);
	f = find(x, "sister");
	CHECK(!f.n);
	free(f.at);
	a = add(x, first);
	CHECK(add(x, " \n") > a); /* a text without words gets a number, too */
	b = add(x, second);
	CHECK(a > 0 && b > a);
	CHECK_INT(add(x, first), a); /* the same text is added only once */
	f = find(x, "Which boat, sister? Sister: the \"boat\"");
	CHECK_INT(f.words, 0xf); /* the words "which", "boat", "sister", "the" */
	CHECK_INT(f.n, 4);
	CHECK(f.n == 4 && f.at[0].text == a && f.at[0].has == 4 && f.at[1].text == a && f.at[1].has == (2 | 8) &&
	      f.at[2].text == b && f.at[2].has == 4 && f.at[3].text == b && f.at[3].has == 2);
	CHECK(f.n == 4 && !memcmp(first + f.at[1].from, "The boat is red.", 16) && f.at[1].to == sizeof first - 1 &&
	      f.at[1].words == 4);
	free(f.at);
	passage_index_close(x);
}

TEST(a_word_that_too_many_sentences_have_is_not_looked_for)
{
	struct passage_index *x;
	struct str text = { 0 };
	struct err e = { 0 };
	struct result f;

	CHECK(passage_index_open(&x, NULL, &e) == 0);
	for (int i = 0; i < 2001; i++)
		str_addf(&text, "The number %d is next.\n\n", i);
	add(x, text.p);
	f = find(x, "the number 77");
	CHECK_INT(f.words, 4);
	CHECK_INT(f.n, 1);
	free(f.at);
	str_free(&text);
	passage_index_close(x);
}

/* Nothing in a question acts as query syntax, and every hit is within its text. */
TEST(questions_of_anything)
{
	static const char *const piece[] = {
		"word ", "\"", "'", "*",       " OR ", "NEAR(", ")", "^", ":", "\xff", "\xe6\x9d\xb1\xe4\xba\xac",
		"\n",    ". ", "-", "\xc3\xa9"
	};
	struct passage_index *x;
	struct err e = { 0 };

	CHECK(passage_index_open(&x, NULL, &e) == 0);
	for (int round = 0; round < 200; round++) {
		struct str s = { 0 };
		struct result f;
		int64_t number;

		str_adds(&s, "a");
		for (int i = (int)(test_rand() % 60); i > 0; i--)
			str_adds(&s, piece[test_rand() % LEN(piece)]);
		number = add(x, s.p);
		f = find(x, s.p);
		for (size_t i = 0; i < f.n; i++)
			if (f.at[i].text == number)
				CHECK(f.at[i].from < f.at[i].to && f.at[i].to <= s.n && f.at[i].has &&
				      !(f.at[i].has & ~f.words));
		free(f.at);
		str_free(&s);
	}
	passage_index_close(x);
}
