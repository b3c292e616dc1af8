/* tests/app/t_summarize.c - summaries of texts of any length: cutting, joining, stopping and resuming (app/summary),
 * and the command (app/chat). */
#include "app/chat/chat_private.h"
#include "tests/lib/scene.h"
#include "tests/lib/tiny.h"

/* ---- cutting ---- */

static struct summary_text plain(const char *text)
{
	return (struct summary_text){ .name = "a", .text = text, .n = strlen(text) };
}

TEST(a_section_ends_at_the_best_place)
{
	struct summary_text t = plain("One. Two three\nfour five.\n\nSix seven. Eight\nnine ten");
	struct summary_heading heads[] = { { .at = 5, .level = 3, .text = "Two" },
		                           { .at = 15, .level = 1, .text = "four" },
		                           { .at = 37, .level = 3, .text = "Eight" } };

	CHECK_INT(section_end(&t, 0, 2, 100), t.n);
	/* the end of a paragraph is preferred to later ends of sentences and lines */
	CHECK_INT(section_end(&t, 0, 2, 40), 27);
	CHECK_INT(section_end(&t, 0, 2, 20), 5);   /* the end of a sentence is preferred to that of a line */
	CHECK_INT(section_end(&t, 0, 6, 20), 15);  /* the end of a line is preferred to that of a word */
	CHECK_INT(section_end(&t, 0, 16, 23), 20); /* of equal breaks the last one */
	CHECK_INT(section_end(&t, 28, 1, 14), 38); /* least and most count from the beginning of the section */
	t.heading = heads;
	t.n_heading = 3;
	CHECK_INT(section_end(&t, 0, 2, 40), 15); /* the highest heading is preferred to any paragraph */
	CHECK_INT(section_end(&t, 0, 16, 40), 37);
	t.n_heading = 1;
	CHECK_INT(section_end(&t, 0, 2, 40), 5);
	t = plain("\xe4\xbd\xa0\xe5\xa5\xbd\xe3\x80\x82\xe4\xbd\xa0\xe5\xa5\xbd\xe5\x90\x97");
	CHECK_INT(section_end(&t, 0, 1, 16), 9); /* after a full stop without a blank */
	CHECK_INT(section_end(&t, 9, 1, 5), 12); /* never inside a character */
	t = plain("यह पहला है। यह दूसरा है");
	CHECK_INT(section_end(&t, 0, 1, 40), (int)strlen("यह पहला है। ")); /* ends of sentences in any script */
	t = plain("They met Mr. Bell there by night");
	CHECK_INT(section_end(&t, 0, 1, 20), 18); /* no end at an abbreviation */
	t = plain("\xff\xfe\x80\x80\x80\x80\x80\x80\x80\x80");
	CHECK_INT(section_end(&t, 2, 1, 3), 5); /* invalid UTF-8 is cut, too */
}

static void random_text(struct str *out, size_t n)
{
	static const char *const piece[] = { "a",        "bc ",          "def ",
		                             ". ",       "\n",           "\n\n",
		                             "\xc3\xa4", "\xe4\xb8\xad", "\xe3\x80\x82",
		                             "x. Y",     "   ",          "\xf0\x9f\x98\x80" };

	while (out->n < n)
		str_adds(out, piece[test_rand() % LEN(piece)]);
}

TEST(sections_are_the_text_in_order)
{
	struct engine *engine = tiny_open(&tiny_families[0], 1, TRAINED, 10000);

	for (int round = 0; round < 60; round++) {
		struct str a = { 0 }, b = { 0 };
		struct summary_heading head[8];
		struct section *s;
		struct err e = { 0 };
		size_t n, at[2] = { 0, 0 }, last = 0;
		int32_t most = 40 + (int32_t)(test_rand() % 200);

		random_text(&a, 1 + test_rand() % 5000);
		random_text(&b, 1 + test_rand() % 1000);
		for (size_t i = 0; i < 8; i++)
			head[i] = (struct summary_heading){ .at = i * a.n / 8,
				                            .level = 1 + (int)(test_rand() % 6),
				                            .text = "h" };
		struct summary_text t[2] = { { "a", a.p, a.n, head, 8 }, { "b", b.p, b.n, NULL, 0 } };
		CHECK_INT(sections_cut(engine, t, 2, most, &s, &n, &e), 0);
		for (size_t i = 0; i < n; i++) {
			struct tokens id = { 0 };

			CHECK(s[i].text >= last && s[i].text < 2 && s[i].from >= at[s[i].text] && s[i].to > s[i].from);
			/* Check that only blanks are between two sections. */
			for (size_t k = at[s[i].text]; k < s[i].from; k++)
				CHECK(strchr(" \n", t[s[i].text].text[k]));
			CHECK(s[i].to == t[s[i].text].n || ((unsigned char)t[s[i].text].text[s[i].to] & 0xc0) != 0x80);
			CHECK((s[i].heading != NULL) == (s[i].text == 0));
			CHECK_INT(engine_tokenize(engine, t[s[i].text].text + s[i].from, s[i].to - s[i].from, 0, &id,
			                          &e),
			          0);
			CHECK_MSG(id.n <= (size_t)most + 4, "%zu tokens, %d at most, %zu of %zu bytes", id.n, most,
			          s[i].to - s[i].from, t[s[i].text].n);
			tokens_free(&id);
			last = s[i].text;
			at[last] = s[i].to;
		}
		free(s);
		str_free(&a);
		str_free(&b);
	}
	engine_close(engine);
}

/* ---- joining, stopping, going on ---- */

struct keep {
	struct {
		char key[SUMMARY_KEY];
		struct str text;
	} p[400];
	size_t n, stop_at; /* stop_at: stop when this many results are stored */
	size_t calls, parts, joins;
};

static int keep_get(const char *key, struct str *out, void *ud)
{
	struct keep *k = ud;

	for (size_t i = 0; i < k->n; i++)
		if (!strcmp(k->p[i].key, key)) {
			str_add(out, str_text(&k->p[i].text), k->p[i].text.n);
			return 1;
		}
	return 0;
}

static void keep_put(const char *key, const char *text, size_t n, void *ud)
{
	struct keep *k = ud;
	struct str known = { 0 };

	CHECK(k->n < 400 && !keep_get(key, &known, ud));
	snprintf(k->p[k->n].key, SUMMARY_KEY, "%s", key);
	str_clear(&k->p[k->n].text);
	str_add(&k->p[k->n++].text, text, n);
	str_free(&known);
}

static int keep_progress(const struct summary_progress *p, void *ud)
{
	struct keep *k = ud;

	k->calls++;
	CHECK(p->part >= 1 && p->part <= p->parts);
	if (!p->joining)
		k->parts = p->parts;
	else if (p->part == 1 && p->parts > k->joins)
		k->joins = p->parts;
	return k->stop_at && k->n >= k->stop_at;
}

static void keep_free(struct keep *k)
{
	for (size_t i = 0; i < LEN(k->p); i++)
		str_free(&k->p[i].text);
}

static void story(struct str *out, size_t bytes)
{
	static const char *const word[] = { "water", "wheel", "miller", "stone", "river", "grain", "carried", "found" };

	for (size_t i = 0; out->n < bytes; i++)
		str_addf(out, "%s%s", word[test_rand() % 8], i % 60 == 59 ? ".\n\n" : i % 9 == 8 ? ". " : " ");
}

static int run(struct engine *engine, const struct options *o, const struct str *text, int32_t words, struct keep *k,
               struct summary *s, struct err *e)
{
	struct summary_hooks hooks = { .get = keep_get, .put = keep_put, .progress = keep_progress, .ud = k };
	struct summary_text t = { .name = "mill.txt", .text = text->p, .n = text->n };

	*e = (struct err){ 0 };
	return summarize(engine, o, &t, 1, words, &hooks, s, e);
}

/* The summary of a text much longer than the context can be stopped after any result. It then resumes there, and the
 * final summary is the same. */
TEST(what_was_stopped_goes_on)
{
	struct engine *engine = tiny_open(&tiny_families[0], 1, TRAINED, 10000);
	struct keep *all = xcalloc(1, sizeof *all), *part = xcalloc(1, sizeof *part);
	struct options o;
	struct str text = { 0 };
	struct summary s, again;
	struct err e;

	options_default(&o);
	story(&text, 6000);
	CHECK_MSG(run(engine, &o, &text, 20, all, &s, &e) == 0, "%s", e.msg);
	CHECK(s.sections >= 6 && all->parts == s.sections && s.done == s.sections);
	CHECK(all->joins >= 1);
	CHECK_INT(s.made, all->n);
	CHECK(s.made > s.sections);
	CHECK(s.text.n > 0 && s.text.n < 2000);
	CHECK_MSG(run(engine, &o, &text, 20, all, &again, &e) == 0, "%s", e.msg);
	CHECK_INT(again.made, 0);
	CHECK_STR(again.text.p, s.text.p);
	summary_free(&again);
	for (size_t at = 1; at < s.made; at += 4) {
		part->n = 0;
		part->stop_at = at;
		CHECK_INT(run(engine, &o, &text, 20, part, &again, &e), -1);
		CHECK_INT(e.code, ERR_CANCELLED);
		CHECK_INT(part->n, at);
		CHECK_INT(again.done, MIN(at, s.sections));
		summary_free(&again);
		part->stop_at = 0;
		CHECK_MSG(run(engine, &o, &text, 20, part, &again, &e) == 0, "%s", e.msg);
		CHECK_INT(again.made, s.made - at);
		CHECK_STR(again.text.p, s.text.p);
		summary_free(&again);
	}
	/* With another length or temperature, stored results are not reused. */
	CHECK_MSG(run(engine, &o, &text, 30, all, &again, &e) == 0, "%s", e.msg);
	CHECK(again.made > 0);
	summary_free(&again);
	o.sampling.temperature = 0.9f;
	o.sampling_set = 1u << SAMPLING_TEMP;
	CHECK_MSG(run(engine, &o, &text, 20, all, &again, &e) == 0, "%s", e.msg);
	CHECK(again.made > s.sections);
	summary_free(&again);
	summary_free(&s);
	keep_free(all);
	keep_free(part);
	free(all);
	free(part);
	str_free(&text);
	engine_close(engine);
}

/* If a text has grown at its end, the summaries of its first sections are reused. */
TEST(a_text_that_grew_costs_its_end)
{
	struct engine *engine = tiny_open(&tiny_families[0], 1, TRAINED, 10000);
	struct keep *k = xcalloc(1, sizeof *k);
	struct options o;
	struct str text = { 0 };
	struct summary s;
	struct err e;
	size_t made;

	options_default(&o);
	story(&text, 8000);
	CHECK_MSG(run(engine, &o, &text, 20, k, &s, &e) == 0, "%s", e.msg);
	made = s.made;
	summary_free(&s);
	story(&text, 9500);
	CHECK_MSG(run(engine, &o, &text, 20, k, &s, &e) == 0, "%s", e.msg);
	CHECK_MSG(s.made < made - 3, "%zu of %zu", s.made, made);
	summary_free(&s);
	keep_free(k);
	free(k);
	str_free(&text);
	engine_close(engine);
}

TEST(short_and_empty_texts)
{
	struct engine *engine = tiny_open(&tiny_families[0], 1, TRAINED, 10000);
	struct keep *k = xcalloc(1, sizeof *k);
	struct options o;
	struct str text = { 0 };
	struct summary s;
	struct err e;

	options_default(&o);
	str_adds(&text, "A word.");
	CHECK_MSG(run(engine, &o, &text, 20, k, &s, &e) == 0, "%s", e.msg);
	CHECK_INT(s.made, 1);
	CHECK_INT(s.sections, 1);
	summary_free(&s);
	str_clear(&text);
	str_adds(&text, " \n\n ");
	CHECK_INT(run(engine, &o, &text, 20, k, &s, &e), -1);
	CHECK_INT(e.code, ERR_DOCUMENT);
	summary_free(&s);
	keep_free(k);
	free(k);
	str_free(&text);
	engine_close(engine);
}

/* Sections that the model returned nothing for are named, and the rest is summarized without them. */
TEST(what_has_no_summary_is_said)
{
	struct engine *engine = tiny_open(&tiny_families[0], 1, TRAINED, 10000);
	struct keep *k = xcalloc(1, sizeof *k);
	struct options o;
	struct str text = { 0 };
	struct summary s;
	struct err e;
	size_t sections;

	options_default(&o);
	story(&text, 4000);
	CHECK_MSG(run(engine, &o, &text, 20, k, &s, &e) == 0, "%s", e.msg);
	CHECK_INT(s.empty.n, 0);
	sections = s.sections;
	CHECK(sections >= 4);
	summary_free(&s);
	str_clear(&k->p[1].text);
	str_clear(&k->p[3].text);
	CHECK_MSG(run(engine, &o, &text, 20, k, &s, &e) == 0, "%s", e.msg);
	CHECK_STR(s.empty.p, "2, 4");
	summary_free(&s);
	for (size_t i = 0; i < sections; i++)
		str_clear(&k->p[i].text);
	CHECK_INT(run(engine, &o, &text, 20, k, &s, &e), -1);
	CHECK(strstr(e.msg, "returned nothing") != NULL);
	summary_free(&s);
	keep_free(k);
	free(k);
	str_free(&text);
	engine_close(engine);
}

TEST(an_answer_does_not_repeat_its_instruction)
{
	static const char *const ask = "Summarize this part in about 60 words.";
	struct str s = { 0 };

	str_adds(&s, "A mill.\n\nSummarize this part in about 60 words. A mill.");
	summary_without(&s, ask);
	CHECK_STR(s.p, "A mill.");
	str_clear(&s);
	str_adds(&s, "Summarize this part in about 60 words.\nA mill.");
	summary_without(&s, ask);
	CHECK_STR(s.p, "A mill.");
	CHECK_INT(s.n, 7);
	summary_without(&s, ask);
	CHECK_STR(s.p, "A mill.");
	str_clear(&s);
	summary_without(&s, ask);
	CHECK_INT(s.n, 0);
	str_free(&s);
}

/* ---- the command ---- */

static void open_told(struct scene *s, const char *words)
{
	open_scene(s, words);
	s->c.o.quiet = 0;
}

static void add_document(struct scene *s, const char *name, size_t bytes)
{
	struct str text = { 0 };
	struct err e = { 0 };

	story(&text, bytes);
	CHECK_MSG(chat_document_bytes(&s->c, name, text.p, text.n, &e) == 0, "%s", e.msg);
	str_free(&text);
}

/* Answers are sampled at random here: a summary between two questions must not change the state of the random generator
 * either. */
TEST(a_conversation_does_not_feel_a_summary)
{
	struct scene with, without;

	open_told(&without, "--private -n 8 -c 5000 --kv full --temp 0.9 --seed 7");
	open_told(&with, "--private -n 8 -c 5000 --kv full --temp 0.9 --seed 7");
	for (int i = 0; i < 3; i++) {
		size_t n_a, n_b;
		const int32_t *a, *b;
		const struct message *x, *y;

		if (!i) {
			struct str text = { 0 };
			struct err e = { 0 };

			story(&text, 1000);
			chat_document_bytes(&with.c, "mill.txt", text.p, text.n, &e);
			chat_document_bytes(&without.c, "mill.txt", text.p, text.n, &e);
			CHECK_MSG(!e.code, "%s", e.msg);
			str_free(&text);
		}
		if (i != 1) {
			do_line(&with, i ? "/summarize 30" : "/summarize 20");
			CHECK_MSG(with.shown.n > 0, "%s", str_text(&with.errors));
		}
		do_line(&with, "Who turns the wheel?");
		do_line(&without, "Who turns the wheel?");
		CHECK_INT(with.c.conv.n_msg, without.c.conv.n_msg);
		x = conversation_answer(&with.c.conv);
		y = conversation_answer(&without.c.conv);
		CHECK(x && y && x->id.n > 0 && x->id.n == y->id.n &&
		      !memcmp(x->id.id, y->id.id, x->id.n * sizeof *x->id.id));
		a = timeline_tokens(with.c.conv.tl, &n_a);
		b = timeline_tokens(without.c.conv.tl, &n_b);
		CHECK(n_a == n_b && !memcmp(a, b, n_a * sizeof *a));
		CHECK_INT(with.c.conv.last.reused_tokens, without.c.conv.last.reused_tokens);
	}
	close_scene(&with);
	close_scene(&without);
}

TEST(a_session_keeps_its_summaries)
{
	struct scene s;
	struct str first = { 0 };
	size_t before;

	open_told(&s, "-s kept -n 8 -c 5000 --kv full");
	add_document(&s, "mill.txt", 2500);
	s.stop_at = "section 2 of";
	do_line(&s, "/summarize 25");
	CHECK(!s.shown.n);
	CHECK_MSG(has(&s.said, "1 of 3 sections are done"), "%s%s", str_text(&s.said), str_text(&s.errors));
	close_scene(&s);
	/* After a restart the stored summary of the first section is reused. */
	open_told(&s, "-s kept -n 8 -c 5000 --kv full");
	do_line(&s, "/summarize 25");
	CHECK_MSG(s.shown.n > 0, "%s%s", str_text(&s.errors), str_text(&s.said));
	CHECK(has(&s.said, "3 sections, in"));
	str_add(&first, s.shown.p, s.shown.n);
	CHECK_INT(s.c.conv.n_msg, 0);
	do_line(&s, "What turns?");
	close_scene(&s);
	open_told(&s, "-s kept -n 8 -c 5000 --kv full");
	do_line(&s, "/summarize mill.txt 25");
	CHECK(has(&s.said, "made before"));
	CHECK(s.shown.n && s.shown.n == first.n && !memcmp(s.shown.p, first.p, first.n));
	do_line(&s, "/summarise 1 25");
	CHECK(has(&s.said, "made before"));
	before = s.c.n_kept;
	CHECK_INT(before, 0);
	close_scene(&s);
	str_free(&first);
	cleanup();
}

TEST(without_a_session_they_are_kept_in_memory)
{
	struct scene s;

	open_told(&s, "--private -n 8 -c 5000 --kv full");
	add_document(&s, "mill.txt", 2500);
	s.stop_at = "section 3 of";
	do_line(&s, "/summarize");
	CHECK(has(&s.said, "2 of 3 sections are done; the same command goes on there"));
	CHECK_INT(s.c.n_kept, 2);
	s.stop_at = NULL;
	do_line(&s, "/summarize");
	CHECK_MSG(s.shown.n > 0, "%s%s", str_text(&s.errors), str_text(&s.said));
	do_line(&s, "/summarize");
	CHECK(has(&s.said, "made before"));
	close_scene(&s);
	cleanup();
}

TEST(what_the_command_takes)
{
	struct scene s;

	open_told(&s, "--private -n 8 -c 5000 --kv full");
	do_line(&s, "/summarize");
	CHECK(has(&s.errors, "there is no document to summarize; /open FILE adds one"));
	add_document(&s, "mill.txt", 300);
	add_document(&s, "two words.txt", 300);
	do_line(&s, "/summarize 20");
	CHECK(has(&s.said, "summary of 2 documents, 2 sections"));
	do_line(&s, "/summarize two words.txt 20");
	CHECK(has(&s.said, "summary of 'two words.txt', 1 section"));
	do_line(&s, "/summarize 2 20");
	CHECK(has(&s.said, "summary of 'two words.txt', made before"));
	do_line(&s, "/summarize 7");
	CHECK(has(&s.errors, "a summary has 20 to 1000 words, not 7"));
	do_line(&s, "/summarize mill.txt 5000");
	CHECK(has(&s.errors, "a summary has 20 to 1000 words, not 5000"));
	do_line(&s, "/summarize none.txt 50");
	CHECK(has(&s.errors, "there is no document 'none.txt'"));
	do_line(&s, "/summarize none.txt");
	CHECK(has(&s.errors, "there is no document 'none.txt'"));
	CHECK_INT(s.c.conv.n_msg, 0);
	close_scene(&s);
	cleanup();
}

TEST(it_is_offered_where_a_question_asks_for_all)
{
	struct scene s;

	open_told(&s, "--private -n 8 -c 5000 --kv full");
	do_line(&s, "Summarize this.");
	CHECK(!has(&s.said, "/summarize reads all of it"));
	add_document(&s, "mill.txt", 300);
	do_line(&s, "Summarize this.");
	CHECK(has(&s.said, "[/summarize reads all of it]"));
	CHECK(!has(&s.said, "summary of"));
	CHECK_INT(s.c.n_kept, 0);
	do_line(&s, "Who is the miller?");
	CHECK(!has(&s.said, "/summarize"));
	close_scene(&s);
	cleanup();
}

/* If documents are searched, a request for a summary starts /summarize, because no passage answers it. */
TEST(a_request_starts_it_where_documents_are_searched)
{
	struct scene s;

	open_told(&s, "--private -n 8 -c 5000 --kv full --docs passages");
	add_document(&s, "mill.txt", 2500);
	do_line(&s, "Please summarise this document in 25 words.");
	CHECK(has(&s.said, "[summary of 'mill.txt', 3 sections"));
	CHECK(s.shown.n > 0);
	CHECK_INT(s.c.conv.n_msg, 0);
	do_line(&s, "/summarize 25");
	CHECK(has(&s.said, "summary of 'mill.txt', made before"));
	add_document(&s, "river.txt", 600);
	do_line(&s, "Summarize river.txt");
	CHECK(has(&s.said, "[summary of 'river.txt', 1 section"));
	do_line(&s, "tl;dr");
	CHECK(has(&s.said, "[summary of 2 documents"));
	/* A question that only mentions a summary is answered as a question. */
	do_line(&s, "What does the summary of the miller say?");
	CHECK(!has(&s.said, "[summary of"));
	close_scene(&s);
	cleanup();
}
