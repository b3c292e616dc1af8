/* engine/cache/ema.h (private to engine/) - exponential moving averages of attention mass. */
#ifndef WEIR_EMA_H
#define WEIR_EMA_H

#include <stdint.h>

/* An exponential moving average that is never decayed: newer tokens get larger weights instead, since only ratios of
 * sums count. Before weights overflow, weights and sums are divided by a power of two, which changes no
 * comparison. */
struct ema {
	double rate;   /* log2(1 / gamma): growth of the weights per token */
	float gain;    /* 1 - gamma */
	int64_t shift; /* weights are divided by 2^shift */
};
/* Return gamma = 100^(-1/w): a token's mass counts 1 % after w tokens. */
float ema_gamma(int32_t w);
void ema_set(struct ema *, float gamma);
/* Raise shift so that the weights of tokens t .. t + n fit a float. Returns the power of two (0 or less) by which the
 * caller must scale its older sums. */
int32_t ema_scale(struct ema *, int32_t t, int32_t n);
/* As ema_scale(), and write the weights of tokens t .. t + n to weight[n]. */
int32_t ema_weights(struct ema *, int32_t t, int32_t n, float *weight);
/* Convert a sum of weighted values, after t tokens, to the moving average. */
float ema_value(const struct ema *, float sum, int32_t t);

#endif
