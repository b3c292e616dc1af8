/* tests/lib/select_ref.c - the reference for selection (select_ref.h). */
#include "tests/lib/select_ref.h"

void *tensor_read(struct backend *be, const struct tensor *t)
{
	size_t n = (size_t)dtype_bytes(t->type, (uint64_t)t->rows * (uint64_t)t->cols);
	void *p = must_alloc(n);

	be->ops->read(be, t, 0, p, n);
	return p;
}

struct tensor guarded(struct backend *be, enum dtype type, int32_t rows, int32_t cols)
{
	int32_t n = (rows + 1) * (cols + 1);
	float *f = must_alloc((size_t)n * sizeof *f);

	for (int32_t i = 0; i < n; i++)
		if (type == DT_I32)
			((int32_t *)f)[i] = GUARD_ROW;
		else
			f[i] = GUARD;

	struct tensor t = tensor_new(be, type, rows + 1, cols + 1, f);

	free(f);
	return t;
}

void *unguarded(struct backend *be, struct tensor *t)
{
	int32_t rows = t->rows - 1, cols = t->cols - 1, bad = 0;
	int32_t *all = tensor_read(be, t), *out = must_alloc((size_t)rows * (size_t)cols * sizeof *out), guard;

	memcpy(&guard, &(float){ GUARD }, 4);
	if (t->type == DT_I32)
		guard = GUARD_ROW;
	for (int32_t r = 0; r <= rows; r++)
		for (int32_t c = 0; c <= cols; c++)
			if (r < rows && c < cols)
				out[(size_t)r * (size_t)cols + (size_t)c] =
					all[(size_t)r * (size_t)(cols + 1) + (size_t)c];
			else
				bad += all[(size_t)r * (size_t)(cols + 1) + (size_t)c] != guard;
	CHECK_INT(bad, 0);
	free(all);
	be->ops->drop(be, t);
	return out;
}

float bell(void)
{
	float s = 0;

	for (int i = 0; i < 6; i++)
		s += test_randf(-1, 1);
	return s * 0.7071f;
}

float *random_keys(int32_t heads, int32_t cap, int32_t dim)
{
	float *x = must_alloc((size_t)heads * (size_t)cap * (size_t)dim * sizeof *x);

	for (int32_t h = 0; h < heads; h++)
		for (int32_t d = 0; d < dim; d++) {
			float offset = bell() * (d % 13 == 5 ? 6.0f : 0.5f), spread = test_randf(0.3f, 2.0f);

			for (int32_t k = 0; k < cap; k++)
				x[((size_t)h * (size_t)cap + (size_t)k) * (size_t)dim + (size_t)d] =
					offset + spread * bell();
		}
	return x;
}

float *random_query(int32_t n, int outliers)
{
	float *q = must_alloc((size_t)n * sizeof *q);

	for (int32_t i = 0; i < n; i++)
		q[i] = bell() * (outliers && i % 29 == 3 ? 12.0f : 1.0f);
	return q;
}

struct tensor plane_new(struct backend *be, enum dtype type, int32_t heads, int32_t cap, int32_t dim, const float *x,
                        float *held)
{
	size_t n = (size_t)heads * (size_t)cap * (size_t)dim;
	void *bytes = must_alloc((size_t)dtype_bytes(type, n));
	struct tensor t;

	CHECK_INT(dtype_from_f32(type, bytes, x, (int64_t)n), 0);
	dtype_to_f32(type, held, bytes, (int64_t)n);
	for (size_t i = 0; kv_transformed(type) && i < n; i += (size_t)dim)
		hadamard(held + i, dim);
	t = tensor_new(be, type, heads * cap, dim, bytes);
	free(bytes);
	return t;
}

void round_keys(float *out, const float *x, int32_t heads, int32_t cap, int32_t n, int32_t dim, int32_t bits, int back)
{
	float *mean = must_alloc((size_t)dim * sizeof *mean), *turned = must_alloc((size_t)dim * sizeof *turned),
	      *y = must_alloc((size_t)dim * sizeof *y);
	float top = (float)((1 << bits) - 1),
	      *result = must_alloc((size_t)heads * (size_t)cap * (size_t)dim * sizeof *result);

	memcpy(result, x, (size_t)heads * (size_t)cap * (size_t)dim * sizeof *result);
	for (int32_t h = 0; h < heads; h++)
		for (int32_t k = 0; k < n; k++) {
			int32_t first = k / SKETCH_BLOCK * SKETCH_BLOCK;
			const float *key = x + ((size_t)h * (size_t)cap + (size_t)k) * (size_t)dim;
			float squares[4] = { 0 }, size, step;
			double product = 0, scale;

			if (first + SKETCH_BLOCK > n)
				first -= SKETCH_BLOCK;
			for (int32_t i = 0; i < dim && k % SKETCH_BLOCK == 0; i++) {
				mean[i] = 0;
				for (int32_t j = first; first >= 0 && j < first + SKETCH_BLOCK; j++)
					mean[i] += x[((size_t)h * (size_t)cap + (size_t)j) * (size_t)dim + (size_t)i];
				mean[i] /= SKETCH_BLOCK;
			}
			for (int32_t i = 0; i < dim; i++)
				y[i] = key[i] - mean[i];
			hadamard(y, dim);
			for (int32_t i = 0; i < dim; i++)
				squares[i % 4] += y[i] * y[i];
			size = (squares[0] + squares[2]) + (squares[1] + squares[3]);
			step = sketch_step(bits) * sqrtf(size / (float)dim);
			for (int32_t i = 0; i < dim; i++) {
				float code = step > 0 ? rintf(fminf(fmaxf(y[i] * (1 / step) + top / 2, 0), top)) : 0;

				turned[i] = 2 * code - top;
				product += (double)y[i] * turned[i];
			}
			scale = product > 0 ? (double)f16_to_f32(f32_to_f16((float)(size / product))) : 0;
			memcpy(y, mean, (size_t)dim * sizeof *y);
			for (int32_t i = 0; i < dim; i++)
				turned[i] = (float)(scale * (double)turned[i]);
			hadamard(back ? turned : y, dim);
			for (int32_t i = 0; i < dim; i++)
				result[((size_t)h * (size_t)cap + (size_t)k) * (size_t)dim + (size_t)i] =
					y[i] + turned[i];
		}
	memcpy(out, result, (size_t)heads * (size_t)cap * (size_t)dim * sizeof *result);
	free(result);
	free(mean);
	free(turned);
	free(y);
}

void scan_plain(double *out, double *slack, const float *keys, const float *q, int32_t n_head, int32_t n_kv,
                int32_t dim, int32_t cap, int32_t n, float scale, enum reduce how, double steps)
{
	int32_t group = n_head / n_kv;
	double *s = must_alloc((size_t)group * (size_t)n * sizeof *s);

	for (int32_t h = 0; h < n_kv; h++) {
		slack[h] = 0;
		for (int32_t r = 0; r < group; r++) {
			const float *x = q + (size_t)(h * group + r) * (size_t)dim;
			double top = -INFINITY, l = 0, large = 0;

			for (int32_t i = 0; i < dim; i++)
				large = fmax(large, fabs((double)x[i]));
			for (int32_t k = 0; k < n; k++) {
				const float *key = keys + ((size_t)h * (size_t)cap + (size_t)k) * (size_t)dim;
				double dot = 0, size = 0;

				for (int32_t i = 0; i < dim; i++) {
					dot += (double)x[i] * key[i];
					size += fabs((double)key[i]);
				}
				s[(size_t)r * (size_t)n + (size_t)k] = dot * scale;
				top = fmax(top, dot * scale);
				slack[h] = fmax(slack[h], size * large * scale / steps);
			}
			for (int32_t k = 0; k < n; k++)
				l += exp(s[(size_t)r * (size_t)n + (size_t)k] - top);
			for (int32_t k = 0; k < n; k++)
				s[(size_t)r * (size_t)n + (size_t)k] -= top + log(l);
		}
		for (int32_t k = 0; k < n; k++) {
			double top = s[k], sum = 0;

			for (int32_t r = 0; r < group; r++) {
				top = fmax(top, s[(size_t)r * (size_t)n + (size_t)k]);
				sum += exp(s[(size_t)r * (size_t)n + (size_t)k]);
			}
			out[(size_t)h * (size_t)n + (size_t)k] = how == REDUCE_MAX ? top : log(sum / group);
		}
	}
	free(s);
}

int sketches_equal(const uint8_t *a, const uint8_t *b, int32_t heads, int32_t cap, int32_t n, int32_t dim, int32_t bits)
{
	size_t block_bytes = sketch_block_bytes(dim, bits), scales = sketch_mean_bytes(dim),
	       panels = sketch_head_bytes(dim);
	size_t panel_bytes = sketch_panel_bytes(dim, bits);

	for (int32_t h = 0; h < heads; h++)
		for (int32_t block = 0; block < sketch_blocks(n); block++) {
			size_t at = ((size_t)h * (size_t)sketch_blocks(cap) + (size_t)block) * block_bytes;
			int32_t keys =
				n - block * SKETCH_BLOCK < SKETCH_BLOCK ? n - block * SKETCH_BLOCK : SKETCH_BLOCK;

			if (memcmp(a + at, b + at, 4 * ((size_t)dim + 1)) ||
			    memcmp(a + at + scales, b + at + scales, 2 * (size_t)keys))
				return 0;
			for (int32_t k = 0; k < keys; k++)
				for (int32_t u = 0; u < sketch_units(dim, bits); u++) {
					size_t lane = at + panels + (size_t)(k / SKETCH_PANEL) * panel_bytes +
					              64 * (size_t)u + 4 * (size_t)(k % SKETCH_PANEL);

					if (memcmp(a + lane, b + lane, 4))
						return 0;
				}
		}
	return 1;
}

struct tensor sketch_new(struct backend *be, const struct tensor *plane, const struct shape *s, int32_t bits,
                         int ragged)
{
	uint64_t bytes = be->ops->key_sketch_bytes(be, s->n_kv, s->cap, s->dim, bits);
	struct tensor copy = tensor_new(be, DT_U8, 1, (int32_t)bytes, NULL);
	static const int32_t steps[] = { 1, 1, 7, 16, 40, 3, 200, 1, 64 };

	for (int32_t at = 0, i = 0; at < s->n; i++) {
		int32_t n = ragged ? steps[i % 9] : s->n;

		n = n < s->n - at ? n : s->n - at;
		be->ops->key_sketch(be, &copy, plane, s->n_kv, s->cap, bits, at, n);
		at += n;
	}
	return copy;
}

int32_t overlap(const int32_t *a, const int32_t *b, int32_t n)
{
	int32_t both = 0;

	for (int32_t i = 0, j = 0; i < n && j < n;)
		if (a[i] == b[j]) {
			both++;
			i++;
			j++;
		} else if (a[i] < b[j]) {
			i++;
		} else {
			j++;
		}
	return both;
}

int better(const void *pa, const void *pb)
{
	const struct ranked *a = pa, *b = pb;

	if (a->pooled != b->pooled)
		return a->pooled > b->pooled ? -1 : 1;
	if (a->raw != b->raw)
		return a->raw > b->raw ? -1 : 1;
	return a->row > b->row ? -1 : 1;
}

static int by_number(const void *a, const void *b)
{
	int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

	return x < y ? -1 : x > y;
}

void topk_plain(int32_t *out, const float *x, int32_t n, int32_t k, int32_t pool, int32_t first, int32_t last,
                int best_first)
{
	struct ranked *all = must_alloc((size_t)n * sizeof *all);
	char *forced = must_alloc((size_t)n);
	int32_t c = 0, left = k;

	for (int32_t i = 0; i < first && left > 0; i++, left--)
		forced[i] = 1;
	for (int32_t i = n - 1; i >= n - last && i >= 0 && left > 0; i--)
		if (!forced[i]) {
			forced[i] = 1;
			left--;
		}
	for (int32_t i = 0; i < n; i++) {
		all[i] = (struct ranked){ -INFINITY, x[i] > -INFINITY ? x[i] : -INFINITY, i };
		for (int32_t j = i - pool / 2; j <= i + pool / 2; j++)
			if (j >= 0 && j < n && x[j] > all[i].pooled)
				all[i].pooled = x[j];
	}
	qsort(all, (size_t)n, sizeof *all, better);
	for (int32_t i = 0; i < n; i++)
		if (forced[all[i].row] || left-- > 0)
			out[c++] = all[i].row;
	if (!best_first)
		qsort(out, (size_t)k, sizeof *out, by_number);
	free(all);
	free(forced);
}

void random_scores(float *x, int32_t n, int kind)
{
	for (int32_t i = 0; i < n; i++)
		switch (kind) {
		case 0: x[i] = -8 + 3 * bell(); break;
		case 1: x[i] = (float)(test_rand() % 5) - 2; break;
		case 2: x[i] = i % 2 ? -0.0f : 0.0f; break;
		case 3: x[i] = test_rand() % 3 ? bell() : test_rand() % 2 ? -INFINITY : NAN; break;
		case 4: x[i] = NAN; break;
		case 5: x[i] = test_rand() % 50 ? -3e38f * test_randf(0, 1) : INFINITY; break;
		case 6: /* ascending scores: the best ones are all at the end */ x[i] = (float)i * 1e-3f - 20; break;
		default: /* peaks at the sample's step, so that its estimate is wrong and the fallback is used */
			x[i] = i % (n / 512 ? n / 512 : 1) == 0 ? 5.0f + 0.001f * bell() : bell();
		}
}

/* Check the sample of one KV head: slots are sampled in proportion to exp(score), spread over the sequence, and
 * weighted by the inverse of their probability. Returns their number. */
static int32_t sample_of_head_holds(const char *name, const float *x, int32_t n, int32_t k, int32_t sample,
                                    const int32_t *slot, const float *bias)
{
	double top = -INFINITY, all = 0, sum = 0, scale, worst = 0, off = 0;
	char *chosen = must_alloc((size_t)n);
	int32_t taken = 0, last = -1;

	memset(chosen, 0, (size_t)n);
	for (int32_t i = 0; i < k; i++) {
		chosen[slot[i]] = 1;
		top = x[slot[i]] > top ? x[slot[i]] : top;
		CHECK_MSG(bias[i] == 0, "%s: a selected slot has a bias of %g", name, (double)bias[i]);
	}
	for (int32_t i = 0; i < n; i++)
		all += chosen[i] || !(x[i] > -INFINITY) ? 0 : exp(x[i] - top);
	while (taken < sample && bias[k + taken] != SAMPLE_NONE)
		taken++;
	for (int32_t i = taken; i < sample; i++)
		CHECK_MSG(bias[k + i] == SAMPLE_NONE && slot[k + i] >= 0 && slot[k + i] < n,
		          "%s: slot %d behind the sample", name, (int)i);
	scale = all > 0 ? sample / all : 0;
	for (int32_t i = 0, at = 0; i < n; i++) {
		double p = chosen[i] || !(x[i] > -INFINITY) ? 0 : fmin(1, scale * exp(x[i] - top));

		sum += p;
		if (at < taken && slot[k + at] == i) {
			CHECK_MSG(!chosen[i] && i > last && p > 0, "%s: slot %d is sampled, after %d", name, (int)i,
			          (int)last);
			worst = fmax(worst, fabs(bias[k + at] + log(p)));
			last = i;
			at++;
		}
		off = fmax(off, fabs(at - sum));
		if (i == n - 1)
			CHECK_MSG(at == taken, "%s: %d of %d sampled slots do not ascend", name, (int)(taken - at),
			          (int)taken);
	}
	/* The selection uses its own exp(), which is precise to 1/1000, for the probabilities in the biases. */
	CHECK_MSG(worst < 4e-3, "%s, %d and %d of %d: a bias is off by %g", name, (int)k, (int)sample, (int)n, worst);
	/* Up to each slot, the number of sampled slots must be the rounded sum of the probabilities. A sum near one
	 * half may be rounded either way. */
	CHECK_MSG(off < 0.51 + 2e-3 * sample, "%s, %d and %d of %d: %g slots from what the probabilities say", name,
	          (int)k, (int)sample, (int)n, off);
	free(chosen);
	return taken;
}

void sample_holds(struct backend *be, const char *name, int32_t n, int32_t k, int32_t sample, int kind)
{
	enum { HEADS = 3 };
	int32_t *want = must_alloc((size_t)k * sizeof *want), cols = k + sample, *got;
	float *x = must_alloc((size_t)HEADS * (size_t)(n + 3) * sizeof *x), *weight;
	struct tensor score, slots, bias;

	for (int32_t h = 0; h < HEADS; h++)
		random_scores(x + h * (n + 3), n, kind);
	score = tensor_new(be, DT_F32, HEADS, n + 3, x);
	slots = guarded(be, DT_I32, HEADS, cols);
	bias = guarded(be, DT_F32, HEADS, cols);
	be->ops->topk(be, &(struct topk_args){ .slots = &slots,
	                                       .score = &score,
	                                       .n_kv_head = HEADS,
	                                       .n = n,
	                                       .k = k,
	                                       .pool = 1,
	                                       .sample = sample,
	                                       .bias = &bias });
	got = unguarded(be, &slots);
	weight = unguarded(be, &bias);
	CHECK_MSG(be->ops->sync(be) == 0, "%s: %s", name, be->err);
	for (int32_t h = 0; h < HEADS; h++) {
		topk_plain(want, x + h * (n + 3), n, k, 1, 0, 0, 0);
		CHECK_MSG(!memcmp(want, got + h * cols, (size_t)k * sizeof *want),
		          "%s: other slots with a sample, %d of %d, kind %d", name, (int)k, (int)n, kind);
		/* With an infinite best score, probabilities are undefined. */
		if (kind != 5)
			sample_of_head_holds(name, x + h * (n + 3), n, k, sample, got + h * cols, weight + h * cols);
		for (int32_t i = 0; i < cols; i++)
			CHECK(got[h * cols + i] >= 0 && got[h * cols + i] < n &&
			      weight[h * cols + i] == weight[h * cols + i]);
	}
	be->ops->drop(be, &score);
	free(got);
	free(weight);
	free(x);
	free(want);
}

void page_rows_agree(struct backend *be)
{
	static const int32_t sizes[] = { 0, 1, 15, 16, 17, 31, 33, 255, 256, 257, 496, 511, 512, 513, 1024, 4097 };
	enum { SIZES = LEN(sizes) };

	for (int round = 0; round < SIZES + 30; round++) {
		int32_t n = round < SIZES ? sizes[round] : (int32_t)(test_rand() % 3000),
			heads = 1 + (int32_t)(test_rand() % 9);
		int32_t page = PAGE_UNIT * (1 + (int32_t)(test_rand() % (PAGE_MOST / PAGE_UNIT)));
		int32_t cols = n / page + 1 + (int32_t)(test_rand() % 4), off = 0, *got;
		int32_t *from = must_alloc((size_t)heads * (size_t)cols * sizeof *from);
		struct tensor pages, rows = guarded(be, DT_I32, heads, n);

		for (int32_t i = 0; i < heads * cols; i++)
			from[i] = (int32_t)(test_rand() % (1 << 24));
		pages = tensor_new(be, DT_I32, heads, cols, from);
		be->ops->page_slots(be, &rows, &pages, heads, page, n);
		got = unguarded(be, &rows);
		for (int32_t h = 0; h < heads; h++)
			for (int32_t i = 0; i < n; i++)
				off += got[h * n + i] != page * from[h * cols + i / page] + i % page;
		CHECK_MSG(!off, "%d of %d slots of %d heads are wrong", off, (int)n, (int)heads);
		CHECK_MSG(be->ops->sync(be) == 0, "%s", be->err);
		be->ops->drop(be, &pages);
		free(from);
		free(got);
	}
}

void must_fail(struct backend *be, const char *what)
{
	CHECK_MSG(be->ops->sync(be) < 0, "%s was not refused", what);
}

void refuses_bad_operands(struct backend *be)
{
	static const int32_t no_page[] = { 0, -16, 12, PAGE_MOST + PAGE_UNIT };
	struct tensor plane, copy, small, q, out, turn, rows, move, list, pages;
	struct scan_args scan = { .out = &out,
		                  .q = &q,
		                  .n_head = 2,
		                  .n_kv_head = 2,
		                  .head_dim = 8,
		                  .cap = 16,
		                  .n_slots = 16,
		                  .bits = 2,
		                  .scale = 1 };
	struct topk_args top = { .slots = &rows, .score = &out, .n_kv_head = 2, .n = 16, .k = 4, .pool = 1 };

	plane = tensor_new(be, DT_F16, 32, 8, NULL);
	small = tensor_new(be, DT_U8, 1, 64, NULL);
	q = tensor_new(be, DT_F32, 1, 16, NULL);
	out = tensor_new(be, DT_F32, 2, 16, NULL);
	turn = tensor_new(be, DT_F32, 2, 6, NULL);
	rows = tensor_new(be, DT_I32, 2, 16, NULL);
	move = tensor_new(be, DT_I32, 2, 3, NULL);
	list = tensor_new(be, DT_I32, 2, 64, NULL);
	pages = tensor_new(be, DT_F32, 2, 16, NULL);
	copy = tensor_new(be, DT_U8, 1, (int32_t)be->ops->key_sketch_bytes(be, 2, 16, 8, 2), NULL);
	be->ops->key_sketch(be, &small, &plane, 2, 16, 2, 0, 1);
	must_fail(be, "a small sketch");
	be->ops->key_sketch(be, &copy, &plane, 2, 16, 3, 0, 1);
	must_fail(be, "a sketch of 3 bits");
	be->ops->key_sketch(be, &copy, &plane, 2, 16, 2, 10, 7);
	must_fail(be, "slots past the end");
	be->ops->key_sketch(be, &copy, &plane, 2, 17, 2, 0, 1);
	must_fail(be, "a longer cache than the plane");
	scan.keys = &plane;
	be->ops->key_scan(be, &scan);
	must_fail(be, "a plane as a sketch");
	scan.keys = &copy;
	scan.bits = 16;
	be->ops->key_scan(be, &scan);
	must_fail(be, "a sketch as a plane");
	scan.bits = 2;
	scan.n_slots = 17;
	be->ops->key_scan(be, &scan);
	must_fail(be, "a scan past the end");
	scan.n_slots = 16;
	scan.reduce = REDUCE_MEDIAN;
	be->ops->key_scan(be, &scan);
	must_fail(be, "a median");
	scan.reduce = REDUCE_MAX;
	scan.page = 16;
	be->ops->page_scan(be, &scan);
	must_fail(be, "a sketch as bounds");
	scan.when = (struct predicate){ &out, 0, 0, NULL };
	be->ops->key_scan(be, &scan);
	must_fail(be, "a condition of floats");
	scan.when = (struct predicate){ NULL, 0, 0, NULL };
	be->ops->page_bounds(be, &turn, &plane, 2, 16, 16, 0, 16);
	must_fail(be, "bounds of another width");
	be->ops->page_bounds(be, &pages, &plane, 2, 16, 8, 0, 16);
	must_fail(be, "bounds of fewer pages");
	scan.keys = &pages;
	for (size_t i = 0; i < LEN(no_page); i++) {
		be->ops->page_bounds(be, &pages, &plane, 2, 16, no_page[i], 0, 16);
		must_fail(be, "bounds of pages of a wrong size");
		scan.page = no_page[i];
		be->ops->page_scan(be, &scan);
		must_fail(be, "a scan of pages of a wrong size");
		be->ops->page_slots(be, &list, &move, 2, no_page[i], 8);
		must_fail(be, "slots of pages of a wrong size");
	}
	scan.page = 16;
	be->ops->page_bounds(be, &pages, &plane, 2, 16, 16, 0, 16);
	be->ops->page_scan(be, &scan);
	CHECK_INT(be->ops->sync(be), 0);
	scan.keys = &copy;
	scan.n_slots = 0;
	be->ops->key_scan(be, &scan);
	CHECK_INT(be->ops->sync(be), 0);
	top.k = 17;
	be->ops->topk(be, &top);
	must_fail(be, "more slots than there are");
	top.k = 0;
	be->ops->topk(be, &top);
	must_fail(be, "no slots");
	top.k = 4;
	top.pool = 4;
	be->ops->topk(be, &top);
	must_fail(be, "an even pool");
	top.pool = 1;
	top.slots = &out;
	be->ops->topk(be, &top);
	must_fail(be, "slots that are floats");
	be->ops->page_slots(be, &rows, &move, 2, 16, 17);
	must_fail(be, "more slots of pages than the list has");
	be->ops->page_slots(be, &list, &move, 2, 16, 49);
	must_fail(be, "slots of more pages than there are");
	be->ops->page_slots(be, &list, &move, 3, 16, 16);
	must_fail(be, "pages of more heads than there are");
	be->ops->page_slots(be, &list, &move, 0, 16, 16);
	must_fail(be, "pages of no heads");
	be->ops->page_slots(be, &list, &move, 2, 16, -1);
	must_fail(be, "fewer than no slots of pages");
	be->ops->page_slots(be, &out, &move, 2, 16, 16);
	must_fail(be, "slots of pages that are floats");
	be->ops->page_slots(be, &list, &out, 2, 16, 16);
	must_fail(be, "pages that are floats");
	be->ops->page_slots(be, &list, &list, 2, 16, 16);
	must_fail(be, "pages that would be overwritten by their slots");
	be->ops->page_slots(be, &list, NULL, 2, 16, 16);
	must_fail(be, "no pages");
	be->ops->page_slots(be, &list, &move, 2, 16, 48);
	CHECK_INT(be->ops->sync(be), 0);
	be->ops->kv_move(
		be, &plane,
		&(struct kv_moves){
			.move = &move, .shift = &turn, .n = 1, .n_kv_head = 2, .head_dim = 8, .dims = 8, .cap = 16 });
	must_fail(be, "turns of another width");
	be->ops->kv_move(be, &plane,
	                 &(struct kv_moves){ .move = &move, .n = 2, .n_kv_head = 2, .head_dim = 8, .cap = 16 });
	must_fail(be, "more moves than the list has");
	struct tensor *all[] = { &plane, &copy, &small, &q, &out, &turn, &rows, &move, &list, &pages };

	for (int i = 0; i < 10; i++)
		be->ops->drop(be, all[i]);
}
