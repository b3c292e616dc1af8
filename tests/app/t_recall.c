/* tests/app/t_recall.c - evicted turns that a question asks about (app/retrieval/recall.c), in a conversation with the
 * default model. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/chat/chat.h"
#include "app/retrieval/retrieval.h"
#include "tests/lib/test.h"

enum { WORDS_MOST = 24, FILLERS = 7 };

/* ---- a conversation ---- */

struct scene {
	struct options o;
	struct chat c;
	struct str said;
	char *args[WORDS_MOST];
	int n_arg;
};

static void on_notice(struct chat *c, const char *text, size_t n)
{
	struct scene *s = c->ud;

	str_add(&s->said, text, n);
	str_adds(&s->said, "\n");
}

static void on_error(struct chat *c, const struct err *e)
{
	(void)c;
	test_fail(__FILE__, __LINE__, "%s", e->msg);
}

static void on_progress(struct chat *c, const char *verb, int32_t done, int32_t total)
{
	(void)c, (void)verb, (void)done, (void)total;
}

static void on_turn(struct chat *c, const char *question, size_t n)
{
	(void)c, (void)question, (void)n;
}

static int on_text(struct chat *c, const char *bytes, size_t n, struct err *e)
{
	(void)c, (void)bytes, (void)n, (void)e;
	return 0;
}

static int on_turned(struct chat *c, const struct turn *turn, int rc, struct err *e)
{
	(void)c, (void)turn, (void)e;
	return rc;
}

static void on_came_back(struct chat *c)
{
	(void)c;
}

static const struct front front = {
	.notice = on_notice,
	.error = on_error,
	.progress = on_progress,
	.turn = on_turn,
	.text = on_text,
	.turned = on_turned,
	.came_back = on_came_back,
};

static void open_scene(struct scene *s, const char *words)
{
	static char home[64];
	struct str note = { 0 };
	struct err e = { 0 };
	char *copy = xstrndup(words, strlen(words)), *save = NULL;

	memset(s, 0, sizeof *s);
	if (!home[0]) {
		snprintf(home, sizeof home, "/tmp/weir-recall-XXXXXX");
		if (!mkdtemp(home))
			SKIP("no directory can be made");
		setenv("XDG_CONFIG_HOME", home, 1);
		setenv("XDG_STATE_HOME", home, 1);
		setenv("XDG_DATA_HOME", home, 1);
	}
	s->args[s->n_arg++] = (char *)"weir";
	s->args[s->n_arg++] = (char *)"-m";
	s->args[s->n_arg++] = (char *)test_model();
	for (char *w = strtok_r(copy, " ", &save); w && s->n_arg < WORDS_MOST - 1; w = strtok_r(NULL, " ", &save))
		s->args[s->n_arg++] = w;
	s->args[WORDS_MOST - 1] = copy;
	if (options_parse(&s->o, s->n_arg, s->args, &e) < 0)
		test_fail(__FILE__, __LINE__, "%s", e.msg);
	s->c.front = &front;
	s->c.ud = s;
	if (chat_open(&s->c, &s->o, &note, &e) < 0)
		test_fail(__FILE__, __LINE__, "%s", e.msg);
	s->c.interactive = 1;
	str_free(&note);
}

static void close_scene(struct scene *s)
{
	chat_close(&s->c, &s->o);
	str_free(&s->said);
	free(s->args[WORDS_MOST - 1]);
	options_free(&s->o);
}

static void tell(struct scene *s, const char *text)
{
	struct str line = { 0 };

	str_clear(&s->said);
	str_adds(&line, text);
	chat_take(&s->c, &line);
	str_free(&line);
}

/* Add paragraphs about other subjects until the cache has evicted the earlier turns. */
static void fill(struct scene *s)
{
	static const char *const about[] = {
		"granite", "moss",   "glaciers",  "copper", "lighthouses",
		"salt",    "canals", "windmills", "paper",  "bridges",
	};

	for (int i = 0; i < FILLERS; i++) {
		struct str text = { 0 };

		str_addf(
			&text,
			"Here is a note about %s. In many regions of the north %s can be seen all the year round, and travellers have described "
			"it for centuries. Early writers compared %s with other things that they knew, often without measuring anything. Later studies "
			"counted and weighed it, and museums show examples number %d to %d of it today.",
			about[i], about[i], about[i], i, i + 40);
		tell(s, text.p);
		str_free(&text);
	}
}

static const struct message *last_question(const struct scene *s)
{
	return &s->c.conv.msg[s->c.conv.n_msg - 2];
}

static int recalls(const struct scene *s, size_t turn, const char *words)
{
	const struct conversation *conv = &s->c.conv;
	const struct recalls *list = recalls_of(conv);

	for (size_t i = 0; i < list->n; i++)
		if (list->at[i].turn == turn && list->at[i].said.n && strstr(list->at[i].said.p, words))
			return last_question(s)->context.n && strstr(last_question(s)->context.p, words) != NULL;
	return 0;
}

static void tell_facts(struct scene *s)
{
	tell(s, "My sister Henrietta works as a plumber in Lisbon.");
	tell(s, "The code of my bicycle lock is 4711, in case I forget it.");
	tell(s, "I keep the spare key of the garage under the yellow flowerpot.");
	CHECK(!recalls_of(&s->c.conv)->n && !last_question(s)->context.n); /* nothing is evicted yet */
	fill(s);
}

#define SMALL "-c 512 --kv sink:size=256,stride=64 -n 3 --temp 0 --threads 1 "

/* ---- tests ---- */

TEST(evicted_turns_come_back_and_others_do_not)
{
	struct scene s;
	struct timeline_stats st;

	open_scene(&s, SMALL "--private");
	tell_facts(&s);
	timeline_stats(s.c.conv.tl, &st);
	CHECK(st.rings.evicted > 200);
	tell(&s, "What was the code of my bicycle lock?");
	CHECK(recalls(&s, 2, "4711"));
	CHECK(s.said.n && strstr(s.said.p, "[recalled from turn 2: \"The code of my bicycle lock is 4711"));
	CHECK(!strncmp(last_question(&s)->context.p, "Earlier in this conversation (turn 2) the user said: \"", 54));
	/* The quotation is only in the question's context, not in its text. */
	CHECK(!strcmp(last_question(&s)->text.p, "What was the code of my bicycle lock?"));
	tell(&s, "Why?");
	CHECK(!recalls_of(&s.c.conv)->n && !last_question(&s)->context.n);
	tell(&s, "Can you explain that in simpler words?");
	CHECK(!recalls_of(&s.c.conv)->n);
	tell(&s, "What is the capital of Australia?");
	CHECK(!recalls_of(&s.c.conv)->n);
	tell(&s, "/set recall off");
	tell(&s, "What does my sister Henrietta do in Lisbon?");
	CHECK(!recalls_of(&s.c.conv)->n && !last_question(&s)->context.n);
	tell(&s, "/undo");
	tell(&s, "/set recall on");
	tell(&s, "What does my sister Henrietta do in Lisbon?");
	CHECK(recalls(&s, 1, "plumber"));
	/* A new conversation does not find the turns of the previous one. */
	tell(&s, "/new");
	fill(&s);
	tell(&s, "What does my sister Henrietta do in Lisbon?");
	CHECK(!recalls_of(&s.c.conv)->n);
	close_scene(&s);
}

TEST(a_resumed_session_has_what_was_sent_and_recalls_on)
{
	struct scene s;
	struct tokens before = { 0 }, after = { 0 };
	struct str context = { 0 };
	struct err e = { 0 };

	open_scene(&s, SMALL "-s remembers");
	tell_facts(&s);
	tell(&s, "What was the code of my bicycle lock?");
	CHECK(recalls(&s, 2, "4711"));
	str_add(&context, last_question(&s)->context.p, last_question(&s)->context.n);
	CHECK(conversation_render(&s.c.conv, 0, &before, &e) == 0);
	close_scene(&s);

	open_scene(&s, SMALL "-s remembers");
	CHECK(last_question(&s)->context.n == context.n && !memcmp(last_question(&s)->context.p, context.p, context.n));
	CHECK(conversation_render(&s.c.conv, 0, &after, &e) == 0);
	CHECK(before.n == after.n && !memcmp(before.id, after.id, before.n * sizeof *before.id));
	tell(&s, "Where did I put the spare key of the garage?");
	/* A slow build may judge none of the sentences within the seconds that rerank.c allows. */
	if (test_patience() == 1)
		CHECK(recalls(&s, 3, "flowerpot"));
	close_scene(&s);
	tokens_free(&before);
	tokens_free(&after);
	str_free(&context);
}

TEST(a_session_keeps_that_recall_is_off)
{
	struct scene s;

	open_scene(&s, SMALL "-s forgets --recall off");
	tell(&s, "Good morning!");
	close_scene(&s);
	open_scene(&s, SMALL "-s forgets");
	CHECK(!strcmp(s.c.o.recall, "off"));
	close_scene(&s);
}
