/* tests/lib/pane_screens.h - for tests of panes: a grid to draw into, whole screens to compare with, and data to
 * show. */
#ifndef WEIR_PANE_SCREENS_H
#define WEIR_PANE_SCREENS_H

#include "tests/lib/test.h"
#include "ui/panes/panes.h"
#include "ui/text/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static const int size[4][2] __attribute__((unused)) = { { 80, 24 }, { 120, 40 }, { 48, 20 }, { 20, 6 } };

/* ---- screens ---- */

static struct grid screen __attribute__((unused));

static inline struct area fresh(int w, int h)
{
	grid_resize(&screen, w, h);
	return area_of(&screen);
}

/* Append a title line and the screen. */
static inline void add_screen(struct str *out, const char *what)
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

/* 1 if the screen contains the text. */
static inline int says(const char *text)
{
	return strstr(dump(), text) != NULL;
}

#define CHECK_SAYS(text)     CHECK_MSG(says(text), "\"%s\" is not on the screen:\n%s", text, dump())
#define CHECK_SAYS_NOT(text) CHECK_MSG(!says(text), "\"%s\" is on the screen:\n%s", text, dump())

/* Return the style of the cell at which the text first occurs on the screen. */
static inline int style_of(const char *text)
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

static inline void compare(const char *name, const struct str *got)
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
		CHECK_MSG(0, "%s:%zu:\n  is       %.*s\n  expected %.*s", path, line, (int)strcspn(b, "\n"), b,
		          (int)strcspn(a, "\n"), a);
	}
	free(want);
}

static inline void check_ascii(const struct str *s)
{
	for (size_t i = 0; i < s->n; i++)
		if ((unsigned char)s->p[i] >= 0x80) {
			CHECK_MSG(0, "not ASCII at byte %zu", i);
			return;
		}
}

/* 1 if the grid has the properties that ui/screen/grid.c guarantees. */
static inline int sound(const struct grid *g)
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

/* ---- panes ---- */

static inline struct pane *pane_new(const struct pane_ops *ops, int ascii)
{
	return ops->create(&(struct ui_options){ .ascii = ascii });
}

static inline void pane_free(struct pane *p)
{
	p->ops->release(p);
}

static inline void pane_draw(struct pane *p, const struct area *a)
{
	p->ops->draw(p, a);
}

static inline enum pane_key pane_press(struct pane *p, const struct key *k, struct ui_action *out)
{
	p->say = NULL;
	return p->ops->key(p, k, out);
}

static inline enum pane_key pane_paused(struct pane *p, struct ui_action *out)
{
	return p->ops->pause(p, out);
}

static inline void pane_opened(struct pane *p)
{
	struct ui_action list;

	CHECK(p->ops->open(p, &list) == PANE_ACTION && list.what == UI_LIST);
}

/* ---- keys ---- */

static inline struct key letter(int32_t cp)
{
	return (struct key){ .code = K_CHAR, .cp = cp };
}

static inline struct key control(int32_t cp)
{
	return (struct key){ .code = K_CHAR, .mods = KEY_CTRL, .cp = cp };
}

/* ---- the cache ---- */

static uint8_t kept_col[UI_COLS] __attribute__((unused)), where_col[UI_COLS] __attribute__((unused));
static uint8_t heat[30 * UI_COLS] __attribute__((unused));

/* Fill in sample data: a conversation after a document, in a cascade of three rings. */
static char text_col[UI_COLS][UI_COL_TEXT];
static inline void sample(struct ui_cache *c)
{
	memset(c, 0, sizeof *c);
	c->kv = "cascade:size=2048,n=3";
	c->seen = 18204;
	c->kept = 5410;
	c->evicted = 12794;
	c->thinned = 210;
	c->ctx = 8192;
	c->bytes = 676ull << 20;
	c->bytes_most = 702ull << 20;
	c->region[0] = (struct ui_region){ 's', "sinks", 4, 4, 0, 0, 3, 0.31f };
	c->region[1] = (struct ui_region){ 'p', "prefix", 812, 0, 0, 4, 815, 0.07f };
	c->region[2] = (struct ui_region){ '1', "ring 1", 2048, 2048, 1, 16156, 18203, 0.37f };
	c->region[3] = (struct ui_region){ '2', "ring 2", 1540, 2048, 2, 12010, 16155, 0.17f };
	c->region[4] = (struct ui_region){ '3', "ring 3", 1006, 2048, 4, 3100, 12009, 0.08f };
	c->n_region = 5;
	c->cols = UI_COLS;
	c->per_col = 72;
	for (int i = 0; i < UI_COLS; i++) {
		int t = i * 72;
		kept_col[i] = (uint8_t)(t < 816 || t > 16156 ? 255
		                        : t > 12010          ? i * 37 % 100 + 60
		                        : t > 3100           ? i * 53 % 60
		                                             : 0);
		where_col[i] = (uint8_t)(t < 72                    ? 0
		                         : t < 816                 ? 1
		                         : t > 16156               ? 2
		                         : t > 12010               ? 3
		                         : t > 3100 && kept_col[i] ? 4
		                                                   : 255);
	}
	for (int l = 0; l < 30; l++)
		for (int i = 0; i < UI_COLS; i++)
			heat[l * UI_COLS + i] = (uint8_t)(i == (40 + l * 5) % UI_COLS ? 250
			                                  : i > 220                   ? 120 + i - 220
			                                                              : i * 7 % 61 * (l % 5) / 4);
	for (int i = 0; i < UI_COLS; i++)
		snprintf(text_col[i], UI_COL_TEXT, " words of column %d\n", i);
	c->text_col = (const char(*)[UI_COL_TEXT])text_col;
	c->kept_col = kept_col;
	c->where_col = where_col;
	c->heat_is = HEAT_MASS;
	c->n_layer = 30;
	c->heat = heat;
	c->selected = 512;
	c->refreshed = 3;
	c->cosine = 0.871f;
	c->recovered = 0.64f;
	c->estimated = -1;
	c->flow[0] = (struct ui_flow){ FLOW_IN, 1, 18203, 0, " the" };
	c->flow[1] = (struct ui_flow){ FLOW_MOVED, 2, 16155, 0.061f, " indemnity" };
	c->flow[2] = (struct ui_flow){ FLOW_OUT, 3, 4102, 0.0021f, " of" };
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
	c->every = 0.2;
}

/* Return a pane of the cache with attention that moves from the newest ring to the oldest and back. */
static inline struct pane *cache_sample(int ascii)
{
	struct pane *p = pane_new(&cache_pane, ascii);
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

/* ---- sessions ---- */

#define NOW 1790000000

static const struct ui_session sessions[] __attribute__((unused)) = {
	{ 11, "lease-review", "What does clause 17 say about the deposit?", "SmolLM2-135M-Instruct.Q4_1", "", NOW - 300,
	  14, 18204, 676ull << 20, 0, 1, 0, 0 },
	{ 12, "", "Write a limerick about a heron", "SmolLM2-135M-Instruct.Q4_1", "", NOW - 7200, 2, 212, 9ull << 20, 0,
	  0, 0, 1 },
	{ 13, "novel", "Who is the narrator?", "Qwen2.5-7B-Instruct.Q4_K_M", "", NOW - 86400 * 3, 120, 1234567, 0, 40,
	  0, 0, 0 },
	{ 14, "\x1b[31mred\x1b[0m \xe2\x80\xae evil",
	  "\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e\xe3\x81\xae\xe8\xb3\xaa\xe5\x95\x8f", "m", "", NOW - 86400 * 40, 1, 5,
	  1 << 20, -1, 0, 0, 0 },
	{ 15, "", "", "", "", 0, 0, 0, 0, 0, 0, 0, 0 },
};
enum { SESSIONS_N = LEN(sessions) };

static inline struct pane *sessions_sample(int ascii)
{
	struct pane *p = pane_new(&sessions_pane, ascii);

	setenv("TZ", "UTC", 1);
	tzset();
	pane_opened(p);
	sessions_pane_post(p, sessions, SESSIONS_N, NOW);
	return p;
}

static inline enum pane_key type(struct pane *p, const char *s, struct ui_action *out)
{
	enum pane_key last = PANE_NOT_MINE;

	for (; *s; s++) {
		struct key k = letter(*s);
		last = pane_press(p, &k, out);
	}
	return last;
}

static inline enum pane_key press(struct pane *p, struct key k, struct ui_action *out)
{
	memset(out, 0, sizeof *out);
	return pane_press(p, &k, out);
}

/* Press a key; needs a local struct ui_action act. */
#define PRESS(c) press(p, (struct key){ .code = (c) }, &act)

static inline void sessions_draw(struct pane *p, int w, int h)
{
	struct area a = fresh(w, h);
	pane_draw(p, &a);
}

/* ---- documents ---- */

static const char markdown[] __attribute__((unused)) =
	"# The lease\n\nThis agreement is made between the landlord and the tenant named below, for the house and garden at the end of the lane.\n\n"
	"## Clause 1: Rent\n\nThe tenant shall pay the rent on the first day of each month.\n\n```\n# no heading\n```\n"
	"## Clause 2: \xe6\x95\xb7\xe9\x87\x91\n\nThe deposit is two months' rent.\n\tIt is held in an account of its own.\n"
	"## Clause 3\n\nHostile \x1b[31mtext\x1b[0m and \xe2\x80\xaeturned\xe2\x80\xac words.\n";

static const char paged[] __attribute__((unused)) =
	"First page, first line.\nMore of it.\n\fSecond page.\n\fThird page: the tenant again.\n\f\n";

static inline struct pane *docs_sample(int ascii)
{
	struct pane *p = pane_new(&documents_pane, ascii);
	struct ui_document d[2] = {
		{ "lease.md", markdown, sizeof markdown - 1, sizeof markdown - 1, 120, 0, NULL, 0 },
		{ "annex.pdf", paged, sizeof paged - 1, sizeof paged - 1, 40, -1, NULL, 0 },
	};

	documents_pane_post(p, d, 2);
	return p;
}

static inline enum pane_key docs_type(struct pane *p, const char *s)
{
	enum pane_key last = PANE_NOT_MINE;

	for (; *s; s++) {
		struct key k = *s == '\r'     ? (struct key){ .code = K_ENTER }
		               : *s == '\t'   ? (struct key){ .code = K_TAB }
		               : *s == '\x1b' ? (struct key){ .code = K_ESC }
		                              : letter(*s);
		last = pane_press(p, &k, NULL);
	}
	return last;
}

static inline void docs_draw(struct pane *p, int w, int h)
{
	struct area a = fresh(w, h);
	pane_draw(p, &a);
}

/* Return a pane with a document of numbered lines. */
static inline struct pane *numbered(int lines, const char *name)
{
	struct pane *p = pane_new(&documents_pane, 0);
	struct str s = { 0 };
	struct ui_document d;

	for (int i = 1; i <= lines; i++)
		str_addf(&s, "line %d of the text\n", i);
	d = (struct ui_document){ name, s.p, s.n, s.n, lines * 5, 0, NULL, 0 };
	documents_pane_post(p, &d, 1);
	str_free(&s);
	return p;
}

#endif
