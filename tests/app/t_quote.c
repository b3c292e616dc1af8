/* tests/app/t_quote.c - the text of documents that is sent with a question (app/retrieval/quote.c,
 * app/conversation/documents.c; tests/lib/scene.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/chat/chat_private.h"
#include "app/conversation/turn_hook.h"
#include "app/retrieval/retrieval_private.h"
#include "app/conversation/conversation.h"
#include "tests/lib/scene.h"

/* Write a text of 200 paragraphs, which is far too long for a context of 512 tokens. */
static void write_towers(char *path, size_t n)
{
	static const char *const stone[] = { "granite", "marble", "slate", "basalt", "chalk" };
	static const char *const name[] = { "heron", "otter", "badger", "falcon", "weasel", "marten", "curlew" };
	FILE *f;

	snprintf(path, n, "%s/towers.txt", home);
	f = fopen(path, "w");
	CHECK(f != NULL);
	for (int i = 0; f && i < 200; i++)
		fprintf(f,
		        "Tower%d was built of %s by the brothers of the %s%d. It looks over the marshes and the road to the coast.\n\n",
		        i, stone[i % 5], name[i % 7], i);
	if (f)
		fclose(f);
}

static void open_towers(struct scene *s, const char *words)
{
	char path[128], line[160];

	open_scene(s, words);
	s->c.o.quiet = 0;
	write_towers(path, sizeof path);
	snprintf(line, sizeof line, "/read %s", path);
	do_line(s, line);
	CHECK_INT(s->c.conv.n_doc, 1);
	/* The tiny model cannot rank passages: switch reranking off, as on a slow machine, so that the order of the
	 * index stays. */
	search_of(&s->c.conv)->rerank.tokens = -1;
}

static const struct message *question_of(const struct scene *s)
{
	static const struct message none;

	return s->c.conv.n_msg > 1 ? &s->c.conv.msg[s->c.conv.n_msg - 2] : &none;
}

static size_t count(const struct str *s, const char *what)
{
	size_t n = 0;

	for (const char *p = s->p; p && (p = strstr(p, what)); p += strlen(what))
		n++;
	return n;
}

TEST(a_document_that_does_not_fit_is_searched)
{
	struct scene s;

	open_towers(&s, "-n 4 --private --kv full -c 512");
	CHECK_INT(s.c.conv.doc[0].whole, 0);
	CHECK(has(&s.said, "questions search it"));
	CHECK(!s.errors.n);
	do_line(&s, "Which brothers have built Tower93?");
	CHECK_MSG(s.c.conv.n_msg == 2, "%s%s", str_text(&s.said), str_text(&s.errors));
	/* The sources are shown. The quoted sentence is in the question's context; the question's text stays as
	 * typed. */
	CHECK(has(&s.said,
	          "[1] towers.txt, line 187: \"Tower93 was built of basalt by the brothers of the badger93.\""));
	CHECK_STR(question_of(&s)->text.p, "Which brothers have built Tower93?");
	CHECK(has(&question_of(&s)->context,
	          "The document says: \"Tower93 was built of basalt by the brothers of the badger93.\""));
	close_scene(&s);
}

/* A list item is quoted without its list mark. A number that belongs to the sentence stays. */
TEST(a_quoted_item_has_no_mark)
{
	static const struct {
		const char *line, *question, *says;
	} all[] = {
		{ "- Slugs are kept away with beer in a saucer.", "How are the slugs kept away?",
		  "The document says: \"Slugs are kept away with beer in a saucer.\"" },
		{ "12. The caretaker salts the steps in winter.", "Who salts the steps?",
		  "The document says: \"The caretaker salts the steps in winter.\"" },
		{ "┌─────┬──────┐\n│ oats│ the  │\n│ bay │ horse│\n└─────┴──────┘", "What does the bay horse get?",
		  "The document says: \"bay horse\"" },
		{ "2027 is the year of the harvest festival.", "Which year has the harvest festival?",
		  "The document says: \"2027 is the year of the harvest festival.\"" },
	};
	char path[128], line[160];

	for (size_t i = 0; i < LEN(all); i++) {
		struct scene s;
		FILE *f;

		open_scene(&s, "-n 2 --private --kv full -c 1000");
		snprintf(path, sizeof path, "%s/item.md", home);
		f = fopen(path, "w");
		CHECK(f != NULL && fprintf(f, "# Notes\n\n%s\n", all[i].line) > 0 && !fclose(f));
		snprintf(line, sizeof line, "/read %s", path);
		do_line(&s, line);
		search_of(&s.c.conv)->rerank.tokens = -1;
		do_line(&s, all[i].question);
		CHECK_MSG(has(&question_of(&s)->context, all[i].says), "%s",
		          question_of(&s)->context.p ? question_of(&s)->context.p : s.said.p);
		close_scene(&s);
	}
}

/* A small model's quotation has the best sentence. If that sentence lacks words of the question, neighbouring sentences
 * are added up to 350 bytes: first those after it, then those before it in its paragraph, never across a heading. */
TEST(a_quotation_has_the_neighbours)
{
	static const struct {
		const char *text, *question, *says;
	} all[] = {
		{ "The hall is old.\n\nIt was locked. Who has the key? The porter has it.\n\nHe sleeps late.",
		  "Is the key locked?",
		  "The document says: \"It was locked. Who has the key? The porter has it. He sleeps late.\"" },
		{ "# Hall\n\nThe key is lost. Nobody minds.\n\n# Yard\n\nThe yard is wide.", "Who minds the key?",
		  "The document says: \"The key is lost. Nobody minds.\"" },
		{ "The key is lost. The hall is shut. %s", "Is the key in the hall?",
		  "The document says: \"The key is lost. The hall is shut.\"" },
		/* The sentence with the words of the question needs no neighbours. */
		{ "It was locked. The key is lost. Nobody minds.", "Where is the key?",
		  "The document says: \"The key is lost.\"" },
	};
	char path[128], line[160], word[400];

	memset(word, 'W', sizeof word - 2);
	word[sizeof word - 2] = '.';
	word[sizeof word - 1] = 0;
	for (size_t i = 0; i < LEN(all); i++) {
		struct scene s;
		FILE *f;

		open_scene(&s, "-n 2 --private --kv full -c 1000 --chat-template chatml");
		snprintf(path, sizeof path, "%s/hall.md", home);
		f = fopen(path, "w");
		CHECK(f != NULL);
		if (f) {
			const char *gap = strstr(all[i].text, "%s");

			fprintf(f, "%.*s%s\n", gap ? (int)(gap - all[i].text) : (int)strlen(all[i].text), all[i].text,
			        gap ? word : "");
			CHECK(!fclose(f));
		}
		snprintf(line, sizeof line, "/read %s", path);
		do_line(&s, line);
		search_of(&s.c.conv)->rerank.tokens = -1;
		do_line(&s, all[i].question);
		CHECK_MSG(has(&question_of(&s)->context, all[i].says), "%s",
		          question_of(&s)->context.p ? question_of(&s)->context.p : s.said.p);
		close_scene(&s);
	}
}

/* 1 if the last answer begins with the text. */
static int answer_begins(const struct scene *s, const char *text)
{
	const struct message *m = conversation_answer(&s->c.conv);
	size_t blank = m && m->text.n && m->text.p[0] == ' '; /* the tokenizer puts a blank before the first word */

	return m && m->text.n >= blank + strlen(text) && !memcmp(m->text.p + blank, text, strlen(text));
}

/* The answer of a model with few parameters begins with the quoted sentence. /continue, /regen and a request such as
 * "Write ..." let the model go on in its own words; here they are random, with names that the document does not have,
 * so that they are left out and the sentence is quoted instead. */
TEST(a_small_model_answers_with_the_sentence)
{
	static const char sentence[] =
		"The document says: \"Tower93 was built of basalt by the brothers of the badger93.\"";
	struct scene s;
	size_t n;

	open_towers(
		&s,
		"-n 150 --private --kv full -c 4000 --docs passages --passages 1 --temp 0 --loops go --chat-template chatml");
	do_line(&s, "Which brothers have built Tower93?");
	CHECK_MSG(answer_begins(&s, sentence), "%s%s", s.shown.p, str_text(&s.errors));
	CHECK(!memchr(conversation_answer(&s.c.conv)->text.p, '\n', conversation_answer(&s.c.conv)->text.n));
	n = conversation_answer(&s.c.conv)->id.n;
	CHECK_INT(s.c.conv.last.answer_tokens, (int32_t)n);
	CHECK(has(&s.shown, sentence));
	do_line(&s, "/set predict 160");
	do_line(&s, "/continue");
	CHECK(answer_begins(&s, sentence) && conversation_answer(&s.c.conv)->id.n == n);
	CHECK(has(&s.said, "the rest of the answer is left out"));
	do_line(&s, "/regen");
	CHECK(answer_begins(&s, sentence) && has(&s.said, "the rest of the answer is left out"));
	do_line(&s, "Please write about the brothers who built Tower93.");
	CHECK(answer_begins(&s, "The document says: \"Tower93"));
	do_line(&s, "Summarize the brothers of Tower93.");
	CHECK(answer_begins(&s, "The document says: \"Tower93") && has(&s.said, "left out"));
	close_scene(&s);
}

TEST(requests_for_a_new_text_are_known_by_their_verb)
{
	static const char *const wants[] = { "Write a poem about the ferry.", "can you please summarize chapter 3?",
		                             "\xc3\x9c"
		                             "bersetze das ins Deutsche",
		                             "now translate it" },
				 *const asks[] = { "how do i write a file",
		                                   "sort newest first",
		                                   "can i write to it?",
		                                   "the write barrier",
		                                   "tell me about towers",
		                                   "",
		                                   "please" };

	for (size_t i = 0; i < LEN(wants); i++)
		CHECK_MSG(question_wants_text(wants[i], strlen(wants[i])), "%s", wants[i]);
	for (size_t i = 0; i < LEN(asks); i++)
		CHECK_MSG(!question_wants_text(asks[i], strlen(asks[i])), "%s", asks[i]);
}

TEST(small_talk_is_no_question)
{
	static const char *const talk[] = { "hi", "ok, thanks!", "Thank you very much.", "vielen Dank",
		                            "D'accord, merci" },
				 *const asks[] = { "who is hi", "ok and the ferry", "night watch", "",
		                                   "?",         "thanks to whom" };

	for (size_t i = 0; i < LEN(talk); i++)
		CHECK_MSG(question_is_small_talk(talk[i], strlen(talk[i])), "%s", talk[i]);
	for (size_t i = 0; i < LEN(asks); i++)
		CHECK_MSG(!question_is_small_talk(asks[i], strlen(asks[i])), "%s", asks[i]);
}

/* A small model that has quoted before invents quotations for other requests. */
TEST(an_invented_quotation_is_not_allowed)
{
	static const struct {
		const char *text;
		int allowed;
	} all[] = {
		{ "The document says: \"built of basalt by the brothers\".", 1 },
		{ "The document says: \"Write a poem about the brothers.", 0 },
		{ "The document says: \"the brothers wrote a poem\", and so on.", 0 },
		{ "They are called \"brothers\".", 1 },
		{ "They built it.", 1 },
	};
	struct scene s;

	open_towers(&s, "-n 8 --private --kv full -c 4000 --docs passages --passages 1 --chat-template chatml");
	do_line(&s, "Which brothers have built Tower93?");
	for (size_t i = 0; i < LEN(all); i++)
		CHECK_MSG(unsupported_ops.allows(NULL, &s.c.conv, all[i].text, strlen(all[i].text)) == all[i].allowed,
		          "%s", all[i].text);
	close_scene(&s);
}

/* ---- sentences that turn hooks do not allow ---- */

struct gate {
	int allow;       /* sentences that are allowed */
	struct str seen; /* sentences that were allowed */
};

static void gate_begin(void *self, struct conversation *conv, const struct answer_hooks *hooks)
{
	(void)self, (void)hooks;
	conv->guarded = 1;
}

static int gate_allows(void *self, struct conversation *conv, const char *text, size_t n)
{
	struct gate *g = self;

	(void)conv;
	if (g->allow-- <= 0)
		return 0;
	str_add(&g->seen, text, n);
	return 1;
}

/* A guarded answer is shown sentence by sentence, and ends before the first one that is not allowed. */
TEST(an_answer_ends_before_a_sentence_that_is_not_allowed)
{
	static const struct turn_hook_ops ops = { .name = "gate", .begin = gate_begin, .allows = gate_allows };
	struct str whole = { 0 };

	for (int allow = -1; allow < 4; allow++) { /* -1: the answer is not guarded */
		struct gate gate = { .allow = allow };
		const struct message *m;
		struct scene s;

		open_scene(&s, "-n 300 --private --kv full -c 1000 --temp 0 --loops go --chat-template chatml");
		if (allow >= 0)
			turn_hook_add(&s.c.conv, &ops, &gate);
		do_line(&s, "Who has the key?");
		m = conversation_answer(&s.c.conv);
		CHECK(m != NULL);
		if (m && allow < 0)
			str_add(&whole, str_text(&m->text), m->text.n);
		else if (m)
			CHECK(m->text.n == gate.seen.n && m->text.n <= whole.n &&
			      !memcmp(str_text(&m->text), str_text(&gate.seen), m->text.n) &&
			      !memcmp(str_text(&m->text), whole.p, m->text.n));
		CHECK(m && s.shown.n == m->text.n && s.c.conv.last.answer_tokens == (int32_t)m->id.n);
		CHECK(!m || tokens_match_text(s.c.conv.engine, m->id.id, m->id.n, str_text(&m->text), m->text.n));
		CHECK(allow != 0 || (m && !m->text.n));
		str_free(&gate.seen);
		close_scene(&s);
	}
	CHECK(whole.n > 0);
	str_free(&whole);
}

/* The token limit of -n also cuts the quoted sentence. */
TEST(a_limit_cuts_the_sentence)
{
	struct scene s;

	open_towers(&s, "-n 8 --private --kv full -c 4000 --docs passages --passages 1 --chat-template chatml");
	do_line(&s, "Which brothers have built Tower93?");
	CHECK_INT((int)conversation_answer(&s.c.conv)->id.n, 8);
	CHECK(answer_begins(&s, "The "));
	close_scene(&s);
}

/* The numbered sources are shown before the answer; below the answer only their attention shares are shown. */
TEST(sources_are_numbered_once_and_shown)
{
	struct scene s;

	open_towers(&s, "-n 8 --private --kv full -c 4000 --docs passages --passages 1");
	do_line(&s, "/source");
	CHECK(has(&s.errors, "no sources"));
	do_line(&s, "Which brothers have built Tower93?");
	CHECK_INT(count(&s.said, "[1] towers.txt, line 187: \"Tower93"), 1);
	/* With a single passage in the prompt, its share is not shown. Passages that only mention towers are no
	 * sources. */
	CHECK(!has(&s.said, "attention"));
	CHECK(!has(&s.said, "[2]"));
	/* Pretend that the answer attended to its question only. */
	evidence_of(&s.c.conv)->n = 0;
	evidence_of(&s.c.conv)->unattended = 1;
	sources_below(&s.c);
	CHECK(has(&s.said, "attention: hardly on the documents"));
	do_line(&s, "/source 1");
	CHECK(has(&s.said, "[1] towers.txt, line"));
	CHECK(has(&s.said, "brothers of the badger93. It looks over the marshes"));
	do_line(&s, "/source 9");
	CHECK(has(&s.errors, "the last answer has one source: /source 1"));
	/* Sources belong to the question: /regen shows them again, even if they must be searched again. */
	do_line(&s, "/regen");
	CHECK_INT(count(&s.said, "[1] towers.txt, line 187: \"Tower93"), 1);
	do_line(&s, "Of which stone is Tower17 built?");
	do_line(&s, "/undo");
	do_line(&s, "/source 1");
	CHECK(has(&s.said, "brothers of the badger93. It looks over the marshes"));
	do_line(&s, "/regen");
	CHECK_INT(count(&s.said, "[1] towers.txt, line 187: \"Tower93"), 1);
	do_line(&s, "/set sources off");
	do_line(&s, "Of which stone is Tower17 built?");
	CHECK(!has(&s.said, "[1]") && !has(&s.said, "attention"));
	close_scene(&s);
}

/* Sources that were not sent to the model are marked, also in stored and exported answers. A sentence is listed only
 * once. */
TEST(what_was_found_but_not_sent_is_marked)
{
	struct scene s;
	struct str json = { 0 }, lines = { 0 };
	char path[128], line[160];
	FILE *f;

	open_towers(&s, "-n 8 --private --kv full -c 4000 --docs passages --passages 1");
	do_line(&s, "What was built of basalt by the brothers?");
	CHECK_MSG(has(&s.said, "[1] towers.txt, line ") && has(&s.said, "[3] towers.txt, line "), "%s", s.said.p);
	CHECK_INT(count(&s.said, " (not sent to the model): \"Tower"), 2);
	CHECK(!has(&s.said, "attention"));
	conversation_json(&s.c.conv, &s.c.conv.last, "", &json);
	CHECK_INT(count(&json, "\"sent\":true"), 1);
	CHECK(count(&json, "\"sent\":false") >= 2);
	do_line(&s, "/source 1");
	CHECK(!has(&s.said, "not sent"));
	do_line(&s, "/source 2");
	CHECK(has(&s.said, " (not sent to the model)\nTower") && !has(&s.said, "attention"));
	chat_source_lines(&s.c, conversation_answer(&s.c.conv), &lines);
	CHECK_INT(count(&lines, " (not sent to the model): \"Tower"), 2);
	do_line(&s, "/set passages 3");
	do_line(&s, "What was built of basalt by the brothers?");
	CHECK(has(&s.said, "[3] towers.txt, line ") && !has(&s.said, "not sent"));
	snprintf(path, sizeof path, "%s/again.txt", home);
	f = fopen(path, "w");
	CHECK(f && fprintf(f, "Of old times.\n\nTower93 was built of basalt by the brothers of the badger93.\n") > 0 &&
	      fclose(f) == 0);
	snprintf(line, sizeof line, "/read %s", path);
	do_line(&s, line);
	do_line(&s, "Which brothers have built Tower93?");
	CHECK_INT(count(&s.said, ": \"Tower93 was built of basalt by the brothers of the badger93.\""), 1);
	str_free(&json);
	str_free(&lines);
	close_scene(&s);
}

/* A passage that was sent with an earlier question is still in the context, so it is not marked as unsent. A share is
 * shown only if another share can be compared with it. */
TEST(what_an_earlier_question_brought_was_sent)
{
	struct scene s;
	struct str json = { 0 }, lines = { 0 };
	struct answer_sources list;

	open_towers(&s, "-n 8 --private --kv full -c 4000 --docs passages --passages 1");
	do_line(&s, "Which brothers have built Tower93?");
	CHECK(!has(&s.said, "attention"));
	/* A second passage is sent. The attention share of the first one is shown only if it is large enough; here it
	 * is too small, so no shares are shown. */
	do_line(&s, "Which brothers have built Tower17?");
	CHECK_MSG(has(&s.said, "[1] towers.txt, line 35: \"Tower17"), "%s", s.said.p);
	CHECK_INT(evidence_of(&s.c.conv)->compared, 1);
	CHECK_INT(evidence_of(&s.c.conv)->n, 2);
	evidence_of(&s.c.conv)->at[0].share = 0.97;
	evidence_of(&s.c.conv)->at[1].share = 0.03;
	answer_sources_found(&s.c.conv, &list);
	answer_sources_attended(&s.c.conv, &list);
	answer_attended_lines(&list, &lines);
	CHECK_STR(str_text(&lines), "");
	answer_sources_free(&list);
	/* The search finds both passages, which are both in the context, so neither is marked as unsent. */
	do_line(&s, "Which brothers have built Tower93, and Tower17?");
	CHECK_MSG(has(&s.said, ": \"Tower93") && has(&s.said, ": \"Tower17"), "%s", s.said.p);
	CHECK_MSG(!has(&s.said, "not sent"), "%s", s.said.p);
	conversation_json(&s.c.conv, &s.c.conv.last, "", &json);
	CHECK_INT(count(&json, "\"sent\":true"), 2);
	do_line(&s, "/source 2");
	CHECK_MSG(!has(&s.said, "not sent"), "%s", s.said.p);
	/* After /undo one of the two passages is no longer in the context. */
	do_line(&s, "/undo 3");
	do_line(&s, "Which brothers have built Tower93, and Tower17?");
	CHECK_MSG(count(&s.said, " (not sent to the model): \"Tower") == 1 && !has(&s.said, "attention"), "%s",
	          s.said.p);
	str_free(&json);
	close_scene(&s);
}

/* A passage of a whole document that the answer attended to, but the search did not find, is listed with a number of
 * its own. */
TEST(attended_passages_have_numbers_of_their_own)
{
	struct scene s;
	char line[160], path[128];
	FILE *f;

	open_scene(&s, "-n 8 --private --kv full -c 2000");
	s.c.o.quiet = 0;
	snprintf(path, sizeof path, "%s/whole.txt", home);
	f = fopen(path, "w");
	CHECK(f && fprintf(f, "one\ntwo\n\nThe ferry sails at dawn.\nIt comes back at night.\n") > 0 && fclose(f) == 0);
	snprintf(line, sizeof line, "/read %s", path);
	do_line(&s, line);
	do_line(&s, "zebras"); /* nothing is found */
	CHECK_MSG(has(&s.said, "[1] whole.txt, lines 1-5: \"one two The ferry sails at dawn."), "%s",
	          s.said.p); /* the document has only this passage */
	do_line(&s, "/source");
	CHECK(has(&s.said, "The ferry sails at dawn.\nIt comes back at night."));
	close_scene(&s);
}

/* A search during which Ctrl-C is pressed: no timeline runs that the signal could cancel. */
static int stopping_search(const struct indexed_text *text, size_t n_text, const char *question, size_t n,
                           struct found_passage **out, size_t *n_out, struct passage_index **index, void *ud,
                           struct err *e)
{
	(void)text, (void)n_text, (void)question, (void)n, (void)index, (void)e;
	*out = NULL;
	*n_out = 0;
	++*(int *)ud;
	signals_stop();
	return 0;
}

TEST(a_stop_during_the_search_stops_the_turn)
{
	struct scene s;
	int searched = 0;

	open_towers(&s, "-n 8 --private --kv full -c 4000 --docs passages");
	sources_search_by(&s.c.conv, stopping_search, NULL, &searched);
	do_line(&s, "Which brothers have built Tower93?");
	CHECK_INT(searched, 1);
	CHECK_INT(s.turns, 1);
	CHECK_INT(s.c.conv.n_msg, 0);
	CHECK(!has(&s.said, "nothing in the documents"));
	CHECK(has(&s.said, "[stopped before the answer began: the question is withdrawn; Up brings it back]"));
	/* The next question is answered. */
	sources_search_by(&s.c.conv, NULL, NULL, NULL);
	do_line(&s, "Which brothers have built Tower93?");
	CHECK_INT(s.c.conv.n_msg, 2);
	close_scene(&s);
}

TEST(as_many_passages_go_with_a_question_as_asked)
{
	static const struct {
		const char *options;
		size_t least, most;
	} how[] = { { "--passages 0", 0, 0 }, { "--passages 1", 1, 1 }, { "--passages 3", 2, 3 } };

	for (size_t i = 0; i < LEN(how); i++) {
		struct scene s;
		char words[80];
		size_t n;

		snprintf(words, sizeof words, "-n 4 --private --kv full -c 4000 --docs passages %s", how[i].options);
		open_towers(&s, words);
		do_line(&s, "Which brothers have built Tower93?");
		n = count(&question_of(&s)->context, "From towers.txt");
		CHECK_MSG(n >= how[i].least && n <= how[i].most, "%zu passages", n);
		CHECK_INT(count(&question_of(&s)->context, "The document says"), 1);
		close_scene(&s);
	}
}

/* Open a text of twelve passages that answer one question equally well. */
static void open_ferries(struct scene *s)
{
	char path[128], line[160];
	FILE *f;

	open_scene(s, "-n 4 --private --kv full -c 24000 --docs passages");
	s->c.o.quiet = 0;
	snprintf(path, sizeof path, "%s/ferries.txt", home);
	f = fopen(path, "w");
	CHECK(f != NULL);
	for (int i = 0; f && i < 12; i++) {
		fprintf(f, "The ferry of haven%d leaves at %d o'clock.", i, i);
		for (int k = 0; k < 8; k++)
			fprintf(f, " Nothing else is known about what they do there in winter %d.", 100 + k);
		fputs("\n\n", f);
	}
	if (f)
		fclose(f);
	snprintf(line, sizeof line, "/read %s", path);
	do_line(s, line);
	search_of(&s->c.conv)->rerank.tokens = -1;
}

/* A model of a billion parameters or more gets more passages, by its size, and is asked to mark its sentences with the
 * numbers that the user sees. A passage that it has from an earlier question is only referred to. */
TEST(a_larger_model_is_asked_for_marks)
{
	static const struct {
		uint64_t params;
		size_t passages;
	} sizes[] = { { 999999999, 1 }, { 1000000000, 3 }, { 4000000000, 5 }, { 30000000000, 10 }, { 0, 3 } };

	for (size_t i = 0; i < LEN(sizes); i++) {
		struct engine_info big;
		struct scene s;
		size_t asked = sizes[i].params == 999999999 ? 0 : sizes[i].passages;

		open_ferries(&s);
		big = *s.c.conv.info;
		big.n_params = sizes[i].params;
		s.c.conv.info = &big;
		do_line(&s, "When does the ferry leave?");
		CHECK_INT(count(&question_of(&s)->context, "From ferries.txt"), sizes[i].passages);
		CHECK_INT(count(&question_of(&s)->context, "] From ferries.txt"), asked);
		CHECK_INT(context_asks_for_marks(&question_of(&s)->context), asked > 0);
		for (size_t k = 1; k <= asked; k++) {
			char mark[32];

			snprintf(mark, sizeof mark, "[%zu] From ferries.txt", k);
			CHECK_INT(count(&question_of(&s)->context, mark), 1);
		}
		do_line(&s, "At what time does the ferry leave?");
		CHECK_INT(count(&question_of(&s)->context, ", quoted above: \"The ferry of haven"), asked);
		close_scene(&s);
	}
}

TEST(passages_are_not_sent_twice_while_the_cache_holds_them)
{
	struct scene s;

	open_towers(&s, "-n 4 --private --kv full -c 4000 --docs passages --passages 1");
	do_line(&s, "Which brothers have built Tower93?");
	CHECK_INT(count(&question_of(&s)->context, "From towers.txt"), 1);
	do_line(&s, "Of which stone is Tower93 built?");
	CHECK_INT(count(&question_of(&s)->context, "From towers.txt"), 0);
	CHECK_INT(count(&question_of(&s)->context, "The document says"), 1);
	do_line(&s, "/undo 2");
	do_line(&s, "Of which stone is Tower93 built?");
	CHECK_INT(count(&question_of(&s)->context, "From towers.txt"), 1);
	close_scene(&s);
}

TEST(nothing_found_is_said_and_the_model_is_not_asked)
{
	struct scene s;

	open_towers(&s, "-n 4 --private --kv full -c 512");
	do_line(&s, "zebra quantum saxophone");
	CHECK_INT(s.c.conv.n_msg, 0);
	CHECK(has(&s.said, "[nothing in the documents clearly answers this]"));
	CHECK(!s.errors.n);
	do_line(&s, "/anyway");
	CHECK_INT(s.c.conv.n_msg, 2);
	CHECK_STR(s.c.conv.msg[0].text.p, "zebra quantum saxophone");
	CHECK_INT(s.c.conv.msg[0].context.n, 0);
	do_line(&s, "/anyway");
	CHECK(has(&s.said, "there is none"));
	CHECK_INT(s.c.conv.n_msg, 2);
	close_scene(&s);
}

/* If no passage answers the question, the nearest ones are shown and can be opened, but are not sent to the model. */
TEST(the_nearest_passages_are_shown)
{
	struct scene s;
	struct turn turn = { .stop = STOP_NOT_FOUND };
	struct str json = { 0 };

	open_towers(&s, "-n 4 --private --kv full -c 512");
	do_line(&s, "Which brothers have built Tower93?");
	do_line(&s, "zebra quantum saxophone of basalt");
	CHECK_INT(s.c.conv.n_msg, 2);
	CHECK(has(&s.said, "[nothing in the documents clearly answers this; nearest:]"));
	CHECK(has(&s.said, "[1] towers.txt, line"));
	CHECK(has(&s.said, "[/anyway asks the model without them, /summarize tells the whole]"));
	conversation_json(&s.c.conv, &turn, "", &json);
	CHECK(has(&json, "\"answered\":false,\"stop\":\"not found\""));
	CHECK(has(&json, "\"passages\":[{\"doc\":\"towers.txt\""));
	str_free(&json);
	do_line(&s, "/source 1");
	CHECK(has(&s.said, "[1] towers.txt, line"));
	/* The nearest passages are no sources of the answer that /continue extends. */
	do_line(&s, "/continue");
	CHECK(!has(&s.said, "[1]") || !has(&s.said, "basalt by"));
	do_line(&s, "zebra quantum saxophone of basalt");
	do_line(&s, "/regen");
	CHECK(has(&s.said, "[1] towers.txt, line 187: \"Tower93"));
	close_scene(&s);
}

TEST(a_session_goes_on_with_the_passages_that_were_sent)
{
	struct scene s;
	struct tokens before = { 0 }, after = { 0 };
	struct str context = { 0 };
	struct err e = { 0 };

	open_towers(&s, "-n 4 -s towers --kv full -c 4000 --docs passages");
	do_line(&s, "Which brothers have built Tower93?");
	str_add(&context, question_of(&s)->context.p, question_of(&s)->context.n);
	CHECK(conversation_render(&s.c.conv, 0, &before, &e) == 0);
	close_scene(&s);
	open_scene(&s, "-n 4 -s towers -c 4000");
	CHECK_INT(s.c.conv.n_doc, 1);
	CHECK_INT(s.c.conv.doc[0].whole, 0);
	CHECK_INT(s.c.conv.n_msg, 2);
	CHECK_STR(s.c.conv.msg[0].text.p, "Which brothers have built Tower93?");
	CHECK(s.c.conv.msg[0].context.n == context.n && !memcmp(s.c.conv.msg[0].context.p, context.p, context.n));
	CHECK(conversation_render(&s.c.conv, 0, &after, &e) == 0);
	CHECK(before.n == after.n && !memcmp(before.id, after.id, before.n * sizeof *before.id));
	CHECK(strstr(str_text(&s.resumed), " 0 recomputed"));
	/* A turn that was undone in an earlier run is redone with its context. */
	do_line(&s, "/undo");
	close_scene(&s);
	open_scene(&s, "-n 4 -s towers -c 4000");
	do_line(&s, "/redo");
	CHECK_INT(s.c.conv.n_msg, 2);
	CHECK(s.c.conv.msg[0].context.n == context.n && !memcmp(s.c.conv.msg[0].context.p, context.p, context.n));
	close_scene(&s);
	tokens_free(&before);
	tokens_free(&after);
	str_free(&context);
}

/* Set *out to the lines of the last answer's sources, as a resumed session shows them. */
static void lines_of(const struct scene *s, struct str *out)
{
	str_clear(out);
	if (conversation_answer(&s->c.conv))
		chat_source_lines(&s->c, conversation_answer(&s->c.conv), out);
	str_adds(out, "");
}

static void reopen(struct scene *s, const char *words)
{
	close_scene(s);
	open_scene(s, words);
	s->c.o.quiet = 0;
	search_of(&s->c.conv)->rerank.tokens = -1;
}

TEST(a_resumed_answer_is_regenerated_with_its_sources)
{
	static const char words[] = "-n 8 -s again -c 4000 --docs passages --passages 2 --kv full";
	struct str before = { 0 }, now = { 0 };
	struct scene s;

	open_towers(&s, words);
	do_line(&s, "Which brothers have built Tower93?");
	do_line(&s, "What was built of basalt by the brothers?");
	answer_found_lines(&conversation_answer(&s.c.conv)->sources, &before);
	reopen(&s, "-s again -c 4000");
	do_line(&s, "/regen");
	CHECK_INT(s.c.conv.n_msg, 4);
	CHECK_MSG(!s.errors.n && has(&s.said, "[1] towers.txt, line "), "%s%s", str_text(&s.said), str_text(&s.errors));
	answer_found_lines(&conversation_answer(&s.c.conv)->sources, &now);
	CHECK_STR(now.p, before.p);
	close_scene(&s);
	str_free(&before);
	str_free(&now);
}

TEST(every_answer_keeps_its_sources)
{
	static const char words[] = "-n 8 -s kept -c 4000 --docs passages --passages 2 --kv full";
	struct str first = { 0 }, second = { 0 }, now = { 0 }, tail = { 0 };
	struct scene s;

	open_towers(&s, words);
	do_line(&s, "What was built of basalt by the brothers?");
	lines_of(&s, &first);
	CHECK_MSG(strstr(first.p, "[1] towers.txt, line ") && strstr(first.p, "\n[3] towers.txt, line ") &&
	                  strstr(first.p, " (not sent to the model): "),
	          "%s", first.p);
	do_line(&s, "Which brothers have built Tower93?");
	lines_of(&s, &second);
	CHECK_MSG(strstr(second.p, "[1] towers.txt, line 187: \"Tower93"), "%s", second.p);
	/* After the session is resumed, all answers have their sources with the same shares. */
	reopen(&s, "-s kept -c 4000");
	lines_of(&s, &now);
	CHECK_STR(now.p, second.p);
	chat_tail(&s.c, &tail);
	CHECK_MSG(has(&tail, first.p) && has(&tail, second.p), "%s", tail.p);
	do_line(&s, "/source");
	CHECK(has(&s.said, "brothers of the badger93. It looks over"));
	/* Undo shows the sources of the previous answer, redo those of the last one; both also work for turns of an
	 * earlier run. */
	do_line(&s, "/undo");
	lines_of(&s, &now);
	CHECK_STR(now.p, first.p);
	do_line(&s, "/source 3");
	CHECK(has(&s.said, "[3] towers.txt") && has(&s.said, " (not sent to the model)\n"));
	reopen(&s, "-s kept -c 4000");
	lines_of(&s, &now);
	CHECK_STR(now.p, first.p);
	do_line(&s, "/redo");
	lines_of(&s, &now);
	CHECK_STR(now.p, second.p);
	/* Each variant has its own sources; a fork has those of its branch. */
	do_line(&s, "/edit Which brothers have built Tower17?");
	lines_of(&s, &now);
	CHECK_MSG(strstr(now.p, "Tower17") && !strstr(now.p, "Tower93"), "%s", now.p);
	do_line(&s, "/variant 1");
	lines_of(&s, &now);
	CHECK_STR(now.p, second.p);
	do_line(&s, "/fork other");
	reopen(&s, "-s other -c 4000");
	lines_of(&s, &now);
	CHECK_STR(now.p, second.p);
	/* After the document is dropped, the lines stay, and /source reports that the document is missing. After /redo
	 * the source can be opened again. */
	do_line(&s, "/drop 1");
	lines_of(&s, &now);
	CHECK_STR(now.p, second.p);
	do_line(&s, "/source");
	CHECK(has(&s.errors, "source [1]: 'towers.txt' is not among the documents any more"));
	do_line(&s, "/redo");
	do_line(&s, "/source");
	CHECK(has(&s.said, "brothers of the badger93. It looks over") && !s.errors.n);
	/* With sources switched off, those of an earlier run are not shown either. */
	do_line(&s, "/set sources off");
	lines_of(&s, &now);
	CHECK_STR(now.p, "");
	close_scene(&s);
	str_free(&first);
	str_free(&second);
	str_free(&now);
	str_free(&tail);
}

/* Damaged or foreign JSON beside an answer gives no sources. A list that is too long is cut. */
TEST(stored_sources_are_read_with_care)
{
	static const char *const none[] = {
		"",
		"{}",
		"[",
		"{\"sources\":",
		"{\"sources\":[",
		"{\"sources\":{}}",
		"{\"sources\":[1,\"x\",null,[]]}",
		"{\"sources\":[{\"doc\":1e999,\"text\":[]}]}",
		"{\"sources\":[{\"doc\":\"a\"}]}",
	};
	struct str many = { 0 }, out = { 0 };
	struct answer_sources list;
	struct conversation t = { .n_msg = 0 };

	for (size_t i = 0; i < LEN(none); i++) {
		answer_sources_read(jv_get(jv_parse(none[i], strlen(none[i])), "sources"), &list);
		CHECK_INT(list.n, 0);
		answer_sources_free(&list);
	}
	str_adds(&many, "[");
	for (int i = 0; i < 1000; i++)
		str_addf(
			&many,
			"%s{\"doc\":\"a\",\"text\":\"x\",\"bytes\":[-1,1e300],\"quote\":[9,4],\"share\":\"no\",\"sent\":true,\"page\":7,\"recognised\":true}",
			i ? "," : "");
	str_adds(&many, "]");
	answer_sources_read(jv_parse(many.p, many.n), &list);
	CHECK_INT(list.n, ANSWER_SOURCES_MOST);
	CHECK(list.at[0].share < 0 && list.at[0].sent && !list.at[0].found);
	CHECK_STR(list.at[0].page, "7");
	CHECK(answer_source_document(&t, &list.at[0]) == SIZE_MAX);
	answer_sources_json(&list, &out);
	CHECK(json_valid(out.p + strlen("\"sources\":"), out.n - strlen("\"sources\":")));
	str_clear(&out);
	answer_source_place(&list.at[0], &out);
	CHECK_STR(out.p, "a, page 7 (recognised)");
	answer_sources_free(&list);
	str_free(&many);
	str_free(&out);
}

TEST(changing_docs_decides_anew_what_is_read_whole)
{
	struct scene s;

	open_scene(&s, "-n 4 --private --kv full -c 512");
	do_line(&s, "/read tests/screens/note.txt");
	CHECK_INT(s.c.conv.n_doc, 1);
	CHECK_INT(s.c.conv.doc[0].whole, 1);
	do_line(&s, "/set docs passages");
	CHECK(!s.errors.n);
	CHECK_INT(s.c.conv.doc[0].whole, 0);
	do_line(&s, "/set docs auto");
	CHECK_INT(s.c.conv.doc[0].whole, 1);
	close_scene(&s);
}

TEST(a_document_that_must_be_whole_is_refused_with_the_way_out)
{
	struct scene s;
	char path[128], line[160];

	open_scene(&s, "-n 4 --private --kv full -c 512 --docs whole");
	write_towers(path, sizeof path);
	snprintf(line, sizeof line, "/read %s", path);
	do_line(&s, line);
	CHECK_INT(s.c.conv.n_doc, 0);
	CHECK(has(&s.errors, "--docs auto searches it"));
	close_scene(&s);
}
