/* tests/ui/t_panes.c - the panes of sessions and documents, and their parts.
 *
 * Whole screens are compared with tests/vectors/panes_NAME.txt (WEIR_SCREENS=write rewrites the files: look at the
 * difference before a commit); then keys are tested. */
#include "tests/lib/pane_screens.h"
#include "ui/panes/pane_documents.h"
#include "ui/screen/widgets.h"

#include <math.h>

/* ---- numbers ---- */

TEST(numbers)
{
	static const int64_t extreme[] = { INT64_MIN, INT32_MIN, -1,     0,       9999,      10000,
		                           99999,     100000,    999999, 1000000, INT32_MAX, INT64_MAX };

	CHECK_STR(num_count(0).s, "0");
	CHECK_STR(num_count(999).s, "999");
	CHECK_STR(num_count(1000).s, "1,000");
	CHECK_STR(num_count(-18204).s, "-18,204");
	CHECK_STR(num_count(INT64_MAX).s, "9,223,372,036,854,775,807");
	CHECK_STR(num_count(INT64_MIN).s, "-9,223,372,036,854,775,808");
	CHECK_STR(num_short(9999).s, "9,999");
	CHECK_STR(num_short(10000).s, "10.0k");
	CHECK_STR(num_short(99999).s, "99.9k");
	CHECK_STR(num_short(100000).s, "100k");
	CHECK_STR(num_short(1610000).s, "1.61M");
	CHECK_STR(num_short(INT32_MAX).s, "2.14G");
	for (size_t i = 0; i < LEN(extreme); i++)
		CHECK(strlen(num_short(extreme[i]).s) <= 6);
	CHECK_STR(num_fit(18204, 6).s, "18,204");
	CHECK_STR(num_fit(18204, 5).s, "18.2k");
	CHECK_STR(num_bytes(0).s, "0 B");
	CHECK_STR(num_bytes(676ull << 20).s, "676 MiB");
	CHECK_STR(num_bytes((1ull << 30) - 1).s, "1.0 GiB");
	CHECK_STR(num_bytes(UINT64_MAX).s, "16.0 EiB");
	CHECK_STR(num_percent(0).s, "0%");
	CHECK_STR(num_percent(0.0001).s, "<1%");
	CHECK_STR(num_percent(0.9999).s, "99%");
	CHECK_STR(num_percent(1).s, "100%");
	CHECK_STR(num_percent(-1).s, "-");
	CHECK_STR(num_percent((double)NAN).s, "-");
	CHECK_STR(num_percent((double)INFINITY).s, "-");
	CHECK_STR(num_wait(0).s, "instant");
	CHECK_STR(num_wait(0.2).s, "~1 s");
	CHECK_STR(num_wait(40).s, "~40 s");
	CHECK_STR(num_wait(700).s, "~12 min");
	CHECK_STR(num_wait(-1).s, "?");
	CHECK_STR(num_wait((double)NAN).s, "?");
	CHECK_STR(num_wait(1e300).s, ">999 h");
	CHECK_STR(num_age(1000, 1059).s, "now");
	CHECK_STR(num_age(1000, 1300).s, "5 min ago");
	CHECK_STR(num_age(2000, 1000).s, "now");
	CHECK_STR(num_age(0, 86400 * 29).s, "29 days ago");
	CHECK_STR(num_age(INT64_MIN, INT64_MAX).s, "long ago");
	CHECK_STR(num_age(INT64_MAX, INT64_MIN).s, "now");
}

TEST(words_in_text)
{
	static const char text[] = "The Tenant shall pay\nthe rent. \xc3\x84pfel und \xc3\xa4pfel";
	size_t len, n = sizeof text - 1;

	CHECK_INT(words_find(text, n, 0, "tenant", 6, 1, &len), 4);
	CHECK_INT(words_find(text, n, 0, "tenant", 6, 0, &len), (long long)SIZE_MAX);
	CHECK_INT(words_find(text, n, 0, "pay the", 7, 1, &len), 17);
	CHECK_INT(len, 7);
	CHECK_INT(words_find(text, n, 0, " rent. ", 7, 1, &len), 25);
	CHECK_INT(words_find(text, n, 0, "the", 3, 1, &len), 0);
	CHECK_INT(words_find(text, n, 1, "the", 3, 1, &len), 21);
	CHECK_INT(words_find(text, n, 0, "   ", 3, 1, &len), (long long)SIZE_MAX);
	CHECK_INT(words_find(text, n, 0, "\xc3\xa4pfel", 6, 0, &len), 42);
	CHECK(has_capitals("abC", 3) && !has_capitals("abc 1", 5));
}

TEST(editing_a_line)
{
	struct edit e = { 0 };
	struct key k;

	edit_set(&e, "one two", 7);
	k = control('w');
	CHECK_INT(edit_key(&e, &k), 1);
	CHECK_STR(e.text.p, "one ");
	k = letter(0x65e5);
	edit_key(&e, &k);
	k = letter(0x301); /* a mark on it: both are erased in one step */
	edit_key(&e, &k);
	CHECK_INT(e.text.n, 9);
	k = (struct key){ .code = K_BACKSPACE };
	edit_key(&e, &k);
	CHECK_STR(e.text.p, "one ");
	k = (struct key){ .code = K_PASTE, .bytes = "a\nb\x1b[31m\xff", .n = 9 };
	CHECK_INT(edit_key(&e, &k), 1);
	CHECK_STR(e.text.p, "one a b [31m\xef\xbf\xbd");
	k = (struct key){ .code = K_HOME };
	edit_key(&e, &k);
	k = letter('>');
	edit_key(&e, &k);
	CHECK_STR(e.text.p, ">one a b [31m\xef\xbf\xbd");
	k = letter(0x110000);
	CHECK_INT(edit_key(&e, &k), 0);
	k = (struct key){ .code = K_F, .cp = 1 };
	CHECK_INT(edit_key(&e, &k), 0);
	k = letter('x');
	for (int i = 0; i < 1000; i++)
		edit_key(&e, &k);
	CHECK_INT(e.text.n, EDIT_MOST);
	edit_free(&e);
}

/* ---- sessions ---- */

static void sessions_screens(int ascii, struct str *out)
{
	static const char preview[] =
		"You\nWhat does clause 17 say about the deposit?\n\nThe deposit is two months' rent; it is held in "
		"an account of its own and returned within six weeks after the lease ends.\n";
	static const struct ui_session found[] = {
		{ 11, "lease-review", "", "m",
		  "the \x01"
		  "deposit\x02 is two months' rent, and \x1b]0;x\x07 the \x01"
		  "deposit\x02 is held",
		  NOW - 300, 14, 18204, 676ull << 20, 0, 1, 0, 0 },
		{ 13, "novel", "", "m",
		  "a \x01"
		  "deposit\x02 of clay",
		  NOW - 86400 * 3, 120, 1234567, 0, 40, 0, 0, 0 },
	};

	for (int i = 0; i < 4; i++) {
		struct pane *p = sessions_sample(ascii);
		int w = size[i][0], h = size[i][1];
		struct ui_action act;

		sessions_draw(p, w, h);
		add_screen(out, "sessions");
		PRESS(K_TAB);
		sessions_pane_preview(p, 11, preview, sizeof preview - 1);
		sessions_draw(p, w, h);
		add_screen(out, "sessions, preview");
		PRESS(K_TAB);
		press(p, control('r'), &act);
		type(p, "-2", &act);
		sessions_draw(p, w, h);
		add_screen(out, "sessions, rename");
		PRESS(K_ESC);
		press(p, control('d'), &act);
		sessions_draw(p, w, h);
		add_screen(out, "sessions, delete");
		PRESS(K_ESC);
		type(p, "qwen", &act);
		sessions_draw(p, w, h);
		add_screen(out, "sessions, filter");
		PRESS(K_ESC);
		type(p, "/deposit", &act);
		PRESS(K_ENTER);
		sessions_pane_post(p, found, 2, NOW);
		sessions_draw(p, w, h);
		add_screen(out, "sessions, found");
		pane_free(p);
	}
}

TEST(sessions_screens)
{
	struct str s = { 0 };

	sessions_screens(0, &s);
	compare("sessions", &s);
	str_free(&s);
}

TEST(sessions_filter)
{
	struct pane *p = sessions_sample(0);
	struct ui_action act;
	struct key k;

	/* The session on the screen is selected first. */
	CHECK_INT(PRESS(K_ENTER), PANE_ACTION);
	CHECK_INT(act.what, UI_SWITCH);
	CHECK_INT(act.id, 11);
	/* The filter's words may be in name, title or model, in any case. */
	CHECK_INT(type(p, "HERON smol", &act), PANE_USED);
	sessions_draw(p, 80, 24);
	CHECK_SAYS("1 of 5");
	CHECK_SAYS("limerick");
	CHECK_SAYS_NOT("novel");
	CHECK_INT(PRESS(K_ENTER), PANE_ACTION);
	CHECK_INT(act.id, 12);
	/* Esc clears the filter, then closes the pane; the same session stays selected. */
	CHECK_INT(PRESS(K_ESC), PANE_USED);
	PRESS(K_ENTER);
	CHECK_INT(act.id, 12);
	CHECK_INT(PRESS(K_ESC), PANE_CLOSE);
	type(p, "zzz", &act);
	sessions_draw(p, 80, 24);
	CHECK_SAYS("no session has that");
	CHECK_INT(PRESS(K_ENTER), PANE_USED);
	k = control('d');
	CHECK_INT(pane_press(p, &k, &act), PANE_USED);
	CHECK_INT(PRESS(K_F), PANE_NOT_MINE);
	pane_free(p);
}

TEST(sessions_moving)
{
	struct pane *p = sessions_sample(0);
	struct ui_action act;
	struct ui_session many[300];

	memset(many, 0, sizeof many);
	for (int i = 0; i < 300; i++)
		many[i] = (struct ui_session){
			.id = i + 1, .name = "x", .title = "", .model = "", .snippet = "", .used = NOW - i
		};
	pane_opened(p);
	sessions_pane_post(p, many, 300, NOW);
	sessions_draw(p, 80, 24);
	PRESS(K_END);
	PRESS(K_ENTER);
	CHECK_INT(act.id, 300);
	sessions_draw(p, 80, 24);
	PRESS(K_PAGE_UP);
	PRESS(K_ENTER);
	CHECK_INT(act.id, 300 - 21);
	PRESS(K_UP);
	PRESS(K_UP);
	PRESS(K_DOWN);
	PRESS(K_ENTER);
	CHECK_INT(act.id, 300 - 22);
	PRESS(K_HOME);
	PRESS(K_ENTER);
	CHECK_INT(act.id, 1);
	sessions_draw(p, 80, 24);
	/* The wheel, and a click. The list begins at row 2. */
	press(p, (struct key){ .code = K_MOUSE, .cp = 5 }, &act);
	PRESS(K_ENTER);
	CHECK_INT(act.id, 4);
	sessions_draw(p, 80, 24);
	press(p, (struct key){ .code = K_MOUSE, .cp = 1, .x = 3, .y = 9 }, &act);
	PRESS(K_ENTER);
	CHECK_INT(act.id, 8);
	/* The same session stays selected when the list changes. */
	sessions_pane_post(p, many + 5, 295, NOW);
	PRESS(K_ENTER);
	CHECK_INT(act.id, 8);
	pane_free(p);
}

TEST(sessions_actions)
{
	struct pane *p = sessions_sample(0);
	struct ui_action act;

	PRESS(K_DOWN);
	PRESS(K_DOWN);
	/* Rename: Esc cancels, Enter takes the name without blanks around it. */
	press(p, control('r'), &act);
	type(p, "x", &act);
	CHECK_INT(PRESS(K_ESC), PANE_USED);
	press(p, control('r'), &act);
	press(p, control('u'), &act);
	type(p, "  my novel ", &act);
	CHECK_INT(PRESS(K_ENTER), PANE_ACTION);
	CHECK_INT(act.what, UI_RENAME);
	CHECK_INT(act.id, 13);
	CHECK_INT(act.n, 8);
	CHECK(!memcmp(act.text, "my novel", 8));
	press(p, control('r'), &act);
	press(p, control('u'), &act);
	CHECK_INT(PRESS(K_ENTER), PANE_USED);
	CHECK_STR(p->say, "a name needs a letter: the old one stays");
	/* Delete: only y confirms. */
	press(p, control('d'), &act);
	sessions_draw(p, 80, 24);
	CHECK_SAYS("delete 'novel'? y/n");
	/* The row of keys shows the keys of the question. */
	CHECK_STR(sessions_pane.asks(p)->does, "Delete");
	CHECK_INT(type(p, "n", &act), PANE_USED);
	CHECK_STR(p->say, "nothing is deleted: only y deletes");
	press(p, control('d'), &act);
	CHECK_INT(PRESS(K_ENTER), PANE_USED);
	CHECK_STR(p->say, "nothing is deleted: only y deletes");
	press(p, control('d'), &act);
	CHECK_INT(press(p, (struct key){ .code = K_PASTE, .bytes = "y", .n = 1 }, &act), PANE_USED);
	press(p, control('d'), &act);
	CHECK_INT(type(p, "y", &act), PANE_ACTION);
	CHECK_INT(act.what, UI_DELETE);
	CHECK_INT(act.id, 13);
	/* If the session of the question is gone, no other one is deleted in its place. */
	press(p, control('d'), &act);
	sessions_pane_post(p, sessions, 2, NOW);
	CHECK_INT(type(p, "y", &act), PANE_USED);
	PRESS(K_ESC);
	sessions_pane_post(p, sessions, SESSIONS_N, NOW);
	CHECK_INT(press(p, control('f'), &act), PANE_ACTION);
	CHECK_INT(act.what, UI_FORK);
	/* The possible answers are readable on 20 columns, too. */
	press(p, control('d'), &act);
	sessions_draw(p, 20, 6);
	CHECK_SAYS("y/n");
	pane_free(p);
}

/* If another process has a session open, Enter first asks what to do. */
TEST(sessions_that_others_write)
{
	struct pane *p = sessions_sample(0);
	struct ui_session some[SESSIONS_N];
	struct ui_action act;

	memcpy(some, sessions, sizeof some);
	some[1].writer = 4711;
	some[2].writer = -1;
	sessions_pane_post(p, some, SESSIONS_N, NOW);
	sessions_draw(p, 80, 24);
	CHECK_SAYS("in use");
	CHECK(!sessions_pane.asks(p));
	PRESS(K_DOWN);
	CHECK_INT(PRESS(K_ENTER), PANE_USED);
	sessions_draw(p, 80, 24);
	CHECK_SAYS("open in another weir (process 4711): r reads it, w waits");
	CHECK_STR(sessions_pane.asks(p)->does, "Read only");
	CHECK_INT(PRESS(K_ENTER), PANE_USED);
	CHECK_STR(p->say, "r reads the session, w waits for it, Esc goes back to the list");
	CHECK(sessions_pane.asks(p));
	CHECK_INT(PRESS(K_ESC), PANE_USED);
	CHECK(!p->say && !sessions_pane.asks(p));
	CHECK_INT(PRESS(K_ENTER), PANE_USED);
	CHECK_INT(type(p, "r", &act), PANE_ACTION);
	CHECK(act.what == UI_SWITCH && act.id == some[1].id && !act.n);
	PRESS(K_DOWN);
	CHECK_INT(PRESS(K_ENTER), PANE_USED);
	sessions_draw(p, 80, 24);
	CHECK_SAYS("open in another weir: r reads it, w waits");
	CHECK_INT(type(p, "w", &act), PANE_ACTION);
	CHECK(act.what == UI_SWITCH && act.id == some[2].id && act.n);
	sessions_draw(p, 20, 6);
	pane_free(p);
}

/* Without a session in the list, keys that need one say why they do nothing. */
TEST(sessions_without_a_choice)
{
	struct pane *p = sessions_sample(0);
	struct ui_action act;

	type(p, "no such session", &act);
	for (const char *c = "rdf"; *c; c++) {
		CHECK_INT(press(p, control(*c), &act), PANE_USED);
		CHECK_STR(p->say, "no session is listed: Esc empties the filter");
	}
	CHECK_INT(PRESS(K_ENTER), PANE_USED);
	CHECK_STR(p->say, "no session is listed: Esc empties the filter");
	PRESS(K_ESC);
	sessions_pane_post(p, NULL, 0, NOW);
	CHECK_INT(PRESS(K_ENTER), PANE_USED);
	CHECK_STR(p->say, "no session is saved yet");
	pane_free(p);
}

/* A renamed session that does not match the filter any more is shown until the filter changes. */
TEST(sessions_renamed_under_a_filter)
{
	struct pane *p = sessions_sample(0);
	struct ui_session some[SESSIONS_N];
	struct ui_action act;

	memcpy(some, sessions, sizeof some);
	type(p, "novel", &act);
	press(p, control('r'), &act);
	press(p, control('u'), &act);
	type(p, "book", &act);
	CHECK_INT(PRESS(K_ENTER), PANE_ACTION);
	CHECK(act.what == UI_RENAME && act.id == 13);
	some[2].name = "book";
	sessions_pane_post(p, some, SESSIONS_N, NOW);
	sessions_draw(p, 80, 24);
	CHECK_SAYS("book  Who is the narrator?");
	CHECK_INT(PRESS(K_ENTER), PANE_ACTION);
	CHECK(act.what == UI_SWITCH && act.id == 13);
	type(p, "s", &act);
	sessions_draw(p, 80, 24);
	CHECK_SAYS("no session has that in its name, title or model");
	pane_free(p);
}

/* A new fork is selected when it is listed, and its name is asked for. */
TEST(sessions_fork)
{
	struct pane *p = sessions_sample(0);
	struct ui_session more[SESSIONS_N + 1];
	struct ui_action act;

	more[0] = sessions[1];
	more[0].id = 99;
	more[0].here = 0;
	memcpy(more + 1, sessions, sizeof sessions);
	PRESS(K_DOWN);
	CHECK_INT(press(p, control('f'), &act), PANE_ACTION);
	CHECK(act.what == UI_FORK && act.id == sessions[1].id);
	sessions_pane_post(p, sessions, SESSIONS_N, NOW); /* the fork is not listed yet */
	CHECK_INT(PRESS(K_ENTER), PANE_ACTION);
	CHECK_INT(act.id, sessions[1].id);
	CHECK_INT(press(p, control('f'), &act), PANE_ACTION);
	sessions_pane_post(p, more, SESSIONS_N + 1, NOW);
	press(p, control('u'), &act);
	type(p, "other", &act);
	CHECK_INT(PRESS(K_ENTER), PANE_ACTION);
	CHECK(act.what == UI_RENAME && act.id == 99 && act.n == 5);
	CHECK_INT(PRESS(K_ENTER), PANE_ACTION);
	CHECK(act.what == UI_SWITCH && act.id == 99);
	/* If another session was selected meanwhile, it stays selected. */
	press(p, control('f'), &act);
	PRESS(K_DOWN);
	more[0].id = 100;
	sessions_pane_post(p, more, SESSIONS_N + 1, NOW);
	CHECK_INT(PRESS(K_ENTER), PANE_ACTION);
	CHECK(act.what == UI_SWITCH && act.id != 100);
	pane_free(p);
}

TEST(sessions_undo_of_a_deletion)
{
	struct pane *p = sessions_sample(0);
	struct ui_action act;

	/* After a deletion Ctrl-U restores the session; letters have their usual meaning. */
	PRESS(K_DOWN);
	press(p, control('d'), &act);
	CHECK_INT(type(p, "y", &act), PANE_ACTION);
	sessions_draw(p, 80, 24);
	CHECK_SAYS("': Ctrl-U restores it");
	PRESS(K_DOWN);
	PRESS(K_UP);
	CHECK_INT(press(p, control('u'), &act), PANE_ACTION);
	CHECK_INT(act.what, UI_UNDELETE);
	CHECK_INT(act.id, 12);
	CHECK_INT(press(p, control('u'), &act), PANE_USED); /* a session can be restored only once */
	PRESS(K_ESC);
	press(p, control('d'), &act);
	type(p, "y", &act);
	CHECK_INT(type(p, "a", &act), PANE_USED);
	CHECK_INT(type(p, "u", &act), PANE_USED);
	sessions_draw(p, 80, 24);
	CHECK_SAYS("filter au");
	PRESS(K_ESC);
	/* When the time for restoring is over, Ctrl-U restores nothing. */
	press(p, control('d'), &act);
	type(p, "y", &act);
	sessions_draw(p, 20, 6);
	CHECK_SAYS("Ctrl-U restores it");
	sessions_pane_undo_over(p);
	CHECK_INT(press(p, control('u'), &act), PANE_USED);
	PRESS(K_ESC);
	/* A question asked by a command: the answer no closes the pane. */
	sessions_pane_ask(p, 13);
	sessions_draw(p, 80, 24);
	CHECK_SAYS("delete 'novel'? y/n");
	CHECK_INT(type(p, "n", &act), PANE_CLOSE);
	sessions_pane_ask(p, 13);
	CHECK_INT(type(p, "y", &act), PANE_ACTION);
	CHECK_INT(act.id, 13);
	sessions_pane_ask(p, 999); /* there is no such session: nothing is asked */
	CHECK_INT(type(p, "y", &act), PANE_USED);
	pane_free(p);
}

TEST(sessions_preview)
{
	struct pane *p = sessions_sample(0);
	struct ui_action act;

	CHECK_INT(PRESS(K_DOWN), PANE_USED);
	CHECK_INT(PRESS(K_TAB), PANE_ACTION);
	CHECK_INT(act.what, UI_PREVIEW);
	CHECK_INT(act.id, 12);
	CHECK_INT(PRESS(K_UP), PANE_ACTION);
	CHECK_INT(act.id, 11);
	/* A preview of another session is not shown. */
	sessions_pane_preview(p, 12, "other words", 11);
	sessions_draw(p, 80, 24);
	CHECK_SAYS_NOT("other words");
	sessions_pane_preview(p, 11, "these words\x1b[2J", 15);
	sessions_draw(p, 80, 24);
	CHECK_SAYS("these words^[[2J");
	sessions_draw(p, 120, 40);
	CHECK_SAYS("these words^[[2J");
	PRESS(K_TAB);
	CHECK_INT(PRESS(K_DOWN), PANE_USED);
	pane_free(p);
}

TEST(sessions_find)
{
	struct pane *p = sessions_sample(0);
	struct ui_action act;
	struct ui_session found = sessions[2];

	CHECK_INT(type(p, "/ clay pot", &act), PANE_USED);
	CHECK_INT(pane_paused(p, &act), PANE_ACTION);
	CHECK_INT(act.what, UI_FIND);
	CHECK_INT(act.n, 8);
	CHECK(!memcmp(act.text, "clay pot", 8));
	CHECK_INT(pane_paused(p, &act), PANE_NOT_MINE);
	found.snippet = "a \x01"
			"clay\x02 \x01pot\x02 stood there";
	sessions_pane_post(p, &found, 1, NOW);
	sessions_draw(p, 80, 24);
	CHECK_SAYS("a clay pot stood there");
	CHECK_INT(style_of("clay pot stood"), ST_MATCH);
	CHECK_INT(style_of("stood there"), ST_FAINT);
	/* The matches of these words are listed: Enter goes to the session. */
	CHECK_INT(PRESS(K_ENTER), PANE_ACTION);
	CHECK_INT(act.what, UI_SWITCH);
	CHECK_INT(act.id, 13);
	/* Other words are searched again; without words the list is shown again. */
	type(p, "s", &act);
	CHECK_INT(PRESS(K_ENTER), PANE_ACTION);
	CHECK_INT(act.what, UI_FIND);
	CHECK_INT(PRESS(K_ESC), PANE_ACTION);
	CHECK_INT(act.what, UI_LIST);
	pane_free(p);
}

/* ---- documents ---- */

static void docs_screens(int ascii, struct str *out)
{
	for (int i = 0; i < 4; i++) {
		struct pane *p = docs_sample(ascii);
		int w = size[i][0], h = size[i][1];

		docs_draw(p, w, h);
		add_screen(out, "document");
		docs_type(p, "/tenant");
		docs_draw(p, w, h);
		add_screen(out, "document, search");
		docs_type(p, "\r");
		docs_type(p, "o");
		docs_draw(p, w, h);
		add_screen(out, "document, outline");
		docs_type(p, "\x1b]");
		docs_draw(p, w, h);
		add_screen(out, "document with pages");
		docs_type(p, "o");
		docs_draw(p, w, h);
		add_screen(out, "document with pages, outline");
		pane_free(p);
	}
}

TEST(docs_screens)
{
	struct str s = { 0 };

	docs_screens(0, &s);
	compare("docs", &s);
	str_free(&s);
}

TEST(docs_moving)
{
	struct pane *p = numbered(3000, "n.txt");
	struct key k;

	docs_draw(p, 80, 24);
	CHECK_SAYS("line 1 of the text\n");
	CHECK_SAYS("line 23 of the text\n");
	CHECK_SAYS("lines 1-23 of 3,000");
	docs_type(p, "j");
	docs_draw(p, 80, 24);
	CHECK_SAYS_NOT("line 1 of the text\n");
	CHECK_SAYS("line 24 of the text\n");
	docs_type(p, "f");
	docs_draw(p, 80, 24);
	CHECK_MSG(!strncmp(dump(), "line 24 of", 10), "%.20s", dump());
	docs_type(p, "bk");
	docs_draw(p, 80, 24);
	CHECK(!strncmp(dump(), "line 1 of", 9));
	docs_type(p, "dd");
	docs_draw(p, 80, 24);
	CHECK(!strncmp(dump(), "line 23 of", 10));
	docs_type(p, "u 1500g");
	docs_draw(p, 80, 24);
	CHECK(!strncmp(dump(), "line 1500 of", 12));
	CHECK_SAYS("lines 1,500-1,522 of 3,000");
	docs_type(p, "10j");
	docs_draw(p, 80, 24);
	CHECK(!strncmp(dump(), "line 1510 of", 12));
	docs_type(p, "G");
	docs_draw(p, 80, 24);
	CHECK_SAYS("line 3000 of the text\n");
	CHECK_SAYS("line 2978 of the text\n");
	CHECK_SAYS("lines 2,978-3,000 of 3,000");
	docs_type(p, "50%");
	docs_draw(p, 80, 24);
	CHECK_MSG(!strncmp(dump(), "line 152", 8), "%.20s", dump()); /* 50 % of the bytes, not of the lines */
	CHECK_SAYS("lines 1,52");
	k = (struct key){ .code = K_HOME };
	pane_press(p, &k, NULL);
	k = (struct key){ .code = K_PAGE_DOWN };
	pane_press(p, &k, NULL);
	docs_draw(p, 80, 24);
	CHECK(!strncmp(dump(), "line 23 of", 10));
	/* With another width the place is the same. */
	docs_draw(p, 8, 24);
	docs_draw(p, 80, 24);
	CHECK(!strncmp(dump(), "line 23 of", 10));
	/* Up and down by the same number of lines leads back to the same place. */
	for (int i = 0; i < 200; i++) {
		int n = (int)(test_rand() % 400) + 1;
		struct str before = { 0 }, keys = { 0 };

		str_addf(&keys, "%llug", (unsigned long long)(test_rand() % 2000 + 500));
		docs_type(p, keys.p);
		docs_draw(p, 20 + (int)(test_rand() % 3), 10);
		grid_dump(&screen, 0, &before);
		str_clear(&keys);
		str_addf(&keys, "%dj%dk", n, n);
		docs_type(p, keys.p);
		docs_draw(p, screen.w, 10);
		CHECK_STR(dump(), before.p);
		str_free(&before);
		str_free(&keys);
	}
	CHECK_INT(docs_type(p, "q"), PANE_CLOSE);
	CHECK_INT(docs_type(p, "\x1b"), PANE_CLOSE);
	CHECK_INT(docs_type(p, "x"), PANE_NOT_MINE);
	pane_free(p);
}

TEST(docs_goto)
{
	struct pane *p = numbered(3000, "n.txt");
	struct ui_action act;

	documents_pane_goto(p, "40%");
	docs_draw(p, 80, 24);
	CHECK(!strncmp(dump(), "line 1231 of", 12));
	documents_pane_goto(p, "line 777 of");
	docs_draw(p, 80, 24);
	CHECK_SAYS("line 777 of");
	CHECK_INT(style_of("line 777 of"), ST_MATCH | STYLE_BOLD);
	documents_pane_goto(p, "2000");
	docs_draw(p, 80, 24);
	CHECK(!strncmp(dump(), "line 2000 of", 12));
	documents_pane_goto(p, "p12");
	docs_draw(p, 80, 24);
	CHECK_SAYS("this document has no pages");
	documents_pane_goto(p, "no such words");
	docs_draw(p, 80, 24);
	CHECK_SAYS("not found: no such words");
	documents_pane_goto(p, "");
	documents_pane_goto(p, NULL);
	documents_pane_goto(p, "1e999%");
	documents_pane_goto(p, "-5%");
	docs_draw(p, 80, 24);
	pane_free(p);
	/* Without a document, keys that need one say so, and the others keep their meaning. */
	p = pane_new(&documents_pane, 0);
	documents_pane_goto(p, "p3");
	docs_draw(p, 80, 24);
	CHECK_SAYS("no documents yet: /open FILE adds one");
	for (const char *c = "jk/?nNo[]gG% \t"; *c; c++) {
		CHECK_INT(docs_type(p, (char[]){ *c, 0 }), PANE_USED);
		CHECK_STR(p->say, "there is no document yet to read or search; /open FILE adds one");
	}
	CHECK_INT(PRESS(K_PAGE_DOWN), PANE_USED);
	CHECK(p->say);
	CHECK_INT(PRESS(K_LEFT), PANE_USED);
	CHECK_INT(PRESS(K_UP), PANE_NOT_MINE);
	CHECK_INT(docs_type(p, "x"), PANE_NOT_MINE);
	CHECK(!p->say);
	CHECK_INT(docs_type(p, "q"), PANE_CLOSE);
	pane_free(p);
	/* With one document there is no next one, and n needs words. */
	p = numbered(100, "a.txt");
	docs_draw(p, 80, 6);
	CHECK_INT(PRESS(K_RIGHT), PANE_USED);
	CHECK_STR(p->say, "this is the only document; /open FILE adds another");
	docs_type(p, "n");
	docs_draw(p, 80, 6);
	CHECK_SAYS("no words have been searched for yet; / finds some");
	pane_free(p);
	/* Pages. If nothing follows the last form feed, no page begins there. */
	p = docs_sample(0);
	docs_draw(p, 80, 6);
	docs_type(p, "]");
	docs_draw(p, 80, 4);
	CHECK_SAYS("p. 1/3");
	documents_pane_goto(p, "p3");
	docs_draw(p, 80, 4);
	CHECK_SAYS("Third page");
	docs_type(p, "2p");
	docs_draw(p, 80, 4);
	CHECK_SAYS("p. 2/3");
	documents_pane_goto(p, "page 9");
	docs_draw(p, 80, 4);
	CHECK_SAYS("there are pages 1 to 3");
	docs_type(p, "[");
	docs_draw(p, 80, 24);
	CHECK_SAYS("The lease");
	pane_free(p);
}

/* A place is given in bytes of the posted text; characters dropped or inserted before it move it on the screen. */
TEST(docs_show_a_place)
{
	static const char odd[] = "\x1b[31mred\x1b[0m \xe2\x80\xae x\n\fsecond page\nthe target stands here\n";
	struct pane *p = pane_new(&documents_pane, 0);
	const struct documents_pane *docs = (const struct documents_pane *)p;
	struct ui_document d[2] = { { .name = "n.txt", .text = "one\n", .n = 4 },
		                    { .name = "odd.txt", .text = odd, .n = sizeof odd - 1 } };
	size_t at = (size_t)(strstr(odd, "target") - odd);

	documents_pane_post(p, d, 2);
	docs_draw(p, 60, 4);
	documents_pane_show(p, 1, at, at + 6);
	docs_draw(p, 60, 4);
	CHECK_SAYS("the target stands here");
	CHECK(docs->at == 1 && docs->found_n == 6 && !memcmp(docs->doc[1].text.p + docs->found, "target", 6));
	documents_pane_show(p, 1, sizeof odd + 100, sizeof odd + 900); /* a place beyond the end */
	docs_draw(p, 60, 4);
	documents_pane_show(p, 7, 0, 1);
	CHECK_INT(docs->at, 1);
	pane_free(p);
}

/* The title shows the page and the heading that were asked for, not those of the rows above. */
TEST(docs_tell_the_page_that_was_asked_for)
{
	struct str text = { 0 };
	struct mark mark[] = { { .kind = MARK_PAGE, .text = (char[]){ "1" } },
		               { .kind = MARK_HEADING, .level = 1, .text = (char[]){ "row 0" } },
		               { .kind = MARK_PAGE, .text = (char[]){ "2" } },
		               { .kind = MARK_HEADING, .level = 1, .text = (char[]){ "row 100" } } };
	struct pane *p = pane_new(&documents_pane, 0);
	struct ui_document d[2] = { { .name = "a.pdf", .mark = mark, .n_mark = 4 },
		                    { .name = "b.txt", .text = "one\n", .n = 4 } };

	for (int i = 0; i < 200; i++) {
		if (i == 100)
			mark[2].at = mark[3].at = text.n;
		str_addf(&text, "row %d\n", i);
	}
	d[0].text = text.p;
	d[0].n = text.n;
	documents_pane_post(p, d, 2);
	docs_draw(p, 80, 22);
	documents_pane_show(p, 0, mark[2].at, mark[2].at);
	docs_draw(p, 80, 22);
	CHECK_SAYS("row 99");
	CHECK_SAYS("p. 2 (2/2)");
	CHECK_SAYS("a.pdf  row 100"); /* the heading */
	for (int i = 0; i < 30; i++)
		docs_type(p, "k");
	docs_draw(p, 80, 22);
	CHECK_SAYS("p. 1 (1/2)");
	CHECK_SAYS("a.pdf  row 0");
	str_free(&text);
	pane_free(p);
}

/* Pages and headings come from the marks if the format's text does not show them. */
TEST(docs_have_the_marks_of_their_format)
{
	static const char text[] = "Preface\nof it\nMethods\nwere used here\n# no heading\nLast\n";
	struct mark mark[] = {
		{ .kind = MARK_PAGE, .text = (char[]){ "xii" } },
		{ .kind = MARK_HEADING, .level = 1, .text = (char[]){ "Preface" } },
		{ .kind = MARK_PAGE, .at = 14, .text = (char[]){ "1" } },
		{ .kind = MARK_HEADING, .level = 2, .at = 14, .text = (char[]){ "Methods" } },
		{ .kind = MARK_PAGE, .at = 49, .text = (char[]){ "2\x1b[31m" } },
		{ .kind = MARK_PAGE, .at = sizeof text - 1, .text = (char[]){ "" } },
		{ .kind = MARK_PAGE, .at = 5000, .text = (char[]){ "9" } },
		{ .kind = MARK_HEADING, .level = 0, .at = 5000, .text = (char[]){ "x" } },
	};
	struct pane *p = pane_new(&documents_pane, 0);
	const struct documents_pane *docs = (const struct documents_pane *)p;
	struct ui_document d = {
		.name = "a.pdf", .text = text, .n = sizeof text - 1, .mark = mark, .n_mark = LEN(mark)
	};
	size_t n;
	const char *title;

	documents_pane_post(p, &d, 1);
	docs_draw(p, 80, 4);
	CHECK_SAYS("p. xii (1/4)");
	CHECK_INT(docs->doc[0].n_page, 3);
	CHECK_INT(docs->doc[0].n_head, 2);
	title = doc_text_title(&docs->doc[0], &docs->doc[0].head[1], &n);
	CHECK(n == 7 && !memcmp(title, "Methods", 7));
	docs_type(p, "2p");
	docs_draw(p, 80, 4);
	CHECK_SAYS("page 1 ");
	CHECK_SAYS("p. 1 (2/4)");
	documents_pane_show(p, 0, 22, 26);
	docs_draw(p, 80, 4);
	CHECK(!memcmp(docs->doc[0].text.p + docs->found, "were", 4) && docs->found_n == 4);
	docs_type(p, "o");
	docs_draw(p, 80, 4);
	CHECK_SAYS("Methods");
	pane_free(p);
}

TEST(docs_search)
{
	struct pane *p = numbered(3000, "n.txt");

	docs_draw(p, 80, 24);
	docs_type(p, "/LINE 99\r"); /* a pattern with capitals matches only these */
	docs_draw(p, 80, 24);
	CHECK_SAYS("not found: LINE 99");
	docs_type(p, "/line 99\r");
	docs_draw(p, 80, 24);
	CHECK_INT(style_of("line 99 of"), ST_MATCH | STYLE_BOLD);
	docs_type(p, "n");
	docs_draw(p, 80, 24);
	CHECK_INT(style_of("line 990 of"), ST_MATCH | STYLE_BOLD);
	CHECK_INT(style_of("line 991 of"), ST_MATCH);
	docs_type(p, "NN");
	docs_draw(p, 80, 24);
	CHECK_SAYS("line 999 of");
	CHECK_SAYS("found from the end");
	docs_type(p, "n");
	docs_draw(p, 80, 24);
	CHECK_SAYS("found from the beginning");
	CHECK_INT(style_of("line 99 of"), ST_MATCH | STYLE_BOLD);
	docs_type(p, "?line 5\r");
	docs_draw(p, 80, 24);
	CHECK_INT(style_of("line 59 of"), ST_MATCH | STYLE_BOLD);
	/* The first Esc removes the marks, the next closes the pane. */
	CHECK_INT(docs_type(p, "\x1b"), PANE_USED);
	docs_draw(p, 80, 24);
	CHECK_INT(style_of("line 59 of"), ST_TEXT);
	CHECK_INT(docs_type(p, "\x1b"), PANE_CLOSE);
	pane_free(p);
}

TEST(docs_headings)
{
	struct pane *p = docs_sample(0);
	static const char source[] = "# a comment\nint x;\n";
	struct ui_document d = { "a.py", source, sizeof source - 1, 0, 4, 0, NULL, 0 };

	docs_draw(p, 80, 24);
	CHECK_INT(style_of("## Clause 1"), ST_HEADING);
	CHECK_INT(style_of("# no heading"), ST_TEXT);
	docs_draw(p, 80, 6);
	docs_type(p, "ojj\r");
	docs_draw(p, 80, 6);
	CHECK_SAYS("## Clause 2");
	documents_pane_post(p, &d, 1);
	docs_type(p, "o");
	docs_draw(p, 80, 6);
	CHECK_SAYS("neither headings nor pages");
	pane_free(p);
}

/* The sources of the last answer are shaded by their share of the attention; the opened one is marked as a whole. */
TEST(docs_sources)
{
	static const char text[] = "one\ttab\ntwo words\nthree\nfour\n";
	struct pane *p = pane_new(&documents_pane, 1);
	struct ui_document d = { "t.txt", text, sizeof text - 1, 0, 10, 0, NULL, 0 };
	struct ui_source source[3] = {
		{ 0, 8, 17, "a", 1, 0.9f },
		{ 0, 18, 23, "a", 1, 0.05f },
		{ 1, 0, 30, "b", 1, 0.5f },
	};

	documents_pane_post(p, &d, 1);
	documents_pane_sources(p, source, 3);
	docs_draw(p, 100, 12);
	CHECK_INT(style_of("one"), ST_TEXT);
	CHECK_INT(style_of("two"), ST_HEAT + 7);
	CHECK_INT(style_of("words"), ST_HEAT + 7);
	CHECK_INT(style_of("three"), ST_HEAT + 5);
	CHECK_INT(style_of("four"), ST_TEXT);
	documents_pane_show(p, 0, 8, 17);
	docs_draw(p, 100, 12);
	CHECK_INT(style_of("words"), (ST_HEAT + 7) | STYLE_REVERSE);
	CHECK_INT(style_of("three"), ST_HEAT + 5);
	documents_pane_sources(p, NULL, 0);
	docs_draw(p, 100, 12);
	CHECK_INT(style_of("words"), ST_MATCH | STYLE_BOLD);
	CHECK_INT(style_of("three"), ST_TEXT);
	pane_free(p);
}

/* The lens counts bytes of the posted text, with tabs, escape sequences, dropped and invalid characters. */
TEST(docs_lens)
{
	static const char text[] = "\tone \0\x1b[31mtwo\x1b[0m \xe2\x80\x8bthree\xff \xe2\x80\xae"
				   "four\r\nfive\f six";
	static const char *const word[] = { "one", "two", "three", "four", "five", "six" };
	struct pane *p = pane_new(&documents_pane, 1);
	struct ui_document d = { "t.txt", text, sizeof text - 1, 0, 10, 0, NULL, 0 };

	documents_pane_post(p, &d, 1);
	for (size_t i = 0; i < 6; i++) {
		const char *at = memmem(text, sizeof text - 1, word[i], strlen(word[i]));
		uint32_t from = (uint32_t)(at - text), to = from + (uint32_t)strlen(word[i]);
		struct ui_span span[3] = { { from, 255, 0 }, { to, 0, 0 }, { sizeof text - 1, 1, 0 } };

		documents_pane_lens(p, 0, span, 3);
		docs_draw(p, 100, 12);
		for (size_t k = 0; k < 6; k++) {
			int style = style_of(word[k]);
			CHECK_MSG(style == (k == i ? ST_EVICTED : ST_TEXT), "%s while %s is gone: style %d", word[k],
			          word[i], style);
		}
	}
	/* The same document posted again keeps its lens, even with another number of tokens. */
	d.tokens = 11;
	documents_pane_post(p, &d, 1);
	docs_draw(p, 100, 12);
	CHECK_INT(style_of("six"), ST_EVICTED);
	CHECK_SAYS("token ~0 of 11");
	/* Everything evicted, then no lens. */
	documents_pane_lens(p, 0, &(struct ui_span){ UINT32_MAX, 0, 0 }, 1);
	docs_draw(p, 100, 12);
	CHECK_INT(style_of("two"), ST_EVICTED);
	CHECK_SAYS("kept 0%");
	documents_pane_lens(p, 0, NULL, 0);
	documents_pane_lens(p, 7, &(struct ui_span){ 9, 0, 0 }, 1);
	docs_draw(p, 100, 12);
	CHECK_INT(style_of("two"), ST_TEXT);
	pane_free(p);
}
