/* tests/sessions/t_store_beginnings.c - the common beginning of long questions is stored once, and readers do not
 * notice. */
#include "tests/lib/storedir.h"

#include <string.h>

/* Append n lines of 24 bytes; each has a word that no other line has: "line000017 of the book." */
static void book(struct str *out, int from, int n)
{
	for (int i = from; i < from + n; i++)
		str_addf(out, "line%06d of the book.\n", i);
}

/* Store the first lines of the book with a question after them. */
static int64_t ask(struct store *s, int64_t session, int64_t parent, int lines, const char *question)
{
	struct str text = { 0 };
	struct stored_message m = { .parent = parent, .role = ROLE_USER, .complete = 1 };
	int64_t id = 0;

	book(&text, 0, lines);
	str_addf(&text, "\n%s", question);
	m.text = text.p;
	m.n_text = text.n;
	OK(message_append(s, session, &m, &id, e));
	str_free(&text);
	return id;
}

static int is_asked(struct store *s, int64_t message, int lines, const char *question)
{
	struct str want = { 0 }, got = { 0 };
	struct err e = { 0 };
	int rc;

	book(&want, 0, lines);
	str_addf(&want, "\n%s", question);
	rc = !message_path(s, message, add_text, &got, &e) && got.n == want.n && !memcmp(got.p, want.p, got.n);
	if (!rc)
		printf("message %lld: %s, %zu bytes and not %zu\n", (long long)message, e.msg, got.n, want.n);
	str_free(&want);
	str_free(&got);
	return rc;
}

static int64_t own_bytes(struct store *s, int64_t message)
{
	int64_t n = -1;

	if (db_find(&s->db, &(struct err){ 0 }, &n, "SELECT length(CAST(text AS BLOB)) FROM message WHERE id=?1", "i",
	            message) < 0)
		n = -1;
	return n;
}

TEST(questions_beside_a_text_store_it_once)
{
	struct place p;
	struct store *s = place_make(&p);
	int64_t id = begin(s, "it"), q[5];
	struct str out = { 0 };

	q[0] = ask(s, id, 0, 1000, "Who is quested?");
	q[1] = ask(s, id, 0, 1500, "And who is wested?");
	q[2] = ask(s, id, 0, 1500, "Where is rested?");
	q[3] = ask(s, id, 0, 3000, "When is tested?");
	q[4] = ask(s, id, 0, 900, "Before that?"); /* shorter than the question before: only that beginning is shared */
	CHECK_INT(own_bytes(s, q[0]), 1000 * 24 + 1 + 15);
	CHECK_MSG(own_bytes(s, q[1]) < 500 * 24 + 100 && own_bytes(s, q[2]) < 100 &&
	                  own_bytes(s, q[3]) < 1500 * 24 + 100 && own_bytes(s, q[4]) < 100,
	          "%lld %lld %lld %lld", (long long)own_bytes(s, q[1]), (long long)own_bytes(s, q[2]),
	          (long long)own_bytes(s, q[3]), (long long)own_bytes(s, q[4]));
	for (int turn = 0; turn < 2; turn++) {
		CHECK(is_asked(s, q[0], 1000, "Who is quested?"));
		CHECK(is_asked(s, q[1], 1500, "And who is wested?"));
		CHECK(is_asked(s, q[2], 1500, "Where is rested?"));
		CHECK(is_asked(s, q[3], 3000, "When is tested?"));
		CHECK(is_asked(s, q[4], 900, "Before that?"));
		place_reopen(&p, &s);
	}
	/* A search finds common text once, in the message that stores it, and each question by its own words. */
	CHECK_INT(hits(s, "line000500"), 1);
	CHECK_INT(hits(s, "line001200"), 1);
	CHECK_INT(hits(s, "rested"), 1);
	CHECK_INT(hits(s, "tested"), 1);
	OK(session_set_head(s, id, q[3], e));
	OK(session_export(s, id, EXPORT_TEXT, NULL, &out, e));
	CHECK(strstr(out.p, "line000000") && strstr(out.p, "line002999") && strstr(out.p, "When is tested?"));
	check_clean(s, __LINE__);
	OK(session_delete(s, id, e));
	check_clean(s, __LINE__);
	CHECK(!on_disk(p.dir, "line000"));
	str_free(&out);
	place_remove(&p);
}

/* Answers, short questions, and questions elsewhere in the tree are stored whole. */
TEST(other_messages_are_stored_whole)
{
	struct place p;
	struct store *s = place_make(&p);
	int64_t id = begin(s, "it"), a, b, c;
	struct str text = { 0 };
	struct stored_message m = { .role = ROLE_ASSISTANT, .complete = 1 };

	a = ask(s, id, 0, 300, "One?");
	b = ask(s, id, a, 300, "Two?");
	CHECK_INT(own_bytes(s, b), 300 * 24 + 1 + 4);
	book(&text, 0, 300);
	m.parent = b;
	m.text = text.p;
	m.n_text = text.n;
	OK(message_append(s, id, &m, &c, e));
	OK(message_append(s, id, &m, &c, e));
	CHECK_INT(own_bytes(s, c), (long long)text.n);
	a = ask(s, id, c, 100, "Three?");
	b = ask(s, id, c, 100, "Four?");
	CHECK_INT(own_bytes(s, b), 100 * 24 + 1 + 5);
	check_clean(s, __LINE__);
	str_free(&text);
	place_remove(&p);
}

/* The shared beginning never ends within a character or a word. */
TEST(a_beginning_ends_with_a_word)
{
	struct place p;
	struct store *s = place_make(&p);
	int64_t id = begin(s, "it"), last = 0;
	const char *const end[] = { "h\xc3\xa9ron", "h\xc3\xa8ron", "heron", " heron", "" };

	for (int blanks = 0; blanks < 2; blanks++)
		for (size_t i = 0; i < LEN(end); i++) {
			struct str text = { 0 }, got = { 0 };
			struct stored_message m = { .role = ROLE_USER, .complete = 1 };

			for (int k = 0; k < 1500; k++)
				str_adds(&text, blanks ? "a \xe6\x97\xa5 " : "a\xe6\x97\xa5.");
			str_adds(&text, end[i]);
			m.text = text.p;
			m.n_text = text.n;
			OK(message_append(s, id, &m, &last, e));
			OK(message_path(s, last, add_text, &got, e));
			CHECK_STR(got.p, text.p);
			CHECK(!i || own_bytes(s, last) < 20);
			str_free(&text);
			str_free(&got);
		}
	CHECK_INT(hits(s, "h\xc3\xa9ron"), 6); /* the word is found with e and with both accents */
	check_clean(s, __LINE__);
	place_remove(&p);
}

/* A fork shows the second and the fourth question. The others, whose beginnings they share, are deleted with their
 * session. */
TEST(deleting_spares_what_others_begin_with)
{
	struct place p;
	struct store *s = place_make(&p);
	int64_t id = begin(s, "it"), f, g, h, q[4];

	q[0] = ask(s, id, 0, 400, "canary-one");
	q[1] = ask(s, id, 0, 600, "canary-two");
	q[2] = ask(s, id, 0, 800, "canary-three");
	q[3] = ask(s, id, 0, 1000, "canary-four");
	OK(session_fork(s, id, q[1], "f", &f, e));
	OK(session_fork(s, id, q[3], "g", &g, e));
	OK(session_fork(s, id, q[3], "h", &h, e));
	check_clean(s, __LINE__);
	OK(session_delete(s, id, e));
	check_clean(s, __LINE__);
	CHECK(is_asked(s, q[1], 600, "canary-two"));
	CHECK(is_asked(s, q[3], 1000, "canary-four"));
	CHECK(!on_disk(p.dir, "canary-one") && !on_disk(p.dir, "canary-three"));
	CHECK_INT(hits(s, "line000900"), 1);
	OK(session_delete(s, f, e));
	check_clean(s, __LINE__);
	CHECK(is_asked(s, q[3], 1000, "canary-four"));
	OK(session_delete(s, g, e));
	CHECK(is_asked(s, q[3], 1000, "canary-four"));
	OK(session_delete(s, h, e));
	check_clean(s, __LINE__);
	CHECK(!on_disk(p.dir, "canary") && !on_disk(p.dir, "line0"));
	place_remove(&p);
}

/* Numbers that a damaged file may hold, though weir never writes them. */
TEST(damaged_beginnings_end_and_are_seen)
{
	static const char *const harm[] = {
		"UPDATE message SET beginning=id WHERE id=3",
		"UPDATE message SET beginning=99 WHERE id=3",
		"UPDATE message SET beginning=-1 WHERE id=3",
		"UPDATE message SET beginning=0 WHERE id=3",
		"UPDATE message SET beginning=3 WHERE id=2",
		"UPDATE message SET beginning_bytes=9223372036854775807 WHERE id=3",
		"UPDATE message SET beginning_bytes=-1 WHERE id=3",
		"UPDATE message SET beginning_bytes=268435456 WHERE id=3",
		"UPDATE message SET beginning_bytes=7 WHERE id=1",
		"UPDATE message SET beginning_bytes=0 WHERE id=2",
		"UPDATE message SET text='' WHERE id=1",
		"DELETE FROM message WHERE id=1",
		"UPDATE message SET beginning=2, beginning_bytes=5000 WHERE id=1",
	};

	for (size_t i = 0; i < LEN(harm); i++) {
		struct place p;
		struct store *s = place_make(&p);
		int64_t id = begin(s, "it"), f, q[3];
		struct str report = { 0 }, out = { 0 };
		struct err err = { 0 };

		q[0] = ask(s, id, 0, 400, "one");
		q[1] = ask(s, id, 0, 600, "two");
		q[2] = ask(s, id, 0, 800, "three");
		OK(session_fork(s, id, q[2], "fork", &f, e));
		place_sql(&p, &s, harm[i]);
		CHECK_MSG(store_check(s, &report, &err) == 1, "%s: not seen %s", harm[i], err.msg);
		for (int k = 0; k < 3; k++)
			message_path(s, q[k], add_text, &out, &err);
		message_children(s, id, 0, add_text, &out, &err);
		session_export(s, f, EXPORT_JSON, NULL, &out, &err);
		q[0] = ask(s, id, 0, 900, "four");
		CHECK(is_asked(s, q[0], 900, "four"));
		session_delete(s, id, &err);
		session_delete(s, f, &err);
		str_free(&report);
		str_free(&out);
		place_remove(&p);
	}
}
