/* kernels/cuda/cuda_attn.cu - attn: divides a call into launches and chooses the kernel:
 * - cuda_attn_decode.cu is for up to 32 queries of a KV head (decode). It uses tensor cores; K and V are loaded
 *   directly to registers.
 * - cuda_attn_prefill.cu is for more queries (prefill). It uses tensor cores; tiles of K and V are in shared memory.
 * - cuda_attn_f32.cu is for f32 planes, and for every other head_dim. It computes in f32.
 *
 * A call takes one launch for every 16 of its segments (struct attn_segment), after the launches that select slots
 * (cuda_topk.cu). A probe measures the attention of some tokens (struct attn_probe). In this case, a launch computes
 * consecutive tokens that are either all measured or all not measured. After a launch with measured tokens come the
 * launches of cuda_probe.cu.
 *
 * With few queries there would be too few thread blocks for the device. So the slots of a launch are divided into
 * spans, and each block reads one span (cuda_attn.cuh). The number of spans of the grid is a power of two, so that the
 * grid rarely changes from token to token; a block without a span returns at once. If segments have predicates, each
 * block reads the flags and computes the spans itself, without the skipped segments.
 *
 * Lists of slots are in device memory, so the host cannot check them. A slot number outside of the plane is replaced by
 * the last slot. */
#include "kernels/cuda/cuda_attn.cuh"

enum {
	BLOCKS_EACH = 2, /* number of thread blocks that each multiprocessor should get */
	/* maximum number of measured tokens in one launch (struct attn_probe) */
	MOST_LOOKED = 1 << 16,
	COUNTERS = 32768, /* maximum number of tiles in one launch, over all KV heads */
};
#define SCORE_BYTES ((size_t)128 << 20) /* maximum size of scores in bytes, unless one token needs more */

/* An attn() call. All its segments together have `cols` columns (slots). A KV head has `group` query heads. */
struct attn_job {
	struct cuda *c;
	const struct attn_args *a;
	int32_t n, cols, group;
	int maybe; /* 1: some segments have predicates */
};

/* ---- spans ---- */

typedef void start_fn(const struct attn_plan *);

/* Return the first of the three kernels that can compute the call. Set *shape to the way in which this kernel divides
 * the work. */
static start_fn *attn_kernel(const struct attn_plan *p, struct attn_shape *shape)
{
	*shape = attn_decode_shape(p);
	if (shape->queries)
		return attn_decode_start;
	*shape = attn_prefill_shape(p);
	if (shape->queries)
		return attn_prefill_start;
	*shape = attn_f32_shape(p);
	return attn_f32_start;
}

/* Return the number of the first segment after a launch. The launch begins with segment number `seg` and has up to
 * ATTN_SEGMENTS segments. */
static int32_t group_end(const struct attn_args *a, int32_t seg)
{
	return seg + MIN(a->n_seg - seg, (int32_t)ATTN_SEGMENTS);
}

/* The slots that a launch reads in one segment of an attn() call: n slots, beginning at slot `first`. They do not
 * include slots before the window of the launch's first token, and slots of tokens after the launch's last token. */
struct taken {
	int32_t first, n;
};

/* Return which slots of a segment of a call are read by a launch. `seg` is the number of the segment, and `col` is the
 * column (cuda_attn.cuh) of its first slot. The call has `cut` tokens after the launch's last token, whose slots are
 * not read. */
static struct taken segment_taken(const struct attn_plan *p, const struct attn_args *a, int32_t seg, int32_t col,
                                  int32_t cut)
{
	int32_t n = a->seg[seg].n_slots - (seg == a->n_seg - 1 ? cut : 0),
		before = p->a.total - (p->a.n - 1) - p->a.window - col;
	struct taken t = { p->a.window && before > 0 ? MIN(before, n) : 0, 0 };

	t.n = n - t.first;
	return t;
}

/* Return the number of spans of a launch, which is the x size of its grid: a power of two of at most `limit`. A span
 * has at least `least` columns. `cols` is rounded up to a power of two, so that the result rarely changes from token to
 * token. */
static int32_t grid_spans(const struct cuda *c, int64_t tiles, int32_t cols, int32_t least, int32_t limit)
{
	int64_t most = (int64_t)MAX(c->info.processors, 16) * BLOCKS_EACH / tiles;
	int32_t spans = 1, rows = cuda_power(cols);

	while (2 * (int64_t)spans <= most && 2 * spans <= limit && rows / (2 * spans) >= least)
		spans *= 2;
	return spans;
}

static int32_t round_up(int32_t n, int32_t to)
{
	return (n + to - 1) / to * to;
}

/* Return the number of columns per span, a multiple of `step`, if `cols` columns are divided into `spans` spans. */
static int32_t span_cols(int32_t cols, int32_t spans, int32_t step)
{
	return round_up((cols - 1) / spans + 1, step);
}

/* Allocate the counters of the attention kernels, and 16 bytes for attn_seen.zero. Return 0, or -1 with the error
 * set. */
static int counters_alloc(struct cuda *c)
{
	if (c->counters.p)
		return 0;
	c->counters.size = (COUNTERS + 4) * sizeof(uint32_t);
	c->counters.p = gpu_alloc(c->gpu, c->counters.size);
	return c->counters.p ? 0 : backend_fail(&c->base, "no memory for counters on the GPU");
}

/* Allocate the counters, and memory for the partial results of all tiles. A partial result takes `floats` floats.
 * Return 0, or -1 with the error set. */
static int partials_alloc(struct attn_plan *p, int64_t tiles, int64_t floats)
{
	struct cuda *c = p->c;
	if (tiles > COUNTERS || p->a.partials > ATTN_PARTIALS)
		return backend_fail(&c->base,
		                    "internal: attention over so many parts takes at most %d tiles and %d launches",
		                    COUNTERS, ATTN_PARTIALS);
	if (counters_alloc(c) < 0 ||
	    cuda_buffer_grow(c, &c->attn, (size_t)(tiles * p->a.partials * floats) * sizeof(float)) < 0)
		return -1;
	p->a.left = (uint32_t *)c->counters.p;
	p->a.state = (float *)c->attn.p;
	return 0;
}

/* Fill in the segments of a launch: the segments of the call from number `seg` on. `col` is the column of the first
 * slot of segment number `seg`, and `t0` is the launch's first token. The call has `cut` tokens after the launch's last
 * token. */
static void segs_fill(struct attn_plan *p, const struct attn_args *a, int32_t seg, int32_t col, int32_t t0, int32_t cut)
{
	p->a.bias = NULL;
	for (int32_t k = 0; k < p->a.n_seg; k++) {
		const struct attn_segment *from = a->seg + seg + k;
		struct launch_segment *to = &p->a.seg[k];
		struct taken taken = segment_taken(p, a, seg + k, col, cut);

		to->q = (const float *)from->q->data + (size_t)t0 * (size_t)a->n_head * (size_t)a->head_dim;
		to->slots = from->slots ? (const int32_t *)from->slots->data : NULL;
		to->ld = from->slots ? from->slots->cols : 0;
		if (from->bias) {
			p->a.bias = (const float *)from->bias->data;
			p->a.bias_ld = from->bias->cols;
			p->a.bias_seg = k;
		}
		to->slot0 = from->slot0 + taken.first;
		to->n_slots = taken.n;
		to->col = col + taken.first;
		to->when = cuda_predicate_of(&from->when);
		col += from->n_slots;
	}
}

/* Compute the attention of the tokens from t0 to t1 - 1. There must be a counter for each of their tiles. The first
 * pass counts the partial results and allocates memory for them. The second pass launches. Return 0, or -1 with the
 * error set. */
static int attn_tokens(const struct attn_job *j, int32_t t0, int32_t t1, struct attn_plan *p, start_fn *start,
                       struct attn_shape shape)
{
	const struct attn_args *a = j->a;
	int32_t col, read, partials = 0, end, cut = a->bidirectional ? 0 : j->n - t1,
			   groups = (a->n_seg - 1) / ATTN_SEGMENTS + 1;
	int64_t tiles;

	p->a.n = t1 - t0;
	p->a.total = j->cols - cut;
	p->a.queries = p->a.n * j->group;
	p->a.dims = MIN(shape.dims, a->head_dim);
	p->a.tiles = (int32_t)(cuda_blocks(p->a.queries, shape.queries) * cuda_blocks(a->head_dim, p->a.dims));
	p->a.out = (float *)a->out->data + (size_t)t0 * (size_t)a->n_head * (size_t)a->head_dim;
	tiles = (int64_t)p->a.tiles * a->n_kv_head;
	for (int pass = 0; pass < 2; pass++) {
		col = 0;  /* number of columns of the segments before segment i */
		read = 0; /* number of columns that the tokens read in the segments before segment i */
		partials = 0;
		for (int32_t i = 0; i < a->n_seg; i = end) {
			int32_t cols = 0, col0 = col;

			end = group_end(a, i);
			p->a.last = end == a->n_seg && !a->bidirectional;
			for (int32_t k = i; k < end; col += a->seg[k++].n_slots)
				cols += segment_taken(p, a, k, col, cut).n;
			if (cols <= 0)
				continue;
			p->grid_spans = grid_spans(j->c, tiles, cols, shape.least_rows, ATTN_PARTIALS / groups);
			p->a.span = span_cols(cols, p->grid_spans, shape.least_rows);
			p->a.spans = (cols - 1) / p->a.span + 1;
			p->a.step = shape.least_rows;
			p->a.partial0 = partials;
			p->a.col0 = read;
			p->a.cols = cols;
			read += cols;
			partials += p->a.maybe ? p->grid_spans : p->a.spans;
			p->a.n_seg = end - i;
			if (pass) {
				segs_fill(p, a, i, col0, t0, cut);
				start(p);
			}
		}
		p->a.partials = partials;
		if (!pass && partials > 1 && partials_alloc(p, tiles, (int64_t)shape.queries * (p->a.dims + 2)) < 0)
			return -1;
	}
	return 0;
}

/* Compute the attention of the tokens from t0 to t1 - 1. If a probe needs the tokens' scores, `seen` defines where they
 * are stored; otherwise it is NULL. Return 0, or -1 with the error set. */
static int attn_run(const struct attn_job *j, int32_t t0, int32_t t1, const struct attn_seen *seen)
{
	const struct attn_args *a = j->a;
	struct attn_plan p = {};
	struct attn_shape shape;
	start_fn *start;
	int32_t most;

	p.c = j->c;
	p.type = a->k->type;
	p.exact = seen != NULL;
	p.a.k = (const uint8_t *)a->k->data;
	p.a.v = (const uint8_t *)a->v->data;
	p.a.row_bytes = (int64_t)dtype_bytes(a->k->type, (uint64_t)a->head_dim);
	p.a.cap = a->cap;
	p.a.head_dim = a->head_dim;
	p.a.n_head = a->n_head;
	p.a.group = j->group;
	p.a.scale = a->scale;
	for (int32_t i = 0; i < a->n_seg; i++)
		p.biased += a->seg[i].bias != NULL;
	p.a.softcap = a->softcap;
	p.a.sinks = a->sinks ? (const float *)a->sinks->data : NULL;
	p.a.window = a->window < j->cols ? a->window : 0;
	p.a.maybe = j->maybe;
	p.a.n = t1 - t0;
	p.a.queries = (t1 - t0) * j->group;
	start = attn_kernel(&p, &shape);
	/* Every tile (the queries of a thread block) needs a counter, so COUNTERS limits the tokens of a launch. The
	 * limit is at least a few thousand. */
	most = COUNTERS / (a->n_kv_head * (int32_t)cuda_blocks(a->head_dim, shape.dims)) * shape.queries / j->group;
	most = MAX(most, 1);
	for (int32_t i = t0; i < t1; i += most) {
		int32_t to = i + MIN(t1 - i, most);

		if (seen) {
			size_t at = (size_t)(i - t0) * (size_t)a->n_head;

			p.a.score = seen->score + at * seen->stride;
			p.a.max = seen->max + at;
			p.a.sum = seen->sum + at;
			p.a.stride = (int64_t)seen->stride;
		}
		if (attn_tokens(j, i, to, &p, start, shape) < 0)
			return -1;
	}
	return 0;
}

/* ---- probes ---- */

/* score [n] has the scores that are set to -infinity */
struct unseen_args {
	float *score;
	int64_t n;
};

static __global__ void attn_unseen_kernel(struct unseen_args a)
{
	for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < a.n; i += (int64_t)gridDim.x * blockDim.x)
		a.score[i] = -INFINITY;
}

/* Set all scores of n tokens to -infinity, which means probability 0. Attention then overwrites the scores that it
 * computes. The scores of skipped segments and of slots before a window stay -infinity. */
static void attn_unseen(const struct attn_job *j, const struct attn_seen *seen, int32_t n)
{
	struct unseen_args a = {};

	a.score = seen->score;
	a.n = (int64_t)n * j->a->n_head * (int64_t)seen->stride;
	cuda_launch(j->c, attn_unseen_kernel, cuda_blocks(cuda_power(j->cols), 1024), 1, 1, 256, 0, a);
}

/* Compute attention, and measure the attention of some tokens (attn_args.probe). A launch computes consecutive tokens,
 * either all measured or all not measured. After a launch of measured tokens, their mass and spread are computed. */
static void attn_probed(const struct attn_job *j)
{
	struct cuda *c = j->c;
	const float *weight = j->a->probe->weight;
	size_t heads = (size_t)j->a->n_head, row, small, most;
	struct attn_seen seen;

	seen.first = 1;
	seen.stride = ((size_t)j->cols + 31) & ~(size_t)31;
	row = heads * seen.stride * sizeof(float);
	most = row < SCORE_BYTES ? SCORE_BYTES / row : 1;
	most = MIN(most, (size_t)MIN(j->n, (int32_t)MOST_LOOKED));
	small = align256(most * heads * sizeof(float));
	if (counters_alloc(c) < 0 || cuda_buffer_grow(c, &c->probe, align256(most * row) + 2 * small) < 0)
		return;
	seen.zero = (uint32_t *)c->counters.p + COUNTERS;
	seen.score = (float *)c->probe.p;
	seen.max = (float *)((char *)c->probe.p + align256(most * row));
	seen.sum = (float *)((char *)seen.max + small);
	for (int32_t i = 0; i < j->n;) {
		int32_t to = i + 1, look = weight[i] != 0;

		while (to < j->n && (weight[to] != 0) == look && (!look || to - i < (int32_t)most))
			to++;
		if (look && ((j->maybe && j->a->probe->spread) || (j->a->window && j->a->window < j->cols)))
			attn_unseen(j, &seen, to - i);
		if (attn_run(j, i, to, look ? &seen : NULL) < 0)
			return;
		if (look) {
			cuda_probe_run(c, j->a, j->n, j->cols, i, to, &seen);
			seen.first = 0;
		}
		i = to;
	}
}

void cuda_attn(struct backend *be, const struct attn_args *a, int32_t n)
{
	struct attn_job j = { cuda_of(be), a, n, 0, 0, 0 };
	int32_t width;

	if (cuda_stopped(be) || n <= 0 || attn_check(be, a, n, &j.cols) < 0)
		return;
	width = a->n_head * a->head_dim;
	if (a->k->type != a->v->type || kv_transformed(a->k->type)) {
		backend_fail(be, "internal: attention got keys and values of types that a GPU does not have");
		return;
	}
	if (a->blocks) {
		backend_fail(be, "a GPU reads prompts whole; use --device cpu");
		return;
	}
	for (int32_t i = 0; i < a->n_seg; i++) {
		if (a->seg[i].lengths || (a->probe && a->probe->largest)) {
			backend_fail(be, "a GPU does not read lists of different lengths; use --device cpu");
			return;
		}
		j.maybe |= a->seg[i].when.flag != NULL;
		if (!predicate_ok(&a->seg[i].when) || (j.maybe && (n > 1 || a->n_seg > ATTN_SEGMENTS || a->window))) {
			backend_fail(be,
			             "internal: attention of %d tokens over %d parts got conditions that do not fit",
			             (int)n, (int)a->n_seg);
			return;
		}
	}
	j.group = a->n_head / a->n_kv_head;
	if (!cuda_rows_of(be, a->out, n, width, "attn"))
		return;
	for (int32_t i = 0; i < a->n_seg; i++)
		if (!cuda_rows_of(be, a->seg[i].q, n, width, "attn") ||
		    (a->seg[i].selection && attn_selection_check(be, a->seg[i].selection, a->n_kv_head) < 0))
			return;
	if (attn_probe_wanted(a->probe, n) && attn_probe_check(be, a, j.cols) < 0)
		return;
	for (int32_t i = 0; i < a->n_seg; i++)
		if (a->seg[i].selection)
			cuda_select(be, a->seg[i].selection);
	if (be->failed)
		return;
	if (attn_probe_wanted(a->probe, n))
		attn_probed(&j);
	else
		attn_run(&j, 0, n, NULL);
}
