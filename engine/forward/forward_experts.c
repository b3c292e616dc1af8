/* engine/forward/forward_experts.c - feed-forwards with experts: the router, the experts that it chooses for each
 * token, and the shared expert, which all tokens use. */
#include <math.h>
#include <string.h>

#include "engine/forward/forward.h"

/* Choose the experts of one token and set their weights (share), by the rules in struct ffn_spec. chosen[] is in
 * ascending order afterwards. Of experts with equal scores, those with lower numbers are chosen. Scores that are NaN
 * rank below all numbers. For the choice, but not for the weights, bias [n_expert] is added to the scores, unless bias
 * is NULL. score[] is overwritten. */
static void experts_choose(float *score, const float *bias, const struct ffn_spec *s, int32_t *chosen, float *share)
{
	uint8_t taken[EXPERTS_MAX] = { 0 };
	float rank[EXPERTS_MAX], most = -INFINITY;
	double sum = 0;

	for (int32_t e = 0; e < s->n_expert; e++) {
		score[e] = s->sigmoid ? (float)(1 / (1 + exp(-(double)score[e]))) : score[e];
		rank[e] = bias ? score[e] + bias[e] : score[e];
	}
	for (int32_t k = 0; k < s->n_used; k++) {
		int32_t best = -1, at = k;

		for (int32_t e = 0; e < s->n_expert; e++)
			if (!taken[e] && (best < 0 || rank[e] > rank[best] || isnan(rank[best])))
				best = e;
		taken[best] = 1;
		for (; at > 0 && chosen[at - 1] > best; at--)
			chosen[at] = chosen[at - 1];
		chosen[at] = best;
		most = MAX(score[best], most);
	}
	for (int32_t e = 0; s->whole && e < s->n_expert; e++)
		sum += exp((double)score[e] - (double)most);
	for (int32_t k = 0; k < s->n_used && !s->whole; k++)
		sum += s->sigmoid ? (double)score[chosen[k]] : exp((double)score[chosen[k]] - (double)most);
	for (int32_t k = 0; k < s->n_used; k++)
		share[k] = (float)(s->sigmoid ? (double)score[chosen[k]] / (sum + 1e-6)
		                              : exp((double)score[chosen[k]] - (double)most) / sum);
}

/* Find the tokens, among the n tokens of the step, that use expert e. Write their indices to token[] and the expert's
 * weight for each of them to weight[]. Return the number of tokens found. */
static int32_t tokens_of(struct forward *f, const struct ffn_spec *s, int32_t e, int32_t n)
{
	int32_t found = 0;

	for (int32_t i = 0; i < n; i++)
		for (int32_t k = i * s->n_used; k < (i + 1) * s->n_used; k++)
			if (f->chosen[k] == e) {
				f->token[found] = i;
				f->weight[found++] = f->share[k];
			}
	return found;
}

/* Scores and constants by which the router chooses experts for n tokens. All arrays are in host memory. */
struct route {
	float *score; /* [n][n_expert] scores of the router */
	/* [n_expert] probs_bias and expert_scales of the layer; each is NULL if the layer has none */
	const float *bias, *scale;
	const float *shared; /* [n] scores of the shared expert, or NULL */
};

/* Compute the scores of a layer's router. If the layer has a router for the shared expert, compute the scores of that
 * router, too. Read scores and constants from the backend in one call, because each read waits for the device. */
static struct route route_read(struct forward *f, const struct layer_spec *s, const struct layer *l,
                               const struct tensor *in, const struct tensor *choice, int32_t n)
{
	const struct backend_ops *op = f->be->ops;
	/* The shared expert's scores begin at row `at` of f->route, after n rows of router scores and two rows of
	 * constants. The row number is a multiple of 4, so that the scores begin at a multiple of 16 bytes. */
	int32_t width = s->ffn.n_expert, at = (n + 2 + 3) / 4 * 4;
	struct tensor route = f->route, shared;
	struct route r = { .score = f->score };
	size_t values = (size_t)(n + 2) * (size_t)width;

	route.cols = width;
	shared = tensor_rows(&route, at);
	shared.cols = 1;
	op->matmul(f->be,
	           &(struct matmul){
			   .out = &route, .w = &l->router, .bias = l->router_bias.data ? &l->router_bias : NULL },
	           1, choice, n);
	if (l->probs_bias.data) {
		op->copy(f->be, &route, n, &l->probs_bias, 0, 1);
		r.bias = f->score + (size_t)n * (size_t)width;
	}
	if (l->expert_scales.data) {
		op->copy(f->be, &route, n + 1, &l->expert_scales, 0, 1);
		r.scale = f->score + (size_t)(n + 1) * (size_t)width;
	}
	if (l->shared_router.data) {
		op->matmul(f->be, &(struct matmul){ .out = &shared, .w = &l->shared_router }, 1, in, n);
		r.shared = f->score + (size_t)at * (size_t)width;
		values = (size_t)at * (size_t)width + (size_t)n;
	}
	/* after a failure of the backend, read() writes nothing, so fill the array with zeros first */
	memset(f->score, 0, values * sizeof *f->score);
	op->read(f->be, &route, 0, f->score, values * sizeof *f->score);
	return r;
}

/* Add the output of the shared expert, which all tokens use, to expert_sum. If the layer scores the shared expert,
 * first multiply each token's output by the sigmoid of the token's score. */
static void shared_expert(struct forward *f, const struct layer_spec *s, const struct layer *l, const struct tensor *in,
                          const float *score, int32_t n)
{
	const struct backend_ops *op = f->be->ops;
	struct tensor hidden = f->ffn;

	hidden.cols = s->ffn.shared;
	for (int32_t i = 0; i < n; i++) {
		f->token[i] = i;
		f->weight[i] = score ? (float)(1 / (1 + exp(-(double)score[i]))) : 1;
	}
	op->matmul_glu(f->be, &hidden,
	               &(struct matmul_glu){ .gate = &l->shared_gate, .up = &l->shared_up, .act = s->ffn.act }, in, n);
	op->matmul(f->be, &(struct matmul){ .out = &f->expert_out, .w = &l->shared_down }, 1, &hidden, n);
	op->add_rows(f->be, &f->expert_sum, &f->expert_out, f->token, f->weight, n);
}

/* Compute the experts one after the other, each for all tokens that use it. So the outputs of a token's experts are
 * always summed in the order of the experts' numbers. The result for a token then does not depend on the step's other
 * tokens. */
void forward_experts(struct forward *f, const struct layer_spec *s, const struct layer *l, const struct tensor *in,
                     const struct tensor *choice, int32_t n)
{
	const struct backend_ops *op = f->be->ops;
	const struct ffn_spec *ffn = &s->ffn;
	struct route r = route_read(f, s, l, in, choice, n);
	struct tensor hidden = f->ffn;

	hidden.cols = ffn->width;
	for (int32_t i = 0; i < n; i++)
		experts_choose(r.score + (size_t)i * (size_t)ffn->n_expert, r.bias, ffn,
		               f->chosen + (size_t)i * (size_t)ffn->n_used, f->share + (size_t)i * (size_t)ffn->n_used);
	for (int32_t i = 0; r.scale && i < n * ffn->n_used; i++)
		f->share[i] *= r.scale[f->chosen[i]];
	op->axpby(f->be, &f->expert_sum, 0, in, 0, n);
	for (int32_t e = 0; e < ffn->n_expert; e++) {
		const struct expert *x = &l->expert[e];
		int32_t m = tokens_of(f, ffn, e, n);

		if (!m)
			continue;
		op->take_rows(f->be, &f->expert_in, in, f->token, m);
		op->matmul_glu(f->be, &hidden,
		               &(struct matmul_glu){ .gate = &x->gate,
		                                     .up = &x->up,
		                                     .gate_bias = x->gate_bias.data ? &x->gate_bias : NULL,
		                                     .up_bias = x->up_bias.data ? &x->up_bias : NULL,
		                                     .act = ffn->act },
		               &f->expert_in, m);
		op->matmul(f->be,
		           &(struct matmul){ .out = &f->expert_out,
		                             .w = &x->down,
		                             .bias = x->down_bias.data ? &x->down_bias : NULL },
		           1, &hidden, m);
		op->add_rows(f->be, &f->expert_sum, &f->expert_out, f->token, f->weight, m);
	}
	if (ffn->shared)
		shared_expert(f, s, l, in, r.shared, n);
}

void forward_dense_and_experts(struct forward *f, const struct layer_spec *s, const struct layer *l, int32_t n)
{
	const struct hparams *hp = &f->m->hp;
	const struct backend_ops *op = f->be->ops;
	struct tensor hidden = f->ffn;

	hidden.cols = s->ffn.dense;
	op->rmsnorm(f->be, &f->norm, &f->x, &l->ffn_norm, hp->n_embd, hp->eps, n);
	op->matmul_glu(f->be, &hidden, &(struct matmul_glu){ .gate = &l->gate, .up = &l->up, .act = s->ffn.act },
	               &f->norm, n);
	op->matmul(f->be, &(struct matmul){ .out = &f->dense_out, .w = &l->down }, 1, &hidden, n);
	op->rmsnorm(f->be, &f->dense_out, &f->dense_out, &l->dense_post_norm, hp->n_embd, hp->eps, n);
	/* The router's input is x after a norm with its own weights, divided by sqrt(n_embd). */
	op->rmsnorm(f->be, &f->expert_out, &f->x, &l->router_scale, hp->n_embd, hp->eps, n);
	op->axpby(f->be, &f->expert_out, (float)(1 / sqrt((double)hp->n_embd)), &f->expert_out, 0, n);
	op->rmsnorm(f->be, &f->norm, &f->x, &l->experts_norm, hp->n_embd, hp->eps, n);
	forward_experts(f, s, l, &f->norm, &f->expert_out, n);
	op->rmsnorm(f->be, &f->expert_sum, &f->expert_sum, &l->experts_post_norm, hp->n_embd, hp->eps, n);
	op->axpby(f->be, &f->expert_sum, 1, &f->dense_out, 1, n);
}
