/* tests/t_panes.c - the panes beside the talk: cache, sessions, documents.
 *
 * Whole screens are compared with tests/vectors/panes_NAME.txt (WEIR_SCREENS=write writes what is drawn there: look at the
 * difference before it is committed).  Then what keys do, and a long run of random keys, sizes and hostile data: whatever comes,
 * every cell holds something that a terminal can show in the columns it was given. */
#include "tests/test.h"
#include "ui/panes.h"
#include "ui/widgets.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static const int size[4][2] = {{80, 24}, {120, 40}, {48, 20}, {20, 6}};

/* ---- screens ---- */

static struct grid screen;

static struct area fresh(int w, int h)
{
	grid_resize(&screen, w, h);
	return area_of(&screen);
}

/* The screen below a line that says what it shows. */
static void add_screen(struct str *out, const char *what)
{
	str_addf(out, "==== %s %dx%d\n", what, screen.w, screen.h);
	grid_dump(&screen, 0, out);
}

static const char *dump(void)
{
	static struct str s;

	str_clear(&s);
	grid_dump(&screen, 0, &s);
	return s.p;
}

/* Does the screen say that? */
static int says(const char *text)
{
	return strstr(dump(), text) != NULL;
}

#define CHECK_SAYS(text) CHECK_MSG(says(text), "\"%s\" is not on the screen:\n%s", text, dump())
#define CHECK_SAYS_NOT(text) CHECK_MSG(!says(text), "\"%s\" is on the screen:\n%s", text, dump())

/* Row y has that style at the first place of a text. */
static int style_of(const char *text)
{
	for (int y = 0; y < screen.h; y++)
		for (int x = 0; x + (int)strlen(text) <= screen.w; x++) {
			int same = 1;
			for (size_t i = 0; same && text[i]; i++)
				same = screen.cell[y * screen.w + x + (int)i].cp == text[i];
			if (same)
				return screen.cell[y * screen.w + x].style;
		}
	return -1;
}

static void compare(const char *name, const struct str *got)
{
	char path[128];
	size_t n = 0, line = 1;
	char *want;
	const char *env = getenv("WEIR_SCREENS");

	snprintf(path, sizeof path, "tests/vectors/panes_%s.txt", name);
	if (env && !strcmp(env, "write")) {
		FILE *f = fopen(test_file(path), "w");
		CHECK(f && fwrite(got->p, 1, got->n, f) == got->n && fclose(f) == 0);
		return;
	}
	want = test_read(test_file(path), &n);
	CHECK_MSG(want != NULL, "%s is not there", path);
	if (!want)
		return;
	if (n != got->n || memcmp(want, got->p, n)) {
		const char *a = want, *b = got->p;
		for (; *a && *b; line++) {
			size_t na = strcspn(a, "\n"), nb = strcspn(b, "\n");
			if (na != nb || memcmp(a, b, na))
				break;
			a += na + (a[na] != 0);
			b += nb + (b[nb] != 0);
		}
		CHECK_MSG(0, "%s:%zu:\n  is       %.*s\n  expected %.*s", path, line, (int)strcspn(b, "\n"), b, (int)strcspn(a, "\n"), a);
	}
	free(want);
}

static void check_ascii(const struct str *s)
{
	for (size_t i = 0; i < s->n; i++)
		if ((unsigned char)s->p[i] >= 0x80) {
			CHECK_MSG(0, "not ASCII at byte %zu", i);
			return;
		}
}

/* What every grid must hold, see ui/grid.c. */
static int sound(const struct grid *g)
{
	for (int y = 0; y < g->h; y++)
		for (int x = 0; x < g->w; x++) {
			const struct cell *c = &g->cell[y * g->w + x];
			if (c->width == 0 ? c->cp != 0 || x == 0 || c[-1].width != 2 : char_width(c->cp) != c->width)
				return 0;
			if (c->width == 2 && (x + 1 == g->w || c[1].width != 0))
				return 0;
			if ((c->style & STYLE_MASK) >= ST_COUNT || c->back >= ST_COUNT)
				return 0;
		}
	return g->cursor_y < g->h && g->cursor_x < g->w;
}

/* ---- keys ---- */

static struct key letter(int32_t cp)
{
	return (struct key){.code = K_CHAR, .cp = cp};
}

static struct key control(int32_t cp)
{
	return (struct key){.code = K_CHAR, .mods = KEY_CTRL, .cp = cp};
}

/* ---- numbers ---- */

TEST(numbers)
{
	static const int64_t extreme[] = {INT64_MIN, INT32_MIN, -1, 0, 9999, 10000, 99999, 100000, 999999, 1000000, INT32_MAX, INT64_MAX};

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
	for (size_t i = 0; i < sizeof extreme / sizeof extreme[0]; i++)
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
	struct edit e = {0};
	struct key k;

	edit_set(&e, "one two", 7);
	k = control('w');
	CHECK_INT(edit_key(&e, &k), 1);
	CHECK_STR(e.text.p, "one ");
	k = letter(0x65e5);
	edit_key(&e, &k);
	k = letter(0x301);   /* a mark on it: one step, one erasure */
	edit_key(&e, &k);
	CHECK_INT(e.text.n, 9);
	k = (struct key){.code = K_BACKSPACE};
	edit_key(&e, &k);
	CHECK_STR(e.text.p, "one ");
	k = (struct key){.code = K_PASTE, .bytes = "a\nb\x1b[31m\xff", .n = 9};
	CHECK_INT(edit_key(&e, &k), 1);
	CHECK_STR(e.text.p, "one a b [31m\xef\xbf\xbd");
	k = (struct key){.code = K_HOME};
	edit_key(&e, &k);
	k = letter('>');
	edit_key(&e, &k);
	CHECK_STR(e.text.p, ">one a b [31m\xef\xbf\xbd");
	k = letter(0x110000);
	CHECK_INT(edit_key(&e, &k), 0);
	k = (struct key){.code = K_F, .cp = 1};
	CHECK_INT(edit_key(&e, &k), 0);
	k = letter('x');
	for (int i = 0; i < 1000; i++)
		edit_key(&e, &k);
	CHECK_INT(e.text.n, EDIT_MOST);
	edit_free(&e);
}

/* ---- the cache ---- */

static uint8_t kept_col[UI_COLS], where_col[UI_COLS], heat[30 * UI_COLS];

/* A talk behind a document, in a cascade of three rings. */
static void sample(struct ui_cache *c)
{
	memset(c, 0, sizeof *c);
	c->kv = "cascade:size=2048,n=3";
	c->seen = 18204;
	c->kept = 5410;
	c->gone = 12794;
	c->thinned = 210;
	c->ctx = 8192;
	c->bytes = 676ull << 20;
	c->bytes_most = 702ull << 20;
	c->region[0] = (struct ui_region){'s', "sinks", 4, 4, 0, 0, 3, 0.31f};
	c->region[1] = (struct ui_region){'p', "prefix", 812, 0, 0, 4, 815, 0.07f};
	c->region[2] = (struct ui_region){'1', "ring 1", 2048, 2048, 1, 16156, 18203, 0.37f};
	c->region[3] = (struct ui_region){'2', "ring 2", 1540, 2048, 2, 12010, 16155, 0.17f};
	c->region[4] = (struct ui_region){'3', "ring 3", 1006, 2048, 4, 3100, 12009, 0.08f};
	c->n_region = 5;
	c->cols = UI_COLS;
	c->per_col = 72;
	for (int i = 0; i < UI_COLS; i++) {
		int t = i * 72;
		kept_col[i] = (uint8_t)(t < 816 || t > 16156 ? 255 : t > 12010 ? i * 37 % 100 + 60 : t > 3100 ? i * 53 % 60 : 0);
		where_col[i] = (uint8_t)(t < 72 ? 0 : t < 816 ? 1 : t > 16156 ? 2 : t > 12010 ? 3 : t > 3100 && kept_col[i] ? 4 : 255);
	}
	for (int l = 0; l < 30; l++)
		for (int i = 0; i < UI_COLS; i++)
			heat[l * UI_COLS + i] = (uint8_t)(i == (40 + l * 5) % UI_COLS ? 250 : i > 220 ? 120 + i - 220 : i * 7 % 61 * (l % 5) / 4);
	c->kept_col = kept_col;
	c->where_col = where_col;
	c->heat_is = HEAT_SCORE;
	c->n_layer = 30;
	c->heat = heat;
	c->chosen = 512;
	c->refreshed = 3;
	c->cosine = 0.871f;
	c->flow[0] = (struct ui_flow){FLOW_IN, 1, 18203, 0, " the"};
	c->flow[1] = (struct ui_flow){FLOW_MOVED, 2, 16155, 0.061f, " indemnity"};
	c->flow[2] = (struct ui_flow){FLOW_OUT, 3, 4102, 0.0021f, " of"};
	c->n_flow = 3;
	c->in_rate = 31;
	c->moved_rate = 15.25f;
	c->out_rate = 7;
	c->mark[0].first = 10;
	c->mark[0].n = 400;
	c->mark[0].name = "lease.pdf";
	c->mark[1].first = 3100;
	c->mark[1].n = 300;
	c->mark[1].name = "annex \x1b[31mB.txt";
	c->n_mark = 2;
	c->seconds = 0.0004;
	c->decode_seconds = 0.032;
}

/* Attention that moves from the newest ring to the oldest and back. */
static struct cache_pane *cache_sample(int ascii)
{
	struct cache_pane *p = cache_pane_new(ascii);
	struct ui_cache c;

	sample(&c);
	for (int i = 0; i < 60; i++) {
		float back = (float)(i % 20 < 10 ? i % 20 : 20 - i % 20) / 40;
		c.region[2].share = 0.37f + 0.25f - back;
		c.region[4].share = 0.08f + back;
		cache_pane_post(p, &c);
	}
	return p;
}

static void cache_screens(int ascii, struct str *out)
{
	struct cache_pane *p = cache_sample(ascii);
	struct key ask = letter('?'), down = letter('j'), closer = letter('+'), color = letter('c');

	for (int i = 0; i < 4; i++) {
		int w = size[i][0], h = size[i][1], rows = cache_pane_rows(p, w);
		struct area a = fresh(w, rows < h ? rows : h);

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

		cache_pane_draw(p, &a);
		add_screen(out, "full");
	}
	/* The legend where there is no room for it, colours, and another layer, closer. */
	for (int i = 0; i < 4; i++) {
		struct area a = fresh(size[i][0], size[i][1]);

		if (i != 1)
			cache_pane_key(p, &ask);
		cache_pane_key(p, &color);
		cache_pane_draw(p, &a);
		add_screen(out, i == 1 ? "full, without the legend, in colours" : "full, legend, in colours");
		cache_pane_key(p, &color);
		cache_pane_draw(p, &a);
		cache_pane_key(p, &ask);
	}
	for (int i = 0; i < 9; i++)
		cache_pane_key(p, &down);
	cache_pane_key(p, &closer);
	for (int i = 0; i < 2; i++) {
		struct area a = fresh(size[i][0], size[i][1]);

		cache_pane_draw(p, &a);
		add_screen(out, "full, layer 9, closer");
	}
	/* The small forms with their legend. */
	{
		struct area a = fresh(80, 24);
		cache_pane_draw_bar(p, &a);
		cache_pane_key(p, &ask);
		a = fresh(80, cache_pane_rows(p, 80));
		cache_pane_draw_bar(p, &a);
		add_screen(out, "bar, legend");
		a = fresh(44, 40);
		cache_pane_draw_side(p, &a);
		add_screen(out, "side, legend");
	}
	cache_pane_free(p);
}

TEST(cache_screens)
{
	struct str s = {0};

	cache_screens(0, &s);
	compare("cache", &s);
	str_free(&s);
}

TEST(cache_screens_ascii)
{
	struct str s = {0};

	cache_screens(1, &s);
	check_ascii(&s);
	compare("cache_ascii", &s);
	str_free(&s);
}

/* Under full nothing is watched and nothing leaves: the screen says so. */
TEST(cache_not_watched)
{
	struct cache_pane *p = cache_pane_new(0);
	struct ui_cache c;
	struct area a = fresh(80, 24);
	struct str s = {0};

	cache_pane_draw(p, &a);
	CHECK_SAYS("the cache has not been looked at yet");
	CHECK_INT(cache_pane_rows(p, 80), 1);
	sample(&c);
	c.kv = "full";
	c.region[0] = (struct ui_region){'p', "all", 5410, 0, 0, 0, 5409, -1};
	c.n_region = 1;
	c.seen = c.kept = 5410;
	c.gone = c.thinned = c.n_flow = c.n_mark = c.chosen = 0;
	c.per_col = 22;
	c.refreshed = -1;
	c.cosine = -2;
	c.heat_is = HEAT_NONE;
	c.heat = NULL;
	c.out_rate = c.moved_rate = NAN;
	memset(kept_col, 255, sizeof kept_col);
	memset(where_col, 0, sizeof where_col);
	cache_pane_post(p, &c);
	for (int i = 0; i < 2; i++) {
		a = fresh(size[i][0], size[i][1]);
		cache_pane_draw(p, &a);
		add_screen(&s, "full policy");
	}
	a = fresh(44, 24);
	cache_pane_draw_side(p, &a);
	add_screen(&s, "full policy, side");
	compare("cache_full_policy", &s);
	a = fresh(80, 24);
	cache_pane_draw(p, &a);
	CHECK_SAYS("which tokens a layer looks at is not watched under 'full'");
	a = fresh(44, 24);
	cache_pane_draw_side(p, &a);
	CHECK_SAYS("attention is not watched under 'full'");
	str_free(&s);
	cache_pane_free(p);
}

/* Two layers a row, told apart by colours in front and behind. */
TEST(cache_in_colours)
{
	struct cache_pane *p = cache_sample(0);
	struct area a = fresh(120, 40);
	int halves = 0, behind = 0;

	cache_pane_color(p, 1);
	cache_pane_draw(p, &a);
	for (int i = 0; i < 120 * 40; i++)
		if (screen.cell[i].cp == 0x2580) {
			halves++;
			behind += screen.cell[i].back >= ST_HEAT && screen.cell[i].back < ST_COUNT;
			CHECK((screen.cell[i].style & STYLE_MASK) >= ST_HEAT);
		}
	CHECK_MSG(halves > 500 && behind > 500, "%d half blocks, %d with a colour behind", halves, behind);
	cache_pane_free(p);
}

/* Numbers that change move nothing: every number of another size leaves the words where they were. */
TEST(cache_nothing_jumps)
{
	struct cache_pane *p = cache_pane_new(0);
	static const int32_t count[] = {0, 7, 999, 1000, 18204, 999999, 12345678, INT32_MAX};
	struct ui_cache c;
	int at = -1;

	sample(&c);
	for (size_t i = 0; i < sizeof count / sizeof count[0]; i++) {
		struct area a = fresh(80, 8);
		const char *s;
		int x;

		c.seen = c.kept = c.gone = c.thinned = count[i];
		cache_pane_post(p, &c);
		cache_pane_draw_bar(p, &a);
		s = strstr(dump(), "gone");
		CHECK(s != NULL);
		for (x = 0; s && s > dump() && s[-1] != '\n'; s--)
			x++;
		CHECK_MSG(at < 0 || at == x, "'gone' moved from column %d to %d at %d", at, x, count[i]);
		at = x;
	}
	cache_pane_free(p);
}

TEST(cache_keys)
{
	struct cache_pane *p = cache_sample(0);
	struct area a = fresh(120, 40);
	struct key k = letter('j');

	/* The small forms know one key only. */
	cache_pane_draw_side(p, &a);
	CHECK_INT(cache_pane_key(p, &k), PANE_NOT_MINE);
	cache_pane_draw(p, &a);
	CHECK_INT(cache_pane_key(p, &k), PANE_USED);
	cache_pane_draw(p, &a);
	CHECK_SAYS("L01 peaks");
	cache_pane_layer(p, 12);
	cache_pane_draw(p, &a);
	CHECK_SAYS("L12 peaks");
	CHECK_SAYS("7,200-7,271");   /* 40 + 12 * 5 = column 100 */
	k = letter('G');
	cache_pane_key(p, &k);
	cache_pane_draw(p, &a);
	CHECK_SAYS("L29 peaks");
	/* Closer, twice: a quarter of 18,204 tokens around the middle; then to the left edge. */
	k = letter('+');
	cache_pane_key(p, &k);
	cache_pane_key(p, &k);
	cache_pane_draw(p, &a);
	CHECK_SAYS("6,827");
	CHECK_SAYS("11,377");
	k = letter('h');
	for (int i = 0; i < 50; i++)
		cache_pane_key(p, &k);
	cache_pane_draw(p, &a);
	CHECK_SAYS("4,550");
	k = letter('-');
	for (int i = 0; i < 50; i++)
		cache_pane_key(p, &k);
	cache_pane_draw(p, &a);
	CHECK_SAYS("18,203");
	k = letter('q');
	CHECK_INT(cache_pane_key(p, &k), PANE_CLOSE);
	k = (struct key){.code = K_ESC};
	CHECK_INT(cache_pane_key(p, &k), PANE_CLOSE);
	k = control('q');
	CHECK_INT(cache_pane_key(p, &k), PANE_NOT_MINE);
	cache_pane_free(p);
}

/* ---- sessions ---- */

#define NOW 1790000000

static const struct ui_session talks[] = {
	{11, "lease-review", "What does clause 17 say about the deposit?", "SmolLM2-135M-Instruct.Q4_1", "", NOW - 300, 14, 18204, 676ull << 20, 0, 1},
	{12, "", "Write a limerick about a heron", "SmolLM2-135M-Instruct.Q4_1", "", NOW - 7200, 2, 212, 9ull << 20, 0, 0},
	{13, "novel", "Who is the narrator?", "Qwen2.5-7B-Instruct.Q4_K_M", "", NOW - 86400 * 3, 120, 1234567, 0, 40, 0},
	{14, "\x1b[31mred\x1b[0m \xe2\x80\xae evil", "\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e\xe3\x81\xae\xe8\xb3\xaa\xe5\x95\x8f", "m", "", NOW - 86400 * 40, 1, 5, 1 << 20, -1, 0},
	{15, "", "", "", "", 0, 0, 0, 0, 0, 0},
};
enum { TALKS = sizeof talks / sizeof talks[0] };

static struct sessions_pane *sessions_sample(int ascii)
{
	struct sessions_pane *p = sessions_pane_new(ascii);

	setenv("TZ", "UTC", 1);
	tzset();
	sessions_pane_open(p);
	sessions_pane_post(p, talks, TALKS, NOW);
	return p;
}

static enum pane_key type(struct sessions_pane *p, const char *s, struct ui_action *out)
{
	enum pane_key last = PANE_NOT_MINE;

	for (; *s; s++) {
		struct key k = letter(*s);
		last = sessions_pane_key(p, &k, out);
	}
	return last;
}

static enum pane_key press(struct sessions_pane *p, struct key k, struct ui_action *out)
{
	memset(out, 0, sizeof *out);
	return sessions_pane_key(p, &k, out);
}

#define PRESS(c) press(p, (struct key){.code = (c)}, &act)

static void sessions_draw(struct sessions_pane *p, int w, int h)
{
	struct area a = fresh(w, h);
	sessions_pane_draw(p, &a);
}

static void sessions_screens(int ascii, struct str *out)
{
	static const char preview[] = "You\nWhat does clause 17 say about the deposit?\n\nThe deposit is two months' rent; it is held in an account of "
	                              "its own and returned within six weeks after the lease ends.\n";
	static const struct ui_session found[] = {
		{11, "lease-review", "", "m", "the \x01" "deposit\x02 is two months' rent, and \x1b]0;x\x07 the \x01" "deposit\x02 is held", NOW - 300, 14, 18204, 676ull << 20, 0, 1},
		{13, "novel", "", "m", "a \x01" "deposit\x02 of clay", NOW - 86400 * 3, 120, 1234567, 0, 40, 0},
	};

	for (int i = 0; i < 4; i++) {
		struct sessions_pane *p = sessions_sample(ascii);
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
		sessions_pane_free(p);
	}
}

TEST(sessions_screens)
{
	struct str s = {0};

	sessions_screens(0, &s);
	compare("sessions", &s);
	str_free(&s);
}

TEST(sessions_filter)
{
	struct sessions_pane *p = sessions_sample(0);
	struct ui_action act;
	struct key k;

	/* The talk on the screen is chosen first. */
	CHECK_INT(PRESS(K_ENTER), PANE_ACTION);
	CHECK_INT(act.what, UI_SWITCH);
	CHECK_INT(act.id, 11);
	/* Words in any of name, title and model, whatever their case. */
	CHECK_INT(type(p, "HERON smol", &act), PANE_USED);
	sessions_draw(p, 80, 24);
	CHECK_SAYS("1 of 5");
	CHECK_SAYS("limerick");
	CHECK_SAYS_NOT("novel");
	CHECK_INT(PRESS(K_ENTER), PANE_ACTION);
	CHECK_INT(act.id, 12);
	/* Esc clears the filter, then closes; the chosen talk stays. */
	CHECK_INT(PRESS(K_ESC), PANE_USED);
	PRESS(K_ENTER);
	CHECK_INT(act.id, 12);
	CHECK_INT(PRESS(K_ESC), PANE_CLOSE);
	type(p, "zzz", &act);
	sessions_draw(p, 80, 24);
	CHECK_SAYS("no talk has that");
	CHECK_INT(PRESS(K_ENTER), PANE_USED);
	k = control('d');
	CHECK_INT(sessions_pane_key(p, &k, &act), PANE_USED);
	CHECK_INT(PRESS(K_F), PANE_NOT_MINE);
	sessions_pane_free(p);
}

TEST(sessions_moving)
{
	struct sessions_pane *p = sessions_sample(0);
	struct ui_action act;
	struct ui_session many[300];

	memset(many, 0, sizeof many);
	for (int i = 0; i < 300; i++)
		many[i] = (struct ui_session){.id = i + 1, .name = "x", .title = "", .model = "", .snippet = "", .used = NOW - i};
	sessions_pane_open(p);
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
	/* The wheel, and a click: the list begins at row 2. */
	press(p, (struct key){.code = K_MOUSE, .cp = 5}, &act);
	PRESS(K_ENTER);
	CHECK_INT(act.id, 4);
	sessions_draw(p, 80, 24);
	press(p, (struct key){.code = K_MOUSE, .cp = 1, .x = 3, .y = 9}, &act);
	PRESS(K_ENTER);
	CHECK_INT(act.id, 8);
	/* The chosen one stays chosen while the list changes. */
	sessions_pane_post(p, many + 5, 295, NOW);
	PRESS(K_ENTER);
	CHECK_INT(act.id, 8);
	sessions_pane_free(p);
}

TEST(sessions_actions)
{
	struct sessions_pane *p = sessions_sample(0);
	struct ui_action act;

	PRESS(K_DOWN);
	PRESS(K_DOWN);
	/* Rename: Esc leaves it, Enter gives the name without its blanks. */
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
	/* Delete: y alone does it. */
	press(p, control('d'), &act);
	sessions_draw(p, 80, 24);
	CHECK_SAYS("delete 'novel' for good? y/n");
	CHECK_INT(type(p, "n", &act), PANE_USED);
	press(p, control('d'), &act);
	CHECK_INT(PRESS(K_ENTER), PANE_USED);
	press(p, control('d'), &act);
	CHECK_INT(press(p, (struct key){.code = K_PASTE, .bytes = "y", .n = 1}, &act), PANE_USED);
	press(p, control('d'), &act);
	CHECK_INT(type(p, "y", &act), PANE_ACTION);
	CHECK_INT(act.what, UI_DELETE);
	CHECK_INT(act.id, 13);
	/* The one that was asked about is gone: another one is not deleted for it. */
	press(p, control('d'), &act);
	sessions_pane_post(p, talks, 2, NOW);
	CHECK_INT(type(p, "y", &act), PANE_USED);
	PRESS(K_ESC);
	sessions_pane_post(p, talks, TALKS, NOW);
	CHECK_INT(press(p, control('f'), &act), PANE_ACTION);
	CHECK_INT(act.what, UI_FORK);
	/* On 20 columns the answer can be read, too. */
	press(p, control('d'), &act);
	sessions_draw(p, 20, 6);
	CHECK_SAYS("y/n");
	sessions_pane_free(p);
}

TEST(sessions_preview)
{
	struct sessions_pane *p = sessions_sample(0);
	struct ui_action act;

	CHECK_INT(PRESS(K_DOWN), PANE_USED);
	CHECK_INT(PRESS(K_TAB), PANE_ACTION);
	CHECK_INT(act.what, UI_PREVIEW);
	CHECK_INT(act.id, 12);
	CHECK_INT(PRESS(K_UP), PANE_ACTION);
	CHECK_INT(act.id, 11);
	/* What belongs to another one is not shown. */
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
	sessions_pane_free(p);
}

TEST(sessions_find)
{
	struct sessions_pane *p = sessions_sample(0);
	struct ui_action act;
	struct ui_session found = talks[2];

	CHECK_INT(type(p, "/ clay pot", &act), PANE_USED);
	CHECK_INT(sessions_pane_pause(p, &act), PANE_ACTION);
	CHECK_INT(act.what, UI_FIND);
	CHECK_INT(act.n, 8);
	CHECK(!memcmp(act.text, "clay pot", 8));
	CHECK_INT(sessions_pane_pause(p, &act), PANE_NOT_MINE);
	found.snippet = "a \x01" "clay\x02 \x01pot\x02 stood there";
	sessions_pane_post(p, &found, 1, NOW);
	sessions_draw(p, 80, 24);
	CHECK_SAYS("a clay pot stood there");
	CHECK_INT(style_of("clay pot stood"), ST_MATCH);
	CHECK_INT(style_of("stood there"), ST_FAINT);
	/* The words are known: Enter goes there. */
	CHECK_INT(PRESS(K_ENTER), PANE_ACTION);
	CHECK_INT(act.what, UI_SWITCH);
	CHECK_INT(act.id, 13);
	/* Other words are looked for anew; without any the list comes back. */
	type(p, "s", &act);
	CHECK_INT(PRESS(K_ENTER), PANE_ACTION);
	CHECK_INT(act.what, UI_FIND);
	CHECK_INT(PRESS(K_ESC), PANE_ACTION);
	CHECK_INT(act.what, UI_LIST);
	sessions_pane_free(p);
}

/* ---- documents ---- */

static const char markdown[] =
	"# The lease\n\nThis agreement is made between the landlord and the tenant named below, for the house and garden at the end of the lane.\n\n"
	"## Clause 1: Rent\n\nThe tenant shall pay the rent on the first day of each month.\n\n```\n# no heading\n```\n"
	"## Clause 2: \xe6\x95\xb7\xe9\x87\x91\n\nThe deposit is two months' rent.\n\tIt is held in an account of its own.\n"
	"## Clause 3\n\nHostile \x1b[31mtext\x1b[0m and \xe2\x80\xaeturned\xe2\x80\xac words.\n";

static const char paged[] = "First page, first line.\nMore of it.\n\fSecond page.\n\fThird page: the tenant again.\n\f\n";

static struct docs_pane *docs_sample(int ascii)
{
	struct docs_pane *p = docs_pane_new(ascii);
	struct ui_document d[2] = {
		{"lease.md", markdown, sizeof markdown - 1, sizeof markdown - 1, 120, 0},
		{"annex.pdf", paged, sizeof paged - 1, sizeof paged - 1, 40, -1},
	};

	docs_pane_post(p, d, 2);
	return p;
}

static enum pane_key docs_type(struct docs_pane *p, const char *s)
{
	enum pane_key last = PANE_NOT_MINE;

	for (; *s; s++) {
		struct key k = *s == '\r' ? (struct key){.code = K_ENTER} : *s == '\t' ? (struct key){.code = K_TAB} : *s == '\x1b' ? (struct key){.code = K_ESC} : letter(*s);
		last = docs_pane_key(p, &k);
	}
	return last;
}

static void docs_draw(struct docs_pane *p, int w, int h)
{
	struct area a = fresh(w, h);
	docs_pane_draw(p, &a);
}

static void docs_screens(int ascii, struct str *out)
{
	for (int i = 0; i < 4; i++) {
		struct docs_pane *p = docs_sample(ascii);
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
		docs_type(p, "\x1b\t");
		docs_draw(p, w, h);
		add_screen(out, "document with pages");
		docs_type(p, "o");
		docs_draw(p, w, h);
		add_screen(out, "document with pages, outline");
		docs_pane_free(p);
	}
}

TEST(docs_screens)
{
	struct str s = {0};

	docs_screens(0, &s);
	compare("docs", &s);
	str_free(&s);
}

/* A text of so many numbered lines. */
static struct docs_pane *numbered(int lines, const char *name)
{
	struct docs_pane *p = docs_pane_new(0);
	struct str s = {0};
	struct ui_document d;

	for (int i = 1; i <= lines; i++)
		str_addf(&s, "line %d of the text\n", i);
	d = (struct ui_document){name, s.p, s.n, s.n, lines * 5, 0};
	docs_pane_post(p, &d, 1);
	str_free(&s);
	return p;
}

TEST(docs_moving)
{
	struct docs_pane *p = numbered(3000, "n.txt");
	struct key k;

	docs_draw(p, 80, 24);
	CHECK_SAYS("line 1 of the text\n");
	CHECK_SAYS("line 23 of the text\n");
	CHECK_SAYS("line     1/3,000");
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
	CHECK_SAYS("line 1,500/3,000");
	docs_type(p, "10j");
	docs_draw(p, 80, 24);
	CHECK(!strncmp(dump(), "line 1510 of", 12));
	docs_type(p, "G");
	docs_draw(p, 80, 24);
	CHECK_SAYS("line 3000 of the text\n");
	CHECK_SAYS("line 2978 of the text\n");
	CHECK_SAYS("100%");
	docs_type(p, "50%");
	docs_draw(p, 80, 24);
	CHECK_MSG(!strncmp(dump(), "line 152", 8), "%.20s", dump());   /* half of the bytes, not of the lines */
	CHECK_SAYS("51%");                                               /* above the last row */
	k = (struct key){.code = K_HOME};
	docs_pane_key(p, &k);
	k = (struct key){.code = K_PAGE_DOWN};
	docs_pane_key(p, &k);
	docs_draw(p, 80, 24);
	CHECK(!strncmp(dump(), "line 23 of", 10));
	/* Another width keeps the place. */
	docs_draw(p, 8, 24);
	docs_draw(p, 80, 24);
	CHECK(!strncmp(dump(), "line 23 of", 10));
	/* Up and down again by any number of lines is where one was. */
	for (int i = 0; i < 200; i++) {
		int n = (int)(test_rand() % 400) + 1;
		struct str before = {0}, keys = {0};

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
	docs_pane_free(p);
}

TEST(docs_goto)
{
	struct docs_pane *p = numbered(3000, "n.txt");

	docs_pane_goto(p, "40%");
	docs_draw(p, 80, 24);
	CHECK(!strncmp(dump(), "line 1231 of", 12));
	docs_pane_goto(p, "line 777 of");
	docs_draw(p, 80, 24);
	CHECK_SAYS("line 777 of");
	CHECK_INT(style_of("line 777 of"), ST_MATCH | STYLE_BOLD);
	docs_pane_goto(p, "2000");
	docs_draw(p, 80, 24);
	CHECK(!strncmp(dump(), "line 2000 of", 12));
	docs_pane_goto(p, "p12");
	docs_draw(p, 80, 24);
	CHECK_SAYS("this document has no pages");
	docs_pane_goto(p, "no such words");
	docs_draw(p, 80, 24);
	CHECK_SAYS("not found: no such words");
	docs_pane_goto(p, "");
	docs_pane_goto(p, NULL);
	docs_pane_goto(p, "1e999%");
	docs_pane_goto(p, "-5%");
	docs_draw(p, 80, 24);
	docs_pane_free(p);
	/* Without a document nothing happens. */
	p = docs_pane_new(0);
	docs_pane_goto(p, "p3");
	docs_draw(p, 80, 24);
	CHECK_SAYS("no document is open");
	CHECK_INT(docs_type(p, "j"), PANE_NOT_MINE);
	CHECK_INT(docs_type(p, "q"), PANE_CLOSE);
	docs_pane_free(p);
	/* Pages; what stands behind the last form feed is no page. */
	p = docs_sample(0);
	docs_draw(p, 80, 6);
	docs_type(p, "]");
	docs_draw(p, 80, 4);
	CHECK_SAYS("p. 1/3");
	docs_pane_goto(p, "p3");
	docs_draw(p, 80, 4);
	CHECK_SAYS("Third page");
	docs_type(p, "2p");
	docs_draw(p, 80, 4);
	CHECK_SAYS("p. 2/3");
	docs_pane_goto(p, "page 9");
	docs_draw(p, 80, 4);
	CHECK_SAYS("there are pages 1 to 3");
	docs_type(p, "[");
	docs_draw(p, 80, 24);
	CHECK_SAYS("The lease");
	docs_pane_free(p);
}

TEST(docs_search)
{
	struct docs_pane *p = numbered(3000, "n.txt");

	docs_draw(p, 80, 24);
	docs_type(p, "/LINE 99\r");   /* capitals mean themselves */
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
	/* Esc: first the marks go, then the pane. */
	CHECK_INT(docs_type(p, "\x1b"), PANE_USED);
	docs_draw(p, 80, 24);
	CHECK_INT(style_of("line 59 of"), ST_TEXT);
	CHECK_INT(docs_type(p, "\x1b"), PANE_CLOSE);
	docs_pane_free(p);
}

TEST(docs_headings)
{
	struct docs_pane *p = docs_sample(0);
	static const char source[] = "# a comment\nint x;\n";
	struct ui_document d = {"a.py", source, sizeof source - 1, 0, 4, 0};

	docs_draw(p, 80, 24);
	CHECK_INT(style_of("## Clause 1"), ST_HEADING);
	CHECK_INT(style_of("# no heading"), ST_TEXT);
	docs_draw(p, 80, 6);
	docs_type(p, "ojj\r");
	docs_draw(p, 80, 6);
	CHECK_SAYS("## Clause 2");
	docs_pane_post(p, &d, 1);
	docs_type(p, "o");
	docs_draw(p, 80, 6);
	CHECK_SAYS("neither headings nor pages");
	docs_pane_free(p);
}

/* The lens counts bytes as they came: through tabs, escape sequences, dropped and broken characters. */
TEST(docs_lens)
{
	static const char text[] = "\tone \0\x1b[31mtwo\x1b[0m \xe2\x80\x8bthree\xff \xe2\x80\xae" "four\r\nfive\f six";
	static const char *const word[] = {"one", "two", "three", "four", "five", "six"};
	struct docs_pane *p = docs_pane_new(1);
	struct ui_document d = {"t.txt", text, sizeof text - 1, 0, 10, 0};

	docs_pane_post(p, &d, 1);
	for (size_t i = 0; i < 6; i++) {
		const char *at = memmem(text, sizeof text - 1, word[i], strlen(word[i]));
		uint32_t from = (uint32_t)(at - text), to = from + (uint32_t)strlen(word[i]);
		struct ui_span span[3] = {{from, 255}, {to, 0}, {sizeof text - 1, 1}};

		docs_pane_lens(p, 0, span, 3);
		docs_draw(p, 100, 12);
		for (size_t k = 0; k < 6; k++) {
			int style = style_of(word[k]);
			CHECK_MSG(style == (k == i ? ST_GONE : ST_TEXT), "%s while %s is gone: style %d", word[k], word[i], style);
		}
	}
	/* The same document once more: what is known of it stays, whatever its tokens are now. */
	d.tokens = 11;
	docs_pane_post(p, &d, 1);
	docs_draw(p, 100, 12);
	CHECK_INT(style_of("six"), ST_GONE);
	CHECK_SAYS("/11");
	/* All of it gone, and nothing known again. */
	docs_pane_lens(p, 0, &(struct ui_span){UINT32_MAX, 0}, 1);
	docs_draw(p, 100, 12);
	CHECK_INT(style_of("two"), ST_GONE);
	CHECK_SAYS("kept 0%");
	docs_pane_lens(p, 0, NULL, 0);
	docs_pane_lens(p, 7, &(struct ui_span){9, 0}, 1);
	docs_draw(p, 100, 12);
	CHECK_INT(style_of("two"), ST_TEXT);
	docs_pane_free(p);
}

/* ---- figures ---- */

static double per_draw(void (*draw)(void *p, const struct area *), void *p, int w, int h)
{
	struct area a = fresh(w, h);
	double start = now_seconds(), took;
	int n = 0;

	do {
		draw(p, &a);
		n++;
	} while ((took = now_seconds() - start) < 0.05);
	return took / n;
}

static void d_bar(void *p, const struct area *a) { cache_pane_draw_bar(p, a); }
static void d_side(void *p, const struct area *a) { cache_pane_draw_side(p, a); }
static void d_full(void *p, const struct area *a) { cache_pane_draw(p, a); }
static void d_sessions(void *p, const struct area *a) { sessions_pane_draw(p, a); }
static void d_docs(void *p, const struct area *a) { docs_pane_draw(p, a); }

/* A thirtieth of a second is a frame; a pane may take a small part of it. */
TEST(cost_of_drawing)
{
	struct cache_pane *c = cache_sample(0);
	struct sessions_pane *s = sessions_sample(0);
	struct docs_pane *d = numbered(3000, "n.txt");
	double bar = per_draw(d_bar, c, 120, 9), side = per_draw(d_side, c, 44, 40), full = per_draw(d_full, c, 120, 40);
	double picker = per_draw(d_sessions, s, 120, 40), text = per_draw(d_docs, d, 120, 40);

	test_note("a draw at 120x40: bar %.0f us, side %.0f us, full %.0f us, sessions %.0f us, document %.0f us", bar * 1e6, side * 1e6,
	          full * 1e6, picker * 1e6, text * 1e6);
	CHECK(bar + side + full + picker + text < 0.02 * test_patience());
	cache_pane_free(c);
	sessions_pane_free(s);
	docs_pane_free(d);
}

TEST(long_document)
{
	struct docs_pane *p = docs_pane_new(0);
	struct str s = {0};
	struct ui_document d;
	struct ui_span *span;
	size_t n_span = 0;
	double t0, open, draw, end, search, back, lens, width;

	while (s.n < 5u << 20) {
		str_addf(&s, "%s\tParagraph %zu begins here and \xe6\x97\xa5\xe6\x9c\xac goes on.", s.n % 977 ? "" : "\r\n# A heading\r\n", s.n);
		for (int i = 0; i < 40; i++)
			str_addf(&s, " word%d", (int)(test_rand() % 5000));
		str_adds(&s, s.n % 5 ? "\n" : "\r\n\f");
	}
	str_adds(&s, "the last of all words\n");
	d = (struct ui_document){"long.txt", s.p, s.n, s.n, 1250000, 0};
	t0 = now_seconds();
	docs_pane_post(p, &d, 1);
	docs_draw(p, 120, 40);
	open = now_seconds() - t0;
	t0 = now_seconds();
	docs_draw(p, 120, 40);
	draw = now_seconds() - t0;
	t0 = now_seconds();
	docs_type(p, "G");
	docs_draw(p, 120, 40);
	end = now_seconds() - t0;
	CHECK_SAYS("the last of all words");
	docs_type(p, "g");
	t0 = now_seconds();
	docs_pane_goto(p, "last of all");
	docs_draw(p, 120, 40);
	search = now_seconds() - t0;
	CHECK_INT(style_of("last of all"), ST_MATCH | STYLE_BOLD);
	docs_type(p, "?Paragraph 0\r");
	t0 = now_seconds();
	docs_type(p, "n");
	docs_draw(p, 120, 40);
	back = now_seconds() - t0;
	CHECK_SAYS("Paragraph 0");
	span = xcalloc(s.n / 4 + 2, sizeof *span);
	for (size_t i = 4; i < s.n; i += 4)
		span[n_span++] = (struct ui_span){(uint32_t)i, (uint8_t)(i / 4 % 3 * 100)};
	t0 = now_seconds();
	docs_pane_lens(p, 0, span, n_span);
	docs_draw(p, 120, 40);
	lens = now_seconds() - t0;
	t0 = now_seconds();
	docs_draw(p, 60, 40);
	width = now_seconds() - t0;
	test_note("a document of 5 MiB: opened %.0f ms, drawn %.2f ms, to the end %.2f ms, search to the end %.1f ms and back %.1f ms, "
	          "lens of %zu spans %.1f ms, another width %.2f ms", open * 1e3, draw * 1e3, end * 1e3, search * 1e3, back * 1e3, n_span,
	          lens * 1e3, width * 1e3);
	CHECK_MSG(open < 1.5 * test_patience(), "%.0f ms", open * 1e3);
	CHECK_MSG(draw + end + width < 0.1 * test_patience(), "%.0f ms", (draw + end + width) * 1e3);
	CHECK_MSG(search + back < 1 * test_patience(), "%.0f ms", (search + back) * 1e3);
	free(span);
	str_free(&s);
	docs_pane_free(p);
}

/* ---- whatever comes ---- */

/* Pieces of text that have done harm somewhere; at most n bytes, no NUL. */
static void hostile(char *out, size_t n)
{
	static const char *const piece[] = {
		"\x1b[31m", "\x1b]0;t\x07", "\xe2\x80\xae", "\xe2\x80\x8b", "\xf3\xa0\x81\x81", "\xff", "\xc3", "\xe6\x97\xa5", "\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x91\xa7",
		"e\xcc\x81\xcc\x82\xcc\x83\xcc\x84\xcc\x85\xcc\x86", "\xcc\x81", "\r\n", "\n", "\t", "\x01", "\x02", "\f", " ", "  ", "a", "word", "# ", "\n## h\n", "```\n", "\n\n",
		"\xef\xb8\x8f", "\xe1\x84\x80\xe1\x85\xa1", "longlonglonglonglonglonglonglonglonglong", "\xef\xbf\xbf", "\xed\xa0\x80", "'", "%s%n", "/", "\xd7\xa9\xd7\x9c",
	};
	size_t at = 0;

	while (at + 1 < n) {
		const char *s = piece[test_rand() % (sizeof piece / sizeof piece[0])];
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
	static const int32_t v[] = {0, 1, -1, INT32_MAX, INT32_MIN, 255, 4, 1000, 99999, 72};
	return test_rand() % 3 ? v[test_rand() % 10] : (int32_t)(test_rand() % 40000);
}

static float some_float(void)
{
	static const float v[] = {0, 1, -1, 0.5f, 1e-20f, 3e38f, -3e38f, 0.001f};
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
	struct key k = {.code = (enum key_code)(test_rand() % (K_UNKNOWN + 1)), .mods = (unsigned)(test_rand() % 10 ? 0 : test_rand() % 8)};

	if (test_rand() % 2)
		k.code = K_CHAR;
	k.cp = k.code == K_MOUSE ? (int32_t)(test_rand() % 6) : k.code == K_CHAR && test_rand() % 20 ? (int32_t)(32 + test_rand() % 95) : some_int();
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

static void random_cache(struct cache_pane *p)
{
	static uint8_t col[2][UI_COLS], map[40 * UI_COLS];
	static char name[4][300];
	struct ui_cache c;

	memset(&c, 0, sizeof c);
	for (int i = 0; i < 4; i++)
		hostile(name[i], sizeof name[i]);
	c.kv = test_rand() % 5 ? name[0] : NULL;
	c.seen = some_int(), c.kept = some_int(), c.gone = some_int(), c.thinned = some_int(), c.ctx = some_int();
	c.bytes = test_rand() << (test_rand() % 64), c.bytes_most = test_rand() >> (test_rand() % 64);
	c.n_region = (int)(test_rand() % (UI_REGIONS + 1));
	for (int i = 0; i < UI_REGIONS; i++)
		c.region[i] = (struct ui_region){(char)test_rand(), test_rand() % 5 ? name[test_rand() % 4] : NULL, some_int(), some_int(),
		                                 some_int(), some_int(), some_int(), some_float()};
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
	c.chosen = some_int(), c.refreshed = some_int(), c.cosine = some_float();
	c.n_flow = (int)(test_rand() % (UI_FLOWS + 1));
	for (int i = 0; i < UI_FLOWS; i++) {
		c.flow[i] = (struct ui_flow){(enum ui_flow_what)(test_rand() % 3), some_int(), some_int(), some_float(), ""};
		memset(c.flow[i].text, 'x', sizeof c.flow[i].text);   /* no end of its own */
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
	c.decode_seconds = (double)some_float();
	cache_pane_post(p, &c);
}

static void random_sessions(struct sessions_pane *p)
{
	static char text[8][120];
	static struct ui_session s[40];
	size_t n = test_rand() % 41;

	for (int i = 0; i < 8; i++)
		hostile(text[i], sizeof text[i]);
	for (size_t i = 0; i < n; i++)
		s[i] = (struct ui_session){some_int(), text[test_rand() % 8], text[test_rand() % 8], test_rand() % 9 ? text[test_rand() % 8] : NULL,
		                           test_rand() % 9 ? text[test_rand() % 8] : NULL, test_rand() % 5 ? some_int() : (int64_t)test_rand(), some_int(), some_int(), test_rand() >> (test_rand() % 64),
		                           (double)some_float(), test_rand() % 9 == 0};
	sessions_pane_post(p, s, n, test_rand() % 5 ? NOW : (int64_t)test_rand());
}

static void random_docs(struct docs_pane *p)
{
	static char text[3][6000], name[3][80];
	struct ui_document d[3];
	size_t n = test_rand() % 4;

	for (size_t i = 0; i < n; i++) {
		size_t len;

		hostile(text[i], test_rand() % sizeof text[i] + 1);
		hostile(name[i], sizeof name[i]);
		len = strlen(text[i]);
		for (int k = 0; len && k < 3; k++)
			text[i][test_rand() % len] = (char)(test_rand() % 4 ? test_rand() : 0);
		d[i] = (struct ui_document){name[i], text[i], len, test_rand(), some_int(), some_int()};
		if (test_rand() % 6 == 0)
			d[i] = (struct ui_document){NULL, NULL, 0, 0, 0, -1};
	}
	docs_pane_post(p, d, n);
}

static void random_lens(struct docs_pane *p)
{
	struct ui_span span[50];
	uint32_t at = 0;
	size_t n = test_rand() % 51;

	for (size_t i = 0; i < n; i++) {
		at += (uint32_t)(test_rand() % 20 ? test_rand() % 60 : test_rand());
		span[i] = (struct ui_span){at, (uint8_t)(test_rand() % 3)};
	}
	docs_pane_lens(p, test_rand() % 4, span, n);
}

static int rounds(int n)
{
	const char *factor = getenv("WEIR_SOAK");

	return factor ? n * (strtol(factor, NULL, 10) > 1 ? (int)strtol(factor, NULL, 10) : 1) : n;
}

TEST(random_keys_and_data)
{
	struct cache_pane *c = cache_pane_new(0);
	struct sessions_pane *s = sessions_pane_new(0);
	struct docs_pane *d = docs_pane_new(0);
	struct ui_action act;
	int n = rounds(100000 / (test_patience() > 1 ? 5 : 1)), did[4] = {0}, unsound = 0;

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
			did[cache_pane_key(c, &k)]++;
			if (test_rand() % 40 == 0)
				cache_pane_layer(c, some_int());
			if (!draw)
				break;
			a = fresh(w, h);
			switch (test_rand() % 3) {
			case 0: cache_pane_draw_bar(c, &a); break;
			case 1: cache_pane_draw_side(c, &a); break;
			default: cache_pane_draw(c, &a); break;
			}
			CHECK(cache_pane_rows(c, w) > 0);
			break;
		case 1:
			memset(&act, 0, sizeof act);
			if (test_rand() % 20 == 0)
				did[sessions_pane_pause(s, &act)]++;
			switch (sessions_pane_key(s, &k, &act)) {
			case PANE_ACTION:
				did[PANE_ACTION]++;
				CHECK(act.text != NULL && (!act.n || memchr(act.text, 0, act.n) == NULL));
				if (act.what == UI_PREVIEW)
					sessions_pane_preview(s, act.id, k.bytes, k.n);
				break;
			case PANE_CLOSE: sessions_pane_open(s); break;
			default: break;
			}
			if (!draw)
				break;
			a = fresh(w, h);
			sessions_pane_draw(s, &a);
			break;
		default:
			did[docs_pane_key(d, &k)]++;
			if (test_rand() % 30 == 0)
				docs_pane_goto(d, k.bytes);
			if (!draw)
				break;
			a = fresh(w, h);
			docs_pane_draw(d, &a);
			break;
		}
		unsound = draw && !sound(&screen);
	}
	CHECK(!unsound);
	if (unsound)
		test_note("%s", dump());
	test_note("%d keys: %d not used, %d used, %d closed, %d actions", n, did[0], did[1], did[2], did[3]);
	CHECK(did[0] && did[1] && did[2] && did[3]);
	cache_pane_free(c);
	sessions_pane_free(s);
	docs_pane_free(d);
	grid_free(&screen);
}

/* In ASCII every character of ours is one: all forms at all sizes. */
TEST(ascii_at_all_sizes)
{
	struct cache_pane *c = cache_sample(1);
	struct sessions_pane *s = sessions_pane_new(1);
	struct docs_pane *d = docs_sample(1);
	static const char plain[] = "# One\n\nSome words that are long enough to be wrapped.\n\fAnother page\n";
	struct ui_document doc = {"plain.md", plain, sizeof plain - 1, 0, 9, 0};
	struct ui_action act;

	docs_pane_post(d, &doc, 1);
	sessions_pane_open(s);
	sessions_pane_post(s, talks, 3, NOW);
	for (int i = 0; i < 300; i++) {
		struct str out = {0};
		struct key k = letter((int32_t)"?jk+-hlco\t/["[test_rand() % 12]);
		struct area a;
		int w, h;

		random_size(&w, &h);
		cache_pane_key(c, &k);
		a = fresh(w, h), cache_pane_draw_bar(c, &a), add_screen(&out, "");
		a = fresh(w, h), cache_pane_draw_side(c, &a), add_screen(&out, "");
		a = fresh(w, h), cache_pane_draw(c, &a), add_screen(&out, "");
		press(s, i % 7 == 3 ? control('r') : (struct key){.code = K_TAB}, &act);
		a = fresh(w, h), sessions_pane_draw(s, &a), add_screen(&out, "");
		docs_pane_key(d, &k);
		a = fresh(w, h), docs_pane_draw(d, &a), add_screen(&out, "");
		check_ascii(&out);
		str_free(&out);
	}
	cache_pane_free(c);
	sessions_pane_free(s);
	docs_pane_free(d);
	grid_free(&screen);
}
