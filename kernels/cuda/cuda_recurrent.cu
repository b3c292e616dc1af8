/* kernels/cuda/cuda_recurrent.cu - operations of layers that have a state instead of a KV cache: short convolutions,
 * the gated delta rule, state spaces, gates. Each operation takes 1 launch. */
#include "kernels/cuda/cuda_gemv.cuh"

/* ---- short convolutions ---- */

/* Arguments of short_conv_kernel(), as in struct short_conv. `next` is the state after the call. */
struct conv_args {
	float *out, *next;
	const float *in, *w, *state, *bias;
	int64_t cols;
	int32_t n, taps, gated;
};

/* Return the input u of token i in column c (struct short_conv). For a token before the call (i < 0), read it from
 * the state. */
static __device__ float conv_gated(const struct conv_args &a, int64_t i, int64_t c)
{
	if (i >= 0 && !a.gated)
		return a.in[i * a.cols + c];
	return i < 0 ? a.state[(a.taps - 1 + i) * a.cols + c]
	             : a.in[i * 3 * a.cols + c] * a.in[(i * 3 + 2) * a.cols + c];
}

/* Compute one column of one token i per thread. The threads with i = n write the next state. */
__global__ void short_conv_kernel(struct conv_args a)
{
	int64_t c = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y;
	float sum = 0;

	if (c >= a.cols)
		return;
	if (i == a.n) {
		for (int32_t k = 0; k < a.taps - 1; k++)
			a.next[k * a.cols + c] = conv_gated(a, a.n - a.taps + 1 + k, c);
		return;
	}
	for (int32_t k = 0; k < a.taps; k++)
		sum += a.w[c * a.taps + k] * conv_gated(a, i - a.taps + 1 + k, c);
	if (a.bias)
		sum += a.bias[c];
	a.out[i * a.cols + c] = a.gated ? a.in[(i * 3 + 1) * a.cols + c] * sum : sum / (1 + expf(-sum));
}

void cuda_short_conv(struct backend *be, const struct short_conv *x, int32_t n)
{
	struct cuda *c = cuda_of(be);
	struct conv_args a = {};

	if (cuda_stopped(be) || n < 1 || short_conv_check(be, x, n) < 0)
		return;
	a.out = (float *)x->out->data;
	a.next = (float *)x->next->data;
	a.in = (const float *)x->in->data;
	a.w = (const float *)x->w->data;
	a.state = (const float *)x->state->data;
	a.cols = x->out->cols;
	a.n = n;
	a.taps = x->taps;
	a.gated = x->in->cols != x->out->cols;
	a.bias = x->bias ? (const float *)x->bias->data : NULL;
	cuda_launch(c, short_conv_kernel, cuda_blocks(x->out->cols, 128), (unsigned)n + 1, 1, 128, 0, a);
}

/* ---- the gated delta rule ---- */

/* Arguments of delta_rule_kernel(), as in struct delta_rule. `next` is the state after the call. */
struct delta_args {
	float *out, *next;
	const float *qkv, *alpha, *beta, *decay, *dt, *state;
	int32_t n, key_heads, value_heads, key_dim, value_dim, grouped;
};

/* Update one column of a value head's state per thread, token by token. */
__global__ void delta_rule_kernel(struct delta_args a)
{
	int32_t c = (int32_t)(blockIdx.x * blockDim.x + threadIdx.x), head = (int32_t)blockIdx.y;
	int32_t key_head = a.grouped ? head / (a.value_heads / a.key_heads) : head % a.key_heads;
	int64_t keys = (int64_t)a.key_heads * a.key_dim, values = (int64_t)a.value_heads * a.value_dim;
	int64_t at = (int64_t)head * a.key_dim * a.value_dim + c;

	if (c >= a.value_dim)
		return;
	for (int32_t i = 0; i < a.key_dim; i++)
		a.next[at + (int64_t)i * a.value_dim] = a.state[at + (int64_t)i * a.value_dim];
	for (int32_t t = 0; t < a.n; t++) {
		const float *q = a.qkv + t * (2 * keys + values) + (int64_t)key_head * a.key_dim, *k = q + keys;
		int64_t at_head = (int64_t)t * a.value_heads + head;
		double x = (double)a.alpha[at_head] + (double)a.dt[head], q_sum = 1e-6, k_sum = 1e-6;
		float decay = (float)exp((double)a.decay[head] * (x > 40 ? x : log1p(exp(x)))), q_unit, k_unit, was = 0,
		      out = 0, add;

		for (int32_t i = 0; i < a.key_dim; i++) {
			q_sum += (double)q[i] * (double)q[i];
			k_sum += (double)k[i] * (double)k[i];
		}
		q_unit = (float)(1 / sqrt(q_sum * a.key_dim));
		k_unit = (float)(1 / sqrt(k_sum));
		for (int32_t i = 0; i < a.key_dim; i++)
			was += k[i] * k_unit * (decay * a.next[at + (int64_t)i * a.value_dim]);
		add = (a.qkv[t * (2 * keys + values) + 2 * keys + (int64_t)head * a.value_dim + c] - was) /
		      (1 + expf(-a.beta[at_head]));
		for (int32_t i = 0; i < a.key_dim; i++) {
			float *s = a.next + at + (int64_t)i * a.value_dim;

			*s = decay * *s + k[i] * k_unit * add;
			out += q[i] * q_unit * *s;
		}
		a.out[t * values + (int64_t)head * a.value_dim + c] = out;
	}
}

void cuda_delta_rule(struct backend *be, const struct delta_rule *x, int32_t n)
{
	struct delta_args a = {};

	if (cuda_stopped(be) || n < 1 || delta_rule_check(be, x, n) < 0)
		return;
	a.out = (float *)x->out->data;
	a.next = (float *)x->next->data;
	a.qkv = (const float *)x->qkv->data;
	a.alpha = (const float *)x->alpha->data;
	a.beta = (const float *)x->beta->data;
	a.decay = (const float *)x->decay->data;
	a.dt = (const float *)x->dt->data;
	a.state = (const float *)x->state->data;
	a.n = n;
	a.key_heads = x->n_key_head;
	a.value_heads = x->n_value_head;
	a.key_dim = x->key_dim;
	a.value_dim = x->value_dim;
	a.grouped = x->grouped;
	cuda_launch(cuda_of(be), delta_rule_kernel, cuda_blocks(x->value_dim, 32), (unsigned)x->n_value_head, 1, 32, 0,
	            a);
}

/* ---- state spaces ---- */

/* Arguments of state_space_kernel(), as in struct state_space. `next` is the state after the call. */
struct space_args {
	float *out, *next;
	const float *xbc, *step, *decay, *bias, *skip, *state;
	int32_t n, heads, groups, state_dim, head_dim;
};

/* Update one column of a head's state per thread, token by token. */
__global__ void state_space_kernel(struct space_args a)
{
	int32_t c = (int32_t)(blockIdx.x * blockDim.x + threadIdx.x), head = (int32_t)blockIdx.y,
		group = head / (a.heads / a.groups);
	int64_t values = (int64_t)a.heads * a.head_dim, row = values + 2 * (int64_t)a.groups * a.state_dim;
	int64_t at = (int64_t)head * a.state_dim * a.head_dim + c;

	if (c >= a.head_dim)
		return;
	for (int32_t i = 0; i < a.state_dim; i++)
		a.next[at + (int64_t)i * a.head_dim] = a.state[at + (int64_t)i * a.head_dim];
	for (int32_t t = 0; t < a.n; t++) {
		const float *b = a.xbc + t * row + values + (int64_t)group * a.state_dim,
			    *to = b + (int64_t)a.groups * a.state_dim;
		double raw = (double)a.step[(int64_t)t * a.heads + head] + (double)a.bias[head],
		       dt = raw > 40 ? raw : log1p(exp(raw));
		float decay = (float)exp((double)a.decay[head] * dt),
		      x = a.xbc[t * row + (int64_t)head * a.head_dim + c], add = (float)dt * x, out = 0;

		for (int32_t i = 0; i < a.state_dim; i++) {
			float *s = a.next + at + (int64_t)i * a.head_dim;

			*s = decay * *s + b[i] * add;
			out += to[i] * *s;
		}
		a.out[t * values + (int64_t)head * a.head_dim + c] = out + a.skip[head] * x;
	}
}

void cuda_state_space(struct backend *be, const struct state_space *x, int32_t n)
{
	struct space_args a = {};

	if (cuda_stopped(be) || n < 1 || state_space_check(be, x, n) < 0)
		return;
	a.out = (float *)x->out->data;
	a.next = (float *)x->next->data;
	a.xbc = (const float *)x->xbc->data;
	a.step = (const float *)x->step->data;
	a.decay = (const float *)x->decay->data;
	a.bias = (const float *)x->bias->data;
	a.skip = (const float *)x->skip->data;
	a.state = (const float *)x->state->data;
	a.n = n;
	a.heads = x->n_head;
	a.groups = x->n_group;
	a.state_dim = x->state_dim;
	a.head_dim = x->head_dim;
	cuda_launch(cuda_of(be), state_space_kernel, cuda_blocks(x->head_dim, 32), (unsigned)x->n_head, 1, 32, 0, a);
}

/* ---- gates ---- */

struct gate_args {
	float *x;
	const float *gate;
	int64_t n;
	int32_t kind;
};

__global__ void gate_kernel(struct gate_args a)
{
	for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < a.n; i += (int64_t)gridDim.x * blockDim.x)
		a.x[i] *= a.kind == GATE_SIGMOID ? 1 / (1 + expf(-a.gate[i]))
		                                 : activate(a.kind == GATE_GELU ? ACT_GELU : ACT_SILU, a.gate[i]);
}

void cuda_gate(struct backend *be, struct tensor *x, struct tensor *gate, enum gate_kind kind, int32_t n)
{
	struct gate_args a = {};
	unsigned blocks;

	if (cuda_stopped(be) || n < 1 || gate_check(be, x, gate, n) < 0)
		return;
	a.x = (float *)x->data;
	a.gate = (const float *)gate->data;
	a.n = (int64_t)n * x->cols;
	a.kind = kind;
	blocks = cuda_blocks(a.n, 256);
	cuda_launch(cuda_of(be), gate_kernel, MIN(blocks, 2048u), 1, 1, 256, 0, a);
}
