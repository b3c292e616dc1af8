/* tests/sessions/t_store_facts.c - chat.db: facts to remember in all conversations. */
#include "tests/lib/storedir.h"

#include "engine/engine_chat.h"

static int show_fact(const struct fact *f, void *ud)
{
	str_addf(ud, "%lld %.*s (%s), ", (long long)f->id, (int)f->n_text, f->text, f->from);
	return 0;
}

static const char *facts(struct store *s)
{
	static struct str out;
	struct err e = { 0 };

	str_clear(&out);
	if (fact_list(s, show_fact, &out, &e))
		str_adds(&out, e.msg);
	return str_text(&out);
}

static int64_t fact(struct store *s, int64_t session, const char *text)
{
	int64_t id = 0;

	OK(fact_add(s, session, text, strlen(text), &id, e));
	return id;
}

TEST(facts_are_kept_with_the_session_they_come_from)
{
	struct place p;
	struct store *s = place_make(&p);
	int64_t named = begin(s, "garden"), titled = begin(s, NULL), id;
	char most[FACT_BYTES + 2];

	CHECK_STR(facts(s), "");
	say_message(s, titled, 0, ROLE_USER, "Which dogs are calm?");
	CHECK_INT(fact(s, named, "The soil is clay."), 1);
	CHECK_INT(fact(s, titled, "The dog is called Bosse."), 2);
	CHECK_INT(fact(s, 0, "It's \"mine\"."), 3);
	CHECK_STR(facts(s), "1 The soil is clay. (garden), 2 The dog is called Bosse. (Which dogs are calm?), 3 It's "
	                    "\"mine\". (), ");
	OK(session_rename(s, named, "roses", e));
	OK(session_delete(s, titled, e));
	CHECK(!on_disk(p.dir, "Which dogs"));
	OK(fact_change(s, 2, "The dog is Bo.", 14, e));
	place_reopen(&p, &s);
	CHECK_STR(facts(s), "1 The soil is clay. (roses), 2 The dog is Bo. (), 3 It's \"mine\". (), ");
	check_clean(s, __LINE__);
	/* A fact's number is never used again. */
	OK(fact_change(s, 3, NULL, 0, e));
	CHECK_INT(fact(s, 0, "last"), 4);
	memset(most, 'x', sizeof most);
	REFUSED(fact_add(s, 0, "", 0, &id, e), ERR_USAGE, "one line");
	REFUSED(fact_add(s, 0, "a\nb", 3, &id, e), ERR_USAGE, "one line");
	REFUSED(fact_add(s, 0, most, FACT_BYTES + 1, &id, e), ERR_FIT, "at most 500 bytes, this one 501");
	OK(fact_add(s, 0, most, FACT_BYTES, &id, e));
	REFUSED(fact_change(s, 3, NULL, 0, e), ERR_USAGE, "there is no fact 3");
	REFUSED(fact_change(s, 1, "a\nb", 3, e), ERR_USAGE, "one line");
	place_sql(&p, &s, "UPDATE fact SET text='The soil is sand.' WHERE id=1");
	CHECK(strstr(facts(s), "fact 1 in '"));
	CHECK(strstr(facts(s), "is damaged; /memory forget 1 removes it"));
	OK(fact_change(s, 1, NULL, 0, e));
	CHECK(!strncmp(facts(s), "2 The dog is Bo. (), 4 last (), ", 32));
	check_clean(s, __LINE__);
	place_remove(&p);
}

static int add_number(int64_t session, void *ud)
{
	str_addf(ud, "%lld ", (long long)session);
	return 0;
}

/* What was sent before a question quotes facts, and goes with them: on all branches and in all sessions. */
TEST(nothing_of_a_forgotten_fact_is_left)
{
	struct place p;
	struct store *s = place_make(&p);
	int64_t id[3] = { begin(s, "a"), begin(s, "b"), begin(s, "c") }, fork, x = 0;
	struct stored_message m = { .role = ROLE_USER, .text = "question", .n_text = 8, .complete = 1 };
	struct str sessions = { 0 };
	struct session row;

	for (int i = 0; i < 40; i++)
		fact(s, id[0], "a fact that stays");
	x = fact(s, id[0], "the \"canary\" sings in the mine");
	for (int i = 0; i < 90; i++) {
		m.stats = i % 3 == 2 ? "{\"context\":\"The user said: \\\"it stays\\\"\"}"
		          : i % 2    ? "{\"context\":\"The user said: \\\"the 'canary' sings in the mine\\\"\\n\\n\"}"
		                     : "{\"other\":1,\"context\":\"x \\\"the 'canary' sings in the mine\\\"\"}";
		OK(session_get(s, id[i % 3], &row, e));
		m.parent = i % 7 ? row.head : 0;
		OK(message_append(s, id[i % 3], &m, &row.head, e));
	}
	OK(session_fork(s, id[2], 0, "fork", &fork, e));
	CHECK(on_disk(p.dir, "canary"));
	OK(fact_sessions(s, x, add_number, &sessions, e));
	CHECK_STR(sessions.p, "1 2 4 ");
	OK(fact_change(s, x, NULL, 0, e));
	CHECK(!on_disk(p.dir, "canary") && on_disk(p.dir, "it stays") && on_disk(p.dir, "other"));
	check_clean(s, __LINE__);
	place_reopen(&p, &s);
	CHECK(!on_disk(p.dir, "canary"));
	/* So does one that gets another text. */
	x = fact(s, 0, "another canary");
	OK(fact_change(s, x, "a sparrow", 9, e));
	CHECK(!on_disk(p.dir, "canary") && on_disk(p.dir, "a sparrow"));
	str_free(&sessions);
	place_remove(&p);
}
