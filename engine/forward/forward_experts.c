/* engine/forward/forward_experts.c - feed-forwards with experts: the router, the experts that it chooses for each
 * token, and the shared expert, which all tokens use. */
#include <math.h>

#include "engine/forward/forward.h"

void forward_experts(struct forward *f, const struct layer_spec *s, const struct layer *l, const struct tensor *in,
                     const struct tensor *choice, int32_t n)
{
	const struct backend_ops *op = f->be->ops;
	const struct ffn_spec *ffn = &s->ffn;
	struct expert shared = { .gate = l->shared_gate, .up = l->shared_up, .down = l->shared_down };
	struct tensor score = f->scores, route = f->route;

	score.cols = ffn->n_expert;
	route.cols = ROUTE_COLS(ffn->n_used);
	op->matmul(f->be,
	           &(struct matmul){
			   .out = &score, .w = &l->router, .bias = l->router_bias.data ? &l->router_bias : NULL },
	           1, choice, n);
	if (l->shared_router.data)
		op->matmul(f->be, &(struct matmul){ .out = &f->shared_score, .w = &l->shared_router }, 1, in, n);
	op->route(f->be,
	          &(struct route_args){ .out = &route,
	                                .score = &score,
	                                .bias = l->probs_bias.data ? &l->probs_bias : NULL,
	                                .scale = l->expert_scales.data ? &l->expert_scales : NULL,
	                                .shared = l->shared_router.data ? &f->shared_score : NULL,
	                                .n_used = ffn->n_used,
	                                .whole = ffn->whole,
	                                .sigmoid = ffn->sigmoid },
	          n);
	op->experts(f->be,
	            &(struct experts_args){ .out = &f->expert_sum,
	                                    .x = in,
	                                    .route = &route,
	                                    .expert = l->expert,
	                                    .shared = ffn->shared ? &shared : NULL,
	                                    .table = &l->expert_table,
	                                    .n_expert = ffn->n_expert,
	                                    .n_used = ffn->n_used,
	                                    .act = ffn->act,
	                                    .hidden = &f->ffn,
	                                    .in = &f->expert_in,
	                                    .part = &f->expert_out,
	                                    .host = f->route_host,
	                                    .weight = f->weight,
	                                    .token = f->token },
	            n);
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
