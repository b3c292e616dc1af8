/* tests/app/t_sources.c - the passages that answer a question (app/conversation/sources.c, rerank.c; app/chat/document_search.c).
 *
 * The tiny model judges nothing well: what it is asked to judge is in an order that bm25 leaves no doubt about. */
#include <stdlib.h>
#include <string.h>

#include "app/chat/chat.h"
#include "tests/lib/test.h"

#define TINY "tests/vectors/models/llama-block32.gguf"

static const char ferry[] = "The ferry sails at nine from the old pier.\n\nThe bakery opens at six, and sells bread until the evening.\n\n"
                            "Captain Nemo commands the ferry since 1999, and lives in the lighthouse with two cats.\n";
static const char garden[] = "Roses need water.\n\nThe gardener plants tulips in October, when the ground is soft.\n";

struct talk { struct options o; struct conversation t; struct chat c; };

/* A chat without a store; only what searching needs of it. */
static void talk_open(struct talk *k)
{
	struct err e = {0};

	*k = (struct talk){.o = {.model = TINY, .ctx = 1000, .quiet = 1, .private_talk = 1, .prompt = "x", .sampling = sampling_default, .command = CMD_CHAT,
	                         .kv = "full"}};
	CHECK_MSG(chat_open(&k->c, &k->o, &(struct str){0}, &e) == 0, "%s", e.msg);
}

static void add(struct talk *k, const char *name, const char *text)
{
	struct err e = {0};

	CHECK_MSG(chat_document_bytes(&k->c, name, text, strlen(text), &e) >= 0, "%s", e.msg);
}

/* The sentence that is quoted first, with its document: "NAME: SENTENCE". */
static const char *quoted(struct talk *k, const char *question, int *found)
{
	static struct str out;
	struct sources s;
	struct err e = {0};

	str_clear(&out);
	str_adds(&out, "");
	CHECK_MSG(conversation_sources(&k->c.t, question, strlen(question), &s, &e) == 0, "%s", e.msg);
	for (size_t i = 0; i < s.n; i++) {
		const struct document *d = &k->c.t.doc[s.at[i].doc];
		CHECK(s.at[i].doc < k->c.t.n_doc && s.at[i].from <= s.at[i].quote && s.at[i].quote < s.at[i].quote_end &&
		      s.at[i].quote_end <= s.at[i].to && s.at[i].to <= d->n_body);
		CHECK(!i || s.at[i].score <= s.at[i - 1].score);
		if (!i) {
			str_addf(&out, "%s: ", d->name);
			str_add(&out, d->text.p + d->body + s.at[0].quote, s.at[0].quote_end - s.at[0].quote);
		}
	}
	CHECK(s.seconds >= 0);
	if (found)
		*found = s.found;
	sources_free(&s);
	return out.p;
}

TEST(a_named_page_or_section_comes_first)
{
	static const char book[] = "# Contents\n\n## 1 Ropes\n## 2 Knots\n\n# 1 Ropes\n\nHemp rots.\n\n## 1.1 Old ropes\n\nThrow them away.\n\n# 2 Knots\n\n"
	                           "The bowline holds.  See chapter 1.\n\n# Chapter IV\n\nSails are mended in winter.\n\n# 第7章\n\n船は港にある。\n";
	static const char paged[] = "One line.\n\fTwo lines, and page 3 is next.\n\fThree masts.\n";
	struct talk k;
	int found;

	talk_open(&k);
	add(&k, "book.md", book);
	CHECK_STR(quoted(&k, "What is chapter 2 about?", &found), "book.md: The bowline holds.  See chapter 1.");
	CHECK_INT(found, 1);
	CHECK_STR(quoted(&k, "Summarise section 1.1.", &found), "book.md: Throw them away.");
	CHECK_STR(quoted(&k, "and what happens in Chapter 4?", &found), "book.md: Sails are mended in winter.");
	CHECK_STR(quoted(&k, "第7章は何ですか", &found), "book.md: 船は港にある。");
	CHECK(strcmp(quoted(&k, "In this chapter I want ropes", &found), "book.md: Hemp rots."));
	add(&k, "paged.txt", paged);
	CHECK_STR(quoted(&k, "What is on page 3?", &found), "paged.txt: Three masts.");
	/* Of two documents with a page 3 nothing says which is meant. */
	add(&k, "again.txt", paged);
	CHECK(strcmp(quoted(&k, "What is on page 3?", &found), "paged.txt: Three masts."));
	quoted(&k, "page", &found);
	quoted(&k, "page ", &found);
	quoted(&k, "section 1.", &found);
	quoted(&k, "第", &found);
	chat_close(&k.c, &k.o);
}

TEST(the_best_passage_of_all_documents_comes_first)
{
	struct talk k;
	int found;

	talk_open(&k);
	CHECK_STR(quoted(&k, "When does the ferry sail?", &found), "");
	CHECK_INT(found, 0);
	add(&k, "ferry.txt", ferry);
	add(&k, "garden.txt", garden);
	CHECK_STR(quoted(&k, "Who plants the tulips?", NULL), "garden.txt: The gardener plants tulips in October, when the ground is soft.");
	CHECK_STR(quoted(&k, "Which bakery sells bread?", NULL), "ferry.txt: The bakery opens at six, and sells bread until the evening.");
	CHECK_STR(quoted(&k, "zebras", &found), "");
	CHECK_INT(found, 0);
	/* What is dropped is not found. */
	conversation_drop_document(&k.c.t, 0, NULL);
	CHECK_STR(quoted(&k, "Which bakery sells bread?", NULL), "");
	CHECK_STR(quoted(&k, "Who plants the tulips?", NULL), "garden.txt: The gardener plants tulips in October, when the ground is soft.");
	chat_close(&k.c, &k.o);
}

TEST(a_question_may_lean_on_what_was_said)
{
	struct talk k;

	talk_open(&k);
	k.c.t.rerank.tokens = -1;   /* the order of the index */
	add(&k, "ferry.txt", ferry);
	add(&k, "garden.txt", garden);
	CHECK_STR(quoted(&k, "Did he?", NULL), "");
	conversation_message(&k.c.t, ROLE_USER, "Who commands the ferry?", 23, NULL, 0);
	conversation_message(&k.c.t, ROLE_ASSISTANT, "Captain Nemo.", 13, NULL, 0);
	CHECK_STR(quoted(&k, "And where does he live?", NULL), "ferry.txt: Captain Nemo commands the ferry since 1999, and lives in the lighthouse with two cats.");
	CHECK_STR(quoted(&k, "Which gardener plants those tulips of October?", NULL), "garden.txt: The gardener plants tulips in October, when the ground is soft.");
	chat_close(&k.c, &k.o);
}

TEST(searching_leaves_the_conversation_as_it_is)
{
	struct talk k;
	struct timeline_stats before, after;
	struct sources s;
	struct err e = {0};

	talk_open(&k);
	add(&k, "ferry.txt", ferry);
	timeline_stats(k.c.t.tl, &before);
	quoted(&k, "When does the ferry sail?", NULL);
	CHECK(k.c.t.rerank.tl != NULL && k.c.t.rerank.tokens > 0);
	timeline_stats(k.c.t.tl, &after);
	CHECK_INT(after.n_tokens, before.n_tokens);
	CHECK_INT(k.c.t.n_msg, 0);
	/* A machine that is too slow leaves the order to the index. */
	k.c.t.rerank.tokens = -1;
	CHECK(strstr(quoted(&k, "When does the ferry sail?", NULL), "The ferry sails at nine"));
	CHECK_INT(conversation_sources(&k.c.t, "", 0, &s, &e), 0);
	CHECK_INT(s.found, 0);
	sources_free(&s);
	chat_close(&k.c, &k.o);
}
