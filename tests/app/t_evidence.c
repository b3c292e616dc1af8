/* tests/app/t_evidence.c - what an answer rests on: passages of a text (app/conversation/passages.c), and those of the documents (app/conversation/evidence.c). */
#include <stdlib.h>
#include <string.h>

#include "app/conversation/conversation.h"
#include "tests/lib/test.h"

#define TINY "tests/vectors/models/llama-block32.gguf"

/* ---- passages ---- */

/* Every word with the blanks before it is a token. */
static size_t words(const char *text, size_t n, size_t *end)
{
	size_t k = 0;

	for (size_t i = 0; i < n; i++)
		if (text[i] > ' ' && (i + 1 == n || (unsigned char)text[i + 1] <= ' '))
			end[k++] = i + 1;
	return k;
}

static struct passage *cut(const char *text, int headings, size_t *n)
{
	size_t len = strlen(text), *end = xcalloc(len + 1, sizeof *end);
	struct passage *p;

	*n = passages_cut(text, len, end, words(text, len, end), headings, &p);
	free(end);
	return p;
}

static void add_words(struct str *s, int n, const char *last)
{
	for (int i = 1; i < n; i++)
		str_addf(s, "word%d ", i);
	str_adds(s, last);
}

static int is_at(const struct str *s, const struct passage *p, const char *first, const char *last)
{
	size_t n = p->to - p->from, a = strlen(first), b = strlen(last);

	return n >= a && n >= b && !memcmp(s->p + p->from, first, a) && !memcmp(s->p + p->to - b, last, b);
}

TEST(passages_end_with_paragraphs_and_sentences)
{
	struct str s = {0};
	struct passage *p;
	size_t n;

	add_words(&s, 50, "one.\n\n");     /* a paragraph of its own */
	add_words(&s, 20, "two.\n\n");     /* too short: goes with the next */
	add_words(&s, 30, "three.\n\n");
	add_words(&s, 85, "four. ");       /* a sentence, in a paragraph that goes on */
	add_words(&s, 60, "St. ");         /* none ends here */
	add_words(&s, 10, "five?\n\n\n");
	add_words(&s, 200, "six\n");       /* without an end */
	p = cut(s.p, 1, &n);
	CHECK_INT(n, 6);
	CHECK(n == 6 && is_at(&s, &p[0], "word1", "one.") && is_at(&s, &p[1], "word1", "three.") && is_at(&s, &p[2], "word1", "four.") &&
	      is_at(&s, &p[3], "word1", "five?") && is_at(&s, &p[4], "word1", "word120") && is_at(&s, &p[5], "word121", "six"));
	CHECK(p[0].page == 0 && p[0].n_heading == 0);
	free(p);
	str_free(&s);
}

TEST(passages_know_their_heading_and_page)
{
	struct str s = {0};
	struct passage *p;
	size_t n;

	str_adds(&s, "Before.\n# First ##\nUnder it.\n```\n# no heading\n```\n\fNext page.\n## Second\nAnd more.\n\f\n");
	p = cut(s.p, 1, &n);
	CHECK_INT(n, 4);
	CHECK(n == 4 && is_at(&s, &p[0], "Before.", "Before.") && is_at(&s, &p[1], "# First", "```") && is_at(&s, &p[2], "Next", "page.") &&
	      is_at(&s, &p[3], "## Second", "more."));
	CHECK(p[0].n_heading == 0 && p[1].n_heading == 5 && !memcmp(s.p + p[1].heading, "First", 5) && p[2].heading == p[1].heading &&
	      p[3].n_heading == 6 && !memcmp(s.p + p[3].heading, "Second", 6));
	CHECK(p[0].page == 1 && p[1].page == 1 && p[2].page == 2 && p[3].page == 2);
	free(p);
	/* In a program '#' begins a comment; and a form feed behind the text is no page. */
	p = cut("# a\n# b\n\f", 0, &n);
	CHECK(n == 1 && p[0].n_heading == 0 && p[0].page == 0);
	free(p);
	str_free(&s);
}

/* Whatever a text is: passages come in order, hold no more than they may, and all that is no white space. */
TEST(passages_of_anything)
{
	static const char *const piece[] = { "word ", "a.", " ", "\n", "\n\n", "# H\n", "```\n", "\f", "\xc3\xa9", "\xff", "\x80\x80", "\xe3\x80\x82", "St. ", "end. " };

	for (int round = 0; round < 300; round++) {
		struct str s = {0};
		size_t *end, n_token = 0, n, at = 0, token = 0;
		struct passage *p = NULL;

		str_adds(&s, "");
		for (int i = (int)(test_rand() % 900); i > 0; i--)
			str_adds(&s, piece[test_rand() % (sizeof piece / sizeof *piece)]);
		end = xcalloc(s.n + 1, sizeof *end);
		for (size_t i = 0; i < s.n; )
			end[n_token++] = i = i + 1 + test_rand() % 6 < s.n ? i + 1 + test_rand() % 6 : s.n;
		for (size_t i = 1; i < n_token; i++)
			end[i] = end[i] < end[i - 1] ? end[i - 1] : end[i];
		n = passages_cut(s.n ? s.p : "", s.n, end, n_token, round % 2, &p);
		for (size_t i = 0; i <= n; i++) {
			size_t from = i < n ? p[i].from : s.n, tokens = 0;

			CHECK_MSG(from >= at, "passage %zu begins within the one before", i);
			for (; at < from; at++)
				CHECK_MSG(strchr(" \n\f", s.p[at]) && s.p[at], "byte %zu is left out", at);
			if (i == n)
				break;
			CHECK(p[i].to > p[i].from && p[i].to <= s.n);
			for (; token < n_token && end[token] <= p[i].to; token++)
				tokens += end[token] > p[i].from;
			CHECK_MSG(tokens <= PASSAGE_MOST + 1, "passage %zu has %zu tokens", i, tokens);
			at = p[i].to;
		}
		free(p);
		free(end);
		str_free(&s);
	}
}

/* ---- evidence ---- */

static struct options options(const char *kv)
{
	struct options o = { .model = TINY, .ctx = 240, .kv = kv, .predict = 12, .quiet = 1, .json = 1, .sampling = sampling_default };

	o.sampling.temperature = 0;
	return o;
}

/* One document, one question; the answer's tokens, and the evidence of it. */
static void ask(struct options *o, const char *doc, size_t n, struct tokens *id, struct str *evidence)
{
	struct conversation t;
	struct turn turn;
	struct answer_hooks hooks = { .text = NULL };
	struct err e = {0};

	CHECK_MSG(conversation_open(&t, o, &e) == 0, "%s", e.msg);
	CHECK_MSG(conversation_add_document(&t, "a.md", doc, n, n, &e) == 0, "%s", e.msg);
	CHECK_MSG(conversation_ask(&t, "What?", 5, &hooks, &turn, &e) == 0, "%s", e.msg);
	tokens_append(id, conversation_answer(&t)->id.id, conversation_answer(&t)->id.n);
	str_add(evidence, t.evidence.n ? t.evidence.p : "", t.evidence.n);
	conversation_close(&t);
}

TEST(evidence_changes_no_answer)
{
	static const char *const policy[] = { "full", "auto", "auto:k=16", "sift:k=16", "refresh:k=16", "recycled:k=16", "streaming++:size=32", "quest:k=32",
	                                      "h2o:k=32", "h2o+:k=32", "snapkv:k=32", "sink:size=64,sinks=4,stride=16", "cascade:size=64,n=4,sinks=4,stride=16" };
	struct str s = {0};

	str_adds(&s, "# Title\n\n");
	for (int i = 0; i < 6; i++)
		str_addf(&s, "The %d. line of it.%s", i, i % 4 == 3 ? "\n\n" : " ");
	for (size_t i = 0; i < sizeof policy / sizeof *policy; i++) {
		struct options with = options(policy[i]), without = with;
		struct tokens a = {0}, b = {0};
		struct str evidence = {0}, none = {0};

		without.json = 0;
		ask(&with, s.p, s.n, &a, &evidence);
		ask(&without, s.p, s.n, &b, &none);
		CHECK_MSG(a.n == b.n && !memcmp(a.id, b.id, a.n * sizeof *a.id), "%s: another answer", policy[i]);
		CHECK_MSG(evidence.n > 2 && strstr(evidence.p, "{\"doc\":\"a.md\",\"page\":null,\"heading\":\"Title\",\"bytes\":["), "%s: %s", policy[i],
		          evidence.p);
		CHECK_MSG(!none.n, "%s: %s", policy[i], none.p);
		tokens_free(&a);
		tokens_free(&b);
		str_free(&evidence);
		str_free(&none);
	}
	str_free(&s);
}
