/* tests/ui/t_ui_random.c - the full screen with random keys, events and sizes (see t_ui.c). WEIR_SOAK scales it. */
#include "tests/lib/screen_alone.h"

/* clang-format off */
static const char *const some_keys[] = {
	ESC, F1, F2, F3, F4, F5, F6, F7, F8, F10, UP, DOWN, PGUP, PGDN, HOME, END, "\33[C", "\33[D", "\33[3~", "\r", "\n", "\t", "\177", "\33\r",
	"\1", "\2", "\3", "\4", "\5", "\6", "\7", "\10", "\13", "\14", "\16", "\17", "\20", "\21", "\22", "\23", "\24", "\25", "\26", "\27",
	"\30", "\31", "\32", "\34", "\35", "\36", "\37", "a", "b", "c", "d", "e", "f", "g", "G", "h", "i", "j", "k", "m", "n", "N", "q", "r",
	"s", "t", "u", "x", "y", "z", "/", "?", "[", "]", "'", " ", "\\", "\"\"\"", "@", "/ed", "/read ", "//", "\303\244", "\346\274\242",
	"\360\237\221\215\360\237\217\275", "e\314\201", "\342\200\256", "\377", "\300\257", "\33[200~one\ntwo\33[201~", "\33[200~", "\33[201~",
	"\33[<64;5;5M", "\33[<65;5;5M", "\33[<0;3;3M", "\33[<0;9;1m", "\33[I", "\33[O", "\33[1;5A", "\33[99;99;99;99z", "\33]52;c;?\7", "\33P+q\33\\",
	"\33[", "\33O", "\33x", "\33b", "\33[27;5;9~", "long words typed without a break and then some",
};
/* clang-format on */

/* clang-format off */
static const char *const some_text[] = {
	"", "hello", "# Title\n\nA *word* and `code`.\n\n- one\n- two\n", "```c\nint main(void) { return 0; }\n", "```\n\n",
	"| a | b |\n|---|---|\n| 1 | 2 |\n", "\33[2J\33]0;x\7", "\342\200\256evil\342\200\254", "\346\274\242\345\255\227\346\274\242\345\255\227",
	"\360\237\221\250\342\200\215\360\237\221\251\342\200\215\360\237\221\247", "\377\376", "a\tb\r\nc", "\n\n\n",
	"a very long line that goes on and on without any end in sight, because nobody ever thought of pressing Enter, and so on and on",
};
/* clang-format on */

static const char *any_text(void)
{
	return some_text[test_rand() % LEN(some_text)];
}

static void any_cache(void)
{
	static uint8_t kept[UI_COLS], where[UI_COLS], heat[4 * UI_COLS];
	struct ui_cache c = { .kv = any_text(),
		              .seen = (int32_t)(test_rand() % 100000),
		              .kept = (int32_t)(test_rand() % 10000) };

	c.ctx = 8192;
	c.cols = (int)(test_rand() % (UI_COLS + 1));
	c.per_col = 1 + (int32_t)(test_rand() % 400);
	for (int i = 0; i < UI_COLS; i++) {
		kept[i] = (uint8_t)test_rand();
		where[i] = test_rand() % 4 ? (uint8_t)(test_rand() % 3) : 255;
	}
	for (size_t i = 0; i < sizeof heat; i++)
		heat[i] = (uint8_t)test_rand();
	c.n_region = 3;
	c.region[0] = (struct ui_region){ 's', "sinks", 4, 4, 0, 0, 3, 0.3f };
	c.region[1] = (struct ui_region){ '1', "ring 1", 100, 1024, 1, 500, 900, -1 };
	c.region[2] = (struct ui_region){ '2', any_text(), 0, 0, 2, -1, -1, 0.1f };
	c.kept_col = kept;
	c.where_col = where;
	c.heat_is = test_rand() % 2 ? HEAT_MASS : HEAT_NONE;
	c.n_layer = c.heat_is ? 4 : 0;
	c.heat = heat;
	c.refreshed = -1;
	c.cosine = -2;
	c.recovered = c.estimated = -1;
	c.n_flow = 1;
	c.flow[0] = (struct ui_flow){ .what = FLOW_OUT, .ring = 1, .token = 5, .mass = 0.5f };
	snprintf(c.flow[0].text, sizeof c.flow[0].text, "%s", any_text());
	ui_cache(u, &c);
}

static void any_event(void)
{
	const char *t = any_text();
	struct ui_work w = { .verb = test_rand() % 2 ? "reading" : t,
		             .done = (int64_t)(test_rand() % 3000) - 100,
		             .total = (int64_t)(test_rand() % 2000),
		             .had = 5,
		             .tps = (double)(test_rand() % 100),
		             .left = (double)(test_rand() % 900) - 1 };
	struct ui_status s = { .model = t,
		               .session = test_rand() % 3 ? any_text() : NULL,
		               .kv = any_text(),
		               .seen = (int32_t)(test_rand() % 99999),
		               .kept = 10,
		               .ctx = (int32_t)(test_rand() % 9999),
		               .evicted = (int32_t)(test_rand() % 3),
		               .tps = 3,
		               .memory = test_rand() };
	struct ui_session list[3] = {
		{ .id = 1,
		  .name = "one",
		  .title = any_text(),
		  .model = t,
		  .snippet = "a \1b\2 c",
		  .used = 5,
		  .tokens = 9,
		  .here = 1 },
		{ .id = 2, .name = any_text(), .title = "two", .model = t, .snippet = "", .used = 6, .seconds = -1 },
		{ .id = 3, .name = "three", .title = any_text(), .model = "", .snippet = t, .seconds = 40 },
	};
	struct ui_document doc[2] = { { any_text(), t, strlen(t), strlen(t), 100, 0, NULL, 0 },
		                      { "b.txt", "one\ntwo\n", 8, 8, 4, -1, NULL, 0 } };
	struct ui_span span[2] = { { 3, 255, 0 }, { 1000000, 0, 0 } };
	struct err e;

	struct ui_source source[2] = {
		{ test_rand() % 8 ? test_rand() % 3 : SIZE_MAX, test_rand() % 20, test_rand() % 90, "n",
		  test_rand() % 2, 0.3f },
		{ 0, 2, 4, "n", 1, -1 },
	};

	switch (test_rand() % 28) {
	case 0: ui_entry(u, UI_USER, t, strlen(t)); break;
	case 1: ui_entry(u, UI_ASSISTANT, t, strlen(t)); break;
	case 2: ui_entry(u, UI_NOTICE, t, strlen(t)); break;
	case 3: ui_entry(u, UI_ERROR, t, strlen(t)); break;
	case 4:
	case 5:
	case 6:
	case 7: ui_piece(u, t, strlen(t)); break;
	case 8: ui_entry_end(u, t); break;
	case 9:
	case 10: ui_work(u, &w); break;
	case 11: ui_work(u, NULL); break;
	case 26: ui_sources(u, test_rand() % 2 ? SIZE_MAX : test_rand() % 4, source, test_rand() % 3); break;
	case 27: ui_cut(u, test_rand() % 5); break;
	case 12: ui_status(u, &s); break;
	case 13: ui_documents(u, doc, test_rand() % 3); break;
	case 14: ui_sessions(u, list, test_rand() % 4, 1000); break;
	case 15: ui_preview(u, 1 + (int64_t)(test_rand() % 3), t, strlen(t)); break;
	case 16: ui_draft(u, t, strlen(t)); break;
	case 17: ui_say(u, t); break;
	case 18: ui_open_documents(u, t); break;
	case 19: ui_open_panel(u, test_rand() % 2 ? "layer 2" : "bar"); break;
	case 20: ui_search(u, t); break;
	case 21: ui_copy(u, test_rand() % 2 ? "all" : "1", &e); break;
	case 22: any_cache(); break;
	case 23: ui_lens(u, (int)(test_rand() % 5) - 2, span, 2); break;
	case 24: ui_raw(u, -1); break;
	default:
		if (test_rand() % 20 == 0)
			ui_clear(u);
		break;
	}
}

/* Printable keys anywhere: each goes to the input line, or to a field or browse mode that was already open. None of
 * them sends, stops, deletes or switches. */
TEST(random_typist)
{
	static const char *const moves[] = {
		F1,         F2,         F3,     F4,     F5,     F6,      F6,      ESC,  ESC,           UP,
		DOWN,       PGUP,       PGDN,   HOME,   END,    "\33[C", "\33[D", "\t", "\33[<0;5;5M", "\33[<64;5;5M",
		"\33[1;3A", "\33[1;2R", CTRL_L, CTRL_P, CTRL_P, F7,      F8,      ESC,  ESC,           ESC,
		F6,         F6,         F4
	};
	/* letters typed while each pane was open: [0] into the input line, [1] in browse mode or into a field */
	static long in_pane[N_PANES][2];
	long n = 100000, in_line = 0, in_field = 0, read = 0, questions = 0;
	struct ui_action a;

	opened(100, 30);
	scene_bar();
	while (n > 0) {
		if (test_rand() % 4 == 0)
			any_event();
		for (int k = (int)(test_rand() % 4); k > 0; k--) {
			const char *move = moves[test_rand() % LEN(moves)];
			/* Tab completes a draft, which would count as typing. */
			if (*move == '\t' && !input_empty())
				continue;
			if (test_rand() % 20 == 0)
				ui_open_text(u, "a command", "one\ntwo\n", 8);
			/* Ctrl-R asks for a name, Ctrl-D whether to delete */
			if (u->pane == SESSIONS && test_rand() % 4 == 0)
				move = test_rand() % 2 ? "\22" : "\4";
			ui_feed(u, move, strlen(move), now += 0.5);
			ui_tick(u, now += 0.1);
		}
		while (ui_action(u, &a))
			;
		for (int k = 1 + (int)(test_rand() % 12); k > 0 && n > 0; k--, n--) {
			char c = test_rand() % 20 ? (char)(0x20 + test_rand() % 95) : 'y', before[2] = { c, 0 };
			int field = u->searching || pane_state(u, PANE_FIELD), reading = u->focus != ON_LINE;
			size_t had, has;

			in_pane[u->pane][field || reading]++;
			input_text(&had);
			ui_feed(u, before, 1, now += 0.3);
			input_text(&has);
			if (!field && !reading)
				CHECK_MSG(has == had + 1, "'%c' is not in the input line", c);
			CHECK_MSG(has == had + 1 || ((field || reading) && has == had), "'%c' made %zu bytes of %zu", c,
			          has, had);
			in_line += has > had;
			in_field += has == had && field;
			read += has == had && !field && reading;
			while (ui_action(u, &a))
				/* y answers a question; deleting can be undone */
				if (a.what == UI_DELETE && (c == 'y' || c == 'Y') && field)
					questions++;
				else
					CHECK_MSG(a.what == UI_LIST || a.what == UI_PREVIEW || a.what == UI_FIND ||
					                  a.what == UI_PANEL || (a.what == UI_COPY && reading),
					          "'%c' is action %d", c, (int)a.what);
		}
		if (test_rand() % 20 == 0) {
			input_abandon();
			if (transcript_count(u->transcript) > 500)
				ui_clear(u);
		}
	}
	CHECK(in_line > 10000 && in_field > 1000 && read > 100 && questions > 0);
	test_note("%ld in the input line, %ld in fields, %ld in browse mode, %ld answered a question", in_line,
	          in_field, read, questions);
	for (int i = 0; i < N_PANES; i++) {
		CHECK_MSG(in_pane[i][0] + in_pane[i][1] > 500, "pane %d had %ld letters", i,
		          in_pane[i][0] + in_pane[i][1]);
		test_note("%s: %ld letters, and %ld in browse mode or for a field",
		          i ? pane_ops[i]->help_name : "no pane", in_pane[i][0], in_pane[i][1]);
	}
	closed();
}

TEST(random_keys_events_and_sizes)
{
	const char *soak = getenv("WEIR_SOAK");
	long n = 100000 * (soak && atol(soak) > 0 ? atol(soak) : 1), actions = 0, draws = 0, resizes = 0;
	struct ui_action a;

	opened(80, 24);
	for (long i = 0; i < n; i++) {
		const char *k = some_keys[test_rand() % LEN(some_keys)];

		now += test_rand() % 10 ? 0.01 : 0.7;
		ui_feed(u, k, strlen(k), now);
		if (test_rand() % 3 == 0)
			any_event();
		if (test_rand() % 8 == 0)
			ui_tick(u, now);
		if (test_rand() % 40 == 0) {
			int w = 1 + (int)(test_rand() % (test_rand() % 4 ? 130 : 300));
			ui_resize(u, w, 1 + (int)(test_rand() % (test_rand() % 4 ? 45 : 100)));
			resizes++;
		}
		while (test_rand() % 2 && ui_action(u, &a)) {
			CHECK(a.text != NULL && a.text[a.n] == 0);
			actions++;
		}
		if (test_rand() % 4 == 0) {
			const struct grid *g = ui_draw(u, now);
			CHECK(g->w == u->w && g->h == u->h);
			CHECK(g->cursor_y < g->h && g->cursor_x < g->w);
			CHECK_MSG(!ui_dirty(u), "drawn, and dirty at once");
			draws++;
		}
		CHECK(ui_wake(u) >= 0);
		/* The random keys never clear the transcript, so do it here. */
		if (transcript_count(u->transcript) > 500)
			ui_clear(u);
	}
	test_note("%ld keys, %ld resizes, %ld drawn, %ld actions", n, resizes, draws, actions);
	closed();
}
