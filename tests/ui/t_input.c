/* tests/ui/t_input.c - the input line: typed keys, the message sent, the picture on the screen.
 *
 * WEIR_SOAK scales the random keys. vi's keys and the user's own settings are in t_input_vi.c, because readline reads
 * settings only once. */
#include "tests/lib/line_keys.h"
#include "ui/input/input_private.h"

#include <fcntl.h>
#include <locale.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <readline/history.h>

static const struct ui_command commands[] = {
	{ "/help", "/?", "", "this list", BUSY_ALLOWED, ARG_NONE, "" },
	{ "/quit", "/exit /bye /q", "", "end", BUSY_ALLOWED, ARG_NONE, "" },
	{ "/read", "/open /file", "FILE", "add a document", BUSY_QUEUED, ARG_FILE, "/attach upload swim" },
	{ "/switch", "/resume", "NAME", "go on in another session", BUSY_QUEUED, ARG_SESSION, "" },
	{ "/kv", "/cache", "[off|bar|full|layer N|dump FILE]", "show the cache", BUSY_ALLOWED, ARG_WORD, "" },
	{ NULL, NULL, NULL, NULL, BUSY_ALLOWED, ARG_NONE, NULL },
};

static void begin(const char *history)
{
	setenv("INPUTRC", "/dev/null", 1);
	setlocale(LC_CTYPE, "C.UTF-8");
	input_open(history, commands, NULL);
}

static void end(void)
{
	input_close();
	grid_free(&line_grid);
}

static char dir[300];

static void make_dir(void)
{
	const char *top = getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp";

	snprintf(dir, sizeof dir, "%.200s/weir-input-XXXXXX", top);
	if (!mkdtemp(dir))
		SKIP("no directory can be made in %s", top);
}

static void remove_dir(void)
{
	char cmd[400];

	snprintf(cmd, sizeof cmd, "rm -rf '%s'", dir);
	if (system(cmd))
		test_fail(__FILE__, __LINE__, "%s", cmd);
}

static const char *in_dir(const char *name)
{
	static char path[4][1200];
	static int turn;
	char *p = path[turn++ & 3];

	snprintf(p, sizeof path[0], "%s/%s", dir, name);
	return p;
}

static void make_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		test_fail(__FILE__, __LINE__, "cannot write '%s'", path);
	close(fd);
}

/* ---- typing ---- */

TEST(typing)
{
	begin(NULL);
	CHECK(input_empty());
	CHECK_STR(taken(), "(none)");
	type("hello");
	CHECK(!input_empty());
	CHECK_STR(line_text(), "hello");
	CHECK_STR(taken(), "(none)");
	type("\r");
	CHECK_STR(taken(), "hello");
	CHECK_STR(taken(), "(none)");
	CHECK(input_empty());
	type("\r\r");
	CHECK_STR(taken(), "(none)");
	type("a\rb\r");
	CHECK_STR(taken(), "a");
	CHECK_STR(taken(), "b");
	type("gr\303\274n \346\274\242\345\255\227 \360\237\230\200\r");
	CHECK_STR(taken(), "gr\303\274n \346\274\242\345\255\227 \360\237\230\200");
	end();
}

TEST(editing_keys)
{
	/* Keys, and what they make of "one two three" with the cursor at its end. */
	/* clang-format off */
	static const struct { const char *keys, *text; } table[] = {
		{"\001x", "xone two three"}, {"\001\005x", "one two threex"}, {"\002x", "one two threxe"},
		{"\002\006x", "one two threex"},
		{"\033[Hx", "xone two three"}, {"\033OHx", "xone two three"}, {"\033[1~x", "xone two three"},
		{"\033[7~x", "xone two three"},
		{"\001\033[Fx", "one two threex"}, {"\001\033[4~x", "one two threex"}, {"\033[Dx", "one two threxe"},
		{"\033ODx", "one two threxe"}, {"\033[D\033[Cx", "one two threex"}, {"\033[1;5Dx", "one two xthree"},
		{"\033Odx", "one two xthree"}, {"\033[1;3Dx", "one two xthree"}, {"\033bx", "one two xthree"},
		{"\001\033[1;5Cx", "onex two three"}, {"\001\033fx", "onex two three"},
		{"\033[1;5Hx", "xone two three"},
		{"\001\033[1;5Fx", "one two threex"},
		{"\177", "one two thre"}, {"\010", "one two thre"}, {"\033[D\033[3~", "one two thre"},
		{"\002\004", "one two thre"},
		{"\027", "one two "}, {"\033\177", "one two "}, {"\001\033d", " two three"},
		{"\001\033[3;5~", " two three"},
		{"\025", ""}, {"\001\013", ""}, {"\002\002\024", "one two there"}, {"\033u\001\033u", "ONE two three"},
		{"\033[1;5D\033c", "one two Three"},
		/* Nothing is bound to these; none of their letters may be inserted. */
		{"\033[1;2A", "one two three"}, {"\033[1;6B", "one two three"}, {"\033[24~", "one two three"},
		{"\033[5~", "one two three"},
		{"\033[200;5u", "one two three"}, {"\033[2~x", "one two threex"}, {"\033[2~\001x", "xone two three"},
		{"\033\303\251", "one two three"}, {"\033[", "one two three"}, {"\033[27;5;113~", "one two three"},
		/* Keys in the longer form of newer terminals. */
		{"\033[97;5ux", "xone two three"}, {"\033[27;5;97~x", "xone two three"},
		{"\033[127ux", "one two threx"},
		{"\033[98;3ux", "one two xthree"},
		/* A count for a command, and keys that interrupt a count or a longer command. */
		{"\0334x", "one two threexxxx"}, {"\0334\007x", "one two threex"}, {"\0334\033", "one two three"},
		{"\0332\033[Dx", "one two thrxee"}, {"\030\033[Dx", "one two threxe"}, {"\030\007x", "one two threex"},
		{"\026\001x", "one two three\001x"}, {"\026\tx", "one two three\tx"}, {"\026\303\251\177x", "one two threex"},
		{"\026\rx", "one two three\nx"},
		{"\026\033[Dx", "one two threxe"}, {"\035tx", "one two threex"}, {"\001\035tx", "one xtwo three"},
	};
	/* clang-format on */

	begin(NULL);
	for (size_t i = 0; i < LEN(table); i++) {
		input_set("one two three", 13);
		type(table[i].keys);
		CHECK_MSG(!strcmp(line_text(), table[i].text), "keys %zu (\"%s\"): \"%s\", expected \"%s\"", i,
		          table[i].keys + 1, line_text(), table[i].text);
	}
	end();
}

/* Keys that the line does not use are passed to the screen. */
TEST(keys_that_are_not_its_own)
{
	static const char *const keys[] = {
		"\003",   "\032",     "\014",   "\007",         "\033", "\033[5~",   "\033[6~",
		"\033OP", "\033[15~", "\033[I", "\033[<0;3;3M", "\t",   "\033[1;2A", "\033[2~",
	};

	begin(NULL);
	type("\004");
	CHECK_INT(line_unused, 1);
	type("text");
	for (size_t i = 0; i < LEN(keys); i++) {
		type(keys[i]);
		CHECK_MSG(line_unused == 1, "key %zu was used", i);
		CHECK_STR(line_text(), "text");
	}
	CHECK(!input_wants_escape());
	CHECK_STR(taken(), "(none)");
	end();
}

TEST(kill_and_yank)
{
	begin(NULL);
	type("one two\027\027\031\031");
	CHECK_STR(line_text(), "one twoone two");
	input_set("abc", 3);
	type("\025def\025\031\033y");
	CHECK_STR(line_text(), "abc");
	/* Two kills with a move to another row between them are separate. */
	input_set("ab\ncd", 5);
	type("\033[A\001\013");
	input_set("ab\ncd\nef", 8);
	type("\033[A\033[A\001\033d\033[B\005\027\025");
	input_set("", 0);
	type("\031");
	CHECK_STR(line_text(), "\ncd\nef");
	end();
}

TEST(undo)
{
	begin(NULL);
	type("say ");
	paste_n("three\nlines\nof text", 19);
	CHECK_STR(line_text(), "say three\nlines\nof text");
	type("\037");
	CHECK_STR(line_text(), "say ");
	type("\037");
	CHECK_STR(line_text(), "");
	type("draft");
	input_set("another\ntext", 12);
	CHECK_STR(line_text(), "another\ntext");
	type("x");
	CHECK_STR(line_text(), "another\ntextx");
	type("\037\030\025");
	CHECK_STR(line_text(), "draft");
	input_set("", 0);
	CHECK(input_empty());
	end();
}

static void add_lines(struct str *s, int n)
{
	str_clear(s);
	for (int i = 0; i < n; i++)
		str_addf(s, "%sline %d of what was pasted", i ? "\n" : "", i);
}

/* A long paste is one character of the line: moved over, deleted, killed and restored as one, and sent in full. */
TEST(long_pastes_collapse)
{
	struct str one = { 0 }, two = { 0 }, want = { 0 }, got = { 0 };

	begin(NULL);
	add_lines(&one, 8);
	paste_n(one.p, one.n);
	CHECK_STR(line_text(), one.p); /* eight lines are not a long paste */
	input_set("", 0);
	add_lines(&one, 40);
	add_lines(&two, 9);
	type("Why does ");
	paste_n(one.p, one.n);
	type(" fail?");
	CHECK_STR(screen(60, 5), "> Why does [pasted 40 lines] fail?\n");
	CHECK_INT(line_x, 34);
	type("\033[D\033[D\033[D\033[D\033[D\033[D\033[D");
	screen(60, 5);
	CHECK_INT(line_x, 11); /* the cursor moves before the paste in one step */
	type("\033[C");
	screen(60, 5);
	CHECK_INT(line_x, 28);
	type("\177");
	CHECK_STR(screen(60, 5), "> Why does  fail?\n");
	type("\037");
	CHECK_STR(screen(60, 5), "> Why does [pasted 40 lines] fail?\n");
	paste_n(two.p, two.n);
	CHECK_STR(screen(60, 5), "> Why does [pasted 40 lines][pasted 9 lines] fail?\n");
	CHECK_STR(screen(8, 9), "> Why do\n  es \357\277\275\357\277\275\n  fail?\n");
	str_addf(&want, "Why does %s%s fail?", one.p, two.p);
	input_whole(&got);
	CHECK_STR(got.p, want.p);
	type("\001\013");
	CHECK(input_empty());
	type("\031"); /* killed and yanked */
	type("\r");
	CHECK_STR(taken(), want.p);
	type("\033[A");
	CHECK_STR(line_text(), want.p); /* the history has the full text */
	input_set("", 0);
	/* The character that stands for a paste cannot be typed. One long line is also a long paste. */
	type("\364\216\200\200");
	CHECK_STR(line_text(), "\357\277\275");
	input_set("", 0);
	paste_n("a\364\216\200\200b", 6);
	CHECK_STR(line_text(), "a\357\277\275b");
	input_set("", 0);
	str_clear(&one);
	for (int i = 0; i < 3000; i++)
		str_adds(&one, "x");
	paste_n(one.p, one.n);
	CHECK_STR(screen(60, 5), "> [pasted 3 KB]\n");
	input_abandon();
	type("\033[A");
	CHECK_STR(line_text(), one.p);
	end();
	str_free(&one);
	str_free(&two);
	str_free(&want);
	str_free(&got);
}

TEST(paste_is_exact)
{
	static const char text[] = "a\tb\033[31m\001\r\177\n\n\302\205x \342\200\256 \\\n\"\"\"\n";
	struct str s = { 0 };
	size_t n;

	begin(NULL);
	paste_n(text, sizeof text - 1);
	CHECK_INT((input_text(&n), n), sizeof text - 1);
	CHECK(!memcmp(line_text(), text, sizeof text));
	type("\r");
	CHECK(input_take(&s) && s.n == sizeof text - 1 && !memcmp(s.p, text, s.n));
	paste_n("a\0b\0\0c", 6);
	CHECK_STR(line_text(), "abc");
	input_set("", 0);
	paste_n("a\xff\xfe"
	        "b\xe6\xbc",
	        6);
	CHECK_STR(line_text(), "a\357\277\275\357\277\275b\357\277\275");
	/* A paste as terminals send it: Tab and Enter in it are not keys. */
	input_set("", 0);
	type("\033[200~/he\tlp\nx\033[201~");
	CHECK_STR(line_text(), "/he\tlp\nx");
	CHECK_INT(input_offers(), 0);
	str_free(&s);
	end();
}

/* ---- several lines ---- */

TEST(line_breaks)
{
	begin(NULL);
	type("a\033\rb\nc\033[13;2ud");
	CHECK_STR(line_text(), "a\nb\nc\nd");
	CHECK_STR(taken(), "(none)");
	type("\r");
	CHECK_STR(taken(), "a\nb\nc\nd");
	end();
}

TEST(backslash_and_blocks)
{
	/* Keys, the message, and the text left in the line. */
	static const struct {
		const char *keys, *message, *left;
	} table[] = {
		{ "one\\\rtwo\r", "one\ntwo", "" },
		{ "one\\\r\r", "one\n", "" },
		{ "\\\r\\\rx\r", "\n\nx", "" },
		{ "one\\", "(none)", "one\\" },
		{ "one\\\r", "(none)", "one\n" },
		{ "\"\"\"a\rb\"\"\"\r", "a\nb", "" },
		{ "\"\"\"\ra\rb\r\"\"\"\r", "a\nb", "" },
		{ "\"\"\"\r\r\ra\r\"\"\"\r", "\n\na", "" },
		{ "\"\"\"a\"\"\"\r", "a", "" },
		{ "\"\"\"a\\\rb\\\"\"\"\r", "a\\\nb\\", "" },
		{ "\"\"\"a\"\"\r\"\r", "(none)", "\"\"\"a\"\"\n\"\n" },
		{ "\"\"\"\r", "(none)", "\"\"\"\n" },
		{ "\"\"\"\"\"\r", "(none)", "\"\"\"\"\"\n" },
		{ "\"\"\"\"\"\"\r", "(none)", "" },
		{ "\"\"\"\r\"\"\"\r", "(none)", "" },
		{ "x \"\"\"\r", "x \"\"\"", "" },
		/* In the middle of a block Enter breaks the line; a backslash at the end of the text counts wherever
		 * the cursor is. */
		{ "\"\"\"ab\002\r\005\"\"\"\r", "a\nb", "" },
		{ "ab\\\001\r", "(none)", "ab\n" },
	};

	begin(NULL);
	for (size_t i = 0; i < LEN(table); i++) {
		const char *got;
		type(table[i].keys);
		got = taken();
		CHECK_MSG(!strcmp(got, table[i].message), "%zu: message \"%s\", expected \"%s\"", i, got,
		          table[i].message);
		CHECK_MSG(!strcmp(line_text(), table[i].left), "%zu: \"%s\" is left, expected \"%s\"", i, line_text(),
		          table[i].left);
		input_set("", 0);
	}
	/* Undo of the line break brings the backslash back. */
	type("one\\\r\037");
	CHECK_STR(line_text(), "one\\");
	end();
}

TEST(up_and_down_in_a_draft)
{
	begin(NULL);
	type("before\r");
	taken();
	type("first line\n2\nthe third");
	CHECK_STR(screen(20, 9), "> first line\n  2\n  the third\n");
	CHECK_CURSOR(11, 2);
	type("\033[A");
	screen(20, 9);
	CHECK_CURSOR(3, 1);
	type("\033[A"); /* the column is kept across the short line */
	screen(20, 9);
	CHECK_CURSOR(11, 0);
	type("\033[B\033[B\033[D");
	screen(20, 9);
	CHECK_CURSOR(10, 2);
	type("\033[A\033[Ax");
	CHECK_STR(line_text(), "first lixne\n2\nthe third");
	type("\033[A"); /* from the first row into the history */
	CHECK_STR(line_text(), "before");
	type("\033[B"); /* and back to the draft */
	CHECK_STR(line_text(), "first lixne\n2\nthe third");
	screen(20, 9);
	CHECK_CURSOR(11, 2);
	/* Home and End go to the ends of the line, and at an end of the line to that of the draft. */
	type("\033[A\033[H");
	screen(20, 9);
	CHECK_CURSOR(2, 1);
	type("\033[H");
	screen(20, 9);
	CHECK_CURSOR(2, 0);
	type("\033[F");
	screen(20, 9);
	CHECK_CURSOR(13, 0);
	type("\033[F");
	screen(20, 9);
	CHECK_CURSOR(11, 2);
	/* Rows of one long line are rows, too. */
	input_set("abcdefghijklmnop", 16);
	CHECK_STR(screen(8, 9), "> abcdef\n  ghijkl\n  mnop\n");
	type("\033[A");
	screen(8, 9);
	CHECK_CURSOR(6, 1);
	type("\033[A");
	screen(8, 9);
	CHECK_CURSOR(6, 0);
	type("X");
	CHECK_STR(line_text(), "abcdXefghijklmnop");
	end();
}

/* ---- history ---- */

TEST(history_walk)
{
	begin(NULL);
	type("one\rtwo\nlines\rthree\rthree\r");
	while (strcmp(taken(), "(none)"))
		;
	type("draft\033[A");
	CHECK_STR(line_text(), "three");
	type("\033[A");
	CHECK_STR(line_text(), "two\nlines");
	screen(20, 9);
	CHECK_CURSOR(7, 1);
	type("\033[A"); /* Up first moves within the entry */
	CHECK_STR(line_text(), "two\nlines");
	screen(20, 9);
	CHECK_CURSOR(5, 0);
	type("\033[A");
	CHECK_STR(line_text(), "one");
	type("\033[A");
	CHECK_STR(line_text(), "one");
	type("\033[B\033[B\033[B");
	CHECK_STR(line_text(), "draft");
	/* An old entry that is changed and sent is unchanged in the history. */
	type("\033[A\033[A!\r");
	CHECK_STR(taken(), "two\nlines!");
	type("\033[A");
	CHECK_STR(line_text(), "two\nlines!");
	type("\033[A\033[A\033[A\033[A");
	CHECK_STR(line_text(), "two\nlines");
	type("\033>x");
	CHECK_STR(line_text(), "x");
	input_set("", 0);
	/* Changes of an old entry are kept until a message is sent: after moving to another entry and back, after
	 * typing more, and after a cancelled search. */
	type("\005\025p1\rp2\r");
	CHECK_STR(taken(), "p1");
	CHECK_STR(taken(), "p2");
	type("\033[Ax\033[A\033[By\033[A\033[B");
	CHECK_STR(line_text(), "p2xy");
	type("z\022zzz\007");
	CHECK_STR(line_text(), "p2xyz");
	type("\037\037\037");
	CHECK_STR(line_text(), "p2");
	type("!\033[A");
	CHECK_STR(line_text(), "p1");
	/* Ctrl-O sends an entry and goes to the next entry; with a count of 2 it goes two entries further. */
	type("\017");
	CHECK_STR(taken(), "p1");
	CHECK_STR(line_text(), "p2");
	type("\0332\017");
	CHECK_STR(taken(), "p2");
	CHECK_STR(line_text(), "two\nlines");
	end();
}

TEST(abandoned_drafts)
{
	begin(NULL);
	type("a long draft\nof mine");
	input_abandon();
	CHECK(input_empty());
	CHECK_STR(taken(), "(none)");
	input_abandon();
	type("\"\"\"open");
	input_abandon();
	CHECK(input_empty());
	type("\033[A");
	CHECK_STR(line_text(), "\"\"\"open");
	type("\033[A");
	CHECK_STR(line_text(), "a long draft\nof mine");
	/* input_abandon() during a search, a quoted insert and a count. */
	type("\022long");
	input_abandon();
	CHECK(input_empty());
	CHECK(!input_wants_escape());
	type("x\026");
	input_abandon();
	type("y\0339");
	input_abandon();
	type("z\r");
	CHECK_STR(taken(), "z");
	end();
}

TEST(history_search)
{
	begin(NULL);
	type("foo one\rbar\nfoo two\rlast\r");
	while (strcmp(taken(), "(none)"))
		;
	type("draft\022");
	CHECK(input_wants_escape());
	CHECK_STR(screen(60, 5), "(reverse-i-search)`': draft\n");
	type("fo");
	CHECK_STR(screen(60, 5), "(reverse-i-search)`fo': bar\nfoo two\n");
	CHECK_CURSOR(0, 1);
	type("\022");
	CHECK_STR(screen(60, 5), "(reverse-i-search)`fo': foo one\n");
	CHECK_STR(screen(16, 5), "h)`fo': foo one\n");
	CHECK_CURSOR(8, 0);
	CHECK_STR(screen(4, 5), ": fo\no on\ne\n");
	type("\007");
	CHECK_STR(line_text(), "draft");
	CHECK(!input_wants_escape());
	CHECK_STR(screen(60, 5), "> draft\n");
	type("\022zzz");
	CHECK_STR(screen(60, 5), "(failed reverse-i-search)`zzz': draft\n");
	type("\007\007");
	CHECK_STR(line_text(), "draft");
	/* Esc keeps the entry found, Enter sends it. */
	type("\022one\033");
	CHECK_STR(line_text(), "foo one");
	CHECK(!input_wants_escape());
	input_abandon();
	type("\022one\r");
	CHECK_STR(taken(), "foo one");
	/* Other keys end the search and have their usual effect. */
	type("\022bar\033[Fx");
	CHECK_STR(line_text(), "barx\nfoo two");
	input_abandon();
	/* A paste goes into the search; line breaks and controls in it are not keys. */
	type("\022");
	paste_n("foo\001\r\nnever", 12);
	CHECK_STR(taken(), "(none)");
	CHECK(input_wants_escape());
	type("\033");
	CHECK(strstr(line_text(), "foo") != NULL);
	end();
}

/* Meta-P asks for a pattern. Enter without one repeats the last search; there is none here, because readline keeps the
 * pattern until the process ends: no test before this one may search with Meta-P. */
TEST(search_without_a_pattern)
{
	begin(NULL);
	type("one\rdraft\033p");
	CHECK(input_wants_escape());
	CHECK_STR(taken(), "one");
	type("\r");
	CHECK(!input_wants_escape());
	CHECK_STR(line_text(), "draft");
	/* The edits made after such a search stay with the line. */
	input_set("", 0);
	type("\033p\r");
	input_restore("restored");
	type("\033[A");
	CHECK_STR(line_text(), "one");
	type("\033[B");
	CHECK_STR(line_text(), "restored");
	/* Also a pattern that was typed and erased is none. */
	type("\033pab\177\177\r");
	CHECK_STR(line_text(), "restored");
	type("\033pab\177\177\177");
	CHECK_STR(line_text(), "restored");
	type("\033pon\r");
	CHECK_STR(line_text(), "one");
	end();
}

static int mode_of(const char *path)
{
	struct stat st;

	return stat(path, &st) ? -1 : (int)(st.st_mode & 07777);
}

static size_t count(const char *text, const char *what)
{
	size_t n = 0;

	for (const char *p = text; (p = strstr(p, what)); p += strlen(what))
		n++;
	return n;
}

/* The history file, as line mode reads and writes it. */
TEST(history_file)
{
	const char *path;
	char *text;

	make_dir();
	path = in_dir("history");
	begin(path);
	type("one\rtwo\nlines\r#1 is no stamp\nbut text\r");
	while (strcmp(taken(), "(none)"))
		;
	end();
	CHECK_INT(mode_of(path), 0600);
	text = test_read(path, NULL);
	CHECK(text && strstr(text, "\none\n#") && strstr(text, "\ntwo\nlines\n#"));
	free(text);
	history_comment_char = '#';
	history_write_timestamps = 1;
	using_history();
	clear_history();
	CHECK_INT(read_history(path), 0);
	CHECK(history_length >= 3 && !strcmp(history_get(history_base)->line, "one"));
	CHECK(history_length >= 3 && !strcmp(history_get(history_base + 1)->line, "two\nlines"));
	add_history("from line mode\nof two lines");
	CHECK_INT(append_history(1, path), 0);
	clear_history();
	history_write_timestamps = 0;
	chmod(path, 0644);
	begin(path);
	CHECK_INT(mode_of(path), 0600);
	type("\033[A");
	CHECK_STR(line_text(), "from line mode\nof two lines");
	type("\033[A\033[A");
	CHECK_STR(line_text(), "#1 is no stamp\nbut text");
	end();
	/* An older file without time stamps; bytes that are not text. */
	make_file(path, "first\nsecond \xff line\n#12345\nwith\nstamp");
	begin(path);
	type("new\r\033[A\033[A");
	CHECK_STR(line_text(), "with\nstamp");
	type("\033[A\033[A");
	CHECK_STR(line_text(), "second \357\277\275 line");
	type("\033[A");
	CHECK_STR(line_text(), "first");
	end();
	text = test_read(path, NULL);
	CHECK(text && strstr(text, "with\nstamp\n#"));
	free(text);
	remove_dir();
}

TEST(history_file_that_is_none)
{
	char *text;

	make_dir();
	make_file(in_dir("target"), "keep\n");
	CHECK(!symlink(in_dir("target"), in_dir("link")));
	CHECK(!mkfifo(in_dir("fifo"), 0600));
	begin(in_dir("link"));
	type("x\r\033[A");
	CHECK_STR(line_text(), "x");
	end();
	text = test_read(in_dir("target"), NULL);
	CHECK_STR(text, "keep\n");
	free(text);
	begin(in_dir("fifo"));
	type("x\r");
	end();
	begin(in_dir("none/history"));
	type("x\r");
	CHECK_STR(taken(), "x");
	end();
	begin(dir);
	type("x\r");
	end();
	remove_dir();
}

TEST(history_file_stays_short)
{
	struct str s = { 0 };
	char *text;

	make_dir();
	for (int i = 0; i < 2500; i++)
		str_addf(&s, "#%d\nentry %d\nof two lines\n", 1700000000 + i, i);
	make_file(in_dir("history"), s.p);
	begin(in_dir("history"));
	CHECK_INT(history_length, HISTORY_MAX);
	type("\033<");
	CHECK_STR(line_text(), "entry 500\nof two lines");
	type("\033>last\r");
	CHECK_INT(history_length, HISTORY_MAX);
	end();
	text = test_read(in_dir("history"), NULL);
	CHECK_INT(count(text, "entry "), HISTORY_MAX - 1);
	CHECK(!strncmp(text, "#1700000501\nentry 501\n", 22));
	CHECK(strstr(text, "\nentry 2499\nof two lines\n#") && strstr(text, "\nlast\n"));
	CHECK_INT(mode_of(in_dir("history")), 0600);
	free(text);
	/* An entry of a megabyte is kept in memory, but not on disk. */
	begin(in_dir("history"));
	str_clear(&s);
	for (int i = 0; i < HISTORY_ENTRY + 1; i++)
		str_add(&s, "y", 1);
	paste_n(s.p, s.n);
	type("\r\033[A");
	CHECK(strlen(line_text()) == s.n);
	end();
	text = test_read(in_dir("history"), NULL);
	CHECK(!strstr(text, "yy"));
	free(text);
	str_free(&s);
	remove_dir();
}

/* Several processes append to the file and cut it at the same time: no new entry is lost. */
TEST(history_of_several)
{
	enum { WEIRS = 4, ENTRIES = 60 };
	struct str s = { 0 };
	char *text;
	int failed = 0;

	make_dir();
	for (int i = 0; i < 2100; i++)
		str_addf(&s, "#%d\nold\n", 1700000000 + i);
	make_file(in_dir("history"), s.p);
	for (int w = 0; w < WEIRS; w++) {
		if (fork())
			continue;
		for (int i = 0; i < ENTRIES; i++) {
			char entry[40];
			snprintf(entry, sizeof entry, "weir %d says %d.", w, i);
			history_append(in_dir("history"), entry, strlen(entry));
			if (i % 10 == w)
				history_trim(in_dir("history"));
		}
		_exit(0);
	}
	for (int w = 0, status; w < WEIRS; w++)
		failed += wait(&status) < 0 || status;
	CHECK_INT(failed, 0);
	text = test_read(in_dir("history"), NULL);
	for (int w = 0; w < WEIRS; w++)
		for (int i = 0; i < ENTRIES; i++) {
			char entry[40];
			snprintf(entry, sizeof entry, "\nweir %d says %d.\n", w, i);
			CHECK_INT(count(text, entry), 1);
		}
	free(text);
	history_trim(in_dir("history"));
	text = test_read(in_dir("history"), NULL);
	CHECK_INT(count(text, "#"), HISTORY_MAX);
	free(text);
	str_free(&s);
	remove_dir();
}

/* ---- completion ---- */

TEST(commands_are_offered)
{
	begin(NULL);
	type("/");
	CHECK_INT(input_offers(), 5);
	CHECK_STR(
		popup(40, 8, 0),
		"\n\n\n│ /help    this list\n│ /quit    end\n│ /read    add a document\n│ /switch  go on in another session\n"
		"│ /kv      show the cache\n");
	type("q");
	CHECK_INT(input_offers(), 1);
	CHECK(input_wants_escape());
	CHECK_STR(popup(40, 2, 0), "\n│ /quit  end\n");
	type("\r"); /* no offer was selected, so Enter sends */
	CHECK_STR(taken(), "/q");
	CHECK_INT(input_offers(), 0);
	type("/q\t");
	CHECK_STR(line_text(), "/quit");
	type("\r");
	CHECK_STR(taken(), "/quit");
	type("/e\t"); /* another name of the command */
	CHECK_STR(line_text(), "/exit");
	type("\025/x");
	CHECK_INT(input_offers(), 0);
	type("\025/rea\t");
	CHECK_STR(line_text(), "/read ");
	type("\025/\033[B");
	CHECK(strstr(popup(12, 5, 1), "│ /help    …\nr xxxxxxxxxx\n│ /quit    …\nr sssss    f\n") != NULL);
	CHECK(strstr(popup(12, 5, 1), "x = selected\n") != NULL);
	type("\033[B\033[A\033[A\033[A\r");
	CHECK_STR(line_text(), "/switch ");
	CHECK_STR(taken(), "(none)");
	type("\025/\t\t");
	type("\033"); /* Esc closes the popup and does nothing else */
	CHECK_INT(line_unused, 0);
	CHECK_INT(input_offers(), 0);
	CHECK_STR(line_text(), "/");
	type("\033");
	CHECK_INT(line_unused, 1);
	/* If the user keeps typing, the selected offer is accepted. */
	type("\025/\t x");
	CHECK_STR(line_text(), "/help x");
	type("\025/s\t abc");
	CHECK_STR(line_text(), "/switch abc");
	/* Backspace updates the popup, too. */
	type("\025/re");
	CHECK_INT(input_offers(), 2);
	CHECK_STR(popup(50, 2, 0), "│ /read    add a document\n│ /resume  go on in another session\n");
	type("\177");
	CHECK_INT(input_offers(), 2);
	type("\177");
	CHECK_INT(input_offers(), 5);
	/* A synonym offers the command. */
	type("\025/up");
	CHECK_INT(input_offers(), 1);
	CHECK_STR(popup(40, 1, 0), "│ /read  add a document\n");
	type("\t");
	CHECK_STR(line_text(), "/read ");
	type("\025/att\t");
	CHECK_STR(line_text(), "/read ");
	/* Tab completes to the name that begins so, even if another command has such a synonym, which is offered, too. */
	type("\025/swi");
	CHECK_INT(input_offers(), 2);
	type("\t");
	CHECK_STR(line_text(), "/switch ");
	type("\025/u"); /* one letter is too few */
	CHECK_INT(input_offers(), 0);
	/* While the arrows walk through the history no popup opens. */
	type("\025\033[A");
	CHECK_STR(line_text(), "/quit");
	CHECK_INT(input_offers(), 0);
	/* "//" begins a message, not a command. */
	type("\025//h");
	CHECK_INT(input_offers(), 0);
	type("\t");
	CHECK_INT(line_unused, 1);
	end();
}

TEST(words_and_names_are_offered)
{
	const char *names[] = { "alpha", "beta one", "beta two", "ga\033[31mmma" };

	begin(NULL);
	input_names(names, 4);
	type("/kv \t");
	CHECK_INT(input_offers(), 5);
	type("\025/kv f\t");
	CHECK_STR(line_text(), "/kv full");
	type("\025/cache l\t");
	CHECK_STR(line_text(), "/cache layer ");
	type("\025/switch b\t");
	CHECK_STR(line_text(), "/switch beta ");
	type("t\t");
	CHECK_STR(line_text(), "/switch beta two");
	type("\025/resume ");
	CHECK(strstr(popup(40, 8, 0), " ga^[[31mmma\n") != NULL);
	type("g\t");
	CHECK_STR(line_text(), "/resume ga\033[31mmma");
	CHECK(strstr(screen(40, 2), "/resume ga^[[31mmma") != NULL);
	type("\025/help x\t");
	CHECK_INT(line_unused, 1);
	end();
}

/* Undo the quoting of a path as the program does. */
static void take_back(const char *arg, struct str *out)
{
	char quote = 0;

	for (; *arg; arg++) {
		if (quote ? *arg == quote : *arg == '"' || *arg == '\'')
			quote = quote ? 0 : *arg;
		else if (*arg == '\\' && arg[1] && quote != '\'')
			str_add(out, ++arg, 1);
		else
			str_add(out, arg, 1);
	}
	while (out->n && out->p[out->n - 1] == ' ')
		out->p[--out->n] = 0;
}

TEST(paths_are_quoted)
{
	static const char *const names[] = {
		"plain",     "two words",         "it's",        "say \"so\"", "back\\slash", "~tilde", "tab\there",
		"new\nline", "\303\274n\303\257", "esc\033[31m", "-dash",      "a'b\"c\\d e",
	};
	static const char *const before[] = { "", "\"", "'" };
	struct str s = { 0 };
	char typed[700];

	make_dir();
	begin(NULL);
	for (size_t i = 0; i < LEN(names); i++)
		for (size_t q = 0; q < 3; q++) {
			char sub[20];
			snprintf(sub, sizeof sub, "%zu-%zu", i, q);
			mkdir(in_dir(sub), 0700);
			snprintf(typed, sizeof typed, "%s/%s", sub, names[i]);
			make_file(in_dir(typed), "");
			snprintf(typed, sizeof typed, "/read %s%s/%s/", before[q], dir, sub);
			input_set(typed, strlen(typed));
			type("\t");
			str_clear(&s);
			take_back(line_text() + 6, &s);
			snprintf(typed, sizeof typed, "%s/%s/%s", dir, sub, names[i]);
			CHECK_STR(s.p, typed);
			CHECK(line_text()[strlen(line_text()) - 1] == ' ');
		}
	str_free(&s);
	end();
	remove_dir();
}

TEST(paths_are_offered)
{
	char typed[600], was[300];
	struct str s = { 0 };

	make_dir();
	mkdir(in_dir("sub dir"), 0700);
	make_file(in_dir("sub dir/inner"), "");
	make_file(in_dir("some text"), "");
	make_file(in_dir(".hidden"), "");
	make_file(in_dir("evil\033]0;x\007"), "");
	make_file(in_dir("not\xff text"), "");
	CHECK(getcwd(was, sizeof was) && !chdir(dir));
	setenv("HOME", dir, 1);
	begin(NULL);
	type("/read \t");
	CHECK_INT(input_offers(), 3);
	CHECK_STR(popup(40, 3, 0), "│ evil^[]0;x^G\n│ some text\n│ sub dir/\n");
	type("\033");
	type("\025/open s");
	CHECK_INT(input_offers(), 2);
	type("o\t");
	CHECK_STR(line_text(), "/open some\\ text ");
	/* Unquoted blanks work, too; the popup lists the directory at once. */
	type("\025/open sub d\t");
	CHECK_STR(line_text(), "/open sub\\ dir/");
	CHECK_INT(input_offers(), 1);
	type("\t");
	CHECK_STR(line_text(), "/open sub\\ dir/inner ");
	type("\025/open ~/sub\\ dir/\t");
	CHECK_STR(line_text(), "/open ~/sub\\ dir/inner ");
	type("\025/open .h\t");
	CHECK_STR(line_text(), "/open .hidden ");
	/* @path anywhere in the text. */
	type("\025look at @so\t");
	CHECK_STR(line_text(), "look at @some\\ text ");
	type("and @'sub dir/i\tdon't");
	CHECK_STR(line_text(), "look at @some\\ text and @'sub dir/inner' don't");
	type("\025a@so\t");
	CHECK_INT(line_unused, 1);
	input_set("see @so!", 8);
	type("\002\t");
	CHECK_STR(line_text(), "see @some\\ text !");
	type("\025@nothing-of-that-name\t");
	CHECK_INT(line_unused, 0);
	CHECK_INT(input_offers(), 0);
	/* Of a directory with thousands of files only a part is read. */
	mkdir(in_dir("many"), 0700);
	for (int i = 0; i < OFFER_MOST + 100; i++) {
		snprintf(typed, sizeof typed, "many/%05d", i);
		make_file(in_dir(typed), "");
	}
	type("\025@many/");
	type("\t");
	CHECK(input_offers() > OFFER_MOST - 10 && input_offers() <= OFFER_MOST);
	for (int i = 0; i < 10; i++)
		type("\t");
	str_adds(&s, popup(30, 20, 1));
	CHECK(strstr(s.p, "10 of 409") && strstr(s.p, "+\n"));
	CHECK_INT(count(s.p, "r xxxxxxx"), 1);
	str_free(&s);
	end();
	if (chdir(was))
		test_fail(__FILE__, __LINE__, "no way back to '%s'", was);
	remove_dir();
}

/* ---- the screen ---- */

TEST(drawing)
{
	begin(NULL);
	CHECK_STR(screen(10, 3), ">\n");
	CHECK_CURSOR(2, 0);
	type("12345678");
	CHECK_STR(screen(10, 3), "> 12345678\n\n"); /* the cursor needs a column of its own */
	CHECK_CURSOR(2, 1);
	type("\033[D");
	screen(10, 3);
	CHECK_CURSOR(9, 0);
	input_set("12345678\nx", 10);
	type("\033[A\005");
	type("\033[H\033[F");
	CHECK_STR(screen(10, 3), "> 12345678\n  x\n");
	/* Control characters are shown by names, which are not split. */
	input_set("a\tb\033c\302\205d\342\200\213e\342\200\256", 15);
	CHECK_STR(screen(60, 3), "> a^Ib^[c<85>d<U+200B>e<U+202E>\n");
	CHECK_STR(screen(12, 9), "> a^Ib^[c\n  <85>d\n  <U+200B>e\n  <U+202E>\n");
	CHECK_STR(screen(6, 9), "> a^Ib\n  ^[c\n  <85>\n  d\357\277\275e\357\277\275\n\n");
	/* Wide characters are not split either. */
	input_set("a\346\274\242\345\255\227b", 8);
	CHECK_STR(screen(7, 9), "> a\346\274\242\345\255\227\n  b\n");
	CHECK_STR(screen(6, 9), "> a\346\274\242\n  \345\255\227b\n");
	CHECK_CURSOR(5, 1);
	CHECK_STR(screen(4, 9), "> a\n  \346\274\242\n  \345\255\227\n  b\n");
	CHECK_STR(screen(3, 9), "a\346\274\242\n\345\255\227b\n\n");
	CHECK_STR(screen(1, 9), "a\n\357\277\275\n\357\277\275\nb\n\n");
	/* Marks belong to their base character: the cursor moves over both. */
	input_set("e\314\201\314\201x", 6);
	CHECK_STR(screen(10, 2), "> e\314\201\314\201x\n");
	CHECK_CURSOR(4, 0);
	type("\033[D\033[D");
	screen(10, 2);
	CHECK_CURSOR(2, 0);
	type("\033[3~");
	CHECK_STR(line_text(), "x");
	input_set("\314\201", 2);
	CHECK_STR(screen(10, 2), "> \342\227\214\314\201\n");
	CHECK_CURSOR(3, 0);
	input_set("\360\237\221\250\342\200\215\360\237\221\251z", 12);
	CHECK_STR(screen(10, 2), "> \360\237\221\250\360\237\221\251z\n");
	CHECK_CURSOR(7, 0);
	end();
}

TEST(scrolling)
{
	struct str s = { 0 };

	begin(NULL);
	for (int i = 0; i < 20; i++)
		str_addf(&s, "%sline %d", i ? "\n" : "", i);
	input_set(s.p, s.n);
	CHECK_INT(input_rows(20, 4), 4);
	CHECK_INT(input_rows(20, 100), 20);
	CHECK_STR(screen(20, 3), "  line 17\n  line 18\n  line 19\n");
	type("\033[A\033[A");
	CHECK_STR(screen(20, 3), "  line 17\n  line 18\n  line 19\n");
	CHECK_INT(line_y, 0);
	type("\033[A");
	CHECK_STR(screen(20, 3), "  line 16\n  line 17\n  line 18\n");
	type("\033[1;5H");
	CHECK_STR(screen(20, 3), "> line 0\n  line 1\n  line 2\n");
	type("\033[B\033[B\033[B");
	CHECK_STR(screen(20, 3), "  line 1\n  line 2\n  line 3\n");
	CHECK_INT(line_y, 2);
	/* The area grows and shrinks around the cursor; no row is empty while there is text for it. */
	CHECK_STR(screen(20, 5), "  line 1\n  line 2\n  line 3\n  line 4\n  line 5\n");
	CHECK_STR(screen(20, 1), "  line 3\n");
	type("\033>");
	input_set(s.p, s.n);
	screen(20, 3);
	CHECK_STR(screen(20, 5), "  line 15\n  line 16\n  line 17\n  line 18\n  line 19\n");
	type("\177\177\177\177\177\177\177\177");
	CHECK_STR(screen(20, 5), "  line 14\n  line 15\n  line 16\n  line 17\n  line 18\n");
	str_free(&s);
	end();
}

/* For any text and width: the rows joined are the text shown on one long row, the cursor is on a row, and moving by
 * rows ends at the first and the last. */
TEST(any_text_at_any_width)
{
	double slow = test_patience();

	begin(NULL);
	for (int round = 0; round < (slow > 1 ? 300 : 3000); round++) {
		struct str s = { 0 }, rows = { 0 }, all = { 0 };
		int n = (int)(test_rand() % 60), w = 6 + (int)(test_rand() % (round % 3 ? 20 : 195)),
		    h = 1 + (int)(test_rand() % 9), y;

		for (int i = 0; i < n; i++)
			str_adds(&s, pieces[test_rand() % (LEN(pieces) - (round % 2))]);
		input_set(str_text(&s), s.n);
		for (size_t i = test_rand() % (s.n + 1); i; i--)
			type("\002");
		screen(w, h);
		CHECK(line_x >= 0 && line_x < w && line_y >= 0 && line_y < h);
		screen(4 + (int)(test_rand() % 3), h);
		CHECK(line_y >= 0 && line_y < h);
		if (round % 2 && w > 12) {
			for (const char *p = screen(w, 500); *p; p++)
				if (*p != '\n' && *p != ' ')
					str_add(&rows, p, 1);
			for (const char *p = screen(999, 500); *p; p++)
				if (*p != '\n' && *p != ' ')
					str_add(&all, p, 1);
			CHECK_STR(rows.p, all.p);
		}
		screen(w, 500);
		y = line_y;
		for (int i = 0; i < y; i++)
			type("\033[A");
		screen(w, 500);
		CHECK_INT(line_y, 0);
		for (int i = 1; i < input_rows(w, 500); i++)
			type("\033[B");
		screen(w, 500);
		CHECK_INT(line_y, input_rows(w, 500) - 1);
		CHECK(!strcmp(line_text(), str_text(&s)));
		str_free(&s);
		str_free(&rows);
		str_free(&all);
	}
	end();
}

TEST(ten_thousand_lines)
{
	struct str s = { 0 };
	double t0, t_paste, t_draw, t_key, t_up, t_enter;

	begin(NULL);
	for (int i = 0; i < 10000; i++)
		str_addf(
			&s,
			"line %d of a paste that is somewhat longer than a row of a small screen, with \303\274 and \346\274\242\n",
			i);
	t0 = cpu_seconds();
	paste_n(s.p, s.n);
	CHECK_STR(screen(80, 10), "> [pasted 10000 lines]\n");
	t_paste = cpu_seconds() - t0;
	input_set(s.p, s.n); /* as returned by the editor: not collapsed */
	t0 = cpu_seconds();
	for (int i = 0; i < 20; i++)
		screen(80, 10);
	t_draw = (cpu_seconds() - t0) / 20;
	t0 = cpu_seconds();
	for (int i = 0; i < 20; i++)
		type("x"), screen(80, 10);
	t_key = (cpu_seconds() - t0) / 20;
	t0 = cpu_seconds();
	for (int i = 0; i < 50; i++)
		type("\033[A"), screen(80, 10);
	t_up = (cpu_seconds() - t0) / 50;
	type("\033[1;5F");
	for (int i = 0; i < 20; i++)
		type("\177");
	CHECK_INT(strlen(line_text()), s.n);
	t0 = cpu_seconds();
	type("\r");
	t_enter = cpu_seconds() - t0;
	CHECK_STR(taken(), s.p);
	test_note("10,000 lines, %zu bytes: paste %.2f ms, draw %.3f ms, key %.3f ms, up %.3f ms, enter %.2f ms", s.n,
	          1e3 * t_paste, 1e3 * t_draw, 1e3 * t_key, 1e3 * t_up, 1e3 * t_enter);
	CHECK(t_paste < 0.1 * test_patience());
	CHECK(t_draw < 0.02 * test_patience());
	/* One line of a megabyte. */
	str_clear(&s);
	for (int i = 0; i < 100000; i++)
		str_adds(&s, "all in one ");
	t0 = cpu_seconds();
	input_set(s.p, s.n);
	t_paste = cpu_seconds() - t0;
	t0 = cpu_seconds();
	screen(80, 10);
	t_draw = cpu_seconds() - t0;
	t0 = cpu_seconds();
	for (int i = 0; i < 5; i++)
		type("\033[A"), screen(80, 10);
	t_up = (cpu_seconds() - t0) / 5;
	test_note("one line of %zu bytes: paste %.2f ms, draw %.2f ms, up %.2f ms", s.n, 1e3 * t_paste, 1e3 * t_draw,
	          1e3 * t_up);
	str_free(&s);
	end();
}

/* ---- anything ---- */

TEST(random_keys)
{
	const char *names[] = { "one", "two words" };
	char was[300];

	make_dir();
	make_file(in_dir("some file"), "");
	mkdir(in_dir("sub"), 0700);
	CHECK(getcwd(was, sizeof was) && !chdir(dir));
	begin(in_dir("history"));
	input_names(names, 2);
	key_storm(storm_length(20000));
	end();
	if (chdir(was))
		test_fail(__FILE__, __LINE__, "no way back to '%s'", was);
	remove_dir();
}
