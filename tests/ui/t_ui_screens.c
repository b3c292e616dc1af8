/* tests/ui/t_ui_screens.c - whole screens, compared with tests/vectors/ui_screens.txt, and the time of drawing them
 * (see t_ui.c).
 *
 * WEIR_UI_SCREENS=FILE writes the screens as they are now, to be read and compared by eye before they become the
 * expected ones. */
#include "tests/lib/screen_alone.h"

/* ---- scenes ---- */

static void scene_start(void)
{
	struct ui_status s = {
		.model = "SmolLM2-135M-Instruct", .session = "", .kv = "auto", .ctx = 8192, .memory = 210u << 20
	};
	ui_status(u, &s);
}

static void scene_transcript(void)
{
	some_messages();
	answer("On the day the keys are handed over (clause 4).");
	ui_entry(u, UI_NOTICE, "saved", 5);
}

static void scene_reading(void)
{
	struct ui_work w = { .verb = "reading", .done = 3120, .total = 9000, .had = 1024, .left = 12 };

	some_messages();
	ui_work(u, &w);
}

static void scene_answering(void)
{
	some_messages();
	ui_entry(u, UI_ASSISTANT, "", 0);
	ui_piece(u, "On the day the ke", 17);
	work("answering");
}

static void scene_queue(void)
{
	static const char *const say[] = { "and the keys?", "who pays the water?", "/undo",
		                           "\346\274\242\345\255\227 too", "the last one" };

	scene_answering();
	for (int i = 0; i < 5; i++) {
		type(say[i]);
		key("\r");
	}
	type("still writing");
}

static void scene_scrolled(void)
{
	char text[40];

	status();
	for (int i = 1; i <= 50; i++) {
		snprintf(text, sizeof text, "question %d", i);
		question(text);
	}
	ui_entry(u, UI_ASSISTANT, "", 0);
	ui_piece(u, "first line", 10);
	work("answering");
	screen();
	key(PGUP);
	screen();
	ui_piece(u, "\n\nsecond\n\nthird\n\nfourth", 22);
}

static void scene_search(void)
{
	some_messages();
	screen();
	key(F3);
	type("rent");
}

static void scene_help(void)
{
	some_messages();
	key(F1);
}

static void scene_help_search(void)
{
	scene_help();
	screen();
	key(F3);
	type("copy");
}

static void scene_palette(void)
{
	some_messages();
	key(CTRL('p'));
	type("set");
}

static void scene_quit(void)
{
	some_messages();
	key(CTRL('c'));
}

static void scene_popup(void)
{
	some_messages();
	type("/re");
	key("\t");
}

static void scene_legend(void)
{
	scene_bar();
	key(F6);
	key(F6);
	key("?");
}

static void scene_leader(void)
{
	some_messages();
	key(CTRL('x'));
}

static void scene_refused(void)
{
	scene_answering();
	type("/new");
	key("\r");
}

static void scene_draft(void)
{
	some_messages();
	key(ESC "[200~one\ntwo\nthree\nfour\nfive" ESC "[201~");
}

/* ---- screens ---- */

/* Find the screen of this name in the text of the file of screens. *n = its length; NULL = not found. */
static const char *expected(const char *file, const char *name, size_t *n)
{
	char title[80];
	const char *at, *end;

	snprintf(title, sizeof title, "== %s\n", name);
	at = strstr(file, title);
	if (!at)
		return NULL;
	at += strlen(title);
	end = strstr(at, "\n== ");
	*n = end ? (size_t)(end + 1 - at) : strlen(at);
	return at;
}

TEST(whole_screens)
{
	/* clang-format off */
	static const struct { const char *name; void (*make)(void); } scene[] = {
		{"start", scene_start}, {"transcript", scene_transcript}, {"reading", scene_reading}, {"answering", scene_answering},
		{"queue", scene_queue}, {"scrolled", scene_scrolled}, {"search", scene_search}, {"help", scene_help},
		{"help search", scene_help_search}, {"palette", scene_palette}, {"quit", scene_quit}, {"popup", scene_popup}, {"bar", scene_bar}, {"legend", scene_legend}, {"leader", scene_leader},
		{"refused", scene_refused}, {"draft", scene_draft},
	};
	/* clang-format on */
	static const int size[][2] = { { 80, 24 }, { 120, 40 }, { 20, 6 } };
	const char *write_to = getenv("WEIR_UI_SCREENS");
	char *file = test_read(test_file("tests/vectors/ui_screens.txt"), NULL);
	FILE *out = write_to ? fopen(write_to, "w") : NULL;
	char name[64];
	size_t n = 0;

	CHECK(file != NULL);
	for (size_t i = 0; i < LEN(size); i++)
		for (size_t k = 0; k < LEN(scene); k++) {
			const char *is, *should;

			opened(size[i][0], size[i][1]);
			scene[k].make();
			snprintf(name, sizeof name, "%s %dx%d", scene[k].name, size[i][0], size[i][1]);
			is = screen();
			should = file ? expected(file, name, &n) : NULL;
			CHECK_MSG(should && strlen(is) == n && !memcmp(is, should, n), "%s is\n%s", name, is);
			if (out)
				fprintf(out, "== %s\n%s", name, is);
			closed();
		}
	if (out)
		fclose(out);
	free(file);
}

/* A terminal that can show only ASCII. */
TEST(ascii_only)
{
	static void (*const make[])(void) = { scene_start,    scene_transcript, scene_reading, scene_answering,
		                              scene_scrolled, scene_search,     scene_help,    scene_popup,
		                              scene_bar,      scene_refused };

	for (size_t i = 0; i < 2 * LEN(make); i++) {
		ascii = 1;
		opened(i % 2 ? 120 : 80, i % 2 ? 40 : 24);
		make[i / 2]();
		for (const char *p = screen(); *p; p++)
			CHECK_MSG((unsigned char)*p < 0x80, "scene %zu: %.20s", i / 2, p);
		if (make[i / 2] == scene_scrolled)
			CHECK(shows("v 6 new lines"));
		closed();
		ascii = 0;
	}
}

TEST(styles_of_the_status_row)
{
	struct str s = { 0 };

	opened(80, 24);
	scene_reading();
	ui_dump(u, now, 1, &s);
	/* a third of the work's meter is filled, and the warning has the style of a warning */
	CHECK(strstr(s.p, "meter+reverse") && strstr(s.p, "status warning"));
	str_free(&s);
	closed();
}

TEST(drawing_is_cheap)
{
	double sum = 0, worst = 0, t;

	opened(120, 40);
	for (int i = 0; i < 1000; i++)
		some_messages();
	ui_entry(u, UI_ASSISTANT, "", 0);
	work("answering");
	key(F2);
	some_cache();
	screen();
	for (int i = 0; i < 500; i++) {
		ui_piece(u, i % 20 ? " word" : " word.\n\n", i % 20 ? 5 : 8);
		t = cpu_seconds();
		ui_draw(u, now);
		t = cpu_seconds() - t;
		sum += t;
		worst = MAX(t, worst);
	}
	test_note("ui_draw at 120x40, 3,000 entries, an answer that grows: %.2f ms, at most %.2f ms", sum * 2,
	          worst * 1e3);
	CHECK(sum / 500 < 0.005 * test_patience());
	t = cpu_seconds();
	key(F3);
	type("clause");
	key(ESC);
	t = cpu_seconds() - t;
	test_note("search as one types, six letters: %.1f ms", t * 1e3);
	CHECK(t < 0.5 * test_patience());
	closed();
}
