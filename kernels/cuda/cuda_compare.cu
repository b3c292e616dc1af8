/* kernels/cuda/cuda_compare.cu - operations that only two cache policies use: pages of slots (quest), and the drift of
 * a layer's query (refresh).
 * - page_bounds takes 1 launch. It reads whole pages, PAGE_UNIT slots at a time.
 * - page_scan takes 2 launches, those of key_scan (cuda_scan.cu).
 * - page_slots takes 1 launch, in which a thread writes one slot number.
 * - query_drift takes 1 launch of one block. */
#include "kernels/cuda/cuda_select.cuh"

/* ---- pages ---- */

enum { BOUNDS_THREADS = 128 };

/* Arguments of page_bounds(). `pages` pages, from page `first` on, get new bounds. A KV head has `all_pages` pages.
 * `slot1` is the slot after the last key. */
struct page_bounds_args {
	float *bounds;
	const uint8_t *plane;
	int64_t row_bytes;
	int32_t type, cap, page, dim, first, pages, all_pages, slot1;
};

/* A block computes the minimum and maximum of each dimension over the keys of one page of a KV head. */
static __global__ void page_bounds(struct page_bounds_args a)
{
	int32_t at = a.first + (int32_t)blockIdx.x, head = (int32_t)blockIdx.y, k0 = at * a.page;
	int32_t slots = min(a.page, a.slot1 - k0);
	const uint8_t *row = a.plane + ((int64_t)head * a.cap + k0) * a.row_bytes;
	float *least = a.bounds + ((int64_t)head * a.all_pages + at) * 2 * a.dim;

	if ((int32_t)blockIdx.x >= a.pages)
		return;
	for (int32_t i = (int32_t)threadIdx.x; i < a.dim; i += BOUNDS_THREADS) {
		float low = row_value(row, a.type, i), high = low;

		for (int32_t from = 0; from < slots; from += PAGE_UNIT) {
			float v[PAGE_UNIT];

			for (int32_t k = 0; k < PAGE_UNIT; k++)
				v[k] = row_value(row + min(from + k, slots - 1) * a.row_bytes, a.type, i);
			for (int32_t k = 0; k < PAGE_UNIT; k++) {
				low = v[k] < low ? v[k] : low;
				high = v[k] > high ? v[k] : high;
			}
		}
		least[i] = low;
		least[a.dim + i] = high;
	}
}

void cuda_page_bounds(struct backend *be, struct tensor *bounds, const struct tensor *plane, int32_t n_kv_head,
                      int32_t cap, int32_t page, int32_t slot0, int32_t n)
{
	struct cuda *c = cuda_of(be);
	struct page_bounds_args a = {};
	int32_t dim;

	if (be->failed || page_bounds_check(be, bounds, plane, n_kv_head, cap, page, slot0, n) < 0 || n == 0)
		return;
	dim = plane->cols;
	a.bounds = (float *)bounds->data;
	a.plane = (const uint8_t *)plane->data;
	a.row_bytes = (int64_t)dtype_bytes(plane->type, (uint64_t)dim);
	a.type = plane->type;
	a.cap = cap;
	a.page = page;
	a.dim = dim;
	a.slot1 = slot0 + n;
	a.first = slot0 / page;
	a.pages = (a.slot1 - 1) / page + 1 - a.first;
	a.all_pages = (cap - 1) / page + 1;
	cuda_launch(c, page_bounds, (unsigned)cuda_power(a.pages), (unsigned)n_kv_head, 1, BOUNDS_THREADS, 0, a);
}

enum { PAGES_THREADS = 256 };

struct page_slots_args {
	int32_t *slots;
	const int32_t *pages;
	int64_t slots_cols, pages_cols;
	int32_t page, n;
};

static __global__ void page_slots(struct page_slots_args a)
{
	int32_t i = (int32_t)(blockIdx.x * PAGES_THREADS + threadIdx.x), head = (int32_t)blockIdx.y;

	if (i < a.n)
		a.slots[head * a.slots_cols + i] = a.pages[head * a.pages_cols + i / a.page] * a.page + i % a.page;
}

void cuda_page_slots(struct backend *be, struct tensor *slots, const struct tensor *pages, int32_t n_kv_head,
                     int32_t page, int32_t n)
{
	struct page_slots_args a = {};

	if (cuda_stopped(be) || page_slots_check(be, slots, pages, n_kv_head, page, n) < 0 || n == 0)
		return;
	a.slots = (int32_t *)slots->data;
	a.pages = (const int32_t *)pages->data;
	a.slots_cols = slots->cols;
	a.pages_cols = pages->cols;
	a.page = page;
	a.n = n;
	cuda_launch(cuda_of(be), page_slots, cuda_blocks(cuda_power(n), PAGES_THREADS), (unsigned)n_kv_head, 1,
	            PAGES_THREADS, 0, a);
}

void cuda_page_scan(struct backend *be, const struct scan_args *a)
{
	struct cuda *c = cuda_of(be);
	struct scan_launch l = {};
	struct scan_scores s = {};

	if (cuda_stopped(be))
		return;
	l.n = a->n_slots > 0 && a->page > 0 ? (a->n_slots - 1) / a->page + 1 : a->n_slots;
	if (page_scan_check(be, a, l.n) < 0 || l.n == 0)
		return;
	l.keys = (const uint8_t *)a->keys->data;
	l.dim = 2 * a->head_dim;
	l.bits = 16;
	l.pages = 1;
	l.type = DT_F32;
	l.whole = row_whole(DT_F32, l.dim);
	l.row_bytes = (int64_t)l.dim * 4;
	l.head_bytes = (int64_t)((a->cap - 1) / a->page + 1) * l.row_bytes;
	s.raw = a->raw;
	if (scan_first(c, a, &l, &s) == 0)
		scan_end(c, a, &s);
}

/* ---- drift of a query ---- */

enum { DRIFT_THREADS = 256 };

/* Arguments of query_drift(). `now` is an output: the mean of the query heads. `then` is the mean at the time of the
 * last selection. `flag` and `cosine` are outputs. A cosine of at most `least` counts as drift. */
struct drift_job {
	float *now;
	const float *q, *then;
	int32_t n_head, dim;
	int32_t *flag;  /* NULL: compute only the mean */
	int32_t *shown; /* receives the same number as `flag`, unless it is NULL */
	float *cosine;
	double least;
};

/* Return the sum of x over the lanes of a warp. */
static __device__ double warp_total(double x)
{
	for (int d = WARP / 2; d > 0; d /= 2)
		x += __shfl_xor_sync(FULL_WARP, x, d);
	return x;
}

/* Store the mean of the query heads in `now`. If `flag` is not NULL, compute the cosine of `now` and the earlier mean
 * `then`. Set *flag to 1 if the cosine is at most `least`, otherwise to 0. The cosine is computed in double, so that
 * the order of the sums hardly affects the comparison. */
__global__ void __launch_bounds__(DRIFT_THREADS) query_drift(struct drift_job a)
{
	SHARED(double, part, [3][DRIFT_THREADS / WARP]);
	int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP;
	double ab = 0, aa = 0, bb = 0, same = 0;

	for (int d = (int)threadIdx.x; d < a.dim; d += DRIFT_THREADS) {
		double sum = 0, x, y;

		for (int h = 0; h < a.n_head; h++)
			sum += (double)a.q[(size_t)h * (size_t)a.dim + (size_t)d];
		a.now[d] = (float)(sum / a.n_head);
		if (!a.flag)
			continue;
		x = (double)a.now[d];
		y = (double)a.then[d];
		ab += x * y;
		aa += x * x;
		bb += y * y;
	}
	if (!a.flag)
		return;
	ab = warp_total(ab);
	aa = warp_total(aa);
	bb = warp_total(bb);
	if (lane == 0) {
		part[0][warp] = ab;
		part[1][warp] = aa;
		part[2][warp] = bb;
	}
	__syncthreads();
	if (threadIdx.x)
		return;
	ab = aa = bb = 0;
	for (int w = 0; w < DRIFT_THREADS / WARP; w++) {
		ab += part[0][w];
		aa += part[1][w];
		bb += part[2][w];
	}
	if (aa > 0 && bb > 0)
		same = ab / sqrt(aa * bb);
	same = same > 1 ? 1 : same < -1 ? -1 : same;
	*a.cosine = (float)same;
	*a.flag = same <= a.least;
	if (a.shown)
		*a.shown = same <= a.least;
}

void cuda_query_drift(struct backend *be, const struct query_drift_args *a)
{
	int64_t width = (int64_t)a->n_head * a->head_dim;
	const struct tensor *t[] = { a->now, a->flag ? a->then : a->now };
	const struct predicate shown = { a->flag ? a->shown : NULL, a->col, 0, NULL };
	struct drift_job j = {};

	if (cuda_stopped(be))
		return;
	if (!predicate_ok(&shown))
		goto wrong;
	for (int i = 0; i < 2; i++)
		if (!t[i] || !t[i]->data || t[i]->type != DT_F32 || a->row < 0 || a->row >= t[i]->rows ||
		    t[i]->cols != a->head_dim)
			goto wrong;
	if (a->n_head < 1 || a->head_dim < 1 || width > INT32_MAX || a->q_row < 0 || a->q_row == INT32_MAX)
		goto wrong;
	if (a->flag) {
		const struct tensor *f = a->flag, *s = a->cosine;

		if (!f->data || f->type != DT_I32 || f->rows < 1 || a->col < 0 || a->col >= f->cols || !s || !s->data ||
		    s->type != DT_F32 || s->rows < 1 || a->col >= s->cols)
			goto wrong;
		j.flag = (int32_t *)f->data + a->col;
		j.shown = a->shown ? (int32_t *)a->shown->data + a->col : NULL;
		j.cosine = (float *)s->data + a->col;
		j.then = (const float *)a->then->data + (size_t)a->row * (size_t)a->head_dim;
	}
	j.q = cuda_rows_of(be, a->q, a->q_row + 1, (int32_t)width, "query_drift");
	if (!j.q)
		return;
	j.q += (size_t)a->q_row * (size_t)width;
	j.now = (float *)a->now->data + (size_t)a->row * (size_t)a->head_dim;
	j.n_head = a->n_head;
	j.dim = a->head_dim;
	j.least = a->least;
	cuda_launch(cuda_of(be), query_drift, 1, 1, 1, DRIFT_THREADS, 0, j);
	return;
wrong:
	backend_fail(be, "internal: query_drift of %d heads of %d values got operands of the wrong shape",
	             (int)a->n_head, (int)a->head_dim);
}
