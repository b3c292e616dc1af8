/* tests/app/t_evidence.c - the passages that an answer attended to (app/retrieval/evidence.c). */
#include <stdlib.h>
#include <string.h>

#include "app/retrieval/retrieval_private.h"
#include "app/conversation/conversation.h"
#include "sessions/import/import.h"
#include "tests/lib/test.h"


#define TINY "tests/vectors/models/llama-block32.gguf"

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

/* Ask one question about one document. Sets *id to the answer's tokens and *evidence to its evidence as JSON. */
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

/* The page and heading of a passage are those of its first word. */
TEST(places_are_those_of_the_first_word)
{
	static const char text[] = "Preface.\n\nOne.\n\nTwo.\n\nThree.\n";
	struct mark mark[] = {
		{ .kind = MARK_PAGE, .at = 0, .text = (char[]){ "xii" } },
		{ .kind = MARK_PAGE, .level = PAGE_RECOGNISED, .at = 10, .text = (char[]){ "1" } },
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
	CHECK(at.page && !strcmp(at.page, "xii") && !at.heading && !at.recognised);
	document_place(&t.doc[0], 0, 14, &at); /* no heading is above the passage: take the heading within it */
	CHECK(at.heading && !strcmp(at.heading, "First"));
	document_place(&t.doc[0], 8, 14, &at); /* the range begins with the blank lines before the page */
	CHECK(at.page && !strcmp(at.page, "1") && at.recognised);
	document_place(&t.doc[0], 22, 28, &at); /* a page without a label */
	CHECK(!at.page && at.heading && !strcmp(at.heading, "First"));
	conversation_close(&t);
}
