/* kernels/common/operands.c - checks operands, and records a backend's first error (operands.h). */
#include "kernels/common/operands.h"

#include <stdarg.h>
#include <stdio.h>

#include "kernels/common/key_sketch.h"

/* tensor.layout of plain rows, the same on every backend. */
enum { PLAIN = 0 };

int backend_fail(struct backend *be, const char *fmt, ...)
{
	va_list ap;

	if (be->failed)
		return -1;
	be->failed = 1;
	va_start(ap, fmt);
	vsnprintf(be->err, sizeof be->err, fmt, ap);
	va_end(ap);
	return -1;
}

static int page_ok(int32_t page)
{
	return page > 0 && page <= PAGE_MOST && page % PAGE_UNIT == 0;
}

static int32_t pages_of(int32_t slots, int32_t page)
{
	return slots / page + (slots % page != 0);
}

int kv_plane_ok(const struct tensor *t, int32_t n_kv_head, int32_t cap, int32_t head_dim)
{
	return t && t->data && t->layout == PLAIN && n_kv_head > 0 && cap > 0 && head_dim > 0 && t->cols == head_dim &&
	       (int64_t)n_kv_head * cap <= t->rows && kv_type_ok(t->type) && head_dim % dtype_info(t->type)->block == 0;
}

/* ---- attention ---- */

/* 1 if t is f32 [n_kv_head][cols >= n]. */
static int plane_of_heads(const struct tensor *t, int32_t n_kv_head, int32_t n)
{
	return t->data && t->type == DT_F32 && t->layout == PLAIN && t->rows >= n_kv_head && t->cols >= n;
}

static int segment_ok(const struct attn_segment *p, const struct attn_args *a)
{
	const struct tensor *t = p->slots;

	if (p->n_slots < 0)
		return 0;
	if (p->k &&
	    (!t || p->selection || !kv_plane_ok(p->k, a->n_kv_head, p->cap, a->head_dim) || p->k->type != a->k->type ||
	     !kv_plane_ok(p->v, a->n_kv_head, p->cap, a->head_dim) || p->v->type != a->v->type))
		return 0;
	if (p->lengths &&
	    (!t || p->selection || p == a->seg + a->n_seg - 1 || !p->lengths->data || p->lengths->type != DT_I32 ||
	     p->lengths->layout != PLAIN || p->lengths->cols < a->n_kv_head))
		return 0;
	if (!t)
		return p->slot0 >= 0 && p->n_slots <= a->cap - p->slot0;
	if (p->selection &&
	    (p->selection->topk->slots != t || p->selection->topk->k + p->selection->topk->sample != p->n_slots ||
	     p->selection->topk->n > a->cap))
		return 0;
	if (p->bias && !plane_of_heads(p->bias, a->n_kv_head, p->n_slots))
		return 0;
	return t->data && t->type == DT_I32 && t->layout == PLAIN && t->rows >= a->n_kv_head && t->cols >= p->n_slots;
}

/* 1 if the call's segments (ranges or lists of slots) are valid. Set *slots to the number of slots in all segments. The
 * n tokens of the call are in the last n slots of the last segment. */
static int segments_ok(const struct attn_args *a, int32_t n, int32_t *slots)
{
	int64_t sum = 0;
	int biased = 0;

	for (int32_t i = 0; i < a->n_seg; i++) {
		if (!segment_ok(&a->seg[i], a))
			return 0;
		sum += a->seg[i].n_slots;
		biased += a->seg[i].slots && a->seg[i].bias;
	}
	*slots = (int32_t)sum;
	return a->n_seg > 0 && biased <= 1 && a->seg[a->n_seg - 1].n_slots >= n && sum <= INT32_MAX - 64;
}

static int has_lists(const struct attn_args *a)
{
	int any = 0;

	for (int32_t i = 0; i < a->n_seg; i++)
		any |= a->seg[i].slots != NULL;
	return any;
}

/* 1 if t is u8 [>= n][n_head * bytes], with enough bytes for one bit per block of READ_BLOCK slots. */
static int block_bits_ok(const struct tensor *t, int32_t n, int32_t n_head, int32_t n_slots)
{
	return t && t->data && t->type == DT_U8 && t->layout == PLAIN && t->rows >= n && t->cols % n_head == 0 &&
	       (int64_t)t->cols / n_head * 8 * READ_BLOCK >= n_slots;
}

static int blocks_ok(const struct attn_args *a, int32_t n)
{
	const struct attn_segment *p = a->seg;

	return a->n_seg == 1 && !p->slots && !p->slot0 && !a->window &&
	       block_bits_ok(a->blocks, n, a->n_head, p->n_slots);
}

int attn_check(struct backend *be, const struct attn_args *a, int32_t n, int32_t *slots)
{
	if (a->head_dim > 0 && a->n_kv_head > 0 && a->n_head > 0 && a->n_head % a->n_kv_head == 0 && a->cap > 0 &&
	    (int64_t)a->n_head * a->head_dim <= INT32_MAX && kv_plane_ok(a->k, a->n_kv_head, a->cap, a->head_dim) &&
	    kv_plane_ok(a->v, a->n_kv_head, a->cap, a->head_dim) && segments_ok(a, n, slots) && a->softcap >= 0 &&
	    a->window >= 0 && (!a->window || !has_lists(a)) && (!a->blocks || blocks_ok(a, n)) &&
	    (!a->bidirectional || (!a->window && !a->blocks && !a->probe)) &&
	    (!a->sinks ||
	     (a->sinks->data && a->sinks->type == DT_F32 && a->sinks->layout == PLAIN && a->sinks->cols == a->n_head)))
		return 0;
	return backend_fail(be, "internal: attention of %d tokens over %d parts got operands of the wrong shape",
	                    (int)n, (int)a->n_seg);
}

int read_blocks_check(struct backend *be, const struct read_blocks_args *a, int32_t n)
{
	if (a->n_kv_head > 0 && a->n_head > 0 && a->n_head % a->n_kv_head == 0 && a->head_dim > 0 &&
	    (int64_t)a->n_head * a->head_dim <= INT32_MAX && kv_plane_ok(a->keys, a->n_kv_head, a->cap, a->head_dim) &&
	    n >= 0 && n <= a->n_slots && a->n_slots <= a->cap && block_bits_ok(a->out, n, a->n_head, a->n_slots) &&
	    a->share >= 0 && a->share <= 1)
		return 0;
	return backend_fail(
		be, "internal: the selection of blocks of %d slots for %d tokens got operands of the wrong shape",
		(int)a->n_slots, (int)n);
}

int attn_selection_check(struct backend *be, const struct attn_selection *c, int32_t n_kv_head)
{
	if (c->scan->out == c->topk->score && c->scan->n_slots == c->topk->n && c->scan->n_kv_head == n_kv_head &&
	    c->topk->n_kv_head == n_kv_head)
		return 0;
	return backend_fail(be, "internal: a selection of slots got scores of another shape");
}

int attn_probe_check(struct backend *be, const struct attn_args *a, int32_t slots)
{
	const struct attn_probe *p = a->probe;
	const struct tensor *m = p->mass, *from = p->from, *spread = p->spread;
	int32_t heads = p->whole_layer ? a->n_head : a->n_head / a->n_kv_head, out = p->whole_layer ? 1 : a->n_kv_head;

	if (p->skip < 0 || p->skip > slots)
		return backend_fail(be, "internal: a probe skips %d of %d slots", (int)p->skip, (int)slots);
	if (m && (!m->data || m->type != DT_F32 || m->layout != PLAIN || m->cols < slots - p->skip || p->mass_row < 0 ||
	          p->mass_row > m->rows - out))
		return backend_fail(be, "internal: a probe of %d slots got a sum of the wrong shape",
		                    (int)(slots - p->skip));
	if (m && from &&
	    (p->largest || !from->data || from->data == m->data || from->type != DT_F32 || from->layout != PLAIN ||
	     from->rows != m->rows || from->cols != m->cols))
		return backend_fail(be, "internal: a probe got sums of two shapes");
	if (spread && (!spread->data || spread->type != DT_F32 || spread->layout != PLAIN || spread->rows < 1 ||
	               p->spread_col < 0 || p->spread_col >= spread->cols))
		return backend_fail(be, "internal: a probe got no place for the width of attention");
	if (m && heads > PROBE_HEADS)
		return backend_fail(be, "a probe takes at most %d heads together, not %d; use a policy without one",
		                    PROBE_HEADS, (int)heads);
	return 0;
}

int attn_probe_wanted(const struct attn_probe *p, int32_t n)
{
	if (!p || (!p->mass && !p->spread))
		return 0;
	for (int32_t i = 0; i < n; i++)
		if (p->weight[i] != 0)
			return 1;
	return 0;
}

/* ---- selection ---- */

static int sketch_ok(const struct tensor *t, int32_t n_kv_head, int32_t cap, int32_t head_dim, int32_t bits)
{
	uint64_t bytes = sketch_bytes(n_kv_head, cap, head_dim, bits);

	return bytes && t && t->data && t->type == DT_U8 && t->rows > 0 && t->cols > 0 &&
	       (uint64_t)t->rows * (uint64_t)t->cols >= bytes;
}

int key_sketch_check(struct backend *be, const struct tensor *sketch, const struct tensor *plane, int32_t n_kv_head,
                     int32_t cap, int32_t bits, int32_t slot0, int32_t n)
{
	int32_t dim = plane ? plane->cols : 0;

	if (kv_plane_ok(plane, n_kv_head, cap, dim) && sketch_ok(sketch, n_kv_head, cap, dim, bits) && n >= 0 &&
	    slot0 >= 0 && n <= cap - slot0)
		return 0;
	return backend_fail(be, "internal: key_sketch of slots %d + %d with %d bits got operands of the wrong shape",
	                    (int)slot0, (int)n, (int)bits);
}

int scan_check(struct backend *be, const struct scan_args *a, int32_t n)
{
	if (predicate_ok(&a->when) && a->n_kv_head > 0 && a->n_head > 0 && a->n_head % a->n_kv_head == 0 &&
	    a->head_dim > 0 && (int64_t)a->n_head * a->head_dim <= INT32_MAX && n >= 0 && a->n_slots <= a->cap &&
	    a->out && a->out->data && a->out->type == DT_F32 && a->out->rows >= a->n_kv_head && a->out->cols >= n &&
	    a->scale >= 0 && (a->reduce == REDUCE_MAX || a->reduce == REDUCE_MEAN))
		return 0;
	return backend_fail(be, "internal: a scan of %d keys got operands of the wrong shape", (int)a->n_slots);
}

int key_scan_check(struct backend *be, const struct scan_args *a)
{
	if (scan_check(be, a, a->n_slots) < 0)
		return -1;
	if (a->bits == 16 ? kv_plane_ok(a->keys, a->n_kv_head, a->cap, a->head_dim)
	                  : sketch_ok(a->keys, a->n_kv_head, a->cap, a->head_dim, a->bits))
		return 0;
	return backend_fail(be, "internal: a scan of %d keys with %d bits got a plane or sketch of the wrong shape",
	                    (int)a->n_slots, (int)a->bits);
}

static int sample_ok(const struct topk_args *a)
{
	if (!a->sample)
		return 1;
	return a->sample > 0 && a->sample <= INT32_MAX / 4 && a->slots->cols - a->k >= a->sample &&
	       a->order == SLOT_ORDER && a->pool == 1 && !a->when.flag && a->bias &&
	       plane_of_heads(a->bias, a->n_kv_head, a->k + a->sample);
}

int topk_check(struct backend *be, const struct topk_args *a)
{
	if (a->score && a->score->data && a->score->type == DT_F32 && a->slots && a->slots->data &&
	    a->slots->type == DT_I32 && a->n_kv_head > 0 && a->score->rows >= a->n_kv_head && a->score->cols >= a->n &&
	    a->slots->rows >= a->n_kv_head && a->slots->cols >= a->k && a->k > 0 && a->k <= a->n &&
	    a->n <= INT32_MAX / 4 && predicate_ok(&a->when) && a->pool > 0 && a->pool % 2 && a->first >= 0 &&
	    a->last >= 0 && sample_ok(a))
		return 0;
	return backend_fail(be, "internal: the selection of %d of %d slots got operands of the wrong shape", (int)a->k,
	                    (int)a->n);
}

int kv_move_check(struct backend *be, const struct tensor *plane, const struct kv_moves *m)
{
	const struct tensor *shift = m->shift;

	if (!kv_plane_ok(plane, m->n_kv_head, m->cap, m->head_dim) || m->n < 0 || m->n > INT32_MAX / 3 || !m->move ||
	    !m->move->data || m->move->type != DT_I32 || m->move_row < 0 ||
	    m->move->rows - m->move_row < m->n_kv_head || m->move->cols < 3 * m->n)
		return backend_fail(be, "internal: %d moves of entries got operands of the wrong shape", (int)m->n);
	if (shift && (!shift->data || shift->type != DT_F32 || shift->cols != m->dims || m->dims <= 0 || m->dims % 2 ||
	              m->dims > m->head_dim))
		return backend_fail(be, "internal: moves of entries got a table of shifts of the wrong shape");
	return 0;
}

static int list_ok(const struct tensor *t, int32_t n_kv_head, int32_t n)
{
	return t && t->data && t->type == DT_I32 && t->rows >= n_kv_head && t->cols >= n;
}

int fetch_range_check(struct backend *be, const struct tensor *to, const struct tensor *from, int32_t n_kv_head,
                      int32_t cap, int32_t slot0, int32_t n)
{
	int32_t dim = from ? from->cols : 0;

	if (kv_plane_ok(from, n_kv_head, cap, dim) && kv_plane_ok(to, n_kv_head, cap, dim) && to->type == from->type &&
	    to->data != from->data && n >= 0 && slot0 >= 0 && n <= cap - slot0)
		return 0;
	return backend_fail(be, "internal: fetch_range of slots %d + %d got operands of the wrong shape", (int)slot0,
	                    (int)n);
}

int fetch_check(struct backend *be, const struct fetch_args *a)
{
	int32_t dim = a->k ? a->k->cols : 0;

	if (kv_plane_ok(a->k, a->n_kv_head, a->lines, dim) && kv_plane_ok(a->v, a->n_kv_head, a->lines, dim) &&
	    kv_plane_ok(a->from_k, a->n_kv_head, a->cap, dim) && kv_plane_ok(a->from_v, a->n_kv_head, a->cap, dim) &&
	    a->from_k->type == a->k->type && a->from_v->type == a->v->type &&
	    fetch_map_cols(a->cap, a->lines) <= INT32_MAX &&
	    list_ok(a->map, a->n_kv_head, (int32_t)fetch_map_cols(a->cap, a->lines)) && a->n >= 0 && a->n <= a->lines &&
	    list_ok(a->slots, a->n_kv_head, a->n) && (a->ahead || list_ok(a->list, a->n_kv_head, a->n)) &&
	    a->count_row >= 0 && a->count && a->count->data && a->count->type == DT_I32 &&
	    a->count->cols == FETCH_COUNTS && a->n_kv_head <= a->count->rows - a->count_row)
		return 0;
	return backend_fail(be,
	                    "internal: fetch_slots of %d entries into %d cache lines got operands of the wrong shape",
	                    (int)a->n, (int)a->lines);
}

/* ---- the comparison policies' operations ---- */

static int bounds_ok(const struct tensor *t, int32_t n_kv_head, int32_t cap, int32_t page, int32_t head_dim)
{
	return page_ok(page) && t && t->data && t->type == DT_F32 && n_kv_head > 0 && cap > 0 && head_dim > 0 &&
	       head_dim <= INT32_MAX / 2 && t->cols == 2 * head_dim &&
	       (int64_t)n_kv_head * pages_of(cap, page) <= t->rows;
}

int page_bounds_check(struct backend *be, const struct tensor *bounds, const struct tensor *plane, int32_t n_kv_head,
                      int32_t cap, int32_t page, int32_t slot0, int32_t n)
{
	int32_t dim = plane ? plane->cols : 0;

	if (kv_plane_ok(plane, n_kv_head, cap, dim) && bounds_ok(bounds, n_kv_head, cap, page, dim) && n >= 0 &&
	    slot0 >= 0 && n <= cap - slot0)
		return 0;
	return backend_fail(be, "internal: page_bounds of slots %d + %d got operands of the wrong shape", (int)slot0,
	                    (int)n);
}

int page_scan_check(struct backend *be, const struct scan_args *a, int32_t n)
{
	if (scan_check(be, a, n) < 0)
		return -1;
	if (bounds_ok(a->keys, a->n_kv_head, a->cap, a->page, a->head_dim))
		return 0;
	return backend_fail(be, "internal: a scan of the pages of %d slots got bounds of the wrong shape",
	                    (int)a->n_slots);
}

int page_slots_check(struct backend *be, const struct tensor *slots, const struct tensor *pages, int32_t n_kv_head,
                     int32_t page, int32_t n)
{
	if (page_ok(page) && slots && slots->data && slots->type == DT_I32 && pages && pages->data &&
	    pages->type == DT_I32 && slots->data != pages->data && n_kv_head > 0 && slots->rows >= n_kv_head &&
	    pages->rows >= n_kv_head && n >= 0 && n <= INT32_MAX / 4 && slots->cols >= n &&
	    pages->cols >= pages_of(n, page))
		return 0;
	return backend_fail(be, "internal: page_slots of %d slots got operands of the wrong shape", (int)n);
}

/* ---- rows ---- */

static int f32_plain(const struct tensor *t)
{
	return t->data && t->type == DT_F32 && t->layout == PLAIN;
}

int copy_check(struct backend *be, const struct tensor *dst, int32_t dst_row, const struct tensor *src, int32_t src_row,
               int32_t n)
{
	if (f32_plain(dst) && f32_plain(src) && dst->cols == src->cols && dst_row >= 0 && src_row >= 0 &&
	    n <= dst->rows - dst_row && n <= src->rows - src_row)
		return 0;
	return backend_fail(be, "internal: copy of %d rows %d to %d does not fit", (int)n, (int)src_row, (int)dst_row);
}

int columns_check(struct backend *be, const struct tensor *out, const struct tensor *src, int32_t n)
{
	if (f32_plain(out) && f32_plain(src) && n <= out->rows && src->rows <= out->cols)
		return 0;
	return backend_fail(be, "internal: %d columns of %d do not fit", (int)n, (int)src->rows);
}

int largest_check(struct backend *be, const struct tensor *out, const struct tensor *x, int32_t k, int32_t n)
{
	if (f32_plain(out) && f32_plain(x) && out->data != x->data && n <= out->rows && n <= x->rows && k > 0 &&
	    k <= LARGEST_MOST && k <= x->cols && x->cols <= LARGEST_WIDTH && out->cols == LARGEST_COLS(k))
		return 0;
	return backend_fail(be, "internal: largest %d of %d rows got operands of the wrong shape", (int)k, (int)n);
}

int rows_check(struct backend *be, const char *op, const struct tensor *out, int32_t n_out, const struct tensor *x,
               int32_t most, const int32_t *row, int32_t n)
{
	if (!f32_plain(out) || !f32_plain(x) || out->cols != x->cols || out->data == x->data || n_out > out->rows ||
	    (!n_out && n > x->rows))
		return backend_fail(be, "internal: %s of %d rows got operands of the wrong shape", op, (int)n);
	for (int32_t i = 0; i < n; i++)
		if (row[i] < 0 || row[i] >= most)
			return backend_fail(be, "internal: %s got row %d of %d", op, (int)row[i], (int)most);
	return 0;
}

/* 1 if the tensor is NULL, or f32 of at least `rows` rows and exactly `cols` columns. */
static int f32_or_none(const struct tensor *t, int32_t rows, int32_t cols)
{
	return !t || (f32_plain(t) && t->rows >= rows && t->cols == cols);
}

int route_check(struct backend *be, const struct route_args *a, int32_t n)
{
	int32_t all = a->score->cols;

	if (f32_plain(a->out) && f32_plain(a->score) && n <= a->out->rows && n <= a->score->rows && a->n_used > 0 &&
	    a->n_used <= all && all <= EXPERTS_MAX && a->out->cols == ROUTE_COLS(a->n_used) &&
	    f32_or_none(a->bias, 1, all) && f32_or_none(a->scale, 1, all) && f32_or_none(a->shared, n, 1))
		return 0;
	return backend_fail(be, "internal: route of %d tokens got operands of the wrong shape", (int)n);
}

int experts_check(struct backend *be, const struct experts_args *a, int32_t n)
{
	if (f32_plain(a->out) && f32_plain(a->x) && f32_plain(a->route) && n <= a->out->rows && n <= a->x->rows &&
	    n <= a->route->rows && a->out->cols == a->x->cols && a->out->data != a->x->data && a->n_used > 0 &&
	    a->n_used <= a->n_expert && a->n_expert <= EXPERTS_MAX && a->route->cols == ROUTE_COLS(a->n_used))
		return 0;
	return backend_fail(be, "internal: experts of %d tokens got operands of the wrong shape", (int)n);
}

int short_conv_check(struct backend *be, const struct short_conv *a, int32_t n)
{
	int32_t cols = a->out->cols;

	if (f32_plain(a->out) && f32_plain(a->in) && f32_plain(a->w) && f32_plain(a->state) && f32_plain(a->next) &&
	    a->taps >= 2 && n <= a->out->rows && n <= a->in->rows &&
	    (a->in->cols == cols || (a->in->cols / 3 == cols && a->in->cols % 3 == 0)) && a->w->rows == cols &&
	    a->w->cols == a->taps && a->state->rows == a->taps - 1 && a->state->cols == cols &&
	    a->next->rows == a->taps - 1 && a->next->cols == cols && a->next->data != a->state->data &&
	    a->out->data != a->in->data &&
	    (!a->bias || (f32_plain(a->bias) && a->bias->rows == 1 && a->bias->cols == cols)))
		return 0;
	return backend_fail(be, "internal: short_conv of %d tokens got operands of the wrong shape", (int)n);
}

static int shape_is(const struct tensor *t, int64_t rows, int64_t cols)
{
	return f32_plain(t) && t->rows == rows && t->cols == cols;
}

int delta_rule_check(struct backend *be, const struct delta_rule *a, int32_t n)
{
	int64_t keys = (int64_t)a->n_key_head * a->key_dim, values = (int64_t)a->n_value_head * a->value_dim;

	if (a->n_key_head > 0 && a->n_value_head > 0 && a->n_value_head % a->n_key_head == 0 && a->key_dim > 0 &&
	    a->key_dim <= DELTA_KEY && a->value_dim > 0 && n <= a->out->rows && n <= a->qkv->rows &&
	    n <= a->alpha->rows && n <= a->beta->rows && shape_is(a->out, a->out->rows, values) &&
	    shape_is(a->qkv, a->qkv->rows, 2 * keys + values) && shape_is(a->alpha, a->alpha->rows, a->n_value_head) &&
	    shape_is(a->beta, a->beta->rows, a->n_value_head) && shape_is(a->decay, 1, a->n_value_head) &&
	    shape_is(a->dt, 1, a->n_value_head) &&
	    shape_is(a->state, (int64_t)a->n_value_head * a->key_dim, a->value_dim) &&
	    shape_is(a->next, a->state->rows, a->value_dim) && a->state->data != a->next->data)
		return 0;
	return backend_fail(be, "internal: delta_rule of %d tokens got operands of the wrong shape", (int)n);
}

static int values_are(const struct tensor *t, int64_t n)
{
	return f32_plain(t) && (int64_t)t->rows * t->cols == n;
}

int state_space_check(struct backend *be, const struct state_space *a, int32_t n)
{
	int64_t values = (int64_t)a->n_head * a->head_dim;

	if (a->n_group > 0 && a->n_head > 0 && a->n_head % a->n_group == 0 && a->state_dim > 0 &&
	    a->state_dim <= DELTA_KEY && a->head_dim > 0 && n <= a->out->rows && n <= a->xbc->rows &&
	    n <= a->step->rows && shape_is(a->out, a->out->rows, values) &&
	    shape_is(a->xbc, a->xbc->rows, values + 2 * (int64_t)a->n_group * a->state_dim) &&
	    shape_is(a->step, a->step->rows, a->n_head) && values_are(a->decay, a->n_head) &&
	    values_are(a->bias, a->n_head) && values_are(a->skip, a->n_head) &&
	    shape_is(a->state, (int64_t)a->n_head * a->state_dim, a->head_dim) &&
	    shape_is(a->next, a->state->rows, a->head_dim) && a->state->data != a->next->data)
		return 0;
	return backend_fail(be, "internal: state_space of %d tokens got operands of the wrong shape", (int)n);
}

int layernorm_check(struct backend *be, const struct tensor *out, const struct tensor *x, const struct tensor *w,
                    const struct tensor *b, int32_t n)
{
	if (f32_plain(out) && f32_plain(x) && out->cols == x->cols && n <= out->rows && n <= x->rows &&
	    shape_is(w, 1, x->cols) && shape_is(b, 1, x->cols))
		return 0;
	return backend_fail(be, "internal: layernorm of %d rows got operands of the wrong shape", (int)n);
}

int relative_check(struct backend *be, const struct relative_args *a, int32_t n)
{
	int64_t cols = (int64_t)a->n_head * a->head_dim;
	int ok = a->n_head > 0 && a->head_dim > 0 && f32_plain(a->q) && f32_plain(a->k) && f32_plain(a->keys) &&
	         f32_plain(a->queries) && f32_plain(a->out) && a->q->cols == cols && a->k->cols == cols &&
	         a->keys->cols == cols && a->queries->cols == cols && a->queries->rows == a->keys->rows &&
	         n <= a->q->rows && n <= a->k->rows && n <= a->out->cols && (int64_t)n * a->n_head <= a->out->rows;

	for (int32_t i = 0; ok && i < 2 * n - 1; i++)
		ok = a->row[i] >= 0 && a->row[i] < a->keys->rows;
	return ok ? 0 : backend_fail(be, "internal: relative of %d tokens got operands of the wrong shape", (int)n);
}

int gelu_check(struct backend *be, const struct tensor *x, int32_t n)
{
	if (f32_plain(x) && n <= x->rows)
		return 0;
	return backend_fail(be, "internal: gelu of %d rows got an operand of the wrong shape", (int)n);
}

int gate_check(struct backend *be, const struct tensor *x, const struct tensor *gate, int32_t n)
{
	if (f32_plain(x) && f32_plain(gate) && x->cols == gate->cols && n <= x->rows && n <= gate->rows &&
	    x->data != gate->data)
		return 0;
	return backend_fail(be, "internal: gate of %d rows got operands of the wrong shape", (int)n);
}
