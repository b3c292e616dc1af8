/* kernels/cpu/c.c - the CPU backend's arithmetic in plain C, for any machine: loops with sums in double. It is the
 * reference against which the SIMD code is tested. One thing is tuned, so that machines without SIMD code are usable: a
 * weight is converted once for several columns, and a key once for several queries. */
#include "kernels/cpu/fns.h"
#include "kernels/cpu/select.h"
#include "kernels/cpu/pack.h"
#include "kernels/common/quant.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

enum { PANEL = 16, COL_GROUP = 32, CHUNK = 256 };

static size_t c_pack_bytes(enum dtype type, int32_t cols)
{
	(void)type;
	(void)cols;
	return 0;
}

static void c_pack(enum dtype type, void *panel, const void *rows, size_t row_bytes, int32_t n_rows, int32_t cols)
{
	/* Never called: pack_bytes() is 0 for every type. */
	(void)type;
	(void)panel;
	(void)rows;
	(void)row_bytes;
	(void)n_rows;
	(void)cols;
}

static int c_wants_q8(enum dtype type)
{
	return type != DT_F32 && type != DT_F16 && type != DT_BF16;
}

/* Quantise a row to int8. A block with NaN or infinity, which int8 cannot represent, gets the scale NaN, so its
 * results are NaN. */
static void c_quantize(const struct act *a, int32_t row)
{
	size_t blocks = (size_t)a->cols / 32;

	for (size_t b = (size_t)row * blocks, end = b + blocks; b < end; b++) {
		const float *x = a->x + b * 32;
		int8_t *q = a->q + b * 32, *lo = a->lo + b * 32;
		float amax = 0, scale, inv;
		int32_t squares = 0, wide;
		int finite = 1;

		for (int j = 0; j < 32; j++) {
			float size = fabsf(x[j]);

			finite &= size <= 3.402823466e38f;
			if (size > amax)
				amax = size;
		}
		scale = amax / 127.0f;
		/* Set a subnormal scale to 0, because 1 / scale would overflow. The values of the block then count as
		 * zeros. */
		if (scale < 1.17549435e-38f)
			scale = 0;
		inv = scale > 0 ? 1.0f / scale : 0;
		a->d[b] = finite ? scale : NAN;
		for (int j = 0; j < 32; j++) {
			q[j] = finite ? (int8_t)lrintf(x[j] * inv) : 0;
			squares += q[j] * q[j];
		}
		wide = squares > 0 && (a->all_wide || squares < ACT_WIDE_BELOW);
		a->wide[b] = (uint8_t)wide;
		a->sum[2 * b] = a->sum[2 * b + 1] = a->lo_sum[2 * b] = a->lo_sum[2 * b + 1] = 0;
		for (int j = 0; j < 32; j++) {
			long r = wide ? lrintf((x[j] * inv - q[j]) * 256) : 0;

			lo[j] = (int8_t)(r > 127 ? 127 : r < -127 ? -127 : r);
			a->sum[2 * b + j / 16] += q[j];
			a->lo_sum[2 * b + j / 16] += lo[j];
		}
	}
}

/* Plain C packs no weight type, so c_format() and c_matmul_panels() are never called. They exist because the table of
 * functions has entries for them. */
static const uint8_t c_widths[] = { 1, 0 };

static struct pack_format c_format(enum dtype type)
{
	return pack_format_of(type);
}

static void c_matmul_panels(enum dtype type, const void *panels, int32_t n, const struct cols *k, float *out,
                            int32_t ldo)
{
	(void)type;
	(void)panels;
	(void)n;
	(void)k;
	(void)out;
	(void)ldo;
}

/* Return the sum of 16 products, in a loop that compilers vectorise on any machine. The function is noinline, because
 * compilers would inline it into the calling loop and unroll the 16 products instead of vectorising them. */
__attribute__((noinline)) static int32_t dot16(const int16_t *a, const int8_t *b)
{
	int32_t s = 0;

	for (int j = 0; j < 16; j++) {
		int16_t v = b[j];

		s += (int32_t)a[j] * v;
	}
	return s;
}

static void row_quantised(enum dtype type, const void *row, const struct act *x, int32_t c0, int32_t nc, double *acc)
{
	int32_t blocks = x->cols / 32;

	for (int32_t b = 0; b < blocks; b++) {
		int8_t w8[32];
		int16_t w[32];
		float scale[2], min[2];
		double s0, s1, m0, m1;

		quant_unpack32(type, row, b, w8, scale, min);
		for (int j = 0; j < 32; j++)
			w[j] = w8[j];
		s0 = scale[0];
		s1 = scale[1];
		m0 = min[0];
		m1 = min[1];
		for (int32_t c = 0; c < nc; c++) {
			size_t i = (size_t)(c0 + c);
			size_t at = i * (size_t)blocks + (size_t)b;
			const int8_t *q = x->q + at * 32, *lo = x->lo + at * 32;
			const int32_t *sum = x->sum + at * 2, *lo_sum = x->lo_sum + at * 2;
			double y = s0 * dot16(w, q) + s1 * dot16(w + 16, q + 16) + m0 * sum[0] + m1 * sum[1];

			if (x->wide[at])
				y += (s0 * dot16(w, lo) + s1 * dot16(w + 16, lo + 16) + m0 * lo_sum[0] +
				      m1 * lo_sum[1]) /
				     256;
			acc[c] += x->d[at] * y;
		}
	}
}

static void row_floats(enum dtype type, const uint8_t *row, const struct act *x, int32_t c0, int32_t nc, double *acc)
{
	float w[CHUNK];
	size_t size = type == DT_F32 ? 4 : 2;

	for (int32_t j0 = 0; j0 < x->cols; j0 += CHUNK) {
		int32_t n = x->cols - j0 < CHUNK ? x->cols - j0 : CHUNK;

		dtype_to_f32(type, w, row + (size_t)j0 * size, n);
		for (int32_t c = 0; c < nc; c++) {
			const float *v = x->x + (size_t)(c0 + c) * (size_t)x->cols + j0;
			double s = acc[c];

			for (int32_t j = 0; j < n; j++)
				s += (double)w[j] * v[j];
			acc[c] = s;
		}
	}
}

static void c_matmul_rows(enum dtype type, const void *w, size_t row_bytes, int32_t n_rows, const struct act *x,
                          int32_t c0, int32_t c1, float *out, int32_t ldo)
{
	for (int32_t r = 0; r < n_rows; r++) {
		const uint8_t *row = (const uint8_t *)w + (size_t)r * row_bytes;

		for (int32_t c = c0; c < c1; c += COL_GROUP) {
			int32_t nc = c1 - c < COL_GROUP ? c1 - c : COL_GROUP;
			double acc[COL_GROUP] = { 0 };

			if (c_wants_q8(type))
				row_quantised(type, row, x, c, nc, acc);
			else
				row_floats(type, row, x, c, nc, acc);
			for (int32_t i = 0; i < nc; i++)
				out[(size_t)(c + i) * (size_t)ldo + (size_t)r] = (float)acc[i];
		}
	}
}

static void c_rmsnorm(float *out, const float *x, const float *w, int32_t n, float eps)
{
	double sum = 0, scale;

	for (int32_t i = 0; i < n; i++)
		sum += (double)x[i] * x[i];
	scale = 1.0 / sqrt(sum / n + eps);
	for (int32_t i = 0; i < n; i++)
		out[i] = (float)(x[i] * scale * w[i]);
}

static void c_layernorm(float *out, const float *x, const float *w, const float *b, int32_t n, float eps)
{
	double sum = 0, squares = 0, mean, scale;

	for (int32_t i = 0; i < n; i++)
		sum += (double)x[i];
	mean = sum / n;
	for (int32_t i = 0; i < n; i++)
		squares += (x[i] - mean) * (x[i] - mean);
	scale = 1.0 / sqrt(squares / n + eps);
	for (int32_t i = 0; i < n; i++)
		out[i] = (float)((x[i] - mean) * scale * w[i] + b[i]);
}

static void c_gelu(float *x, int32_t n)
{
	for (int32_t i = 0; i < n; i++)
		x[i] = (float)(x[i] * 0.5 * erfc(x[i] * -0.70710678118654752));
}

static void c_relative(const struct relative_tile *t)
{
	for (int32_t i = t->first; i < t->last; i++)
		for (int32_t j = 0; j < t->n; j++) {
			size_t at = (size_t)t->row[i - j] * t->stride;
			const float *q = t->q + (size_t)i * t->stride, *k = t->k + (size_t)j * t->stride;
			double sum = 0;

			for (int32_t d = 0; d < t->dim; d++)
				sum += (double)q[d] * t->keys[at + (size_t)d] +
				       (double)k[d] * t->queries[at + (size_t)d];
			t->out[(size_t)i * t->out_stride + (size_t)j] = (float)(t->scale * sum);
		}
}

static void c_delta(const struct delta_tile *t)
{
	for (int32_t c = 0; c < t->cols; c++) {
		double was = 0, out = 0;
		float *s = t->state + c, add;

		for (int32_t i = 0; t->corrects && i < t->key_dim; i++)
			was += (double)t->k[i] * (double)(t->decay * s[(size_t)i * t->stride]);
		add = t->beta * (float)((double)t->v[c] - was);
		for (int32_t i = 0; i < t->key_dim; i++) {
			s[(size_t)i * t->stride] = t->decay * s[(size_t)i * t->stride] + t->k[i] * add;
			out += (double)t->q[i] * (double)s[(size_t)i * t->stride];
		}
		t->out[c] = (float)out;
	}
}

static void c_glu(enum activation act, float *gate, const float *up, int32_t n)
{
	for (int32_t i = 0; i < n; i++) {
		double g = gate[i], u = up[i], x = g;

		if (act == ACT_GELU) {
			x = 2 * 0.7978845608028654 * (g + 0.044715 * g * g * g);
		} else if (act == ACT_SILU_CLAMPED) {
			g = MIN(CLAMP_LIMIT, g);
			u = (u > CLAMP_LIMIT ? CLAMP_LIMIT : u < -CLAMP_LIMIT ? -CLAMP_LIMIT : u) + 1;
			x = CLAMP_SLOPE * g;
		}
		gate[i] = (float)(g / (1.0 + exp(-x)) * u);
	}
}

static void c_rope(float *x, const float *table, int32_t heads, int32_t head_dim, int32_t dims, int neox)
{
	int32_t half = dims / 2, step = neox ? 1 : 2, other = neox ? half : 1;

	for (int32_t h = 0; h < heads; h++, x += head_dim)
		for (int32_t j = 0; j < half; j++) {
			float *a = x + j * step, *b = a + other;
			double c = table[2 * j], s = table[2 * j + 1], xa = *a, xb = *b;

			*a = (float)(xa * c - xb * s);
			*b = (float)(xa * s + xb * c);
		}
}

static void c_to_f16(uint16_t *out, const float *x, int32_t n)
{
	for (int32_t i = 0; i < n; i++)
		out[i] = f32_to_f16(x[i]);
}

/* Return the size of the scratch memory of c_attn() in floats. It has scores [n_q][ATTN_SPAN] and sums [n_q][head_dim],
 * both in double, and one converted row in float. */
static size_t c_attn_scratch(int32_t head_dim, int32_t n_q)
{
	return (size_t)n_q * (size_t)(ATTN_SPAN + head_dim) * 2 + (size_t)head_dim;
}

/* Return the first query, at index `from` or later, that sees key k. A query sees the keys below its limit. All later
 * queries see key k, too, because limits ascend. */
static int32_t first_query(const struct attn_tile *t, int32_t k, int32_t from)
{
	while (from < t->n_q && t->limit[from] <= k)
		from++;
	return from;
}

static const float *kv_row(const struct attn_tile *t, enum dtype type, const void *plane, int32_t k, float *tmp)
{
	size_t at = attn_row(t, k) * (size_t)dtype_bytes(type, (uint64_t)t->head_dim);

	if (type == DT_F32)
		return (const float *)(const void *)((const char *)plane + at);
	dtype_to_f32(type, tmp, (const char *)plane + at, t->head_dim);
	return tmp;
}

static void c_attn(const struct attn_tile *t)
{
	int32_t dim = t->head_dim, q0;
	double *score = (double *)t->scratch;
	double *acc = score + (size_t)t->n_q * ATTN_SPAN;
	float *tmp = (float *)(acc + (size_t)t->n_q * (size_t)dim);

	q0 = 0;
	for (int32_t k = t->k0; k < t->k1; k++) {
		const float *row = kv_row(t, t->k_type, t->k, k, tmp);

		q0 = first_query(t, k, q0);
		for (int32_t r = q0; r < t->n_q; r++) {
			double s = 0;

			for (int32_t j = 0; j < dim; j++)
				s += (double)t->q[r][j] * row[j];
			s *= t->scale;
			if (t->softcap > 0)
				s = t->softcap * tanh(s / t->softcap);
			if (t->bias)
				s += (double)t->bias[k];
			if ((t->from && k < t->from[r]) || !attn_reads(t, r, k))
				s = -INFINITY;
			score[(size_t)r * ATTN_SPAN + (size_t)(k - t->k0)] = s;
		}
	}
	for (int32_t r = 0; r < t->n_q; r++) {
		int32_t n = (MIN(t->limit[r], t->k1)) - t->k0;
		double *s = score + (size_t)r * ATTN_SPAN, m = -INFINITY, l = 0;

		for (int32_t i = 0; i < n; i++) {
			if (s[i] > m)
				m = s[i];
			if (t->score)
				t->score[r][i] = (float)s[i];
		}
		for (int32_t i = 0; i < n; i++) {
			s[i] = m > -INFINITY ? exp(s[i] - (double)(float)m) : 0;
			l += s[i];
		}
		t->st[r].m = (float)m;
		t->st[r].l = (float)l;
	}
	memset(acc, 0, (size_t)t->n_q * (size_t)dim * sizeof *acc);
	q0 = 0;
	for (int32_t k = t->k0; k < t->k1; k++) {
		const float *row = kv_row(t, t->v_type, t->v, k, tmp);

		q0 = first_query(t, k, q0);
		for (int32_t r = q0; r < t->n_q; r++) {
			double p = score[(size_t)r * ATTN_SPAN + (size_t)(k - t->k0)],
			       *a = acc + (size_t)r * (size_t)dim;

			for (int32_t j = 0; j < dim; j++)
				a[j] += p * row[j];
		}
	}
	for (int32_t r = 0; r < t->n_q; r++)
		for (int32_t j = 0; j < dim; j++)
			t->st[r].acc[j] = (float)acc[(size_t)r * (size_t)dim + (size_t)j];
}

static void c_attn_merge(struct attn_state *a, const struct attn_state *b, int32_t head_dim)
{
	float m = MAX(a->m, b->m);
	double fa = a->m > -INFINITY ? exp((double)a->m - m) : 0;
	double fb = b->m > -INFINITY ? exp((double)b->m - m) : 0;

	/* If all scores of a state are NaN, its m is -inf, and its l and acc are NaN. The state's factor is 0, and 0 *
	 * NaN is NaN, so the result is NaN. */
	a->m = m;
	a->l = (float)(a->l * fa + b->l * fb);
	for (int32_t j = 0; j < head_dim; j++)
		a->acc[j] = (float)(a->acc[j] * fa + b->acc[j] * fb);
}

static double median(double *p, int32_t n)
{
	for (int32_t i = 1; i < n; i++)
		for (int32_t j = i; j > 0 && p[j] < p[j - 1]; j--) {
			double x = p[j];

			p[j] = p[j - 1];
			p[j - 1] = x;
		}
	return (p[(n - 1) / 2] + p[n / 2]) / 2;
}

static void c_probe_mass(const struct probe_tile *t)
{
	for (int32_t c = 0; c < t->n; c++) {
		double p[PROBE_HEADS], most = 0, sum = 0, x;

		for (int32_t h = 0; h < t->heads; h++) {
			p[h] = exp((double)t->score[(size_t)h * t->stride + (size_t)c] - t->m[h]) / t->l[h];
			sum += p[h];
			if (!(p[h] <= most))
				most = p[h];
		}
		x = t->reduce == REDUCE_MAX ? most : t->reduce == REDUCE_MEAN ? sum / t->heads : median(p, t->heads);
		x *= t->weight;
		t->out[c] = (float)(t->largest ? MAX(t->out[c], x) : t->out[c] + x);
	}
}

static void c_probe_share(float *out, const float *score, int32_t n, float m, float l)
{
	for (int32_t i = 0; i < n; i++)
		out[i] = (float)(exp((double)score[i] - m) / l);
}

static void c_probe_above(const float *p, int32_t n, float least, float *sum, int32_t *count)
{
	double s = 0;

	*count = 0;
	for (int32_t i = 0; i < n; i++)
		if (p[i] >= least) {
			s += p[i];
			++*count;
		}
	*sum = (float)s;
}

/* Leaf function `multiply` (struct cpu_fns), which measures the speed of multiplication. It calls dot16(), as matrix
 * products in plain C do, on values in the L1 cache. */
static uint64_t c_multiply(int32_t rounds)
{
	int16_t a[16] = { 1, 2, 3 };
	int8_t b[16] = { 4, 5, 6 };
	volatile int32_t sink;

	for (int32_t i = 0; i < rounds; i++)
		for (int k = 0; k < 4; k++)
			sink = dot16(a, b);
	(void)sink;
	return (uint64_t)rounds * 4 * 16;
}

static uint64_t c_read_sum(const void *p, size_t n)
{
	const uint64_t *w = p;
	uint64_t s0 = 0, s1 = 0, s2 = 0, s3 = 0;
	size_t i, words = n / 8;

	for (i = 0; i + 4 <= words; i += 4) {
		s0 += w[i];
		s1 += w[i + 1];
		s2 += w[i + 2];
		s3 += w[i + 3];
	}
	for (; i < words; i++)
		s0 += w[i];
	return s0 + s1 + s2 + s3;
}

/* ---- convolutions on the host ---- */

static void c_conv(const struct conv3_args *a)
{
	for (int32_t x = 0; x < a->n; x++)
		for (int32_t o = 0; o < a->n_out; o++) {
			double sum = a->bias ? (double)a->bias[o] : 0;

			for (int32_t t = 0; t < 9; t++)
				for (int32_t i = 0; a->in[t / 3] && i < a->n_in; i++)
					sum += (double)a->in[t / 3][(x + t % 3) * a->n_in + i] *
					       (double)a->w[(t * a->n_in + i) * a->n_out + o];
			a->out[x * a->n_out + o] = (float)sum;
		}
}

static void c_conv_grad(const struct conv3_grad_args *a)
{
	for (int32_t t = 0; t < 9; t++)
		for (int32_t i = 0; a->in[t / 3] && i < a->n_in; i++)
			for (int32_t o = 0; o < a->n_out; o++) {
				double sum = (double)a->dw[(t * a->n_in + i) * a->n_out + o];

				for (int32_t x = 0; x < a->n; x++)
					sum += (double)a->in[t / 3][(x + t % 3) * a->n_in + i] *
					       (double)a->d[x * a->n_out + o];
				a->dw[(t * a->n_in + i) * a->n_out + o] = (float)sum;
			}
}

enum { GEMM = 4 };
static void c_gemm_tile(int32_t k, const float *a, const float *b, float *c, size_t c_row, float alpha, int accumulate)
{
	for (int i = 0; i < GEMM; i++)
		for (int j = 0; j < GEMM; j++) {
			double sum = 0;

			for (int32_t p = 0; p < k; p++)
				sum += (double)a[p * GEMM + i] * (double)b[p * GEMM + j];
			c[(size_t)i * c_row + (size_t)j] =
				(float)((double)alpha * sum +
			                (accumulate ? (double)c[(size_t)i * c_row + (size_t)j] : 0));
		}
}

const struct cpu_fns cpu_fns_c = {
	.name = "c",
	.panel = PANEL,
	.pack_bytes = c_pack_bytes,
	.pack = c_pack,
	.wants_q8 = c_wants_q8,
	.quantize = c_quantize,
	.packed = { c_format, c_widths, c_matmul_panels },
	.matmul_rows = c_matmul_rows,
	.rmsnorm = c_rmsnorm,
	.layernorm = c_layernorm,
	.gelu = c_gelu,
	.glu = c_glu,
	.delta = c_delta,
	.rope = c_rope,
	.to_f16 = c_to_f16,
	.score_unit = 1,
	.attn_scratch = c_attn_scratch,
	.attn = c_attn,
	.attn_merge = c_attn_merge,
	.relative = c_relative,
	.probe_mass = c_probe_mass,
	.probe_share = c_probe_share,
	.probe_above = c_probe_above,
	.conv = c_conv,
	.conv_grad = c_conv_grad,
	.gemm_tile = c_gemm_tile,
	.gemm_rows = GEMM,
	.gemm_cols = GEMM,
	.select = &select_fns_c,
	.read_sum = c_read_sum,
	.multiply = c_multiply,
};
