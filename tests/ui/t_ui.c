/* tests/ui/t_ui.c - ui/ui*.c, ui/panes/bindings.c, ui/panes/pane_help.c: the full screen alone, with no terminal and no
 * engine.
 *
 * A test plays both the user and the application: it feeds the bytes of keys, posts events, and compares the actions
 * asked for and the screen. The clock is a number. Whole screens: t_ui_screens.c; random keys: t_ui_random.c. */
#include "tests/lib/screen_alone.h"
#include "ui/text/text.h"

/* ---- sending and waiting ---- */

TEST(enter_sends)
{
	opened(80, 24);
	CHECK_STR(type("hello"), "");
	CHECK_STR(key("\r"), "SEND hello|");
	CHECK(input_empty());
	CHECK_STR(key("\r"), "");
	CHECK_STR(type("   "), "");
	CHECK_STR(key("\r"), "");
	CHECK_STR(type("/stats"), "");
	CHECK_STR(key("\r"), "SEND /stats|");
	type("//x");
	CHECK_STR(key("\r"), "SEND //x|");
	type("/nonsense"); /* an unknown command is sent, because the application reports it */
	CHECK_STR(key("\r"), "SEND /nonsense|");
	closed();
}

TEST(messages_wait_for_the_answer)
{
	opened(80, 24);
	work("answering");
	type("one");
	CHECK_STR(key("\r"), "");
	type("two");
	CHECK_STR(key("\r"), "");
	CHECK(shows("queued: one\n") && shows("queued: two\n"));
	work("answering");
	CHECK_STR(asked(), "");
	work(NULL);
	/* the application starts work on it before it asks for the next action */
	struct ui_action a;
	CHECK(ui_action(u, &a) && a.what == UI_SEND && !strcmp(a.text, "one"));
	work("reading");
	CHECK(!ui_action(u, &a));
	CHECK(!shows("queued: one") && shows("queued: two"));
	/* Up takes queued messages back into the line, the newest first */
	CHECK_STR(key(UP), "");
	CHECK_STR(draft(), "two");
	CHECK(!shows("queued:"));
	key("\r");
	work(NULL);
	CHECK_STR(asked(), "SEND two|");
	/* no event comes for a while: a message typed meanwhile is queued, and is sent when no work seems to have
	 * begun */
	type("four");
	ui_feed(u, "\r", 1, now);
	CHECK(ui_action(u, &a) && !strcmp(a.text, "four"));
	ui_feed(u, "5\r", 2, now);
	CHECK(!ui_action(u, &a));
	CHECK(shows("queued: 5"));
	CHECK(ui_wake(u) > now);
	ui_tick(u, now += 0.4);
	CHECK(ui_action(u, &a) && !strcmp(a.text, "5"));
	CHECK(!ui_action(u, &a));
	/* a command that starts no work does not stop the queue */
	work("answering");
	type("/undo");
	key("\r");
	type("three");
	key("\r");
	work(NULL);
	CHECK_STR(asked(), "SEND /undo|SEND three|");
	closed();
}

TEST(commands_while_busy)
{
	opened(80, 24);
	work("answering");
	type("/stats");
	CHECK_STR(key("\r"), "SEND /stats|");
	type("/status");
	CHECK_STR(key("\r"), "SEND /status|");
	type("/clear");
	CHECK_STR(key("\r"), "");
	CHECK(shows("/clear has to wait for the end of the answer; Esc stops it"));
	CHECK_STR(draft(), "/clear");
	input_set("", 0);
	type("/nonsense 1");
	CHECK_STR(key("\r"), "");
	CHECK(shows("there is no command /nonsense; F1 lists all"));
	CHECK_STR(draft(), "/nonsense 1");
	input_set("", 0);
	type("//literal");
	CHECK_STR(key("\r"), "");
	type("/home/me/a.pdf"); /* as a terminal writes it where a file is dragged into it */
	CHECK_STR(key("\r"), "");
	type("/open x");
	CHECK_STR(key("\r"), "");
	work(NULL);
	CHECK_STR(asked(), "SEND //literal|SEND /home/me/a.pdf|SEND /open x|");
	closed();
}

/* While a stream is read, questions can be asked at any time, and the reading can be stopped. */
TEST(work_that_makes_way)
{
	struct ui_work w = { .verb = "reading", .done = 5, .total = 9, .left = -1, .open = 1 };

	opened(80, 24);
	ui_work(u, &w);
	type("what was that?");
	CHECK_STR(key("\r"), "SEND what was that?|");
	ui_work(u, &w);
	type("/new");
	CHECK_STR(key("\r"), "SEND /new|");
	ui_work(u, &w);
	CHECK_STR(key(ESC), "STOP|");
	CHECK_STR(key(CTRL('c')), "STOP|");
	CHECK_STR(key(CTRL('d')), "");
	CHECK(shows("still reading: Ctrl-C stops it"));
	w.open = 0;
	ui_work(u, &w);
	type("and now?");
	CHECK_STR(key("\r"), "");
	CHECK(shows("queued: and now?"));
	closed();
}

/* A message whose first word is a synonym of a command is a message; a synonym with a slash runs the command, unless a
 * prompt of the user has that name. */
TEST(synonyms_run_only_with_a_slash)
{
	static const struct ui_command with_synonyms[] = {
		{ "/list", "", "", "list", BUSY_ALLOWED, ARG_NONE, "old /history /chats" },
		{ "/history", "", "", "a prompt", BUSY_QUEUED, ARG_NONE, "" },
		{ 0 },
	};

	opened(80, 24);
	u->commands = with_synonyms;
	CHECK(!command_of(u, "old letters", 11));
	CHECK_STR(command_of(u, "/chats", 6)->name, "/list");
	CHECK_STR(command_of(u, "/history x", 10)->name, "/history");
	CHECK(!command_of(u, "//chats", 7) && !command_of(u, "/", 1) && !command_of(u, "/old", 4));
	closed();
}

/* A draft that comes while the user types does not lose what is typed. */
TEST(a_draft_keeps_what_is_typed)
{
	opened(80, 24);
	type("a long message");
	ui_draft(u, "/help", 5);
	CHECK_STR(draft(), "/help");
	CHECK_STR(asked(), "");
	input_set("", 0);
	key(UP);
	CHECK_STR(draft(), "a long message");
	closed();
}

TEST(queue_has_an_end)
{
	opened(80, 24);
	work("answering");
	for (int i = 0; i < QUEUE_MOST; i++) {
		type("m");
		key("\r");
	}
	type("last");
	key("\r");
	CHECK_STR(draft(), "last");
	CHECK(shows("the queue is full: 100 messages"));
	CHECK(shows("queued: m                 ") || shows("+97 more"));
	closed();
}

/* ---- Esc and Ctrl-C in each state ---- */

TEST(escape_goes_one_step_back)
{
	opened(80, 24);
	question("why is the sky blue?");
	answer("Because of scattering.");
	work("answering");
	/* Esc closes the pane first, then stops the answer */
	key(F1);
	CHECK(shows("Keys everywhere"));
	CHECK_STR(key(ESC), "");
	CHECK(!shows("Keys everywhere"));
	CHECK_STR(key(ESC), "STOP|");
	CHECK_STR(key(ESC), "STOP|");
	/* letters go to the input line whatever is open; Esc ends browse mode before it closes the pane */
	key(F1);
	CHECK_STR(type("a draft"), "");
	CHECK_STR(draft(), "a draft");
	CHECK(shows("Keys everywhere"));
	key(F6);
	CHECK(shows("browse mode"));
	CHECK_STR(key(ESC), "");
	CHECK(shows("Keys everywhere"));
	CHECK_INT(u->focus, ON_LINE);
	CHECK_STR(key(ESC), "");
	CHECK(!shows("Keys everywhere"));
	CHECK_STR(draft(), "a draft");
	/* Esc leaves browse mode and the search */
	key(F6);
	CHECK_INT(u->focus, ON_TRANSCRIPT);
	CHECK_STR(key(ESC), "");
	CHECK_INT(u->focus, ON_LINE);
	key(F3);
	CHECK(u->searching);
	CHECK_STR(key(ESC), "");
	CHECK(!u->searching);
	work(NULL);
	/* Esc twice keeps a draft */
	key(ESC);
	key(ESC);
	CHECK_STR(draft(), "a draft");
	input_set("", 0);
	/* twice within a second: edit the last question */
	key(ESC);
	now += 2;
	key(ESC);
	CHECK_STR(draft(), "");
	key(ESC);
	CHECK_STR(draft(), "/edit why is the sky blue?");
	closed();
}

TEST(escape_closes_what_the_line_has_open)
{
	opened(80, 24);
	type("an old message");
	key("\r");
	work("answering");
	type("/re");
	key("\t");
	CHECK(input_offers() > 1);
	CHECK(shows(" /retry "));
	CHECK_STR(key(ESC), "");
	CHECK(!shows(" /retry "));
	CHECK_STR(draft(), "/re");
	CHECK_STR(key(ESC), "STOP|");
	/* Enter takes the offer and does not send */
	key("\t");
	CHECK_STR(key("\r"), "");
	CHECK(!input_offers());
	input_set("", 0);
	/* a search of the history uses Esc and Ctrl-G itself */
	key(CTRL('r'));
	type("old");
	CHECK(input_wants_escape());
	CHECK_STR(key(CTRL('g')), "");
	CHECK(!input_wants_escape());
	key(CTRL('r'));
	type("old");
	CHECK_STR(key(ESC), "");
	CHECK_STR(draft(), "an old message");
	CHECK_STR(key(ESC), "STOP|");
	CHECK_STR(key(CTRL('g')), "EDITOR an old message|");
	closed();
}

TEST(escape_twice_needs_a_question)
{
	opened(80, 24);
	key(ESC);
	key(ESC);
	CHECK_STR(draft(), "");
	question("one");
	key(ESC);
	type("x");
	key("\177");
	key(ESC); /* with other keys in between, the second Esc counts as a first one */
	CHECK_STR(draft(), "");
	ui_clear(u);
	key(ESC);
	CHECK_STR(draft(), "");
	closed();
}

TEST(control_c_never_loses_a_draft)
{
	opened(80, 24);
	work("answering");
	type("half a thought");
	CHECK_STR(key(CTRL('c')), "STOP|");
	CHECK_STR(draft(), "half a thought");
	work(NULL);
	CHECK_STR(key(CTRL('c')), "");
	CHECK_STR(draft(), "");
	key(UP);
	CHECK_STR(draft(), "half a thought");
	key(CTRL('c'));
	CHECK(!shows("Ctrl-C again quits"));
	CHECK_STR(key(CTRL('c')), "");
	CHECK(shows("Ctrl-C again quits"));
	/* the message disappears after 1.5 seconds */
	CHECK(ui_wake(u) > now && ui_wake(u) <= now + 1.5);
	ui_tick(u, now += 1.6);
	CHECK(!shows("Ctrl-C again quits"));
	CHECK_STR(key(CTRL('c')), "");
	CHECK_STR(key(CTRL('c')), "QUIT|");
	/* with another key in between, the second Ctrl-C counts as a first one */
	CHECK_STR(key(CTRL('c')), "");
	type("x");
	key("\177");
	CHECK_STR(key(CTRL('c')), "");
	CHECK_STR(key(CTRL('c')), "QUIT|");
	closed();
}

TEST(control_c_in_panes)
{
	opened(80, 24);
	key(F1);
	work("reading");
	CHECK_STR(key(CTRL('c')), "STOP|");
	CHECK(shows("Keys everywhere"));
	work(NULL);
	CHECK_STR(key(CTRL('c')), "");
	CHECK(!shows("Keys everywhere"));
	key(F3);
	CHECK(u->searching);
	CHECK_STR(key(CTRL('c')), "");
	CHECK(!u->searching);
	CHECK_STR(key(CTRL('c')), "");
	CHECK_STR(key(CTRL('c')), "QUIT|");
	closed();
}

/* Small screens have no row of key hints, except where keys have other meanings. */
TEST(small_screens_say_how_to_leave)
{
	opened(40, 12);
	CHECK(!shows("F1 Help"));
	for (int i = 0; i < 3; i++) {
		key((const char *[]){ F1, F5, F6 }[i]);
		CHECK_MSG(shows("Esc Close") || shows("Esc Write"), "no way out of the pane of key %d", i);
		key(ESC);
	}
	key(F3);
	CHECK(shows("Esc Close"));
	key(ESC);
	CHECK(!shows("Esc Close"));
	closed();
}

TEST(leaving)
{
	opened(80, 24);
	CHECK_STR(key(CTRL('d')), "QUIT|");
	work("answering");
	CHECK_STR(key(CTRL('d')), "");
	CHECK(shows("still answering: Ctrl-C stops it"));
	work(NULL);
	type("draft");
	CHECK_STR(key(CTRL('d')), "");
	CHECK_STR(key(F10), "QUIT|");
	key(UP);
	CHECK_STR(draft(), "draft");
	input_set("", 0);
	key(CTRL('x'));
	CHECK_STR(key("q"), "QUIT|");
	CHECK_STR(key(CTRL('z')), "SUSPEND|");
	CHECK_STR(key(CTRL('l')), "REPAINT|");
	key(F1);
	CHECK_STR(key(CTRL('z')), "SUSPEND|");
	CHECK_STR(key(CTRL('l')), "REPAINT|");
	closed();
}

/* ---- other keys ---- */

TEST(leader)
{
	opened(80, 24);
	CHECK_STR(key(CTRL('x')), "");
	CHECK(shows("Ctrl-X n New  y Copy  g Regenerate"));
	CHECK_STR(key("n"), "SEND /new|");
	CHECK_STR(draft(), "");
	type("text");
	key(CTRL('x'));
	CHECK_STR(key("e"), "EDITOR text|");
	CHECK_STR(key(CTRL('g')), "EDITOR text|");
	ui_draft(u, "edited\ntext", 11);
	CHECK_STR(draft(), "edited\ntext");
	key(CTRL('x'));
	CHECK_STR(key("t"), "THEME paper|");
	key(CTRL('x'));
	CHECK_STR(key("m"), "MOUSE 1 #1|");
	CHECK_STR(key(F8), "MOUSE 0 #1|");
	key(CTRL('x'));
	key("r");
	CHECK(shows("raw answers"));
	key(CTRL('x'));
	key("h");
	CHECK(shows("Keys everywhere"));
	key(CTRL('x'));
	key("h");
	CHECK(!shows("Keys everywhere"));
	CHECK_STR(draft(), "edited\ntext");
	closed();
}

TEST(panel_cycles_and_says_so)
{
	opened(80, 24);
	CHECK_STR(key(F2), "PANEL 1|");
	CHECK_STR(key(F2), "PANEL 2|");
	CHECK_STR(key(F2), "PANEL 0|");
	/* too small for the bar: figures are not requested while the bar is not visible */
	key(F2);
	ui_resize(u, 50, 24);
	CHECK_STR(asked(), "PANEL 0|");
	ui_resize(u, 120, 40);
	CHECK_STR(asked(), "PANEL 1|");
	CHECK_INT(u->lay.side, 48);
	CHECK_STR(key(F4), "LIST|PANEL 0|");
	CHECK_STR(key(F5), "PANEL 1|");
	CHECK_STR(key(F5), "");
	ui_open_panel(u, "off");
	CHECK_STR(asked(), "PANEL 0|");
	ui_open_panel(u, "full");
	CHECK_STR(asked(), "PANEL 2|");
	ui_open_panel(u, "bar");
	CHECK_STR(asked(), "PANEL 1|");
	ui_open_panel(u, "layer 3");
	CHECK_STR(asked(), "PANEL 2|");
	CHECK_STR(key(ESC), "PANEL 1|");
	ui_open_panel(u, "off");
	/* without room for a bar F2 opens the whole screen at once */
	ui_resize(u, 20, 6);
	asked();
	CHECK_STR(key(F2), "PANEL 2|");
	CHECK_STR(key(F2), "PANEL 0|");
	closed();
}

/* Lines of text have at most 100 columns, however wide the screen is. */
TEST(text_has_a_column)
{
	struct str text = { 0 };
	size_t most = 0;

	opened(180, 40);
	for (int i = 0; i < 200; i++)
		str_adds(&text, "words of a line ");
	question("what?");
	answer(text.p);
	for (const char *line = screen(); *line; line += strcspn(line, "\n") + (line[strcspn(line, "\n")] != 0))
		if (strstr(line, "words of") && strstr(line, "words of") < line + strcspn(line, "\n") &&
		    strcspn(line, "\n") > most)
			most = strcspn(line, "\n");
	CHECK_MSG(most > 90 && most <= 100, "the longest line has %zu columns", most);
	str_free(&text);
	closed();
}

/* F6 also goes to the cache panel beside or below the transcript, so that its legend can be opened. */
TEST(panel_takes_keys)
{
	static const int size[][2] = { { 80, 24 }, { 120, 40 } };

	for (size_t i = 0; i < 2; i++) {
		opened(size[i][0], size[i][1]);
		key(F6);
		key(F6);
		CHECK_INT(u->focus, ON_LINE); /* no panel is shown */
		scene_bar();
		type("a draft");
		key(F6);
		CHECK_INT(u->focus, ON_TRANSCRIPT);
		key(F6);
		CHECK_INT(u->focus, ON_PANEL);
		/* The panel beside has room for the legend from the beginning. */
		CHECK(strstr(screen(), "Legend") && !strstr(screen(), "Looks at: where") == !i);
		CHECK_STR(key("?"), "");
		CHECK(!strstr(screen(), "Looks at: where") == (i > 0));
		key("x"); /* a letter without a meaning here goes to the input line */
		CHECK_INT(u->focus, ON_LINE);
		CHECK(strstr(screen(), "> a draftx\n"));
		key("\177");
		key(F6);
		key(F6);
		if (i)
			key("?");
		key(i ? F6 : ESC); /* goes back to the line and closes the legend */
		CHECK_INT(u->focus, ON_LINE);
		CHECK(!strstr(screen(), "Looks at: where") == !i);
		key(F6);
		key(F6);
		CHECK_STR(key(F2), "PANEL 2|");
		CHECK_INT(u->focus, ON_LINE);
		CHECK_STR(key(F2), "PANEL 0|");
		CHECK_INT(u->focus, ON_LINE);
		/* the panel disappears while it has the focus */
		CHECK_STR(key(F2), "PANEL 1|");
		key(F6);
		key(F6);
		CHECK_INT(u->focus, ON_PANEL);
		ui_resize(u, 50, 24);
		CHECK_STR(asked(), "PANEL 0|");
		CHECK_INT(u->focus, ON_LINE);
		type(" goes on");
		CHECK(strstr(screen(), "> a draft goes on"));
		ui_resize(u, size[i][0], size[i][1]);
		asked();
		/* on a wide screen, F6 also goes to the panel beside an open document */
		key(F5);
		if (i) {
			key(F6);
			key(F6);
			CHECK_INT(u->focus, ON_PANEL);
			key("q");
			CHECK_INT(u->focus, ON_LINE);
			CHECK_INT(u->pane, DOCUMENTS);
		}
		closed();
	}
}

TEST(empty_draft_keys)
{
	opened(80, 24);
	/* no letter and no Tab starts a mode */
	key("\t");
	CHECK_INT(u->focus, ON_LINE);
	CHECK_STR(key("?"), "");
	CHECK(!shows("Keys everywhere"));
	type("q");
	CHECK_STR(draft(), "?q");
	closed();
}

TEST(transcript_keys)
{
	opened(80, 24);
	for (int i = 0; i < 30; i++) {
		question("a question");
		answer("some answer\n\n```c\nint x;\n```\n");
	}
	screen();
	key(F6);
	key("g");
	CHECK(shows(" lines") && transcript_below(u->transcript) > 0);
	key("G");
	screen();
	CHECK_INT(transcript_below(u->transcript), 0);
	CHECK_STR(key("y"), "COPY some answer\n\n```c\nint x;\n```\n|");
	CHECK_STR(key("c"), "COPY int x;|");
	/* no letter regenerates or edits: letters without a meaning go to the input line and end the mode */
	CHECK_STR(type("remember"), "");
	CHECK_STR(draft(), "remember");
	CHECK_INT(u->focus, ON_LINE);
	key(F6);
	key(ESC "[200~pasted\ntext" ESC "[201~");
	CHECK_STR(draft(), "rememberpasted\ntext");
	CHECK_INT(u->focus, ON_LINE);
	key(CTRL('x'));
	CHECK_STR(key("g"), "SEND /regen|");
	CHECK_STR(draft(), "rememberpasted\ntext");
	/* m marks a place */
	key(F6);
	key("G");
	screen();
	key("u");
	screen();
	size_t below = transcript_below(u->transcript);
	CHECK(below > 0);
	key("m");
	key("g");
	screen();
	CHECK(transcript_below(u->transcript) > below);
	key("'");
	screen();
	CHECK_INT(transcript_below(u->transcript), below);
	closed();
}

/* The output of a command is scrolled into view; other notices leave the transcript where it is. */
TEST(commands_show_what_they_say)
{
	opened(80, 24);
	for (int i = 0; i < 30; i++)
		question("a question");
	screen();
	ui_say(u, "something about the last command");
	CHECK(shows("something about the last command"));
	key(PGUP);
	type("/stats");
	CHECK_STR(key("\r"), "SEND /stats|");
	CHECK(!shows("something about the last command"));
	CHECK(transcript_below(u->transcript) > 0); /* not yet scrolled, because the command may print nothing */
	for (int i = 0; i < 2; i++) {
		ui_entry(u, UI_NOTICE, "what it says", 12);
		CHECK(shows("what it says"));
		CHECK_INT(transcript_below(u->transcript), 0);
	}
	key(PGUP);
	ui_entry(u, UI_NOTICE, "by itself", 9);
	CHECK(!shows("by itself"));
	closed();
}

TEST(search_in_the_transcript)
{
	opened(80, 24);
	for (int i = 0; i < 30; i++) {
		question(i % 10 ? "a question" : "about needles");
		answer("some hay");
	}
	screen();
	key(F3);
	type("needle");
	CHECK(shows("3 of 3"));
	key("\r");
	CHECK_INT(u->focus, ON_LINE);
	key(F3);
	CHECK_INT(u->found_at, 2);
	key(F3);
	CHECK_INT(u->found_at, 1);
	CHECK(shows("?needle 1 of 3"));
	key("\33[1;2R");
	CHECK_INT(u->found_at, 2);
	CHECK_STR(type("next"), "");
	CHECK_STR(draft(), "next");
	key(ESC);
	CHECK_INT(u->found, 0);
	CHECK_STR(draft(), "next");
	CHECK_INT(ui_search(u, "needles"), 3);
	CHECK_STR(type("!"), "");
	CHECK_STR(draft(), "next!");
	key(F6);
	size_t before = u->found_at;
	key("n");
	CHECK_INT(u->found_at, before > 1 ? before - 1 : 3);
	key("q");
	CHECK_INT(u->focus, ON_LINE);
	key(ESC);
	CHECK_INT(ui_search(u, "nowhere"), 0);
	CHECK_INT(u->focus, ON_LINE);
	key(F3);
	type("zzz");
	CHECK(shows("not found"));
	key("\r");
	CHECK_INT(u->focus, ON_LINE);
	CHECK(!u->searching && shows(" not found"));
	key(F3);
	type("zzz");
	key("\177");
	key("\177");
	key("\177");
	key("\177");
	CHECK(!u->searching);
	closed();
}

TEST(copy_command)
{
	struct err e = { 0 };

	opened(80, 24);
	CHECK_INT(ui_copy(u, "", &e), -1);
	CHECK_STR(e.msg, "there is nothing to copy yet");
	question("first");
	answer("second\n\n```\ncode one\n```\n\n```\ncode two\n```\n");
	CHECK_INT(ui_copy(u, "1", &e), 0);
	CHECK_STR(asked(), "COPY first|");
	CHECK_INT(ui_copy(u, "code", &e), 0);
	CHECK_STR(asked(), "COPY code two|");
	CHECK_INT(ui_copy(u, "code 2", &e), 0);
	CHECK_STR(asked(), "COPY code one|");
	CHECK_INT(ui_copy(u, "", &e), 0);
	CHECK(!strncmp(asked(), "COPY second\n", 12));
	CHECK_INT(ui_copy(u, "3", &e), -1);
	CHECK_INT(ui_copy(u, "0", &e), -1);
	CHECK_INT(ui_copy(u, "x", &e), -1);
	CHECK_STR(e.msg, "/copy knows no 'x'; it takes a number from 1 to 2, code, code N or all");
	CHECK_INT(ui_copy(u, "code 9", &e), -1);
	CHECK_STR(e.msg, "there is no block of code '9'; /copy code takes the last one, /copy code 2 the one before");
	ui_clear(u);
	question("first");
	answer("second");
	CHECK_INT(ui_copy(u, "code", &e), -1);
	CHECK_STR(e.msg, "there is no block of code to copy");
	CHECK_INT(ui_theme(u, "pink", &e), -1);
	CHECK_STR(e.msg, "there is no theme 'pink': dark, light, dusk, paper or mono");
	closed();
}

TEST(sessions_pane)
{
	/* clang-format off */
	struct ui_session s[2] = {
		{.id = 7, .name = "lease", .title = "What is due?", .model = "m", .snippet = "", .used = 900, .messages = 4, .tokens = 100},
		{.id = 8, .name = "story", .title = "Tell a story", .model = "m", .snippet = "", .used = 800, .messages = 2, .tokens = 50},
	};
	/* clang-format on */

	opened(80, 24);
	CHECK_STR(key(F4), "LIST|");
	ui_sessions(u, s, 2, 1000);
	CHECK(shows("lease") && shows("story"));
	work("answering");
	CHECK_STR(key("\r"), "");
	CHECK(shows("switching sessions has to wait for the end of the answer; Ctrl-C stops it"));
	work(NULL);
	/* An error of an action in a pane is shown in that pane. */
	ui_entry(u, UI_ERROR, "another session (1) is called 'lease' already", 45);
	ui_entry_end(u, NULL);
	CHECK(shows("another session (1) is called 'lease' already"));
	/* Enter is a no to the question, and the status row says so, also where the question came from /delete. */
	key("\004");
	CHECK(shows("delete 'lease'? y/n"));
	CHECK_STR(key("\r"), "");
	CHECK(shows("nothing is deleted: only y deletes"));
	CHECK_STR(key("\r"), "SWITCH #7|");
	CHECK_INT(u->pane, NO_PANE);
	ui_ask_delete(u, 7);
	asked();
	CHECK_STR(key("\r"), "");
	CHECK(u->pane == NO_PANE && shows("nothing is deleted: only y deletes"));
	closed();
}

static const char *cursor(void)
{
	static char text[32];
	const struct grid *g = ui_draw(u, now);

	snprintf(text, sizeof text, g->cursor_y < 0 ? "none" : "%d,%d", g->cursor_x, g->cursor_y);
	return text;
}

TEST(cursor_is_where_keys_go)
{
	opened(80, 24);
	CHECK_STR(cursor(), "2,22");
	type("ab");
	CHECK_STR(cursor(), "4,22");
	key("\n");
	type("c");
	CHECK_STR(cursor(), "3,22"); /* two rows of input, so the transcript has one less */
	key(F6);
	CHECK_STR(cursor(), "none");
	key("/");
	type("xyz");
	CHECK_STR(cursor(), "4,22");
	key(ESC);
	CHECK_STR(cursor(), "3,22");
	key(F1);
	CHECK_STR(cursor(), "3,22");
	key(F3);
	type("q");
	CHECK_STR(cursor(), "3,18");
	key("\r"); /* the field closes, with the help still open */
	CHECK_INT(u->pane, HELP);
	CHECK_STR(cursor(), "3,22");
	key(F6);
	CHECK_STR(cursor(), "none");
	closed();
}

TEST(mouse)
{
	opened(80, 24);
	for (int i = 0; i < 40; i++)
		question("a question");
	screen();
	key("\33[<64;5;5M");
	screen();
	CHECK_INT(transcript_below(u->transcript), 3);
	key("\33[<65;5;5M");
	screen();
	CHECK_INT(transcript_below(u->transcript), 0);
	key("\33[<0;5;5M");
	CHECK_INT(u->focus, ON_LINE);
	key(F1);
	screen();
	key("\33[<65;5;5M");
	CHECK(!shows("Keys everywhere"));
	key("\33[<0;5;23M");
	CHECK_INT(u->focus, ON_LINE);
	key("\33[<0;5;5M"); /* after a click typed letters still go to the input line */
	CHECK_STR(type("quiet"), "");
	CHECK_STR(draft(), "quiet");
	closed();
}

/* A message in the status row gives way to the session's name at the next key, or after some seconds. */
TEST(what_is_said_leaves_again)
{
	struct ui_status s = { .model = "m", .session = "mine", .kv = "full", .ctx = 100 };

	opened(80, 24);
	ui_status(u, &s);
	for (int i = 0; i < 2; i++) {
		key(F7);
		CHECK(shows("no document is open") && !shows("mine"));
		ui_tick(u, now);
		if (i)
			ui_tick(u, now += 5);
		else
			key("x");
		CHECK(!shows("no document is open") && shows("mine"));
	}
	closed();
}

TEST(sources_open_by_key_and_click)
{
	static const char text[] = "zero\none two three\nfour five\n";
	struct ui_document doc = { "a.txt", text, sizeof text - 1, 0, 9, 0, NULL, 0 };
	struct ui_source source[2] = { { 0, 5, 18, "a.txt", 1, 0.62f }, { 0, 19, 28, "a.txt", 1, -1 } };

	opened(80, 24);
	ui_documents(u, &doc, 1);
	key(F7);
	CHECK(shows("nothing was asked yet") && !shows("one two three"));
	question("what?");
	answer("three [2]");
	ui_entry(u, UI_NOTICE, "[1] a.txt, line 2: 62 % of the attention\n[2] a.txt, line 3", 58);
	ui_sources(u, SIZE_MAX, source, 2);
	key(F7);
	CHECK(shows("one two three") && shows("source [1] of 2: 62 % of the attention"));
	key(F7);
	CHECK(shows("one two three") && shows("source [2] of 2") && !shows("attention"));
	key(F7);
	CHECK(shows("source [1] of 2"));
	key(ESC);
	CHECK(!shows("one two three"));
	/* Row 0 is the question, row 2 the answer, rows 4 and 5 the sources. */
	screen();
	key("\33[<0;5;3M");
	CHECK(!shows("one two three"));
	key("\33[<0;30;6M");
	CHECK(!shows("one two three")); /* the press may begin a selection */
	key("\33[<0;30;6m");
	CHECK(shows("one two three") && shows("source [2] of 2"));
	key(ESC);
	screen();
	key("\33[<0;1;5M"), key("\33[<0;1;5m");
	CHECK(shows("source [1] of 2"));
	key(ESC);
	/* Each answer has its own sources: F7 opens those of the visible answer, a click those of the answer
	 * clicked. */
	question("and then?");
	answer("five");
	ui_sources(u, SIZE_MAX, &(struct ui_source){ 0, 19, 28, "a.txt", 0, -1 }, 1);
	screen();
	key(F7);
	CHECK(shows("four five") && shows("source [1] of 1: found, but not sent to the model"));
	key(ESC);
	screen();
	key("\33[<0;1;5M"), key("\33[<0;1;5m");
	CHECK(shows("one two three") && shows("source [1] of 2: 62 %"));
	key(ESC);
	/* If the document is gone, a message says so. */
	ui_sources(u, 0, &(struct ui_source){ SIZE_MAX, 5, 18, "a.txt", 1, 0.6f }, 1);
	screen();
	key("\33[<0;1;5M"), key("\33[<0;1;5m");
	CHECK(shows("source [1]: 'a.txt' is not among the documents any more") && !shows("four five"));
	ui_cut(u, 1);
	CHECK(shows("what?") && !shows("three [2]") && !shows("[1] a.txt") && !shows("and then?"));
	ui_clear(u);
	key(F7);
	CHECK(!shows("one two three") && shows("nothing was asked yet"));
	closed();
}

/* Dragging copies the marked text: wrapped lines are joined, rows are not padded, and dragging upwards works. */
TEST(dragging_copies)
{
	static const char long_line[] =
		"The deposit is two months of rent and it is returned within thirty days after the keys were handed over to the landlord.";

	opened(80, 24);
	question("what?");
	answer(long_line);
	answer("* one item that is long enough to be wrapped into a second row of this narrow screen here\n* two\n\n```\nint a;\n  int b;\n```");
	screen();
	/* rows 2 and 3, the paragraph, from its second word */
	CHECK_STR(key("\33[<0;5;3M"), "");
	CHECK_STR(key("\33[<32;9;4M"), "");
	CHECK_STR(key("\33[<0;9;4m"),
	          "COPY deposit is two months of rent and it is returned within thirty days after the keys|");
	CHECK_STR(key("\33[<0;9;4M"), "");
	/* a terminal that sends no moves */
	CHECK_STR(key("\33[<0;5;3m"),
	          "COPY deposit is two months of rent and it is returned within thirty days after the keys|");
	/* from the list to the code */
	CHECK_STR(key("\33[<0;1;6M"), "");
	CHECK_STR(
		key("\33[<0;80;12m"),
		"COPY \342\200\242 one item that is long enough to be wrapped into a second row of this narrow screen here\n\342\200\242 two\n\n"
		"  int a;\n    int b;|");
	/* dragging is limited to its part of the screen, and new text does not move the text being marked */
	CHECK_STR(key("\33[<0;5;3M"), "");
	CHECK_STR(key("\33[<32;80;24M"), "");
	for (int i = 0; i < 30; i++)
		question("more");
	CHECK(shows("what?"));
	CHECK(strstr(key("\33[<0;80;24m"), "COPY deposit is"));
	CHECK(!shows("what?"));
	/* a click copies nothing */
	CHECK_STR(key("\33[<0;5;3M"), "");
	CHECK_STR(key("\33[<0;5;3m"), "");
	closed();
}

static void click_hint(const char *name)
{
	const char *row = strstr(screen(), name);
	char click[32];
	int x = 1;

	CHECK(row);
	while (row && row[-x] != '\n')
		x++;
	snprintf(click, sizeof click, "\33[<0;%d;24M", x);
	key(click);
}

/* Each key in the bottom row can be clicked. */
TEST(the_row_of_keys_is_clicked)
{
	opened(80, 24);
	screen();
	key("\33[<0;3;24M"); /* F1 Help */
	CHECK(shows("Keys everywhere"));
	key("\33[<0;2;24M"); /* Esc Close */
	CHECK(!shows("Keys everywhere"));
	key("\33[<0;12;24M"); /* ^P Do */
	CHECK_INT(u->pane, PALETTE);
	key(ESC);
	click_hint("/open File");
	CHECK_STR(draft(), "/open ");
	input_set("", 0);
	ui_resize(u, 120, 24);
	question("hello");
	click_hint("F6 Browse");
	CHECK_INT(u->focus, ON_TRANSCRIPT);
	key("\33[<0;5;24M"); /* Esc Write */
	CHECK_INT(u->focus, ON_LINE);
	key("\030");
	click_hint("h Help");
	CHECK(shows("Keys everywhere"));
	key("\33[<0;119;24M"); /* right of the last hint */
	CHECK(shows("Keys everywhere"));
	closed();
}

/* Whatever is posted, no cell holds a character that could move the cursor or reverse a line. */
TEST(hostile_texts)
{
	static const char evil[] = "x\33]52;c;AAAA\7\33[2Jy\342\200\256z\303(\r\b\n\t\302\233q";
	struct ui_status s = { .model = evil, .session = evil, .kv = evil, .ctx = 10 };
	struct ui_work w = { .verb = evil, .tps = 1 };
	struct ui_session list = { .id = 1, .name = evil, .title = evil, .model = evil, .snippet = evil };
	struct ui_document doc = { evil, evil, sizeof evil - 1, 10, 3, 0, NULL, 0 };

	opened(80, 24);
	ui_status(u, &s);
	ui_work(u, &w);
	ui_say(u, evil);
	question(evil);
	answer(evil);
	ui_draft(u, evil, sizeof evil - 1);
	key("\r");
	for (int i = 0; i < 5; i++) {
		const char *p = screen();
		size_t n = strlen(p), len;
		int32_t cp;
		for (size_t k = 0; k < n; k += len) {
			len = (size_t)utf8_decode(p + k, n - k, &cp);
			CHECK_MSG(cp == '\n' || char_width(cp) >= 0, "U+%04X on the screen", (unsigned)cp);
		}
		if (i == 0)
			ui_tick(u, now += 5);
		if (i == 1) {
			key(F4);
			ui_sessions(u, &list, 1, 5);
		}
		if (i == 2) {
			ui_documents(u, &doc, 1);
			key(F5);
		}
		if (i == 3)
			ui_search(u, evil);
	}
	closed();
}

/* ---- time and effort ---- */

TEST(idle_costs_nothing)
{
	opened(80, 24);
	status();
	question("q");
	answer("a");
	screen();
	CHECK(!ui_dirty(u));
	CHECK(ui_wake(u) == 0);
	ui_tick(u, now += 100);
	CHECK(!ui_dirty(u));
	status(); /* the same status again */
	CHECK(!ui_dirty(u));
	work(NULL);
	CHECK(!ui_dirty(u));
	work("answering");
	CHECK(ui_dirty(u));
	screen();
	work("answering");
	CHECK(!ui_dirty(u));
	ui_feed(u, "\33[I", 3, now); /* the window got the focus */
	CHECK(!ui_dirty(u));
	ui_say(u, "copied 34 bytes");
	CHECK(ui_dirty(u));
	CHECK(shows("copied 34 bytes"));
	CHECK(ui_wake(u) > now && ui_wake(u) <= now + 4);
	ui_tick(u, now += 3.9);
	CHECK(!ui_dirty(u));
	ui_tick(u, now += 0.2);
	CHECK(ui_dirty(u));
	CHECK(!shows("copied 34 bytes"));
	CHECK(ui_wake(u) == 0);
	/* a message that grows while a pane hides it */
	key(F1);
	screen();
	ui_entry(u, UI_ASSISTANT, "", 0);
	ui_piece(u, "more", 4);
	CHECK(!ui_dirty(u));
	key(ESC);
	CHECK(shows("more"));
	closed();
}

TEST(one_screen_a_process)
{
	struct ui *other;
	struct ui_options o = { .w = 80, .h = 24, .commands = commands };
	struct err e = { 0 };

	opened(80, 24);
	CHECK_INT(ui_open(&other, &o, &e), -1);
	closed();
	opened(80, 24);
	closed();
}

/* /help WORD: the command of that name, else the first line with the word, else what the palette finds for it. */
TEST(help_on_a_word)
{
	static const struct {
		const char *word, *top;
	} on[] = {
		{ "/undo", "/undo [N]" },       { "stats", "/stats" },  { "forget", "/undo [N]" },
		{ "half a page", "u, Ctrl-U" }, { "", "F1, Ctrl-X h" },
	};

	opened(80, 24);
	for (size_t i = 0; i < LEN(on); i++) {
		ui_open_help(u, on[i].word);
		CHECK_MSG(shows(on[i].top), "help on '%s'", on[i].word);
		key(ESC), key(ESC);
	}
	ui_open_help(u, "xyzzy");
	CHECK(shows("not found"));
	closed();
}

/* The hints are those of the keys that do something now, and the other keys say why they do nothing. */
/* What a command says is seen although a pane covers the transcript. */
TEST(a_command_answers_over_a_pane)
{
	opened(80, 24);
	ui_entry(u, UI_USER, "hello", 5);
	key(F1);
	type("/set temp 0\r");
	ui_entry(u, UI_NOTICE, "[temp is 0]", 11);
	CHECK(shows("[temp is 0]") && u->pane == HELP);
	key(F2);
	key(F2);
	CHECK(u->pane == CACHE);
	type("/set temp x\r");
	ui_entry(u, UI_ERROR, "temp is a number", 16);
	CHECK(shows("temp is a number") && u->pane == CACHE);
	ui_entry(u, UI_NOTICE, "[temp is as before]", 19);
	CHECK(shows("temp is a number") && shows("[temp is as before]") && !u->pane);
	key(F1);
	type("/stats\r");
	ui_entry(u, UI_NOTICE, "/stats", 6);
	CHECK(u->pane == HELP && !u->say.n);
	ui_entry(u, UI_NOTICE, "tokens 1\nspeed  2", 17);
	CHECK(shows("speed  2") && !u->pane);
	closed();
}

TEST(keys_are_those_of_the_state)
{
	struct ui_document d = { .name = "note.txt" };
	struct ui_source source = { .name = "note.txt", .document = 0 };

	opened(80, 24);
	CHECK(shows("F1 Help  ^P Do  / Commands  /open File  F2 Cache  F4 Sessions  F10 Quit"));
	CHECK(shows("/open FILE adds a document"));
	key("\033[18~"); /* F7 */
	CHECK(shows("no document is open, so there is no source; /open FILE adds one"));
	key("\033[<0;17;24M"); /* a click on / */
	CHECK_STR(input_text(NULL), "/");
	key("\025");
	/* without a document, the pane of documents offers no key that needs one, and these keys say why */
	key(F5);
	CHECK(shows("Esc Close  /open File  F1 Help") && !shows("F3 Find"));
	for (int i = 0; i < 4; i++) {
		key((const char *[]){ F3, PGDN, "\t", HOME }[i]);
		CHECK(shows("there is no document yet to read or search; /open FILE adds one"));
		key("x");
		CHECK(!shows("there is no document yet to read"));
		key("\177");
	}
	key(F6);
	CHECK(shows("Esc Write  q Close  F1 Help"));
	key("q");
	ui_documents(u, &d, 1);
	CHECK(shows("F1 Help  ^P Do  / Commands  F2 Cache  F4 Sessions  F5 Docs  F10 Quit"));
	key("\033[18~");
	CHECK(shows("nothing was asked yet; answers about documents have sources"));
	ui_entry(u, UI_USER, "hello", 5);
	CHECK(shows("F1 Help  ^P Do  F2 Cache  F4 Sessions  F5 Docs  F6 Browse  ^X More  F10 Quit"));
	ui_entry(u, UI_ASSISTANT, "hi", 2);
	work("answering");
	key("\033[18~");
	CHECK(shows("there are no sources yet"));
	work(NULL);
	key("\033[18~");
	CHECK(shows("the last answer has no sources in the documents"));
	ui_sources(u, 0, &source, 1);
	CHECK(shows("F4 Sessions  F5 Docs  F6 Browse  F7 Sources  ^X More"));
	ui_resize(u, 120, 40);
	CHECK(shows("F2 Cache  F3 Find  F4 Sessions  F5 Docs  F6 Browse  F7 Sources  ^X More  F10 Quit"));
	ui_resize(u, 80, 24);
	key("\030");
	CHECK(shows("Ctrl-X n New  y Copy  g Regenerate  / Find  o Browse  t Theme  e Editor  c Code"));
	closed();
}

/* Of a long message only the first line is shown until it is unfolded by z, by a click, or by a search in it. */
TEST(long_messages_are_folded)
{
	struct str s = { 0 };

	for (int i = 0; i < 30; i++)
		str_addf(&s, "row %d\n", i);
	for (int way = 0; way < 3; way++) {
		opened(80, 24);
		ui_entry(u, UI_USER, s.p, s.n);
		answer("Rows.");
		CHECK(shows("> row 0 [+") && !shows("row 1\n") && shows("Rows."));
		if (way == 0) {
			key(F6);
			key("z");
		} else if (way == 1) {
			screen();
			key("\33[<0;5;1M"), key("\33[<0;5;1m");
		} else {
			ui_search(u, "row 17");
		}
		if (way != 2)
			ui_search(u, "row 1");
		CHECK_MSG(!shows("> row 0 [+") && shows("row 17"), "way %d", way);
		closed();
	}
	opened(80, 24);
	question("one\ntwo\nthree");
	CHECK(shows("three"));
	closed();
	str_free(&s);
}

TEST(bindings_are_sound)
{
	struct ui_command none = { 0 };

	CHECK(!none.name);
	for (const struct binding *b = bindings; b->keys; b++) {
		CHECK_MSG(*b->keys && *b->does && b->where && b->where <= (ANYWHERE | BROWSING), "row '%s'", b->keys);
		for (const char *p = b->does; *p; p++)
			CHECK_MSG(*p >= 0x20 && *p < 0x7f, "row '%s' is not ASCII", b->keys);
		for (const struct binding *c = bindings; c < b; c++)
			CHECK_MSG(!(c->where & b->where & ~(unsigned)BROWSING) || (c->where ^ b->where) & BROWSING ||
			                  strcmp(c->keys, b->keys) || !strcmp(b->keys, "Tab") ||
			                  !strcmp(b->keys, "Esc"),
			          "'%s' twice", b->keys);
	}
}
