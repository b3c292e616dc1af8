/* tests/ui/t_panes_cache.c - the pane of the cache: its forms as whole screens (see tests/ui/t_panes.c), its messages
 * if nothing is observed, and its keys. */
#include "tests/lib/pane_screens.h"

#include <math.h>

static void cache_screens(int ascii, struct str *out)
{
	struct pane *p = cache_sample(ascii);
	struct key ask = letter('?'), down = letter('j'), closer = letter('+'), color = letter('c');

	for (int i = 0; i < 4; i++) {
		int w = size[i][0], h = size[i][1], rows = cache_pane_rows(p, w);
		struct area a = fresh(w, MIN(rows, h));

		cache_pane_draw_bar(p, &a);
		add_screen(out, "bar");
	}
	for (int i = 0; i < 4; i++) {
		struct area a = fresh(size[i][0] > 44 ? 44 : size[i][0], size[i][1]);

		cache_pane_draw_side(p, &a);
		add_screen(out, "side");
	}
	for (int i = 0; i < 4; i++) {
		struct area a = fresh(size[i][0], size[i][1]);

		pane_draw(p, &a);
		add_screen(out, "full");
	}
	/* The legend on a small screen, colours, and another layer with closer zoom. */
	for (int i = 0; i < 4; i++) {
		struct area a = fresh(size[i][0], size[i][1]);

		if (i != 1)
			pane_press(p, &ask, NULL);
		pane_press(p, &color, NULL);
		pane_draw(p, &a);
		add_screen(out, i == 1 ? "full, without the legend, in colours" : "full, legend, in colours");
		pane_press(p, &color, NULL);
		pane_draw(p, &a);
		pane_press(p, &ask, NULL);
	}
	for (int i = 0; i < 9; i++)
		pane_press(p, &down, NULL);
	pane_press(p, &closer, NULL);
	for (int i = 0; i < 2; i++) {
		struct area a = fresh(size[i][0], size[i][1]);

		pane_draw(p, &a);
		add_screen(out, "full, layer 9, closer");
	}
	/* The small forms with their legends. */
	{
		struct area a = fresh(80, 24);
		cache_pane_draw_bar(p, &a);
		pane_press(p, &ask, NULL);
		a = fresh(80, cache_pane_rows(p, 80));
		cache_pane_draw_bar(p, &a);
		add_screen(out, "bar, legend");
		a = fresh(44, 40);
		cache_pane_draw_side(p, &a);
		add_screen(out, "side, legend");
	}
	pane_free(p);
}

TEST(cache_screens)
{
	struct str s = { 0 };

	cache_screens(0, &s);
	compare("cache", &s);
	str_free(&s);
}

TEST(cache_screens_ascii)
{
	struct str s = { 0 };

	cache_screens(1, &s);
	check_ascii(&s);
	compare("cache_ascii", &s);
	str_free(&s);
}

/* With the policy `full` no attention is observed and nothing is evicted, and the screen says so. */
TEST(cache_not_observed)
{
	struct pane *p = pane_new(&cache_pane, 0);
	struct ui_cache c;
	struct area a = fresh(80, 24);
	struct str s = { 0 };

	pane_draw(p, &a);
	CHECK_SAYS("no figures of the cache yet");
	CHECK_INT(cache_pane_rows(p, 80), 1);
	/* A server's cache. */
	c = (struct ui_cache){
		.none = "The server keeps the KV cache, and nothing of it can be seen here. Messages that it is not sent any more are dimmed."
	};
	cache_pane_post(p, &c);
	CHECK_INT(cache_pane_rows(p, 80), 2);
	pane_draw(p, &a);
	CHECK_SAYS("The server keeps the KV cache,");
	CHECK_SAYS("are dimmed.");
	CHECK_SAYS_NOT("empty");
	cache_pane_draw_bar(p, &a);
	CHECK_SAYS("The server keeps the KV cache,");
	cache_pane_draw_side(p, &a);
	CHECK_SAYS("The server keeps the KV cache,");
	sample(&c);
	c.kv = "full";
	c.region[0] = (struct ui_region){ 'p', "all", 5410, 0, 0, 0, 5409, -1 };
	c.n_region = 1;
	c.seen = c.kept = 5410;
	c.evicted = c.thinned = c.n_flow = c.n_mark = c.selected = 0;
	c.per_col = 22;
	c.refreshed = -1;
	c.cosine = -2;
	c.recovered = c.estimated = -1;
	c.heat_is = HEAT_NONE;
	c.heat = NULL;
	c.out_rate = c.moved_rate = NAN;
	memset(kept_col, 255, sizeof kept_col);
	memset(where_col, 0, sizeof where_col);
	cache_pane_post(p, &c);
	for (int i = 0; i < 2; i++) {
		a = fresh(size[i][0], size[i][1]);
		pane_draw(p, &a);
		add_screen(&s, "full policy");
	}
	a = fresh(44, 24);
	cache_pane_draw_side(p, &a);
	add_screen(&s, "full policy, side");
	compare("cache_full_policy", &s);
	a = fresh(80, 24);
	pane_draw(p, &a);
	CHECK_SAYS("the attention of the layers has not been measured yet");
	a = fresh(44, 24);
	cache_pane_draw_side(p, &a);
	CHECK_SAYS("looks at   all of it");
	CHECK_SAYS("remembers  all 5,410 tokens");
	/* Attention is observed, but all values are still 0. */
	c.heat_is = HEAT_MASS;
	memset(heat, 0, sizeof heat);
	c.heat = heat;
	cache_pane_post(p, &c);
	a = fresh(80, 24);
	pane_draw(p, &a);
	CHECK_SAYS("the attention of the layers has not been measured yet");
	CHECK_SAYS_NOT("peaks");
	str_free(&s);
	pane_free(p);
}

/* Two layers in each row, in the foreground and the background colour. */
TEST(cache_in_colours)
{
	struct pane *p = cache_sample(0);
	struct area a = fresh(120, 40);
	int halves = 0, behind = 0;

	cache_pane_color(p, 1);
	pane_draw(p, &a);
	for (int i = 0; i < 120 * 40; i++)
		if (screen.cell[i].cp == 0x2580) {
			halves++;
			behind += screen.cell[i].back >= ST_HEAT && screen.cell[i].back < ST_COUNT;
			CHECK((screen.cell[i].style & STYLE_MASK) >= ST_HEAT);
		}
	CHECK_MSG(halves > 500 && behind > 500, "%d half blocks, %d with a colour behind", halves, behind);
	pane_free(p);
}

/* Numbers of any length leave the words at the same columns. */
TEST(cache_nothing_jumps)
{
	struct pane *p = pane_new(&cache_pane, 0);
	static const int32_t count[] = { 0, 7, 999, 1000, 18204, 999999, 12345678, INT32_MAX };
	struct ui_cache c;
	int at = -1;

	sample(&c);
	for (size_t i = 0; i < LEN(count); i++) {
		struct area a = fresh(80, 8);
		const char *s;
		int x;

		c.seen = c.kept = c.evicted = c.thinned = count[i];
		cache_pane_post(p, &c);
		cache_pane_draw_bar(p, &a);
		s = strstr(dump(), "forgot");
		CHECK(s != NULL);
		for (x = 0; s && s > dump() && s[-1] != '\n'; s--)
			x++;
		CHECK_MSG(at < 0 || at == x, "'forgot' moved from column %d to %d at %d", at, x, count[i]);
		at = x;
	}
	pane_free(p);
}

TEST(cache_keys)
{
	struct pane *p = cache_sample(0);
	struct area a = fresh(120, 40);
	struct key k = letter('j');

	/* The small forms have one key only. */
	cache_pane_draw_side(p, &a);
	CHECK_INT(pane_press(p, &k, NULL), PANE_NOT_MINE);
	pane_draw(p, &a);
	CHECK_INT(pane_press(p, &k, NULL), PANE_USED);
	pane_draw(p, &a);
	CHECK_SAYS("L01 peaks");
	cache_pane_layer(p, 12);
	pane_draw(p, &a);
	CHECK_SAYS("L12 peaks");
	/* the highest peak of the sample's layer 12 is column 40 + 12 * 5 = 100: the cursor begins there */
	CHECK_SAYS("7,200-7,271  words of column 99^J words of column 100");
	k = (struct key){ .code = K_RIGHT };
	pane_press(p, &k, NULL);
	pane_draw(p, &a);
	CHECK_SAYS("7,272-7,343  words of column 100^J words of column 101");
	k = letter('n'); /* the first press goes to the highest peak, the next to the next lower one */
	pane_press(p, &k, NULL);
	pane_draw(p, &a);
	CHECK_SAYS("7,200-7,271  words of column 99");
	pane_press(p, &k, NULL);
	pane_draw(p, &a);
	CHECK(!strstr(dump(), "words of column 100"));
	k = letter('N');
	pane_press(p, &k, NULL);
	pane_draw(p, &a);
	CHECK_SAYS("7,200-7,271  words of column 99");
	k = letter('G');
	pane_press(p, &k, NULL);
	pane_draw(p, &a);
	CHECK_SAYS("L29 peaks");
	/* Two steps closer: a quarter of 18,204 tokens around the cursor; then to the left edge. */
	k = letter('+');
	pane_press(p, &k, NULL);
	pane_press(p, &k, NULL);
	pane_draw(p, &a);
	CHECK_SAYS("4,925");
	CHECK_SAYS("9,475");
	k = letter('h');
	for (int i = 0; i < 120; i++)
		pane_press(p, &k, NULL);
	pane_draw(p, &a);
	CHECK_SAYS("4,550");
	CHECK_SAYS("0-71  words of column 0");
	k = letter('-');
	for (int i = 0; i < 50; i++)
		pane_press(p, &k, NULL);
	pane_draw(p, &a);
	CHECK_SAYS("18,203");
	k = letter('q');
	CHECK_INT(pane_press(p, &k, NULL), PANE_CLOSE);
	k = (struct key){ .code = K_ESC };
	CHECK_INT(pane_press(p, &k, NULL), PANE_CLOSE);
	k = control('q');
	CHECK_INT(pane_press(p, &k, NULL), PANE_NOT_MINE);
	pane_free(p);
}
