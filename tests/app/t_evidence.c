/* tests/app/t_evidence.c - what an answer rests on: passages of a text (app/retrieval/passages.c), and those of the
 * documents (app/retrieval/evidence.c). */
#include <stdlib.h>
#include <string.h>

#include "app/retrieval/retrieval_private.h"
#include "app/conversation/conversation.h"
#include "sessions/import/import.h"
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

/* name: what the text is, by its ending. */
static struct passage *cut(const char *text, const char *name, size_t *n)
{
	size_t len = strlen(text), *end = xcalloc(len + 1, sizeof *end);
	struct passage *p;
	struct mark *marks;
	struct doc doc;
	struct err e = { 0 };

	CHECK_MSG(doc_decode(name, text, len, &doc, &e) == 0, "%s", e.msg);
	len = marks_copy(doc.mark, doc.n_mark, &marks);
	*n = passages_cut(text, doc.text.n, end, words(text, doc.text.n, end), marks, len, &p);
	marks_free(marks, len);
	doc_free(&doc);
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
	struct str s = { 0 };
	struct passage *p;
	size_t n;

	add_words(&s, 50, "one.\n\n"); /* a paragraph of its own */
	add_words(&s, 20, "two.\n\n"); /* too short: goes with the next */
	add_words(&s, 30, "three.\n\n");
	add_words(&s, 85, "four. "); /* a sentence, in a paragraph that goes on */
	add_words(&s, 60, "St. ");   /* none ends here */
	add_words(&s, 10, "five?\n\n\n");
	add_words(&s, 200, "six\n"); /* without an end */
	p = cut(s.p, "a.txt", &n);
	CHECK_INT(n, 6);
	CHECK(n == 6 && is_at(&s, &p[0], "word1", "one.") && is_at(&s, &p[1], "word1", "three.") &&
	      is_at(&s, &p[2], "word1", "four.") && is_at(&s, &p[3], "word1", "five?") &&
	      is_at(&s, &p[4], "word1", "word120") && is_at(&s, &p[5], "word121", "six"));
	free(p);
	str_free(&s);
}

TEST(passages_begin_with_sections_and_pages)
{
	struct str s = { 0 };
	struct passage *p;
	size_t n;

	str_adds(&s,
	         "Before.\n# First ##\nUnder it.\n```\n# no heading\n```\n\fNext page.\n## Second\nAnd more.\n\f\n");
	p = cut(s.p, "a.md", &n);
	CHECK_INT(n, 4);
	CHECK(n == 4 && is_at(&s, &p[0], "Before.", "Before.") && is_at(&s, &p[1], "# First", "```") &&
	      is_at(&s, &p[2], "Next", "page.") && is_at(&s, &p[3], "## Second", "more."));
	free(p);
	/* In a program '#' begins a comment; and a form feed behind the text is no page. */
	p = cut("# a\n# b\n\f", "a.py", &n);
	CHECK_INT(n, 1);
	free(p);
	str_free(&s);
}

/* Whatever a text is: passages come in order, hold no more than they may, and all that is no white space. */
TEST(passages_of_anything)
{
	static const char *const piece[] = {
		"word ", "a.",       " ",    "\n",       "\n\n",         "# H\n", "```\n",
		"\f",    "\xc3\xa9", "\xff", "\x80\x80", "\xe3\x80\x82", "St. ",  "end. "
	};

	for (int round = 0; round < 300; round++) {
		struct str s = { 0 };
		size_t *end, n_token = 0, n, at = 0, token = 0;
		struct passage *p = NULL;
		struct mark mark[20];
		size_t n_mark = 0;

		str_adds(&s, "");
		for (int i = (int)(test_rand() % 900); i > 0; i--)
			str_adds(&s, piece[test_rand() % LEN(piece)]);
		end = xcalloc(s.n + 1, sizeof *end);
		for (size_t i = 0; i < s.n;)
			end[n_token++] = i = i + 1 + test_rand() % 6 < s.n ? i + 1 + test_rand() % 6 : s.n;
		for (size_t i = 1; i < n_token; i++)
			end[i] = end[i] < end[i - 1] ? end[i - 1] : end[i];
		/* Marks anywhere, as a damaged file may have them. */
		for (size_t i = 0; round % 2 && n_mark < 20 && (i += test_rand() % 200) <= s.n;)
			mark[n_mark++] = (struct mark){ .kind = MARK_PAGE, .at = i };
		n = passages_cut(s.n ? s.p : "", s.n, end, n_token, mark, n_mark, &p);
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
	struct options o = { .model = TINY,
		             .ctx = 240,
		             .kv = kv,
		             .predict = 12,
		             .quiet = 1,
		             .json = 1,
		             .sampling = sampling_default,
		             .speculate = "on" };

	o.sampling.temperature = 0;
	o.sampling_set = 1u << SAMPLING_TEMP;
	return o;
}

/* One document, one question; the answer's tokens, and the evidence of it. */
static void ask(struct options *o, const char *doc, size_t n, struct tokens *id, struct str *evidence)
{
	struct conversation t;
	struct turn turn;
	struct answer_hooks hooks = { .evidence = o->json };
	struct doc in;
	struct err e = { 0 };

	CHECK_MSG(conversation_open(&t, o, NULL, NULL, &e) == 0, "%s", e.msg);
	retrieval_join(&t);
	CHECK_MSG(doc_decode("a.md", doc, n, &in, &e) == 0 && conversation_add_document(&t, &in, &e) == 0, "%s", e.msg);
	doc_free(&in);
	CHECK_MSG(conversation_ask(&t, "What?", 5, &hooks, &turn, &e) == 0, "%s", e.msg);
	tokens_append(id, conversation_answer(&t)->id.id, conversation_answer(&t)->id.n);
	if (evidence_of(&t)->n)
		evidence_ops.json(evidence_of(&t), &t, evidence);
	conversation_close(&t);
}

TEST(evidence_changes_no_answer)
{
	static const char *const policy[] = { "full",
		                              "auto",
		                              "auto:k=16,sample=8",
		                              "sift:k=16",
		                              "refresh:k=16",
		                              "recycled:k=16",
		                              "streaming++:size=32",
		                              "quest:k=32",
		                              "h2o:k=32",
		                              "h2o+:k=32",
		                              "snapkv:k=32",
		                              "sink:size=64,sinks=4,stride=16",
		                              "cascade:size=64,n=4,sinks=4,stride=16" };
	struct str s = { 0 };

	str_adds(&s, "# Title\n\n");
	for (int i = 0; i < 6; i++)
		str_addf(&s, "The %d. line of it.%s", i, i % 4 == 3 ? "\n\n" : " ");
	for (size_t i = 0; i < LEN(policy); i++) {
		struct options with = options(policy[i]), without = with;
		struct tokens a = { 0 }, b = { 0 };
		struct str evidence = { 0 }, none = { 0 };

		without.json = 0;
		ask(&with, s.p, s.n, &a, &evidence);
		ask(&without, s.p, s.n, &b, &none);
		CHECK_MSG(a.n == b.n && !memcmp(a.id, b.id, a.n * sizeof *a.id), "%s: another answer", policy[i]);
		CHECK_MSG(strstr(evidence.n ? evidence.p : "",
		                 "{\"doc\":\"a.md\",\"page\":null,\"heading\":\"Title\",\"bytes\":["),
		          "%s: %s", policy[i], evidence.n ? evidence.p : "");
		CHECK_MSG(!none.n, "%s: %s", policy[i], none.n ? none.p : "");
		tokens_free(&a);
		tokens_free(&b);
		str_free(&evidence);
		str_free(&none);
	}
	str_free(&s);
}

/* The place of a passage is that of its first word, whatever the format calls a page. */
TEST(places_are_those_of_the_first_word)
{
	static const char text[] = "Preface.\n\nOne.\n\nTwo.\n\nThree.\n";
	struct mark mark[] = {
		{ .kind = MARK_PAGE, .at = 0, .text = (char[]){ "xii" } },
		{ .kind = MARK_PAGE, .at = 10, .text = (char[]){ "1" } },
		{ .kind = MARK_HEADING, .level = 1, .at = 10, .text = (char[]){ "First" } },
		{ .kind = MARK_PARAGRAPH, .at = 16 },
		{ .kind = MARK_PAGE, .at = 22, .text = (char[]){ "" } },
	};
	struct doc in = { .name = (char[]){ "a.pdf" },
		          .type = DOC_PDF,
		          .text = { .p = (char[]){ "Preface.\n\nOne.\n\nTwo.\n\nThree.\n" }, .n = sizeof text - 1 },
		          .mark = mark,
		          .n_mark = 5 };
	struct options o = options("full");
	struct document_place at;
	struct conversation t;
	struct err e = { 0 };

	CHECK_MSG(conversation_open(&t, &o, NULL, NULL, &e) == 0 && conversation_add_document(&t, &in, &e) == 0, "%s",
	          e.msg);
	CHECK_INT(t.doc[0].n_mark, 4);
	document_place(&t.doc[0], 0, 5, &at);
	CHECK(at.page && !strcmp(at.page, "xii") && !at.heading);
	document_place(&t.doc[0], 0, 14, &at); /* a title below a picture: it is this passage's */
	CHECK(at.heading && !strcmp(at.heading, "First"));
	document_place(&t.doc[0], 8, 14, &at); /* begins with the gap before */
	CHECK(at.page && !strcmp(at.page, "1"));
	document_place(&t.doc[0], 22, 28, &at); /* a page without a number */
	CHECK(!at.page && at.heading && !strcmp(at.heading, "First"));
	conversation_close(&t);
}
