/* tests/measure/time_select.c - the time of the operations of selection for a document of 7,680 tokens in the default
 * model: the median of one layer's call. The calls go through all layers one after the other, as in a decoding step.
 *
 *     make build/tests/measure/time_select && build/tests/measure/time_select [c | avx2 | avx512 | neon | neon_dot] */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/lib/select_ref.h"

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

enum { T_LAYERS = 30, T_N = 7680, T_DIM = 64, T_KV = 3, T_HEADS = 9, T_K = 512 };

struct timed {
	struct tensor plane[T_LAYERS], values[T_LAYERS], sketch[T_LAYERS], score, rows, bias, q, out, move, turn;
	int32_t bits;
};

static struct scan_args scan_of(struct timed *t, int layer)
{
	return (struct scan_args){ .out = &t->score,
		                   .q = &t->q,
		                   .keys = t->bits < 16 ? &t->sketch[layer] : &t->plane[layer],
		                   .n_head = T_HEADS,
		                   .n_kv_head = T_KV,
		                   .head_dim = T_DIM,
		                   .cap = T_N,
		                   .n_slots = T_N,
		                   .bits = t->bits,
		                   .scale = 0.125f };
}

static void time_scan(struct backend *be, struct timed *t, int layer)
{
	struct scan_args a = scan_of(t, layer);

	be->ops->key_scan(be, &a);
}

static void time_topk(struct backend *be, struct timed *t, int layer)
{
	(void)layer;
	be->ops->topk(
		be, &(struct topk_args){
			    .slots = &t->rows, .score = &t->score, .n_kv_head = T_KV, .n = T_N, .k = T_K, .pool = 1 });
}

static void time_topk_sample(struct backend *be, struct timed *t, int layer)
{
	(void)layer;
	be->ops->topk(be, &(struct topk_args){ .slots = &t->rows,
	                                       .score = &t->score,
	                                       .n_kv_head = T_KV,
	                                       .n = T_N,
	                                       .k = T_K / 2,
	                                       .pool = 1,
	                                       .sample = T_K / 4,
	                                       .bias = &t->bias });
}

static void time_topk_pooled(struct backend *be, struct timed *t, int layer)
{
	(void)layer;
	be->ops->topk(be, &(struct topk_args){ .slots = &t->rows,
	                                       .score = &t->score,
	                                       .n_kv_head = T_KV,
	                                       .n = T_N,
	                                       .k = T_K,
	                                       .pool = 7,
	                                       .order = BEST_FIRST });
}

static void time_both(struct backend *be, struct timed *t, int layer)
{
	time_scan(be, t, layer);
	time_topk(be, t, layer);
}

/* Attend to k entries and a sample; selected = 1: after selecting them, as a token of the policy `sift` does. */
static void time_attention(struct backend *be, struct timed *t, int layer, int32_t k, int32_t sample, int selected)
{
	struct scan_args scan = scan_of(t, layer);
	struct topk_args topk = { .slots = &t->rows,
		                  .score = &t->score,
		                  .n_kv_head = T_KV,
		                  .n = T_N,
		                  .k = k,
		                  .pool = 1,
		                  .sample = sample,
		                  .bias = sample ? &t->bias : NULL };
	struct attn_selection selection = { .scan = &scan, .topk = &topk };
	struct attn_segment seg = { .q = &t->q,
		                    .slots = &t->rows,
		                    .selection = selected ? &selection : NULL,
		                    .bias = topk.bias,
		                    .n_slots = k + sample,
		                    .sample = sample };

	be->ops->attn(be,
	              &(struct attn_args){ .out = &t->out,
	                                   .k = &t->plane[layer],
	                                   .v = &t->values[layer],
	                                   .seg = &seg,
	                                   .n_seg = 1,
	                                   .n_head = T_HEADS,
	                                   .n_kv_head = T_KV,
	                                   .head_dim = T_DIM,
	                                   .cap = T_N,
	                                   .scale = 0.125f },
	              1);
}

static void time_listed(struct backend *be, struct timed *t, int layer)
{
	time_attention(be, t, layer, T_K, 0, 0);
}

static void time_selected(struct backend *be, struct timed *t, int layer)
{
	time_attention(be, t, layer, T_K, 0, 1);
}

static void time_sampled(struct backend *be, struct timed *t, int layer)
{
	time_attention(be, t, layer, T_K / 2, T_K / 4, 1);
}

static void time_sketch_all(struct backend *be, struct timed *t, int layer)
{
	be->ops->key_sketch(be, &t->sketch[layer], &t->plane[layer], T_KV, T_N, t->bits, 0, T_N);
}

static void time_sketch_one(struct backend *be, struct timed *t, int layer)
{
	be->ops->key_sketch(be, &t->sketch[layer], &t->plane[layer], T_KV, T_N, t->bits, T_N - 1, 1);
}

static void time_move(struct backend *be, struct timed *t, int layer)
{
	be->ops->kv_move(be, &t->plane[layer],
	                 &(struct kv_moves){ .move = &t->move,
	                                     .shift = &t->turn,
	                                     .n = 512,
	                                     .n_kv_head = T_KV,
	                                     .head_dim = T_DIM,
	                                     .dims = T_DIM,
	                                     .cap = T_N,
	                                     .neox = 1 });
}

/* Do the work of `predict` with blocks of 16 in one layer: five rows of 248 blocks in each KV head. */
static void time_predict(struct backend *be, struct timed *t, int layer)
{
	static float out[32 * 32], in[3][34 * 16], w[9 * 16 * 32];

	(void)layer;
	(void)t;
	for (int i = 0; i < T_KV * 5 * 248 / 31; i++)
		conv_row(be,
		         &(struct conv3_args){
				 .out = out, .in = { in[0], in[1], in[2] }, .w = w, .n_in = 16, .n_out = 32, .n = 31 });
}

/* Print the median microseconds of one layer's call. The calls go through all layers one after the other, as in a
 * decoding step. */
static double time_layers(struct backend *be, struct timed *t, void (*fn)(struct backend *, struct timed *, int),
                          double bytes, const char *name)
{
	enum { REPS = 15 };
	double us[REPS], begin = now();
	int n = 0;

	for (int r = 0; r < REPS && (r < 3 || now() - begin < 0.5); r++, n = r) {
		double start = now();

		for (int i = 0; i < T_LAYERS; i++)
			fn(be, t, i);
		us[r] = (now() - start) / T_LAYERS * 1e6;
		for (int i = r; i > 0 && us[i] < us[i - 1]; i--) {
			double x = us[i];

			us[i] = us[i - 1];
			us[i - 1] = x;
		}
	}
	if (bytes > 0)
		test_note("%-26s %8.2f us (best %.2f)  %6.1f GB/s", name, us[n / 2], us[0], bytes / us[n / 2] * 1e-3);
	else
		test_note("%-26s %8.2f us (best %.2f)", name, us[n / 2], us[0]);
	return us[n / 2];
}

static void time_level(const char *level)
{
	for (int threads = 1; threads <= 2; threads++) {
		struct backend *be = open_level(level, threads);
		float *x = random_keys(T_KV, T_N, T_DIM), *held = must_alloc(T_KV * T_N * T_DIM * sizeof *held);
		float *q = random_query(T_HEADS * T_DIM, 0), table[T_DIM];
		int32_t *move = must_alloc(T_KV * 3 * 512 * sizeof *move);
		struct timed t;
		char name[64];

		if (!be) {
			free(x);
			free(held);
			free(q);
			free(move);
			continue;
		}
		for (int i = 0; i < T_LAYERS; i++)
			t.plane[i] = plane_new(be, DT_F16, T_KV, T_N, T_DIM, x, held);
		for (int i = 0; i < T_LAYERS; i++)
			t.values[i] = plane_new(be, DT_F16, T_KV, T_N, T_DIM, x, held);
		t.q = tensor_new(be, DT_F32, 1, T_HEADS * T_DIM, q);
		t.out = tensor_new(be, DT_F32, 1, T_HEADS * T_DIM, NULL);
		t.score = tensor_new(be, DT_F32, T_KV, T_N, NULL);
		t.rows = tensor_new(be, DT_I32, T_KV, T_K, NULL);
		t.bias = tensor_new(be, DT_F32, T_KV, T_K, NULL);
		for (int i = 0; i < T_KV * 512; i++) {
			move[3 * i] = (i * 13) % T_N;
			move[3 * i + 1] = (i * 7) % T_N;
			move[3 * i + 2] = 0;
		}
		for (int i = 0; i < T_DIM; i++)
			table[i] = i % 2 ? 0.0f : 1.0f;
		t.move = tensor_new(be, DT_I32, T_KV, 3 * 512, move);
		t.turn = tensor_new(be, DT_F32, 1, T_DIM, table);
		test_note("%s, %d threads, %d keys x %d x %d, %d query heads, one layer:", level, threads, T_N, T_KV,
		          T_DIM, T_HEADS);
		for (t.bits = 2; t.bits <= 16; t.bits *= 2) {
			double bytes = t.bits == 16 ? (double)T_KV * T_N * T_DIM * 2
			                            : (double)be->ops->key_sketch_bytes(be, T_KV, T_N, T_DIM, t.bits);

			for (int i = 0; i < T_LAYERS && t.bits < 16; i++) {
				t.sketch[i] = tensor_new(be, DT_U8, 1, (int32_t)bytes, NULL);
				time_sketch_all(be, &t, i);
			}
			snprintf(name, sizeof name, "key_scan, %d bits", (int)t.bits);
			time_layers(be, &t, time_scan, bytes, name);
			if (t.bits == 2) {
				time_layers(be, &t, time_both, bytes, "key_scan and topk");
				time_layers(be, &t, time_selected, 0, "attention to 512 selected");
				time_layers(be, &t, time_sampled, 0, "256 and a sample of 128");
				time_layers(be, &t, time_listed, 0, "attention to 512 listed");
				time_layers(be, &t, time_sketch_all, (double)T_KV * T_N * T_DIM * 2, "key_sketch, all");
				time_layers(be, &t, time_sketch_one, 0, "key_sketch, one row");
			}
			for (int i = 0; i < T_LAYERS && t.bits < 16; i++)
				be->ops->drop(be, &t.sketch[i]);
		}
		time_layers(be, &t, time_topk, 0, "topk 512");
		time_layers(be, &t, time_topk_sample, 0, "topk 256, sample of 128");
		time_layers(be, &t, time_topk_pooled, 0, "topk 512, pool 7, in order");
		time_layers(be, &t, time_predict, 0, "conv_row, 16 to 32 channels");
		time_layers(be, &t, time_move, (double)T_KV * 512 * T_DIM * 2, "kv_move of 512, turned");
		for (int i = 0; i < T_LAYERS; i++)
			be->ops->drop(be, &t.plane[i]);
		for (int i = 0; i < T_LAYERS; i++)
			be->ops->drop(be, &t.values[i]);
		be->ops->drop(be, &t.q);
		be->ops->drop(be, &t.out);
		be->ops->drop(be, &t.score);
		be->ops->drop(be, &t.rows);
		be->ops->drop(be, &t.bias);
		be->ops->drop(be, &t.move);
		be->ops->drop(be, &t.turn);
		free(x);
		free(held);
		free(q);
		free(move);
		finish(be);
	}
}

TEST(c)
{
	time_level("c");
}
#ifdef __aarch64__
TEST(neon)
{
	time_level("neon");
}
TEST(neon_dot)
{
	time_level("neon-dot");
}
#else
TEST(avx2)
{
	time_level("avx2");
}
TEST(avx512)
{
	time_level("avx512");
}
#endif
