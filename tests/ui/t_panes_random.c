/* tests/ui/t_panes_random.c - panes with random keys, sizes and hostile data: every cell must hold something that a
 * terminal can show in the columns it has. Also the time of drawing. */
#include "tests/lib/pane_screens.h"

#include <math.h>

/* ---- figures ---- */

static double per_draw(void (*draw)(void *p, const struct area *), void *p, int w, int h)
{
	struct area a = fresh(w, h);
	double start = cpu_seconds(), took;
	int n = 0;

	do {
		draw(p, &a);
		n++;
	} while ((took = cpu_seconds() - start) < 0.05);
	return took / n;
}

static void d_bar(void *p, const struct area *a)
{
	cache_pane_draw_bar(p, a);
}
static void d_side(void *p, const struct area *a)
{
	cache_pane_draw_side(p, a);
}
static void d_full(void *p, const struct area *a)
{
	pane_draw(p, a);
}
static void d_sessions(void *p, const struct area *a)
{
	pane_draw(p, a);
}
static void d_docs(void *p, const struct area *a)
{
	pane_draw(p, a);
}

/* A frame is a thirtieth of a second, and drawing a pane may take a small part of it. */
TEST(cost_of_drawing)
{
	struct pane *c = cache_sample(0);
	struct pane *s = sessions_sample(0);
	struct pane *d = numbered(3000, "n.txt");
	double bar = per_draw(d_bar, c, 120, 9), side = per_draw(d_side, c, 44, 40),
	       full = per_draw(d_full, c, 120, 40);
	double picker = per_draw(d_sessions, s, 120, 40), text = per_draw(d_docs, d, 120, 40);

	test_note("a draw at 120x40: bar %.0f us, side %.0f us, full %.0f us, sessions %.0f us, document %.0f us",
	          bar * 1e6, side * 1e6, full * 1e6, picker * 1e6, text * 1e6);
	CHECK(bar + side + full + picker + text < 0.02 * test_patience());
	pane_free(c);
	pane_free(s);
	pane_free(d);
}

TEST(long_document)
{
	struct pane *p = pane_new(&documents_pane, 0);
	struct str s = { 0 };
	struct ui_document d;
	struct ui_span *span;
	size_t n_span = 0;
	double t0, open, draw, end, search, back, lens, width;

	while (s.n < 5u << 20) {
		str_addf(&s, "%s\tParagraph %zu begins here and \xe6\x97\xa5\xe6\x9c\xac goes on.",
		         s.n % 977 ? "" : "\r\n# A heading\r\n", s.n);
		for (int i = 0; i < 40; i++)
			str_addf(&s, " word%d", (int)(test_rand() % 5000));
		str_adds(&s, s.n % 5 ? "\n" : "\r\n\f");
	}
	str_adds(&s, "the last of all words\n");
	d = (struct ui_document){ "long.txt", s.p, s.n, s.n, 1250000, 0, NULL, 0 };
	t0 = cpu_seconds();
	documents_pane_post(p, &d, 1);
	docs_draw(p, 120, 40);
	open = cpu_seconds() - t0;
	t0 = cpu_seconds();
	docs_draw(p, 120, 40);
	draw = cpu_seconds() - t0;
	t0 = cpu_seconds();
	docs_type(p, "G");
	docs_draw(p, 120, 40);
	end = cpu_seconds() - t0;
	CHECK_SAYS("the last of all words");
	docs_type(p, "g");
	t0 = cpu_seconds();
	documents_pane_goto(p, "last of all");
	docs_draw(p, 120, 40);
	search = cpu_seconds() - t0;
	CHECK_INT(style_of("last of all"), ST_MATCH | STYLE_BOLD);
	docs_type(p, "?Paragraph 0\r");
	t0 = cpu_seconds();
	docs_type(p, "n");
	docs_draw(p, 120, 40);
	back = cpu_seconds() - t0;
	CHECK_SAYS("Paragraph 0");
	span = xcalloc(s.n / 4 + 2, sizeof *span);
	for (size_t i = 4; i < s.n; i += 4)
		span[n_span++] = (struct ui_span){ (uint32_t)i, (uint8_t)(i / 4 % 3 * 100), 0 };
	t0 = cpu_seconds();
	documents_pane_lens(p, 0, span, n_span);
	docs_draw(p, 120, 40);
	lens = cpu_seconds() - t0;
	t0 = cpu_seconds();
	docs_draw(p, 60, 40);
	width = cpu_seconds() - t0;
	test_note(
		"a document of 5 MiB: opened %.0f ms, drawn %.2f ms, to the end %.2f ms, search to the end %.1f ms and back %.1f ms, "
		"lens of %zu spans %.1f ms, another width %.2f ms",
		open * 1e3, draw * 1e3, end * 1e3, search * 1e3, back * 1e3, n_span, lens * 1e3, width * 1e3);
	CHECK_MSG(open < 1.5 * test_patience(), "%.0f ms", open * 1e3);
	CHECK_MSG(draw + end + width < 0.1 * test_patience(), "%.0f ms", (draw + end + width) * 1e3);
	CHECK_MSG(search + back < 1 * test_patience(), "%.0f ms", (search + back) * 1e3);
	free(span);
	str_free(&s);
	pane_free(p);
}

/* Documents of characters that take the most work must take linear time. */
TEST(hostile_documents)
{
	static const char *const unit[] = { "\t",   "\f",        "\n",           "# h\n",
		                            "\xff", "e\xcc\x81", "\xe2\x80\xae", "\r",
		                            "a",    "\f#\n",     "\xe2\x80\x8b", "\xf0\x9f\x91\xa9\xe2\x80\x8d",
		                            "word " };
	double most = 0;
	size_t slowest = 0;

	for (size_t u = 0; u < LEN(unit); u++) {
		struct pane *p = pane_new(&documents_pane, 0);
		struct str s = { 0 };
		struct ui_document d;
		struct ui_span span = { 1 << 18, 0, 0 };
		double t0, took;

		while (s.n < 1 << 19)
			str_adds(&s, unit[u]);
		d = (struct ui_document){ "h.md", s.p, s.n, s.n, 1000, 0, NULL, 0 };
		t0 = cpu_seconds();
		documents_pane_post(p, &d, 1);
		docs_draw(p, 80, 24);
		documents_pane_lens(p, 0, &span, 1);
		docs_type(p, "/a word\rNGoGgn50%");
		docs_draw(p, 80, 24);
		docs_draw(p, 4, 24);
		docs_type(p, "?aaaaaaaaaaaaaaaaaaaaaaaaaaaaab\r");
		docs_draw(p, 80, 24);
		took = cpu_seconds() - t0;
		if (took > most) {
			most = took;
			slowest = u;
		}
		CHECK(sound(&screen));
		str_free(&s);
		pane_free(p);
	}
	test_note("hostile documents of 512 KiB, opened, searched and drawn: %.0f ms at most (number %zu)", most * 1e3,
	          slowest);
	CHECK_MSG(most < 3 * test_patience(), "%.0f ms with number %zu", most * 1e3, slowest);
}

/* ---- random keys, sizes and data ---- */

/* Fill `out` with hostile pieces of text: at most n bytes, no NUL. */
static void hostile(char *out, size_t n)
{
	/* clang-format off */
	static const char *const piece[] = {
		"\x1b[31m", "\x1b]0;t\x07", "\xe2\x80\xae", "\xe2\x80\x8b", "\xf3\xa0\x81\x81", "\xff", "\xc3", "\xe6\x97\xa5",
		"\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x91\xa7", "e\xcc\x81\xcc\x82\xcc\x83\xcc\x84\xcc\x85\xcc\x86", "\xcc\x81",
		"\xef\xb8\x8f", "\xe1\x84\x80\xe1\x85\xa1", "\xef\xbf\xbf", "\xed\xa0\x80", "\xd7\xa9\xd7\x9c",
		"\r\n", "\n", "\t", "\x01", "\x02", "\f", " ", "  ", "a", "word", "# ", "\n## h\n", "```\n", "\n\n",
		"longlonglonglonglonglonglonglonglonglong", "'", "%s%n", "/",
	};
	/* clang-format on */
	size_t at = 0;

	while (at + 1 < n) {
		const char *s = piece[test_rand() % LEN(piece)];
		size_t len = strlen(s);
		if (at + len + 1 > n)
			break;
		memcpy(out + at, s, len);
		at += len;
	}
	out[at] = 0;
}

static int32_t some_int(void)
{
	static const int32_t v[] = { 0, 1, -1, INT32_MAX, INT32_MIN, 255, 4, 1000, 99999, 72 };
	return test_rand() % 3 ? v[test_rand() % 10] : (int32_t)(test_rand() % 40000);
}

static float some_float(void)
{
	static const float v[] = { 0, 1, -1, 0.5f, 1e-20f, 3e38f, -3e38f, 0.001f };
	switch (test_rand() % 12) {
	case 0: return NAN;
	case 1: return INFINITY;
	case 2: return -INFINITY;
	default: return v[test_rand() % 8];
	}
}

static struct key some_key(void)
{
	static char paste[200];
	struct key k = { .code = (enum key_code)(test_rand() % (K_UNKNOWN + 1)),
		         .mods = (unsigned)(test_rand() % 10 ? 0 : test_rand() % 8) };

	if (test_rand() % 2)
		k.code = K_CHAR;
	k.cp = k.code == K_MOUSE                      ? (int32_t)(test_rand() % 6)
	       : k.code == K_CHAR && test_rand() % 20 ? (int32_t)(32 + test_rand() % 95)
	                                              : some_int();
	if (k.code == K_CHAR && test_rand() % 8 == 0) {
		k.mods = KEY_CTRL;
		k.cp = (int32_t)('a' + test_rand() % 26);
	}
	k.x = (int)(test_rand() % 140) - 5;
	k.y = (int)(test_rand() % 50) - 5;
	hostile(paste, test_rand() % sizeof paste + 1);
	k.bytes = paste;
	k.n = strlen(paste);
	return k;
}

static void random_size(int *w, int *h)
{
	*w = (int)(test_rand() % 4 ? test_rand() % 130 : test_rand() % 8) + 1;
	*h = (int)(test_rand() % 4 ? test_rand() % 45 : test_rand() % 5) + 1;
}

static void random_cache(struct pane *p)
{
	static uint8_t col[2][UI_COLS], map[40 * UI_COLS];
	static char name[4][300];
	struct ui_cache c;

	memset(&c, 0, sizeof c);
	for (int i = 0; i < 4; i++)
		hostile(name[i], sizeof name[i]);
	c.kv = test_rand() % 5 ? name[0] : NULL;
	c.seen = some_int(), c.kept = some_int(), c.evicted = some_int(), c.thinned = some_int(), c.ctx = some_int();
	c.bytes = test_rand() << (test_rand() % 64), c.bytes_most = test_rand() >> (test_rand() % 64);
	c.n_region = (int)(test_rand() % (UI_REGIONS + 1));
	for (int i = 0; i < UI_REGIONS; i++)
		c.region[i] = (struct ui_region){ (char)test_rand(), test_rand() % 5 ? name[test_rand() % 4] : NULL,
			                          some_int(),        some_int(),
			                          some_int(),        some_int(),
			                          some_int(),        some_float() };
	c.cols = test_rand() % 4 ? (int)(test_rand() % (UI_COLS + 1)) : UI_COLS;
	c.per_col = some_int();
	for (int i = 0; i < UI_COLS; i++) {
		col[0][i] = (uint8_t)test_rand();
		col[1][i] = (uint8_t)(test_rand() % 3 ? test_rand() % 6 : test_rand());
	}
	c.kept_col = test_rand() % 8 ? col[0] : NULL;
	c.where_col = col[1];
	c.heat_is = (enum ui_heat)(test_rand() % 3);
	c.n_layer = (int)(test_rand() % 41);
	for (int i = 0; i < c.n_layer * c.cols; i += 1 + (int)(test_rand() % 7))
		map[i] = (uint8_t)test_rand();
	c.heat = map;
	c.selected = some_int(), c.refreshed = some_int(), c.cosine = some_float();
	c.recovered = some_float(), c.estimated = some_float();
	c.n_flow = (int)(test_rand() % (UI_FLOWS + 1));
	for (int i = 0; i < UI_FLOWS; i++) {
		c.flow[i] = (struct ui_flow){ (enum ui_flow_what)(test_rand() % 3), some_int(), some_int(),
			                      some_float(), "" };
		memset(c.flow[i].text, 'x', sizeof c.flow[i].text); /* without a NUL at its end */
		if (test_rand() % 2)
			hostile(c.flow[i].text, sizeof c.flow[i].text);
	}
	c.in_rate = some_float(), c.moved_rate = some_float(), c.out_rate = some_float();
	c.n_mark = (int)(test_rand() % 9);
	for (int i = 0; i < 8; i++) {
		c.mark[i].first = some_int();
		c.mark[i].n = some_int();
		c.mark[i].name = name[test_rand() % 4];
	}
	c.seconds = (double)some_float();
	c.every = (double)some_float();
	cache_pane_post(p, &c);
}

static void random_sessions(struct pane *p)
{
	static char text[8][120];
	static struct ui_session s[40];
	size_t n = test_rand() % 41;

	for (int i = 0; i < 8; i++)
		hostile(text[i], sizeof text[i]);
	for (size_t i = 0; i < n; i++)
		s[i] = (struct ui_session){
			.id = some_int(),
			.name = text[test_rand() % 8],
			.title = text[test_rand() % 8],
			.model = test_rand() % 9 ? text[test_rand() % 8] : NULL,
			.snippet = test_rand() % 9 ? text[test_rand() % 8] : NULL,
			.used = test_rand() % 5 ? some_int() : (int64_t)test_rand(),
			.messages = some_int(),
			.tokens = some_int(),
			.kv_bytes = test_rand() >> (test_rand() % 64),
			.seconds = (double)some_float(),
			.here = test_rand() % 9 == 0,
		};
	sessions_pane_post(p, s, n, test_rand() % 5 ? NOW : (int64_t)test_rand());
}

static void random_docs(struct pane *p)
{
	static char text[3][6000], name[3][80];
	static struct mark mark[3][12];
	struct ui_document d[3];
	size_t n = test_rand() % 4;

	for (size_t i = 0; i < n; i++) {
		size_t len;

		hostile(text[i], test_rand() % sizeof text[i] + 1);
		hostile(name[i], sizeof name[i]);
		len = strlen(text[i]);
		for (int k = 0; len && k < 3; k++)
			text[i][test_rand() % len] = (char)(test_rand() % 4 ? test_rand() : 0);
		d[i] = (struct ui_document){ name[i], text[i], len, test_rand(), some_int(), some_int(), NULL, 0 };
		/* Marks in ascending order anywhere, some beyond the end. */
		for (size_t k = test_rand() % 3 ? 12 : 0, at = 0; k; k--) {
			mark[i][d[i].n_mark++] = (struct mark){ .kind = test_rand() % 2 ? MARK_PAGE : MARK_HEADING,
				                                .level = (int)(test_rand() % 8),
				                                .at = at,
				                                .text = name[i] };
			at += test_rand() % 900;
			d[i].mark = mark[i];
		}
		if (test_rand() % 6 == 0)
			d[i] = (struct ui_document){ NULL, NULL, 0, 0, 0, -1, NULL, 0 };
	}
	documents_pane_post(p, d, n);
}

static void random_lens(struct pane *p)
{
	struct ui_span span[50];
	uint32_t at = 0;
	size_t n = test_rand() % 51;

	for (size_t i = 0; i < n; i++) {
		at += (uint32_t)(test_rand() % 20 ? test_rand() % 60 : test_rand());
		span[i] = (struct ui_span){ at, (uint8_t)(test_rand() % 3), 0 };
	}
	documents_pane_lens(p, test_rand() % 4, span, n);
}

static int rounds(int n)
{
	const char *factor = getenv("WEIR_SOAK");

	return factor ? n * (strtol(factor, NULL, 10) > 1 ? (int)strtol(factor, NULL, 10) : 1) : n;
}

TEST(random_keys_and_data)
{
	struct pane *c = pane_new(&cache_pane, 0);
	struct pane *s = pane_new(&sessions_pane, 0);
	struct pane *d = pane_new(&documents_pane, 0);
	struct ui_action act;
	int n = rounds(100000 / (test_patience() > 1 ? 5 : 1)), did[4] = { 0 }, unsound = 0;

	for (int i = 0; i < n && !unsound; i++) {
		struct key k = some_key();
		int draw = test_rand() % 4 == 0, w, h;
		struct area a;

		random_size(&w, &h);
		if (i % 50 == 0) {
			random_cache(c);
			random_sessions(s);
			random_docs(d);
		}
		if (i % 50 == 25)
			random_lens(d);
		switch (i % 3) {
		case 0:
			did[pane_press(c, &k, NULL)]++;
			if (test_rand() % 40 == 0)
				cache_pane_layer(c, some_int());
			if (!draw)
				break;
			a = fresh(w, h);
			switch (test_rand() % 3) {
			case 0: cache_pane_draw_bar(c, &a); break;
			case 1: cache_pane_draw_side(c, &a); break;
			default: pane_draw(c, &a); break;
			}
			CHECK(cache_pane_rows(c, w) > 0);
			break;
		case 1:
			memset(&act, 0, sizeof act);
			if (test_rand() % 20 == 0)
				did[pane_paused(s, &act)]++;
			switch (pane_press(s, &k, &act)) {
			case PANE_ACTION:
				did[PANE_ACTION]++;
				CHECK(act.text != NULL && (!act.n || memchr(act.text, 0, act.n) == NULL));
				if (act.what == UI_PREVIEW)
					sessions_pane_preview(s, act.id, k.bytes, k.n);
				break;
			case PANE_CLOSE: pane_opened(s); break;
			default: break;
			}
			if (!draw)
				break;
			a = fresh(w, h);
			pane_draw(s, &a);
			break;
		default:
			did[pane_press(d, &k, NULL)]++;
			if (test_rand() % 30 == 0)
				documents_pane_goto(d, k.bytes);
			if (!draw)
				break;
			a = fresh(w, h);
			pane_draw(d, &a);
			break;
		}
		unsound = draw && !sound(&screen);
	}
	CHECK(!unsound);
	if (unsound)
		test_note("%s", dump());
	test_note("%d keys: %d not used, %d used, %d closed, %d actions", n, did[0], did[1], did[2], did[3]);
	CHECK(did[0] && did[1] && did[2] && did[3]);
	pane_free(c);
	pane_free(s);
	pane_free(d);
	grid_free(&screen);
}

/* Every pane of PANES, as it is before the application has posted anything, gets random keys and is drawn at random
 * sizes. */
TEST(random_keys_in_every_pane)
{
	for (int id = NO_PANE + 1; id < N_PANES; id++) {
		struct pane *p = pane_new(pane_ops[id], 0);
		struct ui_action act = { 0 };
		int unsound = 0;

		for (int i = 0; i < rounds(2000) && !unsound; i++) {
			struct key k = some_key();
			struct area a;
			int w, h;

			if (pane_press(p, &k, &act) == PANE_CLOSE && p->ops->open)
				p->ops->open(p, &act);
			random_size(&w, &h);
			a = fresh(w, h);
			pane_draw(p, &a);
			unsound = !sound(&screen);
		}
		CHECK_MSG(!unsound, "%s: %s", p->ops->help_name, dump());
		pane_free(p);
	}
	grid_free(&screen);
}

/* In ASCII mode all characters drawn are ASCII: all forms at all sizes. */
TEST(ascii_at_all_sizes)
{
	struct pane *c = cache_sample(1);
	struct pane *s = pane_new(&sessions_pane, 1);
	struct pane *d = docs_sample(1);
	static const char plain[] = "# One\n\nSome words that are long enough to be wrapped.\n\fAnother page\n";
	struct ui_document doc = { "plain.md", plain, sizeof plain - 1, 0, 9, 0, NULL, 0 };
	struct ui_action act;

	documents_pane_post(d, &doc, 1);
	pane_opened(s);
	sessions_pane_post(s, sessions, 3, NOW);
	for (int i = 0; i < 300; i++) {
		struct str out = { 0 };
		struct key k = letter((int32_t) "?jk+-hlco\t/["[test_rand() % 12]);
		struct area a;
		int w, h;

		random_size(&w, &h);
		pane_press(c, &k, NULL);
		a = fresh(w, h), cache_pane_draw_bar(c, &a), add_screen(&out, "");
		a = fresh(w, h), cache_pane_draw_side(c, &a), add_screen(&out, "");
		a = fresh(w, h), pane_draw(c, &a), add_screen(&out, "");
		press(s, i % 7 == 3 ? control('r') : (struct key){ .code = K_TAB }, &act);
		a = fresh(w, h), pane_draw(s, &a), add_screen(&out, "");
		pane_press(d, &k, NULL);
		a = fresh(w, h), pane_draw(d, &a), add_screen(&out, "");
		check_ascii(&out);
		str_free(&out);
	}
	pane_free(c);
	pane_free(s);
	pane_free(d);
	grid_free(&screen);
}
