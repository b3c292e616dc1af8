/* tests/app/t_sources.c - the passages that answer a question (app/retrieval/sources.c, rerank.c;
 * app/chat/document_search.c).
 *
 * The tiny model ranks passages badly, so in tests with reranking bm25 alone already decides the order. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/chat/chat.h"
#include "app/models/models.h"
#include "app/retrieval/retrieval.h"
#include "app/retrieval/retrieval_private.h"
#include "app/conversation/conversation.h"
#include "engine/gguf/gguf.h"
#include "tests/lib/test.h"

#define TINY "tests/vectors/models/llama-block32.gguf"

static const char ferry[] =
	"The ferry sails at nine from the old pier.\n\nThe bakery opens at six, and sells bread until the evening.\n\n"
	"Captain Nemo commands the ferry since 1999, and lives in the lighthouse with two cats.\n";
static const char garden[] = "Roses need water.\n\nThe gardener plants tulips in October, when the ground is soft.\n";

struct talk {
	struct options o;
	struct conversation t;
	struct chat c;
};

/* Open a chat without a store, with only the parts that a search needs. */
static void talk_open(struct talk *k)
{
	struct err e = { 0 };

	*k = (struct talk){ .o = { .model = TINY,
		                   .ctx = 1000,
		                   .quiet = 1,
		                   .private_talk = 1,
		                   .prompt = "x",
		                   .sampling = sampling_default,
		                   .command = CMD_CHAT,
		                   .kv = "full" } };
	CHECK_MSG(chat_open(&k->c, &k->o, &(struct str){ 0 }, &e) == 0, "%s", e.msg);
}

static void add(struct talk *k, const char *name, const char *text)
{
	struct err e = { 0 };

	CHECK_MSG(chat_document_bytes(&k->c, name, text, strlen(text), &e) >= 0, "%s", e.msg);
}

/* Return the best sentence of the first source with its document, as "NAME: SENTENCE". */
static const char *quoted(struct talk *k, const char *question, int *found)
{
	static struct str out;
	struct sources s;
	struct err e = { 0 };

	str_clear(&out);
	str_adds(&out, "");
	CHECK_MSG(conversation_sources(&k->c.conv, question, strlen(question), &s, &e) == 0, "%s", e.msg);
	for (size_t i = 0; i < s.n; i++) {
		const struct document *d = &k->c.conv.doc[s.at[i].doc];
		CHECK(s.at[i].doc < k->c.conv.n_doc && s.at[i].from <= s.at[i].quote &&
		      s.at[i].quote < s.at[i].quote_end && s.at[i].quote_end <= s.at[i].to && s.at[i].to <= d->n_body);
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
	static const char book[] =
		"# Contents\n\n## 1 Ropes\n## 2 Knots\n\n# 1 Ropes\n\nHemp rots.\n\n## 1.1 Old ropes\n\nThrow them away.\n\n# 2 Knots\n\n"
		"The bowline holds.  See chapter 1.\n\n# Chapter IV\n\nSails are mended in winter.\n\n# 第7章\n\n船は港にある。\n\n"
		"# CAPÍTULO 5\n\nLa vela es blanca.\n\n# Глава 6\n\nКорабль в порту.\n";
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
	/* headings have capitals beyond ASCII */
	CHECK_STR(quoted(&k, "¿Qué dice el capítulo 5?", &found), "book.md: La vela es blanca.");
	CHECK_STR(quoted(&k, "О чём глава 6?", &found), "book.md: Корабль в порту.");
	CHECK_STR(quoted(&k, "Что в главе 6?", &found), "book.md: Корабль в порту.");
	CHECK_STR(quoted(&k, "What is in chapter 6?", &found), "book.md: Корабль в порту.");
	CHECK(strcmp(quoted(&k, "In this chapter I want ropes", &found), "book.md: Hemp rots."));
	add(&k, "paged.txt", paged);
	CHECK_STR(quoted(&k, "What is on page 3?", &found), "paged.txt: Three masts.");
	/* Two documents have a page 3, so the question is ambiguous. */
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
	CHECK_STR(quoted(&k, "Who plants the tulips?", NULL),
	          "garden.txt: The gardener plants tulips in October, when the ground is soft.");
	CHECK_STR(quoted(&k, "Which bakery sells bread?", NULL),
	          "ferry.txt: The bakery opens at six, and sells bread until the evening.");
	CHECK_STR(quoted(&k, "zebras", &found), "");
	CHECK_INT(found, 0);
	/* A dropped document is not found. */
	conversation_drop_document(&k.c.conv, 0, NULL);
	CHECK_STR(quoted(&k, "Which bakery sells bread?", NULL), "");
	CHECK_STR(quoted(&k, "Who plants the tulips?", NULL),
	          "garden.txt: The gardener plants tulips in October, when the ground is soft.");
	chat_close(&k.c, &k.o);
}

/* A table of contents has the words of many questions, but the sections answer them. */
TEST(a_table_of_contents_does_not_come_first)
{
	static const char text[] =
		"The Mill\n\nContents\n\n1. Wheels of oak and iron ....... 3\n2. Stones that grind fine flour ...... 9\n  - Sacks of flour for the baker\n"
		"|4|\tBread of rye and spelt\n5. Horses that carry the sacks\n6. Feasts of the millers\n\n"
		"1. Wheels of oak and iron\n\nIn former times nobody asked what they were made of. Whoever came to the river saw them turn, and they turned day and night, for the oak "
		"is hard and the iron lasts.\n\n2. Stones that grind fine flour\n\nThey come from the hills behind the town, and two men carry each of them, because they are as heavy as "
		"a calf and as round as the moon is in harvest time.\n\n3. Sacks of flour for the baker\n\nHe fetches them himself.\n\n4. Bread of rye and spelt\n\nIt is dark.\n\n"
		"5. Horses that carry the sacks\n\nThey are old.\n\n6. Feasts of the millers\n\nThey are loud, and they last until the morning, and nobody who was there can say "
		"afterwards who danced with whom, or why the miller sang.\n";
	static const char question[] = "Do horses carry the stones, the sacks of flour, the bread and the wheels?";
	struct sources s;
	struct err e = { 0 };
	struct talk k;

	talk_open(&k);
	add(&k, "mill.txt", text);
	CHECK_INT(conversation_sources(&k.c.conv, question, strlen(question), &s, &e), 0);
	CHECK(s.n > 1 && s.at[0].from > (size_t)(strstr(text, "In former") - text));
	sources_free(&s);
	CHECK(passage_is_contents(&k.c.conv.doc[0], 0, (size_t)(strstr(text, "In former") - text)));
	CHECK(!passage_is_contents(&k.c.conv.doc[0], (size_t)(strstr(text, "2. Stones that grind fine flour\n") - text),
	                           sizeof text - 1));
	chat_close(&k.c, &k.o);
}

TEST(a_question_may_lean_on_what_was_said)
{
	struct talk k;

	talk_open(&k);
	search_of(&k.c.conv)->rerank.tokens = -1; /* no reranking: the order of the index stays */
	add(&k, "ferry.txt", ferry);
	add(&k, "garden.txt", garden);
	CHECK_STR(quoted(&k, "Did he?", NULL), "");
	conversation_message(&k.c.conv, ROLE_USER, "Who commands the ferry?", 23, NULL, 0);
	conversation_message(&k.c.conv, ROLE_ASSISTANT, "Captain Nemo.", 13, NULL, 0);
	CHECK_STR(quoted(&k, "And where does he live?", NULL),
	          "ferry.txt: Captain Nemo commands the ferry since 1999, and lives in the lighthouse with two cats.");
	CHECK_STR(quoted(&k, "Which gardener plants those tulips of October?", NULL),
	          "garden.txt: The gardener plants tulips in October, when the ground is soft.");
	chat_close(&k.c, &k.o);
}

/* A question after other turns finds the same sentence as alone. */
TEST(what_is_found_alone_is_found_behind_any_turn)
{
	static const char *const question[] = {
		"When does the ferry sail?",
		"Which bakery sells bread?",
		"Who plants the tulips?",
		"What do roses need?",
		"What is a lighthouse?",
		"Please explain what the gardener does",
		"Can you tell me who sells bread?",
	};
	enum { N = LEN(question) };
	struct talk k;
	char *alone[N];
	int found, is_found[N];

	talk_open(&k);
	add(&k, "ferry.txt", ferry);
	add(&k, "garden.txt", garden);
	for (int model = 0; model < 2; model++) {
		search_of(&k.c.conv)->rerank.tokens = model ? 0 : -1;
		for (size_t i = 0; i < N; i++) {
			alone[i] = strdup(quoted(&k, question[i], &found));
			is_found[i] = found;
			CHECK_MSG(found || model, "%s", question[i]);
		}
		for (size_t i = 0; i < N * N; i++) {
			const char *before = question[i / N];

			conversation_message(&k.c.conv, ROLE_USER, before, strlen(before), NULL, 0);
			conversation_message(&k.c.conv, ROLE_ASSISTANT, alone[i / N], strlen(alone[i / N]), NULL, 0);
			if (!model)
				CHECK_STR(quoted(&k, question[i % N], &found), alone[i % N]);
			else
				quoted(&k, question[i % N], &found);
			CHECK_MSG(found || !is_found[i % N], "'%s' behind '%s'", question[i % N], before);
			conversation_clear(&k.c.conv);
		}
		for (size_t i = 0; i < N; i++)
			free(alone[i]);
	}
	chat_close(&k.c, &k.o);
}

TEST(the_last_turn_decides_between_equals)
{
#define LONG                                                                                                           \
	"  The valley spoke of nothing else for many years, and old people still tell their children of such works on winter evenings.\n\n"
	static const char repairs[] =
		"The bridge was built by Adam Wright." LONG "The mill was built by Joan Carter." LONG
		"After the flood of 1790 the bridge was repaired at "
		"great cost." LONG "After the fire of 1801 the mill was repaired at great cost." LONG
		"After the storm of 1815 the church was repaired "
		"at great cost." LONG;
	static const char *const said[][3] = {
		{ "Who built the mill?", "Joan Carter built the mill.",
		  "repairs.txt: After the fire of 1801 the mill was repaired at great cost." },
		{ "Who built the bridge?", "Adam Wright built the bridge.",
		  "repairs.txt: After the flood of 1790 the bridge was repaired at great cost." },
	};
	static const char *const follows[] = { "And when was it repaired?", "Repaired when?" };
	struct talk k;
	int found;

	talk_open(&k);
	search_of(&k.c.conv)->rerank.tokens = -1;
	add(&k, "repairs.txt", repairs);
	for (size_t i = 0; i < 4; i++) {
		const char *const *turn = said[i / 2];

		conversation_message(&k.c.conv, ROLE_USER, turn[0], strlen(turn[0]), NULL, 0);
		conversation_message(&k.c.conv, ROLE_ASSISTANT, turn[1], strlen(turn[1]), NULL, 0);
		CHECK_STR(quoted(&k, follows[i % 2], &found), turn[2]);
		CHECK_INT(found, 1);
		/* Words of the previous turn alone find nothing. */
		quoted(&k, "zebra quantum saxophone", &found);
		CHECK_INT(found, 0);
		conversation_clear(&k.c.conv);
	}
	chat_close(&k.c, &k.o);
}

TEST(questions_for_the_whole_are_told_from_others)
{
	/* clang-format off */
	static const struct { enum whole_question what; const char *question; } all[] = {
		{WHOLE_SUMMARY, "Summarise this."}, {WHOLE_SUMMARY, "summarize"}, {WHOLE_SUMMARY, "Please give me a summary of the paper!"}, {WHOLE_SUMMARY, "TL;DR"},
		{WHOLE_SUMMARY, "tldr"}, {WHOLE_SUMMARY, "Could you summarize the whole document for me in three sentences?"}, {WHOLE_SUMMARY, "Summarise report.pdf"},
		{WHOLE_SUMMARY, "Sum up the main points of this article, please."}, {WHOLE_SUMMARY, "I'd like a brief overview."},
		{WHOLE_SUMMARY, "Fasse das bitte zusammen."}, {WHOLE_SUMMARY, "Kannst du mir den Text in 100 W\xc3\xb6rtern zusammenfassen?"},
		{WHOLE_SUMMARY, "R\xc3\xa9sume ce texte"}, {WHOLE_SUMMARY, "Fais-moi un r\xc3\xa9sum\xc3\xa9 du document, s\xe2\x80\x99il te pla\xc3\xaet."}, {WHOLE_SUMMARY, "Haz un resumen"},
		{WHOLE_SUMMARY, "\xc2\xbfPuedes resumir este documento?"}, {WHOLE_SUMMARY, "Riassumi questo testo."}, {WHOLE_SUMMARY, "Fa\xc3\xa7" "a um resumo do documento"},
		{WHOLE_SUMMARY, "Vat dit document samen"}, {WHOLE_SUMMARY, "Geef een korte samenvatting."},
		{WHOLE_TITLE, "Who wrote it?"}, {WHOLE_TITLE, "Who are the authors?"}, {WHOLE_TITLE, "What is the title of this book?"}, {WHOLE_TITLE, "who's the author"}, {WHOLE_TITLE, "whos the author"},
		{WHOLE_TITLE, "When was it published?"}, {WHOLE_TITLE, "Wer hat das geschrieben?"}, {WHOLE_TITLE, "Qui est l'auteur ?"}, {WHOLE_TITLE, "\xc2\xbfQui\xc3\xa9n lo escribi\xc3\xb3?"},
		{WHOLE_TITLE, "Chi \xc3\xa8 l'autore?"}, {WHOLE_TITLE, "Quem escreveu este livro?"}, {WHOLE_TITLE, "Wie is de schrijver?"},
		{WHOLE_TITLE, "To whom is the poem dedicated?"}, {WHOLE_TITLE, "Who translated this book?"}, {WHOLE_TITLE, "Wem ist das Buch gewidmet?"},
		{WHOLE_ABOUT, "What is this document about?"}, {WHOLE_ABOUT, "what's it about"}, {WHOLE_ABOUT, "What is report.pdf about?"},
		{WHOLE_ABOUT, "Worum geht es in diesem Buch?"}, {WHOLE_ABOUT, "De quoi parle ce document ?"}, {WHOLE_ABOUT, "\xc2\xbf" "De qu\xc3\xa9 trata este texto?"},
		{WHOLE_ABOUT, "Di cosa parla?"}, {WHOLE_ABOUT, "Do que trata este documento?"}, {WHOLE_ABOUT, "Waar gaat dit over?"},
		{WHOLE_POINTS, "What are the main findings?"}, {WHOLE_POINTS, "What does the document say?"}, {WHOLE_POINTS, "Was sind die wichtigsten Punkte?"},
		{WHOLE_NOT, ""}, {WHOLE_NOT, "Who is the miller?"}, {WHOLE_NOT, "What about the river?"}, {WHOLE_NOT, "Wer ist der M\xc3\xbcller?"}, {WHOLE_NOT, "Translate this."},
		{WHOLE_NOT, "What does the summary of chapter 3 say about costs?"}, {WHOLE_NOT, "What does the summary say?"}, {WHOLE_NOT, "Summarise chapter 3."},
		{WHOLE_NOT, "Summarise 4.3.1"}, {WHOLE_NOT, "Summarise the conclusion."}, {WHOLE_NOT, "Summarise what the miller says"}, {WHOLE_NOT, "Who wrote the letter?"}, {WHOLE_NOT, "Who wrote this line?"}, {WHOLE_NOT, "Wer hat diesen Satz geschrieben?"}, {WHOLE_NOT, "Who was dedicated to the mill?"},
		{WHOLE_NOT, "What was the war about?"}, {WHOLE_NOT, "Which book did they read?"}, {WHOLE_NOT, "Who wrote to the editor of the Times?"}, {WHOLE_NOT, "When was it?"},
		{WHOLE_NOT, "What is it?"}, {WHOLE_NOT, "Who was the author of the plot against the king?"}, {WHOLE_NOT, "Wer schrieb den Brief?"},
		{WHOLE_NOT, "\xe8\xbf\x99\xe6\x9c\xac\xe4\xb9\xa6"}, {WHOLE_NOT, "\xff\xfe \xc2"},
		/* A text longer than any question about a whole document. */
		{WHOLE_NOT, "Summarise this this this this this this this this this this this this this this this this this this this this this this this this this this "
		            "this this this this this this this this this this this this this this this this this this this this this this this this."},
	};
	/* clang-format on */
	struct talk k;
	size_t doc;
	int32_t words;

	talk_open(&k);
	add(&k, "ferry.txt", ferry);
	add(&k, "report.pdf.txt", garden);
	for (size_t i = 0; i < LEN(all); i++) {
		enum whole_question what =
			asks_for_whole(&k.c.conv, all[i].question, strlen(all[i].question), &doc, &words);
		CHECK_MSG(what == all[i].what, "'%s': %d", all[i].question, what);
		CHECK_INT(doc, strstr(all[i].question, "report.pdf") ? 1 : SIZE_MAX);
		CHECK_INT(words, strstr(all[i].question, "in 100") ? 100 : 0);
	}
	chat_close(&k.c, &k.o);
}

TEST(the_beginning_answers_questions_for_the_whole)
{
	static const char paper[] =
		"On Mills\n\nAnn Miller, Bob Stone\nUniversity of the River\n\nAbstract\n\nMills grind slowly.  We measure how slowly they grind, compare three "
		"of them over ten years, and find that the oldest one grinds finest of all, which nobody expected.\n\n1 Introduction\n\nThe wheel "
		"turns in the river, and the miller, who wrote long letters to the authors of this paper, was of great help.\n\nAcknowledgements\n\nThe "
		"authors thank the miller, whose title is a long one.\n";
	struct talk k;
	int found;

	talk_open(&k);
	add(&k, "mills.txt", paper);
	CHECK_MSG(!strncmp(quoted(&k, "Who are the authors?", &found), "mills.txt: On Mills\n\nAnn Miller", 30), "%s",
	          quoted(&k, "Who are the authors?", NULL));
	CHECK_INT(found, 1);
	CHECK(!strncmp(quoted(&k, "What is the title?", NULL), "mills.txt: On Mills", 19));
	CHECK_MSG(!strncmp(quoted(&k, "What is this about?", &found), "mills.txt: Mills grind slowly.", 30), "%s",
	          quoted(&k, "What is this about?", NULL));
	CHECK_INT(found, 1);
	CHECK(!strncmp(quoted(&k, "What are the main findings?", &found), "mills.txt: Mills grind slowly.", 30));
	CHECK_INT(found, 1);
	/* The same question after another turn. */
	conversation_message(&k.c.conv, ROLE_USER, "Who thanks the miller?", 22, NULL, 0);
	conversation_message(&k.c.conv, ROLE_ASSISTANT, "The authors.", 12, NULL, 0);
	CHECK(!strncmp(quoted(&k, "Who wrote it?", NULL), "mills.txt: On Mills", 19));
	/* With several documents, the question names one. */
	add(&k, "ferry.txt", ferry);
	CHECK(!strncmp(quoted(&k, "What is ferry.txt about?", NULL), "ferry.txt: The ferry sails", 20));
	chat_close(&k.c, &k.o);
	/* The import of a file puts lines with its title and author before its text. */
	talk_open(&k);
	add(&k, "lamp.epub",
	    "Title: The Grey Lamp\nAuthor: William Morris\n\nOne\n\nThe keeper of the lamp was old, and nobody asked him.\n");
	CHECK(!strncmp(quoted(&k, "Who wrote it?", &found), "lamp.epub: The Grey Lamp\nAuthor: William Morris\n", 47));
	CHECK_INT(found, 1);
	chat_close(&k.c, &k.o);
	talk_open(&k);
	add(&k, "lamp.docx", "Author: William Morris\n\nThe Grey Lamp\n\nThe keeper of the lamp was old.\n");
	CHECK(!strncmp(quoted(&k, "Who wrote it?", NULL), "lamp.docx: Author: William Morris\n\nThe Grey Lamp", 46));
	CHECK(!strncmp(quoted(&k, "What is the title?", NULL), "lamp.docx: Author: William Morris\n\nThe Grey", 42));
	chat_close(&k.c, &k.o);
}

/* The question what a text is about gets the title, and the abstract or the first paragraph of prose, whatever precedes
 * that. */
TEST(what_it_is_about_is_not_said_by_licences_and_lists)
{
#define PROSE                                                                                                          \
	"Nothing shows the change in our mills better than the way in which the word grinding is used today. In former days the miller was proud of it, and said so to everybody.\n"
#define NAMES                                                                                                          \
	"Ann Miller, Bob Stone, Carl Wheel, Dora River, Emil Sack, Frida Barley, Gustav Oats, Hanna Stone, Igor Weir, Jane Ferry, Karl Bridge, Lena Harvest"
	static const struct {
		const char *text, *says, *title;
	} all[] = {
		{ "The Project Gutenberg EBook of Mills, by Ann Miller\n\nThis eBook is for the use of anyone anywhere at no cost and with almost no restrictions whatsoever. "
		  "You may copy it, give it away or re-use it under the terms of the Project Gutenberg License.\n\nTitle: On Mills\n\nAuthor: Ann Miller\n\n"
		  "*** START OF THIS PROJECT GUTENBERG EBOOK MILLS ***\n\nON MILLS\n\nSource\n\nOn Mills was printed in 1905 by a house in the town. This text is derived from the twelfth "
		  "edition, which follows the first one in its spelling and its commas.\n\nThe Author\n\nAnn Miller was born in the mill on the 29th of May. Though she called herself a "
		  "mere writer, she was a miller, and a man of her time would have known that.\n\nTable of Contents\n\n1. On the first of the mills, and why it stands there\n"
		  "2. On the second mill, which grinds as well\n3. On all the other mills of the valley, and the bridge\n4. Of millers, their children and their dogs\n\n"
		  "I. On the first of the mills\n\n" PROSE "\nThe End.\n",
		  "Nothing shows", "On Mills" },
		{ "Trace-based Grinding of\nBarley and Oats\n" NAMES
		  "\nUniversity of the River\n{ann,bob}@river.example\n\n" PROSE "\nAbstract\n"
		  "Mills grind slowly. We measure how slowly they grind, compare three of them over ten years, and find that the oldest one grinds finest of all.\n\n1 Introduction\n\n" PROSE,
		  "Mills grind slowly.", "Trace-based Grinding of Barley and Oats" },
		{ "The Waste Mill\n\nA. Miller\n\n\"Molam quidem ego ipse oculis meis vidi in valle pendere, et cum illi pueri dicerent: quid vis? respondebat illa: molere volo, "
		  "et semper molere, donec aqua fluit.\"\n\nFor Bob Stone, the better miller\n\n" PROSE,
		  "Nothing shows", "The Waste Mill" },
	};

	for (size_t i = 0; i < LEN(all); i++) {
		struct sources s;
		struct err e = { 0 };
		struct talk k;

		talk_open(&k);
		add(&k, "mills.txt", all[i].text);
		CHECK_INT(conversation_sources(&k.c.conv, "What is this about?", 19, &s, &e), 0);
		CHECK(s.n > 0);
		if (s.n) {
			const char *body = k.c.conv.doc[0].text.p + k.c.conv.doc[0].body;
			struct str title = { 0 };

			CHECK_MSG(!strncmp(body + s.at[0].quote, all[i].says, strlen(all[i].says)), "%zu: %.60s", i,
			          body + s.at[0].quote);
			CHECK_MSG(!memmem(body + s.at[0].from, s.at[0].to - s.at[0].from, "Gutenberg", 9) &&
			                  !memmem(body + s.at[0].from, s.at[0].to - s.at[0].from, "Ann Miller", 10),
			          "%zu: %.*s", i, (int)(s.at[0].to - s.at[0].from), body + s.at[0].from);
			text_on_one_line(body + s.at[0].title, s.at[0].title_end - s.at[0].title, &title);
			CHECK_STR(str_text(&title), all[i].title);
			str_free(&title);
		}
		sources_free(&s);
		chat_close(&k.c, &k.o);
	}
}

TEST(searching_leaves_the_conversation_as_it_is)
{
	struct talk k;
	struct timeline_stats before, after;
	struct sources s;
	struct err e = { 0 };

	talk_open(&k);
	add(&k, "ferry.txt", ferry);
	timeline_stats(k.c.conv.tl, &before);
	quoted(&k, "When does the ferry sail?", NULL);
	CHECK(search_of(&k.c.conv)->rerank.tl != NULL && search_of(&k.c.conv)->rerank.tokens > 0);
	timeline_stats(k.c.conv.tl, &after);
	CHECK_INT(after.n_tokens, before.n_tokens);
	CHECK_INT(k.c.conv.n_msg, 0);
	/* On a machine that is too slow for reranking, the order of the index stays. */
	search_of(&k.c.conv)->rerank.tokens = -1;
	CHECK(strstr(quoted(&k, "When does the ferry sail?", NULL), "The ferry sails at nine"));
	CHECK_INT(conversation_sources(&k.c.conv, "", 0, &s, &e), 0);
	CHECK_INT(s.found, 0);
	sources_free(&s);
	chat_close(&k.c, &k.o);
}

/* ---- by meaning, with the encoder that `make model` fetches ---- */

static const char harbour[] =
	"The ferry sails at nine from the old pier.\n\nThe bakery opens at six, and sells bread until the evening.\n\n"
	"The physician has her rooms above the post office.\n\nThe library lends novels for three weeks.\n\n"
	"On Sundays a band plays in the park.\n\nA storm tore the roof off the town hall last winter.\n";

static void talk_open_with_encoder(struct talk *k, struct str *path)
{
	struct err e = { 0 };

	if (user_path(path, DIR_CACHE, "encoders/" DEFAULT_ENCODER, &e) || access(path->p, R_OK))
		SKIP("no text encoder: make model");
	talk_open(k);
	k->c.o.encoder = path->p;
	search_of(&k->c.conv)->rerank.tokens = -1;
}

TEST(other_words_of_the_same_meaning_are_found)
{
	struct talk k;
	struct str path = { 0 };
	int found;

	talk_open_with_encoder(&k, &path);
	add(&k, "harbour.txt", harbour);
	CHECK(strstr(quoted(&k, "Where can I see a doctor?", &found), "The physician has her rooms"));
	CHECK_INT(found, 1);
	CHECK(strstr(quoted(&k, "How long may I keep a borrowed book?", &found), "The library lends novels"));
	CHECK_INT(found, 1);
	CHECK(strstr(quoted(&k, "what was damaged by bad weather", NULL), "A storm tore the roof off"));
	CHECK(strstr(quoted(&k, "Wo kann man Musik h\xc3\xb6ren?", NULL), "On Sundays a band plays"));
	/* With an encoder, the question's words still count. */
	CHECK(strstr(quoted(&k, "Which bakery sells bread?", &found), "The bakery opens at six"));
	CHECK_INT(found, 1);
	/* A question that refers to the previous one is encoded after it. */
	conversation_message(&k.c.conv, ROLE_USER, "Who is the physician of the town?", 33, NULL, 0);
	conversation_message(&k.c.conv, ROLE_ASSISTANT, "A woman.", 8, NULL, 0);
	CHECK(strstr(quoted(&k, "And where is her office?", NULL), "The physician has her rooms"));
	chat_close(&k.c, &k.o);
	str_free(&path);
}

static int waits; /* what the front end's yield() returns */

static int on_yield(struct chat *c)
{
	(void)c;
	return waits;
}

static void on_notice(struct chat *c, const char *s, size_t n)
{
	(void)n;
	*(int *)c->ud += strstr(s, "searched by words alone") != NULL;
}

static void on_progress(struct chat *c, const char *verb, int32_t done, int32_t total)
{
	(void)c, (void)verb, (void)done, (void)total;
}

/* With a front end that has a queue of jobs, a question does not wait for the encoder: the documents are searched by
 * words, and the encoding continues later. */
TEST(encoding_that_takes_long_does_not_delay_a_question)
{
	static const struct front front = { .yield = on_yield, .notice = on_notice, .progress = on_progress };
	struct talk k;
	struct str path = { 0 };
	int found, notices = 0;

	waits = 1;
	talk_open_with_encoder(&k, &path);
	k.c.front = &front;
	k.c.ud = &notices;
	add(&k, "harbour.txt", harbour);
	k.c.indexing.each = 1000;
	CHECK(strstr(quoted(&k, "Which bakery sells bread?", &found), "The bakery opens at six"));
	CHECK_INT(found, 1);
	CHECK(!search_of(&k.c.conv)->meaning.stored.n && notices == 1 && k.c.indexing.due);
	k.c.indexing.each = 0;
	CHECK(strstr(quoted(&k, "Where can I see a doctor?", NULL), "The physician has her rooms"));
	CHECK_INT(notices, 1);
	chat_close(&k.c, &k.o);
	str_free(&path);
}

/* ---- with the reader that `make model` puts beside the encoder ---- */

/* Open a chat whose encoder has a reader. Returns the folder of both, which talk_close_with_reader() removes. */
static char *talk_open_with_reader(struct talk *k, struct str *encoder)
{
	char *folder = strdup("/tmp/t_sources.XXXXXX"),
	     *reader = realpath(test_file("tests/package/reader.gguf"), NULL);
	struct str path = { 0 };

	talk_open_with_encoder(k, &path);
	CHECK(mkdtemp(folder) != NULL);
	str_addf(encoder, "%s/x.gguf", folder);
	CHECK(!symlink(path.p, encoder->p));
	str_clear(&path);
	str_addf(&path, "%s/x-reader.gguf", folder);
	CHECK(reader && !symlink(reader, path.p));
	free(reader);
	str_free(&path);
	k->c.o.encoder = encoder->p;
	return folder;
}

static void talk_close_with_reader(struct talk *k, char *folder, struct str *encoder)
{
	struct str command = { 0 };

	chat_close(&k->c, &k->o);
	str_addf(&command, "rm -r %s", folder);
	CHECK(!system(command.p));
	str_free(&command);
	str_free(encoder);
	free(folder);
}

/* Check that the answer marked in the best source contains `want`, and that the source's quote contains the answer.
 * want NULL: check that nothing is found. */
static void check_answer(struct talk *k, const char *question, const char *want)
{
	struct sources s;
	struct err e = { 0 };

	CHECK_MSG(!conversation_sources(&k->c.conv, question, strlen(question), &s, &e), "%s", e.msg);
	CHECK_MSG(s.found == (want != NULL), "%s: found %d", question, s.found);
	if (want && s.n) {
		const struct source *best = &s.at[0];
		const char *body = k->c.conv.doc[best->doc].text.p + k->c.conv.doc[best->doc].body;

		CHECK_MSG(best->answer < best->answer_end &&
		                  memmem(body + best->answer, best->answer_end - best->answer, want, strlen(want)),
		          "%s: \"%.*s\"", question, (int)(best->answer_end - best->answer), body + best->answer);
		CHECK(best->quote <= best->answer && best->answer < best->quote_end);
	}
	sources_free(&s);
}

static const char keeper[] =
	"The lighthouse at Cape Morrow was built in 1871 by a Scottish engineer. Its lamp burns rape oil, and is lit an hour "
	"before sunset. The keeper, a retired whaler, lives below the lamp with his two daughters.\n\n"
	"On the night of the great storm of that first winter the elder daughter rowed out alone to a stranded barque. She brought nine "
	"sailors ashore in three trips, and was given a silver watch by the harbour board.\n\n"
	"Supplies come by boat once a month from the village of Ebbing on the other shore. In winter the boat stays away for weeks, and the "
	"family eats dried fish and the potatoes that grow in the shelter of the wall.\n";

TEST(a_reader_finds_the_words_that_answer_and_refuses)
{
	struct str encoder = { 0 };
	struct talk k;
	char *folder = talk_open_with_reader(&k, &encoder);

	add(&k, "keeper.txt", keeper);
	check_answer(&k, "When was the lighthouse built?", "1871");
	check_answer(&k, "What did the elder daughter get from the harbour board?", "silver watch");
	check_answer(&k, "How many sailors were saved?", "nine");
	check_answer(&k, "What does the family eat in winter?", "dried fish");
	check_answer(&k, "What is the keeper's dog called?", NULL);
	check_answer(&k, "How much does a ticket to the museum cost?", NULL);
	/* The reader likes the passages, but no text has the name. */
	check_answer(&k, "Which harbour does the Mayflower leave from?", NULL);
	check_answer(&k, "Where does Nelson live?", NULL);
	talk_close_with_reader(&k, folder, &encoder);
}

/* A pronoun may refer to the previous message or not. In both cases an existing answer is found, and no other passage
 * is taken for an answer. */
TEST(a_question_with_a_pronoun_is_read_alone_and_behind_the_one_before)
{
	static const char *const said[][2] = {
		{ "What did the elder daughter get from the harbour board?", "A silver watch." },
		{ "When was the lighthouse built?", "In 1871." },
		{ "What does the family eat in winter?", "Dried fish and potatoes." },
	};
	struct str encoder = { 0 };
	struct talk k;
	char *folder = talk_open_with_reader(&k, &encoder);

	add(&k, "keeper.txt", keeper);
	for (size_t i = 0; i < LEN(said); i++) {
		conversation_message(&k.c.conv, ROLE_USER, said[i][0], strlen(said[i][0]), NULL, 0);
		conversation_message(&k.c.conv, ROLE_ASSISTANT, said[i][1], strlen(said[i][1]), NULL, 0);
		check_answer(&k, "Which oil do they burn?", "rape oil");
		check_answer(&k, "How many sailors did she save?", "nine");
		check_answer(&k, "How do their supplies come?", "boat");
		check_answer(&k, "And who built it?", "Scottish engineer");
		check_answer(&k, "What is their dog called?", NULL);
		check_answer(&k, "How much does it cost to get in?", NULL);
		conversation_clear(&k.c.conv);
	}
	talk_close_with_reader(&k, folder, &encoder);
}

/* A question that refers to the last answer prefers its sources, the first one most, and the passages beside them. */
TEST(the_sources_of_the_last_answer_count_for_a_question_that_refers_to_it)
{
	static const struct {
		const char *question;
		double lean[6];
	} row[] = {
		{ "Whose was it?", { 0, 1.5, 3, 1.5 + 1.05, 2.1, 1.05 } },
		{ "And the keeper?", { 0, 1.5, 3, 1.5 + 1.05, 2.1, 1.05 } },
		{ "When was the lighthouse built?", { 0 } },
	};
	static char name[] = "keeper.txt", body[] = "one\ntwo\nsix\nten\nred\nsky\n", quotes[][4] = { "six", "red" };
	struct document d = { .name = name, .n_body = sizeof body - 1, .text = { .p = body, .n = sizeof body - 1 } };
	struct answer_source source[] = {
		{ .doc = name, .from = 8, .to = 11, .quote = 8, .quote_end = 11, .text = quotes[0], .found = 1 },
		{ .doc = name, .from = 16, .to = 19, .quote = 16, .quote_end = 19, .text = quotes[1], .found = 1 },
		{ .doc = name, .from = 0, .to = 3, .quote = 0, .quote_end = 3, .text = quotes[0], .found = 0 },
	};
	struct message said[] = { { .role = ROLE_USER },
		                  { .role = ROLE_ASSISTANT, .sources = { source, LEN(source) } } };
	struct conversation conv = { .doc = &d, .n_doc = 1, .msg = said, .n_msg = LEN(said) };

	for (size_t r = 0; r < LEN(row); r++) {
		struct passage_candidate at[6] = { 0 };
		struct candidates c = { .at = at, .n = LEN(at), .deviation = 1 };

		for (size_t i = 0; i < LEN(at); i++)
			at[i].found = (struct found_passage){ .from = 4 * i, .to = 4 * i + 3 };
		candidates_stay(&conv, row[r].question, strlen(row[r].question), &c);
		for (size_t i = 0; i < LEN(at); i++)
			CHECK_MSG(fabs(at[i].lean - row[r].lean[i]) < 1e-9, "%s: passage %zu: %g", row[r].question, i,
			          at[i].lean);
	}
}

/* 1 if the question compares two names and the lines of the text, taken as passages, have both apart. */
static int compares(const char *text, const char *question)
{
	struct passage_candidate at[8] = { 0 };
	struct document d = { .n_body = strlen(text) };
	struct conversation conv = { .doc = &d, .n_doc = 1 };
	struct candidates c = { .at = at };
	int found;

	str_add(&d.text, text, d.n_body);
	for (size_t i = 0, end; i < d.n_body; i = end + 1) {
		end = i + strcspn(text + i, "\n");
		at[c.n++].found = (struct found_passage){ .from = i, .to = end };
	}
	found = comparison_found(&conv, &c, question, strlen(question));
	str_free(&d.text);
	return found;
}

TEST(a_question_may_compare_names_of_different_passages)
{
	static const char towers[] =
		"The Halden Tower was built in 1911 and is 84 metres high.\n"
		"A lamp was put on the roof of Brackwater Mast, which is 120 metres high, in the year 1934.\n"
		"The building at 12 Quay Street has nine floors. It was paid for by the painter Ida Krohn and by \xc3\x89mile Roux.\n"
		"At Pier 7 the poet Nils Aas lived with his wife. Water was dear there.\n"
		"Nobody remembers why the Old Customs House and the Fish Market were pulled down.\n";
	static const struct {
		const char *question;
		int found;
	} asked[] = {
		{ "Is the Halden Tower taller than the Brackwater Mast?", 1 },
		{ "Is the Halden Tower taller than the one at 12 Quay Street?", 1 },
		{ "Which was built first, Halden Tower or Brackwater Mast?", 1 },
		{ "Are both the towers Halden Tower and Brackwater Mast lit at night?", 1 },
		{ "whats higher, the halden tower or brackwater mast", 1 },
		{ "Halden Tower vs Brackwater Mast: height?", 1 },
		{ "What do Ida Krohn and the poet Nils Aas have in common?", 1 },
		{ "Ist der Halden Tower h\xc3\xb6her als der Brackwater Mast?", 1 },
		{ "Wer ist \xc3\xa4lter, Ida Krohn oder Nils Aas?", 1 },
		{ "Qui est plus \xc3\xa2g\xc3\xa9, \xc3\x89mile Roux ou Nils Aas?", 1 },
		{ "\xc2\xbfQui\xc3\xa9n muri\xc3\xb3 antes, Ida Krohn o Nils Aas?", 1 },
		{ "Chi \xc3\xa8 pi\xc3\xb9 vecchio, Ida Krohn o Nils Aas?", 1 },
		{ "Wie is ouder, Ida Krohn of Nils Aas?", 1 },
		/* one passage has both names, so the reader can tell */
		{ "Who pulled down the Old Customs House and the Fish Market?", 0 },
		{ "Did Ida Krohn or Roux pay more for the building?", 0 },
		/* no passage has one of the names */
		{ "Is the Halden Tower taller than the Eiffel Tower?", 0 },
		{ "Who is older, Ida Krohn or Greta Lund?", 0 },
		/* not two names */
		{ "Was the Halden Tower built in 1911 or in 1934?", 0 },
		{ "is water or a lamp dearer", 0 },
		{ "Who lived at Pier 7 and why?", 0 },
		{ "Halden Tower", 0 },
		{ "or", 0 },
		{ "", 0 },
	};

	for (size_t i = 0; i < LEN(asked); i++)
		CHECK_MSG(compares(towers, asked[i].question) == asked[i].found, "%s", asked[i].question);
}

/* The reader's odds are low for each of the two passages. */
TEST(a_comparison_is_not_refused_by_the_reader)
{
	static const char towers[] =
		"The Halden Tower stands at the mouth of the river, where the old shipyard was until the war. It was built of "
		"granite by the town's own masons, and the town has been proud of it ever since that day.\n\n"
		"Brackwater Mast is the seat of the coast guard. Three officers keep watch there by day and by night, and their "
		"families live in the low white houses behind it, with gardens that reach down to the beach.\n\n";
	struct str encoder = { 0 };
	struct talk k;
	char *folder = talk_open_with_reader(&k, &encoder);
	struct sources s;
	struct err e = { 0 };
	static const char compared[] = "What did the tickets to the Halden Tower and Brackwater Mast cost?";

	add(&k, "keeper.txt", keeper);
	add(&k, "towers.txt", towers);
	check_answer(&k, "What did the tickets to the museum and the cinema cost?", NULL);
	CHECK(!conversation_sources(&k.c.conv, compared, strlen(compared), &s, &e));
	CHECK_INT(s.found, 1);
	sources_free(&s);
	talk_close_with_reader(&k, folder, &encoder);
}

/* Make the tiny reranker of the tests with scores `factor` times as large. */
static void write_reranker(const char *path, float factor)
{
	size_t n;
	char *file = test_read(test_file("tests/vectors/models/bert-reranker.gguf"), &n);
	const struct gguf_tensor *t;
	struct gguf *g;
	struct err e = { 0 };
	FILE *f = fopen(path, "wb");

	CHECK_MSG(!gguf_parse(&g, "reranker", file, n, &e), "%s", e.msg);
	t = gguf_tensor_find(g, "cls.output.weight");
	for (int64_t i = 0; i < t->ne[0]; i++) {
		float v;

		memcpy(&v, file + t->at + 4 * i, 4);
		v *= factor;
		memcpy(file + t->at + 4 * i, &v, 4);
	}
	gguf_close(g);
	CHECK(f && fwrite(file, 1, n, f) == n && !fclose(f));
	free(file);
}

/* Large scores of a reranker alone decide the order. No words are marked, and no question is refused because of the
 * scores. */
TEST(a_reranker_orders_passages)
{
	static const char question[] = "Who sails from the harbour at nine?";
	struct talk k;
	struct str encoder = { 0 }, path = { 0 };
	char *folder = talk_open_with_reader(&k, &encoder);
	struct encoder *ranks = NULL;
	struct sources s;
	struct err e = { 0 };
	double last = INFINITY;

	str_addf(&path, "%s/x-reader.gguf", folder);
	CHECK(!unlink(path.p));
	write_reranker(path.p, 1e4f);
	add(&k, "harbour.txt", harbour);
	add(&k, "keeper.txt", keeper);
	add(&k, "ferry.txt", ferry);
	CHECK_MSG(!conversation_sources(&k.c.conv, question, strlen(question), &s, &e), "%s", e.msg);
	CHECK_INT(s.found, 1);
	CHECK(s.n > 2);
	CHECK(!encoder_open(&ranks, test_file("tests/vectors/models/bert.gguf"), "cpu", 1, &e));
	CHECK_MSG(!encoder_reader_open(ranks, READER_ANY, path.p, &e), "%s", e.msg);
	for (size_t i = 0; i < s.n; i++) {
		const struct document *d = &k.c.conv.doc[s.at[i].doc];
		struct encoder_string text = { d->text.p + d->body + s.at[i].from, s.at[i].to - s.at[i].from };
		struct encoder_answer a = { 0 };

		CHECK(s.at[i].answer == s.at[i].answer_end);
		CHECK(!encoder_read(ranks, READER_ANY, (struct encoder_string){ question, strlen(question) }, &text, 1,
		                    &a, NULL, &e));
		CHECK_MSG(a.score <= last, "passage %zu: %f after %f", i, a.score, last);
		last = a.score;
	}
	sources_free(&s);
	encoder_close(ranks);
	talk_close_with_reader(&k, folder, &encoder);
	str_free(&path);
}

/* Check that this reader reads the passages for a question. */
static void check_reader(struct talk *k, const char *question, enum encoder_reader_for reader)
{
	struct candidates c;
	struct encoder_answer a = { 0 };
	struct encoder *encoder;
	struct err e = { 0 };

	CHECK_MSG(!candidates_find(&k->c.conv, question, strlen(question), &c, &e), "%s", e.msg);
	encoder = search_of(&k->c.conv)->meaning.encoder;
	CHECK_MSG(c.n && c.reader == reader, "%s", question);
	CHECK_INT(c.by_reading, encoder_reads(encoder, reader) == READS_ANSWERS);
	CHECK_INT(c.by_ranking, encoder_reads(encoder, reader) == READS_SCORES);
	for (int i = 0; i < c.n_judged; i++) {
		const struct document *d = &k->c.conv.doc[c.at[i].found.text];
		struct encoder_string text = { d->text.p + d->body + c.at[i].found.from,
			                       c.at[i].found.to - c.at[i].found.from };

		CHECK(!encoder_read(encoder, reader, (struct encoder_string){ question, strlen(question) }, &text, 1,
		                    &a, NULL, &e));
		CHECK_MSG(a.score == c.at[i].answers, "%s: %f, not %f", question, c.at[i].answers, a.score);
	}
	free(c.at);
}

/* Put a file beside the encoder, in the place of its reader for English questions. */
static void add_english_reader(const struct str *encoder, const char *file)
{
	struct str path = { 0 };
	char *from = realpath(test_file(file), NULL);

	str_add(&path, encoder->p, encoder->n - strlen(".gguf"));
	str_adds(&path, "-reader-en.gguf");
	CHECK(from && !symlink(from, path.p));
	free(from);
	str_free(&path);
}

TEST(an_english_question_about_an_english_text_has_its_own_reader)
{
	static const char english[] = "When was the lighthouse built?", german[] = "Wann wurde der Leuchtturm gebaut?";
	/* a name and a title in English */
	static const char leuchtturm[] =
		"Der Leuchtturm am Kap Morrow wurde 1871 von einem schottischen Ingenieur gebaut. Seine Lampe brennt "
		"R\xc3\xbc"
		"b\xc3\xb6l und wird eine Stunde vor Sonnenuntergang entz\xc3\xbcndet.\n\n"
		"In der Nacht des gro\xc3\x9f"
		"en Sturms ruderte die \xc3\xa4ltere Tochter allein zu einer gestrandeten Bark. Das Buch "
		"\"The Keeper's Daughter\" erz\xc3\xa4hlt davon.\n\n"
		"Vorr\xc3\xa4te kommen einmal im Monat mit dem Boot aus dem Dorf Ebbing. Im Winter isst die Familie getrockneten "
		"Fisch und Kartoffeln.\n\n"
		"Die Mauer sch\xc3\xbctzt den Garten vor dem Wind. Der W\xc3\xa4rter wohnt unter der Lampe, zusammen mit seinen "
		"beiden T\xc3\xb6"
		"chtern.\n";
	struct str encoder = { 0 };
	struct talk k;
	char *folder = talk_open_with_reader(&k, &encoder);

	add_english_reader(&encoder, "tests/vectors/models/deberta-reader.gguf");
	add(&k, "keeper.txt", keeper);
	check_reader(&k, english, READER_ENGLISH);
	check_reader(&k, german, READER_ANY);
	talk_close_with_reader(&k, folder, &encoder);

	folder = talk_open_with_reader(&k, &encoder);
	add_english_reader(&encoder, "tests/vectors/models/deberta-reader.gguf");
	add(&k, "leuchtturm.txt", leuchtturm);
	check_reader(&k, english, READER_ANY);
	check_answer(&k, english, "1871");
	talk_close_with_reader(&k, folder, &encoder);
}

/* Ask the question, and check that the reader for English has read passages in parts of 32, up to 96, until one had log
 * odds of 2. Return 1 if it did not read all of these. */
static int parts_read(struct talk *k, const char *question)
{
	struct candidates c;
	struct err e = { 0 };
	double most = -INFINITY;
	int n, all;

	CHECK_MSG(!candidates_find(&k->c.conv, question, strlen(question), &c, &e), "%s", e.msg);
	CHECK(c.reader == READER_ENGLISH && c.by_reading && c.n > 64);
	all = (int)MIN(c.n, (size_t)96);
	for (int i = 0; i < c.n_judged; i++)
		most = MAX(most, c.at[i].answers);
	n = c.n_judged;
	CHECK_MSG(n == all || (most >= 2 && (n == 32 || n == 64)), "%s: %d read, %f", question, n, most);
	free(c.at);
	return n < all;
}

TEST(more_passages_are_read_where_none_of_the_best_answers)
{
	static const char *const word[] = { "keeper", "lamp", "storm", "garden", "wall", "boat", "daughter", "winter" };
	struct str text = { 0 }, encoder = { 0 };
	struct talk k;
	char *folder = talk_open_with_reader(&k, &encoder);

	add_english_reader(&encoder, "tests/vectors/models/deberta-reader.gguf");
	for (int i = 0; i < 900; i++)
		str_addf(&text,
		         "In the year %d the %s stood by the %s, and the %s was seen from the %s for the first time.%s",
		         1000 + i, word[i % 8], word[i / 8 % 8], word[i / 3 % 8], word[i / 64 % 8],
		         i % 5 ? " " : "\n\n");
	add(&k, "years.txt", text.p);
	/* The weights of the reader are random: what it answers says nothing of the texts. */
	CHECK(!parts_read(&k, "why keeper?"));
	CHECK(parts_read(&k, "why storm?"));
	talk_close_with_reader(&k, folder, &encoder);
	str_free(&text);
}

/* Without the reader for all languages, questions in other languages are not read. */
TEST(an_encoder_may_have_the_english_reader_alone)
{
	static const char german[] = "Wann wurde der Leuchtturm gebaut?";
	struct str encoder = { 0 }, path = { 0 };
	struct candidates c;
	struct talk k;
	struct err e = { 0 };
	char *folder = talk_open_with_reader(&k, &encoder);

	str_addf(&path, "%s/x-reader.gguf", folder);
	CHECK(!unlink(path.p));
	add_english_reader(&encoder, "tests/vectors/models/bert-reranker.gguf");
	add(&k, "keeper.txt", keeper);
	check_reader(&k, "When was the lighthouse built?", READER_ENGLISH);
	CHECK(!candidates_find(&k.c.conv, german, strlen(german), &c, &e));
	CHECK(c.n && !c.by_reading && !c.by_ranking);
	free(c.at);
	talk_close_with_reader(&k, folder, &encoder);
	str_free(&path);
}

static void keep_notice(struct conversation *conv, const struct conversation_event *event, void *ud)
{
	(void)conv;
	if (event->what == EVENT_NOTICE)
		str_addf(ud, "%s\n", event->text);
}

/* With a damaged reader, the encoder is not used, and one notice says why. */
TEST(a_damaged_english_reader_is_one_sentence)
{
	struct str encoder = { 0 }, said = { 0 }, want = { 0 };
	struct talk k;
	char *folder = talk_open_with_reader(&k, &encoder);

	conversation_observe(&k.c.conv, keep_notice, &said);
	add_english_reader(&encoder, "tests/vectors/models/bert.queries.f32");
	add(&k, "keeper.txt", keeper);
	quoted(&k, "When was the lighthouse built?", NULL);
	quoted(&k, "Wann wurde der Leuchtturm gebaut?", NULL);
	str_addf(&want,
	         "documents are searched by words alone: file '%s/x-reader-en.gguf': byte 0: this is not a GGUF file",
	         folder);
	CHECK_MSG(said.n && !strncmp(said.p, want.p, want.n) && strchr(said.p, '\n') == said.p + said.n - 1, "%s",
	          str_text(&said));
	str_free(&want);
	talk_close_with_reader(&k, folder, &encoder);
	str_free(&said);
}

static const char *subject(const char *question)
{
	static struct str out;
	struct subject x = question_subject(question, strlen(question));

	str_clear(&out);
	str_adds(&out, "");
	for (int i = 0; i < x.n; i++)
		str_addf(&out, "%s%s", i ? " " : "", x.word[i]);
	return out.p;
}

TEST(questions_for_who_or_what_something_is)
{
	CHECK_STR(subject("Who is Israel Hands?"), "israel hands");
	CHECK_STR(subject("whats the oracle"), "oracle");
	CHECK_STR(subject("who's father mapple"), "father mapple");
	CHECK_STR(subject("What\xe2\x80\x99s a dryad?"), "dryad");
	CHECK_STR(subject("who is \xe2\x80\x9c"
	                  "Ben Gunn\xe2\x80\x9d?"),
	          "ben gunn");
	CHECK_STR(subject("who is Ben \xe2"), "ben");
	CHECK_STR(subject("mahbub ali who is he"), "mahbub ali");
	CHECK_STR(subject("specious present meaning"), "specious present");
	CHECK_STR(subject("ZSTD_e_flush?"), "zstd_e_flush");
	CHECK_STR(subject("so who is g.w. foote"), "g.w foote");
	CHECK_STR(subject("Wer ist Kapit\xc3\xa4n Nemo?"), "kapit\xc3\xa4n nemo");
	CHECK_STR(subject("Qui est le capitaine ?"), "capitaine");
	CHECK_STR(subject("And why?"), "");
	CHECK_STR(subject("Who commands the ferry?"), "");
	CHECK_STR(subject("what is he hoping to find in the old house"), "");
	CHECK_STR(subject("When does the ferry sail?"), "");
	CHECK_STR(subject(""), "");
	CHECK_STR(subject("...!'"), "");
}

TEST(questions_of_users_about_themselves)
{
	static const char *const own[] = { "How old is my dog?",
		                           "Wie alt ist mein Hund?",
		                           "Quel v\xc3\xa9lo ai-je ?",
		                           "O\xc3\xb9 ai-je mis ma cl\xc3\xa9 ?",
		                           "\xc2\xbf"
		                           "De qu\xc3\xa9 raza es mi gato?",
		                           "Che moto ho?",
		                           "Que carro tenho?" };
	static const char *const other[] = { "How old do dogs get?",
		                             "Wie alt werden Hunde?",
		                             "Quel est le plus haut sommet ?",
		                             "\xc2\xbfQui\xc3\xa9n escribi\xc3\xb3 Don Quijote?",
		                             "Quanto pesa un elefante?",
		                             "Quem inventou o violino?",
		                             "" };

	for (size_t i = 0; i < LEN(own); i++)
		CHECK_MSG(question_is_own(own[i], strlen(own[i])), "%s", own[i]);
	for (size_t i = 0; i < LEN(other); i++)
		CHECK_MSG(!question_is_own(other[i], strlen(other[i])), "%s", other[i]);
}

TEST(what_something_is_stands_where_it_is_introduced)
{
	struct talk k;
	struct str path = { 0 }, text = { 0 };

	talk_open_with_encoder(&k, &path);
	for (int i = 0; i < 40; i++)
		str_addf(
			&text,
			i == 9 ? "Old Marrable, who keeps the light on the cape, was a sailor once.\n\n"
			: i > 9 && i % 3 == 0
				? "Is Marrable there? Who is it, asked Marrable, and Marrable said to Marrable number %d: what is it?\n\n"
				: "The boat of number %d came in with the tide, and went out again.\n\n",
			i);
	add(&k, "cape.txt", text.p);
	CHECK(strstr(quoted(&k, "who is marrable", NULL), "Old Marrable, who keeps the light"));
	chat_close(&k.c, &k.o);
	str_free(&path);
	str_free(&text);
}

TEST(an_encoder_that_cannot_be_opened_leaves_the_words)
{
	struct talk k;
	int found;

	talk_open(&k);
	k.c.o.encoder = "/nowhere/encoder.gguf";
	add(&k, "harbour.txt", harbour);
	CHECK(strstr(quoted(&k, "Which bakery sells bread?", &found), "The bakery opens at six"));
	CHECK_INT(found, 1);
	chat_close(&k.c, &k.o);
}

TEST(function_words_of_a_question_are_not_its_own)
{
	CHECK_INT(question_own_words("And why did he do it?", 21), 0);
	CHECK_INT(question_own_words("what about them then", 20), 0);
	CHECK_INT(question_own_words("and what about summerlee", 24), 1);
	CHECK_INT(question_own_words("Which oil do they burn?", 23), 2);
	CHECK_INT(question_own_words("", 0), 0);
}

static void asks(const char *message, const char *want)
{
	size_t n = strlen(message);
	const char *asked = question_in_message(message, &n);

	CHECK_MSG(n == strlen(want) && !memcmp(asked, want, n), "'%.*s', not '%s'", (int)n, asked, want);
}

/* The part of a message that is searched for. */
TEST(the_question_in_a_long_message)
{
	struct str log = { 0 }, s = { 0 };
	const char *asked;
	size_t n;

	for (int i = 0; i < 1000; i++)
		str_addf(&log, "valve %d opened\n", i);
	asks("", "");
	asks("Which?\nNone.\n", "Which?\nNone.\n");
	str_addf(&s, "%s\n Which valve is it? \n\n", log.p);
	asks(s.p, " Which valve is it?");
	str_clear(&s);
	str_addf(&s, "\n\nWhich valve is it?\n%s", log.p);
	asks(s.p, "Which valve is it?");
	str_clear(&s);
	str_addf(&s, "Why?\n%sPlease summarize it.", log.p);
	asks(s.p, "Please summarize it.");
	str_clear(&s);
	str_addf(&s, "Summarize this log:\n%s", log.p);
	asks(s.p, "Summarize this log:");
	/* neither asks: the end of the text stands for it */
	asks(log.p, "valve 999 opened");
	/* one line: the last sentences, of at most 500 bytes */
	str_clear(&s);
	for (int i = 0; i < 1000; i++)
		str_addf(&s, "Valve %d opened. ", i);
	str_adds(&s, "Which one \xc3\xa9?");
	n = s.n;
	asked = question_in_message(s.p, &n);
	CHECK(n <= 500 && n > 400 && !strncmp(asked, " Valve 9", 8) && asked + n == s.p + s.n);
	str_clear(&s);
	for (int i = 0; i < 5000; i++)
		str_adds(&s, "\xc3\xa9");
	n = s.n;
	CHECK(question_in_message(s.p, &n) == s.p + s.n - 500 && n == 500);
	str_clear(&s);
	for (int i = 0; i < 5000; i++)
		str_adds(&s, " \n");
	asks(s.p, "");
	str_free(&log);
	str_free(&s);
}
