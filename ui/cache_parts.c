/* ui/cache_parts.c - the parts that the forms of the cache pane are put together from.
 *
 * Every number stands in a field of its own width, so nothing moves when it changes.  What is not observed shows as "-", never as
 * a zero.  Regions are told apart by their letters, amounts by glyphs, so the parts say the same without colours; in ASCII
 * the glyphs are others, the places the same. */
#include "ui/view_cache.h"

#include <stdio.h>
#include <string.h>

/* ---- amounts as glyphs ---- */

int32_t ladder(const struct cache_pane *p, int v)
{
	static const char plain[] = ".:-=+*#%@";

	if (v <= 0)
		return ' ';
	v = v > 255 ? 254 : v - 1;
	return p->ascii ? plain[v * 9 / 255] : 0x2581 + v * 8 / 255;
}

/* Share of a text that is kept: only nothing is blank, only all is solid. */
static int32_t shade(const struct cache_pane *p, int v)
{
	static const char plain[] = " .:*#";
	static const int32_t block[] = {' ', 0x2591, 0x2592, 0x2593, 0x2588};
	int step = v <= 0 ? 0 : v >= 255 ? 4 : 1 + (v - 1) * 3 / 254;

	return p->ascii ? plain[step] : block[step];
}

static unsigned heat_style(int v)
{
	int step = v * HEATS / 256;

	return ST_HEAT + (unsigned)(step < 0 ? 0 : step >= HEATS ? HEATS - 1 : step);
}

/* ---- which columns a cell stands for ---- */

int64_t cache_tokens(const struct cache_pane *p)
{
	int64_t all = (int64_t)p->c.cols * p->c.per_col;

	return p->c.seen > 0 && p->c.seen < all ? p->c.seen : all;
}

void cell_columns(const struct cache_pane *p, int64_t from, int64_t span, int w, int i, int *first, int *end)
{
	int64_t per = p->c.per_col, lo, hi;

	if (span <= 0) {
		from = 0;
		span = cache_tokens(p);
	}
	lo = (from + span * i / w) / per;
	hi = (from + span * (i + 1) / w + per - 1) / per;
	/* A cell that begins within a column belongs to it, and to others only if it is wider. */
	if (span * (i + 1) / w - span * i / w <= per)
		hi = lo + 1;
	if (lo >= p->c.cols)
		lo = p->c.cols - 1;
	if (lo < 0)
		lo = 0;
	*first = (int)lo;
	*end = (int)(hi <= lo ? lo + 1 : hi > p->c.cols ? p->c.cols : hi);
}

/* ---- meters ---- */

int cache_watched(const struct cache_pane *p)
{
	for (int i = 0; i < p->c.n_region; i++)
		if (p->c.region[i].share >= 0)
			return 1;
	return 0;
}

/* Columns of a meter: what stands beside the bar. */
struct meter_form { int name, stride, att, span, labels; };

static struct meter_form meter_form(int w)
{
	if (w >= 64)
		return (struct meter_form){9, 6, 4, 12, 1};
	if (w >= 36)
		return (struct meter_form){0, 5, 4, 11, 0};
	return (struct meter_form){0, 0, w >= 18 ? 4 : 0, 0, 0};
}

static void draw_bar(const struct area *a, int x, int y, int w, const struct ui_region *r, int32_t ctx)
{
	struct str text = {0};
	int64_t most = r->rows > 0 ? r->rows : ctx, fill = r->fill > 0 ? r->fill : 0;
	int inner = w - 2, full = 0, at;

	if (inner < 1)
		return;
	if (most > 0) {
		full = fill >= most ? inner : (int)(fill * inner / most);
		if (fill && !full)
			full = 1;
	}
	area_cell(a, x, y, '[', ST_FAINT, 0);
	area_cell(a, x + w - 1, y, ']', ST_FAINT, 0);
	area_fill(a, x + 1, y, full, ST_METER, '|');
	if (r->rows > 0)
		str_addf(&text, "%s/%s", num_count(r->fill).s, num_count(r->rows).s);
	else
		str_adds(&text, num_count(r->fill).s);
	if ((int)text.n > inner) {
		str_clear(&text);
		str_adds(&text, num_short(r->fill).s);
		if (r->rows > 0)
			str_addf(&text, "/%s", num_short(r->rows).s);
	}
	if ((int)text.n > inner) {
		str_clear(&text);
		str_adds(&text, num_short(r->fill).s);
	}
	if ((int)text.n <= inner) {
		at = inner - (int)text.n;
		area_text(a, x + 1 + at, y, ST_TEXT, text.p, text.n);
		if (full > at)
			area_restyle(a, x + 1 + at, y, full - at, ST_METER | STYLE_BOLD);
	}
	str_free(&text);
}

static void draw_meter(const struct cache_pane *p, const struct area *a, int x, int y, int w, int i)
{
	const struct ui_region *r = &p->c.region[i];
	struct meter_form f = meter_form(w);
	int rest = (f.stride ? f.stride + 1 : 0) + (f.att ? f.att + 1 + 4 * f.labels : 0) + (f.span ? f.span + 1 : 0), bar;
	char text[64];

	area_cell(a, x, y, r->letter, ST_STRONG, 0);
	x += 2;
	if (f.name)
		x = put_left(a, x, y, f.name, ST_TEXT, p->name[i], strlen(p->name[i]), p->ascii);
	bar = w - 2 - f.name - rest;
	draw_bar(a, x, y, bar, r, p->c.ctx);
	x += bar > 0 ? bar : 0;
	if (f.stride) {
		if (r->stride > 1)
			snprintf(text, sizeof text, "1/%s", num_short(r->stride).s);
		else
			snprintf(text, sizeof text, "all");
		x = put_right(a, x + 1, y, f.stride, ST_TEXT, text);
	}
	if (f.att) {
		if (f.labels)
			x = area_text(a, x + 1, y, ST_FAINT, "att", 3);
		x = put_right(a, x + 1, y, f.att, ST_TEXT, num_percent((double)r->share).s);
	}
	if (f.span) {
		if (r->first < 0 || r->last < r->first)
			snprintf(text, sizeof text, "empty");
		else
			snprintf(text, sizeof text, "%s-%s", num_short(r->first).s, num_short(r->last).s);
		put_right(a, x + 1, y, f.span, ST_TEXT, text);
	}
}

static int meters_a_row(const struct cache_pane *p, int w, int compact)
{
	return compact && w >= 76 && p->c.n_region > 3 ? 2 : 1;
}

int meters_rows(const struct cache_pane *p, int w, int compact)
{
	int n = meters_a_row(p, w, compact);

	return (p->c.n_region + n - 1) / n;
}

void meters_draw(const struct cache_pane *p, const struct area *a, int compact)
{
	int n = meters_a_row(p, a->w, compact), w = n == 1 ? a->w : (a->w - 2) / 2;

	for (int i = 0; i < p->c.n_region; i++)
		draw_meter(p, a, n == 1 ? 0 : i % 2 * (a->w - w), i / n, w, i);
}

/* ---- numbers ---- */

static double of_seen(const struct cache_pane *p, int64_t n)
{
	return p->c.seen > 0 && n >= 0 ? (double)n / p->c.seen : -1;
}

void numbers_draw(const struct cache_pane *p, const struct area *a, int y, int most)
{
	const struct ui_cache *c = &p->c;
	struct num kept = num_percent(of_seen(p, c->kept));

	if (a->w >= 70 && most)
		area_putf(a, 0, y, ST_TEXT, "seen %7s  kept %7s (%4s)  gone %7s  %9s of %9s", num_fit(c->seen, 7).s, num_fit(c->kept, 7).s,
		          kept.s, num_fit(c->gone, 7).s, num_bytes(c->bytes).s, num_bytes(c->bytes_most).s);
	else if (a->w >= 76)
		area_putf(a, 0, y, ST_TEXT, "seen %7s  kept %7s (%4s)  thinned %7s  gone %7s  %9s", num_fit(c->seen, 7).s,
		          num_fit(c->kept, 7).s, kept.s, num_fit(c->thinned, 7).s, num_fit(c->gone, 7).s, num_bytes(c->bytes).s);
	else if (a->w >= 57)
		area_putf(a, 0, y, ST_TEXT, "seen %7s  kept %7s (%4s)  gone %7s  %9s", num_fit(c->seen, 7).s, num_fit(c->kept, 7).s,
		          kept.s, num_fit(c->gone, 7).s, num_bytes(c->bytes).s);
	else if (a->w >= 46)
		area_putf(a, 0, y, ST_TEXT, "seen %7s  kept %7s (%4s)  gone %5s", num_fit(c->seen, 7).s, num_fit(c->kept, 7).s, kept.s,
		          num_short(c->gone).s);
	else
		area_putf(a, 0, y, ST_TEXT, "seen %5s kept %4s", num_short(c->seen).s, kept.s);
}

void numbers_draw_block(const struct cache_pane *p, const struct area *a)
{
	const struct ui_cache *c = &p->c;

	area_putf(a, 0, 0, ST_TEXT, "seen %11s   kept %9s (%4s)", num_fit(c->seen, 11).s, num_fit(c->kept, 9).s,
	          num_percent(of_seen(p, c->kept)).s);
	area_putf(a, 0, 1, ST_TEXT, "gone %11s   thinned %6s", num_fit(c->gone, 11).s, num_fit(c->thinned, 6).s);
	area_putf(a, 0, 2, ST_TEXT, "memory %9s of %9s", num_bytes(c->bytes).s, num_bytes(c->bytes_most).s);
}

void kept_by_draw(const struct cache_pane *p, const struct area *a, int y)
{
	const struct ui_cache *c = &p->c;
	int64_t some = c->thinned > 0 ? c->thinned : 0, none = c->gone > 0 ? c->gone : 0, all = (int64_t)c->kept - some;
	int x, w, n_some, n_none;

	if (all < 0)
		all = 0;
	if (a->w < 70) {
		area_putf(a, 0, y, ST_TEXT, "by all %5s some %5s none %5s", num_short(all).s, num_short(some).s, num_short(none).s);
		return;
	}
	x = area_putf(a, 0, y, ST_TEXT, "kept by all %9s (%4s)  by some %7s (%4s)  by none %9s", num_fit(all, 9).s,
	              num_percent(of_seen(p, all)).s, num_fit(some, 7).s, num_percent(of_seen(p, some)).s, num_fit(none, 9).s) + 2;
	/* The same as a bar, where there is room for one. */
	if ((w = a->w - x - 2) < 8 || all + some + none <= 0)
		return;
	n_some = (int)(some * w / (all + some + none));
	n_none = (int)(none * w / (all + some + none));
	n_some += some > 0 && !n_some;
	n_none += none > 0 && !n_none;
	area_cell(a, x, y, '[', ST_FAINT, 0);
	area_fill(a, x + 1, y, w, ST_METER, '|');
	area_fill(a, x + 1 + w - n_none - n_some, y, n_some, ST_FAINT, '+');
	area_fill(a, x + 1 + w - n_none, y, n_none, ST_GONE, '.');
	area_cell(a, x + 1 + w, y, ']', ST_FAINT, 0);
}

/* ---- the strip ---- */

int strip_rows(const struct cache_pane *p, int axis)
{
	return 2 + (axis != 0) + (p->c.n_mark > 0);
}

static void draw_mark_row(const struct cache_pane *p, const struct area *a, int y, int64_t from, int64_t span)
{
	for (int i = 0; i < p->c.n_mark; i++) {
		int64_t first = p->c.mark[i].first;
		int x, end = a->w;

		if (first < from || first >= from + span)
			continue;
		x = (int)((first - from) * a->w / span);
		/* Its name reaches to the next one at most. */
		for (int k = 0; k < p->c.n_mark; k++)
			if (p->c.mark[k].first > first && p->c.mark[k].first < from + span) {
				int next = (int)((p->c.mark[k].first - from) * a->w / span);
				if (next > x && next < end)
					end = next;
			}
		area_cell(a, x, y, '^', ST_STRONG, 0);
		if (end - x > 3)
			put_left(a, x + 1, y, end - x - 2, ST_FAINT, p->mark_name[i], strlen(p->mark_name[i]), p->ascii);
	}
}

void strip_draw(const struct cache_pane *p, const struct area *all, int left, int axis, int64_t from, int64_t span)
{
	struct area a = area_part(all, left, 0, all->w - left, all->h);
	int y = axis != 0;

	if (a.w < 1)
		return;
	if (p->c.cols < 1) {
		area_text(&a, 0, y, ST_FAINT, "no token is in it yet", 21);
		return;
	}
	if (span <= 0) {
		from = 0;
		span = cache_tokens(p);
	}
	if (axis) {
		put_left(&a, 0, 0, a.w, ST_FAINT, num_count(from).s, strlen(num_count(from).s), 1);
		if (a.w >= 60)
			put_right(&a, a.w / 2 - 16, 0, 16 + (int)strlen(num_count(from + span / 2).s) / 2, ST_FAINT, num_count(from + span / 2).s);
		if (a.w >= 30)
			put_right(&a, a.w - 16, 0, 16, ST_FAINT, num_count(from + span - 1).s);
	}
	for (int x = 0; x < a.w; x++) {
		int first, end, sum = 0, best = -1, most;
		uint8_t where;

		cell_columns(p, from, span, a.w, x, &first, &end);
		for (int i = first; i < end; i++) {
			sum += p->kept[i];
			if (best < 0 || p->kept[i] > p->kept[best])
				best = i;
		}
		/* Shown as all only if all of it is, as nothing only if nothing is. */
		most = sum / (end - first);
		if (sum && !most)
			most = 1;
		where = p->where[best];
		area_cell(&a, x, y, shade(p, most), heat_style(most), 0);
		area_cell(&a, x, y + 1, where == 255 ? ' ' : where < p->c.n_region ? p->c.region[where].letter : '?', ST_TEXT, 0);
	}
	draw_mark_row(p, &a, y + 2, from, span);
}

/* ---- attention over time ---- */

int history_rows(const struct cache_pane *p)
{
	return 1 + (cache_watched(p) ? p->c.n_region : 1);
}

void history_draw(const struct cache_pane *p, const struct area *a)
{
	int w = a->w - 8;

	area_text(a, 0, 0, ST_TITLE, "attention over time", 19);
	if (!cache_watched(p)) {
		struct str why = {0};

		if (p->c.n_region > 1)
			str_adds(&why, "attention is seen from the next token on");
		else
			str_addf(&why, "attention is not watched under '%s'", p->kv);
		put_left(a, 0, 1, a->w, ST_FAINT, why.p, why.n, p->ascii);
		str_free(&why);
		return;
	}
	if (w < 1)
		return;
	w = w > HISTORY ? HISTORY : w;
	for (int r = 0; r < p->c.n_region; r++) {
		int n = p->n_past < (uint64_t)w ? (int)p->n_past : w, most = 1;

		area_cell(a, 0, 1 + r, p->c.region[r].letter, ST_STRONG, 0);
		for (int i = 0; i < n; i++) {
			uint16_t v = p->past[(p->n_past - 1 - (uint64_t)i) % HISTORY][r];
			if (v != NOT_WATCHED && v > most)
				most = v;
		}
		for (int i = 0; i < n; i++) {
			uint16_t v = p->past[(p->n_past - 1 - (uint64_t)i) % HISTORY][r];
			int level = v == NOT_WATCHED ? 0 : (int)((int64_t)v * 255 / most);

			area_cell(a, 2 + w - 1 - i, 1 + r, v == NOT_WATCHED ? '-' : ladder(p, level), v == NOT_WATCHED ? ST_FAINT : ST_METER, 0);
		}
		put_right(a, a->w - 5, 1 + r, 5, ST_TEXT, num_percent((double)p->c.region[r].share).s);
	}
}

/* ---- flow ---- */

int flow_rows(const struct cache_pane *p)
{
	return 1 + (p->c.n_flow ? p->c.n_flow : 1);
}

static struct num rate_text(float v)
{
	struct num out;

	if (!(v >= 0))
		snprintf(out.s, sizeof out.s, "-");
	else if (v < 999.95f)
		snprintf(out.s, sizeof out.s, "%.1f", (double)v);
	else
		out = num_short(v < 1e12f ? (int64_t)v : 1000000000000);
	return out;
}

/* Tokens are not scored under every policy: zero says so. */
static struct num score_text(float v)
{
	struct num out;
	float size = v < 0 ? -v : v;

	if (!(size > 0) || size > 1e30f)
		snprintf(out.s, sizeof out.s, "-");
	else if (size < 0.001f)
		snprintf(out.s, sizeof out.s, "%.0e", (double)v);
	else if (size < 10)
		snprintf(out.s, sizeof out.s, "%.4f", (double)v);
	else
		snprintf(out.s, sizeof out.s, "%.1e", (double)v);
	return out;
}

void flow_draw(const struct cache_pane *p, const struct area *a)
{
	const struct ui_cache *c = &p->c;

	if (a->w >= 39)
		area_putf(a, 0, 0, ST_TEXT, "in %5s/s  moved %5s/s  gone %5s/s", rate_text(c->in_rate).s, rate_text(c->moved_rate).s,
		          rate_text(c->out_rate).s);
	else
		area_putf(a, 0, 0, ST_TEXT, "in %5s gone %5s/s", rate_text(c->in_rate).s, rate_text(c->out_rate).s);
	if (!c->n_flow && c->gone <= 0 && c->thinned <= 0)
		put_left(a, 0, 1, a->w, ST_FAINT, "nothing has left so far", 23, p->ascii);
	/* The newest first: it is what one looks for. */
	for (int i = 0; i < c->n_flow; i++) {
		const struct ui_flow *f = &c->flow[c->n_flow - 1 - i];
		const char *text = p->flow_text[c->n_flow - 1 - i];
		char ring[40];
		int x;

		if (f->what == FLOW_OUT)
			snprintf(ring, sizeof ring, "%s->", f->ring > 0 ? num_short(f->ring).s : "");
		else
			snprintf(ring, sizeof ring, "->%s", f->ring > 0 ? num_short(f->ring).s : "");
		area_putf(a, 0, 1 + i, f->what == FLOW_OUT ? ST_GONE : ST_FAINT, "%s",
		          f->what == FLOW_IN ? "in" : f->what == FLOW_MOVED ? "moved" : "gone");
		x = put_right(a, 6, 1 + i, 4, ST_FAINT, ring);
		x = put_right(a, x + 1, 1 + i, a->w >= 60 ? 13 : 9, ST_TEXT, num_fit(f->token, a->w >= 60 ? 13 : 9).s);
		x = put_right(a, x + 1, 1 + i, 7, ST_TEXT, score_text(f->score).s);
		put_left(a, x + 1, 1 + i, a->w - x - 1, f->what == FLOW_OUT ? ST_GONE : ST_TEXT, text, strlen(text), p->ascii);
	}
}

/* ---- what a token read, and what this costs ---- */

/* Is there anything to say beside the number of rows? */
static int reads_known(const struct ui_cache *c)
{
	/* Where all rows are read nothing needs to be estimated. */
	return c->refreshed >= 0 || c->cosine >= -1 || c->recovered >= 0 || (c->estimated >= 0 && c->chosen > 0);
}

void reads_draw(const struct cache_pane *p, const struct area *a, int y)
{
	const struct ui_cache *c = &p->c;
	char cosine[16] = "-";
	struct num rows = num_short(c->chosen), anew = num_short(c->refreshed);
	const char *read = c->chosen > 0 ? rows.s : c->chosen < 0 ? "-" : "all", *chose = c->refreshed >= 0 ? anew.s : "-";
	/* Sets that serve several tokens recover something of what comes after; a choice for each holds what it holds. */
	int estimated = c->estimated >= 0 && !(c->recovered >= 0);
	struct num share = num_percent((double)(estimated ? c->estimated : c->recovered));

	if (c->cosine >= -1 && c->cosine <= 1.001f)
		snprintf(cosine, sizeof cosine, "%.3f", (double)c->cosine);
	if (!reads_known(c))
		area_putf(a, 0, y, ST_TEXT, "read %5s rows per KV head", read);
	else if (estimated && c->refreshed < 0 && a->w >= 60)
		area_putf(a, 0, y, ST_TEXT, "read %5s rows per KV head  estimated share of attention %4s", read, share.s);
	else if (estimated && c->refreshed < 0)
		area_putf(a, 0, y, ST_TEXT, "read %5s  estimated %4s", read, share.s);
	else if (a->w >= 76)
		area_putf(a, 0, y, ST_TEXT, "read %5s rows per head  anew %5s layers  cosine %6s  %s %4s", read, chose, cosine,
		          estimated ? "estimated" : "recovered", share.s);
	else if (a->w >= 60)
		area_putf(a, 0, y, ST_TEXT, "read %5s rows  anew %3s  cosine %6s  %s %4s", read, chose, cosine,
		          estimated ? "estimated" : "recovered", share.s);
	else if (a->w >= 40)
		area_putf(a, 0, y, ST_TEXT, "read %5s anew %3s cos %6s %s %4s", read, chose, cosine, estimated ? "est" : "rec", share.s);
	else
		area_putf(a, 0, y, ST_TEXT, "read %5s anew %5s", read, chose);
}

void cost_draw(const struct cache_pane *p, const struct area *a, int y)
{
	double ms = p->c.seconds * 1000, share = p->c.seconds / p->c.decode_seconds;

	if (!(ms >= 0 && ms < 1e6)) {
		area_putf(a, 0, y, ST_FAINT, "panel - ms");
		return;
	}
	if (a->w >= 38 && p->c.decode_seconds > 0 && share < 1e4)
		area_putf(a, 0, y, ST_FAINT, "panel %.1f ms, %.1f%% of a token's time", ms, share * 100);
	else
		area_putf(a, 0, y, ST_FAINT, "panel %.1f ms", ms);
}

/* ---- what it all means ---- */

/* A sentence: on wide screens they follow each other, on narrow ones each begins a line. */
static void add(struct str *s, int w, const char *text)
{
	if (s->n)
		str_adds(s, w >= 76 ? "  " : "\n");
	str_adds(s, text);
}

static void add_meters(const struct cache_pane *p, struct str *s, int w)
{
	add(s, w, "letters: ");
	for (int i = 0; i < p->c.n_region; i++) {
		char letter = p->c.region[i].letter;
		str_addf(s, "%s%c %s", i ? ", " : "", letter, p->name[i]);
	}
	str_adds(s, ".");
	add(s, w, "bar: tokens in the region / that it holds at most.");
	add(s, w, "1/4: it gets one token in four.");
	if (cache_watched(p)) {
		add(s, w, "%: its share of attention now, mean over layers and heads, together 100%; -: not known yet.");
	} else {
		add(s, w, "");
		if (p->c.n_region > 1)
			str_adds(s, "-: attention is seen from the next token on.");
		else
			str_addf(s, "-: attention is not watched under '%s'.", p->kv);
	}
	add(s, w, "a-b: oldest and newest token in it, from 0; k: thousand.");
}

static void add_strip(const struct cache_pane *p, struct str *s, int w)
{
	add(s, w, "strip: the whole text, ");
	str_addf(s, "%s token%s a step: %s; letter: the region that most of them are in%s.", num_count(p->c.per_col).s,
	         p->c.per_col == 1 ? "" : "s", p->ascii ? "# all kept, * : . fewer, blank none"
	                  : "\xe2\x96\x88 all kept, \xe2\x96\x93 \xe2\x96\x92 \xe2\x96\x91 fewer, blank none",
	         p->c.n_mark ? "; ^ a document begins" : "");
}

static void add_heat(const struct cache_pane *p, struct str *s, int w)
{
	if (!p->heat_any)
		return;
	add(s, w, "heat: row L is layer L (or the highest of several), columns as in the strip; ");
	str_addf(s, "%s; %s; > the picked layer.",
	         p->c.heat_is == HEAT_SCORE ? "running average of attention, log scale, without sinks"
	                                    : "share of the KV heads that chose the tokens",
	         p->ascii ? ". : - = + * # % @: from little to much" : p->color ? "two layers a row, stronger: more" : "higher: more");
}

/* Of a choice for each token nothing is chosen anew or recovered. */
static void add_reads(const struct cache_pane *p, struct str *s, int w)
{
	int sets = reads_known(&p->c) && (p->c.refreshed >= 0 || !(p->c.estimated >= 0));

	add(s, w, "read: rows that the last token read.");
	if (sets) {
		add(s, w, "anew: layers that chose theirs for it.");
		add(s, w, "cosine, cos: likeness of the queries that a refresh compares, 1: same direction.");
	}
	if (sets && !(p->c.estimated >= 0))
		add(s, w, "recovered, rec: share of attention that the rows chosen before got from a token for which others were chosen.");
	if (p->c.estimated >= 0 && reads_known(&p->c))
		add(s, w, "estimated, est: share of attention on the rows that were read, by the scores that they are chosen by.");
}

void legend_lay_out(const struct cache_pane *p, unsigned of, int w, struct lines *out)
{
	struct str s = {0};

	if (of & LEGEND_METERS)
		add_meters(p, &s, w);
	if (of & LEGEND_NUMBERS)
		add(&s, w, of & LEGEND_KEPT ? "seen: tokens that came in.  kept: held by any layer and head, and in % of seen.  gone: by none."
		                            : "seen: tokens that came in.  kept: held by any layer and head, and in % of seen.  "
		                              "thinned: by some, not all.  gone: by none.");
	if (of & LEGEND_NUMBERS)
		add(&s, w, "MiB: memory in use, of what it may take.");
	if (of & LEGEND_KEPT)
		add(&s, w, "kept by: all pairs of layer and KV head, some, none.");
	if (of & LEGEND_READS)
		add_reads(p, &s, w);
	if (of & LEGEND_FLOW)
		add(&s, w, "in, moved, gone: tokens a second that came, went to an older ring, left; below the newest: ->2 into "
		           "ring 2, 3-> out of ring 3, token number, score (running average of attention it got), text.");
	if (of & LEGEND_HISTORY && cache_watched(p))
		add(&s, w, "over time: a column an update, newest right; height: share of attention against the line's highest; %: now.");
	if (of & LEGEND_STRIP)
		add_strip(p, &s, w);
	if (of & LEGEND_HEAT)
		add_heat(p, &s, w);
	if (of & LEGEND_PEAKS && p->heat_any)
		add(&s, w, "peaks: tokens where the picked layer is highest, highest first.");
	if (of & LEGEND_COST)
		add(&s, w, "panel: time that collecting this took, and its part of one token's time.");
	lines_clear(out);
	lines_plain(out, s.p ? s.p : "", s.n, w, ST_FAINT);
	str_free(&s);
}

void legend_draw(const struct lines *l, const struct area *a, size_t top)
{
	for (size_t i = top; i < l->n_line && i - top < (size_t)a->h; i++) {
		const struct text_line *t = &l->line[i];
		int x = 0, word = 0, y = (int)(i - top);

		lines_draw(l, i, a, 0, y);
		/* What a sentence is about ends with a colon. */
		for (size_t r = t->run; r < (size_t)t->run + t->n_run; r++)
			for (size_t k = 0; k < l->run[r].n; k++) {
				char c = l->text.p[l->run[r].from + k];

				if (((unsigned char)c & 0xc0) == 0x80)
					continue;
				if (c == ':')
					area_restyle(a, word, y, x - word, ST_TEXT);
				x++;
				if (c == ' ')
					word = x;
			}
	}
}
