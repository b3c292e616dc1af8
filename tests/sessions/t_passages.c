/* tests/sessions/t_passages.c - the passages of texts: cutting (engine/base/sentences.c), the index (passage_index.c), finding (passage_search.c). */
#include "tests/lib/storedir.h"

#include "sessions/store/passages.h"

/* ---- cutting ---- */

/* Show the sentences of a text as "a|b||c": | between sentences, || between passages. */
static char *cut(const char *text)
{
	static struct str out;
	struct sentence *at;
	size_t n = sentences_cut(text, strlen(text), &at, NULL, NULL);

	str_clear(&out);
	str_adds(&out, "");
	for (size_t i = 0; i < n; i++) {
		str_adds(&out, !i ? "" : at[i].flags & SENTENCE_FIRST ? "||" : "|");
		str_add(&out, text + at[i].from, at[i].to - at[i].from);
	}
	free(at);
	return out.p;
}

TEST(sentences_end_where_readers_end_them)
{
	CHECK_STR(cut("Dr. Smith met J. S. Bach. He left."), "Dr. Smith met J. S. Bach.|He left.");
	CHECK_STR(cut("It cost 3.5 million. The U.S. Senate agreed."), "It cost 3.5 million.|The U.S. Senate agreed.");
	CHECK_STR(cut("\"Is it?\" she asked. \"No!\" He went."), "\"Is it?\" she asked.|\"No!\"|He went.");
	CHECK_STR(cut("See fig. 3, e.g. the left one, cf. No. 5. Then go."),
	          "See fig. 3, e.g. the left one, cf. No. 5.|Then go.");
	CHECK_STR(cut("Yahoo! has grown. (So it was.) Next"), "Yahoo! has grown.|(So it was.)|Next");
	CHECK_STR(cut("1. First\n2. Second\n- third"), "1. First|2. Second|- third");
	/* a number at the beginning of a line is a list item only if it continues a count or follows the end of a
	 * sentence */
	CHECK_STR(cut("The command returns\n127. It is not found."), "The command returns\n127.|It is not found.");
	CHECK_STR(cut("As follows:\n7. Seven\n8. eight"), "As follows:|7. Seven|8. eight");
	CHECK_STR(cut("id,name,price\n1,rope,2.50\n2,\"old, wet\",1.00"),
	          "id,name,price|1,rope,2.50|2,\"old, wet\",1.00");
	CHECK_STR(cut("ropes, nets, and\nsails, oars, but"), "ropes, nets, and\nsails, oars, but");
	CHECK_STR(cut("one line\nand the same sentence"), "one line\nand the same sentence");
	CHECK_STR(cut("彼は東京に住む。「本当？」と聞いた。終"), "彼は東京に住む。|「本当？」|と聞いた。|終");
	CHECK_STR(cut("यह पहला है। यह दूसरा है।"), "यह पहला है।|यह दूसरा है।");
	CHECK_STR(cut("هل هذا صحيح؟ نعم. انتهى"), "هل هذا صحيح؟|نعم.|انتهى");
	/* borders are in no sentence, and each row of a table is one */
	CHECK_STR(cut("Keys\n┌───┬───┐\n│ a │ up│\n├───┼───┤\n│ b │   │\n└───┴───┘\nand more"),
	          "Keys|│ a │ up│|│ b │   │|and more");
	CHECK_STR(cut("One\n======\nTwo +\n+----+\n| x |\n|:--|\n* * *\n--\nend"), "One|Two +|| x ||--\nend");
	CHECK_STR(cut("─────\n \n-----\n"), "");
	CHECK_STR(cut(" \n\n\t "), "");
	CHECK_STR(cut(""), "");
	CHECK_STR(cut("."), ".");
}

/* A query for a single position finds the same sentence ends as a walk through the whole text, in every script. */
TEST(single_places_end_as_sentences_do)
{
	static const char *const all[] = {
		"Dr. Smith met J. S. Bach. He left.",
		"It cost 3.5 million. The U.S. Senate agreed.",
		"\"Is it?\" she asked. \"No!\" He went.",
		"彼は東京に住む。「本当？」と聞いた。終",
		"यह पहला है। यह दूसरा है।",
		"هل هذا صحيح؟ نعم. انتهى",
		"Yahoo! has grown. (So it was.) Next",
	};

	for (size_t i = 0; i < LEN(all); i++) {
		size_t len = strlen(all[i]), n, k = 0;
		struct sentence *s;

		n = sentences_cut(all[i], len, &s, NULL, NULL);
		for (size_t at = 1; at < len; at++) {
			int ends = k < n && s[k].to == at;

			CHECK_MSG(sentence_ends(all[i], len, at) == ends, "%s: byte %zu", all[i], at);
			k += ends != 0;
		}
		free(s);
	}
	CHECK_INT(text_break("One. Two", 8, 5), BREAK_SENTENCE);
	CHECK_INT(text_break("One\n\nTwo", 8, 5), BREAK_PARAGRAPH);
	CHECK_INT(text_break("One\nTwo", 7, 4), BREAK_LINE);
	CHECK_INT(text_break("Mr. Two", 7, 4), BREAK_WORD);
	CHECK_INT(text_break("One", 3, 1), BREAK_CHAR);
	CHECK_INT(text_break("\xc3\xa9", 2, 1), BREAK_NONE);
}

static void add_words(struct str *s, int n, const char *last)
{
	for (int i = 1; i < n; i++)
		str_addf(s, "word%d ", i);
	str_adds(s, last);
}

static int passages_in(const struct str *s)
{
	struct sentence *at;
	size_t n = sentences_cut(s->p, s->n, &at, NULL, NULL);
	int count = 0;

	for (size_t i = 0; i < n; i++)
		count += at[i].flags & SENTENCE_FIRST;
	free(at);
	return count;
}

TEST(long_paragraphs_are_cut_and_short_ones_joined)
{
	struct str s = { 0 };

	str_adds(&s, "# Heading\n\n");
	add_words(&s, 60, "end.\n\n");
	CHECK_INT(passages_in(&s), 1);
	str_adds(&s, "Tiny.\n\n");
	add_words(&s, 60, "end.\n\n");
	CHECK_INT(passages_in(&s), 2);
	str_adds(&s, "Tiny.\n\n# Another\n\n");
	CHECK_INT(passages_in(&s), 4);
	for (int i = 0; i < 24; i++)
		add_words(&s, 20, "end. ");
	CHECK_INT(passages_in(&s), 7); /* 480 words: four passages, the first with the heading */
	str_free(&s);
}

TEST(sentences_cover_every_text)
{
	/* clang-format off */
	static const char *const piece[] = {
		"a", "B. ", "Mr. ", "word ", "end. ", "\n", "\n\n", "\f", "# ", "## T\n", "- ", "3. ", "?", "! ", "\"", "\xe3\x80\x82", "\xe6\x97\xa5", "\xe6",
		"\xff", "\xe0\xb8\x81", "\xe0\xb8\x81\xe0\xb8\xb4 ", "\xd8\x9f ", "\xe0\xa5\xa4 ", "\r\n", "\t", "\xc2\xa0", "long long long words here and there ", "| a | b |\n",
	};
	/* clang-format on */

	for (int round = 0; round < 400; round++) {
		struct str s = { 0 };
		struct sentence *at;
		size_t n, end = 0;

		str_adds(&s, "");
		for (int i = (int)(test_rand() % 600); i > 0; i--) {
			const char *p = piece[test_rand() % LEN(piece)];
			str_adds(&s, p);
			if (test_rand() % 97 == 0)
				str_add(&s, "", 1);
		}
		n = sentences_cut(s.p, s.n, &at, NULL, NULL);
		for (size_t i = 0; i <= n; i++) {
			size_t from = i < n ? at[i].from : s.n;

			CHECK(from >= end);
			for (; end < from; end++)
				CHECK_MSG(strchr(" \t\n\v\f\r-|", s.p[end]) && s.p[end],
				          "byte %zu of %zu is in no sentence", end, s.n);
			if (i == n)
				break;
			CHECK(at[i].to > at[i].from && at[i].to <= s.n && at[i].words);
			CHECK(i || at[i].flags & SENTENCE_FIRST);
			end = at[i].to;
		}
		free(at);
		str_free(&s);
	}
}

/* ---- finding ---- */

static struct passage_index *open_index(struct store *s)
{
	struct passage_index *x = NULL;

	OK(passage_index_open(&x, s, e));
	return x;
}

/* Return the sentence that fits a question best; "" = none. */
static const char *ask(struct passage_index *x, const char *text, const char *question)
{
	static struct str out;
	struct indexed_text t = { text, strlen(text) };
	struct found_passage hit[4];
	struct err err = { 0 };
	int n = passages_find(x, &t, 1, question, strlen(question), hit, 4, &err);

	CHECK_MSG(n >= 0, "%s", err.msg);
	str_clear(&out);
	str_adds(&out, "");
	if (n > 0) {
		CHECK(hit[0].from <= hit[0].quote && hit[0].quote < hit[0].quote_end && hit[0].quote_end <= hit[0].to &&
		      hit[0].to <= t.n);
		str_add(&out, text + hit[0].quote, hit[0].quote_end - hit[0].quote);
	}
	return out.p;
}

static const char story[] =
	"The ferry sails at nine. Tickets are sold on the pier.\n\nIn winter the lighthouses are lit by old keepers, who live there with their "
	"cats and dogs, and who come ashore once a month to buy what they need for the time that follows.\n\n"
	"The harbour master wrote a book about caf\xc3\xa9s and storms, which nobody has read, although it lies in every shop of the town and "
	"in the houses of all the captains who ever sailed from here.";

TEST(words_are_found_in_other_forms)
{
	struct passage_index *x = open_index(NULL);

	CHECK_STR(ask(x, story, "When does the ferry sail?"), "The ferry sails at nine.");
	CHECK(strstr(ask(x, story, "Who keeps the lighthouse?"), "lighthouses"));
	CHECK(strstr(ask(x, story, "a book on cafe and STORM"), "harbour master"));
	CHECK_STR(ask(x, story, "zebra"), "");
	CHECK_STR(ask(x, story, ""), "");
	CHECK_STR(ask(x, "", "ferry"), "");
	passage_index_close(x);
}

TEST(scripts_without_blanks_and_right_to_left_are_found)
{
	struct passage_index *x = open_index(NULL);

	CHECK_STR(ask(x, "京都は古い都です。東京は日本の首都です。大阪は商人の町です。", "日本の首都はどこですか"),
	          "東京は日本の首都です。");
	CHECK_STR(ask(x, "北京是中国的首都。上海是最大的城市。", "最大的城市是哪里？"), "上海是最大的城市。");
	/* Endings and question words tell nothing about the subject of a question. */
	CHECK_STR(ask(x, "これはどこにありますか。\n\n暗号は別紙に書く。", "暗号はどこにありますか"),
	          "暗号は別紙に書く。");
	CHECK_STR(ask(x, "什么是什么？如何如何？\n\n备份每天进行。", "如何备份？什么时候？"), "备份每天进行。");
	CHECK_STR(ask(x, "무엇입니까, 어떻게 합니까.\n\n값은 구천원.", "값은 무엇입니까"), "값은 구천원.");
	CHECK(strstr(ask(x, "กรุงเทพเป็นเมืองหลวงของประเทศไทย\n\nเชียงใหม่อยู่ทางเหนือ", "เมืองหลวงของไทย"), "กรุงเทพ"));
	CHECK_STR(ask(x, "القاهرة عاصمة مصر. دمشق عاصمة سوريا.", "ما هي عاصمة سوريا؟"), "دمشق عاصمة سوريا.");
	CHECK_STR(ask(x, "हिन्दी भारत की भाषा है। नेपाली नेपाल की भाषा है।", "नेपाल की भाषा"), "नेपाली नेपाल की भाषा है।");
	passage_index_close(x);
}

/* Return the folded words of a text, separated by blanks. */
static const char *folded(const char *text)
{
	static struct str out, s;

	words_fold(text, strlen(text), &s);
	str_clear(&out);
	str_adds(&out, "");
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] != ' ' || (out.n && out.p[out.n - 1] != ' '))
			str_add(&out, s.p + i, 1);
	while (out.n && out.p[out.n - 1] == ' ')
		out.p[--out.n] = 0;
	return out.p;
}

/* All spellings of a word fold to one form. */
TEST(other_forms_of_characters_are_the_same)
{
	/* clang-format off */
	static const char *const same[][2] = {
		{ "\xef\xba\x8d\xef\xbb\x9f\xef\xba\xa0\xef\xba\xb4\xef\xba\xae", "الجسر" }, /* Arabic presentation forms */
		{ "\xef\xbb\xbb\xef\xba\xa1", "لاح" },
		{ "كَتَبَ", "كتب" }, /* harakat */
		{ "أكل", "اكل" },
		{ "مــد", "مد" }, /* tatweel */
		{ "שָׁלוֹם", "שלום" }, /* niqqud */
		{ "\xef\xac\xaa\xef\xad\x8b", "שו" }, /* Hebrew presentation forms */
		{ "\xe2\xbe\xbc\xe2\xbe\x95\xe2\xbc\xa5", "高谷女" }, /* Kangxi radicals */
		{ "\xe2\xbb\x91\xe2\xbb\x99", "長韦" }, /* other radicals */
		{ "\xe1\x84\x92\xe1\x85\xa1\xe1\x86\xab\xe1\x84\x80\xe1\x85\xb3\xe1\x86\xaf", "한글" }, /* jamo */
		{ "so\xc2\xadlar\xe2\x80\x8b" "pa\xef\xbb\xbfnel\xe2\x81\xa0s\xe2\x80\x8d", "solarpanels" },
		{ "o\xef\xac\x83" "ce \xef\xac\x82oor", "office floor" },
		{ "ｆｅｒｒｙ　４２", "ferry 42" },
		{ "\xef\xbd\xb6\xef\xbe\x9e\xef\xbd\xb7", "ガキ" }, /* half-width katakana */
		{ "straße", "strasse" },
		{ "ΟΔΌΣ οδός", "οδοσ οδοσ" },
		{ "cafe\xcc\x81 été", "cafe ete" },
		{ "Ёлка", "елка" },
		{ "мои\xcc\x86", "мой" },
		{ "việt", "viet" },
		{ "linux™ m² 10³ 5㎏ x½", "linux tm m 2 10 3 5 kg x 1 2" },
		{ "a—b c\xc2\xa0" "d\xe3\x80\x80" "e", "a b c d e" },
	};
	/* clang-format on */
	static const char *const others[][2] = { { "か", "が" }, { "мой", "мои" }, { "हिन्दी", "हन्द" }, { "กิน", "กน" } };

	for (size_t i = 0; i < LEN(same); i++) {
		char *want = xstrndup(folded(same[i][1]), strlen(folded(same[i][1])));

		CHECK_STR(folded(same[i][0]), want);
		CHECK_STR(folded(want), want);
		free(want);
	}
	for (size_t i = 0; i < LEN(others); i++) {
		char *other = xstrndup(folded(others[i][1]), strlen(folded(others[i][1])));

		CHECK_MSG(strcmp(folded(others[i][0]), other) != 0, "%s", others[i][0]);
		free(other);
	}
	CHECK_STR(folded("हिन्दी"), "हिन्दी");
	/* Invalid bytes end words. */
	CHECK_STR(folded("a\xff"
	                 "b\xe2\x82 \xc3\xa9\x80\xc3\xa8\xc2\xad\xc3"),
	          "a b e e");
	CHECK_STR(folded("\xc2\xad"), "");
}

TEST(texts_in_other_forms_are_found)
{
	/* clang-format off */
	static const char *const found[][2] = { /* text, question */
		{ "\xef\xba\x8d\xef\xbb\x9f\xef\xba\xa0\xef\xba\xb4\xef\xba\xae \xef\xb7\xba", "الجسر" },
		{ "הַגֶּשֶׁר תֻּקַּן", "הגשר" },
		{ "The light\xc2\xadhouse is lit.", "lighthouse" },
		{ "The lighthouse is lit.", "light\xc2\xadhouse" },
		{ "\xe2\xbe\xbc\xe2\xbe\x95\xe2\xbc\xa5", "高谷女" },
		{ "Ｂｒｉｄｇｅ was mended.", "Who mended the bridge?" },
		{ "The o\xef\xac\x83" "ce is shut.", "office" },
		{ "\xe1\x84\x92\xe1\x85\xa1\xe1\x86\xab\xe1\x84\x80\xe1\x85\xb3\xe1\x86\xaf", "한글" },
		{ "Der Fluß ist tief.", "FLUSS" },
	};
	/* clang-format on */
	struct passage_index *x = open_index(NULL);

	for (size_t i = 0; i < LEN(found); i++)
		CHECK_STR(ask(x, found[i][0], found[i][1]), found[i][0]);
	passage_index_close(x);
}

TEST(hostile_questions_are_only_words)
{
	/* clang-format off */
	static const char *const hostile[] = {
		"\"", "\"\"\"", "ferry\" OR \"x", "NEAR(ferry sail)", "text:ferry", "ferry*", "^ferry", "ferry AND NOT", "-ferry", "{text}:x", "'; DROP TABLE sentence;--",
		"\xff\xfe", "\xe6\x97", "\xc2", "(((((((", "+ +", "ferry + sail", "%s%n", "\x01\x02", "\xef\xbf\xbe", "\xcc\x81\xcc\x81", "\xe0\xb8\xb4",
		/* Malformed bytes between letters. SQLite's tokenizer decodes these bytes to a letter. It takes the
		 * valid encoding of the same letter for a blank. */
		"\xd8\xb9\xe3\x80\x82\xa6\x96\xd8\xa7\xd9\x84\xd9\x82",
	};
	/* clang-format on */
	struct passage_index *x = open_index(NULL);
	struct indexed_text t = { story, sizeof story - 1 };
	struct found_passage hit[3];
	struct str s = { 0 };
	struct err err = { 0 };

	for (size_t i = 0; i < LEN(hostile); i++)
		ask(x, story, hostile[i]);
	CHECK_INT(passages_find(x, &t, 1, "ferry\0ferry", 11, hit, 3, &err), 1);
	for (int i = 0; i < 20000; i++)
		str_addf(&s, "word%d ", i);
	str_adds(&s, "ferry");
	CHECK(passages_find(x, &t, 1, s.p, s.n, hit, 3, &err) >= 0);
	for (int round = 0; round < 300; round++) {
		str_clear(&s);
		for (int i = (int)(test_rand() % 40); i >= 0; i--)
			str_add(&s, (char[]){ (char)test_rand() }, 1);
		CHECK_MSG(passages_find(x, &t, 1, s.p, s.n, hit, 3, &err) >= 0, "%s", err.msg);
	}
	CHECK_STR(ask(x, story, "ferry"), "The ferry sails at nine.");
	str_free(&s);
	passage_index_close(x);
}

TEST(several_texts_are_told_apart)
{
	struct passage_index *x = open_index(NULL);
	struct indexed_text t[3] = { { "A red house.", 12 },
		                     { story, sizeof story - 1 },
		                     { "A blue house by the sea.", 24 } };
	struct found_passage hit[5];
	struct err err = { 0 };

	CHECK_INT(passages_find(x, t, 3, "blue house", 10, hit, 5, &err) >= 2, 1);
	CHECK_INT(hit[0].text, 2);
	CHECK_INT(hit[1].text, 0);
	/* Only the given texts are searched, whatever else is indexed. */
	CHECK_INT(passages_find(x, t, 1, "blue house", 10, hit, 5, &err), 1);
	CHECK_INT(hit[0].text, 0);
	CHECK_INT(passages_find(x, t, 0, "blue house", 10, hit, 5, &err), 0);
	passage_index_close(x);
}

/* ---- the store ---- */

static int64_t index_text(struct store *s, int64_t session, const char *text)
{
	struct stored_document d = { .name = "a.txt", .text = text, .n_text = strlen(text) };
	int64_t id = 0;

	OK(session_add_document(s, session, &d, &id, e));
	return id;
}

TEST(a_text_is_indexed_once_and_deleted_with_its_last_document)
{
	struct place p;
	struct store *s = place_make(&p);
	int64_t one = begin(s, "one"), two = begin(s, "two"), id;
	struct passage_index *x = open_index(s);

	id = index_text(s, one, story);
	index_text(s, two, story);
	index_text(s, two, "The zeppelin is in the hangar.");
	CHECK_STR(ask(x, story, "ferry"), "The ferry sails at nine.");
	CHECK_STR(ask(x, "The zeppelin is in the hangar.", "zeppelins"), "The zeppelin is in the hangar.");
	CHECK_INT(place_count(s, "passages"), 2);
	passage_index_close(x);
	place_reopen(&p, &s);
	x = open_index(s);
	CHECK_STR(ask(x, story, "ferry"), "The ferry sails at nine.");
	CHECK_INT(place_count(s, "passages"), 2);
	OK(session_drop_document(s, one, id, e));
	CHECK_INT(place_count(s, "passages"), 2);
	OK(session_delete(s, two, e));
	CHECK_INT(place_count(s, "passages"), 0);
	check_clean(s, __LINE__);
	passage_index_close(x);
	CHECK(!on_disk(p.dir, "zeppelin"));
	CHECK(!on_disk(p.dir, "hangar"));
	place_remove(&p);
}

struct watched {
	size_t done, total, calls, stop_at;
};

static int watch(size_t done, size_t total, void *ud)
{
	struct watched *w = ud;

	CHECK(done >= w->done && done <= total);
	w->done = done;
	w->total = total;
	return ++w->calls == w->stop_at;
}

TEST(indexing_is_watched_and_stopped)
{
	struct place p;
	struct store *s = place_make(&p);
	struct passage_index *x = open_index(s);
	struct watched w = { .stop_at = 3 };
	struct str text = { 0 };
	struct indexed_text t;
	struct found_passage found[4];
	struct err why = { 0 };

	for (int i = 0; i < 2000; i++)
		str_addf(&text, i % 50 ? "The bakery opens at %d.\n\n" : "The ferry sails at hour %d.\n\n", i);
	t = (struct indexed_text){ text.p, text.n };
	passage_index_watch(x, watch, &w);
	CHECK_INT(passages_find(x, &t, 1, "ferry", 5, found, 4, &why), -1);
	CHECK_INT(why.code, ERR_CANCELLED);
	CHECK_INT(w.calls, 3);
	CHECK_INT(place_count(s, "passages"), 0);
	w = (struct watched){ .stop_at = 0 };
	CHECK_INT(passages_find(x, &t, 1, "ferry", 5, found, 4, &why), 4);
	CHECK(w.calls > 4 && w.total > text.n - 4);
	CHECK_INT(place_count(s, "passages"), 1);
	w.calls = 0;
	CHECK_INT(passages_find(x, &t, 1, "hour", 4, found, 4, &why), 4);
	CHECK_INT(w.calls, 0);
	passage_index_close(x);
	str_free(&text);
	place_remove(&p);
}

TEST(a_damaged_index_is_made_anew)
{
	static const char *const harm[] = {
		"UPDATE passages SET rows=zeroblob(12)",
		"UPDATE passages SET n=n+1",
		"UPDATE passages SET id=id+5",
		"UPDATE passages SET sum=1",
		"UPDATE sentence_data SET block=zeroblob(30) WHERE id>10",
		"DELETE FROM sentence_data",
		"UPDATE sentence_data SET block=x'ff' WHERE id=10",
		"UPDATE sentence_data SET block=randomblob(length(block))",
	};

	for (size_t i = 0; i < LEN(harm); i++) {
		struct place p;
		struct store *s = place_make(&p);
		struct str report = { 0 };
		struct err err = { 0 };
		struct passage_index *x = open_index(s);
		int64_t session = begin(s, "it");

		index_text(s, session, story);
		ask(x, story, "ferry");
		passage_index_close(x);
		place_sql(&p, &s, harm[i]);
		if (i % 2) {
			CHECK_MSG(store_check(s, &report, &err) == 1 &&
			                  strstr(report.p, "the index of documents was not"),
			          "%s: %s%s", harm[i], report.p, err.msg);
			check_clean(s, __LINE__);
		}
		x = open_index(s);
		CHECK_MSG(!strcmp(ask(x, story, "ferry"), "The ferry sails at nine."), "%s", harm[i]);
		passage_index_close(x);
		OK(session_delete(s, session, e));
		check_clean(s, __LINE__);
		str_free(&report);
		place_remove(&p);
	}
}

/* Random bytes can mean any length; for some of them SQLite reports "no memory". One block is damaged, or all; then
 * the index is searched, or a text is deleted from it. */
TEST(an_index_of_random_bytes_is_made_anew)
{
	static const char *const where[] = { "", " WHERE id>10", " WHERE id=10", " WHERE id=1" };
	static const char other_text[] = "Another text, which stays. The mill turns at noon.";

	for (int i = 0; i < 16; i++) {
		struct place p;
		struct store *s = place_make(&p);
		struct passage_index *x = open_index(s);
		struct str sql = { 0 };
		int64_t session = begin(s, "it"), other = begin(s, "other");

		index_text(s, session, story);
		ask(x, story, "ferry");
		index_text(s, other, other_text);
		ask(x, other_text, "mill");
		passage_index_close(x);
		str_adds(&sql, "UPDATE sentence_data SET block=substr(x'");
		for (int k = 0; k < 256; k++)
			str_addf(&sql, "%02x", (unsigned)(test_rand() & 255));
		str_addf(&sql, "',1,max(length(block),%d))%s", 4 + i, where[i % 4]);
		place_sql(&p, &s, sql.p);
		if (i / 4 % 2)
			OK(session_delete(s, session, e));
		x = open_index(s);
		CHECK_MSG(!strcmp(ask(x, other_text, "mill"), "The mill turns at noon."), "%s", sql.p);
		if (i / 4 % 2 == 0)
			CHECK_MSG(!strcmp(ask(x, story, "ferry"), "The ferry sails at nine."), "%s", sql.p);
		passage_index_close(x);
		check_clean(s, __LINE__);
		str_free(&sql);
		place_remove(&p);
	}
}

TEST(an_index_beside_a_writer_is_in_memory)
{
	struct place p;
	struct store *s = place_make(&p), *beside = NULL;
	struct store_options o = { .dir = p.dir, .read_only = 1 };
	struct passage_index *x;

	begin(s, "it");
	OK(store_open(&beside, &o, e));
	x = open_index(beside);
	CHECK_STR(ask(x, story, "ferry"), "The ferry sails at nine.");
	CHECK_INT(place_count(s, "passages"), 0);
	passage_index_close(x);
	store_close(beside);
	place_remove(&p);
}

/* ---- vectors ---- */

TEST(vectors_are_stored_by_text_and_encoder)
{
	struct place p;
	struct err err = { 0 };
	struct store *s = place_make(&p);
	struct passage_index *x = open_index(s);
	struct indexed_text t = { "The ferry sails at nine.", 24 }, other = { "The bakery opens at six.", 24 };
	struct str in = { 0 }, out = { 0 };

	str_add(&in, "\1\0\2\377", 4);
	CHECK_INT(vectors_read(x, &t, 7, &out, &err), 0);
	CHECK_INT(vectors_write(x, &t, 7, &in, &err), 0);
	CHECK_INT(vectors_read(x, &t, 7, &out, &err), 1);
	CHECK(out.n == 4 && !memcmp(out.p, in.p, 4));
	CHECK_INT(vectors_read(x, &t, 8, &out, &err), 0);
	CHECK_INT(vectors_read(x, &other, 7, &out, &err), 0);
	/* A longer list replaces the first. */
	str_add(&in, "abcd", 4);
	CHECK_INT(vectors_write(x, &t, 7, &in, &err), 0);
	CHECK_INT(vectors_read(x, &t, 7, &out, &err), 1);
	CHECK_INT(out.n, 8);
	CHECK_INT(place_count(s, "vectors"), 1);
	/* A damaged row counts as missing and is deleted. */
	CHECK_INT(db_run(&s->db, &err, "UPDATE vectors SET data=x'01'", ""), 0);
	CHECK_INT(vectors_read(x, &t, 7, &out, &err), 0);
	CHECK_INT(place_count(s, "vectors"), 0);
	str_free(&in);
	str_free(&out);
	passage_index_close(x);
	place_remove(&p);
}

TEST(vectors_leave_with_the_last_document_of_their_text)
{
	struct place p;
	struct err err = { 0 };
	struct store *s = place_make(&p);
	struct passage_index *x = open_index(s);
	struct stored_document d = { .name = "a", .text = "The ferry sails at nine.", .n_text = 24 };
	struct indexed_text t = { d.text, d.n_text };
	struct str in = { 0 };
	int64_t session, one, two;

	str_adds(&in, "bytes");
	CHECK_INT(session_new(s, "x", &session, &err), 0);
	CHECK_INT(session_add_document(s, session, &d, &one, &err), 0);
	CHECK_INT(session_add_document(s, session, &d, &two, &err), 0);
	CHECK_INT(vectors_write(x, &t, 7, &in, &err), 0);
	CHECK_INT(session_drop_document(s, session, one, &err), 0);
	CHECK_INT(place_count(s, "vectors"), 1);
	CHECK_INT(session_drop_document(s, session, two, &err), 0);
	CHECK_INT(place_count(s, "vectors"), 0);
	str_free(&in);
	passage_index_close(x);
	place_remove(&p);
}

TEST(vectors_of_an_index_in_memory_may_be_cached)
{
	struct place p;
	struct err err = { 0 };
	struct store *s = place_make(&p);
	struct indexed_text t = { "The ferry sails at nine.", 24 };
	struct passage_index *x;
	struct str in = { 0 }, out = { 0 }, path = { 0 };
	char number[16];

	str_addf(&path, "%s/vectors.db", p.dir);
	str_adds(&in, "bytes");
	CHECK_INT(passage_index_open(&x, NULL, &err), 0);
	passage_index_cache(x, path.p);
	CHECK_INT(vectors_write(x, &t, 7, &in, &err), 0);
	passage_index_close(x);
	CHECK_INT(passage_index_open(&x, NULL, &err), 0);
	CHECK_INT(vectors_read(x, &t, 7, &out, &err), 0);
	passage_index_cache(x, path.p);
	CHECK_INT(vectors_read(x, &t, 7, &out, &err), 1);
	CHECK(out.n == 5 && !memcmp(out.p, "bytes", 5));
	/* The vectors of all texts of a large folder are kept; above 64 MiB in total those of older texts are
	 * dropped. */
	for (int i = 0; i < 1100; i++) {
		for (int k = 0; i == 1000 && k < 1 << 17; k++)
			str_adds(&in, "01234567");
		snprintf(number, sizeof number, "%d", i);
		CHECK_INT(vectors_write(x, &(struct indexed_text){ number, strlen(number) }, 7, &in, &err), 0);
		if (i == 999)
			CHECK_INT(vectors_read(x, &t, 7, &out, &err), 1);
	}
	CHECK_INT(vectors_read(x, &t, 7, &out, &err), 0);
	CHECK_INT(vectors_read(x, &(struct indexed_text){ "1099", 4 }, 7, &out, &err), 1);
	passage_index_close(x);
	/* A damaged file is deleted, and the vectors stay in memory. */
	CHECK_INT(truncate(path.p, 5000), 0);
	CHECK_INT(passage_index_open(&x, NULL, &err), 0);
	passage_index_cache(x, path.p);
	CHECK_INT(vectors_write(x, &t, 7, &in, &err), 0);
	CHECK_INT(vectors_read(x, &t, 7, &out, &err), 1);
	passage_index_close(x);
	/* An index in a store does not use the file. */
	x = open_index(s);
	passage_index_cache(x, path.p);
	CHECK_INT(vectors_read(x, &t, 7, &out, &err), 0);
	passage_index_close(x);
	str_free(&in);
	str_free(&out);
	str_free(&path);
	place_remove(&p);
}
