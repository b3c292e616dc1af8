/* engine/policy_stream.c - bounded policies: the first rows stay for good, what follows runs through rings (rings.h).
 *
 *     row    0 ......... S-1 | S .............................. S+size-1 | S+size .......
 *            sinks or prefix   ring n (oldest) ........ ring 1 (newest)    the call's tokens
 *
 * `sink` and `cascade` pin a few sinks.  `auto` pins what the application says (system prompt and documents), reads it
 * through a selector (select.h) and lets the conversation flow through the rings; it takes all the rows that -c gives.
 *
 * Until the rings are full, row r holds token r at position r and one part covers them all: the same numbers as `full`.  After
 * that a call attends the prefix, each ring under its own rotation of the queries, and itself; then end() looks at what
 * the tokens were worth, lets rings_insert() plan and moves rows.  A call that fails has only written rows behind the
 * rings, and sums of scores beside those that count.
 *
 * Generated tokens wait behind the rings and join them in groups, as tokens that are read together do: `lag` of them, but
 * never more than a stride.  So a step costs no more than attention.
 *
 * Scores: attention adds probabilities to sums (scores.h), a column per row of the rings and the stage (the prefix is skipped),
 * with weights that grow (struct ema), so nothing is ever decayed or cleared but the rows that move. */
#include "engine/policy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/archive.h"
#include "engine/attended.h"
#include "engine/rings.h"
#include "engine/scores.h"
#include "engine/select.h"

enum { FRAME_PREFIX, FRAME_RING, FRAMES = FRAME_RING + RINGS_MOST };   /* rotations of the queries: the prefix, each ring */
enum { ROOM_MIN = 256 };        /* auto: the stream's least size, where the context is not small altogether */
enum { LAG = 16 };              /* generated tokens that join the rings together */

struct stream {
	struct kv kv;
	struct rope rope[FRAMES];
	struct tensor q[FRAMES];    /* f32 [chunk][n_head * head_dim]: the call's queries in each frame */
	struct rings rings;
	struct rings_shape largest;
	int is_auto;
	int32_t lag, waiting;       /* tokens behind the rings that have not joined them yet */
	struct scores scores;
	int probing;                /* in this call */
	float *weight;              /* [chunk] */
	struct attn_probe probe;
	int32_t probe_from;         /* tokens before which nothing is looked at */
	float nll;                  /* of the last token */
	/* Moves. */
	struct tensor move;         /* i32 [n_layer * n_kv_head][3 * moves] */
	struct rope turn;
	int32_t *list;
	struct attended attended;   /* for who looks */
	int lost;                   /* moving failed half way: the rings' rows are not what they should be */
	/* auto. */
	struct selector sel;
	struct kv_params sel_par;
	int has_sel, use_sel;       /* use_sel: the prefix is long enough to choose from */
	struct row_event *event;
	size_t cap_event;
};

/* ---- shape ---- */

static int is_auto(const struct policy *p) { return p->par.def == &policy_auto; }

static int32_t clamp(int32_t n, int32_t most)
{
	n = n < most ? n : most;
	return n > 0 ? n : 1;
}

/* auto: the context asked for, or what the model was trained with. */
static int32_t auto_ctx(const struct policy *p)
{
	return p->hp->ctx_train > 0 ? clamp(p->ctx, p->hp->ctx_train) : p->ctx;
}

/* Tokens of a call at most. */
static int32_t chunk_of(const struct policy *p)
{
	int32_t part = auto_ctx(p) / 8, n = p->batch;

	if (is_auto(p))
		return clamp(n, part > 16 ? part : 16);
	n = clamp(n, p->par.stride);
	return p->par.score == SCORE_SURPRISE ? clamp(n, p->par.size / p->par.n) : n;
}

/* The stage takes a call's tokens and those that wait.  No position may be beyond the model's. */
static void stage_set(const struct policy *p, struct rings_shape *s, int32_t chunk)
{
	int32_t lag = clamp(s->w / 8, clamp(chunk, LAG)), room = p->hp->ctx_train - s->sinks - s->n * s->w - chunk;

	if (p->hp->ctx_train > 0 && lag > room + 1)
		lag = room > 0 ? room + 1 : 1;
	s->stage = chunk + lag - 1;
}

static int32_t auto_stage(const struct policy *p)
{
	return chunk_of(p) + clamp(auto_ctx(p) / 32, LAG) - 1;
}

/* Tokens that stay: as many as the context was asked to hold, if the model's positions allow. */
static int32_t auto_hold(const struct policy *p)
{
	int32_t trained = p->hp->ctx_train;

	return trained > 0 ? clamp(p->ctx, trained - auto_stage(p)) : p->ctx;
}

static int32_t auto_cap(const struct policy *p)
{
	int32_t cap = auto_hold(p) + auto_stage(p) + p->par.n - 1, trained = p->hp->ctx_train;

	return trained > 0 && cap > trained ? trained : cap;
}

/* Everything pinned takes no less than the sinks; the rest is the stream's. */
static struct rings_shape auto_shape(const struct policy *p, int64_t pinned)
{
	struct rings_shape s = { .n = p->par.n, .f = p->par.f, .stage = auto_stage(p) };
	int64_t rest;

	s.sinks = pinned > p->par.sinks ? (int32_t)(pinned < INT32_MAX / 2 ? pinned : INT32_MAX / 2) : p->par.sinks;
	rest = (int64_t)auto_hold(p) - s.sinks;
	if (p->par.size)
		rest = p->par.size <= rest ? p->par.size : 0;
	while (s.n > 1 && rest < 2 * s.n)
		s.n--;
	/* Round up where there is a row for it: what was asked for fits. */
	s.w = rest > 0 ? (int32_t)((rest + s.n - 1) / s.n) : 0;
	if (s.w > 0 && (p->par.size || s.sinks + s.n * s.w + s.stage > auto_cap(p)))
		s.w = (int32_t)(rest / s.n);
	return s;
}

static struct rings_shape shape_of(const struct policy *p)
{
	struct rings_shape s = { .sinks = p->par.sinks, .n = p->par.n, .w = p->par.size / p->par.n, .f = p->par.f };

	if (is_auto(p))
		return auto_shape(p, 0);
	stage_set(p, &s, chunk_of(p));
	return s;
}

static int32_t cap_of(const struct policy *p, const struct rings_shape *s)
{
	return is_auto(p) ? auto_cap(p) : s->sinks + s->n * s->w + s->stage;
}

static int32_t heads_of(const struct policy *p)
{
	return p->hp->n_layer * (p->par.heads == HEADS_KV ? p->hp->n_kv_head : 1);
}

static int scored(const struct policy *p)
{
	return p->par.select && p->par.n > 1;
}

static int surprised(const struct policy *p)
{
	return scored(p) && p->par.score == SCORE_SURPRISE;
}

static int32_t moves_most(const struct rings_shape *s)
{
	return 2 * (s->stage + s->n);
}

/* What the prefix is read through: the selector's own settings, with those that auto has. */
static int selector_par(const struct policy *p, struct kv_params *out, struct err *err)
{
	if (policy_parse(out, p->par.prefix == PREFIX_SIFT ? "sift" : "refresh", err))
		return -1;
	out->k = p->par.k;
	out->every = p->par.every;
	out->bits = p->par.bits;
	out->split = p->par.split;
	if (p->par.prefix == PREFIX_REFRESH) {
		out->qc = p->par.qc;
		out->s = p->par.s;
	}
	return 0;
}

static uint64_t stream_bytes(const struct policy *p)
{
	struct rings_shape s = shape_of(p);
	uint64_t q = 4 * (uint64_t)chunk_of(p) * (uint64_t)p->hp->n_head * (uint64_t)p->hp->head_dim, rows, sum;
	struct kv_params par;
	struct err err;

	rows = (uint64_t)s.n * (uint64_t)s.w + (uint64_t)s.stage;
	sum = kv_bytes(p->hp, p->type, cap_of(p, &s)) + (uint64_t)(s.n + 1) * (q + rope_bytes(p->hp, chunk_of(p))) +
	      rope_bytes(p->hp, moves_most(&s)) + rings_bytes(&s, heads_of(p), scored(p), surprised(p)) +
	      (scored(p) ? scores_bytes(heads_of(p), rows) : 0);
	if (is_auto(p) && p->par.prefix != PREFIX_FULL && !selector_par(p, &par, &err))
		sum += par.def->select->bytes(&par, p->hp, p->be, cap_of(p, &s));
	return sum;
}

/* ---- life ---- */

static int check_fit(const struct policy *p, const struct rings_shape *s, struct err *err)
{
	int64_t end = (int64_t)s->sinks + p->par.size + chunk_of(p);

	if (is_auto(p)) {
		if (s->w > 0)
			return 0;
		return err_set(err, ERR_FIT, "a context of %d tokens leaves no room for a stream of %d; start with a larger -c",
		               auto_hold(p), p->par.size > 0 ? p->par.size : 1);
	}
	if (p->par.size % s->n || p->par.size < s->n)
		return err_set(err, ERR_USAGE, "cache policy '%s' cannot cut size=%d into %d rings; use a multiple of %d",
		               p->par.def->name, p->par.size, s->n, s->n);
	if (p->hp->ctx_train > 0 && end > p->hp->ctx_train)
		return err_set(err, ERR_FIT, "cache policy '%s' needs %lld positions (%d sinks, size %d, stride %d), the model was "
		               "trained with %d; use a smaller size", p->par.def->name, (long long)end, s->sinks, p->par.size,
		               chunk_of(p), p->hp->ctx_train);
	return 0;
}

static int tensor_init(struct policy *p, struct tensor *t, enum dtype type, int64_t rows, int64_t cols, struct err *err)
{
	if (rows > INT32_MAX || cols > INT32_MAX)
		return err_set(err, ERR_FIT, "cache policy '%s' cannot address so many rows; use a smaller -c or size",
		               p->def->name);
	*t = (struct tensor){ .type = type, .rows = (int32_t)rows, .cols = (int32_t)cols };
	if (!p->be->ops->alloc(p->be, t))
		return 0;
	t->data = NULL;
	return err_set(err, ERR_FIT, "cannot allocate what a bounded cache needs: %s", p->be->err);
}

/* Empty, in this shape. */
static void shape_set(struct policy *p, const struct rings_shape *s)
{
	struct stream *f = p->state;

	f->lag = clamp(s->stage - p->chunk + 1, clamp(s->w / 8, LAG));
	f->waiting = 0;
	rings_reset(&f->rings, s);
	scores_reset(&f->scores);
	f->lost = 0;
	f->nll = 0;
	attended_forget(&f->attended);
	/* What lies w tokens before the first comparison weighs 1 / 100, 2 w tokens 1 / 10,000: auto does not look at the first
	 * half while it fills, so that most talks cost nothing. */
	f->probe_from = f->is_auto ? s->sinks + s->n * s->w - (s->n > 3 ? 2 * s->w : s->n * s->w / 2) : s->sinks;
	f->use_sel = f->has_sel && s->sinks > kv_rows_of(f->sel_par.k, s->sinks) / 4;
	p->marked = f->use_sel;
	p->calls_matter = f->use_sel && f->sel.tail > 1 && f->sel.tail > p->chunk / 2;
	p->region = f->use_sel ? s->sinks : -1;
}

static int stream_init(struct policy *p, struct err *err)
{
	struct stream *f = p->state = xcalloc(1, sizeof *f);
	struct rings_shape s = shape_of(p);
	int64_t heads = heads_of(p), width = (int64_t)p->hp->n_head * p->hp->head_dim;

	f->is_auto = is_auto(p);
	if (check_fit(p, &s, err))
		return -1;
	f->largest = s;
	p->limit = ENDLESS;
	p->chunk = chunk_of(p);
	if (p->par.stride > p->chunk)
		p->par.stride = p->chunk;     /* what is said about a run is what was done */
	p->wants_nll = surprised(p);
	if (kv_init(&f->kv, p->be, p->hp, p->type, cap_of(p, &s), err) ||
	    rings_init(&f->rings, &s, (int32_t)heads, scored(p), surprised(p), err) ||
	    rope_init(&f->turn, p->hp, p->be, moves_most(&s), err) ||
	    tensor_init(p, &f->move, DT_I32, (int64_t)p->hp->n_layer * p->hp->n_kv_head, 3 * (int64_t)moves_most(&s), err) ||
	    (scored(p) && scores_init(&f->scores, p->be, &f->rings, err)) ||
	    !(f->weight = try_alloc((size_t)p->chunk, sizeof *f->weight, "weights", err)) ||
	    !(f->list = try_alloc((size_t)f->move.rows * (size_t)f->move.cols, sizeof *f->list, "moves of rows", err)))
		return -1;
	for (int32_t i = 0; i <= s.n; i++)
		if (rope_init(&f->rope[i], p->hp, p->be, p->chunk, err) ||
		    tensor_init(p, &f->q[i], DT_F32, p->chunk, width, err))
			return -1;
	if (f->is_auto && p->par.prefix != PREFIX_FULL) {
		if (selector_par(p, &f->sel_par, err) ||
		    select_open(&f->sel, f->sel_par.def->select, &f->sel_par, &f->kv, 0, err))
			return -1;
		f->has_sel = 1;
		p->tail = f->sel.tail < p->chunk ? f->sel.tail : 0;
	}
	shape_set(p, &s);
	return 0;
}

static void stream_release(struct policy *p)
{
	struct stream *f = p->state;
	if (f->sel.kv)
		select_close(&f->sel);
	if (f->move.data)
		p->be->ops->drop(p->be, &f->move);
	for (int i = 0; i < FRAMES; i++) {
		if (f->q[i].data)
			p->be->ops->drop(p->be, &f->q[i]);
		rope_release(&f->rope[i]);
	}
	rope_release(&f->turn);
	attended_release(&f->attended);
	scores_release(&f->scores);
	rings_release(&f->rings);
	kv_release(&f->kv);
	free(f->weight);
	free(f->list);
	free(f->event);
	free(f);
}

/* ---- a call ---- */

static void stream_begin(struct policy *p, const struct step *st)
{
	struct stream *f = p->state;
	struct rings *r = &f->rings;
	int32_t skipped = r->s.sinks - st->pos;

	if (rings_filling(r))
		rope_set(&f->rope[FRAME_PREFIX], st->pos, st->n);
	else {
		rope_set(&f->rope[FRAME_PREFIX], rings_rank(r) + f->waiting, st->n);
		for (int32_t i = 0; i < r->s.n; i++)
			rope_set(&f->rope[FRAME_RING + i], rings_query(r, i) + f->waiting, st->n);
	}
	f->probing = r->sum && skipped < st->n && st->pos + st->n > f->probe_from;
	if (!f->probing)
		return;
	if (scores_begin(&f->scores, st->pos, st->n, f->weight))
		return;
	for (int32_t i = 0; i < skipped; i++)
		f->weight[i] = 0;
}

/* The rows before the stream; returns the number of parts. */
static int prefix_parts(struct stream *f, const struct step *st, int32_t layer, const struct qkv *x, struct attn_part *part)
{
	int32_t n = f->rings.s.sinks;
	struct tensor *q = &f->q[FRAME_PREFIX];

	if (st->decode && f->use_sel)
		return select_choose(&f->sel, st, layer, q, x->q, n, part);
	part[0] = (struct attn_part){ .q = q, .n_rows = n };
	return n > 0;
}

/* Everything that the call reads; *skip = rows of the prefix. */
static int32_t stream_parts(struct stream *f, const struct step *st, int32_t layer, const struct qkv *x,
                            struct attn_part part[SELECT_PARTS + RINGS_MOST], int32_t *skip)
{
	const struct rings *r = &f->rings;
	int32_t n = 0, end = st->pos + st->n, sinks = r->s.sinks;

	*skip = 0;
	if (rings_filling(r) && !(st->decode && f->use_sel && st->pos >= sinks)) {
		part[0] = (struct attn_part){ .q = &f->q[FRAME_PREFIX], .n_rows = end };
		*skip = sinks < end ? sinks : end;
		return 1;
	}
	n = prefix_parts(f, st, layer, x, part);
	for (int32_t i = 0; i < n; i++)
		*skip += part[i].n_rows;
	if (rings_filling(r)) {
		part[n++] = (struct attn_part){ .q = &f->q[FRAME_PREFIX], .row0 = sinks, .n_rows = end - sinks };
		return n;
	}
	for (int32_t i = r->s.n - 1; i >= 0; i--)
		part[n++] = (struct attn_part){ .q = &f->q[FRAME_RING + i], .row0 = sinks + (r->s.n - 1 - i) * r->s.w,
		                                .n_rows = r->s.w + (i ? 0 : f->waiting + st->n) };
	return n;
}

/* What the last token of the call looks at, by region, for a panel. */
static void look_around(struct stream *f, const struct step *st, int32_t layer, struct tensor *out, struct attn_part *part,
                        int32_t n_part, int32_t skip)
{
	const struct rings *r = &f->rings;
	int32_t rows[1 + RINGS_MOST] = { skip }, left = -skip, more = rings_filling(r) ? 0 : f->waiting + st->n;

	for (int32_t i = 0; i < n_part; i++)
		left += part[i].n_rows;
	for (int32_t i = 0; i < r->s.n; i++) {
		int32_t here = r->s.w + (i ? 0 : more);

		rows[1 + i] = here < left && i + 1 < r->s.n ? here : left;
		left -= rows[1 + i];
	}
	attended_measure(&f->attended, layer, out, part, n_part, st->n, rows);
}

static void stream_attend(struct policy *p, const struct step *st, int32_t layer, const struct qkv *x)
{
	struct stream *f = p->state;
	struct rings *r = &f->rings;
	struct attn_part part[SELECT_PARTS + RINGS_MOST];
	const struct attn_probe *looks = NULL;
	int32_t filling = rings_filling(r), row0 = r->s.sinks + rings_stage(r) + f->waiting, n = st->n, n_part, skip;
	int32_t sinks = r->s.sinks;
	int32_t region = st->pos + n < sinks ? st->pos + n : sinks;

	/* In the rings' frames a token's own number is that in the newest ring, which all enter. */
	kv_rotate(&f->kv, x->k, x->k, &f->rope[filling ? FRAME_PREFIX : FRAME_RING], n);
	kv_put(&f->kv, layer, x->k, x->v, row0, n);
	for (int32_t i = filling || sinks ? FRAME_PREFIX : FRAME_RING; i <= (filling ? 0 : r->s.n); i++)
		kv_rotate(&f->kv, &f->q[i], x->q, &f->rope[i], n);
	if (f->use_sel && f->sel.ops->note && st->pos < sinks)
		f->sel.ops->note(&f->sel, layer, st->pos, region - st->pos);
	n_part = stream_parts(f, st, layer, x, part, &skip);
	if (f->use_sel && f->sel.ops->probe)
		looks = f->sel.ops->probe(&f->sel, st, layer, region);
	if (attended_wants(&f->attended, layer))
		look_around(f, st, layer, x->out, part, n_part, skip);
	if (f->probing) {
		int whole = p->par.heads == HEADS_LAYER;

		f->probe = (struct attn_probe){ .mass = &f->scores.mass[!f->scores.now], .from = &f->scores.mass[f->scores.now],
		                                .mass_row = whole ? layer : layer * p->hp->n_kv_head, .weight = f->weight,
		                                .reduce = (enum reduce)p->par.reduce, .whole_layer = whole, .skip = skip };
		kv_attend(&f->kv, layer, x->out, part, n_part, n, &f->probe);
	}
	/* The selector looks for itself, now and then. */
	if (looks || !f->probing)
		kv_attend(&f->kv, layer, x->out, part, n_part, n, looks);
	if (f->use_sel)
		select_seen(&f->sel, st, layer, &f->q[FRAME_PREFIX], x->q, region);
}

/* ---- after a call ---- */

/* Move keys and values of all layers as planned. */
static void rows_move(struct policy *p)
{
	struct stream *f = p->state;
	struct rings *r = &f->rings;
	struct backend *be = p->be;
	const struct hparams *hp = p->hp;
	int32_t n = r->n_row, whole = p->par.heads == HEADS_LAYER, kv_heads = hp->n_kv_head, sinks = r->s.sinks;
	struct tensor move = f->move;
	struct kv_moves m = { .move = &move, .n = n, .n_kv_head = kv_heads, .head_dim = hp->head_dim, .dims = hp->rope_dims,
	                      .cap = f->kv.cap, .neox = hp->arch->neox };
	int32_t *out = f->list;

	/* The lists of all layers go to the backend at once: then nothing comes between the moves of one layer and the next. */
	for (int32_t row = 0; row < move.rows; row++) {
		size_t at = (size_t)(whole ? row / kv_heads : row);

		for (int32_t i = 0; i < n; i++, at += (size_t)r->heads, out += 3) {
			int32_t from = r->from[at];

			out[0] = from == r->row[i] ? -1 : sinks + from;
			out[1] = sinks + r->row[i];
			out[2] = r->turn[at];
		}
	}
	move.cols = 3 * n;
	rope_set_turns(&f->turn, r->turns, r->n_turn);
	be->ops->write(be, &move, 0, f->list, (size_t)(out - f->list) * sizeof *f->list);
	for (int32_t layer = 0; layer < hp->n_layer; layer++, m.move_row += kv_heads) {
		m.shift = r->n_turn ? &f->turn.table : NULL;
		be->ops->kv_move(be, &f->kv.k[layer], &m);
		m.shift = NULL;
		be->ops->kv_move(be, &f->kv.v[layer], &m);
	}
}

static void tell(struct policy *p)
{
	struct stream *f = p->state;
	struct rings *r = &f->rings;
	float heads = (float)r->heads;

	if (f->cap_event < r->n_note) {
		f->cap_event = 2 * r->n_note;
		f->event = xrealloc(f->event, f->cap_event * sizeof *f->event);
	}
	for (size_t i = 0; i < r->n_note; i++) {
		const struct rings_note *o = &r->note[i];
		int32_t held = o->token < r->oldest ? 0 : r->held[o->token & r->mask];

		f->event[i] = (struct row_event){
			.what = o->what, .token = o->token, .ring = o->ring, .gone = (float)(r->heads - held) / heads,
			.share = o->what == ROW_ADMITTED ? 1 : (float)o->heads / heads,
			.score = r->sum ? ema_value(&r->ema, (float)(o->score / o->heads), r->t) : 0,
		};
	}
	if (r->n_note)
		p->rows_fn(f->event, r->n_note, p->rows_ud);
}

/* Those that wait join the rings. */
static void join(struct policy *p)
{
	struct stream *f = p->state;
	struct rings *r = &f->rings;
	int32_t n = f->waiting;

	scores_join(&f->scores, n);
	f->waiting = 0;
	r->listen = p->rows_fn != NULL;
	rings_insert(r, n);
	if (r->n_row)
		rows_move(p);
	scores_follow(&f->scores);
	f->lost |= p->be->failed;
	if (p->rows_fn)
		tell(p);
}

static void stream_end(struct policy *p, const struct step *st)
{
	struct stream *f = p->state;
	struct rings *r = &f->rings;
	int32_t region = st->pos + st->n < r->s.sinks ? st->pos + st->n : r->s.sinks;

	for (int32_t i = 0; st->nll && i < st->n; i++) {
		float before = i ? st->nll[i - 1] : f->nll;

		if (r->worth)
			r->worth[(st->pos + i) & r->mask] = (st->nll[i] > before ? st->nll[i] : before) + 0.5f;
	}
	if (st->nll)
		f->nll = st->nll[st->n - 1];
	if (f->probing)
		scores_end(&f->scores);
	f->waiting += st->n;
	if (rings_filling(r) || !st->decode || f->waiting >= f->lag)
		join(p);
	if (f->probing)
		scores_scale(&f->scores, st->pos + st->n, p->chunk);
	if (f->use_sel && f->sel.ops->end)
		f->sel.ops->end(&f->sel, st, region);
	select_looked(&f->sel, st->decode && f->use_sel && st->pos >= r->s.sinks ? region : 0);
	attended_commit(&f->attended);
}

/* ---- going back, pinning ---- */

static int32_t tokens_of(const struct stream *f) { return f->rings.t + f->waiting; }

/* Selectors look at the end of what is read: let them see as much of it again before the n-th token is followed by others. */
static int32_t seen_again(struct stream *f, int32_t n)
{
	return f->use_sel ? f->sel.ops->rewind(&f->sel, n) : n;
}

static int32_t stream_rewind(struct policy *p, int32_t n)
{
	struct stream *f = p->state;
	struct rings *r = &f->rings;
	int32_t sinks = r->s.sinks, to = n;

	if (to < tokens_of(f))
		select_looked(&f->sel, 0);
	if (f->lost) {
		struct rings_shape s = r->s;

		shape_set(p, &s);
		to = 0;
	}
	if (to >= tokens_of(f))
		return tokens_of(f);
	if (to >= r->t && !rings_filling(r)) {
		f->waiting = to - r->t;    /* sums of others are not read before they are written again */
		return to;
	}
	f->waiting = 0;
	if (!rings_filling(r) && to > sinks)
		to = sinks;
	if (rings_filling(r) && scores_read(&f->scores))
		to = 0;
	scores_reset(&f->scores);
	return rings_rewind(r, seen_again(f, to));
}

/* Copies of the first n rows of the prefix. */
static void note_prefix(struct stream *f, int32_t n)
{
	for (int32_t layer = 0; n > 0 && f->use_sel && f->sel.ops->note && layer < f->kv.n_layer; layer++)
		f->sel.ops->note(&f->sel, layer, 0, n);
}

static int32_t auto_pin(struct policy *p, int32_t n, struct err *err)
{
	struct stream *f = p->state;
	struct rings *r = &f->rings;
	struct rings_shape s = auto_shape(p, n);
	int32_t hold = auto_hold(p), room = p->par.size ? p->par.size : ROOM_MIN < hold / 4 ? ROOM_MIN : hold / 4;
	int32_t kept = tokens_of(f), old = r->s.sinks, trained = p->hp->ctx_train, stage = auto_stage(p);

	if (s.sinks == old)
		return kept;
	if (s.n * s.w < room) {
		/* A larger context takes larger calls and leaves more room. */
		int64_t want = (int64_t)n + (p->par.size ? room : ROOM_MIN);

		if (trained <= 0 || want + p->batch + LAG <= trained)
			return err_set(err, ERR_FIT, "%d tokens to keep do not fit a context of %d with %d of conversation behind them; "
			               "start with -c %lld", n, hold, room, (long long)want);
		return err_set(err, ERR_FIT, "%d tokens to keep do not fit: the model was trained with %d, of which %d are for the "
		               "conversation; %d fit", n, trained, stage + room, hold > room ? hold - room : 0);
	}
	if (!rings_filling(r) && kept > old)
		kept = old;
	kept = kept < s.sinks ? kept : s.sinks;
	shape_set(p, &s);
	r->t = kept;
	/* Rows that were the stream's, or a prefix too short to choose from. */
	note_prefix(f, kept);
	if (f->has_sel && kept < old)
		f->sel.ops->rewind(&f->sel, kept);
	p->pinned = s.sinks;
	return kept;
}

/* ---- saving ---- */

static struct kv *stream_kv(struct policy *p)
{
	struct stream *f = p->state;

	return &f->kv;
}

static int32_t stream_ready(const struct policy *p, int32_t n)
{
	const struct stream *f = p->state;

	(void)n;
	return rings_filling(&f->rings) ? f->rings.t : f->rings.s.sinks;
}

/* Rows alone: as far as nothing is missing that is known of tokens that were read. */
static int32_t stream_take(struct policy *p, int32_t n)
{
	struct stream *f = p->state;
	struct rings *r = &f->rings;
	struct rings_shape s = r->s;
	int32_t most = s.sinks + r->size;

	shape_set(p, &s);
	if (r->worth)
		most = s.sinks - 2;   /* whose first token's worth is that of its predecessor, too, and that takes one more */
	else if (r->sum)
		most = f->probe_from > s.sinks ? f->probe_from : s.sinks;
	n = n < most ? n : most > 0 ? most : 0;
	note_prefix(f, n < s.sinks ? n : s.sinks);
	n = seen_again(f, n);
	r->listen = 0;
	rings_insert(r, n);
	return n;
}

/* The stream of n tokens and its rings, in the shape that is set. */
static void rings_archive(struct policy *p, struct archive *a, int32_t n)
{
	struct stream *f = p->state;
	struct rings *r = &f->rings;
	int32_t sinks = r->s.sinks, waiting = f->waiting, t, cols;

	if (!archive_loads(a))
		scores_read(&f->scores);   /* where they do not come, the backend's failure is told */
	archive_i32(a, &waiting, 0, f->lag - 1 < n ? f->lag - 1 : n, "the tokens that wait");
	archive_i64(a, &r->ema.shift, 0, (int64_t)(r->ema.rate * ((double)n + p->chunk)) + 1, "the weight of scores");
	archive_bytes(a, &f->nll, sizeof f->nll);
	if (a->bad)
		return;
	t = n - waiting;
	cols = t > sinks ? t - sinks : 0;
	if (t - sinks > r->size) {
		cols = r->size + waiting;
		archive_i32s(a, r->id, (uint64_t)r->size * (uint64_t)r->heads, 0, t - 1, "a token of the stream");
		if (archive_loads(a) && !a->bad && rings_restore(r, t))
			archive_fail(a, "the order of the stream");
		archive_planes(a, &f->kv, sinks, r->size + waiting);
	} else if (waiting) {
		archive_fail(a, "the tokens that wait");
	} else if (archive_loads(a)) {
		r->listen = 0;
		rings_insert(r, t);
	}
	if (a->bad)
		return;
	if (archive_loads(a))
		f->waiting = waiting;
	scores_archive(&f->scores, a, cols);
	for (int32_t token = r->oldest; r->worth && token < n; token++)
		archive_bytes(a, &r->worth[token & r->mask], sizeof *r->worth);
}

static void stream_archive(struct policy *p, struct archive *a, int32_t n)
{
	struct stream *f = p->state;
	struct rings_shape s = f->rings.s, was = s;
	int32_t sinks = s.sinks, pinned = p->pinned, was_pinned = pinned, least = p->par.sinks;

	archive_i32(a, &sinks, f->is_auto ? least : sinks, f->is_auto ? INT32_MAX / 2 : sinks, "the tokens pinned");
	archive_i32(a, &pinned, 0, sinks, "the tokens pinned");
	if (archive_loads(a) && !a->bad) {
		if (sinks != s.sinks && auto_pin(p, sinks > least ? sinks : 0, NULL) < 0)
			archive_fail(a, "the tokens pinned");
		s = f->rings.s;
		shape_set(p, &s);
		p->pinned = pinned;
		note_prefix(f, n < s.sinks ? n : s.sinks);
	}
	rings_archive(p, a, n);
	if (f->has_sel && f->sel.ops->archive)
		f->sel.ops->archive(&f->sel, a, n < s.sinks ? n : s.sinks);
	if (!archive_loads(a) || !a->bad)
		return;
	/* Empty again, and pinned as it was. */
	s = f->rings.s;
	shape_set(p, &s);
	if (f->is_auto)
		auto_pin(p, was.sinks > least ? was.sinks : 0, NULL);
	p->pinned = was_pinned;
	if (f->has_sel)
		f->sel.ops->rewind(&f->sel, 0);
}

static void stream_rows(const struct policy *p, struct timeline_rows *out)
{
	const struct stream *f = p->state;
	const struct rings *r = &f->rings;

	out->pinned = r->s.sinks;
	out->n_ring = r->s.n;
	out->ring_rows = r->s.w;
	out->factor = r->s.f;
	for (int32_t i = 0; i < r->s.n; i++) {
		out->fill[i] = rings_fill(r, i);
		rings_span(r, i, &out->first[i], &out->last[i]);
	}
	out->seen = tokens_of(f);
	out->gone = r->gone;
	out->thinned = r->thinned;
	out->oldest = r->t > r->s.sinks ? r->oldest : -1;
}

static void stream_inside(const struct policy *p, struct policy_inside *out)
{
	struct stream *f = p->state;

	out->rings = &f->rings;
	out->waiting = f->waiting;
	out->observed = f->rings.sum && tokens_of(f) > f->probe_from;
	out->sel = f->use_sel ? &f->sel : NULL;
	out->attended = &f->attended;
	out->kv = &f->kv;
	out->rows = tokens_of(f) < f->rings.s.sinks + f->rings.size ? tokens_of(f) : f->rings.s.sinks + f->rings.size;
	out->chunk = p->chunk;
}

static void stream_scores(struct policy *p)
{
	struct stream *f = p->state;

	scores_read(&f->scores);
}

static uint64_t stream_read_bytes(const struct policy *p, int32_t pos, int decode)
{
	const struct stream *f = p->state;
	const struct rings *r = &f->rings;
	int32_t most = r->s.sinks + r->size, rows = pos < most ? pos : most;
	uint64_t chosen = 0;

	if (decode && f->use_sel && pos >= r->s.sinks) {
		chosen = f->sel.ops->read_bytes(&f->sel, r->s.sinks);
		rows -= r->s.sinks;
	}
	return chosen + kv_token_bytes(p->hp, p->type) * (uint64_t)rows;
}

/* ---- the names and their settings ---- */

#define AT(field) offsetof(struct kv_params, field)
#define SIZE_MAX_ (1 << 24)
#define SINKS { "sinks", PARAM_INT, AT(sinks), 0, 65536, NULL, "4", "first tokens, which stay for good" }
#define STRIDE { "stride", PARAM_INT, AT(stride), 1, 65536, NULL, "512", \
	"tokens read at once, each seeing the cache as it was before them" }
#define RINGS { "n", PARAM_INT, AT(n), 1, RINGS_MOST, NULL, "2", \
	"rings; more reach further back and hold less of what is near" }
#define RATE { "f", PARAM_INT, AT(f), 0, 0, "2|3|4", "2", "each ring accepts one of so many that the one before accepted" }
#define HEADS { "heads", PARAM_CHOICE, AT(heads), 0, 0, "kv|layer", "kv", "who decides what stays: each KV head, or a layer" }
#define REDUCE { "reduce", PARAM_CHOICE, AT(reduce), 0, 0, "max|mean|median", "max", \
	"what the query heads of a decision make of their attention" }
#define SCORE { "score", PARAM_CHOICE, AT(score), 0, 0, "attn|surprise", "attn", \
	"what decides: attention received; that times the model's surprise at the token" }

static const struct param sink_params[] = {
	{ "size", PARAM_INT, AT(size), 1, SIZE_MAX_, NULL, "1024", "tokens kept behind the sinks" },
	SINKS,
	STRIDE,
	{ .key = NULL },
};

static void sink_preset(struct kv_params *par)
{
	par->n = 1;
	par->f = 2;
	par->select = 0;
}

static const struct param cascade_params[] = {
	{ "size", PARAM_INT, AT(size), 1, SIZE_MAX_, NULL, "1024", "tokens kept behind the sinks" },
	RINGS,
	SINKS,
	RATE,
	HEADS,
	REDUCE,
	{ "select", PARAM_INT, AT(select), 0, 1, NULL, "1", "0: nothing is compared, the newer token stays" },
	SCORE,
	STRIDE,
	{ .key = NULL },
};

static const struct param auto_params[] = {
	{ "prefix", PARAM_CHOICE, AT(prefix), 0, 0, "sift|refresh|full", "sift",
	  "how answers read the system prompt and the documents" },
	{ "k", PARAM_ROWS, AT(k), 1, 1e9, NULL, "512", "rows of them that a generated token reads per KV head" },
	{ "bits", PARAM_INT, AT(bits), 0, 0, "2|4|8|16", "2", "sift: bits a value of the keys' copy" },
	{ "every", PARAM_INT, AT(every), 1, 1000, NULL, "1", "sift: steps that a chosen set serves" },
	{ "split", PARAM_CHOICE, AT(split), 0, 0, "need|even", "need", "sift: how k is shared among the layers" },
	{ "qc", PARAM_INT, AT(qc), 1, 1000, NULL, "5", "refresh: steps between two looks at the query" },
	{ "s", PARAM_REAL, AT(s), -2, 2, NULL, "0.85", "refresh: a query less like the last one chooses anew" },
	{ "size", PARAM_INT, AT(size), 0, SIZE_MAX_, NULL, "0",
	  "tokens of the conversation that are kept; 0 = what the context leaves" },
	RINGS,
	SINKS,
	RATE,
	HEADS,
	REDUCE,
	SCORE,
	{ .key = NULL },
};

static void auto_preset(struct kv_params *par)
{
	par->select = 1;
}

#define STREAM .bytes = stream_bytes, .init = stream_init, .release = stream_release, .begin = stream_begin, \
	.attend = stream_attend, .end = stream_end, .rewind = stream_rewind, .read_bytes = stream_read_bytes, \
	.rows = stream_rows, .inside = stream_inside, .scores = stream_scores, .kv = stream_kv, .ready = stream_ready, \
	.take = stream_take, .archive = stream_archive

const struct policy_def policy_sink = {
	.name = "sink", .help = "the first tokens and the newest ones stay; endless", .params = sink_params,
	.preset = sink_preset, STREAM,
};
const struct policy_def policy_cascade = {
	.name = "cascade", .help = "sinks, and rings in which fewer and fewer, but important, older tokens stay; endless",
	.params = cascade_params, STREAM,
};
const struct policy_def policy_auto = {
	.name = "auto",
	.help = "system prompt and documents stay and are read through a choice; the talk runs through a cascade, endless",
	.params = auto_params, .preset = auto_preset, .pin = auto_pin, STREAM,
};
