/* tests/engine/t_train.c - training: compares the gradient of a whole model with differences of a model in double
 * (train_ref.h), the forward pass with the engine's, and training under a mask with the cache policy. Also tests
 * interrupted training, numbers of threads, and that the written model can be loaded. */
#include <stdio.h>
#include <unistd.h>

#include "tests/lib/mkgguf.h"
#include "tests/lib/test.h"
#include "tests/lib/train_ref.h"
#include "engine/lab/lab.h"

struct shape {
	int32_t layers, heads, kv_heads, dim, ff, tied;
};
static const struct shape shapes[] = { { 2, 4, 2, 6, 10, 1 }, { 1, 3, 1, 4, 23, 0 }, { 3, 2, 2, 2, 7, 0 } };
enum { VOCAB = 270 };

static void weights(struct mk *m, const char *name, int32_t rows, int32_t cols)
{
	size_t n = (size_t)rows * (size_t)cols;
	float *v = calloc(n, sizeof *v);

	for (size_t i = 0; i < n; i++)
		v[i] = test_randf(-0.7f, 0.7f) + (rows == 1);
	mk_tensor(m, name, rows == 1 ? 1 : 2, (int64_t[]){ cols, rows }, 0, v, n * sizeof *v);
	free(v);
}

static char *path_new(const char *end)
{
	static int nth;
	char path[64];

	snprintf(path, sizeof path, "/tmp/t_train_%d_%d.%s", (int)getpid(), nth++, end);
	return strdup(path);
}

static char *model_make(const struct shape *s, const char *arch)
{
	struct mk m = { 0 };
	struct str file = { 0 };
	char *path = path_new("gguf"), name[64];
	int32_t wide = s->heads * s->dim, kv = s->kv_heads * s->dim;
	const struct {
		const char *name;
		uint32_t v;
	} keys[] = {
		{ "block_count", (uint32_t)s->layers },         { "context_length", 512 },
		{ "embedding_length", (uint32_t)wide },         { "feed_forward_length", (uint32_t)s->ff },
		{ "attention.head_count", (uint32_t)s->heads }, { "attention.head_count_kv", (uint32_t)s->kv_heads },
	};
	FILE *f;

	mk_string(&m, "general.architecture", arch);
	for (size_t i = 0; i < LEN(keys); i++) {
		snprintf(name, sizeof name, "%s.%s", arch, keys[i].name);
		mk_u32(&m, name, keys[i].v);
	}
	snprintf(name, sizeof name, "%s.attention.layer_norm_rms_epsilon", arch);
	mk_f32(&m, name, 1e-5f);
	mk_vocab(&m, VOCAB);
	weights(&m, "token_embd.weight", VOCAB, wide);
	weights(&m, "output_norm.weight", 1, wide);
	if (!s->tied)
		weights(&m, "output.weight", VOCAB, wide);
	for (int32_t i = 0; i < s->layers; i++) {
		const struct {
			const char *name;
			int32_t rows, cols;
		} all[] = {
			{ "attn_norm", 1, wide },    { "ffn_norm", 1, wide },   { "attn_q", wide, wide },
			{ "attn_k", kv, wide },      { "attn_v", kv, wide },    { "attn_output", wide, wide },
			{ "ffn_gate", s->ff, wide }, { "ffn_up", s->ff, wide }, { "ffn_down", wide, s->ff },
		};

		for (size_t k = 0; k < LEN(all); k++) {
			snprintf(name, sizeof name, "blk.%d.%s.weight", i, all[k].name);
			weights(&m, name, all[k].rows, all[k].cols);
		}
	}
	mk_finish(&m, &file);
	f = fopen(path, "wb");
	CHECK(f && fwrite(file.p, 1, file.n, f) == file.n && !fclose(f));
	str_free(&file);
	return path;
}

static struct engine *engine_new(const char *path, const char *lora, int inspect)
{
	struct engine *e = NULL;
	struct err err = { 0 };

	if (engine_open(&e,
	                &(struct engine_options){ .model_path = path,
	                                          .device = "cpu",
	                                          .threads = 2,
	                                          .inspect_only = inspect,
	                                          .lora = lora,
	                                          .lora_scale = 1 },
	                &err))
		test_fail(__FILE__, __LINE__, "%s: %s", path, err.msg);
	return e;
}

static struct trainer *trainer_new(struct engine *e, const struct train_settings *s)
{
	struct trainer *t = NULL;
	struct err err = { 0 };

	if (!e || trainer_open(&t, e, s, &err))
		test_fail(__FILE__, __LINE__, "%s", err.msg);
	return t;
}

static const struct train_settings plain = {
	.context = 24, .batch = 2, .steps = 6, .warmup = 2, .rate = 1e-2, .clip = 1, .seed = 7, .threads = 2
};
static const struct train_mask partial = { .k = 5, .prefill = 9, .stride = 4, .pool = 3 };

/* ---- gradients ---- */

/* Compare the gradient of a few values of one parameter with central differences of the loss in double. */
static void gradient_check(struct ref *r, const int32_t *id, const struct train_param *p, double *d, const char *what)
{
	const double h = 1e-5;

	for (int round = 0; p->g && round < 4; round++) {
		size_t i = test_rand() % p->n;
		double was = d[i], want;

		if (round == 3) /* a row of the embedding whose token occurs in the text */
			i = (size_t)id[r->n - 1] * (size_t)r->t->n_embd % p->n;
		was = d[i];
		d[i] = was + h;
		want = ref_loss(r, id);
		d[i] = was - h;
		want = (want - ref_loss(r, id)) / (2 * h);
		d[i] = was;
		CHECK_MSG(fabs((double)p->g[i] - want) < 2e-4 * (1 + fabs(want)),
		          "%s[%zu]: gradient %g, by differences %g", what, i, (double)p->g[i], want);
	}
}

static void gradients(const struct shape *s, const struct train_mask *mask, int32_t fixed, int32_t rank)
{
	struct train_settings set = plain;
	char *path = model_make(s, "llama");
	struct engine *e = engine_new(path, NULL, 1);
	struct trainer *t;
	struct ref r;
	int32_t id[32], n = set.context;
	double loss, want;

	set.mask = *mask;
	set.fixed = fixed;
	set.rank = rank;
	set.alpha = 2.5;
	t = trainer_new(e, &set);
	for (int32_t i = 0; i <= n; i++)
		id[i] = (int32_t)(test_rand() % VOCAB);
	for (int32_t i = 0; rank && i < t->n_layer; i++)
		for (int p = 0; p < TRAIN_TARGETS; p++)
			for (size_t k = 0; k < t->layer[i].m[p].b.n; k++)
				t->layer[i].m[p].b.w[k] = test_randf(-0.3f, 0.3f);
	t->sets = calloc((size_t)(n * t->n_kv_head * (mask->k + 1)), sizeof *t->sets);
	train_forward(t, id, n, mask);
	loss = train_loss(t, id, id + 1, fixed, n, 1);
	r = ref_new(t, mask, n, fixed);
	want = ref_loss(&r, id);
	r.frozen = 1;
	CHECK_MSG(fabs(loss - want) < 1e-4 * want, "loss %g, in double %g", loss, want);
	CHECK_MSG(fabs(ref_loss(&r, id) - want) < 1e-9 * want, "a frozen prefix changes the loss");
	gradient_check(&r, id, &t->embd, r.embd, "embedding");
	gradient_check(&r, id, &t->out_norm, r.out_norm, "last norm");
	if (r.out)
		gradient_check(&r, id, &t->out.w, r.out, "output");
	for (int32_t i = 0; i < t->n_layer; i++) {
		gradient_check(&r, id, &t->layer[i].attn_norm, r.layer[i].attn_norm, "attention's norm");
		gradient_check(&r, id, &t->layer[i].ffn_norm, r.layer[i].ffn_norm, "feed-forward's norm");
		for (int p = 0; p < TRAIN_TARGETS; p++) {
			gradient_check(&r, id, &t->layer[i].m[p].w, r.layer[i].m[p].w, train_target_name(p));
			gradient_check(&r, id, &t->layer[i].m[p].a, r.layer[i].m[p].a, train_target_name(p));
			gradient_check(&r, id, &t->layer[i].m[p].b, r.layer[i].m[p].b, train_target_name(p));
		}
	}
	ref_free(&r);
	trainer_close(t);
	engine_close(e);
	remove(path);
	free(path);
}

TEST(gradients_agree_with_differences_in_double)
{
	for (size_t i = 0; i < LEN(shapes); i++)
		for (int32_t fixed = 0; fixed <= 9; fixed += 9) {
			gradients(&shapes[i], &(struct train_mask){ 0 }, fixed, 0);
			gradients(&shapes[i], &partial, fixed, 0);
			gradients(&shapes[i], &partial, fixed, 3);
		}
}

/* ---- the engine ---- */

struct kept {
	float *v;
	int32_t n_vocab;
};
static void keep(int32_t pos, const float *logits, void *ud)
{
	struct kept *k = ud;

	memcpy(k->v + (size_t)pos * (size_t)k->n_vocab, logits, (size_t)k->n_vocab * sizeof *logits);
}

/* Return the logits after each of n tokens; the first `prefill` tokens are prefilled, the others decoded. */
static float *engine_logits(struct engine *e, const char *kv, const int32_t *id, size_t n, size_t prefill)
{
	struct timeline *tl = NULL;
	struct kept k = { .n_vocab = engine_info(e)->n_vocab };
	struct err err = { 0 };

	k.v = calloc(n * (size_t)k.n_vocab, sizeof *k.v);
	if (timeline_open(&tl, e, &(struct timeline_options){ .ctx = 512, .kv = kv, .kv_type = "f32" }, &err))
		test_fail(__FILE__, __LINE__, "%s", err.msg);
	CHECK_MSG(tl && !timeline_extend(tl, id, prefill, 0, keep, &k, &err), "%s", err.msg);
	CHECK_MSG(tl && (prefill == n || !timeline_extend(tl, id + prefill, n - prefill, 1, keep, &k, &err)), "%s",
	          err.msg);
	timeline_close(tl);
	return k.v;
}

static void story(struct engine *e, struct tokens *t)
{
	static const char text[] =
		"Once upon a time, there was a little girl named Lily. She loved to play outside in the park. One day, she saw a big red ball. "
		"She wanted to play with it, but a dog took the ball and ran away. Lily was sad. Her mom said: do not cry, we will find it. They went to "
		"look for the dog and saw it under a tree. The dog gave the ball back and they all played together until the sun went down.";
	struct err err = { 0 };

	CHECK_MSG(!engine_tokenize(e, text, sizeof text - 1, TOKENIZE_BOS, t, &err), "%s", err.msg);
}

TEST(the_forward_pass_is_the_engines_and_the_mask_the_policys)
{
	const char *path = test_file("tests/vectors/stories260K/stories260K-f16.gguf");
	struct engine *e = engine_new(path, NULL, 1), *runs = engine_new(path, NULL, 0);
	struct train_mask masks[2] = { { 0 }, { .k = 24, .prefill = 60, .stride = 10, .pool = 7 } };
	const char *const kv[2] = { "full", "recycled:k=24,stride=10,pool=7,scan=kv" };
	struct tokens t = { 0 };
	struct train_settings s = plain;
	struct trainer *tr;
	size_t n;

	story(e, &t);
	s.context = (int32_t)t.n - 1;
	tr = trainer_new(e, &s);
	n = (size_t)s.context * (size_t)engine_info(e)->n_vocab;
	CHECK(t.n > 90);
	for (int i = 0; i < 2; i++) {
		float *got = calloc(n, sizeof *got),
		      *want = engine_logits(runs, kv[i], t.id, (size_t)s.context, i ? 60 : (size_t)s.context);
		struct err err = { 0 };

		CHECK_MSG(!trainer_logits(tr, t.id, &masks[i], got, &err), "%s", err.msg);
		CHECK_MSG(test_nmse(got, want, n) < 1e-10, "%s: error %g against the engine", kv[i],
		          test_nmse(got, want, n));
		free(got);
		free(want);
	}
	tokens_free(&t);
	trainer_close(tr);
	engine_close(e);
	engine_close(runs);
}

/* ---- training ---- */

static void text_of(int32_t *id, size_t n)
{
	for (size_t i = 0; i < n; i++)
		id[i] = (int32_t)((i * i / 3 + i * 7) % 40 + 200);
}

static double run(struct trainer *t, const int32_t *id, size_t n, int32_t steps)
{
	struct train_report r = { 0 };
	struct err err = { 0 };

	while (t && trainer_at(t) < steps)
		if (trainer_step(t, id, n, NULL, &r, &err)) {
			test_fail(__FILE__, __LINE__, "%s", err.msg);
			break;
		}
	return r.loss;
}

static int same(const struct trainer *a, const struct trainer *b)
{
	int same = a->n_param == b->n_param && a->step == b->step;

	for (size_t i = 0; same && i < a->n_param; i++)
		same = !memcmp(a->param[i]->w, b->param[i]->w, a->param[i]->n * 4) &&
		       !memcmp(a->param[i]->m, b->param[i]->m, a->param[i]->n * 4) &&
		       !memcmp(a->param[i]->v, b->param[i]->v, a->param[i]->n * 4);
	return same;
}

TEST(an_interrupted_training_and_other_threads_give_the_same_bits)
{
	int32_t id[400];
	char *path = model_make(&shapes[0], "llama"), *point = path_new("checkpoint");
	struct engine *e = engine_new(path, NULL, 1);

	text_of(id, 400);
	for (int32_t rank = 0; rank <= 2; rank += 2) {
		struct train_settings s = plain;
		struct trainer *whole, *half, *rest, *other;
		struct err err = { 0 };
		FILE *f;

		s.rank = rank;
		s.alpha = 4;
		s.mask = partial;
		whole = trainer_new(e, &s);
		half = trainer_new(e, &s);
		rest = trainer_new(e, &s);
		run(whole, id, 400, 6);
		CHECK_INT(trainer_load(rest, point, &err), 0);
		run(half, id, 400, 3);
		CHECK_MSG(!trainer_save(half, point, &err), "%s", err.msg);
		CHECK_MSG(trainer_load(rest, point, &err) == 1, "%s", err.msg);
		CHECK_INT(trainer_at(rest), 3);
		run(rest, id, 400, 6);
		CHECK_MSG(same(whole, rest), "rank %d: going on gives other bits", rank);
		for (s.threads = 1; s.threads <= 3; s.threads++) {
			other = trainer_new(e, &s);
			run(other, id, 400, 6);
			CHECK_MSG(same(whole, other), "rank %d: %d threads give other bits", rank, s.threads);
			trainer_close(other);
		}
		s.rate /= 2;
		other = trainer_new(e, &s);
		CHECK_INT(trainer_load(other, point, &err), -1);
		CHECK_MSG(strstr(err.msg, "another training"), "%s", err.msg);
		f = fopen(point, "r+b");
		CHECK(f && !fseek(f, 200, SEEK_SET) && fputc(77, f) == 77 && !fclose(f));
		CHECK_INT(trainer_load(half, point, &err), -1);
		CHECK_MSG(strstr(err.msg, "damaged"), "%s", err.msg);
		CHECK(!truncate(point, 300));
		CHECK_INT(trainer_load(half, point, &err), -1);
		trainer_close(other);
		trainer_close(whole);
		trainer_close(half);
		trainer_close(rest);
		remove(point);
	}
	engine_close(e);
	remove(path);
	free(path), free(point);
}

TEST(the_loss_falls_and_what_is_written_loads)
{
	int32_t id[400];
	char *path = model_make(&shapes[0], "llama"), *out = path_new("gguf");

	text_of(id, 400);
	for (int i = 0; i < 4; i++) {
		struct engine *e = engine_new(path, NULL, 1), *runs;
		struct train_settings s = plain;
		struct trainer *t;
		struct err err = { 0 };
		int half = i % 2;
		double first, last;
		size_t n = (size_t)s.context * VOCAB;
		float *got = calloc(n, sizeof *got), *want;

		s.rank = i < 2 ? 0 : 4;
		s.alpha = 8;
		s.steps = 60;
		t = trainer_new(e, &s);
		first = run(t, id, 400, 1);
		last = run(t, id, 400, 60);
		CHECK_MSG(last < 0.8 * first, "rank %d: the loss was %g and is %g", s.rank, first, last);
		CHECK_MSG(!trainer_write(t, out, half, &err), "%s", err.msg);
		CHECK_MSG(!trainer_logits(t, id, &s.mask, got, &err), "%s", err.msg);
		runs = engine_new(s.rank ? path : out, s.rank ? out : NULL, 0);
		want = engine_logits(runs, "full", id, (size_t)s.context, (size_t)s.context);
		CHECK_MSG(test_nmse(got, want, n) < (half ? 1e-5 : 1e-9), "rank %d, half %d: error %g", s.rank, half,
		          test_nmse(got, want, n));
		engine_close(runs);
		trainer_close(t);
		engine_close(e);
		free(got), free(want);
		remove(out);
	}
	remove(path);
	free(path), free(out);
}

TEST(what_cannot_be_trained_is_refused)
{
	static const char *const models[] = { "qwen3", "gemma2", "olmoe" };
	const struct {
		const char *text, *why;
	} masks[] = {
		{ "half", "no mask" },
		{ "recycled:", "no mask" },
		{ "recycled:k=0", "no mask" },
		{ "recycled:k=4,prefill=2", "at least k" },
		{ "recycled:k=4,prefill=9,pool=2", "odd" },
		{ "recycled:k=4,prefill=9x", "no mask" },
		{ "recycled:k=4;prefill=9", "no mask" },
	};
	struct train_mask m;
	struct err err = { 0 };

	for (size_t i = 0; i < LEN(models); i++) {
		char rel[80];
		struct engine *e;
		struct trainer *t = NULL;

		snprintf(rel, sizeof rel, "tests/vectors/models/%s.gguf", models[i]);
		if (access(test_file(rel), R_OK))
			continue;
		e = engine_new(test_file(rel), NULL, 1);
		CHECK_INT(trainer_open(&t, e, &plain, &err), -1);
		CHECK_MSG(strstr(err.msg, "cannot be trained"), "%s", err.msg);
		engine_close(e);
	}
	for (size_t i = 0; i < LEN(masks); i++) {
		CHECK_INT(train_mask_parse(masks[i].text, &m, &err), -1);
		CHECK_MSG(strstr(err.msg, masks[i].why), "%s: %s", masks[i].text, err.msg);
	}
	CHECK(!train_mask_parse("recycled:prefill=100,k=64,stride=25,pool=15", &m, &err));
	CHECK(m.prefill == 100 && m.k == 64 && m.stride == 25 && m.pool == 15);
	CHECK(!train_mask_parse("full", &m, &err) && m.k == 0);
}
