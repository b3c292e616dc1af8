/* kernels/cpu/experts.c - the choice of experts, in host memory and in double; their products (experts_each()). */
#include <math.h>

#include "kernels/cpu/cpu.h"

/* Write the numbers of the n_used experts with the highest ranks to chosen[], in ascending order. */
static void ranks_choose(const float *rank, int32_t n_expert, int32_t n_used, float *chosen)
{
	uint8_t taken[EXPERTS_MAX] = { 0 };

	for (int32_t k = 0; k < n_used; k++) {
		int32_t best = 0, at = k;

		while (taken[best])
			best++;
		for (int32_t e = best + 1; e < n_expert; e++)
			if (!taken[e] && (rank[e] > rank[best] || isnan(rank[best])))
				best = e;
		taken[best] = 1;
		for (; at > 0 && chosen[at - 1] > (float)best; at--)
			chosen[at] = chosen[at - 1];
		chosen[at] = (float)best;
	}
}

/* Write the row of route_args.out of a token with these scores. */
static void token_route(const struct route_args *a, const float *from, float *out)
{
	const float *bias = a->bias ? a->bias->data : NULL, *scale = a->scale ? a->scale->data : NULL;
	float score[EXPERTS_MAX], rank[EXPERTS_MAX], *share = out + a->n_used, most = -INFINITY;
	int32_t n_expert = a->score->cols;
	double sum = 0;

	for (int32_t e = 0; e < n_expert; e++) {
		score[e] = a->sigmoid ? (float)(1 / (1 + exp(-(double)from[e]))) : from[e];
		rank[e] = bias ? score[e] + bias[e] : score[e];
	}
	ranks_choose(rank, n_expert, a->n_used, out);
	for (int32_t k = 0; k < a->n_used; k++)
		most = MAX(score[(int32_t)out[k]], most);
	for (int32_t e = 0; a->whole && e < n_expert; e++)
		sum += exp((double)score[e] - (double)most);
	for (int32_t k = 0; k < a->n_used && !a->whole; k++)
		sum += a->sigmoid ? (double)score[(int32_t)out[k]] : exp((double)score[(int32_t)out[k]] - (double)most);
	for (int32_t k = 0; k < a->n_used; k++) {
		int32_t e = (int32_t)out[k];

		share[k] = (float)(a->sigmoid ? (double)score[e] / (sum + 1e-6)
		                              : exp((double)score[e] - (double)most) / sum);
		share[k] *= scale ? scale[e] : 1;
	}
}

void cpu_route(struct backend *be, const struct route_args *a, int32_t n)
{
	const float *shared = a->shared ? a->shared->data : NULL, *from = a->score->data;
	float *out = a->out->data;

	if (be->failed || n < 1 || route_check(be, a, n) < 0)
		return;
	for (int32_t i = 0; i < n; i++, from += a->score->cols, out += a->out->cols) {
		token_route(a, from, out);
		out[2 * a->n_used] = shared ? (float)(1 / (1 + exp(-(double)shared[i]))) : 1;
	}
}

int cpu_expert_table(struct backend *be, struct tensor *t, const struct expert *expert, int32_t n)
{
	(void)be;
	(void)expert;
	(void)n;
	t->data = NULL;
	return 0;
}

void cpu_experts(struct backend *be, const struct experts_args *a, int32_t n)
{
	if (!be->failed && n > 0 && experts_check(be, a, n) == 0)
		experts_each(be, a, n);
}
