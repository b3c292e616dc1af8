/* tests/t_snapshot.c - a sequence that is saved and loaded goes on bit for bit, under every cache policy, wherever it is cut.
 *
 * The same random life is led by one timeline; at some point it is saved and a fresh one loads it.  From there on both do the
 * same, and every token, every logit and every answer of the interface must be equal.  WEIR_SOAK=N: N times as many, and
 * no fewer than 1,000 save points.  Then damage: heads with flipped and missing bytes, also under a checksum that is right. */
#include "tests/test.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/archive.h"
#include "engine/engine.h"
#include "tests/mkgguf.h"

/* ---- tiny models ---- */

enum { N_VOCAB = 288, WIDTH = 64, FF = 96, LAYERS = 3, HEADS = 4, KV_HEADS = 2, HEAD = 32, TRAINED = 2048 };

static const struct family { const char *arch; int bias, norms, tied; } families[] = {
	{ "llama", 0, 0, 1 }, { "qwen2", 1, 0, 0 }, { "qwen3", 0, 1, 1 },
};
enum { FAMILIES = 3 };

static void put_weights(struct mk *m, const char *name, int32_t rows, int32_t cols)
{
	size_t n = (size_t)rows * (size_t)cols;
	float *v = xcalloc(n, sizeof *v);
	uint64_t x = 88172645463325252u;

	for (const char *c = name; *c; c++)
		x = (x ^ (unsigned char)*c) * 0x9e3779b97f4a7c15u;
	for (size_t i = 0; i < n; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		v[i] = strstr(name, "norm") ? 1 : ((float)(x >> 40) / (float)(1 << 23) - 1) * 0.4f;
	}
	mk_tensor(m, name, rows == 1 ? 1 : 2, (int64_t[]){ cols, rows }, 0, v, n * sizeof *v);
	free(v);
}

static void put_layer(struct mk *m, const struct family *f, int layer)
{
	const struct { const char *name; int32_t rows, cols; int want; } all[] = {
		{ "attn_norm.weight", 1, WIDTH, 1 }, { "attn_q.weight", HEADS * HEAD, WIDTH, 1 },
		{ "attn_k.weight", KV_HEADS * HEAD, WIDTH, 1 }, { "attn_v.weight", KV_HEADS * HEAD, WIDTH, 1 },
		{ "attn_q.bias", 1, HEADS * HEAD, f->bias }, { "attn_k.bias", 1, KV_HEADS * HEAD, f->bias },
		{ "attn_v.bias", 1, KV_HEADS * HEAD, f->bias }, { "attn_q_norm.weight", 1, HEAD, f->norms },
		{ "attn_k_norm.weight", 1, HEAD, f->norms }, { "attn_output.weight", WIDTH, HEADS * HEAD, 1 },
		{ "ffn_norm.weight", 1, WIDTH, 1 }, { "ffn_gate.weight", FF, WIDTH, 1 }, { "ffn_up.weight", FF, WIDTH, 1 },
		{ "ffn_down.weight", WIDTH, FF, 1 },
	};

	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		char name[64];

		snprintf(name, sizeof name, "blk.%d.%s", layer, all[i].name);
		if (all[i].want)
			put_weights(m, name, all[i].rows, all[i].cols);
	}
}

static void put_int(struct mk *m, const char *arch, const char *suffix, uint32_t v)
{
	char key[80];

	snprintf(key, sizeof key, "%s.%s", arch, suffix);
	mk_u32(m, key, v);
}

static struct engine *open_with(const struct family *f, int threads, uint32_t trained, float base)
{
	char path[] = "/tmp/weir-t_snapshot-XXXXXX", key[80];
	struct engine *e = NULL;
	struct str file = { 0 };
	struct mk m = { 0 };
	struct err err = { 0 };
	int fd = mkstemp(path);

	mk_string(&m, "general.architecture", f->arch);
	put_int(&m, f->arch, "block_count", LAYERS);
	put_int(&m, f->arch, "context_length", trained);
	put_int(&m, f->arch, "embedding_length", WIDTH);
	put_int(&m, f->arch, "feed_forward_length", FF);
	put_int(&m, f->arch, "attention.head_count", HEADS);
	put_int(&m, f->arch, "attention.head_count_kv", KV_HEADS);
	put_int(&m, f->arch, "attention.key_length", HEAD);
	put_int(&m, f->arch, "attention.value_length", HEAD);
	snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", f->arch);
	mk_f32(&m, key, 1e-5f);
	snprintf(key, sizeof key, "%s.rope.freq_base", f->arch);
	mk_f32(&m, key, base);
	mk_vocab(&m, N_VOCAB);
	put_weights(&m, "token_embd.weight", N_VOCAB, WIDTH);
	put_weights(&m, "output_norm.weight", 1, WIDTH);
	if (!f->tied)
		put_weights(&m, "output.weight", N_VOCAB, WIDTH);
	for (int i = 0; i < LAYERS; i++)
		put_layer(&m, f, i);
	mk_finish(&m, &file);
	if (fd < 0 || write(fd, file.p, file.n) != (ssize_t)file.n)
		test_skip("no temporary file: %s", strerror(errno));
	close(fd);
	str_free(&file);
	if (engine_open(&e, &(struct engine_options){ .model_path = path, .threads = threads }, &err))
		test_skip("%s", err.msg);
	unlink(path);
	return e;
}

static struct engine *open_tiny(int family, int threads)
{
	return open_with(&families[family], threads, TRAINED, 10000);
}

/* ---- saving and loading ---- */

struct saved { struct str rows, head; int32_t ready; };

static void saved_free(struct saved *s)
{
	str_free(&s->rows);
	str_free(&s->head);
}

/* Rows in pieces of random size. */
static int save(struct timeline *t, struct saved *s, struct err *err)
{
	size_t row = timeline_row_bytes(t);

	*s = (struct saved){ .ready = timeline_rows_ready(t) };
	for (int32_t at = 0, n; at < s->ready; at += n) {
		char *piece;

		n = 1 + (int32_t)(test_rand() % 300);
		n = n < s->ready - at ? n : s->ready - at;
		piece = xmalloc(row * (size_t)n);
		if (timeline_rows_save(t, at, n, piece, err))
			return -1;
		str_add(&s->rows, &n, sizeof n);
		str_add(&s->rows, piece, row * (size_t)n);
		free(piece);
	}
	return timeline_head_save(t, &s->head, err);
}

static int load_rows(struct timeline *t, const struct saved *s, struct err *err)
{
	size_t row = timeline_row_bytes(t), at = 0;
	int32_t n;

	for (int32_t first = 0; at < s->rows.n; first += n, at += sizeof n + row * (size_t)n) {
		memcpy(&n, s->rows.p + at, sizeof n);
		if (timeline_rows_load(t, first, n, s->rows.p + at + sizeof n, err))
			return -1;
	}
	return 0;
}

static int load(struct timeline *t, const struct saved *s, struct err *err)
{
	return load_rows(t, s, err) || timeline_head_load(t, s->head.p, s->head.n, err) ? -1 : 0;
}

/* ---- two timelines that must be one ---- */

struct life {
	struct engine *e;
	const char *kv, *type;
	int32_t ctx, batch, pin, n_vocab;
	struct timeline *t[2];      /* t[1] from the save point on */
	struct sampling s[2];
	int twins;
	char at[160];               /* for messages: where we are */
};

static struct timeline *open_life(const struct life *l)
{
	struct timeline *t = NULL;
	struct err err = { 0 };

	if (timeline_open(&t, l->e, &(struct timeline_options){ .ctx = l->ctx, .batch = l->batch, .kv = l->kv, .kv_type = l->type },
	                  &err))
		test_skip("%s: %s", l->kv, err.msg);
	return t;
}

static void same_state(struct life *l)
{
	struct timeline_stats a, b;
	size_t n, m;
	const int32_t *x, *y;
	const uint8_t *p, *q;
	const float *u, *v;

	if (!l->twins)
		return;
	x = timeline_tokens(l->t[0], &n);
	y = timeline_tokens(l->t[1], &m);
	CHECK_MSG(n == m && (!n || !memcmp(x, y, n * sizeof *x)), "%s: other tokens (%zu, %zu)", l->at, n, m);
	p = timeline_marks(l->t[0], &n);
	q = timeline_marks(l->t[1], &m);
	CHECK_MSG(n == m && (!n || !memcmp(p, q, n)), "%s: other marks (%zu, %zu)", l->at, n, m);
	CHECK_MSG(timeline_rows_ready(l->t[0]) == timeline_rows_ready(l->t[1]), "%s: %d rows ready, not %d", l->at,
	          timeline_rows_ready(l->t[1]), timeline_rows_ready(l->t[0]));
	u = timeline_logits(l->t[0]);
	v = timeline_logits(l->t[1]);
	CHECK_MSG(!u == !v && (!u || !memcmp(u, v, (size_t)l->n_vocab * sizeof *u)), "%s: other logits", l->at);
	timeline_stats(l->t[0], &a);
	timeline_stats(l->t[1], &b);
	CHECK_MSG(!memcmp(&a.rows, &b.rows, sizeof a.rows) && a.ctx == b.ctx, "%s: other rows", l->at);
	CHECK_MSG(timeline_read_bytes(l->t[0], a.rows.seen, 1) == timeline_read_bytes(l->t[1], a.rows.seen, 1),
	          "%s: other bytes to read", l->at);
}

static void sync_both(struct life *l, const int32_t *id, size_t n)
{
	int32_t kept[2] = { 0, 0 };
	struct err err = { 0 };

	for (int i = 0; i <= l->twins; i++)
		if ((kept[i] = timeline_sync(l->t[i], id, n, NULL, NULL, &err)) < 0)
			CHECK_MSG(0, "%s: sync: %s", l->at, err.msg);
	CHECK_MSG(!l->twins || kept[0] == kept[1], "%s: %d tokens reused, not %d", l->at, kept[1], kept[0]);
	same_state(l);
}

static void step_both(struct life *l, int steps)
{
	struct step_out out[2];
	struct err err = { 0 };
	const int32_t other = 5;
	int rc[2];

	for (int k = 0; k < steps; k++) {
		for (int i = 0; i <= l->twins; i++)
			if ((rc[i] = timeline_step(l->t[i], &l->s[i], &out[i], &err)) < 0) {
				CHECK_MSG(err.code == ERR_FIT, "%s: step %d: %s", l->at, k, err.msg);
				return;
			} else if (!rc[i] && timeline_extend(l->t[i], &other, 1, 1, NULL, NULL, &err)) {
				CHECK_MSG(err.code == ERR_FIT, "%s: %s", l->at, err.msg);
				return;
			}
		if (l->twins && (rc[0] != rc[1] || out[0].id != out[1].id)) {
			CHECK_MSG(0, "%s: step %d gives token %d, not %d", l->at, k, out[1].id, out[0].id);
			return;
		}
	}
	/* The token sampled last gets its row: the logits after it show the whole cache. */
	for (int i = 0; i <= l->twins; i++)
		if (test_rand() % 2 || l->twins)
			timeline_extend(l->t[i], &other, 1, 1, NULL, NULL, &err);
	same_state(l);
}

/* Text that goes on from `keep` tokens of what is there. */
static void read_on(struct life *l, size_t keep, int32_t n)
{
	struct tokens id = { 0 };
	size_t have, most = l->ctx - 2;
	const int32_t *now = timeline_tokens(l->t[0], &have);
	struct timeline_stats st;

	timeline_stats(l->t[0], &st);
	keep = keep < have ? keep : have;
	tokens_append(&id, now, keep);
	for (int32_t i = 0; i < n; i++)
		tokens_add(&id, 3 + (int32_t)(test_rand() % (uint64_t)(l->n_vocab - 3)));
	if (!st.endless && id.n > most)
		id.n = most;
	sync_both(l, id.id, id.n);
	tokens_free(&id);
}

static void something(struct life *l, int32_t scale)
{
	size_t have;

	timeline_tokens(l->t[0], &have);
	switch (test_rand() % 6) {
	case 0: case 1:
		read_on(l, have, 1 + (int32_t)(test_rand() % (uint64_t)scale));
		break;
	case 2:   /* an edit */
		read_on(l, have ? test_rand() % have : 0, 1 + (int32_t)(test_rand() % 40));
		break;
	case 3:   /* fewer */
		read_on(l, have > 3 ? have - test_rand() % 3 : have, 0);
		break;
	default:
		step_both(l, 1 + (int)(test_rand() % (uint64_t)scale));
		break;
	}
}

static void begin(struct life *l, uint64_t seed)
{
	struct err err = { 0 };

	l->t[0] = open_life(l);
	l->twins = 0;
	l->s[0] = sampling_default;
	if (seed % 2)
		l->s[0].temperature = 0;
	else
		l->s[0].temperature = 1.2f;
	sampling_seed(&l->s[0], seed);
	if (l->pin && timeline_pin(l->t[0], l->pin, &err))
		CHECK_MSG(0, "%s: %s", l->kv, err.msg);
}

/* Save, load into a fresh one, and be twins from now on. */
static int part(struct life *l)
{
	struct saved s;
	struct err err = { 0 };
	int failed = save(l->t[0], &s, &err);

	CHECK_MSG(!failed, "%s: saving: %s", l->at, err.msg);
	l->t[1] = open_life(l);
	l->s[1] = l->s[0];
	l->twins = 1;
	if (!failed) {
		failed = load(l->t[1], &s, &err);
		CHECK_MSG(!failed, "%s: loading: %s", l->at, err.msg);
	}
	saved_free(&s);
	same_state(l);
	return failed;
}

static void end(struct life *l)
{
	timeline_close(l->t[0]);
	if (l->twins)
		timeline_close(l->t[1]);
}

static const struct { const char *kv; int32_t ctx, batch, pin, scale; } lives[] = {
	{ "full", 1024, 64, 0, 200 },
	{ "full", 700, 7, 0, 60 },
	{ "sift:k=40", 1024, 64, 0, 200 },
	{ "sift:k=1/8,every=3,bits=4", 1024, 64, 0, 200 },
	{ "sift:k=32,split=even,dense=1,bits=16", 900, 100, 0, 150 },
	{ "sift:k=24,every=5", 900, 20, 0, 80 },
	{ "refresh:k=40", 1024, 64, 0, 200 },
	{ "refresh:k=40,qc=0,stride=7,sinks=2,recent=5", 1024, 64, 0, 150 },
	{ "refresh:k=1/16,scan=kv,group=mean,query=post,qc=2,s=0.99", 1024, 64, 0, 150 },
	{ "recycled:k=30,stride=4,group=first", 1024, 64, 0, 150 },
	{ "streaming++:size=50,stride=6", 1024, 64, 0, 150 },
	{ "quest:k=64", 1024, 64, 0, 200 },
	{ "quest:k=64,bound=raw", 1024, 64, 0, 200 },
	{ "h2o:k=40", 1024, 64, 0, 150 },
	{ "h2o+:k=40,dense=1", 1024, 200, 0, 150 },
	{ "snapkv:k=50", 1024, 64, 0, 150 },
	{ "snapkv:k=40,window=1,kind=avg", 1024, 64, 0, 150 },
	{ "sink:size=100,stride=32", 1024, 64, 0, 200 },
	{ "sink:size=700,stride=32", 1024, 64, 0, 100 },
	{ "cascade:size=96,stride=32", 1024, 64, 0, 200 },
	{ "cascade:size=96,n=3,f=3,heads=layer,sinks=0,stride=64", 1024, 64, 0, 200 },
	{ "cascade:size=120,n=4,score=surprise,stride=30", 1024, 64, 0, 200 },
	{ "cascade:size=64,n=2,select=0,stride=16", 1024, 64, 0, 200 },
	{ "cascade:size=96,n=8,reduce=median,stride=64", 1024, 64, 0, 200 },
	{ "cascade:size=800,stride=64", 1024, 64, 0, 100 },
	{ "auto", 256, 64, 0, 150 },
	{ "auto", 2000, 200, 0, 200 },
	{ "auto:k=20", 400, 64, 150, 100 },
	{ "auto:k=20,every=4,size=64", 600, 64, 200, 100 },
	{ "auto:prefix=refresh,k=30,size=80", 600, 64, 200, 100 },
	{ "auto:prefix=full", 400, 64, 120, 150 },
	{ "auto:k=32,score=surprise,heads=layer,size=64", 600, 64, 100, 100 },
};
enum { LIVES = sizeof lives / sizeof *lives };

static int soak(void)
{
	const char *s = getenv("WEIR_SOAK");

	return s && strtol(s, NULL, 10) > 0 ? (int)strtol(s, NULL, 10) : 0;
}

TEST(what_was_loaded_goes_on_bit_for_bit)
{
	static const char *const types[] = { "f16", "f32", "q8_0" };
	int points = soak() ? (150 * soak() > 1000 ? 150 * soak() : 1000) : 5 * LIVES, bytes = 0;
	struct engine *e[FAMILIES];

	for (int i = 0; i < FAMILIES; i++)
		e[i] = open_tiny(i, 1 + i % 2);
	for (int i = 0; i < points; i++) {
		int which = i % LIVES, round = i / LIVES;
		struct life l = {
			.e = e[(round + which) % FAMILIES], .kv = lives[which].kv, .type = types[(round + which / 3) % 3],
			.ctx = lives[which].ctx, .batch = lives[which].batch, .pin = lives[which].pin, .n_vocab = N_VOCAB,
		};

		snprintf(l.at, sizeof l.at, "point %d, %s, %s", i, l.kv, l.type);
		begin(&l, (uint64_t)i + 1);
		read_on(&l, 0, 1 + (int32_t)(test_rand() % (uint64_t)(2 * lives[which].scale)));
		for (int k = (int)(test_rand() % 6); k > 0; k--)
			something(&l, lives[which].scale);
		if (!part(&l)) {
			bytes++;
			step_both(&l, 64 + (int)(test_rand() % (soak() ? 193 : 33)));
			for (int k = 0; k < 3; k++)
				something(&l, lives[which].scale);
			step_both(&l, 10);
		}
		end(&l);
	}
	test_note("%d save points", points);
	for (int i = 0; i < FAMILIES; i++)
		engine_close(e[i]);
}
