/* kernels/cpu_recurrent.c - operations of layers that keep a state instead of a KV cache: short convolutions.
 *
 * A thread computes some columns of all tokens, in the order of the tokens: so a result depends neither on the number of threads nor on
 * how a prefill is cut into steps. */
#include "kernels/cpu.h"

enum { COLUMNS_A_TASK = 256, SMALL_CONV = 16 << 10 };   /* SMALL_CONV: values that one thread handles faster than two */

struct conv_job { const struct short_conv *a; int32_t n, cols, per_task; };

/* The gated input B * x of token i, which may lie before this call. */
static float gated(const struct conv_job *j, int32_t i, int32_t c)
{
	const struct short_conv *a = j->a;
	const float *in = a->in->data, *state = a->state->data;
	size_t row = (size_t)j->cols;

	if (i < 0)
		return state[(size_t)(a->taps - 1 + i) * row + (size_t)c];
	in += (size_t)i * 3 * row + (size_t)c;
	return in[0] * in[2 * row];
}

static void conv_task(void *arg, int task, int worker)
{
	const struct conv_job *j = arg;
	const struct short_conv *a = j->a;
	int32_t from = task * j->per_task, to = min32(from + j->per_task, j->cols);
	size_t row = (size_t)j->cols;
	float *out = a->out->data, *next = a->next->data;
	const float *in = a->in->data, *w = a->w->data;

	(void)worker;
	for (int32_t i = 0; i < j->n; i++)
		for (int32_t c = from; c < to; c++) {
			float sum = 0;

			for (int32_t k = 0; k < a->taps; k++)
				sum += w[(size_t)c * (size_t)a->taps + (size_t)k] * gated(j, i - a->taps + 1 + k, c);
			out[(size_t)i * row + (size_t)c] = in[((size_t)i * 3 + 1) * row + (size_t)c] * sum;
		}
	for (int32_t k = 0; k < a->taps - 1; k++)
		for (int32_t c = from; c < to; c++)
			next[(size_t)k * row + (size_t)c] = gated(j, j->n - a->taps + 1 + k, c);
}

void cpu_short_conv(struct backend *be, const struct short_conv *a, int32_t n)
{
	struct conv_job j = { .a = a, .n = n, .cols = a->out->cols };

	if (be->failed || n < 1 || short_conv_check(be, a, n) < 0)
		return;
	j.per_task = (int64_t)n * j.cols <= SMALL_CONV ? j.cols : COLUMNS_A_TASK;
	if (j.per_task == j.cols)
		conv_task(&j, 0, 0);
	else
		pool_run(cpu_of(be)->pool, conv_task, &j, ceil_div(j.cols, j.per_task));
}
