/* tests/sessions/t_store.c - chat.db: sessions, the tree of messages, forks, deleting, documents, search, export.
 *
 * Directory, rights, locks and formats are in t_store_files.c; kill -9, failing disks and flipped bits in
 * t_store_harm.c. */
#include "tests/lib/json.h"
#include "tests/lib/storedir.h"

/* ---- sessions ---- */

TEST(sessions_are_made_named_and_listed)
{
	struct place p;
	struct store *s = place_make(&p);
	struct session row;
	struct str list = { 0 };
	int64_t a, b, c, last = 0;
	struct err err = { 0 };

	CHECK_INT(session_last(s, &last, &err), 0);
	a = begin(s, NULL);
	b = begin(s, "second");
	c = begin(s, "");
	CHECK(a > 0 && b > a && c > b);
	OK(session_get(s, a, &row, e));
	CHECK_STR(row.name, "");
	CHECK_STR(row.title, "");
	CHECK_STR(row.model, "");
	CHECK_STR(row.kv, "");
	CHECK_INT(row.head, 0);
	CHECK_INT(row.messages, 0);
	CHECK_INT(row.parent, 0);
	CHECK(row.created > 1600000000 && row.used >= row.created);
	OK(session_list(s, add_id, &list, e));
	CHECK_STR(list.p, "3 2 1 ");
	/* Of sessions used within the same second, the order of use is kept. */
	OK(session_touch(s, a, "model.gguf", "auto", 17, e));
	OK(session_touch(s, c, NULL, NULL, 0, e));
	OK(session_touch(s, b, "other.gguf", NULL, 5, e));
	str_clear(&list);
	OK(session_list(s, add_id, &list, e));
	CHECK_STR(list.p, "2 3 1 ");
	CHECK_INT(session_last(s, &last, &err), 1);
	CHECK_INT(last, b);
	OK(session_get(s, a, &row, e));
	CHECK_STR(row.model, "model.gguf");
	CHECK_STR(row.kv, "auto");
	CHECK_INT(row.tokens, 17);
	OK(session_touch(s, a, NULL, "full", 18, e));
	OK(session_get(s, a, &row, e));
	CHECK_STR(row.model, "model.gguf");
	CHECK_STR(row.kv, "full");
	OK(session_rename(s, a, "first", e));
	OK(session_rename(s, a, "first", e));
	OK(session_get(s, a, &row, e));
	CHECK_STR(row.name, "first");
	REFUSED(session_rename(s, b, "first", e), ERR_USAGE, "(1) is called 'first' already");
	REFUSED(session_new(s, "second", &last, e), ERR_USAGE, "called 'second' already");
	REFUSED(session_rename(s, 99, "x", e), ERR_USAGE, "there is no session 99");
	REFUSED(session_get(s, 99, &row, e), ERR_USAGE, "there is no session 99");
	REFUSED(session_touch(s, -1, "m", "k", 1, e), ERR_USAGE, "there is no session -1");
	/* A session's number is never used again, because snapshots refer to it. */
	OK(session_delete(s, c, e));
	CHECK_INT(begin(s, NULL), c + 1);
	check_clean(s, __LINE__);
	str_free(&list);
	place_remove(&p);
}

TEST(hostile_names_are_refused)
{
	/* clang-format off */
	static const char *const bad[] = {
		"", " ", " a", "a ", "\ta", "a\tb", "a\nb", "123", "0", "a\x1b[31m", "\x7f", "a\xff", "\xc3", "\xe2\x80\xae" "abc",
		"a\xe2\x80\x8b" "b", "\xc2\xa0x", "x\xe3\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "a\xc2\x9b", "\xef\xbb\xbfx",
		"123456789012345678901234567890123456789012345678901234567890123456789012345678901",
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
	};
	/* clang-format on */
	/* clang-format off */
	static const char *const good[] = {
		"a", "-", "12a", "a b", "'; DROP TABLE session; --", "%s%n", "\"", "\\", "../../etc/passwd", "\xc3\xa4",
		"\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e", "\xf0\x9f\x8c\x8a", "*", "?", "1.5",
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
	};
	/* clang-format on */
	struct place p;
	struct store *s = place_make(&p);
	int64_t id = begin(s, "it"), found;
	struct session row;

	for (size_t i = 0; i < LEN(bad); i++) {
		struct err e = { 0 };
		int64_t ignored;
		CHECK_MSG(session_rename(s, id, bad[i], &e) == -1 && e.code == ERR_USAGE, "name %zu was taken", i);
		CHECK_MSG(!bad[i][0] || session_new(s, bad[i], &ignored, &e) == -1, "name %zu was taken for a new one",
		          i);
		for (const char *c = e.msg; *c; c++)
			CHECK_MSG((unsigned char)*c >= 0x20, "a control character in the message of name %zu", i);
	}
	REFUSED(session_rename(s, id, NULL, e), ERR_USAGE, "1 to 80 bytes");
	for (size_t i = 0; i < LEN(good); i++) {
		OK(session_rename(s, id, good[i], e));
		OK(session_get(s, id, &row, e));
		CHECK_STR(row.name, good[i]);
		found = 0;
		OK(session_find(s, good[i], &found, e));
		CHECK_INT(found, id);
	}
	check_clean(s, __LINE__);
	place_remove(&p);
}

static const char *title_of(struct store *s, const char *question)
{
	static struct session row;
	int64_t id = begin(s, NULL);

	say_message(s, id, 0, ROLE_SYSTEM, "You are a dam");
	say_message(s, id, 0, ROLE_USER, question);
	OK(session_get(s, id, &row, e));
	return row.title;
}

TEST(titles_come_from_the_first_question)
{
	struct place p;
	struct store *s = place_make(&p);
	char longest[4000];
	int64_t id, m;
	struct session row;

	CHECK_STR(title_of(s, "Why is the sky blue?"), "Why is the sky blue?");
	CHECK_STR(title_of(s, "  \n\t\r\n  second   line \t has it  \nthird"), "second line has it");
	CHECK_STR(title_of(s, ""), "");
	CHECK_STR(title_of(s, " \n \x01\x02"), "");
	CHECK_STR(title_of(s, "a\x1b[31mb\xe2\x80\xae"
	                      "c\xff"
	                      "d"),
	          "a[31mbcd");
	CHECK_STR(title_of(s, "caf\xc3\xa9\xe2\x80\xa8second"), "caf\xc3\xa9");
	CHECK_STR(title_of(s, "one two three four five six seven eight nine ten eleven twelve thirteen"),
	          "one two three four five six seven eight nine ten eleven\xe2\x80\xa6");
	/* A title of exactly 60 letters stays whole; one of 61 is cut. */
	CHECK_STR(title_of(s, "123456789 123456789 123456789 123456789 123456789 1234567890"),
	          "123456789 123456789 123456789 123456789 123456789 1234567890");
	CHECK_STR(title_of(s, "123456789 123456789 123456789 123456789 123456789 12345678901"),
	          "123456789 123456789 123456789 123456789 123456789\xe2\x80\xa6");
	memset(longest, 'x', sizeof longest - 1);
	longest[sizeof longest - 1] = 0;
	CHECK_INT(strlen(title_of(s, longest)), 63);
	/* A later question does not change the title. */
	id = begin(s, NULL);
	m = say_message(s, id, 0, ROLE_USER, "first");
	say_message(s, id, m, ROLE_USER, "second");
	OK(session_get(s, id, &row, e));
	CHECK_STR(row.title, "first");
	check_clean(s, __LINE__);
	place_remove(&p);
}

TEST(sessions_are_found_by_what_is_typed)
{
	struct place p;
	struct store *s = place_make(&p);
	int64_t river = begin(s, "river"), rain = begin(s, "Rainfall"), sky = begin(s, NULL), twin = begin(s, NULL);
	int64_t year = begin(s, NULL), id;

	say_message(s, sky, 0, ROLE_USER, "why is the sky blue");
	say_message(s, twin, 0, ROLE_USER, "hello");
	say_message(s, year, 0, ROLE_USER, "2"); /* a title that looks like the number of another session */
#define FOUND(what, want)                                                                                              \
	do {                                                                                                           \
		id = 0;                                                                                                \
		OK(session_find(s, what, &id, e));                                                                     \
		CHECK_INT(id, want);                                                                                   \
	} while (0)
	FOUND("river", river);
	FOUND("Rainfall", rain);
	FOUND("rai", rain);
	FOUND("why is the sky blue", sky);
	FOUND("why", sky);
	FOUND("WHY", sky);
	FOUND("3", sky);
	FOUND("0003", sky);
	FOUND("2", year);
	REFUSED(session_find(s, "", &id, e), ERR_USAGE, "no session was named");
	REFUSED(session_find(s, "r", &id, e), ERR_USAGE, "2 sessions begin with 'r'");
	REFUSED(session_find(s, "rivre", &id, e), ERR_USAGE, "is it 'river'?");
	REFUSED(session_find(s, "rainfal1", &id, e), ERR_USAGE, "is it 'Rainfall'?");
	REFUSED(session_find(s, "helo", &id, e), ERR_USAGE, "is it 'hello'?");
	REFUSED(session_find(s, "entirely else", &id, e), ERR_USAGE, "'weir sessions ls' lists them");
	REFUSED(session_find(s, "99", &id, e), ERR_USAGE, "there is no session '99'");
	REFUSED(session_find(s, "99999999999999999999999999", &id, e), ERR_USAGE, "there is no session");
	REFUSED(session_find(s, "-1", &id, e), ERR_USAGE, "there is no session");
	REFUSED(session_find(s, "%", &id, e), ERR_USAGE, "there is no session");
	REFUSED(session_find(s, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", &id,
	                     e),
	        ERR_USAGE, "there is no session");
	say_message(s, begin(s, NULL), 0, ROLE_USER, "hello");
	REFUSED(session_find(s, "hello", &id, e), ERR_USAGE, "2 sessions have the title 'hello'");
	OK(session_rename(s, twin, "hello", e)); /* the name of a session is preferred to the titles of others */
	FOUND("hello", twin);
	place_remove(&p);
}

/* ---- messages ---- */

static int copy_message(const struct stored_message *m, void *ud)
{
	struct stored_message *to = ud;
	static char text[100], stats[100];
	static int32_t token[16];

	*to = *m;
	memcpy(text, m->text, m->n_text < sizeof text ? m->n_text : 0);
	memcpy(token, m->token, m->n_token <= 16 ? m->n_token * 4 : 0);
	snprintf(stats, sizeof stats, "%s", m->stats);
	to->text = text;
	to->stats = stats;
	to->token = token;
	return 1;
}

TEST(messages_come_back_as_they_went)
{
	struct place p;
	struct store *s = place_make(&p);
	int64_t id = begin(s, NULL), m, last;
	int32_t token[5] = { 0, 1, 49151, INT32_MAX, 7 };
	struct stored_message in = { .role = ROLE_ASSISTANT,
		                     .text = "a\0b\xff\x01",
		                     .n_text = 5,
		                     .token = token,
		                     .n_token = 5,
		                     .stats = "{\"n\":5}",
		                     .at = 1234567890,
		                     .complete = 0 };
	struct stored_message out = { 0 }, bad;
	struct session row;

	OK(message_append(s, id, &in, &m, e));
	OK(message_path(s, m, copy_message, &out, e));
	CHECK_INT(out.id, m);
	CHECK_INT(out.parent, 0);
	CHECK_INT(out.role, ROLE_ASSISTANT);
	CHECK_INT(out.n_text, 5);
	CHECK(!memcmp(out.text, in.text, 5));
	CHECK_INT(out.n_token, 5);
	CHECK(!memcmp(out.token, token, sizeof token));
	CHECK_STR(out.stats, "{\"n\":5}");
	CHECK_INT(out.at, 1234567890);
	CHECK_INT(out.complete, 0);
	in.text = "grown";
	in.n_token = 3;
	in.stats = NULL;
	in.complete = 1;
	OK(message_update(s, m, &in, e));
	OK(message_path(s, m, copy_message, &out, e));
	CHECK(!memcmp(out.text, "grown", 5));
	CHECK_INT(out.n_token, 3);
	CHECK_STR(out.stats, "");
	CHECK_INT(out.complete, 1);
	CHECK_INT(out.at, 1234567890);
	OK(session_get(s, id, &row, e));
	CHECK_INT(row.head, m);
	CHECK_INT(row.messages, 1);
	/* An empty text is stored. Wrong values are refused. */
	last = say_message(s, id, m, ROLE_USER, "");
	CHECK_STR(shown(s, id), "grown ");
	bad = in;
	bad.role = 3;
	REFUSED(message_append(s, id, &bad, &m, e), ERR_USAGE, "role 3");
	bad.role = -1;
	REFUSED(message_append(s, id, &bad, &m, e), ERR_USAGE, "role -1");
	bad = in;
	bad.parent = 99;
	REFUSED(message_append(s, id, &bad, &m, e), ERR_USAGE, "there is no message 99 in session 1");
	bad.parent = -1;
	REFUSED(message_append(s, id, &bad, &m, e), ERR_USAGE, "there is no message -1");
	bad = in;
	bad.n_text = (size_t)1 << 40;
	REFUSED(message_append(s, id, &bad, &m, e), ERR_FIT, "longer than the limit");
	bad = in;
	bad.n_token = SIZE_MAX / 2;
	REFUSED(message_append(s, id, &bad, &m, e), ERR_FIT, "longer than the limit");
	REFUSED(message_append(s, 99, &in, &m, e), ERR_USAGE, "there is no session 99");
	REFUSED(message_update(s, 99, &in, e), ERR_USAGE, "there is no message 99");
	REFUSED(message_update(s, last, &in, e), ERR_USAGE, "not an answer");
	REFUSED(message_path(s, 99, add_text, NULL, e), ERR_USAGE, "there is no message 99");
	OK(message_path(s, 0, add_text, NULL, e));
	check_clean(s, __LINE__);
	place_reopen(&p, &s);
	CHECK_STR(shown(s, id), "grown ");
	check_clean(s, __LINE__);
	place_remove(&p);
}

TEST(questions_asked_anew_begin_branches)
{
	struct place p;
	struct store *s = place_make(&p);
	int64_t id = begin(s, NULL), other = begin(s, NULL), q, a1, a2, a3, q2, r2, x;
	struct session row;

	q = say_message(s, id, 0, ROLE_USER, "q");
	a1 = say_message(s, id, q, ROLE_ASSISTANT, "a1");
	q2 = say_message(s, id, a1, ROLE_USER, "q2");
	CHECK_STR(shown(s, id), "q a1 q2");
	a2 = say_message(s, id, q, ROLE_ASSISTANT, "a2");
	CHECK_STR(shown(s, id), "q a2");
	a3 = say_message(s, id, q, ROLE_ASSISTANT, "a3");
	CHECK_STR(children(s, id, q), "a1 a2 a3");
	r2 = say_message(s, id, 0, ROLE_USER, "edited");
	CHECK_STR(shown(s, id), "edited");
	CHECK_STR(children(s, id, 0), "q edited");
	OK(session_set_head(s, id, q2, e));
	CHECK_STR(shown(s, id), "q a1 q2");
	OK(session_get(s, id, &row, e));
	CHECK_INT(row.messages, 3);
	OK(session_set_head(s, id, 0, e));
	CHECK_STR(shown(s, id), "");
	OK(session_get(s, id, &row, e));
	CHECK_INT(row.messages, 0);
	OK(session_set_head(s, id, a2, e));
	OK(session_get(s, id, &row, e));
	CHECK_INT(row.messages, 2);
	/* Messages of another session are not found. */
	x = say_message(s, other, 0, ROLE_USER, "x");
	REFUSED(session_set_head(s, id, x, e), ERR_USAGE, "there is no message");
	REFUSED(message_children(s, id, x, add_text, NULL, e), ERR_USAGE, "there is no message");
	REFUSED(session_fork(s, id, x, NULL, &x, e), ERR_USAGE, "there is no message");
	REFUSED(session_set_head(s, id, 99, e), ERR_USAGE, "there is no message 99");
	REFUSED(message_children(s, 99, 0, add_text, NULL, e), ERR_USAGE, "there is no session 99");
	CHECK_STR(children(s, id, a3), "");
	CHECK_STR(children(s, id, r2), "");
	CHECK_STR(children(s, other, 0), "x");
	check_clean(s, __LINE__);
	place_remove(&p);
}

TEST(forks_share_and_deleting_spares_what_is_shown)
{
	struct place p;
	struct store *s = place_make(&p);
	int64_t a = begin(s, "a"), f, g, m[8], x, y;
	struct session row;
	struct stored_document d = { .name = "early.txt", .text = "canary-early", .n_text = 12, .bytes = 12 };
	struct str value = { 0 };
	struct err err = { 0 };

	OK(session_add_document(s, a, &d, &x, e));
	m[0] = say_message(s, a, 0, ROLE_USER, "canary-zero");
	m[1] = say_message(s, a, m[0], ROLE_ASSISTANT, "canary-one");
	d = (struct stored_document){
		.name = "late.txt", .text = "canary-late", .n_text = 11, .bytes = 11, .after = m[1]
	};
	OK(session_add_document(s, a, &d, &x, e));
	m[2] = say_message(s, a, m[1], ROLE_USER, "canary-two");
	m[3] = say_message(s, a, m[2], ROLE_ASSISTANT, "canary-three");
	m[4] = say_message(s, a, m[1], ROLE_USER, "canary-branch");
	OK(session_set_head(s, a, m[3], e));
	OK(session_touch(s, a, "m.gguf", "full", 40, e));
	OK(session_set(s, a, "system", "be brief", 8, e));

	OK(session_fork(s, a, m[0], "f", &f, e));
	OK(session_get(s, f, &row, e));
	CHECK_STR(row.name, "f");
	CHECK_STR(row.title, "canary-zero");
	CHECK_STR(row.model, "m.gguf");
	CHECK_INT(row.parent, a);
	CHECK_INT(row.messages, 1);
	CHECK_INT(row.tokens, 0);
	CHECK_INT(session_value(s, f, "system", &value, &err), 1);
	CHECK_STR(value.p, "be brief");
	CHECK_STR(shown(s, f), "canary-zero");
	CHECK_STR(children(s, f, 0), "canary-zero");
	CHECK_STR(children(s, f, m[0]), "");
	REFUSED(session_set_head(s, f, m[1], e), ERR_USAGE, "there is no message");
	x = say_message(s, f, m[0], ROLE_ASSISTANT, "fork-one");
	CHECK_STR(children(s, f, m[0]), "fork-one");
	CHECK_STR(children(s, a, m[0]), "canary-one");
	REFUSED(session_set_head(s, a, x, e), ERR_USAGE, "there is no message");

	/* Fork a fork, and fork at the head. */
	OK(session_fork(s, a, 0, NULL, &g, e));
	OK(session_get(s, g, &row, e));
	CHECK_INT(row.messages, 4);
	CHECK_INT(row.tokens, 40);
	CHECK_INT(row.head, m[3]);
	y = say_message(s, g, m[1], ROLE_USER, "g-two");
	CHECK_STR(children(s, g, m[1]), "canary-two g-two");
	CHECK_STR(children(s, a, m[1]), "canary-two canary-branch");
	REFUSED(session_fork(s, a, 0, "f", &x, e), ERR_USAGE, "called 'f' already");
	REFUSED(session_fork(s, 99, 0, "h", &x, e), ERR_USAGE, "there is no session 99");
	check_clean(s, __LINE__);

	/* When the original session is deleted, everything that its forks show is kept, and the rest is gone. */
	CHECK_INT(hits(s, "canary"), 5);
	OK(session_delete(s, a, e));
	check_clean(s, __LINE__);
	REFUSED(session_get(s, a, &row, e), ERR_USAGE, "there is no session");
	OK(session_get(s, g, &row, e));
	CHECK_INT(row.parent, 0);
	CHECK_STR(shown(s, f), "canary-zero fork-one");
	CHECK_STR(shown(s, g), "canary-zero canary-one g-two");
	OK(session_set_head(s, g, m[3], e));
	CHECK_STR(shown(s, g), "canary-zero canary-one canary-two canary-three");
	CHECK_STR(children(s, g, m[1]), "canary-two g-two");
	CHECK_INT(hits(s, "canary"), 4);
	CHECK(!on_disk(p.dir, "canary-branch"));
	CHECK_INT(hits(s, "branch"), 0);
	REFUSED(message_path(s, m[4], add_text, NULL, e), ERR_USAGE, "there is no message");

	OK(session_delete(s, g, e));
	check_clean(s, __LINE__);
	CHECK_STR(shown(s, f), "canary-zero fork-one");
	CHECK_INT(hits(s, "canary"), 1);
	for (size_t i = 0; i < 3; i++) {
		static const char *const gone[] = { "canary-one", "canary-late", "g-two" };
		CHECK_MSG(!on_disk(p.dir, gone[i]), "'%s' is still in a file", gone[i]);
	}
	CHECK(on_disk(p.dir, "canary-early"));
	OK(session_delete(s, f, e));
	check_clean(s, __LINE__);
	CHECK(!on_disk(p.dir, "canary"));
	CHECK_INT(hits(s, "canary"), 0);
	REFUSED(session_delete(s, f, e), ERR_USAGE, "there is no session");
	str_free(&value);
	(void)y;
	place_remove(&p);
}

/* Make random steps in the store and in a simple model of its rules. After each step the two must agree. */
TEST(random_trees_keep_the_rules)
{
	enum { SESSIONS = 12, STEPS = 400 };
	struct place p;
	struct store *s = place_make(&p);
	int64_t session[SESSIONS] = { 0 }, tip[SESSIONS] = { 0 };
	char line[SESSIONS][4000] = { { 0 } };
	int next = 0;

	for (int step = 0; step < STEPS; step++) {
		int i = (int)(test_rand() % SESSIONS), j = (int)(test_rand() % SESSIONS);
		char word[16];

		if (!session[i]) {
			session[i] = begin(s, NULL);
			tip[i] = 0;
			line[i][0] = 0;
		} else if (test_rand() % 4) {
			snprintf(word, sizeof word, "w%d", next++);
			tip[i] = say_message(s, session[i], tip[i], (int)(test_rand() % 3), word);
			if (strlen(line[i]) < sizeof line[i] - 20)
				snprintf(line[i] + strlen(line[i]), 20, "%s%s", line[i][0] ? " " : "", word);
		} else if (test_rand() % 2 && i != j && !session[j]) {
			OK(session_fork(s, session[i], 0, NULL, &session[j], e));
			tip[j] = tip[i];
			memcpy(line[j], line[i], sizeof line[j]);
		} else {
			OK(session_delete(s, session[i], e));
			session[i] = 0;
		}
		if (step % 20 == 19)
			check_clean(s, __LINE__);
	}
	for (int i = 0; i < SESSIONS; i++)
		if (session[i])
			CHECK_STR(shown(s, session[i]), line[i]);
	/* When all sessions are deleted, no message is left. */
	for (int i = 0; i < SESSIONS; i++)
		if (session[i])
			OK(session_delete(s, session[i], e));
	for (int i = 0; i < next; i++) {
		char word[16];
		snprintf(word, sizeof word, "w%d", i);
		CHECK_INT(hits(s, word), 0);
	}
	CHECK_INT(place_count(s, "message"), 0);
	check_clean(s, __LINE__);
	place_remove(&p);
}

/* Many messages are written and deleted, so that SQLite splits, merges and moves pages. Without erasing, pieces of the
 * deleted texts would stay in the file. */
TEST(nothing_of_what_was_deleted_is_left)
{
	struct place p;
	struct store *s = place_make(&p);
	int64_t stays = begin(s, "stays"), id[30], tip = 0, x;
	char text[9000], title[40];
	struct session row;

	say_message(s, stays, 0, ROLE_USER, "harmless");
	for (size_t i = 0; i < 30; i++)
		id[i] = begin(s, NULL);
	for (int i = 0; i < 600; i++) {
		size_t n = 0, want = test_rand() % 10 ? test_rand() % 300 : test_rand() % 8000, k = test_rand() % 30;
		struct stored_document d = { .name = "canary.txt", .text = text };
		while (n <= want)
			n += (size_t)snprintf(text + n, sizeof text - n, "canary%d of %d ", (int)(test_rand() % 5000),
			                      i);
		OK(session_get(s, id[k], &row, e));
		tip = say_message(s, id[k], row.head, 1 + i % 2, text);
		d.n_text = n;
		if (i % 20 == 0)
			OK(session_add_document(s, id[k], &d, &x, e));
		if (i % 50 == 0)
			OK(session_set(s, id[k], "system", text, n, e));
		if (i % 40 == 0) {
			snprintf(title, sizeof title, "canary name %d", i);
			OK(session_rename(s, id[k], title, e));
		}
		if (i % 30 == 29) {
			OK(session_delete(s, id[k], e));
			id[k] = begin(s, NULL);
		}
	}
	CHECK(tip && on_disk(p.dir, "canary"));
	for (size_t i = 0; i < 30; i++)
		OK(session_delete(s, id[i], e));
	CHECK(!on_disk(p.dir, "canary"));
	check_clean(s, __LINE__);
	place_reopen(&p, &s);
	CHECK(!on_disk(p.dir, "canary"));
	CHECK_STR(shown(s, stays), "harmless");
	place_remove(&p);
}

/* Deleted texts beside others of the same pages, which stay: SQLite moves rows between pages, and does not overwrite the
 * copies that it leaves behind. */
TEST(nothing_is_left_between_what_stays)
{
	for (int round = 0; round < 110; round++) {
		struct place p;
		struct store *s = place_make(&p);
		int64_t stays = begin(s, "stays"), goes = begin(s, "goes"), x;
		struct stored_message m = { .role = ROLE_ASSISTANT, .complete = 1 };
		char text[1300], stats[1300];

		for (int i = 0; i < 60; i++) {
			int64_t to = test_rand() % 3 ? stays : goes, tip;
			struct stored_document d = { .name = "a.txt", .text = text };
			struct session row;

			memset(text, to == goes ? 'c' : 'h', sizeof text);
			d.n_text = m.n_text = 20 + test_rand() % 300;
			text[m.n_text] = 0;
			if (to == goes)
				memcpy(text, "canary", 6);
			OK(session_get(s, to, &row, e));
			tip = say_message(s, to, row.head, ROLE_ASSISTANT, text);
			memset(stats, 's', sizeof stats);
			stats[test_rand() % (sizeof stats - 1)] = 0;
			m.text = text;
			m.stats = stats;
			OK(message_update(s, tip, &m, e));
			if (i % 10 == 0)
				OK(session_add_document(s, to, &d, &x, e));
		}
		OK(session_delete(s, goes, e));
		CHECK_MSG(!on_disk(p.dir, "canary"), "round %d", round);
		place_remove(&p);
	}
}

/* ---- settings and documents ---- */

TEST(settings_are_bytes_by_name)
{
	struct place p;
	struct store *s = place_make(&p);
	int64_t id = begin(s, NULL);
	struct str v = { 0 };
	struct err err = { 0 };
	char key[70];

	CHECK_INT(session_value(s, id, "rng", &v, &err), 0);
	OK(session_set(s, id, "rng", "\0\1\2\xff", 4, e));
	CHECK_INT(session_value(s, id, "rng", &v, &err), 1);
	CHECK_INT(v.n, 4);
	CHECK(!memcmp(v.p, "\0\1\2\xff", 4));
	OK(session_set(s, id, "rng", "", 0, e));
	CHECK_INT(session_value(s, id, "rng", &v, &err), 1);
	CHECK_INT(v.n, 0);
	OK(session_set(s, id, "rng", NULL, 0, e));
	CHECK_INT(session_value(s, id, "rng", &v, &err), 0);
	OK(session_set(s, id, "'\"; --", "x", 1, e));
	CHECK_INT(session_value(s, id, "'\"; --", &v, &err), 1);
	memset(key, 'k', sizeof key);
	key[65] = 0;
	REFUSED(session_set(s, id, key, "x", 1, e), ERR_USAGE, "1 to 64 bytes");
	REFUSED(session_set(s, id, "", "x", 1, e), ERR_USAGE, "1 to 64 bytes");
	REFUSED(session_set(s, 99, "k", "x", 1, e), ERR_USAGE, "there is no session 99");
	REFUSED(session_set(s, id, "k", "x", (size_t)1 << 40, e), ERR_FIT, "the limit is");
	str_free(&v);
	place_remove(&p);
}

static int add_setting(const char *key, const void *value, size_t n, int whole, void *ud)
{
	str_addf(ud, "%s=%.*s%s ", key, (int)n, (const char *)value, whole ? "" : "?");
	return 0;
}

TEST(settings_are_listed)
{
	struct place p;
	struct store *s = place_make(&p);
	struct str out = { 0 };

	begin(s, "a");
	begin(s, "b");
	OK(session_set(s, 1, "system", "be brief", 8, e));
	OK(session_set(s, 1, "kv", "", 0, e));
	OK(session_set(s, 2, "kv", "full", 4, e));
	OK(session_settings(s, 1, add_setting, &out, e));
	CHECK_STR(out.p, "kv= system=be brief ");
	place_sql(&p, &s, "UPDATE setting SET value = x'41' WHERE session = 2");
	str_clear(&out);
	OK(session_settings(s, 2, add_setting, &out, e));
	CHECK_STR(out.p, "kv=A? ");
	str_clear(&out);
	OK(session_settings(s, 3, add_setting, &out, e));
	CHECK_INT(out.n, 0);
	str_free(&out);
	place_remove(&p);
}

static void check_tree(struct store *s, int64_t id, int shown, int all, int branches, int line)
{
	struct session_tree t;
	struct err e = { 0 };

	if (session_tree(s, id, &t, &e) || t.shown != shown || t.all != all || t.branches != branches)
		test_fail(__FILE__, line, "session %lld: %d shown, %d in all, %d branches %s", (long long)id, t.shown,
		          t.all, t.branches, e.msg);
}

TEST(trees_are_counted)
{
	struct place p;
	struct store *s = place_make(&p);
	int64_t a = begin(s, "a"), m[6], fork, forks;
	struct stored_message cut = { .role = ROLE_ASSISTANT, .text = "x", .n_text = 1 };
	struct session_tree t;

	check_tree(s, a, 0, 0, 0, __LINE__);
	m[0] = say_message(s, a, 0, 1, "one");
	m[1] = say_message(s, a, m[0], 2, "two");
	check_tree(s, a, 2, 2, 1, __LINE__);
	m[2] = say_message(s, a, m[0], 2, "another two");
	m[3] = say_message(s, a, m[2], 1, "three");
	check_tree(s, a, 3, 4, 2, __LINE__);
	OK(session_set_head(s, a, m[1], e));
	check_tree(s, a, 2, 4, 2, __LINE__);
	OK(session_fork(s, a, m[3], "f", &fork, e));
	check_tree(s, fork, 3, 3, 1, __LINE__);
	m[4] = say_message(s, fork, m[3], 2, "four");
	check_tree(s, fork, 4, 4, 1, __LINE__);
	m[5] = say_message(s, fork, m[2], 1, "another three");
	check_tree(s, fork, 3, 5, 2, __LINE__);
	OK(session_fork(s, fork, m[4], "g", &forks, e));
	say_message(s, forks, m[2], 1, "a third three");
	/* Two branches end: one at m[4], to which nothing was added, the other at the new message. */
	check_tree(s, forks, 3, 5, 2, __LINE__);
	/* Messages written by a deleted session now belong to the forks. */
	OK(session_delete(s, a, e));
	check_tree(s, fork, 3, 5, 2, __LINE__);
	check_tree(s, forks, 3, 5, 2, __LINE__);
	OK(session_delete(s, fork, e));
	check_tree(s, forks, 3, 5, 2, __LINE__);
	OK(message_append(s, forks,
	                  &(struct stored_message){ .parent = m[4], .role = cut.role, .text = "x", .n_text = 1 }, &a,
	                  e));
	OK(session_tree(s, forks, &t, e));
	CHECK_INT(t.cut, 1);
	REFUSED(session_tree(s, 99, &t, e), ERR_USAGE, "no session 99");
	place_remove(&p);
}

static int add_library(const struct library_text *t, void *ud)
{
	str_addf(ud, "%lld %s %s %d %llu in %d, ", (long long)t->id, t->name, doc_type_name[t->type], t->pages,
	         (unsigned long long)t->bytes, t->sessions);
	return 0;
}

static int add_number(int64_t id, void *ud)
{
	str_addf(ud, "%lld ", (long long)id);
	return 0;
}

TEST(the_library_has_each_text_once)
{
	struct place p;
	struct store *s = place_make(&p);
	int64_t a = begin(s, NULL), b = begin(s, NULL), x;
	struct mark mark[] = { { .kind = MARK_PAGE, .text = (char[]){ "1" } },
		               { .kind = MARK_HEADING, .level = 1, .text = (char[]){ "canary-heading" } } };
	struct stored_document paper = { .name = "paper.pdf",
		                         .text = "canary-text",
		                         .n_text = 11,
		                         .bytes = 99,
		                         .type = DOC_PDF,
		                         .mark = mark,
		                         .n_mark = 2 };
	struct stored_document same = { .name = "copy.pdf", .text = "canary-text", .n_text = 11 },
			       other = { .name = "note.txt", .text = "words", .n_text = 5 };
	struct str out = { 0 };
	struct doc d;

	OK(library_list(s, add_library, &out, e));
	CHECK_INT(out.n, 0);
	OK(session_add_document(s, a, &paper, &x, e));
	OK(session_add_document(s, b, &other, &x, e));
	OK(session_add_document(s, b, &same, &x, e));
	OK(session_add_document(s, b, &same, &x, e));
	OK(library_list(s, add_library, &out, e));
	CHECK_STR(out.p, "1 copy.pdf pdf 1 11 in 2, 2 note.txt text 0 5 in 1, ");
	OK(library_find(s, "note.txt", &x, e));
	CHECK_INT(x, 2);
	OK(library_find(s, "#1", &x, e));
	CHECK_INT(x, 1);
	OK(library_find(s, "2", &x, e));
	CHECK_INT(x, 2);
	OK(library_find(s, "COP", &x, e));
	CHECK_INT(x, 1);
	REFUSED(library_find(s, "paper", &x, e), ERR_USAGE, "no session has a document 'paper'");
	REFUSED(library_find(s, "", &x, e), ERR_USAGE, "no document was named");
	REFUSED(library_find(s, "#77", &x, e), ERR_USAGE, "no session has a document '#77'");
	OK(library_get(s, 1, &d, e));
	CHECK(!strcmp(d.name, "copy.pdf") && d.type == DOC_PDF && d.pages == 1 && d.n_mark == 2 && d.text.n == 11 &&
	      !memcmp(d.text.p, "canary-text", 11));
	CHECK_STR(doc_mark_at(&d, MARK_HEADING, 5)->text, "canary-heading");
	doc_free(&d);
	REFUSED(library_get(s, 9, &d, e), ERR_USAGE, "there is no document 9");
	str_clear(&out);
	OK(library_sessions(s, 1, add_number, &out, e));
	CHECK_STR(out.p, "1 2 ");
	/* A removed document is removed everywhere. */
	OK(library_remove(s, 1, e));
	REFUSED(library_remove(s, 1, e), ERR_USAGE, "there is no document 1");
	str_clear(&out);
	OK(library_list(s, add_library, &out, e));
	CHECK_STR(out.p, "2 note.txt text 0 5 in 1, ");
	CHECK_INT(place_count(s, "outline"), 1);
	CHECK(!on_disk(p.dir, "canary"));
	check_clean(s, __LINE__);
	str_free(&out);
	place_remove(&p);
}

TEST(documents_are_kept_once)
{
	struct place p;
	struct store *s = place_make(&p);
	int64_t a = begin(s, NULL), b = begin(s, NULL), m = say_message(s, a, 0, ROLE_USER, "q"), one, two, three;
	struct stored_document d = { .name = "b\xff.txt", .text = "text", .n_text = 4, .bytes = 9 };
	struct str out = { 0 };
	char *big = xmalloc(5000000), path[500];
	struct stat st;

	OK(session_add_document(s, a, &d, &one, e));
	d.name = "same.txt";
	d.after = m;
	OK(session_add_document(s, a, &d, &two, e));
	d.after = 0;
	OK(session_add_document(s, b, &d, &three, e));
	CHECK_INT(place_count(s, "content"), 1);
	CHECK_INT(place_count(s, "document"), 3);
	OK(session_documents(s, a, add_document, &out, e));
	CHECK_STR(out.p, "b\xff.txt=text@0 same.txt=text@1 ");
	d.after = m;
	REFUSED(session_add_document(s, b, &d, &three, e), ERR_USAGE, "there is no message 1 in session 2");
	REFUSED(session_add_document(s, 99, &d, &three, e), ERR_USAGE, "there is no session 99");
	REFUSED(session_drop_document(s, b, one, e), ERR_USAGE, "there is no document 1 in session 2");
	OK(session_drop_document(s, a, one, e));
	OK(session_drop_document(s, a, two, e));
	CHECK_INT(place_count(s, "content"), 1);
	OK(session_delete(s, b, e));
	CHECK_INT(place_count(s, "content"), 0);
	for (size_t i = 0; i < 5000000; i++)
		big[i] = (char)('a' + i % 23);
	memcpy(big + 4000000, "canary-deep-inside", 18);
	d = (struct stored_document){ .name = "", .text = big, .n_text = 5000000 };
	OK(session_add_document(s, a, &d, &one, e));
	place_reopen(&p, &s);
	CHECK(on_disk(p.dir, "canary-deep-inside"));
	OK(session_drop_document(s, a, one, e));
	OK(session_delete(s, a, e));
	CHECK(!on_disk(p.dir, "canary-deep-inside"));
	/* chat.db becomes smaller after the deletion. */
	snprintf(path, sizeof path, "%s/chat.db", p.dir);
	CHECK(!stat(path, &st) && st.st_size < 500000);
	check_clean(s, __LINE__);
	free(big);
	str_free(&out);
	place_remove(&p);
}

/* ---- search ---- */

static int add_found(const struct found *f, void *ud)
{
	str_addf(ud, "[%lld %lld %s/%s %d %s]", (long long)f->session, (long long)f->message, f->name, f->title,
	         f->role, f->snippet);
	return 0;
}

TEST(search_takes_words_as_they_are_typed)
{
	/* clang-format off */
	static const char *const hostile[] = {
		"NEAR", "NEAR(a b)", "*", "a*", "^a", "a AND b", "OR", "NOT", "text:a", "-a", "+", "(", ")", "((((", "\\",
		"{text}: x", "'", "''", "\"", "\"\"", "\"a", "a\"b\"c", "\"a\" \"", "; DROP TABLE message",
		"\xff\xfe", "\xe2\x80\xae", "%", "_",
		"find", "rank", "\x01", "a.b.c", "a+b", "a,b", "1e9", "x'00'", "?1", ":p", "@p", "$p", "\xf0\x9f\x8c\x8a",
	};
	/* clang-format on */
	struct place p;
	struct store *s = place_make(&p);
	int64_t a = begin(s, "rivers"), b = begin(s, NULL), m;
	struct str out = { 0 };
	struct err err = { 0 };
	char many[3000] = "";
	struct stored_message grow = { .role = ROLE_ASSISTANT, .text = "", .complete = 0 };

	m = say_message(s, a, 0, ROLE_USER, "How long is the river Danube?");
	say_message(s, a, m, ROLE_ASSISTANT, "The Danube is 2,850 km long; its source is the Breg. Don't NEAR it.");
	say_message(s, b, 0, ROLE_USER,
	            "\xc3\x9c"
	            "ber den Flu\xc3\x9f: \xe6\x97\xa5\xe6\x9c\xac and caf\xc3\xa9");
	CHECK_INT(hits(s, "danube"), 2);
	CHECK_INT(hits(s, "DANUBE long"), 2);
	CHECK_INT(hits(s, "danube breg"), 1);
	CHECK_INT(hits(s, "\"the danube is\""), 1);
	CHECK_INT(hits(s, "\"is danube the\""), 0);
	CHECK_INT(hits(s, "don't"), 1);
	CHECK_INT(hits(s, "NEAR"), 1);
	CHECK_INT(hits(s, "danu"), 0);
	CHECK_INT(hits(s, "uber"), 1);
	CHECK_INT(hits(s, "cafe"), 1);
	CHECK_INT(hits(s, "CAF\xc3\x89"), 1);
	CHECK_INT(hits(s, "2,850"), 1);
	CHECK_INT(hits(s, "\xe6\x97\xa5\xe6\x9c\xac"), 1);
	CHECK_INT(hits(s, "absent"), 0);
	CHECK_INT(store_search(s, "breg", 10, add_found, &out, &err), 0);
	CHECK_STR(out.p, "[1 2 rivers/How long is the river Danube? 2 The Danube is 2,850 km long; its source is the "
	                 "\x01"
	                 "Breg\x02. Don't NEAR it.]");
	for (size_t i = 0; i < LEN(hostile); i++) {
		int n = 0;
		err = (struct err){ 0 };
		if (store_search(s, hostile[i], 10, count_found, &n, &err) && err.code != ERR_USAGE)
			test_fail(__FILE__, __LINE__, "'%s': %s", hostile[i], err.msg);
	}
	REFUSED(store_search(s, "", 10, count_found, &err, e), ERR_USAGE, "nothing to search for");
	REFUSED(store_search(s, " \t\n", 10, count_found, &err, e), ERR_USAGE, "nothing to search for");
	for (int i = 0; i < 60; i++)
		snprintf(many + strlen(many), 16, "w%d ", i);
	REFUSED(store_search(s, many, 10, count_found, &err, e), ERR_USAGE, "at most 40 words");
	memset(many, 'a', 2000);
	many[2000] = 0;
	REFUSED(store_search(s, many, 10, count_found, &err, e), ERR_USAGE, "at most 1000 bytes");
	/* The search ends at the limit, or when the callback says so. */
	for (int i = 0; i < 20; i++)
		say_message(s, b, 0, ROLE_USER, "needle");
	{
		int n = 0;
		OK(store_search(s, "needle", 7, count_found, &n, e));
		CHECK_INT(n, 7);
		OK(store_search(s, "needle", -1, count_found, &n, e));
		CHECK_INT(n, 8);
	}
	/* An answer that grows is found by its current text. */
	OK(message_append(s, b, &grow, &m, e));
	grow.text = "half sentence";
	grow.n_text = 13;
	OK(message_update(s, m, &grow, e));
	CHECK_INT(hits(s, "sentence"), 1);
	grow.text = "whole thing";
	grow.n_text = 11;
	OK(message_update(s, m, &grow, e));
	CHECK_INT(hits(s, "sentence"), 0);
	CHECK_INT(hits(s, "whole"), 1);
	check_clean(s, __LINE__);
	str_free(&out);
	place_remove(&p);
}

static int levels(struct store *s)
{
	int64_t n = -1;

	OK(db_number(&s->db, "SELECT unicode(CAST(substr(block, 5, 1) AS TEXT)) FROM find_data WHERE id=10", &n, e));
	return (int)n;
}

/* When the index is rewritten at each deletion, SQLite adds a level each time and fails at 2,000. */
TEST(index_outlives_many_deletions)
{
	struct place p;
	struct store *s = place_make(&p);
	int64_t stays = begin(s, "stays");
	int n = getenv("WEIR_SOAK") ? 2500 : 100;

	say_message(s, stays, 0, ROLE_USER, "these words stay");
	for (int i = 0; i < n; i++) {
		int64_t id = begin(s, NULL);
		say_message(s, id, 0, ROLE_USER, "these words go");
		OK(session_delete(s, id, e));
		CHECK(levels(s) <= 32);
	}
	CHECK_INT(hits(s, "words"), 1);
	check_clean(s, __LINE__);
	place_remove(&p);
}

TEST(damaged_index_is_made_anew)
{
	struct place p;
	struct store *s = place_make(&p);
	int64_t id = begin(s, NULL);
	struct str report = { 0 };
	struct err err = { 0 };
	static const char *const harm[] = {
		"UPDATE find_data SET block=x'000000008F5201D67C' WHERE id=10",
		"DELETE FROM find_config",
		"DROP TABLE find_config",
		"DROP TABLE find_data",
		"DROP TABLE find",
		"DELETE FROM find_data",
		"DROP TABLE find_idx",
	};

	say_message(s, id, 0, ROLE_USER, "some words to find");
	/* Change a message without its index entry. */
	place_sql(&p, &s, "UPDATE message SET text='other words'");
	CHECK_INT(store_check(s, &report, &err), 1);
	CHECK(strstr(report.p, "message 1: its text or tokens are not what was saved"));
	CHECK(strstr(report.p, "it was made anew"));
	CHECK_INT(hits(s, "other"), 1);
	/* With damaged pages of the index a message is still stored. */
	place_sql(&p, &s, "UPDATE find_data SET block=x'00000000000000000000' WHERE id>=1");
	CHECK_INT(say_message(s, id, 1, ROLE_USER, "safe all the same"), 2);
	OK(session_delete(s, id, e));
	CHECK_INT(store_check(s, &report, &err), 0);
	/* An index that is damaged so that it cannot even be opened is replaced. */
	say_message(s, begin(s, NULL), 0, ROLE_USER, "always there");
	for (size_t i = 0; i < LEN(harm); i++) {
		id = begin(s, NULL);
		say_message(s, id, 0, ROLE_USER, "before");
		place_sql(&p, &s, harm[i]);
		say_message(s, id, 0, ROLE_USER, "after");
		CHECK_INT(hits(s, "after"), 1);
		OK(session_delete(s, id, e));
		check_clean(s, __LINE__);
		place_sql(&p, &s, harm[i]);
		CHECK_INT(store_check(s, &report, &err), 1);
		CHECK(strstr(report.p, "the search index was not that of the messages; it was made anew\n"));
		check_clean(s, __LINE__);
	}
	str_free(&report);
	place_remove(&p);
}

/* ---- export ---- */

TEST(exports_are_what_was_said)
{
	struct place p;
	struct store *s = place_make(&p);
	int64_t id = begin(s, NULL), m;
	struct str out = { 0 };
	int32_t token[3] = { 11, 0, 49151 };
	struct stored_message answer = { .role = ROLE_ASSISTANT,
		                         .text = "Because.\n\"Light\" \x01\xff\n\n",
		                         .n_text = 21,
		                         .token = token,
		                         .n_token = 3,
		                         .at = 5,
		                         .complete = 0 };
	struct stored_document d = { .name = "a\x1b.txt", .text = "t", .n_text = 1, .bytes = 1 };
	struct jv j, list;
	char *text;
	size_t n;

	OK(session_export(s, id, EXPORT_MARKDOWN, NULL, &out, e));
	CHECK_STR(out.p, "# Session 1\n");
	OK(session_export(s, id, EXPORT_JSON, NULL, &out, e));
	CHECK_STR(out.p,
	          "{\"name\":\"\",\"model\":\"\",\"kv\":\"\",\"settings\":{},\"documents\":[],\"messages\":[]}\n");
	m = say_message(s, id, 0, ROLE_USER, "Why is the sky blue?");
	answer.parent = m;
	OK(message_append(s, id, &answer, &m, e));
	OK(session_touch(s, id, "tiny \"x\".gguf", "sift:k=512", 9, e));
	OK(session_add_document(s, id, &d, &m, e));
	OK(session_export(s, id, EXPORT_JSON, NULL, &out, e));
	CHECK(strstr(out.p,
	             "{\"name\":\"\",\"model\":\"tiny \\\"x\\\".gguf\",\"kv\":\"sift:k=512\",\"settings\":{},\"documents\":[{\"name\":\"a\\u001b.txt\","
	             "\"type\":\"text\",\"bytes\":1,\"after\":0,\"text\":\"t\",\"marks\":[]}],\"messages\":["
	             "{\"role\":\"user\",\"text\":\"Why is the sky blue?\",\"tokens\":[],\"at\":") == out.p);
	CHECK_STR(strstr(out.p, ",{\"role\":\"assistant\"") + 1,
	          "{\"role\":\"assistant\",\"text\":\"Because.\\n\\\"Light\\\" \\u0001\xef\xbf\xbd\\n\\n\","
	          "\"tokens\":[11,0,49151],\"complete\":false,\"at\":5}]}\n");
	j = jv_parse(out.p, out.n);
	CHECK(j.p);
	CHECK(jv_is(jv_get(j, "kv"), "sift:k=512"));
	list = jv_get(j, "messages");
	CHECK_INT(jv_len(list), 2);
	text = jv_str(jv_get(jv_at(list, 1), "text"), &n);
	CHECK_STR(text, "Because.\n\"Light\" \x01\xef\xbf\xbd\n\n");
	free(text);
	CHECK_INT(jv_num(jv_at(jv_get(jv_at(list, 1), "tokens"), 2)), 49151);
	OK(session_export(s, id, EXPORT_MARKDOWN, NULL, &out, e));
	CHECK_STR(out.p,
	          "# Why is the sky blue?\n\nModel: tiny \"x\".gguf\n\nDocuments:\n\n- a\\x1b.txt (1 bytes)\n"
	          "\n## Question\n\nWhy is the sky blue?\n\n## Answer (incomplete)\n\nBecause.\n\"Light\" \x01\xff\n");
	OK(session_export(s, id, EXPORT_TEXT, NULL, &out, e));
	CHECK_STR(out.p, "Question:\nWhy is the sky blue?\n\nAnswer (incomplete):\nBecause.\n\"Light\" \x01\xff\n");
	OK(session_rename(s, id, "sky", e));
	OK(session_export(s, id, EXPORT_JSON, NULL, &out, e));
	CHECK(!strncmp(out.p, "{\"name\":\"sky\",", 14));
	OK(session_export(s, id, EXPORT_MARKDOWN, NULL, &out, e));
	CHECK(!strncmp(out.p, "# sky\n", 6));
	REFUSED(session_export(s, 99, EXPORT_TEXT, NULL, &out, e), ERR_USAGE, "there is no session 99");
	REFUSED(session_export(s, id, (enum export_format)9, NULL, &out, e), ERR_USAGE, "no export format 9");
	str_free(&out);
	place_remove(&p);
}
