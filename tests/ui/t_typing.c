/* tests/ui/t_typing.c - letters go to the input line whatever is open; the queue returns to it; the palette; completion
 * of settings. */
#include "tests/lib/screen_alone.h"
#include "ui/screen/theme.h"

/* Wherever no input field is open, typed text goes to the input line, and Enter sends it. */
TEST(typing_always_types)
{
	static const char *const open[] = { "", F1, F2, F2 F2, F5, F1 F6 ESC, F3 "a\r", F6 F6 };

	for (int width = 80; width <= 120; width += 40)
		for (size_t i = 0; i < LEN(open); i++) {
			opened(width, 24);
			question("a question");
			answer("an answer");
			question("a question");
			key(F2);
			key(F2);
			for (const char *k = open[i]; *k;) {
				size_t n = *k == '\33' ? 1 + strcspn(k + 1, "\33") : strlen(k);
				char one[16];
				snprintf(one, sizeof one, "%.*s", (int)n, k);
				key(one);
				k += n;
			}
			if (u->focus != ON_LINE)
				key(ESC);
			asked();
			CHECK_STR(type("remember how do i quit? joking/never"), "");
			CHECK_MSG(!strcmp(draft(), "remember how do i quit? joking/never"), "%zu: the draft is '%s'", i,
			          draft());
			CHECK(strstr(key("\r"), "SEND remember how do i quit? joking/never|"));
			closed();
		}
}

/* The first stop ends the answer, and queued messages become the draft, so nothing starts by itself. */
TEST(stopping_returns_the_queue)
{
	static const char *const stop[] = { "\3", ESC };

	for (size_t i = 0; i < 2; i++) {
		opened(80, 24);
		question("a question");
		work("answering");
		type("second");
		key("\r");
		type("third");
		key("\r");
		type("a draft");
		CHECK_STR(key(stop[i]), "STOP|");
		CHECK_STR(draft(), "second\nthird\na draft");
		CHECK_INT(u->n_queue, 0);
		work(NULL);
		CHECK_STR(asked(), "");
		closed();
	}
}

TEST(palette)
{
	struct ui_session s[2] = {
		{ .id = 7, .name = "lease", .title = "What is due?", .model = "m", .snippet = "", .here = 1 },
		{ .id = 8, .name = "", .title = "A story about a mill", .model = "m", .snippet = "" },
	};
	struct ui_document d[2] = { { "report.pdf", "one", 3, 3, 1, -1, NULL, 0 },
		                    { "island.txt", "two\n", 4, 4, 1, -1, NULL, 0 } };

	opened(100, 30);
	ui_documents(u, d, 2);
	type("a draft");
	CHECK_STR(key(CTRL('p')), "LIST|");
	ui_sessions(u, s, 2, 1000);
	CHECK(shows("command  /new"));
	type("set");
	CHECK(shows("setting  docs") && !shows("/new"));
	key(ESC);
	key(CTRL('p'));
	/* what a new user types: words of the description, parts of names, some letters of a name in order */
	type("xyzzy");
	CHECK(shows("nothing is called that"));
	key(ESC);
	CHECK_STR(draft(), "a draft");
	key(CTRL('p'));
	type("how do i quit");
	CHECK_STR(key("\r"), "QUIT|");
	type("a draft");
	key(CTRL('p'));
	type("regenerate answer");
	CHECK_STR(key("\r"), "SEND /regen|");
	CHECK_STR(draft(), "a draft");
	key(CTRL('p'));
	type("forget"); /* a synonym */
	CHECK(shows("/undo [N]") && !shows("forget."));
	key("\t");
	CHECK_STR(draft(), "/undo");
	input_set("", 0);
	key(CTRL('p'));
	type("tmp");
	CHECK_STR(key("\r"), "");
	CHECK_STR(draft(), "/set temp ");
	key(CTRL('p'));
	type("stats");
	CHECK_STR(key("\t"), "");
	CHECK_STR(draft(), "/stats");
	input_set("", 0);
	key(CTRL('p'));
	type("isl");
	CHECK(shows("document island.txt"));
	CHECK_STR(key("\r"), "");
	CHECK(u->pane == DOCUMENTS && shows("two"));
	key(CTRL('p'));
	type("mill");
	CHECK_STR(key("\r"), "SWITCH #8|");
	CHECK_INT(u->pane, NO_PANE);
	key(CTRL('p'));
	type("colour theme");
	CHECK(strstr(key("\r"), "THEME "));
	closed();
}

TEST(settings_are_completed)
{
	opened(100, 30);
	type("/set ");
	key("\t");
	CHECK(shows("temp") && shows("temperature; 0 takes") && shows("how documents reach"));
	key(CTRL('c'));
	type("/set d");
	key("\t");
	CHECK_STR(draft(), "/set docs ");
	type("w");
	key("\t");
	CHECK_STR(draft(), "/set docs whole");
	closed();
}

static int same_look(const struct look *a, const struct look *b)
{
	return a->fg == b->fg && a->bg == b->bg && a->attrs == b->attrs;
}

/* The selected row of a popup looks different from the others with any theme and any number of colours. */
TEST(the_chosen_offer_is_seen)
{
	static const char *const themes[] = { "dark", "light", "dusk", "paper", "mono" };
	static const int colours[] = { 0, 8, 16, 256 };
	const struct grid *g;
	int chosen = 0, other = 0;

	opened(60, 20);
	type("/re");
	key("\t");
	g = ui_draw(u, now);
	for (int y = 0; y < g->h; y++) {
		const struct cell *c = &g->cell[y * g->w + 2];
		if (c->cp != '/')
			continue;
		chosen += (c->style & STYLE_MASK) == ST_SELECTED;
		other += (c->style & STYLE_MASK) == ST_STRONG;
	}
	CHECK_INT(chosen, 1);
	CHECK_INT(other, 1);
	for (size_t i = 0; i < LEN(themes); i++)
		for (size_t k = 0; k < LEN(colours); k++) {
			const struct theme *t = theme_find(themes[i], NULL);
			struct look on = theme_look(t, ST_SELECTED, 0, colours[k]),
				    name = theme_look(t, ST_STRONG, 0, colours[k]);
			struct look help = theme_look(t, ST_FAINT, 0, colours[k]),
				    bar = theme_look(t, ST_STATUS, 0, colours[k]);

			CHECK(!same_look(&on, &name) && !same_look(&on, &help) && !same_look(&bar, &name));
		}
	closed();
}
