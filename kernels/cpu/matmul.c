/* kernels/cpu/matmul.c - matmul and matmul_glu: quantises the input, divides the outputs into tiles, adds the bias and
 * the old output. */
#include <math.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/cols.h"

enum {
	MAX_PRODUCTS = 8, /* maximum number of products in one run of the pool */
	/* number of floats of a tile, which has the results of one leaf call. matmul_glu needs two tiles, which take
	 * half of a small L2 cache. */
	TILE_FLOATS = 16 << 10,
	/* number of columns of a task: two tiles (cols.h) of 12 columns, the widest tile of the level avx512 */
	COL_TILE = 2 * 12,
	/* bytes of weights of a task with many columns; weights of this size stay in the L2 cache */
	RUN_BYTES = 512 << 10,
	/* minimum number of panels (rows of weights side by side) of a task with many columns; with fewer panels,
	 * preparing the columns would take too long */
	RUN_PANELS = 16,
	/* minimum work of a task: the bytes of its weights times its number of columns. With less work, another thread
	 * costs more than it saves. */
	TASK_BYTES = 24 << 10,
	SHARE_BYTES = 4 << 20, /* bytes of weights per task if a thread gets several tasks */
};

static void quantize_task(void *arg, int task, int worker)
{
	const struct row_job *j = arg;

	(void)worker;
	FOR_TASK_ROWS(i, j, task)
		j->c->fns->quantize(j->act, i);
}

/* Quantise all rows of a->x. Return 0, or -1 with the error set. */
static int act_quantize(struct cpu *c, struct act *a)
{
	struct row_job j = { .c = c, .n = a->n, .cols = a->cols, .act = a };
	size_t values = (size_t)a->n * (size_t)a->cols;
	size_t q = align64(values), w = align64(values / 32), d = align64(values / 32 * sizeof(float));
	size_t s = align64(values / 16 * sizeof(int32_t));
	char *p;

	if (a->cols % 32)
		return backend_fail(&c->base, "internal: %d columns are not whole blocks of 32", (int)a->cols);
	if (cpu_buffer_grow(c, &c->act, 2 * q + w + d + 2 * s) < 0)
		return -1;
	p = c->act.p;
	a->q = (int8_t *)p;
	a->lo = (int8_t *)(p += q);
	a->wide = (uint8_t *)(p += q);
	a->d = (float *)(void *)(p += w);
	a->sum = (int32_t *)(void *)(p += d);
	a->lo_sum = (int32_t *)(void *)(p + s);
	cpu_run_rows(&j, quantize_task);
	return 0;
}

struct weight {
	const uint8_t *data;
	enum dtype type;
	int packed;
	size_t row_bytes, panel_bytes;
};

struct product { /* one product of matmul(), or the two products of matmul_glu(), with the weights `gate` and `up` */
	struct weight w, up;
	float *out;
	const float *bias, *up_bias;
	int accumulate;
	int32_t rows, panels;
};

struct product_job {
	struct cpu *c;
	struct act x;
	int n_products, glu;
	enum activation act; /* activation function of matmul_glu */
	int32_t panels;      /* number of panels in all products */
	int32_t panel_tasks; /* number of ranges into which the panels are divided */
	int32_t col_tile, col_tiles;
	/* A thread's scratch memory has scratch_bytes bytes: cols_bytes bytes of prepared columns, then one tile of
	 * results, or two tiles for matmul_glu. */
	size_t cols_bytes;
	size_t scratch_bytes;
	struct product product[MAX_PRODUCTS];
};

/* Return n columns of a, from column c0 on, as a separate struct, because leaf functions start at column 0. */
static struct act act_from(const struct act *a, int32_t c0, int32_t n)
{
	struct act v = *a;
	size_t i = (size_t)c0, cols = (size_t)a->cols;

	v.x += i * cols;
	if (v.q) {
		v.q += i * cols;
		v.lo += i * cols;
		v.wide += i * (cols / 32);
		v.d += i * (cols / 32);
		v.sum += i * (cols / 16);
		v.lo_sum += i * (cols / 16);
	}
	v.n = n;
	return v;
}

/* The state of one task. */
struct task {
	const struct product_job *job;
	struct act x;     /* the task's columns */
	struct cols cols; /* the task's columns, prepared; if n is 0, they are not prepared yet */
	int32_t c0;
	char *scratch;
	float *tile;
};

/* Return the functions for products of n columns. */
static const struct packed_fns *packed_fns_of(const struct cpu *c, int32_t n)
{
	const struct cpu_fns *f = c->fns;

	return f->many && n >= f->many_columns ? f->many : &f->packed;
}

static void weight_times(struct task *t, const struct weight *w, int32_t panel, int32_t n_panels, int32_t n_rows,
                         float *out, int32_t ld)
{
	const struct cpu_fns *f = t->job->c->fns;
	const struct packed_fns *p = packed_fns_of(t->job->c, t->x.n);
	struct pack_format format;

	if (!w->packed) {
		f->matmul_rows(w->type, w->data + (size_t)panel * (size_t)f->panel * w->row_bytes, w->row_bytes, n_rows,
		               &t->x, 0, t->x.n, out, ld);
		return;
	}
	format = p->format(w->type);
	if (!t->cols.n || !cols_serve(&t->cols, format))
		cols_prepare(&t->cols, format, p->widths, &t->x, 0, t->x.n, t->scratch);
	p->matmul_panels(w->type, w->data + (size_t)panel * w->panel_bytes, n_panels, &t->cols, out, ld);
}

/* Store a tile of results [n][ld] in the output rows: add the bias, and the old output if the product accumulates. */
static void store_tile(const struct product *p, const float *tile, int32_t ld, int32_t r0, int32_t nr, int32_t c0,
                       int32_t n, const float *bias)
{
	for (int32_t c = 0; c < n; c++, tile += ld) {
		float *out = p->out + (size_t)(c0 + c) * (size_t)p->rows + r0;

		if (bias && p->accumulate)
			for (int32_t r = 0; r < nr; r++)
				out[r] += tile[r] + bias[r0 + r];
		else if (bias)
			for (int32_t r = 0; r < nr; r++)
				out[r] = tile[r] + bias[r0 + r];
		else if (p->accumulate)
			for (int32_t r = 0; r < nr; r++)
				out[r] += tile[r];
		else
			memcpy(out, tile, (size_t)nr * sizeof *out);
	}
}

/* Add the bias to the first nr values of each of n rows [n][ld]. Do nothing if bias is NULL. */
static void add_bias(float *rows, int32_t ld, const float *bias, int32_t nr, int32_t n)
{
	for (int32_t c = 0; bias && c < n; c++, rows += ld)
		for (int32_t r = 0; r < nr; r++)
			rows[r] += bias[r];
}

/* Compute n panels of one product, from panel p on. */
static void product_panels(struct task *t, const struct product *product, int32_t p, int32_t n)
{
	const struct product_job *j = t->job;
	const struct cpu_fns *f = j->c->fns;
	int32_t most = TILE_FLOATS / (f->panel * t->x.n);

	for (int32_t m; n > 0; n -= m, p += m) {
		int32_t r0 = p * f->panel, nr, ld;
		float *out = t->tile;

		if (cpu_cancelled(j->c))
			return;
		m = MIN(n, most);
		ld = m * f->panel;
		nr = MIN(ld, product->rows - r0);
		/* Write the product directly to the output if it has only whole panels, and if no bias or old output
		 * must be added to it. Biases do not prevent this for matmul_glu, because it adds biases in place. */
		int direct = nr == ld && (j->glu || !product->bias) && !product->accumulate;

		if (direct) {
			out = product->out + (size_t)t->c0 * (size_t)product->rows + r0;
			ld = product->rows;
		}
		weight_times(t, &product->w, p, m, nr, out, ld);
		if (j->glu) {
			float *up = t->tile + TILE_FLOATS;
			/* the width of whole panels, so that glu() computes only whole vectors */
			int32_t width = m * f->panel;

			weight_times(t, &product->up, p, m, nr, up, width);
			add_bias(out, ld, product->bias ? product->bias + r0 : NULL, nr, t->x.n);
			add_bias(up, width, product->up_bias ? product->up_bias + r0 : NULL, nr, t->x.n);
			for (int32_t c = 0; c < t->x.n; c++)
				f->glu(j->act, out + (size_t)c * (size_t)ld, up + (size_t)c * (size_t)width, width);
		}
		if (!direct)
			store_tile(product, out, ld, r0, nr, t->c0, t->x.n, j->glu ? NULL : product->bias);
	}
}

/* Compute some columns (a tile) for a range of weight panels. Consecutive tasks use the same panels with other columns,
 * so that the panels are in the caches. */
static void product_task(void *arg, int task, int worker)
{
	const struct product_job *j = arg;
	int32_t range = task / j->col_tiles, c0 = task % j->col_tiles * j->col_tile;
	int32_t p = (int32_t)((int64_t)j->panels * range / j->panel_tasks);
	int32_t left = (int32_t)((int64_t)j->panels * (range + 1) / j->panel_tasks) - p;
	struct task t = { .job = j, .c0 = c0, .x = act_from(&j->x, c0, MIN(j->col_tile, j->x.n - c0)) };

	t.cols.n = 0;
	t.scratch = (char *)j->c->scratch.p + (size_t)worker * j->scratch_bytes;
	t.tile = (float *)(void *)(t.scratch + j->cols_bytes);
	for (const struct product *product = j->product; left > 0; product++) {
		int32_t n = MIN(left, product->panels - p);

		if (n > 0) {
			product_panels(&t, product, p, n);
			left -= n;
			p += n;
		}
		p -= product->panels;
	}
}

static int weight_set(struct cpu *c, struct weight *w, const struct tensor *t, const struct tensor *x)
{
	if (!t || !t->data || t->cols != x->cols)
		return backend_fail(&c->base, "internal: matmul got a weight of the wrong shape");
	w->data = t->data;
	w->type = t->type;
	w->packed = t->layout == LAYOUT_PACKED;
	w->row_bytes = row_bytes(t);
	w->panel_bytes = w->packed ? c->fns->pack_bytes(t->type, t->cols) : w->row_bytes * (size_t)c->fns->panel;
	return 0;
}

/* Divide the products into tasks and run these. */
static void product_run(struct product_job *j)
{
	struct cpu *c = j->c;
	int32_t n = j->x.n, tasks;
	double work = 0;
	int q8 = 0;

	j->panels = 0;
	for (int i = 0; i < j->n_products; i++) {
		struct product *p = &j->product[i];

		p->panels = ceil_div(p->rows, c->fns->panel);
		j->panels += p->panels;
		work += (double)p->panels * (double)(p->w.panel_bytes + (j->glu ? p->up.panel_bytes : 0));
		q8 |= c->fns->wants_q8(p->w.type) || (j->glu && c->fns->wants_q8(p->up.type));
	}
	if (q8 && !j->x.q && act_quantize(c, &j->x) < 0)
		return;
	j->cols_bytes = align64(cols_scratch(j->x.cols));
	j->scratch_bytes = j->cols_bytes + TILE_FLOATS * sizeof(float) * (j->glu ? 2 : 1);
	if (cpu_buffer_grow(c, &c->scratch, j->scratch_bytes * (size_t)c->base.threads) < 0)
		return;

	j->col_tile = MIN(n, packed_fns_of(c, n) == c->fns->many ? COLS_SET : COL_TILE);
	j->col_tiles = ceil_div(n, j->col_tile);
	if (j->col_tiles > 1) {
		int32_t enough = ceil_div(c->base.threads * 8, j->col_tiles);

		/* A task multiplies a range of weight panels with some columns. A range is so small that its weights
		 * stay in the caches. If there would be too few tasks to balance the threads, ranges are made
		 * smaller. */
		tasks = (int32_t)fmin(work / RUN_BYTES, j->panels / RUN_PANELS);
		if (c->base.threads > 1 && tasks < enough)
			tasks = MIN(enough, j->panels / 4);
	} else {
		/* In decode a run of the pool takes only 10 to 50 microseconds and is cheapest with one task per
		 * thread. Larger products have several tasks per thread: if a thread is held up, other threads take
		 * its tasks. */
		tasks = c->base.threads * (int32_t)fmin(1 + work / c->base.threads / SHARE_BYTES, 8);
		if (work * n / TASK_BYTES < tasks)
			tasks = (int32_t)(work * n / TASK_BYTES) + 1;
		if (c->base.threads == 1)
			tasks = 1;
	}
	j->panel_tasks = tasks < 1 ? 1 : MIN(tasks, j->panels);
	pool_run(c->pool, product_task, j, j->panel_tasks * j->col_tiles);
}

/* 1 if all blocks of the activations must be coded in 16 bits. This is so for Q8_0 weights, because 8-bit activations
 * would be less exact than the weights. If `narrow` is 1, however, only blocks with outliers are coded in 16 bits
 * (struct matmul). */
static int wants_wide(const struct tensor *w, int narrow)
{
	return w->type == DT_Q8_0 && !narrow;
}

void cpu_matmul(struct backend *be, const struct matmul *m, int32_t n_m, const struct tensor *x, int32_t n)
{
	struct cpu *c = cpu_of(be);
	struct product_job j;

	if (be->failed || n <= 0 || n_m <= 0 || cpu_cancelled(c))
		return;
	j.c = c;
	j.glu = 0;
	j.x = (struct act){ .x = cpu_rows_of(be, x, n, 0, "matmul"), .n = n, .cols = x->cols };
	if (!j.x.x)
		return;
	for (int32_t i = 0; i < n_m; i++)
		j.x.all_wide |= wants_wide(m[i].w, m[i].narrow);
	for (int32_t i = 0; i < n_m;) {
		for (j.n_products = 0; i < n_m && j.n_products < MAX_PRODUCTS; i++) {
			struct product *p = &j.product[j.n_products++];

			if (weight_set(c, &p->w, m[i].w, x) < 0)
				return;
			p->rows = m[i].w->rows;
			p->accumulate = m[i].accumulate;
			p->bias = NULL;
			p->out = cpu_rows_of(be, m[i].out, n, p->rows, "matmul");
			if (m[i].bias)
				p->bias = cpu_rows_of(be, m[i].bias, 1, p->rows, "matmul");
			if (be->failed)
				return;
		}
		product_run(&j);
	}
}

void cpu_matmul_glu(struct backend *be, struct tensor *out, const struct matmul_glu *m, const struct tensor *x,
                    int32_t n)
{
	const struct tensor *gate = m->gate, *up = m->up;
	struct cpu *c = cpu_of(be);
	struct product_job j;
	struct product *p = &j.product[0];

	if (be->failed || n <= 0 || cpu_cancelled(c))
		return;
	j.c = c;
	j.glu = 1;
	j.act = m->act;
	j.n_products = 1;
	j.x = (struct act){ .x = cpu_rows_of(be, x, n, 0, "matmul_glu"), .n = n, .cols = x->cols };
	if (!j.x.x || weight_set(c, &p->w, gate, x) < 0 || weight_set(c, &p->up, up, x) < 0)
		return;
	if (gate->rows != up->rows) {
		backend_fail(be, "internal: matmul_glu got gate and up of different shapes");
		return;
	}
	j.x.all_wide = wants_wide(gate, m->narrow) || wants_wide(up, m->narrow);
	p->rows = gate->rows;
	p->bias = m->gate_bias ? cpu_rows_of(be, m->gate_bias, 1, p->rows, "matmul_glu") : NULL;
	p->up_bias = m->up_bias ? cpu_rows_of(be, m->up_bias, 1, p->rows, "matmul_glu") : NULL;
	p->accumulate = 0;
	p->out = cpu_rows_of(be, out, n, p->rows, "matmul_glu");
	if (!be->failed)
		product_run(&j);
}
