/* tests/measure/encode.c - measures tokens per second of an encoder, in processor time and wall time, and the share of
 * each kind of operation.
 *
 *     build/tests/measure/encode MODEL.gguf [THREADS [TEXTS [TOKENS]]]
 *
 * Texts are random token ids. The operations are timed by wrapping the backend's table, on the calling thread. Run the
 * program while the machine does nothing else. tests/vectors/make_encoder.py --speed makes files of random weights. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "engine/encoder/encoder.h"

static const struct backend_ops *inner;
static struct backend_ops timed;
static double seconds[6];
static const char *const names[] = { "matmul", "attn", "layernorm", "gelu", "kv_put", "other" };

static double seconds_now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}
#define TIMED(i, call)                                                                                                 \
	double start = seconds_now(CLOCK_MONOTONIC);                                                                   \
	call;                                                                                                          \
	seconds[i] += seconds_now(CLOCK_MONOTONIC) - start

static void timed_matmul(struct backend *be, const struct matmul *m, int32_t n_m, const struct tensor *x, int32_t n)
{
	TIMED(0, inner->matmul(be, m, n_m, x, n));
}
static void timed_attn(struct backend *be, const struct attn_args *a, int32_t n)
{
	TIMED(1, inner->attn(be, a, n));
}
static void timed_layernorm(struct backend *be, struct tensor *out, const struct tensor *x, const struct tensor *w,
                            const struct tensor *b, float eps, int32_t n)
{
	TIMED(2, inner->layernorm(be, out, x, w, b, eps, n));
}
static void timed_gelu(struct backend *be, struct tensor *x, int32_t n)
{
	TIMED(3, inner->gelu(be, x, n));
}
static void timed_kv_put(struct backend *be, struct tensor *plane, const struct tensor *x, int32_t heads, int32_t slot0,
                         int32_t n)
{
	TIMED(4, inner->kv_put(be, plane, x, heads, slot0, n));
}

int main(int argc, char **argv)
{
	int threads = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 2,
	    texts = argc > 3 ? (int)strtol(argv[3], NULL, 10) : 64,
	    tokens = argc > 4 ? (int)strtol(argv[4], NULL, 10) : 120;
	struct encoder_text *text;
	struct encoder *e;
	struct err err = { 0 };
	double wall, cpu, sum = 0;
	int32_t *id;
	float *out;

	if (argc < 2 || texts < 1 || tokens < 1 || encoder_open(&e, argv[1], "cpu", threads, &err)) {
		fprintf(stderr, "encode: %s\n", argc < 2 ? "MODEL.gguf [THREADS [TEXTS [TOKENS]]]" : err.msg);
		return 1;
	}
	text = xcalloc((size_t)texts, sizeof *text);
	id = xcalloc((size_t)texts * (size_t)tokens, sizeof *id);
	out = xcalloc((size_t)texts * (size_t)encoder_dims(e), sizeof *out);
	for (int i = 0; i < texts * tokens; i++)
		id[i] = (int32_t)((uint32_t)i * 2654435761u % (uint32_t)e->n_vocab);
	for (int i = 0; i < texts; i++)
		text[i] = (struct encoder_text){ .id = id + i * tokens, .n = tokens };
	inner = e->be->ops;
	timed = *inner;
	timed.matmul = timed_matmul;
	timed.attn = timed_attn;
	timed.layernorm = timed_layernorm;
	timed.gelu = timed_gelu;
	timed.kv_put = timed_kv_put;
	e->be->ops = &timed;
	for (int round = 0; round < 4; round++) {
		for (int i = 0; i < 6; i++)
			seconds[i] = 0;
		wall = -seconds_now(CLOCK_MONOTONIC);
		cpu = -seconds_now(CLOCK_PROCESS_CPUTIME_ID);
		if (encoder_embed(e, text, texts, out, NULL, &err)) {
			fprintf(stderr, "encode: %s\n", err.msg);
			return 1;
		}
		wall += seconds_now(CLOCK_MONOTONIC);
		cpu += seconds_now(CLOCK_PROCESS_CPUTIME_ID);
		sum = 0;
		for (int i = 0; i < 5; i++)
			sum += seconds[i];
		seconds[5] = wall - sum;
		printf("%.0f tokens/s wall, %.0f a second of processor time:", texts * tokens / wall,
		       texts * tokens / cpu);
		for (int i = 0; i < 6; i++)
			printf(" %s %.0f%%", names[i], 100 * seconds[i] / wall);
		printf("\n");
	}
	e->be->ops = inner;
	encoder_close(e);
	free(text);
	free(id);
	free(out);
	return 0;
}
