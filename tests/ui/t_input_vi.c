/* tests/ui/t_input_vi.c - the input line with the user's own ~/.inputrc: vi's keys, macros for weir only, settings that
 * would break the line; and with a locale that is not UTF-8. */
#include "tests/lib/line_keys.h"

#include <fcntl.h>
#include <langinfo.h>
#include <locale.h>
#include <unistd.h>

static const char inputrc[] = "set editing-mode vi\n"
			      "set keyseq-timeout 0\n"
			      "set convert-meta on\n"
			      "set input-meta off\n"
			      "set enable-bracketed-paste on\n"
			      "set show-mode-in-prompt on\n"
			      "set bell-style audible\n"
			      "set isearch-terminators \"x\"\n"
			      "set history-size 3\n"
			      "set keymap vi-insert\n"
			      "$if weir\n"
			      "\"\\C-o\": \"sent by a macro\\C-m\"\n"
			      "\"\\C-y\": \"block \\\\\\C-m\"\n"
			      "\"\\e[A\": history-search-backward\n"
			      "\"\\C-b\": beginning-of-line\n"
			      "$else\n"
			      "\"\\C-o\": \"not for us\"\n"
			      "$endif\n";

static const struct ui_command commands[] = {
	{ "/help", "/?", "", "this list", BUSY_ALLOWED, ARG_NONE, "" },
	{ "/read", "/open /file", "FILE", "add a document", BUSY_QUEUED, ARG_FILE, "" },
	{ NULL, NULL, NULL, NULL, BUSY_ALLOWED, ARG_NONE, NULL },
};

static void begin(void)
{
	char path[] = "/tmp/weir-inputrc-XXXXXX";
	int fd = mkstemp(path);

	if (fd < 0 || write(fd, inputrc, sizeof inputrc - 1) < 0)
		SKIP("no file can be made in /tmp");
	close(fd);
	setenv("INPUTRC", path, 1);
	/* Set the locale as the program does in such an environment. */
	setenv("LC_ALL", "C", 1);
	setlocale(LC_CTYPE, "");
	if (!setlocale(LC_CTYPE, "C.UTF-8"))
		SKIP("there is no locale C.UTF-8");
	input_open(NULL, commands, NULL);
	unlink(path);
}

static void end(void)
{
	input_close();
	grid_free(&line_grid);
}

TEST(vi_keys)
{
	/* clang-format off */
	static const struct { const char *keys, *text; } table[] = {
		{"\033x", "one two thre"}, {"\0330x", "ne two three"}, {"\033bi>\033", "one two >three"},
		{"\0330dw", "two three"},
		{"\0330d2w", "three"}, {"\0332bD", "one "}, {"\0330ftx", "one wo three"},
		{"\0330rX", "Xne two three"}, {"\033A!", "one two three!"},
		{"\0330cwten\033", "ten two three"}, {"\033u", ""}, {"\0330xu", "one two three"},
		{"\0330~", "One two three"},
		{"\0330yw$p", "one two threeone "}, {"\0330x.", "e two three"}, {"\033dd", ""},
		{"\033[D\033[Dx", "one two thrxee"},
		{"\033[Hx", "xone two three"}, {"\0330r\033[Cx", "oe two three"}, {"\0330d\033[A", "one two three"},
		{"\0330d\007x", "ne two three"}, {"\033bx", "one two hree"}, {"\033\303\251", "one two three"},
		{"\002x", "xone two three"},
		{"\0330f\033x", "ne two three"},
	};
	/* clang-format on */

	begin();
	for (size_t i = 0; i < LEN(table); i++) {
		input_set("", 0);
		type("\033i");
		type("one two three");
		CHECK(input_wants_escape());
		type(table[i].keys);
		CHECK_MSG(!strcmp(line_text(), table[i].text), "keys %zu (\"%s\"): \"%s\", expected \"%s\"", i,
		          table[i].keys + 1, line_text(), table[i].text);
		type("\033\033");
		CHECK(!input_wants_escape());
	}
	/* The first Esc ends insert mode, the next is not used by the line. */
	type("i");
	type("\033");
	CHECK_INT(line_unused, 0);
	type("\033");
	CHECK_INT(line_unused, 1);
	/* Command mode is reported. In both modes Ctrl-G is passed to the screen, except while a command waits for more
	 * keys. */
	type("i");
	CHECK(!input_commands() && !input_wants_abort());
	type("\033");
	CHECK(input_commands() && !input_wants_abort());
	type("d");
	CHECK(input_wants_abort());
	type("\033\033");
	CHECK(!input_wants_abort());
	/* Enter sends in both modes; after it insert mode is on. */
	type("ddiabc\033");
	type("\r");
	CHECK_STR(taken(), "abc");
	type("def\r");
	CHECK_STR(taken(), "def");
	end();
}

TEST(vi_drafts_and_history)
{
	begin();
	for (int i = 0; i < 6; i++) {
		char s[40];
		snprintf(s, sizeof s, "%s %d\r", i % 2 ? "odd" : "even", i);
		type(s);
		taken();
	}
	type("one\ntwo\nthree\033");
	screen(20, 9);
	CHECK_CURSOR(6, 2);
	type("\033[A");
	screen(20, 9);
	CHECK_CURSOR(5, 1);
	type("k");
	CHECK_STR(line_text(), "odd 5");
	type("kkkkk"); /* the history-size of ~/.inputrc is ignored */
	CHECK_STR(line_text(), "even 0");
	type("6j");
	CHECK_STR(line_text(), "one\ntwo\nthree");
	/* A paste is one change, and never commands. */
	type("dd");
	paste_n("dd\nx\033p", 6);
	CHECK_STR(line_text(), "dd\nx\033p");
	type("\033");
	type("u");
	CHECK_STR(line_text(), "");
	/* vi's search replaces the line. */
	type("/");
	CHECK(input_wants_escape());
	CHECK_STR(screen(20, 3), "/\n");
	type("even");
	CHECK_STR(screen(20, 3), "/even\n");
	type("\r");
	CHECK_STR(line_text(), "even 4");
	CHECK_STR(taken(), "(none)");
	type("n");
	CHECK_STR(line_text(), "even 2");
	type("/odd");
	type("\033");
	CHECK(!input_wants_escape());
	CHECK_STR(screen(20, 3), "> even 2\n");
	type("\r");
	CHECK_STR(taken(), "even 2");
	type("\022odd 3");
	CHECK_STR(line_text(), "odd 3");
	type("\033");
	CHECK_STR(line_text(), "odd 3");
	type("\r");
	CHECK_STR(taken(), "odd 3");
	end();
}

TEST(own_bindings)
{
	begin();
	type("even 0\rodd 1\reven 2\r");
	while (strcmp(taken(), "(none)"))
		;
	type("\017");
	CHECK_STR(taken(), "sent by a macro");
	CHECK(input_empty());
	/* Enter in a macro follows the same rule as the key. */
	type("\031go on\r");
	CHECK_STR(taken(), "block \ngo on");
	type("odd\033[A");
	CHECK_STR(line_text(), "odd 1");
	end();
}

TEST(completion_in_vi)
{
	begin();
	type("/r\t");
	CHECK_STR(line_text(), "/read ");
	input_set("", 0);
	type("/h");
	CHECK_INT(input_offers(), 1);
	type("\033"); /* closes the popup, but insert mode stays on */
	CHECK_INT(input_offers(), 0);
	CHECK(input_wants_escape());
	type("\033");
	type("hh");
	CHECK_INT(input_offers(), 0);
	end();
}

/* readline switches to the locale of the environment at each line; characters must still be UTF-8. */
TEST(another_locale)
{
	begin();
	for (int i = 0; i < 3; i++) {
		type("\303\274\346\274\242\303\266\177\002x\r");
		CHECK_STR(taken(), "x\303\274\346\274\242");
		CHECK_STR(nl_langinfo(CODESET), "UTF-8");
	}
	end();
}

TEST(random_keys_in_vi)
{
	begin();
	key_storm(storm_length(10000));
	end();
}
