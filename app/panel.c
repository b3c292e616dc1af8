/* app/panel.c - see panel.h.
 *
 * The numbers come from the engine (timeline_view, timeline_stats, row events); this file gives them the names that the panel
 * shows and finds the words that belong to tokens. */
#include "app/panel.h"

#include <stdlib.h>
#include <string.h>

#include "app/app.h"

#define RATE_OVER 2.0          /* seconds over which rates are taken */

/* ---- listening to rows ---- */

static void words_free(struct words *);

static void on_rows(const struct slot_event *ev, size_t n, void *ud)
{
	struct listener *l = ud;
	static const enum ui_flow_what what[] = {[SLOT_ADMITTED] = FLOW_IN, [SLOT_MOVED] = FLOW_MOVED, [SLOT_EVICTED] = FLOW_OUT};

	for (size_t i = 0; i < n; i++) {
		int k = (int)what[ev[i].what];

		l->share[k] += ev[i].share;
		if (ev[i].what == SLOT_ADMITTED)
			continue;
		/* The newest few, for the eye. */
		if (l->n_flow == FLOW_KEPT)
			memmove(l->flow, l->flow + 1, sizeof *l->flow * --l->n_flow);
		l->flow[l->n_flow++] = (struct ui_flow){.what = what[ev[i].what], .ring = ev[i].ring, .token = ev[i].token, .score = ev[i].score};
	}
}

void listener_on(struct listener *l, struct timeline *tl)
{
	if (l->on)
		return;
	*l = (struct listener){.on = 1, .since = now_seconds()};
	timeline_on_evictions(tl, on_rows, l);
}

void listener_off(struct listener *l, struct timeline *tl)
{
	if (l->on && tl)
		timeline_on_evictions(tl, NULL, NULL);
	words_free(&l->words);
	*l = (struct listener){.on = 0};
}

/* ---- life ---- */

static void lenses_free(struct panel *p)
{
	for (size_t i = 0; i < p->n_lens; i++)
		free(p->lens[i].span);
	free(p->lens);
	p->lens = NULL;
	p->n_lens = 0;
}

struct panel *panel_new(void)
{
	return xcalloc(1, sizeof(struct panel));
}

void panel_free(struct panel *p)
{
	if (!p)
		return;
	lenses_free(p);
	free(p->heat);
	str_free(&p->names);
	free(p);
}

/* ---- regions ---- */

static struct ui_region *region_add(struct ui_cache *c)
{
	struct ui_region *r = &c->region[c->n_region++];

	*r = (struct ui_region){.first = -1, .last = -1, .share = -1};
	return r;
}

static void regions(struct panel *p, const struct timeline_stats *st)
{
	static const char *const ring_names[] = {"ring 1", "ring 2", "ring 3", "ring 4", "ring 5", "ring 6", "ring 7", "ring 8"};
	const struct timeline_rows *rows = &st->rows;
	const struct cache_view *v = &p->view;
	struct ui_cache *c = &p->cache;
	int observed = 0, stride = 1;
	struct ui_region *r;

	c->n_region = 0;
	for (int i = 0; i <= RINGS_MOST; i++)
		observed |= v->share[i] > 0;
	r = region_add(c);
	r->letter = rows->n_ring ? rows->pinned > 16 ? 'p' : 's' : 'c';
	r->name = rows->n_ring ? rows->pinned > 16 ? "prefix" : "sinks" : "cache";
	r->fill = rows->n_ring ? rows->pinned : st->n_tokens;
	r->rows = rows->n_ring ? 0 : st->ctx;
	if (r->fill) {
		r->first = 0;
		r->last = r->fill - 1;
	}
	/* What newest tokens looked at is the better answer; before one was seen there are the scores that rings keep. */
	if (v->now_layers)
		r->share = v->now[0];
	else if (v->share[0] > 0)
		r->share = v->share[0];
	for (int i = 0; i < rows->n_ring && c->n_region < UI_REGIONS; i++) {
		r = region_add(c);
		r->letter = (char)('1' + i);
		r->name = ring_names[i];
		r->fill = rows->fill[i];
		r->rows = rows->ring_rows;
		r->stride = stride;
		r->first = rows->first[i];
		r->last = rows->last[i];
		if (v->now_layers)
			r->share = v->now[1 + i];
		else if (observed)
			r->share = v->share[1 + i];
		stride *= rows->factor;
	}
}

/* ---- words ---- */

static void flow_words(struct panel *p, const struct talk *t, const struct listener *l)
{
	size_t n;
	const int32_t *id = timeline_tokens(t->tl, &n);
	struct ui_cache *c = &p->cache;

	c->n_flow = l->n_flow;
	memcpy(c->flow, l->flow, sizeof c->flow);
	for (int i = 0; i < c->n_flow; i++) {
		struct ui_flow *f = &c->flow[i];
		size_t len;

		f->text[0] = 0;
		if (f->token < 0 || (size_t)f->token >= n)
			continue;
		len = engine_piece(t->engine, id[f->token], 1, f->text, sizeof f->text - 1);
		f->text[len < sizeof f->text ? len : sizeof f->text - 1] = 0;
	}
}

static void words_update(struct words *w, const struct talk *t)
{
	size_t n, same = 0;
	const int32_t *id = timeline_tokens(t->tl, &n);
	char piece[256];

	while (same < n && same < w->id.n && id[same] == w->id.id[same])
		same++;
	if (same < w->id.n) {
		w->bytes.n = w->start[same];
		w->id.n = same;
	}
	if (n + 1 > w->cap) {
		w->cap = n + n / 4 + 1024;
		w->start = xrealloc(w->start, w->cap * sizeof *w->start);
	}
	for (size_t i = same; i < n; i++) {
		size_t len = engine_piece(t->engine, id[i], 0, piece, sizeof piece);

		w->start[i] = (uint32_t)w->bytes.n;
		if (len > sizeof piece)
			len = sizeof piece;   /* no token of a real vocabulary */
		if (len && w->bytes.n + len < UINT32_MAX)
			str_add(&w->bytes, piece, len);
		tokens_add(&w->id, id[i]);
	}
	w->start[n] = (uint32_t)w->bytes.n;
}

static void words_free(struct words *w)
{
	tokens_free(&w->id);
	str_free(&w->bytes);
	free(w->start);
	*w = (struct words){.cap = 0};
}

static void span_add(struct lens *l, size_t *cap, uint32_t end, uint8_t kept)
{
	if (l->n && l->span[l->n - 1].kept == kept) {
		l->span[l->n - 1].end = end;
		return;
	}
	if (l->n == *cap) {
		*cap = *cap ? 2 * *cap : 64;
		l->span = xrealloc(l->span, *cap * sizeof *l->span);
	}
	l->span[l->n++] = (struct ui_span){.end = end, .kept = kept};
}

/* The lens of a text that stands in the sequence behind byte *at; *at moves behind it. */
static void lens_of(struct panel *p, int which, const struct words *w, const uint8_t *kept, const char *text, size_t n, size_t *at)
{
	const char *found = n && w->bytes.n > *at ? memmem(w->bytes.p + *at, w->bytes.n - *at, text, n) : NULL;
	struct lens *l;
	size_t from, cap = 0, lo = 0, hi = w->id.n;

	if (!found)
		return;
	from = (size_t)(found - w->bytes.p);
	*at = from + n;
	p->lens = xrealloc(p->lens, (p->n_lens + 1) * sizeof *p->lens);
	l = &p->lens[p->n_lens++];
	*l = (struct lens){.which = which};
	while (lo < hi) {   /* the token that holds its first byte */
		size_t mid = (lo + hi) / 2;
		if (w->start[mid + 1] <= from)
			lo = mid + 1;
		else
			hi = mid;
	}
	for (size_t i = lo; i < w->id.n && w->start[i] < from + n; i++) {
		size_t end = w->start[i + 1] - from;

		if (w->start[i + 1] == w->start[i])
			continue;
		/* Three shades are enough: all keep it, some, none. */
		span_add(l, &cap, (uint32_t)(end < n ? end : n), kept[i] == 255 || kept[i] == 0 ? kept[i] : 128);
	}
}

void panel_documents(const struct talk *t, int32_t *first)
{
	struct words w = {.cap = 0};
	size_t at = 0, i = 0;

	words_update(&w, t);
	for (size_t d = 0; d < t->n_doc; d++) {
		const struct document *doc = &t->doc[d];
		const char *found = doc->n_body && w.bytes.n > at ?
		                    memmem(w.bytes.p + at, w.bytes.n - at, doc->text.p + doc->body, doc->n_body) : NULL;

		first[d] = -1;
		if (!found)
			continue;
		at = (size_t)(found - w.bytes.p);
		while (i < w.id.n && w.start[i + 1] <= at)
			i++;
		first[d] = (int32_t)i;
	}
	words_free(&w);
}

static void lenses(struct panel *p, const struct talk *t, struct listener *l, const struct timeline_stats *st)
{
	struct words *w = &l->words;
	uint8_t *kept;
	size_t byte = 0, n;

	p->lensed = 0;
	if (st->rows.evicted + st->rows.evicted_in_part == 0 || now_seconds() - l->lensed < 1)
		return;
	l->lensed = now_seconds();
	lenses_free(p);
	words_update(w, t);
	n = w->id.n;
	kept = xmalloc(n + 1);
	timeline_kept(t->tl, 0, (int32_t)n, kept);
	for (size_t i = 0; i < t->n_doc; i++)
		if (t->doc[i].at == 0)
			lens_of(p, -1 - (int)i, w, kept, t->doc[i].text.p + t->doc[i].body, t->doc[i].n_body, &byte);
	for (size_t i = 0; i < t->n_msg; i++)
		if (!t->msg[i].read)   /* of what was streamed the screen shows the end alone */
			lens_of(p, (int)i, w, kept, t->msg[i].text.p, t->msg[i].text.n, &byte);
	free(kept);
	p->lensed = 1;
}

/* ---- all of it ---- */

/* What is still to be read is not there. */
static void cut_unread(struct panel *p, int32_t read)
{
	struct ui_cache *c = &p->cache;
	struct ui_region *r;

	if (read < 0 || read >= c->seen)
		return;
	c->seen = read;
	if (c->kept > read)
		c->kept = read;
	for (r = c->region; r < c->region + c->n_region; r++)
		if (r->last >= read) {
			r->fill -= r->first < read ? r->last - read + 1 : r->fill;
			r->last = read - 1;
			if (r->fill <= 0)
				r->fill = 0, r->first = r->last = -1;
		}
	for (int i = 0; i < c->cols; i++)
		if ((int64_t)i * c->per_col >= read) {
			p->view.kept[i] = 0;
			p->view.where[i] = VIEW_GONE;
		}
}

void panel_look(struct panel *p, struct talk *t, struct listener *l, int how, int32_t read)
{
	struct timeline_stats st;
	struct ui_cache *c = &p->cache;
	double start = now_seconds(), over;

	timeline_stats(t->tl, &st);
	timeline_view(t->tl, UI_COLS, &p->view);
	*c = (struct ui_cache){.kv = p->kv};
	memcpy(p->kv, st.kv, sizeof p->kv);
	c->seen = st.n_tokens;
	c->kept = talk_kept(&st);
	c->gone = st.rows.evicted;
	c->thinned = st.rows.evicted_in_part;
	c->ctx = st.ctx;
	c->bytes_most = st.kv_bytes;
	regions(p, &st);
	c->cols = p->view.cols;
	c->per_col = p->view.per_col;
	c->kept_col = p->view.kept;
	c->where_col = p->view.where;
	cut_unread(p, read);
	c->bytes = st.kv_bytes_per_token * (uint64_t)c->kept;
	c->heat_is = p->view.watched == VIEW_SCORE ? HEAT_SCORE : p->view.watched == VIEW_CHOSEN ? HEAT_CHOSEN : HEAT_NONE;
	if (c->heat_is == HEAT_NONE && p->view.watched_pinned == VIEW_CHOSEN)
		c->heat_is = HEAT_CHOSEN;
	if (how > 1 && c->heat_is != HEAT_NONE) {
		c->n_layer = p->view.n_layer;
		p->heat = xrealloc(p->heat, (size_t)VIEW_LAYERS * VIEW_COLS);
		for (int i = 0; i < c->n_layer; i++)
			memcpy(p->heat + (size_t)i * (size_t)c->cols, p->view.heat[i], (size_t)c->cols);
		c->heat = p->heat;
	}
	c->chosen = p->view.chosen;
	c->refreshed = p->view.refreshed;
	c->cosine = p->view.cosine;
	c->recovered = p->view.recovered;
	c->estimated = p->view.estimated;
	flow_words(p, t, l);
	over = start - l->since;
	if (over > 0) {
		c->in_rate = (float)(l->share[FLOW_IN] / over);
		c->moved_rate = (float)(l->share[FLOW_MOVED] / over);
		c->out_rate = (float)(l->share[FLOW_OUT] / over);
	}
	if (over > RATE_OVER) {   /* older counts weigh half */
		l->since = start - over / 2;
		for (int k = 0; k < FLOW_KINDS; k++)
			l->share[k] /= 2;
	}
	lenses(p, t, l, &st);
	if (st.decode_tokens > 1 && st.decode_seconds > 0)
		c->decode_seconds = st.decode_seconds / (st.decode_tokens - 1);
	c->seconds = now_seconds() - start;
}

/* ---- as JSON ---- */

static void json_bytes(struct str *out, const char *name, const uint8_t *v, int n)
{
	str_addf(out, ",\"%s\":[", name);
	for (int i = 0; i < n; i++)
		str_addf(out, "%s%d", i ? "," : "", v[i]);
	str_adds(out, "]");
}

static void json_share(struct str *out, const char *name, float share)
{
	str_addf(out, ",\"%s\":", name);
	if (share < 0)
		str_adds(out, "null");
	else
		json_number(out, share, "%.4f");
}

void panel_json(const struct panel *p, struct str *out)
{
	static const char *const heat_is[] = {[HEAT_NONE] = "none", [HEAT_SCORE] = "score", [HEAT_CHOSEN] = "chosen"};
	static const char *const flow[] = {[FLOW_IN] = "in", [FLOW_MOVED] = "moved", [FLOW_OUT] = "out"};
	const struct ui_cache *c = &p->cache;

	str_adds(out, "{\"kv\":");
	str_add_json(out, p->kv, strlen(p->kv));
	str_addf(out, ",\"seen\":%d,\"kept\":%d,\"gone\":%d,\"thinned\":%d,\"ctx\":%d,\"bytes\":%llu,\"bytes_most\":%llu,\"regions\":[",
	         c->seen, c->kept, c->gone, c->thinned, c->ctx, (unsigned long long)c->bytes, (unsigned long long)c->bytes_most);
	for (int i = 0; i < c->n_region; i++) {
		const struct ui_region *r = &c->region[i];
		str_addf(out, "%s{\"name\":\"%s\",\"fill\":%d,\"rows\":%d,\"stride\":%d,\"first\":%d,\"last\":%d,\"share\":", i ? "," : "",
		         r->name, r->fill, r->rows, r->stride, r->first, r->last);
		if (r->share < 0)
			str_adds(out, "null");
		else
			json_number(out, r->share, "%.4f");
		str_adds(out, "}");
	}
	str_addf(out, "],\"per_col\":%d", c->per_col);
	json_bytes(out, "kept_col", c->kept_col, c->cols);
	json_bytes(out, "where_col", c->where_col, c->cols);
	str_addf(out, ",\"heat_is\":\"%s\",\"heat\":[", heat_is[c->heat_is]);
	for (int i = 0; i < c->n_layer; i++) {
		str_adds(out, i ? ",[" : "[");
		for (int k = 0; k < c->cols; k++)
			str_addf(out, "%s%d", k ? "," : "", c->heat[i * c->cols + k]);
		str_adds(out, "]");
	}
	str_addf(out, "],\"chosen\":%d,\"refreshed\":%d,\"cosine\":", c->chosen, c->refreshed);
	if (c->cosine < -1)
		str_adds(out, "null");
	else
		json_number(out, c->cosine, "%.4f");
	json_share(out, "recovered", c->recovered);
	json_share(out, "estimated", c->estimated);
	str_adds(out, ",\"flow\":[");
	for (int i = 0; i < c->n_flow; i++) {
		str_addf(out, "%s{\"what\":\"%s\",\"ring\":%d,\"token\":%d,\"score\":", i ? "," : "", flow[c->flow[i].what], c->flow[i].ring,
		         c->flow[i].token);
		json_number(out, c->flow[i].score, "%.6g");
		str_adds(out, ",\"text\":");
		str_add_json(out, c->flow[i].text, strlen(c->flow[i].text));
		str_adds(out, "}");
	}
	str_adds(out, "],\"in_rate\":");
	json_number(out, c->in_rate, "%.2f");
	str_adds(out, ",\"moved_rate\":");
	json_number(out, c->moved_rate, "%.2f");
	str_adds(out, ",\"out_rate\":");
	json_number(out, c->out_rate, "%.2f");
	str_adds(out, ",\"seconds\":");
	json_number(out, c->seconds, "%.6f");
	str_adds(out, "}\n");
}
