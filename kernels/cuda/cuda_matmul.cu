/* kernels/cuda/cuda_matmul.cu - matmul and matmul_glu. Products of up to eight tokens are computed by cuda_gemv.cu,
 * products of more tokens by cuBLAS. If the weight is a single row of floats, cuda_gemv.cu computes the product for any
 * number of tokens.
 *
 * For cuBLAS, x is converted to f16; a token whose largest value is too large or too small for f16 is scaled by a power
 * of two (half_exponent()). Weights of other types are converted to f16, cuda_tile_bytes at a time, and scaled in the
 * same way. cuBLAS sums in f32. Then the kernel product_finish undoes the scaling and applies bias, accumulation and
 * act(gate) * up.
 *
 * Precision: f16 has 11 bits, so x and converted weights each have an error of about 2e-8 (NMSE).
 *
 * Launches for up to eight tokens: 1 or 2 for all products of a call. For more tokens: 1 to convert x; for each product
 * 1 (cuBLAS) or, if the weight must be converted, 2 per range of rows (conversion, cuBLAS); then 1 to finish a product,
 * or to finish gate and up together. */
#include "kernels/cuda/cuda_gemv.cuh"

enum { THREADS = 256, FINISH_VALUES = 1024 };

/* Maximum size of weights in bytes that are converted at a time. Tests reduce this number. */
extern "C" size_t cuda_tile_bytes;
size_t cuda_tile_bytes = (size_t)128 << 20;

/* ---- checks ---- */

/* Set *out to weight t, which must have as many columns as x. Return 0, or -1 with the error set. */
static int weight_of(struct cuda *c, const struct tensor *t, const struct tensor *x, struct weight_rows *out)
{
	if (!t || !t->data || t->cols != x->cols)
		return backend_fail(&c->base, "internal: matmul got a weight of the wrong shape");
	return cuda_weight_rows(c, t, out);
}

/* ---- a few tokens ---- */

/* Compute the products in launches of at most GEMV_TOKENS tokens. */
static void run_few(struct cuda *c, struct gemv_args *a, const float *x, int32_t n)
{
	for (int32_t i = 0; i < n; i += a->n) {
		a->x = x + (size_t)i * (size_t)a->cols;
		a->n = MIN(n - i, (int32_t)GEMV_TOKENS);
		if (cuda_gemv(c, a) < 0)
			return;
		for (int p = 0; p < a->n_products; p++)
			a->product[p].out += (size_t)a->n * (size_t)a->product[p].w.rows;
	}
}

/* ---- many tokens ---- */

struct half_x_args {
	const float *x;
	uint16_t *out;
	int32_t *exponent;
	int32_t cols;
};

/* Convert x to f16, scaled by a power of two for each token (half_exponent()). A thread block converts one token. */
__global__ void x_to_half(struct half_x_args a)
{
	SHARED(unsigned, most, [THREADS / WARP]);
	const float *x = a.x + (size_t)blockIdx.x * (size_t)a.cols;
	uint16_t *out = a.out + (size_t)blockIdx.x * (size_t)a.cols;
	unsigned top = 0;
	int e;

	for (int i = (int)threadIdx.x; i < a.cols; i += THREADS)
		top = max(top, __float_as_uint(x[i]) & 0x7fffffffu);
	for (int d = WARP / 2; d > 0; d /= 2)
		top = max(top, __shfl_xor_sync(FULL_WARP, top, d));
	if (threadIdx.x % WARP == 0)
		most[threadIdx.x / WARP] = top;
	__syncthreads();
	for (int i = 0; i < THREADS / WARP; i++)
		top = max(top, most[i]);
	e = half_exponent(top);
	if (threadIdx.x == 0)
		a.exponent[blockIdx.x] = e;
	for (int i = (int)threadIdx.x; i < a.cols; i += THREADS)
		out[i] = __half_as_ushort(__float2half_rn(times_power(x[i], e)));
}

struct finish_args {
	/* `a` is a product [n][rows]. In a gated feed-forward, `up` is the product with the up weight; otherwise it is
	 * NULL. */
	const float *a, *up;
	float *out;
	const float *bias, *up_bias; /* [rows] biases, or NULL */
	const int32_t *exponent;     /* [n] exponent of each token's scale */
	/* headers of the weights, which determine the weights' scales; NULL: the weight is not scaled */
	const struct weight_head *head, *head_up;
	int32_t rows, accumulate;
	int32_t act; /* the activation function of a gated unit, an enum activation */
};

/* Undo the scaling of a product, and apply bias, accumulation and the gated unit. */
__global__ void product_finish(struct finish_args a)
{
	int e = -a.exponent[blockIdx.y], e_up = e - (a.head_up ? half_exponent(a.head_up->largest) : 0);
	size_t at = (size_t)blockIdx.y * (size_t)a.rows;
	int first = (int)blockIdx.x * FINISH_VALUES;

	e -= a.head ? half_exponent(a.head->largest) : 0;
	if (!e && !a.up && !a.bias && !a.accumulate)
		return; /* nothing to do: `out` already has the product */
	for (int r = first + (int)threadIdx.x; r < min(a.rows, first + FINISH_VALUES); r += THREADS) {
		float v = times_power(a.a[at + (size_t)r], e);

		if (a.bias)
			v += a.bias[r];
		if (a.up)
			v = gated(a.act, v, times_power(a.up[at + (size_t)r], e_up) + (a.up_bias ? a.up_bias[r] : 0));
		a.out[at + (size_t)r] = a.accumulate ? a.out[at + (size_t)r] + v : v;
	}
}

/* The tokens of a call, in f16. exponent[n] has the exponents of the tokens' scales. */
struct many {
	const uint16_t *x;
	const int32_t *exponent;
	int32_t n, cols;
};

/* Start converting x to f16, and set *k to the result. Return 0, or -1 with the error set. */
static int many_begin(struct cuda *c, struct many *k, const float *x, int32_t n, int32_t cols)
{
	size_t values = ((size_t)n * (size_t)cols * 2 + 255) / 256 * 256;
	struct half_x_args a = {};

	if (cuda_buffer_grow(c, &c->acts, values + (size_t)n * sizeof(int32_t)) < 0)
		return -1;
	a.x = x;
	a.out = (uint16_t *)c->acts.p;
	a.exponent = (int32_t *)((char *)c->acts.p + values);
	a.cols = cols;
	*k = { a.out, a.exponent, n, cols };
	cuda_launch(c, x_to_half, (unsigned)n, 1, 1, THREADS, 0, a);
	return 0;
}

/* 1 if cuBLAS can use the weight without conversion. */
static int is_half(const struct weight_rows *w)
{
	return w->type == DT_F16 && w->stride == (uint64_t)w->cols * 2;
}

/* Return how many rows of a weight are converted at a time. */
static int32_t piece_rows(const struct weight_rows *w)
{
	size_t n = cuda_tile_bytes / ((size_t)w->cols * 2);

	n = n > 128 ? n / 128 * 128 : MAX(n, 1u);
	return (int32_t)MIN(n, (size_t)w->rows);
}

/* Grow the buffer for converted rows. Return 0, or -1 with the error set. */
static int many_room(struct cuda *c, const struct weight_rows *w)
{
	return is_half(w) ? 0 : cuda_buffer_grow(c, &c->tile, (size_t)piece_rows(w) * (size_t)w->cols * 2);
}

/* Compute out [n][rows] = x w^T, with x and w scaled. product_finish() undoes the scaling. */
static void many_times(struct cuda *c, const struct many *k, const struct weight_rows *w,
                       const struct weight_head *head, float *out)
{
	int32_t per = piece_rows(w);

	if (is_half(w)) {
		gpu_gemm(c->gpu, out, w->rows, w->p, k->x, w->rows, k->n, k->cols);
		return;
	}
	for (int32_t r = 0; r < w->rows; r += per) {
		int32_t rows = MIN(w->rows - r, per);

		cuda_weight_half(c, w, head, r, rows, c->tile.p);
		gpu_gemm(c->gpu, out + r, w->rows, c->tile.p, k->x, rows, k->n, k->cols);
	}
}

/* Start product_finish() for all tokens. */
static void many_finish(struct cuda *c, const struct many *k, const struct finish_args *a)
{
	/* The y size of the grid is the number of tokens, and CUDA limits it to 65,535. */
	for (int32_t i = 0; i < k->n; i += 32768) {
		struct finish_args b = *a;
		size_t at = (size_t)i * (size_t)a->rows;

		b.a += at;
		b.out += at;
		b.up = a->up ? a->up + at : NULL;
		b.exponent = k->exponent + i;
		cuda_launch(c, product_finish, cuda_blocks(a->rows, FINISH_VALUES), (unsigned)MIN(k->n - i, 32768), 1,
		            THREADS, 0, b);
	}
}

/* ---- the operations ---- */

void cuda_matmul(struct backend *be, const struct matmul *m, int32_t n_m, const struct tensor *x, int32_t n)
{
	struct cuda *c = cuda_of(be);
	struct gemv_args few;
	struct many many;
	const float *xp;
	int begun = 0;

	if (cuda_stopped(be) || n <= 0 || n_m <= 0 || !(xp = cuda_rows_of(&c->base, x, n, 0, "matmul")))
		return;
	for (int32_t i = 0; i < n_m;) {
		memset(&few, 0, sizeof few);
		few.cols = x->cols;
		for (; i < n_m && few.n_products < GEMV_PRODUCTS; i++) {
			struct gemv_product p = {};

			if (weight_of(c, m[i].w, x, &p.w) < 0)
				return;
			p.accumulate = m[i].accumulate;
			p.out = cuda_rows_of(&c->base, m[i].out, n, p.w.rows, "matmul");
			if (m[i].bias)
				p.bias = cuda_rows_of(&c->base, m[i].bias, 1, p.w.rows, "matmul");
			if (be->failed)
				return;
			if (n <= GEMV_TOKENS || m[i].w->layout == LAYOUT_PLAIN) {
				few.product[few.n_products++] = p;
				continue;
			}
			struct finish_args f = {};

			if (many_room(c, &p.w) < 0 || (!begun && many_begin(c, &many, xp, n, x->cols) < 0))
				return;
			begun = 1;
			f.out = p.out;
			f.bias = p.bias;
			f.accumulate = p.accumulate;
			f.head = cuda_weight_head(m[i].w);
			f.rows = p.w.rows;
			if (p.accumulate) {
				if (cuda_buffer_grow(c, &c->product, (size_t)n * (size_t)p.w.rows * sizeof(float)) < 0)
					return;
				p.out = (float *)c->product.p;
			}
			f.a = p.out;
			many_times(c, &many, &p.w, f.head, p.out);
			many_finish(c, &many, &f);
		}
		if (few.n_products) {
			run_few(c, &few, xp, n);
			begun = 0; /* c->acts may no longer have x in f16, because run_few() uses the same buffer */
		}
	}
}

void cuda_matmul_glu(struct backend *be, struct tensor *out, const struct matmul_glu *m, const struct tensor *x,
                     int32_t n)
{
	const struct tensor *gate = m->gate, *up = m->up;
	enum activation act = m->act;
	struct cuda *c = cuda_of(be);
	struct gemv_args few = {};
	struct finish_args f = {};
	struct many many;
	const float *xp;
	float *op;

	if (cuda_stopped(be) || n <= 0 || !(xp = cuda_rows_of(&c->base, x, n, 0, "matmul_glu")))
		return;
	if (weight_of(c, gate, x, &few.product[0].w) < 0 || weight_of(c, up, x, &few.product[1].w) < 0)
		return;
	if (gate->rows != up->rows || (act != ACT_SILU && act != ACT_GELU && act != ACT_SILU_CLAMPED)) {
		backend_fail(be, "internal: matmul_glu got gate and up of different shapes, or an unknown activation");
		return;
	}
	op = cuda_rows_of(&c->base, out, n, gate->rows, "matmul_glu");
	if (m->gate_bias)
		f.bias = cuda_rows_of(&c->base, m->gate_bias, 1, gate->rows, "matmul_glu");
	if (m->up_bias)
		f.up_bias = cuda_rows_of(&c->base, m->up_bias, 1, up->rows, "matmul_glu");
	if (be->failed)
		return;
	if (n <= GEMV_TOKENS || gate->layout == LAYOUT_PLAIN || up->layout == LAYOUT_PLAIN) {
		few.product[0].out = few.product[1].out = op;
		few.n_products = 2;
		few.product[0].bias = f.bias;
		few.product[1].bias = f.up_bias;
		few.glu = 1;
		few.act = act;
		few.cols = x->cols;
		run_few(c, &few, xp, n);
		return;
	}
	if (cuda_buffer_grow(c, &c->product, (size_t)n * (size_t)up->rows * sizeof(float)) < 0 ||
	    many_room(c, &few.product[0].w) < 0 || many_room(c, &few.product[1].w) < 0 ||
	    many_begin(c, &many, xp, n, x->cols) < 0)
		return;
	f.out = op;
	f.a = op;
	f.up = (const float *)c->product.p;
	f.act = act;
	f.head = cuda_weight_head(gate);
	f.head_up = cuda_weight_head(up);
	f.rows = gate->rows;
	many_times(c, &many, &few.product[0].w, f.head, op);
	many_times(c, &many, &few.product[1].w, f.head_up, (float *)c->product.p);
	many_finish(c, &many, &f);
}
