/* engine/forward/forward_inputs.c - per-layer inputs (Gemma 4): for each token and layer, a vector that is added to the
 * residual stream in that layer. */
#include <math.h>

#include "engine/forward/forward.h"

/* Compute the per-layer inputs of all layers at once: inputs = (norm(x W^T / sqrt(n_embd)) + sqrt(n_input) * e) /
 * sqrt(2). e is the token's row of the table input_embd. */
void forward_inputs(struct forward *f, const int32_t *id, int32_t n)
{
	const struct hparams *hp = &f->m->hp;
	const struct backend_ops *op = f->be->ops;
	int32_t wide = hp->n_input;

	op->matmul(f->be, &(struct matmul){ .out = &f->inputs, .w = &f->m->input_in }, 1, &f->x, n);
	op->axpby(f->be, &f->inputs, (float)(1 / sqrt((double)hp->n_embd)), &f->inputs, 0, n);
	op->rmsnorm(f->be, &f->inputs, &f->inputs, &f->m->input_norm, wide, hp->eps, n);
	op->embed(f->be, &f->input_embd, &f->m->input_embd, id, n);
	op->axpby(f->be, &f->inputs, (float)sqrt((double)wide / 2), &f->input_embd, (float)sqrt(0.5), n);
}

/* Add norm((gelu(x W) * input) W2) to x, where `input` is the per-layer input of this layer. */
void forward_add_input(struct forward *f, const struct layer *l, int32_t layer, int32_t n)
{
	const struct hparams *hp = &f->m->hp;
	const struct backend_ops *op = f->be->ops;
	struct tensor rows = f->inputs;

	rows.rows *= hp->n_layer;
	rows.cols = hp->n_input;
	for (int32_t i = 0; i < n; i++)
		f->input_row[i] = (f->first + i) * hp->n_layer + layer;
	op->take_rows(f->be, &f->input, &rows, f->input_row, n);
	op->matmul(f->be, &(struct matmul){ .out = &f->input_gate, .w = &l->input_gate }, 1, &f->x, n);
	op->gate(f->be, &f->input, &f->input_gate, GATE_GELU, n);
	op->matmul(f->be, &(struct matmul){ .out = &f->norm, .w = &l->input_out }, 1, &f->input, n);
	op->rmsnorm(f->be, &f->norm, &f->norm, &l->input_norm, hp->n_embd, hp->eps, n);
	op->axpby(f->be, &f->x, 1, &f->norm, 1, n);
}
