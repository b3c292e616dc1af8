/* app/chat/cache_view.c - fills in what the cache panel shows: figures that the engine reports, and the text of
 * the tokens. */
#include "app/chat/cache_lens.h"
#include "engine/base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/chat/chat.h"

#define RATE_OVER 2.0 /* seconds over which rates are averaged */

/* ---- listening to slot events ---- */

static void on_slots(const struct slot_event *ev, size_t n, void *ud)
{
	struct listener *l = ud;
	static const enum ui_flow_what what[] = {
		[SLOT_ADMITTED] = FLOW_IN, [SLOT_MOVED] = FLOW_MOVED, [SLOT_EVICTED] = FLOW_OUT
	};

	for (size_t i = 0; i < n; i++) {
		int k = (int)what[ev[i].what];

		l->share[k] += ev[i].share;
		if (ev[i].what == SLOT_ADMITTED)
			continue;
		/* Keep the newest events, which the panel shows. */
		if (l->n_flow == FLOW_KEPT)
			memmove(l->flow, l->flow + 1, sizeof *l->flow * --l->n_flow);
		l->flow[l->n_flow++] = (struct ui_flow){
			.what = what[ev[i].what], .ring = ev[i].ring, .token = ev[i].token, .mass = ev[i].mass
		};
	}
}

void listener_on(struct listener *l, struct timeline *tl)
{
	if (l->on && l->tl == tl)
		return;
	*l = (struct listener){ .on = 1, .tl = tl, .since = now_seconds() };
	if (tl)
		timeline_on_evictions(tl, on_slots, l);
}

void listener_off(struct listener *l, struct timeline *tl)
{
	if (l->on && tl && l->tl == tl)
		timeline_on_evictions(tl, NULL, NULL);
	*l = (struct listener){ .on = 0 };
}

/* ---- life ---- */

struct cache_report *cache_report_new(void)
{
	return xcalloc(1, sizeof(struct cache_report));
}

void cache_report_free(struct cache_report *p)
{
	if (!p)
		return;
	lenses_free(p);
	free(p->heat);
	free(p->text);
	str_free(&p->names);
	free(p);
}

/* ---- regions ---- */

static struct ui_region *region_add(struct ui_cache *c)
{
	struct ui_region *r = &c->region[c->n_region++];

	*r = (struct ui_region){ .first = -1, .last = -1, .share = -1 };
	return r;
}

static void regions_fill(struct cache_report *p, const struct timeline_stats *st)
{
	static const char *const ring_names[] = { "ring 1", "ring 2", "ring 3", "ring 4",
		                                  "ring 5", "ring 6", "ring 7", "ring 8" };
	const struct ring_stats *rows = &st->rings;
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
	r->slots = rows->n_ring ? 0 : st->ctx;
	if (r->fill) {
		r->first = 0;
		r->last = r->fill - 1;
	}
	/* Show the newest token's attention mass. Before the first token is generated, show the mass accumulated
	 * so far. */
	if (v->now_layers)
		r->share = v->now[0];
	else if (v->share[0] > 0)
		r->share = v->share[0];
	for (int i = 0; i < rows->n_ring && c->n_region < UI_REGIONS; i++) {
		r = region_add(c);
		r->letter = (char)('1' + i);
		r->name = ring_names[i];
		r->fill = rows->fill[i];
		r->slots = rows->ring_slots;
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

static void flow_words(struct cache_report *p, const struct conversation *conv, const struct listener *l)
{
	size_t n;
	const int32_t *id = timeline_tokens(conv->tl, &n);
	struct ui_cache *c = &p->cache;

	c->n_flow = l->n_flow;
	memcpy(c->flow, l->flow, sizeof c->flow);
	for (int i = 0; i < c->n_flow; i++) {
		struct ui_flow *f = &c->flow[i];
		size_t len;

		f->text[0] = 0;
		if (f->token < 0 || (size_t)f->token >= n)
			continue;
		len = engine_piece(conv->engine, id[f->token], 1, f->text, sizeof f->text - 1);
		f->text[len < sizeof f->text ? len : sizeof f->text - 1] = 0;
	}
}

/* Fill in the text for each column of the panel's strips. */
static void column_words(struct cache_report *p, const struct conversation *conv)
{
	size_t n;
	const int32_t *id = timeline_tokens(conv->tl, &n);
	struct ui_cache *c = &p->cache;

	p->text = xrealloc(p->text, (size_t)UI_COLS * sizeof *p->text);
	for (int i = 0; i < c->cols; i++) {
		size_t at = 0, token = (size_t)i * (size_t)c->per_col, end = token + (size_t)c->per_col;

		for (; token < end && token < n && at + 1 < UI_COL_TEXT; token++) {
			size_t room = UI_COL_TEXT - 1 - at,
			       len = engine_piece(conv->engine, id[token], 1, p->text[i] + at, room);

			len = MIN(len, room);
			for (size_t k = 0; k < len; k++)
				if (p->text[i][at + k] == '\n')
					p->text[i][at + k] = ' ';
			at += len;
		}
		p->text[i][at] = 0;
	}
	c->text_col = (const char(*)[UI_COL_TEXT])p->text;
}

/* ---- the report ---- */

/* During a prefill, keep only the first `read` tokens in the report: the others are not computed yet. */
static void cut_unread(struct cache_report *p, int32_t read)
{
	struct ui_cache *c = &p->cache;
	struct ui_region *r;

	if (read < 0 || read >= c->seen)
		return;
	c->kept = c->kept > c->seen - read ? c->kept - (c->seen - read) : 0;
	c->seen = read;
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
			p->view.where[i] = VIEW_EVICTED;
		}
}

/* Fill in the report if the model is on a server, whose KV cache cannot be seen. The report's lenses mark the messages
 * that are no longer sent, so that the screen dims them. */
static void report_server(struct cache_report *p, const struct conversation *conv, struct listener *l)
{
	p->cache = (struct ui_cache){
		.none = "The server keeps the KV cache, and nothing of it can be seen here. Messages that it is not sent any more "
			"are dimmed."
	};
	lenses_of_server(p, conv, l);
}

/* Copy numbers of tokens and bytes from the timeline's statistics. */
static void stats_fill(struct ui_cache *c, const struct timeline_stats *st)
{
	uint64_t outside = st->kv_disk_bytes + st->kv_host_bytes;

	c->seen = st->n_tokens;
	/* Tokens that at least one KV head keeps. They may be more than the slots of a head, because heads may keep
	 * different tokens. */
	c->kept = st->n_tokens - st->rings.evicted;
	c->evicted = st->rings.evicted;
	c->thinned = st->rings.evicted_in_part;
	c->ctx = st->ctx;
	c->bytes = st->kv_used_bytes;
	c->bytes_most = MAX(outside, st->kv_bytes);
	c->fetched = st->kv_fetched;
	c->overlap = (float)st->kv_overlap;
	c->resident = st->kv_disk_bytes ? st->kv_resident_bytes : 0;
}

/* Set which attention is shown over the columns, and copy it if `layers` is 1. */
static void heat_fill(struct cache_report *p, const struct conversation *conv, int layers)
{
	struct ui_cache *c = &p->cache;

	c->heat_is = p->view.watched == VIEW_MASS || p->view.watched == VIEW_MEASURED ? HEAT_MASS
	             : p->view.watched == VIEW_SELECTED                               ? HEAT_SELECTED
	                                                                              : HEAT_NONE;
	if (c->heat_is == HEAT_NONE && p->view.watched_pinned == VIEW_SELECTED)
		c->heat_is = HEAT_SELECTED;
	if (!layers || c->heat_is == HEAT_NONE)
		return;
	c->n_layer = p->view.n_layer;
	p->heat = xrealloc(p->heat, (size_t)VIEW_LAYERS * VIEW_COLS);
	for (int i = 0; i < c->n_layer; i++)
		memcpy(p->heat + (size_t)i * (size_t)c->cols, p->view.heat[i], (size_t)c->cols);
	c->heat = p->heat;
	column_words(p, conv);
}

/* Set the rates, in tokens per second, at which tokens are admitted, moved and evicted. */
static void rates_fill(struct ui_cache *c, struct listener *l, double now)
{
	double over = now - l->since;

	if (over > 0) {
		c->in_rate = (float)(l->share[FLOW_IN] / over);
		c->moved_rate = (float)(l->share[FLOW_MOVED] / over);
		c->out_rate = (float)(l->share[FLOW_OUT] / over);
	}
	/* After RATE_OVER seconds, halve the token counts and the time in which they were counted, so that older events
	 * weigh less. */
	if (over > RATE_OVER) {
		l->since = now - over / 2;
		for (int k = 0; k < FLOW_KINDS; k++)
			l->share[k] /= 2;
	}
}

void cache_report_take(struct cache_report *p, struct conversation *conv, struct listener *l, int how, int32_t read)
{
	struct timeline_stats st;
	struct ui_cache *c = &p->cache;
	double start = now_seconds();

	if (!conv->tl) {
		report_server(p, conv, l);
		return;
	}
	timeline_stats(conv->tl, &st);
	timeline_view(conv->tl, UI_COLS, &p->view);
	*c = (struct ui_cache){ .kv = p->kv };
	memcpy(p->kv, st.kv, sizeof p->kv);
	stats_fill(c, &st);
	regions_fill(p, &st);
	c->cols = p->view.cols;
	c->per_col = p->view.per_col;
	c->kept_col = p->view.kept;
	c->where_col = p->view.where;
	cut_unread(p, read);
	heat_fill(p, conv, how > 1);
	c->selected = p->view.selected;
	c->refreshed = p->view.refreshed;
	c->stride = (float)timeline_strides(conv->tl, c->stride_of, p->view.n_layer);
	c->cosine = p->view.cosine;
	c->recovered = p->view.recovered;
	c->estimated = p->view.estimated;
	c->sampled = p->view.sampled;
	c->spread = p->view.spread;
	p->lensed = 0;
	c->seconds = now_seconds() - start;
	if (!how)
		return;
	flow_words(p, conv, l);
	rates_fill(c, l, start);
	lenses_take(p, conv, l, &st, read);
	c->seconds = now_seconds() - start;
}

/* ---- as JSON ---- */

static void json_bytes(struct str *out, const char *name, const uint8_t *v, int n)
{
	json_open(out, name, '[');
	for (int i = 0; i < n; i++)
		json_int(out, NULL, v[i]);
	json_close(out, ']');
}

static void json_share(struct str *out, const char *name, float share)
{
	if (share < 0)
		json_null(out, name);
	else
		json_real(out, name, share, "%.4f");
}

static void json_region(struct str *out, const struct ui_region *r)
{
	json_open(out, NULL, '{');
	json_string(out, "name", r->name);
	json_int(out, "fill", r->fill);
	json_int(out, "rows", r->slots);
	json_int(out, "stride", r->stride);
	json_int(out, "first", r->first);
	json_int(out, "last", r->last);
	json_share(out, "share", r->share);
	json_close(out, '}');
}

static void json_flow(struct str *out, const struct ui_cache *c)
{
	static const char *const flow[] = { [FLOW_IN] = "in", [FLOW_MOVED] = "moved", [FLOW_OUT] = "out" };

	json_open(out, "flow", '[');
	for (int i = 0; i < c->n_flow; i++) {
		json_open(out, NULL, '{');
		json_string(out, "what", flow[c->flow[i].what]);
		json_int(out, "ring", c->flow[i].ring);
		json_int(out, "token", c->flow[i].token);
		json_real(out, "score", c->flow[i].mass, "%.6g");
		json_string(out, "text", c->flow[i].text);
		json_close(out, '}');
	}
	json_close(out, ']');
}

void cache_report_json(const struct cache_report *p, struct str *out)
{
	static const char *const heat_is[] = {
		[HEAT_NONE] = "none", [HEAT_MASS] = "score", [HEAT_SELECTED] = "chosen"
	};
	const struct ui_cache *c = &p->cache;

	json_open(out, NULL, '{');
	json_string(out, "kv", p->kv);
	json_int(out, "seen", c->seen);
	json_int(out, "kept", c->kept);
	json_int(out, "evicted", c->evicted);
	json_int(out, "thinned", c->thinned);
	json_int(out, "ctx", c->ctx);
	json_uint(out, "bytes", c->bytes);
	json_uint(out, "bytes_most", c->bytes_most);
	json_uint(out, "resident", c->resident ? c->resident : c->bytes_most);
	json_real(out, "fetched", c->fetched, "%.0f");
	json_share(out, "overlap", c->overlap);
	json_open(out, "regions", '[');
	for (int i = 0; i < c->n_region; i++)
		json_region(out, &c->region[i]);
	json_close(out, ']');
	json_int(out, "per_col", c->per_col);
	json_bytes(out, "kept_col", c->kept_col, c->cols);
	json_bytes(out, "where_col", c->where_col, c->cols);
	json_string(out, "heat_is", heat_is[c->heat_is]);
	json_open(out, "heat", '[');
	for (int i = 0; i < c->n_layer; i++)
		json_bytes(out, NULL, &c->heat[i * c->cols], c->cols);
	json_close(out, ']');
	json_int(out, "chosen", c->selected);
	json_int(out, "refreshed", c->refreshed);
	json_open(out, "strides", '[');
	for (int i = 0; c->stride > 0 && i < p->view.n_layer; i++)
		json_real(out, NULL, (double)c->stride_of[i], "%.2f");
	json_close(out, ']');
	if (c->cosine < -1)
		json_null(out, "cosine");
	else
		json_real(out, "cosine", c->cosine, "%.4f");
	json_share(out, "recovered", c->recovered);
	json_share(out, "estimated", c->estimated);
	json_int(out, "sampled", c->sampled);
	json_share(out, "spread", c->spread);
	json_flow(out, c);
	json_real(out, "in_rate", c->in_rate, "%.2f");
	json_real(out, "moved_rate", c->moved_rate, "%.2f");
	json_real(out, "out_rate", c->out_rate, "%.2f");
	json_real(out, "seconds", c->seconds, "%.6f");
	json_close(out, '}');
	str_adds(out, "\n");
}
