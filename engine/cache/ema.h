/* engine/cache/ema.h (private to engine/) - exponential moving averages of attention mass. */
#ifndef WEIR_EMA_H
#define WEIR_EMA_H

#include <stdint.h>

/* An exponential moving average of sums. Older values are not decayed; newer values get larger weights instead. Both
 * give the same ratios between sums, and only ratios matter. Before weights overflow, all weights and sums are divided
 * by the same power of two. */
struct ema {
	double rate;   /* log2(1 / gamma): log2 of the factor by which the weights grow per token */
	float gain;    /* 1 - gamma */
	int64_t shift; /* weights are divided by 2^shift */
};
/* Return the decay factor per token, 100^(-1/w): the weight of a value falls to 1 % after w tokens. */
float ema_gamma(int32_t w);
void ema_set(struct ema *, float gamma);
/* If the weights of the n tokens from token t on would overflow a float, raise `shift`: this divides all weights by a
 * power of two. Returns an exponent e <= 0. The caller must multiply all sums that it already has by 2^e. */
int32_t ema_scale(struct ema *, int32_t t, int32_t n);
/* For each i < n, set weight[i] to the factor by which the attention of token t + i is multiplied before it is added to
 * a sum. Calls ema_scale() first, and returns its result. */
int32_t ema_weights(struct ema *, int32_t t, int32_t n, float *weight);
/* Convert a sum of weighted values to the moving average after t tokens. */
float ema_value(const struct ema *, float sum, int32_t t);

#endif
