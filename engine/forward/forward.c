/* engine/forward/forward.c - the forward pass: a sequence of backend operations for each decoder layer in turn.
 *
 * A layer's spec (arch.h) and tensors decide what is computed: a bias or a norm is applied if its tensor exists. The
 * cache decides the position of each token, and which KV entries the token attends to. */
#include "engine/forward/forward.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Return the sizes on which the buffers for feed-forwards depend. Each of these members has the largest value of any
 * layer. All other members are 0. `width` is the largest width of a feed-forward, a shared expert, or a dense
 * feed-forward beside experts. */
static struct ffn_spec largest_ffn(const struct hparams *hp)
{
	struct ffn_spec most = { .width = 0 };

	for (int32_t i = 0; i < hp->n_layer; i++) {
		const struct ffn_spec *f = &model_layer_spec(hp, i)->ffn;

		most.width = MAX(f->width, most.width);
		most.width = MAX(f->shared, most.width);
		most.width = MAX(f->dense, most.width);
		most.dense = MAX(f->dense, most.dense);
		most.n_expert = MAX(f->n_expert, most.n_expert);
		most.n_used = MAX(f->n_used, most.n_used);
	}
	return most;
}

/* The largest number of columns that any layer needs in some buffers of struct forward. */
struct mix_columns {
	int32_t in;    /* columns of conv_in */
	int32_t conv;  /* columns of conv */
	int32_t delta; /* columns of delta and delta_gate */
	int32_t heads; /* columns of alpha and beta */
	/* largest number of value heads of a layer that uses the buffer beta_alpha; the buffer has twice as many
	 * columns */
	int32_t both;
	int32_t gated; /* columns of gate; half the columns of q_gate */
	/* number of groups of columns that deinterleave() copies from each row to each of its two outputs */
	int32_t halves;
};
static struct mix_columns largest_mix(const struct hparams *hp)
{
	struct mix_columns most = { 0 };

	for (int32_t i = 0; i < hp->n_layer; i++) {
		const struct attn_spec *a = &model_layer_spec(hp, i)->attn;
		int32_t conv = layer_conv(hp, i), in = a->kind == ATTN_CONV ? 3 * conv : conv,
			delta = a->kind == ATTN_DELTA || a->kind == ATTN_SPACE ? layer_mixed(hp, i) : 0;

		most.in = MAX(in, most.in);
		most.conv = MAX(conv, most.conv);
		most.delta = MAX(delta, most.delta);
		most.heads = MAX(a->n_value_head, most.heads);
		if (a->gated)
			most.gated = MAX(a->n_head * a->head_dim, most.gated);
		if (a->grouped && a->n_value_head > most.both)
			most.both = a->n_value_head;
		if (a->gated && a->n_head > most.halves)
			most.halves = a->n_head;
		if (a->grouped && a->n_key_head > most.halves)
			most.halves = a->n_key_head;
	}
	return most;
}

/* A buffer of struct forward and its shape. */
struct buffer_def {
	struct tensor *t;
	int64_t rows;
	int32_t cols;
};
enum { BUFFERS = 32 };
static int forward_buffers(struct forward *f, const struct hparams *hp, struct buffer_def out[BUFFERS])
{
	int32_t q = widest_queries(hp), kv = widest_keys(hp);
	struct ffn_spec most = largest_ffn(hp);
	struct mix_columns mix = largest_mix(hp);
	int32_t expert = most.n_expert ? hp->n_embd : 0, dense = most.dense ? hp->n_embd : 0;
	/* clang-format off */
	const struct buffer_def all[] = {
		{ &f->x, f->batch, hp->n_embd }, { &f->norm, f->batch, hp->n_embd }, { &f->q, f->batch, q },
		{ &f->k, f->batch, kv }, { &f->v, f->batch, kv }, { &f->attn, f->batch, q }, { &f->ffn, f->batch, most.width },
		{ &f->head_in, f->head_rows, hp->n_embd }, { &f->logits, f->head_rows, hp->n_vocab }, { &f->largest, VERIFY_MOST, LARGEST_COLS(MIN(LARGEST_MOST, hp->n_vocab)) },
		{ &f->scores, f->batch, most.n_expert }, { &f->shared_score, f->batch, most.n_expert ? 1 : 0 },
		{ &f->route, f->batch, most.n_expert ? ROUTE_COLS(most.n_used) : 0 }, { &f->expert_in, f->batch, expert }, { &f->expert_out, f->batch, expert },
		{ &f->expert_sum, f->batch, expert }, { &f->conv_in, f->batch, mix.in }, { &f->conv, f->batch, mix.conv },
		{ &f->delta, f->batch, mix.delta }, { &f->delta_gate, f->batch, mix.delta }, { &f->alpha, f->batch, mix.heads },
		{ &f->beta, f->batch, mix.heads }, { &f->beta_alpha, f->batch, 2 * mix.both }, { &f->q_gate, f->batch, 2 * mix.gated }, { &f->gate, f->batch, mix.gated },
		{ &f->dense_out, f->batch, dense }, { &f->inputs, f->batch, hp->n_layer * hp->n_input }, { &f->input_embd, f->batch, hp->n_layer * hp->n_input }, { &f->input, f->batch, hp->n_input },
		{ &f->input_gate, f->batch, hp->n_input }, { &f->lora, f->batch, hp->lora_rank }, { &f->lora_gate, f->batch, hp->lora_rank ? most.width : 0 },
	};
	/* clang-format on */
	int n = 0;

	_Static_assert(sizeof all <= BUFFERS * sizeof all[0], "out is too small");
	for (size_t i = 0; i < LEN(all); i++) /* omit buffers that no layer needs */
		if (all[i].cols)
			out[n++] = all[i];
	return n;
}

uint64_t forward_bytes(const struct hparams *hp, int32_t batch, int32_t head_rows)
{
	struct forward f = { .batch = batch, .head_rows = head_rows };
	struct buffer_def buf[BUFFERS];
	uint64_t sum = 0;
	int n = forward_buffers(&f, hp, buf);

	for (int i = 0; i < n; i++)
		sum += 4 * (uint64_t)buf[i].rows * (uint64_t)buf[i].cols;
	return sum;
}

int forward_init(struct forward *f, const struct model *m, struct cache *cache, int32_t batch, int32_t head_rows,
                 struct err *err)
{
	const struct hparams *hp = &m->hp;
	struct ffn_spec most = largest_ffn(hp);
	size_t tokens = (size_t)batch, used = (size_t)most.n_used;
	struct buffer_def buf[BUFFERS];
	int n;

	*f = (struct forward){ .m = m, .be = m->be, .cache = cache, .batch = batch, .head_rows = head_rows };
	n = forward_buffers(f, hp, buf);
	for (int i = 0; i < n; i++) {
		*buf[i].t = (struct tensor){ .type = DT_F32, .rows = buf[i].rows, .cols = buf[i].cols };
		if (f->be->ops->alloc(f->be, buf[i].t)) {
			err_set(err, ERR_FIT, "cannot allocate buffers for %d tokens at a time: %s", batch, f->be->err);
			forward_release(f);
			return -1;
		}
	}
	if (most.n_expert &&
	    (!(f->route_host = try_alloc(tokens * ROUTE_COLS(used), sizeof *f->route_host, "experts of tokens", err)) ||
	     !(f->token = try_alloc(tokens, sizeof *f->token, "tokens of an expert", err)) ||
	     !(f->weight = try_alloc(tokens, sizeof *f->weight, "weights of an expert", err)))) {
		forward_release(f);
		return -1;
	}
	if (hp->n_input && !(f->input_row = try_alloc(tokens, sizeof *f->input_row, "inputs of layers", err))) {
		forward_release(f);
		return -1;
	}
	f->halves = batch * largest_mix(hp).halves;
	if (f->halves && !(f->half = try_alloc(2 * (size_t)f->halves, sizeof *f->half, "pieces of rows", err))) {
		forward_release(f);
		return -1;
	}
	for (int32_t i = 0; i < f->halves; i++) {
		f->half[i] = 2 * i;
		f->half[f->halves + i] = 2 * i + 1;
	}
	return 0;
}

void forward_release(struct forward *f)
{
	struct buffer_def buf[BUFFERS];
	int n;

	if (!f->be)
		return;
	if (f->one)
		forward_release(f->one);
	free(f->one);
	free(f->route_host);
	free(f->token);
	free(f->weight);
	free(f->half);
	free(f->input_row);
	n = forward_buffers(f, &f->m->hp, buf);
	for (int i = 0; i < n; i++)
		if (buf[i].t->data)
			f->be->ops->drop(f->be, buf[i].t);
	memset(f, 0, sizeof *f);
}

/* Return the input of attention or of the feed-forward: norm(x), or x itself if the layer has no norm there. */
static const struct tensor *block_in(struct forward *f, const struct tensor *norm, int32_t n)
{
	const struct hparams *hp = &f->m->hp;

	if (!norm->data)
		return &f->x;
	f->be->ops->rmsnorm(f->be, &f->norm, &f->x, norm, hp->n_embd, hp->eps, n);
	return &f->norm;
}

/* Add residual_scale * norm(out) to x. If the layer has no norm here, add residual_scale * out. `out` may be
 * overwritten. */
static void add_residual(struct forward *f, const struct layer_spec *s, struct tensor *out, const struct tensor *norm,
                         int32_t n)
{
	const struct hparams *hp = &f->m->hp;

	if (norm->data)
		f->be->ops->rmsnorm(f->be, out, out, norm, hp->n_embd, hp->eps, n);
	f->be->ops->axpby(f->be, &f->x, s->residual_scale, out, 1, n);
}

/* Compute out += `in` A^T B^T, where A and B are the matrices of a LoRA adapter. Do nothing if the matrix has no
 * adapter. */
static void add_lora(struct forward *f, const struct lora *l, struct tensor *out, const struct tensor *in, int32_t n)
{
	struct tensor mid = f->lora;

	if (!l->a.data)
		return;
	mid.cols = l->a.rows;
	f->be->ops->matmul(f->be, &(struct matmul){ .out = &mid, .w = &l->a }, 1, in, n);
	f->be->ops->matmul(f->be, &(struct matmul){ .out = out, .w = &l->b, .accumulate = 1 }, 1, &mid, n);
}

/* Add residual_scale * norm(`in` W^T + bias) to x. Norm and bias are optional (bias may be NULL). Without a norm, and
 * with scale 1, the product is added to x directly. */
static void block_out(struct forward *f, const struct layer_spec *s, const struct tensor *w, const struct tensor *bias,
                      const struct lora *lora, const struct tensor *norm, const struct tensor *in, int32_t n)
{
	int direct = !norm->data && s->residual_scale == 1;

	f->be->ops->matmul(f->be,
	                   &(struct matmul){ .out = direct ? &f->x : &f->norm,
	                                     .w = w,
	                                     .bias = bias && bias->data ? bias : NULL,
	                                     .accumulate = direct },
	                   1, in, n);
	add_lora(f, lora, direct ? &f->x : &f->norm, in, n);
	if (!direct)
		add_residual(f, s, &f->norm, norm, n);
}

static void qk_norm(struct forward *f, const struct attn_spec *a, struct tensor *x, const struct tensor *w, int32_t n)
{
	if (w->data)
		f->be->ops->rmsnorm(f->be, x, x, w, a->qk_norm_whole ? x->cols : a->head_dim, f->m->hp.eps, n);
}

/* Deinterleave n rows of `both`, which consist of groups of `cols` columns. Copy the groups 0, 2, 4, ... of each row to
 * `one`, and the groups 1, 3, 5, ... to `other`. */
static void deinterleave(struct forward *f, struct tensor both, struct tensor one, struct tensor other, int32_t cols,
                         int32_t n)
{
	int32_t pieces = one.cols / cols;

	both.rows *= 2 * pieces;
	one.rows *= pieces;
	other.rows *= pieces;
	both.cols = one.cols = other.cols = cols;
	f->be->ops->take_rows(f->be, &one, &both, f->half, n * pieces);
	f->be->ops->take_rows(f->be, &other, &both, f->half + f->halves, n * pieces);
}

/* Set the number of columns of the attention buffers to the number that this layer needs. */
static void attention_columns(struct forward *f, int32_t layer)
{
	const struct attn_spec *a = &model_layer_spec(&f->m->hp, layer)->attn;

	f->q.cols = f->attn.cols = a->n_head * a->head_dim;
	f->k.cols = f->v.cols = a->n_kv_head * a->head_dim;
}

/* Compute q, k and v from x, before RoPE. If the layer has gated attention, also compute the gate. */
static void attention_in(struct forward *f, const struct layer *l, int32_t layer, int32_t n)
{
	const struct attn_spec *a = &model_layer_spec(&f->m->hp, layer)->attn;
	const struct tensor *in = block_in(f, &l->attn_norm, n);

	attention_columns(f, layer);
	f->be->ops->matmul(
		f->be,
		(struct matmul[]){
			{ .out = a->gated ? &f->q_gate : &f->q, .w = &l->wq, .bias = l->bq.data ? &l->bq : NULL },
			{ .out = &f->k, .w = &l->wk, .bias = l->bk.data ? &l->bk : NULL },
			{ .out = &f->v, .w = &l->wv, .bias = l->bv.data ? &l->bv : NULL },
		},
		a->borrows   ? 1
		: l->wv.data ? 3
			     : 2,
		in, n);
	add_lora(f, &l->lora[LORA_Q], a->gated ? &f->q_gate : &f->q, in, n);
	if (!a->borrows)
		add_lora(f, &l->lora[LORA_K], &f->k, in, n);
	if (!a->borrows && l->wv.data)
		add_lora(f, &l->lora[LORA_V], &f->v, in, n);
	if (a->gated)
		deinterleave(f, f->q_gate, f->q, f->gate, a->head_dim, n);
	qk_norm(f, a, &f->q, &l->q_norm, n);
	if (a->borrows)
		return;
	if (!l->wv.data)
		f->be->ops->copy(f->be, &f->v, 0, &f->k, 0, n);
	qk_norm(f, a, &f->k, &l->k_norm, n);
	qk_norm(f, a, &f->v, &l->v_norm, n);
}

static void attention_run(struct forward *f, int32_t layer)
{
	const struct tensor *sinks = &f->m->layer[layer].sinks;
	int borrows = model_layer_spec(&f->m->hp, layer)->attn.borrows;
	double start = f->clock ? now_seconds() : 0;

	attention_columns(f, layer);
	cache_attend(f->cache, f->m->hp.kv ? f->m->hp.kv_layer[layer] : layer,
	             &(struct qkv){ &f->q, borrows ? NULL : &f->k, borrows ? NULL : &f->v, &f->attn,
	                            sinks->data ? sinks : NULL });
	if (f->clock)
		*f->clock += now_seconds() - start;
}

/* Return the buffer that holds the result of layer_mix(), with this layer's number of columns. */
static struct tensor mix_output(const struct forward *f, int32_t layer)
{
	enum attn_kind kind = model_layer_spec(&f->m->hp, layer)->attn.kind;
	struct tensor t = kind == ATTN_CONV ? f->conv : kind == ATTN_SOFTMAX ? f->attn : f->delta;

	t.cols = layer_mixed(&f->m->hp, layer);
	return t;
}

/* Set f->conv to the short convolution of x W^T. */
static void short_conv_run(struct forward *f, const struct layer *l, const struct tensor *w, const struct tensor *x,
                           int32_t layer, int32_t n)
{
	struct tensor in = f->conv_in, out = f->conv;

	in.cols = w->rows;
	out.cols = layer_conv(&f->m->hp, layer);
	f->be->ops->matmul(f->be, &(struct matmul){ .out = &in, .w = w }, 1, x, n);
	recurrent_short_conv(&f->cache->recurrent, layer,
	                     &(struct short_conv){ .out = &out,
	                                           .in = &in,
	                                           .w = &l->conv,
	                                           .bias = l->conv_bias.data ? &l->conv_bias : NULL,
	                                           .taps = l->conv.cols },
	                     n);
}

/* Compute f->delta from x. First the convolution computes queries, keys and values; then follow the gated delta rule, a
 * norm and a gate. */
static void delta_rule(struct forward *f, const struct layer *l, int32_t layer, int32_t n)
{
	const struct attn_spec *a = &model_layer_spec(&f->m->hp, layer)->attn;
	const struct tensor *in = block_in(f, &l->attn_norm, n);
	struct tensor out = mix_output(f, layer), gate = f->delta_gate, qkv = f->conv;

	gate.cols = out.cols;
	qkv.cols = layer_conv(&f->m->hp, layer);
	short_conv_run(f, l, &l->delta_in, in, layer, n);
	if (a->grouped)
		f->be->ops->matmul(f->be,
		                   (struct matmul[]){ { .out = &gate, .w = &l->delta_gate },
		                                      { .out = &f->beta_alpha, .w = &l->delta_beta_alpha } },
		                   2, in, n);
	else
		f->be->ops->matmul(f->be,
		                   (struct matmul[]){ { .out = &gate, .w = &l->delta_gate },
		                                      { .out = &f->alpha, .w = &l->delta_alpha },
		                                      { .out = &f->beta, .w = &l->delta_beta } },
		                   3, in, n);
	if (a->grouped)
		deinterleave(f, f->beta_alpha, f->beta, f->alpha, a->n_value_head / a->n_key_head, n);
	recurrent_delta_rule(&f->cache->recurrent, layer,
	                     &(struct delta_rule){ .out = &out,
	                                           .qkv = &qkv,
	                                           .alpha = &f->alpha,
	                                           .beta = &f->beta,
	                                           .decay = &l->delta_decay,
	                                           .dt = &l->delta_dt,
	                                           .n_key_head = a->n_key_head,
	                                           .n_value_head = a->n_value_head,
	                                           .key_dim = a->key_dim,
	                                           .value_dim = a->value_dim,
	                                           .grouped = a->grouped },
	                     n);
	f->be->ops->rmsnorm(f->be, &out, &out, &l->delta_norm, a->value_dim, f->m->hp.eps, n);
	f->be->ops->gate(f->be, &out, &gate, GATE_SILU, n);
}

/* Compute f->delta from x by the convolution, the state space (Mamba-2), a gate and a norm, in this order. */
static void state_space(struct forward *f, const struct layer *l, int32_t layer, int32_t n)
{
	const struct attn_spec *a = &model_layer_spec(&f->m->hp, layer)->attn;
	const struct tensor *in = block_in(f, &l->attn_norm, n);
	struct tensor out = mix_output(f, layer), gate = f->delta_gate, xbc = f->conv;

	gate.cols = out.cols;
	xbc.cols = layer_conv(&f->m->hp, layer);
	short_conv_run(f, l, &l->delta_in, in, layer, n);
	f->be->ops->matmul(f->be,
	                   (struct matmul[]){ { .out = &gate, .w = &l->delta_gate },
	                                      { .out = &f->alpha, .w = &l->delta_alpha } },
	                   2, in, n);
	recurrent_state_space(&f->cache->recurrent, layer,
	                      &(struct state_space){ .out = &out,
	                                             .xbc = &xbc,
	                                             .step = &f->alpha,
	                                             .decay = &l->delta_decay,
	                                             .bias = &l->delta_dt,
	                                             .skip = &l->space_skip,
	                                             .n_head = a->n_value_head,
	                                             .n_group = a->n_key_head,
	                                             .state_dim = a->key_dim,
	                                             .head_dim = a->value_dim },
	                      n);
	f->be->ops->gate(f->be, &out, &gate, GATE_SILU, n);
	/* normalise each group separately */
	f->be->ops->rmsnorm(f->be, &out, &out, &l->delta_norm, out.cols / a->n_key_head, f->m->hp.eps, n);
}

/* Run a layer's attention or, if the layer has a recurrent state, its recurrent operation. The result is in
 * mix_output(). */
static void layer_mix(struct forward *f, const struct layer *l, int32_t layer, int32_t n)
{
	const struct attn_spec *a = &model_layer_spec(&f->m->hp, layer)->attn;

	if (a->kind == ATTN_CONV) {
		short_conv_run(f, l, &l->conv_in, block_in(f, &l->attn_norm, n), layer, n);
	} else if (a->kind == ATTN_DELTA) {
		delta_rule(f, l, layer, n);
	} else if (a->kind == ATTN_SPACE) {
		state_space(f, l, layer, n);
	} else {
		attention_in(f, l, layer, n);
		attention_run(f, layer);
		if (a->gated)
			f->be->ops->gate(f->be, &f->attn, &f->gate, GATE_SIGMOID, n);
	}
}

/* ---- feed-forward, and a layer as a whole ---- */

/* x *= factor. */
static void tensor_scale(struct forward *f, struct tensor *x, float factor, int32_t n)
{
	if (factor != 1)
		f->be->ops->axpby(f->be, x, factor, x, 0, n);
}

/* Set hidden to act(gate) * up: the gated linear unit of a dense feed-forward. */
static void glu(struct forward *f, const struct layer_spec *s, const struct layer *l, struct tensor *hidden,
                const struct tensor *in, int32_t n)
{
	struct tensor gate = f->lora_gate;

	if (!l->lora[LORA_GATE].a.data && !l->lora[LORA_UP].a.data) {
		f->be->ops->matmul_glu(f->be, hidden,
		                       &(struct matmul_glu){ .gate = &l->gate, .up = &l->up, .act = s->ffn.act }, in,
		                       n);
		return;
	}
	gate.cols = hidden->cols;
	f->be->ops->matmul(f->be, (struct matmul[]){ { .out = &gate, .w = &l->gate }, { .out = hidden, .w = &l->up } },
	                   2, in, n);
	add_lora(f, &l->lora[LORA_GATE], &gate, in, n);
	add_lora(f, &l->lora[LORA_UP], hidden, in, n);
	f->be->ops->gate(f->be, hidden, &gate, s->ffn.act == ACT_GELU ? GATE_GELU : GATE_SILU, n);
}

static void feed_forward(struct forward *f, const struct layer_spec *s, const struct layer *l, int32_t n)
{
	const struct tensor *in;
	struct tensor hidden = f->ffn;

	if (s->ffn.dense) {
		forward_dense_and_experts(f, s, l, n);
		add_residual(f, s, &f->expert_sum, &l->ffn_post_norm, n);
		return;
	}
	in = block_in(f, &l->ffn_norm, n);
	if (s->ffn.kind == FFN_EXPERTS) {
		forward_experts(f, s, l, in, in, n);
		add_residual(f, s, &f->expert_sum, &l->ffn_post_norm, n);
		return;
	}
	hidden.cols = s->ffn.width;
	glu(f, s, l, &hidden, in, n);
	block_out(f, s, &l->down, NULL, &l->lora[LORA_DOWN], &l->ffn_post_norm, &hidden, n);
}

/* Run the rest of a layer after layer_mix(): output matrix, feed-forward, per-layer input. */
static void layer_out(struct forward *f, const struct layer *l, int32_t layer, int32_t n)
{
	const struct layer_spec *s = model_layer_spec(&f->m->hp, layer);

	enum attn_kind kind = s->attn.kind;
	struct tensor in = mix_output(f, layer);

	block_out(f, s,
	          kind == ATTN_CONV      ? &l->conv_out
	          : kind == ATTN_SOFTMAX ? &l->wo
	                                 : &l->delta_out,
	          &l->bo, &l->lora[LORA_OUT], &l->attn_post_norm, &in, n);
	feed_forward(f, s, l, n);
	if (f->m->hp.n_input)
		forward_add_input(f, l, layer, n);
	tensor_scale(f, &f->x, l->out_scale, n);
}

/* ---- drafted tokens (speculative decoding) ----
 *
 * A VERIFY step computes several drafted tokens at once. Each result must have the same bits as if the token were
 * decoded alone. But some backends sum in a different order when a matrix product has several rows. On these backends a
 * VERIFY step computes products and norms token by token. */

static int one_ready(struct forward *f)
{
	struct err err;

	if (f->one)
		return 1;
	f->one = xcalloc(1, sizeof *f->one);
	if (!forward_init(f->one, f->m, f->cache, 1, 1, &err))
		return 1;
	free(f->one); /* no error is set here: the backend remembers the failure until sync() reports it */
	f->one = NULL;
	return 0;
}

static void verify_layer(struct forward *f, const struct layer *l, int32_t layer, int32_t n)
{
	struct backend *be = f->be;
	const struct backend_ops *op = be->ops;
	struct forward *one = f->one;

	attention_columns(f, layer);
	for (int32_t i = 0; i < n; i++) {
		op->copy(be, &one->x, 0, &f->x, i, 1);
		attention_in(one, l, layer, 1);
		op->copy(be, &f->q, i, &one->q, 0, 1);
		if (model_layer_spec(&f->m->hp, layer)->attn.borrows)
			continue;
		op->copy(be, &f->k, i, &one->k, 0, 1);
		op->copy(be, &f->v, i, &one->v, 0, 1);
	}
	attention_run(f, layer);
	for (int32_t i = 0; i < n; i++) {
		op->copy(be, &one->x, 0, &f->x, i, 1);
		op->copy(be, &one->attn, 0, &f->attn, i, 1);
		if (f->inputs.data)
			op->copy(be, &one->inputs, 0, &f->inputs, i, 1);
		layer_out(one, l, layer, 1);
		op->copy(be, &f->x, i, &one->x, 0, 1);
	}
}

void forward_run(struct forward *f, const int32_t *id, const struct step *st, int32_t rows)
{
	const backend_flag *cancel = f->be->cancel;
	const struct hparams *hp = &f->m->hp;
	double start = f->clock ? now_seconds() : 0;
	int32_t n = st->n;
	int verify = st->kind == STEP_VERIFY && n > 1 && !f->be->rows_alone;

	f->first = 0;
	cache_begin(f->cache, st);
	if (f->clock)
		*f->clock += now_seconds() - start;
	if (verify && !one_ready(f))
		return;
	f->be->ops->embed(f->be, &f->x, &f->m->embd, id, st->n);
	tensor_scale(f, &f->x, hp->embd_scale, n);
	if (hp->n_input)
		forward_inputs(f, id, n);
	for (int32_t i = 0; i < hp->n_layer; i++) {
		const struct layer *l = &f->m->layer[i];
		struct tensor out = mix_output(f, i);

		if (cancel && *cancel)
			return;
		if (verify) {
			verify_layer(f, l, i, n);
			continue;
		}
		layer_mix(f, l, i, n);
		/* After the last layer's attention, all KV entries are stored. So compute the rest of that layer only
		 * for tokens whose logits are wanted. */
		if (i == hp->n_layer - 1 && rows < n && rows <= 1) {
			f->first = n - rows;
			if (!rows)
				return;
			f->be->ops->copy(f->be, &f->x, 0, &f->x, n - 1, 1);
			f->be->ops->copy(f->be, &out, 0, &out, n - 1, 1);
			n = rows;
		}
		layer_out(f, l, i, n);
	}
}

/* Compute the logits of n tokens of the last step, from row row0 on, before they are capped. */
static void logits_run(struct forward *f, int32_t row0, int32_t n)
{
	const struct hparams *hp = &f->m->hp;
	const struct backend_ops *op = f->be->ops;

	op->copy(f->be, &f->head_in, 0, &f->x, row0 - f->first, n);
	op->rmsnorm(f->be, &f->head_in, &f->head_in, &f->m->out_norm, hp->n_embd, hp->eps, n);
	op->matmul(f->be, &(struct matmul){ .out = &f->logits, .w = &f->m->output }, 1, &f->head_in, n);
	tensor_scale(f, &f->logits, hp->logit_scale, n);
}

int32_t forward_largest_most(const struct forward *f)
{
	const struct hparams *hp = &f->m->hp;

	return f->be->device && hp->logit_softcap == 0 && hp->n_vocab <= LARGEST_WIDTH ? MIN(LARGEST_MOST, hp->n_vocab)
	                                                                               : 0;
}

void forward_largest(struct forward *f, int32_t n, int32_t k, float *out)
{
	f->largest.cols = LARGEST_COLS(k);
	for (int32_t i = 0; i < n; i++) {
		struct tensor row = tensor_rows(&f->largest, i);

		logits_run(f, i, 1);
		f->be->ops->largest(f->be, &row, &f->logits, k, 1);
	}
	f->be->ops->read(f->be, &f->largest, 0, out, (size_t)n * (size_t)LARGEST_COLS(k) * sizeof(float));
}

void forward_logits(struct forward *f, int32_t row0, int32_t n, float *out)
{
	const struct hparams *hp = &f->m->hp;

	logits_run(f, row0, n);
	f->be->ops->read(f->be, &f->logits, 0, out, (size_t)n * (size_t)hp->n_vocab * sizeof(float));
	for (size_t i = 0; hp->logit_softcap != 0 && i < (size_t)n * (size_t)hp->n_vocab; i++)
		out[i] = hp->logit_softcap * tanhf(out[i] / hp->logit_softcap);
}
