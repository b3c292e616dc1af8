/* kernels/common/experts.c - computes the experts of a layer by other operations of the backend. */
#include <string.h>

#include "kernels/common/operands.h"

/* Find the tokens that use expert e. Write their indices to a->token, and the weights of the expert to a->weight. Return
 * the number of tokens found. */
static int32_t tokens_of(const struct experts_args *a, int32_t e, int32_t n)
{
	const float *row = a->host;
	int32_t found = 0;

	for (int32_t i = 0; i < n; i++, row += ROUTE_COLS(a->n_used))
		for (int32_t k = 0; k < a->n_used; k++)
			if (row[k] == (float)e) {
				a->token[found] = i;
				a->weight[found++] = row[a->n_used + k];
			}
	return found;
}

/* Compute an expert for m rows of x, and add the results, times a->weight, to the rows a->token of a->out. */
static void expert_add(struct backend *be, const struct experts_args *a, const struct expert *e, const struct tensor *x,
                       int32_t m)
{
	const struct backend_ops *op = be->ops;
	struct tensor hidden = *a->hidden;

	hidden.cols = e->gate.rows;
	op->matmul_glu(be, &hidden,
	               &(struct matmul_glu){ .gate = &e->gate,
	                                     .up = &e->up,
	                                     .gate_bias = e->gate_bias.data ? &e->gate_bias : NULL,
	                                     .up_bias = e->up_bias.data ? &e->up_bias : NULL,
	                                     .act = a->act },
	               x, m);
	op->matmul(be,
	           &(struct matmul){ .out = a->part, .w = &e->down, .bias = e->down_bias.data ? &e->down_bias : NULL },
	           1, &hidden, m);
	op->add_rows(be, a->out, a->part, a->token, a->weight, m);
}

/* The experts are computed one after the other, so the outputs of a token's experts are always summed in the order of
 * the experts' numbers. The result for a token then does not depend on the other tokens. */
void experts_each(struct backend *be, const struct experts_args *a, int32_t n)
{
	size_t values = (size_t)n * (size_t)ROUTE_COLS(a->n_used);

	/* after a failure of the backend, read() writes nothing, so fill the array with zeros first */
	memset(a->host, 0, values * sizeof *a->host);
	be->ops->read(be, a->route, 0, a->host, values * sizeof *a->host);
	be->ops->axpby(be, a->out, 0, a->x, 0, n);
	for (int32_t e = 0; e < a->n_expert; e++) {
		int32_t m = tokens_of(a, e, n);

		if (!m)
			continue;
		be->ops->take_rows(be, a->in, a->x, a->token, m);
		expert_add(be, a, &a->expert[e], a->in, m);
	}
	for (int32_t i = 0; a->shared && i < n; i++) {
		a->token[i] = i;
		a->weight[i] = a->host[(size_t)(i + 1) * (size_t)ROUTE_COLS(a->n_used) - 1];
	}
	if (a->shared)
		expert_add(be, a, a->shared, a->x, n);
}
